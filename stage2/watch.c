/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/watch.h"

#include <stdio.h>
#include <unistd.h>

#include "stage2/caches.h"
#include "stage2/linked_places.h"
#include "stage2/lower_names.h"
#include "stage2/mend.h"
#include "stage2/place_watch.h"
#include "stage2/view.h"
#include "stage2/view_entry.h"

void
watch_mounts_changed(struct stage2 *s)
{
	const char *lost = caches_lost(s->view);

	/* The mount cannot be made again while commands run: the host makes another slot. */
	if (lost != NULL) {
		fprintf(stderr,
		    "koda-sandbox-stage2: another process removed '%.200s', on which a cache was "
		    "mounted\n",
		    lost);
		_exit(1);
	}
	/* Our own mounts cause this event as well. */
	if (place_watch_any_damaged(s->watch, s->view))
		mend_places(s);
}

static void
look_at_touched(struct stage2 *s)
{
	struct place_watch *w = s->watch;
	bool damaged = false;

	for (size_t i = 0; i < w->n_places; i++) {
		const struct view_entry *e = &s->view->entry[i];
		struct watched_place *p = &w->place[i];

		if (!p->touched)
			continue;
		p->touched = false;
		place_watch_hook(w, s->view, i);
		if (e->there || p->lost) {
			damaged = damaged || place_watch_is_damaged(w, s->view, i);
			continue;
		}
		if (place_watch_look(s->view, e) == AT_NOTHING) {
			p->told = false;
		} else if (!p->told) {
			p->told = true;
			stage2_event(s, KODA__EVENT_KIND__EVENT_KIND_APPEARED, e->path, 0, 0);
		}
	}
	linked_places_follow(s);
	place_watch_prune(w);
	if (damaged || place_watch_any_damaged(w, s->view))
		mend_places(s);
}

void
watch_names_changed(struct stage2 *s, int fd)
{
	view_changed(s->view, fd);
	if (place_watch_touch(s->watch, s->view, fd))
		look_at_touched(s);
}

void
watch_look(struct stage2 *s)
{
	view_catch_up(s->view);
	if (!s->watch->blind)
		return;
	for (size_t i = 0; i < s->watch->n_places; i++)
		s->watch->place[i].touched = true;
	look_at_touched(s);
	watch_mounts_changed(s);
}

void
watch_busy(struct stage2 *s)
{
	bool waiting = false;

	s->watch->busy = true;
	watch_look(s);
	linked_places_follow(s);
	for (size_t i = 0; i < s->view->n && !waiting; i++) {
		const struct view_entry *e = &s->view->entry[i];

		waiting = e->uncovered || e->linked ||
		    (!e->masked && i < s->watch->n_places && s->watch->place[i].lost);
	}
	if (waiting)
		watch_mounts_changed(s);
}

void
watch_idle(struct stage2 *s)
{
	struct place_watch *w = s->watch;

	w->busy = false;
	lower_names_idle(s->view->lower_names);
	if (view_uncover(s->view) == 0)
		return;
	for (size_t i = 0; i < w->n_places; i++)
		w->place[i].lost =
		    w->place[i].lost || (s->view->entry[i].late && !s->view->entry[i].there);
	stage2_event(s, KODA__EVENT_KIND__EVENT_KIND_UNCOVERED, "", 0, 0);
}
