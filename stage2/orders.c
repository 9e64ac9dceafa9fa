/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/orders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/wire/protocol.h"
#include "stage2/caches.h"
#include "stage2/commands.h"
#include "stage2/companions.h"
#include "stage2/connect.h"
#include "stage2/drafts.h"
#include "stage2/links.h"
#include "stage2/meter.h"
#include "stage2/mounts.h"
#include "stage2/netns.h"
#include "stage2/notice.h"
#include "stage2/place_watch.h"
#include "stage2/private.h"
#include "stage2/procs.h"
#include "stage2/quota.h"
#include "stage2/restrict.h"
#include "stage2/stage2_filter.h"
#include "stage2/template.h"
#include "stage2/view.h"
#include "stage2/watch.h"
#include "stage2/worker.h"

#define BOOT_PATHS_MAX 1024 /* roots, allow_write and private places: a few dozen */

/* A host that does not take a descriptor within this time is considered gone. */
#define SEND_FD_TIMEOUT_MS 10000

static bool
is_canonical(const ProtobufCBinaryData *b)
{
	return path_is_canonical(b->data, b->len);
}

static bool
all_canonical(const ProtobufCBinaryData *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_canonical(&b[i]))
			return false;
	return true;
}

/* ---- validity: each function returns what is wrong, or NULL ---- */

static const char *
valid_boot(const Koda__Order *order)
{
	const Koda__Boot *b = order->boot;

	if (b->n_writable > BOOT_PATHS_MAX || b->n_make_dir > BOOT_PATHS_MAX)
		return "too many paths";
	if (!is_canonical(&b->root) || !all_canonical(b->writable, b->n_writable) ||
	    !all_canonical(b->make_dir, b->n_make_dir))
		return "a path that is not canonical";
	if (b->n_private_ > PRIVATE_PLACES_MAX || (b->n_private_ > 0) != (b->private_bytes > 0))
		return "private places without a size, or too many";
	for (size_t i = 0; i < b->n_private_; i++)
		if (!is_canonical(&b->private_[i]->path) || b->private_[i]->path.len == 1 ||
		    (b->private_[i]->mode & ~01777u) != 0)
			return "an invalid private place";
	if (b->n_private_dir > METER_PLACES_MAX || !all_canonical(b->private_dir, b->n_private_dir))
		return "private file systems that are too many, or not canonical";
	if ((b->has_memory_max && b->memory_max == 0) || (b->has_tasks_max && b->tasks_max == 0))
		return "a limit of 0";
	if (b->has_egress_port && (b->egress_port == 0 || b->egress_port > UINT16_MAX))
		return "an invalid port";
	if (b->drafts != NULL && drafts_valid(b->drafts) != NULL)
		return drafts_valid(b->drafts);
	return b->caches != NULL ? caches_valid(b->caches) : NULL;
}

static const char *
valid_mounts(const Koda__Order *order)
{
	const Koda__Mounts *m = order->mounts;

	if (m->n_mount > STAGE2_MOUNTS_MAX)
		return "too many mounts";
	for (size_t i = 0; i < m->n_mount; i++) {
		if (!is_canonical(&m->mount[i]->path) || m->mount[i]->path.len == 1)
			return "a path that is not canonical";
		if (m->mount[i]->has_dev != m->mount[i]->has_ino)
			return "half of an inode's identity";
	}
	return NULL;
}

static const char *
valid_start_worker(const Koda__Order *order)
{
	return NULL;
}

static const char *
valid_exec(const Koda__Order *order)
{
	return exec_valid(order->exec);
}

static const char *
valid_signal(const Koda__Order *order)
{
	if (order->signal->signo < 1 || order->signal->signo > 64)
		return "an invalid signal";
	return NULL;
}

static const char *
valid_end(const Koda__Order *order)
{
	return NULL;
}

static const char *
valid_refresh(const Koda__Order *order)
{
	return NULL;
}

/* ---- carrying out orders ---- */

static void
report_failure(struct stage2 *s, const Koda__Order *order, Koda__FailedStep step,
    const struct koda_error *err)
{
	stage2_failed(s, order->id, step, err->errnum, err->message);
}

/* Make the directory and all directories above it. Existing ones stay as they are. */
static int
make_dir(const ProtobufCBinaryData *path, struct koda_error *err)
{
	char p[PATH_MAX];

	memcpy(p, path->data, path->len);
	p[path->len] = '\0';
	for (char *slash = strchr(p + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return err_set(err, KODA_INTERNAL, errno, "make '%s'", p);
		*slash = '/';
	}
	if (mkdir(p, 0700) < 0 && errno != EEXIST)
		return err_set(err, KODA_INTERNAL, errno, "make '%s'", p);
	return 0;
}

struct fds {
	int *v;
	size_t n;
};

static void
fds_done(struct fds *f)
{
	for (size_t i = 0; i < f->n; i++)
		close(f->v[i]);
	free(f->v);
}

/* Open the writable places. One that does not exist is left out: there is nothing to write to. */
static int
open_writable(const Koda__Boot *b, struct fds *ret, struct koda_error *err)
{
	ret->v = calloc(b->n_writable + 2, sizeof(*ret->v)); /* and the terminals */
	if (ret->v == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "writable places");
	for (size_t i = 0; i < b->n_writable; i++) {
		char path[PATH_MAX];
		int fd;

		memcpy(path, b->writable[i].data, b->writable[i].len);
		path[b->writable[i].len] = '\0';
		fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			ret->v[ret->n++] = fd;
		else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			return err_set(err, KODA_INTERNAL, errno, "open '%s'", path);
	}
	return 0;
}

/* When a terminal's descriptor is opened again, Landlock walks up from the place that it came
 * from, which is outside the view. So that place is added to the writable ones. */
static int
add_terminals(int fd, struct fds *writable, struct koda_error *err)
{
	struct statfs fs;
	int copy;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)
		return err_set(err, KODA_INVALID, ENOTTY,
		    "the directory of terminals is not a devpts");
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return err_set(err, KODA_INTERNAL, errno, "terminals");
	writable->v[writable->n++] = copy;
	return 0;
}

static bool
with_terminals(const Koda__Boot *b)
{
	return b->has_terminals && b->terminals;
}

static bool
with_host(const Koda__Boot *b)
{
	return b->has_host && b->host;
}

/* Booted.empty_cache, from the result of caches_mount(). */
struct empty_caches {
	struct caches_empty empty[CACHES_PLACES_MAX];
	Koda__EmptyCache message[CACHES_PLACES_MAX], *list[CACHES_PLACES_MAX];
	size_t n;
};

static void
tell_empty(struct empty_caches *e, Koda__Booted *booted)
{
	for (size_t i = 0; i < e->n; i++) {
		koda__empty_cache__init(&e->message[i]);
		e->message[i].path = (ProtobufCBinaryData){ e->empty[i].path_len,
			(uint8_t *)(uintptr_t)e->empty[i].path };
		e->message[i].why =
		    (ProtobufCBinaryData){ strlen(e->empty[i].why), (uint8_t *)e->empty[i].why };
		e->list[i] = &e->message[i];
	}
	booted->empty_cache = e->list;
	booted->n_empty_cache = e->n;
}

/* Tells the host, and so the worker, what the root is now. */
static void
tell_root(const Koda__Boot *b, Koda__Booted *booted)
{
	cleanup_close int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%.*s", (int)b->root.len, (const char *)b->root.data);
	fd = resolve(AT_FDCWD, path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	booted->has_root_dev = booted->has_root_ino = true;
	booted->root_dev = st.st_dev;
	booted->root_ino = st.st_ino;
}

/* A command may write nothing in /proc, also where no Landlock refuses it: neither settings of its
 * own processes, such as their oom_score_adj, nor the kernel's, which as root it could. */
static int
pin_proc(struct koda_error *err)
{
	cleanup_close int fd = resolve(AT_FDCWD, "/proc");

	return fd < 0 || make_read_only(fd, AT_RECURSIVE) < 0
	    ? err_set(err, KODA_UNSUPPORTED, errno, "make /proc read-only")
	    : 0;
}

/* Sets *step to the one that failed. */
static int
make_view(struct stage2 *s, const Koda__Boot *b, struct empty_caches *empty, Koda__FailedStep *step,
    struct koda_error *err)
{
	*step = KODA__FAILED_STEP__FAILED_STEP_VIEW;
	s->view = view_new(b->has_private_bytes ? b->private_bytes : PRIVATE_BYTES_MIN, err);
	if (s->view == NULL || pin_proc(err) < 0 || view_set_roots(s->view, b, err) < 0)
		return -1;
	for (size_t i = 0; i < b->n_make_dir; i++)
		if (make_dir(&b->make_dir[i], err) < 0)
			return -1;
	if (private_mount(s->view->memory_fd, b, err) < 0)
		return -1;
	if (drafts_mount(s->view, b->drafts, err) < 0) {
		*step = KODA__FAILED_STEP__FAILED_STEP_DRAFT;
		return -1;
	}
	if (caches_mount(s->view, b->caches, empty->empty, &empty->n, err) < 0)
		return -1;
	close_at(&s->view->memory_fd);
	s->watch = place_watch_new(err);
	return s->watch == NULL ? -1 : 0;
}

/* Starts spawner, template and the maker of links, and takes over the template's listener. */
static int
start_helpers(struct stage2 *s, const Koda__Boot *b, const struct fds *writable,
    struct koda_error *err)
{
	cleanup_close int listener = -1;

	s->spawner = spawner_new(err);
	s->commands = s->spawner == NULL ? NULL : commands_new(err);
	s->template = s->commands == NULL ? NULL
					  : template_new(commands_slots(s->commands), writable->v,
						writable->n, b->local_binding, &listener, err);
	s->guard = s->template == NULL ? NULL : connect_new(take_fd(&listener), err);
	s->links = s->guard == NULL ? NULL : links_new(connect_fd(s->guard), b, err);
	return s->links == NULL ? -1 : spawner_ready(s->spawner, err);
}

/* egress: the port of the egress proxy, which goes with the report, or -1. */
static void
report_booted(struct stage2 *s, uint64_t id, const Koda__Boot *b, struct empty_caches *empty,
    int egress)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Booted booted = KODA__BOOTED__INIT;
	ssize_t len;

	report.id = id;
	report.report_case = KODA__REPORT__REPORT_BOOTED;
	report.booted = &booted;
	booted.protocol = KODA_PROTOCOL_VERSION;
	booted.landlock_abi = s->template->landlock_abi;
	booted.seccomp = true;
	booted.connect_guard = true;
	tell_empty(empty, &booted);
	if (b->drafts != NULL)
		tell_root(b, &booted);
	if (egress < 0) {
		stage2_report(s, &report);
		return;
	}
	len = message_queue(&s->fs, &report.base, NULL);
	if (len < 0 ||
	    frame_flush_with_fd(&s->fs, (size_t)len, egress, SEND_FD_TIMEOUT_MS, NULL) < 0)
		_exit(1);
}

static void
do_boot(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	static struct empty_caches empty; /* Boot comes only once */
	const Koda__Boot *b = order->boot;
	cleanup(fds_done) struct fds writable = { 0 };
	cleanup_close int egress = -1;
	struct koda_error err = { 0 };
	Koda__FailedStep step;

	/* From here on a failure is a failure of the slot: it is reported, and then stage2 ends. */
	s->ending = true;
	if (b->protocol != KODA_PROTOCOL_VERSION) {
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EPROTO,
		    "protocol version");
		return;
	}
	/* open_writable() comes after make_view(), because the caches are among the writable
	 * places. */
	if (make_view(s, b, &empty, &step, &err) < 0 || open_writable(b, &writable, &err) < 0 ||
	    (with_terminals(b) && add_terminals(fds[0], &writable, &err) < 0)) {
		report_failure(s, order, step, &err);
		return;
	}
	if (with_host(b))
		s->host_fd = fcntl(fds[with_terminals(b)], F_DUPFD_CLOEXEC, 3);
	if (with_host(b) && s->host_fd < 0) {
		err_set(&err, KODA_INTERNAL, errno, "the host's pidfd");
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_ORDER, &err);
		return;
	}
	if (start_helpers(s, b, &writable, &err) < 0) {
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_CONFINE, &err);
		return;
	}
	notice_limits();
	/* Only after the template was forked, so that no other process inherits this descriptor. */
	if (b->has_egress_port && (egress = netns_listen(b->egress_port, &err)) < 0) {
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_CONFINE, &err);
		return;
	}
	if (private_seal(&err) < 0) {
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_VIEW, &err);
		return;
	}
	s->quota = quota_new(s, b, &err);
	if (s->quota == NULL && err.code != KODA_OK) {
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_LIMITS, &err);
		return;
	}
	/* Last: the filter lacks system calls that booting needs, and template and spawner must
	 * not inherit it. */
	if (lockdown_seccomp(stage2_filter, N_ELEMENTS(stage2_filter), &err) < 0) {
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_CONFINE, &err);
		return;
	}
	s->booted = true;
	s->ending = false;
	report_booted(s, order->id, b, &empty, egress);
}

static void
do_mounts(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Mounted mounted = KODA__MOUNTED__INIT;
	cleanup_free ProtobufCBinaryData *missing = NULL;
	struct procs before = PROCS_EMPTY;
	struct koda_error err = { 0 };
	bool stop = commands_any(s->commands);
	int r;

	/* While the plan is replaced nothing is protected, so no command may run. */
	if (stop && procs_stop(s->proc_fd, &before) < 0) {
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_VIEW, errno, "stop");
		s->ending = true;
		return;
	}
	r = view_mount(s->view, order->mounts->mount, order->mounts->n_mount, !stop, &err);
	missing = calloc(s->view->n + 1, sizeof(*missing));
	if (r < 0 || missing == NULL) {
		/* It is unknown what this view protects, so no process continues in it. */
		report_failure(s, order, KODA__FAILED_STEP__FAILED_STEP_VIEW, &err);
		s->ending = true;
		return;
	}
	links_plan(s->links, s->view);
	place_watch_plan(s->watch, s->view);
	if (stop)
		procs_go_on(&before);
	procs_done(&before);
	report.id = order->id;
	report.report_case = KODA__REPORT__REPORT_MOUNTED;
	report.mounted = &mounted;
	mounted.missing = missing;
	for (size_t i = 0; i < s->view->n; i++)
		if (!s->view->entry[i].there && !s->view->entry[i].uncovered &&
		    s->view->entry[i].mirror == NULL)
			missing[mounted.n_missing++] =
			    (ProtobufCBinaryData){ strlen(s->view->entry[i].path),
				    (uint8_t *)s->view->entry[i].path };
	stage2_report(s, &report);
}

#define REFRESH_FAILED "the draft cannot be brought up to date"

/* Not while a command runs: its watches would be lost, see overlay_refresh(). */
static int
refresh_drafts(const struct stage2 *s)
{
	return commands_any(s->commands) ? 0 : drafts_refresh(s->view);
}

static void
do_start_worker(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__WorkerStarted started = KODA__WORKER_STARTED__INIT;
	cleanup_close int pidfd = -1;
	ssize_t len;
	pid_t pid;

	if (worker_start(s->spawner, fds[1], fds[0], &pid, &pidfd) < 0) {
		/* The result is the same as when stage2 notices the spawner's death first: the
		 * host builds another slot and sends the order to that one. */
		if (errno == EPIPE) {
			fprintf(stderr, "koda-sandbox-stage2: the spawner died\n");
			_exit(1);
		}
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_EXEC, errno, "worker");
		return;
	}
	if (order->start_worker->has_search && order->start_worker->search)
		companions_add_search(&s->companions, pid);
	else
		companions_set_worker(&s->companions, pid);
	report.id = order->id;
	report.report_case = KODA__REPORT__REPORT_WORKER_STARTED;
	report.worker_started = &started;
	started.pid = pid;
	len = message_queue(&s->fs, &report.base, NULL);
	if (len < 0 ||
	    frame_flush_with_fd(&s->fs, (size_t)len, pidfd, SEND_FD_TIMEOUT_MS, NULL) < 0)
		_exit(1);
}

static void
do_refresh(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Refreshed refreshed = KODA__REFRESHED__INIT;

	if (refresh_drafts(s) < 0) {
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_VIEW, errno,
		    REFRESH_FAILED);
		return;
	}
	report.id = order->id;
	report.report_case = KODA__REPORT__REPORT_REFRESHED;
	report.refreshed = &refreshed;
	stage2_report(s, &report);
}

static void
do_exec(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	/* What the host did before it sent this order has to be in the view. */
	stage2_signals(s);
	if (refresh_drafts(s) < 0) {
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_VIEW, errno,
		    REFRESH_FAILED);
		return;
	}
	watch_busy(s);
	commands_exec(s, order->id, order->exec, fds);
	if (!commands_any(s->commands))
		watch_idle(s);
}

static void
do_signal(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	commands_signal(s, order->id, order->signal);
}

static void
do_end(struct stage2 *s, const Koda__Order *order, const int *fds)
{
	commands_end(s, order->id, order->end);
}

/* ---- choosing the function ---- */

#define FDS_MAX 3

static const struct {
	size_t n_fds;
	bool first; /* only before booting; the others only after it */
	const char *(*valid)(const Koda__Order *);
	void (*run)(struct stage2 *, const Koda__Order *, const int *fds);
} orders[] = {
	[KODA__ORDER__ORDER_BOOT] = { 0, true, valid_boot, do_boot },
	[KODA__ORDER__ORDER_MOUNTS] = { 0, false, valid_mounts, do_mounts },
	[KODA__ORDER__ORDER_START_WORKER] = { 2, false, valid_start_worker, do_start_worker },
	[KODA__ORDER__ORDER_EXEC] = { 3, false, valid_exec, do_exec },
	[KODA__ORDER__ORDER_SIGNAL] = { 0, false, valid_signal, do_signal },
	[KODA__ORDER__ORDER_END] = { 0, false, valid_end, do_end },
	[KODA__ORDER__ORDER_REFRESH] = { 0, false, valid_refresh, do_refresh },
};

int
orders_handle(struct stage2 *s, const uint8_t *data, size_t len, struct koda_error *err)
{
	const Koda__Order *order = (const Koda__Order *)message_unpack(&koda__order__descriptor,
	    data, len, &s->arena, err);
	int fds[FDS_MAX] = { -1, -1, -1 };
	const char *wrong;
	size_t kind, n;

	if (order == NULL)
		return -1;
	kind = (size_t)order->order_case;
	if (kind >= N_ELEMENTS(orders) || orders[kind].run == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "an unknown order");
	n = orders[kind].n_fds;
	if (order->order_case == KODA__ORDER__ORDER_BOOT)
		n += (size_t)with_terminals(order->boot) + (size_t)with_host(order->boot);
	/* The descriptors came with the first byte of the order. Additional ones may belong to
	 * the next order. */
	if (frame_fds_waiting(&s->fs) < n)
		return err_set(err, KODA_PROTOCOL, 0, "an order without its descriptors");
	wrong = order->id == 0 ? "no id" : orders[kind].valid(order);
	if (wrong != NULL)
		return err_set(err, KODA_PROTOCOL, 0, "an order with %s", wrong);
	for (size_t i = 0; i < n; i++)
		fds[i] = frame_take_fd(&s->fs);
	if (orders[kind].first == s->booted)
		stage2_failed(s, order->id, KODA__FAILED_STEP__FAILED_STEP_ORDER,
		    s->booted ? EEXIST : EAGAIN, "");
	else
		orders[kind].run(s, order, fds);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	arena_reset(&s->arena);
	return 0;
}
