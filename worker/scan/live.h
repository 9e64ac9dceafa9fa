/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the repositories that the host's git enters while commands run, and what their indexes
 * hide.
 *
 * git on the host enters a nested repository only if the index around it has an entry for it (a
 * gitlink), or if git is started in it. So the scan judges what commands make elsewhere only after
 * they have ended, and leaves git's own work there undisturbed. What they make at a root, in a
 * directory that existed before, or where an index names a repository, it judges many times a
 * second. The same goes for missing paths that an existing configuration names: hooks, an included
 * file. Commands run meanwhile, so the scan takes away only what does harm, and
 * rewrites nothing harmless.
 */
#ifndef KODA_WORKER_SCAN_LIVE_H
#define KODA_WORKER_SCAN_LIVE_H

struct scan;

/* Limits on repositories, and on paths named by indexes. If an index has more, every place counts
 * as live. */
#define LIVE_REPOS_MAX 4096
#define LIVE_LINKS_MAX 10000
/* Paths per look, five microseconds each. The next look takes the rest. */
#define LIVE_LOOK_MAX 256

struct live;

struct live *live_new(void);
void live_free(struct live *live);

/* Add the git directory at that canonical path, which existed before commands ran or is mounted
 * now. */
void live_add(struct scan *sc, struct live *live, const char *git_dir);
/* Add repositories above a scanned root: their indexes may name paths in it. */
void live_add_above(struct scan *sc, struct live *live, const char *root);

/* Something happened in that directory, which existed before: it may have become a repository, or
 * received one. */
void live_came(struct scan *sc, struct live *live, const char *dir, int dir_fd);

/* Judge what the host's git would use now, gently (scan_is_gentle()). Returns 0, or 1 if an index
 * cannot be read and the caller has to compare everything. */
int live_look(struct scan *sc, struct live *live);

#endif
