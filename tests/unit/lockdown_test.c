/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/confine/lockdown.c: each measure for real, in a child that tries what the measure
 * forbids.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
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
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/confine/rights.h"
#include "tests/kit/skip.h"

static char base[256];
static int inside, outside; /* O_PATH */

/* Exits with a number made from the line (modulo 251, plus 1) if `x` is false; 0 is success. */
#define expect(x)                                                                                  \
	do {                                                                                       \
		if (!(x))                                                                          \
			_exit(__LINE__ % 251 + 1);                                                 \
	} while (0)

static int
in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		fn();
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return status;
}

static void
assert_child(void (*fn)(void))
{
	int status = in_child(fn);

	if (status != 0)
		fail_msg("the child ended with %#x (line %% 251 is %d)", status,
		    WEXITSTATUS(status) - 1);
}

static void
child_process(void)
{
	struct rlimit before, core;

	expect(getrlimit(RLIMIT_CORE, &before) == 0);
	expect(lockdown_process(NULL) == 0);
	expect(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	expect(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	/* 0 would start the host's core dump handler. */
	expect(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == core.rlim_max &&
	    core.rlim_max == (before.rlim_max < 1 ? before.rlim_max : 1));
}

static void
test_process(void **state)
{
	assert_child(child_process);
}

static void
child_limits(void)
{
	const struct lockdown_limit down[] = { { RLIMIT_NOFILE, 64 }, { RLIMIT_FSIZE, 4096 } };
	const struct lockdown_limit up[] = { { RLIMIT_NOFILE, 128 }, { RLIMIT_FSIZE, UINT64_MAX } };
	struct rlimit rl;

	expect(lockdown_limits(down, N_ELEMENTS(down), NULL) == 0);
	expect(getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur == 64 && rl.rlim_max == 64);
	/* A lower limit stays. */
	expect(lockdown_limits(up, N_ELEMENTS(up), NULL) == 0);
	expect(getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur == 64 && rl.rlim_max == 64);
	expect(getrlimit(RLIMIT_FSIZE, &rl) == 0 && rl.rlim_cur == 4096 && rl.rlim_max == 4096);
}

static void
test_limits(void **state)
{
	assert_child(child_limits);
}

static bool
refused(int r)
{
	return r < 0 && (errno == EACCES || errno == EPERM || errno == EXDEV);
}

static void
child_landlock(void)
{
	unsigned abi = 0;
	int fd;

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_landlock(&inside, 1, lockdown_landlock_abi(), &abi, NULL) == 0);
	expect(abi == lockdown_landlock_abi());
	/* Allowed in the directory. */
	fd = openat(inside, "new", O_WRONLY | O_CREAT | O_EXCL, 0644);
	expect(fd >= 0 && write(fd, "x", 1) == 1);
	expect(renameat(inside, "new", inside, "f") == 0);
	expect(mkdirat(inside, "d", 0755) == 0 && renameat(inside, "f", inside, "d/f") == 0);
	expect(unlinkat(inside, "d/f", 0) == 0 && unlinkat(inside, "d", AT_REMOVEDIR) == 0);
	expect(renameat(inside, "link", inside, "link2") == 0);
	/* Reading is allowed anywhere. */
	expect(openat(outside, "keep", O_RDONLY) >= 0);
	/* Nothing else is allowed. */
	expect(refused(openat(outside, "keep", O_WRONLY)));
	expect(refused(openat(outside, "new", O_WRONLY | O_CREAT, 0644)));
	expect(refused(mkdirat(outside, "d", 0755)));
	expect(refused(unlinkat(outside, "keep", 0)));
	expect(refused(renameat(outside, "keep", inside, "keep")));
	expect(refused(symlinkat("x", outside, "l")));
	expect(refused(mknodat(inside, "p", S_IFIFO | 0600, 0)));
	expect(refused(mknodat(inside, "s", S_IFSOCK | 0600, 0)));
	expect(refused(execl("/bin/true", "true", (char *)NULL)));
	if (abi >= 3)
		expect(
		    refused(truncate("/proc/self/fd/0", 0)) || errno == EINVAL || errno == ENOENT);
	if (abi >= 4) {
		const struct sockaddr_in sa = { .sin_family = AF_INET,
			.sin_port = htons(9),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int s = socket(AF_INET, SOCK_STREAM, 0);

		expect(s >= 0 && refused(connect(s, (const struct sockaddr *)&sa, sizeof(sa))));
	}
	if (abi >= 6)
		expect(refused(kill(getppid(), 0)));
}

static void
test_landlock(void **state)
{
	if (lockdown_landlock_abi() == 0)
		skip_because("the kernel has no Landlock");
	assert_child(child_landlock);
}

static bool
binds(void)
{
	const struct sockaddr_in sa = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cleanup_close int s = socket(AF_INET, SOCK_STREAM, 0);

	expect(s >= 0);
	return bind(s, (const struct sockaddr *)&sa, sizeof(sa)) == 0;
}

/* What a command may do and a worker may not. */
static void
child_landlock_allowing(void)
{
	const unsigned allow = LOCKDOWN_EXECUTE | LOCKDOWN_SPECIAL | LOCKDOWN_TCP_CONNECT;
	unsigned abi = 0;
	int status = -1;
	pid_t pid;

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_landlock_allowing(allow, &inside, 1, lockdown_landlock_abi(), &abi, NULL) ==
	    0);
	pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0);
	expect(mknodat(inside, "p", S_IFIFO | 0600, 0) == 0 && unlinkat(inside, "p", 0) == 0);
	expect(mknodat(inside, "s", S_IFSOCK | 0600, 0) == 0 && unlinkat(inside, "s", 0) == 0);
	expect(refused(mknodat(outside, "p", S_IFIFO | 0600, 0)));
	expect(refused(openat(outside, "keep", O_WRONLY)));
	if (abi >= 4) {
		const struct sockaddr_in sa = { .sin_family = AF_INET,
			.sin_port = htons(9),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int s = socket(AF_INET, SOCK_STREAM, 0);

		/* The connection fails only because nothing listens there. */
		expect(connect(s, (const struct sockaddr *)&sa, sizeof(sa)) < 0 &&
		    errno == ECONNREFUSED);
		expect(!binds() && refused(-1));
	}
	if (abi >= 6)
		expect(refused(kill(getppid(), 0)));
}

static void
test_landlock_allowing(void **state)
{
	if (lockdown_landlock_abi() == 0)
		skip_because("the kernel has no Landlock");
	assert_child(child_landlock_allowing);
}

static void
child_landlock_bind(void)
{
	unsigned abi = 0;
	int file = openat(outside, "keep", O_PATH);

	expect(lockdown_process(NULL) == 0);
	/* A single file can be writable, too. */
	expect(lockdown_landlock_allowing(LOCKDOWN_TCP_BIND, &file, 1, lockdown_landlock_abi(),
		   &abi, NULL) == 0);
	expect(binds());
	expect(openat(outside, "keep", O_WRONLY) >= 0);
	expect(refused(openat(inside, "new", O_WRONLY | O_CREAT, 0644)));
}

static void
test_landlock_bind(void **state)
{
	if (lockdown_landlock_abi() == 0)
		skip_because("the kernel has no Landlock");
	assert_child(child_landlock_bind);
}

static void
child_capabilities(void)
{
	unsigned long long held = ~0ull;
	char line[128];
	FILE *f;

	expect(lockdown_capabilities(NULL) == 0);
	f = fopen("/proc/self/status", "re");
	expect(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "CapInh:", 7) == 0 || strncmp(line, "CapPrm:", 7) == 0 ||
		    strncmp(line, "CapEff:", 7) == 0 || strncmp(line, "CapAmb:", 7) == 0) {
			held = strtoull(line + 7, NULL, 16);
			expect(held == 0);
		}
	expect(held == 0);
}

static void
test_capabilities(void **state)
{
	assert_child(child_capabilities);
}

static void
child_keyring(void)
{
	long before = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1), key;

	if (before < 0)
		_exit(0); /* there are no keyrings here */
	key = syscall(SYS_add_key, "user", "koda-test", "x", 1, KEY_SPEC_SESSION_KEYRING);
	expect(lockdown_keyring(NULL) == 0);
	expect(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) != before);
	expect(key < 0 ||
	    syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "koda-test", 0) <
		0);
}

static void
test_keyring(void **state)
{
	assert_child(child_keyring);
}

static void
child_no_landlock(void)
{
	unsigned abi = 77;

	/* A kernel without Landlock: the ABI is reported as 0, and no protection is claimed. */
	expect(lockdown_landlock(&inside, 1, 0, &abi, NULL) == 0 && abi == 0);
	expect(openat(outside, "free", O_WRONLY | O_CREAT, 0644) >= 0);
	expect(unlinkat(outside, "free", 0) == 0);
}

static void
test_no_landlock(void **state)
{
	assert_child(child_no_landlock);
}

/* ---- what holds a right that Landlock does not have ---- */

static void
child_truncates(void)
{
	/* Landlock before ABI 3: a file opened for reading can be emptied. */
	unsigned abi;

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_landlock(&inside, 1, 2, &abi, NULL) == 0 && abi == 2);
	expect(refused(openat(outside, "keep", O_WRONLY | O_TRUNC)));
	expect(openat(outside, "full", O_RDONLY | O_TRUNC) >= 0);
}

static void
child_truncates_no_more(void)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = { O_RDONLY, 0, 0 };
	unsigned abi;

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_landlock(&inside, 1, 2, &abi, NULL) == 0);
	expect(lockdown_no_truncation(3, NULL) == 0);
	expect(lockdown_no_truncation(abi, NULL) == 1);
	expect(openat(outside, "full", O_RDONLY) >= 0);
	expect(openat(inside, "new", O_WRONLY | O_CREAT | O_EXCL, 0644) >= 0);
	expect(unlinkat(inside, "new", 0) == 0);
	expect(syscall(SYS_openat2, outside, "full", &how, sizeof(how)) < 0 && errno == ENOSYS);
	expect(openat(outside, "full", O_RDONLY | O_TRUNC) < 0);
}

static off_t
size_of_full(void)
{
	struct stat st;

	assert_int_equal(fstatat(outside, "full", &st, 0), 0);
	return st.st_size;
}

static void
fill_full(void)
{
	int fd = openat(outside, "full", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0 && write(fd, "full", 4) == 4);
	close(fd);
}

static void
test_no_truncation(void **state)
{
	int status;

	if (lockdown_landlock_abi() < 2)
		skip_because("the kernel has no Landlock of ABI 2");
	fill_full();
	assert_child(child_truncates);
	assert_int_equal(size_of_full(), 0);
	fill_full();
	status = in_child(child_truncates_no_more);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	assert_int_equal(size_of_full(), 4);
	assert_int_equal(unlinkat(outside, "full", 0), 0);
}

static void
child_view(void)
{
	char keep[300];
	const char *const shown[] = { "/etc", keep, "/etc/hosts", "/no/such/place" };

	snprintf(keep, sizeof(keep), "%s/out/keep", base);
	expect(access(base, F_OK) == 0 && access("/proc/self", F_OK) == 0);
	expect(lockdown_view(shown, N_ELEMENTS(shown), NULL) == 0);
	expect(lockdown_process(NULL) == 0);
	expect(lockdown_capabilities(NULL) == 0);
	expect(open("/etc/passwd", O_RDONLY) >= 0);
	expect(open(keep, O_RDONLY) >= 0);
	expect(access("/proc/self", F_OK) < 0 && access("/bin/sh", F_OK) < 0);
	snprintf(keep, sizeof(keep), "%s/in", base);
	expect(access(keep, F_OK) < 0);
	/* No way back. */
	expect(chdir("/") == 0 && chdir("../..") == 0 && access("etc", F_OK) == 0);
	expect(access("usr", F_OK) < 0 && umount2("/", MNT_DETACH) < 0);
}

static bool
no_user_namespaces(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
			    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
			? 0
			: 1);
	return waitpid(pid, &status, 0) != pid || status != 0;
}

static void
test_view(void **state)
{
	if (no_user_namespaces())
		skip_because("no user namespaces");
	assert_child(child_view);
}

/* Starts a program that lockdown_guard() guards, or not, and returns whether a process of the same
 * user without capabilities can trace it. The caller has all capabilities of its namespace. */
static bool
can_trace(bool guarded)
{
	int ready[2], status;
	char byte;
	pid_t program, tracer;

	expect(pipe2(ready, O_CLOEXEC) == 0);
	program = fork();
	if (program == 0) {
		expect((guarded ? lockdown_guard(NULL) : lockdown_capabilities(NULL)) == 0);
		execl("/bin/sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	/* exec closes the pipe. */
	close(ready[1]);
	expect(read(ready[0], &byte, 1) == 0);
	close(ready[0]);
	tracer = fork();
	if (tracer == 0) {
		expect(lockdown_capabilities(NULL) == 0);
		_exit(ptrace(PTRACE_SEIZE, program, NULL, NULL) == 0 ? 0 : errno);
	}
	expect(waitpid(tracer, &status, 0) == tracer && WIFEXITED(status));
	kill(program, SIGKILL);
	expect(waitpid(program, NULL, 0) == program);
	expect(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EPERM);
	return WEXITSTATUS(status) == 0;
}

static void
child_guard(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];

	expect(unshare(CLONE_NEWUSER) == 0);
	expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	expect(can_trace(false));
	expect(!can_trace(true));
	expect(lockdown_unguard(NULL) == 0);
	expect(syscall(SYS_capget, &header, has) == 0 && has[0].permitted != 0);
	expect(lockdown_guard(NULL) == 0);
	expect(syscall(SYS_capget, &header, has) == 0);
	expect(has[0].permitted == CAP_TO_MASK(CAP_SYS_PTRACE) && has[1].permitted == 0);
	expect(lockdown_unguard(NULL) == 0);
	expect(syscall(SYS_capget, &header, has) == 0);
	expect(has[0].permitted == 0 && has[0].inheritable == 0 && has[1].permitted == 0);
}

static void
test_guard(void **state)
{
	char scope = '0';
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, &scope, 1) == 1 && scope != '0')
		skip_because("Yama lets nobody trace anyway");
	if (no_user_namespaces())
		skip_because("no user namespaces");
	assert_child(child_guard);
}

/* A right that is missing has something that holds it, or a process that is not confined in full. */
static void
test_rights(void **state)
{
	for (int who = 0; who < CONFINED_N; who++) {
		const struct right *lost = rights_lost((enum confined_kind)who, 0);

		assert_null(rights_lost((enum confined_kind)who, 6));
		for (size_t i = 0; i < rights_n; i++) {
			assert_true(i == 0 || rights[i].abi >= rights[i - 1].abi);
			assert_non_null(rights[i].without[who].by);
			if (rights[i].without[who].how == RIGHT_LOST)
				assert_ptr_equal(rights_lost((enum confined_kind)who,
						     rights[i].abi - 1),
				    lost);
		}
	}
	/* Auto needs any Landlock, and no special one. */
	for (int who = 0; who < CONFINED_N; who++)
		assert_null(rights_lost((enum confined_kind)who, 1));
	assert_non_null(rights_lost(CONFINED_COMMANDS, 0));
	assert_non_null(rights_lost(CONFINED_WORKER, 0));
}

/* The other way round: only the listed places can be read, and sockets can only connect. */
static void
child_landlock_reading(void)
{
	unsigned abi = 0;
	int fd, s;

	fd = openat(outside, "keep", O_RDONLY);
	expect(fd >= 0);
	expect(lockdown_process(NULL) == 0);
	expect(lockdown_landlock_reading(LOCKDOWN_TCP_CONNECT, &outside, 1, lockdown_landlock_abi(),
		   &abi, NULL) == 0);
	expect(abi == lockdown_landlock_abi());
	expect(openat(outside, "keep", O_RDONLY) >= 0);
	expect(openat(outside, ".", O_RDONLY | O_DIRECTORY) >= 0);
	expect(refused(openat(outside, "keep", O_WRONLY)));
	expect(refused(openat(outside, "new", O_WRONLY | O_CREAT, 0644)));
	expect(refused(unlinkat(outside, "keep", 0)));
	expect(refused(openat(inside, ".", O_RDONLY | O_DIRECTORY)));
	expect(refused(open("/etc/passwd", O_RDONLY)));
	expect(refused(execl("/bin/true", "true", (char *)NULL)));
	if (abi >= 4) {
		const struct sockaddr_in sa = { .sin_family = AF_INET,
			.sin_port = htons(9),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

		s = socket(AF_INET, SOCK_STREAM, 0);
		expect(s >= 0 && !binds());
		expect(connect(s, (const struct sockaddr *)&sa, sizeof(sa)) == 0 || !refused(-1));
	}
}

static void
test_landlock_reading(void **state)
{
	if (lockdown_landlock_abi() == 0)
		skip_because("the kernel has no Landlock");
	assert_child(child_landlock_reading);
}

static void
child_older_landlock(void)
{
	unsigned abi = 0;

	/* Each ABI on this kernel, requested as on an older one: the kernel must accept the
	 * request. */
	expect(lockdown_process(NULL) == 0);
	for (unsigned want = 1; want <= lockdown_landlock_abi(); want++)
		expect(lockdown_landlock(&inside, 1, want, &abi, NULL) == 0 && abi == want);
	expect(refused(openat(outside, "new", O_WRONLY | O_CREAT, 0644)));
}

static void
test_older_landlock(void **state)
{
	if (lockdown_landlock_abi() == 0)
		skip_because("the kernel has no Landlock");
	assert_child(child_older_landlock);
}

static void
child_seccomp(void)
{
	/* clang-format off */
	const struct sock_filter no_getppid[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_seccomp(no_getppid, 0, NULL) < 0);
	expect(lockdown_seccomp(no_getppid, N_ELEMENTS(no_getppid), NULL) == 0);
	expect(getpid() > 0);
	getppid();
}

static void
test_seccomp(void **state)
{
	int status = in_child(child_seccomp);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}

static void
child_seccomp_listening(void)
{
	/* clang-format off */
	const struct sock_filter ask_for_getppid[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct seccomp_notif_resp resp = { 0 };
	struct seccomp_notif req = { 0 };
	int listener = -1, status = -1;
	pid_t pid;

	expect(lockdown_process(NULL) == 0);
	expect(lockdown_seccomp_listening(ask_for_getppid, 0, &listener, NULL) < 0);
	expect(lockdown_seccomp_listening(ask_for_getppid, N_ELEMENTS(ask_for_getppid), &listener,
		   NULL) == 0);
	expect(listener >= 0 && (fcntl(listener, F_GETFD) & FD_CLOEXEC) != 0);
	pid = fork();
	if (pid == 0)
		_exit(syscall(SYS_getppid) == 4711 ? 0 : 1);
	expect(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &req) == 0);
	expect(req.data.nr == SYS_getppid && req.pid == (uint32_t)pid);
	resp.id = req.id;
	resp.val = 4711;
	expect(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0);
	expect(waitpid(pid, &status, 0) == pid && status == 0);
}

static void
test_seccomp_listening(void **state)
{
	assert_child(child_seccomp_listening);
}

static int
make_world(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[512];

	snprintf(base, sizeof(base), "%s/lockdown.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(base) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/in", base);
	if (mkdir(path, 0755) < 0 || (inside = open(path, O_PATH | O_CLOEXEC)) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/out", base);
	if (mkdir(path, 0755) < 0 || (outside = open(path, O_PATH | O_CLOEXEC)) < 0)
		return -1;
	return symlinkat("x", inside, "link") < 0 ||
		close(openat(outside, "keep", O_WRONLY | O_CREAT, 0644)) < 0
	    ? -1
	    : 0;
}

static int
remove_world(void **state)
{
	unlinkat(inside, "link2", 0);
	unlinkat(inside, "link", 0);
	unlinkat(outside, "keep", 0);
	unlinkat(inside, "f", 0);
	rmdir(strcat(strcpy((char[300]){ 0 }, base), "/in"));
	rmdir(strcat(strcpy((char[300]){ 0 }, base), "/out"));
	return rmdir(base);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_landlock),
		cmocka_unit_test(test_no_landlock),
		cmocka_unit_test(test_no_truncation),
		cmocka_unit_test(test_view),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_older_landlock),
		cmocka_unit_test(test_landlock_allowing),
		cmocka_unit_test(test_landlock_bind),
		cmocka_unit_test(test_landlock_reading),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_keyring),
		cmocka_unit_test(test_seccomp),
		cmocka_unit_test(test_seccomp_listening),
	};

	return cmocka_run_group_tests_name("lockdown", tests, make_world, remove_world);
}
