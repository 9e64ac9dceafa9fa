/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the property, race, chaos and escape tests share: a scratch directory, files in it, and
 * random numbers that can be reproduced.
 */
#ifndef KODA_TESTS_KIT_PROOF_H
#define KODA_TESTS_KIT_PROOF_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "include/koda/sandbox.h"
#include "shared/base/cleanup.h"
#include "tests/kit/random.h"

#define proof_unused __attribute__((unused))

/* A number from the environment, or a default. */
static inline uint64_t
proof_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s != NULL && *s != '\0' ? strtoull(s, NULL, 0) : otherwise;
}

/* Returns KODA_TEST_SEED, or the clock. Prints it, so that a failure can be reproduced. */
static inline uint64_t
proof_seed(void)
{
	struct timespec ts;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &ts);
	seed = proof_number("KODA_TEST_SEED", (uint64_t)ts.tv_sec * 1000003 + (uint64_t)ts.tv_nsec);
	fprintf(stderr, "# KODA_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline double
proof_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- directories and files ---- */

/* Makes a new directory below TMPDIR, and returns its canonical path. */
static proof_unused void
proof_mkdtemp(char ret[PATH_MAX])
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/proof.XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(name));
	assert_non_null(realpath(name, ret));
}

static proof_unused void
proof_remove_at(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	DIR *d;

	if (fd < 0) {
		unlinkat(dir, name, 0);
		return;
	}
	fchmod(fd, 0700);
	d = fdopendir(fd);
	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			proof_remove_at(dirfd(d), e->d_name);
	}
	if (d != NULL)
		closedir(d);
	unlinkat(dir, name, AT_REMOVEDIR);
}

static proof_unused void
proof_rmtree(const char *path)
{
	proof_remove_at(AT_FDCWD, path);
}

/* Formats a path like printf(), into one of a few static buffers. */
static proof_unused __attribute__((format(printf, 1, 2))) const char *
proof_path(const char *fmt, ...)
{
	static char bufs[16][PATH_MAX];
	static unsigned next;
	char *buf = bufs[next++ % N_ELEMENTS(bufs)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, PATH_MAX, fmt, ap);
	va_end(ap);
	return buf;
}

static proof_unused void
proof_put(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_msg("create %s: %s", path, strerror(errno));
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static proof_unused void
proof_mkdir(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		fail_msg("mkdir %s: %s", path, strerror(errno));
}

/* Returns the whole file, NUL-terminated; NULL if there is none. The caller frees it. */
static proof_unused char *
proof_get_len(const char *path, size_t *ret_len)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup_free char *buf = NULL;
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	buf = malloc((size_t)st.st_size + 1);
	if (buf == NULL)
		return NULL;
	while (n < (size_t)st.st_size) {
		ssize_t r = read(fd, buf + n, (size_t)st.st_size - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	buf[n] = '\0';
	if (ret_len != NULL)
		*ret_len = n;
	return take_ptr(&buf);
}

static proof_unused char *
proof_get(const char *path)
{
	return proof_get_len(path, NULL);
}

static proof_unused bool
proof_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static proof_unused bool
proof_holds(const char *path, const char *text)
{
	cleanup_free char *now = proof_get(path);

	return now != NULL && strcmp(now, text) == 0;
}

/*
 * Returns a hash of everything below a directory: names, types, modes, link targets and contents,
 * independent of the order of the entries. Times and inodes are left out: a file that was changed
 * and put back counts as unchanged.
 */
static proof_unused uint64_t
proof_hash(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

static proof_unused uint64_t
proof_sum_at(int dir, const char *name, bool with_name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	char target[PATH_MAX], chunk[4096];
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (with_name)
		h = proof_hash(h, name, strlen(name) + 1);
	h = proof_hash(h, &st.st_mode, sizeof(st.st_mode));
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target));
		h = proof_hash(h, target, n > 0 ? (size_t)n : 0);
	} else if (S_ISREG(st.st_mode)) {
		cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		/* For a sparse file its end is enough. */
		if (fd >= 0 && st.st_size > (off_t)(64u << 20))
			lseek(fd, -4096, SEEK_END);
		while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
			h = proof_hash(h, chunk, (size_t)n);
		h = proof_hash(h, &st.st_size, sizeof(st.st_size));
	} else if (S_ISDIR(st.st_mode)) {
		int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		uint64_t sum = 0;
		struct dirent *e;

		while (d != NULL && (e = readdir(d)) != NULL) {
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				sum += proof_sum_at(dirfd(d), e->d_name, true);
		}
		if (d != NULL)
			closedir(d);
		h = proof_hash(h, &sum, sizeof(sum));
	}
	return h;
}

static proof_unused uint64_t
proof_sum(const char *path)
{
	return proof_sum_at(AT_FDCWD, path, false);
}

/* Counts the names below a directory that look like a worker's unfinished work. */
static proof_unused unsigned
proof_temps_at(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned n = 0;
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (strncmp(e->d_name, ".koda-", 6) == 0)
			n++;
		n += proof_temps_at(dirfd(d), e->d_name);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static proof_unused unsigned
proof_temps(const char *path)
{
	return proof_temps_at(AT_FDCWD, path);
}

#endif
