/* SPDX-License-Identifier: Apache-2.0 */
#include "search/braces.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "search/glob.h"
#include "shared/base/cleanup.h"

const char BRACES_TOO_MANY[] = "its braces expand to too many globs";

struct expansion {
	braces_fn *fn;
	void *data;
	size_t n;
};

/* Returns the position after the class that begins at text[i]. In a class without an end, only
 * the bracket is skipped: the glob's compiler reports it. */
static size_t
skip_class(const char *text, size_t len, size_t i)
{
	size_t k = i + 1;

	if (k < len && (text[k] == '!' || text[k] == '^'))
		k++;
	for (bool first = true; k < len; first = false) {
		if (text[k] == ']' && !first)
			return k + 1;
		k += text[k] == '\\' ? 2 : 1;
	}
	return i + 1;
}

/* Returns the position after the byte, escaped byte or class at text[i]. */
static size_t
skip_one(const char *text, size_t len, size_t i)
{
	if (text[i] == '[')
		return skip_class(text, len, i);
	return text[i] == '\\' && len - i > 1 ? i + 2 : i + 1;
}

/* Returns the first ',' of this pair or its '}', from text[i] on; len if there is none. */
static size_t
alternative_end(const char *text, size_t len, size_t i)
{
	size_t depth = 0;

	while (i < len) {
		if (depth == 0 && (text[i] == ',' || text[i] == '}'))
			return i;
		depth += text[i] == '{';
		depth -= text[i] == '}';
		i = skip_one(text, len, i);
	}
	return len;
}

static const char *
expand(struct expansion *x, const char *text, size_t len, unsigned depth)
{
	cleanup_free char *one = NULL;
	size_t open = 0, close, from, to;

	while (open < len && text[open] != '{')
		open = skip_one(text, len, open);
	if (open >= len)
		return ++x->n > BRACES_ALTERNATIVES_MAX ? BRACES_TOO_MANY
							: x->fn(x->data, text, len);
	if (depth == BRACES_MAX)
		return BRACES_TOO_MANY;
	close = open + 1;
	while ((close = alternative_end(text, len, close)) < len && text[close] == ',')
		close++;
	if (close >= len)
		return "a '{' has no '}'";
	one = malloc(len);
	if (one == NULL)
		return GLOB_NO_MEMORY;
	memcpy(one, text, open);
	for (from = open + 1; from <= close; from = to + 1) {
		const char *why;

		to = alternative_end(text, len, from);
		memcpy(one + open, text + from, to - from);
		memcpy(one + open + to - from, text + close + 1, len - close - 1);
		why = expand(x, one, open + to - from + len - close - 1, depth + 1);
		if (why != NULL)
			return why;
	}
	return NULL;
}

const char *
braces_expand(const char *glob, size_t len, braces_fn *fn, void *data)
{
	struct expansion x = { .fn = fn, .data = data };

	if (len > GLOB_BYTES_MAX)
		return "it is longer than any path";
	return expand(&x, glob, len, 0);
}
