/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real koda-sandbox mcp in the test's own installation, with a new project for each case, and a
 * client of it (tests/kit/mcp_client.h).
 */
#ifndef KODA_TESTS_KIT_MCP_H
#define KODA_TESTS_KIT_MCP_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shared/base/cleanup.h"
#include "tests/kit/mcp_client.h"

#define mcp_unused __attribute__((unused))

static char prefix[PATH_MAX - 256];  /* the installation */
static char project[PATH_MAX - 128]; /* the current test's root */
static char outside[PATH_MAX - 128];

/* ---- the scene ---- */

static mcp_unused int
make_installation(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX], real[PATH_MAX];

	snprintf(name, sizeof(name), "%s/koda-mcp.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, real) == NULL)
		return -1;
	snprintf(prefix, sizeof(prefix), "%s", real);
	process_shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox && cp \"$2/cli/koda-sandbox\" bin && "
	    "cp \"$2/worker/koda-fs-worker\" \"$2/search/koda-fs-search\" \"$2/proxy/koda-egress-proxy\" "
	    "\"$2/connect/koda-egress-connect\" \"$2/launch/koda-sandbox-launch\" \"$3\" "
	    "libexec/koda-sandbox",
	    prefix, KODA_TEST_BUILD_DIR, KODA_TEST_STAGE2);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static mcp_unused int
remove_installation(void **state)
{
	process_shell("rm -rf \"$1\"", prefix, NULL, NULL);
	return 0;
}

static mcp_unused int
make_project(void **state)
{
	snprintf(project, sizeof(project), "%s/scene/project", prefix);
	snprintf(outside, sizeof(outside), "%s/scene/outside", prefix);
	process_shell("mkdir -p \"$1\" \"$2\"", project, outside, NULL);
	return 0;
}

static mcp_unused int
remove_project(void **state)
{
	process_shell("rm -rf \"$1/scene\"", prefix, NULL, NULL);
	return 0;
}

static mcp_unused const char *
at_root(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", project, name);
	return p;
}

static mcp_unused void
put_bytes(const char *name, const void *data, size_t len)
{
	int fd = open(at_root(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static mcp_unused void
put_text(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static mcp_unused void
holds_text(const char *name, const char *want)
{
	char text[4096];
	cleanup_close int fd = open(at_root(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	assert_int_equal(n < 0, want == NULL);
	if (n < 0)
		return;
	text[n] = '\0';
	assert_string_equal(text, want);
}

/* ---- the process ---- */

/* Makes the servers that are started from here on work as where there are no drafts: then Safe asks
 * about a command before it runs. */
static bool mcp_without_drafts;

static mcp_unused struct client
client_start(const char *mode)
{
	char program[PATH_MAX];

	const char *const argv[] = { KODA_TEST_BUILD_DIR "/tests/kit/no_overlay", program, "mcp",
		"--root", project, "--mode", mode, NULL };

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	return (struct client){
		.p = process_start_loud(mcp_without_drafts ? argv : argv + 1),
		.next_id = 1,
	};
}

static mcp_unused struct client
client_open(const char *mode, const char *capabilities)
{
	struct client c = client_start(mode);

	json_decref(initialize(&c, "2025-11-25", capabilities));
	return c;
}

/* Ends a test: closes the input, upon which the server must exit in order. */
static mcp_unused void
client_end(struct client *c)
{
	assert_int_equal(client_finish(c), 0);
}

#endif
