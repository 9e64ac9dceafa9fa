/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitconfig.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* git has its own definition, which does not depend on the locale. */
static bool
is_space(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_key_char(int c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static char
lower(int c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* ---- parsing ---- */

#define END (-1)

struct config_reader {
	const unsigned char *p, *end;
	struct gitconfig *c;
	size_t size; /* of c->var */
	char *out;   /* where the next byte of c->text goes */
	const char *section, *subsection;
};

static int
next(struct config_reader *r)
{
	if (r->p == r->end)
		return END;
	if (*r->p == '\r' && r->end - r->p > 1 && r->p[1] == '\n')
		r->p++;
	return *r->p++;
}

/* Reads a section header after "[". The subsection is quoted or, in the old syntax, follows a
 * dot. */
static int
read_section(struct config_reader *r)
{
	char *dot = NULL;
	int ch;

	r->section = r->out;
	r->subsection = NULL;
	for (;;) {
		ch = next(r);
		if (ch == ']') {
			*r->out++ = '\0';
			if (dot != NULL) {
				*dot = '\0';
				r->subsection = dot + 1;
			}
			return r->section[0] != '\0' ? 0 : -1;
		}
		if (ch != END && is_space(ch))
			break;
		if (ch == END || (!is_key_char(ch) && ch != '.'))
			return -1;
		if (ch == '.' && dot == NULL)
			dot = r->out;
		*r->out++ = lower(ch);
	}
	if (dot != NULL || r->out == r->section)
		return -1;
	*r->out++ = '\0';
	while (ch == ' ' || ch == '\t')
		ch = next(r);
	if (ch != '"')
		return -1;
	r->subsection = r->out;
	while ((ch = next(r)) != '"') {
		if (ch == '\\')
			ch = next(r);
		if (ch == '\n' || ch == END)
			return -1;
		*r->out++ = (char)ch;
	}
	*r->out++ = '\0';
	return next(r) == ']' ? 0 : -1;
}

/* Reads a value after "=". */
static int
read_value(struct config_reader *r)
{
	bool quoted = false, comment = false;
	char *start = r->out, *end = start; /* end of the value without trailing white space */
	int ch;

	for (;;) {
		ch = next(r);
		if (ch == '\n' || ch == END) {
			if (quoted)
				return -1;
			r->out = end;
			*r->out++ = '\0';
			return 0;
		}
		if (comment)
			continue;
		if (!quoted && is_space(ch)) {
			if (r->out > start)
				*r->out++ = (char)ch;
			continue;
		}
		if (!quoted && (ch == '#' || ch == ';')) {
			comment = true;
			continue;
		}
		if (ch == '"') {
			quoted = !quoted;
			/* An empty "" keeps the white space before it. */
			end = r->out;
			continue;
		}
		if (ch == '\\') {
			ch = next(r);
			if (ch == '\n')
				continue;
			if (ch == 't')
				ch = '\t';
			else if (ch == 'b')
				ch = '\b';
			else if (ch == 'n')
				ch = '\n';
			else if (ch != '\\' && ch != '"')
				return -1;
		}
		*r->out++ = (char)ch;
		end = r->out;
	}
}

static int
read_variable(struct config_reader *r, int ch)
{
	struct gitconfig *c = r->c;
	struct gitconfig_var v = { .section = r->section, .subsection = r->subsection };

	if (r->section == NULL)
		return -1;
	v.key = r->out;
	while (ch != END && is_key_char(ch)) {
		*r->out++ = lower(ch);
		ch = next(r);
	}
	*r->out++ = '\0';
	while (ch == ' ' || ch == '\t')
		ch = next(r);
	if (ch == '=') {
		v.value = r->out;
		if (read_value(r) < 0)
			return -1;
	} else if (ch != '\n' && ch != END) {
		return -1;
	}
	if (c->n == r->size) {
		size_t size = r->size == 0 ? 16 : r->size * 2;
		struct gitconfig_var *var = realloc(c->var, size * sizeof(*var));

		if (var == NULL) {
			errno = ENOMEM;
			return -1;
		}
		c->var = var;
		r->size = size;
	}
	c->var[c->n++] = v;
	return 0;
}

int
gitconfig_parse(const char *text, size_t len, struct gitconfig *ret)
{
	struct gitconfig c = { 0 };
	struct config_reader r = { .p = (const unsigned char *)text, .c = &c };
	bool comment = false;
	int ch;

	r.end = r.p + len;
	errno = EINVAL;
	if (len > GITCONFIG_BYTES_MAX || (len > 0 && memchr(text, '\0', len) != NULL))
		return -1;
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		r.p += 3;
	/* Parsing never expands a byte. Each name and value ends with a NUL in place of its
	 * terminator, except a key alone at the end. */
	c.text = r.out = malloc(2 * len + 2);
	if (c.text == NULL) {
		errno = ENOMEM;
		return -1;
	}
	while ((ch = next(&r)) != END) {
		int rc = 0;

		if (ch == '\n')
			comment = false;
		else if (comment || is_space(ch))
			continue;
		else if (ch == '#' || ch == ';')
			comment = true;
		else if (ch == '[')
			rc = read_section(&r);
		else
			rc = is_letter(ch) ? read_variable(&r, ch) : -1;
		if (rc < 0) {
			int saved = errno == ENOMEM ? ENOMEM : EINVAL;

			gitconfig_done(&c);
			errno = saved;
			return -1;
		}
	}
	*ret = c;
	return 0;
}

void
gitconfig_done(struct gitconfig *c)
{
	free(c->var);
	free(c->text);
	*c = (struct gitconfig){ 0 };
}

/* ---- writing ---- */

bool
gitconfig_is_word(const char *s)
{
	if (*s == '\0')
		return false;
	while (is_key_char(*s) && *s != '-')
		s++;
	return *s == '\0';
}

struct config_text {
	char *text;
	size_t len, size;
};

static int
put(struct config_text *out, const char *text, size_t len)
{
	if (out->text == NULL || out->len + len > out->size) {
		size_t size = (out->len + len) * 2 + 256;
		char *grown = realloc(out->text, size);

		if (grown == NULL) {
			errno = ENOMEM;
			return -1;
		}
		out->text = grown;
		out->size = size;
	}
	memcpy(out->text + out->len, text, len);
	out->len += len;
	return 0;
}

static int
put_quoted(struct config_text *out, const char *text, bool value)
{
	int r = put(out, "\"", 1);

	for (; r == 0 && *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			r = put(out, "\\", 1);
		if (r == 0 && value && *text == '\n')
			r = put(out, "\\n", 2);
		else if (r == 0 && value && *text == '\t')
			r = put(out, "\\t", 2);
		else if (r == 0 && value && *text == '\b')
			r = put(out, "\\b", 2);
		else if (r == 0)
			r = put(out, text, 1);
	}
	return r == 0 ? put(out, "\"", 1) : -1;
}

static bool
same_section(const struct gitconfig_var *a, const struct gitconfig_var *b)
{
	if (a == NULL || strcmp(a->section, b->section) != 0)
		return false;
	if (a->subsection == NULL || b->subsection == NULL)
		return a->subsection == b->subsection;
	return strcmp(a->subsection, b->subsection) == 0;
}

static int
put_variable(struct config_text *out, const struct gitconfig_var *before,
    const struct gitconfig_var *v)
{
	int r = 0;

	if (!same_section(before, v)) {
		r = put(out, "[", 1);
		if (r == 0)
			r = put(out, v->section, strlen(v->section));
		if (r == 0 && v->subsection != NULL)
			r = put(out, " ", 1);
		if (r == 0 && v->subsection != NULL)
			r = put_quoted(out, v->subsection, false);
		if (r == 0)
			r = put(out, "]\n", 2);
	}
	if (r == 0)
		r = put(out, "\t", 1);
	if (r == 0)
		r = put(out, v->key, strlen(v->key));
	if (r == 0 && v->value != NULL) {
		r = put(out, " = ", 3);
		if (r == 0 && gitconfig_is_word(v->value))
			r = put(out, v->value, strlen(v->value));
		else if (r == 0)
			r = put_quoted(out, v->value, true);
	}
	return r == 0 ? put(out, "\n", 1) : -1;
}

int
gitconfig_write(const struct gitconfig *c, bool (*keep)(void *, const struct gitconfig_var *),
    void *data, char **ret, size_t *ret_len)
{
	struct config_text out = { 0 };
	const struct gitconfig_var *before = NULL;

	if (put(&out, "", 0) < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++) {
		if (!keep(data, &c->var[i]))
			continue;
		if (put_variable(&out, before, &c->var[i]) < 0) {
			free(out.text);
			return -1;
		}
		before = &c->var[i];
	}
	*ret = out.text;
	*ret_len = out.len;
	return 0;
}
