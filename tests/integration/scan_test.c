/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command leaves behind for the host to run, and how the worker handles it: a real
 * koda-fs-worker over raw frames, and real git on the host. Each plant is first shown to work;
 * otherwise the test would prove nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "tests/kit/skip.h"

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

#define CHANGES_MAX 64
#define PLACES_MAX  4096

static char base[PATH_MAX / 4], root[PATH_MAX / 2], quarantine[PATH_MAX / 2];
/* On another file system than TMPDIR; "" if there is none. */
static char elsewhere[64];

/* ---- the host ---- */

/* Run a script in the root: what a command does, or what a user does on the host. */
static int
sh(const char *script)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		if (chdir(root) < 0 || null < 0)
			_exit(126);
		dup2(null, 0);
		dup2(null, 1);
		if (getenv("KODA_TEST_VERBOSE") == NULL)
			dup2(null, 2);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		must(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
must_sh(const char *script)
{
	int r = sh(script);

	if (r != 0)
		fail_msg("exit %d: %s", r, script);
}

/* Does the trigger, a tool on the host, run what was planted? */
static bool
is_run_by(const char *trigger)
{
	char path[PATH_MAX];
	bool run;

	snprintf(path, sizeof(path), "%s/pwned", base);
	unlink(path);
	sh(trigger);
	run = access(path, F_OK) == 0;
	unlink(path);
	return run;
}

static int
world_make(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX / 8], pwned[PATH_MAX];
	cleanup_free char *real = NULL;

	snprintf(path, sizeof(path), "%s/scan.XXXXXX", tmp != NULL ? tmp : "/tmp");
	must(mkdtemp(path) != NULL);
	real = realpath(path, NULL);
	must(real != NULL);
	snprintf(base, sizeof(base), "%s", real);
	snprintf(root, sizeof(root), "%s/root", base);
	snprintf(quarantine, sizeof(quarantine), "%s/quarantine", base);
	snprintf(pwned, sizeof(pwned), "%s/pwned", base);
	must(mkdir(root, 0755) == 0 && mkdir(quarantine, 0700) == 0);
	setenv("BASE", base, 1);
	setenv("ROOT", root, 1);
	setenv("PWNED", pwned, 1);
	elsewhere[0] = '\0';
	umask(022);
	return 0;
}

static int
world_remove(void **state)
{
	char line[2 * PATH_MAX];

	if (elsewhere[0] != '\0') {
		snprintf(line, sizeof(line), "cd / && rm -rf '%s'", elsewhere);
		must_sh(line);
	}
	snprintf(line, sizeof(line), "chmod -R u+rwX '%s'; cd / && rm -rf '%s'", base, base);
	must_sh(line);
	return 0;
}

/* ---- a worker ---- */

struct worker {
	pid_t pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t id;
	const Koda__Reply *reply;
	int send_fd; /* sent with the next request; 0: none */
};

struct how {
	const char *sysctl, *value; /* of its user namespace, set before it starts */
	const char *quarantine;     /* "": none; NULL: the world's */
	bool git_config;
	bool cache;       /* commands write in $BASE/cache, which is not scanned */
	bool inner_cache; /* $ROOT/cache is a cache */
};
static const struct how plain = { 0 };

static const char *const rules[] = { ".git/config", ".git/hooks", ".envrc", ".vscode", ".mcp.json",
	".husky", "deep/er/.rc" };

static const char *const names[] = { ".idea", ".github/hooks", "*.ws" };
static const char *const told[] = { "agents.md", ".ci/*.yml" };

static const char *const cache_rules[] = { "bin", "env", "x/y/rc" };

static ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static const Koda__Reply *
call(struct worker *w, Koda__Request *req)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	ssize_t queued;
	size_t len;
	int r;

	arena_reset(&w->arena);
	req->id = w->id++;
	queued = message_queue(&w->fs, &req->base, &err);
	if (queued >= 0 && w->send_fd > 0) {
		queued = frame_flush_with_fd(&w->fs, (size_t)queued, w->send_fd, 10000, &err);
		close(w->send_fd);
		w->send_fd = 0;
	}
	if (queued < 0 || (frame_pending(&w->fs) > 0 && frame_flush(&w->fs, true, &err) != 1))
		fail_msg("%s", err.message);
	while ((r = frame_next(&w->fs, &data, &len, &err)) == 0)
		if (frame_fill(&w->fs, true, &err) < 0) {
			int status = 0;

			waitpid(w->pid, &status, 0);
			w->pid = 0;
			fail_msg("the worker ended (status 0x%x)", status);
		}
	must(r == 1);
	w->reply = (const Koda__Reply *)message_unpack(&koda__reply__descriptor, data, len,
	    &w->arena, &err);
	if (w->reply == NULL)
		fail_msg("%s", err.message);
	assert_int_equal(w->reply->id, req->id);
	if (w->reply->result_case == KODA__REPLY__RESULT_ERROR)
		fail_msg("error %d: %.*s", w->reply->error->code, (int)w->reply->error->message.len,
		    (const char *)w->reply->error->message.data);
	return w->reply;
}

static void
seal(struct worker *w, const struct how *how)
{
	static const uint8_t token[TOKEN_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Seal msg = KODA__SEAL__INIT;
	struct policy policy;
	struct koda_error err;
	struct stat st;
	cleanup_free uint8_t *packed = NULL;
	char path[PATH_MAX];
	ProtobufCBinaryData cache;
	size_t len;

	policy_init(&policy);
	must(policy_list_add(&policy.list[KODA_ALLOW_WRITE], root, NULL) == 0);
	for (size_t i = 0; i < N_ELEMENTS(rules); i++) {
		if (how->git_config && strncmp(rules[i], ".git/", 5) == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", root, rules[i]);
		must(policy_list_add(&policy.list[KODA_DENY_WRITE_WITHIN_ALLOW], path, NULL) == 0);
	}
	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		must(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], names[i], NULL) == 0);
	for (size_t i = 0; how->cache && i < N_ELEMENTS(cache_rules); i++) {
		snprintf(path, sizeof(path), "%s/cache/%s", base, cache_rules[i]);
		must(policy_list_add(&policy.list[KODA_DENY_WRITE_WITHIN_ALLOW], path, NULL) == 0);
	}
	policy.flag[KODA_ALLOW_GIT_CONFIG] = how->git_config;
	must(policy_pack(&policy, &packed, &len, &err) == 0);
	policy_done(&policy);
	must(stat(root, &st) == 0);
	msg.protocol = KODA_PROTOCOL_VERSION;
	msg.policy = (ProtobufCBinaryData){ len, packed };
	msg.mode = KODA__MODE__MODE_AUTO;
	msg.root = bytes(root);
	msg.root_dev = st.st_dev;
	msg.root_ino = st.st_ino;
	msg.home = bytes(getenv("HOME"));
	msg.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	msg.has_quarantine = msg.quarantine = how->quarantine == NULL || how->quarantine[0] != '\0';
	if (msg.quarantine) {
		w->send_fd = open(how->quarantine != NULL ? how->quarantine : quarantine,
		    O_PATH | O_DIRECTORY | O_CLOEXEC);
		must(w->send_fd >= 0);
	}
	snprintf(path, sizeof(path), "%s/cache", how->inner_cache ? root : base);
	cache = bytes(path);
	msg.commands_write = &cache;
	msg.n_commands_write = how->cache || how->inner_cache ? 1 : 0;
	req.op_case = KODA__REQUEST__OP_SEAL;
	req.seal = &msg;
	assert_int_equal(call(w, &req)->result_case, KODA__REPLY__RESULT_READY);
}

static void
worker_start(struct worker *w, const struct how *how)
{
	int sv[2];

	*w = (struct worker){ .id = 1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	w->pid = fork();
	must(w->pid >= 0);
	if (w->pid == 0) {
		if (how->sysctl != NULL) {
			int fd;

			if (unshare(CLONE_NEWUSER) < 0)
				_exit(77);
			fd = open(how->sysctl, O_WRONLY | O_CLOEXEC);
			if (fd < 0 || write(fd, how->value, strlen(how->value)) < 0)
				_exit(78);
		}
		if (sv[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(sv[1], 3);
		execl(KODA_TEST_HELPER_DIR "/koda-fs-worker", "koda-fs-worker", (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	frame_init(&w->fs, sv[0]);
	arena_init(&w->arena);
	seal(w, how);
}

static void
worker_end(struct worker *w)
{
	int status = 0;

	frame_done(&w->fs);
	arena_done(&w->arena);
	if (w->pid > 0)
		while (waitpid(w->pid, &status, 0) < 0)
			must(errno == EINTR);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the worker ended with status 0x%x", status);
}

/* ---- what the worker reports ---- */

struct said {
	struct {
		Koda__ChangeKind kind;
		char path[PATH_MAX], quarantined[64], detail[256], rule[64];
	} change[CHANGES_MAX];
	size_t n_changes;
	struct {
		Koda__PlaceKind kind;
		char path[PATH_MAX];
		Koda__Place place; /* except its path */
	} * place;
	size_t n_places;
	bool watched, cut;
};
static struct said said;

static void
text_of(char *ret, size_t size, ProtobufCBinaryData b)
{
	snprintf(ret, size, "%.*s", (int)b.len, (const char *)b.data);
}

/* Store a path relative to the root, as a person would name it; a path in the cache stays
 * absolute. */
static void
take_path(char ret[PATH_MAX], ProtobufCBinaryData b)
{
	char full[PATH_MAX], cache[PATH_MAX];

	text_of(full, sizeof(full), b);
	snprintf(cache, sizeof(cache), "%s/cache/", base);
	if (strncmp(full, cache, strlen(cache)) == 0) {
		snprintf(ret, PATH_MAX, "%s", full);
		return;
	}
	if (strncmp(full, root, strlen(root)) != 0 || full[strlen(root)] != '/')
		fail_msg("%s is not below the root", full);
	snprintf(ret, PATH_MAX, "%s", full + strlen(root) + 1);
}

static void
take_places(Koda__Place **place, size_t n)
{
	said.place = said.place != NULL ? said.place : calloc(PLACES_MAX, sizeof(*said.place));
	must(said.place != NULL);
	for (size_t i = 0; i < n && said.n_places < PLACES_MAX; i++, said.n_places++) {
		take_path(said.place[said.n_places].path, place[i]->path);
		said.place[said.n_places].kind = place[i]->kind;
		said.place[said.n_places].place = *place[i];
	}
}

static void
scan(struct worker *w)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Scan msg = KODA__SCAN__INIT;
	ProtobufCBinaryData below = bytes(root), told_names[N_ELEMENTS(told)];
	const Koda__Scanned *got;

	said.n_changes = said.n_places = 0;
	msg.below = &below;
	msg.n_below = 1;
	for (size_t i = 0; i < N_ELEMENTS(told); i++)
		told_names[i] = bytes(told[i]);
	msg.told = told_names;
	msg.n_told = N_ELEMENTS(told);
	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = &msg;
	do {
		got = call(w, &req)->scanned;
		assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_SCANNED);
		take_places(got->place, got->n_place);
		said.watched = got->watched;
		said.cut = got->cut;
		msg.n_below = msg.n_told = 0;
		msg.has_next = msg.next = true;
	} while (got->more);
}

static void
compare_by(struct worker *w, Koda__Compare msg)
{
	Koda__Request req = KODA__REQUEST__INIT;
	const Koda__Compared *got;

	said.n_changes = said.n_places = 0;
	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &msg;
	do {
		got = call(w, &req)->compared;
		assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_COMPARED);
		for (size_t i = 0; i < got->n_change && said.n_changes < CHANGES_MAX; i++) {
			size_t k = said.n_changes++;

			said.change[k].kind = got->change[i]->kind;
			take_path(said.change[k].path, got->change[i]->path);
			text_of(said.change[k].quarantined, sizeof(said.change[k].quarantined),
			    got->change[i]->quarantined);
			text_of(said.change[k].detail, sizeof(said.change[k].detail),
			    got->change[i]->detail);
			text_of(said.change[k].rule, sizeof(said.change[k].rule),
			    got->change[i]->rule);
		}
		take_places(got->place, got->n_place);
		said.watched = got->watched;
		said.cut = got->cut;
	} while (got->more);
}

static void
compare_with(struct worker *w, bool mounted)
{
	Koda__Compare msg = KODA__COMPARE__INIT;

	msg.has_mounted = msg.mounted = mounted;
	compare_by(w, msg);
}

static void
compare(struct worker *w)
{
	compare_with(w, false);
}

static void
compare_gently(struct worker *w)
{
	Koda__Compare msg = KODA__COMPARE__INIT;

	msg.has_gentle = msg.gentle = true;
	compare_by(w, msg);
}

static void
look(struct worker *w)
{
	Koda__Compare msg = KODA__COMPARE__INIT;

	msg.has_look = msg.look = true;
	compare_by(w, msg);
}

static int
change_of(const char *path)
{
	for (size_t i = 0; i < said.n_changes; i++) {
		if (strcmp(said.change[i].path, path) == 0)
			return (int)i;
	}
	return -1;
}

static void
assert_change(const char *path, Koda__ChangeKind kind)
{
	int i = change_of(path);

	if (i < 0) {
		for (size_t k = 0; k < said.n_changes; k++)
			print_message("# %d %s (%s)\n", said.change[k].kind, said.change[k].path,
			    said.change[k].detail);
		fail_msg("nothing is said of %s", path);
	}
	if (said.change[i].kind != kind)
		fail_msg("%s: %d instead of %d (%s)", path, said.change[i].kind, kind,
		    said.change[i].detail);
}

static void
assert_no_change(void)
{
	for (size_t k = 0; k < said.n_changes; k++)
		print_message("# %d %s (%s)\n", said.change[k].kind, said.change[k].path,
		    said.change[k].detail);
	assert_int_equal(said.n_changes, 0);
}

static int
place_of(const char *path)
{
	for (size_t i = 0; i < said.n_places; i++) {
		if (strcmp(said.place[i].path, path) == 0)
			return (int)i;
	}
	return -1;
}

static void
assert_place(const char *path, Koda__PlaceKind kind)
{
	int i = place_of(path);

	if (i < 0)
		fail_msg("%s is no place", path);
	assert_int_equal(said.place[i].kind, kind);
}

/* ---- plants ---- */

#define HOOK "'#!/bin/sh\\ntouch \"$PWNED\"\\n'"
/* In a git configuration: run by `git ... st`. */
#define ALIAS(dir) "git -C " dir " config alias.st '!touch \"$PWNED\"' && "
#define REPO                                                                                       \
	"git init -q . && echo a >a && git add a && git commit -qm a && echo b >a && git commit -qam b && "

static const struct plant {
	const char *label;
	const char *before;  /* on the host, before Scan */
	const char *plant;   /* by the command */
	const char *trigger; /* on the host: runs what was planted */
	const char *path;
	Koda__ChangeKind kind;
	const char *after; /* on the host: what must still work */
} plants[] = {
	{ "hook where there were none", REPO "rm -rf .git/hooks",
	    "mkdir .git/hooks && printf " HOOK
	    " >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
	    "git commit -q --allow-empty -m x", ".git/hooks/pre-commit",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git commit -q --allow-empty -m y" },
	{ "hooks directory moved in", REPO "rm -rf .git/hooks",
	    "mkdir h && printf " HOOK " >h/pre-commit && chmod +x h/pre-commit && mv h .git/hooks",
	    "git commit -q --allow-empty -m x", ".git/hooks/pre-commit",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git commit -q --allow-empty -m y" },
	{ "hooks as a link", REPO "rm -rf .git/hooks",
	    "mkdir h && printf " HOOK
	    " >h/pre-commit && chmod +x h/pre-commit && ln -s ../h .git/hooks",
	    "git commit -q --allow-empty -m x", ".git/hooks", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git commit -q --allow-empty -m y" },
	{ "hooks directory that may not be changed", REPO "rm -rf .git/hooks",
	    "mkdir .git/hooks && printf " HOOK
	    " >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && chmod 555 .git/hooks",
	    "git commit -q --allow-empty -m x", ".git/hooks/pre-commit",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git commit -q --allow-empty -m y" },
	{ "fsmonitor in a new repository", ":",
	    "git init -q new && git -C new config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git -C new status", "new/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED,
	    "git -C new status && git -C new commit -q --allow-empty -m x" },
	{ "repository where the project had none", ":", "git init -q . && " ALIAS(".") ":",
	    "git st", ".git/config", KODA__CHANGE_KIND__CHANGE_DISARMED, "git status" },
	{ "hook of a nested new repository", REPO ":",
	    "git init -q new && printf " HOOK
	    " >new/.git/hooks/pre-commit && chmod +x new/.git/hooks/pre-commit",
	    "git -C new commit -q --allow-empty -m x", "new/.git/hooks/pre-commit",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git -C new commit -q --allow-empty -m y && test -e new/.git/hooks/pre-commit.sample" },
	{ "bare repository by its shape", REPO ":", "git init -q --bare docs && " ALIAS("docs") ":",
	    "git -C docs st", "docs/config", KODA__CHANGE_KIND__CHANGE_DISARMED,
	    "git clone -q docs back" },
	{ "bare repository piece by piece", "mkdir -p d/objects d/refs",
	    "printf '[alias]\\n st = !touch \"$PWNED\"\\n[core]\\n bare = true\\n' >d/config && "
	    "echo ref: refs/heads/main >d/HEAD",
	    "git -C d st", "d/config", KODA__CHANGE_KIND__CHANGE_DISARMED, "git -C d rev-parse" },
	{ "gitfile that leads outside", "mkdir sub",
	    "git init -q \"$BASE/far\" && " ALIAS(
		"\"$BASE/far\"") "echo \"gitdir: $BASE/far/.git\" >sub/.git",
	    "git -C sub st", "sub/.git", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "gitfile that leads on by a link", "mkdir sub && git init -q --bare d",
	    "git init -q \"$BASE/far\" && " ALIAS(
		"\"$BASE/far\"") "ln -s d l && echo 'gitdir: ../l' >sub/.git",
	    "ln -sfn \"$BASE/far/.git\" l; git -C sub st; ln -sfn d l", "sub/.git",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "link on the way that a gitfile has",
	    "mkdir sub && git init -q --bare d && ln -s d l && echo 'gitdir: ../l' >sub/.git",
	    "git init -q \"$BASE/far\" && " ALIAS("\"$BASE/far\"") "ln -sfn \"$BASE/far/.git\" l",
	    "git -C sub st", "l", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ ".git as a link", "mkdir sub",
	    "git init -q \"$BASE/far\" && " ALIAS(
		"\"$BASE/far\"") "ln -s \"$BASE/far/.git\" sub/.git",
	    "git -C sub st", "sub/.git", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "commondir that leads outside", ":",
	    "git init -q \"$BASE/far\" && " ALIAS(
		"\"$BASE/far\"") "mkdir d && "
				 "echo ref: refs/heads/main >d/HEAD && echo \"$BASE/far/.git\" >d/commondir",
	    "git --git-dir=d st", "d/commondir", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "configuration of a submodule",
	    "git init -q lib && git -C lib commit -q --allow-empty -m x",
	    "git init -q top && git -C top -c protocol.file.allow=always submodule -q add ../lib sub && "
	    "git -C top/sub config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git -C top status", "top/.git/modules/sub/config", KODA__CHANGE_KIND__CHANGE_DISARMED,
	    "git -C top status && git -C top/sub status && "
	    "test \"$(git -C top/sub rev-parse --show-toplevel)\" = \"$ROOT/top/sub\"" },
	{ "worktree of a configuration elsewhere", ":",
	    "git init -q new && echo 'touch \"$PWNED\"' >new/.profile && git -C new add . && "
	    "git -C new commit -qm x && mkdir \"$BASE/homelike\" && "
	    "git -C new config core.worktree \"$BASE/homelike\"",
	    "git -C new checkout -q -f; sh \"$BASE/homelike/.profile\"; rm -rf \"$BASE/homelike/.profile\"",
	    "new/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED, "git -C new status" },
	{ "config.worktree", REPO "git config extensions.worktreeConfig true",
	    "git config --worktree core.fsmonitor 'touch \"$PWNED\";:'", "git status",
	    ".git/config.worktree", KODA__CHANGE_KIND__CHANGE_DISARMED, "git status" },
	{ "alias in a file that include.path names", REPO "git config include.path ../inc",
	    "printf '[alias]\\n st = !touch \"$PWNED\"\\n' >inc", "git st", "inc",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "file that includeIf names below a link",
	    REPO "mkdir conf && ln -s conf c && git config 'includeIf.gitdir:**.path' ../c/inc",
	    "printf '[alias]\\n st = !touch \"$PWNED\"\\n' >conf/inc", "git st", "conf/inc",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "link on the way to what includeIf names",
	    REPO "mkdir conf && ln -s conf c && git config 'includeIf.gitdir:**.path' ../c/inc",
	    "mkdir evil && printf '[alias]\\n st = !touch \"$PWNED\"\\n' >evil/inc && "
	    "ln -sfn evil c",
	    "git st", "c", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "directory that core.hooksPath names", REPO "git config core.hooksPath .githooks",
	    "mkdir .githooks && printf " HOOK
	    " >.githooks/pre-commit && chmod +x .githooks/pre-commit",
	    "git commit -q --allow-empty -m x", ".githooks", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git commit -q --allow-empty -m y" },
	{ "directory that the user's core.hooksPath names",
	    REPO "git config --global core.hooksPath .myhooks",
	    "mkdir .myhooks && printf " HOOK
	    " >.myhooks/pre-commit && chmod +x .myhooks/pre-commit",
	    "git commit -q --allow-empty -m x", ".myhooks", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git commit -q --allow-empty -m y; git config --global --unset core.hooksPath" },
	{ "program that a filter names",
	    REPO
	    "git config filter.x.clean './tools/clean %f' && echo '*.t filter=x' >.gitattributes",
	    "mkdir tools && printf " HOOK " >tools/clean && chmod +x tools/clean && echo t >a.t",
	    "git add a.t", "tools/clean", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "list of a rebase with a command", REPO ":",
	    "x='break\nexec touch \"$PWNED\"\n'; export x; GIT_SEQUENCE_EDITOR='printf \"$x$x\" >' "
	    "git rebase -q -i HEAD~1",
	    "git rebase --continue", ".git/rebase-merge", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git status" },
	{ "strategy of a series of picks",
	    REPO
	    "git checkout -qb t && echo c >a && git commit -qam c && echo d >a && git commit -qam d && "
	    "git checkout -q - && echo x >a && git commit -qam x",
	    "git cherry-pick t~1 t; printf '[options]\n\tstrategy = ./x\n' >.git/sequencer/opts && "
	    "mkdir git-merge-. && printf " HOOK " >git-merge-./x && chmod +x git-merge-./x",
	    "cp -r . \"$BASE/copy\" && cd \"$BASE/copy\" && git add a && git cherry-pick --continue; "
	    "rm -rf \"$BASE/copy\"",
	    ".git/sequencer", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "an index that cannot be read", REPO ":", "printf x >>.git/index", NULL, ".git/index",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git reset && git status" },
	{ "an index with an entry outside", REPO ":",
	    "git update-index --add --cacheinfo 100644,$(git hash-object -w a),bb/pwned && "
	    "sed -i 's|bb/pwned|../pwned|' .git/index",
	    NULL, ".git/index", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git reset && git status" },
	{ "a symbolic ref to what is none", REPO ":", "echo 'ref: commondir' >.git/ORIG_HEAD", NULL,
	    ".git/ORIG_HEAD", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git reset HEAD~1" },
	{ "a rule's file", ":", "echo 'touch \"$PWNED\"' >.envrc", ". ./.envrc", ".envrc",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "a rule's directory, renamed in", ":",
	    "mkdir v && echo 'touch \"$PWNED\"' >v/tasks.json && mv v .vscode",
	    ". ./.vscode/tasks.json", ".vscode", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "a rule's file, renamed in", ":", "echo 'touch \"$PWNED\"' >x && mv x .mcp.json",
	    ". ./.mcp.json", ".mcp.json", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "a rule's directory, as a link", ":",
	    "mkdir h && echo 'touch \"$PWNED\"' >h/pre-commit && ln -s h .husky",
	    ". ./.husky/pre-commit", ".husky", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "a link on the way to a rule", ":",
	    "mkdir -p x/er && echo 'touch \"$PWNED\"' >x/er/.rc && ln -s x deep", ". ./deep/er/.rc",
	    "deep", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "directories on the way to a rule", ":",
	    "mkdir -p x/er && echo 'touch \"$PWNED\"' >x/er/.rc && mv x deep", ". ./deep/er/.rc",
	    "deep/er/.rc", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "an agent", ":", "mkdir -p a/.koda/agents && echo 'touch \"$PWNED\"' >a/.koda/agents/x",
	    ". a/.koda/agents/x", "a/.koda/agents", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "a skill in what was there", "mkdir .koda",
	    "mkdir skills && echo 'touch \"$PWNED\"' >skills/x && mv skills .koda",
	    ". .koda/skills/x", ".koda/skills", KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "agents by renaming what holds them", "mkdir -p k/agents",
	    "echo 'touch \"$PWNED\"' >k/agents/x && mv k .koda", ". .koda/agents/x", ".koda/agents",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "shape that a renamed file completes",
	    "git init -q --bare store && mv store/HEAD store/was && rm store/config",
	    "cd store && printf '[alias]\\n st = !touch \"$PWNED\"\\n[core]\\n bare = true\\n' >config && mv was HEAD",
	    "git -C store st", "store/config", KODA__CHANGE_KIND__CHANGE_DISARMED,
	    "git -C store rev-parse" },
	{ "deep", ":",
	    "d=x; for i in 1 2 3 4 5 6 7 8 9 0; do d=$d/aa/bb/cc/dd/ee/ff; done; mkdir -p $d && "
	    "git init -q $d/r && git -C $d/r config alias.st '!touch \"$PWNED\"' && echo $d >path",
	    "git -C $(cat path)/r st",
	    "x/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/"
	    "ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/ff/aa/bb/cc/dd/ee/"
	    "ff/r/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, NULL },
	{ "a name with a newline and no UTF-8", ":",
	    "d=$(printf 'a\\nb\\377 \"c') && git init -q \"$d\" && git -C \"$d\" config alias.st '!touch \"$PWNED\"'",
	    "git -C \"$(printf 'a\\nb\\377 \"c')\" st", "a\nb\377 \"c/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, NULL },
	{ "ignored by git", REPO "echo node_modules >.gitignore",
	    "mkdir -p node_modules/m && git init -q node_modules/m && " ALIAS("node_modules/m") ":",
	    "git -C node_modules/m st", "node_modules/m/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, NULL },
	{ "made elsewhere and moved in", ":",
	    "mkdir q && git init -q q/r && " ALIAS("q/r") "mv q/r dest", "git -C dest st",
	    "dest/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED, "git -C dest status" },
	{ "within git's own directory", REPO ":",
	    "git init -q .git/objects/info/r && " ALIAS(".git/objects/info/r") ":",
	    "git -C .git/objects/info/r st", ".git/objects/info/r/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, NULL },
	{ "configuration that no parser takes", ":",
	    "git init -q new && echo '[alias' >>new/.git/config", NULL, "new/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, "git -C new status" },
	{ "configuration that is a link", ":",
	    "git init -q new && " ALIAS(
		"new") "mv new/.git/config c && ln -s ../../c new/.git/config",
	    "git -C new st", "new/.git/config", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git -C new status" },
	{ "configuration that is a FIFO", ":",
	    "git init -q new && rm new/.git/config && mkfifo new/.git/config", NULL,
	    "new/.git/config", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git -C new status" },
	{ "remote of a helper", ":",
	    "git init -q new && git -C new remote add o \"ext::touch $PWNED\"",
	    "GIT_ALLOW_PROTOCOL=ext git -C new fetch o", "new/.git/config",
	    KODA__CHANGE_KIND__CHANGE_DISARMED, "git -C new status" },
	{ "link in a new repository: a reflog", ":",
	    "git init -q new && git -C new commit -q --allow-empty -m x && "
	    "ln -sf \"$PWNED\" new/.git/logs/HEAD",
	    "git -C new commit -q --allow-empty -m y", "new/.git/logs/HEAD",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git -C new commit -q --allow-empty -m z" },
	{ "link in the project's repository: a reflog", REPO ":",
	    "ln -sf \"$PWNED\" .git/logs/HEAD", "git commit -q --allow-empty -m y",
	    ".git/logs/HEAD", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git commit -q --allow-empty -m z" },
	{ "link in the project's repository: a message", REPO ":",
	    "ln -sf \"$PWNED\" .git/COMMIT_EDITMSG", "git commit -q --allow-empty -m y",
	    ".git/COMMIT_EDITMSG", KODA__CHANGE_KIND__CHANGE_QUARANTINED,
	    "git commit -q --allow-empty -m z" },
	{ "link in the project's repository: a directory of refs",
	    REPO "mkdir \"$BASE/far\" .git/refs/tags/v && ln -s \"$PWNED\" \"$BASE/far/t\"",
	    "rmdir .git/refs/tags/v && ln -s \"$BASE/far\" .git/refs/tags/v",
	    "rm -f \"$BASE/far/t\"; git tag v/t && mv \"$BASE/far/t\" \"$PWNED\"",
	    ".git/refs/tags/v", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git tag v/u" },
	{ "link in the project's repository: a ref that is none of this repository", REPO ":",
	    "ln -s \"$PWNED\" .git/refs/heads/t", NULL, ".git/refs/heads/t",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git branch t" },
	{ "link in what becomes a git directory", "mkdir -p d/objects d/refs d/logs",
	    "ln -s \"$PWNED\" d/logs/HEAD && printf '[core]\n bare = true\n logallrefupdates = true\n' >d/config "
	    "&& echo ref: refs/heads/main >d/HEAD",
	    "git -C d update-ref HEAD $(git -C d commit-tree -m x $(git -C d hash-object -wt tree /dev/null))",
	    "d/logs/HEAD", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git -C d rev-parse" },
	{ "link deep in what is moved into a git directory", REPO "mkdir -p x/y",
	    "ln -s \"$PWNED\" x/y/z && mv x .git/x", NULL, ".git/x/y/z",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "link in a submodule's git directory",
	    "git init -q lib && git -C lib commit -q --allow-empty -m x && git init -q top && "
	    "git -C top -c protocol.file.allow=always submodule -q add ../lib sub",
	    "ln -sf \"$PWNED\" top/.git/modules/sub/logs/HEAD",
	    "git -C top/sub commit -q --allow-empty -m y", "top/.git/modules/sub/logs/HEAD",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git -C top/sub commit -q --allow-empty -m z" },
	{ "link with a step up that begins like a ref", REPO ":",
	    "ln -sf refs/../../../pwned .git/HEAD", NULL, ".git/HEAD",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, NULL },
	{ "link like a ref for what is none", REPO ":", "ln -sf refs/x .git/info/exclude", NULL,
	    ".git/info/exclude", KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "FIFO in a git directory", REPO ":", "mkfifo .git/MERGE_MSG", NULL, ".git/MERGE_MSG",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git commit -q --allow-empty -m z" },
	{ "remote of old in a new repository", ":",
	    "git init -q new && mkdir -p new/.git/remotes && "
	    "printf 'URL: ext::touch %s\n' \"$PWNED\" >new/.git/remotes/origin",
	    "GIT_ALLOW_PROTOCOL=ext git -C new fetch", "new/.git/remotes/origin",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git -C new status" },
	{ "branch of old in the project's repository", REPO "rm -rf .git/branches",
	    "mkdir .git/branches && printf 'ext::touch %s\n' \"$PWNED\" >.git/branches/origin",
	    "GIT_ALLOW_PROTOCOL=ext git fetch", ".git/branches/origin",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "directory of branches of old as a link", REPO "rm -rf .git/branches",
	    "mkdir b && printf 'ext::touch %s\n' \"$PWNED\" >b/origin && ln -s ../b .git/branches",
	    "GIT_ALLOW_PROTOCOL=ext git fetch", ".git/branches",
	    KODA__CHANGE_KIND__CHANGE_QUARANTINED, "git status" },
	{ "bare repository that is the root", ":", "git init -q --bare . && " ALIAS(".") ":",
	    "git st", "config", KODA__CHANGE_KIND__CHANGE_DISARMED, "git rev-parse" },
};

static void
check_plant(const struct plant *p, const struct how *how)
{
	struct worker w;

	must_sh(p->before);
	worker_start(&w, how);
	scan(&w);
	assert_int_equal(said.watched, how->sysctl == NULL);
	compare(&w);
	assert_no_change();
	must_sh(p->plant);
	if (p->trigger != NULL && !is_run_by(p->trigger))
		fail_msg("it does no harm to begin with");
	compare(&w);
	assert_change(p->path, p->kind);
	if (p->trigger != NULL && is_run_by(p->trigger))
		fail_msg("it still does harm");
	if (p->after != NULL)
		must_sh(p->after);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

static void
check_watched(void **state)
{
	check_plant(&plants[(uintptr_t)*state], &plain);
}

/* The kernel has no watch left for the third directory. */
static const struct how few_watches = { .sysctl = "/proc/sys/user/max_inotify_watches",
	.value = "2" };
static const struct how no_instance = { .sysctl = "/proc/sys/user/max_inotify_instances",
	.value = "0" };

static void
check_unwatched(void **state)
{
	check_plant(&plants[(uintptr_t)*state], &no_instance);
}

/* ---- what must keep working ---- */

static const struct {
	const char *label, *before, *command, *after;
} harmless[] = {
	{ "clone", "git init -q src && git -C src commit -q --allow-empty -m x",
	    "git clone -q src dst && git -C dst checkout -q -b topic",
	    "git -C dst fetch -q && git -C dst commit -q --allow-empty -m y && "
	    "git -C dst push -q origin topic && git -C dst branch -q other && "
	    "test -e dst/.git/hooks/pre-commit.sample && "
	    "test \"$(git -C dst config remote.origin.url)\" = \"$ROOT/src\"" },
	{ "init", ":", "git init -q x && git -C x commit -q --allow-empty -m x",
	    "git -C x status" },
	{ "init of the project", ":", "git init -q . && git commit -q --allow-empty -m x",
	    "git commit -q --allow-empty -m y && test -e .git/hooks/pre-commit.sample && test -s .git/config" },
	{ "commit, branch and merge", REPO ":",
	    "git checkout -q -b t && echo c >c && git add c && git commit -qm c && "
	    "git checkout -q - && git merge -q t && git gc -q && git tag v1",
	    "git fsck && git log" },
	{ "worktree", REPO ":", "git worktree add -q wt && git -C wt commit -q --allow-empty -m x",
	    "git -C wt status && git worktree list && git worktree remove wt" },
	{ "worktree of a bare root",
	    "git init -q --bare . && git symbolic-ref HEAD refs/heads/main",
	    "t=$(git write-tree) && c=$(git commit-tree -m x $t) && git update-ref refs/heads/main $c && "
	    "git worktree add -q -b t wt && git -C wt commit -q --allow-empty -m y",
	    "git -C wt log && git -C wt status" },
	{ "submodule", "git init -q lib && git -C lib commit -q --allow-empty -m x",
	    "git init -q top && git -C top -c protocol.file.allow=always submodule -q add "
	    "\"$ROOT/lib\" sub && git -C top commit -qm sub",
	    "git -C top submodule status && git -C top/sub log && git -C top/sub status" },
	{ "clone that shares", "git init -q src && git -C src commit -q --allow-empty -m x",
	    "git clone -q -s src dst", "git -C dst log && git -C dst fsck" },
	{ "rebase that stopped", REPO ":",
	    "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1; test -d .git/rebase-merge",
	    "git rebase --continue && git log" },
	{ "series of picks that stopped",
	    REPO
	    "git checkout -qb t && echo c >a && git commit -qam c && echo d >a && git commit -qam d && "
	    "git checkout -q - && echo x >a && git commit -qam x",
	    "git cherry-pick --strategy=ort -X theirs t~1 t || test -d .git/sequencer || "
	    "git cherry-pick --strategy=ort t~1 t || test -d .git/sequencer",
	    "! test -d .git/sequencer || { git checkout -q --theirs a; git add a; "
	    "git cherry-pick --continue || git cherry-pick --skip; }" },
	{ "refs as links", REPO "git config core.preferSymlinkRefs true",
	    "git checkout -q -b t && git update-ref refs/remotes/o/main HEAD && "
	    "git symbolic-ref refs/remotes/o/HEAD refs/remotes/o/main",
	    "test -L .git/HEAD && test -L .git/refs/remotes/o/HEAD && git log" },
	{ "links that were there",
	    REPO
	    "mv .git/logs \"$BASE/logs\" && ln -s \"$BASE/logs\" .git/logs && mkfifo .git/fifo",
	    "git commit -q --allow-empty -m x",
	    "git reflog && test -L .git/logs && test -p .git/fifo" },
	{ "a repository with links in it that is moved",
	    "git init -q a && ln -s \"$BASE\" a/.git/mine && mkdir b", "mv a b/c",
	    "test -L b/c/.git/mine" },
	{ "links in a directory that is no git directory", "mkdir d",
	    "ln -s /etc/passwd d/l && mkfifo d/f && mkdir d/objects d/refs && ln -s x d/objects/y",
	    "test -L d/l && test -p d/f && test -L d/objects/y" },
	{ "files by the hundred", ":",
	    "mkdir -p a/b/c && for i in 1 2 3 4 5 6 7 8 9; do for k in 1 2 3 4 5 6 7 8 9; do "
	    "echo x >a/b/f$i$k; mkdir a/b/c/d$i$k; done; done; rm -r a/b/c",
	    "test -e a/b/f99" },
	{ "names that only look like it", "mkdir hooks config agents",
	    "echo x >hooks/pre-commit; echo x >config/config; mkdir agents/skills; echo >HEAD; "
	    "mkdir objects; echo x >.gitignore",
	    "test -e hooks/pre-commit && test -e config/config" },
};

static void
check_harmless(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct worker w;

	must_sh(harmless[i].before);
	worker_start(&w, &plain);
	scan(&w);
	must_sh(harmless[i].command);
	compare(&w);
	assert_no_change();
	must_sh(harmless[i].after);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* ---- in a cache ---- */

static const struct {
	const char *label, *before, *command;
	const char *path; /* in the cache; NULL: no change is reported */
	const char *after;
} cached[] = {
	{ "cached: a rule's file", ":", "echo x >$BASE/cache/env", "env",
	    "! test -e $BASE/cache/env" },
	{ "cached: a rule's directory", ":", "mkdir $BASE/cache/bin && echo x >$BASE/cache/bin/git",
	    "bin", "! test -e $BASE/cache/bin" },
	{ "cached: a rule's file as a link", ":", "ln -s nothing $BASE/cache/env", "env",
	    "! test -h $BASE/cache/env" },
	{ "cached: deep", ":", "mkdir -p $BASE/cache/x/y && echo x >$BASE/cache/x/y/rc", "x/y/rc",
	    "! test -e $BASE/cache/x/y/rc" },
	{ "cached: a link on the way", "mkdir -p $ROOT/e/y && echo x >$ROOT/e/y/rc",
	    "ln -s $ROOT/e $BASE/cache/x", "x", "! test -e $BASE/cache/x/y/rc" },
	{ "cached: a link on the way, further down", "mkdir $BASE/cache/x",
	    "mkdir e && echo x >e/rc && ln -s $ROOT/e $BASE/cache/x/y", "x/y",
	    "! test -e $BASE/cache/x/y/rc" },
	{ "cached: beside them", ":",
	    "mkdir -p $BASE/cache/x/z && echo x >$BASE/cache/file && git init -q $BASE/cache/r",
	    NULL, "test -e $BASE/cache/file" },
	{ "cached: what was there", "echo x >$BASE/cache/env", "echo x >$BASE/cache/e", NULL,
	    "test -e $BASE/cache/env" },
};

static void
check_cached(void **state)
{
	const struct how how = { .cache = true };
	const size_t i = (uintptr_t)*state;
	char path[PATH_MAX];
	struct worker w;

	must_sh("mkdir $BASE/cache");
	must_sh(cached[i].before);
	worker_start(&w, &how);
	scan(&w);
	compare(&w);
	assert_no_change();
	must_sh(cached[i].command);
	compare(&w);
	if (cached[i].path != NULL) {
		snprintf(path, sizeof(path), "%s/cache/%s", base, cached[i].path);
		assert_change(path, KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	} else {
		assert_no_change();
	}
	must_sh(cached[i].after);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* Commands may see other content in a cache than the host does, so no git file outside the cache
 * may lead into it. */
static void
test_leads_into_a_cache(void **state)
{
	const struct how how = { .inner_cache = true };
	struct worker w;

	must_sh("mkdir cache");
	worker_start(&w, &how);
	scan(&w);
	must_sh(
	    "git init -q cache/r && git -C cache/r commit -q --allow-empty -m x && mkdir a b && "
	    "echo 'gitdir: ../cache/r/.git' >a/.git && "
	    "echo ref: refs/heads/x >b/HEAD && echo ../cache/r/.git >b/commondir && "
	    "git init -q c && echo \"$ROOT/cache/r/.git/objects\" >c/.git/objects/info/alternates && "
	    "git clone -qs cache/r cache/s && git -C cache/r worktree add -q ../t");
	compare(&w);
	assert_change("a/.git", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("b/commondir", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("c/.git/objects/info/alternates", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_int_equal(said.n_changes, 3);
	must_sh("git -C cache/s log && git -C cache/t log");
	worker_end(&w);
}

/* ---- places ---- */

static void
test_places(void **state)
{
	struct worker w;

	must_sh(REPO
	    "git config core.hooksPath .husky/_ && mkdir -p .husky/_ tools && "
	    "echo x >tools/f && git config core.fsmonitor 'sh tools/f --x' && "
	    "git config include.path ../inc && echo '[user]' >inc && "
	    "git worktree add -q wt && git init -q --bare deep/bare && "
	    "mkdir -p .koda/agents .vscode && echo x >.envrc && echo x >ordinary && "
	    "git init -q with/alt && echo \"$ROOT/.git/objects\" >with/alt/.git/objects/info/alternates");
	worker_start(&w, &plain);
	scan(&w);
	assert_true(said.watched);
	assert_false(said.cut);
	assert_place(".git", KODA__PLACE_KIND__PLACE_GIT_DIR);
	assert_place(".git/config", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place(".git/hooks", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place(".git/worktrees/wt", KODA__PLACE_KIND__PLACE_GIT_DIR);
	assert_place(".git/worktrees/wt/commondir", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("wt/.git", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("deep/bare", KODA__PLACE_KIND__PLACE_GIT_DIR);
	assert_place("deep/bare/config", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("with/alt/.git/objects/info/alternates", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("tools/f", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("inc", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place(".husky", KODA__PLACE_KIND__PLACE_RULE);
	assert_place(".koda", KODA__PLACE_KIND__PLACE_GIT_DIR);
	assert_place(".koda/agents", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place(".vscode", KODA__PLACE_KIND__PLACE_RULE);
	assert_place(".envrc", KODA__PLACE_KIND__PLACE_RULE);
	assert_int_equal(place_of("ordinary"), -1);
	assert_int_equal(place_of(".git/HEAD"), -1);
	assert_int_equal(place_of(".git/objects"), -1);
	worker_end(&w);
}

static void
test_allow_git_config(void **state)
{
	const struct how how = { .git_config = true };
	struct worker w;

	must_sh(REPO ":");
	worker_start(&w, &how);
	scan(&w);
	assert_int_equal(said.n_places, 0);
	must_sh("git config alias.st '!true' && git init -q new && echo x >.envrc");
	compare(&w);
	assert_int_equal(said.n_changes, 1);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

/* The worker reports what a command made as places to mount. Once they are mounted, a command
 * cannot change them: a change comes from outside. */
static void
test_new_repository(void **state)
{
	struct worker w;

	worker_start(&w, &plain);
	scan(&w);
	must_sh("git init -q new");
	compare(&w);
	assert_no_change();
	assert_place("new/.git", KODA__PLACE_KIND__PLACE_GIT_DIR);
	assert_place("new/.git/config", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("new/.git/hooks", KODA__PLACE_KIND__PLACE_PROTECTED);
	/* Not mounted yet: a command that still runs may change it. */
	must_sh("git -C new config alias.st '!true'");
	compare(&w);
	assert_change("new/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	compare_with(&w, true);
	assert_no_change();
	must_sh("git -C new config alias.st '!true'");
	compare(&w);
	assert_change("new/.git/config", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	must_sh("git -C new config alias.st");
	worker_end(&w);
}

/* ---- while git is at work ---- */

#define LIVE                                                                                       \
	"git init -q lib && git -C lib commit -q --allow-empty -m x && git init -q . && "          \
	"echo lib >.gitignore && git -c protocol.file.allow=always submodule -q add ./lib sub && " \
	"git add .gitignore && git commit -qm sub && git init -q --bare remote && "                \
	"git remote add origin \"$ROOT/remote\" && git push -q origin HEAD && "                    \
	"rm -rf sub .git/modules/sub && mkdir sub && "

static const struct {
	const char *label, *work;
} works[] = {
	{ "init", "git init -q n && git -C n commit -q --allow-empty -m x && rm -rf n" },
	{ "init of what the index names",
	    "git init -q n && git -C n commit -q --allow-empty -m x && git add n 2>/dev/null && "
	    "git commit -qm n && git -C n config user.name x && git status && git rm -q --cached n && "
	    "git commit -qm n && rm -rf n" },
	{ "clone", "git clone -q lib n && git -C n fetch -q && git -C n gc -q && rm -rf n" },
	{ "clone that shares", "git clone -q -s lib n && git -C n log && rm -rf n" },
	{ "submodule of what the index names",
	    "git -c protocol.file.allow=always submodule update -q && git submodule status && "
	    "git -C sub log && git -C sub fetch -q && rm -rf sub .git/modules/sub && mkdir sub" },
	{ "clone with submodules",
	    "git -c protocol.file.allow=always clone -q --recurse-submodules . n && git -C n/sub log && "
	    "rm -rf n" },
	{ "worktree",
	    "git worktree add -q wt && git -C wt commit -q --allow-empty -m x && "
	    "git worktree remove wt && git update-ref -d refs/heads/wt" },
	{ "worktree of a bare repository",
	    "git clone -q --bare lib n && git -C n worktree add -q -b x ../wt && "
	    "git -C wt commit -q --allow-empty -m x && rm -rf n wt" },
	{ "git directory elsewhere",
	    "git init -q --separate-git-dir n wt && git -C wt commit -q --allow-empty -m x && "
	    "git -C wt status && rm -rf n wt" },
	{ "stash", "echo x >f && git add f && git stash -q && git stash pop -q && git rm -qf f" },
	{ "rebase",
	    "git checkout -qb t && git commit -q --allow-empty -m a && git commit -q --allow-empty -m b && "
	    "git rebase -q -x true HEAD~2 && git checkout -q - && git update-ref -d refs/heads/t" },
	{ "rebase in steps",
	    "git checkout -qb t && echo a >a && git add a && git commit -qm a && "
	    "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1 && git rebase --continue && "
	    "git checkout -q - && git update-ref -d refs/heads/t" },
	{ "bisect",
	    "for i in 1 2 3 4; do git commit -q --allow-empty -m $i; done; git bisect start HEAD HEAD~4 "
	    ">/dev/null && git bisect run false >/dev/null && git bisect reset" },
	{ "push and fetch", "git push -qf origin HEAD && git fetch -q && git gc -q --auto" },
};

/* A command's git does its work while the worker compares as often as it can. */
static void
check_work(void **state)
{
	const size_t i = (uintptr_t)*state;
	char script[4096];
	struct worker w;
	int status;
	pid_t pid;

	must_sh(LIVE ":");
	worker_start(&w, &plain);
	scan(&w);
	compare_with(&w, true);
	snprintf(script, sizeof(script), "for i in 1 2; do %s || exit 1; done", works[i].work);
	pid = fork();
	must(pid >= 0);
	if (pid == 0)
		_exit(sh(script));
	for (unsigned n = 0; waitpid(pid, &status, WNOHANG) == 0; n++) {
		if (n % 2 == 0)
			look(&w);
		else
			compare_gently(&w);
		assert_no_change();
	}
	assert_int_equal(status, 0);
	compare(&w);
	assert_no_change();
	must_sh("git fsck && git status");
	worker_end(&w);
}

/* ---- what hides something from the user ---- */

static const struct {
	const char *label, *before, *command;
	const char *path; /* NULL: nothing is reported */
	const char *with; /* a part of the reported detail */
} hidings[] = {
	{ "skip-worktree", REPO ":", "echo evil >a && git update-index --skip-worktree a",
	    ".git/index", "ls-files -v" },
	{ "assume-unchanged", REPO ":", "echo evil >a && git update-index --assume-unchanged a",
	    ".git/index", ": 1 files marked" },
	{ "marked before", REPO "git update-index --skip-worktree a",
	    "echo c >c && git add c && git commit -qm c", NULL, NULL },
	{ "marked before, and another one",
	    REPO "echo c >c && git add c && git update-index --skip-worktree a",
	    "git update-index --no-skip-worktree a && git update-index --skip-worktree c",
	    ".git/index", ": 1 files marked" },
	{ "no longer marked", REPO "git update-index --skip-worktree a",
	    "git update-index --no-skip-worktree a", NULL, NULL },
	{ "marked in a split index", REPO ":",
	    "git update-index --skip-worktree a && git update-index --split-index", ".git/index",
	    " marked" },
	{ "marked in a new repository", ":",
	    "git init -q n && echo x >n/x && git -C n add x && git -C n update-index --skip-worktree x",
	    "n/.git/index", ": 1 files marked" },
	{ "exclude", REPO ":", "echo '*.evil' >>.git/info/exclude", ".git/info/exclude",
	    "--ignored" },
	{ "exclude, in place", REPO "echo '#' >.git/info/exclude",
	    "printf x | dd of=.git/info/exclude conv=notrunc 2>/dev/null", ".git/info/exclude",
	    ": 1 pattern" },
	{ "exclude: a comment", REPO ":", "echo '# nothing' >>.git/info/exclude", NULL, NULL },
	{ "attributes", REPO ":", "mkdir -p .git/info && echo '* -diff' >.git/info/attributes",
	    ".git/info/attributes", "--text" },
	{ "grafts", REPO ":", "git rev-parse HEAD >.git/info/grafts", ".git/info/grafts",
	    "GIT_GRAFT_FILE" },
	{ "shallow", REPO ":", "git rev-parse HEAD >.git/shallow", ".git/shallow", "--unshallow" },
	{ "replaced", REPO ":", "git replace HEAD HEAD~1", ".git/refs/replace", "git replace" },
	{ "replaced, and packed", REPO ":", "git replace HEAD HEAD~1 && git pack-refs --all",
	    ".git/packed-refs", "git replace" },
	{ "sparse", REPO ":", "echo /b >.git/info/sparse-checkout", ".git/info/sparse-checkout",
	    "checked out" },
	{ "shallow clone",
	    "git init -q s && git -C s commit -q --allow-empty -m x && "
	    "git -C s commit -q --allow-empty -m y",
	    "git clone -q --depth 1 \"file://$ROOT/s\" n", NULL, NULL },
};

static void
check_hiding(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct worker w;
	int k;

	must_sh(hidings[i].before);
	worker_start(&w, &plain);
	scan(&w);
	compare_with(&w, true);
	assert_no_change();
	must_sh(hidings[i].command);
	/* Not reported while commands run: only what is left at the end counts. */
	compare_gently(&w);
	assert_no_change();
	compare(&w);
	if (hidings[i].path == NULL) {
		assert_no_change();
	} else {
		assert_change(hidings[i].path, KODA__CHANGE_KIND__CHANGE_HIDES);
		k = change_of(hidings[i].path);
		if (strstr(said.change[k].detail, hidings[i].with) == NULL)
			fail_msg("%s", said.change[k].detail);
		assert_string_equal(said.change[k].rule, "git_hides");
	}
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* The worker takes harmful plants away at once, but only where the host's git would use them. */
static const struct {
	const char *label, *before, *plant;
	const char *trigger;
	const char *path; /* NULL: nothing is live */
} lives[] = {
	{ "nothing names it", REPO ":",
	    "git init -q new && git -C new config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git status", NULL },
	{ "the index names it", REPO ":",
	    "git init -q new && git -C new config core.fsmonitor 'touch \"$PWNED\";:' && "
	    "git -C new commit -q --allow-empty -m x && git add new",
	    "git status", "new/.git/config" },
	{ "the index has named it",
	    REPO
	    "git init -q new && git -C new commit -q --allow-empty -m x && git add new && rm -rf new && mkdir new",
	    "git init -q new && git -C new config core.fsmonitor 'touch \"$PWNED\";:' && "
	    "git -C new commit -q --allow-empty -m x",
	    "git status", "new/.git/config" },
	{ "the root", ":", "git init -q . && git config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git status", ".git/config" },
	{ "a linked worktree's index", REPO "git worktree add -q wt",
	    "git init -q wt/new && git -C wt/new config core.fsmonitor 'touch \"$PWNED\";:' && "
	    "git -C wt/new commit -q --allow-empty -m x && git -C wt add new",
	    "git -C wt status", "wt/new/.git/config" },
	{ "by a gitfile that leads outside",
	    REPO
	    "git init -q \"$BASE/far\" && git -C \"$BASE/far\" commit -q --allow-empty -m x && "
	    "git -C \"$BASE/far\" config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git init -q new && git -C new commit -q --allow-empty -m x && git add new && rm -rf new/.git && "
	    "echo \"gitdir: $BASE/far/.git\" >new/.git",
	    "git status", "new/.git" },
	{ "commondir of the project's own",
	    REPO "git init -q \"$BASE/far\" && "
		 "git -C \"$BASE/far\" config core.fsmonitor 'touch \"$PWNED\";:'",
	    "echo \"$BASE/far/.git\" >.git/commondir", "git status", ".git/commondir" },
	{ "commondir to what has no HEAD", REPO ":",
	    "cp -r .git evil && rm evil/HEAD && git config -f evil/config core.fsmonitor 'touch \"$PWNED\";:' && "
	    "echo ../evil >.git/commondir",
	    "git status", ".git/commondir" },
	{ "commondir of a worktree to another repository", REPO "git worktree add -q wt",
	    "mkdir new x && cp -r .git new && git -C new config core.fsmonitor 'touch \"$PWNED\";:' && "
	    "cp -r .git/worktrees/wt .git/worktrees/w && "
	    "echo \"$ROOT/new/.git\" >.git/worktrees/w/commondir && "
	    "echo \"gitdir: $ROOT/.git/worktrees/w\" >x/.git && git add x",
	    "git -C x status", ".git/worktrees/w/commondir" },
	{ "the repository of a worktree has lost its HEAD", REPO ":",
	    "git clone -q --bare . bare && git -C bare worktree add -q -b x ../wt && git add wt && "
	    "rm bare/HEAD && git config -f bare/config core.fsmonitor 'touch \"$PWNED\";:'",
	    "git -C wt status", "bare/config" },
};

static void
check_live(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct worker w;

	must_sh(lives[i].before);
	worker_start(&w, &plain);
	scan(&w);
	compare_with(&w, true);
	must_sh(lives[i].plant);
	assert_int_equal(is_run_by(lives[i].trigger), lives[i].path != NULL);
	look(&w);
	/* If a look finds something in an index, the same look or the next one checks it. */
	if (said.n_changes == 0)
		look(&w);
	if (lives[i].path == NULL)
		assert_no_change();
	else
		assert_int_not_equal(change_of(lives[i].path), -1);
	assert_false(is_run_by(lives[i].trigger));
	worker_end(&w);
}

/* A look that has taken something away finds that it has to compare everything: what it took away
 * is reported. */
static void
test_look_that_grows(void **state)
{
	struct worker w;

	must_sh(REPO "git init -q \"$BASE/far\"");
	worker_start(&w, &plain);
	scan(&w);
	compare_with(&w, true);
	must_sh("echo \"$BASE/far/.git\" >.git/commondir && echo none >.git/index");
	look(&w);
	assert_change(".git/commondir", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

/* What the worker left to git while commands ran is judged at the end, even in a directory that
 * cannot be listed. */
static void
test_left_to_git(void **state)
{
	struct worker w;

	must_sh(REPO ":");
	worker_start(&w, &plain);
	scan(&w);
	must_sh("mkdir -p new/.git/rebase-merge && echo 'exec touch \"$PWNED\"' "
		">new/.git/rebase-merge/git-rebase-todo && cp -r .git/. new/.git && "
		"ln -s testing new/.git/tABCDEF");
	compare_gently(&w);
	compare_gently(&w);
	assert_no_change();
	must_sh("chmod 300 new/.git");
	compare(&w);
	assert_change("new/.git/rebase-merge", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("new/.git/tABCDEF", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* A process that kept the file open writes to a file that git no longer reads. */
static void
test_held_open(void **state)
{
	struct worker w;
	cleanup_close int fd = -1;
	char path[PATH_MAX];

	worker_start(&w, &plain);
	scan(&w);
	must_sh("git init -q new");
	snprintf(path, sizeof(path), "%s/new/.git/config", root);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	must(fd >= 0);
	compare(&w);
	assert_no_change();
	must(write(fd, "[alias]\n st = !true\n", 20) == 20);
	must(sh("git -C new config alias.st") != 0);
	worker_end(&w);
}

static void
test_outside(void **state)
{
	struct worker w;

	must_sh(REPO "echo x >.envrc && mkdir .vscode");
	worker_start(&w, &plain);
	scan(&w);
	must_sh("git config alias.st '!true' && echo y >e && mv e .envrc && rmdir .vscode");
	compare(&w);
	assert_int_equal(said.n_changes, 3);
	assert_change(".git/config", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	assert_change(".vscode", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	must_sh("git config alias.st && test \"$(cat .envrc)\" = y");
	compare(&w);
	assert_no_change();
	/* Once .vscode is gone, a command can plant it. */
	must_sh("mkdir .vscode");
	compare(&w);
	assert_change(".vscode", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

/* ---- quarantine ---- */

static void
assert_manifest(const char *dir, const char *path, const char *type)
{
	char name[PATH_MAX], buf[4096], full[PATH_MAX];
	cleanup_close int fd = -1;
	ssize_t n;
	bool seen_path = false, seen_type = false;

	snprintf(name, sizeof(name), "%s/%s/manifest", dir, said.change[0].quarantined);
	snprintf(full, sizeof(full), "path %s/%s", root, path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	must(fd >= 0);
	n = read(fd, buf, sizeof(buf));
	assert_true(n > 0 && buf[n - 1] == '\0');
	assert_string_equal(buf, "koda-quarantine 1");
	for (const char *p = buf; p < buf + n; p += strlen(p) + 1) {
		seen_path |= strcmp(p, full) == 0;
		seen_type |= strncmp(p, "type ", 5) == 0 && strcmp(p + 5, type) == 0;
	}
	assert_true(seen_path && seen_type);
}

static void
check_quarantine(const char *dir)
{
	const struct how how = { .quarantine = dir };
	struct worker w;
	char line[PATH_MAX * 2];

	worker_start(&w, &how);
	scan(&w);
	must_sh("mkdir -p .vscode/a && echo text >.vscode/a/f && chmod 755 .vscode/a/f && "
		"ln -s /etc/passwd .vscode/link && mkfifo .vscode/fifo");
	compare(&w);
	assert_int_equal(said.n_changes, 1);
	assert_change(".vscode", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_string_equal(said.change[0].rule, "deny_write_within_allow");
	assert_manifest(dir, ".vscode", "directory");
	snprintf(line, sizeof(line),
	    "test ! -e .vscode && test -x '%s/%s/what/a/f' && test \"$(cat '%s/%s/what/a/f')\" = text && "
	    "test -z \"$(ls -A)\"",
	    dir, said.change[0].quarantined, dir, said.change[0].quarantined);
	must_sh(line);
	must_sh("ln -s /etc/passwd .envrc");
	compare(&w);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_manifest(dir, ".envrc", "link");
	must_sh("test ! -L .envrc");
	worker_end(&w);
}

static void
test_quarantine_here(void **state)
{
	check_quarantine(quarantine);
}

static void
test_quarantine_on_another_file_system(void **state)
{
	struct stat here, there;

	snprintf(elsewhere, sizeof(elsewhere), "/dev/shm/koda-scan.XXXXXX");
	must(mkdtemp(elsewhere) != NULL);
	must(stat(root, &here) == 0 && stat(elsewhere, &there) == 0);
	assert_true(here.st_dev != there.st_dev);
	check_quarantine(elsewhere);
}

static void
test_too_much_to_copy(void **state)
{
	struct how how = { 0 };
	struct worker w;
	char line[PATH_MAX];

	snprintf(elsewhere, sizeof(elsewhere), "/dev/shm/koda-scan.XXXXXX");
	must(mkdtemp(elsewhere) != NULL);
	how.quarantine = elsewhere;
	worker_start(&w, &how);
	scan(&w);
	must_sh("mkdir .vscode && truncate -s 65M .vscode/big");
	compare(&w);
	assert_change(".vscode", KODA__CHANGE_KIND__CHANGE_ASIDE);
	snprintf(line, sizeof(line), "test ! -e .vscode && test -e '%s/big'",
	    said.change[0].detail);
	must_sh(line);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

static void
test_no_quarantine(void **state)
{
	const struct how how = { .quarantine = "" };
	struct worker w;

	worker_start(&w, &how);
	scan(&w);
	must_sh("echo x >.envrc && git init -q new && git -C new config alias.st '!true'");
	compare(&w);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_LEFT);
	assert_change("new/.git/config", KODA__CHANGE_KIND__CHANGE_LEFT);
	must_sh("test -e .envrc && git -C new config alias.st");
	/* A change that was left in place is reported only once. */
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* ---- what watches miss ---- */

static void
test_overflow(void **state)
{
	struct worker w;

	worker_start(&w, &plain);
	scan(&w);
	/* More events than the kernel's queue holds; its length depends on the machine. */
	must_sh("n=$(cat /proc/sys/fs/inotify/max_queued_events); mkdir many && cd many && "
		"i=0; while [ $i -lt $n ]; do : >a$i; : >b$i; i=$((i + 1)); done; cd .. && "
		"git init -q late && git -C late config alias.st '!touch \"$PWNED\"'");
	assert_true(is_run_by("git -C late st"));
	compare(&w);
	assert_change("late/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	assert_true(said.watched);
	assert_false(is_run_by("git -C late st"));
	/* After that, events work again. */
	must_sh("echo x >.envrc");
	compare(&w);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

static void
test_few_watches(void **state)
{
	struct worker w;

	must_sh("mkdir -p a/b/c/d");
	worker_start(&w, &few_watches);
	scan(&w);
	assert_false(said.watched);
	must_sh(
	    "git init -q a/b/c/d/r && git -C a/b/c/d/r config alias.st '!true' && echo x >.envrc");
	compare(&w);
	assert_int_equal(said.n_changes, 2);
	assert_change("a/b/c/d/r/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	for (unsigned i = 0; i < 40; i++) {
		compare(&w);
		assert_no_change();
	}
	worker_end(&w);
}

/* The watches run out while the worker checks a command's directories. */
static void
test_watches_give_out(void **state)
{
	const struct how how = { .sysctl = "/proc/sys/user/max_inotify_watches", .value = "12" };
	struct worker w;

	worker_start(&w, &how);
	scan(&w);
	assert_true(said.watched);
	must_sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do mkdir -p a$i/b; done; "
		"git init -q a3/b/r && git -C a3/b/r config alias.st '!true' && echo x >.envrc && "
		"mkdir -p a13/.koda/skills");
	compare(&w);
	assert_false(said.watched);
	assert_int_equal(said.n_changes, 3);
	assert_change("a3/b/r/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a13/.koda/skills", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* A tree deeper than the worker checks is reported each time, until it is gone. */
static void
test_too_deep(void **state)
{
	struct worker w;

	worker_start(&w, &plain);
	scan(&w);
	assert_false(said.cut);
	must_sh("d=.; for i in $(seq 205); do d=$d/d; done; mkdir -p $d");
	compare(&w);
	assert_true(said.cut);
	compare(&w);
	assert_true(said.cut);
	worker_end(&w);
}

static void
test_quarantine_within(void **state)
{
	char inner[PATH_MAX];
	struct how how = { .quarantine = inner };
	struct worker w;

	snprintf(inner, sizeof(inner), "%s/state/quarantine", root);
	must_sh("mkdir -p state/quarantine");
	worker_start(&w, &how);
	scan(&w);
	must_sh(
	    "mkdir .vscode && git init -q .vscode/r && git -C .vscode/r config alias.st '!true'");
	compare(&w);
	assert_int_equal(said.n_changes, 1);
	compare(&w);
	assert_no_change();
	must_sh("git -C state/quarantine/*/what/r config alias.st");
	worker_end(&w);
}

static void
test_unlistable(void **state)
{
	struct worker w;

	worker_start(&w, &plain);
	scan(&w);
	must_sh("git init -q d && git -C d config alias.st '!touch \"$PWNED\"' && chmod 311 d");
	assert_true(is_run_by("git -C d st"));
	compare(&w);
	assert_change("d/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	assert_false(is_run_by("git -C d st"));
	/* A command inside a directory can create files whatever the modes allow from outside;
	 * this holds for the root as well. */
	must_sh("mkdir -p e/f && cd e/f && git init -q g && "
		"git -C g config alias.st '!touch \"$PWNED\"' && "
		"chmod 0 $ROOT/e/f && chmod 0 $ROOT/e && chmod 0 $ROOT");
	compare(&w);
	assert_change("e/f/g/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	assert_false(is_run_by("git -C e/f/g st"));
	worker_end(&w);
}

/* A directory that the user made unlistable stays unlistable. */
static void
test_users_unlistable(void **state)
{
	struct worker w;

	must_sh("git init -q d/r && git -C d/r config alias.st '!true' && chmod 0 d");
	worker_start(&w, &plain);
	scan(&w);
	for (int i = 0; i < 2; i++) {
		must_sh("mkdir -p x && touch x/.envrc .envrc");
		compare(&w);
		assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
		assert_int_equal(said.n_changes, 1);
	}
	must_sh("test $(stat -c %a d) = 0 && chmod 755 d && git -C d/r config alias.st");
	worker_end(&w);
}

static void
test_moved_known(void **state)
{
	struct worker w;

	must_sh("git init -q a/r && git -C a/r config alias.st '!true'");
	worker_start(&w, &plain);
	scan(&w);
	must_sh("mv a b");
	compare(&w);
	assert_no_change();
	assert_place("b/r/.git/config", KODA__PLACE_KIND__PLACE_PROTECTED);
	must_sh("git -C b/r config alias.st && git -C b/r config alias.st '!false'");
	compare(&w);
	assert_change("b/r/.git/config", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	worker_end(&w);
}

/* A directory that was watched keeps being watched under its new name. */
static void
test_moved_directory(void **state)
{
	struct worker w;

	must_sh("mkdir -p a/b/c");
	worker_start(&w, &plain);
	scan(&w);
	must_sh("mv a/b x");
	compare(&w);
	assert_no_change();
	must_sh("git init -q x/c/r && git -C x/c/r config alias.st '!true'");
	compare(&w);
	assert_change("x/c/r/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	must_sh(
	    "rm -rf x && mkdir -p x/c && git init -q x/c/r && git -C x/c/r config alias.st '!true'");
	compare(&w);
	assert_change("x/c/r/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	worker_end(&w);
}

/* ---- names at any depth ---- */

static void
test_names(void **state)
{
	struct worker w;

	must_sh(
	    "mkdir -p a/b/.idea a/.github/hooks a/c node_modules/p/.idea && echo x >a/b/.idea/x && "
	    "echo x >a/c/y.WS && ln -s ../b a/c/.idea && echo x >a/hooks && mkdir a/.github/workflows");
	worker_start(&w, &plain);
	scan(&w);
	assert_place("a/b/.idea", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("a/.github/hooks", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("a/c/y.WS", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("node_modules/p/.idea", KODA__PLACE_KIND__PLACE_GUARDED);
	/* A link cannot be a mount point; its target is a place of the same kind. */
	assert_place("a/c/.idea", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("a/b", KODA__PLACE_KIND__PLACE_NAME);
	assert_int_equal(place_of("a/hooks"), -1);
	assert_int_equal(place_of("a/.github"), -1);
	compare(&w);
	assert_no_change();
	/* In directories that were there before. */
	must_sh(
	    "mkdir a/.idea && echo x >a/.idea/x && echo x >a/c/.ws && ln -s evil a/c/.github && "
	    "ln -sfn /tmp a/c/.idea && mkdir -p a/c/n && mkdir -p .github/hooks");
	compare(&w);
	assert_change("a/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/c/.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/c/.github", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/c/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change(".github/hooks", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_int_equal(said.n_changes, 5);
	assert_string_equal(said.change[0].rule, "deny_write_names");
	must_sh("test ! -e a/.idea && test ! -L a/c/.github && test -d a/c/n");
	/* A file is not reported if the rule has its name only as a directory. */
	must_sh("echo x >a/.github2 && echo x >a/c/n/.github");
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

static void
test_names_that_came(void **state)
{
	struct worker w;

	must_sh("mkdir -p a/old/src rep/x node_modules/q && ln -s a ln");
	worker_start(&w, &plain);
	scan(&w);
	must_sh("mkdir -p a/new/deep/.idea a/new/.github/hooks && echo x >a/new/deep/z.ws && "
		"mkdir -p node_modules/p1/.idea node_modules/p2/.idea");
	compare_by(&w,
	    (Koda__Compare){ PROTOBUF_C_MESSAGE_INIT(&koda__compare__descriptor), .has_busy = 1,
		.busy = 1 });
	assert_change("a/new", KODA__CHANGE_KIND__CHANGE_CAME);
	assert_int_equal(strncmp(said.change[change_of("a/new")].detail, "3:", 2), 0);
	/* Packages are reported together. */
	assert_change("node_modules", KODA__CHANGE_KIND__CHANGE_CAME);
	assert_int_equal(strncmp(said.change[change_of("node_modules")].detail, "2:", 2), 0);
	assert_int_equal(said.n_changes, 2);
	assert_place("a/new/deep/.idea", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("node_modules/p1/.idea", KODA__PLACE_KIND__PLACE_GUARDED);
	/* The command still runs: what it made is still its own. */
	must_sh("echo y >a/new/deep/.idea/y && echo x >a/new/later.ws && mkdir a/new/deep/more && "
		"echo x >a/new/deep/more/m.ws");
	compare_with(&w, false);
	assert_change("a/new", KODA__CHANGE_KIND__CHANGE_CAME);
	assert_int_equal(strncmp(said.change[0].detail, "2:", 2), 0);
	assert_int_equal(said.n_changes, 1);
	/* The command has ended. */
	must_sh("echo x >a/new/late.ws && echo z >a/new/deep/.idea/z");
	compare(&w);
	assert_change("a/new/late.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/new/deep/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_int_equal(said.n_changes, 2);
	/* A moved directory, a directory that replaced another file, and the first part of a
	 * name do not count as new. */
	must_sh(
	    "mkdir m && mv a/old m/old && mkdir m/old/.idea && rm -r rep && mkdir -p rep/x/.idea && "
	    "rm ln && mkdir -p ln/.idea && mkdir -p a/.github/hooks");
	compare(&w);
	assert_change("m/old/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("rep/x/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("ln/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/.github/hooks", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_int_equal(said.n_changes, 4);
	/* Packages that are replaced count as new. */
	must_sh("rm -r node_modules && mkdir -p node_modules/p1/.idea");
	compare(&w);
	assert_change("node_modules", KODA__CHANGE_KIND__CHANGE_CAME);
	assert_int_equal(said.n_changes, 1);
	worker_end(&w);
}

static void
test_names_of_packages(void **state)
{
	struct worker w;

	must_sh("mkdir -p node_modules/p/.idea/deep && echo x >node_modules/p/.idea/deep/f && "
		"echo x >node_modules/p/a.ws && mkdir -p src");
	worker_start(&w, &plain);
	scan(&w);
	assert_place("node_modules/p/.idea", KODA__PLACE_KIND__PLACE_GUARDED);
	must_sh("touch node_modules/p/ordinary");
	compare(&w);
	assert_no_change();
	must_sh("echo y >>node_modules/p/.idea/deep/f");
	compare(&w);
	assert_change("node_modules/p/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	must_sh("echo y >>node_modules/p/a.ws && echo y >node_modules/p/b.ws");
	compare(&w);
	assert_change("node_modules/p/a.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("node_modules/p/b.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	/* A package may be moved; one that is changed on the way is a different package. */
	must_sh("mkdir -p node_modules/c/.idea && echo x >node_modules/c/.idea/x");
	compare(&w);
	assert_change("node_modules", KODA__CHANGE_KIND__CHANGE_CAME);
	must_sh("mkdir node_modules/s && mv node_modules/c node_modules/s/d");
	compare(&w);
	assert_no_change();
	must_sh("mv node_modules/s/d node_modules/e && echo y >>node_modules/e/.idea/x");
	compare(&w);
	assert_change("node_modules/e/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	/* The packages are uninstalled. */
	must_sh("rm -r node_modules");
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* A command makes one file with several names: the worker gives each protected name its own file
 * before it accepts the file as known. */
static void
test_linked(void **state)
{
	struct worker w;

	must_sh("mkdir -p a");
	worker_start(&w, &plain);
	scan(&w);
	must_sh(
	    "mkdir -p new/.idea/deep && echo x >one && echo x >two && ln one new/.idea/deep/x && "
	    "ln two new/y.ws && chmod 755 two");
	/* While git may be at work, the links stay. */
	compare_by(&w,
	    (Koda__Compare){ PROTOBUF_C_MESSAGE_INIT(&koda__compare__descriptor), .has_gentle = 1,
		.gentle = 1, .has_busy = 1, .busy = 1 });
	must_sh("test one -ef new/.idea/deep/x");
	compare_by(&w,
	    (Koda__Compare){ PROTOBUF_C_MESSAGE_INIT(&koda__compare__descriptor), .has_busy = 1,
		.busy = 1 });
	assert_place("new/.idea", KODA__PLACE_KIND__PLACE_NAME);
	must_sh("echo evil >one && echo evil >two && test \"$(cat new/.idea/deep/x)\" = x && "
		"test \"$(cat new/y.ws)\" = x && test -x new/y.ws");
	/* The command still runs, and adds another name. */
	must_sh("ln new/y.ws three && ln new/.idea/deep/x four");
	compare_with(&w, false);
	must_sh("echo evil >three && echo evil >four && test \"$(cat new/.idea/deep/x)\" = x && "
		"test \"$(cat new/y.ws)\" = x");
	compare_with(&w, true);
	assert_no_change();
	must_sh("test \"$(ls -A new new/.idea/deep | tr '\\n' ' ')\" = "
		"'new: .idea y.ws  new/.idea/deep: x '");
	worker_end(&w);
}

/* The same for a configuration that was written again and for a gitfile, before they are
 * mounted. */
static void
test_linked_git(void **state)
{
	const Koda__Compare busy = { PROTOBUF_C_MESSAGE_INIT(&koda__compare__descriptor),
		.has_busy = 1, .busy = 1 };
	struct worker w;

	worker_start(&w, &plain);
	scan(&w);
	must_sh("git init -q new && git init -q --separate-git-dir store other");
	compare_by(&w, busy);
	must_sh("ln new/.git/config one && ln other/.git two && ln store/config three");
	compare_with(&w, true);
	must_sh("for name in one two three; do echo evil >>$name; done");
	compare_with(&w, true);
	assert_no_change();
	must_sh(
	    "! grep -q evil new/.git/config && ! grep -q evil other/.git && ! grep -q evil store/config");
	worker_end(&w);
}

/* A place whose files cannot be copied this way is quarantined. */
static void
test_linked_too_much(void **state)
{
	struct worker w;

	must_sh("mkdir -p a");
	worker_start(&w, &plain);
	scan(&w);
	must_sh(
	    "mkdir -p new/.idea && truncate -s 100M one && ln one new/.idea/x && mkdir dir && "
	    "d=dir && for i in $(seq 40); do d=$d/d; done && mkdir -p other $d && echo x >$d/x && "
	    "mv dir other/.idea");
	compare(&w);
	assert_change("new/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("other/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	must_sh("test ! -e new/.idea && test ! -e other/.idea");
	worker_end(&w);
}

/* Files that were there before: their other names are places of the same kind, and packages are
 * compared by content. */
static void
test_linked_before(void **state)
{
	struct worker w;

	must_sh(REPO
	    "mkdir -p lib/.idea src/deep node_modules/p/.idea node_modules/q && echo x >lib/.idea/x && "
	    "ln lib/.idea/x src/deep/x && ln .git/config src/config && echo x >.envrc && ln .envrc src/z && "
	    "printf '#!/bin/sh\\n' >src/hook && mkdir -p .git/hooks && ln src/hook .git/hooks/pre-commit && "
	    "echo x >store && ln store node_modules/p/.idea/x && ln store node_modules/q/q.ws && "
	    "echo x >alone && ln alone src/both && ln lib/.idea/x node_modules/q/x");
	worker_start(&w, &plain);
	scan(&w);
	assert_false(said.cut);
	assert_place("src/deep/x", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("src/config", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("src/hook", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("src/z", KODA__PLACE_KIND__PLACE_NAME);
	assert_int_equal(place_of("node_modules/q/x"), -1);
	assert_int_equal(place_of("alone"), -1);
	assert_int_equal(place_of("store"), -1);
	compare(&w);
	assert_no_change();
	/* Where nothing is mounted, a change is reported. */
	must_sh("echo y >>node_modules/q/x");
	compare(&w);
	assert_change("lib/.idea", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	/* A process outside the sandbox can write to mounted places. */
	must_sh("echo y >>src/z && echo y >>src/hook && echo y >>src/deep/x");
	compare(&w);
	assert_change(".envrc", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	assert_change(".git/hooks", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	assert_change("lib/.idea", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	compare(&w);
	assert_no_change();
	/* A package manager adds a link and removes it; then the file is written. */
	must_sh(
	    "ln store node_modules/q/plain && mkdir node_modules/r && ln store node_modules/r/r.ws && "
	    "rm node_modules/q/plain");
	compare(&w);
	assert_change("node_modules", KODA__CHANGE_KIND__CHANGE_CAME);
	assert_int_equal(said.n_changes, 1);
	must_sh("echo y >>store");
	compare(&w);
	assert_change("node_modules/p/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("node_modules/q/q.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("node_modules/r/r.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

/* If events are lost or not available, the worker cannot tell what is new. */
static void
test_names_unwatched(void **state)
{
	const struct how how = { "/proc/sys/user/max_inotify_watches", "0", NULL, false, false,
		false };
	struct worker w;

	must_sh("mkdir a");
	worker_start(&w, &how);
	scan(&w);
	assert_false(said.watched);
	must_sh("mkdir -p new/.idea a/.idea");
	compare(&w);
	assert_change("new/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("a/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	worker_end(&w);
}

static void
test_told(void **state)
{
	struct worker w;

	must_sh("mkdir -p a .ci && echo x >AGENTS.md && echo x >.ci/a.yml");
	worker_start(&w, &plain);
	scan(&w);
	assert_int_equal(said.n_places, 0);
	must_sh("touch a/other .ci/other && mkdir a/AGENTS.md");
	compare(&w);
	assert_no_change();
	must_sh("echo y >>AGENTS.md && echo y >a/agents.md && echo y >.ci/b.yml && "
		"mkdir new && echo z >new/AGENTS.md");
	compare(&w);
	assert_change("AGENTS.md", KODA__CHANGE_KIND__CHANGE_TOLD);
	assert_change("a/agents.md", KODA__CHANGE_KIND__CHANGE_TOLD);
	assert_change(".ci/b.yml", KODA__CHANGE_KIND__CHANGE_TOLD);
	assert_int_equal(said.n_changes, 3);
	assert_int_equal(said.n_places, 0);
	must_sh("grep -q y AGENTS.md && grep -q y a/agents.md");
	must_sh("rm AGENTS.md");
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* The targets that a protected place leads to, and where that ends. */
static void
test_led(void **state)
{
	struct worker w;

	must_sh(REPO
	    "mkdir s t far && echo x >t/f && ln -s ../t/f s/hop && ln -s ../../s/hop .git/hooks/pre-commit && "
	    "mkdir -p d/.idea/x && ln -s ../../../far d/.idea/x/far && ln -s ../.. d/.idea/up && "
	    "ln -s nowhere d/.idea/gone && ln -s /etc/passwd d/.idea/out && ln -s loop d/.idea/loop && "
	    "git init -q other && ln -s ../../other d/.idea/other");
	worker_start(&w, &plain);
	scan(&w);
	assert_place("t/f", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("s/hop", KODA__PLACE_KIND__PLACE_PROTECTED);
	assert_place("far", KODA__PLACE_KIND__PLACE_NAME);
	assert_place("other", KODA__PLACE_KIND__PLACE_NAME);
	assert_int_equal(place_of("t"), -1);
	assert_int_equal(place_of("d"), -1);
	/* The links form a circle: there were too many to follow. */
	assert_true(said.cut);
	compare(&w);
	assert_no_change();
	must_sh("echo y >evil && ln -sfn ../evil s/hop");
	compare(&w);
	assert_change("s/hop", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_string_equal(said.change[0].rule, "git_config");
	worker_end(&w);
}

/* Store all paths that Guarded returns from number `from` on, each with a blank before and after
 * it. */
static void
guarded(struct worker *w, uint32_t from, char *ret, size_t size)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Guarded msg = KODA__GUARDED__INIT;
	const Koda__GuardedReply *got;
	size_t n = 0;

	req.op_case = KODA__REQUEST__OP_GUARDED;
	req.guarded = &msg;
	msg.has_from = true;
	msg.from = from;
	got = call(w, &req)->guarded;
	assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_GUARDED);
	assert_false(got->has_more && got->more);
	n = (size_t)snprintf(ret, size, " ");
	for (size_t i = 0; i < got->n_path; i++) {
		size_t cut = strlen(root) + 1;

		assert_true(got->path[i].len > cut);
		n += (size_t)snprintf(ret + n, size - n, "%.*s ", (int)(got->path[i].len - cut),
		    (const char *)got->path[i].data + cut);
	}
}

/* Places that a child session cannot find by itself, whether they exist or not. */
static void
test_guarded(void **state)
{
	char all[4096], none[16];
	struct worker w;

	must_sh(REPO "mkdir s t far && echo x >t/f && ln -s ../t/f s/hop && "
		     "ln -s ../../s/hop .git/hooks/pre-commit && mkdir -p d/.idea && "
		     "ln -s ../../far d/.idea/far && ln -s ../../ghost d/.idea/ghost");
	worker_start(&w, &plain);
	scan(&w);
	guarded(&w, 0, all, sizeof(all));
	assert_non_null(strstr(all, " t/f "));
	assert_non_null(strstr(all, " s/hop "));
	assert_non_null(strstr(all, " far "));
	assert_non_null(strstr(all, " ghost "));
	assert_null(strstr(all, ".vscode")); /* the policy names it */
	guarded(&w, 1000, none, sizeof(none));
	assert_string_equal(none, " ");
	worker_end(&w);
}

/* A link in the path of a rule: only what the rest of the rule names is protected, not the whole
 * target of the link. */
static void
test_led_on_the_way(void **state)
{
	char all[4096];
	struct worker w;

	must_sh("mkdir -p real/er && echo x >real/er/.rc && echo x >real/free && ln -s real deep");
	worker_start(&w, &plain);
	scan(&w);
	guarded(&w, 0, all, sizeof(all));
	assert_non_null(strstr(all, " real/er/.rc "));
	assert_null(strstr(all, " real "));
	assert_int_equal(place_of("real"), -1);
	must_sh("echo y >real/free");
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* There are more places than can be mounted: the rest are compared. */
static void
test_names_many(void **state)
{
	struct worker w;
	size_t guarded = 0, mounted = 0;

	must_sh("for i in $(seq 1500); do mkdir -p m/$i && echo x >m/$i/a.ws; done");
	worker_start(&w, &plain);
	scan(&w);
	for (size_t i = 0; i < said.n_places; i++) {
		guarded += said.place[i].kind == KODA__PLACE_KIND__PLACE_GUARDED;
		mounted += said.place[i].kind == KODA__PLACE_KIND__PLACE_NAME;
	}
	assert_int_equal(guarded + mounted, 1500);
	assert_true(mounted > 500 && guarded > 500);
	must_sh("for i in 1 2 700 1499 1500; do echo y >m/$i/b.ws; done");
	compare(&w);
	assert_int_equal(said.n_changes, 5);
	worker_end(&w);
}

static void
test_led_far(void **state)
{
	struct worker w;

	/* At most LED_LINKS_MAX for one place; links inside the place count as well. */
	must_sh(
	    "mkdir .idea t && for i in $(seq 300); do echo >t/$i; ln -s ../t/$i .idea/$i; done");
	worker_start(&w, &plain);
	scan(&w);
	assert_true(said.cut);
	assert_int_equal(said.n_places, 257);
	worker_end(&w);
}

/* ---- after a worker's death ---- */

static void
test_resume(void **state)
{
	struct worker w;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Scan msg = KODA__SCAN__INIT;
	ProtobufCBinaryData below = bytes(root);
	Koda__Place *known[64];
	char full[64][PATH_MAX];
	size_t n;

	must_sh(
	    REPO "git config alias.st '!true' && printf " HOOK
		 " >.git/hooks/pre-commit && echo x >.envrc && ln -s /etc .git/link && "
		 "mkdir -p d/.idea node_modules/p/.idea d/to && echo x >node_modules/p/.idea/x && "
		 "echo x >d/to/f && ln -s ../to/f d/.idea/f");
	worker_start(&w, &plain);
	scan(&w);
	n = said.n_places;
	assert_true(n > 3 && n < 64);
	kill(w.pid, SIGKILL);
	waitpid(w.pid, NULL, 0);
	w.pid = 0;
	frame_done(&w.fs);
	arena_done(&w.arena);
	must_sh("echo x >.mcp.json && git init -q new && git -C new config alias.st '!true' && "
		"mkdir new/.idea && echo y >d/x.ws");
	for (size_t i = 0; i < n; i++) {
		known[i] = &said.place[i].place;
		snprintf(full[i], PATH_MAX, "%s/%s", root, said.place[i].path);
		known[i]->path = bytes(full[i]);
	}
	worker_start(&w, &plain);
	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = &msg;
	/* The known places come in two parts. */
	msg.known = known;
	msg.n_known = 2;
	msg.has_more = msg.more = true;
	assert_int_equal(call(&w, &req)->scanned->n_place, 0);
	msg.known = known + 2;
	msg.n_known = n - 2;
	msg.has_more = false;
	msg.below = &below;
	msg.n_below = 1;
	msg.has_resumed = msg.resumed = true;
	assert_int_equal(call(&w, &req)->scanned->n_place, 0);
	compare(&w);
	assert_int_equal(said.n_changes, 4);
	assert_change(".mcp.json", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("new/.git/config", KODA__CHANGE_KIND__CHANGE_DISARMED);
	/* The new worker cannot know what was new when the old one died. */
	assert_change("new/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("d/x.ws", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	must_sh("echo y >>node_modules/p/.idea/x && ln -sf /etc/passwd d/to/f");
	compare(&w);
	assert_change("node_modules/p/.idea", KODA__CHANGE_KIND__CHANGE_QUARANTINED);
	assert_change("d/to/f", KODA__CHANGE_KIND__CHANGE_OUTSIDE);
	must_sh("git config alias.st && test -e .git/hooks/pre-commit && test -e .envrc");
	compare(&w);
	assert_no_change();
	worker_end(&w);
}

/* ---- races ---- */

/* Another process keeps putting other things in the place of what the worker takes away. The
 * worker must not take them for the planted ones, must leave things outside alone, and in the
 * end nothing is left. */
static void
test_swapping(void **state)
{
	struct worker w;
	pid_t pid;

	must_sh("mkdir out \"$BASE/out\" && echo keep >\"$BASE/out/file\" && echo keep >out/file");
	worker_start(&w, &plain);
	scan(&w);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		if (chdir(root) < 0)
			_exit(1);
		for (;;) {
			int fd = open("f", O_WRONLY | O_CREAT, 0644);

			close(fd);
			rename("f", ".envrc");
			if (symlink("../out", "l") == 0)
				rename("l", ".envrc");
			mkdir("d", 0755);
			rename("d", ".vscode");
			if (symlink("out", "l") == 0)
				rename("l", ".vscode");
			unlink(".vscode");
		}
	}
	for (unsigned i = 0; i < 200; i++)
		compare(&w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	compare(&w);
	compare(&w);
	assert_no_change();
	must_sh("test ! -L .envrc && test ! -e .envrc && test ! -L .vscode && test ! -e .vscode && "
		"test \"$(cat \"$BASE/out/file\")\" = keep && test \"$(cat out/file)\" = keep");
	worker_end(&w);
}

/*
 * Another process keeps exchanging a configuration while the worker writes it anew, and nothing can
 * be kept, because the quarantine is gone. What the exchange caught stays beside the new file: the
 * worker must name it, and must not claim that it is in quarantine.
 */
static void
test_swapping_rewritten(void **state)
{
	struct worker w;
	unsigned aside = 0, missing = 0, claimed = 0;
	time_t end;
	pid_t pid;

	worker_start(&w, &plain);
	scan(&w);
	must_sh("git init -q new");
	compare(&w);
	must(rmdir(quarantine) == 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		if (chdir(root) < 0)
			_exit(1);
		for (unsigned i = 0;; i++) {
			FILE *f = fopen("f", "w");

			if (f == NULL)
				_exit(1);
			fputs("[alias]\n\tst = !true\n", f);
			fclose(f);
			rename("f", "new/.git/config");
			if (i % 8 == 0 && mkfifo("f", 0600) == 0)
				rename("f", "new/.git/config");
		}
	}
	end = time(NULL) + 60;
	while (aside == 0 && claimed == 0 && time(NULL) < end) {
		compare(&w);
		for (size_t k = 0; k < said.n_changes; k++) {
			char name[PATH_MAX];
			struct stat st;

			if (strcmp(said.change[k].path, "new/.git/config") != 0)
				continue;
			claimed += said.change[k].kind == KODA__CHANGE_KIND__CHANGE_QUARANTINED;
			if (said.change[k].kind != KODA__CHANGE_KIND__CHANGE_ASIDE)
				continue;
			snprintf(name, sizeof(name), "%s/new/.git/%s", root, said.change[k].detail);
			missing += lstat(name, &st) < 0;
			aside++;
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	must(mkdir(quarantine, 0700) == 0);
	assert_int_equal(claimed, 0);
	assert_int_equal(missing, 0);
	assert_true(aside > 0);
	worker_end(&w);
}

/* ---- invalid requests ---- */

static void
send_bad(struct worker *w, Koda__Request *req, Koda__ErrorCode code)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	size_t len;
	int r;

	arena_reset(&w->arena);
	req->id = w->id++;
	must(message_queue(&w->fs, &req->base, &err) > 0 && frame_flush(&w->fs, true, &err) == 1);
	while ((r = frame_next(&w->fs, &data, &len, &err)) == 0)
		must(frame_fill(&w->fs, true, &err) >= 0);
	w->reply = (const Koda__Reply *)message_unpack(&koda__reply__descriptor, data, len,
	    &w->arena, &err);
	must(w->reply != NULL);
	assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_ERROR);
	assert_int_equal(w->reply->error->code, code);
}

static void
test_order(void **state)
{
	struct worker w;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Scan msg = KODA__SCAN__INIT;
	Koda__Compare cmp = KODA__COMPARE__INIT;

	worker_start(&w, &plain);
	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &cmp;
	send_bad(&w, &req, KODA__ERROR_CODE__INVALID);
	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = &msg;
	msg.has_next = msg.next = true;
	send_bad(&w, &req, KODA__ERROR_CODE__INVALID);
	scan(&w);
	msg.has_next = false;
	send_bad(&w, &req, KODA__ERROR_CODE__INVALID);
	worker_end(&w);
}

/* A host that sends such requests is broken: the worker exits. */
static void
test_no_sense(void **state)
{
	static const char *const below[] = { "", "a", "/a/", "/a/../b", "/a//b" };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Place place = KODA__PLACE__INIT, *known[] = { &place };
	int status;

	req.op_case = KODA__REQUEST__OP_SCAN;
	for (size_t i = 0; i < 2 * N_ELEMENTS(below); i++) {
		Koda__Scan msg = KODA__SCAN__INIT;
		ProtobufCBinaryData one = bytes(below[i / 2]);
		struct worker w;

		req.scan = &msg;
		if (i % 2 == 0) {
			msg.below = &one;
			msg.n_below = 1;
		} else {
			place.kind = KODA__PLACE_KIND__PLACE_RULE;
			place.type = KODA__FILE_TYPE__FILE_REGULAR;
			place.path = one;
			msg.known = known;
			msg.n_known = 1;
		}
		worker_start(&w, &plain);
		send_bad(&w, &req, KODA__ERROR_CODE__PROTOCOL);
		must(waitpid(w.pid, &status, 0) == w.pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
		frame_done(&w.fs);
		arena_done(&w.arena);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, world_make, world_remove)

int
main(void)
{
	const struct CMUnitTest single[] = { TEST(places), TEST(allow_git_config),
		TEST(leads_into_a_cache), TEST(new_repository), TEST(look_that_grows),
		TEST(left_to_git), TEST(held_open), TEST(outside), TEST(quarantine_here),
		TEST(quarantine_on_another_file_system), TEST(too_much_to_copy),
		TEST(no_quarantine), TEST(overflow), TEST(few_watches), TEST(unlistable),
		TEST(users_unlistable), TEST(moved_known), TEST(moved_directory), TEST(resume),
		TEST(names), TEST(names_that_came), TEST(names_of_packages), TEST(names_unwatched),
		TEST(linked), TEST(linked_git), TEST(linked_too_much), TEST(linked_before),
		TEST(told), TEST(led), TEST(led_far), TEST(guarded), TEST(led_on_the_way),
		TEST(names_many), TEST(swapping), TEST(swapping_rewritten), TEST(watches_give_out),
		TEST(too_deep), TEST(quarantine_within), TEST(order), TEST(no_sense) };
	static struct CMUnitTest tests[2 * N_ELEMENTS(plants) + N_ELEMENTS(harmless) +
	    N_ELEMENTS(cached) + N_ELEMENTS(works) + N_ELEMENTS(lives) + N_ELEMENTS(hidings) +
	    N_ELEMENTS(single)];
	static char label[N_ELEMENTS(plants)][160];
	size_t n = 0;

	if (!has_inotify())
		return skip_all(NO_INOTIFY);
	setenv("GIT_AUTHOR_NAME", "a", 1);
	setenv("GIT_AUTHOR_EMAIL", "a@example.org", 1);
	setenv("GIT_COMMITTER_NAME", "a", 1);
	setenv("GIT_COMMITTER_EMAIL", "a@example.org", 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("GIT_EDITOR", "true", 1);
	for (size_t i = 0; i < N_ELEMENTS(plants); i++) {
		tests[n++] = (struct CMUnitTest){ plants[i].label, check_watched, world_make,
			world_remove, (void *)i };
		snprintf(label[i], sizeof(label[i]), "unwatched: %s", plants[i].label);
		tests[n++] = (struct CMUnitTest){ label[i], check_unwatched, world_make,
			world_remove, (void *)i };
	}
	for (size_t i = 0; i < N_ELEMENTS(harmless); i++)
		tests[n++] = (struct CMUnitTest){ harmless[i].label, check_harmless, world_make,
			world_remove, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(works); i++)
		tests[n++] = (struct CMUnitTest){ works[i].label, check_work, world_make,
			world_remove, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(hidings); i++)
		tests[n++] = (struct CMUnitTest){ hidings[i].label, check_hiding, world_make,
			world_remove, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(lives); i++)
		tests[n++] = (struct CMUnitTest){ lives[i].label, check_live, world_make,
			world_remove, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(cached); i++)
		tests[n++] = (struct CMUnitTest){ cached[i].label, check_cached, world_make,
			world_remove, (void *)i };
	memcpy(tests + n, single, sizeof(single));
	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
