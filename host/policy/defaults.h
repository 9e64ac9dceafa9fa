/* Names that every policy and every view starts from. Data only; who uses it decides what it means. */
#ifndef KODA_HOST_POLICY_DEFAULTS_H
#define KODA_HOST_POLICY_DEFAULTS_H

#include <stdbool.h>

/* What a developer's tools reach in Safe and Auto; a NULL pattern ends the table. apex: and the name that the wildcard
 * is of, which it does not name itself. */
struct default_domain {
	const char *pattern;
	bool apex;
};
extern const struct default_domain default_domains[];

enum default_where {
	DEFAULT_PROJECT = 1, /* below a project's root */
	DEFAULT_HOME = 2,    /* below the home directory */
	DEFAULT_BOTH = 3,
	DEFAULT_TOLD =
	    4, /* below a project's root, at any depth, a file: not protected, but a change is reported */
	DEFAULT_PROGRAMS = 8,
	DEFAULT_HOME_PROGRAMS =
	    10, /* below the home directory: programs that a shell finds by name */
};

/*
 * What a tool of the host obeys without the user asking for the project's code to run: never written, whatever allows
 * the rest. host/policy/trust makes rules of it: rows of the project hold at any depth below the root (deny_write_names) and, as
 * paths, in the root itself; rows of the home directory are paths (deny_write_within_allow). So worker, view and
 * comparison all have them. A name is the place and all below it; a component may have one '*' (rows of the project).
 *
 * Not here, because it is the project's code, which runs when the user asks for that: source, build files, manifests
 * such as package.json, and the settings of linters, compilers and test runners. An empty name ends the table.
 *
 * DEFAULT_TOLD: what other agents or a service of builds follow. To edit it is what an agent may well be asked for.
 *
 * The reason completes "'NAME' is protected: ..." in refusals.
 */
struct default_place {
	enum default_where where;
	const char *name, *reason;
};
extern const struct default_place default_protected[];

/* Below the home directory, not even seen (shared/rules/access: fully denied); NULL at the end. */
extern const char *const default_hidden[];

/* Below the root: told to other agents, so never written at any depth (shared/rules/access: koda_place). */
extern const char *const default_koda[];

#endif
