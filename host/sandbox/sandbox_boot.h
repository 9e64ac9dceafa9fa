/* Building the processes of a sandbox (sandbox_boot(), in host/sandbox/sandbox.h), and their end. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_BOOT_H
#define KODA_HOST_SANDBOX_SANDBOX_BOOT_H

#include "host/sandbox/sandbox.h"

/* End what sandbox_boot() has started, and whatever of it is left when a boot failed. If the host
 * has made mount points for caches, this waits until stage2 is gone, up to two seconds. */
void sandbox_forget(struct sandbox *sb);

#endif
