/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy/trust.h"

#include <stdio.h>
#include <string.h>

#include "host/caches/caches.h"
#include "host/machine/helpers.h"
#include "host/machine/home.h"
#include "host/machine/machine.h"
#include "host/policy/defaults.h"
#include "host/policy/home_links.h"
#include "host/policy/programs.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/names.h"

struct dials {
	enum koda_trust trust;
	bool writes;  /* the root is writable */
	bool network; /* the developer's domains are reachable */
	uint8_t depth;
};

/* clang-format off */
static const struct dials modes[] = {
	[KODA_PLAN] = { KODA_TRUST_FORBID,  false, false, 3 },
	[KODA_SAFE] = { KODA_TRUST_REQUIRE, true,  true,  5 },
	[KODA_AUTO] = { KODA_TRUST_AUTO,    true,  true,  10 },
};

/* The same in every mode; in addition, memory is limited to three quarters. No limit on processor
 * time: what a compiler needs cannot be foreseen. */
static const struct {
	enum koda_limit limit;
	uint64_t value;
} limits[] = {
	{ KODA_WALL_TIME_SECS,   60 },
	{ KODA_MAX_PROCESSES,    1024 },
	{ KODA_MAX_FILE_BYTES,   4ull << 30 },
	{ KODA_MAX_OPEN_FDS,     4096 },
	{ KODA_MAX_OUTPUT_BYTES, 2u << 20 },
};
/* clang-format on */

static int
add_below(struct policy_list *list, const char *dir, const char *name, struct koda_error *err)
{
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name) < 0) {
		path = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	}
	return policy_path_check(path, err) < 0 ? -1 : policy_list_add(list, path, err);
}

/* Can anything below home/name be writable at all, by the root's rule or as a cache? */
static bool
is_reached(const char *home, const char *name, const char *root)
{
	char path[PATH_LEN_MAX + 1];

	return caches_hold(name) ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", home, name) >= sizeof(path) ||
	    path_is_inside(path, root) || path_is_inside(root, path);
}

/* If the user has moved a part of a place that is usually below home, adds the new place. */
static int
add_moved(struct policy_list *list, const char *root, const char *name, struct koda_error *err)
{
	static const struct {
		const char *variable, *usually;
	} moved[] = {
		{ "XDG_CONFIG_HOME", ".config/" },
		{ "XDG_DATA_HOME", ".local/share/" },
		{ "XDG_STATE_HOME", ".local/state/" },
		{ "XDG_CACHE_HOME", ".cache/" },
		{ "CARGO_HOME", ".cargo/" },
		{ "ZDOTDIR", "" },
	};

	for (size_t i = 0; i < N_ELEMENTS(moved); i++) {
		const char *dir = getenv(moved[i].variable);
		const size_t len = strlen(moved[i].usually);
		cleanup_free char *real = NULL, *path = NULL;

		if (dir == NULL || dir[0] != '/' ||
		    (len > 0 ? strncmp(name, moved[i].usually, len) : strncmp(name, ".z", 2)) != 0)
			continue;
		real = realpath(dir, NULL);
		if (asprintf(&path, "%s/%s", real != NULL ? real : dir, name + len) < 0) {
			path = NULL;
			return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		}
		if (policy_path_check(path, NULL) == 0 && path_is_inside(path, root) &&
		    strcmp(path, root) != 0 && policy_list_add(list, path, err) < 0)
			return -1;
	}
	return 0;
}

/* Adds the user's start-up files that are links into the project, for users who keep such files in
 * a repository. Programs that are links into the project are its code: a user who types their names
 * asks for it. */
static int
add_linked(struct policy_list *list, const char *root, const char *home,
    const struct default_place *d, struct koda_error *err)
{
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s/%s", strcmp(home, "/") == 0 ? "" : home, d->name) < 0) {
		path = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	}
	/* Below the root the worker follows the links itself. */
	return home_links_add(list, path,
	    (d->where & DEFAULT_PROGRAMS) == 0 && !path_is_inside(path, root), root, err);
}

/*
 * Makes a row for the project hold at any depth too. Not if the root itself is in such a place: the
 * user has named it, and nothing in it could be written. Rules on git are built in
 * (shared/rules/access), which judges git directories by their contents.
 */
static int
add_name(struct policy *p, const char *root, const char *name, struct koda_error *err)
{
	cleanup_free char *folded = strdup(name);
	char *one[] = { folded };
	const struct policy_list alone = { .present = true, .n = 1, .v = one };

	if (folded == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	if (strncmp(name, ".git/", 5) == 0)
		return 0;
	names_normalise(folded);
	if (names_check(folded, err) < 0)
		return -1;
	return names_rule_of(&alone, root) != NULL
	    ? 0
	    : policy_list_add(&p->list[KODA_DENY_WRITE_NAMES], folded, err);
}

/* Leaves out what cannot be reached: each rule is packed, checked and compared with every path. */
static int
add_protected(struct policy *p, const char *root, const char *home, struct koda_error *err)
{
	struct policy_list *list = &p->list[KODA_DENY_WRITE_WITHIN_ALLOW];

	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		const bool literal = strchr(d->name, '*') == NULL;

		if ((d->where & DEFAULT_PROJECT) != 0 &&
		    ((literal && add_below(list, root, d->name, err) < 0) ||
			add_name(p, root, d->name, err) < 0))
			return -1;
		if ((d->where & DEFAULT_HOME) != 0 && home[0] != '\0' &&
		    is_reached(strcmp(home, "/") == 0 ? "" : home, d->name, root) &&
		    add_below(list, home, d->name, err) < 0)
			return err_wrap(err, "home directory");
		if ((d->where & DEFAULT_HOME) != 0 && home[0] != '\0' &&
		    add_linked(list, root, home, d, err) < 0)
			return -1;
		if ((d->where & DEFAULT_HOME) != 0 && add_moved(list, root, d->name, err) < 0)
			return -1;
	}
	return 0;
}

/* A directory in which the host finds programs is never a cache, wherever it is. In the root of a
 * project, such a directory holds the project's tools; if the root is the home directory or
 * contains it, the directory is the user's. */
static int
add_programs(struct policy_list *list, const char *root, const char *home, struct koda_error *err)
{
	cleanup(policy_done) struct policy found;
	const struct policy_list *dirs = &found.list[KODA_DENY_WRITE_WITHIN_ALLOW];
	size_t len = strlen(home);

	policy_init(&found);
	if (home[0] == '\0')
		return 0;
	if (programs_find(home, &found.list[KODA_DENY_WRITE_WITHIN_ALLOW], err) < 0)
		return -1;
	for (size_t i = 0; i < dirs->n; i++) {
		const char *dir = dirs->v[i];
		bool cached = path_is_inside(dir, home) && strcmp(dir, home) != 0 &&
		    caches_hold(dir + (len > 1 ? len : 0) + 1);

		if ((cached || (path_is_inside(home, root) && path_is_inside(dir, home))) &&
		    strcmp(dir, home) != 0 && policy_list_add(list, dir, err) < 0)
			return -1;
	}
	return 0;
}

/* A tarball may be unpacked in the project or in the home directory. A command that could write the
 * installation there would decide about every sandbox that is started later. */
static int
add_installation(struct policy_list *list, const char *root, const char *home,
    struct koda_error *err)
{
	char own[HELPERS_OWN][PATH_LEN_MAX + 1];
	size_t n = helpers_own(own);

	for (size_t i = 0; i < n; i++)
		if ((path_is_inside(own[i], root) ||
			(home[0] != '\0' && path_is_inside(own[i], home))) &&
		    policy_path_check(own[i], NULL) == 0 && policy_list_add(list, own[i], err) < 0)
			return -1;
	return 0;
}

static int
add_domains(struct policy_list *list, struct koda_error *err)
{
	for (const struct default_domain *d = default_domains; d->pattern != NULL; d++) {
		if (policy_list_add(list, d->pattern, err) < 0 ||
		    (d->apex && policy_list_add(list, d->pattern + strlen("*."), err) < 0))
			return -1;
	}
	return 0;
}

int
policy_for_agent(enum koda_mode mode, const char *root, struct policy *ret, struct koda_error *err)
{
	cleanup(policy_done) struct policy p;
	cleanup_free char *real = NULL, *home = NULL;
	const struct dials *dials;

	policy_init(&p);
	if ((size_t)mode >= N_ELEMENTS(modes) || modes[mode].trust == 0)
		return err_set(err, KODA_INVALID, 0, "no such mode: %d", (int)mode);
	if (root == NULL)
		return err_set(err, KODA_INVALID, 0, "no root given");
	dials = &modes[mode];
	if (root[0] != '\0')
		real = realpath(root, NULL);
	if (real != NULL)
		root = real;
	if (policy_path_check(root, err) < 0)
		return err_wrap(err, "root");

	p.list[KODA_ALLOW_WRITE].present = true;
	if (dials->writes && policy_list_add(&p.list[KODA_ALLOW_WRITE], root, err) < 0)
		return -1;
	home = home_find();
	if (home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	if (add_protected(&p, root, home, err) < 0 ||
	    (home[0] != '\0' &&
		(caches_fixed(home, &p.list[KODA_DENY_WRITE_WITHIN_ALLOW], err) < 0 ||
		    caches_strange(home, root, &p.list[KODA_DENY_WRITE_WITHIN_ALLOW], err) < 0)) ||
	    add_programs(&p.list[KODA_DENY_WRITE_WITHIN_ALLOW], root, home, err) < 0 ||
	    add_installation(&p.list[KODA_DENY_WRITE_WITHIN_ALLOW], root, home, err) < 0)
		return -1;
	p.list[KODA_ALLOWED_DOMAINS].present = true;
	if (dials->network && add_domains(&p.list[KODA_ALLOWED_DOMAINS], err) < 0)
		return -1;
	for (size_t i = 0; i < N_ELEMENTS(limits); i++)
		p.limit[limits[i].limit] = (struct policy_limit){ true, limits[i].value };
	p.limit[KODA_MAX_RSS_BYTES] = (struct policy_limit){ true, machine_memory_default() };
	p.flag[KODA_ALLOW_LOCAL_BINDING] = true;
	p.depth = dials->depth;
	p.trust = dials->trust;
	*ret = p;
	policy_init(&p);
	return 0;
}
