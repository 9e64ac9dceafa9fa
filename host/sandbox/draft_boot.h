/* SPDX-License-Identifier: Apache-2.0 */
/* The draft of a sandbox: opened with the sandbox, and passed to bwrap and stage2 at each boot. */
#ifndef KODA_HOST_SANDBOX_DRAFT_BOOT_H
#define KODA_HOST_SANDBOX_DRAFT_BOOT_H

#include "host/sandbox/state.h"

/* Open the draft with that id, or make one ("") of what the view's commands write. Call it once, after
 * the view was planned. Returns 0, or -1 with *err set. */
int draft_boot_open(struct sandbox *sb, const char *id, struct koda_error *err);
/* Close the draft. One that no sandbox has been able to use does not stay. */
void draft_boot_close(struct sandbox *sb);
/* Returns true if commands change a draft instead of the project. */
bool draft_boot_any(const struct sandbox *sb);

/* Prepare the draft for this boot: add an O_PATH descriptor of the draft's directory to fds, and set *ret to its number in bwrap, which
 * has the first of fds as descriptor `first`; -1: there is no draft. Returns 0, or -1 with *err
 * set. */
int draft_boot_fd(const struct sandbox *sb, int *ret, int first, int *fds, size_t *n_fds,
    struct koda_error *err);

/* Boot.drafts, and the memory that it refers to. */
struct draft_boot {
	Koda__Drafts message;
	Koda__DraftPlace place[DRAFT_DIRS_MAX], *list[DRAFT_DIRS_MAX];
};
/* Fill it in. It points into the sandbox. */
void draft_boot_fill(const struct sandbox *sb, struct draft_boot *ret);
/* Take over what stage2 reports of the draft. Returns 0, or -1 with *err set. */
int draft_boot_told(struct sandbox *sb, const Koda__Booted *booted, struct koda_error *err);

#endif
