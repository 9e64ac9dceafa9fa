#include "worker/scan/plant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "worker/files/tree.h"
#include "worker/scan/followed.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitstate.h"

/* For a gitfile, a commondir, a list of alternates or of a rebase: written by programs, one line
 * per item. */
#define SMALL_MAX (64u << 10)
/* How often to try again if a process replaces a name while it is taken away. */
#define TRIES 8

char *
plant_read(int dir_fd, const char *name, size_t max, struct stat *ret_st, size_t *ret_len)
{
	/* A FIFO must not block this process, and a device must not be triggered. */
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return NULL;
	if (!S_ISREG(ret_st->st_mode)) {
		errno = EINVAL;
		return NULL;
	}
	if (ret_st->st_size > (off_t)max) {
		errno = EFBIG;
		return NULL;
	}
	/* What is appended meanwhile is not read: only what was read counts. */
	max = (size_t)ret_st->st_size;
	text = malloc(max + 1);
	while (text != NULL && len < max && n > 0) {
		n = read(fd, text + len, max - len);
		if (n < 0 && errno != EINTR)
			return NULL;
		if (n > 0)
			len += (size_t)n;
		else if (n < 0)
			n = 1;
	}
	if (text == NULL)
		return NULL;
	text[len] = '\0';
	*ret_len = len;
	return take_ptr(&text);
}

bool
plant_same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Restores write permission that the owner of the directory has removed; this process has the same
 * owner. */
static bool
make_writable(int dir_fd, mode_t *ret_was)
{
	struct stat st;

	if (fstat(dir_fd, &st) < 0 || (st.st_mode & 0300) == 0300)
		return false;
	*ret_was = st.st_mode & 07777;
	return fchmod(dir_fd, *ret_was | 0700) == 0;
}

/* Reports what quarantine_move() has taken from p->path. */
static void
tell_moved(struct scan *sc, const struct plant *p, const struct quarantined *kept, const char *why)
{
	scan_tell(sc,
	    kept->name[0] != '\0' ? KODA__CHANGE_KIND__CHANGE_QUARANTINED
				  : KODA__CHANGE_KIND__CHANGE_ASIDE,
	    p->what, p->path, kept, kept->aside[0] != '\0' ? kept->aside : why);
}

enum plant_end
plant_take_away(struct scan *sc, const struct plant *p, const char *why)
{
	struct quarantine *q = scan_quarantine(sc);
	struct quarantined kept;
	const char *rule = scan_rule(p->what);
	mode_t was = 0;
	int r = quarantine_move(q, p->dir_fd, p->name, p->path, rule, &p->st, &kept);
	const bool changed = r < 0 && errno == EACCES && make_writable(p->dir_fd, &was);

	if (changed) {
		r = quarantine_move(q, p->dir_fd, p->name, p->path, rule, &p->st, &kept);
		fchmod(p->dir_fd, was);
	}
	if (r > 0)
		return PLANT_AGAIN;
	if (r < 0) {
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    q->fd < 0 ? "there is no quarantine" : strerror(errno));
		return PLANT_LEFT;
	}
	tell_moved(sc, p, &kept, why);
	return PLANT_GONE;
}

static enum plant_end
take_away(struct scan *sc, const struct plant *p)
{
	return plant_take_away(sc, p, NULL);
}

/* The rename that put the new file at p->path has caught another file than the worker had read.
 * That file is at temp now. Takes all of it away. */
static void
take_exchanged(struct scan *sc, const struct plant *p, const char *temp, const struct stat *caught)
{
	struct quarantined kept;
	const int r = quarantine_move(scan_quarantine(sc), p->dir_fd, temp, p->path,
	    scan_rule(p->what), caught, &kept);

	if (r == 0)
		tell_moved(sc, p, &kept, NULL);
	else if (r < 0) /* it stays at a name that means nothing */
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_ASIDE, p->what, p->path, NULL, temp);
	else
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    "another process has moved it");
}

/*
 * Replaces the file by a new one with the same name: a process that holds the old file open writes
 * to nothing visible, and a second name keeps the old inode. If keep_old, the old file stays under
 * the name stored in aside. Returns 0, 1 if the name belonged to another file by then, -1 with
 * errno.
 */
static int
write_anew(struct scan *sc, struct plant *p, const char *text, size_t len, bool keep_old,
    char *aside, size_t aside_size)
{
	struct stat now;
	char temp[TEMP_NAME_SIZE + 8];
	cleanup_close int fd = -1;
	int r;

	fd = quarantine_temp_file(scan_quarantine(sc), p->dir_fd, temp, sizeof(temp));
	if (fd < 0)
		return -1;
	if (write_all(fd, text, len) < 0 || fchmod(fd, (p->st.st_mode & 0666) | 0400) < 0 ||
	    fstat(fd, &now) < 0)
		goto failed;
	r = renameat2(p->dir_fd, temp, p->dir_fd, p->name, RENAME_EXCHANGE);
	if (r < 0 && errno == EINVAL) {
		r = renameat2(p->dir_fd, temp, p->dir_fd, p->name, 0);
		temp[0] = '\0';
	}
	if (r < 0) {
		if (errno != ENOENT)
			goto failed;
		unlinkat(p->dir_fd, temp, 0);
		return 1;
	}
	if (temp[0] != '\0') {
		struct stat old;

		if (fstatat(p->dir_fd, temp, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !plant_same_inode(&old, &p->st)) {
			take_exchanged(sc, p, temp, &old);
		} else if (keep_old) {
			snprintf(aside, aside_size, "%s", temp);
		} else {
			unlinkat(p->dir_fd, temp, 0);
		}
	}
	p->st = now;
	/* The rename has changed its ctime. */
	if (fstat(fd, &now) == 0)
		p->st = now;
	p->ours = true;
	return 0;
failed:
	r = errno;
	unlinkat(p->dir_fd, temp, 0);
	errno = r;
	return -1;
}

static enum plant_end
left(struct scan *sc, const struct plant *p)
{
	scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL, strerror(errno));
	return PLANT_LEFT;
}

/* The text is harmless, but a process that has the file open must not be able to change it
 * later. */
static enum plant_end
keep_fresh(struct scan *sc, struct plant *p, const char *text, size_t len)
{
	int r;

	if (p->ours || scan_is_gentle(sc))
		return PLANT_KEPT;
	if (scan_quarantine(sc)->fd < 0)
		return PLANT_KEPT;
	r = write_anew(sc, p, text, len, false, NULL, 0);
	return r == 0 ? PLANT_KEPT : r > 0 ? PLANT_AGAIN : left(sc, p);
}

/* ---- configuration ---- */

struct keeping {
	struct scan *sc;
	const struct plant *p;
};

bool
plant_leads_below(struct scan *sc, const char *dir, const char *to, struct place *at)
{
	char text[2 * PATH_LEN_MAX + 2];
	struct koda_error err;

	if (to[0] == '/')
		snprintf(text, sizeof(text), "%s", to);
	else
		snprintf(text, sizeof(text), "%s/%s", dir, to);
	if (resolve(scan_resolver(sc), (const uint8_t *)text, strlen(text), 0, at, &err) < 0)
		return false;
	/* A link cannot be a mount point: a command could later make it lead elsewhere, to a cache
	 * for instance. */
	for (size_t i = 0; i < at->n_hops; i++) {
		if (scan_covers(sc, at->hop[i]))
			return false;
	}
	return scan_covers(sc, at->path) && (scan_keeps(sc, at->path) || !scan_keeps(sc, dir));
}

/* Like plant_leads_below(), and a directory exists there. */
static bool
leads_inside(struct scan *sc, const char *dir, const char *to, struct place *at)
{
	return plant_leads_below(sc, dir, to, at) && at->target_fd >= 0 && S_ISDIR(at->st.st_mode);
}

void
plant_dir_of(const char *path, char ret[PATH_LEN_MAX + 1])
{
	size_t n = (size_t)(strrchr(path, '/') - path);

	memcpy(ret, path, n);
	ret[n] = '\0';
}

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
	if (!leads_inside(sc, dir, to, &at))
		return false;
	text = plant_read(at.target_fd, ".git", SMALL_MAX, &st, &len);
	if (text == NULL || !gitconfig_gitfile(text, len, &start, &n))
		return false;
	text[start + n] = '\0';
	return leads_inside(sc, at.path, text + start, &back) && strcmp(back.path, dir) == 0;
}

static bool
keep(void *data, const struct gitconfig_var *v)
{
	const struct keeping *k = data;

	if (gitconfig_is_inert(v))
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
		return left(sc, p);
	}
	if (!whole)
		quarantine_keep(scan_quarantine(sc), p->path, scan_rule(p->what), st.st_mode, text,
		    len, &kept);
	r = write_anew(sc, p, out, out_len, !whole && kept.name[0] == '\0', kept.aside,
	    sizeof(kept.aside));
	if (r > 0)
		return PLANT_AGAIN;
	if (r < 0)
		return whole ? left(sc, p) : take_away(sc, p);
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
	if (!leads_inside(sc, dir, to, &at) || !scan_is_git_dir(sc, at.path))
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
		good = gitconfig_gitfile(text, len, &start, &n);
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
	return good ? keep_fresh(sc, p, text, len) : take_away(sc, p);
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
			good = line[0] != '"' && leads_inside(sc, objects, line, &at);
	}
	return good && copy != NULL ? keep_fresh(sc, p, text, len) : take_away(sc, p);
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
	if (todo == NULL ? errno != ENOENT : !gitconfig_todo_is_plain(todo, len))
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
