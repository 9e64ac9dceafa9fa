/* What a client has last seen of each file: the digest, by canonical path. The eldest is forgotten first. */
#ifndef KODA_MCP_REMEMBER_H
#define KODA_MCP_REMEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many files as one conversation has read and still edits; more would only be memory. */
#define REMEMBER_MAX 512

struct remembered;
struct remembered *remember_new(void);
void remember_free(struct remembered *r);

/* asked: the path as it stood in the call, found again without being resolved. */
void remember_seen(struct remembered *r, const char *asked, const char *path,
    const uint8_t *digest);
/* It is no more, or nobody knows what it is now. */
void remember_forget(struct remembered *r, const char *path);
bool remember_is_empty(const struct remembered *r);
/* The digest, or NULL: by the path as asked, or by the canonical one. */
const uint8_t *remember_find_asked(const struct remembered *r, const char *asked);
const uint8_t *remember_find(const struct remembered *r, const char *path);

#endif
