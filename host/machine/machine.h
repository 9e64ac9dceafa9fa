/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the machine has to share out. */
#ifndef KODA_HOST_MACHINE_MACHINE_H
#define KODA_HOST_MACHINE_MACHINE_H

#include <stdint.h>

/* The machine's memory, or the limit of this process's cgroups if that is smaller (a container).
 * The value of the first call is kept. */
uint64_t machine_memory(void);

/* How much memory all commands of a slot together may use unless a policy sets a limit: three
 * quarters of it. */
uint64_t machine_memory_default(void);

/* The smallest limit in the files called `name`, from `group` ("/a/b") up to `root`; UINT64_MAX:
 * none. */
uint64_t machine_group_limit(const char *root, const char *group, const char *name);

#endif
