/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why compose never widens, rule by rule; the table in policy_field.c says which field has which.
 *
 * - POLICY_UNION (the lists that deny): what one side denies stays denied.
 * - POLICY_HOLES: a read hole is kept if both sides permit reading at exactly that place. Say the
 *   result permits x. Either no deny of the union names x, then none of either side does; or the
 *   longest hole h that names x is longer than every deny that names x. All rules that name x are
 *   ancestors of one another, so the denies of a side that name x are those that name h, and they
 *   are shorter than h. That side permits h, so it has no such deny, or a hole at or above h that
 *   is longer than all of them, and that hole names x too. So that side permits x.
 * - POLICY_INTERSECTION of paths: what both a rule of the parent and one of the child name, which
 *   is the longer of the two when one is inside the other. An absent child inherits. An absent
 *   parent permits nothing, so neither does the result.
 * - POLICY_INTERSECTION of domains, with any_domain: the allowed set of a side is any ? everything
 *   : list. The result's any is the AND; its list lies within both sets: PxC, C's list only where
 *   the parent's set is everything, P's list only where the child's is. any_domain means every
 *   name, with its own TLS server name; it does not open an address that is not public or is this
 *   machine's. So where one side has any_domain, any-sni and the addresses of the other side are
 *   left out, also public ones: this machine knows whose an address is, the policy does not. An
 *   absent child list inherits: the result is then the parent's list alone.
 * - POLICY_BOTH: a flag permits something, and stays set only if both sides set it.
 * - POLICY_LOWEST: the lower limit; a limit that is set beats one that is not.
 * - POLICY_HIGHEST: of trust the strictest, which has the highest number. Of the depth the larger:
 *   it bounds work, every hop is judged.
 * - POLICY_OF_PARENT: mitm says who may look into the traffic, so a child has no say.
 *
 * The composition of a policy with itself is that policy: rules that both lists have literally
 * come first, in the parent's order, and an intersection that something in the result covers is
 * left out. No rule reads what another one has written, so the order of the fields does not
 * matter.
 */

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/domain.h"
#include "shared/rules/policy_field.h"

static int
compose_union(struct policy_list *ret, const struct policy_list *p, const struct policy_list *c,
    struct koda_error *err)
{
	if (policy_list_add_all(ret, p, err) < 0)
		return -1;
	return policy_list_add_all(ret, c, err);
}

static int
compose_holes(const struct policy_field *f, struct policy *ret, const struct policy *p,
    const struct policy *c, struct koda_error *err)
{
	struct policy_list *list = policy_field_in(ret, f);
	const struct policy *const sides[] = { p, c };

	for (size_t s = 0; s < N_ELEMENTS(sides); s++) {
		const struct policy_list *holes = policy_field_in(sides[s], f);

		list->present = list->present || holes->present;
		for (size_t i = 0; i < holes->n; i++) {
			if (!policy_reads(p, holes->v[i], NULL) ||
			    !policy_reads(c, holes->v[i], NULL))
				continue;
			if (policy_list_add(list, holes->v[i], err) < 0)
				return -1;
		}
	}
	return 0;
}

static int
add_equal_rules(struct policy_list *ret, const struct policy_list *p, const struct policy_list *c,
    struct koda_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		if (policy_list_has(c, p->v[i]) && policy_list_add(ret, p->v[i], err) < 0)
			return -1;
	}
	return 0;
}

static int
add_path(struct policy_list *ret, const char *path, struct koda_error *err)
{
	for (size_t i = 0; i < ret->n; i++) {
		if (path_is_inside(path, ret->v[i]))
			return 0;
	}
	return policy_list_add(ret, path, err);
}

static int
add_common_paths(struct policy_list *ret, const struct policy_list *p, const struct policy_list *c,
    struct koda_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < c->n; k++) {
			const char *both = path_is_inside(c->v[k], p->v[i]) ? c->v[k]
			    : path_is_inside(p->v[i], c->v[k])              ? p->v[i]
									    : NULL;

			if (both != NULL && add_path(ret, both, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int
add_domain(struct policy_list *ret, const char *pattern, struct koda_error *err)
{
	struct domain d, have;

	if (domain_parse(pattern, &d) != NULL)
		return 0; /* it matches nothing */
	for (size_t i = 0; i < ret->n; i++) {
		if (domain_parse(ret->v[i], &have) == NULL && domain_covers(&have, &d))
			return 0;
	}
	return policy_list_add(ret, pattern, err);
}

/* Add the names that the other side's any_domain allows as well. */
static int
add_names(struct policy_list *ret, const struct policy_list *from, struct koda_error *err)
{
	char name[DOMAIN_PATTERN_MAX + 1];
	struct domain d, held;

	for (size_t i = 0; i < from->n; i++) {
		if (domain_parse(from->v[i], &d) != NULL || domain_is_address(&d))
			continue;
		held = d;
		held.any_sni = false;
		if (domain_intersect(&d, &held, name) && add_domain(ret, name, err) < 0)
			return -1;
	}
	return 0;
}

static int
add_common_domains(struct policy_list *ret, const struct policy *p, const struct policy_list *pl,
    const struct policy *c, const struct policy_list *cl, struct koda_error *err)
{
	char both[DOMAIN_PATTERN_MAX + 1];
	struct domain dp, dc;

	for (size_t i = 0; i < pl->n; i++) {
		if (domain_parse(pl->v[i], &dp) != NULL)
			continue;
		for (size_t k = 0; k < cl->n; k++) {
			if (domain_parse(cl->v[k], &dc) != NULL ||
			    !domain_intersect(&dp, &dc, both))
				continue;
			if (add_domain(ret, both, err) < 0)
				return -1;
		}
	}
	if (p->flag[KODA_ANY_DOMAIN] && add_names(ret, cl, err) < 0)
		return -1;
	return c->flag[KODA_ANY_DOMAIN] ? add_names(ret, pl, err) : 0;
}

static int
compose_intersection(const struct policy_field *f, struct policy *ret, const struct policy *p,
    const struct policy *c, struct koda_error *err)
{
	struct policy_list *list = policy_field_in(ret, f);
	const struct policy_list *pl = policy_field_in(p, f), *cl = policy_field_in(c, f);

	if (!cl->present)
		return policy_list_add_all(list, pl, err);
	list->present = true;
	if (add_equal_rules(list, pl, cl, err) < 0)
		return -1;
	switch (f->kind) {
	case POLICY_PATHS:
		return add_common_paths(list, pl, cl, err);
	case POLICY_DOMAINS:
		return add_common_domains(list, p, pl, c, cl, err);
	case POLICY_NAMES: /* no field has this; equal rules alone are not wider than a side */
	case POLICY_FLAG:
	case POLICY_LIMIT:
	case POLICY_NUMBER:
	case POLICY_CHOICE:
	case POLICY_MITM:
		break;
	}
	return 0;
}

static const struct policy_limit *
stricter_limit(const struct policy_limit *a, const struct policy_limit *b)
{
	if (!a->set || !b->set)
		return a->set ? a : b;
	return a->value <= b->value ? a : b;
}

static int
field_compose(const struct policy_field *f, struct policy *ret, const struct policy *p,
    const struct policy *c, struct koda_error *err)
{
	void *to = policy_field_in(ret, f);
	const void *mp = policy_field_in(p, f), *mc = policy_field_in(c, f);
	unsigned np, nc;

	switch (f->rule) {
	case POLICY_UNION:
		return compose_union(to, mp, mc, err);
	case POLICY_HOLES:
		return compose_holes(f, ret, p, c, err);
	case POLICY_INTERSECTION:
		return compose_intersection(f, ret, p, c, err);
	case POLICY_BOTH:
		*(bool *)to = *(const bool *)mp && *(const bool *)mc;
		return 0;
	case POLICY_LOWEST:
		*(struct policy_limit *)to = *stricter_limit(mp, mc);
		return 0;
	case POLICY_HIGHEST:
		np = policy_field_number(p, f);
		nc = policy_field_number(c, f);
		policy_field_set_number(ret, f, np > nc ? np : nc);
		return 0;
	case POLICY_OF_PARENT:
		return policy_field_copy(f, ret, p, err);
	}
	return err_set(err, KODA_INTERNAL, 0, "policy: %s has no rule of composition", f->name);
}

int
policy_compose(const struct policy *parent, const struct policy *child, struct policy *ret,
    struct koda_error *err)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (field_compose(&policy_fields[i], &p, parent, child, err) < 0)
			return err_wrap(err, "compose");
	}
	*ret = p;
	policy_init(&p);
	return 0;
}
