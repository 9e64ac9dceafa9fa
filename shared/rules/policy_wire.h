/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the fields of a policy lie in the messages that protoc generates from proto/policy.proto. For
 * policy_pack.c and policy_unpack.c, which find a field by the offsets in its row.
 */
#ifndef KODA_SHARED_RULES_POLICY_WIRE_H
#define KODA_SHARED_RULES_POLICY_WIRE_H

#include "proto/policy.pb-c.h"
#include "shared/rules/policy_field.h"

/* The messages of rules are generated as different types, but with one layout. */
struct policy_wire_list {
	ProtobufCMessage base;
	size_t n;
	ProtobufCBinaryData *rule;
};
#define WIRE_LIST_IS(type, n_member, member)                                                       \
	_Static_assert(sizeof(type) == sizeof(struct policy_wire_list) &&                          \
		offsetof(type, n_member) == offsetof(struct policy_wire_list, n) &&                \
		offsetof(type, member) == offsetof(struct policy_wire_list, rule),                 \
	    "the lists of rules have one layout")
WIRE_LIST_IS(Koda__PathList, n_path, path);
WIRE_LIST_IS(Koda__NameList, n_name, name);
WIRE_LIST_IS(Koda__DomainList, n_domain, domain);

/* Return the field in its section's message, and whether it is set; both may be written if the
 * message may. */
static inline void *
policy_wire_field(const void *section, const struct policy_field *f)
{
	return (char *)(uintptr_t)section + f->wire;
}

static inline protobuf_c_boolean *
policy_wire_has(const void *section, const struct policy_field *f)
{
	return (protobuf_c_boolean *)((char *)(uintptr_t)section + f->wire_has);
}

#endif
