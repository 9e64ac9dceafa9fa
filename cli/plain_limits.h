/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a mode, as far as they can be enforced without the sandbox: per process, and in
 * time.
 */
#ifndef KODA_CLI_PLAIN_LIMITS_H
#define KODA_CLI_PLAIN_LIMITS_H

#include <stddef.h>
#include <sys/resource.h>

#include "include/koda/sandbox.h"

#define PLAIN_LIMITS_MAX 8

struct plain_limits {
	struct {
		int resource;
		struct rlimit value;
	} v[PLAIN_LIMITS_MAX];
	size_t n;
	unsigned wall_ms; /* 0: none */
};

/* Gets the limits of the policy that this mode has for root. Returns 0, or -1 with *err set. */
int plain_limits_get(enum koda_mode mode, const char *root, struct plain_limits *ret,
    struct koda_error *err);

/* Sets them, in a forked child: makes system calls only. Returns 0, or -1 with errno. */
int plain_limits_apply(const struct plain_limits *limits);

#endif
