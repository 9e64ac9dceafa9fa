/*
 * What a command prints, read from a pipe into a bounded memory: the first half of the bound, the last half, and how
 * much was between. A flood costs reads, not memory.
 */
#ifndef KODA_HOST_COMMAND_CAPTURE_H
#define KODA_HOST_COMMAND_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct capture {
	int fd; /* the reading end, or -1: at its end, or never captured */
	uint8_t *head, *ring;
	size_t head_len, head_size, head_max;
	size_t ring_at, ring_size, ring_max; /* ring_at: where the next byte goes */
	uint64_t total;
	bool wide; /* the pipe holds as much as was asked for */
};

/* A pipe; *ret_write is the command's end, the caller's to close when the command has it. */
int capture_open(struct capture *c, uint64_t max, int *ret_write, struct koda_error *err);
void capture_none(struct capture *c);
void capture_done(struct capture *c);

/* Read what is there, at most a few pipes' worth. false: the end (the descriptor is closed then). */
bool capture_read(struct capture *c);

/* More has come than is kept, and the pipe has room: what comes is better read seldom and in large pieces, which leaves
 * the processor to whoever writes it. */
bool capture_floods(const struct capture *c);

/* Straightens the ring; ret points into c. */
void capture_get(struct capture *c, struct koda_output *ret);

#endif
