/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hidden places that do not exist when a slot is built: what the slot's commands see of them, and
 * of the names beside them, after the host has made them. A command sees everything that the host
 * did before the command started, so nothing here waits.
 */
#include "stage2/mirror.h"
#include "tests/kit/hosting.h"

#define CHANGES 40
#define CROWD   300

struct late {
	struct fixture f;
	struct koda_policy *policy;
	char home[PATH_MAX - 32];
};

static const char *
in_home(const struct late *l, const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", l->home, name);
	return p;
}

static void
prepare(struct late *l)
{
	char state[PATH_MAX];
	struct koda_error err;

	memset(l, 0, sizeof(*l));
	fixture_prepare(&l->f, KODA_AUTO);
	snprintf(l->home, sizeof(l->home), "%.*s/home", (int)sizeof(l->home) - 8, l->f.dir);
	assert_int_equal(mkdir(l->home, 0755), 0);
	assert_int_equal(setenv("HOME", l->home, 1), 0);
	/* Keep the library's own state out of the home directory. */
	snprintf(state, sizeof(state), "%s/state", l->f.dir);
	assert_int_equal(mkdir(state, 0700), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", state, 1), 0);
	l->f.options.commands = true;
	l->policy = koda_policy_for_agent(KODA_AUTO, l->f.root, &err);
	assert_non_null(l->policy);
}

static void
deny(struct late *l, const char *path)
{
	struct koda_error err;

	assert_int_equal(koda_policy_add(l->policy, KODA_DENY_READ, path, &err), 0);
}

static void
open_late(struct late *l)
{
	struct koda_error err;

	assert_int_equal(koda_policy_freeze(l->policy, &err), 0);
	l->f.options.policy = l->policy;
	fixture_open(&l->f);
	l->f.slot = fixture_acquire(&l->f);
}

static void
end(struct late *l)
{
	fixture_end(&l->f);
	koda_policy_free(l->policy);
}

/* Runs a command and checks what it prints. */
static void
expect(struct late *l, const char *shell, const char *out)
{
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;

	if (koda_run(l->f.slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	if (r.out.head_len != strlen(out) || memcmp(r.out.head, out, r.out.head_len) != 0)
		fail_msg("%s: status %d, out '%.*s' instead of '%s', err '%.*s'", shell, r.status,
		    (int)r.out.head_len, r.out.head == NULL ? "" : r.out.head, out,
		    (int)r.err.head_len, r.err.head == NULL ? "" : r.err.head);
	koda_command_result_done(&r);
}

static void
put(const char *path, const char *text)
{
	put_file(path, text, strlen(text));
}

static void
between_commands(void **state)
{
	struct koda_result answer;
	struct koda_error err;
	struct late l;

	prepare(&l);
	deny(&l, in_home(&l, ".late"));
	deny(&l, in_home(&l, ".a/b/c"));
	open_late(&l);
	expect(&l, "ls -A ~", "");
	/* No placeholder on the host. */
	assert_int_equal(rmdir(in_home(&l, ".late")), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(rmdir(in_home(&l, ".a")), -1);
	put(in_home(&l, ".late"), "secret");
	put(in_home(&l, ".beside"), "beside");
	expect(&l, "cat ~/.late ~/.beside; ls -A ~", "beside.beside\n");
	assert_int_equal(unlink(in_home(&l, ".late")), 0);
	assert_int_equal(mkdir(in_home(&l, ".late"), 0755), 0);
	put(in_home(&l, ".late/key"), "secret");
	assert_int_equal(mkdir(in_home(&l, ".a"), 0755), 0);
	put(in_home(&l, ".a/beside"), "beside");
	expect(&l, "cat ~/.late/key ~/.a/beside; ls -A ~", "beside.a\n.beside\n");
	assert_int_equal(mkdir(in_home(&l, ".a/b"), 0755), 0);
	assert_int_equal(mkdir(in_home(&l, ".a/b/c"), 0755), 0);
	put(in_home(&l, ".a/b/c/key"), "secret");
	put(in_home(&l, ".a/b/beside"), "beside");
	expect(&l, "cat ~/.a/b/c/key ~/.a/b/c ~/.a/b/beside; ls -A ~/.a/b", "besidebeside\n");
	assert_int_equal(unlink(in_home(&l, ".a/b/beside")), 0);
	assert_int_equal(rename(in_home(&l, ".a/beside"), in_home(&l, ".a/other")), 0);
	expect(&l, "ls -A ~/.a ~/.a/b | grep side; cat ~/.a/other", "beside");
	/* The worker, which judges by name, refuses too. */
	assert_int_equal(koda_fs_read(l.f.slot, in_home(&l, ".late/key"), &answer, &err), -1);
	assert_int_equal(err.code, KODA_POLICY_DENIED);
	end(&l);
}

/* The user's editor saves again and again. */
static void
replaced_beside(void **state)
{
	char text[16];
	struct late l;

	prepare(&l);
	deny(&l, in_home(&l, ".late"));
	put(in_home(&l, ".rc"), "0");
	assert_int_equal(mkdir(in_home(&l, "dir"), 0755), 0);
	open_late(&l);
	for (int i = 1; i <= CHANGES; i++) {
		snprintf(text, sizeof(text), "%d", i);
		put(in_home(&l, ".rc.new"), text);
		assert_int_equal(rename(in_home(&l, ".rc.new"), in_home(&l, ".rc")), 0);
		/* A directory becomes a file and the other way round. */
		assert_int_equal(remove(in_home(&l, "dir")), 0);
		if (i % 2 == 1)
			put(in_home(&l, "dir"), "");
		else
			assert_int_equal(mkdir(in_home(&l, "dir"), 0755), 0);
		snprintf(text, sizeof(text), "%d%s", i, i % 2 == 1 ? "file" : "");
		expect(&l, "cat ~/.rc; [ -d ~/dir ] || printf file", text);
	}
	expect(&l, "grep -c '/home/[.]rc ' /proc/self/mountinfo", "1\n");
	end(&l);
}

static void
put_crowd(struct late *l, const char *dir, int n)
{
	char name[64];

	if (dir[0] != '\0')
		assert_int_equal(mkdir(in_home(l, dir), 0755), 0);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/entry%d", dir, i);
		put(in_home(l, name), "");
	}
}

static void
crowd(void **state)
{
	struct late l;

	prepare(&l);
	deny(&l, in_home(&l, ".late"));
	put_crowd(&l, "", CROWD);
	open_late(&l);
	expect(&l, "ls -A ~ | wc -l", "300\n");
	end(&l);
}

/* A slot whose rules cannot be enforced is refused. */
static void
too_many(void **state)
{
	struct koda_error err;
	struct late l;

	prepare(&l);
	deny(&l, in_home(&l, "crowd/late"));
	put_crowd(&l, "crowd", MIRROR_NAMES_MAX + 1);
	assert_int_equal(koda_policy_freeze(l.policy, &err), 0);
	l.f.options.policy = l.policy;
	fixture_open(&l.f);
	assert_null(koda_slot_acquire(l.f.ses, NULL, &err));
	if (strstr(err.message, "/home/crowd' that does not exist yet") == NULL ||
	    strstr(err.message, "remove its rule from deny_read") == NULL)
		fail_msg("%s", err.message);
	end(&l);
}

static void
not_listable(void **state)
{
	struct koda_error err;
	struct late l;

	prepare(&l);
	assert_int_equal(mkdir(in_home(&l, "closed"), 0311), 0);
	deny(&l, in_home(&l, "closed/late"));
	assert_int_equal(koda_policy_freeze(l.policy, &err), 0);
	l.f.options.policy = l.policy;
	fixture_open(&l.f);
	assert_null(koda_slot_acquire(l.f.ses, NULL, &err));
	if (strstr(err.message, "cannot hide a place in") == NULL ||
	    strstr(err.message, "Permission denied") == NULL)
		fail_msg("%s", err.message);
	assert_int_equal(chmod(in_home(&l, "closed"), 0755), 0);
	end(&l);
}

/* A command makes links on the way to a hidden place, one after the other, each to a directory that
 * exists. What they lead to is hidden, and stays hidden; the slot goes on. */
static void
many_links(void **state)
{
	struct late l;

	prepare(&l);
	deny(&l, at(&l.f, "a/b"));
	open_late(&l);
	expect(&l,
	    "for i in $(seq 100); do mkdir -p t$i/b; touch t$i/b/x; ln -s t$i a; "
	    "while [ -e t$i/b/x ]; do sleep 0.005; done; rm a; done; echo all; ls t1/b",
	    "all\n");
	expect(&l, "ls t1/b t100/b | grep x; echo alive", "alive\n");
	end(&l);
}

/* Nothing is missing, so nothing has to be mirrored. */
static void
none_missing(void **state)
{
	struct late l;

	prepare(&l);
	assert_int_equal(mkdir(in_home(&l, ".config"), 0755), 0);
	assert_int_equal(mkdir(in_home(&l, ".config/koda"), 0755), 0);
	assert_int_equal(mkdir(in_home(&l, ".config/koda/db"), 0755), 0);
	put(in_home(&l, ".late"), "secret");
	deny(&l, in_home(&l, ".late"));
	put_crowd(&l, "", 10);
	open_late(&l);
	expect(&l, "grep -c home/entry /proc/self/mountinfo; cat ~/.late", "0\n");
	end(&l);
}

/*
 * In the project a place is hidden when it appears; while no command runs, the worker checks what
 * is in it.
 */
static void
in_the_project(void **state)
{
	struct late l;

	prepare(&l);
	deny(&l, at(&l.f, "vault"));
	deny(&l, at(&l.f, "conf/key"));
	open_late(&l);
	/* A directory that a command made. */
	expect(&l, "mkdir made && echo mine >made/file && mv made vault && echo done", "done\n");
	assert_string_equal(get_text(&l.f, "vault/file"), "mine\n");
	expect(&l, "cat vault/file", "");
	/* A file that the host makes in a directory that a command made. */
	put_text(&l.f, "vault/key", "secret");
	expect(&l, "cat vault/key; ls -A vault", "");
	/* A repository under a name that is not hidden. */
	expect(&l,
	    "mkdir again && git init -q again/r && echo x >again/r/.git/hooks/post-merge && echo done",
	    "done\n");
	assert_false(exists(&l.f, "again/r/.git/hooks/post-merge"));
	/* Through a link that a command made. */
	expect(&l, "mkdir mine && ln -s mine conf", "");
	put_text(&l.f, "conf/key", "secret");
	expect(&l, "cat mine/key conf/key", "");
	assert_string_equal(get_text(&l.f, "mine/key"), "secret");
	/* Again, after the place was removed and made once more. */
	assert_int_equal(unlink(at(&l.f, "mine/key")), 0);
	expect(&l, "ls mine", "");
	put_text(&l.f, "conf/key", "secret");
	expect(&l, "cat mine/key conf/key", "");
	end(&l);
}

/*
 * The command kills its sandbox. The hidden place exists when the next one is built: the worker
 * checks it first.
 */
static void
planted_and_killed(void **state)
{
	const struct koda_command_options o = {
		.shell =
		    "git init -q made && echo x >made/.git/hooks/post-merge && mv made vault && "
		    "kill -9 -1; sleep 1000"
	};
	struct koda_command_result r;
	struct koda_error err;
	struct late l;

	prepare(&l);
	deny(&l, at(&l.f, "vault"));
	open_late(&l);
	assert_int_equal(koda_run(l.f.slot, &o, &r, &err), -1);
	assert_int_equal(err.code, KODA_UNKNOWN);
	assert_true(exists(&l.f, "vault/.git/HEAD"));
	assert_false(exists(&l.f, "vault/.git/hooks/post-merge"));
	expect(&l, "ls -A vault", "");
	end(&l);
}

static int
on_found(void *data, const struct koda_found *found)
{
	if (found->kind == KODA_FOUND_MATCH && strstr(found->path, "open") == NULL)
		fail_msg("found: %s", found->path);
	return 0;
}

/* Searches, file operations and explain judge by name, whenever the place appeared. */
static void
by_name(void **state)
{
	const char *patterns[] = { "secret" }, *places[2], *rule = NULL;
	struct koda_search_options o = { .kind = KODA_SEARCH_GREP,
		.patterns = patterns,
		.n_patterns = 1,
		.paths = places,
		.n_paths = 2,
		.flags = KODA_SEARCH_HIDDEN };
	struct koda_search_result found;
	struct koda_result answer;
	struct koda_error err;
	bool allowed = true;
	struct late l;

	prepare(&l);
	places[0] = l.f.root;
	places[1] = l.home;
	deny(&l, in_home(&l, ".late"));
	deny(&l, at(&l.f, "vault"));
	open_late(&l);
	expect(&l, "true", "");
	assert_int_equal(mkdir(in_home(&l, ".late"), 0755), 0);
	put(in_home(&l, ".late/key"), "secret");
	assert_int_equal(mkdir(at(&l.f, "vault"), 0755), 0);
	put_text(&l.f, "vault/key", "secret");
	put_text(&l.f, "open", "secret");
	/* The same while no command runs and while one is starting. */
	for (int i = 0; i < 2; i++) {
		if (koda_search(l.f.slot, &o, on_found, NULL, &found, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(found.files_matched, 1);
		assert_int_equal(koda_fs_read(l.f.slot, at(&l.f, "vault/key"), &answer, &err), -1);
		assert_int_equal(err.code, KODA_POLICY_DENIED);
		assert_string_equal(err.rule, "deny_read");
		for (int k = 0; k < 2; k++) {
			const char *path =
			    k == 0 ? at(&l.f, "vault/key") : in_home(&l, ".late/key");

			assert_int_equal(koda_slot_explain_command(l.f.slot, KODA_READ_ACCESS, path,
					     &allowed, &rule, &err),
			    0);
			assert_false(allowed);
			assert_string_equal(rule, "deny_read");
		}
		expect(&l, "cat vault/key ~/.late/key", "");
	}
	end(&l);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_commands),
		cmocka_unit_test(replaced_beside),
		cmocka_unit_test(crowd),
		cmocka_unit_test(too_many),
		cmocka_unit_test(not_listable),
		cmocka_unit_test(many_links),
		cmocka_unit_test(none_missing),
		cmocka_unit_test(in_the_project),
		cmocka_unit_test(planted_and_killed),
		cmocka_unit_test(by_name),
	};

	return cmocka_run_group_tests_name("late_places", tests, NULL, NULL);
}
