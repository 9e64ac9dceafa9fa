/*
 * What a command left in a git directory that has git not show something to a person who reviews: no harm by itself, and
 * so not taken away, but told. Compared by what counts in it, not by its times: git itself writes these files.
 */
#ifndef KODA_WORKER_SCAN_HIDES_H
#define KODA_WORKER_SCAN_HIDES_H

#include "worker/scan/scan.h"

struct hides;

struct hides *hides_new(void);
void hides_free(struct hides *h);

/* The git directory at that canonical path is as it should be: what it hides now is the user's to hide. */
void hides_learn(struct scan *sc, struct hides *h, const char *git_dir);
/* Tell what it hides that it did not hide the last time. */
void hides_compare(struct scan *sc, struct hides *h, const char *git_dir);

#endif
