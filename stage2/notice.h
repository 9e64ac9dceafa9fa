/*
 * A signal when names in a directory change. This is dnotify: unlike inotify and fanotify it has no limit that other
 * programs of the same user could use up, and what hides secrets must not depend on them. What it lacks, names and
 * changes of the directory itself, is looked at instead: the caller compares what there is with what there was.
 */
#ifndef KODA_STAGE2_NOTICE_H
#define KODA_STAGE2_NOTICE_H

#include <signal.h>

/* With the descriptor of the directory (ssi_fd). The kernel sends SIGIO instead, without one, when too many wait. */
#define NOTICE_SIGNAL SIGRTMIN

/* Signals that wait at once: more say no more than SIGIO does. The limit is one of the user, whose others need some. */
#define NOTICE_PENDING_MAX 256

/* Add the signals that come, to be blocked. */
void notice_signals(sigset_t *set);
/* As many directories as may be, and a bound on the signals that wait. Before the first notice; after the fork of what
 * becomes commands, which would have these limits, too. */
void notice_limits(void);

/* As long as the descriptor (O_RDONLY) is open. -1 with errno: the kernel cannot (CONFIG_DNOTIFY, dir-notify-enable). */
int notice_directory(int fd);

#endif
