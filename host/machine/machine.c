/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/machine.h"

#include <ctype.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"

#define GROUPS_SIZE 4096 /* for /proc/self/cgroup: a line for each hierarchy, a dozen at most */

uint64_t
machine_group_limit(const char *root, const char *group, const char *name)
{
	char dir[PATH_MAX], path[PATH_MAX], text[64];
	uint64_t least = UINT64_MAX;
	size_t len = strlen(root);

	if ((size_t)snprintf(dir, sizeof(dir), "%s%s", root, group) >= sizeof(dir))
		return least;
	for (;;) {
		char *slash;

		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) < sizeof(path) &&
		    io_read_text(path, text, sizeof(text)) > 0 && isdigit((unsigned char)text[0])) {
			uint64_t limit = strtoull(text, NULL, 10);

			if (limit < least)
				least = limit;
		}
		slash = strlen(dir) > len ? strrchr(dir + len, '/') : NULL;
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* Return the group in that hierarchy, from "N:memory:/a/b" or "0::/a/b". In a container, the path
 * inside the container often differs from this one; then the limit is in the root of the mounted
 * hierarchy. Modifies text. */
static const char *
find_group(char *text, const char *controller)
{
	char *rest;

	/* Not strtok(): its state is the whole process's, which is the embedder's. */
	for (char *line = strtok_r(text, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;

		if (group == NULL)
			continue;
		*group++ = '\0';
		if (strcmp(names + 1, controller) == 0 && group[0] == '/')
			return group;
	}
	return "/";
}

static uint64_t
find_memory(void)
{
	static const struct {
		const char *controller, *root, *name;
	} groups[] = {
		{ "", "/sys/fs/cgroup", "memory.max" },
		{ "", "/sys/fs/cgroup/unified", "memory.max" },
		{ "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
	};
	struct sysinfo info = { 0 };
	uint64_t least;

	/* sysinfo() has no known reason to fail; if it does, there is no limit. */
	least = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
	for (size_t i = 0; i < N_ELEMENTS(groups); i++) {
		char text[GROUPS_SIZE];
		uint64_t limit;

		io_read_text("/proc/self/cgroup", text, sizeof(text));
		limit = machine_group_limit(groups[i].root, find_group(text, groups[i].controller),
		    groups[i].name);
		if (limit < least)
			least = limit;
	}
	return least;
}

/* Computed once, because it reads a dozen files and each command asks for it. */
uint64_t
machine_memory(void)
{
	static _Atomic uint64_t found;
	uint64_t memory = atomic_load(&found);

	if (memory == 0) {
		memory = find_memory();
		atomic_store(&found, memory);
	}
	return memory;
}

uint64_t
machine_memory_default(void)
{
	return machine_memory() / 4 * 3;
}
