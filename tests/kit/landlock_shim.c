/*
 * Linked into everything by the build option landlock_shim, and into nothing that is installed: it
 * hides the Landlock ABIs above the soft limit of RLIMIT_LOCKS, so that no process asks the kernel
 * for their rights, and the kernel does not enforce them. No Linux since 2.4 has used that limit. It
 * reaches every process, through bwrap and through empty environments; a filter could not do this,
 * because it cannot return a positive number, and a filter with a listener would take the only one.
 */
#include <sys/resource.h>

#include "shared/confine/lockdown.h"

unsigned __real_lockdown_landlock_abi(void);
unsigned __wrap_lockdown_landlock_abi(void);

unsigned
__wrap_lockdown_landlock_abi(void)
{
	unsigned abi = __real_lockdown_landlock_abi();
	struct rlimit shown;

	if (getrlimit(RLIMIT_LOCKS, &shown) == 0 && shown.rlim_cur < abi)
		abi = (unsigned)shown.rlim_cur;
	return abi;
}
