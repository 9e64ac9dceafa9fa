/*
 * Open what a canonical path names, and nothing that a link leads to: between the day on which a path was made canonical and
 * this one, a command may have put a link where a component of it was.
 */
#ifndef KODA_HOST_SLOT_OPEN_EXACT_H
#define KODA_HOST_SLOT_OPEN_EXACT_H

/* As open(path, flags | O_CLOEXEC). -1 with errno, ELOOP or ENOTDIR where there is a link now. */
int open_exact(const char *path, int flags);

#endif
