/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_entries.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_todo.h"

/* An entry that may matter once the kind of its directory is known. */
struct candidate {
	struct candidate *next;
	enum access_name means;
	const struct guard *guard;
	struct names_found named;
	bool last, directory;
	bool strange; /* neither a directory nor a regular file */
	char name[];
};

static void
candidates_done(struct candidate **list)
{
	while (*list != NULL) {
		struct candidate *c = *list;

		*list = c->next;
		free(c);
	}
}

/* DT_REG if the entry is gone. */
static unsigned char
type_of(int dir_fd, const struct dirent64 *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	return fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? IFTODT(st.st_mode)
									 : DT_REG;
}

/* Returns the kind that the name alone gives an entry in this directory, or -1 if none. */
static int
what_by_name(const struct scan *sc, const struct candidate *c, bool git, bool koda, bool info)
{
	/* Every policy has rules for the project's own .git/config and .git/hooks. They are judged
	 * by their content, so that a `git init` leaves a working repository. */
	const bool gits = sc->git && git && c->last &&
	    (c->means == ACCESS_NAME_CONFIG || c->means == ACCESS_NAME_HOOKS);

	if (c->guard != NULL && !gits && (c->last || !c->directory))
		return (int)c->guard->what;
	if (c->named.rule != NULL && c->named.at < sc->n_denied)
		return WHAT_NAME;
	if (c->named.rule != NULL && !c->directory)
		return WHAT_TOLD;
	if (c->means == ACCESS_NAME_KODA)
		return c->directory ? WHAT_PIN : WHAT_KODA;
	if (c->means == ACCESS_NAME_STEERING)
		return koda ? WHAT_KODA : -1;
	if (!sc->git)
		return -1;
	if (c->means == ACCESS_NAME_GIT)
		return c->directory ? WHAT_PIN : WHAT_GITFILE;
	if (c->means == ACCESS_NAME_ALTERNATES)
		return info ? WHAT_ALTERNATES : -1;
	if (!git)
		return -1;
	if (c->means == ACCESS_NAME_CONFIG)
		return WHAT_CONFIG;
	if (c->means == ACCESS_NAME_HOOKS)
		return WHAT_HOOKS;
	if (c->means == ACCESS_NAME_REMOTES)
		return WHAT_REMOTES;
	if (c->means == ACCESS_NAME_COMMONDIR)
		return WHAT_COMMONDIR;
	if (c->means == ACCESS_NAME_REBASE)
		return WHAT_REBASE;
	return -1;
}

/* Returns the kind of an entry in this directory, or -1 if none. */
static int
what_in(const struct scan *sc, const struct candidate *c, uint32_t idx, int dir_fd, bool koda,
    bool info)
{
	const struct node *n = &sc->node[idx];
	const int what = what_by_name(sc, c, n->git, koda, info);

	/* A place of deny_write_names may come with a new directory. A link in a git directory may
	 * not, whatever its name. */
	if ((what >= 0 && what != WHAT_NAME && what != WHAT_TOLD) || !c->strange || !sc->git ||
	    (!n->git && !n->in_git))
		return what;
	/* git itself writes a ref as a link there, if it is configured to. */
	if ((n->git ? c->means == ACCESS_NAME_HEAD : is_in_refs(sc, idx)) &&
	    gitdir_is_ref_link(dir_fd, c->name))
		return -1;
	return WHAT_STRANGE;
}

/* Turns one entry into a step, a candidate, or nothing. */
static int
take_entry(struct scan *sc, int fd, const struct dirent64 *e, const char *path, size_t len,
    uint32_t idx, bool descend, struct candidate **ret)
{
	const enum access_name means = access_name_of(e->d_name);
	const unsigned char type = type_of(fd, e);
	const bool directory = type == DT_DIR;
	/* This matters only in a git directory. The scan may recognize one only by its shape, when
	 * it knows all names. */
	const bool strange = sc->git && !directory && type != DT_REG;
	const struct names_found named = named_in(sc, fd, e, path, len, idx);
	const struct guard *guard = NULL;
	struct candidate *c;
	bool last = false;
	size_t k;

	if (sc->node[idx].guards)
		guard = guard_at(sc, path, len, e->d_name, &last);
	if (means == ACCESS_NAME_OTHER && guard == NULL && named.rule == NULL && !strange)
		return directory && descend ? todo_step(sc, idx, e->d_name, true) : 0;
	k = strlen(e->d_name) + 1;
	c = malloc(sizeof(*c) + k);
	if (c == NULL)
		return -1;
	*c = (struct candidate){ *ret, means, guard, named, last, directory, strange };
	memcpy(c->name, e->d_name, k);
	*ret = c;
	return 0;
}

/* Uses getdents64: a DIR would cost two more system calls and an allocation for each of thousands
 * of directories. */
static int
read_directory(struct scan *sc, int fd, const char *path, size_t len, uint32_t idx, bool descend,
    struct candidate **ret)
{
	static _Alignas(struct dirent64) char buf[32 << 10];

	has_guards(sc, idx, path);
	for (;;) {
		ssize_t n = getdents64(fd, buf, sizeof(buf));

		/* Use the names read so far. A directory that was removed meanwhile is empty. */
		if (n < 0 && errno != ENOENT)
			sc->partial = true;
		if (n <= 0)
			return 0;
		for (char *p = buf; p < buf + n;) {
			const struct dirent64 *e = (const struct dirent64 *)(void *)p;

			p += e->d_reclen;
			if (e->d_name[0] == '.' &&
			    (e->d_name[1] == '\0' || (e->d_name[1] == '.' && e->d_name[2] == '\0')))
				continue;
			if (++sc->names > SCAN_NAMES_MAX) {
				sc->partial = true;
				return 0;
			}
			if (take_entry(sc, fd, e, path, len, idx, descend, ret) < 0)
				return -1;
		}
	}
}

/* Returns true for the objects/info of a git directory. */
static bool
is_git_info(const struct scan *sc, uint32_t idx)
{
	uint32_t objects = sc->node[idx].parent;

	if (objects == NONE || strcmp(sc->node[idx].name, "info") != 0 ||
	    access_name_of(sc->node[objects].name) != ACCESS_NAME_OBJECTS)
		return false;
	return sc->node[objects].parent != NONE && sc->node[sc->node[objects].parent].git;
}

static int
use_candidates(struct scan *sc, uint32_t idx, int dir_fd, char *path, size_t len, bool descend,
    const struct candidate *list)
{
	const char *own = strrchr(path, '/') + 1;
	bool head = false, objects = false, refs = false, commondir = false, worktrees = false;
	const bool koda = access_name_of(own) == ACCESS_NAME_KODA;
	const bool named = access_name_of(own) == ACCESS_NAME_GIT;
	const bool info = is_git_info(sc, idx);
	const bool refs_dir = sc->git && sc->node[idx].in_git && is_in_refs(sc, idx);
	bool shape, git, content = false;

	for (const struct candidate *c = list; c != NULL; c = c->next) {
		head |= c->means == ACCESS_NAME_HEAD;
		objects |= c->means == ACCESS_NAME_OBJECTS;
		refs |= c->means == ACCESS_NAME_REFS;
		commondir |= c->means == ACCESS_NAME_COMMONDIR;
		worktrees |= c->means == ACCESS_NAME_WORKTREES;
	}
	shape = access_is_git_dir(head, objects, refs, commondir, worktrees);
	git = sc->git && (named || shape);
	/* The directory has just become a git directory: its older entries must be judged again as
	 * part of one. */
	if (git && !sc->node[idx].git && !descend && sc->node[idx].parent == NONE)
		sc->due.walk = true;
	else if (git && !sc->node[idx].git && !descend &&
	    todo_step(sc, sc->node[idx].parent, own, true) < 0)
		return -1;
	sc->node[idx].git = git;
	/* A git directory that is not named .git (bare, or a submodule's). A root itself stays what
	 * it is. */
	if (git && !named && sc->node[idx].parent != NONE)
		found(sc, WHAT_PIN, dir_fd, path, ".");
	for (const struct candidate *c = list; c != NULL; c = c->next) {
		int what = what_in(sc, c, idx, dir_fd, koda, info);
		enum seen seen = SEEN_OPEN;
		size_t k = strlen(c->name);

		if (what >= 0 && len + 1 + k <= PATH_LEN_MAX) {
			path[len] = '/';
			memcpy(path + len + 1, c->name, k + 1);
			seen = found_in(sc, (enum what)what, dir_fd, path, c->name,
			    what == WHAT_NAME || what == WHAT_TOLD
				? made_with(sc, idx, c->named.parts - 1)
				: NONE);
			path[len] = '\0';
			content = true;
		} else if (what >= 0) {
			sc->partial = true;
		}
		if (c->directory && seen == SEEN_OPEN && descend &&
		    todo_step(sc, idx, c->name, true) < 0)
			return -1;
	}
	if (git && sc->phase == PHASE_LEARN)
		followed_learn(sc, dir_fd, path);
	else if (git)
		followed_look(sc, dir_fd, path, len, false);
	if (refs_dir && sc->phase != PHASE_LEARN)
		followed_look(sc, dir_fd, path, len, true);
	/* Files in info/ and refs/ may be written in place. */
	content |= refs_dir || (sc->node[idx].in_git && strcmp(own, "info") == 0);
	if ((git || content || sc->node[idx].inside) && !sc->node[idx].content &&
	    sc->node[idx].wd >= 0) {
		sc->node[idx].content = true;
		watch_directory(sc, dir_fd, true);
	}
	return 0;
}

int
entries_read(struct scan *sc, uint32_t idx, int fd, char *path, size_t len, bool descend)
{
	cleanup(candidates_done) struct candidate *list = NULL;
	struct node *n = &sc->node[idx];
	const uint32_t up = n->parent;
	const struct known *k = up != NONE ? known_at(sc, path) : NULL;

	n->inside = (up != NONE && sc->node[up].inside) ||
	    (k != NULL && k->what == WHAT_NAME && (!k->sealed || k->guarded));

	n->in_git = n->parent != NONE && (sc->node[n->parent].git || sc->node[n->parent].in_git);
	if (read_directory(sc, fd, path, len, idx, descend, &list) < 0)
		return -1;
	return use_candidates(sc, idx, fd, path, len, descend, list);
}
