#include "host/slot/open_exact.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/cleanup.h"

/* One component after the other, because openat2 is not available everywhere. */
int
open_exact(const char *path, int flags)
{
	cleanup_close int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	while (at >= 0) {
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
		next = openat(at, name,
		    (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		if (last || next < 0)
			return next;
		close(at);
		at = next;
		path += len;
	}
	return -1;
}
