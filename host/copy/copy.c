/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/context/entry.h"
#include "host/copy/clone_copy.h"
#include "host/copy/repository.h"
#include "host/copy/tree.h"
#include "host/copy/worktree_copy.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "host/policy/policy_api.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define AGENT_MAX   30
#define CLONE_ROOT  "tree"    /* worker/clone/clone.h */
#define COPIES_NAME "-copies" /* beside koda's own directory, which agents cannot use */

static void
free_copy(struct koda_copy **copy)
{
	koda_copy_close(*copy);
}

void
koda_copy_close(struct koda_copy *copy)
{
	if (copy == NULL)
		return;
	copy_record_close(&copy->record);
	free(copy->root);
	free(copy->reason);
	free(copy->hint);
	free(copy);
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
}

/* ---- names ---- */

/* A part of a branch's name: git refuses "..", and a dot at the beginning. */
static char *
agent_name(const char *agent)
{
	char name[AGENT_MAX + 1];
	size_t n = 0;

	for (; agent != NULL && *agent != '\0' && n < AGENT_MAX; agent++) {
		const bool plain = strspn(agent,
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789._-") > 0;
		const bool dots = *agent == '.' && (n == 0 || name[n - 1] == '.');

		if (n > 0 || (plain && !dots && *agent != '-'))
			name[n++] = plain && !dots ? *agent : '-';
	}
	while (n > 0 && name[n - 1] == '-')
		n--;
	name[n] = '\0';
	return strdup(n > 0 ? name : "agent");
}

/* Where the copy with that id of the root will be. git names its own directory for a worktree like
 * this one's last component, so a host that was killed has left what has the id. */
static char *
tree_path(const struct koda_session *ses, const struct koda_copy_options *o, const char *id)
{
	const char *slash = strrchr(ses->root, '/');
	char *path;
	int r;

	if (o->inside)
		r = asprintf(&path, "%s/.koda/worktrees/%s", ses->root, id);
	else
		r = asprintf(&path, "%s" COPIES_NAME "/%s/%s", ses->state,
		    slash[1] != '\0' ? slash + 1 : "root", id);
	return r < 0 ? NULL : path;
}

/* After a copy was removed: the directory of the copies of projects of this name, and that of all
 * copies, if it was the last one. */
static void
remove_parents(const struct koda_copy *copy)
{
	cleanup_free char *all = NULL, *own = strdup(copy->record.tree);

	if (own == NULL || asprintf(&all, "%s" COPIES_NAME, copy->ses->state) < 0) {
		all = NULL;
		return;
	}
	if (!path_is_inside(own, all))
		return;
	*strrchr(own, '/') = '\0';
	rmdir(own);
	rmdir(all);
}

static int
find_root(struct koda_copy *copy, struct koda_error *err)
{
	const char *prefix = copy->record.prefix;

	if (asprintf(&copy->root, "%s%s%s", copy->record.tree, prefix[0] != '\0' ? "/" : "",
		prefix) >= 0)
		return 0;
	copy->root = NULL;
	return no_memory(err);
}

/* ---- opening ---- */

static int
check_session(struct koda_session *ses, struct koda_error *err)
{
	if (session_check(ses, err) < 0)
		return -1;
	if (ses->state == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "there is no place for copies: there is no home directory, and no "
		    "XDG_STATE_HOME");
	if (!ses->commands)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "a copy needs the kernel sandbox: see doctor");
	return 0;
}

static int
check_options(const struct koda_session *ses, const struct koda_copy_options *o,
    struct koda_error *err)
{
	if (o->kind != KODA_WORKSPACE_WORKTREE && o->kind != KODA_WORKSPACE_CLONE)
		return err_set(err, KODA_INVALID, 0, "a copy is a worktree or a clone");
	if (o->inside && o->kind != KODA_WORKSPACE_WORKTREE)
		return err_set(err, KODA_INVALID, 0,
		    "a project cannot have a clone of itself in it");
	if (o->id != NULL && !copy_id_valid(o->id))
		return err_set(err, KODA_INVALID, 0, "'%.40s' is not the id of a copy", o->id);
	if (ses->mode != KODA_PLAN && koda_policy_get(ses->policy)->trust != KODA_TRUST_FORBID)
		return 0;
	err_set(err, KODA_POLICY_DENIED, 0,
	    "the policy allows no changes, so there is nothing to do in a copy");
	return err_about(err, ses->root, "trust");
}

static int
open_existing(struct koda_copy *copy, const char *id, bool to_work, struct koda_error *err)
{
	const struct copy_record *r = &copy->record;

	if (copy_record_open(copy->ses->state, copy->ses->root, id, &copy->record, err) < 0 ||
	    find_root(copy, err) < 0)
		return -1;
	if (to_work && (!r->ready || r->removing))
		return err_set(err, KODA_CONFLICT, 0,
		    "copy '%s' was not finished or not removed completely, because its host was "
		    "killed: discard it",
		    id);
	if (to_work && r->draft != NULL)
		return err_set(err, KODA_CONFLICT, 0,
		    "the changes in copy '%s' are draft '%s' already: release the copy", id,
		    r->draft);
	if (to_work && access(copy->root, F_OK) < 0)
		return err_set(err, KODA_IO, errno, "open copy '%s' at '%.300s'", id, copy->root);
	return 0;
}

/* So that git and the tools of the project do not see the worktrees in it. */
static int
hide_inside(const struct koda_session *ses, struct koda_error *err)
{
	cleanup_free char *dir = NULL;
	cleanup_close int all = -1, fd = -1;

	if (asprintf(&dir, "%s/.koda/worktrees", ses->root) < 0) {
		dir = NULL;
		return no_memory(err);
	}
	if (tree_make(dir, err) < 0)
		return -1;
	all = state_open_directory(dir, err);
	if (all < 0)
		return -1;
	fd = openat(all, ".gitignore", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 ? errno != EEXIST : write(fd, "*\n", 2) != 2)
		return err_set(err, KODA_IO, errno, "write '%.300s/.gitignore'", dir);
	return 0;
}

static int
describe_any(struct koda_copy *copy, const struct koda_copy_options *o, struct koda_error *err)
{
	struct copy_record *r = &copy->record;

	copy_id_choose(r->id);
	r->kind = o->kind;
	r->root = strdup(copy->ses->root);
	r->agent = agent_name(o->agent);
	r->tree = tree_path(copy->ses, o, r->id);
	return r->root == NULL || r->agent == NULL || r->tree == NULL ? no_memory(err) : 0;
}

static int
describe(struct koda_copy *copy, const struct koda_copy_options *o, struct repository *repo,
    struct koda_error *err)
{
	struct copy_record *r = &copy->record;

	if (describe_any(copy, o, err) < 0)
		return -1;
	r->prefix = repo->prefix != NULL ? take_ptr(&repo->prefix) : strdup("");
	r->top = take_ptr(&repo->top);
	r->git = take_ptr(&repo->git);
	r->common = take_ptr(&repo->common);
	if (r->agent == NULL || asprintf(&r->branch, "koda/wt/%s-%.8s", r->agent, r->id) < 0)
		r->branch = NULL;
	if (r->prefix == NULL || r->branch == NULL)
		return no_memory(err);
	return find_root(copy, err);
}

/* A link on the way would lead out of the copy. */
static int
check_made(const struct koda_copy *copy, struct koda_error *err)
{
	cleanup_close int fd = state_open_directory(copy->root, err);

	return fd >= 0 ? 0
		       : err_wrap(err, "the root is not a directory of the project's last commit");
}

static int
make_worktree(struct koda_copy *copy, const struct koda_copy_options *o, struct koda_error *err)
{
	cleanup(repository_done) struct repository repo = { 0 };
	struct copy_record *r = &copy->record;
	const struct koda_session *ses = copy->ses;
	struct koda_error dropped = { 0 };

	if (repository_find(ses->root, &repo, err) < 0)
		return -1;
	if (ses->narrowed && !path_is_inside(repo.common, ses->root))
		return err_set(err, KODA_POLICY_DENIED, 0,
		    "the git directory '%.300s' is outside of the root, to which this session is "
		    "narrowed",
		    repo.common);
	if (describe(copy, o, &repo, err) < 0 || (o->inside && hide_inside(ses, err) < 0) ||
	    copy_record_make(ses->state, r, err) < 0)
		return -1;
	if (tree_make(r->tree, err) == 0 && worktree_add(ses, r, err) == 0 &&
	    check_made(copy, err) == 0)
		return 0;
	/* No agent has worked in it. If this fails, it is listed. */
	if (worktree_remove(ses, r, false, NULL, &dropped) == 0) {
		remove_parents(copy);
		copy_record_remove(ses->state, r, &dropped);
	}
	return -1;
}

static int
remove_clone(struct koda_copy *copy, struct koda_error *err)
{
	const struct copy_record *r = &copy->record;

	if (tree_remove(r->tree, r->id, err) < 0)
		return -1;
	remove_parents(copy);
	return 0;
}

static int
make_clone(struct koda_copy *copy, const struct koda_copy_options *o, struct koda_error *err)
{
	struct copy_record *r = &copy->record;
	struct koda_error dropped = { 0 };

	if (describe_any(copy, o, err) < 0)
		return -1;
	r->prefix = strdup(CLONE_ROOT);
	if (r->prefix == NULL)
		return no_memory(err);
	if (path_is_inside(r->tree, r->root))
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "a clone of '%.300s' would be in it: set XDG_STATE_HOME to a directory "
		    "outside of it",
		    r->root);
	if (find_root(copy, err) < 0 || copy_record_make(copy->ses->state, r, err) < 0)
		return -1;
	if (tree_make(r->tree, err) == 0 && clone_add(copy->ses, o, r, err) == 0)
		return 0;
	if (remove_clone(copy, &dropped) == 0)
		copy_record_remove(copy->ses->state, r, &dropped);
	return -1;
}

static struct koda_copy *
new_copy(struct koda_session *ses, struct koda_error *err)
{
	struct koda_copy *copy = calloc(1, sizeof(*copy));

	if (copy == NULL) {
		no_memory(err);
		return NULL;
	}
	copy->ses = ses;
	copy->record = COPY_RECORD_CLOSED;
	return copy;
}

struct koda_copy *
koda_copy_open(struct koda_session *ses, const struct koda_copy_options *o, struct koda_error *err)
{
	cleanup(free_copy) struct koda_copy *copy = NULL;
	int r;

	err_clear(err);
	if (check_session(ses, err) < 0 || check_options(ses, o, err) < 0 ||
	    (copy = new_copy(ses, err)) == NULL)
		return NULL;
	if (o->id != NULL)
		r = open_existing(copy, o->id, true, err);
	else if (o->kind == KODA_WORKSPACE_WORKTREE)
		r = make_worktree(copy, o, err);
	else
		r = make_clone(copy, o, err);
	return r < 0 ? NULL : take_ptr(&copy);
}

struct koda_copy *
koda_copy_find(struct koda_session *ses, const char *id, struct koda_error *err)
{
	cleanup(free_copy) struct koda_copy *copy = NULL;

	err_clear(err);
	if (check_session(ses, err) < 0 || (copy = new_copy(ses, err)) == NULL ||
	    open_existing(copy, id, false, err) < 0)
		return NULL;
	return take_ptr(&copy);
}

const char *
koda_copy_id(const struct koda_copy *copy)
{
	return copy->record.id;
}

const char *
koda_copy_root(const struct koda_copy *copy)
{
	return copy->root;
}

const char *
koda_copy_branch(const struct koda_copy *copy)
{
	return copy->record.branch != NULL ? copy->record.branch : "";
}

/* ---- releasing ---- */

static const char *
why_kept(const struct worktree_state *s, bool commit)
{
	if (s->doing)
		return "a merge, a rebase or another operation of git is under way in it";
	if (s->staged)
		return "changes are staged in it";
	if (s->changes > 0)
		return commit ? "not all of its files are in the commit"
			      : "it has files that are changed, untracked or ignored";
	if (s->other)
		return "it has files that git does not report: in a submodule, or in a "
		       "repository of their own";
	return "it has commits of its own";
}

/* Quote for a shell. */
static char *
quoted(const char *text)
{
	char *ret = malloc(4 * strlen(text) + 3), *to = ret;

	if (ret == NULL)
		return NULL;
	*to++ = '\'';
	for (; *text != '\0'; text++) {
		if (*text == '\'') {
			memcpy(to, "'\\''", 4);
			to += 4;
		} else {
			*to++ = *text;
		}
	}
	*to++ = '\'';
	*to = '\0';
	return ret;
}

static int
make_hint(struct koda_copy *copy, bool copy_removed, struct koda_error *err)
{
	const struct copy_record *r = &copy->record;
	cleanup_free char *top = quoted(r->top), *tree = quoted(r->tree);
	int n;

	free(copy->hint);
	copy->hint = NULL;
	if (top == NULL || tree == NULL)
		return no_memory(err);
	if (copy_removed)
		n = asprintf(&copy->hint,
		    "git -C %s diff %.12s...%s\ngit -C %s merge %s\ngit -C %s branch -D %s", top,
		    r->base, r->branch, top, r->branch, top, r->branch);
	else
		n = asprintf(&copy->hint,
		    "git -C %s status --ignored; git -C %s diff %.12s\ngit -C %s merge %s\n"
		    "git -C %s worktree remove -f -f %s; git -C %s branch -D %s",
		    tree, tree, r->base, top, r->branch, top, tree, top, r->branch);
	if (n >= 0)
		return 0;
	copy->hint = NULL;
	return no_memory(err);
}

static int
set_reason(struct koda_copy *copy, const char *reason, struct koda_error *err)
{
	free(copy->reason);
	copy->reason = strdup(reason);
	return copy->reason == NULL ? no_memory(err) : 0;
}

/* Remove the copy, and its record; *ret gets what was done. */
static int
remove_worktree(struct koda_copy *copy, bool keep_branch, const char *expected,
    struct koda_released *ret, struct koda_error *err)
{
	struct copy_record *r = &copy->record;
	int kept;

	if (copy_record_removing(r, err) < 0)
		return -1;
	kept = worktree_remove(copy->ses, r, keep_branch, expected, err);
	if (kept < 0)
		return -1;
	remove_parents(copy);
	ret->copy_removed = true;
	ret->branch_removed = !keep_branch && kept == 0;
	if (!ret->branch_removed &&
	    (set_reason(copy, why_kept(&(struct worktree_state){ 0 }, false), err) < 0 ||
		make_hint(copy, true, err) < 0))
		return -1;
	return copy_record_remove(copy->ses->state, r, err);
}

static int
release_worktree(struct koda_copy *copy, enum koda_release how, struct koda_released *ret,
    struct koda_error *err)
{
	const struct copy_record *r = &copy->record;
	struct worktree_state s = { 0 };
	bool rest;

	/* No agent has worked in an unfinished one. */
	if (how == KODA_RELEASE_DISCARD || !r->ready)
		return remove_worktree(copy, false, NULL, ret, err);
	if (worktree_look(copy->ses, r, how == KODA_RELEASE_COMMIT, &s, err) < 0)
		return -1;
	ret->commits = s.commits;
	ret->changes = s.changes;
	ret->committed = s.committed;
	rest = s.changes > 0 || s.other || s.staged || s.doing;
	if (!rest && s.commits == 0)
		return remove_worktree(copy, false, r->base, ret, err);
	if (!rest && how == KODA_RELEASE_COMMIT)
		return remove_worktree(copy, true, NULL, ret, err);
	return set_reason(copy, why_kept(&s, how == KODA_RELEASE_COMMIT), err) < 0
	    ? -1
	    : make_hint(copy, false, err);
}

static int
make_draft_hint(struct koda_copy *copy, struct koda_error *err)
{
	const char *id = copy->record.draft;

	if (asprintf(&copy->hint,
		"koda-sandbox draft diff %s\nkoda-sandbox draft apply %s\n"
		"koda-sandbox draft discard %s",
		id, id, id) >= 0)
		return 0;
	copy->hint = NULL;
	return no_memory(err);
}

static int
stop(void *data, const struct koda_change *change)
{
	return 1;
}

/* Files that were touched are collected, too: only a review compares them with the project's. Returns
 * whether there is any change. If that cannot be found out, the draft counts. */
static int
has_changes(struct koda_copy *copy)
{
	struct koda_error dropped;
	struct koda_draft *d = koda_draft_open(copy->ses, copy->record.draft, &dropped);
	bool cut = false;
	int r = d == NULL ? 1 : koda_draft_changes(d, stop, NULL, &cut, &dropped);

	if (r == 0 && !cut && koda_draft_discard(d, NULL, 0, &dropped) == 0) {
		koda_draft_close(d);
		return 0;
	}
	koda_draft_close(d);
	return 1;
}

/* What was changed in the clone becomes a draft before the clone goes. */
static int
release_clone(struct koda_copy *copy, enum koda_release how, struct koda_released *ret,
    struct koda_error *err)
{
	struct copy_record *r = &copy->record;
	int changed = 0;

	if (how == KODA_RELEASE_DISCARD) {
		/* Once the clone is being removed, the draft is decided on by itself. */
		if (!r->removing && clone_forget(copy->ses, r, err) < 0)
			return -1;
	} else if (r->ready && !r->removing) {
		changed = clone_collect(copy->ses, r, err);
		if (changed > 0)
			changed = has_changes(copy);
		if (changed < 0 ||
		    (changed > 0 &&
			(set_reason(copy, "it has changes", err) < 0 ||
			    make_draft_hint(copy, err) < 0)))
			return -1;
	}
	if (copy_record_removing(r, err) < 0 || remove_clone(copy, err) < 0)
		return -1;
	ret->copy_removed = true;
	ret->draft = changed > 0 ? r->draft : "";
	return copy_record_remove(copy->ses->state, r, err);
}

int
koda_copy_release(struct koda_copy *copy, enum koda_release how, struct koda_released *ret,
    struct koda_error *err)
{
	int r;

	err_clear(err);
	memset(ret, 0, sizeof(*ret));
	if (check_session(copy->ses, err) < 0)
		return -1;
	if (how != KODA_RELEASE_CLEAN && how != KODA_RELEASE_COMMIT && how != KODA_RELEASE_DISCARD)
		return err_set(err, KODA_INVALID, 0, "a copy cannot be released that way");
	if (copy->record.fd < 0)
		return err_set(err, KODA_INVALID, 0, "the copy was released already");
	free(copy->reason);
	free(copy->hint);
	copy->reason = copy->hint = NULL;
	ret->draft = "";
	r = copy->record.kind == KODA_WORKSPACE_CLONE ? release_clone(copy, how, ret, err)
						      : release_worktree(copy, how, ret, err);
	if (ret->copy_removed) {
		close_at(&copy->record.fd);
		close_at(&copy->record.busy_fd);
		copy->record.fd = copy->record.busy_fd = -1;
	}
	ret->reason = copy->reason != NULL ? copy->reason : "";
	ret->hint = copy->hint != NULL ? copy->hint : "";
	return r;
}

/* ---- the list ---- */

struct visit {
	koda_copied_fn *fn;
	void *data;
};

static int
visit_one(void *data, const struct copy_record *r, bool in_use)
{
	const struct visit *v = data;
	const struct koda_copied one = {
		.id = r->id,
		.root = r->root,
		.path = r->tree,
		.kind = r->kind,
		.branch = r->branch != NULL ? r->branch : "",
		.agent = r->agent,
		.begun = (double)r->begun_ns / 1e9,
		.in_use = in_use,
		.unfinished = !in_use && (!r->ready || r->removing),
	};

	return v->fn(v->data, &one);
}

int
koda_copied_size(const struct koda_copied *one, uint64_t *ret, struct koda_error *err)
{
	cleanup_close int fd = -1;
	struct cache_size size = { 0 };

	err_clear(err);
	fd = state_open_directory(one->path, err);
	if (fd < 0)
		return -1;
	if (cache_tree_measure(fd, &size) < 0 || size.beyond)
		return err_set(err, KODA_TOO_LARGE, size.beyond ? 0 : errno,
		    "the size of copy '%s' cannot be found out", one->id);
	*ret = size.bytes;
	return 0;
}

int
koda_copies_visit(const char *root, koda_copied_fn *fn, void *data, struct koda_error *err)
{
	cleanup_free char *home = home_find();
	cleanup_free char *state = home == NULL ? NULL : state_path(home);
	cleanup_free char *real = root == NULL ? NULL : realpath(root, NULL);

	err_clear(err);
	if (root != NULL && real == NULL)
		return err_set(err, KODA_INVALID, errno, "root '%.300s'", root);
	if (state == NULL)
		return 0;
	return copy_record_list(state, real, visit_one, &(struct visit){ fn, data }, err);
}
