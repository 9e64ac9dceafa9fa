/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/copy/clone_copy.c, worker/clone: clones of a project. A clone is what the project is, without
 * what must not be read; what an agent did in it becomes a draft, which makes the project what the
 * clone was.
 */
#include "tests/kit/copying.h"

/* ---- what they have in common ---- */

static struct koda_copy *
open_clone(struct fixture *f)
{
	return open_copy(f, &(struct koda_copy_options){ .kind = KODA_WORKSPACE_CLONE });
}

/* What is in a directory, but no time of a directory or a link: a directory's is when it was changed. */
#define LISTING                                                                                         \
	"listing() { (cd \"$1\" && find . -mindepth 1 -printf '%y %m %p %l\\n' | sort; find . -type f " \
	"-exec sha256sum {} + | sort); }; "

/* Is the project what $3 is? */
#define SAME LISTING "listing \"$1\" >\"$2/a\"; listing \"$3\" >\"$2/b\"; diff -u \"$2/a\" \"$2/b\""

static void
nothing_left(struct fixture *f, const char *root)
{
	assert_true(user_says(f, "[ ! -e \"$3\" ]", root));
	assert_int_equal(count_copies(f), 0);
}

static int
count_draft(void *data, const struct koda_drafted *one)
{
	++*(int *)data;
	return 0;
}

static int
count_drafts(const struct fixture *f)
{
	struct koda_error err;
	int n = 0;

	assert_int_equal(koda_drafts_visit(f->root, count_draft, &n, &err), 0);
	return n;
}

/* The outcomes of applying a draft; 0: none was applied. */
struct outcomes {
	unsigned n[KODA_APPLY_FAILED + 1];
	char last[PATH_MAX], undo[KODA_HISTORY_ID_SIZE];
};

static int
count_outcome(void *data, const struct koda_applied *one)
{
	struct outcomes *o = data;

	o->n[one->outcome]++;
	if (one->outcome != KODA_APPLIED)
		snprintf(o->last, sizeof(o->last), "%s: %s", one->path,
		    one->reason != NULL ? one->reason : "");
	return 0;
}

static struct outcomes
apply(struct fixture *f, const char *id, enum koda_take take)
{
	const struct koda_apply_options o = { .take = take };
	struct outcomes ret = { 0 };
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(f->ses, id, &err);

	if (d == NULL || koda_draft_apply(d, &o, count_outcome, &ret, ret.undo, &err) < 0)
		fail_msg("apply: %s", err.message);
	koda_draft_close(d);
	return ret;
}

/* ---- what a clone is ---- */

#define EVERYTHING                                                                                    \
	"cd \"$1\"; umask 022; mkdir -p dir/deep/er empty 'sp ace'; echo a >a; echo b >dir/b; "       \
	"printf 'x\\ny' >\"$(printf 'new\\nline')\"; echo d >-dash; ln -s a link; ln -s /etc/passwd " \
	"abs; ln -s nowhere dangling; ln -s dir to_dir; ln -s .. dir/up; echo h >h1; ln h1 dir/h2; "  \
	"chmod 444 a; chmod 755 dir/b; chmod 1777 'sp ace'; truncate -s 10M sparse; "                 \
	"head -c 300000 /dev/urandom >random; touch -d '2001-02-03 04:05:06' random dir/deep; "       \
	"chmod 555 dir/deep/er; mkfifo pipe; "                                                        \
	"python3 -c 'import socket; socket.socket(1).bind(\"sock\")'; git init -q; git add a dir; "   \
	"git commit -q -m one"

static void
everything(void **state)
{
	struct koda_released r;
	struct koda_copy *copy;
	struct fixture f;
	char root[PATH_MAX];

	begin_with(&f, EVERYTHING);
	copy = open_clone(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	assert_string_equal(koda_copy_branch(copy), "");
	assert_true(user_says(&f,
	    LISTING "[ ! -e \"$3/pipe\" ] && [ ! -e \"$3/sock\" ]; "
		    "listing \"$1\" | grep -v '^[ps]' >\"$2/a\"; listing \"$3\" >\"$2/b\"; diff -u "
		    "\"$2/a\" \"$2/b\"",
	    root));
	/* Times, holes, and links between files, of which none leads to the project's. */
	assert_true(user_says(&f,
	    "[ \"$(stat -c %y \"$3/random\" \"$3/dir/deep\")\" = \"$(stat -c %y \"$1/random\" "
	    "\"$1/dir/deep\")\" ]; [ \"$(stat -c %b \"$3/sparse\")\" -lt 1000 ]; "
	    "[ \"$3/h1\" -ef \"$3/dir/h2\" ]; ! [ \"$3/h1\" -ef \"$1/h1\" ]; "
	    "[ \"$(stat -c %h \"$3/h1\")\" = 2 ]",
	    root));
	/* Reading changes nothing. */
	agent(&f, copy, "cat a dir/b link; git log; ls -lR");
	assert_int_equal(count_drafts(&f), 0);
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_true(r.copy_removed);
	assert_string_equal(r.draft, "");
	assert_string_equal(r.reason, "");
	koda_copy_close(copy);
	nothing_left(&f, root);
	assert_int_equal(count_drafts(&f), 0);
	fixture_end(&f);
}

/* ---- what an agent did ---- */

#define SIMPLE                                                                                        \
	"cd \"$1\"; echo a >a; echo b >b; mkdir -p dir/sub other; echo c >dir/c; echo s >dir/sub/s; " \
	"echo o >other/o; ln -s a link; echo h >h1; ln h1 h2"

static const struct {
	const char *label, *did;
} works[] = {
	{ "a new file", "echo x >x" },
	{ "a changed file", "echo x >>a" },
	{ "the same size and time", "touch -r a /tmp/t; echo z >a; touch -r /tmp/t a" },
	{ "replaced by another, with its time", "cp -p a n; echo y >n; touch -r a n; mv n a" },
	{ "a deleted file", "rm a" },
	{ "a deleted directory", "rm -r dir" },
	{ "a new directory with files", "mkdir -p n/m; echo x >n/m/x" },
	{ "a new, empty directory", "mkdir n" },
	{ "a renamed file", "mv a z" },
	{ "a renamed directory", "mv dir moved" },
	{ "two directories that changed their names", "mv dir t; mv other dir; mv t other" },
	{ "a directory that was removed and made again", "rm -r dir; mkdir dir; echo n >dir/n" },
	{ "a file that became a directory", "rm a; mkdir a; echo x >a/x" },
	{ "a directory that became a file", "rm -r dir; echo x >dir" },
	{ "a file that became a link", "rm a; ln -s b a" },
	{ "another target", "rm link; ln -s b link" },
	{ "permissions", "chmod 700 a; chmod 750 dir" },
	{ "one of two links", "rm h1; echo n >h1" },
	{ "a new link to a file", "ln a a2" },
	{ "everything is gone", "rm -r *" },
	{ "odd names",
	    "printf x >\"$(printf 'n\\nl')\"; printf x >'-x'; mkdir 'd d'; touch 'd d/ '" },
};

/* The clone is made what the agent wants; then the project becomes that. */
static void
becomes(void **state)
{
	const size_t i = (uintptr_t)*state;
	char root[PATH_MAX], want[PATH_MAX], id[64];
	struct koda_released r;
	struct koda_copy *copy;
	struct koda_error err;
	struct outcomes o;
	struct fixture f;

	begin_with(&f, SIMPLE);
	copy = open_clone(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	snprintf(want, sizeof(want), "%s/want", f.dir);
	user(&f, "cp -a \"$1\" \"$2/before\"", "");
	agent(&f, copy, works[i].did);
	user(&f, "cp -a \"$3\" \"$2/want\"", root);
	assert_true(user_says(&f, SAME, at(&f, "../before")));
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_true(r.copy_removed);
	assert_string_not_equal(r.draft, "");
	assert_non_null(strstr(r.hint, r.draft));
	snprintf(id, sizeof(id), "%s", r.draft);
	koda_copy_close(copy);
	nothing_left(&f, root);
	assert_int_equal(count_drafts(&f), 1);
	assert_true(user_says(&f, SAME, at(&f, "../before")));
	o = apply(&f, id, KODA_TAKE_NONE);
	if (o.n[KODA_APPLIED] == 0 ||
	    o.n[KODA_APPLY_CONFLICT] + o.n[KODA_APPLY_REFUSED] + o.n[KODA_APPLY_SKIPPED] +
		    o.n[KODA_APPLY_FAILED] >
		0)
		fail_msg("not applied: %s", o.last);
	assert_true(user_says(&f, SAME, want));
	assert_int_equal(count_drafts(&f), 0);
	/* And it is taken back as any other draft is. */
	if (koda_history_undo(f.ses, o.undo, &(struct koda_undo_options){ 0 }, NULL, NULL, &err) <
	    0)
		fail_msg("undo: %s", err.message);
	assert_true(user_says(&f, SAME, at(&f, "../before")));
	fixture_end(&f);
}

static int
count_change(void *data, const struct koda_change *change)
{
	++*(int *)data;
	return 0;
}

/* Nothing has to be read, or be in a directory that can be written, to be brought back. */
static void
unreadable(void **state)
{
	struct koda_draft *d;
	struct koda_copy *copy;
	struct koda_error err;
	struct fixture f;
	char id[64];
	int n = 0;

	begin_with(&f, SIMPLE);
	copy = open_clone(&f);
	agent(&f, copy, "echo n >new; chmod 0 a new");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	assert_int_equal(apply(&f, id, KODA_TAKE_NONE).n[KODA_APPLIED], 2);
	assert_true(user_says(&f,
	    "cd \"$1\"; [ \"$(stat -c %a a new | tr '\\n' ' ')\" = '0 0 ' ]; chmod 600 a new; "
	    "[ \"$(cat a new | tr -d '\\n')\" = an ]",
	    ""));
	copy = open_clone(&f);
	agent(&f, copy, "rm dir/c; chmod 500 dir; mkdir d; echo x >d/x; chmod 500 d");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	d = koda_draft_open(f.ses, id, &err);
	assert_non_null(d);
	assert_int_equal(koda_draft_changes(d, count_change, &n, NULL, &err), 0);
	assert_int_equal(n, 4);
	assert_int_equal(koda_draft_discard(d, NULL, 0, &err), 0);
	koda_draft_close(d);
	fixture_end(&f);
}

/* What only looks changed is no change. */
static void
touched(void **state)
{
	struct koda_released r;
	struct koda_copy *copy;
	struct fixture f;
	char root[PATH_MAX];

	begin_with(&f, SIMPLE);
	copy = open_clone(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	agent(&f, copy, "touch dir; cp -p a n; mv n a; chmod 600 b; chmod 644 b; mkdir n; rmdir n");
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_true(r.copy_removed);
	assert_string_equal(r.draft, "");
	koda_copy_close(copy);
	nothing_left(&f, root);
	assert_int_equal(count_drafts(&f), 0);
	fixture_end(&f);
}

/* What the user changed since the clone began is not overwritten. */
static void
conflicts(void **state)
{
	struct koda_copy *copy;
	struct outcomes o;
	struct fixture f;
	char id[64];

	begin_with(&f, SIMPLE);
	copy = open_clone(&f);
	agent(&f, copy, "echo agent >a; echo agent >b; rm dir/c; echo agent >fresh; rm -r other");
	user(&f,
	    "cd \"$1\"; echo user >a; echo user >dir/c; echo user >fresh; echo user >mine; "
	    "echo user >other/new",
	    "");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	o = apply(&f, id, KODA_TAKE_NONE);
	assert_int_equal(o.n[KODA_APPLIED], 1);
	assert_int_equal(o.n[KODA_APPLY_CONFLICT], 4);
	assert_true(user_says(&f,
	    "cd \"$1\"; [ \"$(cat a dir/c fresh mine other/new | sort -u)\" = user ]; [ \"$(cat b)\" = agent ]",
	    ""));
	o = apply(&f, id, KODA_TAKE_DRAFT);
	assert_int_equal(o.n[KODA_APPLIED], 4);
	assert_true(user_says(&f,
	    "cd \"$1\"; [ \"$(cat a fresh)\" = \"$(printf 'agent\\nagent')\" ]; [ ! -e dir/c ]; [ ! -e other ]; [ \"$(cat mine)\" = user ]",
	    ""));
	fixture_end(&f);
}

/* ---- what must not be in it ---- */

static void
add_rule(struct fixture *f, struct koda_policy *p, enum koda_list list, const char *name)
{
	struct koda_error err;

	if (koda_policy_add(p, list, at(f, name), &err) < 0)
		fail_msg("policy: %s", err.message);
}

/* What the policy denies reading is in no clone; without the rules it is. */
static void
secrets(void **state)
{
	for (int denied = 0; denied < 2; denied++) {
		struct koda_policy *p;
		struct koda_copy *copy;
		struct koda_error err;
		struct fixture f;
		char root[PATH_MAX], id[64];

		fixture_prepare(&f, KODA_AUTO);
		f.options.commands = true;
		user(&f,
		    "cd \"$1\"; mkdir -p keys/open dir; echo key >keys/k; echo p >keys/open/p; "
		    "echo secret >dir/secret; echo a >dir/a",
		    "");
		p = koda_policy_for_agent(KODA_AUTO, f.root, &err);
		if (denied) {
			add_rule(&f, p, KODA_DENY_READ, "keys");
			add_rule(&f, p, KODA_DENY_READ, "dir/secret");
		}
		assert_int_equal(koda_policy_freeze(p, &err), 0);
		f.options.policy = p;
		fixture_open(&f);
		copy = open_clone(&f);
		snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
		assert_int_equal(user_says(&f,
				     "grep -rq 'key\\|secret' \"$3\" || [ -e \"$3/dir/secret\" ]",
				     root),
		    !denied);
		assert_true(user_says(&f, "[ \"$(cat \"$3/dir/a\")\" = a ]", root));
		/* They were never there, so they were not deleted. */
		agent(&f, copy, "echo b >dir/a");
		snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
		koda_copy_close(copy);
		assert_int_equal(apply(&f, id, KODA_TAKE_NONE).n[KODA_APPLIED], 1);
		assert_true(user_says(&f,
		    "cd \"$1\"; [ \"$(cat keys/k dir/secret dir/a | tr -d '\\n')\" = keysecretb ]",
		    ""));
		koda_policy_free(p);
		fixture_end(&f);
	}
}

static void
left_out(void **state)
{
	static const char *const names[] = { "node_modules", "dir/b", NULL };
	static const char *const wrong[] = { "/etc", NULL };
	struct koda_copy_options o = { .kind = KODA_WORKSPACE_CLONE, .leave_out = names };
	struct koda_copy *copy;
	struct koda_error err;
	struct fixture f;
	char root[PATH_MAX], id[64];

	begin_with(&f,
	    "cd \"$1\"; mkdir -p node_modules/x dir/node_modules; echo a >node_modules/x/a; "
	    "echo b >dir/b; echo c >dir/c; echo d >dir/node_modules/d");
	copy = open_copy(&f, &o);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	assert_true(user_says(&f,
	    "cd \"$3\"; [ ! -e node_modules ]; [ ! -e dir/b ]; [ -e dir/c ]; [ -e dir/node_modules/d ]",
	    root));
	agent(&f, copy, "echo x >>dir/c");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_COMMIT).draft);
	koda_copy_close(copy);
	assert_int_equal(apply(&f, id, KODA_TAKE_NONE).n[KODA_APPLIED], 1);
	assert_true(user_says(&f, "cd \"$1\"; [ -e node_modules/x/a ]; [ -e dir/b ]", ""));
	o.leave_out = wrong;
	assert_null(koda_copy_open(f.ses, &o, &err));
	assert_code(&err, KODA_INVALID);
	fixture_end(&f);
}

/* An agent can set the attributes by which overlayfs marks names, and make its whiteouts. */
static void
marks(void **state)
{
	struct koda_copy *copy;
	struct outcomes o;
	struct fixture f;
	char id[64];

	begin_with(&f, SIMPLE);
	copy = open_clone(&f);
	agent(&f, copy,
	    "python3 - <<'E'\nimport os\n"
	    "open('made', 'w').close(); open('kept', 'w').write('k'); os.mkdir('d')\n"
	    "try:\n"
	    "  os.setxattr('made', 'user.overlay.whiteout', b'y')\n"
	    "  os.setxattr('kept', 'user.overlay.metacopy', b'')\n"
	    "  os.setxattr('dir', 'user.overlay.opaque', b'y')\n"
	    "  os.setxattr('d', 'user.overlay.redirect', b'/dir')\n"
	    "except OSError as e:\n  assert e.errno == 95, e\nE\n"
	    "echo x >dir/sub/x");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	o = apply(&f, id, KODA_TAKE_NONE);
	assert_int_equal(o.n[KODA_APPLIED], 4);
	assert_true(user_says(&f,
	    "cd \"$1\"; [ -f made ]; [ \"$(cat kept)\" = k ]; [ -z \"$(ls -A d)\" ]; [ -e dir/c ]; "
	    "[ -e dir/sub/s ]; [ -e dir/sub/x ]",
	    ""));
	fixture_end(&f);
}

/* What the policy protects in the project is refused, whoever made it. */
static void
refused_at_apply(void **state)
{
	struct koda_copy *copy;
	struct outcomes o;
	struct fixture f;
	char id[64];

	begin_with(&f, PROJECT);
	copy = open_clone(&f);
	/* A process of the user, which nothing holds back. */
	user(&f,
	    "cd \"$3\"; echo x >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; "
	    "git config core.fsmonitor /tmp/x; mkdir .vscode; echo '{}' >.vscode/tasks.json; echo x >>a",
	    koda_copy_root(copy));
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	o = apply(&f, id, KODA_TAKE_NONE);
	assert_int_equal(o.n[KODA_APPLIED], 1);
	assert_true(o.n[KODA_APPLY_REFUSED] >= 3);
	assert_true(user_says(&f,
	    "cd \"$1\"; [ ! -e .git/hooks/pre-commit ]; [ ! -e .vscode/tasks.json ]; "
	    "! git config core.fsmonitor; grep -q x a",
	    ""));
	fixture_end(&f);
}

/* ---- limits, and what is interrupted ---- */

static void
too_large(void **state)
{
	struct koda_copy_options o = { .kind = KODA_WORKSPACE_CLONE, .max_files = 8 };
	struct koda_error err;
	struct koda_copy *copy;
	struct fixture f;

	begin_with(&f, SIMPLE "; head -c 3000000 /dev/urandom >big");
	assert_null(koda_copy_open(f.ses, &o, &err));
	assert_code(&err, KODA_TOO_LARGE);
	assert_non_null(strstr(err.message, "leave directories out"));
	assert_int_equal(count_copies(&f), 0);
	assert_true(user_says(&f,
	    "[ -z \"$(find \"$HOME\" -path '*koda-sandbox-copies*' -name big)\" ]", ""));
	/* Blocks that are shared cost nothing. */
	if (!user_says(&f, "cp --reflink=always \"$1/big\" \"$HOME/x\" 2>/dev/null", "")) {
		o = (struct koda_copy_options){ .kind = KODA_WORKSPACE_CLONE,
			.max_bytes = 2000000 };
		assert_null(koda_copy_open(f.ses, &o, &err));
		assert_code(&err, KODA_TOO_LARGE);
		assert_int_equal(count_copies(&f), 0);
	}
	o = (struct koda_copy_options){ .kind = KODA_WORKSPACE_CLONE, .max_files = 30 };
	copy = open_copy(&f, &o);
	assert_true(release(copy, KODA_RELEASE_CLEAN).copy_removed);
	koda_copy_close(copy);
	fixture_end(&f);
}

#define MANY "cd \"$1\"; mkdir d; cd d; seq 30000 | xargs touch"

static int
stop_at_once(void *data, uint64_t files, uint64_t bytes)
{
	++*(int *)data;
	return 1;
}

static void
cancelled(void **state)
{
	int calls = 0;
	const struct koda_copy_options o = { .kind = KODA_WORKSPACE_CLONE,
		.progress = stop_at_once,
		.data = &calls };
	struct koda_error err;
	struct fixture f;

	begin_with(&f, MANY);
	assert_null(koda_copy_open(f.ses, &o, &err));
	assert_code(&err, KODA_TIMEOUT);
	assert_int_equal(calls, 1);
	assert_int_equal(count_copies(&f), 0);
	assert_true(user_says(&f, "[ -z \"$(find \"$HOME\" -name 29999)\" ]", ""));
	fixture_end(&f);
}

static int
die(void *data, uint64_t files, uint64_t bytes)
{
	if (files > 0)
		raise(SIGKILL);
	return 0;
}

struct found {
	char id[64];
	bool unfinished;
};

static int
find_one(void *data, const struct koda_copied *one)
{
	struct found *ret = data;

	if (one->in_use)
		return 2;
	assert_int_equal(one->kind, KODA_WORKSPACE_CLONE);
	snprintf(ret->id, sizeof(ret->id), "%s", one->id);
	ret->unfinished = one->unfinished;
	return 1;
}

/* A host that makes a clone, lets an agent work there, and is killed: while it clones, or afterwards. */
static struct found
killed(struct fixture *f, bool cloning)
{
	struct found ret = { 0 };
	struct koda_error err;
	int status, r;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct koda_copy_options o = { .kind = KODA_WORKSPACE_CLONE,
			.progress = cloning ? die : NULL };
		struct koda_copy *copy;

		f->ses = koda_session_open(&f->options, &err);
		copy = koda_copy_open(f->ses, &o, &err);
		if (copy != NULL)
			agent(f, copy, "echo work >work");
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while ((r = koda_copies_visit(f->root, find_one, &ret, &err)) == 2)
		blink();
	assert_int_equal(r, 1);
	return ret;
}

static void
host_killed(void **state)
{
	struct koda_released r;
	struct koda_copy *copy;
	struct koda_error err;
	struct found left;
	struct fixture f;
	char id[64];

	begin_with(&f, MANY);
	left = killed(&f, true);
	assert_true(left.unfinished);
	copy = koda_copy_find(f.ses, left.id, &err);
	assert_non_null(copy);
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_true(r.copy_removed);
	assert_string_equal(r.draft, "");
	koda_copy_close(copy);
	assert_int_equal(count_copies(&f), 0);

	left = killed(&f, false);
	assert_false(left.unfinished);
	/* It can be gone on with. */
	copy = open_copy(&f,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_CLONE, .id = left.id });
	agent(&f, copy, "echo more >>work");
	snprintf(id, sizeof(id), "%s", release(copy, KODA_RELEASE_CLEAN).draft);
	koda_copy_close(copy);
	assert_int_equal(apply(&f, id, KODA_TAKE_NONE).n[KODA_APPLIED], 1);
	assert_true(user_says(&f, "[ \"$(wc -l <\"$1/work\")\" = 2 ]", ""));

	/* Discarded: nothing of it is anywhere. */
	left = killed(&f, false);
	copy = koda_copy_find(f.ses, left.id, &err);
	assert_non_null(copy);
	assert_true(release(copy, KODA_RELEASE_DISCARD).copy_removed);
	koda_copy_close(copy);
	assert_int_equal(count_copies(&f), 0);
	assert_int_equal(count_drafts(&f), 0);
	fixture_end(&f);
}

/* As a host leaves it that is killed when the draft is there, before or while it removes the clone. */
static void
killed_at_the_end(void **state)
{
	const struct koda_slot_options drafting = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_copy *copy;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;
	char id[64], draft[64], files[256];

	begin_with(&f, SIMPLE);
	for (int removing = 0; removing < 2; removing++) {
		slot = koda_slot_open(f.ses, &drafting, &err);
		assert_non_null(slot);
		snprintf(draft, sizeof(draft), "%s", koda_slot_draft(slot));
		koda_slot_release(slot);
		copy = open_clone(&f);
		snprintf(id, sizeof(id), "%s", koda_copy_id(copy));
		koda_copy_close(copy);
		snprintf(files, sizeof(files),
		    "cd \"$HOME\"/.local/state/koda-sandbox/copies/*/%s; printf %%s \"$3\" >collected%s",
		    id, removing ? "; touch removing" : "");
		user(&f, files, draft);
		/* More work there would be in no draft. */
		assert_null(koda_copy_open(f.ses,
		    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_CLONE, .id = id }, &err));
		assert_code(&err, KODA_CONFLICT);
		copy = koda_copy_find(f.ses, id, &err);
		assert_non_null(copy);
		/* The clone is discarded with its draft; but once it is being removed, alone. */
		assert_true(release(copy, KODA_RELEASE_DISCARD).copy_removed);
		koda_copy_close(copy);
		assert_int_equal(count_copies(&f), 0);
		assert_int_equal(count_drafts(&f), removing);
	}
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(everything),
		cmocka_unit_test(touched),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(conflicts),
		cmocka_unit_test(secrets),
		cmocka_unit_test(left_out),
		cmocka_unit_test(marks),
		cmocka_unit_test(refused_at_apply),
		cmocka_unit_test(too_large),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(host_killed),
		cmocka_unit_test(killed_at_the_end),
	};
	struct CMUnitTest tests[N_ELEMENTS(others) + N_ELEMENTS(works)];
	size_t n = 0;

	OTHERS(others);
	CASES(works, becomes);
	return _cmocka_run_group_tests("clone", tests, n, NULL, NULL);
}
