/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/content.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/err.h"
#include "shared/base/io.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static int
duplicate_sealed(int from, struct koda_error *err)
{
	int seals = fcntl(from, F_GET_SEALS);
	int fd;

	if (seals < 0 || (seals & SEALS) != SEALS) {
		err_set(err, KODA_INVALID, 0,
		    "the content's descriptor is not a memfd sealed against writing, growing "
		    "and shrinking");
		return -1;
	}
	fd = fcntl(from, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		err_set(err, KODA_INTERNAL, errno, "duplicate the content's descriptor");
	return fd;
}

int
content_freeze(const struct koda_op *op, struct koda_error *err)
{
	cleanup_close int fd = -1;

	if (op->fd > 0)
		return duplicate_sealed(op->fd, err);
	fd = memfd_create("koda-content", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		err_set(err, KODA_INTERNAL, errno, "memfd_create");
		return -1;
	}
	if (write_all(fd, op->data, op->len) < 0) {
		err_set(err, KODA_INTERNAL, errno, "copy the content");
		return -1;
	}
	if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0) {
		err_set(err, KODA_INTERNAL, errno, "seal the content");
		return -1;
	}
	return take_fd(&fd);
}
