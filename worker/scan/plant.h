/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that a command planted, or may have planted: reading it, taking it away, replacing it.
 * plant_judge.h decides which. */
#ifndef KODA_WORKER_SCAN_PLANT_H
#define KODA_WORKER_SCAN_PLANT_H

#include "worker/files/resolve.h"
#include "worker/scan/scan_found.h"

struct scan;

struct plant {
	enum what what;
	int dir_fd; /* the directory that holds it, open for reading */
	const char *name, *path;
	struct stat st; /* as last seen */
	bool ours;      /* it is what the scan made of it the last time */
	bool unclear;   /* unreadable, and kept because a program may still be writing it */
};

enum plant_end {
	PLANT_GONE,  /* nothing of that name exists any more */
	PLANT_KEPT,  /* it is harmless now; p->ours and p->st describe it */
	PLANT_LEFT,  /* it is still there, and was reported */
	PLANT_AGAIN, /* another process has replaced it meanwhile */
};

/* Move it to quarantine and report it. `why`: what it would do on the host, or NULL. */
enum plant_end plant_take_away(struct scan *sc, const struct plant *p, const char *why);
/* Report with errno that it stays. */
enum plant_end plant_left(struct scan *sc, const struct plant *p);
/*
 * Replace the file by a new one with the same name: a process that holds the old file open writes
 * to nothing visible, and a second name keeps the old inode. If keep_old, the old file stays under
 * the name stored in aside. Returns 0, 1 if the name belonged to another file by then, -1 with
 * errno.
 */
int plant_write_anew(struct scan *sc, struct plant *p, const char *text, size_t len, bool keep_old,
    char *aside, size_t aside_size);
/* The text is harmless, but a process that has the file open must not be able to change it
 * later. */
enum plant_end plant_keep_fresh(struct scan *sc, struct plant *p, const char *text, size_t len);

/* Store the parent directory of a canonical path. */
void plant_dir_of(const char *path, char ret[PATH_LEN_MAX + 1]);
bool plant_same_inode(const struct stat *a, const struct stat *b);
/* Returns true if a path in a file of the git directory `dir` leads below a scanned root, whether
 * or not anything exists there. The caller releases *at. */
bool plant_leads_below(struct scan *sc, const char *dir, const char *to, struct place *at);
/* The same, and a directory exists there. */
bool plant_leads_inside(struct scan *sc, const char *dir, const char *to, struct place *at);

/* Returns the content of a small regular file, NUL-terminated and owned by the caller, or NULL with
 * errno: EFBIG, or EINVAL if it is not a regular file. */
char *plant_read(int dir_fd, const char *name, size_t max, struct stat *ret_st, size_t *ret_len);

#endif
