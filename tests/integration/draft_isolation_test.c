/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/drafts.c, host/sandbox/draft_boot.c: a draft slot is as isolated as a direct one, and no
 * command in it reaches the project or the draft's own directories past the overlay.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/kit/drafting.h"

static void
begin(struct fixture *f)
{
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	put_text(f, "a", "old a\n");
	assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
	put_text(f, "dir/c", "old c\n");
	fixture_open(f);
}

static void
lacks(const char *text, const char *word)
{
	if (text != NULL && strstr(text, word) != NULL)
		fail_msg("'%s' is in: %s", word, text);
}

static void
has(const char *text, const char *word)
{
	if (text == NULL || strstr(text, word) == NULL)
		fail_msg("'%s' is not in: %s", word, text != NULL ? text : "");
}

/* ---- as in a direct slot ---- */

static const char *const probes[] = {
	"id; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status",
	"ulimit -a",
	"cat /proc/1/comm; readlink -v /proc/1/root /proc/1/cwd; ls /proc/1/fd",
	"ls /sys/class/net; grep -c : /proc/net/dev",
	"env | cut -d= -f1 | sort",
	"ls -A / /run /tmp /var/tmp /dev/shm",
	"ls -A \"$HOME\" \"$HOME/.local/state\"",
	"stat -f -c '%T %b %c' /tmp; df --output=size,itotal /tmp",
	"ls /proc/self/fd | wc -l; readlink /proc/self/fd/0",
	"unshare -Ur true; mount -t tmpfs none /mnt; umount /tmp; umount -l \"$PWD\"",
	"touch /etc/koda-test /usr/koda-test \"$HOME/koda-test\" /koda-test ../koda-test",
	"timeout 5 python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))' 2>&1",
	"python3 -c 'import socket; print(socket.create_server((\"127.0.0.1\", 0)).family)' 2>&1 | tail -1",
	"mknod dev c 1 3; mknod whiteout c 0 0; chmod 4755 a; stat -c %a a",
	"nice -n 5 true; setsid true; echo $?; cat /proc/self/oom_score_adj",
	"cat /proc/sys/kernel/hostname; readlink /proc/self/ns/user /proc/self/ns/net | cut -d: -f1",
};

static void
as_a_direct_slot(void **state)
{
	struct koda_slot *direct, *draft;
	struct fixture f;

	begin(&f);
	direct = fixture_acquire(&f);
	draft = draft_open_slot(&f, NULL);
	for (size_t i = 0; i < N_ELEMENTS(probes); i++) {
		const char *a = draft_out(direct, probes[i]), *b = draft_out(draft, probes[i]);

		assert_true(a[0] != '\0');
		assert_string_equal(a, b);
	}
	fixture_end(&f);
}

static struct koda_policy *
with_rule(struct fixture *f, enum koda_list list, const char *rule)
{
	struct koda_policy *p;
	struct koda_error err;

	p = koda_policy_for_agent(KODA_AUTO, f->root, &err);
	assert_non_null(p);
	if (rule != NULL)
		assert_int_equal(koda_policy_add(p, list, rule, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f->options.policy = p;
	return p;
}

/* Ways to the content of a hidden directory; those that change something come last. */
#define READ_SECRET                                                                                \
	"cat dir/secret/key; ls -A dir/secret; cat \"$PWD/dir/secret/key\" dir/../dir/secret/key;" \
	" cp -r dir copy; cat copy/secret/key; tar cf - . | grep -a token; ln dir/secret/key k;"   \
	" cat k; ln -s dir/secret/key s; cat s; mv dir/secret moved; cat moved/key;"               \
	" mv dir/secret/key k2; cat k2; mv dir other; cat other/secret/key;"                       \
	" rm -rf dir/secret; cat dir/secret/key; grep -r token . 2>/dev/null;"                     \
	" python3 -c 'import os; os.rename(\"dir\", \"renamed\")'; cat renamed/secret/key"

static const char *
try_secret(bool hidden)
{
	static char text[DRAFT_OUT_MAX];
	struct koda_policy *p;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	assert_int_equal(mkdir(at(&f, "dir"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "dir/secret"), 0755), 0);
	put_text(&f, "dir/secret/key", "token\n");
	p = with_rule(&f, KODA_DENY_READ, hidden ? at(&f, "dir/secret") : NULL);
	fixture_open(&f);
	snprintf(text, sizeof(text), "%s", draft_out(draft_open_slot(&f, NULL), READ_SECRET));
	assert_string_equal(get_text(&f, "dir/secret/key"), "token\n");
	koda_policy_free(p);
	fixture_end(&f);
	return text;
}

static void
hidden_stays_hidden(void **state)
{
	has(try_secret(false), "token");
	lacks(try_secret(true), "token");
}

/* A hidden place that does not exist yet, and a command makes it. */
static void
hidden_later(void **state)
{
	struct koda_policy *p;
	struct koda_slot *slot;
	struct koda_result r;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	p = with_rule(&f, KODA_DENY_READ, at(&f, "late"));
	fixture_open(&f);
	slot = draft_open_slot(&f, NULL);
	draft_out(slot, "mkdir late; echo token >late/key");
	assert_int_equal(koda_fs_read(slot, "late/key", &r, &err), -1);
	assert_code(&err, KODA_POLICY_DENIED);
	lacks(draft_out(slot, "cat late/key"), "token");
	koda_policy_free(p);
	fixture_end(&f);
}

/* A place that is hidden only if it appears: also if the draft began without one, whoever makes it. */
static void
hidden_by_host_later(void **state)
{
	struct koda_policy *p;
	struct koda_slot *slot;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	p = with_rule(&f, KODA_DENY_READ, at(&f, "late"));
	fixture_open(&f);
	slot = draft_open_slot(&f, NULL);
	has(draft_out(slot, "cat late/key"), "No such file");
	assert_int_equal(mkdir(at(&f, "late"), 0755), 0);
	put_text(&f, "late/key", "token\n");
	lacks(draft_out(slot, "cat late/key; cp -r late copy; cat copy/key"), "token");
	koda_policy_free(p);
	fixture_end(&f);
}

/* Memory of the slot, and the size of a file. */
static void
limits_hold(void **state)
{
	const struct koda_command_options o = {
		.shell =
		    "for i in 1 2 3 4 5; do python3 -c 'import time; b = bytearray(60 << 20); time.sleep(20)' & done; wait"
	};
	struct koda_command_result r;
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	p = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_non_null(p);
	assert_int_equal(koda_policy_set_limit(p, KODA_MAX_RSS_BYTES, UINT64_C(200) << 20, &err),
	    0);
	assert_int_equal(koda_policy_set_limit(p, KODA_MAX_FILE_BYTES, 1 << 20, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f.options.policy = p;
	fixture_open(&f);
	f.slot = draft_open_slot(&f, NULL);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), 0);
	assert_int_equal(r.hit, KODA_HIT_MEMORY);
	koda_command_result_done(&r);
	has(draft_out(f.slot, "head -c 2000000 /dev/zero >big; stat -c %s big"), "1048576\n");
	koda_policy_free(p);
	fixture_end(&f);
}

/* A command outside the project writes the caches' layers, as in a direct slot. */
static void
caches_work(void **state)
{
	const char *home = getenv("HOME");
	struct koda_slot *slot;
	char path[PATH_MAX];
	struct fixture f;
	struct stat st;

	assert_non_null(home);
	snprintf(path, sizeof(path), "%s/.npm", home);
	assert_int_equal(mkdir(path, 0755), 0);
	begin(&f);
	slot = draft_open_slot(&f, NULL);
	has(draft_out(slot, "mkdir ~/.npm/new && echo cached >~/.npm/new/x && cat ~/.npm/new/x"),
	    "cached");
	strcat(path, "/new");
	assert_int_equal(lstat(path, &st), -1);
	koda_slot_release(slot);
	slot = draft_open_slot(&f, NULL);
	has(draft_out(slot, "cat ~/.npm/new/x"), "cached");
	koda_slot_release(slot);
	fixture_end(&f);
	path[strlen(path) - strlen("/new")] = '\0';
	assert_int_equal(rmdir(path), 0);
}

/* The one thing that tools stumble over is explained, in a draft only, and once. */
static void
renamed_directory(void **state)
{
	const struct koda_command_options o = { .shell = "python3 -c 'import os; os.rename(\"dir\","
							 " \"other\")'" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	begin(&f);
	assert_int_equal(koda_run(draft_open_slot(&f, NULL), &o, &r, &err), 0);
	assert_int_not_equal(r.status, 0);
	assert_int_equal(r.n_violations, 1);
	assert_int_equal(r.violations[0].kind, KODA_VIOLATION_NOTE);
	assert_false(r.violations[0].certain);
	assert_string_equal(r.violations[0].target, at(&f, "other"));
	has(r.violations[0].detail, "as 'mv' does, or run the command without a draft");
	koda_command_result_done(&r);
	assert_int_equal(koda_run(fixture_acquire(&f), &o, &r, &err), 0);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_violations, 0);
	koda_command_result_done(&r);
	assert_true(exists(&f, "other"));
	fixture_end(&f);
}

/* ---- past the overlay ---- */

/* Each prints what it reaches: the old content of the project, or what only the upper directory
 * has. */
static void
layers_are_out_of_sight(void **state)
{
	struct koda_slot *slot;
	struct fixture f;

	begin(&f);
	slot = draft_open_slot(&f, NULL);
	draft_out(slot, "echo upper-marker >koda-upper-marker; echo new >a");
	/* Only in the project. */
	assert_string_equal(draft_out(slot,
				"find / -xdev -name koda-upper-marker 2>/dev/null | wc -l;"
				"find / -name koda-upper-marker -not -path '/proc/*' 2>/dev/null | "
				"wc -l"),
	    "0\n1\n");
	assert_string_equal(draft_out(slot,
				"ls -A /run/koda/draft; ls -A /run/koda/layers 2>/dev/null"),
	    "");
	lacks(draft_out(slot,
		  "for p in /proc/[0-9]*; do for l in root cwd; do cat \"$p/$l$PWD/a\" \"$p/$l/a\";"
		  " ls -A $p/$l/run/koda/draft; done; for d in $p/fd/*; do cat $d/a $d/0/u/a;"
		  " ls -A $d/; done; done 2>/dev/null"),
	    "old a");
	fixture_end(&f);
}

/* The draft lies on the host, where commands of other slots could read it. */
static void
other_slots_do_not_see_it(void **state)
{
	static const char find[] =
	    "find / -name koda-upper-marker -not -path '/proc/*' 2>/dev/null; ls -A"
	    " \"$HOME/.local/state/koda-sandbox\" 2>/dev/null; echo end";
	struct koda_slot *slot;
	struct fixture f;

	begin(&f);
	slot = draft_open_slot(&f, NULL);
	draft_out(slot, "echo upper-marker >koda-upper-marker");
	assert_string_equal(draft_out(fixture_acquire(&f), find), "end\n");
	assert_string_equal(draft_out(draft_open_slot(&f, NULL), find), "end\n");
	has(draft_out(slot, find), "koda-upper-marker");
	fixture_end(&f);
}

/* Whatever a command does to the mounts, it does not see the project below. */
static void
mounts_stay(void **state)
{
	struct koda_slot *slot;
	struct fixture f;
	const char *text;

	begin(&f);
	slot = draft_open_slot(&f, NULL);
	draft_out(slot, "echo new >a");
	text = draft_out(slot,
	    "D=$PWD; umount \"$D\"; umount -l \"$D\"; unshare -Urm sh -c \"umount '$D'; cat '$D/a'\";"
	    " unshare -Urm sh -c \"mount --bind / /mnt; cat '/mnt$D/a'\";"
	    " python3 -c 'import ctypes, os\n"
	    "c = ctypes.CDLL(None, use_errno=True)\n"
	    "print(c.umount2(os.getcwd().encode(), 2), c.syscall(428, -100, os.getcwd().encode(), 1))';"
	    " nsenter -t 1 -m cat \"$D/a\"; nsenter -t 1 -U -m cat \"$D/a\"; cat a");
	lacks(text, "old a");
	has(text, "new");
	fixture_end(&f);
}

/* The processes of the slot that are not commands cannot be used as a way around. */
static void
helpers_stay(void **state)
{
	struct koda_slot *slot;
	struct fixture f;
	const char *text;

	begin(&f);
	slot = draft_open_slot(&f, NULL);
	text = draft_out(slot,
	    "python3 -c '\n"
	    "import ctypes, os\n"
	    "c = ctypes.CDLL(None, use_errno=True)\n"
	    "for name in os.listdir(\"/proc\"):\n"
	    "    if not name.isdigit() or int(name) in (os.getpid(), os.getppid()):\n"
	    "        continue\n"
	    "    pid = int(name)\n"
	    "    comm = open(\"/proc/%d/comm\" % pid).read().strip()\n"
	    "    if not comm.startswith(\"koda\"):\n"
	    "        continue\n"
	    "    ok = c.ptrace(16, pid, 0, 0) == 0\n"
	    "    try:\n"
	    "        ok = ok or os.listdir(\"/proc/%d/fd\" % pid) is not None\n"
	    "    except OSError:\n"
	    "        pass\n"
	    "    try:\n"
	    "        ok = ok or open(\"/proc/%d/mem\" % pid) is not None\n"
	    "    except OSError:\n"
	    "        pass\n"
	    "    print(comm, \"TAKEN\" if ok else \"kept\")\n"
	    "'");
	has(text, "koda");
	has(text, "kept");
	lacks(text, "TAKEN");
	fixture_end(&f);
}

/* ---- sockets ---- */

static int
listen_at(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	assert_true(fd >= 0);
	assert_true(
	    (size_t)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path) < sizeof(a.sun_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

#define CONNECT(path)                                                                              \
	"python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"" path          \
	"\"); print(\"REACHED\")' 2>&1 | tail -1;"

/* A socket of the host that lies in the project is visible through the lower layer, and can be
 * renamed, linked and copied up. It is never reached. */
static void
sockets_of_the_host(void **state)
{
	const char *attack = CONNECT("h") "ln -s h l;" CONNECT("l") "ln h k;" CONNECT("k")
	    CONNECT("h") "chmod 777 h;" CONNECT("h") "mv h m;" CONNECT("m") CONNECT("k");
	struct koda_slot *slot;
	const char *text;
	struct fixture f;
	char cwd[PATH_MAX];
	int host, client;

	begin(&f);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(f.root), 0);
	host = listen_at("h");
	/* Without a sandbox it is reached. */
	assert_int_equal(
	    system("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"h\")'"), 0);
	client = accept4(host, NULL, NULL, SOCK_CLOEXEC);
	assert_true(client >= 0);
	close(client);
	slot = draft_open_slot(&f, NULL);
	text = draft_out(slot, attack);
	lacks(text, "REACHED");
	assert_int_equal(accept4(host, NULL, NULL, SOCK_CLOEXEC), -1);
	assert_int_equal(errno, EAGAIN);
	/* An own one at the same name is. */
	has(draft_out(slot,
		"rm -f h; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"h\");"
		" s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"h\"); print(\"REACHED\")'"),
	    "REACHED");
	assert_int_equal(accept4(host, NULL, NULL, SOCK_CLOEXEC), -1);
	close(host);
	assert_int_equal(chdir(cwd), 0);
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_a_direct_slot),
		cmocka_unit_test(hidden_stays_hidden),
		cmocka_unit_test(hidden_later),
		cmocka_unit_test(hidden_by_host_later),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(caches_work),
		cmocka_unit_test(renamed_directory),
		cmocka_unit_test(layers_are_out_of_sight),
		cmocka_unit_test(other_slots_do_not_see_it),
		cmocka_unit_test(mounts_stay),
		cmocka_unit_test(helpers_stay),
		cmocka_unit_test(sockets_of_the_host),
	};

	return cmocka_run_group_tests_name("draft_isolation", tests, NULL, NULL);
}
