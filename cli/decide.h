/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a command in a draft: shows what it changed, and asks the user on the terminal what becomes
 * of it. Without a terminal the draft is kept, and the commands to go on with are printed. A judged
 * draft is applied instead, as far as the policy allows.
 */
#ifndef KODA_CLI_DECIDE_H
#define KODA_CLI_DECIDE_H

#include <jansson.h>

#include "cli/command.h"

struct decision {
	const struct cli *cli;
	struct koda_session *session; /* its slot in the draft is released */
	const char *id, *root, *cwd;
	bool judged;
	int signals; /* descriptor of cli/signals.h, or -1 */
};

/*
 * Asks, and does it. A draft without changes is removed silently. An interrupt at the prompt keeps
 * the draft.
 */
void decide(const struct decision *d);
/*
 * With --json nothing is asked: returns {"id", "created", ...}, or null for a draft without changes.
 * A judged one also has "applied", "refused" and so on, "undo", and "kept" if some of it is left in it.
 */
json_t *decide_json(const struct decision *d);

#endif
