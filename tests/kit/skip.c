/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cmocka.h>

void
skip_because(const char *reason)
{
	/* A comment in TAP, before the line of the case. */
	printf("# skipped: %s\n", reason);
	fflush(stdout);
	skip();
	abort(); /* skip() does not return, which cmocka does not declare */
}

int
skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	return 0;
}

bool
has_inotify(void)
{
	const int fd = inotify_init1(IN_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}
