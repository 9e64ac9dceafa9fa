/* SPDX-License-Identifier: Apache-2.0 */
/* koda_slot_draft(). */
#include "host/command/state.h"

const char *
koda_slot_draft(const struct koda_slot *slot)
{
	return slot->commands != NULL && slot->commands->sandbox->drafted
	    ? slot->commands->sandbox->draft.id
	    : "";
}
