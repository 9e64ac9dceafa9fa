/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell scripts that run git for a worktree (host/copy/worktree), in a sandbox. Their variables:
 *
 *	KODA_GIT     the git directory of the project's worktree, with its HEAD
 *	KODA_COMMON  the git directory that all worktrees share
 *	KODA_TREE    the worktree
 *	KODA_BRANCH  its branch
 *	KODA_BASE    the commit that it began with
 *
 * Two ways to run git, and neither runs a program of the project:
 *
 *	project      in the project's repository, to read and set references. It reads the project's
 *	             configuration, of which hooks, monitors, helpers and other programs are replaced
 *	             here. It never reads or writes a file of a worktree, so no filter is asked for.
 *	clean        in an empty repository with the project's objects, made for this run and without
 *	             any configuration, to write and compare files: a filter, a textconv or a merge
 *	             driver that attributes name has no program there. Its index is made from a commit,
 *	             because an agent may have set flags in the worktree's index that hide changes.
 */
#ifndef KODA_HOST_COPY_WORKTREE_SCRIPT_H
#define KODA_HOST_COPY_WORKTREE_SCRIPT_H

/* Print the commit that HEAD is. Status 3: there is none. */
extern const char worktree_script_base[];
/* Make the branch at KODA_BASE and the worktree, in KODA_TREE, an empty directory. */
extern const char worktree_script_add[];
/* Print what is in the worktree, as lines "NAME NUMBER". */
extern const char worktree_script_look[];
/* Commit what is in the worktree; prints the same. Status 3: it cannot be committed. */
extern const char worktree_script_commit[];
/* Remove the branch if it is where KODA_EXPECTED is ("": wherever it is). Status 3: it is not. */
extern const char worktree_script_remove[];

#endif
