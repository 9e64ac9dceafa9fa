/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/meter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define TEXT_SIZE 8192 /* of meminfo and smaps_rollup */
/* For a line of smaps: a path has at most 4 KiB, and four times that if escaped. */
#define LINE_SIZE (64u << 10)

/* ---- the machine ---- */

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
meter_machine(struct meter *m, struct meter_machine *ret)
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

uint64_t
meter_places(const struct meter *m)
{
	uint64_t bytes = 0;
	struct statfs fs;

	for (size_t i = 0; i < m->n_places; i++)
		if (fstatfs(m->place[i].fd, &fs) == 0)
			bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	return bytes;
}

uint64_t
meter_segments(const struct meter *m)
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

uint64_t
meter_resident(const struct meter *m, const struct proc *p)
{
	uint64_t resident;
	char path[64];

	process_dir(m, p, path, &resident);
	return resident;
}

static int
open_in(const struct meter *m, const char *dir, const char *name, int flags)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return openat(m->proc_fd, path, O_RDONLY | O_CLOEXEC | flags);
}

uint64_t
meter_anonymous(const struct meter *m, const struct proc *p)
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

/* ---- shared memory ---- */

void
meter_begin(struct meter *m)
{
	m->n_objects = 0;
	m->smaps_left = METER_SMAPS_MAX;
	m->descriptors_left = METER_DESCRIPTORS_MAX;
}

static struct meter_object *
object_of(struct meter *m, uint64_t ino)
{
	for (size_t i = 0; i < m->n_objects; i++)
		if (m->objects[i].ino == ino)
			return &m->objects[i];
	if (m->n_objects == METER_OBJECTS_MAX)
		return NULL;
	m->objects[m->n_objects] = (struct meter_object){ .ino = ino };
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
		struct meter_object *o;

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
		struct meter_object *o;
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

uint64_t
meter_process(struct meter *m, struct proc *p)
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

uint64_t
meter_objects(const struct meter *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->n_objects; i++)
		sum += m->objects[i].held > m->objects[i].mapped ? m->objects[i].held
								 : m->objects[i].mapped;
	return sum;
}

/* ---- beginning and end ---- */

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
	struct meter_machine machine;

	*m = (struct meter){ .proc_fd = proc_fd };
	m->meminfo_fd = openat(proc_fd, "meminfo", O_RDONLY | O_CLOEXEC);
	m->loadavg_fd = openat(proc_fd, "loadavg", O_RDONLY | O_CLOEXEC);
	m->shared_dev = shared_memory_device();
	m->objects = calloc(METER_OBJECTS_MAX, sizeof(*m->objects));
	for (size_t i = 0; i < n && m->n_places < METER_PLACES_MAX; i++) {
		int fd = open(places[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			m->place[m->n_places++].fd = fd;
	}
	if (m->meminfo_fd < 0 || m->loadavg_fd < 0 || m->shared_dev == 0 || m->objects == NULL ||
	    meter_machine(m, &machine) < 0) {
		err_set(err, KODA_INTERNAL, errno, "read the machine's memory");
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
