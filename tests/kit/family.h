/* SPDX-License-Identifier: Apache-2.0 */
/* The descendants of a process as the kernel reports them: by name, and until they are gone. */
#ifndef KODA_TESTS_KIT_FAMILY_H
#define KODA_TESTS_KIT_FAMILY_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define FAMILY_MAX 4096

struct family_member {
	pid_t pid, parent;
	char state, name[32];
};

static inline bool
family_read(pid_t pid, struct family_member *ret)
{
	char path[64], line[512], *open, *close;
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	ok = fgets(line, sizeof(line), f) != NULL;
	fclose(f);
	open = ok ? strchr(line, '(') : NULL;
	close = ok ? strrchr(line, ')') : NULL;
	if (open == NULL || close == NULL)
		return false;
	ret->pid = pid;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(close - open - 1), open + 1);
	return sscanf(close + 1, " %c %d", &ret->state, &ret->parent) == 2;
}

/* Counts all live descendants. */
static inline size_t
family_list(struct family_member all[FAMILY_MAX])
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (dir != NULL && n < FAMILY_MAX && (e = readdir(dir)) != NULL) {
		pid_t one = (pid_t)strtol(e->d_name, NULL, 10);

		n += one > 0 && family_read(one, &all[n]);
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

/* Counts the live descendants of pid, at any depth, with that name (the kernel cuts it after 15
 * bytes), or, if name is NULL, the direct children. Returns the count; *ret_one is one of them. */
static inline size_t
family_count(pid_t pid, const char *name, pid_t *ret_one)
{
	static struct family_member all[FAMILY_MAX];
	static bool below[FAMILY_MAX];
	size_t n = family_list(all), found = 0;
	bool more = true;

	memset(below, 0, sizeof(below));
	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			bool is = all[i].parent == pid;

			for (size_t k = 0; name != NULL && k < n && !is; k++)
				is = below[k] && all[k].pid == all[i].parent;
			more = more || (is && !below[i]);
			below[i] = below[i] || is;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!below[i] || all[i].state == 'Z' ||
		    (name != NULL && strcmp(all[i].name, name) != 0))
			continue;
		found++;
		if (ret_one != NULL)
			*ret_one = all[i].pid;
	}
	return found;
}

/* Counts the direct children, whatever their name. */
static inline size_t
family_children(pid_t pid, pid_t *ret_one)
{
	return family_count(pid, NULL, ret_one);
}

#endif
