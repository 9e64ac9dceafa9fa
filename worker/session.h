/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's conversation with its host: one Seal, then requests and replies until the stream ends.
 * Knows the frames, their order and the peer. What each request does is in op_*.c, selected by the
 * role's table (dispatch.c for koda-fs-worker).
 */
#ifndef KODA_WORKER_SESSION_H
#define KODA_WORKER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/worker.pb-c.h"
#include "shared/rules/access.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "worker/files/resolve.h"

struct draft_walk;
struct sock_filter;

/* A directory of the project, and the directory in the draft that has its changes. */
struct draft_layer {
	char *path; /* canonical */
	dev_t dev;  /* of the project's directory */
	ino_t ino;
	int fd; /* O_PATH of the layer's `u` */
};

/* What worker/files/keep knows between two changes. */
struct keep_state {
	int log_fd;   /* -1: nothing was written yet */
	int now_fd;   /* worker/files/keep_now; -1: nothing was written yet */
	uint64_t now; /* id of the request that it has */
	uint64_t log_len;
	uint64_t bytes;    /* kept so far, on the disk */
	uint64_t told;     /* of these, in an Outcome */
	uint64_t recorded; /* id of the last request of which something was written */
	bool off;          /* the log cannot be written */
};

struct session {
	const struct role *role;
	const struct sock_filter *filter; /* installed by the Seal */
	size_t n_filter;
	bool no_moves; /* Landlock refuses every rename from one directory to another */
	struct frame_stream fs;
	struct arena arena; /* memory of the current request and its reply */
	bool sealed, ended;
	uint64_t id;         /* of the current request; 0 until it is decoded */
	struct place at, to; /* its places; kept until the reply is packed */
	int send_fd;         /* sent with its reply; -1: none */
	struct policy policy;
	struct access_subject who;
	struct resolver res;
	char *root, *home, *state;
	uint8_t token[TOKEN_BYTES];
	mode_t umask;
	uint64_t max_file_bytes;
	struct record *record;     /* shared with the host; NULL: none */
	unsigned prepares;         /* Prepared messages of this request */
	bool changes;              /* the current request changes something, or would */
	bool unrecorded;           /* some queued reply is not in the record */
	uint64_t recorded;         /* id of the last request that wrote to the record */
	int quarantine_fd;         /* O_PATH; -1: planted files are only reported */
	char **caches;             /* Seal.commands_write, NULL-terminated */
	struct draft_layer *layer; /* of the draft; NULL: none */
	size_t n_layers;
	struct draft_walk *walk; /* of the list of changes whose next page may be asked for; NULL */
	int draft_fd;            /* O_PATH; -1: none */
	int64_t draft_made_ns, draft_mounted_ns;
	int old_fd;             /* O_PATH of `old` in the history's entry; -1: nothing is kept */
	struct keep_state keep; /* worker/files/keep */
	struct scan *scan;      /* NULL before the first Scan */
	/* Used when there is no scan: what the places of the policy's paths lead to. NULL before
	 * the first change. */
	struct scan *led;
	bool scanned; /* the last of the initial Scans was answered */
	uid_t euid;
	pid_t parent; /* the host; once getppid() differs, the host is gone */
};

/* Flags of a row in the dispatch table. */
enum op_flags {
	OP_UNSEALED = 1 << 0, /* allowed only before the Seal */
	OP_CHANGES = 1 << 1,  /* may change files */
};

struct op {
	const char *name; /* as in docs/PROTOCOL.md */
	unsigned flags;
	/* Returns 0 with the reply's body in rep, valid as long as the arena and the places; or
	 * -1 with the error set. */
	int (*run)(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
};

/* A kind of worker: its whole attack surface, and the resources that it may use. */
struct role {
	/* Indexed by Koda__Request__OpCase. A row without `run`: no such request. */
	const struct op *ops;
	size_t n_ops;
	/* Whether it changes files, where the policy allows it. If not, its seccomp filter
	 * refuses system calls that could. */
	bool changes;
	uint64_t fds_max;  /* descriptors */
	uint64_t data_max; /* bytes of memory */
	/* Judges a change that the policy's text allows. NULL: the role changes nothing. */
	struct access_verdict (*judge)(struct session *ses, enum access_op op, const char *path,
	    struct access_verdict so_far);
	/* The session ends, and the process with it. NULL: nothing to do. */
	void (*end)(struct session *ses);
};
extern const struct role role_files;  /* koda-fs-worker */
extern const struct role role_search; /* koda-fs-search */

/* Returns the request's row in the table, or NULL if the request does not exist. */
const struct op *role_op(const struct role *role, Koda__Request__OpCase op_case);

/* Checks every value of a request. An invalid value is not a user's mistake but a broken host:
 * returns -1 with KODA_PROTOCOL. */
int valid_request(const Koda__Request *req, struct koda_error *err);

/* Serves the host at fd until it is done. Returns the exit status. */
int session_run(int fd, const struct role *role, const struct sock_filter *filter, size_t n_filter);

/* ---- for the operations ---- */

#define bytes_of(ptr, n) ((ProtobufCBinaryData){ (n), (uint8_t *)(uintptr_t)(ptr) })

/* Returns zeroed memory that is valid until the reply is packed, or NULL with *err set. */
void *session_alloc(struct session *ses, size_t size, struct koda_error *err);

/*
 * Resolves a path, then judges its hops and the place. Returns 0, or -1 with *err set. If the path
 * cannot be resolved and the policy would not have allowed its name to be read, *err is the
 * policy's refusal. ret is ses->at or ses->to, which are released after the reply. err may be NULL.
 */
int session_place(struct session *ses, ProtobufCBinaryData path, unsigned flags, enum access_op op,
    struct place *ret, struct koda_error *err);
/* Judges the hops, then the place. *ret_where and *ret_op: the path and the operation that the
 * verdict is about. */
struct access_verdict session_judge(struct session *ses, enum access_op op, const struct place *at,
    const char **ret_where, enum access_op *ret_op);

/* session_led.c: returns the scan that knows what links in protected places lead to, or NULL on
 * failure. */
const struct scan *session_led(struct session *ses);
/* session_led.c: protects what a protected place leads to like the place itself. */
struct access_verdict session_judge_led(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far);

/* Judges another path that was not requested but has to be made (a directory). */
int session_judge_path(struct session *ses, enum access_op op, const struct place *near,
    const char *path, struct koda_error *err);

/* Judges what access_judge() alone has judged so far. Returns 0, or -1 with *err set. */
int session_judge_further(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far, struct koda_error *err);

/* Checks that the descriptor is still at the path that was judged. For changes: the directory's.
 * Returns 0, or -1 with KODA_CONFLICT if it was moved. */
int session_verify_parent(struct session *ses, const struct place *at, struct koda_error *err);
int session_verify_target(struct session *ses, const struct place *at, struct koda_error *err);

/* Report the request's progress to the host, at once. -1: the host did not get it, so nothing
 * may be done. */
int session_prepared(struct session *ses, Koda__Prepared *prepared, struct koda_error *err);
int session_committed(struct session *ses, struct koda_error *err);
int session_verdict(struct session *ses, Koda__Verdict *verdict, struct koda_error *err);
/*
 * Reports that the prepared change did not happen. Has to be sent before the temporary file is
 * removed: afterwards Recover could not find that out. Failures are ignored: the host is gone
 * then.
 */
void session_not_done(struct session *ses);

/* Sends a part of the reply, before the final one: now, or together with what is queued later. */
int session_part(struct session *ses, Koda__Reply *rep, bool at_once, struct koda_error *err);
/* Sends everything queued, however long the host takes, as long as it lives. */
int session_flush(struct session *ses, struct koda_error *err);

/* Returns the descriptor that came with the current request, owned by the caller; -1 with *err
 * set if there is none. */
int session_take_fd(struct session *ses, struct koda_error *err);

/* seal.c: checks the first request and confines the process as it says. */
int op_seal(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);

#endif
