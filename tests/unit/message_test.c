/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/wire/message.c: what is refused on the raw bytes before anything is unpacked; and every
 * message that we send passes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"
#include "tests/kit/cases.h"

#define REQUEST  (&koda__request__descriptor)
#define REPLY    (&koda__reply__descriptor)
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

/* Field 1 is id, 3 is ping, 5 is read {1 path, 2 offset, 3 max, 4 digest}, 13 is explain
 * {1 path, 2 access}. */
static const struct {
	const char *label;
	const ProtobufCMessageDescriptor *desc;
	const uint8_t *data;
	size_t len;
	const char *says; /* NULL: valid */
} cases[] = {
	{ "ping", REQUEST, BYTES("\x08\x01\x1a\x00"), NULL },
	{ "fields in another order", REQUEST, BYTES("\x1a\x00\x08\x01"), NULL },
	{ "no member of the oneof", REQUEST, BYTES("\x08\x01"), NULL },
	{ "an id of ten bytes", REQUEST,
	    BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00"), NULL },
	{ "a path", REQUEST, BYTES("\x08\x01\x2a\x03\x0a\x01/"), NULL },
	{ "explain", REQUEST, BYTES("\x08\x01\x6a\x05\x0a\x01/\x10\x02"), NULL },

	{ "nothing", REQUEST, BYTES(""), "id: missing" },
	{ "id missing", REQUEST, BYTES("\x1a\x00"), "id: missing" },
	{ "required field of a member missing", REQUEST, BYTES("\x08\x01\x2a\x00"),
	    "path: missing" },
	{ "required field within missing", REPLY, BYTES("\x08\x01\x1a\x02\x08\x01"), "missing" },
	{ "unknown field", REQUEST, BYTES("\x08\x01\xf8\x01\x01"), "unknown field 31" },
	{ "unknown field within", REQUEST, BYTES("\x08\x01\x1a\x02\x08\x01"), "unknown field 1" },
	{ "field 0", REQUEST, BYTES("\x00\x01"), "malformed" },
	{ "a huge field number", REQUEST, BYTES("\x08\x01\xf8\xff\xff\xff\x0f\x01"),
	    "unknown field" },
	{ "a scalar twice", REQUEST, BYTES("\x08\x01\x08\x01\x1a\x00"), "id: given twice" },
	{ "a scalar twice within", REQUEST, BYTES("\x08\x01\x2a\x06\x0a\x01/\x0a\x01/"),
	    "path: given twice" },
	{ "a message twice", REQUEST, BYTES("\x08\x01\x1a\x00\x1a\x00"), "given twice" },
	{ "two members of the oneof", REQUEST, BYTES("\x08\x01\x1a\x00\x22\x00"),
	    "both ping and shutdown" },
	{ "another wire type", REQUEST, BYTES("\x09\x01\x00\x00\x00\x00\x00\x00\x00"),
	    "wrong type" },
	{ "a group", REQUEST, BYTES("\x08\x01\x1b\x1c"), "wrong type" },
	{ "a varint where a message belongs", REQUEST, BYTES("\x08\x01\x18\x00"), "wrong type" },
	{ "a varint of eleven bytes", REQUEST,
	    BYTES("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x1a\x00"), "out of range" },
	{ "a varint above 64 bits", REQUEST,
	    BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x1a\x00"), "out of range" },
	{ "a varint cut off", REQUEST, BYTES("\x08\x80"), "out of range" },
	{ "a varint with a zero behind it", REQUEST, BYTES("\x08\x81\x00"), "out of range" },
	{ "a length with zeros behind it", REQUEST,
	    BYTES("\x7a\x80\x80\x80\x80\x80\x80\x00\x08\x31"), "cut off" },
	{ "a tag cut off", REQUEST, BYTES("\x08\x01\x9a"), "malformed" },
	{ "a length beyond the end", REQUEST, BYTES("\x08\x01\x1a\x01"), "cut off" },
	{ "a length beyond the member", REQUEST, BYTES("\x08\x01\x2a\x03\x0a\x02/"), "cut off" },
	{ "a length of all ones", REQUEST,
	    BYTES("\x08\x01\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "cut off" },
	{ "an enum of no such value", REQUEST, BYTES("\x08\x01\x6a\x05\x0a\x01/\x10\x03"),
	    "out of range" },
	{ "an enum of 0", REQUEST, BYTES("\x08\x01\x6a\x05\x0a\x01/\x10\x00"), "out of range" },
	{ "an enum that would be cut to a good one", REQUEST,
	    BYTES("\x08\x01\x6a\x09\x0a\x01/\x10\x82\x80\x80\x80\x10"), "out of range" },
	{ "a bool of 2", REQUEST, BYTES("\x08\x01\x2a\x05\x0a\x01/\x20\x02"), "out of range" },
	{ "a uint32 that would be cut", REPLY,
	    BYTES("\x08\x01\x12\x0b\x08\x01\x10\x80\x80\x80\x80\x10\x1a\x01x"), "out of range" },
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	struct arena arena;
	/* At the end of its own block, so that a read one byte past it is found. */
	uint8_t *data = malloc(cases[i].len > 0 ? cases[i].len : 1);
	ProtobufCMessage *msg;

	assert_non_null(data);
	memcpy(data, cases[i].data, cases[i].len);
	arena_init(&arena);
	msg = message_unpack(cases[i].desc, data, cases[i].len, &arena, &err);
	if (cases[i].says == NULL) {
		if (msg == NULL)
			fail_msg("%s", err.message);
		assert_int_equal(message_check(cases[i].desc, data, cases[i].len, &err), 0);
	} else {
		assert_null(msg);
		assert_int_equal(err.code, KODA_PROTOCOL);
		if (strstr(err.message, cases[i].says) == NULL)
			fail_msg("'%s' says nothing of '%s'", err.message, cases[i].says);
	}
	arena_done(&arena);
	free(data);
}

/* None of our messages can nest that deep, so the test defines one that can. */
static const ProtobufCMessageDescriptor nested;
static const ProtobufCFieldDescriptor nested_fields[] = {
	{ .name = "inner",
	    .id = 1,
	    .label = PROTOBUF_C_LABEL_OPTIONAL,
	    .type = PROTOBUF_C_TYPE_MESSAGE,
	    .descriptor = &nested },
};
static const unsigned nested_index[] = { 0 };
static const ProtobufCIntRange nested_ranges[] = { { 1, 0 }, { 0, 1 } };
static const ProtobufCMessageDescriptor nested = {
	.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
	.name = "Nested",
	.short_name = "Nested",
	.n_fields = 1,
	.fields = nested_fields,
	.fields_sorted_by_name = nested_index,
	.n_field_ranges = 1,
	.field_ranges = nested_ranges,
};

static void
nested_too_deep(void **state)
{
	uint8_t data[2 * 60];
	struct koda_error err;

	for (size_t depth = 0; depth < 60; depth++) {
		for (size_t i = 0; i < depth; i++) {
			data[2 * i] = 0x0a;
			data[2 * i + 1] = (uint8_t)(2 * (depth - i - 1));
		}
		if (depth < MESSAGE_DEPTH_MAX) {
			assert_int_equal(message_check(&nested, data, 2 * depth, &err), 0);
		} else {
			assert_int_equal(message_check(&nested, data, 2 * depth, &err), -1);
			assert_int_equal(err.code, KODA_PROTOCOL);
		}
	}
}

/* For each operation in the schema, a message with only its required fields passes; cut
 * anywhere, it does not. */
static void
fill(const ProtobufCMessageDescriptor *desc, struct arena *arena, ProtobufCMessage *msg)
{
	protobuf_c_message_init(desc, msg);
	for (unsigned i = 0; i < desc->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &desc->fields[i];
		uint8_t *at = (uint8_t *)msg + f->offset;

		if (f->label != PROTOBUF_C_LABEL_REQUIRED)
			continue;
		if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
			const ProtobufCMessageDescriptor *inner = f->descriptor;
			ProtobufCMessage *m = arena_alloc(arena, inner->sizeof_message);

			assert_non_null(m);
			fill(inner, arena, m);
			memcpy(at, &m, sizeof(m));
		} else if (f->type == PROTOBUF_C_TYPE_BYTES) {
			ProtobufCBinaryData b = { 2, (uint8_t *)(uintptr_t) "/x" };

			memcpy(at, &b, sizeof(b));
		} else if (f->type == PROTOBUF_C_TYPE_ENUM) {
			const ProtobufCEnumDescriptor *e = f->descriptor;

			memcpy(at, &e->values[0].value, sizeof(int));
		}
	}
}

static void
each_kind(const ProtobufCMessageDescriptor *desc)
{
	unsigned kinds = 0;

	for (unsigned i = 0; i < desc->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &desc->fields[i];
		ProtobufCMessage *msg, *inner, *back;
		struct arena arena, second;
		struct koda_error err;
		uint8_t *data;
		size_t len;
		int op_case = (int)f->id;

		if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
			continue;
		kinds++;
		arena_init(&arena);
		arena_init(&second);
		msg = arena_alloc(&arena, desc->sizeof_message);
		fill(desc, &arena, msg);
		inner = arena_alloc(&arena,
		    ((const ProtobufCMessageDescriptor *)f->descriptor)->sizeof_message);
		fill(f->descriptor, &arena, inner);
		memcpy((uint8_t *)msg + f->offset, &inner, sizeof(inner));
		memcpy((uint8_t *)msg + f->quantifier_offset, &op_case, sizeof(op_case));
		len = protobuf_c_message_get_packed_size(msg);
		data = malloc(len);
		assert_non_null(data);
		protobuf_c_message_pack(msg, data);
		back = message_unpack(desc, data, len, &second, &err);
		if (back == NULL)
			fail_msg("%s: %s", f->name, err.message);
		assert_int_equal(protobuf_c_message_get_packed_size(back), len);
		for (size_t cut = 0; cut < len; cut++) {
			uint8_t *part = malloc(cut > 0 ? cut : 1);

			assert_non_null(part);
			memcpy(part, data, cut);
			/* A cut between two fields of the outer message leaves another valid
			 * message, without a member. */
			if (message_check(desc, part, cut, &err) == 0) {
				arena_reset(&second);
				back = message_unpack(desc, part, cut, &second, &err);
				assert_non_null(back);
				memcpy(&op_case, (uint8_t *)back + f->quantifier_offset,
				    sizeof(op_case));
				assert_int_equal(op_case, 0);
			}
			free(part);
		}
		free(data);
		arena_done(&arena);
		arena_done(&second);
	}
	assert_true(kinds >= 13);
}

static void
each_request(void **state)
{
	each_kind(REQUEST);
}

static void
each_reply(void **state)
{
	each_kind(REPLY);
}

static void
arena(void **state)
{
	struct arena a;
	uint8_t *p, *q, *taken;

	arena_init(&a);
	for (int round = 0; round < 3; round++) {
		for (size_t size = 1; size < 100000; size = size * 3 / 2 + 1) {
			p = arena_alloc(&a, size);
			assert_non_null(p);
			assert_int_equal((uintptr_t)p % 16, 0);
			for (size_t i = 0; i < size; i++)
				assert_int_equal(p[i], 0);
			memset(p, 0xee, size);
			q = a.allocator.alloc(&a, size);
			assert_non_null(q);
			memset(q, 0xdd, size);
			assert_int_equal(p[size - 1], 0xee);
		}
		arena_reset(&a);
	}
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(a.allocator.alloc(&a, SIZE_MAX - 3));
	/* A small allocation has no block of its own to take. */
	p = arena_alloc(&a, 10);
	assert_null(arena_take(&a, p));
	q = arena_alloc(&a, 50000);
	taken = arena_take(&a, q);
	assert_non_null(taken);
	assert_null(arena_take(&a, q));
	arena_reset(&a);
	memset(q, 1, 50000);
	free(taken);
	arena_done(&a);
}

static void
queued(void **state)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Write write = KODA__WRITE__INIT;
	cleanup_free uint8_t *content = calloc(1, FRAME_MAX);
	struct frame_stream fs;
	struct koda_error err;
	int fds[2];
	ssize_t r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	frame_init(&fs, fds[0]);
	close(fds[1]);
	req.id = 7;
	req.op_case = KODA__REQUEST__OP_WRITE;
	req.write = &write;
	write.path = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t) "x" };
	r = message_queue(&fs, &req.base, &err);
	assert_true(r > 4);
	assert_int_equal(frame_pending(&fs), r);
	write.has_content = true;
	write.content = (ProtobufCBinaryData){ FRAME_MAX, content };
	assert_int_equal(message_queue(&fs, &req.base, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	frame_done(&fs);
}

/* A copy shares no memory with the message, and is refused where a receiver would refuse it. */
static void
copied(void **state)
{
	cleanup_free uint8_t *large = calloc(1, FRAME_MAX);
	char path[] = "/a/b";
	Koda__Place place = KODA__PLACE__INIT, *copy;
	struct koda_error err = { 0 };

	assert_non_null(large);
	place.kind = KODA__PLACE_KIND__PLACE_RULE;
	place.type = KODA__FILE_TYPE__FILE_REGULAR;
	place.path = (ProtobufCBinaryData){ strlen(path), (uint8_t *)path };
	place.ino = UINT64_MAX;
	place.mtime_ns = -1;
	copy = (Koda__Place *)message_copy(&place.base, &err);
	if (copy == NULL)
		fail_msg("%s", err.message);
	memset(path, 'x', sizeof(path));
	assert_int_equal(copy->path.len, 4);
	assert_memory_equal(copy->path.data, "/a/b", 4);
	assert_true(copy->kind == place.kind && copy->ino == UINT64_MAX && copy->mtime_ns == -1);
	koda__place__free_unpacked(copy, NULL);
	place.kind = 1000;
	assert_null(message_copy(&place.base, &err));
	assert_int_equal(err.code, KODA_PROTOCOL);
	place.kind = KODA__PLACE_KIND__PLACE_RULE;
	place.path = (ProtobufCBinaryData){ FRAME_MAX, large };
	assert_null(message_copy(&place.base, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
}

/* A frame in memory is the one that goes through a socket, and is written where it fits only. */
static void
frame_in_memory(void **state)
{
	Koda__Error msg = KODA__ERROR__INIT;
	char text[300];
	uint8_t packed[512];
	size_t len;

	memset(text, 'x', sizeof(text));
	msg.code = KODA__ERROR_CODE__TOO_LARGE;
	msg.message = (ProtobufCBinaryData){ sizeof(text), (uint8_t *)text };
	len = koda__error__pack(&msg, packed);
	assert_true(len > 256);
	for (size_t room = 0; room < len + FRAME_HEADER + 2; room++) {
		uint8_t *to = malloc(room > 0 ? room : 1);
		size_t n;

		assert_non_null(to);
		n = message_put_frame(&msg.base, to, room);
		assert_int_equal(n, room < FRAME_HEADER + len ? 0 : FRAME_HEADER + len);
		if (n > 0) {
			assert_int_equal(frame_get_length(to), len);
			assert_true(to[0] == 0 && to[1] == 0 && to[2] == len >> 8);
			assert_memory_equal(to + FRAME_HEADER, packed, len);
		}
		free(to);
	}
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 7];
	size_t n = 0;

	CASES(cases, check_case);
#define ADD(fn) tests[n++] = (struct CMUnitTest){ #fn, fn, NULL, NULL, NULL }
	ADD(nested_too_deep);
	ADD(each_request);
	ADD(each_reply);
	ADD(arena);
	ADD(queued);
	ADD(copied);
	ADD(frame_in_memory);
	return _cmocka_run_group_tests("message", tests, n, NULL, NULL);
}
