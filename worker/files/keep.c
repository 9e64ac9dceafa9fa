/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/copy.h"
#include "worker/files/keep_log.h"
#include "worker/files/tree.h"
#include "worker/files/type.h"

/* A copy has this name until it is complete. */
#define PART_NAME "part.copy"
/* What a name in a directory takes on the disk, about: a block. */
#define NAME_BYTES 4096

bool
keep_is_on(const struct session *ses)
{
	return ses->old_fd >= 0 && !ses->keep.off;
}

/* ---- records ---- */

/* One record, and the memory that it points to. */
struct keep_item {
	Koda__HistoryItem msg;
	Koda__SwapItem swap;
	Koda__DraftSide before, after, was;
	char name[SWAP_NAME_MAX + 1];
};

static void
put_side(Koda__DraftSide *ret, const struct stat *st)
{
	koda__draft_side__init(ret);
	ret->type = file_type_of(st->st_mode);
	ret->dev = st->st_dev;
	ret->ino = st->st_ino;
	ret->size = (uint64_t)st->st_size;
	ret->mode = st->st_mode & 07777;
	ret->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
	ret->ctime_ns = (int64_t)change_ctime_ns(st);
}

/* The history has a copy of what was at the place. */
static void
item_was(struct keep_item *item, const struct stat *was)
{
	if (item->msg.before == NULL ||
	    (item->before.ino == was->st_ino && item->before.dev == was->st_dev))
		return;
	put_side(&item->was, was);
	item->msg.was = &item->was;
}

/* before and after may be NULL: nothing. */
static void
item_init(struct keep_item *item, const struct session *ses, unsigned part, Koda__DraftKind kind,
    ProtobufCBinaryData path, const struct stat *before, const struct stat *after)
{
	keep_name(item->name, ses->token, ses->id, part);
	koda__history_item__init(&item->msg);
	koda__swap_item__init(&item->swap);
	item->swap.name = bytes_of(item->name, strlen(item->name));
	item->swap.place = path;
	item->msg.item = &item->swap;
	item->msg.kind = kind;
	if (before != NULL) {
		put_side(&item->before, before);
		item->msg.before = &item->before;
	}
	if (after != NULL) {
		put_side(&item->after, after);
		item->msg.after = &item->after;
	}
}

static void
say_unkept(Koda__Outcome *out, const char *why)
{
	out->has_unkept = true;
	out->unkept = bytes_of(why, strlen(why));
}

static void
tell_kept(struct session *ses, Koda__Outcome *out)
{
	out->kept += ses->keep.bytes - ses->keep.told;
	out->has_kept = out->kept > 0;
	ses->keep.told = ses->keep.bytes;
}

static void
write_down(struct session *ses, struct keep_item *item, const char *unkept, Koda__Outcome *out)
{
	if (unkept != NULL) {
		say_unkept(out, unkept);
		item->msg.has_unkept = true;
		item->msg.unkept = out->unkept;
	}
	tell_kept(ses, out);
	if (keep_log_item(ses, &item->msg) == 0) {
		ses->keep.recorded = ses->id;
		return;
	}
	say_unkept(out,
	    errno == ENOSPC || errno == EDQUOT ? "there is no space left where the history is"
					       : "the history cannot be written");
	tree_remove(ses->old_fd, item->name);
}

/* ---- keeping ---- */

static const char *
copy_problem(const struct copy *c, int error)
{
	if (error == EFBIG || c->bytes > KEEP_COPY_MAX || c->entries > KEEP_COPY_ENTRIES_MAX)
		return "the history is on another file system, and this is too large to copy";
	if (error == ENOSPC || error == EDQUOT)
		return "there is no space left where the history is";
	return "it cannot be copied to the history";
}

/* Copies what has the name to `old`. *st becomes the copy's. Returns NULL, or why it is not kept. */
static const char *
copy_old(struct session *ses, int dir_fd, const char *from, const char *name, struct stat *st)
{
	struct copy measured = { .res = &ses->res }, copied = { .res = &ses->res };
	struct stat kept;
	int r;

	if (S_ISREG(st->st_mode) && (uint64_t)st->st_size > KEEP_COPY_MAX)
		return copy_problem(&measured, EFBIG);
	r = S_ISDIR(st->st_mode) ? copy_measure(&measured, dir_fd, from) : 0;
	if (r < 0 || measured.bytes > KEEP_COPY_MAX || measured.entries > KEEP_COPY_ENTRIES_MAX)
		return copy_problem(&measured, r < 0 ? errno : EFBIG);
	tree_remove(ses->old_fd, PART_NAME);
	r = copy_name(&copied, dir_fd, from, ses->old_fd, PART_NAME);
	if (r == 0 && !copied.changed)
		r = renameat2(ses->old_fd, PART_NAME, ses->old_fd, name, 0);
	if (r == 0 && !copied.changed &&
	    fstatat(ses->old_fd, name, &kept, AT_SYMLINK_NOFOLLOW) == 0) {
		ses->keep.bytes += (uint64_t)kept.st_blocks * 512 + copied.bytes;
		*st = kept;
		return NULL;
	}
	r = errno;
	tree_remove(ses->old_fd, PART_NAME);
	return copied.changed ? "another process changed it meanwhile" : copy_problem(&copied, r);
}

/* Gives what has the name, which is *st, a name in `old`, too. Returns NULL, with *st of what is there;
 * or why not. */
static const char *
keep_old(struct session *ses, int dir_fd, const char *from, const char *name, struct stat *st)
{
	if (ses->keep.bytes > KEEP_BYTES_MAX)
		return "this worker has kept as much as it may";
	if (linkat(dir_fd, from, ses->old_fd, name, 0) == 0) {
		ses->keep.bytes += (uint64_t)st->st_blocks * 512;
		return NULL;
	}
	/* An earlier attempt of the same request was given up. */
	if (errno == EEXIST && tree_remove(ses->old_fd, name) == 0 &&
	    linkat(dir_fd, from, ses->old_fd, name, 0) == 0)
		return NULL;
	/* It is somewhere else, or may not have more names. */
	return copy_old(ses, dir_fd, from, name, st);
}

/* ---- Write, Edit, Mkdir ---- */

/* The directories that are made on the way, and then what is in the last one. */
static void
created_below(struct session *ses, const struct place *at, const char *temp, Koda__Outcome *out)
{
	const char *rest = at->missing;
	cleanup_close int dir = -1;
	struct stat st;

	dir = openat(at->parent_fd, temp, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (unsigned part = 1; dir >= 0 && *rest != '\0'; part++) {
		const size_t n = strcspn(rest, "/");
		char name[NAME_LEN_MAX + 1];
		struct keep_item item;
		int next;

		snprintf(name, sizeof(name), "%.*s", (int)n, rest);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return;
		rest += n;
		item_init(&item, ses, part, KODA__DRAFT_KIND__DRAFT_CREATED,
		    bytes_of(at->path, (size_t)(rest - at->path)), NULL, &st);
		write_down(ses, &item, NULL, out);
		rest += *rest == '/';
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(dir);
		dir = next;
	}
}

void
keep_change(struct session *ses, const struct place *at, const char *temp, Koda__Outcome *out)
{
	const bool replaces = at->target_fd >= 0;
	struct stat before = at->st, after;
	struct keep_item item;
	const char *unkept = NULL;

	if (!keep_is_on(ses) || fstatat(at->parent_fd, temp, &after, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	keep_name(item.name, ses->token, ses->id, 0);
	if (replaces)
		unkept = keep_old(ses, at->parent_fd, at->name, item.name, &before);
	item_init(&item, ses, 0,
	    replaces ? KODA__DRAFT_KIND__DRAFT_CHANGED : KODA__DRAFT_KIND__DRAFT_CREATED,
	    bytes_of(at->path, (size_t)(at->name - at->path) + place_name_len(at)),
	    replaces ? &before : NULL, &after);
	item_was(&item, &at->st);
	write_down(ses, &item, unkept, out);
	if (*at->missing != '\0')
		created_below(ses, at, temp, out);
}

/* ---- Remove, Rename ---- */

/* Does rename(2) go from there to `old`? Mounts of one file system are apart, too. */
static bool
can_move(const struct session *ses, int dir_fd)
{
	const unsigned want = STATX_MNT_ID;
	struct statx a, b;

	if (statx(dir_fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, want, &a) < 0 ||
	    statx(ses->old_fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, want, &b) < 0)
		return false;
	return a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor &&
	    ((a.stx_mask & b.stx_mask & want) == 0 || a.stx_mnt_id == b.stx_mnt_id);
}

bool
keep_remove(struct session *ses, const struct place *at, Koda__Outcome *out)
{
	struct stat before = at->st;
	struct keep_item item;
	const char *unkept = NULL;
	bool moves;

	if (!keep_is_on(ses))
		return false;
	moves = S_ISDIR(before.st_mode) && can_move(ses, at->parent_fd);
	keep_name(item.name, ses->token, ses->id, 0);
	if (!moves)
		unkept = keep_old(ses, at->parent_fd, at->name, item.name, &before);
	item_init(&item, ses, 0, KODA__DRAFT_KIND__DRAFT_DELETED,
	    bytes_of(at->path, strlen(at->path)), &before, NULL);
	item_was(&item, &at->st);
	write_down(ses, &item, unkept, out);
	return moves && keep_is_on(ses);
}

int
keep_removed(struct session *ses, const uint8_t token[TOKEN_BYTES], uint64_t request, int dir_fd,
    const char *temp)
{
	char name[SWAP_NAME_MAX + 1];

	if (ses->old_fd < 0)
		return -1;
	keep_name(name, token, request, 0);
	return tree_rename_new(dir_fd, temp, ses->old_fd, name);
}

void
keep_measure(struct session *ses, Koda__Outcome *out)
{
	struct copy c = { .res = &ses->res };
	char name[SWAP_NAME_MAX + 1];

	keep_name(name, ses->token, ses->id, 0);
	/* As far as it goes: the host measures the whole, later and without haste. */
	copy_measure(&c, ses->old_fd, name);
	ses->keep.bytes +=
	    c.bytes > out->entries * NAME_BYTES ? c.bytes : out->entries * NAME_BYTES;
	tell_kept(ses, out);
}

void
keep_rename(struct session *ses, const struct place *from, const struct place *to,
    Koda__Outcome *out)
{
	struct stat before = to->st;
	struct keep_item item;
	const char *unkept;

	if (!keep_is_on(ses))
		return;
	if (to->target_fd >= 0) {
		keep_name(item.name, ses->token, ses->id, 0);
		unkept = keep_old(ses, to->parent_fd, to->name, item.name, &before);
		item_init(&item, ses, 0, KODA__DRAFT_KIND__DRAFT_DELETED,
		    bytes_of(to->path, strlen(to->path)), &before, NULL);
		item_was(&item, &to->st);
		write_down(ses, &item, unkept, out);
	}
	item_init(&item, ses, 1, KODA__DRAFT_KIND__DRAFT_RENAMED,
	    bytes_of(from->path, strlen(from->path)), &from->st, &from->st);
	item.msg.has_to = true;
	item.msg.to = bytes_of(to->path, strlen(to->path));
	write_down(ses, &item, NULL, out);
}

/* ---- what did not happen ---- */

void
keep_forget(struct session *ses, const uint8_t token[TOKEN_BYTES], uint64_t request)
{
	char name[SWAP_NAME_MAX + 1];

	if (ses->old_fd < 0)
		return;
	keep_name(name, token, request, 0);
	if (keep_is_on(ses))
		keep_log_not_done(ses, name);
	tree_remove(ses->old_fd, name);
}

void
keep_not_done(struct session *ses)
{
	if (ses->keep.recorded == ses->id)
		keep_forget(ses, ses->token, ses->id);
}
