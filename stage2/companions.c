/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/companions.h"

#include <signal.h>

void
companions_set_worker(struct companions *c, pid_t pid)
{
	/* If it is not dead yet, it counts as a stranger from now on. */
	if (c->worker > 0)
		kill(c->worker, SIGKILL);
	c->worker = pid;
}

void
companions_add_search(struct companions *c, pid_t pid)
{
	for (unsigned i = 0; i < STAGE2_SEARCHES_MAX; i++) {
		if (c->search[i] == 0) {
			c->search[i] = pid;
			return;
		}
	}
	kill(pid, SIGKILL);
}

void
companions_set_meter(struct companions *c, pid_t pid)
{
	c->meter = pid;
}

void
companions_end_meter(struct companions *c)
{
	if (c->meter > 0)
		kill(c->meter, SIGKILL);
}

bool
companions_is_metering(const struct companions *c)
{
	return c->meter > 0;
}

bool
companions_has(const struct companions *c, pid_t pid)
{
	if (pid == c->worker || pid == c->meter)
		return true;
	for (unsigned i = 0; i < STAGE2_SEARCHES_MAX; i++)
		if (pid == c->search[i])
			return true;
	return false;
}

void
companions_forget(struct companions *c, pid_t pid)
{
	if (pid == c->worker)
		c->worker = 0;
	if (pid == c->meter)
		c->meter = 0;
	for (unsigned i = 0; i < STAGE2_SEARCHES_MAX; i++)
		if (pid == c->search[i])
			c->search[i] = 0;
}
