/*
 * Signals to koda-sandbox while a command runs, read from a descriptor: a handler could interrupt the
 * library in the middle of something. What was ignored when we were started (nohup) stays ignored.
 */
#ifndef KODA_CLI_SIGNALS_H
#define KODA_CLI_SIGNALS_H

/* Read them from now on. A descriptor, or -1 with errno. SIGPIPE is blocked too, and read by nobody:
 * a write tells EPIPE. */
int signals_open(void);

/* While the user is asked something: as they were, so that he can end us. */
void signals_suspend(int fd);
void signals_resume(int fd);

/* The next one that has come, 0: none. */
int signals_next(int fd);

/* As they were. For a child before it executes something, and at the end. */
void signals_close(int *fd);

#endif
