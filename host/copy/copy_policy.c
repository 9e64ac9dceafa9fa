/* SPDX-License-Identifier: Apache-2.0 */
/* koda_copy_policy(). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/copy/copy.h"
#include "host/policy/policy_api.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static void
free_policy(struct koda_policy **policy)
{
	koda_policy_free(*policy);
}

/* Add the rule about path, which is in the project, as one about the copy. */
static int
add_moved(struct koda_policy *p, enum koda_list list, const struct koda_copy *copy,
    const char *path, struct koda_error *err)
{
	cleanup_free char *moved = NULL;

	if (asprintf(&moved, "%s%s", copy->root, path + strlen(copy->record.root)) < 0) {
		moved = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	}
	return koda_policy_add(p, list, moved, err);
}

static int
add_path(struct koda_policy *p, enum koda_list list, const struct koda_copy *copy, const char *path,
    struct koda_error *err)
{
	const char *root = copy->record.root;
	const bool allows = list == KODA_ALLOW_WRITE;

	if (path_is_inside(path, root))
		return add_moved(p, list, copy, path, err) < 0 ||
			(!allows && koda_policy_add(p, list, path, err) < 0)
		    ? -1
		    : 0;
	/* A place around the project would let the agent write to the project. */
	if (allows && path_is_inside(root, path))
		return koda_policy_add(p, list, copy->root, err);
	return koda_policy_add(p, list, path, err);
}

static int
add_lists(struct koda_policy *p, const struct koda_copy *copy, const struct policy *from,
    struct koda_error *err)
{
	for (int list = 0; list < KODA_N_LISTS; list++) {
		const struct policy_list *l = &from->list[list];
		const bool paths = list == KODA_DENY_READ || list == KODA_ALLOW_READ_WITHIN_DENY ||
		    list == KODA_ALLOW_WRITE || list == KODA_DENY_WRITE_WITHIN_ALLOW;

		if (l->present && koda_policy_add_none(p, (enum koda_list)list, err) < 0)
			return -1;
		for (size_t i = 0; i < l->n; i++)
			if ((paths ? add_path(p, (enum koda_list)list, copy, l->v[i], err)
				   : koda_policy_add(p, (enum koda_list)list, l->v[i], err)) < 0)
				return -1;
	}
	return 0;
}

static int
add_rest(struct koda_policy *p, const struct policy *from, struct koda_error *err)
{
	for (int flag = 0; flag < KODA_N_FLAGS; flag++)
		if (koda_policy_set_flag(p, (enum koda_flag)flag, from->flag[flag], err) < 0)
			return -1;
	for (int limit = 0; limit < KODA_N_LIMITS; limit++)
		if (from->limit[limit].set &&
		    koda_policy_set_limit(p, (enum koda_limit)limit, from->limit[limit].value,
			err) < 0)
			return -1;
	if (koda_policy_set_depth(p, from->depth, err) < 0 ||
	    koda_policy_set_trust(p, from->trust, err) < 0 ||
	    (from->ca_bundle != NULL && koda_policy_set_mitm(p, from->ca_bundle, err) < 0))
		return -1;
	for (size_t i = 0; i < from->n_sockets; i++)
		if (koda_policy_add_mitm_socket(p, from->sockets[i].domain, from->sockets[i].path,
			err) < 0)
			return -1;
	return 0;
}

struct koda_policy *
koda_copy_policy(const struct koda_copy *copy, const struct koda_policy *policy,
    struct koda_error *err)
{
	cleanup(free_policy) struct koda_policy *p = koda_policy_new();

	err_clear(err);
	if (p == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		return NULL;
	}
	if (!koda_policy_frozen(policy)) {
		err_set(err, KODA_INVALID, 0, "the policy is not frozen");
		return NULL;
	}
	if (add_lists(p, copy, koda_policy_get(policy), err) < 0 ||
	    add_rest(p, koda_policy_get(policy), err) < 0 || koda_policy_freeze(p, err) < 0)
		return NULL;
	return take_ptr(&p);
}
