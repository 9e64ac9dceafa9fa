/* SPDX-License-Identifier: Apache-2.0 */
/* The orders whose report the host waits for: to start a worker, and to mount the view. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_ORDERS_H
#define KODA_HOST_SANDBOX_SANDBOX_ORDERS_H

#include "host/sandbox/state.h"

/* Start koda-fs-worker, or a koda-fs-search beside it, in the sandbox, with `socket` as its
 * descriptor 3. Starts the sandbox if it is not running. */
enum sandbox_worker {
	SANDBOX_FILES,
	SANDBOX_SEARCH,
};
int sandbox_start_worker(struct sandbox *sb, enum sandbox_worker which, int socket,
    struct child *ret, struct koda_error *err);

/* Mount the plan of sb->view. */
int sandbox_mount(struct sandbox *sb, struct koda_error *err);
/* Unmount the whole plan, when no command is left that needs it. */
int sandbox_unmount(struct sandbox *sb, struct koda_error *err);

/* Show files that were made, removed or replaced in the project since the last command in its draft.
 * While a command runs, nothing changes. On failure the sandbox is killed. */
void sandbox_refresh(struct sandbox *sb);

#endif
