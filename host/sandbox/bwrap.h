/*
 * The coarse view and the namespaces -> bubblewrap's arguments. Pure: no fork, no I/O; golden files test it.
 * The only place that knows bubblewrap's flags.
 *
 * Whatever a command line of another user could show is not in it: bwrap gets this through --args FD, so argv has
 * a number only.
 */
#ifndef KODA_HOST_SANDBOX_BWRAP_H
#define KODA_HOST_SANDBOX_BWRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct bwrap_writable {
	const char *path; /* where it appears */
	int fd; /* an O_PATH descriptor of it that bwrap inherits (--bind-fd); -1: by path */
};

struct bwrap_input {
	const struct bwrap_writable *writable;
	size_t n_writable;
	/* Places that have to be seen, read-only, although they are in a place that a private file system
	 * covers (/tmp, /run): where the root is, when nothing in it may be written. Others are left out. */
	const char *const *shown;
	size_t n_shown;
	const char *certificates; /* on the host, or NULL; appears as BWRAP_CERTIFICATES */
	/* For stage2/caches, which hides both: the directory that all caches are in, and where the project's layers of them are.
	 * NULL: none. */
	const char *caches, *layers;
	int caches_fd, layers_fd; /* O_PATH descriptors that bwrap inherits; -1: by path */
	int stage2_fd;            /* the program; run as /proc/self/fd/N */
	unsigned uid;             /* for the runtime directory /run/user/N */
};

#define BWRAP_CERTIFICATES "/run/koda/certificates"
#define BWRAP_CACHES       "/run/koda/caches"
#define BWRAP_LAYERS       "/run/koda/layers"

struct bwrap_arguments {
	char **v;       /* arguments, without argv[0]; ends with NULL */
	char **comment; /* one for each, "" for none: `policy` prints them */
	size_t n;
	size_t
	    n_options; /* of them go through --args FD; the rest, "--" and the program, on the command line */
};

/* 0 with *ret the caller's, or -1 with *err set. */
int bwrap_arguments(const struct bwrap_input *in, struct bwrap_arguments *ret,
    struct koda_error *err);
void bwrap_arguments_done(struct bwrap_arguments *a);

/* Private file systems of the view, outermost first; NULL at the end. */
extern const char *const bwrap_private[];

#endif
