/*
 * A separate session without commands, whose worker holds directories that no agent can name: a draft,
 * and an entry of the history. It lists what is in the draft, and swaps what is held with what is in
 * the project, under the policy of the session that it is made for.
 */
#ifndef KODA_HOST_WORKSPACE_HELD_H
#define KODA_HOST_WORKSPACE_HELD_H

#include "host/draft/store.h"

struct held_seal {
	const struct draft *draft; /* NULL: none */
	int history_fd;            /* -1: none */
};

#endif
