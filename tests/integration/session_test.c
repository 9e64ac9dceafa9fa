/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a session, the options that it refuses, and each operation once through
 * the API. */
#include "tests/kit/hosting.h"

static void
expect_refusal(const struct koda_session_options *o, enum koda_code code, const char *says)
{
	struct koda_error err;

	assert_null(koda_session_open(o, &err));
	assert_code(&err, code);
	if (strstr(err.message, says) == NULL)
		fail_msg("'%s' says nothing of '%s'", err.message, says);
}

static void
refused_options(void **state)
{
	struct koda_session_options o;
	struct koda_policy *policy = koda_policy_new();
	struct fixture f;
	char path[PATH_MAX];

	fixture_prepare(&f, KODA_AUTO);
	expect_refusal(NULL, KODA_INVALID, "KODA_SESSION_OPTIONS_INIT");
	o = f.options;
	o.version = 99;
	expect_refusal(&o, KODA_INVALID, "KODA_SESSION_OPTIONS_INIT");
	o = f.options;
	o.mode = 0;
	expect_refusal(&o, KODA_INVALID, "mode");
	o = f.options;
	o.root = NULL;
	expect_refusal(&o, KODA_INVALID, "root");
	o.root = at(&f, "nothing");
	expect_refusal(&o, KODA_INVALID, "nothing");
	put_text(&f, "file", "");
	o.root = at(&f, "file");
	expect_refusal(&o, KODA_INVALID, "not a directory");
	o = f.options;
	o.policy = policy;
	expect_refusal(&o, KODA_INVALID, "frozen");
	koda_policy_free(policy);

	o = f.options;
	o.helper_dir = "relative";
	expect_refusal(&o, KODA_INVALID, "absolute");
	o.helper_dir = f.root;
	expect_refusal(&o, KODA_UNSUPPORTED, "koda-fs-worker");
	/* A user who can write the helper controls the sandbox. */
	o = f.options;
	snprintf(path, sizeof(path), "%s/koda-fs-worker", f.helpers);
	assert_int_equal(chmod(path, 0757), 0);
	expect_refusal(&o, KODA_UNSUPPORTED, "every user");
	assert_int_equal(chmod(path, 0644), 0);
	expect_refusal(&o, KODA_UNSUPPORTED, "not a program");
	koda_session_close(NULL);
	koda_slot_release(NULL);
	fixture_end(&f);
}

/* The root is the directory that was opened: a directory that later takes its place is not. */
static void
root_is_replaced(void **state)
{
	char aside[PATH_MAX];
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	snprintf(aside, sizeof(aside), "%s/aside", f.dir);
	assert_int_equal(rename(f.root, aside), 0);
	assert_int_equal(mkdir(f.root, 0755), 0);
	slot = koda_slot_acquire(f.ses, NULL, &err);
	assert_null(slot);
	assert_true(err.message[0] != '\0');
	fixture_end(&f);
}

static void
each_operation(void **state)
{
	static const struct koda_edit edits[] = { { "a", 1, "b", 1, true },
		{ "bb", 2, "c", 1, false } };
	struct koda_result r;
	struct koda_error err;
	struct fixture f;
	struct koda_op op;

	fixture_start(&f, KODA_AUTO);
	assert_int_equal(koda_fs_write(f.slot, "dir/f", "aa", 2, &r, &err), 0);
	assert_true(r.created);
	assert_string_equal(r.path, at(&f, "dir/f"));
	koda_result_done(&r);
	assert_null(r.path);
	koda_result_done(&r);

	assert_int_equal(koda_fs_edit(f.slot, "dir/f", edits, 2, &r, &err), 0);
	assert_int_equal(r.replacements, 3);
	assert_int_equal(r.size_before, 2);
	assert_int_equal(r.size, 1);
	assert_true(r.has_digest && r.has_digest_before);
	koda_result_done(&r);

	op = STAT("dir/f", .flags = KODA_DIGEST);
	assert_int_equal(koda_call(f.slot, &op, &r, &err), 0);
	assert_int_equal(r.type, KODA_FILE_REGULAR);
	assert_int_equal(r.size, 1);
	assert_true(r.has_digest);
	/* The digest of what was read allows replacing just that content. */
	op = WRITE("dir/f", "new", .if_digest = r.digest);
	assert_code((do_call(f.slot, &op, &err), &err), KODA_OK);
	assert_code((do_call(f.slot, &op, &err), &err), KODA_CONFLICT);
	koda_result_done(&r);

	op = (struct koda_op){ .kind = KODA_OP_MKDIR, .path = "dir/sub" };
	assert_code((do_call(f.slot, &op, &err), &err), KODA_OK);
	assert_code((do_call(f.slot, &op, &err), &err), KODA_CONFLICT);
	op = (struct koda_op){ .kind = KODA_OP_LIST, .path = "dir" };
	assert_int_equal(koda_call(f.slot, &op, &r, &err), 0);
	assert_int_equal(r.n_entries, 2);
	assert_string_equal(r.entries[0].name, "f");
	assert_string_equal(r.entries[1].name, "sub");
	assert_int_equal(r.entries[1].type, KODA_FILE_DIRECTORY);
	koda_result_done(&r);

	op = (struct koda_op){ .kind = KODA_OP_RENAME, .path = "dir/f", .to = "dir/g" };
	assert_int_equal(koda_call(f.slot, &op, &r, &err), 0);
	assert_string_equal(r.to, at(&f, "dir/g"));
	koda_result_done(&r);

	op = (struct koda_op){ .kind = KODA_OP_EXPLAIN,
		.path = "/etc/x",
		.access = KODA_WRITE_ACCESS };
	assert_int_equal(koda_call(f.slot, &op, &r, &err), 0);
	assert_false(r.allowed);
	assert_true(r.reason[0] != '\0' && r.rule[0] != '\0');
	koda_result_done(&r);

	op = (struct koda_op){ .kind = KODA_OP_REMOVE, .path = "dir", .flags = KODA_RECURSIVE };
	assert_int_equal(koda_call(f.slot, &op, &r, &err), 0);
	assert_int_equal(r.removed, 3);
	koda_result_done(&r);
	assert_int_equal(koda_fs_read(f.slot, "dir/g", &r, &err), -1);
	assert_code(&err, KODA_IO);
	assert_int_equal(err.errnum, ENOENT);
	assert_null(r.priv);
	assert_int_equal(r.fd, -1);
	/* The caller may pass NULL for the error. */
	assert_int_equal(koda_fs_read(f.slot, "dir/g", &r, NULL), -1);
	fixture_end(&f);
}

/* A directory with more names than a page holds. */
static void
pages(void **state)
{
	struct koda_op op = { .kind = KODA_OP_LIST, .path = "many" };
	struct koda_result r;
	struct koda_error err;
	struct fixture f;
	char name[PATH_MAX];
	enum { N = 6000 };

	fixture_start(&f, KODA_AUTO);
	assert_int_equal(mkdir(at(&f, "many"), 0755), 0);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "many/%0200d", i);
		assert_int_equal(close(open(at(&f, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)),
		    0);
	}
	if (koda_call(f.slot, &op, &r, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(r.n_entries, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(atoi(r.entries[i].name), i);
	assert_string_equal(r.path, at(&f, "many"));
	koda_result_done(&r);
	fixture_end(&f);
}

static void
content_of_any_size(void **state)
{
	static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 1 << 20, 3 << 20 };
	static uint8_t data[3 << 20], got[3 << 20];
	struct koda_result r;
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		if (koda_fs_write(f.slot, "f", data, sizes[i], &r, &err) < 0)
			fail_msg("%zu: %s", sizes[i], err.message);
		koda_result_done(&r);
		if (koda_fs_read(f.slot, "f", &r, &err) < 0)
			fail_msg("%zu: %s", sizes[i], err.message);
		assert_int_equal(r.size, sizes[i]);
		assert_int_equal(r.fd >= 0, sizes[i] > 65536);
		if (r.fd >= 0) {
			assert_int_equal(pread(r.fd, got, sizeof(got), 0), (ssize_t)sizes[i]);
			assert_int_equal(fcntl(r.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
			assert_memory_equal(got, data, sizes[i]);
		} else {
			assert_int_equal(r.len, sizes[i]);
			if (sizes[i] > 0)
				assert_memory_equal(r.data, data, sizes[i]);
		}
		koda_result_done(&r);
	}
	fixture_end(&f);
}

static void
senseless_requests(void **state)
{
	static char long_path[8192];
	static const struct koda_edit edit = { "", 0, "", 0, false };
	static struct koda_edit too_many[1100];
	const struct koda_op ops[] = {
		{ 0 },
		{ .kind = 99, .path = "f" },
		STAT(NULL),
		STAT(""),
		STAT(long_path),
		{ .kind = KODA_OP_RENAME, .path = "f" },
		{ .kind = KODA_OP_RENAME, .path = "f", .to = "" },
		{ .kind = KODA_OP_EDIT, .path = "f" },
		{ .kind = KODA_OP_EDIT, .path = "f", .edits = &edit, .n_edits = 1 },
		{ .kind = KODA_OP_EXPLAIN, .path = "f" },
		{ .kind = KODA_OP_WRITE, .path = "f", .len = 3 },
		{ .kind = KODA_OP_WRITE, .path = "f", .fd = 999999 },
	};
	struct koda_op big = { .kind = KODA_OP_EDIT,
		.path = "f",
		.edits = too_many,
		.n_edits = 1100 };
	struct koda_error err;
	struct fixture f;
	int pid;

	memset(long_path, 'x', sizeof(long_path) - 1);
	fixture_start(&f, KODA_AUTO);
	put_text(&f, "f", "old");
	pid = koda_slot_pid(f.slot);
	for (size_t i = 0; i < N_ELEMENTS(ops); i++) {
		if (do_call(f.slot, &ops[i], &err) != KODA_INVALID)
			fail_msg("%zu: %s: %s", i, koda_code_name(err.code), err.message);
		assert_int_equal(koda_call_async(f.slot, &STAT("."), NULL, NULL, &err), -1);
	}
	assert_code((do_call(f.slot, &big, &err), &err), KODA_TOO_LARGE);
	/* None of these errors is the worker's, so it is still the same one. */
	assert_int_equal(koda_slot_pid(f.slot), pid);
	assert_string_equal(get_text(&f, "f"), "old");
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_options),
		cmocka_unit_test(root_is_replaced),
		cmocka_unit_test(each_operation),
		cmocka_unit_test(pages),
		cmocka_unit_test(content_of_any_size),
		cmocka_unit_test(senseless_requests),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
