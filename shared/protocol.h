/* What both ends of a worker's socket have to agree on besides the schema. */
#ifndef KODA_SHARED_PROTOCOL_H
#define KODA_SHARED_PROTOCOL_H

/* Host and helpers ship together; a mismatch is an installation gone wrong and a clear error. */
#define PROTOCOL_VERSION 1

#define PROTOCOL_FD   3 /* the worker's end of the socketpair */
#define TOKEN_BYTES   8
#define INLINE_MAX    (64u << 10)  /* more content than this travels as a descriptor */
#define PAGE_MAX      (512u << 10) /* payload of a listing's frame, and of content where none can be passed */
#define EDIT_BYTES_MAX (256u << 20) /* a file that is edited is held in memory, twice */
#define REPLACEMENTS_MAX 1024       /* in one edit; keeps a frame's unpacking bounded */

#endif
