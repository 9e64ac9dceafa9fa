/* SPDX-License-Identifier: Apache-2.0 */
/* host/policy/trust.c: what each mode trusts: places, hosts, and that each row has a reason. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "host/machine/machine.h"
#include "host/policy/defaults.h"
#include "host/policy/trust.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "shared/rules/egress.h"
#include "tests/kit/cases.h"

static char root[PATH_MAX]; /* canonical */

static int
make_root(void **state)
{
	char name[PATH_MAX];
	const char *tmp = getenv("TMPDIR");

	snprintf(name, sizeof(name), "%s/trust.XXXXXX", tmp != NULL ? tmp : "/tmp");
	return mkdtemp(name) != NULL && realpath(name, root) != NULL ? 0 : -1;
}

static int
remove_root(void **state)
{
	return rmdir(root);
}

static void
derive(enum koda_mode mode, const char *where, struct policy *ret)
{
	struct koda_error err = { 0 };

	if (policy_for_agent(mode, where, ret, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(policy_check(ret, NULL), 0);
}

static const struct {
	const char *label;
	enum koda_mode mode;
	uint8_t depth;
	unsigned effective;
	enum koda_trust trust;
	bool writes, network;
} modes[] = {
	{ "dials: plan", KODA_PLAN, 3, 8, KODA_TRUST_FORBID, false, false },
	{ "dials: safe", KODA_SAFE, 5, 8, KODA_TRUST_REQUIRE, true, true },
	{ "dials: auto", KODA_AUTO, 10, 10, KODA_TRUST_AUTO, true, true },
};

static void
dials(void **state)
{
	size_t i = (uintptr_t)*state, n = 0;
	cleanup(policy_done) struct policy p;
	const struct policy_list *l;
	char git[PATH_MAX + 16];

	derive(modes[i].mode, root, &p);
	assert_int_equal(p.depth, modes[i].depth);
	assert_int_equal(policy_effective_depth(&p), modes[i].effective);
	assert_int_equal(p.trust, modes[i].trust);

	l = &p.list[KODA_ALLOW_WRITE];
	assert_true(l->present);
	assert_int_equal(l->n, modes[i].writes ? 1 : 0);
	if (modes[i].writes)
		assert_string_equal(l->v[0], root);

	l = &p.list[KODA_DENY_WRITE_WITHIN_ALLOW];
	snprintf(git, sizeof(git), "%s/.git/hooks", root);
	assert_string_equal(l->v[0], git);
	snprintf(git, sizeof(git), "%s/.git/config", root);
	assert_string_equal(l->v[1], git);

	for (size_t d = 0; default_domains[d].pattern != NULL; d++)
		n += 1 + default_domains[d].apex;
	l = &p.list[KODA_ALLOWED_DOMAINS];
	assert_true(l->present);
	assert_int_equal(l->n, modes[i].network ? n : 0);

	assert_false(p.list[KODA_DENY_READ].present);
	assert_false(p.list[KODA_ALLOW_READ_WITHIN_DENY].present);
	assert_false(p.list[KODA_DENIED_DOMAINS].present);
	for (size_t f = 0; f < KODA_N_FLAGS; f++)
		assert_int_equal(p.flag[f], f == KODA_ALLOW_LOCAL_BINDING);
	assert_int_equal(p.limit[KODA_WALL_TIME_SECS].value, 60);
	assert_int_equal(p.limit[KODA_MAX_PROCESSES].value, 1024);
	assert_int_equal(p.limit[KODA_MAX_FILE_BYTES].value, 4294967296);
	assert_int_equal(p.limit[KODA_MAX_OPEN_FDS].value, 4096);
	assert_int_equal(p.limit[KODA_MAX_OUTPUT_BYTES].value, 2097152);
	assert_false(p.limit[KODA_CPU_TIME_SECS].set);
	assert_true(p.limit[KODA_MAX_RSS_BYTES].set);
	assert_int_equal(p.limit[KODA_MAX_RSS_BYTES].value, machine_memory_default());
	assert_null(p.ca_bundle);
}

static bool
denies(const struct policy *p, const char *dir, const char *name)
{
	const struct policy_list *l = &p->list[KODA_DENY_WRITE_WITHIN_ALLOW];
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], path) == 0)
			return true;
	}
	return false;
}

/* ---- what the host would run ---- */

static const char *
home_of_test(void)
{
	static char home[PATH_MAX];

	assert_non_null(realpath(getenv("HOME"), home));
	return home;
}

static void
each_row_of_the_project_is_a_rule(void **state)
{
	struct access_subject who = { .mode = KODA_AUTO, .home = home_of_test() };
	cleanup(policy_done) struct policy p;
	struct access_verdict v;
	char path[PATH_MAX + 64], *star;
	size_t n = 0;

	derive(KODA_AUTO, root, &p);
	who.policy = &p;
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		if ((d->where & DEFAULT_PROJECT) == 0)
			continue;
		n++;
		if (strchr(d->name, '*') == NULL && !denies(&p, root, d->name))
			fail_msg("no rule for '%s'", d->name);
		/* At any depth, too; git's own places are built in. */
		snprintf(path, sizeof(path), "%s/packages/app/%s/x", root, d->name);
		star = strchr(path, '*');
		if (star != NULL)
			*star = 'a';
		v = access_judge(&who, ACCESS_OP_WRITE, path, NULL);
		if (v.allowed)
			fail_msg("'%s' may be written", path);
		assert_int_equal(v.rule,
		    strncmp(d->name, ".git/", 5) == 0 ? ACCESS_RULE_GIT_CONFIG
						      : ACCESS_RULE_DENY_NAME);
	}
	assert_true(n > 20);
}

/* The user named a project that is inside a place of a row: all other rules apply there. */
static void
a_root_in_a_named_place_is_writable(void **state)
{
	struct access_subject who = { .mode = KODA_AUTO, .home = "/nobody" };
	cleanup(policy_done) struct policy p;

	derive(KODA_AUTO, "/w/.claude/worktrees/p", &p);
	who.policy = &p;
	assert_true(
	    access_judge(&who, ACCESS_OP_WRITE, "/w/.claude/worktrees/p/src/x", NULL).allowed);
	assert_false(
	    access_judge(&who, ACCESS_OP_WRITE, "/w/.claude/worktrees/p/.claude/x", NULL).allowed);
	assert_false(access_judge(&who, ACCESS_OP_WRITE, "/w/.claude/worktrees/p/a/.vscode/x", NULL)
			 .allowed);
}

/* Each row gives its reason in words that complete a sentence. */
static void
each_row_has_a_reason(void **state)
{
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		const size_t len = strlen(d->reason);

		if (len < 8 || d->reason[len - 1] == '.' || strchr(d->reason, ' ') == NULL)
			fail_msg("'%s': '%s'", d->name, d->reason);
		if ((d->where & DEFAULT_HOME) != 0)
			assert_null(strchr(d->name, '*'));
	}
}

static void
rows_of_the_home_directory_where_something_is_writable(void **state)
{
	static const char *const in_caches[] = { ".cargo/bin", ".cargo/env", ".cargo/config.toml" };
	const char *home = home_of_test();
	cleanup(policy_done) struct policy p, all;

	/* The root is elsewhere: in the home directory commands can write only the caches. */
	derive(KODA_AUTO, root, &p);
	for (size_t i = 0; i < N_ELEMENTS(in_caches); i++)
		assert_true(denies(&p, home, in_caches[i]));
	assert_false(denies(&p, home, ".bashrc"));
	assert_false(denies(&p, home, ".ssh"));

	derive(KODA_AUTO, home, &all);
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		if (d->where != DEFAULT_TOLD && strchr(d->name, '*') == NULL &&
		    !denies(&all, home, d->name))
			fail_msg("no rule for '%s'", d->name);
	}
	policy_done(&all);

	/* A root that contains the home directory reaches it too. */
	derive(KODA_AUTO, "/", &all);
	assert_true(denies(&all, home, ".bashrc"));
	assert_true(denies(&all, home, ".ssh"));
	policy_done(&all);
}

/* Users who keep their start-up files in a repository have links to it. */
static void
rows_of_the_home_directory_that_are_links_into_the_root(void **state)
{
	cleanup(policy_done) struct policy p, other;
	char file[PATH_MAX + 16], link[PATH_MAX + 16];

	snprintf(file, sizeof(file), "%s/kshrc", root);
	snprintf(link, sizeof(link), "%s/.kshrc", home_of_test());
	assert_int_equal(close(open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)), 0);
	assert_int_equal(symlink(file, link), 0); /* fails if the user has one */
	derive(KODA_AUTO, root, &p);
	derive(KODA_AUTO, "/usr", &other);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(file), 0);
	assert_true(denies(&p, root, "kshrc"));
	assert_false(denies(&other, root, "kshrc"));
}

/* The link may be in a directory of the user's, and its target may be missing; links to programs
 * stay writable, since programs are the project's code. */
static void
links_below_the_rows_of_the_home_directory(void **state)
{
	static const struct {
		const char *dir, *below, *name, *to;
		bool denied;
	} links[] = {
		{ ".guile", ".guile/a", ".guile/a/link", "missing/guile", true },
		{ "bin", "bin/a", "bin/a/link", "missing/program", false },
	};
	char path[3][PATH_MAX + 32], to[PATH_MAX + 32];

	for (size_t i = 0; i < N_ELEMENTS(links); i++) {
		cleanup(policy_done) struct policy p;
		bool made;

		snprintf(path[0], sizeof(path[0]), "%s/%s", home_of_test(), links[i].dir);
		snprintf(path[1], sizeof(path[1]), "%s/%s", home_of_test(), links[i].below);
		snprintf(path[2], sizeof(path[2]), "%s/%s", home_of_test(), links[i].name);
		snprintf(to, sizeof(to), "%s/%s", root, links[i].to);
		made = mkdir(path[0], 0700) == 0;
		assert_int_equal(mkdir(path[1], 0700), 0); /* fails if the user has one */
		assert_int_equal(symlink(to, path[2]), 0);
		derive(KODA_AUTO, root, &p);
		assert_int_equal(unlink(path[2]), 0);
		assert_int_equal(rmdir(path[1]), 0);
		assert_true(!made || rmdir(path[0]) == 0);
		assert_int_equal(denies(&p, root, links[i].to), links[i].denied);
	}
}

static void
a_root_within_a_protected_place_is_not_writable(void **state)
{
	struct access_subject who = { .mode = KODA_AUTO, .home = home_of_test() };
	cleanup(policy_done) struct policy p;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/.ssh/project", who.home);
	derive(KODA_AUTO, path, &p);
	who.policy = &p;
	strcat(path, "/x");
	assert_false(access_judge(&who, ACCESS_OP_WRITE, path, NULL).allowed);
}

static const struct {
	const char *label, *npmrc, *path, *rule; /* below the home directory */
	bool home_is_root, denied;
} programs[] = {
	{ "programs: npm's prefix in a cache", "prefix=%s/.npm/global\n", "/usr/bin",
	    ".npm/global/bin", false, true },
	{ "programs: its modules", "a=b\n prefix = \"~/.npm/global/\"\r\n", "/usr/bin",
	    ".npm/global/lib/node_modules", false, true },
	{ "programs: by variable", "prefix=${HOME}/.cache/npm\n", "/usr/bin", ".cache/npm/bin",
	    false, true },
	{ "programs: elsewhere it is read-only anyway", "prefix=~/programs\n", "/usr/bin",
	    "programs/bin", false, false },
	{ "programs: unless the home directory is the root", "prefix=~/programs\n", "/usr/bin",
	    "programs/bin", true, true },
	{ "programs: something else is set", "prefixes=~/.npm/global\n", "/usr/bin",
	    ".npm/global/bin", false, false },
	{ "programs: PATH", "", "/usr/bin:%s/.cache/tools/bin:rel", ".cache/tools/bin", false,
	    true },
	{ "programs: PATH, the home directory is the root", "", "%s/tools:/usr/bin", "tools", true,
	    true },
	{ "programs: no settings", NULL, "", ".npm/global/bin", false, false },
};

static void
programs_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup_free char *old_path = strdup(getenv("PATH"));
	const char *home = home_of_test();
	cleanup(policy_done) struct policy p;
	char name[PATH_MAX + 16], text[2 * PATH_MAX];
	FILE *to;

	snprintf(name, sizeof(name), "%s/.npmrc", home);
	if (programs[i].npmrc != NULL) {
		const char *at = strstr(programs[i].npmrc, "%s");

		to = fopen(name, "wxe"); /* fails if the user has one */
		assert_non_null(to);
		if (at != NULL)
			fprintf(to, "%.*s%s%s", (int)(at - programs[i].npmrc), programs[i].npmrc,
			    home, at + 2);
		else
			fputs(programs[i].npmrc, to);
		assert_int_equal(fclose(to), 0);
	}
	{
		const char *at = strstr(programs[i].path, "%s");

		if (at != NULL)
			snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - programs[i].path),
			    programs[i].path, home, at + 2);
		else
			snprintf(text, sizeof(text), "%s", programs[i].path);
	}
	assert_int_equal(setenv("PATH", text, 1), 0);
	derive(KODA_AUTO, programs[i].home_is_root ? home : root, &p);
	assert_int_equal(setenv("PATH", old_path, 1), 0);
	if (programs[i].npmrc != NULL)
		assert_int_equal(unlink(name), 0);
	assert_int_equal(denies(&p, home, programs[i].rule), programs[i].denied);
	assert_false(denies(&p, "/usr", "bin"));
}

/* As when a tarball is unpacked in the project, or in the home directory. */
static void
the_installation(void **state)
{
	char program[PATH_MAX], dir[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	cleanup_free char *home = strdup(getenv("HOME"));
	cleanup(policy_done) struct policy in_root, in_home, elsewhere;

	assert_true(n > 0);
	program[n] = '\0';
	strcpy(dir, program);
	slash = strrchr(dir, '/');
	*slash = '\0';
	derive(KODA_AUTO, dir, &in_root);
	derive(KODA_AUTO, root, &elsewhere);
	assert_int_equal(setenv("HOME", dir, 1), 0);
	derive(KODA_AUTO, root, &in_home);
	assert_int_equal(setenv("HOME", home, 1), 0);
	assert_true(denies(&in_root, dir, slash + 1));
	assert_true(denies(&in_home, dir, slash + 1));
	assert_false(denies(&elsewhere, dir, slash + 1));
}

static const struct {
	const char *label, *variable, *dir; /* below the root */
	const char *rule;
} moved[] = {
	{ "moved: state", "XDG_STATE_HOME", "/st", "st/koda-sandbox" },
	{ "moved: configuration", "XDG_CONFIG_HOME", "/c", "c/git" },
	{ "moved: cache", "XDG_CACHE_HOME", "/cache", "cache/pre-commit" },
	{ "moved: cargo", "CARGO_HOME", "/cargo", "cargo/config.toml" },
	{ "moved: zsh", "ZDOTDIR", "", ".zshrc" },
};

static void
moved_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p, other;
	char dir[2 * PATH_MAX];

	snprintf(dir, sizeof(dir), "%s%s", root, moved[i].dir);
	assert_int_equal(setenv(moved[i].variable, dir, 1), 0);
	derive(KODA_AUTO, root, &p);
	derive(KODA_AUTO, "/usr", &other);
	assert_int_equal(unsetenv(moved[i].variable), 0);
	assert_true(denies(&p, root, moved[i].rule));
	assert_false(denies(&other, root, moved[i].rule));
}

static void
no_home_no_rows(void **state)
{
	cleanup_free char *home = strdup(getenv("HOME"));
	cleanup(policy_done) struct policy p;

	assert_int_equal(setenv("HOME", "/no/such/home", 1), 0);
	derive(KODA_AUTO, root, &p);
	assert_true(denies(&p, "/no/such/home", ".cargo/bin"));
	assert_int_equal(setenv("HOME", home, 1), 0);
}

static const struct {
	const char *label, *path; /* below the root */
	bool allowed;
} edits[] = {
	{ "edit: a source file", "src/main.c", true },
	{ "edit: .gitignore", ".gitignore", true },
	{ "edit: .gitattributes", ".gitattributes", true },
	{ "edit: a workflow", ".github/workflows/ci.yml", true },
	{ "edit: package.json", "package.json", true },
	{ "edit: Makefile", "Makefile", true },
	{ "edit: .env", ".env", true },
	{ "edit: .editorconfig", ".editorconfig", true },
	{ "edit: what jj keeps of a repository", ".jj/repo/op_heads/heads/x", true },
	{ "edit: a file that has the name of what is on the way of a rule", "mise", true },
	{ "edit: .nvmrc", ".nvmrc", true },
	{ "edit: .python-version", ".python-version", true },
	{ "edit: pnpm-workspace.yaml", "pnpm-workspace.yaml", true },
	{ "edit: Cargo.toml", "crates/a/Cargo.toml", true },
	{ "edit: eslint.config.js", "eslint.config.js", true },
	{ "edit: .github", ".github/dependabot.yml", true },
	{ "edit: .yarn", ".yarn/cache/x.zip", true },
	{ "edit: .clinerules", ".clinerules/style.md", true },
	{ "edit: .mvn/wrapper", ".mvn/wrapper/maven-wrapper.properties", true },
	{ "edit: a kernel's .config", ".config", true },
	{ "edit: bin/", "bin/tool", true },
	{ "edit: .vscodeignore", ".vscodeignore", true },
	{ "edit: .ssh of a project is nobody's", ".ssh/config", true },
	{ "edit: AGENTS.md", "AGENTS.md", true },
	{ "refused: a hook", ".git/hooks/pre-commit", false },
	{ "refused: .npmrc of the project", ".npmrc", false },
	{ "refused: .npmrc of a package", "packages/app/.npmrc", false },
	{ "refused: .tool-versions", ".tool-versions", false },
	{ "refused: rust-toolchain.toml", "rust-toolchain.toml", false },
	{ "refused: yarn's releases", ".yarn/releases/yarn.cjs", false },
	{ "refused: a project's .cargo/config.toml", ".cargo/config.toml", false },
	{ "refused: cargo's of old, of a crate", "crates/a/.cargo/config", false },
	{ "refused: another repository of Mercurial's", ".hg/sharedpath", false },
	{ "refused: a file that leads jj to another repository", ".jj/repo", false },
	{ "refused: the same below", "a/.jj/repo", false },
	{ "refused: the programs that repo starts", ".repo/repo/main.py", false },
	{ "refused: .lfsconfig", ".lfsconfig", false },
	{ "refused: .lazygit.yml", ".lazygit.yml", false },
	{ "refused: lazygit's of a repository", ".git/lazygit.yml", false },
	{ "refused: .overcommit.yml", ".overcommit.yml", false },
	{ "refused: captainhook.json", "captainhook.json", false },
	{ "refused: hk.pkl", ".config/hk.pkl", false },
	{ "refused: prek.toml", "a/prek.toml", false },
	{ "refused: husky's of old", ".huskyrc.js", false },
	{ "refused: global.json", "global.json", false },
	{ "refused: .pdm-python", ".pdm-python", false },
	{ "refused: .corepack.env", ".corepack.env", false },
	{ "refused: .valgrindrc", "a/b/.valgrindrc", false },
	{ "refused: OpenHands' setup", ".openhands/setup.sh", false },
	{ "refused: OpenHands' microagents", ".openhands/microagents/repo.md", false },
	{ "refused: a workspace", "packages/app.code-workspace", false },
	{ "refused: .github/hooks", ".github/hooks/x.json", false },
	{ "refused: .devcontainer", "a/b/.devcontainer/devcontainer.json", false },
	{ "refused: mise's of an environment", "mise.dev.toml", false },
	{ "refused: .mcp.json", ".mcp.json", false },
	{ "refused: .vscode", ".vscode/tasks.json", false },
	{ "refused: .idea", ".idea/workspace.xml", false },
	{ "refused: .envrc", ".envrc", false },
	{ "refused: .husky", ".husky/pre-commit", false },
	{ "refused: lefthook", "lefthook.yml", false },
	{ "refused: .claude", ".claude/settings.json", false },
	{ "refused: .cursor", ".cursor/mcp.json", false },
	{ "refused: .gemini", ".gemini/settings.json", false },
	{ "refused: .codex", ".codex/config.toml", false },
	{ "refused: .gitmodules", ".gitmodules", false },
	{ "refused: .gitconfig", ".gitconfig", false },
	{ "refused: .bashrc", ".bashrc", false },
	{ "refused: .zshenv", ".zshenv", false },
};

static void
edit_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p;
	struct access_subject who = { &p, KODA_AUTO, "", NULL };
	struct access_verdict v;
	char path[PATH_MAX + 64];

	derive(KODA_AUTO, root, &p);
	snprintf(path, sizeof(path), "%s/%s", root, edits[i].path);
	v = access_judge(&who, ACCESS_OP_WRITE, path, NULL);
	assert_int_equal(v.allowed, edits[i].allowed);
	/* The directory that contains it is protected with it; below the root the worker has to
	 * look for names. */
	if (!edits[i].allowed && v.rule != ACCESS_RULE_DENY_NAME &&
	    strchr(edits[i].path, '/') != NULL) {
		*strrchr(path, '/') = '\0';
		v = access_judge(&who, ACCESS_OP_RENAME_FROM, path, NULL);
		assert_false(
		    v.allowed && access_judge_tree(&who, ACCESS_OP_RENAME_FROM, path).allowed);
	}
}

static void
rows_are_names(void **state)
{
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "/p/%s", d->name);
		assert_int_equal(policy_path_check(path, NULL), 0);
		assert_true(d->name[0] != '/' && d->name[strlen(d->name) - 1] != '/');
		assert_null(strstr(path, "//"));
		assert_true((d->where >= DEFAULT_PROJECT && d->where <= DEFAULT_TOLD) ||
		    d->where == DEFAULT_HOME_PROGRAMS);
		assert_true(d->reason[0] != '\0');
		for (const struct default_place *e = default_protected; e != d; e++)
			assert_false(strcmp(d->name, e->name) == 0 && (d->where & e->where) != 0);
	}
}

static void
depth_rises_strictly_from_plan_to_auto(void **state)
{
	cleanup(policy_done) struct policy plan, safe, full;

	derive(KODA_PLAN, root, &plan);
	derive(KODA_SAFE, root, &safe);
	derive(KODA_AUTO, root, &full);
	assert_true(plan.depth < safe.depth && safe.depth < full.depth);
}

static void
the_root_is_made_canonical(void **state)
{
	cleanup(policy_done) struct policy p;
	char spelled[PATH_MAX + 16], link[PATH_MAX + 16];

	snprintf(spelled, sizeof(spelled), "%s/./../%s//", root, strrchr(root, '/') + 1);
	derive(KODA_SAFE, spelled, &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], root);
	policy_done(&p);

	snprintf(link, sizeof(link), "%s.link", root);
	assert_int_equal(symlink(root, link), 0);
	derive(KODA_SAFE, link, &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], root);
	assert_int_equal(unlink(link), 0);
}

static void
a_root_that_does_not_exist_is_named_as_written(void **state)
{
	cleanup(policy_done) struct policy p;

	derive(KODA_AUTO, "/no/such/root", &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], "/no/such/root");
	assert_string_equal(p.list[KODA_DENY_WRITE_WITHIN_ALLOW].v[1], "/no/such/root/.git/config");
}

static void
the_file_system_as_root(void **state)
{
	cleanup(policy_done) struct policy p;

	derive(KODA_AUTO, "/", &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], "/");
	assert_string_equal(p.list[KODA_DENY_WRITE_WITHIN_ALLOW].v[0], "/.git/hooks");
}

static const struct {
	const char *label;
	enum koda_mode mode;
	const char *root;
} bad[] = {
	{ "refused: no root", KODA_SAFE, NULL },
	{ "refused: empty root", KODA_SAFE, "" },
	{ "refused: relative root that is not there", KODA_SAFE, "no/such/root" },
	{ "refused: mode 0", (enum koda_mode)0, "/" },
	{ "refused: mode 4", (enum koda_mode)4, "/" },
	{ "refused: mode -1", (enum koda_mode) - 1, "/" },
};

static void
bad_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	struct policy p;

	assert_int_equal(policy_for_agent(bad[i].mode, bad[i].root, &p, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_true(err.message[0] != '\0');
}

static void
default_domains_are_rules(void **state)
{
	for (const struct default_domain *d = default_domains; d->pattern != NULL; d++) {
		struct domain parsed;

		assert_int_equal(policy_domain_check(d->pattern, POLICY_DOMAIN_ALLOWS, NULL), 0);
		assert_true(domain_is_normalised(d->pattern));
		assert_null(domain_parse(d->pattern, &parsed));
		if (d->apex)
			assert_true(parsed.wildcard && parsed.port == 0);
	}
}

static bool
reaches(const struct policy *p, const char *host, unsigned port)
{
	struct egress_rules *rules = egress_rules_new(p, NULL);
	enum egress_decision decision;

	assert_non_null(rules);
	decision = egress_judge(rules, host, DOMAIN_NAME, port).decision;
	egress_rules_free(rules);
	return decision == EGRESS_ALLOW;
}

static void
what_a_mode_reaches(void **state)
{
	cleanup(policy_done) struct policy plan, safe;

	derive(KODA_PLAN, root, &plan);
	derive(KODA_SAFE, root, &safe);
	assert_false(reaches(&plan, "github.com", 443));
	assert_true(reaches(&safe, "github.com", 443));
	assert_true(reaches(&safe, "raw.githubusercontent.com", 443));
	/* Git over SSH, and only there. */
	assert_true(reaches(&safe, "github.com", 22));
	assert_false(reaches(&plan, "github.com", 22));
	assert_false(reaches(&safe, "github.com", 8080));
	assert_false(reaches(&safe, "api.github.com", 22));
	assert_false(reaches(&safe, "gist.github.com", 443));
	assert_false(reaches(&safe, "example.test", 443));
	/* The wildcard's own name is reachable only where a registry answers there. */
	assert_false(reaches(&safe, "githubusercontent.com", 443));
	for (const struct default_domain *d = default_domains; d->pattern != NULL; d++) {
		if (strncmp(d->pattern, "*.", 2) == 0)
			assert_int_equal(reaches(&safe, d->pattern + 2, 443), d->apex);
	}
}

/* A child agent's policy is composed with its parent's. */
static void
a_child_can_only_narrow(void **state)
{
	cleanup(policy_done) struct policy parent, child, both;
	struct access_subject who = { &both, KODA_AUTO, "", NULL };
	char path[PATH_MAX + 16];

	derive(KODA_SAFE, root, &parent);
	parent.limit[KODA_WALL_TIME_SECS].value = 10;
	assert_int_equal(policy_list_add(&parent.list[KODA_DENY_READ], "/secret", NULL), 0);
	snprintf(path, sizeof(path), "%s/tree", root);
	derive(KODA_AUTO, path, &child);
	assert_int_equal(policy_compose(&parent, &child, &both, NULL), 0);
	assert_string_equal(both.list[KODA_DENY_READ].v[0], "/secret");
	assert_int_equal(both.limit[KODA_WALL_TIME_SECS].value, 10);
	assert_int_equal(both.trust, KODA_TRUST_REQUIRE);
	assert_int_equal(both.depth, 10);
	assert_int_equal(both.list[KODA_ALLOW_WRITE].n, 1);
	assert_string_equal(both.list[KODA_ALLOW_WRITE].v[0], path);
	snprintf(path, sizeof(path), "%s/sibling/x", root);
	assert_false(access_judge(&who, ACCESS_OP_WRITE, path, NULL).allowed);
	policy_done(&both);

	policy_done(&child);
	derive(KODA_PLAN, root, &child);
	assert_int_equal(policy_compose(&parent, &child, &both, NULL), 0);
	assert_int_equal(both.trust, KODA_TRUST_FORBID);
	assert_true(both.list[KODA_ALLOW_WRITE].present);
	assert_int_equal(both.list[KODA_ALLOW_WRITE].n, 0);
	assert_false(reaches(&both, "github.com", 443));
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(depth_rises_strictly_from_plan_to_auto),
		cmocka_unit_test(the_root_is_made_canonical),
		cmocka_unit_test(a_root_that_does_not_exist_is_named_as_written),
		cmocka_unit_test(the_file_system_as_root),
		cmocka_unit_test(default_domains_are_rules),
		cmocka_unit_test(what_a_mode_reaches),
		cmocka_unit_test(rows_are_names),
		cmocka_unit_test(each_row_of_the_project_is_a_rule),
		cmocka_unit_test(a_root_in_a_named_place_is_writable),
		cmocka_unit_test(each_row_has_a_reason),
		cmocka_unit_test(rows_of_the_home_directory_where_something_is_writable),
		cmocka_unit_test(rows_of_the_home_directory_that_are_links_into_the_root),
		cmocka_unit_test(links_below_the_rows_of_the_home_directory),
		cmocka_unit_test(a_root_within_a_protected_place_is_not_writable),
		cmocka_unit_test(no_home_no_rows),
		cmocka_unit_test(the_installation),
		cmocka_unit_test(a_child_can_only_narrow),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(modes) + N_ELEMENTS(bad) +
	    N_ELEMENTS(edits) + N_ELEMENTS(programs) + N_ELEMENTS(moved)];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(modes); i++)
		tests[n++] = (struct CMUnitTest){ modes[i].label, dials, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(bad); i++)
		tests[n++] = (struct CMUnitTest){ bad[i].label, bad_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(edits); i++)
		tests[n++] =
		    (struct CMUnitTest){ edits[i].label, edit_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(programs); i++)
		tests[n++] =
		    (struct CMUnitTest){ programs[i].label, programs_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(moved); i++)
		tests[n++] =
		    (struct CMUnitTest){ moved[i].label, moved_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("trust", tests, make_root, remove_root);
}
