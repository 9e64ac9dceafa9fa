/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/leaks.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t
count_named(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	const struct dirent *e;
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return n;
}

size_t
count_entries(const char *path)
{
	return count_named(path, "");
}

size_t
count_descriptors(void)
{
	return count_entries("/proc/self/fd");
}

size_t
count_certificates(void)
{
	const char *tmp = getenv("TMPDIR");

	return count_named(tmp != NULL ? tmp : "/tmp", "koda-certificates-");
}
