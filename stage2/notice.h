/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that names in a directory changed. This is dnotify: unlike inotify and fanotify it has no
 * limit that other programs of the same user could use up, and hiding secrets must not depend on
 * them. dnotify does not report which names changed, nor changes of the directory itself, so the
 * caller compares the directory with what it saw before.
 */
#ifndef KODA_STAGE2_NOTICE_H
#define KODA_STAGE2_NOTICE_H

#include <signal.h>

/* ssi_fd is the descriptor of the directory. If too many signals are pending, the kernel sends
 * SIGIO instead, without a descriptor. */
#define NOTICE_SIGNAL SIGRTMIN

/* Limit on pending signals: more of them say no more than SIGIO does. The limit counts for the
 * whole user, whose other programs need some as well. */
#define NOTICE_PENDING_MAX 256

/* Add the signals that notices use to set. The caller blocks them. */
void notice_signals(sigset_t *set);
/* Raise the limit on descriptors, so that as many directories as possible can be watched, and
 * limit the pending signals. Call it before the first notice, and after forking the process that
 * commands descend from, because they would inherit these limits. */
void notice_limits(void);

/* Signal changes in the directory as long as fd (O_RDONLY) is open. Returns 0, or -1 with errno
 * if the kernel cannot do it (CONFIG_DNOTIFY, dir-notify-enable). */
int notice_directory(int fd);

#endif
