/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

/* glibc raises both thresholds itself to the size of what was freed last; then one large line
 * would stay resident for ever. */
#define MMAP_FROM  (128 << 10)
#define TRIM_ABOVE (256 << 10)

#define STATUS_HOST 125 /* the sandbox itself failed; as the command line defines it */

static void __attribute__((noreturn)) no_memory(void)
{
	fputs("koda-sandbox: out of memory\n", stderr);
	_exit(STATUS_HOST);
}

static void *
take(size_t size)
{
	void *p = malloc(size > 0 ? size : 1);

	if (p == NULL)
		no_memory();
	return p;
}

void
memory_init(void)
{
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	mallopt(M_TRIM_THRESHOLD, TRIM_ABOVE);
	json_set_alloc_funcs(take, free);
}

void *
memory_zero(size_t size)
{
	return memset(take(size), 0, size);
}

void *
memory_resize(void *p, size_t size)
{
	p = realloc(p, size);
	if (p == NULL)
		no_memory();
	return p;
}

void *
memory_copy(const void *p, size_t len)
{
	void *ret = take(len);

	if (len > 0)
		memcpy(ret, p, len);
	return ret;
}

char *
memory_string(const char *s)
{
	return memory_copy(s, strlen(s) + 1);
}
