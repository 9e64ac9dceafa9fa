/* SPDX-License-Identifier: Apache-2.0 */
/* Searches through the library: the real koda-fs-search on real trees; what it reports, what it
 * hides, what ends it. */
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/kit/searching.h"

/* ---- what is reported ---- */

static void
globs(void **state)
{
	struct koda_search_options o;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	/* Sorted by the bytes of the whole path: '-' is before '/'. */
	o = (struct koda_search_options){ .kind = KODA_SEARCH_GLOB };
	expect(f.slot, &o, "note.txt\nsrc-x\nsrc/a.c\nsrc/a.h\nsrc/deep/z.c\n");
	expect(f.slot, &GLOB("*.c"), "src/a.c\nsrc/deep/z.c\n");
	expect(f.slot, &GLOB("*.{c,h}", "!deep"), "src/a.c\nsrc/a.h\n");
	expect(f.slot, &GLOB("src/*.c"), "src/a.c\n");
	expect(f.slot, &GLOB("src/**/*.c"), "src/a.c\nsrc/deep/z.c\n");
	/* A glob never leaves the place that is searched. */
	expect(f.slot, &GLOB("/etc/*"), "");
	expect(f.slot, &GLOB("../*"), "");
	o = GLOB("*.c");
	o.paths = STRINGS("src/deep", "src/a.h");
	o.n_paths = 2;
	expect(f.slot, &o, "z.c\n\n");
	o = GLOB("*.C");
	o.flags = KODA_SEARCH_GLOB_IGNORE_CASE | KODA_SEARCH_HIDDEN;
	expect(f.slot, &o, ".hidden/h.c\nsrc/a.c\nsrc/deep/z.c\n");
	o = (struct koda_search_options){ .kind = KODA_SEARCH_GLOB,
		.flags = KODA_SEARCH_NO_IGNORE,
		.max_depth = 1 };
	expect(f.slot, &o, "note.txt\nsrc-x\n");
	o.max_depth = 2;
	expect(f.slot, &o, "note.txt\nout/a.o\nsrc-x\nsrc/a.c\nsrc/a.h\n");
	o = (struct koda_search_options){ .kind = KODA_SEARCH_GLOB,
		.types = STRINGS("h"),
		.n_types = 1 };
	expect(f.slot, &o, "src/a.h\n");
	fixture_end(&f);
}

static void
newest(void **state)
{
	struct koda_search_options o = { .kind = KODA_SEARCH_GLOB, .flags = KODA_SEARCH_NEWEST };
	static const char *const names[] = { "src/a.h", "note.txt", "src/deep/z.c", "src-x",
		"src/a.c" };
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		const struct timespec times[2] = { { 1000000, 0 }, { 2000000 - (time_t)i, 5 } };

		assert_int_equal(utimensat(AT_FDCWD, at(&f, names[i]), times, 0), 0);
	}
	expect(f.slot, &o, "src/a.h\nnote.txt\nsrc/deep/z.c\nsrc-x\nsrc/a.c\n");
	o.limit = 2;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_string_equal(told.text, "src/a.h\nnote.txt\n");
	assert_true(result.more);
	fixture_end(&f);
}

static void
lines(void **state)
{
	struct koda_search_result result;
	struct koda_search_options o;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	o = GREP("int [a-c]");
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_string_equal(told.text,
	    "src-x:1:int after;[0,5]\nsrc/a.c:1:int a;[0,5]\nsrc/a.c:2:int b; int c;[0,5][7,12]\n"
	    "src/a.h:1:int a(void);[0,5]\n");
	assert_int_equal(result.found, 4);
	assert_int_equal(result.matches, 4);
	assert_int_equal(result.files, 5);
	assert_int_equal(result.files_matched, 3);
	assert_false(result.more);
	o = GREP("int b", .before = 1, .after = 1);
	expect(f.slot, &o, "src/a.c-1-int a;\nsrc/a.c:2:int b; int c;[0,5]\nsrc/a.c-3-return;\n");
	o = GREP("INT A", .flags = KODA_SEARCH_IGNORE_CASE | KODA_SEARCH_FIXED | KODA_SEARCH_FILES);
	expect(f.slot, &o, "src-x\nsrc/a.c\nsrc/a.h\n");
	o = GREP("int", .flags = KODA_SEARCH_FILES_WITHOUT);
	expect(f.slot, &o, "note.txt\nsrc/deep/z.c\n");
	o = GREP("int", .flags = KODA_SEARCH_COUNT);
	expect(f.slot, &o, "src-x=1\nsrc/a.c=2\nsrc/a.h=1\n");
	o = GREP("int", .flags = KODA_SEARCH_COUNT_MATCHES);
	expect(f.slot, &o, "src-x=1\nsrc/a.c=3\nsrc/a.h=1\n");
	o = GREP("int", IN("src/a.h"));
	expect(f.slot, &o, ":1:int a(void);[0,3]\n");
	fixture_end(&f);
}

static void
trees(void **state)
{
	struct koda_search_result result;
	struct koda_search_options o = TREE();
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	expect(f.slot, &o,
	    "0 / 70 in 5\n1 note.txt 6\n1 src-x 11\n1 src/ 53 in 3\n2 src/a.c 29\n2 src/a.h 13\n"
	    "2 src/deep/ 11 in 1\n3 src/deep/z.c 11\n");
	o.paths = STRINGS("note.txt", "src/a.h");
	o.n_paths = 2;
	expect(f.slot, &o, "0  6\n0  13\n");
	o = TREE();
	/* The sums include everything below, also what is too deep to be reported. */
	o.max_depth = 1;
	expect(f.slot, &o, "0 / 70 in 5\n1 note.txt 6\n1 src-x 11\n1 src/ 53 in 3\n");
	o.limit = 2;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_string_equal(told.text, "0 / 70 in 5\n1 note.txt 6\n");
	assert_true(result.more);
	fixture_end(&f);
}

/* The limit is exact: if there are as many results as the limit, there are no more. */
static void
limits(void **state)
{
	struct koda_search_options o = GREP("int");
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	o.limit = 4;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_int_equal(result.found, 4);
	assert_false(result.more);
	o.limit = 3;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_int_equal(result.found, 3);
	assert_int_equal(told.n, 3);
	assert_true(result.more);
	fixture_end(&f);
}

/* ---- what is not reported ---- */

static void
denied(void **state)
{
	struct koda_search_options o;
	struct koda_search_result result;
	struct koda_policy *policy;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	make_dir(&f, "secret");
	make_dir(&f, "secret/open");
	put_text(&f, "secret/key", "token\n");
	put_text(&f, "secret/open/key", "token\n");
	put_text(&f, "open", "token\n");
	put_text(&f, "one", "token\n");
	assert_int_equal(symlink("secret", at(&f, "link")), 0);
	policy = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_non_null(policy);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_READ, at(&f, "secret"), &err), 0);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_READ, at(&f, "one"), &err), 0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	f.options.policy = policy;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	o = GREP("token");
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_string_equal(told.text, "open:1:token[0,5]\n");
	assert_int_equal(result.hidden, 2);
	expect(f.slot, &TREE(), "0 / 6 in 2\n1 link 0\n1 open 6\n");
	/* A hidden path named directly or through a link is refused, as for any read. */
	expect_refused(f.slot, &GREP("token", IN("secret")), KODA_POLICY_DENIED, "deny_read");
	expect_refused(f.slot, &GREP("token", IN("link")), KODA_POLICY_DENIED, "deny_read");
	expect_refused(f.slot, &GREP("token", IN("link/key")), KODA_POLICY_DENIED, "deny_read");
	expect_refused(f.slot, &GREP("token", IN("secret/nothing")), KODA_POLICY_DENIED,
	    "deny_read");
	o = GREP("token", IN("open", "one"));
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_non_null(strstr(told.text, ":1:token[0,5]\ntrouble 1 : "));
	assert_non_null(strstr(told.text, "deny_read"));
	koda_session_close(take_ptr(&f.ses));
	/* A hole in the rule is searched, and nothing beside it. */
	koda_policy_free(policy);
	policy = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_READ, at(&f, "secret"), &err), 0);
	assert_int_equal(koda_policy_add(policy, KODA_ALLOW_READ_WITHIN_DENY, at(&f, "secret/open"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	f.options.policy = policy;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(f.slot, &GREP("token"),
	    "one:1:token[0,5]\nopen:1:token[0,5]\nsecret/open/key:1:token[0,5]\n");
	koda_policy_free(policy);
	fixture_end(&f);
}

/* Names beside a hole cannot be guessed letter by letter, neither from the counts nor from which
 * files have an effect. */
static void
beside_hole(void **state)
{
	const struct koda_search_options asked[] = { GLOB("secret/k*"), GLOB("secret/q*"),
		GLOB("secret/key/"), GLOB("secret/?"),
		GREP("token", .types = STRINGS("c"), .n_types = 1), { .kind = KODA_SEARCH_TREE },
		{ .kind = KODA_SEARCH_GLOB, .flags = KODA_SEARCH_HIDDEN } };
	struct koda_search_result result;
	struct koda_policy *policy;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	make_dir(&f, "secret");
	make_dir(&f, "secret/.git");
	make_dir(&f, "secret/open");
	put_text(&f, "secret/key", "token\n");
	put_text(&f, "secret/d.c", "token\n");
	put_text(&f, "secret/.ignore", "seen\n");
	put_text(&f, "secret/open/.gitignore", "seen\n");
	put_text(&f, "secret/open/seen", "token\n");
	policy = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_READ, at(&f, "secret"), &err), 0);
	assert_int_equal(koda_policy_add(policy, KODA_ALLOW_READ_WITHIN_DENY, at(&f, "secret/open"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	f.options.policy = policy;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	for (size_t i = 0; i < N_ELEMENTS(asked); i++) {
		assert_int_equal(search(f.slot, &asked[i], &result, &err), KODA_OK);
		if (result.hidden != 1)
			fail_msg("%zu: %llu are hidden", i, (unsigned long long)result.hidden);
	}
	/* Ignore files beside the hole have no effect, and the hole is not in a repository. */
	expect(f.slot, &GREP("token"), "secret/open/seen:1:token[0,5]\n");
	expect(f.slot, &GREP("token", IN("secret/open")), "seen:1:token[0,5]\n");
	koda_policy_free(policy);
	fixture_end(&f);
}

/* Special files are not opened, and links are not followed. */
static void
odd_things(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct koda_search_options o = GREP("int");
	struct koda_search_result result;
	char loud[] = "int \n \xff";
	struct koda_error err;
	struct fixture f;
	int s, dir;

	start_project(&f, KODA_AUTO, false);
	assert_int_equal(mkfifo(at(&f, "fifo"), 0666), 0);
	assert_int_equal(symlink("/etc", at(&f, "etc")), 0);
	assert_int_equal(symlink(".", at(&f, "self")), 0);
	assert_int_equal(symlink("src/a.h", at(&f, "to-file")), 0);
	dir = open(f.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/socket", dir);
	assert_int_equal(bind(s, (struct sockaddr *)&sun, sizeof(sun)), 0);
	put_file(at(&f, "name\nwith \xff"), loud, sizeof(loud) - 1);
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	assert_non_null(strstr(told.text, "name\nwith \xff:1:int [0,3]\n"));
	assert_null(strstr(told.text, "self"));
	assert_null(strstr(told.text, "etc"));
	assert_null(strstr(told.text, "to-file"));
	expect_refused(f.slot, &GREP("x", IN("fifo")), KODA_INVALID, "neither a file nor");
	expect_refused(f.slot, &GREP("x", IN("socket")), KODA_INVALID, "neither a file nor");
	expect_refused(f.slot, &GREP("x", IN("/proc/self/environ")), KODA_POLICY_DENIED, "");
	expect_refused(f.slot, &GREP("x", IN("missing")), KODA_IO, "missing");
	expect(f.slot, &GREP("int", IN("to-file")), ":1:int a(void);[0,3]\n");
	close(s);
	close(dir);
	fixture_end(&f);
}

static void
unreadable(void **state)
{
	struct koda_search_result result;
	struct koda_search_options o = GREP("int");
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	assert_int_equal(chmod(at(&f, "src/deep"), 0), 0);
	assert_int_equal(chmod(at(&f, "src/a.h"), 0), 0);
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	/* Root can read them anyway. */
	assert_int_equal(result.troubles, geteuid() == 0 ? 0 : 2);
	if (geteuid() != 0) {
		assert_non_null(strstr(told.text, "trouble 0 src/a.h: Permission denied\n"));
		assert_non_null(strstr(told.text, "trouble 0 src/deep: Permission denied\n"));
	}
	assert_int_equal(chmod(at(&f, "src/deep"), 0755), 0);
	fixture_end(&f);
}

static void
nonsense(void **state)
{
	struct fixture f;

	start_project(&f, KODA_PLAN, false);
	expect_refused(f.slot, &GREP("a("), KODA_INVALID, "");
	expect_refused(f.slot, &GREP("a\nb"), KODA_INVALID, "");
	expect_refused(f.slot, &GLOB("a[b"), KODA_INVALID, "a[b");
	expect(f.slot, &GREP("plain"), "note.txt:1:plain[0,5]\n");
	fixture_end(&f);
}

static void
no_helper(void **state)
{
	char path[PATH_MAX];
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/koda-fs-search", f.helpers);
	assert_int_equal(unlink(path), 0);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect_refused(f.slot, &GREP("x"), KODA_UNSUPPORTED, "make install");
	fixture_end(&f);
}

static void
deadline(void **state)
{
	struct koda_search_options o = long_search;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	put_burden(&f);
	o.timeout_ms = 200;
	expect_refused(f.slot, &o, KODA_TIMEOUT, "200 ms");
	for (uint64_t end = clock_ms() + PATIENCE_MS; searching_process() != 0;) {
		assert_true(clock_ms() < end);
		blink();
	}
	fixture_end(&f);
}

/* A pattern that explodes is reported soon, and does not disturb other searches. */
static void
explodes(void **state)
{
	static const char *const patterns[] = { "(a+)+$", "(a|a)*b$",
		"^(([a-z])+.)+[A-Z]([a-z])+$" };
	char line[64 << 10];
	struct fixture f;
	int exploded = 0;

	start_project(&f, KODA_AUTO, false);
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 2] = '!';
	line[sizeof(line) - 1] = '\n';
	put_file(at(&f, "long"), line, sizeof(line));
	put_text(&f, "short", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n");
	for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
		const char *const *p = &patterns[i];
		const char *const files[] = { "short", "long" };

		for (size_t k = 0; k < N_ELEMENTS(files); k++) {
			const struct koda_search_options o = { .kind = KODA_SEARCH_GREP,
				.patterns = p,
				.n_patterns = 1,
				.paths = &files[k],
				.n_paths = 1 };
			struct koda_search_result result;
			struct koda_error err;
			const uint64_t before = clock_ms();
			enum koda_code code = search(f.slot, &o, &result, &err);

			/* Some searches end and find nothing, because a part that the pattern
			 * needs is not there. */
			if (code != KODA_TOO_LARGE && (code != KODA_OK || result.found > 0))
				fail_msg("%s in %s: %s %s", *p, files[k], koda_code_name(code),
				    err.message);
			exploded += code == KODA_TOO_LARGE;
			/* The limit is a second of processor time; a sanitizer build and a busy
			 * machine need more. */
			assert_true(clock_ms() - before < PATIENCE_MS / 2);
		}
	}
	assert_true(exploded > 0);
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	fixture_end(&f);
}

/* Neither the number of steps nor the depth is too large, but the cost of a single step is: the
 * time limit ends the search, just as soon. */
static void
takes_for_ever(void **state)
{
	enum { LINE = 4 << 20, CLASSES = 400 };
	static const char one[] = "[\\x{0}-\\x{10ffff}]";
	static char pattern[sizeof("(?i)") + CLASSES * sizeof(one)] = "(?i)";
	cleanup_free char *line = malloc(LINE);
	struct fixture f;
	uint64_t began;

	start_project(&f, KODA_AUTO, false);
	assert_non_null(line);
	memset(line, 'a', LINE);
	put_file(at(&f, "long"), line, LINE);
	began = clock_ms();
	expect_refused(f.slot, &GREP("a(?=.*[yz])b?", IN("long")), KODA_TOO_LARGE,
	    "matching the pattern takes too long");
	for (int i = 0; i < CLASSES; i++)
		strcat(pattern, one);
	expect_refused(f.slot, &GREP(pattern, IN("note.txt")), KODA_TOO_LARGE,
	    "compiling the pattern takes too long");
	assert_true(clock_ms() - began < PATIENCE_MS);
	fixture_end(&f);
}

/* On such a line PCRE2 would check all the rest of the line for each match. */
static void
long_broken_line(void **state)
{
	enum { LINE = 2 << 20 };
	struct koda_search_options o =
	    GREP("[ac]", IN("broken"), .flags = KODA_SEARCH_COUNT_MATCHES);
	cleanup_free char *line = malloc(LINE);
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	assert_non_null(line);
	for (size_t i = 0; i < LINE; i++)
		line[i] = i % 2 == 0 ? 'a' : 'b';
	line[LINE - 1] = (char)0xff;
	put_file(at(&f, "broken"), line, LINE);
	expect(f.slot, &o, "=1048576\n");
	/* If the pattern is not ASCII, the line has to be read as characters: the search is
	 * ended early. */
	expect_refused(f.slot, &GREP("[a\xc3\xa4]", IN("broken")), KODA_TOO_LARGE,
	    "takes too long");
	fixture_end(&f);
}

static struct fixture *changing;

static int
kill_and_change(void *data, const struct koda_found *f)
{
	int pid;

	if (++next_line == 100000 && (pid = searching_process()) > 0) {
		put_text(changing, "many", "0\n1\n");
		assert_int_equal(kill(pid, SIGKILL), 0);
	}
	return 0;
}

/* Results already reported are no longer true: the search fails with a conflict. */
static void
killed_and_changed(void **state)
{
	struct koda_search_options o = GREP("^[0-9]", IN("many"));
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	put_many(&f);
	changing = &f;
	next_line = 0;
	assert_int_equal(koda_search(f.slot, &o, kill_and_change, NULL, &result, &err), -1);
	assert_code(&err, KODA_CONFLICT);
	fixture_end(&f);
}

/* ---- callbacks ---- */

static struct koda_search *doomed;

static void
free_in_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind != KODA_EVENT_DEATH)
		return;
	koda_search_free(doomed);
	doomed = NULL;
}

/* The search is freed while the library handles the death of its process: the library
 * frees it after that, and does not call on_over(). */
static void
freed_in_event(void **state)
{
	struct koda_search_options o = long_search;
	struct koda_error err;
	struct fixture f;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_burden(&f);
	put_text(&f, "note.txt", "plain\n");
	f.options.event = free_in_event;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	told.over = false;
	assert_non_null(doomed = koda_search_start(f.slot, &o, on_found, on_over, &told, &err));
	assert_int_equal(koda_search_wait(doomed, 50, &err), 0);
	assert_true((pid = searching_process()) > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (doomed != NULL)
		assert_true(koda_session_dispatch(f.ses, 1000, &err) >= 0);
	assert_int_equal(koda_session_dispatch(f.ses, 0, &err), 0);
	assert_false(told.over);
	wait_gone(pid);
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	fixture_end(&f);
}

static void
stopped(void **state)
{
	struct koda_search_options o = GREP("int");
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	told.stop_after = 2;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	told.stop_after = 0;
	assert_int_equal(told.n, 2);
	assert_true(result.more);
	assert_int_equal(result.found, 2);
	fixture_end(&f);
}

static void
asynchronous(void **state)
{
	struct koda_search_options o = GREP("int");
	struct koda_search_result result;
	struct koda_search *s;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	memset(&told, 0, sizeof(told));
	s = koda_search_start(f.slot, &o, on_found, on_over, &told, &err);
	assert_non_null(s);
	assert_int_equal(koda_search_result(s, &result, &err), -1);
	while (koda_session_dispatch(f.ses, PATIENCE_MS, &err) > 0)
		;
	assert_true(told.over);
	assert_int_equal(koda_search_wait(s, 0, &err), 1);
	assert_int_equal(koda_search_result(s, &result, &err), 0);
	assert_int_equal(result.found, 4);
	koda_search_free(s);
	fixture_end(&f);
}

static struct fixture *acted_on;
static struct koda_search *victims[2];

static void
free_both(struct told *t)
{
	for (int i = 0; i < 2; i++)
		koda_search_free(take_ptr(&victims[i]));
}

static void
release_slot(struct told *t)
{
	koda_slot_release(take_ptr(&acted_on->slot));
}

static void
free_waited_for(struct told *t)
{
	koda_search_free(take_ptr(&victims[0]));
}

/* A callback frees the search while the caller waits for it. */
static void
freed_while_waited_for(void **state)
{
	struct koda_search_options o = GREP("int");
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, false);
	memset(&told, 0, sizeof(told));
	told.then = free_waited_for;
	assert_non_null(victims[0] = koda_search_start(f.slot, &o, on_found, NULL, &told, &err));
	assert_int_equal(koda_search_wait(victims[0], PATIENCE_MS, &err), 1);
	assert_int_equal(told.n, 1);
	memset(&told, 0, sizeof(told));
	fixture_end(&f);
}

static void
close_session(struct told *t)
{
	koda_session_close(take_ptr(&acted_on->ses));
}

/* A callback may free its search and others, release the slot, or close the session. */
static void
from_inside(void **state)
{
	void (*const acts[])(struct told *) = { free_both, release_slot, close_session };
	struct koda_search_options o = GREP("^[0-9]", IN("many"));

	for (size_t i = 0; i < N_ELEMENTS(acts); i++) {
		struct koda_error err;
		struct fixture f;

		start_project(&f, KODA_AUTO, false);
		put_many(&f);
		memset(&told, 0, sizeof(told));
		told.then = acts[i];
		acted_on = &f;
		for (int k = 0; k < 2; k++)
			assert_non_null(victims[k] = koda_search_start(f.slot, &o, on_found, NULL,
					    &told, &err));
		for (uint64_t end = clock_ms() + PATIENCE_MS; told.n == 0 && clock_ms() < end;)
			assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
		assert_true(told.n > 0);
		for (int k = 0; k < 2; k++)
			koda_search_free(take_ptr(&victims[k]));
		fixture_end(&f);
	}
	memset(&told, 0, sizeof(told));
}

/* In a forked child the searches belong to the parent: the child may close, and the parent's
 * search goes on. */
static void
forked(void **state)
{
	struct koda_search_options o = GREP("^[0-9]", IN("many"));
	struct koda_search_result result;
	struct koda_search *s;
	struct koda_error err;
	struct fixture f;
	int status;
	pid_t pid;

	start_project(&f, KODA_AUTO, false);
	put_many(&f);
	next_line = 0;
	kills_left = 0;
	s = koda_search_start(f.slot, &o, in_order, NULL, NULL, &err);
	assert_non_null(s);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const bool refused = koda_search_wait(s, 0, &err) < 0;

		koda_search_free(s);
		koda_session_close(f.ses);
		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(koda_search_wait(s, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_search_result(s, &result, &err), 0);
	assert_int_equal(next_line, MANY);
	koda_search_free(s);
	/* In the other order, and with on_over(), which must not run in the child. */
	memset(&told, 0, sizeof(told));
	s = koda_search_start(f.slot, &o, NULL, on_over, &told, &err);
	assert_non_null(s);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		koda_session_close(f.ses);
		koda_search_free(s);
		_exit(told.over ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(koda_search_wait(s, PATIENCE_MS, &err), 1);
	koda_search_free(s);
	fixture_end(&f);
}

static int
count_type(void *data, const char *name, const char *const *globs_)
{
	int *n = data;

	assert_non_null(globs_[0]);
	(*n)++;
	return strcmp(name, "c") == 0 ? 7 : 0;
}

static void
types(void **state)
{
	int n = 0;

	assert_int_equal(koda_search_types(count_type, &n), 7);
	assert_true(n > 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(globs),
		cmocka_unit_test(newest),
		cmocka_unit_test(lines),
		cmocka_unit_test(trees),
		cmocka_unit_test(limits),
		cmocka_unit_test(denied),
		cmocka_unit_test(beside_hole),
		cmocka_unit_test(odd_things),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(no_helper),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(deadline),
		cmocka_unit_test(beside),
		cmocka_unit_test(explodes),
		cmocka_unit_test(takes_for_ever),
		cmocka_unit_test(long_broken_line),
		cmocka_unit_test(killed),
		cmocka_unit_test(killed_and_changed),
		cmocka_unit_test(freed_in_event),
		cmocka_unit_test(stopped),
		cmocka_unit_test(asynchronous),
		cmocka_unit_test(from_inside),
		cmocka_unit_test(freed_while_waited_for),
		cmocka_unit_test(forked),
		cmocka_unit_test(types),
	};

	return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
