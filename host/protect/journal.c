/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/process.h"
#include "host/protect/journal_format.h"
#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/base/io.h"
#include "shared/rules/policy.h"
#include "shared/wire/message.h"

static void
make_name(const char *root, char ret[64])
{
	uint8_t random[JOURNAL_HASH_BYTES];
	char hex[JOURNAL_HASH_SIZE], more[JOURNAL_HASH_SIZE];

	journal_hash(root, hex);
	randombytes_buf(random, sizeof(random));
	hex_put(more, random, sizeof(random));
	snprintf(ret, 64, "%s-%s", hex, more);
}

static int
write_journal(int fd, const Koda__Journal *msg)
{
	size_t frame = FRAME_HEADER + koda__journal__get_packed_size(msg);
	size_t all = JOURNAL_MAGIC_LEN + frame;
	cleanup_free uint8_t *buf = malloc(all + JOURNAL_SUM_BYTES);

	if (buf == NULL || all > JOURNAL_BYTES_MAX) {
		errno = buf == NULL ? ENOMEM : EFBIG;
		return -1;
	}
	memcpy(buf, JOURNAL_MAGIC, JOURNAL_MAGIC_LEN);
	message_put_frame(&msg->base, buf + JOURNAL_MAGIC_LEN, frame);
	crypto_generichash(buf + all, JOURNAL_SUM_BYTES, buf, all, NULL, 0);
	return write_all(fd, buf, all + JOURNAL_SUM_BYTES);
}

/* Makes the file under another name, locks it, and renames it when it is complete. */
static int
make_file(struct journal *j, const Koda__Journal *msg, const char *root, const char *dir,
    struct koda_error *err)
{
	struct journal_file *f = &j->file[j->n];
	char temp[80];
	int saved;

	*f = (struct journal_file){ .fd = -1, .dir = dir != NULL ? strdup(dir) : NULL };
	make_name(dir != NULL ? dir : root, f->name);
	snprintf(temp, sizeof(temp), JOURNAL_NEW_PREFIX "%s", f->name);
	f->fd = dir != NULL && f->dir == NULL
	    ? -1
	    : openat(j->dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (f->fd >= 0 && flock(f->fd, LOCK_EX | LOCK_NB) == 0 && write_journal(f->fd, msg) == 0 &&
	    renameat(j->dir_fd, temp, j->dir_fd, f->name) == 0) {
		j->n++;
		return 0;
	}
	saved = errno;
	unlinkat(j->dir_fd, temp, 0);
	close_at(&f->fd);
	free(f->dir);
	return err_set(err, KODA_IO, saved, "write the journal");
}

static void
fill_texts(const struct policy_list *list, ProtobufCBinaryData *to)
{
	for (size_t i = 0; i < list->n; i++)
		to[i] = message_text(list->v[i]);
}

static const char *
directory_above(const char *const *dirs, size_t n, const Koda__Place *place)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(dirs[i]);

		if (place->path.len > len && memcmp(place->path.data, dirs[i], len) == 0 &&
		    (place->path.data[len] == '/' || len == 1))
			return dirs[i];
	}
	return NULL;
}

static int
fill_directories(const char *const *dirs, size_t n, Koda__Journal *msg,
    Koda__JournalDirectory *list)
{
	for (size_t i = 0; i < n; i++) {
		struct stat st;

		if (lstat(dirs[i], &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		koda__journal_directory__init(&list[i]);
		list[i].path = message_text(dirs[i]);
		list[i].dev = st.st_dev;
		list[i].ino = st.st_ino;
		msg->directory[msg->n_directory++] = &list[i];
	}
	return msg->n_directory > 0 ? 0 : -1;
}

/* Writes one file for these directories. */
static int
begin_one(struct journal *j, const struct journal_input *in, const char *const *dirs, size_t n,
    bool looked_through, struct koda_error *err)
{
	const struct policy_list *rules = &in->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW],
				 *names = &in->policy->list[KODA_DENY_WRITE_NAMES];
	cleanup_free Koda__JournalDirectory *list = calloc(n, sizeof(*list));
	cleanup_free Koda__JournalDirectory **directory =
	    calloc(n, sizeof(Koda__JournalDirectory *));
	cleanup_free ProtobufCBinaryData *rule = calloc(rules->n + 1, sizeof(*rule));
	cleanup_free ProtobufCBinaryData *name = calloc(names->n + 1, sizeof(*name));
	cleanup_free Koda__Place **place = calloc(in->n_places + 1, sizeof(Koda__Place *));
	Koda__Journal msg = KODA__JOURNAL__INIT;

	if (list == NULL || directory == NULL || rule == NULL || name == NULL || place == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "journal");
	msg.root = message_text(in->root);
	msg.looked_through = looked_through;
	msg.allow_git_config = in->policy->flag[KODA_ALLOW_GIT_CONFIG];
	msg.directory = directory;
	msg.rule = rule;
	msg.n_rule = rules->n;
	msg.name = name;
	msg.n_name = names->n;
	msg.place = place;
	if (fill_directories(dirs, n, &msg, list) < 0)
		return 0; /* no directory in which something could be planted */
	fill_texts(rules, rule);
	fill_texts(names, name);
	for (size_t i = 0; i < in->n_places; i++)
		if (directory_above(dirs, n, in->place[i]) != NULL)
			place[msg.n_place++] = in->place[i];
	return make_file(j, &msg, in->root, looked_through ? dirs[0] : NULL, err);
}

int
journal_begin(struct journal *j, int dir_fd, const struct journal_input *in, struct koda_error *err)
{
	int r = 0;

	*j = (struct journal){ .dir_fd = dir_fd };
	if (in->n_dirs + 1 > JOURNAL_FILES_MAX)
		r = err_set(err, KODA_TOO_LARGE, 0, "too many directories for the journal");
	for (size_t i = 0; r == 0 && i < in->n_dirs; i++)
		r = begin_one(j, in, &in->dir[i], 1, true, err);
	if (r == 0 && in->n_caches > 0)
		r = begin_one(j, in, in->cache, in->n_caches, false, err);
	if (r < 0)
		journal_end(j, true);
	return r;
}

/* Returns 0, or -1 if the record is not in the file, which then ends as before. */
static int
append_record(struct journal_file *f, const Koda__JournalRecord *record)
{
	uint8_t frame[FRAME_HEADER + JOURNAL_RECORD_MAX];
	size_t n = message_put_frame(&record->base, frame, sizeof(frame));
	off_t end = lseek(f->fd, 0, SEEK_CUR);

	if (n == 0 || f->torn)
		return -1;
	if (write_all(f->fd, frame, n) == 0)
		return 0;
	/* A full disk may have taken a part of it, which would swallow the next record. */
	f->torn = end < 0 || ftruncate(f->fd, end) < 0 || lseek(f->fd, end, SEEK_SET) != end;
	return -1;
}

void
journal_add(struct journal *j, const Koda__Place *place)
{
	Koda__JournalRecord record = KODA__JOURNAL_RECORD__INIT;
	struct journal_file *to = NULL;

	record.place = (Koda__Place *)(uintptr_t)place;
	for (size_t i = 0; i < j->n; i++) {
		const char *dir = j->file[i].dir;

		if (dir == NULL ? to == NULL : directory_above(&dir, 1, place) != NULL)
			to = &j->file[i];
	}
	if (to != NULL && !j->failed)
		j->failed = append_record(to, &record) < 0;
}

void
journal_process(struct journal *j, pid_t pid)
{
	Koda__JournalRecord record = KODA__JOURNAL_RECORD__INIT;

	record.has_pid = record.has_start = true;
	record.pid = (uint64_t)pid;
	record.start = process_start_time(pid);
	for (size_t i = 0; i < j->n && record.start != 0; i++)
		append_record(&j->file[i], &record);
}

void
journal_end(struct journal *j, bool compared)
{
	for (size_t i = 0; i < j->n; i++) {
		if (compared)
			unlinkat(j->dir_fd, j->file[i].name, 0);
		close_at(&j->file[i].fd);
		free(j->file[i].dir);
	}
	close_at(&j->dir_fd);
	*j = (struct journal)JOURNAL_NONE;
}
