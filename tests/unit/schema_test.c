/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/schema.c: our subset of JSON Schema: which values are valid, and where the others are not.
 * The tools' own schemas stay within it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/schema.h"
#include "mcp/tools.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

/* clang-format off */
#define EDITS "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"minLength\":1},\"edits\":{\"type\":\"array\"," \
	"\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"object\",\"properties\":{\"old\":{\"type\":\"string\"}}," \
	"\"required\":[\"old\"],\"additionalProperties\":false}}},\"required\":[\"path\"],\"additionalProperties\":false}"

static const struct {
	const char *label, *schema, *value;
	const char *why; /* NULL: valid */
} cases[] = {
	{ "anything", "{}", "[1,null,{}]", NULL },
	{ "string", "{\"type\":\"string\"}", "\"a\"", NULL },
	{ "number for a string", "{\"type\":\"string\"}", "1", "is not a string" },
	{ "null for a string", "{\"type\":\"string\"}", "null", "is not a string" },
	{ "integer", "{\"type\":\"integer\"}", "-5", NULL },
	{ "fraction for an integer", "{\"type\":\"integer\"}", "1.5", "is not an integer" },
	{ "string for an integer", "{\"type\":\"integer\"}", "\"1\"", "is not an integer" },
	{ "integer for a number", "{\"type\":\"number\"}", "1", NULL },
	{ "boolean", "{\"type\":\"boolean\"}", "false", NULL },
	{ "number for a boolean", "{\"type\":\"boolean\"}", "0", "is not a boolean" },
	{ "minimum", "{\"type\":\"integer\",\"minimum\":0}", "0", NULL },
	{ "below the minimum", "{\"type\":\"integer\",\"minimum\":0}", "-1", "is less than 0" },
	{ "above the maximum", "{\"type\":\"integer\",\"maximum\":10}", "11", "is more than 10" },
	{ "length in characters", "{\"type\":\"string\",\"maxLength\":2}", "\"\xc3\xbc\xc3\xbc\"", NULL },
	{ "too long", "{\"type\":\"string\",\"maxLength\":2}", "\"abc\"", "is longer than 2 characters" },
	{ "empty", "{\"type\":\"string\",\"minLength\":1}", "\"\"", "is empty" },
	{ "one of", "{\"enum\":[\"a\",\"b\"]}", "\"b\"", NULL },
	{ "none of", "{\"enum\":[\"a\",\"b\"]}", "\"c\"", "is not one of [\"a\",\"b\"]" },
	{ "object", EDITS, "{\"path\":\"a\"}", NULL },
	{ "object, deep", EDITS, "{\"path\":\"a\",\"edits\":[{\"old\":\"\"},{\"old\":\"x\"}]}", NULL },
	{ "array for an object", EDITS, "[]", "is not an object" },
	{ "missing", EDITS, "{}", "'path' is missing" },
	{ "strange", EDITS, "{\"path\":\"a\",\"file\":1}", "file: there is no such argument" },
	{ "wrong inside", EDITS, "{\"path\":5}", "path: is not a string" },
	{ "wrong deep inside", EDITS, "{\"path\":\"a\",\"edits\":[{\"old\":\"\"},{\"old\":1}]}", "edits[1].old: is not a string" },
	{ "missing deep inside", EDITS, "{\"path\":\"a\",\"edits\":[{}]}", "edits[0]: 'old' is missing" },
	{ "too few", EDITS, "{\"path\":\"a\",\"edits\":[]}", "edits: has fewer than 1 items" },
	{ "too many", EDITS, "{\"path\":\"a\",\"edits\":[1,2,3]}", "edits: has more than 2 items" },
};

static const struct {
	const char *label, *schema;
	bool known;
} keywords[] = {
	{ "known keywords", EDITS, true },
	{ "a keyword that nobody judges", "{\"type\":\"string\",\"pattern\":\"a\"}", false },
	{ "one deep inside", "{\"properties\":{\"a\":{\"items\":{\"oneOf\":[]}}}}", false },
	{ "a schema for what else there is", "{\"additionalProperties\":{\"type\":\"string\"}}", false },
	{ "no schema", "[]", false },
};
/* clang-format on */

static json_t *
parse(const char *text)
{
	json_t *ret = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(ret);
	return ret;
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	json_t *schema = parse(cases[i].schema), *value = parse(cases[i].value);
	char why[SCHEMA_WHY_MAX];

	assert_true(schema_is_known(schema));
	assert_int_equal(schema_holds(schema, value, why), cases[i].why == NULL);
	assert_string_equal(why, cases[i].why != NULL ? cases[i].why : "");
	json_decref(schema);
	json_decref(value);
}

static void
check_known(void **state)
{
	const size_t i = (uintptr_t)*state;
	json_t *schema = parse(keywords[i].schema);

	assert_int_equal(schema_is_known(schema), keywords[i].known);
	json_decref(schema);
}

/* A client may make up names of any length. */
static void
long_names(void **state)
{
	json_t *schema = parse("{\"properties\":{},\"additionalProperties\":false}");
	json_t *value = json_object();
	char why[SCHEMA_WHY_MAX], name[4096];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	json_object_set_new(value, name, json_null());
	assert_false(schema_holds(schema, value, why));
	assert_non_null(strstr(why, "there is no such argument"));
	json_decref(schema);
	json_decref(value);
}

static bool
has_required(const json_t *schema)
{
	const json_t *properties = json_object_get(schema, "properties"), *name;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name)
	{
		if (json_object_get(properties, json_string_value(name)) == NULL)
			return false;
	}
	return true;
}

static void
of_tools(void **state)
{
	for (size_t i = 0; i < n_tools; i++) {
		const json_t *in = tools_input(i), *out = tools_output(i);

		if (!schema_is_known(in) || !schema_is_known(out))
			fail_msg("%s: a keyword that is not judged", tools[i].name);
		if (!has_required(in) || !has_required(out))
			fail_msg("%s: requires what it does not describe", tools[i].name);
		assert_string_equal(json_string_value(json_object_get(in, "type")), "object");
		assert_string_equal(json_string_value(json_object_get(out, "type")), "object");
		assert_true(json_is_false(json_object_get(in, "additionalProperties")));
	}
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(keywords) + 2];
	size_t n = 0;

	CASES(cases, check_case);
	CASES(keywords, check_known);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_names);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(of_tools);
	return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
