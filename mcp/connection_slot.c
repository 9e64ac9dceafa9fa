#include "mcp/connection_slot.h"

#include "mcp/fault.h"
#include "mcp/record.h"

struct koda_slot *
connection_slot(struct connection *conn, struct koda_error *err)
{
	/* Closing the session answers the calls under way; without this check they would go on
	 * with what it has freed. */
	if (conn->ending) {
		fault_set(err, KODA_WORKER, 0, "the session has ended");
		return NULL;
	}
	/* Not while other calls still expect answers from it: releasing the slot would discard
	 * them. */
	if (conn->slot_lost && conn->n_calls <= 1) {
		record_news(conn);
		koda_slot_release(conn->slot);
		conn->slot = NULL;
		conn->slot_lost = false;
		conn->seen_connections = conn->seen_violations = 0;
	}
	if (conn->slot != NULL)
		return conn->slot;
	/* Only one connection acquires its slot at a time: a second wait, inside the first one,
	 * would use up the first one's time. */
	if (conn->hub->acquiring || conn->hub->is_unwanted(conn->hub, conn)) {
		fault_set(err, KODA_WORKER, 0, "the session's sandbox cannot be started now");
		return NULL;
	}
	conn->acquiring = conn->hub->acquiring = true;
	conn->slot = koda_slot_acquire(conn->ses, NULL, err);
	conn->acquiring = conn->hub->acquiring = false;
	return conn->slot;
}

void
connection_lost_slot(struct connection *conn)
{
	conn->slot_lost = conn->slot != NULL;
}

bool
connection_waits(const struct connection *conn)
{
	return conn->acquiring || (conn->hub->acquiring && (conn->slot == NULL || conn->slot_lost));
}
