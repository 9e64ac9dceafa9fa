/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/protect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/protect/neighbours.h"
#include "host/protect/protect_compare.h"
#include "host/protect/protect_plan.h"
#include "host/protect/protect_scan.h"
#include "host/slot/slot.h"
#include "shared/base/cleanup.h"

struct protect *
protect_new(const struct protect_of *of)
{
	struct protect *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->slot = of->slot;
	p->sb = of->sandbox;
	p->violations = of->violations;
	p->client = of->client;
	p->data = of->data;
	p->journal = (struct journal)JOURNAL_NONE;
	return p;
}

static void
free_waiters(struct waiter *w)
{
	while (w != NULL) {
		struct waiter *next = w->next;

		free(w);
		w = next;
	}
}

void
protect_free(struct protect *p)
{
	if (p == NULL)
		return;
	call_forget(p->slot, p);
	journal_end(&p->journal, p->begun == p->seen);
	place_set_done(&p->places);
	free_waiters(p->told);
	free_waiters(p->now);
	free_waiters(p->next);
	free(p->blame);
	free(p);
}

void
protect_abandon(struct protect *p)
{
	journal_end(&p->journal, false);
}

/* ---- the first look ---- */

/*
 * Places that commands of a running neighbour session have just planted did not exist before, so
 * the worker must not know them. Only a new worker can be given a list of known places: start one,
 * which then takes away the planted ones.
 */
static int
forget_planted(struct protect *p, struct koda_error *err)
{
	cleanup_free bool *planted = calloc(p->places.n + 1, sizeof(*planted));

	if (planted == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	if (neighbours_planted(&p->sb->state, p->places.place, p->places.n, planted) == 0)
		return 0;
	place_set_forget(&p->places, planted);
	slot_renew(p->slot);
	if (protect_scan(p, err) < 0)
		return -1;
	return 1;
}

/* Nothing that commands plant in a draft is in the project; and what the library's own commands make
 * was in the project before. */
static bool
is_unwatched(const struct protect *p)
{
	return p->sb->drafted || p->sb->ses->own_commands;
}

int
protect_prepare(struct protect *p, struct koda_error *err)
{
	int planted = 0;

	if (is_unwatched(p))
		return protect_mount(p, err);
	if (!protect_is_watching(p)) {
		const bool first = !p->scanned;

		if (protect_scan(p, err) < 0)
			return -1;
		if (first && (planted = forget_planted(p, err)) < 0)
			return -1;
	}
	if (planted > 0) {
		free(p->blame);
		p->blame = strdup("a command of another session");
		p->how = PROTECT_WHOLLY;
		if (protect_compare_now(p, err) < 0)
			return -1;
	}
	return protect_mount(p, err);
}

/* ---- the journal ---- */

/* Writes down which places are known, and by what rules they were found. If that fails, the user is
 * warned once. */
static void
begin_journal(struct protect *p)
{
	struct koda_session *ses = p->slot->ses;
	const size_t n = p->sb->view.n_writable;
	cleanup_free const char **dir = calloc(n + 1, sizeof(*dir)),
				**cache = calloc(n + 1, sizeof(*cache));
	cleanup_free Koda__Place **place = calloc(p->places.n + 1, sizeof(Koda__Place *));
	struct journal_input in = { .root = ses->root,
		.policy = koda_policy_get(p->slot->policy),
		.dir = dir,
		.cache = cache,
		.place = place };
	struct koda_error err = { 0 };
	int fd;

	/* With an incomplete scan, files that existed before would later be taken for planted
	 * ones. */
	if (p->said_cut || p->too_many || p->sb->state.fd < 0)
		return;
	if (dir == NULL || cache == NULL || place == NULL)
		return;
	for (size_t i = 0; i < n; i++) {
		/* Writes there do not reach the host. */
		if (view_is_cached(&p->sb->view, p->sb->view.writable[i]))
			continue;
		if (protect_is_cache(p, p->sb->view.writable[i]))
			cache[in.n_caches++] = p->sb->view.writable[i];
		else
			dir[in.n_dirs++] = p->sb->view.writable[i];
	}
	for (size_t i = 0; i < p->places.n; i++)
		if (p->places.sure[i])
			place[in.n_places++] = p->places.place[i];
	fd = in.n_dirs + in.n_caches > 0 ? state_journal(&p->sb->state, true) : -1;
	if (in.n_dirs + in.n_caches == 0 ||
	    (fd >= 0 && journal_begin(&p->journal, fd, &in, &err) == 0))
		return;
	if (fd < 0)
		err_set(&err, KODA_IO, errno, "write below '%s'", ses->state);
	if (!ses->said_state)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "%s: if this program is killed, the next session will not know what its "
		    "commands planted",
		    err.message);
	ses->said_state = true;
}

void
protect_command_begins(struct protect *p)
{
	if (is_unwatched(p))
		return;
	if (!p->journaled)
		begin_journal(p);
	p->journaled = true;
	/* The init of the slot's processes: the kernel reports its end only after all of them are
	 * gone. bwrap, the fallback, waits for it. */
	if (p->journal_boot != p->sb->boots)
		journal_process(&p->journal,
		    p->sb->init_fd >= 0 ? p->sb->init_pid : p->sb->bwrap.pid);
	p->journal_boot = p->sb->boots;
	p->begun++;
}

bool
protect_had_commands(const struct protect *p)
{
	return p->begun > 0;
}
