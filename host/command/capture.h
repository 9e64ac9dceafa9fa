/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command prints, read from a pipe into bounded memory: the first half of the bound, the
 * last half, and how many bytes were dropped between them. A flood costs reads, not memory.
 */
#ifndef KODA_HOST_COMMAND_CAPTURE_H
#define KODA_HOST_COMMAND_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct capture {
	/* The reading end, or -1: end of file was reached, or output was never captured. */
	int fd;
	uint8_t *head, *ring;
	size_t head_len, head_size, head_max;
	size_t ring_at, ring_size, ring_max; /* ring_at: where the next byte goes */
	uint64_t total;
	bool wide; /* the pipe has the capacity that was requested */
};

/* Make the pipe. The caller owns *ret_write, the command's end, and closes it once the command has
 * it. Returns 0, or -1 with *err set. */
int capture_open(struct capture *c, uint64_t max, int *ret_write, struct koda_error *err);
void capture_none(struct capture *c);
void capture_done(struct capture *c);

/* Read what is available, at most a few pipes' worth. Returns false at end of file; the descriptor
 * is closed then. */
bool capture_read(struct capture *c);

/* More has come than is kept, and the pipe has a large capacity: reading seldom and in large pieces
 * is better, because it leaves the processor to the process that writes. */
bool capture_floods(const struct capture *c);

/* Straightens the ring. *ret points into c. */
void capture_get(struct capture *c, struct koda_output *ret);

#endif
