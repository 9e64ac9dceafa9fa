/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the filter of commands refuses of the system calls themselves. Each row runs once without
 * the filter, where the kernel must accept it or refuse it for another reason, and once with it. A
 * call that must still work has the same result both times.
 */
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <linux/mempolicy.h>
#include <linux/sockios.h>
#include <linux/tty.h>
#include <net/if.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "stage2/command_filter.h"
#include "tests/kit/skip.h"

#define HIGH 0x100000000 /* set in an argument of which the kernel takes 32 bits */

/* An own file, one side of a pseudo-terminal, a TCP socket. */
static int file, terminal, stream;

#define CALL(name, ...)                                                                            \
	static long name(void)                                                                     \
	{                                                                                          \
		return syscall(__VA_ARGS__);                                                       \
	}

/* refused */
CALL(lease, SYS_fcntl, file, F_SETLEASE, F_WRLCK)
CALL(lease_high, SYS_fcntl, file, F_SETLEASE | HIGH, F_WRLCK)
CALL(notify, SYS_fcntl, open("/tmp", O_RDONLY | O_CLOEXEC), F_NOTIFY, DN_CREATE)
CALL(set_flags, SYS_ioctl, file, FS_IOC_SETFLAGS, &(int){ FS_NODUMP_FL })
CALL(set_flags_high, SYS_ioctl, file, FS_IOC_SETFLAGS | HIGH, &(int){ FS_NODUMP_FL })
CALL(set_attributes, SYS_ioctl, file, FS_IOC_FSSETXATTR,
    &(struct fsxattr){ .fsx_xflags = FS_XFLAG_NODUMP })
CALL(terminal_input, SYS_ioctl, terminal, TIOCSTI, "x")
CALL(terminal_input_high, SYS_ioctl, terminal, TIOCSTI | HIGH, "x")
CALL(terminal_exclusive, SYS_ioctl, terminal, TIOCEXCL)
CALL(terminal_discipline, SYS_ioctl, terminal, TIOCSETD, &(int){ N_TTY })
CALL(mempolicy_get, SYS_get_mempolicy, NULL, NULL, 0, NULL, 0)
CALL(mempolicy_set, SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0)
CALL(memory_bind, SYS_mbind, NULL, 0, MPOL_DEFAULT, NULL, 0, 0)
CALL(memory_home, SYS_set_mempolicy_home_node, 0, 0, 0, 0)
CALL(memory_pages, SYS_move_pages, 0, 0, NULL, NULL, NULL, 0)
CALL(memory_migrate, SYS_migrate_pages, 0, 64, &(long){ 0 }, &(long){ 0 })
CALL(compare, SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0)
CALL(take_descriptor, SYS_pidfd_getfd, syscall(SYS_pidfd_open, getpid(), 0), file, 0)
CALL(advise_another, SYS_process_madvise, syscall(SYS_pidfd_open, getpid(), 0), NULL, 0, MADV_COLD,
    0)
CALL(file_system, SYS_sysfs, 3)
CALL(file_system_status, SYS_ustat, 0, &(char[64]){ 0 })
CALL(pages_elsewhere, SYS_remap_file_pages, NULL, 0, 0, 0, 0)

/* allowed */
CALL(get_flags, SYS_ioctl, file, FS_IOC_GETFLAGS, &(int){ 0 })
CALL(get_attributes, SYS_ioctl, file, FS_IOC_FSGETXATTR, &(struct fsxattr){ 0 })
CALL(is_terminal, SYS_ioctl, terminal, TCGETS, &(char[256]){ 0 })
CALL(is_terminal_too, SYS_ioctl, terminal, TCGETS2, &(char[256]){ 0 })
CALL(terminal_size, SYS_ioctl, terminal, TIOCSWINSZ, &(struct winsize){ 0 })
CALL(terminal_number, SYS_ioctl, terminal, TIOCGPTN, &(int){ 0 })
CALL(terminal_lock, SYS_ioctl, terminal, TIOCSPTLCK, &(int){ 0 })
CALL(waiting, SYS_ioctl, stream, FIONBIO, &(int){ 1 })
CALL(close_later, SYS_ioctl, file, FIOCLEX)
CALL(interface_number, SYS_ioctl, stream, SIOCGIFINDEX, &(struct ifreq){ .ifr_name = "lo" })
CALL(clone_file, SYS_ioctl, file, FICLONE, file)
CALL(duplicate, SYS_fcntl, file, F_DUPFD_CLOEXEC, 100)
CALL(lock, SYS_fcntl, file, F_SETLK, &(struct flock){ .l_type = F_WRLCK })
CALL(lock_of_file, SYS_fcntl, file, F_OFD_SETLK, &(struct flock){ .l_type = F_WRLCK })
CALL(get_lease, SYS_fcntl, file, F_GETLEASE)
CALL(get_flags_of_open, SYS_fcntl, file, F_GETFL)
CALL(write_hint, SYS_fcntl, file, F_SET_RW_HINT, &(uint64_t){ 0 })

/* clang-format off */
static const struct row {
	const char *name;
	long (*call)(void);
	int refused; /* with this error; 0: same result as without the filter */
} rows[] = {
#define CASE(name, error) { #name, name, error }
	CASE(lease, EINVAL), CASE(lease_high, EINVAL), CASE(notify, EINVAL),
	CASE(set_flags, ENOTTY), CASE(set_flags_high, ENOTTY), CASE(set_attributes, ENOTTY),
	CASE(terminal_input, ENOTTY), CASE(terminal_input_high, ENOTTY), CASE(terminal_exclusive, ENOTTY), CASE(terminal_discipline, ENOTTY),
	CASE(mempolicy_get, EPERM), CASE(mempolicy_set, EPERM), CASE(memory_bind, EPERM), CASE(memory_home, EPERM),
	CASE(memory_pages, EPERM), CASE(memory_migrate, EPERM), CASE(compare, EPERM), CASE(take_descriptor, EPERM),
	CASE(advise_another, EPERM), CASE(file_system, ENOSYS), CASE(file_system_status, ENOSYS),
	CASE(pages_elsewhere, ENOSYS),
	CASE(get_flags, 0), CASE(get_attributes, 0), CASE(is_terminal, 0), CASE(is_terminal_too, 0),
	CASE(terminal_size, 0), CASE(terminal_number, 0), CASE(terminal_lock, 0), CASE(waiting, 0), CASE(close_later, 0),
	CASE(interface_number, 0), CASE(clone_file, 0), CASE(duplicate, 0), CASE(lock, 0), CASE(lock_of_file, 0),
	CASE(get_lease, 0), CASE(get_flags_of_open, 0), CASE(write_hint, 0),
#undef CASE
};
/* clang-format on */

static void
open_all(void)
{
	char name[] = "/tmp/koda-calls-XXXXXX";

	file = mkostemp(name, O_CLOEXEC);
	if (file >= 0)
		unlink(name);
	terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (file < 0 || terminal < 0 || stream < 0)
		_exit(255);
}

/* Makes the call in a child, and returns 0 or the error. */
static int
outcome(const struct row *row, bool filtered)
{
	int status, error;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		open_all();
		signal(SIGIO, SIG_IGN);
		if (filtered &&
		    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			lockdown_seccomp(command_filter, N_ELEMENTS(command_filter), NULL) < 0))
			_exit(255);
		error = row->call() < 0 ? errno : 0;
		_exit(error);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), 255);
	return WEXITSTATUS(status);
}

static void
check(void **state)
{
	const struct row *row = *state;
	int without = outcome(row, false), with = outcome(row, true);

	if (row->refused == 0) {
		assert_int_equal(with, without);
		return;
	}
	/* A kernel without the call refuses it by itself. */
	if (without == row->refused && (without == ENOSYS || without == ENOTTY))
		skip_because("the kernel does not have this call");
	assert_int_not_equal(without, row->refused);
	assert_int_equal(with, row->refused);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(rows)];

	for (size_t i = 0; i < N_ELEMENTS(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, check, NULL, NULL,
			(void *)(uintptr_t)&rows[i] };
	return _cmocka_run_group_tests("calls", tests, N_ELEMENTS(rows), NULL, NULL);
}
