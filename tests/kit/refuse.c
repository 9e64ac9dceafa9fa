/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse WHAT COMMAND...: runs it where the machine refuses a part of what a sandbox needs. Each
 * scene is real: a limit of a user namespace, a mount, a seccomp filter. The command has no more
 * rights than the caller. (tests/integration/refused_test.c)
 *
 *	limit     no user namespace may be made (user.max_user_namespaces is 0)
 *	filter    a filter as a container engine's: no namespaces, EPERM
 *	proc      a part of /proc is covered
 *	kept      bubblewrap gives its program no capability; the second argument is a script that
 *	          stands in for it and starts the real one, a copy in $KODA_REAL_BWRAP
 *	chroot    the command's root comes from chroot()
 *	listener  another process is the listener of a filter
 *	confine   no Landlock, and no filter with a listener, as in a kernel in user space
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

static _Noreturn void
fail(const char *what)
{
	fprintf(stderr, "refuse: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void
write_file(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail(path);
}

/* A user namespace and a mount namespace with the caller's own ids in them. */
static void
enter_namespaces(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		fail("unshare");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
}

static void
mount_over(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		fail(to);
}

static int
install(const struct sock_filter *code, size_t n, unsigned flags)
{
	struct sock_fprog prog = { .len = (unsigned short)n,
		.filter = (struct sock_filter *)(uintptr_t)code };
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("no_new_privs");
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		fail("seccomp");
	return fd;
}

#define INSTALL(code) install(code, N_ELEMENTS(code), 0)

/* clang-format off */
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RET(action)  BPF_STMT(BPF_RET | BPF_K, action)
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define ANY_BIT(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* Container engines also hide clone3(), whose flags a filter cannot see. */
static const struct sock_filter no_namespaces[] = {
	LOAD(nr),
	IS(SYS_clone3, 0, 1),
	RET(SECCOMP_RET_ERRNO | ENOSYS),
	IS(SYS_unshare, 2, 0),
	IS(SYS_clone, 1, 0),
	RET(SECCOMP_RET_ALLOW),
	LOAD(args[0]),
	ANY_BIT(NAMESPACES, 0, 1),
	RET(SECCOMP_RET_ERRNO | EPERM),
	RET(SECCOMP_RET_ALLOW),
};

static const struct sock_filter no_confinement[] = {
	LOAD(nr),
	IS(SYS_landlock_create_ruleset, 4, 0),
	IS(SYS_seccomp, 0, 2),
	LOAD(args[1]),
	ANY_BIT(SECCOMP_FILTER_FLAG_NEW_LISTENER, 2, 0),
	RET(SECCOMP_RET_ALLOW),
	RET(SECCOMP_RET_ERRNO | ENOSYS),
	RET(SECCOMP_RET_ERRNO | EINVAL),
};

static const struct sock_filter allow_all[] = { RET(SECCOMP_RET_ALLOW) };
/* clang-format on */

static void
limit(char **argv)
{
	enter_namespaces();
	write_file("/proc/sys/user/max_user_namespaces", "0");
}

static void
filter(char **argv)
{
	INSTALL(no_namespaces);
	if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
		fail("a user namespace can still be made");
}

static void
proc(char **argv)
{
	enter_namespaces();
	mount_over("/dev/null", "/proc/kallsyms");
}

static void
kept(char **argv)
{
	enter_namespaces();
	mount_over(argv[2], "/usr/bin/bwrap");
}

/* Makes a directory in which each name of / is, and makes it the root: one that is no mount, as most
 * roots of a chroot(). */
static void
change_root(char **argv)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], to[PATH_MAX + 16 + NAME_MAX], from[2 + NAME_MAX], link[PATH_MAX];
	char *here = get_current_dir_name();
	struct dirent *entry;
	DIR *root;

	enter_namespaces();
	snprintf(dir, sizeof(dir), "%s/refuse-XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (here == NULL || mkdtemp(dir) == NULL || mount("tmpfs", dir, "tmpfs", 0, NULL) < 0)
		fail(dir);
	snprintf(to, sizeof(to), "%s/root", dir);
	if (mkdir(to, 0755) < 0 || (root = opendir("/")) == NULL)
		fail(to);
	while ((entry = readdir(root)) != NULL) {
		ssize_t n;

		snprintf(from, sizeof(from), "/%s", entry->d_name);
		snprintf(to, sizeof(to), "%s/root/%s", dir, entry->d_name);
		if (entry->d_name[0] == '.')
			continue;
		if ((n = readlink(from, link, sizeof(link) - 1)) > 0) {
			link[n] = '\0';
			if (symlink(link, to) < 0)
				fail(to);
		} else if (entry->d_type == DT_DIR) {
			if (mkdir(to, 0755) < 0 ||
			    mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
				fail(to);
		}
	}
	closedir(root);
	snprintf(to, sizeof(to), "%s/root", dir);
	if (chroot(to) < 0 || chdir(here) < 0)
		fail("chroot");
	free(here);
}

/* The caller's process stays as the listener until the command has ended. */
static void
listener(char **argv)
{
	int fd = install(allow_all, N_ELEMENTS(allow_all), SECCOMP_FILTER_FLAG_NEW_LISTENER),
	    status;
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		close(fd); /* it stays open in the parent */
		return;
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

static void
confine(char **argv)
{
	INSTALL(no_confinement);
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= 0 || errno != ENOSYS)
		fail("Landlock is still there");
}

static const struct {
	const char *name;
	void (*run)(char **argv);
	int n_arguments;
} scenes[] = {
	{ "limit", limit, 0 },
	{ "filter", filter, 0 },
	{ "proc", proc, 0 },
	{ "kept", kept, 1 },
	{ "chroot", change_root, 0 },
	{ "listener", listener, 0 },
	{ "confine", confine, 0 },
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < N_ELEMENTS(scenes); i++) {
		if (argc < 3 + scenes[i].n_arguments || strcmp(argv[1], scenes[i].name) != 0)
			continue;
		scenes[i].run(argv);
		argv += 2 + scenes[i].n_arguments;
		execv(argv[0], argv);
		fail(argv[0]);
	}
	fprintf(stderr, "usage: refuse WHAT COMMAND...\n");
	return 2;
}
