/* A policy as text: each value with the names of its section and field. */
#include <inttypes.h>
#include <stdio.h>

#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"

struct visitor {
	koda_policy_visit_fn *fn;
	void *data;
	int stop; /* what fn returned; once it is not 0, fn is not called any more */
};

static void
tell(struct visitor *v, const char *section, const char *field, const char *value)
{
	if (v->stop == 0)
		v->stop = v->fn(v->data, section, field, value);
}

static void
tell_list(struct visitor *v, const struct policy *p, const char *section, enum koda_list list)
{
	const struct policy_list *l = &p->list[list];

	if (l->present && l->n == 0)
		tell(v, section, policy_list_name[list], NULL);
	for (size_t i = 0; i < l->n; i++)
		tell(v, section, policy_list_name[list], l->v[i]);
}

static void
tell_flag(struct visitor *v, const struct policy *p, const char *section, enum koda_flag flag)
{
	tell(v, section, policy_flag_name[flag], p->flag[flag] ? "true" : "false");
}

static const char *
trust_name(enum koda_trust trust)
{
	switch (trust) {
	case KODA_TRUST_AUTO:
		return "auto";
	case KODA_TRUST_REQUIRE:
		return "require";
	case KODA_TRUST_FORBID:
		return "forbid";
	}
	return "invalid";
}

int
policy_visit(const struct policy *p, koda_policy_visit_fn *fn, void *data)
{
	struct visitor v = { .fn = fn, .data = data };
	char number[32];

	tell_list(&v, p, "fs", KODA_DENY_READ);
	tell_list(&v, p, "fs", KODA_ALLOW_READ_WITHIN_DENY);
	tell_list(&v, p, "fs", KODA_ALLOW_WRITE);
	tell_list(&v, p, "fs", KODA_DENY_WRITE_WITHIN_ALLOW);
	tell_list(&v, p, "fs", KODA_DENY_WRITE_NAMES);
	tell_flag(&v, p, "fs", KODA_ALLOW_GIT_CONFIG);
	snprintf(number, sizeof(number), "%u", p->depth);
	tell(&v, "fs", "mandatory_deny_search_depth", number);
	tell_flag(&v, p, "fs", KODA_SHARE_CACHES);
	tell_list(&v, p, "net", KODA_ALLOWED_DOMAINS);
	tell_list(&v, p, "net", KODA_DENIED_DOMAINS);
	tell_flag(&v, p, "net", KODA_ANY_DOMAIN);
	tell_flag(&v, p, "net", KODA_ALLOW_LOCAL_BINDING);
	tell_flag(&v, p, "net", KODA_WEAKER_MACOS_ISOLATION);
	if (p->ca_bundle != NULL)
		tell(&v, "net", "mitm.ca_bundle", p->ca_bundle);
	for (size_t i = 0; i < p->n_sockets && v.stop == 0; i++) {
		cleanup_free char *pair = NULL;

		if (asprintf(&pair, "%s=%s", p->sockets[i].domain, p->sockets[i].path) < 0) {
			pair = NULL;
			return -1;
		}
		tell(&v, "net", "mitm.socket_map", pair);
	}
	for (size_t i = 0; i < KODA_N_LIMITS; i++) {
		if (!p->limit[i].set)
			continue;
		snprintf(number, sizeof(number), "%" PRIu64, p->limit[i].value);
		tell(&v, "limits", policy_limit_name[i], number);
	}
	tell(&v, "", "trust", trust_name(p->trust));
	return v.stop;
}
