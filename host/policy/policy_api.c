/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy/policy_api.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/policy/trust.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/domain.h"
#include "shared/rules/names.h"
#include "shared/rules/policy_field.h"

#define LINKS_MAX 40 /* as in the kernel: more links in one path are taken for a cycle */

struct koda_policy {
	struct policy p;
	bool frozen;
	uint8_t *packed; /* once frozen */
	size_t packed_len;
	uint8_t digest[KODA_DIGEST_BYTES];
	atomic_uint owners;
};

/* ---- for the host's modules ---- */

const struct policy *
koda_policy_get(const struct koda_policy *policy)
{
	return &policy->p;
}

bool
koda_policy_frozen(const struct koda_policy *policy)
{
	return policy->frozen;
}

const uint8_t *
koda_policy_packed(const struct koda_policy *policy, size_t *ret_len)
{
	*ret_len = policy->packed_len;
	return policy->packed;
}

const uint8_t *
koda_policy_digest(const struct koda_policy *policy)
{
	return policy->frozen ? policy->digest : NULL;
}

struct koda_policy *
koda_policy_ref(const struct koda_policy *policy)
{
	struct koda_policy *shared = (struct koda_policy *)policy; /* only the count changes */

	if (!policy->frozen)
		return NULL;
	atomic_fetch_add(&shared->owners, 1);
	return shared;
}

/* ---- making one ---- */

struct koda_policy *
koda_policy_new(void)
{
	struct koda_policy *policy = calloc(1, sizeof(*policy));

	if (policy == NULL)
		return NULL;
	policy_init(&policy->p);
	atomic_init(&policy->owners, 1);
	return policy;
}

void
koda_policy_free(struct koda_policy *policy)
{
	if (policy == NULL || atomic_fetch_sub(&policy->owners, 1) > 1)
		return;
	policy_done(&policy->p);
	free(policy->packed);
	free(policy);
}

static void
free_policy(struct koda_policy **policy)
{
	koda_policy_free(*policy);
}

static struct koda_policy *
new_or_why(struct koda_error *err)
{
	struct koda_policy *policy = koda_policy_new();

	if (policy == NULL)
		err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	return policy;
}

struct koda_policy *
koda_policy_for_agent(enum koda_mode mode, const char *root, struct koda_error *err)
{
	cleanup(free_policy) struct koda_policy *policy = new_or_why(err);

	if (policy == NULL || policy_for_agent(mode, root, &policy->p, err) < 0)
		return NULL;
	return take_ptr(&policy);
}

static int
changeable(const struct koda_policy *policy, struct koda_error *err)
{
	if (policy == NULL)
		return err_set(err, KODA_INVALID, 0, "no policy given");
	if (policy->frozen)
		return err_set(err, KODA_INVALID, 0, "the policy is frozen: it cannot be changed");
	return 0;
}

static struct policy_list *
list_to_change(struct koda_policy *policy, enum koda_list list, struct koda_error *err)
{
	if (changeable(policy, err) < 0)
		return NULL;
	if ((size_t)list >= KODA_N_LISTS) {
		err_set(err, KODA_INVALID, 0, "a policy has no list %d", (int)list);
		return NULL;
	}
	return &policy->p.list[list];
}

static char *
domain_copy(const char *domain, enum policy_domain_use use, struct koda_error *err)
{
	char *copy;

	if (policy_domain_check(domain, use, err) < 0)
		return NULL;
	copy = strdup(domain);
	if (copy == NULL)
		err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	else
		domain_normalise(copy);
	return copy;
}

static char *
name_copy(const char *rule, struct koda_error *err)
{
	cleanup_free char *copy = NULL;

	if (names_check(rule, err) < 0)
		return NULL;
	copy = strdup(rule);
	if (copy == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		return NULL;
	}
	names_normalise(copy);
	return names_check(copy, err) < 0 ? NULL : take_ptr(&copy);
}

int
koda_policy_add(struct koda_policy *policy, enum koda_list which, const char *rule,
    struct koda_error *err)
{
	struct policy_list *list = list_to_change(policy, which, err);
	const struct policy_field *f;
	cleanup_free char *copy = NULL;

	if (list == NULL)
		return -1;
	f = policy_field_of_list(which);
	if (f->kind == POLICY_PATHS)
		return policy_path_check(rule, err) < 0 ? -1 : policy_list_add(list, rule, err);
	copy = f->kind == POLICY_NAMES ? name_copy(rule, err)
				       : domain_copy(rule, policy_field_domain_use(f), err);
	return copy == NULL ? -1 : policy_list_add(list, copy, err);
}

int
koda_policy_add_none(struct koda_policy *policy, enum koda_list which, struct koda_error *err)
{
	struct policy_list *list = list_to_change(policy, which, err);

	if (list == NULL)
		return -1;
	list->present = true;
	return 0;
}

int
koda_policy_set_flag(struct koda_policy *policy, enum koda_flag flag, bool value,
    struct koda_error *err)
{
	if (changeable(policy, err) < 0)
		return -1;
	if ((size_t)flag >= KODA_N_FLAGS)
		return err_set(err, KODA_INVALID, 0, "a policy has no flag %d", (int)flag);
	policy->p.flag[flag] = value;
	return 0;
}

int
koda_policy_set_limit(struct koda_policy *policy, enum koda_limit limit, uint64_t value,
    struct koda_error *err)
{
	if (changeable(policy, err) < 0)
		return -1;
	if ((size_t)limit >= KODA_N_LIMITS)
		return err_set(err, KODA_INVALID, 0, "a policy has no limit %d", (int)limit);
	if (policy_limit_check(limit, value, err) < 0)
		return -1;
	policy->p.limit[limit] = (struct policy_limit){ true, value };
	return 0;
}

int
koda_policy_set_depth(struct koda_policy *policy, unsigned depth, struct koda_error *err)
{
	if (changeable(policy, err) < 0)
		return -1;
	if (depth > UINT8_MAX)
		return err_set(err, KODA_INVALID, 0, "the depth %u is more than %u", depth,
		    UINT8_MAX);
	policy->p.depth = (uint8_t)depth;
	return 0;
}

int
koda_policy_set_trust(struct koda_policy *policy, enum koda_trust trust, struct koda_error *err)
{
	if (changeable(policy, err) < 0)
		return -1;
	if (trust != KODA_TRUST_AUTO && trust != KODA_TRUST_REQUIRE && trust != KODA_TRUST_FORBID)
		return err_set(err, KODA_INVALID, 0, "no such trust: %d", (int)trust);
	policy->p.trust = trust;
	return 0;
}

int
koda_policy_set_mitm(struct koda_policy *policy, const char *ca_bundle, struct koda_error *err)
{
	char *copy;

	if (changeable(policy, err) < 0 || policy_path_check(ca_bundle, err) < 0)
		return -1;
	copy = strdup(ca_bundle);
	if (copy == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	free(policy->p.ca_bundle);
	policy->p.ca_bundle = copy;
	return 0;
}

int
koda_policy_add_mitm_socket(struct koda_policy *policy, const char *domain, const char *path,
    struct koda_error *err)
{
	cleanup_free char *name = NULL, *copy = NULL;
	struct policy_socket *sockets;
	struct policy *p;

	if (changeable(policy, err) < 0 || policy_path_check(path, err) < 0)
		return -1;
	p = &policy->p;
	name = domain_copy(domain, POLICY_DOMAIN_OTHER, err);
	if (name == NULL)
		return -1;
	for (size_t i = 0; i < p->n_sockets; i++) {
		if (strcmp(p->sockets[i].domain, name) == 0)
			return err_set(err, KODA_INVALID, 0,
			    "the policy already has a socket for '%s'", name);
	}
	if (p->n_sockets >= POLICY_RULES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "the policy has more than %d sockets",
		    POLICY_RULES_MAX);
	copy = strdup(path);
	sockets =
	    copy != NULL ? reallocarray(p->sockets, p->n_sockets + 1, sizeof(*sockets)) : NULL;
	if (sockets == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	p->sockets = sockets;
	sockets[p->n_sockets++] =
	    (struct policy_socket){ .domain = take_ptr(&name), .path = take_ptr(&copy) };
	return 0;
}

/* ---- freezing ---- */

/* Removes empty, '.' and '..' components from the text of the path. Links are resolved
 * elsewhere. */
static void
clean_text(const char *path, char *ret)
{
	size_t n = 0;

	for (const char *s = path; *s != '\0';) {
		size_t len;

		s += strspn(s, "/");
		len = strcspn(s, "/");
		if (len == 2 && s[0] == '.' && s[1] == '.') {
			while (n > 0 && ret[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && s[0] == '.')) {
			ret[n++] = '/';
			memcpy(ret + n, s, len);
			n += len;
		}
		s += len;
	}
	if (n == 0)
		ret[n++] = '/';
	ret[n] = '\0';
}

static int
path_refuse(struct koda_error *err, enum koda_code code, int errnum, const char *path,
    const char *why)
{
	char shown[256];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	err_set(err, code, errnum, "the path '%s' of a rule %s", shown, why);
	return err_about(err, path, NULL);
}

/*
 * Where the path leads now, followed by the components that do not exist. Goes component by
 * component and follows links itself, because realpath() stops at the first component that does not
 * exist, for example a dangling link's target. known: canonical path of the rule before, which is
 * not checked again.
 */
static int
canonicalise(const char *path, char known[PATH_MAX], char ret[PATH_MAX], struct koda_error *err)
{
	char todo[2 * PATH_MAX], target[PATH_MAX], next[2 * PATH_MAX];
	const char *rest = todo;
	bool missing = false;
	unsigned links = 0;
	/* n: length of ret, which never ends in a slash; there: length of the part of it that
	 * exists. */
	size_t n = 0, there = 0;

	strcpy(todo, path);
	ret[0] = '\0';
	while (*(rest += strspn(rest, "/")) != '\0') {
		size_t len = strcspn(rest, "/");
		const char *name = rest;
		struct stat st;
		ssize_t got;

		rest += len;
		if (len == 1 && name[0] == '.')
			continue;
		if (len == 2 && name[0] == '.' && name[1] == '.') {
			if (missing)
				return path_refuse(err, KODA_INVALID, 0, path,
				    "has '..' after a directory that does not exist");
			while (n > 0 && ret[--n] != '/')
				;
			ret[n] = '\0';
			continue;
		}
		if (n + 1 + len >= PATH_MAX)
			return path_refuse(err, KODA_INVALID, ENAMETOOLONG, path, "is too long");
		ret[n] = '/';
		memcpy(ret + n + 1, name, len);
		ret[n + 1 + len] = '\0';
		if (missing || (known[0] != '\0' && path_is_inside(known, ret))) {
			n += 1 + len;
			continue;
		}
		there = n;
		if (lstat(ret, &st) < 0) {
			if (errno != ENOENT && errno != ENOTDIR)
				return path_refuse(err, KODA_IO, errno, path, "cannot be resolved");
			missing = true;
		} else if (S_ISLNK(st.st_mode)) {
			if (++links > LINKS_MAX)
				return path_refuse(err, KODA_INVALID, ELOOP, path,
				    "cannot be resolved");
			got = readlink(ret, target, sizeof(target));
			if (got < 0)
				return path_refuse(err, KODA_IO, errno, path, "cannot be resolved");
			if (got == 0 || (size_t)got + strlen(rest) + 2 > sizeof(next))
				return path_refuse(err, KODA_INVALID, ENAMETOOLONG, path,
				    "is too long");
			memcpy(next, target, (size_t)got);
			strcpy(next + got, rest);
			if (target[0] == '/')
				n = 0;
			ret[n] = '\0';
			strcpy(todo, next);
			rest = todo;
			continue;
		}
		n += 1 + len;
	}
	if (n == 0)
		ret[n++] = '/';
	ret[n] = '\0';
	if (!missing)
		there = n;
	memcpy(known, ret, there);
	known[there] = '\0';
	return 0;
}

static int
freeze_paths(const struct policy_field *f, const struct policy_list *from, struct policy_list *ret,
    struct koda_error *err)
{
	const bool denies_writing = f == policy_field_of_list(KODA_DENY_WRITE_WITHIN_ALLOW);
	char canonical[PATH_MAX], written[PATH_MAX], known[PATH_MAX] = "";

	ret->present = from->present;
	for (size_t i = 0; i < from->n; i++) {
		struct koda_error why = { 0 };
		bool leads = canonicalise(from->v[i], known, canonical, &why) == 0;

		/* A path that the host may not look at, or that leads in a cycle, cannot be used to
		 * change anything: it holds as written. Reading is denied in full or not at all. */
		if (!leads && (!denies_writing || (why.errnum != EACCES && why.errnum != ELOOP))) {
			if (err != NULL)
				*err = why;
			return -1;
		}
		/* If the denied path is a link now, also deny the name itself, in case it is
		 * something else later. */
		clean_text(from->v[i], written);
		if (policy_field_denies(f) && policy_list_add(ret, written, err) < 0)
			return -1;
		if (leads && policy_list_add(ret, canonical, err) < 0)
			return -1;
	}
	return 0;
}

/* Replaces the list by its frozen form. On failure the list is incomplete. */
static int
freeze_list(const struct policy_field *f, struct policy *p, struct koda_error *err)
{
	struct policy_list *list = policy_field_in(p, f);
	cleanup(policy_list_done) struct policy_list old = *list;

	*list = (struct policy_list){ 0 };
	if (freeze_paths(f, &old, list, err) < 0)
		return err_wrap(err, "%s", f->name);
	return 0;
}

/* Makes a path canonical that the host itself opens or connects to. */
static int
freeze_place(char **path, struct koda_error *err)
{
	char canonical[PATH_MAX], known[PATH_MAX] = "", *copy;

	if (*path == NULL)
		return 0;
	if (canonicalise(*path, known, canonical, err) < 0)
		return -1;
	copy = strdup(canonical);
	if (copy == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	free(*path);
	*path = copy;
	return 0;
}

static int
freeze_mitm(struct policy *p, struct koda_error *err)
{
	if (freeze_place(&p->ca_bundle, err) < 0)
		return err_wrap(err, "ca_bundle");
	for (size_t i = 0; i < p->n_sockets; i++)
		if (freeze_place(&p->sockets[i].path, err) < 0)
			return err_wrap(err, "socket_map");
	return 0;
}

/* Makes the paths of all rules canonical. */
static int
freeze_rules(struct policy *p, struct koda_error *err)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (policy_fields[i].kind == POLICY_PATHS &&
		    freeze_list(&policy_fields[i], p, err) < 0)
			return -1;
	}
	return freeze_mitm(p, err);
}

/* Checks, packs and marks the policy as frozen. The rules are already canonical. */
static int
seal(struct koda_policy *policy, struct koda_error *err)
{
	if (policy_check(&policy->p, err) < 0 ||
	    policy_pack(&policy->p, &policy->packed, &policy->packed_len, err) < 0)
		return -1;
	policy_digest(policy->packed, policy->packed_len, policy->digest);
	policy->frozen = true;
	return 0;
}

int
koda_policy_freeze(struct koda_policy *policy, struct koda_error *err)
{
	struct policy old;

	if (policy == NULL)
		return err_set(err, KODA_INVALID, 0, "no policy given");
	if (policy->frozen)
		return 0;
	if (policy_copy(&old, &policy->p, err) < 0)
		return -1;
	if (freeze_rules(&policy->p, err) < 0 || seal(policy, err) < 0) {
		policy_done(&policy->p); /* restore it: the caller may correct it and try again */
		policy->p = old;
		return -1;
	}
	policy_done(&old);
	return 0;
}

struct koda_policy *
koda_policy_compose(const struct koda_policy *parent, const struct koda_policy *child,
    struct koda_error *err)
{
	cleanup(free_policy) struct koda_policy *policy = NULL;

	if (parent == NULL || child == NULL || !parent->frozen || !child->frozen) {
		err_set(err, KODA_INVALID, 0, "compose: both policies must be frozen");
		return NULL;
	}
	policy = new_or_why(err);
	if (policy == NULL || policy_compose(&parent->p, &child->p, &policy->p, err) < 0 ||
	    seal(policy, err) < 0)
		return NULL;
	return take_ptr(&policy);
}

/* ---- reading a policy ---- */

bool
koda_policy_equal(const struct koda_policy *a, const struct koda_policy *b)
{
	return a == b || (a != NULL && b != NULL && policy_equal(&a->p, &b->p));
}

int
koda_policy_visit(const struct koda_policy *policy, koda_policy_visit_fn *fn, void *data)
{
	return policy_visit(&policy->p, fn, data);
}

struct printer {
	FILE *to;
	char field[96]; /* the field whose line is open, "" if none is */
};

static int
print_value(void *data, const char *section, const char *field, const char *value)
{
	struct printer *pr = data;
	char name[sizeof(pr->field)];
	cleanup_free char *shown = NULL;
	size_t len;

	snprintf(name, sizeof(name), "%s%s%s", section, section[0] != '\0' ? "." : "", field);
	if (strcmp(name, pr->field) == 0) {
		fputs(", ", pr->to);
	} else {
		fprintf(pr->to, "%s%s: ", pr->field[0] != '\0' ? "\n" : "", name);
		strcpy(pr->field, name);
	}
	if (value == NULL)
		return fputs("(nothing)", pr->to) < 0 ? -1 : 0;
	len = bytes_show(NULL, 0, value, strlen(value)) + 1;
	shown = malloc(len);
	if (shown == NULL)
		return -1;
	bytes_show(shown, len, value, strlen(value));
	return fputs(shown, pr->to) < 0 ? -1 : 0;
}

char *
koda_policy_print(const struct koda_policy *policy)
{
	struct printer pr = { 0 };
	char *text = NULL;
	size_t len;
	int r;

	pr.to = open_memstream(&text, &len);
	if (pr.to == NULL)
		return NULL;
	r = policy_visit(&policy->p, print_value, &pr);
	if (fputc('\n', pr.to) == EOF)
		r = -1;
	if (fclose(pr.to) != 0 || r != 0) {
		free(text);
		return NULL;
	}
	return text;
}
