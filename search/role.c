/* SPDX-License-Identifier: Apache-2.0 */
#include "search/op_search.h"
#include "search/places.h"
#include "shared/base/cleanup.h"
#include "worker/ops/op.h"

/* One directory per level, the places, and what opening one of them takes. */
#define FDS_MAX (WALK_DEPTH_MAX + SEARCH_PATHS_MAX + 64)
/* A line of GREP_LINE_MAX, raw and decoded, and the names of the directories on the way. */
#define DATA_MAX (UINT64_C(1) << 30)

/* clang-format off */
static const struct op ops[] = {
	[KODA__REQUEST__OP_SEAL]   = { "seal",   OP_UNSEALED, op_seal   },
	[KODA__REQUEST__OP_SEARCH] = { "search", 0,           op_search },
};
/* clang-format on */

const struct role role_search = {
	.ops = ops,
	.n_ops = N_ELEMENTS(ops),
	.changes = false,
	.fds_max = FDS_MAX,
	.data_max = DATA_MAX,
};
