/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a draft, kept to be shown to a person: sorted, counted, and grouped into units, each
 * of which is one line of a summary and one question. Commands chose all names and targets. Pure.
 */
#ifndef KODA_CLI_CHANGES_H
#define KODA_CLI_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

/* More is counted and not kept: a draft may have very many long names. */
#define CHANGES_BYTES_MAX (64u << 20)

struct change_row {
	char *path;
	enum koda_change_kind kind;
	enum koda_file_type type_before, type; /* KODA_FILE_NONE: nothing is there */
	uint64_t size_before, size;
	uint32_t mode_before, mode;
	uint64_t entries;
	char *target_before, *target; /* of links, or NULL */
	char *rule, *reason;          /* NULL: it is not refused */
	char *note;                   /* or NULL */
	bool conflict;
	/* in conflict: what a merge gives */
	enum koda_merge_outcome merge;
	char *merge_reason; /* or NULL */
	char *merged;       /* the merged text; NULL: there is none, or it was not kept */
	size_t merged_len;
	/* a file or directory that was only renamed: the row of its other name, and 1; 0: it was not */
	size_t other;
	char *from; /* it is in such a directory: its old name; or NULL */
};

struct changes_count {
	uint64_t all, created, changed, deleted, mode, refused, conflicts;
	uint64_t mergeable; /* conflicts that merge cleanly */
	uint64_t bytes;     /* of the files that were created or changed */
};

enum change_unit_kind {
	UNIT_CHANGED,
	UNIT_DELETED,
	UNIT_RENAMED,
	UNIT_CREATED, /* a directory: with what was created in it */
	UNIT_MODE,
	UNIT_GIT, /* everything below a git directory */
	UNIT_CONFLICT,
	UNIT_REFUSED, /* a directory: with what is refused in it */
};

struct change_unit {
	enum change_unit_kind kind;
	size_t row;      /* the first of its rows */
	size_t end;      /* after the last of its rows, some of which may belong to other units */
	size_t path_len; /* the part of the row's path that names the unit */
	uint64_t files;  /* not counting directories */
	uint64_t bytes;
};

struct changes {
	struct change_row *row;
	size_t n, room;
	size_t bytes;
	struct changes_count count;
	uint64_t not_kept;
	bool cut; /* the draft has names that the library did not list */
	struct change_unit *unit;
	size_t n_units;
};

/* Which kind of unit the row is in. */
enum change_unit_kind changes_kind(const struct change_row *row);

/* Adds a change. Ends the process if there is no memory. */
void changes_add(struct changes *c, const struct koda_change *change);
/* Adds what a merge gives. Merges come in the order of the changes; *next: where the last one was,
 * which begins with 0. Call it before changes_finish(). */
void changes_add_merge(struct changes *c, const struct koda_merge *merge, size_t *next);
/* Sorts the rows, each directory right before everything below it, and makes the units. */
void changes_finish(struct changes *c);
void changes_done(struct changes *c);

/* Reads a file of the draft or (before) of the project. */
struct changes_content {
	char *
	    data; /* NULL: it could not be read; the reader allocates it, and its caller frees it */
	size_t len;
	bool whole;      /* data is all of it */
	char digest[65]; /* in hexadecimal, or "" */
};
struct changes_reader {
	void (*read)(void *data, const char *path, bool before, size_t max,
	    struct changes_content *ret);
	void *data;
};
/*
 * Finds files that were only renamed: one was deleted, and one with its content created; and directories
 * of which all files were. Compares a limited number of files. Call it before changes_finish().
 */
void changes_pair(struct changes *c, const struct changes_reader *reader);

/* Returns the length of the path of the git directory that the path is, or is below; 0: none. */
size_t changes_git_dir(const char *path);
/* Is the path below the directory with the first len bytes of dir, or that directory? */
bool changes_is_below(const char *path, const char *dir, size_t len);

#endif
