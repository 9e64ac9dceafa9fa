/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define BYTES_FIRST 512
/* The names of one directory: DRAFT_ENTRIES_MAX of the longest. */
#define BYTES_MAX ((size_t)256 << 20)

/* As the kernel fills it in. */
struct dirent_raw {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static int
add_name(struct draft_names *names, const char *name)
{
	const size_t k = strlen(name) + 1;

	if (names->len + k > names->size) {
		size_t size = names->size == 0 ? BYTES_FIRST : names->size * 2;
		char *bytes = size > BYTES_MAX ? NULL : realloc(names->bytes, size);

		if (bytes == NULL) {
			errno = ENOMEM;
			return -1;
		}
		names->bytes = bytes;
		names->size = size;
	}
	memcpy(names->bytes + names->len, name, k);
	names->len += k;
	names->n++;
	return 0;
}

static bool
is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

int
draft_names_read(struct draft_names *names, int dir_fd, uint64_t *left, void *buf, size_t size)
{
	long n;

	while ((n = syscall(SYS_getdents64, dir_fd, buf, size)) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent_raw *e =
			    (const struct dirent_raw *)((const char *)buf + at);

			at += e->len;
			if (is_dots(e->name))
				continue;
			if (*left == 0)
				return 1;
			--*left;
			if (add_name(names, e->name) < 0)
				return -1;
		}
	}
	return n < 0 ? -1 : 0;
}

/* strcmp compares unsigned bytes. */
static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int
draft_names_sort(struct draft_names *names)
{
	const size_t n = names->n;
	size_t at = 0;

	names->n = 0;
	names->name = malloc((n + 1) * sizeof(*names->name));
	if (names->name == NULL)
		return -1;
	for (size_t i = 0; i < n; i++) {
		names->name[i] = names->bytes + at;
		at += strlen(names->bytes + at) + 1;
	}
	qsort(names->name, n, sizeof(*names->name), compare);
	for (size_t i = 0; i < n; i++)
		if (names->n == 0 || strcmp(names->name[names->n - 1], names->name[i]) != 0)
			names->name[names->n++] = names->name[i];
	return 0;
}

size_t
draft_names_from(const struct draft_names *names, const char *name, size_t len)
{
	size_t low = 0, high = names->n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		const int r = strncmp(names->name[mid], name, len);

		/* A name that begins with it comes after it, or is it. */
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool
draft_names_has(const struct draft_names *names, const char *name)
{
	const size_t i = draft_names_from(names, name, strlen(name));

	return i < names->n && strcmp(names->name[i], name) == 0;
}

void
draft_names_done(struct draft_names *names)
{
	free(names->name);
	free(names->bytes);
	*names = (struct draft_names){ 0 };
}
