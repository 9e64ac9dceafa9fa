/*
 * The part of JSON Schema that our tools are described with, judged: what is advertised is what is held. Pure.
 * Known are: type, properties, required, additionalProperties (false), items, enum, minimum, maximum, minLength,
 * maxLength, minItems, maxItems, and what only describes.
 */
#ifndef KODA_MCP_SCHEMA_H
#define KODA_MCP_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define SCHEMA_WHY_MAX 256

/* Is value what the schema says? If not, why is a sentence that says where: "edits[0].old: is not a string". */
bool schema_holds(const json_t *schema, const json_t *value, char why[SCHEMA_WHY_MAX]);

/* Are all of its keywords known here? A schema of ours with another one would promise what nobody judges. */
bool schema_is_known(const json_t *schema);

#endif
