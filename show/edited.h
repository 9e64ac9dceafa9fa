/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes what replacements make of a content, to show the change as a whole. Pure, with a limit
 * for the work: the server waits for it.
 */
#ifndef KODA_SHOW_EDITED_H
#define KODA_SHOW_EDITED_H

#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

/* A larger content is not computed. */
#define EDITED_MAX (4u << 20)

/*
 * Returns the content after the edits, which the caller frees, with its length and the number of
 * replacements; or NULL if that takes too much work, or memory.
 */
char *edited_content(const void *content, size_t len, const struct koda_edit *edits, size_t n_edits,
    size_t *ret_len, uint64_t *ret_replacements);

#endif
