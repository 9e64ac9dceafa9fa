/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of each file as a client last saw it, by canonical path. The oldest entry is
 * dropped first. */
#ifndef KODA_MCP_REMEMBER_H
#define KODA_MCP_REMEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many files as one conversation reads and still edits; more would only waste memory. */
#define REMEMBER_MAX 512

struct remembered;
struct remembered *remember_new(void);
void remember_free(struct remembered *r);

/* asked is the path as given in the call, so that it can be found again without being resolved. */
void remember_seen(struct remembered *r, const char *asked, const char *path,
    const uint8_t *digest);
/* Forgets a file that is gone, or whose content is unknown now. */
void remember_forget(struct remembered *r, const char *path);
bool remember_is_empty(const struct remembered *r);
/* Return the digest, or NULL: by the path as asked, or by the canonical path. */
const uint8_t *remember_find_asked(const struct remembered *r, const char *asked);
const uint8_t *remember_find(const struct remembered *r, const char *path);

#endif
