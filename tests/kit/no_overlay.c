/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_overlay COMMAND...: runs it as on a kernel whose overlayfs takes no flags (before Linux 5.11
 * none of its flags let an ordinary user mount it). Every child inherits the filter; the sandbox's
 * own filters stack on top of it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

int
main(int argc, char **argv)
{
	/* clang-format off */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsconfig, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FSCONFIG_SET_FLAG, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct sock_fprog filter = { .len = N_ELEMENTS(code), .filter = code };

	if (argc < 2) {
		fprintf(stderr, "usage: no_overlay COMMAND...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
		perror("no_overlay: seccomp");
		return 1;
	}
	/* A shim without effect would make every run over the fallback pass. Without the filter
	 * the error is EBADF. */
	if (syscall(SYS_fsconfig, -1, FSCONFIG_SET_FLAG, "ro", NULL, 0) != -1 || errno != EINVAL) {
		fprintf(stderr, "no_overlay: flags are still taken\n");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
