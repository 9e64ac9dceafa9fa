/* SPDX-License-Identifier: Apache-2.0 */
/* Packed bytes -> policy. A separate file, so that only programs that receive a policy can read
 * one. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/policy_wire.h"
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
list_take(struct policy_list *list, const struct policy_wire_list *msg, struct koda_error *err)
{
	list->present = msg != NULL;
	for (size_t i = 0; msg != NULL && i < msg->n; i++) {
		cleanup_free char *text = NULL;

		if (text_dup(msg->rule[i], &text, err) < 0 || policy_list_add(list, text, err) < 0)
			return -1;
	}
	return 0;
}

static int
number_take(const struct policy_field *f, struct policy *p, uint32_t value, struct koda_error *err)
{
	if (value > UINT8_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "policy: %s is %u, more than %u", f->name,
		    value, UINT8_MAX);
	policy_field_set_number(p, f, value);
	return 0;
}

static int
mitm_take(struct policy *p, const Koda__Mitm *mitm, struct koda_error *err)
{
	if (mitm == NULL)
		return 0;
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

/* A scalar that is not set keeps its default. */
static int
field_take(const struct policy_field *f, struct policy *p, const void *section,
    struct koda_error *err)
{
	void *member = policy_field_in(p, f);
	const void *wire = policy_wire_field(section, f);

	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		return list_take(member, *(struct policy_wire_list *const *)wire, err);
	case POLICY_FLAG:
		*(bool *)member = *policy_wire_has(section, f) && *(const protobuf_c_boolean *)wire;
		return 0;
	case POLICY_LIMIT:
		*(struct policy_limit *)member =
		    (struct policy_limit){ *policy_wire_has(section, f), *(const uint64_t *)wire };
		return 0;
	case POLICY_NUMBER:
		return *policy_wire_has(section, f)
		    ? number_take(f, p, *(const uint32_t *)wire, err)
		    : 0;
	case POLICY_CHOICE:
		if (*policy_wire_has(section, f)) /* policy_check() checks the value */
			policy_field_set_number(p, f, *(const uint32_t *)wire);
		return 0;
	case POLICY_MITM:
		return mitm_take(p, *(Koda__Mitm *const *)wire, err);
	}
	return err_set(err, KODA_INTERNAL, 0, "policy: %s has no kind", f->name);
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
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		const void *const sections[] = {
			[POLICY_FS] = msg->fs,
			[POLICY_NET] = msg->net,
			[POLICY_LIMITS] = msg->limits,
			[POLICY_TOP] = msg,
		};
		const struct policy_field *f = &policy_fields[i];

		/* A section that is missing leaves its fields at their defaults. */
		if (sections[f->section] != NULL &&
		    field_take(f, &p, sections[f->section], err) < 0)
			return -1;
	}
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
