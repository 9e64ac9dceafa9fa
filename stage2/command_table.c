/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/command_table.h"

#include <errno.h>
#include <stdlib.h>

#include "shared/base/cleanup.h"

struct command_table *
commands_new(struct koda_error *err)
{
	cleanup_free struct command_table *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "commands");
		return NULL;
	}
	c->slots = exec_slots_new(err);
	if (c->slots == NULL)
		return NULL;
	c->children_fd = -1;
	return take_ptr(&c);
}

struct exec_slot *
commands_slots(struct command_table *c)
{
	return c->slots;
}

bool
commands_any(const struct command_table *c)
{
	return c->end > 0;
}

bool
commands_are_ending(const struct command_table *c)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && c->command[i].limit.limit != 0)
			return true;
	return false;
}

struct ordered_command *
commands_by_id(struct command_table *c, uint64_t id)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && c->command[i].id == id)
			return &c->command[i];
	return NULL;
}

struct ordered_command *
commands_by_reaper(struct command_table *c, pid_t pid)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && !c->command[i].over && c->slots[i].reaper == pid)
			return &c->command[i];
	return NULL;
}

struct exec_slot *
commands_slot(struct command_table *c, const struct ordered_command *cmd)
{
	return &c->slots[cmd - c->command];
}
