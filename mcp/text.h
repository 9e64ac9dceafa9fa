/* A text that grows, and foreign bytes as part of one or as JSON. */
#ifndef KODA_MCP_TEXT_H
#define KODA_MCP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "include/koda/sandbox.h"

struct text {
	char *p; /* NULL: empty; no NUL behind it */
	size_t len, size;
	bool cut; /* something is left out of it that a person is asked about */
};

void text_add(struct text *t, const void *data, size_t len);
void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* For a person's eyes: what deceives them is escaped. tabs: in the lines of a file. */
void text_show(struct text *t, const void *data, size_t len, bool tabs);
/* The same, of what a person is asked about (show/asked.h); a line may be cut. */
void text_ask(struct text *t, const void *data, size_t len);
void text_ask_line(struct text *t, const void *data, size_t len);
/* For functions that put text somewhere. */
void text_put(void *to, const void *data, size_t len);
void text_show_string(struct text *t, const char *s);
void text_done(struct text *t);
/* As JSON string, whatever is no UTF-8 in it replaced by U+FFFD; the text is empty then. */
json_t *text_json(struct text *t);

json_t *text_json_bytes(const void *data, size_t len);
json_t *text_json_string(const char *s);
json_t *text_json_base64(const void *data, size_t len);

#define TEXT_DIGEST_SIZE (2 * KODA_DIGEST_BYTES + 1)
void text_digest(char out[TEXT_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES]);
/* 64 hexadecimal digits. */
bool text_parse_digest(const char *s, uint8_t ret[KODA_DIGEST_BYTES]);

/* "regular", "directory" ... */
const char *text_file_type(enum koda_file_type type);
const char *text_mode(enum koda_mode mode);

#endif
