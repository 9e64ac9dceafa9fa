/* SPDX-License-Identifier: Apache-2.0 */
/* The orders to stage2 about one command. */
#ifndef KODA_HOST_COMMAND_COMMAND_ORDERS_H
#define KODA_HOST_COMMAND_COMMAND_ORDERS_H

#include "host/command/state.h"

/* Order stage2 to start the command. Closes the host's copies of the command's descriptors. Returns
 * 0, or -1 with *err set if the order was not accepted. */
int command_send_exec(struct koda_command *c, struct koda_error *err);
/* all: signal all processes of the command, not only its foreground group. */
void command_send_signal(struct koda_command *c, int signo, bool all);
/* Kill all its processes. */
void command_send_end(struct koda_command *c);

#endif
