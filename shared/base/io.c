/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

int
write_all(int fd, const void *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			return -1;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
	return 0;
}

int
set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

ssize_t
io_read_text(const char *path, char *ret, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n;
}

ssize_t
read_whole(int fd, uint8_t *data, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n < size && (got = read(fd, data + n, size - n)) != 0) {
		if (got < 0 && errno != EINTR)
			return -1;
		n += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)n;
}
