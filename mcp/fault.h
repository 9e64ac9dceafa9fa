/* SPDX-License-Identifier: Apache-2.0 */
/* Why a call failed, by value, in the library's form: the counterpart of shared/base/err.h, for
 * code that may not include that. */
#ifndef KODA_MCP_FAULT_H
#define KODA_MCP_FAULT_H

#include "include/koda/sandbox.h"

/* Sets *err. Returns -1, so that failing is one statement. errnum 0: no kernel reason; otherwise
 * its text is appended. */
int fault_set(struct koda_error *err, enum koda_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
