/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/policy.h"

#include <string.h>

#include "shared/base/bytes.h"

const char *
policy_mode_name(enum koda_mode mode)
{
	switch (mode) {
	case KODA_PLAN:
		return "plan";
	case KODA_SAFE:
		return "safe";
	case KODA_AUTO:
		return "auto";
	}
	return "unknown";
}

unsigned
policy_effective_depth(const struct policy *p)
{
	if (p->depth < POLICY_DEPTH_MIN)
		return POLICY_DEPTH_MIN;
	return p->depth > POLICY_DEPTH_MAX ? POLICY_DEPTH_MAX : p->depth;
}

static const char *
longest_above(const struct policy_list *list, const char *path, size_t *ret_len)
{
	const size_t i = policy_list_longest_above(list, path);

	*ret_len = i < list->n ? strlen(list->v[i]) : 0;
	return i < list->n ? list->v[i] : NULL;
}

bool
policy_reads(const struct policy *p, const char *path, const char **ret_rule)
{
	size_t deny_len, hole_len;
	const char *deny = longest_above(&p->list[KODA_DENY_READ], path, &deny_len);
	const char *hole = longest_above(&p->list[KODA_ALLOW_READ_WITHIN_DENY], path, &hole_len);
	bool denied = deny != NULL && deny_len >= hole_len;

	if (ret_rule != NULL)
		*ret_rule = denied ? deny : deny != NULL ? hole : NULL;
	return !denied;
}
