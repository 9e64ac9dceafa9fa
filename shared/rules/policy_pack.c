/* A policy as bytes, and their digest. Unpacking is in policy_unpack.c. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "proto/policy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
}

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
