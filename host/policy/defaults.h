/* SPDX-License-Identifier: Apache-2.0 */
/* Names that every policy and every view starts from. Data only; its users decide what it means. */
#ifndef KODA_HOST_POLICY_DEFAULTS_H
#define KODA_HOST_POLICY_DEFAULTS_H

#include <stdbool.h>

/* Hosts that a developer's tools can reach in Safe and Auto; a NULL pattern ends the table. apex:
 * also allow the domain that the wildcard is below, which the wildcard does not match ("pypi.org"
 * for "*.pypi.org"). */
struct default_domain {
	const char *pattern;
	bool apex;
};
extern const struct default_domain default_domains[];

enum default_where {
	DEFAULT_PROJECT = 1, /* below a project's root */
	DEFAULT_HOME = 2,    /* below the home directory */
	DEFAULT_BOTH = 3,
	/* A file below a project's root, at any depth: not protected, but a change is reported. */
	DEFAULT_TOLD = 4,
	DEFAULT_PROGRAMS = 8,
	/* Below the home directory: programs that a shell finds by name. */
	DEFAULT_HOME_PROGRAMS = 10,
};

/*
 * Files that a tool of the host obeys without the user asking it to run the project's code: they
 * are never written, whatever allows the rest. host/policy/trust makes rules from this table: rows
 * for the project hold at any depth below the root (deny_write_names) and, as paths, in the root
 * itself; rows for the home directory are paths (deny_write_within_allow). So the worker, the view
 * and the comparison all have them. A name means the place and everything below it; a component may
 * contain one '*' (rows for the project).
 *
 * Not in this table, because it is the project's code, which runs when the user asks for that:
 * source, build files, manifests such as package.json, and the settings of linters, compilers and
 * test runners. An empty name ends the table.
 *
 * DEFAULT_TOLD: files that other agents or a build service follow. The user may well ask an agent
 * to edit them.
 *
 * The reason completes "'NAME' is protected: ..." in refusals.
 */
struct default_place {
	enum default_where where;
	const char *name, *reason;
};
extern const struct default_place default_protected[];

/* Paths below the home directory that commands do not see; ends with NULL. The worker's half is
 * `fully_denied` in shared/rules/access.c: change both. Not for file names or patterns. */
extern const char *const default_hidden[];

/* Below the root: instructions to other agents, so never written at any depth (shared/rules/access:
 * koda_place). */
extern const char *const default_koda[];

#endif
