/* SPDX-License-Identifier: Apache-2.0 */
/* git's list of packs: what is found of the names lies where the head says, and names that are plain
 * have no slash. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "worker/scan/gitpacks.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t at = 0, len = 0;
	uint32_t n = 0;

	if (gitpacks_find(data, size, &at, &len, &n) < 0 || at > size || len > size - at)
		return 0;
	if (gitpacks_are_plain((const char *)data + at, (size_t)len, n))
		must(memchr(data + at, '/', (size_t)len) == NULL && len >= n);
	return 0;
}
