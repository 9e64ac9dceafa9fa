/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/list.h"

void
list_link(struct koda_command *c)
{
	struct commands *cs = c->of;

	c->next = cs->first;
	if (cs->first != NULL)
		cs->first->prev = c;
	cs->first = c;
	cs->mixed |= cs->n++ > 0;
}

void
list_unlink(struct koda_command *c)
{
	struct commands *cs = c->of;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		cs->first = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->prev = c->next = NULL;
	if (--cs->n == 0)
		cs->mixed = false;
}

const char *
list_blame(const struct commands *cs)
{
	return cs->n == 1 && !cs->mixed ? cs->first->name : "";
}

bool
list_any_runs(const struct commands *cs)
{
	const struct koda_command *c = cs->first;

	while (c != NULL && c->state != COMMAND_RUNNING)
		c = c->next;
	return c != NULL || cs->n_given_up > 0;
}
