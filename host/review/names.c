/* SPDX-License-Identifier: Apache-2.0 */
/* The stable names of the values that a review reports. */
#include "host/context/context.h"
#include "shared/base/cleanup.h"

const char *
koda_change_kind_name(enum koda_change_kind kind)
{
	static const char *const name[] = { "unknown", "created", "changed", "deleted", "mode",
		"renamed" };

	return name[kind < N_ELEMENTS(name) ? kind : 0];
}

const char *
koda_apply_outcome_name(enum koda_apply_outcome outcome)
{
	static const char *const name[] = { "unknown", "applied", "refused", "conflict", "skipped",
		"failed", "unlisted" };

	return name[outcome < N_ELEMENTS(name) ? outcome : 0];
}

const char *
koda_merge_outcome_name(enum koda_merge_outcome outcome)
{
	static const char *const name[] = { "none", "clean", "overlaps" };

	return name[outcome < N_ELEMENTS(name) ? outcome : 0];
}
