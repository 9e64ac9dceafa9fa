/*
 * Any protobuf message on a frame. libprotobuf-c accepts unknown fields, a scalar twice, two members
 * of a oneof, and endless nesting; message_check refuses them on the raw bytes, before anything is
 * allocated. What a field may hold is the business of the receiver's validation (proto/ knows types,
 * not sense).
 *
 * This is the only place that calls protobuf_c_message_unpack.
 */
#ifndef KODA_SHARED_WIRE_MESSAGE_H
#define KODA_SHARED_WIRE_MESSAGE_H

#include <string.h>
#include <sys/types.h>

#include <protobuf-c/protobuf-c.h>

#include "shared/wire/frame.h"

#define MESSAGE_DEPTH_MAX 8 /* our deepest message nests 5 */

/* A bump allocator for one message at a time: unpacking costs no malloc per field. */
struct arena {
	ProtobufCAllocator allocator; /* give &a->allocator to protobuf-c */
	uint8_t *block;
	size_t size, used, want;
	struct arena_big *big; /* what did not fit, freed by arena_reset */
};

void arena_init(struct arena *a);
/* For who gets messages of many parts: its block, which it keeps, has that size. */
void arena_init_large(struct arena *a, size_t size);
void arena_reset(struct arena *a); /* everything allocated from it is gone; keeps a small block */
void arena_done(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, or NULL */
/* Large content is not copied once more: if p, which was allocated from here, has a block of its own, that
 * block is the caller's now and lives until he gives it to free(). NULL if it has none. */
void *arena_take(struct arena *a, const void *p);

/* Text as a field of bytes, without its NUL; still the caller's. */
static inline ProtobufCBinaryData
message_text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

/* Is this a well-formed message of that type and nothing more? 0, or -1 with KODA_PROTOCOL. */
int message_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len,
    struct koda_error *err);

/* message_check, then unpack into the arena. NULL with *err set. */
ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *desc, const uint8_t *data,
    size_t len, struct arena *arena, struct koda_error *err);

/* Queue a message as one frame. Returns the number of bytes queued, header included, or -1. */
ssize_t message_queue(struct frame_stream *fs, const ProtobufCMessage *msg, struct koda_error *err);

#endif
