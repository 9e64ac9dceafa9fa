/*
 * The policy's data type: what a trusted host hands to a sandbox. Every field of the schema in one
 * struct, its composition and its packed form. Who decides with it: shared/rules/access, shared/rules/egress. Who derives it
 * from a mode: host/policy/trust.
 *
 * A list has three states: absent (n == 0, !present) inherits in policy_compose and otherwise
 * permits nothing; present and empty permits nothing; present.
 *
 * Packing lives in policy.c; unpacking in policy_unpack.c, which only worker and proxy link: a test holds it.
 */
#ifndef KODA_SHARED_RULES_POLICY_H
#define KODA_SHARED_RULES_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

#define POLICY_DEPTH_DEFAULT 3
#define POLICY_DEPTH_MIN     8    /* fewer links than this are found in ordinary trees */
#define POLICY_DEPTH_MAX     40   /* the kernel's own limit */
#define POLICY_RULES_MAX     4096 /* per list: a policy has to fit a frame beside the rest of Seal */
#define POLICY_PACKED_MAX    (512u << 10)

struct policy_list {
	bool present;
	size_t n;
	char **v; /* NUL-terminated; the policy's */
	/* A hash table of v, made by policy_list_add(): 0, or 1 + the index of a rule. */
	uint32_t *slot;
	size_t n_slots; /* 0, or a power of two above n */
};

struct policy_limit {
	bool set;
	uint64_t value;
};

struct policy_socket {
	char *domain, *path;
};

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

/* Names as in the schema, by enum: for printing, errors and tests. Sections "fs", "net", "limits". */
extern const char *const policy_list_name[KODA_N_LISTS];
extern const char *const policy_flag_name[KODA_N_FLAGS];
extern const char *const policy_limit_name[KODA_N_LIMITS];

/* "plan" ...: for sentences. */
const char *policy_mode_name(enum koda_mode mode);

/* All defaults: nothing present, nothing unlimited is limited, depth 3, trust auto. */
void policy_init(struct policy *p);
void policy_done(struct policy *p);
int policy_copy(struct policy *dst, const struct policy *src, struct koda_error *err);

/* Append unless it is there already; the list becomes present. Does not judge the rule. */
int policy_list_add(struct policy_list *list, const char *rule, struct koda_error *err);

/* The rule alone, as somebody wrote it: an absolute path; a domain pattern (shared/rules/domain), with " any-sni" only where it
 * allows. KODA_INVALID with why. */
int policy_path_check(const char *path, struct koda_error *err);
enum policy_domain_use {
	POLICY_DOMAIN_ALLOWS, /* allowed_domains */
	POLICY_DOMAIN_OTHER,
};
int policy_domain_check(const char *pattern, enum policy_domain_use use, struct koda_error *err);

/* The whole: bounds, enums, every rule; paths have to be canonical text and domains normalised, since
 * any other would never match. What the worker holds against the bytes it got. */
int policy_check(const struct policy *p, struct koda_error *err);

/* What a command is waited for at most, in seconds. */
#define POLICY_WALL_TIME_MAX 300
/* Can a limit of that value be held? A higher one would be lowered by somebody without a word, so it is refused. */
int policy_limit_check(enum koda_limit limit, uint64_t value, struct koda_error *err);

/* What both allow. See the header of policy.c for each field's rule and why it never widens. */
int policy_compose(const struct policy *parent, const struct policy *child, struct policy *ret,
    struct koda_error *err);

bool policy_equal(const struct policy *a, const struct policy *b);

/* May that place be read, by deny_read and its holes alone? The longest rule that names the place
 * decides, deny on a tie. *ret_rule (may be NULL) is its text, NULL when none names it. */
bool policy_reads(const struct policy *p, const char *path, const char **ret_rule);

/* min(max(depth, POLICY_DEPTH_MIN), POLICY_DEPTH_MAX) */
unsigned policy_effective_depth(const struct policy *p);

/* Deterministic: equal policies give equal bytes. *ret is the caller's. */
int policy_pack(const struct policy *p, uint8_t **ret, size_t *ret_len, struct koda_error *err);
/* Strict: message_check, then policy_check. *ret is initialised on success only. */
int policy_unpack(const uint8_t *data, size_t len, struct policy *ret, struct koda_error *err);

/* BLAKE2b-256 of packed bytes. */
void policy_digest(const uint8_t *packed, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* One call a value in schema order, as koda_policy_visit. */
int policy_visit(const struct policy *p, koda_policy_visit_fn *fn, void *data);

#endif
