/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that a scan knows and, if it can, watches. */
#ifndef KODA_WORKER_SCAN_SCAN_NODE_H
#define KODA_WORKER_SCAN_SCAN_NODE_H

#include "worker/scan/scan_state.h"

void release_node(struct scan *sc, uint32_t idx);
void drop_node(struct scan *sc, uint32_t idx);
uint32_t add_node(struct scan *sc, uint32_t parent, uint8_t root, const char *name);
size_t node_path(const struct scan *sc, uint32_t idx, const char *name, char ret[PATH_LEN_MAX + 1]);
/* Returns true below the refs of a git directory that contains this one. A command can give a
 * directory there the shape of a git directory. */
bool is_in_refs(const struct scan *sc, uint32_t idx);
int open_below(const struct scan *sc, uint8_t root, char *path);
int open_listed(const struct scan *sc, uint8_t root, char *path);
void make_roots_listable(const struct scan *sc);
bool make_listable(const struct scan *sc, const char *path, size_t from);
void stop_watching(struct scan *sc);
void start_watching(struct scan *sc);
int watch_directory(struct scan *sc, int fd, bool content);

#endif
