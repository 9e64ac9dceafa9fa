/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and the network, through the library: the real bwrap, stage2, proxy and clients, to
 * servers on this machine's loopback that an embedder's policy names by address. Also a compromised
 * proxy against the host.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/kit/hosting.h"
#include "tests/kit/leaks.h"

#define CONNECT KODA_TEST_CONNECT " "

/* ---- servers: send their name, then echo ---- */

struct server {
	unsigned port;
	pid_t pid;
};

static void __attribute__((noreturn)) serve(int listening, const char *name)
{
	char buf[4096];
	ssize_t n;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fd = accept(listening, NULL, NULL);
		if (fd < 0)
			_exit(1);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (send(fd, name, strlen(name), MSG_NOSIGNAL) < 0)
				_exit(1);
			while ((n = read(fd, buf, sizeof(buf))) > 0)
				if (send(fd, buf, (size_t)n, MSG_NOSIGNAL) < 0)
					break;
			_exit(0);
		}
		close(fd);
	}
}

static void
server_start(struct server *s, const char *name)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	s->port = ntohs(in.sin_port);
	fflush(NULL);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0)
		serve(fd, name);
	close(fd);
}

static void
server_stop(struct server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
}

static struct server one, two;

/* ---- sessions ---- */

static char said[16][KODA_MESSAGE_MAX];
static size_t n_said, n_degraded;
/* Answered by the event callback when a proxy dies. */
static struct koda_approval *answer_at_death;

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind == KODA_EVENT_SPAWN)
		return;
	if (kind == KODA_EVENT_DEATH && answer_at_death != NULL)
		koda_approval_answer_scope(answer_at_death, KODA_SCOPE_SESSION);
	snprintf(said[n_said++ % N_ELEMENTS(said)], KODA_MESSAGE_MAX, "%s", text);
	n_degraded += kind == KODA_EVENT_DEGRADED;
}

static bool
was_said(const char *what)
{
	for (size_t i = 0; i < n_said && i < N_ELEMENTS(said); i++)
		if (strstr(said[i], what) != NULL)
			return true;
	return false;
}

static struct koda_policy *
policy_with(const char *root, enum koda_mode mode, const char *const *rules, size_t n)
{
	struct koda_error err;
	struct koda_policy *p = koda_policy_for_agent(mode, root, &err);

	if (p == NULL)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < n; i++)
		if (koda_policy_add(p, KODA_ALLOWED_DOMAINS, rules[i], &err) < 0)
			fail_msg("%s", err.message);
	return p;
}

static void
freeze(struct koda_policy *p)
{
	struct koda_error err;

	if (koda_policy_freeze(p, &err) < 0)
		fail_msg("%s", err.message);
}

static const char *
literal(unsigned port)
{
	static char text[4][32];
	static unsigned next;
	char *p = text[next++ % 4];

	snprintf(p, sizeof(text[0]), "127.0.0.1:%u", port);
	return p;
}

/* The session's policy allows both servers; the policy of a slot may narrow it. */
static void
open_both(struct fixture *f, enum koda_mode mode)
{
	const char *rules[] = { literal(one.port), literal(two.port) };
	struct koda_policy *p;

	n_said = n_degraded = 0;
	fixture_prepare(f, mode);
	p = policy_with(f->root, mode, rules, 2);
	freeze(p);
	f->options.commands = true;
	f->options.policy = p;
	f->options.event = on_event;
	fixture_open(f);
	koda_policy_free(p);
}

static void
start_both(struct fixture *f, enum koda_mode mode)
{
	open_both(f, mode);
	f->slot = fixture_acquire(f);
}

/* Acquires a slot that may reach only that server. */
static struct koda_slot *
acquire_narrow(struct fixture *f, const struct server *s)
{
	struct koda_policy *p = koda_policy_new();
	struct koda_error err;
	struct koda_slot *slot;

	assert_non_null(p);
	assert_int_equal(koda_policy_add(p, KODA_ALLOWED_DOMAINS, literal(s->port), &err), 0);
	freeze(p);
	slot = koda_slot_acquire(f->ses, p, &err);
	if (slot == NULL)
		fail_msg("%s", err.message);
	koda_policy_free(p);
	return slot;
}

/* ---- commands ---- */

static void
run_in(struct koda_slot *slot, const char *shell, struct koda_command_result *ret)
{
	const struct koda_command_options o = { .shell = shell, .approved = true };
	struct koda_error err;

	if (koda_run(slot, &o, ret, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
}

/* Runs the command and checks its status; its output must begin with out, unless out is NULL. */
static void
expect_in(struct koda_slot *slot, const char *shell, int status, const char *out)
{
	struct koda_command_result r;

	run_in(slot, shell, &r);
	if (r.status != status ||
	    (out != NULL &&
		(r.out.head_len < strlen(out) || memcmp(r.out.head, out, strlen(out)) != 0)))
		fail_msg("%s: status %d, out '%.*s', err '%.*s'", shell, r.status,
		    (int)r.out.head_len, r.out.head == NULL ? "" : r.out.head, (int)r.err.head_len,
		    r.err.head == NULL ? "" : r.err.head);
	koda_command_result_done(&r);
}

static const char *
connect_to(const char *host, unsigned port)
{
	static char text[4][PATH_MAX];
	static unsigned next;
	char *p = text[next++ % 4];

	snprintf(p, sizeof(text[0]), CONNECT "%s %u </dev/null", host, port);
	return p;
}

static void
reaches(struct koda_slot *slot, const struct server *s, const char *name)
{
	expect_in(slot, connect_to("127.0.0.1", s->port), 0, name);
}

static void
is_refused(struct koda_slot *slot, const struct server *s)
{
	struct koda_command_result r;

	run_in(slot, connect_to("127.0.0.1", s->port), &r);
	assert_int_equal(r.status, 1);
	assert_int_equal(r.out.head_len, 0);
	assert_int_equal(r.n_violations, 1);
	assert_string_equal(r.violations[0].target, literal(s->port));
	koda_command_result_done(&r);
}

/* ---- the proxies ---- */

#define PROXIES_MAX 16

/* Lists the live proxies of this process. Zombies of an earlier session do not count. */
static size_t
proxies(pid_t *ret)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL && n < PROXIES_MAX) {
		char path[300], text[512], *p;
		cleanup_close int fd = -1;
		ssize_t len;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (len <= 0)
			continue;
		text[len] = '\0';
		p = strrchr(text, ')');
		if (p == NULL || strstr(text, "(koda-egress") == NULL || p[2] == 'Z' ||
		    atoi(p + 4) != getpid())
			continue;
		ret[n++] = atoi(text);
	}
	closedir(dir);
	return n;
}

static size_t
count_proxies(void)
{
	pid_t all[PROXIES_MAX];

	return proxies(all);
}

/* A killed proxy takes a moment to go. */
static void
no_proxy_is_left(void)
{
	for (uint64_t end = clock_ms() + PATIENCE_MS; count_proxies() > 0 && clock_ms() < end;)
		blink();
	assert_int_equal(count_proxies(), 0);
}

static void
kill_proxies(void)
{
	pid_t all[PROXIES_MAX];
	size_t n = proxies(all);

	assert_true(n > 0);
	for (size_t i = 0; i < n; i++)
		kill(all[i], SIGKILL);
}

/* ---- what may be reached ---- */

static void
allowed(void **state)
{
	char shell[PATH_MAX];
	struct fixture f;

	start_both(&f, KODA_AUTO);
	reaches(f.slot, &one, "one\n");
	reaches(f.slot, &two, "two\n");
	snprintf(shell, sizeof(shell),
	    "bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889; "
	    "printf \"CONNECT 127.0.0.1:%u HTTP/1.1\\r\\n\\r\\n\" >&3; grep -a -m 1 one <&3'",
	    one.port);
	expect_in(f.slot, shell, 0, "one\n");
	snprintf(shell, sizeof(shell),
	    "python3 -c 'import socket\n"
	    "s = socket.create_connection((\"127.0.0.1\", 28889))\n"
	    "s.sendall(b\"\\x05\\x01\\x00\"); assert s.recv(2) == b\"\\x05\\x00\"\n"
	    "s.sendall(b\"\\x05\\x01\\x00\\x01\\x7f\\0\\0\\1\" + (%u).to_bytes(2, \"big\"))\n"
	    "f = s.makefile(\"rb\"); assert f.read(10)[1] == 0; print(f.read(4).decode(), end=\"\")'",
	    two.port);
	expect_in(f.slot, shell, 0, "two\n");
	/* The server echoes every byte. */
	snprintf(shell, sizeof(shell),
	    "head -c 3000000 /dev/urandom >x; " CONNECT "127.0.0.1 %u <x | tail -c +5 | cmp - x",
	    one.port);
	expect_in(f.slot, shell, 0, "");
	fixture_end(&f);
}

/* The result contains the refusal even if the command ignores it. */
static void
denied(void **state)
{
	struct koda_command_result r;
	char shell[PATH_MAX];
	struct fixture f;

	open_both(&f, KODA_AUTO);
	f.slot = acquire_narrow(&f, &one);
	snprintf(shell, sizeof(shell), "%s; true", connect_to("127.0.0.1", two.port));
	run_in(f.slot, shell, &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_violations, 1);
	assert_int_equal(r.violations[0].kind, KODA_VIOLATION_NETWORK_OUTBOUND);
	assert_string_equal(r.violations[0].target, literal(two.port));
	assert_string_equal(r.violations[0].command, shell);
	assert_true(r.violations[0].certain);
	assert_string_not_equal(r.violations[0].rule, "");
	assert_non_null(strstr(r.violations[0].detail, literal(two.port)));
	koda_command_result_done(&r);
	expect_in(f.slot,
	    "curl -s -o /dev/null -p --noproxy '' -w '%{http_connect}' http://evil.example/; true",
	    0, "403");
	expect_in(f.slot, "curl -s -o /dev/null -w '%{http_code}' http://evil.example/", 0, "403");
	fixture_end(&f);
}

/*
 * With a policy that allows nothing, the proxy still answers and gives the reason; the port is not
 * closed.
 */
static void
nothing_is_allowed(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	fixture_prepare(&f, KODA_PLAN);
	f.options.commands = true;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	run_in(f.slot, "curl -s http://evil.example/", &r);
	assert_int_equal(r.status, 0);
	assert_non_null(memmem(r.out.head, r.out.head_len, "evil.example:80", 15));
	assert_int_equal(r.n_violations, 1);
	koda_command_result_done(&r);
	fixture_end(&f);
}

static void
rules_of_one_slot_never_serve_another(void **state)
{
	struct koda_slot *a, *b;
	struct fixture f;

	open_both(&f, KODA_AUTO);
	a = acquire_narrow(&f, &one);
	b = acquire_narrow(&f, &two);
	for (int i = 0; i < 3; i++) {
		reaches(a, &one, "one\n");
		is_refused(a, &two);
		reaches(b, &two, "two\n");
		is_refused(b, &one);
	}
	assert_int_equal(count_proxies(), 2);
	koda_slot_release(a);
	is_refused(b, &one);
	fixture_end(&f);
	assert_int_equal(count_proxies(), 0);
}

static void
one_process_a_policy(void **state)
{
	struct koda_slot *other;
	struct fixture f;

	start_both(&f, KODA_AUTO);
	other = fixture_acquire(&f);
	reaches(f.slot, &one, "one\n");
	reaches(other, &one, "one\n");
	assert_int_equal(count_proxies(), 1);
	koda_slot_release(other);
	reaches(f.slot, &two, "two\n");
	assert_int_equal(count_proxies(), 1);
	koda_slot_release(f.slot);
	no_proxy_is_left();
	fixture_end(&f);
}

static void
who_needs_none_has_none(void **state)
{
	struct fixture f;

	start_both(&f, KODA_AUTO);
	expect_in(f.slot, "true", 0, "");
	assert_int_equal(count_proxies(), 0);
	fixture_end(&f);
}

/* ---- deaths ---- */

/* A command that holds a tunnel: the server echoes what is written to its standard input. */
struct tunnel {
	struct koda_command *command;
	int in, out;
};

static void
tunnel_open(struct tunnel *t, struct koda_slot *slot, const struct server *s)
{
	int in[2], out[2];
	struct koda_command_options o = { .approved = true };
	struct koda_error err;
	char shell[PATH_MAX];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	snprintf(shell, sizeof(shell), CONNECT "127.0.0.1 %u", s->port);
	o.shell = shell;
	o.stdin_fd = in[0];
	o.stdout_fd = out[1];
	t->command = koda_command_start(slot, &o, NULL, NULL, &err);
	if (t->command == NULL)
		fail_msg("%s", err.message);
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
}

/* Runs the session's loop while it waits. */
static void
tunnel_hears(struct fixture *f, struct tunnel *t, const char *want)
{
	uint64_t end = clock_ms() + PATIENCE_MS;
	char got[64] = "";
	size_t n = 0;

	while (n < strlen(want) && clock_ms() < end) {
		struct pollfd p[] = { { .fd = t->out, .events = POLLIN },
			{ .fd = koda_session_fd(f->ses), .events = POLLIN } };
		struct koda_error err;
		ssize_t r;

		poll(p, 2, 200);
		if (p[1].revents != 0)
			assert_true(koda_session_dispatch(f->ses, 0, &err) >= 0);
		if (p[0].revents == 0)
			continue;
		r = read(t->out, got + n, strlen(want) - n);
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	assert_string_equal(got, want);
}

static void
tunnel_close(struct tunnel *t)
{
	struct koda_error err;

	close(t->in);
	close(t->out);
	assert_int_equal(koda_command_wait(t->command, PATIENCE_MS, &err), 1);
	koda_command_free(t->command);
}

static void
killed(void **state)
{
	pid_t first[PROXIES_MAX];
	struct koda_slot *bystander;
	struct tunnel tunnel;
	struct fixture f;

	open_both(&f, KODA_AUTO);
	f.slot = acquire_narrow(&f, &one);
	bystander = acquire_narrow(&f, &two);
	reaches(f.slot, &one, "one\n");
	assert_int_equal(proxies(first), 1);
	tunnel_open(&tunnel, bystander, &two);
	tunnel_hears(&f, &tunnel, "two\n");
	for (int i = 0; i < 10; i++) {
		pid_t now[PROXIES_MAX];
		size_t n = proxies(now);

		for (size_t k = 0; k < n; k++) {
			if (now[k] == first[0])
				kill(now[k], SIGKILL);
		}
		reaches(f.slot, &one, "one\n");
		is_refused(f.slot, &two);
		/* The proxies now include a replacement. */
		n = proxies(now);
		assert_int_equal(n, 2);
		if (now[0] == first[0] || now[1] == first[0])
			fail_msg("it was not killed");
		assert_int_equal(write(tunnel.in, "x", 1), 1);
		tunnel_hears(&f, &tunnel, "x");
		/* The bystander's proxy is the older of the two. */
		first[0] = now[0] > now[1] ? now[0] : now[1];
	}
	assert_true(was_said("SIGKILL"));
	assert_int_equal(n_degraded, 0);
	tunnel_close(&tunnel);
	fixture_end(&f);
}

/* Connections that wait when the proxy dies are served by the next one. */
static void
killed_while_many_wait(void **state)
{
	struct fixture f;
	char shell[PATH_MAX];

	start_both(&f, KODA_AUTO);
	reaches(f.slot, &one, "one\n");
	kill_proxies();
	snprintf(shell, sizeof(shell),
	    "for i in $(seq 40); do " CONNECT "127.0.0.1 %u </dev/null & done >out; wait; "
	    "test $(grep -c one out) = 40",
	    one.port);
	expect_in(f.slot, shell, 0, "");
	fixture_end(&f);
}

/* ---- the list of connections ---- */

struct seen {
	size_t n, n_https;
	struct koda_connection last;
	char host[256], rule[64];
};

static int
on_connection(void *data, const struct koda_connection *c)
{
	struct seen *seen = data;

	seen->n++;
	seen->n_https += strcmp(c->protocol, "https") == 0;
	seen->last = *c;
	snprintf(seen->host, sizeof(seen->host), "%s", c->host);
	snprintf(seen->rule, sizeof(seen->rule), "%s", c->rule);
	return 0;
}

static void
connections_are_listed(void **state)
{
	struct seen seen = { 0 };
	struct tunnel tunnel;
	struct fixture f;

	start_both(&f, KODA_AUTO);
	assert_int_equal(koda_slot_connections(f.slot, on_connection, &seen), 0);
	assert_int_equal(seen.n, 0);
	tunnel_open(&tunnel, f.slot, &one);
	tunnel_hears(&f, &tunnel, "one\n");
	assert_int_equal(write(tunnel.in, "12345", 5), 5);
	tunnel_hears(&f, &tunnel, "12345");
	koda_slot_connections(f.slot, on_connection, &seen);
	assert_int_equal(seen.n, 1);
	assert_true(seen.last.open);
	assert_int_equal(seen.last.up, 5);
	assert_int_equal(seen.last.down, 9);
	tunnel_close(&tunnel);
	/* The end is reported a moment later, when the server has closed as well. */
	for (uint64_t end = clock_ms() + PATIENCE_MS; seen.last.open && clock_ms() < end; blink()) {
		memset(&seen, 0, sizeof(seen));
		koda_slot_connections(f.slot, on_connection, &seen);
	}
	assert_int_equal(seen.n, 1);
	assert_false(seen.last.open);
	assert_int_equal(seen.last.outcome, KODA_CONNECTION_ALLOWED);
	assert_string_equal(seen.last.protocol, "connect");
	assert_string_equal(seen.host, "127.0.0.1");
	assert_int_equal(seen.last.port, one.port);
	assert_int_equal(seen.last.up, 5);
	assert_int_equal(seen.last.down, 9);
	expect_in(f.slot, "curl -s http://evil.example/ >/dev/null", 0, "");
	memset(&seen, 0, sizeof(seen));
	koda_slot_connections(f.slot, on_connection, &seen);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.last.outcome, KODA_CONNECTION_DENIED);
	assert_string_equal(seen.last.protocol, "http");
	assert_string_equal(seen.host, "evil.example");
	assert_int_equal(seen.last.port, 80);
	fixture_end(&f);
}

/* The oldest entries are dropped. */
static void
connections_are_bounded(void **state)
{
	struct seen seen = { 0 };
	struct fixture f;

	start_both(&f, KODA_AUTO);
	expect_in(f.slot,
	    "python3 -c 'import socket\n"
	    "for i in range(1100):\n"
	    "  s = socket.create_connection((\"127.0.0.1\", 28889))\n"
	    "  s.sendall(b\"CONNECT h%d.example:443 HTTP/1.1\\r\\n\\r\\n\" % i)\n"
	    "  assert b\"403\" in s.recv(100); s.close()'",
	    0, "");
	koda_slot_connections(f.slot, on_connection, &seen);
	assert_int_equal(seen.n, 1024);
	assert_string_equal(seen.host, "h1099.example");
	fixture_end(&f);
}

/* ---- questions: Safe mode, and a name without a rule that leads to an address with one ---- */

static struct koda_approval *asked[8];
static size_t n_asked;
static enum koda_scope answer_now;
static bool answer_later;

static void
on_question(void *data, const struct koda_question *q)
{
	assert_int_equal(q->kind, KODA_OP_CONNECT);
	assert_int_equal(q->mode, KODA_SAFE);
	assert_string_equal(q->host, "localhost");
	asked[n_asked++ % N_ELEMENTS(asked)] = q->approval;
	if (!answer_later)
		koda_approval_answer_scope(q->approval, answer_now);
}

static void
start_asking(struct fixture *f, enum koda_scope now, bool later)
{
	const char *rules[] = { literal(one.port), literal(two.port) };
	struct koda_policy *p;

	n_said = n_degraded = n_asked = 0;
	answer_now = now;
	answer_later = later;
	fixture_prepare(f, KODA_SAFE);
	p = policy_with(f->root, KODA_SAFE, rules, 2);
	freeze(p);
	f->options.commands = true;
	f->options.policy = p;
	f->options.event = on_event;
	f->options.approve = on_question;
	fixture_open(f);
	f->slot = fixture_acquire(f);
	koda_policy_free(p);
}

static void
ask_no(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	start_asking(&f, KODA_SCOPE_NO, false);
	run_in(f.slot, connect_to("localhost", one.port), &r);
	assert_int_equal(r.status, 1);
	assert_int_equal(n_asked, 1);
	assert_int_equal(r.n_violations, 1);
	koda_command_result_done(&r);
	reaches(f.slot, &one, "one\n"); /* a named target causes no question */
	assert_int_equal(n_asked, 1);
	fixture_end(&f);
}

static void
ask_once(void **state)
{
	struct fixture f;

	start_asking(&f, KODA_SCOPE_ONCE, false);
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 1);
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 2);
	fixture_end(&f);
}

static void
ask_session(void **state)
{
	struct koda_policy *p = koda_policy_new();
	struct koda_slot *other;
	struct koda_error err;
	struct fixture f;

	start_asking(&f, KODA_SCOPE_SESSION, false);
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 1);
	/* The session remembers the answer, not the proxy process. */
	kill_proxies();
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 1);
	/* The answer is for one port. */
	expect_in(f.slot, connect_to("localhost", two.port), 0, "two\n");
	assert_int_equal(n_asked, 2);
	/* It also applies to other slots, unless their policy denies the host. */
	other = acquire_narrow(&f, &one);
	expect_in(other, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 2);
	assert_int_equal(koda_policy_add(p, KODA_DENIED_DOMAINS, "localhost", &err), 0);
	freeze(p);
	koda_slot_release(other);
	other = koda_slot_acquire(f.ses, p, &err);
	assert_non_null(other);
	expect_in(other, connect_to("localhost", one.port), 1, "");
	assert_int_equal(n_asked, 2);
	koda_policy_free(p);
	fixture_end(&f);
}

static struct koda_command *
start_command(struct fixture *f, const char *shell)
{
	const struct koda_command_options o = { .shell = shell, .approved = true };
	struct koda_error err;
	struct koda_command *c = koda_command_start(f->slot, &o, NULL, NULL, &err);

	if (c == NULL)
		fail_msg("%s", err.message);
	return c;
}

static void
wait_asked(struct fixture *f, size_t n)
{
	struct koda_error err;

	for (uint64_t end = clock_ms() + PATIENCE_MS; n_asked < n && clock_ms() < end;)
		assert_true(koda_session_dispatch(f->ses, 200, &err) >= 0);
	assert_int_equal(n_asked, n);
}

/* What the host learns of two processes comes in any order: the end of a command may come first. */
static void
wait_said(struct fixture *f, size_t n)
{
	struct koda_error err;

	for (uint64_t end = clock_ms() + PATIENCE_MS; n_said < n && clock_ms() < end;)
		assert_true(koda_session_dispatch(f->ses, 200, &err) >= 0);
	assert_int_equal(n_said, n);
}

static void
finish(struct koda_command *c, int status)
{
	struct koda_command_result r;
	struct koda_error err;

	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), 0);
	assert_int_equal(r.status, status);
	koda_command_result_done(&r);
	koda_command_free(c);
}

static void
ask_and_answer_later(void **state)
{
	static const enum koda_scope scopes[] = { KODA_SCOPE_NO, KODA_SCOPE_ONCE,
		KODA_SCOPE_SESSION };
	struct koda_command *c, *same;
	struct fixture f;

	for (size_t i = 0; i < N_ELEMENTS(scopes); i++) {
		start_asking(&f, KODA_SCOPE_NO, true);
		c = start_command(&f, connect_to("localhost", one.port));
		wait_asked(&f, 1);
		/* A second client for the same target waits for the same answer. */
		same = start_command(&f, connect_to("localhost", one.port));
		for (int turn = 0; turn < 20; turn++) {
			struct koda_error err;

			assert_int_equal(koda_command_wait(same, 5, &err), 0);
		}
		assert_int_equal(n_asked, 1);
		koda_approval_answer_scope(asked[0], scopes[i]);
		finish(c, scopes[i] == KODA_SCOPE_NO);
		finish(same, scopes[i] == KODA_SCOPE_NO);
		fixture_end(&f);
	}
}

/*
 * The client gives up before the answer. The next client gets that answer without a second
 * question.
 */
static void
ask_withdrawn(void **state)
{
	struct koda_command *c;
	char shell[PATH_MAX];
	struct fixture f;

	start_asking(&f, KODA_SCOPE_NO, true);
	snprintf(shell, sizeof(shell), "timeout 0.2 %s", connect_to("localhost", one.port));
	finish(start_command(&f, shell), 124);
	assert_int_equal(n_asked, 1);
	c = start_command(&f, connect_to("localhost", one.port));
	for (int turn = 0; turn < 20; turn++) {
		struct koda_error err;

		assert_int_equal(koda_command_wait(c, 5, &err), 0);
	}
	assert_int_equal(n_asked, 1);
	koda_approval_answer_scope(asked[0], KODA_SCOPE_ONCE);
	finish(c, 0);
	fixture_end(&f);
}

/* The proxy dies before the answer; an answer for the session still counts. */
static void
ask_and_die(void **state)
{
	struct koda_command *c;
	struct fixture f;

	start_asking(&f, KODA_SCOPE_NO, true);
	c = start_command(&f, connect_to("localhost", one.port));
	wait_asked(&f, 1);
	kill_proxies();
	finish(c, 1);
	koda_approval_answer_scope(asked[0], KODA_SCOPE_SESSION);
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 1);
	fixture_end(&f);
}

/*
 * The answer comes from the event callback that reports the proxy's death. The proxy is gone then:
 * no order is sent to it, and it dies once.
 */
static void
ask_and_answer_at_death(void **state)
{
	struct koda_command *c;
	struct fixture f;

	start_asking(&f, KODA_SCOPE_NO, true);
	c = start_command(&f, connect_to("localhost", one.port));
	wait_asked(&f, 1);
	answer_at_death = asked[0];
	kill_proxies();
	finish(c, 1);
	wait_said(&f, 1);
	answer_at_death = NULL;
	assert_true(was_said("the egress proxy is gone"));
	expect_in(f.slot, connect_to("localhost", one.port), 0, "one\n");
	assert_int_equal(n_asked, 1);
	assert_int_equal(n_said, 1);
	fixture_end(&f);
}

/* The slot or the session ends before the answer: the answer changes nothing and does not crash. */
static void
ask_and_leave(void **state)
{
	struct koda_command *c;
	struct fixture f;

	start_asking(&f, KODA_SCOPE_NO, true);
	c = start_command(&f, connect_to("localhost", one.port));
	wait_asked(&f, 1);
	koda_slot_release(f.slot);
	koda_command_free(c);
	for (int i = 0; i < 2; i++) {
		koda_approval_answer_scope(asked[0], KODA_SCOPE_SESSION);
		assert_int_equal(errno, ESTALE);
	}
	fixture_end(&f);
	start_asking(&f, KODA_SCOPE_NO, true);
	c = start_command(&f, connect_to("localhost", one.port));
	wait_asked(&f, 1);
	fixture_end(&f);
	koda_command_free(c);
	for (int i = 0; i < 2; i++) {
		koda_approval_answer(asked[0], true);
		assert_int_equal(errno, ESTALE);
	}
}

/* The callback may end the slot or the session that the question is about. */
static bool release_session;

static void
on_question_leave(void *data, const struct koda_question *q)
{
	struct fixture *f = data;

	n_asked++;
	if (release_session)
		koda_session_close(f->ses);
	else
		koda_slot_release(f->slot);
	koda_approval_answer_scope(q->approval, KODA_SCOPE_SESSION);
}

static void
ask_and_leave_from_there(void **state)
{
	const char *rule = literal(one.port);

	for (int i = 0; i < 2; i++) {
		struct koda_command *c;
		struct koda_policy *p;
		struct koda_error err;
		struct fixture f;

		n_asked = 0;
		release_session = i == 1;
		fixture_prepare(&f, KODA_SAFE);
		p = policy_with(f.root, KODA_SAFE, &rule, 1);
		freeze(p);
		f.options.commands = true;
		f.options.policy = p;
		f.options.approve = on_question_leave;
		f.options.data = &f;
		fixture_open(&f);
		f.slot = fixture_acquire(&f);
		koda_policy_free(p);
		c = start_command(&f, connect_to("localhost", one.port));
		for (uint64_t end = clock_ms() + PATIENCE_MS; n_asked < 1 && clock_ms() < end;)
			koda_session_dispatch(f.ses, 200, &err);
		assert_int_equal(n_asked, 1);
		koda_command_free(c);
		if (release_session)
			f.ses = NULL;
		fixture_end(&f);
	}
}

/* "For the session" applies only to hosts: each command is a new question. */
static void
on_command_question(void *data, const struct koda_question *q)
{
	assert_int_equal(q->kind, KODA_OP_RUN);
	n_asked++;
	koda_approval_answer_scope(q->approval, answer_now);
}

static void
scope_of_a_command(void **state)
{
	static const enum koda_scope scopes[] = { KODA_SCOPE_SESSION, KODA_SCOPE_ONCE,
		KODA_SCOPE_NO, (enum koda_scope)17 };
	const struct koda_command_options o = { .shell = "true" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.commands = true;
	f.options.approve = on_command_question;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	n_asked = 0;
	for (size_t i = 0; i < N_ELEMENTS(scopes); i++) {
		answer_now = scopes[i];
		assert_int_equal(koda_run(f.slot, &o, &r, &err), i < 2 ? 0 : -1);
		if (i < 2)
			koda_command_result_done(&r);
		else
			assert_code(&err, KODA_NOT_APPROVED);
		assert_int_equal(n_asked, i + 1);
	}
	fixture_end(&f);
}

static void
nobody_to_ask(void **state)
{
	struct fixture f;

	start_both(&f, KODA_SAFE);
	expect_in(f.slot, connect_to("localhost", one.port), 1, "");
	fixture_end(&f);
}

/* ---- settings of the policy and the environment ---- */

static void
socket_map(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;
	char path[PATH_MAX + 16];
	pid_t pid;
	int fd;

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/map.sock", f.dir);
	assert_true(strlen(path) < sizeof(sun.sun_path));
	strcpy(sun.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 8), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		serve(fd, "by socket\n");
	close(fd);
	p = policy_with(f.root, KODA_AUTO, (const char *[]){ "mapped.example:4242" }, 1);
	assert_int_equal(koda_policy_set_mitm(p, "/etc/passwd", &err), 0);
	assert_int_equal(koda_policy_add_mitm_socket(p, "mapped.example", path, &err), 0);
	freeze(p);
	f.options.commands = true;
	f.options.policy = p;
	fixture_open(&f);
	koda_policy_free(p);
	f.slot = fixture_acquire(&f);
	expect_in(f.slot, connect_to("mapped.example", 4242), 0, "by socket\n");
	/* The socket is not open to commands themselves, and the mapping does not allow other
	 * ports. */
	expect_in(f.slot, connect_to("mapped.example", 4243), 1, "");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_in(f.slot, connect_to("mapped.example", 4242), 1, "");
	fixture_end(&f);
}

static const struct {
	const char *name, *value;
	bool opens;
} variables[] = {
	{ "HTTPS_PROXY", "ftp://proxy.example:21", false },
	{ "https_proxy", "http://proxy.example:0", false },
	{ "HTTPS_PROXY", "http://proxy.example:3128/path", false },
	{ "HTTP_PROXY", "http://pro xy:3128", false },
	{ "ALL_PROXY", "socks4://proxy.example", false },
	{ "all_proxy", "http://", false },
	{ "HTTPS_PROXY", "", true },
	{ "HTTPS_PROXY", "http://user:hunter2@127.0.0.1:9", true },
	{ "ALL_PROXY", "socks5h://127.0.0.1:9", true },
};

static void
upstream(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_session *ses;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	setenv(variables[i].name, variables[i].value, 1);
	ses = koda_session_open(&f.options, &err);
	assert_int_equal(ses != NULL, variables[i].opens);
	if (ses == NULL) {
		assert_code(&err, KODA_INVALID);
		assert_null(strstr(err.message, "hunter2"));
	}
	koda_session_close(ses);
	/* Without commands the variable is not needed. */
	f.options.commands = false;
	ses = koda_session_open(&f.options, &err);
	assert_non_null(ses);
	koda_session_close(ses);
	unsetenv(variables[i].name);
	f.ses = NULL;
	fixture_end(&f);
}

/* If the user's proxy is down, connections do not bypass it. */
static void
upstream_is_never_passed_by(void **state)
{
	struct server gone;
	char value[64];
	struct fixture f;

	server_start(&gone, "gone\n");
	server_stop(&gone);
	snprintf(value, sizeof(value), "http://127.0.0.1:%u", gone.port);
	setenv("HTTPS_PROXY", value, 1);
	open_both(&f, KODA_AUTO);
	unsetenv("HTTPS_PROXY"); /* read when the session was opened */
	f.slot = fixture_acquire(&f);
	expect_in(f.slot, connect_to("127.0.0.1", one.port), 1, "");
	fixture_end(&f);
	setenv("HTTPS_PROXY", value, 1);
	setenv("NO_PROXY", "127.0.0.0/8", 1);
	open_both(&f, KODA_AUTO);
	unsetenv("HTTPS_PROXY");
	unsetenv("NO_PROXY");
	f.slot = fixture_acquire(&f);
	reaches(f.slot, &one, "one\n");
	fixture_end(&f);
}

/* ---- certificates ---- */

static void
bundle(void **state)
{
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;
	char path[PATH_MAX + 16];

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/ca.pem", f.dir); /* may be below a private /tmp */
	put_file(path, "trust\n", 6);
	p = policy_with(f.root, KODA_AUTO, NULL, 0);
	assert_int_equal(koda_policy_set_mitm(p, path, &err), 0);
	freeze(p);
	f.options.commands = true;
	f.options.policy = p;
	fixture_open(&f);
	koda_policy_free(p);
	f.slot = fixture_acquire(&f);
	expect_in(f.slot,
	    "cat $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS $REQUESTS_CA_BUNDLE $CURL_CA_BUNDLE", 0,
	    "trust\ntrust\ntrust\ntrust\n");
	expect_in(f.slot, "echo x >$SSL_CERT_FILE", 2, "");
	assert_int_equal(count_proxies(), 0);
	fixture_end(&f);
}

static void
interception(void **state)
{
	static const char count[] = "grep -c BEGIN $SSL_CERT_FILE";
	static const char last[] = "tac $CURL_CA_BUNDLE | sed '/BEGIN/q' | tac | "
				   "openssl x509 -noout -checkend 60 >/dev/null";
	char before[2][4096];
	struct fixture f;

	n_said = n_degraded = 0;
	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = f.options.intercept = true;
	f.options.event = on_event;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	assert_int_equal(count_proxies(), 1);
	expect_in(f.slot, last, 0, "");
	expect_in(f.slot, count, 0, NULL);
	expect_in(f.slot, "echo x >$SSL_CERT_FILE", 2, "");
	expect_in(f.slot, "rm -f $SSL_CERT_FILE", 1, "");
	expect_in(f.slot, "tac $SSL_CERT_FILE | sed '/BEGIN/q' >kept", 0, "");
	snprintf(before[0], sizeof(before[0]), "%s", get_text(&f, "kept"));
	/* Another process has another key and certificate, in the same file. */
	kill_proxies();
	expect_in(f.slot, "curl -s -o /dev/null http://evil.example/", 0, "");
	expect_in(f.slot, last, 0, "");
	expect_in(f.slot, "tac $SSL_CERT_FILE | sed '/BEGIN/q' >kept", 0, "");
	snprintf(before[1], sizeof(before[1]), "%s", get_text(&f, "kept"));
	assert_string_not_equal(before[0], before[1]);
	assert_int_equal(n_degraded, 0);
	fixture_end(&f);
}

/* A server that only the policy's bundle vouches for. It prints its port. */
static const char https_server[] =
    "import http.server, ssl, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers()\n"
    "        self.wfile.write(b'inner')\n"
    "    def log_message(self, *a): pass\n"
    "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
    "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[1], sys.argv[2])\n"
    "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
    "print(s.server_port, flush=True); s.serve_forever()\n";

static unsigned
https_start(const struct fixture *f, pid_t *ret_pid)
{
	char shell[3 * PATH_MAX], cert[PATH_MAX], key[PATH_MAX], text[16] = "";
	int fds[2];

	snprintf(cert, sizeof(cert), "%s/cert.pem", f->dir);
	snprintf(key, sizeof(key), "%s/key.pem", f->dir);
	snprintf(shell, sizeof(shell),
	    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=t "
	    "-addext subjectAltName=IP:127.0.0.1 -out '%s' -keyout '%s' 2>/dev/null",
	    cert, key);
	assert_int_equal(system(shell), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fflush(NULL);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], 1);
		execlp("python3", "python3", "-c", https_server, cert, key, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	for (size_t n = 0;
	     n < sizeof(text) - 1 && read(fds[0], text + n, 1) == 1 && text[n] != '\n';)
		n++;
	close(fds[0]);
	assert_int_not_equal(atoi(text), 0);
	return (unsigned)atoi(text);
}

/*
 * The command trusts the bundle it is given and sees the proxy's certificate; the proxy checks the
 * request inside TLS.
 */
static void
interception_of_a_command(void **state)
{
	struct seen seen = { 0 };
	char shell[PATH_MAX], cert[PATH_MAX];
	struct koda_policy *p;
	struct koda_error err;
	const char *rule;
	struct fixture f;
	unsigned port;
	pid_t pid;

	fixture_prepare(&f, KODA_AUTO);
	port = https_start(&f, &pid);
	rule = literal(port);
	p = policy_with(f.root, KODA_AUTO, &rule, 1);
	snprintf(cert, sizeof(cert), "%s/cert.pem", f.dir);
	assert_int_equal(koda_policy_set_mitm(p, cert, &err), 0);
	freeze(p);
	f.options.commands = f.options.intercept = true;
	f.options.policy = p;
	fixture_open(&f);
	koda_policy_free(p);
	f.slot = fixture_acquire(&f);
	snprintf(shell, sizeof(shell), "curl -sS --noproxy '' https://127.0.0.1:%u/", port);
	expect_in(f.slot, shell, 0, "inner");
	snprintf(shell, sizeof(shell),
	    "curl -s --noproxy '' -o /dev/null -w '%%{http_code}' -H 'Host: evil.example' "
	    "https://127.0.0.1:%u/",
	    port);
	expect_in(f.slot, shell, 0, "403");
	/* The request is listed, so the proxy terminated TLS. */
	koda_slot_connections(f.slot, on_connection, &seen);
	assert_int_equal(seen.n_https, 1);
	/* The next proxy uses another key, and commands trust it as well. */
	kill_proxies();
	expect_in(f.slot, "curl -s -o /dev/null http://evil.example/", 0, "");
	snprintf(shell, sizeof(shell), "curl -sS --noproxy '' https://127.0.0.1:%u/", port);
	expect_in(f.slot, shell, 0, "inner");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fixture_end(&f);
}

/* ---- nothing is left ---- */

static void
open_and_close(void **state)
{
	const size_t certificates = count_certificates();
	int before = 0;

	for (int i = 0; i < 100; i++) {
		struct fixture f;

		fixture_prepare(&f, KODA_AUTO);
		f.options.commands = true;
		f.options.intercept = i % 10 == 9;
		fixture_open(&f);
		f.slot = fixture_acquire(&f);
		expect_in(f.slot, "curl -s -o /dev/null http://evil.example/", 0, "");
		if (i % 3 == 0)
			koda_slot_release(f.slot);
		fixture_end(&f);
		if (i == 0)
			before = count_descriptors();
	}
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(count_proxies(), 0);
	assert_int_equal(count_certificates(), certificates);
	/* The two servers are the only child processes, so no namespace is left either. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
	server_stop(&one);
	server_stop(&two);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	server_start(&one, "one\n");
	server_start(&two, "two\n");
}

/*
 * A forked child of the embedder closes its copy of the session, and the parent's network goes on.
 */
static void
forked(void **state)
{
	struct tunnel tunnel;
	struct fixture f;
	int status;
	pid_t pid;

	start_both(&f, KODA_AUTO);
	tunnel_open(&tunnel, f.slot, &one);
	tunnel_hears(&f, &tunnel, "one\n");
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		koda_session_close(f.ses);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(write(tunnel.in, "x", 1), 1);
	tunnel_hears(&f, &tunnel, "x");
	tunnel_close(&tunnel);
	reaches(f.slot, &two, "two\n");
	assert_int_equal(count_proxies(), 1);
	assert_int_equal(n_said, 0);
	fixture_end(&f);
}

/* ---- a compromised proxy ---- */

static const struct {
	const char *behaviour;
	enum koda_mode mode;
	const char *says; /* NULL: not a lie */
	bool at_start;
} lies[] = {
	{ "die-at-start", KODA_AUTO, "exited with 7", true },
	{ "garbage-start", KODA_AUTO, "is gone", true },
	{ "report-first", KODA_AUTO, "before it was ready", true },
	{ "cannot", KODA_AUTO, "it is\\x1b[2J too late", true },
	{ "other-policy", KODA_AUTO, "another policy", true },
	{ "short-digest", KODA_AUTO, "another policy", true },
	{ "other-version", KODA_AUTO, "install both from one build", true },
	{ "no-landlock", KODA_AUTO, "not confined", true },
	{ "no-seccomp", KODA_AUTO, "not confined", true },
	{ "odd-certificate", KODA_AUTO, "certificate", true },
	{ "ready-twice", KODA_AUTO, "twice", true },
	{ "garbage", KODA_AUTO, "is gone", true },
	{ "over-long", KODA_AUTO, "the limit", true },
	{ "zero-length", KODA_AUTO, "the limit", true },
	{ "half-frame", KODA_AUTO, "is gone", false },
	{ "stray-descriptor", KODA_AUTO, "descriptor", true },
	{ "slot-unknown", KODA_AUTO, "slot", true },
	{ "slot-zero", KODA_AUTO, "slot", true },
	{ "port-zero", KODA_AUTO, "invalid connection", true },
	{ "port-large", KODA_AUTO, "invalid connection", true },
	{ "kind", KODA_AUTO, "is gone", true },
	{ "outcome", KODA_AUTO, "is gone", true },
	{ "denied-and-open", KODA_AUTO, "invalid connection", true },
	{ "host-upper", KODA_AUTO, "host", true },
	{ "host-empty", KODA_AUTO, "host", true },
	{ "host-escape", KODA_AUTO, "host", true },
	{ "host-nul", KODA_AUTO, "host", true },
	{ "host-octal", KODA_AUTO, "host", true },
	{ "host-long", KODA_AUTO, "host", true },
	{ "rule-long", KODA_AUTO, "rule", true },
	{ "detail-long", KODA_AUTO, "sentence", true },
	{ "detail-nul", KODA_AUTO, "sentence", true },
	{ "ask", KODA_AUTO, "invalid question", true },
	{ "ask-zero", KODA_SAFE, "invalid question", true },
	{ "ask-port", KODA_SAFE, "invalid question", true },
	{ "ask-address", KODA_SAFE, "invalid question", true },
	{ "ask-twice", KODA_SAFE, "same question twice", true },
	{ "ask-same", KODA_SAFE, "same question twice", true },
	{ "want-socket", KODA_AUTO, "does not have", true },
	{ "synced", KODA_AUTO, "was not made", true },
	{ "quit", KODA_AUTO, "closed its socket", true },
	{ "die", KODA_AUTO, "exited with 9", false },
	{ "crash", KODA_AUTO, "SIGABRT", false },
};

static void
ignore_question(void *data, const struct koda_question *q)
{
	koda_approval_answer(q->approval, false);
}

static void
put_hostile(const struct fixture *f, const char *behaviour)
{
	char path[PATH_MAX], fresh[PATH_MAX], buf[65536];
	cleanup_close int from = open(KODA_TEST_BUILD_DIR "/tests/kit/hostile_proxy",
			      O_RDONLY | O_CLOEXEC),
			  to = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/behaviour", f->helpers);
	put_file(path, behaviour, strlen(behaviour));
	assert_true(from >= 0);
	snprintf(fresh, sizeof(fresh), "%s/fresh", f->helpers);
	snprintf(path, sizeof(path), "%s/koda-egress-proxy", f->helpers);
	to = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	close(take_fd(&to));
	assert_int_equal(rename(fresh, path), 0);
}

static void
start_hostile(struct fixture *f, enum koda_mode mode, const char *behaviour)
{
	n_said = n_degraded = 0;
	memset(said, 0, sizeof(said));
	fixture_prepare(f, mode);
	put_hostile(f, behaviour);
	f->options.commands = true;
	f->options.event = on_event;
	f->options.approve = ignore_question;
	fixture_open(f);
	f->slot = fixture_acquire(f);
}

/* Waits for the proxy until the connection ends. */
static const char waits[] = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889 && cat <&3'";

static void
lie(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start_hostile(&f, lies[i].mode, lies[i].behaviour);
	c = start_command(&f, waits);
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end;) {
		if (lies[i].at_start ? n_degraded > 0 : was_said(lies[i].says))
			break;
		assert_true(koda_session_dispatch(f.ses, 200, &err) >= 0);
	}
	if (!was_said(lies[i].says))
		fail_msg("said: '%s'", said[0]);
	/* The waiting command ends, and a new connection fails at once. */
	if (lies[i].at_start) {
		assert_int_equal(n_degraded, 1);
		assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
		expect_in(f.slot, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889'", 1, "");
		no_proxy_is_left();
	}
	koda_command_free(c);
	/* Everything else goes on. */
	expect_in(f.slot, "echo on", 0, "on\n");
	fixture_end(&f);
}

/* Text from the proxy is escaped. */
static void
lies_are_shown_as_they_are(void **state)
{
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct seen seen = { 0 };
	struct fixture f;

	start_hostile(&f, KODA_AUTO, "escape-codes");
	c = start_command(&f, waits);
	for (uint64_t end = clock_ms() + PATIENCE_MS; seen.n == 0 && clock_ms() < end;) {
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
		koda_slot_connections(f.slot, on_connection, &seen);
	}
	assert_string_equal(seen.rule, "\\x1b[2J");
	koda_command_end(c);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), 0);
	assert_int_equal(r.n_violations, 1);
	assert_string_equal(r.violations[0].target, "a.example:443");
	assert_string_equal(r.violations[0].rule, "\\x1b[2J");
	assert_null(strchr(r.violations[0].detail, '\x9b'));
	koda_command_result_done(&r);
	koda_command_free(c);
	fixture_end(&f);
}

/*
 * The proxy floods the host with reports, or never starts to report: the host does not wait for it.
 */
static void
floods_and_silence(void **state)
{
	static const char *const behaviours[] = { "flood", "silent", "silent-start" };
	uint64_t began;

	for (size_t i = 0; i < N_ELEMENTS(behaviours); i++) {
		struct koda_command *c;
		struct fixture f;

		start_hostile(&f, KODA_AUTO, behaviours[i]);
		c = start_command(&f, waits);
		began = clock_ms();
		for (int k = 0; k < 5; k++)
			expect_in(f.slot, "echo on", 0, "on\n");
		koda_slot_connections(f.slot, on_connection, &(struct seen){ 0 });
		koda_command_free(c);
		fixture_end(&f);
		assert_true(clock_ms() - began < PATIENCE_MS);
	}
}

int
main(void)
{
	static const char *const foreign[] = { "HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
		"http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy" };
	static char lie_name[N_ELEMENTS(lies)][64], variable_name[N_ELEMENTS(variables)][96];
	const struct CMUnitTest fixed[] = {
		cmocka_unit_test(allowed),
		cmocka_unit_test(denied),
		cmocka_unit_test(nothing_is_allowed),
		cmocka_unit_test(rules_of_one_slot_never_serve_another),
		cmocka_unit_test(one_process_a_policy),
		cmocka_unit_test(who_needs_none_has_none),
		cmocka_unit_test(killed),
		cmocka_unit_test(killed_while_many_wait),
		cmocka_unit_test(connections_are_listed),
		cmocka_unit_test(connections_are_bounded),
		cmocka_unit_test(ask_no),
		cmocka_unit_test(ask_once),
		cmocka_unit_test(ask_session),
		cmocka_unit_test(ask_and_answer_later),
		cmocka_unit_test(ask_withdrawn),
		cmocka_unit_test(ask_and_die),
		cmocka_unit_test(ask_and_answer_at_death),
		cmocka_unit_test(ask_and_leave),
		cmocka_unit_test(ask_and_leave_from_there),
		cmocka_unit_test(scope_of_a_command),
		cmocka_unit_test(nobody_to_ask),
		cmocka_unit_test(socket_map),
		cmocka_unit_test(upstream_is_never_passed_by),
		cmocka_unit_test(bundle),
		cmocka_unit_test(interception),
		cmocka_unit_test(interception_of_a_command),
		cmocka_unit_test(open_and_close),
		cmocka_unit_test(forked),
		cmocka_unit_test(lies_are_shown_as_they_are),
		cmocka_unit_test(floods_and_silence),
	};
	struct CMUnitTest tests[N_ELEMENTS(fixed) + N_ELEMENTS(lies) + N_ELEMENTS(variables)];
	size_t n = N_ELEMENTS(fixed);
	int r;

	for (size_t i = 0; i < N_ELEMENTS(foreign); i++)
		unsetenv(foreign[i]);
	memcpy(tests, fixed, sizeof(fixed));
	for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
		snprintf(variable_name[i], sizeof(variable_name[i]), "%s=%s", variables[i].name,
		    variables[i].value);
		tests[n++] =
		    (struct CMUnitTest){ variable_name[i], upstream, NULL, NULL, (void *)i };
	}
	for (size_t i = 0; i < N_ELEMENTS(lies); i++) {
		snprintf(lie_name[i], sizeof(lie_name[i]), "lie: %s", lies[i].behaviour);
		tests[n++] = (struct CMUnitTest){ lie_name[i], lie, NULL, NULL, (void *)i };
	}
	server_start(&one, "one\n");
	server_start(&two, "two\n");
	r = _cmocka_run_group_tests("egress", tests, n, NULL, NULL);
	server_stop(&one);
	server_stop(&two);
	return r;
}
