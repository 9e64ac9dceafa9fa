/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-sandbox-launch PROGRAM ARGUMENT...: executes PROGRAM, which is bubblewrap. It exists for its
 * own path: AppArmor grants user namespaces to programs by path, and a profile for bubblewrap's
 * path would grant them to every program that starts bubblewrap (packaging: apparmor/koda-sandbox).
 *
 * A profile with flags=(unconfined) does not reach over an exec by itself: where the executed file
 * has a profile of its own, as /usr/bin/bwrap has with bwrap-userns-restrict, that one takes over
 * and removes the capabilities of what bubblewrap starts. A profile that was chosen for the next
 * exec comes first. So this program asks for the one that it is in.
 *
 * koda-sandbox-launch --try: tries what a sandbox needs, under the same profile; writes a struct
 * userns_outcome to descriptor 3.
 * koda-sandbox-launch --try-kept: the same, as a program that bubblewrap started.
 *
 * It confines nothing and checks nothing: every user may execute it, as every user may execute
 * bubblewrap (SECURITY.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/confine/userns.h"

#define RESULT_FD 3

#define LABEL_MAX  4096 /* the kernel gives out one page */
#define UNCONFINED " (unconfined)"

/*
 * Under a profile with flags=(unconfined): stay in it over the next exec. Under no profile, and
 * under one that confines, the exec does what that profile says. Errors are ignored: without
 * AppArmor there is nothing to stay in, and what a refusal means for the sandbox, --try shows.
 */
static void
keep_profile(void)
{
	char order[sizeof("exec ") + LABEL_MAX] = "exec ", *label = order + strlen("exec "), *mode;
	cleanup_close int current = open("/proc/self/attr/apparmor/current", O_RDONLY | O_CLOEXEC);
	cleanup_close int next = -1;
	ssize_t n = current >= 0 ? read(current, label, LABEL_MAX) : -1;

	if (n <= 0)
		return;
	label[n] = '\0';
	mode = strstr(label, UNCONFINED);
	if (mode == NULL)
		return;
	*mode = '\0';
	next = open("/proc/self/attr/apparmor/exec", O_WRONLY | O_CLOEXEC);
	if (next < 0 || write(next, order, strlen(order)) < 0)
		return;
}

static int
write_outcome(const struct userns_outcome *outcome)
{
	return write(RESULT_FD, outcome, sizeof(*outcome)) == (ssize_t)sizeof(*outcome) ? 0 : 1;
}

int
main(int argc, char **argv)
{
	struct userns_outcome outcome;

	if (argc == 2 && strcmp(argv[1], "--try") == 0) {
		userns_try(&outcome);
		return write_outcome(&outcome);
	}
	if (argc == 2 && strcmp(argv[1], "--try-kept") == 0) {
		userns_try_kept(&outcome);
		return write_outcome(&outcome);
	}
	if (argc < 2 || argv[1][0] != '/') {
		fputs("koda-sandbox-launch: started by koda-sandbox, with the path of bubblewrap\n",
		    stderr);
		return 2;
	}
	keep_profile();
	execv(argv[1], argv + 1);
	fprintf(stderr, "koda-sandbox-launch: cannot start '%s': %s\n", argv[1], strerror(errno));
	return 1;
}
