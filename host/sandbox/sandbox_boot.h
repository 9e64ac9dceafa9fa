/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the processes of a sandbox: bwrap, and stage2, which gets its first order. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_BOOT_H
#define KODA_HOST_SANDBOX_SANDBOX_BOOT_H

#include "host/sandbox/state.h"

/* From the start to Booted; takes about ten milliseconds, a hundred times that on a loaded
 * machine. */
#define SANDBOX_BOOT_MS 10000

/* Start it if it is not running. Returns 0, or -1 with *err set: KODA_UNSUPPORTED, with the remedy,
 * if the machine cannot run it. */
int sandbox_boot(struct sandbox *sb, struct koda_error *err);

#endif
