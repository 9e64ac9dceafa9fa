/* Is a policy valid? Bounds, enums and every rule. */
#include <inttypes.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/rules/domain.h"
#include "shared/rules/names.h"
#include "shared/rules/policy.h"

static bool
is_domain_list(enum koda_list list)
{
	return list == KODA_ALLOWED_DOMAINS || list == KODA_DENIED_DOMAINS;
}

static enum policy_domain_use
domain_use(enum koda_list list)
{
	return list == KODA_ALLOWED_DOMAINS ? POLICY_DOMAIN_ALLOWS : POLICY_DOMAIN_OTHER;
}

int
policy_path_check(const char *path, struct koda_error *err)
{
	char shown[256];

	if (path == NULL || path_check((const uint8_t *)path, strlen(path), err) < 0) {
		if (path == NULL)
			err_set(err, KODA_INVALID, 0, "there is no path");
		return err_wrap(err, "a rule of the policy");
	}
	if (path[0] != '/') {
		bytes_show(shown, sizeof(shown), path, strlen(path));
		return err_set(err, KODA_INVALID, 0, "the path '%s' of a rule is not absolute",
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
		return err_set(err, KODA_INVALID, 0, "a rule of the policy: there is no domain");
	why = domain_parse(pattern, &d);
	if (why == NULL && d.any_sni && use != POLICY_DOMAIN_ALLOWS)
		why = "any-sni is for what allows";
	if (why == NULL)
		return 0;
	bytes_show(shown, sizeof(shown), pattern, strlen(pattern));
	return err_set(err, KODA_INVALID, 0, "the domain '%s' of a rule is refused: %s", shown,
	    why);
}

static int
rule_refuse(struct koda_error *err, size_t list, const char *rule, const char *why)
{
	char shown[256];

	bytes_show(shown, sizeof(shown), rule, strlen(rule));
	return err_set(err, KODA_INVALID, 0, "policy: %s '%s': %s", policy_list_name[list], shown,
	    why);
}

/* The highest value of each limit that can be enforced unchanged, and why a higher one cannot. */
static const struct {
	uint64_t max;
	const char *why;
} limit_max[KODA_N_LIMITS] = {
	[KODA_CPU_TIME_SECS] = { 1000000000, "the kernel counts nanoseconds in 64 bits" },
	[KODA_WALL_TIME_SECS] = { POLICY_WALL_TIME_MAX,
	    "no command is waited for longer; run a longer one in the background" },
	[KODA_MAX_RSS_BYTES] = { UINT64_MAX, "" },
	[KODA_MAX_OPEN_FDS] = { 1u << 20, "the kernel gives no process more (fs.nr_open)" },
	[KODA_MAX_OUTPUT_BYTES] = { 1u << 30, "it is kept in memory" },
	[KODA_MAX_PROCESSES] = { 1u << 22, "the kernel has no more process numbers" },
	[KODA_MAX_FILE_BYTES] = { INT64_MAX, "no file can be larger" },
};

int
policy_limit_check(enum koda_limit limit, uint64_t value, struct koda_error *err)
{
	if (value <= limit_max[limit].max)
		return 0;
	return err_set(err, KODA_INVALID, 0,
	    "policy: %s is %" PRIu64 ", and at most %" PRIu64
	    " can be held: %s. Set that or less, or leave the limit out",
	    policy_limit_name[limit], value, limit_max[limit].max, limit_max[limit].why);
}

int
policy_check(const struct policy *p, struct koda_error *err)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		const struct policy_list *list = &p->list[i];

		if (list->n > POLICY_RULES_MAX)
			return err_set(err, KODA_INVALID, 0, "policy: %s has more than %d rules",
			    policy_list_name[i], POLICY_RULES_MAX);
		if (list->n > 0 && !list->present)
			return err_set(err, KODA_INVALID, 0, "policy: %s has rules and is absent",
			    policy_list_name[i]);
		for (size_t k = 0; k < list->n; k++) {
			const char *rule = list->v[k];

			if (is_domain_list((enum koda_list)i)) {
				if (policy_domain_check(rule, domain_use((enum koda_list)i), err) <
				    0)
					return -1;
				if (!domain_is_normalised(rule))
					return rule_refuse(err, i, rule, "it is not in lower case");
			} else if (i == KODA_DENY_WRITE_NAMES) {
				if (names_check(rule, err) < 0)
					return -1;
				if (!names_is_normalised(rule))
					return rule_refuse(err, i, rule, "it is not in lower case");
			} else {
				if (policy_path_check(rule, err) < 0)
					return -1;
				if (!path_is_canonical(rule, strlen(rule)))
					return rule_refuse(err, i, rule, "it is not canonical");
			}
		}
	}
	for (size_t i = 0; i < KODA_N_LIMITS; i++)
		if (p->limit[i].set &&
		    policy_limit_check((enum koda_limit)i, p->limit[i].value, err) < 0)
			return -1;
	if (p->trust != KODA_TRUST_AUTO && p->trust != KODA_TRUST_REQUIRE &&
	    p->trust != KODA_TRUST_FORBID)
		return err_set(err, KODA_INVALID, 0, "policy: trust has no such value: %d",
		    (int)p->trust);
	if (p->ca_bundle == NULL && p->n_sockets > 0)
		return err_set(err, KODA_INVALID, 0, "policy: mitm has sockets and no ca_bundle");
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
