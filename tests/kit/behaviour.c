/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/behaviour.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

char behaviour[64];

bool
is(const char *what)
{
	return strcmp(behaviour, what) == 0;
}

void
read_behaviour(void)
{
	char path[PATH_MAX + 16];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	cleanup_close int fd = -1;

	if (n <= 0)
		_exit(3);
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, "behaviour");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, behaviour, sizeof(behaviour) - 1);
	if (n < 0)
		_exit(3);
	behaviour[n] = '\0';
}
