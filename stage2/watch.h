/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices when processes outside change the places of the plan. A rename or unlink on the host
 * detaches a mount that is on the file, in every namespace; poll() on our mountinfo reports that
 * within a fraction of a millisecond. Then stage2 stops every process of the slot, mounts again,
 * ends the processes that still hold what was replaced open for writing, continues the others (a
 * process that was stopped before stays stopped), and reports it. This is detection, not
 * prevention; SECURITY.md says so.
 *
 * It also notices when missing places of the plan appear (by a notice from the nearest existing
 * directory). It hides a place that is to be hidden at once, and reports any other, so that the
 * host has a worker check it at once.
 */
#ifndef KODA_STAGE2_WATCH_H
#define KODA_STAGE2_WATCH_H

#include "stage2/stage2.h"

/* The list of mounts (place_watch_mountinfo_fd()) has changed. */
void watch_mounts_changed(struct stage2 *s);
/* A signal of stage2/notice.h arrived. fd is the descriptor of that directory; -1: any. */
void watch_names_changed(struct stage2 *s, int fd);
/* Check what the kernel does not signal. Called before a command starts, and every
 * WATCH_BLIND_MS while one runs. */
#define WATCH_BLIND_MS 50
void watch_look(struct stage2 *s);
/* A command is about to start: all that is to be hidden is hidden when this returns. */
void watch_busy(struct stage2 *s);
/* No command runs any more, and this has not been reported to the host yet. */
void watch_idle(struct stage2 *s);

#endif
