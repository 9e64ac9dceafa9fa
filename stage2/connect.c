/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/connect.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/bound_sockets.h"
#include "stage2/caller.h"
#include "stage2/connect_call.h"
#include "stage2/drafts.h"
#include "stage2/links.h"
#include "stage2/refusals.h"

/* Missing from the headers of Debian 12. */
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/*
 * Limit of one turn of the loop, so that other work (first of all mounts that a process outside
 * detached) is checked in between. CONNECT_TURN_MS is the limit that matters in a slot with many
 * sockets.
 */
#define CONNECT_TURN_MAX 32

enum { NOT_NOW = 1, /* it waits in the table */ GONE, /* no caller waits for an answer */ };

struct connect_guard {
	int listener;
	struct bound_sockets bound;
	struct connect_wait wait;
	uint64_t netns; /* 0: this kernel does not say of which one a socket is */
	/* The inodes of the host's sockets, if it does not. They stay: a command may pass one on. */
	ino_t *given;
	size_t n_given;
	dev_t private_dev[4];
	size_t n_private;
	struct refusals refused;
};

/* A requested connection. */
struct connect_attempt {
	struct connect_guard *g;
	uint64_t id;
	pid_t tid;
	int pidfd, cwd, socket, target; /* owned, or -1 */
	int domain, type, flags;
	struct sockaddr_storage addr;
	socklen_t len;
};

static void
attempt_done(struct connect_attempt *a)
{
	close_at(&a->pidfd);
	close_at(&a->cwd);
	close_at(&a->socket);
	close_at(&a->target);
}

/* More than any host passes on; each takes eight bytes and a comparison. */
#define GIVEN_MAX 65536

/* Returns the network namespace of a socket, or 0 if the kernel does not report it. */
static uint64_t
netns_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		return 0;
	return cookie;
}

/* Does the socket belong to the host? No other socket has its inode number while it is open. */
static bool
is_of_host(const struct connect_guard *g, int fd)
{
	struct stat st;

	if (g->netns != 0)
		return netns_of(fd) != g->netns;
	if (fstat(fd, &st) < 0)
		return true;
	for (size_t i = 0; i < g->n_given; i++)
		if (g->given[i] == st.st_ino)
			return true;
	return false;
}

static int
remember(struct connect_guard *g, ino_t inode)
{
	ino_t *v;

	for (size_t i = 0; i < g->n_given; i++)
		if (g->given[i] == inode)
			return 0;
	if (g->n_given == GIVEN_MAX) {
		errno = E2BIG;
		return -1;
	}
	/* Room is doubled, so it is used up exactly when the number is a power of two. */
	if ((g->n_given & (g->n_given - 1)) == 0) {
		v = reallocarray(g->given, g->n_given == 0 ? 1 : g->n_given * 2, sizeof(*v));
		if (v == NULL)
			return -1;
		g->given = v;
	}
	g->given[g->n_given++] = inode;
	return 0;
}

int
connect_given(struct connect_guard *g, const int *fds, size_t n)
{
	struct stat st;

	for (size_t i = 0; g != NULL && g->netns == 0 && i < n; i++) {
		if (fstat(fds[i], &st) < 0 || (S_ISSOCK(st.st_mode) && remember(g, st.st_ino) < 0))
			return -1;
	}
	return 0;
}

struct connect_guard *
connect_new(int listener_fd, struct koda_error *err)
{
	static const char *const private_dirs[] = { "/tmp", "/var/tmp", "/dev/shm", "/run" };
	cleanup(bound_sockets_done) struct bound_sockets bound = { .fd = -1 };
	cleanup_close int listener = listener_fd;
	struct connect_wait wait;
	struct connect_guard *g;
	struct stat root, st;
	uint64_t netns;

	if (bound_sockets_init(&bound, err) < 0)
		return NULL;
	netns = netns_of(bound.fd);
	if (netns == 0 && errno != ENOPROTOOPT) {
		err_set(err, KODA_UNSUPPORTED, errno, "identify the network namespace");
		return NULL;
	}
	if (connect_wait_init(&wait, listener) < 0 || stat("/", &root) < 0) {
		err_set(err, KODA_IO, errno, "prepare to check connections");
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (g == NULL) {
		err_set(err, KODA_IO, ENOMEM, "prepare to check connections");
		return NULL;
	}
	for (size_t i = 0; i < N_ELEMENTS(private_dirs); i++)
		if (stat(private_dirs[i], &st) == 0 && st.st_dev != root.st_dev)
			g->private_dev[g->n_private++] = st.st_dev;
	g->netns = netns;
	g->refused.kind = KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED;
	/* Halves the time of a connection, where the kernel has it (Linux 6.6). */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	g->listener = take_fd(&listener);
	g->bound = bound;
	g->wait = wait;
	bound.fd = -1;
	return g;
}

int
connect_fd(const struct connect_guard *g)
{
	return g->listener;
}

static void
report_refused(struct stage2 *s, const char *target)
{
	refusals_tell(s, &s->guard->refused, target);
}

void
connect_tell_untold(struct stage2 *s)
{
	if (s->guard != NULL)
		refusals_tell_untold(s, &s->guard->refused);
}

static bool
is_path(const struct connect_attempt *a)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->addr;

	return a->addr.ss_family == AF_UNIX && a->len > offsetof(struct sockaddr_un, sun_path) &&
	    a->len <= sizeof(*un) && un->sun_path[0] != '\0';
}

/*
 * Takes everything from the caller once, with the kernel's order of errors. Returns 0, -errno or
 * GONE.
 */
static int
take_arguments(struct connect_attempt *a, const struct seccomp_data *data)
{
	int len = (int)data->args[2], r = 0;
	socklen_t size = sizeof(int);

	a->pidfd = caller_open(a->tid);
	if (a->pidfd < 0)
		return a->pidfd == -ESRCH ? GONE : -EPERM;
	if (len < 0 || len > (int)sizeof(a->addr)) {
		r = -EINVAL;
	} else if (len > 0) {
		struct iovec to = { &a->addr, (size_t)len };
		struct iovec from = { (void *)(uintptr_t)data->args[1], (size_t)len };
		ssize_t n = process_vm_readv(a->tid, &to, 1, &from, 1, 0);

		if (n < 0 && errno == ESRCH)
			return GONE;
		if (n != len)
			r = n < 0 && errno != EFAULT ? -EPERM : -EFAULT;
		a->len = (socklen_t)len;
	}
	if (r == 0 && is_path(a) && ((struct sockaddr_un *)&a->addr)->sun_path[0] != '/') {
		a->cwd = caller_cwd(a->tid);
		if (a->cwd < 0)
			r = errno == ENOENT ? -ENOENT : -EPERM;
	}
	/* What stage2 opened by the caller's number is the caller's only if it still waits now. */
	if (!caller_waits(a->g->listener, a->id))
		return GONE;
	a->socket = (int)syscall(SYS_pidfd_getfd, a->pidfd, (int)data->args[0], 0);
	if (a->socket < 0)
		return errno == EBADF                    ? -EBADF
		    : errno == EMFILE || errno == ENFILE ? -EAGAIN
							 : -EPERM;
	if (r < 0)
		return r;
	if (getsockopt(a->socket, SOL_SOCKET, SO_DOMAIN, &a->domain, &size) < 0 ||
	    getsockopt(a->socket, SOL_SOCKET, SO_TYPE, &a->type, &size) < 0)
		return -errno;
	a->flags = fcntl(a->socket, F_GETFL);
	return a->flags < 0 ? -errno : 0;
}

static bool
is_private(const struct connect_guard *g, dev_t dev)
{
	for (size_t i = 0; i < g->n_private; i++)
		if (g->private_dev[i] == dev)
			return true;
	return false;
}

/*
 * Finds the socket that a path names. If it is one of the slot's, a->target holds it, a->addr
 * refers to a->target, and the result is 0. Otherwise returns -errno; an attempt to reach a socket
 * of the host is reported to the host. The commands' root is ours: no process of the slot can have
 * changed its own.
 */
static int
take_target(struct stage2 *s, struct connect_attempt *a)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->addr;
	char path[sizeof(un->sun_path) + 1] = { 0 }, link[32], name[PATH_LEN_MAX + 1];
	size_t len = a->len - offsetof(struct sockaddr_un, sun_path);
	struct stat st;
	bool exact;
	ssize_t n;

	if (!bound_sockets_may_ask(&a->g->bound))
		return -EAGAIN;
	memcpy(path, un->sun_path, len);
	/*
	 * For us /proc/self is another process than for the caller, and a path must not find what
	 * is behind its links.
	 */
	a->target =
	    open_resolved(a->cwd >= 0 ? a->cwd : AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS);
	if (a->target < 0)
		return errno == ENOSYS                   ? -EPERM
		    : errno == EMFILE || errno == ENFILE ? -EAGAIN
							 : -errno;
	if (fstat(a->target, &st) < 0)
		return -EPERM;
	if (!S_ISSOCK(st.st_mode))
		return -ECONNREFUSED;
	exact = bound_sockets_are_exact(a->target, &st) || drafts_have(s->view, a->target, &st);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", a->target);
	if (exact && bound_sockets_has(&a->g->bound, BOUND_LISTENING, &st)) {
		memset(un->sun_path, 0, sizeof(un->sun_path));
		strcpy(un->sun_path, link);
		a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(link) + 1);
		return 0;
	}
	/*
	 * A socket of the slot that no process listens on any more, or not yet. Answer as the
	 * kernel would: programs take this answer as the sign that they may remove the socket. A
	 * socket of the host must not get it.
	 */
	if (is_private(a->g, st.st_dev) ||
	    (exact && bound_sockets_has(&a->g->bound, BOUND_CLOSED, &st)))
		return -ECONNREFUSED;
	n = readlink(link, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = '\0';
	report_refused(s, n > 0 ? name : path);
	return -EPERM;
}

static int
let_wait(struct connect_attempt *a)
{
	const struct connect_waiter waiter = { .id = a->id,
		.tid = a->tid,
		.domain = a->domain,
		.socket = a->socket,
		.target = a->target,
		.addr = a->addr,
		.len = a->len };
	int r = connect_wait_add(&a->g->wait, &waiter);

	if (r < 0)
		return r;
	a->socket = a->target = -1;
	return NOT_NOW;
}

/* Serves a notification. Returns the answer, 0 or -errno, or NOT_NOW or GONE: no answer. */
static int
serve_notification(struct stage2 *s, const struct seccomp_notif *req)
{
	cleanup(attempt_done) struct connect_attempt a = { .g = s->guard,
		.id = req->id,
		.tid = (pid_t)req->pid,
		.pidfd = -1,
		.cwd = -1,
		.socket = -1,
		.target = -1 };
	int r;

	if (req->data.nr != SYS_connect)
		return links_ask(s->links, req) ? NOT_NOW : -ENOMEM;
	if (a.tid == 0) /* not of our pid namespace */
		return -EPERM;
	r = take_arguments(&a, &req->data);
	if (r != 0)
		return r;
	/*
	 * A socket that the host passed as standard input would connect in the host's network
	 * namespace.
	 */
	if (is_of_host(s->guard, a.socket)) {
		report_refused(s, "a socket of the host");
		return -EPERM;
	}
	switch (a.domain) {
	case AF_UNIX:
		if (a.type != SOCK_STREAM && a.type != SOCK_SEQPACKET)
			return -EPERM; /* it could send to any path afterwards */
		if (is_path(&a)) {
			r = take_target(s, &a);
			if (r < 0)
				return r;
		}
		break;
	case AF_INET:
	case AF_INET6:
	case AF_NETLINK:
		/* The kernel refuses an address of a family other than the socket's. */
		break;
	default:
		return -EPERM; /* not every family is separated by network namespaces */
	}
	r = connect_call(a.socket, a.type, a.flags, &a.addr, a.len);
	if ((a.flags & O_NONBLOCK) == 0 && a.type != SOCK_DGRAM && a.type != SOCK_RAW &&
	    connect_call_has_to_wait(a.domain, r))
		return let_wait(&a);
	return r == -EINTR ? (a.domain == AF_UNIX ? -EAGAIN : -EINPROGRESS) : r;
}

void
connect_ready(struct stage2 *s)
{
	/* The kernel writes its own version of the struct, which may be larger than ours. */
	union {
		struct seccomp_notif req;
		uint8_t room[512];
	} in;
	struct pollfd pfd = { .fd = s->guard->listener, .events = POLLIN };
	uint64_t until = monotonic_ms() + CONNECT_TURN_MS;

	/* NOTIF_RECV would block if there is nothing. */
	for (int i = 0; i < CONNECT_TURN_MAX && monotonic_ms() < until && poll(&pfd, 1, 0) == 1;
	     i++) {
		int r;

		if ((pfd.revents & POLLIN) == 0)
			return;
		memset(&in, 0, sizeof(in));
		if (ioctl(s->guard->listener, SECCOMP_IOCTL_NOTIF_RECV, &in.req) < 0)
			continue; /* the caller was killed in between */
		r = serve_notification(s, &in.req);
		if (r <= 0)
			caller_answer(s->guard->listener, in.req.id, r);
	}
}

size_t
connect_pending(const struct connect_guard *g, struct pollfd *ret, size_t max, int *ret_timeout_ms)
{
	return connect_wait_poll(&g->wait, ret, max, ret_timeout_ms);
}

void
connect_progress(struct stage2 *s, const struct pollfd *fds, size_t n)
{
	connect_wait_progress(&s->guard->wait, fds, n);
}
