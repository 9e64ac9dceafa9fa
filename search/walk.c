/* SPDX-License-Identifier: Apache-2.0 */
#include "search/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "search/chain.h"
#include "search/names.h"
#include "search/walk_rules.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
/* Enough for most ignore files. */
#define IGNORE_BUFFER_BYTES (16u << 10)

struct walker {
	const struct walk_rules *rules;
	const struct walk_hooks *hooks;
	struct walk_counts *counts;
	struct koda_error *err;
	dev_t dev;
	struct dir_names names;
	struct chain chain;
	char *text; /* content of the current ignore file */
	size_t text_size;
	size_t base; /* offset in path of the part below the place */
	char path[PATH_LEN_MAX + NAMES_NAME_MAX + 2];
};

/* A directory that the walk is in. Its path is in the walker's: up to offset names, with a slash
 * at the end. */
struct directory {
	int fd, parent_fd;
	size_t name;  /* offset of its own name */
	size_t names; /* offset of the names in it */
	unsigned depth;
	bool closed; /* it may not be read itself, but something below it may */
};

/* ---- reporting ---- */

/* Sets the path to the directory itself, until put_name(). */
static struct walk_entry
entry_of(struct walker *w, const struct directory *d)
{
	const bool is_place = d->depth == 0;
	const size_t end = is_place ? d->names : d->names - 1;

	w->path[end] = '\0';
	return (struct walk_entry){ .path = w->path + w->base,
		.len = end - w->base,
		.name = is_place ? "." : w->path + d->name,
		.dir_fd = d->parent_fd,
		.depth = d->depth,
		.type = DT_DIR };
}

/* Sets the path to something in the directory. */
static void
put_name(struct walker *w, const struct directory *d, const char *name, size_t len)
{
	w->path[d->names - 1] = '/';
	memcpy(w->path + d->names, name, len);
	w->path[d->names + len] = '\0';
}

static struct walk_entry
entry_in(struct walker *w, const struct directory *d, const char *name, size_t len, uint8_t type)
{
	put_name(w, d, name, len);
	return (struct walk_entry){ .path = w->path + w->base,
		.len = d->names + len - w->base,
		.name = w->path + d->names,
		.dir_fd = d->fd,
		.depth = d->depth + 1,
		.type = type };
}

static void
tell_trouble(struct walker *w, const struct walk_entry *e, int errnum)
{
	w->hooks->trouble(w->hooks->data, e, errnum);
}

static int
no_memory(struct walker *w)
{
	return err_set(w->err, KODA_INTERNAL, ENOMEM, "walk through a directory");
}

/* ---- ignore files ---- */

/* Reads the file, up to WALK_IGNORE_BYTES_MAX, into w->text. Returns its length, or -1 with
 * errno. */
static ssize_t
read_text(struct walker *w, int fd)
{
	size_t len = 0;

	for (;;) {
		ssize_t n;

		if (len == w->text_size) {
			const size_t size =
			    w->text_size == 0 ? IGNORE_BUFFER_BYTES : w->text_size * 2;
			char *grown = realloc(w->text, size);

			if (grown == NULL)
				return -1;
			w->text = grown;
			w->text_size = size;
		}
		n = read(fd, w->text + len, w->text_size - len);
		if (n < 0)
			return -1;
		if (n == 0)
			return (ssize_t)len;
		len += (size_t)n;
		if (len > WALK_IGNORE_BYTES_MAX) {
			/* Cut at a line: half a line would be another rule. */
			const char *newline = memrchr(w->text, '\n', WALK_IGNORE_BYTES_MAX);

			return newline != NULL ? newline - w->text : 0;
		}
	}
}

/*
 * Adds the rules of an ignore file. dir_fd and name: what to open; path: its path below d. Does not
 * follow a link, and reads only a regular file: opening a FIFO could block. Returns 0; -1 only if
 * memory is short.
 */
static int
add_rules(struct walker *w, const struct directory *d, enum chain_kind kind, int dir_fd,
    const char *name, const char *path)
{
	cleanup_close int fd = -1;
	struct walk_entry e;
	struct stat st;
	ssize_t len;

	if (d->names + strlen(path) > PATH_LEN_MAX)
		return 0;
	e = entry_in(w, d, path, strlen(path), DT_REG);
	if (!w->hooks->readable(w->hooks->data, w->path, false))
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		if (errno != ENOENT && errno != ELOOP && errno != ENXIO)
			tell_trouble(w, &e, errno);
		return 0;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	len = read_text(w, fd);
	if (len >= 0 && chain_add(&w->chain, kind, d->names, w->text, (size_t)len) == 0)
		return 0;
	if (errno == ENOMEM)
		return no_memory(w);
	tell_trouble(w, &e, errno);
	return 0;
}

static int
add_exclude(struct walker *w, const struct directory *d)
{
	static const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	cleanup_close int git = openat(d->fd, ".git", flags);
	cleanup_close int info = git < 0 ? -1 : openat(git, "info", flags);

	return info < 0 ? 0 : add_rules(w, d, CHAIN_EXCLUDE, info, "exclude", ".git/info/exclude");
}

/* clang-format off */
static const struct {
	const char *name;
	enum names_special special;
	enum chain_kind kind;
	unsigned unless;
} ignore_files[] = {
	{ ".rgignore", NAMES_RGIGNORE, CHAIN_RGIGNORE, KODA_SEARCH_NO_DOT_IGNORE },
	{ ".ignore", NAMES_IGNORE, CHAIN_IGNORE, KODA_SEARCH_NO_DOT_IGNORE },
	{ ".gitignore", NAMES_GITIGNORE, CHAIN_GITIGNORE, KODA_SEARCH_NO_GITIGNORE },
};
/* clang-format on */

/* Opens only names that the listing has. */
static int
add_ignore_files(struct walker *w, const struct directory *d, unsigned special)
{
	const unsigned flags = w->rules->flags;

	for (size_t i = 0; i < N_ELEMENTS(ignore_files); i++) {
		if ((special & ignore_files[i].special) == 0 ||
		    (flags & ignore_files[i].unless) != 0 ||
		    !chain_wants(&w->chain, ignore_files[i].kind))
			continue;
		if (add_rules(w, d, ignore_files[i].kind, d->fd, ignore_files[i].name,
			ignore_files[i].name) < 0)
			return -1;
	}
	if ((special & NAMES_GIT_DIR) != 0 && (flags & KODA_SEARCH_NO_EXCLUDE) == 0)
		return add_exclude(w, d);
	return 0;
}

/* Adds the ignore files of a directory above the place, which the caller has read. */
static int
add_parent(struct walker *w, const struct walk_parent *p)
{
	const unsigned flags = w->rules->flags;
	const size_t base = strcmp(p->path, "/") == 0 ? 1 : strlen(p->path) + 1;
	const struct {
		enum chain_kind kind;
		unsigned unless;
		const char *text;
		size_t len;
	} files[] = {
		{ CHAIN_RGIGNORE, KODA_SEARCH_NO_DOT_IGNORE, p->rgignore, p->rgignore_len },
		{ CHAIN_IGNORE, KODA_SEARCH_NO_DOT_IGNORE, p->ignore, p->ignore_len },
		{ CHAIN_GITIGNORE, KODA_SEARCH_NO_GITIGNORE, p->gitignore, p->gitignore_len },
		{ CHAIN_EXCLUDE, KODA_SEARCH_NO_EXCLUDE, p->exclude, p->exclude_len },
	};

	chain_enter(&w->chain, base, p->is_worktree);
	if ((flags & KODA_SEARCH_NO_PARENTS) != 0)
		return 0;
	for (size_t i = 0; i < N_ELEMENTS(files); i++) {
		if (files[i].text == NULL || (flags & files[i].unless) != 0)
			continue;
		if (chain_add(&w->chain, files[i].kind, base, files[i].text, files[i].len) < 0)
			return errno == ENOMEM
			    ? no_memory(w)
			    : err_set(w->err, KODA_TOO_LARGE, 0,
				  "the ignore files above '%s' have too many rules", w->path);
	}
	return 0;
}

/* ---- choosing ---- */

/* Decides in ripgrep's order: globs override everything else unless they only narrow; then
 * ignore files; types; the leading dot. */
static bool
is_chosen(struct walker *w, const struct directory *d, const struct dir_name *name)
{
	const struct walk_rules *r = w->rules;
	const char *text = name_text(&w->names, name);
	const bool is_dir = name->type == DT_DIR;
	bool shown = text[0] != '.' || (r->flags & KODA_SEARCH_HIDDEN) != 0;
	struct ignore_name n;
	enum ignore_verdict v;

	if (r->globs == NULL && r->types == NULL && chain_is_empty(&w->chain, r->global))
		return shown;
	put_name(w, d, text, name->len);
	ignore_name_init(&n, w->path, d->names + name->len, d->names, is_dir);
	if (r->globs != NULL) {
		v = ignore_judge(r->globs, &n, w->base);
		if (v == IGNORE_KEEP ||
		    (v == IGNORE_MATCH && (r->flags & KODA_SEARCH_GLOBS_NARROW) == 0))
			return v == IGNORE_MATCH;
		if (v == IGNORE_NONE && !is_dir && ignore_has_match(r->globs))
			return false;
	}
	v = chain_judge(&w->chain, r->global, &n);
	if (v == IGNORE_MATCH)
		return false;
	shown |= v == IGNORE_KEEP;
	if (r->types != NULL && !is_dir) {
		v = ignore_judge(r->types, &n, d->names);
		if (v == IGNORE_KEEP || (v == IGNORE_NONE && ignore_has_match(r->types)))
			return false;
		shown |= v == IGNORE_MATCH;
	}
	return shown;
}

/*
 * Is the name visible at all? In a closed directory only names that may be read are: otherwise a
 * name that the globs let through would be counted, and globs for one beginning after the other
 * would reveal all names.
 */
static bool
is_there(struct walker *w, const struct directory *d, const struct dir_name *name)
{
	if (!d->closed)
		return true;
	put_name(w, d, name_text(&w->names, name), name->len);
	return w->hooks->readable(w->hooks->data, w->path, name->type == DT_DIR);
}

/* Keeps only the wanted names, from index first on. */
static void
choose(struct walker *w, const struct directory *d, size_t first)
{
	size_t kept = first;
	bool too_long = false;

	for (size_t i = first; i < w->names.n; i++) {
		struct dir_name name = w->names.name[i];

		if (d->names + name.len > PATH_LEN_MAX) {
			too_long |= !d->closed;
			continue;
		}
		if (names_settle(&name, &w->names, d->fd) && is_there(w, d, &name) &&
		    is_chosen(w, d, &name))
			w->names.name[kept++] = name;
	}
	w->names.n = kept;
	if (too_long) {
		const struct walk_entry e = entry_of(w, d);

		tell_trouble(w, &e, ENAMETOOLONG);
	}
}

/* ---- walking ---- */

static int walk_directory(struct walker *w, const struct directory *d);

static int
tell_leave(struct walker *w, const struct directory *d)
{
	const struct walk_entry e = entry_of(w, d);

	return w->hooks->leave != NULL && w->hooks->leave(w->hooks->data, &e) != 0 ? 1 : 0;
}

static int
tell_enter(struct walker *w, const struct directory *d)
{
	const struct walk_entry e = entry_of(w, d);

	return w->hooks->enter != NULL && w->hooks->enter(w->hooks->data, &e) != 0 ? 1 : 0;
}

/*
 * Should this directory be left out? A file system mounted in the place is not part of it, so the
 * walk enters it only if requested. It never enters a proc: the judge knows it only by its usual
 * path, and its names reveal processes. The mount on a closed directory is the view of the
 * slot's commands: an empty directory with the exceptions mounted in it.
 */
static bool
is_elsewhere(const struct walker *w, const struct directory *d)
{
	struct statfs fs;
	struct stat st;

	if (fstat(d->fd, &st) < 0)
		return true;
	if (st.st_dev == w->dev || d->closed)
		return false;
	return (w->rules->flags & KODA_SEARCH_MOUNTS) == 0 || fstatfs(d->fd, &fs) < 0 ||
	    (unsigned long)fs.f_type == PROC_SUPER_MAGIC;
}

/* Visits the directory e in above. Does not follow a link that may be there now. */
static int
visit_directory(struct walker *w, const struct directory *above, const struct walk_entry *e)
{
	const bool deep_enough = w->rules->max_depth != 0 && e->depth >= w->rules->max_depth;
	cleanup_close int fd = -1;
	struct directory d = { .parent_fd = above->fd,
		.name = above->names,
		.names = w->base + e->len + 1,
		.depth = e->depth };
	int r;

	if (e->depth > WALK_DEPTH_MAX) {
		tell_trouble(w, e, ELOOP);
		return 0;
	}
	fd = openat(above->fd, e->name, DIRECTORY_FLAGS);
	if (fd < 0) {
		/* If it is gone, treat it as if it had never existed. */
		if (errno != ENOENT)
			tell_trouble(w, e, errno);
		return 0;
	}
	d.fd = fd;
	/* Ask as for a file: may its contents be reported? */
	d.closed = !w->hooks->readable(w->hooks->data, w->path, false);
	if (is_elsewhere(w, &d))
		return 0;
	w->counts->hidden += d.closed;
	r = tell_enter(w, &d);
	if (r == 0 && !deep_enough)
		r = walk_directory(w, &d);
	return r == 0 ? tell_leave(w, &d) : r;
}

static int
visit(struct walker *w, const struct directory *d, const struct dir_name *name)
{
	const bool is_dir = name->type == DT_DIR;
	const struct walk_entry e =
	    entry_in(w, d, name_text(&w->names, name), name->len, name->type);

	if (!w->hooks->readable(w->hooks->data, w->path, is_dir)) {
		w->counts->hidden++;
		return 0;
	}
	if (is_dir)
		return visit_directory(w, d, &e);
	return w->hooks->file(w->hooks->data, &e) != 0 ? 1 : 0;
}

/* Recurses for each level, at most WALK_DEPTH_MAX. */
static int
walk_directory(struct walker *w, const struct directory *d)
{
	const size_t first = w->names.n, used = w->names.used;
	struct chain_mark mark;
	unsigned special;
	int r;

	if (names_read(&w->names, d->fd, &special) < 0) {
		const struct walk_entry e = entry_of(w, d);

		if (errno == ENOMEM)
			return no_memory(w);
		tell_trouble(w, &e, errno);
	}
	/* Whether it has a .git or ignore files must not be revealed either. */
	if (d->closed)
		special = 0;
	mark = chain_enter(&w->chain, d->names, (special & NAMES_GIT) != 0);
	r = add_ignore_files(w, d, special);
	if (r == 0) {
		choose(w, d, first);
		names_sort(&w->names, first);
		for (size_t i = first; i < w->names.n && r == 0; i++) {
			const struct dir_name name = w->names.name[i];

			r = visit(w, d, &name);
		}
	}
	chain_leave(&w->chain, &mark);
	w->names.n = first;
	w->names.used = used;
	return r;
}

static void
walker_free_at(struct walker **at)
{
	struct walker *w = *at;

	if (w == NULL)
		return;
	names_done(&w->names);
	chain_done(&w->chain);
	free(w->text);
	free(w);
}

static int
walk_place(struct walker *w, const struct walk_place *place)
{
	cleanup_close int fd = openat(place->fd, ".", DIRECTORY_FLAGS);
	struct directory d = { .fd = fd,
		.parent_fd = place->fd,
		.name = w->base,
		.names = w->base };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		err_set(w->err, KODA_IO, errno, "read the directory");
		return err_about(w->err, place->path, NULL);
	}
	w->dev = st.st_dev;
	for (size_t i = 0; i < place->n_parents; i++) {
		if (add_parent(w, &place->parents[i]) < 0)
			return -1;
	}
	r = tell_enter(w, &d);
	if (r == 0)
		r = walk_directory(w, &d);
	return r == 0 ? tell_leave(w, &d) : r;
}

int
walk(const struct walk_rules *rules, const struct walk_place *place, const struct walk_hooks *hooks,
    struct walk_counts *counts, struct koda_error *err)
{
	cleanup(walker_free_at) struct walker *w = calloc(1, sizeof(*w));
	const bool in_git =
	    place->in_repository || (rules->flags & KODA_SEARCH_NO_REQUIRE_GIT) != 0;
	const size_t len = strlen(place->path);

	if (len > PATH_LEN_MAX)
		return err_set(err, KODA_INVALID, 0, "the path of the place is too long");
	if (w == NULL || names_init(&w->names) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "walk through a directory");
	w->rules = rules;
	w->hooks = hooks;
	w->counts = counts;
	w->err = err;
	memcpy(w->path, place->path, len + 1);
	w->base = strcmp(place->path, "/") == 0 ? 1 : len + 1;
	chain_init(&w->chain, w->base, in_git, WALK_RULES_MAX);
	return walk_place(w, place);
}
