/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/environment.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/sandbox/bwrap.h"
#include "include/koda/sandbox.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/utf8.h"

#define TOOL_MAX     64 /* longer than any name below */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/*
 * No name here carries a secret by itself: AWS_SHARED_CREDENTIALS_FILE is left out although it is
 * only a path, so that a test can compare the lists with the shape of names of secrets. No proxy of
 * the host either: it cannot be reached from inside, only koda's own proxy can.
 */
/* clang-format off */
static const char *const base_names[] = {
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE",
	/* Listed by name: ssh passes LC_* on, and people send other things in such variables. */
	"LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "LC_MONETARY", "LC_PAPER",
	"LC_NAME", "LC_ADDRESS", "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION",
	"TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ",
	/* Where toolchains are, for every command: the tool itself is often started by a script or
	 * after a `cd`. */
	"JAVA_HOME", "GOPATH", "GOMODCACHE", "NVM_DIR",
	NULL,
};

static const char *const rust_names[] = { "CARGO_HOME", "RUSTUP_HOME", "RUST_LOG", "RUST_BACKTRACE", "RUSTC_WRAPPER",
	"CARGO_TARGET_DIR", NULL };
static const char *const git_names[] = { "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
	"GIT_COMMITTER_EMAIL", "GIT_DIR", "GIT_WORK_TREE", "GIT_PAGER", NULL };
static const char *const node_names[] = { "NODE_PATH", "NPM_CONFIG_USERCONFIG", "NODE_ENV", NULL };
static const char *const python_names[] = { "PYTHONPATH", "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION", "PIPX_HOME",
	"PIPX_BIN_DIR", NULL };
static const char *const go_names[] = { "GOROOT", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", NULL };
static const char *const kube_names[] = { "KUBECONFIG", NULL };
static const char *const docker_names[] = { "DOCKER_HOST", "DOCKER_CONFIG", NULL };
static const char *const gcloud_names[] = { "CLOUDSDK_CONFIG", "CLOUDSDK_ACTIVE_CONFIG_NAME", NULL };
static const char *const aws_names[] = { "AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", NULL };
static const char *const make_names[] = { "MAKEFLAGS", "MAKELEVEL", NULL };

static const struct {
	const char *tool[7];
	const char *const *names;
} tools[] = {
	{ { "cargo", "rustc", "rustup", "rustfmt", "clippy-driver" },              rust_names },
	{ { "git" },                                                               git_names },
	{ { "npm", "node", "yarn", "pnpm", "npx" },                                node_names },
	{ { "python", "python3", "pip", "pip3", "uv", "pipx", "poetry" },          python_names },
	{ { "go" },                                                                go_names },
	{ { "kubectl", "helm", "k9s" },                                            kube_names },
	{ { "docker", "podman" },                                                  docker_names },
	{ { "gcloud", "bq", "gsutil" },                                            gcloud_names },
	{ { "aws" },                                                               aws_names },
	{ { "make", "gmake" },                                                     make_names },
};

/* Passed on depending on where they lead. */
static const char *const place_names[] = {
	"TMPDIR", "TMP", "TEMP",
	"XDG_CACHE_HOME",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"PATH",
	NULL,
};
/* clang-format on */

const char *
environment_listed(size_t i)
{
	const char *const *lists[N_ELEMENTS(tools) + 2];
	size_t n = 0;

	lists[n++] = base_names;
	lists[n++] = place_names;
	for (size_t t = 0; t < N_ELEMENTS(tools); t++)
		lists[n++] = tools[t].names;
	for (size_t l = 0; l < n; l++) {
		for (size_t k = 0; lists[l][k] != NULL; k++) {
			if (i-- == 0)
				return lists[l][k];
		}
	}
	return NULL;
}

static const char *
last_component(const char *word, size_t len, size_t *ret_len)
{
	const char *slash = memrchr(word, '/', len);
	const char *name = slash != NULL ? slash + 1 : word;

	*ret_len = len - (size_t)(name - word);
	return name;
}

const char *
environment_tool(const char *shell, char *buf, size_t size)
{
	const char *word = shell + strspn(shell, " \t\r\n\v\f"), *name;
	size_t len = strcspn(word, " \t\r\n\v\f");

	if (size == 0)
		return "";
	buf[0] = '\0';
	if (len == 0 || word[0] == '(' || memchr(word, '=', len) != NULL)
		return buf;
	name = last_component(word, len, &len);
	if (len < size) {
		memcpy(buf, name, len);
		buf[len] = '\0';
	}
	return buf;
}

static const char *const *
names_of(const char *tool)
{
	for (size_t i = 0; i < N_ELEMENTS(tools); i++) {
		for (size_t k = 0; k < N_ELEMENTS(tools[i].tool) && tools[i].tool[k] != NULL; k++) {
			if (strcmp(tools[i].tool[k], tool) == 0)
				return tools[i].names;
		}
	}
	return NULL;
}

/* ---- values ---- */

/* Looks for scheme://user:password@host, and for http also text without a colon before the @: it is
 * as often a token as a name. */
bool
environment_has_credentials(const char *value)
{
	for (const char *at = strstr(value, "://"); at != NULL; at = strstr(at, "://")) {
		const char *scheme = at, *authority = at + 3, *user_end, *colon;
		bool http;

		while (scheme > value &&
		    (isalnum((unsigned char)scheme[-1]) || strchr("+-.", scheme[-1])))
			scheme--;
		http = strncasecmp(scheme, "http", 4) == 0;
		at = authority;
		user_end = memrchr(authority, '@', strcspn(authority, "/?#\\ \t\r\n\"'<>"));
		if (user_end == NULL || user_end == authority)
			continue;
		colon = memchr(authority, ':', (size_t)(user_end - authority));
		if (http || (colon != NULL && colon + 1 < user_end))
			return true;
	}
	return false;
}

static const char *
value_of(const char *const *host, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; host != NULL && host[i] != NULL; i++) {
		if (strncmp(host[i], name, len) == 0 && host[i][len] == '=')
			return host[i] + len + 1;
	}
	return NULL;
}

static bool
is_private(const char *path, bool itself)
{
	for (size_t i = 0; bwrap_private[i] != NULL; i++) {
		if (itself ? strcmp(path, bwrap_private[i]) == 0
			   : path_is_inside(path, bwrap_private[i]))
			return true;
	}
	return false;
}

static bool
is_writable(const struct environment_input *in, const char *path)
{
	if (path[0] != '/')
		return false;
	return in->writable != NULL ? in->writable(in->data, path) : is_private(path, true);
}

/* ---- building the lists ---- */

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "environment");
}

static int
push_consume(char ***v, size_t *n, char *text, struct koda_error *err)
{
	char **grown = text != NULL ? realloc(*v, (*n + 2) * sizeof(*grown)) : NULL;

	if (grown == NULL) {
		free(text);
		return no_memory(err);
	}
	*v = grown;
	grown[(*n)++] = text;
	grown[*n] = NULL;
	return 0;
}

/* Replaces the entry of that name, if there is one. */
static int
put(struct environment *e, const char *name, size_t name_len, const char *value,
    struct koda_error *err)
{
	char *text;

	if (asprintf(&text, "%.*s=%s", (int)name_len, name, value) < 0)
		return no_memory(err);
	for (size_t i = 0; i < e->n; i++) {
		if (strncmp(e->v[i], text, name_len + 1) == 0) {
			free(e->v[i]);
			e->v[i] = text;
			return 0;
		}
	}
	return push_consume(&e->v, &e->n, text, err);
}

static int
hold_back(struct environment *e, const char *name, struct koda_error *err)
{
	return push_consume(&e->held_back, &e->n_held_back, strdup(name), err);
}

static int
pass(const struct environment_input *in, const char *name, struct environment *e,
    struct koda_error *err)
{
	const char *value = value_of(in->host, name);

	if (value == NULL)
		return 0;
	if (!utf8_is_valid(value, strlen(value)) || environment_has_credentials(value))
		return hold_back(e, name, err);
	return put(e, name, strlen(name), value, err);
}

static int
pass_all(const struct environment_input *in, const char *const *names, struct environment *e,
    struct koda_error *err)
{
	for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
		if (pass(in, names[i], e, err) < 0)
			return -1;
	}
	return 0;
}

/* The bin directory of a virtual environment keeps its place in PATH, because the user who
 * activated it wants its tools to come first. */
static bool
is_of_virtual_env(const struct environment_input *in, const char *entry)
{
	const char *env = value_of(in->host, "VIRTUAL_ENV");
	size_t len = env != NULL ? strlen(env) : 0;

	return len > 1 && strncmp(entry, env, len) == 0 && strcmp(entry + len, "/bin") == 0;
}

/*
 * Drops relative and empty entries: they mean whatever is in the directory that a tool happens to
 * run in. Puts entries that commands can write last: what one command planted there is not taken
 * for a system tool by the next command (which may have been approved by its name), and what exists
 * only there is still found.
 */
static int
pass_path(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	const char *value = value_of(in->host, "PATH");
	size_t size = strlen(value != NULL ? value : "") + 2, n = 0;
	cleanup_free char *made = malloc(size), *entries = strdup(value != NULL ? value : "");

	if (made == NULL || entries == NULL)
		return no_memory(err);
	made[0] = '\0';
	for (int last = 0; last < 2; last++) {
		char *rest = entries, *entry;

		strcpy(entries, value != NULL ? value : "");
		while ((entry = strsep(&rest, ":")) != NULL) {
			if (entry[0] != '/' || !utf8_is_valid(entry, strlen(entry)))
				continue;
			if ((is_writable(in, entry) && !is_of_virtual_env(in, entry)) !=
			    (last == 1))
				continue;
			n += (size_t)snprintf(made + n, size - n, "%s%s", n > 0 ? ":" : "", entry);
		}
	}
	return put(e, "PATH", 4, made[0] != '\0' ? made : DEFAULT_PATH, err);
}

static int
pass_places(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	static const char *const temporary[] = { "TMPDIR", "TMP", "TEMP" };
	static const char *const seen[] = { "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME" };
	const char *value;
	char runtime[64];

	for (size_t i = 0; i < N_ELEMENTS(temporary); i++) {
		value = value_of(in->host, temporary[i]);
		if (value != NULL &&
		    put(e, temporary[i], strlen(temporary[i]),
			utf8_is_valid(value, strlen(value)) && is_writable(in, value) ? value
										      : "/tmp",
			err) < 0)
			return -1;
	}
	/* Without the variable the cache is ~/.cache, which can be written. */
	value = value_of(in->host, "XDG_CACHE_HOME");
	if (value != NULL && is_writable(in, value) && pass(in, "XDG_CACHE_HOME", e, err) < 0)
		return -1;
	/* Where tools find their configuration, if that directory is visible. */
	for (size_t i = 0; i < N_ELEMENTS(seen); i++) {
		value = value_of(in->host, seen[i]);
		if (value != NULL && value[0] == '/' &&
		    (!is_private(value, false) || is_writable(in, value)) &&
		    pass(in, seen[i], e, err) < 0)
			return -1;
	}
	snprintf(runtime, sizeof(runtime), "/run/user/%u", in->uid);
	return put(e, "XDG_RUNTIME_DIR", strlen("XDG_RUNTIME_DIR"), runtime, err);
}

static bool
has_name(const char *const *v, const char *name)
{
	return value_of(v, name) != NULL;
}

/* git passes the path to a shell, and ssh expands % and uses a shell too: none of them may find
 * anything special in it. */
static bool
is_plain_path(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "+,-./:=@_";

	return path != NULL && path[0] == '/' && path[strspn(path, plain)] == '\0';
}

static int
put_all(const char *const *names, const char *value, struct environment *e, struct koda_error *err)
{
	for (; *names != NULL; names++) {
		if (put(e, *names, strlen(*names), value, err) < 0)
			return -1;
	}
	return 0;
}

/* Sets the proxy, the only way out, in every variable in which programs look for one. */
static int
put_egress(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	static const char *const http[] = { "HTTP_PROXY", "HTTPS_PROXY", "http_proxy",
		"https_proxy", NULL };
	static const char *const all[] = { "ALL_PROXY", "all_proxy", NULL };
	/* Exempts the slot's own loopback and nothing else: everything further away is reached
	 * through the proxy or not at all. */
	static const char *const no[] = { "NO_PROXY", "no_proxy", NULL };
	static const char *const node[] = { "NODE_USE_ENV_PROXY", NULL };
	static const char *const ssh[] = { "GIT_SSH_COMMAND", NULL };
	char value[PATH_LEN_MAX + 64];

	if (in->egress_port == 0)
		return 0;
	snprintf(value, sizeof(value), "http://127.0.0.1:%u", in->egress_port);
	if (put_all(http, value, e, err) < 0)
		return -1;
	snprintf(value, sizeof(value), "socks5h://127.0.0.1:%u", in->egress_port);
	if (put_all(all, value, e, err) < 0 || put_all(no, "localhost,127.0.0.1,::1", e, err) < 0 ||
	    put_all(node, "1", e, err) < 0)
		return -1;
	/* ssh reads no proxy variable. A caller that sets an ssh command of its own keeps it. */
	if (!is_plain_path(in->connect_helper) || has_name(in->extra, "GIT_SSH_COMMAND") ||
	    has_name(in->extra, "GIT_SSH"))
		return 0;
	snprintf(value, sizeof(value), "ssh -o 'ProxyCommand=%s %%h %%p'", in->connect_helper);
	return put_all(ssh, value, e, err);
}

/* git stops where a file system begins. */
static int
put_git(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	static const char *const names[] = { "GIT_DISCOVERY_ACROSS_FILESYSTEM", NULL };

	return in->git_across ? put_all(names, "1", e, err) : 0;
}

static int
put_certificates(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	static const char *const names[] = { "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
		"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", NULL };

	return in->ca_file == NULL ? 0 : put_all(names, in->ca_file, e, err);
}

/* Without these variables the tools would try to create their caches where they cannot write. */
static int
put_spare(const struct environment_input *in, struct environment *e, struct koda_error *err)
{
	for (size_t i = 0; i < in->n_spare; i++) {
		char value[PATH_LEN_MAX + 1];

		snprintf(value, sizeof(value), "%s/%s", in->spare_dir, in->spare[i].below);
		if (put(e, in->spare[i].name, strlen(in->spare[i].name), value, err) < 0)
			return -1;
	}
	return 0;
}

static int
put_extra(const char *const *extra, struct environment *e, struct koda_error *err)
{
	for (size_t i = 0; extra != NULL && extra[i] != NULL; i++) {
		const char *equals = strchr(extra[i], '=');

		if (equals == NULL || equals == extra[i])
			return err_set(err, KODA_INVALID, 0,
			    "an added environment variable must be NAME=value");
		if (put(e, extra[i], (size_t)(equals - extra[i]), equals + 1, err) < 0)
			return -1;
	}
	return 0;
}

int
environment_make(const struct environment_input *in, struct environment *ret,
    struct koda_error *err)
{
	cleanup(environment_done) struct environment e = { 0 };
	char buf[TOOL_MAX] = "";
	const char *tool = "";

	if (in->argv != NULL && in->argv[0] != NULL) {
		size_t len;

		tool = last_component(in->argv[0], strlen(in->argv[0]), &len);
	} else if (in->shell != NULL) {
		tool = environment_tool(in->shell, buf, sizeof(buf));
	}
	if (pass_all(in, base_names, &e, err) < 0 || pass_all(in, names_of(tool), &e, err) < 0 ||
	    pass_path(in, &e, err) < 0 || pass_places(in, &e, err) < 0)
		return -1;
	if (in->root != NULL && put(&e, "PWD", 3, in->root, err) < 0)
		return -1;
	/* So that a program can find out why something does not work. */
	if (put(&e, "KODA_SANDBOX", strlen("KODA_SANDBOX"), "1", err) < 0 ||
	    put_spare(in, &e, err) < 0 || put_egress(in, &e, err) < 0 ||
	    put_certificates(in, &e, err) < 0 || put_git(in, &e, err) < 0 ||
	    put_extra(in->extra, &e, err) < 0)
		return -1;
	*ret = e;
	e = (struct environment){ 0 };
	return 0;
}

void
environment_done(struct environment *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i]);
	for (size_t i = 0; i < e->n_held_back; i++)
		free(e->held_back[i]);
	free(e->v);
	free(e->held_back);
	*e = (struct environment){ 0 };
}

/* ---- public ---- */

KODA_API int
koda_environment(const char *argv0, koda_environment_fn *fn, void *data)
{
	const char *argv[] = { argv0, NULL };
	struct environment_input in = {
		.host = (const char *const *)environ,
		.argv = argv,
		.uid = getuid(),
	};
	cleanup(environment_done) struct environment e = { 0 };
	int r = 0;

	if (environment_make(&in, &e, NULL) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < e.n; i++) {
		char *equals = strchr(e.v[i], '=');

		*equals = '\0';
		r = fn(data, e.v[i], equals + 1, true);
	}
	for (size_t i = 0; r == 0 && i < e.n_held_back; i++)
		r = fn(data, e.held_back[i], "", false);
	return r;
}
