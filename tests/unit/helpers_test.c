/* Where a helper is found, and which file is refused. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/machine/helpers.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static char dir[PATH_MAX - 256];

static const char *
in(const char *name)
{
	static char path[2][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 2];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}

static void
put(const char *name, mode_t mode)
{
	int fd = open(in(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void
refused(const char *where, const char *name, enum koda_code code, const char *says)
{
	char found[PATH_LEN_MAX + 1] = "untouched";
	struct koda_error err;

	assert_int_equal(helpers_find(where, name, found, &err), -1);
	assert_int_equal(err.code, code);
	if (strstr(err.message, says) == NULL)
		fail_msg("'%s' says nothing of '%s'", err.message, says);
	assert_string_equal(found, "untouched");
}

static void
where_it_is_told(void **state)
{
	char found[PATH_LEN_MAX + 1];
	struct koda_error err;

	put("helper", 0755);
	assert_int_equal(helpers_find(dir, "helper", found, &err), 0);
	assert_string_equal(found, in("helper"));
	/* A link is resolved to its target, once. */
	assert_int_equal(symlink("helper", in("link")), 0);
	assert_int_equal(helpers_find(dir, "link", found, &err), 0);
	assert_string_equal(found, in("helper"));
}

static void
what_is_refused(void **state)
{
	char deep[PATH_LEN_MAX + 2];

	put("not-executable", 0644);
	put("everybodys", 0757);
	assert_int_equal(mkdir(in("directory"), 0755), 0);
	assert_int_equal(symlink("nowhere", in("dangling")), 0);
	refused(dir, "not-executable", KODA_UNSUPPORTED, "not a program");
	refused(dir, "everybodys", KODA_UNSUPPORTED, "everybody");
	refused(dir, "directory", KODA_UNSUPPORTED, "not a program");
	refused(dir, "dangling", KODA_UNSUPPORTED, "dangling");
	refused(dir, "absent", KODA_UNSUPPORTED, "absent");
	refused("relative", "helper", KODA_INVALID, "absolute");
	refused("", "helper", KODA_INVALID, "absolute");
	memset(deep, 'x', sizeof(deep) - 1);
	deep[0] = '/';
	deep[sizeof(deep) - 1] = '\0';
	refused(deep, "helper", KODA_INVALID, "helper_dir");
}

/* This program is not an installed one: it finds nothing, and says what to do. The environment
 * has no influence. */
static void
beside_this_program(void **state)
{
	assert_int_equal(setenv("PATH", dir, 1), 0);
	assert_int_equal(chdir(dir), 0);
	put("koda-no-such-helper", 0755);
	refused(NULL, "koda-no-such-helper", KODA_UNSUPPORTED, "make install");
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char template[PATH_MAX - 300];
	cleanup_free char *real = NULL;

	snprintf(template, sizeof(template), "%s/helpers.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	if (mkdtemp(template) == NULL || (real = realpath(template, NULL)) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s", real);
	return 0;
}

static int
tear_down(void **state)
{
	static const char *const names[] = { "helper", "link", "not-executable", "everybodys",
		"dangling", "koda-no-such-helper" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		unlink(in(names[i]));
	rmdir(in("directory"));
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_it_is_told),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(beside_this_program),
	};

	return cmocka_run_group_tests_name("helpers", tests, set_up, tear_down);
}
