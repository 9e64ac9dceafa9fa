/* SPDX-License-Identifier: Apache-2.0 */
/* Events that stage2 reports without an order: each becomes a violation, or starts a comparison of
 * the project. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_EVENT_H
#define KODA_HOST_SANDBOX_SANDBOX_EVENT_H

#include "host/sandbox/state.h"

void sandbox_event(struct sandbox *sb, const Koda__Event *e);

#endif
