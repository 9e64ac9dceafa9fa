/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a search as JSON, one object each, and a last one for the search as a whole. */
#ifndef KODA_CLI_SEARCH_JSON_H
#define KODA_CLI_SEARCH_JSON_H

#include <jansson.h>

#include "cli/search_print.h"

/* operands as in struct search_printer. */
json_t *search_json_found(const char *const *operands, size_t n_operands,
    const struct koda_found *found);
/* The last object, with {"ok": true}. */
json_t *search_json_result(const struct koda_search_result *result);

#endif
