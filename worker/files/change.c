/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/change.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include "shared/base/cleanup.h"
#include "worker/files/digest.h"
#include "worker/files/keep.h"
#include "worker/files/keep_now.h"
#include "worker/pause.h"
#include "worker/say.h"

/* Another worker holds the lock for as long as one edit takes. Any other process may hold it
 * forever and must not block this worker: the file is compared once more before it is replaced. */
#define LOCK_WAIT_MS 2
#define LOCK_WAITS   200

int
refuse_special(const struct place *at, const char *verb, struct koda_error *err)
{
	const char *what = NULL;

	switch (at->st.st_mode & S_IFMT) {
	case S_IFIFO:
		what = "a FIFO";
		break;
	case S_IFSOCK:
		what = "a socket";
		break;
	case S_IFCHR:
	case S_IFBLK:
		what = "a device";
		break;
	default:
		return 0;
	}
	char shown[512];

	bytes_show(shown, sizeof(shown), at->path, strlen(at->path));
	err_set(err, KODA_IO, 0, "%s '%s': is %s", verb, shown, what);
	return err_about(err, at->path, NULL);
}

int
may_write(const struct session *ses, const struct place *at, const char *verb,
    struct koda_error *err)
{
	/* For the owner only the owner's bit counts, whatever the ACL says; asking the kernel
	 * costs more than this test. */
	if (at->st.st_uid == ses->euid && (at->st.st_mode & S_IWUSR) != 0)
		return 0;
	if (faccessat(at->target_fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
		return say(err, KODA_IO, errno, verb, at->path);
	return 0;
}

struct outcome *
outcome_new(struct session *ses, const struct place *at, struct koda_error *err)
{
	struct outcome *out = session_alloc(ses, sizeof(*out), err);

	if (out == NULL)
		return NULL;
	koda__outcome__init(&out->msg);
	out->msg.path = bytes_of(at->path, strlen(at->path));
	if (at->target_fd >= 0) {
		out->msg.has_type = true;
		out->msg.type = file_type_of(at->st.st_mode);
		out->msg.has_size_before = S_ISREG(at->st.st_mode);
		out->msg.size_before = (uint64_t)at->st.st_size;
	}
	return out;
}

/* ---- guards ---- */

static int
conflict(struct koda_error *err, const struct place *at, const char *what)
{
	return say_of(err, KODA_CONFLICT, 0, at->path, what);
}

int
guard_check(const Koda__Guard *guard, const struct place *at, struct koda_error *err)
{
	if (guard == NULL)
		return 0;
	if (guard->has_path &&
	    (guard->path.len != strlen(at->path) ||
		memcmp(guard->path.data, at->path, guard->path.len) != 0))
		return conflict(err, at, "no longer resolves to the place that was approved");
	if (guard->has_absent && guard->absent && at->target_fd >= 0)
		return conflict(err, at, "exists already");
	if ((guard->has_digest || guard->has_type) && at->target_fd < 0)
		return conflict(err, at, "no longer exists");
	if (guard->has_type && file_type_of(at->st.st_mode) != guard->type)
		return conflict(err, at, "is now another type of file");
	if (guard->has_digest && !S_ISREG(at->st.st_mode))
		return conflict(err, at, "is no longer a regular file");
	return 0;
}

int
guard_compare(const Koda__Guard *guard, const struct place *at,
    const uint8_t digest[KODA_DIGEST_BYTES], struct koda_error *err)
{
	if (guard == NULL || !guard->has_digest ||
	    memcmp(guard->digest.data, digest, KODA_DIGEST_BYTES) == 0)
		return 0;
	return conflict(err, at, "has changed: read it again");
}

int
guard_digest(struct session *ses, const Koda__Guard *guard, const struct place *at, int fd,
    bool dry, struct outcome *out, struct koda_error *err)
{
	cleanup_close int opened = -1;

	/* A dry run reports the digest of the file, so that an approval of it can be bound to
	 * that content. */
	if ((guard == NULL || !guard->has_digest) &&
	    !(dry && at->target_fd >= 0 && S_ISREG(at->st.st_mode)))
		return 0;
	if (fd < 0)
		fd = opened = resolve_reopen(&ses->res, at->target_fd, O_RDONLY | O_NOCTTY);
	if (fd < 0 || digest_file(fd, out->digest_before) < 0)
		return say(err, KODA_IO, errno, "compare", at->path);
	out->msg.has_digest_before = true;
	out->msg.digest_before = bytes_of(out->digest_before, KODA_DIGEST_BYTES);
	return guard_compare(guard, at, out->digest_before, err);
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Does the place's name still refer to the same, unmodified file? */
static bool
still_the_same(const struct place *at)
{
	struct stat st;

	return fstatat(at->parent_fd, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    same_file(&st, &at->st) && st.st_size == at->st.st_size &&
	    st.st_mtim.tv_sec == at->st.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == at->st.st_mtim.tv_nsec &&
	    st.st_ctim.tv_sec == at->st.st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == at->st.st_ctim.tv_nsec;
}

int
open_to_change(struct session *ses, const struct place *at, int *ret_fd, struct koda_error *err)
{
	cleanup_close int fd = resolve_reopen(&ses->res, at->target_fd, O_RDONLY | O_NOCTTY);

	if (fd < 0)
		return say(err, KODA_IO, errno, "open", at->path);
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		/* Some file systems do not support locks. */
		if (errno != EWOULDBLOCK || i == LOCK_WAITS)
			break;
		poll(NULL, 0, LOCK_WAIT_MS);
	}
	if (!still_the_same(at))
		return 1;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* ---- the change ---- */

static int
say_prepared(struct session *ses, const struct file_change *c, const struct stage *s,
    struct koda_error *err)
{
	Koda__Prepared prepared = KODA__PREPARED__INIT;
	const struct place *at = c->at;

	/* The name that will appear: the first missing one. */
	prepared.place = bytes_of(at->path, (size_t)(at->name - at->path) + place_name_len(at));
	prepared.has_temp = true;
	prepared.temp = bytes_of(s->temp, strlen(s->temp));
	prepared.dev = s->dev;
	prepared.ino = s->ino;
	prepared.outcome = c->outcome;
	return session_prepared(ses, &prepared, err);
}

int
change_perform(struct session *ses, const struct file_change *c, struct koda_error *err)
{
	cleanup(stage_done) struct stage s = STAGE_EMPTY;
	const struct stage_how how = { ses->umask, c->durable };
	/*
	 * A directory cannot replace anything but an empty directory: never do that. With a history,
	 * what appears at a free name meanwhile is not replaced either, because it was not kept: the
	 * operation starts again.
	 */
	const bool exclusive = c->exclusive || c->content == NULL || *c->at->missing != '\0' ||
	    (keep_is_on(ses) && c->at->target_fd < 0);
	int r;

	if (ses->prepares++ == PREPARED_MAX)
		return say(err, KODA_CONFLICT, 0, "gave up: another process keeps changing",
		    c->at->path);
	keep_now_change(ses, c->content == NULL ? KODA__KIND__KIND_MKDIR : KODA__KIND__KIND_WRITE,
	    c->at);
	if (stage_make(&s, c->at, ses->token, ses->id, c->content, &how, err) < 0 ||
	    say_prepared(ses, c, &s, err) < 0)
		return -1;
	PAUSE_POINT(PAUSE_PREPARED);
	r = session_verify_parent(ses, c->at, err);
	if (r == 0 && c->same && !still_the_same(c->at))
		r = 1;
	if (r == 0)
		keep_change(ses, c->at, s.temp, c->outcome);
	PAUSE_POINT(PAUSE_KEPT);
	/*
	 * With no descriptor on the replaced file, the rename itself frees it, in one
	 * transaction of the file system, and not a later one. (An edit keeps its descriptor
	 * open for the lock: others wait for it until the file is replaced.)
	 */
	if (r == 0) {
		close_at(&ses->at.target_fd);
		ses->at.target_fd = -1;
		r = stage_commit(&s, exclusive, err);
	}
	if (r != 0) {
		session_not_done(ses);
		keep_not_done(ses);
		return r;
	}
	PAUSE_POINT(PAUSE_ACTED);
	if (stage_sync(&s) < 0)
		return say(err, KODA_UNKNOWN, errno,
		    "the change was made, but a power failure may undo it, because syncing "
		    "failed:",
		    c->at->path);
	return 0;
}
