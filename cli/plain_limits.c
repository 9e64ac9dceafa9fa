/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plain_limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPU_GRACE_SECS 5 /* from SIGXCPU to SIGKILL, as in the sandbox */

/* Counts this user's processes and threads: RLIMIT_NPROC is for all of them on the machine. */
static rlim_t
count_own_tasks(void)
{
	DIR *dir = opendir("/proc");
	const struct dirent *d;
	rlim_t n = 0;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		char path[300];
		struct stat st;

		if (d->d_name[0] < '1' || d->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task", d->d_name);
		/* A directory has two links more than it has subdirectories. */
		if (stat(path, &st) == 0 && st.st_uid == getuid() && st.st_nlink > 2)
			n += st.st_nlink - 2;
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static void
add(struct plain_limits *l, int resource, rlim_t soft, rlim_t grace)
{
	l->v[l->n].resource = resource;
	l->v[l->n++].value =
	    (struct rlimit){ soft, soft > RLIM_INFINITY - grace ? RLIM_INFINITY : soft + grace };
}

/* Memory is missing: the mode's limit is for all processes together, which is not measured here. */
static int
on_value(void *data, const char *section, const char *field, const char *value)
{
	struct plain_limits *l = data;
	unsigned long long number;

	if (strcmp(section, "limits") != 0 || value == NULL)
		return 0;
	number = strtoull(value, NULL, 10);
	if (strcmp(field, "wall_time_secs") == 0)
		l->wall_ms = number < UINT_MAX / 1000 ? (unsigned)number * 1000 : UINT_MAX;
	else if (strcmp(field, "cpu_time_secs") == 0)
		add(l, RLIMIT_CPU, number, CPU_GRACE_SECS);
	else if (strcmp(field, "max_open_fds") == 0)
		add(l, RLIMIT_NOFILE, number, 0);
	else if (strcmp(field, "max_processes") == 0)
		add(l, RLIMIT_NPROC, number + count_own_tasks(), 0);
	else if (strcmp(field, "max_file_bytes") == 0)
		add(l, RLIMIT_FSIZE, number, 0);
	return 0;
}

int
plain_limits_get(enum koda_mode mode, const char *root, struct plain_limits *ret,
    struct koda_error *err)
{
	struct koda_policy *policy = koda_policy_for_agent(mode, root, err);

	if (policy == NULL)
		return -1;
	*ret = (struct plain_limits){ 0 };
	add(ret, RLIMIT_CORE, 0, 0);
	koda_policy_visit(policy, on_value, ret);
	koda_policy_free(policy);
	return 0;
}

int
plain_limits_apply(const struct plain_limits *limits)
{
	for (size_t i = 0; i < limits->n; i++) {
		struct rlimit now, value = limits->v[i].value;

		/* A lower limit stays. */
		if (getrlimit(limits->v[i].resource, &now) < 0)
			return -1;
		if (now.rlim_max < value.rlim_max)
			value.rlim_max = now.rlim_max;
		if (value.rlim_max < value.rlim_cur)
			value.rlim_cur = value.rlim_max;
		if (setrlimit(limits->v[i].resource, &value) < 0)
			return -1;
	}
	return 0;
}
