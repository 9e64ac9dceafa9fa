/* SPDX-License-Identifier: Apache-2.0 */
#include "host/loop/leaving.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

void
leaving_adopt(struct leaving *leaving, struct child *child)
{
	struct child *more;

	if (child_gone(child, 0))
		return;
	more = realloc(leaving->v, (leaving->n + 1) * sizeof(*more));
	if (more == NULL) {
		child_gone(child, LEAVING_MS);
		close_at(&child->pidfd);
		child->pidfd = -1;
		return;
	}
	leaving->v = more;
	leaving->v[leaving->n++] = *child;
	child->pidfd = -1;
}

void
leaving_reap(struct leaving *leaving, int timeout_ms)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	for (size_t i = 0; i < leaving->n;) {
		uint64_t now = timeout_ms > 0 ? monotonic_ns() : until;

		if (child_gone(&leaving->v[i], now < until ? (int)((until - now) / NS_PER_MS) : 0))
			leaving->v[i] = leaving->v[--leaving->n];
		else
			i++;
	}
}

void
leaving_abandon(struct leaving *leaving)
{
	for (size_t i = 0; i < leaving->n; i++)
		close(leaving->v[i].pidfd);
	leaving->n = 0;
}

void
leaving_done(struct leaving *leaving)
{
	free(leaving->v);
	*leaving = (struct leaving){ 0 };
}
