/*
 * A file, read from its beginning, as pieces of whole lines: one buffer that grows only for a line (or a context) that does
 * not fit, and not beyond what GREP_LINE_MAX asks for. Byte order marks are left out, UTF-16 is decoded, NULs are seen to.
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
	uint8_t *raw; /* NULL until there is a file to decode */
	/* The file. */
	int fd;
	uint64_t told; /* its size, as it was */
	uint64_t read; /* bytes of it */
	bool whole;    /* one piece, when it fits */
	enum window_nul on_nul;
	bool decodes;
	struct decode decode;
	bool at_end;
	/* What has been seen of it until now. */
	bool high, nul, long_line;
	uint64_t nul_at;
	/* buf[0] is at `base` of the decoded file; the piece is from `from` to `to`, and there is more until `end`. */
	uint64_t base;
	size_t from, to, end;
};

int window_init(struct window *window, struct koda_error *err);
void window_done(struct window *window);

void window_open(struct window *window, int fd, uint64_t size, bool whole, enum window_nul on_nul);
/* The next piece; what is before `keep` (in buf, not behind `to`) is let go of, what is behind it moves to the front. 1, 0
 * at the end, or -1 with *err set: KODA_IO, KODA_INTERNAL. */
int window_next(struct window *window, size_t keep, struct koda_error *err);
/* Memory that a long line took is given back. */
void window_close(struct window *window);

#endif
