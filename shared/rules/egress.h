/*
 * (policy, host, port) -> may it be reached; (policy, address) -> may a name lead there. Pure, and the one place that
 * decides: the proxy, `explain net` and compose's property test all ask here.
 *
 *   1. a denied domain: no, whatever else names it (without a port: every port)
 *   2. any_domain: yes
 *   3. allowed_domains names host and port: yes
 *   4. nothing names it: no; but a host (not an address) may be asked for, where there is somebody to ask
 *
 * An address that is not public is reached only when a rule of allowed_domains names that address (with the port),
 * whatever name led to it; and denied_domains' addresses never.
 */
#ifndef KODA_SHARED_RULES_EGRESS_H
#define KODA_SHARED_RULES_EGRESS_H

#include "shared/rules/address.h"
#include "shared/rules/policy.h"

enum egress_decision {
	EGRESS_ALLOW,
	EGRESS_DENY,
	EGRESS_UNNAMED, /* no rule speaks of it: denied, unless somebody is asked and says yes */
};

struct egress_verdict {
	enum egress_decision decision;
	const char *rule;    /* "allowed_domains", "denied_domains", "any_domain", "address" */
	const char *pattern; /* the rule's own text, or NULL */
	bool any_sni;        /* the TLS server name need not be the host's */
};

/* The policy's lists, prepared; keeps pointers into the policy, which has to stay. */
struct egress_rules;
struct egress_rules *egress_rules_new(const struct policy *p, struct koda_error *err);
void egress_rules_free(struct egress_rules *rules);

/* host canonical (domain_host_parse), of that kind. */
struct egress_verdict egress_judge(const struct egress_rules *rules, const char *host,
    enum domain_kind kind, unsigned port);
/* The address that a name (or a literal) has led to. own: it is one of this machine's. */
struct egress_verdict egress_judge_address(const struct egress_rules *rules,
    const struct sockaddr *sa, unsigned port, bool own);

/* One sentence for a model and its user: host and port, what rule, what mode, what to do. Returns its length. */
#define EGRESS_SENTENCE_MAX 512
size_t egress_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct egress_verdict *v, enum koda_mode mode);
/* The same for an address: which class of address the name led to. */
size_t egress_address_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct sockaddr *sa, bool own, enum koda_mode mode);

#endif
