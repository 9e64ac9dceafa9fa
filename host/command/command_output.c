/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command_output.h"

#include <sys/epoll.h>

#include "host/command/stderr_parse.h"
#include "host/context/entry.h"
#include "host/policy/reason.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* The time between two reads during a flood: the command fills most of a one-megabyte pipe in it.
 * If each write woke the host, the host would read a few pages at a time and take the processor
 * from the command. */
#define FLOOD_PAUSE_NS UINT64_C(200000)

void
command_read_output(struct command_output *out)
{
	struct koda_session *ses = out->command->of->slot->ses;
	const uint64_t before = out->capture.total;

	out->resume_at = 0;
	if (!capture_read(&out->capture)) {
		loop_unwatch(&ses->loop, &out->source);
	} else if (capture_floods(&out->capture) && out->capture.total != before) {
		loop_unwatch(&ses->loop, &out->source);
		out->resume_at = monotonic_ns() + FLOOD_PAUSE_NS;
		loop_wake_at(&ses->loop, out->resume_at);
	} else {
		loop_watch(&ses->loop, &out->source, out->capture.fd, EPOLLIN);
	}
}

void
command_on_output(struct source *source)
{
	struct command_output *out = (struct command_output *)source;

	if (out->command->of != NULL)
		command_read_output(out);
}

void
command_drain(struct koda_command *c, struct command_output *out)
{
	uint64_t before;

	do {
		before = out->capture.total;
	} while (
	    out->capture.fd >= 0 && capture_read(&out->capture) && out->capture.total != before);
	loop_unwatch(&c->of->slot->ses->loop, &out->source);
	close_at(&out->capture.fd);
	out->capture.fd = -1;
}

/* ---- denials ---- */

/* How many lines that look like denials are recorded at each end of the output: a command that
 * prints more of them cannot push violations that were really seen out of the ring. */
#define SUSPECTED_MAX 30

/* A search of a command's text. */
struct output_scan {
	struct commands *of;
	const char *command, *cwd;
	koda_violation_fn *fn;
	void *data;
	size_t left; /* how many may be recorded */
	int stopped;
};

static int
on_denial(void *data, const struct denial *found)
{
	struct output_scan *scan = data;
	struct violations *ring = &scan->of->violations;
	struct denial d = *found;
	char reason[REASON_MAX];
	struct koda_violation v = { .kind = d.kind,
		.target = d.target,
		.command = scan->command,
		.rule = "",
		.detail = "",
		.certain = false };

	/* The view would have allowed the access, so something else refused it: mostly file
	 * modes. */
	if (!stderr_parse_judge(&d, &scan->of->sandbox->view, scan->cwd))
		return 0;
	if (scan->left-- == 0)
		return 1;
	if (d.target[0] != '\0' && d.kind == KODA_VIOLATION_FILE_WRITE)
		view_writes(&scan->of->sandbox->view, d.target, &v.rule);
	else if (d.target[0] != '\0' && d.kind == KODA_VIOLATION_FILE_READ)
		view_shows(&scan->of->sandbox->view, d.target, &v.rule);
	if (v.rule == NULL)
		v.rule = "";
	if (reason_of(v.rule, d.target, scan->of->slot->ses->home, reason))
		v.detail = reason;
	violations_record(ring, &v);
	if (scan->fn != NULL && ring->n > 0)
		scan->stopped = scan->fn(scan->data, violations_at(ring, ring->n - 1));
	return scan->stopped;
}

/* What fails in a draft, and what to do. */
static const struct draft_hint {
	enum stderr_failure failure;
	const char *rule, *detail;
} draft_hints[] = {
	{ STDERR_CROSS_DEVICE, "draft_rename",
	    "in a draft a directory that the project already has cannot be renamed: copy it and "
	    "remove the old one, as 'mv' does, or run the command without a draft" },
	{ STDERR_OVERFLOW, "draft_owner",
	    "in a draft files of another user or of another group than the user's own cannot be "
	    "changed: change their group, or run the command without a draft" },
};

/* Records the first line that reports that failure. Returns true if there is one. */
static bool
find_hint(struct output_scan *scan, const struct draft_hint *hint, const char *text, size_t len)
{
	const struct sandbox *sb = scan->of->sandbox;
	struct denial d;
	struct koda_violation v = { .kind = KODA_VIOLATION_NOTE,
		.target = d.target,
		.command = scan->command,
		.rule = hint->rule,
		.detail = hint->detail };

	if (!sb->drafted || scan->stopped != 0 ||
	    !stderr_parse_failure(hint->failure, text, len, &d))
		return false;
	stderr_parse_judge(&d, &sb->view, scan->cwd);
	violations_record(&scan->of->violations, &v);
	if (scan->fn != NULL && scan->of->violations.n > 0)
		scan->stopped = scan->fn(scan->data,
		    violations_at(&scan->of->violations, scan->of->violations.n - 1));
	return true;
}

void
command_find_denials(struct koda_command *c)
{
	struct output_scan scan = { .of = c->of,
		.command = c->name,
		.cwd = c->cwd,
		.left = SUSPECTED_MAX };
	struct koda_output out;

	capture_get(&c->err.capture, &out);
	if (out.head_len > SCAN_STDERR_MAX)
		out.head_len = SCAN_STDERR_MAX;
	if (out.tail_len > SCAN_STDERR_MAX) {
		out.tail += out.tail_len - SCAN_STDERR_MAX;
		out.tail_len = SCAN_STDERR_MAX;
	}
	stderr_parse(out.head, out.head_len, on_denial, &scan);
	scan.left = SUSPECTED_MAX;
	stderr_parse(out.tail, out.tail_len, on_denial, &scan);
	for (size_t i = 0; i < sizeof(draft_hints) / sizeof(draft_hints[0]); i++) {
		if (!find_hint(&scan, &draft_hints[i], out.head, out.head_len))
			find_hint(&scan, &draft_hints[i], out.tail, out.tail_len);
	}
}

int
koda_slot_scan_output(struct koda_slot *slot, const char *command, const char *cwd,
    const char *text, size_t len, koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	struct output_scan scan = { .of = slot->commands,
		.command = command,
		.cwd = cwd,
		.fn = fn,
		.data = data,
		.left = SIZE_MAX };

	session_enter(ses); /* the callback may release the slot, or close the session */
	if (slot->commands != NULL) {
		stderr_parse(text, len, on_denial, &scan);
		for (size_t i = 0; i < sizeof(draft_hints) / sizeof(draft_hints[0]); i++)
			find_hint(&scan, &draft_hints[i], text, len);
	}
	session_leave(ses);
	return scan.stopped;
}
