/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/mend.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/holders.h"
#include "stage2/links.h"
#include "stage2/place_watch.h"
#include "stage2/procs.h"
#include "stage2/strangers.h"
#include "stage2/view.h"

/* The event arrives when a rename on the host begins, and the name does not exist until the
 * rename is complete. Waiting costs this time if a file was removed for good. */
#define REPAIR_WAIT_US 10000
#define REPAIR_STEP_US 100

static void
replacements_done(struct replacements *r)
{
	free(r->v);
}

static bool
collect_damaged(const struct place_watch *w, const struct slot_view *v, struct replacements *ret)
{
	ret->v = calloc(v->n, sizeof(*ret->v));
	if (ret->v == NULL)
		return false;
	for (size_t i = 0; i < v->n; i++) {
		const struct view_entry *e = &v->entry[i];
		struct replaced *r = &ret->v[ret->n];
		struct stat st;

		if (!place_watch_is_damaged(w, v, i))
			continue;
		*r = (struct replaced){ .entry = i,
			.dev = { e->mounted_dev },
			.ino = { e->mounted_ino },
			.content = e->kind != KODA__MOUNT_KIND__MOUNT_KIND_PIN &&
			    e->kind != KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE,
			.hidden = e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE,
			.again = e->uncovered,
			.came = !e->there && e->mounted_ino == 0 };
		/* The place has just appeared: until it is hidden, a process can open it. */
		if (!e->there && lstat(e->path, &st) == 0) {
			r->dev[0] = st.st_dev;
			r->ino[0] = st.st_ino;
			r->directory = S_ISDIR(st.st_mode);
		}
		ret->n++;
	}
	return true;
}

static void
repair_damaged(struct stage2 *s, const struct replacements *gone)
{
	uint64_t until = monotonic_us() + REPAIR_WAIT_US;
	const struct timespec step = { 0, REPAIR_STEP_US * 1000 };
	struct koda_error err = { 0 };
	size_t lost;

	for (;;) {
		/* view_repair() mounts only entries whose mount has disappeared, so a place
		 * that came back after it was lost has to look like one. */
		for (size_t i = 0; i < gone->n; i++) {
			struct view_entry *e = &s->view->entry[gone->v[i].entry];

			if (e->there)
				continue;
			e->there = true;
			e->mount_id = -1;
		}
		lost = 0;
		if (view_repair(s->view, &lost, &err) < 0)
			_exit(1); /* what is writable is unknown now: end everything */
		links_plan(s->links, s->view);
		if (lost == 0 || monotonic_us() >= until)
			return;
		nanosleep(&step, NULL);
	}
}

static Koda__EventKind
kind_of(const struct view_entry *e, const struct replaced *r)
{
	if (!e->there)
		return KODA__EVENT_KIND__EVENT_KIND_LOST;
	return r->came && r->hidden ? KODA__EVENT_KIND__EVENT_KIND_HIDDEN
				    : KODA__EVENT_KIND__EVENT_KIND_REMOUNTED;
}

void
mend_places(struct stage2 *s)
{
	cleanup(procs_done) struct procs all = PROCS_EMPTY;
	cleanup(replacements_done) struct replacements gone = { 0 };
	struct place_watch *w = s->watch;
	struct slot_view *v = s->view;
	uint64_t begun = monotonic_us(), took, ended;

	/* The mounts do not wait until all have stopped: processes that wake each other up with
	 * SIGCONT, or are so many that checking them takes long, must not delay the mounts. */
	if (procs_stop_begin() < 0 || !collect_damaged(w, v, &gone))
		_exit(1); /* what is writable is unknown now: end everything */
	repair_damaged(s, &gone);
	/* A process that still runs could pass what it holds to a child that is not checked. */
	if (procs_stop_wait_for_all(s->proc_fd, &all, strangers_is_ours, s) < 0)
		_exit(1);
	for (size_t i = 0; i < gone.n; i++) {
		const struct view_entry *e = &v->entry[gone.v[i].entry];
		struct stat st;

		if (!e->there)
			continue;
		gone.v[i].dev[1] = e->mounted_dev;
		gone.v[i].ino[1] = e->mounted_ino;
		gone.v[i].directory = lstat(e->path, &st) == 0 && S_ISDIR(st.st_mode);
	}
	ended = holders_end(s, &gone, &all);
	procs_go_on(&all);
	took = monotonic_us() - begun;
	for (size_t i = 0; i < gone.n; i++) {
		size_t n = gone.v[i].entry;
		const struct view_entry *e = &v->entry[n];

		if (!gone.v[i].again || !e->there || ended > 0) {
			stage2_event(s, kind_of(e, &gone.v[i]), e->path, took, ended);
			ended = 0;
		}
		v->entry[n].uncovered = false;
		if (n < w->n_places) {
			w->place[n].lost = !e->there;
			w->place[n].told = false;
			place_watch_hook(w, v, n);
		}
	}
}
