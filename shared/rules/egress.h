/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (policy, host, port) -> may it be reached; (policy, address) -> may a name lead there. Pure, and
 * the only place that decides: the proxy, `explain net` and compose's property test all call it.
 *
 *   1. denied_domains matches: no, whatever else matches (without a port: every port)
 *   2. any_domain: yes
 *   3. allowed_domains matches host and port: yes
 *   4. nothing matches: no; but the user may be asked about a host (not an address), if there is a
 *      user to ask
 *
 * In a slot whose commands the user has not approved (a draft in Safe), 2 and 3 are not enough: the user is
 * asked for each host that they allow (egress_unapproved()).
 *
 * An address that is not public is reached only when a rule of allowed_domains names that address
 * (with the port), whatever name led to it. An address of denied_domains is never reached.
 */
#ifndef KODA_SHARED_RULES_EGRESS_H
#define KODA_SHARED_RULES_EGRESS_H

#include "shared/rules/address.h"
#include "shared/rules/policy.h"

enum egress_decision {
	EGRESS_ALLOW,
	EGRESS_DENY,
	/* No rule matches: denied, unless the user is asked and says yes. */
	EGRESS_UNNAMED,
};

struct egress_verdict {
	enum egress_decision decision;
	const char *rule;    /* "allowed_domains", "denied_domains", "any_domain", "address",
			      * "not_approved", "nobody_to_ask" */
	const char *pattern; /* the rule's own text, or NULL */
	bool any_sni;        /* the TLS server name need not be the host's */
};

/* The policy's lists, prepared for look-up. Keeps pointers into the policy, which must outlive
 * it. */
struct egress_rules;
struct egress_rules *egress_rules_new(const struct policy *p, struct koda_error *err);
void egress_rules_free(struct egress_rules *rules);

/* Judge a host. It is canonical (domain_host_parse) and of that kind. */
struct egress_verdict egress_judge(const struct egress_rules *rules, const char *host,
    enum domain_kind kind, unsigned port);
/* The verdict on a host that a rule allows, in a slot where each host needs the user's consent, and
 * that the user has not approved. can_ask: there is a user who was asked. */
struct egress_verdict egress_unapproved(bool can_ask);
/* Judge the address that a name (or a literal) has led to. own: it is an address of this
 * machine. */
struct egress_verdict egress_judge_address(const struct egress_rules *rules,
    const struct sockaddr *sa, unsigned port, bool own);

/* Write one sentence for a model and its user: host and port, which rule, which mode, what to
 * do. Returns its length. */
#define EGRESS_SENTENCE_MAX 512
size_t egress_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct egress_verdict *v, enum koda_mode mode);
/* The same for an address; the sentence has the class of the address that the name led to. */
size_t egress_address_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct sockaddr *sa, bool own, enum koda_mode mode);

#endif
