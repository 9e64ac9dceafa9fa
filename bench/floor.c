#include "bench/floor.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/cleanup.h"

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
