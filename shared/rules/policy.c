#include "shared/rules/policy.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

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

void
policy_done(struct policy *p)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++)
		policy_list_done(&p->list[i]);
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

int
policy_mitm_copy(struct policy *dst, const struct policy *src, struct koda_error *err)
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
		if (policy_list_add_all(&p.list[i], &src->list[i], err) < 0)
			return -1;
	}
	memcpy(p.flag, src->flag, sizeof(p.flag));
	memcpy(p.limit, src->limit, sizeof(p.limit));
	p.depth = src->depth;
	p.trust = src->trust;
	if (policy_mitm_copy(&p, src, err) < 0)
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
