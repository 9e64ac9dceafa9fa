/* SPDX-License-Identifier: Apache-2.0 */
#include "search/glob.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"

/* A program is a sequence of these, each followed by its operands. */
enum op {
	OP_END,   /* end of the glob; the path has to end here, too */
	OP_TEXT,  /* two bytes of length, then the text, which may have slashes in it */
	OP_ANY,   /* one byte other than a slash */
	OP_CLASS, /* 256 bits: one byte of a set, which never has the slash */
	OP_STAR,  /* any number of bytes other than a slash */
	OP_DIRS,  /* nothing, or everything up to some slash, inclusive */
	OP_UP_TO, /* everything up to some slash, inclusive */
	OP_REST,  /* the rest of the path */
};

#define CLASS_BYTES 32
#define TEXT_HEAD   3 /* the op and the length */
/* "[a]" becomes an op and its bits; nothing else grows as much. */
#define PROGRAM_MAX(len) ((len)*12 + 16)

const char GLOB_NO_MEMORY[] = "there is not enough memory for it";

struct compiler {
	const uint8_t *in;
	size_t len, at;
	unsigned flags;
	uint8_t *out;
	size_t n;
	size_t text;  /* the OP_TEXT being written, or SIZE_MAX */
	bool special; /* something other than plain text came before */
};

/* ---- classes ---- */

static void
class_add(uint8_t *bits, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to; c++)
		bits[c / 8] |= (uint8_t)(1u << c % 8);
}

static bool
class_has(const uint8_t *bits, uint8_t c)
{
	return (bits[c / 8] >> c % 8 & 1) != 0;
}

/* clang-format off */
static const struct {
	const char *name;
	int (*is)(int);
} named_classes[] = {
	{ "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank }, { "cntrl", iscntrl },
	{ "digit", isdigit }, { "graph", isgraph }, { "lower", islower }, { "print", isprint },
	{ "punct", ispunct }, { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
};
/* clang-format on */

static bool
class_add_named(uint8_t *bits, const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < N_ELEMENTS(named_classes); i++) {
		if (strlen(named_classes[i].name) != len ||
		    memcmp(named_classes[i].name, name, len) != 0)
			continue;
		for (unsigned c = 0; c < 128; c++) {
			if (named_classes[i].is((int)c) != 0)
				class_add(bits, c, c);
		}
		return true;
	}
	return false;
}

static void
class_finish(uint8_t *bits, bool negated, unsigned flags)
{
	if ((flags & GLOB_IGNORE_CASE) != 0) {
		for (unsigned c = 'a'; c <= 'z'; c++) {
			if (class_has(bits, (uint8_t)c) ||
			    class_has(bits, (uint8_t)(c - 'a' + 'A'))) {
				class_add(bits, c, c);
				class_add(bits, c - 'a' + 'A', c - 'a' + 'A');
			}
		}
	}
	for (size_t i = 0; negated && i < CLASS_BYTES; i++)
		bits[i] ^= 0xff;
	bits['/' / 8] &= (uint8_t) ~(1u << '/' % 8);
}

static const char unclosed_class[] = "a '[' has no ']'";

/* Reads the next byte of a class, with or without a backslash before it. Returns NULL, or what
 * is wrong. */
static const char *
class_byte(struct compiler *c, uint8_t *ret)
{
	if (c->at < c->len && c->in[c->at] == '\\')
		c->at++;
	if (c->at >= c->len)
		return unclosed_class;
	*ret = c->in[c->at++];
	return NULL;
}

/* Parses "[:alpha:]" at c->at, in a class. *ret: false if it is something else. Returns NULL, or
 * what is wrong. */
static const char *
class_named(struct compiler *c, uint8_t *bits, bool *ret)
{
	const uint8_t *name = c->in + c->at + 2, *close;

	*ret = false;
	if (c->len - c->at < 2 || c->in[c->at] != '[' || c->in[c->at + 1] != ':')
		return NULL;
	close = memchr(name, ']', c->len - c->at - 2);
	if (close == NULL)
		return unclosed_class;
	if (close == name || close[-1] != ':')
		return NULL;
	*ret = true;
	c->at = (size_t)(close - c->in) + 1;
	return class_add_named(bits, name, (size_t)(close - name) - 1)
	    ? NULL
	    : "it has a class with an unknown name";
}

/* Compiles a class after its '[', as git does: ']' is text in the first position, '-' in the
 * first and last. Returns NULL, or what is wrong. */
static const char *
compile_class(struct compiler *c, uint8_t *bits)
{
	bool negated = false, named = false, first = true;
	int from = -1;

	memset(bits, 0, CLASS_BYTES);
	if (c->at < c->len && (c->in[c->at] == '!' || c->in[c->at] == '^')) {
		negated = true;
		c->at++;
	}
	for (;; first = false) {
		const char *why;
		uint8_t b = 0;

		if (c->at >= c->len)
			return unclosed_class;
		if (c->in[c->at] == ']' && !first)
			break;
		if (c->in[c->at] == '-' && from >= 0 && c->len - c->at > 1 &&
		    c->in[c->at + 1] != ']') {
			c->at++;
			why = class_byte(c, &b);
			if (why != NULL)
				return why;
			if (b < from && (c->flags & GLOB_GIT) == 0)
				return "a range in it ends before it begins";
			class_add(bits, (unsigned)from, b);
			from = -1;
			continue;
		}
		why = class_named(c, bits, &named);
		if (why == NULL && !named)
			why = class_byte(c, &b);
		if (why != NULL)
			return why;
		if (!named)
			class_add(bits, b, b);
		/* No range begins with a named class, or with the end of another range. */
		from = named || b == 0 ? -1 : b;
	}
	c->at++;
	class_finish(bits, negated, c->flags);
	return NULL;
}

/* ---- the rest of the syntax ---- */

static void
emit(struct compiler *c, enum op op)
{
	c->out[c->n++] = (uint8_t)op;
	c->text = SIZE_MAX;
}

static size_t
text_len(const uint8_t *op)
{
	return (size_t)op[1] << 8 | op[2];
}

static void
emit_text(struct compiler *c, uint8_t byte)
{
	size_t len;

	if (c->text == SIZE_MAX) {
		c->text = c->n;
		c->out[c->n] = OP_TEXT;
		c->out[c->n + 1] = c->out[c->n + 2] = 0;
		c->n += TEXT_HEAD;
	}
	len = text_len(c->out + c->text) + 1;
	c->out[c->text + 1] = (uint8_t)(len >> 8);
	c->out[c->text + 2] = (uint8_t)len;
	if ((c->flags & GLOB_IGNORE_CASE) != 0 && byte < 128)
		byte = (uint8_t)tolower(byte);
	c->out[c->n++] = byte;
}

/* Compiles one or more stars; c->at is the first. */
static void
compile_stars(struct compiler *c)
{
	const size_t first = c->at;
	bool alone; /* a component of its own, as git sees it */

	while (c->at < c->len && c->in[c->at] == '*')
		c->at++;
	alone =
	    first == 0 || c->in[first - 1] == '/' || ((c->flags & GLOB_GIT) != 0 && !c->special);
	if (c->at - first >= 2 && alone && (c->flags & GLOB_NAME) == 0) {
		const size_t left = c->len - c->at;

		if (left == 0) {
			emit(c, OP_REST);
			return;
		}
		if (c->in[c->at] == '/') {
			emit(c, OP_DIRS);
			c->at++;
			return;
		}
		if (left > 1 && c->in[c->at] == '\\' && c->in[c->at + 1] == '/') {
			emit(c, OP_UP_TO);
			c->at += 2;
			return;
		}
	}
	emit(c, OP_STAR);
}

static const char *
compile(struct compiler *c)
{
	while (c->at < c->len) {
		const uint8_t b = c->in[c->at];
		uint8_t bits[CLASS_BYTES];
		const char *why;

		switch (b) {
		case '*':
			compile_stars(c);
			break;
		case '?':
			c->at++;
			emit(c, OP_ANY);
			break;
		case '[':
			c->at++;
			why = compile_class(c, bits);
			if (why != NULL)
				return why;
			emit(c, OP_CLASS);
			memcpy(c->out + c->n, bits, CLASS_BYTES);
			c->n += CLASS_BYTES;
			break;
		case '\\':
			c->at++;
			if (c->at == c->len)
				return "it ends with a backslash";
			/* fallthrough */
		default:
			emit_text(c, c->in[c->at++]);
			break;
		}
		c->special |= b == '*' || b == '?' || b == '[' || b == '\\';
	}
	emit(c, OP_END);
	return NULL;
}

static size_t
op_size(const uint8_t *op)
{
	switch ((enum op) * op) {
	case OP_TEXT:
		return TEXT_HEAD + text_len(op);
	case OP_CLASS:
		return 1 + CLASS_BYTES;
	case OP_END:
	case OP_ANY:
	case OP_STAR:
	case OP_DIRS:
	case OP_UP_TO:
	case OP_REST:
		break;
	}
	return 1;
}

/* Does a component begin after this op? Text before a '**' (only git's syntax has that) may end
 * in the same component. */
static bool
begins_component(const uint8_t *op, bool glued)
{
	if (op == NULL)
		return true;
	if (*op == OP_TEXT)
		return op[op_size(op) - 1] == '/';
	return (*op == OP_DIRS || *op == OP_UP_TO) && !glued;
}

/* Sets the key from the end of the program. */
static void
find_key(struct glob *g)
{
	const uint8_t *last = NULL, *before = NULL, *third = NULL, *slash, *text;
	bool glued = false;
	size_t len;

	for (const uint8_t *op = g->program; *op != OP_END; op += op_size(op)) {
		third = before;
		before = last;
		last = op;
		glued |= (*op == OP_DIRS || *op == OP_UP_TO) && before != NULL &&
		    *before == OP_TEXT && !begins_component(before, false);
	}
	g->kind = GLOB_KEY_NONE;
	g->whole = false;
	if (last == NULL || *last != OP_TEXT)
		return;
	text = last + TEXT_HEAD;
	len = text_len(last);
	slash = memrchr(text, '/', len);
	if (slash != NULL || begins_component(before, glued)) {
		g->kind = GLOB_KEY_NAME;
		g->whole = slash == NULL && before == NULL && (g->flags & GLOB_NAME) != 0;
	} else if (*before == OP_STAR && begins_component(third, glued)) {
		g->kind = GLOB_KEY_SUFFIX;
		g->whole = third == NULL && (g->flags & GLOB_NAME) != 0;
	}
	g->key = slash != NULL ? slash + 1 : text;
	g->key_len = len - (size_t)(g->key - text);
}

const char *
glob_compile(const char *text, size_t len, unsigned flags, struct glob *ret)
{
	struct compiler c = { .in = (const uint8_t *)text,
		.len = len,
		.flags = flags,
		.text = SIZE_MAX };
	struct glob g = { .flags = flags };
	cleanup_free uint8_t *program = NULL;
	const char *why;
	void *smaller;

	if (len > GLOB_BYTES_MAX)
		return "it is longer than any path";
	/* "**" and a slash before a name mean no more than the name alone. */
	while (
	    c.len > 3 && memcmp(c.in, "**/", 3) == 0 && memchr(c.in + 3, '/', c.len - 3) == NULL) {
		c.in += 3;
		c.len -= 3;
		c.flags |= GLOB_NAME;
	}
	g.flags = c.flags;
	program = malloc(PROGRAM_MAX(c.len));
	if (program == NULL)
		return GLOB_NO_MEMORY;
	c.out = program;
	why = compile(&c);
	if (why != NULL)
		return why;
	smaller = realloc(program, c.n);
	if (smaller != NULL)
		program = smaller;
	g.program = take_ptr(&program);
	find_key(&g);
	*ret = g;
	return NULL;
}

void
glob_done(struct glob *g)
{
	free(g->program);
	*g = GLOB_EMPTY;
}

/* ---- matching ---- */

static bool
same_text(const struct glob *g, const uint8_t *text, const uint8_t *s, size_t len)
{
	if ((g->flags & GLOB_IGNORE_CASE) == 0)
		return memcmp(text, s, len) == 0;
	for (size_t i = 0; i < len; i++) {
		const uint8_t c = s[i] >= 'A' && s[i] <= 'Z' ? (uint8_t)(s[i] - 'A' + 'a') : s[i];

		if (c != text[i])
			return false;
	}
	return true;
}

static const uint8_t *
behind_slash(const uint8_t *s, const uint8_t *end)
{
	const uint8_t *slash = s < end ? memchr(s, '/', (size_t)(end - s)) : NULL;

	return slash != NULL ? slash + 1 : NULL;
}

/* Where to continue if the following ops do not match. */
struct retry {
	const uint8_t *op; /* NULL: nowhere */
	const uint8_t *s;
};

static bool
go_back(struct retry *star, struct retry *dirs, const uint8_t *end, const uint8_t **op,
    const uint8_t **s)
{
	if (star->op != NULL && star->s < end && *star->s != '/') {
		*op = star->op;
		*s = ++star->s;
		return true;
	}
	star->op = NULL;
	if (dirs->op == NULL)
		return false;
	dirs->s = behind_slash(dirs->s, end);
	*op = dirs->op;
	*s = dirs->s;
	return dirs->s != NULL;
}

/* Executes an op that has one way to match. Returns the position after the match, or NULL. */
static const uint8_t *
step(const struct glob *g, const uint8_t *op, const uint8_t *s, const uint8_t *end)
{
	const size_t left = (size_t)(end - s);

	switch ((enum op) * op) {
	case OP_TEXT:
		return left >= text_len(op) && same_text(g, op + TEXT_HEAD, s, text_len(op))
		    ? s + text_len(op)
		    : NULL;
	case OP_ANY:
		return left > 0 && *s != '/' ? s + 1 : NULL;
	case OP_CLASS:
		return left > 0 && class_has(op + 1, *s) ? s + 1 : NULL;
	case OP_UP_TO:
		return behind_slash(s, end);
	case OP_STAR:
	case OP_DIRS:
	case OP_END:
	case OP_REST:
		break;
	}
	return s;
}

static bool
run(const struct glob *g, const uint8_t *s, const uint8_t *end)
{
	struct retry star = { NULL, NULL }, dirs = { NULL, NULL };
	const uint8_t *op = g->program;

	for (;;) {
		const uint8_t *next = step(g, op, s, end);

		if (*op == OP_REST || (*op == OP_END && s == end))
			return true;
		if (next == NULL || *op == OP_END) {
			if (!go_back(&star, &dirs, end, &op, &s))
				return false;
			continue;
		}
		s = next;
		next = op + op_size(op);
		if (*op == OP_STAR)
			star = (struct retry){ next, s };
		if (*op == OP_DIRS || *op == OP_UP_TO) {
			dirs = (struct retry){ next, s };
			star.op = NULL;
		}
		op = next;
	}
}

bool
glob_match(const struct glob *g, const char *path, size_t len, size_t name)
{
	const uint8_t *s = (const uint8_t *)path, *end = s + len;
	const size_t n = len - name;

	if (g->kind != GLOB_KEY_NONE) {
		if (g->kind == GLOB_KEY_NAME ? n != g->key_len : n < g->key_len)
			return false;
		if (!same_text(g, g->key, end - g->key_len, g->key_len))
			return false;
		if (g->whole)
			return true;
	}
	return run(g, (g->flags & GLOB_NAME) != 0 ? s + name : s, end);
}
