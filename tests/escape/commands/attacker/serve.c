/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the world: serve DIR ID listens wherever a host's services do, and records in
 * DIR/heard which of them was reached. Its memory, environment, priority and terminal are targets
 * of the attacks. It prints, as assignments for a shell, where everything is, and then "READY=1".
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

#define SOURCES_MAX 40

static struct {
	const char *name;
	int fd;
	bool accepts;
} sources[SOURCES_MAX];
static size_t n_sources;
static int control = -1;
static const char *dir;
/* Socket files outside dir. */
static char removed[8][PATH_MAX];
static size_t n_removed;

/* The target for reading and overwriting this process. */
static volatile char memory[64];

static void
die(const char *what)
{
	failed(what);
	exit(1);
}

static void
add(const char *name, int fd, bool accepts)
{
	if (n_sources == SOURCES_MAX)
		die("sources");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	sources[n_sources].name = name;
	sources[n_sources].fd = fd;
	sources[n_sources++].accepts = accepts;
}

static socklen_t
unix_address(struct sockaddr_un *sun, const char *path)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(sun->sun_path))
		die("a socket's name is too long");
	memcpy(sun->sun_path, path, strlen(path));
	if (path[0] != '@')
		return sizeof(*sun);
	sun->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
}

static int
listen_unix(const char *name, int type, const char *path)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un sun;
	socklen_t len = unix_address(&sun, path);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sun, len) < 0)
		die(path);
	if (path[0] != '@')
		chmod(path, 0777);
	if (type != SOCK_DGRAM && listen(fd, 64) < 0)
		die("listen");
	if (name != NULL)
		add(name, fd, type != SOCK_DGRAM);
	return fd;
}

static void
listen_unix_at(const char *name, int type, const char *format, const char *id)
{
	char path[PATH_MAX];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(path, sizeof(path), format, id);
#pragma GCC diagnostic pop
	listen_unix(name, type, path);
	if (path[0] == '/' && strncmp(path, dir, strlen(dir)) != 0)
		memcpy(removed[n_removed++], path, sizeof(path));
}

static void
listen_inet(const char *name, const char *variable, int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_storage ss = { .ss_family = (sa_family_t)family };
	socklen_t len =
	    family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	/* All addresses: 127.0.0.1, 127.9.9.9 and the machine's own addresses all work. */
	if (fd >= 0 && family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&ss, len) < 0) {
		if (fd >= 0)
			close(fd);
		/* The family is missing here: the attack's probe reports it. */
		printf("%s=9\n", variable);
		return;
	}
	if (type == SOCK_STREAM) {
		int queue = 16;

		setsockopt(fd, IPPROTO_TCP, 23 /* TCP_FASTOPEN */, &queue, sizeof(queue));
		if (listen(fd, 64) < 0)
			die("listen");
	} else if (family == AF_INET) {
		struct ip_mreq group = { .imr_multiaddr.s_addr = htonl(0xefff4b41),
			.imr_interface.s_addr = htonl(INADDR_LOOPBACK) };

		setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group));
	}
	getsockname(fd, (struct sockaddr *)&ss, &len);
	printf("%s=%d\n", variable,
	    ntohs(family == AF_INET ? ((struct sockaddr_in *)&ss)->sin_port
				    : ((struct sockaddr_in6 *)&ss)->sin6_port));
	add(name, fd, type == SOCK_STREAM);
}

static void
open_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	struct termios raw;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		die("terminal");
	if ((slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
		die("terminal");
	tcgetattr(slave, &raw);
	cfmakeraw(&raw);
	tcsetattr(slave, TCSANOW, &raw);
	printf("PTS=%s\n", ptsname(master));
	add("pts", master, false);
}

static void
note(const char *name, const char *text, size_t len)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/heard/%s", dir, name);
	if ((fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) < 0)
		die(path);
	if (write(fd, text, len) < 0)
		die(path);
	close(fd);
}

static void
hear(size_t i)
{
	char text[4096];
	ssize_t n;
	int fd;

	if (!sources[i].accepts) {
		if ((n = read(sources[i].fd, text, sizeof(text))) >= 0)
			note(sources[i].name, text, (size_t)n);
		return;
	}
	if ((fd = accept4(sources[i].fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
		return;
	/* An accepted connection is harm enough: do not wait for data on it. */
	note(sources[i].name, "reached\n", 8);
	close(fd);
}

static void
stop(int sig)
{
	for (size_t i = 0; i < n_removed; i++)
		unlink(removed[i]);
	_exit(0);
}

int
serve_main(int argc, char **argv)
{
	const char *id = argv[2];
	char path[PATH_MAX];
	size_t len = strlen("intact");

	dir = argv[1];
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i <= len; i++)
		memory[i] = "intact"[i];

	listen_unix_at("stream", SOCK_STREAM, "%s/outside/stream", dir);
	listen_unix_at("seqpacket", SOCK_SEQPACKET, "%s/outside/seqpacket", dir);
	listen_unix_at("dgram", SOCK_DGRAM, "%s/outside/dgram", dir);
	listen_unix_at("project", SOCK_STREAM, "%s/project/host.sock", dir);
	listen_unix_at("project-dgram", SOCK_DGRAM, "%s/project/host.dgram", dir);
	listen_unix_at("home", SOCK_STREAM, "%s/home/agent.sock", dir);
	listen_unix_at("cache", SOCK_STREAM, "%s/home/.cache/host.sock", dir);
	listen_unix_at("tmp", SOCK_STREAM, "/tmp/koda-attack.%s", id);
	listen_unix_at("tmp-dgram", SOCK_DGRAM, "/tmp/koda-attack.%s.dgram", id);
	listen_unix_at("abstract", SOCK_STREAM, "@koda-attack.%s", id);
	listen_unix_at("abstract-dgram", SOCK_DGRAM, "@koda-attack.%s.dgram", id);
	listen_inet("tcp", "TCP", AF_INET, SOCK_STREAM);
	listen_inet("tcp6", "TCP6", AF_INET6, SOCK_STREAM);
	listen_inet("udp", "UDP", AF_INET, SOCK_DGRAM);
	listen_inet("udp6", "UDP6", AF_INET6, SOCK_DGRAM);
	open_terminal();
	snprintf(path, sizeof(path), "%s/control", dir);
	control = listen_unix(NULL, SOCK_STREAM, path);
	printf("VICTIM=%d\nADDRESS=%p\nREADY=1\n", getpid(), (void *)(uintptr_t)memory);
	fflush(stdout);

	for (;;) {
		struct pollfd fds[SOURCES_MAX + 1];
		size_t heard = 0;
		int fd;

		for (size_t i = 0; i < n_sources; i++)
			fds[i] = (struct pollfd){ .fd = sources[i].fd, .events = POLLIN };
		fds[n_sources] = (struct pollfd){ .fd = control, .events = POLLIN };
		if (poll(fds, n_sources + 1, -1) < 0 && errno != EINTR)
			die("poll");
		for (size_t i = 0; i < n_sources; i++) {
			if ((fds[i].revents & POLLIN) != 0) {
				hear(i);
				heard++;
			}
		}
		/* Answer a sync request only when everything that came before it is recorded. */
		if (heard == 0 && (fds[n_sources].revents & POLLIN) != 0) {
			if ((fd = accept4(control, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
				(void)!write(fd, "1", 1);
				close(fd);
			}
		}
	}
}

/* sync DIR: waits until everything that was sent so far is recorded. */
int
sync_main(int argc, char **argv)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sun;
	char path[PATH_MAX], byte;
	socklen_t len;

	snprintf(path, sizeof(path), "%s/control", argv[1]);
	len = unix_address(&sun, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, len) < 0)
		return failed(path);
	return read(fd, &byte, 1) == 1 ? 0 : 1;
}
