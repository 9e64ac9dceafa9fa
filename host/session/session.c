/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/context/entry.h"
#include "host/context/event.h"
#include "host/context/finished.h"
#include "host/context/handle.h"
#include "host/context/turn.h"
#include "host/egress/egress.h"
#include "host/machine/helpers.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "host/session/pool.h"
#include "host/workspace/ending.h"
#include "host/workspace/keeping.h"
#include "shared/base/clock.h"

#define TIMEOUT_MS_DEFAULT 30000
#define SLOTS_DEFAULT      128
#define IDLE_DEFAULT       8

/* The outermost function of the library returns. */
static bool
on_left(struct koda_session *ses)
{
	if (!ses->closing)
		pool_settle(ses); /* whose events may close the session */
	if (!ses->closing)
		return false;
	koda_session_close(ses);
	return true;
}

static int
open_root(struct koda_session *ses, const char *root, struct koda_error *err)
{
	struct stat st;

	if (root == NULL || root[0] == '\0')
		return err_set(err, KODA_INVALID, 0, "a session needs a root");
	ses->root = realpath(root, NULL);
	if (ses->root == NULL || stat(ses->root, &st) < 0)
		return err_set(err, KODA_INVALID, errno, "root '%s'", root);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "root '%s' is not a directory", root);
	ses->root_dev = st.st_dev;
	ses->root_ino = st.st_ino;
	return 0;
}

static int
open_policy(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	if (o->policy != NULL) {
		if (!koda_policy_frozen(o->policy))
			return err_set(err, KODA_INVALID, 0, "the policy is not frozen");
		ses->policy = koda_policy_ref(o->policy);
		return 0;
	}
	ses->policy = koda_policy_for_agent(ses->mode, ses->root, err);
	return ses->policy == NULL ? -1 : koda_policy_freeze(ses->policy, err);
}

static int
find_helpers(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	if (helpers_find(o->helper_dir, "koda-fs-worker", ses->worker_path, err) < 0)
		return -1;
	/* If it is missing, searches report that; everything else works without it. */
	if (helpers_find(o->helper_dir, "koda-fs-search", ses->search_path, NULL) < 0)
		ses->search_path[0] = '\0';
	ses->commands = o->commands;
	if (!ses->commands)
		return 0;
	if (helpers_find(o->helper_dir, "koda-sandbox-stage2", ses->stage2_path, err) < 0)
		return -1;
	if (helpers_find(o->helper_dir, "koda-sandbox-launch", ses->launch_path, NULL) < 0)
		ses->launch_path[0] = '\0';
	if (egress_open(ses, o->helper_dir, err) < 0)
		return -1;
	ses->intercept = o->intercept;
	ses->narrowed = o->narrowed;
	return helpers_find_bwrap(ses->bwrap_path, err) < 0 && !session_degrade(ses, err) ? -1 : 0;
}

static int
open_session(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	ses->here = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ses->here == MAP_FAILED) {
		ses->here = NULL;
		return err_set(err, KODA_INTERNAL, errno, "session");
	}
	if (madvise(ses->here, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "MADV_WIPEONFORK");
	*ses->here = 1;
	if (sodium_init() < 0)
		return err_set(err, KODA_UNSUPPORTED, 0, "libsodium cannot be initialised");
	if (o->mode != KODA_PLAN && o->mode != KODA_SAFE && o->mode != KODA_AUTO)
		return err_set(err, KODA_INVALID, 0, "no such mode: %d", (int)o->mode);
	ses->mode = o->mode;
	ses->approve = o->approve;
	ses->event = o->event;
	ses->wait = o->wait;
	ses->data = o->data;
	ses->timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS_DEFAULT;
	ses->max_slots = o->max_slots != 0 ? o->max_slots : SLOTS_DEFAULT;
	ses->no_history = o->no_history;
	ses->history_bytes = o->history_bytes;
	ses->max_idle = o->max_idle != 0 ? o->max_idle : IDLE_DEFAULT;
	/* Helpers are found first, so that nothing in the project influences where they are. */
	if (find_helpers(ses, o, err) < 0 || open_root(ses, o->root, err) < 0 ||
	    open_policy(ses, o, err) < 0)
		return -1;
	ses->home = home_find();
	if (ses->home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "session");
	ses->state = state_path(ses->home);
	if (ses->state != NULL && path_is_inside(ses->root, ses->state))
		return err_set(err, KODA_INVALID, 0,
		    "the root '%.240s' is in '%.240s', koda-sandbox's own directory, which "
		    "agents cannot access: choose another root, or another XDG_STATE_HOME",
		    ses->root, ses->state);
	return loop_open(&ses->loop, err);
}

struct koda_session *
koda_session_open(const struct koda_session_options *options, struct koda_error *err)
{
	struct koda_session *ses;

	err_clear(err);
	if (options == NULL || options->version != KODA_SESSION_OPTIONS_VERSION) {
		err_set(err, KODA_INVALID, 0,
		    "the session options have an unknown version: initialise them with "
		    "KODA_SESSION_OPTIONS_INIT");
		return NULL;
	}
	ses = calloc(1, sizeof(*ses));
	if (ses == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "session");
		return NULL;
	}
	ses->loop = LOOP_CLOSED;
	ses->on_left = on_left;
	turn_add(ses, &pool_ticker);
	if (open_session(ses, options, err) < 0) {
		koda_session_close(ses);
		return NULL;
	}
	return ses;
}

/* In a forked child: free memory and close descriptors only; the processes are the parent's. */
static void
session_abandon(struct koda_session *ses)
{
	pool_abandon(ses);
	egress_abandon(ses);
	leaving_abandon(&ses->leaving);
	loop_abandon(&ses->loop);
}

void
koda_session_close(struct koda_session *ses)
{
	bool here;

	if (ses == NULL)
		return;
	here = ses->here == NULL || *ses->here == 1;
	ses->closing = true;
	if (here && ses->depth > 0)
		return; /* from inside a callback: session_leave does it */
	if (!here)
		session_abandon(ses);
	ses->depth++; /* callbacks that run now may call release or close */
	ses->end_by = monotonic_ns() + ENDING_MS * NS_PER_MS;
	handle_give_up_unwanted(ses);
	pool_close(ses);
	handle_give_up_unwanted(ses);
	if (here) {
		finished_deliver(ses);
		handle_tell_over(ses);
	} else {
		finished_drop(ses);
		handle_forget_over(ses);
	}
	egress_close(ses);
	leaving_reap(&ses->leaving, LEAVING_MS);
	leaving_done(&ses->leaving);
	if (here)
		keeping_end(ses);
	else
		keeping_abandon(ses);
	loop_close(&ses->loop);
	koda_policy_free(ses->policy);
	free(ses->root);
	free(ses->home);
	free(ses->state);
	if (ses->here != NULL)
		munmap(ses->here, (size_t)sysconf(_SC_PAGESIZE));
	free(ses);
}

const struct koda_policy *
koda_session_policy(const struct koda_session *ses)
{
	return ses->policy;
}

void
koda_session_stats(const struct koda_session *ses, struct koda_stats *ret)
{
	*ret = ses->stats;
	ret->slots = ses->n_acquired;
	ret->workers = 0;
	for (const struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		ret->workers += slot->state == SLOT_STARTING || slot->state == SLOT_UP;
}

int
koda_session_fd(const struct koda_session *ses)
{
	return ses->loop.epoll_fd;
}

int
koda_session_dispatch(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	int n;

	if (session_check(ses, err) < 0)
		return -1;
	if (ses->loop.dispatching)
		return err_set(err, KODA_INVALID, 0, "cannot dispatch from inside a callback");
	if (ses->n_async + ses->n_under_way == 0 && ses->over == NULL && timeout_ms < 0)
		return 0;
	session_enter(ses);
	turn_once(ses, timeout_ms);
	n = (int)(ses->n_async + ses->n_under_way);
	return session_leave(ses) ? 0 : n;
}
