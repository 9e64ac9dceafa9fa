/*
 * The kernel's limits on watching directories (inotify), which all programs of a user share: a slot with commands uses
 * one instance and a watch for each directory of the project. Without them its worker looks at the whole project after
 * each command. Pure but for watches_look().
 */
#ifndef KODA_HOST_PROTECT_WATCHES_H
#define KODA_HOST_PROTECT_WATCHES_H

#include <stdbool.h>
#include <stddef.h>

#define WATCHES_TEXT_MAX 320

struct watches {
	/* -1: cannot be read. Each limit holds for this user here, and for its user outside of a user namespace. */
	long instances, own_instances;
	long watches, own_watches;
	bool no_instance; /* none is left for us now */
};

void watches_look(struct watches *ret);

/* Below this a few programs that watch (an editor, a desktop) leave nothing for slots. */
#define WATCHES_INSTANCES_LOW 128
#define WATCHES_WATCHES_LOW   65536
bool watches_are_low(const struct watches *w);

/* The command that raises the limit that matters. */
void watches_remedy(const struct watches *w, char *ret, size_t size);
/* For a slot that cannot watch, by the errno of its worker: which limit is used up, what that means, what to do. */
void watches_sentence(const struct watches *w, int errnum, char *ret, size_t size);

#endif
