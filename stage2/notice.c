/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

void
notice_signals(sigset_t *set)
{
	sigaddset(set, NOTICE_SIGNAL);
	sigaddset(set, SIGIO);
}

void
notice_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur > NOTICE_PENDING_MAX) {
		limit.rlim_cur = NOTICE_PENDING_MAX;
		setrlimit(RLIMIT_SIGPENDING, &limit);
	}
}

int
notice_directory(int fd)
{
	if (fcntl(fd, F_SETSIG, NOTICE_SIGNAL) < 0)
		return -1;
	return fcntl(fd, F_NOTIFY, DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT);
}
