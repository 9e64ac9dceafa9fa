/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/remember.h"

#include <stdlib.h>
#include <string.h>

#include "include/koda/sandbox.h"
#include "mcp/memory.h"

struct seen {
	char *asked, *path; /* NULL: free */
	uint64_t when;
	uint8_t digest[KODA_DIGEST_BYTES];
};

struct remembered {
	struct seen *seen;
	size_t n;
	uint64_t clock;
};

struct remembered *
remember_new(void)
{
	return memory_zero(sizeof(struct remembered));
}

static void
clear(struct seen *s)
{
	free(s->asked);
	free(s->path);
	*s = (struct seen){ 0 };
}

void
remember_free(struct remembered *r)
{
	for (size_t i = 0; i < r->n; i++)
		clear(&r->seen[i]);
	free(r->seen);
	free(r);
}

static struct seen *
find(const struct remembered *r, const char *path)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->seen[i].path != NULL && strcmp(r->seen[i].path, path) == 0)
			return &r->seen[i];
	}
	return NULL;
}

static struct seen *
place_for(struct remembered *r)
{
	struct seen *eldest = NULL;

	for (size_t i = 0; i < r->n; i++) {
		if (r->seen[i].path == NULL)
			return &r->seen[i];
		if (eldest == NULL || r->seen[i].when < eldest->when)
			eldest = &r->seen[i];
	}
	if (r->n == REMEMBER_MAX) {
		clear(eldest);
		return eldest;
	}
	r->seen = memory_resize(r->seen, (r->n + 1) * sizeof(*r->seen));
	r->seen[r->n] = (struct seen){ 0 };
	return &r->seen[r->n++];
}

void
remember_seen(struct remembered *r, const char *asked, const char *path, const uint8_t *digest)
{
	struct seen *s = find(r, path);

	if (s == NULL) {
		s = place_for(r);
		s->path = memory_string(path);
	}
	/* The same path may have led elsewhere through a link before. */
	for (size_t i = 0; i < r->n; i++) {
		struct seen *other = &r->seen[i];

		if (other != s && other->path != NULL && strcmp(other->asked, asked) == 0)
			clear(other);
	}
	if (s->asked == NULL || strcmp(s->asked, asked) != 0) {
		free(s->asked);
		s->asked = memory_string(asked);
	}
	s->when = ++r->clock;
	memcpy(s->digest, digest, sizeof(s->digest));
}

void
remember_forget(struct remembered *r, const char *path)
{
	struct seen *s = find(r, path);

	if (s != NULL)
		clear(s);
}

bool
remember_is_empty(const struct remembered *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->seen[i].path != NULL)
			return false;
	}
	return true;
}

const uint8_t *
remember_find_asked(const struct remembered *r, const char *asked)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->seen[i].path != NULL && strcmp(r->seen[i].asked, asked) == 0)
			return r->seen[i].digest;
	}
	return NULL;
}

const uint8_t *
remember_find(const struct remembered *r, const char *path)
{
	const struct seen *s = find(r, path);

	return s != NULL ? s->digest : NULL;
}
