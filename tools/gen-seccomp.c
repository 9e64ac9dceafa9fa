/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp MACHINE worker|search|proxy|stage2 [--sanitize] [--test]
 * gen-seccomp MACHINE command|command_closed
 * gen-seccomp MACHINE numbers
 *
 * Print a seccomp filter for MACHINE (x86_64, aarch64, riscv64) as a C header: an array of struct
 * sock_filter, called worker_filter, search_filter and so on. The build runs this program, so that
 * the confined programs contain the instructions and need not link libseccomp. Loading a prebuilt
 * filter is also 200 us cheaper.
 *
 * This program runs on the machine that builds, which need not be MACHINE. System calls are looked
 * up by name in MACHINE's table. The header refuses to be compiled for another machine. Other
 * numbers come from the headers here: "numbers" prints a C file that compares them with the headers
 * of MACHINE when it is compiled.
 *
 *	--sanitize  also allows what the runtimes of ASan and UBSan need
 *	--test      also allows what a process needs to stop itself and to sleep (worker/pause.h)
 *
 * A call that a filter of the first group does not list kills the process: in a worker, an
 * unexpected system call means either a bug of ours or foreign code. The filters for commands
 * return errors instead.
 */
#include <linux/filter.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/filter_numbers.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
/* A filter cannot check openat2, whose flags are behind a pointer. Landlock limits what the worker
 * may open. */
static const char *const worker_calls[] = {
	/* The socket. No call in this list creates another one, and this one is connected, so
	 * sendto reaches its peer whatever address it is given. For a call that is allowed with any
	 * arguments the kernel remembers the verdict and does not run the filter. */
	"recvmsg", "sendmsg", "sendto", "poll", "ppoll",
	/* descriptors */
	"read", "write", "sendfile", "pread64", "pwrite64", "close", "lseek", "ftruncate", "fsync", "fdatasync",
	"flock",
	/* names */
	"openat", "openat2", "readlinkat", "fstat", "newfstatat", "statx", "fstatfs", "getdents64",
	"faccessat", "faccessat2", "mkdirat", "unlinkat", "renameat", "renameat2",
	/* watching for files that commands plant (Scan) */
	"inotify_init1", "inotify_add_watch", "inotify_rm_watch",
	/* attributes that the replacement of a file inherits, and access to directories from which
	 * a command removed it (Scan) */
	"fchmod", "fchmodat", "fchown", "listxattr", "llistxattr", "getxattr", "flistxattr", "fsetxattr", "fremovexattr",
	/* what a draft holds comes to the project: without the overlay's attributes, or as a copy; and
	 * notes of that in the history, which are links because those are made in one step (Swap) */
	"removexattr", "symlinkat", "utimensat",
	/* what a change takes away stays in the history under a second name; Landlock permits that only
	 * between directories that the worker may change */
	"linkat",
	/* memory; mmap, mprotect below */
	"brk", "munmap", "mremap", "madvise",
	/* the process; glibc's qsort calls sysinfo for the size of memory */
	"sysinfo", "clock_gettime", "getrandom", "getppid", "getpid", "gettid", "futex", "rt_sigreturn",
	"rt_sigprocmask", "exit", "exit_group", "restart_syscall",
};

/* A search reads names and files, and changes no file. It confines itself with the Landlock calls
 * before it searches. */
static const char *const search_calls[] = {
	"recvmsg", "sendmsg", "sendto", "write", "poll", "ppoll",
	"read", "pread64", "close", "lseek", "readlinkat", "fstat", "newfstatat", "statx", "fstatfs", "getdents64",
	"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	/* memory; mmap, mprotect below */
	"brk", "munmap", "mremap", "madvise",
	/* the process */
	"sysinfo", "clock_gettime", "getrandom", "getppid", "getpid", "gettid", "futex", "rt_sigreturn", "rt_sigprocmask",
	"exit", "exit_group", "restart_syscall",
};

/* The proxy connects and accepts, but never listens. It reads files; Landlock limits which (openat
 * below). */
static const char *const proxy_calls[] = {
	"recvmsg", "sendmsg", "recvfrom", "sendto", "read", "write", "readv", "writev", "splice", "pipe2",
	"accept4", "connect", "bind", "shutdown", "getsockopt", "setsockopt", "getsockname", "getpeername", "close",
	/* the loop */
	"epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll",
	/* reading resolv.conf, hosts and nsswitch.conf as they are now */
	"fstat", "newfstatat", "statx", "lseek", "pread64", "readlink", "readlinkat", "uname",
	/* memory; mmap, mprotect below */
	"brk", "munmap", "mremap", "madvise", "mlock", "munlock",
	/* the process */
	"clock_gettime", "gettimeofday", "getrandom", "getppid", "getpid", "gettid", "getuid", "geteuid", "getgid", "getegid",
	"futex", "rt_sigreturn", "rt_sigprocmask", "exit", "exit_group", "restart_syscall", "sysinfo",
};

/* The init of a slot's sandbox after it has booted. It is the only process in the sandbox that has
 * capabilities, and it checks what commands ask for. It starts no program, and reads only names and
 * /proc. The processes that it forks (the maker of links, the exact measurement) have this filter,
 * too. Before you use a C library function there, check which system call it makes: access() makes
 * SYS_access, which is not allowed, but faccessat() makes one that is. */
static const char *const stage2_calls[] = {
	/* the host, the template, the spawner */
	"recvmsg", "sendmsg", "recvfrom", "sendto", "poll", "ppoll", "read", "write", "pread64", "close", "lseek",
	/* processes: waiting, stopping, ending */
	"wait4", "kill", "prlimit64", "pidfd_open", "clock_gettime", "nanosleep", "clock_nanosleep", "setitimer",
	/* the plan: mounts by descriptor, and the checks for it */
	"open_tree", "move_mount", "mount_setattr", "umount2", "fsopen", "fsconfig", "fsmount", "mkdirat", "fchmod",
	"openat", "openat2", "readlink", "readlinkat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "getdents64",
	"faccessat", "faccessat2",
	/* requests of commands: reading arguments, getting descriptors, acting for them */
	"process_vm_readv", "pidfd_getfd", "kcmp", "connect", "getsockopt", "symlinkat", "mknodat",
	/* the maker of links, which stage2 forks again after it had to kill it (stage2/links.c) */
	"umask", "dup3", "close_range", "chdir", "capset", "set_robust_list",
	/* a session for the exact measurement, because the scheduler may group by session
	 * (stage2/quota.c) */
	"setsid",
	/* removing old names from a mirror (stage2/mirror.c) */
	"unlinkat",
	/* noticing new names below a draft (stage2/lower_names.c) */
	"inotify_add_watch",
	/* memory; mmap, mprotect below */
	"brk", "munmap", "mremap", "madvise",
	/* the process */
	"getrandom", "getpid", "gettid", "getuid", "geteuid", "getgid", "getegid", "futex", "rt_sigreturn", "rt_sigprocmask",
	"exit", "exit_group", "restart_syscall", "sysinfo",
};

static const char *const test_calls[] = { "kill", "tgkill", "nanosleep", "clock_nanosleep" };

/* For reports, symbolising, and the leak check at exit, which clones and traces the process. */
static const char *const sanitize_calls[] = {
	"sigaltstack", "sched_yield", "readlink", "open", "stat", "prlimit64", "getrlimit", "getuid",
	"geteuid", "mincore", "rt_sigaction", "tgkill", "clone", "wait4", "ptrace", "prctl", "dup",
	"process_vm_readv", "sched_getaffinity", "uname", "ioctl", "fcntl", "writev", "nanosleep",
	"clock_nanosleep", "arch_prctl", "set_robust_list", "rseq",
};

/* clang-format on */

/* The machines that there are filters for. libseccomp calls a machine by its AUDIT_ARCH_ value. */
struct machine {
	const char *name; /* as meson calls it */
	uint32_t arch;
};

static const struct machine machines[] = {
	{ "x86_64", SCMP_ARCH_X86_64 },
	{ "aarch64", SCMP_ARCH_AARCH64 },
	{ "riscv64", SCMP_ARCH_RISCV64 },
};

static const struct machine *target;
static scmp_filter_ctx ctx;

static void
must(int r, const char *what)
{
	if (r == 0)
		return;
	fprintf(stderr, "gen-seccomp: %s: %s\n", what, strerror(-r));
	exit(1);
}

/* The call's number on the target. It is negative if the target does not have the call. */
static int
number_of(const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(target->arch, name);

	if (nr == __NR_SCMP_ERROR)
		must(-EINVAL, name);
	return nr;
}

/* Add a rule for a call, which the target must have. libseccomp's rules use the numbers of the
 * machine that this program runs on, and it translates them. */
static void
add_rule(uint32_t action, const char *name, unsigned n, const struct scmp_arg_cmp *args)
{
	if (number_of(name) < 0)
		must(-ENOSYS, name);
	must(seccomp_rule_add_exact_array(ctx, action, seccomp_syscall_resolve_name(name), n, args),
	    name);
}

#define RULE(action, name, ...)                                                                    \
	add_rule(action, name,                                                                     \
	    sizeof((struct scmp_arg_cmp[]){ __VA_ARGS__ }) / sizeof(struct scmp_arg_cmp),          \
	    (struct scmp_arg_cmp[]){ __VA_ARGS__ })

static void
allow(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (number_of(names[i]) >= 0)
			add_rule(SCMP_ACT_ALLOW, names[i], 0, NULL);
}

/* Allow only memory that is not executable, so that the process cannot add code to what is
 * mapped. */
static void
no_new_code(void)
{
	RULE(SCMP_ACT_ALLOW, "mmap", SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	RULE(SCMP_ACT_ALLOW, "mprotect", SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static void
allow_fcntls(const int *commands, size_t n)
{
	for (size_t i = 0; i < n; i++)
		RULE(SCMP_ACT_ALLOW, "fcntl", SCMP_A1_32(SCMP_CMP_EQ, (unsigned)commands[i], 0));
}

/* Allow setting FD_CLOEXEC, because fdopendir() does. Clearing it would matter only to an exec,
 * which is not allowed. */
static void
allow_closing_on_exec(void)
{
	RULE(SCMP_ACT_ALLOW, "fcntl", SCMP_A1_32(SCMP_CMP_EQ, F_SETFD, 0),
	    SCMP_A2_32(SCMP_CMP_EQ, FD_CLOEXEC, 0));
}

static void
allow_for_sanitizers(void)
{
	allow(sanitize_calls, N_ELEMENTS(sanitize_calls));
	allow((const char *const[]){ "mmap", "mprotect" }, 2);
}

static void
worker_rules(bool sanitize, bool test)
{
	static const int fcntls[] = { F_GETFL, F_GET_SEALS, F_DUPFD_CLOEXEC };

	allow(worker_calls, N_ELEMENTS(worker_calls));
	if (test)
		allow(test_calls, N_ELEMENTS(test_calls));
	if (sanitize) {
		allow_for_sanitizers();
		return;
	}
	allow_fcntls(fcntls, N_ELEMENTS(fcntls));
	allow_closing_on_exec();
	no_new_code();
}

/* Allow opening files only for reading, and without truncation, for processes that may not call
 * openat2. */
static void
open_for_reading(void)
{
	RULE(SCMP_ACT_ALLOW, "openat",
	    SCMP_A2_32(SCMP_CMP_MASKED_EQ,
		O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), 0));
}

/* Patterns are compiled to machine code, so executable memory is allowed, but only anonymous
 * memory. Files may be opened only for reading and without truncation: openat2 is not allowed at
 * all, because a filter cannot check it, and Landlock is not used against truncation
 * (shared/confine/lockdown.h). */
static void
search_rules(bool sanitize, bool test)
{
	static const int fcntls[] = { F_GETFL, F_DUPFD_CLOEXEC };

	allow(search_calls, N_ELEMENTS(search_calls));
	open_for_reading();
	if (test)
		allow(test_calls, N_ELEMENTS(test_calls));
	if (sanitize) {
		allow_for_sanitizers();
		return;
	}
	allow_fcntls(fcntls, N_ELEMENTS(fcntls));
	RULE(SCMP_ACT_ALLOW, "mmap", SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC),
	    SCMP_A3_32(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS));
	no_new_code();
}

#define SOCK_KIND    0xf /* the kernel's SOCK_TYPE_MASK; the bits above are flags */
#define FAMILIES_MAX 46  /* one above the last family of the kernel */

/* Allow sockets for TCP and UDP. Any other family gets EAFNOSUPPORT, because a library that tries
 * one can do without it: for a name server with a scope glibc tries a Unix socket before it asks
 * for the number of the interface, and then tries another kind. The proxy may not have Unix
 * sockets, because services of the host listen on them; only the host connects to those. */
static void
proxy_sockets(void)
{
	static const struct {
		int type, protocol;
	} kinds[] = {
		{ SOCK_STREAM, 0 },
		{ SOCK_STREAM, IPPROTO_TCP },
		{ SOCK_DGRAM, 0 },
		{ SOCK_DGRAM, IPPROTO_UDP },
	};
	static const int families[] = { AF_INET, AF_INET6 };

	for (size_t f = 0; f < N_ELEMENTS(families); f++)
		for (size_t k = 0; k < N_ELEMENTS(kinds); k++)
			RULE(SCMP_ACT_ALLOW, "socket",
			    SCMP_A0_32(SCMP_CMP_EQ, (unsigned)families[f], 0),
			    SCMP_A1_32(SCMP_CMP_MASKED_EQ, SOCK_KIND, (unsigned)kinds[k].type),
			    SCMP_A2_32(SCMP_CMP_EQ, (unsigned)kinds[k].protocol, 0));
	for (unsigned family = 0; family < FAMILIES_MAX; family++)
		if (family != AF_INET && family != AF_INET6)
			RULE(SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket",
			    SCMP_A0_32(SCMP_CMP_EQ, family, 0));
}

static void
proxy_rules(bool sanitize, bool test)
{
	static const int fcntls[] = { F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC,
		F_SETPIPE_SZ, F_GETPIPE_SZ };

	allow(proxy_calls, N_ELEMENTS(proxy_calls));
	open_for_reading();
	proxy_sockets();
	if (test)
		allow(test_calls, N_ELEMENTS(test_calls));
	if (sanitize) {
		allow_for_sanitizers();
		return;
	}
	allow_fcntls(fcntls, N_ELEMENTS(fcntls));
	RULE(SCMP_ACT_ALLOW, "ioctl", SCMP_A1_32(SCMP_CMP_EQ, SIOCGIFINDEX, 0));
	no_new_code();
}

/* The only ioctls receive and answer the calls of commands (seccomp notifications). The only socket
 * that stage2 may create is the one that lists Unix sockets. */
static void
stage2_rules(bool sanitize, bool test)
{
	/* stage2/notice.c needs F_NOTIFY and F_SETSIG. */
	static const int fcntls[] = { F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_NOTIFY, F_SETSIG };
	static const int prctls[] = { PR_SET_NAME, PR_SET_DUMPABLE, PR_CAP_AMBIENT };
	static const unsigned long ioctls[] = { SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
		SECCOMP_IOCTL_NOTIF_ID_VALID, NOTIF_ID_VALID_FORMER };

	allow(stage2_calls, N_ELEMENTS(stage2_calls));
	if (test)
		allow(test_calls, N_ELEMENTS(test_calls));
	RULE(SCMP_ACT_ALLOW, "socket", SCMP_A0_32(SCMP_CMP_EQ, AF_NETLINK, 0),
	    SCMP_A2_32(SCMP_CMP_EQ, NETLINK_SOCK_DIAG, 0));
	/* Only to make a mount read-only, where there is no mount_setattr() (stage2/restrict.c). */
	RULE(SCMP_ACT_ALLOW, "mount",
	    SCMP_A3_32(SCMP_CMP_MASKED_EQ, ~(unsigned)(MS_NOSUID | MS_NODEV | MS_NOEXEC),
		MS_REMOUNT | MS_BIND | MS_RDONLY));
	if (sanitize) {
		allow_for_sanitizers();
		return;
	}
	allow_fcntls(fcntls, N_ELEMENTS(fcntls));
	allow_closing_on_exec();
	/* Allow fork() as the C library makes it. The child is in the same namespaces and has this
	 * filter, too, so it cannot exec. */
	RULE(SCMP_ACT_ALLOW, "clone",
	    SCMP_A0_32(SCMP_CMP_EQ, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0));
	for (size_t i = 0; i < N_ELEMENTS(prctls); i++)
		RULE(SCMP_ACT_ALLOW, "prctl", SCMP_A0_32(SCMP_CMP_EQ, (unsigned)prctls[i], 0));
	for (size_t i = 0; i < N_ELEMENTS(ioctls); i++)
		RULE(SCMP_ACT_ALLOW, "ioctl", SCMP_A1_32(SCMP_CMP_EQ, (unsigned)ioctls[i], 0));
	no_new_code();
}

/*
 * The filter for commands. No library can express "allowed except for these values of the low 32
 * bits, which get that error". So libseccomp only translates the names, and this file writes the
 * instructions.
 *
 * A call that libseccomp does not know, or that is newer than the calls reviewed for this list,
 * gets ENOSYS, which its callers are prepared for. Every other call is allowed unless it is listed
 * below.
 */
#define REFUSE_EPERM  (SECCOMP_RET_ERRNO | EPERM)
#define REFUSE_ENOSYS (SECCOMP_RET_ERRNO | ENOSYS)

/* clang-format off */
static const char *const refused_calls[] = {
	/* the mount API, and other ways out of the view */
	"mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", "fspick",
	"mount_setattr", "chroot", "setns", "name_to_handle_at", "open_by_handle_at",
	/* keys belong to the user, not to the namespace */
	"keyctl", "add_key", "request_key",
	/* the parts of the kernel that attackers break into most */
	"bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module",
	"finit_module", "delete_module", "fanotify_init", "fanotify_mark",
	"modify_ldt", "vm86", "vm86old",
	/* NUMA; libnuma treats EPERM as a machine without nodes */
	"mbind", "set_mempolicy", "get_mempolicy", "move_pages", "migrate_pages", "set_mempolicy_home_node",
	/* other processes; debuggers use ptrace and process_vm_*, which are allowed */
	"kcmp", "pidfd_getfd", "process_madvise",
	/* the settings of the machine */
	"quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "acct", "syslog", "settimeofday", "clock_settime",
	"clock_adjtime", "adjtimex", "stime", "vhangup", "iopl", "ioperm", "sethostname", "setdomainname",
};

/* These get ENOSYS, as if the kernel had been built without them, because their callers have
 * another way. The flags of clone3 are behind a pointer, and io_uring makes system calls that no
 * filter sees. */
static const char *const missing_calls[] = {
	"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register",
	/* reveals which parts of a file other processes have read lately */
	"cachestat",
	/* obsolete: newer kernels lack them, and no current program needs them */
	"sysfs", "ustat", "_sysctl", "remap_file_pages", "uselib", "lookup_dcookie", "nfsservctl", "create_module",
	"query_module", "get_kernel_syms", "getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "vserver",
	"epoll_ctl_old", "epoll_wait_old",
};
/* clang-format on */

#define CODE_MAX 4096
/* The last call that was reviewed, futex_requeue. From 424 on, a call has the same number on all
 * architectures. A libseccomp that knows more calls (2.6: open_tree_attr, statmount,
 * lsm_set_self_attr) must not make the filter allow more. */
#define NR_JUDGED 456
#define NR_MAX    1024 /* above the last call of any architecture; from here on ENOSYS */

static struct sock_filter code[CODE_MAX];
static size_t n_code;

static void
emit(uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (n_code == CODE_MAX)
		must(-E2BIG, "filter");
	code[n_code++] = (struct sock_filter){ op, jt, jf, k };
}

static void
ret(uint32_t action)
{
	emit(BPF_RET | BPF_K, action, 0, 0);
}

/* Load the low 32 bits of an argument. The kernel truncates an argument to an int or an unsigned,
 * so the filter must ignore the upper bits, too. */
static void
load_low(unsigned arg)
{
	uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t));

	/* All machines in the table have the low half first. */
	emit(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
}

static void
load_high(unsigned arg)
{
	load_low(arg);
	code[n_code - 1].k ^= sizeof(uint32_t);
}

/* If the loaded value equals `value`, return `action`; otherwise continue. */
static void
if_equal(uint32_t value, uint32_t action)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	ret(action);
}

static void
if_not_equal(uint32_t value, uint32_t action)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
	ret(action);
}

static void
if_any(uint32_t bits, uint32_t action)
{
	emit(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	ret(action);
}

#define NETLINK_ROUTE_PROTOCOL 0

/* Allow kinds of Unix sockets that have to call connect(), which stage2 checks. A datagram socket
 * sends without it, and so does SOCK_RAW, which is the same for this family. */
static void
unix_kind(void)
{
	load_low(1);
	emit(BPF_ALU | BPF_AND | BPF_K, SOCK_KIND, 0, 0);
	if_equal(SOCK_STREAM, SECCOMP_RET_ALLOW);
	if_equal(SOCK_SEQPACKET, SECCOMP_RET_ALLOW);
	ret(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

static void
check_socket(void)
{
	size_t unix_jump, inet_jump, inet6_jump, stream_jump;

	load_low(0);
	unix_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 0);
	inet_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 0, 0);
	inet6_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 0);
	if_not_equal(AF_NETLINK, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	/* getifaddrs() needs this protocol. */
	load_low(2);
	if_equal(NETLINK_ROUTE_PROTOCOL, SECCOMP_RET_ALLOW);
	ret(SECCOMP_RET_ERRNO | EAFNOSUPPORT);

	code[unix_jump].jt = (uint8_t)(n_code - unix_jump - 1);
	unix_kind();

	/* Allow only TCP and UDP: Landlock does not keep MPTCP from binding, and no program needs
	 * the others on a loopback. */
	code[inet_jump].jt = (uint8_t)(n_code - inet_jump - 1);
	code[inet6_jump].jt = (uint8_t)(n_code - inet6_jump - 1);
	load_low(1);
	emit(BPF_ALU | BPF_AND | BPF_K, SOCK_KIND, 0, 0);
	stream_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 0, 0);
	if_not_equal(SOCK_DGRAM, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	load_low(2);
	if_equal(0, SECCOMP_RET_ALLOW);
	if_equal(IPPROTO_UDP, SECCOMP_RET_ALLOW);
	ret(SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
	code[stream_jump].jt = (uint8_t)(n_code - stream_jump - 1);
	load_low(2);
	if_equal(0, SECCOMP_RET_ALLOW);
	if_equal(IPPROTO_TCP, SECCOMP_RET_ALLOW);
	ret(SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
}

static void
check_socketpair(void)
{
	load_low(0);
	if_not_equal(AF_UNIX, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	unix_kind();
}

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	    CLONE_NEWPID | CLONE_NEWNET)

static void
check_clone(void)
{
	load_low(0); /* without CLONE_NEWTIME, whose bit belongs to the child's signal here */
	if_any(NEW_NAMESPACES, REFUSE_EPERM);
	ret(SECCOMP_RET_ALLOW);
}

static void
check_unshare(void)
{
	load_low(0);
	if_any(NEW_NAMESPACES | CLONE_NEWTIME, REFUSE_EPERM);
	ret(SECCOMP_RET_ALLOW);
}

#define FEW 3 /* trying so many in turn costs no more than another step of the binary search */

/* Allow the loaded value if it is one of v, which is in ascending order; else return
 * `otherwise`. */
static void
allow_numbers(const uint32_t *v, size_t n, uint32_t otherwise)
{
	size_t half = n / 2, at;

	if (n <= FEW) {
		for (size_t i = 0; i < n; i++)
			if_equal(v[i], SECCOMP_RET_ALLOW);
		ret(otherwise);
		return;
	}
	emit(BPF_JMP | BPF_JGE | BPF_K, v[half], 0, 1);
	at = n_code;
	emit(BPF_JMP | BPF_JA, 0, 0, 0);
	allow_numbers(v, half, otherwise);
	code[at].k = (uint32_t)(n_code - at - 1);
	allow_numbers(v + half, n - half, otherwise);
}

static int
by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void
check_ioctl(void)
{
#define ELEMENT(number) (uint32_t)(number),
	uint32_t sorted[] = { COMMAND_IOCTLS(ELEMENT) };
#undef ELEMENT

	qsort(sorted, N_ELEMENTS(sorted), sizeof(sorted[0]), by_number);
	load_low(1);
	allow_numbers(sorted, N_ELEMENTS(sorted), SECCOMP_RET_ERRNO | ENOTTY);
}

#define FCNTL_BEFORE_LINUX                                                                         \
	39 /* F_OFD_SETLKW is 38; below are POSIX's commands, owners and signals, and locks */

/*
 * Refuse F_SETLEASE, which makes every other process that opens the file wait for up to 45 seconds
 * (fs.lease-break-time); F_SETDELEG, the same for directories; F_NOTIFY; and every command newer
 * than this list. Allow F_SETOWN and F_SETSIG, because the signal of a descriptor needs the
 * permission that kill() needs, Landlock's scope included.
 */
static void
check_fcntl(void)
{
	static const uint32_t allowed[] = { F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY,
		F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
		F_GET_RW_HINT, F_SET_RW_HINT, F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT };

	load_low(1);
	emit(BPF_JMP | BPF_JGE | BPF_K, FCNTL_BEFORE_LINUX, 1, 0);
	ret(SECCOMP_RET_ALLOW);
	allow_numbers(allowed, N_ELEMENTS(allowed), SECCOMP_RET_ERRNO | EINVAL);
}

/* The call does nothing and returns 0. */
#define PRETEND SECCOMP_RET_ERRNO

/* Return `action` unless this pointer is NULL. */
static void
if_given(unsigned arg, uint32_t action)
{
	load_low(arg);
	if_not_equal(0, action);
	load_high(arg);
	if_not_equal(0, action);
}

/*
 * A command may set only its own limits, and below only its own priorities: Landlock does not keep
 * it from changing those of the worker and of stage2, which have the same user.
 *
 * It may not set the size of its core file: with 0, which many programs set for themselves, the
 * kernel would start the host's handler for it (LOCKDOWN_CORE_LIMIT). These programs want no core
 * file and get none, so the call returns success without effect. A program that also asks for the
 * former limit gets an error, because the kernel would not write it.
 */
static void
check_prlimit(void)
{
	size_t own_jump, core_jump;

	load_low(0);
	own_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 0);
	if_given(2, REFUSE_EPERM);
	ret(SECCOMP_RET_ALLOW);

	code[own_jump].jt = (uint8_t)(n_code - own_jump - 1);
	load_low(1);
	core_jump = n_code;
	emit(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 0, 0);
	ret(SECCOMP_RET_ALLOW);

	code[core_jump].jt = (uint8_t)(n_code - core_jump - 1);
	load_low(2);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
	load_high(2);
	if_equal(0, SECCOMP_RET_ALLOW);
	if_given(3, REFUSE_EPERM);
	ret(PRETEND);
}

static void
check_setrlimit(void)
{
	load_low(0);
	if_equal(RLIMIT_CORE, PRETEND);
	ret(SECCOMP_RET_ALLOW);
}

static void
check_own_pid(void)
{
	load_low(0);
	if_equal(0, SECCOMP_RET_ALLOW);
	ret(REFUSE_EPERM);
}

/* Allow only the caller itself and its process group, as 0. `first` is the number for a process;
 * the next one is for a group. It is 0 for PRIO_PROCESS, and 1 for IOPRIO_WHO_PROCESS. PRIO_USER
 * would be every process here. */
static void
check_who(uint32_t first)
{
	load_low(1);
	if_not_equal(0, REFUSE_EPERM);
	load_low(0);
	if_equal(first, SECCOMP_RET_ALLOW);
	if_equal(first + 1, SECCOMP_RET_ALLOW);
	ret(REFUSE_EPERM);
}

static void
check_setpriority(void)
{
	check_who(0);
}

static void
check_ioprio_set(void)
{
	check_who(1);
}

static void
check_personality(void)
{
	load_low(0);
	if_equal(PER_LINUX, SECCOMP_RET_ALLOW);
	if_equal(PER_LINUX32, SECCOMP_RET_ALLOW);
	if_equal(UNAME26, SECCOMP_RET_ALLOW);
	if_equal(UNAME26 | PER_LINUX32, SECCOMP_RET_ALLOW);
	if_equal(ADDR_NO_RANDOMIZE, SECCOMP_RET_ALLOW); /* for gdb */
	if_equal(0xffffffff, SECCOMP_RET_ALLOW);        /* only returns the value */
	ret(REFUSE_EPERM);
}

static void
ask(void)
{
	ret(SECCOMP_RET_USER_NOTIF);
}

/* Send FIFOs and sockets to stage2, which creates them. Refuse devices: an ordinary user may make a
 * whiteout, which is one, where no Landlock refuses it. The kernel creates files itself. */
static void
check_mknod(unsigned mode)
{
	load_low(mode);
	emit(BPF_ALU | BPF_AND | BPF_K, S_IFMT, 0, 0);
	if_equal(S_IFIFO, SECCOMP_RET_USER_NOTIF);
	if_equal(S_IFSOCK, SECCOMP_RET_USER_NOTIF);
	if_equal(S_IFCHR, REFUSE_EPERM);
	if_equal(S_IFBLK, REFUSE_EPERM);
	ret(SECCOMP_RET_ALLOW);
}

static void
check_mknod_path(void)
{
	check_mknod(1);
}

static void
check_mknodat(void)
{
	check_mknod(2);
}

/* Refuse whiteouts, which are devices. Only layered file systems need them, and take EINVAL as the
 * answer of a file system that has none. */
static void
check_renameat2(void)
{
	load_low(4);
	if_any(RENAME_WHITEOUT, SECCOMP_RET_ERRNO | EINVAL);
	ret(SECCOMP_RET_ALLOW);
}

static void
refuse_listen(void)
{
	ret(SECCOMP_RET_ERRNO | EACCES);
}

static const struct {
	const char *name;
	void (*emit)(void);
	bool closed_only;
} checked_calls[] = {
	{ "clone", check_clone, false }, { "unshare", check_unshare, false },
	{ "socket", check_socket, false }, { "socketpair", check_socketpair, false },
	{ "connect", ask, false }, { "ioctl", check_ioctl, false }, { "fcntl", check_fcntl, false },
	{ "symlink", ask, false }, { "symlinkat", ask, false },
	{ "mknod", check_mknod_path, false }, { "mknodat", check_mknodat, false },
	{ "renameat2", check_renameat2, false }, { "prlimit64", check_prlimit, false },
	{ "setrlimit", check_setrlimit, false }, { "sched_setaffinity", check_own_pid, false },
	{ "sched_setscheduler", check_own_pid, false }, { "sched_setparam", check_own_pid, false },
	{ "sched_setattr", check_own_pid, false }, { "setpriority", check_setpriority, false },
	{ "ioprio_set", check_ioprio_set, false }, { "personality", check_personality, false },
	{ "listen", refuse_listen, true }, /* it binds a socket that is not bound */
};

/* A leaf of the search: the action for the calls from `first` up to the `first` of the next
 * leaf. */
struct span {
	int first;
	uint32_t action;
	void (*emit)(void);
};

/* Emit a binary search. Each leaf ends with a return, so the branches need not join again. The
 * search jumps with BPF_JA, because the jump of a condition has only 8 bits. */
static void
emit_spans(const struct span *s, size_t n)
{
	size_t half = n / 2, at;

	if (n == 1) {
		if (s->emit != NULL)
			s->emit();
		else
			ret(s->action);
		return;
	}
	emit(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)s[half].first, 0, 1);
	at = n_code;
	emit(BPF_JMP | BPF_JA, 0, 0, 0);
	emit_spans(s, half);
	code[at].k = (uint32_t)(n_code - at - 1);
	emit_spans(s + half, n - half);
}

static void
command_rules(bool closed)
{
	static struct span span[NR_MAX + 2];
	struct span nr_is[NR_MAX];
	size_t n = 0;

	for (int nr = 0; nr < NR_MAX; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(target->arch, nr);

		nr_is[nr] = (struct span){ nr,
			name != NULL && nr <= NR_JUDGED ? SECCOMP_RET_ALLOW : REFUSE_ENOSYS, NULL };
		free(name);
	}
	for (size_t i = 0; i < N_ELEMENTS(refused_calls); i++)
		if (number_of(refused_calls[i]) >= 0)
			nr_is[number_of(refused_calls[i])].action = REFUSE_EPERM;
	for (size_t i = 0; i < N_ELEMENTS(missing_calls); i++)
		if (number_of(missing_calls[i]) >= 0)
			nr_is[number_of(missing_calls[i])].action = REFUSE_ENOSYS;
	for (size_t i = 0; i < N_ELEMENTS(checked_calls); i++)
		if (number_of(checked_calls[i].name) >= 0 &&
		    (closed || !checked_calls[i].closed_only))
			nr_is[number_of(checked_calls[i].name)].emit = checked_calls[i].emit;
	for (int nr = 0; nr < NR_MAX; nr++)
		if (n == 0 || nr_is[nr].emit != NULL || span[n - 1].emit != NULL ||
		    span[n - 1].action != nr_is[nr].action)
			span[n++] = nr_is[nr];
	span[n++] = (struct span){ NR_MAX, REFUSE_ENOSYS, NULL };

	/* The 32-bit calls, and those of x32, have other numbers, which would mean other calls
	 * here. */
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	if_not_equal(target->arch, SECCOMP_RET_KILL_PROCESS);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	if (target->arch == SCMP_ARCH_X86_64) {
		/* A tracer sets the number of a call that it skips to -1. */
		if_equal(0xffffffff, REFUSE_ENOSYS);
		emit(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
		ret(SECCOMP_RET_KILL_PROCESS);
	}
	emit_spans(span, n);
}

static void
print_instruction(const struct sock_filter *f)
{
	printf("\t{ 0x%04x, %u, %u, 0x%08x },\n", f->code, f->jt, f->jf, f->k);
}

static void
print_begin(const char *name)
{
	printf("/* Made by gen-seccomp for %s. */\n#include <linux/filter.h>\n\n"
	       "#include \"shared/confine/machine.h\"\n\n"
	       "_Static_assert(MACHINE_AUDIT_ARCH == 0x%08x, \"this filter is for %s\");\n\n"
	       "static const struct sock_filter %s_filter[] = {\n",
	    target->name, target->arch, target->name, name);
}

static void
print_end(void)
{
	printf("};\n");
	if (fflush(stdout) != 0 || ferror(stdout))
		must(-EIO, "stdout");
}

/* Print the filter that libseccomp made from the rules. */
static void
print_context(const char *name)
{
	struct sock_filter f;
	int fd = memfd_create("filter", MFD_CLOEXEC);
	size_t n = 0;

	must(fd < 0 ? -errno : 0, "memfd");
	must(seccomp_export_bpf(ctx, fd), "export");
	must(lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0, "memfd");
	print_begin(name);
	while (read(fd, &f, sizeof(f)) == (ssize_t)sizeof(f)) {
		print_instruction(&f);
		n++;
	}
	if (n == 0)
		must(-EIO, "export");
	print_end();
}

static void
killing_filter(const char *name, void (*rules)(bool sanitize, bool test), bool sanitize, bool test)
{
	ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (ctx == NULL)
		must(-ENOMEM, "filter");
	/* The 32-bit calls, and those of x32, have other numbers, which would mean other calls
	 * here. */
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "architecture");
	/* With a binary search, a call late in the list costs as little as an early one. */
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimise");
	if (target->arch != seccomp_arch_native()) {
		must(seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE), "architecture");
		must(seccomp_arch_add(ctx, target->arch), target->name);
	}
	rules(sanitize, test);
	print_context(name);
	seccomp_release(ctx);
}

static void
command_filter(const char *name, bool closed)
{
	command_rules(closed);
	print_begin(name);
	for (size_t i = 0; i < n_code; i++)
		print_instruction(&code[i]);
	print_end();
}

static void
print_number(const char *name, uint64_t value)
{
	printf("_Static_assert((uint64_t)(%s) == UINT64_C(0x%llx), \"%s\");\n", name,
	    (unsigned long long)value, name);
}

/* Print a C file that can only be compiled where these numbers are the same as here. */
static void
numbers(void)
{
	printf(
	    "/* Made by gen-seccomp for %s: what its filters took from the headers of the machine\n"
	    " * that built them. */\n"
	    "#include <stdint.h>\n\n#include \"shared/confine/machine.h\"\n"
	    "#include \"tools/filter_numbers.h\"\n\n",
	    target->name);
#define PRINT(number) print_number(#number, (uint64_t)(number));
	FILTER_NUMBERS(PRINT)
	COMMAND_IOCTLS(PRINT)
#undef PRINT
	must(fflush(stdout) != 0 || ferror(stdout) ? -EIO : 0, "stdout");
}

static const struct machine *
find_machine(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(machines); i++)
		if (strcmp(machines[i].name, name) == 0)
			return &machines[i];
	fprintf(stderr, "gen-seccomp: there are no filters for '%s': add a row to machines[]\n",
	    name);
	return NULL;
}

int
main(int argc, char **argv)
{
	bool sanitize = false, test = false;

	if (argc >= 2) {
		target = find_machine(argv[1]);
		if (target == NULL)
			return 1;
		argv++;
		argc--;
	}
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--sanitize") == 0) {
			sanitize = true;
		} else if (strcmp(argv[i], "--test") == 0) {
			test = true;
		} else {
			fprintf(stderr, "gen-seccomp: unknown option '%s'\n", argv[i]);
			return 2;
		}
	}
	if (argc >= 2 && strcmp(argv[1], "worker") == 0) {
		killing_filter("worker", worker_rules, sanitize, test);
	} else if (argc >= 2 && strcmp(argv[1], "search") == 0) {
		killing_filter("search", search_rules, sanitize, test);
	} else if (argc >= 2 && strcmp(argv[1], "proxy") == 0) {
		killing_filter("proxy", proxy_rules, sanitize, test);
	} else if (argc >= 2 && strcmp(argv[1], "stage2") == 0) {
		killing_filter("stage2", stage2_rules, sanitize, test);
	} else if (argc == 2 && strcmp(argv[1], "command") == 0) {
		command_filter("command", false);
	} else if (argc == 2 && strcmp(argv[1], "command_closed") == 0) {
		command_filter("command_closed", true);
	} else if (argc == 2 && strcmp(argv[1], "numbers") == 0) {
		numbers();
	} else {
		fprintf(stderr,
		    "usage: gen-seccomp MACHINE worker|search|proxy|stage2 [--sanitize] [--test]\n"
		    "       gen-seccomp MACHINE command|command_closed|numbers\n");
		return 2;
	}
	return 0;
}
