/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's standard input, output and error: which descriptors it gets in place of ours, and the
 * bytes that have to be copied between the two.
 *
 *	a pipe, /dev/null              is passed on as it is: nothing to copy. But standard error
 *	                               is copied, to be searched for refusals, and so is standard
 *	                               output if the two are one file, whose order must be kept
 *	a file                         likewise, if the command may write it anyway; otherwise a
 *	                               pipe, and we copy: its descriptor would let the command
 *	                               change the mode, and what is in the file already
 *	a socket, a FIFO with a name,  a pipe, and we copy: a socket could hand over descriptors
 *	any other device
 *	a terminal                     never itself: a process that holds it reads every later key
 *
 * Instead of a terminal the command gets a pseudo-terminal. If both standard input and output are
 * terminals (or with --tty), it is the command's controlling terminal, with job control, and our
 * own terminal is raw: only then no other program uses our terminal. In 'run -- make | less' it is
 * less that reads the keys and chooses the settings, so standard input is copied through a pipe,
 * line by line, as the terminal delivers it. In 'generate | run -- colourful' only the output is a
 * pseudo-terminal, which has a size and makes isatty() true; no key ever arrives in it.
 */
#ifndef KODA_CLI_STREAMS_H
#define KODA_CLI_STREAMS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/escapes.h"

enum streams_tty {
	STREAMS_TTY_FITTING, /* a pseudo-terminal where ours is a terminal */
	STREAMS_TTY_ALWAYS,
	STREAMS_TTY_NEVER,
};

#define STREAMS_CHUNK 65536

/* The part of the copied output that is searched for refusals: its beginning and its end. */
#define HEARD_HALF (128u << 10)

struct heard {
	char *head, *tail; /* HEARD_HALF, and twice that */
	size_t head_len, tail_len;
};

/* One direction of one stream. */
struct pump {
	int from, to;         /* from -1: there is nothing (more) to copy */
	bool terminal_output; /* to a person's terminal: through escapes_filter() */
	bool ended;           /* from has ended; the rest in data is still to be written */
	bool heard;
	bool lost; /* the reader is gone: read and drop */
	bool file; /* to a regular file, which takes all at once */
	struct escapes escapes;
	size_t at, len;
	char *data; /* STREAMS_CHUNK + ESCAPES_HELD_MAX, allocated when first needed */
};

#define STREAMS_POLL_MAX 3

struct streams {
	int give[3];  /* for the command, ours to close; -1: it is captured */
	bool tty;     /* give[0] is a pseudo-terminal to become the command's controlling one */
	bool capture; /* standard output and error are captured: --json */
	/*
	 * The pseudo-terminal, or -1. The slave stays open as long as the command runs: the command
	 * may close it and open /dev/tty again, and in between it must not look ended.
	 */
	int master, slave;
	int terminal;   /* the user's; -1: none of the three descriptors is a terminal */
	bool line_open; /* the last byte typed did not end a line */
	struct pump in, out, err;
	struct heard heard;
	int lost; /* errno of the first write to our standard output or error that failed, or 0 */
};

/*
 * May the file that a standard descriptor was redirected from or to be given to the command as it is?
 * Its descriptor belongs to the host's mounts: the command could change its mode, and through /proc
 * open it again, for writing, past the mounts that make it read-only inside.
 */
typedef bool streams_may_pass_fn(void *data, int fd);

void streams_init(struct streams *s);
/*
 * Opens the streams. hear: keep what is printed to standard error, or to a terminal. Returns 0, or
 * -1 with errno; call streams_done() in either case.
 */
int streams_open(struct streams *s, enum streams_tty tty, bool capture, bool hear,
    streams_may_pass_fn *may_pass, void *data);
/* The command has been started: closes the descriptors that were given to it. */
void streams_given(struct streams *s);
void streams_done(struct streams *s);

/* Fills in what to wait for, at most STREAMS_POLL_MAX, and returns how many. over: as below. */
size_t streams_poll(const struct streams *s, bool over, struct pollfd *fds);
/* Is standard input a terminal in whose background we are? No event reports the end of that. */
bool streams_waits(const struct streams *s);
/* Copies what can be copied without waiting. over: the command is over, nothing more will come. */
void streams_carry(struct streams *s, bool over);
/* Has everything that the command printed been copied? */
bool streams_drained(const struct streams *s);

#endif
