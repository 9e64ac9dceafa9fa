/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A validator for the part of JSON Schema that describes our tools: the advertised schemas are the
 * ones enforced. Pure. Supported are: type, properties, required, additionalProperties (false),
 * items, enum, minimum, maximum, minLength, maxLength, minItems, maxItems, and keywords that only
 * describe.
 */
#ifndef KODA_MCP_SCHEMA_H
#define KODA_MCP_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define SCHEMA_WHY_MAX 256

/* Returns whether value matches the schema. If not, why is a sentence that says where:
 * "edits[0].old: is not a string". */
bool schema_holds(const json_t *schema, const json_t *value, char why[SCHEMA_WHY_MAX]);

/* Returns whether all of the schema's keywords are supported. A schema of ours with another
 * keyword would promise something that is not enforced. */
bool schema_is_known(const json_t *schema);

#endif
