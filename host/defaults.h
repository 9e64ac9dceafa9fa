/* Names that every policy starts from. Data only; who uses it decides what it means. */
#ifndef KODA_HOST_DEFAULTS_H
#define KODA_HOST_DEFAULTS_H

/* What a developer's tools reach in Safe and Auto; NULL at the end. */
extern const char *const default_domains[];

/* Below a project's root, what its host runs: never written, whatever allows the rest. */
extern const char *const default_git_pair[];

#endif
