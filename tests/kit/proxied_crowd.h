/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers, clients in slots, and processes to kill, for tests/chaos/killed_proxies_test.c.
 */
#ifndef KODA_TESTS_KIT_PROXIED_CROWD_H
#define KODA_TESTS_KIT_PROXIED_CROWD_H

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shared/wire/protocol.h"
#include "tests/kit/hosting.h"
#include "tests/kit/sanitized.h"

/* In the project: the sandbox shows no other directory of the test. */
#define PROGRAM  "egress-client"
#define SERVERS  4 /* no slot may reach the last one */
#define SLOTS    4
#define WORKERS  6 /* processes of a command, one connection each at a time */
#define BULK_MAX (1u << 20)
#define HOLD     UINT32_MAX /* as `up`: as much as possible */

static uint64_t seed;

static unsigned
dice(unsigned sides)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % sides;
}

static unsigned
number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : (unsigned)strtoul(text, NULL, 10);
}

/* ---- what both ends of a connection share ---- */

/* The first byte is not that of a TLS record. */
static const char magic[4] = "KODA";
struct hello {
	char magic[4];
	uint32_t slot;
	uint64_t id;
	uint32_t up, down; /* bytes after this header, and of the answer */
	uint64_t check;
};

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t
hello_check(const struct hello *h)
{
	return mix(h->id ^ mix(((uint64_t)h->up << 32 | h->down) + h->slot));
}

/* Fills in the bytes from offset on of what that connection carries up (0) or down (1); they are
 * unique to it. */
static void
pattern(uint64_t id, unsigned way, uint64_t offset, unsigned char *ret, size_t n)
{
	for (size_t i = 0; i < n; i++, offset++)
		ret[i] = (unsigned char)(mix(id * 2 + way + mix(offset / 8)) >> (offset % 8 * 8));
}

static bool
is_pattern(uint64_t id, unsigned way, uint64_t offset, const unsigned char *bytes, size_t n)
{
	unsigned char want[512];

	for (size_t i = 0, part; i < n; i += part) {
		part = n - i < sizeof(want) ? n - i : sizeof(want);
		pattern(id, way, offset + i, want, part);
		if (memcmp(want, bytes + i, part) != 0)
			return false;
	}
	return true;
}

/* ---- the servers, in one process unknown to the session ---- */

struct counts {
	unsigned accepted[SERVERS];
	unsigned whole[SLOTS]; /* connections that were complete in both directions */
	unsigned fresh[SLOTS]; /* those that began in this epoch */
	unsigned epoch;
	unsigned intruders; /* from a slot that may not come here */
	unsigned mixed;     /* with bytes of another connection */
	unsigned open;
};

struct served {
	int fd;
	unsigned server, epoch;
	struct hello hello;
	size_t n_hello;
	uint64_t got, sent;
	bool ended; /* by the client */
};

struct servers {
	unsigned port[SERVERS];
	int fd[SERVERS];
	volatile struct counts *counts; /* shared memory */
	pid_t pid;
	int life; /* closing it ends them */
};

/* Slots 0 and 1 have the same policy, hence the same proxy. */
static const unsigned server_of[SLOTS] = { 0, 0, 1, 2 };

static bool
hello_is_good(const struct served *s, volatile struct counts *counts)
{
	if (memcmp(s->hello.magic, magic, sizeof(magic)) != 0 ||
	    s->hello.check != hello_check(&s->hello) || s->hello.slot >= SLOTS) {
		counts->mixed++;
		return false;
	}
	if (server_of[s->hello.slot] != s->server) {
		counts->intruders++;
		return false;
	}
	return true;
}

static bool
served_send(struct served *s)
{
	unsigned char buf[16384];

	while (s->sent < s->hello.down) {
		uint64_t left = s->hello.down - s->sent;
		size_t n = left < sizeof(buf) ? left : sizeof(buf);
		ssize_t r;

		pattern(s->hello.id, 1, s->sent, buf, n);
		r = send(s->fd, buf, n, MSG_NOSIGNAL);
		if (r < 0)
			return errno == EAGAIN;
		s->sent += (uint64_t)r;
	}
	return true;
}

/* Returns -1 if the connection is over or must be closed. */
static int
served_receive(struct served *s, volatile struct counts *counts)
{
	unsigned char buf[65536];
	ssize_t n;

	while (s->n_hello < sizeof(s->hello)) {
		n = recv(s->fd, (char *)&s->hello + s->n_hello, sizeof(s->hello) - s->n_hello, 0);
		if (n <= 0)
			return n < 0 && errno == EAGAIN ? 0 : -1;
		s->n_hello += (size_t)n;
		if (s->n_hello == sizeof(s->hello) && !hello_is_good(s, counts))
			return -1;
	}
	while (!s->ended) {
		n = recv(s->fd, buf, sizeof(buf), 0);
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		s->ended = n == 0;
		if (!is_pattern(s->hello.id, 0, s->got, buf, (size_t)n)) {
			counts->mixed++;
			return -1;
		}
		s->got += (uint64_t)n;
	}
	return 0;
}

/* Returns false if the connection is over. */
static bool
served_more(struct served *s, volatile struct counts *counts)
{
	if (served_receive(s, counts) < 0)
		return false;
	if (s->n_hello < sizeof(s->hello))
		return true;
	/* A held connection gets no answer until the client has sent everything. */
	if (s->hello.up == HOLD && !s->ended)
		return true;
	if (!served_send(s))
		return false;
	if (!s->ended || s->sent < s->hello.down)
		return true;
	if (s->hello.up == HOLD || s->got == s->hello.up) {
		counts->whole[s->hello.slot]++;
		counts->fresh[s->hello.slot] += s->epoch == counts->epoch;
	}
	return false;
}

static void
watch(int epoll, int fd, uint32_t events, void *data)
{
	struct epoll_event ev = { .events = events, .data.ptr = data };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		_exit(1);
}

static void
serve_new(const struct servers *sv, unsigned i, int epoll)
{
	int fd = accept4(sv->fd[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct served *s = fd < 0 ? NULL : calloc(1, sizeof(*s));

	if (s == NULL)
		return;
	s->fd = fd;
	s->server = i;
	s->epoch = sv->counts->epoch;
	sv->counts->accepted[i]++;
	sv->counts->open++;
	watch(epoll, fd, EPOLLIN | EPOLLOUT | EPOLLET, s);
}

static void
serve(const struct servers *sv, int life)
{
	static struct served listener[SERVERS], end;
	struct epoll_event events[64];
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	for (unsigned i = 0; i < SERVERS; i++)
		watch(epoll, sv->fd[i], EPOLLIN, &listener[i]);
	watch(epoll, life, EPOLLIN, &end);
	for (;;) {
		int n = epoll_wait(epoll, events, N_ELEMENTS(events), -1);

		for (int i = 0; i < n; i++) {
			struct served *s = events[i].data.ptr;

			if (s == &end)
				_exit(0);
			if (s >= listener && s < listener + SERVERS) {
				serve_new(sv, (unsigned)(s - listener), epoll);
			} else if (!served_more(s, sv->counts)) {
				close(s->fd);
				free(s);
				sv->counts->open--;
			}
		}
	}
}

static int
listen_on_any(unsigned *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

/* Runs before the session opens, so that the child inherits nothing from it. */
static void
servers_start(struct servers *sv)
{
	int life[2];

	sv->counts = mmap(NULL, sizeof(*sv->counts), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(sv->counts, MAP_FAILED);
	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	for (unsigned i = 0; i < SERVERS; i++)
		sv->fd[i] = listen_on_any(&sv->port[i]);
	sv->pid = fork();
	assert_true(sv->pid >= 0);
	if (sv->pid == 0) {
		close(life[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(sv, life[0]);
	}
	close(life[0]);
	sv->life = life[1];
	for (unsigned i = 0; i < SERVERS; i++)
		close(sv->fd[i]);
}

static void
servers_stop(struct servers *sv)
{
	int status;

	close(sv->life);
	assert_int_equal(waitpid(sv->pid, &status, 0), sv->pid);
	assert_int_equal(status, 0);
	assert_int_equal(munmap((void *)(uintptr_t)sv->counts, sizeof(*sv->counts)), 0);
}

/* ---- a client, in a slot ---- */

enum talk {
	TALK_WHOLE,
	TALK_CUT, /* it ended early */
	TALK_DENIED,
};

/* Reports a violation. The test prints the words as its message. */
static void
give_up(const char *what)
{
	fprintf(stderr, "client: %s (%s)\n", what, strerror(errno));
	_exit(3);
}

static int
client_connect(unsigned port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* The connect must succeed even if no proxy serves the port at the moment. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		give_up("connect");
	return fd;
}

/* Returns false if the connection is cut. */
static bool
send_whole(int fd, const void *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);

		if (r < 0 && errno == EAGAIN)
			give_up("nobody takes what is sent");
		if (r < 0)
			return false;
		at += (size_t)r;
	}
	return true;
}

/* Returns 0 if the connection is cut or ends. */
static size_t
receive(int fd, void *buf, size_t size)
{
	ssize_t n = recv(fd, buf, size, 0);

	if (n < 0 && errno == EAGAIN)
		give_up("nothing comes");
	return n < 0 ? 0 : (size_t)n;
}

/* Reads the answer to CONNECT, and not a byte more. */
static enum talk
tunnel_http(int fd, unsigned target)
{
	char text[1024];
	size_t got = 0;

	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
	    target, target);
	if (!send_whole(fd, text, strlen(text)))
		return TALK_CUT;
	while (got < 4 || memcmp(text + got - 4, "\r\n\r\n", 4) != 0) {
		if (got == sizeof(text))
			give_up("an answer without end");
		if (receive(fd, text + got, 1) == 0)
			return TALK_CUT;
		got++;
	}
	if (memcmp(text, "HTTP/1.1 200", 12) == 0)
		return TALK_WHOLE;
	if (memcmp(text, "HTTP/1.1 403", 12) == 0)
		return TALK_DENIED;
	give_up("an answer that is neither yes nor no");
	return TALK_CUT;
}

static bool
receive_whole(int fd, unsigned char *buf, size_t n)
{
	for (size_t got = 0, k; got < n; got += k)
		if ((k = receive(fd, buf + got, n - got)) == 0)
			return false;
	return true;
}

static enum talk
tunnel_socks(int fd, unsigned target)
{
	const unsigned char ask[] = { 5, 1, 0, 1, 127, 0, 0, 1, (unsigned char)(target >> 8),
		(unsigned char)target };
	unsigned char answer[10];

	if (!send_whole(fd, "\5\1", 3) || !receive_whole(fd, answer, 2))
		return TALK_CUT;
	if (answer[0] != 5 || answer[1] != 0)
		give_up("no SOCKS");
	if (!send_whole(fd, ask, sizeof(ask)) || !receive_whole(fd, answer, sizeof(answer)))
		return TALK_CUT;
	if (answer[0] == 5 && answer[1] == 0)
		return TALK_WHOLE;
	if (answer[0] == 5 && answer[1] == 2)
		return TALK_DENIED;
	give_up("an answer that is neither yes nor no");
	return TALK_CUT;
}

static enum talk
tunnel(int fd, unsigned target)
{
	return dice(3) == 0 ? tunnel_socks(fd, target) : tunnel_http(fd, target);
}

static enum talk
receive_pattern(int fd, const struct hello *h)
{
	static unsigned char buf[65536];
	uint64_t got = 0;
	size_t n;

	while ((n = receive(fd, buf, sizeof(buf))) > 0) {
		if (got + n > h->down || !is_pattern(h->id, 1, got, buf, n))
			give_up("bytes of another connection");
		got += n;
	}
	return got == h->down ? TALK_WHOLE : TALK_CUT;
}

static bool
send_pattern(int fd, const struct hello *h, uint64_t from, uint64_t n)
{
	static unsigned char buf[65536];

	for (uint64_t at = 0, part; at < n; at += part) {
		part = 1 + dice(sizeof(buf));
		part = part < n - at ? part : n - at;
		pattern(h->id, 0, from + at, buf, part);
		if (!send_whole(fd, buf, part))
			return false;
	}
	return true;
}

static enum talk
talk(int fd, struct hello *h)
{
	bool sent = true;

	memcpy(h->magic, magic, sizeof(magic));
	h->id = mix(seed);
	h->check = hello_check(h);
	if (!send_whole(fd, h, sizeof(*h)))
		return TALK_CUT;
	if (h->up != HOLD) {
		sent = send_pattern(fd, h, 0, h->up);
	} else {
		struct pollfd input = { STDIN_FILENO, POLLIN, 0 };

		/* Sends a little now and then, until the test ends the input. */
		for (uint64_t at = 0; sent && poll(&input, 1, 5) == 0; at += 999)
			sent = send_pattern(fd, h, at, 999);
	}
	if (!sent || shutdown(fd, SHUT_WR) < 0)
		return TALK_CUT;
	return receive_pattern(fd, h);
}

static enum talk
converse(unsigned slot, unsigned port, bool hold)
{
	struct hello h = { .slot = slot };
	int fd = client_connect(EGRESS_PORT);
	enum talk t = tunnel(fd, port);

	h.up = hold ? HOLD : dice(4) == 0 ? dice(BULK_MAX) : dice(2000);
	h.down = dice(4) == 0 ? dice(BULK_MAX) : dice(2000);
	if (t == TALK_WHOLE)
		t = talk(fd, &h);
	close(fd);
	return t;
}

/* Makes one connection after another until standard input ends, one in five to a denied host. */
static int
worker(unsigned slot, const unsigned *ports, bool hold)
{
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	unsigned n[3] = { 0 };

	do {
		bool deny = !hold && dice(5) == 0;
		/* A server of another slot, or the one that no slot may reach. */
		unsigned which = (server_of[slot] + 1 + dice(SERVERS - 1)) % SERVERS;
		enum talk t = converse(slot, ports[deny ? which : server_of[slot]], hold);

		if (t != TALK_CUT && (t == TALK_DENIED) != deny)
			give_up(deny ? "let through" : "refused");
		n[t]++;
	} while (poll(&input, 1, 0) == 0);
	printf("%u whole, %u cut, %u denied\n", n[TALK_WHOLE], n[TALK_CUT], n[TALK_DENIED]);
	return 0;
}

/* client SLOT SEED HOLD PORT...: runs WORKERS processes; HOLD of them keep their one connection. */
static int
client(char **argv)
{
	unsigned slot = (unsigned)atoi(argv[0]), hold = (unsigned)atoi(argv[2]), ports[SERVERS];
	int status, bad = 0;

	for (unsigned i = 0; i < SERVERS; i++)
		ports[i] = (unsigned)atoi(argv[3 + i]);
	for (unsigned i = 0; i < WORKERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			give_up("fork");
		if (pid == 0) {
			seed = mix(strtoull(argv[1], NULL, 10) + i);
			exit(worker(slot, ports, i < hold));
		}
	}
	while (wait(&status) > 0)
		bad = status != 0 ? 3 : bad;
	return bad;
}

/* ---- the session ---- */

struct chaos {
	struct fixture f;
	struct servers servers;
	struct koda_slot *slot[SLOTS];
	struct koda_command *command[SLOTS];
	int input[SLOTS]; /* closing it ends the commands */
	unsigned whole[SLOTS], cut[SLOTS], denied[SLOTS];
	/* Indexed by policy, which is also the index of the server; 0: not known. */
	int proxy[SERVERS];
	unsigned kills;
};

static void
put_program(const struct fixture *f)
{
	char buf[65536];
	cleanup_close int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = -1;
	ssize_t n;

	to = open(at(f, PROGRAM), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
}

static void
allow(struct koda_policy *p, unsigned port)
{
	struct koda_error err;
	char rule[32];

	snprintf(rule, sizeof(rule), "127.0.0.1:%u", port);
	if (koda_policy_add(p, KODA_ALLOWED_DOMAINS, rule, &err) < 0)
		fail_msg("%s", err.message);
}

static struct koda_policy *
freeze(struct koda_policy *p)
{
	struct koda_error err;

	if (koda_policy_freeze(p, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

/* A slot that may reach its own server and no other. */
static struct koda_slot *
acquire(const struct chaos *c, unsigned server)
{
	struct koda_policy *p = koda_policy_new();
	struct koda_slot *slot;
	struct koda_error err;

	assert_non_null(p);
	allow(p, c->servers.port[server]);
	assert_int_equal(koda_policy_set_flag(p, KODA_ALLOW_LOCAL_BINDING, true, &err), 0);
	slot = koda_slot_acquire(c->f.ses, freeze(p), &err);
	if (slot == NULL)
		fail_msg("acquire: %s", err.message);
	koda_policy_free(p);
	return slot;
}

static void
chaos_open(struct chaos *c)
{
	struct koda_policy *p;
	struct koda_error err;

	memset(c, 0, sizeof(*c));
	servers_start(&c->servers);
	fixture_prepare(&c->f, KODA_AUTO);
	put_program(&c->f);
	p = koda_policy_for_agent(KODA_AUTO, c->f.root, &err);
	assert_non_null(p);
	for (unsigned i = 0; i < SERVERS - 1; i++)
		allow(p, c->servers.port[i]);
	c->f.options.policy = freeze(p);
	c->f.options.commands = true;
	fixture_open(&c->f);
	koda_policy_free(p);
	for (unsigned i = 0; i < SLOTS; i++)
		c->slot[i] = acquire(c, server_of[i]);
}

static struct koda_command *
start(struct koda_slot *slot, const char *const *argv, int *ret_input)
{
	struct koda_command_options o = { .argv = argv, .timeout_ms = 60000 };
	struct koda_command *command;
	struct koda_error err;
	int input[2];

	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	o.stdin_fd = input[0];
	command = koda_command_start(slot, &o, NULL, NULL, &err);
	if (command == NULL)
		fail_msg("start: %s", err.message);
	close(input[0]);
	*ret_input = input[1];
	return command;
}

/* Ends the command, and returns what it printed. */
static char *
finish(struct koda_command *command, int input)
{
	struct koda_command_result r;
	struct koda_error err;
	char *text;

	close(input);
	if (koda_command_wait(command, 2 * PATIENCE_MS, &err) != 1)
		fail_msg("a command without an end");
	if (koda_command_result(command, &r, &err) < 0)
		fail_msg("result: %s", err.message);
	if (r.status != 0)
		fail_msg("status %d: %.*s", r.status, (int)r.err.head_len, r.err.head);
	text = strndup(r.out.head, r.out.head_len);
	assert_non_null(text);
	koda_command_result_done(&r);
	koda_command_free(command);
	return text;
}

static void
start_clients(struct chaos *c, unsigned i)
{
	char words[3 + SERVERS][24], program[PATH_MAX];
	const char *argv[2 + N_ELEMENTS(words) + 1] = { program, "client" };

	snprintf(program, sizeof(program), "%s", at(&c->f, PROGRAM));
	snprintf(words[0], sizeof(words[0]), "%u", i);
	snprintf(words[1], sizeof(words[1]), "%u", dice(1u << 30));
	/* In the slot whose proxy is never killed, some connections stay open all the time. */
	snprintf(words[2], sizeof(words[2]), "%u", i == SLOTS - 1 ? WORKERS / 2 : 0);
	for (unsigned k = 0; k < SERVERS; k++)
		snprintf(words[3 + k], sizeof(words[0]), "%u", c->servers.port[k]);
	for (unsigned k = 0; k < N_ELEMENTS(words); k++)
		argv[2 + k] = words[k];
	c->command[i] = start(c->slot[i], argv, &c->input[i]);
}

static void
finish_clients(struct chaos *c, unsigned i)
{
	cleanup_free char *text = finish(c->command[i], c->input[i]);
	unsigned whole, cut, denied, lines = 0;
	char *save = NULL;

	for (char *p = strtok_r(text, "\n", &save); p != NULL; p = strtok_r(NULL, "\n", &save)) {
		assert_int_equal(sscanf(p, "%u whole, %u cut, %u denied", &whole, &cut, &denied),
		    3);
		c->whole[i] += whole;
		c->cut[i] += cut;
		c->denied[i] += denied;
		lines++;
	}
	assert_int_equal(lines, WORKERS);
}

/* ---- which process to kill ---- */

#define PROXIES_MAX 8

static size_t
proxies(int *ret)
{
	char path[64], text[4096], *save = NULL;
	cleanup_close int fd = -1;
	size_t n = 0;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", getpid(), getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	for (char *p = strtok_r(text, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save)) {
		char name[32] = "";
		cleanup_close int comm = -1;

		snprintf(path, sizeof(path), "/proc/%s/comm", p);
		comm = open(path, O_RDONLY | O_CLOEXEC);
		if (comm >= 0 && read(comm, name, sizeof(name) - 1) > 0 &&
		    strncmp(name, "koda-egress", 11) == 0 && process_state(atoi(p)) != 'Z' &&
		    n < PROXIES_MAX)
			ret[n++] = atoi(p);
	}
	return n;
}

static bool
among(int pid, const int *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == pid)
			return true;
	return false;
}

static void
turn(struct chaos *c)
{
	struct koda_error err;

	if (koda_session_dispatch(c->f.ses, 5, &err) < 0)
		fail_msg("dispatch: %s", err.message);
}

/* Returns the proxy that runs now and did not then. */
static int
new_proxy(struct chaos *c, const int *then, size_t n_then)
{
	int now[PROXIES_MAX];

	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; turn(c)) {
		size_t n = proxies(now);

		for (size_t i = 0; i < n; i++)
			if (!among(now[i], then, n_then))
				return now[i];
	}
	fail_msg("no proxy came");
	return -1;
}

/* Waits until that many more connections of the slot have come and gone in this epoch. */
static void
wait_served(struct chaos *c, unsigned slot, unsigned more)
{
	volatile unsigned *fresh = &c->servers.counts->fresh[slot];
	unsigned want = *fresh + more;

	for (uint64_t end = clock_ms() + PATIENCE_MS; *fresh < want; turn(c))
		if (clock_ms() > end)
			fail_msg("slot %u is not served any more", slot);
}

/* Kills the policy's proxy, which must have served the slot: a proxy that dies before it is
 * ready is another test. */
static void
kill_proxy(struct chaos *c, unsigned policy, unsigned slot)
{
	int then[PROXIES_MAX];
	size_t n = proxies(then);

	assert_true(among(c->proxy[policy], then, n));
	assert_int_equal(kill(c->proxy[policy], SIGKILL), 0);
	c->proxy[policy] = new_proxy(c, then, n);
	/* From here on no connection goes through the old proxy. */
	c->servers.counts->epoch++;
	wait_served(c, slot, 1);
	c->kills++;
}

/* Runs clients in every slot; kills the proxies of the first two policies, never that of the
 * last. */
static void
round_of(struct chaos *c, unsigned kills)
{
	int then[PROXIES_MAX];
	size_t n;

	for (unsigned i = 0; i < SLOTS; i++) {
		n = proxies(then);
		start_clients(c, i);
		/* The first time, find out which proxy belongs to which policy. */
		if (c->proxy[server_of[i]] == 0)
			c->proxy[server_of[i]] = new_proxy(c, then, n);
		wait_served(c, i, 1);
	}
	for (; kills > 0; kills--) {
		unsigned policy = dice(2), slot = policy == 0 ? dice(2) : 2;

		wait_served(c, slot, dice(8));
		kill_proxy(c, policy, slot);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		finish_clients(c, i);
}

#endif
