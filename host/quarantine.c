/*
 * What a worker moved to quarantine (the form on disk: docs/PROTOCOL.md), for the user who wants to see it or to have
 * it back. The record is a worker's word: where something goes back to is below the root, by no link, and where
 * nothing is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/home.h"
#include "host/state.h"
#include "shared/bytes.h"
#include "shared/cleanup.h"

#define WHAT         "what"
#define MANIFEST     "manifest"
#define FORMAT       "1"
#define MANIFEST_MAX (64u << 20) /* ten thousand links with their targets */
#define ENTRIES_MAX  100000
#define DEPTH_MAX    256 /* of a tree that is copied back: descriptors */

struct manifest {
	char *text; /* "key value" and a NUL, one after the other */
	size_t len;
	const char *path, *rule, *type, *time, *mode;
};

static void
manifest_done(struct manifest *m)
{
	free(m->text);
}

/* The value if the record is of that key. */
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

/* The first of each: what a command called its files comes behind them. */
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
		return err_set(err, KODA_PROTOCOL, 0, "it has no record that makes sense");
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
		return err_set(err, KODA_PROTOCOL, 0, "its record is of another version");
	ret->text = take_ptr(&text);
	ret->len = len;
	ret->path = find_value(ret, "path");
	ret->rule = find_value(ret, "rule");
	ret->type = find_value(ret, "type");
	ret->time = find_value(ret, "time");
	ret->mode = find_value(ret, "mode");
	return 0;
}

/* The quarantine of a root, O_PATH. 1; 0 when there is none; -1 with *err set. */
static int
open_quarantine(const char *root, char **ret_root, int *ret, struct koda_error *err)
{
	cleanup_free char *real = realpath(root, NULL), *home = NULL, *path = NULL, *there = NULL;

	if (real == NULL)
		return err_set(err, KODA_IO, errno, "the root '%s'", root);
	home = home_find();
	path = home == NULL ? NULL : state_quarantine_path(real, home);
	if (home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
	there = path == NULL ? NULL : realpath(path, NULL);
	if (there == NULL)
		return 0;
	*ret = state_open_directory(there, err);
	if (*ret < 0)
		return -1;
	*ret_root = take_ptr(&real);
	return 1;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
closedir_at(DIR **d)
{
	if (*d != NULL)
		closedir(*d);
}

struct names {
	char **v;
	size_t n;
};

static void
names_done(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
}

static int
read_names(int dir, struct names *ret, struct koda_error *err)
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
	/* They begin with the time, in as many digits for the next thousand years. */
	if (ret->n > 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return 0;
}

int
koda_quarantine_visit(const char *root, koda_quarantined_fn *fn, void *data, struct koda_error *err)
{
	cleanup(names_done) struct names names = { 0 };
	cleanup_free char *real = NULL;
	cleanup_close int dir = -1;
	int r = open_quarantine(root, &real, &dir, err);

	if (r <= 0)
		return r;
	if (read_names(dir, &names, err) < 0)
		return -1;
	r = 0;
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		cleanup(manifest_done) struct manifest m = { 0 };
		cleanup_close int entry =
		    openat(dir, names.v[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct koda_quarantined one = { .name = names.v[i] };

		/* Being written now, or not by us. */
		if (entry < 0 || read_manifest(entry, &m, NULL) < 0)
			continue;
		one.path = m.path;
		one.rule = m.rule;
		one.type = m.type;
		one.time = strtod(m.time, NULL);
		r = fn(data, &one);
	}
	return r;
}

/* ---- putting back ---- */

/* Without a link on the way, and below dir. */
static int
open_below(int dir, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* Links could not be made where it was copied to. rel: "/what/a/b". */
static int
make_link(int entry, const char *rel, const char *target, struct koda_error *err)
{
	cleanup_free char *dir = strdup(rel[0] == '/' ? rel + 1 : rel);
	cleanup_close int fd = -1;
	char *slash;

	if (dir == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "link");
	slash = strrchr(dir, '/');
	if (slash == NULL) /* the thing itself is one */
		return symlinkat(target, entry, WHAT) == 0 || errno == EEXIST
		    ? 0
		    : err_set(err, KODA_IO, errno, "make a link");
	*slash = '\0';
	fd = open_below(entry, dir, O_PATH | O_DIRECTORY);
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
		for (ssize_t at = 0, w; at < n; at += w)
			if ((w = write(out, buf + at, (size_t)(n - at))) <= 0)
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
		return 0; /* a FIFO or socket is made again by who wants one */
	n = readlinkat(from, name, target, sizeof(target) - 1);
	if (n < 0)
		return -1;
	target[n] = '\0';
	return symlinkat(target, to, as);
}

static void
remove_tree(int dir, const char *name, unsigned depth)
{
	int fd = depth > DEPTH_MAX
	    ? -1
	    : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		unlinkat(dir, name, 0);
		return;
	}
	while ((ent = readdir(d)) != NULL) {
		if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0)
			remove_tree(dirfd(d), ent->d_name, depth + 1);
	}
	unlinkat(dir, name, AT_REMOVEDIR);
}

static int
rename_new(int from, const char *name, int to, const char *as)
{
	return renameat2(from, name, to, as, RENAME_NOREPLACE);
}

/* Whole or not at all: the name appears when everything is there. */
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

static bool
is_canonical(const char *path)
{
	size_t len = strlen(path);

	return path[0] == '/' && len <= PATH_LEN_MAX && strstr(path, "//") == NULL &&
	    strstr(path, "/./") == NULL && strstr(path, "/../") == NULL && path[len - 1] != '/' &&
	    strcmp(strrchr(path, '/'), "/.") != 0 && strcmp(strrchr(path, '/'), "/..") != 0;
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
	if (!is_canonical(m->path) || !path_is_inside(m->path, root) || strcmp(m->path, root) == 0)
		return err_set(err, KODA_PROTOCOL, 0,
		    "its record says that it was at '%s', which is not below the root", m->path);
	name = m->path + (strrchr(m->path, '/') - m->path) + 1;
	*strrchr(parent, '/') = '\0';
	dir = state_open_directory(parent[0] != '\0' ? parent : "/", err);
	if (dir < 0)
		return -1;
	if (make_links(entry, m, err) < 0)
		return -1;
	if (fstatat(entry, WHAT, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, KODA_IO, errno, "nothing was kept of '%s' but the record",
		    m->path);
	/* What it was, whatever it was kept as. */
	if (mode != 0 && !S_ISLNK(st.st_mode) && fchmodat(entry, WHAT, (mode_t)mode, 0) < 0)
		return err_set(err, KODA_IO, errno, "the mode of what was kept");
	if (put(entry, dir, name) == 0)
		return 0;
	if (errno == EEXIST)
		return err_set(err, KODA_CONFLICT, 0, "there is something at '%s' now", m->path);
	return err_set(err, KODA_IO, errno, "put back '%s'", m->path);
}

int
koda_quarantine_restore(const char *root, const char *name, struct koda_error *err)
{
	cleanup(manifest_done) struct manifest m = { 0 };
	cleanup_free char *real = NULL;
	cleanup_close int dir = -1, entry = -1;
	int r = open_quarantine(root, &real, &dir, err);

	if (r < 0)
		return -1;
	if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
		return err_set(err, KODA_INVALID, 0, "'%s' is no name in the quarantine", name);
	if (r > 0)
		entry = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (entry < 0)
		return err_set(err, KODA_INVALID, r > 0 ? errno : 0,
		    "there is no '%s' in the quarantine of this root", name);
	if (read_manifest(entry, &m, err) < 0 || restore(entry, real, &m, err) < 0)
		return -1;
	remove_tree(dir, name, 0);
	return 0;
}
