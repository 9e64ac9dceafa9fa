/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the changes of a draft: the summary that a person decides on, diffs, and git's --stat. Names,
 * targets and contents are escaped (show/page.h). Writes only to the page; reads through the reader.
 */
#ifndef KODA_CLI_CHANGES_SHOW_H
#define KODA_CLI_CHANGES_SHOW_H

#include "cli/changes.h"
#include "show/page.h"

/* A larger file is shown by its size: 4 MiB. */
#define CHANGES_CONTENT_MAX (4u << 20)

struct changes_view {
	const struct changes *changes;
	const struct changes_reader *reader;
	const char *root, *cwd; /* cwd NULL: there is none. Names below it are shown without it. */
};

/* Returns the path as a user would type it: relative if it is below the current directory. */
const char *changes_shown(const struct changes_view *view, const char *path);

/*
 * Returns the part of a refusal's sentence that a person needs beside the path, which the caller
 * shows itself: what a tool would do with the file, or else what follows "refused to write 'PATH': ".
 * *ret_has_rule: it names the rule.
 */
const char *changes_reason(const char *reason, const char *path, const char *rule,
    bool *ret_has_rule);

/*
 * Writes one line with counts, then a line for each unit: the most important ones first, at most
 * SUMMARY_MAX of them, and at the end those that need attention: conflicts and what the policy
 * refuses.
 */
#define SUMMARY_MAX 30
void changes_show_summary(struct page *page, const struct changes_view *view);
/* Writes the counts alone: "2 changed, 1 created; 1 refused". */
void changes_show_counts(struct page *page, const struct changes *c);

/* Writes a line for each note of the changes, at most max of them. */
void changes_show_notes(struct page *page, const struct changes_view *view, size_t max);

/* Writes a unit's line. */
void changes_show_unit(struct page *page, const struct changes_view *view,
    const struct change_unit *unit);

/*
 * Writes the changes of the units from first to before end, each with its diff, at most max of them.
 * patch: with the two lines that begin a file in a patch.
 */
void changes_show_diffs(struct page *page, const struct changes_view *view, size_t first,
    size_t end, size_t max, bool patch);
/* Writes one row with its diff. */
void changes_show_diff(struct page *page, const struct changes_view *view,
    const struct change_row *row, bool patch);

/* The content of one change, for a diff. Call changes_sides_done(). */
struct changes_sides {
	struct changes_content was, is;
	bool readable; /* both sides are regular files or nothing, and were read in full */
	bool binary;
};
void changes_sides_read(struct changes_sides *sides, const struct changes_view *view,
    const struct change_row *row);
void changes_sides_done(struct changes_sides *sides);

/* Writes a line for each file with the number of its lines, and a last line with the sums. */
void changes_show_stat(struct page *page, const struct changes_view *view);

#endif
