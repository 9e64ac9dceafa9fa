/* SPDX-License-Identifier: Apache-2.0 */
/* shared/base/beneath.c: opening without links: with openat2, and one component after the other. */
#include <errno.h>
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

#include <cmocka.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"

static char base[PATH_MAX - 64];
static int top = -1;

/* In the base: the file a/b/file, the links a/link -> b and a/b/self -> file. */
static const struct {
	const char *path;
	int flags;
	int errnum;  /* of open_walked(); 0: opened */
	int beneath; /* of open_beneath() */
} cases[] = {
	{ "a", O_PATH | O_DIRECTORY, 0, 0 },
	{ "a/b", O_PATH | O_DIRECTORY, 0, 0 },
	{ "a/b", O_RDONLY | O_DIRECTORY, 0, 0 },
	{ "a/b/file", O_RDONLY, 0, 0 },
	{ "a//b/file", O_RDONLY, 0, 0 },
	{ "a/b/file", O_RDONLY | O_DIRECTORY, ENOTDIR, ENOTDIR },
	{ "a/b/file/x", O_RDONLY, ENOTDIR, ENOTDIR },
	{ "a/none", O_RDONLY, ENOENT, ENOENT },
	{ "none/b", O_RDONLY, ENOENT, ENOENT },
	{ "a/link/file", O_RDONLY, ENOTDIR, ELOOP },
	{ "a/b/self", O_RDONLY, ELOOP, ELOOP },
	/* What only open_beneath() takes. */
	{ "a/b/../b", O_PATH, EINVAL, 0 },
	{ "./a", O_PATH, EINVAL, 0 },
	{ "..", O_PATH, EINVAL, EXDEV },
	{ "a/..", O_PATH, EINVAL, 0 },
	{ "", O_PATH, EINVAL, ENOENT },
	{ "a/", O_PATH, EINVAL, 0 },
};

static int
outcome(int fd)
{
	int errnum = fd < 0 ? errno : 0;

	close_at(&fd);
	return errnum;
}

static void
check_cases(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		int walked = outcome(open_walked(top, cases[i].path, cases[i].flags));
		int beneath = outcome(open_beneath(top, cases[i].path, cases[i].flags));

		if (walked != cases[i].errnum)
			fail_msg("'%s' walked: %s", cases[i].path, strerror(walked));
		/* The tests also run where openat2 is refused. */
		if (beneath != cases[i].beneath && beneath != ENOSYS && beneath != EPERM)
			fail_msg("'%s' beneath: %s", cases[i].path, strerror(beneath));
	}
}

static void
names_of_any_length(void **state)
{
	char name[NAME_MAX + 8];

	memset(name, 'x', sizeof(name));
	name[NAME_MAX] = '\0';
	assert_int_equal(outcome(open_walked(top, name, O_PATH)), ENOENT);
	name[NAME_MAX] = 'x';
	name[NAME_MAX + 1] = '\0';
	assert_int_equal(outcome(open_walked(top, name, O_PATH)), ENAMETOOLONG);
}

/* It is this very file, close-on-exec, and dir is still open. */
static void
what_is_opened(void **state)
{
	cleanup_close int fd = open_walked(top, "a/b/file", O_RDONLY);
	struct stat st, want;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st) | fstatat(top, "a/b/file", &want, 0), 0);
	assert_int_equal(st.st_ino, want.st_ino);
	assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	snprintf(base, sizeof(base), "%s/beneath.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	if (mkdtemp(base) == NULL || (top = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(top, "a", 0700) < 0 || mkdirat(top, "a/b", 0700) < 0 ||
	    symlinkat("b", top, "a/link") < 0 || symlinkat("file", top, "a/b/self") < 0 ||
	    (fd = openat(top, "a/b/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return -1;
	return close(fd);
}

static int
tear_down(void **state)
{
	unlinkat(top, "a/b/file", 0);
	unlinkat(top, "a/b/self", 0);
	unlinkat(top, "a/link", 0);
	unlinkat(top, "a/b", AT_REMOVEDIR);
	unlinkat(top, "a", AT_REMOVEDIR);
	close(top);
	return rmdir(base);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_cases),
		cmocka_unit_test(names_of_any_length),
		cmocka_unit_test(what_is_opened),
	};

	return cmocka_run_group_tests_name("beneath", tests, set_up, tear_down);
}
