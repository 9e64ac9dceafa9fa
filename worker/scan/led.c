/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/led.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"

struct led {
	struct scan *sc;
	const char *place;
	enum what what; /* kind of the targets */
	unsigned links, entries;
	unsigned *left;
};

/* A directory that contains the place cannot be closed to commands, and what is inside the place is
 * closed with it. */
static void
add(struct led *l, const char *path, bool link)
{
	const size_t guards = l->sc->n_guards;

	if (path_is_inside(l->place, path) || path_is_inside(path, l->place))
		return;
	/* Commits are made there. What git runs from there is a place of its own. */
	if (!link && scan_is_git_dir(l->sc, path))
		return;
	if (known_at(l->sc, path) != NULL)
		return;
	if (*l->left == 0 || (!link && !take_mounts(l->sc, path))) {
		l->sc->cut = true;
		return;
	}
	scan_add_target(l->sc, l->what, path, link);
	*l->left -= l->sc->n_guards > guards ? 1 : 0;
}

static void
follow(struct led *l, const char *path)
{
	cleanup(place_done) struct place at;
	struct koda_error err;
	int r;

	place_init(&at);
	if (++l->links > LED_LINKS_MAX) {
		l->sc->cut = true;
		return;
	}
	r = resolve(scan_resolver(l->sc), (const uint8_t *)path, strlen(path), 0, &at, &err);
	for (size_t i = 0; i < at.n_hops; i++)
		add(l, at.hop[i], true);
	/* A denied path means too many links. Other errors need no guard: a path through a file, or
	 * one that cannot be read, leads nowhere. */
	if (r < 0 && err.code == KODA_POLICY_DENIED)
		l->sc->cut = true;
	if (r == 0)
		add(l, at.path, false);
}

/*
 * Follows a link that a rule of the policy names, or that is a directory in the path of a rule. If
 * the rule names the link, its whole target is protected. If the rule goes on after the link, only
 * what the rest of the rule names in the target is.
 */
static void
follow_rule(struct led *l)
{
	const size_t n = l->sc->n_guards; /* follow() adds more */
	char path[PATH_LEN_MAX + 1];
	bool on_the_way = false;

	for (size_t i = 0; i < n; i++) {
		const struct guard *g = &l->sc->guard[i];

		if (g->what != WHAT_RULE || !path_is_inside(g->path, l->place))
			continue;
		if (strcmp(g->path, l->place) == 0) {
			follow(l, l->place);
			return;
		}
		on_the_way = true;
	}
	for (size_t i = 0; i < n && on_the_way; i++) {
		const struct guard *g = &l->sc->guard[i];

		if (g->what != WHAT_RULE || !path_is_inside(g->path, l->place))
			continue;
		snprintf(path, sizeof(path), "%s", g->path);
		follow(l, path);
	}
	if (!on_the_way)
		follow(l, l->place);
}

static void
look_in(struct led *l, int dir_fd, const char *name, char *path, size_t len, unsigned depth)
{
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (d == NULL)
		return;
	fd = -1;
	if (depth > LED_DEPTH_MAX) {
		l->sc->cut = true;
		return;
	}
	while ((e = readdir(d)) != NULL) {
		const size_t k = strlen(e->d_name);
		unsigned char type = e->d_type;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (++l->entries > LED_ENTRIES_MAX || len + 1 + k > PATH_LEN_MAX) {
			l->sc->cut = true;
			return;
		}
		if (type == DT_UNKNOWN &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			type = S_ISLNK(st.st_mode) ? DT_LNK : S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
		if (type != DT_LNK && type != DT_DIR)
			continue;
		path[len] = '/';
		memcpy(path + len + 1, e->d_name, k + 1);
		if (type == DT_LNK)
			follow(l, path);
		else
			look_in(l, dirfd(d), e->d_name, path, len + 1 + k, depth + 1);
		path[len] = '\0';
	}
}

/* Git's rule applies to what git's own places lead to. */
enum what
led_what(enum what what, const char *path)
{
	const enum access_name name = access_name_of(strrchr(path, '/') + 1);

	switch (what) {
	case WHAT_PIN:
	case WHAT_TOLD:
	case WHAT_STRANGE:
	case WHAT_INDEX:
	case WHAT_REF:
	case WHAT_LIST:
	case WHAT_CONFIG:
	case WHAT_HOOKS:
	case WHAT_REMOTES:
	case WHAT_GITFILE:
	case WHAT_COMMONDIR:
	case WHAT_ALTERNATES:
	case WHAT_REBASE:
	case WHAT_TARGET:
		return WHAT_TARGET;
	case WHAT_RULE:
		return name == ACCESS_NAME_HOOKS || name == ACCESS_NAME_CONFIG ? WHAT_TARGET
									       : WHAT_LED;
	case WHAT_KODA:
	case WHAT_NAME:
	case WHAT_LED:
		break;
	}
	return WHAT_LED;
}

void
led_find(struct scan *sc, enum what what, const char *place, unsigned *left)
{
	struct led l = { .sc = sc, .place = place, .what = led_what(what, place), .left = left };
	char path[PATH_LEN_MAX + 1];
	const char *name = strrchr(place, '/') + 1;
	cleanup_close int fd = -1;
	struct stat st;

	/* Objects are only data, the list of a rebase ends with the rebase, and a link that the
	 * user has in a git directory leads to git's data. */
	if (what == WHAT_PIN || what == WHAT_TOLD || what == WHAT_STRANGE ||
	    what == WHAT_ALTERNATES || what == WHAT_REBASE)
		return;
	fd = resolve_canonical_dir(sc->res, place, (size_t)(name - place) - 1);
	if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	snprintf(path, sizeof(path), "%s", place);
	/* A link on the way to a target was already followed to it. The rest of the link's
	 * directory is the project's. */
	if (S_ISLNK(st.st_mode) && what == WHAT_RULE)
		follow_rule(&l);
	else if (S_ISLNK(st.st_mode) && what != WHAT_TARGET && what != WHAT_LED)
		follow(&l, path);
	else if (S_ISDIR(st.st_mode))
		look_in(&l, fd, name, path, strlen(path), 0);
}
