/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clone/clone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define CHUNK       ((size_t)1 << 30) /* of one copy_file_range() */
#define BUFFER      (64u << 10)
#define KEPT_MODE   01777 /* no set-user-ID, no set-group-ID: a copy is not the program itself */
#define TARGET_SIZE 4096

/* Is it an answer that says that this way of copying does not work here? */
static bool
is_unable(int errnum)
{
	return errnum == EXDEV || errnum == EOPNOTSUPP || errnum == EINVAL || errnum == ENOTTY ||
	    errnum == ENOSYS || errnum == EPERM || errnum == EACCES || errnum == EBADF;
}

/* Copies a part by reading and writing. Returns 0, or -1 with errno. */
static int
copy_slowly(int from, int to, off_t at, off_t end)
{
	cleanup_free char *buf = malloc(BUFFER);

	if (buf == NULL)
		return -1;
	while (at < end) {
		const size_t want = end - at < (off_t)BUFFER ? (size_t)(end - at) : BUFFER;
		ssize_t n = pread(from, buf, want, at);

		if (n == 0)
			return 0; /* it has become shorter */
		for (ssize_t done = 0; n > 0 && done < n;) {
			ssize_t w = pwrite(to, buf + done, (size_t)(n - done), at + done);

			if (w < 0 && errno != EINTR)
				return -1;
			done += w > 0 ? w : 0;
		}
		if (n < 0 && errno != EINTR)
			return -1;
		at += n > 0 ? n : 0;
	}
	return 0;
}

static int
copy_part(int from, int to, off_t at, off_t end)
{
	off_t in = at, out = at;

	while (in < end) {
		const size_t want = (off_t)CHUNK < end - in ? CHUNK : (size_t)(end - in);
		ssize_t n = copy_file_range(from, &in, to, &out, want, 0);

		if (n == 0)
			return 0;
		if (n < 0 && is_unable(errno))
			return copy_slowly(from, to, in, end);
		if (n < 0 && errno != EINTR)
			return -1;
	}
	return 0;
}

/* Copies what is not a hole. */
static int
copy_data(int from, int to, off_t size, uint64_t max, uint64_t *ret)
{
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* only a hole is left */
		if (data < 0)
			data = at;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole <= data || hole > size)
			hole = size;
		if ((uint64_t)(hole - data) > max - *ret) {
			errno = EFBIG;
			return -1;
		}
		if (data < hole && copy_part(from, to, data, hole) < 0)
			return -1;
		*ret += (uint64_t)(hole - data);
		at = hole;
	}
	return ftruncate(to, size);
}

static int
open_regular(int dir, const char *name, struct stat *st, struct clone_copied *ret)
{
	cleanup_close int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return take_fd(&fd);
	ret->gone = fd >= 0 || errno == ENOENT || errno == ELOOP || errno == EACCES ||
	    errno == EPERM || errno == ENXIO;
	return -1;
}

int
clone_copy(int from, const char *name, int to, const char *as, uint64_t max,
    struct clone_copied *ret)
{
	struct stat st;
	cleanup_close int in = -1, out = -1;
	int r = 0;

	*ret = (struct clone_copied){ 0 };
	in = open_regular(from, name, &st, ret);
	if (in < 0)
		return ret->gone ? 0 : -1;
	out = openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -1;
	if (st.st_size > 0 && ioctl(out, FICLONE, in) < 0)
		r = is_unable(errno) ? copy_data(in, out, st.st_size, max, &ret->written) : -1;
	if (r == 0)
		r = fchmod(out, st.st_mode & KEPT_MODE);
	if (r == 0)
		r = futimens(out, (const struct timespec[]){ st.st_atim, st.st_mtim });
	return r;
}

int
clone_copy_link(int from, const char *name, int to, const char *as)
{
	char target[TARGET_SIZE];
	struct stat st;
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	target[n] = '\0';
	if (symlinkat(target, to, as) < 0)
		return -1;
	return utimensat(to, as, (const struct timespec[]){ st.st_atim, st.st_mtim },
	    AT_SYMLINK_NOFOLLOW);
}
