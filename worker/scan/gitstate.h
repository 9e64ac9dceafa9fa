/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the text of a file in a git directory is harmless: refs, and lists of paths that
 * git will read or write. Text is harmful if it makes git leave the worktree, or write to a file of
 * the git directory that is not a ref. Pure: reads no file.
 *
 * Each function returns true if git may read the text. For text that git itself refuses, it may
 * return either.
 */
#ifndef KODA_WORKER_SCAN_GITSTATE_H
#define KODA_WORKER_SCAN_GITSTATE_H

#include <stdbool.h>
#include <stddef.h>

/* A path in an index: below the worktree and not in a git directory. It may end with one slash (a
 * sparse directory). */
bool gitstate_is_path(const char *path);

/*
 * A ref. When git writes a symbolic ref, it writes the file that the ref names, so that has to be a
 * ref too: "ref: refs/...". Text that does not begin with "ref:" is not a symbolic ref and passes.
 */
bool gitstate_is_ref(const char *text, size_t len);

/* MERGE_RR: the next `git commit` reads and writes the paths that it lists. */
bool gitstate_is_merge_rr(const char *text, size_t len);

/* BISECT_NAMES: only words in single quotes, because older versions of git let a shell read the
 * file. */
bool gitstate_is_quoted(const char *text, size_t len);

/* author-script of a rebase: three variables with values in single quotes. */
bool gitstate_is_author(const char *text, size_t len);

/* update-refs of a rebase: the refs that it will write, three lines for each. */
bool gitstate_is_updates(const char *text, size_t len);

/* strategy_opts of a rebase: words "--NAME[=VALUE]", perhaps in quotes, and only options that git
 * merge knows. A merge program would pass others on to `git read-tree`; older versions of git let a
 * shell read the file. */
bool gitstate_is_merge_options(const char *text, size_t len);
/* One of them, without "--". */
bool gitstate_is_merge_option(const char *word, size_t len);

/* apply-opt of `git am`: options of `git apply` in quotes, only those that `git am` accepts and
 * that name no file. */
bool gitstate_is_apply_options(const char *text, size_t len);

/* The todo list of a rebase: only steps that git performs itself, none that it passes to a shell. */
bool gitstate_is_todo(const char *text, size_t len);

/* The function for a file of that name in a git directory; NULL if the name has no meaning. */
typedef bool gitstate_fn(const char *text, size_t len);
gitstate_fn *gitstate_list_of(const char *name);
/* The files in rebase-merge, rebase-apply and sequencer. The last row has no name. */
struct gitstate_file {
	const char *name;
	gitstate_fn *is_good;
};
extern const struct gitstate_file gitstate_rebase[];

#endif
