/*
 * gen-seccomp worker [--sanitize] [--test]: print a seccomp filter as a C header, an array
 * worker_filter of struct sock_filter. Run at build time, so that the programs that are confined
 * carry the instructions and not libseccomp (loading a prebuilt filter is also 200 us cheaper).
 *
 *	--sanitize  adds what the runtimes of ASan and UBSan need
 *	--test      adds what stopping itself and dawdling take (worker/pause.h)
 *
 * What is not named here ends the process: for a worker an unexpected system call is either our bug
 * or somebody else's program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
/* openat2 cannot be looked into (its flags are behind a pointer); Landlock holds what openat may do. */
static const char *const worker_calls[] = {
	/* The socket; no call here makes another, and this one is connected: sendto goes to its peer
	 * whatever address it has. What is allowed whole the kernel remembers, and asks no filter. */
	"recvmsg", "sendmsg", "sendto", "poll", "ppoll",
	/* descriptors */
	"read", "write", "sendfile", "pread64", "pwrite64", "close", "lseek", "ftruncate", "fsync", "fdatasync",
	"flock",
	/* names */
	"openat", "openat2", "readlinkat", "fstat", "newfstatat", "statx", "fstatfs", "getdents64",
	"faccessat", "faccessat2", "mkdirat", "unlinkat", "renameat", "renameat2",
	/* what a replaced file hands on */
	"fchmod", "fchown", "listxattr", "getxattr", "flistxattr", "fsetxattr", "fremovexattr",
	/* memory; mmap, mprotect below */
	"brk", "munmap", "mremap", "madvise",
	/* the process; glibc's qsort asks how much memory there is */
	"sysinfo", "clock_gettime", "getrandom", "getppid", "getpid", "gettid", "futex", "rt_sigreturn",
	"rt_sigprocmask", "exit", "exit_group", "restart_syscall",
};

static const char *const test_calls[] = { "kill", "tgkill", "nanosleep", "clock_nanosleep" };

/* Reports, symbolising and the leak check at the end, which clones and traces itself. */
static const char *const sanitize_calls[] = {
	"sigaltstack", "sched_yield", "readlink", "open", "stat", "prlimit64", "getrlimit", "getuid",
	"geteuid", "mincore", "rt_sigaction", "tgkill", "clone", "wait4", "ptrace", "prctl", "dup",
	"process_vm_readv", "sched_getaffinity", "uname", "ioctl", "fcntl", "writev", "nanosleep",
	"clock_nanosleep", "arch_prctl", "set_robust_list", "rseq",
};

/* clang-format on */

static scmp_filter_ctx ctx;

static void
must(int r, const char *what)
{
	if (r == 0)
		return;
	fprintf(stderr, "gen-seccomp: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void
allow(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);

		/* A negative number is a call that this architecture does not have. */
		if (nr == __NR_SCMP_ERROR)
			must(-EINVAL, names[i]);
		if (nr >= 0)
			must(seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, nr, 0), names[i]);
	}
}

static void
worker_rules(bool sanitize, bool test)
{
	static const int fcntls[] = { F_GETFL, F_GET_SEALS, F_DUPFD_CLOEXEC };

	allow(worker_calls, N_ELEMENTS(worker_calls));
	if (test)
		allow(test_calls, N_ELEMENTS(test_calls));
	if (sanitize) {
		allow(sanitize_calls, N_ELEMENTS(sanitize_calls));
		allow((const char *const[]){ "mmap", "mprotect" }, 2);
		return;
	}
	for (size_t i = 0; i < N_ELEMENTS(fcntls); i++)
		must(seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
			 SCMP_A1_32(SCMP_CMP_EQ, (unsigned)fcntls[i], 0)),
		    "fcntl");
	/* fdopendir() makes sure of it; taking it off would matter only to an exec, which there is none of. */
	must(seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 2,
		 SCMP_A1_32(SCMP_CMP_EQ, F_SETFD, 0), SCMP_A2_32(SCMP_CMP_EQ, FD_CLOEXEC, 0)),
	    "fcntl");
	/* No memory that is run: what is mapped now is all the code there will be. */
	must(seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
		 SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)),
	    "mmap");
	must(seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
		 SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)),
	    "mprotect");
}

static void
print(const char *name)
{
	struct sock_filter code;
	int fd = memfd_create("filter", MFD_CLOEXEC);
	size_t n = 0;

	must(fd < 0 ? -errno : 0, "memfd");
	must(seccomp_export_bpf(ctx, fd), "export");
	must(lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0, "memfd");
	printf("/* Made by gen-seccomp. */\n#include <linux/filter.h>\n\n"
	       "static const struct sock_filter %s_filter[] = {\n",
	    name);
	while (read(fd, &code, sizeof(code)) == (ssize_t)sizeof(code)) {
		printf("\t{ 0x%04x, %u, %u, 0x%08x },\n", code.code, code.jt, code.jf, code.k);
		n++;
	}
	printf("};\n");
	if (n == 0)
		must(-EIO, "export");
	if (fflush(stdout) != 0 || ferror(stdout))
		must(-EIO, "stdout");
}

int
main(int argc, char **argv)
{
	bool sanitize = false, test = false;

	if (argc < 2 || strcmp(argv[1], "worker") != 0) {
		fprintf(stderr, "usage: gen-seccomp worker [--sanitize] [--test]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--sanitize") == 0) {
			sanitize = true;
		} else if (strcmp(argv[i], "--test") == 0) {
			test = true;
		} else {
			fprintf(stderr, "gen-seccomp: what is %s?\n", argv[i]);
			return 2;
		}
	}
	ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (ctx == NULL)
		must(-ENOMEM, "filter");
	/* x32 and the 32-bit calls have numbers of their own that mean something else. */
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "architecture");
	/* A binary search: a call late in the list costs as little as an early one. */
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimise");
	worker_rules(sanitize, test);
	print(argv[1]);
	seccomp_release(ctx);
	return 0;
}
