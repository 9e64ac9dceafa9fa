/* How much memory there is to share out. */
#ifndef KODA_HOST_MACHINE_MACHINE_H
#define KODA_HOST_MACHINE_MACHINE_H

#include <stdint.h>

/* The machine's memory, or the limit of the cgroups that this process is in if that is smaller (a container): as it was when
 * this was asked first. */
uint64_t machine_memory(void);

/* What all commands of a slot may use together unless a policy says otherwise: three quarters. */
uint64_t machine_memory_default(void);

/* The smallest limit on the way from `group` ("/a/b") up to `root`, in the files called `name`; UINT64_MAX: none. */
uint64_t machine_group_limit(const char *root, const char *group, const char *name);

#endif
