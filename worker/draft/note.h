/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of a swap, for the worker that comes after this one: symbolic links in `old`, beside what is
 * held, with a few numbers as target. Made in one step, so there are no half notes.
 */
#ifndef KODA_WORKER_DRAFT_NOTE_H
#define KODA_WORKER_DRAFT_NOTE_H

#include <stdint.h>

/* What was copied or made for the place: inode of what was held (0: a directory was made), and device
 * and inode of the copy. */
#define NOTE_COPY "copy"
/* What the layer's file was before the marks of overlayfs were removed: mode, mtime in ns, size. */
#define NOTE_FIT "fit"

#define NOTE_NUMBERS 3

/* Make a note; one that exists is replaced. Returns 0, or -1 with errno. */
int note_put(int old, const char *name, const char *kind, const uint64_t number[NOTE_NUMBERS]);
/* Returns 0, 1 if there is no such note, or -1 with errno. */
int note_get(int old, const char *name, const char *kind, uint64_t ret[NOTE_NUMBERS]);
/* Returns 0, also if there is none; -1 with errno. */
int note_drop(int old, const char *name, const char *kind);

#endif
