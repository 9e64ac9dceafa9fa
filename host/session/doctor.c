/* SPDX-License-Identifier: Apache-2.0 */
/* koda_doctor(): reports what this machine can enforce, and tries a worker, a sandbox and the way
 * out of it. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/command/state.h"
#include "host/draft/fit.h"
#include "host/egress/egress.h"
#include "host/machine/caps.h"
#include "host/machine/helpers.h"
#include "host/machine/machine.h"
#include "host/machine/remedy.h"
#include "host/machine/state.h"
#include "host/protect/watches.h"
#include "host/sandbox/trial.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/confine/rights.h"

/* When doctor opens a session with commands, only an environment variable can cause
 * KODA_INVALID. */
#define REMEDY_VARIABLE       "correct that variable, or unset it"
#define REMEDY_SCRATCH        "make /tmp, or the directory that TMPDIR names, writable"
#define REMEDY_INSTALL        "install koda-sandbox again: make install"
#define REMEDY_INSTALL_IF_ALL "if everything above works, " REMEDY_INSTALL
/* For what works only with something that does not. */
#define REMEDY_ABOVE "see the capabilities above"

#define EGRESS_TRY_MS 10000 /* a connection on this machine takes one millisecond */

struct caches_seen {
	bool works;
	char detail[KODA_MESSAGE_MAX + 64];
};

struct doctor {
	koda_capability_fn *fn;
	void *data;
	const char *helper_dir;
	struct caps caps;
	struct remedy_facts facts;
	/* koda-sandbox-launch and bubblewrap, "": not installed; what they were refused first. */
	char launch[PATH_LEN_MAX + 1], bwrap[PATH_LEN_MAX + 1];
	struct userns_outcome refused;
	/* Opened by the row "worker", used and closed by the row "search". */
	char dir[PATH_LEN_MAX + 1]; /* "": none could be made */
	struct koda_session *ses;
	struct koda_slot *slot;
	/* What the row "sandbox" saw. What comes after it needs the sandbox, so its own remedy
	 * would be a guess. */
	bool sandbox;
	struct caches_seen caches;
};

/* A row reports at most one capability. */
struct row {
	const char *name;
	bool needed; /* does auto mode need it? */
	/* Finds out whether the capability exists, and calls report_row(). Returns the return value
	 * of the embedder's function. */
	int (*look)(struct doctor *d, const struct row *row);
	/* For look_at_cap(). cap: the offset of a bool in struct caps. detail: the text if it is
	 * true. without: the text if it is false; NULL: detail. remedy: what helps. */
	size_t cap;
	const char *detail, *without, *remedy;
};

static int
report_row(const struct doctor *d, const struct row *row, bool available, const char *detail,
    const char *remedy)
{
	const struct koda_capability c = { row->name, available, row->needed, detail,
		available ? "" : remedy };

	return d->fn(d->data, &c);
}

static int
look_at_cap(struct doctor *d, const struct row *row)
{
	const bool has = *(const bool *)((const char *)&d->caps + row->cap);

	return report_row(d, row, has, has || row->without == NULL ? row->detail : row->without,
	    row->remedy);
}

static int
look_at_landlock(struct doctor *d, const struct row *row)
{
	const unsigned abi = d->caps.landlock_abi;
	bool full = true, all = true;
	char detail[96];

	for (int who = 0; who < CONFINED_N; who++)
		full = full && rights_lost((enum confined_kind)who, abi) == NULL;
	for (size_t i = 0; i < rights_n; i++)
		all = all && rights[i].abi <= abi;
	snprintf(detail, sizeof(detail), "ABI %u%s", abi,
	    all ? ", with every right that a sandbox uses"
		: "; below, what holds each right that it does not have");
	return report_row(d, row, full, detail, row->remedy);
}

/* Appends what each kind of process has instead of a right. */
static void
list_without(const struct right *right, char *ret, size_t size)
{
	static const char *const names[CONFINED_N] = { "commands", "worker", "search", "proxy" };
	size_t len = strlen(ret);

	for (int who = 0; who < CONFINED_N && len < size; who++)
		if (right->without[who].by[0] != '\0')
			len += (size_t)snprintf(ret + len, size - len, "; %s: %s%s", names[who],
			    right->without[who].how == RIGHT_HELD ? "" : "NOT HELD, ",
			    right->without[who].by);
}

/* One row for each right that this machine's Landlock does not have. */
static int
look_at_rights(struct doctor *d, const struct row *row)
{
	int stop = 0;

	for (size_t i = 0; i < rights_n && stop == 0; i++) {
		const struct right *right = &rights[i];
		char name[32], detail[KODA_MESSAGE_MAX];
		struct row one = *row;
		bool lost = false;

		if (right->abi <= d->caps.landlock_abi)
			continue;
		for (int who = 0; who < CONFINED_N; who++)
			lost = lost || right->without[who].how == RIGHT_LOST;
		snprintf(name, sizeof(name), "%s_%s", row->name, right->name);
		one.name = name;
		snprintf(detail, sizeof(detail), "%s: without Landlock ABI %u (Linux %s)",
		    right->what, right->abi, right->kernel);
		list_without(right, detail, sizeof(detail));
		stop = report_row(d, &one, !lost, detail, row->remedy);
	}
	return stop;
}

/* Makes a directory for the trial. */
static char *
make_scratch(char dir[PATH_LEN_MAX + 1])
{
	const char *tmp = getenv("TMPDIR");

	if (tmp == NULL || tmp[0] != '/' ||
	    snprintf(dir, PATH_LEN_MAX + 1, "%s/koda-doctor-XXXXXX", tmp) > PATH_LEN_MAX)
		snprintf(dir, PATH_LEN_MAX + 1, "/tmp/koda-doctor-XXXXXX");
	return mkdtemp(dir);
}

static int
count(void *data, const struct koda_found *found)
{
	++*(size_t *)data;
	return 0;
}

/* Tries a real worker for an empty directory: it has to be confined and answer. */
static int
look_at_worker(struct doctor *d, const struct row *row)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_enforcement enforced = { 0 };
	char detail[KODA_MESSAGE_MAX];
	struct koda_error err;
	bool full = false;

	if (make_scratch(d->dir) == NULL) {
		d->dir[0] = '\0';
		return report_row(d, row, false, "cannot make a directory to try it in",
		    REMEDY_SCRATCH);
	}
	options.root = d->dir;
	options.mode = KODA_SAFE; /* Safe mode reports weaker confinement instead of refusing */
	options.helper_dir = d->helper_dir;
	if ((d->ses = koda_session_open(&options, &err)) != NULL &&
	    (d->slot = koda_slot_acquire(d->ses, NULL, &err)) != NULL) {
		koda_slot_enforcement(d->slot, &enforced);
		full =
		    rights_lost(CONFINED_WORKER, enforced.landlock_abi) == NULL && enforced.seccomp;
		snprintf(detail, sizeof(detail), "started; Landlock ABI %u, seccomp %s",
		    enforced.landlock_abi, enforced.seccomp ? "on" : "off");
	} else {
		snprintf(detail, sizeof(detail), "%s", err.message);
	}
	return report_row(d, row, full, detail, d->slot != NULL ? REMEDY_ABOVE : REMEDY_INSTALL);
}

static void
worker_end(struct doctor *d)
{
	koda_slot_release(d->slot);
	koda_session_close(d->ses);
	d->slot = NULL;
	d->ses = NULL;
	if (d->dir[0] != '\0')
		rmdir(d->dir);
	d->dir[0] = '\0';
}

/* Runs searches beside that worker, for the root itself: this shows that the search program exists,
 * confines itself, compiles a pattern and answers. */
static int
look_at_search(struct doctor *d, const struct row *row)
{
	static const char *const patterns[] = { "^found$" };
	const struct koda_search_options tree = { .kind = KODA_SEARCH_TREE },
					 grep = { .kind = KODA_SEARCH_GREP,
						 .patterns = patterns,
						 .n_patterns = 1 };
	struct koda_search_result result;
	struct koda_error err = { .message = "it did not find an existing file" };
	size_t n = 0;
	bool works;
	int stop;

	if (d->dir[0] == '\0')
		return 0;
	works = d->slot != NULL && koda_search(d->slot, &tree, count, &n, &result, &err) == 0 &&
	    n == 1 && koda_search(d->slot, &grep, count, &n, &result, &err) == 0;
	stop = report_row(d, row, works,
	    works                 ? "searched a directory, compiled a pattern"
		: d->slot == NULL ? "not tried, because the worker does not work"
				  : err.message,
	    REMEDY_INSTALL);
	worker_end(d);
	return stop;
}

/* Reads the version that the program prints, such as "bubblewrap 0.8.0"; "" if it prints none
 * within a second. */
static void
ask_version(const char *path, char *ret, size_t size)
{
	char *const argv[] = { (char *)"bwrap", (char *)"--version", NULL };
	char *const env[] = { NULL };
	posix_spawn_file_actions_t actions;
	int fds[2], status;
	struct pollfd p;
	pid_t pid;
	ssize_t n = 0;

	ret[0] = '\0';
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	if (posix_spawn_file_actions_init(&actions) == 0) {
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
		posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
		posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_RDWR, 0);
		if (posix_spawn(&pid, path, &actions, NULL, argv, env) == 0) {
			p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
			if (poll(&p, 1, 1000) > 0)
				n = read(fds[0], ret, size - 1);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
		posix_spawn_file_actions_destroy(&actions);
	}
	close(fds[0]);
	close(fds[1]);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

static int
look_at_bubblewrap(struct doctor *d, const struct row *row)
{
	char path[PATH_LEN_MAX + 1] = "", version[64], detail[PATH_LEN_MAX + 80],
				 remedy[PATH_LEN_MAX + REMEDY_MAX];
	struct koda_error err;
	struct stat st;

	if (helpers_find_bwrap(path, &err) == 0) {
		ask_version(path, version, sizeof(version));
		snprintf(detail, sizeof(detail), "%s: %s", path,
		    version[0] != '\0' ? version : "its version is unknown");
		snprintf(remedy, sizeof(remedy), "'%s --version' has to print its version", path);
		return report_row(d, row, strncmp(version, "bubblewrap ", 11) == 0, detail, remedy);
	}
	/* bwrap exists but is set-user-id: the remedy is the command that corrects that. */
	snprintf(remedy, sizeof(remedy), "%s", remedy_install_bubblewrap(&d->facts));
	if (stat("/usr/bin/bwrap", &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0)
		snprintf(remedy, sizeof(remedy), "sudo chmod ug-s /usr/bin/bwrap");
	return report_row(d, row, false, err.message, remedy);
}

/* Each row about namespaces reports its own steps of the one trial; what comes after a refused step
 * was not tried, and has no row. */
static int
report_steps(const struct doctor *d, const struct row *row, enum userns_step last,
    const char *detail)
{
	char why[REMEDY_WHY], remedy[REMEDY_MAX];

	if (d->refused.step == USERNS_ALL || d->refused.step > last)
		return report_row(d, row, true, detail, "");
	remedy_namespaces(&d->facts, &d->refused, why, remedy);
	return report_row(d, row, false, why, remedy);
}

static int
look_at_user_namespaces(struct doctor *d, const struct row *row)
{
	return report_steps(d, row, USERNS_CAPABILITY,
	    "can be created, and give capabilities inside");
}

static int
look_at_namespaces(struct doctor *d, const struct row *row)
{
	if (d->refused.step != USERNS_ALL && d->refused.step <= USERNS_CAPABILITY)
		return 0;
	return report_steps(d, row, USERNS_PROC,
	    "mount, pid, net, ipc and uts can be created, and /proc mounted");
}

/* Does what bubblewrap starts keep the capability that stage2 needs? */
static int
look_at_capabilities(struct doctor *d, const struct row *row)
{
	if (d->bwrap[0] == '\0' ||
	    (d->refused.step != USERNS_ALL && d->refused.step != USERNS_KEPT))
		return 0;
	return report_steps(d, row, USERNS_KEPT, "what bubblewrap starts keeps those it is given");
}

static int
look_at_seccomp_notify(struct doctor *d, const struct row *row)
{
	char why[REMEDY_WHY], remedy[REMEDY_MAX];

	if (d->caps.notify_errnum == 0)
		return report_row(d, row, true, "checks the connections of commands", "");
	remedy_listener(&d->facts, d->caps.notify_errnum, why, remedy);
	return report_row(d, row, false, why, remedy);
}

static double
seconds(void)
{
	return (double)monotonic_ns() / (double)NS_PER_S;
}

/* Keeps the last event: the reason why the proxy is gone is more useful than the error that its
 * client got. */
static void
keep_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind != KODA_EVENT_SPAWN)
		snprintf(data, KODA_MESSAGE_MAX, "%s", text);
}

/* The directory existed only for this one slot; without this, the layers of its caches would
 * stay. */
static void
forget_root(const char *dir)
{
	cleanup_free char *root = realpath(dir, NULL);

	if (root != NULL)
		koda_caches_clear(root, NULL, NULL);
}

/* Fills *ret for the slot that was tried. said: the session's event about caches, if they do not
 * work as they should. */
static void
see_caches(const struct koda_slot *slot, const char *said, struct caches_seen *ret)
{
	const struct view *v =
	    slot != NULL && slot->commands != NULL ? &slot->commands->sandbox->view : NULL;

	ret->works = slot != NULL && !slot->ses->said_caches;
	if (slot == NULL)
		snprintf(ret->detail, sizeof(ret->detail),
		    "not tried, because the sandbox does not work");
	else if (!ret->works)
		snprintf(ret->detail, sizeof(ret->detail), "%s", said);
	else if (v == NULL || (v->n_caches == 0 && v->spare == NULL))
		snprintf(ret->detail, sizeof(ret->detail), "there is no home directory for them");
	else
		snprintf(ret->detail, sizeof(ret->detail),
		    "commands write a layer of their own above %zu caches of this user",
		    v->n_caches);
}

/* Tries a real sandbox: every namespace, the view, stage2, the worker in it, and a command. */
static int
look_at_sandbox(struct doctor *d, const struct row *row)
{
	static const char *const argv[] = { "true", NULL };
	const struct koda_command_options command = { .argv = argv, .approved = true };
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	char dir[PATH_LEN_MAX + 1], detail[KODA_MESSAGE_MAX + 64];
	char path[PATH_LEN_MAX + 1];
	struct koda_command_result result = { 0 };
	struct koda_enforcement enforced = { 0 };
	struct koda_session *ses = NULL;
	struct koda_slot *slot = NULL;
	const char *remedy;
	struct koda_error err = { 0 };
	char event[KODA_MESSAGE_MAX] = "";
	double start = seconds();
	bool works = false;

	see_caches(NULL, "", &d->caches);
	if (make_scratch(dir) == NULL)
		return report_row(d, row, false, "cannot make a directory to try it in",
		    REMEDY_SCRATCH);
	options.root = dir;
	options.mode = KODA_AUTO; /* the mode that requires full confinement */
	options.helper_dir = d->helper_dir;
	options.event = keep_event;
	options.data = event;
	options.commands = true;
	if ((ses = koda_session_open(&options, &err)) != NULL &&
	    (slot = koda_slot_acquire(ses, NULL, &err)) != NULL &&
	    koda_run(slot, &command, &result, &err) == 0) {
		koda_slot_enforcement(slot, &enforced);
		works = result.status == 0 && enforced.mount_view;
		snprintf(detail, sizeof(detail),
		    "a command in it %s (status %d), in %.0f ms with the start of the sandbox",
		    works ? "ran" : "did not run", result.status, (seconds() - start) * 1e3);
	} else {
		snprintf(detail, sizeof(detail), "%s", err.message);
	}
	koda_command_result_done(&result);
	d->sandbox = works;
	see_caches(works ? slot : NULL, event, &d->caches);
	koda_slot_release(slot);
	koda_session_close(ses);
	forget_root(dir);
	rmdir(dir);
	remedy = REMEDY_ABOVE;
	if (err.code == KODA_INVALID)
		remedy = REMEDY_VARIABLE;
	else if (helpers_find(d->helper_dir, "koda-sandbox-stage2", path, NULL) < 0 ||
	    helpers_find(d->helper_dir, "koda-egress-proxy", path, NULL) < 0 ||
	    helpers_find(d->helper_dir, "koda-fs-worker", path, NULL) < 0)
		remedy = REMEDY_INSTALL;
	else if (d->refused.step == USERNS_ALL && d->caps.notify_errnum == 0 && d->bwrap[0] != '\0')
		remedy = REMEDY_INSTALL_IF_ALL;
	return report_row(d, row, works, detail, remedy);
}

static int
look_at_caches(struct doctor *d, const struct row *row)
{
	return report_row(d, row, d->caches.works, d->caches.detail,
	    d->sandbox ? row->remedy : REMEDY_ABOVE);
}

/* The draft and its directory existed only for this trial. */
static void
forget_draft(const struct koda_session *ses, const char *id)
{
	cleanup_free char *name = state_quarantine_name(ses->root);
	char path[PATH_LEN_MAX + 1];
	struct draft draft;

	if (draft_open(ses->state, ses->root, id, &draft, NULL) == 0 &&
	    draft_discard(ses->state, &draft, NULL) < 0)
		draft_close(&draft);
	if (name != NULL &&
	    snprintf(path, sizeof(path), "%s/drafts/%s", ses->state, name) < (int)sizeof(path))
		rmdir(path);
	snprintf(path, sizeof(path), "%s/drafts", ses->state);
	rmdir(path);
}

/* Tries a draft: what a command changes in it has to be seen there, and not in the project. */
static int
look_at_drafts(struct doctor *d, const struct row *row)
{
	const struct koda_command_options command = { .shell = "echo new >file && cat file",
		.approved = true };
	const struct koda_slot_options how = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	char dir[PATH_LEN_MAX + 1], file[PATH_LEN_MAX + 8];
	char id[NAMED_ID_MAX + 1] = "";
	struct koda_command_result result = { 0 };
	struct koda_session *ses = NULL;
	struct koda_slot *slot = NULL;
	struct koda_error err = { 0 };
	bool works = false;

	if (make_scratch(dir) == NULL)
		return report_row(d, row, false, "cannot make a directory to try it in",
		    REMEDY_SCRATCH);
	options.root = dir;
	options.mode = KODA_AUTO;
	options.helper_dir = d->helper_dir;
	options.commands = true;
	snprintf(file, sizeof(file), "%s/file", dir);
	if ((ses = koda_session_open(&options, &err)) != NULL &&
	    (slot = koda_slot_open(ses, &how, &err)) != NULL) {
		snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
		if (koda_run(slot, &command, &result, &err) == 0)
			works = result.status == 0 && access(file, F_OK) < 0;
		if (!works && err.code == KODA_OK)
			err_set(&err, KODA_IO, 0, "a change in a draft reached the project");
	}
	koda_command_result_done(&result);
	koda_slot_release(slot);
	if (id[0] != '\0')
		forget_draft(ses, id);
	koda_session_close(ses);
	forget_root(dir);
	unlink(file);
	rmdir(dir);
	return report_row(d, row, works,
	    works ? "what a command changes is held back until it is applied" : err.message,
	    d->sandbox ? row->remedy : REMEDY_ABOVE);
}

/* Opens a listening socket on a free port of the loopback. Returns it, or -1. */
static int
listen_somewhere(unsigned *ret_port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(in);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 4) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return -1;
	*ret_port = ntohs(in.sin_port);
	return take_fd(&fd);
}

#define GREETING "koda\n"

static int
first_line(const struct koda_output *o)
{
	const char *end = o->head_len > 0 ? memchr(o->head, '\n', o->head_len) : NULL;

	return (int)(end != NULL ? (size_t)(end - o->head) : o->head_len);
}

/* Runs a command in the slot that connects to the server. Returns true if it received the server's
 * greeting. *ret_refused: was it refused by a rule? */
static bool
try_egress(struct koda_slot *slot, int server, unsigned port, bool *ret_refused,
    struct koda_error *err)
{
	char number[16];
	const char *const argv[] = { egress_connect_path(slot->ses), "127.0.0.1", number, NULL };
	const struct koda_command_options options = { .argv = argv,
		.approved = true,
		.timeout_ms = EGRESS_TRY_MS };
	struct koda_command_result result = { 0 };
	struct koda_command *c;
	bool reached;
	int r = 0;

	snprintf(number, sizeof(number), "%u", port);
	c = koda_command_start(slot, &options, NULL, NULL, err);
	if (c == NULL)
		return false;
	while (r == 0) {
		cleanup_close int client = accept4(server, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0 && send(client, GREETING, strlen(GREETING), MSG_NOSIGNAL) < 0)
			err_set(err, KODA_IO, errno, "answer as the test server");
		r = koda_command_wait(c, 10, err);
	}
	if (r > 0)
		r = koda_command_result(c, &result, err);
	reached = r == 0 && result.status == 0 && result.out.head_len == strlen(GREETING) &&
	    memcmp(result.out.head, GREETING, strlen(GREETING)) == 0;
	*ret_refused = r == 0 && result.status != 0 && result.n_violations == 1 &&
	    result.violations[0].kind == KODA_VIOLATION_NETWORK_OUTBOUND;
	if (r == 0 && !reached)
		err_set(err, KODA_IO, 0, "a host that a rule names was not reached: %.*s",
		    first_line(&result.err), result.err.head_len > 0 ? result.err.head : "");
	koda_command_result_done(&result);
	koda_command_free(c);
	return reached;
}

/* Tries the whole way out of the sandbox, to two servers of this process. A command has to reach
 * the one that a rule names, and must not reach the one that no rule names. */
static int
look_at_egress(struct doctor *d, const struct row *row)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	char dir[PATH_LEN_MAX + 1], detail[KODA_MESSAGE_MAX + 64], rule[32];
	char event[KODA_MESSAGE_MAX] = "";
	cleanup_close int named = -1, other = -1;
	unsigned named_port = 0, other_port = 0;
	struct koda_policy *policy = NULL;
	struct koda_session *ses = NULL;
	struct koda_slot *slot = NULL;
	struct koda_error err = { 0 };
	double start = seconds();
	bool works = false, refused;

	named = listen_somewhere(&named_port);
	other = listen_somewhere(&other_port);
	if (named < 0 || other < 0)
		return report_row(d, row, false, "cannot start a test server",
		    "bring up the loopback interface: ip link set lo up");
	if (make_scratch(dir) == NULL)
		return report_row(d, row, false, "cannot make a directory to try it in",
		    REMEDY_SCRATCH);
	snprintf(rule, sizeof(rule), "127.0.0.1:%u", named_port);
	options.root = dir;
	options.mode = KODA_AUTO;
	options.helper_dir = d->helper_dir;
	options.commands = true;
	options.event = keep_event;
	options.data = event;
	if ((policy = koda_policy_for_agent(options.mode, dir, &err)) != NULL &&
	    koda_policy_add(policy, KODA_ALLOWED_DOMAINS, rule, &err) == 0 &&
	    koda_policy_freeze(policy, &err) == 0) {
		options.policy = policy;
		ses = koda_session_open(&options, &err);
	}
	if (ses != NULL) {
		egress_go_directly(ses);
		slot = koda_slot_acquire(ses, NULL, &err);
	}
	if (slot != NULL && egress_connect_path(ses)[0] == '\0') {
		err_set(&err, KODA_UNSUPPORTED, 0, "koda-egress-connect is not installed");
	} else if (slot != NULL && try_egress(slot, named, named_port, &refused, &err)) {
		if (try_egress(slot, other, other_port, &refused, &err) || !refused)
			err_set(&err, KODA_IO, 0, "a host that no rule names was not refused");
		else
			works = true;
	}
	snprintf(detail, sizeof(detail),
	    "a host that a rule names was reached and another refused, in %.0f ms with the start "
	    "of the sandbox",
	    (seconds() - start) * 1e3);
	koda_slot_release(slot);
	koda_session_close(ses);
	koda_policy_free(policy);
	forget_root(dir);
	rmdir(dir);
	return report_row(d, row, works,
	    works                                ? detail
		: d->sandbox && event[0] != '\0' ? event
						 : err.message,
	    err.code == KODA_INVALID ? REMEDY_VARIABLE
		: d->sandbox         ? REMEDY_INSTALL_IF_ALL
				     : REMEDY_ABOVE);
}

/* Reports what enforces the memory limit, and how high it is unless a policy sets another. */
static int
look_at_memory(struct doctor *d, const struct row *row)
{
	char detail[160];

	snprintf(detail, sizeof(detail),
	    "the commands of a slot may use %.1f GB together (three quarters of %.1f); above "
	    "that the sandbox ends the largest one",
	    (double)machine_memory_default() / 1e9, (double)machine_memory() / 1e9);
	return report_row(d, row, true, detail, "");
}

/* Slots work without watches, but slower: only a low number needs a remedy. */
static int
look_at_watches(struct doctor *d, const struct row *row)
{
	char detail[160], remedy[WATCHES_TEXT_MAX];
	struct watches w;
	bool low;

	watches_look(&w);
	low = watches_are_low(&w);
	watches_remedy(&w, remedy, sizeof(remedy));
	snprintf(detail, sizeof(detail),
	    "%ld instances and %ld watches for all programs of a user%s", w.instances, w.watches,
	    w.no_instance ? "; no instance is left"
		: low     ? ": a slot without one checks the whole project after each command"
			  : ", one instance for each slot");
	return report_row(d, row, !low, detail, remedy);
}

#define CAP(member) .look = look_at_cap, .cap = offsetof(struct caps, member)

/* In the order in which they are reported: what one needs comes before it. */
/* clang-format off */
static const struct row rows[] = {
	{ "landlock", true, .look = look_at_landlock,
	    .remedy = RIGHTS_REMEDY },
	{ "landlock", true, .look = look_at_rights, .remedy = RIGHTS_REMEDY },
	{ "seccomp", true, CAP(seccomp), .detail = "kills a process that makes a forbidden system call",
	    .remedy = "a kernel with CONFIG_SECCOMP_FILTER" },
	{ "seccomp_notify", true, .look = look_at_seccomp_notify },
	{ "pidfd", true, CAP(pidfd), .detail = "signals processes without races",
	    .remedy = "Linux 5.4 or newer" },
	{ "memfd", true, CAP(memfd_seals), .detail = "large content is sealed before it is passed on",
	    .remedy = "Linux 3.17 or newer" },
	{ "proc", true, CAP(proc), .detail = "/proc/self/fd shows the path of a descriptor",
	    .remedy = "mount /proc" },
	{ "openat2", false, CAP(openat2), .detail = "paths resolve in one call",
	    .without = "file operations walk paths step by step, which is slower; commands need it",
	    .remedy = "Linux 5.6 or newer, and a container that lets openat2 through" },
	{ "mount_setattr", false, CAP(mount_setattr), .detail = "mounts become read-only in one call",
	    .without = "mounts become read-only one by one, which is slower",
	    .remedy = "Linux 5.12 or newer, and a container that lets mount_setattr through" },
	{ "user_namespaces", true, .look = look_at_user_namespaces },
	{ "namespaces", true, .look = look_at_namespaces },
	{ "bubblewrap", true, .look = look_at_bubblewrap },
	{ "capabilities", true, .look = look_at_capabilities },
	{ "slot_memory", false, .look = look_at_memory },
	{ "inotify", false, .look = look_at_watches },
	{ "worker", true, .look = look_at_worker },
	{ "search", false, .look = look_at_search },
	{ "sandbox", true, .look = look_at_sandbox },
	{ "caches", false, .look = look_at_caches,
	    .remedy = "Linux 5.11 or newer with overlayfs, and XDG_STATE_HOME on a file system with extended attributes for users (ext4, xfs, btrfs)" },
	{ "drafts", false, .look = look_at_drafts, .remedy = DRAFT_FIT_NEEDS },
	{ "egress", true, .look = look_at_egress },
};
/* clang-format on */

int
koda_doctor(const char *helper_dir, koda_capability_fn *fn, void *data)
{
	struct doctor d = { .fn = fn, .data = data, .helper_dir = helper_dir };
	int stop = 0;

	if (helpers_find(helper_dir, "koda-sandbox-launch", d.launch, NULL) < 0)
		d.launch[0] = '\0';
	if (helpers_find_bwrap(d.bwrap, NULL) < 0)
		d.bwrap[0] = '\0';
	caps_probe(&d.caps);
	remedy_look(&d.facts, d.launch);
	trial_run(d.launch, d.bwrap, &d.refused);
	for (size_t i = 0; i < N_ELEMENTS(rows) && stop == 0; i++)
		stop = rows[i].look(&d, &rows[i]);
	worker_end(&d);
	return stop;
}
