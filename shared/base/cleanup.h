/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-based release of resources, and transfer of ownership. */
#ifndef KODA_SHARED_BASE_CLEANUP_H
#define KODA_SHARED_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup(fn)   __attribute__((cleanup(fn)))
#define cleanup_close cleanup(close_at)
#define cleanup_free  cleanup(free_at)

static inline void
close_at(int *fd)
{
	/* Runs on error returns: it must not disturb the errno that is being reported. */
	int saved = errno;

	if (*fd >= 0)
		/* Never retried: on Linux the descriptor is closed even after EINTR. */
		close(*fd);
	errno = saved;
}

static inline void
closedir_at(DIR **d)
{
	int saved = errno;

	if (*d != NULL)
		closedir(*d);
	errno = saved;
}

static inline void
free_at(void *p)
{
	free(*(void **)p);
}

/* Transfer ownership: the variable is set to empty, so its cleanup does nothing. */
#define take_fd(p)  take_(p, -1)
#define take_ptr(p) take_(p, NULL)
#define take_(p, empty)                                                                            \
	__extension__({                                                                            \
		__auto_type taken_ = *(p);                                                         \
		*(p) = (empty);                                                                    \
		taken_;                                                                            \
	})

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

#endif
