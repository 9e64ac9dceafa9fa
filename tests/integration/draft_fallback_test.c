/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/draft/fit.c, host/sandbox/draft_boot.c: where a draft can be had, and that there is never a
 * direct slot instead of one. Each row is a script with its own home; the script ends at the first
 * command that fails.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "tests/kit/skip.h"

/*
 * $T: draft_try. $W: the case's directory, with home/ and the project p/. works [ROOT [STATE]]: a
 * draft works there, is kept in the state directory, and nothing reaches the project. refused WORDS:
 * there is no draft, for this reason, no command has run, and no draft is left.
 */
static const char prelude[] =
    "set -e\n"
    "export HOME=\"$W/home\"\n"
    "mkdir -p \"$HOME\" \"$W/p/dir\"; echo old >\"$W/p/a\"; echo c >\"$W/p/dir/c\"; cd \"$W\"\n"
    "try() { \"$T\" \"$@\" >\"$W/out\" 2>\"$W/err\"; }\n"
    "drafts() { ls -d \"${XDG_STATE_HOME:-$HOME/.local/state}\"/koda-sandbox/drafts/*/[0-9a-z]* 2>/dev/null | wc -l; }\n"
    "works() { p=${1:-$W/p}; mkdir -p \"$p/d/sub\" && echo old >\"$p/a\" && echo c >\"$p/d/c\"\n"
    "	try \"$p\" 'set -e; echo new >a; cat a; rm -r d; mkdir d; ls -A d; echo x >d/x; mkdir e; echo y >e/y; mv e f;"
    " cat f/y; ln a b; ln -s a l; cat l; echo more >>b; wc -l <a; chmod 600 a; stat -c %a a; rm a; [ ! -e a ]; python3 -c \"import socket as k; s = k.socket(1); s.bind(str(1)); s.listen(); k.socket(1).connect(str(1)); print(7)\"' || { cat \"$W/err\"; return 1; }\n"
    "	[ \"$(cat \"$W/out\" | tr '\\n' ' ')\" = 'new y new 2 600 7 ' ]; [ \"$(cat \"$p/a\" \"$p/d/c\" | tr '\\n' ' ')\" = 'old c ' ]\n"
    "	[ -d \"$p/d/sub\" ]; [ ! -e \"$p/f\" ]; [ \"$(drafts)\" -ge 1 ]; }\n"
    "refused() { s=0; try \"${2:-$W/p}\" 'echo ran >a' ${3:-} || s=$?; cat \"$W/err\"; [ $s = 99 ]; grep -q \"$1\" \"$W/err\"\n"
    "	grep -q 'unmount that\\|XDG_STATE_HOME\\|doctor\\|discard\\|newgrp\\|as that user' \"$W/err\"; [ \"$(cat \"${2:-$W/p}/a\")\" = old ]; [ \"$(drafts)\" = 0 ]; }\n"
    "in_ns() { export W T HOME; { echo \"$FUNCTIONS\"; echo \"$1\"; } >\"$W/script\"; unshare -Urm --map-root-user sh -e \"$W/script\"; }\n";

static const struct {
	const char *label, *script;
} cases[] = {
	{ "draft: a directory on a disk", "works" },
	{ "draft: a kernel without overlays for users",
	    "T=\"$W/t\"; printf '#!/bin/sh\\nexec %s %s \"$@\"\\n' \"$NO_OVERLAY\" \"$REAL\" >\"$T\"; chmod +x \"$T\"; refused 'Linux 5.11'" },
	{ "draft: a kernel without overlays for users: run --draft works in a clone",
	    "K=\"$W/k\"; printf '#!/bin/sh\\nexec %s %s \"$@\"\\n' \"$NO_OVERLAY\" \"$CLI\" >\"$K\"; chmod +x \"$K\"\n"
	    "\"$K\" --root \"$W/p\" --mode auto run --draft -c 'echo new >a; rm dir/c; pwd; cat a' >out 2>err </dev/null || { cat err; exit 1; }\n"
	    "grep -q 'works in a clone' err; grep -q koda-sandbox-copies out; grep -q new out; [ \"$(cat p/a)\" = old ]; [ -e p/dir/c ]\n"
	    "[ \"$(drafts)\" = 1 ]; id=$(ls \"$HOME\"/.local/state/koda-sandbox/drafts/*/); \"$CLI\" --root \"$W/p\" --mode auto draft apply \"$id\"\n"
	    "[ \"$(cat p/a)\" = new ]; [ ! -e p/dir/c ]; [ ! -e \"$HOME/.local/state/koda-sandbox-copies\" ]\n"
	    "\"$K\" --root \"$W/p\" --mode auto run --draft -c 'cat a' 2>err </dev/null; [ \"$(drafts)\" = 0 ]" },
	{ "draft: too large to be cloned for a single command, unless it is asked for",
	    "K=\"$W/k\"; printf '#!/bin/sh\\nexec %s %s \"$@\"\\n' \"$NO_OVERLAY\" \"$CLI\" >\"$K\"; chmod +x \"$K\"\n"
	    "mkdir p/many; (cd p/many; seq 100001 | xargs touch); s=0; \"$K\" --root \"$W/p\" --mode auto run --draft -c 'echo new >a' 2>err </dev/null || s=$?\n"
	    "[ $s != 0 ]; grep -q -e --clone err; [ \"$(cat p/a)\" = old ]; [ \"$(drafts)\" = 0 ]; [ ! -e \"$HOME/.local/state/koda-sandbox-copies\" ]\n"
	    "\"$CLI\" --root \"$W/p\" --mode auto run --clone -c 'echo new >a' 2>err </dev/null; [ \"$(cat p/a)\" = old ]; [ \"$(drafts)\" = 1 ]" },
	{ "draft: the project is a file system in memory",
	    "in_ns 'mount -t tmpfs none \"$W/p\"; works'" },
	{ "draft: the draft is on a file system in memory, another than the project's",
	    "mkdir -p state; in_ns 'mount -t tmpfs none \"$W/state\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; works'" },
	{ "draft: both are in memory, on two file systems",
	    "mkdir -p state; in_ns 'mount -t tmpfs none \"$W/state\"; mount -t tmpfs none \"$W/p\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; works'" },
	{ "draft: the project is an overlay",
	    "mkdir -p lower upper work; echo lower >lower/low; in_ns 'mount -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work none \"$W/p\"; works; [ -e \"$W/p/low\" ]'" },
	{ "draft: the draft is on an overlay",
	    "mkdir -p lower upper work state; in_ns 'mount -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work none \"$W/state\";"
	    " XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused \"ext4, xfs, btrfs\"'" },
	{ "draft: a file system without extended attributes",
	    "mkdir -p state; in_ns 'mount -t ramfs none \"$W/state\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused \"no extended attributes\"'" },
	{ "draft: the state directory is read-only",
	    "mkdir -p state; in_ns 'mount -t tmpfs -o ro none \"$W/state\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused \"Read-only file system\"'" },
	{ "draft: the state directory cannot be written",
	    "mkdir -p state; chmod 555 state; [ \"$(id -u)\" = 0 ] || { XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused 'Permission denied'; }" },
	{ "draft: the state directory is a file",
	    "echo x >state; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused 'neither XDG_STATE_HOME'" },
	{ "draft: the state directory is full",
	    "mkdir -p state; in_ns 'mount -t tmpfs -o nr_inodes=8 none \"$W/state\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME; refused \"No space\"'" },
	{ "draft: the disk of the draft becomes full: the command is told, the project stays",
	    "mkdir -p state; in_ns 'mount -t tmpfs -o size=1m none \"$W/state\"; XDG_STATE_HOME=$W/state; export XDG_STATE_HOME;"
	    " try \"$W/p\" \"head -c 4000000 /dev/zero >big\" && exit 1; grep -q \"No space\" \"$W/err\"; [ ! -e \"$W/p/big\" ]'" },
	{ "draft: no kernel sandbox, in a mode that works without",
	    "in_ns 'mount --bind /dev/null /usr/bin/bwrap; MODE=safe; export MODE; refused doctor'" },
	{ "draft: no home directory",
	    "unset HOME; HOME=/nonexistent; export HOME; refused 'drafts'" },
	{ "draft: something is mounted in the project",
	    "mkdir p/sub p/'a b'; in_ns 'mount -t tmpfs none \"$W/p/a b\"; refused \"mounted in it, at .*/p/a b\"; umount \"$W/p/a b\"; works'" },
	{ "draft: a bind mount in the project",
	    "in_ns 'mount --bind \"$W/home\" \"$W/p/dir\"; refused \"mounted in it, at .*/p/dir\"'" },
	{ "draft: something is mounted beside the project, and the project is a mount",
	    "mkdir -p p2; in_ns 'mount -t tmpfs none \"$W/p2\"; mount --bind \"$W/p\" \"$W/p\"; works'" },
	{ "draft: the project belongs to a group that the user is only a member of",
	    "as() { { echo \"$FUNCTIONS\"; echo \"$2\"; } >user; setpriv --reuid=65534 --regid=$1 --groups=1,65534 sh -e user; }\n"
	    "[ \"$(id -u)\" != 0 ] || { chown -R 65534:65534 .; chgrp -R 1 p; chmod -R g+w p; as 65534 \"refused 'belongs to the group 1'\"; as 1 works; }" },
	{ "draft: the project belongs to another user",
	    "[ \"$(id -u)\" != 0 ] || { chown -R 65534:65534 p; refused 'belongs to another user'; }" },
	{ "draft: the project contains the state directory",
	    "echo old >\"$HOME/a\"; refused 'would be in it' \"$HOME\"" },
	{ "draft: a rule allows writing to another directory too",
	    "mkdir other; echo old >other/o; try \"$W/p\" \"echo new >$W/other/o; echo new >a; cat $W/other/o\" \"$W/other\"; cat \"$W/err\"\n"
	    "[ \"$(cat out)\" = new ]; [ \"$(cat other/o)\" = old ]; [ \"$(cat p/a)\" = old ]" },
	{ "draft: a rule names a directory in the project",
	    "try \"$W/p\" 'echo new >a; echo new >dir/c; cat dir/c' \"$W/p/dir\"; [ \"$(cat out)\" = new ]; [ \"$(cat p/dir/c)\" = c ]; [ \"$(cat p/a)\" = old ]" },
	{ "draft: a rule names the directory that the project is in",
	    "mkdir in; mv p in/p; s=0; try \"$W/in/p\" 'echo new >a; echo new >../b' \"$W/in\" || s=$?; cat err; [ \"$(cat in/p/a)\" = old ]; [ ! -e in/b ]; [ $s = 0 ]" },
	{ "draft: a worktree of git, whose repository is elsewhere",
	    "git init -q main; cd main; git config user.email a@a; git config user.name a; echo 1 >f; git add f; git commit -qm one\n"
	    "git worktree add -q ../wt -b side; before=$(find .git -type f | sort | xargs cksum); cd ..\n"
	    "try \"$W/wt\" 'set -e; echo 2 >f; echo n >n; git add n; git commit -qam two; git log --format=%s; git status --short; git stash list'; cat err\n"
	    "[ \"$(cat out | tr '\\n' ' ')\" = 'two one ' ]; [ \"$(git -C wt log --format=%s)\" = one ]; [ \"$(cat wt/f)\" = 1 ]; [ ! -e wt/n ]\n"
	    "[ \"$(cd main; find .git -type f | sort | xargs cksum)\" = \"$before\" ]" },
};

/* As root only: file systems on disks. $1: the project's, $2: the draft's; "same": that disk. */
#define NO_TOOL 77
static const char on_disks[] =
    "for t in $1 $2; do [ $t = same ] || command -v mkfs.$t >/dev/null || exit 77; done\n"
    "losetup -f >/dev/null 2>&1 || exit 77\n"
    "mkdir -p disk1 disk2\n"
    "disk() { truncate -s 400M $1.img; mkfs.$2 -q $1.img >mkfs 2>&1 || { cat mkfs; exit 1; }; mount -o loop $1.img $1; }\n"
    "disk disk1 $1; if [ $2 = same ]; then rmdir disk2; ln -s disk1 disk2; else disk disk2 $2; fi\n"
    "mkdir disk1/p disk2/state; chown -R 65534:65534 home disk1/p disk2/state .; chmod 755 .\n"
    "{ echo \"$FUNCTIONS\"; echo 'XDG_STATE_HOME=$W/disk2/state; export XDG_STATE_HOME; works \"$W/disk1/p\"'; } >user\n"
    "s=0; setpriv --reuid=65534 --regid=65534 --clear-groups sh -e user || s=$?\n"
    "umount disk1; [ $2 = same ] || umount disk2; [ $s = 0 ]\n";

static const char *const disks[] = { "ext4", "xfs", "btrfs", "same" };

#define N_DISKS N_ELEMENTS(disks)
#define N_PAIRS ((N_DISKS - 1) * N_DISKS)

static char base[PATH_MAX];

static int
run_script(const char *name, const char *text)
{
	char command[16384 + 2 * sizeof(prelude)], dir[PATH_MAX + 64];

	snprintf(dir, sizeof(dir), "%s/%s", base, name);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(setenv("W", dir, 1), 0);
	assert_int_equal(setenv("FUNCTIONS", prelude, 1), 0);
	assert_true((size_t)snprintf(command, sizeof(command), "exec 2>&1\n%s%s", prelude, text) <
	    sizeof(command));
	return system(command);
}

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char name[32];

	snprintf(name, sizeof(name), "%zu", i);
	assert_int_equal(run_script(name, cases[i].script), 0);
}

static void
check_disks(void **state)
{
	size_t i = (uintptr_t)*state;
	const char *project = disks[i / N_DISKS], *draft = disks[i % N_DISKS];
	char name[32], text[8192];
	int status;

	snprintf(name, sizeof(name), "%s-%s", project, draft);
	snprintf(text, sizeof(text), "set -- %s %s\n%s", project, draft, on_disks);
	status = run_script(name, text);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_TOOL)
		skip_because("no program makes this file system here, or there is no loop device");
	assert_int_equal(status, 0);
}

/* Installs koda-sandbox below `base`, as $CLI. */
static int
install(void)
{
	char program[PATH_MAX + 64];

	snprintf(program, sizeof(program), "%s/installed/bin/koda-sandbox", base);
	return setenv("I", base, 1) < 0 || setenv("B", KODA_TEST_BUILD_DIR, 1) < 0 ||
	    setenv("CLI", program, 1) < 0 ||
	    system("set -e; cd \"$I\"; mkdir -p installed/bin installed/libexec/koda-sandbox; "
		   "cp \"$B/cli/koda-sandbox\" installed/bin; "
		   "cp \"$B/worker/koda-fs-worker\" \"$B/search/koda-fs-search\" "
		   "\"$B/proxy/koda-egress-proxy\" \"$B/connect/koda-egress-connect\" "
		   "\"$B/stage2/koda-sandbox-stage2\" installed/libexec/koda-sandbox") != 0;
}

static int
begin(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof(base), "%s/drafts.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	return mkdtemp(base) == NULL ||
	    setenv("T", KODA_TEST_BUILD_DIR "/tests/kit/draft_try", 1) < 0 ||
	    setenv("REAL", KODA_TEST_BUILD_DIR "/tests/kit/draft_try", 1) < 0 ||
	    setenv("NO_OVERLAY", KODA_TEST_BUILD_DIR "/tests/kit/no_overlay", 1) < 0 ||
	    unsetenv("XDG_STATE_HOME") < 0 || chmod(base, 0755) < 0 || install() != 0;
}

static int
end(void **state)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "chmod -R u+rwX '%s'; rm -rf '%s'", base, base);
	return system(command);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_PAIRS];
	char labels[N_PAIRS][64];
	size_t n = 0;

	for (; n < N_ELEMENTS(cases); n++)
		tests[n] = (struct CMUnitTest){ cases[n].label, check_case, NULL, NULL, (void *)n };
	for (size_t i = 0; geteuid() == 0 && i < N_PAIRS; i++) {
		snprintf(labels[i], sizeof(labels[i]), "draft: the project on %s, the draft on %s",
		    disks[i / N_DISKS], disks[i % N_DISKS]);
		tests[n++] = (struct CMUnitTest){ labels[i], check_disks, NULL, NULL, (void *)i };
	}
	return _cmocka_run_group_tests("draft_fallback", tests, n, begin, end);
}
