/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and children as processes, in the test's own runtime directory: drives
 * tests/kit/mcp_host.c. */
#ifndef KODA_TESTS_KIT_MCP_HOST_H
#define KODA_TESTS_KIT_MCP_HOST_H

#include <poll.h>
#include <signal.h>

#include "tests/kit/process.h"
#include "tests/kit/proof.h"

#define MCP_HOST KODA_TEST_BUILD_DIR "/tests/kit/mcp_host"
#define PROGRAM  KODA_TEST_BUILD_DIR "/cli/koda-sandbox"

static char dir[PATH_MAX]; /* the test's; XDG_RUNTIME_DIR is below it */

static proof_unused struct process
start_host(char ret_name[17])
{
	struct process p = process_start((const char *[]){ MCP_HOST, NULL });
	const char *line = process_line(p.out);

	if (strncmp(line, "ready ", 6) != 0)
		fail_msg("the server says '%s'", line);
	if (ret_name != NULL)
		snprintf(ret_name, 17, "%s", line + 6);
	return p;
}

static proof_unused struct process
start_child(const char *token)
{
	return process_start((const char *[]){ MCP_HOST, "child", token, NULL });
}

static proof_unused int
mcp_set_up(void **state)
{
	proof_mkdtemp(dir);
	signal(SIGPIPE, SIG_IGN);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	return chmod(dir, 0700);
}

static proof_unused int
mcp_tear_down(void **state)
{
	proof_rmtree(dir);
	return 0;
}

#endif
