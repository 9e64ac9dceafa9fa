/* SPDX-License-Identifier: Apache-2.0 */
/* Is a policy valid? Bounds, enums and every rule. */
#include <inttypes.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/rules/domain.h"
#include "shared/rules/names.h"
#include "shared/rules/policy_field.h"

int
policy_path_check(const char *path, struct koda_error *err)
{
	char shown[256];

	if (path == NULL || path_check((const uint8_t *)path, strlen(path), err) < 0) {
		if (path == NULL)
			err_set(err, KODA_INVALID, 0, "the path is missing");
		return err_wrap(err, "a rule of the policy");
	}
	if (path[0] != '/') {
		bytes_show(shown, sizeof(shown), path, strlen(path));
		return err_set(err, KODA_INVALID, 0, "the path '%s' in a rule is not absolute",
		    shown);
	}
	return 0;
}

int
policy_domain_check(const char *pattern, enum policy_domain_use use, struct koda_error *err)
{
	char shown[300];
	struct domain d;
	const char *why;

	if (pattern == NULL)
		return err_set(err, KODA_INVALID, 0, "a rule of the policy: the domain is missing");
	why = domain_parse(pattern, &d);
	if (why == NULL && d.any_sni && use != POLICY_DOMAIN_ALLOWS)
		why = "any-sni can only be in a rule that allows";
	if (why == NULL)
		return 0;
	bytes_show(shown, sizeof(shown), pattern, strlen(pattern));
	return err_set(err, KODA_INVALID, 0, "the domain '%s' in a rule is invalid: %s", shown,
	    why);
}

static int
rule_refuse(struct koda_error *err, const char *list, const char *rule, const char *why)
{
	char shown[256];

	bytes_show(shown, sizeof(shown), rule, strlen(rule));
	return err_set(err, KODA_INVALID, 0, "policy: %s '%s': %s", list, shown, why);
}

static int
rule_check(const struct policy_field *f, const char *rule, struct koda_error *err)
{
	if (f->kind == POLICY_DOMAINS) {
		if (policy_domain_check(rule, policy_field_domain_use(f), err) < 0)
			return -1;
		if (!domain_is_normalised(rule))
			return rule_refuse(err, f->name, rule, "it is not in lower case");
	} else if (f->kind == POLICY_NAMES) {
		if (names_check(rule, err) < 0)
			return -1;
		if (!names_is_normalised(rule))
			return rule_refuse(err, f->name, rule, "it is not in lower case");
	} else {
		if (policy_path_check(rule, err) < 0)
			return -1;
		if (!path_is_canonical(rule, strlen(rule)))
			return rule_refuse(err, f->name, rule, "it is not canonical");
	}
	return 0;
}

static int
list_check(const struct policy_field *f, const struct policy_list *list, struct koda_error *err)
{
	if (list->n > POLICY_RULES_MAX)
		return err_set(err, KODA_INVALID, 0, "policy: %s has more than %d rules", f->name,
		    POLICY_RULES_MAX);
	if (list->n > 0 && !list->present)
		return err_set(err, KODA_INVALID, 0, "policy: %s has rules and is absent", f->name);
	for (size_t i = 0; i < list->n; i++) {
		if (rule_check(f, list->v[i], err) < 0)
			return -1;
	}
	return 0;
}

static int
limit_check(const struct policy_field *f, uint64_t value, struct koda_error *err)
{
	if (value <= f->max)
		return 0;
	return err_set(err, KODA_INVALID, 0,
	    "policy: %s is %" PRIu64 ", and at most %" PRIu64
	    " can be held: %s. Set that or less, or leave the limit out",
	    f->name, value, f->max, f->why);
}

int
policy_limit_check(enum koda_limit limit, uint64_t value, struct koda_error *err)
{
	return limit_check(policy_field_of_limit(limit), value, err);
}

static int
choice_check(const struct policy_field *f, unsigned value, struct koda_error *err)
{
	if (policy_field_choice(f, value) != NULL)
		return 0;
	return err_set(err, KODA_INVALID, 0, "policy: %s has no such value: %d", f->name,
	    (int)value);
}

static int
mitm_check(const struct policy *p, struct koda_error *err)
{
	if (p->ca_bundle == NULL && p->n_sockets > 0)
		return err_set(err, KODA_INVALID, 0, "policy: mitm has sockets but no ca_bundle");
	if (p->ca_bundle != NULL && policy_path_check(p->ca_bundle, err) < 0)
		return -1;
	if (p->n_sockets > POLICY_RULES_MAX)
		return err_set(err, KODA_INVALID, 0, "policy: mitm has more than %d sockets",
		    POLICY_RULES_MAX);
	for (size_t i = 0; i < p->n_sockets; i++) {
		if (policy_domain_check(p->sockets[i].domain, POLICY_DOMAIN_OTHER, err) < 0 ||
		    policy_path_check(p->sockets[i].path, err) < 0)
			return -1;
		if (!domain_is_normalised(p->sockets[i].domain))
			return err_set(err, KODA_INVALID, 0,
			    "policy: the domain of a socket is not in lower case");
	}
	return 0;
}

static int
field_check(const struct policy_field *f, const struct policy *p, struct koda_error *err)
{
	const struct policy_limit *limit;

	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		return list_check(f, policy_field_in(p, f), err);
	case POLICY_LIMIT:
		limit = policy_field_in(p, f);
		return limit->set ? limit_check(f, limit->value, err) : 0;
	case POLICY_CHOICE:
		return choice_check(f, policy_field_number(p, f), err);
	case POLICY_MITM:
		return mitm_check(p, err);
	case POLICY_FLAG:
	case POLICY_NUMBER:
		return 0; /* every value is valid */
	}
	return -1;
}

int
policy_check(const struct policy *p, struct koda_error *err)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (field_check(&policy_fields[i], p, err) < 0)
			return -1;
	}
	return 0;
}
