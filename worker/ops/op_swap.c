/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Swap: what a draft or the history holds comes to its place, and what was there is held. Judges each
 * item as the operation that it is, and leaves the rest to worker/draft/swap_run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/across.h"
#include "worker/draft/gitlock.h"
#include "worker/draft/repo_place.h"
#include "worker/draft/several.h"
#include "worker/draft/shape.h"
#include "worker/draft/swap_run.h"
#include "worker/files/change.h"
#include "worker/files/move.h"
#include "worker/files/tree.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* Bytes of links' targets in one reply; further ones are left out. Both sides of each item could have
 * one as long as a path. */
#define TARGETS_MAX (PAGE_MAX / 2)

/* Of a path in a sentence. */
#define PATH_SHOWN 512

/* Across requests: the names of one file can be in several of them. */
static struct swap_touched touched;

/* What the items of one request have in common. ses->at is the place, and keeps its directory open for
 * the next item. */
struct swapping {
	struct session *ses;
	const Koda__Swap *ask;
	struct several several;
	struct shape shape; /* of the current item's layer; fd -1: none */
	uint32_t layer;     /* of layer_dir */
	int layer_dir;      /* in the layer, for the place's directory; -1: none */
	mode_t layer_mode;  /* of layer_dir, to be restored; 0: as it is */
	int from_dir;       /* of what is moved from another place; -1: none */
	char from[PATH_LEN_MAX + 1];
	bool shifts; /* the current item moves that */
	bool cached; /* the directories are those of an earlier item */
	bool across; /* the place is on another file system */
	struct statx old;
	ino_t old_ino;
	/* Items that are only looked at, before the first of their group is done. */
	bool looking;
	bool left_out[SWAP_ITEMS_MAX];
	struct koda_error group_why; /* why the last group is left out */
	int wait_ms;                 /* that is left of the wait for locks of git */
	size_t targets;              /* bytes of links' targets in the reply so far */
};

/* A command may have made its directory read-only. What is in it has to be moved all the same, and the
 * directory is the draft's. descriptor: below /proc/self/fd, the working directory. */
static void
open_layer(struct swapping *s)
{
	char descriptor[16];
	struct stat st;

	if (fstat(s->layer_dir, &st) < 0 ||
	    (st.st_mode & (S_IWUSR | S_IXUSR)) == (S_IWUSR | S_IXUSR))
		return;
	snprintf(descriptor, sizeof(descriptor), "%d", s->layer_dir);
	if (fchmodat(AT_FDCWD, descriptor, (st.st_mode & 07777) | S_IWUSR | S_IXUSR, 0) == 0)
		s->layer_mode = st.st_mode;
}

static void
close_layer(struct swapping *s)
{
	char descriptor[16];

	snprintf(descriptor, sizeof(descriptor), "%d", s->layer_dir);
	/* If that fails, the list of changes shows the permissions that the directory has then. */
	if (s->layer_dir >= 0 && s->layer_mode != 0 &&
	    fchmodat(AT_FDCWD, descriptor, s->layer_mode & 07777, 0) < 0)
		s->layer_mode = 0;
	close_at(&s->layer_dir);
	s->layer_dir = -1;
	s->layer_mode = 0;
}

static void
swapping_done(struct swapping *s)
{
	close_layer(s);
	close_at(&s->from_dir);
}

/* ---- places ---- */

static bool
same_mount(const struct statx *a, const struct statx *b)
{
	const bool both = (a->stx_mask & b->stx_mask & STATX_MNT_ID) != 0;

	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor &&
	    (!both || a->stx_mnt_id == b->stx_mnt_id);
}

static int
mount_of(int fd, struct statx *ret)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_INO | STATX_MNT_ID, ret);
}

/* Will rename(2) not go from draft and history to the place's directory? */
static int
look_at_mounts(struct swapping *s)
{
	struct statx at, layer;

	s->across = false;
	if (s->ses->at.parent_fd < 0)
		return 0;
	if (mount_of(s->ses->at.parent_fd, &at) < 0)
		return -1;
	s->across = !same_mount(&at, &s->old);
	if (s->layer_dir < 0)
		return 0;
	if (mount_of(s->layer_dir, &layer) < 0)
		return -1;
	s->across |= !same_mount(&at, &layer);
	return 0;
}

/* Sets the place's path, and opens its directory and the one in the layer, unless they are open from
 * the item before. Returns 0, also if a directory is missing; -1 with errno. */
static int
open_place(struct swapping *s, const Koda__SwapItem *item)
{
	struct place *at = &s->ses->at;
	const char *path = (const char *)item->place.data;
	const uint32_t layer = item->has_layer ? item->layer : UINT32_MAX;
	size_t dir = item->place.len, old_dir = (size_t)(at->name - at->path);
	bool same;

	while (path[dir - 1] != '/')
		dir--;
	same = at->parent_fd >= 0 && layer == s->layer && old_dir == dir &&
	    memcmp(at->path, path, dir) == 0;
	memcpy(at->path, path, item->place.len);
	at->path[item->place.len] = '\0';
	at->name = at->path + dir;
	at->missing = at->path + item->place.len;
	close_at(&at->target_fd);
	at->target_fd = -1;
	s->cached = same;
	if (same)
		return 0;
	close_at(&at->parent_fd);
	close_layer(s);
	s->layer = layer;
	at->parent_fd = resolve_canonical_dir(&s->ses->res, at->path, dir - 1);
	if (at->parent_fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		return -1;
	if (item->has_layer) {
		const struct draft_layer *l = &s->ses->layer[layer];

		s->shape = (struct shape){ .res = &s->ses->res, .path = l->path, .fd = l->fd };
		s->layer_dir = shape_open(&s->shape, at->path, dir - 1);
		if (s->layer_dir < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			return -1;
		if (s->layer_dir >= 0)
			open_layer(s);
	}
	return look_at_mounts(s);
}

/* The directory and the name of what is moved. */
static int
open_from(struct swapping *s, const Koda__SwapItem *item, struct swap *w, struct koda_error *err)
{
	size_t dir = item->from.len;

	memcpy(s->from, item->from.data, item->from.len);
	s->from[item->from.len] = '\0';
	while (s->from[dir - 1] != '/')
		dir--;
	close_at(&s->from_dir);
	s->from_dir = resolve_canonical_dir(&s->ses->res, s->from, dir - 1);
	if (s->from_dir < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		return say(err, KODA_IO, errno, "open the directory of", s->from);
	w->from = s->from;
	w->from_old = false;
	w->source = (struct swap_name){ .dir = s->from_dir, .name = s->from + dir };
	return 0;
}

/* A worker died after it took something from its place, which then still has its temporary name
 * (worker/files/keep): that belongs to `old`. */
static void
adopt(struct swapping *s, const struct swap *w)
{
	struct swap_name temp = { .dir = w->place.dir };
	char name[sizeof(TEMP_PREFIX) + SWAP_NAME_MAX];
	struct stat st;

	if (!w->from_old || w->kind != SWAP_BRING || w->place.dir < 0 ||
	    fstatat(w->old.dir, w->old.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	snprintf(name, sizeof(name), TEMP_PREFIX "%s", w->old.name);
	temp.name = name;
	if (swap_stat(&temp) == 0 && swap_is(&temp, w->item->held) &&
	    session_verify_parent(s->ses, &s->ses->at, NULL) == 0)
		tree_rename_new(temp.dir, temp.name, w->old.dir, w->old.name);
}

static void
forget_place(struct swapping *s)
{
	close_at(&s->ses->at.parent_fd);
	s->ses->at.parent_fd = -1;
	close_layer(s);
}

static int
verify_place(void *data, struct koda_error *err)
{
	struct swapping *s = data;

	if (session_verify_parent(s->ses, &s->ses->at, err) < 0)
		return -1;
	return s->shifts ? resolve_verify(&s->ses->res, s->from_dir, s->from,
			       (size_t)(strrchr(s->from, '/') - s->from), err)
			 : 0;
}

/* ---- judging ---- */

static bool
is_of_repo(const struct swap *w, struct access_verdict verdict, struct shape *layer)
{
	return !verdict.allowed && verdict.rule == ACCESS_RULE_GIT_CONFIG &&
	    repo_place_allows(w, layer);
}

/* In a repository that a draft makes only the other rules count. */
static int
judge_without_git(struct swapping *s, enum access_op op, struct koda_error *err)
{
	struct session *ses = s->ses;
	struct policy policy = ses->policy;
	struct access_subject who = ses->who;
	struct access_verdict verdict;

	policy.flag[KODA_ALLOW_GIT_CONFIG] = true;
	who.policy = &policy;
	verdict = access_judge(&who, op, ses->at.path, NULL);
	return verdict.allowed ? session_judge_further(ses, op, ses->at.path, verdict, err)
			       : access_refuse(err, &ses->who, op, ses->at.path, verdict);
}

/* The policy's verdict on the place, in the project as the draft makes it and as it is. */
static int
judge(struct swapping *s, const struct swap *w, enum access_op op, struct koda_error *err)
{
	struct session *ses = s->ses;
	const struct access_disk merged = { &s->shape, shape_has };
	const char *where;
	struct access_verdict verdict;

	if (w->item->has_layer) {
		s->shape.asked = false;
		verdict = access_judge(&ses->who, op, ses->at.path, &merged);
		if (is_of_repo(w, verdict, &s->shape))
			return judge_without_git(s, op, err);
		if (!verdict.allowed)
			return access_refuse(err, &ses->who, op, ses->at.path, verdict);
		/* Without a question about the disk, the answer is the same for both. */
		if (!s->shape.asked)
			return session_judge_further(ses, op, ses->at.path, verdict, err);
	}
	verdict = session_judge(ses, op, &ses->at, &where, &op);
	if (is_of_repo(w, verdict, w->item->has_layer ? &s->shape : NULL))
		return judge_without_git(s, op, err);
	return verdict.allowed ? 0 : access_refuse(err, &ses->who, op, ses->at.path, verdict);
}

static int
judge_text(struct swapping *s, enum access_op op, struct koda_error *err)
{
	const char *path = s->ses->at.path;
	struct access_verdict verdict = access_judge_tree(&s->ses->who, op, path);

	return verdict.allowed ? 0 : access_refuse(err, &s->ses->who, op, path, verdict);
}

/* What is at the place goes away: may it, with everything in it? */
static int
judge_leaving(struct swapping *s, const struct swap *w, struct koda_error *err)
{
	struct place *at = &s->ses->at;
	uint64_t entries;

	if (!w->place.there)
		return 0;
	at->st = w->place.st;
	if (refuse_special(at, "replace", err) < 0) {
		err->code = KODA_POLICY_DENIED;
		return err_about(err, at->path, "special_file");
	}
	if (!S_ISDIR(at->st.st_mode))
		return 0;
	if (judge(s, w, ACCESS_OP_REMOVE, err) < 0)
		return -1;
	at->target_fd =
	    openat(at->parent_fd, at->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at->target_fd < 0)
		return say(err, KODA_CONFLICT, errno, "open the directory", at->path);
	if (judge_text(s, ACCESS_OP_REMOVE, err) < 0)
		return -1;
	/* On one file system it is moved as a whole: nothing in it has to be removed. */
	return w->kind == SWAP_RMDIR
	    ? 0
	    : tree_check(&s->ses->who, w->across ? ACCESS_OP_REMOVE : ACCESS_OP_RENAME_FROM,
		  at->target_fd, at->path, &entries, err);
}

/*
 * A regular file that comes to a place is a write. A link is also like something unknown that is moved
 * there, because of what it may lead to. A directory comes only from the history, with everything in
 * it.
 */
static int
judge_coming(struct swapping *s, const struct swap *w, struct koda_error *err)
{
	const Koda__FileType type = w->item->held->type;
	cleanup_close int dir = -1;
	uint64_t entries;

	if (type != KODA__FILE_TYPE__FILE_DIRECTORY) {
		if (judge(s, w, ACCESS_OP_WRITE, err) < 0)
			return -1;
		if (type != KODA__FILE_TYPE__FILE_SYMLINK)
			return 0;
		return judge(s, w, ACCESS_OP_RENAME_TO, err) < 0
		    ? -1
		    : judge_text(s, ACCESS_OP_RENAME_TO, err);
	}
	if (judge(s, w, ACCESS_OP_MKDIR, err) < 0 || judge_text(s, ACCESS_OP_RENAME_TO, err) < 0)
		return -1;
	if (w->item->has_layer)
		return 0; /* it is refused later */
	dir = openat(w->source.dir, w->source.name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return say(err, KODA_CONFLICT, errno, "open what was held of", w->path);
	return tree_check(&s->ses->who, ACCESS_OP_RENAME_TO, dir, w->path, &entries, err);
}

/* As Rename judges it. */
static int
judge_shift(struct swapping *s, const struct swap *w, struct koda_error *err)
{
	struct session *ses = s->ses;
	const bool whole = S_ISDIR(w->source.st.st_mode);
	cleanup_close int dir = -1;
	struct access_verdict verdict;
	uint64_t entries;

	if (path_is_inside(ses->root, w->from) || !S_ISREG(w->source.st.st_mode))
		verdict = access_judge_tree(&ses->who, ACCESS_OP_RENAME_FROM, w->from);
	else
		verdict = (struct access_verdict){ .allowed = true };
	if (!verdict.allowed)
		return access_refuse(err, &ses->who, ACCESS_OP_RENAME_FROM, w->from, verdict);
	if (session_judge_path(ses, ACCESS_OP_RENAME_FROM, &ses->at, w->from, err) < 0 ||
	    judge(s, w, ACCESS_OP_RENAME_TO, err) < 0)
		return -1;
	if (S_ISREG(w->source.st.st_mode))
		return 0;
	if (judge_text(s, ACCESS_OP_RENAME_TO, err) < 0)
		return -1;
	if (!whole)
		return 0;
	dir = openat(w->source.dir, w->source.name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return say(err, KODA_CONFLICT, errno, "open", w->from);
	return tree_check(&ses->who, ACCESS_OP_RENAME_FROM, dir, w->from, &entries, err);
}

static int
judge_item(struct swapping *s, const struct swap *w, struct koda_error *err)
{
	const struct place *at = &s->ses->at;
	const bool goes = w->kind == SWAP_TAKE || w->kind == SWAP_RMDIR;

	if (move_check_root(s->ses, goes ? "remove" : "change", at, err) < 0)
		return -1;
	switch (w->kind) {
	case SWAP_BRING:
		return judge_coming(s, w, err) < 0 ? -1 : judge_leaving(s, w, err);
	case SWAP_TAKE:
	case SWAP_RMDIR:
		return judge(s, w, ACCESS_OP_REMOVE, err) < 0 ? -1 : judge_leaving(s, w, err);
	case SWAP_MKDIR:
		return judge(s, w, ACCESS_OP_MKDIR, err) < 0 ? -1 : judge_leaving(s, w, err);
	case SWAP_MODE:
		return judge(s, w, ACCESS_OP_WRITE, err);
	case SWAP_SHIFT:
		return judge_shift(s, w, err);
	}
	return -1;
}

/* ---- results ---- */

static Koda__SwapOutcome
outcome_of(const struct koda_error *err)
{
	if (err->code == KODA_POLICY_DENIED)
		return KODA__SWAP_OUTCOME__SWAP_REFUSED;
	return err->code == KODA_CONFLICT ? KODA__SWAP_OUTCOME__SWAP_CONFLICT
					  : KODA__SWAP_OUTCOME__SWAP_FAILED;
}

static int
put_text(struct session *ses, const char *text, ProtobufCBinaryData *ret, struct koda_error *err)
{
	size_t len = strlen(text);
	char *copy = session_alloc(ses, len + 1, err);

	if (copy == NULL)
		return -1;
	memcpy(copy, text, len + 1);
	*ret = bytes_of(copy, len);
	return 0;
}

static int
put_why(struct session *ses, Koda__SwapResult *ret, const struct koda_error *why,
    struct koda_error *err)
{
	ret->has_reason = true;
	ret->has_rule = why->rule[0] != '\0';
	ret->has_errnum = why->errnum != 0;
	ret->errnum = (uint32_t)why->errnum;
	if (put_text(ses, why->message, &ret->reason, err) < 0)
		return -1;
	return ret->has_rule ? put_text(ses, why->rule, &ret->rule, err) : 0;
}

static int
put_side(struct swapping *s, const struct swap_name *at, const struct stat *st,
    Koda__DraftSide **ret, struct koda_error *err)
{
	Koda__DraftSide *side = session_alloc(s->ses, sizeof(*side), err);
	char target[PATH_LEN_MAX + 1];
	ssize_t n;

	if (side == NULL)
		return -1;
	koda__draft_side__init(side);
	side->type = file_type_of(st->st_mode);
	side->dev = st->st_dev;
	side->ino = st->st_ino;
	side->size = (uint64_t)st->st_size;
	side->mode = st->st_mode & 07777;
	side->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
	side->ctime_ns = (int64_t)change_ctime_ns(st);
	*ret = side;
	if (!S_ISLNK(st->st_mode))
		return 0;
	n = readlinkat(at->dir, at->name, target, sizeof(target) - 1);
	if (n < 0 || s->targets + (size_t)n > TARGETS_MAX)
		return 0;
	target[n] = '\0';
	s->targets += (size_t)n;
	side->has_target = true;
	return put_text(s->ses, target, &side->target, err);
}

static bool
is_done(const struct swap *w)
{
	return w->outcome == KODA__SWAP_OUTCOME__SWAP_DONE ||
	    w->outcome == KODA__SWAP_OUTCOME__SWAP_WAS_DONE;
}

static int
put_result(struct swapping *s, const struct swap *w, const struct koda_error *why,
    Koda__SwapResult *ret, struct koda_error *err)
{
	const bool done = is_done(w);

	ret->outcome = w->outcome;
	if (!done)
		return put_why(s->ses, ret, why, err);
	if (w->has_here && put_side(s, &w->place, &w->here, &ret->here, err) < 0)
		return -1;
	return w->has_held ? put_side(s, &w->old, &w->held, &ret->held, err) : 0;
}

/* ---- items ---- */

static enum swap_kind
kind_of(const Koda__SwapItem *item)
{
	if (item->has_mode)
		return SWAP_MODE;
	if (item->has_from)
		return SWAP_SHIFT;
	if (item->has_directory)
		return item->here != NULL ? SWAP_RMDIR : SWAP_MKDIR;
	return item->held != NULL ? SWAP_BRING : SWAP_TAKE;
}

/* Could the item be done? It has been looked at and judged. */
static void
look_further(struct swapping *s, struct swap *w, struct koda_error *why)
{
	const struct place *at = &s->ses->at;
	char lock[GITLOCK_NAME_SIZE], shown[PATH_SHOWN];

	if (w->place.dir < 0)
		swap_conflict(w, "is in a directory that no longer exists, or is a link now", why);
	else if (swap_stat(&w->place) < 0)
		swap_failed(w, "examine", errno, why);
	else if (w->kind != SWAP_MODE && !swap_may_hold(w, why))
		return;
	else if (gitlock_stays(&s->ses->res, at->parent_fd, at->name, at->path, &s->wait_ms,
		     lock)) {
		bytes_show(shown, sizeof(shown), at->path, strlen(at->path));
		w->outcome = KODA__SWAP_OUTCOME__SWAP_CONFLICT;
		err_set(why, KODA_CONFLICT, 0,
		    "'%s' stays as it is: another git is running here (it has '%s'); apply it again "
		    "when that has ended",
		    shown, lock);
	}
}

/* Looks, judges and acts. Returns 0 with w->outcome set, and *why if that is not a success. */
static void
swap_item(struct swapping *s, size_t i, char *name, struct swap *w, struct koda_error *why)
{
	const struct session *ses = s->ses;
	const Koda__SwapItem *item = s->ask->item[i];
	const struct place *at = &ses->at;
	enum swap_state state;

	*w = (struct swap){ .res = &ses->res, .item = item, .kind = kind_of(item) };
	w->outcome = KODA__SWAP_OUTCOME__SWAP_FAILED;
	s->shifts = w->kind == SWAP_SHIFT;
	w->path = at->path;
	if (open_place(s, item) < 0) {
		say(why, KODA_IO, errno, "open the directory of", at->path);
		forget_place(s);
		return;
	}
	w->place = (struct swap_name){ .dir = at->parent_fd, .name = at->name };
	w->old = (struct swap_name){ .dir = ses->old_fd, .name = name };
	w->from_old = !item->has_layer;
	w->source =
	    w->from_old ? w->old : (struct swap_name){ .dir = s->layer_dir, .name = at->name };
	if (w->kind == SWAP_SHIFT && open_from(s, item, w, why) < 0)
		return;
	w->me = ses->euid;
	w->touched = &touched;
	w->verify = verify_place;
	w->data = s;
	across_name(w, s->old_ino);
	w->across = s->across || several_has_copy(&s->several, s->ask, i, w);
	adopt(s, w);
	state = swap_run_look(w, why);
	if (state == SWAP_OVER)
		return;
	if (state == SWAP_FRESH && w->place.dir >= 0 && judge_item(s, w, why) < 0) {
		w->outcome = outcome_of(why);
		swap_run_drop(w);
		return;
	}
	if (state == SWAP_FRESH && s->looking) {
		look_further(s, w, why);
	} else if (state == SWAP_FRESH && s->left_out[i]) {
		swap_run_drop(w);
		w->outcome = KODA__SWAP_OUTCOME__SWAP_CONFLICT;
		*why = s->group_why;
	} else if (!s->looking) {
		swap_run_act(w, state, why);
	}
}

/* Looks at all items of the group of item `i`, and leaves them out if one of them cannot be done. */
static void
look_at_group(struct swapping *s, size_t i)
{
	const uint32_t group = s->ask->item[i]->together;
	bool good = true;

	s->looking = true;
	for (size_t k = i; k < s->ask->n_item; k++) {
		const Koda__SwapItem *item = s->ask->item[k];
		char name[SWAP_NAME_MAX + 1];
		struct koda_error why;
		struct swap w;

		if (!item->has_together || item->together != group)
			continue;
		memcpy(name, item->name.data, item->name.len);
		name[item->name.len] = '\0';
		swap_item(s, k, name, &w, &why);
		if (good && !is_done(&w))
			s->group_why = why;
		good = good && is_done(&w);
	}
	s->looking = false;
	for (size_t k = i; k < s->ask->n_item; k++)
		s->left_out[k] |=
		    !good && s->ask->item[k]->has_together && s->ask->item[k]->together == group;
	forget_place(s);
}

/* Is the item the first one of its group? */
static bool
begins_group(const Koda__Swap *ask, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (ask->item[k]->has_together && ask->item[k]->together == ask->item[i]->together)
			return false;
	return ask->item[i]->has_together;
}

static int
swap_one(struct swapping *s, size_t i, Koda__SwapResult *ret, struct koda_error *err)
{
	const Koda__SwapItem *item = s->ask->item[i];
	char name[SWAP_NAME_MAX + 1];
	struct koda_error why;
	struct swap w;

	memcpy(name, item->name.data, item->name.len);
	name[item->name.len] = '\0';
	if (begins_group(s->ask, i))
		look_at_group(s, i);
	swap_item(s, i, name, &w, &why);
	/* An earlier item, or another process, may have replaced the directories. */
	if (s->cached && w.outcome != KODA__SWAP_OUTCOME__SWAP_DONE &&
	    w.outcome != KODA__SWAP_OUTCOME__SWAP_REFUSED) {
		forget_place(s);
		swap_item(s, i, name, &w, &why);
	}
	several_note(&s->several, s->ask, i, &w);
	return put_result(s, &w, &why, ret, err);
}

/* An item that the host must not send: of a layer that the draft does not have, or for a place that is
 * not in its directory. */
static int
check_layers(const struct session *ses, const Koda__Swap *ask, struct koda_error *err)
{
	for (size_t i = 0; i < ask->n_item; i++) {
		const Koda__SwapItem *item = ask->item[i];
		const char *path;
		size_t n;

		if (!item->has_layer)
			continue;
		if (item->layer >= ses->n_layers)
			return err_set(err, KODA_PROTOCOL, 0, "swap: the draft has no such layer");
		path = ses->layer[item->layer].path;
		n = strlen(path) == 1 ? 0 : strlen(path);
		if (item->place.len <= n + 1 || memcmp(item->place.data, path, n) != 0 ||
		    item->place.data[n] != '/')
			return err_set(err, KODA_PROTOCOL, 0,
			    "swap: the place is not in the layer's directory");
	}
	return 0;
}

int
op_swap(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Swap *ask = req->swap;
	cleanup(swapping_done) struct swapping s = { .ses = ses,
		.ask = ask,
		.layer_dir = -1,
		.from_dir = -1 };
	Koda__SwapReply *msg = session_alloc(ses, sizeof(*msg), err);

	if (msg == NULL)
		return -1;
	if (ses->old_fd < 0)
		return err_set(err, KODA_PROTOCOL, 0, "swap: there is no entry of the history");
	if (check_layers(ses, ask, err) < 0)
		return -1;
	if (mount_of(ses->old_fd, &s.old) < 0)
		return err_set(err, KODA_IO, errno, "examine the history");
	s.old_ino = s.old.stx_ino;
	s.wait_ms = GITLOCK_WAIT_MS;
	koda__swap_reply__init(msg);
	msg->result = session_alloc(ses, ask->n_item * sizeof(*msg->result), err);
	if (msg->result == NULL)
		return -1;
	for (size_t i = 0; i < ask->n_item; i++) {
		msg->result[i] = session_alloc(ses, sizeof(*msg->result[i]), err);
		if (msg->result[i] == NULL)
			return -1;
		koda__swap_result__init(msg->result[i]);
		if (swap_one(&s, i, msg->result[i], err) < 0)
			return -1;
		msg->n_result++;
	}
	rep->result_case = KODA__REPLY__RESULT_SWAP;
	rep->swap = msg;
	return 0;
}
