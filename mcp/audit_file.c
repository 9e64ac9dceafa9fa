/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp/fault.h"

/* ---- opening ---- */

/* Reads the kernel's name of the file behind a descriptor. */
static int
name_of(int fd, char ret[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, PATH_MAX);
	if (n < 0)
		return -1;
	if (n == PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	ret[n] = '\0';
	return 0;
}

static bool
is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Returns 1 if the directory or one of its parents is that inode, 0 if not, -1 on failure. A
 * place can have a second name through a mount. */
static int
climbs_to(int dir, const struct stat *place)
{
	int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st = { 0 }, before;

	while (at >= 0 && fstat(at, &st) == 0) {
		int up;

		if (st.st_dev == place->st_dev && st.st_ino == place->st_ino) {
			close(at);
			return 1;
		}
		before = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
		if (at >= 0 && fstat(at, &st) == 0 && st.st_dev == before.st_dev &&
		    st.st_ino == before.st_ino) {
			close(at);
			return 0;
		}
	}
	if (at >= 0)
		close(at);
	return -1;
}

/* Fails if the directory is below a place. The directory is compared by its descriptor and the
 * place by its inode too, because a name could mean something else the next time. */
static int
check_place(const char *path, int dir, const char *place, struct koda_error *err)
{
	char canonical[PATH_MAX], real[PATH_MAX];
	struct stat st;

	/* A place that does not exist cannot be reached by a link; a directory that appears
	 * later is judged by its name. */
	if (realpath(place, real) == NULL)
		snprintf(real, sizeof(real), "%s", place);
	if (name_of(dir, canonical) < 0)
		return fault_set(err, KODA_IO, errno, "check the audit log '%s'", path);
	if (stat(place, &st) == 0) {
		int r = climbs_to(dir, &st);

		if (r < 0)
			return fault_set(err, KODA_IO, errno, "check the audit log '%s'", path);
		if (r == 0 && !is_below(canonical, real))
			return 0;
	} else if (!is_below(canonical, real)) {
		return 0;
	}
	return fault_set(err, KODA_INVALID, 0,
	    "the audit log '%s' would be below '%s', which the agent may write: name a file outside of it",
	    path, real);
}

static int
check_file(const char *path, int fd, int dir, const char *name, struct koda_error *err)
{
	char of_dir[PATH_MAX], of_file[PATH_MAX];
	struct stat st;
	size_t n;

	if (fstat(fd, &st) < 0 || name_of(dir, of_dir) < 0 || name_of(fd, of_file) < 0)
		return fault_set(err, KODA_IO, errno, "check the audit log '%s'", path);
	if (!S_ISREG(st.st_mode))
		return fault_set(err, KODA_INVALID, 0, "the audit log '%s' is not a regular file",
		    path);
	if (st.st_nlink != 1)
		return fault_set(err, KODA_INVALID, 0,
		    "the audit log '%s' has another name, through which it could be written", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return fault_set(err, KODA_INVALID, 0,
		    "the audit log '%s' belongs to another user, or other users may write it",
		    path);
	/* The file must be in the directory that was checked. */
	n = strcmp(of_dir, "/") == 0 ? 0 : strlen(of_dir);
	if (strncmp(of_file, of_dir, n) != 0 || of_file[n] != '/' ||
	    strcmp(of_file + n + 1, name) != 0)
		return fault_set(err, KODA_CONFLICT, 0,
		    "the audit log '%s' was moved while the server opened it", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return fault_set(err, KODA_CONFLICT, errno == EWOULDBLOCK ? 0 : errno,
		    errno == EWOULDBLOCK ? "another server is writing the audit log '%s'"
					 : "lock the audit log '%s'",
		    path);
	return 0;
}

static int
open_in(const char *path, int dir, const char *name, const char *const *places, size_t n_places,
    struct koda_error *err)
{
	struct stat st;
	int fd;

	/* Otherwise other users could put another file into its place. A sticky directory, such
	 * as /tmp, prevents that. */
	if (fstat(dir, &st) < 0)
		return fault_set(err, KODA_IO, errno, "check the audit log '%s'", path);
	if ((st.st_mode & 002) != 0 && (st.st_mode & S_ISVTX) == 0)
		return fault_set(err, KODA_INVALID, 0,
		    "every user can write the directory of the audit log '%s'", path);
	for (size_t i = 0; i < n_places; i++) {
		if (check_place(path, dir, places[i], err) < 0)
			return -1;
	}
	/* O_NONBLOCK: a FIFO is refused instead of waited for. */
	fd = openat(dir, name,
	    O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0)
		return fault_set(err, KODA_IO, errno, "open the audit log '%s'", path);
	if (check_file(path, fd, dir, name, err) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int
audit_file_open(const char *path, const char *const *places, size_t n_places,
    struct koda_error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	char dirname[PATH_MAX];
	int dir, fd;

	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return fault_set(err, KODA_INVALID, 0,
		    "the audit log '%s' does not end in the name of a file", path);
	if (slash != NULL && (size_t)(slash - path) >= sizeof(dirname) - 1)
		return fault_set(err, KODA_INVALID, ENAMETOOLONG, "open the audit log");
	if (slash == NULL)
		strcpy(dirname, ".");
	else
		snprintf(dirname, sizeof(dirname), "%.*s", (int)(slash - path + 1), path);
	dir = open(dirname, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return fault_set(err, KODA_IO, errno, "open the directory of the audit log '%s'",
		    path);
	fd = open_in(path, dir, name, places, n_places, err);
	close(dir);
	return fd;
}

/* ---- the end of the file ---- */

/* Holds the last whole line and the torn lines after it, unless a disk was full again and again. */
#define TAIL_MAX (4 * AUDIT_LINE_MAX)

static int
read_tail(int fd, char *buf, size_t n, off_t from)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = pread(fd, buf + have, n - have, from + (off_t)have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			errno = r == 0 ? EIO : errno;
			return -1;
		}
		have += (size_t)r;
	}
	return 0;
}

/* Returns where the line begins that ends at `end`, which is its newline or the end of the text. */
static size_t
begin_of(const char *text, size_t end)
{
	while (end > 0 && text[end - 1] != '\n')
		end--;
	return end;
}

static void
fold_lines(struct audit_tail *tail, const char *text, size_t at, size_t n)
{
	while (at < n) {
		const char *end = memchr(text + at, '\n', n - at);
		size_t len = end != NULL ? (size_t)(end - text) - at : n - at;

		audit_fold_torn(tail->head, text + at, len);
		at += len + 1;
	}
}

/* Returns whether the text could be a torn first line: no line before it vouches for it, so it
 * has to look like one. */
static bool
begins_like_first(const char *text, size_t n)
{
	static const char first[] = "{\"seq\":1,\"time\":\"";

	if (memchr(text, '\n', n) != NULL)
		return false;
	return memcmp(text, first, n < sizeof(first) - 1 ? n : sizeof(first) - 1) == 0;
}

static int
find_end(const char *text, size_t n, bool from_start, struct audit_tail *ret, const char **ret_why)
{
	struct audit_checked checked;
	size_t end = n;

	*ret_why = "does not end like an audit log; name another file, or move this one away";
	ret->newline = n > 0 && text[n - 1] != '\n';
	if (!ret->newline && end > 0)
		end--;
	for (;;) {
		size_t at = begin_of(text, end);
		const char *why;

		/* The first line in the text may lack its beginning. */
		if ((at > 0 || from_start) &&
		    audit_line_check(text + at, end - at, &checked, &why)) {
			size_t behind = end < n ? end + 1 : n;

			ret->seq = checked.seq;
			audit_fold_whole(ret->head, text + at, end - at);
			ret->torn = behind < n;
			fold_lines(ret, text, behind, n);
			return 0;
		}
		if (at == 0)
			break;
		end = at - 1;
	}
	if (!from_start || (n > 0 && !begins_like_first(text, n)))
		return -1;
	ret->torn = n > 0;
	fold_lines(ret, text, 0, n);
	return 0;
}

int
audit_file_tail(int fd, off_t size, struct audit_tail *ret, const char **ret_why)
{
	size_t n = size < (off_t)TAIL_MAX ? (size_t)size : TAIL_MAX;
	char *text = malloc(n + 1);
	int r;

	*ret_why = NULL;
	*ret = (struct audit_tail){ 0 };
	if (text == NULL)
		return -1;
	r = read_tail(fd, text, n, size - (off_t)n);
	if (r == 0)
		r = find_end(text, n, (off_t)n == size, ret, ret_why);
	free(text);
	return r;
}

/* ---- reading the whole file ---- */

/* Passes whole lines to fn, and moves the rest to the front. */
static int
hand_on(char *buf, size_t *n, audit_line_fn *fn, void *data)
{
	size_t at = 0;
	char *end;

	while ((end = memchr(buf + at, '\n', *n - at)) != NULL) {
		if (fn(data, buf + at, (size_t)(end - buf) - at, true) != 0)
			return 1;
		at = (size_t)(end - buf) + 1;
	}
	*n -= at;
	memmove(buf, buf + at, *n);
	return 0;
}

static int
read_lines(int fd, char *buf, audit_line_fn *fn, void *data)
{
	size_t n = 0;
	ssize_t r;

	for (;;) {
		r = read(fd, buf + n, AUDIT_LINE_MAX - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
		if (hand_on(buf, &n, fn, data) != 0)
			return 1;
		/* No line of ours is that long. Its pieces are not valid lines either, and
		 * memory stays bounded. */
		if (n == AUDIT_LINE_MAX) {
			if (fn(data, buf, n, true) != 0)
				return 1;
			n = 0;
		}
	}
	if (r < 0)
		return -1;
	return n > 0 && fn(data, buf, n, false) != 0 ? 1 : 0;
}

int
audit_file_lines(const char *path, audit_line_fn *fn, void *data, struct koda_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), r;
	char *buf;

	if (fd < 0)
		return fault_set(err, KODA_IO, errno, "open '%s'", path);
	buf = malloc(AUDIT_LINE_MAX);
	r = buf != NULL ? read_lines(fd, buf, fn, data) : -1;
	if (r < 0)
		fault_set(err, KODA_IO, errno, "read '%s'", path);
	free(buf);
	close(fd);
	return r;
}
