/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run and shell where there can be no overlay: the command works in a clone of the project, and what it
 * changed there becomes a draft when it has ended. The clone is another directory, so a command that
 * names the project's path sees the project itself, read-only.
 */
#ifndef KODA_CLI_RUN_CLONE_H
#define KODA_CLI_RUN_CLONE_H

#include "cli/command.h"

struct run_clone {
	struct koda_copy *copy; /* NULL: none */
	struct koda_session *session;
	struct koda_slot *slot;
	char *cwd;
};

/*
 * Makes a clone of the project of a session, and opens a session like the given one and a slot there.
 * asked: the user has asked for a clone, however large the project is. Shows the progress on a terminal,
 * where an interrupt cancels it. Returns 0, or -1 with *err set and nothing left.
 */
int run_clone_open(struct run_clone *ret, struct koda_session *project,
    const struct koda_session_options *like, const char *cwd, bool asked, struct koda_error *err);
/*
 * The command has ended, and the slot is released. Ends the session and the clone. Returns 0 with the id
 * of the draft in *ret, to be freed, or "" if nothing was changed; -1 with *err set: the clone stays.
 */
int run_clone_end(struct run_clone *c, char **ret, struct koda_error *err);

#endif
