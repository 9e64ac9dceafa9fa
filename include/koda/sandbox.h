/* SPDX-License-Identifier: Apache-2.0 */
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
 *
 * This is the whole contract, in one file: an embedder includes and reads one header.
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

/* The size of a digest, which is BLAKE2b-256. */
#define KODA_DIGEST_BYTES 32

struct koda_policy;
struct koda_session;
struct koda_slot;
/* A pointer to it names a question; its value is not an address. */
struct koda_approval;

KODA_API const char *koda_version(void);

/* ---- errors: passed by value, nothing to free ---- */

enum koda_code {
	KODA_OK = 0,
	/* The request is invalid: it has an empty path, for example. */
	KODA_INVALID = 1,
	/* The policy forbids it; `rule` names the rule. */
	KODA_POLICY_DENIED = 2,
	/* The user said no, or there was no user to ask. */
	KODA_NOT_APPROVED = 3,
	/* The file is not what the caller expects. */
	KODA_CONFLICT = 4,
	/* The kernel refused it; errnum says why. */
	KODA_IO = 5,
	KODA_TOO_LARGE = 6,
	/* A worker died, and it is not known whether the operation happened. */
	KODA_UNKNOWN = 7,
	/* The operation did not finish in time; nothing was done. */
	KODA_TIMEOUT = 8,
	/* The worker failed too often. */
	KODA_WORKER = 9,
	/* A peer broke the protocol. */
	KODA_PROTOCOL = 10,
	/* This machine cannot enforce it or cannot do it. */
	KODA_UNSUPPORTED = 11,
	/* Memory or descriptors ran out, or the caller misused the library. */
	KODA_INTERNAL = 12,
};

#define KODA_MESSAGE_MAX    640
#define KODA_PATH_SHOWN_MAX 1024

struct koda_error {
	enum koda_code code;
	/* errno of the system call that failed, or 0. */
	int errnum;
	/* The policy rule that decided, or "". */
	char rule[64];
	/* The path concerned, cut if it is longer, or "". */
	char path[KODA_PATH_SHOWN_MAX];
	/* One sentence. */
	char message[KODA_MESSAGE_MAX];
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
	/* Changes are made without asking. */
	KODA_TRUST_AUTO = 1,
	/* The approve callback decides on each change. */
	KODA_TRUST_REQUIRE = 2,
	/* No change is made. */
	KODA_TRUST_FORBID = 3,
};

enum koda_list {
	/*
	 * Paths that are not read, with everything below them. There are no patterns: '*' is a name
	 * like any other.
	 */
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

/*
 * Returns a policy without rules, which allows reading everything, writing nothing and connecting
 * to nothing; NULL: out of memory. The caller must koda_policy_free() it.
 */
KODA_API struct koda_policy *koda_policy_new(void);

/*
 * Returns the policy of a mode for a project, or NULL with *err set. It is not frozen: rules may
 * still be added. The caller must koda_policy_free() it.
 */
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
/*
 * Makes a list present without a rule. A list that is present and empty permits nothing; one that
 * is absent is inherited by koda_policy_compose().
 */
KODA_API int koda_policy_add_none(struct koda_policy *policy, enum koda_list list,
    struct koda_error *err);
KODA_API int koda_policy_set_flag(struct koda_policy *policy, enum koda_flag flag, bool value,
    struct koda_error *err);
/*
 * Sets a limit. Refuses a value above what can be enforced, because limits are not lowered later;
 * err then states the maximum.
 */
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

/*
 * Returns a frozen policy that allows only what both policies allow, or NULL with *err set. Both
 * must be frozen. The caller must koda_policy_free() it.
 */
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
	/*
	 * Only in questions: the caller wants to run a command (see koda_command_start()), or a
	 * command wants to reach a host that no rule names.
	 */
	KODA_OP_RUN,
	KODA_OP_CONNECT,
};

enum koda_op_flags {
	/* Read, stat, write: return the digest of the content. */
	KODA_DIGEST = 1 << 0,
	/* Mutations: the change is on disk when the call returns. */
	KODA_DURABLE = 1 << 1,
	/* Mkdir: create missing parents too; an existing directory is not an error. */
	KODA_PARENTS = 1 << 2,
	/* Remove: remove a directory with everything below it. */
	KODA_RECURSIVE = 1 << 3,
	/* Rename: replace an existing target. */
	KODA_OVERWRITE = 1 << 4,
	/* Mutations: check and describe the change, but change nothing and ask no user. */
	KODA_DRY_RUN = 1 << 5,
	/* List: return names and types only, with sizes of 0. Saves one system call per file. */
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
	/* Replace every occurrence. If false, old_text must occur exactly once. */
	bool all;
};

/*
 * An operation. Zero-initialise it; only kind and path are always needed. The library copies what
 * it needs before the call returns.
 */
struct koda_op {
	enum koda_op_kind kind;
	/* Values of enum koda_op_flags. */
	unsigned flags;
	/* Absolute, or relative to the root. Rename: the old name. */
	const char *path;
	/* Rename: the new name. */
	const char *to;
	/* Write: the new content. */
	const void *data;
	size_t len;
	/*
	 * Write: if above 0, a memfd with the content, used instead of data. It must be sealed
	 * against writing, growing and shrinking. The caller keeps it.
	 */
	int fd;
	/* Read: where to begin, and the maximum number of bytes; a maximum of 0 means all. */
	uint64_t offset;
	uint64_t max;
	/* Edit: the replacements to make. */
	const struct koda_edit *edits;
	size_t n_edits;
	/*
	 * Mutations: the digest (KODA_DIGEST_BYTES) that the current content is expected to have,
	 * or NULL.
	 */
	const uint8_t *if_digest;
	/* Write: fail if the file exists. */
	bool if_absent;
	/* Explain. */
	enum koda_access access;
	/* 0: the session's timeout. */
	unsigned timeout_ms;
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
	/* Canonical: the path on which the operation really acted. Rename: also the new path. */
	const char *path;
	const char *to;
	/* Stat: the type. Mutations: the type of what was there before. */
	enum koda_file_type type;
	/* The size of the file. Mutations: its size afterwards and before. */
	uint64_t size;
	uint64_t size_before;

	uint32_t mode;
	int64_t mtime_ns;
	uint64_t links;
	/* Stat: the target of a symbolic link. */
	const char *target;

	bool has_digest, has_digest_before;
	uint8_t digest[KODA_DIGEST_BYTES];
	uint8_t digest_before[KODA_DIGEST_BYTES];

	/* Read: the content, if fd is -1. */
	const uint8_t *data;
	size_t len;
	/* Read of more than 64 KiB: a descriptor to pread() from at any offset. Otherwise -1. */
	int fd;

	uint64_t replacements;
	/* Remove: the number of names that were removed. */
	uint64_t removed;
	/* Dry run of an edit: the line of the first match of each replacement. */
	const uint64_t *lines;
	size_t n_lines;
	bool created;
	/* The worker died during the operation, which nevertheless happened exactly once. */
	bool recovered;

	/* List: the entries, sorted by the bytes of their names. */
	const struct koda_entry *entries;
	size_t n_entries;
	/* List: the number of entries that the policy hides. */
	uint64_t hidden;

	/* Explain. */
	bool allowed;
	const char *rule;
	const char *reason;
	/* The symbolic links that were followed. */
	const char *const *hops;
	size_t n_hops;

	void *priv;
};

KODA_API void koda_result_done(struct koda_result *result);

/* ---- sessions and slots ---- */

/*
 * A mutation that needs approval, as the worker found it. Valid until it is answered, or, for a
 * question of koda_call() or koda_run(), until the callback returns.
 */
struct koda_question {
	enum koda_op_kind kind;
	enum koda_mode mode;
	/* Canonical. */
	const char *path;
	/* Rename: the new name. */
	const char *to;
	/* The type of what is there now. */
	enum koda_file_type type;
	uint64_t size_before, size_after;
	/* Write: the content, if it was given as bytes. */
	const void *data;
	size_t len;
	/*
	 * Edit: the replacements, the line of the first match of each (or NULL), and their number.
	 */
	const struct koda_edit *edits;
	const uint64_t *lines;
	size_t n_edits;
	uint64_t replacements;
	/* Remove: the number of names that would be removed. */
	uint64_t entries;
	/* Run: the command. env is what was added to the environment, or NULL. */
	const char *const *argv;
	const char *cwd;
	const char *const *env;
	/* Connect: the host, canonical, and its port. */
	const char *host;
	unsigned port;

	struct koda_approval *approval;
};

/*
 * Called before each mutation and each command if the policy's trust is KODA_TRUST_REQUIRE, but not in
 * a slot that works in a draft: nothing of those reaches the project, and the embedder decides on what
 * they changed (koda_draft_apply()). There it is called for each host, see koda_slot_options. Answer
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
 * What an answer covers. The yes of koda_approval_answer() means KODA_SCOPE_ONCE. KODA_OP_CONNECT
 * may be answered at any time, also while koda_run() waits: the connection waits as long as its
 * client does.
 */
enum koda_scope {
	KODA_SCOPE_NO = 0,
	/* KODA_OP_CONNECT: the connections that are waiting now. */
	KODA_SCOPE_ONCE,
	/*
	 * KODA_OP_CONNECT: every slot of the session may reach that host and port, unless its
	 * policy denies it. For other questions this means KODA_SCOPE_ONCE. A slot whose policy has
	 * KODA_TRUST_FORBID never asks, and no such answer applies to it: it reaches only what its
	 * rules name.
	 */
	KODA_SCOPE_SESSION,
};
KODA_API void koda_approval_answer_scope(struct koda_approval *approval, enum koda_scope scope);

enum koda_event_kind {
	/* A worker was started. */
	KODA_EVENT_SPAWN = 1,
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
	 * After a release without koda_slot_end(), the final comparison of a slot found something
	 * that a command planted in its last moment; or, for a slot without commands, something
	 * that a killed session had left was found. The text says whether it was moved to
	 * quarantine or is still there.
	 */
	KODA_EVENT_LEFT = 4
};
/*
 * Reports an event, for observation only: calls from inside this callback fail. Only two things are
 * accepted. A release or close, from inside any callback, takes effect when the library function
 * that called back returns. The answer to a question takes effect then too, or at the next turn of
 * the loop if that is earlier.
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
	/* KODA_SESSION_OPTIONS_INIT sets it. */
	uint32_t version;
	/* An existing directory. */
	const char *root;
	enum koda_mode mode;
	/* NULL: koda_policy_for_agent(mode, root). */
	const struct koda_policy *policy;
	/* NULL: there is no user to ask, which means no. */
	koda_approve_fn *approve;
	koda_event_fn *event;
	/* Passed to the callbacks. */
	void *data;
	/* NULL: derived from where the library or the program is installed. */
	const char *helper_dir;
	/* 0: 30 s. */
	unsigned timeout_ms;
	/* 0: 128. */
	unsigned max_slots;
	/* The number of idle workers to keep. 0: 8. */
	unsigned max_idle;
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
	 * the first scan of the project, which takes seconds in a large one, and for the check of
	 * what a killed session left. NULL: poll(2).
	 */
	koda_wait_fn *wait;
	/*
	 * File operations are not kept in the history, so koda_history_undo() cannot take them back. They
	 * are not either if there is no place for the history, which is reported (KODA_EVENT_DEGRADED).
	 */
	bool no_history;
	/*
	 * Bytes that the history may take up on the disk, of all roots together. When a session begins or
	 * ends, and while it goes on, the oldest changes are removed until the rest fits. 0: 2 GiB.
	 */
	uint64_t history_bytes;
};
#define KODA_SESSION_OPTIONS_VERSION 7
#define KODA_SESSION_OPTIONS_INIT                                                                  \
	{                                                                                          \
		.version = KODA_SESSION_OPTIONS_VERSION                                            \
	}

/* Returns a session that the caller must koda_session_close(), or NULL with *err set. */
KODA_API struct koda_session *koda_session_open(const struct koda_session_options *options,
    struct koda_error *err);

/*
 * Ends every worker and frees the session. Calls that have not finished are answered with
 * KODA_WORKER first.
 */
KODA_API void koda_session_close(struct koda_session *session);

/*
 * Runs the library's loop once: waits at most timeout_ms (-1: no limit) for an event and handles
 * it. Callbacks of koda_call_async() are called from here, never from inside koda_call_async().
 * Returns the number of unfinished calls, searches and commands, or -1 on an error.
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
	/* Slots that are acquired now. */
	uint64_t slots;
	/* Worker processes that exist now, including idle ones. */
	uint64_t workers;
	uint64_t spawns;
	/* Starts after a death. */
	uint64_t respawns;
	uint64_t calls;
	/* Refusals by the policy or by the approve callback. */
	uint64_t refusals;
	/* Mutations whose outcome had to be determined after a death. */
	uint64_t recovered;
};
KODA_API void koda_session_stats(const struct koda_session *session, struct koda_stats *ret);

/*
 * Acquires a slot, which has its own worker. child narrows the session's policy (see
 * koda_policy_compose()); NULL: the session's policy. An idle worker with the same policy, root and
 * mode is reused after a successful round trip. Returns NULL with *err set on failure.
 */
KODA_API struct koda_slot *koda_slot_acquire(struct koda_session *session,
    const struct koda_policy *child, struct koda_error *err);

/* Where a slot's changes go. */
enum koda_workspace {
	/* Into the project, as they are made. */
	KODA_WORKSPACE_DIRECT = 0,
	/*
	 * Into a draft: file operations and commands see the project with their changes, and nothing
	 * reaches it. Needs a session with commands, and Linux 5.11.
	 */
	KODA_WORKSPACE_DRAFT = 1,
	/* Into a copy of the project: see koda_copy_open(). A slot of the project itself has none. */
	KODA_WORKSPACE_WORKTREE = 2,
	KODA_WORKSPACE_CLONE = 3,
};

/*
 * With a draft and the trust KODA_TRUST_REQUIRE, commands and mutations run without a question. What a
 * command sends cannot be held back, so the approve callback is asked, with kind KODA_OP_CONNECT, for
 * each host before the first byte leaves: for those that a rule allows too, and for commands that are
 * `approved`. An answer for the session is valid as usual. Without an approve callback every host is
 * refused, with the rule "nobody_to_ask". What a rule denies is refused without a question.
 */
struct koda_slot_options {
	/* Narrows the session's policy, see koda_policy_compose(); NULL: the session's policy. */
	const struct koda_policy *policy;
	enum koda_workspace workspace;
	/* The id of the draft to go on with; NULL: a new one. */
	const char *draft;
};

/* Like koda_slot_acquire(). A draft stays when its slot is released. */
KODA_API struct koda_slot *koda_slot_open(struct koda_session *session,
    const struct koda_slot_options *options, struct koda_error *err);
/* Returns the id of the slot's draft, which the slot owns; "" if it works in the project itself. */
KODA_API const char *koda_slot_draft(const struct koda_slot *slot);
/*
 * Releases a slot; NULL is ignored. With commands this ends the slot as koda_slot_end() does, and
 * so may wait.
 */
KODA_API void koda_slot_release(struct koda_slot *slot);
/*
 * Ends all commands of the slot, including background ones, and compares what they left one last
 * time. Waits at most nine seconds. What it finds is added to the slot's violations. After this no
 * command can be started in the slot; release it. Returns 0, or -1 if the comparison did not
 * finish; the next session with any root there then finishes it first.
 */
KODA_API int koda_slot_end(struct koda_slot *slot, struct koda_error *err);

/* The enforcement that the worker reported after it had confined itself. */
struct koda_enforcement {
	unsigned landlock_abi;
	bool seccomp;
	/* The worker runs in the slot's kernel sandbox. */
	bool mount_view;
};
KODA_API void koda_slot_enforcement(const struct koda_slot *slot, struct koda_enforcement *ret);
KODA_API const struct koda_policy *koda_slot_policy(const struct koda_slot *slot);
/* Returns the process ID of the slot's worker, or -1 if there is none. For display and tests. */
KODA_API int koda_slot_pid(const struct koda_slot *slot);

/* Does the operation and waits. Returns 0 with *ret filled, or -1 with *err set and *ret empty. */
KODA_API int koda_call(struct koda_slot *slot, const struct koda_op *op, struct koda_result *ret,
    struct koda_error *err);

/*
 * Like koda_call() without waiting: done is called once, from the loop. Its err is NULL on success;
 * its result is valid only until it returns. Returns 0, or -1 with *err set: then done is not
 * called.
 */
typedef void koda_done_fn(void *data, const struct koda_result *result,
    const struct koda_error *err);
KODA_API int koda_call_async(struct koda_slot *slot, const struct koda_op *op, koda_done_fn *done,
    void *data, struct koda_error *err);

/* ---- searching ---- */

/*
 * Glob, grep and tree behave as in ripgrep. A search runs in a process of its own, sealed for this
 * one search, that cannot change anything: it checks the places against the policy, walks them by
 * descriptor, follows no link, and skips what the policy does not allow reading. Results are in the
 * byte order of their paths.
 */
enum koda_search_kind {
	/* Finds files by name. */
	KODA_SEARCH_GLOB = 1,
	/* Finds lines by content. */
	KODA_SEARCH_GREP,
	/* Lists a directory tree with sizes and counts. */
	KODA_SEARCH_TREE,
};

enum koda_search_flags {
	/* What is searched. Default: no hidden names, no ignored names, one file system. */

	/* Also search names that begin with a dot. */
	KODA_SEARCH_HIDDEN = 1 << 0,
	/* Do not apply .gitignore. */
	KODA_SEARCH_NO_GITIGNORE = 1 << 1,
	/* Do not apply .ignore and .rgignore. */
	KODA_SEARCH_NO_DOT_IGNORE = 1 << 2,
	/* Do not apply .git/info/exclude. */
	KODA_SEARCH_NO_EXCLUDE = 1 << 3,
	/* Do not apply the user's own excludes file (core.excludesFile). */
	KODA_SEARCH_NO_GLOBAL = 1 << 4,
	/* Do not apply ignore files above the place. */
	KODA_SEARCH_NO_PARENTS = 1 << 5,
	/* Apply .gitignore and git's other ignore files also outside of repositories. */
	KODA_SEARCH_NO_REQUIRE_GIT = 1 << 6,
	/* Also search file systems that are mounted below. */
	KODA_SEARCH_MOUNTS = 1 << 7,
	KODA_SEARCH_GLOB_IGNORE_CASE = 1 << 8,
	/* Glob: sort newest first, instead of by path. */
	KODA_SEARCH_NEWEST = 1 << 9,
	/*
	 * Globs only exclude. Without this flag they also find hidden and ignored names, as in
	 * ripgrep.
	 */
	KODA_SEARCH_GLOBS_NARROW = 1 << 10,

	/* How grep matches. */

	/* Patterns are text. */
	KODA_SEARCH_FIXED = 1 << 16,
	KODA_SEARCH_IGNORE_CASE = 1 << 17,
	/* Ignore case unless a pattern has an upper-case letter. */
	KODA_SEARCH_SMART_CASE = 1 << 18,
	KODA_SEARCH_WORD = 1 << 19,
	KODA_SEARCH_WHOLE_LINE = 1 << 20,
	KODA_SEARCH_INVERT = 1 << 21,
	/* A match may span lines. */
	KODA_SEARCH_MULTILINE = 1 << 22,
	/* With KODA_SEARCH_MULTILINE: '.' also matches the end of a line. */
	KODA_SEARCH_DOTALL = 1 << 23,
	/* Search binary files like text files. */
	KODA_SEARCH_TEXT = 1 << 24,

	/* What grep returns instead of lines. At most one of these. */

	/* For each file: how many lines match, or how many matches it has. */
	KODA_SEARCH_COUNT = 1 << 25,
	KODA_SEARCH_COUNT_MATCHES = 1 << 26,
	/* The files with a match, or those without one. */
	KODA_SEARCH_FILES = 1 << 27,
	KODA_SEARCH_FILES_WITHOUT = 1 << 28,
};

#define KODA_SEARCH_NO_IGNORE                                                                      \
	(KODA_SEARCH_NO_GITIGNORE | KODA_SEARCH_NO_DOT_IGNORE | KODA_SEARCH_NO_EXCLUDE |           \
	    KODA_SEARCH_NO_GLOBAL)

/*
 * What to search for, and where. Zero-initialise it; only kind, and for grep patterns, are
 * required. The library copies all of it before the call returns.
 */
struct koda_search_options {
	enum koda_search_kind kind;
	/* Values of enum koda_search_flags. */
	unsigned flags;
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
	/*
	 * Search only files of these types ("c", "py"), or none of these; see koda_search_types().
	 */
	const char *const *types;
	size_t n_types;
	const char *const *types_not;
	size_t n_types_not;
	/* Grep: Perl's regular expressions. A line that matches any of them is a match. */
	const char *const *patterns;
	size_t n_patterns;
	/* Grep: the number of context lines before and after a match. */
	unsigned before, after;
	/* Grep: the maximum number of matching lines per file. 0: all. */
	uint64_t max_per_file;
	/* The maximum number of results in total, without context. 0: KODA_SEARCH_LIMIT. */
	uint64_t limit;
	/*
	 * Grep: the maximum number of bytes of a line. A longer line is cut around its first match.
	 * 0: KODA_SEARCH_COLUMNS.
	 */
	unsigned max_columns;
	/* Levels of directories below a place. 0: all. */
	unsigned max_depth;
	/* 0: the session's timeout. */
	unsigned timeout_ms;
};
/* A caller without a limit of its own can hold this many results. */
#define KODA_SEARCH_LIMIT 1000000
/* No person writes longer lines. */
#define KODA_SEARCH_COLUMNS 16384

enum koda_found_kind {
	/* Glob, KODA_SEARCH_FILES, KODA_SEARCH_FILES_WITHOUT: a file. */
	KODA_FOUND_FILE = 1,
	/* A line that matches, or one of the lines of a match that spans several. */
	KODA_FOUND_MATCH,
	/* A line before or after a match. */
	KODA_FOUND_CONTEXT,
	/* KODA_SEARCH_COUNT, KODA_SEARCH_COUNT_MATCHES: the count for a file with at least one. */
	KODA_FOUND_COUNT,
	/* A binary file matches; its lines are not returned. Only for files that paths named. */
	KODA_FOUND_BINARY,
	/* Tree: an entry. A directory comes before its content. */
	KODA_FOUND_ENTRY,
	/* Something that could not be searched. */
	KODA_FOUND_TROUBLE,
};

struct koda_span {
	size_t start, end;
};

struct koda_found {
	enum koda_found_kind kind;
	/* The index in koda_search_options.paths of the path that it is below. */
	unsigned place;
	/* Relative to that place. "": the place itself. */
	const char *path;
	/* Match, context: the line number, from 1. */
	uint64_t line;
	/* Where the line begins in the file. Binary: where the first NUL is. */
	uint64_t offset;
	/* Match, context: the line, without its line end. */
	const char *text;
	size_t len;
	/* The number of bytes of the line that max_columns left out, before and after text. */
	uint64_t cut_before, cut_after;
	/* Match: where the matches are in text. An inverted match has no spans. */
	const struct koda_span *spans;
	size_t n_spans;
	/* Count. */
	uint64_t count;
	/* File, entry. */
	enum koda_file_type type;
	/* Entry: the size of the file. Directory: the size of all files below it. */
	uint64_t size;
	/* Entry that is a directory: the number of files below it, at any depth. */
	uint64_t files;
	/* File, with KODA_SEARCH_NEWEST. */
	int64_t mtime_ns;
	/* Entry: 0 is the place itself. */
	unsigned depth;
	/* Trouble: one sentence. */
	const char *reason;
};

/* The result of a search. Zero-filled on failure. Nothing to free. */
struct koda_search_result {
	/* A limit was reached, or the callback ended the search. */
	bool more;
	/* The number of results returned, without context and trouble. */
	uint64_t found;
	/* Grep: the number of lines that match. */
	uint64_t matches;
	/* Grep: the number of files searched. Glob and tree: the number of files seen. */
	uint64_t files;
	/* Grep: the number of files with a match, and of bytes searched. */
	uint64_t files_matched;
	uint64_t bytes;
	/* Names that the policy does not allow reading. What is below them is not counted. */
	uint64_t hidden;
	/* Grep: the number of binary files that were skipped. */
	uint64_t binary;
	/* The number of things that could not be searched. The first hundred are returned. */
	uint64_t troubles;
	/* The search process died, and another one finished the search. */
	bool recovered;
};

/*
 * Receives a result, valid only until the callback returns. Non-zero ends the search and sets
 * `more`.
 */
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
 * loop. Other calls of the slot are served meanwhile. Returns a handle that the caller must
 * koda_search_free(), or NULL with *err set. To cancel the search, free the handle, at any time,
 * also from inside a callback.
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
/* Returns what koda_search() would have returned. May be called only after the search is over. */
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
 * A command to run. Zero-initialise it; argv or shell is required. The library copies all of it
 * before the call returns, and duplicates the descriptors, which the caller keeps.
 */
struct koda_command_options {
	/* Ends with NULL; argv[0] is looked up in the sandbox's PATH. */
	const char *const *argv;
	/* Instead of argv: a command line for sh -c. */
	const char *shell;
	/* The working directory as seen in the sandbox. NULL: the root. */
	const char *cwd;
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
	/* stdin_fd is a terminal: make it the command's controlling terminal. */
	bool tty;
	/*
	 * The command is over when the last process that it started ends, not when its first one
	 * does. The policy's wall time does not end it; timeout_ms and the end of its slot do.
	 */
	bool background;
	/* The user has already approved exactly this command: do not ask again. Nothing is asked in a
	 * slot that works in a draft. */
	bool approved;
	/*
	 * With tty only: a person uses and ends the command. timeout_ms applies, the policy's wall
	 * time does not.
	 */
	bool interactive;
	/*
	 * 0: the policy's wall time. Never more than that, nor than 300 s. With background or
	 * interactive neither applies, and 0 means no limit.
	 */
	unsigned timeout_ms;
	/* 0: the policy's limit. Never more than that. */
	uint64_t max_output;
};

enum koda_limit_hit {
	KODA_HIT_NONE = 0,
	KODA_HIT_WALL_TIME,
	KODA_HIT_CPU_TIME,
	KODA_HIT_FILE_SIZE,
	KODA_HIT_MEMORY,
	KODA_HIT_PROCESSES,
	/* Some output was left out; the command went on. */
	KODA_HIT_OUTPUT,
	/*
	 * The command planted something again after it was removed, or planted too much, and was
	 * killed.
	 */
	KODA_HIT_PLANTED,
};
/* Returns the policy's name of the limit ("wall_time_secs", ...), "planted", or "" for none. */
KODA_API const char *koda_limit_hit_name(enum koda_limit_hit hit);

struct koda_output {
	/* The first half of what fits. If nothing was left out, all of the output. */
	const char *head;
	size_t head_len;
	/* The end of the output. */
	const char *tail;
	size_t tail_len;
	/* The number of bytes between head and tail, and of all output. */
	uint64_t left_out;
	uint64_t total;
};

enum koda_violation_kind {
	KODA_VIOLATION_FILE_READ = 0,
	KODA_VIOLATION_FILE_WRITE,
	KODA_VIOLATION_NETWORK_OUTBOUND,
	KODA_VIOLATION_PROCESS_EXEC,
	KODA_VIOLATION_OTHER,
	/* Nothing was refused: something to check before tools of the host use it. */
	KODA_VIOLATION_NOTE,
	KODA_N_VIOLATION_KINDS,
};
/* Returns "file_read", ... */
KODA_API const char *koda_violation_kind_name(enum koda_violation_kind kind);

struct koda_violation {
	enum koda_violation_kind kind;
	/* "" if not known. */
	const char *target;
	/*
	 * The command's first word, or its shell text. "" for a file operation, and if several
	 * commands ran and it is not known which one to blame.
	 */
	const char *command;
	/* "" if not known. */
	const char *rule;
	/* One sentence, or "". */
	const char *detail;
	/* Seconds since the epoch. */
	double time;
	/* The sandbox observed it. If false, it was guessed from the command's output. */
	bool certain;
};

/* The result of a command. Call koda_command_result_done() when finished with it. */
struct koda_command_result {
	/* The exit code, or 128 + signal if a signal ended the command. */
	int status;
	/* The signal that ended the command. 0: it exited. */
	int signal;
	/* The limit that ended the command or that it reached. */
	enum koda_limit_hit hit;
	struct koda_output out, err;
	uint64_t wall_us, user_us, system_us, max_rss_kib;
	/* The number of processes that it had started and that were killed at its end. */
	uint64_t left_behind;

	const struct koda_violation *violations;
	size_t n_violations;
	void *priv;
};
KODA_API void koda_command_result_done(struct koda_command_result *result);

struct koda_command;

/*
 * Starts a command. In Safe (trust require) the approve callback is asked first, with kind
 * KODA_OP_RUN, unless `approved` is set or the slot works in a draft. done (or NULL) is called once, from the loop, when the
 * result is available. Returns a handle that the caller must koda_command_free(), or NULL with *err
 * set: nothing was run.
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

/*
 * Sends the signal to the process group of the command's first process, or with a tty to the
 * foreground group. Returns 0, or -1 with *err set.
 */
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
 * Takes the result, after the command is over. Returns 0 with *ret filled, or -1 with *err set (for
 * example because the sandbox died and it is not known how far the command got). Succeeds only
 * once: *ret then owns the output and violations.
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
 * Searches text that a command printed for refusals, as the library does for captured output. For
 * callers that gave the command descriptors of their own. Each finding is recorded as uncertain,
 * and fn (may be NULL) is called for it. command and cwd are those that the command was run with.
 * Without a kernel sandbox nothing is found. Returns the non-zero value with which fn stopped, else
 * 0.
 */
KODA_API int koda_slot_scan_output(struct koda_slot *slot, const char *command, const char *cwd,
    const char *text, size_t len, koda_violation_fn *fn, void *data);
/*
 * Reports whether a command of this slot may read, or change, the canonical path: by what the
 * sandbox mounts there, and by KODA_DENY_WRITE_NAMES. The worker has its own answer: for that, use
 * KODA_OP_EXPLAIN. May take as long as the first command of a slot. *ret_rule is the rule that
 * decides, or "". Returns 0, or -1 with *err set.
 */
KODA_API int koda_slot_explain_command(struct koda_slot *slot, enum koda_access access,
    const char *path, bool *ret_allowed, const char **ret_rule, struct koda_error *err);
/*
 * Adds to KODA_DENY_WRITE_WITHIN_ALLOW of a policy that is not frozen yet the files that this slot
 * protects although its own policy does not name them: a link in a protected place leads to them,
 * or git's configuration names them. For the policy of a child agent whose root is a subdirectory
 * of this session's root, because the child's session cannot see such links outside of its root.
 * May take as long as the first command of a slot. Returns 0, or -1 with *err set.
 */
KODA_API int koda_slot_add_guards(struct koda_slot *slot, struct koda_policy *policy,
    struct koda_error *err);
/*
 * Returns the block of text to show to a model after the command's standard error. NULL: there are
 * no violations, or out of memory. The caller must free() it.
 */
KODA_API char *koda_violations_render(const struct koda_violation *violations, size_t n);

/* ---- the network ---- */

enum koda_connection_outcome {
	KODA_CONNECTION_ALLOWED = 1,
	/*
	 * Denied by a rule, by the address that the name resolved to, by the TLS server name, or by
	 * the user.
	 */
	KODA_CONNECTION_DENIED,
	/* Allowed, but not established or not completed. */
	KODA_CONNECTION_FAILED,
	/* The client's request was invalid; host may be "". */
	KODA_CONNECTION_INVALID,
};
/* Returns "allowed", ... */
KODA_API const char *koda_connection_outcome_name(enum koda_connection_outcome outcome);

struct koda_connection {
	/* "connect", "socks", "http", or "https" (TLS terminated by the proxy). */
	const char *protocol;
	/* Canonical. */
	const char *host;
	unsigned port;
	enum koda_connection_outcome outcome;
	/* The connection is still open: the numbers are the current ones. */
	bool open;
	/* The rule that decided. */
	const char *rule;
	/* One sentence, or "". */
	const char *detail;
	/* The number of bytes from the command, and to it. */
	uint64_t up, down;
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
	/* asks: in this mode the host asks the user. */
	bool allowed, asks;
	/* A static string. */
	const char *rule;
	/* Canonical. */
	char host[256];
	unsigned port;
	/* One sentence. */
	char reason[KODA_MESSAGE_MAX];
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

/* ---- drafts: what a slot changed, before it reaches the project ---- */

struct koda_drafted {
	const char *id;
	/* The root of the session that made it. */
	const char *root;
	/* Seconds since the epoch. */
	double begun;
	/* A slot works in it, or it is being applied. */
	bool in_use;
};
/*
 * Calls fn for each draft of this root, or of all roots (NULL), oldest first. Returns the non-zero
 * value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_drafted_fn(void *data, const struct koda_drafted *one);
KODA_API int koda_drafts_visit(const char *root, koda_drafted_fn *fn, void *data,
    struct koda_error *err);

struct koda_draft;
/*
 * Opens a draft of the session's root, to look at it and to decide on it. No slot may work in it
 * meanwhile. What may be applied follows the session's policy. Waits like koda_slot_acquire().
 * Returns a draft that the caller must koda_draft_close(), or NULL with *err set: KODA_INVALID if there is none, or
 * KODA_CONFLICT if a slot works in it.
 */
KODA_API struct koda_draft *koda_draft_open(struct koda_session *session, const char *id,
    struct koda_error *err);
/* Forgets nothing: the draft stays. NULL is ignored. */
KODA_API void koda_draft_close(struct koda_draft *draft);

enum koda_change_kind {
	/* Nothing has that name in the project. */
	KODA_CHANGE_CREATED = 1,
	/* Another content, or another target of a link. */
	KODA_CHANGE_CHANGED = 2,
	KODA_CHANGE_DELETED = 3,
	/* Only the permissions differ. */
	KODA_CHANGE_MODE = 4,
	/* In the history only: it was moved to another name. */
	KODA_CHANGE_RENAMED = 5,
};
/* "created" ... */
KODA_API const char *koda_change_kind_name(enum koda_change_kind kind);

/* What has a name, in the project or in the draft. */
struct koda_change_side {
	enum koda_file_type type;
	uint64_t size;
	/* The permission bits. */
	uint32_t mode;
	int64_t mtime_ns;
	/* The target of a link, or NULL. */
	const char *target;
};

/*
 * One change of a draft. A name whose type changed is two changes: deleted, then created. Commands
 * chose all names and targets: escape them before showing them.
 */
struct koda_change {
	/* Canonical, in the project. */
	const char *path;
	enum koda_change_kind kind;
	/* NULL: nothing is there. */
	const struct koda_change_side *before, *after;
	/* Deleting a directory: the number of names below it. */
	uint64_t entries;
	/* The policy refuses it; NULL: it does not. reason is a sentence for a person. A change of the
	 * history that has only a reason cannot be taken back: what it took away was not kept. */
	const char *rule, *reason;
	/* The name in the project changed after the draft had its own version of it. */
	bool conflict;
	/* A rename: the new name; else NULL. */
	const char *to;
	/* What git hides afterwards from a user who reviews the project, as a sentence; or NULL. */
	const char *note;
};
/*
 * Calls fn for each change, sorted: a directory before what is in it. Returns the non-zero value with
 * which fn stopped, else 0; -1 with *err set. *ret_cut (may be NULL): there are more names, or deeper
 * ones, than a draft may have; these are not listed, and cannot be applied. A draft that was applied in
 * full, or discarded, has no changes.
 */
typedef int koda_change_fn(void *data, const struct koda_change *change);
KODA_API int koda_draft_changes(struct koda_draft *draft, koda_change_fn *fn, void *data,
    bool *ret_cut, struct koda_error *err);

/*
 * Reads a changed file as it is in the draft or in the project (before), at most max bytes (0: all).
 * Returns 0 with *ret as of a read, which the caller releases by koda_result_done(), or -1 with *err
 * set.
 */
KODA_API int koda_draft_read(struct koda_draft *draft, const char *path, bool before, uint64_t max,
    struct koda_result *ret, struct koda_error *err);

/* What happens to a change that is in conflict. */
enum koda_take {
	/* It is not applied, and stays in the draft. */
	KODA_TAKE_NONE = 0,
	/* It is applied: what is in the project is replaced, and kept in the history. */
	KODA_TAKE_DRAFT = 1,
	/* It is dropped from the draft. */
	KODA_TAKE_PROJECT = 2,
	/* If it merges cleanly (koda_draft_merges()) the merged text is applied; otherwise it is not
	 * applied, and stays in the draft. */
	KODA_TAKE_MERGE = 3,
};

enum koda_merge_outcome {
	/* It cannot be merged. */
	KODA_MERGE_NONE = 0,
	KODA_MERGE_CLEAN = 1,
	/* Project and draft changed the same lines, or lines next to each other. */
	KODA_MERGE_OVERLAPS = 2,
};
/* "none" ... */
KODA_API const char *koda_merge_outcome_name(enum koda_merge_outcome outcome);

/* What KODA_TAKE_MERGE does with a change that is in conflict. */
struct koda_merge {
	const char *path;
	enum koda_merge_outcome outcome;
	/* Why there is no merged text, as a part of a sentence; NULL: there is one. */
	const char *reason;
	/* KODA_MERGE_OVERLAPS: how many places, and the line of the first one in the project's file. */
	uint64_t overlaps, line;
	/* The merged text. */
	const char *text;
	size_t len;
};
/*
 * Calls fn for each change in conflict. A three-way merge needs the version that project and draft both
 * began with. There is one if it was in the project from before the draft began until another draft was
 * applied there, after this one had changed it: then the history has it. What an editor, git or a file
 * operation replaced in the project is not merged. Only changes of text files of at most 1 MiB are merged. Returns the non-zero value with which fn stopped, else 0; -1 with
 * *err set.
 */
typedef int koda_merge_fn(void *data, const struct koda_merge *merge);
KODA_API int koda_draft_merges(struct koda_draft *draft, koda_merge_fn *fn, void *data,
    struct koda_error *err);

enum koda_apply_outcome {
	KODA_APPLIED = 1,
	/* The policy refuses it. */
	KODA_APPLY_REFUSED = 2,
	KODA_APPLY_CONFLICT = 3,
	/* It was not selected, or depends on what was not applied. */
	KODA_APPLY_SKIPPED = 4,
	/* The system refused it. */
	KODA_APPLY_FAILED = 5,
	/*
	 * No change, but what koda_draft_changes() does not list: names beyond a draft's limits. They
	 * are not applied, and stay in the draft. Reported last, with the root as path.
	 */
	KODA_APPLY_UNLISTED = 6,
};
KODA_API const char *koda_apply_outcome_name(enum koda_apply_outcome outcome);

struct koda_applied {
	const char *path;
	enum koda_change_kind kind;
	enum koda_apply_outcome outcome;
	/* Why not; NULL if it was applied or skipped. */
	const char *rule, *reason;
	/* The note of the change that was applied (struct koda_change), or NULL. */
	const char *note;
	/* A conflict of the git directory with this path as a whole: its index, refs and HEAD are applied
	 * together or not at all. To say that once is enough. NULL: it is about this change alone. */
	const char *together;
	/* Applied: it was in conflict, and the merged text is. */
	bool merged;
};
/* Returns non-zero to stop: what was not applied yet stays in the draft. */
typedef int koda_applied_fn(void *data, const struct koda_applied *one);

struct koda_apply_options {
	/*
	 * What to apply: paths, absolute or relative to the root, each with everything below it, or
	 * globs as in koda_search(). None: everything.
	 */
	const char *const *paths;
	size_t n_paths;
	enum koda_take take;
	/* Report what would happen. */
	bool dry_run;
};

/*
 * Applies changes to the project, each as one rename, and calls fn (may be NULL) for each. What was
 * applied leaves the draft and is kept in the history (koda_history_undo()). If the host is killed on
 * the way, the next koda_draft_open() finishes what was begun: nothing is done twice or in part. When
 * this returns, the changes are on disk. A draft in which nothing is left is removed when it is closed.
 * Returns the non-zero value with which fn stopped, else 0; -1 with *err set if it could not go on.
 * ret_undo, if not NULL, has room for KODA_HISTORY_ID_SIZE bytes and gets the id of the history's
 * entry, or "".
 */
#define KODA_HISTORY_ID_SIZE 33
KODA_API int koda_draft_apply(struct koda_draft *draft, const struct koda_apply_options *options,
    koda_applied_fn *fn, void *data, char *ret_undo, struct koda_error *err);
/*
 * Forgets these changes (n 0: the whole draft), and the draft if nothing is left. Closing it is still
 * the caller's. Returns 0, or -1 with *err set.
 */
KODA_API int koda_draft_discard(struct koda_draft *draft, const char *const *paths, size_t n,
    struct koda_error *err);

/* ---- history: what was changed, and how it is taken back ---- */

enum koda_history_kind {
	/* File operations of a slot. */
	KODA_HISTORY_FILES = 1,
	/* A draft that was applied, or a part of it. */
	KODA_HISTORY_DRAFT = 2,
};

struct koda_history_entry {
	const char *id;
	const char *root;
	enum koda_history_kind kind;
	/* The id of the draft, or "". */
	const char *draft;
	/* Seconds since the epoch: when it began, and its last change. */
	double begun, changed;
	/* How many changes it has, how many of them are taken back now, and what it takes up on the
	 * disk. */
	uint64_t changes, undone, bytes;
	/* A host was killed while it applied or took back this; koda_history_undo() finishes it. */
	bool unfinished;
	bool in_use;
};
/*
 * Calls fn for each entry of this root, or of all roots (NULL), oldest first. Returns the non-zero
 * value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_history_fn(void *data, const struct koda_history_entry *one);
KODA_API int koda_history_visit(const char *root, koda_history_fn *fn, void *data,
    struct koda_error *err);
/* Calls fn for each change of an entry, in the order in which they were made. */
KODA_API int koda_history_changes(const char *root, const char *id, koda_change_fn *fn, void *data,
    struct koda_error *err);

struct koda_undo_options {
	/* As in koda_apply_options. None: everything. */
	const char *const *paths;
	size_t n_paths;
	/* Do again what was taken back. */
	bool redo;
	/* KODA_TAKE_DRAFT: also what was changed since. */
	enum koda_take take;
	bool dry_run;
	/* Only changes that were made since then (seconds since the epoch). The changes of a draft were all
	 * made when the entry began. 0: all. */
	double since;
};
/*
 * Takes the changes of an entry back, the last one first, under the session's policy. What was changed
 * since, by anybody, is a conflict and stays as it is. What is taken back is held, so that it can be
 * done again. Reports and returns like koda_draft_apply().
 */
KODA_API int koda_history_undo(struct koda_session *session, const char *id,
    const struct koda_undo_options *options, koda_applied_fn *fn, void *data,
    struct koda_error *err);

/* ---- copies: a project of its own for each agent ---- */

/*
 * A copy is a directory that an agent works in instead of the project: a git worktree with a branch
 * of its own, or a clone of all files. A slot's root is its session's, which paths, questions and
 * journals name; so a copy is not a kind of slot but a project, and a session is opened on it:
 *
 *	copy = koda_copy_open(session, &options, &err);
 *	policy = koda_copy_policy(copy, koda_session_policy(session), &err);
 *	options = KODA_SESSION_OPTIONS_INIT, .root = koda_copy_root(copy), .policy = policy ...
 *	child = koda_session_open(&options, &err);
 *	...
 *	koda_session_close(child);
 *	koda_copy_release(copy, KODA_RELEASE_CLEAN, &released, &err);
 *	koda_copy_close(copy);
 *
 * Everything that protects a project (its rules, the comparison after commands, questions) protects
 * the copy in the same way, and a slot in it may also work in a draft. Copies are beside koda's own
 * directory, in koda-sandbox-copies/; what they are of is in that directory.
 *
 * git runs only in a kernel sandbox of its own, without network, that can write to the git directory
 * and to the copy, and it does not use the project's configuration to fill or compare files: no hook,
 * no filter, no monitor of the project runs. So files of git-lfs, or of another filter, are in a
 * worktree as git stores them, and submodules are empty directories.
 *
 * A clone is made in a sandbox of the same kind, file by file: the blocks are shared where the file
 * system can (btrfs, xfs), and copied otherwise. Modes, times and links between files are kept; owners,
 * attributes and set-user-ID are not.
 */

/* Called about ten times a second while a clone is made, with what there is until then. Returns other
 * than 0 to cancel it: the clone is removed, and the call fails with KODA_TIMEOUT. */
typedef int koda_copy_progress_fn(void *data, uint64_t files, uint64_t bytes);

struct koda_copy_options {
	/* KODA_WORKSPACE_WORKTREE or KODA_WORKSPACE_CLONE. */
	enum koda_workspace kind;
	/*
	 * Part of the name of its branch, at most 30 bytes; NULL: "agent". Other characters than
	 * [A-Za-z0-9._-] become '-'.
	 */
	const char *agent;
	/* The id of the copy to go on with, of this root; NULL: a new one. */
	const char *id;
	/*
	 * A worktree is made in <root>/.koda/worktrees/ instead, where the agents of the project itself
	 * can change it.
	 */
	bool inside;
	/*
	 * For a clone. Paths of the project that are left out, in or below the root; ends with NULL; or
	 * NULL. Always left out are sockets, FIFOs and devices, what is mounted in the project, and
	 * what the policy or the file's mode does not let the session read. Links are copied as links.
	 */
	const char *const *leave_out;
	/* For a clone: KODA_TOO_LARGE if the project has more names, or if more bytes have to be
	 * copied. Blocks that the file system shares cost nothing. 0: a million, and 16 GiB. */
	uint64_t max_files, max_bytes;
	/* For a clone; or NULL. */
	koda_copy_progress_fn *progress;
	void *data;
};

struct koda_copy;
/*
 * Makes a copy of the session's project as it was committed last (worktree) or as it is (clone), or
 * goes on with one. Waits. Needs a session with commands whose policy allows changes. Returns a copy
 * that the caller must koda_copy_close(), or NULL with *err set: KODA_CONFLICT if it is in use; for a
 * worktree KODA_INVALID if the root is not a project of git with a commit. If the host is killed, the
 * copy is listed by koda_copies_visit().
 */
KODA_API struct koda_copy *koda_copy_open(struct koda_session *session,
    const struct koda_copy_options *options, struct koda_error *err);
/* Opens a copy only to release it, also one that a killed host did not finish. */
KODA_API struct koda_copy *koda_copy_find(struct koda_session *session, const char *id,
    struct koda_error *err);
/* The copy stays as it is; NULL is ignored. Close the session on it first. */
KODA_API void koda_copy_close(struct koda_copy *copy);

KODA_API const char *koda_copy_id(const struct koda_copy *copy);
/* The directory that corresponds to the session's root. */
KODA_API const char *koda_copy_root(const struct koda_copy *copy);
/* "": it is a clone. */
KODA_API const char *koda_copy_branch(const struct koda_copy *copy);
/*
 * Returns a frozen policy for a session on the copy, or NULL with *err set: the given one, which is
 * frozen, with each rule about paths of the project made a rule about the copy. What it allows
 * writing in or around the project it allows in the copy only; what it forbids in the project it
 * forbids in both. The caller must koda_policy_free() it.
 */
KODA_API struct koda_policy *koda_copy_policy(const struct koda_copy *copy,
    const struct koda_policy *policy, struct koda_error *err);

/*
 * With a clone the first two are the same: the changes in it, if there are any, become a draft of the
 * project, which began when the clone did, and then the clone is removed.
 */
enum koda_release {
	/*
	 * Removes the copy and its branch if nothing is in it: no commit, no changed, staged,
	 * untracked or ignored file, no merge or rebase under way. Otherwise it stays.
	 */
	KODA_RELEASE_CLEAN = 0,
	/*
	 * Commits changed and untracked files on the branch, which stays. The copy is removed if all
	 * that was in it is in the commit: ignored files keep it.
	 */
	KODA_RELEASE_COMMIT = 1,
	/* Removes the copy and its branch with all that is in them. */
	KODA_RELEASE_DISCARD = 2,
};

/* What became of a copy. The texts are the copy's, until the next release or koda_copy_close(). */
struct koda_released {
	bool copy_removed, branch_removed;
	/* KODA_RELEASE_COMMIT made a commit. */
	bool committed;
	/* Commits that are on the branch or were made in the copy, and names that git reports. */
	uint64_t commits, changes;
	/* The id of the draft that holds the changes of a clone; "": there is none. */
	const char *draft;
	/* One sentence: why it was kept; "": nothing was. */
	const char *reason;
	/* Command lines to review, merge and discard what was kept, one a line; "": nothing was. */
	const char *hint;
};
/*
 * Decides what becomes of the copy, and waits until that is done. No session may be open on it.
 * Returns 0 with *ret, or -1 with *err set: then the copy is as it was, or a part of it is left that
 * koda_copy_find() and another release remove.
 */
KODA_API int koda_copy_release(struct koda_copy *copy, enum koda_release how,
    struct koda_released *ret, struct koda_error *err);

struct koda_copied {
	const char *id;
	/* The project, and the directory of the copy. */
	const char *root, *path;
	enum koda_workspace kind;
	const char *branch, *agent;
	/* Seconds since the epoch. */
	double begun;
	bool in_use;
	/* A host was killed while it made or removed it: discard it. */
	bool unfinished;
};
/*
 * Calls fn for each copy of this root, or of all roots (NULL), oldest first. Returns the non-zero
 * value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_copied_fn(void *data, const struct koda_copied *one);
/* Sets *ret to the bytes that the copy occupies (blocks that a clone shares count). Walks all of it.
 * Returns 0, or -1 with *err set: there is more than can be counted, for example. */
KODA_API int koda_copied_size(const struct koda_copied *one, uint64_t *ret, struct koda_error *err);
KODA_API int koda_copies_visit(const char *root, koda_copied_fn *fn, void *data,
    struct koda_error *err);

/* ---- quarantine: what commands planted and the library moved away ---- */

struct koda_quarantined {
	/* Its name in its quarantine, for koda_quarantine_restore(). */
	const char *name;
	/* Where it was. */
	const char *path;
	/* Why it was moved. */
	const char *rule;
	/* "file", "directory", "link" or "special". */
	const char *type;
	/* Seconds since the epoch. */
	double time;
	/*
	 * The name of its quarantine; each root has one. koda_quarantine_show() and
	 * koda_quarantine_delete() also accept "OF/NAME" as a name.
	 */
	const char *of;
	/* The command that planted it, or "" if not known. */
	const char *command;
	/* The size of a file; otherwise 0. */
	uint64_t size;
};
/*
 * Calls fn for everything in the quarantine of this root, or of all roots (NULL), oldest first.
 * Returns the non-zero value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_quarantined_fn(void *data, const struct koda_quarantined *one);
KODA_API int koda_quarantine_visit(const char *root, koda_quarantined_fn *fn, void *data,
    struct koda_error *err);
/*
 * Moves a quarantined thing back to where it was; fails with KODA_CONFLICT if something is there
 * now. For a user who has inspected it: a tool of the host may run it again, which is why it was
 * moved. Returns 0, or -1 with *err set.
 */
KODA_API int koda_quarantine_restore(const char *root, const char *name, struct koda_error *err);

/*
 * The quarantined thing, or an entry below it. An attacker controls every field: escape them before
 * showing them.
 */
struct koda_quarantined_part {
	/* Relative. "": the quarantined thing itself. */
	const char *path;
	enum koda_file_type type;
	/* 0: not known. */
	uint32_t mode;
	/* The size of a file. */
	uint64_t size;
	/* The target of a link, or NULL. */
	const char *target;
	/* len is the length of the content. It is less than size if the content was cut. */
	const void *content;
	size_t len;
};
typedef int koda_quarantined_part_fn(void *data, const struct koda_quarantined_part *part);
/*
 * Shows a quarantined thing: calls fn once, then part for each part, with at most max bytes of
 * content in total. name may be "OF/NAME"; root is then ignored and may be NULL. Returns the
 * non-zero value with which a callback stopped, else 0; -1 with *err set.
 */
KODA_API int koda_quarantine_show(const char *root, const char *name, size_t max,
    koda_quarantined_fn *fn, koda_quarantined_part_fn *part, void *data, struct koda_error *err);
/* Deletes a quarantined thing permanently. Returns 0, or -1 with *err set. */
KODA_API int koda_quarantine_delete(const char *root, const char *name, struct koda_error *err);

/* ---- the caches of commands ---- */

/* What commands of one root wrote: a layer over the host's own caches that only they see. */
struct koda_cached {
	/* "" if not known. */
	const char *root;
	/* Where the layer is stored. */
	const char *path;
	uint64_t bytes, names;
	/* There are more than were counted. */
	bool more;
	/* A session uses it. */
	bool in_use;
	/* More than one only after sessions that ran at the same time. */
	size_t layers;
	/* The last use, in seconds since the epoch. */
	double used;
};
/*
 * Calls fn for each root, in no particular order. Counting takes about a second per million names.
 * Returns the non-zero value with which fn stopped, else 0; -1 with *err set.
 */
typedef int koda_cached_fn(void *data, const struct koda_cached *one);
KODA_API int koda_caches_visit(koda_cached_fn *fn, void *data, struct koda_error *err);
/*
 * Removes what commands of a root (NULL: of all roots) wrote to caches. Caches that a session is
 * using stay; *ret_in_use (may be NULL) is set to the number of such roots. The only loss is the
 * time to fill the caches again. Returns 0, or -1 with *err set.
 */
KODA_API int koda_caches_clear(const char *root, size_t *ret_in_use, struct koda_error *err);

/* ---- what this machine can do ---- */

struct koda_capability {
	const char *name;
	bool available;
	bool needed_for_auto;
	const char *detail;
	/* "" if available. */
	const char *remedy;
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
