/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May what a draft holds come to the project as it is? Commands made it, inside a user namespace of
 * their own and on an overlay, so it may have what nothing in a project should get from them.
 */
#ifndef KODA_WORKER_DRAFT_FIT_H
#define KODA_WORKER_DRAFT_FIT_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fit {
	/* Why not; NULL: it may. Static text. */
	const char *rule, *reason;
	bool marked; /* it has attributes of overlayfs, which fit_strip() removes */
};

/*
 * Looks at a file or link, whose state is *st. dir: O_PATH; the working directory is /proc/self/fd.
 * What another process puts there meanwhile is found after it was moved. Refuses
 * what is neither a regular file nor a link, set-user-ID and set-group-ID files, files with
 * capabilities, and what belongs to another user. Returns 0, or -1 with errno.
 *
 * Its number of links says nothing: all names of an inode of the draft are in the draft. The overlay
 * is a file system of its own, so link(2) from or to anywhere else fails; and what is in the project
 * under several names is copied before it gets another name in the draft.
 */
int fit_look(int dir, const char *name, const struct stat *st, uid_t me, struct fit *ret);

/* Removes the attributes of overlayfs; needs the owner's permission to write. Returns 0, or -1 with
 * errno. */
int fit_strip(int fd);

/* Is it an attribute of overlayfs? */
bool fit_is_mark(const char *attribute);

#endif
