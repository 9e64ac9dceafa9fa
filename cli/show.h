/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes untrusted bytes for a person's eyes (show/visible.h), and for JSON. Writes only to the
 * stream it is given.
 */
#ifndef KODA_CLI_SHOW_H
#define KODA_CLI_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "include/koda/sandbox.h"

#define SHOW_TABS (1u << 0) /* tabs are harmless in the lines of a text */

/*
 * Prints control, bidi and invisible characters as \u{..}; those below 0x80 and non-UTF-8 as \xNN.
 */
void show(FILE *f, const void *data, size_t len, unsigned flags);
void show_string(FILE *f, const char *s);
/* The visible_put_fn of a stream; to is the FILE. */
void show_put(void *to, const void *data, size_t len);

/* Returns any bytes as a JSON string, with invalid UTF-8 replaced by U+FFFD. */
json_t *show_json_lossy(const void *data, size_t len);
/* Returns the bytes in base64. */
json_t *show_json_base64(const void *data, size_t len);
/* Sets key to the path and, if bytes were replaced in it, key_base64 to the original bytes. */
void show_json_path(json_t *object, const char *key, const char *path);
/* Sets "content" and "encoding": utf-8, or base64 for content that is not UTF-8 or has a NUL. */
void show_json_content(json_t *object, const void *data, size_t len);

#define SHOW_DIGEST_SIZE (2 * KODA_DIGEST_BYTES + 1)
void show_digest(char buf[SHOW_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES]);

/* Returns "directory", "regular", ..., as used in JSON. */
const char *show_type(enum koda_file_type type);

#endif
