/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h's functions for memory, in a file of their own: code that only formats text needs
 * nothing else of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

void
output_no_memory(void)
{
	fputs(OUTPUT_PROGRAM ": out of memory\n", stderr);
	exit(EXIT_HOST);
}

void *
output_alloc(size_t size)
{
	void *ret = malloc(size > 0 ? size : 1);

	if (ret == NULL)
		output_no_memory();
	return ret;
}

char *
output_copy(const char *text)
{
	return strcpy(output_alloc(strlen(text) + 1), text);
}
