/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows about commands work on. These end the program on failure. */
#ifndef KODA_BENCH_TREES_H
#define KODA_BENCH_TREES_H

#include <stdbool.h>
#include <stddef.h>

/* It may exist. */
void make_dir(const char *path);

/* Create dir with so many directories, dir0 ..., and in each of them so many files, file0 ..., of
 * `size` bytes, at most FLAT_SIZE_MAX. */
#define FLAT_SIZE_MAX 4096
void make_flat(const char *dir, unsigned dirs, unsigned files, size_t size);

/* Make dir a git repository in which all its files are committed. */
void make_repository(const char *dir);

/* Create dir with 20,000 small files in 2,000 directories. */
void make_big(const char *dir);

/* Create small C files in dir: 50, or fewer if it is to be brief. */
void make_sources(const char *dir, bool brief);

#endif
