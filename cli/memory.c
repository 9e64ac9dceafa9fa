/* What output.h says about memory, apart from all that it says about output: what only makes text needs no more. */
#include <stdio.h>
#include <stdlib.h>

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
