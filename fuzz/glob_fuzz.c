/* SPDX-License-Identifier: Apache-2.0 */
/* Input: flags, a glob and, after a newline, a path. A compiled glob gives the same answer with its
 * shortcut and without; braces expand to a bounded number of globs; and a path with a backslash
 * before each byte is a glob that matches only that path. */
#include "fuzz/fuzz.h"
#include "search/braces.h"
#include "search/glob.h"

static size_t
name_of(const char *path, size_t len)
{
	const char *slash = memrchr(path, '/', len);

	return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static bool
matches(const struct glob *g, const char *path, size_t len)
{
	const bool r = glob_match(g, path, len, name_of(path, len));
	struct glob slow = *g;

	slow.kind = GLOB_KEY_NONE;
	must(glob_match(&slow, path, len, name_of(path, len)) == r);
	return r;
}

struct expanded {
	const char *path;
	size_t len, n;
};

static const char *
one_alternative(void *data, const char *glob, size_t len)
{
	struct expanded *x = data;
	struct glob g = GLOB_EMPTY;

	must(++x->n <= BRACES_ALTERNATIVES_MAX && len <= GLOB_BYTES_MAX);
	if (x->n < 16 && glob_compile(glob, len, 0, &g) == NULL) {
		matches(&g, x->path, x->len);
		glob_done(&g);
	}
	return NULL;
}

static void
must_match_itself(const char *path, size_t len)
{
	char glob[GLOB_BYTES_MAX];
	struct glob g = GLOB_EMPTY;

	for (size_t i = 0; i < len; i++) {
		glob[2 * i] = '\\';
		glob[2 * i + 1] = path[i];
	}
	must(glob_compile(glob, 2 * len, 0, &g) == NULL);
	must(matches(&g, path, len));
	must(len == 0 || !matches(&g, path, len - 1));
	must(len == 0 || !matches(&g, path + 1, len - 1));
	glob_done(&g);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text, *newline, *path;
	struct expanded x = { .n = 0 };
	struct glob g = GLOB_EMPTY;
	unsigned flags;
	size_t n;

	if (size < 2 || size > 2048)
		return 0;
	text = (const char *)data + 1;
	newline = memchr(text, '\n', size - 1);
	n = newline != NULL ? (size_t)(newline - text) : size - 1;
	x.path = path = newline != NULL ? newline + 1 : text;
	x.len = size - 1 - (size_t)(path - text);
	flags = data[0] & (GLOB_IGNORE_CASE | GLOB_GIT);
	if (memchr(text, '/', n) == NULL)
		flags |= data[0] & GLOB_NAME;
	if (glob_compile(text, n, flags, &g) == NULL) {
		matches(&g, path, x.len);
		glob_done(&g);
	} else {
		must(g.program == NULL);
	}
	braces_expand(text, n, one_alternative, &x);
	must_match_itself(path, x.len);
	return 0;
}
