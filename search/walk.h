/*
 * The walk of a search: everything below one place that the options let through, in the order of the bytes of the
 * path, on descriptors. Follows no link, never leaves the place, reads the ignore files on its way.
 *
 * Decides what is looked at (ignore rules, globs, types, hidden names, mount points) with the pure halves: glob.h (one
 * pattern), ignore.h (the rules of one file), chain.h (those that count here). Touches directories and ignore files only; what is in a file is the business
 * of whoever it is told to. What the policy hides is asked for through `readable`; nothing is told of such names, they are
 * counted.
 */
#ifndef KODA_SEARCH_WALK_H
#define KODA_SEARCH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"

/* Ignore files are read as far as this; one that is larger was made to be a burden. */
#define WALK_IGNORE_BYTES_MAX (4u << 20)
/* The rules of all ignore files that count in one place of the tree. */
#define WALK_RULES_MAX 100000
/* The depth of a tree: a descriptor each, and the kernel's PATH_MAX ends it soon after. */
#define WALK_DEPTH_MAX 1000
/* Of one search, braces written out. Each may have to be held against each name. */
#define WALK_GLOBS_MAX 10000

/* A compiled selection: flags, globs, types, the user's own excludes file. For all places of one search. */
struct walk_rules;

struct walk_rules_options {
	unsigned flags; /* enum koda_search_flags; others than those of the walk are ignored */
	const char *const *globs; /* as in struct koda_search_options */
	size_t n_globs;
	const char *const *types, *const *types_not; /* names (shared/base/filetypes) */
	size_t n_types, n_types_not;
	const char *global; /* content of the user's own excludes file, or NULL */
	size_t global_len;
	unsigned max_depth; /* 0: all */
};

/* NULL with *err set: KODA_INVALID naming the glob or type that makes no sense, KODA_TOO_LARGE for one that would cost too
 * much. */
struct walk_rules *walk_rules_new(const struct walk_rules_options *options, struct koda_error *err);
void walk_rules_free(struct walk_rules *rules);

/* Valid until the callback returns. */
struct walk_entry {
	const char *path; /* below the place, no slash at the ends; "": the place itself */
	size_t len;
	const char *name;   /* its last component: what to open below dir_fd */
	int dir_fd;         /* the directory that holds it (readable, not O_PATH) */
	unsigned depth;     /* of what is in the place: 1 */
	unsigned char type; /* DT_REG, DT_DIR, DT_LNK, DT_FIFO ...; never DT_UNKNOWN */
};

struct walk_hooks {
	void *data;
	/* May the policy let it be read? path is canonical: the place's and the entry's. With is_dir also when it may not, but
	 * something below it may: such a directory is entered, and nothing is told of what else is in it. */
	bool (*readable)(void *data, const char *path, bool is_dir);
	/* A directory is entered, the place itself first, before what is in it (which is left out at max_depth); may be NULL.
	 * Non-zero: stop the walk. */
	int (*enter)(void *data, const struct walk_entry *entry);
	/* Something that is no directory. Non-zero: stop the walk. */
	int (*file)(void *data, const struct walk_entry *entry);
	/* All below it has been told; may be NULL. */
	int (*leave)(void *data, const struct walk_entry *entry);
	/* This could not be looked at. errnum: why. */
	void (*trouble)(void *data, const struct walk_entry *entry, int errnum);
};

struct walk_place {
	int fd;           /* the directory itself, O_PATH will do; stays the caller's */
	const char *path; /* canonical */
	/* Ignore files above it that count (option parents): read by the caller's resolver, since they are outside of the
	 * place. From the outermost in; NULL and 0 for none. */
	const struct walk_parent *parents;
	size_t n_parents;
	bool in_repository; /* it is in a git work tree whose top is above it */
};

/* A directory above the place. */
struct walk_parent {
	const char *path; /* canonical */
	/* Contents, or NULL; exclude: .git/info/exclude of a work tree. */
	const char *gitignore, *ignore, *rgignore, *exclude;
	size_t gitignore_len, ignore_len, rgignore_len, exclude_len;
	bool is_worktree; /* it has a .git: rules of .gitignore above it do not reach into it */
};

struct walk_counts {
	/* Names that `readable` refused, of those that the rules let through, and directories that were entered all the same. What
	 * is in those is not counted: rules could be made to count one name at a time. */
	uint64_t hidden;
};

/* 0: all was told. 1: a hook stopped it. -1 with *err set: memory, or the place itself cannot be read. */
int walk(const struct walk_rules *rules, const struct walk_place *place,
    const struct walk_hooks *hooks, struct walk_counts *counts, struct koda_error *err);

#endif
