/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, allocated in every possible way, and measured from outside. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

#define STEP_MS 10
/* All of it is held this long before the host is notified, so that a periodic check has seen it. */
#define HELD_MS    1000
#define LEND_STEPS 20
/* The life of one process of a relay, and of all of them if none has weighed them before. */
#define RELAY_NS 1000000
#define RELAY_MS 25000
/* How long to wait until the others have theirs. */
#define OTHERS_MS 5000
/* How much longer than asked for to weigh processes that have not held theirs yet. */
#define WEIGH_MORE_MS 15000

static void
doze(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000 }, NULL);
}

static void *
anonymous(size_t len, int how)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : memset(p, 'x', len);
}

static int
write_all(int fd, size_t len)
{
	static char block[1 << 16];

	memset(block, 'x', sizeof(block));
	while (len > 0) {
		ssize_t n = write(fd, block, len < sizeof(block) ? len : sizeof(block));

		if (n <= 0)
			return -1;
		len -= (size_t)n;
	}
	return 0;
}

static int
take_private(size_t len)
{
	return anonymous(len, MAP_PRIVATE) == NULL ? -1 : 0;
}

static int
take_shared(size_t len)
{
	return anonymous(len, MAP_SHARED) == NULL ? -1 : 0;
}

/* Not dumpable: no other process may inspect it. */
static int
take_undumpable(size_t len)
{
	return prctl(PR_SET_DUMPABLE, 0) < 0 ? -1 : take_private(len);
}

/* A file in no directory and no address space. */
static int
take_memfd(size_t len)
{
	int fd = memfd_create("hoard", 0); // NOLINT(android-cloexec-memfd-create)

	return fd < 0 ? -1 : write_all(fd, len);
}

/* The same, but no process has the file open: it is in flight in a socket. */
static int
take_underway(size_t len)
{
	int pair[2], fd = memfd_create("hoard", MFD_CLOEXEC);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (fd < 0 || write_all(fd, len) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(pair[0], &msg, 0) != 1)
		return -1;
	return close(fd);
}

/* Shared memory that was written and is in no page table any more. */
static int
take_dropped(size_t len)
{
	void *p = anonymous(len, MAP_SHARED);

	return p == NULL ? -1 : madvise(p, len, MADV_DONTNEED);
}

/* The same, with one page still mapped. */
static int
take_part(size_t len)
{
	char *p = anonymous(len, MAP_SHARED);

	return p == NULL ? -1 : munmap(p + 4096, len - 4096);
}

/* A segment in no address space. */
static int
take_segment(size_t len)
{
	int id = shmget(IPC_PRIVATE, len, 0600);
	void *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	if (p == (void *)-1)
		return -1;
	memset(p, 'x', len);
	return shmdt(p);
}

static const struct {
	const char *name;
	int (*take)(size_t len);
} ways[] = {
	{ "private", take_private },
	{ "shared", take_shared },
	{ "undumpable", take_undumpable },
	{ "memfd", take_memfd },
	{ "underway", take_underway },
	{ "dropped", take_dropped },
	{ "part", take_part },
	{ "segment", take_segment },
};

static void
make_file(const char *dir, const char *name, int i)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.%d", dir, name, i);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static bool
is_made(const char *dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return appeared(path);
}

static bool
all_made(const char *dir, const char *name, int n)
{
	char numbered[NAME_MAX];

	for (int i = 1; i <= n; i++) {
		snprintf(numbered, sizeof(numbered), "%s.%d", name, i);
		if (!is_made(dir, numbered))
			return false;
	}
	return true;
}

struct hoard {
	size_t way, len;
	const char *dir;
	int i, n;
};

/* The I-th has its memory. */
static int
hold(const struct hoard *h)
{
	make_file(h->dir, "taken", h->i);
	for (int ms = 0; ms < OTHERS_MS && !all_made(h->dir, "taken", h->n); ms += STEP_MS)
		doze();
	for (int ms = 0; ms < HELD_MS; ms += STEP_MS)
		doze();
	make_file(h->dir, "held", h->i);
	become_linger();
}

static int
hoard(void *data)
{
	const struct hoard *h = data;

	return ways[h->way].take(h->len) < 0 ? failed(ways[h->way].name) : hold(h);
}

/* In a thread of a process whose main thread has exited. */
static int
hoard_leaderless(struct hoard *h)
{
	static char stack[1 << 18];

	if (clone(hoard, stack + sizeof(stack),
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
		h) < 0)
		return failed("clone");
	syscall(SYS_exit, 0);
	return 1;
}

/* Processes forked from one, which share its memory. */
static int
hoard_forked(struct hoard *h)
{
	pid_t pid = 1;

	for (; h->i < h->n && (pid = fork()) > 0; h->i++)
		;
	return pid < 0 ? failed("fork") : hoard(h);
}

/* Processes forked from one that has the memory already. Each writes all of it, and so gets a copy
 * of its own; what is in its page table does not become more. */
static int
hoard_copied(struct hoard *h)
{
	char *p = anonymous(h->len, MAP_PRIVATE);
	pid_t pid = 1;

	if (p == NULL)
		return failed("mmap");
	for (; h->i < h->n && (pid = fork()) > 0; h->i++)
		;
	if (pid < 0)
		return failed("fork");
	memset(p, 'y', h->len);
	return hold(h);
}

/* The address space that the processes of a relay have in turn. */
struct relay {
	const struct hoard *h;
	long end;
	/* When all had theirs, 0 before. */
	long since;
	bool held;
};

/* Notes how far all relays have got. Returns whether this one goes on. */
static bool
relay_goes_on(struct relay *r)
{
	const long now = now_ms();

	if (r->since == 0 && all_made(r->h->dir, "taken", r->h->n))
		r->since = now;
	if (!r->held && r->since != 0 && now - r->since >= HELD_MS) {
		make_file(r->h->dir, "held", r->h->i);
		r->held = true;
	}
	return now < r->end && !is_made(r->h->dir, "weighed");
}

/* Each process passes its address space to the next one, and is gone by the time it is
 * inspected. It ends by itself, because a process that wants to end the relay never catches the
 * last one. */
static int
relay(void *data)
{
	static char stacks[2][1 << 16];
	static int round;
	struct relay *r = data;

	nanosleep(&(struct timespec){ .tv_nsec = RELAY_NS }, NULL);
	round++;
	if (relay_goes_on(r))
		clone(relay, stacks[round % 2] + sizeof(stacks[0]), CLONE_VM | SIGCHLD, r);
	_exit(0);
}

static int
hoard_relay(const struct hoard *h)
{
	static struct relay r;

	if (take_private(h->len) < 0)
		return failed("mmap");
	make_file(h->dir, "taken", h->i);
	r = (struct relay){ .h = h, .end = now_ms() + RELAY_MS };
	return relay(&r);
}

/* hoard WAY BYTES DIR I N MARK: the I-th of N processes that each take BYTES; once all have
 * them, and still do a while later, it makes DIR/held.I. WAY forked: the I-th and all after it.
 * WAY copied: the I-th has it, and all after it are forked from it. WAY relay: until DIR/weighed
 * exists. */
int
hoard_main(int argc, char **argv)
{
	static struct hoard h;
	const bool leaderless = strcmp(argv[1], "leaderless") == 0;
	const bool forked = strcmp(argv[1], "forked") == 0;
	const bool copied = strcmp(argv[1], "copied") == 0;
	const bool relayed = strcmp(argv[1], "relay") == 0;

	if (argc < 7)
		return 2;
	h = (struct hoard){ 0, (size_t)atol(argv[2]), argv[3], atoi(argv[4]), atoi(argv[5]) };
	while (!leaderless && !forked && !copied && !relayed && h.way < N_ELEMENTS(ways) &&
	    strcmp(ways[h.way].name, argv[1]) != 0)
		h.way++;
	if (h.way == N_ELEMENTS(ways))
		return 2;
	if (relayed)
		return hoard_relay(&h);
	if (copied)
		return hoard_copied(&h);
	return leaderless ? hoard_leaderless(&h) : forked ? hoard_forked(&h) : hoard(&h);
}

/* held DIR N: succeeds if all N held theirs at the same time. */
int
held_main(int argc, char **argv)
{
	return all_made(argv[1], "held", atoi(argv[2])) ? 0 : 1;
}

/* ---- much memory that exists once ---- */

static int
sleep_ms(void *data)
{
	for (long ms = *(const long *)data; ms > 0; ms -= STEP_MS)
		doze();
	return 0;
}

/* lend BYTES MS: memory shared by seven processes, four of them with the same address space, in
 * which it is taken step by step while they run. None has its own. */
int
lend_main(int argc, char **argv)
{
	static char stack[3][1 << 16];
	static long ms;
	int status, bad = 0;

	ms = atol(argv[2]);
	for (size_t i = 0; i < N_ELEMENTS(stack); i++)
		if (clone(sleep_ms, stack[i] + sizeof(stack[i]), CLONE_VM | SIGCHLD, &ms) < 0)
			return failed("clone");
	for (int i = 0; i < LEND_STEPS; i++) {
		if (take_private((size_t)atol(argv[1]) / LEND_STEPS) < 0)
			return failed("mmap");
		doze();
	}
	for (size_t i = 0; i < N_ELEMENTS(stack); i++) {
		switch (fork()) {
		case -1:
			return failed("fork");
		case 0:
			_exit(sleep_ms(&ms));
		}
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad == 0 ? 0 : 1;
}

/* ---- from outside ---- */

static long
pss_kib(const char *pid)
{
	char path[64], line[256];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/smaps_rollup", pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Pss:", 4) == 0)
			kib = strtol(line + 4, NULL, 10);
	if (f != NULL)
		fclose(f);
	return kib;
}

/* The host has not waited yet for what it started: that is a zombie. */
static bool
has_ended(const char *pid)
{
	char path[64], state = 'Z';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return true;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	fclose(f);
	return state == 'Z';
}

static long
weight_kib(const char *mark)
{
	DIR *dir = opendir("/proc");
	const struct dirent *d;
	long sum = 0;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && is_lingering(d->d_name, mark))
			sum += pss_kib(d->d_name);
	if (dir != NULL)
		closedir(dir);
	return sum;
}

/* weigh MARK MS FILE DIR N PID: writes to FILE the maximum, in KiB, that the lingering processes
 * had together: in MS, and after that until N of them have held theirs (DIR/held.*), or PID has
 * ended. */
int
weigh_main(int argc, char **argv)
{
	long most = 0, least_end, end;
	bool over = false;
	FILE *f;

	if (argc < 7)
		return 2;
	least_end = now_ms() + atol(argv[2]);
	end = least_end + WEIGH_MORE_MS;
	while (!over) {
		long now = now_ms(), kib;

		/* Asked before weighing: what is held is still there. */
		over = now >= end ||
		    (now >= least_end &&
			(all_made(argv[4], "held", atoi(argv[5])) || has_ended(argv[6])));
		kib = weight_kib(argv[1]);
		if (kib > most)
			most = kib;
		doze();
	}
	f = fopen(argv[3], "we");
	if (f == NULL)
		return failed(argv[3]);
	fprintf(f, "%ld\n", most);
	return fclose(f) == 0 ? 0 : failed(argv[3]);
}
