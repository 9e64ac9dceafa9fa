/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/child_policy.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/fault.h"
#include "mcp/text.h"

static int
add_path(struct koda_policy *policy, enum koda_list list, const struct child_wish *wish,
    const char *path, struct koda_error *err)
{
	struct text t = { 0 };
	int r;

	if (path[0] == '\0')
		return fault_set(err, KODA_INVALID, 0, "a path is empty");
	/* A pattern would be taken as one literal name, which is not what its author means. */
	if (strpbrk(path, "*?") != NULL)
		return fault_set(err, KODA_INVALID, 0,
		    "'%.200s' is a pattern, but a path is needed: name the file or the directory to deny",
		    path);
	if (path[0] != '/') {
		text_add(&t, wish->root, strlen(wish->root));
		text_add(&t, "/", 1);
	}
	text_add(&t, path, strlen(path) + 1);
	r = koda_policy_add(policy, list, t.p, err);
	text_done(&t);
	return r;
}

static int
add_paths(struct koda_policy *policy, enum koda_list list, const struct child_wish *wish,
    const struct child_rules *paths, struct koda_error *err)
{
	for (size_t i = 0; i < paths->n; i++) {
		if (add_path(policy, list, wish, paths->rule[i], err) < 0)
			return -1;
	}
	return 0;
}

static int
add_network(struct koda_policy *policy, const struct child_wish *wish, struct koda_error *err)
{
	const bool all = wish->network && !wish->has_domains;

	/* With a list of domains of its own, this flag would let all of the parent's domains
	 * through beside it. */
	if (koda_policy_set_flag(policy, KODA_ANY_DOMAIN, all, err) < 0)
		return -1;
	if (all)
		return 0;
	if (koda_policy_add_none(policy, KODA_ALLOWED_DOMAINS, err) < 0)
		return -1;
	for (size_t i = 0; wish->network && i < wish->domains.n; i++) {
		if (koda_policy_add(policy, KODA_ALLOWED_DOMAINS, wish->domains.rule[i], err) < 0)
			return -1;
	}
	return 0;
}

/* Fills the policy with the wish, and allows everything else: the two policies that it is
 * composed with restrict the rest. */
static int
fill(struct koda_policy *policy, struct koda_slot *parent_slot, const struct child_wish *wish,
    struct koda_error *err)
{
	/* add_network() then decides on KODA_ANY_DOMAIN. */
	for (int flag = 0; flag < KODA_N_FLAGS; flag++) {
		if (koda_policy_set_flag(policy, (enum koda_flag)flag, true, err) < 0)
			return -1;
	}
	if (add_paths(policy, KODA_DENY_READ, wish, &wish->deny_read, err) < 0 ||
	    add_paths(policy, KODA_DENY_WRITE_WITHIN_ALLOW, wish, &wish->deny_write, err) < 0 ||
	    add_network(policy, wish, err) < 0)
		return -1;
	/* The child cannot see links outside its root that lead into it. */
	if (parent_slot != NULL && koda_slot_add_guards(parent_slot, policy, err) < 0)
		return -1;
	return koda_policy_freeze(policy, err);
}

struct koda_policy *
child_policy(const struct koda_policy *parent, struct koda_slot *parent_slot,
    const struct child_wish *wish, struct koda_error *err)
{
	struct koda_policy *mode = koda_policy_for_agent(wish->mode, wish->root, err);
	struct koda_policy *own = koda_policy_new(), *both = NULL, *ret = NULL;

	if (own == NULL)
		fault_set(err, KODA_INTERNAL, 0, "out of memory");
	if (mode != NULL && own != NULL && koda_policy_freeze(mode, err) == 0 &&
	    fill(own, parent_slot, wish, err) == 0)
		both = koda_policy_compose(parent, mode, err);
	if (both != NULL)
		ret = koda_policy_compose(both, own, err);
	koda_policy_free(both);
	koda_policy_free(own);
	koda_policy_free(mode);
	return ret;
}
