/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in the directories that a walk is in: a stack with the innermost directory's names on
 * top, in two arrays that only grow. So a name costs no allocation, and the kernel provides its
 * type with it. Decides nothing.
 */
#ifndef KODA_SEARCH_NAMES_H
#define KODA_SEARCH_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of one getdents64 call: a few hundred names, more than most directories have. */
#define NAMES_BUFFER_BYTES (32u << 10)
/* The most for all directories that the walk is in. A million names need a tenth of that; more
 * is an attack. */
#define NAMES_BYTES_MAX (256u << 20)
/* FUSE's limit; other file systems allow 255. */
#define NAMES_NAME_MAX 1024

/* Special names in a directory that matter to a walk. */
enum names_special {
	NAMES_GIT = 1 << 0,     /* .git of any type */
	NAMES_GIT_DIR = 1 << 1, /* .git that is a directory */
	/* This one and the later ones: regular files, as far as the kernel reports types. */
	NAMES_GITIGNORE = 1 << 2,
	NAMES_IGNORE = 1 << 3,
	NAMES_RGIGNORE = 1 << 4,
};

struct dir_name {
	uint64_t key; /* the first bytes: most comparisons are of numbers */
	uint32_t at;  /* offset in the text */
	uint16_t len;
	uint8_t type; /* DT_REG ... */
};

struct dir_names {
	char *text; /* each name ends with a slash and a NUL */
	size_t used, text_size;
	struct dir_name *name;
	size_t n, size;
	struct dir_name *spare; /* for sorting: as large as name */
	unsigned char *buffer;
};

#define NAMES_EMPTY ((struct dir_names){ .text = NULL })

int names_init(struct dir_names *names);
void names_done(struct dir_names *names);

/* Pushes all names in a directory except "." and "..", unordered. *ret_special: the special ones
 * among them. Returns 0, or -1 with errno; the names read before the error are pushed. */
int names_read(struct dir_names *names, int dir_fd, unsigned *ret_special);
/* Like names_read(), from records of getdents64. */
int names_take(struct dir_names *names, const void *records, size_t len, unsigned *special);

/* Finds the type of a name if the file system did not report it. Returns false if the file is
 * gone or memory is short. */
bool names_settle(struct dir_name *name, const struct dir_names *names, int dir_fd);

/* Sorts by bytes, a directory as if a slash followed its name: so whole paths are in the order
 * of their bytes. */
void names_sort(struct dir_names *names, size_t from);

static inline const char *
name_text(const struct dir_names *names, const struct dir_name *name)
{
	return names->text + name->at;
}

#endif
