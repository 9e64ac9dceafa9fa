/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host and worker must agree on besides the schema: the version, and the sizes at which a
 * message changes its form. Both sides check against these names.
 */
#ifndef KODA_SHARED_WIRE_PROTOCOL_H
#define KODA_SHARED_WIRE_PROTOCOL_H

#include <stdint.h>

/*
 * Host and helpers ship together. Every change to proto/ or docs/PROTOCOL.md increments this, so
 * that a mismatch (a half-finished upgrade) is a clear error in the first frame.
 */
#define KODA_PROTOCOL_VERSION 6u

/*
 * Content up to this size travels in the frame, larger content as a descriptor. Up to about this
 * size, copying is cheaper than passing a descriptor and mapping it.
 */
#define INLINE_MAX (64u << 10)

/*
 * One page of a list, or of a file whose descriptor is never passed (FUSE). Half a frame, so that
 * the rest of the message always fits.
 */
#define PAGE_MAX (512u << 10)

/* Replacements in one edit. Bounds what a frame unpacks into. */
#define REPLACEMENTS_MAX 1024

/*
 * The record: a memfd of RECORD_BYTES, sealed against growing and shrinking, that host and worker
 * share. What a worker reports ahead of a reply (Prepared, Committed, Verdict) is needed only if
 * the worker dies, so it is written here instead of waking the host each time: the frames, one
 * after the other, of the requests since the last reply was sent. A worker that dies at any
 * instruction leaves them whole, because `used` counts a frame only when it is complete.
 */
/* PREPARED_MAX times the longest Prepared, and what follows it. */
#define RECORD_BYTES (192u << 10)
struct record {
	uint64_t used;
	uint8_t frames[RECORD_BYTES - sizeof(uint64_t)];
};

/* Bytes of a command's text in the record of what the command planted: enough to recognize it. */
#define COMMAND_TOLD_MAX 4096

/* Descriptors that may come with a Seal: a quarantine, a draft, an entry of the history. No other frame
 * has more than one. */
#define SEAL_FDS_MAX 3

/* Directories in which commands may write. Each is held by a descriptor. */
#define SCAN_ROOTS_MAX 64

/*
 * Limits of one search. Each path is a descriptor; a shell's glob can name this many. The others
 * bound what a frame unpacks into.
 */
#define SEARCH_PATHS_MAX    1024
#define SEARCH_GLOBS_MAX    1024
#define SEARCH_TYPES_MAX    256
#define SEARCH_PATTERNS_MAX 1024
/* Lines. Each is held in memory until it is known whether a match follows. */
#define SEARCH_CONTEXT_MAX 10000
/* Bytes of one line that are reported. A line with a match at each byte still fits into a frame. */
#define SEARCH_COLUMNS_MAX (64u << 10)
/* Errors that a search reports one by one; further ones are only counted. */
#define SEARCH_TROUBLES_MAX 100
/* All flags of enum koda_search_flags. */
#define SEARCH_FLAGS UINT64_C(0x1fff07ff)

/*
 * Limits of a draft. A change set with more names, or deeper ones, is listed as far as this and can
 * only be applied that far.
 */
#define DRAFT_LAYERS_MAX  64
#define DRAFT_ENTRIES_MAX 1000000
#define DRAFT_DEPTH_MAX   200
/* Items in one Swap: a worker's death costs at most so many questions. */
#define SWAP_ITEMS_MAX 256
/* Bytes of a name in the history's `old`. */
#define SWAP_NAME_MAX 64
/* How the name of a worker's log in `old` ends (worker/files/keep_log.h). No name of what is held has a
 * dot. */
#define HISTORY_LOG_SUFFIX ".log"
/* The same of the file that has what a worker is doing (worker/files/keep_now.h). */
#define HISTORY_NOW_SUFFIX ".now"
/*
 * A directory that is removed from a project on another file system than the history, or comes back, is
 * copied, and the worker does nothing else meanwhile: some seconds at these sizes. Its depth is bounded
 * because each level holds two of the worker's descriptors. Single files have no limit of their own.
 */
#define SWAP_COPY_ENTRIES_MAX 20000
#define SWAP_COPY_BYTES_MAX   (UINT64_C(1) << 30)
#define SWAP_COPY_DEPTH_MAX   64

/* A Merge: each of the three texts. Larger ones are not merged by hand either; a million empty lines
 * take a second. */
#define MERGE_BYTES_MAX (1u << 20)
#define MERGE_BASES_MAX 64

/* An edit holds the file in memory twice, before and after. */
#define EDIT_BYTES_MAX (256u << 20)

/* Times that one request may be Prepared: it starts again if the file has changed meanwhile. */
#define PREPARED_MAX 8

/*
 * Port of the egress proxy on 127.0.0.1 inside a slot. The same in every slot, and below the ports
 * that the kernel assigns by itself.
 */
#define EGRESS_PORT 28889

/*
 * Names of files that hold a worker's unfinished work: TEMP_PREFIX, the token in 16 hex digits,
 * '-', and the request's id in decimal. Swap has to find them again in another worker: TEMP_PREFIX,
 * "swap-", the inode of the history's `old` in hex, '-', and the item's name.
 */
#define TEMP_PREFIX    ".koda-"
#define TOKEN_BYTES    8
#define TEMP_NAME_SIZE (sizeof(TEMP_PREFIX) + 2 * TOKEN_BYTES + 1 + 20)

#endif
