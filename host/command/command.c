#include "host/command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/command/environment.h"
#include "host/command/stderr_parse.h"
#include "host/machine/machine.h"
#include "host/protect/protect.h"
#include "host/protect/reason.h"
#include "host/sandbox/bwrap.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/access.h"
#include "shared/rules/names.h"

#define RUN_TRIES 3

/* The time between two reads during a flood: in it, a pipe of a megabyte is filled for the most
 * part. Woken for each write instead, the host would read a few pages at a time and take the
 * processor from the command to do so. */
#define FLOOD_PAUSE_NS UINT64_C(200000)

const char *
koda_limit_hit_name(enum koda_limit_hit hit)
{
	static const char *const names[] = {
		[KODA_HIT_NONE] = "",
		[KODA_HIT_WALL_TIME] = "wall_time_secs",
		[KODA_HIT_CPU_TIME] = "cpu_time_secs",
		[KODA_HIT_FILE_SIZE] = "max_file_bytes",
		[KODA_HIT_MEMORY] = "max_rss_bytes",
		[KODA_HIT_PROCESSES] = "max_processes",
		[KODA_HIT_OUTPUT] = "max_output_bytes",
		[KODA_HIT_PLANTED] = "planted",
	};

	return (size_t)hit < N_ELEMENTS(names) ? names[hit] : "";
}

/* ---- copies of what was asked for ---- */

static void
free_strings(char **v)
{
	for (size_t i = 0; v != NULL && v[i] != NULL; i++)
		free(v[i]);
	free(v);
}

static char **
copy_strings(const char *const *v)
{
	size_t n = 0;
	char **copy;

	while (v != NULL && v[n] != NULL)
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy != NULL && i < n; i++) {
		copy[i] = strdup(v[i]);
		if (copy[i] == NULL) {
			free_strings(copy);
			return NULL;
		}
	}
	return copy;
}

static size_t
strings_size(char *const *v)
{
	size_t size = 0;

	for (; v != NULL && *v != NULL; v++)
		size += strlen(*v) + 8; /* its frame */
	return size;
}

static void
close_fds(struct koda_command *c)
{
	for (int i = 0; i < 3; i++) {
		close_at(&c->fd[i]);
		c->fd[i] = -1;
	}
}

static void
command_destroy(struct koda_command *c)
{
	close_fds(c);
	capture_done(&c->out.capture);
	capture_done(&c->err.capture);
	planted_done(&c->planted);
	free(c->violations);
	free_strings(c->argv);
	free_strings(c->env);
	free_strings(c->added);
	free(c->cwd);
	free(c->name);
	free(c);
}

static bool
writable(void *data, const char *path)
{
	const struct sandbox *sb = data;

	return view_has(&sb->view, path);
}

static size_t
fill_spare(const struct sandbox *sb, struct environment_spare *ret)
{
	size_t n = 0;

	for (size_t i = 0; sb->view.spare != NULL && i < sb->caches.n_missing; i++)
		ret[n++] = (struct environment_spare){ sb->caches.missing[i]->variable,
			sb->caches.missing[i]->spare };
	return n;
}

static int
fill_strings(struct koda_command *c, const struct koda_command_options *o, struct koda_error *err)
{
	const char *const shell[] = { "sh", "-c", o->shell, NULL };
	const struct koda_session *ses = c->slot->ses;
	cleanup(environment_done) struct environment env = { 0 };
	struct environment_spare spare[CACHES_SPARE_MAX];
	size_t n_spare = fill_spare(c->sb, spare);
	const struct environment_input in = { .host = (const char *const *)environ,
		.extra = o->env,
		.argv = o->shell == NULL ? o->argv : NULL,
		.shell = o->shell,
		.root = ses->root,
		.uid = (unsigned)getuid(),
		.egress_port = EGRESS_PORT,
		.spare = spare,
		.n_spare = n_spare,
		.spare_dir = c->sb->view.spare,
		.connect_helper = egress_connect_path(ses),
		.ca_file = egress_certificates(&c->sb->egress) != NULL
		    ? BWRAP_CERTIFICATES "/" EGRESS_CERTIFICATES_NAME
		    : koda_policy_get(c->slot->policy)->ca_bundle,
		.writable = writable,
		.data = c->sb };

	if ((o->shell == NULL) == (o->argv == NULL))
		return err_set(err, KODA_INVALID, 0, "a command is either argv or shell text");
	if (o->shell == NULL && o->argv[0] == NULL)
		return err_set(err, KODA_INVALID, 0, "a command without a word");
	c->argv = copy_strings(o->shell != NULL ? shell : o->argv);
	c->added = o->env == NULL ? NULL : copy_strings(o->env);
	c->cwd = strdup(o->cwd != NULL ? o->cwd : ses->root);
	c->name = strdup(o->shell != NULL ? o->shell : o->argv[0]);
	if (c->argv == NULL || (o->env != NULL && c->added == NULL) || c->cwd == NULL ||
	    c->name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "command");
	if (c->cwd[0] != '/')
		return err_set(err, KODA_INVALID, 0, "the directory '%s' is not absolute", c->cwd);
	if (environment_make(&in, &env, err) < 0)
		return -1;
	c->env = env.v;
	env.v = NULL;
	env.n = 0;
	if (strings_size(c->argv) + strings_size(c->env) > COMMAND_ARGS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "arguments and environment of more than %u bytes", COMMAND_ARGS_MAX);
	return 0;
}

static void on_output(struct source *source);

static int
fill_fd(struct koda_command *c, int i, int given, struct command_output *out,
    struct koda_error *err)
{
	if (given > 0)
		c->fd[i] = fcntl(given, F_DUPFD_CLOEXEC, 3);
	else if (out == NULL)
		c->fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	else
		return capture_open(&out->capture, c->max_output, &c->fd[i], err);
	if (c->fd[i] < 0)
		return err_set(err, given > 0 && errno == EBADF ? KODA_INVALID : KODA_INTERNAL,
		    errno, "the command's descriptor %d", i);
	return 0;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

static int
fill_command(struct koda_command *c, const struct koda_command_options *o, struct koda_error *err)
{
	const struct policy *p = koda_policy_get(c->slot->policy);
	const struct policy_limit *wall = &p->limit[KODA_WALL_TIME_SECS];
	const struct policy_limit *output = &p->limit[KODA_MAX_OUTPUT_BYTES];
	/* The wall time limits commands that the caller waits for; a server in the background runs
	 * until its session ends. */
	const bool lasting = o->interactive || o->background;
	uint64_t ms = o->timeout_ms;

	if (!lasting && wall->set)
		ms = least(ms,
		    wall->value < COMMAND_WALL_MAX_MS / 1000 ? wall->value * 1000
							     : COMMAND_WALL_MAX_MS);
	c->untimed = lasting && ms == 0;
	c->timeout_ms = (unsigned)(lasting ? ms : least(ms, COMMAND_WALL_MAX_MS));
	c->max_output = o->max_output;
	if (output->set)
		c->max_output = least(c->max_output, output->value);
	if (c->max_output == 0)
		c->max_output = 2u << 20;
	c->background = o->background;
	c->tty = o->tty;
	if (o->tty && o->stdin_fd <= 0)
		return err_set(err, KODA_INVALID, 0, "a tty is the command's standard input");
	if (o->interactive && !o->tty)
		return err_set(err, KODA_INVALID, 0, "interactive without a tty");
	if (fill_strings(c, o, err) < 0 || fill_fd(c, 0, o->stdin_fd, NULL, err) < 0 ||
	    fill_fd(c, 1, o->stdout_fd, &c->out, err) < 0 ||
	    fill_fd(c, 2, o->stderr_fd, &c->err, err) < 0)
		return -1;
	return 0;
}

/* ---- over ---- */

static void
unlink_command(struct koda_command *c)
{
	struct sandbox *sb = c->sb;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		sb->commands = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->prev = c->next = NULL;
	if (--sb->n_commands == 0)
		sb->mixed = false;
}

/* The only place where a command ends. */
static void
over(struct koda_command *c)
{
	struct koda_session *ses = c->slot->ses;

	approve_command_done(c);
	close_fds(c);
	session_unwatch(ses, &c->out.source);
	session_unwatch(ses, &c->err.source);
	unlink_command(c);
	c->state = COMMAND_OVER;
	c->sb = NULL;
	c->slot = NULL;
	session_over(&c->handle, c->done != NULL);
}

static void
fail_with(struct koda_command *c, const struct koda_error *why)
{
	c->error = *why;
	over(c);
}

static void compared(void *data);

static void
set_lost(struct koda_command *c, const struct koda_error *why)
{
	if (c->state == COMMAND_ASKING)
		err_set(&c->error, KODA_WORKER, 0, "it was not run: %s", why->message);
	else if (c->state == COMMAND_RUNNING)
		err_set(&c->error, KODA_UNKNOWN, 0,
		    "its sandbox ended under the command: nobody knows how far it came (%s)",
		    why->message);
}

static void
compare(struct koda_command *c)
{
	struct koda_error err;

	c->state = COMMAND_COMPARING;
	if (c->sb->ended)
		return; /* one last comparison covers all commands */
	if (protect_compare(c->sb, PROTECT_WHOLLY, sandbox_only_command(c->sb), compared, c, &err) <
	    0)
		fail_with(c, &err);
}

void
command_lost(struct koda_command *c, const struct koda_error *why)
{
	if (c->state != COMMAND_RUNNING)
		return; /* not started, or done: the next sandbox compares what it left */
	set_lost(c, why);
	compare(c);
}

void
command_closed(struct koda_command *c, const struct koda_error *why)
{
	protect_forget(c->sb, c);
	set_lost(c, why);
	over(c);
}

/* ---- the output, and denials found in it ---- */

static void
read_output(struct command_output *out)
{
	struct koda_session *ses = out->command->slot->ses;
	const uint64_t before = out->capture.total;

	out->resume_at = 0;
	if (!capture_read(&out->capture)) {
		session_unwatch(ses, &out->source);
	} else if (capture_floods(&out->capture) && out->capture.total != before) {
		session_unwatch(ses, &out->source);
		out->resume_at = monotonic_ns() + FLOOD_PAUSE_NS;
		session_wake_at(ses, out->resume_at);
	} else {
		session_watch(ses, &out->source, out->capture.fd, EPOLLIN);
	}
}

static void
on_output(struct source *source)
{
	struct command_output *out = (struct command_output *)source;

	if (out->command->slot != NULL)
		read_output(out);
}

/* How many lines that look like denials are recorded at each end of the output: a command that
 * prints more of them cannot push violations that were really seen out of the ring. */
#define SUSPECTED_MAX 30

/* A search of a command's text. */
struct scan {
	struct sandbox *sb;
	const char *command, *cwd;
	koda_violation_fn *fn;
	void *data;
	size_t left; /* how many may be recorded */
	int stopped;
};

static int
on_denial(void *data, const struct denial *found)
{
	struct scan *scan = data;
	struct violations *ring = &scan->sb->violations;
	struct denial d = *found;
	char reason[REASON_MAX];
	struct koda_violation v = { .kind = d.kind,
		.target = d.target,
		.command = scan->command,
		.rule = "",
		.detail = "",
		.certain = false };

	/* The view would have allowed it, so something else refused: file modes, mostly. */
	if (!stderr_parse_judge(&d, &scan->sb->view, scan->cwd))
		return 0;
	if (scan->left-- == 0)
		return 1;
	if (d.target[0] != '\0' && d.kind == KODA_VIOLATION_FILE_WRITE)
		view_writes(&scan->sb->view, d.target, &v.rule);
	else if (d.target[0] != '\0' && d.kind == KODA_VIOLATION_FILE_READ)
		view_shows(&scan->sb->view, d.target, &v.rule);
	if (v.rule == NULL)
		v.rule = "";
	if (reason_of(v.rule, d.target, scan->sb->slot->ses->home, reason))
		v.detail = reason;
	violations_record(ring, &v);
	if (scan->fn != NULL && ring->n > 0)
		scan->stopped = scan->fn(scan->data, violations_at(ring, ring->n - 1));
	return scan->stopped;
}

static void
scan_stderr(struct koda_command *c)
{
	struct scan scan = { .sb = c->sb,
		.command = c->name,
		.cwd = c->cwd,
		.left = SUSPECTED_MAX };
	struct koda_output out;

	capture_get(&c->err.capture, &out);
	if (out.head_len > SCAN_STDERR_MAX)
		out.head_len = SCAN_STDERR_MAX;
	if (out.tail_len > SCAN_STDERR_MAX) {
		out.tail += out.tail_len - SCAN_STDERR_MAX;
		out.tail_len = SCAN_STDERR_MAX;
	}
	stderr_parse(out.head, out.head_len, on_denial, &scan);
	scan.left = SUSPECTED_MAX;
	stderr_parse(out.tail, out.tail_len, on_denial, &scan);
}

int
koda_slot_scan_output(struct koda_slot *slot, const char *command, const char *cwd,
    const char *text, size_t len, koda_violation_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	struct scan scan = { .sb = slot->sandbox,
		.command = command,
		.cwd = cwd,
		.fn = fn,
		.data = data,
		.left = SIZE_MAX };

	session_enter(ses); /* the callback may release the slot, or close the session */
	if (slot->sandbox != NULL)
		stderr_parse(text, len, on_denial, &scan);
	session_leave(ses);
	return scan.stopped;
}

static void
compared(void *data)
{
	struct koda_command *c = data;

	/* The proxy reports a refusal before it answers the client, so all reports are there to be
	 * read. */
	egress_drain(&c->sb->egress, false);
	if (c->planted.over)
		c->result.hit = KODA_HIT_PLANTED;
	c->violations =
	    violations_since(&c->sb->violations, c->seen_violations, &c->result.n_violations);
	over(c);
}

/* All its processes are gone. What is left in the pipes is all there will be, even if another
 * process still holds the other end. */
static void
drain(struct koda_command *c, struct command_output *out)
{
	uint64_t before;

	do {
		before = out->capture.total;
	} while (
	    out->capture.fd >= 0 && capture_read(&out->capture) && out->capture.total != before);
	session_unwatch(c->slot->ses, &out->source);
	close_at(&out->capture.fd);
	out->capture.fd = -1;
}

static enum koda_limit_hit
limit_hit(const struct koda_command *c)
{
	const struct policy *p = koda_policy_get(c->slot->policy);
	const struct policy_limit *cpu = &p->limit[KODA_CPU_TIME_SECS];
	uint64_t used = (c->result.user_us + c->result.system_us) / 1000000;

	if (c->timed_out)
		return KODA_HIT_WALL_TIME;
	if (c->slot_limit != KODA_HIT_NONE)
		return c->slot_limit;
	if (c->result.signal == SIGXCPU ||
	    (c->result.signal == SIGKILL && cpu->set && used >= cpu->value))
		return KODA_HIT_CPU_TIME;
	if (c->result.signal == SIGXFSZ)
		return KODA_HIT_FILE_SIZE;
	return KODA_HIT_NONE;
}

/* For a command that was ended because the slot exceeded one of its limits. */
static void
take_slot_limit(struct koda_command *c, const Koda__Exited *e)
{
	const struct policy_limit *memory =
	    &koda_policy_get(c->slot->policy)->limit[KODA_MAX_RSS_BYTES];

	if (!e->has_limit)
		return;
	c->slot_limit =
	    e->limit == KODA__SLOT_LIMIT__SLOT_LIMIT_MEMORY ? KODA_HIT_MEMORY : KODA_HIT_PROCESSES;
	/* Files in a private /tmp outlive their command: with them, the next one would be ended at
	 * once. */
	if (c->slot_limit == KODA_HIT_MEMORY && memory->set && e->has_kept &&
	    e->kept > memory->value / 2)
		c->sb->full = true;
}

static void
on_exited(struct koda_command *c, const Koda__Exited *e)
{
	struct koda_output out, text;

	c->ended_at = monotonic_ns();
	drain(c, &c->out);
	drain(c, &c->err);
	if (e->reaper_lost) {
		c->sb->doubtful = true;
		err_set(&c->error, KODA_UNKNOWN, 0,
		    "the command killed what waited for it: how it ended is not known; nothing of it is left");
		compare(c);
		return;
	}
	c->result.signal = (int)e->signal;
	c->result.status = e->signal != 0 ? 128 + (int)e->signal : (int)e->code;
	c->result.wall_us = (c->ended_at - c->started_at) / 1000;
	c->result.user_us = e->user_us;
	c->result.system_us = e->system_us;
	c->result.max_rss_kib = e->max_rss_kib;
	c->result.left_behind = e->killed;
	take_slot_limit(c, e);
	c->result.hit = limit_hit(c);
	capture_get(&c->out.capture, &out);
	capture_get(&c->err.capture, &text);
	if (c->result.hit == KODA_HIT_NONE && (out.left_out > 0 || text.left_out > 0))
		c->result.hit = KODA_HIT_OUTPUT;
	scan_stderr(c);
	compare(c);
}

static void
on_failed(struct koda_command *c, const Koda__Failed *f)
{
	char shown[384];
	struct koda_error err;

	bytes_show(shown, sizeof(shown), f->what.data, f->what.len);
	switch ((int)f->step) {
	case KODA__FAILED_STEP__FAILED_STEP_EXEC:
		err_set(&err, KODA_IO, f->errnum, "run '%s'",
		    shown[0] != '\0' ? shown : c->argv[0]);
		break;
	case KODA__FAILED_STEP__FAILED_STEP_CWD:
		err_set(&err, KODA_IO, f->errnum, "go to '%s'", shown[0] != '\0' ? shown : c->cwd);
		/* So that it is not taken for a command that was not found. */
		err.code = KODA_INVALID;
		break;
	case KODA__FAILED_STEP__FAILED_STEP_FORK:
		err_set(&err, KODA_WORKER, f->errnum,
		    "it was not run: the sandbox cannot make a process");
		break;
	default:
		err_set(&err, KODA_UNSUPPORTED, f->errnum, "the command was not run: %s",
		    shown[0] != '\0' ? shown : "the sandbox could not prepare it");
	}
	fail_with(c, &err);
}

void
command_report(struct koda_command *c, const Koda__Report *r)
{
	switch ((int)r->report_case) {
	case KODA__REPORT__REPORT_STARTED:
		c->started = true;
		break;
	case KODA__REPORT__REPORT_EXITED:
		on_exited(c, r->exited);
		break;
	case KODA__REPORT__REPORT_FAILED:
		on_failed(c, r->failed);
		break;
	default:
		break;
	}
}

/* ---- orders ---- */

static ProtobufCBinaryData *
texts_of(char *const *v, size_t *ret_n)
{
	ProtobufCBinaryData *list;
	size_t n = 0;

	while (v[n] != NULL)
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (size_t i = 0; list != NULL && i < n; i++)
		list[i] = message_text(v[i]);
	*ret_n = n;
	return list;
}

/*
 * The memory limit holds for all processes of the slot together. A limit tighter than the default
 * also holds for each process, so that a single one is refused memory instead of being killed. The
 * default does not: programs that reserve much more than they use (AddressSanitizer's shadow, some
 * language runtimes) could not run at all.
 */
static bool
is_of_the_slot(enum koda_limit limit, uint64_t value)
{
	return limit == KODA_MAX_RSS_BYTES && value >= machine_memory_default();
}

static size_t
fill_limits(const struct policy *p, Koda__ResourceLimit *limits)
{
	static const struct {
		enum koda_limit limit;
		uint32_t resource;
		uint64_t grace;
	} rows[] = {
		{ KODA_CPU_TIME_SECS, RLIMIT_CPU, CPU_GRACE_SECS },
		{ KODA_MAX_RSS_BYTES, RLIMIT_DATA, 0 },
		{ KODA_MAX_OPEN_FDS, RLIMIT_NOFILE, 0 },
		{ KODA_MAX_PROCESSES, RLIMIT_NPROC, 0 },
		{ KODA_MAX_FILE_BYTES, RLIMIT_FSIZE, 0 },
	};
	size_t n = 0;

	koda__resource_limit__init(&limits[n]);
	limits[n].soft = limits[n].hard = LOCKDOWN_CORE_LIMIT;
	limits[n++].resource = RLIMIT_CORE;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		const struct policy_limit *limit = &p->limit[rows[i].limit];

		if (!limit->set || is_of_the_slot(rows[i].limit, limit->value))
			continue;
		koda__resource_limit__init(&limits[n]);
		limits[n].resource = rows[i].resource;
		limits[n].soft = limit->value;
		limits[n].hard = limit->value + rows[i].grace;
		n++;
	}
	return n;
}

static int
send_exec(struct koda_command *c, struct koda_error *err)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Exec exec = KODA__EXEC__INIT;
	Koda__ResourceLimit limits[8], *list[8];
	cleanup_free ProtobufCBinaryData *argv = texts_of(c->argv, &exec.n_argv);
	cleanup_free ProtobufCBinaryData *env = texts_of(c->env, &exec.n_env);
	int r;

	if (argv == NULL || env == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "command");
	exec.argv = argv;
	exec.env = env;
	exec.cwd = message_text(c->cwd);
	exec.n_limit = fill_limits(koda_policy_get(c->slot->policy), limits);
	for (size_t i = 0; i < exec.n_limit; i++)
		list[i] = &limits[i];
	exec.limit = list;
	exec.has_tty = exec.tty = c->tty;
	exec.has_background = exec.background = c->background;
	order.order_case = KODA__ORDER__ORDER_EXEC;
	order.exec = &exec;
	r = sandbox_send(c->sb, &order, c->fd, 3, err);
	if (r < 0)
		return -1;
	c->id = order.id;
	close_fds(c); /* the command has them now; end of file means that it closed them */
	return 0;
}

int
command_make_ready(struct koda_slot *slot, struct koda_error *err)
{
	const struct koda_op ping = { .kind = KODA_OP_PING };
	struct koda_error dead;
	struct koda_result none;
	int r = 0;

	if (slot->sandbox == NULL)
		return 0; /* the worker is started by the first call */
	if (slot->sandbox->full && slot->sandbox->n_commands <= 1) {
		err_set(&dead, KODA_WORKER, 0,
		    "its private file systems hold most of the memory that it may use");
		sandbox_kill(slot->sandbox, &dead);
	}
	if (slot->sandbox->doubtful) {
		slot->sandbox->doubtful = false;
		if (slot->sandbox->up)
			sandbox_mount(slot->sandbox, &dead);
	}
	/* A worker that still exists runs in the sandbox that is ending: it would answer once more,
	 * and nothing would be built again. */
	if (!slot->sandbox->up && slot->state == SLOT_UP)
		child_kill(&slot->child);
	if (!slot->sandbox->up || slot->state != SLOT_UP) {
		r = koda_call(slot, &ping, &none, err);
		koda_result_done(&none);
	}
	if (r == 0 && slot->sandbox == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "the kernel sandbox does not work any more");
	return r < 0 ? -1 : protect_prepare(slot->sandbox, err);
}

int
koda_slot_explain_command(struct koda_slot *slot, enum koda_access access, const char *path,
    bool *ret_allowed, const char **ret_rule, struct koda_error *err)
{
	const char *rule = NULL;
	int r;

	if (session_check(slot->ses, err) < 0)
		return -1;
	if (slot->sandbox == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "without the kernel sandbox no command runs");
	session_enter(slot->ses);
	r = command_make_ready(slot, err);
	if (r == 0 && access == KODA_WRITE_ACCESS) {
		*ret_allowed = view_writes(&slot->sandbox->view, path, &rule);
		/* A place that does not exist has no mount; what appears there is removed. */
		if (*ret_allowed &&
		    names_rule_of(&koda_policy_get(slot->policy)->list[KODA_DENY_WRITE_NAMES],
			path) != NULL) {
			*ret_allowed = false;
			rule = access_rule_name(ACCESS_RULE_DENY_NAME);
		}
	} else if (r == 0)
		*ret_allowed = view_shows(&slot->sandbox->view, path, &rule);
	session_leave(slot->ses);
	*ret_rule = rule != NULL ? rule : "";
	return r;
}

static int
run(struct koda_command *c, struct koda_error *err)
{
	struct koda_slot *slot = c->slot;
	int r = -1;

	/* That the sandbox is dead may be noticed only now. An order that was not accepted was not
	 * carried out. */
	for (int i = 0; r < 0 && i < RUN_TRIES; i++) {
		r = command_make_ready(slot, err);
		if (r == 0) {
			protect_command_begins(c->sb);
			r = send_exec(c, err);
			if (r < 0 && err->code == KODA_WORKER)
				sandbox_kill(c->sb, err);
		}
		if (r < 0 &&
		    (err->code != KODA_WORKER || slot->sandbox == NULL || slot->sandbox->up))
			return -1;
	}
	if (r < 0)
		return -1;
	c->state = COMMAND_RUNNING;
	c->started_at = monotonic_ns();
	c->deadline = c->started_at + c->timeout_ms * NS_PER_MS;
	if (c->background && c->sb->compare_at == 0)
		c->sb->compare_at = c->started_at + PROTECT_INTERVAL_MS * NS_PER_MS;
	if (c->sb->look_at == 0)
		c->sb->look_at = c->started_at + PROTECT_LOOK_MS * NS_PER_MS;
	session_wake_at(slot->ses, c->sb->look_at);
	if (c->out.capture.fd >= 0)
		session_watch(slot->ses, &c->out.source, c->out.capture.fd, EPOLLIN);
	if (c->err.capture.fd >= 0)
		session_watch(slot->ses, &c->err.source, c->err.capture.fd, EPOLLIN);
	if (!c->untimed)
		session_wake_at(slot->ses, c->deadline);
	return 0;
}

static void
order_signal(struct koda_command *c, int signo, bool all)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Signal msg = KODA__SIGNAL__INIT;

	msg.command = c->id;
	msg.signo = (uint32_t)signo;
	msg.has_all = msg.all = all;
	order.order_case = KODA__ORDER__ORDER_SIGNAL;
	order.signal = &msg;
	sandbox_send(c->sb, &order, NULL, 0, NULL);
}

static void
order_end(struct koda_command *c)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__End msg = KODA__END__INIT;

	msg.command = c->id;
	order.order_case = KODA__ORDER__ORDER_END;
	order.end = &msg;
	sandbox_send(c->sb, &order, NULL, 0, NULL);
}

/* Kills at once: a command that gets a chance to end by itself would go on planting. */
static void
kill_command(struct koda_command *c, uint64_t now)
{
	c->ending = true;
	c->deadline = UINT64_MAX;
	c->kill_at = now + SANDBOX_ANSWER_MS * NS_PER_MS;
	order_end(c);
	session_wake_at(c->slot->ses, c->kill_at);
}

void
command_planted(struct koda_command *c, const char *path, size_t neighbours)
{
	const bool before = c->planted.over;

	if (c->state != COMMAND_RUNNING && c->state != COMMAND_COMPARING)
		return;
	if (planted_add(&c->planted, path, neighbours) && !before && c->state == COMMAND_RUNNING)
		kill_command(c, monotonic_ns());
}

void
command_tick(struct koda_command *c, uint64_t now)
{
	struct koda_error err;

	if (c->state != COMMAND_RUNNING)
		return;
	if (c->out.resume_at != 0 && now >= c->out.resume_at)
		read_output(&c->out);
	if (c->err.resume_at != 0 && now >= c->err.resume_at)
		read_output(&c->err);
	if (!c->ending && !c->untimed && now >= c->deadline) {
		c->timed_out = true;
		koda_command_end(c);
	}
	if (c->kill_at != 0 && now >= c->kill_at) {
		/* The command was to be killed already, and the sandbox did not manage to. */
		if (c->deadline == UINT64_MAX) {
			err_set(&err, KODA_WORKER, 0, "the sandbox could not end a command");
			sandbox_kill(c->sb, &err);
			return;
		}
		kill_command(c, now);
	}
}

void
command_cut_short(struct koda_command *c, const struct koda_error *why)
{
	set_lost(c, why);
	if (c->state == COMMAND_RUNNING)
		order_end(c);
}

void
command_compared(struct koda_command *c)
{
	protect_forget(c->sb, c);
	compared(c);
}

uint64_t
command_next_time(const struct koda_command *c)
{
	uint64_t end;

	if (c->state != COMMAND_RUNNING)
		return UINT64_MAX;
	if (c->ending)
		end = c->kill_at;
	else
		end = c->untimed ? UINT64_MAX : c->deadline;
	return least(least(c->out.resume_at, c->err.resume_at), end);
}

/* ---- the public calls ---- */

static struct koda_command *
command_of(struct handle *handle)
{
	return (struct koda_command *)((char *)handle - offsetof(struct koda_command, handle));
}

static void
tell_over(struct handle *handle)
{
	struct koda_command *c = command_of(handle);

	c->done(c->data, c);
}

static void
give_up(struct handle *handle)
{
	koda_command_free(command_of(handle));
}

static void
destroy_handle(struct handle *handle)
{
	command_destroy(command_of(handle));
}

static struct koda_command *
command_new(struct koda_slot *slot, koda_command_done_fn *done, void *data)
{
	struct koda_command *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->slot = slot;
	c->handle = (struct handle){ .ses = slot->ses,
		.tell = tell_over,
		.give_up = give_up,
		.destroy = destroy_handle };
	c->sb = slot->sandbox;
	c->fd[0] = c->fd[1] = c->fd[2] = -1;
	c->out = (struct command_output){ { on_output, -1, 0 }, c, { .fd = -1 }, 0 };
	c->err = (struct command_output){ { on_output, -1, 0 }, c, { .fd = -1 }, 0 };
	c->done = done;
	c->data = data;
	c->seen_violations = slot->sandbox->violations.recorded;
	return c;
}

static void
link_command(struct koda_command *c)
{
	struct sandbox *sb = c->sb;

	c->next = sb->commands;
	if (sb->commands != NULL)
		sb->commands->prev = c;
	sb->commands = c;
	sb->mixed |= sb->n_commands++ > 0;
	c->slot->ses->n_under_way++;
}

void
command_answer(struct koda_command *c, bool yes)
{
	struct koda_error err;

	if (c->state != COMMAND_ASKING)
		return;
	if (!yes)
		err_set(&err, KODA_NOT_APPROVED, 0, "%s", c->error.message);
	else
		c->error = (struct koda_error){ 0 };
	if (!yes || run(c, &err) < 0)
		fail_with(c, &err);
}

static struct koda_command *
start(struct koda_slot *slot, const struct koda_command_options *o, koda_command_done_fn *done,
    void *data, bool sync, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct koda_command *c;
	bool ask;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return NULL;
	if (slot->sandbox == NULL) {
		err_set(err, KODA_UNSUPPORTED, 0, "%s",
		    ses->commands
			? "the kernel sandbox does not work: no command is run without it"
			: "this session was opened without commands, or the kernel sandbox "
			  "does not work here; no command is run without it");
		return NULL;
	}
	if (slot->sandbox->ended) {
		err_set(err, KODA_INVALID, 0,
		    "the slot has been ended: no command is run in it any more");
		return NULL;
	}
	c = command_new(slot, done, data);
	if (c == NULL || fill_command(c, o, err) < 0) {
		if (c == NULL)
			err_set(err, KODA_INTERNAL, ENOMEM, "command");
		else
			command_destroy(c);
		return NULL;
	}
	c->sync = sync;
	ask = koda_policy_get(slot->policy)->trust == KODA_TRUST_REQUIRE && !o->approved;
	c->state = COMMAND_ASKING;
	link_command(c);
	session_enter(ses);
	if (ask)
		approve_ask_command(ses, c);
	else
		command_answer(c, true);
	if (c->state == COMMAND_OVER && c->error.code != KODA_OK) {
		if (err != NULL)
			*err = c->error;
		koda_command_free(c);
		c = NULL;
	}
	session_leave(ses);
	return c;
}

struct koda_command *
koda_command_start(struct koda_slot *slot, const struct koda_command_options *options,
    koda_command_done_fn *done, void *data, struct koda_error *err)
{
	return start(slot, options, done, data, false, err);
}

int
koda_command_wait(struct koda_command *c, int timeout_ms, struct koda_error *err)
{
	return handle_wait(&c->handle, timeout_ms, err);
}

int
koda_command_signal(struct koda_command *c, int signo, struct koda_error *err)
{
	if (c->state != COMMAND_RUNNING)
		return err_set(err, KODA_INVALID, ESRCH, "the command does not run");
	if (signo <= 0 || signo >= NSIG)
		return err_set(err, KODA_INVALID, 0, "there is no signal %d", signo);
	order_signal(c, signo, false);
	return 0;
}

void
koda_command_end(struct koda_command *c)
{
	if (c->state == COMMAND_ASKING)
		command_answer(c, false);
	if (c->state != COMMAND_RUNNING || c->ending)
		return;
	c->ending = true;
	c->kill_at = monotonic_ns() + COMMAND_GRACE_MS * NS_PER_MS;
	order_signal(c, SIGTERM, true);
	session_wake_at(c->slot->ses, c->kill_at);
}

void
koda_command_output(const struct koda_command *c, struct koda_output *ret_out,
    struct koda_output *ret_err)
{
	capture_get((struct capture *)(uintptr_t)&c->out.capture, ret_out);
	capture_get((struct capture *)(uintptr_t)&c->err.capture, ret_err);
}

/* Owns the text and the violations of a result. */
struct kept {
	struct capture out, err;
	struct koda_violation *violations;
};

int
koda_command_result(struct koda_command *c, struct koda_command_result *ret, struct koda_error *err)
{
	struct kept *kept;

	memset(ret, 0, sizeof(*ret));
	if (c->state != COMMAND_OVER)
		return err_set(err, KODA_INVALID, 0, "the command is not over");
	if (c->error.code != KODA_OK) {
		if (err != NULL)
			*err = c->error;
		return -1;
	}
	kept = calloc(1, sizeof(*kept));
	if (kept == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "result");
	kept->out = c->out.capture;
	kept->err = c->err.capture;
	kept->violations = take_ptr(&c->violations);
	capture_none(&c->out.capture);
	capture_none(&c->err.capture);
	*ret = c->result;
	ret->violations = kept->violations;
	err_set(&c->error, KODA_INVALID, 0, "the result has been taken");
	capture_get(&kept->out, &ret->out);
	capture_get(&kept->err, &ret->err);
	ret->priv = kept;
	return 0;
}

void
koda_command_result_done(struct koda_command_result *result)
{
	struct kept *kept = result->priv;

	if (kept != NULL) {
		capture_done(&kept->out);
		capture_done(&kept->err);
		free(kept->violations);
	}
	free(kept);
	memset(result, 0, sizeof(*result));
}

void
koda_command_free(struct koda_command *c)
{
	struct koda_error err;

	if (c == NULL)
		return;
	c->done = NULL;
	if (handle_postpone(&c->handle))
		return;
	if (c->state != COMMAND_OVER && *c->slot->ses->here != 1) {
		unlink_command(c); /* it is the parent's */
	} else if (c->state != COMMAND_OVER) {
		/* Its handle is gone: kill it at once, without SIGTERM first. */
		if (c->state == COMMAND_RUNNING) {
			order_end(c);
			c->sb->n_given_up++;
		}
		protect_forget(c->sb, c);
		err_set(&err, KODA_WORKER, 0, "given up");
		fail_with(c, &err);
	}
	handle_free(&c->handle);
}

int
koda_run(struct koda_slot *slot, const struct koda_command_options *options,
    struct koda_command_result *ret, struct koda_error *err)
{
	struct koda_command *c = start(slot, options, NULL, NULL, true, err);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (c == NULL)
		return -1;
	r = koda_command_wait(c, -1, err);
	if (r > 0)
		r = koda_command_result(c, ret, err);
	koda_command_free(c);
	return r < 0 ? -1 : 0;
}
