#include "stage2/connect.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/caller.h"
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
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_SUPER_MAGIC 0x2fc12fc1

/*
 * Limits of one turn of the loop, so that other work (first of all mounts that a process outside
 * detached) is checked in between. The time is the limit that matters in a slot with many sockets.
 */
#define CONNECT_TURN_MAX 32
#define CONNECT_TURN_MS  2
/* Connections of one process that may wait: the rest of the table is for the others. */
#define CONNECT_PENDING_PER_PROCESS 64
/* Descriptors left for orders, commands and the plan, besides those of the table. */
#define CONNECT_FDS_LEFT 512
/*
 * The longest that one connect() can block the loop. It blocks only if another thread removes
 * O_NONBLOCK during the call.
 */
#define CONNECT_SLICE_MS 5
/* A full backlog is tried again after 1, 2, 4 ... ms: the kernel does not signal free room. */
#define CONNECT_RETRY_MAX_MS 64
/* How long it may take to notice a caller that was killed or has a signal to handle. */
#define CONNECT_ALIVE_MS 100
/* Sockets of the slot to check for one connection. A slot with more cannot connect by path. */
#define CONNECT_SOCKETS_MAX 65536
/*
 * Processor time that checking them may take. The kernel also walks past the sockets that it does
 * not report. A slot with so many (some ten thousand) uses at most a tenth of our time, and its
 * connections by path fail.
 */
#define CONNECT_LOOK_US    5000
#define CONNECT_LOOK_SHARE 10
/* The kernel's ERESTARTSYS, which no program ever sees. */
#define RESTART 512

#define DIAG_BUFFER (32u << 10) /* the kernel never fills more at once */

enum { NOT_NOW = 1, /* it waits in the table */ GONE, /* no caller waits for an answer */ };

struct pending_connect {
	uint64_t id;
	pid_t tid, tgid;
	int socket;
	bool ready;              /* wait for POLLOUT; otherwise retry at `next` */
	uint64_t next, deadline; /* ms */
	unsigned delay;          /* ms */
	int late;                /* the answer when SO_SNDTIMEO runs out */
	bool over;               /* answered */
	int target;              /* what the address refers to by /proc/self/fd, or -1 */
	struct sockaddr_storage addr;
	socklen_t len;
};

struct connect_guard {
	int listener, diag;
	uint32_t seq;
	uint64_t netns;
	uint64_t look_from; /* ms; no path is looked up before */
	dev_t private_dev[4];
	size_t n_private;
	struct pending_connect *pending; /* oldest first */
	size_t n, size, max;
	size_t from; /* index of the next one to serve */
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

/* Our own processor time: other processes may take longer than anything here does. */
static uint64_t
own_us(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) / NS_PER_US;
}

static void
on_alarm(int signo)
{
	/* Only to interrupt connect(). */
}

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

struct connect_guard *
connect_new(int listener_fd, struct koda_error *err)
{
	static const char *const private_dirs[] = { "/tmp", "/var/tmp", "/dev/shm", "/run" };
	cleanup_close int listener = listener_fd, diag = -1;
	/* Without SA_RESTART, so that it interrupts connect(). */
	struct sigaction action = { .sa_handler = on_alarm };
	struct rlimit files;
	struct connect_guard *g;
	struct stat root, st;
	uint64_t netns;
	sigset_t set;

	diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (diag < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "open the list of sockets (unix_diag)");
		return NULL;
	}
	netns = netns_of(diag);
	if (netns == 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "tell network namespaces apart");
		return NULL;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (sigaction(SIGALRM, &action, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0 ||
	    getrlimit(RLIMIT_NOFILE, &files) < 0 || stat("/", &root) < 0) {
		err_set(err, KODA_IO, errno, "prepare for connections");
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (g == NULL) {
		err_set(err, KODA_IO, ENOMEM, "prepare for connections");
		return NULL;
	}
	/*
	 * Each waiting connection takes two descriptors; commands must not be able to use up those
	 * that orders need.
	 */
	g->max = CONNECT_PENDING_MAX;
	if (files.rlim_cur < CONNECT_FDS_LEFT + 2 * CONNECT_PENDING_MAX)
		g->max = files.rlim_cur <= CONNECT_FDS_LEFT
		    ? 16
		    : (size_t)(files.rlim_cur - CONNECT_FDS_LEFT) / 2;
	for (size_t i = 0; i < N_ELEMENTS(private_dirs); i++)
		if (stat(private_dirs[i], &st) == 0 && st.st_dev != root.st_dev)
			g->private_dev[g->n_private++] = st.st_dev;
	g->netns = netns;
	g->refused.kind = KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED;
	/* Halves the time of a connection, where the kernel has it (Linux 6.6). */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	g->listener = take_fd(&listener);
	g->diag = take_fd(&diag);
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
	/* What was opened by number belongs to the caller only if it still waits now. */
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

/*
 * Do unix_diag and the file system use the same numbers for the same inode? The kernel reports 32
 * bits of the inode number, so on that file system neither the requested socket nor any that could
 * be mistaken for it may have a larger one. It reports the superblock's device, which on btrfs and
 * overlayfs differs from stat(). On other file systems a socket of the host could be made to look
 * like one of the slot, so nothing on them is reached by path. The slot's private directories are
 * tmpfs.
 */
static bool
numbers_are_exact(int fd, const struct stat *st)
{
	struct statfs fs;

	if (st->st_ino > UINT32_MAX || fstatfs(fd, &fs) < 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case EXT4_SUPER_MAGIC: /* and ext2, ext3 */
	case F2FS_SUPER_MAGIC:
		return true;
	case TMPFS_MAGIC: /* counted from 1: beyond 32 bits only after four billion files */
	case RAMFS_MAGIC:
	case ZFS_SUPER_MAGIC:
		return true;
	case XFS_SUPER_MAGIC:
		/*
		 * The number is made of the number of the block and the place in it: at most 16 per
		 * block, rounded up to a power of two for each allocation group.
		 */
		return fs.f_blocks < (UINT32_MAX / 16 / 2);
	default:
		return false;
	}
}

/* Is the socket in this answer bound to (dev, ino)? */
static bool
socket_matches(const struct nlmsghdr *msg, uint32_t dev, uint32_t ino)
{
	const struct unix_diag_msg *diag = NLMSG_DATA(msg);
	int left = (int)msg->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*diag));

	for (const struct nlattr *at = (const struct nlattr *)(diag + 1);
	     left >= (int)sizeof(*at) && at->nla_len >= sizeof(*at) && at->nla_len <= left;
	     left -= (int)NLA_ALIGN(at->nla_len),
				 at = (const struct nlattr *)((const char *)at +
				     NLA_ALIGN(at->nla_len))) {
		struct unix_diag_vfs vfs;

		if (at->nla_type != UNIX_DIAG_VFS || at->nla_len < sizeof(*at) + sizeof(vfs))
			continue;
		memcpy(&vfs, at + 1, sizeof(vfs));
		return vfs.udiag_vfs_dev == dev && vfs.udiag_vfs_ino == ino;
	}
	return false;
}

/*
 * Is a socket in one of these states bound to that inode, in the slot's network namespace? Returns
 * 1, 0 or -errno.
 */
static int
bound_here(struct connect_guard *g, unsigned states, const struct stat *st, bool *ret_in_parts)
{
	/* The kernel's dev_t, as its MKDEV makes it. */
	uint32_t dev = major(st->st_dev) << 20 | minor(st->st_dev), ino = (uint32_t)st->st_ino;
	_Alignas(struct nlmsghdr) static uint8_t buf[DIAG_BUFFER]; /* static is safe: no threads */
	struct {
		struct nlmsghdr head;
		struct unix_diag_req req;
	} ask = { .head = { sizeof(ask), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, ++g->seq,
		      0 },
		.req = { .sdiag_family = AF_UNIX,
		    .udiag_states = states,
		    .udiag_show = UDIAG_SHOW_VFS } };
	size_t seen = 0;
	int parts = 0, found = 0;

	if (send(g->diag, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
		return -EIO;
	/* Read to the end even after a match: what is left would be taken for the next answer. */
	for (;;) {
		ssize_t n = recv(g->diag, buf, sizeof(buf), 0);
		const struct nlmsghdr *msg;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || seen > CONNECT_SOCKETS_MAX)
			return -EIO;
		*ret_in_parts = ++parts > 2; /* the end is a part of its own */
		for (size_t at = 0; at + sizeof(*msg) <= (size_t)n;
		     at += NLMSG_ALIGN((size_t)msg->nlmsg_len)) {
			msg = (const struct nlmsghdr *)(buf + at);
			if (msg->nlmsg_len < sizeof(*msg) || msg->nlmsg_len > (size_t)n - at)
				return -EIO;
			if (msg->nlmsg_seq != g->seq)
				continue;
			if (msg->nlmsg_type == NLMSG_DONE)
				return found;
			if (msg->nlmsg_type == NLMSG_ERROR)
				return -EIO;
			seen++;
			if (found == 0 && socket_matches(msg, dev, ino))
				found = 1;
		}
	}
}

static int
diag_anew(struct connect_guard *g)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return -1;
	close(g->diag);
	g->diag = fd;
	return 0;
}

/*
 * Like bound_here(), but asks twice if the answer came in several parts: such an answer can miss a
 * socket that existed all the time.
 */
static bool
is_bound_here(struct connect_guard *g, unsigned states, const struct stat *st)
{
	uint64_t begun = own_us(), took;
	bool in_parts = false;
	int r = bound_here(g, states, st, &in_parts);

	if (r == 0 && in_parts)
		r = bound_here(g, states, st, &in_parts);
	took = own_us() - begun;
	if (took > CONNECT_LOOK_US)
		g->look_from = monotonic_ms() + took * CONNECT_LOOK_SHARE / 1000;
	if (r < 0 && diag_anew(g) < 0)
		return false;
	return r == 1;
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

	if (monotonic_ms() < a->g->look_from)
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
	exact = numbers_are_exact(a->target, &st);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", a->target);
	if (exact && is_bound_here(a->g, 1u << 10 /* TCP_LISTEN */, &st)) {
		memset(un->sun_path, 0, sizeof(un->sun_path));
		strcpy(un->sun_path, link);
		a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(link) + 1);
		return 0;
	}
	/*
	 * A leftover of the slot's own, or one that does not listen yet. Answer as the kernel
	 * would: programs take this as the sign that they may remove the socket. They must not
	 * think so of the host's.
	 */
	if (is_private(a->g, st.st_dev) ||
	    (exact && is_bound_here(a->g, 1u << 7 /* TCP_CLOSE */, &st)))
		return -ECONNREFUSED;
	n = readlink(link, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = '\0';
	report_refused(s, n > 0 ? name : path);
	return -EPERM;
}

/*
 * Calls connect() without waiting. Whether it may block depends on the open file, which is the
 * caller's too: O_NONBLOCK is set for the call and then removed. Another thread of the caller could
 * remove it during the call, so a timer interrupts the call. Datagram sockets never wait. Returns 0
 * or -errno.
 */
static int
connect_now(int fd, int type, int flags, const struct sockaddr_storage *addr, socklen_t len)
{
	static const struct itimerval
	    never = { 0 },
	    soon = {
		    /* Repeats, in case the first one came before the call. */
		    .it_interval.tv_usec = CONNECT_SLICE_MS * 1000,
		    .it_value.tv_usec = CONNECT_SLICE_MS * 1000,
	    };
	bool blocking = (flags & O_NONBLOCK) == 0;
	int r;

	if (type == SOCK_DGRAM || type == SOCK_RAW)
		return connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	if (blocking && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	setitimer(ITIMER_REAL, &soon, NULL);
	r = connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	/*
	 * Over loopback the connection is established now; the second call makes the socket's state
	 * reflect it.
	 */
	if (blocking && (r == -EINPROGRESS || r == -EINTR))
		r = connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	setitimer(ITIMER_REAL, &never, NULL);
	if (blocking)
		fcntl(fd, F_SETFL, flags);
	return r;
}

/* Must a blocking caller wait after that result? */
static bool
has_to_wait(int domain, int r)
{
	return domain == AF_UNIX ? r == -EAGAIN || r == -EINTR
				 : r == -EINPROGRESS || r == -EALREADY || r == -EINTR;
}

static int
wait_in_table(struct connect_attempt *a)
{
	struct connect_guard *g = a->g;
	struct timeval tv = { 0 };
	socklen_t size = sizeof(tv);
	struct pending_connect *p;
	size_t same = 0;
	pid_t tgid = caller_process(a->tid);

	for (size_t i = 0; i < g->n; i++)
		same += g->pending[i].tgid == tgid;
	if (g->n >= g->max || same >= CONNECT_PENDING_PER_PROCESS)
		return -EAGAIN;
	if (g->n == g->size) {
		size_t bigger = g->size != 0 ? g->size * 2 : 8;
		struct pending_connect *more = reallocarray(g->pending, bigger, sizeof(*more));

		if (more == NULL)
			return -EAGAIN;
		g->pending = more;
		g->size = bigger;
	}
	(void)getsockopt(a->socket, SOL_SOCKET, SO_SNDTIMEO, &tv, &size);
	p = &g->pending[g->n++];
	*p = (struct pending_connect){ .id = a->id,
		.tid = a->tid,
		.tgid = tgid,
		.ready = a->domain != AF_UNIX,
		.delay = 1,
		.deadline = UINT64_MAX,
		.late = a->domain == AF_UNIX ? -EAGAIN : -EINPROGRESS,
		.addr = a->addr,
		.len = a->len };
	p->next = monotonic_ms() + (p->ready ? CONNECT_ALIVE_MS : p->delay);
	if (tv.tv_sec > 0 || tv.tv_usec > 0)
		p->deadline =
		    monotonic_ms() + (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000;
	p->socket = take_fd(&a->socket);
	p->target = take_fd(&a->target);
	return NOT_NOW;
}

/* Serves a notification. Returns the answer, 0 or -errno, or NOT_NOW or GONE: no answer. */
static int
serve(struct stage2 *s, const struct seccomp_notif *req)
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
	if (netns_of(a.socket) != s->guard->netns) {
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
	r = connect_now(a.socket, a.type, a.flags, &a.addr, a.len);
	if ((a.flags & O_NONBLOCK) == 0 && a.type != SOCK_DGRAM && a.type != SOCK_RAW &&
	    has_to_wait(a.domain, r))
		return wait_in_table(&a);
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
		r = serve(s, &in.req);
		if (r <= 0)
			caller_answer(s->guard->listener, in.req.id, r);
	}
}

size_t
connect_pending(const struct connect_guard *g, struct pollfd *ret, size_t max, int *ret_timeout_ms)
{
	uint64_t first = UINT64_MAX, now;
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct pending_connect *p = &g->pending[i];

		if (p->next < first)
			first = p->next;
		if (p->deadline < first)
			first = p->deadline;
		if (p->ready && n < max)
			ret[n++] = (struct pollfd){ .fd = p->socket, .events = POLLOUT };
	}
	*ret_timeout_ms = -1;
	if (first != UINT64_MAX) {
		now = monotonic_ms();
		*ret_timeout_ms = first > now ? (int)(first - now) : 0;
	}
	return n;
}

/*
 * The filter lets only fatal signals interrupt a caller, so that no connection is made and then
 * lost. A connection that waits here has not been made, and the caller may have set an alarm or
 * press Ctrl-C to give it up. Returns the answer that the kernel would give because of a pending
 * signal, or 0.
 */
static int
interrupted(const struct pending_connect *p)
{
	static const uint64_t stops = 1ULL << (SIGTSTP - 1) | 1ULL << (SIGTTIN - 1) |
	    1ULL << (SIGTTOU - 1) | 1ULL << (SIGSTOP - 1);
	uint64_t own, shared, blocked, ignored, caught, effective;
	char text[CALLER_STATUS_SIZE];

	if (!caller_status(p->tid, text, sizeof(text)))
		return 0;
	own = caller_status_field(text, "SigPnd", 16);
	shared = caller_status_field(text, "ShdPnd", 16);
	blocked = caller_status_field(text, "SigBlk", 16);
	ignored = caller_status_field(text, "SigIgn", 16);
	caught = caller_status_field(text, "SigCgt", 16);
	effective = (caught | (stops & ~ignored)) & ~blocked;
	if (((own | shared) & effective) == 0)
		return 0;
	/*
	 * Restart the call after the handler if it was installed with SA_RESTART. The kernel
	 * handles this value only in a thread that has a signal to deliver, so the signal must
	 * certainly be this thread's.
	 */
	if (p->deadline == UINT64_MAX &&
	    ((own & effective) != 0 || caller_status_field(text, "Threads", 10) == 1))
		return -RESTART;
	return -EINTR;
}

/* Tries again. Returns true if the caller has been answered or is gone. */
static bool
progress(struct connect_guard *g, struct pending_connect *p, bool ready, uint64_t now)
{
	int domain = p->ready ? AF_INET : AF_UNIX, flags, r;

	if (!ready && now < p->next && now < p->deadline)
		return false;
	if (!caller_waits(g->listener, p->id))
		return true;
	if (ready || !p->ready) {
		flags = fcntl(p->socket, F_GETFL);
		r = flags < 0 ? -errno
			      : connect_now(p->socket, SOCK_STREAM, flags, &p->addr, p->len);
		if (!has_to_wait(domain, r)) {
			caller_answer(g->listener, p->id, r);
			return true;
		}
	}
	if (now >= p->deadline) {
		caller_answer(g->listener, p->id, p->late);
		return true;
	}
	r = interrupted(p);
	if (r != 0) {
		caller_answer(g->listener, p->id, r);
		return true;
	}
	if (p->ready) {
		p->next = now + CONNECT_ALIVE_MS;
	} else {
		p->delay = p->delay < CONNECT_RETRY_MAX_MS ? p->delay * 2 : CONNECT_RETRY_MAX_MS;
		p->next = now + p->delay;
	}
	return false;
}

void
connect_progress(struct stage2 *s, const struct pollfd *fds, size_t n)
{
	struct connect_guard *g = s->guard;
	uint64_t now, until;
	size_t kept = 0;

	if (g->n == 0)
		return;
	now = monotonic_ms();
	until = now + CONNECT_TURN_MS;
	/*
	 * As many as there is time for: each may take CONNECT_SLICE_MS. The next turn continues
	 * where this one ends.
	 */
	for (size_t done = 0; done < g->n && monotonic_ms() < until; done++, g->from++) {
		struct pending_connect *p = &g->pending[g->from % g->n];
		bool ready = false;

		for (size_t k = 0; p->ready && k < n && !ready; k++)
			ready = fds[k].fd == p->socket && fds[k].revents != 0;
		p->over = progress(g, p, ready, now);
	}
	g->from %= g->n;
	for (size_t i = 0; i < g->n; i++) {
		struct pending_connect *p = &g->pending[i];

		if (p->over) {
			close_at(&p->socket);
			close_at(&p->target);
			continue;
		}
		if (kept != i)
			g->pending[kept] = *p;
		kept++;
	}
	g->n = kept;
}
