/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log on a disk: where it may be, what is left of it when a server dies or the disk is
 * full, and what `koda-sandbox audit verify` reports.
 */
#include <signal.h>
#include <sys/resource.h>

#include <jansson.h>

#include "mcp/audit.h"
#include "mcp/audit_places.h"
#include "mcp/digest.h"
#include "tests/kit/proof.h"

#define PROGRAM KODA_TEST_BUILD_DIR "/cli/koda-sandbox"

static char dir[PATH_MAX];
static const struct audit_action server = { .session = "main", .tool = "koda-sandbox" };
static const struct audit_action edit = { .session = "main", .tool = "edit_file", .path = "/p/a" };

static int
set_up(void **state)
{
	proof_mkdtemp(dir);
	proof_mkdir(proof_path("%s/root", dir));
	return 0;
}

static int
tear_down(void **state)
{
	proof_rmtree(dir);
	return 0;
}

static struct audit *
must_open(const char *path)
{
	struct koda_error err = { 0 };
	struct audit *audit = audit_open(path, NULL, 0, &server, &err);

	if (audit == NULL)
		fail_msg("%s", err.message);
	return audit;
}

static void
act(struct audit *audit)
{
	struct koda_error err = { 0 };
	uint64_t id;

	if (audit_intent(audit, &edit, &id, &err) < 0 || audit_outcome(audit, id, &edit, &err) < 0)
		fail_msg("%s", err.message);
}

/* Closes the log and returns the head that it prints on standard error. */
static void
close_and_hear(struct audit *audit, char ret_head[DIGEST_HEX_SIZE])
{
	const char *path = proof_path("%s/stderr", dir), *head;
	int saved = fcntl(2, F_DUPFD_CLOEXEC, 3);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cleanup_free char *text = NULL;

	assert_true(saved >= 0 && fd >= 0 && dup2(fd, 2) == 2);
	audit_close(audit);
	assert_true(dup2(saved, 2) == 2);
	close(saved);
	close(fd);
	text = proof_get(path);
	assert_non_null(text);
	head = strstr(text, "head ");
	assert_non_null(head);
	assert_int_equal(strlen(head + 5), 2 * KODA_DIGEST_BYTES + 1);
	memcpy(ret_head, head + 5, 2 * KODA_DIGEST_BYTES);
	ret_head[2 * KODA_DIGEST_BYTES] = '\0';
}

static void
must_hold(const char *path, struct audit_chain *ret)
{
	struct koda_error err = { 0 };
	uint64_t head_line;

	if (audit_verify(path, NULL, ret, &head_line, &err) < 0)
		fail_msg("%s", err.message);
}

/* ---- the program ---- */

static int
run(const char *const *argv, char *ret, size_t size)
{
	int out[2], status;
	size_t n = 0;
	ssize_t r;
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(out[1], 1);
		execv(PROGRAM, (char *const *)(uintptr_t)argv);
		_exit(99);
	}
	close(out[1]);
	while (n + 1 < size && (r = read(out[0], ret + n, size - 1 - n)) > 0)
		n += (size_t)r;
	ret[n] = '\0';
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int
verify(const char *path, const char *head, json_t **ret)
{
	const char *argv[] = { "koda-sandbox", "audit", "verify", "--json", path,
		head != NULL ? "--head" : NULL, head, NULL };
	char out[4096];
	int status = run(argv, out, sizeof(out));

	*ret = json_loads(out, 0, NULL);
	assert_non_null(*ret);
	return status;
}

static void
test_program(void **state)
{
	const char *path = proof_path("%s/log", dir), *cut = proof_path("%s/cut", dir);
	struct audit *audit = must_open(path);
	cleanup_free char *text = NULL;
	char head[DIGEST_HEX_SIZE];
	const json_t *error;
	json_t *told;
	char *last;

	act(audit);
	close_and_hear(audit, head);
	assert_int_equal(verify(path, NULL, &told), 0);
	assert_int_equal(json_integer_value(json_object_get(told, "lines")), 4);
	assert_true(json_is_null(json_object_get(told, "vouched_lines")));
	assert_string_equal(json_string_value(json_object_get(told, "head")), head);
	json_decref(told);
	assert_int_equal(verify(path, head, &told), 0);
	assert_int_equal(json_integer_value(json_object_get(told, "vouched_lines")), 4);
	json_decref(told);

	/* Without its last line the chain holds, but it does not match the head. */
	text = proof_get(path);
	text[strlen(text) - 1] = '\0';
	last = strrchr(text, '\n');
	last[1] = '\0';
	proof_put(cut, text);
	assert_int_equal(verify(cut, NULL, &told), 0);
	json_decref(told);
	assert_int_equal(verify(cut, head, &told), 1);
	assert_true(json_is_false(json_object_get(told, "ok")));
	json_decref(told);

	strstr(text, "edit_file")[0] = 'E';
	proof_put(cut, text);
	assert_int_equal(verify(cut, NULL, &told), 1);
	error = json_object_get(told, "error");
	assert_string_equal(json_string_value(json_object_get(error, "code")), "broken");
	assert_int_equal(json_integer_value(json_object_get(error, "line")), 2);
	json_decref(told);

	assert_int_equal(verify(proof_path("%s/none", dir), NULL, &told), 1);
	json_decref(told);
	assert_int_equal(verify(path, "12", &told), 2);
	json_decref(told);
}

/* ---- writing ---- */

static void
test_continued(void **state)
{
	const char *path = proof_path("%s/log", dir);
	char first[DIGEST_HEX_SIZE], second[DIGEST_HEX_SIZE];
	uint8_t head[KODA_DIGEST_BYTES];
	struct koda_error err = { 0 };
	struct audit *audit = must_open(path);
	struct audit_chain chain;
	uint64_t head_line;
	struct stat st;

	act(audit);
	close_and_hear(audit, first);
	audit = must_open(path);
	act(audit);
	close_and_hear(audit, second);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(digest_parse(first, head, sizeof(head)));
	assert_int_equal(audit_verify(path, head, &chain, &head_line, &err), 0);
	assert_int_equal(chain.lines, 8);
	assert_int_equal(chain.starts, 2);
	/* The older head still vouches for the lines up to it. */
	assert_int_equal(head_line, 4);
	assert_true(digest_parse(second, head, sizeof(head)));
	assert_int_equal(audit_verify(path, head, &chain, &head_line, &err), 0);
	assert_int_equal(head_line, 8);
}

/*
 * A crash leaves any part of the last line: the part stays, the next start records it, and the
 * chain holds.
 */
static void
test_torn_anywhere(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct audit *audit = must_open(path);
	cleanup_free char *text = NULL;
	struct audit_chain chain;
	size_t len, last;

	act(audit);
	audit_close(audit);
	text = proof_get_len(path, &len);
	for (last = len - 1; text[last - 1] != '\n'; last--)
		;
	for (size_t cut = last; cut <= len; cut += cut + 7 < len ? 7 : 1) {
		cleanup_free char *now = NULL;
		size_t now_len;

		proof_put(path, text);
		assert_int_equal(truncate(path, (off_t)cut), 0);
		audit = must_open(path);
		act(audit);
		audit_close(audit);
		must_hold(path, &chain);
		assert_int_equal(chain.torn, cut > last && cut < len - 1 ? 1 : 0);
		now = proof_get_len(path, &now_len);
		assert_true(now_len > cut);
		assert_memory_equal(now, text, cut);
	}
}

/* The crash tears the very first line. */
static void
test_torn_first_line(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct audit_chain chain;
	struct audit *audit;

	proof_put(path, "{\"seq\":1,\"ti");
	chmod(path, 0600);
	audit = must_open(path);
	audit_close(audit);
	must_hold(path, &chain);
	assert_int_equal(chain.torn, 1);
}

/*
 * The disk fills up at any point of a line: no operation may be done, and the log goes on
 * afterwards.
 */
static void
test_disk_full(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct rlimit before, small;
	struct audit_chain chain;
	struct stat st;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (size_t room = 0; room < 330; room += room + 9 < 320 ? 9 : 1) {
		struct audit *audit = must_open(path);
		struct koda_error err = { 0 };
		uint64_t id = 1;
		bool torn;

		act(audit);
		assert_int_equal(stat(path, &st), 0);
		small = before;
		small.rlim_cur = (rlim_t)st.st_size + room;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		while (audit_intent(audit, &edit, &id, &err) == 0)
			assert_true(small.rlim_cur > (rlim_t)st.st_size);
		assert_int_equal(err.code, KODA_IO);
		assert_int_equal(audit_outcome(audit, id, &edit, &err), -1);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(stat(path, &st), 0);
		torn = (rlim_t)st.st_size == small.rlim_cur && room > 0;
		act(audit);
		audit_close(audit);
		must_hold(path, &chain);
		assert_int_equal(chain.lost, 1);
		assert_true(chain.torn <= (torn ? 1 : 0));
		unlink(path);
	}
	signal(SIGXFSZ, SIG_DFL);
}

/* Logs the outcome of `id` on a disk with so much room. Returns what audit_outcome() does. */
static int
outcome_in(struct audit *audit, const char *path, size_t room, uint64_t id)
{
	struct koda_error err = { 0 };
	struct rlimit before, small;
	struct stat st;
	int r;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = (rlim_t)st.st_size + room;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = audit_outcome(audit, id, &edit, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	return r;
}

/*
 * The disk fills up right before the newline of a line: the line counts, also the losses that it
 * reports, and the next one begins on a line of its own.
 */
static void
test_newline_lost(void **state)
{
	const char *path = proof_path("%s/log", dir);
	bool found = false;

	signal(SIGXFSZ, SIG_IGN);
	for (size_t room = 200; room < 500 && !found; room++) {
		struct audit *audit = must_open(path);
		struct koda_error err = { 0 };
		cleanup_free char *text = NULL;
		struct audit_chain chain;
		uint64_t first, second;
		size_t len;
		int r;

		assert_int_equal(audit_intent(audit, &edit, &first, &err), 0);
		assert_int_equal(audit_intent(audit, &edit, &second, &err), 0);
		assert_int_equal(outcome_in(audit, path, 0, first), -1);
		r = outcome_in(audit, path, room, second);
		text = proof_get_len(path, &len);
		found = len > 2 && memcmp(text + len - 2, "\"}", 2) == 0;
		act(audit);
		audit_close(audit);
		if (found) {
			must_hold(path, &chain);
			assert_int_equal(chain.torn, 0);
			assert_int_equal(chain.intents, 3);
			assert_int_equal(chain.outcomes, 2);
			assert_int_equal(chain.lost, 1);
			assert_int_equal(r, 0);
		}
		unlink(path);
	}
	assert_true(found);
	signal(SIGXFSZ, SIG_DFL);
}

static void
test_changed_by_others(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct audit *audit = must_open(path);
	struct koda_error err = { 0 };
	uint64_t id;
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(audit_intent(audit, &edit, &id, &err), -1);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(audit_intent(audit, &edit, &id, &err), -1);
	close(fd);
	audit_close(audit);
	unlink(path);
	audit = must_open(path);
	unlink(path);
	assert_int_equal(audit_intent(audit, &edit, &id, &err), -1);
	assert_non_null(strstr(err.message, "removed"));
	audit_close(audit);
}

static void
test_killed(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct audit_chain chain;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct audit *audit = must_open(path);
		struct koda_error err;
		uint64_t id;

		act(audit);
		audit_intent(audit, &edit, &id, &err);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	must_hold(path, &chain);
	assert_int_equal(chain.intents, 2);
	assert_int_equal(chain.outcomes, 1);
}

/* ---- where the log may be ---- */

static void
file(const char *path, const char *text, mode_t mode)
{
	proof_put(path, text);
	assert_int_equal(chmod(path, mode), 0);
}

static void
make_below_root(const char *path)
{
	assert_int_equal(symlink("root", path), 0);
}

static void
make_link(const char *path)
{
	file(proof_path("%s/other", dir), "", 0600);
	assert_int_equal(symlink("other", path), 0);
}

static void
make_hard_link(const char *path)
{
	file(proof_path("%s/root/other", dir), "", 0600);
	assert_int_equal(link(proof_path("%s/root/other", dir), path), 0);
}

static void
make_writable(const char *path)
{
	file(path, "", 0622);
}

static void
make_directory(const char *path)
{
	proof_mkdir(path);
}

static void
make_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0600), 0);
}

static void
make_open_directory(const char *path)
{
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
}

static void
make_notes(const char *path)
{
	file(path, "my notes\n", 0600);
}

static void
make_unfinished_notes(const char *path)
{
	file(path, "my notes", 0600);
}

static void
make_nothing(const char *path)
{
}

static const struct {
	const char *label;
	void (*make)(const char *path); /* DIR/it */
	const char *path;               /* below DIR */
	const char *says;
} refused[] = {
	/* clang-format off */
	{ "in the root", make_nothing, "root/log", "which the agent may write" },
	{ "below the root by dots", make_nothing, "root/../root/log", "which the agent may write" },
	{ "below the root by a link", make_below_root, "it/log", "which the agent may write" },
	{ "a link", make_link, "it", "open the audit log" },
	{ "a file with another name", make_hard_link, "it", "has another name" },
	{ "a file that others may write", make_writable, "it", "other users may write it" },
	{ "a directory", make_directory, "it", "open the audit log" },
	{ "a FIFO", make_fifo, "it", "is not a regular file" },
	{ "a directory that everybody may write", make_open_directory, "it/log", "every user can write" },
	{ "a file that is no log", make_notes, "it", "does not end like an audit log" },
	{ "a line that is no log", make_unfinished_notes, "it", "does not end like an audit log" },
	{ "no directory", make_nothing, "none/log", "open the directory" },
	{ "no name", make_nothing, "root/..", "does not end in the name of a file" },
	/* clang-format on */
};

static void
check_refused(void **state)
{
	size_t i = (uintptr_t)*state;
	const char *place = proof_path("%s/root", dir);
	struct koda_error err = { 0 };
	uint64_t before;

	refused[i].make(proof_path("%s/it", dir));
	before = proof_sum(dir);
	assert_null(
	    audit_open(proof_path("%s/%s", dir, refused[i].path), &place, 1, &server, &err));
	if (strstr(err.message, refused[i].says) == NULL)
		fail_msg("it says: %s", err.message);
	assert_int_equal(proof_sum(dir), before);
}

static void
test_one_writer(void **state)
{
	const char *path = proof_path("%s/log", dir);
	struct audit *audit = must_open(path);
	struct koda_error err = { 0 };

	assert_null(audit_open(path, NULL, 0, &server, &err));
	assert_non_null(strstr(err.message, "another server"));
	audit_close(audit);
	audit_close(must_open(path));
}

/*
 * Commands can write to the root on the host. They write to a user's cache through a layer of their
 * own, so a log may be there.
 */
static void
test_places(void **state)
{
	const char *root = proof_path("%s/root", dir), *cache = proof_path("%s/.npm", dir);
	cleanup_free char *home = strdup(getenv("HOME"));
	struct audit_places places = { 0 };
	struct koda_error err = { 0 };
	struct koda_policy *policy;
	struct audit *audit;

	proof_mkdir(cache);
	setenv("HOME", dir, 1);
	policy = koda_policy_for_agent(KODA_AUTO, root, &err);
	assert_non_null(policy);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	if (audit_places_find(root, KODA_AUTO, policy, &places, &err) < 0)
		fail_msg("%s", err.message);
	assert_null(audit_open(proof_path("%s/log", root), (const char *const *)places.path,
	    places.n, &server, &err));
	assert_non_null(strstr(err.message, root));
	audit = audit_open(proof_path("%s/log", cache), (const char *const *)places.path, places.n,
	    &server, &err);
	assert_non_null(audit);
	audit_close(audit);
	audit_places_done(&places);
	koda_policy_free(policy);
	setenv("HOME", home, 1);
}

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, test_##name, set_up, tear_down, NULL                                        \
	}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		CASE(program),
		CASE(continued),
		CASE(torn_anywhere),
		CASE(torn_first_line),
		CASE(newline_lost),
		CASE(disk_full),
		CASE(changed_by_others),
		CASE(killed),
		CASE(one_writer),
		CASE(places),
	};
	struct CMUnitTest tests[N_ELEMENTS(refused) + N_ELEMENTS(others)];

	for (size_t i = 0; i < N_ELEMENTS(refused); i++)
		tests[i] = (struct CMUnitTest){ refused[i].label, check_refused, set_up, tear_down,
			(void *)i };
	memcpy(tests + N_ELEMENTS(refused), others, sizeof(others));
	return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}
