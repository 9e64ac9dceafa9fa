/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-fs-search: serves one search and exits. A worker (worker/session) that can change nothing,
 * and that confines itself to the searched places before it reads anything in them. Takes nothing
 * from argv or the environment; the host's socket is descriptor 3.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "search/search_filter.h"
#include "search/watchdog.h"
#include "shared/base/cleanup.h"
#include "worker/session.h"

#define HOST_FD 3

int
main(int argc, char **argv)
{
	(void)argv;
	if (argc != 1 || !frame_is_connected(HOST_FD)) {
		fputs("koda-fs-search: started by koda-sandbox, with its socket as descriptor 3\n",
		    stderr);
		return 1;
	}
	/* This process may not use descriptors that the host forgot to close. */
	if (syscall(SYS_close_range, HOST_FD + 1, ~0u, 0) < 0 || chdir("/") < 0)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	if (watchdog_install() < 0)
		return 1;
	return session_run(HOST_FD, &role_search, search_filter, N_ELEMENTS(search_filter));
}
