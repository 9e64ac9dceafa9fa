/* SPDX-License-Identifier: Apache-2.0 */
/* In which order directories are read, known places are judged again, and reported places are
 * sealed. */
#include "worker/scan/scan_compare.h"

#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed.h"
#include "worker/scan/hides.h"
#include "worker/scan/linked_search.h"
#include "worker/scan/live.h"
#include "worker/scan/scan_events.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_recheck.h"
#include "worker/scan/scan_results.h"
#include "worker/scan/scan_todo.h"
#include "worker/scan/scan_walk.h"

/* A command in the background may keep causing events while they are processed. */
#define ROUNDS_MAX 4

static int
add_rules(struct scan *sc, struct koda_error *err)
{
	const struct policy_list *list = &sc->who->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];

	for (size_t i = 0; i < list->n; i++) {
		if (add_guard(sc, list->v[i], WHAT_RULE) < 0)
			return scan_no_memory(err);
	}
	return 0;
}

/* Adds repositories that are the user's, or are mounted now; untold: also those that were not
 * reported yet. */
static void
add_live(struct scan *sc, bool untold)
{
	for (uint32_t i = 0; sc->git && i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || k->what != WHAT_PIN || k->live || (k->tell && !untold) ||
		    access_name_of(strrchr(k->path, '/') + 1) == ACCESS_NAME_KODA)
			continue;
		k->live = true;
		live_add(sc, sc->live, k->path);
		if (untold)
			hides_learn(sc, sc->hides, k->path);
	}
}

/* Compares what repositories, old and new, hide from the user. */
static void
compare_hidden(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known; i++) {
		const struct known *k = &sc->known[i];

		if (k->path != NULL && k->what == WHAT_PIN &&
		    access_name_of(strrchr(k->path, '/') + 1) != ACCESS_NAME_KODA)
			hides_compare(sc, sc->hides, k->path);
	}
	sc->due.git = false;
}

/* Everything known at this point existed before any command ran. */
static void
start_live(struct scan *sc)
{
	add_live(sc, true);
	for (size_t i = 0; sc->git && i < sc->n_roots; i++)
		live_add_above(sc, sc->live, sc->root[i].path);
}

int
scan_learn(struct scan *sc, struct koda_error *err)
{
	if (add_rules(sc, err) < 0)
		return -1;
	if (scan_names_ready(sc) < 0)
		return scan_no_memory(err);
	start_watching(sc);
	sc->phase = PHASE_LEARN;
	if (walk_all(sc) < 0 || judge_cached(sc) < 0)
		return scan_no_memory(err);
	find_all_targets(sc);
	linked_find_all(sc);
	start_live(sc);
	sc->vast = sc->partial;
	sc->phase = PHASE_JUDGE;
	sc->started = true;
	return 0;
}

int
scan_resume(struct scan *sc, struct koda_error *err)
{
	struct koda_error dropped;

	if (scan_names_ready(sc) < 0)
		return scan_no_memory(err);
	if (add_rules(sc, &dropped) < 0)
		sc->partial = true;
	start_watching(sc);
	sc->phase = PHASE_RESUME;
	find_all_targets(sc);
	start_live(sc);
	sc->phase = PHASE_JUDGE;
	sc->due.walk = true;
	return 0;
}

void
scan_walk_again(struct scan *sc)
{
	sc->due.walk = true;
}

void
scan_try_again(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known; i++)
		if (sc->known[i].path != NULL)
			sc->known[i].left = false;
}

/* Seals the places that were reported and are not about to be reported again: only a process
 * outside the sandbox can change them from now on. */
static void
seal_reported(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known && sc->unsealed > 0; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || k->sealed || k->left || k->tell || S_ISLNK(k->stamp.mode) ||
		    !is_told(k->what))
			continue;
		k->sealed = true;
		sc->unsealed--;
	}
}

/* A file can be written through a second name elsewhere in its git directory, without an event in
 * its own. */
static int
mark_refs(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_nodes; i++) {
		const struct node *n = &sc->node[i];

		if (n->name != NULL && (n->git || (n->in_git && is_in_refs(sc, i))) &&
		    todo_dirty(sc, i) < 0)
			return -1;
	}
	return 0;
}

/* Chooses what has to be read besides the directories with events. */
static void
choose_reading(struct scan *sc)
{
	/* Watches may be available again. There was a reason that they were not, so a whole new set
	 * is not tried each time. */
	if (!sc->watched && sc->due.walk && sc->ifd < 0 && sc->by_wd == NULL && sc->wds == 0 &&
	    (sc->round & 15) == 15)
		start_watching(sc);
	make_roots_listable(sc);
	/* A directory that no walk reached has no watch and causes no events. If the first walk was
	 * already incomplete, it is unknown what was there before. */
	if (sc->partial && !sc->vast)
		sc->due.walk = true;
}

/* Judges places that commands can change without an event. */
static int
judge_without_events(struct scan *sc, bool mounted)
{
	if (sc->unsealed > 0 && judge_unsealed(sc) < 0)
		return -1;
	if (mounted) {
		seal_reported(sc);
		add_live(sc, false);
	}
	return judge_cached(sc);
}

static int
read_dirty(struct scan *sc)
{
	while (sc->n_dirty > 0) {
		uint32_t idx = sc->dirty[--sc->n_dirty];

		sc->node[idx].dirty = false;
		if (walk_one(sc, idx) < 0)
			return -1;
	}
	return 0;
}

/* Reads what events, or the lack of them, ask for. *ret_again: there may be more already. */
static int
read_round(struct scan *sc, bool first, bool *ret_again)
{
	const int events = sc->watched ? events_take(sc) : 0;
	bool walked = false;

	if (events < 0 || (first && sc->git && sc->due.git && mark_refs(sc) < 0))
		return -1;
	sc->names = 0;
	/* Watches may run out in the middle of a walk. Then the scan walks again at once, for the
	 * directories that this walk did not reach. */
	while (sc->due.walk && (!walked || sc->watched)) {
		todo_forget(sc);
		sc->due.verify = walked = true;
		if (walk_all(sc) < 0)
			return -1;
	}
	if (read_dirty(sc) < 0 || walk_rest(sc) < 0)
		return -1;
	*ret_again = true;
	if (sc->due.walk && !walked)
		return 0;
	if (sc->due.verify)
		verify_known(sc);
	sc->started = true;
	*ret_again = sc->watched && (events > 0 || walked);
	return 0;
}

/* -1: no memory. */
static int
compare_all(struct scan *sc, bool mounted, bool busy)
{
	bool again = true;

	sc->n_told = 0;
	choose_reading(sc);
	if (judge_without_events(sc, mounted) < 0)
		return -1;
	for (unsigned i = 0; i < ROUNDS_MAX && again; i++) {
		if (read_round(sc, i == 0, &again) < 0)
			return -1;
	}
	if (sc->phase != PHASE_GENTLE && linked_look_again(sc) < 0)
		return -1;
	if (sc->git && sc->phase != PHASE_GENTLE && (sc->due.git || !sc->watched))
		compare_hidden(sc);
	tell_came(sc);
	if (!busy)
		end_era(sc);
	return 0;
}

/* In directories with events, judges only the files that git follows. Everything else waits for the
 * next comparison. */
static int
look_at_followed(struct scan *sc)
{
	if (sc->watched && events_take(sc) < 0)
		return -1;
	for (size_t i = 0; i < sc->n_dirty; i++) {
		const uint32_t idx = sc->dirty[i];
		struct node *n = &sc->node[idx];
		char path[PATH_LEN_MAX + 1];
		cleanup_close int fd = -1;
		bool refs;
		size_t len;

		if (n->name == NULL || !n->fresh)
			continue;
		refs = n->in_git && is_in_refs(sc, idx);
		/* A user's shell may be in a directory that existed before. If the directory
		 * becomes a repository, git in that shell obeys it. */
		if (!n->git && !refs && n->born == sc->era)
			continue;
		n->fresh = false;
		len = node_path(sc, idx, NULL, path);
		fd = len > 0 ? open_listed(sc, n->root, path) : -1;
		if (fd >= 0 && n->git)
			followed_look(sc, fd, path, len, false);
		if (fd >= 0 && refs)
			followed_look(sc, fd, path, len, true);
		if (fd >= 0 && n->born != sc->era)
			live_came(sc, sc->live, path, fd);
	}
	return 0;
}

/* Returns true if there are directories below the refs of a git directory that no walk has
 * visited. */
static bool
has_new_refs(const struct scan *sc)
{
	for (size_t i = 0; i < sc->n_steps; i++) {
		const uint32_t up = sc->step[i].parent;

		if (up == NONE || sc->node[up].name == NULL)
			continue;
		if (sc->node[up].git && access_name_of(sc->step[i].name) == ACCESS_NAME_REFS)
			return true;
		if (sc->node[up].in_git && is_in_refs(sc, up))
			return true;
	}
	return false;
}

/* Returns 0; 1 if compare_all() has to follow now; -1: no memory. */
static int
compare_live(struct scan *sc)
{
	if (!sc->git)
		return 0;
	if (look_at_followed(sc) < 0)
		return -1;
	return live_look(sc, sc->live) != 0 || has_new_refs(sc) ? 1 : 0;
}

int
scan_compare(struct scan *sc, enum scan_reach reach, bool busy, struct koda_error *err)
{
	int r = 1;

	/* A comparison that follows a look adds to what the look has changed. */
	forget_changes(sc);
	sc->cut = false;
	sc->phase = reach == SCAN_LOOK || reach == SCAN_GENTLY ? PHASE_GENTLE : PHASE_JUDGE;
	if (reach == SCAN_LOOK)
		r = compare_live(sc);
	if (r > 0)
		r = compare_all(sc, reach == SCAN_ALL_MOUNTED, busy);
	sc->phase = PHASE_JUDGE;
	return r < 0 ? scan_no_memory(err) : 0;
}
