/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that only drafts, quarantine and history have. Pure data; those of the searches are in
 * cli/search_args.
 */
#ifndef KODA_CLI_OWN_OPTIONS_H
#define KODA_CLI_OWN_OPTIONS_H

#include "cli/args.h"

enum { DRAFT_OPT_ALL, DRAFT_OPT_STAT, DRAFT_OPT_COLOR, DRAFT_OPT_TAKE, N_DRAFT_OPTS };
enum { QUARANTINE_OPT_ALL, QUARANTINE_OPT_OLDER, N_QUARANTINE_OPTS };
enum {
	HISTORY_OPT_ALL,
	HISTORY_OPT_LAST,
	HISTORY_OPT_SINCE,
	HISTORY_OPT_OVERWRITE,
	N_HISTORY_OPTS
};

extern const struct opt_table drafts_options;
extern const struct opt_table draft_diff_options;
extern const struct opt_table draft_apply_options;
extern const struct opt_table quarantine_list_options;
extern const struct opt_table quarantine_delete_options;
extern const struct opt_table history_options;
extern const struct opt_table undo_options;
extern const struct opt_table redo_options;

#endif
