/* The limits of a mode, as far as they can hold without the sandbox: for one process, and in time. */
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

/* Of the policy that this mode has for root. 0, or -1 with *err set. */
int plain_limits_get(enum koda_mode mode, const char *root, struct plain_limits *ret,
    struct koda_error *err);

/* In a fork: system calls alone. 0, or -1 with errno. */
int plain_limits_apply(const struct plain_limits *limits);

#endif
