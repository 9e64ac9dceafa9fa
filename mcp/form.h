/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form beside a question that a client shows its user: it asks for how long a yes is. Pure. The
 * question itself is in show/question.h.
 */
#ifndef KODA_MCP_FORM_H
#define KODA_MCP_FORM_H

#include <jansson.h>

#include "include/koda/sandbox.h"

/*
 * Returns the form. covers is what a yes for the session would cover; NULL: the session is not
 * offered.
 */
json_t *form_new(enum koda_op_kind kind, const char *covers, size_t covers_len, bool effects);
/*
 * Returns the scope of an answer. The action "accept" is a yes; the form only says for how long. A
 * scope that the form cannot express is not a yes.
 */
enum koda_scope form_scope(const json_t *result);

#endif
