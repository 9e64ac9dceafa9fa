/* SPDX-License-Identifier: Apache-2.0 */
/* Errors about a path, in one form: the message shows the path escaped, the error carries its
 * bytes unchanged. */
#ifndef KODA_WORKER_SAY_H
#define KODA_WORKER_SAY_H

#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/err.h"

/* Sets *err to "what 'path'", followed by the kernel's reason. Returns -1. */
static inline int
say(struct koda_error *err, enum koda_code code, int errnum, const char *what, const char *path)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	err_set(err, code, errnum, "%s '%s'", what, shown);
	return err_about(err, path, NULL);
}

/* The same with the path first: "'path' what". */
static inline int
say_of(struct koda_error *err, enum koda_code code, int errnum, const char *path, const char *what)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	err_set(err, code, errnum, "'%s' %s", shown, what);
	return err_about(err, path, NULL);
}

#endif
