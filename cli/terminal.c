/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/output.h"

/* The state that a signal handler needs. */
static struct {
	int fd;
	struct termios before;
	volatile sig_atomic_t raw;
	int screen_fd;
	volatile sig_atomic_t screen;
} terminal;

/* The terminal cuts lines that are too long, even if a character is wider than we think. */
static const char enter_screen[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave_screen[] = "\033[?7h\033[?25h\033[?1049l";

static const struct winsize usual_size = { .ws_row = 24, .ws_col = 80 };

int
terminal_open_pty(int like, struct pty *ret)
{
	struct winsize size = usual_size;
	struct termios settings;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), slave;

	if (master < 0)
		return -1;
	/*
	 * By descriptor: the name could mean another one in the /dev/pts of the process that opens
	 * it.
	 */
	if (grantpt(master) < 0 || unlockpt(master) < 0 ||
	    (slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
		close(master);
		return -1;
	}
	if (like >= 0 && ioctl(like, TIOCGWINSZ, &size) < 0)
		size = usual_size;
	ioctl(master, TIOCSWINSZ, &size);
	/* When the terminal is raw already, its current settings are not the user's. */
	if (terminal.raw)
		tcsetattr(slave, TCSANOW, &terminal.before);
	else if (like >= 0 && tcgetattr(like, &settings) == 0)
		tcsetattr(slave, TCSANOW, &settings);
	ret->master = master;
	ret->slave = slave;
	return 0;
}

void
terminal_copy_size(int like, int master)
{
	struct winsize size;

	if (ioctl(like, TIOCGWINSZ, &size) == 0)
		ioctl(master, TIOCSWINSZ, &size);
}

bool
terminal_is_ours(int fd)
{
	return tcgetpgrp(fd) == getpgrp();
}

bool
terminal_is_raw(void)
{
	return terminal.raw;
}

/* Also called from a signal handler: makes system calls only. */
void
terminal_restore(void)
{
	sigset_t ttou, before;

	if (!terminal.raw && !terminal.screen)
		return;
	/* In the background this would stop us, and no other code would restore the terminal. */
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	sigprocmask(SIG_BLOCK, &ttou, &before);
	if (terminal.screen)
		(void)!write(terminal.screen_fd, leave_screen, sizeof(leave_screen) - 1);
	if (terminal.raw)
		tcsetattr(terminal.fd, TCSANOW, &terminal.before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	terminal.screen = terminal.raw = 0;
}

static void
on_fatal_signal(int signo)
{
	terminal_restore();
	/*
	 * The disposition is the default again (SA_RESETHAND); the signal is blocked until we
	 * return.
	 */
	raise(signo);
}

/*
 * Signals that kill by default and that the code running a command does not read from a signalfd.
 */
static void
catch_fatal_signals(void)
{
	static const int fatal[] = { SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGIO, SIGPROF,
		SIGPWR, SIGSEGV, SIGSTKFLT, SIGSYS, SIGTRAP, SIGVTALRM, SIGXCPU, SIGXFSZ };
	struct sigaction action = { .sa_handler = on_fatal_signal, .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		struct sigaction before;

		if (sigaction(fatal[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			sigaction(fatal[i], &action, NULL);
	}
}

static void
prepare(void)
{
	static bool prepared;

	if (prepared)
		return;
	catch_fatal_signals();
	if (atexit(terminal_restore) != 0)
		output_no_memory();
	prepared = true;
}

/* Changes the settings with `change`, if the terminal is ours and not changed already. */
static void
set(int fd, void (*change)(struct termios *))
{
	struct termios changed;

	if (terminal.raw || !terminal_is_ours(fd) || tcgetattr(fd, &terminal.before) < 0)
		return;
	prepare();
	changed = terminal.before;
	change(&changed);
	terminal.fd = fd;
	terminal.raw = 1;
	/* Not TCSAFLUSH: what has been typed ahead is for the command. */
	if (tcsetattr(fd, TCSADRAIN, &changed) < 0)
		terminal.raw = 0;
}

static void
single_keys(struct termios *settings)
{
	settings->c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	settings->c_cc[VMIN] = 1;
	settings->c_cc[VTIME] = 0;
}

void
terminal_raw(int fd)
{
	set(fd, cfmakeraw);
}

void
terminal_keys(int fd)
{
	set(fd, single_keys);
}

void
terminal_screen(int fd)
{
	if (terminal.screen || !terminal_is_ours(fd))
		return;
	prepare();
	terminal.screen_fd = fd;
	terminal.screen = 1;
	(void)!write(fd, enter_screen, sizeof(enter_screen) - 1);
}
