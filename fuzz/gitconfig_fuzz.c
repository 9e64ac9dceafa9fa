/* SPDX-License-Identifier: Apache-2.0 */
/* A command's git configuration: what is kept of it is the same when it is read again, and contains
 * only inert keys. The other small files of a git directory are tested here too. */
#include "fuzz/fuzz.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/gitvar.h"

static bool
keep(void *data, const struct gitconfig_var *v)
{
	return gitvar_is_inert(v);
}

static bool
same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void
must_be_same(const struct gitconfig *before, const struct gitconfig *after)
{
	size_t k = 0;

	for (size_t i = 0; i < before->n; i++) {
		const struct gitconfig_var *a = &before->var[i], *b;

		if (!gitvar_is_inert(a))
			continue;
		must(k < after->n);
		b = &after->var[k++];
		must(same(a->section, b->section) && same(a->subsection, b->subsection) &&
		    same(a->key, b->key) && same(a->value, b->value));
		must(gitvar_is_inert(b));
	}
	must(k == after->n);
}

static void
check_names(const struct gitconfig *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *line = c->var[i].value;
		char word[64];

		if (gitvar_names(&c->var[i]) != GITVAR_NAMES_PROGRAM)
			continue;
		while (gitvar_word(&line, word, sizeof(word)))
			must(strlen(word) < sizeof(word));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct gitconfig c, again;
	char *out;
	size_t len, start;

	gitstate_is_todo(text, size);
	if (gitdir_of_gitfile(text, size, &start, &len))
		must(start + len <= size && len > 0);
	if (gitconfig_parse(text, size, &c) < 0)
		return 0;
	check_names(&c);
	must(gitconfig_write(&c, keep, NULL, &out, &len) == 0);
	/* Escapes may make it longer than the parser accepts. */
	if (len <= GITCONFIG_BYTES_MAX) {
		must(gitconfig_parse(out, len, &again) == 0);
		must_be_same(&c, &again);
		gitconfig_done(&again);
	}
	free(out);
	gitconfig_done(&c);
	return 0;
}
