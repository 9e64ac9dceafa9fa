/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command does with sockets, one word each, for tests/integration/connect_test.c: the test
 * program starts itself in a slot.
 */
#ifndef KODA_TESTS_KIT_CONNECT_GUEST_H
#define KODA_TESTS_KIT_CONNECT_GUEST_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "tests/kit/skip.h"
#include "tests/kit/stage2.h"

/* ---- what a command does; its exit status is 0 or its errno ---- */

static void
unix_address(const char *path, struct sockaddr_un *ret, socklen_t *ret_len)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* "@name" is an abstract name */
	snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
	*ret_len = sizeof(*ret);
	if (path[0] == '@') {
		ret->sun_path[0] = '\0';
		*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	}
}

static int
type_of(const char *name)
{
	return strcmp(name, "seqpacket") == 0 ? SOCK_SEQPACKET
	    : strcmp(name, "datagram") == 0   ? SOCK_DGRAM
					      : SOCK_STREAM;
}

static int
listen_unix(int type, const char *path, int backlog)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un un;
	socklen_t len;

	unix_address(path, &un, &len);
	if (fd < 0 || bind(fd, (struct sockaddr *)&un, len) < 0 || listen(fd, backlog) < 0)
		return -1;
	return fd;
}

static int
connect_unix(int type, const char *path)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), saved;
	struct sockaddr_un un;
	socklen_t len;

	if (fd < 0)
		return -1;
	unix_address(path, &un, &len);
	if (connect(fd, (struct sockaddr *)&un, len) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Sends one byte through the connection. */
static int
talk(int client, int listener)
{
	int server = accept(listener, NULL, NULL);
	char c = 0;

	if (server < 0 || write(client, "x", 1) != 1 || read(server, &c, 1) != 1 || c != 'x')
		return EBADMSG;
	close(server);
	return 0;
}

/* own TYPE BIND CONNECT: one command has both ends. */
static int
do_own(char **arg)
{
	int type = type_of(arg[0]), listener = listen_unix(type, arg[1], 4), client;

	if (listener < 0)
		return errno;
	client = connect_unix(type, arg[2]);
	return client < 0 ? errno : talk(client, listener);
}

static int
do_connect(char **arg)
{
	return connect_unix(type_of(arg[0]), arg[1]) < 0 ? errno : 0;
}

static int
do_tcp(char **arg)
{
	int family = strcmp(arg[0], "4") == 0 ? AF_INET : AF_INET6;
	struct sockaddr_storage at = { .ss_family = (sa_family_t)family };
	socklen_t len =
	    family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int listener = socket(family, SOCK_STREAM, 0), client = socket(family, SOCK_STREAM, 0);
	struct pollfd pfd;

	if (family == AF_INET)
		((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&at)->sin6_addr = in6addr_loopback;
	if (listener < 0 || client < 0 || bind(listener, (struct sockaddr *)&at, len) < 0 ||
	    listen(listener, 4) < 0 || getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		return errno;
	if (strcmp(arg[1], "blocking") == 0) {
		if (connect(client, (struct sockaddr *)&at, len) < 0)
			return errno;
		/* The socket is connected, and its flags have not changed. */
		if (connect(client, (struct sockaddr *)&at, len) == 0 || errno != EISCONN ||
		    (fcntl(client, F_GETFL) & O_NONBLOCK) != 0)
			return EBADE;
	} else {
		fcntl(client, F_SETFL, O_NONBLOCK);
		if (connect(client, (struct sockaddr *)&at, len) == 0 || errno != EINPROGRESS)
			return EBADE;
		pfd = (struct pollfd){ .fd = client, .events = POLLOUT };
		if (poll(&pfd, 1, PATIENCE_MS) != 1 ||
		    connect(client, (struct sockaddr *)&at, len) < 0)
			return errno;
	}
	return talk(client, listener);
}

static int
do_refused_port(char **arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons(1),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ? errno : 0;
}

static int
do_socket(char **arg)
{
	return socket(AF_UNIX, type_of(arg[0]), 0) < 0 ? 1 : 0;
}

/* A socket that is bound but not listening; then only its file. */
static int
do_stale(char **arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), first, second;
	struct sockaddr_un un;
	socklen_t len;

	unix_address(arg[0], &un, &len);
	if (bind(fd, (struct sockaddr *)&un, len) < 0)
		return errno;
	first = connect_unix(SOCK_STREAM, arg[0]) < 0 ? errno : 0;
	close(fd);
	second = connect_unix(SOCK_STREAM, arg[0]) < 0 ? errno : 0;
	return first == ECONNREFUSED ? second : EBADE;
}

/* Invalid arguments give the kernel's own errors. */
static int
do_nonsense(char **arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), inet = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "own" };
	const struct sockaddr *at = (struct sockaddr *)&un;
	int null = open("/dev/null", O_RDWR);
	const struct {
		int fd;
		const void *at;
		socklen_t len;
		int want;
	} calls[] = {
		{ 999, at, sizeof(un), EBADF },
		{ null, at, sizeof(un), ENOTSOCK },
		{ fd, at, 0, EINVAL },
		{ fd, at, (socklen_t)-1, EINVAL },
		{ fd, at, sizeof(struct sockaddr_storage) + 1, EINVAL },
		{ fd, at, sizeof(un) + 1, EINVAL },
		{ fd, (const void *)8, sizeof(un), EFAULT },
		{ inet, at, sizeof(struct sockaddr_in), EAFNOSUPPORT },
		{ fd, &(struct sockaddr_in){ .sin_family = AF_INET }, sizeof(struct sockaddr_in),
		    EINVAL },
	};

	for (size_t i = 0; i < N_ELEMENTS(calls); i++)
		if (connect(calls[i].fd, calls[i].at, calls[i].len) == 0 ||
		    errno != calls[i].want) {
			fprintf(stderr, "# call %zu: %s\n", i, strerror(errno));
			return (int)i + 1;
		}
	return 0;
}

/* A full backlog: connect() fails if it may not wait, otherwise it succeeds once there is room. */
static int
do_backlog(char **arg)
{
	int listener = listen_unix(SOCK_STREAM, "backlog", 0), fd, r, status, ready[2];
	struct timeval limit = { .tv_usec = 20000 };
	struct sockaddr_un un;
	socklen_t len;
	pid_t pid;
	char c;

	unix_address("backlog", &un, &len);
	if (listener < 0 || connect_unix(SOCK_STREAM, "backlog") < 0 || pipe(ready) < 0)
		return errno;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(fd, (struct sockaddr *)&un, len) == 0 || errno != EAGAIN)
		return EBADE;
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&un, len) == 0 || errno != EAGAIN)
		return EBADE;
	/* A child killed while it waits leaves nothing behind that counts. */
	pid = fork();
	if (pid == 0)
		_exit(connect_unix(SOCK_STREAM, "backlog") < 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	pid = fork();
	if (pid == 0) {
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(connect_unix(SOCK_STREAM, "backlog") < 0 ? errno : 0);
	}
	if (read(ready[0], &c, 1) != 1)
		return EBADMSG;
	/* It must not succeed before there is room. */
	for (int i = 0; i < 50; i++) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return EBADE;
		guest_blink();
	}
	r = accept(listener, NULL, NULL);
	if (r < 0 || waitpid(pid, &status, 0) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EBADE;
}

static volatile sig_atomic_t handled;

static void
on_signal(int signo)
{
	handled = 1;
}

/* A signal arrives while connect() waits for room. */
static int
do_interrupted(char **arg)
{
	bool restart = strcmp(arg[0], "restart") == 0;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = restart ? SA_RESTART : 0 };
	int listener = listen_unix(SOCK_STREAM, "backlog", 0), status, r;
	pid_t pid;

	if (listener < 0 || connect_unix(SOCK_STREAM, "backlog") < 0 ||
	    sigaction(SIGALRM, &action, NULL) < 0)
		return errno;
	pid = fork();
	if (pid == 0) {
		alarm(1);
		r = connect_unix(SOCK_STREAM, "backlog") < 0 ? errno : 0;
		_exit(handled ? r : EBADE);
	}
	if (restart) {
		/* Long enough for the signal to arrive first. */
		for (int i = 0; i < 1500; i++) {
			if (waitpid(pid, &status, WNOHANG) != 0)
				return EBADMSG;
			guest_blink();
		}
		close(accept(listener, NULL, NULL));
	}
	if (waitpid(pid, &status, 0) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EBADE;
}

static void *
wait_in_backlog(void *arg)
{
	atomic_int *refused = arg;

	if (connect_unix(SOCK_STREAM, "crowd") < 0 && errno == EAGAIN)
		atomic_fetch_add(refused, 1);
	return NULL;
}

/* One process cannot take all places for waiting connections. */
static int
do_crowd(char **arg)
{
	int listener = listen_unix(SOCK_STREAM, "crowd", 0);
	static atomic_int refused;
	pthread_t thread;

	if (listener < 0 || connect_unix(SOCK_STREAM, "crowd") < 0)
		return errno;
	for (int i = 0; i < 100; i++)
		if (pthread_create(&thread, NULL, wait_in_backlog, &refused) != 0)
			return EAGAIN;
	while (atomic_load(&refused) < 100 - 64)
		guest_blink();
	/* Another connection still gets its turn. */
	return do_own(
	    (char *[]){ (char[]){ "stream" }, (char[]){ "beside" }, (char[]){ "beside" } });
}

/*
 * Standard input is a socket of the host: the command must not reconnect it to an address of the
 * host.
 */
static int
do_inherited(char **arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(arg[0])),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)connect(0, &none, sizeof(none));
	return connect(0, (struct sockaddr *)&at, sizeof(at)) < 0 ? errno : 0;
}

/* ---- swapping: everything a command can change while its connection is checked ---- */

static struct {
	struct sockaddr_un un;
	char own[64], host[64];
	atomic_int fd;
	atomic_bool over;
} swap;

static void *
swap_address(void *arg)
{
	while (!atomic_load(&swap.over)) {
		memcpy(swap.un.sun_path, swap.host, sizeof(swap.host));
		/* Otherwise the compiler may drop the first copy. */
		atomic_signal_fence(memory_order_seq_cst);
		memcpy(swap.un.sun_path, swap.own, sizeof(swap.own));
		atomic_signal_fence(memory_order_seq_cst);
	}
	return NULL;
}

static void *
swap_link(void *arg)
{
	while (!atomic_load(&swap.over)) {
		if (symlink("own", "next") < 0 || rename("next", "link") < 0 ||
		    symlink("host", "next") < 0 || rename("next", "link") < 0)
			break;
	}
	return NULL;
}

static void *
swap_descriptor(void *arg)
{
	int file = open("no-socket", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	must(file >= 0);
	/* Give the number to another kind of socket, to what is no socket and to the right kind, and
	 * change its flags. */
	while (!atomic_load(&swap.over)) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0), inet = socket(AF_INET, SOCK_STREAM, 0);

		dup2(inet, atomic_load(&swap.fd));
		dup2(file, atomic_load(&swap.fd));
		dup2(fd, atomic_load(&swap.fd));
		fcntl(atomic_load(&swap.fd), F_SETFL, O_NONBLOCK);
		fcntl(atomic_load(&swap.fd), F_SETFL, 0);
		close(fd);
		close(inet);
	}
	return NULL;
}

static void *
accept_all(void *arg)
{
	int fd;

	while ((fd = accept((int)(intptr_t)arg, NULL, NULL)) >= 0)
		close(fd);
	return NULL;
}

/* swap LINK TRIES: returns 0 if at least one connection succeeded. */
static int
do_swap(char **arg)
{
	bool by_link = strcmp(arg[0], "link") == 0;
	int listener = listen_unix(SOCK_STREAM, "own", 64), made = 0;
	pthread_t thread;

	if (listener < 0)
		return errno;
	snprintf(swap.own, sizeof(swap.own), "own");
	snprintf(swap.host, sizeof(swap.host), "host");
	swap.un.sun_family = AF_UNIX;
	snprintf(swap.un.sun_path, sizeof(swap.un.sun_path), by_link ? "link" : "own");
	atomic_store(&swap.fd, fcntl(socket(AF_UNIX, SOCK_STREAM, 0), F_DUPFD, 500));
	if (by_link && symlink("own", "link") < 0)
		return errno;
	must(pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listener) == 0);
	must(pthread_create(&thread, NULL, by_link ? swap_link : swap_address, NULL) == 0);
	if (!by_link)
		must(pthread_create(&thread, NULL, swap_descriptor, NULL) == 0);
	for (int i = atoi(arg[1]); i > 0; i--) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		/* Alternate between the swapped number and a descriptor of our own. */
		if (connect(i % 2 == 0 && !by_link ? atomic_load(&swap.fd) : fd,
			(struct sockaddr *)&swap.un, sizeof(swap.un)) == 0)
			made++;
		close(fd);
	}
	_exit(made > 0 ? 0 : 1);
}

static int
by_number(const void *a, const void *b)
{
	return (*(const uint64_t *)a > *(const uint64_t *)b) -
	    (*(const uint64_t *)a < *(const uint64_t *)b);
}

static uint64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Prints the latency of a connection, p50 and p99, for the log. */
static int
do_latency(char **arg)
{
	enum { N = 2000 };
	static uint64_t took[N];
	struct sockaddr_storage at[2] = { { .ss_family = AF_UNIX }, { .ss_family = AF_INET } };
	socklen_t len[2] = { sizeof(struct sockaddr_un), sizeof(struct sockaddr_in) };

	snprintf(((struct sockaddr_un *)&at[0])->sun_path, 64, "latency");
	((struct sockaddr_in *)&at[1])->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int k = 0; k < 2; k++) {
		int listener = socket(at[k].ss_family, SOCK_STREAM, 0);

		if (bind(listener, (struct sockaddr *)&at[k], len[k]) < 0 ||
		    listen(listener, 16) < 0 ||
		    getsockname(listener, (struct sockaddr *)&at[k], &len[k]) < 0)
			return errno;
		for (int i = 0; i < N; i++) {
			int fd = socket(at[k].ss_family, SOCK_STREAM, 0);

			took[i] = clock_ns();
			if (connect(fd, (struct sockaddr *)&at[k], len[k]) < 0)
				return errno;
			took[i] = clock_ns() - took[i];
			close(accept(listener, NULL, NULL));
			close(fd);
		}
		qsort(took, N, sizeof(took[0]), by_number);
		fprintf(stderr, "# connect %s: p50 %.1f us, p99 %.1f us\n",
		    k == 0 ? "AF_UNIX" : "AF_INET", (double)took[N / 2] / 1000,
		    (double)took[N / 100 * 99] / 1000);
	}
	unlink("latency");
	return 0;
}

static const struct {
	const char *name;
	int (*run)(char **arg);
} guest_does[] = {
	{ "own", do_own },
	{ "connect", do_connect },
	{ "tcp", do_tcp },
	{ "refused-port", do_refused_port },
	{ "socket", do_socket },
	{ "stale", do_stale },
	{ "nonsense", do_nonsense },
	{ "backlog", do_backlog },
	{ "interrupted", do_interrupted },
	{ "crowd", do_crowd },
	{ "inherited", do_inherited },
	{ "swap", do_swap },
	{ "latency", do_latency },
};

static int
be_guest(char **arg)
{
	for (size_t i = 0; i < N_ELEMENTS(guest_does); i++)
		if (strcmp(arg[0], guest_does[i].name) == 0)
			return guest_does[i].run(arg + 1);
	return ENOSYS;
}

#endif
