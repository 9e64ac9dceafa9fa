/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/drafts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/lower_names.h"
#include "stage2/mounts.h"
#include "stage2/overlay.h"
#include "stage2/view.h"

const char *
drafts_valid(const Koda__Drafts *d)
{
	if (d->n_place == 0 || d->n_place > DRAFTS_PLACES_MAX)
		return "a draft of nothing, or of too much";
	if (!path_is_canonical(d->layers.data, d->layers.len))
		return "a draft's directory that is not canonical";
	for (size_t i = 0; i < d->n_place; i++) {
		const Koda__DraftPlace *p = d->place[i];

		if (!path_is_canonical(p->path.data, p->path.len) || p->path.len == 1)
			return "a place of a draft that is not canonical";
		if (!path_is_relative(p->name.data, p->name.len) ||
		    memchr(p->name.data, '/', p->name.len) != NULL || p->name.len > NAME_MAX - 2)
			return "a layer of a draft that is not a name";
	}
	return NULL;
}

/* Takes over the context, also on failure. */
static int
note_overlay(struct slot_view *v, const char *path, int context, struct koda_error *err)
{
	cleanup_close int root = resolve(AT_FDCWD, path), held = context;
	struct stat st;

	if (root < 0 || fstat(root, &st) < 0)
		return err_set(err, KODA_INTERNAL, errno, "open the draft of '%s'", path);
	/* Where this fails, commands would work with names that are out of date. */
	if (overlay_refresh(held) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "refresh the draft of '%s'", path);
	v->draft[v->n_drafts++] = (struct view_draft){ st.st_dev, take_fd(&held) };
	return 0;
}

static int
mount_place(struct slot_view *v, int layers, const Koda__DraftPlace *p, struct koda_error *err)
{
	cleanup_close int at = -1, mask = -1, upper = -1, work = -1, mnt = -1, context = -1;
	char path[PATH_MAX], name[NAME_MAX + 1];
	struct stat st;

	snprintf(path, sizeof(path), "%.*s", (int)p->path.len, (const char *)p->path.data);
	at = resolve(AT_FDCWD, path);
	if (at < 0 || fstat(at, &st) < 0)
		return err_set(err, KODA_INTERNAL, errno, "open '%s', which gets a draft", path);
	if (!S_ISDIR(st.st_mode) || st.st_dev != p->dev || st.st_ino != p->ino)
		return err_set(err, KODA_INVALID, 0, "'%s' was replaced while the sandbox started",
		    path);
	snprintf(name, sizeof(name), "%.*s/u", (int)p->name.len, (const char *)p->name.data);
	upper = open_beneath(layers, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	snprintf(name, sizeof(name), "%.*s/w", (int)p->name.len, (const char *)p->name.data);
	work = open_beneath(layers, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	snprintf(name, sizeof(name), "%.*s/m", (int)p->name.len, (const char *)p->name.data);
	mask = open_beneath(layers, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	if (upper < 0 || work < 0 || mask < 0)
		return err_set(err, KODA_INTERNAL, errno, "open the draft of '%s'", path);
	mnt = overlay_new((const int[]){ mask, at }, 2, upper, work, &context, err);
	if (mnt < 0)
		return err_wrap(err, "make the draft of a directory");
	if (attach(mnt, at) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount the draft of '%s'", path);
	lower_names_add(v->lower_names, take_fd(&at));
	return note_overlay(v, path, take_fd(&context), err);
}

static bool
is_noted(const struct slot_view *v, dev_t dev)
{
	for (size_t i = 0; i < v->n_drafts; i++)
		if (v->draft[i].dev == dev)
			return true;
	return false;
}

bool
drafts_have(const struct slot_view *v, int fd, struct stat *st)
{
	struct statfs fs;
	dev_t dev;

	if (v->n_drafts == 0 || fstatfs(fd, &fs) < 0 ||
	    (unsigned long)fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return false;
	if (!is_noted(v, st->st_dev)) {
		if (mounts_device(mount_id(fd), &dev) < 0 || !is_noted(v, dev))
			return false;
		st->st_dev = dev;
	}
	return st->st_ino <= UINT32_MAX;
}

int
drafts_mount(struct slot_view *v, const Koda__Drafts *d, struct koda_error *err)
{
	cleanup_close int layers = -1;
	char path[PATH_MAX];

	if (d == NULL)
		return 0;
	snprintf(path, sizeof(path), "%.*s", (int)d->layers.len, (const char *)d->layers.data);
	layers = resolve(AT_FDCWD, path);
	if (layers < 0)
		return err_set(err, KODA_INTERNAL, errno, "open '%s', where the draft is", path);
	v->lower_names = lower_names_new();
	v->draft = calloc(d->n_place, sizeof(*v->draft));
	if (v->draft == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "drafts");
	for (size_t i = 0; i < d->n_place; i++)
		if (mount_place(v, layers, d->place[i], err) < 0)
			return -1;
	return view_cover(v, layers) < 0
	    ? err_set(err, KODA_INTERNAL, errno, "hide the draft's directory")
	    : 0;
}

int
drafts_refresh(struct slot_view *v)
{
	if (v->n_drafts == 0)
		return 0;
	v->stale = lower_names_changed(v->lower_names) || v->stale;
	for (size_t i = 0; i < v->n_drafts && v->stale; i++)
		if (overlay_refresh(v->draft[i].context) < 0)
			return -1;
	v->stale = false;
	return 0;
}
