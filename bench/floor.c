/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/floor.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define PING_BYTES 64
#define EDIT_MAX   (64u << 10)

static int
complain(const char *what)
{
	perror(what);
	return -1;
}

/* ---- ping ---- */

static int
echo(int fd)
{
	char buf[PING_BYTES];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			return 1;
	return n < 0;
}

int
floor_peer_start(struct floor_peer *ret)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return complain("socketpair");
	pid = fork();
	if (pid < 0)
		return complain("fork");
	if (pid == 0) {
		close(pair[0]);
		_exit(echo(pair[1]));
	}
	close(pair[1]);
	*ret = (struct floor_peer){ pair[0], pid };
	return 0;
}

void
floor_peer_stop(struct floor_peer *peer)
{
	close(peer->fd);
	waitpid(peer->pid, NULL, 0);
}

int
floor_ping(const struct floor_peer *peer)
{
	char buf[PING_BYTES] = { 0 };
	size_t got = 0;

	if (write(peer->fd, buf, sizeof(buf)) != sizeof(buf))
		return complain("ping");
	while (got < sizeof(buf)) {
		ssize_t n = read(peer->fd, buf + got, sizeof(buf) - got);

		if (n <= 0)
			return complain("pong");
		got += (size_t)n;
	}
	return 0;
}

/* ---- files ---- */

int
floor_write(const char *name, const void *data, size_t len)
{
	const uint8_t *p = data;
	char temp[256];
	cleanup_close int fd = -1;

	snprintf(temp, sizeof(temp), "%s.tmp", name);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return complain(temp);
	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0)
			return complain(temp);
		p += n;
		len -= (size_t)n;
	}
	if (close(take_fd(&fd)) < 0 || rename(temp, name) < 0)
		return complain(name);
	return 0;
}

ssize_t
floor_read(const char *name, void *buf, size_t size)
{
	cleanup_close int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size > size)
		return complain(name);
	while (got < (size_t)st.st_size) {
		ssize_t n = read(fd, (char *)buf + got, (size_t)st.st_size - got);

		if (n <= 0)
			return complain(name);
		got += (size_t)n;
	}
	return (ssize_t)got;
}

ssize_t
floor_read_bulk(const char *name, void *buf, size_t size)
{
	cleanup_close int fd = open(name, O_RDONLY | O_CLOEXEC);
	off_t at = 0;
	ssize_t n;

	if (fd < 0)
		return complain(name);
	while ((n = pread(fd, buf, size, at)) > 0)
		at += n;
	return n < 0 ? complain(name) : at;
}

int
floor_edit(const char *name, const char *from, const char *to)
{
	static char old[EDIT_MAX], changed[2 * EDIT_MAX];
	size_t from_len = strlen(from), to_len = strlen(to), before;
	ssize_t n = floor_read(name, old, sizeof(old));
	char *at;

	if (n < 0)
		return -1;
	at = memmem(old, (size_t)n, from, from_len);
	if (at == NULL) {
		fprintf(stderr, "%s: '%s' is not in it\n", name, from);
		return -1;
	}
	before = (size_t)(at - old);
	memcpy(changed, old, before);
	memcpy(changed + before, to, to_len);
	memcpy(changed + before + to_len, at + from_len, (size_t)n - before - from_len);
	return floor_write(name, changed, (size_t)n - from_len + to_len);
}

/* ---- the rest ---- */

int
floor_spawn(const char *program)
{
	char *argv[] = { (char *)program, NULL }, *envp[] = { NULL };
	int status, r;
	pid_t pid;

	r = posix_spawn(&pid, program, NULL, NULL, argv, envp);
	if (r != 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "%s: %s\n", program, r != 0 ? strerror(r) : "failed");
		return -1;
	}
	return 0;
}

/* Start argv in dir (NULL: the working directory) with /dev/null as standard input. out and err
 * become its standard output and standard error; with -1 it inherits ours. Returns 0 and stores the
 * process in *ret, or returns -1 after printing why. */
static int
start(const char *const *argv, const char *dir, int out, int err, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (err >= 0)
		posix_spawn_file_actions_adddup2(&actions, err, 2);
	if (dir != NULL)
		posix_spawn_file_actions_addchdir_np(&actions, dir);
	r = posix_spawnp(ret, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r == 0)
		return 0;
	fprintf(stderr, "%s: %s\n", argv[0], strerror(r));
	return -1;
}

static int
end(const char *name, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) == pid && status == 0)
		return 0;
	fprintf(stderr, "%s: failed\n", name);
	return -1;
}

int
floor_run(const char *const *argv, const char *dir)
{
	pid_t pid;

	return start(argv, dir, -1, -1, &pid) < 0 ? -1 : end(argv[0], pid);
}

/* Read once from fd, into ret after the *ret_got bytes that are there. When ret is full, discard
 * what is read. Returns false at the end of the stream and on an error. */
static bool
drain(int fd, char *ret, size_t size, size_t *ret_got)
{
	static char sink[64u << 10];
	size_t room = size - *ret_got;
	ssize_t n = room > 0 ? read(fd, ret + *ret_got, room) : read(fd, sink, sizeof(sink));

	if (n > 0 && room > 0)
		*ret_got += (size_t)n;
	return n > 0;
}

int
floor_capture(const char *const *argv, const char *dir, char *ret, size_t size)
{
	cleanup_close int out = -1, err = -1;
	int to[2], from[2], r;
	struct pollfd pfd[2];
	size_t got = 0, none = 0;
	pid_t pid;

	if (pipe2(to, O_CLOEXEC) < 0)
		return complain("pipe");
	out = to[0];
	if (pipe2(from, O_CLOEXEC) < 0) {
		close(to[1]);
		return complain("pipe");
	}
	err = from[0];
	r = start(argv, dir, to[1], from[1], &pid);
	close(to[1]);
	close(from[1]);
	if (r < 0)
		return -1;
	pfd[0] = (struct pollfd){ out, POLLIN, 0 };
	pfd[1] = (struct pollfd){ err, POLLIN, 0 };
	while (pfd[0].fd >= 0 || pfd[1].fd >= 0) {
		if (poll(pfd, 2, -1) < 0)
			return complain("poll");
		if (pfd[0].revents != 0 && !drain(out, ret, size - 1, &got))
			pfd[0].fd = -1;
		if (pfd[1].revents != 0 && !drain(err, NULL, 0, &none))
			pfd[1].fd = -1;
	}
	ret[got] = '\0';
	return end(argv[0], pid);
}

int
floor_resolve(int dir, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

	if (fd < 0)
		return complain(path);
	close(fd);
	return 0;
}

/* ---- trees ---- */

static DIR *
open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *ret = fd < 0 ? NULL : fdopendir(fd);

	if (ret == NULL)
		complain(name);
	return ret;
}

/* Returns the next name, or NULL. */
static const char *
next_name(DIR *dir)
{
	const struct dirent *e;

	do
		e = readdir(dir);
	while (e != NULL && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
	return e == NULL ? NULL : e->d_name;
}

static int
compare_below(DIR *upper, int lower)
{
	const int fd = dirfd(upper);
	char path[300], list[1024];
	struct stat st, low;
	const char *name;
	int r = 0;

	while (r == 0 && (name = next_name(upper)) != NULL) {
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return complain(name);
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", fd, name);
		if (llistxattr(path, list, sizeof(list)) < 0)
			return complain(path);
		if (fstatat(lower, name, &low, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
			DIR *below = open_dir(fd, name);
			cleanup_close int beside =
			    openat(lower, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			r = below == NULL ? -1 : compare_below(below, beside);
			if (below != NULL)
				closedir(below);
		}
	}
	return r;
}

int
floor_compare(const char *upper, const char *lower)
{
	DIR *dir = open_dir(AT_FDCWD, upper);
	cleanup_close int beside = open(lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = dir == NULL ? -1 : compare_below(dir, beside);

	if (dir != NULL)
		closedir(dir);
	return r;
}

static int
move_files(DIR *from, int to)
{
	const char *name;

	while ((name = next_name(from)) != NULL)
		if (renameat2(dirfd(from), name, to, name, RENAME_NOREPLACE) < 0)
			return complain(name);
	return 0;
}

static int
move_dir(int from, int to, const char *name)
{
	cleanup_close int dest = -1;
	DIR *dir;
	int r;

	if (mkdirat(to, name, 0755) < 0)
		return complain(name);
	dest = openat(to, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	dir = open_dir(from, name);
	r = dir == NULL || dest < 0 ? -1 : move_files(dir, dest);
	if (dir != NULL)
		closedir(dir);
	return r;
}

int
floor_move(const char *from, const char *to)
{
	DIR *dir = open_dir(AT_FDCWD, from);
	cleanup_close int dest = -1;
	const char *name;
	int r = mkdir(to, 0755) < 0 ? complain(to) : 0;

	dest = open(to, O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (r == 0 && dir != NULL && (name = next_name(dir)) != NULL)
		r = move_dir(dirfd(dir), dest, name);
	if (dir == NULL)
		return -1;
	closedir(dir);
	return r;
}
