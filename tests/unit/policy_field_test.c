/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a policy's fields (shared/rules/policy_field.c) is complete: each field of
 * proto/policy.proto, each member of struct policy and each list, flag and limit of the public
 * header has exactly one row, and the row's offsets, names and kinds are those of the schema.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/policy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy_field.h"

static const ProtobufCMessageDescriptor *const sections[POLICY_N_SECTIONS] = {
	[POLICY_FS] = &koda__fs_policy__descriptor,
	[POLICY_NET] = &koda__net_policy__descriptor,
	[POLICY_LIMITS] = &koda__limits__descriptor,
	[POLICY_TOP] = &koda__policy__descriptor,
};

#define MESSAGE PROTOBUF_C_TYPE_MESSAGE

/* What the schema says of a field of each kind. */
static const struct {
	ProtobufCType type;
	const void *message; /* its descriptor, or NULL */
	size_t size;         /* of the member; 0: any */
} kinds[] = {
	/* clang-format off */
	[POLICY_PATHS]   = { MESSAGE, &koda__path_list__descriptor, sizeof(struct policy_list) },
	[POLICY_NAMES]   = { MESSAGE, &koda__name_list__descriptor, sizeof(struct policy_list) },
	[POLICY_DOMAINS] = { MESSAGE, &koda__domain_list__descriptor, sizeof(struct policy_list) },
	[POLICY_FLAG]    = { PROTOBUF_C_TYPE_BOOL, NULL, sizeof(bool) },
	[POLICY_LIMIT]   = { PROTOBUF_C_TYPE_UINT64, NULL, sizeof(struct policy_limit) },
	[POLICY_NUMBER]  = { PROTOBUF_C_TYPE_UINT32, NULL, sizeof(uint8_t) },
	[POLICY_CHOICE]  = { PROTOBUF_C_TYPE_ENUM, NULL, sizeof(unsigned) },
	[POLICY_MITM]    = { MESSAGE, &koda__mitm__descriptor, 0 },
	/* clang-format on */
};

/* ---- rows and schema ---- */

static void
each_row_is_a_field_of_the_schema(void **state)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const struct policy_field *f = &policy_fields[i];
		const ProtobufCFieldDescriptor *d =
		    protobuf_c_message_descriptor_get_field_by_name(sections[f->section], f->name);

		if (d == NULL)
			fail_msg("%s.%s is not in the schema", policy_section_name[f->section],
			    f->name);
		print_message("# %s.%s\n", policy_section_name[f->section], f->name);
		assert_int_equal(d->label, PROTOBUF_C_LABEL_OPTIONAL);
		assert_int_equal(d->type, kinds[f->kind].type);
		assert_int_equal(d->offset, f->wire);
		if (kinds[f->kind].type == MESSAGE)
			assert_ptr_equal(d->descriptor, kinds[f->kind].message);
		else
			assert_int_equal(d->quantifier_offset, f->wire_has);
		if (kinds[f->kind].size != 0)
			assert_int_equal(f->size, kinds[f->kind].size);
	}
}

static bool
is_section(const char *name)
{
	for (size_t i = 0; i < POLICY_TOP; i++) {
		if (strcmp(name, policy_section_name[i]) == 0)
			return true;
	}
	return false;
}

static void
each_field_of_the_schema_has_one_row(void **state)
{
	for (size_t s = 0; s < POLICY_N_SECTIONS; s++) {
		for (size_t k = 0; k < sections[s]->n_fields; k++) {
			const char *name = sections[s]->fields[k].name;
			size_t rows = 0;

			for (size_t i = 0; i < POLICY_N_FIELDS; i++)
				rows += policy_fields[i].section == s &&
				    strcmp(policy_fields[i].name, name) == 0;
			if (rows != (s == POLICY_TOP && is_section(name) ? 0 : 1))
				fail_msg("%s.%s has %zu rows in policy_field.c",
				    policy_section_name[s], name, rows);
		}
	}
	for (size_t s = 0; s < POLICY_TOP; s++)
		assert_ptr_equal(protobuf_c_message_descriptor_get_field_by_name(
				     &koda__policy__descriptor, policy_section_name[s])
				     ->descriptor,
		    sections[s]);
}

/* One row stands for these, so a field more in them would have none. */
static void
messages_of_one_row_have_no_other_fields(void **state)
{
	assert_int_equal(koda__path_list__descriptor.n_fields, 1);
	assert_int_equal(koda__name_list__descriptor.n_fields, 1);
	assert_int_equal(koda__domain_list__descriptor.n_fields, 1);
	assert_int_equal(koda__mitm__descriptor.n_fields, 2);
	assert_int_equal(koda__socket_map__descriptor.n_fields, 2);
}

static void
choices_are_those_of_the_schema(void **state)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const struct policy_field *f = &policy_fields[i];
		const ProtobufCEnumDescriptor *d;
		size_t n = 0;

		assert_true((f->choices != NULL) == (f->kind == POLICY_CHOICE));
		if (f->choices == NULL)
			continue;
		d = protobuf_c_message_descriptor_get_field_by_name(sections[f->section], f->name)
			->descriptor;
		while (f->choices[n + 1] != NULL)
			n++;
		assert_int_equal(n, d->n_values);
		for (size_t k = 0; k < n; k++) {
			char name[64];

			snprintf(name, sizeof(name), "%s_%s", f->name, f->choices[k + 1]);
			for (char *c = name; *c != '\0'; c++)
				*c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
			assert_string_equal(d->values[k].name, name);
			assert_int_equal(d->values[k].value, k + 1);
		}
		assert_non_null(policy_field_choice(f, f->initial));
		assert_null(policy_field_choice(f, 0));
		assert_null(policy_field_choice(f, (unsigned)n + 1));
		assert_null(policy_field_choice(f, UINT32_MAX));
	}
}

/* ---- rows and struct policy ---- */

static void
no_two_rows_share_a_member(void **state)
{
	uint8_t rows[sizeof(struct policy)] = { 0 };

	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const struct policy_field *f = &policy_fields[i];

		assert_true(f->size > 0 && f->offset + f->size <= sizeof(rows));
		for (size_t k = f->offset; k < f->offset + f->size; k++) {
			if (rows[k]++ != 0)
				fail_msg("%s shares a member with another row", f->name);
		}
	}
}

/* Every member is something else than 0, and the padding is 0. Without a value for each member this
 * does not compile. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
static char *text;
static uint32_t slot;
static uint16_t rule;
static struct policy_socket socket;
static union {
	struct policy policy;
	uint8_t bytes[sizeof(struct policy)];
} all = { {
    { [0 ... KODA_N_LISTS - 1] = { true, 1, &text, &slot, 1, { &rule, 1 }, { &rule, 1 } } },
    { [0 ... KODA_N_FLAGS - 1] = true }, { [0 ... KODA_N_LIMITS - 1] = { true, 1 } }, 1, /* depth */
    KODA_TRUST_FORBID,                                                                   /* trust */
    (char *)&text, /* ca_bundle */
    &socket,       /* sockets */
    1,             /* n_sockets */
} };
#pragma GCC diagnostic pop

static void
each_member_has_a_row(void **state)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++)
		memset(all.bytes + policy_fields[i].offset, 0, policy_fields[i].size);
	for (size_t i = 0; i < sizeof(all); i++) {
		if (all.bytes[i] != 0)
			fail_msg("byte %zu of struct policy has no row in policy_field.c", i);
	}
}

static void
each_enumerator_of_the_header_has_a_row(void **state)
{
	size_t flags = 0;

	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		const struct policy_field *f = policy_field_of_list((enum koda_list)i);

		assert_non_null(f);
		assert_true(policy_field_is_list(f));
		assert_int_equal(f->offset, offsetof(struct policy, list[i]));
	}
	for (size_t i = 0; i < KODA_N_LIMITS; i++) {
		const struct policy_field *f = policy_field_of_limit((enum koda_limit)i);

		assert_non_null(f);
		assert_int_equal(f->kind, POLICY_LIMIT);
		assert_int_equal(f->offset, offsetof(struct policy, limit[i]));
		/* A field with a maximum says why there is one. */
		assert_true(f->max == UINT64_MAX || f->why[0] != '\0');
		assert_true(f->max > 0);
	}
	for (size_t i = 0; i < POLICY_N_FIELDS; i++)
		flags += policy_fields[i].kind == POLICY_FLAG;
	assert_int_equal(flags, KODA_N_FLAGS);
}

/* ---- rows and composition ---- */

/* Each rule is for certain kinds: another kind would be composed by the wrong type. */
static void
each_rule_fits_its_kind(void **state)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const struct policy_field *f = &policy_fields[i];
		bool fits = false;

		switch (f->rule) {
		case POLICY_UNION:
			fits = policy_field_is_list(f) && strncmp(f->name, "den", 3) == 0;
			break;
		case POLICY_HOLES:
			fits = f == policy_field_of_list(KODA_ALLOW_READ_WITHIN_DENY);
			break;
		case POLICY_INTERSECTION:
			fits = (f->kind == POLICY_PATHS || f->kind == POLICY_DOMAINS) &&
			    strncmp(f->name, "allow", 5) == 0;
			break;
		case POLICY_BOTH:
			fits = f->kind == POLICY_FLAG;
			break;
		case POLICY_LOWEST:
			fits = f->kind == POLICY_LIMIT;
			break;
		case POLICY_HIGHEST:
			fits = f->kind == POLICY_NUMBER || f->kind == POLICY_CHOICE;
			break;
		case POLICY_OF_PARENT:
			fits = true;
			break;
		}
		if (!fits)
			fail_msg("%s is composed by a rule of another kind", f->name);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_a_field_of_the_schema),
		cmocka_unit_test(each_field_of_the_schema_has_one_row),
		cmocka_unit_test(messages_of_one_row_have_no_other_fields),
		cmocka_unit_test(choices_are_those_of_the_schema),
		cmocka_unit_test(no_two_rows_share_a_member),
		cmocka_unit_test(each_member_has_a_row),
		cmocka_unit_test(each_enumerator_of_the_header_has_a_row),
		cmocka_unit_test(each_rule_fits_its_kind),
	};

	return cmocka_run_group_tests_name("policy_field", tests, NULL, NULL);
}
