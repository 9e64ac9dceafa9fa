/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for commands: koda_command_start() and those around it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "host/command/command_orders.h"
#include "host/command/command_output.h"
#include "host/command/command_request.h"
#include "host/command/list.h"
#include "host/context/entry.h"
#include "host/context/turn.h"
#include "host/protect/protect_compare.h"
#include "shared/base/cleanup.h"

/* ---- starting ---- */

static struct koda_command *
command_of(struct handle *handle)
{
	return (struct koda_command *)((char *)handle - offsetof(struct koda_command, handle));
}

static void
tell_over(struct handle *handle)
{
	struct koda_command *c = command_of(handle);

	c->done(c->data, c);
}

static void
give_up(struct handle *handle)
{
	koda_command_free(command_of(handle));
}

static void
destroy_handle(struct handle *handle)
{
	command_destroy(command_of(handle));
}

static struct koda_command *
command_new(struct koda_slot *slot, koda_command_done_fn *done, void *data)
{
	struct koda_command *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->of = slot->commands;
	c->handle = (struct handle){ .ses = slot->ses,
		.tell = tell_over,
		.give_up = give_up,
		.destroy = destroy_handle };
	c->fd[0] = c->fd[1] = c->fd[2] = -1;
	c->out = (struct command_output){ { command_on_output, -1, 0 }, c, { .fd = -1 }, 0 };
	c->err = (struct command_output){ { command_on_output, -1, 0 }, c, { .fd = -1 }, 0 };
	c->done = done;
	c->data = data;
	c->seen_violations = slot->commands->violations.recorded;
	return c;
}

static struct koda_command *
command_start(struct koda_slot *slot, const struct koda_command_options *o,
    koda_command_done_fn *done, void *data, bool sync, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct koda_command *c;
	bool ask, failed;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return NULL;
	if (slot->commands == NULL) {
		err_set(err, KODA_UNSUPPORTED, 0, "%s",
		    ses->commands
			? "the kernel sandbox does not work, and no command runs without it"
			: "this session was opened without commands, or the kernel sandbox "
			  "does not work here, and no command runs without it");
		return NULL;
	}
	if (slot->commands->ended) {
		err_set(err, KODA_INVALID, 0,
		    "the slot has ended and runs no more commands: acquire another one");
		return NULL;
	}
	c = command_new(slot, done, data);
	if (c == NULL || command_fill(c, o, err) < 0) {
		if (c == NULL)
			err_set(err, KODA_INTERNAL, ENOMEM, "command");
		else
			command_destroy(c);
		return NULL;
	}
	c->sync = sync;
	ask = koda_policy_get(slot->policy)->trust == KODA_TRUST_REQUIRE && !slot->drafted &&
	    !o->approved;
	c->state = COMMAND_ASKING;
	list_link(c);
	ses->n_under_way++;
	session_enter(ses);
	handle_hold(&c->handle); /* its own callback may run meanwhile, and free it */
	if (ask)
		command_ask(c);
	else
		command_answer(c, true);
	failed = c->handle.freed || (c->state == COMMAND_OVER && c->error.code != KODA_OK);
	if (failed && err != NULL)
		*err = c->error;
	if (failed && !c->handle.freed)
		koda_command_free(c);
	handle_let_go(&c->handle);
	session_leave(ses);
	return failed ? NULL : c;
}

struct koda_command *
koda_command_start(struct koda_slot *slot, const struct koda_command_options *options,
    koda_command_done_fn *done, void *data, struct koda_error *err)
{
	return command_start(slot, options, done, data, false, err);
}

/* ---- while it runs ---- */

int
koda_command_wait(struct koda_command *c, int timeout_ms, struct koda_error *err)
{
	return turn_until_over(&c->handle, timeout_ms, err);
}

int
koda_command_signal(struct koda_command *c, int signo, struct koda_error *err)
{
	if (c->state != COMMAND_RUNNING)
		return err_set(err, KODA_INVALID, ESRCH, "the command is not running");
	if (signo <= 0 || signo >= NSIG)
		return err_set(err, KODA_INVALID, 0, "no such signal: %d", signo);
	command_send_signal(c, signo, false);
	return 0;
}

void
koda_command_output(const struct koda_command *c, struct koda_output *ret_out,
    struct koda_output *ret_err)
{
	capture_get((struct capture *)(uintptr_t)&c->out.capture, ret_out);
	capture_get((struct capture *)(uintptr_t)&c->err.capture, ret_err);
}

/* ---- when it is over ---- */

/* Owns the text and the violations of a result. */
struct kept {
	struct capture out, err;
	struct koda_violation *violations;
};

int
koda_command_result(struct koda_command *c, struct koda_command_result *ret, struct koda_error *err)
{
	struct kept *kept;

	memset(ret, 0, sizeof(*ret));
	if (c->state != COMMAND_OVER)
		return err_set(err, KODA_INVALID, 0, "the command is not finished");
	if (c->error.code != KODA_OK) {
		if (err != NULL)
			*err = c->error;
		return -1;
	}
	kept = calloc(1, sizeof(*kept));
	if (kept == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "result");
	kept->out = c->out.capture;
	kept->err = c->err.capture;
	kept->violations = take_ptr(&c->violations);
	capture_none(&c->out.capture);
	capture_none(&c->err.capture);
	*ret = c->result;
	ret->violations = kept->violations;
	err_set(&c->error, KODA_INVALID, 0, "the result was already taken");
	capture_get(&kept->out, &ret->out);
	capture_get(&kept->err, &ret->err);
	ret->priv = kept;
	return 0;
}

void
koda_command_result_done(struct koda_command_result *result)
{
	struct kept *kept = result->priv;

	if (kept != NULL) {
		capture_done(&kept->out);
		capture_done(&kept->err);
		free(kept->violations);
	}
	free(kept);
	memset(result, 0, sizeof(*result));
}

void
koda_command_free(struct koda_command *c)
{
	struct koda_error err;

	if (c == NULL)
		return;
	c->done = NULL;
	if (handle_postpone(&c->handle))
		return;
	if (c->state != COMMAND_OVER && *c->of->slot->ses->here != 1) {
		list_unlink(c); /* it is the parent's */
	} else if (c->state != COMMAND_OVER) {
		/* Its handle is gone: kill it at once, without SIGTERM first. */
		if (c->state == COMMAND_RUNNING) {
			command_send_end(c);
			c->of->n_given_up++;
		}
		protect_forget(c->of->protect, c);
		err_set(&err, KODA_WORKER, 0, "the caller gave the command up");
		command_fail(c, &err);
	}
	handle_free(&c->handle);
}

int
koda_run(struct koda_slot *slot, const struct koda_command_options *options,
    struct koda_command_result *ret, struct koda_error *err)
{
	struct koda_command *c = command_start(slot, options, NULL, NULL, true, err);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (c == NULL)
		return -1;
	r = koda_command_wait(c, -1, err);
	if (r > 0)
		r = koda_command_result(c, ret, err);
	koda_command_free(c);
	return r < 0 ? -1 : 0;
}
