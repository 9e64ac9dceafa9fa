/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_connect unix|tcp|link N: connect N times to its own listening socket, or create N symbolic
 * links, and print the median time that connect() or symlink() took, in ns. The benchmark runs this
 * program inside a sandbox and outside.
 */
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"

/* Both are in the working directory. */
#define SOCKET_NAME "bench-connect.sock"
#define LINK_NAME   "bench-connect.link"

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		struct sockaddr_in in;
	};
	socklen_t len;
};

static int
listen_on(struct address *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &a->any, a->len) < 0 || listen(fd, 8) < 0)
		err(1, "listen");
	if (a->any.sa_family == AF_INET && getsockname(fd, &a->any, &a->len) < 0)
		err(1, "getsockname");
	return fd;
}

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double
connect_once(int listener, const struct address *a)
{
	/* Reset the connection instead of closing it, because a closed one would stay in the kernel
	 * for a minute (TIME_WAIT). */
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	double start = now(), took;

	if (fd < 0 || connect(fd, &a->any, a->len) < 0)
		err(1, "connect");
	took = now() - start;
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (peer < 0)
		err(1, "accept");
	if (a->any.sa_family == AF_INET)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	close(peer);
	return took;
}

static double
link_once(void)
{
	double start = now(), took;

	if (symlink("to", LINK_NAME) < 0)
		err(1, "symlink");
	took = now() - start;
	unlink(LINK_NAME);
	return took;
}

int
main(int argc, char **argv)
{
	struct address a = { .len = 0 };
	double *samples;
	size_t n;
	int listener = -1;

	if (argc != 3 || (n = strtoul(argv[2], NULL, 10)) == 0)
		return 2;
	if (strcmp(argv[1], "link") == 0) {
		unlink(LINK_NAME);
	} else if (strcmp(argv[1], "tcp") == 0) {
		a.in = (struct sockaddr_in){ .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		a.len = sizeof(a.in);
	} else {
		a.un = (struct sockaddr_un){ .sun_family = AF_UNIX, .sun_path = SOCKET_NAME };
		a.len = sizeof(a.un);
		unlink(SOCKET_NAME);
	}
	samples = calloc(n, sizeof(*samples));
	if (samples == NULL)
		err(1, "samples");
	if (a.len > 0)
		listener = listen_on(&a);
	for (size_t i = 0; i < n; i++)
		samples[i] = a.len > 0 ? connect_once(listener, &a) : link_once();
	if (a.len > 0 && a.any.sa_family == AF_UNIX)
		unlink(SOCKET_NAME);
	printf("%.1f\n", figure_of(samples, n, false).p50);
	return 0;
}
