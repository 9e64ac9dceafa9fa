/*
 * koda-sandbox: file operations and commands of a coding agent, in a sandbox.
 *
 * Call order:
 *
 *	koda_policy_for_agent()            or koda_policy_new(), rules, koda_policy_freeze()
 *	koda_session_open()                a root, a mode or a policy, and an approve callback
 *	koda_slot_acquire()                one worker process, confined to the policy
 *	koda_fs_write(), koda_fs_edit()... or koda_call(), koda_call_async()
 *	koda_search(), or koda_search_start(), koda_search_wait(), koda_search_free()
 *	koda_run(), or koda_command_start(), koda_command_wait(), koda_command_free()
 *	koda_slot_release(), koda_session_close(), koda_policy_free()
 *
 * Threads: a session and everything acquired from it belong to one thread at a time; the library
 * takes no locks. Different threads may use different sessions at once. A frozen policy is
 * immutable and may be shared.
 *
 * Signals and processes: no function raises SIGPIPE, changes a signal's disposition or mask, or
 * waits for children that are not the library's own. After fork() the child may only close and
 * free, which frees memory and leaves the parent's workers alone; every other call in the child
 * fails.
 *
 * Paths are bytes without NUL; they need not be UTF-8.
 */
#ifndef KODA_SANDBOX_H
#define KODA_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KODA_API __attribute__((visibility("default")))
#else
#define KODA_API
#endif

#define KODA_DIGEST_BYTES 32 /* BLAKE2b-256 */

struct koda_policy;
struct koda_session;
struct koda_slot;
struct koda_approval; /* names a question; its value is not an address */

KODA_API const char *koda_version(void);

/* ---- errors: passed by value, nothing to free ---- */

enum koda_code {
	KODA_OK = 0,
	KODA_INVALID = 1,       /* the request is invalid: an empty path, for example */
	KODA_POLICY_DENIED = 2, /* the policy forbids it; `rule` names the rule */
	KODA_NOT_APPROVED = 3,  /* the user said no, or there was no user to ask */
	KODA_CONFLICT = 4,      /* the file is not what the caller expects */
	KODA_IO = 5,            /* the kernel refused it; see errnum */
	KODA_TOO_LARGE = 6,
	KODA_UNKNOWN = 7,   /* a worker died, and it is not known whether the operation happened */
	KODA_TIMEOUT = 8,   /* it did not finish in time; nothing was done */
	KODA_WORKER = 9,    /* the worker failed too often */
	KODA_PROTOCOL = 10, /* a peer broke the protocol */
	KODA_UNSUPPORTED = 11, /* this machine cannot enforce it or do it */
	KODA_INTERNAL = 12,    /* out of memory or descriptors, or misuse of the library */
};

#define KODA_MESSAGE_MAX    640
#define KODA_PATH_SHOWN_MAX 1024

struct koda_error {
	enum koda_code code;
	int errnum;                     /* errno of the failed system call, or 0 */
	char rule[64];                  /* the policy rule that decided, or "" */
	char path[KODA_PATH_SHOWN_MAX]; /* the path concerned, or ""; cut if longer */
	char message[KODA_MESSAGE_MAX]; /* one sentence */
};

/* Returns "policy_denied", "conflict", ...: stable names for programs. */
KODA_API const char *koda_code_name(enum koda_code code);

/* ---- policies ---- */

enum koda_mode {
	KODA_PLAN = 1,
	KODA_SAFE = 2,
	KODA_AUTO = 3,
};

enum koda_trust {
	KODA_TRUST_AUTO = 1,    /* changes are made without asking */
	KODA_TRUST_REQUIRE = 2, /* the approve callback decides on each change */
	KODA_TRUST_FORBID = 3,  /* no change is made */
};

enum koda_list {
	/* Paths that are not read, with everything below them. No patterns: '*' is a name like any
	 * other. */
	KODA_DENY_READ = 0,
	/* Paths within those of KODA_DENY_READ that may be read: the longest rule decides. */
	KODA_ALLOW_READ_WITHIN_DENY,
	KODA_ALLOW_WRITE,
	KODA_DENY_WRITE_WITHIN_ALLOW,
	KODA_ALLOWED_DOMAINS,
	KODA_DENIED_DOMAINS,
	/*
	 * Names that are never written, at any depth below the paths of KODA_ALLOW_WRITE. Each rule
	 * is the end of a path, of one to four components (".vscode", ".github/hooks"), with at
	 * most one '*' in a component ("*.code-workspace"). Case is ignored. If a command creates
	 * such a name together with the directory that contains it, it stays and is reported.
	 */
	KODA_DENY_WRITE_NAMES,
	KODA_N_LISTS,
};

enum koda_flag {
	KODA_ALLOW_GIT_CONFIG = 0,
	KODA_ANY_DOMAIN,
	KODA_ALLOW_LOCAL_BINDING,
	KODA_WEAKER_MACOS_ISOLATION,
	/*
	 * Commands write directly to the caches of the user's tools (~/.cargo, ~/.npm, ~/.cache and
	 * others), instead of to a layer that belongs to the project. This saves downloading twice
	 * but weakens the sandbox: tools on the host later run what a command left there (a package
	 * that `npx` keeps, a wheel, an object file of ccache).
	 */
	KODA_SHARE_CACHES,
	KODA_N_FLAGS,
};

enum koda_limit {
	KODA_CPU_TIME_SECS = 0,
	KODA_WALL_TIME_SECS,
	KODA_MAX_RSS_BYTES,
	KODA_MAX_OPEN_FDS,
	KODA_MAX_OUTPUT_BYTES,
	KODA_MAX_PROCESSES,
	KODA_MAX_FILE_BYTES,
	KODA_N_LIMITS,
};

/* Returns a policy without rules: all may be read, nothing written or reached. NULL: no memory. */
KODA_API struct koda_policy *koda_policy_new(void);

/* Returns the policy of a mode for a project. It is not frozen: rules may still be added. */
KODA_API struct koda_policy *koda_policy_for_agent(enum koda_mode mode, const char *root,
    struct koda_error *err);

/*
 * Adds a rule to a list, which is then present. A path must be absolute. A domain rule is one of
 *
 *	a name        that host
 *	"*." name     any host with exactly one more label
 *	an address    IPv6 in brackets, in its shortest form
 *
 * and may end with ":port" (without one: ports 80 and 443 where the rule allows, every port where
 * it denies). In KODA_ALLOWED_DOMAINS it may also end with " any-sni": the server name that a
 * program sends in TLS then need not be the host's. A non-public address is reached only if a rule
 * names it, even with KODA_ANY_DOMAIN.
 *
 * If a rule is refused, err says why and the policy is unchanged. This and the functions below fail
 * on a frozen policy. They return 0, or -1 with *err set.
 */
KODA_API int koda_policy_add(struct koda_policy *policy, enum koda_list list, const char *rule,
    struct koda_error *err);
/* Makes a list present without a rule. An empty list permits nothing, an absent one inherits. */
KODA_API int koda_policy_add_none(struct koda_policy *policy, enum koda_list list,
    struct koda_error *err);
KODA_API int koda_policy_set_flag(struct koda_policy *policy, enum koda_flag flag, bool value,
    struct koda_error *err);
/* Refuses a value above what can be enforced, which err states: limits are not lowered later. */
KODA_API int koda_policy_set_limit(struct koda_policy *policy, enum koda_limit limit,
    uint64_t value, struct koda_error *err);
KODA_API int koda_policy_set_depth(struct koda_policy *policy, unsigned depth,
    struct koda_error *err);
KODA_API int koda_policy_set_trust(struct koda_policy *policy, enum koda_trust trust,
    struct koda_error *err);
KODA_API int koda_policy_set_mitm(struct koda_policy *policy, const char *ca_bundle,
    struct koda_error *err);
KODA_API int koda_policy_add_mitm_socket(struct koda_policy *policy, const char *domain,
    const char *path, struct koda_error *err);

/*
 * Checks the whole policy and makes it immutable. Paths are made canonical here, once, so that a
 * rule keeps its meaning if a directory is replaced by a link later. Freezing twice is not an
 * error.
 */
KODA_API int koda_policy_freeze(struct koda_policy *policy, struct koda_error *err);

/* Returns a frozen policy that allows only what both allow. Both must be frozen. */
KODA_API struct koda_policy *koda_policy_compose(const struct koda_policy *parent,
    const struct koda_policy *child, struct koda_error *err);

KODA_API bool koda_policy_equal(const struct koda_policy *a, const struct koda_policy *b);

/*
 * Calls fn once for each value, in the order of the schema. An absent list gets no call, an empty
 * one gets one call with value NULL. Stops when fn returns non-zero, and returns that value.
 */
typedef int koda_policy_visit_fn(void *data, const char *section, const char *field,
    const char *value);
KODA_API int koda_policy_visit(const struct koda_policy *policy, koda_policy_visit_fn *fn,
    void *data);

/* Returns readable text, one field per line; the caller must free() it. NULL: out of memory. */
KODA_API char *koda_policy_print(const struct koda_policy *policy);

KODA_API void koda_policy_free(struct koda_policy *policy);

/* ---- operations ---- */

enum koda_op_kind {
	KODA_OP_PING = 1,
	KODA_OP_READ,
	KODA_OP_WRITE,
	KODA_OP_EDIT,
	KODA_OP_STAT,
	KODA_OP_LIST,
	KODA_OP_MKDIR,
	KODA_OP_REMOVE,
	KODA_OP_RENAME,
	KODA_OP_EXPLAIN,
	KODA_OP_RUN,     /* only in questions: see koda_command_start() */
	KODA_OP_CONNECT, /* only in questions: a command wants to reach a host that no rule names */
};

enum koda_op_flags {
	/* read, stat, write: return the digest of the content */
	KODA_DIGEST = 1 << 0,
	/* mutations: the change is on disk when the call returns */
	KODA_DURABLE = 1 << 1,
	/* mkdir: create missing parents too; an existing directory is not an error */
	KODA_PARENTS = 1 << 2,
	/* remove: a directory with everything below it */
	KODA_RECURSIVE = 1 << 3,
	/* rename: replace an existing target */
	KODA_OVERWRITE = 1 << 4,
	/* mutations: check and describe the change, but change nothing and ask no user */
	KODA_DRY_RUN = 1 << 5,
	/* list: names and types only, sizes are 0; saves one system call per file */
	KODA_NAMES_ONLY = 1 << 6,
};

enum koda_access {
	KODA_READ_ACCESS = 1,
	KODA_WRITE_ACCESS = 2,
};

struct koda_edit {
	const void *old_text;
	size_t old_len;
	const void *new_text;
	size_t new_len;
	bool all; /* replace every occurrence; else old_text must occur exactly once */
};

/*
 * An operation. Zero-initialise it; only kind and path are always needed. The library copies what
 * it needs before the call returns.
 */
struct koda_op {
	enum koda_op_kind kind;
	unsigned flags;   /* enum koda_op_flags */
	const char *path; /* absolute, or relative to the root; rename: the old name */
	const char *to;   /* rename: the new name */
	const void *data; /* write */
	size_t len;       /* write */
	/*
	 * write: if above 0, a memfd with the content, used instead of data. It must be sealed
	 * against writing, growing and shrinking, and stays the caller's.
	 */
	int fd;
	uint64_t offset; /* read */
	uint64_t max;    /* read: maximum number of bytes; 0: all */
	const struct koda_edit *edits;
	size_t n_edits;
	/* mutations: the expected digest of the current content, KODA_DIGEST_BYTES; or NULL */
	const uint8_t *if_digest;
	bool if_absent;          /* write: fail if the file exists */
	enum koda_access access; /* explain */
	unsigned timeout_ms;     /* 0: the session's */
};

enum koda_file_type {
	KODA_FILE_NONE = 0,
	KODA_FILE_REGULAR = 1,
	KODA_FILE_DIRECTORY = 2,
	KODA_FILE_SYMLINK = 3,
	KODA_FILE_OTHER = 4,
};

struct koda_entry {
	const char *name;
	enum koda_file_type type;
	uint64_t size;
};

/*
 * The result of an operation. Fields that do not apply are zero. It owns everything it points to:
 * call koda_result_done() when finished, also after a failure (the result is then empty).
 */
struct koda_result {
	const char *path;         /* canonical: the path that the operation really acted on */
	const char *to;           /* rename */
	enum koda_file_type type; /* stat; mutations: type of what was there before */
	uint64_t size;            /* of the file; mutations: afterwards */
	uint64_t size_before;
	uint32_t mode;
	int64_t mtime_ns;
	uint64_t links;
	const char *target; /* stat: target of a symbolic link */
	bool has_digest, has_digest_before;
	uint8_t digest[KODA_DIGEST_BYTES];
	uint8_t digest_before[KODA_DIGEST_BYTES];
	const uint8_t *data; /* read, if fd is -1 */
	size_t len;
	/* read of more than 64 KiB: a descriptor to pread() from at any offset; else -1 */
	int fd;
	uint64_t replacements;
	uint64_t removed; /* remove: number of names removed */
	/* dry run of an edit: the line of the first match of each replacement */
	const uint64_t *lines;
	size_t n_lines;
	bool created;
	/* the worker died during the operation, which nevertheless happened exactly once */
	bool recovered;
	const struct koda_entry *entries; /* list, sorted by bytes */
	size_t n_entries;
	uint64_t hidden; /* list: number of entries that the policy hides */
	bool allowed;    /* explain */
	const char *rule;
	const char *reason;
	const char *const *hops; /* the symbolic links that were followed */
	size_t n_hops;
	void *priv;
};

KODA_API void koda_result_done(struct koda_result *result);

/* ---- sessions and slots ---- */

/* A mutation that needs approval, as the worker found it. Valid until it is answered, or, for a
 * question of koda_call() or koda_run(), until the callback returns. */
struct koda_question {
	enum koda_op_kind kind;
	enum koda_mode mode;
	const char *path;         /* canonical */
	const char *to;           /* rename: the new name */
	enum koda_file_type type; /* of what is there now */
	uint64_t size_before, size_after;
	const void *data; /* write, if the content was given as bytes */
	size_t len;
	const struct koda_edit *edits;
	const uint64_t *lines;
	size_t n_edits;
	uint64_t replacements;
	uint64_t entries;        /* remove: number of names that would be removed */
	const char *const *argv; /* run */
	const char *cwd;         /* run */
	const char *const *env;  /* run: what was added to the environment, or NULL */
	const char *host;        /* connect: canonical */
	unsigned port;           /* connect */
	struct koda_approval *approval;
};

/*
 * Called before each mutation and each command if the policy's trust is KODA_TRUST_REQUIRE. Answer
 * with koda_approval_answer(): before the callback returns or, for koda_call_async() and
 * koda_command_start() only, at any later time. If the question of koda_call() or koda_run() is
 * still open when the callback returns, it is not approved, and is over. The approval covers only
 * what was shown: the worker acts only if path and content are still the same (for a directory: the
 * path, and that it is still a directory; for a link: the path).
 *
 * The callback may make calls, also on the same slot. If a call ends while its question is open
 * (its slot is released, or the session is closed), the question is over. Answer it all the same,
 * unless it is one of koda_call() or koda_run(): that frees its memory.
 *
 * An answer to a question that is over, was answered before, or belongs to the parent of a forked
 * child is refused: it has no effect, and errno is ESTALE. This is safe at any time and any number
 * of times, also after koda_session_close(). After an answer that counts, errno is 0.
 */
typedef void koda_approve_fn(void *data, const struct koda_question *question);
KODA_API void koda_approval_answer(struct koda_approval *approval, bool yes);

/*
 * KODA_OP_CONNECT may be answered at any time, also while koda_run() waits: the connection waits as
 * long as its client does. yes means KODA_SCOPE_ONCE: the connections that are waiting now.
 * KODA_SCOPE_SESSION allows that host and port to every slot of the session whose policy does not
 * deny it; for other questions it means KODA_SCOPE_ONCE. A slot whose policy has KODA_TRUST_FORBID
 * never asks, and no such answer applies to it: it reaches only what its rules name.
 */
enum koda_scope {
	KODA_SCOPE_NO = 0,
	KODA_SCOPE_ONCE,
	KODA_SCOPE_SESSION,
};
KODA_API void koda_approval_answer_scope(struct koda_approval *approval, enum koda_scope scope);

enum koda_event_kind {
	KODA_EVENT_SPAWN = 1, /* a worker was started */
	/* A worker, a search, a sandbox or a proxy died unexpectedly. */
	KODA_EVENT_DEATH = 2,
	/*
	 * Something works less well than it should; the text says what. Examples: this machine
	 * enforces less than this version can (once per session); commands have lost their network
	 * (once per policy); the kernel has no more watches for a slot, so its commands end later
	 * (once per slot).
	 */
	KODA_EVENT_DEGRADED = 3,
	/*
	 * Something that a command planted in its last moment, which the final comparison of a slot
	 * found after a release without koda_slot_end(); or, for a slot without commands, what a
	 * killed session had left. It is in quarantine, or still there; the text says which.
	 */
	KODA_EVENT_LEFT = 4
};
/*
 * For observation only: calls from inside this callback fail. Only a release or close, from inside
 * any callback, is accepted; it takes effect when the library function that called back returns.
 * So is the answer to a question; it takes effect at the next turn of the loop, if that is earlier.
 */
typedef void koda_event_fn(void *data, enum koda_event_kind kind, const char *text);

struct pollfd;

/*
 * Waits like poll(2), for the library. Meanwhile it may serve other sessions and the embedder's own
 * descriptors, but not this session, whose functions fail until it returns. It may return early.
 * Returns the number of descriptors with events, 0 if there is none, or -1 to give up: then the
 * function that waits fails with KODA_TIMEOUT.
 */
typedef int koda_wait_fn(void *data, struct pollfd *fds, size_t n, int timeout_ms);

struct koda_session_options {
	uint32_t version; /* KODA_SESSION_OPTIONS_INIT sets it */
	const char *root; /* an existing directory */
	enum koda_mode mode;
	const struct koda_policy *policy; /* NULL: koda_policy_for_agent(mode, root) */
	koda_approve_fn *approve;         /* NULL: there is no user to ask, which means no */
	koda_event_fn *event;
	void *data;             /* passed to the callbacks */
	const char *helper_dir; /* NULL: derived from where the library or program is installed */
	unsigned timeout_ms;    /* 0: 30 s */
	unsigned max_slots;     /* 0: 128 */
	unsigned max_idle;      /* idle workers to keep; 0: 8 */
	/*
	 * Slots can also run commands: each has a kernel sandbox, and its worker runs inside it. If
	 * this machine does not support that: in Auto, opening the session or acquiring a slot
	 * fails with KODA_UNSUPPORTED; in Plan and Safe it is reported (KODA_EVENT_DEGRADED), and
	 * slots do file operations only.
	 */
	bool commands;
	/*
	 * With commands: the proxy terminates the TLS of commands, so that each request inside is
	 * also checked against the rules. Commands trust the certificate of a CA whose key never
	 * leaves the proxy's memory. A program that pins certificates fails.
	 */
	bool intercept;
	/*
	 * The root lies below the root of another session, and policy was composed from that
	 * session's policy: commands get no git directory outside of the root. Without this flag
	 * they get the git directory of a linked worktree or a submodule, which may lie where the
	 * other session writes nothing.
	 */
	bool narrowed;
	/*
	 * Called where koda_slot_acquire() would wait: for the kernel sandbox, for the worker, for
	 * the first look at the project, which takes seconds in a large one, and for the look at
	 * what a killed session left. NULL: poll(2).
	 */
	koda_wait_fn *wait;
};
#define KODA_SESSION_OPTIONS_VERSION 6
#define KODA_SESSION_OPTIONS_INIT                                                                  \
	{                                                                                          \
		.version = KODA_SESSION_OPTIONS_VERSION                                            \
	}

KODA_API struct koda_session *koda_session_open(const struct koda_session_options *options,
    struct koda_error *err);

/* Ends every worker. Calls that have not finished are answered with KODA_WORKER first. */
KODA_API void koda_session_close(struct koda_session *session);

/*
 * Runs the library's loop once: waits at most timeout_ms (-1: no limit) for an event and handles it.
 * Callbacks of koda_call_async() are called from here, never from inside koda_call_async(). Returns
 * the number of unfinished calls, searches and commands, or -1 on an error.
 */
KODA_API int koda_session_dispatch(struct koda_session *session, int timeout_ms,
    struct koda_error *err);

/*
 * Returns a descriptor that polls readable when koda_session_dispatch(session, 0) has something to
 * do, for use in any other loop (examples/own_loop.c). The session owns it.
 */
KODA_API int koda_session_fd(const struct koda_session *session);

/* Returns the session's policy, frozen. The session owns it. */
KODA_API const struct koda_policy *koda_session_policy(const struct koda_session *session);

struct koda_stats {
	uint64_t slots;   /* currently acquired */
	uint64_t workers; /* current processes, including idle ones */
	uint64_t spawns;
	uint64_t respawns; /* after a death */
	uint64_t calls;
	uint64_t refusals;  /* by the policy or by the approve callback */
	uint64_t recovered; /* mutations whose outcome had to be determined after a death */
};
KODA_API void koda_session_stats(const struct koda_session *session, struct koda_stats *ret);

/*
 * Acquires a slot, which has its own worker. child narrows the session's policy (see
 * koda_policy_compose()); NULL: the session's policy. An idle worker with the same policy, root and
 * mode is reused after a successful round trip. Returns NULL with *err set on failure.
 */
KODA_API struct koda_slot *koda_slot_acquire(struct koda_session *session,
    const struct koda_policy *child, struct koda_error *err);
/* NULL is ignored. With commands this ends the slot as koda_slot_end() does, and so may wait. */
KODA_API void koda_slot_release(struct koda_slot *slot);
/*
 * Ends all commands of the slot, including background ones, and compares what they left one last
 * time. Waits at most nine seconds. What was found is added to the slot's violations. After this no
 * command can be started in the slot; release it. Returns 0, or -1 if the comparison did not
 * finish; the next session with any root there then finishes it first.
 */
KODA_API int koda_slot_end(struct koda_slot *slot, struct koda_error *err);

/* The enforcement that the worker reported after it had confined itself. */
struct koda_enforcement {
	unsigned landlock_abi;
	bool seccomp;
	bool mount_view; /* it runs in the slot's kernel sandbox */
};
KODA_API void koda_slot_enforcement(const struct koda_slot *slot, struct koda_enforcement *ret);
KODA_API const struct koda_policy *koda_slot_policy(const struct koda_slot *slot);
/* Returns the process ID of the slot's worker, or -1 if there is none. For display and tests. */
KODA_API int koda_slot_pid(const struct koda_slot *slot);

/* Does the operation and waits. Returns 0 with *ret filled, or -1 with *err set and *ret empty. */
KODA_API int koda_call(struct koda_slot *slot, const struct koda_op *op, struct koda_result *ret,
    struct koda_error *err);

/* err is NULL on success. result is valid only until the callback returns. */
typedef void koda_done_fn(void *data, const struct koda_result *result,
    const struct koda_error *err);
KODA_API int koda_call_async(struct koda_slot *slot, const struct koda_op *op, koda_done_fn *done,
    void *data, struct koda_error *err);

/* ---- searching ---- */

/*
 * Glob, grep and tree behave as in ripgrep. A search runs in a process of its own, sealed for this
 * one search, that cannot change anything: it checks the places against the policy, walks them by
 * descriptor, follows no link, and skips what the policy does not let be read. Results are in the
 * byte order of their paths.
 */
enum koda_search_kind {
	KODA_SEARCH_GLOB = 1, /* files, by name */
	KODA_SEARCH_GREP,     /* lines, by content */
	KODA_SEARCH_TREE,     /* a listing with sizes and counts */
};

enum koda_search_flags {
	/* What is searched. Default: no hidden names, no ignored names, one file system. */
	KODA_SEARCH_HIDDEN = 1 << 0,        /* also names that begin with a dot */
	KODA_SEARCH_NO_GITIGNORE = 1 << 1,  /* do not apply .gitignore */
	KODA_SEARCH_NO_DOT_IGNORE = 1 << 2, /* do not apply .ignore and .rgignore */
	KODA_SEARCH_NO_EXCLUDE = 1 << 3,    /* do not apply .git/info/exclude */
	/* do not apply the user's own excludes file (core.excludesFile) */
	KODA_SEARCH_NO_GLOBAL = 1 << 4,
	KODA_SEARCH_NO_PARENTS = 1 << 5, /* do not apply ignore files above the place */
	/* apply .gitignore and git's other ignore files also outside of repositories */
	KODA_SEARCH_NO_REQUIRE_GIT = 1 << 6,
	KODA_SEARCH_MOUNTS = 1 << 7, /* also file systems that are mounted below */
	KODA_SEARCH_GLOB_IGNORE_CASE = 1 << 8,
	KODA_SEARCH_NEWEST = 1 << 9, /* glob: sort newest first, instead of by path */
	/* globs only exclude; without it they also find hidden and ignored names, as in ripgrep */
	KODA_SEARCH_GLOBS_NARROW = 1 << 10,
	/* grep */
	KODA_SEARCH_FIXED = 1 << 16, /* patterns are text */
	KODA_SEARCH_IGNORE_CASE = 1 << 17,
	/* ignore case unless a pattern has an upper-case letter */
	KODA_SEARCH_SMART_CASE = 1 << 18,
	KODA_SEARCH_WORD = 1 << 19,
	KODA_SEARCH_WHOLE_LINE = 1 << 20,
	KODA_SEARCH_INVERT = 1 << 21,
	KODA_SEARCH_MULTILINE = 1 << 22, /* a match may span lines */
	KODA_SEARCH_DOTALL = 1 << 23,    /* with MULTILINE: '.' also matches the end of a line */
	KODA_SEARCH_TEXT = 1 << 24,      /* search binary files like text files */
	/* What to return instead of lines. At most one of these: */
	KODA_SEARCH_COUNT = 1 << 25,         /* how many lines of each file match */
	KODA_SEARCH_COUNT_MATCHES = 1 << 26, /* how many matches each file has */
	KODA_SEARCH_FILES = 1 << 27,         /* the files with a match */
	KODA_SEARCH_FILES_WITHOUT = 1 << 28, /* the files without one */
};

#define KODA_SEARCH_NO_IGNORE                                                                      \
	(KODA_SEARCH_NO_GITIGNORE | KODA_SEARCH_NO_DOT_IGNORE | KODA_SEARCH_NO_EXCLUDE |           \
	    KODA_SEARCH_NO_GLOBAL)

/*
 * What to search for, and where. Zero-initialise it; only kind, and for grep patterns, are
 * required. All of it is copied before the call returns.
 */
struct koda_search_options {
	enum koda_search_kind kind;
	unsigned flags; /* enum koda_search_flags */
	/* Files or directories, absolute or relative to the root. None: the root. */
	const char *const *paths;
	size_t n_paths;
	/*
	 * Which files to search, by path below the place: the syntax of .gitignore, but a matching
	 * file is searched, and one that matches a glob with a leading '!' is not. The last
	 * matching glob decides. A glob never leads out of the place.
	 */
	const char *const *globs;
	size_t n_globs;
	/* Only files of these types ("c", "py"), see koda_search_types(). */
	const char *const *types;
	size_t n_types;
	const char *const *types_not;
	size_t n_types_not;
	/* grep: Perl's regular expressions; a line that matches any of them is a match. */
	const char *const *patterns;
	size_t n_patterns;
	unsigned before, after; /* grep: lines of context */
	uint64_t max_per_file;  /* grep: maximum of matching lines per file; 0: all */
	uint64_t limit; /* maximum of results in total, without context; 0: KODA_SEARCH_LIMIT */
	/* grep: bytes of a line; longer: cut around the first match; 0: KODA_SEARCH_COLUMNS */
	unsigned max_columns;
	unsigned max_depth;  /* levels of directories below a place; 0: all */
	unsigned timeout_ms; /* 0: the session's */
};
#define KODA_SEARCH_LIMIT   1000000 /* what a caller without a limit of its own can hold */
#define KODA_SEARCH_COLUMNS 16384   /* no person writes longer lines */

enum koda_found_kind {
	KODA_FOUND_FILE = 1, /* glob, KODA_SEARCH_FILES, KODA_SEARCH_FILES_WITHOUT */
	KODA_FOUND_MATCH,    /* a line, or one of the lines of a match that spans several */
	KODA_FOUND_CONTEXT,  /* a line before or after a match */
	/* KODA_SEARCH_COUNT, KODA_SEARCH_COUNT_MATCHES: the count for a file with at least one */
	KODA_FOUND_COUNT,
	/* A binary file matches; its lines are not returned. Only for files that paths named. */
	KODA_FOUND_BINARY,
	KODA_FOUND_ENTRY,   /* tree: a directory comes before its content */
	KODA_FOUND_TROUBLE, /* this could not be searched */
};

struct koda_span {
	size_t start, end;
};

struct koda_found {
	enum koda_found_kind kind;
	unsigned place;   /* index of the path that it is below */
	const char *path; /* below that place; "": the place itself */
	uint64_t line;    /* match, context: from 1 */
	uint64_t offset;  /* of the line in the file; binary: of the first NUL */
	const char *text; /* match, context: the line, without its line end */
	size_t len;
	uint64_t cut_before, cut_after; /* bytes of the line that max_columns left out of text */
	const struct koda_span *spans;  /* match: positions in text; none for an inverted match */
	size_t n_spans;
	uint64_t count;           /* count */
	enum koda_file_type type; /* file, entry */
	uint64_t size;            /* entry: of the file; directory: of all files below it */
	uint64_t files;           /* entry, directory: number of files below it, at any depth */
	int64_t mtime_ns;         /* file, with KODA_SEARCH_NEWEST */
	unsigned depth;           /* entry: 0 is the place itself */
	const char *reason;       /* trouble: one sentence */
};

/* The result of a search. Zero-filled on failure. Nothing to free. */
struct koda_search_result {
	bool more;              /* a limit was reached, or the callback ended the search */
	uint64_t found;         /* results returned, without context and trouble */
	uint64_t matches;       /* grep: lines that match */
	uint64_t files;         /* grep: files searched; glob and tree: files seen */
	uint64_t files_matched; /* grep */
	uint64_t bytes;         /* grep: bytes searched */
	/* names that the policy does not let be read; what is below them is not counted */
	uint64_t hidden;
	uint64_t binary;   /* grep: binary files that were skipped */
	uint64_t troubles; /* what could not be searched; the first hundred are returned */
	bool recovered;    /* the search process died, and another one finished the search */
};

/* found is valid only until the callback returns. Non-zero ends the search, and sets `more`. */
typedef int koda_found_fn(void *data, const struct koda_found *found);

/*
 * Searches and waits for the end. Returns 0 with *ret filled, or -1 with *err set; results returned
 * until then are valid. An invalid pattern or glob gives KODA_INVALID, one that would take too long
 * to match KODA_TOO_LARGE.
 */
KODA_API int koda_search(struct koda_slot *slot, const struct koda_search_options *options,
    koda_found_fn *found, void *data, struct koda_search_result *ret, struct koda_error *err);

/*
 * Like koda_search() without waiting: found and then, once, done (or NULL) are called from the
 * loop. The caller owns the handle. To cancel the search, free it, at any time, also from inside a
 * callback. Other calls of the slot are served meanwhile.
 */
struct koda_search;
typedef void koda_search_done_fn(void *data, struct koda_search *search);
KODA_API struct koda_search *koda_search_start(struct koda_slot *slot,
    const struct koda_search_options *options, koda_found_fn *found, koda_search_done_fn *done,
    void *data, struct koda_error *err);
/*
 * Runs the loop for at most timeout_ms (-1: no limit). Returns 1 if the search is over, 0 if not
 * yet, -1 with *err set.
 */
KODA_API int koda_search_wait(struct koda_search *search, int timeout_ms, struct koda_error *err);
/* Returns what koda_search() would have returned. Only after the search is over. */
KODA_API int koda_search_result(const struct koda_search *search, struct koda_search_result *ret,
    struct koda_error *err);
KODA_API void koda_search_free(struct koda_search *search);

/*
 * Calls fn once for each known type, sorted by name; globs ends with NULL. Stops when fn returns
 * non-zero, and returns that value.
 */
typedef int koda_search_type_fn(void *data, const char *name, const char *const *globs);
KODA_API int koda_search_types(koda_search_type_fn *fn, void *data);

/* ---- commands ---- */

/*
 * A command to run. Zero-initialise it; argv or shell is required. All of it is copied before the
 * call returns. The descriptors are duplicated and stay the caller's.
 */
struct koda_command_options {
	const char *const *argv; /* ends with NULL; argv[0] is looked up in the sandbox's PATH */
	const char *shell;       /* instead of argv: a command line for sh -c */
	const char *cwd;         /* as seen in the sandbox; NULL: the root */
	/*
	 * Variables to add to the environment, "NAME=value", ends with NULL; or NULL. The rest of
	 * the environment is built from nothing, see koda_environment().
	 */
	const char *const *env;
	/* 0: empty input. Otherwise the command gets this descriptor itself. */
	int stdin_fd;
	/*
	 * 0: captured, at most max_output bytes each (the beginning and the end are kept).
	 * Otherwise the command gets these descriptors themselves.
	 */
	int stdout_fd, stderr_fd;
	bool tty; /* stdin_fd is a terminal: make it the command's controlling terminal */
	/*
	 * The command is over when the last process that it started ends, not when its first one
	 * does. The policy's wall time does not end it; timeout_ms and the end of its slot do.
	 */
	bool background;
	bool approved; /* the user has already approved exactly this command: do not ask again */
	/*
	 * With tty only: a person uses and ends it. timeout_ms applies, the policy's wall time does
	 * not.
	 */
	bool interactive;
	/*
	 * 0: the policy's wall time. Never more than that, nor than 300 s. With background or
	 * interactive neither applies, and 0 means no limit.
	 */
	unsigned timeout_ms;
	uint64_t max_output; /* 0: the policy's; never more than that */
};

enum koda_limit_hit {
	KODA_HIT_NONE = 0,
	KODA_HIT_WALL_TIME,
	KODA_HIT_CPU_TIME,
	KODA_HIT_FILE_SIZE,
	KODA_HIT_MEMORY,
	KODA_HIT_PROCESSES,
	KODA_HIT_OUTPUT, /* some output was left out; the command went on */
	/* It planted something again after it was removed, or planted too much, and was killed. */
	KODA_HIT_PLANTED,
};
/* Returns the policy's name of the limit ("wall_time_secs", ...), "planted", or "" for none. */
KODA_API const char *koda_limit_hit_name(enum koda_limit_hit hit);

struct koda_output {
	const char *head; /* the first half of what fits; all of it if nothing was left out */
	size_t head_len;
	const char *tail; /* the end of the output */
	size_t tail_len;
	uint64_t left_out; /* bytes between head and tail */
	uint64_t total;
};

enum koda_violation_kind {
	KODA_VIOLATION_FILE_READ = 0,
	KODA_VIOLATION_FILE_WRITE,
	KODA_VIOLATION_NETWORK_OUTBOUND,
	KODA_VIOLATION_PROCESS_EXEC,
	KODA_VIOLATION_OTHER,
	/* nothing was refused: something to check before tools of the host use it */
	KODA_VIOLATION_NOTE,
	KODA_N_VIOLATION_KINDS,
};
/* Returns "file_read", ... */
KODA_API const char *koda_violation_kind_name(enum koda_violation_kind kind);

struct koda_violation {
	enum koda_violation_kind kind;
	const char *target; /* "" if not known */
	/*
	 * The command's first word, or its shell text. "" for a file operation, and if several
	 * commands ran and it is not known which one to blame.
	 */
	const char *command;
	const char *rule;   /* "" if not known */
	const char *detail; /* one sentence, or "" */
	double time;        /* seconds since the epoch */
	bool certain;       /* observed by the sandbox, not guessed from the command's output */
};

/* The result of a command. Call koda_command_result_done() when finished with it. */
struct koda_command_result {
	int status;              /* exit code; 128 + signal if a signal ended it */
	int signal;              /* 0: it exited */
	enum koda_limit_hit hit; /* the limit that ended it or that it reached */
	struct koda_output out, err;
	uint64_t wall_us, user_us, system_us, max_rss_kib;
	uint64_t left_behind; /* processes that it had started and that were killed at its end */
	const struct koda_violation *violations;
	size_t n_violations;
	void *priv;
};
KODA_API void koda_command_result_done(struct koda_command_result *result);

struct koda_command;

/*
 * Starts a command. In Safe (trust require) the approve callback is asked first, with kind
 * KODA_OP_RUN, unless `approved`. done (or NULL) is called once, from the loop, when the result is
 * available. Returns a handle that the caller must koda_command_free(), or NULL with *err set:
 * nothing was run.
 */
typedef void koda_command_done_fn(void *data, struct koda_command *command);
KODA_API struct koda_command *koda_command_start(struct koda_slot *slot,
    const struct koda_command_options *options, koda_command_done_fn *done, void *data,
    struct koda_error *err);

/*
 * Runs the loop for at most timeout_ms (-1: no limit). Returns 1 if the command is over, 0 if not
 * yet, -1 with *err set.
 */
KODA_API int koda_command_wait(struct koda_command *command, int timeout_ms,
    struct koda_error *err);

/* Sends the signal to the group of its first process (with a tty: to the foreground group). */
KODA_API int koda_command_signal(struct koda_command *command, int signo, struct koda_error *err);
/*
 * Sends SIGTERM to all processes of the command, and SIGKILL after a grace period. A command that
 * still waits for approval is refused. Does not wait: the command is over when koda_command_wait()
 * says so.
 */
KODA_API void koda_command_end(struct koda_command *command);

/* Returns the output of a running command so far. Valid until the next call on the slot. */
KODA_API void koda_command_output(const struct koda_command *command, struct koda_output *ret_out,
    struct koda_output *ret_err);

/*
 * After the command is over. Returns 0 with *ret filled, or -1 with *err set (for example because
 * the sandbox died and it is not known how far the command got). Succeeds only once: *ret then owns
 * the output and violations.
 */
KODA_API int koda_command_result(struct koda_command *command, struct koda_command_result *ret,
    struct koda_error *err);
/* Frees the handle; kills the command at once if it still runs. NULL is ignored. */
KODA_API void koda_command_free(struct koda_command *command);

/* Starts a command, waits for it, and returns its result as koda_command_result() does. */
KODA_API int koda_run(struct koda_slot *slot, const struct koda_command_options *options,
    struct koda_command_result *ret, struct koda_error *err);

/*
 * Calls fn for the slot's last hundred violations, oldest first. Stops when fn returns non-zero,
 * and returns that value.
 */
typedef int koda_violation_fn(void *data, const struct koda_violation *violation);
KODA_API int koda_slot_violations(const struct koda_slot *slot, koda_violation_fn *fn, void *data);
/*
 * Calls fn for the violations since the last call, for callers that keep a log. *seen must be 0 at
 * first; do not change it afterwards. *ret_missed is the number of violations that newer ones
 * pushed out before they could be reported. Stops like koda_slot_violations().
 */
KODA_API int koda_slot_new_violations(const struct koda_slot *slot, uint64_t *seen,
    uint64_t *ret_missed, koda_violation_fn *fn, void *data);
/*
 * Searches text that a command printed for refusals, as is done for captured output. For callers
 * that gave the command descriptors of their own. Each finding is recorded as uncertain, and fn
 * (may be NULL) is called for it. command and cwd are those that it was run with. Returns the
 * non-zero value with which fn stopped, else 0; without a kernel sandbox nothing is found.
 */
KODA_API int koda_slot_scan_output(struct koda_slot *slot, const char *command, const char *cwd,
    const char *text, size_t len, koda_violation_fn *fn, void *data);
/*
 * Reports whether a command of this slot may read, or change, the canonical path: by what the
 * sandbox mounts there, and by KODA_DENY_WRITE_NAMES. For the worker's answer use KODA_OP_EXPLAIN.
 * May take as long as the first command of a slot. *ret_rule is the rule that decides, or "".
 * Returns 0, or -1 with *err set.
 */
KODA_API int koda_slot_explain_command(struct koda_slot *slot, enum koda_access access,
    const char *path, bool *ret_allowed, const char **ret_rule, struct koda_error *err);
/*
 * For the policy of a child agent whose root is a subdirectory of this session's root. This slot
 * also protects files that its policy does not name, because a link in a protected place leads to
 * them or git's configuration names them. The child's session cannot see such links outside of its
 * root. This function adds the files to KODA_DENY_WRITE_WITHIN_ALLOW of a policy that is not frozen
 * yet. It may take as long as the first command of a slot. Returns 0, or -1 with *err set.
 */
KODA_API int koda_slot_add_guards(struct koda_slot *slot, struct koda_policy *policy,
    struct koda_error *err);
/*
 * Returns the block of text that is shown to a model after the command's standard error; the caller
 * must free() it. NULL: there are no violations, or out of memory.
 */
KODA_API char *koda_violations_render(const struct koda_violation *violations, size_t n);

/* ---- the network ---- */

enum koda_connection_outcome {
	KODA_CONNECTION_ALLOWED = 1,
	/* by a rule, the address that the name resolved to, the TLS server name, or the user */
	KODA_CONNECTION_DENIED,
	KODA_CONNECTION_FAILED,  /* allowed, but not established or not completed */
	KODA_CONNECTION_INVALID, /* the client's request was invalid; host may be "" */
};
/* Returns "allowed", ... */
KODA_API const char *koda_connection_outcome_name(enum koda_connection_outcome outcome);

struct koda_connection {
	/* "connect", "socks", "http", or "https" (TLS terminated by the proxy) */
	const char *protocol;
	const char *host; /* canonical */
	unsigned port;
	enum koda_connection_outcome outcome;
	bool open;          /* still open: the numbers are the current ones */
	const char *rule;   /* the rule that decided */
	const char *detail; /* one sentence, or "" */
	uint64_t up, down;  /* bytes from the command, and to it */
	uint64_t duration_us;
};
/*
 * Calls fn for the last thousand connections that commands of the slot made or tried to make,
 * oldest first. Stops when fn returns non-zero, and returns that value.
 */
typedef int koda_connection_fn(void *data, const struct koda_connection *connection);
KODA_API int koda_slot_connections(struct koda_slot *slot, koda_connection_fn *fn, void *data);
/*
 * Like koda_slot_new_violations(): calls fn once for each new connection, with its current state.
 * Does not wait for the proxy.
 */
KODA_API int koda_slot_new_connections(struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_connection_fn *fn, void *data);

/*
 * Reports whether commands with that policy may reach host: a name or an address, with an optional
 * ":port" (without: 443). Resolves no name. Returns 0 with *ret filled, or -1 with *err set.
 */
struct koda_host_verdict {
	bool allowed, asks; /* asks: in this mode the user is asked */
	const char *rule;   /* static */
	char host[256];     /* canonical */
	unsigned port;
	char reason[KODA_MESSAGE_MAX]; /* one sentence */
};
KODA_API int koda_explain_host(const struct koda_policy *policy, enum koda_mode mode,
    const char *host, struct koda_host_verdict *ret, struct koda_error *err);

/*
 * Reports how a command's environment is built: calls fn for each variable that is passed on, and
 * with passed false for each that is held back because its value carries credentials. argv0 selects
 * the variables that this tool gets in addition.
 */
typedef int koda_environment_fn(void *data, const char *name, const char *value, bool passed);
KODA_API int koda_environment(const char *argv0, koda_environment_fn *fn, void *data);

/*
 * Calls fn for each argument that the sandbox of such a session is built with, with a comment (or
 * ""). Starts nothing.
 */
typedef int koda_argument_fn(void *data, const char *argument, const char *comment);
KODA_API int koda_sandbox_arguments(const char *root, enum koda_mode mode,
    const struct koda_policy *policy, koda_argument_fn *fn, void *data, struct koda_error *err);

/* ---- quarantine: what commands planted, and the library moved away ---- */

struct koda_quarantined {
	const char *name; /* in its quarantine: for koda_quarantine_restore() */
	const char *path; /* where it was */
	const char *rule; /* why it was moved */
	const char *type; /* "file", "directory", "link" or "special" */
	double time;      /* seconds since the epoch */
	/* the name of its quarantine; each root has one. "OF/NAME" is also accepted as a name */
	const char *of;
	const char *command; /* the command that planted it, if known, else "" */
	uint64_t size;       /* of a file, else 0 */
};
/*
 * Calls fn for everything in the quarantine of this root, or of all roots (NULL), oldest first.
 * Returns the non-zero value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_quarantined_fn(void *data, const struct koda_quarantined *one);
KODA_API int koda_quarantine_visit(const char *root, koda_quarantined_fn *fn, void *data,
    struct koda_error *err);
/*
 * Puts it back where it was, if nothing is there now (else KODA_CONFLICT). For a user who has
 * inspected it: a tool of the host may run it again, which is why it was moved.
 */
KODA_API int koda_quarantine_restore(const char *root, const char *name, struct koda_error *err);

/*
 * What is quarantined, or an entry below it. All of it is under an attacker's control: escape it
 * before showing it.
 */
struct koda_quarantined_part {
	const char *path; /* relative; "": the quarantined thing itself */
	enum koda_file_type type;
	uint32_t mode;      /* 0: not known */
	uint64_t size;      /* of a file */
	const char *target; /* of a link, or NULL */
	const void *content;
	size_t len; /* of the content; less than size if it was cut */
};
typedef int koda_quarantined_part_fn(void *data, const struct koda_quarantined_part *part);
/*
 * Calls fn once, then part for each part, with at most max bytes of content in total. name may be
 * "OF/NAME"; root is then ignored and may be NULL. Returns the non-zero value with which a callback
 * stopped, else 0; -1 with *err set.
 */
KODA_API int koda_quarantine_show(const char *root, const char *name, size_t max,
    koda_quarantined_fn *fn, koda_quarantined_part_fn *part, void *data, struct koda_error *err);
/* Deletes it permanently. */
KODA_API int koda_quarantine_delete(const char *root, const char *name, struct koda_error *err);

/* ---- the caches of commands ---- */

/* What commands of one root wrote: a layer over the host's own caches that only they see. */
struct koda_cached {
	const char *root; /* "" if not known */
	const char *path; /* where the layer is stored */
	uint64_t bytes, names;
	bool more;     /* there are more than were counted */
	bool in_use;   /* by a session */
	size_t layers; /* more than one only after sessions that ran at the same time */
	double used;   /* last use, in seconds since the epoch */
};
/*
 * Calls fn for each root, in no particular order. Counting takes about a second per million names.
 * Returns the non-zero value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_cached_fn(void *data, const struct koda_cached *one);
KODA_API int koda_caches_visit(koda_cached_fn *fn, void *data, struct koda_error *err);
/*
 * Removes what commands of a root (NULL: of all roots) wrote to caches. What a session is using
 * stays; *ret_in_use (may be NULL) is set to the number of such roots. The only loss is the time to
 * fill the caches again.
 */
KODA_API int koda_caches_clear(const char *root, size_t *ret_in_use, struct koda_error *err);

/* ---- what this machine can do ---- */

struct koda_capability {
	const char *name;
	bool available;
	bool needed_for_auto;
	const char *detail;
	const char *remedy; /* "" when available */
};
typedef int koda_capability_fn(void *data, const struct koda_capability *capability);
/*
 * Tests each capability by using it, in a child process. Stops when fn returns non-zero, and
 * returns that value.
 */
KODA_API int koda_doctor(const char *helper_dir, koda_capability_fn *fn, void *data);

/* ---- shortcuts for the usual operations ---- */

static inline int
koda_fs_read(struct koda_slot *slot, const char *path, struct koda_result *ret,
    struct koda_error *err)
{
	struct koda_op op;

	memset(&op, 0, sizeof(op));
	op.kind = KODA_OP_READ;
	op.path = path;
	return koda_call(slot, &op, ret, err);
}

static inline int
koda_fs_write(struct koda_slot *slot, const char *path, const void *data, size_t len,
    struct koda_result *ret, struct koda_error *err)
{
	struct koda_op op;

	memset(&op, 0, sizeof(op));
	op.kind = KODA_OP_WRITE;
	op.path = path;
	op.data = data;
	op.len = len;
	return koda_call(slot, &op, ret, err);
}

static inline int
koda_fs_edit(struct koda_slot *slot, const char *path, const struct koda_edit *edits,
    size_t n_edits, struct koda_result *ret, struct koda_error *err)
{
	struct koda_op op;

	memset(&op, 0, sizeof(op));
	op.kind = KODA_OP_EDIT;
	op.path = path;
	op.edits = edits;
	op.n_edits = n_edits;
	return koda_call(slot, &op, ret, err);
}

#ifdef __cplusplus
}
#endif

#endif
