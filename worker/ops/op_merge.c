/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merge: what the project and a draft changed in a text since the version that both began with, which
 * the history holds. Only if it is certain which version that is. Changes the draft alone: Swap brings
 * it to the project.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "shared/base/merge.h"
#include "worker/draft/fit.h"
#include "worker/draft/upper_file.h"
#include "worker/files/change.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* The longest tick of the clock that stamps files. Newer kernels stamp some more exactly, so what came
 * first may look later by this. The beginning of a draft is later than all changes before it. */
#define TICK_NS INT64_C(10000000)

/* The time of comparing two texts grows with their lines; these take less than a second. */
#define MERGE_LINES_MAX 100000

/* A file that is merged. */
struct merge_side {
	int fd; /* O_PATH; -1: not open */
	struct stat st;
	struct merge_text text;
};

struct merge_run {
	struct session *ses;
	const Koda__Merge *ask;
	const char *path;
	struct upper_file upper;
	struct merge_side base, project, draft; /* draft.fd is upper.fd */
	struct merged merged;
	Koda__MergeReply *msg;
	const char *reason; /* why nothing can be merged; NULL: it can */
};

static void
merge_run_done(struct merge_run *m)
{
	upper_file_done(&m->upper);
	close_at(&m->base.fd);
	close_at(&m->project.fd);
	free(m->merged.text);
}

static int64_t
ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool
is_that(const struct stat *st, const Koda__Identity *id)
{
	return st->st_dev == id->dev && st->st_ino == id->ino &&
	    file_type_of(st->st_mode) == id->type &&
	    (!id->has_ctime_ns || ns_of(st->st_ctim) <= id->ctime_ns);
}

/* ---- which files ---- */

/* Opens the file at the place. Sets reason if it is not the one that was listed. */
static void
open_project(struct merge_run *m)
{
	const char *name = strrchr(m->path, '/') + 1;
	cleanup_close int dir =
	    resolve_canonical_dir(&m->ses->res, m->path, (size_t)(name - 1 - m->path));

	if (dir >= 0)
		m->project.fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (m->project.fd < 0 || fstat(m->project.fd, &m->project.st) < 0 ||
	    !is_that(&m->project.st, m->ask->here))
		m->reason = "it was changed in the project meanwhile";
}

static int
open_draft(struct merge_run *m, struct koda_error *err)
{
	if (upper_file_open(m->ses, &m->ses->layer[m->ask->layer], m->path, &m->upper, err) < 0)
		return -1;
	m->draft.fd = m->upper.fd;
	m->draft.st = m->upper.st;
	if (!is_that(&m->draft.st, m->ask->held))
		m->reason = "it was changed in the draft meanwhile";
	/* Merging one of several names would make it a file of its own. */
	else if (m->draft.st.st_nlink > 1 || m->project.st.st_nlink > 1)
		m->reason = "it has several names (hard links)";
	return 0;
}

/*
 * Is that file the one that the draft's was made from, with the content that it had then? Overlayfs does
 * not note which file it copies when an ordinary user mounts it. But if the draft's file was made before
 * the base was moved away, and the base was at the place, unchanged, since before the draft began, then
 * commands saw no other version.
 */
static bool
is_base(const struct merge_run *m, const Koda__MergeBase *one, int fd, struct stat *ret)
{
	const int64_t birth = m->upper.up.birth_ns;

	/* With more names, only the time of its content was checked. */
	return fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) && ret->st_nlink == 1 &&
	    ret->st_dev == m->project.st.st_dev && is_that(ret, one->held) &&
	    ns_of(ret->st_ctim) == one->held->ctime_ns && birth != 0 &&
	    birth + TICK_NS < one->held->ctime_ns && one->since_ns < m->ses->draft_made_ns;
}

/* Returns whether one of the bases is the right one. */
static bool
find_base(struct merge_run *m)
{
	for (size_t i = 0; i < m->ask->n_past; i++) {
		const Koda__MergeBase *one = m->ask->past[i];
		char name[SWAP_NAME_MAX + 1];
		cleanup_close int fd = -1;

		memcpy(name, one->name.data, one->name.len);
		name[one->name.len] = '\0';
		fd = openat(m->ses->old_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || !is_base(m, one, fd, &m->base.st))
			continue;
		m->base.fd = take_fd(&fd);
		return true;
	}
	return false;
}

/* ---- their content ---- */

static size_t
count_lines(const char *p, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += p[i] == '\n';
	return n;
}

/* Returns false with reason set if it is not a text that can be merged. */
static bool
read_text(struct merge_run *m, struct merge_side *side, struct koda_error *err)
{
	const size_t size = (size_t)side->st.st_size;
	cleanup_close int fd = resolve_reopen(&m->ses->res, side->fd, O_RDONLY | O_NOCTTY);
	char *p;
	size_t n = 0;

	if (side->st.st_size > MERGE_BYTES_MAX) {
		m->reason = "it is too large";
		return false;
	}
	p = session_alloc(m->ses, size + 1, err);
	while (fd >= 0 && p != NULL && n < size + 1) {
		const ssize_t r = pread(fd, p + n, size + 1 - n, (off_t)n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	if (fd < 0 || p == NULL || n != size)
		m->reason = "it cannot be read";
	else if (memchr(p, '\0', n) != NULL)
		m->reason = "it is not text";
	else if (count_lines(p, n) > MERGE_LINES_MAX)
		m->reason = "it has too many lines";
	side->text = (struct merge_text){ p, n };
	return m->reason == NULL;
}

/* Looks at all that was read again: is it what was listed? */
static void
check_unchanged(struct merge_run *m)
{
	const struct merge_side *sides[] = { &m->base, &m->project, &m->draft };
	struct stat now;

	for (size_t i = 0; i < N_ELEMENTS(sides); i++)
		if (fstat(sides[i]->fd, &now) < 0 ||
		    ns_of(now.st_ctim) != ns_of(sides[i]->st.st_ctim) ||
		    now.st_size != sides[i]->st.st_size)
			m->reason = "it was changed meanwhile";
}

static int
merge(struct merge_run *m, struct koda_error *err)
{
	if (!read_text(m, &m->base, err) || !read_text(m, &m->project, err) ||
	    !read_text(m, &m->draft, err))
		return 0;
	check_unchanged(m);
	if (m->reason != NULL)
		return 0;
	if (!merge_texts(&m->base.text, &m->project.text, &m->draft.text, &m->merged))
		return err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	return 0;
}

/* ---- the draft ---- */

/* Its permissions are merged like its lines: what only one of both changed is taken. */
static mode_t
merged_mode(const struct merge_run *m)
{
	return (m->draft.st.st_mode == m->base.st.st_mode ? m->project.st.st_mode
							  : m->draft.st.st_mode) &
	    07777;
}

/*
 * It has no mark of overlayfs, so it counts as a file that the draft made: if this worker dies before
 * the Swap it stays in conflict, and is not merged again, because lines that are equal could then be
 * taken for each other. Removing a mark needs the permission to write.
 */
static int
fill(const struct merge_run *m, int fd)
{
	if (write_all(fd, m->merged.text, m->merged.len) < 0 ||
	    file_dress(fd, m->draft.fd, &m->draft.st) < 0 || fchmod(fd, 0600) < 0 ||
	    fit_strip(fd) < 0)
		return -1;
	return fchmod(fd, merged_mode(m)) < 0 || fsync(fd) < 0 ? -1 : 0;
}

/* The draft's file is replaced in one step. Until then the new one is in `old`, whose names only workers
 * see. */
static int
write_draft(struct merge_run *m, struct stat *ret, struct koda_error *err)
{
	const int old = m->ses->old_fd;
	char temp[TEMP_NAME_SIZE];
	cleanup_close int fd = -1;
	int r;

	temp_name(temp, m->ses->token, m->ses->id);
	fd = openat(old, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return say(err, KODA_IO, errno, "write the merged text of", m->path);
	r = fill(m, fd);
	if (r == 0)
		r = renameat(old, temp, m->upper.dir, m->upper.name);
	if (r == 0 && fstat(fd, ret) == 0)
		return 0;
	say(err, KODA_IO, errno, "write the merged text of", m->path);
	unlinkat(old, temp, 0);
	return -1;
}

/* ---- answering ---- */

static int
put_after(struct merge_run *m, const struct stat *st, struct koda_error *err)
{
	Koda__DraftSide *side = session_alloc(m->ses, sizeof(*side), err);

	if (side == NULL)
		return -1;
	koda__draft_side__init(side);
	side->type = file_type_of(st->st_mode);
	side->dev = st->st_dev;
	side->ino = st->st_ino;
	side->size = (uint64_t)st->st_size;
	side->mode = st->st_mode & 07777;
	side->mtime_ns = ns_of(st->st_mtim);
	side->ctime_ns = ns_of(st->st_ctim);
	m->msg->after = side;
	return 0;
}

/* The reply is packed after the merged text was freed. */
static int
put_content(struct merge_run *m, struct koda_error *err)
{
	const size_t len = m->merged.len;
	const size_t at = m->ask->offset < len ? (size_t)m->ask->offset : len;
	const size_t n = len - at < PAGE_MAX ? len - at : PAGE_MAX;
	char *copy = session_alloc(m->ses, n + 1, err);

	if (copy == NULL)
		return -1;
	memcpy(copy, m->merged.text + at, n);
	m->msg->has_content = true;
	m->msg->content = bytes_of(copy, n);
	return 0;
}

static int
put_merged(struct merge_run *m, struct koda_error *err)
{
	Koda__MergeReply *msg = m->msg;
	struct stat st;

	if (m->reason != NULL) {
		msg->outcome = KODA__MERGE_OUTCOME__MERGE_NONE;
		msg->has_reason = true;
		msg->reason = bytes_of(m->reason, strlen(m->reason));
		return 0;
	}
	if (m->merged.overlaps > 0) {
		msg->outcome = KODA__MERGE_OUTCOME__MERGE_OVERLAPS;
		msg->has_overlaps = msg->has_line = true;
		msg->overlaps = m->merged.overlaps;
		msg->line = m->merged.line;
		return 0;
	}
	msg->outcome = KODA__MERGE_OUTCOME__MERGE_CLEAN;
	if (m->ask->has_offset && put_content(m, err) < 0)
		return -1;
	if (!m->ask->has_write || !m->ask->write)
		return 0;
	return write_draft(m, &st, err) < 0 ? -1 : put_after(m, &st, err);
}

static int
run(struct merge_run *m, struct koda_error *err)
{
	open_project(m);
	if (m->reason == NULL && open_draft(m, err) < 0)
		return -1;
	if (m->reason == NULL) {
		if (!find_base(m)) {
			m->msg->outcome = KODA__MERGE_OUTCOME__MERGE_NO_BASE;
			return 0;
		}
		if (merge(m, err) < 0)
			return -1;
	}
	return put_merged(m, err);
}

int
op_merge(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Merge *ask = req->merge;
	Koda__MergeReply *msg = session_alloc(ses, sizeof(*msg), err);
	char *path = session_alloc(ses, ask->place.len + 1, err);
	cleanup(merge_run_done) struct merge_run m = { .ses = ses,
		.ask = ask,
		.path = path,
		.upper = UPPER_FILE_CLOSED,
		.base.fd = -1,
		.project.fd = -1,
		.msg = msg };
	struct access_verdict verdict;

	if (msg == NULL || path == NULL)
		return -1;
	koda__merge_reply__init(msg);
	memcpy(path, ask->place.data, ask->place.len);
	if (ses->old_fd < 0)
		return err_set(err, KODA_PROTOCOL, 0, "merge: there is no entry of the history");
	if (ask->layer >= ses->n_layers || !path_is_below(path, ses->layer[ask->layer].path))
		return err_set(err, KODA_PROTOCOL, 0, "merge: the place is not in the layer");
	verdict = access_judge(&ses->who, ACCESS_OP_READ, path, NULL);
	if (!verdict.allowed)
		return access_refuse(err, &ses->who, ACCESS_OP_READ, path, verdict);
	rep->result_case = KODA__REPLY__RESULT_MERGE;
	rep->merge = msg;
	return run(&m, err);
}
