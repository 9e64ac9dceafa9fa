/* SPDX-License-Identifier: Apache-2.0 */
#include "search/ignore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "search/braces.h"
#include "shared/base/cleanup.h"

#define NO_RULE UINT32_MAX

const char IGNORE_TOO_MANY[] = "there are too many rules";

struct rule {
	struct glob glob;
	bool negated, only_dir;
	uint32_t next; /* the previous rule with the same hash */
};

struct ignore {
	struct rule *rule;
	size_t n, size;
	bool has_match;
	/* Hash tables with the last rule of each slot; n_slots is a power of two. */
	uint32_t *by_name, *by_suffix;
	size_t n_slots, n_names, n_suffixes;
	uint32_t *other; /* rules that no hash finds, ascending */
	size_t n_others;
};

/* ---- names ---- */

/* FNV-1a: names are short. An attacker who makes them collide only slows his own rules down, as
 * if there were no hash. */
static uint32_t
hash(const char *s, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619u;
	return h;
}

static uint32_t
hash_suffix(const char *s, size_t len)
{
	const char *dot = memrchr(s, '.', len);

	return dot != NULL ? hash(dot, len - (size_t)(dot - s)) : 0;
}

void
ignore_name_init(struct ignore_name *ret, const char *path, size_t len, size_t name, bool is_dir)
{
	*ret = (struct ignore_name){ .path = path,
		.len = len,
		.name = name,
		.is_dir = is_dir,
		.name_hash = hash(path + name, len - name),
		.suffix_hash = hash_suffix(path + name, len - name) };
}

/* ---- the list ---- */

struct ignore *
ignore_new(void)
{
	return calloc(1, sizeof(struct ignore));
}

void
ignore_free(struct ignore *list)
{
	if (list == NULL)
		return;
	for (size_t i = 0; i < list->n; i++)
		glob_done(&list->rule[i].glob);
	free(list->rule);
	free(list->by_name);
	free(list->by_suffix);
	free(list->other);
	free(list);
}

static const char *
add_rule(struct ignore *list, const char *text, size_t len, unsigned flags, bool negated,
    bool only_dir, size_t max)
{
	struct glob glob = GLOB_EMPTY;
	const char *why;

	if (list->n >= max)
		return IGNORE_TOO_MANY;
	if (list->n == list->size) {
		const size_t size = list->size == 0 ? 16 : list->size * 2;
		struct rule *grown = reallocarray(list->rule, size, sizeof(*grown));

		if (grown == NULL)
			return GLOB_NO_MEMORY;
		list->rule = grown;
		list->size = size;
	}
	why = glob_compile(text, len, flags, &glob);
	if (why != NULL)
		return why;
	list->has_match |= !negated;
	list->rule[list->n++] =
	    (struct rule){ .glob = glob, .negated = negated, .only_dir = only_dir };
	return NULL;
}

/* ---- files ---- */

/* Returns the length without trailing spaces, except those after a backslash. */
static size_t
trimmed(const char *line, size_t len)
{
	size_t kept = 0;

	for (size_t i = 0; i < len; i++) {
		if (line[i] == ' ')
			continue;
		if (line[i] == '\\')
			i++;
		kept = i < len ? i + 1 : len;
	}
	return kept;
}

static const char *
add_line(struct ignore *list, const char *line, size_t len, size_t max)
{
	bool negated = false, only_dir = false;
	unsigned flags = GLOB_GIT;

	if (len > 0 && line[0] == '#')
		return NULL;
	if (len > 0 && line[len - 1] == '\r')
		len--;
	/* git reads C strings: a NUL ends the line. */
	len = trimmed(line, strnlen(line, len));
	if (len > 0 && line[0] == '!') {
		negated = true;
		line++;
		len--;
	}
	if (len > 0 && line[len - 1] == '/') {
		only_dir = true;
		len--;
	}
	if (len == 0)
		return NULL;
	if (memchr(line, '/', len) == NULL) {
		flags |= GLOB_NAME;
	} else if (line[0] == '/') {
		line++;
		len--;
	}
	return add_rule(list, line, len, flags, negated, only_dir, max);
}

int
ignore_add_file(struct ignore *list, const char *text, size_t len, size_t max)
{
	static const char bom[] = { '\xef', '\xbb', '\xbf' };
	const char *end = text + len;

	if (len >= sizeof(bom) && memcmp(text, bom, sizeof(bom)) == 0)
		text += sizeof(bom);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline != NULL ? newline : end) - text);
		const char *why = add_line(list, text, n, max);

		if (why == GLOB_NO_MEMORY || why == IGNORE_TOO_MANY) {
			errno = why == GLOB_NO_MEMORY ? ENOMEM : E2BIG;
			return -1;
		}
		text += n + (newline != NULL);
	}
	return 0;
}

/* ---- globs of a search ---- */

struct alternatives {
	struct ignore *list;
	unsigned flags;
	bool negated, only_dir;
	size_t max;
};

static const char *
add_alternative(void *data, const char *text, size_t len)
{
	const struct alternatives *a = data;

	return add_rule(a->list, text, len, a->flags, a->negated, a->only_dir, a->max);
}

const char *
ignore_add_glob(struct ignore *list, const char *text, unsigned flags, size_t max)
{
	struct alternatives a = { .list = list, .flags = flags, .max = max };
	size_t len = strlen(text);

	if (len > 0 && text[0] == '!') {
		a.negated = true;
		text++;
		len--;
	}
	if (len > 0 && text[len - 1] == '/') {
		a.only_dir = true;
		len--;
	}
	if (len == 0)
		return "it is empty";
	if (memchr(text, '/', len) == NULL) {
		a.flags |= GLOB_NAME;
	} else if (text[0] == '/') {
		text++;
		len--;
	}
	return braces_expand(text, len, add_alternative, &a);
}

const char *
ignore_add_name(struct ignore *list, const char *text, bool negated, size_t max)
{
	return add_rule(list, text, strlen(text), GLOB_NAME, negated, false, max);
}

/* ---- finding ---- */

/* Returns the slot for a glob, or NULL if no hash of a name tells whether it can match. */
static uint32_t *
slot_of(struct ignore *list, const struct glob *g)
{
	const char *key = (const char *)g->key;

	if ((g->flags & GLOB_IGNORE_CASE) != 0)
		return NULL;
	if (g->kind == GLOB_KEY_NAME) {
		list->n_names++;
		return &list->by_name[hash(key, g->key_len) & (list->n_slots - 1)];
	}
	/* A name that ends with this key has the same last dot. */
	if (g->kind == GLOB_KEY_SUFFIX && memchr(key, '.', g->key_len) != NULL) {
		list->n_suffixes++;
		return &list->by_suffix[hash_suffix(key, g->key_len) & (list->n_slots - 1)];
	}
	return NULL;
}

int
ignore_ready(struct ignore *list)
{
	if (list->n == 0)
		return 0;
	list->n_slots = 4;
	while (list->n_slots < list->n * 2)
		list->n_slots *= 2;
	list->by_name = malloc(list->n_slots * sizeof(*list->by_name));
	list->by_suffix = malloc(list->n_slots * sizeof(*list->by_suffix));
	list->other = malloc(list->n * sizeof(*list->other));
	if (list->by_name == NULL || list->by_suffix == NULL || list->other == NULL)
		return -1;
	for (size_t i = 0; i < list->n_slots; i++)
		list->by_name[i] = list->by_suffix[i] = NO_RULE;
	for (size_t i = 0; i < list->n; i++) {
		uint32_t *slot = slot_of(list, &list->rule[i].glob);

		if (slot != NULL) {
			list->rule[i].next = *slot;
			*slot = (uint32_t)i;
		} else {
			list->other[list->n_others++] = (uint32_t)i;
		}
	}
	return 0;
}

size_t
ignore_count(const struct ignore *list)
{
	return list->n;
}

bool
ignore_has_match(const struct ignore *list)
{
	return list->has_match;
}

static bool
rule_matches(const struct rule *r, const struct ignore_name *n, size_t base)
{
	return (!r->only_dir || n->is_dir) &&
	    glob_match(&r->glob, n->path + base, n->len - base, n->name - base);
}

/* Returns one more than the index of the last matching rule in the chain if that is above found,
 * else found. */
static size_t
last_in_chain(const struct ignore *list, uint32_t i, const struct ignore_name *n, size_t base,
    size_t found)
{
	for (; i != NO_RULE && i + (size_t)1 > found; i = list->rule[i].next) {
		if (rule_matches(&list->rule[i], n, base))
			return i + (size_t)1;
	}
	return found;
}

enum ignore_verdict
ignore_judge(const struct ignore *list, const struct ignore_name *n, size_t base)
{
	const size_t mask = list->n_slots - 1;
	size_t found = 0;

	if (list->n == 0)
		return IGNORE_NONE;
	if (list->n_names > 0)
		found = last_in_chain(list, list->by_name[n->name_hash & mask], n, base, found);
	if (list->n_suffixes > 0)
		found = last_in_chain(list, list->by_suffix[n->suffix_hash & mask], n, base, found);
	for (size_t i = list->n_others; i > 0 && list->other[i - 1] + (size_t)1 > found; i--) {
		if (rule_matches(&list->rule[list->other[i - 1]], n, base))
			found = list->other[i - 1] + (size_t)1;
	}
	if (found == 0)
		return IGNORE_NONE;
	return list->rule[found - 1].negated ? IGNORE_KEEP : IGNORE_MATCH;
}
