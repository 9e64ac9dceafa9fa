/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/scan/gitconfig.c: what git would read in a configuration, and what makes git run a
 * program.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/gitvar.h"

#define must(x) assert_true(x)

/* ---- reading: as git reads it ---- */

static const struct {
	const char *label, *text;
	const char *want; /* section.subsection.key=value, one per line; NULL: refused */
} parses[] = {
	{ "empty", "", "" },
	{ "one", "[core]\n\tbare = false\n", "core.bare=false\n" },
	{ "no newline at the end", "[core]\nbare=false", "core.bare=false\n" },
	{ "on the line of its section", "[core] bare = true\n", "core.bare=true\n" },
	{ "key alone", "[core]\nbare\n", "core.bare\n" },
	{ "key alone at the end", "[core]\nbare", "core.bare\n" },
	{ "empty value", "[core]\nbare =\n", "core.bare=\n" },
	{ "case", "[CoRe]\nBaRe = X\n", "core.bare=X\n" },
	{ "subsection", "[remote \"Or i\"]\nurl = x\n", "remote.Or i.url=x\n" },
	{ "escapes in a subsection", "[remote \"a\\\"b\\\\c\\d\"]\nurl = x\n",
	    "remote.a\"b\\cd.url=x\n" },
	{ "old subsection", "[branch.Main]\nmerge = x\n", "branch.main.merge=x\n" },
	{ "comments", "# a\n[core] ; b\nbare = true # c\n; d\n", "core.bare=true\n" },
	{ "comment sign in quotes", "[a]\nb = \"x # y\" ; z\n", "a.b=x # y\n" },
	{ "white space", "[a]\n  b\t =   x  y   \n", "a.b=x  y\n" },
	{ "white space in quotes", "[a]\nb = \" x \"\n", "a.b= x \n" },
	{ "quotes in the middle", "[a]\nb = x\"  \"y\n", "a.b=x  y\n" },
	{ "escapes", "[a]\nb = x\\ty\\\\z\\\"\n", "a.b=x\ty\\z\"\n" },
	{ "goes on in the next line", "[a]\nb = x\\\ny\n", "a.b=xy\n" },
	{ "CR LF", "[a]\r\nb = x\r\n", "a.b=x\n" },
	{ "byte order mark", "\xef\xbb\xbf[a]\nb = x\n", "a.b=x\n" },
	{ "twice", "[a]\nb = x\nb = y\n", "a.b=x\na.b=y\n" },
	{ "no key", "[a]\n= x\n", NULL },
	{ "digit first", "[a]\n1b = x\n", NULL },
	{ "section without end", "[a\nb = x\n", NULL },
	{ "section with a sign", "[a_b]\nb = x\n", NULL },
	{ "subsection without end", "[a \"b]\nc = x\n", NULL },
	{ "something behind a subsection", "[a \"b\" c]\nd = x\n", NULL },
	{ "quote without end", "[a]\nb = \"x\n", NULL },
	{ "unknown escape", "[a]\nb = \\x\n", NULL },
	{ "two words as a key", "[a]\nb c = x\n", NULL },
};

static void
check_parse(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct gitconfig c;
	char got[512] = "";
	size_t n = 0;
	int r = gitconfig_parse(parses[i].text, strlen(parses[i].text), &c);

	if (parses[i].want == NULL) {
		assert_int_equal(r, -1);
		assert_int_equal(errno, EINVAL);
		return;
	}
	assert_int_equal(r, 0);
	for (size_t k = 0; k < c.n; k++) {
		const struct gitconfig_var *v = &c.var[k];

		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s.%s%s%s%s%s\n", v->section,
		    v->subsection != NULL ? v->subsection : "", v->subsection != NULL ? "." : "",
		    v->key, v->value != NULL ? "=" : "", v->value != NULL ? v->value : "");
	}
	gitconfig_done(&c);
	assert_string_equal(got, parses[i].want);
}

/* What git itself prints for the same text: the list above must agree with it. */
static void
check_git(void **state)
{
	const size_t i = (uintptr_t)*state;
	char name[] = "/tmp/koda-gitconfig.XXXXXX", got[1024];
	int fd = mkstemp(name), out[2], status;
	size_t n = 0, len = strlen(parses[i].text);
	ssize_t k;
	pid_t pid;
	char want[512], *p = want;

	must(fd >= 0 && write(fd, parses[i].text, len) == (ssize_t)len && pipe(out) == 0);
	close(fd);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		close(2);
		execlp("git", "git", "config", "--file", name, "--null", "--list", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while ((k = read(out[0], got + n, sizeof(got) - 1 - n)) > 0)
		n += (size_t)k;
	close(out[0]);
	must(waitpid(pid, &status, 0) == pid);
	unlink(name);
	must(WIFEXITED(status) && WEXITSTATUS(status) != 127);
	assert_int_equal(WEXITSTATUS(status) == 0, parses[i].want != NULL);
	if (parses[i].want == NULL)
		return;
	/* git prints key, newline, value, NUL; a key without a value has no newline. */
	for (const char *q = got; q < got + n; q += strlen(q) + 1) {
		size_t key = strcspn(q, "\n");

		p += sprintf(p, "%.*s", (int)key, q);
		if (q[key] == '\n')
			p += sprintf(p, "=%s", q + key + 1);
		p += sprintf(p, "\n");
	}
	*p = '\0';
	assert_string_equal(want, parses[i].want);
}

/* ---- what is inert ---- */

static const struct {
	const char *text; /* a section with one variable */
	bool want;
} inert[] = {
	{ "[core]\nrepositoryformatversion = 0\n", true },
	{ "[core]\nbare\n", true },
	{ "[CORE]\nBARE = true\n", true },
	{ "[core \"x\"]\nbare = true\n", false },
	{ "[core]\nfsmonitor = true\n", false },
	{ "[core]\nworktree = ../..\n", false },
	{ "[core]\nhooksPath = x\n", false },
	{ "[core]\nsshCommand = x\n", false },
	{ "[core]\neditor = x\n", false },
	{ "[core]\npager = x\n", false },
	{ "[core]\nattributesFile = x\n", false },
	{ "[include]\npath = x\n", false },
	{ "[includeIf \"gitdir:/\"]\npath = x\n", false },
	{ "[alias]\nst = status\n", false },
	{ "[filter \"lfs\"]\nclean = git-lfs clean\n", false },
	{ "[diff]\nexternal = x\n", false },
	{ "[diff \"x\"]\ntextconv = x\n", false },
	{ "[merge \"x\"]\ndriver = x\n", false },
	{ "[credential]\nhelper = x\n", false },
	{ "[gpg]\nprogram = x\n", false },
	{ "[http]\nproxy = x\n", false },
	{ "[http]\nsslVerify = false\n", false },
	{ "[url \"ext::x\"]\ninsteadOf = https://\n", false },
	{ "[protocol \"ext\"]\nallow = always\n", false },
	{ "[uploadpack]\npackObjectsHook = x\n", false },
	{ "[safe]\ndirectory = *\n", false },
	{ "[remote \"o\"]\nurl = https://example.org/a\n", true },
	{ "[remote \"o\"]\nurl = ext::sh -c x\n", false },
	{ "[remote \"o\"]\nurl\n", false },
	{ "[remote \"o\"]\nfetch = +refs/heads/*:refs/remotes/o/*\n", true },
	{ "[remote \"o\"]\nuploadpack = x\n", false },
	{ "[remote \"o\"]\nreceivepack = x\n", false },
	{ "[remote \"o\"]\nvcs = x\n", false },
	{ "[remote \"o\"]\npromisor = true\n", false },
	{ "[extensions]\npartialClone = o\n", false },
	{ "[remote \"o\"]\nproxy = x\n", false },
	{ "[branch \"m\"]\nremote = origin\n", true },
	{ "[branch \"m\"]\nremote = .\n", true },
	{ "[branch \"m\"]\nremote = ext::x\n", false },
	{ "[branch \"m\"]\nmerge = refs/heads/m\n", true },
	{ "[branch \"m\"]\nmergeOptions = -s x\n", false },
	{ "[submodule \"s\"]\nurl = ../s\n", true },
	{ "[submodule \"s\"]\nupdate = !x\n", false },
	{ "[submodule \"s\"]\nupdate = rebase\n", true },
	{ "[submodule \"s\"]\nupdate\n", false },
	{ "[extensions]\nobjectFormat = sha256\n", true },
	{ "[extensions]\nrefStorage = file://x\n", false },
	{ "[extensions]\nunknown = x\n", false },
	{ "[user]\nname = A B\n", true },
	{ "[user]\nsigningKey = x\n", false },
	{ "[pull]\nrebase = true\n", true },
	{ "[commit]\ngpgSign = true\n", false },
	{ "[lfs]\nrepositoryformatversion = 0\n", true },
	{ "[lfs \"customtransfer.x\"]\npath = x\n", false },
};

static void
check_inert(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct gitconfig c;

	assert_int_equal(gitconfig_parse(inert[i].text, strlen(inert[i].text), &c), 0);
	assert_int_equal(c.n, 1);
	assert_int_equal(gitvar_is_inert(&c.var[0]), inert[i].want);
	gitconfig_done(&c);
}

static const struct {
	const char *url;
	bool want;
} urls[] = {
	{ "https://example.org/a.git", true },
	{ "http://user@example.org:8080/a", true },
	{ "ssh://git@example.org/a-b", true },
	{ "ssh://example.org/-a", true },
	{ "git+ssh://example.org/a", true },
	{ "git://example.org/a", true },
	{ "file:///a/b", true },
	{ "git@example.org:a/b.git", true },
	{ "example.org:a", true },
	{ "/a/b-c/-d", true },
	{ "../a", true },
	{ "./a:b", true },
	{ "origin", true },
	{ ".", true },
	{ "", false },
	{ "-oProxyCommand=x", false },
	{ "--upload-pack=x", false },
	{ "ssh://-oProxyCommand=x/a", false },
	{ "ssh://user@-oProxyCommand=x/a", false },
	{ "ssh://[-oProxyCommand=x]/a", false },
	{ "-x@example.org:a", false },
	{ "user@-oProxyCommand=x:a", false },
	{ "example.org:-x", false },
	{ "ext::sh -c x", false },
	{ "ext::", false },
	{ "fd::17", false },
	{ "my-helper::https://example.org", false },
	{ "ftp://example.org/a", false },
	{ "s3://bucket/a", false },
	{ "HTTPS://example.org/a", false },
	{ "https://example.org/a\nb", false },
	{ "\x01", false },
};

static void
check_url(void **state)
{
	const size_t i = (uintptr_t)*state;

	assert_int_equal(gitvar_is_plain_url(urls[i].url), urls[i].want);
}

/* ---- the rest ---- */

static bool
keep_inert(void *data, const struct gitconfig_var *v)
{
	return gitvar_is_inert(v);
}

static void
write_inert(void **state)
{
	static const char text[] = "[core]\n bare = false\n fsmonitor = x\n filemode\n"
				   "[remote \"a\\\"b\"]\n url = \"https://example.org/#x\"\n"
				   "[user]\n name = \"A \\\\ \\\"B\\\" \\n[alias]\\n x=!y\"\n";
	struct gitconfig c;
	cleanup_free char *out = NULL;
	size_t len;

	assert_int_equal(gitconfig_parse(text, sizeof(text) - 1, &c), 0);
	assert_int_equal(gitconfig_write(&c, keep_inert, NULL, &out, &len), 0);
	gitconfig_done(&c);
	out = realloc(out, len + 1);
	out[len] = '\0';
	assert_string_equal(out,
	    "[core]\n\tbare = false\n\tfilemode\n"
	    "[remote \"a\\\"b\"]\n\turl = \"https://example.org/#x\"\n"
	    "[user]\n\tname = \"A \\\\ \\\"B\\\" \\n[alias]\\n x=!y\"\n");
}

/* git accepts this and ignores it. */
static void
no_section(void **state)
{
	struct gitconfig c;

	assert_int_equal(gitconfig_parse("b = x\n", 6, &c), -1);
}

static void
too_large(void **state)
{
	struct gitconfig c;
	cleanup_free char *text = calloc(GITCONFIG_BYTES_MAX + 2, 1);

	memset(text, '\n', GITCONFIG_BYTES_MAX + 1);
	assert_int_equal(gitconfig_parse(text, GITCONFIG_BYTES_MAX + 1, &c), -1);
	assert_int_equal(gitconfig_parse(text, GITCONFIG_BYTES_MAX, &c), 0);
	gitconfig_done(&c);
	text[0] = '\0';
	assert_int_equal(gitconfig_parse(text, 1, &c), -1);
}

static const struct {
	const char *text;
	enum gitvar_names want;
	const char *words; /* each after a space */
} named[] = {
	{ "[include]\npath = x\n", GITVAR_NAMES_FILE, NULL },
	{ "[includeIf \"onbranch:m\"]\npath = x\n", GITVAR_NAMES_FILE, NULL },
	{ "[core]\nhooksPath = x\n", GITVAR_NAMES_PATH, NULL },
	{ "[core]\nhooksPath\n", GITVAR_NAMES_NOTHING, NULL },
	{ "[core]\nbare = ./x\n", GITVAR_NAMES_NOTHING, NULL },
	{ "[alias]\nst = status ./x\n", GITVAR_NAMES_NOTHING, NULL },
	{ "[alias]\nst = !./x y\n", GITVAR_NAMES_PROGRAM, " ./x y" },
	{ "[filter \"f\"]\nclean = sh 'a b/c' \"d\\\\\\\" e\";f|g\n", GITVAR_NAMES_PROGRAM,
	    " sh a b/c d\" e" },
	{ "[core]\nfsmonitor = tools/f\\\\ g --x\n", GITVAR_NAMES_PROGRAM, " tools/f g --x" },
};

static void
check_named(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct gitconfig c;
	char got[256] = "", word[64];
	const char *line;

	assert_int_equal(gitconfig_parse(named[i].text, strlen(named[i].text), &c), 0);
	assert_int_equal(gitvar_names(&c.var[0]), named[i].want);
	line = c.var[0].value;
	while (named[i].words != NULL && gitvar_word(&line, word, sizeof(word))) {
		strcat(got, " ");
		strcat(got, word);
	}
	if (named[i].words != NULL)
		assert_string_equal(got, named[i].words);
	gitconfig_done(&c);
}

static const struct {
	const char *text;
	bool want;
} todos[] = {
	{ "", true },
	{ "pick 1234 subject\nedit 1 x\n# exec x\n\n  fixup -C 1\nnoop\nbreak\n", true },
	{ "update-ref refs/heads/x\nmerge -C a b # c\nlabel x\nreset x\n", true },
	{ "exec make\n", false },
	{ "x make\n", false },
	{ "pick 1\nexec make", false },
	{ "\texec make", false },
	{ "exec\tmake", false },
	{ "other 1\n", false },
};

static void
check_todo(void **state)
{
	const size_t i = (uintptr_t)*state;

	assert_int_equal(gitstate_is_todo(todos[i].text, strlen(todos[i].text)), todos[i].want);
}

static void
gitfile(void **state)
{
	size_t start, len;

	assert_true(gitdir_of_gitfile("gitdir: ../a b\n", 15, &start, &len));
	assert_int_equal(start, 8);
	assert_int_equal(len, 6);
	assert_true(gitdir_of_gitfile("gitdir: x", 9, &start, &len));
	assert_false(gitdir_of_gitfile("gitdir: \n", 9, &start, &len));
	assert_false(gitdir_of_gitfile("gitdir:x\n", 9, &start, &len));
	assert_false(gitdir_of_gitfile("gitdir", 6, &start, &len));
	assert_false(gitdir_of_gitfile("gitdir: a\0b", 11, &start, &len));
}

#define MAX 300

int
main(void)
{
	static struct CMUnitTest tests[MAX];
	static char label[MAX][128];
	size_t n = 0;

#define TABLE(table, check, field)                                                                 \
	for (size_t i = 0; i < N_ELEMENTS(table) && n < MAX; i++, n++) {                           \
		snprintf(label[n], sizeof(label[n]), "%s: %.100s", #check, table[i].field);        \
		for (char *p = label[n]; *p != '\0'; p++)                                          \
			*p = *p < ' ' ? ' ' : *p;                                                  \
		tests[n] = (struct CMUnitTest){ label[n], check, NULL, NULL, (void *)i };          \
	}
	TABLE(parses, check_parse, label)
	TABLE(parses, check_git, label)
	TABLE(inert, check_inert, text)
	TABLE(urls, check_url, url)
	TABLE(named, check_named, text)
	TABLE(todos, check_todo, text)
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(write_inert);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_section);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(too_large);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(gitfile);
	/* cmocka's macro counts the whole array, and its end is unused. */
	return _cmocka_run_group_tests("gitconfig", tests, n, NULL, NULL);
}
