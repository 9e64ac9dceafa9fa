/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/followed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"

static bool
is_shared_index(const char *name)
{
	return strncasecmp(name, "sharedindex.", strlen("sharedindex.")) == 0;
}

/* Returns true if git by itself writes a ref of that name into a git directory. Case is ignored,
 * because some file systems ignore it. Files with messages do not count: a user's message can begin
 * with "ref:". */
static bool
is_head_like(const char *name)
{
	const size_t n = strlen(name);

	if (n == 0 || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") != n)
		return false;
	return strcasecmp(name, "EDIT_DESCRIPTION") != 0 &&
	    (n < 3 || strcasecmp(name + n - 3, "MSG") != 0);
}

int
followed_what(const char *name, bool refs)
{
	if (refs)
		return WHAT_REF;
	if (strcasecmp(name, "index") == 0 || is_shared_index(name))
		return WHAT_INDEX;
	if (gitstate_list_of(name) != NULL || strcasecmp(name, FOLLOWED_GITDIR) == 0)
		return WHAT_LIST;
	return is_head_like(name) ? WHAT_REF : -1;
}

void
followed_take_far(struct scan *sc, int dir_fd, const char *path, const char *name)
{
	struct plant p = { .what = WHAT_REF, .dir_fd = dir_fd, .name = name, .path = path };

	if (fstatat(dir_fd, name, &p.st, AT_SYMLINK_NOFOLLOW) == 0)
		plant_take_away(sc, &p, "this directory is too deep below refs to be checked");
}

void
followed_look(struct scan *sc, int dir_fd, char *path, size_t len, bool refs)
{
	_Alignas(struct dirent64) char buf[16 << 10];
	cleanup_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		sc->partial = true;
	while (fd >= 0 && (n = getdents64(fd, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;) {
			const struct dirent64 *e = (const struct dirent64 *)(void *)p;
			const size_t k = strlen(e->d_name);
			int what = -1;

			p += e->d_reclen;
			if (e->d_type == DT_REG || e->d_type == DT_UNKNOWN)
				what = followed_what(e->d_name, refs);
			if (what < 0 || len + 1 + k > PATH_LEN_MAX) {
				sc->partial |= what >= 0;
				continue;
			}
			path[len] = '/';
			memcpy(path + len + 1, e->d_name, k + 1);
			found(sc, (enum what)what, dir_fd, path, e->d_name);
			path[len] = '\0';
		}
	}
}

static void
found_by_name(struct scan *sc, int dir_fd, const char *git_dir, const char *name)
{
	char path[PATH_LEN_MAX + 1];
	int n;

	if (!has_name(dir_fd, name))
		return;
	n = snprintf(path, sizeof(path), "%s/%s", git_dir, name);
	if (n > 0 && (size_t)n < sizeof(path))
		found(sc, (enum what)followed_what(name, false), dir_fd, path, name);
}

void
followed_learn(struct scan *sc, int dir_fd, const char *git_dir)
{
	char repository[PATH_LEN_MAX + 1];

	found_by_name(sc, dir_fd, git_dir, FOLLOWED_MERGE_RR);
	if (gitdir_of_worktree(git_dir, repository))
		found_by_name(sc, dir_fd, git_dir, FOLLOWED_GITDIR);
}

void
followed_look_live(struct scan *sc, int dir_fd, const char *git_dir)
{
	static const char *const names[] = { "index", "HEAD", "ORIG_HEAD", "FETCH_HEAD",
		"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "BISECT_HEAD",
		"AUTO_MERGE", "MERGE_AUTOSTASH", "NOTES_MERGE_REF", "NOTES_MERGE_PARTIAL",
		FOLLOWED_MERGE_RR, "BISECT_NAMES" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		found_by_name(sc, dir_fd, git_dir, names[i]);
}
