/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/draft_git.h"
#include "worker/draft/draft_repo.h"
#include "worker/draft/draft_shape.h"
#include "worker/draft/gitlock.h"
#include "worker/files/tree.h"

#define PATH_SHOWN 240

/* ---- the shape of a git directory ---- */

struct draft_view {
	struct draft_walk *w;
	bool with_draft; /* otherwise the project alone */
	bool asked;
	/* The draft makes the name: what it is. It is not there before. */
	enum access_name made;
};

/* Returns the directory of the walk whose path has this length, or NULL if it is above the layer. */
static struct draft_level *
level_of(struct draft_walk *w, size_t len)
{
	for (size_t i = w->n_levels; i > 0; i--)
		if (w->level[i - 1].len == len)
			return &w->level[i - 1];
	return NULL;
}

/* Is `name` left out, because it comes with the change that is judged? Then the directory is only a
 * git directory with the change, and the change is refused for that. */
static bool
comes_with(const struct draft_view *v, const struct draft_level *l, const char *name)
{
	const enum access_name means = access_name_of(name);

	if (l != draft_walk_top(v->w) || v->made == ACCESS_NAME_OTHER ||
	    draft_shape_is_git(l->shape.project))
		return false;
	/* Either of them makes one, and the draft may make both. */
	if (v->made == ACCESS_NAME_HEAD || v->made == ACCESS_NAME_WORKTREES)
		return means == ACCESS_NAME_HEAD || means == ACCESS_NAME_WORKTREES;
	return means == v->made &&
	    (means == ACCESS_NAME_OBJECTS || means == ACCESS_NAME_REFS ||
		means == ACCESS_NAME_COMMONDIR);
}

static bool
has_above(const struct draft_view *v, const char *path, size_t len, const char *name)
{
	cleanup_close int fd = resolve_canonical_dir(&v->w->ses->res, path, len);

	if (fd < 0)
		return errno != ENOENT && errno != ENOTDIR;
	return draft_shape_has(fd, name);
}

static bool
view_has(void *data, const char *path, size_t dir_len, const char *name)
{
	struct draft_view *v = data;
	struct draft_level *l = level_of(v->w, dir_len);
	const uint32_t bit = draft_shape_bit(name);

	v->asked = true;
	if (l == NULL)
		return has_above(v, path, dir_len, name);
	draft_shape_learn(v->w, l);
	/* A name that is not in the list was not looked for. */
	if (bit == 0)
		return true;
	if (!v->with_draft)
		return (l->shape.project & bit) != 0;
	return ((l->shape.project | l->shape.upper) & bit) != 0 && !comes_with(v, l, name);
}

/* ---- refusals ---- */

static void
refuse_by_error(struct draft_change *c, const struct koda_error *why)
{
	c->is_refused = true;
	snprintf(c->refusal.rule, sizeof(c->refusal.rule), "%s",
	    why->rule[0] != '\0' ? why->rule : "unreadable");
	snprintf(c->refusal.reason, sizeof(c->refusal.reason), "%s", why->message);
}

static void
refuse_as(struct draft_walk *w, struct draft_change *c, const char *rule, const char *why)
{
	char shown[PATH_SHOWN];

	bytes_show(shown, sizeof(shown), w->path, strlen(w->path));
	c->is_refused = true;
	snprintf(c->refusal.rule, sizeof(c->refusal.rule), "%s", rule);
	snprintf(c->refusal.reason, sizeof(c->refusal.reason),
	    "refused to apply '%s': %s (rule %s)", shown, why, rule);
}

static struct access_verdict
judge_without_git(const struct session *ses, enum access_op op, const char *path)
{
	struct policy policy = ses->policy;
	struct access_subject who = ses->who;

	policy.flag[KODA_ALLOW_GIT_CONFIG] = true;
	who.policy = &policy;
	return access_judge(&who, op, path, NULL);
}

static void
judge_op(struct draft_walk *w, struct draft_change *c, enum access_op op)
{
	const bool made = c->kind == KODA__DRAFT_KIND__DRAFT_CREATED;
	struct session *ses = w->ses;
	struct draft_view v = { .w = w,
		.with_draft = true,
		.made = made ? access_name_of(w->name.name) : ACCESS_NAME_OTHER };
	const struct access_disk disk = { &v, view_has };
	struct access_verdict verdict;

	if (c->is_refused)
		return;
	verdict = access_judge(&ses->who, op, w->path, &disk);
	/* Without a question about the disk, the answer is the same. */
	if (verdict.allowed && v.asked) {
		v.with_draft = false;
		verdict = access_judge(&ses->who, op, w->path, &disk);
	}
	/* In a repository that is applied as a whole only the other rules count. */
	if (!verdict.allowed && verdict.rule == ACCESS_RULE_GIT_CONFIG && draft_repo_has(w))
		verdict = judge_without_git(ses, op, w->path);
	if (ses->role->judge != NULL)
		verdict = ses->role->judge(ses, op, w->path, verdict);
	if (verdict.allowed)
		return;
	access_refuse(&w->scratch, &ses->who, op, w->path, verdict);
	refuse_by_error(c, &w->scratch);
}

/* A directory of that name, or a link to one, brings what is below it. */
static void
judge_tree(struct draft_walk *w, struct draft_change *c, enum access_op op)
{
	struct access_verdict verdict;

	if (c->is_refused)
		return;
	verdict = access_judge_tree(&w->ses->who, op, w->path);
	if (verdict.allowed)
		return;
	access_refuse(&w->scratch, &w->ses->who, op, w->path, verdict);
	refuse_by_error(c, &w->scratch);
}

/* ---- kinds ---- */

static const char lock_why[] =
    "it is a lock of git: only the git that made it removes it, and that one has ended, or runs in the project";

static bool
is_lock(struct draft_walk *w)
{
	return gitlock_is_name(w->name.name) && draft_git_is_inside(w);
}

/* What no file operation can make, whatever the policy says. */
static void
judge_kind(struct draft_walk *w, struct draft_change *c)
{
	const struct draft_name *n = &w->name;
	const char *why;

	if (n->up.kind == UPPER_SPECIAL)
		refuse_as(w, c, "special_file", "it is a socket, a FIFO or a device");
	else if (n->up.kind == UPPER_UNKNOWN)
		refuse_as(w, c, "overlay_mark",
		    "the overlay file system marked it in a way that is not understood");
	else if (n->up.kind == UPPER_FILE && (n->up.st.st_mode & (S_ISUID | S_ISGID)) != 0)
		refuse_as(w, c, "set_id",
		    "it would run as another user or group (set-user-ID, set-group-ID)");
	else if (n->up.kind == UPPER_FILE && n->up.capabilities)
		refuse_as(w, c, "file_capability", "it has file capabilities");
	else if (n->up.kind == UPPER_FILE && is_lock(w))
		refuse_as(w, c, "git_lock", lock_why);
	else if (n->in_project && n->low.mounted)
		refuse_as(w, c, "mount_point",
		    "another file system is mounted there in the project");
	else if ((n->up.kind == UPPER_DIR || n->up.kind == UPPER_OPAQUE) && n->fd < 0)
		refuse_as(w, c, "unreadable", "the directory cannot be read in the draft");
	else if (n->up.kind == UPPER_LINK && !w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] &&
	    draft_git_is_inside(w))
		refuse_as(w, c, access_rule_name(ACCESS_RULE_GIT_CONFIG),
		    "git would read and write what the link leads to as its own file");
	else if (n->up.kind == UPPER_FILE && c->kind != KODA__DRAFT_KIND__DRAFT_MODE &&
	    (why = draft_git_refuses(w)) != NULL)
		refuse_as(w, c, access_rule_name(ACCESS_RULE_GIT_CONFIG), why);
}

static void
inherit_refusal(struct draft_walk *w, struct draft_change *c)
{
	const struct draft_level *l = draft_walk_top(w);

	if (c->is_refused || !l->is_refused)
		return;
	c->is_refused = true;
	c->refusal = l->refusal;
}

int
draft_judge(struct draft_walk *w, struct draft_change *c, struct koda_error *err)
{
	const mode_t type = w->name.up.st.st_mode & S_IFMT;

	if (type == S_IFDIR) {
		judge_op(w, c, ACCESS_OP_MKDIR);
	} else {
		judge_op(w, c, ACCESS_OP_WRITE);
	}
	/* A link may lead to anything. */
	if (type == S_IFLNK) {
		judge_op(w, c, ACCESS_OP_RENAME_TO);
		judge_tree(w, c, ACCESS_OP_RENAME_TO);
	}
	if (!c->is_refused)
		judge_kind(w, c);
	inherit_refusal(w, c);
	return type == S_IFDIR && c->kind == KODA__DRAFT_KIND__DRAFT_CREATED
	    ? draft_repo_judge(w, c, err)
	    : 0;
}

static int
judge_below(struct draft_walk *w, struct draft_change *c, int64_t *ret_newest,
    struct koda_error *err)
{
	cleanup_close int fd = openat(draft_walk_top(w)->lower, w->name.name,
	    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		refuse_as(w, c, "unreadable", "the directory cannot be read");
		return 0;
	}
	judge_tree(w, c, ACCESS_OP_REMOVE);
	/* It is moved away as a whole: nothing in it has to be removed. */
	if (c->is_refused ||
	    tree_check_newest(&w->ses->who, ACCESS_OP_RENAME_FROM, fd, w->path, &c->entries,
		ret_newest, &w->scratch) == 0)
		return 0;
	if (w->scratch.code == KODA_INTERNAL || w->scratch.errnum == EMFILE ||
	    w->scratch.errnum == ENFILE) {
		*err = w->scratch;
		return -1;
	}
	refuse_by_error(c, &w->scratch);
	return 0;
}

int
draft_judge_removal(struct draft_walk *w, struct draft_change *c, int64_t *ret_newest,
    struct koda_error *err)
{
	judge_op(w, c, ACCESS_OP_REMOVE);
	if (!c->is_refused && w->name.low.mounted)
		refuse_as(w, c, "mount_point",
		    "another file system is mounted there in the project");
	if (!c->is_refused && !S_ISDIR(w->name.low.st.st_mode) && is_lock(w))
		refuse_as(w, c, "git_lock", lock_why);
	inherit_refusal(w, c);
	return S_ISDIR(w->name.low.st.st_mode) && !c->is_refused
	    ? judge_below(w, c, ret_newest, err)
	    : 0;
}
