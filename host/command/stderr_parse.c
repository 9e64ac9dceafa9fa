/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/stderr_parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "host/sandbox/view.h"
#include "shared/base/cleanup.h"

/* clang-format off */
/* How libc, Go and node spell the reason. */
static const char *const reasons[] = {
	"Operation not permitted", "Permission denied", "Read-only file system",
	"operation not permitted", "permission denied", "read-only file system",
	"EACCES", "EPERM", "EROFS",
	NULL,
};
/* A mount's error: what the command tried to move or remove is pinned. Elsewhere this error means
 * something else. */
static const char *const busy[] = { "Device or resource busy", "device or resource busy", "EBUSY", NULL };
/* A remote machine's refusal of a key or a password. */
static const char *const not_ours[] = { "(publickey", "(password", "(keyboard-interactive", NULL };

/* Matched as whole words, ignoring case. A colon belongs to the name of the program that prints the
 * line. */
static const char *const writes[] = {
	"touch", "mkdir", "cannot create", "cannot remove", "cannot move", "cannot copy",
	"rm:", "mv:", "rmdir:", "chmod:", "chown:",
	"tee:", "ln:", "truncate:", "install:", "unlink", "rename", "rmdir", "symlink", "ftruncate", "copyfile",
	"cannot overwrite", "cannot touch", "could not lock", "could not write", "unable to write", "unable to create",
	"failed to write", "failed to create", "for writing",
	NULL,
};
static const char *const reads[] = {
	"cat:", "ls:", "head:", "tail:", "find:", "grep:",
	"cannot access", "cannot open directory", "for reading", "scandir", "readdir", "opendir", "lstat", "stat",
	NULL,
};
static const char *const executes[] = { "spawn", "execve", "execvp", "fork/exec", "exec:", "cannot execute", NULL };
static const char *const connects[] = { "connect", "connect:", "dial", "sendto", "sendmsg", NULL };

/* The network is closed: no other denial is worded like this. */
static const char *const network[] = {
	"Network is unreachable", "network is unreachable", "ENETUNREACH",
	"Temporary failure in name resolution", "EAI_AGAIN",
	"Could not resolve host", "Could not resolve hostname", "unable to resolve host address",
	NULL,
};
/* clang-format on */

static const char *
last_of(const char *line, const char *const *words, size_t *ret_len)
{
	const char *found = NULL;

	for (size_t i = 0; words[i] != NULL; i++) {
		for (const char *at = strstr(line, words[i]); at != NULL;
		     at = strstr(at + 1, words[i])) {
			if (found == NULL || at > found) {
				found = at;
				*ret_len = strlen(words[i]);
			}
		}
	}
	return found;
}

/* Is c no part of a path or of a longer name? */
static bool
is_boundary(char c)
{
	return !isalnum((unsigned char)c) && strchr("/.-_~", c) == NULL;
}

static bool
has_word(const char *line, const char *const *words)
{
	for (size_t i = 0; words[i] != NULL; i++) {
		size_t len = strlen(words[i]);

		for (const char *at = strcasestr(line, words[i]); at != NULL;
		     at = strcasestr(at + 1, words[i])) {
			if ((at == line || is_boundary(at[-1])) &&
			    (at[len] == '\0' || words[i][len - 1] == ':' || is_boundary(at[len])))
				return true;
		}
	}
	return false;
}

/* ---- targets ---- */

#define TRIMMED ":,'\"`"

static size_t
open_quote(const char *at)
{
	if (*at == '\'' || *at == '"' || *at == '`')
		return 1;
	return strncmp(at, "\xe2\x80\x98", 3) == 0 || strncmp(at, "\xe2\x80\x9c", 3) == 0 ? 3 : 0;
}

/* Where the text that begins after the quote at `at` ends: at a closing quote that no text follows.
 * NULL if it is not closed. */
static const char *
close_quote(const char *at)
{
	size_t len = open_quote(at);
	const char *text = at + len;

	for (const char *p = text; *p != '\0'; p++) {
		bool closes = len == 3
		    ? strncmp(p, "\xe2\x80\x99", 3) == 0 || strncmp(p, "\xe2\x80\x9d", 3) == 0
		    : *p == *at || (*at == '`' && *p == '\'');

		if (closes && p > text && !isalnum((unsigned char)p[len]) && p[len] != '/')
			return p;
	}
	return NULL;
}

static void
keep(char ret[KODA_PATH_SHOWN_MAX], const char *text, size_t len)
{
	snprintf(ret, KODA_PATH_SHOWN_MAX, "%.*s", (int)len, text);
}

/* The length up to white space, without trailing punctuation. */
static size_t
bare_len(const char *text)
{
	size_t len = strcspn(text, " \t");

	while (len > 0 && strchr(TRIMMED ")", text[len - 1]) != NULL)
		len--;
	return len;
}

/* Does a word begin here, after any punctuation? */
static bool
begins_word(const char *line, const char *at)
{
	while (at > line && strchr(TRIMMED, at[-1]) != NULL)
		at--;
	return at == line || at[-1] == ' ' || at[-1] == '\t' ||
	    (at - line >= 3 && open_quote(at - 3) == 3);
}

/* The last absolute path in the line. A shell quotes nothing: there the path ends where the reason
 * begins. */
static bool
absolute_target(const char *line, const char *reason, char ret[KODA_PATH_SHOWN_MAX])
{
	const char *at = line;
	bool found = false;

	while ((at = strchr(at, '/')) != NULL) {
		const char *end = NULL;
		size_t len;

		if (at - line >= 5 && strncmp(at - 5, "unix://", 7) == 0) {
			at += 2; /* from the name of a socket's scheme to its path */
			continue;
		}
		if (!begins_word(line, at) &&
		    !(at - line >= 7 && strncmp(at - 7, "unix://", 7) == 0)) {
			at++;
			continue;
		}
		if (at > line && open_quote(at - 1) == 1)
			end = close_quote(at - 1);
		else if (at - line >= 3 && open_quote(at - 3) == 3)
			end = close_quote(at - 3);
		else if (at - line >= 2 && strncmp(at - 2, ": ", 2) == 0 && reason - 2 > at &&
		    strncmp(reason - 2, ": ", 2) == 0)
			end = reason - 2;
		len = end != NULL ? (size_t)(end - at) : bare_len(at);
		if (len > 1) {
			keep(ret, at, len);
			found = true;
		}
		at += len > 0 ? len : 1;
	}
	return found;
}

/* The last quoted text, or the text between the last two colons before the reason. */
static void
relative_target(const char *line, const char *reason, char ret[KODA_PATH_SHOWN_MAX])
{
	const char *end = reason - 2, *start, *word;

	for (const char *at = line; *at != '\0'; at++) {
		const char *closed =
		    open_quote(at) > 0 && (at == line || at[-1] == ' ') ? close_quote(at) : NULL;

		if (closed == NULL)
			continue;
		if (at[open_quote(at)] != '/')
			keep(ret, at + open_quote(at), (size_t)(closed - at) - open_quote(at));
		at = closed;
	}
	if (ret[0] != '\0' || reason - line < 4 || strncmp(end, ": ", 2) != 0)
		return;
	for (start = end; start > line && strncmp(start - 1, ": ", 2) != 0; start--)
		;
	start += start > line;
	if (start == line)
		return; /* only the program's name */
	for (word = end; word > start && word[-1] != ' '; word--)
		;
	/* Accept a single word, the object of a shell's message, or what looks like a path. */
	if (word == end || *word == '/' || open_quote(word) > 0 ||
	    strspn(word, "0123456789") == (size_t)(end - word) || *word == '[')
		return;
	if (word == start || strncmp(start, "cannot ", 7) == 0 ||
	    memchr(word, '/', (size_t)(end - word)) != NULL ||
	    memchr(word, '.', (size_t)(end - word)) != NULL)
		keep(ret, word, (size_t)(end - word));
}

/* host, or address:port, as the tools name it. */
static void
network_target(const char *line, char ret[KODA_PATH_SHOWN_MAX])
{
	static const char *const before[] = { "Could not resolve hostname ",
		"Could not resolve host: ", "unable to resolve host address ", "EAI_AGAIN ",
		"ENETUNREACH ", "dial tcp: lookup ", "dial tcp ", "dial udp ", "connect to host ",
		"connect to " };

	for (size_t i = 0; i < N_ELEMENTS(before); i++) {
		const char *at = strstr(line, before[i]), *port;
		size_t len;

		if (at == NULL)
			continue;
		at += strlen(before[i]);
		while (open_quote(at) > 0)
			at += open_quote(at);
		len = strspn(at,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]");
		while (len > 0 && strchr(":.", at[len - 1]) != NULL)
			len--;
		/* A name has a dot, an address dots or colons: not "the server". */
		if (len == 0 || strcspn(at, ".:") >= len)
			continue;
		port = at + len;
		if (strncmp(port, " port ", 6) == 0 && isdigit((unsigned char)port[6]))
			snprintf(ret, KODA_PATH_SHOWN_MAX, "%.*s:%.*s", (int)len, at,
			    (int)strspn(port + 6, "0123456789"), port + 6);
		else
			keep(ret, at, len);
		return;
	}
}

/* ---- lines ---- */

/* Copies what a terminal would show: without the escape sequences for colours. */
static void
copy_line(char ret[STDERR_LINE_MAX], const char *line, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < STDERR_LINE_MAX - 1; i++) {
		if (line[i] == '\x1b' && i + 1 < len && line[i + 1] == '[') {
			i += 2;
			while (i < len && (unsigned char)line[i] < 0x40)
				i++;
			continue;
		}
		if (line[i] == '\r' && i + 1 == len)
			break;
		ret[n++] = line[i] != '\0' ? line[i] : ' ';
	}
	ret[n] = '\0';
}

static enum koda_violation_kind
kind_of(const char *line)
{
	if (strcasestr(line, "read-only file system") != NULL || strstr(line, "EROFS") != NULL)
		return KODA_VIOLATION_FILE_WRITE;
	if (has_word(line, writes))
		return KODA_VIOLATION_FILE_WRITE;
	if (has_word(line, reads))
		return KODA_VIOLATION_FILE_READ;
	if (has_word(line, connects))
		return KODA_VIOLATION_NETWORK_OUTBOUND;
	if (has_word(line, executes))
		return KODA_VIOLATION_PROCESS_EXEC;
	/* A shell reports which file it could not open: mostly that of a redirection. */
	if (strncasecmp(line, "sh:", 3) == 0 || strncasecmp(line, "bash:", 5) == 0)
		return KODA_VIOLATION_FILE_WRITE;
	return KODA_VIOLATION_OTHER;
}

bool
stderr_parse_line(const char *text, size_t len, struct denial *ret)
{
	char line[STDERR_LINE_MAX];
	struct denial d = { .kind = KODA_VIOLATION_OTHER };
	const char *reason;
	size_t reason_len;

	copy_line(line, text, len);
	if (last_of(line, network, &reason_len) != NULL) {
		d.kind = KODA_VIOLATION_NETWORK_OUTBOUND;
		network_target(line, d.target);
		*ret = d;
		return true;
	}
	reason = last_of(line, reasons, &reason_len);
	if (reason == NULL) {
		reason = last_of(line, busy, &reason_len);
		if (reason == NULL || !has_word(line, writes))
			return false;
	}
	if (last_of(line, not_ours, &reason_len) != NULL)
		return false;
	d.kind = kind_of(line);
	if (!absolute_target(line, reason, d.target)) {
		if (d.kind == KODA_VIOLATION_NETWORK_OUTBOUND)
			network_target(line, d.target);
		else
			relative_target(line, reason, d.relative);
	}
	*ret = d;
	return true;
}

/* How libc, Rust, Go, and node spell them. */
static const char *const cross_device[] = { "Invalid cross-device link",
	"invalid cross-device link", "cross-device link not permitted", "EXDEV", NULL };
static const char *const overflow[] = { "Value too large for defined data type",
	"value too large for defined data type", "value too large to be stored in data type",
	"EOVERFLOW", NULL };
static const char *const *const failures[] = {
	[STDERR_CROSS_DEVICE] = cross_device,
	[STDERR_OVERFLOW] = overflow,
};

bool
stderr_parse_failure(enum stderr_failure failure, const char *text, size_t len, struct denial *ret)
{
	const char *end = text + len;
	size_t line_len, reason_len;

	for (; text < end; text += line_len + 1) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)), *reason;
		char line[STDERR_LINE_MAX];

		line_len = (size_t)((newline != NULL ? newline : end) - text);
		copy_line(line, text, line_len);
		reason = last_of(line, failures[failure], &reason_len);
		if (reason == NULL)
			continue;
		*ret = (struct denial){ .kind = KODA_VIOLATION_NOTE };
		if (!absolute_target(line, reason, ret->target))
			relative_target(line, reason, ret->relative);
		return true;
	}
	return false;
}

int
stderr_parse(const char *text, size_t len, stderr_denial_fn *fn, void *data)
{
	const char *end = text + len;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line_len = (size_t)((newline != NULL ? newline : end) - text);
		struct denial d;
		int r = 0;

		if (stderr_parse_line(text, line_len, &d))
			r = fn(data, &d);
		if (r != 0)
			return r;
		text += line_len + 1;
	}
	return 0;
}

/* ---- compared with the view ---- */

/* Joins dir and name as text and resolves '.' and '..': good enough for a guess. */
static void
join(const char *dir, const char *name, char ret[KODA_PATH_SHOWN_MAX])
{
	char both[2 * KODA_PATH_SHOWN_MAX], *rest = both, *part;
	size_t n = 0;

	ret[0] = '\0';
	if ((size_t)snprintf(both, sizeof(both), "%s/%s", dir, name) >= sizeof(both))
		return;
	while ((part = strsep(&rest, "/")) != NULL) {
		if (part[0] == '\0' || strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			while (n > 0 && ret[--n] != '/')
				;
			ret[n] = '\0';
			continue;
		}
		n += (size_t)snprintf(ret + n, KODA_PATH_SHOWN_MAX - n, "/%s", part);
		if (n >= KODA_PATH_SHOWN_MAX) {
			ret[0] = '\0';
			return;
		}
	}
}

bool
stderr_parse_judge(struct denial *d, const struct view *view, const char *cwd)
{
	if (d->target[0] == '\0' && d->relative[0] != '\0' && cwd != NULL && cwd[0] == '/')
		join(cwd, d->relative, d->target);
	if (d->target[0] != '/')
		return true;
	switch (d->kind) {
	case KODA_VIOLATION_FILE_READ:
	case KODA_VIOLATION_PROCESS_EXEC:
		return !view_shows(view, d->target, NULL);
	case KODA_VIOLATION_FILE_WRITE:
	case KODA_VIOLATION_OTHER:
		return !view_shows(view, d->target, NULL) || !view_writes(view, d->target, NULL);
	case KODA_VIOLATION_NETWORK_OUTBOUND:
	case KODA_VIOLATION_NOTE:
	case KODA_N_VIOLATION_KINDS:
		return true;
	}
	return true;
}
