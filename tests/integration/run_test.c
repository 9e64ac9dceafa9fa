/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'koda-sandbox run' and 'shell' as people and programs use them: real processes, real pipes, real
 * terminals, the real sandbox. After each case nothing of it may be left: no process, no mount, no
 * file.
 */
#include "tests/kit/cases.h"
#include "tests/kit/run_scene.h"

/* ---- the exit status ---- */

struct ending {
	const char *label;
	int status;
	const char *says; /* expected on standard error, or NULL */
	const char *args[10];
};

#define AUTO "run", "--mode", "auto"

static const struct ending endings[] = {
	/* clang-format off */
	{ "status 0", 0, NULL, { AUTO, "--", "true" } },
	{ "status 1", 1, NULL, { AUTO, "--", "false" } },
	{ "status 7, by a shell", 7, NULL, { AUTO, "-c", "exit 7" } },
	{ "status 255", 255, NULL, { AUTO, "-c", "exit 255" } },
	{ "the command needs no --", 3, NULL, { AUTO, "sh", "-c", "exit 3" } },
	{ "-c and its text in one word", 4, NULL, { AUTO, "-cexit 4" } },
	{ "options of the command are its own", 0, NULL, { AUTO, "test", "--json", "=", "--json" } },
	{ "SIGKILL", 128 + SIGKILL, NULL, { AUTO, "-c", "kill -KILL $$" } },
	{ "SIGTERM", 128 + SIGTERM, NULL, { AUTO, "-c", "kill -TERM $$" } },
	{ "SIGSEGV", 128 + SIGSEGV, NULL, { AUTO, "-c", "kill -SEGV $$" } },
	{ "its time was over", 124, "wall_time_secs", { AUTO, "--timeout", "0.3", "--", "sleep", "60" } },
	{ "its time was over, and it does not mind", 124, "wall_time_secs",
	    { AUTO, "--timeout", "0.2", "-c", "trap '' TERM; while :; do sleep 1; done" } },
	{ "a file size limit", 128 + SIGXFSZ, "max_file_bytes",
	    { AUTO, "-c", "ulimit -f 1; exec dd if=/dev/zero of=big bs=4096 count=9 status=none" } },
	{ "no such command", 127, "No such file", { AUTO, "--", "koda-no-such-command" } },
	{ "no such command, by path", 127, "No such file", { AUTO, "--", "./koda-no-such-command" } },
	{ "no such command, in a shell", 127, NULL, { AUTO, "-c", "koda-no-such-command" } },
	{ "an empty name", 127, "No such file", { AUTO, "--", "" } },
	{ "not executable", 126, "Permission denied", { AUTO, "--", "./plain" } },
	{ "a directory", 126, "Permission denied", { AUTO, "--", "/etc" } },
	{ "a script that does not say for whom", 5, NULL, { AUTO, "--", "./script" } },
	{ "the root is not there", 125, "the root", { "run", "--root", "missing", "--", "true" } },
	{ "nobody to ask", 3, "run it in a terminal, or with --mode auto", { "run", "--no-draft", "--", "true" } },
	{ "nobody to ask about no sandbox", 3, "NO SANDBOX", { "run", "--no-sandbox", "--", "true" } },
	{ "no sandbox in plan", 3, "plan mode runs nothing without", { "run", "--mode", "plan", "--no-sandbox", "--", "true" } },
	{ "no sandbox in auto", 3, "auto mode runs nothing without", { AUTO, "--no-sandbox", "--", "true" } },
	{ "plan asks nobody", 0, NULL, { "run", "--mode", "plan", "--", "true" } },
	{ "plan changes nothing", 1, "file_write", { "run", "--mode", "plan", "--", "touch", "new" } },
	{ "usage: nothing", 2, "run needs -c", { "run" } },
	{ "usage: -c and a command", 2, "not both", { "run", "-c", "true", "--", "true" } },
	{ "usage: -c twice", 2, "twice", { "run", "-c", "true", "-c", "true" } },
	{ "usage: -c without", 2, "needs a value", { "run", "-c" } },
	{ "usage: a terminal and none", 2, "--tty cannot be combined with --no-tty", { "run", "--tty", "--no-tty", "--", "true" } },
	{ "usage: JSON on a terminal", 2, "--json cannot be combined with --tty", { "run", "--tty", "--json", "--", "true" } },
	{ "usage: no time", 2, "greater than 0", { "run", "--timeout", "0", "--", "true" } },
	{ "usage: no number", 2, "a number of seconds", { "run", "--timeout", "1s", "--", "true" } },
	{ "usage: a shell with words", 2, "unexpected argument 'ls'", { "shell", "ls" } },
	{ "usage: a shell as JSON", 2, "shell cannot be combined with --json", { "shell", "--json" } },
	/* clang-format on */
};

static void
test_ending(void **state)
{
	const struct ending *e = *state;
	char program[PATH_MAX + 32], path[2 * PATH_MAX], *argv[ARGS_MAX];
	struct run r = { .in = END_NULL };
	size_t n = 0;

	put_text("plain", "echo no\n");
	put_text("script", "exit 5\n");
	snprintf(path, sizeof(path), "%s/script", project);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	argv[n++] = program;
	for (size_t i = 0; i < N_ELEMENTS(e->args) && e->args[i] != NULL; i++)
		argv[n++] = (char *)e->args[i];
	argv[n] = NULL;
	run_v(&r, argv);
	ended(&r, e->status);
	if (e->status != 2)
		is(OUT(&r), "");
	if (e->says != NULL && strcmp(e->says, "file_write") == 0)
		has(ERR(&r), "deny file-write*");
	else if (e->says != NULL)
		has(ERR(&r), e->says);
	else
		has_not(ERR(&r), "koda-sandbox");
	run_done(&r);
}

static void
test_setup_fails(void **state)
{
	char lonely[PATH_MAX + 32];
	struct run r = { .in = END_NULL, .bin = lonely }, json = { .in = END_NULL, .bin = lonely };
	struct run safe = { .in = END_TERMINAL, .controlling = true, .bin = lonely };
	json_t *o;

	/* Installed without stage2: no command is run. */
	snprintf(lonely, sizeof(lonely), "%s/scene/half/bin", prefix);
	process_shell(
	    "mkdir -p \"$1\" \"$1/../libexec/koda-sandbox\"; cp \"$2/bin/koda-sandbox\" \"$1\"; "
	    "cp \"$2/libexec/koda-sandbox/koda-fs-worker\" \"$1/../libexec/koda-sandbox\"",
	    lonely, prefix, NULL);
	go(&r, AUTO, "-c", "echo ran; touch ran", NULL);
	ended(&r, 88);
	is(OUT(&r), "");
	has(ERR(&r), "stage2");
	go(&json, AUTO, "--json", "-c", "touch ran", NULL);
	ended(&json, 88);
	o = parse(&json);
	assert_string_equal(text_at(json_object_get(o, "error"), "code", NULL), "unsupported");
	json_decref(o);
	/* Safe mode also reports the missing sandbox, and runs no command without it. */
	go(&safe, "run", "-c", "touch ran", NULL);
	ended(&safe, 88);
	has(ERR(&safe), "koda-sandbox: ");
	assert_int_equal(access("ran", F_OK), -1);
	process_shell("test ! -e \"$1/ran\"", project, NULL, NULL);
	run_done(&r);
	run_done(&json);
	run_done(&safe);
}

/* ---- standard input, output and error ---- */

static void
test_pipes(void **state)
{
	struct bytes content = { 0 };
	struct run r = { 0 };
	uint32_t x = 1;

	for (size_t i = 0; i < 1000003; i++) {
		char c;

		x = x * 1664525 + 1013904223;
		c = (char)(x >> 24);
		append(&content, &c, 1);
	}
	r.input = content.data;
	r.input_len = content.len;
	go(&r, AUTO, "--", "cat", NULL);
	ended(&r, 0);
	assert_int_equal(OUT(&r)->len, content.len);
	assert_memory_equal(OUT(&r)->data, content.data, content.len);
	is(ERR(&r), "");
	free(content.data);
	run_done(&r);
}

static void
test_pipe_is_passed_on(void **state)
{
	struct run r = { .in = END_NULL };
	char want[32];

	GO(&r, "stat -L -c %i /proc/self/fd/1");
	ended(&r, 0);
	snprintf(want, sizeof(want), "%llu\n", (unsigned long long)r.out_inode);
	is(OUT(&r), want);
	run_done(&r);
}

static void
test_file_is_passed_on(void **state)
{
	struct run r = { .in = END_NULL, .out = END_FILE };
	char want[64];

	GO(&r, "stat -L -c %i /proc/self/fd/1; echo more");
	ended(&r, 0);
	snprintf(want, sizeof(want), "%llu\nmore\n", (unsigned long long)r.out_inode);
	file_is("out", want);
	run_done(&r);
}

static void
test_null_is_passed_on(void **state)
{
	struct run r = { .in = END_NULL, .out = END_NULL };

	GO(&r, "test -c /dev/fd/1 && test -c /dev/fd/0 && echo said >&2");
	ended(&r, 0);
	is(ERR(&r), "said\n");
	run_done(&r);
}

static void
test_socket_is_not(void **state)
{
	struct run r = { .in = END_SOCKET, .out = END_SOCKET, .err = END_SOCKET };

	r.input = "from a socket\n";
	r.input_len = strlen(r.input);
	GO(&r, "for i in 0 1 2; do test -p /dev/fd/$i || exit 9; done; cat; echo said >&2");
	ended(&r, 0);
	is(OUT(&r), "from a socket\n");
	is(ERR(&r), "said\n");
	run_done(&r);
}

static void
test_directory_is_not(void **state)
{
	struct run r = { .in = END_DIRECTORY };

	GO(&r, "test ! -d /dev/fd/0 && cat");
	ended(&r, 0);
	is(OUT(&r), "");
	run_done(&r);
}

static void
test_file_as_input(void **state)
{
	struct run plain = { .in = END_FILE }, protected_ = { .in = END_FILE };

	put_text("in", "content\n");
	GO(&plain, "test -f /dev/fd/0 && cat");
	ended(&plain, 0);
	is(OUT(&plain), "content\n");

	/*
	 * If commands may not write the file, it is passed as a pipe: they could open the file
	 * again through its descriptor.
	 */
	process_shell("cd \"$1\"; mkdir -p .git/hooks; echo hook >.git/hooks/pre-commit; rm in; "
		      "ln -s .git/hooks/pre-commit in",
	    project, NULL, NULL);
	GO(&protected_, "test -p /dev/fd/0 && cat; echo planted >/proc/self/fd/0; true");
	ended(&protected_, 0);
	is(OUT(&protected_), "hook\n");
	file_is(".git/hooks/pre-commit", "hook\n");
	run_done(&plain);
	run_done(&protected_);
}

/* What a command can do to a file that is its standard output; then it writes to it. */
#define SPOIL                                                                                      \
	"python3 -c '\nimport fcntl, os\n"                                                         \
	"for f in (lambda: os.fchmod(1, 0o777), lambda: os.chmod(\"/proc/self/fd/1\", 0o777),\n"   \
	"          lambda: fcntl.fcntl(1, fcntl.F_SETFL, 0), lambda: os.ftruncate(1, 0),\n"        \
	"          lambda: os.pwrite(1, b\"harm\", 0), lambda: os.lseek(1, 0, 0)):\n"              \
	"    try: f()\n"                                                                           \
	"    except OSError: pass\n"                                                               \
	"'; echo one; echo two >&2; echo three"

static mode_t
mode_of(const char *name)
{
	char path[2 * PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", project, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* A file that the command may write is its own; to any other one it can only append. */
static void
test_file_as_output(void **state)
{
	struct run own = { .in = END_NULL, .out = END_FILE };
	struct run plan = { .in = END_NULL, .out = END_FILE };
	struct run big = { .in = END_NULL, .out = END_FILE };

	GO(&own, SPOIL);
	ended(&own, 0);
	assert_int_equal(mode_of("out"), 0777);
	process_shell("rm \"$1/out\"", project, NULL, NULL);
	go(&plan, "run", "--mode", "plan", "-c", SPOIL, NULL);
	ended(&plan, 0);
	assert_int_not_equal(mode_of("out"), 0777);
	file_is("out", "one\nthree\n");
	is(ERR(&plan), "two\n");
	go(&big, "run", "--mode", "plan", "-c", "yes | head -c 3000000; exit 4", NULL);
	ended(&big, 4);
	process_shell("test \"$(stat -c %s \"$1/out\")\" = 3000000", project, NULL, NULL);
	run_done(&own);
	run_done(&plan);
	run_done(&big);
}

static void
test_closed_input(void **state)
{
	struct run r = { .in = END_CLOSED };

	go(&r, AUTO, "--", "cat", NULL);
	ended(&r, 1);
	has(ERR(&r), "Bad file descriptor");
	run_done(&r);
}

static void
test_closed_output(void **state)
{
	struct run r = { .in = END_NULL, .out = END_CLOSED };

	go(&r, AUTO, "--", "/bin/echo", "hello", NULL);
	ended(&r, 1);
	has(ERR(&r), "Bad file descriptor");
	run_done(&r);
}

static void
test_input_is_not_eaten(void **state)
{
	struct run r = { .input = "for the next\n", .input_len = 13, .keeps_input = true };

	/* 'while read x; do koda-sandbox run ...; done' goes on with the next line. */
	go(&r, AUTO, "--", "sh", "-c", "read x", NULL);
	ended(&r, 0);
	run_done(&r);
	r = (struct run){ .input = "for the next\n", .input_len = 13, .keeps_input = true };
	go(&r, AUTO, "--", "true", NULL);
	ended(&r, 0);
	assert_int_equal(r.input_left, 13);
	run_done(&r);
}

static void
test_order(void **state)
{
	struct run r = { .in = END_NULL, .err = END_OUTPUT }, file = r;

	GO(&r, "for i in 1 2 3; do echo o$i; echo e$i >&2; done; echo x >/etc/koda-test");
	assert_int_not_equal(r.status, 0);
	assert_int_equal(strncmp(OUT(&r)->data, "o1\ne1\no2\ne2\no3\ne3\n", 18), 0);
	has(OUT(&r), "<sandbox_violations>\ndeny file-write* /etc/koda-test\n");
	file.out = END_FILE;
	GO(&file, "for i in 1 2 3; do echo o$i; echo e$i >&2; done");
	ended(&file, 0);
	file_is("out", "o1\ne1\no2\ne2\no3\ne3\n");
	run_done(&r);
	run_done(&file);
}

static void
test_reader_gone(void **state)
{
	struct run r = { .in = END_NULL, .out = END_NOBODY };
	struct run both = { .in = END_NULL, .out = END_NOBODY, .err = END_OUTPUT };

	go(&r, AUTO, "--", "yes", NULL);
	ended(&r, 128 + SIGPIPE);
	/* Here koda-sandbox forwards the output, and the command still gets SIGPIPE. */
	go(&both, AUTO, "--", "yes", NULL);
	ended(&both, 128 + SIGPIPE);
	run_done(&r);
	run_done(&both);
}

static void
test_flood(void **state)
{
	struct run r = { .in = END_NULL };

	GO(&r, "head -c 20000000 /dev/zero >&2; echo done >&2");
	ended(&r, 0);
	assert_int_equal(ERR(&r)->len, 20000005);
	run_done(&r);
}

/* ---- what was refused ---- */

static void
test_violations(void **state)
{
	struct run r = { .in = END_NULL }, none = { .in = END_NULL };

	GO(&r, "touch /etc/koda-test; echo x >\"$HOME/.bashrc\"; true");
	ended(&r, 0);
	has(ERR(&r), "<sandbox_violations>\n");
	has(ERR(&r), "deny file-write* /etc/koda-test\n");
	has(ERR(&r), "/.bashrc\n");
	has(ERR(&r), "</sandbox_violations>\n");
	is(OUT(&r), "");
	GO(&none, "ls /etc/koda-test-nothing; echo fine; exit 5");
	ended(&none, 5);
	has_not(ERR(&none), "sandbox_violations");
	run_done(&r);
	run_done(&none);
}

/* ---- JSON ---- */

static void
test_json(void **state)
{
	struct run r = { .input = "in\n", .input_len = 3 };
	json_t *o, *v;

	go(&r, AUTO, "--json", "--", "sh", "-c", "cat; echo bad >&2; touch /etc/koda-test; exit 4",
	    NULL);
	ended(&r, 4);
	is(ERR(&r), "");
	o = parse(&r);
	assert_true(json_is_true(json_object_get(o, "ok")));
	assert_int_equal(number_at(o, "status", NULL), 4);
	assert_int_equal(number_at(o, "signal", NULL), 0);
	assert_true(json_is_null(json_object_get(o, "limit")));
	assert_string_equal(text_at(o, "stdout", "head"), "in\n");
	assert_string_equal(text_at(o, "stdout", "tail"), "");
	assert_int_equal(number_at(o, "stdout", "left_out"), 0);
	assert_int_equal(number_at(o, "stdout", "total"), 3);
	assert_int_equal(strncmp(text_at(o, "stderr", "head"), "bad\n", 4), 0);
	v = json_array_get(json_object_get(o, "violations"), 0);
	assert_string_equal(text_at(v, "kind", NULL), "file_write");
	assert_string_equal(text_at(v, "target", NULL), "/etc/koda-test");
	assert_true(json_is_real(json_object_get(v, "time")));
	assert_true(json_is_false(json_object_get(v, "certain")));
	assert_true(number_at(o, "usage", "wall_us") > 0);
	assert_true(number_at(o, "usage", "max_rss_kib") > 0);
	assert_true(number_at(o, "usage", "user_us") >= 0);
	assert_true(number_at(o, "usage", "system_us") >= 0);
	assert_int_equal(number_at(o, "left_behind", NULL), 0);
	assert_int_equal(json_array_size(json_object_get(o, "command")), 3);
	assert_string_equal(text_at(o, "root", NULL), project);
	assert_string_equal(text_at(o, "cwd", NULL), project);
	assert_string_equal(text_at(o, "mode", NULL), "auto");
	json_decref(o);
	run_done(&r);
}

static void
test_json_signal(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o;

	go(&r, AUTO, "--json", "-c", "kill -KILL $$", NULL);
	ended(&r, 137);
	o = parse(&r);
	assert_int_equal(number_at(o, "status", NULL), 137);
	assert_int_equal(number_at(o, "signal", NULL), SIGKILL);
	assert_string_equal(text_at(o, "signal_name", NULL), "SIGKILL");
	assert_string_equal(text_at(o, "shell", NULL), "kill -KILL $$");
	json_decref(o);
	run_done(&r);
}

static void
test_json_timeout(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o;

	go(&r, AUTO, "--json", "--timeout", "0.5", "-c", "echo before; echo there >&2; sleep 60",
	    NULL);
	ended(&r, 124);
	o = parse(&r);
	assert_string_equal(text_at(o, "limit", NULL), "wall_time_secs");
	assert_string_equal(text_at(o, "stdout", "head"), "before\n");
	assert_string_equal(text_at(o, "stderr", "head"), "there\n");
	json_decref(o);
	run_done(&r);
}

static void
test_json_cut(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o;
	json_int_t left_out;

	/* Characters of two bytes, so that the cut may fall into one. */
	go(&r, AUTO, "--json", "-c",
	    "printf first; yes \xc3\xa9\xc3\xa9 | head -c 5000000 | tr -d '\\n'; printf last",
	    NULL);
	ended(&r, 0);
	o = parse(&r);
	left_out = number_at(o, "stdout", "left_out");
	assert_true(left_out > 0);
	assert_string_equal(text_at(o, "limit", NULL), "max_output_bytes");
	assert_int_equal(strncmp(text_at(o, "stdout", "head"), "first", 5), 0);
	has(&(struct bytes){ .data = (char *)text_at(o, "stdout", "tail") }, "last");
	assert_true(json_is_false(json_object_get(json_object_get(o, "stdout"), "lossy")));
	assert_true(number_at(o, "stdout", "total") > left_out);
	json_decref(o);
	run_done(&r);
}

static void
test_json_bytes(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o;

	go(&r, AUTO, "--json", "-c", "printf '\\377\\000x'", NULL);
	ended(&r, 0);
	o = parse(&r);
	assert_true(json_is_true(json_object_get(json_object_get(o, "stdout"), "lossy")));
	assert_string_equal(text_at(o, "stdout", "head_base64"), "/wB4");
	json_decref(o);
	run_done(&r);
}

static void
test_json_errors(void **state)
{
	static const struct {
		const char *args[8], *code;
		int status;
	} cases[] = {
		{ { AUTO, "--json", "--", "koda-no-such-command" }, "io", 127 },
		{ { "run", "--json", "--no-draft", "--", "true" }, "not_approved", 3 },
		{ { "run", "--json" }, "usage", 2 },
		{ { "run", "--json", "--root", "missing", "--", "true" }, "io", 125 },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const char *const *a = cases[i].args;
		struct run r = { .in = END_NULL };
		json_t *o;

		go(&r, a[0], a[1], a[2], a[3], a[4], a[5], a[6], NULL);
		ended(&r, cases[i].status);
		o = parse(&r);
		assert_true(json_is_false(json_object_get(o, "ok")));
		assert_string_equal(text_at(json_object_get(o, "error"), "code", NULL),
		    cases[i].code);
		json_decref(o);
		run_done(&r);
	}
}

/* ---- what is left, what stays ---- */

static void
test_left_behind(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o;

	go(&r, AUTO, "--json", "-c", "sleep 1000 & setsid sleep 1000 & echo hi", NULL);
	ended(&r, 0);
	o = parse(&r);
	assert_int_equal(number_at(o, "left_behind", NULL), 2);
	assert_string_equal(text_at(o, "stdout", "head"), "hi\n");
	json_decref(o);
	run_done(&r);
}

static void
test_verbose(void **state)
{
	struct run r = { .in = END_NULL };

	assert_int_equal(setenv("HTTPS_PROXY", "http://user:secret@proxy.example:8080", 1), 0);
	go(&r, AUTO, "--verbose", "-c", "env", NULL);
	assert_int_equal(unsetenv("HTTPS_PROXY"), 0);
	ended(&r, 0);
	has_not(OUT(&r), "secret");
	has_not(ERR(&r), "secret");
	has(ERR(&r), "is ready: Landlock ABI ");
	has(ERR(&r), " s user, ");
	run_done(&r);
}

/* ---- where ---- */

static void
test_place(void **state)
{
	static const char *const names[] = { "sub", "with a space", "qu'ote\"s", "new\nline",
		"gr\xc3\xbc\xc3\x9f", "bytes\xff\xfe", "$HOME", "-n" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		char dir[2 * PATH_MAX], want[2 * PATH_MAX + 2];
		struct run below = { .in = END_NULL, .cwd = dir };
		struct run root = { .in = END_NULL, .cwd = dir };
		struct run elsewhere = { .in = END_NULL, .cwd = "/" };

		snprintf(dir, sizeof(dir), "%s/%s", project, names[i]);
		assert_int_equal(mkdir(dir, 0755), 0);
		snprintf(want, sizeof(want), "%s\n", dir);
		/* Below the root, the command runs in the current directory. */
		go(&below, AUTO, "--root", "..", "-c", "pwd; echo x >new", NULL);
		ended(&below, 0);
		is(OUT(&below), want);
		/* The root may have any name. */
		go(&root, AUTO, "-c", "pwd; cat new; echo y >../outside", NULL);
		process_shell("test ! -e \"$1/outside\" && rm \"$2/new\"", project, dir, NULL);
		assert_int_equal(strncmp(OUT(&root)->data, want, strlen(want)), 0);
		/* From outside the root, the command starts in the root. */
		go(&elsewhere, AUTO, "--root", dir, "--", "pwd", NULL);
		ended(&elsewhere, 0);
		is(OUT(&elsewhere), want);
		run_done(&below);
		run_done(&root);
		run_done(&elsewhere);
	}
}

/* ---- signals ---- */

#define WAIT_LOOP "echo ready; while :; do sleep 0.02; done"

static const struct {
	const char *name;
	int signo;
} passed_on[] = {
	{ "INT", SIGINT },
	{ "TERM", SIGTERM },
	{ "HUP", SIGHUP },
	{ "QUIT", SIGQUIT },
	{ "USR1", SIGUSR1 },
	{ "USR2", SIGUSR2 },
};

static void
test_signal(void **state)
{
	size_t i = (size_t)*state;
	char text[128];
	struct run handled = { .in = END_NULL,
		.steps = { { "ready", .signo = passed_on[i].signo } } };
	struct run kills = { .in = END_NULL,
		.steps = { { "ready", .signo = passed_on[i].signo } } };

	snprintf(text, sizeof(text), "trap 'echo got; exit 9' %s; " WAIT_LOOP, passed_on[i].name);
	GO(&handled, text);
	ended(&handled, 9);
	is(OUT(&handled), "ready\ngot\n");
	GO(&kills, WAIT_LOOP);
	ended(&kills, 128 + passed_on[i].signo);
	run_done(&handled);
	run_done(&kills);
}

static void
test_signal_twice(void **state)
{
	struct run r = { .in = END_NULL,
		.steps = { { "ready", .signo = SIGINT }, { "ready", .signo = SIGTERM } } };

	GO(&r, "trap '' INT TERM; " WAIT_LOOP);
	ended(&r, 128 + SIGKILL);
	run_done(&r);
}

static void
test_killed(void **state)
{
	struct run r = { .in = END_NULL, .steps = { { "ready", .signo = SIGKILL } } };

	/* remove_project() checks after each case that nothing is left. */
	GO(&r, "sleep 1000 & " WAIT_LOOP);
	ended(&r, -SIGKILL);
	run_done(&r);
}

/* ---- terminals ---- */

#define ON_TERMINAL                                                                                \
	.in = END_TERMINAL, .out = END_TERMINAL, .err = END_TERMINAL, .controlling = true

static void
test_tty_own(void **state)
{
	struct run r = { ON_TERMINAL };

	/* Safe mode: typing the command approves it. */
	go(&r, "run", "-c",
	    "test -t 0 && test -t 1 && test -t 2 && stty size && echo through >/dev/tty", NULL);
	ended(&r, 0);
	is(TTY(&r), "33 101\r\nthrough\r\n");
	run_done(&r);
}

static void
test_tty_size(void **state)
{
	struct run r = { ON_TERMINAL, .steps = { { "ready", .rows = 40, .columns = 120 } } };

	GO(&r, "trap 'stty size; exit 0' WINCH; " WAIT_LOOP);
	ended(&r, 0);
	has(TTY(&r), "40 120\r\n");
	run_done(&r);
}

static const struct {
	const char *label, *key;
	int status;
} keys[] = {
	{ "Ctrl-C", "\003", 128 + SIGINT },
	{ "Ctrl-backslash", "\034", 128 + SIGQUIT },
};

static void
test_tty_key(void **state)
{
	size_t i = (size_t)*state;
	struct run r = { ON_TERMINAL, .steps = { { "ready", .type = keys[i].key } } };

	GO(&r, "echo ready; exec sleep 1000");
	ended(&r, keys[i].status);
	run_done(&r);
}

static void
test_tty_input(void **state)
{
	struct run r = { ON_TERMINAL, .steps = { { "ready", .type = "hello\n\004" } } };
	struct run raw = { ON_TERMINAL, .steps = { { "ready", .type = "\003" } } };

	GO(&r, "echo ready; cat");
	ended(&r, 0);
	has(TTY(&r), "hello\r\nhello\r\n");
	/*
	 * The line discipline of the command's terminal decides what a key means, not that of ours.
	 */
	GO(&raw,
	    "stty raw -echo; echo ready; dd bs=1 count=1 status=none | od -An -tx1; stty sane");
	ended(&raw, 0);
	has(TTY(&raw), " 03");
	run_done(&r);
	run_done(&raw);
}

static void
test_tty_drained(void **state)
{
	struct run r = { ON_TERMINAL };

	for (size_t i = 0; i < 20; i++) {
		go(&r, AUTO, "--", "seq", "1", "20000", NULL);
		ended(&r, 0);
		assert_true(TTY(&r)->len > 8);
		assert_string_equal(TTY(&r)->data + TTY(&r)->len - 7, "20000\r\n");
		assert_int_equal(TTY(&r)->len, 108894 + 20000);
		run_done(&r);
		r = (struct run){ ON_TERMINAL };
	}
}

static void
test_tty_signal(void **state)
{
	/* Not SIGSEGV: a sanitizer's runtime handles it itself. */
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGILL, SIGALRM };

	for (size_t i = 0; i < N_ELEMENTS(signals); i++) {
		struct run r = { ON_TERMINAL, .steps = { { "ready", .signo = signals[i] } } };
		bool ours = signals[i] != SIGINT && signals[i] != SIGTERM && signals[i] != SIGHUP;

		/*
		 * The signal is passed on; one that kills koda-sandbox still leaves the terminal as
		 * it was.
		 */
		GO(&r, WAIT_LOOP);
		ended(&r, ours ? -signals[i] : 128 + signals[i]);
		run_done(&r);
	}
}

static void
test_tty_stop(void **state)
{
	struct run r = { ON_TERMINAL,
		.steps = { { "ready", .signo = SIGTSTP }, { "ready", .stop_and_go = true },
		    { "ready", .type = "\003" } } };

	GO(&r, "echo ready; exec sleep 1000");
	ended(&r, 128 + SIGINT);
	run_done(&r);
}

static void
test_tty_hang_up(void **state)
{
	struct run r = { ON_TERMINAL, .steps = { { "ready", .hang_up = true } } };

	GO(&r, WAIT_LOOP);
	assert_int_not_equal(r.status, 0);
	run_done(&r);
}

static void
test_tty_some(void **state)
{
	struct run out = { .out = END_TERMINAL, .err = END_TERMINAL, .controlling = true };
	struct run in = { .in = END_TERMINAL,
		.controlling = true,
		.steps = { { "ready", .type = "line\n\004" } } };
	struct run err = { .in = END_TERMINAL, .out = END_TERMINAL, .controlling = true };

	out.input = "piped\n";
	out.input_len = 6;
	GO(&out, "test ! -t 0 && test -t 1 && test -t 2 && stty size <&1 && cat");
	ended(&out, 0);
	is(TTY(&out), "33 101\r\npiped\r\n");
	/* In 'run -- make | less' it is less that uses the terminal. */
	GO(&in, "test ! -t 0 && test ! -t 1 && echo ready && cat");
	ended(&in, 0);
	is(OUT(&in), "ready\nline\n");
	GO(&err, "test -t 0 && test -t 1 && test ! -t 2 && echo apart >&2");
	ended(&err, 0);
	is(ERR(&err), "apart\n");
	run_done(&out);
	run_done(&in);
	run_done(&err);
}

static void
test_tty_options(void **state)
{
	struct run none = { ON_TERMINAL };
	struct run always = { .input = "line\n", .input_len = 5 };
	struct run partial = { .input = "no end", .input_len = 6 };

	go(&none, AUTO, "--no-tty", "-c", "test ! -t 0 && test ! -t 1 && test ! -t 2 && echo pipes",
	    NULL);
	ended(&none, 0);
	is(TTY(&none), "pipes\r\n");
	go(&always, AUTO, "--tty", "-c", "test -t 0 && test -t 1 && stty -echo && cat", NULL);
	ended(&always, 0);
	has(OUT(&always), "line\r\n");
	go(&partial, AUTO, "--tty", "--", "cat", NULL);
	ended(&partial, 0);
	has(OUT(&partial), "no end");
	run_done(&none);
	run_done(&always);
	run_done(&partial);
}

static void
test_tty_escapes(void **state)
{
	struct run r = { ON_TERMINAL }, pipe_ = { .in = END_NULL };

	GO(&r,
	    "printf '\\033]52;c;ZXZpbA==\\007\\033]0;title\\033\\\\\\033[21t\\033[1;31mred\\033[0m\\n'");
	ended(&r, 0);
	is(TTY(&r), "\033[1;31mred\033[0m\r\n");
	/* Output that does not go to a terminal is not filtered. */
	GO(&pipe_, "printf '\\033]0;title\\007'");
	is(OUT(&pipe_), "\033]0;title\007");
	run_done(&r);
	run_done(&pipe_);
}

static void
test_shell(void **state)
{
	struct run r = { ON_TERMINAL,
		.steps = { { .type = "PS1=''; echo is-$((40 + 2)); touch made\n" },
		    { "is-42", .type = "exit 5\n" } } };

	assert_int_equal(setenv("SHELL", "/nowhere/evil-shell", 1), 0);
	go(&r, "shell", "--no-draft", NULL);
	assert_int_equal(unsetenv("SHELL"), 0);
	ended(&r, 5);
	process_shell("test -e \"$1/made\"", project, NULL, NULL);
	run_done(&r);
}

static void
test_shell_nobody(void **state)
{
	struct run r = { .in = END_NULL };

	go(&r, "shell", "--no-draft", NULL);
	ended(&r, 3);
	run_done(&r);
}

/* ---- asking ---- */

static void
test_ask(void **state)
{
	struct run yes = { .input = "piped\n",
		.input_len = 6,
		.controlling = true,
		.steps = { { "[y/N] ", .type = "y\n" } } };
	struct run no = { .in = END_NULL,
		.controlling = true,
		.steps = { { "[y/N] ", .type = "n\n" } } };

	/*
	 * Standard input is not the terminal, so the command does not count as typed there. But
	 * there is a user to ask.
	 */
	go(&yes, "run", "--no-draft", "--", "cat", "-", NULL);
	ended(&yes, 0);
	is(OUT(&yes), "piped\n");
	has(TTY(&yes), "run in '");
	has(TTY(&yes), "    cat -\r\n");
	go(&no, "run", "--no-draft", "-c", "touch made\n\033[2Ktouch other", NULL);
	ended(&no, 3);
	has(TTY(&no), "touch made");
	has(TTY(&no), "\\x1b[2Ktouch other");
	has_not(TTY(&no), "\033");
	process_shell("test ! -e \"$1/made\"", project, NULL, NULL);
	run_done(&yes);
	run_done(&no);
}

/* A hostile command cannot push text out of sight or make it look like something else. */
static void
test_ask_hostile(void **state)
{
	struct run cut = { .in = END_NULL,
		.controlling = true,
		.steps = { { "[y/N] ", .type = "s\n" } } };
	struct run blanks = { .in = END_NULL,
		.controlling = true,
		.steps = { { "[y/N] ", .type = "n\n" } } };
	char script[8192], *p = script;

	for (int i = 0; i < 600; i++)
		p += sprintf(p, ":\n");
	sprintf(p, "touch made");
	go(&cut, "run", "--no-draft", "-c", script, NULL);
	/* Approval for the session is not an option. */
	ended(&cut, 3);
	has(TTY(&cut), "koda-sandbox: NOT ALL OF THIS IS SHOWN");
	assert_true(
	    strstr(TTY(&cut)->data, "NOT ALL") < strstr(TTY(&cut)->data, "koda-sandbox: run in '"));
	has(TTY(&cut), "[... 201 lines are left out here ...]");
	has(TTY(&cut), "touch made");
	go(&blanks, "run", "--no-draft", "-c",
	    "ls"
	    "                                                                                ; rm x\n"
	    "\n\n\n\n\n\n\n\n\n\n\xd1\x81url\xc2\xa0\xe2\x80\x8b x",
	    NULL);
	ended(&blanks, 3);
	has(TTY(&blanks), "ls[80 spaces]; rm x");
	has(TTY(&blanks), "[6 more empty lines]");
	has(TTY(&blanks), "\xd1\x81url\\u{a0}\\u{200b}[mixed scripts] x");
	has_not(TTY(&blanks), "NOT ALL");
	run_done(&cut);
	run_done(&blanks);
}

/* ---- the network ---- */

/*
 * Through the proxy, although it is this machine: nothing listens at that port, and no rule names
 * it.
 */
#define FETCH "curl -s -o /dev/null --noproxy '' -w '%{http_code}\\n' http://localhost:1/"

static void
test_ask_host(void **state)
{
	static const struct {
		const char *answer;
		unsigned questions;
		const char *says; /* in the first report */
	} rows[] = {
		/* The host leads to this machine, which is refused after all. */
		{ "o\n", 2, "loopback" },
		{ "once\n", 2, "loopback" },
		{ "s\n", 1, "loopback" },
		{ "n\n", 1, "the user has not approved it" },
		{ "\n", 1, "the user has not approved it" },
		{ "yes, all of them\n", 1, "the user has not approved it" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct run r = { .in = END_NULL,
			.controlling = true,
			.steps = { { "[y/N] ", .type = "y\n" },
			    { "[N]o ", .type = rows[i].answer } } };

		if (rows[i].questions > 1)
			r.steps[2] = (struct step){ "[N]o ", .times = 2, .type = rows[i].answer };
		go(&r, "run", "--no-draft", "-c", FETCH "; " FETCH, NULL);
		ended(&r, 0);
		is(OUT(&r), "403\n403\n");
		has(TTY(&r), FETCH);
		has(TTY(&r), "wants to reach 'localhost:1'");
		has(ERR(&r), rows[i].says);
		assert_int_equal(times_said(&r, "[N]o "), rows[i].questions);
		run_done(&r);
	}
}

/* A refusal is reported, once in words, even if the command ignored it. */
static void
test_network(void **state)
{
	struct run r = { .in = END_NULL };

	GO(&r, FETCH "; " FETCH "; curl -s -o /dev/null https://evil.example; true");
	ended(&r, 0);
	is(OUT(&r), "403\n403\n");
	has(ERR(&r),
	    "deny network-outbound localhost:1\ndeny network-outbound localhost:1\n"
	    "deny network-outbound evil.example:443\n");
	has(ERR(&r), "koda-sandbox: evil.example:443 is refused");
	assert_int_equal(times_said(&r, "koda-sandbox: localhost:1 is refused"), 1);
	run_done(&r);
}

static void
test_json_network(void **state)
{
	struct run r = { .in = END_NULL }, none = { .in = END_NULL };
	json_t *o, *v;

	go(&r, AUTO, "--json", "-c", FETCH, NULL);
	ended(&r, 0);
	o = parse(&r);
	assert_int_equal(json_array_size(json_object_get(o, "connections")), 1);
	v = json_array_get(json_object_get(o, "connections"), 0);
	assert_string_equal(text_at(v, "protocol", NULL), "http");
	assert_string_equal(text_at(v, "host", NULL), "localhost");
	assert_int_equal(number_at(v, "port", NULL), 1);
	assert_string_equal(text_at(v, "verdict", NULL), "denied");
	assert_string_equal(text_at(v, "rule", NULL), "allowed_domains");
	assert_int_equal(number_at(v, "bytes_up", NULL), 0);
	assert_int_equal(number_at(v, "bytes_down", NULL), 0);
	assert_true(number_at(v, "duration_ms", NULL) >= 0);
	assert_true(json_is_false(json_object_get(v, "open")));
	v = json_array_get(json_object_get(o, "violations"), 0);
	assert_string_equal(text_at(v, "kind", NULL), "network_outbound");
	assert_string_equal(text_at(v, "target", NULL), "localhost:1");
	assert_true(json_is_true(json_object_get(v, "certain")));
	json_decref(o);
	go(&none, AUTO, "--json", "-c", "true", NULL);
	o = parse(&none);
	assert_true(json_is_array(json_object_get(o, "connections")));
	assert_int_equal(json_array_size(json_object_get(o, "connections")), 0);
	json_decref(o);
	run_done(&r);
	run_done(&none);
}

/* An unusable proxy is reported before anything runs; its password is not printed. */
static void
test_upstream(void **state)
{
	struct run r = { .in = END_NULL };

	setenv("HTTPS_PROXY", "ftp://user:hunter2@proxy.example", 1);
	GO(&r, "touch ran");
	unsetenv("HTTPS_PROXY");
	assert_int_not_equal(r.status, 0);
	has(ERR(&r), "HTTPS_PROXY");
	has_not(ERR(&r), "hunter2");
	process_shell("test ! -e \"$1/ran\"", project, NULL, NULL);
	run_done(&r);
}

static void
test_no_sandbox(void **state)
{
	struct run r = { ON_TERMINAL }, late = { ON_TERMINAL }, missing = { ON_TERMINAL },
		   limits = { ON_TERMINAL };
	char text[PATH_MAX + 32];

	/* Outside the root, where no sandboxed command could write. */
	snprintf(text, sizeof(text), "echo x >'%s/loose'; exit 3", home);
	go(&r, "run", "--no-sandbox", "-c", text, NULL);
	ended(&r, 3);
	has(TTY(&r), "NO SANDBOX");
	process_shell("rm \"$1/loose\"", home, NULL, NULL);
	go(&late, "run", "--no-sandbox", "--timeout", "0.2", "--", "sleep", "60", NULL);
	ended(&late, 124);
	has(TTY(&late), "wall_time_secs");
	go(&missing, "run", "--no-sandbox", "--", "koda-no-such-command", NULL);
	ended(&missing, 127);
	/* The mode's limits that can apply to one process. */
	go(&limits, "run", "--no-sandbox", "-c",
	    "echo $(ulimit -n) $(ulimit -c) $(ulimit -f); test \"$(ulimit -u)\" != unlimited",
	    NULL);
	ended(&limits, 0);
	has(TTY(&limits), "4096 0 8388608");
	run_done(&limits);
	run_done(&r);
	run_done(&late);
	run_done(&missing);
}

/* ---- explain, policy ---- */

static void
test_explain(void **state)
{
	static const struct {
		const char *access, *path;
		bool worker, command;
	} cases[] = {
		{ "write", "file", true, true },
		{ "write", ".git/hooks/pre-commit", false, false },
		{ "write", "/etc/passwd", false, false },
		{ "read", "/etc/passwd", true, true },
	};

	process_shell("mkdir -p \"$1/.git/hooks\"; echo 'ref: refs/heads/main' >\"$1/.git/HEAD\"",
	    project, NULL, NULL);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct run r = { .in = END_NULL };
		json_t *o, *command;

		go(&r, "--json", "--mode", "auto", "explain", cases[i].access, cases[i].path, NULL);
		ended(&r, cases[i].worker ? 0 : 3);
		o = parse(&r);
		command = json_object_get(o, "command");
		assert_int_equal(json_is_true(json_object_get(o, "allowed")), cases[i].worker);
		assert_int_equal(json_is_true(json_object_get(command, "allowed")),
		    cases[i].command);
		json_decref(o);
		run_done(&r);
	}
}

/* doctor tries the real sandbox in a directory of its own, and nothing of that stays. */
static void
test_doctor(void **state)
{
	struct run r = { .in = END_NULL };

	go(&r, "doctor", NULL);
	ended(&r, 0);
	has(OUT(&r), "This machine has everything that auto mode needs.");
	process_shell("! ls \"$1/.local/state/koda-sandbox/quarantine\" | grep koda-doctor", home,
	    NULL, NULL);
	run_done(&r);
}

static void
test_policy(void **state)
{
	struct run plain = { .in = END_NULL }, json = { .in = END_NULL };
	json_t *o, *argument;
	bool unshared = false;
	size_t i;

	go(&plain, "policy", "--mode", "auto", NULL);
	ended(&plain, 0);
	has(OUT(&plain), "--ro-bind / /");
	has(OUT(&plain), "# ");
	has(OUT(&plain), project);
	go(&json, "policy", "--mode", "auto", "--json", NULL);
	ended(&json, 0);
	o = parse(&json);
	json_array_foreach(json_object_get(o, "sandbox"), i, argument)
	{
		if (strcmp(text_at(argument, "argument", NULL), "--unshare-user") == 0)
			unshared = true;
	}
	assert_true(unshared);
	json_decref(o);
	run_done(&plain);
	run_done(&json);
}

/* ---- quarantine ---- */

static void
test_quarantine(void **state)
{
	struct run plant = { .in = END_NULL }, list = { .in = END_NULL }, back = { .in = END_NULL };
	struct run again = { .in = END_NULL }, none = { .in = END_NULL };
	struct run links = { .in = END_NULL }, list2 = { .in = END_NULL },
		   back2 = { .in = END_NULL };
	const char *name;
	json_t *o, *one;

	GO(&plant,
	    "mkdir -p new/.git/hooks new/.git/objects new/.git/refs; "
	    "echo 'ref: refs/heads/main' >new/.git/HEAD; echo evil >new/.git/hooks/pre-commit; "
	    "chmod +x new/.git/hooks/pre-commit");
	process_shell("test ! -e \"$1/new/.git/hooks/pre-commit\"", project, NULL, NULL);
	go(&list, "quarantine", "list", "--json", NULL);
	ended(&list, 0);
	o = parse(&list);
	one = json_array_get(json_object_get(o, "quarantined"), 0);
	name = text_at(one, "name", NULL);
	assert_non_null(name);
	has(&(struct bytes){ .data = (char *)text_at(one, "path", NULL) }, "/new/.git/hooks");
	go(&back, "quarantine", "restore", name, NULL);
	ended(&back, 0);
	process_shell(
	    "test -x \"$1/new/.git/hooks/pre-commit\" && grep -q evil \"$1/new/.git/hooks/pre-commit\"",
	    project, NULL, NULL);
	go(&again, "quarantine", "restore", name, NULL);
	ended(&again, 1);
	go(&none, "quarantine", "restore", "../../x", NULL);
	ended(&none, 1);
	/* A link in a directory is kept in the record, since workers make no links. */
	GO(&links,
	    "mkdir -p two/.git/hooks/d two/.git/objects two/.git/refs; "
	    "echo 'ref: refs/heads/main' >two/.git/HEAD; ln -s ../../evil two/.git/hooks/d/link");
	go(&list2, "quarantine", "list", "--json", NULL);
	ended(&list2, 0);
	json_decref(o);
	o = parse(&list2);
	one = json_array_get(json_object_get(o, "quarantined"), 0);
	assert_non_null(one);
	assert_string_equal(text_at(one, "type", NULL), "directory");
	go(&back2, "quarantine", "restore", text_at(one, "name", NULL), NULL);
	ended(&back2, 0);
	process_shell("test \"$(readlink \"$1/two/.git/hooks/d/link\")\" = ../../evil", project,
	    NULL, NULL);
	run_done(&links);
	run_done(&list2);
	run_done(&back2);
	json_decref(o);
	run_done(&plant);
	run_done(&list);
	run_done(&back);
	run_done(&again);
	run_done(&none);
}

/* ---- the program ---- */

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_setup_fails),
		TEST(test_pipes),
		TEST(test_pipe_is_passed_on),
		TEST(test_file_is_passed_on),
		TEST(test_null_is_passed_on),
		TEST(test_socket_is_not),
		TEST(test_directory_is_not),
		TEST(test_file_as_input),
		TEST(test_file_as_output),
		TEST(test_closed_input),
		TEST(test_closed_output),
		TEST(test_input_is_not_eaten),
		TEST(test_order),
		TEST(test_reader_gone),
		TEST(test_flood),
		TEST(test_violations),
		TEST(test_json),
		TEST(test_json_signal),
		TEST(test_json_timeout),
		TEST(test_json_cut),
		TEST(test_json_bytes),
		TEST(test_json_errors),
		TEST(test_left_behind),
		TEST(test_verbose),
		TEST(test_place),
		TEST(test_signal_twice),
		TEST(test_killed),
		TEST(test_tty_own),
		TEST(test_tty_size),
		TEST(test_tty_input),
		TEST(test_tty_drained),
		TEST(test_tty_signal),
		TEST(test_tty_stop),
		TEST(test_tty_hang_up),
		TEST(test_tty_some),
		TEST(test_tty_options),
		TEST(test_tty_escapes),
		TEST(test_shell),
		TEST(test_shell_nobody),
		TEST(test_ask),
		TEST(test_ask_hostile),
		TEST(test_ask_host),
		TEST(test_network),
		TEST(test_json_network),
		TEST(test_upstream),
		TEST(test_no_sandbox),
		TEST(test_explain),
		TEST(test_policy),
		TEST(test_doctor),
		TEST(test_quarantine),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(endings) + N_ELEMENTS(passed_on) +
	    N_ELEMENTS(keys)];
	char labels[N_ELEMENTS(passed_on)][32];
	size_t n = 0;

	if (!has_inotify())
		return skip_all(NO_INOTIFY);
	/*
	 * The test may be started with some signals ignored (nohup); its children begin as a shell
	 * would start them.
	 */
	for (int signo = 1; signo < SIGRTMIN; signo++)
		signal(signo, SIG_DFL);
	for (size_t i = 0; i < N_ELEMENTS(endings); i++)
		tests[n++] = (struct CMUnitTest){ endings[i].label, test_ending, make_project,
			remove_project, (void *)&endings[i] };
	for (size_t i = 0; i < N_ELEMENTS(passed_on); i++) {
		snprintf(labels[i], sizeof(labels[i]), "SIG%s is passed on", passed_on[i].name);
		tests[n++] = (struct CMUnitTest){ labels[i], test_signal, make_project,
			remove_project, (void *)i };
	}
	for (size_t i = 0; i < N_ELEMENTS(keys); i++)
		tests[n++] = (struct CMUnitTest){ keys[i].label, test_tty_key, make_project,
			remove_project, (void *)i };
	OTHERS(single);
	return cmocka_run_group_tests_name("run", tests, make_installation, remove_installation);
}
