/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/drafts.c: programs that people use work in a draft as they do in the project. Each row runs
 * once in a draft and once in a direct slot, on the same project: output, status and the files that
 * are there afterwards have to be the same, and the project has to be as it was after the draft.
 * tests/posix compares single operations.
 */
#include "tests/kit/drafting.h"
#include "tests/kit/process.h"
#include "tests/kit/skip.h"

/* All files with their modes and contents, without those that contain times and inode numbers. */
#define TREE                                                                                        \
	"find . \\( -name .git -o -name node_modules -o -name env \\) -prune -o -printf '%y %m %p " \
	"%l\\n' | LC_ALL=C sort; find . \\( -name .git -o -name node_modules -o -name env \\) "     \
	"-prune -o -type f ! -name '*.o' ! -name program ! -name '*.db' ! -name '*.tar' -exec "     \
	"sha256sum {} + | LC_ALL=C sort -k2"

#define PYTHON "/usr/bin/python3 -c '\n"

#define GIT_USER                                                                                     \
	"export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@d" \
	" GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z';"

#define GIT_PROJECT                                                                                \
	GIT_USER "git init -q -b main . && mkdir dir && for i in 1 2 3 4 5 6 7 8 9; do "           \
		 "echo $i >dir/$i; done && echo a >a && git add . && git commit -qm first && "     \
		 "git checkout -qb side && echo side >>a && git commit -qam side && "              \
		 "git checkout -q main && echo b >b && git add b && git commit -qm second"

#define STATE "git status --porcelain; git log --all --format='%H %s'; git ls-files -s"

/* clang-format off */
static const struct tool {
	const char *name, *program, *prepare, *run;
} rows[] = {
	{ "git, commits", "git", GIT_PROJECT,
	    GIT_USER "echo c >c && git add c && git rm -q dir/1 && echo 2 >>dir/2 && git add -u && git commit -qm third;"
	    " git mv dir/3 dir/33; git commit -qm moved; git commit -q --amend -m amended; git tag t; " STATE },
	{ "git, branches", "git", GIT_PROJECT,
	    GIT_USER "git checkout -q side; git rebase -q main; git checkout -q main; git merge -q --no-ff -m merged side;"
	    " git update-ref -d refs/heads/side; git checkout -q -b other HEAD~1; git cherry-pick main~1 -m 1 2>&1; git reset -q --hard main; " STATE },
	{ "git, stash and clean", "git", GIT_PROJECT,
	    GIT_USER "echo x >>a; echo y >new; git stash -q -u; cat a; ls; git stash pop -q; echo z >junk; rm dir/5;"
	    " git checkout -q -- dir/5; git clean -fdq; git restore a; git diff HEAD; " STATE },
	{ "git, packing", "git", GIT_PROJECT,
	    GIT_USER "git gc -q; git repack -adq; git fsck 2>&1; git count-objects; git archive HEAD | tar t;"
	    " git bundle create -q $TMPDIR/b main; git bundle verify -q $TMPDIR/b; git grep -c . ; git blame -s a; " STATE },
	{ "git, conflict", "git", GIT_PROJECT,
	    GIT_USER "echo main >>a; git commit -qam main; git merge side 2>&1; cat a; git checkout -q --ours a; git add a;"
	    " git commit -qm resolved; git bisect start -q 2>/dev/null; git bisect reset -q 2>/dev/null; " STATE },
	{ "git apply and am", "git", GIT_PROJECT,
	    GIT_USER "git format-patch -q -1 side --stdout >p; git apply --check p && git apply p; git diff; git checkout -q a;"
	    " git am -q p; rm p; " STATE },
	{ "make", "make", "mkdir src; for i in 1 2 3; do echo \"int f$i(void) { return $i; }\" >src/$i.c; done;"
	    " echo 'int f1(void); int f2(void); int f3(void); int main(void) { return f1() + f2() + f3(); }' >src/main.c;"
	    " printf 'program: src/1.o src/2.o src/3.o src/main.o\\n\\tcc -o $@ $^\\n%%.o: %%.c\\n\\tcc -c -o $@ $<\\nclean:\\n\\trm -f src/*.o program\\n' >Makefile;"
	    " make -s src/1.o",
	    "make -j2 --output-sync 2>&1 | sort; ./program; echo $?; make 2>&1; touch src/2.c; make 2>&1; make -q; echo $?;"
	    " touch -d '2 hours ago' src/*.c; touch -d '1 hour ago' src/*.o program; echo 'int f2(void) { return 20; }' >src/2.c;"
	    " make 2>&1; ./program; echo $?; make clean; make -s; ls src" },
	{ "pip in a virtual environment", "/usr/bin/python3", "mkdir -p package/tool; echo 'def main(): print(42)' >package/tool/__init__.py;"
	    " printf 'from setuptools import setup\\nsetup(name=\"tool\", version=\"1\", packages=[\"tool\"], entry_points={\"console_scripts\": [\"tool=tool:main\"]})\\n' >package/setup.py",
	    "export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1;"
	    " /usr/bin/python3 -m venv --without-pip --system-site-packages env && cp -r package $TMPDIR/package &&"
	    " env/bin/python -m pip install -q --no-index --no-build-isolation --no-compile --no-deps $TMPDIR/package; echo $?;"
	    " env/bin/tool; env/bin/python -m pip list --local 2>/dev/null; env/bin/python -m pip uninstall -q -y tool; ls env/bin" },
	{ "npm", "npm", "mkdir -p one two; echo '{\"name\": \"one\", \"version\": \"1.0.0\", \"bin\": \"cli.js\"}' >one/package.json;"
	    " printf '#!/usr/bin/env node\\nconsole.log(require(\"two\"))\\n' >one/cli.js; echo '{\"name\": \"two\", \"version\": \"1.0.0\"}' >two/package.json;"
	    " echo 'module.exports = 42' >two/index.js; echo '{\"name\": \"all\", \"version\": \"1.0.0\", \"scripts\": {\"hello\": \"one\"}}' >package.json",
	    "export npm_config_cache=$TMPDIR/npm npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false;"
	    " npm install --silent ./one ./two; echo $?; npm run --silent hello; npm ls 2>&1 | tail -n +2; npm uninstall --silent two; npm ci --silent; echo $?;"
	    " find node_modules -not -name '.package-lock.json' -printf '%y %P %l\\n' | LC_ALL=C sort" },
	{ "sqlite", "/usr/bin/python3", "/usr/bin/python3 -c 'import sqlite3; d = sqlite3.connect(\"a.db\"); d.execute(\"create table t(n integer primary key, s)\");"
	    " d.executemany(\"insert into t values(?, ?)\", ((i, \"x\" * 100) for i in range(5000))); d.commit()'",
	    PYTHON "import os, sqlite3\n"
	    "d = sqlite3.connect(\"a.db\", timeout=0.1)\n"
	    "print(d.execute(\"pragma mmap_size=1048576\").fetchall(), d.execute(\"pragma journal_mode=wal\").fetchall())\n"
	    "d.execute(\"update t set s = ? where n % 3 = 0\", (\"changed\",))\n"
	    "o = sqlite3.connect(\"a.db\", timeout=0.1)\n"
	    "print(o.execute(\"select count(*) from t where s = ?\", (\"changed\",)).fetchall())\n"
	    "try: o.execute(\"delete from t\")\n"
	    "except sqlite3.OperationalError as e: print(e)\n"
	    "d.commit(); print(sorted(os.listdir(\".\")))\n"
	    "print(o.execute(\"select count(*), sum(length(s)) from t\").fetchall()); o.close()\n"
	    "d.execute(\"pragma journal_mode=delete\"); d.execute(\"delete from t where n > 100\"); d.commit(); d.execute(\"vacuum\")\n"
	    "print(d.execute(\"pragma integrity_check\").fetchall(), os.path.getsize(\"a.db\"), sorted(os.listdir(\".\")))\n'" },
	{ "inotify", "/usr/bin/python3", "mkdir dir; echo a >dir/a; echo b >dir/b; echo c >dir/c",
	    PYTHON "import ctypes, os, struct\n"
	    "c = ctypes.CDLL(None)\n"
	    "fd = c.inotify_init1(os.O_NONBLOCK)\n"
	    "c.inotify_add_watch(fd, b\"dir\", 0x3ce); c.inotify_add_watch(fd, b\"dir/a\", 0xc0a)\n"
	    "def seen(what):\n"
	    "    try: data = os.read(fd, 65536)\n"
	    "    except BlockingIOError: data = b\"\"\n"
	    "    out = []\n"
	    "    while data:\n"
	    "        wd, mask, cookie, n = struct.unpack(\"iIII\", data[:16])\n"
	    "        out.append((wd, hex(mask), data[16:16 + n].rstrip(b\"\\0\").decode())); data = data[16 + n:]\n"
	    "    print(what, out)\n"
	    "open(\"dir/a\", \"a\").write(\"x\"); seen(\"first change\")\n"
	    "open(\"dir/a\", \"a\").write(\"x\"); seen(\"second change\")\n"
	    "open(\"dir/new\", \"w\").close(); seen(\"new\")\n"
	    "os.rename(\"dir/new\", \"dir/b\"); seen(\"renamed\")\n"
	    "os.unlink(\"dir/c\"); seen(\"removed\"); os.mkdir(\"dir/sub\"); seen(\"directory\"); os.rmdir(\"dir/sub\"); seen(\"gone\")\n'" },
	{ "own Unix sockets", "/usr/bin/python3", "mkdir run; echo x >file",
	    PYTHON "import os, socket, stat\n"
	    "s = socket.socket(socket.AF_UNIX); s.bind(\"run/s\"); s.listen()\n"
	    "c = socket.socket(socket.AF_UNIX); c.connect(\"run/s\"); a, _ = s.accept()\n"
	    "socket.send_fds(c, [b\"fd\"], [os.open(\"file\", os.O_RDONLY)])\n"
	    "data, fds, _, _ = socket.recv_fds(a, 16, 1); print(data, os.read(fds[0], 16), stat.S_ISSOCK(os.stat(\"run/s\").st_mode))\n"
	    "d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.bind(\"run/d\")\n"
	    "e = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); e.connect(\"run/d\"); e.send(b\"hello\"); print(d.recv(16))\n"
	    "os.rename(\"run/s\", \"run/t\"); f = socket.socket(socket.AF_UNIX); f.connect(\"run/t\"); os.unlink(\"run/t\")\n"
	    "try: socket.socket(socket.AF_UNIX).connect(\"run/t\")\n"
	    "except OSError as x: print(x)\n'; rm run/d" },
	{ "mmap", "/usr/bin/python3", "head -c 100000 /dev/zero | tr '\\0' a >file",
	    PYTHON "import mmap, os\n"
	    "fd = os.open(\"file\", os.O_RDWR); m = mmap.mmap(fd, 0); m[50000:50005] = b\"hello\"; m.flush()\n"
	    "print(os.pread(fd, 5, 50000), open(\"file\", \"rb\").read()[49999:50006])\n"
	    "os.pwrite(fd, b\"written\", 10); print(m[10:17]); n = mmap.mmap(os.open(\"file\", os.O_RDONLY), 0, prot=mmap.PROT_READ)\n"
	    "m[0:1] = b\"Z\"; print(n[0:1]); p = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE); p[0:1] = b\"Y\"; print(n[0:1], p[0:1])\n"
	    "os.ftruncate(fd, 200000); m.resize(200000); m[199999:200000] = b\"!\"; print(os.path.getsize(\"file\"), n.size())\n'" },
	{ "locks", "flock", "echo x >file; mkdir dir",
	    "flock -n file sh -c 'flock -n file true; echo $?; flock -n -s file true; echo $?; flock -n dir true; echo $?'; flock -s file flock -n -s file echo shared;"
	    " echo y >>file; flock -n file echo again; " PYTHON "import fcntl, os\n"
	    "f = open(\"file\", \"r+\"); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)\n"
	    "if os.fork() == 0:\n"
	    "    g = open(\"file\", \"r+\")\n"
	    "    for at in (0, 100):\n"
	    "        try: fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, at); print(at, \"locked\", flush=True)\n"
	    "        except OSError as e: print(at, e, flush=True)\n"
	    "    os._exit(0)\n"
	    "os.wait()\n'" },
	{ "files", "patch", "mkdir -p d/e; for i in 1 2 3 4; do seq $i 30 >d/$i; done; ln -s 1 d/link; seq 1 30 | sed 's/^7$/seven/' >new;"
	    " cd d; cp 1 old; diff -u 1 ../new | sed 's/\\t.*//' >../p; rm old",
	    "patch -s -p0 d/1 p; sed -i 's/5/five/' d/2; mv d/3 d/e/three; cp -a d copy; ln d/4 d/hard; chmod 600 d/4; rm -r d/e; install -m 755 new tool;"
	    " touch -d '2020-01-01 UTC' d/2; ln -sfn 2 d/link; truncate -s 10 d/hard; tar cf a.tar copy; rm -r copy; tar xf a.tar; rm a.tar;"
	    " stat -c '%n %a %h %s' d/2 d/4 d/hard tool; stat -c %Y d/2; cat d/link | head -3; mkdir -p x/y/z; mv x w; rmdir -p w/y/z; ls -R;"
	    " find . -newer d/2 -type f | LC_ALL=C sort; sort -o d/1 -r d/1; split -l 10 d/1 part; cat part*; dd if=d/1 of=d/2 conv=notrunc status=none; cmp d/1 d/2" },
	{ "perl", "perl", "seq 1 20 >a; seq 1 20 >b",
	    "perl -pi -e 's/1/one/' a; perl -pi.bak -e 's/2/two/' b; perl -e 'rename(\"a\", \"c\") or print \"$!\"; open(F, \"+<\", \"c\"); seek(F, 3, 0); print F \"X\";"
	    " close(F); opendir(D, \".\"); print join(\" \", sort readdir(D)), \"\\n\"; print -s \"c\", \"\\n\"'; cat c" },
};
/* clang-format on */

/* Status, output and errors of a command, and the files after it. */
static char *
all_of(struct koda_slot *slot, const char *shell)
{
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;
	char *text;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	assert_int_equal(r.out.left_out, 0);
	assert_int_equal(r.hit, KODA_HIT_NONE);
	assert_true(asprintf(&text, "%d\n%.*s%.*s%s", r.status, (int)r.out.head_len, r.out.head,
			(int)r.err.head_len, r.err.head, draft_out(slot, TREE)) > 0);
	koda_command_result_done(&r);
	return text;
}

static void
works(void **state)
{
	const struct tool *row = *state;
	cleanup_free char *prepare = NULL, *before = NULL, *draft = NULL, *direct = NULL,
			  *after = NULL;
	struct koda_slot *slot;
	struct fixture f;
	char has[256];
	size_t at;

	snprintf(has, sizeof(has), "command -v %s >/dev/null", row->program);
	if (system(has) != 0) {
		snprintf(has, sizeof(has), "%s is not installed", row->program);
		skip_because(has);
	}
	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	assert_true(asprintf(&prepare, "cd \"$1\" && { %s; }", row->prepare) > 0);
	process_shell(prepare, f.root, NULL, NULL);
	fixture_open(&f);
	slot = fixture_acquire(&f);
	before = all_of(slot, "true");
	draft = all_of(draft_open_slot(&f, NULL), row->run);
	after = all_of(slot, "true");
	assert_string_equal(before, after);
	direct = all_of(slot, row->run);
	for (at = 0; draft[at] == direct[at] && draft[at] != '\0';)
		at++;
	if (draft[at] != direct[at])
		fail_msg("%.*s\nin a draft goes on:\n%.300s\nin the project:\n%.300s",
		    at > 200 ? 200 : (int)at, draft + at - (at > 200 ? 200 : at), draft + at,
		    direct + at);
	fixture_end(&f);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(rows)];

	for (size_t i = 0; i < N_ELEMENTS(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, works, NULL, NULL,
			(void *)(uintptr_t)&rows[i] };
	return cmocka_run_group_tests_name("draft_tools", tests, NULL, NULL);
}
