/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitvar.h"

#include <string.h>

#include "shared/base/cleanup.h"

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

bool
gitvar_is_plain_url(const char *url)
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
		return text != NULL && gitvar_is_plain_url(text);
	case WORD:
		return text != NULL && gitconfig_is_word(text);
	case UPDATE:
		for (size_t i = 0; text != NULL && updates[i] != NULL; i++)
			if (strcmp(text, updates[i]) == 0)
				return true;
		return false;
	}
	return false;
}

bool
gitvar_is_inert(const struct gitconfig_var *v)
{
	for (size_t i = 0; i < N_ELEMENTS(inert); i++) {
		if (strcmp(v->section, inert[i].section) == 0 &&
		    strcmp(v->key, inert[i].key) == 0 && (v->subsection != NULL) == inert[i].sub)
			return is_value(inert[i].value, v->value);
	}
	return false;
}

enum gitvar_names
gitvar_names(const struct gitconfig_var *v)
{
	if (v->value == NULL || v->value[0] == '\0')
		return GITVAR_NAMES_NOTHING;
	if ((strcmp(v->section, "include") == 0 || strcmp(v->section, "includeif") == 0) &&
	    strcmp(v->key, "path") == 0)
		return GITVAR_NAMES_FILE;
	if ((strcmp(v->section, "core") == 0 && strcmp(v->key, "hookspath") == 0) ||
	    (strcmp(v->section, "init") == 0 && strcmp(v->key, "templatedir") == 0))
		return GITVAR_NAMES_PATH;
	if (gitvar_is_inert(v))
		return GITVAR_NAMES_NOTHING;
	if (strcmp(v->section, "alias") == 0 && v->value[0] != '!')
		return GITVAR_NAMES_NOTHING; /* one of git's own commands */
	/* The keys whose values are command lines cannot be listed: the project chooses the names
	 * of its filters. */
	return GITVAR_NAMES_PROGRAM;
}

bool
gitvar_word(const char **line, char *ret, size_t size)
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
