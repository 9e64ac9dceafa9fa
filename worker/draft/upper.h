/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One name in the upper directory of an overlay (with `userxattr`, without metacopy and redirects):
 * what does it do to the name in the project? Commands wrote what is there, so anything may be.
 */
#ifndef KODA_WORKER_DRAFT_UPPER_H
#define KODA_WORKER_DRAFT_UPPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum upper_kind {
	UPPER_NONE,   /* nothing: the name is gone, or a part of overlayfs's own */
	UPPER_FILE,   /* a regular file, whole */
	UPPER_DIR,    /* a directory; what is in the project's stays visible */
	UPPER_OPAQUE, /* a directory; what is in the project's is deleted, apart from its own names */
	UPPER_LINK,   /* a symbolic link */
	UPPER_DELETED, /* the name in the project is deleted */
	UPPER_SPECIAL, /* a socket, a FIFO, a device: never applied */
	UPPER_UNKNOWN, /* overlayfs has marked it in a way that this code does not know */
};

struct upper {
	enum upper_kind kind;
	struct stat st;    /* of the upper name */
	int64_t birth_ns;  /* when overlayfs made it; 0: this file system does not record that */
	bool copied_up;    /* a file that overlayfs copied from the project, and not a new one */
	bool capabilities; /* a file that has capabilities (security.capability) */
};

/*
 * Looks at `name` in `dir`, without following a link. proc_fd: /proc/self/fd, which has to be the
 * working directory, for attributes. Returns 0, or -1 with errno.
 */
int upper_look(int proc_fd, int dir, const char *name, struct upper *ret);

/* A name in the project. */
struct upper_stat {
	struct stat st;
	int64_t birth_ns; /* 0: not recorded */
	bool mounted;     /* another file system is mounted there */
};
/* Looks at a name without following a link. Returns 0, or -1 with errno. */
int upper_stat(int dir, const char *name, struct upper_stat *ret);

#endif
