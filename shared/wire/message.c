/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/wire/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"

#define ARENA_BLOCK (16u << 10) /* more than any request that carries no bulk */

struct arena_big {
	struct arena_big *next;
	max_align_t data[];
};

void *
arena_alloc(struct arena *a, size_t size)
{
	struct arena_big *big;
	size_t rounded = (size + 15) & ~(size_t)15;
	void *p;

	if (rounded < size)
		return NULL;
	if (a->block == NULL) {
		a->block = malloc(a->want);
		a->size = a->block == NULL ? 0 : a->want;
	}
	if (rounded <= a->size - a->used) {
		p = a->block + a->used;
		a->used += rounded;
		memset(p, 0, size);
		return p;
	}
	big = calloc(1, sizeof(*big) + rounded);
	if (big == NULL) {
		a->failed = true;
		return NULL;
	}
	big->next = a->big;
	a->big = big;
	return big->data;
}

void *
arena_take(struct arena *a, const void *p)
{
	for (struct arena_big **at = &a->big; *at != NULL; at = &(*at)->next) {
		struct arena_big *big = *at;

		if ((const void *)big->data != p)
			continue;
		*at = big->next;
		return big;
	}
	return NULL;
}

/*
 * Not zeroed: protobuf-c writes all of the memory that it asks for, and zeroing would touch a 64
 * KiB content twice.
 */
static void *
arena_alloc_cb(void *data, size_t size)
{
	struct arena *a = data;
	size_t rounded = (size + 15) & ~(size_t)15;
	struct arena_big *big;

	if (rounded < size)
		return NULL;
	if (rounded <= a->size - a->used) {
		void *p = a->block + a->used;

		a->used += rounded;
		return p;
	}
	if (a->block == NULL)
		return arena_alloc(a, size);
	big = malloc(sizeof(*big) + rounded);
	if (big == NULL) {
		a->failed = true;
		return NULL;
	}
	big->next = a->big;
	a->big = big;
	return big->data;
}

static void
arena_free_cb(void *data, void *p)
{
}

void
arena_init(struct arena *a)
{
	arena_init_large(a, ARENA_BLOCK);
}

void
arena_init_large(struct arena *a, size_t size)
{
	*a = (struct arena){ .allocator = { arena_alloc_cb, arena_free_cb, a }, .want = size };
}

void
arena_reset(struct arena *a)
{
	while (a->big != NULL) {
		struct arena_big *next = a->big->next;

		free(a->big);
		a->big = next;
	}
	a->used = 0;
}

void
arena_done(struct arena *a)
{
	arena_reset(a);
	free(a->block);
	a->block = NULL;
	a->size = 0;
}

struct wire {
	const uint8_t *p, *end;
};

static int
get_varint(struct wire *w, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && w->p < w->end; shift += 7) {
		uint8_t b = *w->p++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if ((b & 0x80) == 0) {
			*ret = v;
			/*
			 * The tenth byte has room for one bit only. A trailing zero byte adds
			 * nothing, and parsers disagree on whether it is allowed.
			 */
			return (shift == 63 && b > 1) || (shift > 0 && b == 0) ? -1 : 0;
		}
	}
	return -1;
}

static int
wire_type_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return PROTOBUF_C_WIRE_TYPE_64BIT;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return PROTOBUF_C_WIRE_TYPE_32BIT;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		break;
	}
	return PROTOBUF_C_WIRE_TYPE_VARINT;
}

/* A scalar that the type cannot hold would be truncated silently: 2^32 becomes 0. */
static bool
varint_fits(const ProtobufCFieldDescriptor *field, uint64_t v)
{
	if (field->type == PROTOBUF_C_TYPE_BOOL)
		return v <= 1;
	if (field->type == PROTOBUF_C_TYPE_UINT32)
		return v <= UINT32_MAX;
	if (field->type == PROTOBUF_C_TYPE_ENUM)
		return v <= INT32_MAX &&
		    protobuf_c_enum_descriptor_get_value(field->descriptor, (int)v) != NULL;
	return true;
}

static bool
same_oneof(const ProtobufCFieldDescriptor *a, const ProtobufCFieldDescriptor *b)
{
	return (a->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
	    (b->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
	    a->quantifier_offset == b->quantifier_offset;
}

/*
 * Our schema has no repeated scalars that are packed by default (proto2), so a repeated field has
 * one tag per element. `seen` has one bit per field: none of our messages has more than 64.
 */
static int
check_message(const ProtobufCMessageDescriptor *desc, struct wire w, int depth,
    struct koda_error *err)
{
	uint64_t seen = 0;

	if (depth > MESSAGE_DEPTH_MAX || desc->n_fields > 64)
		return err_set(err, KODA_PROTOCOL, 0, "%s: nested too deep", desc->short_name);
	while (w.p < w.end) {
		const ProtobufCFieldDescriptor *field;
		uint64_t tag, value = 0;
		size_t i;

		if (get_varint(&w, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
			return err_set(err, KODA_PROTOCOL, 0, "%s: malformed", desc->short_name);
		field = protobuf_c_message_descriptor_get_field(desc, (unsigned)(tag >> 3));
		if (field == NULL)
			return err_set(err, KODA_PROTOCOL, 0, "%s: unknown field %u",
			    desc->short_name, (unsigned)(tag >> 3));
		if ((int)(tag & 7) != wire_type_of(field->type))
			return err_set(err, KODA_PROTOCOL, 0, "%s.%s: wrong type", desc->short_name,
			    field->name);
		i = (size_t)(field - desc->fields);
		if (field->label != PROTOBUF_C_LABEL_REPEATED && (seen & UINT64_C(1) << i) != 0)
			return err_set(err, KODA_PROTOCOL, 0, "%s.%s: given twice",
			    desc->short_name, field->name);
		if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
			for (size_t k = 0; k < desc->n_fields; k++)
				if ((seen & UINT64_C(1) << k) != 0 &&
				    same_oneof(field, desc->fields + k))
					return err_set(err, KODA_PROTOCOL, 0, "%s: both %s and %s",
					    desc->short_name, desc->fields[k].name, field->name);
		seen |= UINT64_C(1) << i;

		switch (tag & 7) {
		case PROTOBUF_C_WIRE_TYPE_VARINT:
			if (get_varint(&w, &value) < 0 || !varint_fits(field, value))
				return err_set(err, KODA_PROTOCOL, 0, "%s.%s: out of range",
				    desc->short_name, field->name);
			break;
		case PROTOBUF_C_WIRE_TYPE_64BIT:
		case PROTOBUF_C_WIRE_TYPE_32BIT:
			value = (tag & 7) == PROTOBUF_C_WIRE_TYPE_64BIT ? 8 : 4;
			if ((size_t)(w.end - w.p) < value)
				return err_set(err, KODA_PROTOCOL, 0, "%s.%s: cut off",
				    desc->short_name, field->name);
			w.p += value;
			break;
		default:
			if (get_varint(&w, &value) < 0 || value > (size_t)(w.end - w.p))
				return err_set(err, KODA_PROTOCOL, 0, "%s.%s: cut off",
				    desc->short_name, field->name);
			if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
			    check_message(field->descriptor, (struct wire){ w.p, w.p + value },
				depth + 1, err) < 0)
				return -1;
			w.p += value;
		}
	}
	for (size_t i = 0; i < desc->n_fields; i++)
		if (desc->fields[i].label == PROTOBUF_C_LABEL_REQUIRED &&
		    (seen & UINT64_C(1) << i) == 0)
			return err_set(err, KODA_PROTOCOL, 0, "%s.%s: missing", desc->short_name,
			    desc->fields[i].name);
	return 0;
}

int
message_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len,
    struct koda_error *err)
{
	/* The data of an empty message may be NULL. */
	return check_message(desc, (struct wire){ data, len == 0 ? data : data + len }, 1, err);
}

ProtobufCMessage *
message_unpack(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len,
    struct arena *arena, struct koda_error *err)
{
	ProtobufCMessage *msg;

	if (message_check(desc, data, len, err) < 0)
		return NULL;
	arena->failed = false;
	msg = protobuf_c_message_unpack(desc, &arena->allocator, len, data);
	if (msg == NULL)
		err_set(err, arena->failed ? KODA_INTERNAL : KODA_PROTOCOL,
		    arena->failed ? ENOMEM : 0, "%s: cannot be unpacked", desc->short_name);
	return msg;
}

ProtobufCMessage *
message_copy(const ProtobufCMessage *msg, struct koda_error *err)
{
	const ProtobufCMessageDescriptor *desc = msg->descriptor;
	size_t len = protobuf_c_message_get_packed_size(msg);
	cleanup_free uint8_t *packed = NULL;
	ProtobufCMessage *copy;

	if (len > FRAME_MAX) {
		err_set(err, KODA_TOO_LARGE, 0, "%s: %zu bytes are too many for a frame",
		    desc->short_name, len);
		return NULL;
	}
	packed = malloc(len > 0 ? len : 1);
	if (packed == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "%s", desc->short_name);
		return NULL;
	}
	protobuf_c_message_pack(msg, packed);
	if (message_check(desc, packed, len, err) < 0)
		return NULL;
	copy = protobuf_c_message_unpack(desc, NULL, len, packed);
	if (copy == NULL)
		err_set(err, KODA_INTERNAL, ENOMEM, "%s", desc->short_name);
	return copy;
}

size_t
message_put_frame(const ProtobufCMessage *msg, uint8_t *to, size_t room)
{
	size_t len = protobuf_c_message_get_packed_size(msg);

	if (room < FRAME_HEADER || len > room - FRAME_HEADER)
		return 0;
	frame_put_length(to, len);
	protobuf_c_message_pack(msg, to + FRAME_HEADER);
	return FRAME_HEADER + len;
}

ssize_t
message_queue(struct frame_stream *fs, const ProtobufCMessage *msg, struct koda_error *err)
{
	size_t len = protobuf_c_message_get_packed_size(msg);
	uint8_t *p = frame_reserve(fs, len, err);

	if (p == NULL)
		return -1;
	protobuf_c_message_pack(msg, p);
	return (ssize_t)len + FRAME_HEADER;
}
