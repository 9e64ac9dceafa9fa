/* SPDX-License-Identifier: Apache-2.0 */
/* What the host sends to a worker: first questions about the changes of dead workers, then the
 * calls in their order. */
#ifndef KODA_HOST_SLOT_OUTGOING_H
#define KODA_HOST_SLOT_OUTGOING_H

#include "host/slot/state.h"

#define OUTGOING_FD_MS 1000 /* how long sending a frame with a descriptor may take */

/* Send as much as there is room for. Returns 0, or -1 if a frame cannot be sent: the worker has to
 * be replaced. */
int outgoing_send(struct koda_slot *slot);

#endif
