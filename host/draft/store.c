#include "host/draft/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "proto/draft.pb-c.h"
#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "shared/wire/message.h"

#define ABOUT      "about"
#define NEW_PREFIX ".new-"
#define OLD_PREFIX ".old-"
#define ID_CHARS   8
#define ABOUT_MAX  (DRAFT_DIRS_MAX * (PATH_LEN_MAX + 64) + PATH_LEN_MAX + 256)
#define MAKE_TRIES 8 /* ids that exist already */

static const char id_alphabet[] = "0123456789abcdefghijkmnpqrstuvwxyz";

bool
draft_id_valid(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len <= DRAFT_ID_MAX && strcmp(id, ".") != 0 && strcmp(id, "..") != 0 &&
	    id[0] != '.' &&
	    strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

/* Returns drafts/<root> in koda's own directory, for reading names; -1 with errno. */
static int
open_all(const char *state, const char *root, bool make)
{
	cleanup_free char *name = state_quarantine_name(root), *path = NULL;

	if (name == NULL || asprintf(&path, "%s/drafts/%s", state, name) < 0) {
		path = NULL;
		errno = ENOMEM;
		return -1;
	}
	if (make && state_make(path) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- about ---- */

static void
drop_dirs(struct draft *d)
{
	for (size_t i = 0; i < d->n_dirs; i++)
		free(d->dir[i].path);
	free(d->root);
	d->root = NULL;
	d->n_dirs = 0;
}

static int
write_about(const struct draft *d, struct koda_error *err)
{
	Koda__DraftAbout about = KODA__DRAFT_ABOUT__INIT;
	Koda__DraftDirectory dir[DRAFT_DIRS_MAX], *list[DRAFT_DIRS_MAX];
	cleanup_free uint8_t *packed = NULL;
	cleanup_close int fd = -1;
	size_t len;

	about.version = DRAFT_VERSION;
	about.root = message_text(d->root);
	about.begun_ns = d->begun_ns;
	for (size_t i = 0; i < d->n_dirs; i++) {
		koda__draft_directory__init(&dir[i]);
		dir[i].path = message_text(d->dir[i].path);
		dir[i].dev = (uint64_t)d->dir[i].dev;
		dir[i].ino = (uint64_t)d->dir[i].ino;
		dir[i].name = message_text(d->dir[i].name);
		list[i] = &dir[i];
	}
	about.directory = list;
	about.n_directory = d->n_dirs;
	len = koda__draft_about__get_packed_size(&about);
	packed = malloc(len);
	if (packed == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	koda__draft_about__pack(&about, packed);
	fd = openat(d->fd, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, packed, len) < 0 || fsync(fd) < 0)
		return err_set(err, KODA_IO, errno, "write what the draft is of");
	return 0;
}

static char *
text_of(const ProtobufCBinaryData *b)
{
	return b->len > 0 && memchr(b->data, '\0', b->len) == NULL
	    ? strndup((const char *)b->data, b->len)
	    : NULL;
}

static int
take_about(const Koda__DraftAbout *about, struct draft *d, struct koda_error *err)
{
	if (about->version != DRAFT_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "draft '%s' was made by another version of koda-sandbox", d->id);
	if (about->n_directory == 0 || about->n_directory > DRAFT_DIRS_MAX)
		return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
	d->root = text_of(&about->root);
	d->begun_ns = about->begun_ns;
	for (size_t i = 0; i < about->n_directory; i++) {
		const Koda__DraftDirectory *from = about->directory[i];
		struct draft_dir *to = &d->dir[d->n_dirs];

		if (from->name.len == 0 || from->name.len >= sizeof(to->name) ||
		    strspn((const char *)from->name.data, "0123456789") < from->name.len)
			return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
		memcpy(to->name, from->name.data, from->name.len);
		to->name[from->name.len] = '\0';
		to->dev = (dev_t)from->dev;
		to->ino = (ino_t)from->ino;
		to->path = text_of(&from->path);
		if (to->path == NULL || to->path[0] != '/')
			return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
		d->n_dirs++;
	}
	return d->root != NULL ? 0 : err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
}

/* Returns how much there is, at most `size`; -1 with errno. */
static ssize_t
read_whole(int fd, uint8_t *data, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n < size && (got = read(fd, data + n, size - n)) != 0) {
		if (got < 0 && errno != EINTR)
			return -1;
		n += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)n;
}

static int
read_about(struct draft *d, struct koda_error *err)
{
	cleanup_close int fd = openat(d->fd, ABOUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free uint8_t *data = malloc(ABOUT_MAX);
	const Koda__DraftAbout *about;
	struct arena arena;
	ssize_t n;
	int r = -1;

	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	n = fd < 0 ? -1 : read_whole(fd, data, ABOUT_MAX);
	if (n < 0)
		return err_set(err, KODA_IO, errno, "read what draft '%s' is of", d->id);
	arena_init(&arena);
	about = (const Koda__DraftAbout *)message_unpack(&koda__draft_about__descriptor, data,
	    (size_t)n, &arena, err);
	if (about != NULL)
		r = take_about(about, d, err);
	arena_done(&arena);
	return r;
}

/* ---- making one ---- */

static int64_t
now_ns(void)
{
	struct timespec ts;

	/* The clock that the kernel stamps files with. */
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int
add_dir(struct draft *d, const char *path, struct koda_error *err)
{
	cleanup_close int fd = state_open_directory(path, err);
	struct draft_dir *dir = &d->dir[d->n_dirs];
	char part[sizeof(dir->name) + 2];
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "'%s' is not a directory: it gets no draft",
		    path);
	snprintf(dir->name, sizeof(dir->name), "%zu", d->n_dirs);
	if (mkdirat(d->fd, dir->name, 0700) < 0)
		return err_set(err, KODA_IO, errno, "make a draft");
	for (size_t i = 0; i < 2; i++) {
		snprintf(part, sizeof(part), "%s/%c", dir->name, "uw"[i]);
		/* What is seen of the directory itself is the upper one's mode. */
		if (mkdirat(d->fd, part, 0700) < 0 ||
		    (i == 0 && fchmodat(d->fd, part, st.st_mode & 07777, 0) < 0))
			return err_set(err, KODA_IO, errno, "make a draft");
	}
	dir->dev = st.st_dev;
	dir->ino = st.st_ino;
	dir->path = strdup(path);
	d->n_dirs += dir->path != NULL;
	return dir->path != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "draft");
}

static int
fill_new(struct draft *d, const char *root, const char *const *dirs, size_t n,
    struct koda_error *err)
{
	if (flock(d->fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, KODA_IO, errno, "lock a new draft");
	d->root = strdup(root);
	d->begun_ns = now_ns();
	if (d->root == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	for (size_t i = 0; i < n; i++)
		if (add_dir(d, dirs[i], err) < 0)
			return -1;
	return write_about(d, err);
}

static void
choose_id(char id[DRAFT_ID_MAX + 1])
{
	for (size_t i = 0; i < ID_CHARS; i++)
		id[i] = id_alphabet[randombytes_uniform(sizeof(id_alphabet) - 1)];
	id[ID_CHARS] = '\0';
}

/* Remove `name`, which no slot uses, and what is in it. */
static void
remove_tree(int all, const char *name)
{
	cleanup_close int fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && cache_tree_empty(fd, CACHE_NO_DEADLINE) > 0)
		unlinkat(all, name, AT_REMOVEDIR);
}

int
draft_make(const char *state, const char *root, const char *const *dirs, size_t n,
    struct draft *ret, struct koda_error *err)
{
	cleanup_close int all = open_all(state, root, true);
	char name[sizeof(NEW_PREFIX) + DRAFT_ID_MAX];
	int r;

	*ret = DRAFT_CLOSED;
	if (all < 0)
		return err_set(err, KODA_IO, errno, "make the directory of drafts in '%s'", state);
	if (n == 0 || n > DRAFT_DIRS_MAX)
		return err_set(err, KODA_INVALID, 0,
		    "a draft of %zu directories: at least 1 and at most %d are possible", n,
		    DRAFT_DIRS_MAX);
	for (int i = 0; i < MAKE_TRIES; i++) {
		choose_id(ret->id);
		snprintf(name, sizeof(name), NEW_PREFIX "%s", ret->id);
		if (mkdirat(all, name, 0700) == 0)
			break;
	}
	ret->fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return err_set(err, KODA_IO, errno, "make a draft");
	r = fill_new(ret, root, dirs, n, err);
	if (r == 0 && renameat2(all, name, all, ret->id, RENAME_NOREPLACE) < 0)
		r = err_set(err, KODA_IO, errno, "name the draft");
	if (r == 0)
		return 0;
	draft_close(ret);
	remove_tree(all, name);
	return -1;
}

/* ---- the others ---- */

static int
open_one(int all, const char *id, bool lock, struct draft *ret, struct koda_error *err)
{
	struct stat st, now;

	*ret = DRAFT_CLOSED;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->fd = openat(all, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO, errno,
		    "there is no draft '%s'", id);
	if (lock && flock(ret->fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, KODA_CONFLICT, 0,
		    "draft '%s' is in use by another process: end that one first", id);
	/* Between the two calls it may have been discarded. */
	if (fstat(ret->fd, &st) < 0 || fstatat(all, id, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_ino != now.st_ino || st.st_dev != now.st_dev || st.st_uid != geteuid())
		return err_set(err, KODA_INVALID, 0, "there is no draft '%s'", id);
	return read_about(ret, err);
}

/* overlayfs refuses a working directory that a volatile mount has used: it cannot tell whether all
 * changes were written. The changes themselves are the kernel's as soon as a command made them. */
int
draft_renew(const struct draft *d, struct koda_error *err)
{
	for (size_t i = 0; i < d->n_dirs; i++) {
		cleanup_close int fd = -1;
		char name[sizeof(d->dir[i].name) + 2];

		snprintf(name, sizeof(name), "%s/w", d->dir[i].name);
		fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || cache_tree_empty(fd, CACHE_NO_DEADLINE) < 0)
			return err_set(err, KODA_IO, errno, "prepare draft '%s'", d->id);
	}
	return 0;
}

int
draft_open(const char *state, const char *root, const char *id, struct draft *ret,
    struct koda_error *err)
{
	cleanup_close int all = -1;

	*ret = DRAFT_CLOSED;
	if (!draft_id_valid(id))
		return err_set(err, KODA_INVALID, 0,
		    "'%.40s' is not the id of a draft: see koda-sandbox drafts", id);
	all = open_all(state, root, false);
	if (all < 0)
		return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO, errno,
		    "there is no draft '%s' of '%.300s'", id, root);
	if (open_one(all, id, true, ret, err) == 0)
		return 0;
	draft_close(ret);
	return -1;
}

void
draft_close(struct draft *d)
{
	close_at(&d->fd);
	d->fd = -1;
	drop_dirs(d);
}

void
draft_abandon(struct draft *d)
{
	/* The descriptor shares the parent's lock, which closing it here keeps. */
	draft_close(d);
}

int
draft_discard(const char *state, struct draft *d, struct koda_error *err)
{
	cleanup_close int all = open_all(state, d->root, false);
	char name[sizeof(OLD_PREFIX) + DRAFT_ID_MAX];

	snprintf(name, sizeof(name), OLD_PREFIX "%s", d->id);
	if (all < 0 || renameat2(all, d->id, all, name, RENAME_NOREPLACE) < 0)
		return err_set(err, KODA_IO, errno, "discard draft '%s'", d->id);
	remove_tree(all, name);
	draft_close(d);
	return 0;
}

/* A host that was killed while it made or removed this draft. */
static bool
is_left_over(int all, const char *name)
{
	cleanup_close int fd = -1;

	if (strncmp(name, NEW_PREFIX, strlen(NEW_PREFIX)) != 0 &&
	    strncmp(name, OLD_PREFIX, strlen(OLD_PREFIX)) != 0)
		return false;
	fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

struct found {
	char id[DRAFT_ID_MAX + 1];
	int64_t begun_ns;
};

static int
by_age(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->begun_ns != y->begun_ns)
		return x->begun_ns < y->begun_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Reads the names of the drafts, and removes what killed hosts have left. */
static int
find_all(int all, struct found **ret, size_t *ret_n, struct koda_error *err)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(all);
	cleanup_free struct found *list = NULL;
	const struct dirent *e;
	size_t n = 0;

	if (d == NULL)
		return err_set(err, KODA_IO, errno, "list the drafts");
	while ((e = readdir(d)) != NULL) {
		struct found *grown;
		struct draft one;

		if (is_left_over(all, e->d_name)) {
			remove_tree(all, e->d_name);
			continue;
		}
		if (!draft_id_valid(e->d_name) || open_one(all, e->d_name, false, &one, NULL) < 0)
			continue;
		grown = reallocarray(list, n + 1, sizeof(*grown));
		if (grown == NULL) {
			draft_close(&one);
			return err_set(err, KODA_INTERNAL, ENOMEM, "drafts");
		}
		list = grown;
		memcpy(list[n].id, one.id, sizeof(one.id));
		list[n++].begun_ns = one.begun_ns;
		draft_close(&one);
	}
	if (n > 1)
		qsort(list, n, sizeof(*list), by_age);
	*ret = take_ptr(&list);
	*ret_n = n;
	return 0;
}

int
draft_list(const char *state, const char *root, draft_each_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_close int all = open_all(state, root, false);
	cleanup_free struct found *list = NULL;
	size_t n = 0;
	int r = 0;

	if (all < 0 && errno == ENOENT)
		return 0;
	if (all < 0)
		return err_set(err, KODA_IO, errno, "open the directory of drafts in '%s'", state);
	if (find_all(all, &list, &n, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool in_use = false;
		struct draft one;

		if (open_one(all, list[i].id, true, &one, NULL) < 0) {
			draft_close(&one);
			in_use = true;
			if (open_one(all, list[i].id, false, &one, NULL) < 0) {
				draft_close(&one);
				continue; /* discarded meanwhile, or damaged */
			}
		}
		r = fn(data, &one, in_use);
		draft_close(&one);
	}
	return r;
}
