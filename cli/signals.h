/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to koda-sandbox while a command runs, read from a descriptor: a handler could interrupt
 * the library in the middle of something. Signals that were ignored when we were started (nohup)
 * stay ignored.
 */
#ifndef KODA_CLI_SIGNALS_H
#define KODA_CLI_SIGNALS_H

/*
 * Starts reading the signals. Returns a descriptor, or -1 with errno. SIGPIPE is blocked too, and
 * not read: a failed write returns EPIPE.
 */
int signals_open(void);

/* Restores the signals while the user is asked something, so that the user can end us. */
void signals_suspend(int fd);
void signals_resume(int fd);

/* Returns the next signal that has arrived, or 0. */
int signals_next(int fd);

/* Restores the signals. For a child before it executes a program, and at the end. */
void signals_close(int *fd);

#endif
