/*
 * Slots of other sessions that live, or that a host which was killed a moment ago has left: what their commands are just planting is not taken for something that was there before.
 * Their journals tell what was.
 */
#ifndef KODA_HOST_PROTECT_NEIGHBOURS_H
#define KODA_HOST_PROTECT_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

#include "host/protect/state.h"
#include "proto/worker.pb-c.h"

/*
 * Of the places that a first look has found, planted[i] says of each whether it came after a neighbour had begun: it is in
 * one of the neighbour's directories, of a kind that the neighbour protects too, and the neighbour does not know it. Returns how many.
 */
size_t neighbours_planted(const struct state *state, Koda__Place *const *place, size_t n,
    bool *planted);

#endif
