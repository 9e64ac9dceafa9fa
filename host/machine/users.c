/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/users.h"

#include <stddef.h>

bool
users_find(uid_t uid, struct passwd *ret, char *buf, size_t size)
{
	struct passwd *found = NULL;

	return getpwuid_r(uid, ret, buf, size, &found) == 0 && found != NULL;
}

bool
users_find_group(gid_t gid, struct group *ret, char *buf, size_t size)
{
	struct group *found = NULL;

	return getgrgid_r(gid, ret, buf, size, &found) == 0 && found != NULL;
}
