/* SPDX-License-Identifier: Apache-2.0 */
/* git's index. Two passes over it report the same, and each path is a string of the reported
 * length. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "worker/scan/gitindex.h"

struct seen {
	size_t n, links, hidden, bytes;
};

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	struct seen *seen = data;

	must(strlen(e->path) == e->len);
	seen->n++;
	seen->links += e->link;
	seen->hidden += e->hidden;
	seen->bytes += e->len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen one = { 0 }, two = { 0 };
	struct gitindex_base base = { 0 };
	int r = gitindex_parse(data, size, on_entry, &one, &base);

	must(r == 0 || (one.n == 0 && base.len == 0));
	must(base.len == 0 || (base.name > data && base.name + base.len <= data + size));
	must(gitindex_parse(data, size, on_entry, &two, NULL) == r);
	must(memcmp(&one, &two, sizeof(one)) == 0);
	return 0;
}
