/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/consent.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"

static void
drop(struct consents *cs, size_t i)
{
	free(cs->all[i].covers);
	cs->n--;
	memmove(&cs->all[i], &cs->all[i + 1], (cs->n - i) * sizeof(cs->all[0]));
}

void
consents_add(struct consents *cs, const struct consent *one)
{
	struct consent *to;

	if (cs->n == CONSENTS_MAX)
		drop(cs, 0);
	to = &cs->all[cs->n++];
	*to = *one;
	to->covers = memory_copy(one->covers, one->covers_len);
}

static bool
is_below(const char *path, const struct consent *c)
{
	return strncmp(path, c->covers, c->covers_len) == 0 && path[c->covers_len] == '/';
}

bool
consents_have_content(const struct consents *cs, const char *path)
{
	for (size_t i = 0; i < cs->n; i++) {
		if (cs->all[i].kind == CONSENT_CONTENT && is_below(path, &cs->all[i]))
			return true;
	}
	return false;
}

static bool
is_same_command(const struct consent *c, const struct consent *one)
{
	return c->kind == CONSENT_COMMAND && c->covers_len == one->covers_len &&
	    memcmp(c->covers, one->covers, one->covers_len) == 0;
}

void
consents_renew(struct consents *cs, const struct consent *one)
{
	for (size_t i = 0; i < cs->n; i++)
		if (is_same_command(&cs->all[i], one))
			cs->all[i].tree = one->tree;
}

bool
consents_have_command(struct consents *cs, const struct consent *one)
{
	for (size_t i = 0; i < cs->n; i++) {
		const struct consent *c = &cs->all[i];

		if (!is_same_command(c, one))
			continue;
		if (memcmp(&c->tree, &one->tree, sizeof(c->tree)) == 0)
			return true;
		drop(cs, i);
		return false;
	}
	return false;
}

void
consents_lapse(struct consents *cs)
{
	for (size_t i = cs->n; i > 0; i--) {
		if (cs->all[i - 1].kind == CONSENT_COMMAND)
			drop(cs, i - 1);
	}
}

void
consents_done(struct consents *cs)
{
	while (cs->n > 0)
		drop(cs, cs->n - 1);
}
