/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds files of a git directory that can lead git out of it: the index, refs, lists of paths.
 * followed_judge.h decides which of them are harmless. git changes these files all the time, so
 * the host does not mount them and the scan does not remember them: it reads them after something
 * happened in their directory. It does not read the files that were there before the first
 * command.
 */
#ifndef KODA_WORKER_SCAN_FOLLOWED_H
#define KODA_WORKER_SCAN_FOLLOWED_H

#include <stdbool.h>
#include <stddef.h>

struct scan;

/* Returns which kind (enum what) a file of that name in a git directory is, or -1. refs: it is below
 * its refs. */
int followed_what(const char *name, bool refs);
/* Judge all such files of one directory: a git directory or, with `refs`, a directory below its
 * refs. dir_fd is open for listing, and path[0..len) is its canonical path. path has room for
 * PATH_LEN_MAX bytes; the function restores it. */
void followed_look(struct scan *sc, int dir_fd, char *path, size_t len, bool refs);
/* Judge the files with the names that git itself writes: cheap enough to do many times a second. */
void followed_look_live(struct scan *sc, int dir_fd, const char *git_dir);
/* Before the first command: remember the few files that later judgements have to compare with. */
void followed_learn(struct scan *sc, int dir_fd, const char *git_dir);
/* Take away the directory `name` at that path, below refs: it is too deep for the scan to look
 * into. */
void followed_take_far(struct scan *sc, int dir_fd, const char *path, const char *name);

#endif
