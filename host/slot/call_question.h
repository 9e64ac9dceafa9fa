/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The question to the embedder about a change. The worker has resolved and judged the change as a
 * dry run. The question shows what it found, and the change is bound to what was shown: canonical
 * path and content go back to the worker as its guard.
 */
#ifndef KODA_HOST_SLOT_CALL_QUESTION_H
#define KODA_HOST_SLOT_CALL_QUESTION_H

#include "host/approve/asked.h"
#include "host/slot/state.h"

/* Ask about a preview that has arrived. ops->answer() gets the call. */
void call_question_ask(struct call *c, const struct asked_ops *ops);
/* For asked_ops: notes in c->err why the change is not approved. */
void call_question_refuse(void *call, const char *why);
/* The call has ended: so does its question, if there is one. */
void call_question_done(struct call *c);

#endif
