/* One thing that a command planted, or may have planted: judged by what is in it, and taken away or made harmless. */
#ifndef KODA_WORKER_PLANT_H
#define KODA_WORKER_PLANT_H

#include "worker/scan.h"

struct plant {
	enum what what;
	int dir_fd; /* open for reading: the directory that holds it */
	const char *name, *path;
	struct stat st; /* what was seen there */
	bool ours;      /* it is what we made of it the last time */
};

enum plant_end {
	PLANT_GONE,  /* nothing of that name is there any more */
	PLANT_KEPT,  /* it is harmless as it is now; p->ours and p->st say what is there */
	PLANT_LEFT,  /* it is still there, and was told */
	PLANT_AGAIN, /* somebody else put something in its place meanwhile */
};

enum plant_end plant_judge(struct scan *sc, struct plant *p);

/* What stands in a small regular file, or NULL with errno (EFBIG, EINVAL for no file); the caller's, ended by a NUL. */
char *plant_read(int dir_fd, const char *name, size_t max, struct stat *ret_st, size_t *ret_len);

#endif
