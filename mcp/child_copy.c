/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/child_copy.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/child_policy.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "shared/base/clock.h"

/* At the end of a child: how long to wait for what looks at its copy. */
#define END_MS 5000

struct child_copy {
	struct koda_session *ses; /* of the project */
	struct koda_copy *copy;
	struct connection *parent; /* while the copy is made; then NULL */
	uint64_t until;
	char *project;
};

static int
on_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	const struct child_copy *c = data;
	const uint64_t now = monotonic_ms();

	if (c->parent != NULL)
		return c->parent->hub->wait(c->parent->hub, c->parent, fds, n, timeout_ms);
	if (now >= c->until)
		return -1;
	if (timeout_ms < 0 || (uint64_t)timeout_ms > c->until - now)
		timeout_ms = (int)(c->until - now);
	return poll(fds, (nfds_t)n, timeout_ms);
}

static void
free_copy(struct child_copy *c)
{
	koda_copy_close(c->copy);
	koda_session_close(c->ses);
	free(c->project);
	free(c);
}

struct child_copy *
child_copy_new(struct connection *parent, const struct child_wish *wish,
    const struct koda_policy *policy, struct koda_error *err)
{
	const struct koda_copy_options options = { .kind = wish->workspace, .agent = wish->name };
	struct koda_session_options so = KODA_SESSION_OPTIONS_INIT;
	struct child_copy *c;

	if (review_enter(parent, err) < 0)
		return NULL;
	c = memory_zero(sizeof(*c));
	c->parent = parent;
	c->project = memory_string(wish->root);
	so.root = wish->root;
	so.mode = wish->mode;
	so.policy = policy;
	so.helper_dir = parent->helper_dir;
	so.commands = true;
	so.narrowed = parent->narrowed || strcmp(wish->root, parent->root) != 0;
	so.wait = on_wait;
	so.data = c;
	c->ses = koda_session_open(&so, err);
	if (c->ses != NULL)
		c->copy = koda_copy_open(c->ses, &options, err);
	review_leave(parent);
	c->parent = NULL;
	if (c->copy != NULL)
		return c;
	free_copy(c);
	return NULL;
}

const char *
child_copy_root(const struct child_copy *c)
{
	return koda_copy_root(c->copy);
}

struct koda_policy *
child_copy_policy(const struct child_copy *c, const struct koda_policy *policy,
    struct koda_error *err)
{
	return koda_copy_policy(c->copy, policy, err);
}

/* ---- the end ---- */

static void
tell(struct connection *conn, const char *id, const char *verdict, const char *why,
    const char *hint)
{
	if (conn != NULL)
		record_draft(conn, id, verdict, why);
	fprintf(stderr, "koda-sandbox: copy %s is %s: %s\n%s%s", id, verdict, why, hint,
	    hint[0] != '\0' ? "\n" : "");
}

static void
keep(struct hub *hub, const char *client, const struct child_copy *c, const struct koda_released *r)
{
	struct kept_copy *kept = memory_zero(sizeof(*kept)), **at = &hub->kept_copies;

	*kept = (struct kept_copy){
		.client = memory_string(client),
		.id = memory_string(koda_copy_id(c->copy)),
		.path = memory_string(r->copy_removed ? "" : koda_copy_root(c->copy)),
		.branch = memory_string(r->branch_removed ? "" : koda_copy_branch(c->copy)),
		.reason = memory_string(r->reason),
		.hint = memory_string(r->hint),
	};
	while (*at != NULL)
		at = &(*at)->next;
	*at = kept;
}

void
child_copy_end(struct child_copy *c, struct hub *hub, const char *client, struct connection *conn)
{
	const char *id = koda_copy_id(c->copy);
	struct koda_released r = { 0 };
	struct koda_error err;

	c->until = monotonic_ms() + END_MS;
	if (koda_copy_release(c->copy, KODA_RELEASE_COMMIT, &r, &err) < 0) {
		r.reason = err.message;
		r.hint = "koda-sandbox drafts";
	}
	if (r.draft != NULL && r.draft[0] != '\0') {
		session_drafts_add_of(hub, client, r.draft, c->project);
		tell(conn, id, "kept as a draft", r.reason, r.hint);
	} else if (r.reason[0] != '\0') {
		keep(hub, client, c, &r);
		tell(conn, id, "kept", r.reason, r.hint);
	} else if (conn != NULL) {
		record_draft(conn, id, "discarded", "nothing is in it");
	}
	free_copy(c);
}

void
child_copies_kept(const struct connection *conn, kept_copy_fn *fn, void *data)
{
	const size_t len = strlen(conn->name);

	for (const struct kept_copy *k = conn->hub->kept_copies; k != NULL; k = k->next)
		if (strncmp(k->client, conn->name, len) == 0 && k->client[len] == '/')
			fn(data, k->client + len + 1, k);
}

void
child_copies_free(struct hub *hub)
{
	while (hub->kept_copies != NULL) {
		struct kept_copy *k = hub->kept_copies;

		hub->kept_copies = k->next;
		free(k->client);
		free(k->id);
		free(k->path);
		free(k->branch);
		free(k->reason);
		free(k->hint);
		free(k);
	}
}
