/*
 * Has anything below a directory changed? A sum over all that is there: name, inode, type, size and times of each file,
 * told by the kernel; nothing is opened but directories, no link is followed, no other file system entered.
 *
 * A change time cannot be set back by whoever may write the file, so a change that is over is seen. Not seen are: one that
 * happens after the look, one inside the kernel's clock tick of the one before, memory that is mapped and not yet written
 * back, what is mounted below, and what lies elsewhere.
 */
#ifndef KODA_MCP_TREE_H
#define KODA_MCP_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* The loop waits for it: a few tenths of a second at this. */
#define TREE_ENTRIES_MAX 200000
#define TREE_DEPTH_MAX   256

struct tree_state {
	uint64_t sum[2];
};

/* False: it cannot be looked at, or is too large. */
bool tree_look(const char *root, struct tree_state *ret);

#endif
