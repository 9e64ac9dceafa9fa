/* SPDX-License-Identifier: Apache-2.0 */
/* koda_slot_violations(): what the sandbox refused to a slot's commands, for the embedder. */
#include "host/command/state.h"
#include "host/context/entry.h"

int
koda_slot_violations(const struct koda_slot *slot, koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_violation *v;
	int stop = 0;

	/* The callback may release the slot, or close the session. */
	session_enter(ses);
	for (size_t i = 0; slot->commands != NULL && stop == 0 &&
	     (v = violations_at(&slot->commands->violations, i)) != NULL;
	     i++)
		stop = fn(data, v);
	session_leave(ses);
	return stop;
}

int
koda_slot_new_violations(const struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct violations *v;
	int stop = 0;

	*ret_missed = 0;
	session_enter(ses);
	while (stop == 0 && slot->commands != NULL &&
	    *seen < (v = &slot->commands->violations)->recorded) {
		if (v->recorded - *seen > v->n) {
			*ret_missed += v->recorded - v->n - *seen;
			*seen = v->recorded - v->n;
			continue;
		}
		stop = fn(data, violations_at(v, v->n - (size_t)(v->recorded - (*seen)++)));
	}
	session_leave(ses);
	return stop;
}
