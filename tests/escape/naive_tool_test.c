/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost updates, half-written files, and processes that outlive their host. A naive tool that
 * reads, computes and writes suffers from each.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "include/koda/sandbox.h"
#include "tests/kit/proof_session.h"

#define ROUNDS    200
#define GONE_MS   20000
#define LONG_TEXT (8u << 20)

static char root[PATH_MAX];

static const char *
in_root(const char *name)
{
	return proof_path("%s/%s", root, name);
}

/* ---- lost updates ---- */

static void
test_lost_update(void **state)
{
	struct koda_session *ses;
	struct koda_slot *slot;
	struct koda_op op = { .kind = KODA_OP_READ, .path = "file", .flags = KODA_DIGEST };
	struct koda_result res;
	struct koda_error err;
	uint8_t digest[KODA_DIGEST_BYTES];
	char *text;

	proof_mkdtemp(root);
	/* The naive tool reads, another process writes, the naive tool writes: the other change
	 * is lost. */
	proof_put(in_root("file"), "one\n");
	text = proof_get(in_root("file"));
	proof_put(in_root("file"), "one\nby the user\n");
	proof_put(in_root("file"), text);
	assert_false(proof_holds(in_root("file"), "one\nby the user\n"));
	free(text);

	ses = proof_session(root, KODA_AUTO, NULL, NULL);
	slot = proof_slot(ses);
	assert_int_equal(koda_call(slot, &op, &res, &err), 0);
	memcpy(digest, res.digest, sizeof(digest));
	koda_result_done(&res);
	proof_put(in_root("file"), "one\nby the user\n");
	op = (struct koda_op){ .kind = KODA_OP_WRITE,
		.path = "file",
		.data = "two\n",
		.len = 4,
		.if_digest = digest };
	assert_int_equal(koda_call(slot, &op, &res, &err), -1);
	assert_int_equal(err.code, KODA_CONFLICT);
	assert_non_null(strstr(err.message, "/file'"));
	op = (struct koda_op){ .kind = KODA_OP_REMOVE, .path = "file", .if_digest = digest };
	assert_int_equal(koda_call(slot, &op, &res, &err), -1);
	assert_int_equal(err.code, KODA_CONFLICT);
	assert_true(proof_holds(in_root("file"), "one\nby the user\n"));
	koda_slot_release(slot);
	koda_session_close(ses);
	proof_rmtree(root);
}

/* Adds a line by reading the whole file and writing it back. */
static void
append_naively(const char *path, unsigned i)
{
	cleanup_free char *text = proof_get(path);
	cleanup_free char *more = NULL;

	if (text == NULL || asprintf(&more, "%s%u\n", text, i) < 0)
		_exit(1);
	proof_put(path, more);
}

static unsigned
lines_of(const char *path)
{
	cleanup_free char *text = proof_get(path);
	unsigned n = 0;

	for (const char *p = text; p != NULL && *p != '\0'; p++)
		n += *p == '\n';
	return n;
}

struct tally {
	unsigned done, conflicts;
};

static void
appended(void *data, const struct koda_result *res, const struct koda_error *err)
{
	struct tally *tally = data;

	if (err == NULL)
		tally->done++;
	else if (err->code == KODA_CONFLICT)
		tally->conflicts++;
	else
		fail_msg("edit: %s", err->message);
}

static void
test_two_at_once(void **state)
{
	const double until = proof_seconds() + 60;
	struct tally tally = { 0, 0 };
	struct koda_session *ses;
	struct koda_slot *slot[2];
	struct koda_error err;
	bool lost = false;

	proof_mkdtemp(root);
	for (unsigned round = 0; !lost && proof_seconds() < until; round++) {
		pid_t pid[2];

		proof_put(in_root("file"), "");
		for (unsigned k = 0; k < 2; k++) {
			pid[k] = fork();
			assert_true(pid[k] >= 0);
			for (unsigned i = 0; pid[k] == 0 && i < ROUNDS; i++)
				append_naively(in_root("file"), i);
			if (pid[k] == 0)
				_exit(0);
		}
		for (unsigned k = 0; k < 2; k++)
			waitpid(pid[k], NULL, 0);
		lost = lines_of(in_root("file")) < 2 * ROUNDS;
	}
	assert_true(lost);

	proof_put(in_root("file"), "end\n");
	ses = proof_session(root, KODA_AUTO, NULL, NULL);
	for (unsigned k = 0; k < 2; k++)
		slot[k] = proof_slot(ses);
	for (unsigned i = 0; i < 2 * ROUNDS; i++) {
		const char *line = proof_path("%u\nend\n", i);
		const struct koda_edit edit = { "end\n", 4, line, strlen(line), false };
		struct koda_op op = { .kind = KODA_OP_EDIT,
			.path = "file",
			.edits = &edit,
			.n_edits = 1 };

		assert_int_equal(koda_call_async(slot[i % 2], &op, appended, &tally, &err), 0);
	}
	while (tally.done + tally.conflicts < 2 * ROUNDS)
		assert_true(koda_session_dispatch(ses, -1, &err) >= 0);
	/* Each acknowledged line is there, and no refused one. */
	assert_int_equal(lines_of(in_root("file")), tally.done + 1);
	assert_true(tally.done >= ROUNDS);
	for (unsigned k = 0; k < 2; k++)
		koda_slot_release(slot[k]);
	koda_session_close(ses);
	proof_rmtree(root);
}

/* ---- half a file ---- */

/* Reads the file all the time, and reports whether it was ever anything but one of the two
 * contents. */
static bool
seen_half(const char *path, pid_t writer)
{
	bool half = false;

	while (!half && waitpid(writer, NULL, WNOHANG) == 0) {
		size_t len = 0;
		cleanup_free char *text = proof_get_len(path, &len);

		half = text == NULL || len != LONG_TEXT || (text[0] != text[len - 1]);
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	return half;
}

static char *
long_text(char c)
{
	char *text = malloc(LONG_TEXT + 1);

	assert_non_null(text);
	memset(text, c, LONG_TEXT);
	text[LONG_TEXT] = '\0';
	return text;
}

static void
test_half_a_file(void **state)
{
	cleanup_free char *a = long_text('a'), *b = long_text('b');
	pid_t pid;

	proof_mkdtemp(root);
	proof_put(in_root("file"), a);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (unsigned i = 0; i < ROUNDS; i++)
			proof_put(in_root("file"), i % 2 == 0 ? b : a);
		_exit(0);
	}
	assert_true(seen_half(in_root("file"), pid));

	proof_put(in_root("file"), a);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct koda_session *ses = proof_session(root, KODA_AUTO, NULL, NULL);
		struct koda_slot *slot = proof_slot(ses);
		struct koda_result res;
		struct koda_error err;

		for (unsigned i = 0; i < ROUNDS / 4; i++) {
			if (koda_fs_write(slot, "file", i % 2 == 0 ? b : a, LONG_TEXT, &res, &err) <
			    0)
				_exit(1);
			koda_result_done(&res);
		}
		_exit(0);
	}
	assert_false(seen_half(in_root("file"), pid));
	proof_rmtree(root);
}

/* ---- a host that dies ---- */

/* Starts a helper in a host of its own, kills that host, and reports whether the helper
 * survives. */
static bool
outlives(bool naive)
{
	int pipe_fds[2], helper = -1, pidfd;
	struct pollfd p = { .events = POLLIN };
	bool alive;
	pid_t host;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	host = fork();
	assert_true(host >= 0);
	if (host == 0) {
		if (naive) {
			helper = fork();
			if (helper == 0) {
				for (;;)
					pause();
			}
		} else {
			helper =
			    koda_slot_pid(proof_slot(proof_session(root, KODA_AUTO, NULL, NULL)));
		}
		if (write(pipe_fds[1], &helper, sizeof(helper)) != sizeof(helper))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipe_fds[0], &helper, sizeof(helper)), (ssize_t)sizeof(helper));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	pidfd = (int)syscall(SYS_pidfd_open, helper, 0);
	assert_true(pidfd >= 0);
	assert_int_equal(kill(host, SIGKILL), 0);
	assert_int_equal(waitpid(host, NULL, 0), host);
	p.fd = pidfd;
	alive = poll(&p, 1, naive ? 200 : GONE_MS) == 0;
	if (alive)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	close(pidfd);
	return alive;
}

static void
test_host_dies(void **state)
{
	proof_mkdtemp(root);
	assert_true(outlives(true));
	assert_false(outlives(false));
	proof_rmtree(root);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_update),
		cmocka_unit_test(test_two_at_once),
		cmocka_unit_test(test_half_a_file),
		cmocka_unit_test(test_host_dies),
	};

	/* Makes this process the parent of what a killed host leaves behind, so that it can wait
	 * for it. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests_name("naive_tool", tests, NULL, NULL);
}
