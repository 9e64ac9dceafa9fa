/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitstate.h"

#include <string.h>
#include <strings.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"

#define HASH_HEX_MIN 40

static bool
is_component(const char *name, size_t n)
{
	char copy[NAME_LEN_MAX + 1];

	if (n == 0 || n > NAME_LEN_MAX || (n == 1 && name[0] == '.') ||
	    (n == 2 && name[0] == '.' && name[1] == '.'))
		return false;
	memcpy(copy, name, n);
	copy[n] = '\0';
	return access_name_of(copy) != ACCESS_NAME_GIT;
}

bool
gitstate_is_path(const char *path)
{
	const char *p = path;

	for (;;) {
		size_t n = strcspn(p, "/");

		if (!is_component(p, n))
			return false;
		if (p[n] == '\0' || p[n + 1] == '\0')
			return true;
		p += n + 1;
	}
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns true for a name below refs/ with the characters that a ref may have. A name that git
 * rejects is harmless, and HEAD contains "refs/heads/.invalid" if refs are stored in tables. */
static bool
is_ref_name(const char *name, size_t n)
{
	static const char head[] = "refs/";
	const size_t k = sizeof(head) - 1;

	if (n <= k || memcmp(name, head, k) != 0)
		return false;
	for (size_t i = k; i < n; i++) {
		const bool first = name[i - 1] == '/';

		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f || name[i] == '\\' ||
		    (first && name[i] == '/'))
			return false;
	}
	return name[n - 1] != '/' && memmem(name, n, "..", 2) == NULL;
}

bool
gitstate_is_ref(const char *text, size_t len)
{
	static const char head[] = "ref:";
	size_t at = sizeof(head) - 1;

	if (len < at || memcmp(text, head, at) != 0)
		return true;
	while (at < len && is_space(text[at]))
		at++;
	while (len > at && is_space(text[len - 1]))
		len--;
	return is_ref_name(text + at, len - at);
}

bool
gitstate_is_merge_rr(const char *text, size_t len)
{
	for (const char *end; len > 0; len -= (size_t)(end + 1 - text), text = end + 1) {
		const char *tab;

		end = memchr(text, '\0', len);
		if (end == NULL)
			return false;
		/* The name of a conflict, perhaps with a variant, then the path. */
		tab = memchr(text, '\t', (size_t)(end - text));
		if (tab == NULL || tab - text < HASH_HEX_MIN ||
		    strspn(text, "0123456789abcdef.") != (size_t)(tab - text) ||
		    !gitstate_is_path(tab + 1))
			return false;
	}
	return true;
}

/* Returns the length of a word quoted as git quotes it for a shell, or 0: '...', with ' and !
 * outside the quotes and after a backslash. */
static size_t
quoted_word(const char *text, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *end;

		if (at >= len || text[at] != '\'')
			return 0;
		end = memchr(text + at + 1, '\'', len - at - 1);
		if (end == NULL)
			return 0;
		at = (size_t)(end - text) + 1;
		if (len - at < 3 || text[at] != '\\' ||
		    (text[at + 1] != '\'' && text[at + 1] != '!') || text[at + 2] != '\'')
			return at;
		at += 2;
	}
}

bool
gitstate_is_quoted(const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n;

		if (is_space(text[at])) {
			at++;
			continue;
		}
		n = quoted_word(text + at, len - at);
		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

bool
gitstate_is_author(const char *text, size_t len)
{
	static const char *const variables[] = { "GIT_AUTHOR_NAME=", "GIT_AUTHOR_EMAIL=",
		"GIT_AUTHOR_DATE=" };

	for (size_t at = 0; at < len;) {
		size_t n, i = 0;

		while (i < N_ELEMENTS(variables) &&
		    (strlen(variables[i]) > len - at ||
			memcmp(text + at, variables[i], strlen(variables[i])) != 0))
			i++;
		if (i == N_ELEMENTS(variables))
			return false;
		at += strlen(variables[i]);
		n = quoted_word(text + at, len - at);
		at += n;
		if (n == 0 || (at < len && text[at++] != '\n'))
			return false;
	}
	return true;
}

bool
gitstate_is_updates(const char *text, size_t len)
{
	const char *end = text + len;

	for (unsigned line = 0; text < end; line++) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));

		if (eol == NULL)
			eol = end;
		if (line % 3 == 0 && !is_ref_name(text, (size_t)(eol - text)))
			return false;
		text = eol + 1;
	}
	return true;
}

static bool
is_one_of(const char *const *names, const char *word, size_t len)
{
	for (; *names != NULL; names++) {
		const size_t n = strlen(*names);

		/* A name that ends with "=" takes a value. */
		if ((len == n || (len > n && (*names)[n - 1] == '=')) &&
		    memcmp(*names, word, n) == 0)
			return true;
	}
	return false;
}

bool
gitstate_is_merge_option(const char *word, size_t len)
{
	static const char *const names[] = { "ours", "theirs", "subtree", "subtree=", "patience",
		"histogram", "minimal", "diff-algorithm=", "ignore-space-change",
		"ignore-all-space", "ignore-space-at-eol", "ignore-cr-at-eol", "renormalize",
		"no-renormalize", "no-renames", "find-renames",
		"find-renames=", "rename-threshold=", NULL };

	return is_one_of(names, word, len);
}

bool
gitstate_is_merge_options(const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t end, start = at;

		if (is_space(text[at])) {
			at++;
			continue;
		}
		while (at < len && !is_space(text[at])) {
			/* Reject characters that mean something to a shell. Quotes inside a word
			 * are rejected below. */
			if (strchr("\\$`;&|<>(){}*?[]~#!", text[at]) != NULL)
				return false;
			at++;
		}
		end = at;
		if (end - start >= 2 && (text[start] == '\'' || text[start] == '"')) {
			if (text[end - 1] != text[start])
				return false;
			start++;
			end--;
		}
		if (memchr(text + start, '\'', end - start) != NULL ||
		    memchr(text + start, '"', end - start) != NULL)
			return false;
		if (end - start >= 2 && memcmp(text + start, "--", 2) == 0)
			start += 2;
		if (!gitstate_is_merge_option(text + start, end - start))
			return false;
	}
	return true;
}

bool
gitstate_is_apply_options(const char *text, size_t len)
{
	static const char *const names[] = { "--whitespace=", "--directory=", "--exclude=",
		"--include=", "--reject", "--ignore-space-change", "--ignore-whitespace", NULL };

	for (size_t at = 0; at < len;) {
		const char *word = text + at + 1;
		size_t n;

		if (is_space(text[at])) {
			at++;
			continue;
		}
		n = quoted_word(text + at, len - at);
		if (n < 2 || (at + n < len && !is_space(text[at + n])))
			return false;
		at += n;
		n -= 2;
		if (!is_one_of(names, word, n) &&
		    !(n >= 2 && word[0] == '-' && (word[1] == 'C' || word[1] == 'p') &&
			strspn(word + 2, "0123456789") == n - 2))
			return false;
	}
	return true;
}

/* Where git ends the name of a step. */
static bool
is_step_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool
gitstate_is_todo(const char *text, size_t len)
{
	static const char *const steps[] = { "pick", "p", "reword", "r", "edit", "e", "squash", "s",
		"fixup", "f", "drop", "d", "break", "b", "label", "l", "reset", "t", "merge", "m",
		"update-ref", "u", "noop", "revert", NULL };
	const char *end = text + len;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *p = text;
		size_t k = 0, i = 0;

		if (eol == NULL)
			eol = end;
		while (p < eol && is_step_space(*p))
			p++;
		while (p + k < eol && !is_step_space(p[k]))
			k++;
		/* Comments may begin with another character, set by the configuration: then this is
		 * too strict. */
		if (k > 0 && *p != '#') {
			while (steps[i] != NULL &&
			    (strlen(steps[i]) != k || memcmp(steps[i], p, k) != 0))
				i++;
			if (steps[i] == NULL)
				return false;
		}
		text = eol + 1;
	}
	return true;
}

gitstate_fn *
gitstate_list_of(const char *name)
{
	if (strcasecmp(name, "MERGE_RR") == 0)
		return gitstate_is_merge_rr;
	return strcasecmp(name, "BISECT_NAMES") == 0 ? gitstate_is_quoted : NULL;
}

const struct gitstate_file gitstate_rebase[] = {
	{ "author-script", gitstate_is_author },
	{ "update-refs", gitstate_is_updates },
	{ "strategy_opts", gitstate_is_merge_options },
	{ "apply-opt", gitstate_is_apply_options },
	{ NULL, NULL },
};
