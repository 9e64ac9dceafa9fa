/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a verdict: egress_judge() with a thousand patterns. Some of the hosts match a
 * pattern, in each form that a pattern can have, and some match none.
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "shared/base/cleanup.h"
#include "shared/rules/egress.h"

#define PATTERNS 1000
#define HOSTS    64
#define REACH_NS 1000.0

static struct {
	struct policy policy;
	struct egress_rules *rules;
	char hosts[HOSTS][DOMAIN_HOST_MAX + 1];
	bool allowed[HOSTS];
	unsigned next;
} w;

static int
judge(void *data)
{
	const unsigned i = w.next++ % HOSTS;
	const struct egress_verdict v = egress_judge(w.rules, w.hosts[i], DOMAIN_NAME, 443);

	if ((v.decision == EGRESS_ALLOW) != w.allowed[i]) {
		fprintf(stderr, "filter: the verdict about %s is wrong\n", w.hosts[i]);
		return -1;
	}
	return 0;
}

/* clang-format off */
static const struct row rows[] = {
	{ "filter", "ns", 1, { judge, NULL, .batch = 16, .repeat = 4096 }, 0, 4, REACH_NS },
};
/* clang-format on */

/* ---- setting up ---- */

static void
add(enum koda_list list, const char *prefix, unsigned i, const char *suffix)
{
	char rule[64];

	snprintf(rule, sizeof(rule), "%sregistry-%u.example.test%s", prefix, i, suffix);
	if (policy_list_add(&w.policy.list[list], rule, NULL) < 0)
		errx(1, "%s", rule);
}

static void
make(const struct setting *set)
{
	policy_init(&w.policy);
	for (unsigned i = 0; i < PATTERNS; i++)
		add(i % 8 == 7 ? KODA_DENIED_DOMAINS : KODA_ALLOWED_DOMAINS, i % 2 == 0 ? "" : "*.",
		    i, i % 8 == 4 ? ":8443" : "");
	for (unsigned i = 0; i < HOSTS; i++) {
		const unsigned rule = i * (PATTERNS / HOSTS) + i % 8;
		const char *prefix = rule % 2 == 0 ? "" : "files.";

		w.allowed[i] = i % 4 != 3 && rule % 8 != 7 && rule % 8 != 4;
		snprintf(w.hosts[i], sizeof(w.hosts[i]), "%s%s-%u.example.test", prefix,
		    i % 4 != 3 ? "registry" : "elsewhere", rule);
	}
}

static int
start(void)
{
	struct koda_error e;

	w.rules = egress_rules_new(&w.policy, &e);
	return w.rules == NULL ? complain_error("filter", &e) : 0;
}

static void
stop(void)
{
	egress_rules_free(w.rules);
}

const struct group filter_group = { "filters", rows, N_ELEMENTS(rows), make, start, stop, NULL,
	NULL };
