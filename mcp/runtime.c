/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/runtime.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mcp/digest.h"
#include "mcp/fault.h"

#define DIR_NAME "koda-sandbox"
/* The name of our directory, which has the uid in it in /tmp. */
#define OWN_NAME_SIZE 32
/* NAME.KIND */
#define FILE_NAME_SIZE 64
/* Retries, because another server that ends may remove the directory between our creating it and
 * our creating something in it. */
#define TRIES 100

struct runtime {
	int base, dir, lock;
	char base_name[OWN_NAME_SIZE]; /* name of dir in base */
	char name[RUNTIME_NAME_LEN + 1];
	char kinds[RUNTIME_KINDS][FILE_NAME_SIZE]; /* the sockets created */
	size_t n_kinds;
};

void
runtime_random(void *ret, size_t n)
{
	char *p = ret;

	while (n > 0) {
		ssize_t r = getrandom(p, n, 0);

		if (r < 0 && errno != EINTR)
			abort();
		if (r > 0) {
			p += r;
			n -= (size_t)r;
		}
	}
}

/* ---- the directory ---- */

/* Opens an absolute path without following links. Returns -1 with errno on failure. */
static int
open_without_links(const char *path)
{
	int at = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *p = path;

	if (path[0] != '/') {
		if (at >= 0)
			close(at);
		errno = EINVAL;
		return -1;
	}
	while (at >= 0) {
		char part[NAME_MAX + 1];
		size_t n;
		int next;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n == 0)
			return at;
		if (n >= sizeof(part)) {
			close(at);
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(part, p, n);
		part[n] = '\0';
		p += n;
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(at);
		at = next;
	}
	return -1;
}

static bool
is_ours(int fd, mode_t not_allowed)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & not_allowed) == 0;
}

/* Opens the parent of our directory, and returns the name of our directory in it in ret_name.
 * Returns -1 with *err set on failure. */
static int
open_base(char ret_name[OWN_NAME_SIZE], struct koda_error *err)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	int base;

	if (xdg != NULL && xdg[0] != '\0') {
		base = open_without_links(xdg);
		if (base >= 0 && is_ours(base, 022)) {
			snprintf(ret_name, OWN_NAME_SIZE, DIR_NAME);
			return base;
		}
		/* It belongs to another user (sudo keeps the variable), or others may write it:
		 * not for secrets. */
		if (base >= 0)
			close(base);
	}
	base = open_without_links("/tmp");
	if (base < 0)
		return fault_set(err, KODA_IO, errno, "open '/tmp'");
	snprintf(ret_name, OWN_NAME_SIZE, DIR_NAME "-%u", (unsigned)geteuid());
	return base;
}

/* Opens our directory. Returns -1 with *err set on failure; KODA_OK means that there is none. */
static int
open_own(int base, const char *name, struct koda_error *err)
{
	int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		return -1;
	if (dir >= 0 && is_ours(dir, 077))
		return dir;
	if (dir < 0)
		return fault_set(err, KODA_UNSUPPORTED, errno, "open the runtime directory '%s'",
		    name);
	close(dir);
	return fault_set(err, KODA_UNSUPPORTED, 0,
	    "other users own or may use the runtime directory '%s': remove it", name);
}

int
runtime_find(struct koda_error *err)
{
	char name[OWN_NAME_SIZE];
	int base, dir;

	*err = (struct koda_error){ 0 };
	base = open_base(name, err);
	if (base < 0)
		return -1;
	dir = open_own(base, name, err);
	close(base);
	return dir;
}

/* ---- names ---- */

static void
file_name(char ret[FILE_NAME_SIZE], const char *name, const char *kind)
{
	snprintf(ret, FILE_NAME_SIZE, "%s.%s", name, kind);
}

bool
runtime_is_name(const char *text, size_t len)
{
	uint8_t bytes[RUNTIME_NAME_LEN / 2];

	return len == RUNTIME_NAME_LEN && digest_parse(text, bytes, sizeof(bytes));
}

int
runtime_visit(int dir, runtime_name_fn *fn, void *data)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (d == NULL) {
		if (copy >= 0)
			close(copy);
		return -1;
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		char name[RUNTIME_NAME_LEN + 1];

		if (strlen(e->d_name) < RUNTIME_NAME_LEN ||
		    !runtime_is_name(e->d_name, RUNTIME_NAME_LEN) ||
		    strcmp(e->d_name + RUNTIME_NAME_LEN, ".lock") != 0)
			continue;
		memcpy(name, e->d_name, RUNTIME_NAME_LEN);
		name[RUNTIME_NAME_LEN] = '\0';
		r = fn(data, name);
	}
	closedir(d);
	return r;
}

/* ---- a server ---- */

/* Removes everything under a dead server's name, of whatever type. */
static void
remove_files(int dir, const char *name)
{
	static const char *const kinds[] = { RUNTIME_CHILD, RUNTIME_STATUS, "lock" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char file[FILE_NAME_SIZE];

		file_name(file, name, kinds[i]);
		unlinkat(dir, file, 0);
	}
}

/* Removes a dead server's files, the lock last: without it no server would look for the rest. */
static int
sweep_one(void *data, const char *name)
{
	int dir = *(const int *)data, lock;
	char file[FILE_NAME_SIZE];

	file_name(file, name, "lock");
	lock = openat(dir, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (lock < 0)
		return 0;
	if (flock(lock, LOCK_EX | LOCK_NB) == 0)
		remove_files(dir, name);
	close(lock);
	return 0;
}

/*
 * Between the creation of the lock file and the flock, another server's sweep may take it for a
 * dead server's and remove it; then it has no name when we have locked it. Returns 0, 1 to try
 * again, or -1 with errno.
 */
static int
take_name(struct runtime *rt)
{
	uint8_t random[RUNTIME_NAME_LEN / 2];
	char file[FILE_NAME_SIZE];
	struct stat st;

	runtime_random(random, sizeof(random));
	digest_hex(random, sizeof(random), rt->name);
	file_name(file, rt->name, "lock");
	rt->lock = openat(rt->dir, file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (rt->lock < 0)
		return errno == ENOENT || errno == EEXIST ? 1 : -1;
	if (flock(rt->lock, LOCK_EX | LOCK_NB) == 0 && fstat(rt->lock, &st) == 0 &&
	    st.st_nlink == 1)
		return 0;
	close(rt->lock);
	rt->lock = -1;
	return 1;
}

/* Returns 0, 1 to try again, or -1 with *err set. */
static int
settle(struct runtime *rt, struct koda_error *err)
{
	int r;

	if (mkdirat(rt->base, rt->base_name, 0700) < 0 && errno != EEXIST)
		return fault_set(err, KODA_UNSUPPORTED, errno, "make the runtime directory '%s'",
		    rt->base_name);
	*err = (struct koda_error){ 0 };
	rt->dir = open_own(rt->base, rt->base_name, err);
	if (rt->dir < 0)
		return err->code == KODA_OK ? 1 : -1;
	r = take_name(rt);
	if (r < 0)
		return fault_set(err, KODA_UNSUPPORTED, errno,
		    "write to the runtime directory '%s'", rt->base_name);
	if (r > 0) {
		close(rt->dir);
		rt->dir = -1;
	}
	return r;
}

struct runtime *
runtime_new(struct koda_error *err)
{
	struct runtime *rt = malloc(sizeof(*rt));
	int r = 1;

	if (rt == NULL) {
		fault_set(err, KODA_INTERNAL, ENOMEM, "open the runtime directory");
		return NULL;
	}
	*rt = (struct runtime){ .base = -1, .dir = -1, .lock = -1 };
	rt->base = open_base(rt->base_name, err);
	if (rt->base < 0) {
		runtime_free(rt);
		return NULL;
	}
	for (int i = 0; r > 0 && i < TRIES; i++)
		r = settle(rt, err);
	if (r > 0)
		fault_set(err, KODA_UNSUPPORTED, 0,
		    "other processes keep removing the runtime directory '%s'", rt->base_name);
	if (r != 0) {
		runtime_free(rt);
		return NULL;
	}
	runtime_visit(rt->dir, sweep_one, &rt->dir);
	return rt;
}

void
runtime_free(struct runtime *rt)
{
	char file[FILE_NAME_SIZE];

	if (rt == NULL)
		return;
	for (size_t i = 0; i < rt->n_kinds; i++)
		unlinkat(rt->dir, rt->kinds[i], 0);
	if (rt->lock >= 0) {
		file_name(file, rt->name, "lock");
		unlinkat(rt->dir, file, 0);
		close(rt->lock);
	}
	if (rt->dir >= 0) {
		close(rt->dir);
		/* Fails if the directory is not empty: other servers are there. */
		unlinkat(rt->base, rt->base_name, AT_REMOVEDIR);
	}
	if (rt->base >= 0)
		close(rt->base);
	free(rt);
}

const char *
runtime_name(const struct runtime *rt)
{
	return rt->name;
}

/* ---- sockets ---- */

/* Addresses a file through the directory's descriptor, so that a path of any length fits and
 * none is resolved twice. */
static void
address(struct sockaddr_un *ret, int dir, const char *file)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir, file);
}

int
runtime_listen(struct runtime *rt, const char *kind, int type, struct koda_error *err)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char *file = rt->kinds[rt->n_kinds];
	struct sockaddr_un name;

	assert(rt->n_kinds < RUNTIME_KINDS);
	file_name(file, rt->name, kind);
	address(&name, rt->dir, file);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
	    listen(fd, SOMAXCONN) < 0) {
		fault_set(err, KODA_UNSUPPORTED, errno, "make the socket '%s'", file);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	rt->n_kinds++;
	return fd;
}

int
runtime_connect(int dir, const char *name, const char *kind, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un to;
	char file[FILE_NAME_SIZE];
	int saved;

	if (fd < 0)
		return -1;
	file_name(file, name, kind);
	address(&to, dir, file);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 && runtime_peer_is_us(fd))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

bool
runtime_peer_is_us(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	errno = EPERM;
	return peer.uid == geteuid();
}
