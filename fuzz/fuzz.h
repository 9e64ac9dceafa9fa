/* SPDX-License-Identifier: Apache-2.0 */
/* What every target has: libFuzzer's entry points, and a check that holds in a release build
 * too. */
#ifndef KODA_FUZZ_FUZZ_H
#define KODA_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,          \
			    #condition);                                                           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
