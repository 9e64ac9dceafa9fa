/*
 * Memory, or the end of the process. There is nothing better to do without it: the library's workers and sandboxes end
 * with their host, so nothing goes on unwatched, and no half-built answer passes for a whole one.
 */
#ifndef KODA_MCP_MEMORY_H
#define KODA_MCP_MEMORY_H

#include <stddef.h>

/* Gives jansson the same, and keeps the heap small between large lines. Before anything else. */
void memory_init(void);

void *memory_zero(size_t size);
void *memory_resize(void *p, size_t size);
char *memory_string(const char *s);
void *memory_copy(const void *p, size_t len);

#endif
