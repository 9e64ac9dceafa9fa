/* Why a place is protected, in words for the user: the reason of its row in host/policy/defaults. Pure. */
#ifndef KODA_HOST_PROTECT_REASON_H
#define KODA_HOST_PROTECT_REASON_H

#include <stdbool.h>
#include <stddef.h>

#define REASON_MAX 256

/*
 * "'.vscode' is protected: editors run its tasks ...; change it yourself, outside the sandbox". false: `rule` is not one
 * that the table is made into, or no row names the path (canonical; home: the home directory, or "").
 */
bool reason_of(const char *rule, const char *path, const char *home, char ret[REASON_MAX]);

/* What follows a file of which a change is only told; NULL: it is none. */
const char *reason_told(const char *path);

/* The same as reason_of(), appended to the message of a refusal, as far as there is room for all of it. */
void reason_append(const char *rule, const char *path, char *message, size_t size);

#endif
