/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedder's handle for a command or a search.
 *
 * The embedder may free it from any callback, even while library code further up the stack still
 * uses it; handle_hold() and handle_let_go() keep it alive until then. In the event callback, which
 * the library may call in the middle of anything, freeing is postponed until the library's
 * outermost function returns.
 */
#ifndef KODA_HOST_CONTEXT_HANDLE_H
#define KODA_HOST_CONTEXT_HANDLE_H

#include <stdbool.h>

#include "shared/base/err.h"

struct koda_session;

struct handle {
	struct koda_session *ses;
	/* The next one in koda_session.over: it is over, and its callback has not run. */
	struct handle *next;
	/* The next one in koda_session.unwanted: freed in the event callback. */
	struct handle *unwanted;
	bool over, in_line, is_unwanted, freed;
	unsigned held;
	void (*tell)(struct handle *handle); /* runs the embedder's callback; may free the handle */
	void (*give_up)(struct handle *handle);
	void (*destroy)(struct handle *handle);
};

void handle_hold(struct handle *handle);
void handle_let_go(struct handle *handle);

/* The embedder frees the handle. Returns true if that has to wait: give_up() is called later. */
bool handle_postpone(struct handle *handle);
/* Frees it, or lets the last handle_let_go() do so. Its callback does not run any more. */
void handle_free(struct handle *handle);

/* It is over, and does not count in koda_session.n_under_way any more. If to_be_told, the loop runs
 * the embedder's callback later. */
void handle_over(struct handle *handle, bool to_be_told);

/* Run the callbacks of those that are over. */
void handle_tell_over(struct koda_session *ses);
/* Do not run them any more. The embedder may still free these handles. */
void handle_forget_over(struct koda_session *ses);
/* Give up those that were freed in the event callback. */
void handle_give_up_unwanted(struct koda_session *ses);

#endif
