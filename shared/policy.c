/*
 * Why compose never widens, field by field.
 *
 * - denies (deny_read, deny_write_within_allow, denied_domains): the union. What one side denies
 *   stays denied.
 * - read holes: one is kept if both sides permit reading at exactly that place. Say the result
 *   permits x. Either no deny of the union names x, then none of either side does; or the longest
 *   hole h that names x is longer than every deny that names x. All rules that name x are ancestors
 *   of one another, so the denies of a side that name x are those that name h, and they are shorter
 *   than h. That side permits h, so it has no such deny, or a hole at or above h that is longer
 *   than all of them, and that hole names x too. So that side permits x.
 * - allow_write: what a rule of the parent and one of the child both name, which is the longer of
 *   the two when one is inside the other. An absent child inherits. An absent parent permits
 *   nothing, so does the result.
 * - allowed_domains with any_domain: the allowed set of a side is any ? everything : list. The
 *   result's any is the AND; its list lies within both sets: PxC, C's list only where the parent's
 *   set is everything, P's list only where the child's is. An absent child list inherits: that is
 *   the parent's list alone.
 * - flags: AND. Limits: minimum, set beats unset. Trust: the strictest. mitm: the parent's, for it
 *   says who may look into the traffic. Depth: the maximum; it bounds work, every hop is judged.
 *
 * The composition of a policy with itself is that policy: what both lists have literally comes
 * first, in the parent's order, and an intersection that something in the result covers is left out.
 */
#include "shared/policy.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "proto/policy.pb-c.h"
#include "shared/bytes.h"
#include "shared/cleanup.h"

#define DOMAIN_LEN_MAX  253 /* RFC 1035's 255 octets, as text */
#define LABEL_LEN_MAX   63
#define PATTERN_LEN_MAX (DOMAIN_LEN_MAX + sizeof(":65535"))

const char *const policy_list_name[KODA_N_LISTS] = {
	[KODA_DENY_READ] = "deny_read",
	[KODA_ALLOW_READ_WITHIN_DENY] = "allow_read_within_deny",
	[KODA_ALLOW_WRITE] = "allow_write",
	[KODA_DENY_WRITE_WITHIN_ALLOW] = "deny_write_within_allow",
	[KODA_ALLOWED_DOMAINS] = "allowed_domains",
	[KODA_DENIED_DOMAINS] = "denied_domains",
};

const char *const policy_flag_name[KODA_N_FLAGS] = {
	[KODA_ALLOW_GIT_CONFIG] = "allow_git_config",
	[KODA_ANY_DOMAIN] = "any_domain",
	[KODA_ALLOW_LOCAL_BINDING] = "allow_local_binding",
	[KODA_WEAKER_MACOS_ISOLATION] = "weaker_macos_isolation",
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

static bool
list_has(const struct policy_list *list, const char *rule)
{
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->v[i], rule) == 0)
			return true;
	}
	return false;
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
	if (copy == NULL)
		return no_memory(err);
	/* Room is doubled: n is a power of two exactly when it is used up. */
	if ((list->n & (list->n - 1)) == 0) {
		size_t room = list->n == 0 ? 1 : list->n * 2;
		char **v = reallocarray(list->v, room, sizeof(*v));

		if (v == NULL)
			return no_memory(err);
		list->v = v;
	}
	list->v[list->n++] = take_ptr(&copy);
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
	dst->n_sockets = src->n_sockets; /* half-filled entries are NULL: policy_done copes */
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

/* No empty, '.' or '..' component, no slash at the end: as the kernel would print it. */
static bool
is_canonical_text(const char *path)
{
	if (strcmp(path, "/") == 0)
		return true;
	for (const char *s = path; *s == '/';) {
		size_t len = strcspn(s + 1, "/");

		if (len == 0 || (len == 1 && s[1] == '.') ||
		    (len == 2 && s[1] == '.' && s[2] == '.'))
			return false;
		s += 1 + len;
		if (*s == '\0')
			return true;
	}
	return false;
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

struct domain {
	const char *name; /* of a wildcard: behind the "*." */
	size_t len;       /* without a trailing dot */
	bool wildcard;
	unsigned port; /* 0: none */
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_ldh(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	    c == '_';
}

static const char *
port_parse(const char *s, unsigned *ret)
{
	size_t len = strlen(s);
	unsigned port = 0;

	for (size_t i = 0; i < len; i++) {
		if (!is_digit(s[i]))
			return "its port is no number";
	}
	if (len == 0 || len > 5 || s[0] == '0')
		return "its port is not between 1 and 65535";
	for (size_t i = 0; i < len; i++)
		port = port * 10 + (unsigned)(s[i] - '0');
	if (port > 65535)
		return "its port is not between 1 and 65535";
	*ret = port;
	return NULL;
}

/* Would some resolver take a name with that last label for a number? inet_aton() takes 0x7f.1. */
static bool
ends_in_number(const char *label, size_t len)
{
	size_t digits = 0;

	while (digits < len && is_digit(label[digits]))
		digits++;
	if (digits == len)
		return true;
	if (len < 2 || label[0] != '0' || (label[1] != 'x' && label[1] != 'X'))
		return false;
	for (size_t i = 2; i < len; i++) {
		if (!is_digit(label[i]) && !((label[i] | 0x20) >= 'a' && (label[i] | 0x20) <= 'f'))
			return false;
	}
	return true;
}

static const char *
name_parse(const char *name, size_t len, bool wildcard)
{
	const char *label = name;
	char quad[INET_ADDRSTRLEN];
	struct in_addr addr;

	if (len == 0)
		return "it has no name";
	if (len + (wildcard ? 2 : 0) > DOMAIN_LEN_MAX)
		return "it is longer than a domain name can be";
	for (size_t i = 0; i <= len; i++) {
		size_t n = (size_t)(name + i - label);

		if (i < len && name[i] != '.') {
			if (name[i] == '*')
				return "a '*' can only be the whole first label";
			if (name[i] == '/')
				return "it is a host name that is wanted, not an address with a path";
			if ((unsigned char)name[i] >= 0x80)
				return "only ASCII is allowed: an international name has an xn-- form";
			if (!is_ldh(name[i]))
				return "it has a character that no host name has";
			continue;
		}
		if (n == 0)
			return "it has an empty label";
		if (n > LABEL_LEN_MAX)
			return "it has a label of more than 63 characters";
		if (label[0] == '-' || label[n - 1] == '-')
			return "a label begins or ends with '-'";
		if (i < len)
			label = name + i + 1;
	}
	if (!ends_in_number(label, (size_t)(name + len - label)))
		return NULL;
	if (wildcard)
		return "a wildcard cannot be of an address";
	if (len >= sizeof(quad))
		return "it looks like an address and is none";
	memcpy(quad, name, len);
	quad[len] = '\0';
	/* Four decimal numbers without leading zeros; nothing else that ends in a number is safe. */
	return inet_pton(AF_INET, quad, &addr) == 1 ? NULL : "it looks like an address and is none";
}

static const char *
address6_parse(const char *s, struct domain *d, const char **ret_rest)
{
	const char *end = strchr(s, ']');
	char text[INET6_ADDRSTRLEN], again[INET6_ADDRSTRLEN];
	struct in6_addr addr;
	size_t len;

	if (end == NULL)
		return "it has '[' without ']'";
	len = (size_t)(end - s - 1);
	if (len >= sizeof(text))
		return "it has no IPv6 address between the brackets";
	memcpy(text, s + 1, len);
	text[len] = '\0';
	if (inet_pton(AF_INET6, text, &addr) != 1)
		return "it has no IPv6 address between the brackets";
	/* One address, one text: the proxy compares texts. */
	if (inet_ntop(AF_INET6, &addr, again, sizeof(again)) == NULL ||
	    strcasecmp(text, again) != 0)
		return "its IPv6 address is not in the shortest form";
	d->name = s;
	d->len = (size_t)(end + 1 - s);
	*ret_rest = end + 1;
	return NULL;
}

/* NULL, or what is wrong with the pattern. */
static const char *
domain_parse(const char *s, struct domain *ret)
{
	struct domain d = { 0 };
	const char *rest = "", *why;

	if (s[0] == '\0')
		return "it is empty";
	if (strcmp(s, "*") == 0 || strncmp(s, "*:", 2) == 0)
		return "'*' alone would be every host: that is what any_domain says";
	if (s[0] == '[') {
		why = address6_parse(s, &d, &rest);
	} else {
		d.wildcard = strncmp(s, "*.", 2) == 0;
		d.name = d.wildcard ? s + 2 : s;
		d.len = strcspn(d.name, ":");
		rest = d.name + d.len;
		if (*rest == ':' && strchr(rest + 1, ':') != NULL)
			return "it has two ':' (an IPv6 address is written in brackets)";
		if (d.len > 1 && d.name[d.len - 1] == '.')
			d.len--;
		why = name_parse(d.name, d.len, d.wildcard);
	}
	if (why == NULL && *rest == ':')
		why = port_parse(rest + 1, &d.port);
	else if (why == NULL && *rest != '\0')
		why = "it has something behind the address";
	if (why == NULL)
		*ret = d;
	return why;
}

int
policy_domain_check(const char *pattern, struct koda_error *err)
{
	char shown[300];
	struct domain d;
	const char *why;

	if (pattern == NULL)
		return err_set(err, KODA_INVALID, 0, "a rule of the policy: there is no domain");
	why = domain_parse(pattern, &d);
	if (why == NULL)
		return 0;
	bytes_show(shown, sizeof(shown), pattern, strlen(pattern));
	return err_set(err, KODA_INVALID, 0, "the domain '%s' of a rule is refused: %s", shown,
	    why);
}

void
policy_domain_normalise(char *pattern)
{
	size_t len;

	for (char *s = pattern; *s != '\0'; s++) {
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s | 0x20);
	}
	if (pattern[0] == '[')
		return;
	len = strcspn(pattern, ":");
	if (len > 0 && pattern[len - 1] == '.')
		memmove(pattern + len - 1, pattern + len, strlen(pattern + len) + 1);
}

static bool
is_normalised(const char *pattern)
{
	char copy[PATTERN_LEN_MAX + sizeof("*..")];

	if (strlen(pattern) >= sizeof(copy))
		return false;
	strcpy(copy, pattern);
	policy_domain_normalise(copy);
	return strcmp(copy, pattern) == 0;
}

/* Does the wildcard "*.<d>" name that host, or the exact d? */
static bool
domain_names(const struct domain *d, const char *host, size_t len)
{
	const char *dot;

	if (!d->wildcard)
		return d->len == len && memcmp(d->name, host, len) == 0;
	dot = memchr(host, '.', len);
	if (dot == NULL || dot == host)
		return false;
	dot++;
	return d->len == len - (size_t)(dot - host) && memcmp(d->name, dot, d->len) == 0;
}

static bool
port_in(unsigned rule, unsigned port)
{
	return rule != 0 ? port == rule : port == 80 || port == 443;
}

bool
policy_domain_matches(const char *pattern, const char *host, unsigned port, bool any_port)
{
	struct domain d;

	if (port == 0 || port > 65535 || domain_parse(pattern, &d) != NULL)
		return false;
	if (!(any_port && d.port == 0) && !port_in(d.port, port))
		return false;
	return domain_names(&d, host, strlen(host));
}

/* The pattern that names exactly what both name. False when there is nothing. */
static bool
domain_intersect(const struct domain *a, const struct domain *b, char ret[PATTERN_LEN_MAX + 2])
{
	const struct domain *narrow = a->wildcard ? b : a, *wide = a->wildcard ? a : b;
	unsigned port;

	if (narrow->wildcard) {
		/* One label more than the name: the same name or nothing in common. */
		if (narrow->len != wide->len || memcmp(narrow->name, wide->name, wide->len) != 0)
			return false;
	} else if (!domain_names(wide, narrow->name, narrow->len)) {
		return false;
	}
	port = a->port != 0 ? a->port : b->port;
	if (port != 0 && (!port_in(a->port, port) || !port_in(b->port, port)))
		return false;
	snprintf(ret, PATTERN_LEN_MAX + 2, port != 0 ? "%s%.*s:%u" : "%s%.*s",
	    narrow->wildcard ? "*." : "", (int)narrow->len, narrow->name, port);
	return true;
}

static bool
domain_covers(const struct domain *wide, const struct domain *d)
{
	if (wide->port != d->port && !(wide->port == 0 && port_in(0, d->port)))
		return false;
	if (d->wildcard)
		return wide->wildcard && wide->len == d->len &&
		    memcmp(wide->name, d->name, d->len) == 0;
	return domain_names(wide, d->name, d->len);
}

/* ---- the whole ---- */

static int
rule_refuse(struct koda_error *err, size_t list, const char *rule, const char *why)
{
	char shown[256];

	bytes_show(shown, sizeof(shown), rule, strlen(rule));
	return err_set(err, KODA_INVALID, 0, "policy: %s '%s': %s", policy_list_name[list], shown,
	    why);
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
				if (policy_domain_check(rule, err) < 0)
					return -1;
				if (!is_normalised(rule))
					return rule_refuse(err, i, rule, "it is not in lower case");
			} else {
				if (policy_path_check(rule, err) < 0)
					return -1;
				if (!is_canonical_text(rule))
					return rule_refuse(err, i, rule, "it is not canonical");
			}
		}
	}
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
		if (policy_domain_check(p->sockets[i].domain, err) < 0 ||
		    policy_path_check(p->sockets[i].path, err) < 0)
			return -1;
		if (!is_normalised(p->sockets[i].domain))
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
		return 0; /* it names nothing */
	for (size_t i = 0; i < ret->n; i++) {
		if (domain_parse(ret->v[i], &have) == NULL && domain_covers(&have, &d))
			return 0;
	}
	return policy_list_add(ret, pattern, err);
}

static int
compose_domains(struct policy *ret, const struct policy *p, const struct policy *c,
    struct koda_error *err)
{
	struct policy_list *list = &ret->list[KODA_ALLOWED_DOMAINS];
	const struct policy_list *pl = &p->list[KODA_ALLOWED_DOMAINS],
				 *cl = &c->list[KODA_ALLOWED_DOMAINS];
	char both[PATTERN_LEN_MAX + 2];
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
	for (size_t i = 0; p->flag[KODA_ANY_DOMAIN] && i < cl->n; i++) {
		if (add_domain(list, cl->v[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; c->flag[KODA_ANY_DOMAIN] && i < pl->n; i++) {
		if (add_domain(list, pl->v[i], err) < 0)
			return -1;
	}
	return 0;
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
	Koda__PathList paths[KODA_N_LISTS]; /* by enum koda_list; the domain lists' stay unused */
	Koda__DomainList domains[KODA_N_LISTS];
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
	int stop; /* what fn returned; nothing is told any more once it is not 0 */
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
	tell_flag(&v, p, "fs", KODA_ALLOW_GIT_CONFIG);
	snprintf(number, sizeof(number), "%u", p->depth);
	tell(&v, "fs", "mandatory_deny_search_depth", number);
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
