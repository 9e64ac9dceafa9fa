/*
 * The proxies between client and server in the network rows: ours, and other programs. Each is a
 * process on a port of 127.0.0.1. Ours is driven through its control protocol, as the host does it,
 * but without a slot: only the proxy is measured, from outside, like the others.
 */
#ifndef KODA_BENCH_PROXIES_H
#define KODA_BENCH_PROXIES_H

#include <stddef.h>
#include <sys/types.h>

struct standing {
	pid_t pid; /* 0: not running */
	unsigned port;
	int control;  /* the server's standard input; our proxy's control socket; -1 */
	pid_t reader; /* reads our proxy's reports */
};
#define STANDING_EMPTY                                                                             \
	{                                                                                          \
		0, 0, -1, 0                                                                        \
	}

/* All return 0, or -1 after printing why. */

/* Start a program that prints one line when it is ready and ends when its standard input does. */
int line_start(const char *const *argv, struct standing *ret, char *line, size_t size);
/* The server of `bench_load serve`. */
int server_start(const char *load, struct standing *ret);
/* `bench_load relay`: the least that a proxy to that server can do. */
int relay_start(const char *load, unsigned server, struct standing *ret);
/* helpers: the directory of koda-egress-proxy. The policy allows only 127.0.0.1:server. */
int egress_start(const char *helpers, unsigned server, struct standing *ret);
/* peers: where tools/bench-peers unpacked them; files go into dir. */
int tinyproxy_start(const char *peers, const char *dir, struct standing *ret);
int squid_start(const char *peers, const char *dir, struct standing *ret);

void standing_stop(struct standing *s);

#endif
