/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A swap on one file system: renames only.
 *
 *	both sides      exchange source and place; then, if the source was in the layer, source -> old
 *	only held       source -> place, which must be free
 *	only here       place -> old; then the layer's whiteout goes away
 */
#ifndef KODA_WORKER_DRAFT_WITHIN_H
#define KODA_WORKER_DRAFT_WITHIN_H

#include "worker/draft/swap.h"

enum swap_state within_look_bring(struct swap *w, struct koda_error *err);
enum swap_state within_look_take(struct swap *w, struct koda_error *err);
void within_bring(struct swap *w, enum swap_state state, struct koda_error *err);
void within_take(struct swap *w, enum swap_state state, struct koda_error *err);

#endif
