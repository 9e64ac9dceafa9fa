/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/access.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/fold.h"
#include "shared/rules/names.h"

#define PATH_SHOWN 240 /* in a sentence; struct koda_error has the whole path */
#define RULE_SHOWN 160

static const char *const rule_names[] = {
	[ACCESS_RULE_DEFAULT_READ] = "default",
	[ACCESS_RULE_READ_HOLE] = "allow_read_within_deny",
	[ACCESS_RULE_ALLOW_WRITE] = "allow_write",
	[ACCESS_RULE_FULLY_DENIED] = "fully_denied",
	[ACCESS_RULE_PROCESS_WINDOW] = "process_window",
	[ACCESS_RULE_DENY_READ] = "deny_read",
	[ACCESS_RULE_TRUST] = "trust",
	[ACCESS_RULE_SYSTEM_PLACE] = "system_place",
	[ACCESS_RULE_KODA_PLACE] = "koda_place",
	[ACCESS_RULE_GIT_CONFIG] = "git_config",
	[ACCESS_RULE_DENY_WRITE] = "deny_write_within_allow",
	[ACCESS_RULE_DENY_NAME] = "deny_write_names",
	[ACCESS_RULE_LINK] = "protected_link",
	[ACCESS_RULE_TREE] = "protected_below",
};

const char *
access_rule_name(enum access_rule rule)
{
	return (size_t)rule < N_ELEMENTS(rule_names) ? rule_names[rule] : "unknown";
}

/* ---- names, folded ---- */

/* Longer than every built-in protected name; a name that folds to more cannot be one of them. */
#define FOLD_MAX 24

/* FAT and its relatives also find a file by the short form of its name. */
static void
expand_short(char name[FOLD_MAX])
{
	static const struct {
		const char *stem, *of;
	} short_forms[] = {
		{ "git~", ".git" },
		{ "koda~", ".koda" },
		{ "config~", "config" }, /* also of config.lock, config.worktree */
		{ "common~", "commondir" },
		{ "branch~", "branches" },
		{ "altern~", "alternates" },
	};

	if (strchr(name, '~') == NULL)
		return;
	for (size_t i = 0; i < N_ELEMENTS(short_forms); i++) {
		size_t stem = strlen(short_forms[i].stem);

		if (strncmp(name, short_forms[i].stem, stem) == 0 && name[stem] >= '0' &&
		    name[stem] <= '9') {
			strcpy(name, short_forms[i].of);
			return;
		}
	}
}

/* NTFS finds a file by the name of one of its streams, too: '.git::$INDEX_ALLOCATION' is '.git'. */
static void
fold_piece(const char *name, size_t len, char ret[FOLD_MAX])
{
	const char *colon = len > 0 ? memchr(name + 1, ':', len - 1) : NULL;

	fold_name(name, colon != NULL ? (size_t)(colon - name) : len, ret, FOLD_MAX);
	expand_short(ret);
}

/* Fold the name as a case-insensitive file system would compare it; "" if that is too long to
 * matter. Where git takes a backslash for a slash, a name has several pieces: it means the first one,
 * unless another one is '.git'. */
static void
fold(const char *name, size_t len, char ret[FOLD_MAX])
{
	const char *end = memchr(name, '\\', len);

	fold_piece(name, end != NULL ? (size_t)(end - name) : len, ret);
	while (end != NULL && strcmp(ret, ".git") != 0) {
		char piece[FOLD_MAX];

		len -= (size_t)(end + 1 - name);
		name = end + 1;
		end = memchr(name, '\\', len);
		fold_piece(name, end != NULL ? (size_t)(end - name) : len, piece);
		if (strcmp(piece, ".git") == 0)
			strcpy(ret, piece);
	}
}

/* Return the entry of names that equals name, or NULL. */
static const char *
one_of(const char *name, const char *const *names)
{
	while (*names != NULL && strcmp(name, *names) != 0)
		names++;
	return *names;
}

/* Iterates over the components of a canonical path. */
struct link_walk {
	const char *path;
	size_t start, len; /* of the component; its directory is path[0 .. start - 1) */
	bool last;
	char name[FOLD_MAX], before[FOLD_MAX],
	    /* Folded: the component and the two before it. */
	    before2[FOLD_MAX];
};

static bool
walk_next(struct link_walk *w)
{
	size_t at = w->start + w->len;

	if (w->path[at] == '\0' || w->path[at + 1] == '\0')
		return false;
	memcpy(w->before2, w->before, sizeof(w->before2));
	memcpy(w->before, w->name, sizeof(w->before));
	w->start = at + 1;
	w->len = strcspn(w->path + w->start, "/");
	w->last = w->path[w->start + w->len] == '\0';
	fold(w->path + w->start, w->len, w->name);
	return true;
}

/* ---- places ---- */

/* koda's own directories below any home directory: their last three components. Everything below
 * them is denied, too. */
static const struct {
	const char *name[3], *by, *reason;
} fully_denied[] = {
	{ { ".config", "koda", "db" }, ".config/koda/db",
	    "agents may not access koda's own database" },
	{ { ".local", "state", "koda-sandbox" }, ".local/state/koda-sandbox",
	    "agents may not access koda-sandbox's own state" },
};
enum { DENIED_DATABASE, DENIED_STATE };

static bool
has_state(const struct access_subject *who)
{
	return who->state != NULL && who->state[0] == '/';
}

/* Return the rule's text, or NULL. */
static const char *
is_fully_denied(const struct access_subject *who, const char *path)
{
	struct link_walk w = { .path = path };

	if (has_state(who) && path_is_inside(path, who->state))
		return fully_denied[DENIED_STATE].by;
	while (walk_next(&w)) {
		for (size_t i = 0; i < N_ELEMENTS(fully_denied); i++) {
			if (strcmp(w.name, fully_denied[i].name[2]) == 0 &&
			    strcmp(w.before, fully_denied[i].name[1]) == 0 &&
			    strcmp(w.before2, fully_denied[i].name[0]) == 0)
				return fully_denied[i].by;
		}
	}
	return NULL;
}

static bool
is_system_place(const char *path, const char *home)
{
	size_t len = strlen(path);

	if (strchr(path + 1, '/') == NULL) /* "/" and its direct entries */
		return true;
	if (home != NULL && home[0] != '\0' && strcmp(path, home) == 0)
		return true;
	/* A shell pattern that was never expanded. */
	return strcmp(path + len - 2, "/*") == 0 ||
	    (len >= 3 && strcmp(path + len - 3, "/\\*") == 0);
}

static const char *
koda_place(enum access_op op, const char *path)
{
	static const char *const steering[] = { "agents", "skills", NULL };
	struct link_walk w = { .path = path };

	while (walk_next(&w)) {
		if (strcmp(w.before, ".koda") == 0 && one_of(w.name, steering) != NULL)
			return strcmp(w.name, "agents") == 0 ? ".koda/agents" : ".koda/skills";
	}
	/* A directory moved to that name could bring both along. */
	return op == ACCESS_OP_RENAME_TO && strcmp(w.name, ".koda") == 0 ? ".koda" : NULL;
}

/* ---- git ---- */

/*
 * Which names hold configuration or hooks depends on the level: .git/hooks does,
 * .git/refs/heads/hooks is a branch. Below modules a submodule's name may have any number of
 * components, so every level may be a git directory.
 */
enum git_level {
	GIT_OUTSIDE,
	GIT_DIR,       /* a git directory itself */
	GIT_MODULES,   /* somewhere below modules */
	GIT_WORKTREES, /* the next component, whatever its name, is at level GIT_DIR */
	GIT_DATA,      /* below objects, refs, logs: names are data */
	GIT_OTHER,
};

static const struct name {
	const char *name;
	enum access_name means;
	/* In a git directory: git runs it, or follows it. */
	bool executable, directory;
} names[] = {
	{ ".git", ACCESS_NAME_GIT, false, false },
	{ "head", ACCESS_NAME_HEAD, false, false },
	{ "objects", ACCESS_NAME_OBJECTS, false, true },
	{ "refs", ACCESS_NAME_REFS, false, true },
	{ "commondir", ACCESS_NAME_COMMONDIR, true, false },
	{ "worktrees", ACCESS_NAME_WORKTREES, false, true },
	{ "config", ACCESS_NAME_CONFIG, true, false },
	{ "config.worktree", ACCESS_NAME_CONFIG, true, false },
	{ "config.lock", ACCESS_NAME_CONFIG_LOCK, true, false },
	{ "hooks", ACCESS_NAME_HOOKS, true, true },
	/* State that `--continue` resumes from: a list of commands, and the name of a merge
	 * program. */
	{ "rebase-merge", ACCESS_NAME_REBASE, true, true },
	{ "rebase-apply", ACCESS_NAME_REBASE, true, true },
	{ "sequencer", ACCESS_NAME_REBASE, true, true },
	{ "gitdir", ACCESS_NAME_GITDIR, true, false },
	/* Each file in them is a remote: it says where git fetches from and pushes to, and with
	 * which helper. */
	{ "remotes", ACCESS_NAME_REMOTES, true, true },
	{ "branches", ACCESS_NAME_REMOTES, true, true },
	{ "alternates", ACCESS_NAME_ALTERNATES, false, false },
	{ "http-alternates", ACCESS_NAME_ALTERNATES, false, false },
	{ ".koda", ACCESS_NAME_KODA, false, true },
	{ "agents", ACCESS_NAME_STEERING, false, true },
	{ "skills", ACCESS_NAME_STEERING, false, true },
};

static const struct name *
name_of(const char *folded)
{
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		if (folded[0] == names[i].name[0] && strcmp(folded, names[i].name) == 0)
			return &names[i];
	}
	return NULL;
}

enum access_name
access_name_of(const char *name)
{
	char folded[FOLD_MAX];
	const struct name *as;

	fold(name, strlen(name), folded);
	as = name_of(folded);
	return as != NULL ? as->means : ACCESS_NAME_OTHER;
}

/* Return the name that makes git run something, or NULL. */
static const char *
git_executable(const char *folded)
{
	const struct name *as = name_of(folded);

	return as != NULL && as->executable ? as->name : NULL;
}

bool
access_is_git_dir(bool head, bool objects, bool refs, bool commondir, bool worktrees)
{
	return (head && commondir) || ((head || worktrees) && objects && refs);
}

static const char *
git_below(const struct link_walk *w, enum git_level *level)
{
	static const char *const data[] = { "objects", "refs", "logs", NULL };
	static const char *const alternates[] = { "alternates", "http-alternates", NULL };

	/* Other object stores, from which git reads outside the repository. */
	if (*level != GIT_OUTSIDE && strcmp(w->before, "info") == 0 &&
	    strcmp(w->before2, "objects") == 0 && one_of(w->name, alternates) != NULL)
		return "objects/info/alternates";
	switch (*level) {
	case GIT_OUTSIDE:
	case GIT_DATA:
		return NULL;
	case GIT_WORKTREES:
		*level = GIT_DIR;
		return NULL;
	case GIT_DIR:
		if (git_executable(w->name) != NULL)
			return git_executable(w->name);
		if (one_of(w->name, data) != NULL)
			*level = GIT_DATA;
		else if (strcmp(w->name, "modules") == 0)
			*level = GIT_MODULES;
		else if (strcmp(w->name, "worktrees") == 0)
			*level = GIT_WORKTREES;
		else
			*level = GIT_OTHER;
		return NULL;
	case GIT_MODULES:
	case GIT_OTHER:
		return git_executable(w->name);
	}
	return ".git";
}

/*
 * A git directory needs no special name: HEAD, objects and refs make one (a bare repository, a
 * submodule's), and git, run anywhere below it, reads its config. So a change may not add
 * configuration to a directory of that shape, or give that shape to a directory with configuration.
 */
static const char *
git_by_shape(const struct link_walk *w, enum access_op op, const struct access_disk *disk)
{
	static const char *const pieces[] = { "head", "objects", "refs", "commondir", "worktrees",
		NULL };
	const char *executable = git_executable(w->name);
	const char *piece = one_of(w->name, pieces);
	bool head, objects, refs, commondir, worktrees;
	size_t dir_len = w->start - 1;

#define HAS(name) disk->has(disk->data, w->path, dir_len, name)
	/* A write creates missing directories, so a piece of the path can be one of these names. */
	if (!w->last && piece != NULL && !name_of(w->name)->directory)
		piece = NULL;
	if (!w->last && executable != NULL && !name_of(w->name)->directory)
		executable = NULL;
	if (disk == NULL || (piece == NULL && executable == NULL))
		return NULL;
	head = HAS("HEAD");
	objects = HAS("objects");
	refs = HAS("refs");
	commondir = HAS("commondir");
	worktrees = HAS("worktrees");
	if (executable != NULL && access_is_git_dir(head, objects, refs, commondir, worktrees))
		return executable;
	if (piece == NULL)
		return NULL;
	if (op != ACCESS_OP_WRITE && op != ACCESS_OP_MKDIR && op != ACCESS_OP_RENAME_TO)
		return NULL;
	if (access_is_git_dir(head, objects, refs, commondir, worktrees))
		return NULL; /* already a git directory: nothing changes */
	head = head || strcmp(w->name, "head") == 0;
	objects = objects || strcmp(w->name, "objects") == 0;
	refs = refs || strcmp(w->name, "refs") == 0;
	commondir = commondir || strcmp(w->name, "commondir") == 0;
	worktrees = worktrees || strcmp(w->name, "worktrees") == 0;
	if (!access_is_git_dir(head, objects, refs, commondir, worktrees))
		return NULL;
	/* With a commondir the configuration is in another directory, which need not have any
	 * known shape. */
	if (commondir || HAS("config") || HAS("config.worktree") || HAS("hooks") ||
	    HAS("rebase-merge") || HAS("rebase-apply") || HAS("sequencer") || HAS("remotes") ||
	    HAS("branches"))
		return piece;
	return NULL;
#undef HAS
}

/* Return the name that makes git run something, or NULL. */
static const char *
git_place(enum access_op op, const char *path, const struct access_disk *disk)
{
	struct link_walk w = { .path = path };
	enum git_level level = GIT_OUTSIDE;
	const char *by;

	while (walk_next(&w)) {
		if (strcmp(w.name, ".git") == 0) {
			/* An empty directory of that name is harmless. A file names another git
			 * directory, and removing one makes room for it. */
			if (w.last && op != ACCESS_OP_MKDIR)
				return ".git";
			level = GIT_DIR;
			continue;
		}
		if (level != GIT_OUTSIDE && op == ACCESS_OP_RENAME_TO)
			return ".git"; /* a moved directory may bring a module, a worktree */
		by = git_below(&w, &level);
		if (by == NULL)
			by = git_by_shape(&w, op, disk);
		if (by != NULL)
			return by;
	}
	return NULL;
}

/* ---- the judge ---- */

static struct access_verdict
refused(enum access_rule rule, const char *by)
{
	return (struct access_verdict){ .allowed = false, .rule = rule, .by = by };
}

static struct access_verdict
allowed(enum access_rule rule, const char *by)
{
	return (struct access_verdict){ .allowed = true, .rule = rule, .by = by };
}

static const char *
first_above(const struct policy_list *list, const char *path)
{
	const size_t i = policy_list_first_above(list, path);

	return i < list->n ? list->v[i] : NULL;
}

static bool
is_change(enum access_op op)
{
	switch (op) {
	case ACCESS_OP_READ:
	case ACCESS_OP_HOP:
		return false;
	case ACCESS_OP_WRITE:
	case ACCESS_OP_MKDIR:
	case ACCESS_OP_REMOVE:
	case ACCESS_OP_RENAME_FROM:
	case ACCESS_OP_RENAME_TO:
	case ACCESS_OP_HOP_CHANGE:
		return true;
	}
	return true;
}

struct access_verdict
access_judge(const struct access_subject *who, enum access_op op, const char *path,
    const struct access_disk *disk)
{
	const struct policy *p = who->policy;
	const char *by;
	bool readable;

	if (path == NULL || path[0] != '/')
		return refused(ACCESS_RULE_SYSTEM_PLACE, NULL);
	by = is_fully_denied(who, path);
	if (by != NULL)
		return refused(ACCESS_RULE_FULLY_DENIED, by);
	if (path_is_inside(path, "/proc"))
		return refused(ACCESS_RULE_PROCESS_WINDOW, "/proc");
	readable = policy_reads(p, path, &by);
	if (!is_change(op)) {
		if (!readable)
			return refused(ACCESS_RULE_DENY_READ, by);
		return allowed(by != NULL ? ACCESS_RULE_READ_HOLE : ACCESS_RULE_DEFAULT_READ, by);
	}
	/* Plan mode is checked separately: its policy's trust may have been changed. */
	if (p->trust == KODA_TRUST_FORBID || who->mode == KODA_PLAN)
		return refused(ACCESS_RULE_TRUST, NULL);
	if (!readable)
		return refused(ACCESS_RULE_DENY_READ, by);
	/* A link on the way is not itself changed: /home may be one. */
	if (op != ACCESS_OP_HOP_CHANGE && is_system_place(path, who->home))
		return refused(ACCESS_RULE_SYSTEM_PLACE, NULL);
	by = koda_place(op, path);
	if (by != NULL)
		return refused(ACCESS_RULE_KODA_PLACE, by);
	by = p->flag[KODA_ALLOW_GIT_CONFIG] ? NULL : git_place(op, path, disk);
	if (by != NULL)
		return refused(ACCESS_RULE_GIT_CONFIG, by);
	by = first_above(&p->list[KODA_DENY_WRITE_WITHIN_ALLOW], path);
	if (by != NULL)
		return refused(ACCESS_RULE_DENY_WRITE, by);
	by = names_rule_of(&p->list[KODA_DENY_WRITE_NAMES], path);
	if (by == NULL && op == ACCESS_OP_WRITE)
		by = names_rule_cut(&p->list[KODA_DENY_WRITE_NAMES], path);
	if (by != NULL)
		return refused(ACCESS_RULE_DENY_NAME, by);
	by = first_above(&p->list[KODA_ALLOW_WRITE], path);
	if (by == NULL && op != ACCESS_OP_HOP_CHANGE)
		return refused(ACCESS_RULE_ALLOW_WRITE, NULL);
	return allowed(ACCESS_RULE_ALLOW_WRITE, by);
}

static const char *
first_below(const struct policy_list *list, const char *path, bool or_equal)
{
	for (size_t i = 0; i < list->n; i++) {
		if (path_is_inside(list->v[i], path) && (or_equal || strcmp(list->v[i], path) != 0))
			return list->v[i];
	}
	return NULL;
}

struct access_verdict
access_judge_tree(const struct access_subject *who, enum access_op op, const char *path)
{
	const struct policy *p = who->policy;
	struct link_walk w = { .path = path };
	const char *by;

	if (path == NULL || path[0] != '/')
		return refused(ACCESS_RULE_SYSTEM_PLACE, NULL);
	by = first_below(&p->list[KODA_DENY_READ], path, false);
	if (by == NULL)
		by = first_below(&p->list[KODA_DENY_WRITE_WITHIN_ALLOW], path, false);
	/* Without its root, a rule of the policy would apply to whatever another process creates
	 * there. */
	if (by == NULL)
		by = first_below(&p->list[KODA_ALLOW_WRITE], path, true);
	/* A directory renamed to the first part of a name rule could bring the rest along. */
	if (by == NULL && op == ACCESS_OP_RENAME_TO)
		by = names_rule_begun(&p->list[KODA_DENY_WRITE_NAMES], path);
	if (by != NULL)
		return refused(ACCESS_RULE_TREE, by);
	if (has_state(who) && path_is_inside(who->state, path))
		return refused(ACCESS_RULE_TREE, fully_denied[DENIED_STATE].by);
	if (who->home != NULL && who->home[0] == '/') {
		if (path_is_inside(who->home, path))
			return refused(ACCESS_RULE_TREE, "the home directory");
		/* Also refuses home/.config without a database: this function only has the
		 * path's text. */
		if (path_is_inside(path, who->home)) {
			const char *rest =
			    strcmp(who->home, "/") == 0 ? path : path + strlen(who->home);

			if (strcmp(rest, "/.config") == 0)
				return refused(ACCESS_RULE_TREE, ".config/koda/db");
		}
	}
	while (walk_next(&w))
		;
	for (size_t i = 0; i < N_ELEMENTS(fully_denied); i++) {
		if (strcmp(w.name, fully_denied[i].name[1]) == 0 &&
		    strcmp(w.before, fully_denied[i].name[0]) == 0)
			return refused(ACCESS_RULE_TREE, fully_denied[i].by);
	}
	return allowed(ACCESS_RULE_ALLOW_WRITE, NULL);
}

bool
access_reads_all_in(const struct access_subject *who, const char *dir)
{
	struct link_walk w = { .path = dir };

	if (strcmp(dir, "/") == 0) /* because of /proc */
		return false;
	if (!access_judge(who, ACCESS_OP_READ, dir, NULL).allowed ||
	    first_below(&who->policy->list[KODA_DENY_READ], dir, false) != NULL ||
	    (has_state(who) && path_is_inside(who->state, dir)))
		return false;
	while (walk_next(&w))
		;
	/* It may be the parent of koda's own directory. */
	for (size_t i = 0; i < N_ELEMENTS(fully_denied); i++) {
		if (strcmp(w.name, fully_denied[i].name[1]) == 0)
			return false;
	}
	return true;
}

const char *
access_name_rule(const struct access_subject *who, const char *path)
{
	const char *root = first_above(&who->policy->list[KODA_ALLOW_WRITE], path);

	/* Only components below the project count: the project itself may lie in a vendored
	 * directory. */
	return root != NULL && names_is_vendored(path + strlen(root))
	    ? NULL
	    : names_rule_at(&who->policy->list[KODA_DENY_WRITE_NAMES], path);
}

bool
access_protected_entry(const struct access_subject *who, const char *parent_name, const char *name)
{
	char parent[FOLD_MAX], entry[FOLD_MAX];

	fold(parent_name, strlen(parent_name), parent);
	fold(name, strlen(name), entry);
	if (strcmp(entry, ".git") == 0)
		return !who->policy->flag[KODA_ALLOW_GIT_CONFIG];
	if (strcmp(parent, ".koda") == 0)
		return strcmp(entry, "agents") == 0 || strcmp(entry, "skills") == 0;
	/* koda's own directories, recognised by the two names that are known here. */
	for (size_t i = 0; i < N_ELEMENTS(fully_denied); i++) {
		if (strcmp(parent, fully_denied[i].name[1]) == 0 &&
		    strcmp(entry, fully_denied[i].name[2]) == 0)
			return true;
	}
	return false;
}

/* ---- sentences ---- */

static const char *
op_words(enum access_op op)
{
	switch (op) {
	case ACCESS_OP_READ:
		return "read";
	case ACCESS_OP_WRITE:
		return "write";
	case ACCESS_OP_MKDIR:
		return "make the directory";
	case ACCESS_OP_REMOVE:
		return "remove";
	case ACCESS_OP_RENAME_FROM:
		return "move";
	case ACCESS_OP_RENAME_TO:
		return "move something to";
	case ACCESS_OP_HOP:
	case ACCESS_OP_HOP_CHANGE:
		return "follow the link";
	}
	return "do anything with";
}

/* Escape text for people; ends with "..." if it was cut. */
static void
show(char *buf, size_t size, const char *text)
{
	if (bytes_show(buf, size - 3, text, strlen(text)) >= size - 3)
		strcat(buf, "...");
}

const char *
access_reason(const struct access_subject *who, enum access_op op, struct access_verdict v,
    char *buf, size_t size)
{
	char by[RULE_SHOWN];

	show(by, sizeof(by), v.by != NULL ? v.by : "");
	switch (v.rule) {
	case ACCESS_RULE_DEFAULT_READ:
		return "no rule denies reading it";
	case ACCESS_RULE_READ_HOLE:
		snprintf(buf, size, "allow_read_within_deny names '%s'", by);
		return buf;
	case ACCESS_RULE_ALLOW_WRITE:
		if (!v.allowed)
			return "no rule of allow_write names it";
		if (v.by == NULL)
			return "no rule denies it";
		snprintf(buf, size, "allow_write names '%s'", by);
		return buf;
	case ACCESS_RULE_FULLY_DENIED:
		for (size_t i = 0; i < N_ELEMENTS(fully_denied); i++)
			if (v.by != NULL && strcmp(v.by, fully_denied[i].by) == 0)
				return fully_denied[i].reason;
		return fully_denied[DENIED_DATABASE].reason;
	case ACCESS_RULE_PROCESS_WINDOW:
		return "files in /proc belong to processes, not to the project";
	case ACCESS_RULE_DENY_READ:
		snprintf(buf, size, "deny_read names '%s'%s", by,
		    is_change(op) ? ", and what may not be read may not be changed" : "");
		return buf;
	case ACCESS_RULE_TRUST:
		if (who->mode == KODA_PLAN)
			return "Plan mode does not allow changes";
		return "the trust of this policy does not allow changes";
	case ACCESS_RULE_SYSTEM_PLACE:
		return "the top of the file system, the home directory itself and shell patterns are "
		       "never changed";
	case ACCESS_RULE_KODA_PLACE:
		return ".koda/agents and .koda/skills tell other agents what to do";
	case ACCESS_RULE_GIT_CONFIG:
		return "git configuration and hooks run programs on the host";
	case ACCESS_RULE_DENY_WRITE:
		snprintf(buf, size, "deny_write_within_allow names '%s'", by);
		return buf;
	case ACCESS_RULE_DENY_NAME:
		snprintf(buf, size, "deny_write_names has '%s', at any depth", by);
		return buf;
	case ACCESS_RULE_LINK:
		snprintf(buf, size, "a link in a protected place leads to '%s'", by);
		return buf;
	case ACCESS_RULE_TREE:
		snprintf(buf, size, "it contains something protected: '%s'", by);
		return v.by != NULL ? buf : "it contains something protected";
	}
	return "it is not allowed";
}

int
access_refuse(struct koda_error *err, const struct access_subject *who, enum access_op op,
    const char *path, struct access_verdict v)
{
	char shown[PATH_SHOWN], reason[RULE_SHOWN + 128];

	if (err == NULL)
		return -1;
	show(shown, sizeof(shown), path);
	err_set(err, KODA_POLICY_DENIED, 0, "refused to %s '%s': %s (rule %s, mode %s)",
	    op_words(op), shown, access_reason(who, op, v, reason, sizeof(reason)),
	    access_rule_name(v.rule), policy_mode_name(who->mode));
	return err_about(err, path, access_rule_name(v.rule));
}
