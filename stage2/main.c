/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-sandbox-stage2: pid 1 of a slot's sandbox. Takes nothing from argv or the environment: the
 * host's socket is descriptor 3, and all orders come from there. When the socket ends, stage2
 * exits, and every process of the slot with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "stage2/child.h"
#include "stage2/command_table.h"
#include "stage2/connect.h"
#include "stage2/links.h"
#include "stage2/lower_names.h"
#include "stage2/notice.h"
#include "stage2/orders.h"
#include "stage2/place_watch.h"
#include "stage2/quota.h"
#include "stage2/reap.h"
#include "stage2/template.h"
#include "stage2/view.h"
#include "stage2/view_entry.h"
#include "stage2/watch.h"

#define HOST_FD 3

/*
 * Bytes of reports that the host has not read. Except for events, their number is bounded by
 * STAGE2_COMMANDS_MAX.
 */
#define REPORTS_MAX (4u << 20)

/* Reads from the host before the other descriptors have their turn. */
#define TURN_MAX 16

static _Noreturn void
end_stage2(const struct koda_error *err)
{
	fprintf(stderr, "koda-sandbox-stage2: %s\n", err->message);
	_exit(1);
}

void
stage2_report(struct stage2 *s, const Koda__Report *report)
{
	struct koda_error err;

	if (message_queue(&s->fs, &report->base, &err) < 0)
		end_stage2(&err);
	if (frame_pending(&s->fs) > REPORTS_MAX) {
		err_set(&err, KODA_TIMEOUT, 0, "the host does not read its reports");
		end_stage2(&err);
	}
}

void
stage2_failed(struct stage2 *s, uint64_t id, Koda__FailedStep step, int errnum, const char *what)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Failed failed = KODA__FAILED__INIT;

	report.id = id;
	report.report_case = KODA__REPORT__REPORT_FAILED;
	report.failed = &failed;
	failed.step = step;
	failed.errnum = errnum;
	failed.what = (ProtobufCBinaryData){ strlen(what), (uint8_t *)(uintptr_t)what };
	stage2_report(s, &report);
}

void
stage2_event(struct stage2 *s, Koda__EventKind kind, const char *target, uint64_t stopped_us,
    uint64_t ended)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Event event = KODA__EVENT__INIT;

	report.report_case = KODA__REPORT__REPORT_EVENT;
	report.event = &event;
	event.kind = kind;
	event.target = (ProtobufCBinaryData){ strlen(target), (uint8_t *)(uintptr_t)target };
	event.has_stopped_us = stopped_us != 0;
	event.stopped_us = stopped_us;
	event.has_ended = ended != 0;
	event.ended = ended;
	stage2_report(s, &report);
}

/* Handles everything that has come from the host. */
static void
serve_host(struct stage2 *s)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	size_t len;
	int r;

	for (int turn = 0, more = 1; turn < TURN_MAX && more > 0; turn++) {
		r = more = frame_fill(&s->fs, false, &err);
		if (r < 0 && err.code == KODA_IO && err.errnum == 0)
			_exit(0);
		if (r < 0)
			end_stage2(&err);
		while ((r = frame_next(&s->fs, &data, &len, &err)) > 0)
			if (orders_handle(s, data, len, &err) < 0)
				end_stage2(&err);
		if (r < 0)
			end_stage2(&err);
		if (s->ending) {
			frame_flush(&s->fs, true, NULL);
			_exit(1);
		}
	}
}

void
stage2_signals(struct stage2 *s)
{
	struct signalfd_siginfo info[16];
	int changed[NOTICE_PENDING_MAX], n_changed = 0;
	bool any = false;
	ssize_t n;

	/*
	 * As many as may wait: what comes meanwhile is read in the next turn, so that other work is
	 * not held up. SIGCHLD does not say which child, so all children are checked.
	 */
	for (int turn = 0; turn < NOTICE_PENDING_MAX / (int)N_ELEMENTS(info) + 1; turn++) {
		n = read(s->signal_fd, info, sizeof(info));
		if (n <= 0)
			break;
		for (size_t i = 0; i < (size_t)n / sizeof(*info); i++) {
			int fd = info[i].ssi_fd, k = 0;

			any = any || info[i].ssi_signo == SIGIO;
			if ((int)info[i].ssi_signo != NOTICE_SIGNAL)
				continue;
			while (k < n_changed && changed[k] != fd)
				k++;
			if (k == NOTICE_PENDING_MAX)
				any = true;
			else if (k == n_changed)
				changed[n_changed++] = fd;
		}
	}
	if (!s->booted)
		return;
	if (any)
		watch_names_changed(s, -1);
	for (int i = 0; i < n_changed && !any; i++)
		watch_names_changed(s, changed[i]);
}

enum { HOST, HOST_PROCESS, SIGNALS, TEMPLATE, MOUNTS, CONNECTS, LINKS, OTHERS };

static short
came(const struct pollfd *p)
{
	return p->fd >= 0 ? p->revents : 0;
}

static _Noreturn void
run_loop(struct stage2 *s)
{
	static struct pollfd fds[OTHERS + CONNECT_PENDING_MAX];
	struct koda_error err;

	for (;;) {
		bool more = frame_pending(&s->fs) > 0;
		int timeout = -1, retry = -1, quota;
		size_t n = 0;

		fds[HOST] = (struct pollfd){ s->fs.fd, POLLIN | (more ? POLLOUT : 0), 0 };
		fds[HOST_PROCESS] = (struct pollfd){ s->host_fd, POLLIN, 0 };
		fds[SIGNALS] = (struct pollfd){ s->signal_fd, POLLIN, 0 };
		for (int i = TEMPLATE; i < OTHERS; i++)
			fds[i] = (struct pollfd){ -1, POLLIN, 0 };
		if (s->booted) {
			fds[TEMPLATE].fd = s->template->fd;
			fds[MOUNTS] =
			    (struct pollfd){ place_watch_mountinfo_fd(s->watch), POLLPRI, 0 };
			fds[CONNECTS].fd = connect_fd(s->guard);
			fds[LINKS].fd = links_fd(s->links);
			n = connect_pending(s->guard, fds + OTHERS, CONNECT_PENDING_MAX, &retry);
			timeout = reap_timeout(s->commands);
			if (timeout < 0 || (retry >= 0 && retry < timeout))
				timeout = retry;
			quota = quota_timeout(s->quota, s->commands);
			if (timeout < 0 || (quota >= 0 && quota < timeout))
				timeout = quota;
			if (!commands_any(s->commands) && lower_names_waits(s->view->lower_names))
				timeout = 0;
			if (place_watch_is_blind(s->watch) && commands_any(s->commands) &&
			    (timeout < 0 || timeout > WATCH_BLIND_MS))
				timeout = WATCH_BLIND_MS;
		}
		if (poll(fds, OTHERS + n, timeout) < 0 && errno != EINTR) {
			err_set(&err, KODA_INTERNAL, errno, "poll");
			end_stage2(&err);
		}
		if (came(&fds[HOST_PROCESS]) != 0)
			_exit(0);
		/* Protecting a place again comes before everything else. */
		if (came(&fds[MOUNTS]) != 0)
			watch_mounts_changed(s);
		if (came(&fds[SIGNALS]) != 0)
			stage2_signals(s);
		if (s->booted && place_watch_is_blind(s->watch))
			watch_look(s);
		if (s->booted)
			reap_look(s);
		quota_look(s);
		if (came(&fds[TEMPLATE]) != 0)
			reap_not_begun(s);
		if (came(&fds[LINKS]) != 0)
			links_refused(s);
		if (came(&fds[CONNECTS]) != 0)
			connect_ready(s);
		if (s->booted && (n > 0 || retry >= 0))
			connect_progress(s, fds + OTHERS, n);
		if ((came(&fds[HOST]) & ~POLLOUT) != 0)
			serve_host(s);
		/* Last, and a little at a time: an order comes first. */
		if (s->booted && !commands_any(s->commands))
			lower_names_look(s->view->lower_names);
		if (frame_pending(&s->fs) > 0 && frame_flush(&s->fs, false, &err) < 0)
			_exit(0); /* the host is gone */
	}
}

/*
 * When the machine is out of memory, the kernel kills the processes of a sandbox before anything
 * else, including those whose memory does not show in any process. All processes of the slot
 * inherit this, and no command can write it.
 */
#define OOM_SCORE "800"

/* Call it while this process is dumpable: afterwards its files in /proc are not its own. */
static void
offer_to_kernel(void)
{
	cleanup_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Fails if a parent of the host has set a higher value: then nothing is lost. */
	if (fd >= 0 && write(fd, OOM_SCORE, strlen(OOM_SCORE)) < 0)
		return;
}

int
main(int argc, char **argv)
{
	struct stage2 s = { .host_fd = -1 };
	struct koda_error err;
	sigset_t taken;

	child_heap_begins();
	if (argc != 1 || getpid() != 1 || !frame_is_connected(HOST_FD)) {
		fputs(
		    "koda-sandbox-stage2: started by koda-sandbox as the init of a sandbox, with its "
		    "socket as descriptor 3\n",
		    stderr);
		return 1;
	}
	/*
	 * Neither this process nor a command may use descriptors that the host forgot to close and
	 * bwrap left open.
	 */
	if (syscall(SYS_close_range, HOST_FD + 1, ~0u, 0) < 0 || chdir("/") < 0 ||
	    fcntl(HOST_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	/* It was executed by descriptor, so its name would be a number. */
	prctl(PR_SET_NAME, "koda-stage2");
	offer_to_kernel();
	if (lockdown_process(&err) < 0)
		end_stage2(&err);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&taken);
	sigaddset(&taken, SIGCHLD);
	notice_signals(&taken);
	sigprocmask(SIG_SETMASK, &taken, NULL);
	s.signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	s.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.signal_fd < 0 || s.proc_fd < 0) {
		err_set(&err, KODA_UNSUPPORTED, errno, "start");
		end_stage2(&err);
	}
	frame_init(&s.fs, HOST_FD);
	arena_init(&s.arena);
	run_loop(&s);
}
