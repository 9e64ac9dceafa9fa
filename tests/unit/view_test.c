/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/sandbox/view.c: the plan, path by path, and that it agrees with shared/rules/access about
 * the same path: commands and file operations follow one policy. Where the two differ on
 * purpose, a row says why.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "host/sandbox/view_plan.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "tests/kit/cases.h"

#define RULES_MAX 6
#define STATE     "/home/u/st/koda-sandbox"

static const struct setting {
	const char *name;
	enum koda_mode mode;
	enum koda_trust trust;
	bool git_config;
	const char *root, *home;
	const char *write[RULES_MAX], *deny_write[RULES_MAX], *deny_read[RULES_MAX],
	    *holes[RULES_MAX], *caches[RULES_MAX], *git_dir;
	struct view_place places[RULES_MAX];
	const char *names[RULES_MAX];
} settings[] = {
	/* One writable root in a home directory. */
	{ "plain", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" },
	    .deny_write = { "/home/u/p/.git/hooks", "/home/u/p/.git/config", "/home/u/p/.mcp.json",
		"/home/u/p/a/b/fixed", "/home/u/.cargo/bin" },
	    .caches = { "/home/u/.cargo" },
	    .places = { { VIEW_PLACE_GIT_DIR, "/home/u/p/.git", 1, 1, true },
		{ VIEW_PLACE_PROTECTED, "/home/u/p/sub/.git/config", 1, 2, false },
		{ VIEW_PLACE_GIT_DIR, "/home/u/p/sub/.git", 1, 3, true },
		{ VIEW_PLACE_GIT_DIR, "/home/u/p/k/.koda", 1, 4, true },
		{ VIEW_PLACE_PROTECTED, "/home/u/p/k/.koda/skills", 1, 5, true } } },
	/* Names at any depth: mounted where they are. */
	{ "names", KODA_AUTO, KODA_TRUST_AUTO, true, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" },
	    .deny_write = { "/home/u/p/.github/hooks", "/home/u/p/.vscode" },
	    .places = { { VIEW_PLACE_NAME, "/home/u/p/packages/app/.vscode", 1, 1, true },
		{ VIEW_PLACE_NAME, "/home/u/p/scripts/check", 1, 2, false } },
	    .names = { ".vscode", ".github/hooks" } },
	/* Rules nested in rules. */
	{ "nested", KODA_AUTO, KODA_TRUST_AUTO, false, "/w", "/home/u",
	    .write = { "/w/open", "/w/open/inner", "/w/fixed/no", "/v/d", "/v/d/hole/w" },
	    .deny_write = { "/w/fixed", "/w/open/x", "/w/open/x/y", "/v/d/hole/w/ro" },
	    .deny_read = { "/v/d", "/v/d/hole/again", "/tie", "/w/open/secret" },
	    .holes = { "/v/d/hole", "/v/d/hole/again/open", "/tie", "/w/open/secret/shown",
		"/nowhere/hidden" } },
	{ "plan", KODA_PLAN, KODA_TRUST_FORBID, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" }, .deny_read = { "/home/u/p/secret" },
	    .caches = { "/home/u/.cargo" } },
	{ "forbid", KODA_AUTO, KODA_TRUST_FORBID, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" }, .caches = { "/home/u/.cargo" } },
	{ "git allowed", KODA_AUTO, KODA_TRUST_AUTO, true, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" },
	    .places = { { VIEW_PLACE_GIT_DIR, "/home/u/p/.git", 1, 1, true },
		{ VIEW_PLACE_PROTECTED, "/home/u/p/.git/config", 1, 2, false },
		{ VIEW_PLACE_PROTECTED, "/home/u/p/.koda/agents", 1, 3, true } } },
	{ "worktree", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/tree", "/home/u",
	    .write = { "/home/u/tree" }, .caches = { "/home/u/p/.git" },
	    .git_dir = "/home/u/p/.git",
	    .places = { { VIEW_PLACE_PROTECTED, "/home/u/p/.git/config", 1, 2, false } } },
	{ "home", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u", "/home/u", .write = { "/home/u" },
	    .deny_write = { "/home/u/.bashrc", "/home/u/.config/git", "/home/u/.ssh" },
	    .caches = { "/home/u/.cargo" } },
	{ "tmp", KODA_AUTO, KODA_TRUST_AUTO, false, "/tmp/t/p", "/tmp/t/home",
	    .write = { "/tmp/t/p" }, .deny_write = { "/tmp/t/p/.envrc" },
	    .deny_read = { "/tmp/t/p/secret", "/tmp/other" } },
	{ "tmp, plan", KODA_PLAN, KODA_TRUST_FORBID, false, "/tmp/t/p", "/tmp/t/home",
	    .write = { NULL } },
	{ "hidden home", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" }, .deny_write = { "/home/u/p/.envrc" },
	    .deny_read = { "/home/u" }, .holes = { "/home/u/p" } },
	{ "a project in a cache", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/.cache/p", "/home/u",
	    .write = { "/home/u/.cache/p" }, .caches = { "/home/u/.cache", "/home/u/.npm" } },
	{ "a cache in a project", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p" }, .caches = { "/home/u/p/.cargo", "/home/u/p/tools/npm" } },
	{ "a writable directory in a cache in a project", KODA_AUTO, KODA_TRUST_AUTO, false,
	    "/home/u", "/home/u", .write = { "/home/u", "/home/u/.npm/x" },
	    .caches = { "/home/u/.npm" } },
	{ "a rule is the root", KODA_AUTO, KODA_TRUST_AUTO, false, "/home/u/p", "/home/u",
	    .write = { "/home/u/p", "/home/u/q" }, .deny_write = { "/home/u/p", "/home" } },
};

/* How the judge differs from the row; with SAME it does not. */
enum { SAME, CACHE, PRIVATE, HOLE_READS, PINNED, HELD, OWN_TMP, LATER };

static const struct {
	const char *setting, *path;
	bool writes, shows;
	int difference;
} rows[] = {
	/* clang-format off */
	{ "a project in a cache", "/home/u/.cache/p/x", true, true, SAME },
	{ "a project in a cache", "/home/u/.cache/x",  false, true, SAME },
	{ "a project in a cache", "/home/u/.npm/x",    true,  true, CACHE },
	{ "a cache in a project", "/home/u/p/.cargo/x", true, true, SAME },
	{ "a cache in a project", "/home/u/p/tools/npm/x", true, true, SAME },
	{ "a cache in a project", "/home/u/p/tools/x", true, true, SAME },
	{ "a cache in a project", "/home/u/p/tools", false, true, HELD },
	{ "plain", "/home/u/p/src/main.c",             true,  true, SAME },
	{ "plain", "/home/u/p/.gitignore",             true,  true, SAME },
	{ "plain", "/home/u/p/.git/index",             true,  true, SAME },
	{ "plain", "/home/u/p/.git/HEAD",              true,  true, SAME },
	{ "plain", "/home/u/p/.git",                   false, true, SAME },
	{ "plain", "/home/u/p/.git/config",            false, true, SAME },
	{ "plain", "/home/u/p/.git/hooks",             false, true, SAME },
	{ "plain", "/home/u/p/.git/hooks/pre-commit",  false, true, SAME },
	{ "plain", "/home/u/p/.git/hooksy",            true,  true, SAME },
	{ "plain", "/home/u/p/.mcp.json",              false, true, SAME },
	{ "plain", "/home/u/p/.mcp.json.bak",          true,  true, SAME },
	{ "plain", "/home/u/p/a/b/fixed/deep/er",      false, true, SAME },
	{ "plain", "/home/u/p/a/b/other",              true,  true, SAME },
	{ "plain", "/home/u/p/a/b",                    false, true, PINNED },
	{ "plain", "/home/u/p/a",                      false, true, PINNED },
	{ "plain", "/home/u/p/sub/.git/config",        false, true, SAME },
	{ "plain", "/home/u/p/sub/.git/refs/heads/x",  true,  true, SAME },
	{ "plain", "/home/u/p/sub/file",               true,  true, SAME },
	{ "plain", "/home/u/p/new/.git/config",        true,  true, LATER },
	{ "plain", "/home/u/p/.koda/agents/a.md",      false, true, SAME },
	{ "plain", "/home/u/p/.koda/skills",           false, true, SAME },
	{ "plain", "/home/u/p/.koda/notes",            true,  true, SAME },
	{ "plain", "/home/u/p/k/.koda/skills/x",       false, true, SAME },
	/* Also without git's own rule; a directory is not pinned for a name that it does not
	 * contain. */
	{ "names", "/home/u/p/packages/app/.vscode/x", false, true, SAME },
	{ "names", "/home/u/p/.vscode/x",              false, true, SAME },
	{ "names", "/home/u/p/packages/lib/.vscode/x", true,  true, LATER },
	{ "names", "/home/u/p/.github",                true,  true, SAME },
	{ "names", "/home/u/p/.github/hooks/x",        true,  true, LATER },
	{ "plain", "/home/u/other",                    false, true, SAME },
	{ "plain", "/home/u/.bashrc",                  false, true, SAME },
	{ "plain", "/home/u/.cargo/registry/x",        true,  true, CACHE },
	{ "plain", "/home/u/.cargo/bin/cargo",         false, true, SAME },
	{ "plain", "/home/u/.config/koda/db",          false, false, SAME },
	{ "plain", "/home/u/.config/koda/db/x",        false, false, SAME },
	{ "plain", STATE,                              false, false, SAME },
	{ "plain", STATE "/quarantine/p-1",            false, false, SAME },
	{ "plain", "/home/u/.config/koda/other",       false, true, SAME },
	{ "plain", "/etc/passwd",                      false, true, SAME },
	{ "plain", "/",                                false, true, SAME },
	{ "plain", "/home/u/pp/x",                     false, true, SAME },
	{ "plain", "/tmp/x",                           true,  true, PRIVATE },
	{ "plain", "/var/tmp/a/b",                     true,  true, PRIVATE },
	{ "plain", "/dev/shm/x",                       true,  true, PRIVATE },
	{ "plain", "/run/user/1000/x",                 true,  true, PRIVATE },
	{ "plain", "/run/koda/quarantine/x",           false, true, SAME },

	{ "nested", "/w/open/a",                       true,  true, SAME },
	{ "nested", "/w/open/inner/a",                 true,  true, SAME },
	{ "nested", "/w/open/x",                       false, true, SAME },
	{ "nested", "/w/open/x/y/z",                   false, true, SAME },
	{ "nested", "/w/open/xy",                      true,  true, SAME },
	{ "nested", "/w/fixed/no/a",                   false, true, SAME },
	{ "nested", "/w/a",                            false, true, SAME },
	{ "nested", "/w/open/secret",                  false, false, SAME },
	{ "nested", "/w/open/secret/a",                false, false, SAME },
	{ "nested", "/w/open/secret/shown/a",          false, true, HOLE_READS },
	{ "nested", "/v/d/a",                          false, false, SAME },
	{ "nested", "/v/d/hole",                       false, true, HOLE_READS },
	{ "nested", "/v/d/hole/again/a",               false, false, SAME },
	{ "nested", "/v/d/hole/again/open/a",          false, true, HOLE_READS },
	{ "nested", "/v/d/hole/w/a",                   true,  true, SAME },
	{ "nested", "/v/d/hole/w/ro/a",                false, true, SAME },
	{ "nested", "/v/dd",                           false, true, SAME },
	{ "nested", "/tie/a",                          false, false, SAME },
	{ "nested", "/nowhere/hidden/a",               false, true, SAME },

	{ "plan", "/home/u/p/src/main.c",              false, true, SAME },
	{ "plan", "/home/u/p/secret/a",                false, false, SAME },
	{ "plan", "/home/u/.cargo/registry/x",         false, true, SAME },
	{ "plan", "/tmp/x",                            true,  true, PRIVATE },
	{ "forbid", "/home/u/p/src/main.c",            false, true, SAME },
	{ "forbid", "/home/u/.cargo/registry/x",       false, true, SAME },

	{ "git allowed", "/home/u/p/.git/config",      true,  true, SAME },
	{ "git allowed", "/home/u/p/.git/hooks/x",     true,  true, SAME },
	{ "git allowed", "/home/u/p/.koda/agents/x",   false, true, SAME },

	{ "home", "/home/u/notes",                     true,  true, SAME },
	{ "home", "/home/u/.bashrc",                   false, true, SAME },
	{ "home", "/home/u/.ssh/config",               false, true, SAME },
	{ "home", "/home/u/.config/git/config",        false, true, SAME },
	{ "home", "/home/u/.config/other",             true,  true, SAME },
	{ "home", "/home/u/.config",                   false, true, PINNED },
	{ "home", "/home/u/.config/koda/db/x",         false, false, SAME },
	{ "home", STATE "/journal/x",                  false, false, SAME },
	{ "home", "/home/u/st",                        false, true, PINNED },
	{ "home", "/home/u/st/other",                  true,  true, SAME },
	{ "home", "/home/u/.cargo/registry/x",         true,  true, SAME },

	{ "tmp", "/tmp/t/p/a",                         true,  true, SAME },
	{ "tmp", "/tmp/t/p/.envrc",                    false, true, SAME },
	{ "tmp", "/tmp/t/p/secret/a",                  false, false, SAME },
	{ "tmp", "/tmp/t/home/a",                      false, true, SAME },
	{ "tmp", "/tmp/other/a",                       true,  true, OWN_TMP },
	{ "tmp", "/tmp/t/q",                           false, true, SAME },
	{ "tmp", "/tmp/t",                             false, true, SAME },
	{ "tmp", "/tmp/tt",                            true,  true, PRIVATE },
	{ "tmp, plan", "/tmp/t/p/a",                   false, true, SAME },
	{ "tmp, plan", "/tmp/x",                       true,  true, PRIVATE },

	{ "hidden home", "/home/u/p/a",                true,  true, SAME },
	{ "hidden home", "/home/u/p/.envrc",           false, true, SAME },
	{ "hidden home", "/home/u/p/.koda/agents/x",   false, true, SAME },
	{ "hidden home", "/home/u/.ssh/id",            false, false, SAME },
	{ "hidden home", "/home/other",                false, true, SAME },

	{ "a rule is the root", "/home/u/p/a",         false, true, SAME },
	{ "a rule is the root", "/home/u/q/a",         false, true, SAME },
	/* clang-format on */
};

static const struct setting *
setting_of(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(settings); i++) {
		if (strcmp(settings[i].name, name) == 0)
			return &settings[i];
	}
	fail_msg("there is no setting '%s'", name);
	return NULL;
}

static void
add_rules(struct policy *p, enum koda_list list, const char *const *rules)
{
	for (size_t i = 0; i < RULES_MAX && rules[i] != NULL; i++)
		assert_int_equal(policy_list_add(&p->list[list], rules[i], NULL), 0);
}

static bool share; /* KODA_SHARE_CACHES, of plan() */

static void
plan(const struct setting *s, struct policy *p, struct view *v)
{
	struct view_input in = { .policy = p,
		.mode = s->mode,
		.root = s->root,
		.home = s->home,
		.state = STATE,
		.caches = s->caches,
		.git_dir = s->git_dir,
		.places = s->places };
	struct koda_error err = { 0 };

	policy_init(p);
	p->trust = s->trust;
	p->flag[KODA_ALLOW_GIT_CONFIG] = s->git_config;
	p->flag[KODA_SHARE_CACHES] = share;
	add_rules(p, KODA_ALLOW_WRITE, s->write);
	add_rules(p, KODA_DENY_WRITE_WITHIN_ALLOW, s->deny_write);
	add_rules(p, KODA_DENY_READ, s->deny_read);
	add_rules(p, KODA_ALLOW_READ_WITHIN_DENY, s->holes);
	add_rules(p, KODA_DENY_WRITE_NAMES, s->names);
	while (in.n_caches < RULES_MAX && s->caches[in.n_caches] != NULL)
		in.n_caches++;
	while (in.n_places < RULES_MAX && s->places[in.n_places].path != NULL)
		in.n_places++;
	if (view_plan(&in, v, &err) < 0)
		fail_msg("%s", err.message);
}

static void
row_case(void **state)
{
	size_t i = (uintptr_t)*state;
	const struct setting *s = setting_of(rows[i].setting);
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };
	const struct access_subject who = { &p, s->mode, s->home, STATE };
	const char *why = NULL;
	bool judged_write, judged_read;

	plan(s, &p, &v);
	assert_int_equal(view_writes(&v, rows[i].path, &why), rows[i].writes);
	assert_non_null(why);
	assert_int_equal(view_shows(&v, rows[i].path, &why), rows[i].shows);
	assert_non_null(why);

	judged_write = access_judge(&who, ACCESS_OP_WRITE, rows[i].path, NULL).allowed;
	judged_read = access_judge(&who, ACCESS_OP_READ, rows[i].path, NULL).allowed;
	switch (rows[i].difference) {
	case SAME:
		assert_int_equal(judged_write, rows[i].writes);
		assert_int_equal(judged_read, rows[i].shows);
		break;
	case CACHE: /* commands write them, file operations do not */
	case PRIVATE:
	case LATER: /* new places: the comparison finds them */
		assert_true(rows[i].writes && !judged_write);
		assert_int_equal(judged_read, rows[i].shows);
		break;
	case HOLE_READS: /* commands can only read in holes */
		assert_false(rows[i].writes);
		assert_int_equal(judged_read, rows[i].shows);
		break;
	case PINNED: /* the directory itself, not its content: access_judge_tree() refuses it */
		assert_true(judged_write);
		assert_false(access_judge_tree(&who, ACCESS_OP_RENAME_FROM, rows[i].path).allowed);
		break;
	/* directories that contain a cache, not their other content: without commands a session
	 * has none */
	case HELD:
		assert_true(judged_write && judged_read);
		break;
	case OWN_TMP: /* another file of that name: the host's file is not there */
		assert_false(judged_read);
		break;
	}
}

/* ---- the plan as a whole ---- */

static void
what_contains_comes_first_and_once(void **state)
{
	for (size_t s = 0; s < N_ELEMENTS(settings); s++) {
		cleanup(policy_done) struct policy p;
		cleanup(view_done) struct view v = { 0 };

		plan(&settings[s], &p, &v);
		for (size_t i = 0; i < v.n_mounts; i++) {
			assert_non_null(v.mount[i].why);
			for (size_t k = 0; k < i; k++) {
				size_t len = strlen(v.mount[i].path);

				assert_string_not_equal(v.mount[k].path, v.mount[i].path);
				assert_false(strncmp(v.mount[k].path, v.mount[i].path, len) == 0 &&
				    v.mount[k].path[len] == '/');
			}
		}
		for (size_t i = 0; i < v.n_writable; i++) {
			for (size_t k = 0; k < v.n_writable; k++) {
				size_t len = strlen(v.writable[k]);

				assert_false(i != k &&
				    strncmp(v.writable[i], v.writable[k], len) == 0 &&
				    (v.writable[i][len] == '/' || v.writable[i][len] == '\0'));
			}
		}
	}
}

static const struct view_mount *
mount_at(const struct view *v, const char *path)
{
	for (size_t i = 0; i < v->n_mounts; i++) {
		if (strcmp(v->mount[i].path, path) == 0)
			return &v->mount[i];
	}
	return NULL;
}

static void
what_was_found_keeps_its_numbers(void **state)
{
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };
	const struct view_mount *m;

	plan(setting_of("plain"), &p, &v);
	m = mount_at(&v, "/home/u/p/sub/.git");
	assert_non_null(m);
	assert_int_equal(m->kind, VIEW_PIN);
	assert_int_equal(m->ino, 3);
	assert_string_equal(m->why, "git_config");
	m = mount_at(&v, "/home/u/p/sub");
	assert_non_null(m);
	assert_int_equal(m->kind, VIEW_PIN);
	assert_int_equal(m->ino, 0);
	assert_string_equal(m->why, "protected_below");
	m = mount_at(&v, "/home/u/p/k/.koda");
	assert_string_equal(m->why, "koda_place");
	assert_int_equal(m->ino, 4);
	/* A place that does not exist yet has no inode number. */
	m = mount_at(&v, "/home/u/p/.mcp.json");
	assert_int_equal(m->kind, VIEW_READ_ONLY);
	assert_int_equal(m->ino, 0);
	/* No mount of the root itself, and none above it. */
	assert_null(mount_at(&v, "/home/u/p"));
	assert_null(mount_at(&v, "/home/u"));
}

/* A pin inside a hidden directory would show it. */
static void
hidden_directories_are_not_pinned(void **state)
{
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };
	const struct setting s = { "", KODA_AUTO, KODA_TRUST_AUTO, false, "/p", "",
		.write = { "/p" }, .deny_write = { "/p/a/b/c/fixed", "/p/a/b/x" },
		.deny_read = { "/p/a" }, .holes = { "/p/a/b/c" } };

	plan(&s, &p, &v);
	assert_int_equal(mount_at(&v, "/p/a")->kind, VIEW_HIDE);
	assert_null(mount_at(&v, "/p/a/b"));
	assert_null(mount_at(&v, "/p/a/b/x"));
	assert_int_equal(mount_at(&v, "/p/a/b/c")->kind, VIEW_HOLE);
	assert_int_equal(mount_at(&v, "/p/a/b/c/fixed")->kind, VIEW_READ_ONLY);
	assert_true(view_shows(&v, "/p/a/b/c/d", NULL));
	assert_false(view_shows(&v, "/p/a/b/d", NULL));
}

static void
why_it_is_not_written(void **state)
{
	static const struct {
		const char *setting, *path, *why;
	} reasons[] = {
		{ "plain", "/etc/x", "allow_write" },
		{ "plain", "/home/u/p/.mcp.json", "deny_write_within_allow" },
		{ "plain", "/home/u/p/sub/.git/config", "git_config" },
		{ "plain", "/home/u/p/.koda/agents/x", "koda_place" },
		{ "plain", "/home/u/p/a", "protected_below" },
		{ "names", "/home/u/p/packages/app/.vscode/x", "deny_write_names" },
		{ "names", "/home/u/p/scripts/check", "deny_write_names" },
		{ "nested", "/w/open/secret/x", "deny_read" },
		{ "plan", "/home/u/p/x", "trust" },
		{ "forbid", "/home/u/p/x", "trust" },
	};

	for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
		cleanup(policy_done) struct policy p;
		cleanup(view_done) struct view v = { 0 };
		const char *why = NULL;

		plan(setting_of(reasons[i].setting), &p, &v);
		assert_false(view_writes(&v, reasons[i].path, &why));
		assert_string_equal(why, reasons[i].why);
	}
}

static void
a_private_directory_is_there_and_what_the_host_has_in_it_is_not(void **state)
{
	cleanup(policy_done) struct policy p;
	cleanup(view_done) struct view v = { 0 };

	plan(setting_of("tmp"), &p, &v);
	assert_true(view_has(&v, "/tmp"));
	assert_true(view_has(&v, "/var/tmp"));
	assert_true(view_has(&v, "/tmp/t/p"));
	assert_true(view_has(&v, "/tmp/t/p/build"));
	assert_false(view_has(&v, "/tmp/t"));
	assert_false(view_has(&v, "/tmp/user-1000"));
	assert_false(view_has(&v, "/tmp/t/home"));
	assert_false(view_has(&v, "/run"));
	assert_false(view_has(&v, "/usr/bin"));
}

static const struct {
	const char *label, *write, *deny_read;
} impossible[] = {
	{ "refused: all of the file system", "/", NULL },
	{ "refused: /run, where stage2 is at home", "/run", NULL },
	{ "refused: /dev", "/dev", NULL },
	{ "refused: /proc", "/proc", NULL },
	{ "refused: nothing may be read", "/p", "/" },
};

static void
impossible_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p;
	struct view_input in = { .policy = &p, .mode = KODA_AUTO, .root = "/p", .home = "" };
	struct koda_error err = { 0 };
	struct view v;

	policy_init(&p);
	assert_int_equal(policy_list_add(&p.list[KODA_ALLOW_WRITE], impossible[i].write, NULL), 0);
	if (impossible[i].deny_read != NULL)
		assert_int_equal(policy_list_add(&p.list[KODA_DENY_READ], impossible[i].deny_read,
				     NULL),
		    0);
	assert_int_equal(view_plan(&in, &v, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_true(err.message[0] != '\0');
}

static void
the_same_again_is_the_same(void **state)
{
	const struct setting *s = setting_of("nested");
	cleanup(policy_done) struct policy p, q;
	cleanup(view_done) struct view v = { 0 }, w = { 0 };

	plan(s, &p, &v);
	plan(s, &q, &w);
	assert_int_equal(v.n_mounts, w.n_mounts);
	for (size_t i = 0; i < v.n_mounts; i++) {
		assert_string_equal(v.mount[i].path, w.mount[i].path);
		assert_int_equal(v.mount[i].kind, w.mount[i].kind);
	}
}

/* ---- caches ---- */

static void
caches_are_bound_where_they_are_the_policys_own_or_shared(void **state)
{
	static const struct {
		const char *setting, *dir;
		bool share, cached, binds;
	} cases[] = {
		{ "plain", "/home/u/.cargo", false, true, false },
		{ "plain", "/home/u/.cargo", true, false, true },
		{ "plain", "/home/u/p", false, false, true },
		{ "home", "/home/u/.cargo", false, true, false },
		{ "home", "/home/u", false, false, true },
		{ "a project in a cache", "/home/u/.cache/p", false, false, true },
		{ "a project in a cache", "/home/u/.npm", false, true, false },
		{ "a cache in a project", "/home/u/p/.cargo", false, true, false },
		{ "a cache in a project", "/home/u/p/tools/npm", false, true, false },
		{ "a cache in a project", "/home/u/p/.cargo", true, false, true },
		{ "a writable directory in a cache in a project", "/home/u/.npm", false, true,
		    false },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		cleanup(policy_done) struct policy p;
		cleanup(view_done) struct view v = { 0 };
		const char *why;

		share = cases[i].share;
		plan(setting_of(cases[i].setting), &p, &v);
		share = false;
		assert_int_equal(view_is_cached(&v, cases[i].dir), cases[i].cached);
		assert_int_equal(view_binds(&v, cases[i].dir), cases[i].binds);
		assert_true(view_writes(&v, cases[i].dir, &why));
		assert_string_equal(why, cases[i].cached ? "private_cache" : "allow_write");
	}
}

/* Only the directories in which commands make nothing but regular files and directories are
 * plain. */
static void
git_directories_are_plain(void **state)
{
	static const struct {
		const char *setting, *path[2];
	} want[] = {
		{ "plain", { "/home/u/p/.git", "/home/u/p/sub/.git" } },
		{ "worktree", { "/home/u/p/.git" } },
		{ "git allowed", { NULL } },
		{ "nested", { NULL } },
	};

	for (size_t i = 0; i < N_ELEMENTS(want); i++) {
		cleanup(policy_done) struct policy p;
		cleanup(view_done) struct view v = { 0 };
		size_t n = 0;

		plan(setting_of(want[i].setting), &p, &v);
		for (size_t k = 0; k < v.n_mounts; k++) {
			if (!v.mount[k].plain)
				continue;
			assert_true(n < 2 && want[i].path[n] != NULL);
			assert_string_equal(v.mount[k].path, want[i].path[n++]);
		}
		assert_true(n == 2 || want[i].path[n] == NULL);
	}
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(git_directories_are_plain),
		cmocka_unit_test(what_contains_comes_first_and_once),
		cmocka_unit_test(what_was_found_keeps_its_numbers),
		cmocka_unit_test(hidden_directories_are_not_pinned),
		cmocka_unit_test(why_it_is_not_written),
		cmocka_unit_test(a_private_directory_is_there_and_what_the_host_has_in_it_is_not),
		cmocka_unit_test(the_same_again_is_the_same),
		cmocka_unit_test(caches_are_bound_where_they_are_the_policys_own_or_shared),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(rows) + N_ELEMENTS(impossible)];
	static char label[N_ELEMENTS(rows)][128];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(rows); i++) {
		snprintf(label[i], sizeof(label[i]), "%s: %s", rows[i].setting, rows[i].path);
		tests[n++] = (struct CMUnitTest){ label[i], row_case, NULL, NULL, (void *)i };
	}
	for (uintptr_t i = 0; i < N_ELEMENTS(impossible); i++)
		tests[n++] = (struct CMUnitTest){ impossible[i].label, impossible_case, NULL, NULL,
			(void *)i };
	return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
