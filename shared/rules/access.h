/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (policy, place, operation) -> verdict. Pure: the caller has resolved the place and holds its
 * descriptors, and struct access_disk answers questions about the disk around it. The same code
 * answers the worker's requests, searches and `explain`. Commands are not judged here:
 * host/sandbox/view_plan makes mounts from the same policy, and tests/unit/view_test.c compares the
 * two.
 *
 * The first rule that applies decides, in this order:
 *   1. fully denied places (koda's own database), proc and other windows into processes: denied
 *   2. for reading: the longest of deny_read and its holes, deny on a tie; otherwise allowed
 *   3. for a change: denied by trust and by Plan mode; denied where reading is denied (a replace
 *      would need the file's metadata, a digest would reveal its content); dangerous system places;
 *      .koda/agents and .koda/skills at any depth; git configuration and hooks at any depth unless
 *      allow_git_config; deny_write_within_allow; deny_write_names at any depth; and then
 *      allow_write has to name the place.
 *
 * Names that protect something (.git, .koda, hooks, config, those of deny_write_names ...) are
 * compared folded, as a case-insensitive file system would fold them. On a case-sensitive one this
 * refuses a few harmless names; on a case-insensitive one it is necessary. The policy's own paths
 * are compared byte by byte.
 */
#ifndef KODA_SHARED_RULES_ACCESS_H
#define KODA_SHARED_RULES_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy.h"

enum access_op {
	ACCESS_OP_READ,  /* read, stat, list */
	ACCESS_OP_WRITE, /* create or replace a file of that name, with the agent's content */
	ACCESS_OP_MKDIR,
	ACCESS_OP_REMOVE,      /* remove the name; for directories see access_judge_tree */
	ACCESS_OP_RENAME_FROM, /* the same */
	ACCESS_OP_RENAME_TO,   /* something unknown appears at that name */
	/* Follow a link at that place on the way to a read. */
	ACCESS_OP_HOP,
	/* Follow a link on the way to a change: allow_write need not name the link. */
	ACCESS_OP_HOP_CHANGE,
};

/* Rules by their stable names, which errors have as `rule`: "deny_read", "allow_write",
 * "git_config" ... */
enum access_rule {
	ACCESS_RULE_DEFAULT_READ, /* "default": reads are open */
	ACCESS_RULE_READ_HOLE,    /* "allow_read_within_deny" */
	/* "allow_write" (also the rule of a refusal because no rule of allow_write names the
	 * place) */
	ACCESS_RULE_ALLOW_WRITE,
	ACCESS_RULE_FULLY_DENIED,   /* "fully_denied" */
	ACCESS_RULE_PROCESS_WINDOW, /* "process_window" */
	ACCESS_RULE_DENY_READ,      /* "deny_read" */
	ACCESS_RULE_TRUST,          /* "trust" */
	ACCESS_RULE_SYSTEM_PLACE,   /* "system_place" */
	ACCESS_RULE_KODA_PLACE,     /* "koda_place" */
	ACCESS_RULE_GIT_CONFIG,     /* "git_config" */
	ACCESS_RULE_DENY_WRITE,     /* "deny_write_within_allow" */
	ACCESS_RULE_DENY_NAME,      /* "deny_write_names" */
	/* "protected_link": a link in a protected place leads there; only the worker checks
	 * this, on disk. */
	ACCESS_RULE_LINK,
	/* "protected_below": a directory with something protected in it */
	ACCESS_RULE_TREE,
};
const char *access_rule_name(enum access_rule rule);

struct access_subject {
	const struct policy *policy;
	enum koda_mode mode;
	const char *home; /* canonical, or "" */
	/* koda's own state directory, canonical, whether or not it exists; NULL: none */
	const char *state;
};

/* What access_judge() may ask about the disk. Every answer is about the place as it is now. */
struct access_disk {
	void *data;
	/* Does the directory path[0..dir_len) have an entry of that name, of any type?
	 * dir_len 0: "/". */
	bool (*has)(void *data, const char *path, size_t dir_len, const char *name);
};

struct access_verdict {
	bool allowed;
	enum access_rule rule;
	const char *by; /* the rule's own text (points into the policy or static), or NULL */
};

/* Judge an operation. path is canonical and absolute. disk may be NULL: then access_judge()
 * assumes that no directory around the place has the shape of a git directory. */
struct access_verdict access_judge(const struct access_subject *who, enum access_op op,
    const char *path, const struct access_disk *disk);

/* May every entry directly in that readable directory be read, whatever its name? false: ask for
 * each. For callers that go through all of its names. */
bool access_reads_all_in(const struct access_subject *who, const char *dir);

/*
 * May the directory `path` be moved or removed with everything below it, as far as the policy's
 * text can say? Refused when a rule that denies, or a place that is protected by name, lies
 * beneath. The worker walks the disk for the rest and calls access_protected_entry() for each
 * entry.
 */
struct access_verdict access_judge_tree(const struct access_subject *who, enum access_op op,
    const char *path);

/* Does an entry of that name, below a directory that is moved or removed, make the operation
 * refused? (.git of any type, agents or skills within a .koda) parent_name is the name of the
 * directory that contains the entry. */
bool access_protected_entry(const struct access_subject *who, const char *parent_name,
    const char *name);

/*
 * Return the rule of deny_write_names that forbids moving or removing a directory above `path`, or
 * NULL. Files that came with packages (shared/rules/names: vendored) pin no directory: package
 * managers replace these directories.
 */
const char *access_name_rule(const struct access_subject *who, const char *path);

/* What a folded name means by itself, for code that walks a tree and cannot judge each path. */
enum access_name {
	ACCESS_NAME_OTHER,
	ACCESS_NAME_GIT, /* .git */
	/* What makes a directory a git directory. */
	ACCESS_NAME_HEAD,
	ACCESS_NAME_OBJECTS,
	ACCESS_NAME_REFS,
	ACCESS_NAME_COMMONDIR,
	ACCESS_NAME_WORKTREES,
	/* What a git directory can contain that makes git run something. */
	ACCESS_NAME_CONFIG, /* config.worktree too */
	ACCESS_NAME_CONFIG_LOCK,
	ACCESS_NAME_HOOKS,
	ACCESS_NAME_REBASE, /* rebase-merge, rebase-apply */
	ACCESS_NAME_GITDIR, /* of a worktree: the path of its .git */
	/* remotes, branches: the old form of remote addresses, obeyed like configuration */
	ACCESS_NAME_REMOTES,
	ACCESS_NAME_ALTERNATES, /* in objects/info; http-alternates too */
	ACCESS_NAME_KODA,       /* .koda */
	ACCESS_NAME_STEERING,   /* agents, skills: in .koda */
};
enum access_name access_name_of(const char *name);

/* Does git take a directory with these entries for a git directory? A commondir's target needs
 * no HEAD, and a commondir itself lies in worktrees/NAME. */
bool access_is_git_dir(bool head, bool objects, bool refs, bool commondir, bool worktrees);

/* Set *err to one sentence: which path was refused, by which rule, in which mode. Returns -1. */
int access_refuse(struct koda_error *err, const struct access_subject *who, enum access_op op,
    const char *path, struct access_verdict verdict);
/* Return the reason alone, for `explain`; the text is static or in buf. */
const char *access_reason(const struct access_subject *who, enum access_op op,
    struct access_verdict verdict, char *buf, size_t size);

#endif
