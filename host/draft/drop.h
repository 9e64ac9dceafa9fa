/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting single changes of a draft: the host removes names in a layer, by name and type alone. */
#ifndef KODA_HOST_DRAFT_DROP_H
#define KODA_HOST_DRAFT_DROP_H

#include "host/draft/store.h"

/* Forget the change at that canonical path, with everything below it: what the project has there shows
 * again. Nothing may use the draft. Returns 0, also if there is none, or -1 with *err set. */
int draft_drop(const struct draft *d, size_t layer, const char *path, struct koda_error *err);

/* Forget that the directory at that path has other permissions: it gets `mode`. What is in it stays.
 * Returns as draft_drop() does. */
int draft_drop_mode(const struct draft *d, size_t layer, const char *path, uint32_t mode,
    struct koda_error *err);

#endif
