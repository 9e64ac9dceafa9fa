/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/decide.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "cli/draft_cmd.h"
#include "cli/output.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/terminal.h"

/* What is shown at the prompt; 'draft diff' shows all. */
#define PROMPT_DIFFS_MAX 100

struct prompt {
	const struct decision *d;
	struct draft_open draft;
	int tty;
	FILE *f;
	struct page page;
	const char *text; /* the prompt itself, printed again when the user comes back */
};

enum choice {
	CHOICE_KEEP,
	CHOICE_APPLY,
	CHOICE_MERGE,
	CHOICE_DIFF,
	CHOICE_SELECT,
	CHOICE_DISCARD,
	CHOICE_UNCLEAR,
};

/* ---- reading answers ---- */

static void
put_prompt(struct prompt *p)
{
	page_print(&p->page, "%s", p->text);
	fflush(p->f);
}

/* Handles a signal that arrived at the prompt. Returns whether the user gives up. */
static bool
gives_up(struct prompt *p, int signo)
{
	if (signo == SIGTSTP) {
		raise(SIGSTOP);
		put_prompt(p);
		return false;
	}
	return signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT;
}

/*
 * Reads a line from the terminal, cut to size. Returns false if there is none: the user interrupts,
 * or the terminal hung up.
 */
static bool
read_line(struct prompt *p, char *line, size_t size)
{
	size_t n = 0;

	p->page.column = 0; /* where the user's newline leads */
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = p->tty, .events = POLLIN },
			{ .fd = p->d->signals, .events = POLLIN },
		};
		int signo;
		char c;
		ssize_t r;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return false;
		while (p->d->signals >= 0 && (signo = signals_next(p->d->signals)) != 0) {
			if (gives_up(p, signo))
				return false;
		}
		if (fds[0].revents == 0)
			continue;
		r = read(p->tty, &c, 1);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		if (c == '\n')
			break;
		if (n < size - 1)
			line[n++] = c;
	}
	line[n] = '\0';
	return true;
}

static enum choice
read_choice(struct prompt *p)
{
	static const struct {
		const char *letter, *word;
		enum choice choice;
	} answers[] = {
		{ "a", "apply", CHOICE_APPLY },
		{ "m", "merge", CHOICE_MERGE },
		{ "d", "diff", CHOICE_DIFF },
		{ "s", "select", CHOICE_SELECT },
		{ "k", "keep", CHOICE_KEEP },
		{ "q", "quit", CHOICE_KEEP },
		{ "x", "discard", CHOICE_DISCARD },
	};
	char line[16];

	if (!read_line(p, line, sizeof(line)))
		return CHOICE_KEEP;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (strcasecmp(line, answers[i].letter) == 0 ||
		    strcasecmp(line, answers[i].word) == 0)
			return answers[i].choice;
	}
	return CHOICE_UNCLEAR;
}

/* ---- what is printed ---- */

/* Prints a sentence of our own about the draft on standard error. */
static void
say(const char *before, const char *id, const char *after)
{
	char text[256];

	snprintf(text, sizeof(text), "%s %s %s", before, id, after);
	output_note(NULL, text);
}

static void
say_kept(const struct decision *d, bool rest, const struct changes *c)
{
	struct page page = { 0 };
	char *text = NULL;
	size_t size = 0;

	page.f = open_memstream(&text, &size);
	if (page.f == NULL)
		output_no_memory();
	if (rest)
		page_print(&page, "what was not applied stays in draft %s", d->id);
	else
		page_print(&page, "draft %s holds the changes back", d->id);
	if (c != NULL) {
		page_print(&page, ": ");
		changes_show_counts(&page, c);
	}
	if (fclose(page.f) != 0)
		output_no_memory();
	output_note(NULL, text);
	free(text);
	fprintf(stderr,
	    "  next: 'koda-sandbox draft diff %s'; or apply, discard, run or shell instead of diff\n",
	    d->id);
}

static void
put_head(struct prompt *p)
{
	page_print(&p->page, "draft %s: ", p->d->id);
	changes_show_counts(&p->page, &p->draft.changes);
	page_print(&p->page, "\n");
	changes_show_summary(&p->page, &p->draft.view);
}

/* ---- apply, select, discard ---- */

/* Applies everything, or these paths. */
static void
apply(struct prompt *p, const char *const *paths, size_t n, enum koda_take take)
{
	const struct koda_apply_options options = { .paths = paths, .n_paths = n, .take = take };
	char undo[KODA_HISTORY_ID_SIZE] = "";
	struct koda_error err = { 0 };
	struct outcomes o = { .cli = p->d->cli,
		.view = &p->draft.view,
		.applied = "applied",
		.not_applied = "not applied",
		.signals = p->d->signals };
	const bool done =
	    koda_draft_apply(p->draft.draft, &options, outcomes_take, &o, undo, &err) >= 0;
	char text[160];

	outcomes_status(&o);
	if (!done)
		output_note("the draft was not applied in full", err.message);
	if (o.n[KODA_APPLIED] == 0 && done)
		output_note(NULL, "nothing was applied");
	if (o.n[KODA_APPLIED] > 0) {
		snprintf(text, sizeof(text), "applied %llu change%s%s%s%s",
		    (unsigned long long)o.n[KODA_APPLIED], o.n[KODA_APPLIED] == 1 ? "" : "s",
		    undo[0] != '\0' ? "; to take back: koda-sandbox undo " : "", undo, "");
		output_note(NULL, text);
	}
	if (!done || draft_open_again(&p->draft, &err) < 0)
		say_kept(p->d, true, NULL);
	else if (p->draft.changes.count.all > 0 || p->draft.changes.cut)
		say_kept(p->d, true, &p->draft.changes);
}

/* Is the unit in the directory that was selected last? Units come in the order of their paths. */
static bool
is_covered(const struct prompt *p, const struct change_unit *unit, const struct change_unit *last)
{
	const struct change_row *row = p->draft.changes.row;

	return last != NULL && row[last->row].type == KODA_FILE_DIRECTORY &&
	    changes_is_below(row[unit->row].path, row[last->row].path, last->path_len);
}

/*
 * Returns the path for the library, so that a command's name with a '*' means itself alone. after is
 * added to it.
 */
static char *
exact_path(const char *path, size_t len, const char *after)
{
	const bool glob = memchr(path, '*', len) != NULL || memchr(path, '?', len) != NULL ||
	    memchr(path, '[', len) != NULL || after[0] != '\0';
	char *ret = output_alloc(2 * len + strlen(after) + 1), *to = ret;

	for (size_t i = 0; i < len; i++) {
		if (glob && strchr("*?[\\", path[i]) != NULL)
			*to++ = '\\';
		*to++ = path[i];
	}
	strcpy(to, after);
	return ret;
}

enum pick { PICK_YES, PICK_NO, PICK_ALL, PICK_END, PICK_CANCEL };

static enum pick
ask_pick(struct prompt *p, size_t i)
{
	const struct change_unit *unit = &p->draft.changes.unit[i];
	char line[16];

	for (;;) {
		changes_show_unit(&p->page, &p->draft.view, unit);
		p->text = "  Apply this? [y]es, [n]o, [d]iff, [a]ll that follow, [e]nd, [c]ancel ";
		put_prompt(p);
		if (!read_line(p, line, sizeof(line)))
			return PICK_CANCEL;
		switch (line[0] != '\0' && line[1] != '\0' ? '?' : line[0]) {
		case 'y':
			return PICK_YES;
		case 'n':
			return PICK_NO;
		case 'a':
			return PICK_ALL;
		case 'e':
			return PICK_END;
		case 'c':
			return PICK_CANCEL;
		case 'd':
			changes_show_diffs(&p->page, &p->draft.view, i, i + 1, PROMPT_DIFFS_MAX,
			    false);
			break;
		default:
			break;
		}
	}
}

#define PATHS_OF_UNIT 3 /* at most */

/* Adds the paths of a unit: of a renamed file both, of a directory also everything below it. */
static void
pick_unit(const struct prompt *p, const struct change_unit *unit, char **paths, size_t *n)
{
	const struct change_row *row = &p->draft.changes.row[unit->row];

	paths[(*n)++] = exact_path(row->path, unit->path_len, "");
	if (unit->kind == UNIT_RENAMED) {
		const char *other = p->draft.changes.row[row->other - 1].path;

		paths[(*n)++] = exact_path(other, strlen(other), "");
		if (row->kind == KODA_CHANGE_DELETED && row->type_before == KODA_FILE_DIRECTORY)
			paths[(*n)++] = exact_path(other, strlen(other), "/*");
		else if (row->type == KODA_FILE_DIRECTORY)
			paths[(*n)++] = exact_path(row->path, unit->path_len, "/*");
	} else if (row->type == KODA_FILE_DIRECTORY || unit->kind == UNIT_GIT) {
		paths[(*n)++] = exact_path(row->path, unit->path_len, "/*");
	}
}

/* Returns whether the selection was applied. */
static bool
select_and_apply(struct prompt *p)
{
	const struct changes *c = &p->draft.changes;
	char **paths = output_alloc((PATHS_OF_UNIT * c->n_units + 1) * sizeof(*paths));
	const struct change_unit *last = NULL;
	enum pick pick = PICK_YES;
	size_t n = 0;

	for (size_t i = 0; i < c->n_units && pick != PICK_END && pick != PICK_CANCEL; i++) {
		const struct change_unit *unit = &c->unit[i];

		if (unit->kind == UNIT_REFUSED || unit->kind == UNIT_CONFLICT ||
		    is_covered(p, unit, last))
			continue;
		if (pick != PICK_ALL)
			pick = ask_pick(p, i);
		if (pick != PICK_YES && pick != PICK_ALL)
			continue;
		pick_unit(p, unit, paths, &n);
		last = unit;
	}
	if (pick != PICK_CANCEL && n > 0)
		apply(p, (const char *const *)paths, n, KODA_TAKE_NONE);
	else if (pick != PICK_CANCEL)
		output_note(NULL, "nothing is selected");
	draft_paths_done(paths, n);
	return pick != PICK_CANCEL && n > 0;
}

static void
discard(struct prompt *p)
{
	struct koda_error err = { 0 };

	if (koda_draft_discard(p->draft.draft, NULL, 0, &err) < 0)
		output_note("the draft was not discarded", err.message);
	else
		say("draft", p->d->id, "was discarded");
}

/* ---- the conversation ---- */

/* In 'run --draft -- make | less' the keys are for less. */
static bool
is_piped(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

static bool
open_terminal(struct prompt *p)
{
	struct winsize size;
	int copy;

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || is_piped(STDOUT_FILENO))
		return false;
	p->tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (p->tty < 0)
		return false;
	copy = terminal_is_ours(p->tty) ? fcntl(p->tty, F_DUPFD_CLOEXEC, 3) : -1;
	p->f = copy >= 0 ? fdopen(copy, "w") : NULL;
	if (p->f == NULL) {
		if (copy >= 0)
			close(copy);
		close(p->tty);
		return false;
	}
	p->page = (struct page){ .f = p->f,
		.medium.style = output_colour(p->tty) ? PAGE_COLOUR : PAGE_TERMINAL };
	if (ioctl(p->tty, TIOCGWINSZ, &size) == 0)
		p->page.medium.columns = size.ws_col;
	return true;
}

static void
converse(struct prompt *p)
{
	put_head(p);
	for (;;) {
		/* What was typed before the question appeared does not answer it. */
		tcflush(p->tty, TCIFLUSH);
		p->text = p->draft.changes.count.mergeable > 0
		    ? "[a]pply  [m]erge and apply  [d]iff  [s]elect  [k]eep  [x] discard: "
		    : "[a]pply  [d]iff  [s]elect  [k]eep  [x] discard: ";
		put_prompt(p);
		switch (read_choice(p)) {
		case CHOICE_APPLY:
			apply(p, NULL, 0, KODA_TAKE_NONE);
			return;
		case CHOICE_MERGE:
			apply(p, NULL, 0, KODA_TAKE_MERGE);
			return;
		case CHOICE_SELECT:
			if (select_and_apply(p))
				return;
			break;
		case CHOICE_DISCARD:
			discard(p);
			return;
		case CHOICE_DIFF:
			changes_show_diffs(&p->page, &p->draft.view, 0, SIZE_MAX, PROMPT_DIFFS_MAX,
			    false);
			break;
		case CHOICE_KEEP:
			page_print(&p->page, "\n");
			fflush(p->f);
			say_kept(p->d, false, NULL);
			return;
		case CHOICE_UNCLEAR:
			break;
		}
	}
}

/* Opens the draft. Returns false if there is nothing to decide on: it is removed, or kept unseen. */
static bool
look(const struct decision *d, struct draft_open *draft, bool *ret_kept)
{
	struct koda_error err = { 0 };

	*ret_kept = true;
	if (draft_open(draft, d->session, d->id, d->root, d->cwd, NULL, NULL, &err) < 0) {
		output_note("the changes in the draft cannot be listed", err.message);
		return false;
	}
	if (draft->changes.count.all > 0 || draft->changes.cut)
		return true;
	*ret_kept = koda_draft_discard(draft->draft, NULL, 0, &err) < 0;
	return false;
}

void
decide(const struct decision *d)
{
	struct prompt p = { .d = d };
	bool kept;

	if (!look(d, &p.draft, &kept)) {
		if (kept)
			say_kept(d, false, NULL);
	} else if (d->judged) {
		apply(&p, NULL, 0, KODA_TAKE_NONE);
	} else if (open_terminal(&p)) {
		converse(&p);
		fclose(p.f);
		close(p.tty);
	} else {
		say_kept(d, false, &p.draft.changes);
	}
	draft_close(&p.draft);
}

/* What was not applied, for --json. */
struct rest {
	json_t *rows;
	uint64_t n[KODA_APPLY_UNLISTED + 1];
};

static int
rest_take(void *data, const struct koda_applied *one)
{
	struct rest *rest = data;

	rest->n[one->outcome]++;
	if (one->outcome != KODA_APPLIED)
		json_array_append_new(rest->rows, outcome_json(one));
	return 0;
}

/* Applies the draft, and adds what became of it. */
static void
judge_json(const struct decision *d, struct draft_open *draft, json_t *ret)
{
	const struct koda_apply_options all = { 0 };
	struct rest rest = { .rows = json_array() };
	char undo[KODA_HISTORY_ID_SIZE] = "";
	struct koda_error err = { 0 };
	const bool done = koda_draft_apply(draft->draft, &all, rest_take, &rest, undo, &err) >= 0;

	if (!done)
		output_note("the draft was not applied in full", err.message);
	for (enum koda_apply_outcome i = KODA_APPLIED; i <= KODA_APPLY_UNLISTED; i++)
		json_object_set_new(ret, koda_apply_outcome_name(i),
		    json_integer((json_int_t)rest.n[i]));
	json_object_set_new(ret, "not_applied", rest.rows);
	json_object_set_new(ret, "undo", undo[0] != '\0' ? json_string(undo) : json_null());
	json_object_set_new(ret, "kept",
	    json_boolean(!done || draft_open_again(draft, &err) < 0 ||
		draft->changes.count.all > 0 || draft->changes.cut));
}

json_t *
decide_json(const struct decision *d)
{
	struct draft_open draft;
	json_t *ret = NULL;
	bool kept, listed = look(d, &draft, &kept);

	if (kept) {
		ret = json_object();
		json_object_set_new(ret, "id", json_string(d->id));
		if (listed)
			changes_set_json(ret, &draft.changes);
		if (listed && d->judged)
			judge_json(d, &draft, ret);
	}
	draft_close(&draft);
	return ret != NULL ? ret : json_null();
}
