/*
 * proxy/reach/dial.c and resolve.c against a small internet: a second network namespace behind a
 * veth, with servers, a name server and user's proxies, on addresses that look public. /etc belongs
 * to the test.
 */
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

/* It has a fail of its own. */
static double dial_secs = 10;
#define PROXY_HEAD_SECS 10.0
#define PROXY_KEEP_SECS 10.0
#define PROXY_DIAL_SECS dial_secs
#define PROXY_IDLE_SECS 10.0
#define PROXY_ASK_SECS  10.0
#include "proxy/reach/dial.c"        // NOLINT(bugprone-suspicious-include)
#include "proxy/reach/own_address.c" // NOLINT(bugprone-suspicious-include)

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

static size_t
open_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
on_wake(struct ev_loop *loop, ev_timer *t, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void
loop_for(double secs)
{
	ev_timer t;

	ev_now_update(proxy.loop);
	ev_timer_init(&t, on_wake, secs, 0);
	ev_timer_start(proxy.loop, &t);
	ev_run(proxy.loop, 0);
	ev_timer_stop(proxy.loop, &t);
}

static void
on_dialed(void *data, const struct dial_result *result)
{
	struct shot *s = data;

	assert_false(s->over);
	s->over = true;
	s->result = *result;
	ev_break(proxy.loop, EVBREAK_ALL);
}

static struct shot
shoot_plain(const char *host, unsigned port, bool plain)
{
	char canonical[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;
	struct shot s = { 0 };
	double start = ev_time();

	assert_null(domain_host_parse(host, strlen(host), true, canonical, &kind));
	s.dial = dial_start(&proxy, slot, canonical, kind, port, plain, on_dialed, &s);
	assert_non_null(s.dial);
	assert_false(s.over);
	while (!s.over)
		ev_run(proxy.loop, 0);
	s.took = ev_time() - start;
	return s;
}

static struct shot
shoot(const char *host, unsigned port)
{
	return shoot_plain(host, port, false);
}

static const char *
peer_of(int fd)
{
	static char text[DOMAIN_HOST_MAX + 1];
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	assert_int_equal(getpeername(fd, (struct sockaddr *)&ss, &len), 0);
	address_text((struct sockaddr *)&ss, text);
	return text;
}

static void
check_options(int fd)
{
	int v = 0;
	socklen_t len = sizeof(v);

	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
	assert_int_not_equal(v, 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, &len), 0);
	assert_int_not_equal(v, 0);
}

static void
upstream(const char *https, const char *http, const char *no_proxy)
{
	struct upstream_variables v = { .https_proxy = https,
		.http_proxy = http,
		.no_proxy = no_proxy };
	struct koda_error err;

	upstream_done(&proxy.upstream);
	memset(&proxy.upstream, 0, sizeof(proxy.upstream));
	assert_int_equal(upstream_parse(&v, &proxy.upstream, &err), 0);
	silent_until = 0;
}

static size_t before;

static void
etc(const char *hosts, const char *resolv)
{
	put_file("/etc/hosts", hosts);
	put_file("/etc/resolv.conf", resolv);
}

static int
setup(void **state)
{
	struct koda_error err;

	all_counted();
	memset(net, 0, sizeof(*net));
	dial_secs = 10;
	slot = 1;
	etc("127.0.0.1 localhost\n", "search example\nnameserver " DNS "\n");
	before = open_descriptors();
	proxy.loop = ev_loop_new(EVFLAG_NOSIGMASK);
	policy_init(&proxy.policy);
	proxy.mode = KODA_AUTO;
	must(
	    policy_list_add(&proxy.policy.list[KODA_ALLOWED_DOMAINS], "127.0.0.1:8080", &err) == 0);
	proxy.rules = egress_rules_new(&proxy.policy, &err);
	proxy.resolver = resolver_new(&proxy, &err);
	must(proxy.rules != NULL && proxy.resolver != NULL);
	upstream(NULL, NULL, NULL);
	return 0;
}

static int
teardown(void **state)
{
	resolver_free(proxy.resolver);
	egress_rules_free(proxy.rules);
	policy_done(&proxy.policy);
	upstream_done(&proxy.upstream);
	memset(&proxy.upstream, 0, sizeof(proxy.upstream));
	ev_loop_destroy(proxy.loop);
	assert_int_equal(open_descriptors(), before);
	return 0;
}

/* ---- names ---- */

static const struct direct {
	const char *label, *host;
	unsigned port;
	enum dial_error want;
	const char *peer;   /* for DIAL_OK; NULL: any */
	const char *detail; /* for errors: a part of the detail */
	int private;        /* connections to PRIVATE */
	/* s; the next address is tried after 0.25, a question is repeated after 1.5 */
	double within;
} direct[] = {
	{ "both families", "ok.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "IPv4 alone", "v4.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "IPv6 alone", "v6.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "a CNAME", "cname.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "IPv6 is broken", "broken6.example", 80, DIAL_OK, WEB, NULL, 0, 1.5 },
	{ "one refuses, the other does not", "partly.example", 80, DIAL_OK, WEB, NULL, 0, 1.5 },
	{ "a literal", WEB, 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "a literal of IPv6", "[" WEB6 "]", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "private", "private.example", 80, DIAL_ADDRESS, NULL, "private.example", 0, 3 },
	{ "private and public", "mixed.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "loopback", "loop.example", 80, DIAL_ADDRESS, NULL, "loopback", 0, 3 },
	{ "localhost, by /etc/hosts", "localhost", 80, DIAL_ADDRESS, NULL, "loopback", 0, 3 },
	{ "metadata", "metadata.example", 80, DIAL_ADDRESS, NULL, "metadata.example", 0, 3 },
	{ "IPv4-mapped", "mapped.example", 80, DIAL_ADDRESS, NULL, "mapped.example", 0, 3 },
	{ "an address of this machine", "own.example", 80, DIAL_ADDRESS, NULL, "own.example", 0,
	    3 },
	{ "a private literal", PRIVATE, 80, DIAL_ADDRESS, NULL, PRIVATE, 0, 3 },
	{ "a loopback literal with a rule, refused there", "127.0.0.1", 8080, DIAL_REFUSED, NULL,
	    "127.0.0.1:8080", 0, 3 },
	{ "a loopback literal, another port", "127.0.0.1", 80, DIAL_ADDRESS, NULL, "loopback", 0,
	    3 },
	{ "nobody listens", "closed.example", 80, DIAL_REFUSED, NULL, "closed.example:80", 0, 3 },
	{ "no route", "nowhere.example", 80, DIAL_UNREACHABLE, NULL, "nowhere.example:80", 0, 3 },
	{ "no such name", "nx.example", 80, DIAL_DNS, NULL, "no such name", 0, 3 },
	{ "no address", "empty.example", 80, DIAL_DNS, NULL, "no address", 0, 3 },
	{ "SERVFAIL", "fail.example", 80, DIAL_DNS, NULL, "name server", 0, 8 },
	{ "no answer", "silent.example", 80, DIAL_TIMEOUT, NULL, "silent.example", 0, 10.5 },
	{ "questions for IPv6 are dropped", "dropped6.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "questions for IPv4 are dropped", "dropped4.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0,
	    3 },
	{ "dropped, and private", "dropped.example", 80, DIAL_ADDRESS, NULL, "dropped.example", 0,
	    3 },
	{ "no search list", "ok", 80, DIAL_DNS, NULL, "no such name", 0, 3 },
};

static void
check_direct(void **state)
{
	const struct direct *c = &direct[(uintptr_t)*state];
	struct shot s = shoot(c->host, c->port);

	if (s.result.error != c->want)
		fail_msg("error %d, not %d: %s", s.result.error, c->want, s.result.detail);
	if (c->want == DIAL_OK) {
		assert_true(s.result.fd >= 0);
		assert_null(s.result.via);
		/* On a busy machine the other family may win, because it is tried if the first
		 * one is slow. */
		for (int i = 0; i < 2 && strcmp(peer_of(s.result.fd), c->peer) != 0; i++) {
			close(s.result.fd);
			s = shoot(c->host, c->port);
			assert_int_equal(s.result.error, DIAL_OK);
		}
		assert_string_equal(peer_of(s.result.fd), c->peer);
		check_options(s.result.fd);
		close(s.result.fd);
	} else {
		assert_int_equal(s.result.fd, -1);
		if (strstr(s.result.detail, c->detail) == NULL)
			fail_msg("'%s' is not in: %s", c->detail, s.result.detail);
	}
	if (s.took > c->within)
		fail_msg("%g s", s.took);
	all_counted();
	assert_int_equal(net->private, c->private);
}

static void
check_limit(void **state)
{
	struct shot s;

	dial_secs = 0.5;
	s = shoot("dark6.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took >= 0.45 && s.took < 2);
	s = shoot("silent.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took >= 0.45 && s.took < 2);
}

/* The second answer is a forbidden address: nothing connects to it. */
static void
check_rebinding(void **state)
{
	struct shot s = shoot("rebind.example", 80);
	int queries = net->queries;

	assert_int_equal(s.result.error, DIAL_OK);
	assert_string_equal(peer_of(s.result.fd), WEB);
	close(s.result.fd);
	assert_int_equal(queries, 2); /* A and AAAA, once */
	s = shoot("rebind.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	all_counted();
	assert_int_equal(net->private, 0);
}

static void
check_files(void **state)
{
	struct shot s;

	etc("# ...\n" WEB " Hosts.example other.example\n", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
	assert_int_equal(net->queries, 0);
	etc("10.0.0.8 hosts.example\n", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	etc("", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
}

static void
check_resolv_conf(void **state)
{
	struct shot s;

	put_file("/etc/resolv.new", "nameserver " NO_DNS "\n");
	assert_int_equal(rename("/etc/resolv.new", "/etc/resolv.conf"), 0);
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_int_equal(net->queries, 0);
	/* While the file is missing, the previous settings apply. */
	unlink("/etc/resolv.conf");
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	put_file("/etc/resolv.conf", "nameserver " DNS "\n");
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
}

/* A question that is open while the file changes stays with its name server. */
static void
check_resolv_conf_meanwhile(void **state)
{
	struct shot slow = { 0 }, s;

	slow.dial =
	    dial_start(&proxy, slot, "silent.example", DOMAIN_NAME, 80, false, on_dialed, &slow);
	loop_for(1.1);
	etc("", "nameserver " DNS "\noptions timeout:1\n");
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
	while (!slow.over)
		ev_run(proxy.loop, 0);
	assert_int_equal(slow.result.error, DIAL_TIMEOUT);
}

static void
check_environment(void **state)
{
	struct koda_error err;
	struct shot s;

	put_file("/etc/aliases", "alias ok.example\n");
	setenv("HOSTALIASES", "/etc/aliases", 1);
	setenv("LOCALDOMAIN", "example", 1);
	setenv("RES_OPTIONS", "ndots:3 timeout:1 attempts:1", 1);
	resolver_free(proxy.resolver);
	proxy.resolver = resolver_new(&proxy, &err);
	s = shoot("alias", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_string_equal(net->last_name, "alias");
	s = shoot("ok", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_string_equal(net->last_name, "ok");
	s = shoot("silent.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took > 2);
	unsetenv("HOSTALIASES");
	unsetenv("LOCALDOMAIN");
	unsetenv("RES_OPTIONS");
}

/* The hosts that the policy maps to a socket, on any port; an exact name comes before a pattern. */
static void
check_mapped(void **state)
{
	static const struct {
		const char *host, *want;
	} cases[] = {
		{ "a.corp.example", "*.corp.example" },
		{ "b.corp.example", "b.corp.example" },
		{ "c.d.corp.example", NULL },
		{ "corp.example", NULL },
		{ "ok.example", NULL },
	};
	struct policy_socket sockets[] = { { (char[]){ "*.corp.example" }, (char[]){ "/run/all" } },
		{ (char[]){ "b.corp.example" }, (char[]){ "/run/b" } } };
	struct proxy p = { .policy.sockets = sockets, .policy.n_sockets = N_ELEMENTS(sockets) };

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct dial d = { .proxy = &p, .target.port = 8443 };
		const char *got;

		snprintf(d.target.host, sizeof(d.target.host), "%s", cases[i].host);
		got = mapped(&d);
		if (cases[i].want == NULL)
			assert_null(got);
		else
			assert_string_equal(got, cases[i].want);
	}
}

/*
 * Where any address can be bound, the machine's own addresses are still recognized, and others are
 * not mistaken for them.
 */
static void
check_nonlocal_bind(void **state)
{
	struct sockaddr_storage own, web;
	socklen_t len;

	assert_true(address_parse(OWN, 80, &own, &len));
	assert_true(address_parse(WEB, 80, &web, &len));
	assert_false(binds_anything(AF_INET));
	assert_true(is_own_address((struct sockaddr *)&own));
	assert_false(is_own_address((struct sockaddr *)&web));
	put_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "1\n");
	assert_true(can_bind((struct sockaddr *)&web));
	assert_true(is_source((struct sockaddr *)&own));
	assert_false(is_source((struct sockaddr *)&web));
	put_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "0\n");
	assert_true(address_parse("[2600:abcd::1]", 80, &own, &len));
	assert_true(address_parse("[" WEB6 "]", 80, &web, &len));
	assert_true(is_own_address((struct sockaddr *)&own));
	assert_true(is_source((struct sockaddr *)&own));
	assert_false(is_own_address((struct sockaddr *)&web));
	assert_false(is_source((struct sockaddr *)&web));
}

static void
check_cancel(void **state)
{
	static const char *const hosts[] = { "ok.example", "broken6.example", "silent.example", WEB,
		"dark6.example", "127.0.0.1", "nx.example" };
	static const char *const proxies[] = { NULL, "http://" PROXY ":3128",
		"http://" PROXY ":3132", "socks5://user:secret@" PROXY ":1081",
		"http://proxy.example:3128" };

	for (size_t u = 0; u < N_ELEMENTS(proxies); u++) {
		upstream(proxies[u], NULL, NULL);
		for (size_t h = 0; h < N_ELEMENTS(hosts); h++) {
			for (int turns = 0; turns < 7; turns++) {
				char canonical[DOMAIN_HOST_MAX + 1];
				enum domain_kind kind;
				struct shot s = { 0 };
				ev_timer guard;

				domain_host_parse(hosts[h], strlen(hosts[h]), true, canonical,
				    &kind);
				s.dial = dial_start(&proxy, slot, canonical, kind, 80, false,
				    on_dialed, &s);
				ev_timer_init(&guard, on_wake, 0.02, 0.02);
				ev_timer_start(proxy.loop, &guard);
				for (int i = 0; i < turns && !s.over; i++)
					ev_run(proxy.loop, EVRUN_ONCE);
				ev_timer_stop(proxy.loop, &guard);
				if (!s.over)
					dial_cancel(s.dial);
				else if (s.result.fd >= 0)
					close(s.result.fd);
			}
		}
	}
	/* teardown counts what is left; c-ares gives up on its own */
}

/* Cancels 1500 dials. Each leaves an open question, up to a limit. */
static void
flood(void)
{
	struct shot s = { 0 };

	for (int i = 0; i < 1500; i++) {
		struct dial *d = dial_start(&proxy, slot, "silent.example", DOMAIN_NAME, 80, false,
		    on_dialed, &s);

		assert_non_null(d);
		dial_cancel(d);
	}
	assert_false(s.over);
}

static void
check_flood(void **state)
{
	struct shot s;

	flood();
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_RESOURCES);
}

/*
 * Dials a name of the hosts file, which does not depend on the name server: the flood may have
 * affected the way to it.
 */
static bool
reaches(void)
{
	struct shot s = shoot("hosts.example", 80);

	if (s.result.error != DIAL_OK) {
		assert_int_equal(s.result.error, DIAL_RESOURCES);
		return false;
	}
	close(s.result.fd);
	return true;
}

/* Even if many slots do this, the next slot can dial. */
static void
check_flood_of_others(void **state)
{
	double end;

	etc(WEB " hosts.example\n", "nameserver " DNS "\n");
	for (slot = 1; slot <= 32; slot++) {
		assert_true(reaches());
		flood();
		assert_false(reaches());
	}
	assert_true(reaches());
	/* Unanswered questions are given up, which makes room. */
	end = ev_time() + GIVEN_UP_SECS;
	for (slot = 1; slot <= 32; slot++) {
		while (!reaches()) {
			assert_true(ev_time() < end);
			loop_for(0.05);
		}
	}
}

/* ---- through the user's proxy ---- */

#define HTTP_AT(port)  "http://" PROXY ":" #port
#define SOCKS_AT(port) "socks5://" PROXY ":" #port

static const struct by_proxy {
	const char *label, *proxy, *host;
	enum dial_error want;
	const char *detail;
	const char *head; /* a part of what the proxy received */
	int connections;
} by_proxy[] = {
	{ "HTTP", HTTP_AT(3128), "ok.example", DIAL_OK, NULL,
	    "CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example:443\r\n\r\n", 1 },
	{ "HTTP, credentials", "http://us%40er:pa%3Ass@" PROXY ":3128", "ok.example", DIAL_OK, NULL,
	    "\r\nProxy-Authorization: Basic dXNAZXI6cGE6c3M=\r\n\r\n", 1 },
	{ "HTTP, by name", "http://proxy.example:3128", "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, an address of IPv6", HTTP_AT(3128), "[" WEB6 "]", DIAL_OK, NULL,
	    "CONNECT [" WEB6 "]:443 HTTP/1.1\r\nHost: [" WEB6 "]:443\r\n", 1 },
	{ "HTTP, byte by byte", HTTP_AT(3131), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, lines without CR", HTTP_AT(3135), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, 100 before 299", HTTP_AT(3136), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, 407", HTTP_AT(3129), "ok.example", DIAL_UPSTREAM,
	    "407 Proxy Authentication? Required", "CONNECT", 1 },
	{ "HTTP, garbage", HTTP_AT(3130), "ok.example", DIAL_UPSTREAM, "does not speak HTTP", NULL,
	    1 },
	{ "HTTP, no status", HTTP_AT(3137), "ok.example", DIAL_UPSTREAM, "no HTTP", NULL, 1 },
	{ "HTTP, no end", HTTP_AT(3133), "ok.example", DIAL_UPSTREAM, "too much", NULL, 1 },
	{ "HTTP, closes", HTTP_AT(3134), "ok.example", DIAL_UPSTREAM, "closed", NULL, 1 },
	{ "nobody is there", HTTP_AT(4444), "ok.example", DIAL_UPSTREAM, "cannot connect", NULL,
	    0 },
	{ "it has no address", "http://nx.example:3128", "ok.example", DIAL_UPSTREAM,
	    "no such name", NULL, 0 },
	{ "a name that is known there alone", HTTP_AT(3128), "nx.example", DIAL_OK, NULL,
	    "CONNECT nx.example:443", 1 },
	{ "a name that leads where it may not", HTTP_AT(3128), "private.example", DIAL_ADDRESS,
	    "private.example", NULL, 0 },
	{ "a name that partly leads where it may not", HTTP_AT(3128), "mixed.example", DIAL_ADDRESS,
	    "mixed.example", NULL, 0 },
	{ "a literal that may not be", HTTP_AT(3128), PRIVATE, DIAL_ADDRESS, PRIVATE, NULL, 0 },
	{ "SOCKS", SOCKS_AT(1080), "ok.example", DIAL_OK, NULL, "ok.example:443", 1 },
	{ "SOCKS, login", "socks5://user:secret@" PROXY ":1081", "ok.example", DIAL_OK, NULL,
	    "ok.example:443", 1 },
	{ "SOCKS, wrong login", "socks5://user:wrong@" PROXY ":1081", "ok.example", DIAL_UPSTREAM,
	    "name and password", NULL, 1 },
	{ "SOCKS, login is wanted", SOCKS_AT(1081), "ok.example", DIAL_UPSTREAM, "log in", NULL,
	    1 },
	{ "SOCKS, no", SOCKS_AT(1082), "ok.example", DIAL_UPSTREAM, "code 2", NULL, 1 },
	{ "SOCKS, garbage", SOCKS_AT(1083), "ok.example", DIAL_UPSTREAM, "SOCKS5", NULL, 1 },
	{ "SOCKS, byte by byte", SOCKS_AT(1084), "ok.example", DIAL_OK, NULL, "ok.example:443", 1 },
	{ "SOCKS, bound to a name", SOCKS_AT(1085), "ok.example", DIAL_OK, NULL, "ok.example:443",
	    1 },
};

static void
check_by_proxy(void **state)
{
	const struct by_proxy *c = &by_proxy[(uintptr_t)*state];
	struct shot s;

	upstream(c->proxy, NULL, NULL);
	s = shoot(c->host, 443);
	if (s.result.error != c->want)
		fail_msg("error %d, not %d: %s", s.result.error, c->want, s.result.detail);
	if (c->want == DIAL_OK) {
		char buf[16] = "";

		assert_null(s.result.via);
		assert_int_equal(fcntl(s.result.fd, F_SETFL, 0), 0);
		setsockopt(s.result.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 5 },
		    sizeof(struct timeval));
		/* The first byte after the answer is the next one to be read. */
		assert_int_equal(recv(s.result.fd, buf, 5, MSG_WAITALL), 5);
		assert_string_equal(buf, "HELLO");
		close(s.result.fd);
	} else if (strstr(s.result.detail, c->detail) == NULL) {
		fail_msg("'%s' is not in: %s", c->detail, s.result.detail);
	}
	assert_null(strstr(s.result.detail, "secret"));
	assert_null(strstr(s.result.detail, "wrong"));
	if (c->head != NULL && strstr(net->head, c->head) == NULL)
		fail_msg("'%s' is not in: %s", c->head, net->head);
	all_counted();
	assert_int_equal(net->proxy, c->connections);
	assert_int_equal(net->web + net->web6 + net->private, 0);
}

static void
check_proxy_silent(void **state)
{
	struct shot s;

	dial_secs = 2;
	upstream(HTTP_AT(3132), NULL, NULL);
	s = shoot("ok.example", 443);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_non_null(strstr(s.result.detail, "the proxy " PROXY));
	assert_true(s.took < 4);
}

/*
 * The local name servers do not know outer names and do not answer: only the first dial waits for
 * them.
 */
static void
check_proxy_names_there(void **state)
{
	struct shot s;

	upstream(HTTP_AT(3128), NULL, NULL);
	s = shoot("silent.example", 443);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_true(s.took > 1.5 && s.took < 4);
	close(s.result.fd);
	s = shoot("silent.example", 443);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_true(s.took < 1);
	close(s.result.fd);
}

static void
check_plain(void **state)
{
	struct shot s;

	upstream(NULL, HTTP_AT(3128), NULL);
	s = shoot_plain("ok.example", 80, true);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_ptr_equal(s.result.via, &proxy.upstream.http);
	assert_string_equal(peer_of(s.result.fd), PROXY);
	close(s.result.fd);
	/* Without https_proxy, tunnels are direct. */
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_null(s.result.via);
	assert_string_equal(peer_of(s.result.fd), "[" WEB6 "]");
	close(s.result.fd);
	upstream(NULL, SOCKS_AT(1080), NULL);
	s = shoot_plain("ok.example", 80, true);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_null(s.result.via);
	assert_string_equal(net->head, "ok.example:80");
	close(s.result.fd);
}

static void
check_no_proxy(void **state)
{
	static const char *const exceptions[] = { "v4.example", ".example", "44.1.1.0/24", "*" };
	struct shot s;

	for (size_t i = 0; i < N_ELEMENTS(exceptions); i++) {
		upstream(HTTP_AT(3128), NULL, exceptions[i]);
		s = shoot("v4.example", 80);
		assert_int_equal(s.result.error, DIAL_OK);
		assert_string_equal(peer_of(s.result.fd), WEB);
		close(s.result.fd);
	}
	all_counted();
	assert_int_equal(net->proxy, 0);
	upstream(HTTP_AT(3128), NULL, "other.example,44.1.2.0/24");
	s = shoot("v4.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_string_equal(peer_of(s.result.fd), PROXY);
	close(s.result.fd);
	/* A direct connection must still obey the address rules. */
	upstream(HTTP_AT(3128), NULL, "10.77.0.0/16");
	s = shoot("private.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	all_counted();
	assert_int_equal(net->private, 0);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(direct) + N_ELEMENTS(by_proxy) + 32];
	size_t n = 0;

	signal(SIGPIPE, SIG_IGN);
	enter();
	for (size_t i = 0; i < N_ELEMENTS(direct); i++)
		tests[n++] = (struct CMUnitTest){ direct[i].label, check_direct, setup, teardown,
			(void *)i };
	for (size_t i = 0; i < N_ELEMENTS(by_proxy); i++)
		tests[n++] = (struct CMUnitTest){ by_proxy[i].label, check_by_proxy, setup,
			teardown, (void *)i };
#define CASE(label, fn) tests[n++] = (struct CMUnitTest){ label, fn, setup, teardown, NULL }
	CASE("all together have a limit", check_limit);
	CASE("rebinding", check_rebinding);
	CASE("/etc/hosts, and it changes", check_files);
	CASE("resolv.conf changes", check_resolv_conf);
	CASE("resolv.conf changes under an open question", check_resolv_conf_meanwhile);
	CASE("the environment", check_environment);
	CASE("the policy's sockets", check_mapped);
	CASE("ip_nonlocal_bind", check_nonlocal_bind);
	CASE("cancelled", check_cancel);
	CASE("asked and left, many times", check_flood);
	CASE("asked and left, by other slots", check_flood_of_others);
	CASE("a silent proxy", check_proxy_silent);
	CASE("names that only the proxy knows", check_proxy_names_there);
	CASE("plain HTTP", check_plain);
	CASE("NO_PROXY", check_no_proxy);
	return _cmocka_run_group_tests("dial", tests, n, NULL, NULL);
}
