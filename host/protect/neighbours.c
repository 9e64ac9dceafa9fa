/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/neighbours.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/protect/journal.h"
#include "host/protect/journal_visit.h"
#include "shared/base/cleanup.h"
#include "shared/rules/names.h"

struct neighbour_look {
	Koda__Place *const *place;
	size_t n, n_planted;
	bool *planted;
};

/* Returns true if b is below a or, with or_same, equal to it. */
static bool
holds(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b, bool or_same)
{
	if (b->len < a->len || memcmp(a->data, b->data, a->len) != 0)
		return false;
	return b->len == a->len ? or_same : a->len == 1 || b->data[a->len] == '/';
}

static bool
ends_with(const ProtobufCBinaryData *path, const char *end)
{
	size_t len = strlen(end);

	return path->len >= len && memcmp(path->data + path->len - len, end, len) == 0;
}

/* Returns true if the place is in a git directory or .koda that the same scan has found. A place
 * that only a configuration names does not count: a neighbour with another root may not know it. */
static bool
is_built_in(const struct neighbour_look *l, const Koda__Place *place)
{
	if (place->kind == KODA__PLACE_KIND__PLACE_GIT_DIR || ends_with(&place->path, "/.git"))
		return true;
	for (size_t i = 0; i < l->n; i++)
		if (l->place[i]->kind == KODA__PLACE_KIND__PLACE_GIT_DIR &&
		    holds(&l->place[i]->path, &place->path, false))
			return true;
	return false;
}

/* Returns true if the path still belongs to the neighbour's directory, and not to a new one. */
static bool
is_there(const Koda__JournalDirectory *d)
{
	cleanup_free char *path = strndup((const char *)d->path.data, d->path.len);
	struct stat st;

	return path != NULL && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_dev == d->dev && st.st_ino == d->ino;
}

/* Returns true if the neighbour's policy protects the place by name. A live host takes such places
 * away itself, and knows which came with a directory that its command made. A killed host does
 * neither, so all of them count as planted. */
static bool
names_it(const Koda__Journal *j, const Koda__Place *place)
{
	cleanup_free char *path = strndup((const char *)place->path.data, place->path.len);
	bool found = false;

	for (size_t i = 0; path != NULL && i < j->n_name && !found; i++) {
		cleanup_free char *name = strndup((const char *)j->name[i].data, j->name[i].len);
		const struct policy_list one = { .present = true, .n = 1, .v = &name };

		found = name != NULL && names_rule_of(&one, path) != NULL;
	}
	return found;
}

static bool
protects(const struct neighbour_look *l, const struct journal_found *f, const Koda__Place *place)
{
	const Koda__Journal *j = f->journal;
	bool inside = false;

	for (size_t i = 0; i < j->n_directory && !inside; i++)
		inside =
		    holds(&j->directory[i]->path, &place->path, false) && is_there(j->directory[i]);
	if (!inside)
		return false;
	for (size_t i = 0; i < j->n_rule; i++)
		if (holds(&j->rule[i], &place->path, true))
			return true;
	if (!f->live && j->looked_through && names_it(j, place))
		return true;
	return place->kind != KODA__PLACE_KIND__PLACE_RULE && j->looked_through &&
	    !j->allow_git_config && is_built_in(l, place);
}

static bool
is_same(const Koda__Place *a, const Koda__Place *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->path.len == b->path.len &&
	    memcmp(a->path.data, b->path.data, a->path.len) == 0;
}

static bool
knows(const struct journal_found *f, const Koda__Place *place)
{
	for (size_t i = 0; i < f->journal->n_place; i++)
		if (is_same(f->journal->place[i], place))
			return true;
	for (size_t i = 0; i < f->n_more; i++)
		if (is_same(f->more[i], place))
			return true;
	return false;
}

static void
on_neighbour(void *data, const struct journal_found *f)
{
	struct neighbour_look *l = data;

	for (size_t i = 0; f->journal != NULL && i < l->n; i++) {
		if (l->planted[i] || !protects(l, f, l->place[i]) || knows(f, l->place[i]))
			continue;
		l->planted[i] = true;
		l->n_planted++;
	}
}

size_t
neighbours_planted(const struct state *state, Koda__Place *const *place, size_t n, bool *planted)
{
	struct neighbour_look l = { .place = place, .n = n, .planted = planted };
	cleanup_close int dir = state->fd < 0 || n == 0 ? -1 : state_journal(state, false);

	if (dir >= 0)
		journal_visit_all(dir, NULL, on_neighbour, &l);
	return l.n_planted;
}

/* ---- who may plant at a path ---- */

struct count {
	const struct journal *own;
	ProtobufCBinaryData path;
	bool below; /* or anywhere below it */
	size_t n;
};

static bool
is_own(const void *data, const char *name)
{
	const struct journal *own = ((const struct count *)data)->own;

	for (size_t i = 0; i < own->n; i++)
		if (strcmp(own->file[i].name, name) == 0)
			return true;
	return false;
}

static void
on_journal(void *data, const struct journal_found *f)
{
	struct count *c = data;

	if (!f->live || f->journal == NULL)
		return;
	for (size_t i = 0; i < f->journal->n_directory; i++) {
		const ProtobufCBinaryData *dir = &f->journal->directory[i]->path;

		if (holds(dir, &c->path, c->below) || (c->below && holds(&c->path, dir, true))) {
			c->n++;
			return;
		}
	}
}

static size_t
count(const struct state *state, const struct journal *own, const char *path, bool below)
{
	struct count c = { own, { strlen(path), (uint8_t *)path }, below, 0 };
	cleanup_close int dir = state->fd < 0 ? -1 : state_journal(state, false);

	if (dir >= 0)
		journal_visit_all(dir, is_own, on_journal, &c);
	return c.n;
}

size_t
neighbours_at(const struct state *state, const struct journal *own, const char *path)
{
	return count(state, own, path, false);
}

size_t
neighbours_below(const struct state *state, const struct journal *own, const char *path)
{
	return count(state, own, path, true);
}
