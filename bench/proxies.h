/*
 * What can stand between a client and a server in the rows of the network: ours, and what others offer. Each is a
 * process on a port of 127.0.0.1. Ours is driven by its wire here, as the host does it, without a slot: what is
 * measured is the proxy, from outside, as the others are.
 */
#ifndef KODA_BENCH_PROXIES_H
#define KODA_BENCH_PROXIES_H

#include <stddef.h>
#include <sys/types.h>

struct standing {
	pid_t pid; /* 0: it does not run */
	unsigned port;
	int control;  /* the server's standard input; our proxy's control socket; -1 */
	pid_t reader; /* of what our proxy reports */
};
#define STANDING_EMPTY                                                                             \
	{                                                                                          \
		0, 0, -1, 0                                                                        \
	}

/* All return 0, or -1 after saying why. */

/* A program that says one line when it is so far, and ends with its standard input. */
int line_start(const char *const *argv, struct standing *ret, char *line, size_t size);
/* The server of `bench_load serve`. */
int server_start(const char *load, struct standing *ret);
/* The least that a proxy to that server does, `bench_load relay`. */
int relay_start(const char *load, unsigned server, struct standing *ret);
/* helpers: where koda-egress-proxy is. Its policy allows 127.0.0.1:server and nothing else. */
int egress_start(const char *helpers, unsigned server, struct standing *ret);
/* peers: where tools/bench-peers unpacked them; files go into dir. */
int tinyproxy_start(const char *peers, const char *dir, struct standing *ret);
int squid_start(const char *peers, const char *dir, struct standing *ret);

void standing_stop(struct standing *s);

#endif
