/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/mapped_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "host/machine/open_exact.h"
#include "shared/base/cleanup.h"

int
mapped_socket_connect(const char *path)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* A command that may write to the path must not choose which of the host's sockets it
	 * is. */
	cleanup_close int place = open_exact(path, O_PATH);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct stat st;

	if (fd < 0 || place < 0 || fstat(place, &st) < 0)
		return -1;
	if (!S_ISSOCK(st.st_mode)) {
		errno = ENOTSOCK;
		return -1;
	}
	/* The path may also be too long for a socket address. */
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d", place);
	/* A Unix socket is connected at once, or (EAGAIN) its queue is full. */
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
		return -1;
	return take_fd(&fd);
}
