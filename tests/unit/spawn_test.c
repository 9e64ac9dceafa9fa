/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/wire/spawn.c: what a helper finds when it starts, and what is known when it is gone.
 * Shell scripts stand in for helpers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/wire/spawn.h"

static char dir[PATH_MAX - 64];

static const char *
script(const char *text)
{
	static char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/helper", dir);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "#!/bin/bash\n%s\n", text), (int)strlen(text) + 13);
	close(fd);
	return path;
}

/* Starts the script, and reads all that it writes to its descriptor 3. */
static void
say(const char *text, char *ret, size_t size, struct child *c)
{
	struct koda_error err;
	size_t len = 0;
	ssize_t n;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	if (spawn_helper(script(text), pair[1], c, &err) < 0)
		fail_msg("%s", err.message);
	close(pair[1]);
	while (len < size - 1 && (n = read(pair[0], ret + len, size - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = '\0';
	close(pair[0]);
	assert_true(child_gone(c, 10000));
}

static void
expect(const char *text, const char *want)
{
	char got[4096];
	struct child c;

	say(text, got, sizeof(got), &c);
	assert_string_equal(got, want);
	assert_int_equal(c.code, CLD_EXITED);
	assert_int_equal(c.status, 0);
}

static void
its_descriptors(void **state)
{
	/* Not close-on-exec, as if the embedder forgot it. 255 is bash's own, for the script. */
	int forgotten = open("/dev/zero", O_RDONLY), high = fcntl(forgotten, F_DUPFD, 300);

	assert_true(forgotten >= 0 && high >= 300);
	expect(
	    "for f in /proc/self/fd/*; do n=${f##*/}; [ -e $f ] && [ $n != 255 ] && all+=\"$n \"; done; echo -n \"$all\" >&3",
	    "0 1 2 3 ");
	expect("readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 >&3",
	    "/dev/null\n/dev/null\n/dev/null\n");
	close(forgotten);
	close(high);
}

/* The numbers that the child needs are in use here, or are the very descriptor that is passed
 * on. */
static void
whatever_the_number(void **state)
{
	char got[16] = "";
	struct koda_error err;
	struct child c;
	int pair[2], moved;

	for (int number = 3; number < 6; number++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		moved = fcntl(pair[1], F_DUPFD_CLOEXEC, 50);
		assert_true(moved >= 0);
		close(pair[1]);
		if (fcntl(number, F_GETFD) < 0) {
			assert_int_equal(dup3(moved, number, O_CLOEXEC), number);
			close(moved);
			moved = number;
		}
		assert_int_equal(spawn_helper(script("echo -n here >&3"), moved, &c, &err), 0);
		/* The caller keeps its descriptor. */
		assert_true(fcntl(moved, F_GETFD) >= 0);
		close(moved);
		assert_int_equal(read(pair[0], got, sizeof(got) - 1), 4);
		assert_string_equal(got, "here");
		close(pair[0]);
		assert_true(child_gone(&c, 10000));
	}
}

static void
its_environment(void **state)
{
	assert_int_equal(setenv("KODA_TEST_LEAK", "x", 1), 0);
	expect("echo \"${KODA_TEST_LEAK-none}\" >&3", "none\n");
	expect("tr '\\0' '\\n' </proc/$$/environ >&3", "");
	unsetenv("KODA_TEST_LEAK");
}

static void
its_signals(void **state)
{
	sigset_t all, old;

	sigfillset(&all);
	assert_int_equal(sigprocmask(SIG_BLOCK, &all, &old), 0);
	expect("while read k v; do [ $k = SigBlk: ] && echo $v >&3; done </proc/$$/status; exit 0",
	    "0000000000000000\n");
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

static void
its_session(void **state)
{
	char got[64];
	struct child c;

	say("set -- $(</proc/$$/stat); echo $1 $5 $6 >&3", got, sizeof(got), &c);
	char want[64];

	snprintf(want, sizeof(want), "%d %d %d\n", (int)c.pid, (int)c.pid, (int)c.pid);
	assert_string_equal(got, want);
}

static void
its_end(void **state)
{
	static const struct {
		const char *text, *says;
	} ends[] = {
		{ "exit 0", "exited with 0" },
		{ "exit 7", "exited with 7" },
		{ "kill -KILL $$", "killed by SIGKILL" },
		{ "kill -SYS $$", "killed by SIGSYS" },
		{ "kill -40 $$", "killed by signal 40" },
	};
	char got[16], how[64];
	struct child c;

	for (size_t i = 0; i < N_ELEMENTS(ends); i++) {
		say(ends[i].text, got, sizeof(got), &c);
		assert_string_equal(child_end(&c, how, sizeof(how)), ends[i].says);
		assert_int_equal(c.pidfd, -1);
		/* No zombie is left. */
		assert_int_equal(waitpid(c.pid, NULL, WNOHANG), -1);
		/* Asking again is not an error. */
		assert_true(child_gone(&c, 0));
		child_kill(&c);
	}
}

static void
killed(void **state)
{
	struct koda_error err;
	struct child c;
	char how[64];

	assert_int_equal(spawn_helper(script("sleep 100"), 0, &c, &err), 0);
	assert_false(child_gone(&c, 0));
	assert_false(child_gone(&c, 20));
	child_kill(&c);
	assert_true(child_gone(&c, 10000));
	assert_string_equal(child_end(&c, how, sizeof(how)), "killed by SIGKILL");
}

static void
reaped_by_somebody_else(void **state)
{
	struct koda_error err;
	struct child c;
	char how[64];

	assert_int_equal(spawn_helper(script("exit 3"), 0, &c, &err), 0);
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
	assert_true(child_gone(&c, 10000));
	assert_string_equal(child_end(&c, how, sizeof(how)), "gone");
}

static void
cannot_start(void **state)
{
	int before = dup(0), after;
	struct koda_error err;
	struct child c;

	close(before);
	assert_int_equal(spawn_helper("/nonexistent/helper", 0, &c, &err), -1);
	assert_int_equal(err.code, KODA_UNSUPPORTED);
	assert_int_equal(err.errnum, ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent/helper"));
	assert_int_equal(spawn_helper(dir, 0, &c, &err), -1);
	assert_int_equal(err.errnum, EACCES);
	after = dup(0);
	assert_int_equal(after, before);
	close(after);
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/spawn.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	return mkdtemp(dir) == NULL ? -1 : 0;
}

static int
tear_down(void **state)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/helper", dir);
	unlink(path);
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_descriptors),
		cmocka_unit_test(whatever_the_number),
		cmocka_unit_test(its_environment),
		cmocka_unit_test(its_signals),
		cmocka_unit_test(its_session),
		cmocka_unit_test(its_end),
		cmocka_unit_test(killed),
		cmocka_unit_test(reaped_by_somebody_else),
		cmocka_unit_test(cannot_start),
	};

	return cmocka_run_group_tests_name("spawn", tests, set_up, tear_down);
}
