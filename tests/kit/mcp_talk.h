/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The installed `koda-sandbox mcp` and its children, with clients that answer questions
 * (tests/kit/mcp_client.h). Uses the runtime directory of tests/kit/mcp_host.h.
 */
#ifndef KODA_TESTS_KIT_MCP_TALK_H
#define KODA_TESTS_KIT_MCP_TALK_H

#include <jansson.h>

#include "tests/kit/mcp_client.h"
#include "tests/kit/mcp_host.h"
#include "tests/kit/sanitized.h"

static char talk_dir[PATH_MAX];     /* the installation; the other places are below it */
static char talk_project[PATH_MAX]; /* a new one for each test */

static proof_unused int
talk_install(void **state)
{
	char name[PATH_MAX];

	/* Below the home directory, all of which a sandbox shows, whatever its root is. */
	snprintf(name, sizeof(name), "%s/proof.XXXXXX", getenv("HOME"));
	assert_non_null(mkdtemp(name));
	assert_non_null(realpath(name, talk_dir));
	process_shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox && cp \"$2/cli/koda-sandbox\" bin && "
	    "ln -s \"$2/worker/koda-fs-worker\" \"$2/search/koda-fs-search\" "
	    "\"$2/proxy/koda-egress-proxy\" \"$2/connect/koda-egress-connect\" "
	    "\"$2/launch/koda-sandbox-launch\" \"$3\" libexec/koda-sandbox",
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

/* ---- the end ---- */

/* Time limit from the signal until the server's last process has gone. */
#define END_SECONDS (SANITIZED ? 5.0 : 1.0)

/* Waits for the end of all processes of the test, which must come soon after `since`. */
static proof_unused void
talk_all_gone(double since)
{
	double took;

	process_wait_all();
	took = proof_seconds() - since;
	if (took > END_SECONDS)
		fail_msg("it took %.2f s until the last process had gone", took);
}

/* ---- clients ---- */

static proof_unused void
talk_begin(struct client *c)
{
	json_decref(initialize(c, "2025-06-18", c->says != NULL ? "{\"elicitation\":{}}" : "{}"));
}

static proof_unused struct client
talk_start(const char *const *argv, const char *says)
{
	struct client c = client_run(argv);

	c.says = says;
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
