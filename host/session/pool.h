/* SPDX-License-Identifier: Apache-2.0 */
/* A session's slots: handing them out, taking them back, and keeping idle ones for the next user of
 * the same policy. */
#ifndef KODA_HOST_SESSION_POOL_H
#define KODA_HOST_SESSION_POOL_H

struct koda_session;

/* The share of all slots in a turn of the loop. */
extern const struct ticker pool_ticker;

/* Nothing of the library is on the stack any more: free the slots that were released and are
 * not kept, and what slots could not free. */
void pool_settle(struct koda_session *ses);
/* Free all slots. Runs callbacks. */
void pool_close(struct koda_session *ses);
/* In a forked child, before pool_close(): do not touch the workers, which are the parent's to
 * signal. */
void pool_abandon(struct koda_session *ses);

#endif
