/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/scan/hides.h"
#include "worker/scan/led.h"
#include "worker/scan/live.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_results.h"
#include "worker/scan/scan_state.h"

struct scan *
scan_new(const struct resolver *res, const struct access_subject *who, struct quarantine q)
{
	struct scan *sc = calloc(1, sizeof(*sc));
	struct stat st;

	if (sc == NULL)
		return NULL;
	sc->res = res;
	sc->who = who;
	sc->q = q;
	sc->ifd = -1;
	sc->free_node = NONE;
	sc->guards_round = 1;
	sc->led_left = LED_TARGETS_MAX;
	sc->due.walk = true;
	sc->git = !who->policy->flag[KODA_ALLOW_GIT_CONFIG];
	sc->live = live_new();
	sc->hides = hides_new();
	if (sc->live == NULL || sc->hides == NULL || !scan_names_begin(sc)) {
		live_free(sc->live);
		hides_free(sc->hides);
		free(sc);
		return NULL;
	}
	if (q.fd >= 0 && fstat(q.fd, &st) == 0) {
		sc->quarantine_dev = st.st_dev;
		sc->quarantine_ino = st.st_ino;
	}
	return sc;
}

void
scan_free(struct scan *sc)
{
	if (sc == NULL)
		return;
	close_at(&sc->ifd);
	live_free(sc->live);
	hides_free(sc->hides);
	forget_changes(sc);
	for (size_t i = 0; i < sc->n_roots; i++) {
		free(sc->root[i].path);
		close_at(&sc->root[i].fd);
	}
	for (uint32_t i = 0; i < sc->n_nodes; i++)
		free(sc->node[i].name);
	for (size_t i = 0; i < sc->n_steps; i++)
		free(sc->step[i].name);
	for (size_t i = 0; i < sc->n_guards; i++)
		free(sc->guard[i].path);
	for (size_t i = 0; i < sc->n_caches; i++)
		free(sc->cache[i]);
	for (size_t i = 0; i < sc->n_inner; i++)
		free(sc->inner[i]);
	for (size_t i = 0; i < sc->n_cached; i++)
		free(sc->cached[i]);
	for (uint32_t i = 0; i < sc->n_known; i++)
		free(sc->known[i].path);
	scan_names_done(sc);
	free(sc->q.command);
	free(sc->node);
	free(sc->by_wd);
	free(sc->dirty);
	free(sc->step);
	free(sc->guard);
	free(sc->cached);
	free(sc->known);
	free(sc);
}

int
scan_add_root(struct scan *sc, const char *path, struct koda_error *err)
{
	cleanup_close int fd = -1;
	struct stat st;

	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(path, sc->root[i].path))
			return 0;
	}
	/* No policy means "/" as a project. */
	if (strcmp(path, "/") == 0)
		return 0;
	fd = resolve_canonical_dir(sc->res, path, strlen(path));
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == EMFILE || errno == ENFILE ? scan_no_memory(err) : 0;
	if (sc->n_roots == SCAN_ROOTS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "too many directories to scan");
	sc->root[sc->n_roots].path = strdup(path);
	if (sc->root[sc->n_roots].path == NULL)
		return scan_no_memory(err);
	sc->root[sc->n_roots++].fd = take_fd(&fd);
	return 0;
}

int
scan_add_cache(struct scan *sc, const char *path, struct koda_error *err)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (strcmp(path, sc->root[i].path) == 0)
			return 0;
	}
	if (scan_covers(sc, path)) {
		if (sc->n_inner == SCAN_ROOTS_MAX)
			return err_set(err, KODA_TOO_LARGE, 0, "too many caches to scan");
		sc->inner[sc->n_inner] = strdup(path);
		return sc->inner[sc->n_inner++] == NULL ? scan_no_memory(err) : 0;
	}
	for (size_t i = 0; i < sc->n_caches; i++) {
		if (strcmp(path, sc->cache[i]) == 0)
			return 0;
	}
	if (sc->n_caches == SCAN_ROOTS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "too many directories to scan");
	sc->cache[sc->n_caches] = strdup(path);
	return sc->cache[sc->n_caches++] == NULL ? scan_no_memory(err) : 0;
}

int
scan_add_told(struct scan *sc, const char *name, struct koda_error *err)
{
	char **grown;

	if (names_check(name, err) < 0)
		return -1;
	if (sc->rules.n >= POLICY_RULES_MAX || sc->by_name != NULL)
		return err_set(err, KODA_INVALID, 0,
		    "too many names, or the scan has begun already");
	grown = reallocarray(sc->rules.v, sc->rules.n + 1, sizeof(*grown));
	if (grown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	sc->rules.v = grown;
	grown[sc->rules.n] = strdup(name);
	if (grown[sc->rules.n] == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	sc->rules.n++;
	return 0;
}

static enum what
what_of(const Koda__Place *place)
{
	const char *text = (const char *)place->path.data;
	size_t n = place->path.len, k = 0;
	char name[NAME_LEN_MAX + 1];

	if (place->kind == KODA__PLACE_KIND__PLACE_GIT_DIR)
		return WHAT_PIN;
	if (place->kind == KODA__PLACE_KIND__PLACE_RULE)
		return WHAT_RULE;
	if (place->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY)
		return WHAT_STRANGE;
	if (place->kind == KODA__PLACE_KIND__PLACE_NAME ||
	    place->kind == KODA__PLACE_KIND__PLACE_GUARDED)
		return WHAT_NAME;
	while (k < n && text[n - 1 - k] != '/')
		k++;
	memcpy(name, text + n - k, k);
	name[k] = '\0';
	switch (access_name_of(name)) {
	case ACCESS_NAME_GIT:
		return WHAT_GITFILE;
	case ACCESS_NAME_COMMONDIR:
		return WHAT_COMMONDIR;
	case ACCESS_NAME_CONFIG:
		return WHAT_CONFIG;
	case ACCESS_NAME_HOOKS:
		return WHAT_HOOKS;
	case ACCESS_NAME_REMOTES:
		return WHAT_REMOTES;
	case ACCESS_NAME_ALTERNATES:
		return WHAT_ALTERNATES;
	case ACCESS_NAME_KODA:
	case ACCESS_NAME_STEERING:
		return WHAT_KODA;
	case ACCESS_NAME_OTHER:
	case ACCESS_NAME_HEAD:
	case ACCESS_NAME_OBJECTS:
	case ACCESS_NAME_REFS:
	case ACCESS_NAME_WORKTREES:
	case ACCESS_NAME_CONFIG_LOCK:
	case ACCESS_NAME_REBASE:
	case ACCESS_NAME_GITDIR:
		break;
	}
	return WHAT_TARGET;
}

int
scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err)
{
	static const mode_t types[] = { [KODA__FILE_TYPE__FILE_REGULAR] = S_IFREG,
		[KODA__FILE_TYPE__FILE_DIRECTORY] = S_IFDIR,
		[KODA__FILE_TYPE__FILE_SYMLINK] = S_IFLNK,
		[KODA__FILE_TYPE__FILE_OTHER] = S_IFIFO };
	const struct stamp stamp = { .dev = place->dev,
		.ino = place->ino,
		.mode = types[place->type],
		.size = place->size,
		.mtime_ns = place->mtime_ns,
		.ctime_ns = place->ctime_ns };
	cleanup_free char *path = strndup((const char *)place->path.data, place->path.len);
	const bool guarded = place->kind == KODA__PLACE_KIND__PLACE_GUARDED;
	enum what what = what_of(place);
	struct known *k;

	if (path == NULL)
		return scan_no_memory(err);
	if (what == WHAT_NAME &&
	    names_rule_at(&sc->who->policy->list[KODA_DENY_WRITE_NAMES], path) == NULL)
		what = WHAT_LED;
	k = remember(sc, what, path, &stamp,
	    guarded || what == WHAT_STRANGE || place->type != KODA__FILE_TYPE__FILE_SYMLINK);
	if (k == NULL)
		return scan_no_memory(err);
	k->guarded = guarded;
	if (what == WHAT_NAME || what == WHAT_LED)
		take_mounts(sc, path);
	if ((what == WHAT_TARGET || what == WHAT_LED) && add_guard(sc, path, what) < 0)
		return scan_no_memory(err);
	return 0;
}
