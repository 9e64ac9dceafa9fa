/* SPDX-License-Identifier: Apache-2.0 */
/* The known places of a scan, the paths at which nothing may appear, and where the scan looks. */
#ifndef KODA_WORKER_SCAN_SCAN_KNOWN_H
#define KODA_WORKER_SCAN_SCAN_KNOWN_H

#include "shared/rules/access.h"
#include "worker/files/resolve.h"
#include "worker/scan/scan_found.h"

struct scan;
struct guard;

/* ---- basics ---- */

/* Set *err to KODA_INTERNAL. Returns -1. */
int scan_no_memory(struct koda_error *err);
/* Make room for one more element. Returns 0, or -1 without memory. */
int scan_grow(void *array, size_t n, size_t *size, size_t each);
void stamp_of(const struct stat *st, struct stamp *ret);
bool same_stamp(enum what what, const struct stamp *a, const struct stamp *b);
bool has_name(int dir_fd, const char *name);
/* Returns true if the directory has the entries by which git recognizes a git directory. */
bool has_git_shape(int dir_fd);
/* Returns the name of the rule for that kind; static. */
const char *scan_rule(enum what what);

/* ---- what the scan is for ---- */

struct quarantine *scan_quarantine(struct scan *sc);
const struct resolver *scan_resolver(const struct scan *sc);
const struct access_subject *scan_who(const struct scan *sc);
/* Returns true if harmless things are to be left as they are. */
bool scan_is_gentle(const struct scan *sc);
/* Returns true if that canonical path is inside a scanned root. */
bool scan_covers(const struct scan *sc, const char *path);
/* Returns true if it is, and not in a cache: a repository may be kept there. */
bool scan_keeps(const struct scan *sc, const char *path);
/* Returns true if the directory at that canonical path has the shape of a git directory. */
bool scan_is_git_dir(const struct scan *sc, const char *path);

/* ---- known places ---- */

struct known *known_at(struct scan *sc, const char *path);
void forget_known(struct scan *sc, struct known *k);
struct known *remember(struct scan *sc, enum what what, const char *path, const struct stamp *stamp,
    bool sealed);
bool is_told(enum what what);
void tell_place(struct scan *sc, struct known *k);
/* Returns true if it is still where it was. */
bool known_is_there(const struct scan *sc, const struct known *k);

/* ---- guards ---- */

int add_guard(struct scan *sc, const char *path, enum what what);
const struct guard *guard_at(const struct scan *sc, const char *dir, size_t dir_len,
    const char *name, bool *ret_last);
bool has_guards(struct scan *sc, uint32_t idx, const char *path);
/* Add a path that an existing place names or leads to. If it exists it becomes a known place; in
 * any case it is guarded. */
void scan_add_target(struct scan *sc, enum what what, const char *path, bool link);

#endif
