/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_repo.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/draft_git.h"
#include "worker/draft/draft_shape.h"
#include "worker/draft/repo.h"

/* Of a path in a sentence with two of them. */
#define PATH_SHOWN 160

/* Does git take the directory for a repository? */
static bool
is_git_dir(int dir, const char *name)
{
	const bool head = draft_shape_has(dir, "HEAD");

	return (head && access_name_of(name) == ACCESS_NAME_GIT) ||
	    access_is_git_dir(head, draft_shape_has(dir, "objects"), draft_shape_has(dir, "refs"),
		draft_shape_has(dir, "commondir"), draft_shape_has(dir, "worktrees"));
}

static void
set_refusal(struct draft_refusal *ret, const char *path, const char *why)
{
	char shown[PATH_SHOWN];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	snprintf(ret->rule, sizeof(ret->rule), "%s", access_rule_name(ACCESS_RULE_GIT_CONFIG));
	snprintf(ret->reason, sizeof(ret->reason), "refused to apply '%s': %s (rule %s)", shown,
	    why, ret->rule);
}

/* Writes why the repository is refused. */
static void
put_why(const struct draft_ahead *found, char ret[KODA_MESSAGE_MAX])
{
	char shown[PATH_SHOWN];

	if (!found->refused) {
		snprintf(ret, KODA_MESSAGE_MAX,
		    "a repository that a command made is applied whole or not at all, and there is "
		    "too much in it, or in all of them, to look at");
		return;
	}
	bytes_show(shown, sizeof(shown), found->path, strlen(found->path));
	snprintf(ret, KODA_MESSAGE_MAX,
	    "a repository that a command made is applied whole or not at all, and '%s' in it is "
	    "refused (rule %s); make it in the project yourself, with 'git init', 'git clone' or "
	    "'git worktree add'",
	    shown, found->refusal.rule);
}

int
draft_repo_judge(struct draft_walk *w, struct draft_change *c, struct koda_error *err)
{
	const struct draft_level *l = draft_walk_top(w);
	struct draft_ahead found;
	char why[KODA_MESSAGE_MAX];

	/* What is in one belongs to it. */
	if (c->is_refused || l->in_repo || w->name.fd < 0 || w->name.in_project ||
	    w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] || !is_git_dir(w->name.fd, w->name.name))
		return 0;
	if (w->look_ahead(w, &found, err) < 0)
		return -1;
	w->makes_repo = !found.refused && !found.cut;
	if (w->makes_repo)
		return 0;
	put_why(&found, why);
	c->is_refused = true;
	set_refusal(&c->refusal, w->path, why);
	return 0;
}

bool
draft_repo_has(struct draft_walk *w)
{
	const struct draft_level *l = draft_walk_top(w);
	const char *below = l->in_repo ? draft_git_below(w, NULL) : NULL;

	return below != NULL && repo_may_have(below, l->upper, w->name.name, w->name.up.st.st_mode);
}

/* ---- replacing ---- */

bool
draft_repo_replaces(struct draft_walk *w, struct draft_refusal *ret)
{
	const struct draft_level *l = draft_walk_top(w);
	cleanup_close int fd =
	    openat(l->lower, w->name.name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] || !is_git_dir(fd, w->name.name) ||
	    !draft_shape_has(fd, "HEAD"))
		return false;
	set_refusal(ret, w->path,
	    "the command removed this repository and made another one in its place; do that in the "
	    "project yourself");
	return true;
}
