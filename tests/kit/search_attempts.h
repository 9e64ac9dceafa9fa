/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a search process tries after a pattern or a file has taken it over. Each attempt is made
 * twice: by tests/escape/search_taken itself, where it has to succeed, and in the search
 * (tests/variants/search_taken.c), where it must fail.
 *
 * The scene: a directory `place`, which is searched, with a file `file` and a link `out` to the
 * directory `beside` next to `place`, which holds `secret`. The test's user may write all of them.
 */
#ifndef KODA_TESTS_KIT_SEARCH_ATTEMPTS_H
#define KODA_TESTS_KIT_SEARCH_ATTEMPTS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

struct ground {
	char base[3000]; /* the directory that holds `place` and `beside` */
	int place_fd;    /* the place, open for reading */
	pid_t host;
};
static struct ground ground;

static const char *
on(const char *name)
{
	static char path[4096];

	path[0] = '\0';
	strcat(path, ground.base);
	strcat(path, "/");
	return strcat(path, name);
}

/* Returns 0 or more, or -1 with errno. */
#define TRY(name, call)                                                                            \
	static long name(void)                                                                     \
	{                                                                                          \
		return (long)(call);                                                               \
	}

static char page[4096] __attribute__((aligned(4096)));

static long
open2(const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags, .mode = (flags & O_CREAT) != 0 ? 0600 : 0 };

	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/* read elsewhere */
TRY(read_beside, open(on("beside/secret"), O_RDONLY))
TRY(read_beside_2, open2(on("beside/secret"), O_RDONLY))
TRY(list_beside, open(on("beside"), O_RDONLY | O_DIRECTORY))
TRY(list_base, open(ground.base, O_RDONLY | O_DIRECTORY))
TRY(read_up, openat(ground.place_fd, "../beside/secret", O_RDONLY))
TRY(read_by_link, openat(ground.place_fd, "out/secret", O_RDONLY))
TRY(read_by_proc_root, open(strcat(strcpy(page, "/proc/self/root"), on("beside/secret")), O_RDONLY))
TRY(read_passwd, open("/etc/passwd", O_RDONLY))
TRY(read_own_environment, open("/proc/self/environ", O_RDONLY))
TRY(read_own_memory, open("/proc/self/mem", O_RDONLY))

/* change files */
TRY(write_file, openat(ground.place_fd, "file", O_WRONLY))
TRY(write_file_2, open2(on("place/file"), O_WRONLY))
TRY(read_and_write, openat(ground.place_fd, "file", O_RDWR))
TRY(append, openat(ground.place_fd, "file", O_WRONLY | O_APPEND))
TRY(empty_by_reading, openat(ground.place_fd, "file", O_RDONLY | O_TRUNC))
TRY(empty_by_reading_2, open2(on("place/file"), O_RDONLY | O_TRUNC))
TRY(create, openat(ground.place_fd, "new", O_WRONLY | O_CREAT, 0600))
TRY(create_by_reading, openat(ground.place_fd, "new2", O_RDONLY | O_CREAT, 0600))
TRY(create_2, open2(on("place/new3"), O_WRONLY | O_CREAT))
static long
create_in_tmp(void)
{
	snprintf(page, sizeof(page), "/tmp/.koda-escape-%d", (int)ground.host);
	return open(page, O_RDWR | O_CREAT, 0666);
}
TRY(unnamed, openat(ground.place_fd, ".", O_TMPFILE | O_WRONLY, 0600))
TRY(cut, truncate(on("place/file"), 0))
TRY(change_mode, fchmodat(ground.place_fd, "file", 0777, 0))
TRY(change_owner, fchownat(ground.place_fd, "file", geteuid(), getegid(), 0))
TRY(change_times, utimensat(ground.place_fd, "file", NULL, 0))
TRY(change_attribute, setxattr(on("place/file"), "user.koda", "x", 1, 0))
TRY(make_directory, mkdirat(ground.place_fd, "d", 0700))
TRY(make_link, symlinkat("/etc", ground.place_fd, "l"))
TRY(make_name, linkat(ground.place_fd, "file", ground.place_fd, "n", 0))
TRY(make_fifo, mknodat(ground.place_fd, "p", S_IFIFO | 0600, 0))
TRY(rename_file, renameat(ground.place_fd, "file", ground.place_fd, "file"))
TRY(remove_file, unlinkat(ground.place_fd, "spare", 0))
TRY(remove_directory, unlinkat(ground.place_fd, "spare-dir", AT_REMOVEDIR))

/* run a program */
TRY(fork_once, syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL))
static long
run_program(void)
{
	char name[] = "true";
	char *argv[] = { name, NULL }, *envp[] = { NULL };

	return execve("/bin/true", argv, envp);
}
static long
run_file_by_memory(void)
{
	int fd = openat(ground.place_fd, "file", O_RDONLY);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	return p == MAP_FAILED ? -1 : 0;
}
TRY(make_code_of_data, mprotect(page, sizeof(page), PROT_READ | PROT_WRITE | PROT_EXEC))
TRY(memory_file, memfd_create("x", 0))

/* reach another process */
TRY(unix_stream, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(tcp, socket(AF_INET, SOCK_STREAM, 0))
TRY(udp, socket(AF_INET6, SOCK_DGRAM, 0))
TRY(netlink, socket(AF_NETLINK, SOCK_RAW, 0))
static long
unix_pair(void)
{
	int fds[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}
static long
make_pipe(void)
{
	int fds[2];

	return pipe(fds);
}
TRY(signal_host, kill(ground.host, 0))
TRY(limit_host, prlimit(ground.host, RLIMIT_NOFILE, NULL, &(struct rlimit){ 0 }))
TRY(slow_host, setpriority(PRIO_PROCESS, (id_t)ground.host, getpriority(PRIO_PROCESS, 0)))
TRY(find_host, syscall(SYS_pidfd_open, ground.host, 0))
static long
read_host(void)
{
	char byte;
	struct iovec to = { &byte, 1 }, from = { page, 1 };

	return process_vm_readv(ground.host, &to, 1, &from, 1, 0);
}

/* escape the limits, or reach more of the kernel */
TRY(be_dumped, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
TRY(more_files, setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }))
TRY(own_namespace, unshare(CLONE_FILES))
TRY(watch_files, inotify_init1(IN_CLOEXEC))
TRY(handle_of_file,
    syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &(unsigned[40]){ 128 }, &(int){ 0 }, 0))
TRY(ask_for_signal, sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL))
TRY(stop_watchdog, syscall(SYS_setitimer, 2, &(long[4]){ 0 }, NULL))
TRY(go_elsewhere, chdir("/"))
TRY(other_root, syscall(SYS_personality, 0xffffffff))
TRY(new_session, syscall(SYS_getsid, 0))
#undef TRY

/* clang-format off */
static const struct attempt {
	const char *name;
	long (*run)(void);
} attempts[] = {
#define ATTEMPT(name) { #name, name }
	ATTEMPT(read_beside), ATTEMPT(read_beside_2), ATTEMPT(list_beside), ATTEMPT(list_base),
	ATTEMPT(read_up), ATTEMPT(read_by_link), ATTEMPT(read_by_proc_root), ATTEMPT(read_passwd),
	ATTEMPT(read_own_environment), ATTEMPT(read_own_memory), ATTEMPT(write_file),
	ATTEMPT(write_file_2), ATTEMPT(read_and_write), ATTEMPT(append), ATTEMPT(empty_by_reading),
	ATTEMPT(empty_by_reading_2), ATTEMPT(create), ATTEMPT(create_by_reading), ATTEMPT(create_2),
	ATTEMPT(create_in_tmp), ATTEMPT(unnamed), ATTEMPT(cut), ATTEMPT(change_mode),
	ATTEMPT(change_owner), ATTEMPT(change_times), ATTEMPT(change_attribute),
	ATTEMPT(make_directory), ATTEMPT(make_link), ATTEMPT(make_name), ATTEMPT(make_fifo),
	ATTEMPT(rename_file), ATTEMPT(remove_file), ATTEMPT(remove_directory), ATTEMPT(fork_once),
	ATTEMPT(run_program), ATTEMPT(run_file_by_memory), ATTEMPT(make_code_of_data),
	ATTEMPT(memory_file), ATTEMPT(unix_stream), ATTEMPT(tcp), ATTEMPT(udp), ATTEMPT(netlink),
	ATTEMPT(unix_pair), ATTEMPT(make_pipe), ATTEMPT(signal_host), ATTEMPT(limit_host),
	ATTEMPT(slow_host), ATTEMPT(find_host), ATTEMPT(read_host), ATTEMPT(be_dumped),
	ATTEMPT(more_files), ATTEMPT(own_namespace), ATTEMPT(watch_files), ATTEMPT(handle_of_file),
	ATTEMPT(ask_for_signal), ATTEMPT(stop_watchdog), ATTEMPT(go_elsewhere), ATTEMPT(other_root),
	ATTEMPT(new_session),
#undef ATTEMPT
};
/* clang-format on */

#endif
