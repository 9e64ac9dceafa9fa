/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/endpoint_client.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp/endpoint_wire.h"
#include "mcp/fault.h"

static int
send_hello(int fd, const char *token, int in, int out)
{
	union {
		struct cmsghdr head; /* for its alignment */
		char bytes[CMSG_SPACE(ENDPOINT_FDS * sizeof(int))];
	} control;
	char hello[ENDPOINT_HELLO_LEN + 1];
	struct iovec bytes = { hello, ENDPOINT_HELLO_LEN };
	struct msghdr msg = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	int fds[ENDPOINT_FDS] = { in, out };
	ssize_t n;

	snprintf(hello, sizeof(hello), "%s%s", ENDPOINT_HELLO, token);
	memset(&control, 0, sizeof(control));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	do {
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)ENDPOINT_HELLO_LEN ? 0 : -1;
}

/* Waits as long as the child runs. */
static int
wait_for_end(int fd, struct koda_error *err)
{
	char packet[1 + ENDPOINT_SENTENCE_MAX];
	ssize_t n;

	do {
		n = recv(fd, packet, sizeof(packet), 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return fault_set(err, KODA_WORKER, n < 0 ? errno : 0,
		    "the server ended without an answer");
	snprintf(err->message, sizeof(err->message), "%.*s", (int)(n - 1), packet + 1);
	return (uint8_t)packet[0];
}

int
endpoint_client_run(const char *token, int in, int out, struct koda_error *err)
{
	char name[RUNTIME_NAME_LEN + 1];
	int dir, fd, r;

	*err = (struct koda_error){ 0 };
	if (strlen(token) != ENDPOINT_TOKEN_LEN || !runtime_is_name(token, RUNTIME_NAME_LEN) ||
	    token[RUNTIME_NAME_LEN] != '.')
		return fault_set(err, KODA_INVALID, 0, "this is not the token of a child");
	memcpy(name, token, RUNTIME_NAME_LEN);
	name[RUNTIME_NAME_LEN] = '\0';
	dir = runtime_find(err);
	if (dir < 0 && err->code == KODA_OK)
		return fault_set(err, KODA_WORKER, 0, "no server is running");
	if (dir < 0)
		return -1;
	fd = runtime_connect(dir, name, RUNTIME_CHILD, SOCK_SEQPACKET);
	r = errno;
	close(dir);
	if (fd < 0)
		return fault_set(err, KODA_WORKER, r == ENOENT ? 0 : r,
		    r == ENOENT ? "the server that made this token has ended"
				: "connect to the server that made this token");
	/* A server that refuses before it has read everything has still sent its reason. */
	if (send_hello(fd, token, in, out) < 0 && errno != EPIPE && errno != ECONNRESET)
		r = fault_set(err, KODA_IO, errno, "send the token to the server");
	else
		r = wait_for_end(fd, err);
	close(fd);
	return r;
}
