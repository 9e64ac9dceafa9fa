/*
 * In a git directory a command makes regular files and directories, and nothing else: git on the host writes through a
 * symbolic link that it meets there, and waits at a FIFO. Which directories those are the plan says (Mount.plain). What is
 * renamed or linked into one meets its mount (EXDEV); what is made in it arrives here.
 *
 * The filter hands over symlink() and symlinkat(), and mknod() and mknodat() of a FIFO or a socket. Another thread of the
 * caller could swap what they were looked at with, so none of them goes on by itself: the strings are copied once, the
 * directory is taken by descriptor, judged by the directories that it is in, and what was asked for is made there. That is
 * done by a process of its own: a slow file system, or a directory that others keep busy, must not keep pid 1 from
 * protecting what somebody outside has just replaced. It has pid 1's user and view, the right to look into callers, and no
 * other; Landlock would not let it look, so it judges by the same directories that the commands' domain was made from.
 *
 * Two exceptions, which git makes itself: HEAD, as a link to a name below refs/ beside it (core.preferSymlinkRefs), and the
 * one that leads to "testing" and tells it whether there are links at all, where a submodule is cloned.
 *
 * Sockets that bind() makes are not looked at here. Git does not open them, and the comparison takes them away.
 */
#ifndef KODA_STAGE2_LINKS_H
#define KODA_STAGE2_LINKS_H

#include "stage2/stage2.h"

/* Waiting at once. A thread has one; beyond that number the caller gets ENOMEM. */
#define LINKS_QUEUE_MAX 1024

struct seccomp_notif;

/* listener: of the template's filter, not ours to close. b: a valid order, whose writable directories are there now. */
struct links *links_new(int listener, const Koda__Boot *b, struct koda_error *err);
/* The plan was mounted, or repaired. */
void links_plan(struct links *l, const struct view *v);
/* Answers by itself, later. false: there is no room. */
bool links_ask(struct links *l, const struct seccomp_notif *req);
/* Readable: something was refused. */
int links_fd(const struct links *l);
void links_refused(struct stage2 *s);
/* What was asked for when `over` commands were over is made, or will never be: dead callers may have asked too. To be asked
 * again until it is so, before those are told to be over. A maker that stays with one request is ended. */
bool links_are_made(struct links *l, unsigned over);
void links_tell_untold(struct stage2 *s);

pid_t links_pid(const struct links *l);
/* That process has died: another one takes its place, and what it had not answered fails with EIO. */
void links_died(struct stage2 *s);

#endif
