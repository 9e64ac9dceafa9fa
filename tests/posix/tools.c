/* SPDX-License-Identifier: Apache-2.0 */
/* What people run: a script each, whose output and status are the result. Each begins with what its
 * preparation script has made, outside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/posix/ops.h"

#define REPOSITORY                                                                                 \
	"git init -q -b main . && mkdir dir && echo a >a && echo b >dir/b && echo c >dir/c &&"     \
	" git add . && git commit -qm first && echo more >>a && git commit -qam second"

static const struct tool {
	const char *name, *prepare, *run;
} tools[] = {
	{ "git/init", "true",
	    "git init -q -b main new; cd new && echo x >x && git add x && git commit -qm x && git log --oneline | wc -l" },
	{ "git/status", REPOSITORY, "echo n >n; rm dir/b; echo + >>a; git status --porcelain" },
	{ "git/add and commit", REPOSITORY,
	    "echo n >n; git add n; git commit -qm third; git rm -q dir/b; git commit -qm fourth; git log --format=%s; git status --short" },
	{ "git/mv of a file", REPOSITORY,
	    "git mv a z && git commit -qm moved && ls && git status --short" },
	{ "git/mv of a directory", REPOSITORY, "git mv dir other; ls; git status --short" },
	{ "git/mv of a new directory", REPOSITORY,
	    "mkdir new; echo n >new/n; git add new; git mv new newer && git status --short" },
	{ "git/gc", REPOSITORY,
	    "git gc -q --prune=now && git fsck && git log --oneline | wc -l; find .git/objects -name '*.pack' | wc -l" },
	{ "git/repack", REPOSITORY,
	    "git gc -q; echo n >n; git add n; git commit -qm third; git repack -adq; git fsck; git log --format=%s" },
	{ "git/branch and merge", REPOSITORY,
	    "git checkout -q -b side; echo s >s; git add s; git commit -qm side; git checkout -q main; echo m >m; git add m; git commit -qm main;"
	    " git merge -q --no-edit side; ls; git log --format=%s | sort; git branch" },
	{ "git/rebase", REPOSITORY,
	    "git checkout -q -b side HEAD~1; echo s >s; git add s; git commit -qm side; git rebase -q main; git log --format=%s; cat a" },
	{ "git/rebase with a conflict", REPOSITORY,
	    "git checkout -q -b side HEAD~1; echo other >>a; git commit -qam side; git rebase -q main >/dev/null 2>&1; echo $?; git status --short;"
	    " git rebase --abort; cat a" },
	{ "git/stash", REPOSITORY,
	    "echo + >>a; echo n >n; git stash -qu; cat a; ls; git stash pop -q; cat a; ls" },
	{ "git/checkout removes directories", REPOSITORY,
	    "git rm -qr dir; git commit -qm gone; ls; git checkout -q HEAD~1; ls dir; git checkout -q main; ls" },
	{ "git/reset and clean", REPOSITORY,
	    "mkdir junk; echo j >junk/j; echo + >>a; rm -r dir; git reset -q --hard; git clean -fdq; ls; git status --short" },
	{ "git/tag and describe", REPOSITORY,
	    "git tag v1 HEAD~1; git pack-refs --all; git describe" },
	{ "git/clone", REPOSITORY,
	    "git clone -q --no-hardlinks . ../$(basename $PWD).clone; cd ../$(basename $PWD).clone && git log --format=%s && ls" },
	{ "git/clone with hard links", REPOSITORY,
	    "git clone -q . ../$(basename $PWD).clone; cd ../$(basename $PWD).clone && git log --format=%s && ls" },
	{ "git/worktree", REPOSITORY,
	    "git worktree add -q wt -b wt 2>&1; ls wt; cd wt && echo w >w && git add w && git commit -qm w; cd ..; git worktree remove wt; ls; git branch --format='%(refname:short)'" },
	{ "git/bisect", REPOSITORY,
	    "git bisect start -q HEAD HEAD~1 >/dev/null; git bisect run true >/dev/null; echo $?; git bisect reset -q; git status --short" },
	{ "git/apply", REPOSITORY,
	    "echo + >>a; echo n >n; git add -N n; git diff >p; git checkout -q a; rm n; git apply p; cat a n" },
	{ "git/submodule directory is renamed", REPOSITORY,
	    "git checkout -q -b d; git mv dir/b dir/b2; git commit -qm m; git checkout -q main; ls dir" },
	{ "tar/create and extract", REPOSITORY,
	    "tar cf t.tar a dir .git; mkdir out; tar xf t.tar -C out; diff -r a out/a && diff -r dir out/dir && echo equal; tar df t.tar && echo same" },
	{ "tar/over what is there", REPOSITORY,
	    "tar cf t.tar dir; echo changed >dir/b; rm dir/c; tar xf t.tar; cat dir/b dir/c" },
	{ "cp/tree", REPOSITORY,
	    "cp -a . ../$(basename $PWD).copy; diff -r . ../$(basename $PWD).copy && echo equal" },
	{ "cp/links", "echo 1 >a; ln a b; ln -s a c",
	    "cp -a . ../$(basename $PWD).copy; cd ../$(basename $PWD).copy; cat a b; readlink c; [ a -ef b ] && echo linked" },
	{ "mv/file", REPOSITORY, "mv a z; mv z dir/; cat dir/z" },
	{ "mv/directory", REPOSITORY, "mv dir other; ls other; ls" },
	{ "mv/directory into a directory", REPOSITORY, "mkdir in; mv dir in/; ls in/dir" },
	{ "mv/directory with links",
	    "mkdir d; echo 1 >d/a; ln d/a d/b; ln -s a d/c; touch -d @1000 d/a",
	    "mv d e; cat e/b; readlink e/c; stat -c %Y e/a; [ e/a -ef e/b ] && echo linked" },
	{ "mv/keeps attributes",
	    "mkdir d; echo 1 >d/a; chmod 640 d/a; touch -d @1000 d/a d; chmod 750 d",
	    "mv d e; stat -c '%a %Y' e e/a" },
	{ "rm/tree", REPOSITORY, "rm -rf dir; ls; mkdir dir; ls -A dir; rmdir dir; ls" },
	{ "rm/repository", REPOSITORY, "rm -rf .git 2>/dev/null; [ -e .git ] && echo kept" },
	{ "rm/again and again", "mkdir d; echo 1 >d/a",
	    "for i in 1 2 3 4 5; do rm -r d; mkdir d; echo $i >d/a; done; cat d/*; rm -r d; ls" },
	{ "find/delete", "mkdir -p d/e/f; for i in $(seq 100); do echo $i >d/e/$i; done",
	    "find d -type f -delete; find d; find d -delete; ls" },
	{ "find/by time and type", REPOSITORY,
	    "touch -d @1000 old; touch new; find . -path ./.git -prune -o -newer old -type f -print | sort" },
	{ "sed/in place", "printf 'a\\nb\\n' >f; chmod 600 f",
	    "sed -i s/a/A/ f; cat f; stat -c %a f" },
	{ "patch", "printf 'a\\nb\\n' >f",
	    "cp f g; echo c >>g; diff -u f g >p; patch -s f p; cat f; patch -sR f p; cat f" },
	{ "install and ln", "echo 1 >f",
	    "install -m 640 f g; stat -c %a g; ln -sf g l; ln -sfn f l; readlink l; ln f h; stat -c %h f" },
	{ "sort/over itself", "printf 'b\\na\\n' >f", "sort -o f f; cat f" },
	{ "dd/in the middle", "printf 0123456789 >f",
	    "printf X | dd of=f bs=1 seek=5 conv=notrunc status=none; cat f" },
	{ "flock/command", "true >f", "flock f -c 'flock -n f true; echo $?'" },
	{ "mktemp", "true", "f=$(mktemp -p .); echo x >$f; cat $f; mv $f g; ls" },
	{ "touch/make",
	    "printf 'out: in\\n\\tcp in out\\n\\techo made\\n' >Makefile; echo 1 >in; cp in out; touch -d @2000 out; touch -d @1000 in",
	    "make -s; touch in; make -s; make -s; cat out" },
	{ "make/build",
	    "printf 'prog: main.o part.o\\n\\t$(CC) -o $@ $^\\n%%.o: %%.c\\n\\t$(CC) -c -o $@ $<\\n' >Makefile;"
	    "echo 'int part(void); int main(void) { return part(); }' >main.c; echo 'int part(void) { return 7; }' >part.c",
	    "make -s && ./prog; echo $?; sed -i s/7/8/ part.c; make -s && ./prog; echo $?; make -s -q; echo $?" },
	{ "ar and strip", "echo 'int part(void) { return 7; }' >part.c",
	    "cc -c part.c && ar rcs lib.a part.o && ar rcs lib.a part.o && ar t lib.a && strip -g part.o && echo ok" },
	{ "sqlite",
	    "python3 -c 'import sqlite3; c = sqlite3.connect(\"db\"); c.execute(\"create table t (a)\"); c.execute(\"insert into t values (1)\"); c.commit()'",
	    "python3 -c 'import sqlite3\nc = sqlite3.connect(\"db\")\nd = sqlite3.connect(\"db\")\nc.execute(\"insert into t values (2)\")\nc.commit()\n"
	    "print(d.execute(\"select sum(a) from t\").fetchone())\nc.execute(\"pragma journal_mode=wal\")\nc.execute(\"insert into t values (3)\")\nc.commit()\n"
	    "print(d.execute(\"select sum(a) from t\").fetchone())\nc.execute(\"vacuum\")\nprint(c.execute(\"pragma integrity_check\").fetchone())'" },
	{ "sqlite/readers stay",
	    "python3 -c 'import sqlite3; c = sqlite3.connect(\"db\"); c.execute(\"create table t (a)\"); c.commit()'",
	    "python3 -c 'import sqlite3\nd = sqlite3.connect(\"db\")\nprint(d.execute(\"select count(*) from t\").fetchone())\nc = sqlite3.connect(\"db\")\n"
	    "c.execute(\"insert into t values (2)\")\nc.commit()\nprint(d.execute(\"select count(*) from t\").fetchone())'" },
	{ "python/packages",
	    "mkdir pkg; echo 'A = 1' >pkg/__init__.py; echo 'from pkg import A; B = A + 1' >pkg/m.py",
	    "python3 -c 'import pkg.m; print(pkg.m.B)'; ls pkg/__pycache__ | wc -l; sed -i s/1/10/ pkg/__init__.py; python3 -c 'import pkg.m; print(pkg.m.B)'" },
	{ "python/shutil", REPOSITORY,
	    "python3 -c 'import shutil; shutil.move(\"dir\", \"other\"); shutil.copytree(\"other\", \"third\"); shutil.rmtree(\"other\")'; ls third; ls" },
	{ "python/os.replace of a directory", "mkdir d; echo 1 >d/a",
	    "python3 -c 'import os\ntry:\n os.replace(\"d\", \"e\"); print(\"ok\")\nexcept OSError as e:\n print(e.strerror)'; ls" },
	{ "python/atomic write", "echo 1 >f",
	    "python3 -c 'import os, tempfile\nfd, n = tempfile.mkstemp(dir=\".\")\nos.write(fd, b\"2\\n\"); os.fsync(fd); os.close(fd); os.replace(n, \"f\")\n"
	    "d = os.open(\".\", os.O_RDONLY); os.fsync(d)'; cat f; ls" },
	{ "packages/install",
	    "mkdir -p node_modules/a/lib node_modules/.bin; echo '{\"name\":\"a\",\"version\":\"1\"}' >node_modules/a/package.json; echo 1 >node_modules/a/lib/i.js;"
	    "ln -s ../a/lib/i.js node_modules/.bin/a",
	    "mkdir -p node_modules/.a-new/lib; echo '{\"name\":\"a\",\"version\":\"2\"}' >node_modules/.a-new/package.json; rm -r node_modules/a; mv node_modules/.a-new node_modules/a;"
	    " mkdir -p node_modules/b; ln -s ../b node_modules/.bin/b; cat node_modules/a/package.json; ls node_modules node_modules/a" },
	{ "packages/rename away", "mkdir -p node_modules/a; echo 1 >node_modules/a/i.js",
	    "python3 -c 'import os\ntry:\n os.rename(\"node_modules/a\", \"node_modules/.a-old\"); print(\"ok\")\nexcept OSError as e:\n print(e.strerror)'; ls -A node_modules" },
	{ "zip", "mkdir d; echo 1 >d/a",
	    "python3 -m zipfile -c z.zip d && rm -r d && python3 -m zipfile -e z.zip . && cat d/a" },
	{ "shell/redirections", "echo 1 >f",
	    "exec 3>>f; echo 2 >&3; cat f; exec 3<>f; read x <&3; echo $x; : >f; wc -c <f; set -C; echo 3 2>/dev/null >f || echo kept" },
	{ "shell/find a new program",
	    "mkdir bin; printf '#!/bin/sh\\necho old\\n' >bin/p; chmod +x bin/p",
	    "PATH=$PWD/bin:$PATH; p; printf '#!/bin/sh\\necho new\\n' >bin/p; p; rm bin/p; p 2>/dev/null || echo none" },
};

#define N_TOOLS (sizeof(tools) / sizeof(tools[0]))

static const char environment[] =
    "export HOME=/nowhere GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a"
    " GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a LC_ALL=C"
    " GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z';\n";

static int
shell(const char *script, char *out, size_t size)
{
	char text[4096];
	size_t n;
	FILE *p;

	snprintf(text, sizeof(text), "exec 2>&1\n%s%s", environment, script);
	p = popen(text, "r");
	if (p == NULL)
		must(-1);
	n = fread(out, 1, size - 1, p);
	out[n] = '\0';
	return WEXITSTATUS(pclose(p));
}

static void
run_tool(int n)
{
	char out[2048];
	int status = shell(tools[n].run, out, sizeof(out));

	for (char *p = out; *p != '\0'; p++)
		if (*p == '\n')
			*p = '$';
	say("%d %s", status, out);
}

/* The preparation is found by the number of the directory that it runs in. */
static int next_to_prepare;

static void
prepare_tool(void)
{
	char out[2048];

	if (shell(tools[next_to_prepare].prepare, out, sizeof(out)) != 0)
		say("%s: %s", tools[next_to_prepare].name, out);
	next_to_prepare++;
}

void
add_tool_ops(void)
{
	char name[128];

	for (size_t i = 0; i < N_TOOLS; i++) {
		snprintf(name, sizeof(name), "tool/%s", tools[i].name);
		add_op(&(struct op){ .name = name,
		    .prepare = prepare_tool,
		    .run_of = run_tool,
		    .n = (int)i });
	}
}
