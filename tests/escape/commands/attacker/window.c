/* SPDX-License-Identifier: Apache-2.0 */
/* The moment in which the host replaces a protected file: what a command can keep of it for
 * later. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

#define SETTLED_US 10000

struct keep {
	const char *file, *text, *dir;
};

static bool
is_there(const struct keep *k, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", k->dir, name);
	return appeared(path);
}

static void
say(const struct keep *k, const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", k->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}

/*
 * Opens the file by a path on which it is writable, under no read-only mount. The file that is
 * being replaced can also be opened in that moment, which is useless: `look` detects it. Without
 * the sandbox such a path always exists.
 */
static int
get(const struct keep *k, int flags)
{
	struct statvfs fs;

	for (unsigned i = 0; i % 64 != 0 || !is_there(k, "go"); i++) {
		int fd = open(k->file, flags | O_CLOEXEC);

		/* A writable descriptor needs no further check, and there is no time for one. */
		if (fd >= 0 &&
		    (flags == O_WRONLY || (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) == 0)))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	_exit(1);
}

/* Reports whether this is the file that has the name, after the host has restored the
 * protection. */
static bool
is_current(const struct keep *k, const struct stat *mine)
{
	struct stat st;

	usleep(SETTLED_US);
	return stat(k->file, &st) == 0 && st.st_ino == mine->st_ino;
}

static int
pass(int sock, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (fd < 0) {
		if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1 || (c = CMSG_FIRSTHDR(&msg)) == NULL)
			return -1;
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		return fd;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -1;
}

/* Appends when it is time, through a descriptor that need not be open for writing. */
static _Noreturn void
use(const struct keep *k, int fd)
{
	char name[64];
	int again;

	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	again = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (again < 0)
		failed("open again");
	else if (write(again, k->text, strlen(k->text)) < 0)
		failed("write");
	say(k, "done");
	_exit(0);
}

static _Noreturn void
keep(const struct keep *k, int flags)
{
	struct stat before, mine;
	int fd;

	if (stat(k->file, &before) < 0)
		_exit(failed("stat"));
	say(k, "ready");
	for (;; close(fd)) {
		fd = get(k, flags);
		if (fstat(fd, &mine) == 0 && mine.st_ino != before.st_ino && is_current(k, &mine))
			break;
	}
	say(k, "held");
	while (!is_there(k, "go"))
		usleep(1000);
	use(k, fd);
}

/* Keeps the descriptor only for as long as it takes to send it. */
static _Noreturn void
keep_queued(const struct keep *k)
{
	ino_t replaced, sent = 0;
	struct stat st;
	int pair[2];

	if (stat(k->file, &st) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		_exit(failed("prepare"));
	replaced = st.st_ino;
	say(k, "ready");
	for (unsigned i = 1; i % 64 != 0 || !is_there(k, "go"); i++) {
		int fd = open(k->file, O_WRONLY | O_CLOEXEC);
		bool got = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino != replaced &&
		    st.st_ino != sent && pass(pair[0], fd) == 0;

		if (got)
			sent = st.st_ino;
		if (fd >= 0)
			close(fd);
		if (got)
			usleep(SETTLED_US);
		if ((!got && i % 256 != 0) || stat(k->file, &st) < 0)
			continue;
		if (st.st_ino == sent)
			say(k, "held");
		replaced = st.st_ino;
	}
	while (sent != 0) {
		int fd = pass(pair[1], -1);

		if (fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == sent))
			use(k, fd);
		close(fd);
	}
	_exit(1);
}

static void *
thread_main(void *arg)
{
	/* Wait until the host has seen it end. */
	usleep(SETTLED_US);
	keep(arg, O_WRONLY);
}

/* keep HOW FILE TEXT DIR: makes DIR/ready, gets hold of FILE while it is replaced and not yet
 * protected, makes DIR/held, and once DIR/go exists appends TEXT to FILE and makes DIR/done. */
int
keep_main(int argc, char **argv)
{
	static struct keep k;
	pthread_t thread;

	k = (struct keep){ argv[2], argv[3], argv[4] };
	if (strcmp(argv[1], "queue") == 0)
		keep_queued(&k);
	if (strcmp(argv[1], "path") == 0)
		keep(&k, O_PATH);
	if (strcmp(argv[1], "read") == 0)
		keep(&k, O_RDONLY);
	if (pthread_create(&thread, NULL, thread_main, &k) != 0)
		return failed("pthread_create");
	syscall(SYS_exit, 0);
	return 0;
}

#define CROWD_PROCESSES 50
#define CROWD_SOCKETS   1000
#define CROWD_CALLERS   64
#define CROWD_SECONDS   10 /* outside a sandbox nothing else ends them */

/* crowd PATH: makes so many sockets that finding one among them takes long, and keeps connecting
 * to PATH, where no process listens. Returns once they exist. */
int
crowd_main(int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int ready[2], s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte;

	strncpy(addr.sun_path, argv[1], sizeof(addr.sun_path) - 1);
	if (s < 0 || bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    pipe2(ready, O_CLOEXEC) < 0)
		return failed("prepare");
	for (int i = 0; i < CROWD_PROCESSES + CROWD_CALLERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return failed("fork");
		if (pid > 0)
			continue;
		for (int n = 0, pair[2]; i < CROWD_PROCESSES && n < CROWD_SOCKETS; n += 2)
			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
				break;
		s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		(void)!write(ready[1], "", 1);
		alarm(CROWD_SECONDS);
		for (;;) {
			if (i < CROWD_PROCESSES)
				pause();
			(void)connect(s, (struct sockaddr *)&addr, sizeof(addr));
		}
	}
	for (int i = 0; i < CROWD_PROCESSES + CROWD_CALLERS; i++)
		if (read(ready[0], &byte, 1) != 1)
			return 1;
	return 0;
}
