/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a git directory a command may make regular files and directories, and nothing else: git on the
 * host writes through a symbolic link that it finds there, and blocks on a FIFO. The plan says
 * which directories these are (Mount.plain). Renaming or linking something into one fails at the
 * mount boundary (EXDEV); making something in one arrives here.
 *
 * The filter passes on symlink() and symlinkat(), and mknod() and mknodat() of a FIFO or a socket.
 * Another thread of the caller could change the arguments after they were checked, so no such call
 * is allowed to continue: the strings are copied once, the directory is taken by descriptor and
 * judged by the directories that contain it, and what was requested is made there. A separate
 * process does that: a slow file system, or a directory that other processes keep busy, must not
 * keep pid 1 from protecting what a process outside has just replaced. It has pid 1's user and view
 * and the right to look into callers, and no other right. Under Landlock it could not look into
 * them, so it judges by the same directories that the commands' domain was made from.
 *
 * Two exceptions, which git itself makes: HEAD, as a link to a name below refs/ beside it
 * (core.preferSymlinkRefs), and the link to "testing" with which git finds out whether links work,
 * when it clones a submodule.
 *
 * Sockets made by bind() are not checked here. Git does not open them, and the comparison removes
 * them.
 */
#ifndef KODA_STAGE2_LINKS_H
#define KODA_STAGE2_LINKS_H

#include "stage2/stage2.h"

struct seccomp_notif;

/*
 * Starts the process. listener: the one of the template's filter, which stays the caller's. b: a
 * valid order whose writable directories exist now. Returns NULL with *err set on failure.
 */
struct links *links_new(int listener, const Koda__Boot *b, struct koda_error *err);
/* Call it after the plan was mounted or repaired. */
void links_plan(struct links *l, const struct slot_view *v);
/* Queues a request, which is answered later. Returns false if there is no room. */
bool links_ask(struct links *l, const struct seccomp_notif *req);
/* Readable when something was refused. */
int links_fd(const struct links *l);
void links_refused(struct stage2 *s);
/*
 * `over`: how many ended commands wait to be reported. Returns true when no request is left of
 * those that had arrived when `over` last changed: each has been carried out or never will be. Dead
 * callers may have made requests too. Call it again until it returns true, and only then report the
 * ends of these commands. Kills the process if it stays with one request too long.
 */
bool links_are_made(struct links *l, unsigned over);
void links_tell_untold(struct stage2 *s);

pid_t links_pid(const struct links *l);
/* The process has died: starts another one, and answers the requests that were left with EIO. */
void links_died(struct stage2 *s);

#endif
