/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots where the kernel has few or no inotify instances left for this user: commands run, their
 * plants are found, and the shortage is reported once. It is real: a user namespace has limits of
 * its own, which its first process may lower.
 */
#include <sched.h>
#include <sys/inotify.h>

#include "host/protect/watches.h"
#include "tests/kit/hosting.h"
#include "tests/kit/skip.h"

#define LIMIT   "/proc/sys/user/max_inotify_instances"
#define WATCHES "/proc/sys/user/max_inotify_watches"
#define SLOTS   12
#define FEW     4

static unsigned degraded;
static char said[1024];

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind != KODA_EVENT_DEGRADED)
		return;
	degraded++;
	snprintf(said, sizeof(said), "%s", text);
}

static void
write_file(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_msg("%s: %s", path, strerror(errno));
}

/* Move the whole test program into a user namespace. Its limits affect no other process. */
static int
enter_namespace(void **state)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER) < 0)
		fail_msg("a user namespace: %s", strerror(errno));
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
	return 0;
}

static void
open_with(struct fixture *f, unsigned instances)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", instances);
	write_file(LIMIT, text);
	degraded = 0;
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	f->options.event = on_event;
	fixture_open(f);
}

/* Plant a repository with a hook: the worker has to find it in a new directory. */
static void
plants_in_vain(const struct fixture *f, struct koda_slot *slot, const char *dir)
{
	char shell[256], hook[64];
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;
	bool found = false;

	snprintf(shell, sizeof(shell),
	    "git init -q %s && echo 'touch harm' >%s/.git/hooks/post-checkout && "
	    "chmod +x %s/.git/hooks/post-checkout",
	    dir, dir, dir);
	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", dir, err.message);
	assert_int_equal(r.status, 0);
	for (size_t i = 0; i < r.n_violations; i++)
		found = found || strstr(r.violations[i].target, "post-checkout") != NULL;
	koda_command_result_done(&r);
	snprintf(hook, sizeof(hook), "%s/.git/hooks/post-checkout", dir);
	assert_true(found);
	assert_false(exists(f, hook));
	snprintf(hook, sizeof(hook), "%s/.git/HEAD", dir);
	assert_true(exists(f, hook));
}

static void
none_left(void **state)
{
	struct fixture f;

	open_with(&f, 0);
	f.slot = fixture_acquire(&f);
	assert_int_equal(inotify_init1(IN_CLOEXEC), -1);
	for (int i = 0; i < 4; i++)
		plants_in_vain(&f, f.slot, (const char *[]){ "a", "b", "a/b/c", "c" }[i]);
	assert_int_equal(degraded, 1);
	assert_non_null(strstr(said, "user.max_inotify_instances (0)"));
	assert_non_null(strstr(said, "sudo sysctl -w user.max_inotify_instances=1024"));
	fixture_end(&f);
}

/* A slot takes one instance and no more. */
static void
one_left(void **state)
{
	struct koda_slot *second;
	struct fixture f;

	open_with(&f, 1);
	f.slot = fixture_acquire(&f);
	plants_in_vain(&f, f.slot, "a");
	plants_in_vain(&f, f.slot, "b");
	assert_int_equal(degraded, 0);
	second = fixture_acquire(&f);
	plants_in_vain(&f, second, "c");
	plants_in_vain(&f, second, "d");
	plants_in_vain(&f, f.slot, "e");
	assert_int_equal(degraded, 1);
	koda_slot_release(second);
	fixture_end(&f);
}

static void
many_slots(void **state)
{
	struct koda_slot *slots[SLOTS];
	struct fixture f;
	char dir[16];

	open_with(&f, FEW);
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i] = fixture_acquire(&f);
		snprintf(dir, sizeof(dir), "new%u", i);
		plants_in_vain(&f, slots[i], dir);
	}
	assert_int_equal(degraded, SLOTS - FEW);
	for (unsigned i = 0; i < SLOTS; i++) {
		snprintf(dir, sizeof(dir), "again%u", i);
		plants_in_vain(&f, slots[i], dir);
	}
	assert_int_equal(degraded, SLOTS - FEW);
	for (unsigned i = 0; i < SLOTS; i++)
		koda_slot_release(slots[i]);
	fixture_end(&f);
}

/* There are instances, but hardly any directory can be watched. */
static void
no_watches(void **state)
{
	struct fixture f;

	write_file(WATCHES, "2");
	open_with(&f, FEW);
	f.slot = fixture_acquire(&f);
	for (int i = 0; i < 4; i++)
		plants_in_vain(&f, f.slot, (const char *[]){ "a", "b", "a/b/c", "c" }[i]);
	assert_int_equal(degraded, 1);
	assert_non_null(strstr(said, "user.max_inotify_watches (2)"));
	fixture_end(&f);
	write_file(WATCHES, "100000");
}

/* The message names the limit and what raises it. */
static void
sentences(void **state)
{
	/* clang-format off */
	static const struct {
		struct watches w;
		int errnum;
		bool low;
		const char *name, *remedy;
	} rows[] = {
		{ { 128, 128, 192536, 192536, true },   EMFILE, true,  "fs.inotify.max_user_instances (128)",  "fs.inotify.max_user_instances=1024" },
		{ { 128, 128, 192536, 192536, false },  EMFILE, false, "fs.inotify.max_user_instances (128)",  "fs.inotify.max_user_instances=1024" },
		{ { 128, 4, 192536, 192536, false },    EMFILE, true,  "user.max_inotify_instances (4)",       "user.max_inotify_instances=1024" },
		{ { 4096, 4096, 524288, 524288, true }, EMFILE, true,  "fs.inotify.max_user_instances (4096)", "fs.inotify.max_user_instances=8192" },
		{ { 128, 128, 8192, 8192, false },      ENOSPC, true,  "fs.inotify.max_user_watches (8192)",   "fs.inotify.max_user_watches=524288" },
		{ { 128, 128, 8192, 100, false },       ENOSPC, true,  "user.max_inotify_watches (100)",       "user.max_inotify_watches=524288" },
		{ { 128, 128, 65536, 65536, false },    ENOSPC, false, "fs.inotify.max_user_watches (65536)",  "fs.inotify.max_user_watches=524288" },
		{ { -1, -1, -1, -1, true },             EMFILE, true,  "fs.inotify.max_user_instances (its limit)", "fs.inotify.max_user_instances=1024" },
	};
	/* clang-format on */
	char text[WATCHES_TEXT_MAX];

	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		assert_int_equal(watches_are_low(&rows[i].w), rows[i].low);
		watches_sentence(&rows[i].w, rows[i].errnum, text, sizeof(text));
		if (strstr(text, rows[i].name) == NULL || strstr(text, rows[i].remedy) == NULL ||
		    strlen(text) >= sizeof(text) - 1)
			fail_msg("row %zu: %s", i, text);
		watches_remedy(&rows[i].w, text, sizeof(text));
		if (rows[i].low && strstr(text, rows[i].remedy) == NULL)
			fail_msg("row %zu: %s", i, text);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_left),
		cmocka_unit_test(one_left),
		cmocka_unit_test(many_slots),
		cmocka_unit_test(no_watches),
		cmocka_unit_test(sentences),
	};

	if (!has_inotify())
		return skip_all(NO_INOTIFY);
	return cmocka_run_group_tests_name("inotify_shortage", tests, enter_namespace, NULL);
}
