/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/orphan.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

static bool
has_socket(int pid, int fd, ino_t socket)
{
	char path[64], want[64], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	snprintf(want, sizeof(want), "socket:[%llu]", (unsigned long long)socket);
	n = readlink(path, link, sizeof(link));
	return n == (ssize_t)strlen(want) && memcmp(link, want, (size_t)n) == 0;
}

/* Checks the socket again once it has the pidfd: the pid may belong to another process by then. */
static bool
end_one(int pid, int fd, ino_t socket)
{
	cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	return pidfd >= 0 && has_socket(pid, fd, socket) &&
	    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

unsigned
orphan_end(ino_t socket, int fd)
{
	const int self = (int)getpid();
	DIR *d = opendir("/proc");
	const struct dirent *e;
	unsigned n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		int pid = (int)strtol(e->d_name, NULL, 10);

		if (pid > 1 && pid != self && has_socket(pid, fd, socket))
			n += end_one(pid, fd, socket);
	}
	if (d != NULL)
		closedir(d);
	return n;
}
