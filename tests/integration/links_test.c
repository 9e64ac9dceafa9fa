/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links, FIFOs and sockets that commands make. Outside git directories the results are the
 * kernel's, error for error; in git directories none can be made.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "shared/confine/lockdown.h"
#include "tests/kit/stage2.h"

/* ---- what a command does; the same outside ---- */

#define CASE_OK 0

/* Returns a string that ends at the end of mapped memory; without `nul` it is not terminated. */
static char *
at_end_of_memory(const char *text, bool nul)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = strlen(text) + nul;
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED && munmap(p + page, page) == 0);
	memcpy(p + page - len, text, len);
	return p + page - len;
}

static char *
of_length(size_t len, const char *unit)
{
	char *s = calloc(1, len + 1);

	must(s != NULL);
	for (size_t i = 0; i < len; i++)
		s[i] = unit[i % strlen(unit)];
	return s;
}

static int
result(int r)
{
	return r < 0 ? errno : CASE_OK;
}

static int
link_raw(const char *target, const char *path)
{
	return result((int)syscall(SYS_symlink, target, path));
}

static int
link_at(const char *target, int dirfd, const char *path)
{
	return result((int)syscall(SYS_symlinkat, target, dirfd, path));
}

static int
node_at(int dirfd, const char *path, unsigned mode)
{
	return result((int)syscall(SYS_mknodat, dirfd, path, mode, 0));
}

static int
directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	must(fd >= 0);
	return fd;
}

/* Prints what was made at the last name: type, mode, text. */
static void
say_made(const char *path)
{
	char text[8192];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0) {
		printf(" -");
		return;
	}
	printf(" %o %u %u", (unsigned)st.st_mode, (unsigned)st.st_uid == getuid(),
	    (unsigned)st.st_nlink);
	n = readlink(path, text, sizeof(text));
	if (n >= 0)
		printf(" %zd %.40s", n, text);
}

static int
chained(unsigned n)
{
	char name[32], target[32] = "d";

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "chain%u", i);
		must(symlink(target, name) == 0);
		strcpy(target, name);
	}
	snprintf(name, sizeof(name), "%s/n", target);
	return link_raw("t", name);
}

static int
in_deleted(bool by_cwd)
{
	int fd, r;

	must(mkdir("gone", 0755) == 0);
	fd = directory("gone");
	if (by_cwd)
		must(chdir("gone") == 0);
	must(rmdir(by_cwd ? "../gone" : "gone") == 0);
	r = link_at("t", by_cwd ? AT_FDCWD : fd, "n");
	if (by_cwd)
		_exit(r); /* cannot return to the old directory */
	return r;
}

static int
by_number(const char *before, const char *after)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%d%s", before, directory("d"), after);
	return link_raw("t", path);
}

/* A thread with its own working directory, or its own descriptors. */
static void *
thread_of_its_own(void *arg)
{
	bool by_cwd = *(const bool *)arg;
	int r, fd;

	must(unshare(by_cwd ? CLONE_FS : CLONE_FILES) == 0);
	if (by_cwd) {
		must(chdir("d") == 0);
		r = link_raw("t", "n");
	} else {
		fd = dup2(directory("d"), 200);
		r = link_at("t", fd, "n");
	}
	return (void *)(intptr_t)r;
}

static int
by_thread(bool by_cwd)
{
	pthread_t thread;
	void *r;

	must(pthread_create(&thread, NULL, thread_of_its_own, &by_cwd) == 0);
	must(pthread_join(thread, &r) == 0);
	return (int)(intptr_t)r;
}

#define SIGNAL_ROUNDS 500

static void
on_signal(int signo)
{
}

/*
 * A signal that arrives before pid 1 has taken the call restarts it; no call is lost, and none is
 * carried out twice.
 */
static int
under_signals(void)
{
	static const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int r = 0;

	must(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (int i = 0; i < SIGNAL_ROUNDS && r == 0; i++) {
		r = link_raw("t", "n");
		if (i + 1 < SIGNAL_ROUNDS)
			unlink("n");
	}
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
	return r;
}

#define CROWD        32
#define CROWD_ROUNDS 40

static void *
one_of_a_crowd(void *arg)
{
	char name[64];

	for (int i = 0; i < CROWD_ROUNDS; i++) {
		snprintf(name, sizeof(name), "d/%lu-%d", (unsigned long)(uintptr_t)arg, i);
		if (symlink("t", name) < 0)
			return (void *)(intptr_t)errno;
	}
	return NULL;
}

static int
crowd(void)
{
	pthread_t thread[CROWD];
	int r = 0;

	for (uintptr_t i = 0; i < CROWD; i++)
		must(pthread_create(&thread[i], NULL, one_of_a_crowd, (void *)i) == 0);
	for (size_t i = 0; i < CROWD; i++) {
		void *one;

		must(pthread_join(thread[i], &one) == 0);
		r = one != NULL ? (int)(intptr_t)one : r;
	}
	return r;
}

/* Callers that are killed at arbitrary points, and then one that is not. */
static int
killed(void)
{
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			for (;;) {
				unlink("k");
				syscall(SYS_symlink, "t", "k");
			}
		nanosleep(&(struct timespec){ .tv_nsec = 100000 + 37000L * i }, NULL);
		must(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	}
	return link_raw("t", "n");
}

static int
masked(unsigned mask, unsigned mode)
{
	umask(mask);
	return node_at(AT_FDCWD, "n", mode);
}

static int
swap_both(const char *target, const char *path)
{
	return link_raw(target, path);
}

/* clang-format off */
#define CASE(label, call) \
	static int case_##label(void) { return (call); }
#define CASES(X) \
	X(plain, link_raw("some text", "n")) \
	X(at_cwd, link_at("t", AT_FDCWD, "n")) \
	X(at_directory, link_at("t", directory("d"), "n")) \
	X(at_path_descriptor, link_at("t", open("d", O_PATH), "n")) \
	X(at_nothing, link_at("t", 1000, "n")) \
	X(at_minus_one, link_at("t", -1, "n")) \
	X(at_file, link_at("t", open("f", O_RDONLY), "n")) \
	X(at_file_below, link_at("t", open("f", O_RDONLY), "x/n")) \
	X(at_nothing_absolute, link_at("t", -1, "/tmp/../no/such/n")) \
	X(at_high_bits, result((int)syscall(SYS_symlinkat, "t", 0xabcd000000000000ul | (unsigned)directory("d"), "n"))) \
	X(exists, link_raw("t", "f")) \
	X(exists_directory, link_raw("t", "d")) \
	X(exists_directory_slash, link_raw("t", "d/")) \
	X(exists_file_slash, link_raw("t", "f/")) \
	X(exists_dangling, link_raw("t", "dangling")) \
	X(exists_dangling_slash, link_raw("t", "dangling/")) \
	X(slash, link_raw("t", "n/")) \
	X(slashes, link_raw("t", "n///")) \
	X(slashes_between, link_raw("t", "d///n")) \
	X(dot, link_raw("t", ".")) \
	X(dot_dot, link_raw("t", "..")) \
	X(below_dot, link_raw("t", "d/.")) \
	X(below_dot_dot, link_raw("t", "d/..")) \
	X(through_dot_dot, link_raw("t", "d/../n")) \
	X(root, link_raw("t", "/")) \
	X(roots, link_raw("t", "//")) \
	X(empty_path, link_raw("t", "")) \
	X(empty_target, link_raw("", "n")) \
	X(both_empty, link_raw("", "")) \
	X(null_path, link_raw("t", NULL)) \
	X(null_target, link_raw(NULL, "n")) \
	X(null_target_empty_path, swap_both(NULL, "")) \
	X(empty_target_null_path, swap_both("", NULL)) \
	X(path_ends_with_memory, link_raw("t", at_end_of_memory("n", true))) \
	X(path_runs_out, link_raw("t", at_end_of_memory("n", false))) \
	X(target_ends_with_memory, link_raw(at_end_of_memory("text", true), "n")) \
	X(target_runs_out, link_raw(at_end_of_memory("text", false), "n")) \
	X(name_of_255, link_raw("t", of_length(255, "a"))) \
	X(name_of_256, link_raw("t", of_length(256, "a"))) \
	X(directory_of_256, link_raw("t", strcpy(of_length(258, "a") + 256, "/n") - 256)) \
	X(path_of_4095, link_raw("t", strcpy(of_length(4095, "./") + 4094, "n") - 4094)) \
	X(path_of_4096, link_raw("t", of_length(4096, "./"))) \
	X(target_of_4095, link_raw(of_length(4095, "a"), "n")) \
	X(target_of_4096, link_raw(of_length(4096, "a"), "n")) \
	X(target_of_4096_empty_path, link_raw(of_length(4096, "a"), "")) \
	X(no_parent, link_raw("t", "no/n")) \
	X(parent_file, link_raw("t", "f/n")) \
	X(parent_file_below, link_raw("t", "f/x/n")) \
	X(parent_dangling, link_raw("t", "dangling/n")) \
	X(parent_loop, link_raw("t", "loop/n")) \
	X(parent_link, link_raw("t", "dlink/n")) \
	X(links_40, chained(40)) \
	X(links_41, chained(41)) \
	X(unsearchable, link_raw("t", "closed/n")) \
	X(below_unsearchable, link_raw("t", "closed/x/n")) \
	X(unwritable, link_raw("t", "fixed/n")) \
	X(exists_in_unwritable, link_raw("t", "fixed/f")) \
	X(deleted_directory, in_deleted(false)) \
	X(own_cwd, link_raw("t", "/proc/self/cwd/n")) \
	X(own_cwd_below, link_raw("t", "/proc/self/cwd/d/n")) \
	X(own_descriptor, by_number("/proc/self/fd/", "/n")) \
	X(own_descriptor_dev, by_number("/dev/fd/", "/n")) \
	X(own_descriptor_slashes, by_number("/proc/self/fd/", "///n")) \
	X(own_descriptor_nothing, link_raw("t", "/proc/self/fd/999/n")) \
	X(own_descriptor_slash, by_number("/proc/self/fd/", "/")) \
	X(thread_cwd, by_thread(true)) \
	X(thread_descriptors, by_thread(false)) \
	X(signals, under_signals()) \
	X(crowded, crowd()) \
	X(callers_killed, killed()) \
	X(fifo, masked(0, S_IFIFO | 0666)) \
	X(fifo_umask, masked(027, S_IFIFO | 0666)) \
	X(fifo_umask_077, masked(077, S_IFIFO | 07777)) \
	X(fifo_exists, node_at(AT_FDCWD, "f", S_IFIFO | 0600)) \
	X(fifo_slash, node_at(AT_FDCWD, "n/", S_IFIFO | 0600)) \
	X(fifo_at, node_at(directory("d"), "n", S_IFIFO | 0600)) \
	X(fifo_high_bits, masked(0, 0xa0000u | S_IFIFO | 0600)) \
	X(fifo_null, node_at(AT_FDCWD, NULL, S_IFIFO | 0600)) \
	X(fifo_old_call, result((int)syscall(SYS_mknod, "n", S_IFIFO | 0600, 0))) \
	X(socket, masked(022, S_IFSOCK | 0777)) \
	X(regular, masked(022, S_IFREG | 0666)) \
	X(no_type, masked(022, 0666)) \
	X(directory_type, node_at(AT_FDCWD, "n", S_IFDIR | 0700)) \
	X(wrong_type, node_at(AT_FDCWD, "n", 0150000 | 0700))
/* clang-format on */

CASES(CASE)

static const struct {
	const char *label;
	int (*run)(void);
} cases[] = {
#define ROW(label, call) { #label, case_##label },
	CASES(ROW)
#undef ROW
};

/* Runs one case in its own directory below the working directory. */
static void
one_case(size_t i, const char *prefix)
{
	char dir[64];
	pid_t pid;
	int status;

	snprintf(dir, sizeof(dir), "%s%zu", prefix, i);
	must(mkdir(dir, 0755) == 0);
	fflush(stdout);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		must(chdir(dir) == 0 && mkdir("d", 0755) == 0 && mkdir("closed", 0755) == 0 &&
		    mkdir("closed/x", 0755) == 0 && mkdir("fixed", 0755) == 0);
		guest_write_file("f", "x");
		guest_write_file("fixed/f", "x");
		must(symlink("no/such", "dangling") == 0 && symlink("loop", "loop") == 0 &&
		    symlink("d", "dlink") == 0);
		must(chmod("closed", 0) == 0 && chmod("fixed", 0555) == 0);
		_exit(cases[i].run());
	}
	must(waitpid(pid, &status, 0) == pid);
	printf("%s: %s", cases[i].label,
	    WIFEXITED(status) ? strerrorname_np(WEXITSTATUS(status)) : "killed");
	must(chdir(dir) == 0 && chmod("closed", 0755) == 0 && chmod("fixed", 0755) == 0);
	say_made("n");
	say_made("d/n");
	say_made("fixed/n");
	must(chdir("..") == 0);
	printf("\n");
}

static int
all_cases(const char *prefix)
{
	struct koda_error err;

	/* Outside, root would have rights that no command has. */
	must(lockdown_capabilities(&err) == 0);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		one_case(i, prefix);
	return 0;
}

/*
 * Opens a directory and makes it the working directory, writes `ready`, waits for `go`, and makes a
 * link by each of the two.
 */
static int
held(const char *dir, const char *ready, const char *go)
{
	int fd = directory(dir), by_fd, by_cwd;

	must(chdir(dir) == 0);
	guest_write_file(ready, "");
	while (access(go, F_OK) != 0)
		guest_blink();
	by_fd = link_at("t", fd, "by-descriptor");
	by_cwd = link_raw("t", "by-cwd");
	return by_fd == by_cwd ? by_fd : 255;
}

static int
be_guest(char **arg)
{
	if (strcmp(arg[0], "all") == 0)
		return all_cases(arg[1]);
	if (strcmp(arg[0], "link") == 0)
		return link_raw(arg[1], arg[2]);
	if (strcmp(arg[0], "fifo") == 0)
		return node_at(AT_FDCWD, arg[1], S_IFIFO | 0600);
	if (strcmp(arg[0], "socket") == 0)
		return node_at(AT_FDCWD, arg[1], S_IFSOCK | 0600);
	if (strcmp(arg[0], "regular") == 0)
		return node_at(AT_FDCWD, arg[1], S_IFREG | 0600);
	if (strcmp(arg[0], "whiteout") == 0)
		return result((int)syscall(SYS_renameat2, AT_FDCWD, arg[1], AT_FDCWD, arg[2],
		    RENAME_WHITEOUT));
	if (strcmp(arg[0], "held") == 0)
		return held(arg[1], arg[2], arg[3]);
	return 255;
}

/* ---- the host ---- */

static struct guest guest;

static int
up(void **state)
{
	guest_up(&guest);
	return 0;
}

static int
down(void **state)
{
	guest_down(&guest);
	return 0;
}

static int
inside(const char *const *argv)
{
	return guest_run(&guest, argv);
}

static int
make_link(const char *target, const char *path)
{
	return inside((const char *[]){ "", "link", target, path, NULL });
}

/* Mounts the directory `git` of the project, as a plain directory or as a git directory. */
static void
mount_git(bool plain)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Mounts mounts = KODA__MOUNTS__INIT;
	Koda__Mount mount = KODA__MOUNT__INIT, *list[] = { &mount };
	Koda__Report *r;

	mount.kind = KODA__MOUNT_KIND__MOUNT_KIND_PIN;
	mount.path = guest_bytes(guest_path(&guest, "git"));
	mount.has_plain = mount.plain = plain;
	mounts.n_mount = 1;
	mounts.mount = list;
	order.order_case = KODA__ORDER__ORDER_MOUNTS;
	order.mounts = &mounts;
	r = guest_ask(&guest, &order, NULL, 0);
	assert_int_equal(r->report_case, KODA__REPORT__REPORT_MOUNTED);
	assert_int_equal(r->mounted->n_missing, 0);
}

static void
make_git(void)
{
	mkdir(guest_path(&guest, "git"), 0755);
	mkdir(guest_path(&guest, "git/logs"), 0755);
	mkdir(guest_path(&guest, "git/logs/refs"), 0755);
}

static char *
read_all(int fd)
{
	char *text = calloc(1, 65536);
	ssize_t n;

	must(text != NULL && lseek(fd, 0, SEEK_SET) == 0);
	n = read(fd, text, 65535);
	must(n > 0);
	return text;
}

/* Compares each line with what the kernel does outside. */
static void
as_the_kernel(void **state)
{
	cleanup_free char *text_out = NULL, *text_in = NULL;
	cleanup_close int in = memfd_create("inside", MFD_CLOEXEC),
			  out = memfd_create("outside", MFD_CLOEXEC);
	struct guest_exit e;
	char *save_in, *save_out, *a, *b;
	pid_t pid = fork();
	int status;

	must(pid >= 0);
	if (pid == 0) {
		char *argv[] = { (char *)(uintptr_t)guest_path(&guest, "guest"), (char[]){ GUEST },
			(char[]){ "all" }, (char[]){ "out" }, NULL };

		must(chdir(guest.root) == 0 && dup2(out, STDOUT_FILENO) >= 0);
		execv(argv[0], argv);
		_exit(127);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	e = guest_wait(&guest,
	    guest_start(&guest, -1, in, false, (const char *[]){ "", "all", "in", NULL }));
	assert_int_equal(e.signal, 0);
	assert_int_equal(e.code, 0);
	text_out = read_all(out);
	text_in = read_all(in);
	a = strtok_r(text_out, "\n", &save_out);
	b = strtok_r(text_in, "\n", &save_in);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		assert_non_null(a);
		assert_non_null(b);
		assert_string_equal(b, a);
		a = strtok_r(NULL, "\n", &save_out);
		b = strtok_r(NULL, "\n", &save_in);
	}
}

static void
elsewhere(void **state)
{
	assert_int_equal(make_link("t", "/tmp/link"), 0);
	assert_int_equal(make_link("t", "/dev/shm/link"), 0);
	assert_int_equal(make_link("t", "/usr/link"), EROFS);
	assert_int_equal(make_link("t", "/usr/bin"), EEXIST);
	assert_int_equal(make_link("t", "/usr/no/such/link"), ENOENT);
	/* The sandbox's own file systems. */
	assert_int_equal(make_link("t", "/run/link"), EROFS);
	assert_int_equal(make_link("t", "/run/koda/link"), EROFS);
	assert_int_equal(inside((const char *[]){ "", "fifo", "/run/fifo", NULL }), EROFS);
	/* Paths through the /proc entries of another process reach nothing. */
	assert_int_equal(make_link("t", "/proc/1/cwd/tmp/link2"), ELOOP);
	assert_int_equal(make_link("t", "/proc/1/root/tmp/link2"), ELOOP);
}

static void
in_git(void **state)
{
	static const struct {
		const char *what, *name;
	} refused[] = { { "fifo", "git/fifo" }, { "socket", "git/socket" },
		{ "fifo", "git/logs/refs/fifo" } };

	make_git();
	mount_git(true);
	guest_forget_events(&guest);
	assert_int_equal(make_link("/etc/passwd", "git/logs/HEAD"), EPERM);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED,
	    guest_path(&guest, "git/logs/HEAD"));
	assert_int_equal(make_link("t", guest_path(&guest, "git/x")), EPERM);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED, guest_path(&guest, "git/x"));
	for (size_t i = 0; i < N_ELEMENTS(refused); i++)
		assert_int_equal(inside((
				     const char *[]){ "", refused[i].what, refused[i].name, NULL }),
		    EPERM);
	/* Errors come in the kernel's order. */
	assert_int_equal(make_link("t", "git/logs"), EEXIST);
	assert_int_equal(make_link("t", "git/no/x"), ENOENT);
	assert_int_equal(make_link("t", "git/x/"), ENOENT);
	assert_int_equal(make_link("", "git/x"), ENOENT);
	assert_int_equal(inside((const char *[]){ "", "regular", "git/regular", NULL }), 0);
	assert_int_equal(inside(
			     (const char *[]){ "", "whiteout", "git/regular", "git/moved", NULL }),
	    EINVAL);
	assert_int_equal(make_link("t", "beside"), 0);
	/* It depends on the directory, not on its name. */
	assert_int_equal(make_link("git", "door"), 0);
	assert_int_equal(make_link("t", "door/x"), EPERM);
	assert_int_equal(make_link("t", "door/logs/../logs/refs/x"), EPERM);
}

static void
what_git_makes(void **state)
{
	static const struct {
		const char *target, *name;
		int want;
	} links[] = {
		{ "refs/heads/main", "git/HEAD", 0 },
		{ "refs/heads/a.b/..c", "git/logs/HEAD", 0 },
		{ "testing", "git/tAbc123", 0 },
		{ "testing", "git/logs/HEAD2", EPERM },
		{ "testing", "git/tAbc12", EPERM },
		{ "testing", "git/tAbc12.", EPERM },
		{ "testing/x", "git/tAbc124", EPERM },
		{ "refs/heads/main", "git/ORIG_HEAD", EPERM },
		{ "refs/../../x", "git/logs/refs/HEAD", EPERM },
		{ "refs/./x", "git/logs/refs/HEAD", EPERM },
		{ "refs/x/..", "git/logs/refs/HEAD", EPERM },
		{ "refs//x", "git/logs/refs/HEAD", EPERM },
		{ "refs/x/", "git/logs/refs/HEAD", EPERM },
		{ "refs/", "git/logs/refs/HEAD", EPERM },
		{ "refs", "git/logs/refs/HEAD", EPERM },
		{ "/refs/x", "git/logs/refs/HEAD", EPERM },
		{ "./refs/x", "git/logs/refs/HEAD", EPERM },
		{ "refsx/y", "git/logs/refs/HEAD", EPERM },
	};

	make_git();
	mount_git(true);
	for (size_t i = 0; i < N_ELEMENTS(links); i++) {
		int r = make_link(links[i].target, links[i].name);

		if (r != links[i].want)
			fail_msg("%s -> %s: %d", links[i].name, links[i].target, r);
	}
	assert_int_equal(inside((const char *[]){ "", "fifo", "git/tfifoxx", NULL }), EPERM);
}

/* The mounts of the moment decide, and a directory is recognised by whatever way it is reached. */
static void
plan_comes_later(void **state)
{
	uint64_t id;

	make_git();
	mount_git(false);
	assert_int_equal(make_link("t", "git/before"), 0);
	id = guest_start(&guest, -1, -1, false,
	    (const char *[]){ "", "held", "git/logs", guest_path(&guest, "ready"),
		guest_path(&guest, "go"), NULL });
	while (access(guest_path(&guest, "ready"), F_OK) != 0)
		guest_blink();
	mount_git(true);
	guest_write_file(guest_path(&guest, "go"), "");
	assert_int_equal(guest_wait(&guest, id).code, EPERM);
	assert_int_equal(make_link("t", "git/after"), EPERM);
	/* What was there stays. */
	assert_int_equal(access(guest_path(&guest, "git"), F_OK), 0);
	mount_git(false);
	assert_int_equal(make_link("t", "git/again"), 0);
}

/*
 * A process outside replaces the directory: it is mounted again, and the new one is a git
 * directory, too.
 */
static void
replaced_outside(void **state)
{
	make_git();
	mount_git(true);
	guest_forget_events(&guest);
	must(rename(guest_path(&guest, "git"), guest_path(&guest, "old")) == 0);
	make_git();
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_REMOUNTED, guest_path(&guest, "git"));
	assert_int_equal(make_link("t", "git/new"), EPERM);
}

/* ---- the process that makes them ---- */

static pid_t
parent_of(pid_t pid)
{
	char path[64], text[512] = { 0 };
	cleanup_close int fd = -1;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || (at = strrchr(text, ')')) == NULL)
		return 0;
	return (pid_t)strtol(at + 4, NULL, 10);
}

/* Returns the pid, as numbered outside, of the sandbox process with this name, or 0. */
static pid_t
process_inside(const char *name)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	must(proc != NULL);
	while (found == 0 && (e = readdir(proc)) != NULL) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10), up_to = pid;
		char path[64], comm[32] = { 0 };
		cleanup_close int fd = -1;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0 || read(fd, comm, sizeof(comm) - 1) <= 0 ||
		    strncmp(comm, name, strlen(name)) != 0)
			continue;
		while (up_to > 1 && up_to != guest.bwrap.pid)
			up_to = parent_of(up_to);
		if (up_to == guest.bwrap.pid)
			found = pid;
	}
	closedir(proc);
	return found;
}

/* Waits for a maker other than `former` and returns its pid. */
static pid_t
next_maker(pid_t former)
{
	uint64_t until = guest_ms() + PATIENCE_MS;
	pid_t pid;

	while ((pid = process_inside("koda-links\n")) == 0 || pid == former) {
		must(guest_ms() < until);
		guest_blink();
	}
	return pid;
}

static void
maker_killed(void **state)
{
	pid_t pid = next_maker(0);

	for (int i = 0; i < 5; i++) {
		must(kill(pid, SIGKILL) == 0);
		pid = next_maker(pid);
		assert_int_equal(make_link("t", "after"), 0);
		must(unlink(guest_path(&guest, "after")) == 0);
	}
}

/* Is the process asleep in that system call? */
static bool
is_in_call(pid_t pid, long nr)
{
	char path[64], text[256] = { 0 };
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] != 'r' &&
	    strtol(text, NULL, 10) == nr;
}

/*
 * The maker is stuck, as on a file system that does not answer. Pid 1 still carries out other
 * orders, the command still ends, and nothing is made after its end. (Pid 1 resumes a maker that is
 * only stopped, so the test traces it, which takes root.)
 */
static void
maker_stuck(void **state)
{
	uint64_t until = guest_ms() + PATIENCE_MS, id;
	pid_t pid = next_maker(0), caller = 0;
	struct guest_exit e;
	int status;

	make_git();
	must(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
	must(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
	id = guest_start(&guest, -1, -1, false, (const char *[]){ "", "link", "t", "stuck", NULL });
	while ((caller = process_inside("guest\n")) == 0 || !is_in_call(caller, SYS_symlink)) {
		must(guest_ms() < until);
		guest_blink();
	}
	/* Pid 1 carries out an order that comes after the call only after it has taken the call. */
	mount_git(true);
	must(kill(caller, SIGKILL) == 0);
	/* The tracer is notified of the maker's end first. */
	must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	e = guest_wait(&guest, id);
	assert_int_equal(e.signal, SIGKILL);
	assert_true(access(guest_path(&guest, "stuck"), F_OK) < 0);
	next_maker(pid);
	assert_int_equal(make_link("t", "after"), 0);
	assert_true(access(guest_path(&guest, "stuck"), F_OK) < 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(as_the_kernel, up, down),
		cmocka_unit_test_setup_teardown(elsewhere, up, down),
		cmocka_unit_test_setup_teardown(in_git, up, down),
		cmocka_unit_test_setup_teardown(what_git_makes, up, down),
		cmocka_unit_test_setup_teardown(plan_comes_later, up, down),
		cmocka_unit_test_setup_teardown(replaced_outside, up, down),
		cmocka_unit_test_setup_teardown(maker_killed, up, down),
		/* Must be last: root only. */
		cmocka_unit_test_setup_teardown(maker_stuck, up, down),
	};

	if (argc > 2 && strcmp(argv[1], GUEST) == 0)
		return be_guest(argv + 2);
	return _cmocka_run_group_tests("links", tests, N_ELEMENTS(tests) - (geteuid() != 0), NULL,
	    NULL);
}
