/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/cleanup.h"
#include "worker/files/keep_now.h"
#include "worker/ops/op.h"
#include "worker/session.h"

/* The socket, two descriptors of the session, one or two places with the descriptors that
 * following a link takes, and one per level of the deepest tree. */
#define FDS_MAX 256
/* An edit holds at most three times EDIT_BYTES_MAX. */
#define DATA_MAX (UINT64_C(1) << 30)

/* The whole attack surface of a worker: a request without a row does not exist. */
/* clang-format off */
static const struct op ops[] = {
	[KODA__REQUEST__OP_SEAL]     = { "seal",     OP_UNSEALED, op_seal     },
	[KODA__REQUEST__OP_PING]     = { "ping",     0,           op_ping     },
	[KODA__REQUEST__OP_SHUTDOWN] = { "shutdown", 0,           op_shutdown },
	[KODA__REQUEST__OP_READ]     = { "read",     0,           op_read     },
	[KODA__REQUEST__OP_WRITE]    = { "write",    OP_CHANGES,  op_write    },
	[KODA__REQUEST__OP_EDIT]     = { "edit",     OP_CHANGES,  op_edit     },
	[KODA__REQUEST__OP_STAT]     = { "stat",     0,           op_stat     },
	[KODA__REQUEST__OP_LIST]     = { "list",     0,           op_list     },
	[KODA__REQUEST__OP_MKDIR]    = { "mkdir",    OP_CHANGES,  op_mkdir    },
	[KODA__REQUEST__OP_REMOVE]   = { "remove",   OP_CHANGES,  op_remove   },
	[KODA__REQUEST__OP_RENAME]   = { "rename",   OP_CHANGES,  op_rename   },
	[KODA__REQUEST__OP_EXPLAIN]  = { "explain",  0,           op_explain  },
	[KODA__REQUEST__OP_RECOVER]  = { "recover",  0,           op_recover  },
	[KODA__REQUEST__OP_RECORD]   = { "record",   0,           op_record   },
	[KODA__REQUEST__OP_SCAN]     = { "scan",     0,           op_scan     },
	[KODA__REQUEST__OP_COMPARE]  = { "compare",  0,           op_compare  },
	[KODA__REQUEST__OP_GUARDED]  = { "guarded",  0,           op_guarded  },
	[KODA__REQUEST__OP_CHANGES]  = { "changes",  0,           op_changes  },
	[KODA__REQUEST__OP_READ_DRAFT] = { "read_draft", 0,       op_read_draft },
	[KODA__REQUEST__OP_SWAP]     = { "swap",     OP_CHANGES,  op_swap     },
	[KODA__REQUEST__OP_MERGE]    = { "merge",    0,           op_merge    },
};
/* clang-format on */

const struct role role_files = {
	.ops = ops,
	.n_ops = N_ELEMENTS(ops),
	.changes = true,
	.fds_max = FDS_MAX,
	.data_max = DATA_MAX,
	.judge = session_judge_led,
	.end = keep_now_end,
};
