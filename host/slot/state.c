/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/state.h"

#include <assert.h>

#define TO(state) (1u << (state))

/* Which states may follow a state. */
static const unsigned leads_to[] = {
	/* A call waits: the host starts a worker and sends it Seal. */
	[SLOT_DOWN] = TO(SLOT_STARTING) | TO(SLOT_FAILED),
	/* Ready has come, or the worker ended or was killed first. */
	[SLOT_STARTING] = TO(SLOT_UP) | TO(SLOT_DYING) | TO(SLOT_FAILED),
	[SLOT_UP] = TO(SLOT_DYING) | TO(SLOT_FAILED),
	/* The worker is gone, or hangs in the kernel. DYING again: a reply that the worker sent
	 * before its death breaks the protocol. */
	[SLOT_DYING] = TO(SLOT_DYING) | TO(SLOT_DOWN),
	/* For good: too many workers died, or the worker cannot enforce what the mode requires. */
	[SLOT_FAILED] = 0,
};

void
slot_set_state(struct koda_slot *slot, enum slot_state to)
{
	assert((leads_to[slot->state] & TO(to)) != 0);
	(void)leads_to; /* without assertions */
	slot->state = to;
}
