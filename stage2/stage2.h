/*
 * koda-sandbox-stage2: pid 1 of a slot's sandbox. One loop, no thread; what each part does is in its header:
 *
 *	main      argv, the control socket, confinement of itself, loop
 *	orders    one frame in, what it asks for done, one frame out
 *	netns     the port of the egress proxy, in the slot's network namespace
 *	worker    the slot's koda-fs-worker, and the spawner that starts it
 *	child     what template and spawner have in common
 *	view      mounts of the plan, by descriptor
 *	private   /tmp and the like, directories of one file system in memory
 *	mounts    the kernel's mount calls
 *	caches    the host's caches, with a layer above them that commands write
 *	overlay   one such mount
 *	absent    places to be hidden that do not exist: which directories need a mirror
 *	mirror    a directory in which names that do not exist yet never appear
 *	notice    a signal when names in a directory change
 *	watch     mountinfo (a place of the plan was replaced outside), notices (a missing place appeared)
 *	follow    where a path leads that goes through links
 *	holders   which processes hold what was replaced
 *	template  the process that commands descend from: Landlock domain, seccomp filter, keyring, no capability
 *	exec      one command: its reaper, limits, descriptors, execve
 *	procs     all that run here; stopping and going on
 *	quota     memory and tasks of all commands together: the largest one is ended; the exact measurement is a process
 *	usage     measuring them; pace says when
 *	reap      who died, who is told; ending a command until nothing of it is left
 *	connect   connections to sockets, judged: own ones yes, the host's no
 *	links     symbolic links, FIFOs and sockets that are made: not in a git directory
 *	link_make the process that makes them
 *	caller    what is taken from a thread that waits for the answer to a notification
 *	refusals  what was refused is told, so many times a second
 *
 * It is trusted by the host to carry out orders, and it is root of nothing but its own user namespace
 * (CAP_SYS_ADMIN to mount, CAP_SYS_PTRACE to answer notifications; CAP_DAC_OVERRIDE until the caches are mounted). Commands
 * share its pid namespace: it is not dumpable, so nobody reads it; pid 1 cannot be signalled by what it has no handler for.
 * Once booted it has a filter of its own (tools/gen-seccomp), without exec: what starts programs are its children, template
 * and spawner.
 */
#ifndef KODA_STAGE2_STAGE2_H
#define KODA_STAGE2_STAGE2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/stage2.pb-c.h"
#include "shared/base/err.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"

#define STAGE2_COMMANDS_MAX 256  /* at once, background ones included */
#define STAGE2_SEARCHES_MAX 16   /* the host has half as many; a killed one may not be reaped yet */
#define STAGE2_MOUNTS_MAX   4096 /* of a plan: bounds what one order makes us do */

struct view;
struct watch;
struct template;
struct spawner;
struct connect_guard;
struct links;
struct commands;
struct quota;

struct stage2 {
	struct frame_stream fs; /* the host */
	int host_fd;            /* its pidfd, or -1 */
	struct arena arena;
	bool booted;
	bool ending; /* what is queued is sent, and that is all */
	int proc_fd; /* /proc of this pid namespace */
	int signal_fd;
	struct view *view;
	struct watch *watch;
	struct template *template;
	struct spawner *spawner;
	struct commands *commands;
	struct connect_guard *guard;
	struct links *links;
	struct quota *quota; /* NULL: no limits of the slot */
};

/* Take the signals that wait: notices of directories are looked at. */
void stage2_signals(struct stage2 *s);

/* Queue a report; it is flushed at the end of the loop's turn. The host being gone is the end of everything. */
void stage2_report(struct stage2 *s, const Koda__Report *report);
void stage2_failed(struct stage2 *s, uint64_t id, Koda__FailedStep step, int errnum,
    const char *what);
void stage2_event(struct stage2 *s, Koda__EventKind kind, const char *target, uint64_t stopped_us,
    uint64_t ended);

#endif
