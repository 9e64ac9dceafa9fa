/* SPDX-License-Identifier: Apache-2.0 */
/* Links, and ways to get one into a directory that is closed to them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "attacker.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* rename FROM TO: the plain system call; mv(1) would fall back to a copy. */
int
rename_main(int argc, char **argv)
{
	return rename(argv[1], argv[2]) == 0 ? 0 : failed("rename");
}

/* hardlink FROM TO: gives FROM, which may be a link, another name; if that fails, through a
 * descriptor of it, in two ways. */
int
hardlink_main(int argc, char **argv)
{
	char name[64];
	int fd;

	if (linkat(AT_FDCWD, argv[1], AT_FDCWD, argv[2], 0) == 0)
		return 0;
	fd = open(argv[1], O_PATH | O_NOFOLLOW);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (linkat(fd, "", AT_FDCWD, argv[2], AT_EMPTY_PATH) == 0 ||
	    linkat(AT_FDCWD, name, AT_FDCWD, argv[2], AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return failed("linkat");
}

/* linkat HOW TARGET DIR NAME: makes the link DIR/NAME through a descriptor, the working
 * directory, or /proc. */
int
linkat_main(int argc, char **argv)
{
	const char *how = argv[1], *target = argv[2], *dir = argv[3], *name = argv[4];
	int fd = open(dir, strcmp(how, "path") == 0 ? O_PATH : O_RDONLY | O_DIRECTORY);
	char path[4096];

	snprintf(path, sizeof(path), "%s", name);
	if (strcmp(how, "proc") == 0)
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", fd, name);
	else if (strcmp(how, "pid") == 0)
		snprintf(path, sizeof(path), "/proc/%d/fd/%d/%s", (int)getpid(), fd, name);
	else if (strcmp(how, "cwd") == 0 && fchdir(fd) == 0)
		snprintf(path, sizeof(path), "/proc/self/cwd/%s", name);
	else if (strcmp(how, "chdir") == 0 && fchdir(fd) == 0)
		fd = AT_FDCWD;
	return symlinkat(target, fd, path) == 0 ? 0 : failed("symlinkat");
}

/* special fifo|socket|bind NAME */
int
special_main(int argc, char **argv)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	if (strcmp(argv[1], "bind") != 0)
		return mknod(argv[2], (strcmp(argv[1], "fifo") == 0 ? S_IFIFO : S_IFSOCK) | 0644,
			   0) == 0
		    ? 0
		    : failed("mknod");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", argv[2]);
	return fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 ? 0 : failed("bind");
}

/* ---- racing ---- */

#define RACE_ROUNDS 3000

static struct race {
	const char *target, *open, *closed; /* directories */
	_Atomic(bool) over;
	char path[2][4096], shared[4096];
	char door[4096], other[4096]; /* names in the open directory */
	int fd, dir[2];
} race;

/* The other thread's loop. */

static void
swap_text(unsigned i)
{
	memcpy(race.shared, race.path[i % 2], sizeof(race.shared));
}

static void
swap_descriptor(unsigned i)
{
	dup2(race.dir[i % 2], race.fd);
}

static void
swap_cwd(unsigned i)
{
	if (fchdir(race.dir[i % 2]) < 0)
		_exit(1);
}

static void
swap_door(unsigned i)
{
	syscall(SYS_renameat2, AT_FDCWD, race.door, AT_FDCWD, race.other, 2 /* RENAME_EXCHANGE */);
}

static void
move_directory(unsigned i)
{
	if (i % 2 == 0)
		rename(race.door, race.other);
	else
		rename(race.other, race.door);
}

/* This thread's attempt meanwhile. */

static int
link_by_text(void)
{
	return symlink(race.target, race.shared);
}

static int
link_by_descriptor(void)
{
	return symlinkat(race.target, race.fd, "HEAD");
}

static int
link_by_cwd(void)
{
	return symlink(race.target, "HEAD");
}

static int
link_by_door(void)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/HEAD", race.door);
	return symlink(race.target, path);
}

static void
make_nothing(void)
{
}

static void
make_doors(void)
{
	snprintf(race.door, sizeof(race.door), "%s/door", race.open);
	snprintf(race.other, sizeof(race.other), "%s/other", race.open);
	if (symlink(race.open, race.door) < 0 || symlink(race.closed, race.other) < 0)
		failed("doors");
}

static void
make_directory(void)
{
	snprintf(race.door, sizeof(race.door), "%s/moving", race.open);
	snprintf(race.other, sizeof(race.other), "%s/moving", race.closed);
	if (mkdir(race.door, 0755) < 0)
		failed("moving");
}

static const struct {
	const char *name;
	void (*prepare)(void), (*meanwhile)(unsigned);
	int (*link)(void);
} races[] = {
	{ "text", make_nothing, swap_text, link_by_text },
	{ "descriptor", make_nothing, swap_descriptor, link_by_descriptor },
	{ "cwd", make_nothing, swap_cwd, link_by_cwd },
	{ "door", make_doors, swap_door, link_by_door },
	{ "directory", make_directory, move_directory, link_by_door },
};

static void *
meanwhile(void *arg)
{
	size_t which = *(size_t *)arg;

	for (unsigned i = 0; !race.over; i++)
		races[which].meanwhile(i);
	return NULL;
}

static bool
has_link(const char *dir, const char *name)
{
	char path[4200];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* linkrace HOW TARGET OPEN CLOSED: makes the link HEAD in the directory OPEN, again and again,
 * while another thread puts CLOSED in its place, until CLOSED has one. */
int
linkrace_main(int argc, char **argv)
{
	size_t which = 0;
	pthread_t thread;

	while (which < N_ELEMENTS(races) && strcmp(races[which].name, argv[1]) != 0)
		which++;
	if (which == N_ELEMENTS(races))
		return 2;
	race.target = argv[2];
	race.open = argv[3];
	race.closed = argv[4];
	for (int i = 0; i < 2; i++) {
		snprintf(race.path[i], sizeof(race.path[i]), "%s/HEAD", argv[3 + i]);
		race.dir[i] = open(argv[3 + i], O_RDONLY | O_DIRECTORY);
	}
	race.fd = dup(race.dir[0]);
	swap_text(0);
	if (fchdir(race.dir[0]) < 0)
		return failed(argv[3]);
	races[which].prepare();
	if (pthread_create(&thread, NULL, meanwhile, &which) != 0)
		return failed("thread");
	for (int i = 0; i < RACE_ROUNDS && !race.over; i++) {
		races[which].link();
		unlink(race.path[0]);
		race.over = has_link(race.closed, "HEAD") || has_link(race.closed, "moving/HEAD");
	}
	race.over = true;
	pthread_join(thread, NULL);
	races[which].meanwhile(0);
	return 0;
}
