/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/git_part.h"

#include <stdbool.h>
#include <string.h>

#include "shared/base/cleanup.h"

const char git_part_together[] =
    "index, refs and HEAD of this repository are applied together or not at all, and not all of "
    "them can be now; objects do no harm and are there, so 'git merge' can take the draft's commits";

const char git_part_taken_back[] =
    "index, refs and HEAD of this repository are taken back together or not at all, and not all of "
    "them can be: git has changed some of them since; 'git reset' or 'git revert' does it";

static bool
is_named(const char *name, size_t len, const char *is)
{
	return strlen(is) == len && memcmp(name, is, len) == 0;
}

/* A file beside HEAD with one of git's names for a ref, or with a list of them. */
static bool
is_state(const char *name)
{
	static const char *const files[] = { "HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD",
		"CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "MERGE_MODE",
		"packed-refs", "index", "shallow" };

	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		if (strcmp(name, files[i]) == 0)
			return true;
	return strncmp(name, "sharedindex.", strlen("sharedindex.")) == 0;
}

enum git_part
git_part_of(const char *path, size_t *ret_len)
{
	static const char dir[] = "/.git/", lock[] = ".lock";
	const size_t size = strlen(path), end = sizeof(lock) - 1;
	const char *at = strstr(path, dir);

	if (at == NULL)
		return GIT_PART_NONE;
	at += strlen(dir);
	*ret_len = (size_t)(at - path) - 1;
	/* A lock that a git in the draft left is never applied, and needs nothing. */
	if (size > end && strcmp(path + size - end, lock) == 0)
		return GIT_PART_OTHER;
	for (size_t len;; at += len + 1) {
		len = strcspn(at, "/");
		*ret_len = (size_t)(at - path) - 1;
		if (is_named(at, len, "objects"))
			return at[len] == '/' ? GIT_PART_OBJECT : GIT_PART_OTHER;
		if (is_named(at, len, "refs") || is_named(at, len, "logs"))
			return at[len] == '/' ? GIT_PART_STATE : GIT_PART_OTHER;
		if (at[len] == '\0')
			return is_state(at) ? GIT_PART_STATE : GIT_PART_OTHER;
	}
}

size_t
git_part_outermost(const char *path)
{
	const char *at = strstr(path, "/.git/");

	return at == NULL ? 0 : (size_t)(at - path) + strlen("/.git");
}
