/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds settings in a git directory with which a command has git hide something from a user who
 * reviews. They do no harm by themselves, so they are reported, not taken away. They are compared
 * by their content, not by file times, because git itself writes these files.
 */
#ifndef KODA_WORKER_SCAN_HIDES_H
#define KODA_WORKER_SCAN_HIDES_H

struct scan;

struct hides;

struct hides *hides_new(void);
void hides_free(struct hides *h);

/* Record what the git directory at that canonical path hides now as intended by the user. */
void hides_learn(struct scan *sc, struct hides *h, const char *git_dir);
/* Report what the git directory hides now and did not hide at the last comparison. */
void hides_compare(struct scan *sc, struct hides *h, const char *git_dir);

#endif
