/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to the writes of commands to caches, as users see it: with consecutive sessions,
 * concurrent ones, sessions of other roots, killed ones, and without an overlay. Each row is a
 * script with its own home; the script ends at the first command that fails.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"

/*
 * $K: the program. $W: the case's directory, with home/ and the roots p/ and q/. run ROOT SCRIPT:
 * runs a command in a session.
 */
static const char prelude[] =
    "set -e\n"
    "export HOME=\"$W/home\"\n"
    "mkdir -p \"$HOME/.npm\" \"$HOME/.cargo/bin\" \"$HOME/.cache\" \"$W/p\" \"$W/q\"\n"
    "echo host >\"$HOME/.npm/host\"\n"
    "echo tool >\"$HOME/.cargo/bin/tool\"\n"
    "echo '[build]' >\"$HOME/.cargo/config.toml\"\n"
    "run() { root=$1; shift; \"$K\" run --mode auto --root \"$W/$root\" -- sh -ec \"$1\" 2>>\"$W/err\"; }\n"
    "store() { echo \"$HOME/.local/state/koda-sandbox/caches/$1-\"*; }\n"
    "wait_for() { n=0; until [ -e \"$1\" ]; do n=$((n + 1)); [ $n -lt 2000 ]; sleep 0.01; done; }\n"
    "pack() { \"$K\" caches list --json; }\n";

static const struct {
	const char *label, *script;
} cases[] = {
	{ "caches: the host's stay as they are, the next session has what the last one left",
	    "run p 'grep -q host ~/.npm/host; echo new >~/.npm/new; echo more >>~/.npm/host; rm ~/.cargo/config.toml || true'\n"
	    "[ ! -e ~/.npm/new ]; [ \"$(cat ~/.npm/host)\" = host ]\n"
	    "run p 'grep -q new ~/.npm/new; grep -q more ~/.npm/host; [ -e ~/.cargo/config.toml ]'\n"
	    "rm -r ~/.local/state/koda-sandbox/caches\n" },
	{ "caches: a directory that was emptied stays so, without anything else in the layer",
	    "mkdir ~/.npm/full; echo x >~/.npm/full/file\n"
	    "run p 'rm -r ~/.npm/full; mkdir ~/.npm/full'\n"
	    "run p '[ ! -e ~/.npm/full/file ]'; [ -e ~/.npm/full/file ]\n"
	    "rm -r ~/.npm/full\n" },
	{ "caches: another root has nothing of it",
	    "run p 'echo new >~/.npm/new; rm ~/.npm/host'\n"
	    "run q '[ ! -e ~/.npm/new ]; grep -q host ~/.npm/host; echo q >~/.npm/q'\n"
	    "run p '[ ! -e ~/.npm/q ]; [ ! -e ~/.npm/host ]'\n" },
	{ "caches: another project at the same path has nothing of it, and what the one before left goes",
	    "run p 'echo old >~/.npm/old'; s=$(store p); run p 'cat ~/.npm/old'\n"
	    "mv \"$W/p\" \"$W/moved\"; mkdir \"$W/p\"\n"
	    "run p '[ ! -e ~/.npm/old ]; echo new >~/.npm/new'\n"
	    "[ ! -e \"$s\" ]; [ \"$(store p)\" != \"$s\" ]; run moved '[ ! -e ~/.npm/old ]'\n"
	    "run p 'cat ~/.npm/new'\n"
	    "rm -r \"$W/p\"; \"$K\" caches clear \"$W/p\"; ! pack | grep -q \"$W/p\"\n" },
	{ "caches: what lay at a path before is left to whoever still uses it",
	    "run p 'echo old >~/.npm/old'; s=$(store p); exec 9<\"$s/00000001\"; flock -s 9\n"
	    "rm -r \"$W/p\"; mkdir \"$W/p\"\n"
	    "run p '[ ! -e ~/.npm/old ]; echo new >~/.npm/new'; [ -e \"$s/00000001/u/.npm/old\" ]\n"
	    "flock -u 9; \"$K\" caches clear \"$W/p\"; [ ! -e \"$s\" ]\n" },
	{ "caches: sessions at once have layers of their own, which become one",
	    "for i in 1 2 3; do\n"
	    "run p \"echo $i >~/.npm/$i; mkdir -p ~/.npm/dir; echo $i >~/.npm/dir/last; : >$W/p/ready$i; \n"
	    "	while [ ! -e $W/p/go$i ]; do sleep 0.01; done\" & wait_for \"$W/p/ready$i\"\n"
	    "done\n"
	    "[ \"$(ls -d \"$(store p)\"/0* | wc -l)\" = 3 ]\n"
	    "for i in 1 2 3; do : >\"$W/p/go$i\"; done; wait\n"
	    "run p 'cat ~/.npm/1 ~/.npm/2 ~/.npm/3; [ $(cat ~/.npm/dir/last) = 3 ]; rm ~/.npm/host'\n"
	    "[ \"$(ls -d \"$(store p)\"/0* | wc -l)\" = 1 ]\n"
	    "run p 'cat ~/.npm/1 ~/.npm/2 ~/.npm/3; [ $(cat ~/.npm/dir/last) = 3 ]; [ ! -e ~/.npm/host ]'\n" },
	{ "caches: where some session always runs, layers stay few, and nothing is lost",
	    "hold() { run p \"echo $1 >~/.npm/$1; : >$W/p/ready$1; while [ ! -e $W/p/go$1 ]; do sleep 0.01; done\" & "
	    "wait_for \"$W/p/ready$1\"; }\n"
	    "hold 0; i=1\n"
	    "while [ $i -le 30 ]; do hold $i; : >\"$W/p/go$((i - 1))\"; i=$((i + 1)); done\n"
	    ": >\"$W/p/go30\"; wait\n"
	    "n=$(ls -d \"$(store p)\"/0* | wc -l); echo \"# $n layers\"; [ $n -le 20 ]\n"
	    "i=0; until [ \"$(ls -d \"$(store p)\"/0* | wc -l)\" = 1 ]; do [ $i -lt 20 ]; run p true; i=$((i + 1)); done\n"
	    "run p 'i=0; while [ $i -le 30 ]; do [ $(cat ~/.npm/$i) = $i ]; i=$((i + 1)); done'\n" },
	{ "caches: a host that was killed loses nothing, and holds nothing",
	    "\"$K\" run --mode auto --root \"$W/p\" -- sh -c \"echo new >~/.npm/new; : >$W/p/ready; sleep 60\" & pid=$!\n"
	    "wait_for \"$W/p/ready\"; kill -9 $pid; wait $pid || true\n"
	    "run p 'grep -q new ~/.npm/new'\n"
	    "[ \"$(ls -d \"$(store p)\"/0* | wc -l)\" = 1 ]\n" },
	{ "caches: a layer that was being made, and a merge that was interrupted",
	    "run p 'echo old >~/.npm/old; mkdir ~/.npm/d; echo old >~/.npm/d/old'\n"
	    "s=$(store p); mkdir -p \"$s/.new-x/u\" \"$s/00000002/u/.npm/d\" \"$s/00000002/w\"\n"
	    "echo new >\"$s/00000002/u/.npm/d/new\"\n"
	    "run p 'cat ~/.npm/old ~/.npm/d/old ~/.npm/d/new'\n"
	    "[ \"$(ls -d \"$s\"/0* | wc -l)\" = 1 ]\n"
	    "\"$K\" caches clear; [ ! -e \"$s\" ]\n" },
	{ "caches: without overlays they are empty, what is fixed in them stays, and that is said",
	    "K=\"$W/k\"; printf '#!/bin/sh\\nexec %s %s \"$@\"\\n' \"$NO_OVERLAY\" \"$REAL\" >\"$K\"; chmod +x \"$K\"\n"
	    "run p '[ ! -e ~/.npm/host ]; echo x >~/.npm/host; grep -q tool ~/.cargo/bin/tool; cat ~/.cargo/config.toml\n"
	    "	! echo x >~/.cargo/bin/new; ! echo x >~/.cargo/config.toml; echo x >~/.cargo/other'\n"
	    "grep -q 'see empty directories instead of the caches.*overlay' \"$W/err\"; [ \"$(grep -c 'empty directories' \"$W/err\")\" = 1 ]\n"
	    "[ \"$(cat ~/.npm/host)\" = host ]; [ ! -e ~/.cargo/other ]; [ \"$(cat ~/.cargo/config.toml)\" = '[build]' ]\n"
	    "run p '[ ! -e ~/.npm/host ]'\n"
	    "\"$K\" doctor >\"$W/doctor\" || true; grep -A1 '^no *caches' \"$W/doctor\" | grep -q 'try: Linux'\n"
	    "grep -A1 '^no *drafts' \"$W/doctor\" | grep -q 'try: Linux'\n" },
	{ "caches: without a place for layers they are empty, and that is said",
	    "chmod 755 \"$HOME\"; mkdir -p ~/.local/state/koda-sandbox; echo >~/.local/state/koda-sandbox/caches\n"
	    "run p '[ ! -e ~/.npm/host ]; echo x >~/.npm/x; grep -q tool ~/.cargo/bin/tool'\n"
	    "grep -q \"empty directories instead of the caches.*make '.*caches/p-\" \"$W/err\"; [ ! -e ~/.npm/x ]\n"
	    "rm ~/.local/state/koda-sandbox/caches; run q 'echo x >~/.npm/x'; chmod 755 \"$(store q)\"\n"
	    "run q '[ ! -e ~/.npm/host ]'; grep -q \"must be a directory of this user\" \"$W/err\"\n" },
	{ "caches: in memory they are bounded",
	    "echo >\"$W/file\"; export XDG_STATE_HOME=\"$W/file\"\n"
	    "run p 'df --output=size -k ~/.npm | tail -1 | grep -qx \" *1048576\"'\n" },
	{ "caches: something is mounted in the home directory",
	    "mkdir ~/mnt; run p 'echo one >~/.npm/one'\n"
	    "export W K; unshare -Urm --map-root-user sh -ec \"mount -t tmpfs none ~/mnt; \n"
	    "	\\\"\\$K\\\" run --mode auto --root \\\"\\$W/p\\\" -- sh -ec \\\"cat ~/.npm/one ~/.npm/host; echo two >~/.npm/two; rm ~/.npm/host\\\"\"\n"
	    "[ -e ~/.npm/host ]; [ ! -e ~/.npm/two ]\n"
	    "run p 'cat ~/.npm/one ~/.npm/two; [ ! -e ~/.npm/host ]'\n" },
	{ "caches: a project that lies in one",
	    "mkdir -p ~/.cache/clone; \"$K\" run --mode auto --root ~/.cache/clone -- sh -ec \\\n"
	    "	'echo x >file; ! echo x >~/.cache/other; echo x >~/.npm/x' 2>>\"$W/err\"\n"
	    "[ -e ~/.cache/clone/file ]; [ ! -e ~/.npm/x ]\n" },
	{ "caches: in plan there is none, and the host's are read",
	    "run p 'rm ~/.npm/host'\n"
	    "\"$K\" run --mode plan --root \"$W/p\" -- sh -ec 'cat ~/.npm/host; ! echo x >~/.npm/x' 2>>\"$W/err\"\n" },
	{ "caches: those that the host does not have are elsewhere, and are there for the next session",
	    "rmdir ~/.cache; rm -r ~/.npm\n"
	    "run p 'mkdir -p $XDG_CACHE_HOME/tool $npm_config_cache; echo x >$XDG_CACHE_HOME/tool/x; [ -z \"$CARGO_HOME\" ]'\n"
	    "run p 'cat $XDG_CACHE_HOME/tool/x; [ -d $npm_config_cache ]'; run q '[ ! -e $XDG_CACHE_HOME ]'\n"
	    "[ ! -e ~/.cache ]; [ ! -e ~/.npm ]\n"
	    "XDG_CACHE_HOME=/usr/share; export XDG_CACHE_HOME; run p '[ -z \"$XDG_CACHE_HOME\" ]'\n" },
	{ "caches: where the home is the root, those that are missing are private, and leave nothing on the host",
	    "cd; rmdir ~/.cache; rm -r ~/.npm; home=home; run $home 'mkdir -p ~/.m2/repository/a ~/.npm/a; echo x >~/.npm/x'\n"
	    "[ ! -e ~/.npm ]; [ ! -e ~/.m2 ]; [ ! -e ~/go ]; [ ! -e ~/.cache ]\n"
	    "run $home '[ -d ~/.m2/repository/a ]; cat ~/.npm/x; [ -z \"$npm_config_cache$XDG_CACHE_HOME\" ]'\n"
	    "[ ! -e ~/.local/state/koda-sandbox/caches/mounted-on ]\n" },
	{ "caches: what the host puts there meanwhile stays, and what a killed one has made goes with the next",
	    "cd; \"$K\" run --mode auto --root ~ -- sh -c ': >~/ready; sleep 60' 2>>\"$W/err\" & pid=$!\n"
	    "wait_for ~/ready; [ -d ~/.m2/repository ]; [ -d ~/go/pkg/mod ]; mkdir ~/go/pkg/mod/hosts\n"
	    "kill -9 $pid; wait $pid || true; [ -d ~/.m2/repository ]\n"
	    "run home 'echo x >~/.m2/repository/x; [ -d ~/go/pkg/mod/hosts ]'; [ ! -e ~/.m2 ]; [ -d ~/go/pkg/mod/hosts ]\n"
	    "[ ! -e ~/.gradle ]\n" },
	{ "caches: of sessions that need the same directory the last one removes it",
	    "cd; one() { run home \": >~/ready$1; until [ -e ~/go$1 ]; do sleep 0.01; done; echo $1 >~/.m2/repository/$1\"; }\n"
	    "one 1 & a=$!; wait_for ~/ready1; one 2 & b=$!; wait_for ~/ready2\n"
	    ": >~/go1; wait $a; [ -d ~/.m2/repository ]; : >~/go2; wait $b; [ ! -e ~/.m2 ]\n"
	    "run home 'cat ~/.m2/repository/1 ~/.m2/repository/2'\n" },
	{ "caches: where no directory can be made for one, no command runs",
	    "cd; if [ $(id -u) != 0 ]; then\n"
	    "mkdir -m 555 ~/.m2; ! run home true; grep -q \".m2/repository' is a cache of this user's tools\" \"$W/err\"\n"
	    "[ ! -e ~/go ]; chmod 755 ~/.m2; run home true; fi\n" },
	{ "caches: what one is mounted on is removed by somebody: the slot ends, and the next one has it again",
	    "cd; echo x >~/.npm/x; \"$K\" run --mode auto --root ~ -- sh -c ': >~/ready; exec sleep 60' 2>>\"$W/err\" & pid=$!\n"
	    "wait_for ~/ready; rm -r ~/.npm; ! wait $pid; grep -q \"another process removed '$HOME/.npm'\" \"$W/err\"\n"
	    "run home 'echo x >~/.npm/x'; [ ! -e ~/.npm/x ]\n" },
	{ "caches: one outside of what commands write is removed by somebody: nothing happens",
	    "\"$K\" run --mode auto --root \"$W/p\" -- sh -ec ': >ready; until [ -e go ]; do sleep 0.01; done; : >done' 2>>\"$W/err\" & pid=$!\n"
	    "wait_for \"$W/p/ready\"; rm -r ~/.npm; : >\"$W/p/go\"; wait $pid; [ -e \"$W/p/done\" ]\n" },
	{ "caches: one that lies in the project is private, and is there for the next session",
	    "mkdir -p \"$W/p/npm\"; echo host >\"$W/p/npm/host\"; rmdir ~/.npm 2>/dev/null || rm -r ~/.npm; ln -s \"$W/p/npm\" ~/.npm\n"
	    "export CARGO_HOME=\"$W/p/tools/cargo\"\n"
	    "run p 'cat ~/.npm/host; echo more >>npm/host; echo new >~/.npm/new; echo x >tools/cargo/x; ! mv tools other'\n"
	    "[ \"$(cat \"$W/p/npm/host\")\" = host ]; [ ! -e \"$W/p/npm/new\" ]; [ ! -e \"$W/p/tools\" ]\n"
	    "run p 'grep more npm/host; cat npm/new tools/cargo/x; echo host >file'; [ -e \"$W/p/file\" ]\n"
	    "run q '[ ! -e ~/.npm/new ]'; grep -q overlay \"$W/err\" && exit 1; true\n" },
	{ "caches: one that lies in the project, without overlays",
	    "K=\"$W/k\"; printf '#!/bin/sh\\nexec %s %s \"$@\"\\n' \"$NO_OVERLAY\" \"$REAL\" >\"$K\"; chmod +x \"$K\"\n"
	    "export CARGO_HOME=\"$W/p/tools/cargo\"; run p 'echo x >tools/cargo/x'; [ ! -e \"$W/p/tools\" ]\n"
	    "grep -q 'see empty directories instead of the caches' \"$W/err\"\n" },
	{ "caches: a root that is a cache itself is the host's, and that is said",
	    "export CARGO_HOME=\"$W/p\"; run p 'echo x >x; mkdir -p registry'; [ -e \"$W/p/x\" ]\n"
	    "grep -q \"commands may write '$W/p' itself, which is a cache\" \"$W/err\"\n" },
	{ "caches: list and clear",
	    "\"$K\" caches list 2>&1 | grep -q 'no command has'; \"$K\" caches clear\n"
	    "run p 'head -c 1000000 /dev/zero >~/.npm/big'; run q true\n"
	    "pack | grep -q '\"root\":\"'\"$W\"'/p\",[^}]*\"bytes\":1[0-9]\\{6\\},'\n"
	    "\"$K\" caches list | grep -q \"^$W/p  9[0-9]*\\.[0-9] KiB  last used 20\\|^$W/p  [0-9.]* MiB\"\n"
	    "run p \": >$W/p/ready; while [ ! -e $W/p/go ]; do sleep 0.01; done\" & wait_for \"$W/p/ready\"\n"
	    "pack | grep -q '\"in_use\":true'; \"$K\" caches list | grep -q '/p .*in use now'\n"
	    "s=0; \"$K\" caches clear 2>>\"$W/err\" || s=$?; [ $s = 4 ]; ! pack | grep -q \"$W/q\"\n"
	    ": >\"$W/p/go\"; wait; run p 'cat ~/.npm/big >/dev/null'\n"
	    "\"$K\" caches clear \"$W/q\"; pack | grep -q \"$W/p\"\n"
	    "\"$K\" caches clear --root \"$W/p\"; ! pack | grep -q \"$W/p\"\n"
	    "run p '[ ! -e ~/.npm/big ]'\n" },
	{ "caches: hostile trees are removed",
	    "run p 'cd ~/.npm; mkdir -m 0 shut; ln -s ~/.ssh link; mkfifo fifo; i=0\n"
	    "	while [ $i -lt 1500 ]; do mkdir d; cd d; i=$((i + 1)); done; chmod 0 .'\n"
	    "mkdir ~/.ssh; echo key >~/.ssh/key\n"
	    "pack | grep -q '\"more\":true'; \"$K\" caches clear; [ -e ~/.ssh/key ]; [ ! -e \"$(store p)\" ]\n" },
	{ "caches: too much goes, the rest stays",
	    "run p 'echo small >~/.npm/small'; rm \"$(store p)/measured\"\n"
	    "s=$(store p)/00000001; : >\"$s/over\"\n"
	    "run p '[ ! -e ~/.npm/small ]; echo again >~/.npm/again'\n"
	    "[ ! -e \"$s\" ]; run p 'cat ~/.npm/again'; [ -z \"$(ls \"$(store p)/trash\")\" ] || run p true\n"
	    "[ $(ls \"$(store p)/trash\" | wc -l) -le 2 ]\n" },
	{ "caches: those that nobody used for a month go",
	    "run p 'echo x >~/.npm/x'; run q 'echo x >~/.npm/x'\n"
	    "touch -d '40 days ago' \"$(store p)\"; rm \"$(store q)/measured\"; s=$(store p)\n"
	    "run q 'cat ~/.npm/x'; [ ! -e \"$s\" ]; [ -e \"$(store q)\" ]\n" },
};

static char programs[PATH_MAX];

static void
script(const char *text)
{
	cleanup_free char *all = NULL;

	assert_true(asprintf(&all, "%s%s", prelude, text) > 0);
	if (setenv("SCRIPT", all, 1) < 0 ||
	    system("exec sh -c \"$SCRIPT\"") != 0) /* NOLINT(cert-env33-c) */
		fail_msg("a step of the script failed; $W/err: see above");
}

static void
case_of(void **state)
{
	size_t i = (uintptr_t)*state;
	char dir[PATH_MAX], work[PATH_MAX + 16], program[2 * PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/case-%zu", getenv("TMPDIR"), i);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_non_null(realpath(dir, work));
	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", programs);
	setenv("W", work, 1);
	setenv("K", program, 1);
	setenv("REAL", program, 1);
	setenv("NO_OVERLAY", KODA_TEST_BUILD_DIR "/tests/kit/no_overlay", 1);
	script(cases[i].script);
}

static int
install(void **state)
{
	snprintf(programs, sizeof(programs), "%s/programs", getenv("TMPDIR"));
	setenv("T", programs, 1);
	setenv("B", KODA_TEST_BUILD_DIR, 1);
	/* As installed: helpers are found from where the program is. NOLINTNEXTLINE(cert-env33-c) */
	return system("set -e; mkdir -p \"$T/bin\" \"$T/libexec/koda-sandbox\"; "
		      "cp \"$B/cli/koda-sandbox\" \"$T/bin\"; "
		      "cp \"$B/worker/koda-fs-worker\" \"$B/search/koda-fs-search\" "
		      "\"$B/stage2/koda-sandbox-stage2\" \"$B/connect/koda-egress-connect\" "
		      "\"$B/proxy/koda-egress-proxy\" \"$T/libexec/koda-sandbox\"") == 0
	    ? 0
	    : -1;
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, case_of, NULL, NULL, (void *)i };
	return cmocka_run_group_tests(tests, install, NULL);
}
