/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages in frames. libprotobuf-c accepts unknown fields, a scalar given twice, two
 * members of a oneof, and unlimited nesting; message_check refuses them on the raw bytes, before
 * anything is allocated. Which values a field may have is left to the receiver's own validation:
 * proto/ defines types only.
 *
 * This is the only code that unpacks messages: nothing else that is shipped calls
 * protobuf_c_message_unpack or a generated koda__*__unpack (tools/check-symbols).
 */
#ifndef KODA_SHARED_WIRE_MESSAGE_H
#define KODA_SHARED_WIRE_MESSAGE_H

#include <string.h>
#include <sys/types.h>

#include <protobuf-c/protobuf-c.h>

#include "shared/wire/frame.h"

#define MESSAGE_DEPTH_MAX 8 /* our deepest message nests 5 */

/* A bump allocator for one message at a time: unpacking does not cost a malloc per field. */
struct arena {
	ProtobufCAllocator allocator; /* pass &a->allocator to protobuf-c */
	uint8_t *block;
	size_t size, used, want;
	struct arena_big *big; /* what did not fit into the block; freed by arena_reset */
	bool failed;           /* there was no memory */
};

void arena_init(struct arena *a);
/*
 * For a receiver of messages with many parts: like arena_init(), but the block, which the arena
 * keeps, has this size.
 */
void arena_init_large(struct arena *a, size_t size);
/* Frees everything that was allocated from the arena. The arena keeps its block. */
void arena_reset(struct arena *a);
void arena_done(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, or NULL */
/*
 * Takes over large content without copying it: if p, which was allocated from this arena, has a
 * block of its own, returns that block, which the caller must free(). Returns NULL if p has no
 * block of its own.
 */
void *arena_take(struct arena *a, const void *p);

/* Wraps text as a field of bytes, without its NUL. The text stays the caller's. */
static inline ProtobufCBinaryData
message_text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

/*
 * Checks that data is exactly one well-formed message of this type. Returns 0, or -1 with
 * KODA_PROTOCOL.
 */
int message_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len,
    struct koda_error *err);

/*
 * Calls message_check, then unpacks into the arena, which owns the result. Returns NULL with *err
 * set on failure.
 */
ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *desc, const uint8_t *data,
    size_t len, struct arena *arena, struct koda_error *err);

/*
 * Copies a message and everything in it, by packing it and unpacking the bytes with the same
 * checks. Returns the copy, which the caller frees with its koda__*__free_unpacked(copy, NULL); or
 * NULL with *err set: KODA_TOO_LARGE above FRAME_MAX, KODA_PROTOCOL if a receiver would refuse msg.
 */
ProtobufCMessage *message_copy(const ProtobufCMessage *msg, struct koda_error *err);

/*
 * Packs a message as one frame in memory. Returns the number of bytes, including the frame's
 * header, or 0 if there is no room for it.
 */
size_t message_put_frame(const ProtobufCMessage *msg, uint8_t *to, size_t room);

/*
 * Queues a message as one frame. Returns the number of bytes queued, including the frame's header,
 * or -1.
 */
ssize_t message_queue(struct frame_stream *fs, const ProtobufCMessage *msg, struct koda_error *err);

#endif
