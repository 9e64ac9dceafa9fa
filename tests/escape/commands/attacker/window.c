/* The moment in which the host replaces a protected file: what can be kept of it until later. */
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
#include <unistd.h>

#include "shared/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

struct keep {
	const char *how, *file, *text, *dir;
	int fd;
};

static bool
is_there(const struct keep *k, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", k->dir, name);
	return access(path, F_OK) == 0;
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

/* What has been replaced, by a way on which it may be written: no mount that is read-only lies on it. */
static int
get(const struct keep *k, int flags)
{
	struct stat before, st;
	struct statvfs fs;

	if (stat(k->file, &before) < 0)
		exit(failed("stat"));
	say(k, "ready");
	for (unsigned i = 0; i % 64 != 0 || !is_there(k, "go"); i++) {
		int fd = open(k->file, flags | O_CLOEXEC);

		if (fd >= 0 && fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) == 0 &&
		    fstat(fd, &st) == 0 && st.st_ino != before.st_ino)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	exit(1);
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

static void
wait_for(const struct keep *k, const char *name)
{
	while (!is_there(k, name))
		usleep(1000);
}

/* Appended once it is time, through a descriptor that need not have been opened for it. */
static void
use(const struct keep *k, int fd)
{
	char name[64];
	int again;

	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	wait_for(k, "go");
	again = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (again < 0)
		failed("open again");
	else if (write(again, k->text, strlen(k->text)) < 0)
		failed("write");
	say(k, "done");
	_exit(0);
}

static void *
thread_main(void *arg)
{
	const struct keep *k = arg;

	use(k, k->fd);
	return NULL;
}

/* keep HOW FILE TEXT DIR: say so in DIR/ready, get hold of FILE when it is replaced and not protected yet, keep that,
 * and when DIR/go is there append TEXT to it, and say DIR/done. */
int
keep_main(int argc, char **argv)
{
	struct keep k = { argv[1], argv[2], argv[3], argv[4], -1 };
	pthread_t thread;
	int pair[2];

	if (strcmp(k.how, "queue") == 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return failed("socketpair");
		k.fd = get(&k, O_RDWR);
		if (pass(pair[0], k.fd) < 0)
			return failed("pass");
		close(k.fd);
		wait_for(k.go);
		k.fd = pass(pair[1], -1);
	} else if (strcmp(k.how, "path") == 0) {
		k.fd = get(&k, O_PATH);
	} else if (strcmp(k.how, "leaderless") == 0) {
		k.fd = get(&k, O_RDWR);
		if (pthread_create(&thread, NULL, thread_main, &k) != 0)
			return failed("pthread_create");
		syscall(SYS_exit, 0);
	} else {
		k.fd = get(&k, O_RDONLY);
	}
	use(&k, k.fd);
	return 0;
}
