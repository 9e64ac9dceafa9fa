/* SPDX-License-Identifier: Apache-2.0 */
/* /proc entries that reach into other processes, and files that are not regular files. */
#include "tests/escape/escape.h"

/* clang-format off */
static const struct attack attacks[] = {
	{ "host-environ: one's own", { NULL },
		{ { READ, "/proc/self/environ", NULL } }, .secret = true },
	{ "host-environ: the parent's", { NULL },
		{ { READ, "/proc/%p/environ", NULL } }, .secret = true },
	{ "host-environ: by a link in the project", { "l /proc/self/environ root/env" },
		{ { READ, "env", NULL } }, .secret = true },
	{ "host-environ: by a link to the directory", { "l /proc/self root/me" },
		{ { READ, "me/environ", NULL } }, .secret = true },
	{ "host-environ: of a thread", { NULL },
		{ { READ, "/proc/thread-self/environ", NULL } }, .secret = true },
	{ "proc-fd: read", { NULL },
		{ { READ, "/proc/self/fd/50", NULL } }, .secret = true },
	{ "proc-fd: the parent's", { NULL },
		{ { READ, "/proc/%p/fd/50", NULL } }, .secret = true },
	{ "proc-fd: by /dev/fd", { NULL },
		{ { READ, "/dev/fd/50", NULL } }, .secret = true },
	{ "proc-fd: by a link in the project", { "l /proc/self/fd/50 root/l" },
		{ { READ, "l", NULL } }, .secret = true },
	{ "proc-root: read", { NULL },
		{ { READ, "/proc/self/root@/root/private/key", NULL } }, .secret = true },
	{ "proc-root-write", { NULL },
		{ { WRITE, "/proc/self/root@/out/canary", NULL } }, .outside = true },
	{ "proc-root-write: by a link in the project", { "l /proc/self/root root/slash" },
		{ { WRITE, "slash@/out/canary", NULL } }, .outside = true },
	{ "proc-cwd-write", { NULL },
		{ { WRITE, "/proc/self/cwd/../out/canary", NULL } }, .outside = true },
	{ "fifo: read", { "p root/fifo" },
		{ { READ, "fifo", NULL } }, .hangs = true },
	{ "fifo: write", { "p root/fifo" },
		{ { WRITE, "fifo", NULL } }, .hangs = true },
	{ "fifo: edit", { "p root/fifo" },
		{ { EDIT, "fifo", NULL } }, .hangs = true },
	{ "fifo: by a link", { "p root/fifo", "l fifo root/l" },
		{ { READ, "l", NULL } }, .hangs = true },
	{ "device: without an end", { NULL },
		{ { READ, "/dev/zero", NULL } }, .hangs = true },
	{ "device: without an end, by a link", { "l /dev/zero root/l" },
		{ { READ, "l", NULL } }, .hangs = true },
};
/* clang-format on */

/* Opens a file that no longer has a name. */
static int
keep_open(void)
{
	char path[PATH_MAX];
	int fd;

	proof_mkdtemp(path);
	fd = open(path, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	rmdir(path);
	if (fd < 0 || write(fd, "SECRET of a descriptor\n", 23) != 23 || dup2(fd, OPEN_FD) < 0)
		return -1;
	return close(fd);
}

int
main(int argc, char **argv)
{
	/* /proc shows the environment that a program was started with, so it has to start again. */
	if (getenv("TOKEN") == NULL) {
		setenv("TOKEN", "SECRET of the host", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	if (keep_open() < 0)
		return 1;
	return run_attacks("proc", attacks, N_ELEMENTS(attacks));
}
