/*
 * A command's standard input, output and error: which descriptors it is given for ours, and the bytes
 * that have to be carried between the two.
 *
 *	a pipe, a file, /dev/null      is passed on as it is: nothing to carry. But standard error is carried,
 *	                               to be searched for refusals, and standard output with it when the two
 *	                               are one file, in which their order is to stay
 *	a socket, any other device     a pipe, and we carry: a socket could hand over descriptors
 *	a terminal                     never itself: whoever holds it reads every key that is typed later
 *
 * Instead of a terminal there is a pseudo-terminal. It is the command's controlling one, with job
 * control and our own terminal raw, when both standard input and output are terminals (or with --tty):
 * only then nobody else is at our terminal. In 'run -- make | less' it is less who reads the keys and
 * chooses the settings, so standard input is carried through a pipe, line by line, as the terminal
 * gives them. In 'generate | run -- colourful' the output alone is a pseudo-terminal, which has a size
 * and makes isatty() true, and no key ever arrives in it.
 */
#ifndef KODA_CLI_STREAMS_H
#define KODA_CLI_STREAMS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/escapes.h"

enum streams_tty {
	STREAMS_TTY_FITTING, /* one where ours is one */
	STREAMS_TTY_ALWAYS,
	STREAMS_TTY_NEVER,
};

#define STREAMS_CHUNK 65536

/* What was carried, as far as it is searched for refusals: its beginning and its end. */
#define HEARD_HALF (128u << 10)

struct heard {
	char *head, *tail; /* HEARD_HALF, and twice that */
	size_t head_len, tail_len;
};

/* One direction of one stream. */
struct pump {
	int from, to;         /* from -1: there is nothing to carry (any more) */
	bool terminal_output; /* to a person's terminal: through escapes_filter() */
	bool ended;           /* from has ended; what is in data is still to be written */
	bool heard;
	bool lost; /* nobody takes it any more: read and dropped */
	struct escapes escapes;
	size_t at, len;
	char *data; /* STREAMS_CHUNK + ESCAPES_HELD_MAX, once there is something to carry */
};

#define STREAMS_POLL_MAX 3

struct streams {
	int give[3];  /* for the command, ours to close; -1: it is captured */
	bool tty;     /* give[0] is a pseudo-terminal that is to be the command's own */
	bool capture; /* standard output and error are captured: --json */
	/* The pseudo-terminal, -1: there is none. Its slave stays open as long as the command, which may
	 * close it and open /dev/tty again: between the two it must not look ended. */
	int master, slave;
	int terminal;   /* the user's, -1: there is none among the three */
	bool line_open; /* the last byte typed for it ended no line */
	struct pump in, out, err;
	struct heard heard;
	int lost; /* errno of the first write to our standard output or error that failed, or 0 */
};

/*
 * May the file that standard input was redirected from be given to the command as it is? Its descriptor
 * is of the host's view: through /proc the command could open it again, for writing, past the mounts
 * that make it read-only inside.
 */
typedef bool streams_may_pass_fn(void *data, int fd);

void streams_init(struct streams *s);
/* hear: keep what is printed to standard error, or to a terminal. 0, or -1 with errno; streams_done() in
 * either case. */
int streams_open(struct streams *s, enum streams_tty tty, bool capture, bool hear,
    streams_may_pass_fn *may_pass, void *data);
/* The command has been started: what it was given is closed here. */
void streams_given(struct streams *s);
void streams_done(struct streams *s);

/* What has to be waited for; fills at most STREAMS_POLL_MAX and returns how many. over: as below. */
size_t streams_poll(const struct streams *s, bool over, struct pollfd *fds);
/* Is standard input a terminal in whose background we are? No event tells the end of that. */
bool streams_waits(const struct streams *s);
/* Carry what can be carried without waiting. over: the command is, what is not there now never comes. */
void streams_carry(struct streams *s, bool over);
/* Has all that the command printed been carried? */
bool streams_drained(const struct streams *s);

#endif
