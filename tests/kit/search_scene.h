/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `koda-sandbox search` and ripgrep in the same tree (tests/integration/search_cli_test.c).
 */
#ifndef KODA_TESTS_KIT_SEARCH_SCENE_H
#define KODA_TESTS_KIT_SEARCH_SCENE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shared/base/cleanup.h"

#define WORDS_MAX    10
#define HANG_SECONDS 60 /* a program that hangs fails its test, not the whole suite */

static char prefix[PATH_MAX];  /* the installed tree */
static char program[PATH_MAX]; /* inside `prefix` */
static char project[PATH_MAX];
static char home[PATH_MAX];

/* ---- running the program ---- */

enum output {
	TO_FILE = 0,
	TO_TERMINAL,
};

struct run {
	enum output output;
	const char *cwd; /* NULL: the project */
	int status;      /* -signal if it was killed */
	char *out, *err;
	size_t out_len;
};

static char *
content_of(int fd, size_t *ret_len)
{
	struct stat st;
	char *data;

	assert_int_equal(fstat(fd, &st), 0);
	data = calloc((size_t)st.st_size + 1, 1);
	assert_non_null(data);
	assert_int_equal(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
	*ret_len = (size_t)st.st_size;
	close(fd);
	return data;
}

/* What a program has written to a terminal may arrive after the program has ended, and may be
 * lost if no process has the terminal open any more. So the test keeps it open, and writes this
 * mark after the program has ended: once the mark is read, all output has come. */
#define END_OF_OUTPUT "\1end of output\1"

static bool
has_ended(const char *data, size_t len)
{
	const size_t n = strlen(END_OF_OUTPUT);

	return len >= n && memcmp(data + len - n, END_OF_OUTPUT, n) == 0;
}

static char *
drain_terminal(int master, int slave, pid_t pid, size_t *ret_len)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	char *data = NULL;
	size_t len = 0;

	assert_true(pidfd >= 0);
	do {
		struct pollfd fds[] = {
			{ .fd = master, .events = POLLIN },
			{ .fd = pidfd, .events = POLLIN },
		};
		ssize_t n;

		assert_true(poll(fds, N_ELEMENTS(fds), HANG_SECONDS * 1000) > 0);
		if (fds[1].revents != 0) {
			assert_true(dprintf(slave, END_OF_OUTPUT) > 0);
			close(pidfd);
			pidfd = -1;
		}
		if (fds[0].revents == 0)
			continue;
		data = realloc(data, len + 4096 + 1);
		assert_non_null(data);
		n = read(master, data + len, 4096);
		assert_true(n > 0);
		len += (size_t)n;
	} while (pidfd >= 0 || !has_ended(data, len));
	*ret_len = len - strlen(END_OF_OUTPUT);
	data[*ret_len] = '\0';
	close(master);
	return data;
}

/* Open a terminal that passes every byte unchanged. Returns the master; the caller closes both. */
static int
open_terminal(int *ret_slave)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios raw;
	char name[64];

	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
	*ret_slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(*ret_slave >= 0);
	assert_int_equal(tcgetattr(*ret_slave, &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(*ret_slave, TCSANOW, &raw), 0);
	return master;
}

/* Start a program in a session of its own, without the user's settings of terminal, home and rg. */
static pid_t
start(const char *cwd, const char *const *argv, int out, int err)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	setsid();
	if (dup2(open("/dev/null", O_RDONLY), 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
	    chdir(cwd != NULL ? cwd : project) < 0)
		_exit(126);
	setenv("TERM", "xterm", 1);
	setenv("HOME", home, 1);
	unsetenv("NO_COLOR");
	unsetenv("RIPGREP_CONFIG_PATH");
	signal(SIGPIPE, SIG_DFL);
	alarm(HANG_SECONDS);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static int
status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void
run_v(struct run *r, const char *const *argv)
{
	int err = memfd_create("err", MFD_CLOEXEC), master = -1, out;
	size_t len;
	pid_t pid;

	if (r->output == TO_TERMINAL)
		master = open_terminal(&out);
	else
		out = memfd_create("out", MFD_CLOEXEC);
	assert_true(out >= 0 && err >= 0);
	pid = start(r->cwd, argv, out, err);
	if (master >= 0) {
		r->out = drain_terminal(master, out, pid, &r->out_len);
		close(out);
	}
	r->status = status_of(pid);
	if (master < 0)
		r->out = content_of(out, &r->out_len);
	r->err = content_of(err, &len);
}

static void
run_done(struct run *r)
{
	free(r->out);
	free(r->err);
}

/* run(&r, "grep", "foo", NULL) */
static void
run(struct run *r, ...)
{
	const char *argv[WORDS_MAX + 4] = { program, "fs" };
	size_t n = 2;
	va_list ap;

	va_start(ap, r);
	do {
		assert_true(n < N_ELEMENTS(argv));
		argv[n] = va_arg(ap, const char *);
	} while (argv[n++] != NULL);
	va_end(ap);
	run_v(r, argv);
}

/* Run a script with the arguments as $1, $2, $3. */
static void
shell(const char *script, const char *one, const char *two, const char *three)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-euc", script, "sh", one, two, three, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(status_of(pid), 0);
}

static void
ended(const struct run *r, int status)
{
	if (r->status != status)
		fail_msg("status %d instead of %d, saying: %s", r->status, status, r->err);
}

static void
printed(const struct run *r, const char *what)
{
	if (strcmp(r->out, what) != 0)
		fail_msg("printed: %s\nand said: %s", r->out, r->err);
}

static void
said(const struct run *r, const char *what)
{
	if (strstr(r->err, what) == NULL)
		fail_msg("expected '%s' in: %s", what, r->err);
}

/* ---- the tree ---- */

static const char fixture[] =
    "cd \"$1\"\n"
    "mkdir -p .git/info sub/deep sub/other build .hid\n"
    "printf 'ref: refs/heads/main\\n' >.git/HEAD\n"
    "printf 'excluded.txt\\n' >.git/info/exclude\n"
    "printf 'build/\\n*.log\\n!keep.log\\n' >.gitignore\n"
    "printf '/*.tmp\\n' >sub/other/.gitignore\n"
    "printf 'dotignored.txt\\n' >.ignore\n"
    "printf 'foo\\nbar\\nfoo bar foo\\nbaz\\n\\nqux foo' >a.txt\n"
    "printf '#include <stdio.h>\\n\\nint main(void)\\n{\\n\\tputs(\"foo\");\\n\\treturn 0;\\n}\\n' >b.c\n"
    "printf 'int foo(void);\\nint Foo(void);\\nint food(void);\\n' >b.h\n"
    "printf 'import os\\n\\ndef foo():\\n    return os.getcwd()\\n' >sub/x.py\n"
    "printf 'one\\ntwo foo\\nbar three\\nfour\\nfoo\\nbar\\n' >sub/m.txt\n"
    "printf 'deep foo\\n' >sub/deep/d.txt\n"
    "printf 'foo here\\n' >sub/other/o.tmp\n"
    "printf 'FOO there\\nfOo\\n' >sub/other/O.TXT\n"
    "printf 'x\\nfoo\\nfoo\\000bar\\n' >bin.dat\n"
    "printf 'foo\\r\\nbar\\r\\nx foo\\r\\n' >crlf.txt\n"
    "printf '\\377\\376f\\000o\\000o\\000\\n\\000b\\000\\n\\000' >utf16.txt\n"
    "printf 'gr\\374n foo \\377\\n' >latin1.txt\n"
    "printf 'gr\\303\\274n foo \\342\\202\\254\\n' >utf8.txt\n"
    "printf 'foo in a name\\n' >'sp ace.txt'\n"
    ": >empty.txt\n"
    "printf '\\n\\n\\n' >newlines.txt\n"
    "printf 'foo %0300d foo\\nfoo\\n' 0 >long.txt\n"
    "printf 'foofoo foo\\nfoo.bar\\n.foo-foo\\na.b\\naxb\\n' >words.txt\n"
    "printf 'foo\\n' >build/out.txt\n"
    "printf 'foo\\n' >err.log\n"
    "printf 'foo\\n' >keep.log\n"
    "printf 'foo\\n' >dotignored.txt\n"
    "printf 'foo\\n' >excluded.txt\n"
    "printf 'foo\\n' >.hidden.txt\n"
    "printf 'foo\\n' >.hid/f.txt\n"
    "ln -s a.txt link.txt\n"
    "ln -s sub linkdir\n";

#endif
