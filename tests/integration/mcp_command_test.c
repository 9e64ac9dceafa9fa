/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of an MCP client: real ones, in the kernel sandbox, through a real server. */
#include "tests/kit/cases.h"
#include "tests/kit/family.h"
#include "tests/kit/mcp.h"
#include "tests/kit/sanitized.h"

#define OUT "result.structuredContent.stdout.text"
#define ERR "result.structuredContent.stderr.text"
#define AT  "result.structuredContent."

static json_t *
command_args(const char *command)
{
	return json_pack("{s:s}", "command", command);
}

static json_t *
run(struct client *c, const char *command)
{
	return call_tool(c, "run_command", command_args(command));
}

static void
expect_run(struct client *c, const char *command, int status, const char *out)
{
	json_t *message = run(c, command);

	went_well(message);
	counts(message, AT "exit_code", status);
	says(message, OUT, out);
	json_decref(message);
}

/* For conditions that a test has to poll. */
static void
pause_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000L * ms }, NULL);
}

static void
wait_for_file(const char *name)
{
	const uint64_t until = clock_ms() + PATIENCE_MS;

	while (access(at_root(name), F_OK) < 0) {
		if (clock_ms() > until)
			fail_msg("'%s' does not come", name);
		pause_ms(5);
	}
}

/* Waits until `n` live processes of that name exist below the server. */
static void
wait_for_processes(pid_t pid, const char *name, size_t n)
{
	const uint64_t until = clock_ms() + PATIENCE_MS;

	while (family_count(pid, name, NULL) != n) {
		if (clock_ms() > until)
			fail_msg("%zu of '%s', not %zu", family_count(pid, name, NULL), name, n);
		pause_ms(5);
	}
}

/* ---- what a result is ---- */

static const struct result {
	const char *label, *mode, *args;
	const char *want[4]; /* each must occur in the answer */
} results[] = {
	/* clang-format off */
	{ "out, err and a status", "auto", "{\"command\":\"echo out; echo err >&2; exit 3\"}",
	    { "\"stdout\":{\"text\":\"out\\n\"}", "\"stderr\":{\"text\":\"err\\n\"}", "\"exit_code\":3", "out\\n[stderr]\\nerr\\n[exit code 3, " } },
	{ "nothing at all", "auto", "{\"command\":\"true\"}", { "\"exit_code\":0", "\"text\":\"[exit code 0, ", "\"running\":false" } },
	{ "a signal", "auto", "{\"command\":\"kill -9 $$\"}", { "\"exit_code\":137", "\"signal\":9", "[ended by signal 9" } },
	{ "a timeout", "auto", "{\"command\":\"sleep 600\",\"timeout\":1}", { "\"limit\":\"wall_time_secs\"", "\"signal\":15", "limit wall_time_secs" } },
	{ "a timeout beyond all bounds", "auto", "{\"command\":\"true\",\"timeout\":9000000000000000000}", { "\"exit_code\":0" } },
	{ "a directory", "auto", "{\"command\":\"pwd\",\"cwd\":\"d/..//d\"}", { "/project/d\\n\"}" } },
	{ "a directory by a link", "auto", "{\"command\":\"pwd -P\",\"cwd\":\"link\"}", { "/project/d\\n\"}" } },
	{ "no such program", "auto", "{\"command\":\"no-such-program\"}", { "\"exit_code\":127" } },
	{ "bytes that are no text", "auto", "{\"command\":\"printf 'a\\\\000b\\\\377c'\"}", { "\"text\":\"a\xef\xbf\xbd" "b\xef\xbf\xbd" "c\"" } },
	{ "what the sandbox refuses", "auto", "{\"command\":\"echo x >/etc/koda-test\"}",
	    { "\"violations\":[{\"kind\":\"file_write\",\"target\":\"/etc/koda-test\"", "<sandbox_violations>\\ndeny file-write* /etc/koda-test" } },
	{ "processes left behind", "auto", "{\"command\":\"sleep 600 >/dev/null 2>&1 & true\"}", { "\"left_behind\":1", "1 process left behind" } },
	{ "a directory that is not there", "auto", "{\"command\":\"true\",\"cwd\":\"none\"}", { "\"isError\":true", "\"code\":\"invalid\"", "none" } },
	{ "a directory outside", "auto", "{\"command\":\"true\",\"cwd\":\"..\"}", { "\"isError\":true", "above the root" } },
	{ "a directory outside by a link", "auto", "{\"command\":\"true\",\"cwd\":\"out\"}", { "\"isError\":true", "not below the root" } },
	{ "no command", "auto", "{}", { "\"isError\":true", "'command' is missing" } },
	{ "an empty command", "auto", "{\"command\":\"\"}", { "\"isError\":true", "command: is empty" } },
	{ "a command with a NUL", "auto", "{\"command\":\"a\\u0000b\"}", { "\"isError\":true", "command: contains a NUL" } },
	{ "a command as words", "auto", "{\"command\":[\"true\"]}", { "\"isError\":true", "command: is not a string" } },
	{ "no time", "auto", "{\"command\":\"true\",\"timeout\":0}", { "\"isError\":true", "timeout: is less than 1" } },
	{ "an unknown argument", "auto", "{\"command\":\"true\",\"env\":{}}", { "\"isError\":true", "env: there is no such argument" } },
	{ "plan: it runs unasked", "plan", "{\"command\":\"cat file\"}", { "\"stdout\":{\"text\":\"content\"}", "\"exit_code\":0" } },
	{ "plan: it changes nothing", "plan", "{\"command\":\"echo x >file\"}", { "\"violations\":[", "Read-only file system" } },
	/* clang-format on */
};

static void
test_result(void **state)
{
	const struct result *r = *state;
	struct client c = client_open(r->mode, "{}");
	json_t *args = json_loads(r->args, JSON_ALLOW_NUL, NULL), *message;
	char *text;

	put_text("file", "content");
	process_shell("mkdir \"$1/d\" && ln -s d \"$1/link\" && ln -s ../outside \"$1/out\"",
	    project, NULL, NULL);
	assert_non_null(args);
	message = call_tool(&c, "run_command", args);
	text = json_dumps(message, JSON_COMPACT);
	for (size_t i = 0; i < N_ELEMENTS(r->want) && r->want[i] != NULL; i++) {
		if (strstr(text, r->want[i]) == NULL)
			fail_msg("%s is not in %s", r->want[i], text);
	}
	free(text);
	json_decref(message);
	holds_text("file", "content");
	expect_run(&c, "echo next", 0, "next\n");
	client_end(&c);
}

/*
 * A client gets the sentences of the command line about a refusal or failure word for word: the
 * rule, the mode, what to do. The second lookup fails for lack of such a name, or of a network.
 */
static void
test_sentences(void **state)
{
	static const char command[] =
	    "curl -s --noproxy '' http://localhost:1/; curl -s https://evil.example; "
	    "curl -s http://nothing-there.crates.io/; exit 1";
	struct client c = client_open("auto", "{}");
	json_t *message = run(&c, command);
	const char *text = json_string_value(look(message, "result.content.0.text"));
	char path[PATH_MAX], line[1024];
	size_t refused = 0, failed = 0;
	FILE *f;

	assert_non_null(text);
	process_shell(
	    "\"$1/bin/koda-sandbox\" run --mode auto --root \"$2\" -c \"$3\" 2>\"$2/said\" >/dev/null || :",
	    prefix, project, command);
	snprintf(path, sizeof(path), "%s/said", project);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, "koda-sandbox: ", strlen("koda-sandbox: ")) != 0)
			continue;
		if (strstr(text, line) == NULL)
			fail_msg("'%s' is not in '%s'", line, text);
		refused +=
		    strstr(line, "(rule allowed_domains, mode auto); do not try again") != NULL;
		failed += strstr(line, "nothing-there.crates.io") != NULL;
	}
	fclose(f);
	assert_int_equal(refused, 2);
	assert_int_equal(failed, 1);
	json_decref(message);
	/* Sentences about the earlier command are not repeated. */
	message = run(&c, "exit 1");
	text = json_string_value(look(message, "result.content.0.text"));
	assert_null(strstr(text, "koda-sandbox: "));
	json_decref(message);
	client_end(&c);
}

/* A refused file operation gives the same sentence too. */
static void
test_file_sentence(void **state)
{
	struct client c = client_open("auto", "{}");
	char path[PATH_MAX], line[1024];
	json_t *message;
	FILE *f;

	process_shell(
	    "printf x | \"$1/bin/koda-sandbox\" fs write --mode auto --root \"$2\" /etc/koda-x 2>\"$2/said\" || :",
	    prefix, project, NULL);
	snprintf(path, sizeof(path), "%s/said", project);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	assert_non_null(strstr(line, "(rule allow_write, mode auto)"));
	message = call_tool(&c, "write_file",
	    json_pack("{s:s, s:s}", "path", "/etc/koda-x", "content", "x"));
	says_part(message, "result.content.0.text", line + strlen("koda-sandbox: "));
	json_decref(message);
	client_end(&c);
}

/* A flood of output is read to the end; its beginning and its end are kept. */
static void
test_flood(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message =
	    run(&c, "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last");
	size_t head, tail;

	went_well(message);
	head = json_string_length(look(message, OUT));
	tail = json_string_length(look(message, AT "stdout.tail"));
	assert_true(head > 8 << 10 && tail > 8 << 10 && head + tail <= 32 << 10);
	counts(message, AT "stdout.left_out", (json_int_t)(6 + 20000000 + 1 + 5 - head - tail));
	assert_memory_equal(string_at(message, OUT), "first\nxxx", 9);
	assert_string_equal(string_at(message, AT "stdout.tail") + tail - 7, "x\nlast\n");
	says_part(message, "result.content.0.text", "bytes left out]\nxxx");
	json_decref(message);
	client_end(&c);
}

/* ---- while it runs ---- */

static void
test_progress(void **state)
{
	struct client c = client_open("auto", "{}");
	struct timespec pause = { .tv_nsec = 1000000 };
	char all[64] = "";
	double last = 0;
	json_t *message;
	json_int_t id;

	id = request(&c, "tools/call",
	    json_pack("{s:s, s:{s:s}, s:{s:s}}", "name", "run_command", "arguments", "command",
		"echo one; while [ ! -e go ]; do sleep 0.02; done; echo two >&2; "
		"while [ ! -e end ]; do sleep 0.02; done",
		"_meta", "progressToken", "p"));
	while (strcmp(all, "one\ntwo\n") != 0) {
		message = receive(&c);
		says(message, "method", "notifications/progress");
		says(message, "params.progressToken", "p");
		assert_true(json_number_value(look(message, "params.progress")) > last);
		last = json_number_value(look(message, "params.progress"));
		strncat(all, string_at(message, "params.message"), sizeof(all) - strlen(all) - 1);
		json_decref(message);
		if (strcmp(all, "one\n") == 0)
			put_text("go", "");
	}
	put_text("end", "");
	nanosleep(&pause, NULL);
	message = answer(&c, id);
	says(message, OUT, "one\n");
	says(message, ERR, "two\n");
	json_decref(message);
	client_end(&c);
}

/*
 * However much is printed, reports are few, and anything that would act on a terminal is escaped.
 */
static void
test_progress_of_a_flood(void **state)
{
	struct client c = client_open("auto", "{}");
	uint64_t start = clock_ms();
	json_t *message;
	int n = 0;

	request(&c, "tools/call",
	    json_pack("{s:s, s:{s:s, s:i}, s:{s:i}}", "name", "run_command", "arguments", "command",
		"yes \"$(printf '\\033[2J')\"", "timeout", 1, "_meta", "progressToken", 7));
	for (;;) {
		message = receive(&c);
		if (look(message, "method") == NULL)
			break;
		says_part(message, "params.message", "\\x1b[2J\n");
		assert_true(json_string_length(look(message, "params.message")) < 16 << 10);
		n++;
		json_decref(message);
	}
	says(message, AT "limit", "wall_time_secs");
	json_decref(message);
	assert_true(n >= 1 && n <= (int)((clock_ms() - start) / 250) + 1);
	client_end(&c);
}

static void
test_cancelled(void **state)
{
	struct client c = client_open("auto", "{}");
	json_int_t id =
	    request_tool(&c, "run_command", command_args("touch here; sleep 600 & sleep 600"));

	wait_for_file("here");
	wait_for_processes(c.p.pid, "sleep", 2);
	cancel(&c, id);
	wait_for_processes(c.p.pid, "sleep", 0);
	/* The cancelled call is not answered, and the next one runs. */
	expect_run(&c, "echo next", 0, "next\n");
	client_end(&c);
}

/* A command that ignores SIGTERM is ended all the same. */
static void
test_cancelled_stubborn(void **state)
{
	struct client c = client_open("auto", "{}");
	json_int_t id = request_tool(&c, "run_command",
	    command_args("trap '' TERM; touch here; sleep 600; sleep 600"));

	wait_for_file("here");
	wait_for_processes(c.p.pid, "sleep", 1);
	cancel(&c, id);
	wait_for_processes(c.p.pid, "sleep", 0);
	json_decref(ask(&c, "ping", NULL));
	client_end(&c);
}

/* No command ends before all have begun. */
static void
test_at_once(void **state)
{
	struct client c = client_open("auto", "{}");
	bool answered[16] = { false };
	json_int_t first = c.next_id;

	for (int i = 0; i < 16; i++) {
		char command[128];

		snprintf(command, sizeof(command),
		    "touch s%d; until [ $(ls s* | wc -l) = 16 ]; do sleep 0.05; done; echo %d", i,
		    i);
		request_tool(&c, "run_command", command_args(command));
	}
	for (int i = 0; i < 16; i++) {
		json_t *message = receive(&c);
		json_int_t k = json_integer_value(look(message, "id")) - first;
		char want[16];

		went_well(message);
		assert_in_range(k, 0, 15);
		assert_false(answered[k]);
		answered[k] = true;
		snprintf(want, sizeof(want), "%d\n", (int)k);
		says(message, OUT, want);
		json_decref(message);
	}
	client_end(&c);
}

static void
test_too_many(void **state)
{
	struct client c = client_open("auto", "{}");
	const uint64_t until = clock_ms() + PATIENCE_MS;
	json_int_t ids[33];
	json_t *message;
	bool more;

	for (int i = 0; i < 33; i++)
		ids[i] = request_tool(&c, "run_command", command_args("sleep 600"));
	message = answer(&c, ids[32]);
	went_wrong(message, "internal");
	says_part(message, "result.content.0.text", "32 commands are under way");
	json_decref(message);
	for (int i = 0; i < 32; i++)
		cancel(&c, ids[i]);
	wait_for_processes(c.p.pid, "sleep", 0);
	/* The commands end soon after the last of their processes. */
	do {
		message = run(&c, "echo next");
		more = look(message, "result.isError") != NULL;
		json_decref(message);
	} while (more && clock_ms() < until);
	assert_false(more);
	client_end(&c);
}

/* ---- death of a process under a command ---- */

static pid_t
one_named(const struct client *c, const char *name)
{
	pid_t pid = 0;

	assert_true(family_count(c->p.pid, name, &pid) > 0);
	return pid;
}

/* find: finds the process to kill, below the client's server. */
static void
die_under(pid_t (*find)(const struct client *), bool known)
{
	struct client c = client_open("auto", "{}");
	json_int_t id =
	    request_tool(&c, "run_command", command_args("touch here; sleep 2; echo done"));
	json_t *message;

	wait_for_file("here");
	assert_int_equal(kill(find(&c), SIGKILL), 0);
	message = receive(&c);
	while (look(message, "method") != NULL) { /* the death is logged, too */
		json_decref(message);
		message = receive(&c);
	}
	counts(message, "id", id);
	if (known) {
		went_well(message);
		says(message, OUT, "done\n");
	} else {
		went_wrong(message, "unknown");
		says_part(message, "result.content.0.text", "the outcome is unknown");
	}
	json_decref(message);
	id = request_tool(&c, "run_command", command_args("echo next"));
	message = receive(&c);
	while (look(message, "method") != NULL) {
		json_decref(message);
		message = receive(&c);
	}
	counts(message, "id", id);
	went_well(message);
	says(message, OUT, "next\n");
	json_decref(message);
	client_end(&c);
}

static pid_t
find_worker(const struct client *c)
{
	return one_named(c, "koda-fs-worker");
}

static pid_t
find_bwrap(const struct client *c)
{
	return one_named(c, "bwrap");
}

static pid_t
find_stage2(const struct client *c)
{
	pid_t pid = 0;

	assert_true(family_children(find_bwrap(c), &pid) > 0);
	return pid;
}

static void
test_worker_dies(void **state)
{
	die_under(find_worker, true);
}

static void
test_stage2_dies(void **state)
{
	die_under(find_stage2, false);
}

static void
test_bwrap_dies(void **state)
{
	die_under(find_bwrap, false);
}

/* ---- in the background ---- */

static json_t *
begin(struct client *c, const char *command)
{
	json_t *message = call_tool(c, "run_command",
	    json_pack("{s:s, s:b}", "command", command, "background", 1));

	went_well(message);
	is_true(message, AT "running");
	assert_int_equal(strlen(string_at(message, AT "id")), 16);
	return message;
}

static json_t *
output(struct client *c, const json_t *begun)
{
	return call_tool(c, "command_output", json_pack("{s:s}", "id", string_at(begun, AT "id")));
}

static json_t *
stop(struct client *c, const json_t *begun)
{
	return call_tool(c, "command_stop", json_pack("{s:s}", "id", string_at(begun, AT "id")));
}

static void
test_background(void **state)
{
	struct client c = client_open("auto", "{}"), other = client_open("auto", "{}");
	json_t *begun = begin(&c, "echo one; touch here; sleep 600"), *message;

	wait_for_file("here");
	message = call_tool(&c, "command_list", json_object());
	says(message, AT "commands.0.id", string_at(begun, AT "id"));
	says(message, AT "commands.0.command", "echo one; touch here; sleep 600");
	is_true(message, AT "commands.0.running");
	json_decref(message);
	/* Other commands run beside it. */
	expect_run(&c, "echo two", 0, "two\n");
	message = output(&c, begun);
	says(message, OUT, "one\n");
	is_true(message, AT "running");
	counts(message, AT "stdout.next_offset", 4);
	json_decref(message);
	message = output(&c, begun);
	says(message, OUT, "");
	json_decref(message);
	message = call_tool(&c, "command_output",
	    json_pack("{s:s, s:i}", "id", string_at(begun, AT "id"), "stdout_offset", 2));
	says(message, OUT, "e\n");
	json_decref(message);

	/* The command belongs to this client alone. */
	message = output(&other, begun);
	went_wrong(message, "invalid");
	json_decref(message);
	message = call_tool(&other, "command_list", json_object());
	is_missing(message, AT "commands.0");
	json_decref(message);

	message = stop(&c, begun);
	went_well(message);
	counts(message, AT "signal", 15);
	if (!json_is_false(look(message, AT "running")))
		fail_msg("it runs on");
	json_decref(message);
	assert_int_equal(family_count(c.p.pid, "sleep", NULL), 0);
	message = stop(&c, begun);
	counts(message, AT "signal", 15);
	json_decref(message);
	message = call_tool(&c, "command_list", json_object());
	counts(message, AT "commands.0.signal", 15);
	json_decref(message);
	json_decref(begun);
	client_end(&c);
	client_end(&other);
}

/* The command ends by itself at some time; its output can be read piece by piece. */
static void
test_background_output(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *begun =
	    begin(&c, "for i in $(seq 10000 19999); do echo $i; done; echo oops >&2; exit 7");
	bool more = true, running = true;
	json_int_t next = 10000;
	char all[10000 * 6 + 1] = "";
	size_t len = 0;

	while (more || running) {
		json_t *message = output(&c, begun);
		const size_t n = json_string_length(look(message, OUT));

		assert_true(n <= 32 << 10 && n < sizeof(all) - len);
		memcpy(all + len, string_at(message, OUT), n + 1);
		len += n;
		running = json_is_true(look(message, AT "running"));
		more = json_is_true(look(message, AT "stdout.more"));
		if (!running) {
			counts(message, AT "exit_code", 7);
			is_missing(message, AT "stdout.left_out");
		}
		json_decref(message);
		pause_ms(1);
	}
	for (const char *p = all; *p != '\0'; p = strchr(p, '\n') + 1)
		assert_int_equal(strtol(p, NULL, 10), next++);
	assert_int_equal(next, 20000);
	json_decref(begun);
	client_end(&c);
}

static void
test_background_many(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *begun[16], *message;

	for (int i = 0; i < 16; i++)
		begun[i] = begin(&c, "sleep 600");
	message = call_tool(&c, "run_command",
	    json_pack("{s:s, s:b}", "command", "true", "background", 1));
	went_wrong(message, "internal");
	says_part(message, "result.content.0.text", "stop one of them");
	json_decref(message);
	expect_run(&c, "echo here", 0, "here\n");
	json_decref(stop(&c, begun[3]));
	/* The command that has ended is forgotten to make room. */
	json_decref(begin(&c, "sleep 600"));
	message = output(&c, begun[3]);
	went_wrong(message, "invalid");
	json_decref(message);
	for (int i = 0; i < 16; i++)
		json_decref(begun[i]);
	client_end(&c);
}

static void
test_background_lost(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *begun = begin(&c, "echo before; touch here; sleep 600"), *message;

	wait_for_file("here");
	json_decref(output(&c, begun));
	assert_int_equal(kill(find_bwrap(&c), SIGKILL), 0);
	for (;;) {
		bool running;
		json_int_t id;

		id = request_tool(&c, "command_output",
		    json_pack("{s:s, s:i}", "id", string_at(begun, AT "id"), "stdout_offset", 0));
		message = receive(&c);
		while (look(message, "method") != NULL) {
			json_decref(message);
			message = receive(&c);
		}
		counts(message, "id", id);
		running = json_is_true(look(message, AT "running"));
		if (!running)
			break;
		json_decref(message);
		pause_ms(5);
	}
	says(message, AT "code", "unknown");
	says(message, OUT, "before\n");
	is_missing(message, AT "exit_code");
	json_decref(message);
	json_decref(begun);
	client_end(&c);
}

/* ---- the end ---- */

static void
test_end_of_input(void **state)
{
	struct client c = client_open("auto", "{}");
	pid_t bwrap;

	json_decref(begin(&c, "sleep 600 & sleep 600"));
	request_tool(&c, "run_command", command_args("touch here; trap '' TERM; sleep 600"));
	wait_for_file("here");
	wait_for_processes(c.p.pid, "sleep", 3);
	bwrap = find_bwrap(&c);
	process_close_input(&c.p);
	assert_int_equal(client_wait(&c), 0);
	assert_int_equal(kill(bwrap, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void
test_sigterm(void **state)
{
	struct client c = client_open("auto", "{}");
	uint64_t start;

	json_decref(begin(&c, "trap '' TERM; sleep 600"));
	request_tool(&c, "run_command", command_args("touch here; trap '' TERM; sleep 600"));
	wait_for_file("here");
	start = clock_ms();
	assert_int_equal(kill(c.p.pid, SIGTERM), 0);
	assert_int_equal(client_wait(&c), 0);
	assert_true(clock_ms() - start < 1000 * (SANITIZED ? 5 : 1));
}

/* ---- together ---- */

static void
test_flood_beside(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *begun = begin(&c, "touch here; yes"), *message;

	put_text("a.txt", "needle\n");
	wait_for_file("here");
	for (int i = 0; i < 50; i++) {
		message = call_tool(&c, "grep", json_pack("{s:s}", "pattern", "need[l]e"));
		went_well(message);
		says(message, AT "matches.0.path", "a.txt");
		json_decref(message);
		message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "a.txt"));
		went_well(message);
		json_decref(message);
	}
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) < 8 << 10);
	message = stop(&c, begun);
	went_well(message);
	json_decref(message);
	json_decref(begun);
	client_end(&c);
}

/* Output is kept only as long as its command is. */
static void
test_memory(void **state)
{
	struct client c = client_open("auto", "{}");

	for (int i = 0; i < 300; i++) {
		json_t *message = run(&c, "yes | head -c 100000; yes | head -c 100000 >&2");

		went_well(message);
		json_decref(message);
	}
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) < 6 << 10);
	client_end(&c);
}

/* Without a kernel sandbox no command runs, and the user is not asked in vain. */
static void
test_no_sandbox(void **state)
{
	struct client c;
	json_t *message;

	process_shell(
	    "cd \"$1/libexec/koda-sandbox\" && mv koda-sandbox-stage2 away && cp /bin/false "
	    "koda-sandbox-stage2",
	    prefix, NULL, NULL);
	c = client_open("safe", "{\"elicitation\":{}}");
	message = receive(&c);
	says(message, "method", "notifications/message");
	json_decref(message);
	message = run(&c, "true");
	went_wrong(message, "unsupported");
	says_part(message, "result.content.0.text", "commands need the kernel sandbox");
	json_decref(message);
	client_end(&c);
	process_shell("cd \"$1/libexec/koda-sandbox\" && mv away koda-sandbox-stage2", prefix, NULL,
	    NULL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_sentences),
		TEST(test_file_sentence),
		TEST(test_flood),
		TEST(test_progress),
		TEST(test_progress_of_a_flood),
		TEST(test_cancelled),
		TEST(test_cancelled_stubborn),
		TEST(test_at_once),
		TEST(test_too_many),
		TEST(test_worker_dies),
		TEST(test_stage2_dies),
		TEST(test_bwrap_dies),
		TEST(test_background),
		TEST(test_background_output),
		TEST(test_background_many),
		TEST(test_background_lost),
		TEST(test_end_of_input),
		TEST(test_sigterm),
		TEST(test_flood_beside),
		TEST(test_memory),
		TEST(test_no_sandbox),
	};
	struct CMUnitTest tests[N_ELEMENTS(results) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(results); i++)
		tests[n++] = (struct CMUnitTest){ results[i].label, test_result, make_project,
			remove_project, (void *)&results[i] };
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp_command", tests, make_installation,
	    remove_installation);
}
