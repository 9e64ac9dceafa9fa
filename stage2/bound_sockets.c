/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/bound_sockets.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* Missing from the headers of Debian 12. */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_SUPER_MAGIC 0x2fc12fc1

/* Sockets of the slot to check for one connection. A slot with more cannot connect by path. */
#define SOCKETS_MAX 65536
/*
 * Processor time that checking them may take. The kernel also walks past the sockets that it does
 * not report. A slot with so many (some ten thousand) uses at most a tenth of our time, and its
 * connections by path fail.
 */
#define LOOK_US    5000
#define LOOK_SHARE 10

#define DIAG_BUFFER (32u << 10) /* the kernel never fills more at once */

/* Our own processor time: other processes may take longer than anything here does. */
static uint64_t
own_processor_us(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) / NS_PER_US;
}

int
bound_sockets_init(struct bound_sockets *b, struct koda_error *err)
{
	b->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (b->fd < 0)
		return err_set(err, KODA_UNSUPPORTED, errno,
		    "open the list of sockets (unix_diag)");
	return 0;
}

void
bound_sockets_done(struct bound_sockets *b)
{
	close_at(&b->fd);
}

bool
bound_sockets_may_ask(const struct bound_sockets *b)
{
	return monotonic_ms() >= b->look_from;
}

bool
bound_sockets_are_exact(int fd, const struct stat *st)
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
has_bound(struct bound_sockets *b, unsigned states, const struct stat *st, bool *ret_in_parts)
{
	/* The kernel's dev_t, as its MKDEV makes it. */
	uint32_t dev = major(st->st_dev) << 20 | minor(st->st_dev), ino = (uint32_t)st->st_ino;
	_Alignas(struct nlmsghdr) static uint8_t buf[DIAG_BUFFER]; /* static is safe: no threads */
	struct {
		struct nlmsghdr head;
		struct unix_diag_req req;
	} ask = { .head = { sizeof(ask), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, ++b->seq,
		      0 },
		.req = { .sdiag_family = AF_UNIX,
		    .udiag_states = states,
		    .udiag_show = UDIAG_SHOW_VFS } };
	size_t seen = 0;
	int parts = 0, found = 0;

	if (send(b->fd, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
		return -EIO;
	/* Read to the end even after a match: what is left would be taken for the next answer. */
	for (;;) {
		ssize_t n = recv(b->fd, buf, sizeof(buf), 0);
		const struct nlmsghdr *msg;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || seen > SOCKETS_MAX)
			return -EIO;
		*ret_in_parts = ++parts > 2; /* the end is a part of its own */
		for (size_t at = 0; at + sizeof(*msg) <= (size_t)n;
		     at += NLMSG_ALIGN((size_t)msg->nlmsg_len)) {
			msg = (const struct nlmsghdr *)(buf + at);
			if (msg->nlmsg_len < sizeof(*msg) || msg->nlmsg_len > (size_t)n - at)
				return -EIO;
			if (msg->nlmsg_seq != b->seq)
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
open_again(struct bound_sockets *b)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return -1;
	close(b->fd);
	b->fd = fd;
	return 0;
}

/*
 * Like has_bound(), but asks twice if the answer came in several parts: such an answer can miss a
 * socket that existed all the time.
 */
bool
bound_sockets_has(struct bound_sockets *b, unsigned states, const struct stat *st)
{
	uint64_t begun = own_processor_us(), took;
	bool in_parts = false;
	int r = has_bound(b, states, st, &in_parts);

	if (r == 0 && in_parts)
		r = has_bound(b, states, st, &in_parts);
	took = own_processor_us() - begun;
	if (took > LOOK_US)
		b->look_from = monotonic_ms() + took * LOOK_SHARE / 1000;
	if (r < 0 && open_again(b) < 0)
		return false;
	return r == 1;
}
