/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda's own directory: it is there while something uses it, it is gone when nothing does, and it
 * disturbs nothing else. The tests run the installed program, in a home directory that is otherwise
 * empty.
 */
#include "tests/kit/mcp_talk.h"

static char home[PATH_MAX];

static int
set_up(void **state)
{
	talk_set_up(state);
	snprintf(home, sizeof(home), "%.*s/home", PATH_MAX - 64, talk_dir);
	proof_mkdir(home);
	unsetenv("XDG_STATE_HOME");
	return setenv("HOME", home, 1);
}

static int
tear_down(void **state)
{
	/* A directory in it may be unlistable. */
	process_shell("chmod -R u+rwx \"$1\"", home, NULL, NULL);
	proof_rmtree(home);
	return talk_tear_down(state);
}

/* $1 is the home directory, $2 the project, $K the program. */
static void
expect(const char *script)
{
	setenv("K", talk_program(), 1);
	process_shell(script, home, talk_project, NULL);
}

/* Start of a line of the script: run a command in the project. */
#define RUN "\"$K\" run --mode auto --root \"$2\" -- "
/* Fail, and list the home directory, if anything is left in it. */
#define NOTHING_LEFT "test -z \"$(find \"$1\" -mindepth 1)\" || { find \"$1\" >&2; exit 1; }; "

static void
test_nothing_is_left(void **state)
{
	expect(RUN "true; " NOTHING_LEFT);
	expect(RUN "sh -c 'echo x >f; exit 3' || test $? = 3; " NOTHING_LEFT);
	expect("\"$K\" run --mode plan --root \"$2\" -- true; " NOTHING_LEFT);
	expect("\"$K\" fs read --mode auto \"$2/f\"; " NOTHING_LEFT);
	/* What can be taken back is kept, and nothing else. */
	expect("cd \"$2\" && echo x | \"$K\" fs write --mode auto g; cd \"$1\"; "
	       "test \"$(echo .local/state/koda-sandbox/*)\" = .local/state/koda-sandbox/history; "
	       "rm -r .local; " NOTHING_LEFT);
	expect("\"$K\" quarantine list --root \"$2\"; " NOTHING_LEFT);
}

/* Directories that were there before stay, empty or not. */
static void
test_what_was_there_stays(void **state)
{
	expect("mkdir -p \"$1/.local/state\"; " RUN "true; test -d \"$1/.local/state\" && "
	       "test ! -e \"$1/.local/state/koda-sandbox\"");
	expect("mkdir -p \"$1/.local/state/koda-sandbox/mine\"; " RUN "true; "
	       "test -d \"$1/.local/state/koda-sandbox/mine\" && "
	       "test -z \"$(ls \"$1/.local/state/koda-sandbox\" | grep -v mine)\"");
}

static void
test_what_was_planted_stays(void **state)
{
	expect(RUN "sh -c 'echo x >.mcp.json' 2>/dev/null; "
		   "test -d \"$1\"/.local/state/koda-sandbox/quarantine/project-*/*; "
		   "test ! -e \"$1/.local/state/koda-sandbox/journal\"");
	/* Nothing else was there: once it is restored, nothing is left. */
	expect("name=$(\"$K\" quarantine list --root \"$2\" | cut -d' ' -f1); "
	       "\"$K\" quarantine restore --mode auto --root \"$2\" \"$name\" >/dev/null; "
	       "test -e \"$2/.mcp.json\"; " NOTHING_LEFT);
}

/* Some programs begin while others end: none of them fails, and the last one cleans up. One thing may
 * happen to a command: it has a file open in what was not protected for a moment, because another
 * session had taken away what was there. It is ended, and that is reported. */
static void
test_many_at_once(void **state)
{
	expect(
	    "mkdir \"$2/other\"; for i in 1 2 3 4 5 6; do ("
	    "for k in 1 2 3 4 5; do "
	    "\"$K\" run --mode auto --root \"$2/$([ $((i % 2)) = 1 ] && echo other)\" -- sh -c "
	    "'mkdir -p .idea; echo x >.idea/x; true' 2>\"$2/err$i.$k\" || grep -q 'had it open was ended' \"$2/err$i.$k\" || "
	    "echo \"status $? $i.$k\" >>\"$2/failed\"; "
	    "done) & done; wait; "
	    "if [ -e \"$2/failed\" ]; then cat \"$2\"/err* \"$2/failed\" >&2; exit 1; fi; "
	    "if grep 'cannot be removed' \"$2\"/err* >&2; then exit 1; fi; rm -rf \"$2\"/err*; "
	    "if [ -e \"$2/.idea\" ] || [ -e \"$2/other/.idea\" ]; then echo 'left in the project' >&2; exit 1; fi; "
	    "test -z \"$(ls \"$1/.local/state/koda-sandbox\" | grep -v quarantine)\"");
	expect("rm -rf \"$1/.local/state/koda-sandbox/quarantine\"/*; for i in 1 2 3 4 5 6; do ("
	       "for k in 1 2 3 4 5; do " RUN "true || touch \"$2/failed\"; "
	       "done) & done; wait; test ! -e \"$2/failed\"; "
	       "test -z \"$(find \"$1/.local\" -mindepth 3)\"");
}

static void
test_elsewhere(void **state)
{
	expect("export XDG_STATE_HOME=\"$1/a/b/c/\"; " RUN "true; " NOTHING_LEFT);
	/* In the project: no command sees it, and it is removed too. */
	expect(
	    "export XDG_STATE_HOME=\"$2/st\"; " RUN
	    "sh -c 'test -z \"$(ls -A st/koda-sandbox)\" && ! mkdir st/koda-sandbox/x 2>/dev/null && "
	    "! mv st moved 2>/dev/null'; test ! -e \"$2/st\"");
	/* Around the project, where no command would see the project either. */
	expect(
	    "mkdir -p \"$2/koda-sandbox/p\"; export XDG_STATE_HOME=\"$2\"; "
	    "\"$K\" run --mode auto --root \"$2/koda-sandbox/p\" -- true 2>\"$2/err\" && exit 1; "
	    "grep -q \"own directory, which agents cannot access: choose another root\" \"$2/err\"");
	/* Through a link that a command could replace. */
	expect("mkdir -p \"$2/real\"; ln -s real \"$2/link\"; export XDG_STATE_HOME=\"$2/link\"; "
	       "\"$K\" run --mode auto --root \"$2\" -- true 2>\"$2/err\" && exit 1; "
	       "grep -q 'leads through a link' \"$2/err\" && test -z \"$(ls \"$2/real\")\"");
	/* A path that is not absolute is ignored. */
	expect("export XDG_STATE_HOME=st; rm -f \"$2/err\"; " RUN "true; " NOTHING_LEFT);
}

/* A process that holds a lock on it does not stop commands: the program waits for a second, and
 * reports it. */
static void
test_locked_by_another(void **state)
{
	expect("mkdir -p -m 700 \"$1/.local/state/koda-sandbox\"; "
	       "flock -x \"$1/.local/state/koda-sandbox\" sh -c '\"$K\" run --mode auto --root "
	       "\"$0\" -- echo ran >\"$0/out\" 2>\"$0/err\"' \"$2\"; "
	       "grep -q ran \"$2/out\" && grep -q 'holds the lock' \"$2/err\"");
}

/* If the directory cannot be made, the program reports it, and commands run. */
static void
test_cannot_be_made(void **state)
{
	expect("chmod 500 \"$1\"; " RUN "echo ran >\"$2/out\" 2>\"$2/err\"; "
	       "grep -q ran \"$2/out\" && test \"$(grep -c 'cannot be removed' \"$2/err\")\" = 1");
}

/* If it is not safe, no command runs. */
static void
test_not_safe(void **state)
{
	expect(
	    "mkdir -p -m 755 \"$1/.local/state\"; ln -s \"$2\" \"$1/.local/state/koda-sandbox\"; "
	    "\"$K\" run --mode auto --root \"$2\" -- touch ran 2>\"$2/err\" && test -e \"$2/ran\" && "
	    "exit 1; test ! -e \"$2/ran\"");
	expect(
	    "rm \"$1/.local/state/koda-sandbox\"; mkdir -m 777 \"$1/.local/state/koda-sandbox\"; "
	    "chmod 777 \"$1/.local/state/koda-sandbox\"; "
	    "\"$K\" run --mode auto --root \"$2\" -- touch ran 2>\"$2/err\" && exit 1; "
	    "test ! -e \"$2/ran\" && grep -q 'chmod 700' \"$2/err\"");
}

/* File operations and searches do not see it either, by any name, wherever it is. */
static void
test_no_file_operation_sees_it(void **state)
{
	static const char *const places[] = { "$1/.local/state", "$2/st" };

	for (size_t i = 0; i < N_ELEMENTS(places); i++) {
		char script[2048];

		snprintf(script, sizeof(script),
		    "export XDG_STATE_HOME=\"%s\"; d=\"$XDG_STATE_HOME/koda-sandbox/quarantine/x-1/y\"; "
		    "mkdir -p \"$d\"; chmod -R go= \"$XDG_STATE_HOME/koda-sandbox\"; echo secret >\"$d/what\"; "
		    "ln -sfn \"$XDG_STATE_HOME\" \"$2/l\"; cd \"$2\"; "
		    "for p in \"$d/what\" \"$2/l/koda-sandbox/quarantine/x-1/y/what\"; do "
		    "\"$K\" fs read \"$p\" >out 2>&1 && exit 1; grep -q 'own state' out; "
		    "echo x | \"$K\" fs write --mode auto \"$p\" >out 2>&1 && exit 1; done; "
		    "\"$K\" fs rm --mode auto --recursive \"$XDG_STATE_HOME\" >out 2>&1 && exit 1; "
		    "\"$K\" fs mv --mode auto \"$XDG_STATE_HOME\" \"$2/moved\" >out 2>&1 && exit 1; "
		    "\"$K\" fs list \"$XDG_STATE_HOME\" >out; if grep -q koda-sandbox out; then exit 1; fi; "
		    "\"$K\" fs grep --hidden secret \"$XDG_STATE_HOME\" . >out 2>&1 && exit 1; "
		    "\"$K\" fs glob --hidden '**/what' \"$XDG_STATE_HOME\" . >out 2>&1 && exit 1; "
		    "grep -q secret \"$d/what\"; rm -rf \"$XDG_STATE_HOME\" \"$2/l\"",
		    places[i]);
		expect(script);
	}
}

/* ---- the quarantine, on the command line ---- */

#define Q     "\"$K\" quarantine "
#define FIRST "name=$(" Q "list --root \"$2\" | head -n 1 | cut -d' ' -f1); test -n \"$name\"; "

/* `show` prints what a command wrote, without effect on the terminal. */
static void
test_show(void **state)
{
	expect(RUN
	    "sh -c 'printf \"one\\n\\033]0;harm\\007two\\n\" >x; mv x .mcp.json' 2>/dev/null; " FIRST
		Q "show --root \"$2\" \"$name\" >\"$2/out\"; "
	    "grep -q '^was .*/.mcp.json$' \"$2/out\"; grep -q '^rule .*deny_write' \"$2/out\"; "
	    "grep -q '^command  sh' \"$2/out\"; grep -q '^  | one$' \"$2/out\"; "
	    "grep -q 'x1b]0;harm' \"$2/out\"; test \"$(tr -d '[:print:]\\n' <\"$2/out\" | wc -c)\" = 0");
	expect(FIRST Q
	    "show --json --root \"$2\" \"$name\" >\"$2/out\"; grep -q '\"parts\"' \"$2/out\"; "
	    "grep -q '\"command\": *\"sh\"' \"$2/out\"");
	/* By its whole name, from any directory. */
	expect("whole=$(" Q "list --all | cut -d' ' -f1); cd /; " Q
	       "show \"$whole\" | grep -q '| one'");
	expect(Q "show --root \"$2\" none 2>\"$2/err\" && exit 1; grep -q 'list --all' \"$2/err\"");
	expect(Q "show ../../x 2>/dev/null && exit 1; " Q "show a/../b 2>/dev/null && exit 1; " Q
		 "show /etc/passwd 2>/dev/null && exit 1; true");
}

/* Links and special files in an entry are listed, never followed; long content is cut. */
static void
test_show_hostile(void **state)
{
	expect(RUN
	    "sh -c 'mkdir d .vscode.d; cd .vscode.d; ln -s /etc/passwd link; mkfifo pipe; "
	    "head -c 200000 /dev/zero | tr \"\\\\000\" x >big; cd ..; mv .vscode.d .vscode' 2>/dev/null; " FIRST
		Q "show --root \"$2\" \"$name\" >\"$2/out\"; "
	    "grep -q 'symlink link.* -> /etc/passwd' \"$2/out\"; ! grep -q root: \"$2/out\" || exit 1; "
	    "grep -q 'pipe' \"$2/out\"; grep -q 'bytes more' \"$2/out\"; "
	    "test \"$(wc -c <\"$2/out\")\" -lt 100000");
}

static void
test_delete(void **state)
{
	expect("for i in 1 2 3; do " RUN "sh -c 'echo x >.mcp.json' 2>/dev/null; done; test \"$(" Q
	       "list --root \"$2\" | wc -l)\" = 3");
	expect(FIRST Q "delete --mode plan --root \"$2\" \"$name\" 2>/dev/null && exit 1; " Q
		       "delete --mode safe --root \"$2\" \"$name\"; test \"$(" Q
		       "list --root \"$2\" | wc -l)\" = 2");
	expect(Q "delete --root \"$2\" --older 1; test \"$(" Q "list --root \"$2\" | wc -l)\" = 2");
	expect(Q "delete --root \"$2\" 2>/dev/null && exit 1; " Q
		 "delete --root \"$2\" --older -1 2>/dev/null && exit 1; " Q
		 "delete --root \"$2\" --all x 2>/dev/null && exit 1; " Q
		 "delete --root \"$2\" ../x 2>/dev/null && exit 1; true");
	/* Entries of another root are deleted only with --all. */
	expect("mkdir \"$1/other\"; cd \"$1/other\"; " Q "delete --older 0; test \"$(" Q
	       "list --all | wc -l)\" = 2; " Q
	       "delete --all; cd /; rmdir \"$1/other\"; " NOTHING_LEFT);
	/* Directories without permissions are deleted too. */
	expect(RUN
	    "sh -c 'mkdir -p v/a/b; echo x >v/a/b/c; mv v .vscode; true' 2>/dev/null; "
	    "cd \"$1\"/.local/state/koda-sandbox/quarantine/*/*/what; chmod 0 a/b; chmod 100 a; cd /; " Q
	    "delete --all; " NOTHING_LEFT);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, set_up, tear_down, NULL                                              \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_left),
		TEST(what_was_there_stays),
		TEST(what_was_planted_stays),
		TEST(many_at_once),
		TEST(elsewhere),
		TEST(locked_by_another),
		TEST(cannot_be_made),
		TEST(not_safe),
		TEST(no_file_operation_sees_it),
		TEST(show),
		TEST(show_hostile),
		TEST(delete),
	};

	return cmocka_run_group_tests_name("state_dir", tests, talk_install, talk_uninstall);
}
