/* SPDX-License-Identifier: Apache-2.0 */
#include "search/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"

void
chain_init(struct chain *c, size_t top, bool in_git, size_t rules_max)
{
	memset(c, 0, sizeof(*c));
	c->now.top = top;
	c->now.in_git = in_git;
	c->rules_max = rules_max;
}

static void
pop_to(struct chain *c, const size_t n[CHAIN_KINDS])
{
	for (size_t k = 0; k < CHAIN_KINDS; k++) {
		for (size_t i = n[k]; i < c->now.n[k]; i++)
			ignore_free(c->link[k][i].rules);
	}
}

void
chain_done(struct chain *c)
{
	static const size_t none[CHAIN_KINDS];

	pop_to(c, none);
	for (size_t k = 0; k < CHAIN_KINDS; k++)
		free(c->link[k]);
	memset(c, 0, sizeof(*c));
}

struct chain_mark
chain_enter(struct chain *c, size_t base, bool is_worktree)
{
	const struct chain_mark before = c->now;

	if (is_worktree) {
		c->now.in_git = true;
		c->now.top = base;
		for (size_t k = CHAIN_GITIGNORE; k < CHAIN_KINDS; k++)
			c->now.floor[k] = c->now.n[k];
	}
	return before;
}

void
chain_leave(struct chain *c, const struct chain_mark *mark)
{
	pop_to(c, mark->n);
	c->now = *mark;
}

bool
chain_wants(const struct chain *c, enum chain_kind kind)
{
	return kind < CHAIN_GITIGNORE || c->now.in_git;
}

static void
ignore_free_at(struct ignore **list)
{
	ignore_free(*list);
}

int
chain_add(struct chain *c, enum chain_kind kind, size_t base, const char *text, size_t len)
{
	cleanup(ignore_free_at) struct ignore *rules = ignore_new();
	const size_t n = c->now.n[kind];

	if (rules == NULL || ignore_add_file(rules, text, len, c->rules_max - c->now.rules) < 0 ||
	    ignore_ready(rules) < 0)
		return -1;
	if (ignore_count(rules) == 0)
		return 0;
	if (n == c->size[kind]) {
		const size_t size = n == 0 ? 16 : n * 2;
		struct chain_link *grown = reallocarray(c->link[kind], size, sizeof(*grown));

		if (grown == NULL)
			return -1;
		c->link[kind] = grown;
		c->size[kind] = size;
	}
	c->now.rules += ignore_count(rules);
	c->link[kind][n] = (struct chain_link){ take_ptr(&rules), base };
	c->now.n[kind]++;
	return 0;
}

bool
chain_is_empty(const struct chain *c, const struct ignore *global)
{
	return c->now.rules == 0 && (global == NULL || !c->now.in_git);
}

enum ignore_verdict
chain_judge(const struct chain *c, const struct ignore *global, const struct ignore_name *name)
{
	const size_t kinds = c->now.in_git ? CHAIN_KINDS : CHAIN_GITIGNORE;

	for (size_t k = 0; k < kinds; k++) {
		for (size_t i = c->now.n[k]; i > c->now.floor[k]; i--) {
			const struct chain_link *l = &c->link[k][i - 1];
			const enum ignore_verdict v = ignore_judge(l->rules, name, l->base);

			if (v != IGNORE_NONE)
				return v;
		}
	}
	return global != NULL && c->now.in_git ? ignore_judge(global, name, c->now.top)
					       : IGNORE_NONE;
}
