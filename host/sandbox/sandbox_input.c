/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_input.h"

#include <errno.h>
#include <stdlib.h>

#include "host/sandbox/worktree.h"

struct view_input
sandbox_view_input(const struct sandbox *sb)
{
	const struct koda_session *ses = sb->ses;

	return (struct view_input){ .policy = koda_policy_get(sb->policy),
		.mode = ses->mode,
		.root = ses->root,
		.home = ses->home,
		.state = ses->state,
		.caches = sb->cache,
		.n_caches = sb->caches.n,
		.spare = sb->caches.n_missing > 0,
		.draft = sb->drafted,
		.also = (const char *const *)&sb->git_dir,
		.n_also = sb->git_dir != NULL };
}

int
sandbox_plan(struct sandbox *sb, struct koda_error *err)
{
	const struct view_input in = sandbox_view_input(sb);

	view_done(&sb->view);
	return view_plan(&in, &sb->view, err);
}

int
sandbox_find_caches(struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->ses;
	const struct policy *p = koda_policy_get(sb->policy);
	static const struct policy_list nothing;
	const struct policy_list *writable =
	    p->flag[KODA_SHARE_CACHES] ? &nothing : &p->list[KODA_ALLOW_WRITE];
	char *git;

	if (caches_find(ses->home, writable, &sb->caches, err) < 0)
		return -1;
	sb->cache = calloc(sb->caches.n + 1, sizeof(*sb->cache));
	if (sb->cache == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	for (size_t i = 0; i < sb->caches.n; i++)
		sb->cache[i] = sb->caches.v[i].path;
	sb->root_is_git_dir = worktree_is_git_dir(ses->root);
	git = ses->narrowed ? NULL : worktree_git_dir(ses->root);
	/* A git directory in the project itself is writable anyway. */
	if (git == NULL || path_is_inside(git, ses->root))
		free(git);
	else
		sb->git_dir = git;
	return 0;
}

const char *
sandbox_beside(const struct sandbox *sb, size_t i)
{
	if (sb->git_dir != NULL && i-- == 0)
		return sb->git_dir;
	return koda_policy_get(sb->policy)->flag[KODA_SHARE_CACHES] && i < sb->caches.n
	    ? sb->cache[i]
	    : NULL;
}
