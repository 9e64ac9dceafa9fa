/* SPDX-License-Identifier: Apache-2.0 */
/* host/command/environment.c: which variables a command gets, and which never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/command/environment.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

/* The environment of a developer's shell, with what must not leave it. */
static const char *const host[] = { "HOME=/home/user", "USER=user", "LOGNAME=user",
	"SHELL=/bin/zsh", "LANG=C.UTF-8", "LC_ALL=C", "LC_CTYPE=C", "LC_MESSAGES=C", "LC_COLLATE=C",
	"LC_NUMERIC=C", "LC_TIME=C", "LC_TELL=tale", "TERM=xterm", "COLORTERM=truecolor",
	"NO_COLOR=1", "FORCE_COLOR=3", "TZ=UTC", "PATH=/usr/local/bin:/usr/bin:/bin",
	"PWD=/elsewhere", "OLDPWD=/before", "HTTP_PROXY=http://proxy:3128",
	"https_proxy=http://user:hunter2@proxy:3128", "NO_PROXY=localhost",
	"CARGO_HOME=/home/user/.cargo", "RUSTUP_HOME=/home/user/.rustup", "RUSTC_WRAPPER=sccache",
	"GIT_AUTHOR_NAME=Nobody", "GIT_ASKPASS=/bin/askpass", "GIT_SSH_COMMAND=ssh -i key",
	"NODE_ENV=test", "NODE_PATH=/n", "PYTHONPATH=/py", "VIRTUAL_ENV=/home/user/p/venv",
	"KUBECONFIG=/k", "DOCKER_HOST=unix:///run/docker.sock", "AWS_PROFILE=work",
	"AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=secret", "CLOUDSDK_CONFIG=/g",
	"MAKEFLAGS=-j2", "GOPATH=/home/user/go", "GOMODCACHE=/home/user/mod",
	"GOPROXY=https://user:hunter2@proxy.example/", "JAVA_HOME=/usr/lib/jvm/default",
	"NVM_DIR=/home/user/.nvm", "OPENAI_API_KEY=secret", "GITHUB_TOKEN=secret",
	"NPM_TOKEN=secret", "SSH_AUTH_SOCK=/tmp/ssh/agent", "DISPLAY=:0",
	"DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus", "LD_PRELOAD=/evil.so",
	"KODA_INTERNAL=1", "BASH_FUNC_ls%%=() { evil; }", NULL };

static bool
below_project(void *data, const char *path)
{
	return strcmp(path, "/tmp") == 0 || strcmp(path, "/home/user/.cache") == 0 ||
	    strncmp(path, "/home/user/p", 12) == 0;
}

static const char *
value(const struct environment *e, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < e->n; i++) {
		if (strncmp(e->v[i], name, len) == 0 && e->v[i][len] == '=')
			return e->v[i] + len + 1;
	}
	return NULL;
}

static bool
held_back(const struct environment *e, const char *name)
{
	for (size_t i = 0; i < e->n_held_back; i++) {
		if (strcmp(e->held_back[i], name) == 0)
			return true;
	}
	return false;
}

static void
make(struct environment_input in, struct environment *ret)
{
	struct koda_error err = { 0 };

	if (in.host == NULL)
		in.host = host;
	if (in.root == NULL)
		in.root = "/home/user/p";
	in.uid = 1000;
	in.writable = below_project;
	if (environment_make(&in, ret, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(ret->v != NULL && ret->v[ret->n] == NULL);
}

static void
of_shell(const char *shell, struct environment *ret)
{
	make((struct environment_input){ .shell = shell }, ret);
}

/* ENV-01, ENV-02: nothing else */
static void
only_what_is_listed(void **state)
{
	static const char *const want[] = { "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL",
		"LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "TERM",
		"COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ", "PATH", "PWD", "JAVA_HOME", "GOPATH",
		"GOMODCACHE", "NVM_DIR", "XDG_RUNTIME_DIR", "KODA_SANDBOX" };
	cleanup(environment_done) struct environment e = { 0 };

	of_shell("ls", &e);
	for (size_t i = 0; i < N_ELEMENTS(want); i++) {
		if (value(&e, want[i]) == NULL)
			fail_msg("'%s' is not passed on", want[i]);
	}
	assert_int_equal(e.n, N_ELEMENTS(want));
	assert_string_equal(value(&e, "HOME"), "/home/user");
	assert_string_equal(value(&e, "PWD"), "/home/user/p");
	assert_string_equal(value(&e, "XDG_RUNTIME_DIR"), "/run/user/1000");
	assert_string_equal(value(&e, "KODA_SANDBOX"), "1");
	assert_int_equal(e.n_held_back, 0); /* variables that are not listed are not reported */
}

/* ENV-03 */
static void
what_is_not_set_is_absent(void **state)
{
	static const char *const empty[] = { NULL };
	cleanup(environment_done) struct environment e = { 0 };

	make((struct environment_input){ .host = empty, .shell = "ls" }, &e);
	assert_null(value(&e, "LANG"));
	assert_null(value(&e, "HOME"));
	assert_null(value(&e, "TMPDIR"));
	assert_string_equal(value(&e, "PATH"), "/usr/local/bin:/usr/bin:/bin");
	assert_int_equal(e.n, 4);
}

/* ENV-09, ENV-12: not even when the tool's own list is chosen */
static void
secrets_never_pass(void **state)
{
	static const char *const tools[] = { "ls", "cargo", "git push", "npm test", "python3 x",
		"go build", "kubectl", "docker", "gcloud", "aws s3 ls", "make" };
	static const char *const never[] = { "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN", "GITHUB_TOKEN", "NPM_TOKEN", "GIT_ASKPASS", "GIT_SSH_COMMAND",
		"SSH_AUTH_SOCK", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "LD_PRELOAD", "HTTP_PROXY",
		"https_proxy", "NO_PROXY", "KODA_INTERNAL", "OLDPWD", "LC_TELL", "GOPROXY" };

	for (size_t t = 0; t < N_ELEMENTS(tools); t++) {
		cleanup(environment_done) struct environment e = { 0 };

		of_shell(tools[t], &e);
		for (size_t i = 0; i < N_ELEMENTS(never); i++)
			assert_null(value(&e, never[i]));
		for (size_t i = 0; i < e.n; i++) {
			assert_null(strstr(e.v[i], "secret"));
			assert_null(strstr(e.v[i], "hunter2"));
			assert_null(strstr(e.v[i], "evil"));
		}
	}
}

/* ENV-13 */
static void
no_list_has_a_name_like_a_secret(void **state)
{
	static const char *const shapes[] = { "KEY", "SECRET", "TOKEN", "PASSWORD", "CRED", "PROXY",
		"AUTH_SOCK", "ASKPASS" };
	size_t n = 0;

	for (const char *name; (name = environment_listed(n)) != NULL; n++) {
		for (size_t i = 0; i < N_ELEMENTS(shapes); i++) {
			if (strstr(name, shapes[i]) != NULL && strcmp(name, "GOPROXY") != 0)
				fail_msg("'%s' looks like a secret", name);
		}
	}
	assert_true(n > 60);
}

/* ---- which tool ---- */

static const struct {
	const char *label, *shell, *tool;
} tools[] = {
	{ "tool: first word", "cargo build", "cargo" },
	{ "tool: its directory is dropped (ENV-05)", "/usr/bin/git status", "git" },
	{ "tool: relative", "./gradlew test", "gradlew" },
	{ "tool: assignment (ENV-06)", "X=1 cargo build", "" },
	{ "tool: parenthesis (ENV-06)", "(cd x && cargo build)", "" },
	{ "tool: nothing (ENV-07)", "", "" },
	{ "tool: blank (ENV-07)", "  \t ", "" },
	{ "tool: a shell (ENV-08)", "bash -c 'cargo build'", "bash" },
	{ "tool: leading blanks", "   make all", "make" },
	{ "tool: newline", "ls\ngit", "ls" },
	{ "tool: directory alone", "/usr/bin/", "" },
	{ "tool: longer than any",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "" },
};

static void
tool_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char buf[64];

	assert_string_equal(environment_tool(tools[i].shell, buf, sizeof(buf)), tools[i].tool);
}

static const struct {
	const char *label, *shell;
	const char *argv[4];
	const char *has, *lacks;
} extras[] = {
	{ "extras: cargo (ENV-04)", "cargo build", .has = "CARGO_HOME", .lacks = "NODE_ENV" },
	{ "extras: rustc", "rustc x.rs", .has = "RUSTC_WRAPPER", .lacks = "GIT_AUTHOR_NAME" },
	{ "extras: ls (ENV-04)", "ls", .has = "HOME", .lacks = "CARGO_HOME" },
	{ "extras: git by path (ENV-05)", "/usr/bin/git status", .has = "GIT_AUTHOR_NAME",
	    .lacks = "CARGO_HOME" },
	{ "extras: assignment (ENV-06)", "X=1 cargo build", .has = "HOME", .lacks = "CARGO_HOME" },
	{ "extras: bash -c (ENV-08)", "bash -c 'cargo build'", .has = "HOME",
	    .lacks = "CARGO_HOME" },
	{ "extras: argv", NULL, { "/usr/bin/cargo", "build", NULL }, "CARGO_HOME", "NODE_ENV" },
	{ "extras: argv of a shell", NULL, { "sh", "-c", "cargo build", NULL }, "HOME",
	    "CARGO_HOME" },
	{ "extras: empty argv", NULL, { NULL }, "HOME", "CARGO_HOME" },
	{ "extras: npm", "npm test", .has = "NODE_ENV", .lacks = "PYTHONPATH" },
	{ "extras: uv", "uv run x", .has = "PYTHONPATH", .lacks = "NODE_ENV" },
	{ "extras: helm", "helm list", .has = "KUBECONFIG", .lacks = "DOCKER_HOST" },
	{ "extras: podman", "podman ps", .has = "DOCKER_HOST", .lacks = "KUBECONFIG" },
	{ "extras: bq", "bq ls", .has = "CLOUDSDK_CONFIG", .lacks = "AWS_PROFILE" },
	{ "extras: aws", "aws s3 ls", .has = "AWS_PROFILE", .lacks = "CLOUDSDK_CONFIG" },
	{ "extras: gmake", "gmake", .has = "MAKEFLAGS", .lacks = "CARGO_HOME" },
	{ "toolchains are found behind a cd", "cd x && go build", .has = "GOPATH",
	    .lacks = "CARGO_HOME" },
};

static void
extras_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(environment_done) struct environment e = { 0 };

	make((struct environment_input){ .shell = extras[i].shell,
		 .argv = extras[i].shell == NULL ? extras[i].argv : NULL },
	    &e);
	assert_non_null(value(&e, extras[i].has));
	assert_null(value(&e, extras[i].lacks));
}

/* ---- values ---- */

static const struct {
	const char *label, *text;
	bool has;
} credentials[] = {
	{ "credentials: user and password", "https://user:pass@host/x", true },
	{ "credentials: behind other words", "a,b socks5h://u:p@host:1080 c", true },
	{ "credentials: the second address", "http://plain/ ftp://u:p@host", true },
	{ "credentials: a token instead of a name", "https://ghp_abc@github.com/x", true },
	{ "credentials: an empty password of http", "http://user:@host", true },
	{ "credentials: an @ in the password", "http://user:p@ss@host", true },
	{ "credentials: a database", "postgres://u:p@db/x", true },
	{ "none: no address", "user:pass@host", false },
	{ "none: a user of ssh", "ssh://git@github.com/x", false },
	{ "none: a port", "http://host:3128/", false },
	{ "none: an @ in the path", "https://host/@scope/name", false },
	{ "none: an @ in the query", "https://host?mail=a@b", false },
	{ "none: an empty password", "ssh://git:@host", false },
	{ "none: nothing before the @", "http://@host", false },
	{ "none: a path", "/usr/bin:/bin", false },
	{ "none: empty", "", false },
	{ "none: a scheme alone", "://", false },
};

static void
credentials_case(void **state)
{
	size_t i = (uintptr_t)*state;

	assert_int_equal(environment_has_credentials(credentials[i].text), credentials[i].has);
}

static void
what_carries_credentials_is_held_back_and_said(void **state)
{
	cleanup(environment_done) struct environment e = { 0 };

	of_shell("go build", &e);
	assert_null(value(&e, "GOPROXY"));
	assert_true(held_back(&e, "GOPROXY"));
	assert_int_equal(e.n_held_back, 1);
}

/* ENV-14 */
static void
what_is_not_text_is_held_back(void **state)
{
	static const char *const bad[] = { "\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80",
		"\xf5\x80\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80" };

	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		cleanup(environment_done) struct environment e = { 0 };
		char lang[32];
		const char *const with[] = { lang, "USER=r\xc3\xa9mi", NULL };

		snprintf(lang, sizeof(lang), "LANG=%s", bad[i]);
		make((struct environment_input){ .host = with, .shell = "ls" }, &e);
		assert_null(value(&e, "LANG"));
		assert_true(held_back(&e, "LANG"));
		assert_string_equal(value(&e, "USER"), "r\xc3\xa9mi");
	}
}

static const struct {
	const char *label, *path, *want;
} paths[] = {
	{ "PATH: as it is", "/usr/bin:/bin", "/usr/bin:/bin" },
	{ "PATH: relative entries go", "node_modules/.bin:/usr/bin:.:bin", "/usr/bin" },
	{ "PATH: empty entries go", ":/usr/bin::/bin:", "/usr/bin:/bin" },
	{ "PATH: what commands can write comes last", "/home/user/p/bin:/usr/bin:/bin",
	    "/usr/bin:/bin:/home/user/p/bin" },
	{ "PATH: two of them keep their order", "/home/user/p/a:/usr/bin:/home/user/p/b",
	    "/usr/bin:/home/user/p/a:/home/user/p/b" },
	{ "PATH: an activated environment stays where it is", "/home/user/p/venv/bin:/usr/bin",
	    "/home/user/p/venv/bin:/usr/bin" },
	{ "PATH: something like it does not", "/home/user/p/venv/bin2:/usr/bin",
	    "/usr/bin:/home/user/p/venv/bin2" },
	{ "PATH: an entry that is no text goes", "/a\xff:/usr/bin", "/usr/bin" },
	{ "PATH: nothing is left", ".:", "/usr/local/bin:/usr/bin:/bin" },
	{ "PATH: read-only places of the home directory stay", "/home/user/.cargo/bin:/usr/bin",
	    "/home/user/.cargo/bin:/usr/bin" },
};

static void
path_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(environment_done) struct environment e = { 0 };
	char path[256];
	const char *const with[] = { path, "VIRTUAL_ENV=/home/user/p/venv", NULL };

	snprintf(path, sizeof(path), "PATH=%s", paths[i].path);
	make((struct environment_input){ .host = with, .shell = "ls" }, &e);
	assert_string_equal(value(&e, "PATH"), paths[i].want);
}

static const struct {
	const char *label, *name, *value, *want; /* NULL: absent */
} places[] = {
	{ "place: TMPDIR that can be written", "TMPDIR", "/home/user/p/tmp", "/home/user/p/tmp" },
	{ "place: TMPDIR that is not there", "TMPDIR", "/tmp/user-1000", "/tmp" },
	{ "place: TMPDIR of the host", "TMPDIR", "/var/folders/x", "/tmp" },
	{ "place: TMP", "TMP", "/tmp", "/tmp" },
	{ "place: TEMP that is relative", "TEMP", "tmp", "/tmp" },
	{ "place: TMPDIR that is no text", "TMPDIR", "/home/user/p\xff", "/tmp" },
	{ "place: a cache that can be written", "XDG_CACHE_HOME", "/home/user/.cache",
	    "/home/user/.cache" },
	{ "place: a cache that cannot", "XDG_CACHE_HOME", "/var/cache/user", NULL },
	{ "place: configuration", "XDG_CONFIG_HOME", "/home/user/cfg", "/home/user/cfg" },
	{ "place: configuration that is not there", "XDG_CONFIG_HOME", "/tmp/cfg", NULL },
	{ "place: configuration that is relative", "XDG_CONFIG_HOME", "cfg", NULL },
	{ "place: data", "XDG_DATA_HOME", "/home/user/data", "/home/user/data" },
	{ "place: the host's runtime directory", "XDG_RUNTIME_DIR", "/run/user/5",
	    "/run/user/1000" },
	{ "place: PWD", "PWD", "/elsewhere", "/home/user/p" },
};

static void
place_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(environment_done) struct environment e = { 0 };
	char text[256];
	const char *const with[] = { text, NULL };

	snprintf(text, sizeof(text), "%s=%s", places[i].name, places[i].value);
	make((struct environment_input){ .host = with, .shell = "ls" }, &e);
	if (places[i].want == NULL)
		assert_null(value(&e, places[i].name));
	else
		assert_string_equal(value(&e, places[i].name), places[i].want);
}

/* ---- what the caller adds ---- */

static void
extra_replaces_and_adds(void **state)
{
	static const char *const extra[] = { "HOME=/other", "NEW=a=b", "EMPTY=", "PATH=/x", NULL };
	cleanup(environment_done) struct environment e = { 0 };
	size_t homes = 0;

	make((struct environment_input){ .shell = "ls", .extra = extra }, &e);
	assert_string_equal(value(&e, "HOME"), "/other");
	assert_string_equal(value(&e, "NEW"), "a=b");
	assert_string_equal(value(&e, "EMPTY"), "");
	assert_string_equal(value(&e, "PATH"), "/x");
	for (size_t i = 0; i < e.n; i++)
		homes += strncmp(e.v[i], "HOME=", 5) == 0;
	assert_int_equal(homes, 1);
}

static void
extra_has_to_be_an_assignment(void **state)
{
	static const char *const bad[][2] = { { "NAME", NULL }, { "=x", NULL }, { "", NULL } };

	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		struct environment_input in = { .host = host, .extra = bad[i], .shell = "ls" };
		struct environment e = { 0 };
		struct koda_error err = { 0 };

		assert_int_equal(environment_make(&in, &e, &err), -1);
		assert_int_equal(err.code, KODA_INVALID);
		assert_null(e.v);
	}
}

/* ---- public ---- */

struct seen {
	bool home, held, secret;
	size_t n, stop_at;
};

static int
on_variable(void *data, const char *name, const char *text, bool passed)
{
	struct seen *s = data;

	s->home = s->home || (passed && strcmp(name, "HOME") == 0 && text[0] == '/');
	s->held = s->held || (!passed && strcmp(name, "GOPROXY") == 0);
	s->secret = s->secret || strstr(text, "hunter2") != NULL;
	return ++s->n == s->stop_at ? 7 : 0;
}

static void
koda_environment_tells(void **state)
{
	struct seen s = { 0 };

	assert_int_equal(setenv("GOPROXY", "https://user:hunter2@host/", 1), 0);
	assert_int_equal(koda_environment("/usr/bin/go", on_variable, &s), 0);
	assert_true(s.home);
	assert_true(s.held);
	assert_false(s.secret);
	s = (struct seen){ .stop_at = 2 };
	assert_int_equal(koda_environment(NULL, on_variable, &s), 7);
	assert_int_equal(s.n, 2);
	assert_int_equal(unsetenv("GOPROXY"), 0);
}

#define ADD(table, fn)                                                                             \
	for (uintptr_t i = 0; i < N_ELEMENTS(table); i++)                                          \
		tests[n++] = (struct CMUnitTest)                                                   \
		{                                                                                  \
			table[i].label, fn, NULL, NULL, (void *)i                                  \
		}

/* BQT-01, BQT-03: only the slot's own loopback is reached without the proxy */
static void
the_way_out(void **state)
{
	static const char *const want[][2] = {
		{ "HTTP_PROXY", "http://127.0.0.1:28889" },
		{ "HTTPS_PROXY", "http://127.0.0.1:28889" },
		{ "http_proxy", "http://127.0.0.1:28889" },
		{ "https_proxy", "http://127.0.0.1:28889" },
		{ "ALL_PROXY", "socks5h://127.0.0.1:28889" },
		{ "all_proxy", "socks5h://127.0.0.1:28889" },
		{ "NO_PROXY", "localhost,127.0.0.1,::1" },
		{ "no_proxy", "localhost,127.0.0.1,::1" },
		{ "NODE_USE_ENV_PROXY", "1" },
	};
	static const char *const extra[] = { "https_proxy=http://mine:1", NULL };
	cleanup(environment_done) struct environment e = { 0 }, mine = { 0 };

	make((struct environment_input){ .shell = "ls", .egress_port = 28889 }, &e);
	for (size_t i = 0; i < N_ELEMENTS(want); i++) {
		if (value(&e, want[i][0]) == NULL)
			fail_msg("'%s' is not set", want[i][0]);
		assert_string_equal(value(&e, want[i][0]), want[i][1]);
	}
	assert_null(value(&e, "GIT_SSH_COMMAND"));
	assert_null(value(&e, "SSL_CERT_FILE"));
	make((struct environment_input){ .shell = "ls", .egress_port = 28889, .extra = extra },
	    &mine);
	assert_string_equal(value(&mine, "https_proxy"), "http://mine:1");
	assert_string_equal(value(&mine, "HTTPS_PROXY"), "http://127.0.0.1:28889");
}

static void
the_way_out_of_ssh(void **state)
{
	static const struct {
		const char *helper, *extra, *want;
	} rows[] = {
		{ "/opt/koda-1.0/c", NULL, "ssh -o 'ProxyCommand=/opt/koda-1.0/c %h %p'" },
		{ "/opt/koda/c", "A=1", "ssh -o 'ProxyCommand=/opt/koda/c %h %p'" },
		{ "/opt/koda/c", "GIT_SSH_COMMAND=ssh -v", "ssh -v" },
		{ "/opt/koda/c", "GIT_SSH=/usr/bin/plink", NULL },
		{ "", NULL, NULL },
		{ NULL, NULL, NULL },
		{ "/opt/my koda/c", NULL, NULL },
		{ "/opt/it's/c", NULL, NULL },
		{ "/opt/100%/c", NULL, NULL },
		{ "/opt/$HOME/c", NULL, NULL },
		{ "/opt/a\nb", NULL, NULL },
		{ "/opt/\\/c", NULL, NULL },
		{ "opt/c", NULL, NULL },
	};

	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		cleanup(environment_done) struct environment e = { 0 };
		const char *const extra[] = { rows[i].extra, NULL };

		make((struct environment_input){ .shell = "git fetch",
			 .egress_port = 28889,
			 .connect_helper = rows[i].helper,
			 .extra = extra },
		    &e);
		if (rows[i].want == NULL)
			assert_null(value(&e, "GIT_SSH_COMMAND"));
		else
			assert_string_equal(value(&e, "GIT_SSH_COMMAND"), rows[i].want);
	}
}

/* BQT-02 */
static void
certificates(void **state)
{
	static const char *const names[] = { "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
		"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO" };
	cleanup(environment_done) struct environment e = { 0 }, none = { 0 };

	make((struct environment_input){ .shell = "ls", .ca_file = "/etc/ours.pem" }, &e);
	make((struct environment_input){ .shell = "ls" }, &none);
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		assert_string_equal(value(&e, names[i]), "/etc/ours.pem");
		assert_null(value(&none, names[i]));
	}
	assert_null(value(&none, "HTTPS_PROXY"));
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(only_what_is_listed),
		cmocka_unit_test(what_is_not_set_is_absent),
		cmocka_unit_test(secrets_never_pass),
		cmocka_unit_test(no_list_has_a_name_like_a_secret),
		cmocka_unit_test(what_carries_credentials_is_held_back_and_said),
		cmocka_unit_test(what_is_not_text_is_held_back),
		cmocka_unit_test(extra_replaces_and_adds),
		cmocka_unit_test(extra_has_to_be_an_assignment),
		cmocka_unit_test(koda_environment_tells),
		cmocka_unit_test(the_way_out),
		cmocka_unit_test(the_way_out_of_ssh),
		cmocka_unit_test(certificates),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(tools) + N_ELEMENTS(extras) +
	    N_ELEMENTS(credentials) + N_ELEMENTS(paths) + N_ELEMENTS(places)];
	size_t n = 0;

	OTHERS(single);
	ADD(tools, tool_case);
	ADD(extras, extras_case);
	ADD(credentials, credentials_case);
	ADD(paths, path_case);
	ADD(places, place_case);
	return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
