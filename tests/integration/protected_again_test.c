/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process changes protected places while a command runs: after the event they are protected
 * again. This is detection, not prevention, so the tests check the state after the event and never
 * the moment before.
 */
#include "tests/kit/skip.h"
#include "tests/kit/stage2.h"

/* ---- what a command does ---- */

static int
try_write(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644), r;

	if (fd < 0)
		return errno;
	r = write(fd, "planted\n", 8) == 8 ? 0 : errno;
	close(fd);
	return r;
}

/* The exit status is the errno. */
static int
do_write(char **arg)
{
	return try_write(arg[0], O_APPEND);
}

static int
do_create(char **arg)
{
	return try_write(arg[0], O_CREAT | O_EXCL);
}

/* Report that the command runs. */
static void
say(const char *what)
{
	if (write(STDOUT_FILENO, what, 1) != 1)
		_exit(EPIPE);
}

static int
do_write_on(char **arg)
{
	say("u");
	for (;;)
		try_write(arg[0], O_APPEND);
	return 0;
}

/* Open the file as soon as that works, "secret" for reading and others for writing, and stay. */
static int
do_hold(char **arg)
{
	bool reads = strcmp(arg[0], "secret") == 0;
	int fd;

	if (strcmp(arg[1], "spin") == 0)
		say("u");
	while ((fd = open(arg[0], (reads ? O_RDONLY : O_WRONLY | O_APPEND) | O_CLOEXEC)) < 0)
		;
	if (strcmp(arg[1], "map") == 0 &&
	    (mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, open(arg[0], O_RDWR | O_CLOEXEC),
		 0) == MAP_FAILED ||
		close_range(3, ~0U, 0) < 0))
		return errno;
	if (strcmp(arg[1], "spin") != 0)
		say("u");
	for (;;)
		pause();
	return 0;
}

/* Spin until the directory can be opened and a file made through that descriptor, and hold it. */
static int
do_hold_directory(char **arg)
{
	int dir, fd;

	say("u");
	for (;;) {
		dir = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd = dir >= 0 ? openat(dir, "probe", O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : -1;
		if (fd >= 0)
			break;
		close(dir);
	}
	close(fd);
	for (;;)
		pause();
	return 0;
}

static char
state_of(pid_t pid)
{
	char path[64], buf[512], *at;
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	at = strrchr(buf, ')');
	return at == NULL ? 0 : at[2];
}

/* Start a child that is stopped and one that is not; after a byte on standard input, check that
 * both are still so. */
static int
do_job(char **arg)
{
	pid_t stopped = fork(), running;
	int status;
	char c;

	if (stopped == 0) {
		raise(SIGSTOP);
		_exit(7);
	}
	if (waitpid(stopped, &status, WUNTRACED) != stopped || !WIFSTOPPED(status))
		return 1;
	running = fork();
	if (running == 0)
		for (;;)
			pause();
	say("u");
	if (read(STDIN_FILENO, &c, 1) != 1)
		return 2;
	if (state_of(stopped) != 'T')
		return 3;
	if (state_of(running) != 'S')
		return 4;
	/* The stopped child goes on when its own parent continues it. */
	kill(running, SIGKILL);
	kill(stopped, SIGCONT);
	if (waitpid(stopped, &status, 0) != stopped || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 7)
		return 5;
	return 0;
}

static const struct {
	const char *name;
	int (*run)(char **arg);
} guest_does[] = {
	{ "write", do_write },
	{ "create", do_create },
	{ "write-on", do_write_on },
	{ "hold", do_hold },
	{ "hold-directory", do_hold_directory },
	{ "job", do_job },
};

static int
be_guest(char **arg)
{
	for (size_t i = 0; i < N_ELEMENTS(guest_does); i++)
		if (strcmp(arg[0], guest_does[i].name) == 0)
			return guest_does[i].run(arg + 1);
	return ENOSYS;
}

/* ---- outside ---- */

static struct guest guest;

static int
up(void **state)
{
	guest_up(&guest);
	must(chdir(guest.root) == 0);
	return 0;
}

static int
down(void **state)
{
	must(chdir("/") == 0);
	guest_down(&guest);
	return 0;
}

/* Send the whole plan again, with the project's paths. Returns how many of them are missing. */
static size_t
plan(void)
{
	static const Koda__MountKind kind[] = {
		KODA__MOUNT_KIND__MOUNT_KIND_PIN,
		KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY,
		KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY,
		KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY,
		KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY,
		KODA__MOUNT_KIND__MOUNT_KIND_HIDE,
	};
	const char *path[] = { guest_path(&guest, ".git"), guest_path(&guest, ".git/config"),
		guest_path(&guest, ".git/hooks"), guest_path(&guest, ".mcp.json"),
		guest_path(&guest, "some/where/deep"), guest_path(&guest, "secret") };

	return guest_mount(&guest, kind, path, N_ELEMENTS(kind));
}

/* Reports about other places than those that were waited for, since the test began. */
static unsigned others;

static int
fresh(void **state)
{
	static const char *const gone[] = { "some/where/deep", "some/where", "some", ".mcp.json",
		".git/old/x", ".git/old", ".git/hooks/x", ".git/hooks/probe", ".git/config.bak",
		"new" };

	guest_mount(&guest, NULL, NULL, 0);
	for (size_t i = 0; i < N_ELEMENTS(gone); i++)
		(void)remove(gone[i]);
	(void)mkdir(".git", 0755);
	(void)mkdir(".git/hooks", 0755);
	guest_write_file(".git/config", "[core]\n");
	guest_write_file("secret", "x");
	guest_forget_events(&guest);
	others = 0;
	return 0;
}

static int
inside(const char *what, const char *path)
{
	return guest_run(&guest, (const char *[]){ "", what, path, NULL });
}

/* Start a command and wait until it has reported that it runs. Returns its id. */
static uint64_t
start(const char *what, const char *path, const char *how, int in)
{
	int out[2];
	uint64_t id;
	char c;

	must(pipe2(out, O_CLOEXEC) == 0);
	id = guest_start(&guest, in, out[1], false, (const char *[]){ "", what, path, how, NULL });
	close(out[1]);
	must(read(out[0], &c, 1) == 1);
	close(out[0]);
	return id;
}

/*
 * Waits until the place is protected again. If a rename on the host takes longer than stage2 waits
 * for its end, the place is reported as lost first; who was ended then counts too.
 */
static struct guest_event
remounted(const char *name)
{
	const uint64_t until = guest_ms() + PATIENCE_MS;
	const char *path = guest_path(&guest, name);
	uint64_t ended = 0;

	for (;;) {
		struct guest_event e = guest_next_event(&guest, until);

		if (strcmp(e.target, path) != 0) {
			others++;
			continue;
		}
		ended += e.ended;
		e.ended = ended;
		if (e.kind == KODA__EVENT_KIND__EVENT_KIND_REMOUNTED)
			return e;
		assert_int_equal(e.kind, KODA__EVENT_KIND__EVENT_KIND_LOST);
	}
}

static void
replace(const char *name, const char *text)
{
	guest_write_file("new", text);
	must(rename("new", name) == 0);
}

static off_t
size_of(const char *path)
{
	struct stat st;

	must(stat(path, &st) == 0);
	return st.st_size;
}

/* The file is writable without the plan, protected with it, and protected again after the
 * rename. */
static void
renamed_over(void **state)
{
	assert_int_equal(inside("write", ".git/config"), 0);
	assert_int_equal(plan(), 2);
	assert_int_equal(inside("write", ".git/config"), EROFS);
	replace(".git/config", "[new]\n");
	remounted(".git/config");
	assert_int_equal(inside("write", ".git/config"), EROFS);
	assert_int_equal(size_of(".git/config"), strlen("[new]\n"));
}

static void
deleted_and_made_anew(void **state)
{
	plan();
	must(unlink(".git/config") == 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_LOST, guest_path(&guest, ".git/config"));
	guest_write_file(".git/config", "[new]\n");
	remounted(".git/config");
	assert_int_equal(inside("write", ".git/config"), EROFS);
	/* Once more: a repaired mount is watched like a planned one. */
	replace(".git/config", "[newer]\n");
	remounted(".git/config");
	assert_int_equal(inside("write", ".git/config"), EROFS);
}

/* The mount moves away with the directory, and the list of mounts does not show it. */
static void
directory_moved_away(void **state)
{
	plan();
	assert_int_equal(inside("create", ".git/hooks/x"), EROFS);
	must(rename(".git/hooks", ".git/old") == 0);
	must(mkdir(".git/hooks", 0755) == 0);
	remounted(".git/hooks");
	assert_int_equal(inside("create", ".git/hooks/x"), EROFS);
}

static void
parent_moved_away(void **state)
{
	plan();
	must(rename(".git", ".gone") == 0);
	must(mkdir(".git", 0755) == 0);
	must(mkdir(".git/hooks", 0755) == 0);
	guest_write_file(".git/config", "[new]\n");
	remounted(".git/config");
	assert_int_equal(inside("write", ".git/config"), EROFS);
	assert_int_equal(inside("create", ".git/hooks/x"), EROFS);
	/* The parent is pinned again as well. */
	assert_int_equal(guest_run(&guest, (const char *[]){ "mv", ".git", "elsewhere", NULL }), 1);
	must(access(".git/config", F_OK) == 0);
	guest_mount(&guest, NULL, NULL, 0);
	must(remove(".gone/hooks") == 0 && remove(".gone/config") == 0 && remove(".gone") == 0);
}

static void
under_fire(void **state)
{
	uint64_t id, took[100], begun;
	struct guest_event e;
	struct guest_exit exit;
	off_t size;

	plan();
	id = start("write-on", ".git/config", NULL, -1);
	for (size_t i = 0; i < N_ELEMENTS(took); i++) {
		begun = guest_ms();
		replace(".git/config", "[new]\n");
		e = remounted(".git/config");
		took[i] = e.stopped_us;
		assert_true(guest_ms() - begun < PATIENCE_MS);
		/* A command that was caught with the file open has been ended, so start another. */
		if (e.ended > 0 || guest_is_over(&guest, id)) {
			exit = guest_wait(&guest, id);
			assert_int_equal(exit.signal, SIGKILL);
			id = start("write-on", ".git/config", NULL, -1);
		}
		/* The command keeps trying, without effect. */
		size = size_of(".git/config");
		guest_blink();
		assert_int_equal(size_of(".git/config"), size);
	}
	guest_end(&guest, id);
	for (size_t i = 1; i < N_ELEMENTS(took); i++)
		for (size_t k = i; k > 0 && took[k] < took[k - 1]; k--) {
			uint64_t t = took[k];

			took[k] = took[k - 1];
			took[k - 1] = t;
		}
	print_message("# stopped for p50 %lu us, p99 %lu us\n", (unsigned long)took[50],
	    (unsigned long)took[98]);
}

/* The command opened the file before it was protected: it holds the file that is replaced. */
static void
held_before(void **state)
{
	uint64_t id = start("hold", ".git/config", *state, -1), bystander;
	struct guest_event e;
	struct guest_exit exit;

	guest_write_file("beside", "");
	bystander = start("hold", "beside", "open", -1);
	plan();
	replace(".git/config", "[new]\n");
	e = remounted(".git/config");
	assert_int_equal(e.ended, 1);
	exit = guest_wait(&guest, id);
	assert_int_equal(exit.signal, SIGKILL);
	guest_end(&guest, bystander);
}

/* The command opens the path between the replacement and the new mount: it is practically always
 * caught, and then ended. */
static void
held_in_between(void **state)
{
	const char *what = *state;
	bool directory = strcmp(what, "hold-directory") == 0;
	bool secret = strcmp(what, "secret") == 0;
	const char *path = directory ? ".git/hooks" : secret ? "secret" : ".git/config";
	uint64_t until = guest_ms() + PATIENCE_MS, id;
	struct guest_event e = { 0 };

	plan();
	id = start(secret ? "hold" : what, path, "spin", -1);
	while (e.ended == 0) {
		if (guest_ms() > until)
			fail_msg("it was never faster");
		if (directory) {
			(void)remove(".git/old/probe");
			(void)remove(".git/old");
			must(rename(".git/hooks", ".git/old") == 0);
			must(mkdir(".git/hooks", 0755) == 0);
		} else {
			replace(path, "[new]\n");
		}
		e = remounted(path);
	}
	assert_int_equal(e.ended, 1);
	assert_int_equal(guest_wait(&guest, id).signal, SIGKILL);
	(void)remove(".git/old/probe");
}

static void
stopped_stays_stopped(void **state)
{
	struct guest_event e;
	int in[2];
	uint64_t id;

	must(pipe2(in, O_CLOEXEC) == 0);
	plan();
	id = start("job", "", NULL, in[0]);
	for (int i = 0; i < 20; i++) {
		replace(".git/config", "[new]\n");
		e = remounted(".git/config");
		assert_int_equal(e.ended, 0);
	}
	must(write(in[1], "x", 1) == 1);
	assert_int_equal(guest_wait(&guest, id).code, 0);
	close(in[0]);
	close(in[1]);
}

static void
appears(void **state)
{
	assert_int_equal(plan(), 2);
	/* On the host, the directories of its path first. */
	must(mkdir("some", 0755) == 0);
	must(mkdir("some/where", 0755) == 0);
	guest_write_file("some/where/deep", "x");
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED,
	    guest_path(&guest, "some/where/deep"));
	/* By a command. */
	assert_int_equal(inside("create", ".mcp.json"), 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED, guest_path(&guest, ".mcp.json"));
	/* The file is removed and appears again. */
	must(unlink(".mcp.json") == 0);
	guest_write_file(".mcp.json", "{}");
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED, guest_path(&guest, ".mcp.json"));
}

/* However the making of the directories and the look at them fall together. */
static void
appears_at_once(void **state)
{
	plan();
	for (int i = 0; i < 300; i++) {
		must(mkdir("some", 0755) == 0);
		must(mkdir("some/where", 0755) == 0);
		guest_write_file("some/where/deep", "x");
		guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED,
		    guest_path(&guest, "some/where/deep"));
		must(unlink("some/where/deep") == 0 && rmdir("some/where") == 0 &&
		    rmdir("some") == 0);
	}
}

/* A directory that is moved in may bring the file with it. */
static void
appears_with_its_directory(void **state)
{
	plan();
	must(mkdir("other", 0755) == 0 && mkdir("other/where", 0755) == 0);
	guest_write_file("other/where/deep", "x");
	must(rename("other", "some") == 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED,
	    guest_path(&guest, "some/where/deep"));
}

/* The host's pid of the sandbox's pid 1, bwrap's only child; -1 on error. */
static pid_t
stage2_pid(void)
{
	char path[64], buf[64];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", guest.bwrap.pid, guest.bwrap.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	return (pid_t)strtol(buf, NULL, 10);
}

/* More events happen than the kernel queues: then stage2 checks everything. */
static void
too_many_events(void **state)
{
	unsigned max = 16384;
	char name[64];
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	pid_t pid = stage2_pid();

	if (f != NULL && fscanf(f, "%u", &max) != 1)
		max = 16384;
	if (f != NULL)
		fclose(f);
	if (pid <= 1 || max > 100000)
		skip_because("the queue of inotify is too long, or stage2 is not found");
	plan();
	must(kill(pid, SIGSTOP) == 0);
	for (unsigned i = 0; i < max / 2 + 16; i++) { /* each is made and removed */
		snprintf(name, sizeof(name), "f%u", i);
		guest_write_file(name, "");
		must(unlink(name) == 0);
	}
	guest_write_file(".mcp.json", "{}");
	must(kill(pid, SIGCONT) == 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_APPEARED, guest_path(&guest, ".mcp.json"));
}

/* Changes outside the plan are not reported. */
static void
quiet(void **state)
{
	plan();
	replace(".git/HEAD", "ref: x\n");
	must(mkdir("some", 0755) == 0);
	assert_int_equal(inside("create", ".git/index.lock"), 0);
	must(unlink(".git/index.lock") == 0);
	/* Reports of the changes above would come before this one. */
	replace(".git/config", "[new]\n");
	remounted(".git/config");
	assert_int_equal(others, 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(renamed_over, fresh),
		cmocka_unit_test_setup(deleted_and_made_anew, fresh),
		cmocka_unit_test_setup(directory_moved_away, fresh),
		cmocka_unit_test_setup(parent_moved_away, fresh),
		cmocka_unit_test_setup(under_fire, fresh),
		{ "held before, by descriptor", held_before, fresh, NULL,
		    (void *)(uintptr_t) "open" },
		{ "held before, by mapping", held_before, fresh, NULL, (void *)(uintptr_t) "map" },
		{ "held in between, a file", held_in_between, fresh, NULL,
		    (void *)(uintptr_t) "hold" },
		{ "held in between, a directory", held_in_between, fresh, NULL,
		    (void *)(uintptr_t) "hold-directory" },
		{ "held in between, to read what is hidden", held_in_between, fresh, NULL,
		    (void *)(uintptr_t) "secret" },
		cmocka_unit_test_setup(stopped_stays_stopped, fresh),
		cmocka_unit_test_setup(appears, fresh),
		cmocka_unit_test_setup(appears_at_once, fresh),
		cmocka_unit_test_setup(appears_with_its_directory, fresh),
		cmocka_unit_test_setup(too_many_events, fresh),
		cmocka_unit_test_setup(quiet, fresh),
	};

	if (argc > 2 && strcmp(argv[1], GUEST) == 0)
		return be_guest(argv + 2);
	return cmocka_run_group_tests_name("protected_again", tests, up, down);
}
