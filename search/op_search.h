/* SPDX-License-Identifier: Apache-2.0 */
/* The only request of koda-fs-search: opens the places, locks the process, compiles the pattern,
 * walks. */
#ifndef KODA_SEARCH_OP_SEARCH_H
#define KODA_SEARCH_OP_SEARCH_H

#include "worker/session.h"

int op_search(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);

#endif
