/*
 * (policy, place, operation) -> verdict. Pure: the place was resolved by somebody who holds its
 * descriptors, what is on the disk around it is asked through struct access_disk. The same code
 * answers the worker's requests, `explain`, and (later) which mounts a command's view needs.
 *
 * The order of the rules, the first that speaks decides:
 *   1. fully denied places (koda's own database), proc and other windows into processes: nothing
 *   2. for reading: the longest of deny_read and its holes, deny on a tie; otherwise allowed
 *   3. for anything that changes: forbidden by trust and by Plan mode; what may not be read may not
 *      be changed either (a replace would need its metadata, a digest would tell of it); dangerous
 *      system places; .koda/agents and .koda/skills at any depth; git configuration and hooks at any
 *      depth unless allow_git_config; deny_write_within_allow; deny_write_names at any depth; and then
 *      allow_write has to name it.
 *
 * Names that protect something (.git, .koda, hooks, config, those of deny_write_names ...) are compared
 * folded as a case-insensitive file system would fold them: on another one that refuses a few harmless
 * names, on such a one it is needed. The policy's own paths are compared byte by byte.
 */
#ifndef KODA_SHARED_RULES_ACCESS_H
#define KODA_SHARED_RULES_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy.h"

enum access_op {
	ACCESS_OP_READ,  /* read, stat, list */
	ACCESS_OP_WRITE, /* create or replace a file of that name, with what the agent says in it */
	ACCESS_OP_MKDIR,
	ACCESS_OP_REMOVE,      /* the name goes away; directories: see access_judge_tree */
	ACCESS_OP_RENAME_FROM, /* the same */
	ACCESS_OP_RENAME_TO,   /* something unknown appears under that name */
	ACCESS_OP_HOP,         /* a link at that place was followed on the way to a read */
	ACCESS_OP_HOP_CHANGE, /* the same, on the way to a change: allow_write need not name the link */
};

/* Rules by their stable names, as `rule` in errors: "deny_read", "allow_write", "git_config" ... */
enum access_rule {
	ACCESS_RULE_DEFAULT_READ,   /* "default": reads are open */
	ACCESS_RULE_READ_HOLE,      /* "allow_read_within_deny" */
	ACCESS_RULE_ALLOW_WRITE,    /* "allow_write" (also when nothing there names the place) */
	ACCESS_RULE_FULLY_DENIED,   /* "fully_denied" */
	ACCESS_RULE_PROCESS_WINDOW, /* "process_window" */
	ACCESS_RULE_DENY_READ,      /* "deny_read" */
	ACCESS_RULE_TRUST,          /* "trust" */
	ACCESS_RULE_SYSTEM_PLACE,   /* "system_place" */
	ACCESS_RULE_KODA_PLACE,     /* "koda_place" */
	ACCESS_RULE_GIT_CONFIG,     /* "git_config" */
	ACCESS_RULE_DENY_WRITE,     /* "deny_write_within_allow" */
	ACCESS_RULE_DENY_NAME,      /* "deny_write_names" */
	ACCESS_RULE_LINK, /* "protected_link": a protected place leads there; the worker asks the disk */
	ACCESS_RULE_TREE, /* "protected_below": a directory with something protected in it */
};
const char *access_rule_name(enum access_rule rule);

struct access_subject {
	const struct policy *policy;
	enum koda_mode mode;
	const char *home;  /* canonical, or "" */
	const char *state; /* koda's own state directory, canonical, there or not; NULL: none */
};

/* What the judge may ask about the disk. All answer for the place as it is now. */
struct access_disk {
	void *data;
	/* Does the directory path[0..dir_len) hold an entry of that name (any type)? dir_len 0: "/". */
	bool (*has)(void *data, const char *path, size_t dir_len, const char *name);
};

struct access_verdict {
	bool allowed;
	enum access_rule rule;
	const char *by; /* the rule's own text (points into the policy or static), or NULL */
};

/* path is canonical and absolute. disk may be NULL: then directory shapes are taken as absent. */
struct access_verdict access_judge(const struct access_subject *who, enum access_op op,
    const char *path, const struct access_disk *disk);

/* May everything directly in that readable directory be read, whatever it is called? false: ask for each. For who looks
 * at all of its names. */
bool access_reads_all_in(const struct access_subject *who, const char *dir);

/*
 * May the directory `path` be moved or removed with all below it, as far as the policy's text tells?
 * Refused when a rule that denies, or a protected place by name, lies beneath. The worker walks the
 * disk for the rest and asks access_protected_entry for each entry it meets.
 */
struct access_verdict access_judge_tree(const struct access_subject *who, enum access_op op,
    const char *path);

/* Is an entry of that name, below a directory that is moved or removed, a reason to refuse? (.git of any
 * type, agents or skills within a .koda) parent_name is the name of the directory it is in. */
bool access_protected_entry(const struct access_subject *who, const char *parent_name,
    const char *name);

/*
 * The rule of deny_write_names because of which a directory above `path` may not be moved or removed, or NULL. What came
 * with packages (shared/rules/names: vendored) keeps no directory in its place: package managers replace these directories.
 */
const char *access_name_rule(const struct access_subject *who, const char *path);

/* What a name says by itself, folded: for who walks a tree and cannot judge each path of it. */
enum access_name {
	ACCESS_NAME_OTHER,
	ACCESS_NAME_GIT, /* .git */
	/* What makes a directory a git directory. */
	ACCESS_NAME_HEAD,
	ACCESS_NAME_OBJECTS,
	ACCESS_NAME_REFS,
	ACCESS_NAME_COMMONDIR,
	ACCESS_NAME_WORKTREES,
	/* What a git directory can have that makes git run something. */
	ACCESS_NAME_CONFIG, /* config.worktree too */
	ACCESS_NAME_CONFIG_LOCK,
	ACCESS_NAME_HOOKS,
	ACCESS_NAME_REBASE,     /* rebase-merge, rebase-apply */
	ACCESS_NAME_GITDIR,     /* of a worktree: where its .git is */
	ACCESS_NAME_REMOTES,    /* remotes, branches: addresses of old, obeyed like configuration */
	ACCESS_NAME_ALTERNATES, /* in objects/info; http-alternates too */
	ACCESS_NAME_KODA,       /* .koda */
	ACCESS_NAME_STEERING,   /* agents, skills: in .koda */
};
enum access_name access_name_of(const char *name);

/* Do these entries make a directory a git directory, for git? What a commondir leads to needs no HEAD, and a commondir
 * lies in worktrees/NAME. */
bool access_is_git_dir(bool head, bool objects, bool refs, bool commondir, bool worktrees);

/* One sentence: what was refused, for which path, by which rule, in which mode. */
int access_refuse(struct koda_error *err, const struct access_subject *who, enum access_op op,
    const char *path, struct access_verdict verdict);
/* The reason alone, for explain; static or in buf. */
const char *access_reason(const struct access_subject *who, enum access_op op,
    struct access_verdict verdict, char *buf, size_t size);

#endif
