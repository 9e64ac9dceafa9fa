/* What stage2 reports on its own: turned into a violation, or a reason to look at the project. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_EVENT_H
#define KODA_HOST_SANDBOX_SANDBOX_EVENT_H

#include "host/sandbox/sandbox.h"

void sandbox_event(struct sandbox *sb, const Koda__Event *e);

#endif
