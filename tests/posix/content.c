/* SPDX-License-Identifier: Apache-2.0 */
/* The content of files: maps, holes, copies, descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/posix/ops.h"

static int
open_it(const char *path, int flags)
{
	return must(open(path, flags | O_CLOEXEC, 0644));
}

static void
say_from(int fd)
{
	char text[64];

	read_from(fd, text, 32);
	say("%s", text);
}

static char *
map(int fd, int prot, int flags)
{
	char *p = mmap(NULL, 4096, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		must(-1);
	return p;
}

static void
map_write(void)
{
	int fd = open_it("f", O_RDWR), other = open_it("f", O_RDONLY);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);

	memcpy(p, "MAP", 3);
	say_from(other);
	say("%s", er(msync(p, 4096, MS_SYNC)));
	say_what("f");
	must((int)pwrite(fd, "W", 1, 0));
	say("%.7s", p);
}

static void
map_upper(void)
{
	int fd, other;
	char *p;

	put("u", "content\n");
	fd = open_it("u", O_RDWR);
	other = open_it("u", O_RDONLY);
	p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	memcpy(p, "MAP", 3);
	say_from(other);
	must(ftruncate(fd, 3));
	say("%.7s", p);
}

static void
map_between_processes(void)
{
	int fd = open_it("f", O_RDWR);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED), *q;

	if (must(fork()) == 0) {
		q = map(open_it("f", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);
		memcpy(q, "OTHER", 5);
		_exit(0);
	}
	wait(NULL);
	say("%.7s", p);
}

static void
map_private(void)
{
	int fd = open_it("f", O_RDONLY);
	char *p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	memcpy(p, "PRI", 3);
	say("%.7s", p);
	say_what("f");
	say("%s", mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? er(-1) : "ok");
}

/* Opened before the file is first written. */
static void
map_early(void)
{
	char *p = map(open_it("f", O_RDONLY), PROT_READ, MAP_SHARED);

	must((int)pwrite(open_it("f", O_RDWR), "NEW", 3, 0));
	say("%.7s", p);
}

static void
read_early(void)
{
	int early = open_it("f", O_RDONLY);

	must((int)pwrite(open_it("f", O_RDWR), "NEW", 3, 0));
	say_from(early);
}

static void
size_early(void)
{
	int early = open_it("f", O_RDONLY);
	struct stat st;

	append("f", "more\n");
	must(fstat(early, &st));
	say("%lld", (long long)st.st_size);
	say("%lld", (long long)lseek(early, 0, SEEK_END));
}

static void
read_early_upper(void)
{
	int early;

	put("u", "content\n");
	early = open_it("u", O_RDONLY);
	append("u", "more\n");
	say_from(early);
}

static void
read_early_append(void)
{
	int early = open_it("f", O_RDONLY);

	append("f", "more\n");
	say_from(early);
}

static void
read_early_renamed(void)
{
	int early = open_it("f", O_RDONLY);

	must(rename("f", "k"));
	say_from(early);
	must(rename("g", "f"));
	say_from(early);
}

static void
reopen_early(void)
{
	int early = open_it("f", O_RDONLY), again;
	char path[64];

	append("f", "more\n");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", early);
	again = open_it(path, O_RDWR);
	say_from(again);
	must((int)write(again, "X", 1));
	say_what("f");
}

static void
chmod_early(void)
{
	int early = open_it("f", O_RDONLY);
	struct stat st;

	say("%s", er(fchmod(early, 0600)));
	must(stat("f", &st));
	say("%o", (unsigned)st.st_mode);
	must(fstat(early, &st));
	say("%o", (unsigned)st.st_mode);
	say_from(early);
}

static void
unlinked(void)
{
	int fd = open_it("f", O_RDWR);
	struct stat st;
	char path[64], target[512];
	ssize_t n;

	must(unlink("f"));
	must((int)write(fd, "STILL", 5));
	say_from(fd);
	must(fstat(fd, &st));
	say("%lu", (unsigned long)st.st_nlink);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target));
	say("%s", n > 10 && memcmp(target + n - 10, " (deleted)", 10) == 0 ? "deleted" : "not so");
	say("%s", er(linkat(AT_FDCWD, path, AT_FDCWD, "k", AT_SYMLINK_FOLLOW)));
	say("%s", er(open(path, O_RDWR | O_CLOEXEC)));
	put("f", "another\n");
	say_from(fd);
}

static void
unlinked_reading(void)
{
	int fd = open_it("f", O_RDONLY);
	struct stat st;

	must(unlink("f"));
	say_from(fd);
	must(fstat(fd, &st));
	say("%lld", (long long)st.st_size);
}

static void
unlinked_reading_count(void)
{
	int fd = open_it("f", O_RDONLY);
	struct stat st;

	must(unlink("f"));
	must(fstat(fd, &st));
	say("%lu", (unsigned long)st.st_nlink);
}

/* ---- size and holes ---- */

static long long
blocks(const char *path)
{
	struct stat st;

	must(stat(path, &st));
	return (long long)st.st_blocks;
}

static void
truncates(void)
{
	struct stat st;

	say("%s", er(truncate("f", 3)));
	say_what("f");
	say("%s", er(truncate("big", 200000)));
	must(stat("big", &st));
	say("%lld", (long long)st.st_size);
	say("%s", er(truncate("g", 0)));
	say_what("g");
	say("%s", er(truncate("d", 0)));
	say("%s", er(truncate("new", 0)));
	say("%s", er(truncate("f", -1)));
	say("%s", er(ftruncate(open_it("h1", O_RDONLY), 1)));
}

static void
fallocates(void)
{
	static const int modes[] = { 0, FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE };
	struct stat st;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		int fd = open_it("big", O_RDWR);

		say("%s", er(fallocate(fd, modes[i], 4096, 8192)));
		must(fstat(fd, &st));
		say("%lld", (long long)st.st_size);
		close(fd);
	}
	say("%s", er(posix_fallocate(open_it("f", O_RDWR), 0, 65536) == 0 ? 0 : -1));
	must(stat("f", &st));
	say("%lld", (long long)st.st_size);
}

static void
prepare_sparse(void)
{
	int fd = open_it("sparse", O_RDWR | O_CREAT);

	must((int)pwrite(fd, "begin", 5, 0));
	must((int)pwrite(fd, "end", 3, 8 << 20));
	must(fsync(fd));
	close(fd);
}

static void
sparse_lower(void)
{
	int fd = open_it("sparse", O_RDONLY);

	say("%lld", (long long)lseek(fd, 0, SEEK_HOLE));
	say("%lld", (long long)lseek(fd, 65536, SEEK_DATA));
	say("%s", er(lseek(fd, (8 << 20) + 100, SEEK_DATA)));
	say("%s", blocks("sparse") < 1024 ? "sparse" : "full");
}

static void
sparse_changed(void)
{
	int fd;

	append("sparse", "+");
	fd = open_it("sparse", O_RDWR);
	say("%lld", (long long)lseek(fd, 65536, SEEK_DATA));
	must(fsync(fd));
	say("%s", blocks("sparse") < 1024 ? "sparse" : "full");
}

static void
sparse_upper(void)
{
	int fd = open_it("u", O_RDWR | O_CREAT);

	must(ftruncate(fd, 1 << 30));
	must((int)pwrite(fd, "x", 1, 1 << 29));
	say("%lld", (long long)lseek(fd, 0, SEEK_DATA));
	say("%s", blocks("u") < 1024 ? "sparse" : "full");
}

/* ---- copies ---- */

static void
copy_ranges(void)
{
	int from = open_it("big", O_RDONLY), to = open_it("u", O_RDWR | O_CREAT);

	say("%ld", (long)copy_file_range(from, NULL, to, NULL, BIG_SIZE, 0));
	say_from(to);
	to = open_it("g", O_RDWR);
	say("%ld", (long)copy_file_range(from, &(off_t){ 0 }, to, &(off_t){ 2 }, 4, 0));
	say_from(to);
	say("%ld", (long)copy_file_range(to, &(off_t){ 0 }, to, &(off_t){ 100 }, 4, 0));
	say("%s", er(copy_file_range(to, &(off_t){ 0 }, to, &(off_t){ 1 }, 4, 0)));
	say("%s", er(copy_file_range(from, &(off_t){ 0 }, from, &(off_t){ 1 }, 4, 0)));
}

static void
sends(void)
{
	int from = open_it("f", O_RDONLY), to = open_it("u", O_RDWR | O_CREAT), fds[2];

	say("%ld", (long)sendfile(to, from, &(off_t){ 0 }, 100));
	say_from(to);
	must(pipe(fds));
	say("%ld", (long)splice(from, &(off_t){ 0 }, fds[1], NULL, 100, 0));
	say("%ld", (long)splice(fds[0], NULL, to, &(off_t){ 4 }, 100, 0));
	say_from(to);
}

/* Cloned blocks depend on the file system, the same for both. */
static void
clones(void)
{
	int from = open_it("f", O_RDONLY), to = open_it("u", O_RDWR | O_CREAT);

	say("%s", er(ioctl(to, FICLONE, from)));
}

static void
vectors(void)
{
	struct iovec v[2] = { { (char *)"AB", 2 }, { (char *)"CD", 2 } };
	int fd = open_it("f", O_RDWR | O_APPEND);

	say("%ld", (long)writev(fd, v, 2));
	say("%ld", (long)pwritev2(fd, v, 2, 0, 0));
	say_from(fd);
	say("%lld", (long long)lseek(fd, 0, SEEK_CUR));
	fd = open_it("g", O_RDWR);
	say("%ld", (long)pwritev2(fd, v, 1, 0, RWF_APPEND));
	say("%ld", (long)pwritev2(fd, v, 1, 0, RWF_DSYNC));
	say_from(fd);
}

static void
directs(void)
{
	int fd = open("big", O_RDWR | O_DIRECT | O_CLOEXEC);
	void *buf;

	say("%s", er(fd));
	if (fd < 0 || posix_memalign(&buf, 4096, 4096) != 0)
		return;
	memset(buf, 'D', 4096);
	say("%ld", (long)pwrite(fd, buf, 4096, 4096));
	say("%ld", (long)pread(fd, buf, 4096, 0));
	say("%c", *(char *)buf);
	say_from(open_it("big", O_RDONLY));
}

static void
syncs(void)
{
	int fd = open_it("f", O_RDWR), dir = open_it("d", O_RDONLY | O_DIRECTORY);

	must((int)write(fd, "S", 1));
	say("%s", er(fsync(fd)));
	say("%s", er(fdatasync(fd)));
	say("%s", er(syncfs(fd)));
	say("%s", er(sync_file_range(fd, 0, 1, SYNC_FILE_RANGE_WRITE)));
	say("%s", er(fsync(dir)));
	say("%s", er(fsync(open_it("g", O_RDONLY))));
	say("%s", er(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 ? 0 : -1));
	say("%s", er(readahead(fd, 0, 4096)));
}

static void
shared_offset(void)
{
	int fd = open_it("f", O_RDWR), copy = must(dup(fd));

	must((int)write(fd, "AB", 2));
	must((int)write(copy, "CD", 2));
	say_from(fd);
	say("%lld", (long long)lseek(fd, 0, SEEK_CUR));
	if (must(fork()) == 0) {
		must((int)write(fd, "E", 1));
		_exit(0);
	}
	wait(NULL);
	say("%lld", (long long)lseek(fd, 0, SEEK_CUR));
}

static void
appends(void)
{
	int a = open_it("f", O_WRONLY | O_APPEND), b = open_it("f", O_WRONLY | O_APPEND);

	must((int)write(a, "a", 1));
	must((int)write(b, "b", 1));
	must((int)write(a, "c", 1));
	say_what("f");
}

/* ---- programs ---- */

static void
run_program(const char *path)
{
	int status;
	pid_t pid;

	pid = must(fork());
	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(errno == ENOENT ? 100 : errno == EACCES ? 101 : errno == ETXTBSY ? 102 : 103);
	}
	must(waitpid(pid, &status, 0));
	say("%d", WEXITSTATUS(status));
}

static void
scripts(void)
{
	put("exe", "#!/bin/sh\nexit 7\n");
	run_program("./exe");
	must(chmod("exe", 0644));
	run_program("./exe");
	put("u", "#!/bin/sh\nexit 8\n");
	must(chmod("u", 0755));
	run_program("./u");
	must(rename("u", "exe"));
	run_program("./exe");
}

/* A program cannot be written while it runs, and not run while it is written. */
static void
text_busy(void)
{
	int in[2], executed[2], fd;
	char c;

	must(pipe(in));
	must(pipe2(executed, O_CLOEXEC));
	must(system("cp /bin/cat prog && chmod 755 prog"));
	if (must(fork()) == 0) {
		dup2(in[0], 0);
		close(in[1]);
		execl("./prog", "prog", (char *)NULL);
		_exit(1);
	}
	close(in[0]);
	close(executed[1]);
	must((int)read(executed[0], &c, 1)); /* its end: the program has begun */
	say("%s", er(open("prog", O_WRONLY | O_CLOEXEC)));
	close(in[1]);
	wait(NULL);
	fd = open_it("prog", O_WRONLY);
	run_program("./prog");
	close(fd);
}

static const struct op ops[] = {
	OP("mmap/shared write", map_write, NULL),
	OP("mmap/upper file", map_upper, NULL),
	OP("mmap/two processes", map_between_processes, NULL),
	OP("mmap/private", map_private, NULL),
	OP("mmap/before the first write", map_early, NULL),
	OP("read/before the first write", read_early, NULL),
	OP("read/before the first write, size", size_early, NULL),
	OP("read/before the first write, append", read_early_append, NULL),
	OP("read/before the first write, upper file", read_early_upper, NULL),
	OP("read/renamed", read_early_renamed, NULL),
	OP("read/descriptor opened again", reopen_early, NULL),
	OP("read/fchmod", chmod_early, NULL),
	OP("unlink/open file", unlinked, NULL),
	OP("unlink/open file, reading", unlinked_reading, NULL),
	OP("unlink/open file, reading, count", unlinked_reading_count, NULL),
	OP("size/truncate", truncates, NULL),
	OP("size/fallocate", fallocates, NULL),
	OP("size/sparse lower", sparse_lower, prepare_sparse),
	OP("size/sparse changed", sparse_changed, prepare_sparse),
	OP("size/sparse upper", sparse_upper, NULL),
	OP("copy/copy_file_range", copy_ranges, NULL),
	OP("copy/sendfile and splice", sends, NULL),
	OP("copy/FICLONE", clones, NULL),
	OP("write/vectors", vectors, NULL),
	OP("write/O_DIRECT", directs, NULL),
	OP("write/sync", syncs, NULL),
	OP("write/shared offset", shared_offset, NULL),
	OP("write/append", appends, NULL),
	OP("exec/script", scripts, NULL),
	OP("exec/busy", text_busy, NULL),
};

void
add_content_ops(void)
{
	ADD_ALL(ops);
}
