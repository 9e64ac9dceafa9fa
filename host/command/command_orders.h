/* The orders to stage2 about one command. */
#ifndef KODA_HOST_COMMAND_COMMAND_ORDERS_H
#define KODA_HOST_COMMAND_COMMAND_ORDERS_H

#include "host/command/command.h"

/* Order its start. Its descriptors are closed: the command has them then. Returns 0, or -1 with *err
 * set if the order was not accepted. */
int command_send_exec(struct koda_command *c, struct koda_error *err);
/* all: to all its processes, not only to its foreground group. */
void command_send_signal(struct koda_command *c, int signo, bool all);
/* Kill all its processes. */
void command_send_end(struct koda_command *c);

#endif
