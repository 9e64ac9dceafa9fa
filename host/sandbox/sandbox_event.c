/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_event.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/access.h"

static bool
is_of_git(const char *path)
{
	const char *at = strstr(path, "/.git");

	while (at != NULL && at[5] != '/' && at[5] != '\0')
		at = strstr(at + 1, "/.git");
	return at != NULL;
}

/* What each kind of event means to the embedder. `many`: the words for several of them. */
static const struct event {
	Koda__EventKind kind;
	enum koda_violation_kind violation;
	enum access_rule access; /* if rule is NULL */
	const char *rule, *detail, *many;
} events[] = {
	{ KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED, KODA_VIOLATION_NETWORK_OUTBOUND,
	    .rule = "host_socket", .detail = "commands may not connect to a socket of the host",
	    .many = "connections to sockets of the host" },
	{ KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED, KODA_VIOLATION_FILE_WRITE,
	    .access = ACCESS_RULE_GIT_CONFIG,
	    .detail =
		"a command may not make a link or a special file in a git directory: git on the "
		"host would write through it; make it outside of the git directory",
	    .many = "links or special files in git directories" },
	{ KODA__EVENT_KIND__EVENT_KIND_REMOUNTED, KODA_VIOLATION_OTHER, .rule = "replaced_outside",
	    .detail =
		"a process outside the sandbox replaced a protected place; it is protected again" },
	{ KODA__EVENT_KIND__EVENT_KIND_LOST, KODA_VIOLATION_OTHER, .rule = "replaced_outside",
	    .detail = "a process outside the sandbox removed or replaced a protected place" },
	{ KODA__EVENT_KIND__EVENT_KIND_HIDDEN, KODA_VIOLATION_FILE_READ,
	    .access = ACCESS_RULE_DENY_READ,
	    .detail = "it did not exist when the sandbox started; it was hidden when it appeared" },
};

static const struct event *
find_event(Koda__EventKind kind)
{
	for (size_t i = 0; i < N_ELEMENTS(events); i++)
		if (events[i].kind == kind)
			return &events[i];
	return NULL;
}

/* A protected name has appeared. The comparison finds out what it is, and moves it away if a
 * command planted it. A repository that a command is creating is checked when that command is done:
 * git would fail if parts of it disappeared. A name in a cache does not affect the host. */
static void
event_appeared(struct sandbox *sb, const char *target)
{
	if (target == NULL || is_of_git(target) || view_is_cached(&sb->view, target))
		return;
	sb->client->appeared(sb->data);
}

void
sandbox_event(struct sandbox *sb, const Koda__Event *e)
{
	cleanup_free char *target =
	    e->target.len > 0 ? strndup((const char *)e->target.data, e->target.len) : NULL;
	const struct event *event = find_event(e->kind);
	struct koda_violation v = { .target = target == NULL ? "" : target,
		.command = sb->client->blame(sb->data),
		.certain = true };
	char many[256];

	if (e->kind == KODA__EVENT_KIND__EVENT_KIND_APPEARED)
		event_appeared(sb, target);
	if (e->kind == KODA__EVENT_KIND__EVENT_KIND_UNCOVERED)
		sb->uncovered = true;
	if (event == NULL)
		return;
	v.kind = event->violation;
	v.rule = event->rule != NULL ? event->rule : access_rule_name(event->access);
	v.detail = event->detail;
	if (e->has_untold && event->many != NULL) {
		snprintf(many, sizeof(many), "%llu more %s, too fast to be reported one by one",
		    (unsigned long long)e->untold, event->many);
		v.detail = many;
	}
	if (e->has_ended && e->ended > 0) {
		snprintf(many, sizeof(many), "%s; %llu process%s that had it open %s ended",
		    event->detail, (unsigned long long)e->ended, e->ended == 1 ? "" : "es",
		    e->ended == 1 ? "was" : "were");
		v.detail = many;
	}
	violations_record(sb->violations, &v);
}
