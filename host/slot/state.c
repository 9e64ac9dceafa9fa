#include "host/slot/state.h"

#include <assert.h>

#define TO(state) (1u << (state))

/* Where a state may lead. */
static const unsigned leads_to[] = {
	/* A call waits: a worker is started, and gets its Seal. */
	[SLOT_DOWN] = TO(SLOT_STARTING) | TO(SLOT_FAILED),
	/* Ready has come, or the worker ended or was killed first. */
	[SLOT_STARTING] = TO(SLOT_UP) | TO(SLOT_DYING) | TO(SLOT_FAILED),
	[SLOT_UP] = TO(SLOT_DYING) | TO(SLOT_FAILED),
	/* It is gone, or hangs in the kernel. Killed again: what it sent before breaks the protocol. */
	[SLOT_DYING] = TO(SLOT_DYING) | TO(SLOT_DOWN),
	/* For good: the budget is spent, or the worker cannot enforce what the mode requires. */
	[SLOT_FAILED] = 0,
};

void
slot_set_state(struct koda_slot *slot, enum slot_state to)
{
	assert((leads_to[slot->state] & TO(to)) != 0);
	(void)leads_to; /* without assertions */
	slot->state = to;
}
