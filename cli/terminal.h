/*
 * The user's terminal while a command has a pseudo-terminal of its own: raw, so that keys reach the
 * command's line discipline instead of ours; or while we draw on it. As it was before on every way out. One at a
 * time, as there is one terminal.
 */
#ifndef KODA_CLI_TERMINAL_H
#define KODA_CLI_TERMINAL_H

#include <stdbool.h>

struct pty {
	int master; /* does not block */
	int slave;
};

/*
 * A new pseudo-terminal with the settings and the size of the terminal `like`, or 24 by 80 when that is
 * -1. 0, or -1 with errno.
 */
int terminal_open_pty(int like, struct pty *ret);

/* The size of `like` to the pseudo-terminal, whose foreground processes get SIGWINCH by that. */
void terminal_copy_size(int like, int master);

/* Does fd belong to our process group now? Who reads or sets it otherwise is stopped. */
bool terminal_is_ours(int fd);

/* Raw until terminal_restore(), which also runs at exit() and on signals that kill. No more than a try
 * when we are in the background: call it again after SIGCONT. */
void terminal_raw(int fd);
bool terminal_is_raw(void);
void terminal_restore(void);

/* The same, but keys come one by one and unseen, and those that make signals still do. */
void terminal_keys(int fd);
/* The terminal's other screen, without a cursor, until terminal_restore(). */
void terminal_screen(int fd);

#endif
