/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/batch.h"

#include <stdlib.h>

#include "mcp/connection_out.h"
#include "mcp/memory.h"

struct batch {
	struct connection *conn;
	json_t *answers;
	size_t holders;
};

struct batch *
batch_new(struct connection *conn)
{
	struct batch *batch = memory_zero(sizeof(*batch));

	batch->conn = conn;
	batch->answers = json_array();
	batch->holders = 1;
	return batch;
}

struct batch *
batch_hold(struct batch *batch)
{
	batch->holders++;
	return batch;
}

void
batch_leave(struct batch *batch, json_t *answer)
{
	if (answer != NULL)
		json_array_append_new(batch->answers, answer);
	if (--batch->holders > 0)
		return;
	/* A batch of notifications only has no answer. */
	if (json_array_size(batch->answers) > 0)
		connection_send(batch->conn, json_incref(batch->answers));
	json_decref(batch->answers);
	free(batch);
}
