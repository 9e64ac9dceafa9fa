/*
 * What host and worker have to agree on beside the schema: the version, and the sizes at which a
 * message changes its form. Both sides check against the same names.
 */
#ifndef KODA_SHARED_WIRE_PROTOCOL_H
#define KODA_SHARED_WIRE_PROTOCOL_H

#include <stdint.h>

/* Host and helpers ship together: any change to proto/ or docs/PROTOCOL.md counts this up, and a
 * mismatch (a half-finished upgrade) is a clear error in the first frame. */
#define KODA_PROTOCOL_VERSION 4u

/* Up to here content travels in the frame; above, as a descriptor. Copying is cheaper than passing a
 * descriptor and mapping it until about here. */
#define INLINE_MAX (64u << 10)

/* One page of a list, and of a file whose descriptor is never passed (FUSE): half a frame, so that
 * what goes with it always fits. */
#define PAGE_MAX (512u << 10)

/* In one edit: bounds what a frame unpacks into. */
#define REPLACEMENTS_MAX 1024

/*
 * The record: a memfd of RECORD_BYTES, sealed against growing and shrinking, that host and worker share. What
 * a worker says ahead of a reply (Prepared, Committed, Verdict) is for the case that it dies, so it is left
 * here instead of waking the host each time: frames, one behind the other, of the requests since the last answer
 * went out. A death at
 * any instruction leaves them whole, because `used` counts a frame only when it is all there.
 */
#define RECORD_BYTES (192u << 10) /* PREPARED_MAX times the longest Prepared, and what follows it */
struct record {
	uint64_t used;
	uint8_t frames[RECORD_BYTES - sizeof(uint64_t)];
};

/* Of a command, in the record of what it planted: enough to know it again. */
#define COMMAND_TOLD_MAX 4096

/* Directories in which commands may write: each is held by a descriptor. */
#define SCAN_ROOTS_MAX 64

/* Of one search. Paths: each is a descriptor; a shell's glob gives as many. The rest bounds what a frame unpacks into. */
#define SEARCH_PATHS_MAX    1024
#define SEARCH_GLOBS_MAX    1024
#define SEARCH_TYPES_MAX    256
#define SEARCH_PATTERNS_MAX 1024
#define SEARCH_CONTEXT_MAX                                                                         \
	10000 /* lines; each is held while nobody knows whether a match follows */
/* Bytes of one line that are told: with a match at each of them it still fits a frame. */
#define SEARCH_COLUMNS_MAX (64u << 10)
/* Told; the rest is counted. */
#define SEARCH_TROUBLES_MAX 100
/* Every flag there is (enum koda_search_flags). */
#define SEARCH_FLAGS UINT64_C(0x1fff07ff)

/* An edit holds the file before and after in memory. */
#define EDIT_BYTES_MAX (256u << 20)

/* How often one request may be Prepared: it begins anew when somebody was faster. */
#define PREPARED_MAX 8

/* Where the egress proxy is found inside a slot, on 127.0.0.1: the same in every slot, below the ports that the kernel
 * gives out by itself. */
#define EGRESS_PORT 28889

/* Files that carry this worker's unfinished work: TEMP_PREFIX, 16 hex digits of the token, '-', the
 * request's id in decimal. */
#define TEMP_PREFIX    ".koda-"
#define TOKEN_BYTES    8
#define TEMP_NAME_SIZE (sizeof(TEMP_PREFIX) + 2 * TOKEN_BYTES + 1 + 20)

#endif
