#include "host/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/caches/cache_boot.h"
#include "host/caches/cache_project.h"
#include "host/command/command.h"
#include "host/machine/caps.h"
#include "host/machine/home.h"
#include "host/machine/remedy.h"
#include "host/protect/journal.h"
#include "host/protect/protect.h"
#include "host/protect/state.h"
#include "host/protect/worktree.h"
#include "host/sandbox/bwrap.h"
#include "host/sandbox/orphan.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/access.h"

/* Descriptors in bwrap, as spawn_program() numbers them. */
enum { FD_CONTROL = 3, FD_ARGUMENTS, FD_STAGE2, FD_WRITABLE };

/* How long to wait for a killed bwrap to be gone before its children are searched for. */
#define ORPHAN_MS 100
/* How long to wait for a killed init and its processes to be gone; usually some milliseconds. */
#define GONE_MS      2000
#define BOOT_TRIES   3 /* a process that kills it repeatedly does so on purpose */
#define WORKER_TRIES 3
#define SAID_MAX     400 /* how much of bwrap's standard error goes into a message */

/* ---- what it is built from ---- */

struct view_input
sandbox_view_input(const struct sandbox *sb)
{
	const struct koda_session *ses = sb->slot->ses;

	return (struct view_input){ .policy = koda_policy_get(sb->slot->policy),
		.mode = ses->mode,
		.root = ses->root,
		.home = ses->home,
		.state = ses->state,
		.caches = sb->cache,
		.n_caches = sb->caches.n,
		.spare = sb->caches.n_missing > 0,
		.also = (const char *const *)&sb->git_dir,
		.n_also = sb->git_dir != NULL };
}

static int
plan_without_places(struct sandbox *sb, struct koda_error *err)
{
	const struct view_input in = sandbox_view_input(sb);

	view_done(&sb->view);
	return view_plan(&in, &sb->view, err);
}

static int
fill_arguments(const struct sandbox *sb, const struct bwrap_writable *writable, size_t n_writable,
    const struct cache_fds *fds, struct bwrap_arguments *ret, struct koda_error *err)
{
	/* Files named in the environment of commands have to be visible wherever they are. */
	const char *const files[] = { egress_connect_path(sb->slot->ses),
		koda_policy_get(sb->slot->policy)->ca_bundle };
	cleanup_free const char **shown =
	    calloc(sb->view.n_shown + N_ELEMENTS(files), sizeof(*shown));
	struct bwrap_input in = { .writable = writable,
		.n_writable = n_writable,
		.shown = shown,
		.caches = cache_boot_any(sb) ? sb->slot->ses->home : NULL,
		.layers = cache_boot_any(sb) ? sb->layers.path : NULL,
		.caches_fd = fds->caches,
		.layers_fd = fds->layers,
		.certificates = egress_certificates(&sb->egress),
		.stage2_fd = FD_STAGE2,
		.uid = (unsigned)getuid() };

	if (shown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox arguments");
	for (size_t i = 0; i < sb->view.n_shown; i++)
		shown[in.n_shown++] = sb->view.shown[i];
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		if (files[i] != NULL && files[i][0] == '/' && access(files[i], F_OK) == 0)
			shown[in.n_shown++] = files[i];
	return bwrap_arguments(&in, ret, err);
}

static int
find_caches(struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->slot->ses;
	const struct policy *p = koda_policy_get(sb->slot->policy);
	static const struct policy_list nothing;
	const struct policy_list *writable =
	    p->flag[KODA_SHARE_CACHES] ? &nothing : &p->list[KODA_ALLOW_WRITE];
	char *git;

	if (caches_find(ses->home, writable, &sb->caches, err) < 0)
		return -1;
	sb->cache = calloc(sb->caches.n + 1, sizeof(*sb->cache));
	if (sb->cache == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	for (size_t i = 0; i < sb->caches.n; i++)
		sb->cache[i] = sb->caches.v[i].path;
	sb->root_is_git_dir = worktree_is_git_dir(ses->root);
	git = ses->narrowed ? NULL : worktree_git_dir(ses->root);
	/* A git directory in the project itself is writable anyway. */
	if (git == NULL || path_is_inside(git, ses->root))
		free(git);
	else
		sb->git_dir = git;
	return 0;
}

/* Returns a memfd for --args, which contains each argument and its NUL, except the program's.
 * Returns -1 with *err set on failure. */
static int
arguments_file(const struct bwrap_arguments *a, struct koda_error *err)
{
	cleanup_close int fd = memfd_create("koda-bwrap", MFD_CLOEXEC);
	cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *f = fd < 0 ? NULL : open_memstream(&text, &len);

	for (size_t i = 0; f != NULL && i < a->n_options; i++)
		fwrite(a->v[i], strlen(a->v[i]) + 1, 1, f);
	if (f == NULL || fclose(f) != 0 || write(fd, text, len) != (ssize_t)len ||
	    lseek(fd, 0, SEEK_SET) < 0) {
		err_set(err, KODA_INTERNAL, errno, "sandbox arguments");
		return -1;
	}
	return take_fd(&fd);
}

static void
close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close_at(&fds[i]);
}

/* ---- its death ---- */

static void
read_said(const struct sandbox *sb, char *buf, size_t size)
{
	ssize_t n = sb->said_fd < 0 ? 0 : pread(sb->said_fd, buf, size - 1, 0);
	char *line;

	buf[n > 0 ? n : 0] = '\0';
	line = strchr(buf, '\n');
	if (line != NULL)
		*line = '\0';
}

/* The init ends only after all processes in its namespace have ended. */
static bool
is_gone(int init_fd)
{
	struct pollfd p = { .fd = init_fd, .events = POLLIN };

	return poll(&p, 1, GONE_MS) > 0;
}

static void
forget(struct sandbox *sb)
{
	const bool spawned = sb->fs.fd >= 0;
	bool gone;

	session_unwatch(sb->slot->ses, &sb->source);
	session_unwatch(sb->slot->ses, &sb->end.source);
	egress_drop(&sb->egress);
	/* stage2 ends when its socket is closed, and everything ends with stage2. */
	frame_done(&sb->fs);
	/* A stage2 that hangs does not notice the closed socket, and its commands would run on. */
	if (sb->init_fd >= 0)
		syscall(SYS_pidfd_send_signal, sb->init_fd, SIGKILL, NULL, 0);
	gone = sb->points.fd < 0 || sb->init_fd < 0 || is_gone(sb->init_fd);
	close_at(&sb->init_fd);
	sb->init_fd = -1;
	if (sb->bwrap.pidfd >= 0) {
		child_kill(&sb->bwrap);
		if (!sb->up)
			child_gone(&sb->bwrap, ORPHAN_MS);
		session_adopt(sb->slot->ses, &sb->bwrap);
		if (sb->bwrap.pidfd >= 0)
			close(sb->bwrap.pidfd);
		sb->bwrap.pidfd = -1;
	}
	/* End a process that does not yet end when the socket is closed. */
	if (spawned && !sb->up)
		orphan_end(sb->peer, FD_CONTROL);
	cache_boot_close(sb, gone);
	close_at(&sb->said_fd);
	sb->said_fd = -1;
	sb->up = sb->full = false;
	sb->n_given_up = 0;
}

void
sandbox_kill(struct sandbox *sb, const struct koda_error *why)
{
	if (!sb->up)
		return;
	session_event(sb->slot->ses, KODA_EVENT_DEATH, "the sandbox of a slot is gone: %s",
	    why->message);
	forget(sb);
	for (struct koda_command *c = sb->commands, *next; c != NULL; c = next) {
		next = c->next;
		command_lost(c, why);
	}
}

/* ---- reports ---- */

const char *
sandbox_only_command(const struct sandbox *sb)
{
	return sb->n_commands == 1 && !sb->mixed ? sb->commands->name : "";
}

static bool
is_of_git(const char *path)
{
	const char *at = strstr(path, "/.git");

	while (at != NULL && at[5] != '/' && at[5] != '\0')
		at = strstr(at + 1, "/.git");
	return at != NULL;
}

static void
on_event(struct sandbox *sb, const Koda__Event *e)
{
	cleanup_free char *target =
	    e->target.len > 0 ? strndup((const char *)e->target.data, e->target.len) : NULL;
	struct koda_violation v = { .kind = KODA_VIOLATION_OTHER,
		.target = target == NULL ? "" : target,
		.command = sandbox_only_command(sb),
		.rule = "",
		.detail = "",
		.certain = true };
	char untold[128];

	switch ((int)e->kind) {
	case KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED:
		v.kind = KODA_VIOLATION_NETWORK_OUTBOUND;
		v.rule = "host_socket";
		v.detail = "a socket of the host is not for commands";
		if (!e->has_untold)
			break;
		snprintf(untold, sizeof(untold),
		    "%llu more sockets of the host, too fast to be told one by one",
		    (unsigned long long)e->untold);
		v.detail = untold;
		break;
	case KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED:
		v.kind = KODA_VIOLATION_FILE_WRITE;
		v.rule = access_rule_name(ACCESS_RULE_GIT_CONFIG);
		v.detail =
		    "a command may not make a link or a special file in a git directory: git on the "
		    "host would write through it; make it outside of the git directory";
		if (!e->has_untold)
			break;
		snprintf(untold, sizeof(untold),
		    "%llu more links or special files in git directories, too fast to be told one by one",
		    (unsigned long long)e->untold);
		v.detail = untold;
		break;
	case KODA__EVENT_KIND__EVENT_KIND_REMOUNTED:
		v.rule = "replaced_outside";
		v.detail = "somebody outside replaced a protected place; it is protected again";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_HIDDEN:
		v.kind = KODA_VIOLATION_FILE_READ;
		v.rule = access_rule_name(ACCESS_RULE_DENY_READ);
		v.detail =
		    "it did not exist when the sandbox was built; it is hidden since it appeared";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_LOST:
		v.rule = "replaced_outside";
		v.detail = "somebody outside removed or replaced a protected place";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_APPEARED:
		/* The comparison finds out what it is, and moves it away if it was planted. A
		 * repository that a command is creating is checked when that command is done: git
		 * would fail if parts of it disappeared. In a cache it does not affect the host. */
		if (target == NULL || is_of_git(target) || view_is_cached(&sb->view, target))
			return;
		sb->compare_at = 1;
		session_wake_at(sb->slot->ses, 0);
		return;
	default:
		return;
	}
	violations_record(&sb->violations, &v);
}

static struct koda_command *
find_command(const struct sandbox *sb, uint64_t id)
{
	struct koda_command *c = sb->commands;

	while (c != NULL && (c->state != COMMAND_RUNNING || c->id != id))
		c = c->next;
	return c;
}

/* No embedder waits for this command any more, but what it left behind is checked all the same. */
static void
on_end_of_given_up(struct sandbox *sb, const Koda__Report *r)
{
	/* Step ORDER with ESRCH answers an End that came too late; it does not report on the
	 * command. */
	const bool exited = r->report_case == KODA__REPORT__REPORT_EXITED,
		   not_begun = r->report_case == KODA__REPORT__REPORT_FAILED &&
	    (r->failed->step != KODA__FAILED_STEP__FAILED_STEP_ORDER || r->failed->errnum != ESRCH);

	if (sb->n_given_up == 0 || (!exited && !not_begun))
		return;
	sb->n_given_up--;
	if (sb->ended)
		return;
	sb->compare_at = 1;
	session_wake_at(sb->slot->ses, 0);
}

/* The report that ask() waits for. */
struct waiting {
	uint64_t id;
	bool wants_fd;
	int fd;
	Koda__Report *report;
};

static int
on_report(struct sandbox *sb, const uint8_t *frame, size_t len, struct waiting *w,
    struct koda_error *err)
{
	struct koda_command *c;
	Koda__Report *r;

	arena_reset(&sb->arena);
	r = (Koda__Report *)message_unpack(&koda__report__descriptor, frame, len, &sb->arena, err);
	if (r == NULL)
		return -1;
	if (r->report_case == KODA__REPORT__REPORT__NOT_SET)
		return err_set(err, KODA_PROTOCOL, 0, "an empty report");
	if (r->report_case == KODA__REPORT__REPORT_EVENT && r->id == 0) {
		on_event(sb, r->event);
		return 0;
	}
	if (w != NULL && r->id == w->id) {
		if (w->wants_fd &&
		    (r->report_case == KODA__REPORT__REPORT_WORKER_STARTED ||
			r->report_case == KODA__REPORT__REPORT_BOOTED))
			w->fd = frame_take_fd(&sb->fs);
		w->report = r;
		return 0;
	}
	c = find_command(sb, r->id);
	if (c != NULL)
		command_report(c, r);
	else if (r->id == 0 || r->id >= sb->next_id)
		return err_set(err, KODA_PROTOCOL, 0, "a report about nothing (id %llu)",
		    (unsigned long long)r->id);
	else
		on_end_of_given_up(sb, r);
	return 0;
}

/* Returns 0, or -1 with *err set if stage2 breaks the protocol. */
static int
take_reports(struct sandbox *sb, struct waiting *w, struct koda_error *err)
{
	const uint8_t *frame;
	size_t len;
	int r = 0;

	while (sb->fs.fd >= 0 && (w == NULL || w->report == NULL) &&
	    (r = frame_next(&sb->fs, &frame, &len, err)) > 0)
		if ((r = on_report(sb, frame, len, w, err)) < 0)
			break;
	if (r == 0 && frame_fds_waiting(&sb->fs) > 0 && sb->fs.in_start == sb->fs.in_end)
		r = err_set(err, KODA_PROTOCOL, 0, "a descriptor that belongs to nothing");
	return r < 0 ? -1 : 0;
}

static void
explain_end(struct sandbox *sb, struct koda_error *err)
{
	char said[SAID_MAX], how[64];
	bool gone;

	session_unwatch(sb->slot->ses, &sb->end.source); /* before its descriptor is closed */
	/* It writes its last messages before it exits. */
	gone = child_gone(&sb->bwrap, 200);

	read_said(sb, said, sizeof(said));
	if (said[0] != '\0')
		err_set(err, KODA_WORKER, 0, "%s", said);
	else
		err_set(err, KODA_WORKER, 0, "bwrap %s",
		    gone ? child_end(&sb->bwrap, how, sizeof(how)) : "closed its socket");
}

static void
on_readable(struct source *source)
{
	struct sandbox *sb = (struct sandbox *)source;
	struct koda_error err;
	int r;

	if (!sb->up)
		return;
	do {
		r = frame_fill(&sb->fs, false, &err);
		if (r > 0)
			r = take_reports(sb, NULL, &err) < 0 ? -2 : 1;
	} while (r > 0 && sb->up);
	if (r == -1)
		explain_end(sb, &err);
	if (r < 0 && sb->up)
		sandbox_kill(sb, &err);
}

/* bwrap, outside, waits for stage2. A process that kills bwrap has not ended stage2, which still
 * has its socket. */
static void
on_bwrap_gone(struct source *source)
{
	struct sandbox *sb = ((struct sandbox_end *)source)->sb;
	struct koda_error err;

	if (!sb->up)
		return;
	explain_end(sb, &err);
	sandbox_kill(sb, &err);
}

void
sandbox_wait(struct sandbox *sb, int timeout_ms)
{
	struct pollfd pfd[] = {
		{ .fd = sb->fs.fd, .events = POLLIN },
		{ .fd = sb->bwrap.pidfd, .events = POLLIN },
	};

	if (!sb->up || poll(pfd, N_ELEMENTS(pfd), timeout_ms) <= 0)
		return;
	if (pfd[0].revents != 0)
		on_readable(&sb->source);
	if (pfd[1].revents != 0)
		on_bwrap_gone(&sb->end.source);
}

/* ---- orders ---- */

static int
queue_order(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err)
{
	ssize_t len;

	order->id = sb->next_id++;
	len = message_queue(&sb->fs, &order->base, err);
	if (len < 0)
		return -1;
	if (n_fds > 0)
		return frame_flush_with_fds(&sb->fs, (size_t)len, fds, n_fds, SANDBOX_ANSWER_MS,
		    err);
	return frame_flush(&sb->fs, true, err) < 0 ? -1 : 0;
}

int
sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err)
{
	if (!sb->up)
		return err_set(err, KODA_WORKER, 0, "the sandbox is gone");
	if (queue_order(sb, order, fds, n_fds, err) == 0)
		return 0;
	if (err != NULL && (err->code == KODA_IO || err->code == KODA_TIMEOUT))
		err->code = KODA_WORKER; /* regardless of whether it is gone or hangs */
	return -1;
}

/* Send an order and wait for the report on it; other reports that arrive meanwhile are processed.
 * w->report is valid until the next report. Returns -1 with *err set if there is none, or if it is
 * Failed. */
static int
ask(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds, int timeout_ms,
    struct waiting *w, struct koda_error *err)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	w->fd = -1;
	w->report = NULL;
	if (queue_order(sb, order, fds, n_fds, err) < 0) {
		if (err->code == KODA_IO)
			explain_end(sb, err); /* it died after the last order */
		return -1;
	}
	w->id = order->id;
	for (;;) {
		/* Until stage2 runs, the sandbox is gone when bwrap ends, even if another process
		 * still has the socket. */
		struct pollfd pfd[] = {
			{ .fd = sb->fs.fd, .events = POLLIN },
			{ .fd = sb->up ? -1 : sb->bwrap.pidfd, .events = POLLIN },
		};
		uint64_t now;
		int r;

		if (take_reports(sb, w, err) < 0)
			return -1;
		if (w->report != NULL)
			break;
		now = monotonic_ns();
		if (now >= until)
			return err_set(err, KODA_WORKER, 0,
			    "the sandbox did not answer within %d s", timeout_ms / 1000);
		r = session_poll(sb->slot->ses, pfd, N_ELEMENTS(pfd),
		    (int)((until - now) / NS_PER_MS + 1));
		if (r < 0 && sb->slot->ses->given_up)
			return err_set(err, KODA_TIMEOUT, 0,
			    "the caller gave up waiting for the sandbox");
		if (r > 0 && pfd[0].revents == 0) {
			explain_end(sb, err);
			return -1;
		}
		if (r > 0 && (r = frame_fill(&sb->fs, false, err)) < 0) {
			if (err->code != KODA_PROTOCOL || sb->fs.eof)
				explain_end(sb, err);
			return -1;
		}
	}
	if (w->report->report_case == KODA__REPORT__REPORT_FAILED) {
		const Koda__Failed *f = w->report->failed;

		err_set(err, KODA_UNSUPPORTED, f->errnum, "the sandbox cannot be set up: %.*s",
		    (int)f->what.len, (const char *)f->what.data);
		return -1;
	}
	return 0;
}

/* ---- booting ---- */

/* Opens the writable places, without following a link on the way: what is opened is what the rule
 * named when it was made. A place that does not exist is left out: it cannot be written, and no
 * command needs it. Returns the number of places, or -1 with *err set. */
static int
open_writable(const struct sandbox *sb, struct bwrap_writable *writable, int *fds, size_t *n_fds,
    struct koda_error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < sb->view.n_writable; i++) {
		int fd;

		if (!view_binds(&sb->view, sb->view.writable[i]))
			continue;
		fd = state_open_directory(sb->view.writable[i], err);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return -1;
		fds[*n_fds] = fd;
		writable[n++] =
		    (struct bwrap_writable){ sb->view.writable[i], FD_CONTROL + (int)*n_fds };
		(*n_fds)++;
	}
	return (int)n;
}

static int
spawn(struct sandbox *sb, struct koda_error *err)
{
	struct koda_session *ses = sb->slot->ses;
	cleanup(bwrap_arguments_done) struct bwrap_arguments arguments = { 0 };
	char name[] = "bwrap", option[] = "--args", end[] = "--", number[16], program[32];
	char *argv[] = { name, option, number, end, program, NULL };
	size_t max = sb->view.n_writable + 2, n_fds = FD_WRITABLE - FD_CONTROL;
	struct cache_fds caches;
	cleanup_free struct bwrap_writable *writable = calloc(max + 1, sizeof(*writable));
	cleanup_free int *fds = calloc(n_fds + max, sizeof(*fds));
	int pair[2] = { -1, -1 }, n, r = -1;
	struct stat st;

	if (fds == NULL || writable == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	for (size_t i = 0; i < n_fds + max; i++)
		fds[i] = -1;
	snprintf(number, sizeof(number), "%d", FD_ARGUMENTS);
	snprintf(program, sizeof(program), "/proc/self/fd/%d", FD_STAGE2);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, KODA_INTERNAL, errno, "socketpair");
	sb->peer = fstat(pair[1], &st) < 0 ? 0 : st.st_ino;
	fds[0] = pair[1];
	fds[FD_STAGE2 - FD_CONTROL] = open(ses->stage2_path, O_RDONLY | O_CLOEXEC);
	if (fds[FD_STAGE2 - FD_CONTROL] < 0)
		err_set(err, KODA_UNSUPPORTED, errno, "open '%s'", ses->stage2_path);
	else if ((n = open_writable(sb, writable, fds, &n_fds, err)) >= 0 &&
	    cache_boot_fds(sb, &caches, FD_CONTROL, fds, &n_fds, err) == 0 &&
	    fill_arguments(sb, writable, (size_t)n, &caches, &arguments, err) == 0 &&
	    (fds[FD_ARGUMENTS - FD_CONTROL] = arguments_file(&arguments, err)) >= 0) {
		close_at(&sb->said_fd);
		sb->said_fd = memfd_create("koda-said", MFD_CLOEXEC);
		r = spawn_program(ses->bwrap_path, argv, fds, n_fds, sb->said_fd, &sb->bwrap, err);
	}
	close_all(fds, n_fds);
	if (r < 0) {
		close(pair[0]);
		return -1;
	}
	frame_init(&sb->fs, pair[0]);
	sb->next_id = 1;
	sb->boots++;
	return 0;
}

static int
open_terminals(void)
{
	int fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd >= 0 && (fstatfs(fd, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Is this the listening socket at the proxy's address? The network namespace that it is in cannot
 * be checked. */
static bool
is_egress_socket(int fd)
{
	struct sockaddr_in sin = { 0 };
	int type = 0, listens = 0;
	socklen_t len = sizeof(sin);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&sin, &len) < 0 ||
	    sin.sin_family != AF_INET || sin.sin_port != htons(EGRESS_PORT) ||
	    sin.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
		return false;
	len = sizeof(type);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
		return false;
	len = sizeof(listens);
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0;
}

/* The private file systems get one eighth of the machine's memory together. The kernel's default is
 * one half for each file system. */
#define PRIVATE_SHARE 8
#define PRIVATE_MAX   8 /* bwrap_private has fewer entries */

/* The size limit for all private places together. Never 0, which the kernel takes as no limit. */
static uint64_t
private_bytes(const struct policy *p)
{
	const struct policy_limit *memory = &p->limit[KODA_MAX_RSS_BYTES];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) / PRIVATE_SHARE * page;

	if (memory->set && memory->value < bytes)
		bytes = memory->value;
	return bytes > page ? bytes : page;
}

/* Fills ret with bwrap's private places that no writable directory covers, with the runtime
 * directory instead of /run. Returns their number. */
static size_t
private_places(const struct sandbox *sb, const char *runtime, Koda__PrivatePlace *ret)
{
	size_t n = 0;

	for (size_t i = 0; bwrap_private[i] != NULL; i++) {
		bool run = strcmp(bwrap_private[i], "/run") == 0, covered = false;

		for (size_t k = 0; k < sb->view.n_writable; k++)
			covered = covered || path_is_inside(bwrap_private[i], sb->view.writable[k]);
		if (covered)
			continue;
		koda__private_place__init(&ret[n]);
		ret[n].path = message_text(run ? runtime : bwrap_private[i]);
		ret[n++].mode = run ? 0700 : 01777;
	}
	return n;
}

/* Fills in the limits on all commands of the slot together, and which places of the view are in
 * memory. */
static void
fill_quota(const struct sandbox *sb, ProtobufCBinaryData dirs[1], Koda__Boot *boot)
{
	const struct policy *p = koda_policy_get(sb->slot->policy);
	const struct policy_limit *memory = &p->limit[KODA_MAX_RSS_BYTES];
	const struct policy_limit *processes = &p->limit[KODA_MAX_PROCESSES];

	boot->has_memory_max = memory->set;
	boot->memory_max = memory->value > 0 ? memory->value : 1;
	/* The kernel does not enforce RLIMIT_NPROC for root. */
	boot->has_tasks_max = processes->set && getuid() == 0;
	boot->tasks_max = processes->value > 0 ? processes->value : 1;
	boot->private_dir = dirs;
	/* All private places are directories of one file system. */
	if (boot->n_private_ > 0)
		dirs[boot->n_private_dir++] = boot->private_[0]->path;
}

static int
send_boot(struct sandbox *sb, struct koda_error *err)
{
	static const char *const always[] = { "/tmp", "/var/tmp", "/dev" };
	struct koda_session *ses = sb->slot->ses;
	size_t n = 0, max = sb->view.n_writable + N_ELEMENTS(always) + 2;
	cleanup_free ProtobufCBinaryData *writable = calloc(max, sizeof(*writable));
	cleanup_close int terminals = open_terminals(),
			  own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	size_t n_fds = 0;
	int fds[2];
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Boot boot = KODA__BOOT__INIT;
	ProtobufCBinaryData runtime, make_dir[2], private_dirs[1];
	size_t n_make_dir = 0;
	cleanup(cache_boot_done) struct cache_boot caches = { 0 };
	struct waiting w = { .wants_fd = true, .fd = -1 };
	cleanup_close int listening = -1;
	Koda__PrivatePlace place[PRIVATE_MAX], *places[PRIVATE_MAX];
	char dir[32];

	if (writable == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	if (cache_boot_any(sb)) {
		if (cache_boot_fill(sb, &caches, err) < 0)
			return -1;
		boot.caches = &caches.message;
	}
	snprintf(dir, sizeof(dir), "/run/user/%u", (unsigned)getuid());
	runtime = message_text(dir);
	for (size_t i = 0; i < sb->view.n_writable; i++)
		writable[n++] = message_text(sb->view.writable[i]);
	for (size_t i = 0; i < N_ELEMENTS(always); i++)
		writable[n++] = message_text(always[i]);
	make_dir[n_make_dir++] = runtime;
	writable[n++] = runtime;
	if (sb->view.spare != NULL)
		writable[n++] = make_dir[n_make_dir++] = message_text(sb->view.spare);
	boot.protocol = KODA_PROTOCOL_VERSION;
	boot.root = message_text(ses->root);
	boot.writable = writable;
	boot.n_writable = n;
	boot.local_binding = koda_policy_get(sb->slot->policy)->flag[KODA_ALLOW_LOCAL_BINDING];
	boot.make_dir = make_dir;
	boot.n_make_dir = n_make_dir;
	boot.n_private_ = private_places(sb, dir, place);
	for (size_t i = 0; i < boot.n_private_; i++)
		places[i] = &place[i];
	boot.private_ = places;
	boot.has_private_bytes = boot.n_private_ > 0;
	boot.private_bytes = private_bytes(koda_policy_get(sb->slot->policy));
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &boot;
	fill_quota(sb, private_dirs, &boot);
	/* Without a devpts on the host, commands have no terminal either. */
	boot.has_terminals = boot.has_host = true;
	boot.terminals = terminals >= 0;
	boot.host = own >= 0;
	/* Also when the policy allows no connection: a command that tries one gets a message that
	 * explains the refusal. */
	boot.has_egress_port = true;
	boot.egress_port = EGRESS_PORT;
	if (boot.terminals)
		fds[n_fds++] = terminals;
	if (boot.host)
		fds[n_fds++] = own;
	if (ask(sb, &order, fds, n_fds, SANDBOX_BOOT_MS, &w, err) < 0)
		return -1;
	listening = w.fd;
	if (w.report->report_case != KODA__REPORT__REPORT_BOOTED)
		return err_set(err, KODA_PROTOCOL, 0, "the sandbox's first report is not Booted");
	if (w.report->booted->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "koda-sandbox-stage2 speaks protocol %u and this library %u: install both from "
		    "one build",
		    w.report->booted->protocol, KODA_PROTOCOL_VERSION);
	sb->landlock_abi = w.report->booted->landlock_abi;
	sb->connect_guard = w.report->booted->connect_guard;
	if (!w.report->booted->seccomp || !sb->connect_guard ||
	    sb->landlock_abi < LOCKDOWN_ABI_FULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "this kernel does not confine commands in full (Landlock ABI %u, %u needed; seccomp %s, "
		    "notification of connections %s)",
		    sb->landlock_abi, LOCKDOWN_ABI_FULL, w.report->booted->seccomp ? "yes" : "no",
		    sb->connect_guard ? "yes" : "no");
	if (!is_egress_socket(listening))
		return err_set(err, KODA_PROTOCOL, 0,
		    "the sandbox's socket for the network is none");
	egress_serve(&sb->egress, take_fd(&listening));
	cache_boot_told(sb, w.report->booted);
	return 0;
}

/* Was it killed (by a user, or by the kernel when memory is short), rather than unable to start? */
static bool
was_killed(const struct child *bwrap)
{
	return bwrap->code == CLD_KILLED ||
	    (bwrap->code == CLD_EXITED && bwrap->status == 128 + SIGKILL);
}

/* Returns 1 if it was killed while it started, which says nothing about the machine. */
static int
try_boot(struct sandbox *sb, struct koda_error *err)
{
	if (cache_boot_open(sb, err) < 0 || egress_prepare(&sb->egress, err) < 0 ||
	    spawn(sb, err) < 0) {
		egress_drop(&sb->egress);
		cache_boot_close(sb, true);
		return -1;
	}
	if (send_boot(sb, err) < 0) {
		char remedy[REMEDY_MAX];
		size_t len;
		bool killed;

		/* It was gone before it read the order: its own error message says more. */
		if (err->code == KODA_IO)
			explain_end(sb, err);
		killed = err->code == KODA_WORKER && was_killed(&sb->bwrap);
		/* If it ends before it is up, the cause is the machine, not a command. */
		if (err->code == KODA_WORKER && !killed)
			err->code = KODA_UNSUPPORTED;
		forget(sb);
		if (killed)
			return 1;
		caps_sandbox_remedy(remedy, sizeof(remedy));
		len = strlen(err->message);
		snprintf(err->message + len, sizeof(err->message) - len, "; %s", remedy);
		return err_wrap(err, "the kernel sandbox does not start");
	}
	sb->up = true;
	session_watch(sb->slot->ses, &sb->source, sb->fs.fd, EPOLLIN);
	session_watch(sb->slot->ses, &sb->end.source, sb->bwrap.pidfd, EPOLLIN);
	return 0;
}

int
sandbox_boot(struct sandbox *sb, struct koda_error *err)
{
	int r = sb->up ? 0 : 1;

	for (int i = 0; r > 0 && i < BOOT_TRIES; i++)
		r = try_boot(sb, err);
	if (r <= 0)
		return r;
	err->code = KODA_WORKER;
	err->errnum = EAGAIN; /* it is built again for the next call */
	return err_wrap(err, "the sandbox was killed %d times while it was built", BOOT_TRIES);
}

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
	const pid_t init = sb->init_fd >= 0 ? 0 : journal_parent_of(worker);

	if (init <= 1)
		return;
	sb->init_fd = (int)syscall(SYS_pidfd_open, init, 0);
	if (sb->init_fd >= 0 && journal_parent_of(worker) == init) {
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
	struct waiting w = { .wants_fd = true, .fd = -1 };

	order.order_case = KODA__ORDER__ORDER_START_WORKER;
	order.start_worker = &start;
	start.has_search = start.search = which == SANDBOX_SEARCH;
	if (ask(sb, &order, fds, 2, SANDBOX_ANSWER_MS, &w, err) == 0 && w.fd >= 0) {
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
	const char *path =
	    which == SANDBOX_SEARCH ? sb->slot->ses->search_path : sb->slot->ses->worker_path;
	cleanup_close int program = open(path, O_RDONLY | O_CLOEXEC);
	const int fds[] = { socket, program };
	int r = 1;

	if (program < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "open '%s'", path);
	/* That the last sandbox is dead may be noticed only now. */
	for (int i = 0; r > 0 && i < WORKER_TRIES; i++) {
		if (sandbox_boot(sb, err) < 0)
			return -1;
		r = try_worker(sb, which, fds, ret, err);
	}
	if (r <= 0)
		return r;
	err->code = KODA_WORKER;
	err->errnum = EAGAIN; /* it is built again for the next call */
	return err_wrap(err, "the sandbox died %d times under its worker's start", WORKER_TRIES);
}

int
sandbox_mount(struct sandbox *sb, struct koda_error *err)
{
	size_t n = sb->view.n_mounts;
	cleanup_free Koda__Mount *mounts = calloc(n + 1, sizeof(*mounts));
	cleanup_free Koda__Mount **list = calloc(n + 1, sizeof(*list));
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Mounts msg = KODA__MOUNTS__INIT;
	struct waiting w = { 0 };

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
	if (ask(sb, &order, NULL, 0, SANDBOX_ANSWER_MS, &w, err) < 0 ||
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

/* ---- time ---- */

uint64_t
sandbox_next_time(const struct sandbox *sb)
{
	uint64_t first = sb->compare_at != 0 ? sb->compare_at : UINT64_MAX;

	if (sb->look_at != 0 && sb->look_at < first)
		first = sb->look_at;

	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next) {
		uint64_t at = command_next_time(c);

		if (at < first)
			first = at;
	}
	return first;
}

void
sandbox_tick(struct sandbox *sb)
{
	const uint64_t now = monotonic_ns();
	struct koda_command *c, *next;

	if (sb->compare_at != 0 && now >= sb->compare_at) {
		bool background = false;

		for (c = sb->commands; c != NULL; c = c->next)
			background |= c->background && c->state == COMMAND_RUNNING;
		sb->compare_at = background ? now + PROTECT_INTERVAL_MS * NS_PER_MS : 0;
		protect_compare(sb, PROTECT_GENTLY, sandbox_only_command(sb), NULL, NULL, NULL);
	}
	if (sb->look_at != 0 && now >= sb->look_at) {
		bool running = false;

		for (c = sb->commands; c != NULL; c = c->next)
			running |= c->state == COMMAND_RUNNING;
		sb->look_at = running ? now + PROTECT_LOOK_MS * NS_PER_MS : 0;
		if (running)
			protect_look(sb);
	}
	for (c = sb->commands; c != NULL; c = next) {
		next = c->next;
		command_tick(c, now);
	}
}

/* ---- the object ---- */

/* Locks koda's own directory and opens the quarantine. Without a quarantine, what commands plant is
 * reported but stays where it is; this is reported once and does not keep the sandbox from
 * starting. */
static int
hold_state(struct sandbox *sb, struct koda_error *err)
{
	struct koda_session *ses = sb->slot->ses;
	cleanup_free char *name = state_quarantine_name(ses->root);
	struct koda_error why = { 0 };
	int r = 0;

	if (name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	if (ses->state == NULL)
		err_set(&why, KODA_IO, 0, "there is no home directory, and no XDG_STATE_HOME");
	else
		r = state_hold(&sb->state, ses->state, &why);
	if (r < 0) {
		*err = why;
		return -1;
	}
	if (r > 0)
		sb->quarantine_fd = state_quarantine(&sb->state, name, true);
	if (r > 0 && sb->quarantine_fd < 0)
		err_set(&why, KODA_IO, errno, "make the quarantine in '%s'", ses->state);
	if (why.code != KODA_OK && !ses->said_state) {
		session_event(ses, KODA_EVENT_DEGRADED, "%s: %s", why.message,
		    sb->quarantine_fd < 0
			? "what a command plants is told, but cannot be taken away"
			: "it is used all the same");
		ses->said_state = true;
	}
	return 0;
}

/* If commands could replace a link on the way to koda's own directory, they could lead the next
 * session to a directory of their own. */
static int
check_state(const struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->slot->ses;
	cleanup_free char *named = state_path_as_named(ses->home);

	for (size_t i = 0; named != NULL && ses->state != NULL && i < sb->view.n_writable; i++) {
		if (strcmp(named, ses->state) == 0 || !path_is_inside(named, sb->view.writable[i]))
			continue;
		return err_set(err, KODA_INVALID, 0,
		    "'%.300s' is to be koda-sandbox's own directory, and leads through a link that commands may "
		    "replace: set XDG_STATE_HOME to where the link leads",
		    named);
	}
	return 0;
}

struct sandbox *
sandbox_new(struct koda_slot *slot, struct koda_error *err)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (sb == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
		return NULL;
	}
	sb->slot = slot;
	sb->source = (struct source){ .ready = on_readable, .fd = -1 };
	sb->end = (struct sandbox_end){ { .ready = on_bwrap_gone, .fd = -1 }, sb };
	sb->bwrap.pidfd = sb->said_fd = sb->quarantine_fd = sb->init_fd = -1;
	sb->state = (struct state)STATE_NONE;
	sb->fs.fd = -1;
	sb->layers = CACHE_STORE_CLOSED;
	sb->points = CACHE_POINTS_NONE;
	arena_init(&sb->arena);
	violations_init(&sb->violations, VIOLATIONS_MAX);
	egress_port_init(&sb->egress, sb);
	sb->protect = protect_new();
	if (sb->protect == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
		sandbox_free(sb);
		return NULL;
	}
	if (find_caches(sb, err) < 0 || hold_state(sb, err) < 0 ||
	    plan_without_places(sb, err) < 0 || check_state(sb, err) < 0) {
		sandbox_free(sb);
		return NULL;
	}
	return sb;
}

void
sandbox_free(struct sandbox *sb)
{
	struct koda_error why;

	if (sb == NULL)
		return;
	err_set(&why, KODA_WORKER, 0, "the slot was closed while it ran");
	forget(sb);
	while (sb->commands != NULL)
		command_closed(sb->commands, &why);
	egress_port_done(&sb->egress);
	protect_free(sb->protect);
	view_done(&sb->view);
	violations_done(&sb->violations);
	free(sb->cache);
	caches_done(&sb->caches);
	free(sb->git_dir);
	close_at(&sb->quarantine_fd);
	state_let_go(&sb->state, sb->slot->ses->state);
	arena_done(&sb->arena);
	free(sb);
}

void
sandbox_abandon(struct sandbox *sb)
{
	close_at(&sb->bwrap.pidfd);
	sb->bwrap.pidfd = -1;
	cache_store_abandon(&sb->layers);
	cache_points_done(&sb->points, false);
	sb->source.fd = sb->end.source.fd = -1;
	/* The lock is shared with the parent: closing the descriptor keeps it, unlocking would
	 * release the parent's. */
	close_at(&sb->state.fd);
	close_at(&sb->init_fd);
	sb->state.fd = sb->init_fd = -1;
	protect_abandon(sb->protect);
	for (struct koda_command *c = sb->commands; c != NULL; c = c->next)
		c->out.source.fd = c->err.source.fd = -1;
}

const char *
sandbox_beside(const struct sandbox *sb, size_t i)
{
	if (sb->git_dir != NULL && i-- == 0)
		return sb->git_dir;
	return koda_policy_get(sb->slot->policy)->flag[KODA_SHARE_CACHES] && i < sb->caches.n
	    ? sb->cache[i]
	    : NULL;
}

int
koda_slot_violations(const struct koda_slot *slot, koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_violation *v;
	int stop = 0;

	/* The callback may release the slot, or close the session. */
	session_enter(ses);
	for (size_t i = 0; slot->sandbox != NULL && stop == 0 &&
	     (v = violations_at(&slot->sandbox->violations, i)) != NULL;
	     i++)
		stop = fn(data, v);
	session_leave(ses);
	return stop;
}

int
koda_slot_new_violations(const struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct violations *v;
	int stop = 0;

	*ret_missed = 0;
	session_enter(ses);
	while (stop == 0 && slot->sandbox != NULL &&
	    *seen < (v = &slot->sandbox->violations)->recorded) {
		if (v->recorded - *seen > v->n) {
			*ret_missed += v->recorded - v->n - *seen;
			*seen = v->recorded - v->n;
			continue;
		}
		stop = fn(data, violations_at(v, v->n - (size_t)(v->recorded - (*seen)++)));
	}
	session_leave(ses);
	return stop;
}

int
koda_sandbox_arguments(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    koda_argument_fn *fn, void *data, struct koda_error *err)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments arguments = { 0 };
	struct koda_session ses = { .root = (char *)(uintptr_t)root, .mode = mode };
	struct koda_slot slot = { .ses = &ses, .policy = (struct koda_policy *)(uintptr_t)policy };
	struct sandbox sb = { .slot = &slot };
	const struct cache_fds none = { -1, -1 };
	struct bwrap_writable *writable = NULL;
	size_t n_writable = 0;
	int r = -1;

	if (policy == NULL || !koda_policy_frozen(policy))
		return err_set(err, KODA_INVALID, 0, "the policy is not frozen");
	ses.home = home_find();
	if (ses.home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	ses.state = state_path(ses.home);
	sb.layers.path = cache_project_path(ses.root, ses.home, err);
	if (sb.layers.path != NULL && find_caches(&sb, err) == 0 &&
	    plan_without_places(&sb, err) == 0 &&
	    (writable = calloc(sb.view.n_writable + 1, sizeof(*writable))) != NULL) {
		for (size_t i = 0; i < sb.view.n_writable; i++)
			if (view_binds(&sb.view, sb.view.writable[i]))
				writable[n_writable++] =
				    (struct bwrap_writable){ sb.view.writable[i], -1 };
		r = fill_arguments(&sb, writable, n_writable, &none, &arguments, err);
		for (size_t i = 0; r == 0 && i < arguments.n; i++)
			r = fn(data, arguments.v[i], arguments.comment[i]);
	}
	free(writable);
	view_done(&sb.view);
	free(sb.cache);
	caches_done(&sb.caches);
	free(sb.git_dir);
	free(sb.layers.path);
	free(ses.state);
	free(ses.home);
	return r;
}
