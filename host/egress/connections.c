/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/connections.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define SHOWN_MAX 2304 /* a proxy's longest sentence, each byte escaped */

struct entry {
	uint64_t id;
	struct koda_connection shown; /* its strings are one allocation, which begins at host */
};

struct connections {
	size_t capacity;
	uint64_t n; /* number of entries ever added */
	struct entry ring[];
};

KODA_API const char *
koda_connection_outcome_name(enum koda_connection_outcome outcome)
{
	static const char *const names[] = {
		[KODA_CONNECTION_ALLOWED] = "allowed",
		[KODA_CONNECTION_DENIED] = "denied",
		[KODA_CONNECTION_FAILED] = "failed",
		[KODA_CONNECTION_INVALID] = "invalid",
	};

	return (size_t)outcome < N_ELEMENTS(names) && names[outcome] != NULL ? names[outcome]
									     : "invalid";
}

struct connections *
connections_new(size_t capacity)
{
	struct connections *c = calloc(1, sizeof(*c) + capacity * sizeof(c->ring[0]));

	if (c != NULL)
		c->capacity = capacity;
	return c;
}

void
connections_free(struct connections *c)
{
	for (size_t i = 0; c != NULL && i < c->capacity; i++)
		free((void *)(uintptr_t)c->ring[i].shown.host);
	free(c);
}

/* Copies the three texts. False: no memory, and nothing has changed. */
static bool
set_entry(struct entry *e, const struct koda_connection *one)
{
	char host[SHOWN_MAX], rule[SHOWN_MAX], detail[SHOWN_MAX], *block;

	bytes_show(host, sizeof(host), one->host, strlen(one->host));
	bytes_show(rule, sizeof(rule), one->rule, strlen(one->rule));
	bytes_show(detail, sizeof(detail), one->detail, strlen(one->detail));
	block = malloc(strlen(host) + strlen(rule) + strlen(detail) + 3);
	if (block == NULL)
		return false;
	free((void *)(uintptr_t)e->shown.host);
	e->shown = *one;
	e->shown.host = block;
	e->shown.rule = stpcpy(block, host) + 1;
	e->shown.detail = stpcpy(block + strlen(host) + 1, rule) + 1;
	strcpy(block + strlen(host) + strlen(rule) + 2, detail);
	return true;
}

uint64_t
connections_first(const struct connections *c)
{
	return c->n > c->capacity ? c->n - c->capacity : 0;
}

static struct entry *
entry_at(const struct connections *c, uint64_t i)
{
	return (struct entry *)(uintptr_t)&c->ring[i % c->capacity];
}

/* Most connections end soon after they began: search from the newest on. */
static struct entry *
find_open(const struct connections *c, uint64_t id)
{
	for (uint64_t i = c->n; i > connections_first(c); i--) {
		struct entry *e = entry_at(c, i - 1);

		if (e->shown.open && e->id == id)
			return e;
	}
	return NULL;
}

void
connections_report(struct connections *c, uint64_t id, const struct koda_connection *one)
{
	struct entry *e = find_open(c, id);

	if (e != NULL) {
		set_entry(e, one);
		return;
	}
	e = entry_at(c, c->n);
	if (!set_entry(e, one))
		return;
	e->id = id;
	c->n++;
}

void
connections_cut(struct connections *c, const char *why)
{
	for (uint64_t i = connections_first(c); i < c->n; i++) {
		struct entry *e = entry_at(c, i);
		struct koda_connection one = e->shown;

		if (!one.open)
			continue;
		one.open = false;
		one.outcome = KODA_CONNECTION_FAILED;
		one.detail = why;
		if (!set_entry(e, &one))
			e->shown.open = false;
	}
}

uint64_t
connections_count(const struct connections *c)
{
	return c->n;
}

const struct koda_connection *
connections_at(const struct connections *c, uint64_t i)
{
	return i >= connections_first(c) && i < c->n ? &entry_at(c, i)->shown : NULL;
}
