/* SPDX-License-Identifier: Apache-2.0 */
#include "search/plan.h"

#include <stdlib.h>
#include <string.h>

#include "search/syntax.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* Below this weight too many lines contain the text. At it (literal_weight: one byte in 32) a
 * third of all lines do, and looking only at those is still worthwhile. */
#define WEIGHT_MIN 20
/* The most of a pattern in a message. */
#define SHOWN_MAX 120

static void
program_free_at(struct program **program)
{
	program_free(*program);
}

/* One pattern of the request. */
struct given {
	const char *text; /* without settings that are on anyway; escaped if FIXED */
	size_t len, skipped;
	char *escaped;
	bool refers_back;
	bool ends_in_comment; /* of (?x) */
	struct syntax syntax;
};

struct plan_job {
	const struct grep_options *options;
	bool ignore_case;
	bool bare; /* one pattern, with nothing around it */
	struct given *given;
	size_t n;
};

static void
job_done(struct plan_job *job)
{
	for (size_t i = 0; job->given != NULL && i < job->n; i++) {
		free(job->given[i].escaped);
		syntax_done(&job->given[i].syntax);
	}
	free(job->given);
}

static bool
asked(const struct plan_job *job, unsigned flag)
{
	return (job->options->flags & flag) != 0;
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
}

static int
about_pattern(const char *text, size_t len, struct koda_error *err)
{
	char shown[SHOWN_MAX];
	bool cut = bytes_show(shown, sizeof(shown), text, len) >= sizeof(shown);

	return err_wrap(err, "pattern '%s%s'", shown, cut ? "..." : "");
}

/* For FIXED: escapes everything that could have a special meaning. */
static int
escape(struct given *g)
{
	size_t n = 0;

	g->escaped = malloc(2 * g->len + 1);
	if (g->escaped == NULL)
		return -1;
	for (size_t i = 0; i < g->len; i++) {
		unsigned char c = (unsigned char)g->text[i];

		if (c < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
		    !(c >= 'A' && c <= 'Z'))
			g->escaped[n++] = '\\';
		g->escaped[n++] = g->text[i];
	}
	g->text = g->escaped;
	g->len = n;
	return 0;
}

/*
 * Refuses settings for the whole expression, which stand at its beginning. UTF and UCP are on
 * anyway and are removed; the others would undo what a search relies on: where lines end, the
 * limits, the JIT. Verbs look like settings and are allowed.
 */
static int
check_settings(struct given *g, struct koda_error *err)
{
	static const char *const on[] = { "(*UTF)", "(*UCP)" };
	static const char *const verbs[] = { "ACCEPT", "FAIL", "F)", "F:", "COMMIT", "PRUNE",
		"SKIP", "THEN", "MARK", ":" };
	const char *name;

	for (size_t i = 0; i < N_ELEMENTS(on); i++) {
		size_t n = strlen(on[i]);

		if (g->len >= n && memcmp(g->text, on[i], n) == 0) {
			g->text += n;
			g->len -= n;
			g->skipped += n;
			i = (size_t)-1;
		}
	}
	if (g->len < 3 || memcmp(g->text, "(*", 2) != 0)
		return 0;
	name = g->text + 2;
	/* Lower case: assertions with long names. */
	if (*name >= 'a' && *name <= 'z')
		return 0;
	for (size_t i = 0; i < N_ELEMENTS(verbs); i++)
		if (g->len - 2 >= strlen(verbs[i]) && memcmp(name, verbs[i], strlen(verbs[i])) == 0)
			return 0;
	return err_set(err, KODA_INVALID, 0,
	    "settings like (*LIMIT_MATCH=...) or (*CRLF) at its beginning are not allowed");
}

static unsigned
program_flags(const struct plan_job *job)
{
	return (job->ignore_case ? PROGRAM_IGNORE_CASE : 0) |
	    (asked(job, KODA_SEARCH_MULTILINE) && asked(job, KODA_SEARCH_DOTALL) ? PROGRAM_DOTALL
										 : 0);
}

/* The most bytes put around each pattern, and around all of them. */
#define AROUND_ONE 16
#define AROUND_ALL 32

struct joined {
	char *text;
	size_t len;
};

static void
joined_done(struct joined *b)
{
	free(b->text);
}

static void
add(struct joined *b, const char *text, size_t len)
{
	memcpy(b->text + b->len, text, len);
	b->len += len;
}

static void
add_text(struct joined *b, const char *text)
{
	add(b, text, strlen(text));
}

/* A ')' after a comment would be part of it. "\E" ends a quotation that is still open, and does
 * nothing otherwise. */
static const char closing[] = "\\E)", closing_comment[] = "\n)";

static bool
can_be_closed(const struct plan_job *job, const struct given *g)
{
	cleanup(joined_done) struct joined text = { .text = malloc(g->len + AROUND_ONE) };
	cleanup(program_free_at) struct program *program = NULL;

	if (text.text == NULL)
		return true;
	add_text(&text, "(?:");
	add(&text, g->text, g->len);
	add_text(&text, closing);
	program = program_new(text.text, text.len, PROGRAM_UTF8, program_flags(job) | PROGRAM_CHECK,
	    0, NULL);
	return program != NULL;
}

/* Checks a pattern alone, so that an error is about that pattern, and so that no pattern closes a
 * group that another has opened. */
static int
check_one(const struct plan_job *job, struct given *g, struct koda_error *err)
{
	struct syntax_options how = {
		.ignore_case = job->ignore_case,
		.multiline = asked(job, KODA_SEARCH_MULTILINE),
		.dotall = asked(job, KODA_SEARCH_DOTALL),
	};
	cleanup(program_free_at) struct program *alone = NULL;

	how.dotall &= how.multiline;
	if (asked(job, KODA_SEARCH_FIXED)) {
		if (escape(g) < 0)
			return no_memory(err);
	} else if (check_settings(g, err) < 0) {
		return -1;
	}
	alone = program_new(g->text, g->len, PROGRAM_UTF8, program_flags(job) | PROGRAM_CHECK,
	    g->skipped, err);
	if (alone == NULL)
		return -1;
	if (program_calls_out(alone))
		return err_set(err, KODA_INVALID, 0, "callouts like (?C) are not allowed");
	g->refers_back = program_refers_back(alone);
	g->ends_in_comment = !job->bare && !can_be_closed(job, g);
	if (syntax_read(g->text, g->len, &how, &g->syntax) < 0)
		return no_memory(err);
	if (g->syntax.newline && !how.multiline)
		return err_set(err, KODA_INVALID, 0,
		    "a match ends at the end of its line, so \\n is never found; with "
		    "multiline (-U) a match may span lines");
	return 0;
}

/* Joins all patterns into one expression. */
static int
join(const struct plan_job *job, bool within, struct joined *ret)
{
	bool line = asked(job, KODA_SEARCH_WHOLE_LINE),
	     word = asked(job, KODA_SEARCH_WORD) && !line;
	bool refers = false;
	size_t size = AROUND_ALL;

	for (size_t i = 0; i < job->n; i++) {
		const struct given *g = &job->given[i];

		size += (within ? g->syntax.within_len : g->len) + AROUND_ONE;
		refers |= g->refers_back;
	}
	ret->text = malloc(size);
	if (ret->text == NULL)
		return -1;
	add_text(ret, line ? "^(?:" : word ? "(?<!\\w)(?:" : "");
	/* (?| lets each pattern count its groups from one. */
	if (job->n > 1)
		add_text(ret, refers ? "(?|" : "(?:");
	for (size_t i = 0; i < job->n; i++) {
		const struct given *g = &job->given[i];

		add_text(ret, i > 0 ? "|" : "");
		add_text(ret, job->bare ? "" : "(?:");
		if (within)
			add(ret, g->syntax.within, g->syntax.within_len);
		else
			add(ret, g->text, g->len);
		if (!job->bare)
			add_text(ret, g->ends_in_comment ? closing_comment : closing);
	}
	add_text(ret, job->n > 1 ? ")" : "");
	add_text(ret, line ? ")$" : word ? ")(?!\\w)" : "");
	return 0;
}

static struct program *
compile(const struct plan_job *job, enum program_text kind, bool within, unsigned flags,
    struct koda_error *err)
{
	cleanup(joined_done) struct joined text = { .len = 0 };

	if (join(job, within, &text) < 0) {
		no_memory(err);
		return NULL;
	}
	if (job->n > 1)
		flags |= PROGRAM_SAME_NAMES;
	return program_new(text.text, text.len, kind, flags | program_flags(job),
	    job->n == 1 ? job->given[0].skipped : 0, err);
}

/* Compiles the same expression without UTF; classes are written differently. Returns NULL if
 * that is not possible, which only costs time. */
static struct program *
compile_ascii(const struct plan_job *job, bool within, unsigned flags)
{
	struct syntax_options how = {
		.ignore_case = job->ignore_case,
		.multiline = asked(job, KODA_SEARCH_MULTILINE),
		.dotall = (program_flags(job) & PROGRAM_DOTALL) != 0,
		.ascii = true,
	};

	for (size_t i = 0; i < job->n; i++) {
		struct given *g = &job->given[i];

		if (!g->syntax.ascii)
			return NULL;
		syntax_done(&g->syntax);
		if (syntax_read(g->text, g->len, &how, &g->syntax) < 0)
			return NULL;
	}
	return compile(job, PROGRAM_ASCII, within, flags, NULL);
}

/* Is there an upper-case letter that stands for itself in a pattern? Not in an escape, a
 * property, the name of a group, a verb. Returns 1, 0, or -1 with *err set. */
static int
has_upper_case(const struct grep_options *options, struct koda_error *err)
{
	static const char fixed[] = "\\p{Lu}";
	static const char escaped[] = "(?s)(?:\\\\[pPxoNgk](?:\\{[^}]*\\}|<[^>]*>|.)|\\\\."
				      "|\\(\\?P?[<'=>&]\\w*|\\(\\*\\w*)(*SKIP)(*FAIL)|\\p{Lu}";
	const char *what = (options->flags & KODA_SEARCH_FIXED) != 0 ? fixed : escaped;
	cleanup(program_free_at) struct program *upper =
	    program_new(what, strlen(what), PROGRAM_BROKEN, 0, 0, err);
	size_t start, end;
	int r = 0;

	if (upper == NULL)
		return -1;
	for (size_t i = 0; r == 0 && i < options->n_patterns; i++)
		r = program_match(upper, options->patterns[i], strlen(options->patterns[i]), 0,
		    &start, &end, err);
	return r;
}

static int
choose_case(struct plan_job *job, struct koda_error *err)
{
	int r = 0;

	job->ignore_case = asked(job, KODA_SEARCH_IGNORE_CASE);
	if (job->ignore_case || !asked(job, KODA_SEARCH_SMART_CASE))
		return 0;
	r = has_upper_case(job->options, err);
	job->ignore_case = r == 0;
	return r < 0 ? -1 : 0;
}

static int
read_patterns(struct plan_job *job, struct koda_error *err)
{
	const struct grep_options *o = job->options;
	size_t bytes = 0;

	if (o->n_patterns == 0)
		return err_set(err, KODA_INVALID, 0, "there is no pattern to search for");
	for (size_t i = 0; i < o->n_patterns; i++)
		bytes += strlen(o->patterns[i]) + 1;
	if (bytes > GREP_PATTERN_BYTES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "the patterns have more than %u bytes",
		    GREP_PATTERN_BYTES_MAX);
	job->bare = o->n_patterns == 1 && !asked(job, KODA_SEARCH_WORD) &&
	    !asked(job, KODA_SEARCH_WHOLE_LINE);
	if (choose_case(job, err) < 0)
		return -1;
	job->given = calloc(o->n_patterns, sizeof(*job->given));
	if (job->given == NULL)
		return no_memory(err);
	job->n = o->n_patterns;
	for (size_t i = 0; i < job->n; i++) {
		struct given *g = &job->given[i];

		g->text = o->patterns[i];
		g->len = strlen(g->text);
		if (check_one(job, g, err) < 0)
			return about_pattern(o->patterns[i], strlen(o->patterns[i]), err);
	}
	return 0;
}

/* Chooses the texts of which every match has to contain one, if that helps. */
static void
choose_texts(struct grep_plan *p, const struct plan_job *job)
{
	struct texts texts = job->given[0].syntax.required;

	for (size_t i = 1; i < job->n; i++)
		texts_add(&texts, &job->given[i].syntax.required);
	if (texts.weight < WEIGHT_MIN && !job->given[0].syntax.plain)
		return;
	p->n_texts = texts.n;
	for (size_t i = 0; i < texts.n; i++)
		literal_init(&p->text[i], texts.text[i].text, texts.text[i].len,
		    texts.text[i].ignore_case);
}

static void
choose_way(struct grep_plan *p, const struct plan_job *job)
{
	bool unknown = false, crosses = false;

	for (size_t i = 0; i < job->n; i++) {
		unknown |= job->given[i].syntax.unknown;
		crosses |= job->given[i].syntax.crosses;
	}
	choose_texts(p, job);
	if (asked(job, KODA_SEARCH_MULTILINE) && (unknown || crosses))
		p->way = PLAN_WHOLE;
	else if (job->bare && job->given[0].syntax.plain)
		p->way = PLAN_TEXT;
	else if (p->n_texts > 0)
		p->way = PLAN_CANDIDATES;
	else
		p->way = unknown ? PLAN_LINES : PLAN_BUFFER;
}

int
plan_init(struct grep_plan *p, const struct grep_options *options, struct koda_error *err)
{
	cleanup(job_done) struct plan_job job = { .options = options };
	bool within;
	unsigned flags;

	*p = (struct grep_plan){ .way = PLAN_LINES };
	if (read_patterns(&job, err) < 0)
		return -1;
	choose_way(p, &job);
	if (p->way == PLAN_TEXT)
		return 0;
	flags = p->way == PLAN_WHOLE ? 0 : PROGRAM_LINES;
	within = p->way == PLAN_CANDIDATES || p->way == PLAN_BUFFER;
	p->program[PROGRAM_UTF8] = compile(&job, PROGRAM_UTF8, within, flags, err);
	if (p->program[PROGRAM_UTF8] == NULL)
		return -1;
	p->program[PROGRAM_BROKEN] = compile(&job, PROGRAM_BROKEN, within, flags, err);
	if (p->program[PROGRAM_BROKEN] == NULL)
		return -1;
	p->program[PROGRAM_ASCII] = compile_ascii(&job, within, flags);
	return 0;
}

void
plan_done(struct grep_plan *p)
{
	for (size_t i = 0; i < N_ELEMENTS(p->program); i++)
		program_free(p->program[i]);
	*p = (struct grep_plan){ .way = PLAN_LINES };
}
