/* SPDX-License-Identifier: Apache-2.0 */
#include "host/workspace/recovery.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "host/command/state.h"
#include "host/context/entry.h"
#include "host/context/event.h"
#include "host/machine/state.h"
#include "host/policy/policy_api.h"
#include "host/protect/change.h"
#include "host/protect/journal.h"
#include "host/protect/journal_visit.h"
#include "host/protect/protect_scan.h"
#include "host/sandbox/sandbox_input.h"
#include "host/slot/slot.h"
#include "shared/base/cleanup.h"

/* As for a slot's own scan: a home directory of a million names, cold. */
#define STEP_MS 120000
/* How long to keep the journal of a directory that is missing: its disk may not be mounted, or it
 * was renamed. */
#define KEEP_SECONDS (30 * 24 * 3600)
#define BLAME        "a command of a session that was killed"

struct recovery {
	struct koda_slot *slot; /* the new slot */
	const struct state *state;
	struct violations *found;
	bool more, cut;
};

/* ---- which journals ---- */

static char *
text_of(const ProtobufCBinaryData *b)
{
	return strndup((const char *)b->data, b->len);
}

static bool
overlap(const char *a, const char *b)
{
	return path_is_inside(a, b) || path_is_inside(b, a);
}

static bool
is_it(const char *path, const Koda__JournalDirectory *d)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_dev == d->dev &&
	    st.st_ino == d->ino;
}

/* Returns the part of the path that is this directory under another name: the path itself or a
 * directory above it. The caller frees it; NULL if there is none. */
static char *
found_at(const char *path, const Koda__JournalDirectory *d)
{
	char *part = strdup(path);

	while (part != NULL && part[0] != '\0') {
		if (is_it(part, d))
			return part;
		*strrchr(part, '/') = '\0';
	}
	free(part);
	return NULL;
}

/* Returns the i-th directory in which the slot acts; NULL after the last. */
static const char *
region(const struct koda_slot *slot, size_t i)
{
	const struct policy_list *allow = &koda_policy_get(slot->policy)->list[KODA_ALLOW_WRITE];

	if (i == 0)
		return slot->ses->root;
	if (i - 1 < allow->n)
		return allow->v[i - 1];
	i -= 1 + allow->n;
	return slot->commands != NULL ? sandbox_beside(slot->commands->sandbox, i) : NULL;
}

static bool
wanted(void *data, const struct journal_found *f)
{
	const struct recovery *r = data;
	const char *path;

	for (size_t i = 0; (path = region(r->slot, i)) != NULL; i++) {
		if (f->journal == NULL && journal_is_of(f->name, path))
			return true;
		for (size_t k = 0; f->journal != NULL && k < f->journal->n_directory; k++) {
			cleanup_free char *dir = text_of(&f->journal->directory[k]->path),
					  *moved = found_at(path, f->journal->directory[k]);

			if (moved != NULL || (dir != NULL && overlap(path, dir)))
				return true;
		}
	}
	return false;
}

/* ---- which of its directories still exist ---- */

struct plan {
	char *dir[JOURNAL_FILES_MAX];
	size_t n;
	const char *from, *to; /* a directory was renamed */
	char *old;
	char **renamed; /* paths of known places */
	size_t n_renamed;
};

static void
plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->dir[i]);
	for (size_t i = 0; i < p->n_renamed; i++)
		free(p->renamed[i]);
	free(p->renamed);
	free(p->old);
}

static void
find_directories(const struct recovery *r, const Koda__Journal *j, struct plan *ret)
{
	for (size_t i = 0; i < j->n_directory && ret->n < JOURNAL_FILES_MAX; i++) {
		char *dir = text_of(&j->directory[i]->path), *moved = NULL;
		const char *path;

		if (dir != NULL && is_it(dir, j->directory[i])) {
			ret->dir[ret->n++] = dir;
			continue;
		}
		for (size_t k = 0;
		     j->looked_through && moved == NULL && (path = region(r->slot, k)) != NULL; k++)
			moved = found_at(path, j->directory[i]);
		if (moved == NULL) {
			free(dir);
			continue;
		}
		ret->dir[ret->n++] = moved;
		ret->old = dir;
		ret->from = dir;
		ret->to = moved;
	}
}

/* Returns the current name of a path, for the caller to free. */
static char *
now_called(const struct plan *p, const ProtobufCBinaryData *path)
{
	char *old = text_of(path), *now;

	if (old == NULL || p->from == NULL || !path_is_inside(old, p->from))
		return old;
	if (asprintf(&now, "%s%s", p->to, old + strlen(p->from)) < 0)
		now = NULL;
	free(old);
	return now;
}

/* ---- asking the worker ---- */

static int
take(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct recovery *r = data;

	if (reply->result_case == KODA__REPLY__RESULT_SCANNED)
		return 0;
	if (reply->result_case != KODA__REPLY__RESULT_COMPARED)
		return err_set(err, KODA_PROTOCOL, 0, "the reply to Compare has the wrong type");
	for (size_t i = 0; i < reply->compared->n_change; i++)
		change_tell(r->found, BLAME, r->slot->ses->home, reply->compared->change[i]);
	r->more = reply->compared->has_more && reply->compared->more;
	r->cut |= reply->compared->has_cut && reply->compared->cut;
	return 0;
}

static int
ask(struct recovery *r, struct koda_slot *slot, Koda__Request *req, struct koda_error *err)
{
	struct packed packed;

	if (slot_pack_ours(slot, req, &packed, err) < 0)
		return -1;
	return slot_ask_ours(slot, &packed, STEP_MS, take, r, err);
}

/* Known places are sent a page at a time; the last page starts the scan. */
static int
scan(struct recovery *r, struct koda_slot *slot, const struct plan *plan, Koda__Place **known,
    size_t n_known, bool looked_through, struct koda_error *err)
{
	ProtobufCBinaryData below[JOURNAL_FILES_MAX];
	size_t told = 0;

	for (size_t i = 0; i < plan->n; i++)
		below[i] = message_text(plan->dir[i]);
	do {
		Koda__Request req = KODA__REQUEST__INIT;
		Koda__Scan msg = KODA__SCAN__INIT;

		req.op_case = KODA__REQUEST__OP_SCAN;
		req.scan = &msg;
		msg.below = below;
		msg.n_below = looked_through ? plan->n : 0;
		msg.has_resumed = msg.resumed = true;
		protect_known_page(&msg, known, n_known, &told);
		if (ask(r, slot, &req, err) < 0)
			return -1;
	} while (told < n_known);
	return 0;
}

static int
compare(struct recovery *r, struct koda_slot *slot, struct koda_error *err)
{
	do {
		Koda__Request req = KODA__REQUEST__INIT;
		Koda__Compare msg = KODA__COMPARE__INIT;

		req.op_case = KODA__REQUEST__OP_COMPARE;
		req.compare = &msg;
		if (ask(r, slot, &req, err) < 0)
			return -1;
	} while (r->more);
	return 0;
}

/* ---- the rules of the killed session ---- */

static struct koda_policy *
make_policy(const Koda__Journal *j, const struct plan *plan, struct koda_error *err)
{
	struct koda_policy *policy = koda_policy_new();
	int r = policy == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "policy")
			       : koda_policy_set_trust(policy, KODA_TRUST_AUTO, err);

	if (r == 0)
		r = koda_policy_set_flag(policy, KODA_ALLOW_GIT_CONFIG, j->allow_git_config, err);
	for (size_t i = 0; r == 0 && j->looked_through && i < plan->n; i++)
		r = koda_policy_add(policy, KODA_ALLOW_WRITE, plan->dir[i], err);
	for (size_t i = 0; r == 0 && i < j->n_rule; i++) {
		cleanup_free char *rule = now_called(plan, &j->rule[i]);

		r = rule == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "policy")
				 : koda_policy_add(policy, KODA_DENY_WRITE_WITHIN_ALLOW, rule, err);
	}
	for (size_t i = 0; r == 0 && i < j->n_name; i++) {
		cleanup_free char *name = text_of(&j->name[i]);

		r = name == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "policy")
				 : koda_policy_add(policy, KODA_DENY_WRITE_NAMES, name, err);
	}
	if (r == 0)
		r = koda_policy_freeze(policy, err);
	if (r == 0)
		return policy;
	koda_policy_free(policy);
	return NULL;
}

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	struct recovery *r = data;

	if (kind == KODA_EVENT_DEATH)
		session_event(r->slot->ses, kind, "%s", text);
}

/* The caller of koda_slot_acquire() is served while this waits, too. Returns -1 to give up. */
static int
wait_for(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	struct koda_session *ses = ((struct recovery *)data)->slot->ses;
	int r = session_poll(ses, fds, n, timeout_ms);

	return r < 0 && !ses->given_up ? 0 : r;
}

/* Runs a separate session without commands. Its worker may change only what the commands of the
 * killed session could change. */
static int
run_worker(struct recovery *r, const Koda__Journal *j, const struct plan *plan,
    struct recovery_seal *seal, Koda__Place **known, size_t n_known, struct koda_error *err)
{
	const struct koda_session *ours = r->slot->ses;
	struct koda_session_options o = KODA_SESSION_OPTIONS_INIT;
	cleanup_free char *helpers = strdup(ours->worker_path);
	struct koda_policy *policy = make_policy(j, plan, err);
	struct koda_session *ses;
	struct koda_slot *slot;
	int result = -1;

	if (helpers == NULL || policy == NULL) {
		koda_policy_free(policy);
		return helpers == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "recovery") : -1;
	}
	*strrchr(helpers, '/') = '\0';
	o.root = "/";
	o.mode = ours->mode == KODA_AUTO ? KODA_AUTO : KODA_SAFE;
	o.policy = policy;
	o.event = on_event;
	o.wait = wait_for;
	o.data = r;
	o.helper_dir = helpers;
	o.no_history = true;
	ses = koda_session_open(&o, err);
	if (ses != NULL)
		ses->recovering = seal;
	slot = ses == NULL ? NULL : koda_slot_acquire(ses, NULL, err);
	/* What is asked next is waited for in the same way. */
	if (slot != NULL)
		ses->acquiring = true;
	if (slot != NULL && scan(r, slot, plan, known, n_known, j->looked_through, err) == 0 &&
	    compare(r, slot, err) == 0)
		result = 0;
	koda_session_close(ses);
	koda_policy_free(policy);
	return result;
}

/* Returns the known places, with paths updated if the directory was renamed. The caller frees the
 * list; the places still belong to the journal, and their new paths to the plan. */
static Koda__Place **
known_places(const struct journal_found *f, struct plan *plan, size_t *ret_n)
{
	const size_t n = f->journal->n_place + f->n_more;
	cleanup_free Koda__Place **list = calloc(n + 1, sizeof(Koda__Place *));

	plan->renamed = calloc(n + 1, sizeof(*plan->renamed));
	if (plan->renamed == NULL)
		return NULL;
	for (size_t i = 0; list != NULL && i < n; i++) {
		Koda__Place *p = i < f->journal->n_place ? f->journal->place[i]
							 : f->more[i - f->journal->n_place];
		char *now = plan->from != NULL ? now_called(plan, &p->path) : NULL;

		if (now != NULL) {
			plan->renamed[plan->n_renamed++] = now;
			p->path = (ProtobufCBinaryData){ strlen(now), (uint8_t *)now };
		}
		list[i] = p;
	}
	*ret_n = n;
	return take_ptr(&list);
}

static int
refuse_damaged(const struct recovery *r, const struct journal_found *f, struct koda_error *err)
{
	const struct koda_session *ses = r->slot->ses;

	err_set(err, KODA_UNSUPPORTED, 0,
	    "the journal '%s/journal/%s' of a killed session is damaged, so what its commands "
	    "planted at or below '%.300s' is unknown: check that directory yourself, then remove "
	    "the journal",
	    ses->state, f->name, ses->root);
	if (r->slot->commands != NULL)
		return -1;
	session_event(r->slot->ses, KODA_EVENT_DEGRADED, "%s", err->message);
	return 0;
}

static int
finish(void *data, const struct journal_found *f, struct koda_error *err)
{
	struct recovery *r = data;
	cleanup(plan_done) struct plan plan = { 0 };
	cleanup_free Koda__Place **known = NULL;
	cleanup_free char *root = NULL, *name = NULL;
	struct recovery_seal seal = { .quarantine_fd = -1 };
	size_t n_known;
	int result;

	if (r->slot->ses->given_up)
		return 0;
	if (f->journal == NULL)
		return refuse_damaged(r, f, err);
	find_directories(r, f->journal, &plan);
	if (plan.n == 0)
		return !f->journal->looked_through || f->written + KEEP_SECONDS < time(NULL);
	known = known_places(f, &plan, &n_known);
	root = text_of(&f->journal->root);
	name = root == NULL ? NULL : state_quarantine_name(root);
	if (known == NULL || name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "recovery");
	seal.quarantine_fd = state_quarantine(r->state, name, true);
	if (!f->journal->looked_through) {
		seal.cache = plan.dir;
		seal.n_caches = plan.n;
	}
	result = run_worker(r, f->journal, &plan, &seal, known, n_known, err);
	close_at(&seal.quarantine_fd);
	if (result < 0)
		return err_wrap(err, "clean up after a killed session below '%.200s'", root);
	return 1;
}

/* ---- the whole recovery ---- */

static void
tell(const struct recovery *r)
{
	const struct koda_violation *v;

	/* With commands, these are violations of the slot, which reports them. */
	for (size_t i = 0; r->slot->commands == NULL && (v = violations_at(r->found, i)) != NULL;
	     i++)
		session_event(r->slot->ses, KODA_EVENT_LEFT, "'%.600s': %s", v->target, v->detail);
	if (r->cut)
		session_event(r->slot->ses, KODA_EVENT_DEGRADED,
		    "a killed session left too much to check all of it: some of what its "
		    "commands planted may not be detected");
}

int
recovery_run(struct koda_slot *slot, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct violations own;
	struct state state = STATE_NONE;
	struct recovery r = { .slot = slot, .state = &state };
	const struct journal_visitor by = { wanted, finish, wait_for, &r };
	cleanup_close int dir = -1;
	bool left = false;
	int result = 0;

	if (ses->recovering != NULL || ses->state == NULL)
		return 0;
	result = state_look(&state, ses->state, err);
	dir = result > 0 ? state_journal(&state, false) : -1;
	if (dir >= 0) {
		violations_init(&own, VIOLATIONS_MAX);
		r.found = slot->commands != NULL ? &slot->commands->violations : &own;
		result = journal_visit(dir, &by, &left, err);
		tell(&r);
		violations_done(&own);
	}
	state_let_go(&state, ses->state);
	if (ses->given_up)
		return err_set(err, KODA_TIMEOUT, 0, "the caller gave up waiting for the slot");
	if (result >= 0 && left)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "another process is still cleaning up after a killed session below '%.600s': "
		    "this session did not wait for it",
		    ses->root);
	/* File operations run nothing, so nothing that was planted. */
	if (result < 0 && slot->commands == NULL) {
		session_event(ses, KODA_EVENT_DEGRADED, "%s", err != NULL ? err->message : "");
		return 0;
	}
	return result < 0 ? -1 : 0;
}
