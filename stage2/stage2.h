/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-sandbox-stage2: pid 1 of a slot's sandbox. It has one loop and no threads. The header of
 * each part says what it does:
 *
 *	main      argv, the control socket, confining itself, the loop
 *	orders    reads one order, carries it out, sends one report
 *	netns     the port of the egress proxy, in the slot's network namespace
 *	worker    the slot's koda-fs-worker, and the spawner that starts it
 *	child     code shared by template and spawner
 *	view      mounts of the plan, by descriptor: mounting, repairing, uncovering
 *	view_entry     what is known of each place of the plan
 *	mount_pass     one pass that mounts some of these places
 *	own_mounts     finds and unmounts the mounts that stage2 has made
 *	hidden    what commands see in hidden places; the file system in memory that it is on
 *	private   /tmp and the like, directories of one file system in memory
 *	mounts    the kernel's mount calls
 *	caches    the host's caches, under a layer that commands write
 *	drafts    the directories that commands write, under a layer that takes their changes
 *	overlay   one such mount
 *	lower_names    notices that other processes change names below it
 *	absent    hidden places that do not exist yet: which directories need a mirror
 *	mirror    a directory in which names that do not exist yet never appear
 *	notice    a signal when names in a directory change
 *	watch     mountinfo (a place of the plan was replaced outside), notices (a missing place
 *	          appeared)
 *	place_watch    each place of the plan, and the directories that are watched for it
 *	mend      mounts again what was replaced, while all processes are stopped
 *	linked_places  where links that commands made lead from hidden places
 *	follow    where a path with links in it leads
 *	holders   which processes hold what was replaced
 *	template  the process that commands descend from: Landlock domain, seccomp filter, keyring,
 *	          no capability
 *	exec      one command: its reaper, limits, descriptors, execve
 *	procs     all processes of the slot; stopping and continuing them
 *	quota     memory and tasks of all commands together: ends the largest command; a separate
 *	          process makes the exact measurement
 *	usage     adds up memory and tasks; meter reads them, pace decides when
 *	command_table  what is known of each command
 *	commands  begins, signals and ends commands
 *	companions     our processes that belong to no command
 *	strangers      kills the processes that are left of commands that are over
 *	reap      processes that died, and the reports about them; ends a command until nothing of
 *	          it is left
 *	connect   decides about connections to sockets: the slot's own are allowed, the host's are
 *	          not
 *	bound_sockets  is a socket of the slot bound to that inode
 *	connect_call   connect() that never waits
 *	connect_wait   connections that are not established at once
 *	links     symbolic links, FIFOs and sockets that commands make: not in a git directory
 *	link_make the process that makes them
 *	caller    what is read from a thread that waits for the answer to a notification
 *	refusals  reports what was refused, up to a number of times per second
 *
 * The host trusts stage2 to carry out orders. stage2 has privileges only in its own user namespace
 * (CAP_SYS_ADMIN to mount, CAP_SYS_PTRACE to answer notifications; CAP_DAC_OVERRIDE until the
 * caches are mounted). Commands share its pid namespace. It is not dumpable, so no command can read
 * it, and signals for which pid 1 has no handler do not reach it. Once booted it has its own
 * seccomp filter (tools/gen-seccomp), without exec: its children, template and spawner, start
 * programs.
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
#include "stage2/companions.h"

#define STAGE2_COMMANDS_MAX 256 /* running at once, including background ones */
/* Mounts in a plan: limits the work that one order causes. */
#define STAGE2_MOUNTS_MAX 4096

struct slot_view;
struct place_watch;
struct template;
struct spawner;
struct connect_guard;
struct links;
struct command_table;
struct quota;

struct stage2 {
	struct frame_stream fs; /* the host */
	int host_fd;            /* its pidfd, or -1 */
	struct arena arena;
	bool booted;
	bool ending; /* send what is queued, then end */
	int proc_fd; /* /proc of this pid namespace */
	int signal_fd;
	struct slot_view *view;
	struct place_watch *watch;
	struct template *template;
	struct spawner *spawner;
	struct companions companions;
	struct command_table *commands;
	struct connect_guard *guard;
	struct links *links;
	struct quota *quota; /* NULL: no limits of the slot */
};

/* Read the pending signals, and handle the notices of directories among them. */
void stage2_signals(struct stage2 *s);

/* Queue a report, which is flushed at the end of the loop's turn. stage2 ends if the host is
 * gone. */
void stage2_report(struct stage2 *s, const Koda__Report *report);
void stage2_failed(struct stage2 *s, uint64_t id, Koda__FailedStep step, int errnum,
    const char *what);
void stage2_event(struct stage2 *s, Koda__EventKind kind, const char *target, uint64_t stopped_us,
    uint64_t ended);

#endif
