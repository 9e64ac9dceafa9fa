/* SPDX-License-Identifier: Apache-2.0 */
#include "search/syntax.h"

#include <stdlib.h>
#include <string.h>

#include "search/class.h"
#include "search/reader.h"
#include "shared/base/cleanup.h"

struct parse {
	struct pattern_reader in;
	const struct syntax_options *options;
	bool ignore_case, dotall; /* as set here by (?i) and (?s) */
	unsigned depth;
	struct literal_text run; /* literal text directly before this position */
	struct texts best;
	struct syntax *s;
};

/* How an item affects the text around it. */
enum item {
	ITEM_NOTHING,   /* flags: cannot be repeated */
	ITEM_ASSERTION, /* matches no text: what is on both sides of it is adjacent */
	ITEM_CHARACTER,
	ITEM_OTHER,
	ITEM_GROUP,
	ITEM_APART, /* lookahead or lookbehind: its text is not part of the match */
};

struct character {
	char bytes[4];
	size_t len;
};

/* ---- the text that is required ---- */

static void
end_run(struct parse *r)
{
	struct texts run;

	if (r->run.len == 0)
		return;
	texts_set(&run, &r->run);
	texts_prefer(&r->best, &run);
	r->run.len = 0;
}

static void
run_on(struct parse *r, const struct character *c)
{
	bool letter = c->len == 1 && reader_is_alnum(c->bytes[0]) && !reader_is_digit(c->bytes[0]);

	/* Beyond ASCII the other case has other bytes; k and s have a form there. */
	if (r->ignore_case && (c->len > 1 || (letter && strchr("kKsS", c->bytes[0]) != NULL))) {
		end_run(r);
		r->s->plain = false;
		return;
	}
	if (r->run.len > 0 &&
	    (r->run.ignore_case != r->ignore_case || r->run.len + c->len > LITERAL_MAX)) {
		end_run(r);
		r->s->plain = false;
	}
	if (r->run.len == 0)
		r->run.ignore_case = r->ignore_case;
	memcpy(r->run.text + r->run.len, c->bytes, c->len);
	r->run.len += c->len;
}

/* The state before a group, restored if the group's text turns out not to count. */
struct mark {
	struct literal_text run;
	struct texts best;
};

static void
back_to(struct parse *r, const struct mark *mark)
{
	r->run = mark->run;
	r->best = mark->best;
	end_run(r);
	r->s->plain = false;
}

/* ---- what can touch the end of a line ---- */

/* Writes an item that can match the end of a line so that it cannot. instead: that form; NULL:
 * there is none. */
static void
not_newline(struct parse *r, size_t n, const char *instead)
{
	if (r->options->multiline) {
		r->s->crosses = true;
		reader_copy(&r->in, n);
	} else if (instead == NULL) {
		reader_give_up(&r->in);
	} else {
		reader_put(&r->in, instead);
		r->in.p += n;
	}
}

static void
is_newline(struct parse *r, size_t n)
{
	r->s->newline = true;
	r->s->crosses = true;
	reader_copy(&r->in, n);
}

/* ---- items ---- */

static enum item
character(struct parse *r, uint32_t value, size_t len, struct character *ret)
{
	if (value == '\n') {
		is_newline(r, len);
		return ITEM_OTHER;
	}
	if (value >= 0x80) {
		r->s->ascii = false;
		reader_copy(&r->in, len);
		return ITEM_OTHER;
	}
	ret->bytes[0] = (char)value;
	ret->len = 1;
	reader_copy(&r->in, len);
	return ITEM_CHARACTER;
}

/* Reads a character that stands for itself. */
static enum item
raw_character(struct parse *r, struct character *ret)
{
	size_t n = reader_char_len(*r->in.p);

	if (n == 1)
		return character(r, (unsigned char)*r->in.p, 1, ret);
	if (!reader_left(&r->in, n)) {
		reader_give_up(&r->in);
		return ITEM_OTHER;
	}
	memcpy(ret->bytes, r->in.p, n);
	ret->len = n;
	r->s->ascii = false;
	reader_copy(&r->in, n);
	return ITEM_CHARACTER;
}

static enum item
read_escape(struct parse *r, struct character *ret)
{
	uint32_t value;
	size_t n = reader_escape(&r->in, &value);
	char c = reader_peek(&r->in, 1);
	bool safe;

	if (n > 0)
		return character(r, value, n, ret);
	switch (c) {
	case 'd':
	case 'w':
	case 'S':
	case 'h':
	case 'V':
		reader_copy(&r->in, 2);
		return ITEM_OTHER;
	case 's':
		not_newline(r, 2, "[^\\S\\n]");
		return ITEM_OTHER;
	case 'W':
		not_newline(r, 2, "[^\\w\\n]");
		return ITEM_OTHER;
	case 'D':
		not_newline(r, 2, "[^\\d\\n]");
		return ITEM_OTHER;
	case 'H':
		not_newline(r, 2, "[^\\h\\n]");
		return ITEM_OTHER;
	case 'v':
		not_newline(r, 2, "[^\\V\\n]");
		return ITEM_OTHER;
	case 'b':
	case 'B':
		if (reader_peek(&r->in, 2) == '{')
			break;
		reader_copy(&r->in, 2);
		return ITEM_ASSERTION;
	case 'N':
		if (reader_peek(&r->in, 2) == '{')
			break;
		reader_copy(&r->in, 2);
		return ITEM_OTHER;
	case 'p':
	case 'P':
		n = reader_property(&r->in, &safe);
		if (n == 0)
			break;
		if (safe)
			reader_copy(&r->in, n);
		else
			not_newline(r, n, NULL);
		return ITEM_OTHER;
	default:
		/* A back reference; with two digits it may be something else. */
		if (c >= '1' && c <= '9' && !reader_is_digit(reader_peek(&r->in, 2))) {
			reader_copy(&r->in, 2);
			return ITEM_OTHER;
		}
	}
	reader_give_up(&r->in);
	return ITEM_OTHER;
}

static void
read_class(struct parse *r)
{
	const struct class_how how = { r->options->multiline, r->options->ascii };
	struct class_seen seen;

	class_read(&r->in, &how, &seen);
	r->s->crosses |= seen.crosses;
	r->s->newline |= seen.newline;
	r->s->ascii &= !seen.beyond;
}

static void read_branches(struct parse *r);

/* Reads "(?i)", "(?s-i:" and the like, at p. Returns false for unknown flags. *ret_group: it
 * begins a group. */
static bool
read_flags(struct parse *r, bool *ret_group)
{
	bool on = true, ignore_case = r->ignore_case, dotall = r->dotall;
	size_t n = 2;

	for (;; n++) {
		char c = reader_peek(&r->in, n);

		if (c == ':' || c == ')') {
			*ret_group = c == ':';
			break;
		}
		if (c == '-' && on)
			on = false;
		else if (c == 'i')
			ignore_case = on;
		else if (c == 's')
			dotall = on;
		else if (c != 'm' || !on)
			return false;
	}
	r->ignore_case = ignore_case;
	r->dotall = dotall;
	reader_copy(&r->in, n + 1);
	return true;
}

/* Parses "(?<name>" at p, or with P or quotes. Returns its length, 0 for anything else. */
static size_t
group_name(const struct parse *r)
{
	size_t n = reader_begins(&r->in, "(?P<")                           ? 4
	    : reader_begins(&r->in, "(?<") || reader_begins(&r->in, "(?'") ? 3
									   : 0;

	if (n == 0 || (!reader_is_alnum(reader_peek(&r->in, n)) && reader_peek(&r->in, n) != '_'))
		return 0;
	while (reader_is_alnum(reader_peek(&r->in, n)) || reader_peek(&r->in, n) == '_')
		n++;
	return reader_peek(&r->in, n) == '>' || reader_peek(&r->in, n) == '\'' ? n + 1 : 0;
}

/* Reads a group; its '(' is at p. */
static enum item
read_group(struct parse *r)
{
	static const char *const looks[] = { "(?=", "(?!", "(?<=", "(?<!" };
	bool ignore_case = r->ignore_case, dotall = r->dotall, apart = false, group = true;
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(looks); i++)
		if (reader_begins(&r->in, looks[i]))
			n = strlen(looks[i]);
	apart = n > 0;
	if (n == 0)
		n = reader_begins(&r->in, "(?:") || reader_begins(&r->in, "(?>") ? 3
										 : group_name(r);
	if (n == 0 && reader_peek(&r->in, 1) != '?' && reader_peek(&r->in, 1) != '*')
		n = 1;
	if (n > 0) {
		reader_copy(&r->in, n);
	} else if (reader_peek(&r->in, 1) != '?' || !read_flags(r, &group)) {
		reader_give_up(&r->in);
		return ITEM_OTHER;
	}
	if (!group)
		return ITEM_NOTHING;
	if (++r->depth > SYNTAX_NEST_MAX) {
		reader_give_up(&r->in);
		return ITEM_OTHER;
	}
	read_branches(r);
	r->depth--;
	r->ignore_case = ignore_case;
	r->dotall = dotall;
	if (reader_peek(&r->in, 0) != ')') {
		reader_give_up(&r->in);
		return ITEM_OTHER;
	}
	reader_copy(&r->in, 1);
	return apart ? ITEM_APART : ITEM_GROUP;
}

/* How often an item may occur. */
struct times {
	bool once;  /* exactly once: no quantifier */
	bool never; /* it may be absent */
};

/* Parses "{2,3}" at p. Returns its length, 0 for anything else. */
static size_t
braces(const struct parse *r, struct times *ret)
{
	uint32_t min, max;
	size_t n = 1 + reader_number(&r->in, 1, 10, 6, &min);

	if (n == 1)
		return 0;
	if (reader_peek(&r->in, n) == ',')
		n += 1 + reader_number(&r->in, n + 1, 10, 6, &max);
	ret->never = min == 0;
	return reader_peek(&r->in, n) == '}' ? n + 1 : 0;
}

static struct times
read_quantifiers(struct parse *r)
{
	struct times all = { .once = true };

	for (;;) {
		struct times t = { .never = false };
		char c = reader_peek(&r->in, 0);
		size_t n = c == '{' ? braces(r, &t) : c == '*' || c == '+' || c == '?' ? 1 : 0;

		if (n == 0)
			return all;
		all.never |= c == '{' ? t.never : c != '+';
		all.once = false;
		reader_copy(&r->in, n);
		if (reader_peek(&r->in, 0) == '+' || reader_peek(&r->in, 0) == '?')
			reader_copy(&r->in, 1);
	}
}

static enum item
read_one(struct parse *r, struct character *ret)
{
	switch (*r->in.p) {
	case '\\':
		return read_escape(r, ret);
	case '[':
		read_class(r);
		return ITEM_OTHER;
	case '(':
		return read_group(r);
	case '^':
	case '$':
		reader_copy(&r->in, 1);
		return ITEM_ASSERTION;
	case '.':
		if (r->dotall)
			not_newline(r, 1, "\\N");
		else
			reader_copy(&r->in, 1);
		return ITEM_OTHER;
	case '{':
		/* Newer versions of PCRE2 accept more forms of quantifiers. */
		if (reader_is_digit(reader_peek(&r->in, 1)) || reader_peek(&r->in, 1) == ',' ||
		    reader_peek(&r->in, 1) == ' ')
			reader_give_up(&r->in);
		else
			return raw_character(r, ret);
		return ITEM_OTHER;
	case '*':
	case '+':
	case '?':
		reader_give_up(&r->in);
		return ITEM_OTHER;
	default:
		return raw_character(r, ret);
	}
}

static void
read_item(struct parse *r)
{
	const struct mark before = { r->run, r->best };
	struct character c;
	enum item item = read_one(r, &c);
	struct times times;

	if (item == ITEM_NOTHING || r->in.unknown)
		return;
	times = read_quantifiers(r);
	if (item == ITEM_CHARACTER && !times.never)
		run_on(r, &c);
	if (item == ITEM_APART || (item == ITEM_GROUP && times.never))
		back_to(r, &before);
	if (item != ITEM_CHARACTER && item != ITEM_GROUP)
		r->s->plain = false;
	if (!times.once || item == ITEM_OTHER) {
		end_run(r);
		r->s->plain = false;
	}
}

/* Reads up to the ')' or the end. With one branch the text continues from what is before it;
 * with several each branch has its own. */
static void
read_branches(struct parse *r)
{
	const struct texts outside = r->best;
	const struct literal_text before = r->run;
	struct texts any = { .n = 0 };
	bool several = false;

	r->best = (struct texts){ .n = 0 };
	for (;;) {
		while (reader_left(&r->in, 1) && *r->in.p != '|' && *r->in.p != ')')
			read_item(r);
		if (reader_peek(&r->in, 0) != '|' && !several)
			break;
		end_run(r);
		if (several)
			texts_add(&any, &r->best);
		else
			any = r->best;
		several = true;
		r->best = (struct texts){ .n = 0 };
		if (reader_peek(&r->in, 0) != '|')
			break;
		reader_copy(&r->in, 1);
	}
	if (several) {
		r->run = before;
		end_run(r);
		texts_prefer(&r->best, &any);
		r->s->plain = false;
	}
	texts_prefer(&r->best, &outside);
}

int
syntax_read(const char *pattern, size_t len, const struct syntax_options *options,
    struct syntax *ret)
{
	struct parse r = {
		.in = { .p = pattern,
		    .end = pattern + len,
		    .out = malloc(len * READER_GROWTH + 1) },
		.options = options,
		.ignore_case = options->ignore_case,
		.dotall = options->dotall,
		.s = ret,
	};

	*ret = (struct syntax){ .ascii = true, .plain = true, .within = r.in.out };
	if (r.in.out == NULL)
		return -1;
	read_branches(&r);
	if (reader_left(&r.in, 1))
		reader_give_up(&r.in);
	if (r.in.unknown) {
		ret->unknown = true;
		ret->newline = ret->crosses = ret->ascii = ret->plain = false;
		return 0;
	}
	end_run(&r);
	ret->within_len = r.in.out_len;
	ret->required = r.best;
	ret->plain &= ret->required.n == 1;
	return 0;
}

void
syntax_done(struct syntax *s)
{
	free(s->within);
	*s = (struct syntax){ .unknown = true };
}
