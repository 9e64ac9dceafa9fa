/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects whether anything below a directory has changed: a sum over the name, inode, type, size
 * and times of each file, as reported by the kernel. Only directories are opened, no link is
 * followed, no other file system is entered.
 *
 * A process that may write a file cannot set back its change time, so a finished change is
 * detected. Not detected are: a change after the look, a change within the same tick of the
 * kernel's clock as the one before, mapped memory that has not been written back yet, what is
 * mounted below, and what lies elsewhere.
 */
#ifndef KODA_MCP_TREE_H
#define KODA_MCP_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* The loop waits for the look: a few tenths of a second at this limit. */
#define TREE_ENTRIES_MAX 200000
#define TREE_DEPTH_MAX   256

struct tree_state {
	uint64_t sum[2];
};

/* Returns false if the tree cannot be read, or is too large. */
bool tree_look(const char *root, struct tree_state *ret);

#endif
