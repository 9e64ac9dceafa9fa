/*
 * What a Tree tells: each directory with the number and size of all files below it. Those are known when it has been
 * walked, and it comes before what is in it: so the entries that will be told are kept until the end. Pure but for
 * allocation.
 */
#ifndef KODA_SEARCH_LISTING_H
#define KODA_SEARCH_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct listing_entry {
	size_t name; /* in listing.text: the path */
	size_t len;
	uint64_t size, files;
	uint32_t depth;
	uint32_t type; /* Koda__FileType */
};

struct listing {
	unsigned max_depth; /* 0: all */
	uint64_t limit;
	struct listing_entry *v;
	size_t n, size;
	char *text;
	size_t text_len, text_size;
	bool more; /* the limit has left some out */
	/* The directories on the way to where the walk is: their entry, or NONE for one that is not told. */
	size_t *open;
	size_t n_open, open_size;
	uint64_t files, bytes;
};

void listing_init(struct listing *l, unsigned max_depth, uint64_t limit);
void listing_done(struct listing *l);

/* A directory begins, and ends; something else is met. In the order of the walk. -1 with *err set. */
int listing_enter(struct listing *l, const char *path, size_t len, uint32_t depth,
    struct koda_error *err);
void listing_leave(struct listing *l);
int listing_file(struct listing *l, const char *path, size_t len, uint32_t depth, uint32_t type,
    uint64_t size, struct koda_error *err);

#endif
