/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/egress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"

static const char rule_allowed[] = "allowed_domains";
static const char rule_denied[] = "denied_domains";
static const char rule_any[] = "any_domain";
static const char rule_address[] = "address";
static const char rule_unapproved[] = "not_approved";
static const char rule_nobody[] = "nobody_to_ask";

struct egress_rules {
	bool any_domain;
	struct domain_set *allowed, *denied;
};

struct egress_rules *
egress_rules_new(const struct policy *p, struct koda_error *err)
{
	const struct policy_list *allowed = &p->list[KODA_ALLOWED_DOMAINS];
	const struct policy_list *denied = &p->list[KODA_DENIED_DOMAINS];
	struct egress_rules *rules = calloc(1, sizeof(*rules));

	if (rules == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "egress");
		return NULL;
	}
	rules->any_domain = p->flag[KODA_ANY_DOMAIN];
	rules->allowed = domain_set_new(allowed->v, allowed->n, err);
	if (rules->allowed != NULL)
		rules->denied = domain_set_new(denied->v, denied->n, err);
	if (rules->denied == NULL) {
		egress_rules_free(rules);
		return NULL;
	}
	return rules;
}

void
egress_rules_free(struct egress_rules *rules)
{
	if (rules == NULL)
		return;
	domain_set_free(rules->allowed);
	domain_set_free(rules->denied);
	free(rules);
}

/* ---- verdicts ---- */

static struct egress_verdict
deny(const char *rule, const char *pattern)
{
	return (struct egress_verdict){ EGRESS_DENY, rule, pattern, false };
}

/* Return the denied pattern that names the address, or an IPv4 address that it carries, because it
 * leads there; NULL: none. */
static const char *
denied_address(const struct egress_rules *rules, const struct sockaddr *sa, unsigned port)
{
	struct sockaddr_in carried[ADDRESS_CARRIED_MAX];
	size_t n = address_carried(sa, carried);
	char text[DOMAIN_HOST_MAX + 1];
	const char *by;

	address_text(sa, text);
	by = domain_set_find(rules->denied, text, port, true, NULL);
	for (size_t i = 0; i < n && by == NULL; i++) {
		address_text((const struct sockaddr *)&carried[i], text);
		by = domain_set_find(rules->denied, text, port, true, NULL);
	}
	return by;
}

struct egress_verdict
egress_judge(const struct egress_rules *rules, const char *host, enum domain_kind kind,
    unsigned port)
{
	struct egress_verdict v = { .rule = rule_allowed };
	struct sockaddr_storage addr;
	socklen_t len;
	const char *by;

	if (host[0] == '\0' || port == 0 || port > 65535)
		return deny(rule_allowed, NULL);
	/* Judge the host by its text: a host that is no address is not judged as an address, even
	 * if the caller's kind says so. */
	if (kind != DOMAIN_NAME && !address_parse(host, port, &addr, &len))
		return deny(rule_address, NULL);
	by = kind == DOMAIN_NAME ? domain_set_find(rules->denied, host, port, true, NULL)
				 : denied_address(rules, (const struct sockaddr *)&addr, port);
	if (by != NULL)
		return deny(rule_denied, by);
	v.pattern = domain_set_find(rules->allowed, host, port, false, &v.any_sni);
	if (rules->any_domain &&
	    (kind == DOMAIN_NAME ||
		address_classify((const struct sockaddr *)&addr) == ADDRESS_PUBLIC)) {
		v.decision = EGRESS_ALLOW;
		v.rule = rule_any;
	} else if (v.pattern != NULL) {
		v.decision = EGRESS_ALLOW;
	} else if (kind == DOMAIN_NAME) {
		v.decision = EGRESS_UNNAMED;
	} else {
		v = deny(rules->any_domain ? rule_address : rule_allowed, NULL);
	}
	return v;
}

struct egress_verdict
egress_unapproved(bool can_ask)
{
	return (struct egress_verdict){ EGRESS_UNNAMED, can_ask ? rule_unapproved : rule_nobody,
		NULL, false };
}

struct egress_verdict
egress_judge_address(const struct egress_rules *rules, const struct sockaddr *sa, unsigned port,
    bool own)
{
	char text[DOMAIN_HOST_MAX + 1];
	const char *by;

	address_text(sa, text);
	if (text[0] == '\0' || port == 0 || port > 65535)
		return deny(rule_address, NULL);
	by = denied_address(rules, sa, port);
	if (by != NULL)
		return deny(rule_denied, by);
	by = domain_set_find(rules->allowed, text, port, false, NULL);
	if (by != NULL)
		return (struct egress_verdict){ EGRESS_ALLOW, rule_allowed, by, false };
	if (own || address_classify(sa) != ADDRESS_PUBLIC)
		return deny(rule_address, NULL);
	return (struct egress_verdict){ EGRESS_ALLOW, rule_address, NULL, false };
}

/* ---- sentences ---- */

/* A model reads this and acts on it: the half that says what to do matters most. */
static const char remedy_denied[] = "do not try again, and do not look for another way to reach it";
static const char remedy_ask[] = "do not try again, ask the user";

static size_t
sentence(char *buf, size_t size, const char *host, unsigned port, const char *why, const char *rule,
    enum koda_mode mode, const char *remedy)
{
	int n = snprintf(buf, size, "%s:%u is refused: %s (rule %s, mode %s); %s", host, port, why,
	    rule, policy_mode_name(mode), remedy);

	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size > 0 ? size - 1 : 0;
}

static size_t
allowed_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct egress_verdict *v, enum koda_mode mode)
{
	int n = snprintf(buf, size, "%s:%u is allowed: %s (rule %s, mode %s)%s", host, port,
	    v->rule == rule_any ? "the policy allows every host that it does not deny"
				: "a rule of the policy names it",
	    v->rule, policy_mode_name(mode),
	    v->any_sni ? "; the TLS server name may be another one" : "");

	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size > 0 ? size - 1 : 0;
}

size_t
egress_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct egress_verdict *v, enum koda_mode mode)
{
	struct sockaddr_storage addr;
	socklen_t len;

	if (v->decision == EGRESS_ALLOW)
		return allowed_sentence(buf, size, host, port, v, mode);
	if (strcmp(v->rule, rule_denied) == 0)
		return sentence(buf, size, host, port, "a rule of the policy denies this host",
		    v->rule, mode, remedy_denied);
	if (strcmp(v->rule, rule_unapproved) == 0)
		return sentence(buf, size, host, port,
		    "the command runs in a draft without approval, so the user is asked for each "
		    "host, and has not approved this one",
		    v->rule, mode, remedy_ask);
	if (strcmp(v->rule, rule_nobody) == 0)
		return sentence(buf, size, host, port,
		    "the command runs in a draft without approval, so the user has to approve each "
		    "host, and this session cannot ask the user",
		    v->rule, mode,
		    "ask the user to run it where there is a terminal, without a draft, or in auto "
		    "mode");
	if (strcmp(v->rule, rule_address) == 0 && address_parse(host, port, &addr, &len))
		return egress_address_sentence(buf, size, host, port,
		    (const struct sockaddr *)&addr, false, mode);
	if (mode == KODA_PLAN)
		return sentence(buf, size, host, port, "there is no network in plan mode", v->rule,
		    mode, "do not try again, tell the user what you need from there");
	if (v->decision == EGRESS_DENY)
		return sentence(buf, size, host, port,
		    "no rule of the policy names this address with this port", v->rule, mode,
		    "use the name of the host, or ask the user");
	if (mode == KODA_SAFE)
		return sentence(buf, size, host, port,
		    "no rule of the policy names this host with this port, and the user has not "
		    "approved it",
		    v->rule, mode, remedy_ask);
	return sentence(buf, size, host, port,
	    "no rule of the policy names this host with this port", v->rule, mode, remedy_ask);
}

size_t
egress_address_sentence(char *buf, size_t size, const char *host, unsigned port,
    const struct sockaddr *sa, bool own, enum koda_mode mode)
{
	const enum address_class class = address_classify(sa);
	char why[160], text[DOMAIN_HOST_MAX + 1];
	bool literal;

	address_text(sa, text);
	literal = strcmp(host, text) == 0;
	/* The sentence has the class and not the address, which may be known only inside a
	 * company. */
	if (class == ADDRESS_PUBLIC && !own)
		return sentence(buf, size, host, port,
		    literal ? "a rule of the policy denies this address"
			    : "it leads to an address that a rule of the policy denies",
		    rule_denied, mode, remedy_denied);
	if (class == ADDRESS_PUBLIC)
		snprintf(why, sizeof(why), "it %s an address of this machine, which no rule allows",
		    literal ? "is" : "leads to");
	else
		snprintf(why, sizeof(why), "it %s a %s address, which no rule allows",
		    literal ? "is" : "leads to", address_class_name(class));
	return sentence(buf, size, host, port, why, rule_address, mode,
	    class == ADDRESS_LOOPBACK
		? "connect to a server inside the sandbox without the proxy, and ask the user "
		  "about one outside"
		: remedy_ask);
}
