/* SPDX-License-Identifier: Apache-2.0 */
/* posix-ops prepare DIR | posix-ops run DIR */
#include "tests/posix/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS_MAX     800
#define RESULT_MAX  4096
#define SECONDS_MAX 60 /* of one operation */

static struct op list[OPS_MAX];
static size_t n_ops;
static char *result; /* shared with the child that runs the operation */

void
say(const char *format, ...)
{
	size_t len = strlen(result);
	va_list ap;

	if (len > 0 && len < RESULT_MAX - 1)
		result[len++] = ' ';
	va_start(ap, format);
	vsnprintf(result + len, RESULT_MAX - len, format, ap);
	va_end(ap);
}

const char *
er(long r)
{
	return r >= 0 ? "ok" : strerrorname_np(errno);
}

int
must(int r)
{
	if (r < 0) {
		say("FAILED: %s", strerrorname_np(errno));
		_exit(1);
	}
	return r;
}

void
read_from(int fd, char *ret, size_t size)
{
	ssize_t n = must((int)pread(fd, ret, size - 1, 0));

	ret[n] = '\0';
	for (char *p = ret; *p != '\0'; p++)
		if (*p == '\n')
			*p = '$';
}

static void
write_text(const char *path, const char *text, int flags)
{
	int fd = must(open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644));

	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		must(-1);
	close(fd);
}

void
put(const char *path, const char *text)
{
	write_text(path, text, O_TRUNC);
}

void
append(const char *path, const char *text)
{
	write_text(path, text, O_APPEND);
}

void
say_what(const char *path)
{
	char text[256] = "";
	struct stat st;
	ssize_t n;
	int fd;

	if (lstat(path, &st) < 0) {
		say("%s", errno == ENOENT ? "none" : strerrorname_np(errno));
	} else if (S_ISREG(st.st_mode)) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			read_from(fd, text, 32);
		say("file:%s", fd < 0 ? er(-1) : text);
		close(fd);
	} else if (S_ISLNK(st.st_mode)) {
		n = readlink(path, text, sizeof(text) - 1);
		say("link:%.*s", (int)n, text);
	} else {
		say("%s",
		    S_ISDIR(st.st_mode)        ? "dir"
			: S_ISFIFO(st.st_mode) ? "fifo"
			: S_ISSOCK(st.st_mode) ? "socket"
					       : "device");
	}
}

void
add_op(const struct op *op)
{
	if (n_ops == OPS_MAX || (list[n_ops] = *op, list[n_ops].name = strdup(op->name)) == NULL)
		abort();
	n_ops++;
}

void
add_all(const struct op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_op(&ops[i]);
}

static void
prepare_tree(const char *name)
{
	char path[64];

	must(mkdir(name, 0755));
	snprintf(path, sizeof(path), "%s/x", name);
	put(path, "x\n");
	snprintf(path, sizeof(path), "%s/sub", name);
	must(mkdir(path, 0755));
	snprintf(path, sizeof(path), "%s/sub/y", name);
	put(path, "y\n");
}

static void
prepare_usual(void)
{
	static char big[BIG_SIZE + 1];

	memset(big, 'b', BIG_SIZE);
	put("f", "content\n");
	put("g", "other\n");
	put("h1", "linked\n");
	must(link("h1", "h2"));
	must(symlink("f", "l"));
	must(symlink("d", "dl"));
	must(symlink("nothing", "no"));
	prepare_tree("d");
	prepare_tree("n");
	must(mkdir("e", 0755));
	put("exe", "#!/bin/sh\necho ran\n");
	must(chmod("exe", 0755));
	must(mkfifo("fifo", 0644));
	put("big", big);
}

static void
enter(size_t i)
{
	char name[16];

	snprintf(name, sizeof(name), "%03zu", i);
	must(chdir(name));
}

static int
prepare(void)
{
	char name[16];

	for (size_t i = 0; i < n_ops; i++) {
		snprintf(name, sizeof(name), "%03zu", i);
		must(mkdir(name, 0755));
		enter(i);
		if (list[i].prepare != NULL)
			list[i].prepare();
		else
			prepare_usual();
		must(chdir(".."));
	}
	if (result[0] != '\0')
		fprintf(stderr, "posix-ops: %s\n", result);
	return result[0] != '\0';
}

/* An operation may end by a signal, and leaves no descriptor and no lock to the next one. */
static void
run_one(size_t i)
{
	pid_t pid;
	int status;

	result[0] = '\0';
	pid = must(fork());
	if (pid == 0) {
		alarm(SECONDS_MAX);
		enter(i);
		if (list[i].run_of != NULL)
			list[i].run_of(list[i].n);
		else
			list[i].run();
		_exit(0);
	}
	must(waitpid(pid, &status, 0));
	if (WIFSIGNALED(status))
		say("signal %d", WTERMSIG(status));
	printf("%s = %s\n", list[i].name, result);
}

int
main(int argc, char **argv)
{
	result = mmap(NULL, RESULT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc != 3 || result == MAP_FAILED || chdir(argv[2]) < 0) {
		fprintf(stderr, "usage: posix-ops prepare|run DIR\n");
		return 2;
	}
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	add_open_ops();
	add_rename_ops();
	add_name_ops();
	add_readdir_ops();
	add_content_ops();
	add_inode_ops();
	add_lock_ops();
	add_tool_ops();
	if (strcmp(argv[1], "prepare") == 0)
		return prepare();
	for (size_t i = 0; i < n_ops; i++)
		run_one(i);
	return 0;
}
