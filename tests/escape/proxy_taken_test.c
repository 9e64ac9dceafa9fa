/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compromised proxy: what it tries when confined as proxy/main.c confines it, by the code of
 * that file. A child makes each attempt: it is refused, or the filter kills the child.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"

#define main proxy_main
int proxy_main(int argc, char **argv);
#include "proxy/main.c" // NOLINT(bugprone-suspicious-include)
#undef main

static char home[PATH_MAX - 64], secret[PATH_MAX];
static pid_t host;
static int held, listening;
static struct sockaddr_in service;

static int
at_home(const char *name, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/%s", home, name);
}

/* ---- attempts: 0 or more is success ---- */

static int
read_home(void)
{
	return open(secret, O_RDONLY);
}

static int
read_home_by_a_link_of_etc(void)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "/etc/..%s", secret);
	return open(path, O_RDONLY);
}

static int
list_home(void)
{
	return open(home, O_RDONLY | O_DIRECTORY);
}

static int
read_host_memory(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)host);
	return open(path, O_RDONLY);
}

static int
read_own_environment(void)
{
	return open("/proc/self/environ", O_RDONLY);
}

static int
write_home(void)
{
	char path[PATH_MAX];

	at_home("new", path);
	return open(path, O_WRONLY | O_CREAT, 0600);
}

static int
write_what_is_there(void)
{
	return open(secret, O_WRONLY);
}

static int
write_tmp(void)
{
	return open("/tmp/koda-escape-proxy", O_WRONLY | O_CREAT | O_EXCL, 0600);
}

static int
write_etc(void)
{
	return open("/etc/koda-escape-proxy", O_WRONLY | O_CREAT | O_EXCL, 0600);
}

static int
write_shm(void)
{
	return open("/dev/shm/koda-escape-proxy", O_WRONLY | O_CREAT | O_EXCL, 0600);
}

static int
unnamed_file(void)
{
	return open(home, O_TMPFILE | O_WRONLY, 0600);
}

static int
truncate_file(void)
{
	return truncate(secret, 0);
}

static int
remove_file(void)
{
	return unlink(secret);
}

static int
make_directory(void)
{
	char path[PATH_MAX];

	at_home("d", path);
	return mkdir(path, 0700);
}

static int
rename_file(void)
{
	char path[PATH_MAX];

	at_home("moved", path);
	return rename(secret, path);
}

static int
link_file(void)
{
	char path[PATH_MAX];

	at_home("linked", path);
	return symlink(secret, path);
}

static int
change_mode(void)
{
	return chmod(secret, 04777);
}

static int
memory_file(void)
{
	return memfd_create("x", 0);
}

static int
run_program(void)
{
	char name[] = "true";
	char *argv[] = { name, NULL }, *envp[] = { NULL };

	return execve("/bin/true", argv, envp);
}

static int
fork_once(void)
{
	return (int)syscall(SYS_fork);
}

static int
run_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0) == MAP_FAILED
	    ? -1
	    : 0;
}

static int
unix_stream(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int
unix_datagram(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int
unix_pair(void)
{
	int fds[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static int
netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}

static int
packet(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static int
vsock(void)
{
	return socket(AF_VSOCK, SOCK_STREAM, 0);
}

static int
raw_ip(void)
{
	return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static int
multipath(void)
{
	return socket(AF_INET, SOCK_STREAM, 262);
}

static int
ping(void)
{
	return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
}

static int
bind_tcp(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		_exit(99); /* the filter allows this one */
	return bind(fd, (struct sockaddr *)&in, sizeof(in));
}

static int
listen_tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		_exit(99);
	return listen(fd, 1);
}

static int
listen_again(void)
{
	return listen(listening, 4096);
}

static int
signal_host(void)
{
	return kill(host, 0);
}

static int
signal_host_by_descriptor(void)
{
	return (int)syscall(SYS_pidfd_send_signal, held, 0, NULL, 0);
}

static int
descriptor_of_host(void)
{
	return (int)syscall(SYS_pidfd_getfd, held, 0, 0);
}

static int
trace_host(void)
{
	return (int)ptrace(PTRACE_ATTACH, host, NULL, NULL);
}

static int
memory_of_host(void)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { &host, 1 };

	return (int)syscall(SYS_process_vm_readv, host, &here, 1, &there, 1, 0);
}

static int
namespace_of_its_own(void)
{
	return (int)syscall(SYS_unshare, 0x10000000);
}

static int
raise_limits(void)
{
	const struct rlimit more = { RLIM_INFINITY, RLIM_INFINITY };

	return setrlimit(RLIMIT_FSIZE, &more);
}

static int
be_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int
asynchronous_calls(void)
{
	return (int)syscall(SYS_io_uring_setup, 1, NULL);
}

static int
load_program(void)
{
	return (int)syscall(SYS_bpf, 0, NULL, 0);
}

static int
owner_of_signals(void)
{
	return fcntl(held, F_SETOWN, host);
}

/* Sanitizer builds have a filter that allows what the sanitizers' runtimes need. Attempts that
 * these runtimes also make are only checked in plain builds. */
static const struct attempt {
	const char *name;
	int (*fn)(void);
	bool plain_only;
} attempts[] = {
	{ "a file at home", read_home, false },
	{ "a file at home, through /etc", read_home_by_a_link_of_etc, false },
	{ "what is at home", list_home, false },
	{ "the host's memory", read_host_memory, false },
	{ "/proc", read_own_environment, false },
	{ "a new file at home", write_home, false },
	{ "a file that is there", write_what_is_there, false },
	{ "/tmp", write_tmp, false },
	{ "/etc", write_etc, false },
	{ "/dev/shm", write_shm, false },
	{ "a file without a name", unnamed_file, false },
	{ "truncate", truncate_file, false },
	{ "unlink", remove_file, false },
	{ "mkdir", make_directory, false },
	{ "rename", rename_file, false },
	{ "symlink", link_file, false },
	{ "chmod", change_mode, false },
	{ "memfd", memory_file, false },
	{ "exec", run_program, false },
	{ "fork", fork_once, false },
	{ "code", run_memory, true },
	{ "a Unix socket", unix_stream, false },
	{ "a Unix datagram socket", unix_datagram, false },
	{ "a pair of Unix sockets", unix_pair, false },
	{ "netlink", netlink, false },
	{ "packets", packet, false },
	{ "vsock", vsock, false },
	{ "raw IP", raw_ip, false },
	{ "multipath TCP", multipath, false },
	{ "ping", ping, false },
	{ "bind", bind_tcp, false },
	{ "listen", listen_tcp, false },
	{ "listen on what it has", listen_again, false },
	{ "signal the host", signal_host, false },
	{ "signal the host by its descriptor", signal_host_by_descriptor, false },
	{ "take a descriptor of the host", descriptor_of_host, false },
	{ "trace the host", trace_host, true },
	{ "read the host", memory_of_host, true },
	{ "a namespace", namespace_of_its_own, false },
	{ "its limits", raise_limits, true },
	{ "become dumpable", be_dumpable, true },
	{ "io_uring", asynchronous_calls, false },
	{ "bpf", load_program, false },
	{ "send signals by a descriptor", owner_of_signals, true },
};

static int
attempt(int (*fn)(void))
{
	struct koda_error err;
	unsigned abi;
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (confine(&abi, &err) < 0)
			_exit(98);
		_exit(fn() < 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
refused(void **state)
{
	const struct attempt *a = *state;
	const int status = attempt(a->fn);

	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGSYS);
		return;
	}
	assert_int_equal(WEXITSTATUS(status), 1);
}

/* ---- what the proxy needs still works ---- */

static int
read_etc(void)
{
	return open("/etc/hosts", O_RDONLY);
}

static int
connect_tcp(void)
{
	return connect(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    (const struct sockaddr *)&service, sizeof(service));
}

static int
look_for_names(void)
{
	return socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
}

static void
let_through(void **state)
{
	int (*const fns[])(void) = { read_etc, connect_tcp, look_for_names };

	for (size_t i = 0; i < N_ELEMENTS(fns); i++)
		assert_int_equal(attempt(fns[i]), 0);
}

static int
prepare(void **state)
{
	const char *tmp = getenv("TMPDIR");
	socklen_t len = sizeof(service);
	int fd;

	snprintf(home, sizeof(home), "%s/proxy.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	assert_non_null(mkdtemp(home));
	at_home("secret", secret);
	fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	assert_true(fd >= 0);
	close(fd);
	host = getpid();
	held = (int)syscall(SYS_pidfd_open, host, 0);
	assert_true(held >= 0);
	service.sin_family = AF_INET;
	service.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listening = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&service, sizeof(service)), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&service, &len), 0);
	return listen(listening, 8);
}

static int
clean_up(void **state)
{
	assert_int_equal(unlink(secret), 0);
	return rmdir(home);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(attempts) + 1];
	size_t n = 0;

	tests[n++] = (struct CMUnitTest)cmocka_unit_test(let_through);
	for (size_t i = 0; i < N_ELEMENTS(attempts); i++) {
		if (!(attempts[i].plain_only && SANITIZED))
			tests[n++] = (struct CMUnitTest){ attempts[i].name, refused, NULL, NULL,
				(void *)(uintptr_t)&attempts[i] };
	}
	return _cmocka_run_group_tests("proxy", tests, n, prepare, clean_up);
}
