/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitdir.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool
gitdir_is_ref_link(int dir_fd, const char *name)
{
	static const char refs[] = "refs/";
	char to[PATH_LEN_MAX + 1];
	ssize_t n = readlinkat(dir_fd, name, to, sizeof(to));

	if (n <= (ssize_t)sizeof(refs) - 1 || (size_t)n >= sizeof(to))
		return false;
	to[n] = '\0';
	if (strncmp(to, refs, sizeof(refs) - 1) != 0)
		return false;
	for (const char *p = to; p != NULL; p = strchr(p, '/')) {
		p += *p == '/';
		/* git makes no such component. "." and ".." could lead up, and an empty one would
		 * be a second spelling. */
		if (*p == '.' || *p == '/' || *p == '\0')
			return false;
	}
	return true;
}

bool
gitdir_is_trial_link(int dir_fd, const char *name)
{
	static const char text[] = "testing";
	char to[sizeof(text)];
	ssize_t n = readlinkat(dir_fd, name, to, sizeof(to));

	return name[0] == 't' && strlen(name) == strlen("tXXXXXX") &&
	    n == (ssize_t)sizeof(text) - 1 && memcmp(to, text, (size_t)n) == 0;
}

bool
gitdir_of_worktree(const char *dir, char ret_repository[PATH_LEN_MAX + 1])
{
	static const char worktrees[] = "/worktrees";
	const char *own = strrchr(dir, '/');
	const size_t n = own != NULL ? (size_t)(own - dir) : 0, k = sizeof(worktrees) - 1;

	if (n <= k || n > PATH_LEN_MAX || memcmp(own - k, worktrees, k) != 0)
		return false;
	snprintf(ret_repository, PATH_LEN_MAX + 1, "%.*s", (int)(n - k), dir);
	return true;
}

bool
gitdir_of_gitfile(const char *text, size_t len, size_t *ret_start, size_t *ret_len)
{
	static const char head[] = "gitdir: ";
	size_t start = sizeof(head) - 1;

	if (len < start || memcmp(text, head, start) != 0)
		return false;
	while (len > start && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len == start || memchr(text + start, '\0', len - start) != NULL)
		return false;
	*ret_start = start;
	*ret_len = len - start;
	return true;
}
