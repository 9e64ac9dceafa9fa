/* One form for what went wrong with a path: the sentence shows it to a person, the error carries it
 * as it is. */
#ifndef KODA_WORKER_SAY_H
#define KODA_WORKER_SAY_H

#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/err.h"

/* "what 'path'", and the kernel's reason behind it. Returns -1. */
static inline int
say(struct koda_error *err, enum koda_code code, int errnum, const char *what, const char *path)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	err_set(err, code, errnum, "%s '%s'", what, shown);
	return err_about(err, path, NULL);
}

#endif
