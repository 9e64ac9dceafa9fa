/*
 * The names of the directories that a walk is in: a stack, the innermost directory's on top, in two arrays that only grow. So a
 * name costs no allocation, and its type comes with it from the kernel. Decides nothing.
 */
#ifndef KODA_SEARCH_NAMES_H
#define KODA_SEARCH_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one getdents64 fills: a few hundred names, which is more than most directories have. */
#define NAMES_BUFFER_BYTES (32u << 10)
/* Of all directories that the walk is in. More were made to be a burden; a million names need a tenth of that. */
#define NAMES_BYTES_MAX (256u << 20)
/* FUSE's; the others end at 255. */
#define NAMES_NAME_MAX 1024

/* Names that a directory has, as far as a walk cares. */
enum names_special {
	NAMES_GIT = 1 << 0,       /* .git, whatever it is */
	NAMES_GIT_DIR = 1 << 1,   /* a directory of that name */
	NAMES_GITIGNORE = 1 << 2, /* the others: regular files, as far as the kernel says */
	NAMES_IGNORE = 1 << 3,
	NAMES_RGIGNORE = 1 << 4,
};

struct name {
	uint64_t key; /* the first bytes, so that most comparisons are one of numbers */
	uint32_t at;  /* in the text */
	uint16_t len;
	uint8_t type; /* DT_REG ... */
};

struct names {
	char *text; /* each ends with a slash, then a NUL */
	size_t used, text_size;
	struct name *name;
	size_t n, size;
	struct name *spare; /* for sorting: as large as name */
	unsigned char *buffer;
};

#define NAMES_EMPTY ((struct names){ .text = NULL })

int names_init(struct names *names);
void names_done(struct names *names);

/* Push all names that a directory has but "." and "..", in no order. *ret_special: what there is among them. 0, or -1 with
 * errno; what was read until then is pushed. */
int names_read(struct names *names, int dir_fd, unsigned *ret_special);
/* The same from records as the kernel gives them. */
int names_take(struct names *names, const void *records, size_t len, unsigned *special);

/* For a file system that does not say what its names are. False: it is gone. */
bool names_settle(struct name *name, const struct names *names, int dir_fd);

/* By bytes, a directory as if it had a slash behind its name: so whole paths are in the order of their bytes. */
void names_sort(struct names *names, size_t from);

static inline const char *
name_text(const struct names *names, const struct name *name)
{
	return names->text + name->at;
}

#endif
