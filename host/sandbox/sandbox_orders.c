/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_orders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/machine/process.h"
#include "host/sandbox/sandbox_boot.h"
#include "host/sandbox/sandbox_control.h"
#include "host/sandbox/sandbox_end.h"
#include "shared/base/cleanup.h"

#define WORKER_TRIES 3

/* ---- a worker ---- */

/* The pid, in the host's namespace, of the process behind a pidfd; stage2 knows it by another
 * number. For display only. */
static pid_t
pid_here(int pidfd)
{
	char path[64], line[64];
	FILE *f;
	int pid = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	f = fopen(path, "re");
	while (f != NULL && pid < 0 && fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, "Pid:", 4) == 0)
			pid = (int)strtol(line + 4, NULL, 10);
	}
	if (f != NULL)
		fclose(f);
	return pid > 0 ? pid : -1;
}

/* Finds stage2's pid in the host's namespace: it is the worker's parent as long as both live. */
static void
find_init(struct sandbox *sb, pid_t worker)
{
	const pid_t init = sb->init_fd >= 0 ? 0 : process_parent(worker);

	if (init <= 1)
		return;
	sb->init_fd = (int)syscall(SYS_pidfd_open, init, 0);
	if (sb->init_fd >= 0 && process_parent(worker) == init) {
		sb->init_pid = init;
		return;
	}
	close_at(&sb->init_fd);
	sb->init_fd = -1;
}

/* Returns 1 if the sandbox has died, or was killed here. */
static int
try_worker(struct sandbox *sb, enum sandbox_worker which, const int *fds, struct child *ret,
    struct koda_error *err)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__StartWorker start = KODA__START_WORKER__INIT;
	struct sandbox_answer w = { .wants_fd = true, .fd = -1 };

	order.order_case = KODA__ORDER__ORDER_START_WORKER;
	order.start_worker = &start;
	start.has_search = start.search = which == SANDBOX_SEARCH;
	if (sandbox_ask(sb, &order, fds, 2, SANDBOX_ANSWER_MS, &w, err) == 0 && w.fd >= 0) {
		*ret = (struct child){ .pid = pid_here(w.fd), .pidfd = w.fd };
		find_init(sb, ret->pid);
		return 0;
	}
	close_at(&w.fd);
	if (w.report != NULL && w.report->report_case != KODA__REPORT__REPORT_FAILED)
		err_set(err, KODA_PROTOCOL, 0, "no worker was started");
	sandbox_kill(sb, err);
	if (w.report != NULL)
		return err_wrap(err, "start the worker in the sandbox");
	return 1;
}

int
sandbox_start_worker(struct sandbox *sb, enum sandbox_worker which, int socket, struct child *ret,
    struct koda_error *err)
{
	const char *path = which == SANDBOX_SEARCH ? sb->ses->search_path : sb->ses->worker_path;
	cleanup_close int program = open(path, O_RDONLY | O_CLOEXEC);
	const int fds[] = { socket, program };
	int r = 1;

	if (program < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "open '%s'", path);
	/* The host may notice only now that the last sandbox is dead. */
	for (int i = 0; r > 0 && i < WORKER_TRIES; i++) {
		if (sandbox_boot(sb, err) < 0)
			return -1;
		r = try_worker(sb, which, fds, ret, err);
		if (r > 0 && sb->ses->given_up)
			return -1;
	}
	if (r <= 0)
		return r;
	err->code = KODA_WORKER;
	err->errnum = EAGAIN; /* the next call builds it again */
	return err_wrap(err, "the sandbox died %d times while its worker started", WORKER_TRIES);
}

/* ---- the view ---- */

int
sandbox_mount(struct sandbox *sb, struct koda_error *err)
{
	size_t n = sb->view.n_mounts;
	cleanup_free Koda__Mount *mounts = calloc(n + 1, sizeof(*mounts));
	cleanup_free Koda__Mount **list = calloc(n + 1, sizeof(*list));
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Mounts msg = KODA__MOUNTS__INIT;
	struct sandbox_answer w = { 0 };

	if (mounts == NULL || list == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "view");
	for (size_t i = 0; i < n; i++) {
		const struct view_mount *m = &sb->view.mount[i];

		koda__mount__init(&mounts[i]);
		mounts[i].kind = (Koda__MountKind)m->kind;
		mounts[i].path = message_text(m->path);
		mounts[i].has_dev = mounts[i].has_ino = m->ino != 0;
		mounts[i].dev = (uint64_t)m->dev;
		mounts[i].ino = (uint64_t)m->ino;
		mounts[i].has_plain = mounts[i].plain = m->plain;
		mounts[i].has_outside = mounts[i].outside = m->outside;
		list[i] = &mounts[i];
	}
	msg.mount = list;
	msg.n_mount = n;
	order.order_case = KODA__ORDER__ORDER_MOUNTS;
	order.mounts = &msg;
	if (sandbox_ask(sb, &order, NULL, 0, SANDBOX_ANSWER_MS, &w, err) < 0 ||
	    w.report->report_case != KODA__REPORT__REPORT_MOUNTED) {
		if (w.report != NULL && w.report->report_case != KODA__REPORT__REPORT_FAILED)
			err_set(err, KODA_PROTOCOL, 0, "the plan was not mounted");
		/* A view that cannot be trusted is useless. */
		sandbox_kill(sb, err);
		return err_wrap(err, "protect the project");
	}
	return 0;
}

int
sandbox_unmount(struct sandbox *sb, struct koda_error *err)
{
	const size_t n = sb->view.n_mounts;
	int r;

	if (!sb->up)
		return 0;
	sb->view.n_mounts = 0;
	r = sandbox_mount(sb, err);
	sb->view.n_mounts = n;
	return r;
}

/* ---- a draft ---- */

void
sandbox_refresh(struct sandbox *sb)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Refresh msg = KODA__REFRESH__INIT;
	struct sandbox_answer w = { .soon = true };
	struct koda_error err;

	if (!sb->up || !sb->drafted)
		return;
	order.order_case = KODA__ORDER__ORDER_REFRESH;
	order.refresh = &msg;
	if (sandbox_ask(sb, &order, NULL, 0, SANDBOX_ANSWER_MS, &w, &err) == 0 &&
	    w.report->report_case == KODA__REPORT__REPORT_REFRESHED)
		return;
	if (w.report != NULL && w.report->report_case != KODA__REPORT__REPORT_FAILED)
		err_set(&err, KODA_PROTOCOL, 0, "the draft was not refreshed");
	sandbox_kill(sb, &err);
}
