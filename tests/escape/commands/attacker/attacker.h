/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attack does and a shell cannot, one word each: attacker WORD ARGUMENTS. Nothing here
 * knows whether it is sandboxed. It exits with 0 if the kernel permitted the action; verdicts do
 * not use that, because harm is judged from outside.
 */
#ifndef KODA_TESTS_ESCAPE_COMMANDS_ATTACKER_ATTACKER_H
#define KODA_TESTS_ESCAPE_COMMANDS_ATTACKER_ATTACKER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef int applet_fn(int argc, char **argv);

/* serve.c: the host's side */
applet_fn serve_main, sync_main;
/* reach.c: sockets */
applet_fn unix_main, inet_main, swap_main, sniff_main, squat_main;
/* others.c: other processes, IPC */
applet_fn poke_main, peek_main, scan_main, limit_main, nice_main, kill_main, shm_main, sem_main,
    msg_main, mq_main, key_main, tiocsti_main;
/* kernel.c: namespaces, mounts and what else the kernel offers */
applet_fn ns_main, userns_main, hold_main;
/* files.c: what stays on a file, or makes other processes wait for it */
applet_fn lease_main, notify_main, flags_main;
/* links.c: links, and ways to get one into a directory */
applet_fn rename_main, hardlink_main, linkat_main, special_main, linkrace_main;
/* window.c: what a command does while the host replaces a file */
applet_fn keep_main, crowd_main;

/* memory.c */
applet_fn hoard_main, held_main, lend_main, weigh_main;

/* Returns whether that process lingers: its last argument is the mark. */
bool is_lingering(const char *pid, const char *mark);

/* Returns whether the file exists. */
bool appeared(const char *path);

long now_ms(void);
/* Prints what failed and why; returns 1. */
int failed(const char *what);
/* linger MARK: waits to be killed, and ignores all signals that it can. The host knows it by its
 * last argument. */
applet_fn linger_main;
void become_linger(void) __attribute__((noreturn));

#endif
