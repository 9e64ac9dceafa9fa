/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda's own directory on the host, ${XDG_STATE_HOME:-~/.local/state}/koda-sandbox: what commands
 * planted, until the user has reviewed it (quarantine/), and what must be known about a killed
 * session (journal/). No command and no file operation sees it. It exists only as long as it is in
 * use or not empty.
 */
#ifndef KODA_HOST_MACHINE_STATE_H
#define KODA_HOST_MACHINE_STATE_H

#include <stdbool.h>

#include "shared/base/err.h"

/* Returns its canonical path, whether it exists or not, owned by the caller. NULL if there is no
 * place for it (no home), or without memory. */
char *state_path(const char *home);
/* The same path as the user named it, with links unresolved. */
char *state_path_as_named(const char *home);

struct state {
	int fd; /* the directory; -1: not held */
	bool locked;
};

#define STATE_NONE                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Make the directory if needed, and keep it until state_let_go(), which removes the empty parts of
 * it, and the directories that were created to hold it, unless another process holds it. Returns 1;
 * 1 with *err set if another process keeps it locked: it is used all the same; 0 with *err set if
 * it cannot be made here; -1 with *err set if it is not safe to use.
 */
int state_hold(struct state *s, const char *path, struct koda_error *err);
void state_let_go(struct state *s, const char *path);

/* Returns the directory for the cache layers of all projects that ever were at a root
 * (host/caches/cache_project). The caller owns it; NULL as for state_path(). */
char *state_caches_path(const char *root, const char *home);
/* Returns the directory that holds the cache layers of all roots. */
char *state_all_caches_path(const char *home);
/* Returns true if the path still leads to the open directory. */
bool state_is_there(int fd, const char *path);

/* Like mkdir -p, with mode 0700. Returns 0, or -1 with errno. */
int state_make(const char *path);

/* Like state_hold(), for reading only: the directory is not made. Returns 0 if it does not exist,
 * -1 with *err set if it cannot be opened. */
int state_look(struct state *s, const char *path, struct koda_error *err);

/* Returns the name of a root's quarantine below quarantine/, owned by the caller; NULL without
 * memory. */
char *state_quarantine_name(const char *root);

/* Return O_PATH descriptors of quarantine/, quarantine/NAME and journal/, or -1 with errno. */
int state_quarantines(const struct state *s, bool make);
int state_quarantine(const struct state *s, const char *name, bool make);
int state_journal(const struct state *s, bool make);

/* Returns an O_PATH descriptor of a canonical path, opened without following a link, or -1 with
 * *err set. */
int state_open_directory(const char *path, struct koda_error *err);

#endif
