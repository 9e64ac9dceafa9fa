#include "worker/scan/gitconfig.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"

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

/* ---- inert variables ---- */

/*
 * Keys that make git fetch without being asked (a partial clone), or that hold the path of a helper
 * that git would start, are not inert. Because this is an allow-list, neither are dangerous keys
 * that git's own list of them does not have yet. Where not every value is safe, the row says what
 * the value must be.
 */
enum value {
	/* A number, a word or a text that git compares or shows. */
	ANY,
	/* Where to fetch from or push to, or the name of a remote, which may be an address too. */
	URL,
	/* Letters and digits: a newer git could accept an address here. */
	WORD,
	/* How to update a submodule: not a command ("!..."). */
	UPDATE,
};

static const struct inert {
	const char *section;
	bool sub; /* needs a subsection, of any name; otherwise must have none */
	const char *key;
	enum value value;
} inert[] = {
	{ "core", false, "repositoryformatversion", ANY },
	{ "core", false, "filemode", ANY },
	{ "core", false, "bare", ANY },
	{ "core", false, "logallrefupdates", ANY },
	{ "core", false, "ignorecase", ANY },
	{ "core", false, "precomposeunicode", ANY },
	{ "core", false, "symlinks", ANY },
	{ "core", false, "autocrlf", ANY },
	{ "core", false, "eol", ANY },
	{ "core", false, "safecrlf", ANY },
	{ "core", false, "abbrev", ANY },
	{ "core", false, "quotepath", ANY },
	{ "core", false, "compression", ANY },
	{ "core", false, "untrackedcache", ANY },
	{ "core", false, "preloadindex", ANY },
	{ "core", false, "sparsecheckout", ANY },
	{ "core", false, "sparsecheckoutcone", ANY },
	{ "extensions", false, "objectformat", WORD },
	{ "extensions", false, "compatobjectformat", WORD },
	{ "extensions", false, "refstorage", WORD },
	{ "extensions", false, "noop", ANY },
	{ "extensions", false, "preciousobjects", ANY },
	{ "extensions", false, "relativeworktrees", ANY },
	/* config.worktree is judged like config. */
	{ "extensions", false, "worktreeconfig", ANY },
	{ "remote", true, "url", URL },
	{ "remote", true, "pushurl", URL },
	{ "remote", true, "fetch", ANY },
	{ "remote", true, "push", ANY },
	{ "remote", true, "tagopt", ANY },
	{ "remote", true, "prune", ANY },
	{ "remote", true, "prunetags", ANY },
	{ "remote", false, "pushdefault", URL },
	{ "branch", true, "remote", URL },
	{ "branch", true, "pushremote", URL },
	{ "branch", true, "merge", ANY },
	{ "branch", true, "rebase", ANY },
	{ "branch", true, "description", ANY },
	{ "branch", false, "autosetupmerge", ANY },
	{ "branch", false, "autosetuprebase", ANY },
	{ "submodule", true, "url", URL },
	{ "submodule", true, "active", ANY },
	{ "submodule", true, "branch", ANY },
	{ "submodule", true, "ignore", ANY },
	{ "submodule", true, "update", UPDATE },
	{ "submodule", true, "fetchrecursesubmodules", ANY },
	{ "submodule", false, "active", ANY },
	{ "submodule", false, "recurse", ANY },
	{ "user", false, "name", ANY },
	{ "user", false, "email", ANY },
	{ "user", false, "useconfigonly", ANY },
	{ "author", false, "name", ANY },
	{ "author", false, "email", ANY },
	{ "committer", false, "name", ANY },
	{ "committer", false, "email", ANY },
	{ "init", false, "defaultbranch", ANY },
	{ "pull", false, "rebase", ANY },
	{ "pull", false, "ff", ANY },
	{ "push", false, "default", ANY },
	{ "push", false, "autosetupremote", ANY },
	{ "push", false, "followtags", ANY },
	{ "fetch", false, "prune", ANY },
	{ "fetch", false, "prunetags", ANY },
	{ "merge", false, "ff", ANY },
	{ "merge", false, "conflictstyle", ANY },
	{ "rebase", false, "autosquash", ANY },
	{ "rebase", false, "autostash", ANY },
	{ "rebase", false, "updaterefs", ANY },
	{ "rerere", false, "enabled", ANY },
	{ "diff", false, "algorithm", ANY },
	{ "diff", false, "renames", ANY },
	{ "gc", false, "auto", ANY },
	{ "maintenance", false, "auto", ANY },
	{ "index", false, "version", ANY },
	{ "lfs", false, "repositoryformatversion", ANY },
};

static bool
is_word(const char *s)
{
	if (*s == '\0')
		return false;
	while (is_key_char(*s) && *s != '-')
		s++;
	return *s == '\0';
}

bool
gitconfig_is_plain_url(const char *url)
{
	static const char *const schemes[] = { "https://", "http://", "ssh://", "git+ssh://",
		"ssh+git://", "git://", "file://", NULL };
	const char *p, *scheme = strstr(url, "://"), *host = url;

	if (url[0] == '\0' || url[0] == '-')
		return false;
	for (p = url; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	/* helper::address starts git-remote-helper, and ext::command runs the command itself. */
	p = url + strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._");
	if (p[0] == ':' && p[1] == ':')
		return false;
	/* helper://address does so too. git does not accept a scheme after a path. */
	if (scheme != NULL && p == scheme) {
		size_t i = 0;

		while (schemes[i] != NULL && strncmp(url, schemes[i], strlen(schemes[i])) != 0)
			i++;
		if (schemes[i] == NULL)
			return false;
		host = scheme + 3;
	}
	/* Reject what ssh would take for an option: in the host, the user, or the path that it
	 * receives. */
	for (p = host; p != NULL;) {
		if (*p == '-' || (*p == '[' && p[1] == '-'))
			return false;
		p = strpbrk(p, "@:/");
		if (p != NULL && p[0] == '/' && p > url && host != url)
			break; /* with a scheme, the path begins with its slash */
		if (p != NULL)
			p++;
		if (p != NULL && p[-1] == '/')
			break;
	}
	return true;
}

static bool
is_value(enum value value, const char *text)
{
	static const char *const updates[] = { "checkout", "rebase", "merge", "none", NULL };

	/* A key alone means `true`, which is neither an address nor a word. */
	switch (value) {
	case ANY:
		return true;
	case URL:
		return text != NULL && gitconfig_is_plain_url(text);
	case WORD:
		return text != NULL && is_word(text);
	case UPDATE:
		for (size_t i = 0; text != NULL && updates[i] != NULL; i++)
			if (strcmp(text, updates[i]) == 0)
				return true;
		return false;
	}
	return false;
}

bool
gitconfig_is_inert(const struct gitconfig_var *v)
{
	for (size_t i = 0; i < N_ELEMENTS(inert); i++) {
		if (strcmp(v->section, inert[i].section) == 0 &&
		    strcmp(v->key, inert[i].key) == 0 && (v->subsection != NULL) == inert[i].sub)
			return is_value(inert[i].value, v->value);
	}
	return false;
}

/* ---- writing ---- */

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
		if (r == 0 && is_word(v->value))
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

/* ---- paths that a variable names ---- */

enum gitconfig_names
gitconfig_names(const struct gitconfig_var *v)
{
	if (v->value == NULL || v->value[0] == '\0')
		return GITCONFIG_NAMES_NOTHING;
	if ((strcmp(v->section, "include") == 0 || strcmp(v->section, "includeif") == 0) &&
	    strcmp(v->key, "path") == 0)
		return GITCONFIG_NAMES_FILE;
	if ((strcmp(v->section, "core") == 0 && strcmp(v->key, "hookspath") == 0) ||
	    (strcmp(v->section, "init") == 0 && strcmp(v->key, "templatedir") == 0))
		return GITCONFIG_NAMES_PATH;
	if (gitconfig_is_inert(v))
		return GITCONFIG_NAMES_NOTHING;
	if (strcmp(v->section, "alias") == 0 && v->value[0] != '!')
		return GITCONFIG_NAMES_NOTHING; /* one of git's own commands */
	/* The keys whose values are command lines cannot be listed: the project chooses the names
	 * of its filters. */
	return GITCONFIG_NAMES_PROGRAM;
}

bool
gitconfig_word(const char **line, char *ret, size_t size)
{
	const char *p = *line;
	char quote = '\0';
	size_t n = 0;

	p += strspn(p, " \t\n;|&()!");
	if (*p == '\0')
		return false;
	for (; *p != '\0' && (quote != '\0' || strchr(" \t\n;|&()", *p) == NULL); p++) {
		char ch = *p;

		if (quote == '\0' && (ch == '"' || ch == '\'')) {
			quote = ch;
			continue;
		}
		if (ch == quote) {
			quote = '\0';
			continue;
		}
		if (ch == '\\' && quote != '\'' && p[1] != '\0')
			ch = *++p;
		if (n + 1 < size)
			ret[n++] = ch;
	}
	ret[n] = '\0';
	*line = p;
	return true;
}

bool
gitconfig_gitfile(const char *text, size_t len, size_t *ret_start, size_t *ret_len)
{
	static const char head[] = "gitdir: ";
	size_t start = sizeof(head) - 1;

	if (len < start || memcmp(text, head, start) != 0)
		return false;
	while (len > start && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len == start || memchr(text + start, '\0', len - start) != NULL)
		return false;
	*ret_start = start;
	*ret_len = len - start;
	return true;
}

bool
gitconfig_todo_is_plain(const char *text, size_t len)
{
	static const char *const steps[] = { "pick", "p", "reword", "r", "edit", "e", "squash", "s",
		"fixup", "f", "drop", "d", "break", "b", "label", "l", "reset", "t", "merge", "m",
		"update-ref", "u", "noop", "revert", NULL };
	const char *end = text + len;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text)), *p = text;
		size_t k = 0, i = 0;

		if (eol == NULL)
			eol = end;
		while (p < eol && is_space(*p))
			p++;
		while (p + k < eol && !is_space(p[k]))
			k++;
		/* Comments may begin with another character, set by the configuration: then this is
		 * too strict. */
		if (k > 0 && *p != '#') {
			while (steps[i] != NULL &&
			    (strlen(steps[i]) != k || memcmp(steps[i], p, k) != 0))
				i++;
			if (steps[i] == NULL)
				return false;
		}
		text = eol + 1;
	}
	return true;
}
