/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/scan/gitindex.c: git's index: what git itself wrote is read as git means it; a
 * truncated or altered index is refused.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitindex.h"

#define must(x) assert_true(x)

/* a, d/b and d/c are files, s is a repository of its own. */
#define BASE                                                                                                    \
	"mkdir d && echo a >a && echo b >d/b && echo c >d/c && touch -d @1000000000 a d/? && git init -q s && " \
	"git -C s commit -q --allow-empty -m x && git add . 2>/dev/null && "
#define ALL   "a\nd/b\nd/c\ns link\n"
#define PLAIN NULL, false

static const struct {
	const char *label, *commands, *want;
	const char *file; /* NULL: .git/index */
	bool sha256;
} wrote[] = {
	/* clang-format off */
	{ "version 2", BASE "git update-index --index-version 2", ALL, PLAIN },
	{ "version 3", BASE "git update-index --index-version 3 --skip-worktree d/b && git update-index --assume-unchanged a",
		"a hidden\nd/b hidden\nd/c\ns link\n", PLAIN },
	{ "version 4", BASE "git update-index --index-version 4 --skip-worktree d/c",
		"a\nd/b\nd/c hidden\ns link\n", PLAIN },
	{ "in parts", BASE "git -c index.threads=2 update-index --index-version 4 --force-write-index", ALL, PLAIN },
	{ "in parts, of the second version", BASE "git -c index.threads=3 update-index --index-version 2 --force-write-index", ALL, PLAIN },
	{ "intent to add", BASE "echo n >n && git add -N n", "a\nd/b\nd/c\nn\ns link\n", PLAIN },
	{ "extensions", BASE "git commit -qm x && git update-index --untracked-cache && git status", ALL, PLAIN },
	{ "conflict", "echo a >f && git add f && git commit -qm a && git checkout -qb t && echo b >f && git commit -qam b && "
		"git checkout -q - && echo c >f && git commit -qam c && ! git merge -q t", "f\nf\nf\n", PLAIN },
	{ "sha256", "echo a >a && git add a && git update-index --skip-worktree a", "a hidden\n", NULL, true },
	{ "sparse", BASE "git commit -qm x && git sparse-checkout set --sparse-index none",
		"a\nd/ hidden\ns link\n", PLAIN },
	{ "what is split off", BASE "git update-index --split-index && cp .git/sharedindex.* x", ALL, "x", false },
	{ "and what is not", BASE "git update-index --split-index && git update-index --skip-worktree d/b",
		" hidden\n", PLAIN },
	{ "a path as long as the flags can say",
		"d=$(printf '%0200d' 0) && p=$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/$d/x && "
		"mkdir -p $(dirname $p) && echo x >$p && git add . && git ls-files >want", NULL, PLAIN },
	{ "empty", "git update-index --force-write-index", "", PLAIN },
	/* clang-format on */
};

static char dir[64];

static int
sh(const char *commands, bool sha256)
{
	char script[8192];
	int n =
	    snprintf(script, sizeof(script), "cd %s && git init -q %s . && exec >/dev/null && %s",
		dir, sha256 ? "--object-format=sha256" : "", commands);

	must(n > 0 && (size_t)n < sizeof(script));
	return system(script);
}

static int
make(void **state)
{
	strcpy(dir, "/tmp/koda-gitindex.XXXXXX");
	must(mkdtemp(dir) != NULL);
	return 0;
}

static int
drop(void **state)
{
	char script[128];

	snprintf(script, sizeof(script), "rm -rf %s", dir);
	return system(script);
}

static uint8_t *
read_file(const char *name, size_t *ret_len)
{
	char path[128];
	struct stat st;
	uint8_t *text;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	text = malloc(*ret_len + 1);
	must(text != NULL && read(fd, text, *ret_len) == (ssize_t)*ret_len);
	text[*ret_len] = '\0';
	close(fd);
	return text;
}

static char got[16384];
static size_t got_len;
static bool based;

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	must(strlen(e->path) == e->len);
	got_len += (size_t)snprintf(got + got_len, sizeof(got) - got_len, "%s%s%s\n", e->path,
	    e->link ? " link" : "", e->hidden ? " hidden" : "");
	must(got_len < sizeof(got));
}

static int
parse(const uint8_t *text, size_t len)
{
	/* Exactly as long, so that a read past the end is found. */
	uint8_t *copy = malloc(len == 0 ? 1 : len);
	struct gitindex_base base = { 0 };
	int r;

	must(copy != NULL);
	memcpy(copy, text, len);
	got[0] = '\0';
	got_len = 0;
	r = gitindex_parse(copy, len, on_entry, NULL, &base);
	based = r == 0 && base.len > 0;
	free(copy);
	return r;
}

static void
check_wrote(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup_free uint8_t *text = NULL, *want = NULL;
	static char whole[sizeof(got)];
	size_t len, want_len;

	must(sh(wrote[i].commands, wrote[i].sha256) == 0);
	text = read_file(wrote[i].file != NULL ? wrote[i].file : ".git/index", &len);
	assert_int_equal(parse(text, len), 0);
	assert_int_equal(based, strcmp(wrote[i].label, "and what is not") == 0);
	if (wrote[i].want == NULL)
		want = read_file("want", &want_len);
	assert_string_equal(got, want != NULL ? (const char *)want : wrote[i].want);
	/* A truncated index is refused, unless only extensions are missing: git does not need
	 * them, so they are not required. */
	snprintf(whole, sizeof(whole), "%s", got);
	for (size_t k = 0; k < len; k++) {
		const int r = parse(text, k);

		assert_string_equal(got, r == 0 ? whole : "");
	}
}

/* One number in the index is changed. */
static void
check_bent(void **state)
{
	static const struct {
		const char *label;
		size_t at; /* from the start, or from what `before` names */
		const char *before;
		uint8_t to;
	} bent[] = {
		{ "signature", 0, NULL, 'd' },
		{ "version 1", 7, NULL, 1 },
		{ "version 5", 7, NULL, 5 },
		{ "one entry less", 11, NULL, 3 },
		{ "one more", 11, NULL, 5 },
		{ "very many", 8, NULL, 0xff },
		{ "a flag that nobody knows", 12 + 40 + 20, NULL, 0x40 },
		{ "another length", 12 + 40 + 20 + 1, NULL, 2 },
		{ "where the entries end", 8 + 3, "EOIE", 1 },
		{ "where a part begins", 8 + 4 + 3, "IEOT", 1 },
		{ "how many there are in a part", 8 + 4 + 7, "IEOT", 1 },
		{ "the parts' own version", 8 + 3, "IEOT", 2 },
		{ "length of an extension", 4 + 3, "TREE", 0xf0 },
	};
	cleanup_free uint8_t *text = NULL;
	size_t len;

	must(sh(BASE "git commit -qm x && git -c index.threads=2 update-index --index-version 2 "
		     "--force-write-index",
		 false) == 0);
	text = read_file(".git/index", &len);
	assert_int_equal(parse(text, len), 0);
	for (size_t i = 0; i < N_ELEMENTS(bent); i++) {
		const uint8_t *from = bent[i].before == NULL
		    ? text
		    : memmem(text, len, bent[i].before, strlen(bent[i].before));
		uint8_t *p, was;

		if (from == NULL)
			fail_msg("%s: no %s", bent[i].label, bent[i].before);
		p = text + (from - text) + bent[i].at;
		was = *p;
		must(was != bent[i].to);
		*p = bent[i].to;
		if (parse(text, len) == 0)
			fail_msg("%s: it makes sense", bent[i].label);
		*p = was;
	}
	assert_int_equal(parse(text, len), 0);
}

int
main(void)
{
	static struct CMUnitTest tests[N_ELEMENTS(wrote) + 1];
	size_t n = 0;

	setenv("GIT_AUTHOR_NAME", "a", 1);
	setenv("GIT_AUTHOR_EMAIL", "a@example.org", 1);
	setenv("GIT_COMMITTER_NAME", "a", 1);
	setenv("GIT_COMMITTER_EMAIL", "a@example.org", 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	for (size_t i = 0; i < N_ELEMENTS(wrote); i++)
		tests[n++] =
		    (struct CMUnitTest){ wrote[i].label, check_wrote, make, drop, (void *)i };
	tests[n++] = (struct CMUnitTest){ "bent", check_bent, make, drop, NULL };
	return cmocka_run_group_tests_name("gitindex", tests, NULL, NULL);
}
