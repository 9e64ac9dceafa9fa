/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of a search: everything below one place that the options let through, in the order of
 * the bytes of the path, on descriptors. Follows no link, never leaves the place, reads the ignore
 * files on its way.
 *
 * Decides what is reported (ignore rules, globs, types, hidden names, mount points) with the pure
 * halves: walk_rules.h (the selection), glob.h (one pattern), ignore.h (the rules of one file),
 * chain.h (those that apply here). Opens only directories and ignore files; the content of files is
 * left to the hooks. Asks `readable` whether the policy hides a name; hidden names are not reported,
 * only counted.
 */
#ifndef KODA_SEARCH_WALK_H
#define KODA_SEARCH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"

/* Ignore files are read up to this size; a larger one is an attack. */
#define WALK_IGNORE_BYTES_MAX (4u << 20)
/* Maximal depth of a tree: each level takes a descriptor, and the kernel's PATH_MAX is reached
 * soon after. */
#define WALK_DEPTH_MAX 1000

struct walk_rules;

/* Valid until the callback returns. */
struct walk_entry {
	const char *path; /* relative to the place, no slash at the ends; "": the place itself */
	size_t len;
	const char *name;   /* its last component, to open below dir_fd */
	int dir_fd;         /* the directory that holds it (readable, not O_PATH) */
	unsigned depth;     /* 1 for entries directly in the place */
	unsigned char type; /* DT_REG, DT_DIR, DT_LNK, DT_FIFO ...; never DT_UNKNOWN */
};

struct walk_hooks {
	void *data;
	/*
	 * Does the policy allow reading it? path: canonical, of the place and the entry. With
	 * is_dir also true if something below it may be read: such a directory is entered, and
	 * nothing else in it is reported.
	 */
	bool (*readable)(void *data, const char *path, bool is_dir);
	/* A directory is entered; the place itself first; before its contents (which are skipped
	 * at max_depth). May be NULL. Non-zero: stop the walk. */
	int (*enter)(void *data, const struct walk_entry *entry);
	/* Something that is not a directory. Non-zero: stop the walk. */
	int (*file)(void *data, const struct walk_entry *entry);
	/* Everything below the directory was reported. May be NULL. Non-zero: stop the walk. */
	int (*leave)(void *data, const struct walk_entry *entry);
	/* An entry could not be read. errnum: why. */
	void (*trouble)(void *data, const struct walk_entry *entry, int errnum);
};

struct walk_place {
	int fd;           /* the directory, possibly O_PATH; stays the caller's */
	const char *path; /* canonical */
	/* Directories above it whose ignore files apply (option parents), outermost first. Read
	 * by the caller's resolver, because they are outside of the place. NULL and 0 for none. */
	const struct walk_parent *parents;
	size_t n_parents;
	bool in_repository; /* it is in a git work tree whose top is above it */
};

/* A directory above the place. */
struct walk_parent {
	const char *path; /* canonical */
	/* Contents, or NULL. exclude: .git/info/exclude of a work tree. */
	const char *gitignore, *ignore, *rgignore, *exclude;
	size_t gitignore_len, ignore_len, rgignore_len, exclude_len;
	bool is_worktree; /* it has a .git: rules of .gitignore above it do not apply in it */
};

struct walk_counts {
	/*
	 * Names that the rules let through and `readable` refused, and directories that were
	 * entered all the same. The contents of those directories are not counted: with suitable
	 * rules the counts would reveal one name at a time.
	 */
	uint64_t hidden;
};

/* Walks the place. Returns 0 if everything was reported, 1 if a hook stopped it, -1 with *err
 * set: memory is short, or the place itself cannot be read. */
int walk(const struct walk_rules *rules, const struct walk_place *place,
    const struct walk_hooks *hooks, struct walk_counts *counts, struct koda_error *err);

#endif
