/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller asked for when it started a command: copies of the words, the environment, the
 * directory and the descriptors, and the limits. */
#ifndef KODA_HOST_COMMAND_COMMAND_REQUEST_H
#define KODA_HOST_COMMAND_COMMAND_REQUEST_H

#include "host/command/state.h"

/* Copy the caller's options into the command. Returns 0, or -1 with *err set;
 * command_request_done() frees what was copied in both cases. */
int command_fill(struct koda_command *c, const struct koda_command_options *o,
    struct koda_error *err);
void command_request_done(struct koda_command *c);
void command_close_fds(struct koda_command *c);

/* The smaller of two values of which 0 means that there is none. */
static inline uint64_t
command_least(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

#endif
