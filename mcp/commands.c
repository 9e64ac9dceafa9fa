/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mcp/approval.h"
#include "mcp/call.h"
#include "mcp/connection_slot.h"
#include "mcp/fault.h"
#include "mcp/memory.h"
#include "mcp/printed.h"
#include "mcp/record.h"
#include "shared/base/clock.h"
#include "show/told.h"

struct command_waiter {
	struct command_waiter *next;
	struct tool_call *call;
	command_over_fn *over;
};

struct command_list {
	struct connection *conn;
	struct command *first; /* newest first */
};

/* Of all clients. Needs no lock: the server has one thread. */
static size_t n_running;

struct command_list *
commands_new(struct connection *conn)
{
	struct command_list *all = memory_zero(sizeof(*all));

	all->conn = conn;
	return all;
}

static void
forget(struct command *c)
{
	struct command **at = &c->all->first;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	koda_command_result_done(&c->result);
	koda_command_free(c->handle);
	free(c->text);
	text_done(&c->failures);
	free(c);
}

void
commands_free(struct command_list *all)
{
	/* Closing the session has ended the running ones. */
	while (all->first != NULL)
		forget(all->first);
	free(all);
}

bool
commands_run(void)
{
	return n_running > 0;
}

/* ---- limits ---- */

const char *
commands_refuse(const struct command_list *all, const struct tool_call *call, bool background)
{
	static char why[128];
	size_t n = 0, n_background = 0;

	for (const struct tool_call *c = all->conn->calls; c != NULL; c = c->next)
		n += c->tool == call->tool;
	for (const struct command *c = all->first; c != NULL; c = c->next)
		n_background += c->background && !c->over;
	if (n + n_background > COMMANDS_MAX)
		snprintf(why, sizeof(why), "%d commands are under way: wait for one of them",
		    COMMANDS_MAX);
	else if (background && n_background >= BACKGROUND_MAX)
		snprintf(why, sizeof(why), "%d commands run in the background: stop one of them",
		    BACKGROUND_MAX);
	else
		return NULL;
	return why;
}

/* Frees the oldest background command that has ended, if there are too many. */
static void
make_room(struct command_list *all)
{
	struct command *eldest = NULL;
	size_t n = 0;

	for (struct command *c = all->first; c != NULL; c = c->next) {
		n += c->background;
		if (c->background && c->over && c->waiters == NULL)
			eldest = c;
	}
	if (n >= BACKGROUND_MAX && eldest != NULL)
		forget(eldest);
}

/* ---- a single command ---- */

static bool
any_runs(const struct command_list *all)
{
	const struct command *c = all->first;

	while (c != NULL && c->over)
		c = c->next;
	return c != NULL;
}

static int
stop_at_once(void *data, const struct koda_connection *c)
{
	return 1;
}

static int
skip(void *data, const struct koda_connection *c)
{
	return 0;
}

struct failures {
	struct told told[TOLD_FAILURES_MAX];
	size_t n;
};

static int
on_failure(void *data, const struct koda_connection *c)
{
	struct failures *all = data;

	/* A connection that the client closed is the command's own doing. */
	if (c->outcome != KODA_CONNECTION_FAILED || strcmp(c->rule, "client") == 0)
		return 0;
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->told[i].detail, c->detail) == 0)
			return 0;
	if (c->detail[0] != '\0')
		all->told[all->n++] = (struct told){ "", memory_string(c->detail) };
	return all->n == TOLD_FAILURES_MAX;
}

/* Collects the connections that failed; a refusal is among the violations already. Failures for
 * another reason are reported too, because a command itself would only say that the proxy
 * refused. */
static void
take_failures(struct command *c)
{
	struct koda_slot *slot = c->slot != NULL ? c->slot : c->all->conn->slot;
	struct failures all = { .n = 0 };
	uint64_t missed;

	if (slot == NULL || c->failed || c->result.status == 0)
		return;
	koda_slot_connections(slot, stop_at_once, NULL); /* makes the library ask the proxy */
	koda_slot_new_connections(slot, &c->seen_connections, &missed, on_failure, &all);
	told_sentences(all.told, all.n, text_put, &c->failures);
	for (size_t i = 0; i < all.n; i++)
		free((char *)(uintptr_t)all.told[i].detail);
}

static void
record_end_of(const struct command *c)
{
	const struct record_command over = {
		.intent = c->intent,
		.text = c->text,
		.failed = c->failed ? c->err.message : NULL,
		.status = c->result.status,
		.duration_us = (c->ended_ms - c->began_ms) * 1000,
	};

	record_command_over(c->all->conn, &over);
}

static void
on_over(void *data, struct koda_command *handle)
{
	struct command *c = data;
	struct command_waiter *w;

	c->over = true;
	c->ended_ms = monotonic_ms();
	n_running--;
	c->failed = koda_command_result(handle, &c->result, &c->err) < 0;
	take_failures(c);
	/* For a lost command the handle keeps what it had printed. */
	if (!c->failed) {
		koda_command_free(c->handle);
		c->handle = NULL;
	}
	if (c->background)
		record_end_of(c);
	if (!any_runs(c->all))
		approval_hosts_over(c->all->conn);
	while ((w = c->waiters) != NULL) {
		c->waiters = w->next;
		w->over(w->call, c);
		free(w);
	}
	if (!c->background)
		forget(c);
}

static int
make_id(char id[COMMAND_ID_SIZE], struct koda_error *err)
{
	unsigned long long bits;

	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return fault_set(err, KODA_INTERNAL, 0,
		    "cannot get a random number for the command's id");
	snprintf(id, COMMAND_ID_SIZE, "%016llx", bits);
	return 0;
}

struct command *
commands_start(struct command_list *all, const struct command_request *request,
    struct koda_error *err)
{
	const struct koda_command_options options = {
		.shell = request->text,
		.cwd = request->cwd,
		.timeout_ms = request->timeout_ms,
		.background = request->background,
		.approved = true,
		.max_output = request->background ? BACKGROUND_OUTPUT_MAX : COMMAND_OUTPUT_MAX,
	};
	struct koda_slot *slot =
	    request->slot != NULL ? request->slot : connection_slot(all->conn, err);
	struct command *c;
	uint64_t missed;

	if (slot == NULL)
		return NULL;
	c = memory_zero(sizeof(*c));
	if (request->background && make_id(c->id, err) < 0) {
		free(c);
		return NULL;
	}
	c->all = all;
	c->slot = request->slot;
	c->background = request->background;
	c->intent = request->intent;
	c->began_ms = monotonic_ms();
	c->progress_at = c->began_ms + COMMAND_PROGRESS_MS;
	koda_slot_new_connections(slot, &c->seen_connections, &missed, skip, NULL);
	c->handle = koda_command_start(slot, &options, on_over, c, err);
	if (c->handle == NULL) {
		free(c);
		return NULL;
	}
	n_running++;
	c->text = memory_string(request->text);
	if (c->background)
		make_room(all);
	c->next = all->first;
	all->first = c;
	return c;
}

void
commands_wait(struct command *c, struct tool_call *call, command_over_fn *over)
{
	struct command_waiter *w = memory_zero(sizeof(*w));

	*w = (struct command_waiter){ .next = c->waiters, .call = call, .over = over };
	c->waiters = w;
}

void
commands_end(struct command *c)
{
	if (!c->over)
		koda_command_end(c->handle);
}

void
commands_output(const struct command *c, struct koda_output *ret_out, struct koda_output *ret_err)
{
	if (c->handle != NULL) {
		koda_command_output(c->handle, ret_out, ret_err);
		return;
	}
	*ret_out = c->result.out;
	*ret_err = c->result.err;
}

struct command *
commands_find(const struct command_list *all, const char *id)
{
	struct command *c = all->first;

	while (c != NULL && (!c->background || strcmp(c->id, id) != 0))
		c = c->next;
	return c;
}

const struct command *
commands_next(const struct command_list *all, const struct command *c)
{
	return c == NULL ? all->first : c->next;
}

void
commands_tell(const struct command_list *all, commands_fn *fn, void *data)
{
	const uint64_t now = monotonic_ms();

	for (const struct command *c = all->first; c != NULL; c = c->next)
		if (!c->over)
			fn(data, c->text, (double)(now - c->began_ms) / 1000);
}

/* ---- progress ---- */

/* Shows the new output of a stream; only its last part if there is much. */
static void
show_new(struct text *t, const struct koda_output *all, uint64_t *shown)
{
	uint64_t from = *shown;
	struct printed p;

	if (all->total - from > COMMAND_PROGRESS_BYTES) {
		text_printf(t, "[...]\n");
		from = all->total - COMMAND_PROGRESS_BYTES;
	}
	printed_take(all, from, COMMAND_PROGRESS_BYTES, false, &p);
	printed_show(t, &p);
	*shown = p.next;
}

/* Reports progress. Returns whether there was new output. */
static bool
report(struct command *c, struct tool_call *call)
{
	uint64_t before = c->shown_out + c->shown_err;
	struct koda_output out, err;
	struct text t = { 0 };

	koda_command_output(c->handle, &out, &err);
	show_new(&t, &out, &c->shown_out);
	show_new(&t, &err, &c->shown_err);
	if (c->shown_out + c->shown_err > before) {
		text_add(&t, "", 1);
		call_progress(call, (double)(c->shown_out + c->shown_err), 0, t.p);
	}
	text_done(&t);
	return c->shown_out + c->shown_err > before;
}

uint64_t
commands_tick(struct command_list *all, uint64_t now_ms)
{
	uint64_t next = UINT64_MAX;

	for (struct command *c = all->first; c != NULL; c = c->next) {
		struct tool_call *call = c->waiters != NULL ? c->waiters->call : NULL;

		if (c->background || c->over || call == NULL || call->mute ||
		    call->progress_token == NULL)
			continue;
		/* A silent command wakes the loop when it prints. */
		if (now_ms >= c->progress_at && report(c, call))
			c->progress_at = now_ms + COMMAND_PROGRESS_MS;
		if (now_ms < c->progress_at && c->progress_at < next)
			next = c->progress_at;
	}
	return next;
}
