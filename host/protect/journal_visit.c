/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/journal_visit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/machine/process.h"
#include "host/protect/journal_format.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/rules/names.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"

#define BUSY              ".finishing" /* suffix of the name while a host finishes it */
#define PROCESSES_MAX     16           /* of one journal: the first ones, and the newest */
#define UNWRITTEN_SECONDS 60           /* writing one takes a millisecond */
#define FILES_MAX         4096         /* read at most; more sessions were never killed */

/* Time for the processes of a killed host to end: the kernel ends them at once, or within a second
 * on a busy machine. Also the time for another host that is finishing the same journal, and may be
 * walking a large project. */
#define WAIT_MS      10000
#define WAIT_TICK_MS 5

bool
journal_is_of(const char *name, const char *root)
{
	cleanup_free char *part = strdup(root);
	char hex[JOURNAL_HASH_SIZE];

	while (part != NULL) {
		char *slash = strrchr(part, '/');

		journal_hash(part[0] == '\0' ? "/" : part, hex);
		if (strncmp(name, hex, strlen(hex)) == 0)
			return true;
		if (slash == NULL)
			break;
		*slash = '\0';
	}
	return false;
}

struct process {
	uint64_t pid, start;
};

struct loaded {
	struct arena arena; /* owns the journal and the places */
	Koda__Journal *journal;
	struct process process[PROCESSES_MAX];
	size_t n_processes;
	Koda__Place **more;
	size_t n_more, size;
};

static void
loaded_done(struct loaded *l)
{
	arena_done(&l->arena);
	free(l->more);
}

/* Waits for the process to end, at most *left_ms, which all processes share, and reduces it.
 * Returns 0 if it is gone, -1 if not. */
static int
wait_for_process(const struct process *r, const struct journal_visitor *by, int *left_ms)
{
	cleanup_close int pidfd = -1;
	struct pollfd pfd;
	uint64_t now, until;

	if (r->pid > INT32_MAX || process_start_time((pid_t)r->pid) != r->start)
		return 0;
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)r->pid, 0);
	/* Checked again now that the pidfd holds the process. */
	if (pidfd < 0 || process_start_time((pid_t)r->pid) != r->start)
		return 0;
	pfd = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	now = monotonic_ms();
	until = now + (unsigned)*left_ms;
	/* The wait may return early. */
	while (by->wait(by->data, &pfd, 1, (int)(until - now)) == 0 && now < until)
		now = monotonic_ms() < until ? monotonic_ms() : until;
	*left_ms = (int)(until - now);
	return pfd.revents != 0 ? 0 : -1;
}

static int
keep_place(struct loaded *l, Koda__Place *place)
{
	if (l->n_more == l->size) {
		size_t more = l->size == 0 ? 16 : 2 * l->size;
		Koda__Place **list = realloc(l->more, more * sizeof(*list));

		if (list == NULL)
			return -1;
		l->more = list;
		l->size = more;
	}
	l->more[l->n_more++] = place;
	return 0;
}

/* A slot has one init at a time, and a new one only after the last has ended, so these waits rarely
 * add up. */
static int
wait_for_processes(const struct loaded *l, const struct journal_visitor *by)
{
	int left_ms = WAIT_MS, r = 0;

	for (size_t i = 0; r == 0 && i < l->n_processes; i++)
		r = wait_for_process(&l->process[i], by, &left_ms);
	return r;
}

static bool
is_path(const ProtobufCBinaryData *b)
{
	return b->len > 0 && b->data[0] == '/' && path_check(b->data, b->len, NULL) == 0;
}

/* Reads the records after the journal, up to the first invalid one: the file was cut off there. */
static int
load_records(const uint8_t *p, size_t left, struct loaded *ret)
{
	struct koda_error err;
	int r = 0;

	while (r == 0 && left > FRAME_HEADER) {
		size_t len = frame_get_length(p);
		Koda__JournalRecord *record;

		if (len == 0 || len > JOURNAL_RECORD_MAX || len > left - FRAME_HEADER)
			break;
		record = (Koda__JournalRecord *)message_unpack(&koda__journal_record__descriptor,
		    p + FRAME_HEADER, len, &ret->arena, &err);
		if (record == NULL && err.errnum == ENOMEM)
			return -1;
		if (record == NULL || (record->place != NULL && !is_path(&record->place->path)))
			break;
		if (record->has_pid && record->has_start)
			ret->process[ret->n_processes < PROCESSES_MAX ? ret->n_processes++
								      : PROCESSES_MAX - 1] =
			    (struct process){ record->pid, record->start };
		if (record->place != NULL && keep_place(ret, record->place) < 0)
			r = -1;
		p += FRAME_HEADER + len;
		left -= FRAME_HEADER + len;
	}
	return r;
}

static bool
is_name(const ProtobufCBinaryData *b)
{
	char name[NAMES_RULE_MAX + 1];

	if (b->len == 0 || b->len >= sizeof(name))
		return false;
	memcpy(name, b->data, b->len);
	name[b->len] = '\0';
	return strlen(name) == b->len && names_check(name, NULL) == 0;
}

static bool
is_journal_valid(const Koda__Journal *j)
{
	bool good = is_path(&j->root) && j->n_directory > 0;

	for (size_t i = 0; good && i < j->n_directory; i++)
		good = is_path(&j->directory[i]->path);
	for (size_t i = 0; good && i < j->n_rule; i++)
		good = is_path(&j->rule[i]);
	for (size_t i = 0; good && i < j->n_name; i++)
		good = is_name(&j->name[i]);
	for (size_t i = 0; good && i < j->n_place; i++)
		good = is_path(&j->place[i]->path);
	return good;
}

/*
 * Reads the file into ret, which is zeroed. Returns 0, with ret->journal NULL if the file is
 * damaged, or -1 if it cannot be finished now.
 */
static int
read_journal(int fd, struct loaded *ret)
{
	cleanup_free uint8_t *text = NULL;
	uint8_t sum[JOURNAL_SUM_BYTES];
	struct koda_error err;
	struct stat st;
	size_t size, len, all;

	arena_init(&ret->arena);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_size > 2 * (off_t)JOURNAL_BYTES_MAX)
		return 0;
	size = (size_t)st.st_size;
	text = malloc(size + 1);
	if (text == NULL)
		return -1;
	if (pread(fd, text, size, 0) != (ssize_t)size ||
	    size < JOURNAL_MAGIC_LEN + FRAME_HEADER + JOURNAL_SUM_BYTES ||
	    memcmp(text, JOURNAL_MAGIC, JOURNAL_MAGIC_LEN) != 0)
		return 0;
	len = frame_get_length(text + JOURNAL_MAGIC_LEN);
	all = JOURNAL_MAGIC_LEN + FRAME_HEADER + len;
	if (len > JOURNAL_BYTES_MAX || all + JOURNAL_SUM_BYTES > size)
		return 0;
	crypto_generichash(sum, sizeof(sum), text, all, NULL, 0);
	if (sodium_memcmp(sum, text + all, JOURNAL_SUM_BYTES) != 0)
		return 0;
	ret->journal = (Koda__Journal *)message_unpack(&koda__journal__descriptor,
	    text + JOURNAL_MAGIC_LEN + FRAME_HEADER, len, &ret->arena, &err);
	if (ret->journal == NULL && err.errnum == ENOMEM)
		return -1;
	if (ret->journal != NULL && !is_journal_valid(ret->journal))
		ret->journal = NULL;
	return ret->journal == NULL
	    ? 0
	    : load_records(text + all + JOURNAL_SUM_BYTES, size - all - JOURNAL_SUM_BYTES, ret);
}

static bool
is_busy(const char *name)
{
	size_t len = strlen(name), k = strlen(BUSY);

	return len > k && strcmp(name + len - k, BUSY) == 0;
}

/* Returns true if the name still belongs to this file. */
static bool
leads_to(int dir_fd, const char *name, int fd)
{
	struct stat st, now;

	return fstat(fd, &st) == 0 && fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_ino == now.st_ino && st.st_dev == now.st_dev;
}

static bool
lock_within(int fd, int kind, const struct journal_visitor *by, unsigned wait_ms)
{
	const uint64_t until = monotonic_ms() + wait_ms;

	while (flock(fd, kind | LOCK_NB) < 0)
		if (errno != EWOULDBLOCK || monotonic_ms() >= until ||
		    by->wait(by->data, NULL, 0, WAIT_TICK_MS) < 0)
			return false;
	return true;
}

/*
 * A live host holds an exclusive lock. A reader takes a shared lock, so that two readers do not
 * mistake each other for a live host. A host that finishes a journal renames it before it takes the
 * exclusive lock; a host that finds the new name waits.
 *
 * Returns 1 if the journal is unfinished: *ret_fd has a shared lock, and `name` is its current
 * name. 0 if it is not. -1 if it took too long.
 */
static int
open_unfinished(int dir_fd, char *name, size_t size, const struct journal_visitor *by, int *ret_fd)
{
	for (int tries = 0; tries < 2; tries++) {
		cleanup_close int fd =
		    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && lock_within(fd, LOCK_SH, by, is_busy(name) ? WAIT_MS : 0)) {
			*ret_fd = take_fd(&fd);
			return leads_to(dir_fd, name, *ret_fd) ? 1 : 0;
		}
		if (is_busy(name))
			return fd < 0 ? 0 : -1;
		if (fd >= 0 && leads_to(dir_fd, name, fd))
			return 0; /* its host is alive */
		strncat(name, BUSY, size - strlen(name) - 1);
	}
	return 0;
}

/* Takes the journal for this host alone: renames and locks it. Returns 1; 0 if another host has
 * finished it; -1 if the wait took too long. */
static int
seize_journal(int dir_fd, char *name, size_t size, int fd, const struct journal_visitor *by)
{
	char busy[NAME_LEN_MAX + 1];

	if (!is_busy(name)) {
		snprintf(busy, sizeof(busy), "%s%s", name, BUSY);
		renameat(dir_fd, name, dir_fd, busy); /* fails if another host has renamed it */
		snprintf(name, size, "%s", busy);
	}
	if (!lock_within(fd, LOCK_EX, by, WAIT_MS))
		return -1;
	return leads_to(dir_fd, name, fd);
}

/* Removes an incomplete journal once it is old: its host was killed while writing it. A young one
 * may still be being written. In both cases no command has run. */
static void
drop_unwritten(int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_mtime + UNWRITTEN_SECONDS < time(NULL))
		unlinkat(dir_fd, name, 0);
}

static int
visit_one(int dir_fd, const char *found_name, const struct journal_visitor *by, bool *ret_left,
    struct koda_error *err)
{
	cleanup(loaded_done) struct loaded l = { 0 };
	cleanup_close int fd = -1;
	char name[NAME_LEN_MAX + 1];
	struct journal_found found = { .name = name };
	struct stat st = { 0 };
	int r;

	snprintf(name, sizeof(name), "%s", found_name);
	if (strncmp(name, JOURNAL_NEW_PREFIX, strlen(JOURNAL_NEW_PREFIX)) == 0) {
		drop_unwritten(dir_fd, name);
		return 0;
	}
	r = open_unfinished(dir_fd, name, sizeof(name), by, &fd);
	*ret_left |= r < 0;
	if (r <= 0)
		return 0;
	if (read_journal(fd, &l) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "journal");
	fstat(fd, &st);
	found.written = st.st_mtime;
	found.journal = l.journal;
	found.more = l.more;
	found.n_more = l.n_more;
	if (!by->wanted(by->data, &found))
		return 0;
	r = l.journal != NULL ? seize_journal(dir_fd, name, sizeof(name), fd, by) : 1;
	if (r > 0 && wait_for_processes(&l, by) < 0)
		r = -1;
	*ret_left |= r < 0;
	if (r <= 0)
		return 0;
	r = by->finish(by->data, &found, err);
	if (r > 0)
		unlinkat(dir_fd, name, 0);
	return r < 0 ? -1 : 0;
}

struct journal_names {
	char *v[FILES_MAX];
	size_t n;
};

/* Reads all names first, because other hosts and the visitor change the directory meanwhile.
 * Returns 0, or -1 with errno. */
static int
read_names(int dir_fd, struct journal_names *ret)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	ret->n = 0;
	if (d == NULL) {
		close_at(&fd);
		return -1;
	}
	while (ret->n < FILES_MAX && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    (ret->v[ret->n] = strdup(e->d_name)) != NULL)
			ret->n++;
	closedir(d);
	return 0;
}

int
journal_visit(int dir_fd, const struct journal_visitor *by, bool *ret_left, struct koda_error *err)
{
	struct journal_names names;
	int r = 0;

	*ret_left = false;
	if (read_names(dir_fd, &names) < 0)
		return err_set(err, KODA_IO, errno, "look for journals of killed sessions");
	for (size_t i = 0; i < names.n; i++) {
		if (r == 0)
			r = visit_one(dir_fd, names.v[i], by, ret_left, err);
		free(names.v[i]);
	}
	return r;
}

static void
visit_as_it_is(int dir_fd, const char *name,
    void (*fn)(void *data, const struct journal_found *found), void *data)
{
	cleanup(loaded_done) struct loaded l = { 0 };
	struct journal_found found = { .name = name };
	cleanup_close int fd = -1;

	if (strncmp(name, JOURNAL_NEW_PREFIX, strlen(JOURNAL_NEW_PREFIX)) == 0)
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	/* If the name has the suffix, a host that finishes the journal holds the lock. */
	found.live = flock(fd, LOCK_SH | LOCK_NB) < 0 && !is_busy(name);
	if (read_journal(fd, &l) < 0)
		return;
	found.journal = l.journal;
	found.more = l.more;
	found.n_more = l.n_more;
	fn(data, &found);
}

void
journal_visit_all(int dir_fd, bool (*skip)(const void *data, const char *name),
    void (*fn)(void *data, const struct journal_found *found), void *data)
{
	struct journal_names names;

	if (read_names(dir_fd, &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		if (skip == NULL || !skip(data, names.v[i]))
			visit_as_it_is(dir_fd, names.v[i], fn, data);
		free(names.v[i]);
	}
}
