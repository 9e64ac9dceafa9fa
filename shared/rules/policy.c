/*
 * Why compose never widens, field by field.
 *
 * - denies (deny_read, deny_write_within_allow, deny_write_names, denied_domains): the union. What
 *   one side denies stays denied.
 * - read holes: one is kept if both sides permit reading at exactly that place. Say the result
 *   permits x. Either no deny of the union names x, then none of either side does; or the longest
 *   hole h that names x is longer than every deny that names x. All rules that name x are ancestors
 *   of one another, so the denies of a side that name x are those that name h, and they are shorter
 *   than h. That side permits h, so it has no such deny, or a hole at or above h that is longer
 *   than all of them, and that hole names x too. So that side permits x.
 * - allow_write: what both a rule of the parent and one of the child name, which is the longer of
 *   the two when one is inside the other. An absent child inherits. An absent parent permits
 *   nothing, so neither does the result.
 * - allowed_domains with any_domain: the allowed set of a side is any ? everything : list. The
 *   result's any is the AND; its list lies within both sets: PxC, C's list only where the parent's
 *   set is everything, P's list only where the child's is. any_domain means every name, with its
 *   own TLS server name; it does not open an address that is not public or is this machine's. So
 *   where one side has any_domain, any-sni and the addresses of the other side are left out, also
 *   public ones: this machine knows whose an address is, the policy does not. An absent child
 *   list inherits: the result is then the parent's list alone.
 * - flags: AND. Limits: minimum, set beats unset. Trust: the strictest. mitm: the parent's, for it
 *   says who may look into the traffic. Depth: the maximum; it bounds work, every hop is judged.
 *
 * The composition of a policy with itself is that policy: rules that both lists have literally come
 * first, in the parent's order, and an intersection that something in the result covers is left
 * out.
 */
#include "shared/rules/policy.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "proto/policy.pb-c.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/domain.h"
#include "shared/rules/names.h"

const char *const policy_list_name[KODA_N_LISTS] = {
	[KODA_DENY_READ] = "deny_read",
	[KODA_ALLOW_READ_WITHIN_DENY] = "allow_read_within_deny",
	[KODA_ALLOW_WRITE] = "allow_write",
	[KODA_DENY_WRITE_WITHIN_ALLOW] = "deny_write_within_allow",
	[KODA_ALLOWED_DOMAINS] = "allowed_domains",
	[KODA_DENIED_DOMAINS] = "denied_domains",
	[KODA_DENY_WRITE_NAMES] = "deny_write_names",
};

const char *const policy_flag_name[KODA_N_FLAGS] = {
	[KODA_ALLOW_GIT_CONFIG] = "allow_git_config",
	[KODA_ANY_DOMAIN] = "any_domain",
	[KODA_ALLOW_LOCAL_BINDING] = "allow_local_binding",
	[KODA_WEAKER_MACOS_ISOLATION] = "weaker_macos_isolation",
	[KODA_SHARE_CACHES] = "share_caches",
};

const char *const policy_limit_name[KODA_N_LIMITS] = {
	[KODA_CPU_TIME_SECS] = "cpu_time_secs",
	[KODA_WALL_TIME_SECS] = "wall_time_secs",
	[KODA_MAX_RSS_BYTES] = "max_rss_bytes",
	[KODA_MAX_OPEN_FDS] = "max_open_fds",
	[KODA_MAX_OUTPUT_BYTES] = "max_output_bytes",
	[KODA_MAX_PROCESSES] = "max_processes",
	[KODA_MAX_FILE_BYTES] = "max_file_bytes",
};

/* ---- the struct ---- */

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

const char *
policy_mode_name(enum koda_mode mode)
{
	switch (mode) {
	case KODA_PLAN:
		return "plan";
	case KODA_SAFE:
		return "safe";
	case KODA_AUTO:
		return "auto";
	}
	return "unknown";
}

void
policy_init(struct policy *p)
{
	memset(p, 0, sizeof(*p));
	p->depth = POLICY_DEPTH_DEFAULT;
	p->trust = KODA_TRUST_AUTO;
}

static void
list_done(struct policy_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	free(list->slot);
	memset(list, 0, sizeof(*list));
}

void
policy_done(struct policy *p)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++)
		list_done(&p->list[i]);
	free(p->ca_bundle);
	for (size_t i = 0; i < p->n_sockets; i++) {
		free(p->sockets[i].domain);
		free(p->sockets[i].path);
	}
	free(p->sockets);
	policy_init(p);
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
}

/* ---- lists ---- */

/* With fewer rules, comparing with all of them is faster than a table. */
#define LIST_HASHED_MIN 16

/* FNV-1a. Rules made to collide cost no more than a comparison with all rules, of which there
 * are at most POLICY_RULES_MAX. */
static uint32_t
rule_hash(const char *rule)
{
	uint32_t h = 2166136261u;

	for (; *rule != '\0'; rule++)
		h = (h ^ (unsigned char)*rule) * 16777619u;
	return h;
}

/* Return the slot that has the rule, or the free one where it belongs. */
static uint32_t *
list_slot(const struct policy_list *list, const char *rule)
{
	size_t at = rule_hash(rule) & (list->n_slots - 1);

	while (list->slot[at] != 0 && strcmp(list->v[list->slot[at] - 1], rule) != 0)
		at = (at + 1) & (list->n_slots - 1);
	return &list->slot[at];
}

size_t
policy_list_find(const struct policy_list *list, const char *rule)
{
	if (list->n_slots != 0) {
		const uint32_t at = *list_slot(list, rule);

		return at != 0 ? at - 1 : list->n;
	}
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->v[i], rule) == 0)
			return i;
	}
	return list->n;
}

static bool
list_has(const struct policy_list *list, const char *rule)
{
	return policy_list_find(list, rule) < list->n;
}

/* Make room for one more rule: the table is at most half full. */
static int
list_make_slots(struct policy_list *list)
{
	size_t n = list->n_slots == 0 ? LIST_HASHED_MIN * 4 : list->n_slots * 2;
	uint32_t *slot;

	if (list->n < LIST_HASHED_MIN || list->n < list->n_slots / 2)
		return 0;
	slot = calloc(n, sizeof(*slot));
	if (slot == NULL)
		return -1;
	free(list->slot);
	list->slot = slot;
	list->n_slots = n;
	for (size_t i = 0; i < list->n; i++)
		*list_slot(list, list->v[i]) = (uint32_t)i + 1;
	return 0;
}

int
policy_list_add(struct policy_list *list, const char *rule, struct koda_error *err)
{
	cleanup_free char *copy = NULL;

	if (list_has(list, rule))
		return 0;
	if (list->n >= POLICY_RULES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "a list of the policy has more than %d rules", POLICY_RULES_MAX);
	copy = strdup(rule);
	if (copy == NULL || list_make_slots(list) < 0)
		return no_memory(err);
	/* Room is doubled, so it is used up exactly when n is a power of two. */
	if ((list->n & (list->n - 1)) == 0) {
		size_t room = list->n == 0 ? 1 : list->n * 2;
		char **v = reallocarray(list->v, room, sizeof(*v));

		if (v == NULL)
			return no_memory(err);
		list->v = v;
	}
	list->v[list->n++] = take_ptr(&copy);
	if (list->n_slots != 0)
		*list_slot(list, rule) = (uint32_t)list->n;
	list->present = true;
	return 0;
}

static int
list_add_all(struct policy_list *dst, const struct policy_list *src, struct koda_error *err)
{
	for (size_t i = 0; i < src->n; i++) {
		if (policy_list_add(dst, src->v[i], err) < 0)
			return -1;
	}
	dst->present = dst->present || src->present;
	return 0;
}

static int
mitm_copy(struct policy *dst, const struct policy *src, struct koda_error *err)
{
	if (src->ca_bundle != NULL) {
		dst->ca_bundle = strdup(src->ca_bundle);
		if (dst->ca_bundle == NULL)
			return no_memory(err);
	}
	if (src->n_sockets == 0)
		return 0;
	dst->sockets = calloc(src->n_sockets, sizeof(*dst->sockets));
	if (dst->sockets == NULL)
		return no_memory(err);
	/* policy_done() accepts half-filled entries: they are NULL. */
	dst->n_sockets = src->n_sockets;
	for (size_t i = 0; i < src->n_sockets; i++) {
		dst->sockets[i].domain = strdup(src->sockets[i].domain);
		dst->sockets[i].path = strdup(src->sockets[i].path);
		if (dst->sockets[i].domain == NULL || dst->sockets[i].path == NULL)
			return no_memory(err);
	}
	return 0;
}

int
policy_copy(struct policy *dst, const struct policy *src, struct koda_error *err)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		if (list_add_all(&p.list[i], &src->list[i], err) < 0)
			return -1;
	}
	memcpy(p.flag, src->flag, sizeof(p.flag));
	memcpy(p.limit, src->limit, sizeof(p.limit));
	p.depth = src->depth;
	p.trust = src->trust;
	if (mitm_copy(&p, src, err) < 0)
		return -1;
	*dst = p;
	policy_init(&p);
	return 0;
}

static bool
text_equal(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool
policy_equal(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		const struct policy_list *la = &a->list[i], *lb = &b->list[i];

		if (la->present != lb->present || la->n != lb->n)
			return false;
		for (size_t k = 0; k < la->n; k++) {
			if (strcmp(la->v[k], lb->v[k]) != 0)
				return false;
		}
	}
	for (size_t i = 0; i < KODA_N_FLAGS; i++) {
		if (a->flag[i] != b->flag[i])
			return false;
	}
	for (size_t i = 0; i < KODA_N_LIMITS; i++) {
		if (a->limit[i].set != b->limit[i].set)
			return false;
		if (a->limit[i].set && a->limit[i].value != b->limit[i].value)
			return false;
	}
	if (a->depth != b->depth || a->trust != b->trust)
		return false;
	if (!text_equal(a->ca_bundle, b->ca_bundle) || a->n_sockets != b->n_sockets)
		return false;
	for (size_t i = 0; i < a->n_sockets; i++) {
		if (strcmp(a->sockets[i].domain, b->sockets[i].domain) != 0 ||
		    strcmp(a->sockets[i].path, b->sockets[i].path) != 0)
			return false;
	}
	return true;
}

unsigned
policy_effective_depth(const struct policy *p)
{
	if (p->depth < POLICY_DEPTH_MIN)
		return POLICY_DEPTH_MIN;
	return p->depth > POLICY_DEPTH_MAX ? POLICY_DEPTH_MAX : p->depth;
}

/* ---- rules: paths ---- */

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

static const char *
longest_naming(const struct policy_list *list, const char *path, size_t *ret_len)
{
	const char *best = NULL;

	*ret_len = 0;
	for (size_t i = 0; i < list->n; i++) {
		size_t len = strlen(list->v[i]);

		if (len > *ret_len && path_is_inside(path, list->v[i])) {
			best = list->v[i];
			*ret_len = len;
		}
	}
	return best;
}

bool
policy_reads(const struct policy *p, const char *path, const char **ret_rule)
{
	size_t deny_len, hole_len;
	const char *deny = longest_naming(&p->list[KODA_DENY_READ], path, &deny_len);
	const char *hole = longest_naming(&p->list[KODA_ALLOW_READ_WITHIN_DENY], path, &hole_len);
	bool denied = deny != NULL && deny_len >= hole_len;

	if (ret_rule != NULL)
		*ret_rule = denied ? deny : deny != NULL ? hole : NULL;
	return !denied;
}

/* ---- rules: domains ---- */

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

/* ---- a whole policy ---- */

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

/* ---- composition ---- */

static int
compose_denies(struct policy *ret, const struct policy *p, const struct policy *c,
    enum koda_list list, struct koda_error *err)
{
	if (list_add_all(&ret->list[list], &p->list[list], err) < 0)
		return -1;
	return list_add_all(&ret->list[list], &c->list[list], err);
}

static int
compose_holes(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOW_READ_WITHIN_DENY];
	const struct policy *const sides[] = { p, c };

	for (size_t s = 0; s < N_ELEMENTS(sides); s++) {
		const struct policy_list *holes = &sides[s]->list[KODA_ALLOW_READ_WITHIN_DENY];

		list->present = list->present || holes->present;
		for (size_t i = 0; i < holes->n; i++) {
			if (!policy_reads(p, holes->v[i], NULL) ||
			    !policy_reads(c, holes->v[i], NULL))
				continue;
			if (policy_list_add(list, holes->v[i], err) < 0)
				return -1;
		}
	}
	return 0;
}

static int
add_common(struct policy_list *ret, const struct policy_list *p, const struct policy_list *c,
    struct koda_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		if (list_has(c, p->v[i]) && policy_list_add(ret, p->v[i], err) < 0)
			return -1;
	}
	return 0;
}

static int
add_path(struct policy_list *ret, const char *path, struct koda_error *err)
{
	for (size_t i = 0; i < ret->n; i++) {
		if (path_is_inside(path, ret->v[i]))
			return 0;
	}
	return policy_list_add(ret, path, err);
}

static int
compose_writes(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOW_WRITE];
	const struct policy_list *pl = &p->list[KODA_ALLOW_WRITE], *cl = &c->list[KODA_ALLOW_WRITE];

	if (!cl->present)
		return list_add_all(list, pl, err);
	list->present = true;
	if (add_common(list, pl, cl, err) < 0)
		return -1;
	for (size_t i = 0; i < pl->n; i++) {
		for (size_t k = 0; k < cl->n; k++) {
			const char *both = path_is_inside(cl->v[k], pl->v[i]) ? cl->v[k]
			    : path_is_inside(pl->v[i], cl->v[k])              ? pl->v[i]
									      : NULL;

			if (both != NULL && add_path(list, both, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int
add_domain(struct policy_list *ret, const char *pattern, struct koda_error *err)
{
	struct domain d, have;

	if (domain_parse(pattern, &d) != NULL)
		return 0; /* it matches nothing */
	for (size_t i = 0; i < ret->n; i++) {
		if (domain_parse(ret->v[i], &have) == NULL && domain_covers(&have, &d))
			return 0;
	}
	return policy_list_add(ret, pattern, err);
}

/* Add the names that the other side's any_domain allows as well. */
static int
add_names(struct policy_list *ret, const struct policy_list *from, struct koda_error *err)
{
	char name[DOMAIN_PATTERN_MAX + 1];
	struct domain d, held;

	for (size_t i = 0; i < from->n; i++) {
		if (domain_parse(from->v[i], &d) != NULL || domain_is_address(&d))
			continue;
		held = d;
		held.any_sni = false;
		if (domain_intersect(&d, &held, name) && add_domain(ret, name, err) < 0)
			return -1;
	}
	return 0;
}

static int
compose_domains(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOWED_DOMAINS];
	const struct policy_list *pl = &p->list[KODA_ALLOWED_DOMAINS],
				 *cl = &c->list[KODA_ALLOWED_DOMAINS];
	char both[DOMAIN_PATTERN_MAX + 1];
	struct domain dp, dc;

	if (!cl->present)
		return list_add_all(list, pl, err);
	list->present = true;
	if (add_common(list, pl, cl, err) < 0)
		return -1;
	for (size_t i = 0; i < pl->n; i++) {
		if (domain_parse(pl->v[i], &dp) != NULL)
			continue;
		for (size_t k = 0; k < cl->n; k++) {
			if (domain_parse(cl->v[k], &dc) != NULL ||
			    !domain_intersect(&dp, &dc, both))
				continue;
			if (add_domain(list, both, err) < 0)
				return -1;
		}
	}
	if (p->flag[KODA_ANY_DOMAIN] && add_names(list, cl, err) < 0)
		return -1;
	return c->flag[KODA_ANY_DOMAIN] ? add_names(list, pl, err) : 0;
}

static struct policy_limit
stricter_limit(struct policy_limit a, struct policy_limit b)
{
	if (!a.set || !b.set)
		return a.set ? a : b;
	return a.value <= b.value ? a : b;
}

int
policy_compose(const struct policy *parent, const struct policy *child, struct policy *ret,
    struct koda_error *err)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	if (compose_denies(&p, parent, child, KODA_DENY_READ, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENY_WRITE_WITHIN_ALLOW, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENIED_DOMAINS, err) < 0 ||
	    compose_denies(&p, parent, child, KODA_DENY_WRITE_NAMES, err) < 0 ||
	    compose_holes(&p, parent, child, err) < 0 ||
	    compose_writes(&p, parent, child, err) < 0 ||
	    compose_domains(&p, parent, child, err) < 0 || mitm_copy(&p, parent, err) < 0)
		return err_wrap(err, "compose");
	for (size_t i = 0; i < KODA_N_FLAGS; i++)
		p.flag[i] = parent->flag[i] && child->flag[i];
	for (size_t i = 0; i < KODA_N_LIMITS; i++)
		p.limit[i] = stricter_limit(parent->limit[i], child->limit[i]);
	p.depth = parent->depth > child->depth ? parent->depth : child->depth;
	/* enum koda_trust is in the order of strictness */
	p.trust = parent->trust > child->trust ? parent->trust : child->trust;
	*ret = p;
	policy_init(&p);
	return 0;
}

/* ---- packing ---- */

static ProtobufCBinaryData
as_bytes(char *text)
{
	return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)text };
}

int
policy_pack(const struct policy *p, uint8_t **ret, size_t *ret_len, struct koda_error *err)
{
	Koda__Policy msg = KODA__POLICY__INIT;
	Koda__FsPolicy fs = KODA__FS_POLICY__INIT;
	Koda__NetPolicy net = KODA__NET_POLICY__INIT;
	Koda__Limits limits = KODA__LIMITS__INIT;
	Koda__Mitm mitm = KODA__MITM__INIT;
	/* By enum koda_list; the domain lists' entries stay unused. */
	Koda__PathList paths[KODA_N_LISTS];
	Koda__DomainList domains[KODA_N_LISTS];
	Koda__NameList names = KODA__NAME_LIST__INIT;
	cleanup_free ProtobufCBinaryData *values = NULL;
	cleanup_free Koda__SocketMap *sockets = NULL;
	cleanup_free Koda__SocketMap **socket_ptrs = NULL;
	cleanup_free uint8_t *packed = NULL;
	size_t n = 0, len;

	for (size_t i = 0; i < KODA_N_LISTS; i++)
		n += p->list[i].n;
	values = calloc(n + 1, sizeof(*values));
	sockets = calloc(p->n_sockets + 1, sizeof(*sockets));
	socket_ptrs = calloc(p->n_sockets + 1, sizeof(*socket_ptrs));
	if (values == NULL || sockets == NULL || socket_ptrs == NULL)
		return no_memory(err);
	n = 0;
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		koda__path_list__init(&paths[i]);
		koda__domain_list__init(&domains[i]);
		paths[i].path = domains[i].domain = values + n;
		paths[i].n_path = domains[i].n_domain = p->list[i].n;
		for (size_t k = 0; k < p->list[i].n; k++)
			values[n++] = as_bytes(p->list[i].v[k]);
	}
	names.name = paths[KODA_DENY_WRITE_NAMES].path;
	names.n_name = paths[KODA_DENY_WRITE_NAMES].n_path;
	fs.deny_write_names = p->list[KODA_DENY_WRITE_NAMES].present ? &names : NULL;
#define LIST(of, which) p->list[which].present ? &of[which] : NULL
	fs.deny_read = LIST(paths, KODA_DENY_READ);
	fs.allow_read_within_deny = LIST(paths, KODA_ALLOW_READ_WITHIN_DENY);
	fs.allow_write = LIST(paths, KODA_ALLOW_WRITE);
	fs.deny_write_within_allow = LIST(paths, KODA_DENY_WRITE_WITHIN_ALLOW);
	net.allowed_domains = LIST(domains, KODA_ALLOWED_DOMAINS);
	net.denied_domains = LIST(domains, KODA_DENIED_DOMAINS);
#undef LIST
	fs.has_allow_git_config = fs.has_mandatory_deny_search_depth = true;
	fs.allow_git_config = p->flag[KODA_ALLOW_GIT_CONFIG];
	fs.has_share_caches = true;
	fs.share_caches = p->flag[KODA_SHARE_CACHES];
	fs.mandatory_deny_search_depth = p->depth;
	net.has_any_domain = net.has_allow_local_binding = net.has_weaker_macos_isolation = true;
	net.any_domain = p->flag[KODA_ANY_DOMAIN];
	net.allow_local_binding = p->flag[KODA_ALLOW_LOCAL_BINDING];
	net.weaker_macos_isolation = p->flag[KODA_WEAKER_MACOS_ISOLATION];
	if (p->ca_bundle != NULL) {
		mitm.ca_bundle = as_bytes(p->ca_bundle);
		for (size_t i = 0; i < p->n_sockets; i++) {
			koda__socket_map__init(&sockets[i]);
			sockets[i].domain = as_bytes(p->sockets[i].domain);
			sockets[i].path = as_bytes(p->sockets[i].path);
			socket_ptrs[i] = &sockets[i];
		}
		mitm.socket_map = socket_ptrs;
		mitm.n_socket_map = p->n_sockets;
		net.mitm = &mitm;
	}
#define LIMIT(field, which)                                                                        \
	limits.has_##field = p->limit[which].set, limits.field = p->limit[which].value
	LIMIT(cpu_time_secs, KODA_CPU_TIME_SECS);
	LIMIT(wall_time_secs, KODA_WALL_TIME_SECS);
	LIMIT(max_rss_bytes, KODA_MAX_RSS_BYTES);
	LIMIT(max_open_fds, KODA_MAX_OPEN_FDS);
	LIMIT(max_output_bytes, KODA_MAX_OUTPUT_BYTES);
	LIMIT(max_processes, KODA_MAX_PROCESSES);
	LIMIT(max_file_bytes, KODA_MAX_FILE_BYTES);
#undef LIMIT
	msg.fs = &fs;
	msg.net = &net;
	msg.limits = &limits;
	msg.has_trust = true;
	msg.trust = (Koda__Trust)p->trust; /* the numbers are the same */

	len = protobuf_c_message_get_packed_size(&msg.base);
	if (len > POLICY_PACKED_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "the policy has %zu bytes, more than %u",
		    len, POLICY_PACKED_MAX);
	packed = malloc(len);
	if (packed == NULL)
		return no_memory(err);
	protobuf_c_message_pack(&msg.base, packed);
	*ret = take_ptr(&packed);
	*ret_len = len;
	return 0;
}

void
policy_digest(const uint8_t *packed, size_t len, uint8_t ret[KODA_DIGEST_BYTES])
{
	crypto_generichash(ret, KODA_DIGEST_BYTES, packed, len, NULL, 0);
}

/* ---- showing ---- */

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
