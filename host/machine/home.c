/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/home.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/machine/users.h"

char *
home_find(void)
{
	const char *home = getenv("HOME");
	struct passwd pw;
	char buf[4096], *real;

	if (home == NULL || home[0] != '/') {
		home = NULL;
		if (users_find(getuid(), &pw, buf, sizeof(buf)) && pw.pw_dir != NULL &&
		    pw.pw_dir[0] == '/')
			home = pw.pw_dir;
	}
	/* Without a home directory, the places in it are still protected by name, at any depth. */
	real = home == NULL ? NULL : realpath(home, NULL);
	return real != NULL ? real : strdup(home == NULL ? "" : home);
}
