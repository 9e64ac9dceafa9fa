/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/sandbox/bwrap.c: the shapes of projects: policy -> plan -> arguments, compared with
 * golden files; and bubblewrap itself, started with such arguments by an ordinary user.
 * KODA_GOLDEN_WRITE=1 writes the golden files again: review the difference.
 */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "host/policy/trust.h"
#include "host/sandbox/bwrap.h"
#include "host/sandbox/view_plan.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

#define RULES_MAX 8

/* ---- golden files ---- */

/* FULL: the mode's policy with all its rules; otherwise only the rules that the shape names. */
enum { FULL = 1, NO_HOME = 2 };

static const struct shape {
	const char *name, *root, *home;
	enum koda_mode mode;
	unsigned flags;
	const char *write[RULES_MAX], *deny_write[RULES_MAX], *deny_read[RULES_MAX],
	    *holes[RULES_MAX], *caches[RULES_MAX];
	struct view_place places[RULES_MAX];
} shapes[] = {
	{ "git-repository", "/home/user/project", "/home/user", KODA_AUTO, FULL,
	    .caches = { "/home/user/.cargo", "/home/user/.npm", "/home/user/.cache" },
	    .places = { { VIEW_PLACE_GIT_DIR, "/home/user/project/.git", 8, 20, true },
		{ VIEW_PLACE_PROTECTED, "/home/user/project/.git/config", 8, 21, false },
		{ VIEW_PLACE_PROTECTED, "/home/user/project/.git/hooks", 8, 22, true },
		{ VIEW_PLACE_GIT_DIR, "/home/user/project/vendor/lib/.git", 8, 30, true },
		{ VIEW_PLACE_PROTECTED, "/home/user/project/vendor/lib/.git/config", 8, 31, false },
		{ VIEW_PLACE_RULE, "/home/user/project/.vscode", 8, 40, true } } },
	{ "worktree", "/home/user/tree", "/home/user", KODA_AUTO, 0,
	    .write = { "/home/user/tree", "/home/user/main/.git/worktrees/tree",
		"/home/user/main/.git/objects" },
	    .deny_write = { "/home/user/tree/.git/hooks", "/home/user/tree/.git/config" },
	    .places = { { VIEW_PLACE_PROTECTED, "/home/user/tree/.git", 8, 20, false },
		{ VIEW_PLACE_PROTECTED, "/home/user/main/.git/worktrees/tree/commondir", 8, 21,
		    false },
		{ VIEW_PLACE_PROTECTED, "/home/user/main/.git/worktrees/tree/gitdir", 8, 22,
		    false } } },
	{ "no-repository", "/home/user/plain", "/home/user", KODA_SAFE, 0,
	    .write = { "/home/user/plain" },
	    .deny_write = { "/home/user/plain/.git/hooks", "/home/user/plain/.git/config" } },
	{ "home", "/home/user", "/home/user", KODA_AUTO, FULL,
	    .caches = { "/home/user/.cargo", "/home/user/.npm", "/home/user/.cache" } },
	{ "odd-name", "/srv/a b/it's \"q\"\nr\xc3\xa9sum\xc3\xa9 \xff", "/home/user", KODA_AUTO, 0,
	    .write = { "/srv/a b/it's \"q\"\nr\xc3\xa9sum\xc3\xa9 \xff" },
	    .deny_write = { "/srv/a b/it's \"q\"\nr\xc3\xa9sum\xc3\xa9 \xff/.git/config" },
	    .deny_read = { "/srv/a b/it's \"q\"\nr\xc3\xa9sum\xc3\xa9 \xff/no\tway" } },
	{ "below-tmp", "/tmp/work/project", "/tmp/work/home", KODA_AUTO, 0,
	    .write = { "/tmp/work/project" }, .deny_write = { "/tmp/work/project/.git/config" },
	    .caches = { "/tmp/work/home/.cache" } },
	{ "below-run", "/run/media/user/disk/project", "/home/user", KODA_AUTO, 0,
	    .write = { "/run/media/user/disk/project" },
	    .deny_write = { "/run/media/user/disk/project/.git/config" } },
	{ "deny-read", "/home/user/project", "/home/user", KODA_AUTO, 0,
	    .write = { "/home/user/project" },
	    .deny_read = { "/home/user/project/secret", "/home/user/project/a/key.pem",
		"/home/user/project/missing", "/home/user/.ssh", "/run/secrets",
		"/home/user/project/secret/open/not" },
	    .holes = { "/home/user/project/secret/open", "/home/user/project/a/key.pem",
		"/home/user/project/src" } },
	{ "deny-home", "/home/user/project", "/home/user", KODA_AUTO, 0,
	    .write = { "/home/user/project" }, .deny_write = { "/home/user/project/.git/config" },
	    .deny_read = { "/home/user" },
	    .holes = { "/home/user/project", "/home/user/.gitconfig" },
	    .caches = { "/home/user/.cargo" } },
	{ "plan", "/home/user/project", "/home/user", KODA_PLAN, FULL,
	    .caches = { "/home/user/.cargo" } },
	{ "plan-below-tmp", "/tmp/work/project", "/tmp/work/home", KODA_PLAN, FULL,
	    .write = { NULL } },
	{ "rule-on-the-root", "/home/user/project", "/home/user", KODA_AUTO, 0,
	    .write = { "/home/user/project", "/home/user/other", "/home/user/other/inner" },
	    .deny_write = { "/home/user/project", "/home/user/other/a/b/c" } },
	{ "no-home", "/srv/project", "", KODA_AUTO, NO_HOME, .write = { "/srv/project" } },
};

static void
add_rules(struct policy *p, enum koda_list list, const char *const *rules)
{
	for (size_t i = 0; i < RULES_MAX && rules[i] != NULL; i++)
		assert_int_equal(policy_list_add(&p->list[list], rules[i], NULL), 0);
}

static void
derive(const struct shape *s, struct policy *p)
{
	struct koda_error err = { 0 };

	if ((s->flags & FULL) != 0) {
		cleanup_free char *home = strdup(getenv("HOME")), *path = strdup(getenv("PATH"));

		assert_int_equal(setenv("HOME", s->home, 1), 0);
		assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
		assert_int_equal(unsetenv("NPM_CONFIG_PREFIX"), 0);
		if (policy_for_agent(s->mode, s->root, p, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(setenv("HOME", home, 1), 0);
		assert_int_equal(setenv("PATH", path, 1), 0);
	} else {
		policy_init(p);
	}
	add_rules(p, KODA_ALLOW_WRITE, s->write);
	add_rules(p, KODA_DENY_WRITE_WITHIN_ALLOW, s->deny_write);
	add_rules(p, KODA_DENY_READ, s->deny_read);
	add_rules(p, KODA_ALLOW_READ_WITHIN_DENY, s->holes);
}

static void
print_bytes(FILE *to, const char *text)
{
	char shown[4 * PATH_MAX];

	bytes_show(shown, sizeof(shown), text, strlen(text));
	fputs(shown, to);
}

static void
print_arguments(FILE *to, const struct bwrap_arguments *a)
{
	for (size_t i = 0; i < a->n; i++) {
		bool begins = a->comment[i][0] != '\0' || strcmp(a->v[i], "--chdir") == 0;

		fputs(i == 0 ? "" : begins ? "\n" : " ", to);
		print_bytes(to, a->v[i]);
	}
	fputs("\n", to);
}

static void
print_plan(FILE *to, const struct view *v)
{
	static const char *const kinds[] = { "", "pin", "read-only", "hide", "hole",
		"writable hole" };

	for (size_t i = 0; i < v->n_caches; i++) {
		fprintf(to, "%-13s ", "cache");
		print_bytes(to, v->cache[i]);
		fputs("\n", to);
	}
	for (size_t i = 0; i < v->n_mounts; i++) {
		const struct view_mount *m = &v->mount[i];

		fprintf(to, "%-13s ", kinds[m->kind]);
		print_bytes(to, m->path);
		fprintf(to, "  (%s", m->why);
		if (m->ino != 0)
			fprintf(to, ", %ju:%ju", (uintmax_t)m->dev, (uintmax_t)m->ino);
		fputs(")\n", to);
	}
}

static char *
print_shape(const struct shape *s)
{
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	struct bwrap_writable writable[RULES_MAX + 4];
	struct view_input in = { .policy = &p, .mode = s->mode, .root = s->root, .home = s->home };
	struct bwrap_input args = { .stage2_fd = 5, .uid = 1000 };
	struct koda_error err = { 0 };
	char *text = NULL;
	size_t size;
	FILE *to;

	derive(s, &p);
	in.caches = s->caches;
	while (in.n_caches < RULES_MAX && s->caches[in.n_caches] != NULL)
		in.n_caches++;
	in.places = s->places;
	while (in.n_places < RULES_MAX && s->places[in.n_places].path != NULL)
		in.n_places++;
	if (view_plan(&in, &v, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(v.n_writable <= N_ELEMENTS(writable));
	args.writable = writable;
	/* The first path by descriptor, as in the host. */
	for (size_t i = 0; i < v.n_writable; i++)
		if (view_binds(&v, v.writable[i]))
			writable[args.n_writable++] =
			    (struct bwrap_writable){ v.writable[i], -1, false };
	writable[0].fd = 6;
	args.caches_fd = 7;
	args.layers_fd = -1;
	if (v.n_caches > 0) {
		args.caches = s->home;
		args.layers = "/state/koda-sandbox/caches/project-1";
	}
	args.shown = (const char *const *)v.shown;
	args.n_shown = v.n_shown;
	if (bwrap_arguments(&args, &a, &err) < 0)
		fail_msg("%s", err.message);
	assert_null(a.v[a.n]);
	for (size_t i = 0; i < a.n; i++)
		assert_non_null(a.comment[i]);
	assert_string_equal(a.v[a.n_options], "--");
	assert_int_equal(a.n_options + 2, a.n);

	to = open_memstream(&text, &size);
	assert_non_null(to);
	print_arguments(to, &a);
	fputs("\n", to);
	print_plan(to, &v);
	assert_int_equal(fclose(to), 0);
	return text;
}

static char *
read_all(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	if (fd < 0 || read(fd, text, (1 << 20) - 1) < 0)
		text[0] = '\0';
	return text;
}

static void
golden(void **state)
{
	const struct shape *s = &shapes[(uintptr_t)*state];
	cleanup_free char *made = print_shape(s), *want = NULL;
	char path[PATH_MAX];
	FILE *to;

	snprintf(path, sizeof(path), "%s/tests/unit/golden/%s", KODA_TEST_SOURCE_DIR, s->name);
	if (getenv("KODA_GOLDEN_WRITE") != NULL) {
		to = fopen(path, "we");
		assert_non_null(to);
		fputs(made, to);
		assert_int_equal(fclose(to), 0);
	}
	want = read_all(path);
	assert_string_equal(made, want);
}

/* ---- comments, for people ---- */

static void
each_option_has_a_comment(void **state)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	const struct bwrap_writable w = { "/srv/project", -1, false };
	struct bwrap_input in = { .writable = &w, .n_writable = 1, .stage2_fd = 7 };

	assert_int_equal(bwrap_arguments(&in, &a, NULL), 0);
	for (size_t i = 0; i < a.n; i++) {
		bool follows = i > 0 && strcmp(a.v[i - 1], "0700") == 0;

		if (strncmp(a.v[i], "--", 2) != 0 || strcmp(a.v[i], "--tmpfs") == 0 || follows ||
		    strcmp(a.v[i], "--chdir") == 0)
			continue;
		if (a.comment[i][0] == '\0')
			fail_msg("'%s' has no comment", a.v[i]);
	}
	/* Other users can see the command line: what stays on it reveals nothing. */
	assert_string_equal(a.v[a.n - 1], "/proc/self/fd/7");
}

static void
a_relative_place_is_refused(void **state)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	const struct bwrap_writable w = { "--dev-bind", -1, false };
	struct koda_error err = { 0 };

	assert_int_equal(bwrap_arguments(&(struct bwrap_input){ .writable = &w, .n_writable = 1 },
			     &a, &err),
	    -1);
	assert_int_equal(err.code, KODA_INVALID);
}

/* ---- bubblewrap itself ---- */

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

/* root and home are below the scratch directory. The script's $3 is the directory that must not
 * be writable. */
static const struct {
	const char *label, *root, *home;
	bool writes, by_fd;
} starts[] = {
	{ "bwrap starts: a project below a private directory", "work/project", "work/home", true,
	    false },
	{ "bwrap starts: by descriptor", "work/project", "work/home", true, true },
	{ "bwrap starts: spaces, quotes, newline, bytes", "a b/it's \"q\"\nr\xc3\xa9 \xff",
	    "work/home", true, true },
	{ "bwrap starts: the home directory", "home", "home", true, true },
	{ "bwrap starts: nothing writable", "work/project", "work/home", false, false },
	{ "bwrap starts: a root within the home directory, nothing writable", "home/project",
	    "home", false, false },
};

static const char script[] =
    "cd / && cd -- \"$1\" || exit 10\n"
    "[ \"$(cat file)\" = content ] || exit 11\n"
    "if [ \"$2\" = 1 ]; then echo new >new || exit 12\n"
    "else ! { echo new >new; } 2>/dev/null || exit 13; fi\n"
    "! { echo x >\"$3/x\"; } 2>/dev/null || exit 14\n"
    "[ -d /run/user/$(id -u) ] && [ -w /run/user/$(id -u) ] || exit 15\n"
    "[ -z \"$(ls /tmp | grep -v koda-test)\" ] || exit 16\n"
    "echo x >/tmp/x && echo x >/dev/shm/x && echo x >/var/tmp/x || exit 17\n"
    "[ $$ = 1 ] || exit 18\n"
    "! unshare -U true 2>/dev/null || exit 19\n"
    "[ -z \"$KODA_CANARY\" ] || exit 20\n"
    "grep -q '^CapEff:\t0000000000280002$' /proc/self/status || exit 21\n"
    "exit 42\n";

static void
make_directory(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
}

static int
run_bwrap(const struct bwrap_arguments *a, const char *const *more)
{
	const char *argv[16] = { "bwrap", "--args", NULL };
	cleanup_close int fd = memfd_create("arguments", 0);
	char number[16];
	size_t n = 2;
	int status;
	pid_t pid;

	assert_true(fd >= 0);
	snprintf(number, sizeof(number), "%d", fd);
	argv[n++] = number;
	for (size_t i = 0; i < a->n_options; i++)
		assert_true(write(fd, a->v[i], strlen(a->v[i]) + 1) > 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	for (size_t i = a->n_options; i < a->n; i++)
		argv[n++] = a->v[i];
	while (*more != NULL)
		argv[n++] = *more++;
	argv[n] = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execvp(argv[0], (char **)(uintptr_t)argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
starts_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	char base[PATH_MAX], tmp[PATH_MAX - 256], root[2 * PATH_MAX], home[2 * PATH_MAX],
	    outside[2 * PATH_MAX], path[3 * PATH_MAX];
	struct view_input in = { .policy = &p, .mode = KODA_AUTO, .root = root, .home = home };
	struct bwrap_writable writable = { root, -1, false };
	struct bwrap_input args = { .writable = &writable, .uid = getuid() };
	cleanup_close int program = open("/bin/sh", O_PATH), dir = -1;
	struct koda_error err = { 0 };
	int fd;

	snprintf(tmp, sizeof(tmp), "%s/koda-test-bwrap.XXXXXX", getenv("TMPDIR"));
	assert_non_null(mkdtemp(tmp));
	assert_non_null(realpath(tmp, base));
	snprintf(root, sizeof(root), "%s/%s", base, starts[i].root);
	snprintf(home, sizeof(home), "%s/%s", base, starts[i].home);
	snprintf(outside, sizeof(outside), "%s/outside", base);
	make_directory(root);
	make_directory(home);
	make_directory(outside);
	snprintf(path, sizeof(path), "%s/file", root);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_int_equal(write(fd, "content\n", 8), 8);
	close(fd);

	assert_int_equal(setenv("KODA_CANARY", "seen", 1), 0);
	policy_init(&p);
	if (starts[i].writes)
		assert_int_equal(policy_list_add(&p.list[KODA_ALLOW_WRITE], root, NULL), 0);
	assert_int_equal(view_plan(&in, &v, NULL), 0);
	assert_int_equal(v.n_writable, starts[i].writes ? 1 : 0);
	if (starts[i].by_fd)
		dir = writable.fd = open(root, O_PATH | O_DIRECTORY);
	args.n_writable = v.n_writable;
	args.shown = (const char *const *)v.shown;
	args.n_shown = v.n_shown;
	args.stage2_fd = program;
	if (bwrap_arguments(&args, &a, &err) < 0)
		fail_msg("%s", err.message);
	/* The script runs with the shell's default PATH: it has no environment. */
	assert_int_equal(run_bwrap(&a,
			     (const char *const[]){ "-c", script, "sh", root,
				 starts[i].writes ? "1" : "0", outside, NULL }),
	    42);
	snprintf(path, sizeof(path), "%s/new", root);
	assert_int_equal(access(path, F_OK), starts[i].writes ? 0 : -1);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void
certificates_are_shown_read_only(void **state)
{
	for (int with = 0; with < 2; with++) {
		const struct bwrap_input in = { .certificates = with ? "/tmp/c" : NULL };
		cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
		struct koda_error err = { 0 };
		bool found = false;

		assert_int_equal(bwrap_arguments(&in, &a, &err), 0);
		for (size_t i = 2; i < a.n; i++)
			found |= strcmp(a.v[i], BWRAP_CERTIFICATES) == 0 &&
			    strcmp(a.v[i - 1], "/tmp/c") == 0 &&
			    strcmp(a.v[i - 2], "--ro-bind") == 0;
		assert_int_equal(found, with);
	}
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(each_option_has_a_comment),
		cmocka_unit_test(a_relative_place_is_refused),
		cmocka_unit_test(certificates_are_shown_read_only),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(shapes) + N_ELEMENTS(starts)];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(shapes); i++)
		tests[n++] = (struct CMUnitTest){ shapes[i].name, golden, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(starts); i++)
		tests[n++] =
		    (struct CMUnitTest){ starts[i].label, starts_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("bwrap", tests, NULL, NULL);
}
