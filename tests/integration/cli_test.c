/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program as people and other programs use it: real processes, real pipes, a real terminal (a
 * pty). It finds its helpers as an installed program does, in a bin/ and a libexec/ of the test.
 */
#include "tests/kit/cases.h"
#include "tests/kit/cli_scene.h"

/* ---- content ---- */

/* Pseudorandom bytes without a short period: lost or misplaced buffers show. */
static struct bytes
noise(size_t len)
{
	struct bytes b = { malloc(len + 1), len, len + 1 };
	uint32_t x = 1;

	assert_non_null(b.data);
	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		b.data[i] = (char)(x >> 24);
	}
	return b;
}

static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 1000003, 9000001 };

static void
test_write_sizes(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		struct bytes content = noise(sizes[i]);
		struct run r = { .input = content.data, .input_len = content.len };

		run(&r, "--mode", "auto", "fs", "write", "dir/file", NULL);
		ended(&r, 0);
		is(&r.out, "");
		is(&r.err, "");
		file_has("dir/file", content.data, content.len);
		run_done(&r);
		free(content.data);
	}
	no_leftovers();
}

static void
test_read_sizes(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		struct bytes content = noise(sizes[i]);
		struct run r = { 0 };

		put_file("file", content.data, content.len);
		run(&r, "fs", "read", "file", NULL);
		ended(&r, 0);
		assert_int_equal(r.out.len, content.len);
		assert_memory_equal(r.out.data, content.data, content.len);
		run_done(&r);
		free(content.data);
	}
}

static void
test_read_part(void **state)
{
	static const struct {
		const char *offset, *max;
		size_t start, len;
	} parts[] = {
		{ "0", "10", 0, 10 },
		{ "999", "5", 999, 5 },
		{ "150000", "100000", 150000, 50000 },
		{ "100", "150000", 100, 150000 },
		{ "300000", "7", 0, 0 },
	};
	struct bytes content = noise(200000);

	put_file("file", content.data, content.len);
	for (size_t i = 0; i < N_ELEMENTS(parts); i++) {
		struct run r = { 0 };

		run(&r, "fs", "read", "file", "--offset", parts[i].offset, "--max", parts[i].max,
		    NULL);
		ended(&r, 0);
		assert_int_equal(r.out.len, parts[i].len);
		assert_memory_equal(r.out.data, content.data + parts[i].start, parts[i].len);
		run_done(&r);
	}
	free(content.data);
}

static void
test_read_appends(void **state)
{
	struct bytes content = noise(200000);

	/* sendfile refuses a descriptor opened with O_APPEND. */
	put_file("file", content.data, content.len);
	process_shell("cd \"$1\" && \"$2/bin/koda-sandbox\" fs read file >>copy", project, prefix,
	    NULL);
	file_has("copy", content.data, content.len);
	free(content.data);
}

static void
test_read_json(void **state)
{
	struct run text = { 0 }, binary = { 0 }, large = { 0 };
	struct bytes content = noise(100000);
	json_t *o;

	put_text("text", "gr\xc3\xbc\xc3\x9f\n");
	run(&text, "fs", "read", "text", "--json", "--digest", NULL);
	ended(&text, 0);
	o = parse(&text);
	assert_true(json_is_true(json_object_get(o, "ok")));
	assert_string_equal(json_string_value(json_object_get(o, "content")),
	    "gr\xc3\xbc\xc3\x9f\n");
	assert_string_equal(json_string_value(json_object_get(o, "encoding")), "utf-8");
	assert_int_equal(json_integer_value(json_object_get(o, "size")), 7);
	assert_int_equal(strlen(json_string_value(json_object_get(o, "digest"))), 64);
	json_decref(o);

	put_file("binary", "\xff\x00\x01x", 4);
	run(&binary, "--json", "fs", "read", "binary", NULL);
	ended(&binary, 0);
	o = parse(&binary);
	assert_string_equal(json_string_value(json_object_get(o, "content")), "/wABeA==");
	assert_string_equal(json_string_value(json_object_get(o, "encoding")), "base64");
	json_decref(o);

	put_file("large", content.data, content.len);
	run(&large, "--json", "fs", "read", "large", NULL);
	ended(&large, 0);
	o = parse(&large);
	assert_int_equal(json_integer_value(json_object_get(o, "length")), 100000);
	assert_int_equal(json_string_length(json_object_get(o, "content")), (100000 + 2) / 3 * 4);
	json_decref(o);

	run_done(&text);
	run_done(&binary);
	run_done(&large);
	free(content.data);
}

static void
test_read_json_too_large(void **state)
{
	char path[2 * PATH_MAX];
	struct run r = { 0 }, part = { 0 };
	json_t *o;

	put_text("huge", "");
	snprintf(path, sizeof(path), "%s/huge", project);
	assert_int_equal(truncate(path, (64 << 20) + 1), 0);
	run(&r, "fs", "read", "huge", "--json", NULL);
	ended(&r, 1);
	o = parse(&r);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "error"), "code")),
	    "too_large");
	has(&r.out, "without --json");
	json_decref(o);
	run_done(&r);

	run(&part, "fs", "read", "huge", "--json", "--offset", "67108860", NULL);
	ended(&part, 0);
	o = parse(&part);
	assert_int_equal(json_integer_value(json_object_get(o, "length")), 5);
	json_decref(o);
	run_done(&part);
}

/* ---- the exit status and its JSON ---- */

struct ending {
	const char *label;
	int status;
	const char *code; /* NULL: ok */
	const char *args[12];
};

static const struct ending endings[] = {
	/* clang-format off */
	{ "done: read", 0, NULL, { "fs", "read", "file" } },
	{ "done: write", 0, NULL, { "fs", "write", "new", "--mode", "auto" } },
	{ "done: write to missing directories", 0, NULL, { "fs", "write", "x/y/new", "--mode=auto" } },
	{ "done: edit", 0, NULL, { "fs", "edit", "file", "--old", "one", "--new", "two", "--mode", "auto" } },
	{ "done: stat", 0, NULL, { "fs", "stat", "file", "--digest" } },
	{ "done: list", 0, NULL, { "fs", "list", "." } },
	{ "done: list the current directory", 0, NULL, { "fs", "list" } },
	{ "done: mkdir", 0, NULL, { "--mode", "auto", "fs", "mkdir", "-p", "a/b" } },
	{ "done: rm", 0, NULL, { "--mode", "auto", "fs", "rm", "file" } },
	{ "done: rm -r", 0, NULL, { "--mode", "auto", "fs", "rm", "-r", "full" } },
	{ "done: mv", 0, NULL, { "--mode", "auto", "fs", "mv", "file", "other" } },
	{ "done: mv -f", 0, NULL, { "--mode", "auto", "fs", "mv", "-f", "file", "second" } },
	{ "done: durable", 0, NULL, { "--mode", "auto", "fs", "write", "--durable", "new" } },
	{ "done: if absent", 0, NULL, { "--mode", "auto", "fs", "write", "--if-absent", "new" } },
	{ "done: a name that begins with a dash", 0, NULL, { "fs", "--mode", "auto", "write", "--", "-n" } },
	{ "done: explain read", 0, NULL, { "explain", "read", "file" } },
	{ "done: explain write", 0, NULL, { "explain", "write", "file", "--mode", "auto" } },
	{ "done: explain net", 0, NULL, { "explain", "net", "GitHub.com" } },
	{ "done: explain net with a port", 0, NULL, { "explain", "net", "github.com:22", "--mode", "auto" } },
	{ "failed: explain net of no host", 1, "invalid", { "explain", "net", "a.test:80:443" } },
	{ "failed: explain net of half an address", 1, "invalid", { "explain", "net", "127.1" } },
	{ "usage: explain net of nothing", 2, "usage", { "explain", "net" } },
	{ "done: policy", 0, NULL, { "policy" } },
	{ "done: version", 0, NULL, { "--version" } },
	{ "done: help", 0, NULL, { "--help" } },
	{ "done: help of a command", 0, NULL, { "help", "fs", "edit" } },
	{ "done: dry run in safe", 0, NULL, { "fs", "rm", "--dry-run", "file" } },
	{ "failed: read a missing file", 1, "io", { "fs", "read", "missing" } },
	{ "failed: read a directory", 1, "io", { "fs", "read", "full" } },
	{ "failed: rm a full directory", 1, "io", { "--mode", "auto", "fs", "rm", "full" } },
	{ "failed: an empty path", 1, "invalid", { "fs", "read", "" } },
	{ "failed: a root that is not there", 1, "io", { "--root", "missing", "fs", "list", "." } },
	{ "usage: nothing", 2, "usage", { NULL } },
	{ "usage: a group alone", 2, "usage", { "fs" } },
	{ "usage: unknown command", 2, "usage", { "fs", "raed", "x" } },
	{ "usage: unknown option", 2, "usage", { "fs", "read", "x", "--digset" } },
	{ "usage: unknown mode", 2, "usage", { "fs", "read", "x", "--mode", "sfe" } },
	{ "usage: a mode twice", 2, "usage", { "--mode", "safe", "fs", "read", "x", "--mode", "auto" } },
	{ "usage: an option of another command", 2, "usage", { "fs", "read", "x", "--recursive" } },
	{ "usage: too few words", 2, "usage", { "fs", "mv", "x" } },
	{ "usage: too many words", 2, "usage", { "fs", "read", "x", "y" } },
	{ "usage: no number", 2, "usage", { "fs", "read", "x", "--max", "-1" } },
	{ "usage: no digest", 2, "usage", { "fs", "rm", "x", "--if-digest", "abc" } },
	{ "usage: edit without texts", 2, "usage", { "fs", "edit", "x" } },
	{ "usage: old without new", 2, "usage", { "fs", "edit", "x", "--old", "y" } },
	{ "usage: a value missing", 2, "usage", { "fs", "read", "x", "--max" } },
	{ "refused: a git hook", 3, "policy_denied", { "--mode", "auto", "fs", "write", ".git/hooks/x" } },
	{ "refused: outside", 3, "policy_denied", { "--mode", "auto", "fs", "write", "/etc/koda-test" } },
	{ "refused: through a link", 3, "policy_denied", { "--mode", "auto", "fs", "write", "out/x" } },
	{ "refused: plan", 3, "policy_denied", { "--mode", "plan", "fs", "write", "file" } },
	{ "refused: nobody to ask", 3, "not_approved", { "fs", "write", "file" } },
	{ "conflict: another digest", 4, "conflict", { "--mode", "auto", "fs", "rm", "file", "--if-digest",
	    "0000000000000000000000000000000000000000000000000000000000000000" } },
	{ "conflict: the text is not there", 4, "conflict",
	    { "--mode", "auto", "fs", "edit", "file", "--old", "zebra", "--new", "two" } },
	{ "conflict: the text is there twice", 4, "conflict",
	    { "--mode", "auto", "fs", "edit", "second", "--old", "a", "--new", "b" } },
	{ "conflict: something is there", 4, "conflict",
	    { "--mode", "auto", "fs", "write", "--if-absent", "file" } },
	{ "conflict: mv onto something", 4, "conflict", { "--mode", "auto", "fs", "mv", "file", "second" } },
	{ "conflict: mkdir of what is there", 4, "conflict", { "--mode", "auto", "fs", "mkdir", "full" } },
	/* clang-format on */
};

static void
populate(void)
{
	char path[2 * PATH_MAX];

	put_text("file", "one\n");
	put_text("second", "a a\n");
	snprintf(path, sizeof(path), "%s/full", project);
	assert_int_equal(mkdir(path, 0777), 0);
	put_text("full/inner", "x");
	snprintf(path, sizeof(path), "%s/.git", project);
	assert_int_equal(mkdir(path, 0777), 0);
	put_text(".git/HEAD", "ref: refs/heads/main\n");
	snprintf(path, sizeof(path), "%s/out", project);
	assert_int_equal(symlink(outside, path), 0);
}

static void
run_ending(struct run *r, const struct ending *ending, bool json)
{
	char program[PATH_MAX + 32], *argv[ARGS_MAX + 2];
	size_t n = 0;

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	argv[n++] = program;
	if (json)
		argv[n++] = (char *)"--json";
	for (size_t i = 0; i < N_ELEMENTS(ending->args) && ending->args[i] != NULL; i++)
		argv[n++] = (char *)ending->args[i];
	argv[n] = NULL;
	run_v(r, argv);
}

static void
test_ending(void **state)
{
	const struct ending *ending = *state;
	struct run r = { .input = "new\n", .input_len = 4 };

	populate();
	run_ending(&r, ending, false);
	ended(&r, ending->status);
	if (ending->status == 0) {
		/* There may be warnings when the test takes away a feature (no_openat2). */
		if (getenv("KODA_TEST_WRAPPER") == NULL)
			has_not(&r.err, "koda-sandbox: ");
		has_not(&r.err, "koda-sandbox: error");
	} else {
		assert_int_equal(strncmp(r.err.data, "koda-sandbox: ", 14), 0);
		is(&r.out, "");
	}
	run_done(&r);
	no_leftovers();
}

static void
test_ending_json(void **state)
{
	const struct ending *ending = *state;
	struct run r = { .input = "new\n", .input_len = 4 };
	json_t *o, *error;

	populate();
	run_ending(&r, ending, true);
	ended(&r, ending->status);
	o = parse(&r);
	error = json_object_get(o, "error");
	if (ending->code == NULL) {
		assert_true(json_is_true(json_object_get(o, "ok")));
		assert_null(error);
	} else {
		assert_true(json_is_false(json_object_get(o, "ok")));
		assert_string_equal(json_string_value(json_object_get(error, "code")),
		    ending->code);
		assert_true(json_string_length(json_object_get(error, "message")) > 0);
	}
	json_decref(o);
	run_done(&r);
}

static void
test_json_details(void **state)
{
	struct run missing = { 0 }, denied = { 0 }, edit = { 0 };
	json_t *o, *error;

	populate();
	run(&missing, "--json", "fs", "read", "missing", NULL);
	o = parse(&missing);
	error = json_object_get(o, "error");
	assert_int_equal(json_integer_value(json_object_get(error, "errno")), ENOENT);
	assert_string_equal(json_string_value(json_object_get(error, "errno_name")), "ENOENT");
	assert_non_null(strstr(json_string_value(json_object_get(error, "path")), "missing"));
	json_decref(o);

	run(&denied, "--json", "--mode", "auto", "fs", "write", ".git/hooks/x", NULL);
	o = parse(&denied);
	error = json_object_get(o, "error");
	assert_true(json_string_length(json_object_get(error, "rule")) > 0);
	assert_non_null(strstr(json_string_value(json_object_get(error, "path")), "/.git/hooks/x"));
	json_decref(o);

	run(&edit, "--json", "--mode", "auto", "fs", "edit", "second", "--old", "a", "--new", "bb",
	    "--all", NULL);
	ended(&edit, 0);
	o = parse(&edit);
	assert_int_equal(json_integer_value(json_object_get(o, "replacements")), 2);
	assert_int_equal(json_integer_value(json_object_get(o, "size_before")), 4);
	assert_int_equal(json_integer_value(json_object_get(o, "size")), 6);
	assert_true(json_is_false(json_object_get(o, "recovered")));
	json_decref(o);
	file_is("second", "bb bb\n");

	run_done(&missing);
	run_done(&denied);
	run_done(&edit);
}

static void
test_host_error(void **state)
{
	char lonely[PATH_MAX + 32];
	struct run r = { .bin = lonely }, j = { .bin = lonely };
	json_t *o;

	/* A program installed without its worker. */
	snprintf(lonely, sizeof(lonely), "%s/far/away/from/it", prefix);
	process_shell("mkdir -p \"$1\" && cp \"$2/bin/koda-sandbox\" \"$1\"", lonely, prefix, NULL);
	put_text("file", "x");
	run(&r, "fs", "read", "file", NULL);
	ended(&r, 125);
	is(&r.out, "");
	run(&j, "--json", "fs", "read", "file", NULL);
	ended(&j, 125);
	o = parse(&j);
	assert_true(json_is_false(json_object_get(o, "ok")));
	json_decref(o);
	run_done(&r);
	run_done(&j);
}

/* ---- human-readable output ---- */

static void
test_suggestions(void **state)
{
	static const struct {
		const char *args[4], *want;
	} cases[] = {
		{ { "fs", "raed", "x" }, "did you mean 'read'?" },
		{ { "fs", "lst", "x" }, "did you mean 'list'?" },
		{ { "polcy" }, "did you mean 'policy'?" },
		{ { "rnu" }, "did you mean 'run'?" },
		{ { "read", "x" }, "did you mean 'fs read'?" },
		{ { "fs", "read", "x", "--ofset" }, "did you mean '--offset'?" },
		{ { "policy", "--mode", "saef" }, "did you mean 'safe'?" },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const char *const *a = cases[i].args;
		struct run r = { 0 };

		run(&r, a[0], a[1], a[1] != NULL ? a[2] : NULL,
		    a[1] != NULL && a[2] != NULL ? a[3] : NULL, NULL);
		ended(&r, 2);
		has(&r.err, cases[i].want);
		run_done(&r);
	}
}

static void
test_help(void **state)
{
	static const char *const commands[][2] = {
		{ "fs", "read" },
		{ "fs", "write" },
		{ "fs", "edit" },
		{ "fs", "stat" },
		{ "fs", "list" },
		{ "fs", "mkdir" },
		{ "fs", "rm" },
		{ "fs", "mv" },
		{ "explain", "read" },
		{ "explain", "write" },
		{ "explain", "net" },
		{ "run", NULL },
		{ "shell", NULL },
		{ "drafts", NULL },
		{ "draft", "diff" },
		{ "draft", "apply" },
		{ "draft", "discard" },
		{ "draft", "run" },
		{ "draft", "shell" },
		{ "history", NULL },
		{ "undo", NULL },
		{ "redo", NULL },
		{ "quarantine", "list" },
		{ "quarantine", "show" },
		{ "quarantine", "delete" },
		{ "quarantine", "restore" },
		{ "run", NULL },
		{ "shell", NULL },
		{ "caches", "list" },
		{ "caches", "clear" },
		{ "top", NULL },
		{ "audit", "verify" },
		{ "mcp", NULL },
		{ "policy", NULL },
		{ "doctor", NULL },
		{ "completion", NULL },
	};
	struct run all = { 0 }, group = { 0 };
	const char *status;

	run(&all, "--help", NULL);
	ended(&all, 0);
	for (size_t i = 0; i < N_ELEMENTS(commands); i++) {
		struct run after = { 0 }, before = { 0 };
		char name[64];

		snprintf(name, sizeof(name), "%s%s%s", commands[i][0],
		    commands[i][1] != NULL ? " " : "",
		    commands[i][1] != NULL ? commands[i][1] : "");
		has(&all.out, name);
		run(&before, "help", commands[i][0], commands[i][1], NULL);
		ended(&before, 0);
		has(&before.out, name);
		has(&before.out, "--mode MODE");
		/* The exit status is explained once. */
		has(&before.out, "Status: ");
		status = strstr(before.out.data, "Status: ");
		assert_null(strstr(status + 1, "Status: "));
		if (commands[i][1] != NULL)
			run(&after, commands[i][0], commands[i][1], "--help", NULL);
		else
			run(&after, commands[i][0], "--help", NULL);
		is(&after.out, before.out.data);
		run_done(&after);
		run_done(&before);
	}
	run_done(&all);
	run(&group, "fs", NULL);
	ended(&group, 2);
	has(&group.err, "fs needs a command\n  try: 'koda-sandbox fs --help'\n");
	run_done(&group);
}

static void
test_summary(void **state)
{
	struct run tty = { .terminal = true,
		.output = TO_TERMINAL,
		.input = "new\n",
		.input_len = 4 };
	struct run verbose = { .input = "new\n", .input_len = 4 };

	run(&tty, "--mode", "auto", "fs", "write", "src/a.txt", NULL);
	ended(&tty, 0);
	has(&tty.tty, "wrote 4 bytes to src/a.txt\r\n");
	run(&verbose, "--mode", "auto", "--verbose", "fs", "write", "src/a.txt", NULL);
	ended(&verbose, 0);
	is(&verbose.out, "wrote 4 bytes to src/a.txt\n");
	has(&verbose.err, " is ready: Landlock ABI ");
	run_done(&tty);
	run_done(&verbose);
}

static void
test_dry_run(void **state)
{
	struct run r = { 0 };

	put_text("file", "zero\none\n");
	run(&r, "fs", "edit", "file", "--old", "one", "--new", "two", "--dry-run", NULL);
	ended(&r, 0);
	has(&r.out, "would edit file (1 replacement)");
	has(&r.out, "in line 2");
	has(&r.out, "- one");
	has(&r.out, "+ two");
	file_is("file", "zero\none\n");
	run_done(&r);
}

static void
test_explain(void **state)
{
	struct run link = { 0 }, hook = { 0 }, json = { 0 };
	json_t *o;

	populate();
	run(&link, "explain", "write", "out/x", "--mode", "auto", NULL);
	ended(&link, 3);
	has(&link.out, "verdict  refused");
	has(&link.out, outside);
	has(&link.out, "link     ");
	run(&hook, "explain", "write", ".git/hooks/pre-commit", "--mode", "auto", NULL);
	ended(&hook, 3);
	has(&hook.out, "/.git/hooks/pre-commit");
	run(&json, "explain", "write", "out/x", "--mode", "auto", "--json", NULL);
	ended(&json, 3);
	o = parse(&json);
	assert_true(json_is_true(json_object_get(o, "ok")));
	assert_true(json_is_false(json_object_get(o, "allowed")));
	assert_int_equal(json_array_size(json_object_get(o, "hops")), 1);
	json_decref(o);
	run_done(&link);
	run_done(&hook);
	run_done(&json);
}

static void
test_explain_net(void **state)
{
	static const struct {
		const char *mode, *host, *canonical;
		int port;
		const char *verdict, *rule, *reason;
	} cases[] = {
		{ "auto", "GitHub.COM.", "github.com", 443, "allowed", "allowed_domains",
		    "checked when a command connects" },
		{ "safe", "github.com:22", "github.com", 22, "allowed", "allowed_domains",
		    "names it" },
		{ "plan", "github.com", "github.com", 443, "refused", "allowed_domains",
		    "no network in plan mode" },
		{ "auto", "evil.example", "evil.example", 443, "refused", "allowed_domains",
		    "do not try again, ask the user" },
		{ "safe", "evil.example:8080", "evil.example", 8080, "asked", "allowed_domains",
		    "the user is asked about" },
		{ "safe", "127.0.0.1", "127.0.0.1", 443, "refused", "allowed_domains", "address" },
		{ "auto", "[0:0::1]:80", "[::1]", 80, "refused", "allowed_domains", "address" },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct run plain = { 0 }, json = { 0 };
		bool allowed = strcmp(cases[i].verdict, "allowed") == 0, asks;
		char line[64];
		json_t *o;

		run(&plain, "explain", "net", cases[i].host, "--mode", cases[i].mode, NULL);
		ended(&plain, allowed ? 0 : 3);
		snprintf(line, sizeof(line), "verdict  %s\n", cases[i].verdict);
		has(&plain.out, line);
		has(&plain.out, cases[i].reason);
		snprintf(line, sizeof(line), "host     %s\nport     %d\n", cases[i].canonical,
		    cases[i].port);
		has(&plain.out, line);
		run(&json, "explain", "net", cases[i].host, "--json", "--mode", cases[i].mode,
		    NULL);
		ended(&json, allowed ? 0 : 3);
		o = parse(&json);
		assert_true(json_is_true(json_object_get(o, "ok")));
		assert_int_equal(json_is_true(json_object_get(o, "allowed")), allowed);
		assert_int_equal(json_is_true(json_object_get(o, "asks")),
		    strcmp(cases[i].verdict, "asked") == 0);
		asks =
		    strcmp(cases[i].mode, "safe") == 0 && strcmp(cases[i].verdict, "refused") != 0;
		assert_int_equal(json_is_true(json_object_get(o, "asks_in_draft")), asks);
		if (asks)
			has(&plain.out, "the user is asked about each host");
		else
			has_not(&plain.out, "draft");
		assert_string_equal(json_string_value(json_object_get(o, "host")),
		    cases[i].canonical);
		assert_int_equal(json_integer_value(json_object_get(o, "port")), cases[i].port);
		assert_string_equal(json_string_value(json_object_get(o, "rule")), cases[i].rule);
		assert_string_equal(json_string_value(json_object_get(o, "mode")), cases[i].mode);
		json_decref(o);
		run_done(&plain);
		run_done(&json);
	}
}

static void
test_policy(void **state)
{
	static const char *const trusts[][2] = { { "plan", "forbid" }, { "safe", "require" },
		{ "auto", "auto" } };

	for (size_t i = 0; i < N_ELEMENTS(trusts); i++) {
		struct run plain = { 0 }, json = { 0 };
		json_t *o, *policy, *writable;

		run(&plain, "policy", "--mode", trusts[i][0], NULL);
		ended(&plain, 0);
		has(&plain.out, "allow_write");
		run(&json, "policy", "--mode", trusts[i][0], "--json", NULL);
		ended(&json, 0);
		o = parse(&json);
		policy = json_object_get(o, "policy");
		assert_string_equal(json_string_value(json_object_get(policy, "trust")),
		    trusts[i][1]);
		writable = json_object_get(json_object_get(policy, "fs"), "allow_write");
		assert_true(json_is_array(writable));
		/* In plan mode the list is present and empty. */
		assert_int_equal(json_array_size(writable) > 0, i > 0);
		assert_true(json_is_integer(
		    json_object_get(json_object_get(policy, "limits"), "max_file_bytes")));
		json_decref(o);
		run_done(&plain);
		run_done(&json);
	}
}

static void
test_doctor(void **state)
{
	static const char *const rows[] = { "\"landlock\"", "\"seccomp\"", "\"seccomp_notify\"",
		"\"user_namespaces\"", "\"namespaces\"", "\"bubblewrap\"", "\"slot_memory\"",
		"\"inotify\"", "\"worker\"", "\"sandbox\"", "\"drafts\"" };
	struct run plain = { 0 }, json = { 0 };
	json_t *o, *capability;
	bool fit = true;
	size_t i;

	run(&plain, "doctor", NULL);
	run(&json, "doctor", "--json", NULL);
	o = parse(&json);
	for (i = 0; i < N_ELEMENTS(rows); i++)
		has(&json.out, rows[i]);
	json_array_foreach(json_object_get(o, "capabilities"), i, capability)
	{
		has(&plain.out, json_string_value(json_object_get(capability, "name")));
		if (json_is_true(json_object_get(capability, "needed_for_auto")) &&
		    !json_is_true(json_object_get(capability, "available")))
			fit = false;
		/* A missing capability has a remedy, an available one has none. */
		assert_int_equal(json_is_true(json_object_get(capability, "available")),
		    json_string_length(json_object_get(capability, "remedy")) == 0);
	}
	assert_int_equal(json_is_true(json_object_get(o, "auto_ready")), fit);
	ended(&plain, fit ? 0 : 1);
	ended(&json, fit ? 0 : 1);
	json_decref(o);
	run_done(&plain);
	run_done(&json);
}

/* ---- pipes ---- */

static void
test_reader_gone(void **state)
{
	struct run r = { .output = TO_NOBODY }, list = { .output = TO_NOBODY };
	struct bytes content = noise(1000000);

	put_file("file", content.data, content.len);
	run(&r, "fs", "read", "file", NULL);
	ended(&r, -SIGPIPE);
	is(&r.err, "");
	run(&list, "fs", "list", ".", NULL);
	ended(&list, -SIGPIPE);
	is(&list.err, "");
	run_done(&r);
	run_done(&list);
	free(content.data);
}

static void
test_no_room(void **state)
{
	static const size_t lens[] = { 10, 1000000 };

	for (size_t i = 0; i < N_ELEMENTS(lens); i++) {
		struct run r = { .output = TO_FULL }, j = { .output = TO_FULL };
		struct bytes content = noise(lens[i]);

		put_file("file", content.data, content.len);
		run(&r, "fs", "read", "file", NULL);
		ended(&r, 1);
		has(&r.err, "standard output: No space left on device");
		run(&j, "fs", "read", "file", "--json", NULL);
		ended(&j, 1);
		has(&j.err, "standard output: No space left on device");
		run_done(&r);
		run_done(&j);
		free(content.data);
	}
}

static void
test_closed_input(void **state)
{
	struct run r = { .no_input = true };

	run(&r, "--mode", "auto", "fs", "write", "file", NULL);
	ended(&r, 1);
	has(&r.err, "standard input");
	assert_false(exists(project, "file"));
	run_done(&r);
}

/* ---- approval ---- */

static void
test_nobody(void **state)
{
	struct run r = { .input = "new\n", .input_len = 4 };

	put_text("file", "old\n");
	run(&r, "fs", "write", "file", NULL);
	ended(&r, 3);
	has(&r.err, "there is no terminal");
	has(&r.err, "run it in a terminal, or with --mode auto");
	file_is("file", "old\n");
	run_done(&r);
}

static const struct {
	const char *label, *answer;
	bool yes;
} answers[] = {
	{ "y", "y\n", true },
	{ "yes", "yes\n", true },
	{ "capitals", "YES\n", true },
	{ "n", "n\n", false },
	{ "return alone", "\n", false },
	{ "end of file", "\004", false },
	{ "something that begins like yes", "yesterday\n", false },
	{ "a long line that ends like yes", "no, no, no, no, no, no, no yes\n", false },
};

static void
test_answer(void **state)
{
	size_t i = (uintptr_t)*state;
	struct run r = { .terminal = true,
		.answer = answers[i].answer,
		.input = "new\n",
		.input_len = 4 };

	put_text("file", "old old\n");
	run(&r, "fs", "write", "file", NULL);
	ended(&r, answers[i].yes ? 0 : 3);
	has(&r.tty, "replace '");
	has(&r.tty, "/file', 8 -> 4 bytes");
	has(&r.tty, "+ new");
	file_is("file", answers[i].yes ? "new\n" : "old old\n");
	if (!answers[i].yes)
		has_not(&r.err, "there is no terminal");
	is(&r.out, "");
	run_done(&r);
	no_leftovers();
}

static void
test_typed_ahead(void **state)
{
	struct run r = { .terminal = true,
		.ahead = "y\n",
		.answer = "n\n",
		.input = "new\n",
		.input_len = 4 };

	put_text("file", "old\n");
	run(&r, "fs", "write", "file", NULL);
	ended(&r, 3);
	file_is("file", "old\n");
	run_done(&r);
}

static void
test_ask_edit(void **state)
{
	struct run r = { .terminal = true, .answer = "y\n" };

	put_text("file", "zero\none\ntwo\nthree\n");
	run(&r, "fs", "edit", "file", "--old", "one\ntwo\n", "--new", "one\n2\n", NULL);
	ended(&r, 0);
	has(&r.tty, "edit '");
	has(&r.tty, "1 replacement");
	has(&r.tty, "in line 2 @@");
	has(&r.tty, "      2   one\r\n");
	has(&r.tty, "      3 - two\r\n");
	has(&r.tty, "      3 + 2\r\n");
	file_is("file", "zero\none\n2\nthree\n");
	run_done(&r);
}

static void
test_ask_others(void **state)
{
	struct run rm = { .terminal = true, .answer = "y\n" },
		   mv = { .terminal = true, .answer = "y\n" };
	struct run mkdir_ = { .terminal = true, .answer = "n\n" };

	populate();
	put_text("full/another", "x");
	run(&rm, "fs", "rm", "-r", "full", NULL);
	ended(&rm, 0);
	has(&rm.tty, "remove the directory '");
	has(&rm.tty, "3 names in all");
	assert_false(exists(project, "full"));
	run(&mv, "fs", "mv", "file", "moved", NULL);
	ended(&mv, 0);
	has(&mv.tty, "move '");
	has(&mv.tty, "/file' to '");
	has(&mv.tty, "/moved'");
	assert_true(exists(project, "moved"));
	run(&mkdir_, "fs", "mkdir", "fresh", NULL);
	ended(&mkdir_, 3);
	has(&mkdir_.tty, "make the directory '");
	assert_false(exists(project, "fresh"));
	run_done(&rm);
	run_done(&mv);
	run_done(&mkdir_);
}

static void
test_interrupt(void **state)
{
	struct run r = { .terminal = true, .answer = "\003", .input = "new\n", .input_len = 4 };

	put_text("file", "old\n");
	run(&r, "fs", "write", "file", NULL);
	ended(&r, -SIGINT);
	file_is("file", "old\n");
	no_leftovers();
	run_done(&r);
}

/* ---- hostile names and text ---- */

#define HOSTILE                                                                                    \
	"a\x1b[2Kb\xe2\x80\xae"                                                                    \
	"c\xc2\x9b"                                                                                \
	"d\xff\r"

static const char right_to_left[] = { '\xe2', '\x80', '\xae', '\0' };

static void
is_harmless(const struct bytes *b)
{
	for (size_t i = 0; i < b->len; i++) {
		unsigned char c = (unsigned char)b->data[i];

		/* A terminal turns LF into CR LF. */
		if (c == '\r' && i + 1 < b->len && b->data[i + 1] == '\n')
			continue;
		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || c == 0xff)
			fail_msg("byte %02x at %zu of: %s", c, i, b->data);
	}
	has_not(b, right_to_left);
	has_not(b, "\xc2\x9b");
}

static void
test_hostile_name(void **state)
{
	struct run ask = { .terminal = true, .answer = "n\n", .input = "x", .input_len = 1 };
	struct run list = { 0 }, missing = { 0 }, stat_ = { 0 };

	put_text(HOSTILE, "x");
	run(&ask, "fs", "write", HOSTILE, NULL);
	ended(&ask, 3);
	is_harmless(&ask.tty);
	is_harmless(&ask.err);
	has(&ask.tty, "a\\x1b[2Kb\\u{202e}c\\u{9b}d\\xff\\x0d'");
	run(&list, "fs", "list", ".", NULL);
	ended(&list, 0);
	is_harmless(&list.out);
	run(&stat_, "fs", "stat", HOSTILE, NULL);
	ended(&stat_, 0);
	is_harmless(&stat_.out);
	run(&missing, "fs", "read", "no" HOSTILE, NULL);
	ended(&missing, 1);
	is_harmless(&missing.err);
	run_done(&ask);
	run_done(&list);
	run_done(&missing);
	run_done(&stat_);
}

static void
test_hostile_text(void **state)
{
	struct run edit = { .terminal = true, .answer = "n\n" };
	struct run write_ = { .terminal = true,
		.answer = "n\n",
		.input = HOSTILE "\n",
		.input_len = strlen(HOSTILE "\n") };

	put_text("file", "one\n");
	run(&edit, "fs", "edit", "file", "--old", "one", "--new", HOSTILE, NULL);
	ended(&edit, 3);
	is_harmless(&edit.tty);
	has(&edit.tty, "+ a\\x1b[2Kb\\u{202e}c");
	run(&write_, "fs", "write", "file", NULL);
	ended(&write_, 3);
	is_harmless(&write_.tty);
	has(&write_.tty, "+ a\\x1b[2Kb\\u{202e}c");
	run_done(&edit);
	run_done(&write_);
}

static void
test_name_json(void **state)
{
	struct run list = { 0 }, stat_ = { 0 };
	json_t *o, *entry;

	put_text("bad\xff", "x");
	run(&list, "--json", "fs", "list", ".", NULL);
	ended(&list, 0);
	o = parse(&list);
	entry = json_array_get(json_object_get(o, "entries"), 0);
	assert_string_equal(json_string_value(json_object_get(entry, "name")), "bad\xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(entry, "name_base64")), "YmFk/w==");
	assert_string_equal(json_string_value(json_object_get(entry, "type")), "regular");
	json_decref(o);
	run(&stat_, "--json", "fs", "stat", "bad\xff", NULL);
	ended(&stat_, 0);
	o = parse(&stat_);
	assert_non_null(json_object_get(o, "path_base64"));
	json_decref(o);
	run_done(&list);
	run_done(&stat_);
}

/* ---- what a relative path is relative to ---- */

static void
test_relative(void **state)
{
	char sub[PATH_MAX + 8];
	struct run up = { .cwd = sub }, inside = { .cwd = sub }, above = { .cwd = sub };
	struct run over = { .cwd = sub, .input = "x", .input_len = 1 };
	struct run foreign = { .cwd = outside },
		   strange = { .cwd = outside, .input = "x", .input_len = 1 };

	snprintf(sub, sizeof(sub), "%s/sub", project);
	assert_int_equal(mkdir(sub, 0777), 0);
	put_text("top", "top");
	put_text("sub/low", "low");

	run(&inside, "--root", "..", "fs", "read", "low", NULL);
	ended(&inside, 0);
	is(&inside.out, "low");
	run(&up, "--root", "..", "fs", "read", "../top", NULL);
	ended(&up, 0);
	is(&up.out, "top");
	/* '..' may not leave the root, although the absolute name of the same file may be read. */
	run(&above, "--root", "..", "fs", "read", "../../project/top", NULL);
	assert_int_not_equal(above.status, 0);
	is(&above.out, "");
	run(&over, "--root", ".", "--mode", "auto", "fs", "write", "../top", NULL);
	assert_int_not_equal(over.status, 0);
	file_is("top", "top");

	/* Run from elsewhere: the path is relative to the current directory, and made absolute
	 * there. */
	run(&foreign, "--root", project, "fs", "read", "../project/top", NULL);
	ended(&foreign, 0);
	is(&foreign.out, "top");
	run(&strange, "--root", project, "--mode", "auto", "fs", "write", "x", NULL);
	ended(&strange, 3);
	assert_false(exists(outside, "x"));

	run_done(&up);
	run_done(&inside);
	run_done(&above);
	run_done(&over);
	run_done(&foreign);
	run_done(&strange);
}

/* ---- the setup ---- */

static int
make_installation(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/koda-cli.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, prefix) == NULL)
		return -1;
	process_shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox && cp \"$2/cli/koda-sandbox\" bin && "
	    "cp \"$2/worker/koda-fs-worker\" \"$2/proxy/koda-egress-proxy\" "
	    "\"$2/connect/koda-egress-connect\" \"$3\" libexec/koda-sandbox",
	    prefix, KODA_TEST_BUILD_DIR, KODA_TEST_STAGE2);
	return 0;
}

static int
remove_installation(void **state)
{
	process_shell("rm -rf \"$1\"", prefix, NULL, NULL);
	return 0;
}

static int
make_project(void **state)
{
	snprintf(project, sizeof(project), "%.*s/scene/project", PATH_MAX - 32, prefix);
	snprintf(outside, sizeof(outside), "%.*s/scene/outside", PATH_MAX - 32, prefix);
	process_shell("mkdir -p \"$1\" \"$2\"", project, outside, NULL);
	return 0;
}

static int
remove_project(void **state)
{
	process_shell("rm -rf \"$1/scene\"", prefix, NULL, NULL);
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_write_sizes),
		TEST(test_read_sizes),
		TEST(test_read_part),
		TEST(test_read_appends),
		TEST(test_read_json),
		TEST(test_read_json_too_large),
		TEST(test_json_details),
		TEST(test_host_error),
		TEST(test_suggestions),
		TEST(test_help),
		TEST(test_summary),
		TEST(test_dry_run),
		TEST(test_explain),
		TEST(test_explain_net),
		TEST(test_policy),
		TEST(test_doctor),
		TEST(test_reader_gone),
		TEST(test_no_room),
		TEST(test_closed_input),
		TEST(test_nobody),
		TEST(test_typed_ahead),
		TEST(test_ask_edit),
		TEST(test_ask_others),
		TEST(test_interrupt),
		TEST(test_hostile_name),
		TEST(test_hostile_text),
		TEST(test_name_json),
		TEST(test_relative),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + 2 * N_ELEMENTS(endings) + N_ELEMENTS(answers)];
	char labels[N_ELEMENTS(endings)][128], asked[N_ELEMENTS(answers)][128];
	size_t n = 0;

	OTHERS(single);
	for (size_t i = 0; i < N_ELEMENTS(endings); i++) {
		snprintf(labels[i], sizeof(labels[i]), "%s, as JSON", endings[i].label);
		tests[n++] = (struct CMUnitTest){ endings[i].label, test_ending, make_project,
			remove_project, (void *)&endings[i] };
		tests[n++] = (struct CMUnitTest){ labels[i], test_ending_json, make_project,
			remove_project, (void *)&endings[i] };
	}
	for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
		snprintf(asked[i], sizeof(asked[i]), "the answer is %s", answers[i].label);
		tests[n++] = (struct CMUnitTest){ asked[i], test_answer, make_project,
			remove_project, (void *)i };
	}
	return cmocka_run_group_tests_name("cli", tests, make_installation, remove_installation);
}
