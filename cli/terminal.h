/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's terminal while a command has a pseudo-terminal of its own, when ours is raw so that
 * keys reach the command's line discipline; or while we draw on it. Its settings are restored on
 * every way out. There is one terminal, so only one use at a time.
 */
#ifndef KODA_CLI_TERMINAL_H
#define KODA_CLI_TERMINAL_H

#include <stdbool.h>

struct pty {
	int master; /* non-blocking */
	int slave;
};

/*
 * Opens a pseudo-terminal with the settings and the size of the terminal `like`, or 24 by 80 if
 * that is -1. Returns 0, or -1 with errno.
 */
int terminal_open_pty(int like, struct pty *ret);

/*
 * Copies the size of `like` to the pseudo-terminal, whose foreground processes then get SIGWINCH.
 */
void terminal_copy_size(int like, int master);

/* Is our process group in the foreground of fd? If not, reading or setting it stops us. */
bool terminal_is_ours(int fd);

/*
 * Makes the terminal raw until terminal_restore(), which also runs at exit() and on fatal signals.
 * Does nothing in the background: call it again after SIGCONT.
 */
void terminal_raw(int fd);
bool terminal_is_raw(void);
void terminal_restore(void);

/* Like terminal_raw(), but keys that make signals still do: keys come one by one, without echo. */
void terminal_keys(int fd);
/* Switches to the terminal's other screen, without a cursor, until terminal_restore(). */
void terminal_screen(int fd);

#endif
