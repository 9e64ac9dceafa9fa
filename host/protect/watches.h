/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's limits on watching directories (inotify), which all programs of a user share: a slot
 * with commands uses one instance, and one watch for each directory of the project. Without them,
 * its worker reads the whole project after each command. Pure, except for watches_look().
 */
#ifndef KODA_HOST_PROTECT_WATCHES_H
#define KODA_HOST_PROTECT_WATCHES_H

#include <stdbool.h>
#include <stddef.h>

#define WATCHES_TEXT_MAX 320

struct watches {
	/* -1: cannot be read. The `own` limits apply to this user in this user namespace, the
	 * others to its user outside of it. */
	long instances, own_instances;
	long watches, own_watches;
	bool no_instance; /* no instance is available now */
};

void watches_look(struct watches *ret);

/* Below these limits, a few programs that watch (an editor, a desktop) leave nothing for slots. */
#define WATCHES_INSTANCES_LOW 128
#define WATCHES_WATCHES_LOW   65536
bool watches_are_low(const struct watches *w);

/* Writes the command that raises the limit that matters. */
void watches_remedy(const struct watches *w, char *ret, size_t size);
/* For a slot that cannot watch, with its worker's errno: writes which limit is used up, what that
 * means, and what to do. */
void watches_sentence(const struct watches *w, int errnum, char *ret, size_t size);

#endif
