/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a policy's fields: a row for each field of proto/policy.proto, in the order in which
 * they are shown. Whatever is done with every field walks this table: copying, comparing, checking,
 * composing, showing, packing and unpacking. It is for the files that do so, shared/rules/policy*.c
 * and host/policy; everything else uses struct policy. tests/unit/policy_field_test.c fails if a
 * field of the schema or a member of the struct has no row.
 */
#ifndef KODA_SHARED_RULES_POLICY_FIELD_H
#define KODA_SHARED_RULES_POLICY_FIELD_H

#include "shared/rules/policy.h"

/* Which message of the schema has the field. */
enum policy_section {
	POLICY_FS,
	POLICY_NET,
	POLICY_LIMITS,
	POLICY_TOP, /* Policy itself */
	POLICY_N_SECTIONS,
};

/* What a field is: its type in struct policy and in the schema, its valid values, and its text. */
enum policy_kind {
	POLICY_PATHS,   /* struct policy_list of canonical paths */
	POLICY_NAMES,   /* struct policy_list of rules on names */
	POLICY_DOMAINS, /* struct policy_list of domain patterns */
	POLICY_FLAG,    /* bool */
	POLICY_LIMIT,   /* struct policy_limit */
	POLICY_NUMBER,  /* uint8_t */
	POLICY_CHOICE,  /* an enum from 1, with the numbers of the schema */
	POLICY_MITM,    /* the members from ca_bundle to n_sockets */
};

/* How the fields of a parent and a child are composed. No rule permits what one of the two does
 * not: policy_compose.c has the proofs. */
enum policy_compose_rule {
	POLICY_UNION,        /* of two lists that deny */
	POLICY_HOLES,        /* in what deny_read denies: those that both sides permit reading */
	POLICY_INTERSECTION, /* of two lists that allow; an absent child inherits */
	POLICY_BOTH,         /* a flag that both set */
	POLICY_LOWEST,       /* limit; set beats unset */
	POLICY_HIGHEST,      /* number or choice: the higher, the stricter */
	POLICY_OF_PARENT,    /* the child's is ignored */
};

struct policy_field {
	enum policy_section section;
	const char *name; /* as in the schema */
	enum policy_kind kind;
	enum policy_compose_rule rule;
	size_t offset, size; /* of the member in struct policy */
	/* In the generated struct of the section's message: the field and, of a scalar, whether it
	 * is set. */
	size_t wire, wire_has;
	unsigned initial; /* number, choice: the default */
	/* limit: the highest value that can be enforced unchanged, and why a higher one cannot */
	uint64_t max;
	const char *why;
	const char *const *choices; /* choice: the names of its values, by value, then NULL */
};

/* Each list, flag and limit of the public header, and depth, mitm and trust. */
#define POLICY_N_FIELDS (KODA_N_LISTS + KODA_N_FLAGS + KODA_N_LIMITS + 3)
extern const struct policy_field policy_fields[];

extern const char *const policy_section_name[POLICY_N_SECTIONS];

/* Return the row of a list or limit of the public header. */
const struct policy_field *policy_field_of_list(enum koda_list list);
const struct policy_field *policy_field_of_limit(enum koda_limit limit);

static inline bool
policy_field_is_list(const struct policy_field *f)
{
	return f->kind == POLICY_PATHS || f->kind == POLICY_NAMES || f->kind == POLICY_DOMAINS;
}

/* Does a rule of that list deny, rather than allow? */
static inline bool
policy_field_denies(const struct policy_field *f)
{
	return f->rule == POLICY_UNION;
}

/* What a rule of that list of domains is used for. */
static inline enum policy_domain_use
policy_field_domain_use(const struct policy_field *f)
{
	return policy_field_denies(f) ? POLICY_DOMAIN_OTHER : POLICY_DOMAIN_ALLOWS;
}

/* Return the field's member in p, of the type that its kind says. It may be written if p may. */
static inline void *
policy_field_in(const struct policy *p, const struct policy_field *f)
{
	return (char *)(uintptr_t)p + f->offset;
}

/* Read and write a number or a choice. */
unsigned policy_field_number(const struct policy *p, const struct policy_field *f);
void policy_field_set_number(struct policy *p, const struct policy_field *f, unsigned value);

/* Return the name of a choice's value; NULL: it has no such value. */
const char *policy_field_choice(const struct policy_field *f, unsigned value);

/* Copies the field into a policy that still has its default. Returns 0, or -1 with *err set. */
int policy_field_copy(const struct policy_field *f, struct policy *dst, const struct policy *src,
    struct koda_error *err);

#endif
