/*
 * Which repositories the host's git goes into while commands run, and what their indexes hide.
 *
 * git on the host looks into a nested repository only when the index around it has an entry for it (a gitlink), and when
 * it is started in it. So what commands make in other places can wait until they are done, and git's own work in it is
 * not disturbed; what is made where a root is, in a directory that was there before, or where an index says that a
 * repository is, is judged many times a second. So is what a configuration that was there names and what was missing: hooks, an included file. Commands run
 * meanwhile, so only what does harm is taken away: nothing that is harmless is written anew.
 */
#ifndef KODA_WORKER_SCAN_LIVE_H
#define KODA_WORKER_SCAN_LIVE_H

#include "worker/scan/scan.h"

/* Repositories, and paths that indexes name, that are looked at; an index with more makes everything count as live. */
#define LIVE_REPOS_MAX 4096
#define LIVE_LINKS_MAX 10000
/* In one look, the rest in the next: five microseconds each. */
#define LIVE_LOOK_MAX 256

struct live;

/* The canonical path of the directory whose files the index of a git directory lists; the caller's. NULL: there is none. */
char *live_worktree_of(struct scan *sc, int dir_fd, const char *git_dir);

struct live *live_new(void);
void live_free(struct live *live);

/* The git directory at that canonical path was there before commands ran, or is mounted by now. */
void live_add(struct scan *sc, struct live *live, const char *git_dir);
/* What lies above the directories that are looked through, whose index may name paths in them. */
void live_add_above(struct scan *sc, struct live *live, const char *root);

/* Something happened in that directory, which was there before: it may have become a repository, or got one. */
void live_came(struct scan *sc, struct live *live, const char *dir, int dir_fd);

/* Judge what the host's git would use now. 1: an index cannot be read, so that has to be all there is; 0. */
int live_look(struct scan *sc, struct live *live);

#endif
