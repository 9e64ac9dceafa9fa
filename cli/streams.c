/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/terminal.h"

/* A pipe that is writable takes this many bytes without blocking. */
#define WRITE_MAX 4096

_Static_assert(STREAMS_CHUNK <= HEARD_HALF, "what is read at once fits behind what is kept");

#define MEMORY_DEVICES 1 /* the major number of these: */

/* Devices that every process has and that lead nowhere. */
static bool
is_harmless_device(const struct stat *st)
{
	static const unsigned minors[] = { 3 /* null */, 5 /* zero */, 7 /* full */, 8 /* random */,
		9 /* urandom */ };

	if (!S_ISCHR(st->st_mode) || major(st->st_rdev) != MEMORY_DEVICES)
		return false;
	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
		if (minor(st->st_rdev) == minors[i])
			return true;
	}
	return false;
}

/* One that has a name is a file of the project, or of somewhere else. */
static bool
is_pipe(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISFIFO(st->st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

static bool
can_pass(int fd, streams_may_pass_fn *may_pass, void *data)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if (is_harmless_device(&st) || is_pipe(fd, &st))
		return true;
	return S_ISREG(st.st_mode) && may_pass(data, fd);
}

/* Above the standard descriptors: to the library 0 means none. */
static int
duplicate(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/*
 * Opens a pipe whose end `ours` (0: the reading end) is non-blocking; *ret_theirs is the command's.
 */
static int
open_pipe(int ours, int *ret_ours, int *ret_theirs)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	*ret_ours = fds[ours];
	*ret_theirs = fds[!ours];
	return 0;
}

static int
open_input(struct streams *s, streams_may_pass_fn *may_pass, void *data)
{
	if (s->tty) {
		s->in.from = STDIN_FILENO;
		s->in.to = s->master;
		return 0; /* give[0] is there already */
	}
	if (!isatty(STDIN_FILENO) && can_pass(STDIN_FILENO, may_pass, data)) {
		s->give[0] = duplicate(STDIN_FILENO);
		return s->give[0] < 0 ? -1 : 0;
	}
	s->in.from = STDIN_FILENO;
	return open_pipe(1, &s->in.to, &s->give[0]);
}

static bool
is_device(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && is_harmless_device(&st);
}

static bool
are_one_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	    x.st_ino == y.st_ino;
}

static int
give(struct streams *s, int as, int fd)
{
	s->give[as] = duplicate(fd);
	return s->give[as] < 0 ? -1 : 0;
}

static int
open_pump(struct streams *s, int fd, struct pump *pump, bool heard)
{
	struct stat st;

	pump->to = fd;
	pump->heard = heard;
	pump->terminal_output = isatty(fd);
	pump->file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	return open_pipe(0, &pump->from, &s->give[fd]);
}

static bool
has_terminal(const struct streams *s, int fd, enum streams_tty tty)
{
	return s->slave >= 0 && (isatty(fd) || (tty == STREAMS_TTY_ALWAYS && fd == STDOUT_FILENO));
}

static int
open_outputs(struct streams *s, enum streams_tty tty, bool hear, streams_may_pass_fn *may_pass,
    void *data)
{
	const bool apart = isatty(STDOUT_FILENO) || is_device(STDOUT_FILENO) ||
	    !are_one_file(STDOUT_FILENO, STDERR_FILENO);
	const bool pass = can_pass(STDOUT_FILENO, may_pass, data);

	if (has_terminal(s, STDOUT_FILENO, tty) && give(s, STDOUT_FILENO, s->slave) < 0)
		return -1;
	if (has_terminal(s, STDERR_FILENO, tty) && give(s, STDERR_FILENO, s->slave) < 0)
		return -1;
	if (s->give[1] < 0 && s->give[2] < 0 && (hear || !pass) && !apart)
		return open_pump(s, STDOUT_FILENO, &s->out, hear) < 0 ||
			give(s, STDERR_FILENO, s->give[1]) < 0
		    ? -1
		    : 0;
	if (s->give[1] < 0 &&
	    (pass ? give(s, STDOUT_FILENO, STDOUT_FILENO)
		  : open_pump(s, STDOUT_FILENO, &s->out, false)) < 0)
		return -1;
	if (s->give[2] >= 0)
		return 0;
	if (is_device(STDERR_FILENO) || (!hear && can_pass(STDERR_FILENO, may_pass, data)))
		return give(s, STDERR_FILENO, STDERR_FILENO);
	return open_pump(s, STDERR_FILENO, &s->err, hear);
}

static int
open_terminal(struct streams *s, enum streams_tty tty, bool hear)
{
	bool output = isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
	struct pty pty;

	s->tty = tty == STREAMS_TTY_ALWAYS ||
	    (tty == STREAMS_TTY_FITTING && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
	if (!s->tty && (tty == STREAMS_TTY_NEVER || !output))
		return 0;
	if (terminal_open_pty(s->terminal, &pty) < 0)
		return -1;
	s->master = pty.master;
	s->slave = pty.slave;
	if (s->tty) {
		s->give[0] = duplicate(pty.slave);
		if (s->give[0] < 0)
			return -1;
	} else {
		struct termios settings;

		/* Our own terminal is not raw then, and converts line ends itself. */
		if (tcgetattr(pty.slave, &settings) == 0) {
			settings.c_oflag &= ~(tcflag_t)OPOST;
			settings.c_lflag &= ~(tcflag_t)ECHO;
			tcsetattr(pty.slave, TCSANOW, &settings);
		}
	}
	s->out.from = s->master;
	s->out.to = s->tty || isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO;
	s->out.terminal_output = isatty(s->out.to);
	s->out.heard = hear;
	return 0;
}

static void
empty_pump(struct pump *p)
{
	p->from = p->to = -1;
	p->terminal_output = p->ended = p->heard = p->lost = p->file = false;
	p->escapes = (struct escapes){ 0 };
	p->data = NULL;
	p->at = p->len = 0;
}

void
streams_init(struct streams *s)
{
	s->capture = s->tty = s->line_open = false;
	s->master = s->slave = s->terminal = -1;
	s->lost = 0;
	s->heard = (struct heard){ 0 };
	empty_pump(&s->in);
	empty_pump(&s->out);
	empty_pump(&s->err);
	for (int fd = 0; fd < 3; fd++)
		s->give[fd] = -1;
}

int
streams_open(struct streams *s, enum streams_tty tty, bool capture, bool hear,
    streams_may_pass_fn *may_pass, void *data)
{
	s->capture = capture;
	for (int fd = 2; fd >= 0; fd--) {
		if (isatty(fd))
			s->terminal = fd;
	}
	if (capture)
		return open_input(s, may_pass, data);
	if (open_terminal(s, tty, hear) < 0 || open_input(s, may_pass, data) < 0)
		return -1;
	return open_outputs(s, tty, hear, may_pass, data);
}

static void
close_end(const struct streams *s, int *fd)
{
	/* Our standard descriptors stay open; the master belongs to both input and output. */
	if (*fd > STDERR_FILENO && *fd != s->master)
		close(*fd);
	*fd = -1;
}

void
streams_given(struct streams *s)
{
	for (int i = 0; i < 3; i++) {
		if (s->give[i] >= 0)
			close(s->give[i]);
		s->give[i] = -1;
	}
}

void
streams_done(struct streams *s)
{
	streams_given(s);
	close_end(s, &s->in.from);
	close_end(s, &s->in.to);
	close_end(s, &s->out.from);
	close_end(s, &s->err.from);
	if (s->master >= 0)
		close(s->master);
	if (s->slave >= 0)
		close(s->slave);
	s->master = s->slave = -1;
	free(s->in.data);
	free(s->out.data);
	free(s->err.data);
	free(s->heard.head);
	free(s->heard.tail);
	s->heard = (struct heard){ 0 };
	s->in.data = s->out.data = s->err.data = NULL;
}

/*
 * May standard input be read now? If we are in the background of a terminal, reading would stop us.
 */
static bool
input_is_ours(const struct streams *s)
{
	return !isatty(s->in.from) || terminal_is_ours(s->in.from);
}

static size_t
poll_pump(const struct pump *p, struct pollfd *fds)
{
	if (p->len > 0) {
		*fds = (struct pollfd){ .fd = p->to, .events = POLLOUT };
		return 1;
	}
	if (p->from < 0 || p->ended)
		return 0;
	*fds = (struct pollfd){ .fd = p->from, .events = POLLIN };
	return 1;
}

bool
streams_waits(const struct streams *s)
{
	return s->in.from >= 0 && !input_is_ours(s);
}

size_t
streams_poll(const struct streams *s, bool over, struct pollfd *fds)
{
	size_t n = 0;

	if (!over && (s->in.len > 0 || (s->in.from >= 0 && input_is_ours(s))))
		n += poll_pump(&s->in, fds + n);
	n += poll_pump(&s->out, fds + n);
	n += poll_pump(&s->err, fds + n);
	return n;
}

static bool
is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) > 0 && p.revents != 0;
}

/* The reader is gone. Closes a pipe, so that the writer sees that as it would without us. */
static void
lose(struct streams *s, struct pump *p)
{
	p->len = 0;
	p->lost = true;
	if (p->from != s->master || p == &s->in)
		close_end(s, &p->from);
}

static void
write_some(struct streams *s, struct pump *p)
{
	size_t len = p->len > WRITE_MAX && !p->file ? WRITE_MAX : p->len;
	ssize_t n;

	if (!is_ready(p->to, POLLOUT))
		return;
	n = write(p->to, p->data + p->at, len);
	if (n > 0) {
		p->at += (size_t)n;
		p->len -= (size_t)n;
	} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
		if (s->lost == 0 && p != &s->in)
			s->lost = errno;
		lose(s, p);
	}
}

/* Standard input has ended: signals that to the command. */
static void
end_input(struct streams *s)
{
	struct termios settings;
	char eof;

	close_end(s, &s->in.from);
	if (s->in.to != s->master) {
		close_end(s, &s->in.to);
		return;
	}
	if (s->master < 0 || tcgetattr(s->master, &settings) < 0)
		return;
	/* After part of a line the first EOF character only delivers that part. */
	eof = (char)settings.c_cc[VEOF];
	s->in.data[0] = s->in.data[1] = eof;
	s->in.at = 0;
	s->in.len = s->line_open ? 2 : 1;
}

static void
hear(struct heard *h, const char *data, size_t len)
{
	size_t n = HEARD_HALF - h->head_len;

	if (h->head == NULL) {
		h->head = output_alloc(HEARD_HALF);
		h->tail = output_alloc(2 * HEARD_HALF);
	}
	if (n > len)
		n = len;
	memcpy(h->head + h->head_len, data, n);
	h->head_len += n;
	data += n;
	len -= n;
	if (h->tail_len + len > 2 * HEARD_HALF) {
		size_t keep = h->tail_len < HEARD_HALF ? h->tail_len : HEARD_HALF;

		memmove(h->tail, h->tail + h->tail_len - keep, keep);
		h->tail_len = keep;
	}
	memcpy(h->tail + h->tail_len, data, len);
	h->tail_len += len;
}

static void
read_some(struct streams *s, struct pump *p, bool over)
{
	ssize_t n;

	if (p == &s->in && (!input_is_ours(s) || !is_ready(p->from, POLLIN)))
		return;
	if (p->data == NULL)
		p->data = output_alloc(STREAMS_CHUNK + ESCAPES_HELD_MAX);
	p->at = p->terminal_output ? ESCAPES_HELD_MAX : 0;
	n = read(p->from, p->data + p->at, STREAMS_CHUNK);
	if (n < 0 && (errno == EINTR || (errno == EAGAIN && !over)))
		return;
	if (n > 0 && p->heard)
		hear(&s->heard, p->data + p->at, (size_t)n);
	if (n > 0 && p->lost)
		return;
	if (n > 0 && p->terminal_output) {
		p->len = escapes_filter(&p->escapes, p->data + p->at, (size_t)n, p->data);
		p->at = 0;
		return;
	}
	if (n > 0) {
		p->len = (size_t)n;
		s->line_open = p == &s->in ? p->data[n - 1] != '\n' : s->line_open;
		return;
	}
	/* A pseudo-terminal fails with EIO when no process has its other side open. */
	p->ended = true;
	if (p == &s->in)
		end_input(s);
}

void
streams_carry(struct streams *s, bool over)
{
	struct pump *const pumps[] = { &s->in, &s->out, &s->err };

	if (over && s->slave >= 0) {
		close(s->slave);
		s->slave = -1;
	}
	for (size_t i = 0; i < sizeof(pumps) / sizeof(pumps[0]); i++) {
		struct pump *p = pumps[i];

		if (p == &s->in && over)
			continue;
		if (p->len == 0 && p->from >= 0 && !p->ended)
			read_some(s, p, over);
		if (p->len > 0 && p->to >= 0)
			write_some(s, p);
	}
}

static bool
is_drained(const struct pump *p)
{
	return p->from < 0 || (p->ended && p->len == 0);
}

bool
streams_drained(const struct streams *s)
{
	return is_drained(&s->out) && is_drained(&s->err);
}
