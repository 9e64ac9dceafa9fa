/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/deep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/digest.h"
#include "worker/scan/path_set.h"

/* Limits for the content of a place that is not mounted. Settings of an editor have less. */
#define DEEP_ENTRIES_MAX 4096
#define DEEP_MAX         16
/* Files up to this size are compared by content, larger ones by their times. */
#define SUM_BYTES_MAX (4u << 20)

static uint64_t
mix(uint64_t h, uint64_t value)
{
	h ^= value;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t
time_ns(const struct timespec *at)
{
	return (uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec;
}

/* A checksum of the content of the file; never 0. */
static uint64_t
sum_of_file(int dir_fd, const char *name, const struct stat *st)
{
	cleanup_close int fd = -1;
	uint8_t digest[KODA_DIGEST_BYTES];
	uint64_t sum = time_ns(&st->st_ctim);

	if (st->st_size <= (off_t)SUM_BYTES_MAX)
		fd =
		    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && digest_file(fd, digest) == 0)
		memcpy(&sum, digest, sizeof(sum));
	return sum | 1;
}

struct deep {
	unsigned entries;
	bool content; /* compute the checksum of contents, too */
};

/* The sums do not depend on the order of the entries. */
static uint64_t
deep(int dir_fd, const char *name, struct deep *how, unsigned depth, uint64_t *content)
{
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t sum = 0;
	struct dirent *e;

	*content = 0;
	if (d == NULL)
		return (uint64_t)errno;
	fd = -1;
	while ((e = readdir(d)) != NULL && ++how->entries <= DEEP_ENTRIES_MAX) {
		uint64_t h = path_digest(e->d_name), in = 0, by_content;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		h = mix(mix(h, st.st_ino), st.st_mode);
		if (S_ISDIR(st.st_mode)) {
			if (depth < DEEP_MAX)
				h = mix(h, deep(dirfd(d), e->d_name, how, depth + 1, &in));
			by_content = mix(h, in);
		} else {
			h = mix(h, (uint64_t)st.st_size);
			h = mix(h, time_ns(&st.st_mtim));
			if (how->content)
				in = sum_of_file(dirfd(d), e->d_name, &st);
			by_content = mix(h, in);
			h = mix(h, time_ns(&st.st_ctim));
		}
		*content += by_content;
		sum += h;
	}
	return sum;
}

uint64_t
deep_of(int dir_fd, const char *name, const struct stat *st, uint64_t *content)
{
	struct deep how = { .content = content != NULL };
	uint64_t sum = 0, by_content = 0;

	if (S_ISDIR(st->st_mode))
		sum = deep(dir_fd, name, &how, 0, &by_content);
	else if (content != NULL)
		by_content = sum_of_file(dir_fd, name, st);
	if (content != NULL)
		*content = by_content | 1;
	return sum | 1;
}
