/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a sandbox: orders to stage2, and its reports. A report belongs to the order
 * that the host waits for, to the client (a command), or to the sandbox itself (host/sandbox/sandbox_event).
 * The host does not trust stage2 to be well-behaved: a report that breaks the protocol ends the
 * sandbox.
 */
#ifndef KODA_HOST_SANDBOX_SANDBOX_CONTROL_H
#define KODA_HOST_SANDBOX_SANDBOX_CONTROL_H

#include "host/sandbox/state.h"

/* The report that sandbox_ask() waits for, and the descriptor that came with it. */
struct sandbox_answer {
	uint64_t id;
	bool wants_fd;
	bool soon; /* stage2 has next to nothing to do: the embedder's callback does not wait */
	int fd;    /* -1: none */
	Koda__Report *report;
};

/* Send an order and wait for the report on it; other reports that arrive meanwhile are processed.
 * w->report is valid until the next report. Returns -1 with *err set if there is none, or if it is
 * Failed. */
int sandbox_ask(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    int timeout_ms, struct sandbox_answer *w, struct koda_error *err);
/* Send an order for a command; the client gets the reports on it. Returns -1 with *err set if it was
 * not sent. */
int sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err);
/* Wait at most timeout_ms for a report or for the sandbox's death, and process what has come. */
void sandbox_wait(struct sandbox *sb, int timeout_ms);
/* Set *err to why bwrap ended: its last message, or its exit status. */
void sandbox_explain_end(struct sandbox *sb, struct koda_error *err);

/* For the loop: the control socket is readable; bwrap is gone. */
void sandbox_on_readable(struct source *source);
void sandbox_on_bwrap_gone(struct source *source);

#endif
