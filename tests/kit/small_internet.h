/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small internet: a second network namespace behind a veth, with servers, a name server and user's
 * proxies, on addresses that look public (tests/integration/dial_test.c).
 */
#ifndef KODA_TESTS_KIT_SMALL_INTERNET_H
#define KODA_TESTS_KIT_SMALL_INTERNET_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x,                 \
			    strerror(errno));                                                      \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* ---- the internet ---- */

#define WEB     "44.1.1.10"
#define WEB6    "2600:abcd::10"
#define DARK6   "2600:abcd::dead" /* no answer */
#define CLOSED  "44.1.1.20"       /* no listener */
#define PROXY   "44.1.1.30"
#define DNS     "44.1.1.53"
#define NO_DNS  "44.1.1.54" /* up, but not a name server */
#define PRIVATE "10.77.0.1"
#define OWN     "44.1.1.1"

/* Ports of the user's proxies, named after their behaviour. */
enum {
	P_HTTP = 3128,
	P_LOGIN, /* 407 */
	P_GARBAGE,
	P_TRICKLE, /* a byte at a time */
	P_SILENT,
	P_LONG, /* a head without an end */
	P_CLOSES,
	P_LFLF,
	P_CONTINUE,
	P_NONSENSE, /* HTTP without a status */
	P_SOCKS = 1080,
	P_SOCKS_LOGIN,
	P_SOCKS_NO,
	P_SOCKS_GARBAGE,
	P_SOCKS_TRICKLE,
	P_SOCKS_NAME, /* its reply has a domain name as bound address: another length */
	P_NONE = 4444,
};

static struct shared {
	_Atomic int web, web6, private, proxy; /* connections */
	_Atomic int queries;
	char head[2048]; /* last head sent to the user's proxy */
	char last_name[256];
} * net;

/* If the peer has gone, the server process exits. */
static void
say(int fd, const void *text, size_t n)
{
	if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
		_exit(0);
}

static void
reply_after(int fd, const void *text, size_t n, bool trickle)
{
	const char *p = text;

	for (size_t step = trickle ? 1 : n; n > 0; p += step, n -= step) {
		say(fd, p, step);
		if (trickle)
			usleep(2000);
	}
}

static void
read_head(int fd)
{
	size_t n = 0;

	memset(net->head, 0, sizeof(net->head));
	while (n + 1 < sizeof(net->head) && strstr(net->head, "\r\n\r\n") == NULL &&
	    read(fd, net->head + n, 1) == 1)
		n++;
}

static void
serve_socks(int fd, int port)
{
	static const char hello[] = "HELLO";
	unsigned char in[600];
	bool login = port == P_SOCKS_LOGIN, trickle = port == P_SOCKS_TRICKLE;
	unsigned char ok[32] = { 5, 0, 0, 1, 0, 0, 0, 0, 0, 0 };
	size_t ok_len = 10;
	ssize_t n;

	if (port == P_SOCKS_GARBAGE) {
		say(fd, "HTTP/1.1 400 no\r\n\r\n", 19);
		return;
	}
	if (read(fd, in, 2) != 2 || in[0] != 5 || read(fd, in + 2, in[1]) != in[1])
		return;
	if (login && memchr(in + 2, 2, in[1]) == NULL) {
		say(fd, "\x05\xff", 2);
		return;
	}
	reply_after(fd, login ? "\x05\x02" : "\x05\x00", 2, trickle);
	if (login) {
		n = read(fd, in, sizeof(in));
		reply_after(fd,
		    n == 3 + 4 + 6 && memcmp(in, "\x01\x04user\x06secret", 13) == 0 ? "\x01\x00"
										    : "\x01\x01",
		    2, false);
	}
	n = read(fd, in, sizeof(in));
	if (n < 7)
		return;
	memset(net->head, 0, sizeof(net->head));
	if (in[3] == 3)
		snprintf(net->head, sizeof(net->head), "%.*s:%u", in[4], in + 5,
		    in[5 + in[4]] << 8 | in[6 + in[4]]);
	if (port == P_SOCKS_NO) {
		reply_after(fd, "\x05\x02\x00\x01\0\0\0\0\0\0", 10, false);
		return;
	}
	if (port == P_SOCKS_NAME) {
		memcpy(ok, "\x05\x00\x00\x03\x04host\x00\x50", 11);
		ok_len = 11;
	}
	memcpy(ok + ok_len, hello, 5);
	reply_after(fd, ok, ok_len + 5, trickle);
}

static void
serve_proxy(int fd, int port)
{
	static char much[20000];

	switch (port) {
	case P_GARBAGE:
		say(fd, "SSH-2.0-OpenSSH\r\n", 17);
		break;
	case P_SILENT:
		break;
	case P_CLOSES:
		return;
	case P_LONG:
		memset(much, 'a', sizeof(much));
		memcpy(much, "HTTP/1.1 200 ok\r\nA: ", 20);
		send(fd, much, sizeof(much), MSG_NOSIGNAL);
		break;
	case P_HTTP:
	case P_TRICKLE:
	case P_LFLF:
	case P_CONTINUE:
	case P_LOGIN:
	case P_NONSENSE: {
		static const char *const answers[] = {
			[0] = "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nHELLO",
			[P_LOGIN - P_HTTP] =
			    "HTTP/1.1 407 Proxy Authentication\x01 Required\r\nContent-Length: 2\r\n\r\nno",
			[P_TRICKLE - P_HTTP] = "HTTP/1.0 200\r\n\r\nHELLO",
			[P_LFLF - P_HTTP] = "HTTP/1.0 200 fine\n\nHELLO",
			[P_CONTINUE - P_HTTP] =
			    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 299 odd\r\n\r\nHELLO",
			[P_NONSENSE - P_HTTP] = "HTTP/1.1 OK\r\n\r\n",
		};
		const char *answer = answers[port - P_HTTP];

		read_head(fd);
		/* Plain HTTP: there is no CONNECT to answer. */
		if (net->head[0] != 'C')
			return;
		reply_after(fd, answer, strlen(answer), port == P_TRICKLE);
		break;
	}
	default:
		serve_socks(fd, port);
	}
	while (read(fd, much, sizeof(much)) > 0)
		; /* until the client closes */
}

/* ---- the name server ---- */

struct record {
	const char *name, *a[4], *aaaa[2], *cname;
	int rcode;  /* -1: no answer */
	int silent; /* to questions of this type */
};

static const struct record zone[] = {
	{ "ok.example", { WEB }, { WEB6 }, NULL, 0, 0 },
	{ "v4.example", { WEB }, { NULL }, NULL, 0, 0 },
	{ "v6.example", { NULL }, { WEB6 }, NULL, 0, 0 },
	{ "broken6.example", { WEB }, { DARK6 }, NULL, 0, 0 },
	{ "dark6.example", { NULL }, { DARK6 }, NULL, 0, 0 },
	{ "private.example", { PRIVATE, "192.168.7.7" }, { "fd00::1" }, NULL, 0, 0 },
	{ "mixed.example", { PRIVATE, WEB, "127.0.0.1" }, { NULL }, NULL, 0, 0 },
	{ "loop.example", { "127.0.0.1" }, { "::1" }, NULL, 0, 0 },
	{ "metadata.example", { "169.254.169.254" }, { NULL }, NULL, 0, 0 },
	{ "mapped.example", { NULL }, { "::ffff:" PRIVATE }, NULL, 0, 0 },
	{ "own.example", { OWN }, { NULL }, NULL, 0, 0 },
	{ "closed.example", { CLOSED }, { NULL }, NULL, 0, 0 },
	{ "partly.example", { CLOSED, WEB }, { NULL }, NULL, 0, 0 },
	{ "nowhere.example", { "55.5.5.5" }, { NULL }, NULL, 0, 0 },
	{ "cname.example", { WEB }, { NULL }, "ok.example", 0, 0 },
	{ "proxy.example", { PROXY }, { NULL }, NULL, 0, 0 },
	{ "empty.example", { NULL }, { NULL }, NULL, 0, 0 },
	{ "fail.example", { NULL }, { NULL }, NULL, 2, 0 },
	{ "silent.example", { NULL }, { NULL }, NULL, -1, 0 },
	{ "dropped6.example", { WEB }, { NULL }, NULL, 0, 28 },
	{ "dropped4.example", { NULL }, { WEB6 }, NULL, 0, 1 },
	{ "github.com", { WEB }, { NULL }, NULL, 0, 0 }, /* that the built-in list names */
	{ "dropped.example", { PRIVATE }, { NULL }, NULL, 0, 28 },
};

static unsigned char *
put_name(unsigned char *at, const char *name)
{
	while (*name != '\0') {
		size_t n = strcspn(name, ".");

		*at++ = (unsigned char)n;
		memcpy(at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	*at++ = 0;
	return at;
}

static unsigned char *
put_record(unsigned char *at, const char *owner, int type, const void *data, size_t n)
{
	static const unsigned char fixed[] = { 0, 1, 0, 0, 0, 0 }; /* class IN, TTL 0 */

	at = put_name(at, owner);
	*at++ = 0;
	*at++ = (unsigned char)type;
	memcpy(at, fixed, sizeof(fixed));
	at += sizeof(fixed);
	*at++ = 0;
	*at++ = (unsigned char)n;
	memcpy(at, data, n);
	return at + n;
}

static void
answer_query(int fd)
{
	unsigned char q[512], out[1024], raw[256], *at;
	char name[256] = "";
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, q, sizeof(q), 0, (struct sockaddr *)&from, &len);
	size_t i = 12, k = 0;
	static int rebinds;
	const struct record *r = NULL;
	struct record rebind = { "rebind.example", { NULL }, { NULL }, NULL, 0, 0 };
	int type, count = 0;

	if (n < 17)
		return;
	while (i < (size_t)n && q[i] != 0) {
		memcpy(name + k, q + i + 1, q[i]);
		k += q[i];
		name[k++] = '.';
		i += q[i] + 1u;
	}
	name[k > 0 ? k - 1 : 0] = '\0';
	type = q[i + 2];
	i += 5;
	net->queries++;
	memcpy(net->last_name, name, sizeof(name));
	for (size_t z = 0; z < N_ELEMENTS(zone); z++)
		if (strcmp(zone[z].name, name) == 0)
			r = &zone[z];
	if (strcmp(name, rebind.name) == 0) {
		rebind.a[0] = type != 1 || rebinds++ == 0 ? WEB : PRIVATE;
		r = &rebind;
	}
	if (r != NULL && (r->rcode < 0 || r->silent == type))
		return;
	memcpy(out, q, i);
	out[2] = 0x81;
	out[3] = (unsigned char)(0x80 | (r == NULL ? 3 : r->rcode));
	memset(out + 6, 0, 6);
	at = out + i;
	if (r != NULL && r->rcode == 0) {
		if (r->cname != NULL) {
			at = put_record(at, name, 5, raw, (size_t)(put_name(raw, r->cname) - raw));
			count++;
		}
		for (size_t z = 0; type == 1 && z < 4 && r->a[z] != NULL; z++, count++) {
			must(inet_pton(AF_INET, r->a[z], raw) == 1);
			at = put_record(at, r->cname != NULL ? r->cname : name, 1, raw, 4);
		}
		for (size_t z = 0; type == 28 && z < 2 && r->aaaa[z] != NULL; z++, count++) {
			must(inet_pton(AF_INET6, r->aaaa[z], raw) == 1);
			at = put_record(at, r->cname != NULL ? r->cname : name, 28, raw, 16);
		}
	}
	out[7] = (unsigned char)count;
	sendto(fd, out, (size_t)(at - out), 0, (struct sockaddr *)&from, len);
}

static int
listen_on(const char *address, int port, int type)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	bool six = inet_pton(AF_INET, address, &sin.sin_addr) != 1;
	int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
	const int one = 1;

	if (six)
		must(inet_pton(AF_INET6, address, &sin6.sin6_addr) == 1);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	must(bind(fd, six ? (struct sockaddr *)&sin6 : (struct sockaddr *)&sin,
		 six ? sizeof(sin6) : sizeof(sin)) == 0);
	if (type == SOCK_STREAM)
		must(listen(fd, 64) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

static int barrier[2]; /* the test's end, the servers' end */

/* Accepts and counts all pending connections; child processes serve those of the user's proxies. */
static void
take_connections(int listener, _Atomic int *count, int proxy_port)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		++*count;
		if (proxy_port != 0 && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve_proxy(fd, proxy_port);
			_exit(0);
		}
		close(fd);
	}
}

static void
serve(int ready)
{
	static const int ports[] = { P_HTTP, P_LOGIN, P_GARBAGE, P_TRICKLE, P_SILENT, P_LONG,
		P_CLOSES, P_LFLF, P_CONTINUE, P_NONSENSE, P_SOCKS, P_SOCKS_LOGIN, P_SOCKS_NO,
		P_SOCKS_GARBAGE, P_SOCKS_TRICKLE, P_SOCKS_NAME };
	enum { BARRIER, QUERIES, FIRST, FIRST_PROXY = FIRST + 3 };
	struct pollfd pfd[FIRST_PROXY + N_ELEMENTS(ports)];
	_Atomic int *counts[N_ELEMENTS(pfd)] = { [FIRST] = &net->web, &net->web6, &net->private };

	pfd[BARRIER].fd = barrier[1];
	pfd[QUERIES].fd = listen_on(DNS, 53, SOCK_DGRAM);
	pfd[FIRST].fd = listen_on(WEB, 80, SOCK_STREAM);
	pfd[FIRST + 1].fd = listen_on(WEB6, 80, SOCK_STREAM);
	pfd[FIRST + 2].fd = listen_on(PRIVATE, 80, SOCK_STREAM);
	for (size_t i = 0; i < N_ELEMENTS(ports); i++) {
		pfd[FIRST_PROXY + i].fd = listen_on(PROXY, ports[i], SOCK_STREAM);
		counts[FIRST_PROXY + i] = &net->proxy;
	}
	for (size_t i = 0; i < N_ELEMENTS(pfd); i++)
		pfd[i].events = POLLIN;
	must(write(ready, "u", 1) == 1);
	close(ready);
	for (;;) {
		char c;

		must(poll(pfd, N_ELEMENTS(pfd), -1) > 0 || errno == EINTR);
		if (pfd[QUERIES].revents != 0)
			answer_query(pfd[QUERIES].fd);
		for (size_t i = FIRST; i < N_ELEMENTS(pfd); i++)
			take_connections(pfd[i].fd, counts[i],
			    i < FIRST_PROXY ? 0 : ports[i - FIRST_PROXY]);
		/* Answer last: everything that arrived before the barrier is now counted. */
		if (pfd[BARRIER].revents != 0)
			must(read(barrier[1], &c, 1) == 1 && write(barrier[1], &c, 1) == 1);
	}
}

/* After this returns, all connections so far are counted. */
static void
all_counted(void)
{
	char c = 'b';

	must(write(barrier[0], &c, 1) == 1 && read(barrier[0], &c, 1) == 1);
}

/* ---- namespaces ---- */

static void
put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void
ip(const char *commands)
{
	int in[2], status;
	pid_t pid;

	must(pipe2(in, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		execlp("ip", "ip", "-batch", "-", NULL);
		_exit(127);
	}
	close(in[0]);
	must(write(in[1], commands, strlen(commands)) == (ssize_t)strlen(commands));
	close(in[1]);
	must(waitpid(pid, &status, 0) == pid && status == 0);
}

static void
enter(void)
{
	unsigned uid = getuid(), gid = getgid();
	char text[512];
	int up[2];
	pid_t server;

	net = mmap(NULL, sizeof(*net), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(net != MAP_FAILED);
	must(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) == 0);
	put_file("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	put_file("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	put_file("/proc/self/gid_map", text);
	must(mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0);

	must(pipe2(up, O_CLOEXEC) == 0);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, barrier) == 0);
	server = fork();
	must(server >= 0);
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_IGN);
		must(unshare(CLONE_NEWNET) == 0);
		must(write(up[1], "n", 1) == 1);
		/* Wait until the test has moved the link here; then bring it up and add
		 * addresses. */
		while (if_nametoindex("inet") == 0)
			usleep(1000);
		signal(SIGCHLD, SIG_DFL);
		ip("link set lo up\n"
		   "link set inet up\n"
		   "addr add " WEB "/24 dev inet\naddr add " CLOSED "/24 dev inet\n"
		   "addr add " PROXY "/24 dev inet\naddr add " DNS "/24 dev inet\n"
		   "addr add " NO_DNS "/24 dev inet\naddr add " PRIVATE "/24 dev inet\n"
		   "addr add " WEB6 "/64 dev inet nodad\n");
		signal(SIGCHLD, SIG_IGN);
		serve(up[1]);
	}
	must(read(up[0], text, 1) == 1);
	snprintf(text, sizeof(text),
	    "link set lo up\n"
	    "link add out type veth peer name inet\n"
	    "link set inet netns %d\n"
	    "link set out up\n"
	    "addr add " OWN "/24 dev out\n"
	    "addr add 2600:abcd::1/64 dev out nodad\n"
	    "route add 10.77.0.0/24 dev out\n",
	    server);
	ip(text);
	must(read(up[0], text, 1) == 1);
	close(up[0]);
	close(up[1]);
	must(mount("none", "/etc", "tmpfs", 0, "mode=755") == 0);
}

/* ---- the dialer ---- */

/* An unanswered question ends before this: two tries, the second with twice the time. */
#define GIVEN_UP_SECS 20.0

static struct proxy proxy;
static uint64_t slot; /* the slot that dials */

struct shot {
	struct dial *dial;
	bool over;
	struct dial_result result;
	double took;
};

#endif
