/* SPDX-License-Identifier: Apache-2.0 */
/* Locks, notification, and sockets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/posix/ops.h"

static int
open_it(const char *path, int flags)
{
	return must(open(path, flags | O_CLOEXEC, 0644));
}

/* ---- locks ---- */

static void
flocks(void)
{
	int a = open_it("f", O_RDWR), b = open_it("f", O_RDWR);

	say("%s", er(flock(a, LOCK_EX)));
	say("%s", er(flock(b, LOCK_EX | LOCK_NB)));
	say("%s", er(flock(b, LOCK_SH | LOCK_NB)));
	say("%s", er(flock(a, LOCK_UN)));
	say("%s", er(flock(b, LOCK_EX | LOCK_NB)));
}

/* The lock was taken before the file was first written. */
static void
flock_early(void)
{
	int a = open_it("f", O_RDONLY), b;

	say("%s", er(flock(a, LOCK_EX)));
	append("f", "+");
	b = open_it("f", O_RDWR);
	say("%s", er(flock(b, LOCK_EX | LOCK_NB)));
}

static void
flock_directory(void)
{
	int a = open_it("d", O_RDONLY), b;

	say("%s", er(flock(a, LOCK_EX)));
	put("d/new", "");
	b = open_it("d", O_RDONLY);
	say("%s", er(flock(b, LOCK_EX | LOCK_NB)));
}

static int
lock(int fd, int command, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10 };

	return fcntl(fd, command, &l);
}

/* Tries it in another process. */
static void
try_lock(const char *path, int command)
{
	int status;

	if (must(fork()) == 0)
		_exit(lock(open_it(path, O_RDWR), command, F_WRLCK) == 0 ? 0 : errno);
	wait(&status);
	errno = WEXITSTATUS(status);
	say("%s", er(errno == 0 ? 0 : -1));
}

static void
fcntl_locks(void)
{
	int fd = open_it("f", O_RDWR);

	say("%s", er(lock(fd, F_SETLK, F_WRLCK)));
	try_lock("f", F_SETLK);
	close(open_it("f", O_RDONLY)); /* gives the lock up */
	try_lock("f", F_SETLK);
}

static void
fcntl_early(void)
{
	int fd = open_it("f", O_RDONLY);

	say("%s", er(lock(fd, F_SETLK, F_RDLCK)));
	try_lock("f", F_SETLK);
}

static void
ofd_locks(void)
{
	int a = open_it("f", O_RDWR), b = open_it("f", O_RDWR);

	say("%s", er(lock(a, F_OFD_SETLK, F_WRLCK)));
	say("%s", er(lock(b, F_OFD_SETLK, F_WRLCK)));
	try_lock("f", F_OFD_SETLK);
	close(a);
	say("%s", er(lock(b, F_OFD_SETLK, F_WRLCK)));
}

static void
ofd_early(void)
{
	int fd = open_it("f", O_RDONLY);

	say("%s", er(lock(fd, F_OFD_SETLK, F_RDLCK)));
	try_lock("f", F_OFD_SETLK);
}

static void
leases(void)
{
	int fd = open_it("f", O_RDONLY);

	say("%s", er(fcntl(fd, F_SETLEASE, F_RDLCK)));
	say("%d", fcntl(fd, F_GETLEASE));
	fd = open_it("g", O_RDWR);
	say("%s", er(fcntl(fd, F_SETLEASE, F_WRLCK)));
}

static void
lock_file(void)
{
	say("%s", er(open("lock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
	say("%s", er(open("lock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
	say("%s", er(unlink("lock")));
	say("%s", er(open("lock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
	must(unlink("f"));
	say("%s", er(open("f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
}

/* ---- notification ---- */

/* All that is there: what happened is complete when the call that did it has returned. */
static void
say_events(int fd)
{
	char buf[8192] __attribute__((aligned(8)));
	ssize_t n = read(fd, buf, sizeof(buf));

	for (char *p = buf; n > 0 && p < buf + n;) {
		const struct inotify_event *e = (const void *)p;

		say("%x%s%s", e->mask, e->len > 0 ? ":" : "", e->len > 0 ? e->name : "");
		p += sizeof(*e) + e->len;
	}
	if (n < 0)
		say("%s", er(n));
}

#define WRITES                                                                                     \
	(IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVE | IN_ATTRIB | IN_CLOSE_WRITE |                \
	    IN_DELETE_SELF | IN_MOVE_SELF)

static int
watch(const char *path, unsigned mask)
{
	int fd = must(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));

	must(inotify_add_watch(fd, path, mask));
	return fd;
}

static void
notify_directory(void)
{
	int fd = watch("d", WRITES);

	put("d/new", "n\n");
	must(mkdir("d/dir", 0755));
	must(rename("d/new", "d/moved"));
	must(unlink("d/moved"));
	must(rmdir("d/dir"));
	say_events(fd);
}

static void
notify_directory_lower(void)
{
	int fd = watch("d", IN_CREATE | IN_DELETE | IN_MOVE | IN_CLOSE_WRITE);

	append("d/x", "+");
	must(rename("d/x", "d/z"));
	must(unlink("d/z"));
	say_events(fd);
}

static void
notify_file_append(void)
{
	int fd = watch("f", IN_MODIFY | IN_CLOSE_WRITE);

	append("f", "+");
	say_events(fd);
}

static void
notify_file_chmod(void)
{
	int fd = watch("f", WRITES);

	must(chmod("f", 0600));
	say_events(fd);
}

static void
notify_file_unlink(void)
{
	int fd = watch("f", IN_DELETE_SELF | IN_ATTRIB);

	must(unlink("f"));
	say_events(fd);
}

static void
notify_file_rename(void)
{
	int fd = watch("f", IN_MOVE_SELF);

	must(rename("f", "k"));
	say_events(fd);
}

static void
notify_upper(void)
{
	int fd;

	put("u", "");
	fd = watch("u", WRITES);
	append("u", "+");
	must(chmod("u", 0600));
	must(rename("u", "v"));
	must(unlink("v"));
	say_events(fd);
}

static void
notify_read(void)
{
	int fd = watch("f", IN_OPEN | IN_ACCESS | IN_CLOSE_NOWRITE), file = open_it("f", O_RDONLY);
	char c;

	must((int)read(file, &c, 1));
	close(file);
	say_events(fd);
}

static void
notify_twice(void)
{
	int fd = watch("f", IN_MODIFY);

	append("f", "+");
	must(inotify_add_watch(fd, "f", IN_MODIFY));
	append("f", "+");
	say_events(fd);
}

static void
polls(void)
{
	struct pollfd p = { .fd = open_it("f", O_RDWR), .events = POLLIN | POLLOUT };
	int ep = must(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = { .events = EPOLLIN };

	say("%d %x", poll(&p, 1, 0), p.revents);
	say("%s", er(epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &e)));
	say("%s", er(fcntl(p.fd, F_ADD_SEALS, F_SEAL_WRITE)));
	say("%s", er(fcntl(open_it("d", O_RDONLY), F_NOTIFY, DN_CREATE)));
}

/* ---- sockets ---- */

static struct sockaddr_un
address(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	return a;
}

static int
bind_to(const char *path, int type)
{
	int fd = must(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
	struct sockaddr_un a = address(path);

	say("%s", er(bind(fd, (struct sockaddr *)&a, sizeof(a))));
	if (type == SOCK_STREAM)
		listen(fd, 4);
	return fd;
}

static int
connect_to(const char *path, int type)
{
	int fd = must(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
	struct sockaddr_un a = address(path);

	say("%s", er(connect(fd, (struct sockaddr *)&a, sizeof(a))));
	return fd;
}

static void
talk(const char *bind_path, const char *connect_path)
{
	int server = bind_to(bind_path, SOCK_STREAM),
	    client = connect_to(connect_path, SOCK_STREAM);
	struct pollfd p = { .fd = server, .events = POLLIN };
	char text[8] = "";
	int side;

	/* A connection is there as soon as connect() has returned. */
	if (poll(&p, 1, 0) != 1) {
		say("nobody");
		return;
	}
	side = must(accept4(server, NULL, NULL, SOCK_CLOEXEC));
	must((int)send(client, "hello", 5, MSG_NOSIGNAL));
	must((int)recv(side, text, 5, 0));
	say("%s", text);
}

static void
socket_stream(void)
{
	talk("s", "s");
	say_what("s");
}

static void
socket_in_directories(void)
{
	must(mkdir("u", 0755));
	talk("u/s", "u/s");
	talk("d/s", "d/s");
	talk("d/sub/s", "d/../d/sub/s");
}

static void
socket_through_link(void)
{
	must(symlink("real", "to"));
	talk("real", "to");
	talk("dl/s", "d/s");
}

static void
socket_renamed(void)
{
	bind_to("s", SOCK_STREAM);
	must(rename("s", "t"));
	connect_to("t", SOCK_STREAM);
	connect_to("s", SOCK_STREAM);
}

static void
socket_datagram(void)
{
	/* Refused in every slot: it could send to any path afterwards. */
	say("%s", er(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
}

static void
socket_errors(void)
{
	bind_to("f", SOCK_STREAM);
	connect_to("f", SOCK_STREAM);
	connect_to("new", SOCK_STREAM);
	close(bind_to("stale", SOCK_STREAM));
	connect_to("stale", SOCK_STREAM);
	bind_to("stale", SOCK_STREAM);
	must(unlink("stale"));
	bind_to("stale", SOCK_STREAM);
	must(unlink("f"));
	talk("f", "f");
}

static void
prepare_socket(void)
{
	int fd = must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	struct sockaddr_un a = address("host");

	must(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	close(fd);
}

static void
socket_of_host(void)
{
	connect_to("host", SOCK_STREAM);
	must(rename("host", "moved"));
	connect_to("moved", SOCK_STREAM);
	must(unlink("moved"));
	talk("host", "host");
}

static const struct op ops[] = {
	OP("lock/flock", flocks, NULL),
	OP("lock/flock before the first write", flock_early, NULL),
	OP("lock/flock of a directory", flock_directory, NULL),
	OP("lock/fcntl", fcntl_locks, NULL),
	OP("lock/fcntl before the first write", fcntl_early, NULL),
	OP("lock/OFD", ofd_locks, NULL),
	OP("lock/OFD before the first write", ofd_early, NULL),
	OP("lock/lease", leases, NULL),
	OP("lock/O_EXCL", lock_file, NULL),
	OP("inotify/directory", notify_directory, NULL),
	OP("inotify/directory, lower files", notify_directory_lower, NULL),
	OP("inotify/file, append", notify_file_append, NULL),
	OP("inotify/file, chmod", notify_file_chmod, NULL),
	OP("inotify/file, unlink", notify_file_unlink, NULL),
	OP("inotify/file, rename", notify_file_rename, NULL),
	OP("inotify/upper file", notify_upper, NULL),
	OP("inotify/read", notify_read, NULL),
	OP("inotify/twice", notify_twice, NULL),
	OP("poll", polls, NULL),
	OP("socket/stream", socket_stream, NULL),
	OP("socket/in directories", socket_in_directories, NULL),
	OP("socket/through a link", socket_through_link, NULL),
	OP("socket/renamed", socket_renamed, NULL),
	OP("socket/datagram", socket_datagram, NULL),
	OP("socket/errors", socket_errors, NULL),
	OP("socket/made by the host", socket_of_host, prepare_socket),
};

void
add_lock_ops(void)
{
	ADD_ALL(ops);
}
