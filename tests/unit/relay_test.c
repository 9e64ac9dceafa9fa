/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/serve/relay.c between real sockets. Another process plays the two ends and checks each
 * byte, so that the loop here does nothing but relay.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/cases.h"
#include <cmocka.h>

static double idle_secs = 600;
#define PROXY_HEAD_SECS 10.0
#define PROXY_KEEP_SECS 10.0
#define PROXY_DIAL_SECS 10.0
#define PROXY_IDLE_SECS idle_secs
#define PROXY_ASK_SECS  10.0
#include "proxy/serve/relay.c" // NOLINT(bugprone-suspicious-include)

#define GUARD_SECS 60.0
#define MIB        (1u << 20)

enum kind { UNIX, TCP };

static size_t
open_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Makes a connected pair; fds[0] is for the relay. */
static void
make_pair(enum kind kind, int fds[2])
{
	if (kind == UNIX) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	} else {
		struct sockaddr_in sin = { .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(sin);
		int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(bind(l, (struct sockaddr *)&sin, sizeof(sin)), 0);
		assert_int_equal(listen(l, 1), 0);
		assert_int_equal(getsockname(l, (struct sockaddr *)&sin, &len), 0);
		fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fds[1], (struct sockaddr *)&sin, sizeof(sin)), 0);
		fds[0] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		assert_true(fds[0] >= 0);
		close(l);
	}
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
}

static void
not_blocking(int fd)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* ---- the other process: both ends ---- */

struct peer {
	uint64_t send, sent;   /* bytes */
	uint64_t want, got;    /* want: what the other end sends */
	bool after_eof;        /* sends only after it has read the end */
	bool deaf;             /* reads nothing */
	uint64_t reset_after;  /* closes with a reset after having sent that much; 0: never */
	bool eof, reset, shut; /* what happened */
	bool whole;            /* the end came without a reset */
	int fd;
};

static unsigned char
byte_at(unsigned seed, uint64_t i)
{
	uint64_t x = (i >> 3) * UINT64_C(0x9e3779b97f4a7c15) + seed;

	x ^= x >> 29;
	return (unsigned char)(x >> (8 * (i & 7)));
}

static bool
peer_over(const struct peer *p)
{
	return p->fd < 0 || (p->shut && (p->eof || p->deaf));
}

static void
peer_step(struct peer *p, unsigned seed, unsigned other_seed, size_t chunk)
{
	static unsigned char buf[MIB];
	size_t n = 1 + (size_t)random() % chunk;

	if (!p->shut && !(p->after_eof && !p->eof)) {
		if (n > p->send - p->sent)
			n = (size_t)(p->send - p->sent);
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(seed, p->sent + i);
		ssize_t k = n > 0 ? send(p->fd, buf, n, MSG_NOSIGNAL) : 0;
		if (k > 0)
			p->sent += (uint64_t)k;
		else if (k < 0 && errno != EAGAIN) {
			p->reset = p->shut = true;
		}
		if (p->reset_after > 0 && p->sent >= p->reset_after) {
			setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
			    sizeof(struct linger));
			close(p->fd);
			p->fd = -1;
			return;
		}
		if (p->sent == p->send && !p->shut) {
			shutdown(p->fd, SHUT_WR);
			p->shut = true;
		}
	}
	if (!p->eof && !p->deaf) {
		ssize_t k = recv(p->fd, buf, 1 + (size_t)random() % chunk, 0);

		if (k == 0) {
			p->eof = true;
			p->whole = !p->reset;
		} else if (k < 0 && errno != EAGAIN) {
			p->reset = p->eof = p->shut = true;
		}
		for (ssize_t i = 0; i < k; i++)
			if (buf[i] != byte_at(other_seed, p->got + (uint64_t)i)) {
				fprintf(stderr, "byte %llu differs\n",
				    (unsigned long long)(p->got + (uint64_t)i));
				_exit(1);
			}
		if (k > 0)
			p->got += (uint64_t)k;
	}
}

static void
play(struct peer peer[2], size_t chunk, bool pauses)
{
	while (!peer_over(&peer[0]) || !peer_over(&peer[1])) {
		struct pollfd pfd[2];

		for (int i = 0; i < 2; i++) {
			struct peer *p = &peer[i];

			if (!peer_over(p))
				peer_step(p, (unsigned)i, (unsigned)!i, chunk);
			pfd[i].fd = peer_over(p) ? -1 : p->fd;
			pfd[i].events = (p->eof || p->deaf ? 0 : POLLIN) |
			    (p->shut || (p->after_eof && !p->eof) ? 0 : POLLOUT);
		}
		if (pfd[0].fd >= 0 || pfd[1].fd >= 0)
			poll(pfd, 2, -1);
		if (pauses && random() % 8 == 0)
			usleep((useconds_t)(random() % 3000));
	}
}

/* ---- the relay ---- */

struct run {
	struct proxy *proxy;
	struct account account;
	struct relay *relay;
	bool ended;
	enum relay_end why;
	ev_timer guard;
	pid_t child;
	size_t before;
};

static void
on_guard(struct ev_loop *loop, ev_timer *t, int revents)
{
	fail_msg("nothing has come of it in %g s", GUARD_SECS);
}

static void
run_init(struct run *run)
{
	static struct proxy proxy;

	*run = (struct run){ .before = open_descriptors(), .proxy = &proxy };
	proxy.loop = ev_loop_new(EVFLAG_NOSIGMASK);
	proxy.pool = relay_pool_new();
	assert_non_null(run->proxy->pool);
	ev_timer_init(&run->guard, on_guard, GUARD_SECS, 0);
	ev_timer_start(run->proxy->loop, &run->guard);
}

static int
run_child(struct run *run)
{
	int status = 0;

	if (run->child == 0)
		return 0;
	assert_int_equal(waitpid(run->child, &status, 0), run->child);
	run->child = 0;
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
run_done(struct run *run)
{
	assert_int_equal(run_child(run), 0);
	assert_int_equal(run->proxy->pool->n, run->proxy->pool->n_kept);
	assert_true(run->proxy->pool->n_kept <= PIPES_KEPT);
	for (const struct pipe *p = run->proxy->pool->kept; p != NULL; p = p->next) {
		int left = -1; /* would appear in another stream */

		assert_int_equal(ioctl(p->r, FIONREAD, &left), 0);
		assert_int_equal(left, 0);
	}
	relay_pool_free(run->proxy->pool);
	ev_timer_stop(run->proxy->loop, &run->guard);
	ev_loop_destroy(run->proxy->loop);
	assert_int_equal(open_descriptors(), run->before);
}

static void
on_end(void *data, enum relay_end why)
{
	struct run *run = data;

	assert_false(run->ended);
	run->ended = true;
	run->why = why;
	ev_break(run->proxy->loop, EVBREAK_ALL);
}

static void
run_start(struct run *run, int client, int server, const char *up, const char *down)
{
	run->relay = relay_start(run->proxy, client, server, up, up != NULL ? strlen(up) : 0, down,
	    down != NULL ? strlen(down) : 0, &run->account, on_end, run);
	assert_non_null(run->relay);
	assert_false(run->ended);
}

static pid_t
fork_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void
on_wake(struct ev_loop *loop, ev_timer *t, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void
loop_for(struct ev_loop *loop, double secs)
{
	ev_timer t;

	ev_now_update(loop);
	ev_timer_init(&t, on_wake, secs, 0);
	ev_timer_start(loop, &t);
	ev_run(loop, 0);
	ev_timer_stop(loop, &t);
}

/* ---- bytes ---- */

static const struct transfer {
	const char *label;
	enum kind kind;
	uint64_t up, down;
	size_t chunk;
	bool pauses;
	bool client_waits, server_waits; /* for the other's end, before it sends */
} transfers[] = {
	{ "nothing", TCP, 0, 0, 1, false, false, false },
	{ "one byte up", TCP, 1, 0, 1, false, false, false },
	{ "one byte down", TCP, 0, 1, 1, false, false, false },
	{ "small pieces with pauses", TCP, 30000, 40000, 100, true, false, false },
	{ "one buffer exactly", TCP, COPY_MAX, COPY_MAX, MIB, false, false, false },
	{ "one buffer and a byte", TCP, COPY_MAX + 1, COPY_MAX + 1, MIB, false, false, false },
	{ "much up", TCP, 40 * MIB, 10, MIB, false, false, false },
	{ "much down", TCP, 10, 40 * MIB, MIB, false, false, false },
	{ "much both ways", TCP, 30 * MIB, 30 * MIB, MIB, false, false, false },
	{ "much both ways, with pauses", TCP, 12 * MIB + 17, 9 * MIB + 3, 200000, true, false,
	    false },
	{ "middling pieces, with pauses", TCP, 3 * MIB + 1, 2 * MIB + 5, 20000, true, false,
	    false },
	{ "answer after the end of the request", TCP, 5 * MIB, 7 * MIB, MIB, false, false, true },
	{ "request after the end of the answer", TCP, 7 * MIB, 5 * MIB, MIB, false, true, false },
	{ "Unix: small pieces", UNIX, 30000, 40000, 100, true, false, false },
	{ "Unix: much both ways", UNIX, 20 * MIB, 20 * MIB, MIB, false, false, false },
	{ "Unix: much both ways, with pauses", UNIX, 5 * MIB + 1, 5 * MIB + 7, 150000, true, false,
	    false },
	{ "Unix: answer after the end of the request", UNIX, MIB, MIB, MIB, false, false, true },
};

static void
check_transfer(void **state)
{
	const struct transfer *t = &transfers[(uintptr_t)*state];
	struct run run;
	int client[2], server[2];

	run_init(&run);
	make_pair(t->kind, client);
	make_pair(t->kind, server);
	run.child = fork_child();
	if (run.child == 0) {
		struct peer peer[2] = {
			{ .fd = client[1],
			    .send = t->up,
			    .want = t->down,
			    .after_eof = t->client_waits },
			{ .fd = server[1],
			    .send = t->down,
			    .want = t->up,
			    .after_eof = t->server_waits },
		};

		close(client[0]);
		close(server[0]);
		srandom(1);
		for (int i = 0; i < 2; i++)
			not_blocking(peer[i].fd);
		play(peer, t->chunk, t->pauses);
		for (int i = 0; i < 2; i++)
			if (peer[i].got != peer[i].want || peer[i].reset)
				_exit(2);
		_exit(0);
	}
	close(client[1]);
	close(server[1]);
	run_start(&run, client[0], server[0], NULL, NULL);
	ev_run(run.proxy->loop, 0);
	assert_true(run.ended);
	assert_int_equal(run.why, RELAY_DONE);
	assert_int_equal(run.account.up, t->up);
	assert_int_equal(run.account.down, t->down);
	run_done(&run);
}

static void
check_first_bytes(void **state)
{
	struct run run;
	int client[2], server[2];
	char buf[64] = "";

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	assert_int_equal(write(client[1], " world", 6), 6);
	assert_int_equal(write(server[1], " monde", 6), 6);
	shutdown(client[1], SHUT_WR);
	shutdown(server[1], SHUT_WR);
	run_start(&run, client[0], server[0], "hello", "bonjour");
	ev_run(run.proxy->loop, 0);
	assert_int_equal(recv(server[1], buf, sizeof(buf), MSG_WAITALL), 11);
	assert_string_equal(buf, "hello world");
	memset(buf, 0, sizeof(buf));
	assert_int_equal(recv(client[1], buf, sizeof(buf), MSG_WAITALL), 13);
	assert_string_equal(buf, "bonjour monde");
	assert_int_equal(run.why, RELAY_DONE);
	assert_int_equal(run.account.up, 11);
	assert_int_equal(run.account.down, 13);
	close(client[1]);
	close(server[1]);
	run_done(&run);
}

/* In the middle of bulk data, one byte that TCP calls urgent: it belongs to neither stream, and
 * what follows it arrives. splice() stops before it for good, though the socket is readable, and
 * reports the end when the sender has ended. */
static void
check_urgent(void **state)
{
	bool ends = *state != NULL;
	struct run run;
	int client[2], server[2];

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	run.child = fork_child();
	if (run.child == 0) {
		static unsigned char buf[MIB];
		size_t got = 0;
		ssize_t n = 0;

		close(client[0]);
		close(server[0]);
		if (fork() == 0)
			_exit(send(client[1], buf, MIB, 0) == MIB &&
				    send(client[1], "!", 1, MSG_OOB) == 1 &&
				    send(client[1], buf, MIB, 0) == MIB
				? 0
				: 3);
		if (ends)
			close(client[1]);
		while (got < 2 * MIB && (n = recv(server[1], buf, sizeof(buf), 0)) > 0)
			got += (size_t)n;
		_exit(got == 2 * MIB ? 0 : 4);
	}
	close(client[1]);
	close(server[1]);
	run_start(&run, client[0], server[0], NULL, NULL);
	ev_run(run.proxy->loop, 0);
	assert_true(run.ended);
	assert_int_equal(run.account.up, 2 * MIB);
	run_done(&run);
}

/* The end of one direction is passed on while the other goes on, and not before all bytes are
 * out. */
static void
check_half_close(void **state)
{
	bool of_server = *state != NULL;
	struct run run;
	int client[2], server[2], first, second;
	char buf[16];

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	first = of_server ? server[1] : client[1];
	second = of_server ? client[1] : server[1];
	run_start(&run, client[0], server[0], NULL, NULL);
	assert_int_equal(write(first, "bye", 3), 3);
	shutdown(first, SHUT_WR);
	loop_for(run.proxy->loop, 0.05);
	assert_int_equal(recv(second, buf, sizeof(buf), 0), 3);
	assert_int_equal(recv(second, buf, sizeof(buf), 0), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(write(second, "more", 4), 4);
		loop_for(run.proxy->loop, 0.02);
		assert_int_equal(recv(first, buf, sizeof(buf), MSG_DONTWAIT), 4);
		assert_false(run.ended);
	}
	shutdown(second, SHUT_WR);
	ev_run(run.proxy->loop, 0);
	assert_int_equal(run.why, RELAY_DONE);
	assert_int_equal(recv(first, buf, sizeof(buf), 0), 0);
	close(client[1]);
	close(server[1]);
	run_done(&run);
}

/* ---- an end that does not read ---- */

static long
resident_kib(void)
{
	long size, resident;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
	fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void
on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void
check_slow_reader(void **state)
{
	struct run run;
	int client[2], server[2], full[2], go[2];
	uint64_t sent = 0;
	long before;
	unsigned turns;
	ev_io io;

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	assert_int_equal(pipe2(full, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	run.child = fork_child();
	if (run.child == 0) {
		struct peer peer[2] = { { .fd = client[1], .deaf = true },
			{ .fd = server[1], .send = UINT64_MAX, .deaf = true } };
		struct pollfd pfd = { .fd = server[1], .events = POLLOUT };
		char c;

		close(client[0]);
		close(server[0]);
		close(go[1]);
		not_blocking(client[1]);
		not_blocking(server[1]);
		while (poll(&pfd, 1, 300) == 1)
			peer_step(&peer[1], 1, 0, MIB);
		if (write(full[1], &peer[1].sent, sizeof(uint64_t)) != sizeof(uint64_t) ||
		    read(go[0], &c, 1) != 1)
			_exit(2);
		peer[1].send = peer[1].sent + 5 * MIB;
		peer[0] = (struct peer){ .fd = client[1], .want = peer[1].send };
		peer[1].deaf = false;
		play(peer, MIB, false);
		_exit(peer[0].got == peer[0].want && !peer[0].reset ? 0 : 3);
	}
	close(client[1]);
	close(server[1]);
	run_start(&run, client[0], server[0], NULL, NULL);
	before = resident_kib();
	ev_io_init(&io, on_readable, full[0], EV_READ);
	ev_io_start(run.proxy->loop, &io);
	ev_run(run.proxy->loop, 0);
	ev_io_stop(run.proxy->loop, &io);
	assert_false(run.ended);
	assert_int_equal(read(full[0], &sent, sizeof(sent)), sizeof(sent));
	/* The kernel buffers some; the relay holds one pipe at most. */
	assert_true(resident_kib() - before < 1024);
	assert_true(run.proxy->pool->n <= 1);
	assert_true(run.account.down <= sent);
	turns = ev_iteration(run.proxy->loop);
	loop_for(run.proxy->loop, 0.2);
	assert_true(ev_iteration(run.proxy->loop) - turns <= 3);
	assert_int_equal(write(go[1], "x", 1), 1);
	ev_run(run.proxy->loop, 0);
	assert_int_equal(run.why, RELAY_DONE);
	assert_int_equal(run.account.down, sent + 5 * MIB);
	for (int i = 0; i < 2; i++) {
		close(full[i]);
		close(go[i]);
	}
	run_done(&run);
}

/* Streams whose ends do not read hold all pipes: the next stream is copied, and complete. */
static void
check_pipes_held(void **state)
{
	enum { HELD = PIPES_MAX + 4 };
	struct run run, held[HELD];
	int client[HELD][2], server[HELD][2], c[2], s[2];
	static char block[MIB];
	pid_t child;

	run_init(&run);
	for (int i = 0; i < HELD; i++) {
		make_pair(TCP, client[i]);
		make_pair(TCP, server[i]);
		not_blocking(server[i][1]);
		held[i] = (struct run){ .proxy = run.proxy };
		run_start(&held[i], client[i][0], server[i][0], NULL, NULL);
	}
	for (int round = 0; round < 400; round++) {
		bool moved_any = false;

		for (int i = 0; i < HELD; i++)
			moved_any |= send(server[i][1], block, sizeof(block), MSG_NOSIGNAL) > 0;
		for (int k = 0; k < 10; k++)
			ev_run(run.proxy->loop, EVRUN_NOWAIT);
		if (!moved_any)
			break;
	}
	assert_true(run.proxy->pool->n <= PIPES_MAX);
	assert_true(run.proxy->pool->n >= 1);
	make_pair(TCP, c);
	make_pair(TCP, s);
	child = fork_child();
	if (child == 0) {
		struct peer peer[2] = { { .fd = c[1], .send = 3 * MIB, .want = 4 * MIB },
			{ .fd = s[1], .send = 4 * MIB, .want = 3 * MIB } };

		close(c[0]);
		close(s[0]);
		not_blocking(c[1]);
		not_blocking(s[1]);
		play(peer, MIB, false);
		_exit(peer[0].got == peer[0].want && peer[1].got == peer[1].want ? 0 : 2);
	}
	run.child = child;
	close(c[1]);
	close(s[1]);
	run_start(&run, c[0], s[0], NULL, NULL);
	ev_run(run.proxy->loop, 0);
	assert_true(run.ended);
	assert_int_equal(run.why, RELAY_DONE);
	for (int i = 0; i < HELD; i++) {
		relay_cancel(held[i].relay);
		close(client[i][1]);
		close(server[i][1]);
	}
	run_done(&run);
}

/* ---- broken ends ---- */

static void
check_reset(void **state)
{
	bool of_server = (uintptr_t)*state & 1;
	uint64_t after = (uintptr_t)*state & 2 ? 3 * MIB : 1000;
	/* The end that stays sends, so that a write often fails. */
	bool speaks = (uintptr_t)*state & 4;
	struct run run;
	int client[2], server[2];

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	run.child = fork_child();
	if (run.child == 0) {
		struct peer peer[2] = { { .fd = client[1], .send = UINT64_MAX },
			{ .fd = server[1], .send = UINT64_MAX } };
		struct peer *stays = &peer[!of_server];

		close(client[0]);
		close(server[0]);
		not_blocking(client[1]);
		not_blocking(server[1]);
		peer[of_server].reset_after = after;
		stays->send = speaks ? UINT64_MAX : 0;
		stays->after_eof = !speaks;
		play(peer, MIB, false);
		_exit(stays->reset && !stays->whole ? 0 : 2);
	}
	close(client[1]);
	close(server[1]);
	run_start(&run, client[0], server[0], NULL, NULL);
	ev_run(run.proxy->loop, 0);
	assert_int_equal(run.why, RELAY_BROKEN);
	run_done(&run);
}

/* A write finds the reset and consumes the error: the read after it reports "end". */
static void
check_reset_written_to(void **state)
{
	struct run run;
	int client[2], server[2];
	char c;

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	run_start(&run, client[0], server[0], NULL, NULL);
	ev_run(run.proxy->loop, EVRUN_NOWAIT);
	reset_on_close(server[1]);
	close(server[1]);
	assert_int_equal(write(client[1], "x", 1), 1); /* libev handles it first */
	ev_run(run.proxy->loop, 0);
	assert_int_equal(run.why, RELAY_BROKEN);
	assert_int_equal(recv(client[1], &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(client[1]);
	run_done(&run);
}

/* A server that answers without having read its input, and closes: the answer arrives. */
static void
check_early_answer(void **state)
{
	struct run run;
	int client[2], server[2];
	char buf[20000];
	size_t got = 0;
	ssize_t n;

	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	run_start(&run, client[0], server[0], NULL, NULL);
	assert_int_equal(write(client[1], "much", 4), 4);
	loop_for(run.proxy->loop, 0.05);
	memset(buf, 'a', sizeof(buf));
	assert_int_equal(write(server[1], buf, sizeof(buf)), sizeof(buf));
	shutdown(server[1], SHUT_WR);
	close(server[1]); /* "much" was not read: a reset follows the end */
	assert_int_equal(write(client[1], "more", 4), 4);
	ev_run(run.proxy->loop, 0);
	assert_true(run.ended);
	while ((n = recv(client[1], buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		got += (size_t)n;
	assert_int_equal(got, sizeof(buf));
	close(client[1]);
	run_done(&run);
}

static void
check_cancel(void **state)
{
	for (int turns = 0; turns < 100; turns += turns < 5 ? 1 : 9) {
		struct run run;
		int client[2], server[2];

		run_init(&run);
		make_pair(TCP, client);
		make_pair(TCP, server);
		run.child = fork_child();
		if (run.child == 0) {
			struct peer peer[2] = { { .fd = client[1], .send = UINT64_MAX },
				{ .fd = server[1], .send = UINT64_MAX } };

			close(client[0]);
			close(server[0]);
			not_blocking(client[1]);
			not_blocking(server[1]);
			play(peer, MIB, false);
			/* A partial transfer must not look complete. */
			_exit(peer[0].reset && peer[1].reset ? 0 : 2);
		}
		close(client[1]);
		close(server[1]);
		run_start(&run, client[0], server[0], NULL, NULL);
		for (int i = 0; i < turns; i++)
			ev_run(run.proxy->loop, EVRUN_ONCE);
		assert_false(run.ended);
		relay_cancel(run.relay);
		run_done(&run);
	}
}

/* ---- many relays, and idle ones ---- */

static void
check_idle_thousand(void **state)
{
	enum { RELAYS = 1000 };
	static struct run runs[RELAYS];
	static int client[RELAYS][2], server[RELAYS][2];
	struct rlimit limit;
	struct run run;
	long before, each;
	unsigned turns;
	struct rusage u0, u1;

	run_init(&run);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < 4 * RELAYS + 100)
		fail_msg("%llu descriptors are too few", (unsigned long long)limit.rlim_cur);
	for (int i = 0; i < RELAYS; i++) {
		make_pair(UNIX, client[i]);
		make_pair(UNIX, server[i]);
	}
	before = resident_kib();
	for (int i = 0; i < RELAYS; i++) {
		runs[i] = (struct run){ .proxy = run.proxy };
		run_start(&runs[i], client[i][0], server[i][0], NULL, NULL);
	}
	for (int i = 0; i < RELAYS; i++) /* each has been used */
		assert_int_equal(write(client[i][1], "x", 1), 1);
	loop_for(run.proxy->loop, 0.2);
	each = (resident_kib() - before) * 1024 / RELAYS;
	print_message("# %ld bytes for each idle relay\n", each);
	assert_true(each < 4096);
	turns = ev_iteration(run.proxy->loop);
	getrusage(RUSAGE_SELF, &u0);
	loop_for(run.proxy->loop, 0.5);
	getrusage(RUSAGE_SELF, &u1);
	assert_true(ev_iteration(run.proxy->loop) - turns <= 3);
	for (int i = 0; i < RELAYS; i++) {
		char c;

		assert_int_equal(recv(server[i][1], &c, 1, MSG_DONTWAIT), 1);
		assert_int_equal(runs[i].account.up, 1);
		relay_cancel(runs[i].relay);
		close(client[i][1]);
		close(server[i][1]);
	}
	run_done(&run);
}

static void
check_idle(void **state)
{
	struct run run;
	int client[2], server[2];
	ev_tstamp start;

	idle_secs = 0.6;
	run_init(&run);
	make_pair(TCP, client);
	make_pair(TCP, server);
	run_start(&run, client[0], server[0], NULL, NULL);
	/* Traffic in one direction is enough. */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(write(server[1], "x", 1), 1);
		loop_for(run.proxy->loop, 0.15);
		assert_false(run.ended);
	}
	start = ev_time();
	ev_run(run.proxy->loop, 0);
	assert_true(run.ended);
	assert_int_equal(run.why, RELAY_IDLE);
	assert_true(ev_time() - start > 0.3);
	idle_secs = 600;
	close(client[1]);
	close(server[1]);
	run_done(&run);
}

/* ---- others on the loop of a bulk transfer ---- */

static void
check_fair(void **state)
{
	struct run bulk, small;
	int client[2], server[2], c[2], s[2];
	double worst = 0;

	run_init(&bulk);
	make_pair(TCP, client);
	make_pair(TCP, server);
	make_pair(TCP, c);
	make_pair(TCP, s);
	bulk.child = fork_child();
	if (bulk.child == 0) {
		static char buf[MIB];
		pid_t reader = fork();

		close(client[0]);
		close(server[0]);
		if (reader == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (read(client[1], buf, sizeof(buf)) > 0)
				;
			_exit(0);
		}
		while (send(server[1], buf, sizeof(buf), MSG_NOSIGNAL) > 0)
			;
		waitpid(reader, NULL, 0);
		_exit(0);
	}
	close(client[1]);
	close(server[1]);
	small = (struct run){ .proxy = bulk.proxy };
	run_start(&bulk, client[0], server[0], NULL, NULL);
	run_start(&small, c[0], s[0], NULL, NULL);
	while (bulk.account.down < 16 * MIB)
		ev_run(bulk.proxy->loop, EVRUN_ONCE);
	for (int i = 0; i < 100 || bulk.account.down < 128 * MIB; i++) {
		double start = ev_time(), took;
		char x;

		assert_int_equal(write(c[1], "x", 1), 1);
		while (recv(s[1], &x, 1, MSG_DONTWAIT) != 1)
			ev_run(bulk.proxy->loop, EVRUN_ONCE);
		took = ev_time() - start;
		worst = took > worst ? took : worst;
	}
	print_message("# beside a bulk transfer: %.2f ms at worst, %llu MiB meanwhile\n",
	    worst * 1e3, (unsigned long long)(bulk.account.down / MIB));
	assert_true(worst < 0.5);
	relay_cancel(bulk.relay);
	relay_cancel(small.relay);
	close(c[1]);
	close(s[1]);
	run_done(&bulk);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(transfers) + 64];
	size_t n = 0;

	signal(SIGPIPE, SIG_IGN);
	CASES(transfers, check_transfer);
#define CASE(label, fn, arg)                                                                       \
	tests[n++] = (struct CMUnitTest){ label, fn, NULL, NULL, (void *)(uintptr_t)(arg) }
	CASE("bytes that were read before go first", check_first_bytes, 0);
	CASE("an urgent byte in the middle of bulk", check_urgent, 0);
	CASE("an urgent byte in the middle of bulk that ends", check_urgent, 1);
	CASE("the client ends, the server goes on", check_half_close, 0);
	CASE("the server ends, the client goes on", check_half_close, 1);
	CASE("a reader that does not read", check_slow_reader, 0);
	CASE("more streams that stand still than pipes", check_pipes_held, 0);
	CASE("the client resets early", check_reset, 0);
	CASE("the server resets early", check_reset, 1);
	CASE("the client resets in a transfer", check_reset, 2);
	CASE("the server resets in a transfer", check_reset, 3);
	CASE("a reset that a write finds", check_reset_written_to, 0);
	for (size_t i = 0; i < 4; i++)
		CASE("one resets while both speak", check_reset, 4 | (i & 3));
	CASE("an answer before the request was read", check_early_answer, 0);
	CASE("cancelled", check_cancel, 0);
	CASE("a thousand that say nothing", check_idle_thousand, 0);
	CASE("silence in both directions", check_idle, 0);
	CASE("one byte beside a bulk transfer", check_fair, 0);
	return _cmocka_run_group_tests("relay", tests, n, NULL, NULL);
}
