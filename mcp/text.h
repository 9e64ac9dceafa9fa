/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text, and foreign bytes as part of a text or as JSON. */
#ifndef KODA_MCP_TEXT_H
#define KODA_MCP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "include/koda/sandbox.h"

struct text {
	char *p; /* NULL: empty; not NUL-terminated */
	size_t len, size;
};

void text_add(struct text *t, const void *data, size_t len);
void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* For a person's eyes: misleading characters are escaped. tabs: keep tabs, for the lines of a
 * file. */
void text_show(struct text *t, const void *data, size_t len, bool tabs);
/* text_add() for functions that take a callback to write text; to is a struct text. */
void text_put(void *to, const void *data, size_t len);
void text_show_string(struct text *t, const char *s);
void text_done(struct text *t);
/* Returns the text as a JSON string, with invalid UTF-8 replaced by U+FFFD, and empties the
 * text. */
json_t *text_json(struct text *t);

json_t *text_json_bytes(const void *data, size_t len);
json_t *text_json_string(const char *s);
json_t *text_json_base64(const void *data, size_t len);

#define TEXT_DIGEST_SIZE (2 * KODA_DIGEST_BYTES + 1)
void text_digest(char out[TEXT_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES]);
/* Parses 64 hexadecimal digits. */
bool text_parse_digest(const char *s, uint8_t ret[KODA_DIGEST_BYTES]);

/* Returns "regular", "directory" ... */
const char *text_file_type(enum koda_file_type type);
const char *text_mode(enum koda_mode mode);

#endif
