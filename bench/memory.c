/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/memory.h"

#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

static bool
smaps_of(int pid, double *ret_private, double *ret_pss)
{
	char path[64], line[256];
	unsigned long kib;
	FILE *f;

	*ret_private = *ret_pss = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "Pss: %lu", &kib) == 1)
			*ret_pss = (double)kib;
		if (sscanf(line, "Private_Clean: %lu", &kib) == 1 ||
		    sscanf(line, "Private_Dirty: %lu", &kib) == 1)
			*ret_private += (double)kib;
	}
	fclose(f);
	return true;
}

/* Store the resident memory of a process in KiB, without pages that it maps from files or shares,
 * in *ret. Returns false if it cannot be read. */
static bool
anonymous_of(int pid, double *ret)
{
	unsigned long size, resident, shared;
	char path[64];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	n = fscanf(f, "%lu %lu %lu", &size, &resident, &shared);
	fclose(f);
	if (n != 3)
		return false;
	*ret = (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) / 1024;
	return true;
}

void
memory_add(struct memory *m, int pid)
{
	double private = 0, pss = 0;

	if (!smaps_of(pid, &private, &pss)) {
		m->has_pss = false;
		m->has_private = anonymous_of(pid, &private) && m->has_private;
	}
	m->private += private;
	m->pss += pss;
}

struct process {
	int pid, parent;
	size_t family; /* number of the child it descends from, from 1 on; 0: none */
	char name[32];
};

static bool
read_process(const char *pid, struct process *ret)
{
	char path[300];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	n = fscanf(f, "%d (%31[^)]) %*c %d", &ret->pid, ret->name, &ret->parent);
	fclose(f);
	ret->family = 0;
	return n == 3;
}

static size_t
read_processes(struct process **ret)
{
	DIR *proc = opendir("/proc");
	struct process *list = NULL;
	struct dirent *entry;
	size_t n = 0;

	if (proc == NULL)
		err(1, "/proc");
	while ((entry = readdir(proc)) != NULL) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (n % 256 == 0 && (list = realloc(list, (n + 256) * sizeof(*list))) == NULL)
			err(1, "processes");
		if (read_process(entry->d_name, &list[n]))
			n++;
	}
	closedir(proc);
	*ret = list;
	return n;
}

static size_t
family_of(const struct process *list, size_t n, int pid)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].pid == pid)
			return list[i].family;
	return 0;
}

int
memory_child(const char *name, int other)
{
	cleanup_free struct process *list = NULL;
	size_t n = read_processes(&list);

	for (size_t i = 0; i < n; i++)
		if (list[i].parent == getpid() && list[i].pid != other &&
		    strncmp(list[i].name, name, strlen(name)) == 0)
			return list[i].pid;
	return 0;
}

size_t
memory_of_families(const char *name, struct memory *ret, size_t max)
{
	cleanup_free struct process *list = NULL;
	size_t n = read_processes(&list), families = 0;
	bool more = true;

	for (size_t i = 0; i < n; i++)
		if (list[i].parent == getpid() && strcmp(list[i].name, name) == 0)
			list[i].family = ++families;
	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			if (list[i].family != 0)
				continue;
			list[i].family = family_of(list, n, list[i].parent);
			more = more || list[i].family != 0;
		}
	}
	for (size_t i = 0; i < families && i < max; i++)
		ret[i] = (struct memory)MEMORY_EMPTY;
	for (size_t i = 0; i < n; i++)
		if (list[i].family != 0 && list[i].family <= max)
			memory_add(&ret[list[i].family - 1], list[i].pid);
	return families;
}
