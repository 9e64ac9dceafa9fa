/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-egress-proxy: see proxy/proxy.h. Takes nothing from argv or the environment; the host's
 * socket is descriptor 3, and everything it needs comes from there.
 */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/orders.h"
#include "proxy/proxy_filter.h"
#include "proxy/reach/resolve.h"
#include "proxy/serve/intercept.h"
#include "proxy/serve/relay.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"

#define HOST_FD 3

/* The files that resolve names, now and after a change. The targets of links are readable, too.
 * The resolver takes its random numbers, which must not be guessable, from /dev/urandom. */
static const struct {
	const char *path;
	bool its_directory; /* updates rename a new file over it */
} readable[] = {
	{ "/etc", false },
	{ "/etc/resolv.conf", true },
	{ "/etc/hosts", true },
	{ "/dev/urandom", false },
};

/* Fills ret with the canonical path of a place to read. Returns -1 if there is none. */
static int
find_readable(const char *path, bool its_directory, char ret[PATH_MAX])
{
	char dir[PATH_MAX];

	if (realpath(path, ret) == NULL)
		return -1; /* a missing file needs no permission */
	strcpy(dir, ret);
	/* For a file in the root directory only the file itself: its directory would be
	 * everything. */
	if (its_directory && strcmp(dirname(dir), "/") != 0)
		strcpy(ret, dir);
	return 0;
}

/* Confines reading to the places above. *ret_abi is 0 where a mount namespace does it, because the
 * kernel has no Landlock. */
static int
confine_reading(unsigned *ret_abi, struct koda_error *err)
{
	static char real[N_ELEMENTS(readable)][PATH_MAX];
	const char *paths[N_ELEMENTS(readable)];
	int fds[N_ELEMENTS(readable)], r;
	size_t n = 0, n_fds = 0;

	for (size_t i = 0; i < N_ELEMENTS(readable); i++)
		if (find_readable(readable[i].path, readable[i].its_directory, real[n]) == 0) {
			paths[n] = real[n];
			n++;
		}
	if (lockdown_landlock_abi() == 0)
		return lockdown_view(paths, n, err) < 0 ? -1 : lockdown_process(err);
	for (size_t i = 0; i < n; i++)
		if ((fds[n_fds] = open(paths[i], O_PATH | O_CLOEXEC)) >= 0)
			n_fds++;
	r = lockdown_process(err);
	if (r == 0)
		r = lockdown_landlock_reading(LOCKDOWN_TCP_CONNECT, fds, n_fds,
		    lockdown_landlock_abi(), ret_abi, err);
	while (n_fds > 0)
		close(fds[--n_fds]);
	return r;
}

/* Raise the limit as far as allowed: each connection needs two descriptors, and there are pipes. */
static void
raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static int
confine(unsigned *ret_abi, struct koda_error *err)
{
	/* It creates no processes and no files; what it sends goes to sockets. */
	static const struct lockdown_limit limits[] = { { RLIMIT_NPROC, 0 }, { RLIMIT_FSIZE, 0 } };
	int r;

	raise_descriptors();
	r = confine_reading(ret_abi, err);
	if (r == 0)
		r = lockdown_capabilities(err);
	if (r == 0)
		r = lockdown_limits(limits, N_ELEMENTS(limits), err);
	if (r == 0)
		r = lockdown_seccomp(proxy_filter, N_ELEMENTS(proxy_filter), err);
	return r;
}

/* Read everything that is needed from outside, then confine the process. */
static int
start(struct proxy *p, struct koda_error *err)
{
	bool intercept = false;
	unsigned abi = 0;

	p->control = control_new(p, HOST_FD, &orders_handler, &intercept, err);
	if (p->control == NULL)
		return -1;
	p->resolver = resolver_new(p, err);
	if (p->resolver == NULL)
		return -1;
	p->pool = relay_pool_new();
	if (p->pool == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "start");
	if (intercept && (p->intercept = intercept_new(p->policy.ca_bundle, err)) == NULL)
		return -1;
	if (confine(&abi, err) < 0)
		return -1;
	return control_ready(p->control, abi,
	    p->intercept != NULL ? intercept_ca(p->intercept) : NULL, err);
}

int
main(int argc, char **argv)
{
	struct proxy p = { .next_id = 1 };
	struct koda_error err = { 0 };

	(void)argv;
	if (argc != 1 || !frame_is_connected(HOST_FD)) {
		fputs(
		    "koda-egress-proxy: started by koda-sandbox, with its socket as descriptor 3\n",
		    stderr);
		return 1;
	}
	/* Close descriptors that the host leaked: this process must not use them. */
	if (syscall(SYS_close_range, HOST_FD + 1, ~0u, 0) < 0 || chdir("/") < 0 ||
	    fcntl(HOST_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	prctl(PR_SET_NAME, "koda-egress");
	signal(SIGPIPE, SIG_IGN);
	/* If stderr is a file, RLIMIT_FSIZE must make a last message fail, not kill the process. */
	signal(SIGXFSZ, SIG_IGN);
	p.loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (p.loop == NULL)
		err_set(&err, KODA_INTERNAL, errno, "event loop");
	if (p.loop == NULL || start(&p, &err) < 0) {
		control_failed(HOST_FD, err.message);
		fprintf(stderr, "koda-egress-proxy: %s\n", err.message);
		return 1;
	}
	ev_run(p.loop, 0);
	return 1; /* not reached: control never stops watching */
}
