/* SPDX-License-Identifier: Apache-2.0 */
#include "search/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/grep_line.h"
#include "search/sweep.h"

/* Most files fit, and it fits into a processor's L2 cache, where the data that the kernel copied
 * is found again. It also bounds what one call of PCRE2 has to process. */
#define CHUNK (256u << 10)
/* Bytes of one read that are still to be decoded. */
#define RAW_CHUNK (64u << 10)

int
window_init(struct window *w, struct koda_error *err)
{
	*w = (struct window){ .fd = -1 };
	w->buf = malloc(CHUNK);
	if (w->buf == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory to read files");
	w->size = CHUNK;
	return 0;
}

void
window_done(struct window *w)
{
	free(w->buf);
	free(w->raw);
	*w = (struct window){ .fd = -1 };
}

void
window_open(struct window *w, int fd, uint64_t size, bool whole, enum window_nul on_nul)
{
	*w = (struct window){
		.buf = w->buf,
		.size = w->size,
		.raw = w->raw,
		.fd = fd,
		.told = size,
		.whole = whole,
		.on_nul = on_nul,
	};
}

void
window_close(struct window *w)
{
	char *smaller;

	w->fd = -1;
	if (w->size <= CHUNK)
		return;
	smaller = realloc(w->buf, CHUNK);
	if (smaller == NULL)
		return;
	w->buf = smaller;
	w->size = CHUNK;
}

static int
make_room(struct window *w, size_t n, struct koda_error *err)
{
	size_t size = w->size;
	char *larger;

	while (size - w->end < n)
		size *= 2;
	if (size == w->size)
		return 0;
	larger = realloc(w->buf, size);
	if (larger == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory for a long line");
	w->buf = larger;
	w->size = size;
	return 0;
}

/* A regular file returns less than requested only at its end; one that reports size 0 may be in
 * /proc, and is read until it returns nothing. */
static ssize_t
read_some(struct window *w, void *to, size_t n, struct koda_error *err)
{
	ssize_t got;

	do {
		got = pread(w->fd, to, n, (off_t)w->read);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_set(err, KODA_IO, errno, "read");
	w->read += (uint64_t)got;
	if (got == 0 || ((size_t)got < n && w->told > 0 && w->read >= w->told))
		w->at_end = true;
	return got;
}

static bool
is_utf16(struct window *w, size_t n)
{
	const unsigned char *mark = (const unsigned char *)w->buf;

	if (n < 2)
		return false;
	w->decode.big_endian = mark[0] == 0xfe && mark[1] == 0xff;
	return w->decode.big_endian || (mark[0] == 0xff && mark[1] == 0xfe);
}

/* Handles a byte order mark at the beginning of the file. *n: how many bytes are text. */
static int
look_at_mark(struct window *w, size_t *n, struct koda_error *err)
{
	if (*n >= 3 && memcmp(w->buf, "\xef\xbb\xbf", 3) == 0) {
		*n -= 3;
		memmove(w->buf, w->buf + 3, *n);
		return 0;
	}
	if (!is_utf16(w, *n))
		return 0;
	if (w->raw == NULL)
		w->raw = malloc(RAW_CHUNK);
	if (w->raw == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory to decode UTF-16");
	/* Read it again from after the mark, decoding it. */
	w->decodes = true;
	w->at_end = false;
	w->read = 2;
	*n = 0;
	return 0;
}

/* Reads more bytes after `end`. */
static int
fill(struct window *w, size_t *ret_n, struct koda_error *err)
{
	bool first = w->read == 0;
	ssize_t got;
	size_t n;

	/* Less room is not worth a system call. */
	if (make_room(w, w->decodes ? DECODE_SIZE(RAW_CHUNK) : CHUNK / 4, err) < 0)
		return -1;
	if (!w->decodes) {
		n = w->size - w->end;
		got = read_some(w, w->buf + w->end, n < CHUNK ? n : CHUNK, err);
		if (got < 0)
			return -1;
		*ret_n = (size_t)got;
		return first ? look_at_mark(w, ret_n, err) : 0;
	}
	got = read_some(w, w->raw, RAW_CHUNK, err);
	if (got < 0)
		return -1;
	n = decode_utf16(&w->decode, w->raw, (size_t)got, w->buf + w->end);
	if (w->at_end)
		n += decode_end(&w->decode, w->buf + w->end + n);
	*ret_n = n;
	return 0;
}

/* Looks for a NUL in the new bytes. Returns true if the file ends here. */
static bool
look_at_nul(struct window *w, size_t n)
{
	char *text = w->buf + w->end, *nul;
	struct sweep_seen seen = sweep_look(text, n);

	w->high |= seen.high;
	if (!seen.nul || w->on_nul == WINDOW_NUL_KEEP)
		return false;
	nul = memchr(text, '\0', n);
	if (!w->nul)
		w->nul_at = w->base + w->end + (uint64_t)(nul - text);
	w->nul = true;
	if (w->on_nul == WINDOW_NUL_STOP)
		return true;
	for (; nul != NULL; nul = memchr(nul, '\0', n - (size_t)(nul - text)))
		*nul = '\n';
	return false;
}

static void
let_go(struct window *w, size_t keep)
{
	if (keep > 0)
		memmove(w->buf, w->buf + keep, w->end - keep);
	w->base += keep;
	w->end -= keep;
	w->from = w->to - keep;
	w->to = w->from;
}

/* Returns the end of a piece of a line that is too long, not inside of a character. */
static size_t
cut_at(const struct window *w, size_t last_newline)
{
	size_t at = w->end;

	if (last_newline > w->from)
		return last_newline;
	for (int i = 0; i < 3 && ((unsigned char)w->buf[at - 1] & 0xc0) == 0x80; i++)
		at--;
	return at > w->from + 1 && ((unsigned char)w->buf[at - 1] & 0xc0) == 0xc0 ? at - 1 : w->end;
}

/* Is there enough for a piece? lines_end: after the last line's end. */
static bool
has_piece(struct window *w, size_t lines_end)
{
	if (w->at_end) {
		w->to = w->end;
		return true;
	}
	if (lines_end > w->from && !w->whole) {
		w->to = lines_end;
		return true;
	}
	if (w->end - w->from < GREP_LINE_MAX)
		return false;
	w->long_line = true;
	w->to = cut_at(w, lines_end);
	return true;
}

int
window_next(struct window *w, size_t keep, struct koda_error *err)
{
	size_t lines_end, looked; /* each byte is searched once, however long the line */

	let_go(w, keep);
	lines_end = looked = w->from;
	for (;;) {
		const char *newline = memrchr(w->buf + looked, '\n', w->end - looked);
		size_t n = 0;

		if (newline != NULL)
			lines_end = (size_t)(newline - w->buf) + 1;
		looked = w->end;
		if (has_piece(w, lines_end))
			return w->to > w->from;
		if (fill(w, &n, err) < 0)
			return -1;
		if (look_at_nul(w, n)) {
			w->at_end = true;
			w->to = w->end = w->from;
			return 0;
		}
		w->end += n;
	}
}
