/*
 * The directory on the host that is koda's own, ${XDG_STATE_HOME:-~/.local/state}/koda-sandbox: what commands planted, until
 * the user has looked at it (quarantine/), and what has to be known of a session that was killed (journal/). No command and
 * no file operation sees it. It is there for as long as something uses it or something is in it, and no longer.
 */
#ifndef KODA_HOST_PROTECT_STATE_H
#define KODA_HOST_PROTECT_STATE_H

#include <stdbool.h>

#include "shared/base/err.h"

/* Its canonical path, whether it exists or not. The caller's; NULL: there is no place for it (no home), or no memory. */
char *state_path(const char *home);
/* The same as the user has named it, links and all. */
char *state_path_as_named(const char *home);

struct state {
	int fd; /* the directory; -1: it is not held */
	bool locked;
};

#define STATE_NONE                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Make it if it is not there, and keep it there until state_let_go(), which removes what is empty of it, and of what it was
 * made in, unless another process holds it. 1; 0 with *err set: it cannot be made here, or (1, with *err set) another
 * process keeps it locked: then it is used all the same. -1 with *err set: it is not safe to use.
 */
int state_hold(struct state *s, const char *path, struct koda_error *err);
void state_let_go(struct state *s, const char *path);

/* What the directories for the layers of caches begin with, for all projects that ever lay at a root (host/caches/cache_project). The
 * caller's; NULL as for state_path(). */
char *state_caches_path(const char *root, const char *home);
/* The directory of those of all roots. */
char *state_all_caches_path(const char *home);
/* Does the path still lead to what is behind the descriptor? */
bool state_is_there(int fd, const char *path);

/* mkdir -p, mode 0700. 0, or -1 with errno. */
int state_make(const char *path);

/* The same for what only wants to look: it is not made. 0 when it is not there. */
int state_look(struct state *s, const char *path, struct koda_error *err);

/* What the quarantine of a root is called below quarantine/: the caller's; NULL: no memory. */
char *state_quarantine_name(const char *root);

/* O_PATH descriptors of quarantine/, quarantine/NAME and journal/. -1 with errno. */
int state_quarantines(const struct state *s, bool make);
int state_quarantine(const struct state *s, const char *name, bool make);
int state_journal(const struct state *s, bool make);

/* O_PATH, of a canonical path; no link is followed on the way. -1 with *err set. */
int state_open_directory(const char *path, struct koda_error *err);

#endif
