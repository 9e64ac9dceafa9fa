/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/beneath.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/cleanup.h"

int
open_walked(int dir, const char *path, int flags)
{
	cleanup_close int at = -1; /* the last directory on the way, unless that is dir */
	char name[NAME_MAX + 1];

	for (;;) {
		size_t len;
		bool last;
		int next;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		last = path[len] == '\0';
		if (len == 0 || len >= sizeof(name) ||
		    (path[0] == '.' && len <= 2 && path[len - 1] == '.')) {
			errno = len >= sizeof(name) ? ENAMETOOLONG : EINVAL;
			return -1;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		next = openat(at >= 0 ? at : dir, name,
		    (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		if (last || next < 0)
			return next;
		close_at(&at);
		at = next;
		path += len;
	}
}
