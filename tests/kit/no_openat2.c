/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_openat2 COMMAND...: runs it as on a kernel without openat2, so that the same suite tests the
 * fallback. Every child inherits the filter; the sandbox's own filters stack on top of it.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct sock_fprog filter = { .len = N_ELEMENTS(code), .filter = code };
	struct open_how how = { 0 };

	if (argc < 2) {
		fprintf(stderr, "usage: no_openat2 COMMAND...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
		perror("no_openat2: seccomp");
		return 1;
	}
	/* A shim without effect would make every run over the fallback pass. */
	if (syscall(SYS_openat2, -1, "/", &how, sizeof(how)) != -1 || errno != ENOSYS) {
		fprintf(stderr, "no_openat2: openat2 is still there\n");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
