/*
 * The directory on the host where what commands planted is kept until the user has looked at it.
 */
#ifndef KODA_HOST_STATE_H
#define KODA_HOST_STATE_H

#include "shared/err.h"

/* ${XDG_STATE_HOME:-~/.local/state}/koda-sandbox/quarantine/NAME-HASH of a root. The caller's; NULL: there is no
 * place for it, or no memory. */
char *state_quarantine_path(const char *root, const char *home);

/* Make it (0700, each directory ours). *ret is NULL, and that is no error, where there is no home to keep it in:
 * then nothing is moved, only reported. It is never removed again: a slot has it mounted, and which ones there are
 * nobody knows. */
int state_quarantine(const char *root, const char *home, char **ret, struct koda_error *err);

/* The file beside a quarantine for what was there before commands of such rules ran (host/baseline). The caller's; NULL: no
 * memory. */
struct policy;
char *state_baseline_path(const char *quarantine, const struct policy *policy);

/* O_PATH, of a canonical path; no link is followed on the way. -1 with *err set. */
int state_open_directory(const char *path, struct koda_error *err);

#endif
