/*
 * One worker's conversation with its host: sealed once, then requests in, replies out, until the
 * stream ends. Knows frames, the order of things and who is at the other end; what a request does is
 * in op_*.c, by the table in dispatch.c.
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

struct sock_filter;

struct session {
	const struct role *role;
	const struct sock_filter *filter; /* what it installs when it is sealed */
	size_t n_filter;
	struct frame_stream fs;
	struct arena arena; /* of the request under way, and of its reply */
	bool sealed, ended;
	uint64_t id;         /* of the request under way, 0 before one is understood */
	struct place at, to; /* what it is about; kept until its reply is packed */
	int send_fd;         /* goes with its reply */
	struct policy policy;
	struct access_subject who;
	struct resolver res;
	char *root, *home, *state;
	uint8_t token[TOKEN_BYTES];
	mode_t umask;
	uint64_t max_file_bytes;
	struct record *record; /* shared with the host; NULL: there is none */
	unsigned prepares;     /* of this request */
	bool changes;          /* this request does, or would */
	bool unrecorded;       /* answers are held that are not in the record */
	uint64_t recorded;     /* the request that it is about */
	int quarantine_fd;     /* O_PATH; -1: what was planted is only told */
	char **caches;         /* Seal.commands_write, until a NULL */
	struct scan *scan;     /* NULL before the first Scan */
	struct scan *
	    led; /* without one: what the places of the policy's paths lead to; NULL before the first change */
	bool scanned; /* the last of the Scans that begin it was answered */
	uid_t euid;
	pid_t parent; /* who started us: somebody else, and the host is gone */
};

/* What a row of the dispatch table says about an operation. */
enum op_flags {
	OP_UNSEALED = 1 << 0, /* before the seal, and only then */
	OP_CHANGES = 1 << 1,  /* something may be another afterwards */
};

struct op {
	const char *name; /* as in docs/PROTOCOL.md */
	unsigned flags;
	/* 0 with the reply's body in rep, living as long as the arena and the places; or -1. */
	int (*run)(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
};

/* What kind of worker a program is: its whole attack surface, and what it may need of the machine. */
struct role {
	const struct op *ops; /* by Koda__Request__OpCase; without `run`: no such request */
	size_t n_ops;
	bool changes; /* something, where the policy lets it; else its filter refuses what could */
	uint64_t fds_max;  /* descriptors */
	uint64_t data_max; /* bytes of memory */
	/* What it says of a change that the policy's text allows; NULL: it changes nothing. */
	struct access_verdict (*judge)(struct session *ses, enum access_op op, const char *path,
	    struct access_verdict so_far);
};
extern const struct role role_files;  /* koda-fs-worker */
extern const struct role role_search; /* koda-fs-search */

/* The row of a request, NULL if it does not exist. */
const struct op *role_op(const struct role *role, Koda__Request__OpCase op_case);

/* Does every value in it make sense? What does not is no user's mistake, but a broken host: -1 with
 * KODA_PROTOCOL. */
int valid_request(const Koda__Request *req, struct koda_error *err);

/* Serve the host at fd until it is done. Returns the exit status. */
int session_run(int fd, const struct role *role, const struct sock_filter *filter, size_t n_filter);

/* ---- for the operations ---- */

#define bytes_of(ptr, n) ((ProtobufCBinaryData){ (n), (uint8_t *)(uintptr_t)(ptr) })

/* Zeroed, and valid until the reply is packed. NULL with *err set. */
void *session_alloc(struct session *ses, size_t size, struct koda_error *err);

/*
 * Resolve, judge the hops, judge the place: 0, or -1 with *err set. When it cannot even be resolved, and
 * the policy would not have let its name be read, that is what is said. The result is ses->at or
 * ses->to, released after the reply.
 */
int session_place(struct session *ses, ProtobufCBinaryData path, unsigned flags, enum access_op op,
    struct place *ret, struct koda_error *err);
/* The first half of it, and the second; refused_hop (may be NULL) is where it ended. */
struct access_verdict session_judge(struct session *ses, enum access_op op, const struct place *at,
    const char **ret_where, enum access_op *ret_op);

/* session_led.c: returns the scan that knows what links in protected places lead to; NULL if it failed. */
const struct scan *session_led(struct session *ses);
/* session_led.c: what a protected place leads to is protected like it. */
struct access_verdict session_judge_led(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far);

/* Judge one more path that is not asked for but made (directories). */
int session_judge_path(struct session *ses, enum access_op op, const struct place *near,
    const char *path, struct koda_error *err);

/* Is the text that was judged still where the descriptor is? For changes: the directory. */
int session_verify_parent(struct session *ses, const struct place *at, struct koda_error *err);
int session_verify_target(struct session *ses, const struct place *at, struct koda_error *err);

/* Tell the host how far the request came, now. -1: nobody heard it, so nothing may happen. */
int session_prepared(struct session *ses, Koda__Prepared *prepared, struct koda_error *err);
int session_committed(struct session *ses, struct koda_error *err);
int session_verdict(struct session *ses, Koda__Verdict *verdict, struct koda_error *err);
/* What was Prepared did not happen, and what is left of it goes away now: once it has, nobody could tell any
 * more. Whoever does not hear it is gone. */
void session_not_done(struct session *ses);

/* A part of the answer, before the answer. It leaves at once, or with what is queued after it. */
int session_part(struct session *ses, Koda__Reply *rep, bool at_once, struct koda_error *err);
/* Send all that is queued, however long the host takes, as long as it lives. */
int session_flush(struct session *ses, struct koda_error *err);

/* The descriptor that came with the request under way; the caller's. */
int session_take_fd(struct session *ses, struct koda_error *err);

/* Check itself and confine itself by the first request. In seal.c. */
int op_seal(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);

#endif
