/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/policy_list.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* With fewer rules, comparing with all of them is faster than a table. */
#define LIST_HASHED_MIN 16

/* FNV-1a. Rules made to collide cost no more than a comparison with all rules, of which there
 * are at most POLICY_RULES_MAX. */
#define HASH_BEGIN 2166136261u

static uint32_t
hash_add(uint32_t h, char c)
{
	return (h ^ (unsigned char)c) * 16777619u;
}

static bool
is_rule(const char *rule, const char *text, size_t len)
{
	return strncmp(rule, text, len) == 0 && rule[len] == '\0';
}

/* Return the slot that has the rule, which is `len` bytes at `text`, or the free one where it belongs. */
static uint32_t *
slot_at(const struct policy_list *list, const char *text, size_t len, uint32_t hash)
{
	size_t at = hash & (list->n_slots - 1);

	while (list->slot[at] != 0 && !is_rule(list->v[list->slot[at] - 1], text, len))
		at = (at + 1) & (list->n_slots - 1);
	return &list->slot[at];
}

static uint32_t *
list_slot(const struct policy_list *list, const char *rule)
{
	uint32_t hash = HASH_BEGIN;
	size_t len = 0;

	while (rule[len] != '\0')
		hash = hash_add(hash, rule[len++]);
	return slot_at(list, rule, len, hash);
}

size_t
policy_list_find(const struct policy_list *list, const char *rule)
{
	if (list->n_slots != 0) {
		const uint32_t at = *list_slot(list, rule);

		return at != 0 ? at - 1 : list->n;
	}
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->v[i], rule) == 0)
			return i;
	}
	return list->n;
}

bool
policy_list_has(const struct policy_list *list, const char *rule)
{
	return policy_list_find(list, rule) < list->n;
}

/* The rules above a path, as far as they are found. */
struct above {
	size_t first, longest, len;
};

static void
above_add(struct above *a, const struct policy_list *list, size_t i)
{
	const size_t len = strlen(list->v[i]);

	if (i < a->first)
		a->first = i;
	if (a->longest == list->n || len > a->len) {
		a->longest = i;
		a->len = len;
	}
}

static void
above_look_up(struct above *a, const struct policy_list *list, const char *path, size_t len,
    uint32_t hash)
{
	const uint32_t at = *slot_at(list, path, len, hash);

	if (at != 0)
		above_add(a, list, at - 1);
}

static struct above
rules_above(const struct policy_list *list, const char *path)
{
	struct above ret = { list->n, list->n, 0 };
	uint32_t hash = HASH_BEGIN;

	if (list->n_slots == 0) {
		for (size_t i = 0; i < list->n; i++) {
			if (path_is_inside(path, list->v[i]))
				above_add(&ret, list, i);
		}
		return ret;
	}
	if (path[0] == '/')
		above_look_up(&ret, list, path, 1, hash_add(hash, '/'));
	for (size_t len = 0; path[len] != '\0';) {
		hash = hash_add(hash, path[len++]);
		if (len > 1 && (path[len] == '/' || path[len] == '\0'))
			above_look_up(&ret, list, path, len, hash);
	}
	return ret;
}

size_t
policy_list_first_above(const struct policy_list *list, const char *path)
{
	return rules_above(list, path).first;
}

size_t
policy_list_longest_above(const struct policy_list *list, const char *path)
{
	return rules_above(list, path).longest;
}

/* Make room for one more rule: the table is at most half full. */
static int
list_make_slots(struct policy_list *list)
{
	size_t n = list->n_slots == 0 ? LIST_HASHED_MIN * 4 : list->n_slots * 2;
	uint32_t *slot;

	if (list->n < LIST_HASHED_MIN || list->n < list->n_slots / 2)
		return 0;
	slot = calloc(n, sizeof(*slot));
	if (slot == NULL)
		return -1;
	free(list->slot);
	list->slot = slot;
	list->n_slots = n;
	for (size_t i = 0; i < list->n; i++)
		*list_slot(list, list->v[i]) = (uint32_t)i + 1;
	return 0;
}

/* Make room for one more index. Room is doubled, so it is used up exactly when n is a power of two. */
static int
some_make_room(struct policy_some *some)
{
	uint16_t *at;

	if ((some->n & (some->n - 1)) != 0)
		return 0;
	at = reallocarray(some->at, some->n == 0 ? 1 : some->n * 2, sizeof(*at));
	if (at == NULL)
		return -1;
	some->at = at;
	return 0;
}

/* There is room. */
static void
list_index_last(struct policy_list *list)
{
	const char *rule = list->v[list->n - 1], *slash = strchr(rule, '/');
	const uint16_t last = (uint16_t)(list->n - 1);

	if (strchr(rule, '*') != NULL)
		list->starred.at[list->starred.n++] = last;
	if (slash != NULL && strchr(slash + 1, '/') != NULL)
		list->deep.at[list->deep.n++] = last;
}

int
policy_list_add(struct policy_list *list, const char *rule, struct koda_error *err)
{
	cleanup_free char *copy = NULL;

	if (policy_list_has(list, rule))
		return 0;
	if (list->n >= POLICY_RULES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "a list of the policy has more than %d rules", POLICY_RULES_MAX);
	copy = strdup(rule);
	if (copy == NULL || list_make_slots(list) < 0 || some_make_room(&list->starred) < 0 ||
	    some_make_room(&list->deep) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	/* Room is doubled, so it is used up exactly when n is a power of two. */
	if ((list->n & (list->n - 1)) == 0) {
		size_t room = list->n == 0 ? 1 : list->n * 2;
		char **v = reallocarray(list->v, room, sizeof(*v));

		if (v == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		list->v = v;
	}
	list->v[list->n++] = take_ptr(&copy);
	list_index_last(list);
	if (list->n_slots != 0)
		*list_slot(list, rule) = (uint32_t)list->n;
	list->present = true;
	return 0;
}

int
policy_list_add_all(struct policy_list *dst, const struct policy_list *src, struct koda_error *err)
{
	for (size_t i = 0; i < src->n; i++) {
		if (policy_list_add(dst, src->v[i], err) < 0)
			return -1;
	}
	dst->present = dst->present || src->present;
	return 0;
}

void
policy_list_done(struct policy_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	free(list->slot);
	free(list->starred.at);
	free(list->deep.at);
	memset(list, 0, sizeof(*list));
}
