/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real bwrap with a real koda-sandbox-stage2 as its init, driven over the wire: what
 * proto/stage2.proto promises, one case per test. No code of the host is linked in between. If a
 * shell cannot try something, this program runs as the command, with the name of the case as its
 * argument.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/stage2.pb-c.h"
#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "tests/kit/proof.h"
#include "tests/kit/skip.h"

#define STAGE2      KODA_TEST_BUILD_DIR "/stage2/koda-sandbox-stage2"
#define WORKER      KODA_TEST_BUILD_DIR "/worker/koda-fs-worker"
#define PATIENCE_MS 20000
#define HELD_MAX    256

static char self[PATH_MAX];

/* ---- a slot ---- */

struct held {
	Koda__Report *report;
};

struct box {
	pid_t bwrap;
	struct frame_stream fs;
	uint64_t id;
	unsigned landlock_abi;
	int egress; /* the listening socket that came with Booted */
	char base[PATH_MAX], root[PATH_MAX + 16];
	struct held held[HELD_MAX]; /* reports that no await() has asked for yet */
	size_t n_held;
};

static struct box box;

static const char *
in_root(const char *name)
{
	return proof_path("%s/%s", box.root, name);
}

static void
free_report(Koda__Report *r)
{
	protobuf_c_message_free_unpacked(&r->base, NULL);
}

static void
start_bwrap(void)
{
	int pair[2], program = open(STAGE2, O_RDONLY);
	char name[32], uid_dir[64];

	snprintf(uid_dir, sizeof(uid_dir), "/run/user");
	assert_true(program >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	box.bwrap = fork();
	assert_true(box.bwrap >= 0);
	if (box.bwrap == 0) {
		/* clang-format off */
		const char *const argv[] = { "bwrap", "--unshare-user", "--unshare-pid", "--unshare-net",
			"--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns",
			"--as-pid-1", "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN",
			"--cap-add", "CAP_SYS_PTRACE", "--clearenv", "--ro-bind", "/", "/", "--dev", "/dev",
			"--proc", "/proc", "--perms", "1777", "--tmpfs", "/dev/shm", "--tmpfs", "/run",
			"--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/var/tmp",
			"--ro-bind-try", KODA_TEST_BUILD_DIR, KODA_TEST_BUILD_DIR,
			"--bind", box.base, box.base, "--", name, NULL };
		/* clang-format on */
		int high = fcntl(program, F_DUPFD, 20);

		snprintf(name, sizeof(name), "/proc/self/fd/%d", high);
		dup2(pair[1], 3);
		close(4);
		execvp("bwrap", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(program);
	close(pair[1]);
	frame_init(&box.fs, fcntl(pair[0], F_DUPFD_CLOEXEC, 10));
	close(pair[0]);
}

static void
send_order(Koda__Order *order, const int *fds, size_t n)
{
	struct koda_error err = { 0 };
	ssize_t len;

	if (order->id == 0)
		order->id = ++box.id;
	len = message_queue(&box.fs, &order->base, &err);
	assert_true(len > 0);
	if (n == 0 ? frame_flush(&box.fs, true, &err) < 0
		   : frame_flush_with_fds(&box.fs, (size_t)len, fds, n, PATIENCE_MS, &err) < 0)
		fail_msg("%s", err.message);
}

/* Return the next report, or NULL if stage2 is gone or silent for `timeout_ms`. */
static Koda__Report *
next_report(int timeout_ms)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	Koda__Report *r;
	size_t len;

	for (;;) {
		struct pollfd p = { box.fs.fd, POLLIN, 0 };

		if (frame_next(&box.fs, &data, &len, &err) == 1) {
			assert_int_equal(message_check(&koda__report__descriptor, data, len, &err),
			    0);
			r = koda__report__unpack(NULL, len, data);
			assert_non_null(r);
			return r;
		}
		if (poll(&p, 1, timeout_ms) <= 0 || frame_fill(&box.fs, true, &err) < 0)
			return NULL;
	}
}

/* Return the next report with this id; keep the others for later calls. */
static Koda__Report *
await(uint64_t id)
{
	for (size_t i = 0; i < box.n_held; i++) {
		Koda__Report *r = box.held[i].report;

		if (r->id != id)
			continue;
		memmove(box.held + i, box.held + i + 1, (--box.n_held - i) * sizeof(box.held[0]));
		return r;
	}
	for (;;) {
		Koda__Report *r = next_report(PATIENCE_MS);

		if (r == NULL)
			fail_msg("no report for %llu", (unsigned long long)id);
		if (r->id == id)
			return r;
		assert_true(box.n_held < HELD_MAX);
		box.held[box.n_held++].report = r;
	}
}

static void
assert_failed(uint64_t id, Koda__FailedStep step, int errnum)
{
	Koda__Report *r = await(id);

	assert_int_equal(r->report_case, KODA__REPORT__REPORT_FAILED);
	assert_int_equal(r->failed->step, step);
	assert_int_equal(r->failed->errnum, errnum);
	free_report(r);
}

static ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

#define PRIVATE_BYTES (8u << 20)

/* Send Boot, without an egress port if egress_port is 0, and return the reply. */
static Koda__Report *
send_boot(bool local_binding, unsigned egress_port)
{
	char runtime[64];
	ProtobufCBinaryData writable[] = { bytes(box.root), bytes("/tmp"), bytes("/var/tmp"),
		bytes("/dev"), bytes("/dev/shm"), bytes("/nowhere/at/all") };
	ProtobufCBinaryData make[1];
	cleanup_close int terminals = open("/dev/pts", O_PATH | O_CLOEXEC);
	Koda__Boot b = KODA__BOOT__INIT;
	Koda__Order order = KODA__ORDER__INIT;
	Koda__PrivatePlace place[] = { KODA__PRIVATE_PLACE__INIT, KODA__PRIVATE_PLACE__INIT };
	Koda__PrivatePlace *private[] = { &place[0], &place[1] };

	assert_true(terminals >= 0);
	place[0].path = bytes("/tmp");
	place[1].path = bytes("/var/tmp");
	place[0].mode = place[1].mode = 01777;
	b.n_private_ = N_ELEMENTS(private);
	b.private_ = private;
	b.has_private_bytes = true;
	b.private_bytes = PRIVATE_BYTES;
	snprintf(runtime, sizeof(runtime), "/run/user/%u", (unsigned)getuid());
	make[0] = bytes(runtime);
	b.protocol = KODA_PROTOCOL_VERSION;
	b.root = bytes(box.root);
	b.n_writable = N_ELEMENTS(writable);
	b.writable = writable;
	b.n_make_dir = 1;
	b.make_dir = make;
	b.local_binding = local_binding;
	b.has_terminals = b.terminals = true;
	b.has_egress_port = egress_port != 0;
	b.egress_port = egress_port;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &b;
	send_order(&order, &terminals, 1);
	return await(order.id);
}

static void
boot_with(bool local_binding, unsigned egress_port)
{
	Koda__Report *r = send_boot(local_binding, egress_port);

	if (r->report_case == KODA__REPORT__REPORT_FAILED)
		fail_msg("boot: step %d, errno %d, %.*s", (int)r->failed->step, r->failed->errnum,
		    (int)r->failed->what.len, r->failed->what.data);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_BOOTED);
	assert_int_equal(r->booted->protocol, KODA_PROTOCOL_VERSION);
	assert_true(r->booted->seccomp);
	assert_true(r->booted->connect_guard);
	box.landlock_abi = r->booted->landlock_abi;
	free_report(r);
	assert_int_equal(frame_fds_waiting(&box.fs), egress_port != 0);
	box.egress = frame_take_fd(&box.fs);
}

static void
boot(bool local_binding)
{
	boot_with(local_binding, 0);
}

static int
unbooted(void **state)
{
	memset(&box, 0, sizeof(box));
	box.egress = -1;
	proof_mkdtemp(box.base);
	snprintf(box.root, sizeof(box.root), "%s/project", box.base);
	assert_int_equal(mkdir(box.root, 0755), 0);
	start_bwrap();
	return 0;
}

static int
booted(void **state)
{
	unbooted(state);
	boot(true);
	return 0;
}

static int
booted_closed(void **state)
{
	unbooted(state);
	boot(false);
	return 0;
}

static int
booted_egress(void **state)
{
	unbooted(state);
	boot_with(true, EGRESS_PORT);
	return 0;
}

static int
booted_egress_closed(void **state)
{
	unbooted(state);
	boot_with(false, EGRESS_PORT);
	return 0;
}

/* Wait at most PATIENCE_MS for the process to end, and return its status. */
static int
end_of(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status = -1;
	struct pollfd p = { pidfd, POLLIN, 0 };

	assert_true(pidfd >= 0);
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	close(pidfd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int
tear_down(void **state)
{
	for (size_t i = 0; i < box.n_held; i++)
		free_report(box.held[i].report);
	close_at(&box.egress);
	frame_done(&box.fs);
	if (box.bwrap > 0)
		end_of(box.bwrap);
	proof_rmtree(box.base);
	return 0;
}

/* ---- a command ---- */

struct command {
	uint64_t id;
	pid_t pid;
	int out; /* both output streams */
};

struct options {
	const char *cwd, *path;
	bool background, tty;
	int in; /* 0: /dev/null */
	size_t n_limits;
	Koda__ResourceLimit **limits;
};

static const struct options plain;

static struct command
begin_v(const struct options *o, const char *const *argv)
{
	ProtobufCBinaryData args[16], env[3];
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Exec e = KODA__EXEC__INIT;
	struct command c = { .pid = -1 };
	char path[PATH_MAX];
	int out[2], fds[3];

	while (argv[e.n_argv] != NULL) {
		assert_true(e.n_argv < N_ELEMENTS(args));
		args[e.n_argv] = bytes(argv[e.n_argv]);
		e.n_argv++;
	}
	snprintf(path, sizeof(path), "PATH=%s", o->path != NULL ? o->path : "/usr/bin:/bin");
	env[0] = bytes(path);
	env[1] = bytes("LC_ALL=C");
	env[2] = bytes("ASAN_OPTIONS=detect_leaks=0");
	e.argv = args;
	e.env = env;
	e.n_env = N_ELEMENTS(env);
	e.cwd = bytes(o->cwd != NULL ? o->cwd : box.root);
	e.has_background = o->background;
	e.background = o->background;
	e.has_tty = o->tty;
	e.tty = o->tty;
	e.n_limit = o->n_limits;
	e.limit = o->limits;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fds[0] = o->in != 0 ? o->in : open("/dev/null", O_RDONLY | O_CLOEXEC);
	fds[1] = fds[2] = out[1];
	order.order_case = KODA__ORDER__ORDER_EXEC;
	order.exec = &e;
	send_order(&order, fds, 3);
	if (o->in == 0)
		close(fds[0]);
	close(out[1]);
	c.id = order.id;
	c.out = out[0];
	return c;
}

static struct command
begin_sh(const struct options *o, const char *script)
{
	return begin_v(o, (const char *const[]){ "/bin/sh", "-c", script, NULL });
}

static void
started(struct command *c)
{
	Koda__Report *r = await(c->id);

	if (r->report_case == KODA__REPORT__REPORT_FAILED)
		fail_msg("step %d errno %d", (int)r->failed->step, r->failed->errnum);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_STARTED);
	c->pid = r->started->pid;
	assert_true(c->pid > 1);
	free_report(r);
}

struct result {
	unsigned code, signal;
	uint64_t killed, user_us, max_rss;
	bool reaper_lost;
	char text[8192];
};

/* Read all output, until no process can print any more. */
static void
drain(struct command *c, struct result *ret)
{
	size_t n = 0;
	ssize_t r;

	while ((r = read(c->out, ret->text + n, sizeof(ret->text) - 1 - n)) > 0)
		n += (size_t)r;
	ret->text[n] = '\0';
	close(c->out);
}

static struct result
ended(struct command *c)
{
	struct result res = { 0 };
	Koda__Report *r;

	if (c->pid < 0)
		started(c);
	r = await(c->id);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_EXITED);
	res.code = r->exited->code;
	res.signal = r->exited->signal;
	res.killed = r->exited->killed;
	res.user_us = r->exited->user_us;
	res.max_rss = r->exited->max_rss_kib;
	res.reaper_lost = r->exited->reaper_lost;
	free_report(r);
	drain(c, &res);
	return res;
}

static struct result
run_sh(const struct options *o, const char *script)
{
	struct command c = begin_sh(o, script);

	return ended(&c);
}

/* Wait for a line of the command's output, and store it. */
static void
read_line(const struct command *c, char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && (n == 0 || line[n - 1] != '\n')) {
		struct pollfd p = { c->out, POLLIN, 0 };

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		assert_int_equal(read(c->out, line + n, 1), 1);
		n++;
	}
	line[n > 0 ? n - 1 : 0] = '\0';
}

static uint64_t
send_signal(uint64_t command, int signo, bool all)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Signal sig = KODA__SIGNAL__INIT;

	sig.command = command;
	sig.signo = (uint32_t)signo;
	sig.has_all = true;
	sig.all = all;
	order.order_case = KODA__ORDER__ORDER_SIGNAL;
	order.signal = &sig;
	send_order(&order, NULL, 0);
	return order.id;
}

static void
delivered(uint64_t id)
{
	Koda__Report *r = await(id);

	assert_int_equal(r->report_case, KODA__REPORT__REPORT_DELIVERED);
	free_report(r);
}

static uint64_t
send_end(uint64_t command)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__End end = KODA__END__INIT;

	end.command = command;
	order.order_case = KODA__ORDER__ORDER_END;
	order.end = &end;
	send_order(&order, NULL, 0);
	return order.id;
}

/* Count the processes inside, except stage2, the process that makes links, the template, the
 * spawner, and the reaper and the shell of the counting command. */
static unsigned
others_inside(void)
{
	struct result r = run_sh(&plain, "set -- /proc/[0-9]*; echo $#");

	return (unsigned)strtoul(r.text, NULL, 10) - 6;
}

static void
inside_become(unsigned n)
{
	for (int i = 0; i < 200 && others_inside() != n; i++)
		;
	assert_int_equal(others_inside(), n);
}

/* ---- simple commands ---- */

static const struct {
	const char *label, *script;
	unsigned code, signal;
	const char *text;
} scripts[] = {
	{ "true", "true", 0, 0, "" },
	{ "false", "false", 1, 0, "" },
	{ "exit status", "exit 42", 42, 0, "" },
	{ "signal", "kill -SEGV $$", 0, SIGSEGV, "" },
	{ "both streams", "echo a; echo b >&2", 0, 0, "a\nb\n" },
	{ "environment from nothing", "/usr/bin/env | grep -v -e PWD -e ASAN -e _=", 0, 0,
	    "PATH=/usr/bin:/bin\nLC_ALL=C\n" },
	{ "descriptors 0, 1 and 2", "exec 2>/dev/null; ls /proc/self/fd | tr '\\n' ' '", 0, 0,
	    "0 1 2 3 " }, /* 3: the directory that ls reads */
	{ "a pipeline", "seq 1 1000 | sort -n | tail -1", 0, 0, "1000\n" },
	{ "own /tmp", "t=$(mktemp) && echo x > $t && cat $t", 0, 0, "x\n" },
	{ "runtime directory", "stat -c %a /run/user/$(id -u)", 0, 0, "700\n" },
	{ "a session of its own", "set -- $(cat /proc/$$/stat); test $5 = $$ && test $6 = $$", 0, 0,
	    "" },
	{ "signals as by default", "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'", 0,
	    0, "SigBlk:0000000000000000SigIgn:0000000000000000" },
	{ "no privilege",
	    "grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNew|^Seccomp:' /proc/self/status | tr -d '\\t\\n'", 0,
	    0,
	    "CapInh:0000000000000000CapPrm:0000000000000000CapEff:0000000000000000"
	    "CapAmb:0000000000000000NoNewPrivs:1Seccomp:2" },
	{ "no core", "ulimit -Hc", 0, 0, "0\n" },
	{ "first when memory is short",
	    "cat /proc/self/oom_score_adj; { echo 0 > /proc/self/oom_score_adj; } 2>/dev/null || echo no",
	    0, 0, "800\nno\n" },
	{ "writes below the root", "echo x > f && mkdir d && mv f d/g && rm -r d", 0, 0, "" },
	{ "nothing outside it",
	    "{ echo x > /etc/f; } 2>/dev/null || { mkdir /usr/d; } 2>/dev/null || echo no", 0, 0,
	    "no\n" },
	{ "a FIFO and a link", "mkfifo p && ln -s p l && test -p l && rm p l", 0, 0, "" },
	{ "job control of its own",
	    "exec bash -c 'set -m; sleep 100 & kill %1; wait %1 2>/dev/null; test $? = 143'", 0, 0,
	    "" },
	{ "pid 1 cannot be ended",
	    "kill -KILL 1 2>/dev/null; kill -STOP 1 2>/dev/null; kill -TERM 1 2>/dev/null; echo alive",
	    0, 0, "alive\n" },
	{ "pid 1 cannot be read",
	    "cat /proc/1/environ /proc/1/maps 2>/dev/null || echo no; readlink /proc/1/exe || echo no",
	    0, 0, "no\nno\n" },
	{ "the template cannot be read",
	    "grep -l koda-template /proc/*/comm | head -1 | xargs dirname | { read d; cat $d/maps 2>/dev/null || "
	    "echo no; }",
	    0, 0, "no\n" },
	{ "no user namespace", "unshare -U true 2>/dev/null || echo no", 0, 0, "no\n" },
	{ "children of a loop", "for i in $(seq 1 200); do /bin/true; done; echo done", 0, 0,
	    "done\n" },
};

static void
script(void **state)
{
	size_t i = (uintptr_t)*state;
	struct result r = run_sh(&plain, scripts[i].script);

	if (strcmp(r.text, scripts[i].text) != 0)
		fail_msg("printed '%s', not '%s'", r.text, scripts[i].text);
	assert_int_equal(r.code, scripts[i].code);
	assert_int_equal(r.signal, scripts[i].signal);
	assert_false(r.reaper_lost);
}

/* ---- what a command tries: this program, inside the sandbox ---- */

static int
no_ns_clone(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return pid < 0 ? -errno : 0;
}

static int
as_result(long r)
{
	return r < 0 ? -errno : 0;
}

/* "take v4|any|v6|...": listen on the egress port, with every option that helps to share a port. */
static int
take_port(const char *name)
{
	struct sockaddr_in6 sa6 = { .sin6_family = AF_INET6, .sin6_port = htons(EGRESS_PORT) };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(EGRESS_PORT) };
	bool six = strncmp(name, "take v6", 7) == 0;
	int s = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0), on = 1, off = 0;

	if (strcmp(name, "take v4") == 0)
		sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (strcmp(name, "take v6, mapped") == 0)
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &sa6.sin6_addr);
	if (setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ||
	    (six && setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0))
		return -EDOM;
	if (bind(s, six ? (struct sockaddr *)&sa6 : (struct sockaddr *)&sa,
		six ? sizeof(sa6) : sizeof(sa)) < 0)
		return -errno;
	return as_result(listen(s, 1));
}

static int
try_call(const char *name)
{
	struct rlimit rl = { 64, 64 };
	uint64_t zeros[16] = { 0 };
	int pair[2];

	if (strcmp(name, "unshare user") == 0)
		return as_result(unshare(CLONE_NEWUSER));
	if (strcmp(name, "unshare files") == 0)
		return as_result(unshare(CLONE_FILES));
	if (strcmp(name, "clone user") == 0)
		return no_ns_clone(CLONE_NEWUSER);
	if (strcmp(name, "clone mount, high bits") == 0)
		return no_ns_clone(CLONE_NEWNS | 1ul << 40);
	if (strcmp(name, "clone") == 0)
		return no_ns_clone(0);
	if (strcmp(name, "clone3") == 0)
		return as_result(syscall(SYS_clone3, zeros, 64));
	if (strcmp(name, "mount") == 0)
		return as_result(syscall(SYS_mount, "x", "/tmp", "tmpfs", 0, NULL));
	if (strcmp(name, "open_tree") == 0)
		return as_result(syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	if (strcmp(name, "fsopen") == 0)
		return as_result(syscall(SYS_fsopen, "tmpfs", 0));
	if (strcmp(name, "keyctl") == 0)
		return as_result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0));
	if (strcmp(name, "add_key") == 0)
		return as_result(syscall(SYS_add_key, "user", "k", "v", 1, -3));
	if (strcmp(name, "bpf") == 0)
		return as_result(syscall(SYS_bpf, 0, zeros, sizeof(zeros)));
	if (strcmp(name, "perf") == 0)
		return as_result(syscall(SYS_perf_event_open, zeros, 0, -1, -1, 0));
	if (strcmp(name, "io_uring") == 0)
		return as_result(syscall(SYS_io_uring_setup, 8, zeros));
	if (strcmp(name, "userfaultfd") == 0)
		return as_result(syscall(SYS_userfaultfd, 0));
	if (strcmp(name, "unknown") == 0)
		return as_result(syscall(463));
	if (strcmp(name, "unknown, far") == 0)
		return as_result(syscall(5000));
	if (strcmp(name, "unix dgram") == 0)
		return as_result(socket(AF_UNIX, SOCK_DGRAM, 0));
	if (strcmp(name, "unix raw") == 0)
		return as_result(socket(AF_UNIX, SOCK_RAW, 0));
	if (strcmp(name, "unix stream") == 0)
		return as_result(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (strcmp(name, "unix seqpacket") == 0)
		return as_result(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
	if (strcmp(name, "pair dgram") == 0)
		return as_result(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	if (strcmp(name, "pair dgram, high bits") == 0)
		return as_result(
		    syscall(SYS_socketpair, AF_UNIX | 1ul << 33, SOCK_DGRAM | 1ul << 32, 0, pair));
	if (strcmp(name, "pair stream") == 0)
		return as_result(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	if (strcmp(name, "tcp") == 0)
		return as_result(socket(AF_INET, SOCK_STREAM, 0));
	if (strcmp(name, "tcp6") == 0)
		return as_result(socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP));
	if (strcmp(name, "udp") == 0)
		return as_result(socket(AF_INET, SOCK_DGRAM, 0));
	if (strcmp(name, "mptcp") == 0)
		return as_result(socket(AF_INET, SOCK_STREAM, 262));
	if (strcmp(name, "mptcp, high bits") == 0)
		return as_result(syscall(SYS_socket, AF_INET, SOCK_STREAM, 262 | 1ul << 32));
	if (strcmp(name, "raw") == 0)
		return as_result(socket(AF_INET, SOCK_RAW, 1));
	if (strcmp(name, "icmp") == 0)
		return as_result(socket(AF_INET, SOCK_DGRAM, 1));
	if (strcmp(name, "packet") == 0)
		return as_result(socket(AF_PACKET, SOCK_RAW, 0));
	if (strcmp(name, "vsock") == 0)
		return as_result(socket(AF_VSOCK, SOCK_STREAM, 0));
	if (strcmp(name, "alg") == 0)
		return as_result(socket(AF_ALG, SOCK_SEQPACKET, 0));
	if (strcmp(name, "netlink route") == 0)
		return as_result(socket(AF_NETLINK, SOCK_RAW, 0));
	if (strcmp(name, "netlink diag") == 0)
		return as_result(socket(AF_NETLINK, SOCK_RAW, 4));
	if (strcmp(name, "limit of pid 1") == 0)
		return as_result(prlimit(1, RLIMIT_NOFILE, &rl, NULL));
	if (strcmp(name, "limits of pid 1, asked") == 0)
		return as_result(prlimit(1, RLIMIT_NOFILE, NULL, &rl)) == -EPERM ? -EPERM : 0;
	if (strcmp(name, "own limit") == 0)
		return as_result(prlimit(0, RLIMIT_NOFILE, &rl, NULL));
	if (strcmp(name, "priority of pid 1") == 0)
		return as_result(setpriority(PRIO_PROCESS, 1, 19));
	if (strcmp(name, "priority of all") == 0)
		return as_result(setpriority(PRIO_USER, 0, 19));
	if (strcmp(name, "own priority") == 0)
		return as_result(setpriority(PRIO_PROCESS, 0, 19));
	if (strcmp(name, "affinity of pid 1") == 0)
		return as_result(syscall(SYS_sched_setaffinity, 1, sizeof(zeros), zeros));
	if (strcmp(name, "io priority of all") == 0)
		return as_result(syscall(SYS_ioprio_set, 3, 0, 3 << 13));
	if (strcmp(name, "personality") == 0)
		return as_result(syscall(SYS_personality, 0x0400000));
	if (strcmp(name, "chroot") == 0)
		return as_result(chroot("/tmp"));
	if (strcmp(name, "setns") == 0)
		return as_result(setns(open("/proc/self/ns/net", O_RDONLY), 0));
	if (strcmp(name, "listen") == 0) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		return as_result(listen(s, 1));
	}
	if (strcmp(name, "bind") == 0) {
		const struct sockaddr_in sa = { .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int s = socket(AF_INET, SOCK_STREAM, 0);

		return as_result(bind(s, (const struct sockaddr *)&sa, sizeof(sa)));
	}
	if (strncmp(name, "take ", 5) == 0)
		return take_port(name);
	return -EDOM; /* no such case */
}

static const struct {
	const char *name;
	int want;
} calls[] = {
	{ "unshare user", EPERM },
	{ "unshare files", 0 },
	{ "clone user", EPERM },
	{ "clone mount, high bits", EPERM },
	{ "clone", 0 },
	{ "clone3", ENOSYS },
	{ "mount", EPERM },
	{ "open_tree", EPERM },
	{ "fsopen", EPERM },
	{ "keyctl", EPERM },
	{ "add_key", EPERM },
	{ "bpf", EPERM },
	{ "perf", EPERM },
	{ "io_uring", ENOSYS },
	{ "userfaultfd", EPERM },
	{ "unknown", ENOSYS },
	{ "unknown, far", ENOSYS },
	{ "unix dgram", EAFNOSUPPORT },
	{ "unix raw", EAFNOSUPPORT },
	{ "unix stream", 0 },
	{ "unix seqpacket", 0 },
	{ "pair dgram", EAFNOSUPPORT },
	{ "pair dgram, high bits", EAFNOSUPPORT },
	{ "pair stream", 0 },
	{ "tcp", 0 },
	{ "tcp6", 0 },
	{ "udp", 0 },
	{ "mptcp", EPROTONOSUPPORT },
	{ "mptcp, high bits", EPROTONOSUPPORT },
	{ "raw", EAFNOSUPPORT },
	{ "icmp", EPROTONOSUPPORT },
	{ "packet", EAFNOSUPPORT },
	{ "vsock", EAFNOSUPPORT },
	{ "alg", EAFNOSUPPORT },
	{ "netlink route", 0 },
	{ "netlink diag", EAFNOSUPPORT },
	{ "limit of pid 1", EPERM },
	{ "own limit", 0 },
	{ "priority of pid 1", EPERM },
	{ "priority of all", EPERM },
	{ "own priority", 0 },
	{ "affinity of pid 1", EPERM },
	{ "io priority of all", EPERM },
	{ "personality", EPERM },
	{ "chroot", EPERM },
	{ "setns", EPERM },
	{ "listen", 0 },
	{ "bind", 0 },
};

static void
assert_call(const char *name, int want)
{
	struct command c = begin_v(&plain, (const char *const[]){ self, "--try", name, NULL });
	struct result r = ended(&c);

	assert_int_equal(r.signal, 0);
	if ((int)r.code != want)
		fail_msg("%s: %s, not %s", name, strerror((int)r.code), strerror(want));
}

static void
call(void **state)
{
	size_t i = (uintptr_t)*state;

	assert_call(calls[i].name, calls[i].want);
}

static void
closed_has_no_listener(void **state)
{
	assert_call("listen", EACCES);
	assert_call("mptcp", EPROTONOSUPPORT);
	assert_call("unix stream", 0);
	if (box.landlock_abi >= 4)
		assert_call("bind", EACCES);
}

/* ---- the egress port ---- */

/* Accept a connection to box.egress; the returned descriptor is blocking. */
static int
accept_egress(void)
{
	struct pollfd p = { box.egress, POLLIN, 0 };
	int fd;

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	fd = accept4(box.egress, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* The socket is in the slot's namespace: what a command connects to there arrives here, without
 * waking any process in between. */
static void
egress_from_inside(void **state)
{
	struct command c = begin_sh(&plain,
	    "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889; echo asked >&3; read a <&3; echo $a'");
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	struct result r;
	char buf[6] = "";
	int fd, nodelay = 0;

	_Static_assert(EGRESS_PORT == 28889, "the script above");
	assert_int_equal(getsockname(box.egress, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(at.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(at.sin_port, htons(EGRESS_PORT));
	fd = accept_egress();
	len = sizeof(nodelay);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len), 0);
	assert_true(nodelay);
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), 6);
	assert_memory_equal(buf, "asked\n", 6);
	assert_int_equal(write(fd, "answered\n", 9), 9);
	close(fd);
	r = ended(&c);
	assert_string_equal(r.text, "answered\n");
	assert_int_equal(r.code, 0);
	/* A host that accepts connections one by one must not block on a client that went away. */
	assert_true((fcntl(box.egress, F_GETFL) & O_NONBLOCK) != 0);
	assert_int_equal(accept4(box.egress, NULL, NULL, SOCK_CLOEXEC), -1);
	assert_int_equal(errno, EAGAIN);
}

/* Connections that are not accepted wait, with the data that was sent; 300 are more than
 * SOMAXCONN was for a long time. */
static void
egress_waits(void **state)
{
	struct command c = begin_sh(&plain,
	    "exec bash -c 'for i in {1..300}; do exec {fd}<>/dev/tcp/127.0.0.1/28889; echo $i >&$fd; done; echo all'");
	struct result r = ended(&c);

	assert_string_equal(r.text, "all\n");
	for (int i = 1; i <= 300; i++) {
		char buf[8] = "", want[8];
		int fd = accept_egress();

		snprintf(want, sizeof(want), "%d\n", i);
		assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), strlen(want));
		assert_string_equal(buf, want);
		close(fd);
	}
}

static void
egress_is_not_taken(void **state)
{
	assert_call("take v4", EADDRINUSE);
	assert_call("take any", EADDRINUSE);
	assert_call("take v6, both", EADDRINUSE);
	assert_call("take v6, mapped", EADDRINUSE);
}

/* stage2 keeps no copy: once the host closes its own, the socket is gone. Only then may a
 * command have the port. */
static void
egress_has_one_owner(void **state)
{
	close_at(&box.egress);
	assert_string_equal(
	    run_sh(&plain,
		"exec 2>/dev/null; bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889' || echo refused")
		.text,
	    "refused\n");
	assert_call("take v4", 0);
}

/* Where commands may not listen, the egress port works all the same. */
static void
egress_of_a_closed_slot(void **state)
{
	closed_has_no_listener(state);
	assert_call("take v4", box.landlock_abi >= 4 ? EACCES : EADDRINUSE);
	egress_from_inside(state);
}

static void
egress_port_not_to_be_had(void **state)
{
	Koda__Report *r = send_boot(true, 1);

	assert_int_equal(r->report_case, KODA__REPORT__REPORT_FAILED);
	assert_int_equal(r->failed->step, KODA__FAILED_STEP__FAILED_STEP_CONFINE);
	assert_int_equal(r->failed->errnum, EACCES);
	free_report(r);
	assert_int_equal(WEXITSTATUS(end_of(box.bwrap)), 1);
	box.bwrap = 0;
}

static void
egress_port_that_is_none(void **state)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Boot b = KODA__BOOT__INIT;

	b.protocol = KODA_PROTOCOL_VERSION;
	b.root = bytes(box.root);
	b.local_binding = true;
	b.has_egress_port = true;
	b.egress_port = 65536;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &b;
	send_order(&order, NULL, 0);
	assert_int_equal(WEXITSTATUS(end_of(box.bwrap)), 1);
	box.bwrap = 0;
}

static void
private_places_without_a_size(void **state)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Boot b = KODA__BOOT__INIT;
	Koda__PrivatePlace place = KODA__PRIVATE_PLACE__INIT, *places[] = { &place };

	b.protocol = KODA_PROTOCOL_VERSION;
	b.root = bytes(box.root);
	b.local_binding = true;
	place.path = bytes("/tmp");
	place.mode = 01777;
	b.n_private_ = 1;
	b.private_ = places;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &b;
	send_order(&order, NULL, 0);
	assert_int_equal(WEXITSTATUS(end_of(box.bwrap)), 1);
	box.bwrap = 0;
}

static void
x32_is_killed(void **state)
{
#if defined(__x86_64__)
	struct command c = begin_v(&plain, (const char *const[]){ self, "--x32", NULL });
	struct result r = ended(&c);

	assert_int_equal(r.signal, SIGSYS);
#else
	skip_because("x32 exists on x86_64 only");
#endif
}

/* ---- not started ---- */

static void
assert_not_started(const struct options *o, const char *argv0, Koda__FailedStep step, int errnum)
{
	struct command c = begin_v(o, (const char *const[]){ argv0, NULL });
	struct result r = { 0 };

	assert_failed(c.id, step, errnum);
	drain(&c, &r);
	assert_string_equal(r.text, "");
}

static void
not_found(void **state)
{
	struct options o = { .path = proof_path("%s/a:%s/b:%s", box.root, box.root, box.root) };

	assert_not_started(&plain, "/no/such/program", KODA__FAILED_STEP__FAILED_STEP_EXEC, ENOENT);
	assert_not_started(&plain, "no-such-program", KODA__FAILED_STEP__FAILED_STEP_EXEC, ENOENT);
	assert_not_started(&plain, "", KODA__FAILED_STEP__FAILED_STEP_EXEC, ENOENT);
	proof_put(in_root("plain"), "echo no\n");
	assert_not_started(&plain, in_root("plain"), KODA__FAILED_STEP__FAILED_STEP_EXEC, EACCES);
	assert_not_started(&o, "plain", KODA__FAILED_STEP__FAILED_STEP_EXEC, EACCES);
	assert_not_started(&plain, box.root, KODA__FAILED_STEP__FAILED_STEP_EXEC, EACCES);
	/* The slot goes on. */
	assert_int_equal(run_sh(&plain, "true").code, 0);
}

static void
looked_up(void **state)
{
	struct options o = { .path = proof_path("%s/a::%s/b", box.root, box.root) };
	struct command c;
	struct result r;

	proof_mkdir(in_root("a"));
	proof_mkdir(in_root("b"));
	/* A file that is not executable does not hide the next one; the shell runs a script
	 * without a #! line. */
	proof_put(in_root("a/prog"), "echo a\n");
	proof_put(in_root("b/prog"), "echo \"$0 $1\"\n");
	assert_int_equal(chmod(in_root("b/prog"), 0755), 0);
	c = begin_v(&o, (const char *const[]){ "prog", "one", NULL });
	r = ended(&c);
	assert_string_equal(r.text, proof_path("%s one\n", in_root("b/prog")));
	/* An empty component is the working directory. */
	proof_put(in_root("prog"), "#!/bin/sh\necho here\n");
	assert_int_equal(chmod(in_root("prog"), 0755), 0);
	c = begin_v(&o, (const char *const[]){ "prog", NULL });
	r = ended(&c);
	assert_string_equal(r.text, "here\n");
}

static void
working_directory(void **state)
{
	struct options o = { .cwd = "/usr/lib" };
	struct result r = run_sh(&o, "pwd -P");

	assert_string_equal(r.text, "/usr/lib\n");
	o.cwd = in_root("none");
	assert_not_started(&o, "/bin/true", KODA__FAILED_STEP__FAILED_STEP_CWD, ENOENT);
	proof_put(in_root("file"), "");
	o.cwd = in_root("file");
	assert_not_started(&o, "/bin/true", KODA__FAILED_STEP__FAILED_STEP_CWD, ENOTDIR);
}

static void
no_terminal(void **state)
{
	struct options o = { .tty = true };

	assert_not_started(&o, "/bin/true", KODA__FAILED_STEP__FAILED_STEP_TTY, ENOTTY);
}

static void
terminal(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct options o = { .tty = true };
	struct command c;
	struct result r;

	assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	o.in = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(o.in >= 0);
	c = begin_sh(&o,
	    "set -- $(cat /proc/$$/stat); test $6 = $$ && test $7 != 0 && test $8 = $$ && : > /dev/tty && : > /dev/stdin && "
	    "echo yes");
	r = ended(&c);
	assert_string_equal(r.text, "yes\n");
	/* Ctrl-C, and a signal to the foreground, with a job that is not the shell. */
	c = begin_sh(&o,
	    "set -m; trap 'echo shell' INT; (trap 'echo job; exit 3' INT; sleep 100 & echo up; wait)"
	    "; echo $?");
	{
		char line[64];

		started(&c);
		read_line(&c, line, sizeof(line));
		assert_string_equal(line, "up");
		delivered(send_signal(c.id, SIGINT, false));
		r = ended(&c);
		assert_non_null(strstr(r.text, "job\n"));
		assert_null(strstr(r.text, "shell\n"));
	}
	close(o.in);
	close(master);
}

static void
limits(void **state)
{
	Koda__ResourceLimit l[3] = { KODA__RESOURCE_LIMIT__INIT, KODA__RESOURCE_LIMIT__INIT,
		KODA__RESOURCE_LIMIT__INIT };
	Koda__ResourceLimit *all[3] = { &l[0], &l[1], &l[2] };
	struct options o = { .n_limits = 3, .limits = all };
	struct result r;

	l[0].resource = RLIMIT_NOFILE;
	l[0].soft = 50;
	l[0].hard = 60;
	l[1].resource = RLIMIT_FSIZE;
	l[1].soft = l[1].hard = 4096;
	l[2].resource = RLIMIT_CORE; /* pid 1 has 1, and a command cannot raise it */
	l[2].soft = l[2].hard = UINT64_MAX;
	r = run_sh(&o,
	    "ulimit -Sn; ulimit -Hn; sed -n 's/^Max core[^0-9]*//p' /proc/self/limits | tr -s ' '; "
	    "head -c 8192 /dev/zero > big; echo $?");
	assert_non_null(strstr(r.text, "50\n60\n1 1 bytes"));
	assert_int_equal(proof_exists(in_root("big")), 1);
	assert_null(strstr(r.text, "\n0\n"));
	/* The limits were for that command only. */
	r = run_sh(&plain, "ulimit -Sn; head -c 8192 /dev/zero > big; echo $?");
	assert_null(strstr(r.text, "50\n"));
	assert_non_null(strstr(r.text, "\n0\n"));
	/* A limit on CPU time ends the command. */
	l[0].resource = RLIMIT_CPU;
	l[0].soft = 1;
	l[0].hard = 2;
	o.n_limits = 1;
	r = run_sh(&o, "while :; do :; done");
	assert_int_equal(r.signal, SIGXCPU);
	assert_true(r.user_us > 500000);
}

/* All private places share one size; the other memory file systems are read-only. */
static void
private_places(void **state)
{
	struct result r = run_sh(&plain,
	    "head -c 5000000 /dev/zero > /tmp/a && echo first; "
	    "head -c 5000000 /dev/zero > /var/tmp/b || echo second; "
	    "stat -f -c %b:%S /tmp; echo $(($(stat -f -c %c /var/tmp) - 64)); "
	    "rm /tmp/a /var/tmp/b; touch /dev/new || echo dev; touch /run/new || echo run");

	assert_non_null(strstr(r.text, "first\n"));
	assert_non_null(strstr(r.text, "second\n2048:4096\n2048\n"));
	assert_non_null(strstr(r.text, "dev\n"));
	assert_non_null(strstr(r.text, "run\n"));
}

/* ---- what stays and what does not ---- */

static void
leftovers_are_ended(void **state)
{
	/* A background process, a daemon in a session of its own, one below another, one that
	 * ignores signals. */
	struct result r = run_sh(&plain,
	    "sleep 1000 & "
	    "(setsid sh -c 'setsid sleep 1000 & setsid sleep 1000 &' &) ; "
	    "sh -c \"trap '' TERM HUP INT; sh -c 'sleep 1000 & sleep 1000' & sleep 1000\" & "
	    "sleep 0.1; exit 7");

	assert_int_equal(r.code, 7);
	assert_false(r.reaper_lost);
	assert_true(r.killed >= 6);
	assert_int_equal(others_inside(), 0);
}

static void
background_stays(void **state)
{
	struct options o = { .background = true };
	struct command c = begin_sh(&o, "(setsid sleep 1000 &) ; echo up");
	struct result r;
	char line[64];

	started(&c);
	read_line(&c, line, sizeof(line));
	assert_string_equal(line, "up");
	/* Other commands come and go, and it stays. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(run_sh(&plain, "true").code, 0);
	inside_become(2); /* its reaper, the sleep */
	/* The command lasts until its last process has ended. */
	delivered(send_signal(c.id, SIGTERM, true));
	r = ended(&c);
	assert_int_equal(r.code, 0);
	assert_int_equal(r.killed, 0);
	assert_int_equal(others_inside(), 0);
}

static void
reaper_killed(void **state)
{
	struct command other = begin_sh(&plain, "echo up; exec sleep 1000"), c;
	struct result r;
	char line[64];

	started(&other);
	read_line(&other, line, sizeof(line));
	c = begin_sh(&plain, "sleep 1000 & setsid sleep 1000 & kill -9 $PPID; sleep 1000");
	r = ended(&c);
	assert_true(r.reaper_lost);
	assert_int_equal(r.signal, SIGKILL);
	assert_true(r.killed >= 1);
	assert_int_equal(others_inside(), 2);
	/* The other command is not affected. */
	send_end(other.id);
	r = ended(&other);
	assert_false(r.reaper_lost);
	assert_int_equal(others_inside(), 0);
}

static void
reaper_stopped(void **state)
{
	struct result r = run_sh(&plain, "kill -STOP $PPID; exit 5");

	assert_int_equal(r.code, 5);
}

static void
template_stopped(void **state)
{
	struct result r = run_sh(&plain,
	    "kill -STOP $(grep -l koda-template /proc/[0-9]*/comm | sed 's/[^0-9]//g' | head -1); exit 5");

	assert_int_equal(r.code, 5);
	assert_int_equal(run_sh(&plain, "exit 6").code, 6);
}

static void
fork_storm(void **state)
{
	Koda__ResourceLimit l = KODA__RESOURCE_LIMIT__INIT;
	Koda__ResourceLimit *all[1] = { &l };
	struct options o = { .background = true, .n_limits = 1, .limits = all };
	struct command c;
	struct result r;
	char line[64];

	if (getuid() == 0)
		skip_because("RLIMIT_NPROC does not limit root");
	l.resource = RLIMIT_NPROC;
	l.soft = l.hard = 300;
	c = begin_v(&o, (const char *const[]){ self, "--storm", NULL });
	started(&c);
	read_line(&c, line, sizeof(line));
	assert_string_equal(line, "up");
	send_end(c.id);
	r = ended(&c);
	assert_int_equal(r.signal, SIGKILL);
	assert_false(r.reaper_lost);
	assert_true(r.killed >= 3);
	assert_int_equal(others_inside(), 0);
}

static void
end_of_a_tree(void **state)
{
	struct options o = { .background = true };
	struct command c = begin_sh(&o,
	    "sh -c 'sh -c \"setsid sh -c \\\"sleep 1000 & echo up; sleep 1000\\\" & sleep 1000\" & sleep 1000'");
	struct result r;
	char line[64];

	started(&c);
	read_line(&c, line, sizeof(line));
	send_end(c.id);
	r = ended(&c);
	assert_int_equal(r.signal, SIGKILL);
	assert_false(r.reaper_lost);
	assert_true(r.killed >= 4);
	assert_int_equal(others_inside(), 0);
	/* Again: the command is gone. */
	assert_failed(send_end(c.id), KODA__FAILED_STEP__FAILED_STEP_ORDER, ESRCH);
	assert_failed(send_signal(c.id, SIGTERM, false), KODA__FAILED_STEP__FAILED_STEP_ORDER,
	    ESRCH);
}

/* The command may end by itself, be ended, or be gone already: each time there is one reply for
 * the command, and at most one for End. */
static void
end_meanwhile(void **state)
{
	for (int i = 0; i < 100; i++) {
		struct command c = begin_sh(&plain, i % 2 == 0 ? "exit 3" : "sleep 0.001; exit 3");
		uint64_t end;
		Koda__Report *r;
		struct result res;

		if (i % 3 == 0)
			started(&c);
		end = send_end(c.id);
		res = ended(&c);
		assert_false(res.reaper_lost);
		assert_true(res.signal == SIGKILL || res.code == 3);
		/* Any report about End came before this one. */
		assert_failed(send_signal(c.id, SIGTERM, true),
		    KODA__FAILED_STEP__FAILED_STEP_ORDER, ESRCH);
		for (size_t k = 0; k < box.n_held; k++) {
			r = box.held[k].report;
			assert_int_equal(r->id, end);
			assert_int_equal(r->report_case, KODA__REPORT__REPORT_FAILED);
			free_report(r);
		}
		box.n_held = 0;
	}
	assert_int_equal(others_inside(), 0);
}

static void
signal_before_it_began(void **state)
{
	for (int i = 0; i < 50; i++) {
		struct command c = begin_sh(&plain, "sleep 1000");
		struct result r;

		delivered(send_signal(c.id, SIGTERM, false));
		r = ended(&c);
		assert_int_equal(r.signal, SIGTERM);
	}
}

static void
commands_signal_each_other(void **state)
{
	struct command c = begin_sh(&plain, "echo $$; exec sleep 1000");
	char line[64];
	struct result r;

	started(&c);
	read_line(&c, line, sizeof(line));
	assert_int_equal(strtol(line, NULL, 10), c.pid);
	r = run_sh(&plain, proof_path("kill -USR1 %d", (int)c.pid));
	assert_int_equal(r.code, 0);
	r = ended(&c);
	assert_int_equal(r.signal, SIGUSR1);
}

static void
many_at_once(void **state)
{
	struct command c[40];

	for (size_t i = 0; i < N_ELEMENTS(c); i++)
		c[i] = begin_sh(&plain, proof_path("sleep 0.1 & wait; exit %zu", i));
	for (size_t i = 0; i < N_ELEMENTS(c); i++) {
		struct result r = ended(&c[i]);

		assert_int_equal(r.code, i);
		assert_int_equal(r.killed, 0);
	}
}

/* Start a command with an argument of `len` bytes. */
static struct command
begin_long(size_t len)
{
	cleanup_free char *arg = malloc(len + 1);
	struct command c;

	assert_non_null(arg);
	memset(arg, 'x', len);
	arg[len] = '\0';
	c = begin_v(&plain, (const char *const[]){ "/bin/true", arg, NULL });
	close(c.out);
	return c;
}

/* Start a command with `n` arguments. */
static struct command
begin_many(size_t n)
{
	cleanup_free ProtobufCBinaryData *args = calloc(n, sizeof(*args));
	cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Exec e = KODA__EXEC__INIT;

	assert_non_null(args);
	for (size_t i = 0; i < n; i++)
		args[i] = bytes("x");
	e.argv = args;
	e.n_argv = n;
	e.cwd = bytes("/");
	order.order_case = KODA__ORDER__ORDER_EXEC;
	order.exec = &e;
	send_order(&order, (const int[]){ null, null, null }, 3);
	return (struct command){ .id = order.id };
}

static void
large_order(void **state)
{
	static char big[100000];
	const char *argv[8] = { "/bin/sh", "-c", "shift 3; echo ${#1} $#", "sh", "", "", NULL,
		NULL };
	struct command c;
	struct result r;

	memset(big, 'x', sizeof(big) - 1);
	argv[4] = argv[5] = argv[6] = big;
	/* sh takes "sh" as $0, and the three long strings as its arguments. */
	argv[2] = "echo ${#1} $#";
	c = begin_v(&plain, argv);
	r = ended(&c);
	assert_string_equal(r.text, "99999 3\n");
	/* The first is too long for execve(), the second has more arguments than stage2 has room
	 * for. */
	assert_failed(begin_long(200000).id, KODA__FAILED_STEP__FAILED_STEP_EXEC, E2BIG);
	assert_failed(begin_many(300000).id, KODA__FAILED_STEP__FAILED_STEP_EXEC, E2BIG);
	r = run_sh(&plain, "echo small");
	assert_string_equal(r.text, "small\n");
}

/* Parts of one order arrive together with the descriptors of the next. */
static void
many_large_at_once(void **state)
{
	static char big[3][60000];
	struct command c[60];

	for (size_t i = 0; i < N_ELEMENTS(big); i++)
		memset(big[i], 'x', i == 0 ? 3000 : i == 1 ? 9000 : sizeof(big[i]) - 1);
	for (size_t i = 0; i < N_ELEMENTS(c); i++)
		c[i] = begin_v(&plain,
		    (const char *const[]){ "/bin/sh", "-c", "exit $(( ${#1} / 1000 ))", "sh",
			big[i % 3], NULL });
	for (size_t i = 0; i < N_ELEMENTS(c); i++) {
		struct result r = ended(&c[i]);

		assert_int_equal(r.code, i % 3 == 0 ? 3 : i % 3 == 1 ? 9 : 59);
	}
}

/* ---- the view ---- */

struct mount {
	Koda__MountKind kind;
	const char *path;
	bool check; /* give dev and ino, as they are now */
	ino_t wrong;
};

#define PIN           KODA__MOUNT_KIND__MOUNT_KIND_PIN
#define READ_ONLY     KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY
#define HIDE          KODA__MOUNT_KIND__MOUNT_KIND_HIDE
#define HOLE          KODA__MOUNT_KIND__MOUNT_KIND_HOLE
#define WRITABLE_HOLE KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE

/* Send the plan; return the paths that were missing, one per line, in a static buffer. */
static const char *
mounts(const struct mount *plan, size_t n)
{
	static char text[4096];
	Koda__Mount m[32], *list[32];
	Koda__Mounts all = KODA__MOUNTS__INIT;
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Report *r;

	for (size_t i = 0; i < n; i++) {
		struct stat st;

		koda__mount__init(&m[i]);
		list[i] = &m[i];
		m[i].kind = plan[i].kind;
		m[i].path = bytes(plan[i].path);
		if (plan[i].check) {
			assert_int_equal(lstat(plan[i].path, &st), 0);
			m[i].has_dev = m[i].has_ino = true;
			m[i].dev = st.st_dev;
			m[i].ino = st.st_ino + plan[i].wrong;
		}
	}
	all.n_mount = n;
	all.mount = list;
	order.order_case = KODA__ORDER__ORDER_MOUNTS;
	order.mounts = &all;
	send_order(&order, NULL, 0);
	r = await(order.id);
	if (r->report_case == KODA__REPORT__REPORT_FAILED)
		fail_msg("mounts: errno %d, %.*s", r->failed->errnum, (int)r->failed->what.len,
		    r->failed->what.data);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_MOUNTED);
	text[0] = '\0';
	for (size_t i = 0; i < r->mounted->n_missing; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s\n",
		    (int)r->mounted->missing[i].len, r->mounted->missing[i].data);
	free_report(r);
	return text;
}

static void
make_project(void)
{
	static const char *const dirs[] = { ".git", ".git/hooks", "sub", "sub/deep", "secret",
		"secret/in", "secret/in/deeper", "secret/other", "a \n\\b" };
	static const char *const files[] = { ".git/config", ".git/hooks/pre-commit", "sub/deep/f",
		"secret/key", "secret/in/open", "secret/in/deeper/closed", "secret/other/x", "env",
		"a \n\\b/f" };

	for (size_t i = 0; i < N_ELEMENTS(dirs); i++)
		proof_mkdir(in_root(dirs[i]));
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		proof_put(in_root(files[i]), "content\n");
}

static void
pins_and_read_only(void **state)
{
	struct result r;

	make_project();
	{
		const struct mount plan[] = { { PIN, in_root(".git"), true, 0 },
			{ READ_ONLY, in_root(".git/hooks"), true, 0 },
			{ READ_ONLY, in_root(".git/config"), false, 0 },
			{ READ_ONLY, in_root("a \n\\b"), true, 0 } };

		assert_string_equal(mounts(plan, N_ELEMENTS(plan)), "");
	}
	r = run_sh(&plain,
	    "exec 2>/dev/null\n"
	    "mv .git x || echo 1\n mv .git/hooks .git/h || echo 2\n rm -rf .git/hooks || echo 3\n"
	    "{ echo x > .git/hooks/new; } || echo 4\n { echo x >> .git/config; } || echo 5\n"
	    "mv .git/config .git/c || echo 6\n echo y > y; mv y .git/config || echo 7\n"
	    "chmod 777 .git/config || echo 8\n ln .git/config .git/l || echo 9\n"
	    "cat .git/config; echo z > .git/index && cat .git/index\n"
	    "{ echo x > a*/f; } || echo 10\n");
	assert_string_equal(r.text, "1\n2\n3\n4\n5\n6\n7\n8\n9\ncontent\nz\n10\n");
	assert_true(proof_holds(in_root(".git/config"), "content\n"));
	assert_true(proof_holds(in_root(".git/hooks/pre-commit"), "content\n"));
}

static void
hidden_and_holes(void **state)
{
	struct result r;

	make_project();
	{
		const struct mount plan[] = { { HIDE, in_root("secret"), true, 0 },
			{ HOLE, in_root("secret/in"), true, 0 },
			{ HIDE, in_root("secret/in/deeper/closed"), true, 0 },
			{ HOLE, in_root("secret/key"), true, 0 },
			{ HIDE, in_root("sub/deep"), true, 0 }, { HIDE, in_root("env"), true, 0 } };

		assert_string_equal(mounts(plan, N_ELEMENTS(plan)), "");
	}
	r = run_sh(&plain,
	    "exec 2>/dev/null\n"
	    "ls -A secret sub/deep | tr '\\n' ' '; echo; stat -c '%a %F' secret sub/deep env\n"
	    "cat secret/in/open secret/key; cat secret/in/deeper/closed || echo 1\n"
	    "cat env || echo 2\n { echo x > env; } || echo 3\n { echo x > secret/new; } || echo 4\n"
	    "{ echo x > secret/in/open; } || echo 5\n { echo x > secret/key; } || echo 6\n"
	    "mkdir secret/in/d || echo 7\n mv secret s || echo 8\n chmod 777 secret env || echo 9\n"
	    "rm -rf secret sub/deep || echo 10\n rmdir secret/other || echo 11\n"
	    "cat /run/koda/hidden/file || echo 12\n { echo > /run/koda/hidden/x; } || echo 13\n");
	assert_string_equal(r.text,
	    "secret: in key  sub/deep: \n555 directory\n555 directory\n0 regular empty file\n"
	    "content\ncontent\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n");
	assert_true(proof_holds(in_root("secret/other/x"), "content\n"));
	assert_true(proof_holds(in_root("secret/in/open"), "content\n"));
	assert_true(proof_holds(in_root("env"), "content\n"));
}

static void
hole_in_a_hole(void **state)
{
	struct result r;

	make_project();
	{
		const struct mount plan[] = { { HIDE, in_root("secret"), false, 0 },
			{ HOLE, in_root("secret/in"), false, 0 },
			{ HIDE, in_root("secret/in/deeper"), false, 0 },
			{ HOLE, in_root("secret/in/deeper/closed"), false, 0 } };

		assert_string_equal(mounts(plan, N_ELEMENTS(plan)), "");
	}
	r = run_sh(&plain, "find secret -type f | sort; cat secret/in/deeper/closed");
	assert_string_equal(r.text, "secret/in/deeper/closed\nsecret/in/open\ncontent\n");
}

/* The home directory is hidden, except for the project, which has protected places. */
static void
writable_hole(void **state)
{
	struct result r;

	make_project();
	{
		const struct mount plan[] = { { HIDE, box.base, true, 0 },
			{ WRITABLE_HOLE, box.root, true, 0 }, { PIN, in_root(".git"), true, 0 },
			{ READ_ONLY, in_root(".git/hooks"), true, 0 },
			{ HIDE, in_root("secret"), true, 0 },
			{ WRITABLE_HOLE, in_root("secret/in"), true, 0 },
			{ READ_ONLY, in_root("secret/in/deeper"), true, 0 } };

		proof_put(proof_path("%s/private", box.base), "x");
		assert_string_equal(mounts(plan, N_ELEMENTS(plan)), "");
	}
	r = run_sh(&plain,
	    "exec 2>/dev/null\n"
	    "ls .. ; ls -A secret; echo new > f && cat f && rm f\n"
	    "{ echo x > .git/hooks/new; } || echo 1\n mv .git g || echo 2\n"
	    "echo y > secret/in/open && cat secret/in/open\n"
	    "{ echo x > secret/in/deeper/new; } || echo 3\n mv secret s || echo 4\n"
	    "{ echo x > ../new; } || echo 5\n mv ../project ../p || echo 6\n");
	assert_string_equal(r.text, "project\nin\nnew\n1\n2\ny\n3\n4\n5\n6\n");
	assert_true(proof_holds(in_root("secret/in/open"), "y\n"));
}

static void
missing_places(void **state)
{
	struct result r;
	char want[4096];

	make_project();
	assert_int_equal(symlink(".git", in_root("link")), 0);
	{
		const struct mount plan[] = { { READ_ONLY, in_root(".mcp.json"), false, 0 },
			{ READ_ONLY, in_root(".git/config"), true, 1 }, /* another inode */
			{ READ_ONLY, in_root("link"), false, 0 },
			{ READ_ONLY, in_root("link/hooks"), false, 0 },
			{ READ_ONLY, in_root("env/x"), false, 0 },
			{ HIDE, in_root("secret"), true, 0 },
			{ READ_ONLY, in_root("secret/key"), false, 0 },
			{ HOLE, in_root("secret/none"), false, 0 } };

		snprintf(want, sizeof(want), "%s\n%s\n%s\n%s\n%s\n%s\n%s\n", plan[0].path,
		    plan[1].path, plan[2].path, plan[3].path, plan[4].path, plan[6].path,
		    plan[7].path);
		assert_string_equal(mounts(plan, N_ELEMENTS(plan)), want);
	}
	r = run_sh(&plain, "echo x >> .git/config; ls -A secret");
	assert_string_equal(r.text, "");
	assert_true(proof_holds(in_root(".git/config"), "content\nx\n"));
}

static void
second_plan(void **state)
{
	struct options o = { .background = true };
	struct command c;
	struct result r;
	char line[64];
	struct mount first[4], second[1];

	make_project();
	first[0] = (struct mount){ PIN, in_root(".git"), true, 0 };
	first[1] = (struct mount){ READ_ONLY, in_root(".git/hooks"), true, 0 };
	first[2] = (struct mount){ HIDE, in_root("secret"), true, 0 };
	first[3] = (struct mount){ HOLE, in_root("secret/in"), true, 0 };
	second[0] = (struct mount){ READ_ONLY, in_root("sub"), true, 0 };
	for (int i = 0; i < 3; i++) {
		assert_string_equal(mounts(first, N_ELEMENTS(first)), "");
		assert_string_equal(mounts(second, N_ELEMENTS(second)), "");
	}
	/* Nothing of the first plan is left, also if a path was moved on the host, and while a
	 * command runs. */
	c = begin_sh(&o, "echo up; exec sleep 1000");
	started(&c);
	read_line(&c, line, sizeof(line));
	assert_string_equal(mounts(first, N_ELEMENTS(first)), "");
	assert_int_equal(rename(in_root("secret"), in_root("moved")), 0);
	assert_string_equal(mounts(second, N_ELEMENTS(second)), "");
	r = run_sh(&plain,
	    "grep -c -e secret -e moved -e .git /proc/self/mountinfo; cat moved/key;"
	    "echo x > .git/hooks/new && mv .git g && echo yes; { echo x > sub/y; } 2>/dev/null || echo no");
	assert_string_equal(r.text, "0\ncontent\nyes\nno\n");
	/* The command was stopped, and goes on. */
	delivered(send_signal(c.id, SIGTERM, false));
	r = ended(&c);
	assert_int_equal(r.signal, SIGTERM);
}

static void
stopped_stays_stopped(void **state)
{
	struct options o = { .background = true };
	struct command c = begin_sh(&o, "echo $$; kill -STOP $$; echo went on");
	struct mount plan[1];
	struct result r;
	char line[64];

	make_project();
	started(&c);
	read_line(&c, line, sizeof(line));
	do {
		r = run_sh(&plain, proof_path("set -- $(cat /proc/%s/stat); echo $3", line));
	} while (strcmp(r.text, "T\n") != 0);
	plan[0] = (struct mount){ PIN, in_root(".git"), true, 0 };
	assert_string_equal(mounts(plan, 1), "");
	r = run_sh(&plain, proof_path("set -- $(cat /proc/%s/stat); echo $3", line));
	assert_string_equal(r.text, "T\n");
	delivered(send_signal(c.id, SIGCONT, false));
	r = ended(&c);
	assert_string_equal(r.text, "went on\n");
}

static void
host_replaces_a_file(void **state)
{
	struct mount plan[2];
	Koda__EventKind kind;
	Koda__Report *r;
	struct result res;

	make_project();
	plan[0] = (struct mount){ PIN, in_root(".git"), true, 0 };
	plan[1] = (struct mount){ READ_ONLY, in_root(".git/config"), true, 0 };
	assert_string_equal(mounts(plan, 2), "");
	proof_put(in_root(".git/config.lock"), "from the host\n");
	assert_int_equal(rename(in_root(".git/config.lock"), in_root(".git/config")), 0);
	/* On a busy machine the rename may take longer than stage2 waits with all processes
	 * stopped: the file is reported as lost first, and then as mounted again. */
	do {
		r = await(0);
		assert_int_equal(r->report_case, KODA__REPORT__REPORT_EVENT);
		kind = r->event->kind;
		free_report(r);
	} while (kind == KODA__EVENT_KIND__EVENT_KIND_LOST);
	assert_int_equal(kind, KODA__EVENT_KIND__EVENT_KIND_REMOUNTED);
	res = run_sh(&plain, "cat .git/config; { echo x > .git/config; } 2>/dev/null || echo no");
	assert_string_equal(res.text, "from the host\nno\n");
}

/* ---- the worker ---- */

static struct frame_stream worker;

static int
start_worker(void)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__StartWorker w = KODA__START_WORKER__INIT;
	cleanup_close int program = open(WORKER, O_RDONLY | O_CLOEXEC);
	Koda__Report *r;
	int pair[2], fds[2], pidfd;

	assert_true(program >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fds[0] = pair[1];
	fds[1] = program;
	order.order_case = KODA__ORDER__ORDER_START_WORKER;
	order.start_worker = &w;
	send_order(&order, fds, 2);
	close(pair[1]);
	frame_init(&worker, pair[0]);
	r = await(order.id);
	if (r->report_case == KODA__REPORT__REPORT_FAILED)
		fail_msg("worker: errno %d", r->failed->errnum);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_WORKER_STARTED);
	assert_int_equal(frame_fds_waiting(&box.fs), 1);
	pidfd = frame_take_fd(&box.fs);
	free_report(r);
	return pidfd;
}

static void
seal_worker(void)
{
	static const uint8_t token[TOKEN_BYTES] = { 1 };
	Koda__Seal seal = KODA__SEAL__INIT;
	Koda__Request req = KODA__REQUEST__INIT;
	cleanup_free uint8_t *packed = NULL;
	struct koda_error err = { 0 };
	const uint8_t *data;
	Koda__Reply *reply;
	struct policy policy;
	struct stat st;
	size_t len;

	policy_init(&policy);
	assert_int_equal(policy_list_add(&policy.list[KODA_ALLOW_WRITE], box.root, &err), 0);
	assert_int_equal(policy_pack(&policy, &packed, &len, &err), 0);
	policy_done(&policy);
	assert_int_equal(stat(box.root, &st), 0);
	seal.protocol = KODA_PROTOCOL_VERSION;
	seal.policy = (ProtobufCBinaryData){ len, packed };
	seal.mode = KODA__MODE__MODE_AUTO;
	seal.root = bytes(box.root);
	seal.root_dev = st.st_dev;
	seal.root_ino = st.st_ino;
	seal.home = bytes("/nonexistent-home");
	seal.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	req.id = 1;
	req.op_case = KODA__REQUEST__OP_SEAL;
	req.seal = &seal;
	assert_true(message_queue(&worker, &req.base, &err) > 0);
	assert_int_equal(frame_flush(&worker, true, &err), 1);
	while (frame_next(&worker, &data, &len, &err) == 0)
		assert_int_equal(frame_fill(&worker, true, &err), 1);
	reply = koda__reply__unpack(NULL, len, data);
	assert_non_null(reply);
	if (reply->result_case != KODA__REPLY__RESULT_READY)
		fail_msg("the worker is not ready: %.*s",
		    reply->error != NULL ? (int)reply->error->message.len : 0,
		    reply->error != NULL ? (const char *)reply->error->message.data : "");
	protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void
gone(int pidfd)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

static void
worker_inside(void **state)
{
	for (int i = 0; i < 3; i++) {
		int pidfd = start_worker();

		seal_worker();
		/* From Landlock's ABI 6 on, no command can end the worker. */
		if (box.landlock_abi >= 6) {
			struct result r = run_sh(&plain,
			    "p=$(grep -l koda-fs-worker /proc/[0-9]*/comm | sed 's/[^0-9]//g'); test -n \"$p\" && "
			    "kill -0 $p 2>/dev/null || echo no");

			assert_string_equal(r.text, "no\n");
		}
		assert_int_equal(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
		gone(pidfd);
		close(pidfd);
		frame_done(&worker);
	}
	assert_int_equal(others_inside(), 0);
}

/* Commands see which capabilities the worker has. */
static void
expect_worker_has(const char *capabilities)
{
	struct result r = run_sh(&plain,
	    "p=$(grep -l koda-fs-worker /proc/[0-9]*/comm | sed 's/[^0-9]//g'); "
	    "sed -n 's/^CapPrm:[^0-9]*//p' /proc/$p/status; cat /proc/$p/environ >/dev/null 2>&1 || echo no");

	assert_string_equal(r.text, capabilities);
}

/* Until a worker has confined itself, it has the capability that keeps commands from tracing it. */
static void
worker_guarded(void **state)
{
	int pidfd = start_worker();

	expect_worker_has("0000000000080000\nno\n");
	seal_worker();
	expect_worker_has("0000000000000000\nno\n");
	assert_int_equal(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
	gone(pidfd);
	close(pidfd);
	frame_done(&worker);
}

/* stage2 has a filter. The spawner has one capability, which it passes on, and no command can signal
 * it (from Landlock's ABI 6 on). */
static void
init_is_filtered(void **state)
{
	struct result r = run_sh(&plain,
	    "sed -n 's/^Seccomp:[^0-9]*/init /p' /proc/1/status; "
	    "p=$(grep -l koda-spawner /proc/[0-9]*/comm | sed 's/[^0-9]//g'); "
	    "sed -n 's/^CapPrm:[^0-9]*/spawner /p; s/^NoNewPrivs:[^0-9]*/spawner /p' /proc/$p/status; "
	    "kill -0 $p 2>/dev/null || kill -0 1 2>/dev/null || echo refused");

	assert_non_null(strstr(r.text, "init 2\n"));
	assert_non_null(strstr(r.text, "spawner 0000000000080000\n"));
	assert_non_null(strstr(r.text, "spawner 1\n"));
	if (box.landlock_abi >= 6)
		assert_non_null(strstr(r.text, "refused\n"));
}

/* ---- the end of a slot ---- */

/* Open a pidfd for each process below `pid`, as the host sees them. Returns how many; the caller
 * closes them. */
static size_t
pidfds_below(pid_t pid, int *ret, size_t max)
{
	cleanup_close int fd =
	    open(proof_path("/proc/%d/task/%d/children", (int)pid, (int)pid), O_RDONLY | O_CLOEXEC);
	char text[4096], *save = NULL;
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	size_t n = 0;

	text[got > 0 ? got : 0] = '\0';
	for (char *p = strtok_r(text, " ", &save); p != NULL && n < max;
	     p = strtok_r(NULL, " ", &save)) {
		pid_t child = (pid_t)strtol(p, NULL, 10);
		int pidfd = (int)syscall(SYS_pidfd_open, child, 0);

		if (pidfd < 0)
			continue;
		ret[n++] = pidfd;
		n += pidfds_below(child, ret + n, max - n);
	}
	return n;
}

static void
host_goes_away(void **state)
{
	struct options o = { .background = true };
	struct command c =
	    begin_sh(&o, "trap '' TERM HUP INT; (setsid sleep 1000 &); sleep 1000 & echo up; wait");
	int pidfd = start_worker(), all[64];
	char line[64];
	size_t n;

	started(&c);
	read_line(&c, line, sizeof(line));
	n = pidfds_below(box.bwrap, all, N_ELEMENTS(all));
	assert_true(n >= 7); /* stage2, template, reaper, shell, two sleeps, worker */
	frame_done(&box.fs);
	for (size_t i = 0; i < n; i++) {
		gone(all[i]);
		close(all[i]);
	}
	gone(pidfd);
	close(pidfd);
	frame_done(&worker);
	close(c.out);
	assert_true(WIFEXITED(end_of(box.bwrap)));
	box.bwrap = 0;
}

static void
template_killed(void **state)
{
	struct command c = begin_sh(&plain,
	    "kill -9 $(grep -l koda-template /proc/[0-9]*/comm | sed 's/[^0-9]//g' | "
	    "head -1); sleep 1000");
	int status;

	/* The command has killed the slot's template: the host sees the end of the slot. */
	status = end_of(box.bwrap);
	box.bwrap = 0;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	close(c.out);
}

/* Return the host's pid of the process with that name below `pid`; 0: none. */
static pid_t
find_below(pid_t pid, const char *name)
{
	cleanup_close int children =
	    open(proof_path("/proc/%d/task/%d/children", (int)pid, (int)pid), O_RDONLY | O_CLOEXEC);
	cleanup_close int comm = open(proof_path("/proc/%d/comm", (int)pid), O_RDONLY | O_CLOEXEC);
	char text[4096], *save = NULL;
	ssize_t got = comm < 0 ? 0 : read(comm, text, sizeof(text) - 1);
	pid_t found = 0;

	text[got > 0 ? got - 1 : 0] = '\0';
	if (strcmp(text, name) == 0)
		return pid;
	got = children < 0 ? 0 : read(children, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	for (char *p = strtok_r(text, " ", &save); p != NULL && found == 0;
	     p = strtok_r(NULL, " ", &save))
		found = find_below((pid_t)strtol(p, NULL, 10), name);
	return found;
}

static void
spawner_killed(void **state)
{
	pid_t pid = find_below(box.bwrap, "koda-spawner");
	int status;

	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	status = end_of(box.bwrap);
	box.bwrap = 0;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

/* ---- invalid orders ---- */

static const struct {
	const char *label;
	size_t len;
	const char *bytes;
} malformed[] = {
	{ "an empty message", 6, "\0\0\0\2\x08\1" }, /* an id without an order */
	{ "a length of nothing", 4, "\0\0\0\0" },
	{ "a length of too much", 4, "\x7f\0\0\0" },
	{ "no message", 8, "\0\0\0\4\xff\xff\xff\xff" },
	{ "an unknown field", 8, "\0\0\0\4\x08\1\x78\1" },
	{ "two orders", 14, "\0\0\0\x0a\x08\1\x22\0\x3a\2\x08\1\x22\0" },
	{ "End of nothing", 8, "\0\0\0\4\x08\1\x3a\0" },
	{ "an id of 0", 10, "\0\0\0\6\x08\0\x3a\2\x08\1" },
	{ "a worker without descriptors", 8, "\0\0\0\4\x08\1\x22\0" },
	{ "signal 0", 12, "\0\0\0\x08\x08\1\x32\4\x08\1\x10\0" },
	{ "signal 65", 12, "\0\0\0\x08\x08\1\x32\4\x08\1\x10\x41" },
	{ "a mount of a relative path", 14, "\0\0\0\x0a\x08\1\x1a\6\x0a\4\x08\1\x12\0" },
	{ "a mount with ..", 19, "\0\0\0\x0f\x08\1\x1a\x0b\x0a\x09\x08\1\x12\5/a/.." },
	{ "a mount with a slash at the end", 17, "\0\0\0\x0d\x08\1\x1a\x09\x0a\7\x08\1\x12\3/a/" },
};

static void
malformed_order(void **state)
{
	size_t i = (uintptr_t)*state;
	int status;

	assert_int_equal(send(box.fs.fd, malformed[i].bytes, malformed[i].len, MSG_NOSIGNAL),
	    (ssize_t)malformed[i].len);
	status = end_of(box.bwrap);
	box.bwrap = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

static void
bad_exec(void **state)
{
	static const char *const kinds[] = { "no argv", "NUL", "relative cwd", "limit" };

	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		ProtobufCBinaryData arg = bytes("/bin/true");
		Koda__ResourceLimit l = KODA__RESOURCE_LIMIT__INIT, *limit = &l;
		Koda__Order order = KODA__ORDER__INIT;
		Koda__Exec e = KODA__EXEC__INIT;
		cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (i > 0) {
			unbooted(state);
			boot(true);
		}
		e.argv = &arg;
		e.n_argv = i == 0 ? 0 : 1;
		if (i == 1)
			arg = (ProtobufCBinaryData){ 10, (uint8_t *)(uintptr_t) "/bin/tru\0e" };
		e.cwd = bytes(i == 2 ? "tmp" : "/");
		l.resource = 77;
		e.limit = &limit;
		e.n_limit = i == 3;
		order.order_case = KODA__ORDER__ORDER_EXEC;
		order.exec = &e;
		send_order(&order, (const int[]){ null, null, null }, 3);
		assert_int_equal(WEXITSTATUS(end_of(box.bwrap)), 1);
		box.bwrap = 0;
		if (i + 1 < N_ELEMENTS(kinds))
			tear_down(state);
	}
}

static void
caches_that_are_none(void **state)
{
	static const struct {
		const char *label, *lower, *layers, *upper, *under, *name, *path, *keep;
	} rows[] = {
		{ "a directory that is relative", "run", NULL, NULL, NULL, "x", "/x", NULL },
		{ "layers without one to write", "/run", "/run/l", NULL, NULL, "x", "/x", NULL },
		{ "a layer in another directory", "/run", "/run/l", "../l", NULL, "x", "/x", NULL },
		{ "a layer below it in another one", "/run", "/run/l", "1", "a/b", "x", "/x",
		    NULL },
		{ "a cache that is above", "/run", NULL, NULL, NULL, "x/../..", "/x", NULL },
		{ "a cache that is absolute", "/run", NULL, NULL, NULL, "/x", "/x", NULL },
		{ "a cache that appears nowhere", "/run", NULL, NULL, NULL, "x", "x", NULL },
		{ "a place that is in no cache", "/run", NULL, NULL, NULL, "x", "/x", "/xy" },
		{ "a place that is the cache", "/run", NULL, NULL, NULL, "x", "/x", "/x" },
	};

	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		ProtobufCBinaryData under = bytes(rows[i].under != NULL ? rows[i].under : "");
		ProtobufCBinaryData keep = bytes(rows[i].keep != NULL ? rows[i].keep : "");
		Koda__OverlayPlace place = KODA__OVERLAY_PLACE__INIT, *list = &place;
		Koda__Overlay caches = KODA__OVERLAY__INIT;
		Koda__Order order = KODA__ORDER__INIT;
		Koda__Boot b = KODA__BOOT__INIT;

		if (i > 0)
			unbooted(state);
		caches.lower = bytes(rows[i].lower);
		caches.has_layers = rows[i].layers != NULL;
		caches.layers = bytes(caches.has_layers ? rows[i].layers : "");
		caches.has_upper = rows[i].upper != NULL;
		caches.upper = bytes(caches.has_upper ? rows[i].upper : "");
		caches.under = &under;
		caches.n_under = rows[i].under != NULL;
		place.name = bytes(rows[i].name);
		place.path = bytes(rows[i].path);
		place.keep = &keep;
		place.n_keep = rows[i].keep != NULL;
		caches.place = &list;
		caches.n_place = 1;
		b.protocol = KODA_PROTOCOL_VERSION;
		b.root = bytes(box.root);
		b.local_binding = true;
		b.caches = &caches;
		order.order_case = KODA__ORDER__ORDER_BOOT;
		order.boot = &b;
		send_order(&order, NULL, 0);
		if (WEXITSTATUS(end_of(box.bwrap)) != 1)
			fail_msg("taken: %s", rows[i].label);
		box.bwrap = 0;
		if (i + 1 < N_ELEMENTS(rows))
			tear_down(state);
	}
}

/* stage2 gives up the capability that only overlays needed. */
static void
override_is_given_up(void **state)
{
	boot(true);
	assert_int_equal(run_sh(&plain,
			     "grep -q '^CapPrm:.*280000$' /proc/1/status && "
			     "grep -q '^CapEff:.*280000$' /proc/1/status")
			     .code,
	    0);
}

static void
before_boot(void **state)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Mounts all = KODA__MOUNTS__INIT;
	Koda__Boot b = KODA__BOOT__INIT;

	order.order_case = KODA__ORDER__ORDER_MOUNTS;
	order.mounts = &all;
	send_order(&order, NULL, 0);
	assert_failed(order.id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EAGAIN);
	boot(true);
	/* Boot is accepted only once. */
	b.protocol = KODA_PROTOCOL_VERSION;
	b.root = bytes(box.root);
	b.local_binding = true;
	order = (Koda__Order)KODA__ORDER__INIT;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &b;
	send_order(&order, NULL, 0);
	assert_failed(order.id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EEXIST);
	assert_int_equal(run_sh(&plain, "true").code, 0);
}

static void
another_protocol(void **state)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Boot b = KODA__BOOT__INIT;

	b.protocol = KODA_PROTOCOL_VERSION + 1;
	b.root = bytes(box.root);
	b.local_binding = true;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &b;
	send_order(&order, NULL, 0);
	assert_failed(order.id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EPROTO);
	assert_int_equal(WEXITSTATUS(end_of(box.bwrap)), 1);
	box.bwrap = 0;
}

static void
not_as_a_program(void **state)
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 2);
		execl(STAGE2, STAGE2, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(WEXITSTATUS(end_of(pid)), 1);
}

/* ---- inside ---- */

static int
be_inside(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--try") == 0)
		return -try_call(argv[2]);
	if (argc == 2 && strcmp(argv[1], "--x32") == 0) {
		syscall(0x40000000 | 39);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--storm") == 0) {
		/* The first process stays; each of the others forks all the time, and leaves its
		 * parent. */
		if (fork() != 0)
			for (;;)
				pause();
		for (bool full = false;;) {
			pid_t pid = fork();

			if (pid > 0 && fork() != 0)
				_exit(0);
			setsid();
			if (pid < 0 && !full) {
				full = true;
				if (write(1, "up\n", 3) != 3)
					return 1;
			}
		}
	}
	fprintf(stderr, "what is %s?\n", argv[1]);
	return 99;
}

#define SLOT(fn)                                                                                   \
	{                                                                                          \
#fn, fn, booted, tear_down, NULL                                                   \
	}
#define CLOSED(fn)                                                                                 \
	{                                                                                          \
#fn, fn, booted_closed, tear_down, NULL                                            \
	}
#define OUT(fn, closed)                                                                            \
	{                                                                                          \
#fn, fn, closed ? booted_egress_closed : booted_egress, tear_down, NULL            \
	}
#define RAW(fn)                                                                                    \
	{                                                                                          \
#fn, fn, unbooted, tear_down, NULL                                                 \
	}

static void
begin_slot(void **state)
{
	assert_int_equal(booted(state), 0);
}

static void
end_slot(void **state)
{
	assert_int_equal(tear_down(state), 0);
}

int
main(int argc, char **argv)
{
	/* clang-format off */
	const struct CMUnitTest slots[] = {
		CLOSED(closed_has_no_listener), SLOT(x32_is_killed),
		OUT(egress_from_inside, false), OUT(egress_waits, false), OUT(egress_is_not_taken, false),
		OUT(egress_has_one_owner, false), OUT(egress_of_a_closed_slot, true),
		RAW(egress_port_not_to_be_had), RAW(egress_port_that_is_none), RAW(private_places_without_a_size),
		SLOT(not_found), SLOT(looked_up), SLOT(working_directory), SLOT(no_terminal), SLOT(terminal),
		SLOT(limits), SLOT(private_places), SLOT(leftovers_are_ended), SLOT(background_stays), SLOT(reaper_killed),
		SLOT(reaper_stopped), SLOT(template_stopped), SLOT(fork_storm), SLOT(end_of_a_tree), SLOT(end_meanwhile),
		SLOT(signal_before_it_began), SLOT(commands_signal_each_other), SLOT(many_at_once),
		SLOT(large_order), SLOT(many_large_at_once), SLOT(pins_and_read_only), SLOT(hidden_and_holes), SLOT(hole_in_a_hole), SLOT(writable_hole),
		SLOT(missing_places), SLOT(second_plan), SLOT(stopped_stays_stopped),
		SLOT(host_replaces_a_file), SLOT(worker_inside), SLOT(worker_guarded), SLOT(init_is_filtered), SLOT(host_goes_away), SLOT(template_killed), SLOT(spawner_killed),
		SLOT(bad_exec), RAW(before_boot), RAW(caches_that_are_none), RAW(override_is_given_up), RAW(another_protocol), RAW(not_as_a_program),
	};
	/* clang-format on */
	struct CMUnitTest all[N_ELEMENTS(scripts) + N_ELEMENTS(calls) + 2 + N_ELEMENTS(slots) +
	    N_ELEMENTS(malformed)];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t n = 0;

	if (argc > 1)
		return be_inside(argc, argv);
	if (len <= 0)
		return 1;
	self[len] = '\0';
	/* One slot serves all of these, in turn. They are one group, because TAP has one plan. */
	all[n++] = (struct CMUnitTest){ "one slot begins", begin_slot, NULL, NULL, NULL };
	for (size_t i = 0; i < N_ELEMENTS(scripts); i++)
		all[n++] = (struct CMUnitTest){ scripts[i].label, script, NULL, NULL, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(calls); i++)
		all[n++] = (struct CMUnitTest){ calls[i].name, call, NULL, NULL, (void *)i };
	all[n++] = (struct CMUnitTest){ "one slot ends", end_slot, NULL, NULL, NULL };
	for (size_t i = 0; i < N_ELEMENTS(slots); i++)
		all[n++] = slots[i];
	for (size_t i = 0; i < N_ELEMENTS(malformed); i++)
		all[n++] = (struct CMUnitTest){ malformed[i].label, malformed_order, unbooted,
			tear_down, (void *)i };
	return cmocka_run_group_tests_name("stage2", all, NULL, NULL);
}
