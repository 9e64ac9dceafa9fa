/* SPDX-License-Identifier: Apache-2.0 */
/* host/machine/machine.c: how much memory the machine has, and a cgroup leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/machine/machine.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *label;
	const char *at_root, *at_a, *at_b; /* content of memory.max; NULL: there is none */
	const char *group;
	uint64_t limit;
} rows[] = {
	{ "none anywhere", NULL, NULL, NULL, "/a/b", UINT64_MAX },
	{ "not limited", NULL, "max\n", "max\n", "/a/b", UINT64_MAX },
	{ "its own", NULL, "max\n", "1048576\n", "/a/b", 1048576 },
	{ "its parent's", NULL, "1000\n", "max\n", "/a/b", 1000 },
	{ "the smaller one, above", NULL, "1000\n", "2000\n", "/a/b", 1000 },
	{ "the smaller one, below", NULL, "3000\n", "2000\n", "/a/b", 2000 },
	{ "a container's root", "5000\n", NULL, NULL, "/", 5000 },
	{ "a name that is not known here", "5000\n", NULL, NULL, "/docker/x", 5000 },
	{ "not one that is beside it", NULL, "1000\n", NULL, "/c", UINT64_MAX },
	{ "nonsense", NULL, "-5\n", "", "/a/b", UINT64_MAX },
};

static void
put(const char *dir, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	unlink(path);
	if (text == NULL)
		return;
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void
groups(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char root[256], a[300], b[320];

	snprintf(root, sizeof(root), "%s/machine.XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(root));
	snprintf(a, sizeof(a), "%s/a", root);
	snprintf(b, sizeof(b), "%s/b", a);
	assert_int_equal(mkdir(a, 0700) | mkdir(b, 0700), 0);
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		uint64_t limit;

		put(root, rows[i].at_root);
		put(a, rows[i].at_a);
		put(b, rows[i].at_b);
		limit = machine_group_limit(root, rows[i].group, "memory.max");
		if (limit != rows[i].limit)
			fail_msg("%s: %llu", rows[i].label, (unsigned long long)limit);
	}
	put(root, NULL);
	put(a, NULL);
	put(b, NULL);
	assert_int_equal(rmdir(b) | rmdir(a) | rmdir(root), 0);
}

/* The first call in this program: later ones read nothing. */
static void
leaves_strtok_alone(void **state)
{
	char words[] = "one two";

	assert_string_equal(strtok(words, " "), "one");
	assert_true(machine_memory() > 0);
	assert_string_equal(strtok(NULL, " "), "two");
}

static void
at_most_what_is_there(void **state)
{
	struct sysinfo info;

	assert_int_equal(sysinfo(&info), 0);
	assert_true(machine_memory() > 0);
	assert_true(machine_memory() <= (uint64_t)info.totalram * info.mem_unit);
	assert_true(machine_memory_default() < machine_memory());
}

int
main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(leaves_strtok_alone),
		cmocka_unit_test(groups),
		cmocka_unit_test(at_most_what_is_there),
	};

	return cmocka_run_group_tests_name("machine", all, NULL, NULL);
}
