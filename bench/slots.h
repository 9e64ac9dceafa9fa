/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and slots of the groups that measure drafts. */
#ifndef KODA_BENCH_SLOTS_H
#define KODA_BENCH_SLOTS_H

#include <limits.h>

#include <koda/sandbox.h>

/* Make the directory `home` of the group, and set HOME to it. ret_history gets the path of the history
 * that koda-sandbox keeps there. Ends the program on failure. */
void slots_home(const char *root, char ret_history[PATH_MAX]);
/* Both return NULL after printing why. The session is in Auto and has commands. */
struct koda_session *slots_session(const char *root, const char *helpers);
/* A command has run in the slot, so that its sandbox is there. */
struct koda_slot *slots_open(struct koda_session *ses, enum koda_workspace workspace);
/* Runs argv, or if it is NULL the shell's text. Returns 0, or -1 after printing why; an exit status
 * other than 0 is a failure. */
int slots_run(struct koda_slot *slot, const char *const *argv, const char *shell);
/* Release the slot and open its draft. Returns it, or NULL after printing why. */
struct koda_draft *slots_draft(struct koda_session *ses, struct koda_slot *slot);

#endif
