/* SPDX-License-Identifier: Apache-2.0 */
/* A policy as bytes, and their digest. Unpacking is in policy_unpack.c. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/policy_wire.h"

/* The message that is being filled. It points into itself and into the policy. */
struct packing {
	Koda__Policy policy;
	Koda__FsPolicy fs;
	Koda__NetPolicy net;
	Koda__Limits limits;
	Koda__Mitm mitm;
	struct policy_wire_list list[KODA_N_LISTS];
	size_t n_lists;
	ProtobufCBinaryData *rule, *next_rule; /* for all lists; the first that is not used yet */
	Koda__SocketMap *socket, **socket_ptr;
	void *section[POLICY_N_SECTIONS];
};

static void
packing_done(struct packing *m)
{
	free(m->rule);
	free(m->socket);
	free(m->socket_ptr);
}

static int
packing_init(struct packing *m, const struct policy *p)
{
	size_t n = 0;

	*m = (struct packing){
		.policy = KODA__POLICY__INIT,
		.fs = KODA__FS_POLICY__INIT,
		.net = KODA__NET_POLICY__INIT,
		.limits = KODA__LIMITS__INIT,
		.mitm = KODA__MITM__INIT,
	};
	m->section[POLICY_FS] = m->policy.fs = &m->fs;
	m->section[POLICY_NET] = m->policy.net = &m->net;
	m->section[POLICY_LIMITS] = m->policy.limits = &m->limits;
	m->section[POLICY_TOP] = &m->policy;
	for (size_t i = 0; i < KODA_N_LISTS; i++)
		n += p->list[i].n;
	m->rule = m->next_rule = calloc(n + 1, sizeof(*m->rule));
	m->socket = calloc(p->n_sockets + 1, sizeof(*m->socket));
	m->socket_ptr = calloc(p->n_sockets + 1, sizeof(*m->socket_ptr));
	return m->rule == NULL || m->socket == NULL || m->socket_ptr == NULL ? -1 : 0;
}

static ProtobufCBinaryData
as_bytes(char *text)
{
	return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)text };
}

static const ProtobufCMessageDescriptor *
list_descriptor(const struct policy_field *f)
{
	return f->kind == POLICY_NAMES  ? &koda__name_list__descriptor
	    : f->kind == POLICY_DOMAINS ? &koda__domain_list__descriptor
					: &koda__path_list__descriptor;
}

/* Return the message of the list's rules, or NULL for an absent list. */
static struct policy_wire_list *
list_pack(struct packing *m, const struct policy_field *f, const struct policy_list *list)
{
	struct policy_wire_list *ret;

	if (!list->present)
		return NULL;
	ret = &m->list[m->n_lists++];
	protobuf_c_message_init(list_descriptor(f), ret);
	ret->n = list->n;
	ret->rule = m->next_rule;
	for (size_t i = 0; i < list->n; i++)
		*m->next_rule++ = as_bytes(list->v[i]);
	return ret;
}

static Koda__Mitm *
mitm_pack(struct packing *m, const struct policy *p)
{
	if (p->ca_bundle == NULL)
		return NULL;
	m->mitm.ca_bundle = as_bytes(p->ca_bundle);
	for (size_t i = 0; i < p->n_sockets; i++) {
		koda__socket_map__init(&m->socket[i]);
		m->socket[i].domain = as_bytes(p->sockets[i].domain);
		m->socket[i].path = as_bytes(p->sockets[i].path);
		m->socket_ptr[i] = &m->socket[i];
	}
	m->mitm.socket_map = m->socket_ptr;
	m->mitm.n_socket_map = p->n_sockets;
	return &m->mitm;
}

static void
field_pack(struct packing *m, const struct policy_field *f, const struct policy *p)
{
	const void *member = policy_field_in(p, f);
	void *section = m->section[f->section], *wire = policy_wire_field(section, f);
	const struct policy_limit *limit;

	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		*(struct policy_wire_list **)wire = list_pack(m, f, member);
		break;
	case POLICY_FLAG:
		*policy_wire_has(section, f) = true;
		*(protobuf_c_boolean *)wire = *(const bool *)member;
		break;
	case POLICY_LIMIT:
		limit = member;
		*policy_wire_has(section, f) = limit->set;
		*(uint64_t *)wire = limit->value;
		break;
	case POLICY_NUMBER:
	case POLICY_CHOICE: /* the numbers of an enum are the same in the schema */
		*policy_wire_has(section, f) = true;
		*(uint32_t *)wire = policy_field_number(p, f);
		break;
	case POLICY_MITM:
		*(Koda__Mitm **)wire = mitm_pack(m, p);
		break;
	}
}

int
policy_pack(const struct policy *p, uint8_t **ret, size_t *ret_len, struct koda_error *err)
{
	cleanup(packing_done) struct packing m;
	cleanup_free uint8_t *packed = NULL;
	size_t len;

	if (packing_init(&m, p) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	for (size_t i = 0; i < POLICY_N_FIELDS; i++)
		field_pack(&m, &policy_fields[i], p);
	len = protobuf_c_message_get_packed_size(&m.policy.base);
	if (len > POLICY_PACKED_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "the policy has %zu bytes, more than %u",
		    len, POLICY_PACKED_MAX);
	packed = malloc(len);
	if (packed == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	protobuf_c_message_pack(&m.policy.base, packed);
	*ret = take_ptr(&packed);
	*ret_len = len;
	return 0;
}

void
policy_digest(const uint8_t *packed, size_t len, uint8_t ret[KODA_DIGEST_BYTES])
{
	crypto_generichash(ret, KODA_DIGEST_BYTES, packed, len, NULL, 0);
}
