/* SPDX-License-Identifier: Apache-2.0 */
/* Explains to the user why a place is protected: the reason of its row in host/policy/defaults.
 * Pure. */
#ifndef KODA_HOST_POLICY_REASON_H
#define KODA_HOST_POLICY_REASON_H

#include <stdbool.h>
#include <stddef.h>

#define REASON_MAX 256

/*
 * Stores "'.vscode' is protected: editors run its tasks ...; change it yourself, outside the
 * sandbox". Returns false if `rule` does not come from the table, or no row names the path
 * (canonical; home: the home directory, or "").
 */
bool reason_of(const char *rule, const char *path, const char *home, char ret[REASON_MAX]);

/* Returns what follows a file whose changes are only reported, or NULL if it is not such a file. */
const char *reason_told(const char *path);

/* Appends the text of reason_of() to the message of a refusal, if all of it fits. */
void reason_append(const char *rule, const char *path, char *message, size_t size);

#endif
