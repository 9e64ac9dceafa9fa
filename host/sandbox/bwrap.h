/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coarse view and the namespaces -> bubblewrap's arguments. Pure: no fork, no I/O; golden files
 * test it. The only place that knows bubblewrap's flags.
 *
 * What must not show on a command line that other users can read is not on it: bwrap gets it
 * through --args FD, so argv contains only a number.
 */
#ifndef KODA_HOST_SANDBOX_BWRAP_H
#define KODA_HOST_SANDBOX_BWRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct bwrap_writable {
	const char *path; /* where it appears */
	/* An O_PATH descriptor of it that bwrap inherits (--bind-fd); -1: bind by path. */
	int fd;
	bool drafted; /* read-only: stage2 mounts a draft over it */
};

struct bwrap_input {
	const struct bwrap_writable *writable;
	size_t n_writable;
	/* Places that have to be visible, read-only, although a private file system (/tmp, /run)
	 * covers them: the root, for example, when commands may write nothing in it. Entries that
	 * no private file system covers are ignored. */
	const char *const *shown;
	size_t n_shown;
	const char *certificates; /* its path on the host, or NULL; appears as BWRAP_CERTIFICATES */
	/* For stage2/caches, which hides both: the directory that contains all caches, and the
	 * directory that contains the project's layers of them. NULL: none. */
	const char *caches, *layers;
	int caches_fd, layers_fd; /* O_PATH descriptors that bwrap inherits; -1: bind by path */
	/* For stage2/drafts, which hides it: the draft's directory, or NULL; the same. */
	const char *draft;
	int draft_fd;
	int stage2_fd; /* the stage2 program; run as /proc/self/fd/N */
	unsigned uid;  /* for the runtime directory /run/user/N */
};

#define BWRAP_CERTIFICATES "/run/koda/certificates"
#define BWRAP_CACHES       "/run/koda/caches"
#define BWRAP_LAYERS       "/run/koda/layers"
#define BWRAP_DRAFT        "/run/koda/draft"

struct bwrap_arguments {
	char **v;       /* arguments, without argv[0]; ends with NULL */
	char **comment; /* one for each argument, "" for none: `policy` prints them */
	size_t n;
	/* So many of them go through --args FD; the rest, "--" and the program, go on the command
	 * line. */
	size_t n_options;
};

/* Returns 0 with *ret, which the caller owns, or -1 with *err set. */
int bwrap_arguments(const struct bwrap_input *in, struct bwrap_arguments *ret,
    struct koda_error *err);
/* The same, with argv[0], for a program that bubblewrap starts with the capabilities that stage2 has
 * and a coarse view: `launch bwrap ... /proc/self/fd/program_fd --try-kept`. */
int bwrap_trial_arguments(const char *launch, const char *bwrap, int program_fd,
    struct bwrap_arguments *ret, struct koda_error *err);
void bwrap_arguments_done(struct bwrap_arguments *a);

/* The view's private file systems, outermost first; ends with NULL. */
extern const char *const bwrap_private[];

#endif
