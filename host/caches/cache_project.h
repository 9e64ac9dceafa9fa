/*
 * What a project's directory of layers is called (host/caches/cache_store): NAME-HASH-IDENTITY, of the root's path and of the
 * directory that lies there. A project that is deleted and another one that is made at its path are two: what the commands
 * of the first left in caches is not for the commands of the second.
 */
#ifndef KODA_HOST_CACHES_CACHE_PROJECT_H
#define KODA_HOST_CACHES_CACHE_PROJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

#define CACHE_IDENTITY 16 /* hexadecimal digits */

/* Its path, there or not: the caller's. NULL with *err set. */
char *cache_project_path(const char *root, const char *home, struct koda_error *err);

/* Is that one of the projects that lie, or have lain, at a root? `path` names all of them, without an identity
 * (state_caches_path); of both only the last name counts. */
bool cache_project_is_of(const char *one, const char *path);

/* Remove the layers of the others that have lain at the root of this one, but for those that are used. */
void cache_project_remove_others(int caches, const char *path, uint64_t deadline);

#endif
