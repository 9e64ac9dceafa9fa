/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/users.h"

#include <stdio.h>

#include "shared/base/cleanup.h"

static void
fclose_at(FILE **f)
{
	if (*f != NULL)
		fclose(*f);
}

/* An entry that does not fit ends the search: it may be the one. */
bool
users_find(uid_t uid, struct passwd *ret, char *buf, size_t size)
{
	cleanup(fclose_at) FILE *f = fopen("/etc/passwd", "re");
	struct passwd *found = NULL;

	while (f != NULL && fgetpwent_r(f, ret, buf, size, &found) == 0)
		if (found->pw_uid == uid)
			return true;
	return false;
}

bool
users_find_group(gid_t gid, struct group *ret, char *buf, size_t size)
{
	cleanup(fclose_at) FILE *f = fopen("/etc/group", "re");
	struct group *found = NULL;

	while (f != NULL && fgetgrent_r(f, ret, buf, size, &found) == 0)
		if (found->gr_gid == gid)
			return true;
	return false;
}
