/* SPDX-License-Identifier: Apache-2.0 */
/* host/machine/helpers.c: where a helper is found, and which file is refused. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
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
	refused(dir, "everybodys", KODA_UNSUPPORTED, "chmod go-w");
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

#define ME       1000
#define OVERFLOW 65534

static const struct {
	const char *label;
	uid_t owner;
	mode_t mode;
	struct helpers_who who;
	enum helpers_flaw want;
} judged[] = {
	{ "root's", 0, 0755, { ME, 0, false, OVERFLOW, false }, HELPERS_TRUSTED },
	{ "the user's own", ME, 0755, { ME, 0, false, OVERFLOW, false }, HELPERS_TRUSTED },
	{ "another user's", 1001, 0755, { ME, 0, false, OVERFLOW, false }, HELPERS_OTHERS_OWN },
	{ "another user's, for root", ME, 0755, { 0, 0, false, OVERFLOW, false },
	    HELPERS_OTHERS_OWN },
	{ "another user's, who owns this code too", ME, 0755, { 0, ME, false, OVERFLOW, false },
	    HELPERS_TRUSTED },
	{ "another user's with a group of its own", 1001, 0775, { ME, 0, false, OVERFLOW, true },
	    HELPERS_OTHERS_OWN },
	{ "the overflow user's", OVERFLOW, 0755, { ME, 0, false, OVERFLOW, false },
	    HELPERS_OTHERS_OWN },
	{ "root's where there is no root", OVERFLOW, 0755, { ME, 0, true, OVERFLOW, false },
	    HELPERS_TRUSTED },
	{ "another user's where there is no root", 1001, 0755, { ME, 0, true, OVERFLOW, false },
	    HELPERS_OTHERS_OWN },
	{ "everybody writes", ME, 0757, { ME, 0, false, OVERFLOW, true }, HELPERS_OTHERS_WRITE },
	{ "everybody writes root's", 0, 0757, { ME, 0, false, OVERFLOW, true },
	    HELPERS_OTHERS_WRITE },
	{ "a group writes", ME, 0775, { ME, 0, false, OVERFLOW, false }, HELPERS_GROUP_WRITES },
	{ "a group writes root's", 0, 0775, { ME, 0, false, OVERFLOW, false },
	    HELPERS_GROUP_WRITES },
	{ "a group writes where there is no root", OVERFLOW, 0775, { ME, 0, true, OVERFLOW, false },
	    HELPERS_GROUP_WRITES },
	{ "the user's own group writes", ME, 0775, { ME, 0, false, OVERFLOW, true },
	    HELPERS_TRUSTED },
};

static void
who_could_write_it(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(judged); i++) {
		const struct stat st = { .st_uid = judged[i].owner,
			.st_mode = S_IFREG | judged[i].mode };
		enum helpers_flaw got = helpers_judge(&st, &judged[i].who);

		if (got != judged[i].want)
			fail_msg("%s: %d", judged[i].label, (int)got);
	}
}

/* As umask 002 leaves it in a build tree: fine if the group is that of this user alone. */
static void
what_a_group_can_write(void **state)
{
	const struct passwd *user = getpwuid(geteuid());
	char name[64] = "", found[PATH_LEN_MAX + 1];
	const struct group *group;
	struct koda_error err;
	bool alone;

	if (user != NULL)
		snprintf(name, sizeof(name), "%s", user->pw_name);
	group = user != NULL && user->pw_gid == getegid() ? getgrgid(getegid()) : NULL;
	alone = group != NULL && strcmp(group->gr_name, name) == 0 &&
	    (group->gr_mem[0] == NULL ||
		(strcmp(group->gr_mem[0], name) == 0 && group->gr_mem[1] == NULL));
	put("groups", 0775);
	if (alone) {
		assert_int_equal(helpers_find(dir, "groups", found, &err), 0);
		return;
	}
	refused(dir, "groups", KODA_UNSUPPORTED, "chmod g-w");
	put("groups", 0755);
	assert_int_equal(helpers_find(dir, "groups", found, &err), 0);
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
		"groups", "dangling", "koda-no-such-helper" };

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
		cmocka_unit_test(who_could_write_it),
		cmocka_unit_test(what_a_group_can_write),
		cmocka_unit_test(beside_this_program),
	};

	return cmocka_run_group_tests_name("helpers", tests, set_up, tear_down);
}
