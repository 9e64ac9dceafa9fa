/*
 * A directory as commands see it, in which some names never appear: for places that are to be hidden and do not exist
 * yet. Nothing can be mounted on a name that does not exist, and a watch that mounts when it appears loses against a
 * command that reads all the time. So what is mounted is a file system of our own on the nearest directory that exists,
 * in which each other name is bound to what it is on the host. A name that nobody has bound cannot be reached.
 *
 * What appears, is replaced or is removed on the host is looked at after a signal (stage2/notice.h) and bound then, so
 * commands see it a moment later; before the next command starts in any case. A directory on the way to a hidden name
 * becomes a directory of the mirror with the same property when it appears. A link on the way is not shown.
 *
 * Only for directories that no command may write: what a command made in one would be lost.
 */
#ifndef KODA_STAGE2_MIRROR_H
#define KODA_STAGE2_MIRROR_H

#include <stdbool.h>

/* Of one mirror. Each is a mount of some microseconds; a policy that wants more in one directory is refused. */
#define MIRROR_NAMES_MAX 4096

struct mirror;

/* Does the plan have a mount at that path or below it? Then what is bound there stays when the host replaces it: the
 * new one would come without the mount. */
typedef bool mirror_pinned_fn(const void *data, const char *path);

/* Of the directory at that canonical path. NULL: no memory. */
struct mirror *mirror_new(const char *path, mirror_pinned_fn *pinned, const void *data);
void mirror_free(struct mirror *m);

/* A path below it (relative) that never appears. Before it is attached. */
int mirror_hide(struct mirror *m, const char *rel);

/* Mount it on the directory behind at (O_PATH), with all that is in it. What it was attached to before is forgotten.
 * Returns the descriptor of its mount, the mirror's own, or -1 with errno: E2BIG when there are too many names. */
int mirror_attach(struct mirror *m, int at);

/* A directory has changed: fd is the number that the signal gave, -1 any. Look again, if it is one of ours. */
void mirror_changed(struct mirror *m, int fd);

/* Look again if there is a directory whose changes are not signalled. */
void mirror_catch_up(struct mirror *m);

#endif
