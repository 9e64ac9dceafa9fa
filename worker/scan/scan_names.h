/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny_write_names in a scan, and which directories a command has just made.
 *
 * Matching places of the first scan are protected like any other. Those that appear later are taken
 * away, unless they are below a directory that the same command made: a clone, or an unpacked
 * package. There they stay and are reported, once for each such directory.
 *
 * A directory is new as long as the command that made it may still run (an era). A moved directory
 * is not new: its watch shows that. Nor is one that took the place of another: the scan keeps the
 * paths that went away in this era to detect that. If events were lost, or there are more such paths
 * than a set holds (a command throws a tree away), nothing counts as new.
 */
#ifndef KODA_WORKER_SCAN_SCAN_NAMES_H
#define KODA_WORKER_SCAN_SCAN_NAMES_H

#include <dirent.h>

#include "worker/scan/scan_state.h"

bool scan_names_begin(struct scan *sc);
void scan_names_done(struct scan *sc);
/* Build the index of all names. */
int scan_names_ready(struct scan *sc);
/* Returns the rule of names that the entry of that directory matches or, if the entry is a link or
 * a file that leads on, is on the way to. */
struct names_found named_in(const struct scan *sc, int fd, const struct dirent64 *e,
    const char *path, size_t len, uint32_t idx);
/* Returns true if a package manager put it there. The host does not mount such a place; it is only
 * compared. */
bool is_vendored(const struct scan *sc, const char *path);
/* Returns true, and counts them, if there is room for mounts on that path and on the directories
 * above it. */
bool take_mounts(struct scan *sc, const char *path);
/* Record that an entry of that name was made in the directory, was moved there (perhaps over
 * another), or went away. */
void note_made(struct scan *sc, uint32_t idx, const char *name);
void note_moved_to(struct scan *sc, uint32_t idx, const char *name);
void note_gone(struct scan *sc, uint32_t idx, const char *name);
/* Returns the outermost directory that was made in this era and contains the one `up` levels above
 * idx. NONE: the directory at that level existed before, or replaced one that did. */
uint32_t made_with(struct scan *sc, uint32_t idx, size_t up);
/* Record a place that stays because it came with the directory `made`. */
void note_came(struct scan *sc, uint32_t made, const char *path);
void tell_came(struct scan *sc);
void end_era(struct scan *sc);

#endif
