/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/show.h"

static struct page_medium
medium_of(int tty)
{
	struct page_medium medium = { .style = output_colour(tty) ? PAGE_COLOUR : PAGE_TERMINAL };
	struct winsize size;

	if (ioctl(tty, TIOCGWINSZ, &size) == 0)
		medium.columns = size.ws_col;
	return medium;
}

static bool
print_question(FILE *f, int tty, const struct ask *ask, const struct koda_question *q)
{
	bool cut;

	if (!question_show(q, &ask->about, medium_of(tty), show_put, f, &cut))
		return false;
	fputs(q->kind == KODA_OP_CONNECT ? "Allow this? [o]nce, for this [s]ession, [N]o "
					 : "Allow this? [y/N] ",
	    f);
	return fflush(f) == 0 && !ferror(f);
}

/*
 * Reads a line from the terminal, cut to size: a longer line is never a yes. Returns false if there
 * is none.
 */
static bool
read_answer(int tty, char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		char c;
		ssize_t r = read(tty, &c, 1);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false; /* end of file, or a hang-up */
		if (c == '\n')
			break;
		if (n < size - 1)
			line[n++] = c;
	}
	line[n] = '\0';
	return true;
}

static enum koda_scope
read_scope(int tty, enum koda_op_kind kind)
{
	static const struct {
		const char *word;
		bool of_host;
		enum koda_scope scope;
	} answers[] = {
		{ "y", false, KODA_SCOPE_ONCE },
		{ "yes", false, KODA_SCOPE_ONCE },
		{ "o", true, KODA_SCOPE_ONCE },
		{ "once", true, KODA_SCOPE_ONCE },
		{ "s", true, KODA_SCOPE_SESSION },
		{ "session", true, KODA_SCOPE_SESSION },
	};
	char line[16];

	if (!read_answer(tty, line, sizeof(line)))
		return KODA_SCOPE_NO;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if ((!answers[i].of_host || kind == KODA_OP_CONNECT) &&
		    strcasecmp(line, answers[i].word) == 0)
			return answers[i].scope;
	}
	return KODA_SCOPE_NO;
}

bool
ask_possible(void)
{
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (tty >= 0)
		close(tty);
	return tty >= 0;
}

bool
ask_yes(struct ask *ask, const struct koda_question *question)
{
	return ask_scope(ask, question) != KODA_SCOPE_NO;
}

enum koda_scope
ask_scope(struct ask *ask, const struct koda_question *question)
{
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	enum koda_scope scope = KODA_SCOPE_NO;
	int copy;
	FILE *f;

	if (tty < 0) {
		ask->nobody = true;
		return KODA_SCOPE_NO;
	}
	copy = fcntl(tty, F_DUPFD_CLOEXEC, 3);
	f = copy >= 0 ? fdopen(copy, "w") : NULL;
	if (f == NULL && copy >= 0)
		close(copy);
	if (f != NULL) {
		/* What was typed before the question appeared does not answer it. */
		tcflush(tty, TCIFLUSH);
		if (print_question(f, tty, ask, question))
			scope = read_scope(tty, question->kind);
		fclose(f);
	}
	close(tty);
	return scope;
}

void
ask_user(struct ask *ask, const struct koda_question *question)
{
	koda_approval_answer_scope(question->approval, ask_scope(ask, question));
}
