/*
 * What was there before commands of a project ran, on disk for as long as some slot of it lives: so that a host that was
 * killed does not make what its command planted look like the user's own, and a second slot does not take what a
 * command of the first is just planting for something that was there.
 *
 * One file for each project and set of rules, in the state directory; a shared lock says that somebody uses it. Whoever
 * finds it with content and without a user has found what a killed host left. The last one to go removes it, if all that
 * its commands left was compared.
 */
#ifndef KODA_HOST_BASELINE_H
#define KODA_HOST_BASELINE_H

#include <stdbool.h>

#include "host/policy_api.h"
#include "proto/worker.pb-c.h"

struct baseline {
	char *path; /* NULL: there is no place for one, and none is kept */
	int fd;
	bool failed; /* something could not be written: it is worth nothing any more */
};

#define BASELINE_NONE                                                                              \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * path is consumed (NULL: none is kept). For what is known by now fn is called; it returns -1 to give up. Returns 1 when what was
 * known is complete (somebody else wrote it), 0 when nobody has looked yet: then it is locked against others until
 * baseline_ready(). -1 with *err set.
 */
typedef int baseline_place_fn(void *data, const Koda__Place *place, struct koda_error *err);
int baseline_open(struct baseline *b, char *path, baseline_place_fn *fn, void *data,
    struct koda_error *err);
void baseline_add(struct baseline *b, const Koda__Place *place);
void baseline_ready(struct baseline *b);
/* compared: nothing that a command of ours left is unseen. */
void baseline_close(struct baseline *b, bool compared);

#endif
