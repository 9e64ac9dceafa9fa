/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/handle.h"

#include "host/context/context.h"

void
handle_hold(struct handle *handle)
{
	handle->held++;
}

void
handle_let_go(struct handle *handle)
{
	if (--handle->held == 0 && handle->freed)
		handle->destroy(handle);
}

bool
handle_postpone(struct handle *handle)
{
	/* The session of a handle that is over may be freed already, and no library code still uses
	 * such a handle. */
	if (handle->over || !handle->ses->in_event)
		return false;
	if (!handle->is_unwanted) {
		handle->is_unwanted = true;
		handle->unwanted = handle->ses->unwanted;
		handle->ses->unwanted = handle;
	}
	return true;
}

void
handle_over(struct handle *handle, bool to_be_told)
{
	struct koda_session *ses = handle->ses;
	struct handle **end = &ses->over;

	handle->over = true;
	ses->n_under_way--;
	if (!to_be_told || handle->is_unwanted)
		return;
	handle->in_line = true;
	handle->next = NULL;
	while (*end != NULL)
		end = &(*end)->next;
	*end = handle;
	loop_wake(&ses->loop);
}

static void
forget_over(struct handle *handle)
{
	struct handle **at;

	if (!handle->in_line)
		return;
	for (at = &handle->ses->over; *at != handle;)
		at = &(*at)->next;
	*at = handle->next;
	handle->in_line = false;
}

void
handle_tell_over(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->over) != NULL) {
		forget_over(h);
		h->tell(h); /* which may free this handle, or others in the list */
	}
}

void
handle_forget_over(struct koda_session *ses)
{
	while (ses->over != NULL)
		forget_over(ses->over);
}

void
handle_give_up_unwanted(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->unwanted) != NULL) {
		ses->unwanted = h->unwanted;
		h->is_unwanted = false;
		h->give_up(h);
	}
}

void
handle_free(struct handle *handle)
{
	forget_over(handle);
	handle->freed = true;
	if (handle->held == 0)
		handle->destroy(handle);
}
