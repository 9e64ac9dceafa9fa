#include "host/machine/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* Returns a numeric field of /proc/PID/stat, counted as in proc(5); 0 if the process is gone. */
static uint64_t
read_stat(pid_t pid, int wanted)
{
	char path[64], text[1024], *p;
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The fields start after the process name, which may contain anything. */
	p = strrchr(text, ')');
	for (int field = 2; p != NULL && field < wanted; field++)
		p = strchr(p + 1, ' ');
	return p != NULL ? strtoull(p, NULL, 10) : 0;
}

uint64_t
process_start(pid_t pid)
{
	return read_stat(pid, 22);
}

pid_t
process_parent(pid_t pid)
{
	return pid > 0 ? (pid_t)read_stat(pid, 4) : 0;
}
