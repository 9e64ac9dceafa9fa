/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_options.h"

/* clang-format off */
static const struct opt_spec draft_specs[N_DRAFT_OPTS] = {
	[DRAFT_OPT_ALL]   = { "--all", 0, NULL, "those of all roots, not only of this one" },
	[DRAFT_OPT_STAT]  = { "--stat", 0, NULL, "only how many lines of each file changed" },
	[DRAFT_OPT_COLOR] = { "--color", 0, "WHEN", "use colours: auto, always or never" },
	[DRAFT_OPT_TAKE]  = { "--take", 0, "WHICH", "where both changed: merge, draft or project" },
};
/* clang-format on */
const struct opt_table drafts_options = { draft_specs, N_DRAFT_OPTS, 1u << DRAFT_OPT_ALL };
const struct opt_table draft_diff_options = { draft_specs, N_DRAFT_OPTS,
	1u << DRAFT_OPT_STAT | 1u << DRAFT_OPT_COLOR };
const struct opt_table draft_apply_options = { draft_specs, N_DRAFT_OPTS, 1u << DRAFT_OPT_TAKE };

/* clang-format off */
static const struct opt_spec quarantine_specs[N_QUARANTINE_OPTS] = {
	[QUARANTINE_OPT_ALL]   = { "--all", 0, NULL, "those of all roots, not only of this one" },
	[QUARANTINE_OPT_OLDER] = { "--older", 0, "DAYS", "what was taken away more than DAYS days ago" },
};
/* clang-format on */
const struct opt_table quarantine_list_options = { quarantine_specs, N_QUARANTINE_OPTS,
	1u << QUARANTINE_OPT_ALL };
const struct opt_table quarantine_delete_options = { quarantine_specs, N_QUARANTINE_OPTS,
	1u << QUARANTINE_OPT_ALL | 1u << QUARANTINE_OPT_OLDER };

/* clang-format off */
static const struct opt_spec history_specs[N_HISTORY_OPTS] = {
	[HISTORY_OPT_ALL]       = { "--all", 0, NULL, "those of all roots, not only of this one" },
	[HISTORY_OPT_LAST]      = { "--last", 0, NULL, "the last entry of this root" },
	[HISTORY_OPT_SINCE]     = { "--since", 0, "TIME", "what was changed since TIME: 30m, 2h, 3d, 14:30, 2026-01-31" },
	[HISTORY_OPT_OVERWRITE] = { "--overwrite", 0, NULL, "also where something changed since; that is kept in the history" },
};
/* clang-format on */
const struct opt_table history_options = { history_specs, N_HISTORY_OPTS, 1u << HISTORY_OPT_ALL };
const struct opt_table undo_options = { history_specs, N_HISTORY_OPTS,
	1u << HISTORY_OPT_LAST | 1u << HISTORY_OPT_SINCE | 1u << HISTORY_OPT_OVERWRITE };
const struct opt_table redo_options = { history_specs, N_HISTORY_OPTS,
	1u << HISTORY_OPT_LAST | 1u << HISTORY_OPT_OVERWRITE };
