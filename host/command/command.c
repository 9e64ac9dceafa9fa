/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "host/command/command_orders.h"
#include "host/command/command_output.h"
#include "host/command/command_question.h"
#include "host/command/command_ready.h"
#include "host/command/command_request.h"
#include "host/command/list.h"
#include "host/context/entry.h"
#include "host/protect/protect.h"
#include "host/protect/protect_compare.h"
#include "host/sandbox/sandbox_end.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define RUN_TRIES 3

const char *
koda_limit_hit_name(enum koda_limit_hit hit)
{
	static const char *const names[] = {
		[KODA_HIT_NONE] = "",
		[KODA_HIT_WALL_TIME] = "wall_time_secs",
		[KODA_HIT_CPU_TIME] = "cpu_time_secs",
		[KODA_HIT_FILE_SIZE] = "max_file_bytes",
		[KODA_HIT_MEMORY] = "max_rss_bytes",
		[KODA_HIT_PROCESSES] = "max_processes",
		[KODA_HIT_OUTPUT] = "max_output_bytes",
		[KODA_HIT_PLANTED] = "planted",
	};

	return (size_t)hit < N_ELEMENTS(names) ? names[hit] : "";
}

/* ---- over ---- */

void
command_destroy(struct koda_command *c)
{
	capture_done(&c->out.capture);
	capture_done(&c->err.capture);
	planted_done(&c->planted);
	free(c->violations);
	command_request_done(c);
	free(c);
}

/* The only place where a command ends. */
static void
over(struct koda_command *c)
{
	struct koda_session *ses = c->of->slot->ses;

	command_question_done(c);
	command_close_fds(c);
	loop_unwatch(&ses->loop, &c->out.source);
	loop_unwatch(&ses->loop, &c->err.source);
	list_unlink(c);
	c->state = COMMAND_OVER;
	c->of = NULL;
	handle_over(&c->handle, c->done != NULL);
}

void
command_fail(struct koda_command *c, const struct koda_error *why)
{
	c->error = *why;
	over(c);
}

static void compared(void *data);

static void
set_lost(struct koda_command *c, const struct koda_error *why)
{
	if (c->state == COMMAND_ASKING)
		err_set(&c->error, KODA_WORKER, 0, "the command was not run: %s", why->message);
	else if (c->state == COMMAND_RUNNING)
		err_set(&c->error, KODA_UNKNOWN, 0,
		    "the command's sandbox ended while the command ran: the outcome is unknown "
		    "(%s)",
		    why->message);
}

static void
compare(struct koda_command *c)
{
	struct koda_error err;

	c->state = COMMAND_COMPARING;
	if (c->of->ended)
		return; /* one last comparison covers all commands */
	/* It may end meanwhile, with a sandbox that cannot be built again, and be freed. */
	handle_hold(&c->handle);
	if (protect_compare(c->of->protect, PROTECT_WHOLLY, list_blame(c->of), compared, c, &err) <
		0 &&
	    c->state == COMMAND_COMPARING)
		command_fail(c, &err);
	handle_let_go(&c->handle);
}

void
command_lost(struct koda_command *c, const struct koda_error *why)
{
	if (c->state != COMMAND_RUNNING)
		return; /* not started, or done: the next sandbox compares what the command left */
	set_lost(c, why);
	compare(c);
}

void
command_closed(struct koda_command *c, const struct koda_error *why)
{
	protect_forget(c->of->protect, c);
	set_lost(c, why);
	over(c);
}

static void
compared(void *data)
{
	struct koda_command *c = data;

	/* The proxy reports a refusal before it answers the client, so all reports are there to be
	 * read. */
	egress_drain(&c->of->sandbox->egress, false);
	if (c->planted.over)
		c->result.hit = KODA_HIT_PLANTED;
	c->violations =
	    violations_since(&c->of->violations, c->seen_violations, &c->result.n_violations);
	over(c);
}

/* ---- reports ---- */

static enum koda_limit_hit
limit_hit(const struct koda_command *c)
{
	const struct policy *p = koda_policy_get(c->of->slot->policy);
	const struct policy_limit *cpu = &p->limit[KODA_CPU_TIME_SECS];
	uint64_t used = (c->result.user_us + c->result.system_us) / 1000000;

	if (c->timed_out)
		return KODA_HIT_WALL_TIME;
	if (c->slot_limit != KODA_HIT_NONE)
		return c->slot_limit;
	if (c->result.signal == SIGXCPU ||
	    (c->result.signal == SIGKILL && cpu->set && used >= cpu->value))
		return KODA_HIT_CPU_TIME;
	if (c->result.signal == SIGXFSZ)
		return KODA_HIT_FILE_SIZE;
	return KODA_HIT_NONE;
}

/* For a command that was ended because the slot exceeded one of its limits. */
static void
take_slot_limit(struct koda_command *c, const Koda__Exited *e)
{
	const struct policy_limit *memory =
	    &koda_policy_get(c->of->slot->policy)->limit[KODA_MAX_RSS_BYTES];

	if (!e->has_limit)
		return;
	c->slot_limit =
	    e->limit == KODA__SLOT_LIMIT__SLOT_LIMIT_MEMORY ? KODA_HIT_MEMORY : KODA_HIT_PROCESSES;
	/* Files in a private /tmp outlive their command: with them, the next one would be ended at
	 * once. */
	if (c->slot_limit == KODA_HIT_MEMORY && memory->set && e->has_kept &&
	    e->kept > memory->value / 2)
		c->of->sandbox->full = true;
}

static void
on_exited(struct koda_command *c, const Koda__Exited *e)
{
	const uint64_t ended_at = monotonic_ns();
	struct koda_output out, text;

	command_drain(c, &c->out);
	command_drain(c, &c->err);
	if (e->reaper_lost) {
		c->of->sandbox->doubtful = true;
		err_set(&c->error, KODA_UNKNOWN, 0,
		    "the command killed its supervisor, so its exit status is unknown; none of "
		    "its processes is left");
		compare(c);
		return;
	}
	c->result.signal = (int)e->signal;
	c->result.status = e->signal != 0 ? 128 + (int)e->signal : (int)e->code;
	c->result.wall_us = (ended_at - c->started_at) / 1000;
	c->result.user_us = e->user_us;
	c->result.system_us = e->system_us;
	c->result.max_rss_kib = e->max_rss_kib;
	c->result.left_behind = e->killed;
	take_slot_limit(c, e);
	c->result.hit = limit_hit(c);
	capture_get(&c->out.capture, &out);
	capture_get(&c->err.capture, &text);
	if (c->result.hit == KODA_HIT_NONE && (out.left_out > 0 || text.left_out > 0))
		c->result.hit = KODA_HIT_OUTPUT;
	command_find_denials(c);
	compare(c);
}

static void
on_failed(struct koda_command *c, const Koda__Failed *f)
{
	char shown[384];
	struct koda_error err;

	bytes_show(shown, sizeof(shown), f->what.data, f->what.len);
	switch ((int)f->step) {
	case KODA__FAILED_STEP__FAILED_STEP_EXEC:
		err_set(&err, KODA_IO, f->errnum, "run '%s'",
		    shown[0] != '\0' ? shown : c->argv[0]);
		break;
	case KODA__FAILED_STEP__FAILED_STEP_CWD:
		err_set(&err, KODA_IO, f->errnum, "change to the directory '%s'",
		    shown[0] != '\0' ? shown : c->cwd);
		/* So that the caller does not take it for a command that was not found. */
		err.code = KODA_INVALID;
		break;
	case KODA__FAILED_STEP__FAILED_STEP_FORK:
		err_set(&err, KODA_WORKER, f->errnum,
		    "the command was not run: the sandbox cannot start a process");
		break;
	default:
		err_set(&err, KODA_UNSUPPORTED, f->errnum, "the command was not run: %s",
		    shown[0] != '\0' ? shown : "the sandbox could not prepare it");
	}
	command_fail(c, &err);
}

void
command_report(struct koda_command *c, const Koda__Report *r)
{
	switch ((int)r->report_case) {
	case KODA__REPORT__REPORT_EXITED:
		on_exited(c, r->exited);
		break;
	case KODA__REPORT__REPORT_FAILED:
		on_failed(c, r->failed);
		break;
	default:
		break;
	}
}

/* ---- running ---- */

static int
run(struct koda_command *c, struct koda_error *err)
{
	struct commands *cs = c->of;
	struct koda_slot *slot = cs->slot;
	struct loop *loop = &slot->ses->loop;
	int r = -1;

	/* The host may notice only now that the sandbox is dead. An order that was not accepted was
	 * not carried out. */
	for (int i = 0; r < 0 && i < RUN_TRIES; i++) {
		r = command_make_ready(slot, err);
		if (r == 0) {
			protect_command_begins(cs->protect);
			/* The command may run before sending returns. */
			c->started_at = monotonic_ns();
			r = command_send_exec(c, err);
			if (r < 0 && err->code == KODA_WORKER)
				sandbox_kill(cs->sandbox, err);
		}
		if (r < 0 &&
		    (err->code != KODA_WORKER || slot->commands == NULL || cs->sandbox->up))
			return -1;
	}
	if (r < 0)
		return -1;
	c->state = COMMAND_RUNNING;
	c->deadline = c->started_at + c->timeout_ms * NS_PER_MS;
	if (c->background && cs->compare_at == 0)
		cs->compare_at = c->started_at + PROTECT_INTERVAL_MS * NS_PER_MS;
	if (cs->look_at == 0)
		cs->look_at = c->started_at + PROTECT_LOOK_MS * NS_PER_MS;
	loop_wake_at(loop, cs->look_at);
	if (c->out.capture.fd >= 0)
		loop_watch(loop, &c->out.source, c->out.capture.fd, EPOLLIN);
	if (c->err.capture.fd >= 0)
		loop_watch(loop, &c->err.source, c->err.capture.fd, EPOLLIN);
	if (!c->untimed)
		loop_wake_at(loop, c->deadline);
	return 0;
}

void
command_answer(struct koda_command *c, bool yes)
{
	struct koda_error err;

	if (c->state != COMMAND_ASKING)
		return;
	if (!yes)
		err_set(&err, KODA_NOT_APPROVED, 0, "%s", c->error.message);
	else
		c->error = (struct koda_error){ 0 };
	handle_hold(&c->handle); /* it may end meanwhile, and be freed */
	if (!yes || run(c, &err) < 0) {
		if (c->state != COMMAND_OVER)
			command_fail(c, &err);
		else
			c->error = err; /* its slot has no sandbox any more, which has ended it */
	}
	handle_let_go(&c->handle);
}

static bool
answer_command(void *about, enum koda_scope scope, bool late)
{
	struct koda_command *c = about;
	struct koda_session *ses = c->of->slot->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	session_enter(ses);
	command_answer(c, scope != KODA_SCOPE_NO);
	session_leave(ses);
	return true;
}

static struct asked **
postpone_answer(void *about)
{
	return session_postpones(((struct koda_command *)about)->of->slot->ses);
}

static const struct asked_ops command_ops = { command_question_refuse, answer_command,
	postpone_answer };

void
command_ask(struct koda_command *c)
{
	command_question_ask(c, &command_ops);
}

void
koda_command_end(struct koda_command *c)
{
	if (c->state == COMMAND_ASKING)
		command_answer(c, false);
	if (c->state != COMMAND_RUNNING || c->ending)
		return;
	c->ending = true;
	c->kill_at = monotonic_ns() + COMMAND_GRACE_MS * NS_PER_MS;
	command_send_signal(c, SIGTERM, true);
	loop_wake_at(&c->of->slot->ses->loop, c->kill_at);
}

/* Kills at once: a command that gets a chance to end by itself would go on planting. */
static void
kill_command(struct koda_command *c, uint64_t now)
{
	c->ending = true;
	c->deadline = UINT64_MAX;
	c->kill_at = now + SANDBOX_ANSWER_MS * NS_PER_MS;
	command_send_end(c);
	loop_wake_at(&c->of->slot->ses->loop, c->kill_at);
}

void
command_planted(struct koda_command *c, const char *path, size_t neighbours)
{
	const bool before = c->planted.over;

	if (c->state != COMMAND_RUNNING && c->state != COMMAND_COMPARING)
		return;
	if (planted_add(&c->planted, path, neighbours) && !before && c->state == COMMAND_RUNNING)
		kill_command(c, monotonic_ns());
}

bool
command_tick(struct koda_command *c, uint64_t now)
{
	struct koda_error err;

	if (c->state != COMMAND_RUNNING)
		return true;
	if (c->out.resume_at != 0 && now >= c->out.resume_at)
		command_read_output(&c->out);
	if (c->err.resume_at != 0 && now >= c->err.resume_at)
		command_read_output(&c->err);
	if (!c->ending && !c->untimed && now >= c->deadline) {
		c->timed_out = true;
		koda_command_end(c);
	}
	if (c->kill_at != 0 && now >= c->kill_at) {
		/* kill_command() was called already, and the sandbox did not end the command. */
		if (c->deadline == UINT64_MAX) {
			err_set(&err, KODA_WORKER, 0, "the sandbox could not end a command");
			sandbox_kill(c->of->sandbox, &err);
			return false;
		}
		kill_command(c, now);
	}
	return true;
}

void
command_cut_short(struct koda_command *c, const struct koda_error *why)
{
	set_lost(c, why);
	if (c->state == COMMAND_RUNNING)
		command_send_end(c);
}

void
command_compared(struct koda_command *c)
{
	protect_forget(c->of->protect, c);
	compared(c);
}

uint64_t
command_next_time(const struct koda_command *c)
{
	uint64_t end;

	if (c->state != COMMAND_RUNNING)
		return UINT64_MAX;
	if (c->ending)
		end = c->kill_at;
	else
		end = c->untimed ? UINT64_MAX : c->deadline;
	return command_least(command_least(c->out.resume_at, c->err.resume_at), end);
}
