/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as a guest in another program: signals, forks, descriptors, children, and a host that
 * is killed.
 */
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/kit/hosting.h"
#include "tests/kit/leaks.h"
#include "tests/kit/skip.h"

/* An idle worker checks every 5 s that its host is alive (worker/session.c). */
#define ORPHAN_MS 6500

static volatile sig_atomic_t children, reaped;

static void
on_child(int sig)
{
	children = children + 1;
}

/* A common handler: reaps every dead child, including the library's. */
static void
on_child_reap(int sig)
{
	int saved = errno;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped = reaped + 1;
	errno = saved;
}

static void
kill_and_go_on(struct fixture *f)
{
	struct koda_error err;
	int pid;

	for (int i = 0; i < 3; i++) {
		pid = koda_slot_pid(f->slot);
		kill(pid, SIGKILL);
		assert_code((do_call(f->slot, &WRITE("f", "x"), &err), &err), KODA_OK);
		assert_int_not_equal(koda_slot_pid(f->slot), pid);
	}
}

static void
signals_are_the_embedders(void **state)
{
	struct sigaction before[NSIG], after, act = { .sa_handler = on_child }, old;
	sigset_t mask, mask_after;
	struct fixture f;

	sigaction(SIGCHLD, &act, &old);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, NULL, &before[sig]);
	assert_true(before[SIGPIPE].sa_handler == SIG_DFL);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	fixture_start(&f, KODA_AUTO);
	/* The library writes to a dead worker's socket without SIGPIPE, which would kill this
	 * process. */
	kill_and_go_on(&f);
	for (int sig = 1; sig < NSIG; sig++) {
		if (sigaction(sig, NULL, &after) < 0)
			continue;
		assert_true(after.sa_handler == before[sig].sa_handler);
		assert_int_equal(after.sa_flags, before[sig].sa_flags);
	}
	sigprocmask(SIG_SETMASK, NULL, &mask_after);
	for (int sig = 1; sig < NSIG; sig++)
		assert_int_equal(sigismember(&mask, sig), sigismember(&mask_after, sig));
	fixture_end(&f);
	assert_true(children >= 3);
	sigaction(SIGCHLD, &old, NULL);
}

static void
reaped_by_the_embedder(void **state)
{
	struct sigaction act = { .sa_handler = on_child_reap }, old;
	struct fixture f;

	act.sa_handler = *state == NULL ? on_child_reap : SIG_IGN;
	sigaction(SIGCHLD, &act, &old);
	fixture_start(&f, KODA_AUTO);
	kill_and_go_on(&f);
	fixture_end(&f);
	sigaction(SIGCHLD, &old, NULL);
	assert_true(*state != NULL || reaped > 0);
}

/* The library does not reap the embedder's own children. */
static void
other_children(void **state)
{
	int status = 0;
	struct fixture f;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(42);
	assert_true(wait_for_state(pid, 'Z'));
	fixture_start(&f, KODA_AUTO);
	kill_and_go_on(&f);
	fixture_end(&f);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 42);
}

#define CHILD_CHECK(cond)                                                                          \
	do {                                                                                       \
		if (!(cond))                                                                       \
			_exit(__LINE__ % 200 + 1);                                                 \
	} while (0)

static void
in_the_child(struct fixture *f, struct koda_slot *second)
{
	struct koda_result result;
	struct koda_error err;

	CHILD_CHECK(koda_call(f->slot, &PING(), &result, &err) == -1 && err.code == KODA_INTERNAL);
	CHILD_CHECK(koda_call_async(f->slot, &PING(), on_answer, NULL, &err) == -1);
	CHILD_CHECK(koda_slot_acquire(f->ses, NULL, &err) == NULL);
	CHILD_CHECK(koda_session_dispatch(f->ses, 0, &err) == -1);
	/* One slot is idle, the other has a call under way. */
	koda_slot_release(second);
	koda_slot_release(f->slot);
	koda_session_close(f->ses);
	_exit(0);
}

static void
forked(void **state)
{
	struct koda_slot *second;
	struct koda_error err;
	struct answer a;
	struct fixture f;
	int status, pid, pid2;
	pid_t child;

	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	second = fixture_acquire(&f);
	pid = koda_slot_pid(f.slot);
	pid2 = koda_slot_pid(second);
	/* A call is under way, so that an answer could come twice and a descriptor is watched. */
	kill(pid, SIGSTOP);
	start_call(f.slot, &STAT("."), &a);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		in_the_child(&f, second);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status != 0)
		fail_msg("child: status %#x", (unsigned)status);
	kill(pid, SIGCONT);
	for (uint64_t end = clock_ms() + PATIENCE_MS; !a.done && clock_ms() < end;)
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
	assert_int_equal(a.times, 1);
	assert_code(&a.err, KODA_OK);
	assert_int_equal(koda_slot_pid(f.slot), pid);
	assert_code((do_call(second, &PING(), &err), &err), KODA_OK);
	assert_int_equal(koda_slot_pid(second), pid2);
	fixture_end(&f);
}

/*
 * A forked child lives on with everything open, so descriptors closed here stay open there. This
 * must not leave anything in the epoll set.
 */
static void
forked_and_held(void **state)
{
	struct koda_error err;
	struct answer a;
	struct fixture f;
	uint64_t began;
	pid_t child;

	fixture_start(&f, KODA_AUTO);
	start_call(f.slot, &STAT("."), &a);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	wait_answer(f.ses, &a);
	for (int i = 0; i < 3; i++) {
		kill(koda_slot_pid(f.slot), SIGKILL);
		start_call(f.slot, &STAT("."), &a);
		wait_answer(f.ses, &a);
		assert_code(&a.err, KODA_OK);
	}
	koda_slot_release(f.slot);
	f.slot = fixture_acquire(&f);
	while (koda_session_dispatch(f.ses, 0, &err) > 0)
		;
	/* A stale entry in the epoll set would make this return at once, every time. */
	began = clock_ms();
	assert_int_equal(koda_session_dispatch(f.ses, 300, &err), 0);
	assert_true(clock_ms() - began >= 250);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	fixture_end(&f);
}

static void
host_killed(void **state)
{
	struct fixture f;
	int report[2], pids[2], held;
	pid_t host;

	fixture_prepare(&f, KODA_AUTO);
	/* Adopt the host's orphans, so that the test does not depend on another process to reap
	 * them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	host = fork();
	assert_true(host >= 0);
	if (host == 0) {
		fixture_open(&f);
		pids[0] = koda_slot_pid(fixture_acquire(&f));
		pids[1] = koda_slot_pid(fixture_acquire(&f));
		held = fork();
		if (held == 0)
			for (;;)
				pause();
		if (write(report[1], pids, sizeof(pids)) < 0 ||
		    write(report[1], &held, sizeof(held)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(report[0], pids, sizeof(pids)), sizeof(pids));
	assert_int_equal(read(report[0], &held, sizeof(held)), sizeof(held));
	kill(host, SIGKILL);
	waitpid(host, NULL, 0);
	for (uint64_t end = clock_ms() + ORPHAN_MS; clock_ms() < end; blink()) {
		waitpid(pids[0], NULL, WNOHANG);
		waitpid(pids[1], NULL, WNOHANG);
		if (process_state(pids[0]) == 0 && process_state(pids[1]) == 0)
			break;
	}
	assert_int_equal(process_state(pids[0]), 0);
	assert_int_equal(process_state(pids[1]), 0);
	assert_int_equal(process_state(held), 'S');
	kill(held, SIGKILL);
	waitpid(held, NULL, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(report[0]);
	close(report[1]);
	f.ses = NULL;
	fixture_end(&f);
}

static void
nothing_is_left(void **state)
{
	static char big[100000];
	struct koda_result result;
	struct koda_error err;
	struct fixture f;
	int before;

	fixture_prepare(&f, KODA_AUTO);
	put_file(at(&f, "big"), big, sizeof(big));
	before = count_descriptors();
	for (int i = 0; i < 200; i++) {
		fixture_open(&f);
		/* Some sessions have no worker, some have one, some have one that died. */
		if (i % 4 > 0) {
			f.slot = fixture_acquire(&f);
			assert_int_equal(koda_fs_read(f.slot, "big", &result, &err), 0);
			assert_true(result.fd >= 0);
			koda_result_done(&result);
			assert_code((do_call(f.slot,
					 &(struct koda_op){ .kind = KODA_OP_WRITE,
					     .path = "big",
					     .data = big,
					     .len = sizeof(big) },
					 &err),
					&err),
			    KODA_OK);
		}
		if (i % 4 == 2)
			koda_slot_release(f.slot);
		if (i % 4 == 3)
			kill(koda_slot_pid(f.slot), SIGKILL);
		koda_session_close(f.ses);
	}
	f.ses = NULL;
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	fixture_end(&f);
}

/* Programs that the embedder starts do not inherit the library's descriptors. */
static void
descriptors_are_not_inherited(void **state)
{
	int ours = 0;
	char path[64], target[PATH_MAX];
	struct dirent *e;
	struct fixture f;
	ssize_t n;
	DIR *dir;

	fixture_start(&f, KODA_AUTO);
	dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL) {
		int fd = atoi(e->d_name);

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = e->d_name[0] == '.' ? -1 : readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strstr(target, "eventpoll") != NULL || strstr(target, "timerfd") != NULL ||
		    strstr(target, "pidfd") != NULL || strstr(target, "socket") != NULL) {
			assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
			ours++;
		}
	}
	closedir(dir);
	assert_true(ours >= 4);
	fixture_end(&f);
}

static int
run(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
from_cplusplus(void **state)
{
	static const char source[] =
	    "#include <koda/sandbox.h>\n"
	    "int main() {\n"
	    "  koda_session_options o = KODA_SESSION_OPTIONS_INIT;\n"
	    "  koda_error err; koda_result r; koda_edit e = {};\n"
	    "  koda_session *s = koda_session_open(&o, &err);\n"
	    "  koda_slot *slot = nullptr;\n"
	    "  if (s != nullptr) { koda_fs_read(slot, \"x\", &r, &err); koda_fs_edit(slot, \"x\", &e, 1, &r, &err); }\n"
	    "  return s == nullptr && err.code != KODA_OK && err.message[0] != 0 ? 0 : 1;\n"
	    "}\n";
	char command[8 * PATH_MAX], file[PATH_MAX];
	struct fixture f;

	if (run("c++ --version >/dev/null 2>&1") != 0)
		skip_because("there is no C++ compiler");
	fixture_prepare(&f, KODA_AUTO);
	snprintf(file, sizeof(file), "%s/x.cc", f.dir);
	put_file(file, source, strlen(source));
	snprintf(command, sizeof(command),
	    "cd '%s' && c++ -Wall -Wextra -Wno-missing-field-initializers -Werror -I'%s/include' -o x x.cc "
	    "-L'%s/host' -Wl,-rpath,'%s/host' -lkoda-sandbox",
	    f.dir, KODA_TEST_SOURCE_DIR, KODA_TEST_BUILD_DIR, KODA_TEST_BUILD_DIR);
	assert_int_equal(run(command), 0);
	snprintf(command, sizeof(command), "ASAN_OPTIONS=verify_asan_link_order=0 '%s/x'", f.dir);
	/* There is no root and no helper beside the program: it runs, and gets an error. */
	assert_int_equal(run(command), 0);
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_are_the_embedders),
		{ "reaped by the embedder", reaped_by_the_embedder, NULL, NULL, NULL },
		{ "SIGCHLD ignored", reaped_by_the_embedder, NULL, NULL, (void *)1 },
		cmocka_unit_test(other_children),
		cmocka_unit_test(forked),
		cmocka_unit_test(forked_and_held),
		cmocka_unit_test(host_killed),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(descriptors_are_not_inherited),
		cmocka_unit_test(from_cplusplus),
	};

	return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
