/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a tree as text, a line for each name, to be compared. */
#ifndef KODA_TESTS_KIT_TREE_STATE_H
#define KODA_TESTS_KIT_TREE_STATE_H

#include <stdbool.h>

/* Which parts of it. */
enum tree_state_part {
	TREE_LINKS = 1 << 0,  /* which names are one file */
	TREE_INODES = 1 << 1, /* and which file that is */
	TREE_MTIMES = 1 << 2, /* of files: when their content changed */
	TREE_MODES = 1 << 3,
};

/* Type, content, attributes of users and the target of each name below the directory, and these parts.
 * The caller frees it. */
char *tree_state(const char *dir, unsigned parts);

/* Returns the first line in which they differ, as text that is valid until the next call; NULL: they
 * are equal. */
const char *tree_difference(const char *want, const char *is);

/* Removes everything below the directory, whatever its permissions are. */
void tree_clear(const char *dir);

#endif
