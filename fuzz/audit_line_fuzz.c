/* SPDX-License-Identifier: Apache-2.0 */
/* An audit log is never read beyond its end. A valid log begins with a start, a broken one stays
 * broken, and changing any bit makes a log invalid. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "mcp/audit_line.h"

static bool
holds(const uint8_t *data, size_t size, struct audit_chain *ret)
{
	size_t at = 0;
	bool whole = true;

	*ret = (struct audit_chain){ 0 };
	while (at < size) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t len = end != NULL ? (size_t)(end - data) - at : size - at;
		/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
		char *line = malloc(len > 0 ? len : 1);
		int r;

		must(line != NULL);
		memcpy(line, data + at, len);
		r = audit_chain_add(ret, line, len);
		free(line);
		if (r < 0)
			return false;
		whole = end != NULL;
		at += len + 1;
	}
	return audit_chain_end(ret, !whole) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct audit_chain chain;
	uint8_t *changed;
	size_t bit;

	if (!holds(data, size, &chain)) {
		must(chain.why[0] != '\0');
		return 0;
	}
	must(chain.starts > 0 && chain.lines == chain.seq + chain.torn);
	changed = malloc(size);
	must(changed != NULL);
	memcpy(changed, data, size);
	bit = (data[size / 2] * 257u + data[size / 3]) % (8 * size);
	changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
	must(!holds(changed, size, &chain));
	free(changed);
	return 0;
}
