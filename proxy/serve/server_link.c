/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/server_link.h"

#include <string.h>

#include "shared/base/cleanup.h"

void
server_link_init(struct server_link *s, struct listener *l, Koda__EgressKind kind,
    side_event_fn *event, server_link_fn *fn, void *data)
{
	*s = (struct server_link){ .listener = l, .kind = kind, .fn = fn, .data = data };
	side_init(&s->side, l->proxy->loop, event, data);
}

void
server_link_take(struct server_link *s, const struct target *target, const struct stream *stream,
    struct account *account)
{
	side_open(&s->side, stream);
	s->at = *target;
	s->account = account;
	s->had = true;
	s->reused = false;
}

bool
server_link_is_open(const struct server_link *s)
{
	return s->side.s.fd >= 0;
}

static void
link_close(struct server_link *s, Koda__EgressOutcome outcome, const char *detail)
{
	side_close(&s->side, false);
	account_end(take_ptr(&s->account), outcome, NULL, detail);
	s->via = NULL;
	s->reused = false;
}

void
server_link_drop(struct server_link *s)
{
	link_close(s, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, "");
}

void
server_link_fail(struct server_link *s, const char *why)
{
	link_close(s, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, why);
}

static bool
same_target(const struct target *a, const struct target *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void
on_judged(void *data, const struct gate_answer *a)
{
	struct server_link *s = data;

	s->gate = NULL;
	if (a->refusal.status != 0) {
		s->fn(s->data, SERVER_LINK_REFUSED, &a->refusal);
		return;
	}
	if (!s->judged_only) {
		struct stream stream;

		stream_init(&stream, a->fd, NULL);
		server_link_take(s, &s->wanted, &stream, a->account);
		s->via = a->via;
	} else if (!server_link_is_open(s)) {
		/* The connection ended while the gate was judging. */
		if (!server_link_get(s, &s->wanted))
			s->fn(s->data, SERVER_LINK_NO_MEMORY, NULL);
		return;
	}
	s->fn(s->data, SERVER_LINK_READY, NULL);
}

bool
server_link_get(struct server_link *s, const struct target *target)
{
	if (target != &s->wanted)
		s->wanted = *target;
	s->judged_only =
	    server_link_is_open(s) && !s->side.ended && same_target(&s->wanted, &s->at);
	if (!s->judged_only && server_link_is_open(s))
		server_link_drop(s);
	s->gate = gate_start(s->listener, s->kind, &s->wanted,
	    GATE_PLAIN | (s->judged_only ? GATE_JUDGE_ONLY : 0), on_judged, s);
	return s->gate != NULL;
}

bool
server_link_asks(const struct server_link *s)
{
	return gate_asks(s->gate);
}

void
server_link_done(struct server_link *s)
{
	if (s->gate != NULL)
		gate_cancel(take_ptr(&s->gate));
	server_link_drop(s);
}
