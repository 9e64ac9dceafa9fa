/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/child.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(CHILD_FDS_MAX * sizeof(int))];
};

#define HEAP_FIRST_MAX (256u << 10) /* glibc grows the heap by 132 KiB */

/*
 * End of what the C library allocated before main(). 0: the heap is not at the program break, for
 * example with a sanitizer.
 */
static uintptr_t heap;

void
child_heap_begins(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)sbrk(0);
	void *first = malloc(1);

	if ((uintptr_t)first >= end - HEAP_FIRST_MAX && (uintptr_t)first < (uintptr_t)sbrk(0))
		heap = ((uintptr_t)first + page) & ~(page - 1);
	free(first);
}

void
child_drop_heap(void)
{
	/* If brk() fails, the pages stay mapped. */
	if (heap != 0 && brk((void *)heap) < 0)
		heap = 0;
}

int
child_send(int sock, const void *data, size_t len, const int *fds, size_t n, int flags)
{
	union control control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t r;

	if (n > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do {
		r = sendmsg(sock, &msg, MSG_NOSIGNAL | flags);
	} while (r < 0 && errno == EINTR);
	return r == (ssize_t)len ? 0 : -1;
}

int
child_receive(int sock, void *data, size_t len, int *ret_fds, size_t n, int flags)
{
	union control control;
	struct iovec iov = { data, len };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t r;

	do {
		r = recvmsg(sock, &msg, flags);
	} while (r < 0 && errno == EINTR);
	c = r == (ssize_t)len ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c == NULL || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(n * sizeof(int)))
		return -1;
	memcpy(ret_fds, CMSG_DATA(c), n * sizeof(int));
	return 0;
}
