/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/fold.h"

#define BUCKETS 1024 /* a power of two, several times the rules of the default table */

/* A longer list has so many rules with a '*' that comparing with all rules costs little more. The
 * default table has five. */
#define GLOBS_MAX 128

/* A component of a rule. */
struct part {
	const char *at;
	size_t len;
};

/* Split a rule into its components; returns 0 if there are too many. */
static size_t
split(const char *rule, struct part ret[NAMES_PARTS_MAX])
{
	size_t n = 0;

	for (;;) {
		size_t len = strcspn(rule, "/");

		if (n == NAMES_PARTS_MAX)
			return 0;
		ret[n++] = (struct part){ rule, len };
		if (rule[len] == '\0')
			return n;
		rule += len + 1;
	}
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The short form keeps three letters of an extension. */
static bool
has_short_end(struct part part, const char *short_name)
{
	const char *end = strrchr(short_name, '.');
	size_t dot = part.len, n;

	while (dot > 0 && part.at[dot - 1] != '.')
		dot--;
	n = part.len - dot;
	return end != NULL && dot > 0 && strncmp(part.at + dot, end + 1, n < 3 ? n : 3) == 0;
}

/* May this be FAT's short name of the rule's component? A short name has the first letters,
 * without the dots before them, a tilde and a number. */
static bool
is_short_form(struct part part, const char *name)
{
	const char *tilde = strchr(name, '~');
	size_t n = 0;

	if (tilde == NULL || tilde == name || !is_digit(tilde[1]))
		return false;
	for (size_t i = 0; i < part.len && name + n < tilde; i++) {
		if (part.at[i] == '.' && n == 0)
			continue;
		if (part.at[i] == '*')
			return has_short_end(part, tilde);
		if (part.at[i] != name[n])
			return false;
		n++;
	}
	return name + n == tilde;
}

/* name has to be folded. */
static bool
part_matches(struct part part, const char *name, size_t len)
{
	const char *star = memchr(part.at, '*', part.len);
	const size_t before = star != NULL ? (size_t)(star - part.at) : 0;
	const size_t after = star != NULL ? part.len - before - 1 : 0;

	if (star == NULL)
		return (part.len == len && memcmp(part.at, name, len) == 0) ||
		    is_short_form(part, name);
	return (len >= before + after && memcmp(part.at, name, before) == 0 &&
		   memcmp(star + 1, name + len - after, after) == 0) ||
	    is_short_form(part, name);
}

/* ---- a rule ---- */

int
names_check(const char *rule, struct koda_error *err)
{
	struct part part[NAMES_PARTS_MAX];
	const char *why = NULL;
	char shown[256];
	size_t n;

	if (rule == NULL)
		return err_set(err, KODA_INVALID, 0, "a rule of the policy: the name is missing");
	n = split(rule, part);
	if (strlen(rule) > NAMES_RULE_MAX)
		why = "it is too long";
	else if (rule[0] == '/')
		why = "it begins with a slash: a name is the end of a path";
	else if (n == 0)
		why = "it has too many components";
	for (size_t i = 0; why == NULL && i < n; i++) {
		const char *star = memchr(part[i].at, '*', part[i].len);
		const char *end = part[i].at + part[i].len;

		if (part[i].len == 0)
			why = "it has an empty component";
		else if (strspn(part[i].at, "*./ ") >= part[i].len)
			why = "a component has no letter";
		else if (star != NULL && memchr(star + 1, '*', (size_t)(end - star) - 1) != NULL)
			why = "a component has more than one '*'";
	}
	if (why == NULL)
		return 0;
	bytes_show(shown, sizeof(shown), rule, strlen(rule));
	return err_set(err, KODA_INVALID, 0, "the name '%s' in a rule is invalid: %s", shown, why);
}

void
names_normalise(char *rule)
{
	char folded[NAMES_RULE_MAX + 1];
	size_t n = 0, from = 0;

	for (;;) {
		size_t len = strcspn(rule + from, "/");
		bool end = rule[from + len] == '\0';

		fold_name(rule + from, len, folded, sizeof(folded));
		memcpy(rule + n, folded, strlen(folded));
		n += strlen(folded);
		rule[n] = end ? '\0' : '/';
		if (end)
			return;
		n++;
		from += len + 1;
	}
}

bool
names_is_normalised(const char *rule)
{
	char copy[NAMES_RULE_MAX + 1];

	if (strlen(rule) > NAMES_RULE_MAX)
		return false;
	strcpy(copy, rule);
	names_normalise(copy);
	return strcmp(copy, rule) == 0;
}

/* ---- paths ---- */

/* The last components of a path, folded: enough of them for the longest rule. */
struct tail {
	char name[NAMES_PARTS_MAX][NAME_LEN_MAX + 1];
	size_t len[NAMES_PARTS_MAX];
	bool odd[NAMES_PARTS_MAX]; /* it may be a short form */
	size_t n; /* how many were added; the newest is at (n - 1) % NAMES_PARTS_MAX */
};

static void
tail_add(struct tail *t, const char *name, size_t len)
{
	const size_t i = t->n++ % NAMES_PARTS_MAX;

	fold_name(name, len, t->name[i], sizeof(t->name[i]));
	t->len[i] = strlen(t->name[i]);
	t->odd[i] = strchr(t->name[i], '~') != NULL;
}

/* Do the first k components of the rule match the last k of the path? */
static bool
tail_matches(const struct tail *t, const struct part *part, size_t k)
{
	if (k == 0 || t->n < k)
		return false;
	for (size_t i = 0; i < k; i++) {
		const size_t at = (t->n - k + i) % NAMES_PARTS_MAX;

		if (!part_matches(part[i], t->name[at], t->len[at]))
			return false;
	}
	return true;
}

/* A quick check of the last byte, because many rules are compared with each path. */
static bool
may_end(const char *rule, const struct tail *t)
{
	const size_t at = (t->n - 1) % NAMES_PARTS_MAX, len = t->len[at];
	const char end = rule[strlen(rule) - 1];

	return end == '*' || t->odd[at] || (len > 0 && t->name[at][len - 1] == end);
}

/* Does the rule have that many components at least? */
static bool
has_parts(const char *rule, size_t n)
{
	while (--n > 0 && (rule = strchr(rule, '/')) != NULL)
		rule++;
	return rule != NULL;
}

/* Compare with all rules, and return the first one that matches the last components in t; NULL:
 * none. begun 0: all components of the rule must match; otherwise the first ones, at least `begun`
 * of them but not all. */
static const char *
rule_among(const struct policy_list *list, const struct tail *t, size_t begun)
{
	/* With two slashes a rule has three components. */
	const struct policy_some *some = begun == 2 ? &list->deep : NULL;
	const size_t all = some != NULL ? some->n : list->n;
	struct part part[NAMES_PARTS_MAX];

	for (size_t i = 0; i < all; i++) {
		const char *rule = list->v[some != NULL ? some->at[i] : i];
		size_t n;

		if (begun == 0 ? !may_end(rule, t) : !has_parts(rule, begun + 1))
			continue;
		n = split(rule, part);
		if (begun == 0 && tail_matches(t, part, n))
			return rule;
		for (size_t k = begun; k > 0 && k < n; k++) {
			if (tail_matches(t, part, k))
				return rule;
		}
	}
	return NULL;
}

/* May one of the compared components be a short form? A table does not find those. */
static bool
tail_is_odd(const struct tail *t)
{
	for (size_t k = 0; k < t->n && k < NAMES_PARTS_MAX; k++) {
		if (t->odd[k])
			return true;
	}
	return false;
}

/* Return the index of the first rule whose text equals the last components in t, or list->n. */
static size_t
literal_for(const struct policy_list *list, const struct tail *t)
{
	char end[NAMES_PARTS_MAX * (NAME_LEN_MAX + 1)], *from = end + sizeof(end) - 1;
	size_t first = list->n;

	*from = '\0';
	for (size_t k = 1; k <= t->n && k <= NAMES_PARTS_MAX; k++) {
		const size_t at = (t->n - k) % NAMES_PARTS_MAX;
		size_t found;

		if (k > 1)
			*--from = '/';
		from -= t->len[at];
		memcpy(from, t->name[at], t->len[at]);
		found = policy_list_find(list, from);
		if (found < first)
			first = found;
	}
	return first;
}

/* Return the first rule of which all components match the last components in t; NULL: none. */
static const char *
rule_for(const struct policy_list *list, const struct tail *t)
{
	const struct policy_some *globs = &list->starred;
	size_t first;

	/* A short list has no table: comparing is as fast. */
	if (list->n_slots == 0 || globs->n > GLOBS_MAX || tail_is_odd(t))
		return rule_among(list, t, 0);
	first = literal_for(list, t);
	for (size_t i = 0; i < globs->n && globs->at[i] < first; i++) {
		const char *rule = list->v[globs->at[i]];
		struct part part[NAMES_PARTS_MAX];

		if (may_end(rule, t) && tail_matches(t, part, split(rule, part)))
			first = globs->at[i];
	}
	return first < list->n ? list->v[first] : NULL;
}

static bool
next_part(const char **path, struct part *ret)
{
	while (**path == '/')
		(*path)++;
	*ret = (struct part){ *path, strcspn(*path, "/") };
	*path += ret->len;
	return ret->len > 0;
}

const char *
names_rule_of(const struct policy_list *list, const char *path)
{
	const char *rule = NULL;
	struct tail t = { .n = 0 };
	struct part part;

	while (list->n > 0 && rule == NULL && next_part(&path, &part)) {
		tail_add(&t, part.at, part.len);
		rule = rule_for(list, &t);
	}
	return rule;
}

/* Fill an empty t with the end of the whole path. */
static void
tail_of(struct tail *t, const char *path)
{
	struct part part;

	while (next_part(&path, &part))
		tail_add(t, part.at, part.len);
}

const char *
names_rule_at(const struct policy_list *list, const char *path)
{
	struct tail t = { .n = 0 };

	if (list->n == 0)
		return NULL;
	tail_of(&t, path);
	return t.n > 0 ? rule_for(list, &t) : NULL;
}

/* begun as for rule_among(). */
static const char *
rule_begun(const struct policy_list *list, const char *path, size_t begun)
{
	struct tail t = { .n = 0 };

	if (list->n == 0)
		return NULL;
	tail_of(&t, path);
	return rule_among(list, &t, begun);
}

const char *
names_rule_begun(const struct policy_list *list, const char *path)
{
	return rule_begun(list, path, 1);
}

const char *
names_rule_cut(const struct policy_list *list, const char *path)
{
	return rule_begun(list, path, 2);
}

bool
names_is_vendor(const char *name)
{
	/* Package managers move these directories, and those in them, away and create them
	 * again: nothing can be mounted there, and a tool obeys what is in them only when the
	 * user starts it in there. */
	static const char *const vendors[] = { "node_modules", "bower_components", "vendor",
		"site-packages", "dist-packages", "__pypackages__", ".venv", "venv", "Pods" };

	for (size_t i = 0; i < N_ELEMENTS(vendors); i++) {
		if (strcmp(name, vendors[i]) == 0)
			return true;
	}
	return false;
}

bool
names_is_vendored(const char *path)
{
	char name[NAME_LEN_MAX + 1];
	struct part part;

	while (next_part(&path, &part)) {
		if (part.len >= sizeof(name))
			continue;
		memcpy(name, part.at, part.len);
		name[part.len] = '\0';
		if (*path != '\0' && names_is_vendor(name))
			return true;
	}
	return false;
}

/* ---- the index ---- */

/* A component of a rule: the k-th one. */
struct name_slot {
	uint16_t rule; /* the rule's index plus one */
	uint16_t k;
	uint32_t next; /* index of the next slot in the chain plus one; 0: the chain ends */
};

struct names_index {
	struct {
		const char *text;
		struct part part[NAMES_PARTS_MAX];
		size_t n;
	} rule[POLICY_RULES_MAX];
	size_t n_rules;
	uint32_t bucket[BUCKETS];
	struct name_slot slot[POLICY_RULES_MAX * NAMES_PARTS_MAX];
	uint32_t n_slots;
	/* Components with a '*': their slots, and the byte that they end with, or '*'. Each name
	 * is compared with all of them. */
	uint32_t glob[POLICY_RULES_MAX * NAMES_PARTS_MAX];
	char glob_end[POLICY_RULES_MAX * NAMES_PARTS_MAX];
	uint32_t n_globs;
};

static uint32_t
hash(const char *name, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	return (h ^ h >> 15) & (BUCKETS - 1);
}

struct names_index *
names_index_new(const struct policy_list *list)
{
	struct names_index *index = calloc(1, sizeof(*index));

	if (index == NULL)
		return NULL;
	for (size_t i = 0; i < list->n; i++) {
		const size_t at = index->n_rules++;

		index->rule[at].text = list->v[i];
		index->rule[at].n = split(list->v[i], index->rule[at].part);
		for (size_t k = 0; k < index->rule[at].n; k++) {
			const struct part part = index->rule[at].part[k];
			uint32_t *bucket = &index->bucket[hash(part.at, part.len)];
			struct name_slot *s = &index->slot[index->n_slots++];

			*s = (struct name_slot){ (uint16_t)(at + 1), (uint16_t)(k + 1), *bucket };
			if (memchr(part.at, '*', part.len) == NULL) {
				*bucket = index->n_slots;
				continue;
			}
			index->glob_end[index->n_globs] = part.at[part.len - 1];
			index->glob[index->n_globs++] = index->n_slots - 1;
		}
	}
	return index;
}

void
names_index_free(struct names_index *index)
{
	free(index);
}

/* Fold a name. Nearly all names are ASCII, and most fold to themselves. *ret is name, or buf.
 * Returns the length. */
static size_t
fold_fast(const char *name, const char **ret, char buf[NAME_LEN_MAX + 1])
{
	size_t n = 0;
	bool upper = false, odd = false;

	for (; name[n] != '\0'; n++) {
		upper |= name[n] >= 'A' && name[n] <= 'Z';
		odd |= (signed char)name[n] < 0;
	}
	*ret = name;
	if (odd) {
		fold_name(name, n, buf, NAME_LEN_MAX + 1);
		*ret = buf;
		return strlen(buf);
	}
	while (n > 0 && (name[n - 1] == '.' || name[n - 1] == ' '))
		n--;
	if (!upper && name[n] == '\0')
		return n;
	for (size_t i = 0; i < n; i++)
		buf[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
	buf[n] = '\0';
	*ret = buf;
	return n;
}

/* Does the directory's path end with the rule's components before the k-th one? */
static bool
dir_matches(const struct part *part, size_t k, const char *dir, size_t len)
{
	while (--k > 0) {
		char folded[NAME_LEN_MAX + 1];
		size_t end = len;

		while (len > 0 && dir[len - 1] != '/')
			len--;
		if (len == end || len == 0)
			return false;
		fold_name(dir + len, end - len, folded, sizeof(folded));
		if (!part_matches(part[k - 1], folded, strlen(folded)))
			return false;
		len--;
	}
	return true;
}

/* A complete rule wins over the beginning of one, and among beginnings the longer one wins. */
static void
consider(const struct names_index *index, const struct name_slot *s, const char *folded, size_t n,
    const char *dir, size_t len, struct names_found *found)
{
	const size_t at = (size_t)s->rule - 1, k = s->k;
	const struct part *part = index->rule[at].part;
	const bool last = k == index->rule[at].n;

	if ((found->rule != NULL && (found->last || (!last && k <= found->parts))) ||
	    !part_matches(part[k - 1], folded, n) ||
	    (dir != NULL && !dir_matches(part, k, dir, len)))
		return;
	*found = (struct names_found){ index->rule[at].text, last, k, at };
}

static struct names_found
look_up(const struct names_index *index, const char *dir, size_t len, const char *name)
{
	struct names_found found = { 0 };
	char buf[NAME_LEN_MAX + 1];
	const char *folded;
	const size_t n = fold_fast(name, &folded, buf);
	const bool tilde = memchr(folded, '~', n) != NULL;

	for (uint32_t i = index->bucket[hash(folded, n)]; i != 0; i = index->slot[i - 1].next)
		consider(index, &index->slot[i - 1], folded, n, dir, len, &found);
	for (uint32_t i = 0; i < index->n_globs; i++) {
		const char end = index->glob_end[i];

		if (tilde || end == '*' || (n > 0 && folded[n - 1] == end))
			consider(index, &index->slot[index->glob[i]], folded, n, dir, len, &found);
	}
	/* May be FAT's short form of any rule's component. */
	if (tilde) {
		for (uint32_t i = 0; i < index->n_slots; i++)
			consider(index, &index->slot[i], folded, n, dir, len, &found);
	}
	return found;
}

struct names_found
names_index_find(const struct names_index *index, const char *dir, size_t len, const char *name)
{
	return look_up(index, dir, len, name);
}

bool
names_index_may(const struct names_index *index, const char *name)
{
	return look_up(index, NULL, 0, name).rule != NULL;
}
