/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/base/io.h"
#include "worker/files/tree.h"
#include "worker/pause.h"
#include "worker/say.h"

#define ACL_NAME "system.posix_acl_access"
/* The kernel's XATTR_LIST_MAX and XATTR_SIZE_MAX: nothing larger exists. */
#define XATTR_BYTES_MAX (64u << 10)
/* Enough for most files' list of attributes. */
#define XATTR_LIST_FIRST 512
/* For copying where sendfile is not possible: stays in the cache. */
#define COPY_PIECE (256u << 10)

void
temp_name(char ret[TEMP_NAME_SIZE], const uint8_t token[TOKEN_BYTES], uint64_t id)
{
	char hex[2 * TOKEN_BYTES + 1];

	hex_put(hex, token, TOKEN_BYTES);
	snprintf(ret, TEMP_NAME_SIZE, TEMP_PREFIX "%s-%llu", hex, (unsigned long long)id);
}

int64_t
content_check_fd(int fd, struct koda_error *err)
{
	const int needed = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & needed) != needed)
		return err_set(err, KODA_INVALID, 0,
		    "the content's descriptor is not a memfd sealed against every change");
	if (fstat(fd, &st) < 0)
		return err_set(err, KODA_IO, errno, "the content's descriptor");
	if (!S_ISREG(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "the content's descriptor is not a file");
	return st.st_size;
}

static int
copy_rest(int to, int from, off_t at, size_t len)
{
	cleanup_free uint8_t *piece = malloc(COPY_PIECE);

	while (piece != NULL && (size_t)at < len) {
		size_t want = len - (size_t)at < COPY_PIECE ? len - (size_t)at : COPY_PIECE;
		ssize_t n = pread(from, piece, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		/* errno may still be the one for which sendfile was given up. */
		if (n == 0)
			errno = EIO;
		if (n <= 0 || write_all(to, piece, (size_t)n) < 0)
			return -1;
		at += n;
	}
	return piece == NULL ? -1 : 0;
}

/* The kernel moves the memfd's pages to the file; mapping and writing them costs a fifth more. */
static int
copy_part(int to, int from, off_t at, size_t len)
{
	while ((size_t)at < len) {
		ssize_t n = sendfile(to, from, &at, len - (size_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		/* The file system does not accept pages from another file. */
		if (n < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
			return copy_rest(to, from, at, len);
		if (n <= 0) {
			errno = n == 0 ? EIO : errno;
			return -1;
		}
	}
	return 0;
}

static int
copy_all(int to, int from, size_t len)
{
	return copy_part(to, from, 0, len);
}

/* ---- what a new file takes from the one it replaces ---- */

static bool
has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* May this attribute be left out if the kernel does not let us set it? Not one that protects the
 * content (an access control list) or belongs to the file's owner. */
static bool
may_lack(const char *name, int error)
{
	return (error == EPERM || error == EACCES || error == EOPNOTSUPP) &&
	    (has_prefix(name, "security.") || has_prefix(name, "trusted."));
}

static int
copy_attribute(int to, const char *from, const char *name, char *value)
{
	ssize_t n;

	/* Capabilities were granted to the old program, not to its next version. */
	if (strcmp(name, "security.capability") == 0)
		return 0;
	n = getxattr(from, name, value, XATTR_BYTES_MAX);
	if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) == 0)
		return 0;
	return errno == ENODATA || may_lack(name, errno) ? 0 : -1;
}

/* Lists a file's attributes: in first if they fit, else in *ret_big, which is the caller's.
 * Returns the length of the list, or -1 with errno. */
static ssize_t
list_attributes(const char *path, char *first, char **ret_big)
{
	ssize_t n = listxattr(path, first, XATTR_LIST_FIRST);

	if (n < 0 && errno == EOPNOTSUPP)
		return 0;
	if (n >= 0 || errno != ERANGE)
		return n;
	*ret_big = malloc(XATTR_BYTES_MAX);
	return *ret_big == NULL ? -1 : listxattr(path, *ret_big, XATTR_BYTES_MAX);
}

/* Did the file inherit an access control list from its directory? */
static bool
got_acl(int fd)
{
	char names[XATTR_LIST_FIRST];
	ssize_t n = flistxattr(fd, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1)
		if (strcmp(names + i, ACL_NAME) == 0)
			return true;
	return n < 0 && errno == ERANGE;
}

static int
copy_attributes(int to, bool to_has_acl, int target_fd)
{
	char from[32], first[XATTR_LIST_FIRST];
	cleanup_free char *big = NULL, *value = NULL;
	const char *names;
	bool acl = false;
	ssize_t n;

	/*
	 * An O_PATH descriptor can be asked through this name, and without permission to read
	 * the file. The name is relative to /proc/self/fd, the working directory of this
	 * process, which saves three lookups each time.
	 */
	snprintf(from, sizeof(from), "%d", target_fd);
	n = list_attributes(from, first, &big);
	if (n < 0)
		return -1;
	names = big != NULL ? big : first;
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		if (value == NULL && (value = malloc(XATTR_BYTES_MAX)) == NULL)
			return -1;
		acl |= strcmp(names + i, ACL_NAME) == 0;
		if (copy_attribute(to, from, names + i, value) < 0)
			return -1;
	}
	/* The directory's default list would grant access that the old file did not. */
	if (acl || !to_has_acl || fremovexattr(to, ACL_NAME) == 0)
		return 0;
	return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
}

/* Sets owner, attributes, mode; in this order, because each may undo the later ones. */
static int
dress_as(int fd, const struct stat *now, bool has_acl, int target_fd, const struct stat *old)
{
	mode_t mode = old->st_mode & 07777;

	if ((now->st_uid != old->st_uid || now->st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) < 0) {
		/* EINVAL: our user namespace has no mapping for the owner. */
		if (errno != EPERM && errno != EINVAL)
			return -1;
		mode &= ~(mode_t)(S_ISUID | S_ISGID);
		/* A process that cannot give the file away may still be in its group; if it is
		 * not, its own group gets no more than others do. */
		if (now->st_gid != old->st_gid && fchown(fd, (uid_t)-1, old->st_gid) < 0)
			mode &= mode << 3 | ~(mode_t)S_IRWXG;
	}
	if (copy_attributes(fd, has_acl, target_fd) < 0)
		return -1;
	/* Adding or removing a list may have changed the mode; otherwise the file was made with
	 * the right one. */
	return !has_acl && (now->st_mode & 07777) == mode ? 0 : fchmod(fd, mode);
}

int
file_copy(int to, int from, size_t len)
{
	off_t at = 0;

	/* A hole stays one: it would fill the disk. */
	while ((size_t)at < len) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		data = data < 0 ? at : data; /* the file system does not tell */
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || (size_t)hole > len)
			hole = (off_t)len;
		if ((size_t)data >= len)
			break;
		if (lseek(to, data, SEEK_SET) < 0 || copy_part(to, from, data, (size_t)hole) < 0)
			return -1;
		at = hole;
	}
	return ftruncate(to, (off_t)len);
}

int
file_dress(int fd, int like_fd, const struct stat *like)
{
	struct stat now;

	return fstat(fd, &now) < 0 ? -1 : dress_as(fd, &now, got_acl(fd), like_fd, like);
}

int
file_copy_attributes(int to, int from_fd)
{
	return copy_attributes(to, got_acl(to), from_fd);
}

static int
make_file(int dir_fd, const char *name, mode_t mode)
{
	return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

/* State of a new file before it has content. */
struct made {
	struct stat st;
	bool has_acl;
	bool own_mode; /* the kernel has chosen the mode */
};

static int
fill_file(int fd, const struct place *at, const struct file_content *content,
    const struct made *made, const struct stage_how *how, const char **ret_what)
{
	*ret_what = "write";
	if ((content->fd >= 0 ? copy_all(fd, content->fd, content->len)
			      : write_all(fd, content->data, content->len)) < 0)
		return -1;
	*ret_what = "keep mode, owner and attributes of";
	if (at->target_fd >= 0) {
		if (dress_as(fd, &made->st, made->has_acl, at->target_fd, &at->st) < 0)
			return -1;
	} else if (!made->own_mode && fchmod(fd, 0666 & ~how->umask) < 0) {
		return -1;
	}
	*ret_what = "sync";
	return how->durable ? fsync(fd) : 0;
}

/*
 * Makes the empty temporary file, which only we can read until it has its attributes. If it is
 * already as private as the file that it will replace it gets that file's mode at once: then
 * nothing more has to be set, which would cost as much as writing a small file.
 */
static int
make_temp(const struct place *at, int dir_fd, const char *name, bool *ret_there, struct made *ret)
{
	const bool replaces =
	    at->target_fd >= 0 && (at->st.st_mode & (S_ISUID | S_ISGID | S_ISVTX)) == 0;
	cleanup_close int fd = make_file(dir_fd, name, replaces ? at->st.st_mode & 0777 : 0600);

	if (fd < 0)
		return -1;
	*ret_there = true;
	if (fstat(fd, &ret->st) < 0)
		return -1;
	ret->has_acl = got_acl(fd);
	ret->own_mode = false;
	if (replaces &&
	    (ret->has_acl || ret->st.st_uid != at->st.st_uid || ret->st.st_gid != at->st.st_gid)) {
		if (fchmod(fd, 0600) < 0)
			return -1;
		ret->st.st_mode = S_IFREG | 0600;
	}
	/* Only the kernel knows what such a list makes of a new file's mode, and only if it is
	 * passed the full mode. */
	if (ret->has_acl && at->target_fd < 0) {
		close_at(&fd);
		fd = unlinkat(dir_fd, name, 0) < 0 ? -1 : make_file(dir_fd, name, 0666);
		if (fd < 0 || fstat(fd, &ret->st) < 0)
			return -1;
		ret->own_mode = true;
	}
	return take_fd(&fd);
}

static int
new_file(struct stage *s, int dir_fd, const char *name, const struct file_content *content,
    const struct stage_how *how, struct koda_error *err)
{
	const struct place *at = s->at;
	struct made made;
	const char *what;
	cleanup_close int fd = -1;
	bool there = false;

	fd = make_temp(at, dir_fd, name, &there, &made);
	if (there && dir_fd == at->parent_fd)
		s->made = true;
	if (fd < 0)
		return say(err, KODA_IO, errno, "make a temporary file beside", at->path);
	PAUSE_POINT(PAUSE_TEMP_MADE);
	if (fill_file(fd, at, content, &made, how, &what) < 0)
		return say(err, KODA_IO, errno, what, at->path);
	if (dir_fd == at->parent_fd) {
		s->dev = made.st.st_dev;
		s->ino = made.st.st_ino;
	}
	return 0;
}

/* Makes a directory and opens it. Returns the descriptor, the caller's, or -1 with *err set. */
static int
new_directory(struct stage *s, int dir_fd, const char *name, const struct stage_how *how,
    struct koda_error *err)
{
	cleanup_close int fd = -1;
	struct stat st;

	if (mkdirat(dir_fd, name, 0777) < 0)
		return say(err, KODA_IO, errno, "make a directory for", s->at->path);
	if (dir_fd == s->at->parent_fd)
		s->made = true;
	/* Syncing needs it open for reading, which an unusual umask may forbid even here. */
	fd = openat(dir_fd, name,
	    (how->durable ? O_RDONLY : O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return say(err, KODA_IO, errno, "make a directory for", s->at->path);
	if (dir_fd == s->at->parent_fd) {
		s->dev = st.st_dev;
		s->ino = st.st_ino;
	}
	return take_fd(&fd);
}

/* Makes what is missing below the first missing name. Recurses as deep as the path has names,
 * inside out, so that each directory is complete when it is synced. */
static int
make_below(struct stage *s, int dir_fd, const char *missing, const struct file_content *content,
    const struct stage_how *how, struct koda_error *err)
{
	const char *slash = strchr(missing, '/');
	char name[NAME_LEN_MAX + 1];
	cleanup_close int fd = -1;

	snprintf(name, sizeof(name), "%.*s",
	    (int)(slash == NULL ? strlen(missing) : (size_t)(slash - missing)), missing);
	if (slash == NULL && content != NULL)
		return new_file(s, dir_fd, name, content, how, err);
	fd = new_directory(s, dir_fd, name, how, err);
	if (fd < 0 || (slash != NULL && make_below(s, fd, slash + 1, content, how, err) < 0))
		return -1;
	if (how->durable && fsync(fd) < 0)
		return say(err, KODA_IO, errno, "sync", s->at->path);
	return 0;
}

static int
make_all(struct stage *s, const struct file_content *content, const struct stage_how *how,
    struct koda_error *err)
{
	const struct place *at = s->at;
	cleanup_close int fd = -1;

	if (how->durable) {
		s->sync_fd = openat(at->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->sync_fd < 0)
			return say(err, KODA_IO, errno, "open to sync the directory of", at->path);
	}
	if (*at->missing == '\0' && content != NULL)
		return new_file(s, at->parent_fd, s->temp, content, how, err);
	fd = new_directory(s, at->parent_fd, s->temp, how, err);
	if (fd < 0)
		return -1;
	PAUSE_POINT(PAUSE_TEMP_MADE);
	if (*at->missing != '\0' && make_below(s, fd, at->missing, content, how, err) < 0)
		return -1;
	if (how->durable && fsync(fd) < 0)
		return say(err, KODA_IO, errno, "sync", at->path);
	return 0;
}

int
stage_make(struct stage *s, const struct place *at, const uint8_t token[TOKEN_BYTES], uint64_t id,
    const struct file_content *content, const struct stage_how *how, struct koda_error *err)
{
	s->at = at;
	s->made = false;
	temp_name(s->temp, token, id);
	if (make_all(s, content, how, err) < 0) {
		stage_done(s);
		return -1;
	}
	PAUSE_POINT(PAUSE_TEMP_WRITTEN);
	return 0;
}

int
stage_commit(struct stage *s, bool exclusive, struct koda_error *err)
{
	const struct place *at = s->at;
	char name[NAME_LEN_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)place_name_len(at), at->name);
	if ((exclusive ? tree_rename_new(at->parent_fd, s->temp, at->parent_fd, name)
		       : renameat2(at->parent_fd, s->temp, at->parent_fd, name, 0)) == 0) {
		s->made = false;
		return 0;
	}
	if (exclusive && (errno == EEXIST || errno == ENOTEMPTY))
		return 1;
	return say(err, KODA_IO, errno, "rename into place", at->path);
}

int
stage_sync(struct stage *s)
{
	return s->sync_fd < 0 ? 0 : fsync(s->sync_fd);
}

void
stage_done(struct stage *s)
{
	int saved = errno;

	if (s->made)
		tree_remove(s->at->parent_fd, s->temp);
	s->made = false;
	close_at(&s->sync_fd);
	s->sync_fd = -1;
	errno = saved;
}
