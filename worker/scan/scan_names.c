/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_results.h"

/* Moved directories per era, each of which is looked up among all nodes. A person or a tool moves
 * fewer. */
#define MOVED_TO_MAX 256
/*
 * stage2 takes 4,096 mounts (STAGE2_MOUNTS_MAX), of which rules and repositories need some. A place
 * beyond this limit is compared like a package: a tree full of matching names, which a command can
 * make, must not prevent the next command from running.
 */
#define NAMED_MOUNTS_MAX 2500

bool
scan_names_begin(struct scan *sc)
{
	const struct policy_list *denied = &sc->who->policy->list[KODA_DENY_WRITE_NAMES];

	sc->era = 1;
	sc->rules.v = calloc(denied->n + 1, sizeof(*sc->rules.v));
	if (sc->rules.v == NULL)
		return false;
	if (denied->n > 0)
		memcpy(sc->rules.v, denied->v, denied->n * sizeof(*sc->rules.v));
	sc->rules.n = sc->n_denied = denied->n;
	return true;
}

int
scan_names_ready(struct scan *sc)
{
	if (sc->by_name == NULL)
		sc->by_name = names_index_new(&sc->rules);
	return sc->by_name != NULL ? 0 : -1;
}

static void
came_done(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_came; i++)
		free(sc->came[i].path);
	free(sc->came);
	sc->came = NULL;
	sc->n_came = sc->came_size = 0;
}

void
scan_names_done(struct scan *sc)
{
	names_index_free(sc->by_name);
	for (size_t i = sc->n_denied; i < sc->rules.n; i++)
		free(sc->rules.v[i]);
	free(sc->rules.v);
	free(sc->last_dir);
	path_set_done(&sc->made);
	path_set_done(&sc->gone);
	came_done(sc);
}

bool
is_vendored(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		/* The path of the project itself does not matter. */
		if (path_is_inside(path, sc->root[i].path))
			return names_is_vendored(path + strlen(sc->root[i].path));
	}
	return false;
}

/* Places inside such a place are not reported separately. */
struct names_found
named_in(const struct scan *sc, int fd, const struct dirent64 *e, const char *path, size_t len,
    uint32_t idx)
{
	const struct names_found none = { 0 };
	struct names_found found;
	unsigned char type = e->d_type;
	struct stat st;

	if (sc->node[idx].inside)
		return none;
	found = names_index_find(sc->by_name, path, len, e->d_name);
	if (found.rule == NULL || found.last)
		return found;
	if (found.at >= sc->n_denied)
		return none;
	if (type == DT_UNKNOWN && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	return type == DT_LNK || (type != DT_DIR && found.parts > 1) ? found : none;
}

bool
take_mounts(struct scan *sc, const char *path)
{
	const size_t dir_len = (size_t)(strrchr(path, '/') - path);
	uint32_t cost = 1;

	/* Places in one directory come one after the other, and share the mounts above them. */
	if (sc->last_dir == NULL || strlen(sc->last_dir) != dir_len ||
	    memcmp(sc->last_dir, path, dir_len) != 0) {
		for (size_t i = 0; i < sc->n_roots; i++) {
			const size_t len = strlen(sc->root[i].path);

			if (!path_is_inside(path, sc->root[i].path))
				continue;
			for (const char *p = path + len; p < path + dir_len; p++)
				cost += *p == '/';
			break;
		}
	}
	if (sc->mounts + cost > NAMED_MOUNTS_MAX)
		return false;
	sc->mounts += cost;
	free(sc->last_dir);
	sc->last_dir = strndup(path, dir_len);
	return true;
}

/* ---- appeared and removed paths ---- */

/* Directories that package managers fill are judged by their known content, not by paths, because
 * they are replaced all the time. */
static bool
path_of(struct scan *sc, uint32_t idx, const char *name, char path[PATH_LEN_MAX + 1])
{
	if (sc->unsure || sc->node[idx].vendored)
		return false;
	if (node_path(sc, idx, name, path) > 0)
		return true;
	sc->unsure = true;
	return false;
}

void
note_made(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (path_of(sc, idx, name, path) && !path_set_has(&sc->gone, path) &&
	    !path_set_add(&sc->made, path))
		sc->unsure = true;
}

/* A directory can be moved over an empty one; no other event reports that while a process has the
 * empty one open. */
void
note_moved_to(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (!path_of(sc, idx, name, path))
		return;
	if (++sc->moved_to > MOVED_TO_MAX)
		sc->unsure = true;
	for (uint32_t i = 0; i < sc->n_nodes && !sc->unsure; i++) {
		const struct node *n = &sc->node[i];

		if (n->parent == idx && n->name != NULL && n->born != sc->era &&
		    strcmp(n->name, name) == 0 && !path_set_add(&sc->gone, path))
			sc->unsure = true;
	}
}

void
note_gone(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (path_of(sc, idx, name, path) && !path_set_has(&sc->made, path) &&
	    !path_set_add(&sc->gone, path))
		sc->unsure = true;
}

static bool
took_a_place(struct scan *sc, uint32_t idx)
{
	char path[PATH_LEN_MAX + 1];

	if (sc->node[idx].vendored)
		return false;
	return !path_of(sc, idx, NULL, path) || path_set_has(&sc->gone, path);
}

uint32_t
made_with(struct scan *sc, uint32_t idx, size_t up)
{
	uint32_t top = NONE;

	for (; up > 0 && idx != NONE; up--)
		idx = sc->node[idx].parent;
	/* Without watches, no directory is recognized from one comparison to the next. */
	if (!sc->watched || !sc->started)
		return NONE;
	for (; idx != NONE && sc->node[idx].born == sc->era; idx = sc->node[idx].parent) {
		if (took_a_place(sc, idx))
			return NONE;
		top = idx;
	}
	return top;
}

void
end_era(struct scan *sc)
{
	sc->era++;
	sc->unsure = false;
	sc->moved_to = 0;
	path_set_done(&sc->made);
	path_set_done(&sc->gone);
}

/* ---- places that came with a directory ---- */

/* There are many packages: report the directory that holds them all. */
static uint32_t
reported_as(const struct scan *sc, uint32_t made)
{
	while (sc->node[made].vendored && sc->node[made].parent != NONE &&
	    sc->node[sc->node[made].parent].vendored)
		made = sc->node[made].parent;
	return made;
}

void
note_came(struct scan *sc, uint32_t made, const char *path)
{
	const char *rule = names_rule_at(&sc->who->policy->list[KODA_DENY_WRITE_NAMES], path);
	char top[PATH_LEN_MAX + 1];
	struct came *c = NULL;

	if (node_path(sc, reported_as(sc, made), NULL, top) == 0)
		return;
	for (size_t i = 0; i < sc->n_came && c == NULL; i++) {
		if (strcmp(sc->came[i].path, top) == 0)
			c = &sc->came[i];
	}
	if (c == NULL) {
		if (scan_grow(&sc->came, sc->n_came, &sc->came_size, sizeof(*sc->came)) < 0) {
			sc->cut = true;
			return;
		}
		c = &sc->came[sc->n_came];
		*c = (struct came){ .path = strdup(top) };
		if (c->path == NULL) {
			sc->cut = true;
			return;
		}
		sc->n_came++;
	}
	c->n++;
	for (size_t i = 0; i < N_ELEMENTS(c->rule) && rule != NULL && c->rule[i] != rule; i++) {
		if (c->rule[i] == NULL) {
			c->rule[i] = rule;
			break;
		}
	}
}

void
tell_came(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_came; i++) {
		const struct came *c = &sc->came[i];
		char detail[N_ELEMENTS(c->rule) * (NAMES_RULE_MAX + 2) + 32];
		int n = snprintf(detail, sizeof(detail), "%u:", c->n);

		for (size_t k = 0; k < N_ELEMENTS(c->rule) && c->rule[k] != NULL; k++)
			n += snprintf(detail + n, sizeof(detail) - (size_t)n, "%s %s",
			    k > 0 ? "," : "", c->rule[k]);
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_CAME, WHAT_NAME, c->path, NULL, detail);
	}
	came_done(sc);
}
