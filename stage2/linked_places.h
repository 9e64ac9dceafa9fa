/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command can put a link where a place is to be hidden and does not exist yet: what a process
 * outside then writes there ends up at the link's target, whether commands can write that or only
 * read it. The targets are hidden as well, unless commands or the worker need them.
 */
#ifndef KODA_STAGE2_LINKED_PLACES_H
#define KODA_STAGE2_LINKED_PLACES_H

#include "stage2/stage2.h"

/*
 * Looks for links on the way to places that are to be hidden and do not exist, and adds their
 * targets to the view and to what is watched. Ends stage2 if that is not possible.
 */
void linked_places_follow(struct stage2 *s);

#endif
