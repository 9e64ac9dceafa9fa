/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as a value: its defaults, its memory, copies and equality. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/rules/policy_field.h"

void
policy_init(struct policy *p)
{
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (policy_fields[i].initial != 0)
			policy_field_set_number(p, &policy_fields[i], policy_fields[i].initial);
	}
}

static void
mitm_done(struct policy *p)
{
	free(p->ca_bundle);
	for (size_t i = 0; i < p->n_sockets; i++) {
		free(p->sockets[i].domain);
		free(p->sockets[i].path);
	}
	free(p->sockets);
}

void
policy_done(struct policy *p)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const struct policy_field *f = &policy_fields[i];

		if (policy_field_is_list(f))
			policy_list_done(policy_field_in(p, f));
		else if (f->kind == POLICY_MITM)
			mitm_done(p);
	}
	policy_init(p);
}

int
policy_copy(struct policy *dst, const struct policy *src, struct koda_error *err)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (policy_field_copy(&policy_fields[i], &p, src, err) < 0)
			return -1;
	}
	*dst = p;
	policy_init(&p);
	return 0;
}

static bool
text_equal(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
list_equal(const struct policy_list *a, const struct policy_list *b)
{
	if (a->present != b->present || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	}
	return true;
}

static bool
limit_equal(const struct policy_limit *a, const struct policy_limit *b)
{
	return a->set == b->set && (!a->set || a->value == b->value);
}

static bool
mitm_equal(const struct policy *a, const struct policy *b)
{
	if (!text_equal(a->ca_bundle, b->ca_bundle) || a->n_sockets != b->n_sockets)
		return false;
	for (size_t i = 0; i < a->n_sockets; i++) {
		if (strcmp(a->sockets[i].domain, b->sockets[i].domain) != 0 ||
		    strcmp(a->sockets[i].path, b->sockets[i].path) != 0)
			return false;
	}
	return true;
}

static bool
field_equal(const struct policy_field *f, const struct policy *a, const struct policy *b)
{
	const void *ma = policy_field_in(a, f), *mb = policy_field_in(b, f);

	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		return list_equal(ma, mb);
	case POLICY_FLAG:
		return *(const bool *)ma == *(const bool *)mb;
	case POLICY_LIMIT:
		return limit_equal(ma, mb);
	case POLICY_NUMBER:
	case POLICY_CHOICE:
		return policy_field_number(a, f) == policy_field_number(b, f);
	case POLICY_MITM:
		return mitm_equal(a, b);
	}
	return false;
}

bool
policy_equal(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (!field_equal(&policy_fields[i], a, b))
			return false;
	}
	return true;
}
