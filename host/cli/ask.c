#include "host/cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "host/cli/output.h"
#include "host/cli/show.h"

/* What fits before a reader's eyes; what does not is counted, never silently left out. */
#define SHOWN_LINES_MAX   500 /* of the old and of the new text of one replacement */
#define PREVIEW_LINES_MAX 20
#define SHOWN_BYTES_MAX   2000 /* of a line */
#define COMMAND_BYTES_MAX 200  /* of a command that runs already */

#define BOLD  "\033[1m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define CYAN  "\033[36m"
#define PLAIN "\033[0m"

/* A text cut into lines, one after the other, each with its newline. */
struct text {
	const char *p, *end;
};

static struct text
text_of(const void *data, size_t len)
{
	return (struct text){ data, len > 0 ? (const char *)data + len : data };
}

static size_t
line_len(const struct text *text)
{
	size_t left = (size_t)(text->end - text->p);
	const char *newline = left > 0 ? memchr(text->p, '\n', left) : NULL;

	return newline != NULL ? (size_t)(newline - text->p) + 1 : left;
}

static size_t
count_lines(struct text text)
{
	size_t n = 0;

	for (; text.p < text.end; n++)
		text.p += line_len(&text);
	return n;
}

/* Drop the lines at the beginning that both have: returns how many. */
static size_t
skip_common(struct text *a, struct text *b)
{
	size_t n = 0;

	while (a->p < a->end && b->p < b->end) {
		size_t len = line_len(a);

		if (len != line_len(b) || memcmp(a->p, b->p, len) != 0)
			break;
		a->p += len;
		b->p += len;
		n++;
	}
	return n;
}

/* The same at the end; the common lines are left in *ret. */
static void
cut_common(struct text *a, struct text *b, struct text *ret)
{
	const char *a_end = a->end, *b_end = b->end;

	*ret = (struct text){ a->end, a->end };
	while (a_end > a->p && b_end > b->p && a_end[-1] == b_end[-1]) {
		a_end--;
		b_end--;
		/* A whole line is common when in both something ends before it. */
		if ((a_end == a->p || a_end[-1] == '\n') && (b_end == b->p || b_end[-1] == '\n')) {
			a->end = ret->p = a_end;
			b->end = b_end;
		}
	}
}

struct diff_style {
	const char *colour, *mark;
};
static const struct diff_style context_style = { "", " " };
static const struct diff_style old_style = { RED, "-" };
static const struct diff_style new_style = { GREEN, "+" };

/* number: of the first line, 0 if it is not known. */
static void
print_lines(FILE *f, bool colour, struct text text, uint64_t number, const struct diff_style *style)
{
	size_t n = 0;

	for (; text.p < text.end && n < SHOWN_LINES_MAX; n++) {
		size_t len = line_len(&text), shown = len;
		bool ends = text.p[len - 1] == '\n';

		if (number > 0)
			fprintf(f, "%7llu ", (unsigned long long)(number + n));
		else
			fprintf(f, "%7s ", "");
		if (ends)
			shown--;
		fprintf(f, "%s%s ", colour ? style->colour : "", style->mark);
		show(f, text.p, shown < SHOWN_BYTES_MAX ? shown : SHOWN_BYTES_MAX, SHOW_TABS);
		fputs(colour ? PLAIN : "", f);
		if (shown > SHOWN_BYTES_MAX)
			fprintf(f, " ... and %zu more bytes in this line", shown - SHOWN_BYTES_MAX);
		fputc('\n', f);
		text.p += len;
	}
	if (text.p < text.end)
		fprintf(f, "%7s %s ... and %zu more lines\n", "", style->mark, count_lines(text));
}

static bool
ends_in_newline(const struct text *text)
{
	return text->p < text->end && text->end[-1] == '\n';
}

static void
print_edit(FILE *f, bool colour, const struct koda_edit *edit, uint64_t line)
{
	struct text old_text = text_of(edit->old_text, edit->old_len);
	struct text new_text = text_of(edit->new_text, edit->new_len);
	struct text head = old_text, tail;
	bool old_ends = ends_in_newline(&old_text), new_ends = ends_in_newline(&new_text);
	uint64_t at = line;
	size_t n;

	n = skip_common(&old_text, &new_text);
	head.end = old_text.p;
	cut_common(&old_text, &new_text, &tail);

	print_lines(f, colour, head, at, &context_style);
	at += line > 0 ? n : 0;
	print_lines(f, colour, old_text, at, &old_style);
	print_lines(f, colour, new_text, at, &new_style);
	at += line > 0 ? count_lines(new_text) : 0;
	print_lines(f, colour, tail, at, &context_style);
	/* Otherwise 'a' and 'a, newline' would look the same. */
	if (edit->old_len > 0 && edit->new_len > 0 && old_ends != new_ends)
		fprintf(f, "%7s (the %s text ends without a newline)\n", "",
		    old_ends ? "new" : "old");
}

void
ask_print_edits(FILE *f, bool colour, const struct koda_edit *edits, const uint64_t *lines,
    size_t n_lines, size_t n_edits)
{
	for (size_t i = 0; i < n_edits; i++) {
		uint64_t line = lines != NULL && i < n_lines ? lines[i] : 0;

		fputs(colour ? CYAN : "", f);
		fputs(edits[i].all ? "@@ each occurrence" : "@@ once", f);
		if (line > 0)
			fprintf(f, edits[i].all ? ", the first in line %llu" : ", in line %llu",
			    (unsigned long long)line);
		fprintf(f, " @@%s\n", colour ? PLAIN : "");
		print_edit(f, colour, &edits[i], line);
	}
}

static void
print_path(FILE *f, bool colour, const char *path)
{
	fprintf(f, "'%s", colour ? BOLD : "");
	show_string(f, path);
	fprintf(f, "%s'", colour ? PLAIN : "");
}

/* The beginning of what is to be written. */
static void
print_preview(FILE *f, bool colour, const void *data, size_t len, unsigned long long of)
{
	struct text text = text_of(data, len), shown = text;
	size_t n = 0;

	if (memchr(data, '\0', len) != NULL) {
		fputs("    (binary)\n", f);
		return;
	}
	for (; text.p < text.end && n < PREVIEW_LINES_MAX; n++)
		text.p += line_len(&text);
	shown.end = text.p;
	print_lines(f, colour, shown, 1, &new_style);
	if (text.p < text.end || len < of)
		fprintf(f, "    ... and %llu more bytes\n",
		    of - (unsigned long long)(text.p - (const char *)data));
}

static const char *
verb_of(const struct koda_question *q)
{
	switch (q->kind) {
	case KODA_OP_WRITE:
		return q->type == KODA_FILE_NONE ? "create" : "replace";
	case KODA_OP_EDIT:
		return "edit";
	case KODA_OP_MKDIR:
		return "make the directory";
	case KODA_OP_REMOVE:
		switch (q->type) {
		case KODA_FILE_DIRECTORY:
			return "remove the directory";
		case KODA_FILE_SYMLINK:
			return "remove the symbolic link";
		case KODA_FILE_NONE:
		case KODA_FILE_REGULAR:
		case KODA_FILE_OTHER:
			return "remove";
		}
		return "remove";
	case KODA_OP_RENAME:
		return "move";
	case KODA_OP_RUN:
		return "run in";
	case KODA_OP_CONNECT: /* print_host_question */
	case KODA_OP_PING:
	case KODA_OP_READ:
	case KODA_OP_STAT:
	case KODA_OP_LIST:
	case KODA_OP_EXPLAIN:
		break;
	}
	return NULL;
}

/* As a shell would have to be told it, in one line and with nothing raw. */
static void
print_word(FILE *f, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:=@_";

	if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
		fputs(word, f);
		return;
	}
	fputc('\'', f);
	for (size_t len; *word != '\0'; word += len) {
		len = strcspn(word, "'");
		show(f, word, len, 0);
		if (word[len] == '\'') {
			fputs("'\\''", f);
			len++;
		}
	}
	fputc('\'', f);
}

static void
print_command(FILE *f, bool colour, const struct koda_question *q)
{
	const char *const *argv = q->argv;

	for (size_t i = 0; q->env != NULL && q->env[i] != NULL; i++) {
		fputs("    with ", f);
		print_word(f, q->env[i]);
		fputc('\n', f);
	}
	/* A script has lines, and they are read as lines. */
	if (argv[0] != NULL && strcmp(argv[0], "sh") == 0 && argv[1] != NULL &&
	    strcmp(argv[1], "-c") == 0 && argv[2] != NULL && argv[3] == NULL) {
		fputs("    sh -c\n", f);
		print_lines(f, colour, text_of(argv[2], strlen(argv[2])), 1, &new_style);
		return;
	}
	fputs("   ", f);
	for (size_t i = 0; argv[i] != NULL; i++) {
		fputc(' ', f);
		print_word(f, argv[i]);
	}
	fputc('\n', f);
}

static bool
print_host_question(FILE *f, bool colour, const struct ask *ask, const struct koda_question *q)
{
	if (q->host == NULL)
		return false;
	/* It runs, and may be in the middle of a line. */
	fputs("\nkoda-sandbox: ", f);
	if (ask->command != NULL) {
		size_t len = strlen(ask->command);

		fputc('\'', f);
		show(f, ask->command, len < COMMAND_BYTES_MAX ? len : COMMAND_BYTES_MAX, 0);
		fprintf(f, "%s' ", len > COMMAND_BYTES_MAX ? " ..." : "");
	} else {
		fputs("a command ", f);
	}
	fprintf(f, "wants to reach '%s", colour ? BOLD : "");
	show_string(f, q->host);
	fprintf(f, ":%u%s', which no rule names\n", q->port, colour ? PLAIN : "");
	fputs("Allow this? [o]nce, for this [s]ession, [N]o ", f);
	return fflush(f) == 0 && !ferror(f);
}

/* False: nobody can be asked about that. */
static bool
print_question(FILE *f, bool colour, const struct ask *ask, const struct koda_question *q)
{
	const char *verb = verb_of(q);

	if (q->kind == KODA_OP_CONNECT)
		return print_host_question(f, colour, ask, q);
	if (verb == NULL || (q->kind == KODA_OP_RUN && (q->argv == NULL || q->cwd == NULL)))
		return false;
	fprintf(f, "koda-sandbox: %s ", verb);
	print_path(f, colour, q->kind == KODA_OP_RUN ? q->cwd : q->path);
	if (q->kind == KODA_OP_RENAME && q->to != NULL) {
		fputs(" to ", f);
		print_path(f, colour, q->to);
	}
	if (q->kind == KODA_OP_WRITE || q->kind == KODA_OP_EDIT) {
		if (q->type != KODA_FILE_NONE)
			fprintf(f, ", %llu ->", (unsigned long long)q->size_before);
		fprintf(f, "%s %llu bytes", q->type == KODA_FILE_NONE ? "," : "",
		    (unsigned long long)q->size_after);
	}
	if (q->kind == KODA_OP_EDIT)
		fprintf(f, ", %llu replacement%s", (unsigned long long)q->replacements,
		    q->replacements == 1 ? "" : "s");
	if (q->kind == KODA_OP_REMOVE && q->type == KODA_FILE_DIRECTORY)
		fprintf(f, ", %llu names go", (unsigned long long)q->entries);
	else if (q->kind == KODA_OP_REMOVE)
		fprintf(f, ", %llu bytes", (unsigned long long)q->size_before);
	fputc('\n', f);

	if (q->kind == KODA_OP_EDIT)
		ask_print_edits(f, colour, q->edits, q->lines, q->lines != NULL ? q->n_edits : 0,
		    q->n_edits);
	if (q->kind == KODA_OP_WRITE && q->data != NULL && q->len > 0)
		print_preview(f, colour, q->data, q->len, q->len);
	else if (q->kind == KODA_OP_WRITE && ask->preview_len > 0)
		print_preview(f, colour, ask->preview, ask->preview_len, ask->preview_of);
	if (q->kind == KODA_OP_RUN)
		print_command(f, colour, q);
	fputs("Allow this? [y/N] ", f);
	return fflush(f) == 0 && !ferror(f);
}

/* A line of the terminal; what is longer is no yes, whatever it goes on to say. False: there is none. */
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
			return false; /* an end of file, a hang-up */
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
		/* What was typed before the question was read is no answer to it. */
		tcflush(tty, TCIFLUSH);
		if (print_question(f, output_colour(tty), ask, question))
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
