/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of bwrap for a sandbox, and koda_sandbox_arguments(), which shows it. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_ARGUMENTS_H
#define KODA_HOST_SANDBOX_SANDBOX_ARGUMENTS_H

#include "host/sandbox/bwrap.h"
#include "host/sandbox/state.h"

struct cache_fds;

/* Descriptors in bwrap, as spawn_program() numbers them. */
enum { FD_CONTROL = 3, FD_ARGUMENTS, FD_STAGE2, FD_WRITABLE };

/* Fills *ret for the sandbox's view. Returns 0, or -1 with *err set. */
int sandbox_arguments(const struct sandbox *sb, const struct bwrap_writable *writable,
    size_t n_writable, const struct cache_fds *fds, int draft_fd, struct bwrap_arguments *ret,
    struct koda_error *err);
/* Returns a memfd for --args, which contains each argument and its NUL, except the program's. The
 * caller owns it. Returns -1 with *err set on failure. */
int sandbox_arguments_file(const struct bwrap_arguments *a, struct koda_error *err);

#endif
