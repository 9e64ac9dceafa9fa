/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine/caps.h"
#include "host/machine/remedy.h"
#include "host/sandbox/bwrap.h"
#include "shared/base/cleanup.h"
#include "shared/wire/spawn.h"

#define TRY_MS 5000 /* a trial takes some milliseconds */

/* Descriptors in the programs that are tried, as spawn_program() numbers them. */
enum { FD_RESULT = 3, FD_PROGRAM };

/* Reads what the trial's process wrote. Returns false if it wrote nothing. */
static bool
read_outcome(int fd, struct userns_outcome *ret)
{
	struct userns_outcome got;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, TRY_MS) <= 0 || read(fd, &got, sizeof(got)) != (ssize_t)sizeof(got) ||
	    got.step > USERNS_KEPT)
		return false;
	*ret = got;
	return true;
}

static void
run_trial(const char *launch, char *const argv[], struct userns_outcome *ret)
{
	cleanup_close int program = open(launch, O_RDONLY | O_CLOEXEC);
	cleanup_close int in = -1, out = -1;
	struct child child;
	int fds[2], pair[2];

	if (program < 0 || pipe2(pair, O_CLOEXEC) < 0)
		return;
	in = pair[0];
	out = pair[1];
	fds[0] = out;
	fds[1] = program;
	if (spawn_program(launch, argv, fds, N_ELEMENTS(fds), -1, &child, NULL) < 0)
		return;
	close(take_fd(&out));
	read_outcome(in, ret);
	child_kill(&child);
	child_gone(&child, -1);
}

/* Without the launcher: in a copy of this process, which may have threads, by system calls. */
static void
try_here(struct userns_outcome *ret)
{
	cleanup_close int in = -1, out = -1;
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return;
	in = pair[0];
	out = pair[1];
	/* Its end sends no SIGCHLD. */
	pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (pid == 0) {
		struct userns_outcome outcome;

		userns_try(&outcome);
		syscall(SYS_exit_group, write(out, &outcome, sizeof(outcome)) < 0);
	}
	close(take_fd(&out));
	if (pid < 0)
		return;
	read_outcome(in, ret);
	waitpid(pid, NULL, __WALL);
}

void
trial_run(const char *launch, const char *bwrap, struct userns_outcome *ret)
{
	char name[] = "koda-sandbox-launch", option[] = "--try";
	char *const argv[] = { name, option, NULL };
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };

	*ret = (struct userns_outcome){ .step = USERNS_ALL };
	if (launch[0] == '\0') {
		try_here(ret);
		return;
	}
	run_trial(launch, argv, ret);
	if (ret->step == USERNS_ALL && bwrap[0] != '\0' &&
	    bwrap_trial_arguments(name, bwrap, FD_PROGRAM, &a, NULL) == 0)
		run_trial(launch, a.v, ret);
}

void
trial_explain(const char *launch, const char *bwrap, char *ret, size_t size)
{
	char why[REMEDY_WHY], remedy[REMEDY_MAX];
	struct userns_outcome outcome;
	struct remedy_facts facts;
	struct caps caps;

	trial_run(launch, bwrap, &outcome);
	caps_probe(&caps);
	remedy_look(&facts, launch);
	if (outcome.step != USERNS_ALL)
		remedy_namespaces(&facts, &outcome, why, remedy);
	else if (caps.notify_errnum != 0)
		remedy_listener(&facts, caps.notify_errnum, why, remedy);
	if (outcome.step != USERNS_ALL || caps.notify_errnum != 0) {
		if ((size_t)snprintf(ret, size, "%s; try: %s", why, remedy) >= size)
			snprintf(ret, size, "%s; 'koda-sandbox doctor' prints what helps", why);
	} else if (bwrap[0] == '\0')
		snprintf(ret, size, "try: %s", remedy_install_bubblewrap(&facts));
	else
		snprintf(ret, size, "'koda-sandbox doctor' shows why");
}
