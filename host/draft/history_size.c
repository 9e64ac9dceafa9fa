/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_size.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

#define SIZE      "size"
#define SIZE_TEXT 24 /* bytes: a number and a newline */
/* Every name costs that, besides what is in the file: an inode, and its place in a directory. So the
 * bound holds for empty files and links, too. */
#define NAME_COST 512

static uint64_t
measure(int entry)
{
	cleanup_close int old =
	    openat(entry, "old", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct cache_size size;

	if (old < 0 || cache_tree_measure(old, &size) < 0)
		return 0;
	return size.beyond ? UINT64_MAX / 2 : size.bytes + size.entries * NAME_COST;
}

/* Returns false if there is no whole number. */
static bool
read_size(int entry, uint64_t *ret)
{
	cleanup_close int fd = openat(entry, SIZE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[SIZE_TEXT + 1], *end;
	ssize_t n = fd < 0 ? -1 : read(fd, text, SIZE_TEXT);

	if (n <= 0)
		return false;
	text[n] = '\0';
	*ret = strtoull(text, &end, 10);
	return *end == '\n';
}

uint64_t
history_size(int entry, bool locked)
{
	cleanup_close int fd = -1;
	char text[SIZE_TEXT + 1];
	uint64_t bytes;

	if (read_size(entry, &bytes))
		return bytes;
	bytes = measure(entry);
	if (!locked)
		return bytes;
	fd = openat(entry, SIZE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes);
	if (fd >= 0 && write_all(fd, text, strlen(text)) < 0)
		history_size_forget(entry);
	return bytes;
}

void
history_size_forget(int entry)
{
	unlinkat(entry, SIZE, 0);
}
