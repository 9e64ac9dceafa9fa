/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates memory, or ends the process. Nothing better is possible without memory: the library's
 * workers and sandboxes end with their host, so nothing goes on unwatched, and no half-built answer
 * passes for a whole one.
 */
#ifndef KODA_MCP_MEMORY_H
#define KODA_MCP_MEMORY_H

#include <stddef.h>

/* Makes jansson allocate the same way, and keeps the heap small between large lines. Call it
 * before anything else. */
void memory_init(void);

void *memory_zero(size_t size);
void *memory_resize(void *p, size_t size);
char *memory_string(const char *s);
void *memory_copy(const void *p, size_t len);

#endif
