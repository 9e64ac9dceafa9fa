/*
 * Notices what happens outside to the places of the plan. A rename or unlink on the host detaches a mount that lies
 * on the file, in every namespace: poll() on our mountinfo tells within a fraction of a millisecond. Then: stop every
 * process of the slot, mount again, end who still holds what was replaced open for writing, let go on (who was stopped
 * before stays stopped), report. It is detection, not prevention; SECURITY.md says so.
 *
 * And the appearance of places of the plan that are missing (a notice of the nearest directory that is there): what is
 * to be hidden is hidden at once, the rest is reported, so that the host has a worker look at once.
 */
#ifndef KODA_STAGE2_WATCH_H
#define KODA_STAGE2_WATCH_H

#include "stage2/stage2.h"

struct watch *watch_new(struct koda_error *err);
/* The plan changed: watch for what is missing in it now. To be called before anybody goes on in the new view. */
void watch_plan(struct watch *w, const struct view *v);
/* Descriptor to poll (POLLPRI). */
int watch_mountinfo_fd(const struct watch *w);
void watch_mounts_changed(struct stage2 *s);
/* A signal of stage2/notice.h; fd: of that directory, -1 any. */
void watch_names_changed(struct stage2 *s, int fd);
/* What the kernel does not signal is looked at: before a command starts, and every WATCH_BLIND_MS while one runs. */
#define WATCH_BLIND_MS 50
void watch_look(struct stage2 *s);
/* A command is about to start: all that is to be hidden is hidden when this returns. */
void watch_busy(struct stage2 *s);
/* No command runs any more, and the host has not been told yet. */
void watch_idle(struct stage2 *s);
bool watch_is_blind(const struct watch *w);

#endif
