/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/proxies.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "proto/proxy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "shared/wire/spawn.h"

#define START_SECONDS 5.0

static int
complain(const char *what)
{
	perror(what);
	return -1;
}

void
standing_stop(struct standing *s)
{
	int *fd = &s->control;

	close_at(fd);
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	if (s->reader > 0) {
		kill(s->reader, SIGKILL);
		waitpid(s->reader, NULL, 0);
	}
	*s = (struct standing)STANDING_EMPTY;
}

/* ---- clients and servers ---- */

/* Start a child that does not outlive this process. in and out become its standard input and
 * output; -1 stands for /dev/null. Its standard error is ours if out is given, and /dev/null
 * otherwise. Returns the pid, or -1. */
static pid_t
start_child(char *const *argv, char *const *env, int in, int out)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(127);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int from = fd == STDIN_FILENO ? in : out;

		if (fd == STDERR_FILENO && out >= 0)
			break; /* keep our standard error, for its messages */
		if (from < 0)
			from = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (from < 0 || dup2(from, fd) < 0)
			_exit(127);
	}
	execve(argv[0], argv, env);
	_exit(127);
}

int
line_start(const char *const *argv, struct standing *ret, char *line, size_t size)
{
	int in[2], out[2];
	ssize_t n;

	*ret = (struct standing)STANDING_EMPTY;
	if (pipe2(in, O_CLOEXEC) < 0)
		return complain("pipe");
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return complain("pipe");
	}
	ret->pid = start_child((char *const *)(uintptr_t)argv, environ, in[0], out[1]);
	ret->control = in[1];
	close(in[0]);
	close(out[1]);
	/* The line is short and written at once, so one read() gets all of it. */
	n = read(out[0], line, size - 1);
	close(out[0]);
	if (ret->pid > 0 && n > 0) {
		line[n] = '\0';
		return 0;
	}
	fprintf(stderr, "%s %s: failed\n", argv[0], argv[1]);
	standing_stop(ret);
	return -1;
}

int
server_start(const char *load, struct standing *ret)
{
	const char *const argv[] = { load, "serve", NULL };
	char line[16];

	if (line_start(argv, ret, line, sizeof(line)) < 0)
		return -1;
	ret->port = (unsigned)atoi(line);
	return 0;
}

int
relay_start(const char *load, unsigned server, struct standing *ret)
{
	char line[16], port[16];
	const char *const argv[] = { load, "relay", port, NULL };

	snprintf(port, sizeof(port), "%u", server);
	if (line_start(argv, ret, line, sizeof(line)) < 0)
		return -1;
	ret->port = (unsigned)atoi(line);
	return 0;
}

/* ---- ours ---- */

static int
listen_on_any(unsigned *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
		close_at(&fd);
		return complain("listen");
	}
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int
pack_policy(unsigned server, uint8_t **ret, size_t *ret_len, struct koda_error *e)
{
	struct policy policy;
	char rule[32];
	int r;

	snprintf(rule, sizeof(rule), "127.0.0.1:%u", server);
	policy_init(&policy);
	r = policy_list_add(&policy.list[KODA_ALLOWED_DOMAINS], rule, e);
	if (r == 0)
		r = policy_pack(&policy, ret, ret_len, e);
	policy_done(&policy);
	return r;
}

/* Wait for the proxy's answer to Start. Returns 0 if it is Ready, -1 otherwise. */
static int
wait_ready(struct frame_stream *fs, struct koda_error *e)
{
	struct arena arena;
	const Koda__EgressReport *report;
	const uint8_t *frame;
	size_t len;
	int r;

	while ((r = frame_next(fs, &frame, &len, e)) == 0)
		if (frame_fill(fs, true, e) < 0)
			return -1;
	if (r < 0)
		return -1;
	arena_init(&arena);
	report = (const Koda__EgressReport *)message_unpack(&koda__egress_report__descriptor, frame,
	    len, &arena, e);
	if (report == NULL) {
		r = -1;
	} else if (report->report_case == KODA__EGRESS_REPORT__REPORT_FAILED) {
		r = err_set(e, KODA_WORKER, 0, "%.*s", (int)report->failed->why.len,
		    (const char *)report->failed->why.data);
	} else {
		r = report->report_case == KODA__EGRESS_REPORT__REPORT_READY
		    ? 0
		    : err_set(e, KODA_PROTOCOL, 0, "not Ready");
	}
	arena_done(&arena);
	return r;
}

static int
send_orders(struct frame_stream *fs, unsigned server, int listener, struct koda_error *e)
{
	cleanup_free uint8_t *packed = NULL;
	Koda__EgressUpstream upstream = KODA__EGRESS_UPSTREAM__INIT;
	Koda__EgressStart start = KODA__EGRESS_START__INIT;
	Koda__EgressServe serve = KODA__EGRESS_SERVE__INIT;
	Koda__EgressOrder order = KODA__EGRESS_ORDER__INIT;
	size_t packed_len;
	ssize_t n;

	if (pack_policy(server, &packed, &packed_len, e) < 0)
		return -1;
	start.protocol = KODA_PROTOCOL_VERSION;
	start.policy = (ProtobufCBinaryData){ packed_len, packed };
	start.mode = KODA__MODE__MODE_AUTO;
	start.upstream = &upstream;
	order.order_case = KODA__EGRESS_ORDER__ORDER_START;
	order.start = &start;
	if (message_queue(fs, &order.base, e) < 0 || frame_flush(fs, true, e) < 0 ||
	    wait_ready(fs, e) < 0)
		return -1;
	serve.slot = 1;
	order.order_case = KODA__EGRESS_ORDER__ORDER_SERVE;
	order.serve = &serve;
	n = message_queue(fs, &order.base, e);
	return n < 0 ? -1 : frame_flush_with_fd(fs, (size_t)n, listener, -1, e);
}

/* Start a process that reads and discards the proxy's reports, as the host reads them, too.
 * Returns its pid, or -1. */
static pid_t
start_reader(int control)
{
	static char sink[64u << 10];
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
		while (read(control, sink, sizeof(sink)) > 0)
			;
	_exit(0);
}

int
egress_start(const char *helpers, unsigned server, struct standing *ret)
{
	cleanup_close int listener = -1;
	struct frame_stream fs;
	struct koda_error e = { 0 };
	struct child child;
	char path[PATH_MAX];
	int pair[2], r;

	*ret = (struct standing)STANDING_EMPTY;
	snprintf(path, sizeof(path), "%s/koda-egress-proxy", helpers);
	listener = listen_on_any(&ret->port);
	if (listener < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return complain("proxy");
	r = spawn_helper(path, pair[1], &child, &e);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return complain_error("proxy", &e);
	}
	close(child.pidfd);
	ret->pid = child.pid;
	ret->control = fcntl(pair[0], F_DUPFD_CLOEXEC, 3);
	frame_init(&fs, pair[0]);
	r = send_orders(&fs, server, listener, &e);
	frame_done(&fs);
	if (r < 0)
		complain_error("proxy", &e);
	else if (ret->control >= 0 && (ret->reader = start_reader(ret->control)) > 0)
		return 0;
	standing_stop(ret);
	return -1;
}

/* ---- others ---- */

static void put_format(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void
put_format(const char *name, const char *fmt, ...)
{
	char text[4 * PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_file(name, text, (size_t)n);
}

/* Return a port that is free now, or 0 if there is none. */
static unsigned
free_port(void)
{
	unsigned port = 0;
	int fd = listen_on_any(&port);

	close_at(&fd);
	return port;
}

static bool
answers(unsigned port)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
}

/* Start another program and wait until it accepts connections on ret->port. Tries to connect,
 * because such a program does not report that it has begun to listen. Returns 0, or -1 after
 * printing why. */
static int
start_peer(char *const *argv, char *const *env, struct standing *ret)
{
	double until = now_seconds() + START_SECONDS;

	ret->pid = start_child(argv, env, -1, -1);
	while (ret->pid > 0 && now_seconds() < until && waitpid(ret->pid, NULL, WNOHANG) == 0) {
		if (answers(ret->port))
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	fprintf(stderr, "%s does not come up\n", argv[0]);
	standing_stop(ret);
	return -1;
}

int
tinyproxy_start(const char *peers, const char *dir, struct standing *ret)
{
	char program[PATH_MAX], config[PATH_MAX],
	    d[] = "-d",
	    c[] = "-c", *const argv[] = { program, d, c, config, NULL }, *const env[] = { NULL };

	*ret = (struct standing)STANDING_EMPTY;
	ret->port = free_port();
	snprintf(program, sizeof(program), "%s/tinyproxy/usr/bin/tinyproxy", peers);
	snprintf(config, sizeof(config), "%s/tinyproxy.conf", dir);
	put_format(config,
	    "Port %u\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 2000\n"
	    "LogLevel Critical\n",
	    ret->port);
	return start_peer(argv, env, ret);
}

int
squid_start(const char *peers, const char *dir, struct standing *ret)
{
	char program[PATH_MAX], config[PATH_MAX], libraries[PATH_MAX + 64],
	    n[] = "-N", f[] = "-f", *const argv[] = { program, n, f, config, NULL },
	    *const env[] = { libraries, NULL };

	*ret = (struct standing)STANDING_EMPTY;
	ret->port = free_port();
	snprintf(program, sizeof(program), "%s/squid/usr/sbin/squid", peers);
	snprintf(config, sizeof(config), "%s/squid.conf", dir);
	snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s/squid/libraries", peers);
	/* No cache, no logs, one process, so that squid does nothing but tunnel. */
	put_format(config,
	    "http_port 127.0.0.1:%u\nhttp_access allow localhost\nhttp_access deny all\n"
	    "cache deny all\naccess_log none\ncache_log /dev/null\ncache_store_log none\n"
	    "pid_filename none\npinger_enable off\nnetdb_filename none\nworkers 1\n"
	    "coredump_dir none\nmax_filedescriptors 16384\nshutdown_lifetime 0 seconds\n"
	    "mime_table %s/squid/usr/share/squid/mime.conf\n"
	    "icon_directory %s/squid/usr/share/squid/icons\n"
	    "error_directory %s/squid/usr/share/squid-langpack/templates\n"
	    "unlinkd_program %s/squid/usr/lib/squid/unlinkd\n",
	    ret->port, peers, peers, peers, peers);
	return start_peer(argv, env, ret);
}
