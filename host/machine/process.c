/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/io.h"

/* Returns a numeric field of /proc/PID/stat, counted as in proc(5); 0 if the process is gone. */
static uint64_t
read_stat(pid_t pid, int wanted)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (io_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	/* The fields start after the process name, which may contain anything. */
	p = strrchr(text, ')');
	for (int field = 2; p != NULL && field < wanted; field++)
		p = strchr(p + 1, ' ');
	return p != NULL ? strtoull(p, NULL, 10) : 0;
}

uint64_t
process_start_time(pid_t pid)
{
	return read_stat(pid, 22);
}

pid_t
process_parent(pid_t pid)
{
	return pid > 0 ? (pid_t)read_stat(pid, 4) : 0;
}
