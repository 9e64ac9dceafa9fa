/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker of a session for reviews is sealed with (host/review/held). */
#ifndef KODA_HOST_DRAFT_HELD_H
#define KODA_HOST_DRAFT_HELD_H

#include "host/draft/store.h"

struct held_seal {
	const struct draft *draft; /* NULL: none */
	int history_fd;            /* an entry of the history; -1: none */
};

#endif
