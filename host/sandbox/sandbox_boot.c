/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
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

#include "host/context/event.h"
#include "host/draft/fit.h"
#include "host/machine/state.h"
#include "host/sandbox/bwrap.h"
#include "host/sandbox/cache_boot.h"
#include "host/sandbox/draft_boot.h"
#include "host/sandbox/sandbox_arguments.h"
#include "host/sandbox/sandbox_control.h"
#include "host/sandbox/sandbox_end.h"
#include "host/sandbox/trial.h"
#include "shared/base/cleanup.h"
#include "shared/confine/rights.h"

#define BOOT_TRIES 3 /* a process that kills bwrap more often does so on purpose */

/* ---- bwrap ---- */

static void
close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close_at(&fds[i]);
}

/* Opens the writable places without following a link on the way: each descriptor is the directory
 * that the rule named when it was made. A place that does not exist is left out: it cannot be
 * written, and no command needs it. Returns the number of places, or -1 with *err set. */
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
		writable[n++] = (struct bwrap_writable){ sb->view.writable[i],
			FD_CONTROL + (int)*n_fds, draft_boot_any(sb) };
		(*n_fds)++;
	}
	return (int)n;
}

static int
spawn(struct sandbox *sb, struct koda_error *err)
{
	struct koda_session *ses = sb->ses;
	cleanup(bwrap_arguments_done) struct bwrap_arguments arguments = { 0 };
	char name[] = "koda-sandbox-launch", option[] = "--args", end[] = "--", number[16];
	char program[32];
	char *argv[] = { name, ses->bwrap_path, option, number, end, program, NULL };
	const bool launched = ses->launch_path[0] != '\0';
	size_t max = sb->view.n_writable + 3, n_fds = FD_WRITABLE - FD_CONTROL;
	struct cache_fds caches;
	cleanup_free struct bwrap_writable *writable = calloc(max + 1, sizeof(*writable));
	cleanup_free int *fds = calloc(n_fds + max, sizeof(*fds));
	int pair[2] = { -1, -1 }, n, draft, r = -1;
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
	    draft_boot_fd(sb, &draft, FD_CONTROL, fds, &n_fds, err) == 0 &&
	    sandbox_arguments(sb, writable, (size_t)n, &caches, draft, &arguments, err) == 0 &&
	    (fds[FD_ARGUMENTS - FD_CONTROL] = sandbox_arguments_file(&arguments, err)) >= 0) {
		close_at(&sb->said_fd);
		sb->said_fd = memfd_create("koda-said", MFD_CLOEXEC);
		r = spawn_program(launched ? ses->launch_path : ses->bwrap_path,
		    launched ? argv : argv + 1, fds, n_fds, sb->said_fd, &sb->bwrap, err);
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

/* ---- the first order ---- */

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
	const struct policy *p = koda_policy_get(sb->policy);
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

/* The first order, and what it points to. */
struct boot_order {
	Koda__Boot msg;
	char runtime[32];
	ProtobufCBinaryData *writable, make_dir[2], private_dir[1];
	Koda__PrivatePlace place[PRIVATE_MAX], *places[PRIVATE_MAX];
	struct cache_boot caches;
	struct draft_boot draft;
};

static void
boot_order_done(struct boot_order *o)
{
	free(o->writable);
	cache_boot_done(&o->caches);
}

/* Fill in the directories: those that commands may write, those that are made, and those that are
 * private. */
static int
fill_directories(struct boot_order *o, const struct sandbox *sb, struct koda_error *err)
{
	static const char *const always[] = { "/tmp", "/var/tmp", "/dev" };
	Koda__Boot *msg = &o->msg;

	o->writable = calloc(sb->view.n_writable + N_ELEMENTS(always) + 2, sizeof(*o->writable));
	if (o->writable == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	snprintf(o->runtime, sizeof(o->runtime), "/run/user/%u", (unsigned)getuid());
	msg->writable = o->writable;
	msg->make_dir = o->make_dir;
	for (size_t i = 0; i < sb->view.n_writable; i++)
		o->writable[msg->n_writable++] = message_text(sb->view.writable[i]);
	for (size_t i = 0; i < N_ELEMENTS(always); i++)
		o->writable[msg->n_writable++] = message_text(always[i]);
	o->make_dir[msg->n_make_dir++] = message_text(o->runtime);
	if (sb->view.spare != NULL)
		o->make_dir[msg->n_make_dir++] = message_text(sb->view.spare);
	for (size_t i = 0; i < msg->n_make_dir; i++)
		o->writable[msg->n_writable++] = o->make_dir[i];
	msg->n_private_ = private_places(sb, o->runtime, o->place);
	for (size_t i = 0; i < msg->n_private_; i++)
		o->places[i] = &o->place[i];
	msg->private_ = o->places;
	return 0;
}

static int
fill_boot(struct boot_order *o, const struct sandbox *sb, struct koda_error *err)
{
	const struct policy *policy = koda_policy_get(sb->policy);
	Koda__Boot *msg = &o->msg;

	*o = (struct boot_order){ .msg = KODA__BOOT__INIT };
	if (fill_directories(o, sb, err) < 0)
		return -1;
	if (cache_boot_any(sb)) {
		if (cache_boot_fill(sb, &o->caches, err) < 0)
			return -1;
		msg->caches = &o->caches.message;
	}
	if (draft_boot_any(sb)) {
		draft_boot_fill(sb, &o->draft);
		msg->drafts = &o->draft.message;
	}
	msg->protocol = KODA_PROTOCOL_VERSION;
	msg->root = message_text(sb->ses->root);
	msg->local_binding = policy->flag[KODA_ALLOW_LOCAL_BINDING];
	msg->has_private_bytes = msg->n_private_ > 0;
	msg->private_bytes = private_bytes(policy);
	fill_quota(sb, o->private_dir, msg);
	/* Also when the policy allows no connection: a command that tries one gets a message that
	 * explains the refusal. */
	msg->has_egress_port = true;
	msg->egress_port = EGRESS_PORT;
	return 0;
}

/* Are commands confined in full? If not, Auto does not start, and the other modes report it: a person
 * decides there about what commands do. */
static int
check_confined(struct sandbox *sb, unsigned abi, struct koda_error *err)
{
	const struct right *lost = rights_lost(CONFINED_COMMANDS, abi);
	struct koda_session *ses = sb->ses;

	sb->unconfined = lost != NULL && ses->mode == KODA_AUTO;
	if (lost == NULL)
		return 0;
	if (sb->unconfined)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "this kernel does not confine commands fully (Landlock ABI %u, %u needed): %s",
		    abi, lost->abi, lost->without[CONFINED_COMMANDS].by);
	if (!ses->said_commands)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "commands run without Landlock, which this kernel does not have: namespaces, "
		    "read-only mounts and the filter hold all but this: %s",
		    lost->without[CONFINED_COMMANDS].by);
	ses->said_commands = true;
	return 0;
}

/* Check what stage2 reports of the boot. Returns 0, or -1 with *err set. */
static int
check_booted(struct sandbox *sb, const Koda__Report *report, int listening, struct koda_error *err)
{
	const Koda__Booted *booted = report->booted;

	if (report->report_case != KODA__REPORT__REPORT_BOOTED)
		return err_set(err, KODA_PROTOCOL, 0, "the sandbox's first report is not Booted");
	if (booted->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "koda-sandbox-stage2 speaks protocol %u and this library %u: install both from "
		    "one build",
		    booted->protocol, KODA_PROTOCOL_VERSION);
	if (!booted->seccomp || !booted->connect_guard)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "this kernel cannot confine commands fully (seccomp %s, notification of "
		    "connections %s)",
		    booted->seccomp ? "yes" : "no", booted->connect_guard ? "yes" : "no");
	if (check_confined(sb, booted->landlock_abi, err) < 0)
		return -1;
	if (!is_egress_socket(listening))
		return err_set(err, KODA_PROTOCOL, 0,
		    "the sandbox sent an invalid socket for the network");
	return 0;
}

static int
send_boot(struct sandbox *sb, struct koda_error *err)
{
	cleanup_close int terminals = open_terminals(),
			  own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	cleanup(boot_order_done) struct boot_order boot;
	struct sandbox_answer w = { .wants_fd = true, .fd = -1 };
	Koda__Order order = KODA__ORDER__INIT;
	cleanup_close int listening = -1;
	size_t n_fds = 0;
	int fds[2], r;

	if (fill_boot(&boot, sb, err) < 0)
		return -1;
	/* Without a devpts on the host, commands have no terminal either. */
	boot.msg.has_terminals = boot.msg.has_host = true;
	boot.msg.terminals = terminals >= 0;
	boot.msg.host = own >= 0;
	if (boot.msg.terminals)
		fds[n_fds++] = terminals;
	if (boot.msg.host)
		fds[n_fds++] = own;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &boot.msg;
	r = sandbox_ask(sb, &order, fds, n_fds, SANDBOX_BOOT_MS, &w, err);
	listening = w.fd;
	if (r < 0 || check_booted(sb, w.report, listening, err) < 0 ||
	    draft_boot_told(sb, w.report->booted, err) < 0)
		return -1;
	egress_serve(&sb->egress, take_fd(&listening));
	cache_boot_told(sb, w.report->booted);
	return 0;
}

/* ---- the whole ---- */

/* Was bwrap killed (by a user, or by the kernel when memory is short), rather than unable to
 * start? */
static bool
was_killed(const struct child *bwrap)
{
	return bwrap->code == CLD_KILLED ||
	    (bwrap->code == CLD_EXITED && bwrap->status == 128 + SIGKILL);
}

#define NOT_STARTED "the kernel sandbox does not start"

/* Appends what the machine lacks, as far as there is room for it between the other parts. */
static void
append_remedy(const struct sandbox *sb, struct koda_error *err)
{
	char remedy[sizeof(err->message)];
	const size_t len = strlen(err->message), taken = len + strlen(NOT_STARTED ": ; ");

	if (taken >= sizeof(remedy))
		return;
	if (sb->draft_failed)
		draft_fit_kernel_remedy(remedy, sizeof(remedy) - taken);
	else if (sb->unconfined)
		snprintf(remedy, sizeof(remedy) - taken, "try: --mode safe, or %s", RIGHTS_REMEDY);
	else
		trial_explain(sb->ses->launch_path, sb->ses->bwrap_path, remedy,
		    sizeof(remedy) - taken);
	snprintf(err->message + len, sizeof(err->message) - len, "; %s", remedy);
}

/* Returns 1 if bwrap was killed while it started, which says nothing about the machine. */
static int
try_boot(struct sandbox *sb, struct koda_error *err)
{
	sb->draft_failed = sb->unconfined = false;
	if (cache_boot_open(sb, err) < 0 || egress_prepare(&sb->egress, err) < 0 ||
	    spawn(sb, err) < 0) {
		egress_drop(&sb->egress);
		cache_boot_close(sb, true);
		return -1;
	}
	if (send_boot(sb, err) < 0) {
		bool killed;

		/* bwrap was gone before stage2 read the order: bwrap's error message says more. */
		if (err->code == KODA_IO)
			sandbox_explain_end(sb, err);
		killed = err->code == KODA_WORKER && was_killed(&sb->bwrap);
		/* If bwrap ends before the sandbox is up, the cause is the machine, not a
		 * command. */
		if (err->code == KODA_WORKER && !killed)
			err->code = KODA_UNSUPPORTED;
		sandbox_forget(sb);
		if (killed)
			return 1;
		/* The caller gave up: the machine is not at fault. */
		if (sb->ses->given_up)
			return -1;
		append_remedy(sb, err);
		return err_wrap(err, NOT_STARTED);
	}
	sb->up = true;
	loop_watch(&sb->ses->loop, &sb->source, sb->fs.fd, EPOLLIN);
	loop_watch(&sb->ses->loop, &sb->end.source, sb->bwrap.pidfd, EPOLLIN);
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
	err->errnum = EAGAIN; /* the next call builds it again */
	return err_wrap(err, "the sandbox was killed %d times while it started", BOOT_TRIES);
}
