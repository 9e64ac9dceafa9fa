/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "stage2/child.h"
#include "stage2/command_closed_filter.h"
#include "stage2/command_filter.h"

#define ORDER_FD 3 /* a command's descriptors arrive below it */

/* The result of the template's confining itself. */
struct template_outcome {
	bool ok;
	unsigned landlock_abi;
	struct koda_error err;
};

static int
confine_template(const int *writable, size_t n, bool local_binding, unsigned *ret_abi,
    int *ret_listener, struct koda_error *err)
{
	const unsigned allow = LOCKDOWN_EXECUTE | LOCKDOWN_SPECIAL | LOCKDOWN_TCP_CONNECT |
	    (local_binding ? LOCKDOWN_TCP_BIND : 0);

	/* no_new_privs comes before the filter, because an unprivileged process needs it to
	 * install one. The keyring comes before the filter, which allows no calls for keys.
	 * Landlock's own calls are open to commands too. */
	if (lockdown_capabilities(err) < 0 || lockdown_process(err) < 0 ||
	    lockdown_keyring(err) < 0 ||
	    lockdown_landlock_allowing(allow, writable, n, lockdown_landlock_abi(), ret_abi, err) <
		0)
		return -1;
	if (local_binding)
		return lockdown_seccomp_listening(command_filter, N_ELEMENTS(command_filter),
		    ret_listener, err);
	return lockdown_seccomp_listening(command_closed_filter, N_ELEMENTS(command_closed_filter),
	    ret_listener, err);
}

static _Noreturn void
be_template(struct exec_slot *slots, int sock, const int *writable, size_t n, bool local_binding)
{
	struct template_outcome outcome = { 0 };
	/* In the kernel's own format: the C library reserves two signals, which may have been
	 * ignored as well. */
	const uint64_t by_default[4] = { 0 };
	int listener = -1;
	sigset_t all;

	/* The template needs no signals, and commands unblock the ones they inherit. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* A command must not inherit our setting for SIGPIPE, or what the host's parents
	 * ignored. */
	for (int signo = 1; signo <= 64; signo++)
		syscall(SYS_rt_sigaction, signo, by_default, NULL, sizeof(uint64_t));
	prctl(PR_SET_NAME, "koda-template");
	outcome.ok = confine_template(writable, n, local_binding, &outcome.landlock_abi, &listener,
			 &outcome.err) == 0;
	if (child_send(sock, &outcome, sizeof(outcome), &listener, listener >= 0 ? 1 : 0, 0) < 0 ||
	    !outcome.ok)
		_exit(1);
	if (sock != ORDER_FD && dup3(sock, ORDER_FD, O_CLOEXEC) < 0)
		_exit(1);
	if (syscall(SYS_close_range, 0, ORDER_FD - 1, 0) < 0 ||
	    syscall(SYS_close_range, ORDER_FD + 1, ~0u, 0) < 0)
		_exit(1);
	child_drop_heap();
	exec_serve(ORDER_FD, slots);
}

/* Receive the template's result. Returns 0, or -1 with *err set if it died or failed. The caller
 * owns *ret_listener. */
static int
receive_outcome(int sock, struct template_outcome *ret, int *ret_listener, struct koda_error *err)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { ret, sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*ret))
		return err_set(err, KODA_INTERNAL, 0, "the template died");
	if (!ret->ok) {
		if (err != NULL)
			*err = ret->err;
		return -1;
	}
	c = CMSG_FIRSTHDR(&msg);
	if (c == NULL || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
		return err_set(err, KODA_INTERNAL, 0, "the filter has no listener");
	memcpy(ret_listener, CMSG_DATA(c), sizeof(int));
	return 0;
}

struct template *
template_new(struct exec_slot *slots, const int *writable, size_t n, bool local_binding,
    int *ret_listener, struct koda_error *err)
{
	cleanup_free struct template *t = calloc(1, sizeof(*t));
	struct template_outcome outcome;
	int pair[2];

	if (t == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_set(err, KODA_INTERNAL, errno, "template");
		return NULL;
	}
	t->fd = pair[0];
	t->pid = fork();
	if (t->pid == 0)
		be_template(slots, pair[1], writable, n, local_binding);
	close(pair[1]);
	if (t->pid < 0) {
		err_set(err, KODA_INTERNAL, errno, "fork the template");
		close(t->fd);
		return NULL;
	}
	if (receive_outcome(t->fd, &outcome, ret_listener, err) < 0) {
		close(t->fd);
		return NULL;
	}
	t->landlock_abi = outcome.landlock_abi;
	return take_ptr(&t);
}

int
template_exec(struct template *t, unsigned slot, const int fds[3])
{
	const struct exec_request req = { slot };

	return child_send(t->fd, &req, sizeof(req), fds, 3, MSG_DONTWAIT);
}
