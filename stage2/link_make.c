/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/link_make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "stage2/caller.h"

/*
 * Directories between the requested one and a known one. Each costs a microsecond; a path from the
 * root cannot be deeper than half of PATH_MAX.
 */
#define DEPTH_MAX (PATH_MAX / 2)

#define GONE 1 /* no caller waits for an answer */

struct wanted {
	uint64_t id;
	pid_t tid;
	bool link;
	uint64_t target_at, path_at; /* in the caller's memory */
	int dirfd;
	mode_t mode, umask;
	int base; /* what a relative path starts from, or -1 */
	char target[PATH_MAX], path[PATH_MAX];
};

/* ---- the request ---- */

static int
decode_request(const struct seccomp_notif *req, struct wanted *w)
{
	const uint64_t *a = (const uint64_t *)req->data.args;

	w->id = req->id;
	w->tid = (pid_t)req->pid;
	w->base = -1;
	w->dirfd = AT_FDCWD;
	switch (req->data.nr) {
#ifdef SYS_symlink
	case SYS_symlink:
		w->link = true;
		w->target_at = a[0];
		w->path_at = a[1];
		return 0;
	case SYS_mknod:
		w->link = false;
		w->path_at = a[0];
		w->mode = (mode_t)a[1] & 0xffff;
		return 0;
#endif
	case SYS_symlinkat:
		w->link = true;
		w->target_at = a[0];
		w->dirfd = (int)a[1];
		w->path_at = a[2];
		return 0;
	case SYS_mknodat:
		w->link = false;
		w->dirfd = (int)a[0];
		w->path_at = a[1];
		w->mode = (mode_t)a[2] & 0xffff;
		return 0;
	}
	return -ENOSYS;
}

/*
 * Copies a path as the kernel would: it must not be empty, and must end within PATH_MAX. Returns 0,
 * -errno or GONE.
 */
static int
copy_string(pid_t tid, uint64_t from, char to[PATH_MAX])
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = 0;

	/* Up to the end of a page at a time: the next page may not be mapped. */
	while (len < PATH_MAX) {
		size_t part = page - (size_t)((from + len) & (page - 1));
		struct iovec local, remote;
		ssize_t n;

		if (part > PATH_MAX - len)
			part = PATH_MAX - len;
		local = (struct iovec){ to + len, part };
		remote = (struct iovec){ (void *)(uintptr_t)(from + len), part };
		n = process_vm_readv(tid, &local, 1, &remote, 1, 0);
		if (n < 0)
			return errno == ESRCH ? GONE : errno == EFAULT ? -EFAULT : -EPERM;
		if (memchr(to + len, '\0', (size_t)n) != NULL)
			return to[0] == '\0' ? -ENOENT : 0;
		if ((size_t)n != part)
			return -EFAULT;
		len += part;
	}
	return -ENAMETOOLONG;
}

static int
take_descriptor(struct wanted *w, int fd)
{
	cleanup_close int pidfd = caller_open(w->tid);

	if (pidfd < 0)
		return pidfd == -ESRCH ? GONE : -EPERM;
	/* It is the caller's process only if the caller still waits now. */
	if (!caller_waits(LINK_LISTENER_FD, w->id))
		return GONE;
	w->base = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (w->base < 0)
		return errno == EBADF ? -EBADF : errno == ESRCH ? GONE : -EPERM;
	return 0;
}

static int
take_cwd(struct wanted *w)
{
	w->base = caller_cwd(w->tid);
	return w->base >= 0 ? 0 : errno == ENOENT || errno == ESRCH ? GONE : -EPERM;
}

/*
 * For this process /proc/self is another process than for the caller. Resolves the usual paths
 * through it for the caller; *path is set to what is left.
 */
static int
take_own(struct wanted *w, const char **path)
{
	static const char *const fds[] = { "/proc/self/fd/", "/dev/fd/" };
	static const char cwd[] = "/proc/self/cwd/";

	if (strncmp(*path, cwd, strlen(cwd)) == 0 && (*path)[strlen(cwd)] != '\0') {
		*path += strlen(cwd);
		return take_cwd(w);
	}
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		size_t len = strlen(fds[i]);
		char *end;
		unsigned long fd;
		int r;

		if (strncmp(*path, fds[i], len) != 0 || (*path)[len] < '0' || (*path)[len] > '9')
			continue;
		fd = strtoul(*path + len, &end, 10);
		if (*end != '/' || end[1] == '\0' || fd > INT_MAX)
			continue;
		*path = end + 1;
		r = take_descriptor(w, (int)fd);
		return r == -EBADF ? -ENOENT : r;
	}
	return 0;
}

/*
 * Takes everything from the caller, with the kernel's order of errors. *path points into w. Returns
 * 0, -errno or GONE.
 */
static int
take_arguments(struct wanted *w, const char **path)
{
	int r = w->link ? copy_string(w->tid, w->target_at, w->target) : 0;

	if (r == 0)
		r = copy_string(w->tid, w->path_at, w->path);
	*path = w->path;
	if (r == 0 && w->path[0] == '/') {
		r = take_own(w, path);
		while (w->base >= 0 && **path == '/')
			(*path)++;
	} else if (r == 0) {
		r = w->dirfd == AT_FDCWD ? take_cwd(w) : take_descriptor(w, w->dirfd);
	}
	if (r == 0 && !w->link) {
		char text[CALLER_STATUS_SIZE];

		if (!caller_status(w->tid, text, sizeof(text)))
			return GONE;
		w->umask = (mode_t)caller_status_field(text, "Umask", 8) & 0777;
	}
	/* What was opened by the caller's number is the caller's only if it still waits now. */
	return caller_waits(LINK_LISTENER_FD, w->id) ? r : GONE;
}

/*
 * Opens the directory to make it in. *ret_name gets the last name with the slashes after it.
 * Returns 0 or -errno.
 */
static int
open_parent(struct wanted *w, const char *path, int *ret, const char **ret_name)
{
	char dir[PATH_MAX];
	size_t end = strlen(path), at;

	while (end > 0 && path[end - 1] == '/')
		end--;
	if (end == 0)
		return -EEXIST; /* the root */
	for (at = end; at > 0 && path[at - 1] != '/'; at--)
		;
	*ret_name = path + at;
	memcpy(dir, path, at);
	dir[at] = '\0';
	*ret = at == 0 ? fcntl(w->base, F_DUPFD_CLOEXEC, LINK_FDS_END)
		       : open_resolved(w->base, dir, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
	return *ret < 0 ? -errno : 0;
}

/* ---- is it allowed there ---- */

int
link_dir_order(const void *a, const void *b)
{
	const struct link_dir *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

enum verdict { LINK_OPEN, LINK_PLAIN, LINK_CLOSED };

/*
 * Finds the nearest known directory that is this one or contains it. Compares inodes rather than
 * names: the caller may have opened the directory before the plan was mounted. Goes up one step at
 * a time, each through the descriptor of the step before: a process that moves directories
 * meanwhile cannot get past a git directory, because nothing can be moved out of one.
 */
static enum verdict
judge_directory(const struct links_shared *shared, int parent)
{
	cleanup_close int at = fcntl(parent, F_DUPFD_CLOEXEC, LINK_FDS_END);
	uint64_t dev = 0, ino = 0;

	for (int depth = 0; at >= 0 && depth < DEPTH_MAX; depth++) {
		const struct link_dir *found;
		struct link_dir key;
		struct stat st;
		int up;

		if (fstat(at, &st) < 0 || !S_ISDIR(st.st_mode))
			return LINK_CLOSED;
		key = (struct link_dir){ .dev = st.st_dev, .ino = st.st_ino };
		found = bsearch(&key, shared->dir, shared->n_dirs, sizeof(key), link_dir_order);
		if (found != NULL)
			return found->plain ? LINK_PLAIN : LINK_OPEN;
		if (key.dev == dev && key.ino == ino)
			return LINK_CLOSED; /* the root */
		dev = key.dev;
		ino = key.ino;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	return LINK_CLOSED;
}

/* HEAD -> refs/..., with a name below refs/. */
static bool
is_head(const char *target, const char *name)
{
	static const char refs[] = "refs/";
	const char *at = target;

	if (strcmp(name, "HEAD") != 0 || strncmp(at, refs, strlen(refs)) != 0)
		return false;
	while (*at != '\0') {
		size_t len = strcspn(at, "/");

		if (len == 0 || (at[0] == '.' && (len == 1 || (len == 2 && at[1] == '.'))))
			return false;
		at += len;
		if (*at == '/' && *++at == '\0')
			return false;
	}
	return true;
}

/*
 * t followed by six letters or digits -> testing: with it git finds out, while it makes the git
 * directory of a submodule, whether links work, and then removes it. If it fails, git notes that
 * links do not work.
 */
static bool
is_probe(const char *target, const char *name)
{
	static const char letters[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

	return strcmp(target, "testing") == 0 && name[0] == 't' && strlen(name) == 7 &&
	    strspn(name + 1, letters) == 6;
}

/*
 * Links that git makes in its own directory. Git obeys none of their targets, even if the link is
 * moved to another place in that directory.
 */
static bool
is_gits(const struct wanted *w, const char *name)
{
	return w->link && (is_head(w->target, name) || is_probe(w->target, name));
}

/* ---- the result ---- */

/*
 * Returns the error in the kernel's order: it exists already; the file system is read-only; only
 * then, it is not allowed.
 */
static int
refuse_name(int parent, const char *name, int why)
{
	size_t len = strcspn(name, "/");
	char last[PATH_MAX];
	struct statvfs fs;
	struct stat st;

	memcpy(last, name, len);
	last[len] = '\0';
	if (fstatat(parent, last, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (errno != ENOENT)
		return -errno;
	if (name[len] == '/')
		return -ENOENT;
	if (fstatvfs(parent, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0)
		return -EROFS;
	return -why;
}

static void
tell_refused(struct links_shared *shared, int parent, const char *name)
{
	char link[32], path[2 * PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
	n = readlink(link, path, PATH_MAX);
	if (n < 0)
		n = 0;
	/* Without the directory if the path would be too long to report. */
	n += snprintf(path + n, sizeof(path) - (size_t)n, "%s%s", n > 0 ? "/" : "", name);
	/*
	 * Sent before the caller is answered, so that pid 1 has it before the caller's end is
	 * reported.
	 */
	if (send(LINK_REFUSED_FD, path, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		atomic_fetch_add(&shared->untold, 1);
}

/* What was made for the current request. */
struct made_name {
	int parent; /* -1: nothing */
	char name[NAME_MAX + 1];
	struct stat st;
};

static void
made_name_done(struct made_name *m)
{
	close_at(&m->parent);
}

/* The caller was interrupted before it got its answer, and asks again: then the name must not be in
 * its own way. What was made is removed, unless it is something else now. */
static void
take_back(const struct made_name *m)
{
	struct stat now;

	if (m->parent >= 0 && fstatat(m->parent, m->name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    now.st_dev == m->st.st_dev && now.st_ino == m->st.st_ino &&
	    now.st_ctim.tv_sec == m->st.st_ctim.tv_sec &&
	    now.st_ctim.tv_nsec == m->st.st_ctim.tv_nsec)
		unlinkat(m->parent, m->name, 0);
}

static int
make_requested(const struct wanted *w, int parent, const char *name, struct made_name *ret)
{
	int r;

	if (w->link) {
		r = symlinkat(w->target, parent, name);
	} else {
		umask(w->umask);
		r = mknodat(parent, name, w->mode, 0);
	}
	if (r < 0)
		return -errno;
	if (strlen(name) < sizeof(ret->name) &&
	    fstatat(parent, name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0) {
		strcpy(ret->name, name);
		ret->parent = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	}
	return 0;
}

static int
serve_request(struct links_shared *shared, const struct seccomp_notif *req, struct made_name *ret)
{
	struct wanted w = { 0 };
	cleanup_close int base = -1, parent = -1;
	const char *path, *name;
	enum verdict verdict;
	uint64_t generation;
	struct stat st;
	int r;

	r = decode_request(req, &w);
	if (r == 0 && w.tid == 0) /* not of our pid namespace */
		r = -EPERM;
	if (r == 0)
		r = take_arguments(&w, &path);
	base = w.base;
	if (r == 0)
		r = open_parent(&w, path, &parent, &name);
	if (r != 0)
		return r;
	if (fstat(parent, &st) < 0 || !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	do {
		generation = atomic_load(&shared->generation);
		verdict = judge_directory(shared, parent);
	} while (generation % 2 != 0 || generation != atomic_load(&shared->generation));
	if (verdict == LINK_OPEN || (verdict == LINK_PLAIN && is_gits(&w, name)))
		return make_requested(&w, parent, name, ret);
	r = refuse_name(parent, name, verdict == LINK_PLAIN ? EPERM : EACCES);
	if (r == -EPERM && verdict == LINK_PLAIN)
		tell_refused(shared, parent, name);
	return r;
}

void
link_make_serve(struct links_shared *shared)
{
	char woken[64];

	for (;;) {
		while (atomic_load(&shared->answered) != atomic_load(&shared->asked)) {
			uint64_t n = atomic_load(&shared->answered);
			const struct seccomp_notif *req = &shared->request[n % LINKS_QUEUE_MAX];
			cleanup(made_name_done) struct made_name made = { .parent = -1 };
			int r = serve_request(shared, req, &made);

			/*
			 * Even if something could not be taken from it, a caller that still waits
			 * gets an answer.
			 */
			if (r == GONE && caller_waits(LINK_LISTENER_FD, req->id))
				r = -EPERM;
			atomic_store(&shared->made, n + 1);
			if (r <= 0 && !caller_answer(LINK_LISTENER_FD, req->id, r))
				take_back(&made);
			atomic_store(&shared->answered, n + 1);
		}
		const ssize_t n = read(LINK_WAKE_FD, woken, sizeof(woken));

		/* End of the pipe: stage2 is gone. */
		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(1);
	}
}
