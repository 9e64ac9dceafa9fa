/*
 * koda-sandbox: file operations and commands of a coding agent, in a sandbox.
 *
 * The order of use:
 *
 *	koda_policy_for_agent()            or koda_policy_new(), rules, koda_policy_freeze()
 *	koda_session_open()                a root, a mode or a policy, somebody who approves
 *	koda_slot_acquire()                one worker process, confined to the policy
 *	koda_fs_write(), koda_fs_edit()... or koda_call(), koda_call_async()
 *	koda_search(), or koda_search_start(), koda_search_wait(), koda_search_free()
 *	koda_run(), or koda_command_start(), koda_command_wait(), koda_command_free()
 *	koda_slot_release(), koda_session_close(), koda_policy_free()
 *
 * Threads: a session and everything acquired from it belong to one thread at a time; there is no
 * lock inside. Different sessions may be used by different threads at once. A frozen policy is
 * immutable and may be shared.
 *
 * Signals and processes: no function raises SIGPIPE, changes a signal's disposition or mask, or
 * waits for children that are not the library's own. After fork() the child may only close (which
 * frees memory and leaves the parent's workers alone); every other call there fails.
 *
 * Strings that name paths are bytes without NUL; nothing requires UTF-8.
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

struct ev_loop; /* libev's, for embedders that own one */
struct koda_policy;
struct koda_session;
struct koda_slot;
struct koda_approval;

KODA_API const char *koda_version(void);

/* ---- errors: by value, nothing to free ---- */

enum koda_code {
	KODA_OK = 0,
	KODA_INVALID = 1,       /* the request makes no sense: an empty path, for example */
	KODA_POLICY_DENIED = 2, /* the policy forbids it; rule says which rule */
	KODA_NOT_APPROVED = 3,  /* nobody said yes, or there was nobody to ask */
	KODA_CONFLICT = 4,      /* the file is not what the caller thinks it is */
	KODA_IO = 5,            /* the kernel said no; errnum says why */
	KODA_TOO_LARGE = 6,
	KODA_UNKNOWN = 7,      /* a worker died and nobody can tell any more whether it happened */
	KODA_TIMEOUT = 8,      /* not done in time, and not done at all */
	KODA_WORKER = 9,       /* the worker failed more often than it may */
	KODA_PROTOCOL = 10,    /* a peer broke the protocol */
	KODA_UNSUPPORTED = 11, /* this machine cannot enforce or do it */
	KODA_INTERNAL = 12,    /* out of memory or descriptors, or misuse of the library */
};

#define KODA_MESSAGE_MAX    640
#define KODA_PATH_SHOWN_MAX 1024

struct koda_error {
	enum koda_code code;
	int errnum;                     /* the kernel's reason, or 0 */
	char rule[64];                  /* the rule that decided, or "" */
	char path[KODA_PATH_SHOWN_MAX]; /* what it is about, or "" (cut if longer) */
	char message[KODA_MESSAGE_MAX]; /* one sentence */
};

/* "policy_denied", "conflict" ...: stable names for programs. */
KODA_API const char *koda_code_name(enum koda_code code);

/* ---- policies ---- */

enum koda_mode {
	KODA_PLAN = 1,
	KODA_SAFE = 2,
	KODA_AUTO = 3,
};

enum koda_trust {
	KODA_TRUST_AUTO = 1,    /* mutations happen */
	KODA_TRUST_REQUIRE = 2, /* each one is approved by somebody */
	KODA_TRUST_FORBID = 3,  /* none happens */
};

enum koda_list {
	KODA_DENY_READ = 0,
	KODA_ALLOW_READ_WITHIN_DENY,
	KODA_ALLOW_WRITE,
	KODA_DENY_WRITE_WITHIN_ALLOW,
	KODA_ALLOWED_DOMAINS,
	KODA_DENIED_DOMAINS,
	/*
	 * Names that are never written, at any depth below what KODA_ALLOW_WRITE names: each the end of a path, of one to
	 * four components (".vscode", ".github/hooks"), with at most one '*' in a component ("*.code-workspace"). Upper
	 * and lower case are the same. What a command makes together with the directory that it is in stays, and is
	 * reported.
	 */
	KODA_DENY_WRITE_NAMES,
	KODA_N_LISTS,
};

enum koda_flag {
	KODA_ALLOW_GIT_CONFIG = 0,
	KODA_ANY_DOMAIN,
	KODA_ALLOW_LOCAL_BINDING,
	KODA_WEAKER_MACOS_ISOLATION,
	/* Commands write the caches of the user's tools (~/.cargo, ~/.npm, ~/.cache and others) themselves, instead of a layer
	 * that belongs to the project. It saves downloading twice, and costs the sandbox: what a command leaves there the
	 * host's tools run later (a package that `npx` keeps, a wheel, an object of ccache). */
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

/* A policy without a rule: reads are open, nothing may be written or reached. NULL: out of memory. */
KODA_API struct koda_policy *koda_policy_new(void);

/* The policy of a mode for a project: the one table of dials. Not frozen yet: rules may be added. */
KODA_API struct koda_policy *koda_policy_for_agent(enum koda_mode mode, const char *root,
    struct koda_error *err);

/*
 * Add to a list, which then is present. A path must be absolute; a domain is a name, or "*." and a
 * name for exactly one more label, or an address (IPv6 in brackets, in its shortest form), with an optional
 * ":port" (without: 80 and 443 where it allows, every port where it denies); in KODA_ALLOWED_DOMAINS with an
 * optional " any-sni": the server name that a program sends in TLS need not be the host's. An address that is not
 * public is reached only where a rule names it, KODA_ANY_DOMAIN or not. A refused rule leaves the policy as it
 * was and says why. All of these fail on a frozen policy. 0, or -1 with *err set.
 */
KODA_API int koda_policy_add(struct koda_policy *policy, enum koda_list list, const char *rule,
    struct koda_error *err);
/* Make a list present and, so far, empty: it permits nothing, where an absent one inherits. */
KODA_API int koda_policy_add_none(struct koda_policy *policy, enum koda_list list,
    struct koda_error *err);
KODA_API int koda_policy_set_flag(struct koda_policy *policy, enum koda_flag flag, bool value,
    struct koda_error *err);
/* A value above what can be held is refused, and err says what can: no limit is lowered later. */
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
 * Check the whole and make it immutable. Paths are made canonical here, once: what a rule means
 * does not change when somebody turns a directory into a link later. Freezing twice is no error.
 */
KODA_API int koda_policy_freeze(struct koda_policy *policy, struct koda_error *err);

/* What both allow, frozen. Both must be frozen. Never wider than either. */
KODA_API struct koda_policy *koda_policy_compose(const struct koda_policy *parent,
    const struct koda_policy *child, struct koda_error *err);

KODA_API bool koda_policy_equal(const struct koda_policy *a, const struct koda_policy *b);

/* One call a value, in the order of the schema; an absent list gets no call, an empty one gets one
 * with value NULL. Stops when fn returns non-zero and returns that. */
typedef int koda_policy_visit_fn(void *data, const char *section, const char *field,
    const char *value);
KODA_API int koda_policy_visit(const struct koda_policy *policy, koda_policy_visit_fn *fn,
    void *data);

/* Readable text, one field a line; free() it. NULL: out of memory. */
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
	KODA_OP_RUN,     /* in questions only: see koda_command_start() */
	KODA_OP_CONNECT, /* in questions only: a command wants to reach a host that no rule names */
};

enum koda_op_flags {
	KODA_DIGEST = 1 << 0,  /* read, stat, write: answer with the digest of the content */
	KODA_DURABLE = 1 << 1, /* mutations: on disk when the call returns */
	KODA_PARENTS =
	    1 << 2, /* mkdir: missing parents too, and an existing directory is no error */
	KODA_RECURSIVE = 1 << 3, /* remove: a directory with all below it */
	KODA_OVERWRITE = 1 << 4, /* rename: replace what is there */
	KODA_DRY_RUN = 1 << 5,   /* mutations: judge and describe, change nothing, ask nobody */
	KODA_NAMES_ONLY =
	    1 << 6, /* list: names and types; each size is a look at a file more, and is 0 then */
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
	bool all; /* else old_text must occur exactly once */
};

/* What to do. Zero-initialise; only kind and path are needed everywhere. The library copies what it
 * needs before the call returns. */
struct koda_op {
	enum koda_op_kind kind;
	unsigned flags;   /* enum koda_op_flags */
	const char *path; /* absolute, or relative to the root; rename: from */
	const char *to;   /* rename */
	const void *data; /* write */
	size_t len;       /* write */
	int fd; /* write: if above 0, a memfd sealed against writing, growing and shrinking,
	                        instead of data; it stays the caller's */
	uint64_t offset; /* read */
	uint64_t max;    /* read: at most so many bytes; 0: all */
	const struct koda_edit *edits;
	size_t n_edits;
	const uint8_t *if_digest; /* mutations: KODA_DIGEST_BYTES, or NULL */
	bool if_absent;           /* write: only create */
	enum koda_access access;  /* explain */
	unsigned timeout_ms;      /* 0: the session's */
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

/* What came of it. Zero where it does not apply. Everything it points to is its own:
 * koda_result_done() when finished, on failure too (it is then empty). */
struct koda_result {
	const char *path;         /* canonical: where the operation really landed */
	const char *to;           /* rename */
	enum koda_file_type type; /* stat; mutations: of what was there before */
	uint64_t size;            /* of the file; mutations: after */
	uint64_t size_before;
	uint32_t mode;
	int64_t mtime_ns;
	uint64_t links;
	const char *target; /* stat: of a symbolic link */
	bool has_digest, has_digest_before;
	uint8_t digest[KODA_DIGEST_BYTES];
	uint8_t digest_before[KODA_DIGEST_BYTES];
	const uint8_t *data; /* read, unless fd is a descriptor */
	size_t len;
	int fd; /* read above 64 KiB: open for reading at any offset with pread(); else -1 */
	uint64_t replacements;
	uint64_t removed;      /* remove: names that went */
	const uint64_t *lines; /* dry run of an edit: line of the first match of each replacement */
	size_t n_lines;
	bool created;
	bool recovered; /* the worker died on the way; it happened all the same, once */
	const struct koda_entry *entries; /* list, sorted by bytes */
	size_t n_entries;
	uint64_t hidden; /* list: entries that the policy hides */
	bool allowed;    /* explain */
	const char *rule;
	const char *reason;
	const char *const *hops; /* the links that were followed */
	size_t n_hops;
	void *priv;
};

KODA_API void koda_result_done(struct koda_result *result);

/* ---- sessions and slots ---- */

/* A mutation that the policy wants approved, as the worker found it. Valid until it is answered. */
struct koda_question {
	enum koda_op_kind kind;
	enum koda_mode mode;
	const char *path;         /* canonical */
	const char *to;           /* rename */
	enum koda_file_type type; /* of what is there now */
	uint64_t size_before, size_after;
	const void *data; /* write, when it was given as bytes */
	size_t len;
	const struct koda_edit *edits;
	const uint64_t *lines;
	size_t n_edits;
	uint64_t replacements;
	uint64_t entries;        /* remove: names that would go */
	const char *const *argv; /* run */
	const char *cwd;         /* run */
	const char *const *env;  /* run: what was added to the environment; or NULL */
	const char *host;        /* connect: canonical */
	unsigned port;           /* connect */
	struct koda_approval *approval;
};

/*
 * Asked before each mutation when the policy's trust is KODA_TRUST_REQUIRE. Answer with
 * koda_approval_answer(), once: before returning, or, for koda_call_async() only, at any later
 * time. A synchronous call whose question is still open when the callback returns is not approved.
 * The answer binds what was shown: the worker acts only if path and content are still the same (of a
 * directory: the path and that it is one; of a link: the path).
 *
 * The callback may make calls, on the same slot too. When a call ends while its question is open (its slot
 * is released, the session closed), the question still wants its one answer, which then changes nothing.
 */
typedef void koda_approve_fn(void *data, const struct koda_question *question);
KODA_API void koda_approval_answer(struct koda_approval *approval, bool yes);

/*
 * KODA_OP_CONNECT may be answered at any time, also when koda_run() waits: the connection waits as long as its
 * client does. yes is KODA_SCOPE_ONCE: the connections that wait now. KODA_SCOPE_SESSION, which other questions take as
 * KODA_SCOPE_ONCE, allows that host and port to every slot of the session whose policy does not deny it.
 * For a slot whose policy has KODA_TRUST_FORBID nobody is asked, and no such answer counts: it has what its rules name.
 */
enum koda_scope {
	KODA_SCOPE_NO = 0,
	KODA_SCOPE_ONCE,
	KODA_SCOPE_SESSION,
};
KODA_API void koda_approval_answer_scope(struct koda_approval *approval, enum koda_scope scope);

enum koda_event_kind {
	KODA_EVENT_SPAWN = 1, /* a worker was started */
	KODA_EVENT_DEATH = 2, /* a worker, a sandbox or a proxy died that was not asked to */
	/* Less is enforced than this version can: said once a session. Or commands have lost their network: once a policy.
	 * Or the kernel has no more watches for a slot, whose commands end later: once a slot. */
	KODA_EVENT_DEGRADED = 3,
	/* What the last comparison of a slot found that was released without koda_slot_end(): a command planted it in its
	 * last moment, and it is in quarantine, or still there. */
	KODA_EVENT_LEFT = 4
};
/* To look only: every call from inside it fails. A release or close from inside any callback is done when the
 * function that called back returns. */
typedef void koda_event_fn(void *data, enum koda_event_kind kind, const char *text);

struct koda_session_options {
	uint32_t version; /* KODA_SESSION_OPTIONS_INIT sets it */
	const char *root; /* an existing directory */
	enum koda_mode mode;
	const struct koda_policy *policy; /* NULL: koda_policy_for_agent(mode, root) */
	koda_approve_fn *approve;         /* NULL: nobody to ask, which means no */
	koda_event_fn *event;
	void *data;             /* for both */
	struct ev_loop *loop;   /* NULL: the library has its own, see koda_session_dispatch() */
	const char *helper_dir; /* NULL: found from where the library or program is installed */
	unsigned timeout_ms;    /* 0: 30 s */
	unsigned max_slots;     /* 0: 128 */
	unsigned max_idle;      /* workers kept warm; 0: 8 */
	/* Slots run commands too: each has a kernel sandbox, which its worker is started in. In Auto opening, or
	 * acquiring a slot, fails with KODA_UNSUPPORTED where that does not work on this machine; in Plan and
	 * Safe it is said (KODA_EVENT_DEGRADED) and slots do file operations only. */
	bool commands;
	/* With commands: end TLS of what commands send, so that each request inside is held to the rules, too. Commands get
	 * the certificate of a CA whose key never leaves the proxy's memory. A program that pins certificates fails. */
	bool intercept;
	/* The root lies below another session's, and policy was composed from that one's: commands are given no git
	 * directory outside of the root, which otherwise a linked worktree or a submodule is (its own may be where the
	 * other session writes nothing). */
	bool narrowed;
};
#define KODA_SESSION_OPTIONS_VERSION 4
#define KODA_SESSION_OPTIONS_INIT                                                                  \
	{                                                                                          \
		.version = KODA_SESSION_OPTIONS_VERSION                                            \
	}

KODA_API struct koda_session *koda_session_open(const struct koda_session_options *options,
    struct koda_error *err);

/* Ends every worker. Calls still under way are answered with KODA_WORKER first. */
KODA_API void koda_session_close(struct koda_session *session);

/*
 * Run the library's own loop: waits at most timeout_ms (-1: no limit) for something to happen and
 * handles it; callbacks of koda_call_async() are called from here (or from the caller's loop, never
 * from inside koda_call_async()). Returns the number of calls still under way, -1 on an error.
 */
KODA_API int koda_session_dispatch(struct koda_session *session, int timeout_ms,
    struct koda_error *err);

/* A descriptor that polls readable when koda_session_dispatch(session, 0) has something to do, for
 * embedding in any loop. Only with the library's own loop. */
KODA_API int koda_session_fd(const struct koda_session *session);

/* The session's policy, frozen; the session's. */
KODA_API const struct koda_policy *koda_session_policy(const struct koda_session *session);

struct koda_stats {
	uint64_t slots;   /* acquired now */
	uint64_t workers; /* processes now, idle ones included */
	uint64_t spawns;
	uint64_t respawns; /* after a death */
	uint64_t calls;
	uint64_t refusals;  /* by the policy or by whoever approves */
	uint64_t recovered; /* mutations whose outcome had to be found out */
};
KODA_API void koda_session_stats(const struct koda_session *session, struct koda_stats *ret);

/*
 * A slot: a worker of its own. child narrows the session's policy (compose); NULL: as it is. A warm
 * worker with the same policy, root and mode is checked with a round trip before it is handed out.
 */
KODA_API struct koda_slot *koda_slot_acquire(struct koda_session *session,
    const struct koda_policy *child, struct koda_error *err);
/* With commands this is the end of the slot, as koda_slot_end() does it, and so may wait. */
KODA_API void koda_slot_release(struct koda_slot *slot);
/*
 * End all commands of the slot, those in the background too, and compare a last time what they left. Waits, nine
 * seconds at most. What was found is among the slot's violations. After it no command can be started in the slot;
 * release it. -1: the comparison was not finished; then the next session of any root there does it first.
 */
KODA_API int koda_slot_end(struct koda_slot *slot, struct koda_error *err);

/* What the worker reported when it confined itself. */
struct koda_enforcement {
	unsigned landlock_abi;
	bool seccomp;
	bool mount_view; /* it lives in the slot's kernel sandbox */
};
KODA_API void koda_slot_enforcement(const struct koda_slot *slot, struct koda_enforcement *ret);
KODA_API const struct koda_policy *koda_slot_policy(const struct koda_slot *slot);
/* The process that serves the slot now; -1 if none does. For display and tests. */
KODA_API int koda_slot_pid(const struct koda_slot *slot);

/* Do it and wait for it. 0 with *ret filled, or -1 with *err set and *ret empty. */
KODA_API int koda_call(struct koda_slot *slot, const struct koda_op *op, struct koda_result *ret,
    struct koda_error *err);

/* err is NULL on success. result is the callee's to read until it returns, not to keep. */
typedef void koda_done_fn(void *data, const struct koda_result *result,
    const struct koda_error *err);
KODA_API int koda_call_async(struct koda_slot *slot, const struct koda_op *op, koda_done_fn *done,
    void *data, struct koda_error *err);

/* ---- searching ---- */

/*
 * Glob, grep and tree have the semantics that people know from ripgrep. A search is a process of its own, sealed for this
 * one search, that can change nothing: it judges the places, walks them on descriptors, follows no link, and skips what
 * the policy does not let be read. Order: by the bytes of the path.
 */
enum koda_search_kind {
	KODA_SEARCH_GLOB = 1, /* files, by name */
	KODA_SEARCH_GREP,     /* lines, by content */
	KODA_SEARCH_TREE,     /* a listing with sizes and counts */
};

enum koda_search_flags {
	/* What is looked at. Default: no hidden names, no ignored ones, one file system. */
	KODA_SEARCH_HIDDEN = 1 << 0,        /* names that begin with a dot, too */
	KODA_SEARCH_NO_GITIGNORE = 1 << 1,  /* .gitignore does not count */
	KODA_SEARCH_NO_DOT_IGNORE = 1 << 2, /* .ignore and .rgignore do not count */
	KODA_SEARCH_NO_EXCLUDE = 1 << 3,    /* .git/info/exclude does not count */
	KODA_SEARCH_NO_GLOBAL =
	    1 << 4, /* the user's own excludes file (core.excludesFile) does not count */
	KODA_SEARCH_NO_PARENTS = 1 << 5, /* ignore files above the place do not count */
	KODA_SEARCH_NO_REQUIRE_GIT = 1
	    << 6, /* .gitignore and its like count outside of repositories, too */
	KODA_SEARCH_MOUNTS = 1 << 7, /* what is mounted below, too */
	KODA_SEARCH_GLOB_IGNORE_CASE = 1 << 8,
	KODA_SEARCH_NEWEST = 1 << 9, /* glob: newest first, instead of by path */
	/* globs only leave out; without it what a glob names is looked at though it be hidden or ignored, as ripgrep has it */
	KODA_SEARCH_GLOBS_NARROW = 1 << 10,
	/* grep */
	KODA_SEARCH_FIXED = 1 << 16, /* patterns are text */
	KODA_SEARCH_IGNORE_CASE = 1 << 17,
	KODA_SEARCH_SMART_CASE = 1 << 18, /* the same, unless a pattern has an upper-case letter */
	KODA_SEARCH_WORD = 1 << 19,
	KODA_SEARCH_WHOLE_LINE = 1 << 20,
	KODA_SEARCH_INVERT = 1 << 21,
	KODA_SEARCH_MULTILINE = 1 << 22, /* a match may go over lines */
	KODA_SEARCH_DOTALL = 1 << 23,    /* with it: '.' matches the end of a line, too */
	KODA_SEARCH_TEXT = 1 << 24,      /* binary files are searched like any other */
	/* At most one of these: instead of lines, */
	KODA_SEARCH_COUNT = 1 << 25,         /* how many lines of each file match */
	KODA_SEARCH_COUNT_MATCHES = 1 << 26, /* how many matches each file has */
	KODA_SEARCH_FILES = 1 << 27,         /* the files with a match */
	KODA_SEARCH_FILES_WITHOUT = 1 << 28, /* the files without one */
};

#define KODA_SEARCH_NO_IGNORE                                                                      \
	(KODA_SEARCH_NO_GITIGNORE | KODA_SEARCH_NO_DOT_IGNORE | KODA_SEARCH_NO_EXCLUDE |           \
	    KODA_SEARCH_NO_GLOBAL)

/* What to look for, and where. Zero-initialise; only kind, and for grep patterns, are needed. All of it is copied before
 * the call returns. */
struct koda_search_options {
	enum koda_search_kind kind;
	unsigned flags; /* enum koda_search_flags */
	const char *const
	    *paths; /* files or directories, relative to the root or absolute; none: the root */
	size_t n_paths;
	/* Which files, by path below the place: as in a .gitignore, but a match is looked at. One with '!' before it is not
	 * looked at. The last that matches decides. Never leads out of the place. */
	const char *const *globs;
	size_t n_globs;
	const char *const
	    *types; /* only files of these types ("c", "py"), see koda_search_types() */
	size_t n_types;
	const char *const *types_not;
	size_t n_types_not;
	const char *const
	    *patterns; /* grep: a line with any of them matches (Perl's regular expressions) */
	size_t n_patterns;
	unsigned before, after; /* grep: lines of context */
	uint64_t max_per_file;  /* grep: matching lines; 0: all */
	uint64_t limit;         /* found things in total (context apart); 0: KODA_SEARCH_LIMIT */
	unsigned
	    max_columns; /* grep: bytes of a line, cut around its first match; 0: KODA_SEARCH_COLUMNS */
	unsigned max_depth;  /* directories below a place; 0: all */
	unsigned timeout_ms; /* 0: the session's */
};
#define KODA_SEARCH_LIMIT   1000000 /* what a caller that did not say has room for */
#define KODA_SEARCH_COLUMNS 16384   /* longer lines are no text that a person wrote */

enum koda_found_kind {
	KODA_FOUND_FILE = 1, /* glob, KODA_SEARCH_FILES, KODA_SEARCH_FILES_WITHOUT */
	KODA_FOUND_MATCH,    /* a line, or one of the lines of a match that goes over several */
	KODA_FOUND_CONTEXT,  /* a line beside one */
	KODA_FOUND_COUNT, /* KODA_SEARCH_COUNT, KODA_SEARCH_COUNT_MATCHES: of a file that has any */
	KODA_FOUND_BINARY, /* a binary file matches; its lines are not told. Binary files that were not named match never */
	KODA_FOUND_ENTRY,   /* tree: a directory comes before what is in it */
	KODA_FOUND_TROUBLE, /* this could not be looked at */
};

struct koda_span {
	size_t start, end;
};

struct koda_found {
	enum koda_found_kind kind;
	unsigned place;   /* which of the paths it is below */
	const char *path; /* below that place; "": the place itself */
	uint64_t line;    /* match, context: from 1 */
	uint64_t offset;  /* of the line in the file; binary: of the first NUL */
	const char *text; /* match, context: the line, without its end */
	size_t len;
	uint64_t cut_before, cut_after; /* bytes of the line that max_columns left out of text */
	const struct koda_span *spans;  /* match: where, in text; none for an inverted one */
	size_t n_spans;
	uint64_t count;           /* count */
	enum koda_file_type type; /* file, entry */
	uint64_t size;            /* entry: of a file; of a directory: of all files below it */
	uint64_t files;           /* entry: of a directory: how many are below it, at any depth */
	int64_t mtime_ns;         /* file, with KODA_SEARCH_NEWEST */
	unsigned depth;           /* entry: 0 is the place itself */
	const char *reason;       /* trouble: one sentence */
};

/* What came of it. Zero-filled on failure. Nothing to free. */
struct koda_search_result {
	bool more;              /* a limit was reached: there is more to find */
	uint64_t found;         /* things told, context and trouble apart */
	uint64_t matches;       /* grep: lines that match */
	uint64_t files;         /* looked at: grep, searched; glob and tree, seen */
	uint64_t files_matched; /* grep */
	uint64_t bytes;         /* grep: searched */
	uint64_t
	    hidden; /* names that the policy does not let be read, and all below each of them */
	uint64_t binary;   /* grep: files passed over, because they are */
	uint64_t troubles; /* what could not be looked at; the first hundred are told */
	bool recovered;    /* the searching process died on the way; another one went on */
};

/* found is the callee's to read until it returns. Returning non-zero ends the search, which then has `more`. */
typedef int koda_found_fn(void *data, const struct koda_found *found);

/* Do it and wait for it. 0 with *ret filled, or -1 with *err set; what was told until then was true. A pattern or glob
 * that makes no sense is KODA_INVALID, one that would take for ever KODA_TOO_LARGE. */
KODA_API int koda_search(struct koda_slot *slot, const struct koda_search_options *options,
    koda_found_fn *found, void *data, struct koda_search_result *ret, struct koda_error *err);

/* The same without waiting: found and then, once, done (or NULL) are called from the loop. The handle stays the caller's:
 * to cancel is to free it, at any time, also from inside a callback. Other calls of the slot are served meanwhile. */
struct koda_search;
typedef void koda_search_done_fn(void *data, struct koda_search *search);
KODA_API struct koda_search *koda_search_start(struct koda_slot *slot,
    const struct koda_search_options *options, koda_found_fn *found, koda_search_done_fn *done,
    void *data, struct koda_error *err);
/* Runs the loop for at most timeout_ms (-1: no limit). 1: it is over; 0: not yet; -1 with *err set. */
KODA_API int koda_search_wait(struct koda_search *search, int timeout_ms, struct koda_error *err);
/* After it is over: as koda_search(). */
KODA_API int koda_search_result(const struct koda_search *search, struct koda_search_result *ret,
    struct koda_error *err);
KODA_API void koda_search_free(struct koda_search *search);

/* The known types, one call a type, by name; globs ends with NULL. Stops when fn returns non-zero and returns that. */
typedef int koda_search_type_fn(void *data, const char *name, const char *const *globs);
KODA_API int koda_search_types(koda_search_type_fn *fn, void *data);

/* ---- commands ---- */

/*
 * What to run. Zero-initialise; argv or shell is needed. All of it is copied before the call returns. The
 * descriptors are duplicated: they stay the caller's.
 */
struct koda_command_options {
	const char *const *argv; /* ends with NULL; argv[0] is looked up in the sandbox's PATH */
	const char *shell;       /* instead of argv: given to sh -c */
	const char *cwd;         /* within the view; NULL: the root */
	/* Added to the environment, "NAME=value", ends with NULL; or NULL. It is otherwise made from nothing
	 * (koda_environment). */
	const char *const *env;
	/* 0: nothing to read. Else what the command reads from and prints to, as it is. */
	int stdin_fd;
	/* 0: captured, at most max_output bytes each (head and tail are kept). */
	int stdout_fd, stderr_fd;
	bool tty; /* stdin_fd is a terminal: make it the command's own */
	/* Ends when the last process that it started does, not with its first. The policy's wall time does not end it;
	 * timeout_ms does, and the end of its slot. */
	bool background;
	bool approved; /* somebody has said yes to exactly this already: do not ask again */
	/* With tty only: a person sits before it and ends it. The policy's wall time does not, timeout_ms does. */
	bool interactive;
	unsigned
	    timeout_ms; /* 0: the policy's; never above it, nor above 300 s, unless background or interactive */
	uint64_t max_output; /* 0: the policy's; never above it */
};

enum koda_limit_hit {
	KODA_HIT_NONE = 0,
	KODA_HIT_WALL_TIME,
	KODA_HIT_CPU_TIME,
	KODA_HIT_FILE_SIZE,
	KODA_HIT_MEMORY,
	KODA_HIT_PROCESSES,
	KODA_HIT_OUTPUT, /* some was left out; the command went on */
	/* It planted something again where it had been taken away, or too much: whatever of it ran was ended. */
	KODA_HIT_PLANTED,
};
/* "wall_time_secs" ...: the policy's name of it, or "planted"; "" for none. */
KODA_API const char *koda_limit_hit_name(enum koda_limit_hit hit);

struct koda_output {
	const char *head; /* the first half of what fits, all of it when nothing was left out */
	size_t head_len;
	const char *tail; /* what came last */
	size_t tail_len;
	uint64_t left_out; /* bytes between the two */
	uint64_t total;
};

enum koda_violation_kind {
	KODA_VIOLATION_FILE_READ = 0,
	KODA_VIOLATION_FILE_WRITE,
	KODA_VIOLATION_NETWORK_OUTBOUND,
	KODA_VIOLATION_PROCESS_EXEC,
	KODA_VIOLATION_OTHER,
	KODA_VIOLATION_NOTE, /* nothing was refused: something to look at before tools of the host meet it */
	KODA_N_VIOLATION_KINDS,
};
/* "file_read" ... */
KODA_API const char *koda_violation_kind_name(enum koda_violation_kind kind);

struct koda_violation {
	enum koda_violation_kind kind;
	const char *target; /* "" when not known */
	const char *
	    command; /* the first word, or the shell text; "" for a file operation, or when nobody knows which of several */
	const char *rule;   /* "" when not known */
	const char *detail; /* one sentence, or "" */
	double time;        /* seconds since the epoch */
	bool certain;       /* seen by the sandbox itself, not guessed from what was printed */
};

/* What came of it; koda_command_result_done() when finished. */
struct koda_command_result {
	int status;              /* exit code; 128 + signal when a signal ended it */
	int signal;              /* 0: it exited */
	enum koda_limit_hit hit; /* the limit that ended it, or that it ran into */
	struct koda_output out, err;
	uint64_t wall_us, user_us, system_us, max_rss_kib;
	uint64_t left_behind; /* processes that it had started and that were ended with it */
	const struct koda_violation *violations;
	size_t n_violations;
	void *priv;
};
KODA_API void koda_command_result_done(struct koda_command_result *result);

struct koda_command;

/*
 * Start it. In Safe (trust require) the approve callback is asked first, with kind KODA_OP_RUN, unless
 * `approved`. NULL with *err set: nothing was run. done (or NULL) is called from the loop, once, when the
 * result is there; koda_command_free() stays the caller's to call.
 */
typedef void koda_command_done_fn(void *data, struct koda_command *command);
KODA_API struct koda_command *koda_command_start(struct koda_slot *slot,
    const struct koda_command_options *options, koda_command_done_fn *done, void *data,
    struct koda_error *err);

/* Runs the loop for at most timeout_ms (-1: no limit). 1: it is over; 0: not yet; -1 with *err set. */
KODA_API int koda_command_wait(struct koda_command *command, int timeout_ms,
    struct koda_error *err);

/* The signal to its first process's group (to its foreground group, with a tty). */
KODA_API int koda_command_signal(struct koda_command *command, int signo, struct koda_error *err);
/* SIGTERM to all of it, after a grace SIGKILL. It is over when koda_command_wait says so. */
KODA_API void koda_command_end(struct koda_command *command);

/* What was captured so far, of one that is under way. Valid until the next call on the slot. */
KODA_API void koda_command_output(const struct koda_command *command, struct koda_output *ret_out,
    struct koda_output *ret_err);

/* After it is over: 0 with *ret filled, or -1 with *err set (the sandbox died under it; nobody knows how far
 * it came). Once; what *ret points to is its own. */
KODA_API int koda_command_result(struct koda_command *command, struct koda_command_result *ret,
    struct koda_error *err);
/* Ends it first if need be. */
KODA_API void koda_command_free(struct koda_command *command);

/* Start, wait, result. */
KODA_API int koda_run(struct koda_slot *slot, const struct koda_command_options *options,
    struct koda_command_result *ret, struct koda_error *err);

/* The slot's last hundred violations, oldest first; fn returning non-zero stops, and that is returned. */
typedef int koda_violation_fn(void *data, const struct koda_violation *violation);
KODA_API int koda_slot_violations(const struct koda_slot *slot, koda_violation_fn *fn, void *data);
/* Those that are new, for who keeps a log: *seen is 0 at first and then left alone. What newer ones have pushed out
 * before it could be told is counted in *ret_missed. */
KODA_API int koda_slot_new_violations(const struct koda_slot *slot, uint64_t *seen,
    uint64_t *ret_missed, koda_violation_fn *fn, void *data);
/*
 * For who gave a command descriptors of his own: have the text that it printed searched for refusals, as captured
 * output is. What is found is recorded, as uncertain, and fn is called for each (it may be NULL). command and cwd:
 * what it was. Returns what fn returned to stop, else 0; without a kernel sandbox nothing is found.
 */
KODA_API int koda_slot_scan_output(struct koda_slot *slot, const char *command, const char *cwd,
    const char *text, size_t len, koda_violation_fn *fn, void *data);
/* May a command of this slot read, or change, what is at the canonical path, by the sandbox's view alone? *ret_rule:
 * the rule that decides, or "". The worker's own answer is KODA_OP_EXPLAIN. */
KODA_API int koda_slot_explain_command(struct koda_slot *slot, enum koda_access access,
    const char *path, bool *ret_allowed, const char **ret_rule, struct koda_error *err);
/*
 * For the policy of a child agent whose root is a subdirectory of this session's. This slot also protects files that its
 * policy does not name, because a link in a protected place leads to them or git's configuration names them. The child's
 * session cannot see such links outside of its root. This function adds the files to KODA_DENY_WRITE_WITHIN_ALLOW of a
 * policy that is not frozen yet. It may take as long as the first command of a slot. Returns 0, or -1 with *err set.
 */
KODA_API int koda_slot_add_guards(struct koda_slot *slot, struct koda_policy *policy,
    struct koda_error *err);
/* The block that is shown to a model behind the command's standard error; free() it. NULL: none. */
KODA_API char *koda_violations_render(const struct koda_violation *violations, size_t n);

/* ---- the network ---- */

enum koda_connection_outcome {
	KODA_CONNECTION_ALLOWED = 1,
	KODA_CONNECTION_DENIED, /* by a rule, by the address that the name led to, by the TLS name, by who was asked */
	KODA_CONNECTION_FAILED,  /* allowed, and not established or not finished */
	KODA_CONNECTION_INVALID, /* what the client sent made no sense; host may be "" */
};
/* "allowed" ... */
KODA_API const char *koda_connection_outcome_name(enum koda_connection_outcome outcome);

struct koda_connection {
	const char *protocol; /* "connect", "socks", "http", "https" (ended by us) */
	const char *host;     /* canonical */
	unsigned port;
	enum koda_connection_outcome outcome;
	bool open;          /* it goes on; the numbers are those of now */
	const char *rule;   /* the rule that decided */
	const char *detail; /* one sentence, or "" */
	uint64_t up, down;  /* bytes from and to the command */
	uint64_t duration_us;
};
/* What commands of the slot reached, or tried to, oldest first (the last thousand); fn returning non-zero stops, and that
 * is returned. */
typedef int koda_connection_fn(void *data, const struct koda_connection *connection);
KODA_API int koda_slot_connections(struct koda_slot *slot, koda_connection_fn *fn, void *data);
/* Those that are new, each once, as it is then: as koda_slot_new_violations(). Does not wait for the proxy. */
KODA_API int koda_slot_new_connections(struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_connection_fn *fn, void *data);

/* May commands of that policy reach host (a name or an address, with an optional ":port"; without: 443)? Resolves nothing.
 * *ret_asks: the mode asks the user. ret_reason: one sentence; ret_host: the canonical host. */
struct koda_host_verdict {
	bool allowed, asks;
	const char *rule; /* static */
	char host[256];
	unsigned port;
	char reason[KODA_MESSAGE_MAX];
};
KODA_API int koda_explain_host(const struct koda_policy *policy, enum koda_mode mode,
    const char *host, struct koda_host_verdict *ret, struct koda_error *err);

/* What a command's environment is made of: fn is called for each name that is passed on, and for each that is
 * held back because its value carries credentials (passed false). argv0 chooses the tool's own list. */
typedef int koda_environment_fn(void *data, const char *name, const char *value, bool passed);
KODA_API int koda_environment(const char *argv0, koda_environment_fn *fn, void *data);

/* The arguments that the sandbox of such a session is built with, one a call, with a comment ("" for none).
 * Starts nothing. */
typedef int koda_argument_fn(void *data, const char *argument, const char *comment);
KODA_API int koda_sandbox_arguments(const char *root, enum koda_mode mode,
    const struct koda_policy *policy, koda_argument_fn *fn, void *data, struct koda_error *err);

/* ---- what commands planted, and was taken away ---- */

struct koda_quarantined {
	const char *name; /* in the quarantine: for koda_quarantine_restore() */
	const char *path; /* where it was */
	const char *rule; /* why it was taken away */
	const char *type; /* "file", "directory", "link" or "special" */
	double time;      /* seconds since the epoch */
	const char *of;   /* its quarantine: there is one for each root. "OF/NAME" is a name, too */
	const char *command; /* that planted it, as far as one can tell; else "" */
	uint64_t size;       /* of a file, else 0 */
};
/* Of this root, or of all (NULL), oldest first. Returns what fn returned to stop, else 0; -1 with *err set. */
typedef int koda_quarantined_fn(void *data, const struct koda_quarantined *one);
KODA_API int koda_quarantine_visit(const char *root, koda_quarantined_fn *fn, void *data,
    struct koda_error *err);
/* Put it back where it was, if nothing is there now (KODA_CONFLICT). For the user, who has looked at it: what it
 * makes a tool of the host do is why it was taken away. */
KODA_API int koda_quarantine_restore(const char *root, const char *name, struct koda_error *err);

/* A part of what is kept: the thing itself, or what was in it. All of it is an attacker's: escape what you show. */
struct koda_quarantined_part {
	const char *path; /* below the thing, "": it itself */
	enum koda_file_type type;
	uint32_t mode;      /* 0: not known */
	uint64_t size;      /* of a file */
	const char *target; /* of a link, or NULL */
	const void *content;
	size_t len; /* of the content: less than size when it was cut */
};
typedef int koda_quarantined_part_fn(void *data, const struct koda_quarantined_part *part);
/* fn once, then part for each: at most max bytes of content in all. name may be "OF/NAME", whatever the root (NULL) is. Returns what
 * a callback returned to stop, else 0; -1 with *err set. */
KODA_API int koda_quarantine_show(const char *root, const char *name, size_t max,
    koda_quarantined_fn *fn, koda_quarantined_part_fn *part, void *data, struct koda_error *err);
/* For good. */
KODA_API int koda_quarantine_delete(const char *root, const char *name, struct koda_error *err);

/* ---- what commands wrote to caches ---- */

/* Of one root: a layer above the host's own caches, which the commands of that root alone see. */
struct koda_cached {
	const char *root; /* "" when it is not known */
	const char *path; /* where it is kept */
	uint64_t bytes, names;
	bool more;     /* than were counted */
	bool in_use;   /* by a session */
	size_t layers; /* more than one only after sessions that ran at once */
	double used;   /* the last time, in seconds since the epoch */
};
/* Of all roots, in no order. Counting takes about a second for a million names. Returns what fn returned to stop, else 0; -1 with
 * *err set. */
typedef int koda_cached_fn(void *data, const struct koda_cached *one);
KODA_API int koda_caches_visit(koda_cached_fn *fn, void *data, struct koda_error *err);
/* Remove what the commands of a root wrote; NULL: of all roots. What a session uses stays: then *ret_in_use (may be NULL) counts
 * their roots. Nothing but time is lost. */
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
/* Tries each one for real, in a child process. Stops when fn returns non-zero and returns that. */
KODA_API int koda_doctor(const char *helper_dir, koda_capability_fn *fn, void *data);

/* ---- the usual operations in a line ---- */

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
