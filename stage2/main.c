/*
 * koda-sandbox-stage2: pid 1 of a slot's sandbox. Takes nothing from argv or the environment; the host's socket is
 * descriptor 3, and all that it is to do comes from there. When that ends, it does, and with it every process of the
 * slot.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/cleanup.h"
#include "shared/lockdown.h"
#include "stage2/connect.h"
#include "stage2/orders.h"
#include "stage2/reap.h"
#include "stage2/template.h"
#include "stage2/view.h"
#include "stage2/watch.h"

#define HOST_FD 3

/* Reports that the host does not take; what makes them is bounded by STAGE2_COMMANDS_MAX, but for events. */
#define REPORTS_MAX (4u << 20)

/* What has come from the host is looked at so often before the others have their turn. */
#define TURN_MAX 16

static _Noreturn void
end(const struct koda_error *err)
{
	fprintf(stderr, "koda-sandbox-stage2: %s\n", err->message);
	_exit(1);
}

void
stage2_report(struct stage2 *s, const Koda__Report *report)
{
	struct koda_error err;

	if (message_queue(&s->fs, &report->base, &err) < 0)
		end(&err);
	if (frame_pending(&s->fs) > REPORTS_MAX) {
		err_set(&err, KODA_TIMEOUT, 0, "the host takes nothing");
		end(&err);
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

/* All that has come from the host. */
static void
serve(struct stage2 *s)
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
			end(&err);
		while ((r = frame_next(&s->fs, &data, &len, &err)) > 0)
			if (orders_handle(s, data, len, &err) < 0)
				end(&err);
		if (r < 0)
			end(&err);
		if (s->ending) {
			frame_flush(&s->fs, true, NULL);
			_exit(1);
		}
	}
}

enum { HOST, HOST_PROCESS, CHILDREN, TEMPLATE, MOUNTS, APPEARED, CONNECTS, OTHERS };

static short
came(const struct pollfd *p)
{
	return p->fd >= 0 ? p->revents : 0;
}

static _Noreturn void
loop(struct stage2 *s, int signal_fd)
{
	static struct pollfd fds[OTHERS + CONNECT_PENDING_MAX];
	struct signalfd_siginfo info[16];
	struct koda_error err;

	for (;;) {
		bool more = frame_pending(&s->fs) > 0;
		int timeout = -1, retry = -1;
		size_t n = 0;

		fds[HOST] = (struct pollfd){ s->fs.fd, POLLIN | (more ? POLLOUT : 0), 0 };
		fds[HOST_PROCESS] = (struct pollfd){ s->host_fd, POLLIN, 0 };
		fds[CHILDREN] = (struct pollfd){ signal_fd, POLLIN, 0 };
		for (int i = TEMPLATE; i < OTHERS; i++)
			fds[i] = (struct pollfd){ -1, POLLIN, 0 };
		if (s->booted) {
			fds[TEMPLATE].fd = s->template->fd;
			fds[MOUNTS] = (struct pollfd){ watch_mountinfo_fd(s->watch), POLLPRI, 0 };
			fds[APPEARED].fd = watch_inotify_fd(s->watch);
			fds[CONNECTS].fd = connect_fd(s->guard);
			n = connect_pending(s->guard, fds + OTHERS, CONNECT_PENDING_MAX, &retry);
			timeout = commands_timeout(s->commands);
			if (timeout < 0 || (retry >= 0 && retry < timeout))
				timeout = retry;
		}
		if (poll(fds, OTHERS + n, timeout) < 0 && errno != EINTR) {
			err_set(&err, KODA_INTERNAL, errno, "poll");
			end(&err);
		}
		if (came(&fds[HOST_PROCESS]) != 0)
			_exit(0);
		/* What is not protected any more comes before everything else. */
		if (came(&fds[MOUNTS]) != 0)
			watch_mounts_changed(s);
		if (came(&fds[APPEARED]) != 0)
			watch_appeared(s);
		/* SIGCHLD says that there is somebody, not who. */
		if (came(&fds[CHILDREN]) != 0)
			while (read(signal_fd, info, sizeof(info)) == (ssize_t)sizeof(info))
				;
		if (s->booted)
			commands_look(s);
		if (came(&fds[TEMPLATE]) != 0)
			commands_not_begun(s);
		if (came(&fds[CONNECTS]) != 0)
			connect_ready(s);
		if (s->booted && (n > 0 || retry >= 0))
			connect_progress(s, fds + OTHERS, n);
		if ((came(&fds[HOST]) & ~POLLOUT) != 0)
			serve(s);
		if (frame_pending(&s->fs) > 0 && frame_flush(&s->fs, false, &err) < 0)
			_exit(0); /* the host is gone */
	}
}

int
main(int argc, char **argv)
{
	struct stage2 s = { .host_fd = -1 };
	struct koda_error err;
	sigset_t child;
	int signal_fd;

	if (argc != 1 || getpid() != 1 || !frame_is_connected(HOST_FD)) {
		fputs(
		    "koda-sandbox-stage2: started by koda-sandbox as the init of a sandbox, with its "
		    "socket as descriptor 3\n",
		    stderr);
		return 1;
	}
	/* Nothing that the host forgot to close, and bwrap left, is this process's to use, or a command's. */
	if (syscall(SYS_close_range, HOST_FD + 1, ~0u, 0) < 0 || chdir("/") < 0 ||
	    fcntl(HOST_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	/* It was executed by descriptor: the name would be a number. */
	prctl(PR_SET_NAME, "koda-stage2");
	if (lockdown_process(&err) < 0)
		end(&err);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	s.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (signal_fd < 0 || s.proc_fd < 0) {
		err_set(&err, KODA_UNSUPPORTED, errno, "start");
		end(&err);
	}
	frame_init(&s.fs, HOST_FD);
	arena_init(&s.arena);
	loop(&s, signal_fd);
}
