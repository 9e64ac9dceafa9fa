/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets the user see and restore what a worker moved to quarantine (the form on disk:
 * docs/PROTOCOL.md). The record comes from a worker and is not trusted: something is restored only
 * below the root, through no link, and where nothing exists.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/home.h"
#include "host/protect/quarantine.h"
#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

#define WHAT         QUARANTINE_WHAT
#define MANIFEST     "manifest"
#define FORMAT       "1"
#define MANIFEST_MAX (64u << 20) /* ten thousand links with their targets */
#define ENTRIES_MAX  100000
#define DEPTH_MAX    QUARANTINE_DEPTH_MAX

static void
manifest_done(struct manifest *m)
{
	free(m->text);
}

/* Returns the value if the record has that key, otherwise NULL. */
static const char *
value_of(const char *record, const char *key)
{
	size_t len = strlen(key);

	return strncmp(record, key, len) == 0 && record[len] == ' ' ? record + len + 1 : NULL;
}

static const char *
next_record(const struct manifest *m, const char *record)
{
	const char *next = record + strlen(record) + 1;

	return next < m->text + m->len ? next : NULL;
}

/* The first record of each key counts: file names that a command chose come after it. */
static const char *
find_value(const struct manifest *m, const char *key)
{
	const char *value = NULL;

	for (const char *r = m->text; r != NULL && value == NULL; r = next_record(m, r))
		value = value_of(r, key);
	return value != NULL ? value : "";
}

static int
read_manifest(int entry, struct manifest *ret, struct koda_error *err)
{
	cleanup_close int fd =
	    openat(entry, MANIFEST, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > MANIFEST_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "its record is missing or invalid");
	text = malloc((size_t)st.st_size + 1);
	if (text == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "record");
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (len == 0 || text[len - 1] != '\0' || strcmp(text, "koda-quarantine " FORMAT) != 0)
		return err_set(err, KODA_PROTOCOL, 0, "its record has an unknown version");
	ret->text = take_ptr(&text);
	ret->len = len;
	ret->path = find_value(ret, "path");
	ret->rule = find_value(ret, "rule");
	ret->type = find_value(ret, "type");
	ret->time = find_value(ret, "time");
	ret->mode = find_value(ret, "mode");
	ret->command = find_value(ret, "command");
	return 0;
}

static void
store_done(struct store *s)
{
	if (s->path != NULL)
		state_let_go(&s->state, s->path);
	free(s->path);
}

/* Returns 1; 0 if there is no state directory; -1 with *err set. */
static int
open_store(struct store *ret, struct koda_error *err)
{
	cleanup_free char *home = home_find();

	if (home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
	ret->path = state_path(home);
	return ret->path == NULL ? 0 : state_look(&ret->state, ret->path, err);
}

/* Opens the quarantine of a root, O_PATH. Returns 1; 0 if there is none; -1 with *err set. */
static int
open_quarantine(struct store *store, const char *root, char **ret_root, int *ret,
    struct koda_error *err)
{
	cleanup_free char *real = realpath(root, NULL), *name = NULL;
	int r;

	if (real == NULL)
		return err_set(err, KODA_IO, errno, "the root '%s'", root);
	name = state_quarantine_name(real);
	if (name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
	r = open_store(store, err);
	*ret_root = take_ptr(&real);
	if (r <= 0)
		return r;
	*ret = state_quarantine(&store->state, name, false);
	if (*ret < 0 && errno != ENOENT)
		return err_set(err, KODA_IO, errno, "open the quarantine in '%s'", store->path);
	return *ret >= 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct quarantine_names {
	char **v;
	size_t n;
};

static void
names_done(struct quarantine_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
}

static int
read_names(int dir, struct quarantine_names *ret, struct koda_error *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return err_set(err, KODA_IO, errno, "the quarantine");
	}
	while ((ent = readdir(d)) != NULL && ret->n < ENTRIES_MAX) {
		char **more;

		if (ent->d_name[0] == '.')
			continue;
		more = realloc(ret->v, (ret->n + 1) * sizeof(*more));
		if (more == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
		ret->v = more;
		ret->v[ret->n] = strdup(ent->d_name);
		if (ret->v[ret->n] == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
		ret->n++;
	}
	/* Names begin with the time, which has the same number of digits for the next thousand
	 * years. */
	if (ret->n > 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return 0;
}

struct koda_quarantined
quarantine_tell(const char *of, const char *name, int entry, const struct manifest *m)
{
	struct koda_quarantined one = {
		.name = name,
		.path = m->path,
		.rule = m->rule,
		.type = m->type,
		.time = strtod(m->time, NULL),
		.of = of,
		.command = m->command,
	};
	struct stat st;

	if (fstatat(entry, WHAT, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		one.size = (uint64_t)st.st_size;
	return one;
}

static int
visit_one(int dir, const char *of, koda_quarantined_fn *fn, void *data, struct koda_error *err)
{
	cleanup(names_done) struct quarantine_names names = { 0 };
	int r = read_names(dir, &names, err);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		cleanup(manifest_done) struct manifest m = { 0 };
		cleanup_close int entry =
		    openat(dir, names.v[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct koda_quarantined one;

		/* it is still being written, or was not written by koda */
		if (entry < 0 || read_manifest(entry, &m, NULL) < 0)
			continue;
		one = quarantine_tell(of, names.v[i], entry, &m);
		r = fn(data, &one);
	}
	return r;
}

static int
visit_all(koda_quarantined_fn *fn, void *data, struct koda_error *err)
{
	cleanup(names_done) struct quarantine_names names = { 0 };
	cleanup(store_done) struct store store = { .state = STATE_NONE };
	cleanup_close int all = -1;
	int r = open_store(&store, err);

	if (r <= 0)
		return r;
	all = state_quarantines(&store.state, false);
	if (all < 0)
		return errno == ENOENT
		    ? 0
		    : err_set(err, KODA_IO, errno, "open the quarantine in '%s'", store.path);
	r = read_names(all, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		cleanup_close int dir =
		    openat(all, names.v[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (dir >= 0)
			r = visit_one(dir, names.v[i], fn, data, err);
	}
	return r;
}

int
koda_quarantine_visit(const char *root, koda_quarantined_fn *fn, void *data, struct koda_error *err)
{
	cleanup(store_done) struct store store = { .state = STATE_NONE };
	cleanup_free char *real = NULL, *of = NULL;
	cleanup_close int dir = -1;
	int r;

	if (root == NULL)
		return visit_all(fn, data, err);
	r = open_quarantine(&store, root, &real, &dir, err);
	if (r <= 0)
		return r;
	of = state_quarantine_name(real);
	return of == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "quarantine")
			  : visit_one(dir, of, fn, data, err);
}

/* ---- one entry ---- */

void
quarantine_entry_done(struct quarantine_entry *e)
{
	manifest_done(&e->manifest);
	close_at(&e->fd);
	close_at(&e->dir);
	free(e->name);
	free(e->root);
	store_done(&e->store);
}

static bool
is_name(const char *name)
{
	return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

int
quarantine_find(const char *root, const char *name, bool without_record,
    struct quarantine_entry *ret, struct koda_error *err)
{
	const char *slash = strchr(name, '/');
	cleanup_free char *of = slash != NULL ? strndup(name, (size_t)(slash - name)) : NULL;
	int r;

	ret->name = strdup(slash != NULL ? slash + 1 : name);
	if (ret->name == NULL || (slash != NULL && of == NULL))
		return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
	if (!is_name(ret->name) || (of != NULL && !is_name(of)))
		return err_set(err, KODA_INVALID, 0,
		    "'%.300s' is not a valid name in the quarantine", name);
	if (of == NULL) {
		r = open_quarantine(&ret->store, root, &ret->root, &ret->dir, err);
	} else if ((r = open_store(&ret->store, err)) > 0) {
		ret->dir = state_quarantine(&ret->store.state, of, false);
		r = ret->dir >= 0;
	}
	if (r < 0)
		return -1;
	if (r > 0)
		ret->fd =
		    openat(ret->dir, ret->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return err_set(err, KODA_INVALID, r > 0 && errno != ENOENT ? errno : 0,
		    "there is no '%.300s' in the quarantine%s", name,
		    of == NULL ? " of this root" : "");
	return read_manifest(ret->fd, &ret->manifest, without_record ? NULL : err) < 0 &&
		!without_record
	    ? -1
	    : 0;
}

/* ---- restoring ---- */

/* Makes a link that could not be made where the thing was copied to. rel: "/what/a/b". */
static int
make_link(int entry, const char *rel, const char *target, struct koda_error *err)
{
	cleanup_free char *dir = strdup(rel[0] == '/' ? rel + 1 : rel);
	cleanup_close int fd = -1;
	char *slash;

	if (dir == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "link");
	slash = strrchr(dir, '/');
	if (slash == NULL) /* the thing itself is a link */
		return symlinkat(target, entry, WHAT) == 0 || errno == EEXIST
		    ? 0
		    : err_set(err, KODA_IO, errno, "make a link");
	*slash = '\0';
	fd = open_beneath(entry, dir, O_PATH | O_DIRECTORY);
	if (fd < 0 || (symlinkat(target, fd, slash + 1) < 0 && errno != EEXIST))
		return err_set(err, KODA_IO, errno, "make the link '%s'", rel);
	return 0;
}

static int
make_links(int entry, const struct manifest *m, struct koda_error *err)
{
	for (const char *r = m->text; r != NULL; r = next_record(m, r)) {
		const char *rel = value_of(r, "link"), *next, *target;

		if (rel == NULL)
			continue;
		next = next_record(m, r);
		target = next == NULL ? NULL : value_of(next, "target");
		if (target == NULL || strncmp(rel, "/" WHAT, strlen("/" WHAT)) != 0)
			return err_set(err, KODA_PROTOCOL, 0, "its record is damaged");
		if (make_link(entry, rel, target, err) < 0)
			return -1;
		r = next;
	}
	return 0;
}

static int copy(int from, const char *name, int to, const char *as, unsigned depth);

static int
copy_file(int from, const char *name, int to, const char *as, mode_t mode)
{
	cleanup_close int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_close int out = -1;
	char buf[65536];
	ssize_t n;

	out = in < 0 ? -1
		     : openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -1;
	while ((n = read(in, buf, sizeof(buf))) > 0) {
		if (write_all(out, buf, (size_t)n) < 0)
			return -1;
	}
	return n < 0 ? -1 : fchmod(out, mode & 0777);
}

static int
copy_directory(int from, const char *name, int to, const char *as, mode_t mode, unsigned depth)
{
	int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	cleanup_close int made = -1;
	struct dirent *ent;

	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (mkdirat(to, as, 0700) < 0)
		return -1;
	made = openat(to, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (made < 0)
		return -1;
	while (errno = 0, (ent = readdir(d)) != NULL) {
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (copy(dirfd(d), ent->d_name, made, ent->d_name, depth + 1) < 0)
			return -1;
	}
	return errno != 0 ? -1 : fchmod(made, mode & 0777);
}

static int
copy(int from, const char *name, int to, const char *as, unsigned depth)
{
	char target[PATH_LEN_MAX + 1];
	struct stat st;
	ssize_t n;

	if (depth > DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return copy_directory(from, name, to, as, st.st_mode, depth);
	if (S_ISREG(st.st_mode))
		return copy_file(from, name, to, as, st.st_mode);
	if (!S_ISLNK(st.st_mode))
		return 0; /* the program that needs a FIFO or socket makes it again */
	n = readlinkat(from, name, target, sizeof(target) - 1);
	if (n < 0)
		return -1;
	target[n] = '\0';
	return symlinkat(target, to, as);
}

static int
remove_tree(int dir, const char *name, unsigned depth)
{
	cleanup(closedir_at) DIR *d = NULL;
	struct dirent *ent;
	struct stat st;
	int fd, first = 0;

	if (depth > DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(dir, name, 0);
	/* A tree that was moved here unchanged may lack permissions that its command removed. */
	if ((st.st_mode & 0700) != 0700 && fchmodat(dir, name, 0700, 0) < 0)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL) {
		close_at(&fd);
		return -1;
	}
	while ((ent = readdir(d)) != NULL) {
		if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0 &&
		    remove_tree(dirfd(d), ent->d_name, depth + 1) < 0 && first == 0)
			first = errno;
	}
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	errno = first != 0 ? first : errno;
	return -1;
}

int
quarantine_remove(int dir, const char *name)
{
	return remove_tree(dir, name, 0);
}

static int
rename_new(int from, const char *name, int to, const char *as)
{
	return renameat2(from, name, to, as, RENAME_NOREPLACE);
}

/* Restores all or nothing: the name appears when everything is there. */
static int
put(int entry, int parent, const char *name)
{
	char temp[64];
	int saved;

	if (rename_new(entry, WHAT, parent, name) == 0)
		return 0;
	if (errno != EXDEV)
		return -1;
	snprintf(temp, sizeof(temp), ".koda-restored-%d", (int)getpid());
	if (copy(entry, WHAT, parent, temp, 0) == 0 && rename_new(parent, temp, parent, name) == 0)
		return 0;
	saved = errno;
	remove_tree(parent, temp, 0);
	errno = saved;
	return -1;
}

static int
restore(int entry, const char *root, const struct manifest *m, struct koda_error *err)
{
	cleanup_free char *parent = strdup(m->path);
	cleanup_close int dir = -1;
	unsigned long mode = strtoul(m->mode, NULL, 8) & 0777;
	const char *name;
	struct stat st;

	if (parent == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "restore");
	if (!path_is_canonical(m->path, strlen(m->path)) || !path_is_inside(m->path, root) ||
	    strcmp(m->path, root) == 0)
		return err_set(err, KODA_PROTOCOL, 0,
		    "its record names '%s', which is not below the root", m->path);
	name = m->path + (strrchr(m->path, '/') - m->path) + 1;
	*strrchr(parent, '/') = '\0';
	dir = state_open_directory(parent[0] != '\0' ? parent : "/", err);
	if (dir < 0)
		return -1;
	if (make_links(entry, m, err) < 0)
		return -1;
	if (fstatat(entry, WHAT, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, KODA_IO, errno, "only the record of '%s' was kept", m->path);
	/* The original mode, whatever mode it was kept with. */
	if (mode != 0 && !S_ISLNK(st.st_mode) && fchmodat(entry, WHAT, (mode_t)mode, 0) < 0)
		return err_set(err, KODA_IO, errno, "set the mode of what was kept");
	if (put(entry, dir, name) == 0)
		return 0;
	if (errno == EEXIST)
		return err_set(err, KODA_CONFLICT, 0,
		    "cannot put back '%s', because something else is there now: move it away "
		    "first",
		    m->path);
	return err_set(err, KODA_IO, errno, "put back '%s'", m->path);
}

int
koda_quarantine_restore(const char *root, const char *name, struct koda_error *err)
{
	cleanup(quarantine_entry_done) struct quarantine_entry e = QUARANTINE_ENTRY_NONE;

	/* The target must be below the root, which comes from the caller, not from the record. */
	if (strchr(name, '/') != NULL)
		return err_set(err, KODA_INVALID, 0,
		    "'%.300s' is not a valid name in the quarantine of this root", name);
	if (quarantine_find(root, name, false, &e, err) < 0 ||
	    restore(e.fd, e.root, &e.manifest, err) < 0)
		return -1;
	quarantine_remove(e.dir, e.name);
	return 0;
}
