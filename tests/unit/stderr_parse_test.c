/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/command/stderr_parse.c: which lines of a command on its standard error are refusals, and
 * of what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/command/stderr_parse.h"
#include "host/sandbox/view.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

#define READ    KODA_VIOLATION_FILE_READ
#define WRITE   KODA_VIOLATION_FILE_WRITE
#define NETWORK KODA_VIOLATION_NETWORK_OUTBOUND
#define EXEC    KODA_VIOLATION_PROCESS_EXEC
#define OTHER   KODA_VIOLATION_OTHER
#define NONE    KODA_N_VIOLATION_KINDS /* not about a denial */

static const struct {
	const char *label, *line;
	enum koda_violation_kind kind;
	const char *target, *relative;
} lines[] = {
	/* clang-format off */
	/* From the original: what counts, of which kind, about what. */
	{ "operation_not_permitted_counts", "touch: cannot touch '/etc/x': Operation not permitted", WRITE, "/etc/x", "" },
	{ "permission_denied_counts", "cat: /etc/shadow: Permission denied", READ, "/etc/shadow", "" },
	{ "read_only_file_system_is_a_write", "cat: /x/y: Read-only file system", WRITE, "/x/y", "" },
	{ "other_errors_do_not_count", "cat: /etc/nothing: No such file or directory", NONE, "", "" },
	{ "an_ordinary_line_does_not_count", "compiling /src/main.c", NONE, "", "" },
	{ "an_empty_line_does_not_count", "", NONE, "", "" },
	{ "mkdir_is_a_write", "mkdir: cannot create directory '/opt/x': Permission denied", WRITE, "/opt/x", "" },
	{ "rm_and_mv_are_writes", "rm: cannot remove '/opt/x': Operation not permitted", WRITE, "/opt/x", "" },
	{ "ls_is_a_read", "ls: cannot open directory '/root': Permission denied", READ, "/root", "" },
	{ "a_redirection_is_a_write", "sh: /etc/x: Operation not permitted", WRITE, "/etc/x", "" },
	{ "a_redirection_of_bash_is_a_write", "bash: /etc/x: Permission denied", WRITE, "/etc/x", "" },
	{ "the_last_path_is_the_target", "mv: cannot move '/a/b' to '/etc/c': Permission denied", WRITE, "/etc/c", "" },
	{ "a_relative_path_is_no_target", "touch: foo.txt: Permission denied", WRITE, "", "foo.txt" },
	{ "an_unknown_verb_is_other", "frobnicate: /x/y: Permission denied", OTHER, "/x/y", "" },
	{ "punctuation_is_trimmed", "denied \"/a/b\", Permission denied", OTHER, "/a/b", "" },
	{ "a_slash_alone_is_no_target", "chmod: / Permission denied", WRITE, "", "" },
	{ "a_quoted_slash_alone_is_no_target", "touch: cannot touch '/': Permission denied", WRITE, "", "" },

	/* GNU and BSD tools, shells */
	{ "cp: destination", "cp: cannot create regular file '/usr/bin/x': Permission denied", WRITE, "/usr/bin/x", "" },
	{ "cp: source", "cp: cannot open '/root/x' for reading: Permission denied", READ, "/root/x", "" },
	{ "tee", "tee: /etc/hosts: Permission denied", WRITE, "/etc/hosts", "" },
	{ "quoted with spaces", "touch: cannot touch '/a b/c d': Read-only file system", WRITE, "/a b/c d", "" },
	{ "quoted with an apostrophe", "rm: cannot remove \"/it's here\": Permission denied", WRITE, "/it's here", "" },
	{ "quoted, typographic", "rm: cannot remove \xe2\x80\x98/a b\xe2\x80\x99: Permission denied", WRITE, "/a b", "" },
	{ "quoted, an old GNU", "rm: cannot remove `/a b': Permission denied", WRITE, "/a b", "" },
	{ "a quote that nobody closes", "rm: cannot remove '/a b: Permission denied", WRITE, "/a", "" },
	{ "bash with a line number", "bash: line 1: /etc/a b: Permission denied", WRITE, "/etc/a b", "" },
	{ "dash with a line number", "sh: 1: cannot create /etc/x: Permission denied", WRITE, "/etc/x", "" },
	{ "dash, relative", "sh: 1: cannot create out.txt: Read-only file system", WRITE, "", "out.txt" },
	{ "bash, relative", "bash: out: Permission denied", WRITE, "", "out" },
	{ "quoted, relative", "mkdir: cannot create directory 'a b/c': Permission denied", WRITE, "", "a b/c" },
	{ "who speaks is no target", "sudo: Permission denied", OTHER, "", "" },
	{ "a line number is no target", "sh: 1: Permission denied", WRITE, "", "" },
	{ "rm: in another word", "alarm: /x/y: Permission denied", OTHER, "/x/y", "" },
	{ "ls: in another word", "tls: /x/y: Permission denied", OTHER, "/x/y", "" },
	{ "touch in a path", "foo: /x/touch/y: Permission denied", OTHER, "/x/touch/y", "" },
	{ "coloured", "\x1b[31mrm: cannot remove '/a'\x1b[0m: Permission denied", WRITE, "/a", "" },
	{ "carriage return", "cat: /a/b: Permission denied\r", READ, "/a/b", "" },
	{ "env: not executable", "sh: 1: exec: /x/y: Permission denied", EXEC, "/x/y", "" },
	{ "sed in place", "sed: couldn't open temporary file /etc/sedAbC: Permission denied", OTHER, "/etc/sedAbC", "" },
	{ "a pinned directory", "mv: cannot move '/p/.git' to '/p/x': Device or resource busy", WRITE, "/p/x", "" },
	{ "busy, but no write", "umount: /mnt: Device or resource busy", NONE, "", "" },
	{ "git: its configuration", "error: could not lock config file .git/config: Read-only file system", WRITE, "", ".git/config" },
	{ "ssh: somebody else's no", "git@host: Permission denied (publickey).", NONE, "", "" },

	/* runtimes */
	{ "node: open", "Error: EACCES: permission denied, open '/x/y z'", OTHER, "/x/y z", "" },
	{ "node: mkdir", "Error: EACCES: permission denied, mkdir '/x'", WRITE, "/x", "" },
	{ "node: rename", "Error: EPERM: operation not permitted, rename '/a' -> '/b'", WRITE, "/b", "" },
	{ "node: read-only", "Error: EROFS: read-only file system, open '/usr/x'", WRITE, "/usr/x", "" },
	{ "node: scandir", "Error: EACCES: permission denied, scandir '/root'", READ, "/root", "" },
	{ "node: spawn", "Error: spawn /x/run EACCES", EXEC, "/x/run", "" },
	{ "node: relative", "Error: EACCES: permission denied, unlink 'a/b'", WRITE, "", "a/b" },
	{ "node: a socket", "Error: connect EPERM /run/docker.sock", NETWORK, "/run/docker.sock", "" },
	{ "python: open", "PermissionError: [Errno 13] Permission denied: '/x y'", OTHER, "/x y", "" },
	{ "python: read-only", "OSError: [Errno 30] Read-only file system: '/x'", WRITE, "/x", "" },
	{ "python: relative", "PermissionError: [Errno 13] Permission denied: 'x y'", OTHER, "", "x y" },
	{ "python: nothing named", "PermissionError: [Errno 1] Operation not permitted", OTHER, "", "" },
	{ "go: open", "open /etc/x: permission denied", OTHER, "/etc/x", "" },
	{ "go: mkdir", "mkdir /opt/x: read-only file system", WRITE, "/opt/x", "" },
	{ "go: exec", "fork/exec /x/y: permission denied", EXEC, "/x/y", "" },
	{ "rust", "Error: failed to write `/x/y z`: Permission denied (os error 13)", WRITE, "/x/y z", "" },
	{ "java", "java.io.FileNotFoundException: /x/y (Permission denied)", OTHER, "/x/y", "" },
	{ "ruby", "rb_sysopen: Permission denied @ rb_sysopen - /x/y (Errno::EACCES)", OTHER, "/x/y", "" },
	{ "docker", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", NETWORK, "/var/run/docker.sock", "" },

	/* network */
	{ "net: curl, name", "curl: (6) Could not resolve host: example.com", NETWORK, "example.com", "" },
	{ "net: git", "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com", NETWORK, "github.com", "" },
	{ "net: node, name", "Error: getaddrinfo EAI_AGAIN example.com", NETWORK, "example.com", "" },
	{ "net: node, address", "Error: connect ENETUNREACH 93.184.216.34:443 - Local (0.0.0.0:0)", NETWORK, "93.184.216.34:443", "" },
	{ "net: python", "OSError: [Errno 101] Network is unreachable", NETWORK, "", "" },
	{ "net: ssh", "ssh: connect to host example.com port 22: Network is unreachable", NETWORK, "example.com:22", "" },
	{ "net: ssh, name", "ssh: Could not resolve hostname example.com: Temporary failure in name resolution", NETWORK, "example.com", "" },
	{ "net: wget", "wget: unable to resolve host address 'example.com'", NETWORK, "example.com", "" },
	{ "net: go", "dial tcp 93.184.216.34:443: connect: network is unreachable", NETWORK, "93.184.216.34:443", "" },
	{ "net: IPv6", "connect ENETUNREACH [2001:db8::1]:443", NETWORK, "[2001:db8::1]:443", "" },
	{ "net: connect", "nc: connect: Operation not permitted", NETWORK, "", "" },
	{ "net: refused is an answer", "curl: (7) Failed to connect to localhost port 80: Connection refused", NONE, "", "" },
	/* clang-format on */
};

static void
line_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct denial d;
	/* Not terminated, as in captured output. */
	size_t len = strlen(lines[i].line);
	cleanup_free char *text = malloc(len + 1);

	assert_non_null(text);
	memcpy(text, lines[i].line, len);
	text[len] = 'X';
	memset(&d, 'x', sizeof(d));
	if (lines[i].kind == NONE) {
		assert_false(stderr_parse_line(text, len, &d));
		return;
	}
	assert_true(stderr_parse_line(text, len, &d));
	assert_string_equal(d.target, lines[i].target);
	assert_string_equal(d.relative, lines[i].relative);
	assert_int_equal(d.kind, lines[i].kind);
}

/* ---- texts ---- */

struct seen {
	char all[512];
	int n, stop_at;
};

static int
on_denial(void *data, const struct denial *d)
{
	struct seen *s = data;

	strcat(s->all, d->target);
	strcat(s->all, " ");
	return ++s->n == s->stop_at ? 9 : 0;
}

static int
parse(const char *text, struct seen *s)
{
	return stderr_parse(text, strlen(text), on_denial, s);
}

/* VIO-07 */
static void
each_line_is_one_of_its_own(void **state)
{
	struct seen s = { 0 };

	assert_int_equal(parse("cat: /a/a: Permission denied\nfine\ncat: /b/b: Permission denied",
			     &s),
	    0);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.all, "/a/a /b/b ");
	s = (struct seen){ 0 };
	assert_int_equal(parse("\n\n\r\n", &s), 0);
	assert_int_equal(parse("", &s), 0);
	assert_int_equal(s.n, 0);
}

static void
it_stops_when_told(void **state)
{
	struct seen s = { .stop_at = 1 };

	assert_int_equal(parse("cat: /a/a: Permission denied\ncat: /b/b: Permission denied\n", &s),
	    9);
	assert_int_equal(s.n, 1);
}

static void
long_lines_are_cut(void **state)
{
	size_t len = 1u << 20;
	cleanup_free char *text = malloc(len);
	struct denial d;

	assert_non_null(text);
	memset(text, 'x', len);
	memcpy(text + len - 40, " cat: /a/b: Permission denied", 29);
	assert_false(stderr_parse_line(text, len, &d));
	/* A path longer than the part that is kept. */
	memcpy(text, "Permission denied: /", 20);
	assert_true(stderr_parse_line(text, len, &d));
	assert_int_equal(strlen(d.target), KODA_PATH_SHOWN_MAX - 1);
	assert_int_equal(d.target[0], '/');
	/* Only slashes, quotes and blanks: nothing to find, and no time lost. */
	for (size_t i = 0; i < len; i++)
		text[i] = "/'\" `"[i % 5];
	stderr_parse_line(text, len, &d);
	memset(text, 0, len);
	assert_false(stderr_parse_line(text, len, &d));
}

/* ---- compared with a view ---- */

static const struct {
	const char *label;
	enum koda_violation_kind kind;
	const char *target, *relative, *cwd;
	bool kept;
	const char *then; /* the target */
} judged[] = {
	{ "judge: a write outside", WRITE, "/etc/x", "", NULL, true, "/etc/x" },
	{ "judge: a write that the view allows", WRITE, "/p/src/x", "", NULL, false, "" },
	{ "judge: a write to what is protected", WRITE, "/p/.envrc", "", NULL, true, "/p/.envrc" },
	{ "judge: a read that the view allows", READ, "/etc/shadow", "", NULL, false, "" },
	{ "judge: a read of what is hidden", READ, "/p/secret/x", "", NULL, true, "/p/secret/x" },
	{ "judge: unknown, where all is allowed", OTHER, "/p/src/x", "", NULL, false, "" },
	{ "judge: unknown, where reading alone is", OTHER, "/etc/x", "", NULL, true, "/etc/x" },
	{ "judge: not executable", EXEC, "/p/run", "", NULL, false, "" },
	{ "judge: private", WRITE, "/tmp/x", "", NULL, false, "" },
	{ "judge: no target stays a guess", WRITE, "", "", NULL, true, "" },
	{ "judge: relative", WRITE, "", ".envrc", "/p", true, "/p/.envrc" },
	{ "judge: relative, allowed", WRITE, "", "src/x", "/p", false, "" },
	{ "judge: relative, upwards", WRITE, "", "../../etc/./x", "/p/src", true, "/etc/x" },
	{ "judge: relative to nothing known", WRITE, "", "src/x", NULL, true, "" },
	{ "judge: a host", NETWORK, "example.com", "", NULL, true, "example.com" },
	{ "judge: a socket", NETWORK, "/run/docker.sock", "", NULL, true, "/run/docker.sock" },
};

static void
judge_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char *writable[] = { (char *)(uintptr_t) "/p" };
	struct view_mount mounts[] = {
		{ VIEW_READ_ONLY, (char *)(uintptr_t) "/p/.envrc", 0, 0, "deny_write_within_allow",
		    false, false },
		{ VIEW_HIDE, (char *)(uintptr_t) "/p/secret", 0, 0, "deny_read", false, false },
	};
	const struct view v = { .writable = writable,
		.n_writable = 1,
		.mount = mounts,
		.n_mounts = 2 };
	struct denial d = { .kind = judged[i].kind };

	strcpy(d.target, judged[i].target);
	strcpy(d.relative, judged[i].relative);
	assert_int_equal(stderr_parse_judge(&d, &v, judged[i].cwd), judged[i].kept);
	if (judged[i].kept)
		assert_string_equal(d.target, judged[i].then);
}

static const struct {
	enum stderr_failure failure;
	const char *label, *text, *target, *relative; /* target NULL: not about that */
} failures[] = {
	{ STDERR_CROSS_DEVICE, "EXDEV: git",
	    "x\nfatal: renaming 'dir' failed: Invalid cross-device link\n", "", "dir" },
	{ STDERR_CROSS_DEVICE, "EXDEV: python",
	    "OSError: [Errno 18] Invalid cross-device link: '/p/a' -> '/p/b'\n", "/p/b", "" },
	{ STDERR_CROSS_DEVICE, "EXDEV: node",
	    "Error: EXDEV: cross-device link not permitted, rename '/p/a' -> '/p/b'", "/p/b", "" },
	{ STDERR_CROSS_DEVICE, "EXDEV: go", "rename /p/a /p/b: invalid cross-device link", "/p/b",
	    "" },
	{ STDERR_CROSS_DEVICE, "EXDEV: rust",
	    "Error: Os { code: 18, message: \"Invalid cross-device link\" }", "",
	    "Invalid cross-device link" },
	{ STDERR_CROSS_DEVICE, "EXDEV: nothing of it",
	    "mv: cannot move 'a' to 'b': Directory not empty\n", NULL, "" },
	{ STDERR_CROSS_DEVICE, "EXDEV: no text", "", NULL, "" },
	{ STDERR_OVERFLOW, "EOVERFLOW: sh",
	    "sh: 1: cannot create s/g: Value too large for defined data type\n", "", "s/g" },
	{ STDERR_OVERFLOW, "EOVERFLOW: node",
	    "Error: EOVERFLOW: value too large for defined data type, open '/p/b'", "/p/b", "" },
	{ STDERR_OVERFLOW, "EOVERFLOW: EXDEV", "mv: x: Invalid cross-device link\n", NULL, "" },
};

static void
rename_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct denial d;
	bool found = stderr_parse_failure(failures[i].failure, failures[i].text,
	    strlen(failures[i].text), &d);

	assert_int_equal(found, failures[i].target != NULL);
	if (!found)
		return;
	assert_string_equal(d.target, failures[i].target);
	assert_string_equal(d.relative, failures[i].relative);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(each_line_is_one_of_its_own),
		cmocka_unit_test(it_stops_when_told),
		cmocka_unit_test(long_lines_are_cut),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(lines) + N_ELEMENTS(judged) +
	    N_ELEMENTS(failures)];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(lines); i++)
		tests[n++] =
		    (struct CMUnitTest){ lines[i].label, line_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(judged); i++)
		tests[n++] =
		    (struct CMUnitTest){ judged[i].label, judge_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(failures); i++)
		tests[n++] =
		    (struct CMUnitTest){ failures[i].label, rename_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("stderr_parse", tests, NULL, NULL);
}
