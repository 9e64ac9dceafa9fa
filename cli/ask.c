#include "cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "cli/output.h"
#include "show/asked.h"

#define COMMAND_BYTES_MAX 200 /* shown of a running command that wants to reach a host */

#define BOLD  "\033[1m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define CYAN  "\033[36m"
#define PLAIN "\033[0m"

/* A text that is read line by line, each with its newline. */
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

/* Drops the lines that both have at the beginning. Returns how many. */
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

/* Drops the lines that both have at the end, and leaves them in *ret. */
static void
cut_common(struct text *a, struct text *b, struct text *ret)
{
	const char *a_end = a->end, *b_end = b->end;

	*ret = (struct text){ a->end, a->end };
	while (a_end > a->p && b_end > b->p && a_end[-1] == b_end[-1]) {
		a_end--;
		b_end--;
		/* A line is common only if it begins here in both texts. */
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

/* Where a question is written, and whether part of it was left out. */
struct page {
	FILE *f;
	bool colour, cut;
};

static void
put(void *to, const void *data, size_t len)
{
	fwrite(data, 1, len, to);
}

static void
print_number(const struct page *page, uint64_t number)
{
	if (number > 0)
		fprintf(page->f, "%7llu ", (unsigned long long)number);
	else
		fprintf(page->f, "%7s ", "");
}

static void
print_counted(const struct page *page, size_t counted, const struct diff_style *style)
{
	if (counted > 0)
		fprintf(page->f, "%7s %s [%zu more empty lines]\n", "", style->mark, counted);
}

/* number: of the first line, 0 if unknown. */
static void
print_lines(struct page *page, struct text text, uint64_t number, const struct diff_style *style)
{
	const size_t n = count_lines(text);
	size_t empty = 0, counted;

	for (size_t i = 0; text.p < text.end; i++) {
		const char *line = text.p;
		size_t len = line_len(&text);

		text.p += len;
		if (asked_is_hidden(i, n)) {
			if (i != ASKED_LINES_HEAD)
				continue;
			asked_counts(&empty, NULL, 0, &counted);
			print_counted(page, counted, style);
			fprintf(page->f, "%7s %s [... %zu lines are left out here ...]\n", "",
			    style->mark, asked_hidden(n));
			page->cut = true;
			continue;
		}
		len -= line[len - 1] == '\n';
		if (asked_counts(&empty, line, len, &counted))
			continue;
		print_counted(page, counted, style);
		print_number(page, number > 0 ? number + i : 0);
		fprintf(page->f, "%s%s ", page->colour ? style->colour : "", style->mark);
		if (asked_line(line, len, put, page->f) > 0)
			page->cut = true;
		fprintf(page->f, "%s\n", page->colour ? PLAIN : "");
	}
	asked_counts(&empty, NULL, 0, &counted);
	print_counted(page, counted, style);
}

static bool
ends_in_newline(const struct text *text)
{
	return text->p < text->end && text->end[-1] == '\n';
}

static void
print_edit(struct page *page, const struct koda_edit *edit, uint64_t line)
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

	print_lines(page, head, at, &context_style);
	at += line > 0 ? n : 0;
	print_lines(page, old_text, at, &old_style);
	print_lines(page, new_text, at, &new_style);
	at += line > 0 ? count_lines(new_text) : 0;
	print_lines(page, tail, at, &context_style);
	/* Otherwise 'a' and 'a, newline' would look the same. */
	if (edit->old_len > 0 && edit->new_len > 0 && old_ends != new_ends)
		fprintf(page->f, "%7s (the %s text ends without a newline)\n", "",
		    old_ends ? "new" : "old");
}

static void
print_edits(struct page *page, const struct koda_edit *edits, const uint64_t *lines, size_t n_lines,
    size_t n_edits)
{
	for (size_t i = 0; i < n_edits; i++) {
		uint64_t line = lines != NULL && i < n_lines ? lines[i] : 0;

		fputs(page->colour ? CYAN : "", page->f);
		fputs(edits[i].all ? "@@ each occurrence" : "@@ once", page->f);
		if (line > 0)
			fprintf(page->f,
			    edits[i].all ? ", the first in line %llu" : ", in line %llu",
			    (unsigned long long)line);
		fprintf(page->f, " @@%s\n", page->colour ? PLAIN : "");
		print_edit(page, &edits[i], line);
	}
}

void
ask_print_edits(FILE *f, bool colour, const struct koda_edit *edits, const uint64_t *lines,
    size_t n_lines, size_t n_edits)
{
	struct page page = { f, colour, false };

	print_edits(&page, edits, lines, n_lines, n_edits);
}

static void
print_path(struct page *page, const char *path)
{
	fprintf(page->f, "'%s", page->colour ? BOLD : "");
	asked_show(path, strlen(path), false, put, page->f);
	fprintf(page->f, "%s'", page->colour ? PLAIN : "");
}

/* Prints what is to be written; of a stream only the beginning, which is all that was read yet. */
static void
print_preview(struct page *page, const void *data, size_t len, unsigned long long of)
{
	if (memchr(data, '\0', len) != NULL) {
		fputs("    (binary)\n", page->f);
		return;
	}
	print_lines(page, text_of(data, len), 1, &new_style);
	if (len >= of)
		return;
	fprintf(page->f, "    [... %llu bytes are left out here ...]\n", of - len);
	page->cut = true;
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

static void
print_word_part(struct page *page, const char *p, size_t len)
{
	const char *end = p + len;

	while (p < end) {
		const char *quote = memchr(p, '\'', (size_t)(end - p));
		size_t n = (size_t)((quote != NULL ? quote : end) - p);

		asked_show(p, n, false, put, page->f);
		if (quote != NULL)
			fputs("'\\''", page->f);
		p += n + (quote != NULL);
	}
}

/* Prints the word quoted for a shell, in one line and escaped. */
static void
print_word(struct page *page, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:=@_";
	const size_t len = strlen(word);
	size_t head, tail;

	if (len > 0 && len <= ASKED_LINE_MAX && word[strspn(word, plain)] == '\0') {
		fputs(word, page->f);
		return;
	}
	fputc('\'', page->f);
	if (asked_split(word, len, &head, &tail)) {
		print_word_part(page, word, head);
		fprintf(page->f, ASKED_BYTES_CUT, tail - head);
		page->cut = true;
		word += tail;
	}
	print_word_part(page, word, strlen(word));
	fputc('\'', page->f);
}

static void
print_words(struct page *page, const char *const *words, const char *before, const char *after)
{
	size_t n = 0;

	while (words != NULL && words[n] != NULL)
		n++;
	for (size_t i = 0; i < n; i++) {
		if (!asked_is_hidden(i, n)) {
			fputs(before, page->f);
			print_word(page, words[i]);
			fputs(after, page->f);
		} else if (i == ASKED_LINES_HEAD) {
			fprintf(page->f, " [... %zu words are left out here ...]%s",
			    asked_hidden(n), after);
			page->cut = true;
		}
	}
}

static void
print_command(struct page *page, const struct koda_question *q)
{
	const char *const *argv = q->argv;

	print_words(page, q->env, "    with ", "\n");
	/* A script has lines, and is read line by line. */
	if (argv[0] != NULL && strcmp(argv[0], "sh") == 0 && argv[1] != NULL &&
	    strcmp(argv[1], "-c") == 0 && argv[2] != NULL && argv[3] == NULL) {
		fputs("    sh -c\n", page->f);
		print_lines(page, text_of(argv[2], strlen(argv[2])), 1, &new_style);
		return;
	}
	fputs("   ", page->f);
	print_words(page, argv, " ", "");
	fputc('\n', page->f);
}

/*
 * The command is named only for information: the approval is for the host and the port, which are
 * shown in full.
 */
static bool
print_host_question(struct page *page, const struct ask *ask, const struct koda_question *q)
{
	if (q->host == NULL)
		return false;
	/* The command is running, and its output may be in the middle of a line. */
	fputs("\nkoda-sandbox: ", page->f);
	if (ask->command != NULL) {
		size_t len = strlen(ask->command);

		fputc('\'', page->f);
		asked_show(ask->command, len < COMMAND_BYTES_MAX ? len : COMMAND_BYTES_MAX, false,
		    put, page->f);
		fprintf(page->f, "%s' ", len > COMMAND_BYTES_MAX ? " ..." : "");
	} else {
		fputs("a command ", page->f);
	}
	fprintf(page->f, "wants to reach '%s", page->colour ? BOLD : "");
	asked_show(q->host, strlen(q->host), false, put, page->f);
	fprintf(page->f, ":%u%s', which no rule names\n", q->port, page->colour ? PLAIN : "");
	fputs("Allow this? [o]nce, for this [s]ession, [N]o ", page->f);
	return true;
}

static void
print_sizes(struct page *page, const struct koda_question *q)
{
	if (q->kind == KODA_OP_WRITE || q->kind == KODA_OP_EDIT) {
		if (q->type != KODA_FILE_NONE)
			fprintf(page->f, ", %llu ->", (unsigned long long)q->size_before);
		fprintf(page->f, "%s %llu bytes", q->type == KODA_FILE_NONE ? "," : "",
		    (unsigned long long)q->size_after);
	}
	if (q->kind == KODA_OP_EDIT)
		fprintf(page->f, ", %llu replacement%s", (unsigned long long)q->replacements,
		    q->replacements == 1 ? "" : "s");
	if (q->kind == KODA_OP_REMOVE && q->type == KODA_FILE_DIRECTORY)
		fprintf(page->f, ", %llu names go", (unsigned long long)q->entries);
	else if (q->kind == KODA_OP_REMOVE)
		fprintf(page->f, ", %llu bytes", (unsigned long long)q->size_before);
}

/* Returns false if the user cannot be asked about that. */
static bool
print_body(struct page *page, const struct ask *ask, const struct koda_question *q)
{
	const char *verb = verb_of(q);

	if (q->kind == KODA_OP_CONNECT)
		return print_host_question(page, ask, q);
	if (verb == NULL || (q->kind == KODA_OP_RUN && (q->argv == NULL || q->cwd == NULL)))
		return false;
	fprintf(page->f, "koda-sandbox: %s ", verb);
	print_path(page, q->kind == KODA_OP_RUN ? q->cwd : q->path);
	if (q->kind == KODA_OP_RENAME && q->to != NULL) {
		fputs(" to ", page->f);
		print_path(page, q->to);
	}
	print_sizes(page, q);
	fputc('\n', page->f);

	if (q->kind == KODA_OP_EDIT)
		print_edits(page, q->edits, q->lines, q->lines != NULL ? q->n_edits : 0,
		    q->n_edits);
	if (q->kind == KODA_OP_WRITE && q->data != NULL && q->len > 0)
		print_preview(page, q->data, q->len, q->len);
	else if (q->kind == KODA_OP_WRITE && ask->preview_len > 0)
		print_preview(page, ask->preview, ask->preview_len, ask->preview_of);
	if (q->kind == KODA_OP_RUN)
		print_command(page, q);
	fputs("Allow this? [y/N] ", page->f);
	return true;
}

/*
 * Prints the question to memory first: whether something was left out is known only at the end, but
 * must be said at the beginning.
 */
static bool
print_question(FILE *f, bool colour, const struct ask *ask, const struct koda_question *q)
{
	char *text = NULL;
	size_t len = 0;
	struct page page = { open_memstream(&text, &len), colour, false };
	bool good = page.f != NULL && print_body(&page, ask, q);

	if (page.f != NULL && (ferror(page.f) != 0 || fclose(page.f) != 0))
		good = false;
	if (good && page.cut)
		fputs(
		    "koda-sandbox: NOT ALL OF THIS IS SHOWN: parts are left out where [...] stands\n",
		    f);
	if (good)
		fwrite(text, 1, len, f);
	free(text);
	return good && fflush(f) == 0 && !ferror(f);
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
