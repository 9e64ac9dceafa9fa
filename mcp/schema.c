/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The position in the value: a chain on the stack, from the inside out. */
struct at {
	const struct at *up;
	const char *key; /* NULL: index */
	size_t index;
};

static size_t
print_at(const struct at *at, char *out, size_t size)
{
	size_t n = at->up != NULL ? print_at(at->up, out, size) : 0;

	if (at->up == NULL || n >= size)
		return n;
	if (at->key != NULL)
		n += (size_t)snprintf(out + n, size - n, "%s%.40s", n > 0 ? "." : "", at->key);
	else
		n += (size_t)snprintf(out + n, size - n, "[%zu]", at->index);
	return n < size ? n : size - 1;
}

__attribute__((format(printf, 3, 4))) static bool
no(char why[SCHEMA_WHY_MAX], const struct at *at, const char *fmt, ...)
{
	size_t n = print_at(at, why, SCHEMA_WHY_MAX / 2);
	va_list ap;

	n += (size_t)snprintf(why + n, SCHEMA_WHY_MAX - n, "%s", n > 0 ? ": " : "");
	va_start(ap, fmt);
	vsnprintf(why + n, SCHEMA_WHY_MAX - n, fmt, ap);
	va_end(ap);
	return false;
}

static bool
has_type(const json_t *value, const char *type)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return strcmp(type, "object") == 0;
	case JSON_ARRAY:
		return strcmp(type, "array") == 0;
	case JSON_STRING:
		return strcmp(type, "string") == 0;
	case JSON_INTEGER:
		return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
	case JSON_REAL:
		return strcmp(type, "number") == 0;
	case JSON_TRUE:
	case JSON_FALSE:
		return strcmp(type, "boolean") == 0;
	case JSON_NULL:
		return strcmp(type, "null") == 0;
	}
	return false;
}

static bool holds(const json_t *schema, const json_t *value, const struct at *at,
    char why[SCHEMA_WHY_MAX]);

static bool
holds_object(const json_t *schema, const json_t *value, const struct at *at,
    char why[SCHEMA_WHY_MAX])
{
	const json_t *properties = json_object_get(schema, "properties"), *name;
	const bool closed = json_is_false(json_object_get(schema, "additionalProperties"));
	const char *key;
	json_t *member;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name)
	{
		if (json_object_get(value, json_string_value(name)) == NULL)
			return no(why, at, "'%s' is missing", json_string_value(name));
	}
	json_object_foreach((json_t *)value, key, member)
	{
		const json_t *sub = json_object_get(properties, key);
		const struct at below = { .up = at, .key = key };

		if (sub == NULL && closed)
			return no(why, &below, "there is no such argument");
		if (sub != NULL && !holds(sub, member, &below, why))
			return false;
	}
	return true;
}

static bool
holds_array(const json_t *schema, const json_t *value, const struct at *at,
    char why[SCHEMA_WHY_MAX])
{
	const json_t *min = json_object_get(schema, "minItems"),
		     *max = json_object_get(schema, "maxItems"),
		     *items = json_object_get(schema, "items"), *item;
	size_t n = json_array_size(value), i;

	if (min != NULL && n < (size_t)json_integer_value(min))
		return no(why, at, "has fewer than %lld items", (long long)json_integer_value(min));
	if (max != NULL && n > (size_t)json_integer_value(max))
		return no(why, at, "has more than %lld items", (long long)json_integer_value(max));
	if (items == NULL)
		return true;
	json_array_foreach(value, i, item)
	{
		const struct at below = { .up = at, .index = i };

		if (!holds(items, item, &below, why))
			return false;
	}
	return true;
}

/* Returns the length in characters, as JSON Schema counts them. */
static size_t
length_of(const json_t *string)
{
	const char *p = json_string_value(string);
	size_t n = 0;

	for (size_t i = 0; i < json_string_length(string); i++)
		n += ((unsigned char)p[i] & 0xc0) != 0x80;
	return n;
}

static bool
holds_string(const json_t *schema, const json_t *value, const struct at *at,
    char why[SCHEMA_WHY_MAX])
{
	const json_t *min = json_object_get(schema, "minLength"),
		     *max = json_object_get(schema, "maxLength");

	if (min != NULL && length_of(value) < (size_t)json_integer_value(min))
		return json_integer_value(min) == 1 ? no(why, at, "is empty")
						    : no(why, at, "is shorter than %lld characters",
							  (long long)json_integer_value(min));
	if (max != NULL && length_of(value) > (size_t)json_integer_value(max))
		return no(why, at, "is longer than %lld characters",
		    (long long)json_integer_value(max));
	return true;
}

static bool
holds_number(const json_t *schema, const json_t *value, const struct at *at,
    char why[SCHEMA_WHY_MAX])
{
	const json_t *min = json_object_get(schema, "minimum"),
		     *max = json_object_get(schema, "maximum");

	if (min != NULL && json_number_value(value) < json_number_value(min))
		return no(why, at, "is less than %g", json_number_value(min));
	if (max != NULL && json_number_value(value) > json_number_value(max))
		return no(why, at, "is more than %.15g", json_number_value(max));
	return true;
}

static bool
is_one_of(const json_t *choices, const json_t *value)
{
	const json_t *choice;
	size_t i;

	json_array_foreach(choices, i, choice)
	{
		if (json_equal(choice, value))
			return true;
	}
	return false;
}

static bool
no_choice(char why[SCHEMA_WHY_MAX], const struct at *at, const json_t *choices)
{
	char *text = json_dumps(choices, JSON_COMPACT | JSON_ENCODE_ANY);

	no(why, at, "is not one of %.120s", text != NULL ? text : "the allowed values");
	free(text);
	return false;
}

static bool
holds(const json_t *schema, const json_t *value, const struct at *at, char why[SCHEMA_WHY_MAX])
{
	const char *type = json_string_value(json_object_get(schema, "type"));
	const json_t *choices = json_object_get(schema, "enum");

	if (type != NULL && !has_type(value, type))
		return no(why, at, "is not %s %s", strchr("aeiou", type[0]) != NULL ? "an" : "a",
		    type);
	if (choices != NULL && !is_one_of(choices, value))
		return no_choice(why, at, choices);
	if (json_is_object(value))
		return holds_object(schema, value, at, why);
	if (json_is_array(value))
		return holds_array(schema, value, at, why);
	if (json_is_string(value))
		return holds_string(schema, value, at, why);
	return json_is_number(value) ? holds_number(schema, value, at, why) : true;
}

bool
schema_holds(const json_t *schema, const json_t *value, char why[SCHEMA_WHY_MAX])
{
	const struct at top = { 0 };

	why[0] = '\0';
	return holds(schema, value, &top, why);
}

static bool
is_keyword(const char *key)
{
	static const char *const known[] = { "type", "properties", "required",
		"additionalProperties", "items", "enum", "minimum", "maximum", "minLength",
		"maxLength", "minItems", "maxItems", "title", "description", "default",
		"enumNames" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(key, known[i]) == 0)
			return true;
	}
	return false;
}

bool
schema_is_known(const json_t *schema)
{
	const json_t *additional = json_object_get(schema, "additionalProperties"),
		     *items = json_object_get(schema, "items");
	const char *key;
	json_t *member;

	if (!json_is_object(schema) || (additional != NULL && !json_is_false(additional)))
		return false;
	json_object_foreach((json_t *)schema, key, member)
	{
		if (!is_keyword(key))
			return false;
	}
	json_object_foreach(json_object_get(schema, "properties"), key, member)
	{
		if (!schema_is_known(member))
			return false;
	}
	return items == NULL || schema_is_known(items);
}
