/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/quarantine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/base/io.h"
#include "worker/files/tree.h"

#define WHAT     "what"
#define MANIFEST "manifest"

/* Stores a name that no other file has by accident. */
static void
put_temp_name(struct quarantine *q, char *ret, size_t size)
{
	char hex[2 * TOKEN_BYTES + 1];

	hex_put(hex, q->token, TOKEN_BYTES);
	snprintf(ret, size, TEMP_PREFIX "%s-q%u", hex, ++q->serial);
}

int
quarantine_temp_file(struct quarantine *q, int dir_fd, char *ret, size_t size)
{
	int fd;

	do {
		put_temp_name(q, ret, size);
		fd =
		    openat(dir_fd, ret, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	return fd;
}

/* ---- the record ---- */

struct entry_writer {
	int dir_fd, manifest_fd;
	uint64_t bytes;
	unsigned names;
};

#define ENTRY_EMPTY                                                                                \
	{                                                                                          \
		.dir_fd = -1, .manifest_fd = -1                                                    \
	}

static void
entry_done(struct entry_writer *e)
{
	close_at(&e->dir_fd);
	close_at(&e->manifest_fd);
}

/* "key value" and a NUL, because a path may contain any other byte. */
static int
record(struct entry_writer *e, const char *key, const char *value)
{
	if (write_all(e->manifest_fd, key, strlen(key)) < 0 ||
	    write_all(e->manifest_fd, " ", 1) < 0)
		return -1;
	return write_all(e->manifest_fd, value, strlen(value) + 1);
}

static const char *
type_word(mode_t mode)
{
	return S_ISREG(mode) ? "file"
	    : S_ISDIR(mode)  ? "directory"
	    : S_ISLNK(mode)  ? "link"
			     : "special";
}

static int
entry_make(struct quarantine *q, const char *path, const char *rule, mode_t mode,
    struct entry_writer *e, char name[QUARANTINE_NAME_SIZE])
{
	struct timespec now;
	char when[32], bits[16];
	int r = -1;

	if (q->fd < 0 || q->left == 0) {
		errno = q->fd < 0 ? ENOENT : EDQUOT;
		return -1;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(when, sizeof(when), "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
	snprintf(bits, sizeof(bits), "%04o", (unsigned)mode & 07777);
	/* Several workers may share the quarantine. */
	for (unsigned i = 0; i < 100 && r < 0; i++) {
		snprintf(name, QUARANTINE_NAME_SIZE, "%llx.%09ld-%u", (long long)now.tv_sec,
		    now.tv_nsec, ++q->serial);
		r = mkdirat(q->fd, name, 0700);
		if (r < 0 && errno != EEXIST)
			break;
	}
	if (r < 0) {
		name[0] = '\0';
		return -1;
	}
	e->dir_fd = openat(q->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	e->manifest_fd =
	    openat(e->dir_fd, MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (e->manifest_fd >= 0 && record(e, "koda-quarantine", "1") == 0 &&
	    record(e, "time", when) == 0 && record(e, "rule", rule) == 0 &&
	    record(e, "path", path) == 0 && record(e, "type", type_word(mode)) == 0 &&
	    record(e, "mode", bits) == 0 &&
	    (q->command == NULL || record(e, "command", q->command) == 0)) {
		q->left--;
		return 0;
	}
	r = errno;
	tree_remove(q->fd, name);
	name[0] = '\0';
	errno = r;
	return -1;
}

/* ---- copying ---- */

static int
copy_bytes(struct entry_writer *e, int from, int to)
{
	char buf[64 << 10];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		e->bytes += (uint64_t)n;
		if (e->bytes > QUARANTINE_BYTES_MAX) {
			errno = EFBIG;
			return -1;
		}
		if (write_all(to, buf, (size_t)n) < 0)
			return -1;
	}
	return 0;
}

static int copy(struct entry_writer *e, int from_dir, const char *name, int to_dir, const char *to,
    char *rel, size_t rel_len);

static int
copy_directory(struct entry_writer *e, int from_dir, const char *name, int to_dir, const char *to,
    char *rel, size_t rel_len)
{
	cleanup_close int fd =
	    openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int made = -1;
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	if (d == NULL)
		return -1;
	fd = -1;
	if (mkdirat(to_dir, to, 0700) < 0)
		return -1;
	made = openat(to_dir, to, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (made < 0)
		return -1;
	while (errno = 0, (ent = readdir(d)) != NULL) {
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (copy(e, dirfd(d), ent->d_name, made, ent->d_name, rel, rel_len) < 0)
			return -1;
	}
	return errno == 0 ? 0 : -1;
}

/* rel: its path below the thing, for entries that only the record can hold. */
static int
copy(struct entry_writer *e, int from_dir, const char *name, int to_dir, const char *to, char *rel,
    size_t rel_len)
{
	char target[PATH_LEN_MAX + 1];
	struct stat st;
	size_t k = strlen(to);
	int r = -1;

	if (++e->names > QUARANTINE_NAMES_MAX || rel_len + 1 + k > PATH_LEN_MAX ||
	    rel_len > NAME_LEN_MAX * 8) {
		errno = EFBIG;
		return -1;
	}
	rel[rel_len] = '/';
	memcpy(rel + rel_len + 1, to, k + 1);
	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode)) {
		r = copy_directory(e, from_dir, name, to_dir, to, rel, rel_len + 1 + k);
	} else if (S_ISREG(st.st_mode)) {
		cleanup_close int from =
		    openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		cleanup_close int made = from < 0
		    ? -1
		    : openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  0600);

		r = made < 0 ? -1 : copy_bytes(e, from, made);
		/* Drop set-user-ID and set-group-ID bits. */
		if (r == 0 && (st.st_mode & 0111) != 0)
			r = fchmod(made, st.st_mode & 0777);
	} else if (S_ISLNK(st.st_mode)) {
		/* The worker may not make links, so the record stores the target. */
		ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

		if (n >= 0) {
			target[n] = '\0';
			r = record(e, "link", rel);
			if (r == 0)
				r = record(e, "target", target);
		}
	} else {
		r = record(e, "dropped", rel);
	}
	rel[rel_len] = '\0';
	return r;
}

/* ---- moving ---- */

static bool
is_seen(int dir_fd, const char *name, const struct stat *seen)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == seen->st_dev &&
	    st.st_ino == seen->st_ino;
}

/* A FIFO, socket or device has no content to keep, and renaming it would require permission to make
 * one. */
static int
drop_special(struct quarantine *q, int dir_fd, const char *name, const char *path, const char *rule,
    const struct stat *seen, struct quarantined *ret)
{
	cleanup(entry_done) struct entry_writer e = ENTRY_EMPTY;

	if (!is_seen(dir_fd, name, seen))
		return 1;
	if (q->left > 0 &&
	    (entry_make(q, path, rule, seen->st_mode, &e, ret->name) < 0 ||
		record(&e, "dropped", "/" WHAT) < 0))
		return -1;
	return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : -1;
}

int
quarantine_move(struct quarantine *q, int dir_fd, const char *name, const char *path,
    const char *rule, const struct stat *seen, struct quarantined *ret)
{
	cleanup(entry_done) struct entry_writer e = ENTRY_EMPTY;
	char rel[PATH_LEN_MAX + NAME_LEN_MAX + 2] = "";
	int r;

	*ret = (struct quarantined){ 0 };
	if (q->fd < 0) {
		errno = ENOENT;
		return -1;
	}
	if (!S_ISREG(seen->st_mode) && !S_ISDIR(seen->st_mode) && !S_ISLNK(seen->st_mode))
		return drop_special(q, dir_fd, name, path, rule, seen, ret);
	do {
		put_temp_name(q, ret->aside, sizeof(ret->aside));
		r = tree_rename_new(dir_fd, name, dir_fd, ret->aside);
	} while (r < 0 && errno == EEXIST);
	if (r < 0) {
		ret->aside[0] = '\0';
		return errno == ENOENT ? 1 : -1;
	}
	/* Another process replaced it first, and the new file has not been judged. */
	if (!is_seen(dir_fd, ret->aside, seen)) {
		if (tree_rename_new(dir_fd, ret->aside, dir_fd, name) == 0)
			ret->aside[0] = '\0';
		return ret->aside[0] == '\0' ? 1 : 0;
	}
	if (entry_make(q, path, rule, seen->st_mode, &e, ret->name) < 0)
		return 0;
	if (tree_rename_new(dir_fd, ret->aside, e.dir_fd, WHAT) == 0) {
		ret->aside[0] = '\0';
		return 0;
	}

	if (copy(&e, dir_fd, ret->aside, e.dir_fd, WHAT, rel, 0) < 0) {
		/* An incomplete copy would pass for the whole. */
		tree_remove(q->fd, ret->name);
		ret->name[0] = '\0';
		return 0;
	}
	if (tree_remove(dir_fd, ret->aside) == 0)
		ret->aside[0] = '\0';
	return 0;
}

int
quarantine_keep(struct quarantine *q, const char *path, const char *rule, mode_t mode,
    const void *data, size_t len, struct quarantined *ret)
{
	cleanup(entry_done) struct entry_writer e = ENTRY_EMPTY;
	cleanup_close int fd = -1;

	*ret = (struct quarantined){ 0 };
	if (entry_make(q, path, rule, mode, &e, ret->name) < 0)
		return -1;
	fd = openat(e.dir_fd, WHAT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && write_all(fd, data, len) == 0)
		return 0;
	int saved = errno;

	tree_remove(q->fd, ret->name);
	ret->name[0] = '\0';
	errno = saved;
	return -1;
}
