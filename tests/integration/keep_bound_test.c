/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/draft/history_trim, history_size, host/workspace/keeping: how much of file operations the history
 * keeps, what happens when that is too much, and where there is no place for it.
 */
#include <sched.h>
#include <sys/mount.h>

#include "host/draft/history_trim.h"

#include "tests/kit/keeping.h"
#include "tests/kit/skip.h"

#define KIB UINT64_C(1024)

static char text[64 * 1024 + 1];

/* A file of so many KiB; the content says which version it is. */
static void
put_version(struct kept *k, const char *name, size_t kib, unsigned version)
{
	struct koda_op op = { .kind = KODA_OP_WRITE, .path = name, .data = text };
	struct koda_error err;

	memset(text, 'x', kib * KIB);
	snprintf(text, sizeof(text), "%u", version);
	text[strlen(text)] = 'x';
	op.len = kib * KIB;
	assert_code((do_call(k->f.slot, &op, &err), &err), KODA_OK);
}

static unsigned
version_of(const struct kept *k, const char *name)
{
	return (unsigned)strtoul(get_text(&k->f, name), NULL, 10);
}

static size_t
times_said(const char *what)
{
	size_t n = 0;

	for (const char *at = events; (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

/* ---- how much there is ---- */

static void
size_on_disk(void **state)
{
	struct kept k;
	uint64_t before;

	begin(&k, NULL);
	start(&k);
	put_version(&k, "big", 64, 1);
	restart(&k);
	look(&k);
	/* What is new is not kept. */
	assert_in_range(k.bytes, 1, 32 * KIB);
	before = k.bytes;
	put_version(&k, "big", 4, 2);
	restart(&k);
	look(&k);
	assert_int_equal(k.n_entries, 2);
	assert_in_range(k.bytes, before + 64 * KIB, before + 96 * KIB);
	/* Taken back, the large one is in the project again. */
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	look(&k);
	assert_in_range(k.bytes, before, before + 64 * KIB);
	end(&k);
}

/* A hole takes up nothing. */
static void
holes(void **state)
{
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	put_text(&k.f, "hole", "");
	assert_int_equal(truncate(at(&k.f, "hole"), 1 << 30), 0);
	start(&k);
	assert_code((do_call(k.f.slot, &(struct koda_op)REMOVE("hole"), &err), &err), KODA_OK);
	restart(&k);
	look(&k);
	assert_in_range(k.bytes, 1, 64 * KIB);
	end(&k);
}

/* ---- the bound ---- */

static void
put_entry(struct kept *k, unsigned version)
{
	start(k);
	put_version(k, "f", 16, version);
	koda_session_close(k->f.ses);
	k->f.ses = NULL;
}

static void
trimmed(void **state)
{
	static const struct history_own none;
	struct history_bound bound = { .days = 30 };
	struct history_trimmed gone;
	char dir[PATH_MAX], first[64];
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	snprintf(dir, sizeof(dir), "%s/koda-sandbox", k.state);
	put_entry(&k, 1);
	look(&k);
	snprintf(first, sizeof(first), "%s", k.id);
	put_entry(&k, 2);
	put_entry(&k, 3);
	start(&k);
	put_version(&k, "f", 16, 4);
	look(&k);
	assert_int_equal(k.n_entries, 4);
	bound.bytes = k.bytes;
	assert_int_equal(history_trim(dir, &bound, &none, &gone), 0);
	assert_int_equal(gone.entries, 0);
	assert_int_equal(gone.left, k.bytes);
	bound.bytes = k.bytes - 1;
	assert_int_equal(history_trim(dir, &bound, &none, &gone), 0);
	assert_int_equal(gone.entries, 1);
	assert_int_equal(gone.left + gone.bytes, k.bytes);
	assert_int_equal(koda_history_changes(k.f.root, first, on_change, &k, &err), -1);
	look(&k);
	assert_int_equal(k.n_entries, 3);
	assert_int_equal(k.bytes, gone.left);
	/* Too old; what is in use stays. */
	bound = (struct history_bound){ .bytes = UINT64_MAX };
	assert_int_equal(history_trim(dir, &bound, &none, &gone), 0);
	assert_int_equal(gone.entries, 2);
	look(&k);
	assert_int_equal(k.n_entries, 1);
	turn(&k, false, KODA_TAKE_NONE);
	assert_int_equal(version_of(&k, "f"), 3);
	end(&k);
}

static void
at_the_start(void **state)
{
	struct kept k;

	begin(&k, NULL);
	for (unsigned i = 1; i <= 8; i++)
		put_entry(&k, i);
	look(&k);
	assert_int_equal(k.n_entries, 8);
	k.f.options.history_bytes = k.bytes / 2;
	start(&k);
	assert_int_equal(times_said("were removed"), 1);
	look(&k);
	assert_in_range(k.n_entries, 3, 4);
	assert_in_range(k.bytes, 1, k.f.options.history_bytes);
	turn(&k, false, KODA_TAKE_NONE);
	assert_int_equal(version_of(&k, "f"), 7);
	end(&k);
}

/* A session that never ends does not keep more and more. */
static void
while_it_goes_on(void **state)
{
	const uint64_t max = 2048 * KIB;
	/* A session counts at each 32nd part. */
	const uint64_t slack = max / 16;
	struct kept k;

	begin(&k, NULL);
	k.f.options.history_bytes = max;
	start(&k);
	for (unsigned i = 1; i <= 400; i++) {
		put_version(&k, "f", 16, i);
		if (i % 20 != 0)
			continue;
		look(&k);
		assert_in_range(k.bytes, 1, max + slack);
	}
	assert_in_range(k.n_entries, 3, 9);
	assert_true(times_said("were removed") > 0);
	/* The last ones can be taken back. */
	koda_session_close(k.f.ses);
	start(&k);
	look(&k);
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	assert_in_range(version_of(&k, "f"), 250, 399);
	end(&k);
}

/* What a killed session kept is counted when the next ones are. */
static void
of_the_killed(void **state)
{
	struct koda_error err;
	struct kept k;
	int status;
	pid_t pid;

	begin(&k, NULL);
	put_entry(&k, 1);
	pid = fork();
	if (pid == 0) {
		k.f.ses = koda_session_open(&k.f.options, &err);
		k.f.slot = koda_slot_acquire(k.f.ses, NULL, &err);
		for (unsigned i = 2; i < 40; i++)
			put_version(&k, "f", 64, i);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	k.f.options.history_bytes = 512 * KIB;
	for (uint64_t until = clock_ms() + PATIENCE_MS; clock_ms() < until; blink()) {
		put_entry(&k, 50);
		look(&k);
		if (k.bytes <= k.f.options.history_bytes)
			break;
	}
	assert_in_range(k.bytes, 1, k.f.options.history_bytes);
	k.f.ses = NULL;
	end(&k);
}

/* ---- no place ---- */

static int
with_small_disk(struct kept *k, const char *size, bool full)
{
	char options[64];
	struct koda_error err;
	FILE *map;
	uid_t uid = geteuid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 77;
	map = fopen("/proc/self/uid_map", "w");
	if (map == NULL || fprintf(map, "%u %u 1", uid, uid) < 0 || fclose(map) != 0)
		return 77;
	snprintf(options, sizeof(options), "size=%s,mode=700", size);
	if (mount("tmpfs", k->state, "tmpfs", 0, options) < 0)
		return 77;
	if (full)
		shell("cat /dev/zero >\"$0\"/full 2>/dev/null || :", k->state);
	k->f.ses = koda_session_open(&k->f.options, &err);
	k->f.slot = k->f.ses == NULL ? NULL : koda_slot_acquire(k->f.ses, NULL, &err);
	if (k->f.slot == NULL)
		return 1;
	for (unsigned i = 0; i < 300; i++)
		put_version(k, "f", 1, i);
	if (version_of(k, "f") != 299)
		return 2;
	if (times_said("cannot be taken back") != 1)
		return 3;
	koda_session_close(k->f.ses);
	return 0;
}

static void
small_disk(const char *size, bool full)
{
	int status;
	struct kept k;
	pid_t pid;

	begin(&k, NULL);
	pid = fork();
	if (pid == 0)
		_exit(with_small_disk(&k, size, full));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	end(&k);
	if (WEXITSTATUS(status) == 77)
		skip_because("a namespace with a disk of its own cannot be made");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void
disk_gets_full(void **state)
{
	small_disk("256k", false);
}

static void
disk_is_full(void **state)
{
	small_disk("64k", true);
}

static void
read_only(void **state)
{
	struct kept k;

	if (geteuid() == 0)
		skip_because("root may write everywhere");
	begin(&k, NULL);
	assert_int_equal(chmod(k.state, 0500), 0);
	start(&k);
	for (unsigned i = 0; i < 3; i++)
		put_version(&k, "f", 1, i);
	assert_int_equal(version_of(&k, "f"), 2);
	assert_int_equal(times_said("cannot be taken back"), 1);
	assert_int_equal(chmod(k.state, 0700), 0);
	end(&k);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_on_disk),
		cmocka_unit_test(holes),
		cmocka_unit_test(trimmed),
		cmocka_unit_test(at_the_start),
		cmocka_unit_test(while_it_goes_on),
		cmocka_unit_test(of_the_killed),
		cmocka_unit_test(disk_gets_full),
		cmocka_unit_test(disk_is_full),
		cmocka_unit_test(read_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
