/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as Request, Reply and Policy: libprotobuf-c unpacks what message_check accepts. Packed
 * again, the message is accepted again, and unpacking and packing it gives the same bytes.
 */
#include "fuzz/fuzz.h"
#include "proto/policy.pb-c.h"
#include "proto/worker.pb-c.h"
#include "shared/wire/message.h"

static void
one_type(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t size)
{
	struct arena arena;
	struct koda_error err;
	ProtobufCMessage *msg;
	uint8_t *packed, *again;
	size_t len;
	int r = message_check(desc, data, size, &err);

	must(r == 0 || (r == -1 && err.code == KODA_PROTOCOL && err.message[0] != '\0'));
	arena_init(&arena);
	msg = message_unpack(desc, data, size, &arena, &err);
	must((msg != NULL) == (r == 0));
	if (msg == NULL) {
		arena_done(&arena);
		return;
	}
	len = protobuf_c_message_get_packed_size(msg);
	packed = malloc(len + 1);
	must(packed != NULL && protobuf_c_message_pack(msg, packed) == len);
	arena_reset(&arena);
	msg = message_unpack(desc, packed, len, &arena, &err);
	must(msg != NULL && protobuf_c_message_get_packed_size(msg) == len);
	again = malloc(len + 1);
	must(again != NULL && protobuf_c_message_pack(msg, again) == len);
	must(memcmp(packed, again, len) == 0);
	free(packed);
	free(again);
	arena_done(&arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > FRAME_MAX)
		return 0;
	one_type(&koda__request__descriptor, data, size);
	one_type(&koda__reply__descriptor, data, size);
	one_type(&koda__policy__descriptor, data, size);
	return 0;
}
