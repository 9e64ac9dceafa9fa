/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
fault_set(struct koda_error *err, enum koda_code code, int errnum, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	if (err == NULL)
		return -1;
	*err = (struct koda_error){ .code = code, .errnum = errnum };
	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	n = strlen(err->message);
	if (errnum != 0)
		snprintf(err->message + n, sizeof(err->message) - n, ": %s", strerror(errnum));
	return -1;
}
