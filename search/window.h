/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file, read from its beginning as pieces of whole lines: one buffer that grows only for a line
 * (or a context) that does not fit, and not beyond what GREP_LINE_MAX requires. Skips byte order
 * marks, decodes UTF-16, handles NULs.
 */
#ifndef KODA_SEARCH_WINDOW_H
#define KODA_SEARCH_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "search/decode.h"
#include "shared/base/err.h"

enum window_nul {
	WINDOW_NUL_KEEP,
	WINDOW_NUL_STOP,    /* the file ends before the piece with the first NUL */
	WINDOW_NUL_NEWLINE, /* each ends a line */
};

struct window {
	char *buf;
	size_t size;
	uint8_t *raw; /* NULL until a file has to be decoded */
	/* The file. */
	int fd;
	uint64_t told; /* its size when it was opened */
	uint64_t read; /* bytes read */
	bool whole;    /* one piece, if it fits */
	enum window_nul on_nul;
	bool decodes;
	struct decode decode;
	bool at_end;
	/* What was found in it so far. */
	bool high, nul, long_line;
	uint64_t nul_at;
	/* buf[0] is at offset `base` of the decoded file. The piece is from `from` to `to`; more
	 * bytes follow until `end`. */
	uint64_t base;
	size_t from, to, end;
};

int window_init(struct window *window, struct koda_error *err);
void window_done(struct window *window);

void window_open(struct window *window, int fd, uint64_t size, bool whole, enum window_nul on_nul);
/* Reads the next piece. Bytes of buf before `keep` (at most `to`) are dropped, the rest moves to
 * the front. Returns 1; 0 at the end; -1 with *err set: KODA_IO, KODA_INTERNAL. */
int window_next(struct window *window, size_t keep, struct koda_error *err);
/* Gives back the memory of a long line. */
void window_close(struct window *window);

#endif
