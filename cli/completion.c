/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <string.h>

#include "cli/completion_shells.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
static const struct {
	const char *value;
	const char *group; /* NULL: whatever the command */
	const char *kind;
} kinds[] = {
	{ "ARGUMENT", NULL, "files" },
	{ "COMMAND", NULL, "command" },
	{ "DAYS", NULL, "nothing" },
	{ "DIR", NULL, "dirs" },
	{ "FILE", NULL, "files" },
	{ "FROM", NULL, "files" },
	{ "GLOB", NULL, "nothing" },
	{ "HEX", NULL, "nothing" },
	{ "HOST", NULL, "nothing" },
	{ "ID", "draft", "drafts" },
	{ "ID", NULL, "history" },
	{ "MODE", NULL, "plan|safe|auto" },
	{ "N", NULL, "nothing" },
	{ "NAME", "quarantine", "quarantine" },
	{ "PATH", NULL, "files" },
	{ "PATTERN", NULL, "nothing" },
	{ "REGEX", NULL, "nothing" },
	{ "ROOT", NULL, "dirs" },
	{ "SECONDS", NULL, "nothing" },
	{ "SHELL", NULL, "nothing" },
	{ "TEXT", NULL, "nothing" },
	{ "TIME", NULL, "nothing" },
	{ "TO", NULL, "files" },
	{ "TOKEN", NULL, "nothing" },
	{ "TYPE", NULL, "types" },
	{ "WHEN", NULL, "auto|always|never" },
	{ "WHICH", NULL, "merge|draft|project" },
	{ "bash|zsh|fish", NULL, "bash|zsh|fish" },
};
/* clang-format on */

const char *
completion_kind(const char *value, const struct subcommand *command)
{
	for (size_t i = 0; i < N(kinds); i++) {
		if (strcmp(kinds[i].value, value) == 0 &&
		    (kinds[i].group == NULL || command_same_group(kinds[i].group, command->group)))
			return kinds[i].kind;
	}
	return NULL;
}

void
completion_options(const struct subcommand *command, completion_option_fn *fn, void *data)
{
	const struct opt_table *own = command->own;
	const uint64_t general = command->opts | OPT_COMMON;

	for (size_t i = 0; own != NULL && i < own->n; i++) {
		if (own->allowed >> i & 1)
			fn(data, &own->specs[i], own->specs[i].letter);
	}
	for (size_t i = 0; i < N_OPTS; i++) {
		const char letter = opt_specs[i].letter;

		if (general & OPT_BIT(i))
			fn(data, &opt_specs[i], command_takes_letter(own, letter) ? 0 : letter);
	}
}

struct value_search {
	const char *name;
	size_t len;
	bool found;
};

static void
look_for_value(void *data, const struct opt_spec *spec, char letter)
{
	struct value_search *search = data;

	if (spec->value == NULL)
		return;
	if (strlen(spec->name) == search->len && memcmp(spec->name, search->name, search->len) == 0)
		search->found = true;
	if (letter != 0 && search->len == 2 && search->name[1] == letter)
		search->found = true;
}

static bool
takes_value(const struct subcommand *command, const char *name, size_t len)
{
	struct value_search search = { .name = name, .len = len };

	completion_options(command, look_for_value, &search);
	return search.found;
}

size_t
completion_token_len(const char *p)
{
	size_t n = 0;
	bool quoted = false;

	for (; p[n] != '\0' && (quoted || p[n] != ' '); n++)
		quoted ^= p[n] == '\'';
	return n;
}

/* Adds the word of a token ("[PATH]...", "HOST[:PORT]"), if it is one. */
static int
add_word(const struct subcommand *command, const char *token, size_t len,
    struct completion_words *ret, char ret_unknown[32])
{
	struct completion_word *word = &ret->words[ret->n];
	size_t skip = len > 0 && token[0] == '[', n = 0;

	while (skip + n < len && strchr("[].", token[skip + n]) == NULL)
		n++;
	if (n == 0 || token[skip] == '-')
		return 0;
	snprintf(word->name, sizeof(word->name), "%.*s", (int)n, token + skip);
	word->kind = completion_kind(word->name, command);
	if (word->kind == NULL || ret->n + 1 == COMPLETION_WORDS_MAX) {
		snprintf(ret_unknown, 32, "%s", word->name);
		return -1;
	}
	ret->n++;
	ret->repeats = len > 3 && memcmp(token + len - 3, "...", 3) == 0;
	return 0;
}

/* Reads one alternative of a synopsis. Returns where the next one begins, or its end; NULL: failed. */
static const char *
read_alternative(const struct subcommand *command, const char *p, struct completion_words *ret,
    char ret_unknown[32])
{
	bool value = false;

	memset(ret, 0, sizeof(*ret));
	while (*p != '\0') {
		const size_t len = completion_token_len(p);
		const bool bar = len == 1 && *p == '|';
		const bool option = *p == '-';

		if (!bar && !option && !value && add_word(command, p, len, ret, ret_unknown) < 0)
			return NULL;
		value = option && takes_value(command, p, len);
		p += len;
		p += strspn(p, " ");
		if (bar)
			break;
	}
	return p;
}

int
completion_words(const struct subcommand *command, struct completion_words *ret,
    char ret_unknown[32])
{
	struct completion_words one;
	const char *p = command->synopsis;

	memset(ret, 0, sizeof(*ret));
	while (*p != '\0') {
		p = read_alternative(command, p, &one, ret_unknown);
		if (p == NULL)
			return -1;
		if (one.n > ret->n)
			*ret = one;
	}
	return 0;
}

struct unknown_value {
	const struct subcommand *command;
	const char *value;
};

static void
look_for_unknown(void *data, const struct opt_spec *spec, char letter)
{
	struct unknown_value *unknown = data;

	if (spec->value != NULL && completion_kind(spec->value, unknown->command) == NULL)
		unknown->value = spec->value;
}

/* Every word and every value has a kind, so that a new one is a decision. */
static int
check_kinds(char ret_unknown[32])
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		struct unknown_value unknown = { .command = &commands[i] };
		struct completion_words words;

		if (completion_words(&commands[i], &words, ret_unknown) < 0)
			return -1;
		completion_options(&commands[i], look_for_unknown, &unknown);
		if (unknown.value != NULL) {
			snprintf(ret_unknown, 32, "%s", unknown.value);
			return -1;
		}
	}
	return 0;
}

int
completion_write(FILE *f, const char *shell, char ret_unknown[32])
{
	static const struct {
		const char *name;
		void (*write)(FILE *f);
	} shells[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};

	if (check_kinds(ret_unknown) < 0)
		return -2;
	for (size_t i = 0; i < N(shells); i++) {
		if (strcmp(shells[i].name, shell) == 0) {
			shells[i].write(f);
			return 0;
		}
	}
	return -1;
}
