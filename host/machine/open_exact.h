/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a path that was made canonical earlier without following any link: since then, a command
 * may have put a link where a component of the path was.
 */
#ifndef KODA_HOST_MACHINE_OPEN_EXACT_H
#define KODA_HOST_MACHINE_OPEN_EXACT_H

/* Like open(path, flags | O_CLOEXEC). Returns -1 with errno; ELOOP or ENOTDIR if there is a link
 * now. */
int open_exact(const char *path, int flags);

#endif
