/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-fs-worker: the file operations of one slot. It may be killed at any time. Takes nothing from
 * argv or the environment; the host's socket is descriptor 3, and everything the worker has to know
 * comes from there. With arguments it is another program, which a command's sandbox confines
 * (clone/clone.h).
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/clone/clone.h"
#include "worker/session.h"
#include "worker/worker_filter.h"

#define HOST_FD 3

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "clone") == 0)
		return clone_main(argc - 2, argv + 2);
	if (argc != 1 || !frame_is_connected(HOST_FD)) {
		fputs("koda-fs-worker: started by koda-sandbox, with its socket as descriptor 3\n",
		    stderr);
		return 1;
	}
	/* This process may not use descriptors that the host forgot to close. */
	if (syscall(SYS_close_range, HOST_FD + 1, ~0u, 0) < 0 || chdir("/") < 0)
		return 1;
	/* A write past the file size limit is an error to report, and must not end the process. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return session_run(HOST_FD, &role_files, worker_filter, N_ELEMENTS(worker_filter));
}
