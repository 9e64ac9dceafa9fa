/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxies between client and server in the network rows: ours, and other programs. Each is a
 * process on a port of 127.0.0.1. The benchmark drives ours through its control protocol, as the
 * host does, but without a slot, so that the proxy is measured alone and from outside, like the
 * others.
 */
#ifndef KODA_BENCH_PROXIES_H
#define KODA_BENCH_PROXIES_H

#include <stddef.h>
#include <sys/types.h>

struct standing {
	pid_t pid; /* 0: not running */
	unsigned port;
	int control;  /* a server's standard input, or our proxy's control socket, or -1 */
	pid_t reader; /* process that reads our proxy's reports; 0: none */
};
#define STANDING_EMPTY                                                                             \
	{                                                                                          \
		0, 0, -1, 0                                                                        \
	}

/* All return 0, or -1 after printing why. */

/* Start a program that prints one line when it is ready and ends when its standard input ends.
 * Stores the line in `line`, as a string. */
int line_start(const char *const *argv, struct standing *ret, char *line, size_t size);
/* Start `bench_load serve`. */
int server_start(const char *load, struct standing *ret);
/* Start `bench_load relay`, a minimal proxy that connects to the port `server`. */
int relay_start(const char *load, unsigned server, struct standing *ret);
/* Start koda-egress-proxy from the directory `helpers`, with a policy that allows only
 * 127.0.0.1:server. */
int egress_start(const char *helpers, unsigned server, struct standing *ret);
/* Start a program that tools/bench-peers unpacked below `peers`. Its configuration goes into
 * `dir`. */
int tinyproxy_start(const char *peers, const char *dir, struct standing *ret);
int squid_start(const char *peers, const char *dir, struct standing *ret);

/* Kill the processes and close the descriptor. *s is STANDING_EMPTY afterwards. */
void standing_stop(struct standing *s);

#endif
