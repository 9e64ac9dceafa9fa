/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot's sandbox without the host's part: the real bwrap with the arguments that the host would
 * pass, the real koda-sandbox-stage2 in it, and this test at the other end of its wire.
 *
 * The test's own binary plays the commands: guest_exec runs a copy of it that lies in the project,
 * and main() passes its arguments on when argv[1] is GUEST.
 */
#ifndef KODA_TESTS_KIT_STAGE2_H
#define KODA_TESTS_KIT_STAGE2_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/sandbox/bwrap.h"
#include "proto/stage2.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "shared/wire/spawn.h"

#define UNUSED __attribute__((unused))
#define GUEST  "guest"
/* Longer than anything here takes; a test that waits this long has failed. */
#define PATIENCE_MS 20000

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #x, strerror(errno));        \
	} while (0)

struct guest_event {
	int kind;
	char target[PATH_MAX];
	uint64_t stopped_us, ended;
};

struct guest_exit {
	uint64_t id;
	unsigned code, signal;
};

struct guest {
	struct frame_stream fs;
	struct arena arena;
	struct child bwrap;
	uint64_t next_id;
	char dir[PATH_MAX / 4], root[PATH_MAX / 4 + 16];
	struct guest_event event[256];
	size_t n_events, seen_events; /* seen_events: those that a test has examined */
	struct guest_exit exit[512];
	size_t n_exits;
	Koda__Report *answer; /* to the request with that id */
	uint64_t answer_to;
	/* The id of the last order to end a command. If it Failed, the command was already over,
	 * which is fine. */
	uint64_t last_end;
};

static UNUSED uint64_t
guest_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The pause between two polls for something that has no notification. */
static UNUSED void
guest_blink(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Returns a path in the project, in one of eight static buffers. */
static UNUSED const char *
guest_path(const struct guest *g, const char *name)
{
	static char buf[8][PATH_MAX];
	static unsigned i;
	char *p = buf[i++ % 8];

	snprintf(p, PATH_MAX, "%s/%s", g->root, name);
	return p;
}

static UNUSED ProtobufCBinaryData
guest_bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static UNUSED void
guest_write_file(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static UNUSED void
guest_take_report(struct guest *g, const uint8_t *frame, size_t len)
{
	struct koda_error err = { 0 };
	Koda__Report *r;

	/* A test that still reads an answer needs the arena until the next order. */
	if (g->answer == NULL)
		arena_reset(&g->arena);
	r = (Koda__Report *)message_unpack(&koda__report__descriptor, frame, len, &g->arena, &err);
	if (r == NULL)
		fail_msg("report: %s", err.message);
	if (r->report_case == KODA__REPORT__REPORT_EVENT) {
		struct guest_event *e;

		if (g->n_events == N_ELEMENTS(g->event)) /* in a flood, the latest are enough */
			g->n_events = g->seen_events = 0;
		e = &g->event[g->n_events];
		must(r->id == 0 && r->event->target.len < sizeof(e->target));
		*e = (struct guest_event){ .kind = (int)r->event->kind,
			.stopped_us = r->event->stopped_us,
			.ended = r->event->ended };
		if (r->event->target.len > 0)
			memcpy(e->target, r->event->target.data, r->event->target.len);
		g->n_events++;
	} else if (r->report_case == KODA__REPORT__REPORT_EXITED) {
		must(g->n_exits < N_ELEMENTS(g->exit));
		g->exit[g->n_exits++] =
		    (struct guest_exit){ r->id, r->exited->code, r->exited->signal };
	} else if (r->id == g->answer_to) {
		must(g->answer == NULL);
		g->answer = r;
	} else if (r->id != g->last_end || r->report_case != KODA__REPORT__REPORT_FAILED) {
		fail_msg("report %d to %lu, which was not asked for", (int)r->report_case,
		    (unsigned long)r->id);
	}
}

/* Handles what has arrived; waits for more until `until`. */
static UNUSED void
guest_turn(struct guest *g, uint64_t until)
{
	struct pollfd pfd = { .fd = g->fs.fd, .events = POLLIN };
	struct koda_error err = { 0 };
	const uint8_t *frame;
	size_t len;
	uint64_t now = guest_ms();
	int r;

	if (now > until)
		fail_msg("stage2 does not answer");
	must(poll(&pfd, 1, (int)(until - now)) >= 0);
	if (pfd.revents != 0 && frame_fill(&g->fs, false, &err) < 0)
		fail_msg("stage2 is gone: %s", err.message);
	while ((r = frame_next(&g->fs, &frame, &len, &err)) > 0)
		guest_take_report(g, frame, len);
	if (r < 0)
		fail_msg("stage2: %s", err.message);
}

/* Returns the answer; valid until the next call. */
static UNUSED Koda__Report *
guest_ask(struct guest *g, Koda__Order *order, const int *fds, size_t n_fds)
{
	uint64_t until = guest_ms() + PATIENCE_MS;
	struct koda_error err = { 0 };
	ssize_t len;

	order->id = g->next_id++;
	g->answer = NULL;
	g->answer_to = order->id;
	len = message_queue(&g->fs, &order->base, &err);
	if (len < 0 ||
	    (n_fds > 0 ? frame_flush_with_fds(&g->fs, (size_t)len, fds, n_fds, PATIENCE_MS, &err)
		       : frame_flush(&g->fs, true, &err)) < 0)
		fail_msg("order: %s", err.message);
	while (g->answer == NULL)
		guest_turn(g, until);
	if (g->answer->report_case == KODA__REPORT__REPORT_FAILED)
		print_message("# failed: step %d, %s: %.*s\n", (int)g->answer->failed->step,
		    strerror(g->answer->failed->errnum), (int)g->answer->failed->what.len,
		    (const char *)g->answer->failed->what.data);
	return g->answer;
}

/* Mounts that plan. Returns how many of its entries are missing. */
static UNUSED size_t
guest_mount(struct guest *g, const Koda__MountKind *kind, const char *const *path, size_t n)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Mounts mounts = KODA__MOUNTS__INIT;
	Koda__Mount mount[16], *list[16];
	Koda__Report *r;

	must(n <= 16);
	for (size_t i = 0; i < n; i++) {
		koda__mount__init(&mount[i]);
		mount[i].kind = kind[i];
		mount[i].path = guest_bytes(path[i]);
		list[i] = &mount[i];
	}
	mounts.n_mount = n;
	mounts.mount = list;
	order.order_case = KODA__ORDER__ORDER_MOUNTS;
	order.mounts = &mounts;
	r = guest_ask(g, &order, NULL, 0);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_MOUNTED);
	return r->mounted->n_missing;
}

/* Starts a command with these arguments in the project. They end with NULL; "" as the program is
 * this test's own binary. */
static UNUSED uint64_t
guest_start(struct guest *g, int stdin_fd, int stdout_fd, bool background, const char *const *argv)
{
	static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp",
		"TMPDIR=/tmp", "LC_ALL=C" };
	ProtobufCBinaryData args[16], vars[N_ELEMENTS(env)];
	cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[3] = { stdin_fd >= 0 ? stdin_fd : null, stdout_fd >= 0 ? stdout_fd : null,
		STDERR_FILENO };
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Exec exec = KODA__EXEC__INIT;
	Koda__Report *r;
	size_t n = 0;

	must(null >= 0);
	if (argv[0][0] == '\0') {
		args[n++] = guest_bytes(guest_path(g, "guest"));
		args[n++] = guest_bytes(GUEST);
		argv++;
	}
	for (; *argv != NULL; argv++) {
		must(n < N_ELEMENTS(args));
		args[n++] = guest_bytes(*argv);
	}
	for (size_t i = 0; i < N_ELEMENTS(env); i++)
		vars[i] = guest_bytes(env[i]);
	exec.argv = args;
	exec.n_argv = n;
	exec.env = vars;
	exec.n_env = N_ELEMENTS(env);
	exec.cwd = guest_bytes(g->root);
	exec.has_background = true;
	exec.background = background;
	order.order_case = KODA__ORDER__ORDER_EXEC;
	order.exec = &exec;
	r = guest_ask(g, &order, fds, 3);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_STARTED);
	return order.id;
}

static UNUSED struct guest_exit
guest_wait(struct guest *g, uint64_t id)
{
	uint64_t until = guest_ms() + PATIENCE_MS;

	for (;;) {
		for (size_t i = 0; i < g->n_exits; i++)
			if (g->exit[i].id == id) {
				struct guest_exit e = g->exit[i];

				g->exit[i] = g->exit[--g->n_exits];
				return e;
			}
		guest_turn(g, until);
	}
}

/* Reports whether it has ended, as far as reports have arrived. */
static UNUSED bool
guest_is_over(const struct guest *g, uint64_t id)
{
	for (size_t i = 0; i < g->n_exits; i++)
		if (g->exit[i].id == id)
			return true;
	return false;
}

/* Returns the exit status; 128 + n if a signal ended it. */
static UNUSED int
guest_run(struct guest *g, const char *const *argv)
{
	struct guest_exit e = guest_wait(g, guest_start(g, -1, -1, false, argv));

	return e.signal != 0 ? 128 + (int)e.signal : (int)e.code;
}

static UNUSED void
guest_end(struct guest *g, uint64_t id)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__End end = KODA__END__INIT;
	struct koda_error err = { 0 };

	end.command = id;
	order.id = g->next_id++;
	g->last_end = order.id;
	order.order_case = KODA__ORDER__ORDER_END;
	order.end = &end;
	if (message_queue(&g->fs, &order.base, &err) < 0 || frame_flush(&g->fs, true, &err) < 0)
		fail_msg("order: %s", err.message);
	guest_wait(g, id);
}

/* Waits for the next event. */
static UNUSED struct guest_event
guest_next_event(struct guest *g, uint64_t until)
{
	while (g->seen_events == g->n_events) {
		g->seen_events = g->n_events = 0;
		guest_turn(g, until);
	}
	return g->event[g->seen_events++];
}

/* Waits for the next event of that kind about that target, and skips others. */
static UNUSED struct guest_event
guest_event(struct guest *g, Koda__EventKind kind, const char *target)
{
	const uint64_t until = guest_ms() + PATIENCE_MS;

	for (;;) {
		const struct guest_event e = guest_next_event(g, until);

		if (e.kind == (int)kind && strcmp(e.target, target) == 0)
			return e;
	}
}

/* Forgets all events so far. */
static UNUSED void
guest_forget_events(struct guest *g)
{
	g->n_events = g->seen_events = 0;
}

static UNUSED int
guest_arguments_fd(const struct bwrap_arguments *a)
{
	int fd = memfd_create("arguments", MFD_CLOEXEC);

	must(fd >= 0);
	for (size_t i = 0; i < a->n_options; i++)
		must(write(fd, a->v[i], strlen(a->v[i]) + 1) == (ssize_t)strlen(a->v[i]) + 1);
	must(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static UNUSED void
guest_spawn(struct guest *g)
{
	struct bwrap_writable writable = { g->root, -1, false };
	struct bwrap_input in = { .writable = &writable,
		.n_writable = 1,
		.stage2_fd = 5,
		.uid = (unsigned)getuid() };
	cleanup(bwrap_arguments_done) struct bwrap_arguments arguments = { 0 };
	char *argv[] = { (char[]){ "bwrap" }, (char[]){ "--args" }, (char[]){ "4" },
		(char[]){ "--" }, (char[]){ "/proc/self/fd/5" }, NULL };
	struct koda_error err = { 0 };
	int pair[2], fds[3];

	if (bwrap_arguments(&in, &arguments, &err) < 0)
		fail_msg("bwrap: %s", err.message);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	fds[0] = pair[1];
	fds[1] = guest_arguments_fd(&arguments);
	fds[2] = open(KODA_TEST_STAGE2, O_RDONLY | O_CLOEXEC);
	must(fds[2] >= 0);
	if (spawn_program("/usr/bin/bwrap", argv, fds, 3, STDERR_FILENO, &g->bwrap, &err) < 0)
		fail_msg("bwrap: %s", err.message);
	for (size_t i = 0; i < 3; i++)
		close(fds[i]);
	frame_init(&g->fs, pair[0]);
}

static UNUSED void
guest_boot(struct guest *g)
{
	static const char *const always[] = { "/tmp", "/var/tmp", "/dev" };
	ProtobufCBinaryData writable[N_ELEMENTS(always) + 1];
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Boot boot = KODA__BOOT__INIT;
	Koda__Report *r;

	for (size_t i = 0; i < N_ELEMENTS(always); i++)
		writable[i] = guest_bytes(always[i]);
	writable[N_ELEMENTS(always)] = guest_bytes(g->root);
	boot.protocol = KODA_PROTOCOL_VERSION;
	boot.root = guest_bytes(g->root);
	boot.writable = writable;
	boot.n_writable = N_ELEMENTS(writable);
	boot.local_binding = true;
	order.order_case = KODA__ORDER__ORDER_BOOT;
	order.boot = &boot;
	r = guest_ask(g, &order, NULL, 0);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_BOOTED);
	assert_true(r->booted->connect_guard);
	assert_true(r->booted->seccomp);
}

static UNUSED void
guest_copy_self(const struct guest *g)
{
	cleanup_close int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = -1;
	char buf[65536];
	ssize_t n;

	to = open(guest_path(g, "guest"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	must(from >= 0 && to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		must(write(to, buf, (size_t)n) == n);
	must(n == 0);
}

/* Makes a project in TMPDIR, and a sandbox around it. */
static UNUSED void
guest_up(struct guest *g)
{
	const char *tmp = getenv("TMPDIR");
	char real[PATH_MAX];

	*g = (struct guest){ .next_id = 1, .bwrap = { .pidfd = -1 } };
	arena_init(&g->arena);
	must(realpath(tmp != NULL ? tmp : "/tmp", real) != NULL);
	must(snprintf(g->dir, sizeof(g->dir), "%s/slot.XXXXXX", real) < (int)sizeof(g->dir));
	must(mkdtemp(g->dir) != NULL);
	snprintf(g->root, sizeof(g->root), "%s/project", g->dir);
	must(mkdir(g->root, 0755) == 0);
	guest_copy_self(g);
	guest_spawn(g);
	guest_boot(g);
}

static UNUSED int
guest_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static UNUSED void
guest_down(struct guest *g)
{
	frame_done(&g->fs); /* closing it ends every process in the sandbox */
	assert_true(child_gone(&g->bwrap, PATIENCE_MS));
	close(g->bwrap.pidfd);
	arena_done(&g->arena);
	must(nftw(g->dir, guest_unlink, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

#endif
