/* Starting the processes of a sandbox (sandbox_boot(), in host/sandbox/sandbox.h), and ending
 * them. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_BOOT_H
#define KODA_HOST_SANDBOX_SANDBOX_BOOT_H

#include "host/sandbox/sandbox.h"

/* End the processes that sandbox_boot() has started, also those that a failed boot has left. If the
 * host has made mount points for caches, this waits until stage2 is gone, up to two seconds. */
void sandbox_forget(struct sandbox *sb);

#endif
