/* SPDX-License-Identifier: Apache-2.0 */
/* Commands through the library: the real bwrap, stage2 and worker. */
#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "host/sandbox/orphan.h"
#include "tests/kit/hosting.h"

static void
start_with(struct fixture *f, enum koda_mode mode, const struct koda_policy *policy)
{
	fixture_prepare(f, mode);
	f->options.commands = true;
	f->options.policy = policy;
	fixture_open(f);
	f->slot = fixture_acquire(f);
}

static void
run_options(struct fixture *f, const struct koda_command_options *o,
    struct koda_command_result *ret)
{
	struct koda_error err;

	if (koda_run(f->slot, o, ret, &err) < 0)
		fail_msg("%s: %s", o->shell != NULL ? o->shell : o->argv[0], err.message);
}

static void
run_shell(struct fixture *f, const char *shell, struct koda_command_result *ret)
{
	const struct koda_command_options o = { .shell = shell };

	run_options(f, &o, ret);
}

static void
expect(struct fixture *f, const char *shell, int status, const char *out)
{
	struct koda_command_result r;

	run_shell(f, shell, &r);
	if (r.status != status ||
	    (out != NULL &&
		(r.out.head_len != strlen(out) || memcmp(r.out.head, out, r.out.head_len) != 0)))
		fail_msg("%s: status %d, out '%.*s', err '%.*s'", shell, r.status,
		    (int)r.out.head_len, r.out.head == NULL ? "" : r.out.head, (int)r.err.head_len,
		    r.err.head == NULL ? "" : r.err.head);
	koda_command_result_done(&r);
}

static void
statuses(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	expect(&f, "true", 0, "");
	expect(&f, "exit 7", 7, "");
	expect(&f, "kill -9 $$", 137, NULL);
	expect(&f, "echo out; echo err >&2", 0, "out\n");
	expect(&f, "cat", 0, "");
	expect(&f, "pwd", 0, NULL);
	run_shell(&f, "echo out; echo err >&2; exit 3", &r);
	assert_int_equal(r.status, 3);
	assert_int_equal(r.signal, 0);
	assert_int_equal(r.err.head_len, 4);
	assert_memory_equal(r.err.head, "err\n", 4);
	assert_true(r.wall_us > 0);
	koda_command_result_done(&r);
	fixture_end(&f);
}

static void
not_run(void **state)
{
	static const struct {
		const char *argv[3];
		int errnum;
	} rows[] = {
		{ { "no-such-program" }, ENOENT },
		{ { "/no/such/program" }, ENOENT },
		{ { "/etc/passwd" }, EACCES },
		{ { "/tmp" }, EACCES },
	};
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		const struct koda_command_options o = { .argv = rows[i].argv };

		assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
		assert_code(&err, KODA_IO);
		assert_int_equal(err.errnum, rows[i].errnum);
	}
	{
		const char *argv[] = { "true", NULL };
		const struct koda_command_options o = { .argv = argv, .cwd = "/no/such" };

		assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
		assert_code(&err, KODA_INVALID);
	}
	{
		const struct koda_command_options o = { 0 };

		assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
		assert_code(&err, KODA_INVALID);
	}
	expect(&f, "true", 0, "");
	fixture_end(&f);
}

/* All commands of a slot and its worker share one view of the project, and commands share /tmp. */
static void
one_view(void **state)
{
	struct koda_result res;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	expect(&f, "echo a > /tmp/left && echo b > here", 0, "");
	expect(&f, "cat /tmp/left here", 0, "a\nb\n");
	assert_string_equal(get_text(&f, "here"), "b\n");
	if (koda_fs_write(f.slot, "there", "c\n", 2, &res, &err) < 0)
		fail_msg("%s", err.message);
	koda_result_done(&res);
	expect(&f, "cat there", 0, "c\n");
	expect(&f, "echo x > /etc/x || exit 9", 9, NULL);
	fixture_end(&f);
}

static void
background(void **state)
{
	const struct koda_command_options server = { .shell = "sleep 1000; true",
		.background = true };
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	c = koda_command_start(f.slot, &server, NULL, NULL, &err);
	if (c == NULL)
		fail_msg("%s", err.message);
	expect(&f, "until pgrep -x sleep > /dev/null; do :; done", 0, "");
	assert_int_equal(koda_command_wait(c, 0, &err), 0);
	koda_command_end(c);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	expect(&f, "pgrep -x sleep", 1, "");
	koda_command_free(c);

	/* Freeing a running command ends it. */
	c = koda_command_start(f.slot, &server, NULL, NULL, &err);
	assert_non_null(c);
	koda_command_free(c);
	expect(&f, "while pgrep -x sleep > /dev/null; do :; done", 0, "");
	fixture_end(&f);
}

static void
leftovers(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	run_shell(&f, "(setsid sleep 1000 &) ; sleep 1000 & true", &r);
	assert_int_equal(r.status, 0);
	assert_true(r.left_behind >= 2);
	koda_command_result_done(&r);
	expect(&f, "pgrep -x sleep", 1, "");
	fixture_end(&f);
}

static void
deadline(void **state)
{
	const struct koda_command_options o = {
		.shell = "echo before; trap '' TERM; while :; do sleep 0.01; done",
		.timeout_ms = 200
	};
	struct koda_command_result r;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	run_options(&f, &o, &r);
	assert_int_equal(r.hit, KODA_HIT_WALL_TIME);
	assert_string_equal(koda_limit_hit_name(r.hit), "wall_time_secs");
	assert_int_equal(r.signal, SIGKILL);
	assert_int_equal(r.out.head_len, 7);
	koda_command_result_done(&r);
	fixture_end(&f);
}

/*
 * A background command outlives the wall time limit of foreground ones, but its own timeout
 * applies.
 */
static void
lasting(void **state)
{
	const struct koda_command_options waited_for = { .shell = "sleep 1000" },
					  server = { .shell = "sleep 2; echo still here",
						  .background = true },
					  timed = { .shell = "sleep 1000",
						  .background = true,
						  .timeout_ms = 500 };
	struct koda_policy *p;
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	assert_non_null(p = koda_policy_for_agent(KODA_AUTO, f.root, &err));
	assert_int_equal(koda_policy_set_limit(p, KODA_WALL_TIME_SECS, 1, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f.options.commands = true;
	f.options.policy = p;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	assert_non_null(c = koda_command_start(f.slot, &server, NULL, NULL, &err));
	run_options(&f, &timed, &r);
	assert_int_equal(r.hit, KODA_HIT_WALL_TIME);
	koda_command_result_done(&r);
	run_options(&f, &waited_for, &r);
	assert_int_equal(r.hit, KODA_HIT_WALL_TIME);
	koda_command_result_done(&r);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), 0);
	assert_int_equal(r.hit, KODA_HIT_NONE);
	assert_memory_equal(r.out.head, "still here\n", 11);
	koda_command_result_done(&r);
	koda_command_free(c);
	fixture_end(&f);
	koda_policy_free(p);
}

static void
flood(void **state)
{
	const struct koda_command_options o = { .shell = "yes | head -c 50000000; echo the end" };
	struct koda_command_result r;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	run_options(&f, &o, &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.hit, KODA_HIT_OUTPUT);
	assert_int_equal(r.out.total, 50000008);
	assert_int_equal(r.out.head_len + r.out.tail_len, 2u << 20);
	assert_int_equal(r.out.left_out, 50000008 - (2u << 20));
	assert_memory_equal(r.out.tail + r.out.tail_len - 8, "the end\n", 8);
	koda_command_result_done(&r);
	fixture_end(&f);
}

static void
limits(void **state)
{
	struct koda_policy *p;
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	p = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_non_null(p);
	assert_int_equal(koda_policy_set_limit(p, KODA_CPU_TIME_SECS, 1, &err), 0);
	assert_int_equal(koda_policy_set_limit(p, KODA_MAX_OPEN_FDS, 64, &err), 0);
	assert_int_equal(koda_policy_set_limit(p, KODA_MAX_FILE_BYTES, 4096, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f.options.policy = p;
	f.options.commands = true;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(&f, "ulimit -n; ulimit -c", 0, "64\n0\n");
	run_shell(&f, "while :; do :; done", &r);
	assert_int_equal(r.signal, SIGXCPU);
	assert_int_equal(r.hit, KODA_HIT_CPU_TIME);
	koda_command_result_done(&r);
	run_shell(&f, "exec head -c 8192 /dev/zero > big", &r);
	assert_int_equal(r.signal, SIGXFSZ);
	assert_int_equal(r.hit, KODA_HIT_FILE_SIZE);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

static void
environment(void **state)
{
	static const char *const extra[] = { "EXTRA=yes", NULL };
	const struct koda_command_options o = { .shell = "echo $EXTRA-$OPENAI_API_KEY",
		.env = extra };
	struct koda_command_result r;
	struct fixture f;

	setenv("OPENAI_API_KEY", "secret", 1);
	start_with(&f, KODA_AUTO, NULL);
	run_options(&f, &o, &r);
	assert_int_equal(r.out.head_len, 5);
	assert_memory_equal(r.out.head, "yes-\n", 5);
	koda_command_result_done(&r);
	fixture_end(&f);
	unsetenv("OPENAI_API_KEY");
}

/* ---- deaths ---- */

static void
wait_gone(int pid)
{
	assert_true(wait_for_state(pid, 0));
}

static int
child_of(int parent)
{
	char path[64], text[64];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return atoi(text);
}

/* Returns the PID of the child with that name, -1 if there is none. */
static int
child_named(int parent, const char *name)
{
	char path[64], text[4096];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (char *p = strtok(text, " "); p != NULL; p = strtok(NULL, " ")) {
		char comm[32];
		cleanup_close int at = -1;

		snprintf(path, sizeof(path), "/proc/%s/comm", p);
		at = open(path, O_RDONLY | O_CLOEXEC);
		n = at < 0 ? -1 : read(at, comm, sizeof(comm) - 1);
		comm[n > 0 ? n - 1 : 0] = '\0';
		if (n > 0 && strncmp(comm, name, 15) == 0)
			return atoi(p);
	}
	return -1;
}

static void
worker_dies(void **state)
{
	static const char kill_it[] = "for p in /proc/[0-9]*; do case $(cat $p/comm) in "
				      "koda-fs-worker) kill -9 ${p#/proc/}; esac; done; kill -9 1";
	struct koda_command_result r;
	struct koda_stats stats;
	struct fixture f;
	int bwrap, stage2, worker;

	start_with(&f, KODA_AUTO, NULL);
	expect(&f, "echo kept > /tmp/kept", 0, "");
	/* A command can see the PIDs of the worker and of init, but cannot signal them. */
	run_shell(&f, kill_it, &r);
	koda_command_result_done(&r);
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.respawns, 0);
	bwrap = child_named(getpid(), "bwrap");
	stage2 = child_of(bwrap);
	worker = child_named(stage2, "koda-fs-worker");
	assert_true(bwrap > 0 && stage2 > 0 && worker > 0);
	assert_int_equal(kill(worker, SIGKILL), 0);
	wait_gone(worker);
	expect(&f, "cat /tmp/kept", 0, "kept\n");
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.respawns, 1);
	assert_int_equal(child_named(stage2, "koda-fs-worker") > 0, 1);
	fixture_end(&f);
}

/*
 * Commands may kill each other and the process they descend from; they lose their sandbox by that.
 */
static void
kills_its_own(void **state)
{
	const struct koda_command_options o = { .shell = "kill -9 -1; sleep 1000" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	expect(&f, "echo again", 0, "again\n");
	fixture_end(&f);
}

/* bwrap is a child of the test, stage2 a child of bwrap. */
static void
sandbox_dies(void **state)
{
	const bool init = *state != NULL;
	const struct koda_command_options o = { .shell = "sleep 1000" };
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;
	int bwrap, stage2;

	start_with(&f, KODA_AUTO, NULL);
	c = koda_command_start(f.slot, &o, NULL, NULL, &err);
	assert_non_null(c);
	bwrap = child_named(getpid(), "bwrap");
	stage2 = child_of(bwrap);
	assert_true(bwrap > 0 && stage2 > 0);
	assert_int_equal(kill(init ? stage2 : bwrap, SIGKILL), 0);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	koda_command_free(c);
	wait_gone(stage2);
	expect(&f, "echo again", 0, "again\n");
	fixture_end(&f);
}

/*
 * A sandbox that cannot be built again, in a mode that may go on without: the command that needs it
 * is not run, one that was running has an unknown end, and file operations work.
 */
static void
not_built_again(void **state)
{
	const struct koda_command_options o = { .shell = "true", .approved = true },
					  lasting = { .shell = "sleep 1000",
						  .approved = true,
						  .background = *state != NULL };
	struct koda_command *c;
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;
	int stage2;

	fixture_prepare(&f, KODA_SAFE);
	put_copy(&f, "koda-sandbox-stage2", KODA_TEST_STAGE2);
	f.options.commands = true;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	c = koda_command_start(f.slot, &lasting, NULL, NULL, &err);
	assert_non_null(c);
	put_copy(&f, "koda-sandbox-stage2", "/bin/false");
	stage2 = child_of(child_named(getpid(), "bwrap"));
	assert_true(stage2 > 0);
	assert_int_equal(kill(stage2, SIGKILL), 0);
	wait_gone(stage2);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	koda_command_free(c);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	put_text(&f, "a", "text");
	assert_string_equal(get_text(&f, "a"), "text");
	assert_int_equal(koda_call(f.slot, &(struct koda_op){ .kind = KODA_OP_PING },
			     &(struct koda_result){ 0 }, &err),
	    0);
	fixture_end(&f);
}

/*
 * bwrap is killed twice during the start, as on a machine short of memory: the slot is not given
 * up.
 */
static void
killed_while_built(void **state)
{
	const struct koda_command_options o = { .shell = "true" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;
	pid_t host = getpid(), killer;
	int status;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	killer = fork();
	assert_true(killer >= 0);
	if (killer == 0) {
		int last = 0, kills = 0;

		for (uint64_t end = clock_ms() + PATIENCE_MS; kills < 2 && clock_ms() < end;) {
			int bwrap = child_named(host, "bwrap");

			if (bwrap <= 0 || bwrap == last)
				continue;
			last = bwrap;
			kills += kill(bwrap, SIGKILL) == 0;
		}
		_exit(kills == 2 ? 0 : 1);
	}
	fixture_open(&f);
	/* A kill after the sandbox is up may cost a call, but never the session. */
	f.slot = koda_slot_acquire(f.ses, NULL, &err);
	if (f.slot == NULL && err.code == KODA_UNSUPPORTED)
		fail_msg("%s", err.message);
	kill(killer, SIGTERM); /* if it came too late, it waits for another bwrap */
	assert_int_equal(waitpid(killer, &status, 0), killer);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	if (f.slot == NULL)
		f.slot = fixture_acquire(&f);
	if (koda_run(f.slot, &o, &r, &err) == 0)
		koda_command_result_done(&r);
	else
		assert_code(&err, KODA_UNKNOWN);
	expect(&f, "echo on", 0, "on\n");
	fixture_end(&f);
}

/*
 * Connections to a socket of the host in a loop: those too fast to be reported one by one are
 * counted.
 */
static void
refused_in_a_loop(void **state)
{
	static const char tries[] =
	    "perl -MSocket -e 'for (1..60) { socket(S, PF_UNIX, SOCK_STREAM, 0); "
	    "connect(S, pack_sockaddr_un(\"sock\")) and die }'";
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const struct koda_command_options o = { .shell = tries };
	unsigned long long more = 0, told = 0;
	struct koda_command_result r;
	struct fixture f;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	start_with(&f, KODA_AUTO, NULL);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", at(&f, "sock"));
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 1), 0);
	run_options(&f, &o, &r);
	assert_int_equal(r.status, 0);
	for (size_t i = 0; i < r.n_violations; i++) {
		unsigned long long n;

		assert_string_equal(r.violations[i].rule, "host_socket");
		if (sscanf(r.violations[i].detail, "%llu more", &n) == 1)
			more += n;
		else
			told++;
	}
	assert_int_equal(told + more, 60);
	assert_true(more > 0);
	koda_command_result_done(&r);
	close(fd);
	fixture_end(&f);
}

/* A violation names a command only if there is no doubt. */
static void
blamed(void **state)
{
	const struct koda_command_options plants = {
		.shell =
		    "git init -q r; echo x > r/.git/hooks/pre-commit; chmod +x r/.git/hooks/pre-commit; sleep 1000",
		.background = true
	};
	const struct koda_command_options innocent = {
		.shell = "until test -x r/.git/hooks/pre-commit; do sleep 0.01; done; echo innocent"
	};
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	assert_non_null(c = koda_command_start(f.slot, &plants, NULL, NULL, &err));
	run_options(&f, &innocent, &r);
	for (size_t i = 0; i < r.n_violations; i++)
		assert_string_equal(r.violations[i].command, "");
	koda_command_result_done(&r);
	koda_command_free(c);
	fixture_end(&f);
}

/*
 * A process is killed if it has that socket at that number; processes with another socket, or with
 * the socket at another number, are not.
 */
static void
orphans(void **state)
{
	enum { ITS, ELSEWHERE, OTHER, N };
	int its[2], other[2], status;
	struct stat st;
	pid_t pid[N];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, its), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	assert_int_equal(fstat(its[1], &st), 0);
	for (int i = 0; i < N; i++) {
		int ready[2];
		char byte;

		assert_int_equal(pipe(ready), 0);
		assert_true((pid[i] = fork()) >= 0);
		if (pid[i] == 0) {
			int fd = fcntl(i == OTHER ? other[1] : its[1], F_DUPFD, 500);
			int go = fcntl(ready[1], F_DUPFD, 500);

			syscall(SYS_close_range, 3, 499, 0);
			dup2(fd, i == ELSEWHERE ? 4 : 3);
			if (i == ELSEWHERE)
				close(fd);
			if (write(go, "x", 1) == 1)
				pause();
			_exit(99);
		}
		close(ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		close(ready[0]);
	}
	assert_int_equal(orphan_end(st.st_ino, 3), 1);
	assert_int_equal(waitpid(pid[ITS], &status, 0), pid[ITS]);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	for (int i = ELSEWHERE; i < N; i++) {
		assert_int_equal(waitpid(pid[i], &status, WNOHANG), 0);
		kill(pid[i], SIGKILL);
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
	}
	for (int i = 0; i < 2; i++) {
		close(its[i]);
		close(other[i]);
	}
}

static void
nothing_is_left(void **state)
{
	const struct koda_command_options o = { .shell = "setsid sleep 1000 & sleep 1000",
		.background = true };
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;
	int bwrap, stage2;

	start_with(&f, KODA_AUTO, NULL);
	c = koda_command_start(f.slot, &o, NULL, NULL, &err);
	assert_non_null(c);
	bwrap = child_named(getpid(), "bwrap");
	stage2 = child_of(bwrap);
	koda_slot_release(f.slot);
	wait_gone(stage2); /* the init of a PID namespace ends after all other processes in it */
	koda_command_free(c);
	fixture_end(&f);
}

/* ---- approval ---- */

static int asked;
static bool answer_yes, answer_not;
static struct koda_approval *last_asked;

static void
on_question(void *data, const struct koda_question *q)
{
	asked++;
	assert_int_equal(q->kind, KODA_OP_RUN);
	assert_string_equal(q->argv[0], "sh");
	assert_string_equal(q->argv[2], "echo hello");
	last_asked = q->approval;
	if (!answer_not)
		koda_approval_answer(q->approval, answer_yes);
}

static void
approval(void **state)
{
	const struct koda_command_options o = { .shell = "echo hello" };
	struct koda_command_options approved = o;
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.commands = true;
	f.options.approve = on_question;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	answer_yes = false;
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_NOT_APPROVED);
	answer_yes = true;
	assert_int_equal(koda_run(f.slot, &o, &r, &err), 0);
	koda_command_result_done(&r);
	assert_int_equal(asked, 2);
	approved.approved = true;
	assert_int_equal(koda_run(f.slot, &approved, &r, &err), 0);
	koda_command_result_done(&r);
	assert_int_equal(asked, 2);
	/* koda_run() does not wait for an answer after the callback: a later one is refused. */
	answer_not = true;
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_NOT_APPROVED);
	answer_not = false;
	assert_int_equal(asked, 3);
	errno = 0;
	koda_approval_answer(last_asked, true);
	assert_int_equal(errno, ESTALE);
	fixture_end(&f);
}

static const struct koda_question *open_question;

static void
keep_question(void *data, const struct koda_question *q)
{
	open_question = q;
}

/* The command is over before its question is answered: the question can still be read. */
static void
question_outlives_command(void **state)
{
	const char *const argv[] = { "echo", "a word", NULL }, *const env[] = { "A=b", NULL };
	const struct koda_command_options o = { .argv = argv, .env = env };
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.commands = true;
	f.options.approve = keep_question;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	open_question = NULL;
	c = koda_command_start(f.slot, &o, NULL, NULL, &err);
	assert_non_null(c);
	assert_non_null(open_question);
	koda_slot_release(f.slot);
	koda_command_free(c);
	koda_session_dispatch(f.ses, 0, &err);
	assert_string_equal(open_question->argv[0], "echo");
	assert_string_equal(open_question->argv[1], "a word");
	assert_null(open_question->argv[2]);
	assert_string_equal(open_question->env[0], "A=b");
	assert_null(open_question->env[1]);
	assert_string_equal(open_question->cwd, f.root);
	assert_string_equal(open_question->path, f.root);
	errno = 0;
	koda_approval_answer(open_question->approval, true);
	assert_int_equal(errno, ESTALE);
	fixture_end(&f);
}

static void
plan_reads(void **state)
{
	struct fixture f;

	fixture_prepare(&f, KODA_PLAN);
	put_text(&f, "a", "text\n");
	f.options.commands = true;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(&f, "cat a", 0, "text\n");
	expect(&f, "echo x > a || exit 9", 9, NULL);
	assert_string_equal(get_text(&f, "a"), "text\n");
	fixture_end(&f);
}

/* ---- planted files ---- */

static int
count_violation(void *data, const struct koda_violation *v)
{
	int *n = data;

	*n += strstr(v->detail, "planted") != NULL && strcmp(v->rule, "git_config") == 0;
	return 0;
}

static void
planted(void **state)
{
	struct fixture f;
	int n = 0;

	start_with(&f, KODA_AUTO, NULL);
	expect(&f,
	    "echo 'touch harm' >hook && chmod +x hook && git init -q . && mv hook .git/hooks/pre-commit",
	    0, "");
	assert_false(exists(&f, ".git/hooks/pre-commit"));
	assert_true(exists(&f, ".git/HEAD"));
	koda_slot_violations(f.slot, count_violation, &n);
	assert_true(n >= 1);
	/* The directory now has a mount on it. */
	expect(&f, "echo x > .git/hooks/pre-commit || exit 9", 9, NULL);
	fixture_end(&f);
}

/*
 * A process that entered a directory before anything was mounted on it goes on writing below the
 * mount.
 */
static void
planted_from_below(void **state)
{
	static const char *const shells[] = {
		"git init -q new && cd new/.git/hooks && touch $OLDPWD/ready && "
		"until test -e $OLDPWD/go; do :; done; "
		"cp $OLDPWD/harm pre-commit; touch $OLDPWD/planted; sleep 1000",
		"git init -q new && cd new/.git && touch $OLDPWD/ready && "
		"until test -e $OLDPWD/go; do :; done; "
		"cp $OLDPWD/harm hooks/pre-commit; touch $OLDPWD/planted; sleep 1000",
	};

	for (size_t i = 0; i < N_ELEMENTS(shells); i++) {
		const struct koda_command_options o = { .shell = shells[i], .background = true };
		struct koda_command *c;
		struct koda_error err;
		struct fixture f;

		start_with(&f, KODA_AUTO, NULL);
		put_text(&f, "harm", "#!/bin/sh\ntouch harmed\n");
		c = koda_command_start(f.slot, &o, NULL, NULL, &err);
		if (c == NULL)
			fail_msg("%s", err.message);
		expect(&f, "until test -e ready; do :; done", 0, "");
		/* The directory is now known and mounted, and its content was checked. */
		for (int k = 0; k < 3; k++)
			expect(&f, "true", 0, "");
		expect(&f, "touch go; until test -e planted; do :; done", 0, "");
		koda_command_end(c);
		assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
		koda_command_free(c);
		assert_false(exists(&f, "new/.git/hooks/pre-commit"));
		expect(&f, "echo x > new/.git/hooks/pre-commit || exit 9", 9, NULL);
		/* From here on, changes made by the user are kept. */
		put_text(&f, "new/.git/hooks/pre-push", "the user's");
		expect(&f, "true", 0, "");
		assert_string_equal(get_text(&f, "new/.git/hooks/pre-push"), "the user's");
		fixture_end(&f);
	}
}

/* A command that creates a file again after its removal is killed. */
static void
planted_again(void **state)
{
	const struct koda_command_options o = {
		.shell =
		    "trap '' TERM; while :; do test -e .envrc || echo 'touch harmed' >.envrc; done",
		.background = true
	};
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	c = koda_command_start(f.slot, &o, NULL, NULL, &err);
	if (c == NULL)
		fail_msg("%s", err.message);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), 0);
	assert_int_equal(r.hit, KODA_HIT_PLANTED);
	assert_string_equal(koda_limit_hit_name(r.hit), "planted");
	assert_int_equal(r.signal, SIGKILL);
	assert_false(exists(&f, ".envrc"));
	koda_command_result_done(&r);
	koda_command_free(c);
	/* Attempts are counted for each command separately. */
	expect(&f, "echo x >.envrc", 0, "");
	assert_false(exists(&f, ".envrc"));
	fixture_end(&f);
}

/* Files beyond the limit are made harmless as well, and take no room in quarantine. */
static void
planted_too_much(void **state)
{
	const struct koda_command_options o = {
		.shell = "git init -q new && cd new/.git/hooks && rm -f * && i=0 && "
			 "while [ $i -lt 1200 ]; do i=$((i + 1)); echo x >h$i; done"
	};
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;
	struct dirent *e;
	unsigned kept = 0, n = 0;
	DIR *d;

	start_with(&f, KODA_AUTO, NULL);
	if (koda_run(f.slot, &o, &r, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(r.hit, KODA_HIT_PLANTED);
	for (size_t i = 0; i < r.n_violations; i++)
		kept += strstr(r.violations[i].detail, "quarantine") != NULL;
	assert_true(kept <= 1000);
	koda_command_result_done(&r);
	d = opendir(at(&f, "new/.git/hooks"));
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			fail_msg("%s is still there", e->d_name);
		n += strncmp(e->d_name, ".koda-", 6) == 0;
	}
	closedir(d);
	/* Files that could not be copied are renamed as well. */
	assert_in_range(n, 200, 210);
	fixture_end(&f);
}

/* Planted files are found even after the sandbox has died. */
static void
planted_and_killed(void **state)
{
	const struct koda_command_options o = {
		.shell = "mkdir -p sub && git init -q sub && "
			 "echo 'touch harm' > sub/.git/hooks/post-checkout && "
			 "kill -9 -1; sleep 1000"
	};
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	assert_true(exists(&f, "sub/.git/HEAD"));
	assert_false(exists(&f, "sub/.git/hooks/post-checkout"));
	fixture_end(&f);
}

/* The next host checks what a killed host could not; files from before stay. */
static void
host_killed(void **state)
{
	const struct koda_command_options o = {
		.shell = "cp harm .git/hooks/pre-push 2>/dev/null; "
			 "git init -q new && cp harm new/.git/hooks/pre-push && "
			 "touch planted && sleep 1000"
	};
	struct koda_error err;
	struct fixture f;
	int status;
	pid_t host;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	put_text(&f, "harm", "#!/bin/sh\ntouch harmed\n");
	assert_int_equal(mkdir(at(&f, "old"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "old/.git"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "old/.git/hooks"), 0755), 0);
	put_text(&f, "old/.git/hooks/pre-push", "the user's own");
	host = fork();
	assert_true(host >= 0);
	if (host == 0) {
		f.ses = koda_session_open(&f.options, &err);
		f.slot = f.ses == NULL ? NULL : koda_slot_acquire(f.ses, NULL, &err);
		if (f.slot != NULL)
			koda_command_start(f.slot, &o, NULL, NULL, &err);
		for (;;)
			pause();
	}
	for (uint64_t end = clock_ms() + PATIENCE_MS; !exists(&f, "planted") && clock_ms() < end;
	     blink())
		;
	assert_true(exists(&f, "new/.git/hooks/pre-push"));
	assert_int_equal(kill(host, SIGKILL), 0);
	assert_int_equal(waitpid(host, &status, 0), host);

	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(&f, "true", 0, "");
	assert_false(exists(&f, "new/.git/hooks/pre-push"));
	assert_true(exists(&f, "new/.git/HEAD"));
	assert_string_equal(get_text(&f, "old/.git/hooks/pre-push"), "the user's own");
	koda_session_close(f.ses);

	/* The check is complete: changes made by the user between two sessions are kept. */
	put_text(&f, "new/.git/hooks/pre-push", "the user's, later");
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(&f, "true", 0, "");
	assert_string_equal(get_text(&f, "new/.git/hooks/pre-push"), "the user's, later");
	fixture_end(&f);
}

static void
no_commands(void **state)
{
	const struct koda_command_options o = { .shell = "true" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	fixture_end(&f);
}

static void
on_done(void *data, struct koda_command *c)
{
	(*(int *)data)++;
}

static void
asynchronous(void **state)
{
	const struct koda_command_options o = { .shell = "echo hello" };
	struct koda_command *c[8];
	struct koda_error err;
	struct fixture f;
	int done = 0;

	start_with(&f, KODA_AUTO, NULL);
	for (int i = 0; i < 8; i++)
		assert_non_null(c[i] = koda_command_start(f.slot, &o, on_done, &done, &err));
	while (koda_session_dispatch(f.ses, PATIENCE_MS, &err) > 0)
		;
	assert_int_equal(done, 8);
	for (int i = 0; i < 8; i++) {
		struct koda_command_result r;

		assert_int_equal(koda_command_result(c[i], &r, &err), 0);
		assert_int_equal(r.status, 0);
		assert_int_equal(r.out.head_len, 6);
		koda_command_result_done(&r);
		koda_command_free(c[i]);
	}
	fixture_end(&f);
}

static void
free_it(void *data, struct koda_command *command)
{
	(*(int *)data)++;
	koda_command_free(command);
}

/*
 * The waiting call returns after the callback has freed the command, and does not touch it again.
 */
static void
freed_while_waited_for(void **state)
{
	const struct koda_command_options o = { .shell = "true" };
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;
	int done = 0;

	start_with(&f, KODA_AUTO, NULL);
	assert_non_null(c = koda_command_start(f.slot, &o, free_it, &done, &err));
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(done, 1);
	fixture_end(&f);
}

/*
 * Content passed by descriptor, from mounts that are not in the host's mount table: the root as it
 * is mounted in the sandbox, and the sandbox's own /tmp.
 */
static void
large_reads(void **state)
{
	const struct koda_op ops[] = {
		{ .kind = KODA_OP_READ, .path = "big" },
		{ .kind = KODA_OP_READ, .path = "/tmp/big" },
	};
	struct fixture f;

	start_with(&f, KODA_AUTO, NULL);
	expect(&f, "head -c 200000 /dev/zero > big; cp big /tmp/big", 0, "");
	for (size_t i = 0; i < N_ELEMENTS(ops); i++) {
		struct koda_result r;
		struct koda_error err;
		char byte = 1;

		if (koda_call(f.slot, &ops[i], &r, &err) < 0)
			fail_msg("%s: %s", ops[i].path, err.message);
		assert_int_equal(r.size, 200000);
		assert_true(r.fd >= 0);
		assert_int_equal(pread(r.fd, &byte, 1, 199999), 1);
		assert_int_equal(byte, 0);
		koda_result_done(&r);
	}
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses),
		cmocka_unit_test(not_run),
		cmocka_unit_test(one_view),
		cmocka_unit_test(background),
		cmocka_unit_test(leftovers),
		cmocka_unit_test(deadline),
		cmocka_unit_test(lasting),
		cmocka_unit_test(flood),
		cmocka_unit_test(limits),
		cmocka_unit_test(environment),
		cmocka_unit_test(worker_dies),
		cmocka_unit_test(kills_its_own),
		cmocka_unit_test_prestate(sandbox_dies, NULL),
		{ "init_dies", sandbox_dies, NULL, NULL, (void *)"" },
		cmocka_unit_test_prestate(not_built_again, NULL),
		cmocka_unit_test_prestate(not_built_again, (void *)1),
		cmocka_unit_test(killed_while_built),
		cmocka_unit_test(orphans),
		cmocka_unit_test(refused_in_a_loop),
		cmocka_unit_test(blamed),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(approval),
		cmocka_unit_test(question_outlives_command),
		cmocka_unit_test(plan_reads),
		cmocka_unit_test(planted),
		cmocka_unit_test(planted_from_below),
		cmocka_unit_test(planted_again),
		cmocka_unit_test(planted_too_much),
		cmocka_unit_test(planted_and_killed),
		cmocka_unit_test(host_killed),
		cmocka_unit_test(no_commands),
		cmocka_unit_test(asynchronous),
		cmocka_unit_test(freed_while_waited_for),
		cmocka_unit_test(large_reads),
	};

	return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
