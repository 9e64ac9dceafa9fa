/*
 * Notices what happens outside to the places of the plan. A rename or unlink on the host detaches a mount that lies
 * on the file, in every namespace: poll() on our mountinfo tells within a fraction of a millisecond. Then: stop every
 * process of the slot, mount again, end who still holds what was replaced open for writing, let go on (who was stopped
 * before stays stopped), report. It is detection, not prevention; SECURITY.md says so.
 *
 * And the appearance of places of the plan that are missing (inotify on the nearest directory that is there): reported,
 * so that the host has a worker look at once.
 */
#ifndef KODA_STAGE2_WATCH_H
#define KODA_STAGE2_WATCH_H

#include "stage2/stage2.h"

struct watch *watch_new(struct koda_error *err);
/* The plan changed: watch for what is missing in it now. To be called before anybody goes on in the new view. */
void watch_plan(struct watch *w, const struct view *v);
/* Descriptors to poll: mountinfo (POLLPRI) and inotify (POLLIN). */
int watch_mountinfo_fd(const struct watch *w);
int watch_inotify_fd(const struct watch *w);
void watch_mounts_changed(struct stage2 *s);
void watch_appeared(struct stage2 *s);

#endif
