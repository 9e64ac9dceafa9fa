/* Packed bytes -> policy. A separate file, so that only programs that receive a policy can read
 * one. */
#include <string.h>

#include "proto/policy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/message.h"

static int
text_dup(ProtobufCBinaryData bytes, char **ret, struct koda_error *err)
{
	if (bytes.len > 0 && memchr(bytes.data, '\0', bytes.len) != NULL)
		return err_set(err, KODA_PROTOCOL, 0, "policy: a NUL byte in a rule");
	*ret = bytes.len > 0 ? strndup((const char *)bytes.data, bytes.len) : strdup("");
	if (*ret == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	return 0;
}

static int
list_take(struct policy_list *list, bool present, const ProtobufCBinaryData *rules, size_t n,
    struct koda_error *err)
{
	list->present = present;
	for (size_t i = 0; present && i < n; i++) {
		cleanup_free char *text = NULL;

		if (text_dup(rules[i], &text, err) < 0 || policy_list_add(list, text, err) < 0)
			return -1;
	}
	return 0;
}

static int
paths_take(struct policy_list *list, const Koda__PathList *msg, struct koda_error *err)
{
	return list_take(list, msg != NULL, msg != NULL ? msg->path : NULL,
	    msg != NULL ? msg->n_path : 0, err);
}

static int
domains_take(struct policy_list *list, const Koda__DomainList *msg, struct koda_error *err)
{
	return list_take(list, msg != NULL, msg != NULL ? msg->domain : NULL,
	    msg != NULL ? msg->n_domain : 0, err);
}

static int
names_take(struct policy_list *list, const Koda__NameList *msg, struct koda_error *err)
{
	return list_take(list, msg != NULL, msg != NULL ? msg->name : NULL,
	    msg != NULL ? msg->n_name : 0, err);
}

static int
mitm_take(struct policy *p, const Koda__Mitm *mitm, struct koda_error *err)
{
	if (text_dup(mitm->ca_bundle, &p->ca_bundle, err) < 0)
		return -1;
	if (mitm->n_socket_map == 0)
		return 0;
	p->sockets = calloc(mitm->n_socket_map, sizeof(*p->sockets));
	if (p->sockets == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	p->n_sockets = mitm->n_socket_map;
	for (size_t i = 0; i < p->n_sockets; i++) {
		if (text_dup(mitm->socket_map[i]->domain, &p->sockets[i].domain, err) < 0 ||
		    text_dup(mitm->socket_map[i]->path, &p->sockets[i].path, err) < 0)
			return -1;
	}
	return 0;
}

static int
fs_take(struct policy *p, const Koda__FsPolicy *fs, struct koda_error *err)
{
	if (paths_take(&p->list[KODA_DENY_READ], fs->deny_read, err) < 0 ||
	    paths_take(&p->list[KODA_ALLOW_READ_WITHIN_DENY], fs->allow_read_within_deny, err) <
		0 ||
	    paths_take(&p->list[KODA_ALLOW_WRITE], fs->allow_write, err) < 0 ||
	    paths_take(&p->list[KODA_DENY_WRITE_WITHIN_ALLOW], fs->deny_write_within_allow, err) <
		0 ||
	    names_take(&p->list[KODA_DENY_WRITE_NAMES], fs->deny_write_names, err) < 0)
		return -1;
	p->flag[KODA_ALLOW_GIT_CONFIG] = fs->has_allow_git_config && fs->allow_git_config;
	p->flag[KODA_SHARE_CACHES] = fs->has_share_caches && fs->share_caches;
	if (fs->has_mandatory_deny_search_depth) {
		if (fs->mandatory_deny_search_depth > UINT8_MAX)
			return err_set(err, KODA_PROTOCOL, 0,
			    "policy: mandatory_deny_search_depth is %u, more than %u",
			    fs->mandatory_deny_search_depth, UINT8_MAX);
		p->depth = (uint8_t)fs->mandatory_deny_search_depth;
	}
	return 0;
}

static int
net_take(struct policy *p, const Koda__NetPolicy *net, struct koda_error *err)
{
	if (domains_take(&p->list[KODA_ALLOWED_DOMAINS], net->allowed_domains, err) < 0 ||
	    domains_take(&p->list[KODA_DENIED_DOMAINS], net->denied_domains, err) < 0)
		return -1;
	p->flag[KODA_ANY_DOMAIN] = net->has_any_domain && net->any_domain;
	p->flag[KODA_ALLOW_LOCAL_BINDING] =
	    net->has_allow_local_binding && net->allow_local_binding;
	p->flag[KODA_WEAKER_MACOS_ISOLATION] =
	    net->has_weaker_macos_isolation && net->weaker_macos_isolation;
	return net->mitm != NULL ? mitm_take(p, net->mitm, err) : 0;
}

static void
limits_take(struct policy *p, const Koda__Limits *limits)
{
#define LIMIT(field, which)                                                                        \
	p->limit[which] = (struct policy_limit){ limits->has_##field, limits->field }
	LIMIT(cpu_time_secs, KODA_CPU_TIME_SECS);
	LIMIT(wall_time_secs, KODA_WALL_TIME_SECS);
	LIMIT(max_rss_bytes, KODA_MAX_RSS_BYTES);
	LIMIT(max_open_fds, KODA_MAX_OPEN_FDS);
	LIMIT(max_output_bytes, KODA_MAX_OUTPUT_BYTES);
	LIMIT(max_processes, KODA_MAX_PROCESSES);
	LIMIT(max_file_bytes, KODA_MAX_FILE_BYTES);
#undef LIMIT
}

int
policy_unpack(const uint8_t *data, size_t len, struct policy *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	cleanup(policy_done) struct policy p;
	const Koda__Policy *msg;

	policy_init(&p);
	arena_init(&arena);
	if (len > POLICY_PACKED_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "policy: %zu bytes, more than %u", len,
		    POLICY_PACKED_MAX);
	msg =
	    (const Koda__Policy *)message_unpack(&koda__policy__descriptor, data, len, &arena, err);
	if (msg == NULL)
		return err_wrap(err, "policy");
	if (msg->fs != NULL && fs_take(&p, msg->fs, err) < 0)
		return -1;
	if (msg->net != NULL && net_take(&p, msg->net, err) < 0)
		return -1;
	if (msg->limits != NULL)
		limits_take(&p, msg->limits);
	if (msg->has_trust)
		p.trust = (enum koda_trust)msg->trust; /* policy_check() checks the value */
	if (policy_check(&p, err) < 0) {
		/* The host checks its policy when it freezes it, so it never sends such bytes. */
		if (err != NULL)
			err->code = KODA_PROTOCOL;
		return -1;
	}
	*ret = p;
	policy_init(&p);
	return 0;
}
