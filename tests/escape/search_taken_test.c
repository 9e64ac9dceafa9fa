/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A search that was taken over by what it searches for: what it tries with its filter, its
 * Landlock domains and its descriptors. Each attempt succeeds here, without them; in the search it
 * is refused or kills the process.
 */
#include "tests/kit/hosting.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/search_attempts.h"

static struct fixture f;

/* A sanitizer's runtime needs these, so the filter of its builds has to allow them. */
static const char *const plain_only[] = { "fork_once", "run_program", "run_file_by_memory",
	"make_code_of_data", "read_host", "be_dumped", "more_files", "ask_for_signal", "limit_host",
	"unnamed", "create", "create_2", "write_file" };

static bool
is_plain_only(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(plain_only); i++)
		if (strcmp(plain_only[i], name) == 0)
			return true;
	return false;
}

static void
lay_ground(void)
{
	put_text(&f, "place/file", "text\n");
	put_text(&f, "place/spare", "");
	if (!exists(&f, "place/spare-dir"))
		assert_int_equal(mkdir(at(&f, "place/spare-dir"), 0755), 0);
}

/* Makes the attempt in an unconfined child; returns 0 if it succeeded. */
static int
try_here(const struct attempt *attempt)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		long r = attempt->run();

		if (r == 0 && strcmp(attempt->name, "fork_once") == 0)
			_exit(0); /* the process that was forked */
		_exit(r >= 0 ? 0 : errno);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
check(void **state)
{
	const struct attempt *attempt = *state;
	char pattern[PATH_MAX + 128];
	const char *const patterns[] = { pattern }, *const paths[] = { "place" };
	const struct koda_search_options o = { .kind = KODA_SEARCH_GREP,
		.patterns = patterns,
		.n_patterns = 1,
		.paths = paths,
		.n_paths = 1 };
	struct koda_search_result result;
	struct koda_error err = { 0 };
	int r;

	lay_ground();
	r = try_here(attempt);
	if (r != 0)
		fail_msg("does no harm here either: %s", strerror(r));
	lay_ground();
	snprintf(pattern, sizeof(pattern), "%s %d %s", attempt->name, (int)getpid(), f.root);
	assert_int_equal(koda_search(f.slot, &o, NULL, NULL, &result, &err), -1);
	if (err.code == KODA_POLICY_DENIED && strncmp(err.message, "refused", 7) == 0)
		return;
	if (err.code == KODA_WORKER && strstr(err.message, "SIGSYS") != NULL)
		return;
	fail_msg("%s: %s", koda_code_name(err.code), err.message);
}

/* Requires that none of the attempts left a trace on the disk. */
static void
nothing_happened(void **state)
{
	static const char *const none[] = { "place/new", "place/new2", "place/new3", "place/d",
		"place/l", "place/n", "place/p" };
	char pattern[PATH_MAX + 128];
	const char *const patterns[] = { pattern }, *const paths[] = { "place" };
	const struct koda_search_options o = { .kind = KODA_SEARCH_GREP,
		.patterns = patterns,
		.n_patterns = 1,
		.paths = paths,
		.n_paths = 1 };
	struct koda_search_result result;
	struct koda_error err;

	lay_ground();
	for (size_t i = 0; i < N_ELEMENTS(none); i++)
		remove(at(&f, none[i]));
	for (size_t i = 0; i < N_ELEMENTS(attempts); i++) {
		if (SANITIZED && is_plain_only(attempts[i].name))
			continue;
		snprintf(pattern, sizeof(pattern), "%s %d %s", attempts[i].name, (int)getpid(),
		    f.root);
		assert_int_equal(koda_search(f.slot, &o, NULL, NULL, &result, &err), -1);
	}
	assert_string_equal(get_text(&f, "place/file"), "text\n");
	assert_true(exists(&f, "place/spare") && exists(&f, "place/spare-dir"));
	for (size_t i = 0; i < N_ELEMENTS(none); i++)
		assert_false(exists(&f, none[i]));
}

static int
prepare(void **state)
{
	fixture_prepare(&f, KODA_AUTO);
	put_search(&f, KODA_TEST_VARIANT_DIR "/koda-fs-search-taken");
	assert_int_equal(mkdir(at(&f, "place"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "beside"), 0755), 0);
	put_text(&f, "beside/secret", "secret\n");
	assert_int_equal(symlink("../beside", at(&f, "place/out")), 0);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	ground.host = getpid();
	snprintf(ground.base, sizeof(ground.base), "%s", f.root);
	ground.place_fd = open(at(&f, "place"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ground.place_fd < 0 ? -1 : 0;
}

static int
clean_up(void **state)
{
	char path[64];

	close(ground.place_fd);
	snprintf(path, sizeof(path), "/tmp/.koda-escape-%d", (int)getpid());
	unlink(path);
	fixture_end(&f);
	return 0;
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(attempts) + 1];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(attempts); i++)
		if (!(SANITIZED && is_plain_only(attempts[i].name)))
			tests[n++] = (struct CMUnitTest){ attempts[i].name, check, NULL, NULL,
				(void *)(uintptr_t)&attempts[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_happened);
	return _cmocka_run_group_tests("searcher", tests, n, prepare, clean_up);
}
