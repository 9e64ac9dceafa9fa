/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/copy: projects of all shapes, and those that want to run something. Each attack first works
 * on the user's own git.
 */
#include "tests/kit/copying.h"

/* ---- projects that want to run something ---- */

#define EVIL                                                                                       \
	"cd \"$1\" && printf '#!/bin/sh\\ntouch \"%s/.git/pwned\"\\ncat\\n' \"$1\" >.git/evil && " \
	"chmod +x .git/evil && E=$1/.git/evil && "
#define FILTERED                                                                                   \
	"echo '*.txt filter=x' >.gitattributes && echo text >t.txt && git add . && "               \
	"git commit -q -m text && "

/* Each of them runs when the user's own git does what the library does, in $3. */
static const struct {
	const char *label, *plant, *plain;
} attacks[] = {
	{ "post-checkout", "cp $E .git/hooks/post-checkout", "" },
	{ "reference-transaction", "cp $E .git/hooks/reference-transaction", "" },
	{ "pre-commit", "cp $E .git/hooks/pre-commit", "echo x >>a; git commit -q -a -m x" },
	{ "hooksPath", "mkdir h && cp $E h/post-checkout && git config core.hooksPath \"$1/h\"",
	    "" },
	{ "fsmonitor", "git config core.fsmonitor $E", "git status" },
	{ "fsmonitor, included",
	    "printf '[core]\\nfsmonitor = %s\\n' $E >i && git config include.path \"$1/i\"",
	    "git status" },
	{ "smudge", FILTERED "git config filter.x.smudge $E", "" },
	{ "clean", FILTERED "git config filter.x.clean $E", "echo y >t.txt; git add t.txt" },
	{ "process", FILTERED "git config filter.x.process $E", "" },
	{ "a filter with an odd name",
	    "echo '*.txt filter=a=b.c' >.gitattributes && echo text >t.txt && git add . && "
	    "git commit -q -m text && git config 'filter.a=b.c.smudge' $E",
	    "" },
	{ "a filter of info/attributes",
	    "echo text >t.txt && git add . && git commit -q -m text && mkdir -p .git/info && "
	    "echo '*.txt filter=x' >.git/info/attributes && git config filter.x.smudge $E",
	    "" },
	{ "a required filter",
	    FILTERED
	    "git config filter.x.required true && git config filter.x.smudge \"$E; false\"",
	    "" },
	{ "signing", "git config commit.gpgSign true && git config gpg.program $E",
	    "echo x >>a; git commit -q -a -m x" },
	{ "editor", "git config core.editor $E", "echo x >>a; git commit -q -a" },
	{ "a missing object",
	    "sed -i /cat/d $E && echo text >t.txt && git add . && git commit -q -m text && "
	    "O=$(git rev-parse HEAD:t.txt) && rm -f .git/objects/$(echo $O | cut -c1-2)/$(echo $O "
	    "| cut -c3-) && git config core.repositoryFormatVersion 1 && "
	    "git config extensions.partialClone origin && git config remote.origin.promisor true && "
	    "git config remote.origin.url ssh://host.invalid/x && git config core.sshCommand $E && "
	    "git config protocol.allow always",
	    "" },
	{ "a missing object, by a helper",
	    "sed -i /cat/d $E && echo text >t.txt && git add . && git commit -q -m text && "
	    "O=$(git rev-parse HEAD:t.txt) && rm -f .git/objects/$(echo $O | cut -c1-2)/$(echo $O "
	    "| cut -c3-) && git config core.repositoryFormatVersion 1 && "
	    "git config extensions.partialClone origin && git config remote.origin.promisor true && "
	    "git config remote.origin.url \"ext::$E\" && git config protocol.ext.allow always",
	    "" },
};

static void
nothing_runs(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct koda_copy *copy;
	struct koda_error err;
	struct fixture f;
	char script[4096], plain[PATH_MAX];

	begin_with(&f, PROJECT);
	snprintf(script, sizeof(script), "%s%s", EVIL, attacks[i].plant);
	user(&f, script, "");
	/* It works. */
	snprintf(plain, sizeof(plain), "%s/plain", f.dir);
	snprintf(script, sizeof(script),
	    "rm -f \"$1/.git/pwned\"; "
	    "{ git -C \"$1\" worktree add -q -b plain \"$3\" && cd \"$3\" && { %s; }; } "
	    "</dev/null >/dev/null 2>&1 || :; [ -e \"$1/.git/pwned\" ]; cd \"$1\"; "
	    "git -c core.hooksPath=/dev/null worktree remove -f -f \"$3\" 2>/dev/null || "
	    "rm -rf \"$3\" .git/worktrees; git -c core.hooksPath=/dev/null branch -q -D plain || :; "
	    "rm -f .git/pwned",
	    attacks[i].plain[0] != '\0' ? attacks[i].plain : ":");
	user(&f, script, plain);
	/* And here it does not. */
	copy = koda_copy_open(f.ses, &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE },
	    &err);
	assert_false(exists(&f, ".git/pwned"));
	/* Without it there is no worktree. */
	if (strncmp(attacks[i].label, "a missing", 9) == 0) {
		assert_null(copy);
		all_is_gone(&f, plain);
		fixture_end(&f);
		return;
	}
	if (copy == NULL)
		fail_msg("copy: %s", err.message);
	user(&f, "cd \"$3\"; echo more >>a; echo more >>t.txt; echo new >new",
	    koda_copy_root(copy));
	assert_false(release(copy, KODA_RELEASE_CLEAN).copy_removed);
	assert_true(release(copy, KODA_RELEASE_COMMIT).committed);
	koda_copy_close(copy);
	assert_false(exists(&f, ".git/pwned"));
	fixture_end(&f);
}

/* ---- projects of all shapes ---- */

#define COMMITTED "git add -A -f . && git commit -q -m shape"

static const struct {
	const char *label, *make;
	const char *root; /* below the project */
	enum koda_code code;
	const char *check; /* $3: the copy */
} shapes[] = {
	{ "not a repository", ":", "", KODA_INVALID, NULL },
	{ "no commit", "git init -q", "", KODA_INVALID, NULL },
	{ "bare", "git init -q --bare", "", KODA_INVALID, NULL },
	{ ".git is a link", PROJECT "; mv .git ../moved; ln -s ../moved .git", "", KODA_INVALID,
	    NULL },
	{ ".git of another", PROJECT "; mkdir sub; echo 'gitdir: ../.git' >sub/.git", "sub",
	    KODA_IO, NULL },
	{ "a branch in the way", PROJECT "; git branch koda", "", KODA_IO, NULL },
	{ "detached", PROJECT "; git checkout -q --detach HEAD~1", "", KODA_OK,
	    "[ \"$(cat \"$3/a\")\" = a ]" },
	{ "dirty", PROJECT "; echo x >>a; git add a; echo y >>a; echo z >z", "", KODA_OK,
	    "! grep -q x \"$3/a\" && cd \"$1\" && git diff --cached | grep -q '^+x' && "
	    "git diff | grep -q '^+y' && [ -e z ]" },
	{ "below the top", PROJECT, "dir", KODA_OK, "[ \"$(cat \"$3/c\")\" = c ]" },
	{ "below the top, not committed", PROJECT "; mkdir later", "later", KODA_IO, NULL },
	{ "a linked worktree",
	    PROJECT "; git worktree add -q -b linked linked; cd linked; echo l >>a; "
		    "git commit -q -a -m l",
	    "linked", KODA_OK, "grep -q l \"$3/a\"" },
	{ "a submodule",
	    PROJECT
	    "; git init -q ../s; git -C ../s commit -q --allow-empty -m s; "
	    "git -c protocol.file.allow=always submodule --quiet add ../s s; git commit -q -m s",
	    "s", KODA_OK, "[ -e \"$3/.git\" ]" },
	{ "with a submodule",
	    PROJECT
	    "; git init -q ../s; git -C ../s commit -q --allow-empty -m s; "
	    "git -c protocol.file.allow=always submodule --quiet add ../s s; git commit -q -m s",
	    "", KODA_OK, "[ -d \"$3/s\" ] && [ ! -e \"$3/s/.git\" ]" },
	{ "sparse", PROJECT "; git sparse-checkout set --cone dir", "", KODA_OK,
	    "[ -e \"$3/dir/c\" ]" },
	{ "alternates",
	    PROJECT "; git init -q ../alt; echo \"$2/alt/.git/objects\" "
		    ">.git/objects/info/alternates",
	    "", KODA_OK, "[ -e \"$3/a\" ]" },
	{ "core.worktree",
	    PROJECT "; mkdir ../victim; echo mine >../victim/a; "
		    "git config core.worktree \"$2/victim\"",
	    "", KODA_OK, "[ \"$(cat \"$2/victim/a\")\" = mine ] && grep -q more \"$3/a\"" },
	{ "sha256", "cd \"$1\"; git init -q --object-format=sha256; echo a >a; " COMMITTED, "",
	    KODA_OK, "[ -e \"$3/a\" ]" },
	{ "protected names",
	    PROJECT
	    "; mkdir -p .vscode .koda/agents .github/hooks bare/objects "
	    "bare/refs bare/hooks; echo x | tee .vscode/tasks.json .koda/agents/a .github/hooks/x "
	    "bare/objects/x bare/refs/x bare/hooks/x bare/config >bare/HEAD; " COMMITTED,
	    "", KODA_OK,
	    "[ -e \"$3/.vscode/tasks.json\" ] && [ -e \"$3/.koda/agents/a\" ] && "
	    "[ -e \"$3/bare/hooks/x\" ]" },
	{ "odd names",
	    PROJECT
	    "; N=$(printf 'new\\nline'); echo x >\"$N\"; echo x >'sp ace'; "
	    "echo x >-dash; ln -s /etc/passwd link; mkdir 'd\"'; echo x >'d\"/é'; " COMMITTED,
	    "", KODA_OK, "[ -L \"$3/link\" ] && [ -e \"$3/-dash\" ]" },
	{ "ends of lines",
	    PROJECT "; printf '*.t text eol=crlf ident\\n' >.gitattributes; "
		    "printf 'x $Id$\\n' >x.t; " COMMITTED,
	    "", KODA_OK, "[ -e \"$3/x.t\" ]" },
	{ "worktreeConfig",
	    PROJECT "; git config extensions.worktreeConfig true; git config "
		    "--worktree user.name x",
	    "", KODA_OK, "[ -e \"$3/a\" ]" },
	{ "packed", PROJECT "; git gc -q", "", KODA_OK, "[ -e \"$3/a\" ]" },
};

static void
every_shape(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct koda_released r;
	struct koda_copy *copy;
	struct koda_error err;
	struct fixture f;
	char root[PATH_MAX], script[4096];

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	snprintf(script, sizeof(script), "cd \"$1\"; %s", shapes[i].make);
	user(&f, script, "");
	snprintf(root, sizeof(root), "%s/%s", f.root, shapes[i].root);
	f.options.root = root;
	fixture_open(&f);
	copy = koda_copy_open(f.ses, &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE },
	    &err);
	if (shapes[i].code != KODA_OK) {
		assert_null(copy);
		assert_code(&err, shapes[i].code);
		assert_true(user_says(&f,
		    "cd \"$1\" && [ ! -e .git/worktrees ] && "
		    "[ -z \"$(find \"$HOME\" -path '*koda-sandbox*' -name 'project')\" ]",
		    ""));
		f.options.root = f.root;
		fixture_end(&f);
		return;
	}
	if (copy == NULL)
		fail_msg("copy: %s", err.message);
	assert_true(user_says(&f, shapes[i].check, koda_copy_root(copy)));
	agent(&f, copy, "ls -la; git status || [ ! -e .git ]");
	assert_true(user_says(&f, shapes[i].check, koda_copy_root(copy)));
	r = release(copy, KODA_RELEASE_CLEAN);
	if (!r.copy_removed || !r.branch_removed)
		fail_msg("kept: %s", r.reason);
	koda_copy_close(copy);
	fixture_end(&f);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(attacks) + N_ELEMENTS(shapes)];
	size_t n = 0;

	CASES(attacks, nothing_runs);
	CASES(shapes, every_shape);
	return _cmocka_run_group_tests("copy_projects", tests, n, NULL, NULL);
}
