/*
 * Why compose never widens, field by field.
 *
 * - denies (deny_read, deny_write_within_allow, deny_write_names, denied_domains): the union. What
 *   one side denies stays denied.
 * - read holes: one is kept if both sides permit reading at exactly that place. Say the result
 *   permits x. Either no deny of the union names x, then none of either side does; or the longest
 *   hole h that names x is longer than every deny that names x. All rules that name x are ancestors
 *   of one another, so the denies of a side that name x are those that name h, and they are shorter
 *   than h. That side permits h, so it has no such deny, or a hole at or above h that is longer
 *   than all of them, and that hole names x too. So that side permits x.
 * - allow_write: what both a rule of the parent and one of the child name, which is the longer of
 *   the two when one is inside the other. An absent child inherits. An absent parent permits
 *   nothing, so neither does the result.
 * - allowed_domains with any_domain: the allowed set of a side is any ? everything : list. The
 *   result's any is the AND; its list lies within both sets: PxC, C's list only where the parent's
 *   set is everything, P's list only where the child's is. any_domain means every name, with its
 *   own TLS server name; it does not open an address that is not public or is this machine's. So
 *   where one side has any_domain, any-sni and the addresses of the other side are left out, also
 *   public ones: this machine knows whose an address is, the policy does not. An absent child
 *   list inherits: the result is then the parent's list alone.
 * - flags: AND. Limits: minimum, set beats unset. Trust: the strictest. mitm: the parent's, for it
 *   says who may look into the traffic. Depth: the maximum; it bounds work, every hop is judged.
 *
 * The composition of a policy with itself is that policy: rules that both lists have literally come
 * first, in the parent's order, and an intersection that something in the result covers is left
 * out.
 */
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/domain.h"
#include "shared/rules/policy.h"

static int
compose_denies(struct policy *ret, const struct policy *p, const struct policy *c,
    enum koda_list list, struct koda_error *err)
{
	if (policy_list_add_all(&ret->list[list], &p->list[list], err) < 0)
		return -1;
	return policy_list_add_all(&ret->list[list], &c->list[list], err);
}

static int
compose_holes(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOW_READ_WITHIN_DENY];
	const struct policy *const sides[] = { p, c };

	for (size_t s = 0; s < N_ELEMENTS(sides); s++) {
		const struct policy_list *holes = &sides[s]->list[KODA_ALLOW_READ_WITHIN_DENY];

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
add_common(struct policy_list *ret, const struct policy_list *p, const struct policy_list *c,
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
compose_writes(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOW_WRITE];
	const struct policy_list *pl = &p->list[KODA_ALLOW_WRITE], *cl = &c->list[KODA_ALLOW_WRITE];

	if (!cl->present)
		return policy_list_add_all(list, pl, err);
	list->present = true;
	if (add_common(list, pl, cl, err) < 0)
		return -1;
	for (size_t i = 0; i < pl->n; i++) {
		for (size_t k = 0; k < cl->n; k++) {
			const char *both = path_is_inside(cl->v[k], pl->v[i]) ? cl->v[k]
			    : path_is_inside(pl->v[i], cl->v[k])              ? pl->v[i]
									      : NULL;

			if (both != NULL && add_path(list, both, err) < 0)
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
compose_domains(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOWED_DOMAINS];
	const struct policy_list *pl = &p->list[KODA_ALLOWED_DOMAINS],
				 *cl = &c->list[KODA_ALLOWED_DOMAINS];
	char both[DOMAIN_PATTERN_MAX + 1];
	struct domain dp, dc;

	if (!cl->present)
		return policy_list_add_all(list, pl, err);
	list->present = true;
	if (add_common(list, pl, cl, err) < 0)
		return -1;
	for (size_t i = 0; i < pl->n; i++) {
		if (domain_parse(pl->v[i], &dp) != NULL)
			continue;
		for (size_t k = 0; k < cl->n; k++) {
			if (domain_parse(cl->v[k], &dc) != NULL ||
			    !domain_intersect(&dp, &dc, both))
				continue;
			if (add_domain(list, both, err) < 0)
				return -1;
		}
	}
	if (p->flag[KODA_ANY_DOMAIN] && add_names(list, cl, err) < 0)
		return -1;
	return c->flag[KODA_ANY_DOMAIN] ? add_names(list, pl, err) : 0;
}

static struct policy_limit
stricter_limit(struct policy_limit a, struct policy_limit b)
{
	if (!a.set || !b.set)
		return a.set ? a : b;
	return a.value <= b.value ? a : b;
}

int
policy_compose(const struct policy *parent, const struct policy *child, struct policy *ret,
    struct koda_error *err)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	if (compose_denies(&p, parent, child, KODA_DENY_READ, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENY_WRITE_WITHIN_ALLOW, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENIED_DOMAINS, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENY_WRITE_NAMES, err) < 0 ||
	    compose_holes(&p, parent, child, err) < 0 ||
	    compose_writes(&p, parent, child, err) < 0 ||
	    compose_domains(&p, parent, child, err) < 0 || policy_mitm_copy(&p, parent, err) < 0)
		return err_wrap(err, "compose");
	for (size_t i = 0; i < KODA_N_FLAGS; i++)
		p.flag[i] = parent->flag[i] && child->flag[i];
	for (size_t i = 0; i < KODA_N_LIMITS; i++)
		p.limit[i] = stricter_limit(parent->limit[i], child->limit[i]);
	p.depth = parent->depth > child->depth ? parent->depth : child->depth;
	/* enum koda_trust is in the order of strictness */
	p.trust = parent->trust > child->trust ? parent->trust : child->trust;
	*ret = p;
	policy_init(&p);
	return 0;
}
