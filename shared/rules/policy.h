/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's data type: what a trusted host gives to a sandbox. Every field of the schema in one
 * struct, its composition and its packed form. Decisions are made in shared/rules/access and
 * shared/rules/egress. host/policy/trust derives a policy from a mode.
 *
 * What is done with every field walks the table in policy_field.c: copies and comparisons
 * (policy_value.c), validation (policy_check.c), composition (policy_compose.c), text
 * (policy_visit.c), packing (policy_pack.c) and unpacking (policy_unpack.c, which only worker,
 * search and proxy link: a test checks that).
 */
#ifndef KODA_SHARED_RULES_POLICY_H
#define KODA_SHARED_RULES_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/rules/policy_list.h"

#define POLICY_DEPTH_DEFAULT 3
#define POLICY_DEPTH_MIN     8  /* chains of links in ordinary trees are shorter */
#define POLICY_DEPTH_MAX     40 /* the kernel's own limit */
#define POLICY_PACKED_MAX    (512u << 10)

struct policy_limit {
	bool set;
	uint64_t value;
};

struct policy_socket {
	char *domain, *path;
};

/* Each member has a row in policy_field.c. */
struct policy {
	struct policy_list list[KODA_N_LISTS];    /* by enum koda_list */
	bool flag[KODA_N_FLAGS];                  /* by enum koda_flag */
	struct policy_limit limit[KODA_N_LIMITS]; /* by enum koda_limit */
	uint8_t depth;
	enum koda_trust trust;
	char *ca_bundle; /* NULL: no mitm */
	struct policy_socket *sockets;
	size_t n_sockets;
};

/* "plan" ...: for sentences. */
const char *policy_mode_name(enum koda_mode mode);

/* Set all defaults: every list absent, no limit set, depth 3, trust auto. */
void policy_init(struct policy *p);
void policy_done(struct policy *p);
int policy_copy(struct policy *dst, const struct policy *src, struct koda_error *err);

/* Check one rule as a user wrote it: an absolute path; a domain pattern (shared/rules/domain),
 * with " any-sni" only in allowed_domains. On failure *err is KODA_INVALID with the reason. */
int policy_path_check(const char *path, struct koda_error *err);
enum policy_domain_use {
	POLICY_DOMAIN_ALLOWS, /* allowed_domains */
	POLICY_DOMAIN_OTHER,
};
int policy_domain_check(const char *pattern, enum policy_domain_use use, struct koda_error *err);

/* Check a whole policy: bounds, enums, every rule. Paths must be canonical and domains
 * normalised, since other texts would never match. The worker checks the policy it receives with
 * this. */
int policy_check(const struct policy *p, struct koda_error *err);

/* The longest that the host waits for a command, in seconds. */
#define POLICY_WALL_TIME_MAX 300
/* Can a limit of that value be enforced? A higher one would be lowered silently later on, so it
 * is refused here. */
int policy_limit_check(enum koda_limit limit, uint64_t value, struct koda_error *err);

/* Store in *ret what both policies allow. The head of policy_compose.c has each field's rule and
 * why it never widens. */
int policy_compose(const struct policy *parent, const struct policy *child, struct policy *ret,
    struct koda_error *err);

bool policy_equal(const struct policy *a, const struct policy *b);

/* May that place be read, by deny_read and its holes alone? The longest rule that names the
 * place decides, deny on a tie. *ret_rule (may be NULL) is that rule's text, or NULL if no rule
 * names the place. */
bool policy_reads(const struct policy *p, const char *path, const char **ret_rule);

/* min(max(depth, POLICY_DEPTH_MIN), POLICY_DEPTH_MAX) */
unsigned policy_effective_depth(const struct policy *p);

/* Pack a policy. Deterministic: equal policies give equal bytes. The caller frees *ret. */
int policy_pack(const struct policy *p, uint8_t **ret, size_t *ret_len, struct koda_error *err);
/* Unpack a policy. Strict: message_check(), then policy_check(). *ret is initialised on success
 * only. */
int policy_unpack(const uint8_t *data, size_t len, struct policy *ret, struct koda_error *err);

/* BLAKE2b-256 of packed bytes. */
void policy_digest(const uint8_t *packed, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* Call fn once for each value in schema order, as koda_policy_visit() does. */
int policy_visit(const struct policy *p, koda_policy_visit_fn *fn, void *data);

#endif
