/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "worker/say.h"

#define FD_NAME_SIZE 16 /* a descriptor in decimal */

void
place_init(struct place *pl)
{
	pl->path[0] = '\0';
	pl->name = pl->missing = pl->path;
	pl->parent_fd = pl->target_fd = -1;
	pl->wants_dir = false;
	pl->n_hops = 0;
}

void
place_done(struct place *pl)
{
	close_at(&pl->parent_fd);
	close_at(&pl->target_fd);
	for (size_t i = 0; i < pl->n_hops; i++)
		free(pl->hop[i]);
	place_init(pl);
}

/* Returns the part of a canonical path below the root: "." for the root itself, NULL if the path
 * is elsewhere. */
static const char *
below_root(const struct resolver *r, const char *path)
{
	size_t n = strlen(r->root);

	if (n == 1)
		return path[1] == '\0' ? "." : path + 1;
	if (strncmp(path, r->root, n) != 0)
		return NULL;
	if (path[n] == '\0')
		return ".";
	return path[n] == '/' ? path + n + 1 : NULL;
}

/* Opens a canonical path in one call in which the kernel follows no link. */
static int
open_canonical(const struct resolver *r, const char *path, int flags)
{
	const char *rel = below_root(r, path);

	return rel == NULL ? open_plain(AT_FDCWD, path, flags | O_PATH)
			   : open_beneath(r->root_fd, rel, flags | O_PATH);
}

/* Like open_canonical() for a directory, without openat2. */
static int
open_canonical_walk(const struct resolver *r, const char *path)
{
	const int flags = O_PATH | O_DIRECTORY;
	const char *rel = below_root(r, path);
	cleanup_close int top = -1;

	if (rel != NULL)
		return strcmp(rel, ".") == 0 ? openat(r->root_fd, ".", flags | O_CLOEXEC)
					     : open_walked(r->root_fd, rel, flags);
	top = open("/", flags | O_CLOEXEC);
	return top < 0 || path[1] == '\0' ? take_fd(&top) : open_walked(top, path + 1, flags);
}

int
resolve_canonical_dir(const struct resolver *r, const char *path, size_t len)
{
	char buf[PATH_LEN_MAX + 1];

	if (len > PATH_LEN_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(buf, path, len);
	buf[len] = '\0';
	if (len == 0)
		strcpy(buf, "/");
	return r->no_openat2 ? open_canonical_walk(r, buf) : open_canonical(r, buf, O_DIRECTORY);
}

int
resolve_verify(const struct resolver *r, int fd, const char *path, size_t len,
    struct koda_error *err)
{
	char name[FD_NAME_SIZE], now[PATH_LEN_MAX + 32];
	ssize_t n;

	if (len == 0) {
		path = "/";
		len = 1;
	}
	snprintf(name, sizeof(name), "%d", fd);
	n = readlinkat(r->proc_fd, name, now, sizeof(now));
	if (n < 0)
		return err_set(err, KODA_IO, errno, "find the path of a descriptor");
	if ((size_t)n == len && memcmp(now, path, len) == 0)
		return 0;
	return say_of(err, KODA_CONFLICT, 0, path, "was moved meanwhile");
}

int
resolve_reopen(const struct resolver *r, int fd, int flags)
{
	char name[FD_NAME_SIZE];

	snprintf(name, sizeof(name), "%d", fd);
	return openat(r->proc_fd, name, flags | O_CLOEXEC);
}

/*
 * Makes the requested text canonical, assuming that it has no links. Returns 0; 1 if the text alone
 * does not say ('..') or becomes over-long: then the walk finds out.
 */
static int
plain_text(const struct resolver *r, const char *path, size_t len, struct place *pl)
{
	size_t n = 0;

	if (path[0] != '/') {
		n = strlen(r->root);
		memcpy(pl->path, r->root, n);
		if (n == 1)
			n = 0;
	}
	for (const char *p = path, *end = path + len; p < end;) {
		const char *slash;
		size_t k;

		if (*p == '/') {
			p++;
			continue;
		}
		slash = memchr(p, '/', (size_t)(end - p));
		k = (size_t)((slash == NULL ? end : slash) - p);
		if (p[0] == '.' && (k == 1 || (k == 2 && p[1] == '.'))) {
			if (k == 2)
				return 1;
			pl->wants_dir = true;
			p += k;
			continue;
		}
		if (n + 1 + k > PATH_LEN_MAX)
			return 1;
		pl->path[n] = '/';
		memcpy(pl->path + n + 1, p, k);
		n += 1 + k;
		p += k;
		pl->wants_dir = p < end;
	}
	if (n == 0)
		pl->path[n++] = '/';
	pl->path[n] = '\0';
	return 0;
}

/* Resolves with one openat2, and one more openat if the parent is wanted. Returns 0, or 1 if it
 * is not that simple: the walk then finds the reason and reports it. */
static int
resolve_plain(const struct resolver *r, const char *path, size_t len, unsigned flags,
    struct place *pl)
{
	const bool itself = (flags & RESOLVE_LINK_ITSELF) != 0;
	const char *rel;
	char *slash;

	if (plain_text(r, path, len, pl) != 0)
		return 1;
	pl->name = pl->missing = pl->path + strlen(pl->path);
	if ((flags & RESOLVE_PARENT) == 0) {
		pl->target_fd = open_canonical(r, pl->path, itself ? O_NOFOLLOW : 0);
		if (pl->target_fd < 0 || fstat(pl->target_fd, &pl->st) < 0)
			return 1;
		return pl->wants_dir && !S_ISDIR(pl->st.st_mode) ? 1 : 0;
	}

	rel = below_root(r, pl->path);
	slash = strrchr(pl->path, '/');
	if (slash[1] == '\0' || (rel != NULL && strcmp(rel, ".") == 0))
		return 1;
	*slash = '\0';
	/* "" means "/", which is not below the root unless it is the root. */
	pl->parent_fd = open_canonical(r, slash == pl->path ? "/" : pl->path, O_DIRECTORY);
	*slash = '/';
	if (pl->parent_fd < 0)
		return 1;
	pl->name = slash + 1;
	pl->target_fd = openat(pl->parent_fd, pl->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (pl->target_fd < 0)
		return errno == ENOENT ? 0 : 1;
	if (fstat(pl->target_fd, &pl->st) < 0 || (S_ISLNK(pl->st.st_mode) && !itself))
		return 1;
	return pl->wants_dir && !S_ISDIR(pl->st.st_mode) ? 1 : 0;
}

/* ---- the walk ---- */

struct resolve_walk {
	const struct resolver *r;
	struct place *pl;
	unsigned flags;
	int cur;      /* the directory that pl->path[0..len) names */
	size_t len;   /* 0: "/" */
	char *rest;   /* the rest of the path, allocated */
	char *p;      /* current position in rest */
	size_t asked; /* how many of its last bytes come from the requested path */
	bool missing; /* nothing below cur exists */
};

static void
walk_done(struct resolve_walk *w)
{
	close_at(&w->cur);
	free(w->rest);
}

/* Completes pl->path with the component that failed and everything after it, so that the caller
 * can judge that path before reporting why it failed. */
static void
walk_name_failed(struct resolve_walk *w)
{
	struct place *pl = w->pl;
	size_t n = strlen(pl->path);

	if (n == 1)
		n = 0;
	for (char *p = w->p; *p != '\0';) {
		size_t k;

		p += strspn(p, "/");
		k = strcspn(p, "/");
		if (k == 0 || (k == 2 && memcmp(p, "..", 2) == 0) || n + 1 + k > PATH_LEN_MAX)
			break;
		if (!(k == 1 && *p == '.')) {
			pl->path[n] = '/';
			memcpy(pl->path + n + 1, p, k);
			n += 1 + k;
		}
		p += k;
	}
	if (n == 0)
		pl->path[n++] = '/';
	pl->path[n] = '\0';
}

static int
walk_to(struct resolve_walk *w, size_t len)
{
	int fd = resolve_canonical_dir(w->r, w->pl->path, len);

	if (fd < 0)
		return -1;
	close_at(&w->cur);
	w->cur = fd;
	w->len = len;
	w->pl->path[len] = '\0';
	return 0;
}

static int
walk_up(struct resolve_walk *w, bool relative, struct koda_error *err)
{
	const char *root = w->r->root;
	size_t root_len = strlen(root) == 1 ? 0 : strlen(root), n = w->len;
	char *path = w->pl->path;

	if (w->missing)
		return say(err, KODA_INVALID, 0, "'..' after a missing directory:", path);
	if (relative && n == root_len && memcmp(path, root, n) == 0)
		return say(err, KODA_INVALID, 0, "'..' leads above the root", root);
	while (n > 0 && path[n - 1] != '/')
		n--;
	if (walk_to(w, n > 0 ? n - 1 : 0) < 0)
		return say(err, KODA_IO, errno, "look up", path);
	return 0;
}

/* Follows the link fd, whose canonical path is in pl->path; w->len is still that of its
 * directory. */
static int
walk_link(struct resolve_walk *w, int fd, struct koda_error *err)
{
	struct place *pl = w->pl;
	unsigned depth = w->r->depth < RESOLVE_HOPS_MAX ? w->r->depth : RESOLVE_HOPS_MAX;
	char target[PATH_LEN_MAX + 1], *rest, shown[512];
	struct statfs fs;
	size_t left = strlen(w->p);
	ssize_t n;

	if (pl->n_hops >= depth) {
		bytes_show(shown, sizeof(shown), pl->path, strlen(pl->path));
		err_set(err, KODA_POLICY_DENIED, 0,
		    "too many symbolic links on the way to '%s' (at most %u)", shown, depth);
		return err_about(err, pl->path, "link_depth");
	}
	if (fstatfs(fd, &fs) < 0)
		return say(err, KODA_IO, errno, "examine the link", pl->path);
	/* Such a link does not lead to what its text says: it jumps to a descriptor, a root, a
	 * process. */
	if ((unsigned long)fs.f_type == PROC_SUPER_MAGIC) {
		say_of(err, KODA_POLICY_DENIED, 0, pl->path,
		    "is a /proc magic link, which is never followed");
		return err_about(err, pl->path, "magic_link");
	}
	n = readlinkat(fd, "", target, sizeof(target));
	if (n < 0)
		return say(err, KODA_IO, errno, "read the link", pl->path);
	if (n == 0)
		return say(err, KODA_IO, ENOENT, "follow the link", pl->path);
	if (n == sizeof(target))
		return say(err, KODA_IO, ENAMETOOLONG, "follow the link", pl->path);

	rest = malloc((size_t)n + left + 1);
	pl->hop[pl->n_hops] = strdup(pl->path);
	if (rest == NULL || pl->hop[pl->n_hops] == NULL) {
		free(rest);
		free(pl->hop[pl->n_hops]);
		return err_set(err, KODA_INTERNAL, ENOMEM, "follow a link");
	}
	pl->n_hops++;
	memcpy(rest, target, (size_t)n);
	memcpy(rest + n, w->p, left + 1); /* starts with a slash, or is empty */
	free(w->rest);
	w->rest = w->p = rest;
	if (w->asked > left)
		w->asked = left;
	pl->path[w->len] = '\0';
	if (target[0] == '/' && walk_to(w, 0) < 0)
		return say(err, KODA_IO, errno, "look up", "/");
	return 0;
}

/* Handles one name below cur: enters it, follows it, or ends there. *ret_end: the place is
 * found. */
static int
walk_name(struct resolve_walk *w, const char *name, size_t k, bool last, bool *ret_end,
    struct koda_error *err)
{
	struct place *pl = w->pl;
	cleanup_close int fd = -1;
	size_t n = w->len + 1 + k;
	struct stat st;

	if (n > PATH_LEN_MAX)
		return err_set(err, KODA_INVALID, ENAMETOOLONG, "path");
	pl->path[w->len] = '/';
	memcpy(pl->path + w->len + 1, name, k);
	pl->path[n] = '\0';
	if (w->missing) {
		if (k > NAME_LEN_MAX)
			return say(err, KODA_IO, ENAMETOOLONG, "look up", pl->path);
		if (*pl->missing == '\0')
			pl->missing = pl->path + w->len + 1;
		w->len = n;
		return 0;
	}

	fd = openat(w->cur, pl->path + w->len + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		w->missing = true;
		pl->name = pl->path + w->len + 1;
		/* Points to a NUL for now, and to a name if another missing one follows. */
		pl->missing = pl->path + PATH_LEN_MAX;
		pl->path[PATH_LEN_MAX] = '\0';
		w->len = n;
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return say(err, KODA_IO, errno, "look up", pl->path);
	if (S_ISLNK(st.st_mode) && !(last && (w->flags & RESOLVE_LINK_ITSELF) != 0))
		return walk_link(w, fd, err);
	if (!last) {
		if (!S_ISDIR(st.st_mode))
			return say(err, KODA_IO, ENOTDIR, "look up", pl->path);
		close_at(&w->cur);
		w->cur = take_fd(&fd);
		w->len = n;
		return 0;
	}
	pl->name = pl->path + w->len + 1;
	pl->missing = pl->path + n;
	pl->target_fd = take_fd(&fd);
	pl->st = st;
	pl->parent_fd = take_fd(&w->cur);
	w->len = n;
	*ret_end = true;
	return 0;
}

/* The path ended at the current directory ("", "." or ".."): that is the place. */
static int
walk_end_here(struct resolve_walk *w, struct koda_error *err)
{
	struct place *pl = w->pl;
	size_t n = w->len;

	if (n == 0)
		strcpy(pl->path, "/");
	if (fstat(w->cur, &pl->st) < 0)
		return say(err, KODA_IO, errno, "look up", pl->path);
	pl->missing = pl->path + strlen(pl->path);
	while (n > 0 && pl->path[n - 1] != '/')
		n--;
	pl->name = n == 0 ? pl->missing : pl->path + n;
	if ((w->flags & RESOLVE_PARENT) != 0) {
		pl->parent_fd = resolve_canonical_dir(w->r, pl->path, n > 0 ? n - 1 : 0);
		if (pl->parent_fd < 0)
			return say(err, KODA_IO, errno, "look up the directory of", pl->path);
	}
	pl->target_fd = take_fd(&w->cur);
	return 0;
}

static int
walk_steps(struct resolve_walk *w, bool relative, struct koda_error *err)
{
	struct place *pl = w->pl;
	bool end = false;

	while (!end) {
		char *name;
		size_t k, behind;
		bool last;

		w->p += strspn(w->p, "/");
		if (*w->p == '\0')
			break;
		name = w->p;
		k = strcspn(name, "/");
		behind = strspn(name + k, "/");
		last = name[k + behind] == '\0';
		pl->wants_dir = behind > 0;
		w->p += k;
		if (k == 1 && name[0] == '.') {
			pl->wants_dir = true;
		} else if (k == 2 && name[0] == '.' && name[1] == '.') {
			pl->wants_dir = true;
			/* Links may lead up, as they do for the kernel; where they lead is
			 * judged. */
			if (walk_up(w, relative && k + strlen(w->p) <= w->asked, err) < 0)
				return -1;
		} else if (walk_name(w, name, k, last, &end, err) < 0) {
			return -1;
		}
	}
	if (w->missing) {
		if (pl->missing == pl->path + PATH_LEN_MAX)
			pl->missing = pl->path + w->len;
		pl->parent_fd = take_fd(&w->cur);
	} else if (!end && walk_end_here(w, err) < 0) {
		return -1;
	}
	if (pl->wants_dir && pl->target_fd >= 0 && !S_ISDIR(pl->st.st_mode))
		return say(err, KODA_IO, ENOTDIR, "look up", pl->path);
	return 0;
}

static int
resolve_walk(const struct resolver *r, const char *path, size_t len, unsigned flags,
    struct place *pl, struct koda_error *err)
{
	cleanup(walk_done) struct resolve_walk w = { .r = r, .pl = pl, .flags = flags, .cur = -1 };
	const bool relative = path[0] != '/';

	pl->wants_dir = false;
	w.rest = w.p = malloc(len + 1);
	if (w.rest == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "look up a path");
	memcpy(w.rest, path, len);
	w.rest[len] = '\0';
	w.asked = len;
	if (relative) {
		strcpy(pl->path, r->root);
		w.len = strlen(r->root) == 1 ? 0 : strlen(r->root);
		/* Use the descriptor, not the text: the root is the directory that was sealed,
		 * wherever it is now. */
		w.cur = openat(r->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	} else {
		w.cur = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	pl->path[w.len] = '\0';
	if (w.cur < 0)
		return say(err, KODA_IO, errno, "look up", relative ? r->root : "/");
	if (walk_steps(&w, relative, err) < 0) {
		walk_name_failed(&w);
		return -1;
	}
	return 0;
}

int
resolve(const struct resolver *r, const uint8_t *path, size_t len, unsigned flags,
    struct place *ret, struct koda_error *err)
{
	place_init(ret);
	if (path_check(path, len, err) < 0)
		return -1;
	if (!r->no_openat2) {
		if (resolve_plain(r, (const char *)path, len, flags, ret) == 0)
			return 0;
		place_done(ret);
	}
	if (resolve_walk(r, (const char *)path, len, flags, ret, err) < 0) {
		close_at(&ret->parent_fd);
		close_at(&ret->target_fd);
		ret->parent_fd = ret->target_fd = -1;
		return -1;
	}
	return 0;
}
