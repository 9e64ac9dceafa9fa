/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_shape.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "shared/base/cleanup.h"

/* The names that access_judge() asks for. */
static const char *const pieces[] = { "HEAD", "objects", "refs", "commondir", "worktrees", "config",
	"config.worktree", "hooks", "rebase-merge", "rebase-apply", "sequencer", "remotes",
	"branches" };
enum { HEAD = 1 << 0, OBJECTS = 1 << 1, REFS = 1 << 2, COMMONDIR = 1 << 3, WORKTREES = 1 << 4 };

bool
draft_shape_is_git(uint32_t shape)
{
	return access_is_git_dir((shape & HEAD) != 0, (shape & OBJECTS) != 0, (shape & REFS) != 0,
	    (shape & COMMONDIR) != 0, (shape & WORKTREES) != 0);
}

bool
draft_shape_has(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR);
}

static bool
upper_has(const struct draft_walk *w, const struct draft_level *l, const char *name)
{
	struct upper up;

	if (!draft_names_has(&l->names, name))
		return false;
	return upper_look(w->ses->res.proc_fd, l->upper, name, &up) < 0 ||
	    (up.kind != UPPER_NONE && up.kind != UPPER_DELETED);
}

void
draft_shape_learn(struct draft_walk *w, struct draft_level *l)
{
	if (l->shape.known)
		return;
	l->shape.known = true;
	for (size_t i = 0; i < N_ELEMENTS(pieces); i++) {
		if (l->in_project && draft_shape_has(l->lower, pieces[i]))
			l->shape.project |= UINT32_C(1) << i;
		if (upper_has(w, l, pieces[i]))
			l->shape.upper |= UINT32_C(1) << i;
	}
}

bool
draft_shape_is_git_dir(struct draft_walk *w, struct draft_level *l)
{
	draft_shape_learn(w, l);
	return draft_shape_is_git(l->shape.project | l->shape.upper);
}

uint32_t
draft_shape_bit(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(pieces); i++)
		if (strcmp(pieces[i], name) == 0)
			return UINT32_C(1) << i;
	return 0;
}
