/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/gitlock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define STEP_MS 10

bool
gitlock_is_name(const char *name)
{
	static const char end[] = ".lock";
	const size_t len = strlen(name), k = sizeof(end) - 1;

	return len >= k && strcasecmp(name + len - k, end) == 0;
}

/* What cannot be examined may be there. */
static bool
exists(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

bool
gitlock_is_held(const struct resolver *res, int dir, const char *name, const char *path,
    char ret[GITLOCK_NAME_SIZE])
{
	static const char *const whole[] = { "index.lock", "HEAD.lock", "packed-refs.lock" };
	const char *at = strstr(path, "/.git/");
	cleanup_close int git = -1;

	snprintf(ret, GITLOCK_NAME_SIZE, "%s.lock", name);
	if (dir >= 0 && exists(dir, ret))
		return true;
	if (at == NULL)
		return false;
	git = resolve_canonical_dir(res, path, (size_t)(at - path) + strlen("/.git"));
	for (size_t i = 0; git >= 0 && i < N_ELEMENTS(whole); i++) {
		snprintf(ret, GITLOCK_NAME_SIZE, "%s", whole[i]);
		if (exists(git, ret))
			return true;
	}
	return false;
}

bool
gitlock_stays(const struct resolver *res, int dir, const char *name, const char *path, int *left_ms,
    char ret[GITLOCK_NAME_SIZE])
{
	while (gitlock_is_held(res, dir, name, path, ret)) {
		if (*left_ms <= 0)
			return true;
		poll(NULL, 0, STEP_MS);
		*left_ms -= STEP_MS;
	}
	return false;
}
