/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into everything by the build option landlock_shim, and into nothing that is installed: it
 * hides the Landlock ABIs above the soft limit of RLIMIT_LOCKS, so that no process asks the kernel
 * for their rights, and the kernel does not enforce them. No Linux since 2.4 has used that limit. It
 * reaches every process, through bwrap and through empty environments; a filter could not do this,
 * because it cannot return a positive number, and a filter with a listener would take the only one.
 */
#include <sys/resource.h>

#include "shared/confine/lockdown.h"

unsigned lockdown_real_landlock_abi(void);

unsigned
lockdown_landlock_abi(void)
{
	static unsigned shown, known;
	struct rlimit limit;

	/* A search asks again under its filter, which has no call for limits. */
	if (known)
		return shown;
	known = 1;
	shown = lockdown_real_landlock_abi();
	if (getrlimit(RLIMIT_LOCKS, &limit) == 0 && limit.rlim_cur < shown)
		shown = (unsigned)limit.rlim_cur;
	return shown;
}
