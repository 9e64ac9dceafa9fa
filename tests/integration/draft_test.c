/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/sandbox/draft_boot.c, host/draft/store.c, stage2/drafts.c: a slot that works in a draft. What
 * its commands and its file operations change is seen by both, stays when the slot ends, and never
 * reaches the project.
 */
#include <dirent.h>

#include "tests/kit/hosting.h"
#include "tests/kit/process.h"

static struct koda_slot *
open_draft(struct fixture *f, const char *id)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT, .draft = id };
	struct koda_error err;
	struct koda_slot *slot = koda_slot_open(f->ses, &o, &err);

	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	return slot;
}

static void
begin(struct fixture *f)
{
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	put_text(f, "a", "old a\n");
	put_text(f, "b", "old b\n");
	assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
	put_text(f, "dir/c", "old c\n");
	fixture_open(f);
}

/* Runs it, expects status 0, and returns its output; valid until the next call. */
static const char *
out(struct koda_slot *slot, const char *shell)
{
	static char text[4096];
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	snprintf(text, sizeof(text), "%.*s", (int)r.out.head_len, r.out.head);
	if (r.status != 0)
		fail_msg("%s: status %d: %.*s", shell, r.status, (int)r.err.head_len, r.err.head);
	koda_command_result_done(&r);
	return text;
}

static const char *
read_in(struct koda_slot *slot, const char *path)
{
	static char text[256];
	struct koda_result r;
	struct koda_error err;

	if (koda_fs_read(slot, path, &r, &err) < 0)
		fail_msg("read %s: %s", path, err.message);
	snprintf(text, sizeof(text), "%.*s", (int)r.len, (const char *)r.data);
	koda_result_done(&r);
	return text;
}

static void
write_in(struct koda_slot *slot, const char *path, const char *text)
{
	struct koda_result r;
	struct koda_error err;

	if (koda_fs_write(slot, path, text, strlen(text), &r, &err) < 0)
		fail_msg("write %s: %s", path, err.message);
	koda_result_done(&r);
}

#define CHANGE                                                                                     \
	"echo new a >a; rm b; echo x >dir/x; mkdir -p deep/er; echo y >deep/er/y; ln -s a link; "  \
	"mkdir -p .git/hooks; echo '#!/bin/sh' >.git/hooks/pre-commit"

static void
project_is_as_it_was(const struct fixture *f)
{
	assert_string_equal(get_text(f, "a"), "old a\n");
	assert_string_equal(get_text(f, "b"), "old b\n");
	assert_string_equal(get_text(f, "dir/c"), "old c\n");
	assert_false(exists(f, "dir/x"));
	assert_false(exists(f, "deep"));
	assert_false(exists(f, "link"));
	assert_false(exists(f, ".git"));
}

static void
held_back(void **state)
{
	struct koda_slot *slot;
	struct fixture f;

	begin(&f);
	slot = open_draft(&f, NULL);
	assert_true(koda_slot_draft(slot)[0] != '\0');
	out(slot, CHANGE);
	assert_string_equal(out(slot, "cat a dir/x deep/er/y; ls"),
	    "new a\nx\ny\na\ndeep\ndir\nlink\n");
	/* File operations see what commands did, and the other way round. */
	assert_string_equal(read_in(slot, "a"), "new a\n");
	write_in(slot, "dir/c", "new c\n");
	write_in(slot, "fresh", "fresh\n");
	assert_string_equal(out(slot, "cat dir/c fresh"), "new c\nfresh\n");
	project_is_as_it_was(&f);
	assert_false(exists(&f, "fresh"));
	koda_slot_release(slot);
	project_is_as_it_was(&f);
	fixture_end(&f);
}

static void
goes_on(void **state)
{
	struct koda_slot *slot, *direct;
	struct koda_error err;
	struct fixture f;
	char id[64];
	const struct koda_slot_options again = { .workspace = KODA_WORKSPACE_DRAFT, .draft = id };

	begin(&f);
	slot = open_draft(&f, NULL);
	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	out(slot, CHANGE);
	/* In use: not for another slot. */
	assert_null(koda_slot_open(f.ses, &again, &err));
	assert_int_equal(err.code, KODA_CONFLICT);
	koda_slot_release(slot);
	direct = fixture_acquire(&f);
	assert_string_equal(koda_slot_draft(direct), "");
	assert_string_equal(out(direct, "cat a; ls"), "old a\na\nb\ndir\n");
	slot = open_draft(&f, id);
	assert_string_equal(koda_slot_draft(slot), id);
	assert_string_equal(out(slot, "cat a; ls"), "new a\na\ndeep\ndir\nlink\n");
	project_is_as_it_was(&f);
	fixture_end(&f);
}

/* A sandbox that dies is built again over the same draft. */
static void
built_again(void **state)
{
	const struct koda_command_options o = { .shell = "kill -9 -1; sleep 1000" };
	struct koda_command_result r;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;

	begin(&f);
	slot = open_draft(&f, NULL);
	out(slot, CHANGE);
	assert_int_equal(koda_run(slot, &o, &r, &err), -1);
	assert_int_equal(err.code, KODA_UNKNOWN);
	assert_string_equal(out(slot, "cat a; ls"), "new a\na\ndeep\ndir\nlink\n");
	assert_string_equal(read_in(slot, "a"), "new a\n");
	project_is_as_it_was(&f);
	fixture_end(&f);
}

/* A place that may not be read and does not exist yet: not even its name is shown when it does. */
static void
late_secrets(void **state)
{
	struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	static const char *const hidden[] = { "late", "dir/late", "no/such/late" };
	struct koda_policy *child = koda_policy_new();
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;

	begin(&f);
	assert_int_equal(chmod(at(&f, "dir"), 0750), 0);
	for (size_t i = 0; i < N_ELEMENTS(hidden); i++)
		assert_int_equal(koda_policy_add(child, KODA_DENY_READ, at(&f, hidden[i]), &err),
		    0);
	assert_int_equal(koda_policy_freeze(child, &err), 0);
	o.policy = child;
	slot = koda_slot_open(f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	put_text(&f, "late", "secret\n");
	put_text(&f, "dir/late", "secret\n");
	put_text(&f, "dir/other", "other\n");
	assert_int_equal(mkdir(at(&f, "no"), 0755), 0);
	assert_string_equal(out(slot, "ls -A . dir; stat -c %a dir; cat dir/other"),
	    ".:\na\nb\ndir\n\ndir:\nc\nother\n750\nother\n");
	/* Commands may use the names themselves. */
	assert_string_equal(out(slot, "mkdir no && echo x >no/x && cat no/x && rm -r no; ls -A"),
	    "x\na\nb\ndir\n");
	koda_slot_release(slot);
	koda_policy_free(child);
	assert_string_equal(get_text(&f, "late"), "secret\n");
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_back),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(built_again),
		cmocka_unit_test(late_secrets),
	};

	return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}
