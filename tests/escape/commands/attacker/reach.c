/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching sockets of the host, in every way that a filter may miss. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_ether.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

#define PROTOCOL_MPTCP 262 /* IPPROTO_MPTCP */
#define TEXT           "reached\n"
/* How long to try a race between the check of an address and its use: a few time slices for
 * both, even on one core. */
#define RACE_MS 300

struct target {
	struct sockaddr_storage addr;
	socklen_t len;
	int family, type;
};

static void
at_path(struct target *t, const char *path, int type)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&t->addr;
	size_t len = strlen(path);

	memset(t, 0, sizeof(*t));
	t->family = AF_UNIX;
	t->type = type;
	sun->sun_family = AF_UNIX;
	if (len >= sizeof(sun->sun_path)) {
		errno = ENAMETOOLONG;
		exit(failed(path));
	}
	memcpy(sun->sun_path, path, len);
	t->len = sizeof(*sun);
	if (path[0] == '@') {
		sun->sun_path[0] = '\0';
		t->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	}
}

static void
at_host(struct target *t, const char *host, const char *port, int type)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = type };
	struct addrinfo *found = NULL;

	memset(t, 0, sizeof(*t));
	if (getaddrinfo(host, port, &hints, &found) != 0) {
		errno = EINVAL;
		exit(failed(host));
	}
	t->family = found->ai_family;
	t->type = type;
	memcpy(&t->addr, found->ai_addr, found->ai_addrlen);
	t->len = found->ai_addrlen;
	freeaddrinfo(found);
}

/* The text sent to a reached service. */
static const char *said = TEXT;

/* ---- ways ---- */

static int
by_connect(const struct target *t, int fd)
{
	if (connect(fd, (const struct sockaddr *)&t->addr, t->len) < 0)
		return failed("connect");
	(void)!write(fd, said, strlen(said));
	return 0;
}

static int
by_sendto(const struct target *t, int fd)
{
	return sendto(fd, TEXT, strlen(TEXT), 0, (const struct sockaddr *)&t->addr, t->len) < 0
	    ? failed("sendto")
	    : 0;
}

static int
by_fastopen(const struct target *t, int fd)
{
	return sendto(fd, TEXT, strlen(TEXT), MSG_FASTOPEN, (const struct sockaddr *)&t->addr,
		   t->len) < 0
	    ? failed("sendto")
	    : 0;
}

static int
by_sendmsg(const struct target *t, int fd)
{
	struct target copy = *t;
	char text[] = TEXT;
	struct iovec iov = { .iov_base = text, .iov_len = strlen(text) };
	struct msghdr msg = { .msg_name = &copy.addr,
		.msg_namelen = t->len,
		.msg_iov = &iov,
		.msg_iovlen = 1 };

	return sendmsg(fd, &msg, 0) < 0 ? failed("sendmsg") : 0;
}

static int
by_sendmmsg(const struct target *t, int fd)
{
	struct target copy = *t;
	char text[] = TEXT;
	struct iovec iov = { .iov_base = text, .iov_len = strlen(text) };
	struct mmsghdr msg = { .msg_hdr = { .msg_name = &copy.addr,
				   .msg_namelen = t->len,
				   .msg_iov = &iov,
				   .msg_iovlen = 1 } };

	return sendmmsg(fd, &msg, 1, 0) != 1 ? failed("sendmmsg") : 0;
}

/* Submits one entry through a ring, by system calls alone. */
static int
ring_submit(const struct io_uring_sqe *sqe)
{
	struct io_uring_params p = { 0 };
	cleanup_close int ring = (int)syscall(SYS_io_uring_setup, 4, &p);
	uint8_t *sq, *cq;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqe;
	unsigned tail;

	if (ring < 0)
		return failed("io_uring_setup");
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		return failed("ring");
	sqes[0] = *sqe;
	tail = *(unsigned *)(void *)(sq + p.sq_off.tail);
	((unsigned *)(void *)(sq + p.sq_off.array))[tail & (p.sq_entries - 1)] = 0;
	__atomic_store_n((unsigned *)(void *)(sq + p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return failed("io_uring_enter");
	cqe = (struct io_uring_cqe *)(void *)(cq + p.cq_off.cqes);
	if (cqe->res < 0) {
		errno = -cqe->res;
		return failed("the ring");
	}
	return 0;
}

static int
by_ring(const struct target *t, int fd)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_CONNECT,
		.fd = fd,
		.addr = (uint64_t)(uintptr_t)&t->addr,
		.off = t->len };

	return ring_submit(&sqe);
}

#ifdef __x86_64__
/* Uses the 32-bit system call table from 64-bit code. Pointers in the arguments must be below 4
 * GiB. */
static long
int80(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret;
}
#endif

static int
by_int80(const struct target *t)
{
#ifdef __x86_64__
	struct target *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long fd, ret;

	if (low == MAP_FAILED)
		return failed("mmap");
	*low = *t;
	fd = int80(359, t->family, t->type, 0); /* socket */
	if (fd < 0) {
		errno = (int)-fd;
		return failed("socket, int 0x80");
	}
	ret = int80(362, fd, (long)(uintptr_t)&low->addr, t->len); /* connect */
	if (ret < 0) {
		errno = (int)-ret;
		return failed("connect, int 0x80");
	}
	return 0;
#else
	errno = ENOSYS;
	return failed("int 0x80");
#endif
}

/* Another thread changes the address between its check and its use. */
struct flip {
	struct target *shared;
	const struct target *mine, *theirs;
	volatile bool stop;
};

static void *
flip_main(void *arg)
{
	struct flip *f = arg;

	while (!f->stop) {
		memcpy(&f->shared->addr, &f->theirs->addr, sizeof(f->theirs->addr));
		__asm__ volatile("" ::: "memory");
		memcpy(&f->shared->addr, &f->mine->addr, sizeof(f->mine->addr));
		__asm__ volatile("" ::: "memory");
	}
	return NULL;
}

static long
ms_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - then->tv_sec) * 1000 + (now.tv_nsec - then->tv_nsec) / 1000000;
}

static void
serve_own(const char *path)
{
	struct target own;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at_path(&own, path, SOCK_STREAM);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own.addr, own.len) < 0 || listen(fd, 64) < 0)
		exit(failed(path));
	if (fork() == 0) {
		for (;;)
			close(accept(fd, NULL, NULL));
	}
	close(fd);
}

/* swap address|path|fd OWN THEIRS: connects to an own socket, which at the right moment becomes
 * theirs. */
int
swap_main(int argc, char **argv)
{
	struct target mine, theirs, shared;
	struct flip flip = { .shared = &shared, .mine = &mine, .theirs = &theirs };
	const char *how = argv[1];
	char link[PATH_MAX], spare[PATH_MAX];
	pthread_t thread;
	struct timespec begun;
	pid_t swapper = -1;

	signal(SIGPIPE, SIG_IGN);
	serve_own(argv[2]);
	at_path(&mine, argv[2], SOCK_STREAM);
	at_path(&theirs, argv[3], SOCK_STREAM);
	shared = mine;
	if (strcmp(how, "address") == 0) {
		if (pthread_create(&thread, NULL, flip_main, &flip) != 0)
			return failed("thread");
	} else {
		/* A link that points to one and the other in turn. */
		snprintf(link, sizeof(link), "%s.l", argv[2]);
		snprintf(spare, sizeof(spare), "%s.s", argv[2]);
		if (symlink(argv[2], link) < 0 || symlink(argv[3], spare) < 0)
			return failed("symlink");
		at_path(&shared, link, SOCK_STREAM);
		if ((swapper = fork()) == 0) {
			for (;;)
				syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD, spare, 2);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, (struct sockaddr *)&shared.addr, shared.len) == 0)
			(void)!write(fd, TEXT, strlen(TEXT));
	} while (ms_since(&begun) < RACE_MS);
	flip.stop = true;
	if (swapper > 0)
		kill(swapper, SIGKILL);
	kill(0, SIGTERM);
	return 0;
}

/* Raw UDP: the program writes the header itself. */
static int
by_raw(const struct target *t)
{
	struct target copy = *t;
	struct sockaddr_in *sin = (struct sockaddr_in *)&copy.addr;
	struct {
		struct udphdr head;
		char text[8];
	} packet = { .head = { .uh_sport = htons(4242),
			 .uh_dport = sin->sin_port,
			 .uh_ulen = htons(sizeof(packet)) } };
	cleanup_close int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);

	memcpy(packet.text, TEXT, sizeof(packet.text));
	sin->sin_port = 0;
	if (fd < 0)
		return failed("raw socket");
	return sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&copy.addr, copy.len) < 0
	    ? failed("raw")
	    : 0;
}

/* A descriptor of the socket file, which names it in a way that skips a check of its path. */
static int
by_opath(const struct target *t, const char *path)
{
	cleanup_close int node = open(path, O_PATH | O_CLOEXEC), fd = -1;
	struct target renamed;
	char name[64];

	if (node < 0)
		return failed(path);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", node);
	at_path(&renamed, name, t->type);
	fd = socket(AF_UNIX, t->type | SOCK_CLOEXEC, 0);
	return fd < 0 ? failed("socket") : by_connect(&renamed, fd);
}

static int
by_relative(const char *path, int type)
{
	struct target t;
	char dir[PATH_MAX];
	char *slash;
	cleanup_close int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(dir, sizeof(dir), "%s", path);
	if ((slash = strrchr(dir, '/')) == NULL)
		return 1;
	*slash = '\0';
	if (fd < 0 || chdir(dir) < 0)
		return failed(dir);
	at_path(&t, slash + 1, type);
	return by_connect(&t, fd);
}

/* unix HOW TYPE PATH: TYPE is stream, dgram or seqpacket; an abstract PATH begins with @. */
int
unix_main(int argc, char **argv)
{
	const char *how = argv[1];
	int type = strcmp(argv[2], "stream") == 0 ? SOCK_STREAM
	    : strcmp(argv[2], "dgram") == 0       ? SOCK_DGRAM
						  : SOCK_SEQPACKET;
	cleanup_close int fd = -1;
	struct target t;
	int pair[2];

	signal(SIGPIPE, SIG_IGN);
	at_path(&t, argv[3], type);
	if (strcmp(how, "int80") == 0)
		return by_int80(&t);
	if (strcmp(how, "opath") == 0)
		return by_opath(&t, argv[3]);
	if (strcmp(how, "relative") == 0)
		return by_relative(argv[3], type);
	if (strncmp(how, "pair-", 5) == 0) {
		/* Uses socketpair() instead of socket(). */
		if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
			return failed("socketpair");
		how += 5;
		fd = pair[0];
	} else if ((fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0)) < 0) {
		return failed("socket");
	}
	if (strcmp(how, "connect") == 0)
		return by_connect(&t, fd);
	if (strcmp(how, "sendto") == 0)
		return by_sendto(&t, fd);
	if (strcmp(how, "sendmsg") == 0)
		return by_sendmsg(&t, fd);
	if (strcmp(how, "sendmmsg") == 0)
		return by_sendmmsg(&t, fd);
	if (strcmp(how, "uring") == 0)
		return by_ring(&t, fd);
	errno = EINVAL;
	return failed(how);
}

/* inet HOW PROTOCOL HOST PORT [TEXT] */
int
inet_main(int argc, char **argv)
{
	const char *how = argv[1];
	int type = strcmp(argv[2], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
	int protocol = strcmp(argv[2], "mptcp") == 0 ? PROTOCOL_MPTCP : 0;
	const struct in_addr loopback = { .s_addr = htonl(INADDR_LOOPBACK) };
	struct target t;
	cleanup_close int fd = -1;

	at_host(&t, argv[3], argv[4], type);
	if (argc > 5)
		said = argv[5];
	if (strcmp(how, "int80") == 0)
		return by_int80(&t);
	if (strcmp(how, "raw") == 0)
		return by_raw(&t);
	if ((fd = socket(t.family, type | SOCK_CLOEXEC, protocol)) < 0)
		return failed("socket");
	if (t.family == AF_INET && type == SOCK_DGRAM)
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback));
	if (strcmp(how, "connect") == 0)
		return by_connect(&t, fd);
	if (strcmp(how, "sendto") == 0)
		return by_sendto(&t, fd);
	if (strcmp(how, "sendmmsg") == 0)
		return by_sendmmsg(&t, fd);
	if (strcmp(how, "fastopen") == 0)
		return by_fastopen(&t, fd);
	if (strcmp(how, "uring") == 0)
		return by_ring(&t, fd);
	errno = EINVAL;
	return failed(how);
}

/* sniff READY WORD: for a second, prints what begins with WORD in any packet of the machine. */
int
sniff_main(int argc, char **argv)
{
	cleanup_close int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	static char packet[65536];

	if (fd < 0)
		return failed("packet socket");
	close(open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	while (poll(&wait, 1, 1000) > 0) {
		ssize_t n = read(fd, packet, sizeof(packet));
		const char *at =
		    n <= 0 ? NULL : memmem(packet, (size_t)n, argv[2], strlen(argv[2]));

		if (at != NULL) {
			printf("%.*s\n", (int)(packet + n - at), at);
			return 0;
		}
	}
	return 1;
}

/* squat tcp|abstract WHERE: answers in the host's place until killed; makes WHERE.ready in the
 * current directory when it listens. */
int
squat_main(int argc, char **argv)
{
	bool tcp = strcmp(argv[1], "tcp") == 0;
	struct target t;
	int fd, on = 1;

	if (tcp)
		at_host(&t, "127.0.0.1", argv[2], SOCK_STREAM);
	else
		at_path(&t, argv[2], SOCK_STREAM);
	fd = socket(t.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failed("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&t.addr, t.len) < 0 || listen(fd, 16) < 0)
		return failed("bind");
	close(open("squat.ready", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	for (;;)
		close(accept(fd, NULL, NULL));
}
