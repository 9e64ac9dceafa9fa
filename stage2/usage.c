#include "stage2/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define TEXT_SIZE 8192 /* of meminfo and smaps_rollup */
/* For a line of smaps: a path has at most 4 KiB, and four times that if escaped. */
#define LINE_SIZE (64u << 10)
/* How many processes that may share its memory a process is compared with. */
#define SAME_TRIES 8

/* ---- reading ---- */

static ssize_t
read_text(int fd, char *buf, size_t size)
{
	ssize_t n = pread(fd, buf, size - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* "Name:   123 kB" at the beginning of a line. */
static uint64_t
field_bytes(const char *text, const char *name)
{
	const size_t len = strlen(name);

	for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, len) == 0 && p[len] == ':')
			return strtoull(p + len + 1, NULL, 10) * 1024;
	}
	return 0;
}

int
usage_machine(struct meter *m, struct usage_machine *ret)
{
	char text[TEXT_SIZE];
	uint64_t swap;
	const char *last;

	if (read_text(m->meminfo_fd, text, sizeof(text)) <= 0)
		return -1;
	ret->shmem = field_bytes(text, "Shmem");
	swap = field_bytes(text, "SwapTotal");
	ret->swapped = swap - field_bytes(text, "SwapFree");
	/* Not MemAvailable: it leaves out the free pages that each processor keeps, which may be
	 * an eighth of the machine. Processes take these first, and MemAvailable does not
	 * change. */
	ret->taken = field_bytes(text, "AnonPages") + ret->shmem + ret->swapped;
	ret->last_pid = 0;
	if (read_text(m->loadavg_fd, text, sizeof(text)) <= 0)
		return -1;
	last = strrchr(text, ' ');
	if (last != NULL)
		ret->last_pid = strtoull(last, NULL, 10);
	return 0;
}

static uint64_t
places_bytes(const struct meter *m)
{
	uint64_t bytes = 0;
	struct statfs fs;

	for (size_t i = 0; i < m->n_places; i++)
		if (fstatfs(m->place[i].fd, &fs) == 0)
			bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	return bytes;
}

/* System V segments. They exist without a process. */
static uint64_t
segments_bytes(const struct meter *m)
{
	cleanup_close int fd = openat(m->proc_fd, "sysvipc/shm", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	uint64_t bytes = 0;
	char line[512];

	if (f == NULL)
		return 0;
	take_fd(&fd);
	while (fgets(line, sizeof(line), f) != NULL) {
		char *end = strrchr(line, ' '), *before;

		/* the last two columns: resident, swapped */
		if (end == NULL)
			continue;
		for (before = end; before > line && before[-1] == ' ';)
			before--;
		while (before > line && before[-1] != ' ')
			before--;
		bytes += strtoull(before, NULL, 10) + strtoull(end, NULL, 10);
	}
	fclose(f);
	return bytes;
}

/* ---- a process ---- */

/* Get the directory in /proc with the memory of a process. A process whose first thread has
 * ended shows no memory of its own; another of its threads does. */
static void
process_dir(const struct meter *m, const struct proc *p, char path[64], uint64_t *ret_resident)
{
	cleanup(procs_done) struct procs threads = PROCS_EMPTY;
	cleanup_close int dir = -1;

	snprintf(path, 64, "%d", p->pid);
	*ret_resident = p->resident;
	if (p->resident != 0 || p->threads <= 1)
		return;
	snprintf(path, 64, "%d/task", p->pid);
	dir = openat(m->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		procs_read(dir, &threads);
	snprintf(path, 64, "%d", p->pid);
	for (size_t i = 0; i < threads.n; i++) {
		if (threads.v[i].resident == 0)
			continue;
		*ret_resident = threads.v[i].resident;
		snprintf(path, 64, "%d/task/%d", p->pid, threads.v[i].pid);
		return;
	}
}

static int
open_in(const struct meter *m, const char *dir, const char *name, int flags)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return openat(m->proc_fd, path, O_RDONLY | O_CLOEXEC | flags);
}

/* ---- shared memory ---- */

static struct usage_object *
object_of(struct meter *m, uint64_t ino)
{
	for (size_t i = 0; i < m->n_objects; i++)
		if (m->objects[i].ino == ino)
			return &m->objects[i];
	if (m->n_objects == USAGE_OBJECTS_MAX)
		return NULL;
	m->objects[m->n_objects] = (struct usage_object){ .ino = ino };
	return &m->objects[m->n_objects++];
}

/* Add what is open and need not be mapped: a memfd that was written. Returns true if the process
 * may have shared memory whose size is not visible. */
static bool
look_at_descriptors(struct meter *m, const char *dir)
{
	cleanup_close int fd = open_in(m, dir, "fd", O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool shares = false;
	struct dirent *e;
	struct stat st;

	if (d == NULL)
		return true;
	take_fd(&fd);
	while (m->descriptors_left > 0 && (e = readdir(d)) != NULL) {
		struct usage_object *o;

		m->descriptors_left--;
		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) < 0)
			continue;
		/* A memfd may be on its way through a socket, where it is not visible. */
		shares = shares || S_ISSOCK(st.st_mode) || st.st_dev == m->shared_dev;
		if (st.st_dev != m->shared_dev)
			continue;
		o = object_of(m, st.st_ino);
		if (o != NULL)
			o->held = (uint64_t)st.st_blocks * 512;
	}
	closedir(d);
	return shares || m->descriptors_left == 0;
}

/* Returns true if this first line of a mapping is for an object of shared memory. *ret_ino is
 * its inode. */
static bool
is_shared_memory(const struct meter *m, const char *line, uint64_t *ret_ino)
{
	unsigned major_nr, minor_nr;
	unsigned long long ino;
	int at = 0;

	/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	if (sscanf(line, "%*s %*s %*s %x:%x %llu %n", &major_nr, &minor_nr, &ino, &at) != 3 ||
	    makedev(major_nr, minor_nr) != m->shared_dev || ino == 0)
		return false;
	/* System V segments are counted separately. */
	if (strncmp(line + at, "/SYSV", 5) == 0)
		return false;
	*ret_ino = ino;
	return true;
}

/*
 * Add the process's shares of shared objects, each to its object. Returns false if there was more
 * to read than the limit allows. `file` is "maps", for which the kernel looks at no page, or
 * "smaps", for which it does.
 */
static bool
read_mappings(struct meter *m, const char *dir, const char *file, bool *ret_shares,
    uint64_t *ret_unknown)
{
	cleanup_close int fd = open_in(m, dir, file, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	cleanup_free char *line = malloc(LINE_SIZE);
	bool shared = false, whole = true;
	uint64_t ino = 0;

	if (f == NULL || line == NULL) {
		if (f != NULL)
			fclose(f);
		return false;
	}
	take_fd(&fd);
	while (whole && fgets(line, LINE_SIZE, f) != NULL) {
		const size_t len = strlen(line);
		struct usage_object *o;
		uint64_t bytes;

		whole = len <= m->smaps_left;
		m->smaps_left -= whole ? len : m->smaps_left;
		if (line[0] < 'A' || line[0] > 'Z') {
			shared = is_shared_memory(m, line, &ino);
			*ret_shares = *ret_shares || shared;
			continue;
		}
		if (!shared || strncmp(line, "Pss:", 4) != 0)
			continue;
		bytes = strtoull(line + 4, NULL, 10) * 1024;
		o = object_of(m, ino);
		if (o != NULL)
			o->mapped += bytes;
		else
			*ret_unknown += bytes;
	}
	fclose(f);
	return whole;
}

/* ---- measurements ---- */

/* Returns how much of the machine's shared memory is ours: what other programs do not hold. We
 * had none when it was read first. */
static uint64_t
shared_since(struct meter *m, const struct usage_machine *machine, uint64_t ours)
{
	const uint64_t others = machine->shmem > ours ? machine->shmem - ours : 0;

	if (others < m->shmem_base)
		m->shmem_base = others;
	return machine->shmem > m->shmem_base ? machine->shmem - m->shmem_base : 0;
}

static uint64_t
greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void
usage_bound(struct meter *m, const struct usage_machine *machine, struct procs *p,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	char path[64];

	*ret = (struct usage){ .kept = places_bytes(m) };
	growth_note(&m->growth, p, machine->swapped);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t resident;

		ret->tasks += (uint64_t)p->v[i].threads;
		if (!counts(data, &p->v[i]))
			continue;
		process_dir(m, &p->v[i], path, &resident);
		ret->bytes += resident;
	}
	ret->bytes += machine->swapped + greater(ret->kept, shared_since(m, machine, ret->kept));
}

/* Returns the bytes of its memory that are neither of files nor shared memory. */
static uint64_t
anonymous_bytes(const struct meter *m, const struct proc *p)
{
	cleanup_close int fd = -1;
	char path[64], text[256], *at;
	uint64_t resident, pages, shared;

	process_dir(m, p, path, &resident);
	if (resident == 0)
		return 0;
	fd = open_in(m, path, "statm", 0);
	if (fd < 0 || read_text(fd, text, sizeof(text)) <= 0)
		return 0;
	/* size, resident, shared with files or as shared memory; in pages */
	strtoull(text, &at, 10);
	pages = strtoull(at, &at, 10);
	shared = strtoull(at, NULL, 10);
	return pages < shared ? 0 : (pages - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Sort processes with the same stack side by side, the largest of them first. */
static int
by_stack(const void *a, const void *b)
{
	const struct proc *p = *(struct proc *const *)a, *q = *(struct proc *const *)b;

	if (p->stack != q->stack)
		return (p->stack > q->stack) - (p->stack < q->stack);
	return (p->least < q->least) - (p->least > q->least);
}

/* Returns true if both may have the same address space: they have, or it cannot be told. */
static bool
may_be_one(const struct proc *p, const struct proc *q)
{
	return syscall(SYS_kcmp, p->pid, q->pid, KCMP_VM, 0, 0) <= 0;
}

/* Returns the bytes that the process has taken since it was first seen, or 0 if it may have the
 * same address space as one of the n before it. */
static uint64_t
taken_by(const struct proc *p, struct proc *const *before, size_t n)
{
	if (p->least <= p->first)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (before[i]->least > 0 && may_be_one(before[i], p))
			return 0;
	return p->least - p->first;
}

/*
 * Set the `least` of processes with the same stack, of which the first is the largest: either only
 * the first counts, or what each of them has taken. What is small is left out, so few are compared
 * with each other before they are together above the limit.
 */
static uint64_t
least_of_group(struct proc **v, size_t n, uint64_t small, uint64_t limit)
{
	const uint64_t largest = v[0]->least;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t bytes = sum > limit * 2 ? 0 : taken_by(v[i], v, i);

		v[i]->least = bytes < small ? 0 : bytes;
		sum += v[i]->least;
	}
	if (sum >= largest)
		return sum;
	for (size_t i = 0; i < n; i++)
		v[i]->least = i == 0 ? largest : 0;
	return largest;
}

void
usage_least(struct meter *m, const struct usage_machine *machine, struct procs *p, uint64_t limit,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	const uint64_t small = limit / USAGE_SMALL_SHARE;
	cleanup_free struct proc **v = calloc(p->n + 1, sizeof(struct proc *));
	size_t n = 0;

	*ret = (struct usage){ .kept = places_bytes(m) };
	ret->bytes = ret->kept;
	growth_note(&m->growth, p, machine->swapped);
	for (size_t i = 0; i < p->n; i++) {
		ret->tasks += (uint64_t)p->v[i].threads;
		p->v[i].least = 0;
		/* A process whose first thread is gone shows no memory, and may be large. */
		if (v == NULL || !counts(data, &p->v[i]) ||
		    (p->v[i].resident < small && p->v[i].resident > 0))
			continue;
		p->v[i].least = anonymous_bytes(m, &p->v[i]);
		v[n++] = &p->v[i];
	}
	if (n > 0)
		qsort(v, n, sizeof(struct proc *), by_stack);
	for (size_t i = 0, end = 0; i < n; i = end) {
		while (end < n && v[end]->stack == v[i]->stack)
			end++;
		ret->bytes += least_of_group(v + i, end - i, small, limit);
	}
}

/* Returns true if one of the measured processes has the same address space: a process made with
 * CLONE_VM (vfork) that has not called execve yet. */
static bool
is_measured(struct proc *const *measured, size_t n, const struct proc *p)
{
	int tries = 0;

	for (size_t i = n; i > 0 && tries < SAME_TRIES; i--) {
		const struct proc *other = measured[i - 1];

		if (other->vsize != p->vsize || other->vsize == 0)
			continue;
		tries++;
		if (syscall(SYS_kcmp, other->pid, p->pid, KCMP_VM, 0, 0) == 0)
			return true;
	}
	return false;
}

/* Returns the process's own memory, and adds its part of shared memory to the objects. Sets
 * p->shares if it may have shared memory whose size is not visible. */
static uint64_t
measure_process(struct meter *m, struct proc *p)
{
	cleanup_close int fd = -1;
	char path[64], text[TEXT_SIZE];
	uint64_t resident, own, unknown = 0;
	bool whole, shares = false;

	process_dir(m, p, path, &resident);
	if (resident == 0 && p->threads <= 1)
		return 0;
	p->shares = look_at_descriptors(m, path);
	fd = open_in(m, path, "smaps_rollup", 0);
	/* It is gone, or runs a program that may not be read: all that it has counts. */
	if (fd < 0 || read_text(fd, text, sizeof(text)) <= 0)
		return resident;
	/* Kernels before 5.6 do not report file pages separately. */
	own = strstr(text, "\nPss_Anon:") != NULL ? field_bytes(text, "Pss_Anon")
						  : field_bytes(text, "Pss");
	own += field_bytes(text, "SwapPss");
	whole = read_mappings(m, path, "maps", &shares, &unknown);
	p->shares = p->shares || shares || !whole;
	if (whole && shares)
		whole = read_mappings(m, path, "smaps", &shares, &unknown);
	if (!whole)
		unknown = field_bytes(text, "Pss_Shmem");
	return own + unknown;
}

/* Returns true if the process is gone. If its number was assigned to another process, it counts
 * as existing. A process that ends frees its memory before it is a zombie, and a large process
 * takes some time for that. */
static bool
is_gone(const struct meter *m, const struct proc *p)
{
	struct proc now;

	return !procs_one(m->proc_fd, p->pid, &now) || (now.threads <= 1 && now.resident == 0);
}

/* Returns what the measured processes have that still exist. *ret_shares: one of them may have
 * shared memory whose size is not visible. */
static uint64_t
sum_of_those_there(const struct meter *m, struct proc *const *measured, size_t n, bool *ret_shares)
{
	uint64_t sum = 0;

	*ret_shares = false;
	for (size_t i = 0; i < n; i++)
		if (!is_gone(m, measured[i])) {
			sum += measured[i]->resident;
			*ret_shares = *ret_shares || measured[i]->shares;
		}
	return sum;
}

/* Sort the largest first. */
static int
by_resident(const void *a, const void *b)
{
	const struct proc *p = *(struct proc *const *)a, *q = *(struct proc *const *)b;

	return (p->resident < q->resident) - (p->resident > q->resident);
}

/* Returns the processes that count, the largest first, in an array that the caller owns; NULL
 * without memory. */
static struct proc **
sort_processes(const struct meter *m, struct procs *p, usage_counts_fn *counts, void *data,
    struct usage *ret, uint64_t *ret_sum, size_t *ret_n)
{
	struct proc **v = calloc(p->n + 1, sizeof(struct proc *));

	*ret_n = 0;
	for (size_t i = 0; v != NULL && i < p->n; i++) {
		char path[64];

		ret->tasks += (uint64_t)p->v[i].threads;
		if (!counts(data, &p->v[i])) {
			p->v[i].resident = 0;
			continue;
		}
		process_dir(m, &p->v[i], path, &p->v[i].resident);
		*ret_sum += p->v[i].resident;
		v[(*ret_n)++] = &p->v[i];
	}
	if (v != NULL)
		qsort(v, *ret_n, sizeof(struct proc *), by_resident);
	return v;
}

static uint64_t
objects_bytes(const struct meter *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->n_objects; i++)
		sum += greater(m->objects[i].held, m->objects[i].mapped);
	return sum;
}

void
usage_exact(struct meter *m, const struct usage_machine *machine, struct procs *p, uint64_t limit,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	uint64_t own = 0, rest = 0, there, known, segments, since;
	bool shares = false, there_shares = false;
	size_t n = 0, measured = 0;
	struct proc **v;

	*ret = (struct usage){ .kept = places_bytes(m) };
	m->n_objects = 0;
	m->smaps_left = USAGE_SMAPS_MAX;
	m->descriptors_left = USAGE_DESCRIPTORS_MAX;
	since = shared_since(m, machine, ret->kept);
	v = sort_processes(m, p, counts, data, ret, &rest, &n);
	/* The rest does not matter if the slot is over its limit without it, or below the limit
	 * with all of it. */
	for (; v != NULL && measured < n; measured++) {
		struct proc *one = v[measured];
		uint64_t most = rest + machine->swapped + greater(ret->kept, since);

		if (own + ret->kept + objects_bytes(m) > limit + limit / 4 || own + most <= limit)
			break;
		rest -= one->resident;
		one->shares = false;
		one->resident = is_measured(v, measured, one) ? 0 : measure_process(m, one);
		own += one->resident;
		shares = shares || one->shares;
	}
	there = sum_of_those_there(m, v, measured, &there_shares);
	free(v);
	segments = segments_bytes(m);
	known = objects_bytes(m) + segments + ret->kept;
	since = greater(known, shared_since(m, machine, known));
	/* Memory of an object that is mapped and was released by madvise, or that is unmapped in
	 * part, belongs to no process. */
	ret->bytes = own + rest + (shares || segments > 0 ? since : known);
	ret->sure = there + (there_shares || segments > 0 ? since : known);
}

/* ---- the meter ---- */

static dev_t
shared_memory_device(void)
{
	cleanup_close int fd = memfd_create("koda-device", MFD_CLOEXEC);
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 ? 0 : st.st_dev;
}

int
meter_init(struct meter *m, int proc_fd, const char *const *places, size_t n,
    struct koda_error *err)
{
	struct usage_machine machine;

	*m = (struct meter){ .proc_fd = proc_fd };
	m->meminfo_fd = openat(proc_fd, "meminfo", O_RDONLY | O_CLOEXEC);
	m->loadavg_fd = openat(proc_fd, "loadavg", O_RDONLY | O_CLOEXEC);
	m->shared_dev = shared_memory_device();
	m->objects = calloc(USAGE_OBJECTS_MAX, sizeof(*m->objects));
	for (size_t i = 0; i < n && m->n_places < USAGE_PLACES_MAX; i++) {
		int fd = open(places[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			m->place[m->n_places++].fd = fd;
	}
	if (m->meminfo_fd < 0 || m->loadavg_fd < 0 || m->shared_dev == 0 || m->objects == NULL ||
	    usage_machine(m, &machine) < 0) {
		err_set(err, KODA_INTERNAL, errno, "look at the machine's memory");
		meter_done(m);
		return -1;
	}
	m->shmem_base = machine.shmem;
	return 0;
}

void
meter_done(struct meter *m)
{
	close_at(&m->meminfo_fd);
	close_at(&m->loadavg_fd);
	for (size_t i = 0; i < m->n_places; i++)
		close_at(&m->place[i].fd);
	free(m->objects);
	growth_done(&m->growth);
	*m = (struct meter){ .meminfo_fd = -1, .loadavg_fd = -1 };
}
