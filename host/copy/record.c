/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/record.h"

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
#include "proto/copy.pb-c.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "shared/wire/message.h"

#define ABOUT      "about"
#define READY      "ready"
#define REMOVING   "removing"
#define COLLECTED  "collected"
#define BUSY       "busy"
#define NOTE       ".note"
#define NEW_PREFIX ".new-"
#define OLD_PREFIX ".old-"
#define ID_CHARS   8
#define BASE_MAX   80 /* a commit of SHA-256 has 64 digits */
#define ABOUT_MAX  (9 * (PATH_LEN_MAX + 16) + 256)

static const char id_alphabet[] = "0123456789abcdefghijkmnpqrstuvwxyz";

bool
copy_id_valid(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len <= COPY_ID_MAX && id[0] != '.' &&
	    strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

void
copy_id_choose(char ret[COPY_ID_MAX + 1])
{
	for (size_t i = 0; i < ID_CHARS; i++)
		ret[i] = id_alphabet[randombytes_uniform(sizeof(id_alphabet) - 1)];
	ret[ID_CHARS] = '\0';
}

/* Returns copies/<name> in koda's own directory, for reading names; -1 with errno. */
static int
open_all(const char *state, const char *name, bool make)
{
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s/copies/%s", state, name) < 0) {
		path = NULL;
		errno = ENOMEM;
		return -1;
	}
	if (make && state_make(path) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int
open_all_of(const char *state, const char *root, bool make)
{
	cleanup_free char *name = state_quarantine_name(root);

	if (name == NULL) {
		errno = ENOMEM;
		return -1;
	}
	return open_all(state, name, make);
}

/* ---- about ---- */

static void
drop_texts(struct copy_record *r)
{
	free(r->root);
	free(r->tree);
	free(r->prefix);
	free(r->agent);
	free(r->top);
	free(r->git);
	free(r->common);
	free(r->branch);
	free(r->base);
	free(r->draft);
	r->root = r->tree = r->prefix = r->agent = r->top = r->git = r->common = r->branch =
	    r->base = r->draft = NULL;
}

void
copy_record_close(struct copy_record *r)
{
	close_at(&r->fd);
	close_at(&r->busy_fd);
	r->fd = r->busy_fd = -1;
	drop_texts(r);
}

static int
write_about(const struct copy_record *r, struct koda_error *err)
{
	Koda__CopyAbout about = KODA__COPY_ABOUT__INIT;
	cleanup_free uint8_t *packed = NULL;
	cleanup_close int fd = -1;
	size_t len;

	about.version = COPY_VERSION;
	about.kind = (uint32_t)r->kind;
	about.root = message_text(r->root);
	about.tree = message_text(r->tree);
	about.prefix = message_text(r->prefix);
	about.agent = message_text(r->agent);
	about.begun_ns = r->begun_ns;
	if (r->kind == KODA_WORKSPACE_WORKTREE) {
		about.has_top = about.has_git = about.has_common = about.has_branch = true;
		about.top = message_text(r->top);
		about.git = message_text(r->git);
		about.common = message_text(r->common);
		about.branch = message_text(r->branch);
	}
	len = koda__copy_about__get_packed_size(&about);
	packed = malloc(len);
	if (packed == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	koda__copy_about__pack(&about, packed);
	fd = openat(r->fd, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, packed, len) < 0 || fsync(fd) < 0)
		return err_set(err, KODA_IO, errno, "write what the copy is of");
	return 0;
}

static int
take_text(const ProtobufCBinaryData *b, char **ret)
{
	if (b->len > 0 && memchr(b->data, '\0', b->len) != NULL)
		return -1;
	*ret = b->len > 0 ? strndup((const char *)b->data, b->len) : strdup("");
	return *ret == NULL ? -1 : 0;
}

static int
take_about(const Koda__CopyAbout *a, struct copy_record *r, struct koda_error *err)
{
	const bool worktree = a->kind == KODA_WORKSPACE_WORKTREE;

	if (a->version != COPY_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "copy '%s' was made by another version of koda-sandbox", r->id);
	r->kind = (enum koda_workspace)a->kind;
	r->begun_ns = a->begun_ns;
	if ((!worktree && a->kind != KODA_WORKSPACE_CLONE) || a->root.len == 0 ||
	    a->tree.len == 0 || a->root.data[0] != '/' || a->tree.data[0] != '/' ||
	    take_text(&a->root, &r->root) < 0 || take_text(&a->tree, &r->tree) < 0 ||
	    take_text(&a->prefix, &r->prefix) < 0 || take_text(&a->agent, &r->agent) < 0 ||
	    (worktree &&
		(!a->has_top || !a->has_git || !a->has_common || !a->has_branch ||
		    take_text(&a->top, &r->top) < 0 || take_text(&a->git, &r->git) < 0 ||
		    take_text(&a->common, &r->common) < 0 ||
		    take_text(&a->branch, &r->branch) < 0)))
		return err_set(err, KODA_IO, 0, "the record of copy '%s' is damaged", r->id);
	return 0;
}

/* Returns NULL if the copy is not complete. */
static char *
read_base(const struct copy_record *r)
{
	cleanup_close int fd = openat(r->fd, READY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char base[BASE_MAX];
	ssize_t n = fd < 0 ? -1 : read_whole(fd, (uint8_t *)base, sizeof(base));

	return n < 0 || strspn(base, "0123456789abcdef") < (size_t)n ? NULL
								     : strndup(base, (size_t)n);
}

/* Returns NULL if no draft was made of it. */
static char *
read_draft(const struct copy_record *r)
{
	cleanup_close int fd = openat(r->fd, COLLECTED, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char id[COPY_ID_MAX + 1];
	ssize_t n = fd < 0 ? -1 : read_whole(fd, (uint8_t *)id, sizeof(id) - 1);

	if (n < 0)
		return NULL;
	id[n] = '\0';
	return copy_id_valid(id) ? strdup(id) : NULL;
}

static int
read_about(struct copy_record *r, struct koda_error *err)
{
	cleanup_close int fd = openat(r->fd, ABOUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free uint8_t *data = malloc(ABOUT_MAX);
	const Koda__CopyAbout *about;
	struct arena arena;
	ssize_t n;
	int ret = -1;

	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	n = fd < 0 ? -1 : read_whole(fd, data, ABOUT_MAX);
	if (n < 0)
		return err_set(err, KODA_IO, errno, "read what copy '%s' is of", r->id);
	arena_init(&arena);
	about = (const Koda__CopyAbout *)message_unpack(&koda__copy_about__descriptor, data,
	    (size_t)n, &arena, err);
	if (about != NULL)
		ret = take_about(about, r, err);
	arena_done(&arena);
	if (ret == 0)
		r->base = read_base(r);
	r->draft = read_draft(r);
	r->ready = r->base != NULL;
	r->removing = faccessat(r->fd, REMOVING, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return ret;
}

/* ---- one ---- */

/* Remove `name`, which no process uses, and what is in it. */
static void
remove_tree(int all, const char *name)
{
	cleanup_close int fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && cache_tree_empty(fd, CACHE_NO_DEADLINE) > 0)
		unlinkat(all, name, AT_REMOVEDIR);
}

/* Takes both locks. Returns 0, or -1 with errno. */
static int
take_locks(struct copy_record *r)
{
	if (flock(r->fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	r->busy_fd = openat(r->fd, BUSY, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return r->busy_fd < 0 ? -1 : flock(r->busy_fd, LOCK_EX | LOCK_NB);
}

int
copy_record_make(const char *state, struct copy_record *r, struct koda_error *err)
{
	cleanup_close int all = open_all_of(state, r->root, true);
	char name[sizeof(NEW_PREFIX) + COPY_ID_MAX];
	struct timespec now;
	int ret = 0;

	if (all < 0)
		return err_set(err, KODA_IO, errno, "make the list of copies in '%s'", state);
	clock_gettime(CLOCK_REALTIME, &now);
	r->begun_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	r->ready = false;
	snprintf(name, sizeof(name), NEW_PREFIX "%s", r->id);
	if (mkdirat(all, name, 0700) < 0)
		return err_set(err, KODA_IO, errno, "make the record of a copy");
	r->fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r->fd < 0 || take_locks(r) < 0)
		ret = err_set(err, KODA_IO, errno, "lock the record of a copy");
	if (ret == 0)
		ret = write_about(r, err);
	if (ret == 0 && renameat2(all, name, all, r->id, RENAME_NOREPLACE) < 0)
		ret = err_set(err, KODA_IO, errno, "name the record of a copy");
	if (ret == 0 && fsync(all) == 0)
		return 0;
	if (ret < 0)
		remove_tree(all, name);
	return ret;
}

/* Write a file of the record: it is there as a whole, or not at all. */
static int
write_note(const struct copy_record *r, const char *name, const char *text)
{
	cleanup_close int fd =
	    openat(r->fd, NOTE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 || write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
		renameat(r->fd, NOTE, r->fd, name) < 0 || fsync(r->fd) < 0
	    ? -1
	    : 0;
}

int
copy_record_ready(struct copy_record *r, const char *base, struct koda_error *err)
{
	if (write_note(r, READY, base) < 0)
		return err_set(err, KODA_IO, errno, "note that copy '%s' is complete", r->id);
	free(r->base);
	r->base = strdup(base);
	r->ready = r->base != NULL;
	return r->ready ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "copy");
}

int
copy_record_collected(struct copy_record *r, const char *draft, struct koda_error *err)
{
	if (write_note(r, COLLECTED, draft) < 0)
		return err_set(err, KODA_IO, errno, "note the draft of copy '%s'", r->id);
	free(r->draft);
	r->draft = strdup(draft);
	return r->draft != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "copy");
}

int
copy_record_removing(struct copy_record *r, struct koda_error *err)
{
	cleanup_close int fd =
	    openat(r->fd, REMOVING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(err, KODA_IO, errno, "note that copy '%s' is being removed", r->id);
	r->removing = true;
	return 0;
}

static int
open_one(int all, const char *id, bool lock, struct copy_record *ret, struct koda_error *err)
{
	struct stat st, now;

	*ret = COPY_RECORD_CLOSED;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->fd = openat(all, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO, errno,
		    "there is no copy '%s'", id);
	if (lock && take_locks(ret) < 0)
		return err_set(err, KODA_CONFLICT, 0,
		    "copy '%s' is in use by another process: end that one first", id);
	/* Between the two calls it may have been removed. */
	if (fstat(ret->fd, &st) < 0 || fstatat(all, id, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_ino != now.st_ino || st.st_dev != now.st_dev || st.st_uid != geteuid())
		return err_set(err, KODA_INVALID, 0, "there is no copy '%s'", id);
	return read_about(ret, err);
}

int
copy_record_open(const char *state, const char *root, const char *id, struct copy_record *ret,
    struct koda_error *err)
{
	cleanup_close int all = -1;

	*ret = COPY_RECORD_CLOSED;
	if (!copy_id_valid(id))
		return err_set(err, KODA_INVALID, 0, "'%.40s' is not the id of a copy", id);
	all = open_all_of(state, root, false);
	if (all < 0)
		return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO, errno,
		    "there is no copy '%s' of '%.300s'", id, root);
	if (open_one(all, id, true, ret, err) == 0)
		return 0;
	copy_record_close(ret);
	return -1;
}

int
copy_record_remove(const char *state, const struct copy_record *r, struct koda_error *err)
{
	cleanup_close int all = open_all_of(state, r->root, false);
	char name[sizeof(OLD_PREFIX) + COPY_ID_MAX];

	snprintf(name, sizeof(name), OLD_PREFIX "%s", r->id);
	if (all < 0 || renameat2(all, r->id, all, name, RENAME_NOREPLACE) < 0)
		return err_set(err, KODA_IO, errno, "remove the record of copy '%s'", r->id);
	remove_tree(all, name);
	return 0;
}

/* ---- all ---- */

/* A host that was killed while it made or removed this record. */
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

struct copy_listed {
	struct copy_record r;
	bool in_use;
};

struct copy_list {
	struct copy_listed *v;
	size_t n;
};

static void
copy_list_done(struct copy_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		copy_record_close(&l->v[i].r);
	free(l->v);
}

static int
by_age(const void *a, const void *b)
{
	const struct copy_record *x = &((const struct copy_listed *)a)->r;
	const struct copy_record *y = &((const struct copy_listed *)b)->r;

	if (x->begun_ns != y->begun_ns)
		return x->begun_ns < y->begun_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int
add_one(struct copy_list *l, int all, const char *id, struct koda_error *err)
{
	struct copy_listed *grown, one = { .in_use = false };

	if (open_one(all, id, true, &one.r, NULL) < 0) {
		copy_record_close(&one.r);
		one.in_use = true;
		if (open_one(all, id, false, &one.r, NULL) < 0) {
			copy_record_close(&one.r);
			return 0; /* removed meanwhile, or damaged */
		}
	}
	close_at(&one.r.fd); /* and with it the lock */
	close_at(&one.r.busy_fd);
	one.r.fd = one.r.busy_fd = -1;
	grown = reallocarray(l->v, l->n + 1, sizeof(*grown));
	if (grown == NULL) {
		copy_record_close(&one.r);
		return err_set(err, KODA_INTERNAL, ENOMEM, "copies");
	}
	l->v = grown;
	l->v[l->n++] = one;
	return 0;
}

/* Reads the records of one root, and removes what killed hosts have left. */
static int
add_root(struct copy_list *l, int all, struct koda_error *err)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(all);
	const struct dirent *e;

	if (d == NULL)
		return err_set(err, KODA_IO, errno, "list the copies");
	while ((e = readdir(d)) != NULL) {
		if (is_left_over(all, e->d_name))
			remove_tree(all, e->d_name);
		else if (copy_id_valid(e->d_name) && add_one(l, all, e->d_name, err) < 0)
			return -1;
	}
	return 0;
}

static int
add_all(struct copy_list *l, const char *state, struct koda_error *err)
{
	cleanup_close int all = open_all(state, ".", false);
	cleanup(closedir_at) DIR *d = all < 0 ? NULL : cache_read_dir(all);
	const struct dirent *e;

	if (d == NULL)
		return errno == ENOENT ? 0 : err_set(err, KODA_IO, errno, "list the copies");
	while ((e = readdir(d)) != NULL) {
		cleanup_close int one = -1;

		if (e->d_name[0] == '.')
			continue;
		one = openat(all, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (one >= 0 && add_root(l, one, err) < 0)
			return -1;
	}
	return 0;
}

int
copy_record_list(const char *state, const char *root, copy_record_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_close int all = root != NULL ? open_all_of(state, root, false) : -1;
	cleanup(copy_list_done) struct copy_list l = { 0 };
	int r = 0;

	if (root != NULL && all < 0)
		return errno == ENOENT ? 0 : err_set(err, KODA_IO, errno, "list the copies");
	if ((root != NULL ? add_root(&l, all, err) : add_all(&l, state, err)) < 0)
		return -1;
	if (l.n > 1)
		qsort(l.v, l.n, sizeof(*l.v), by_age);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		r = fn(data, &l.v[i].r, l.v[i].in_use);
	return r;
}
