/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2, the init of a slot, taken over through what a command asked it for: what it tries with
 * the filter that it has after it has booted. Without the filter each attempt succeeds, or the
 * kernel refuses it for another reason; with the filter it ends the process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "stage2/stage2_filter.h"
#include "tests/kit/sanitized.h"

static char page[4096] __attribute__((aligned(4096)));
static char own[] = "/proc/self/exe"; /* any existing file */
static int file, stream;

/* Calls it as the C library does. */
static int
fork_and_wait(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static int
by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* So many numbers that qsort() allocates memory, and asks how much memory there is. */
static int
sort_numbers(void)
{
	static int number[4096];

	qsort(number, N_ELEMENTS(number), sizeof(number[0]), by_value);
	return 0;
}

#define TRY(name, call)                                                                            \
	static long name(void)                                                                     \
	{                                                                                          \
		return (long)(call);                                                               \
	}

/* run a program */
TRY(fork_once, syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL))
TRY(fork_newer, syscall(SYS_clone3, &(uint64_t[8]){ [4] = SIGCHLD }, 64))
TRY(run_program, execve("/bin/true", (char *const[]){ page, NULL }, (char *const[]){ NULL }))
TRY(run_descriptor,
    syscall(SYS_execveat, open("/bin/true", O_PATH), "", (char *const[]){ page, NULL },
	(char *const[]){ NULL }, AT_EMPTY_PATH))
TRY(make_code, mprotect(page, sizeof(page), PROT_READ | PROT_EXEC))
TRY(map_code,
    syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
TRY(memory_file, memfd_create("x", 0))

/* reach another process */
TRY(unix_stream, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(tcp, socket(AF_INET, SOCK_STREAM, 0))
TRY(netlink_route, socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE))
TRY(unix_pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)page))
TRY(listen_here, listen(stream, 1))
TRY(bind_here,
    bind(stream, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET },
	sizeof(struct sockaddr_in)))
TRY(trace, ptrace(PTRACE_TRACEME, 0, NULL, NULL))
TRY(write_memory,
    syscall(SYS_process_vm_writev, getpid(), &(struct iovec){ page, 1 }, 1,
	&(struct iovec){ page, 1 }, 1, 0))

/* gain privileges, or join other namespaces */
TRY(own_namespace, unshare(CLONE_FILES))
TRY(enter_namespace, setns(open("/proc/self/ns/uts", O_RDONLY), CLONE_NEWNET))
TRY(other_user, syscall(SYS_setresuid, -1, -1, -1))
TRY(other_root, chroot("/nowhere"))
TRY(pivot, syscall(SYS_pivot_root, "/nowhere", "/nowhere"))
TRY(mount_by_name, syscall(SYS_mount, NULL, "/nowhere", NULL, 0, NULL))
TRY(capabilities,
    syscall(SYS_capget,
	&(struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 }, page))
TRY(process_control, prctl(PR_SET_PDEATHSIG, 0))
TRY(another_filter,
    syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(uint32_t){ SECCOMP_RET_KILL_PROCESS }))

/* reach more of the kernel */
TRY(ring, syscall(SYS_io_uring_setup, 0, NULL))
TRY(keys, syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0))
TRY(programs_of_kernel, syscall(SYS_bpf, -1, NULL, 0))
TRY(user_faults, syscall(SYS_userfaultfd, -1))
TRY(by_handle, syscall(SYS_open_by_handle_at, -1, NULL, 0))
TRY(watch_all, syscall(SYS_fanotify_init, -1, 0))
TRY(terminal_input, ioctl(file, TIOCSTI, "x"))
TRY(own_lease, fcntl(file, F_SETLEASE, F_RDLCK))
TRY(signal_process, syscall(SYS_pidfd_send_signal, -1, 0, NULL, 0))
TRY(watch_names, inotify_add_watch(-1, "/nowhere", IN_CREATE))
TRY(give_descriptor, ioctl(file, SECCOMP_IOCTL_NOTIF_ADDFD, page))
TRY(keep_on_exec, fcntl(file, F_SETFD, 0))

/* change files */
TRY(rename_it, rename("/nowhere", "/nowhere/else"))
TRY(remove_it, unlink("/nowhere"))
TRY(link_it, link("/nowhere", "/nowhere/else"))
TRY(open_it_to_all, fchmodat(AT_FDCWD, "/nowhere", 0777, 0))
TRY(cut_it, truncate("/nowhere", 0))
TRY(own_it, chown("/nowhere", 0, 0))
TRY(attribute, syscall(SYS_setxattr, "/nowhere", "user.x", "x", 1, 0))

/* what stage2 itself does */
TRY(list_of_sockets, socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG))
TRY(answer, ioctl(file, SECCOMP_IOCTL_NOTIF_SEND, page))
TRY(duplicate, fcntl(file, F_DUPFD_CLOEXEC, 3))
TRY(end_process, kill(getpid(), 0))
TRY(read_name, readlink(own, page, sizeof(page)))
TRY(map_memory, syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
TRY(alarm_soon, setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL))
/* links: the process that makes them is forked again, and places its descriptors */
TRY(fork_maker, fork_and_wait())
TRY(drop_privileges,
    syscall(SYS_capset,
	&(struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 },
	(struct __user_cap_data_struct[_LINUX_CAPABILITY_U32S_3]){ { 0 } }))
TRY(drop_ambient, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
TRY(place_descriptor, dup3(file, 100, O_CLOEXEC))
TRY(close_the_rest, syscall(SYS_close_range, 100, ~0u, 0))
TRY(make_link, symlinkat("x", AT_FDCWD, "/nowhere/x"))
TRY(make_pipe, mknodat(AT_FDCWD, "/nowhere/x", S_IFIFO | 0600, 0))
/* notices, and what is checked when one arrives */
TRY(notice, fcntl(file, F_SETSIG, SIGIO) == 0 && fcntl(file, F_NOTIFY, 0))
TRY(may_be_read, faccessat(AT_FDCWD, own, R_OK, 0))
TRY(how_mounted, statvfs("/", (struct statvfs *)page))
TRY(resolve_name, realpath(own, page) != NULL)
TRY(list_names, closedir(fdopendir(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC))))
/* mirrors, and mounts that hide something */
TRY(make_place, mkdirat(AT_FDCWD, "/nowhere/x", 0755))
TRY(remove_place, unlinkat(AT_FDCWD, "/nowhere/x", AT_REMOVEDIR))
TRY(mode_of_place, fchmod(-1, 0555))
TRY(take_down, umount2("/nowhere", MNT_DETACH))
TRY(mount_beneath,
    syscall(SYS_move_mount, -1, "", -1, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
/* the exact memory measurement, and which processes hold a replaced file */
TRY(same_memory, syscall(SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0))
TRY(own_time, clock_gettime(CLOCK_PROCESS_CPUTIME_ID, (struct timespec *)page))
TRY(is_in_memory, fstatfs(file, (struct statfs *)page))
TRY(sort_many, sort_numbers())
#undef TRY

/* clang-format off */
static const struct attempt {
	const char *name;
	long (*run)(void);
	bool allowed;
	bool plain; /* a sanitizer's runtime needs it */
} attempts[] = {
#define ATTEMPT(name) { #name, name, false, false }
#define PLAIN(name) { #name, name, false, true }
#define ALLOWED(name) { #name, name, true, false }
	PLAIN(fork_once), ATTEMPT(fork_newer), ATTEMPT(run_program), ATTEMPT(run_descriptor), PLAIN(make_code),
	PLAIN(map_code), ATTEMPT(memory_file), ATTEMPT(unix_stream), ATTEMPT(tcp), ATTEMPT(netlink_route),
	ATTEMPT(unix_pair), ATTEMPT(listen_here), ATTEMPT(bind_here), PLAIN(trace), ATTEMPT(write_memory),
	ATTEMPT(own_namespace), ATTEMPT(enter_namespace), ATTEMPT(other_user), ATTEMPT(other_root), ATTEMPT(pivot),
	ATTEMPT(mount_by_name), ATTEMPT(capabilities), PLAIN(process_control), ATTEMPT(another_filter), ATTEMPT(ring),
	ATTEMPT(keys), ATTEMPT(programs_of_kernel), ATTEMPT(user_faults), ATTEMPT(by_handle), ATTEMPT(watch_all),
	PLAIN(terminal_input), PLAIN(own_lease), ATTEMPT(rename_it), ATTEMPT(remove_it), ATTEMPT(link_it),
	ATTEMPT(cut_it), ATTEMPT(own_it), ATTEMPT(attribute), ATTEMPT(open_it_to_all), ATTEMPT(signal_process),
	ALLOWED(watch_names), PLAIN(give_descriptor), PLAIN(keep_on_exec),
	ALLOWED(list_of_sockets), ALLOWED(answer), ALLOWED(duplicate), ALLOWED(end_process), ALLOWED(read_name),
	ALLOWED(map_memory), ALLOWED(alarm_soon), ALLOWED(fork_maker), ALLOWED(drop_privileges), ALLOWED(drop_ambient),
	ALLOWED(place_descriptor), ALLOWED(close_the_rest), ALLOWED(make_link), ALLOWED(make_pipe), ALLOWED(notice),
	ALLOWED(may_be_read), ALLOWED(how_mounted), ALLOWED(resolve_name), ALLOWED(list_names), ALLOWED(make_place),
	ALLOWED(remove_place), ALLOWED(mode_of_place), ALLOWED(take_down), ALLOWED(mount_beneath), ALLOWED(same_memory),
	ALLOWED(own_time), ALLOWED(is_in_memory), ALLOWED(sort_many),
#undef ATTEMPT
#undef PLAIN
#undef ALLOWED
};
/* clang-format on */

/* Runs it in a child, and returns the child's status as from waitpid(). */
static int
outcome(const struct attempt *attempt, bool filtered)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		file = open("/dev/null", O_RDWR | O_CLOEXEC);
		stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (file < 0 || stream < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    (filtered &&
			lockdown_seccomp(stage2_filter, N_ELEMENTS(stage2_filter), NULL) < 0))
			_exit(255);
		errno = 0;
		attempt->run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
check(void **state)
{
	const struct attempt *attempt = *state;
	int without = outcome(attempt, false), with = outcome(attempt, true);

	assert_true(WIFEXITED(without) && WEXITSTATUS(without) == 0);
	if (attempt->allowed)
		assert_true(WIFEXITED(with) && WEXITSTATUS(with) == 0);
	else
		assert_true(WIFSIGNALED(with) && WTERMSIG(with) == SIGSYS);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(attempts)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(attempts); i++)
		if (!(SANITIZED && attempts[i].plain))
			tests[n++] = (struct CMUnitTest){ attempts[i].name, check, NULL, NULL,
				(void *)(uintptr_t)&attempts[i] };
	return _cmocka_run_group_tests("init", tests, n, NULL, NULL);
}
