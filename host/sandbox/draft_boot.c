/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/draft_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/draft/fit.h"
#include "host/draft/history.h"
#include "host/draft/mask.h"
#include "host/sandbox/bwrap.h"
#include "shared/base/cleanup.h"

bool
draft_boot_any(const struct sandbox *sb)
{
	return sb->drafted;
}

/* What commands write in the project and beside it: all but caches, which have layers. */
static size_t
find_directories(const struct sandbox *sb, const char **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < sb->view.n_writable; i++) {
		struct stat st;

		if (view_binds(&sb->view, sb->view.writable[i]) &&
		    lstat(sb->view.writable[i], &st) == 0)
			ret[n++] = sb->view.writable[i];
	}
	return n;
}

static const struct draft_dir *
find_dir(const struct draft *d, const char *path)
{
	for (size_t i = 0; i < d->n_dirs; i++)
		if (strcmp(d->dir[i].path, path) == 0)
			return &d->dir[i];
	return NULL;
}

/* A draft goes on only over the directories that it began with. */
static int
check_same(const struct draft *d, const char *const *dirs, size_t n, struct koda_error *err)
{
	if (n != d->n_dirs)
		return err_set(err, KODA_CONFLICT, 0,
		    "draft '%s' is of other directories than the policy allows writing now: apply "
		    "or discard it",
		    d->id);
	for (size_t i = 0; i < n; i++) {
		const struct draft_dir *dir = find_dir(d, dirs[i]);
		struct stat st;

		if (dir == NULL || lstat(dirs[i], &st) < 0 || st.st_dev != dir->dev ||
		    st.st_ino != dir->ino)
			return err_set(err, KODA_CONFLICT, 0,
			    "'%.300s' was replaced since draft '%s' began: discard the draft",
			    dirs[i], d->id);
	}
	return 0;
}

/* What is left of an apply is done from the draft later, as it was decided: no command may change it
 * before. */
static int
check_whole(const struct sandbox *sb, struct koda_error *err)
{
	char entry[NAMED_ID_MAX + 1];
	int r = history_begun(sb->ses->state, sb->ses->root, sb->draft.id, entry, err);

	return r == 1
	    ? err_set(err, KODA_CONFLICT, 0,
		  "draft '%s' was not applied to the end: look at it, apply or discard it, "
		  "first",
		  sb->draft.id)
	    : r;
}

static int
make_new(struct sandbox *sb, const char *const *dirs, size_t n, struct koda_error *err)
{
	const char *state = sb->ses->state;

	if (draft_make(state, sb->ses->root, dirs, n, &sb->draft, err) < 0)
		return err != NULL && err->code == KODA_IO ? draft_fit_remedy(err, state) : -1;
	sb->draft_unused = true;
	return draft_fit_layers(state, &sb->draft, err);
}

void
draft_boot_close(struct sandbox *sb)
{
	if (sb->draft_unused && sb->draft.fd >= 0)
		draft_discard(sb->ses->state, &sb->draft, NULL);
	draft_close(&sb->draft);
}

int
draft_boot_open(struct sandbox *sb, const char *id, struct koda_error *err)
{
	cleanup_free const char **dirs = calloc(sb->view.n_writable + 1, sizeof(*dirs));
	size_t n;

	if (dirs == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	if (sb->ses->state == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "there is no place for drafts: neither XDG_STATE_HOME nor the home directory "
		    "is a directory: set XDG_STATE_HOME, or work without a draft");
	n = find_directories(sb, dirs);
	if (n == 0)
		return err_set(err, KODA_INVALID, 0,
		    "there is nothing to draft: the policy lets commands write nothing");
	if (draft_fit_directories(sb->ses->state, dirs, n, err) < 0)
		return -1;
	if (id[0] == '\0')
		return make_new(sb, dirs, n, err);
	if (draft_open(sb->ses->state, sb->ses->root, id, &sb->draft, err) < 0)
		return -1;
	return check_whole(sb, err) < 0 ? -1 : check_same(&sb->draft, dirs, n, err);
}

static int
mask_hidden(const struct sandbox *sb, struct koda_error *err)
{
	const struct view *v = &sb->view;

	if (draft_mask_clear(&sb->draft, err) < 0)
		return -1;
	for (size_t i = 0; i < v->n_mounts; i++)
		if (v->mount[i].kind == VIEW_HIDE &&
		    draft_mask_add(&sb->draft, v->mount[i].path, err) < 0)
			return -1;
	return 0;
}

int
draft_boot_fd(const struct sandbox *sb, int *ret, int first, int *fds, size_t *n_fds,
    struct koda_error *err)
{
	*ret = -1;
	if (!draft_boot_any(sb))
		return 0;
	if (draft_renew(&sb->draft, err) < 0 || mask_hidden(sb, err) < 0)
		return -1;
	fds[*n_fds] = openat(sb->draft.fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fds[*n_fds] < 0)
		return err_set(err, KODA_INTERNAL, errno, "open the draft");
	*ret = first + (int)(*n_fds)++;
	return 0;
}

void
draft_boot_fill(const struct sandbox *sb, struct draft_boot *ret)
{
	koda__drafts__init(&ret->message);
	ret->message.layers = message_text(BWRAP_DRAFT);
	for (size_t i = 0; i < sb->draft.n_dirs; i++) {
		const struct draft_dir *from = &sb->draft.dir[i];

		koda__draft_place__init(&ret->place[i]);
		ret->place[i].path = message_text(from->path);
		ret->place[i].name = message_text(from->name);
		ret->place[i].dev = (uint64_t)from->dev;
		ret->place[i].ino = (uint64_t)from->ino;
		ret->list[i] = &ret->place[i];
	}
	ret->message.place = ret->list;
	ret->message.n_place = sb->draft.n_dirs;
}

int
draft_boot_told(struct sandbox *sb, const Koda__Booted *booted, struct koda_error *err)
{
	if (!draft_boot_any(sb))
		return 0;
	if (!booted->has_root_dev || !booted->has_root_ino)
		return err_set(err, KODA_PROTOCOL, 0, "the sandbox reported no root for its draft");
	sb->draft_unused = false;
	sb->root_dev = (dev_t)booted->root_dev;
	sb->root_ino = (ino_t)booted->root_ino;
	return 0;
}
