/* Names that every policy and every view starts from. Data only; who uses it decides what it means. */
#ifndef KODA_HOST_DEFAULTS_H
#define KODA_HOST_DEFAULTS_H

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
};

/*
 * What something on the host runs, or obeys, without being asked again: never written, whatever allows the rest. They
 * become rules of deny_write_within_allow (host/trust), so worker, view and comparison all have them. The name is the
 * place and all below it.
 *
 * Not here, because editing them is what an agent is for: source, build files, package.json and other manifests whose
 * scripts somebody starts by name. An empty name ends the table.
 */
struct default_place {
	enum default_where where;
	const char *name, *reason;
};
extern const struct default_place default_protected[];

/* Below the home directory, writable for commands if they are there; NULL at the end. What the host would run from
 * them is in default_protected. */
extern const char *const default_caches[];

/* Below the home directory, not even seen (shared/access: fully denied); NULL at the end. */
extern const char *const default_hidden[];

/* Below the root: told to other agents, so never written at any depth (shared/access: koda_place). */
extern const char *const default_koda[];

#endif
