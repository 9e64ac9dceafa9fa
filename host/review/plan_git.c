/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a plan that is about git directories. */
#include <string.h>

#include "host/review/git_part.h"
#include "host/review/plan.h"
#include "shared/base/bytes.h"

/* The changes of one git directory, perhaps with those of others in it between them. */
struct git_range {
	struct apply_plan *plan;
	size_t from, to;
	size_t len; /* of the directory's path */
};

static bool
is_deleted(const struct planned *one)
{
	return one->change.kind == KODA__DRAFT_KIND__DRAFT_DELETED;
}

/* What is it of the git directory whose path has that length? */
static enum git_part
part_of(const struct planned *one, size_t dir)
{
	size_t len;
	const enum git_part part = git_part_of(one->change.path, &len);

	return part != GIT_PART_NONE && len == dir ? part : GIT_PART_NONE;
}

/* What has to be applied with the refs, or not at all: also what they no longer need. */
static bool
is_bound(const struct planned *one, size_t dir)
{
	const enum git_part part = part_of(one, dir);

	return part == GIT_PART_STATE || (part == GIT_PART_OBJECT && is_deleted(one));
}

static bool
is_wanted(const struct git_range *r)
{
	for (size_t i = r->from; i < r->to; i++)
		if (is_bound(&r->plan->v[i], r->len) && r->plan->v[i].fate == FATE_APPLY)
			return true;
	return false;
}

/* Selects what the selected refs need. */
static void
select_rest(struct git_range *r)
{
	for (size_t i = r->from; i < r->to; i++) {
		struct planned *one = &r->plan->v[i];

		if (one->fate == FATE_UNSELECTED &&
		    (is_bound(one, r->len) || part_of(one, r->len) == GIT_PART_OBJECT))
			one->fate = plan_fate(r->plan, &one->change);
	}
}

/* What cannot be applied of a git directory. */
struct git_verdict {
	enum fate state; /* of refs and index: FATE_APPLY, or what all of them become */
	bool objects;    /* an object, or a list of them, is in conflict */
};

static void
judge_one(struct git_verdict *v, const struct planned *one, enum git_part part)
{
	switch (one->fate) {
	case FATE_CONFLICT:
		/* An object that the project has too is not missing there. */
		if (part == GIT_PART_OBJECT)
			v->objects = true;
		else
			v->state = FATE_CONFLICT;
		break;
	case FATE_REFUSED:
	case FATE_SKIPPED:
		v->state = FATE_CONFLICT;
		break;
	case FATE_DROPPED:
		if (v->state == FATE_APPLY && part == GIT_PART_STATE)
			v->state = FATE_DROPPED;
		break;
	case FATE_UNSELECTED:
	case FATE_APPLY:
		break;
	}
}

static void
settle_range(struct git_range *r)
{
	struct git_verdict v = { .state = FATE_APPLY };

	if (is_wanted(r))
		select_rest(r);
	for (size_t i = r->from; i < r->to; i++) {
		const enum git_part part = part_of(&r->plan->v[i], r->len);

		if (part == GIT_PART_STATE || part == GIT_PART_OBJECT)
			judge_one(&v, &r->plan->v[i], part);
	}
	for (size_t i = r->from; i < r->to; i++) {
		struct planned *one = &r->plan->v[i];
		const bool keeps = v.objects && part_of(one, r->len) == GIT_PART_OBJECT;

		if (!is_bound(one, r->len) || (v.state == FATE_APPLY && !keeps) ||
		    (one->fate != FATE_APPLY && one->fate != FATE_CONFLICT))
			continue;
		one->fate = v.state == FATE_APPLY ? FATE_CONFLICT : v.state;
		one->together = r->len;
	}
}

/* Settles the git directories in the range's own one: a linked worktree's, a submodule's. */
static void
settle_inner(const struct git_range *outer)
{
	struct git_range r = *outer;

	for (; r.from < outer->to; r.from = r.to) {
		const char *path = outer->plan->v[r.from].change.path;
		size_t len;

		r.to = r.from + 1;
		if (git_part_of(path, &r.len) == GIT_PART_NONE || r.len == outer->len)
			continue;
		while (r.to < outer->to &&
		    git_part_of(outer->plan->v[r.to].change.path, &len) != GIT_PART_NONE &&
		    len == r.len && memcmp(outer->plan->v[r.to].change.path, path, len) == 0)
			r.to++;
		settle_range(&r);
	}
}

void
plan_settle_git(struct apply_plan *p)
{
	struct git_range r = { .plan = p };

	for (; r.from < p->n; r.from = r.to) {
		const char *path = p->v[r.from].change.path;

		r.to = r.from + 1;
		r.len = git_part_outermost(path);
		if (r.len == 0)
			continue;
		while (r.to < p->n && git_part_outermost(p->v[r.to].change.path) == r.len &&
		    memcmp(p->v[r.to].change.path, path, r.len) == 0)
			r.to++;
		settle_range(&r);
		settle_inner(&r);
	}
}

bool
plan_is_needed(const struct reviewed *c)
{
	size_t len;

	if (c->kind == KODA__DRAFT_KIND__DRAFT_CREATED &&
	    c->after.type == KODA__FILE_TYPE__FILE_DIRECTORY)
		return true;
	switch (git_part_of(c->path, &len)) {
	case GIT_PART_OBJECT:
	case GIT_PART_STATE:
		return true;
	case GIT_PART_NONE:
	case GIT_PART_OTHER:
		break;
	}
	return false;
}

/* Is it one of two changes of a name, whose type changes? */
static bool
is_pair(const struct apply_plan *p, size_t i)
{
	const char *path = p->v[i].change.path;

	return (i > 0 && strcmp(p->v[i - 1].change.path, path) == 0) ||
	    (i + 1 < p->n && strcmp(p->v[i + 1].change.path, path) == 0);
}

bool
plan_is_closed(const struct draft_side *s)
{
	return s->type == KODA__FILE_TYPE__FILE_DIRECTORY &&
	    (s->mode & PLAN_FILLABLE) != PLAN_FILLABLE;
}

static unsigned
pass_of(const struct apply_plan *p, size_t i)
{
	const struct planned *one = &p->v[i];
	const bool directory = one->change.after.type == KODA__FILE_TYPE__FILE_DIRECTORY;
	size_t len;

	if (one->change.kind == KODA__DRAFT_KIND__DRAFT_MODE && plan_is_closed(&one->change.after))
		return PLAN_CLOSE;
	if (is_pair(p, i))
		return PLAN_FIRST;
	if (git_part_of(one->change.path, &len) == GIT_PART_STATE && !directory)
		return PLAN_STATE;
	return is_deleted(one) ? PLAN_LAST : PLAN_FIRST;
}

void
plan_order(struct apply_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].pass = pass_of(p, i);
}
