/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of running commands in their kernel sandbox. The rows compare with the same command
 * without a sandbox, or with bwrap when it builds the same view.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/memory.h"
#include "bench/trees.h"
#include "shared/base/cleanup.h"

#define WIDE_DIRS   20000
#define SLOTS       50
#define FLOOD       (1ul << 30)
#define FLOOD_BRIEF (64ul << 20)
#define CONNECTS    2000
#define WORDS_MAX   256 /* words of bwrap's command line */

static struct {
	const char *root, *program, *helpers;
	char tree[PATH_MAX], big[PATH_MAX], wide[PATH_MAX], sources[PATH_MAX], connect[PATH_MAX];
	char flood[64], connects[16];
	size_t flood_size;
	struct koda_session *ses, *big_ses, *many;
	struct koda_slot *slot, *big_slot;
	char *view[WORDS_MAX + 1]; /* a bwrap command that builds the view of exec_cold */
	size_t n_view;
	double measured;
} w;

/* ---- the rows ---- */

static int
run(struct koda_slot *slot, const struct koda_command_options *o, struct koda_command_result *ret)
{
	struct koda_error e;

	if (koda_run(slot, o, ret, &e) < 0)
		return complain_error("run", &e);
	if (ret->status == 0)
		return 0;
	fprintf(stderr, "the command ended with %d: %.*s\n", ret->status, (int)ret->err.head_len,
	    ret->err.head);
	koda_command_result_done(ret);
	return -1;
}

static int
run_quietly(struct koda_slot *slot, const struct koda_command_options *o)
{
	struct koda_command_result result;

	if (run(slot, o, &result) < 0)
		return -1;
	koda_command_result_done(&result);
	return 0;
}

static const char *const just_true[] = { "true", NULL };

static int
cold_in(const char *root)
{
	const char *const argv[] = { w.program, "run", "--mode", "auto", "--root", root, "--",
		"true", NULL };

	return floor_run(argv, NULL);
}

int
command_cold(void *data)
{
	return cold_in(w.tree);
}

static int
cold_wide(void *data)
{
	return cold_in(w.wide);
}

static int
view_floor(void *data)
{
	return floor_run((const char *const *)w.view, NULL);
}

static int
warm_ours(void *data)
{
	const struct koda_command_options o = { .argv = just_true };

	return run_quietly(w.slot, &o);
}

static int
warm_floor(void *data)
{
	char out[16];

	return floor_capture(just_true, NULL, out, sizeof(out));
}

static int
big_ours(void *data)
{
	const struct koda_command_options o = { .argv = just_true };

	return run_quietly(w.big_slot, &o);
}

static int
bare_bwrap(void *data)
{
	static const char *const argv[] = { "bwrap", "--unshare-user", "--unshare-pid",
		"--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--ro-bind", "/", "/", "--", "true", NULL };

	return floor_run(argv, NULL);
}

static int
output_ours(void *data)
{
	const struct koda_command_options o = { .shell = w.flood, .max_output = 2u << 20 };
	struct koda_command_result result;
	int r;

	if (run(w.slot, &o, &result) < 0)
		return -1;
	r = result.out.total == w.flood_size ? 0 : -1;
	if (r < 0)
		fprintf(stderr, "%llu bytes came\n", (unsigned long long)result.out.total);
	koda_command_result_done(&result);
	return r;
}

static int
output_floor(void *data)
{
	char text[128];
	const char *const argv[] = { "sh", "-c", text, NULL };

	snprintf(text, sizeof(text), "%s | cat > /dev/null", w.flood);
	return floor_run(argv, NULL);
}

static int
connect_ours(void *data)
{
	const char *const argv[] = { w.connect, data, w.connects, NULL };
	const struct koda_command_options o = { .argv = argv };
	struct koda_command_result result;

	if (run(w.slot, &o, &result) < 0)
		return -1;
	w.measured = result.out.head_len > 0 ? strtod(result.out.head, NULL) : 0;
	koda_command_result_done(&result);
	return w.measured > 0 ? 0 : -1;
}

static int
connect_floor(void *data)
{
	const char *const argv[] = { w.connect, data, w.connects, NULL };
	char out[64];

	if (floor_capture(argv, w.tree, out, sizeof(out)) < 0)
		return -1;
	w.measured = strtod(out, NULL);
	return w.measured > 0 ? 0 : -1;
}

/* Without -pipe the compiler would write temporary files, and the speed of /tmp would affect the
 * figures. */
#define COMPILE "cc -O1 -pipe -c *.c"

static int
compile_ours(void *data)
{
	const struct koda_command_options o = { .shell = COMPILE, .cwd = w.sources };

	return run_quietly(w.slot, &o);
}

static int
compile_floor(void *data)
{
	static const char *const argv[] = { "sh", "-c", COMPILE, NULL };
	char out[16];

	return floor_capture(argv, w.sources, out, sizeof(out));
}

static const char *const git_status[] = { "git", "status", "--porcelain", NULL };

static int
status_ours(void *data)
{
	const struct koda_command_options o = { .argv = git_status };

	return run_quietly(w.big_slot, &o);
}

static int
status_floor(void *data)
{
	char out[16];

	return floor_capture(git_status, w.big, out, sizeof(out));
}

static char of_unix[] = "unix", of_tcp[] = "tcp", of_link[] = "link";

/* clang-format off */
static const struct row rows[] = {
	{ "exec_cold",          "us", 1e-3, { command_cold,  view_floor,     .batch = 4, .repeat = 1 }, 1.0, 4, 0 },
	{ "exec_cold_20k_dirs", "ms", 1e-6, { cold_wide,     command_cold,   .batch = 1, .repeat = 1 }, 0, 4, 320 },
	{ "exec_warm",          "us", 1e-3, { warm_ours,     warm_floor,     .batch = 16, .repeat = 1 }, 1.3, 4, 0 },
	{ "exec_warm_20k",      "us", 1e-3, { big_ours,      warm_floor,     .batch = 16, .repeat = 1 }, 1.6, 4, 0 },
	{ "exec_warm_bwrap",    "us", 1e-3, { warm_ours,     bare_bwrap,     .batch = 8, .repeat = 1 }, 0.25, 4, 0 },
	{ "output",             "ms", 1e-6, { output_ours,   output_floor,   .batch = 1, .repeat = 1 }, 1.0, 3, 0 },
	{ "connect_unix",       "us", 1e-3, { connect_ours,  connect_floor,  .data = of_unix, .batch = 1, .repeat = 1,
	                                      .measured = &w.measured }, 0, 4, 60 },
	{ "connect_tcp",        "us", 1e-3, { connect_ours,  connect_floor,  .data = of_tcp, .batch = 1, .repeat = 1,
	                                      .measured = &w.measured }, 0, 4, 40 },
	{ "symlink",            "us", 1e-3, { connect_ours,  connect_floor,  .data = of_link, .batch = 1, .repeat = 1,
	                                      .measured = &w.measured }, 0, 4, 45 },
	{ "inside_compile",     "ms", 1e-6, { compile_ours,  compile_floor,  .batch = 1, .repeat = 1 }, 1.05, 4, 0 },
	{ "inside_git_status",  "ms", 1e-6, { status_ours,   status_floor,   .batch = 2, .repeat = 1 }, 1.05, 4, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

/* Create what many developers have in their home. Each entry adds a mount to the sandbox. */
static void
make_home(void)
{
	static const char *const dirs[] = { "home/.cargo", "home/.cargo/bin", "home/.npm",
		"home/.cache", "home/.cache/pre-commit" };
	static const char *const files[] = { "home/.cargo/env", "home/.cargo/config.toml",
		"home/.cargo/credentials.toml" };

	make_dir("home");
	for (size_t i = 0; i < N_ELEMENTS(dirs); i++)
		make_dir(dirs[i]);
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		put_file(files[i], "\n", 1);
}

static void
make_tree(void)
{
	static const char *const dirs[] = { "tree", "tree/.vscode", "tree/.idea", "tree/.husky",
		"tree/.claude", "tree/.koda", "tree/.koda/agents", "tree/.koda/skills",
		"tree/src" };
	static const char *const files[] = { "tree/.mcp.json", "tree/.envrc",
		"tree/.pre-commit-config.yaml", "tree/.gitmodules", "tree/.vscode/tasks.json",
		"tree/.idea/workspace.xml" };

	for (size_t i = 0; i < N_ELEMENTS(dirs); i++)
		make_dir(dirs[i]);
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		put_file(files[i], "", 0);
}

/* Create directories only: a cold start scans them. */
static void
make_wide(void)
{
	char path[PATH_MAX];

	make_dir(w.wide);
	for (int i = 0; i < WIDE_DIRS; i++) {
		if (i % 100 == 0) {
			snprintf(path, sizeof(path), "%s/d%d", w.wide, i / 100);
			make_dir(path);
		}
		snprintf(path, sizeof(path), "%s/d%d/e%d", w.wide, i / 100, i % 100);
		make_dir(path);
	}
}

void
command_make(const struct setting *set)
{
	char home[PATH_MAX];

	w.root = set->root;
	w.program = set->program;
	w.helpers = set->helpers;
	w.flood_size = set->brief ? FLOOD_BRIEF : FLOOD;
	snprintf(w.flood, sizeof(w.flood), "yes | head -c %zu", w.flood_size);
	snprintf(w.connects, sizeof(w.connects), "%d", CONNECTS);
	snprintf(w.tree, sizeof(w.tree), "%s/tree", set->root);
	snprintf(w.big, sizeof(w.big), "%s/big", set->root);
	snprintf(w.wide, sizeof(w.wide), "%s/wide", set->root);
	snprintf(w.sources, sizeof(w.sources), "%s/src", w.tree);
	snprintf(w.connect, sizeof(w.connect), "%s/connect", w.tree);
	/* The user's own home would be in the view, and its size would affect the figures. */
	snprintf(home, sizeof(home), "%s/home", set->root);
	if (setenv("HOME", home, 1) < 0 || unsetenv("XDG_STATE_HOME") < 0 ||
	    unsetenv("XDG_CONFIG_HOME") < 0)
		err(1, "environment");
	make_home();
	make_tree();
	make_sources("tree/src", set->brief);
	copy_program(KODA_BENCH_CONNECT, w.connect);
	make_repository(w.tree);
}

static void
make_all(const struct setting *set)
{
	command_make(set);
	make_big("big");
	make_repository(w.big);
	make_wide();
}

/* ---- the same view without stage2 ---- */

static int
add_word(const char *word)
{
	if (w.n_view == WORDS_MAX)
		errx(1, "the view has more words than %d", WORDS_MAX);
	w.view[w.n_view] = strdup(word);
	if (w.view[w.n_view] == NULL)
		err(1, "view");
	w.view[++w.n_view] = NULL;
	return 0;
}

/* Add an argument of our bwrap command line to w.view, unless only stage2 uses it. Returns 1 at
 * "--", which ends the iteration, and 0 otherwise. */
static int
on_argument(void *data, const char *argument, const char *comment)
{
	size_t *skip = data;

	if (strcmp(argument, "--") == 0)
		return 1;
	if (strcmp(argument, "--cap-add") == 0)
		*skip = 2;
	else if (strcmp(argument, "--as-pid-1") == 0)
		*skip = 1;
	if (*skip > 0) {
		(*skip)--;
		return 0;
	}
	/* Each of our sandboxes creates and removes its quarantine, so the source of this mount may
	 * be missing when bwrap runs alone. Mount a directory that always exists instead. */
	if (strstr(argument, "/koda-sandbox/quarantine/") != NULL)
		argument = w.sources;
	return add_word(argument);
}

/* Decode s in place: mountinfo writes blanks and backslashes as three octal digits. */
static void
unescape(char *s)
{
	char *to = s;

	for (; *s != '\0'; s++) {
		if (s[0] == '\\' && s[1] != '\0' && s[2] != '\0' && s[3] != '\0') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

static size_t
count_mounts(const char *mounts, const char *path)
{
	cleanup_free char *copy = strdup(mounts);
	char *save = NULL, at[PATH_MAX];
	size_t n = 0;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1) {
			unescape(at);
			n += strcmp(at, path) == 0;
		}
	return n;
}

/* Add to w.view the mounts in `ours`, the mountinfo of one of our commands, that are missing in
 * `coarse`, the mountinfo that the words so far produce. Returns the number of mounts added. */
static size_t
add_mounts(const char *ours, const char *coarse)
{
	cleanup_free char *copy = strdup(ours);
	char *save = NULL, at[PATH_MAX], options[256];
	size_t n = 0;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%*s %*s %*s %*s %4095s %255s", at, options) != 2)
			continue;
		unescape(at);
		if (count_mounts(coarse, at) > 0)
			continue;
		if (access(at, F_OK) < 0) {
			/* The path exists only in our sandbox, where stage2 keeps it private. */
			add_word("--tmpfs");
			add_word(at);
		} else {
			add_word(strncmp(options, "ro", 2) == 0 ? "--ro-bind" : "--bind");
			add_word(at);
			add_word(at);
		}
		n++;
	}
	return n;
}

#define MOUNTS_MAX (256u << 10)

static int
make_view(void)
{
	static const char *const show[] = { "cat", "/proc/self/mountinfo", NULL };
	const struct koda_command_options o = { .argv = show };
	cleanup_free char *coarse = malloc(MOUNTS_MAX), *ours = NULL;
	static bool said;
	struct koda_command_result result;
	struct koda_error e;
	size_t skip = 0, words, more, binds = 0;

	for (size_t i = 0; i < w.n_view; i++)
		free(w.view[i]);
	w.n_view = 0;
	add_word("bwrap");
	if (koda_sandbox_arguments(w.tree, KODA_AUTO, koda_session_policy(w.ses), on_argument,
		&skip, &e) < 0)
		return complain_error("arguments", &e);
	words = w.n_view;
	add_word("--");
	for (size_t i = 0; show[i] != NULL; i++)
		add_word(show[i]);
	if (coarse == NULL ||
	    floor_capture((const char *const *)w.view, NULL, coarse, MOUNTS_MAX) < 0 ||
	    run(w.slot, &o, &result) < 0)
		return -1;
	ours = strndup(result.out.head, result.out.head_len);
	koda_command_result_done(&result);
	if (ours == NULL)
		err(1, "view");
	while (w.n_view > words)
		free(w.view[--w.n_view]);
	more = add_mounts(ours, coarse);
	for (size_t i = 0; i < w.n_view; i++)
		binds += strcmp(w.view[i], "--bind") == 0 || strcmp(w.view[i], "--ro-bind") == 0;
	add_word("--");
	add_word("true");
	if (!said)
		printf("exec_cold: bwrap makes %zu binds, of which %zu are stage2's in ours\n",
		    binds, more);
	said = true;
	return 0;
}

/* ---- processes ---- */

static struct koda_session *
open_session(const char *root)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;
	struct koda_error e;

	options.root = root;
	options.mode = KODA_AUTO;
	options.helper_dir = w.helpers;
	options.commands = true;
	ses = koda_session_open(&options, &e);
	if (ses == NULL)
		complain_error("session", &e);
	return ses;
}

/* Acquire a slot and run one command in it, so that one-time work is done. Returns the slot, or
 * NULL after printing why. */
static struct koda_slot *
acquire(struct koda_session *ses)
{
	const struct koda_command_options o = { .argv = just_true };
	struct koda_error e;
	struct koda_slot *slot = koda_slot_acquire(ses, NULL, &e);

	if (slot == NULL) {
		complain_error("slot", &e);
		return NULL;
	}
	return run_quietly(slot, &o) < 0 ? NULL : slot;
}

static void
stop_processes(void)
{
	koda_session_close(w.ses);
	koda_session_close(w.big_ses);
	w.ses = w.big_ses = NULL;
}

static int
start_processes(void)
{
	w.ses = open_session(w.tree);
	w.big_ses = open_session(w.big);
	if (w.ses != NULL && w.big_ses != NULL && (w.slot = acquire(w.ses)) != NULL &&
	    (w.big_slot = acquire(w.big_ses)) != NULL && make_view() == 0)
		return 0;
	stop_processes();
	return -1;
}

/* ---- memory ---- */

#define PRIVATE_REACH (0.6 * 1e6 / 1024)
#define PSS_REACH     (1e6 / 1024)

/* Measure slots in which no command runs. Each consists of bwrap, stage2 with its template, and a
 * worker. */
static size_t
measure_memory(struct value *ret)
{
	struct koda_session *ses = open_session(w.tree);
	struct memory m[SLOTS + 2];
	double private[SLOTS + 2], pss[SLOTS + 2];
	bool has_private = true, has_pss = true;
	size_t n = 0;

	/* The rows have the other two slots. */
	for (size_t i = 0; ses != NULL && i < SLOTS - 2; i++)
		if (acquire(ses) == NULL)
			return 0;
	n = memory_of_families("bwrap", m, N_ELEMENTS(m));
	for (size_t i = 0; i < n && i < N_ELEMENTS(m); i++) {
		private[i] = m[i].private;
		pss[i] = m[i].pss;
		has_private = has_private && m[i].has_private;
		has_pss = has_pss && m[i].has_pss;
	}
	koda_session_close(ses);
	if (n != SLOTS)
		errx(1, "%zu sandboxes are there, not %d", n, SLOTS);
	ret[0] = (struct value){ "slot_private", "KiB", figure_of(private, SLOTS, false),
		has_private, PRIVATE_REACH };
	ret[1] = (struct value){ "slot_pss_50", "KiB", figure_of(pss, SLOTS, false), has_pss,
		PSS_REACH };
	return 2;
}

const struct group command_group = { "commands", rows, N_ELEMENTS(rows), make_all, start_processes,
	stop_processes, measure_memory, NULL };
