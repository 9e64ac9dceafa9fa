/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds files and directories that a tool on the host would run or obey, in the directories in
 * which commands may write. The scan finds them once, watches them, and compares them after each
 * command. It works on descriptors, follows no link and ignores no file.
 *
 * A place that the first scan (or an earlier worker) found is known: the host mounts it read-only,
 * so only a process outside the sandbox can change it, and such a change is only reported. A place
 * that appears later was planted: plant_judge.c makes it harmless. Until the host confirms that it
 * has mounted the reported places, what is left of a plant is judged again each time.
 *
 * The scan watches directories (inotify), so that a comparison reads only those in which something
 * happened. If the kernel has no watches left, or dropped events, the scan walks everything again.
 *
 * From the top down; each part uses only what is below it:
 *
 *	scan_led        what protected places lead to, also in a session without commands
 *	scan            begins and ends a scan: its directories, names, known places
 *	scan_compare    the first scan, and each comparison with it
 *	scan_walk       the way through the directories; scan_entries reads one of them
 *	scan_events     what the kernel reports of them; scan_todo: what is yet to be read
 *	live            what the host's git would use now; hides: what its settings hide, counted
 *	                by hidden
 *	linked_search   other names (hard links) of protected files
 *	followed        finds the files that lead git on
 *	scan_recheck    places that are judged without an event
 *	scan_judge      what happens to a place that was found
 *	plant_judge     the verdict on a plant; followed_judge: on a file that git follows
 *	led             what a place leads to by links; target: what git's configuration names
 *	linked          files with a second name
 *	worktree        how a git directory and its worktree name each other
 *	plant           reading, taking away and replacing one plant
 *	scan_names      deny_write_names, and which directories are new
 *	scan_node       watched directories
 *	scan_results    what there is to report
 *	scan_known      known places and guards
 *	scan_state      the state, and scan_found, what is found: data only
 *	deep, path_set, quarantine, gitconfig, gitvar, gitdir, gitindex, gitpacks, gitstate, hidden
 *	                know nothing of a scan
 */
#ifndef KODA_WORKER_SCAN_SCAN_H
#define KODA_WORKER_SCAN_SCAN_H

#include "proto/worker.pb-c.h"
#include "shared/rules/access.h"
#include "worker/files/resolve.h"
#include "worker/scan/quarantine.h"

struct scan;

struct scan *scan_new(const struct resolver *res, const struct access_subject *who,
    struct quarantine q);
void scan_free(struct scan *sc);

/* Add a directory to scan, by its canonical path. A directory that does not exist is skipped. */
int scan_add_root(struct scan *sc, const char *path, struct koda_error *err);
/* Add a directory in which only the paths that rules name are scanned. Add roots first. */
int scan_add_cache(struct scan *sc, const char *path, struct koda_error *err);
/* Add a file name whose changes are reported. Call this before the first scan. */
int scan_add_told(struct scan *sc, const char *name, struct koda_error *err);
/* Add a place that an earlier worker found. */
int scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err);

#endif
