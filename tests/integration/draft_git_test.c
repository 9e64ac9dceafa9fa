/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/draft/draft_git.c, draft_hides.c, host/review: what git did in a draft, with a real git:
 * what is listed, what is refused, what is said, and that the project's repository is whole after each
 * decision.
 */
#include "tests/kit/hosting.h"
#include "tests/kit/process.h"

#define PLAIN                                                                                      \
	"git init -q; git config user.name n; git config user.email e; git add a; git commit -qm one"
#define COMMITTED                                                                                  \
	"git init -q; git config user.name n; git config user.email e; mkdir .vscode; "            \
	"echo {} >.vscode/tasks.json; git add -A; git commit -qm one; git branch -q side"
#define WHO    "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e"
#define COMMIT "git -c user.name=n -c user.email=e commit -qam two"

struct git_draft {
	struct fixture f;
	struct koda_draft *draft;
	char id[64], undo[KODA_HISTORY_ID_SIZE];
	char listed[65536], told[65536];
	size_t n_all, n_not; /* outcomes, and those that are not "applied" */
};

__attribute__((format(printf, 3, 4))) static void
put_line(char *to, size_t size, const char *format, ...)
{
	const size_t len = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + len, size - len, format, args);
	va_end(args);
}

static const char *
below(const struct git_draft *g, const char *path)
{
	const size_t len = strlen(g->f.root);

	assert_memory_equal(path, g->f.root, len);
	return path + len + (path[len] == '/');
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct git_draft *g = data;

	put_line(g->listed, sizeof(g->listed), "%s %s%s%s%s%s%s%s\n",
	    koda_change_kind_name(c->kind), below(g, c->path), c->conflict ? " conflict" : "",
	    c->rule != NULL ? " refused " : "", c->rule != NULL ? c->rule : "",
	    c->rule != NULL ? ": " : "", c->rule != NULL ? c->reason : "",
	    c->note != NULL ? " hides" : "");
	if (c->note != NULL)
		put_line(g->listed, sizeof(g->listed), "note %s\n", c->note);
	return 0;
}

static int
on_applied(void *data, const struct koda_applied *one)
{
	struct git_draft *g = data;

	put_line(g->told, sizeof(g->told), "%s %s %s%s%s\n", koda_apply_outcome_name(one->outcome),
	    koda_change_kind_name(one->kind), below(g, one->path), one->reason != NULL ? ": " : "",
	    one->reason != NULL ? one->reason : "");
	if (one->note != NULL)
		put_line(g->told, sizeof(g->told), "note %s\n", one->note);
	g->n_all++;
	g->n_not += one->outcome != KODA_APPLIED;
	return 0;
}

/* A project that the user's commands prepared, and a draft in which the other command ran. */
static void
begin(struct git_draft *g, const char *prepare, const char *shell)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = shell };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;

	*g = (struct git_draft){ 0 };
	fixture_prepare(&g->f, KODA_AUTO);
	g->f.options.commands = true;
	put_text(&g->f, "a", "old a\n");
	if (prepare != NULL)
		process_shell("cd \"$1\" && eval \"$2\"", g->f.root, prepare, NULL);
	fixture_open(&g->f);
	slot = koda_slot_open(g->f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	snprintf(g->id, sizeof(g->id), "%s", koda_slot_draft(slot));
	if (koda_run(slot, &c, &result, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	if (result.status != 0)
		fail_msg("status %d: %.*s", result.status, (int)result.err.head_len,
		    result.err.head);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	g->draft = koda_draft_open(g->f.ses, g->id, &err);
	if (g->draft == NULL)
		fail_msg("open: %s", err.message);
}

static void
end(struct git_draft *g)
{
	koda_draft_close(g->draft);
	fixture_end(&g->f);
}

static const char *
list(struct git_draft *g)
{
	struct koda_error err;

	g->listed[0] = '\0';
	if (koda_draft_changes(g->draft, on_change, g, NULL, &err) != 0)
		fail_msg("changes: %s", err.message);
	return g->listed;
}

static const char *
apply(struct git_draft *g)
{
	struct koda_error err;

	g->told[0] = '\0';
	g->n_all = g->n_not = 0;
	if (koda_draft_apply(g->draft, NULL, on_applied, g, g->undo, &err) != 0)
		fail_msg("apply: %s", err.message);
	return g->told;
}

static void
has(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' is not in:\n%s", part, text);
}

static void
has_not(const char *text, const char *part)
{
	if (strstr(text, part) != NULL)
		fail_msg("'%s' is in:\n%s", part, text);
}

/* Runs the user's script in the project; it must succeed. */
static void
check(const struct git_draft *g, const char *script)
{
	process_shell("cd \"$1\" && eval \"$2\" >/dev/null", g->f.root, script, NULL);
}

/* ---- what git hides afterwards ---- */

static const struct hiding {
	const char *label, *shell, *path, *says;
} hidings[] = {
	{ "skip-worktree", "git update-index --skip-worktree a; echo x >>a", ".git/index",
	    "1 files marked skip-worktree or assume-unchanged" },
	{ "assume-unchanged", "git update-index --index-version 4 --assume-unchanged a; echo x >>a",
	    ".git/index", "git ls-files -v" },
	{ "a split index", "git update-index --split-index; git update-index --skip-worktree a",
	    ".git/index", "git ls-files -v" },
	{ "a protected file in the index",
	    "git update-index --cacheinfo \"100644,$(echo x | git hash-object -w "
	    "--stdin),.vscode/tasks.json\"",
	    ".git/index", "protected files whose content in the index changed" },
	{ "exclude", "mkdir -p .git/info; echo '*.x' >>.git/info/exclude; echo x >new.x",
	    ".git/info/exclude", "git status --ignored" },
	{ "attributes", "mkdir -p .git/info; echo '* -diff' >.git/info/attributes",
	    ".git/info/attributes", "git diff --text" },
	{ "sparse-checkout", "mkdir -p .git/info; echo '/a' >.git/info/sparse-checkout",
	    ".git/info/sparse-checkout", "limit what is checked out" },
	{ "grafts", "mkdir -p .git/info; git rev-parse HEAD >.git/info/grafts", ".git/info/grafts",
	    "replaced parents" },
	{ "shallow", "git rev-parse HEAD >.git/shallow", ".git/shallow", "parents are left out" },
	{ "replace", "git replace HEAD \"$(git commit-tree -m x HEAD^{tree})\"",
	    ".git/refs/replace/", "git replace" },
	{ "packed replace",
	    "git replace HEAD \"$(git commit-tree -m x HEAD^{tree})\"; git pack-refs --all",
	    ".git/packed-refs", "git replace" },
	{ ".gitignore", "echo '*.x' >.gitignore", ".gitignore", "1 patterns of files to ignore" },
};

/* It is said before a person decides, and when it is done. */
static void
hides(void **state)
{
	const struct hiding *h = *state;
	struct git_draft g;
	char shell[1024];

	snprintf(shell, sizeof(shell), "set -e; " WHO "; %s", h->shell);
	begin(&g, COMMITTED, shell);
	has(list(&g), h->path);
	has(g.listed, " hides\nnote git may not show every change: ");
	has(g.listed, h->says);
	has(apply(&g), "note git may not show every change: ");
	has(g.told, h->says);
	assert_int_equal(g.n_not, 0);
	end(&g);
}

/* What git does every day hides nothing, nor does what the user had hidden before. */
static void
hides_nothing(void **state)
{
	struct git_draft g;

	begin(&g,
	    COMMITTED "; git update-index --skip-worktree .vscode/tasks.json; "
		      "echo '*.x' >>.git/info/exclude",
	    "set -e; echo more >>a; git add a; " COMMIT "; echo b >b; git add b; git status; "
	    "touch a; git status; git checkout -q side; git pack-refs --all");
	has(list(&g), ".git/index\n");
	has_not(g.listed, "note");
	has_not(apply(&g), "note");
	assert_int_equal(g.n_not, 0);
	check(&g, "git fsck --strict && test \"$(git branch --show-current)\" = side");
	end(&g);
}

/* ---- lists of packs ---- */

static void
packs(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED, "set -e; git gc -q; git multi-pack-index write");
	has(list(&g), "created .git/objects/pack/multi-pack-index\n");
	has_not(g.listed, "refused");
	apply(&g);
	assert_int_equal(g.n_not, 0);
	check(&g, "git multi-pack-index verify && git fsck --strict");
	end(&g);
}

/* git removes the packs that such a list names, wherever they are. */
static void
packs_elsewhere(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED,
	    "mkdir -p .git/objects/pack; printf "
	    "'MIDX\\1\\1\\1\\0\\0\\0\\0\\1PNAM\\0\\0\\0\\0\\0\\0\\0\\44\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\60"
	    "../../x.idx\\0' >.git/objects/pack/multi-pack-index");
	has(list(&g), "created .git/objects/pack/multi-pack-index refused git_config: ");
	has(g.listed, "names packs in another directory");
	apply(&g);
	assert_false(exists(&g.f, ".git/objects/pack/multi-pack-index"));
	end(&g);
}

/* ---- index, refs and objects belong together ---- */

static const struct koda_apply_options *
only(const char *path)
{
	static const char *paths[1];
	static struct koda_apply_options o = { .paths = paths, .n_paths = 1 };

	paths[0] = path;
	return &o;
}

static const char *
apply_with(struct git_draft *g, const struct koda_apply_options *o)
{
	struct koda_error err;

	g->told[0] = '\0';
	g->n_all = g->n_not = 0;
	if (koda_draft_apply(g->draft, o, on_applied, g, g->undo, &err) != 0)
		fail_msg("apply: %s", err.message);
	return g->told;
}

static const struct meanwhile {
	const char *label, *user;
} meanwhiles[] = {
	{ "the user commits", "echo user >b; git add b; git commit -qm user" },
	{ "the user stages something", "echo user >b; git add b" },
	{ "the user moves the branch",
	    "git update-ref refs/heads/main HEAD^{commit}; "
	    "git commit --allow-empty -qm user" },
	{ "the user is on another branch", "git checkout -qb other" },
	{ "the user packs refs and commits",
	    "git commit --allow-empty -qm user; git pack-refs --all" },
};

/* Nothing of the draft's commit may be half there: the user's branch, index and log stay as they are,
 * and the commit's objects are there to be merged. */
static void
meanwhile(void **state)
{
	const struct meanwhile *m = *state;
	struct koda_apply_options over = { .take = KODA_TAKE_DRAFT };
	struct git_draft g;

	begin(&g, COMMITTED,
	    "set -e; " WHO "; echo draft >>a; git commit -qam draft; git rev-parse HEAD >id");
	check(&g, m->user);
	check(&g,
	    "git rev-parse HEAD >../before; git symbolic-ref HEAD >>../before; "
	    "git diff --cached >>../before; git reflog >>../before");
	apply(&g);
	has(g.told, "applied together or not at all");
	has_not(g.told, "applied changed .git/index\n");
	has_not(g.told, "applied changed .git/logs");
	has_not(g.told, "applied changed .git/refs");
	check(&g,
	    "{ git rev-parse HEAD; git symbolic-ref HEAD; git diff --cached; git reflog; } >../after; "
	    "cmp ../before ../after && git fsck --strict && git cat-file -e \"$(cat id)\" && "
	    "git checkout -q a && git merge -q --no-edit \"$(cat id)\" && grep draft a");
	assert_true(g.n_not > 0);
	apply_with(&g, &over);
	check(&g, "git fsck --strict");
	end(&g);
}

/* What a selected ref needs comes with it; a selected file brings nothing of git. */
static void
selected(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED, "set -e; " WHO "; echo draft >>a; git commit -qam draft; echo b >b");
	has(apply_with(&g, only("b")), "applied created b\n");
	assert_int_equal(g.n_all, 1);
	has(apply_with(&g, only(".git/refs/heads")), "applied changed .git/index\n");
	has(g.told, "applied created .git/objects/");
	assert_int_equal(g.n_not, 0);
	check(&g,
	    "git fsck --strict && git log --format=%s | grep -qx draft && "
	    "test \"$(git status --porcelain)\" = \"$(printf ' M a\\n?? b')\"");
	end(&g);
}

/* The loose objects that a draft has packed are only removed if its refs are applied. */
static void
packed(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED,
	    "set -e; " WHO "; echo draft >>a; git commit -qam draft; git gc -q --prune=now");
	check(&g, "git commit --allow-empty -qm user");
	has(apply(&g), "conflict deleted .git/objects/");
	has_not(g.told, "applied deleted .git/objects/");
	has(g.told, "applied created .git/objects/pack/");
	check(&g, "git fsck --strict");
	end(&g);
	begin(&g, COMMITTED,
	    "set -e; " WHO "; echo draft >>a; git commit -qam draft; git gc -q --prune=now");
	has(apply(&g), "applied deleted .git/objects/");
	assert_int_equal(g.n_not, 0);
	check(&g, "git fsck --strict && test -z \"$(git status --porcelain)\"");
	end(&g);
}

/* An object that cannot be applied holds back the refs that need it. */
static void
object_missing(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED,
	    "set -e; " WHO "; echo draft >>a; git commit -qam draft; "
	    "chmod u+s .git/objects/$(git rev-parse HEAD: | sed 's,..,&/,')");
	has(apply(&g), "conflict changed .git/index: ");
	has(g.told, "refused created .git/objects/");
	check(&g, "git fsck --strict && test \"$(git log --format=%s)\" = one");
	end(&g);
}

/* ---- locks ---- */

static const char *const locks[] = { "index.lock", "HEAD.lock", "packed-refs.lock",
	"refs/heads/main.lock" };

/* While a git of the user's has a lock, refs and index stay; the rest is applied. */
static void
locked(void **state)
{
	const char *lock = *state;
	char script[256];
	struct git_draft g;

	begin(&g, COMMITTED "; git branch -M main",
	    "set -e; " WHO "; echo draft >>a; git commit -qam draft");
	snprintf(script, sizeof(script), ": >.git/%s", lock);
	check(&g, script);
	has(apply(&g), "applied changed a\n");
	has(g.told, "another git is running here");
	has(g.told, strrchr(lock, '/') != NULL ? strrchr(lock, '/') + 1 : lock);
	snprintf(script, sizeof(script), "test \"$(git log --format=%%s)\" = one && rm .git/%s",
	    lock);
	check(&g, script);
	apply(&g);
	assert_int_equal(g.n_not, 0);
	check(&g,
	    "git fsck --strict && test \"$(git log -1 --format=%s)\" = draft && "
	    "test -z \"$(git status --porcelain)\"");
	end(&g);
}

/* A lock that a git in the draft left is not applied, and does not hold back the rest. */
static void
lock_of_the_draft(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED "; : >.git/HEAD.lock",
	    "set -e; " WHO "; rm .git/HEAD.lock; echo draft >>a; git commit -qam draft; "
	    ": >.git/index.lock; : >.git/refs/heads/x.lock");
	has(list(&g), "created .git/index.lock refused git_lock: ");
	has(g.listed, "created .git/refs/heads/x.lock refused git_lock: ");
	has(g.listed, "deleted .git/HEAD.lock refused git_lock: ");
	check(&g, "rm .git/HEAD.lock");
	has(apply(&g), "applied changed .git/index\n");
	assert_false(exists(&g.f, ".git/index.lock"));
	assert_false(exists(&g.f, ".git/refs/heads/x.lock"));
	check(&g, "git fsck --strict && test \"$(git log -1 --format=%s)\" = draft");
	end(&g);
}

/* ---- a repository that a command makes ---- */

#define MADE "git init -q sub; echo x >sub/f; git -C sub add f; git -C sub commit -qm made"

static const struct made {
	const char *label, *prepare, *shell, *check;
} whole[] = {
	{ "git init", NULL, MADE, "git -C sub status" },
	{ "git init in another repository", COMMITTED, MADE, "git -C sub status; git status" },
	{ "git clone", PLAIN, "git clone -q --no-hardlinks . sub",
	    "git -C sub fetch -q; git -C sub rev-parse origin/HEAD" },
	{ "git clone --bare", PLAIN, "git clone -q --bare --no-hardlinks . sub.x",
	    "git -C sub.x fsck --strict" },
	{ "git init --bare", NULL, "git init -q --bare deep/er/sub", "git -C deep/er/sub fsck" },
	{ "a configured one", NULL,
	    MADE "; cd sub; git config user.name n; git remote add o ssh://host.example/x; "
		 "git config branch.main.rebase true",
	    "git -C sub remote -v | grep -q host.example" },
	{ "with packs and tags", NULL, MADE "; cd sub; git tag -am t t; git gc -q",
	    "git -C sub fsck" },
};

/* It is applied, works, is taken back without a trace, and done again. */
static void
made_whole(void **state)
{
	const struct made *m = *state;
	const struct koda_undo_options redo = { .redo = true };
	struct koda_error err;
	struct git_draft g;
	char shell[1024];

	snprintf(shell, sizeof(shell), "set -e; " WHO "; %s", m->shell);
	begin(&g, m->prepare, shell);
	check(&g, "find . -type f -o -type l -o -type d | sort >../before");
	has_not(list(&g), "refused");
	apply(&g);
	if (g.n_not > 0)
		fail_msg("%s", g.told);
	g.told[0] = '\0';
	assert_int_equal(koda_history_undo(g.f.ses, g.undo, NULL, on_applied, &g, &err), 0);
	if (g.n_not > 0)
		fail_msg("undo: %s", g.told);
	check(&g, "find . -type f -o -type l -o -type d | sort >../after; diff ../before ../after");
	g.told[0] = '\0';
	assert_int_equal(koda_history_undo(g.f.ses, g.undo, &redo, on_applied, &g, &err), 0);
	if (g.n_not > 0)
		fail_msg("redo: %s", g.told);
	check(&g, m->check);
	end(&g);
}

/* git writes its index anew whenever it looks at the project. Then neither index nor branch is taken back,
 * and what they need stays; the files are. */
static void
undo_of_a_commit(void **state)
{
	const struct koda_undo_options over = { .take = KODA_TAKE_DRAFT };
	struct koda_error err;
	struct git_draft g;

	begin(&g, COMMITTED, "set -e; " WHO "; echo draft >>a; git commit -qam draft");
	apply(&g);
	assert_int_equal(g.n_not, 0);
	check(&g, "touch -d '1 hour ago' b; git status >/dev/null");
	g.told[0] = '\0';
	assert_int_equal(koda_history_undo(g.f.ses, g.undo, NULL, on_applied, &g, &err), 0);
	has(g.told, "conflict changed .git/index: ");
	has(g.told, "conflict changed .git/refs/heads/master: ");
	has(g.told, "conflict changed .git/logs/HEAD: ");
	has(g.told, "applied changed a\n");
	check(&g,
	    "git fsck --strict && test \"$(git log -1 --format=%s)\" = draft && "
	    "git diff --cached --quiet && git diff --quiet HEAD^ -- a");
	g.told[0] = '\0';
	assert_int_equal(koda_history_undo(g.f.ses, g.undo, &over, on_applied, &g, &err), 0);
	check(&g,
	    "git fsck --strict && test \"$(git log --format=%s)\" = one && git diff --quiet HEAD");
	end(&g);
}

static const struct unmade {
	const char *label, *shell, *dir, *why;
} refusals[] = {
	{ "a hook", "echo x >sub/.git/hooks/pre-commit", "sub/.git", "hooks/pre-commit" },
	{ "a hook with a sample's name, as a directory", "mkdir sub/.git/hooks/x.sample",
	    "sub/.git", "hooks/x.sample" },
	{ "configuration that runs something", "git -C sub config core.fsmonitor x", "sub/.git",
	    "sub/.git/config" },
	{ "a helper as an address", "git -C sub config remote.o.url 'ext::sh -c x'", "sub/.git",
	    "sub/.git/config" },
	{ "configuration with a second reading",
	    "printf '[core]\\n\\tbare = false\\\\\\n\\tfsmonitor = x\\n' >sub/.git/config",
	    "sub/.git", "sub/.git/config" },
	{ "an include", "git -C sub config include.path ../x", "sub/.git", "sub/.git/config" },
	{ "objects elsewhere", "git clone -qs sub two; rm -r sub; mv two sub", "sub/.git",
	    "objects/info/alternates" },
	{ "a link", "ln -s /etc/passwd sub/.git/FETCH_HEAD", "sub/.git", "FETCH_HEAD" },
	{ "a ref that leads out", "echo 'ref: ../x' >sub/.git/refs/heads/x", "sub/.git",
	    "refs/heads/x" },
	{ "another worktree", "git -C sub worktree add -q ../wt", "sub/.git", "worktrees" },
	{ "a bare one with a hook", "git init -q --bare sub2; echo x >sub2/hooks/update", "sub2",
	    "hooks/update" },
	{ "in the root, whose .git the policy names", "git init -q", ".git", ".git/config" },
	{ "a FIFO", "mkfifo sub/.git/description2", "sub/.git", "description2" },
};

/* None of it is applied, and one sentence says why; the files beside it are the project's. */
static void
made_refused(void **state)
{
	const struct unmade *m = *state;
	char shell[1024], line[256];
	struct git_draft g;

	snprintf(shell, sizeof(shell), "set -e; " WHO "; " MADE "; %s", m->shell);
	begin(&g, NULL, shell);
	snprintf(line, sizeof(line), "created %s refused git_config: ", m->dir);
	has(list(&g), line);
	has(g.listed, "applied whole or not at all");
	has(g.listed, m->why);
	apply(&g);
	snprintf(line, sizeof(line), "applied created %s", m->dir);
	has_not(g.told, line);
	assert_false(exists(&g.f, m->dir));
	has(g.told, "applied created sub/f\n");
	end(&g);
}

/* A linked worktree of the user's repository is not made in part, and the rest of it goes on. */
static void
worktree_made(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED,
	    "set -e; " WHO "; git worktree add -q wt; echo more >>a; git commit -qam two");
	has(list(&g), "created .git/worktrees/wt refused git_config: ");
	has(g.listed, "created wt/.git refused git_config: ");
	has(apply(&g), "applied changed .git/index\n");
	assert_false(exists(&g.f, ".git/worktrees/wt"));
	assert_false(exists(&g.f, "wt/.git"));
	check(&g,
	    "git fsck --strict && test \"$(git log -1 --format=%s)\" = two && "
	    "git rev-parse -q --verify wt");
	end(&g);
}

/* The user's repository is not exchanged for another one, in part or as a whole. */
static void
repository_replaced(void **state)
{
	struct git_draft g;

	begin(&g, COMMITTED,
	    "set -e; " WHO "; rm -rf .git; git init -q; git add a; git commit -qm evil");
	has(list(&g), "made another one in its place");
	apply(&g);
	has_not(g.told, "applied created .git");
	has_not(g.told, "applied changed .git");
	has_not(g.told, "applied deleted .git");
	check(&g,
	    "git fsck --strict && test \"$(git log --format=%s)\" = one && "
	    "test -z \"$(git status --porcelain)\"");
	end(&g);
}

int
main(void)
{
	const struct CMUnitTest single[] = {
		cmocka_unit_test(hides_nothing),
		cmocka_unit_test(packs),
		cmocka_unit_test(packs_elsewhere),
		cmocka_unit_test(selected),
		cmocka_unit_test(packed),
		cmocka_unit_test(object_missing),
		cmocka_unit_test(undo_of_a_commit),
		cmocka_unit_test(lock_of_the_draft),
		cmocka_unit_test(worktree_made),
		cmocka_unit_test(repository_replaced),
	};
	struct CMUnitTest tests[N_ELEMENTS(hidings) + N_ELEMENTS(meanwhiles) + N_ELEMENTS(locks) +
	    N_ELEMENTS(whole) + N_ELEMENTS(refusals) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(hidings); i++)
		tests[n++] =
		    (struct CMUnitTest){ hidings[i].label, hides, NULL, NULL, (void *)&hidings[i] };
	for (size_t i = 0; i < N_ELEMENTS(meanwhiles); i++)
		tests[n++] = (struct CMUnitTest){ meanwhiles[i].label, meanwhile, NULL, NULL,
			(void *)&meanwhiles[i] };
	for (size_t i = 0; i < N_ELEMENTS(locks); i++)
		tests[n++] = (struct CMUnitTest){ locks[i], locked, NULL, NULL, (void *)locks[i] };
	for (size_t i = 0; i < N_ELEMENTS(whole); i++)
		tests[n++] = (struct CMUnitTest){ whole[i].label, made_whole, NULL, NULL,
			(void *)&whole[i] };
	for (size_t i = 0; i < N_ELEMENTS(refusals); i++)
		tests[n++] = (struct CMUnitTest){ refusals[i].label, made_refused, NULL, NULL,
			(void *)&refusals[i] };
	for (size_t i = 0; i < N_ELEMENTS(single); i++)
		tests[n++] = single[i];
	return cmocka_run_group_tests_name("draft_git", tests, NULL, NULL);
}
