/* SPDX-License-Identifier: Apache-2.0 */
/* Input: a path and, after the first newline, an ignore file. The verdict of the file is the
 * verdict of the last of its lines that has one when each line is judged alone. */
#include "fuzz/fuzz.h"
#include "search/ignore.h"

#define RULES_MAX 1000

static enum ignore_verdict
judge(const char *text, size_t len, const struct ignore_name *name)
{
	struct ignore *list = ignore_new();
	enum ignore_verdict r = IGNORE_NONE;

	must(list != NULL);
	if (ignore_add_file(list, text, len, RULES_MAX) == 0) {
		must(ignore_count(list) <= RULES_MAX && ignore_ready(list) == 0);
		r = ignore_judge(list, name, 0);
	}
	ignore_free(list);
	return r;
}

/* The line follows a newline because the start of a file is parsed differently. */
static enum ignore_verdict
judge_line(const char *line, size_t len, const struct ignore_name *name)
{
	char *text = malloc(len + 2);
	enum ignore_verdict r;

	must(text != NULL);
	text[0] = '\n';
	memcpy(text + 1, line, len);
	text[len + 1] = '\n';
	r = judge(text, len + 2, name);
	free(text);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = (const char *)data, *text, *end, *slash;
	enum ignore_verdict whole, last = IGNORE_NONE;
	struct ignore_name name;
	size_t len;
	bool is_dir;

	text = size > 0 && size <= 2048 ? memchr(path, '\n', size) : NULL;
	if (text == NULL)
		return 0;
	end = path + size;
	len = (size_t)(text++ - path);
	is_dir = len > 0 && path[len - 1] == '/';
	len -= is_dir;
	slash = memrchr(path, '/', len);
	ignore_name_init(&name, path, len, slash != NULL ? (size_t)(slash - path) + 1 : 0, is_dir);
	whole = judge(text, (size_t)(end - text), &name);
	if (end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline != NULL ? newline : end) - text);
		const enum ignore_verdict v = judge_line(text, n, &name);

		last = v != IGNORE_NONE ? v : last;
		text += n + (newline != NULL);
	}
	must(whole == last);
	return 0;
}
