/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a project's directory of layers (host/caches/cache_store): NAME-HASH-IDENTITY, made
 * from the root's path and from the identity of the directory at that path. If a project is deleted
 * and another one is made at its path, these are two projects: what the commands of the first left
 * in caches is not for the commands of the second.
 */
#ifndef KODA_HOST_CACHES_CACHE_PROJECT_H
#define KODA_HOST_CACHES_CACHE_PROJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

#define CACHE_IDENTITY 16 /* hexadecimal digits */

/* Returns the path of that directory, whether it exists or not, which the caller owns; or NULL
 * with *err set. */
char *cache_project_path(const char *root, const char *home, struct koda_error *err);

/* Returns true if `one` is a project that is, or was, at a root. `path` names all of them,
 * without an identity (state_caches_path()). Of both only the last component counts. */
bool cache_project_is_of(const char *one, const char *path);

/* Remove the layers of the other projects that were at the root of this one, except layers in
 * use. */
void cache_project_remove_others(int caches, const char *path, uint64_t deadline);

#endif
