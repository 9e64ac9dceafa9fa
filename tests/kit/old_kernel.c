/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel MAJOR.MINOR COMMAND...: runs it as on that Linux, as far as a filter can: system calls
 * that are newer get ENOSYS, and newer flags EINVAL. It cannot hide a part of Landlock (for that,
 * tests/kit/landlock_abi), so there is none at all. Every child inherits the filter; the sandbox's
 * own filters stack on top of it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* Not in every header. From 424 on, a call has the same number on all architectures. */
static const struct {
	const char *name;
	int nr, minor; /* of Linux 5 */
} calls[] = {
	{ "process_madvise", 440, 10 }, { "epoll_pwait2", 441, 11 }, { "mount_setattr", 442, 12 },
	{ "quotactl_fd", 443, 14 }, { "memfd_secret", 447, 14 }, { "process_mrelease", 448, 15 },
	{ "futex_waitv", 449, 16 }, { "set_mempolicy_home_node", 450, 17 },
	{ "cachestat", 451, 25 }, /* 6.5 */
	{ "fchmodat2", 452, 26 }, /* 6.6 */
};

static const int landlock[] = { 444, 445, 446 };

#define MINORS_OF_5             20 /* 5.19 was followed by 6.0 */
#define FLAG_WAIT_KILLABLE_RECV (1u << 5)
#define WAIT_KILLABLE_MINOR     19
#define NR_MOUNT_SETATTR        442
#define NETNS_COOKIE            71 /* SO_NETNS_COOKIE */
#define NETNS_COOKIE_MINOR      14

static struct sock_filter code[64];
static unsigned short n_code;

static void
emit(uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
	code[n_code++] = (struct sock_filter)BPF_JUMP(op, k, jt, jf);
}

static void
hide(int nr)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
}

/* On a little-endian machine; no other one is supported. */
static void
hide_flag(int nr, unsigned arg, uint32_t flag)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 3);
	emit(BPF_LD | BPF_W | BPF_ABS,
	    (uint32_t)(offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t)), 0, 0);
	emit(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL, 0, 0);
}

/* A getsockopt() of the level SOL_SOCKET. */
static void
hide_option(uint32_t option)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 5);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]), 0, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 3);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]), 0, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, option, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT, 0, 0);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static bool
older(const char *version, int *ret_minor)
{
	int major, minor, end = 0;

	if (sscanf(version, "%d.%d%n", &major, &minor, &end) != 2 || version[end] != '\0' ||
	    major < 5 || major > 6)
		return false;
	*ret_minor = major == 5 ? minor : MINORS_OF_5 + minor;
	return true;
}

int
main(int argc, char **argv)
{
	struct sock_fprog filter = { .filter = code };
	int minor;

	if (argc < 3 || !older(argv[1], &minor)) {
		fprintf(stderr, "usage: old_kernel MAJOR.MINOR COMMAND...\n");
		return 2;
	}
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (size_t i = 0; i < N_ELEMENTS(landlock); i++)
		hide(landlock[i]);
	for (size_t i = 0; i < N_ELEMENTS(calls); i++)
		if (calls[i].minor > minor)
			hide(calls[i].nr);
	if (minor < NETNS_COOKIE_MINOR)
		hide_option(NETNS_COOKIE);
	if (minor < WAIT_KILLABLE_MINOR)
		hide_flag(SYS_seccomp, 1, FLAG_WAIT_KILLABLE_RECV);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	filter.len = n_code;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
		perror("old_kernel: seccomp");
		return 1;
	}
	/* A shim without effect would make every run over the fallbacks pass. */
	if (syscall(landlock[0], NULL, 0, 1) != -1 || errno != ENOSYS ||
	    (syscall(NR_MOUNT_SETATTR, -1, "", 0, NULL, 0) == -1 && errno == ENOSYS) !=
		(minor < 12)) {
		fprintf(stderr, "old_kernel: newer calls are still there\n");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
