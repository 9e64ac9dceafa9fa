/*
 * A client of the installed `koda-sandbox mcp`: sends JSON-RPC line by line, calls tools and takes
 * their answers apart. Builds on tests/kit/mcp_host.h, and uses its runtime directory.
 */
#ifndef KODA_TESTS_SUPPORT_MCP_TALK_H
#define KODA_TESTS_SUPPORT_MCP_TALK_H

#include <jansson.h>

#include "tests/kit/mcp_host.h"

struct client {
	struct process p;
	/* Its answer to a question, such as "accept"; NULL: cannot be asked; "": never answers. */
	const char *says;
	const char *scope; /* the scope of an accept; NULL: once */
	unsigned asked;
	json_int_t id;
	char *buf;
	size_t n, size;
};

static char talk_dir[PATH_MAX];     /* the installation; the other places are below it */
static char talk_project[PATH_MAX]; /* a new one for each test */

static proof_unused void
talk_shell(const char *script, const char *a, const char *b, const char *c)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-ec", script, "sh", a, b, c, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static proof_unused int
talk_install(void **state)
{
	char name[PATH_MAX];

	/* Below the home directory, all of which a sandbox shows, whatever its root is. */
	snprintf(name, sizeof(name), "%s/proof.XXXXXX", getenv("HOME"));
	assert_non_null(mkdtemp(name));
	assert_non_null(realpath(name, talk_dir));
	talk_shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox && cp \"$2/cli/koda-sandbox\" bin && "
	    "ln -s \"$2/worker/koda-fs-worker\" \"$2/search/koda-fs-search\" "
	    "\"$2/proxy/koda-egress-proxy\" \"$2/connect/koda-egress-connect\" \"$3\" libexec/koda-sandbox",
	    talk_dir, KODA_TEST_BUILD_DIR, KODA_TEST_STAGE2);
	return 0;
}

static proof_unused int
talk_uninstall(void **state)
{
	proof_rmtree(talk_dir);
	return 0;
}

static proof_unused int
talk_set_up(void **state)
{
	snprintf(talk_project, sizeof(talk_project), "%.*s/project", PATH_MAX - 32, talk_dir);
	proof_mkdir(talk_project);
	return mcp_set_up(state);
}

static proof_unused int
talk_tear_down(void **state)
{
	proof_rmtree(talk_project);
	return mcp_tear_down(state);
}

static proof_unused const char *
talk_program(void)
{
	return proof_path("%.*s/bin/koda-sandbox", PATH_MAX - 32, talk_dir);
}

/* ---- messages ---- */

/* Steals message. */
static proof_unused void
talk_send(struct client *c, json_t *message)
{
	char *line = json_dumps(message, JSON_COMPACT);

	assert_non_null(line);
	assert_int_equal(dprintf(c->p.in, "%s\n", line), (int)strlen(line) + 1);
	free(line);
	json_decref(message);
}

/* Returns the next message, or NULL at the end. */
static proof_unused json_t *
talk_hear(struct client *c)
{
	char *newline;
	json_t *ret;
	size_t len;

	while ((newline = c->n > 0 ? memchr(c->buf, '\n', c->n) : NULL) == NULL) {
		ssize_t r;

		if (c->size - c->n < 65536) {
			c->size = 2 * c->size + 65536;
			c->buf = realloc(c->buf, c->size);
			assert_non_null(c->buf);
		}
		if (!comes(c->p.out, PATIENCE_MS))
			fail_msg("the server says nothing");
		r = read(c->p.out, c->buf + c->n, c->size - c->n);
		if (r <= 0)
			return NULL;
		c->n += (size_t)r;
	}
	len = (size_t)(newline - c->buf);
	ret = json_loadb(c->buf, len, 0, NULL);
	if (ret == NULL)
		fail_msg("this is no JSON: %.*s", (int)len, c->buf);
	c->n -= len + 1;
	memmove(c->buf, newline + 1, c->n);
	return ret;
}

static proof_unused void
talk_answer_question(struct client *c, const json_t *question)
{
	c->asked++;
	if (c->says[0] == '\0')
		return;
	talk_send(c,
	    json_pack("{s:s, s:O, s:{s:s, s:{s:s}}}", "jsonrpc", "2.0", "id",
		json_object_get(question, "id"), "result", "action", c->says, "content", "scope",
		c->scope != NULL ? c->scope : "once"));
}

/* Returns the response to the request with that id. Messages before it are questions, which it
 * answers, or are ignored. */
static proof_unused json_t *
talk_response(struct client *c, json_int_t id)
{
	for (;;) {
		json_t *m = talk_hear(c);

		if (m == NULL)
			fail_msg("the server has gone");
		if (json_object_get(m, "method") == NULL &&
		    json_integer_value(json_object_get(m, "id")) == id)
			return m;
		if (json_object_get(m, "id") != NULL && json_object_get(m, "method") != NULL)
			talk_answer_question(c, m);
		json_decref(m);
	}
}

/* Steals params. */
static proof_unused json_int_t
talk_request(struct client *c, const char *method, json_t *params)
{
	talk_send(c,
	    json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", ++c->id, "method", method,
		"params", params));
	return c->id;
}

static proof_unused void
talk_begin(struct client *c)
{
	json_t *can = json_object();

	if (c->says != NULL)
		json_object_set_new(can, "elicitation", json_object());
	json_decref(talk_response(c,
	    talk_request(c, "initialize",
		json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", "2025-06-18",
		    "capabilities", can, "clientInfo", "name", "test", "version", "1"))));
	talk_send(c,
	    json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", "notifications/initialized"));
}

static proof_unused struct client
talk_start(const char *const *argv, const char *says)
{
	struct client c = { .p = start(argv), .says = says };

	talk_begin(&c);
	return c;
}

/* audit may be NULL: no audit. */
static proof_unused struct client
talk_serve(const char *mode, const char *audit, const char *says)
{
	return talk_start((const char *[]){ talk_program(), "mcp", "--root", talk_project, "--mode",
			      mode, audit != NULL ? "--audit" : NULL, audit, NULL },
	    says);
}

/* Closes its input, and waits for it to end. */
static proof_unused int
talk_finish(struct client *c)
{
	free(c->buf);
	c->buf = NULL;
	return finish(&c->p);
}

/* ---- tools ---- */

/* Steals args. */
static proof_unused json_int_t
talk_call(struct client *c, const char *tool, json_t *args)
{
	return talk_request(c, "tools/call",
	    json_pack("{s:s, s:o}", "name", tool, "arguments", args));
}

/* Returns the result; the caller releases it. */
static proof_unused json_t *
talk_result(struct client *c, json_int_t id)
{
	json_t *response = talk_response(c, id), *ret = json_object_get(response, "result");

	if (ret == NULL) {
		char *text = json_dumps(response, 0);

		fail_msg("no result: %s", text);
	}
	json_incref(ret);
	json_decref(response);
	return ret;
}

/* Steals args. */
static proof_unused json_t *
talk_tool(struct client *c, const char *tool, json_t *args)
{
	return talk_result(c, talk_call(c, tool, args));
}

/* Returns "" for success, else the error's code. */
static proof_unused const char *
talk_code(const json_t *result)
{
	const char *code = json_string_value(
	    json_object_get(json_object_get(json_object_get(result, "_meta"), "koda-sandbox/error"),
		"code"));

	return code != NULL ? code : "";
}

static proof_unused const char *
talk_text(const json_t *result)
{
	return json_string_value(
	    json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

/* Requires the call to end with that code, "" for success. Steals args. */
static proof_unused void
talk_expect(struct client *c, const char *want, const char *tool, json_t *args)
{
	json_t *result = talk_tool(c, tool, args);

	if (strcmp(talk_code(result), want) != 0)
		fail_msg("%s ends with '%s' instead of '%s': %s", tool, talk_code(result), want,
		    talk_text(result));
	json_decref(result);
}

static proof_unused void
talk_write(struct client *c, const char *want, const char *path)
{
	talk_expect(c, want, "write_file", json_pack("{s:s, s:s}", "path", path, "content", "x"));
}

/* ---- children ---- */

/* Returns the command line in an answer of open_child; valid until the next call. */
static proof_unused const char *const *
talk_argv(const json_t *opened)
{
	static const char *argv[8];
	static char words[8][256];
	const json_t *word;
	size_t i;

	if (talk_code(opened)[0] != '\0')
		fail_msg("open_child: %s", talk_text(opened));
	json_array_foreach(json_object_get(json_object_get(opened, "structuredContent"), "command"),
	    i, word)
	{
		snprintf(words[i], sizeof(words[i]), "%s", json_string_value(word));
		argv[i] = words[i];
		argv[i + 1] = NULL;
	}
	return argv;
}

/* Steals args. */
static proof_unused const char *const *
talk_open_child(struct client *parent, json_t *args)
{
	json_t *opened = talk_tool(parent, "open_child", args);
	const char *const *argv = talk_argv(opened);

	json_decref(opened);
	return argv;
}

static proof_unused struct client
talk_child(struct client *parent, json_t *args, const char *says)
{
	return talk_start(talk_open_child(parent, args), says);
}

#endif
