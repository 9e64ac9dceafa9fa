/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps commands from changing what the host's tools run or obey, and from planting more of it: the
 * places that the slot's worker found, the mount plan made from them, and the comparison after
 * commands. Only the worker reads the project; this code validates what it reports.
 */
#ifndef KODA_HOST_PROTECT_PROTECT_H
#define KODA_HOST_PROTECT_PROTECT_H

#include "host/protect/protect_state.h"

/* What it is made of; all of it has to live as long as the protection. */
struct protect_of {
	struct koda_slot *slot;
	struct sandbox *sandbox;
	struct violations *violations;
	const struct protect_client *client;
	void *data;
};

/* NULL: no memory. */
struct protect *protect_new(const struct protect_of *of);
void protect_free(struct protect *p);
/* Like protect_free(), in a forked child: the files on disk belong to the parent. */
void protect_abandon(struct protect *p);
/* Have the worker scan (again if it is a new worker), plan the mounts, and mount. Waits. The slot's
 * worker must be up. */
int protect_prepare(struct protect *p, struct koda_error *err);

/* Note that a command is about to begin: from now on there is something to compare, also for the
 * next session if this one is killed. */
void protect_command_begins(struct protect *p);
/* Returns true if a command has ever begun here. */
bool protect_had_commands(const struct protect *p);

#endif
