/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/review, host/draft/history: deciding on a draft. What is listed, what is applied, and what is
 * taken back, through the public header.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/kit/hosting.h"
#include "tests/kit/process.h"

struct review {
	struct fixture f;
	struct koda_draft *draft;
	char id[64], undo[KODA_HISTORY_ID_SIZE];
	char listed[8192]; /* a line for each change */
	char told[8192];   /* a line for each outcome */
	size_t n_applied, stop_after;
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
below(const struct review *r, const char *path)
{
	const size_t len = strlen(r->f.root);

	assert_memory_equal(path, r->f.root, len);
	return path + len + (path[len] == '/');
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct review *r = data;

	put_line(r->listed, sizeof(r->listed), "%s %s%s%s%s\n", koda_change_kind_name(c->kind),
	    below(r, c->path), c->conflict ? " conflict" : "", c->rule != NULL ? " refused " : "",
	    c->rule != NULL ? c->rule : "");
	return 0;
}

static int
on_applied(void *data, const struct koda_applied *one)
{
	struct review *r = data;

	put_line(r->told, sizeof(r->told), "%s %s %s\n", koda_apply_outcome_name(one->outcome),
	    koda_change_kind_name(one->kind), below(r, one->path));
	r->n_applied += one->outcome == KODA_APPLIED;
	return r->stop_after != 0 && r->n_applied == r->stop_after ? 7 : 0;
}

/* What is in the project for a tick of the clock that stamps files is older than a draft that is begun
 * then. */
static void
wait_for_coarse_tick(void)
{
	struct timespec was, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &was);
	do {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec == was.tv_sec && now.tv_nsec == was.tv_nsec);
}

/* The ticks of the file system's clock take some milliseconds: wait for another one. */
static void
wait_for_tick_at(const struct review *r, const char *name)
{
	const char *path = at(&r->f, name);
	struct stat first, now;

	assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
	assert_int_equal(stat(path, &first), 0);
	do {
		assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
		assert_int_equal(stat(path, &now), 0);
	} while (now.st_ctim.tv_sec * 1000 + now.st_ctim.tv_nsec / 1000000 <
	    first.st_ctim.tv_sec * 1000 + first.st_ctim.tv_nsec / 1000000 + 20);
}

static void
wait_for_tick(const struct review *r)
{
	wait_for_tick_at(r, "dir/c");
}

/* A project, prepared by a command of the user's, and a draft in which the other command ran. */
static void
begin_in(struct review *r, const char *prepare, const char *shell)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = shell };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;

	*r = (struct review){ 0 };
	fixture_prepare(&r->f, KODA_AUTO);
	r->f.options.commands = true;
	put_text(&r->f, "a", "old a\n");
	put_text(&r->f, "b", "old b\n");
	assert_int_equal(mkdir(at(&r->f, "dir"), 0755), 0);
	put_text(&r->f, "dir/c", "old c\n");
	put_text(&r->f, "dir/d", "old d\n");
	if (prepare != NULL)
		process_shell("cd \"$1\" && eval \"$2\"", r->f.root, prepare, NULL);
	wait_for_tick(r);
	fixture_open(&r->f);
	wait_for_coarse_tick();
	slot = koda_slot_open(r->f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	snprintf(r->id, sizeof(r->id), "%s", koda_slot_draft(slot));
	if (koda_run(slot, &c, &result, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	if (result.status != 0)
		fail_msg("status %d: %.*s", result.status, (int)result.err.head_len,
		    result.err.head);
	koda_command_result_done(&result);
	koda_slot_release(slot);
}

static void
begin(struct review *r, const char *shell)
{
	begin_in(r, NULL, shell);
}

static void
open_it(struct review *r)
{
	struct koda_error err;

	r->draft = koda_draft_open(r->f.ses, r->id, &err);
	if (r->draft == NULL)
		fail_msg("open: %s", err.message);
}

static void
end(struct review *r)
{
	koda_draft_close(r->draft);
	fixture_end(&r->f);
}

static const char *
list(struct review *r)
{
	struct koda_error err;

	r->listed[0] = '\0';
	if (koda_draft_changes(r->draft, on_change, r, NULL, &err) != 0)
		fail_msg("changes: %s", err.message);
	return r->listed;
}

static const char *
apply(struct review *r, const struct koda_apply_options *o, int expected)
{
	struct koda_error err;
	int got;

	r->told[0] = '\0';
	r->n_applied = 0;
	got = koda_draft_apply(r->draft, o, on_applied, r, r->undo, &err);
	if (got != expected)
		fail_msg("apply: %d, %s", got, err.message);
	return r->told;
}

static const char *
undo(struct review *r, const struct koda_undo_options *o)
{
	struct koda_error err;

	r->told[0] = '\0';
	if (koda_history_undo(r->f.ses, r->undo, o, on_applied, r, &err) != 0)
		fail_msg("undo: %s", err.message);
	return r->told;
}

static int
count_draft(void *data, const struct koda_drafted *one)
{
	++*(size_t *)data;
	return 0;
}

static size_t
n_drafts(const struct review *r)
{
	struct koda_error err;
	size_t n = 0;

	assert_int_equal(koda_drafts_visit(r->f.root, count_draft, &n, &err), 0);
	return n;
}

static void
is_old(const struct review *r)
{
	assert_string_equal(get_text(&r->f, "a"), "old a\n");
	assert_string_equal(get_text(&r->f, "b"), "old b\n");
	assert_string_equal(get_text(&r->f, "dir/c"), "old c\n");
	assert_string_equal(get_text(&r->f, "dir/d"), "old d\n");
	assert_false(exists(&r->f, "new"));
	assert_false(exists(&r->f, "link"));
}

#define EDIT                                                                                       \
	"echo new a >a; rm b; rm -r dir; mkdir -p new/er; echo x >new/er/x; ln -s a link; "        \
	"mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; mkdir .vscode; echo {} >.vscode/tasks.json"

static void
listed(void **state)
{
	struct review r;

	begin(&r, EDIT);
	open_it(&r);
	assert_string_equal(list(&r),
	    "created .git\ncreated .git/hooks refused git_config\n"
	    "created .git/hooks/pre-commit refused git_config\n"
	    "created .vscode refused deny_write_within_allow\n"
	    "created .vscode/tasks.json refused deny_write_within_allow\n"
	    "changed a\ndeleted b\ndeleted dir\ncreated link\ncreated new\ncreated new/er\n"
	    "created new/er/x\n");
	is_old(&r);
	end(&r);
}

static void
applied_and_taken_back(void **state)
{
	static const struct koda_undo_options redo = { .redo = true };
	struct koda_apply_options dry = { .dry_run = true };
	struct review r;

	begin(&r, EDIT);
	open_it(&r);
	apply(&r, &dry, 0);
	is_old(&r);
	apply(&r, NULL, 0);
	assert_string_equal(r.told,
	    "refused created .git/hooks\nrefused created .git/hooks/pre-commit\n"
	    "refused created .vscode\nrefused created .vscode/tasks.json\n"
	    "applied created .git\napplied changed a\napplied created link\napplied created new\n"
	    "applied created new/er\napplied created new/er/x\napplied deleted dir\n"
	    "applied deleted b\n");
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_false(exists(&r.f, "b"));
	assert_false(exists(&r.f, "dir"));
	assert_string_equal(get_text(&r.f, "new/er/x"), "x\n");
	assert_false(exists(&r.f, ".git/hooks"));
	assert_false(exists(&r.f, ".vscode"));
	/* What was refused is still there. */
	assert_string_equal(list(&r),
	    "created .git/hooks refused git_config\n"
	    "created .git/hooks/pre-commit refused git_config\n"
	    "created .vscode refused deny_write_within_allow\n"
	    "created .vscode/tasks.json refused deny_write_within_allow\n");
	/* No one removes a git directory, not even an empty one. */
	assert_non_null(strstr(undo(&r, NULL), "refused created .git\n"));
	is_old(&r);
	undo(&r, &redo);
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_string_equal(get_text(&r.f, "new/er/x"), "x\n");
	assert_false(exists(&r.f, "dir"));
	undo(&r, NULL);
	is_old(&r);
	end(&r);
}

static void
a_part(void **state)
{
	const char *const paths[] = { "new/er/x", "b" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 2 };
	struct review r;

	begin(&r, "echo new a >a; rm b; mkdir -p new/er; echo x >new/er/x; echo y >new/y");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0),
	    "applied created new\napplied created new/er\napplied created new/er/x\n"
	    "applied deleted b\n");
	assert_string_equal(list(&r), "changed a\ncreated new/y\n");
	assert_string_equal(get_text(&r.f, "a"), "old a\n");
	assert_int_equal(n_drafts(&r), 1);
	apply(&r, NULL, 0);
	assert_int_equal(n_drafts(&r), 0);
	assert_string_equal(get_text(&r.f, "new/y"), "y\n");
	end(&r);
}

/* Permissions of a directory are a change of their own: with them nothing else is forgotten. */
static void
forget_permissions(void **state)
{
	const char *const paths[] = { "di[r]" };
	const struct koda_apply_options project = { .take = KODA_TAKE_PROJECT };
	struct koda_error err;
	struct stat st;
	struct review r;

	begin(&r, "chmod 700 dir; echo new c >dir/c");
	open_it(&r);
	assert_string_equal(list(&r), "mode dir\nchanged dir/c\n");
	assert_int_equal(koda_draft_discard(r.draft, paths, 1, &err), 0);
	assert_string_equal(list(&r), "changed dir/c\n");
	end(&r);

	begin(&r, "chmod 700 dir; echo new c >dir/c");
	assert_int_equal(chmod(at(&r.f, "dir"), 0711), 0);
	open_it(&r);
	assert_string_equal(list(&r), "mode dir conflict\nchanged dir/c\n");
	assert_string_equal(apply(&r, &project, 0), "applied changed dir/c\n");
	assert_string_equal(get_text(&r.f, "dir/c"), "new c\n");
	assert_int_equal(stat(at(&r.f, "dir"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	end(&r);
}

/* A directory that is forgotten takes what is in it with it; so all of that has to be selected. */
static void
forget_directory(void **state)
{
	const char *const some[] = { "ne[w]" }, *const all[] = { "new" };
	struct koda_error err;
	struct review r;

	begin(&r,
	    "mkdir new; echo x >new/x; echo y >new/y; echo new a >a; rm b; mkdir b; echo z >b/z");
	open_it(&r);
	assert_int_equal(koda_draft_discard(r.draft, some, 1, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_string_equal(list(&r),
	    "changed a\ndeleted b\ncreated b\ncreated b/z\ncreated new\ncreated new/x\ncreated new/y\n");
	assert_int_equal(koda_draft_discard(r.draft, all, 1, &err), 0);
	assert_string_equal(list(&r), "changed a\ndeleted b\ncreated b\ncreated b/z\n");
	end(&r);
}

/* More levels than a draft may have. */
#define GO_DEEP                                                                                    \
	"i=0; while [ $i -lt 205 ]; do { [ -d d ] || mkdir d; } && cd d || exit 1; i=$((i + 1)); done; "

/* What is not listed is not applied: that is said, and the draft stays, whatever is left to list. */
static void
beyond_the_limits(void **state)
{
	const char *const paths[] = { "x" };
	struct koda_apply_options some = { .paths = paths, .n_paths = 1, .dry_run = true };
	struct review r;

	begin_in(&r, GO_DEEP, "echo x >x; " GO_DEEP "echo y >y");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0), "applied created x\nunlisted changed \n");
	assert_false(exists(&r.f, "x"));
	some.dry_run = false;
	assert_string_equal(apply(&r, &some, 0), "applied created x\nunlisted changed \n");
	assert_true(exists(&r.f, "x"));
	assert_string_equal(list(&r), "");
	assert_string_equal(apply(&r, NULL, 0), "unlisted changed \n");
	assert_int_equal(n_drafts(&r), 1);
	end(&r);
}

/* What the draft made in the stead of a directory hides all that was there: also what was applied of
 * it, if the rest stays in the draft. */
static void
a_part_of_a_replaced_directory(void **state)
{
	const char *const paths[] = { "dir/new" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 1 };
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options look = { .shell = "cat dir/new && ! cat dir/c" };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct review r;

	begin(&r, "rm -r dir; mkdir dir; echo x >dir/new; echo new d >dir/d");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0), "applied created dir/new\n");
	assert_string_equal(list(&r), "deleted dir/c\nchanged dir/d\n");
	koda_draft_close(r.draft);
	o.draft = r.id;
	slot = koda_slot_open(r.f.ses, &o, &err);
	assert_non_null(slot);
	assert_int_equal(koda_run(slot, &look, &result, &err), 0);
	assert_int_equal(result.status, 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(&r);
	assert_string_equal(apply(&r, NULL, 0), "applied changed dir/d\napplied deleted dir/c\n");
	assert_int_equal(n_drafts(&r), 0);
	assert_string_equal(get_text(&r.f, "dir/new"), "x\n");
	assert_string_equal(get_text(&r.f, "dir/d"), "new d\n");
	assert_false(exists(&r.f, "dir/c"));
	end(&r);
}

/* The directory that a selected file needs takes the name of a file. */
static void
a_part_where_a_file_was(void **state)
{
	const char *const paths[] = { "a/x" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 1 };
	struct review r;

	begin(&r, "rm a b; mkdir a; echo x >a/x; echo y >a/y");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0),
	    "applied deleted a\napplied created a\napplied created a/x\n");
	assert_string_equal(apply(&r, NULL, 0), "applied created a/y\napplied deleted b\n");
	assert_string_equal(get_text(&r.f, "a/x"), "x\n");
	end(&r);
}

/* Changes in a directory change its time, which is not what its permissions are about. */
static void
permissions_of_a_directory(void **state)
{
	const char *const paths[] = { "dir/new" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 1 };
	struct stat st;
	struct review r;

	begin(&r, "chmod 700 dir; echo x >dir/new; rm dir/c");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0), "applied created dir/new\n");
	assert_string_equal(list(&r), "mode dir\ndeleted dir/c\n");
	assert_string_equal(apply(&r, NULL, 0), "applied mode dir\napplied deleted dir/c\n");
	assert_string_equal(undo(&r, NULL), "applied deleted dir/c\napplied mode dir\n");
	assert_true(stat(at(&r.f, "dir"), &st) == 0 && (st.st_mode & 07777) == 0755);
	undo(&r, &(struct koda_undo_options){ .redo = true });
	assert_int_equal(chmod(at(&r.f, "dir"), 0750), 0);
	assert_string_equal(undo(&r, NULL), "applied deleted dir/c\nconflict mode dir\n");
	end(&r);
}

/* The content stays the same. */
static void
links_and_attributes(void **state)
{
	struct stat a, link;
	char value[8];
	struct review r;

	begin(&r, "ln a link; python3 -c 'import os; os.setxattr(\"b\", \"user.note\", b\"1\")'");
	open_it(&r);
	assert_string_equal(list(&r), "changed a\nchanged b\ncreated link\n");
	apply(&r, NULL, 0);
	assert_true(lstat(at(&r.f, "a"), &a) == 0 && lstat(at(&r.f, "link"), &link) == 0);
	assert_int_equal(a.st_ino, link.st_ino);
	assert_int_equal(getxattr(at(&r.f, "b"), "user.note", value, sizeof(value)), 1);
	undo(&r, NULL);
	is_old(&r);
	assert_int_equal(getxattr(at(&r.f, "b"), "user.note", value, sizeof(value)), -1);
	end(&r);
}

static void
conflicts(void **state)
{
	static const struct koda_apply_options draft = { .take = KODA_TAKE_DRAFT };
	struct review r;

	begin(&r, "echo new a >a; rm b; echo mine >fresh; echo new c >dir/c");
	put_text(&r.f, "a", "the user's a\n");
	put_text(&r.f, "fresh", "the user's\n");
	open_it(&r);
	assert_string_equal(list(&r),
	    "changed a conflict\ndeleted b\nchanged dir/c\nchanged fresh conflict\n");
	assert_string_equal(apply(&r, NULL, 0),
	    "conflict changed a\nconflict changed fresh\napplied changed dir/c\napplied deleted b\n");
	assert_string_equal(get_text(&r.f, "a"), "the user's a\n");
	assert_string_equal(get_text(&r.f, "fresh"), "the user's\n");
	apply(&r, &draft, 0);
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_int_equal(n_drafts(&r), 0);
	undo(&r, NULL);
	assert_string_equal(get_text(&r.f, "a"), "the user's a\n");
	assert_string_equal(get_text(&r.f, "fresh"), "the user's\n");
	end(&r);
}

/* Overlayfs goes on to show what it has shown once. So a command that has seen a file changes the old
 * one when the user has replaced it meanwhile, and that is a conflict. */
static void
replaced_after_it_was_seen(void **state)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options see = { .shell = "cat a" },
					  change = { .shell = "echo more >>a" };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct review r;

	begin(&r, "true");
	slot = koda_slot_open(r.f.ses, &o, &err);
	assert_non_null(slot);
	snprintf(r.id, sizeof(r.id), "%s", koda_slot_draft(slot));
	assert_int_equal(koda_run(slot, &see, &result, &err), 0);
	koda_command_result_done(&result);
	put_text(&r.f, "a~", "the user's a\n");
	assert_int_equal(rename(at(&r.f, "a~"), at(&r.f, "a")), 0);
	/* What was there at first is long ago, in ticks. */
	for (int i = 0; i < 2; i++)
		wait_for_tick(&r);
	assert_int_equal(koda_run(slot, &change, &result, &err), 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(&r);
	assert_string_equal(apply(&r, NULL, 0), "conflict changed a\n");
	assert_string_equal(get_text(&r.f, "a"), "the user's a\n");
	end(&r);
}

/* A draft that is mounted again shows what the project has by then, also what was applied. */
static void
goes_on_after_a_part(void **state)
{
	const char *const paths[] = { "a" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 1 };
	const struct koda_command_options again = { .shell = "echo again >>a" };
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct review r;

	begin(&r, "echo new a >a; rm b");
	open_it(&r);
	apply(&r, &some, 0);
	koda_draft_close(r.draft);
	o.draft = r.id;
	slot = koda_slot_open(r.f.ses, &o, &err);
	assert_non_null(slot);
	assert_int_equal(koda_run(slot, &again, &result, &err), 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(&r);
	assert_string_equal(apply(&r, NULL, 0), "applied changed a\napplied deleted b\n");
	assert_string_equal(get_text(&r.f, "a"), "new a\nagain\n");
	end(&r);
}

/* What was changed after it was applied is not taken back. */
static void
undo_conflicts(void **state)
{
	struct review r;

	begin(&r, "echo new a >a; echo new c >dir/c; echo x >fresh");
	open_it(&r);
	apply(&r, NULL, 0);
	put_text(&r.f, "a", "the user's a\n");
	assert_string_equal(undo(&r, NULL),
	    "applied created fresh\napplied changed dir/c\nconflict changed a\n");
	assert_string_equal(get_text(&r.f, "a"), "the user's a\n");
	assert_string_equal(get_text(&r.f, "dir/c"), "old c\n");
	end(&r);
}

/* Programs write a file anew and rename it: the draft's file is then younger than the user's change,
 * and does not have it all the same. */
static void
replaced_again(void **state)
{
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = "sed -i s/first/second/ a" };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct review r;

	begin(&r, "sed -i s/old/first/ a");
	put_text(&r.f, "a", "the user's a\n");
	o.draft = r.id;
	slot = koda_slot_open(r.f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	assert_int_equal(koda_run(slot, &c, &result, &err), 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(&r);
	assert_string_equal(list(&r), "changed a conflict\n");
	end(&r);
}

/* Runs it in the draft again. */
static void
go_on(struct review *r, const char *shell)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT, .draft = r->id };
	const struct koda_command_options c = { .shell = shell };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;

	koda_draft_close(r->draft);
	slot = koda_slot_open(r->f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	assert_int_equal(koda_run(slot, &c, &result, &err), 0);
	assert_int_equal(result.status, 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(r);
}

/* What the draft itself has put into the project is no change by others, however the draft goes on with
 * it. What others make of it is. */
static void
goes_on_with_its_own(void **state)
{
	const char *const paths[] = { "a", "b", "dir/c", "dir/d", "fresh" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 5 };
	struct review r;

	begin(&r,
	    "echo new >a; echo new >b; echo new >dir/c; echo new >dir/d; echo new >fresh; echo x >x");
	open_it(&r);
	apply(&r, &some, 0);
	assert_string_equal(list(&r), "created x\n");
	go_on(&r,
	    "sed -i s/new/newer/ a; rm b; rm dir/c; mkdir dir/c; sed -i s/new/newer/ dir/d fresh");
	assert_string_equal(list(&r),
	    "changed a\ndeleted b\ndeleted dir/c\ncreated dir/c\nchanged dir/d\nchanged fresh\n"
	    "created x\n");
	wait_for_tick_at(&r, "dir/d");
	put_text(&r.f, "a", "the user's a\n");
	process_shell("cd \"$1\" && cp fresh f && mv f fresh && chmod 600 b", r.f.root, NULL, NULL);
	assert_string_equal(list(&r),
	    "changed a conflict\ndeleted b conflict\ndeleted dir/c\ncreated dir/c\n"
	    "changed dir/d conflict\nchanged fresh conflict\ncreated x\n");
	end(&r);
}

/* Programs like make go by the time of a file. */
static void
touched(void **state)
{
	struct stat was, now;
	struct review r;

	begin(&r,
	    "touch -d @1609502400 a; : >>b; cat dir/c >dir/c~; mv dir/c~ dir/c; chmod 600 dir/d");
	put_text(&r.f, "dir/c", "new c\n");
	put_text(&r.f, "dir/c", "old c\n");
	open_it(&r);
	/* Opening a file changes nothing, and who else wrote the same content has the time as well. */
	assert_string_equal(list(&r), "changed a\nmode dir/d\n");
	assert_int_equal(stat(at(&r.f, "a"), &was), 0);
	apply(&r, NULL, 0);
	assert_string_equal(get_text(&r.f, "a"), "old a\n");
	assert_int_equal(stat(at(&r.f, "a"), &now), 0);
	assert_int_equal(now.st_mtim.tv_sec, 1609502400);
	undo(&r, NULL);
	assert_int_equal(stat(at(&r.f, "a"), &now), 0);
	assert_int_equal(now.st_mtim.tv_sec, was.st_mtim.tv_sec);
	assert_int_equal(now.st_mtim.tv_nsec, was.st_mtim.tv_nsec);
	end(&r);
}

/* ---- permissions ---- */

/* A command cannot make its draft unreadable as a whole. */
static void
closed_directories(void **state)
{
	struct koda_error err;
	struct review r;

	begin_in(&r, "mkdir was; echo x >was/x; chmod 0 was",
	    "mkdir closed blind empty; echo x >closed/x; echo x >blind/x; chmod 0 closed empty; "
	    "chmod 400 blind; echo new a >a; chmod 700 was; echo y >was/y");
	open_it(&r);
	assert_string_equal(list(&r),
	    "changed a\ncreated blind refused unreadable\ncreated closed refused unreadable\n"
	    "created empty refused unreadable\nmode was\n");
	apply(&r, NULL, 0);
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_false(exists(&r.f, "closed"));
	/* Now that the project's can be read, its names are known. */
	assert_string_equal(list(&r),
	    "created blind refused unreadable\ncreated closed refused unreadable\n"
	    "created empty refused unreadable\ncreated was/y\n");
	assert_int_equal(koda_draft_discard(r.draft, NULL, 0, &err), 0);
	assert_int_equal(n_drafts(&r), 0);
	end(&r);
}

static mode_t
mode_of(const struct review *r, const char *name)
{
	struct stat st;

	assert_int_equal(lstat(at(&r->f, name), &st), 0);
	return st.st_mode & 07777;
}

/* What is in a directory comes and goes before the directory is closed, and after it is opened. */
static void
read_only_directories(void **state)
{
	static const struct koda_undo_options redo = { .redo = true };
	struct review r;

	begin(&r,
	    "mkdir -p ro/in; echo x >ro/x; echo y >ro/in/y; chmod 555 ro/in ro; echo z >dir/z; "
	    "rm dir/d; echo new c >dir/c; chmod 555 dir");
	open_it(&r);
	assert_string_equal(apply(&r, NULL, 0),
	    "applied changed dir/c\napplied created dir/z\napplied created ro\n"
	    "applied created ro/in\napplied created ro/in/y\napplied created ro/x\n"
	    "applied deleted dir/d\napplied mode dir\n");
	assert_int_equal(n_drafts(&r), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mode_of(&r, "ro"), 0555);
		assert_int_equal(mode_of(&r, "ro/in"), 0555);
		assert_int_equal(mode_of(&r, "dir"), 0555);
		assert_string_equal(get_text(&r.f, "ro/in/y"), "y\n");
		assert_false(exists(&r.f, "dir/d"));
		assert_non_null(strstr(undo(&r, NULL), "applied created ro\n"));
		assert_null(strstr(r.told, "conflict"));
		is_old(&r);
		assert_int_equal(mode_of(&r, "dir"), 0755);
		assert_false(exists(&r.f, "ro"));
		assert_false(exists(&r.f, "dir/z"));
		if (i == 0)
			undo(&r, &redo);
	}
	end(&r);
}

/* A part is applied, and the draft keeps the permissions of its directory. */
static void
read_only_in_part(void **state)
{
	const char *const paths[] = { "dir/c" };
	const struct koda_apply_options some = { .paths = paths, .n_paths = 1 };
	struct review r;

	begin(&r, "echo new c >dir/c; rm dir/d; chmod 555 dir");
	open_it(&r);
	assert_string_equal(apply(&r, &some, 0), "applied changed dir/c\n");
	/* That something was applied in the directory is no change of the directory. */
	assert_string_equal(list(&r), "mode dir\ndeleted dir/d\n");
	assert_string_equal(apply(&r, NULL, 0), "applied deleted dir/d\napplied mode dir\n");
	assert_int_equal(mode_of(&r, "dir"), 0555);
	undo(&r, NULL);
	assert_int_equal(mode_of(&r, "dir"), 0755);
	end(&r);
}

/* Who stops hears of everything that was applied. */
static void
stopped(void **state)
{
	struct review r;

	begin(&r, "echo new a >a; rm b; echo x >x");
	open_it(&r);
	r.stop_after = 1;
	assert_string_equal(apply(&r, NULL, 7),
	    "applied changed a\napplied created x\napplied deleted b\n");
	assert_string_equal(get_text(&r.f, "x"), "x\n");
	assert_false(exists(&r.f, "b"));
	end(&r);
}

/* ---- on disk ---- */

/* From now on, writing a file system to disk fails in this process. */
static void
break_syncfs(void)
{
	/* clang-format off */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_syncfs, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct sock_fprog filter = { .len = N_ELEMENTS(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 || syncfs(STDIN_FILENO) == 0 ||
	    errno != EIO)
		_exit(6);
}

/* Fails from the n-th change on. */
static int
break_later(void *data, const struct koda_applied *one)
{
	size_t *left = data;

	if (one->outcome == KODA_APPLIED && --*left == 0)
		break_syncfs();
	return 0;
}

static int
unfinished(void *data, const struct koda_history_entry *one)
{
	*(size_t *)data += one->unfinished;
	return 0;
}

static size_t
n_unfinished(const struct review *r)
{
	struct koda_error err;
	size_t n = 0;

	assert_int_equal(koda_history_visit(r->f.root, unfinished, &n, &err), 0);
	return n;
}

/* Nothing is reported as done that a power failure could undo: not before it is on disk, and nothing
 * is replaced by what is not. after: how many changes are made before it fails. */
static void
fails_to_sync(struct review *r, size_t after, const char *words)
{
	struct koda_error err;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct koda_session *ses = koda_session_open(&r->f.options, &err);
		struct koda_draft *d = ses == NULL ? NULL : koda_draft_open(ses, r->id, &err);

		if (d == NULL)
			_exit(4);
		if (after == 0)
			break_syncfs();
		if (koda_draft_apply(d, NULL, break_later, &after, NULL, &err) != -1)
			_exit(5);
		_exit(err.code == KODA_IO && strstr(err.message, words) != NULL ? 0 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
synced_before(void **state)
{
	struct review r;

	begin(&r, "echo new a >a; rm b");
	fails_to_sync(&r, 0, "nothing was changed");
	is_old(&r);
	/* What was begun is done by the next one. */
	open_it(&r);
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_false(exists(&r.f, "b"));
	assert_int_equal(n_unfinished(&r), 0);
	end(&r);
}

static void
synced_after(void **state)
{
	struct review r;

	begin(&r, "echo new a >a; rm b");
	fails_to_sync(&r, 2, "a power failure may undo them");
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_false(exists(&r.f, "b"));
	assert_int_equal(n_unfinished(&r), 1);
	open_it(&r);
	assert_int_equal(n_unfinished(&r), 0);
	end(&r);
}

/* ---- merging ---- */

#define TEXT "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

/* Runs the command in another draft. */
static void
other_draft(struct review *r, const char *shell, char id[64])
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = shell };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;

	slot = koda_slot_open(r->f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	snprintf(id, 64, "%s", koda_slot_draft(slot));
	if (koda_run(slot, &c, &result, &err) < 0 || result.status != 0)
		fail_msg("%s: %s", shell, err.message);
	koda_command_result_done(&result);
	koda_slot_release(slot);
}

static void
apply_other(struct review *r, const char *id)
{
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(r->f.ses, id, &err);

	if (d == NULL || koda_draft_apply(d, NULL, NULL, NULL, NULL, &err) != 0)
		fail_msg("apply: %s", err.message);
	koda_draft_close(d);
}

static int
on_merge(void *data, const struct koda_merge *m)
{
	struct review *r = data;

	put_line(r->listed, sizeof(r->listed), "%s %s%s%s%s%.*s",
	    koda_merge_outcome_name(m->outcome), below(r, m->path), m->reason != NULL ? ": " : "",
	    m->reason != NULL ? m->reason : "", m->text != NULL ? "\n" : "", (int)m->len,
	    m->text != NULL ? m->text : "");
	return 0;
}

/* What merges would give. */
static const char *
merges(struct review *r)
{
	struct koda_error err;

	r->listed[0] = '\0';
	if (koda_draft_merges(r->draft, on_merge, r, &err) != 0)
		fail_msg("merges: %s", err.message);
	return r->listed;
}

static const struct koda_apply_options take_merge = { .take = KODA_TAKE_MERGE };

#define NOT_KEPT "the version that the draft began with was not kept"
#define PREPARE  "seq 9 >a"
#define FIRST    "seq 9 | sed 's/2/two/' >a"

/* Two drafts of one text, the other one applied before this one, which was made by `shell`. */
static void
begin_merge(struct review *r, const char *shell)
{
	char other[64];

	begin_in(r, PREPARE, shell);
	other_draft(r, FIRST, other);
	apply_other(r, other);
	open_it(r);
}

static void
merges_cleanly(struct review *r)
{
	const struct koda_apply_options dry = { .take = KODA_TAKE_MERGE, .dry_run = true };

	assert_string_equal(list(r), "changed a conflict\n");
	assert_string_equal(merges(r), "clean a\n1\ntwo\n3\n4\n5\n6\n7\neight\n9\n");
	assert_string_equal(apply(r, NULL, 0), "conflict changed a\n");
	assert_string_equal(apply(r, &dry, 0), "applied changed a\n");
	assert_string_equal(get_text(&r->f, "a"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
	assert_string_equal(apply(r, &take_merge, 0), "applied changed a\n");
	assert_string_equal(get_text(&r->f, "a"), "1\ntwo\n3\n4\n5\n6\n7\neight\n9\n");
	assert_int_equal(n_drafts(r), 0);
	undo(r, NULL);
	assert_string_equal(get_text(&r->f, "a"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
}

static void
merge_in_place(void **state)
{
	struct review r;

	begin_merge(&r, "seq 9 | sed 's/8/eight/' >a");
	merges_cleanly(&r);
	end(&r);
}

/* As editors do. */
static void
merge_renamed(void **state)
{
	struct review r;

	begin_merge(&r, "sed -i s/8/eight/ a");
	merges_cleanly(&r);
	end(&r);
}

static void
merge_overlaps(void **state)
{
	static const struct koda_apply_options draft = { .take = KODA_TAKE_DRAFT };
	struct review r;

	begin_merge(&r, "seq 9 | sed 's/2/zwei/' >a; echo x >fresh");
	assert_string_equal(merges(&r),
	    "overlaps a: project and draft changed the same lines in 1 place, first in line 2");
	assert_string_equal(apply(&r, &take_merge, 0),
	    "conflict changed a\napplied created fresh\n");
	assert_string_equal(get_text(&r.f, "a"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
	assert_string_equal(list(&r), "changed a conflict\n");
	apply(&r, &draft, 0);
	assert_string_equal(get_text(&r.f, "a"), "1\nzwei\n3\n4\n5\n6\n7\n8\n9\n");
	end(&r);
}

/* Only what the history kept is a base. */
static void
merge_without_base(void **state)
{
	struct review r;

	begin_in(&r, PREPARE, "seq 9 | sed 's/8/eight/' >a; rm b; echo c2 >dir/c");
	put_text(&r.f, "a", "0\n" TEXT);
	put_text(&r.f, "b", "the user's b\n");
	put_text(&r.f, "dir/c", "c2\n");
	open_it(&r);
	assert_string_equal(merges(&r),
	    "none a: " NOT_KEPT "none b: only what was changed in a file can be merged");
	assert_string_equal(apply(&r, &take_merge, 0), "conflict changed a\nconflict deleted b\n");
	assert_string_equal(get_text(&r.f, "a"), "0\n" TEXT);
	end(&r);
}

/*
 * The file that the draft's was copied from was written to before it was replaced: what the history
 * holds is not what the draft began with. A merge would take the user's line out again.
 */
static void
merge_base_changed(void **state)
{
	const char *const how[] = { "seq 9 | sed 's/8/eight/' >a", "sed -i s/8/eight/ a" };

	for (size_t i = 0; i < N_ELEMENTS(how); i++) {
		char other[64];
		struct review r;

		begin_in(&r, PREPARE, how[i]);
		put_text(&r.f, "a", "0\n" TEXT);
		other_draft(&r, "seq 9 | sed 's/2/two/' >a", other);
		apply_other(&r, other);
		open_it(&r);
		assert_string_equal(merges(&r), "none a: " NOT_KEPT);
		assert_string_equal(apply(&r, &take_merge, 0), "conflict changed a\n");
		end(&r);
	}
}

/* The draft's file was made anew after the project's was replaced: it may be made of either. */
static void
merge_made_later(void **state)
{
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = "sed -i s/9/nine/ a" };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	char other[64];
	struct review r;

	begin_in(&r, PREPARE, "sed -i s/8/eight/ a");
	other_draft(&r, FIRST, other);
	apply_other(&r, other);
	o.draft = r.id;
	slot = koda_slot_open(r.f.ses, &o, &err);
	assert_non_null(slot);
	assert_int_equal(koda_run(slot, &c, &result, &err), 0);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	open_it(&r);
	assert_string_equal(merges(&r), "none a: " NOT_KEPT);
	end(&r);
}

/* What was taken back and done again was not at the place all the time. */
static void
merge_base_returned(void **state)
{
	char first[64];
	struct review r;

	begin_in(&r, PREPARE, FIRST);
	open_it(&r);
	apply(&r, NULL, 0);
	koda_draft_close(r.draft);
	other_draft(&r, "sed -i s/8/eight/ a", first);
	undo(&r, NULL);
	undo(&r, &(struct koda_undo_options){ .redo = true });
	r.draft = koda_draft_open(r.f.ses, first, &(struct koda_error){ 0 });
	assert_non_null(r.draft);
	assert_string_equal(merges(&r), "none a: " NOT_KEPT);
	end(&r);
}

/* Each draft is merged with all that came before. */
static void
merge_several(void **state)
{
	char id[4][64], shell[64];
	struct review r;

	begin_in(&r, "seq 40 >a", "true");
	for (unsigned i = 0; i < 4; i++) {
		snprintf(shell, sizeof(shell), "sed -i 's/^%u$/changed %u/' a", 10 * i + 5, i);
		other_draft(&r, shell, id[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		r.draft = koda_draft_open(r.f.ses, id[i], &(struct koda_error){ 0 });
		assert_non_null(r.draft);
		assert_string_equal(apply(&r, &take_merge, 0), "applied changed a\n");
		koda_draft_close(r.draft);
	}
	r.draft = NULL;
	process_shell(
	    "cd \"$1\" && seq 40 | sed 's/^5$/changed 0/; s/^15$/changed 1/; s/^25$/changed 2/;"
	    " s/^35$/changed 3/' | cmp - a",
	    r.f.root, NULL, NULL);
	end(&r);
}

static void
merge_modes(void **state)
{
	struct review r;
	struct stat st;
	char other[64];

	begin_in(&r, PREPARE "; chmod 640 a", "sed -i s/8/eight/ a");
	other_draft(&r, "sed -i s/2/two/ a; chmod 750 a", other);
	apply_other(&r, other);
	open_it(&r);
	assert_string_equal(apply(&r, &take_merge, 0), "applied changed a\n");
	assert_int_equal(stat(at(&r.f, "a"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	end(&r);
}

static void
merge_unfit(void **state)
{
	static const struct {
		const char *prepare, *first, *second, *want;
	} cases[] = {
		{ "printf '1\\0\\n2\\n3\\n' >a", "sed -i s/1/one/ a", "sed -i s/3/three/ a",
		    "none a: it is not text" },
		{ "seq 200000 >a", "sed -i s/^1$/one/ a", "sed -i s/^9$/nine/ a",
		    "none a: it is too large" },
		{ "yes '' | head -n 100001 >a", "sed -i 1s/^/one/ a", "sed -i 9s/^/nine/ a",
		    "none a: it has too many lines" },
		{ "seq 9 >a; ln a a2", "seq 9 | sed s/2/two/ >a~; mv a~ a", "echo 10 >>a",
		    "none a: " NOT_KEPT },
		{ "seq 9 >a", "sed -i s/2/two/ a", "sed -i s/9/nine/ a; ln a a2",
		    "none a: it has several names (hard links)" },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char other[64];
		struct review r;

		begin_in(&r, cases[i].prepare, cases[i].second);
		other_draft(&r, cases[i].first, other);
		apply_other(&r, other);
		open_it(&r);
		assert_string_equal(merges(&r), cases[i].want);
		end(&r);
	}
}

/* ---- a host that is killed ---- */

static int
die(void *data, const struct koda_applied *one)
{
	size_t *left = data;

	if (one->outcome == KODA_APPLIED && --*left == 0)
		raise(SIGKILL);
	return 0;
}

/* Another host applies the draft (undo: takes it back), and is killed when it hears of the k-th
 * change. Returns false if it got to its end before. */
static bool
is_killed_at(const struct review *r, size_t k, bool undo)
{
	const pid_t pid = fork();
	struct koda_error err;
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct koda_session *ses = koda_session_open(&r->f.options, &err);
		struct koda_draft *d;

		if (ses == NULL)
			_exit(2);
		if (undo)
			_exit(koda_history_undo(ses, r->undo, NULL, die, &k, &err) == 0 ? 0 : 3);
		d = koda_draft_open(ses, r->id, &err);
		if (d == NULL)
			_exit(4);
		_exit(koda_draft_apply(d, NULL, die, &k, NULL, &err) == 0 ? 0 : 5);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		fail_msg("the other host: %d", WEXITSTATUS(status));
	return WIFSIGNALED(status);
}

static int
find_entry(void *data, const struct koda_history_entry *one)
{
	struct review *r = data;

	assert_false(one->unfinished);
	snprintf(r->undo, sizeof(r->undo), "%s", one->id);
	return 0;
}

static bool
is_killed_once(size_t k)
{
	struct koda_error err;
	struct review r;
	bool killed;

	begin(&r,
	    "echo new a >a; rm b; rm dir/c; chmod 600 dir/d; mkdir new; echo x >new/x; ln -s a link");
	killed = is_killed_at(&r, k, false);
	if (killed) {
		/* What was begun is finished when the draft is opened again. */
		open_it(&r);
		assert_string_equal(list(&r), "");
		assert_int_equal(koda_draft_discard(r.draft, NULL, 0, &err), 0);
		koda_draft_close(r.draft);
		r.draft = NULL;
	}
	assert_string_equal(get_text(&r.f, "a"), "new a\n");
	assert_string_equal(get_text(&r.f, "new/x"), "x\n");
	assert_false(exists(&r.f, "b"));
	assert_false(exists(&r.f, "dir/c"));
	assert_int_equal(koda_history_visit(r.f.root, find_entry, &r, &err), 0);
	/* The same with taking it back; the next one takes back what was left. */
	if (killed)
		assert_true(is_killed_at(&r, k, true));
	undo(&r, NULL);
	is_old(&r);
	end(&r);
	return killed;
}

/* More than a batch, so that a part is left. */
#define MADE "for i in $(seq 300); do echo seen >f$i; done"

/* What is left of an apply is what was decided on: no command goes on in the draft before. */
static void
going_on_after_killed_host(void **state)
{
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options c = { .shell = "echo hostile >f99" };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct review r;

	begin(&r, MADE);
	assert_true(is_killed_at(&r, 1, false));
	assert_false(exists(&r.f, "f99"));
	o.draft = r.id;
	slot = koda_slot_open(r.f.ses, &o, &err);
	if (slot != NULL) {
		assert_int_equal(koda_run(slot, &c, &result, &err), 0);
		koda_command_result_done(&result);
		koda_slot_release(slot);
	} else {
		assert_int_equal(err.code, KODA_CONFLICT);
		assert_non_null(strstr(err.message, "was not applied to the end"));
	}
	open_it(&r);
	assert_string_equal(get_text(&r.f, "f99"), "seen\n");
	assert_null(slot);
	end(&r);
}

/* The same, of what does not ask for the draft's lock. */
static void
draft_changed_after_killed_host(void **state)
{
	struct review r;

	begin(&r, MADE);
	assert_true(is_killed_at(&r, 1, false));
	process_shell("echo hostile >\"$(find \"$HOME\" -path '*/u/f99')\"", NULL, NULL, NULL);
	open_it(&r);
	assert_false(exists(&r.f, "f99"));
	assert_string_equal(get_text(&r.f, "f98"), "seen\n");
	assert_string_equal(list(&r), "created f99\n");
	end(&r);
}

static void
killed_hosts(void **state)
{
	size_t k = 1;

	while (is_killed_once(k))
		k++;
	assert_true(k > 5);
}

/* An index that git has refreshed since is not taken back, and what it needs stays. */
static void
git_stays_whole(void **state)
{
	struct review r;
	struct koda_error err;
	const struct koda_undo_options over = { .take = KODA_TAKE_DRAFT };

	begin_in(&r,
	    "git init -q; git config user.name n; git config user.email e; git add -A; "
	    "git commit -qm one",
	    "echo more >>a; echo x >new; git add -A; git commit -qm two");
	open_it(&r);
	apply(&r, NULL, 0);
	process_shell(
	    "cd \"$1\" && git log --format=%s | grep -q two && test -z \"$(git status --short)\" && "
	    "touch a && git status >/dev/null && git fsck --strict >/dev/null",
	    r.f.root, NULL, NULL);
	assert_non_null(strstr(undo(&r, NULL), "conflict changed .git/index\n"));
	process_shell(
	    "cd \"$1\" && git fsck --strict >/dev/null && git status >/dev/null && git diff --cached >/dev/null",
	    r.f.root, NULL, NULL);
	assert_int_equal(koda_history_undo(r.f.ses, r.undo, &over, NULL, NULL, &err), 0);
	process_shell(
	    "cd \"$1\" && git fsck --strict >/dev/null && test -z \"$(git status --short)\" && "
	    "test \"$(git log --format=%s)\" = one && test \"$(git count-objects | cut -d\' \' -f1)\" = 7",
	    r.f.root, NULL, NULL);
	end(&r);
}

static void
discarded(void **state)
{
	const char *const paths[] = { "a", "new" };
	struct koda_error err;
	struct review r;

	begin(&r, "echo new a >a; rm b; mkdir new; echo x >new/x");
	open_it(&r);
	if (koda_draft_discard(r.draft, paths, 2, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(list(&r), "deleted b\n");
	assert_int_equal(koda_draft_discard(r.draft, NULL, 0, &err), 0);
	assert_int_equal(n_drafts(&r), 0);
	is_old(&r);
	end(&r);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(listed),
		cmocka_unit_test(applied_and_taken_back),
		cmocka_unit_test(a_part),
		cmocka_unit_test(forget_permissions),
		cmocka_unit_test(forget_directory),
		cmocka_unit_test(beyond_the_limits),
		cmocka_unit_test(a_part_of_a_replaced_directory),
		cmocka_unit_test(a_part_where_a_file_was),
		cmocka_unit_test(permissions_of_a_directory),
		cmocka_unit_test(links_and_attributes),
		cmocka_unit_test(conflicts),
		cmocka_unit_test(replaced_after_it_was_seen),
		cmocka_unit_test(goes_on_after_a_part),
		cmocka_unit_test(undo_conflicts),
		cmocka_unit_test(replaced_again),
		cmocka_unit_test(merge_in_place),
		cmocka_unit_test(merge_renamed),
		cmocka_unit_test(merge_overlaps),
		cmocka_unit_test(merge_without_base),
		cmocka_unit_test(merge_base_changed),
		cmocka_unit_test(merge_made_later),
		cmocka_unit_test(merge_base_returned),
		cmocka_unit_test(merge_several),
		cmocka_unit_test(merge_modes),
		cmocka_unit_test(merge_unfit),
		cmocka_unit_test(goes_on_with_its_own),
		cmocka_unit_test(closed_directories),
		cmocka_unit_test(read_only_directories),
		cmocka_unit_test(read_only_in_part),
		cmocka_unit_test(stopped),
		cmocka_unit_test(touched),
		cmocka_unit_test(synced_before),
		cmocka_unit_test(synced_after),
		cmocka_unit_test(going_on_after_killed_host),
		cmocka_unit_test(draft_changed_after_killed_host),
		cmocka_unit_test(killed_hosts),
		cmocka_unit_test(git_stays_whole),
		cmocka_unit_test(discarded),
	};

	return cmocka_run_group_tests_name("review", tests, NULL, NULL);
}
