/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions that list what a slot's commands reached, or tried to reach.
 */
#include "host/command/state.h"
#include "host/context/entry.h"
#include "host/egress/connections.h"
#include "host/egress/egress.h"

KODA_API int
koda_slot_connections(struct koda_slot *slot, koda_connection_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_connection *one;
	const struct connections *c;
	int stopped = 0;

	if (slot->commands == NULL)
		return 0;
	/* The callback may release the slot, or close the session. */
	session_enter(ses);
	if (session_check(ses, NULL) == 0)
		egress_drain(&slot->commands->sandbox->egress, true);
	c = slot->commands->sandbox->egress.connections;
	/* The callback may cause new entries, which push out the oldest. */
	for (uint64_t i = c != NULL ? connections_first(c) : 0;
	     c != NULL && stopped == 0 && i < connections_count(c); i++)
		if ((one = connections_at(c, i)) != NULL)
			stopped = fn(data, one);
	session_leave(ses);
	return stopped;
}

int
koda_slot_new_connections(struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_connection_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_connection *one;
	const struct connections *c;
	int stop = 0;

	*ret_missed = 0;
	session_enter(ses);
	while (stop == 0 && slot->commands != NULL &&
	    (c = slot->commands->sandbox->egress.connections) != NULL &&
	    *seen < connections_count(c)) {
		if (*seen < connections_first(c)) {
			*ret_missed += connections_first(c) - *seen;
			*seen = connections_first(c);
		} else if ((one = connections_at(c, (*seen)++)) != NULL) {
			stop = fn(data, one);
		}
	}
	session_leave(ses);
	return stop;
}
