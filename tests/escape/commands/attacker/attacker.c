/* SPDX-License-Identifier: Apache-2.0 */
/* The table of words, and the words about files and processes. */
#include "tests/escape/commands/attacker/attacker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif
#ifndef RENAME_WHITEOUT
#define RENAME_WHITEOUT (1 << 2)
#endif

/* A handshake that takes longer than this has failed. */
#define PATIENCE_MS 10000
/* How long to try a race after the host has done its part. */
#define RACE_MS 300

int
failed(const char *what)
{
	fprintf(stderr, "attacker: %s: %s\n", what, strerror(errno));
	return 1;
}

long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
blink(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

int
linger_main(int argc, char **argv)
{
	for (int sig = 1; sig < NSIG; sig++) {
		if (sig != SIGSEGV && sig != SIGBUS)
			signal(sig, SIG_IGN);
	}
	for (;;)
		pause();
}

void
become_linger(void)
{
	linger_main(0, NULL);
	_exit(1);
}

/* ---- words ---- */

/* In a draft, what was looked for and not found is not found again when the host has made it. It is
 * listed. */
static bool
is_listed(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct dirent *d;
	bool found = false;
	DIR *all;

	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	all = opendir(dir);
	while (all != NULL && !found && (d = readdir(all)) != NULL)
		found = strcmp(d->d_name, slash + 1) == 0;
	if (all != NULL)
		closedir(all);
	return found;
}

bool
appeared(const char *path)
{
	return access(path, F_OK) == 0 || is_listed(path);
}

/* wait FILE [MS]: until FILE exists. */
static int
wait_main(int argc, char **argv)
{
	long end = now_ms() + (argc > 2 ? atol(argv[2]) : PATIENCE_MS);

	while (!appeared(argv[1])) {
		if (now_ms() > end)
			return 1;
		blink();
	}
	return 0;
}

/* gone FILE [MS]: until FILE no longer exists. */
static int
gone_main(int argc, char **argv)
{
	long end = now_ms() + (argc > 2 ? atol(argv[2]) : PATIENCE_MS);
	struct stat st;

	while (lstat(argv[1], &st) == 0) {
		if (now_ms() > end)
			return 1;
		blink();
	}
	return 0;
}

static bool
is_marked(const char *file, const char *mark)
{
	char text[4096];
	const char *last;
	ssize_t n;
	cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (n = read(fd, text, sizeof(text) - 1)) <= 1)
		return false;
	text[n] = '\0';
	last = memrchr(text, '\0', (size_t)n - 1);
	return strcmp(last == NULL ? text : last + 1, mark) == 0;
}

/* The mark is the last argument. A process whose main thread has exited shows it only in its
 * other threads. */
bool
is_lingering(const char *pid, const char *mark)
{
	char path[2 * NAME_MAX + 32];
	const struct dirent *d;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	if ((dir = opendir(path)) == NULL)
		return false;
	while (!found && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task/%s/cmdline", pid, d->d_name);
		found = is_marked(path, mark);
	}
	closedir(dir);
	return found;
}

static int
count_lingering(const char *mark, bool show)
{
	DIR *dir = opendir("/proc");
	const struct dirent *d;
	int n = 0;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] < '1' || d->d_name[0] > '9' || !is_lingering(d->d_name, mark))
			continue;
		n++;
		if (show)
			printf("%s\n", d->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

/* lingering MARK [N]: prints the processes with that mark, one a line; 0 if there are N of them
 * or more. */
static int
lingering_main(int argc, char **argv)
{
	return count_lingering(argv[1], true) >= (argc > 2 ? atoi(argv[2]) : 1) ? 0 : 1;
}

/* appear MARK [N]: waits until that many linger. */
static int
appear_main(int argc, char **argv)
{
	long end = now_ms() + PATIENCE_MS;
	int n = argc > 2 ? atoi(argv[2]) : 1;

	while (count_lingering(argv[1], false) < n) {
		if (now_ms() > end)
			return 1;
		blink();
	}
	return 0;
}

/* vanish MARK MS: waits until none lingers; 1 if one still does. */
static int
vanish_main(int argc, char **argv)
{
	long end = now_ms() + atol(argv[2]);

	while (count_lingering(argv[1], false) > 0) {
		if (now_ms() > end)
			return 1;
		blink();
	}
	return 0;
}

/* exchange A B */
static int
exchange_main(int argc, char **argv)
{
	return syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE) == 0
	    ? 0
	    : failed("exchange");
}

/* whiteout FROM TO: moves FROM, and leaves a device in its place. */
static int
whiteout_main(int argc, char **argv)
{
	return syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_WHITEOUT) == 0
	    ? 0
	    : failed("whiteout");
}

/* spin FILE TEXT STOP: tries to append TEXT until it succeeds; gives up shortly after STOP
 * appears. */
static int
spin_main(int argc, char **argv)
{
	long end = now_ms() + PATIENCE_MS, stop = 0;

	for (unsigned i = 0; now_ms() < end; i++) {
		int fd = open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC);

		if (fd >= 0) {
			ssize_t n = write(fd, argv[2], strlen(argv[2]));

			close(fd);
			if (n > 0)
				return 0;
		}
		if (i % 64 != 0)
			continue;
		if (stop == 0 && appeared(argv[3]))
			stop = now_ms() + RACE_MS;
		if (stop != 0 && now_ms() > stop)
			break;
	}
	return 1;
}

/* spinread FILE STOP: prints what can be read of FILE, again and again. */
static int
spinread_main(int argc, char **argv)
{
	long end = now_ms() + PATIENCE_MS, stop = 0;

	while (now_ms() < end) {
		int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
		char text[512];
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

		if (n > 0 && write(STDOUT_FILENO, text, (size_t)n) != n)
			return 1;
		if (fd >= 0)
			close(fd);
		if (stop == 0 && appeared(argv[2]))
			stop = now_ms() + RACE_MS;
		if (stop != 0 && now_ms() > stop)
			break;
	}
	return 0;
}

static void
raise_limit(int which)
{
	struct rlimit lim;

	if (getrlimit(which, &lim) < 0)
		return;
	lim.rlim_max = RLIM_INFINITY;
	if (setrlimit(which, &lim) < 0)
		getrlimit(which, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(which, &lim);
}

/* many N MARK: starts up to N processes that linger. */
static int
many_main(int argc, char **argv)
{
	int n = atoi(argv[1]);

	raise_limit(RLIMIT_NPROC);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			become_linger();
		if (pid < 0)
			return failed("fork");
	}
	return 0;
}

/* open N MARK: opens up to N descriptors; then lingers. */
static int
open_main(int argc, char **argv)
{
	int n = atoi(argv[1]);

	raise_limit(RLIMIT_NOFILE);
	while (n-- > 0 && open("/dev/null", O_RDONLY) >= 0) // NOLINT(android-cloexec-open)
		;
	become_linger();
}

/* eat BYTES FILE: allocates and touches BYTES; then makes FILE and waits. */
static int
eat_main(int argc, char **argv)
{
	size_t len = (size_t)atol(argv[1]);
	char *p;

	raise_limit(RLIMIT_DATA);
	raise_limit(RLIMIT_AS);
	if ((p = malloc(len)) == NULL)
		return failed("malloc");
	memset(p, 'x', len);
	if (open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0)
		return failed(argv[2]);
	for (;;)
		pause();
}

/* grow FILE SIZE: makes a file of that length. */
static int
grow_main(int argc, char **argv)
{
	cleanup_close int fd = -1;
	off_t size = atol(argv[2]);

	raise_limit(RLIMIT_FSIZE);
	signal(SIGXFSZ, SIG_IGN);
	if ((fd = open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0)
		return failed(argv[1]);
	return ftruncate(fd, size) < 0 && pwrite(fd, "x", 1, size - 1) < 0 ? failed("grow") : 0;
}

/* daemon COMMAND...: runs it in a new session, orphaned. */
static int
daemon_main(int argc, char **argv)
{
	if (fork() != 0)
		return 0;
	setsid();
	if (fork() != 0)
		_exit(0);
	execvp(argv[1], argv + 1);
	_exit(127);
}

/* breed FILE MS MARK: makes a chain of processes, hard to catch because each lives only until
 * its child does; the last one makes FILE and lingers. */
static int
breed_main(int argc, char **argv)
{
	long end = now_ms() + atol(argv[2]);

	if (fork() != 0)
		return 0;
	while (now_ms() < end) {
		setsid();
		if (fork() > 0)
			_exit(0);
	}
	close(open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	become_linger();
}

/* leaderless MARK: the main thread exits, and another thread goes on. */
static int
leaderless_child(void *arg)
{
	linger_main(0, NULL);
	return 0;
}

static int
leaderless_main(int argc, char **argv)
{
	static char stack[65536];

	if (fork() != 0)
		return 0;
	setsid();
	if (clone(leaderless_child, stack + sizeof(stack),
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
		NULL) < 0)
		return failed("clone");
	syscall(SYS_exit, 0);
	return 1;
}

/* stopped MARK: one stopped process and one that runs. */
static int
stopped_main(int argc, char **argv)
{
	pid_t pid;

	if (fork() != 0)
		return 0;
	setsid();
	if ((pid = fork()) == 0)
		become_linger();
	kill(pid, SIGSTOP);
	become_linger();
}

static const struct {
	const char *name;
	int min; /* arguments */
	applet_fn *fn;
} applets[] = {
	{ "appear", 1, appear_main },
	{ "breed", 3, breed_main },
	{ "crowd", 1, crowd_main },
	{ "daemon", 1, daemon_main },
	{ "eat", 2, eat_main },
	{ "exchange", 2, exchange_main },
	{ "flags", 2, flags_main },
	{ "gone", 1, gone_main },
	{ "grow", 2, grow_main },
	{ "hardlink", 2, hardlink_main },
	{ "held", 2, held_main },
	{ "hoard", 6, hoard_main },
	{ "hold", 2, hold_main },
	{ "inet", 4, inet_main },
	{ "keep", 4, keep_main },
	{ "key", 1, key_main },
	{ "kill", 2, kill_main },
	{ "lease", 3, lease_main },
	{ "leaderless", 1, leaderless_main },
	{ "lend", 2, lend_main },
	{ "limit", 1, limit_main },
	{ "linger", 1, linger_main },
	{ "lingering", 1, lingering_main },
	{ "linkat", 4, linkat_main },
	{ "linkrace", 4, linkrace_main },
	{ "many", 2, many_main },
	{ "mq", 2, mq_main },
	{ "msg", 2, msg_main },
	{ "nice", 1, nice_main },
	{ "ns", 2, ns_main },
	{ "notify", 3, notify_main },
	{ "open", 2, open_main },
	{ "peek", 2, peek_main },
	{ "poke", 4, poke_main },
	{ "rename", 2, rename_main },
	{ "scan", 1, scan_main },
	{ "sem", 2, sem_main },
	{ "serve", 2, serve_main },
	{ "shm", 2, shm_main },
	{ "sniff", 2, sniff_main },
	{ "special", 2, special_main },
	{ "spin", 3, spin_main },
	{ "spinread", 2, spinread_main },
	{ "squat", 2, squat_main },
	{ "stopped", 1, stopped_main },
	{ "swap", 3, swap_main },
	{ "sync", 1, sync_main },
	{ "tiocsti", 2, tiocsti_main },
	{ "unix", 3, unix_main },
	{ "userns", 2, userns_main },
	{ "vanish", 2, vanish_main },
	{ "wait", 1, wait_main },
	{ "weigh", 3, weigh_main },
	{ "whiteout", 2, whiteout_main },
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < N_ELEMENTS(applets); i++) {
		if (strcmp(argv[1], applets[i].name) == 0 && argc - 2 >= applets[i].min)
			return applets[i].fn(argc - 1, argv + 1);
	}
	fprintf(stderr, "attacker: no such word, or not enough after it: %s\n",
	    argc > 1 ? argv[1] : "");
	return 2;
}
