/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include <string.h>

#include "shared/base/hex.h"
#include "show/visible.h"

void
show_put(void *to, const void *data, size_t len)
{
	fwrite(data, 1, len, to);
}

void
show(FILE *f, const void *data, size_t len, unsigned flags)
{
	visible_show(data, len, flags & SHOW_TABS, show_put, f);
}

void
show_string(FILE *f, const char *s)
{
	show(f, s, strlen(s), 0);
}

void
show_digest(char buf[SHOW_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES])
{
	hex_put(buf, digest, KODA_DIGEST_BYTES);
}

const char *
show_type(enum koda_file_type type)
{
	switch (type) {
	case KODA_FILE_NONE:
		return "none";
	case KODA_FILE_REGULAR:
		return "regular";
	case KODA_FILE_DIRECTORY:
		return "directory";
	case KODA_FILE_SYMLINK:
		return "symlink";
	case KODA_FILE_OTHER:
		return "other";
	}
	return "other";
}
