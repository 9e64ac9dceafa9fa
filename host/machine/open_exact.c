/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/open_exact.h"

#include <fcntl.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"

/* One component after the other, because openat2 is not available everywhere. */
int
open_exact(const char *path, int flags)
{
	cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -1 : open_walked(root, path, flags);
}
