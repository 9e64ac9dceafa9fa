/* SPDX-License-Identifier: Apache-2.0 */
/* koda_explain_host(): the proxy's own verdict (shared/rules/egress), without a proxy and without
 * resolving the name. */
#include <stdio.h>
#include <string.h>

#include "host/policy/policy_api.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/egress.h"

#define PORT_DEFAULT 443

static void
free_rules(struct egress_rules **rules)
{
	egress_rules_free(*rules);
}

static void
tell(const struct egress_verdict *v, enum domain_kind kind, enum koda_mode mode,
    struct koda_host_verdict *ret)
{
	size_t n;

	if (ret->asks) {
		snprintf(ret->reason, sizeof(ret->reason),
		    "the user is asked about %s:%u: no rule of the policy names this host with "
		    "this port (rule %s, mode safe)",
		    ret->host, ret->port, v->rule);
		return;
	}
	n = egress_sentence(ret->reason, sizeof(ret->reason), ret->host, ret->port, v, mode);
	if (ret->allowed && kind == DOMAIN_NAME)
		snprintf(ret->reason + n, sizeof(ret->reason) - n,
		    "; its addresses are checked when a command connects");
}

int
koda_explain_host(const struct koda_policy *policy, enum koda_mode mode, const char *host,
    struct koda_host_verdict *ret, struct koda_error *err)
{
	cleanup(free_rules) struct egress_rules *rules = NULL;
	struct koda_host_verdict verdict = { 0 };
	struct egress_verdict v;
	enum domain_kind kind;
	char shown[300];
	const char *why;

	_Static_assert(sizeof(ret->host) > DOMAIN_HOST_MAX, "a host fits");
	if (policy == NULL || host == NULL)
		return err_set(err, KODA_INVALID, 0, "no %s given",
		    policy == NULL ? "policy" : "host");
	if (mode != KODA_PLAN && mode != KODA_SAFE && mode != KODA_AUTO)
		return err_set(err, KODA_INVALID, 0, "no such mode: %d", (int)mode);
	why = domain_authority_parse(host, strlen(host), PORT_DEFAULT, verdict.host, &kind,
	    &verdict.port);
	if (why != NULL) {
		bytes_show(shown, sizeof(shown), host, strlen(host));
		return err_set(err, KODA_INVALID, 0, "'%s' is not a valid host: %s", shown, why);
	}
	rules = egress_rules_new(koda_policy_get(policy), err);
	if (rules == NULL)
		return -1;
	v = egress_judge(rules, verdict.host, kind, verdict.port);
	verdict.allowed = v.decision == EGRESS_ALLOW;
	verdict.asks = v.decision == EGRESS_UNNAMED && mode == KODA_SAFE &&
	    koda_policy_get(policy)->trust != KODA_TRUST_FORBID;
	verdict.rule = v.rule;
	tell(&v, kind, mode, &verdict);
	*ret = verdict;
	return 0;
}
