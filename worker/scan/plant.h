/* One thing that a command planted, or may have planted: judged by what is in it, and taken away or made harmless. */
#ifndef KODA_WORKER_SCAN_PLANT_H
#define KODA_WORKER_SCAN_PLANT_H

#include "worker/scan/scan.h"

struct plant {
	enum what what;
	int dir_fd; /* open for reading: the directory that holds it */
	const char *name, *path;
	struct stat st; /* what was seen there */
	bool ours;      /* it is what we made of it the last time */
	bool unclear;   /* unreadable, and kept because a program may still be writing it */
};

enum plant_end {
	PLANT_GONE,  /* nothing of that name is there any more */
	PLANT_KEPT,  /* it is harmless as it is now; p->ours and p->st say what is there */
	PLANT_LEFT,  /* it is still there, and was told */
	PLANT_AGAIN, /* somebody else put something in its place meanwhile */
};

enum plant_end plant_judge(struct scan *sc, struct plant *p);
/* Move it to quarantine and report it. why: what it would do on the host, or NULL. */
enum plant_end plant_take_away(struct scan *sc, const struct plant *p, const char *why);

/* The directory of a canonical path. */
void plant_dir_of(const char *path, char ret[PATH_LEN_MAX + 1]);
bool plant_same_inode(const struct stat *a, const struct stat *b);
/* Does a path in a file of the git directory dir lead to a place that is looked through, whether or not something is there?
 * *at is the caller's to release. */
bool plant_leads_below(struct scan *sc, const char *dir, const char *to, struct place *at);

/* What stands in a small regular file, or NULL with errno (EFBIG, EINVAL for no file); the caller's, ended by a NUL. */
char *plant_read(int dir_fd, const char *name, size_t max, struct stat *ret_st, size_t *ret_len);

#endif
