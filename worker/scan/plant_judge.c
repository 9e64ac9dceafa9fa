/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/plant_judge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/tree.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/gitvar.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_results.h"

/* For a gitfile, a commondir, a list of alternates or of a rebase: written by programs, one line
 * per item. */
#define SMALL_MAX (64u << 10)
/* How often to try again if a process replaces a name while it is taken away. */
#define TRIES 8

static enum plant_end
take_away(struct scan *sc, const struct plant *p)
{
	return plant_take_away(sc, p, NULL);
}

/* ---- configuration ---- */

struct keeping {
	struct scan *sc;
	const struct plant *p;
};

/* Returns true if the path is a git directory, or inside one: a checkout there makes hooks. A root
 * may itself be one. */
static bool
is_in_git_dir(const struct scan *sc, const char *path)
{
	char part[PATH_LEN_MAX + 1];
	char *slash;

	snprintf(part, sizeof(part), "%s", path);
	while ((slash = strrchr(part, '/')) != NULL) {
		const bool shape = scan_is_git_dir(sc, part);

		if (access_name_of(slash + 1) == ACCESS_NAME_GIT)
			return true;
		*slash = '\0';
		if (!scan_covers(sc, part))
			return false;
		if (shape)
			return true;
	}
	return false;
}

/* Returns true if core.worktree is that of a submodule: the directory that it names points back
 * with its gitfile. With any other, `git checkout` would write files that the user did not mean. */
static bool
is_own_worktree(struct scan *sc, const struct plant *p, const char *to)
{
	char dir[PATH_LEN_MAX + 1];
	cleanup(place_done) struct place at, back;
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len, start, n;

	place_init(&at);
	place_init(&back);
	plant_dir_of(p->path, dir);
	/* git writes the gitfile before this setting, and also removes the gitfile first. So the
	 * gitfile may be missing. */
	if (scan_is_gentle(sc))
		return plant_leads_below(sc, dir, to, &at) && !is_in_git_dir(sc, at.path);
	if (!plant_leads_inside(sc, dir, to, &at))
		return false;
	text = plant_read(at.target_fd, ".git", SMALL_MAX, &st, &len);
	if (text == NULL || !gitdir_of_gitfile(text, len, &start, &n))
		return false;
	text[start + n] = '\0';
	return plant_leads_inside(sc, at.path, text + start, &back) && strcmp(back.path, dir) == 0;
}

static bool
keep(void *data, const struct gitconfig_var *v)
{
	const struct keeping *k = data;

	if (gitvar_is_inert(v))
		return true;
	return strcmp(v->section, "core") == 0 && v->subsection == NULL && v->value != NULL &&
	    strcmp(v->key, "worktree") == 0 && is_own_worktree(k->sc, k->p, v->value);
}

static enum plant_end
judge_config(struct scan *sc, struct plant *p)
{
	struct keeping keeping = { sc, p };
	struct gitconfig c = { 0 };
	struct quarantined kept = { 0 };
	struct stat st;
	size_t len, out_len, n = 0;
	cleanup_free char *text = plant_read(p->dir_fd, p->name, GITCONFIG_BYTES_MAX, &st, &len);
	cleanup_free char *out = NULL;
	bool whole, written;
	int r;

	if (text == NULL)
		return take_away(sc, p);
	if (!plant_same_inode(&st, &p->st))
		return PLANT_AGAIN;
	whole = gitconfig_parse(text, len, &c) == 0;
	for (size_t i = 0; i < c.n; i++)
		n += keep(&keeping, &c.var[i]) ? 1 : 0;
	whole = whole && n == c.n;
	written = gitconfig_write(&c, keep, &keeping, &out, &out_len) == 0;
	gitconfig_done(&c);
	if (!written)
		return take_away(sc, p);
	if (whole &&
	    (scan_is_gentle(sc) || (p->ours && out_len == len && memcmp(out, text, len) == 0)))
		return PLANT_KEPT;
	if (scan_quarantine(sc)->fd < 0) {
		if (whole)
			return PLANT_KEPT;
		errno = ENOENT;
		return plant_left(sc, p);
	}
	if (!whole)
		quarantine_keep(scan_quarantine(sc), p->path, scan_rule(p->what), st.st_mode, text,
		    len, &kept);
	r = plant_write_anew(sc, p, out, out_len, !whole && kept.name[0] == '\0', kept.aside,
	    sizeof(kept.aside));
	if (r > 0)
		return PLANT_AGAIN;
	if (r < 0)
		return whole ? plant_left(sc, p) : take_away(sc, p);
	if (!whole)
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_DISARMED, p->what, p->path, &kept,
		    kept.aside[0] != '\0' ? kept.aside : NULL);
	return PLANT_KEPT;
}

/* ---- hooks ---- */

static bool
is_sample(const char *name, const struct stat *st)
{
	const char *dot = strrchr(name, '.');

	return S_ISREG(st->st_mode) && dot != NULL && strcmp(dot, ".sample") == 0;
}

/* Hooks, or remotes in the old format: git runs or obeys what is in the directory, whatever its
 * content. Only sample hooks stay. */
static enum plant_end
judge_directory(struct scan *sc, struct plant *p)
{
	cleanup_close int fd =
	    openat(p->dir_fd, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = NULL;
	char path[PATH_LEN_MAX + NAME_LEN_MAX + 2];
	enum plant_end end = PLANT_KEPT;
	struct stat st;
	struct dirent *e;

	if (fd < 0)
		return take_away(sc, p);
	if (fstat(fd, &st) < 0 || !plant_same_inode(&st, &p->st))
		return PLANT_AGAIN;
	d = fdopendir(fd);
	if (d == NULL)
		return take_away(sc, p);
	fd = -1;
	while (errno = 0, (e = readdir(d)) != NULL) {
		struct plant entry = { .what = p->what,
			.dir_fd = dirfd(d),
			.name = e->d_name,
			.path = path };
		enum plant_end one = PLANT_AGAIN;

		/* A file with a temporary name of the worker is not a hook or remote. */
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", p->path, e->d_name);
		for (unsigned i = 0; i < TRIES && one == PLANT_AGAIN; i++) {
			if (fstatat(dirfd(d), e->d_name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0 ||
			    (p->what == WHAT_HOOKS && is_sample(e->d_name, &entry.st)))
				one = PLANT_GONE;
			else
				one = take_away(sc, &entry);
		}
		if (one != PLANT_GONE)
			end = PLANT_LEFT;
	}
	if (errno != 0)
		return take_away(sc, p);
	if (fstat(dirfd(d), &st) == 0)
		p->st = st;
	return end;
}

/* ---- pointers to other directories ---- */

/*
 * Returns true if the pointer leads to a git directory inside a scanned root. A commondir has only
 * one valid form: it is in REPOSITORY/worktrees/NAME and leads to REPOSITORY. With any other, git
 * would take configuration and hooks from a directory that need not look like a git directory.
 */
static bool
leads_to_git_dir(struct scan *sc, const struct plant *p, const char *to)
{
	cleanup(place_done) struct place at;
	char dir[PATH_LEN_MAX + 1], repository[PATH_LEN_MAX + 1];

	place_init(&at);
	plant_dir_of(p->path, dir);
	if (!plant_leads_inside(sc, dir, to, &at) || !scan_is_git_dir(sc, at.path))
		return false;
	return p->what != WHAT_COMMONDIR ||
	    (gitdir_of_worktree(dir, repository) && strcmp(at.path, repository) == 0);
}

/*
 * While commands run: returns true if the pointer would lead the host's git elsewhere. git writes a
 * pointer in place, and before it makes the target; it refuses an empty or invalid pointer itself.
 * The target of a commondir is judged as soon as git goes there.
 */
static bool
leads_away(struct scan *sc, const struct plant *p, const char *text, size_t len, const char *to)
{
	static const char head[] = "gitdir: ";
	cleanup(place_done) struct place at;
	char dir[PATH_LEN_MAX + 1], repository[PATH_LEN_MAX + 1];

	if (text == NULL)
		return true;
	plant_dir_of(p->path, dir);
	if (p->what == WHAT_COMMONDIR && !gitdir_of_worktree(dir, repository))
		return true;
	if (len == 0 ||
	    (p->what == WHAT_GITFILE &&
		(len < sizeof(head) - 1 || memcmp(text, head, sizeof(head) - 1) != 0)))
		return false;
	place_init(&at);
	if (to == NULL || !plant_leads_below(sc, dir, to, &at))
		return true;
	return p->what == WHAT_COMMONDIR && strcmp(at.path, repository) != 0;
}

static enum plant_end
judge_pointer(struct scan *sc, struct plant *p)
{
	struct stat st;
	size_t len, start = 0, n;
	cleanup_free char *text = plant_read(p->dir_fd, p->name, SMALL_MAX, &st, &len);
	cleanup_free char *copy = NULL;
	bool good = text != NULL && memchr(text, '\0', len) == NULL;

	if (text != NULL && !plant_same_inode(&st, &p->st))
		return PLANT_AGAIN;
	if (good && p->what == WHAT_GITFILE) {
		good = gitdir_of_gitfile(text, len, &start, &n);
	} else if (good) {
		n = len;
		while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
			n--;
		good = n > 0;
	}
	if (good) {
		copy = strndup(text + start, n);
		good = copy != NULL && leads_to_git_dir(sc, p, copy);
	}
	if (!good && scan_is_gentle(sc) && !leads_away(sc, p, text, len, copy))
		return PLANT_KEPT;
	return good ? plant_keep_fresh(sc, p, text, len) : take_away(sc, p);
}

/* objects/info/alternates: paths relative to objects, each to a store that commands can fill
 * anyway. */
static enum plant_end
judge_alternates(struct scan *sc, struct plant *p)
{
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(p->dir_fd, p->name, SMALL_MAX, &st, &len);
	cleanup_free char *copy = NULL;
	char dir[PATH_LEN_MAX + 1], objects[PATH_LEN_MAX + 1];
	bool good =
	    text != NULL && memchr(text, '\0', len) == NULL && strcmp(p->name, "alternates") == 0;

	if (text != NULL && !plant_same_inode(&st, &p->st))
		return PLANT_AGAIN;
	plant_dir_of(p->path, dir);
	plant_dir_of(dir, objects);
	copy = good ? strdup(text) : NULL;
	for (char *line = copy, *end; good && line != NULL && *line != '\0'; line = end) {
		cleanup(place_done) struct place at;

		place_init(&at);
		end = line + strcspn(line, "\n");
		if (*end != '\0')
			*end++ = '\0';
		/* A quoted name is a second spelling that is never necessary. */
		if (line[0] != '\0' && line[0] != '#')
			good = line[0] != '"' && plant_leads_inside(sc, objects, line, &at);
	}
	return good && copy != NULL ? plant_keep_fresh(sc, p, text, len) : take_away(sc, p);
}

/* git runs git-merge-STRATEGY, and the name may contain a slash. */
static bool
is_strategy(const char *name)
{
	static const char *const strategies[] = { "ort", "recursive", "resolve", "octopus", "ours",
		"subtree" };

	for (size_t i = 0; i < N_ELEMENTS(strategies); i++) {
		if (strcmp(strategies[i], name) == 0)
			return true;
	}
	return false;
}

/* The options with which a series of picks or reverts continues, in the syntax of a
 * configuration. */
static bool
are_options_plain(const char *text, size_t len)
{
	struct gitconfig c = { 0 };
	bool plain = gitconfig_parse(text, len, &c) == 0;

	for (size_t i = 0; i < c.n && plain; i++) {
		const char *key = c.var[i].key, *value = c.var[i].value;

		if (strcmp(key, "strategy") == 0)
			plain = value != NULL && is_strategy(value);
		else if (strcmp(key, "strategy-option") == 0)
			plain = value != NULL && gitstate_is_merge_option(value, strlen(value));
	}
	gitconfig_done(&c);
	return plain;
}

/* A stopped rebase may continue as long as none of its steps goes to a shell, and no program other
 * than git's own merges. */
static enum plant_end
judge_rebase(struct scan *sc, struct plant *p)
{
	cleanup_close int fd =
	    openat(p->dir_fd, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free char *todo = NULL, *strategy = NULL, *options = NULL;
	struct stat st;
	size_t len;

	if (fd < 0)
		return take_away(sc, p);
	if (fstat(fd, &st) < 0 || !plant_same_inode(&st, &p->st))
		return PLANT_AGAIN;
	todo = plant_read(fd, "git-rebase-todo", GITCONFIG_BYTES_MAX, &st, &len);
	if (todo == NULL ? errno != ENOENT : !gitstate_is_todo(todo, len))
		return take_away(sc, p);
	options = plant_read(fd, "opts", SMALL_MAX, &st, &len);
	if (options == NULL ? errno != ENOENT : !are_options_plain(options, len))
		return take_away(sc, p);
	for (const struct gitstate_file *f = gitstate_rebase; f->name != NULL; f++) {
		cleanup_free char *text = plant_read(fd, f->name, GITCONFIG_BYTES_MAX, &st, &len);

		if (text == NULL ? errno != ENOENT : !f->is_good(text, len))
			return take_away(sc, p);
	}
	strategy = plant_read(fd, "strategy", SMALL_MAX, &st, &len);
	if (strategy == NULL)
		return errno == ENOENT ? PLANT_KEPT : take_away(sc, p);
	strategy[strcspn(strategy, "\n")] = '\0';
	return is_strategy(strategy) ? PLANT_KEPT : take_away(sc, p);
}

enum plant_end
plant_judge(struct scan *sc, struct plant *p)
{
	switch (p->what) {
	case WHAT_PIN:
	case WHAT_TOLD:
		return PLANT_KEPT;
	case WHAT_CONFIG:
		return judge_config(sc, p);
	case WHAT_STRANGE:
		/* It was strange when its directory was read. What is there now has an event of its
		 * own. */
		if (S_ISREG(p->st.st_mode) || S_ISDIR(p->st.st_mode))
			return PLANT_GONE;
		if (scan_is_gentle(sc) && gitdir_is_trial_link(p->dir_fd, p->name))
			return PLANT_KEPT;
		return take_away(sc, p);
	case WHAT_INDEX:
	case WHAT_REF:
	case WHAT_LIST:
		return followed_judge(sc, p);
	case WHAT_HOOKS:
	case WHAT_REMOTES:
		return judge_directory(sc, p);
	case WHAT_GITFILE:
	case WHAT_COMMONDIR:
		return judge_pointer(sc, p);
	case WHAT_ALTERNATES:
		return judge_alternates(sc, p);
	case WHAT_REBASE:
		/* A rebase does nothing until a user continues it. While commands run, git may
		 * still be writing it. */
		return scan_is_gentle(sc) ? PLANT_KEPT : judge_rebase(sc, p);
	case WHAT_KODA:
	case WHAT_NAME:
	case WHAT_LED:
	case WHAT_TARGET:
	case WHAT_RULE:
		return take_away(sc, p);
	}
	return take_away(sc, p);
}
