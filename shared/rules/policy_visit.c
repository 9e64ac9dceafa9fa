/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as text: each value with the names of its section and field. */
#include <inttypes.h>
#include <stdio.h>

#include "shared/base/cleanup.h"
#include "shared/rules/policy_field.h"

struct visitor {
	koda_policy_visit_fn *fn;
	void *data;
	int stop; /* what fn returned; once it is not 0, fn is not called any more */
};

static void
visit_value(struct visitor *v, const struct policy_field *f, const char *name, const char *value)
{
	if (v->stop == 0)
		v->stop = v->fn(v->data, policy_section_name[f->section], name, value);
}

static void
visit_number(struct visitor *v, const struct policy_field *f, uint64_t value)
{
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	visit_value(v, f, f->name, number);
}

static void
visit_list(struct visitor *v, const struct policy_field *f, const struct policy_list *list)
{
	if (list->present && list->n == 0)
		visit_value(v, f, f->name, NULL);
	for (size_t i = 0; i < list->n; i++)
		visit_value(v, f, f->name, list->v[i]);
}

static void
visit_choice(struct visitor *v, const struct policy_field *f, unsigned value)
{
	const char *name = policy_field_choice(f, value);

	visit_value(v, f, f->name, name != NULL ? name : "invalid");
}

static int
visit_mitm(struct visitor *v, const struct policy_field *f, const struct policy *p)
{
	if (p->ca_bundle != NULL)
		visit_value(v, f, "mitm.ca_bundle", p->ca_bundle);
	for (size_t i = 0; i < p->n_sockets && v->stop == 0; i++) {
		cleanup_free char *pair = NULL;

		if (asprintf(&pair, "%s=%s", p->sockets[i].domain, p->sockets[i].path) < 0) {
			pair = NULL;
			return -1;
		}
		visit_value(v, f, "mitm.socket_map", pair);
	}
	return 0;
}

static int
visit_field(struct visitor *v, const struct policy_field *f, const struct policy *p)
{
	const void *member = policy_field_in(p, f);

	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		visit_list(v, f, member);
		return 0;
	case POLICY_FLAG:
		visit_value(v, f, f->name, *(const bool *)member ? "true" : "false");
		return 0;
	case POLICY_LIMIT:
		if (((const struct policy_limit *)member)->set)
			visit_number(v, f, ((const struct policy_limit *)member)->value);
		return 0;
	case POLICY_NUMBER:
		visit_number(v, f, policy_field_number(p, f));
		return 0;
	case POLICY_CHOICE:
		visit_choice(v, f, policy_field_number(p, f));
		return 0;
	case POLICY_MITM:
		return visit_mitm(v, f, p);
	}
	return -1;
}

int
policy_visit(const struct policy *p, koda_policy_visit_fn *fn, void *data)
{
	struct visitor v = { .fn = fn, .data = data };

	for (size_t i = 0; i < POLICY_N_FIELDS && v.stop == 0; i++) {
		if (visit_field(&v, &policy_fields[i], p) < 0)
			return -1;
	}
	return v.stop;
}
