/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on the files of a tree, as programs do them. A seed and the number of an operation
 * say all about it, given the tree: so two trees that begin equal, and in which the same operations
 * are done, end equal. Times of content are set to what the number says.
 */
#ifndef KODA_TESTS_KIT_TREE_OPS_H
#define KODA_TESTS_KIT_TREE_OPS_H

#include <stdbool.h>

#define TREE_OPS_MAX 256

/* Makes what a tree begins with, in an empty directory, where the descriptor leads. `outside` is a
 * directory beside it, for files that have a name there, too; NULL: they have none. */
void tree_begin(const char *dir, const char *outside, unsigned long long seed);

/*
 * Does the operations of which `wanted` has a '1', in the working directory, and prints a line for
 * each: what was done, and how it ended.
 */
void tree_do(unsigned long long seed, const char *wanted);

#endif
