/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what commands of other sessions are planting right now, so that a new session does not
 * mistake it for something that existed before. The other sessions (neighbours) are alive, or their
 * host was killed a moment ago; their journals list what existed before their commands.
 */
#ifndef KODA_HOST_PROTECT_NEIGHBOURS_H
#define KODA_HOST_PROTECT_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

#include "host/machine/state.h"
#include "proto/worker.pb-c.h"

struct journal;

/*
 * Sets planted[i] for each place of a first scan that appeared after a neighbour had begun: it is
 * inside one of the neighbour's directories, of a kind that the neighbour protects too, and unknown
 * to the neighbour. Returns how many.
 */
size_t neighbours_planted(const struct state *state, Koda__Place *const *place, size_t n,
    bool *planted);

/* Returns the number of live neighbours whose commands may plant at that path. `own` is the
 * caller's journal. */
size_t neighbours_at(const struct state *state, const struct journal *own, const char *path);

/* The same, for the path or anything below it. */
size_t neighbours_below(const struct state *state, const struct journal *own, const char *path);

#endif
