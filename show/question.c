/* SPDX-License-Identifier: Apache-2.0 */
#include "show/question.h"

#include <stdlib.h>
#include <string.h>

#include "show/asked.h"
#include "show/diff.h"
#include "show/edited.h"

#define COMMAND_BYTES_MAX 200 /* shown of a running command that wants to reach a host */

#define CUT                                                                                        \
	"NOT ALL OF THIS IS SHOWN: [...] marks what is left out, so it can be allowed once only."

/* The differences between the styles. */
struct layout {
	const char *cut_begin, *cut_end; /* around CUT, which comes before everything else */
	const char *begin;               /* of every question */
	const char *interrupts;          /* before one that comes while a command prints */
	const char *indent;              /* before each line of ours below the first */
	const char *gap;                 /* between the first line and the lines of a file */
	bool moved_type;                 /* whether a move says what is moved */
	const char *to;                  /* before the new name of a move */
	const char *port, *port_end;     /* around the port, after the host's name */
};

static const struct layout terminal = {
	.cut_begin = "koda-sandbox: ",
	.cut_end = "\n",
	.begin = "koda-sandbox: ",
	.interrupts = "\n",
	.indent = "    ",
	.gap = "",
	.moved_type = false,
	.to = " to ",
	.port = ":",
	.port_end = "'",
};

static const struct layout message = {
	.cut_begin = "",
	.cut_end = " ",
	.begin = "Allow this? ",
	.interrupts = "",
	.indent = "",
	.gap = "\n",
	.moved_type = true,
	.to = "\nto ",
	.port = "', port ",
	.port_end = "",
};

static const struct layout *const layouts[PAGE_STYLES] = {
	[PAGE_TERMINAL] = &terminal,
	[PAGE_COLOUR] = &terminal,
	[PAGE_MESSAGE] = &message,
};

static const struct layout *
layout_of(const struct page *page)
{
	return layouts[page->medium.style];
}

static const char *
type_in_words(enum koda_file_type type)
{
	switch (type) {
	case KODA_FILE_DIRECTORY:
		return "directory";
	case KODA_FILE_SYMLINK:
		return "symbolic link";
	case KODA_FILE_REGULAR:
		return "file";
	case KODA_FILE_NONE:
	case KODA_FILE_OTHER:
		break;
	}
	return "special file";
}

/* ---- the content of a file ---- */

static bool
is_text(const void *data, size_t len)
{
	return len == 0 || memchr(data, '\0', len) == NULL;
}

/* Shows the diff of the whole file, if the content that was read and the library's counts agree. */
static bool
show_edit_whole(struct page *page, const struct koda_question *q,
    const struct question_about *about)
{
	uint64_t replacements = 0;
	size_t len = 0;
	bool same;
	char *now;

	if (about->old == NULL || about->old_len != q->size_before || about->old_len == 0 ||
	    !is_text(about->old, about->old_len))
		return false;
	now = edited_content(about->old, about->old_len, q->edits, q->n_edits, &len, &replacements);
	same = now != NULL && replacements == q->replacements && len == q->size_after;
	if (same)
		diff_unified(page, about->old, about->old_len, now, len);
	free(now);
	return same;
}

static void
show_new_content(struct page *page, const struct koda_question *q, const void *data, size_t len)
{
	const bool whole = len >= q->size_after;

	if (q->type != KODA_FILE_NONE)
		page_print(page, "%s(the present content cannot be shown; the new content is:)\n",
		    layout_of(page)->indent);
	diff_added(page, data, len, whole);
	if (whole)
		return;
	page_print(page, "%s[... %llu bytes are left out here ...]\n", layout_of(page)->indent,
	    (unsigned long long)(q->size_after - len));
	page->cut = true;
}

static void
show_written(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const void *data = q->len > 0 ? q->data : about->data;
	const size_t len = q->len > 0 ? q->len : about->len;
	const char *indent = layout_of(page)->indent;

	if (!is_text(data, len)) {
		page_print(page, "%s[... %llu bytes of binary content ...]\n", indent,
		    (unsigned long long)q->size_after);
		page->cut = true;
	} else if (q->type != KODA_FILE_NONE && about->old != NULL &&
	    about->old_len == q->size_before && len >= q->size_after &&
	    is_text(about->old, about->old_len)) {
		diff_unified(page, about->old, about->old_len, data, len);
		if (about->old_len == len && (len == 0 || memcmp(about->old, data, len) == 0))
			page_print(page, "%s(the content stays the same)\n", indent);
	} else {
		show_new_content(page, q, data, len);
	}
}

static bool
show_content(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const bool edit = q->kind == KODA_OP_EDIT, creates = q->type == KODA_FILE_NONE;

	page_print(page, "%s ", edit ? "edit" : creates ? "create" : "replace");
	page_name(page, q->path);
	page_print(page, ", ");
	if (!creates)
		page_print(page, "%llu -> ", (unsigned long long)q->size_before);
	page_print(page, "%llu bytes", (unsigned long long)q->size_after);
	if (edit)
		page_print(page, ", %llu replacement%s", (unsigned long long)q->replacements,
		    q->replacements == 1 ? "" : "s");
	page_print(page, "\n%s", layout_of(page)->gap);
	if (!edit)
		show_written(page, q, about);
	else if (!show_edit_whole(page, q, about))
		diff_edits(page, q->edits, q->n_edits, q->lines, q->n_edits);
	return true;
}

/* ---- names ---- */

static bool
show_directory(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	page_print(page, "make the directory ");
	page_name(page, q->path);
	page_print(page, "\n");
	return true;
}

static bool
show_removal(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	page_print(page, "remove the %s ", type_in_words(q->type));
	page_name(page, q->path);
	if (q->type == KODA_FILE_DIRECTORY)
		page_print(page, ", %llu names in all", (unsigned long long)q->entries);
	else
		page_print(page, ", %llu bytes", (unsigned long long)q->size_before);
	page_print(page, "\n");
	return true;
}

static bool
show_move(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const struct layout *layout = layout_of(page);

	if (q->to == NULL)
		return false;
	page_print(page, "move ");
	if (layout->moved_type)
		page_print(page, "the %s ", type_in_words(q->type));
	page_name(page, q->path);
	page_print(page, "%s", layout->to);
	page_name(page, q->to);
	if (about->replaced == KODA_FILE_REGULAR)
		page_print(page, "\n%sreplacing the file of %llu bytes that is there",
		    layout->indent, (unsigned long long)about->replaced_size);
	else if (about->replaced != KODA_FILE_NONE)
		page_print(page, "\n%sreplacing the %s that is there", layout->indent,
		    type_in_words(about->replaced));
	else if (about->may_replace)
		page_print(page, "\n%sreplacing what is there, if anything", layout->indent);
	page_print(page, "\n");
	return true;
}

/* ---- commands ---- */

/*
 * Shows words, one per line with `before`, or on one line: if there are more than a person reads,
 * only the first and the last ones.
 */
static void
show_words(struct page *page, const char *const *words, const char *before, bool one_line)
{
	size_t n = 0;

	while (words != NULL && words[n] != NULL)
		n++;
	for (size_t i = 0; i < n; i++) {
		const bool hidden = asked_is_hidden(i, n);

		if (hidden && i != ASKED_LINES_HEAD)
			continue;
		if (!one_line || i == 0)
			page_print(page, "%s%s", layout_of(page)->indent, before);
		else
			page_print(page, " ");
		if (hidden) {
			page_print(page, "[... %zu words are left out here ...]", asked_hidden(n));
			page->cut = true;
		} else {
			page_word(page, words[i]);
		}
		page_print(page, "%s", !one_line || i == n - 1 ? "\n" : "");
	}
}

static bool
show_command(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const char *const *argv = q->argv;

	if (argv == NULL || q->cwd == NULL)
		return false;
	page_print(page, "run%s in ", about->background ? " in the background" : "");
	page_name(page, q->cwd);
	page_print(page, "\n");
	show_words(page, q->env, "with ", false);
	/* A script is read line by line. */
	if (argv[0] != NULL && strcmp(argv[0], "sh") == 0 && argv[1] != NULL &&
	    strcmp(argv[1], "-c") == 0 && argv[2] != NULL && argv[3] == NULL) {
		page_print(page, "%ssh -c\n", layout_of(page)->indent);
		diff_script(page, argv[2]);
		return true;
	}
	show_words(page, argv, "", true);
	return true;
}

/*
 * The command is named only for information, so it may be cut: the approval is for the host and the
 * port, which are shown in full.
 */
static bool
show_host(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const struct layout *layout = layout_of(page);
	const bool bold = page->medium.style == PAGE_COLOUR;
	const char *command = about->command;

	if (q->host == NULL)
		return false;
	if (command != NULL) {
		const size_t len = strlen(command);

		page_print(page, "'");
		asked_name(command, asked_fits(command, len, COMMAND_BYTES_MAX), page_put, page);
		page_print(page, "%s'", len > COMMAND_BYTES_MAX ? " ..." : "");
	} else {
		page_print(page, "a command");
	}
	/* A long command does not push the host to an edge. */
	page_break(page, layout->indent, sizeof(" wants to reach '':65535,") + strlen(q->host));
	page_print(page, "wants to reach '%s", bold ? PAGE_BOLD : "");
	asked_name(q->host, strlen(q->host), page_put, page);
	page_print(page, "%s%u%s%s, which no rule names\n", layout->port, q->port,
	    bold ? PAGE_PLAIN : "", layout->port_end);
	return true;
}

/* ---- the whole question ---- */

/* What a person can be asked about: nothing without a row here is ever asked. */
static const struct {
	bool of_path; /* it needs a path */
	bool (*show)(struct page *, const struct koda_question *, const struct question_about *);
} kinds[] = {
	[KODA_OP_WRITE] = { true, show_content },
	[KODA_OP_EDIT] = { true, show_content },
	[KODA_OP_MKDIR] = { true, show_directory },
	[KODA_OP_REMOVE] = { true, show_removal },
	[KODA_OP_RENAME] = { true, show_move },
	[KODA_OP_RUN] = { false, show_command },
	[KODA_OP_CONNECT] = { false, show_host },
};

static bool
show_kind(struct page *page, const struct koda_question *q, const struct question_about *about)
{
	const size_t kind = (size_t)q->kind;

	if (kind >= sizeof(kinds) / sizeof(kinds[0]) || kinds[kind].show == NULL ||
	    (kinds[kind].of_path && q->path == NULL))
		return false;
	return kinds[kind].show(page, q, about);
}

/*
 * Writes the question to memory first: whether something was left out is known only at the end, but
 * must be said at the beginning.
 */
bool
question_show(const struct koda_question *q, const struct question_about *about,
    struct page_medium medium, visible_put_fn *put, void *to, bool *ret_cut)
{
	const struct layout *layout = layouts[medium.style];
	char *text = NULL;
	size_t len = 0;
	struct page page = {
		.f = open_memstream(&text, &len),
		.medium = medium,
		.column = (unsigned)strlen(layout->begin),
	};
	bool good;

	*ret_cut = false;
	if (page.f == NULL)
		return false;
	good = show_kind(&page, q, about) && !page.failed;
	if (fclose(page.f) != 0)
		good = false;
	if (good) {
		if (q->kind == KODA_OP_CONNECT)
			visible_put_own(layout->interrupts, put, to);
		if (page.cut) {
			visible_put_own(layout->cut_begin, put, to);
			visible_put_own(CUT, put, to);
			visible_put_own(layout->cut_end, put, to);
		}
		visible_put_own(layout->begin, put, to);
		put(to, text, len);
		*ret_cut = page.cut;
	}
	free(text);
	return good;
}

void
question_show_session(enum koda_op_kind kind, const void *covers, size_t len, visible_put_fn *put,
    void *to)
{
	visible_put_own("This session: ", put, to);
	if (question_is_content(kind)) {
		visible_put_own("writing and editing files below '", put, to);
		asked_name(covers, len, put, to);
		visible_put_own("'", put, to);
	} else if (kind == KODA_OP_RUN) {
		visible_put_own("exactly this command, until a file below the root changes", put,
		    to);
	} else {
		visible_put_own("this host and port", put, to);
	}
}

bool
question_is_content(enum koda_op_kind kind)
{
	return kind == KODA_OP_WRITE || kind == KODA_OP_EDIT;
}
