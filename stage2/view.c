/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/view.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/absent.h"
#include "stage2/hidden.h"
#include "stage2/mirror.h"
#include "stage2/mount_pass.h"
#include "stage2/mounts.h"
#include "stage2/own_mounts.h"

struct slot_view *
view_new(uint64_t bytes, struct koda_error *err)
{
	cleanup_free struct slot_view *v = calloc(1, sizeof(*v));

	if (v == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "view");
		return NULL;
	}
	/* bwrap's mount namespace belongs to the outer user namespace. In a copy of it stage2
	 * may mount. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "mount namespace");
		return NULL;
	}
	return hidden_make(bytes, &v->memory_fd, &v->hidden_fd, err) < 0 ? NULL : take_ptr(&v);
}

int
view_set_roots(struct slot_view *v, const Koda__Boot *b, struct koda_error *err)
{
	v->root = calloc(b->n_writable + 1, sizeof(*v->root));
	for (size_t i = 0; v->root != NULL && i <= b->n_writable; i++) {
		const ProtobufCBinaryData *from = i < b->n_writable ? &b->writable[i] : &b->root;

		v->root[i] = strndup((const char *)from->data, from->len);
		if (v->root[i] == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "view");
		v->n_roots++;
	}
	return v->root != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "view");
}

int
view_cover(const struct slot_view *v, int at)
{
	cleanup_close int mnt = hidden_clone(v->hidden_fd, true);

	return mnt < 0 ? -1 : attach(mnt, at);
}

static void
forget_plan(struct slot_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->entry[i].path);
		mirror_free(v->entry[i].mirror);
	}
	free(v->entry);
	free(v->former);
	v->entry = NULL;
	v->former = NULL;
	v->n = v->n_former = 0;
}

static int
copy_plan(struct slot_view *v, Koda__Mount *const *mounts, size_t n, struct koda_error *err)
{
	v->entry = calloc(n + 1, sizeof(*v->entry));
	if (v->entry == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
	for (size_t i = 0; i < n; i++) {
		struct view_entry *e = &v->entry[i];

		e->kind = mounts[i]->kind;
		e->path = strndup((const char *)mounts[i]->path.data, mounts[i]->path.len);
		if (e->path == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		e->plain = mounts[i]->has_plain && mounts[i]->plain;
		e->dev = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->dev : 0;
		e->ino = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->ino : 0;
		e->outside = mounts[i]->has_outside && mounts[i]->outside;
		v->n++;
	}
	return 0;
}

int
view_mount(struct slot_view *v, Koda__Mount *const *mounts, size_t n, bool idle,
    struct koda_error *err)
{
	struct mount_pass p;
	int r;

	if (own_mounts_unmount_all(v, err) < 0)
		return -1;
	forget_plan(v);
	if (copy_plan(v, mounts, n, err) < 0 || absent_add_mirrors(v, err) < 0)
		return -1;
	if (mount_pass_init(&p, v, err) < 0)
		return -1;
	for (size_t i = 0; i < v->n; i++)
		p.todo[i] = true;
	if (idle)
		mount_pass_leave_uncovered(v, &p);
	r = mount_pass_run(v, &p, err);
	mount_pass_done(&p, v->n);
	return r;
}

/* Returns true if the place shows the entry's mount, or one that the plan mounts there after it. */
static bool
is_mounted(const struct slot_view *v, const struct view_entry *e)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);
	int64_t id = fd < 0 ? -1 : mount_id(fd);

	/* Where stage2's user may not look, no process in the sandbox can change anything
	 * either. */
	if (fd < 0 && errno == EACCES && e->mount_id >= 0)
		return true;
	if (id < 0 || e->mount_id < 0)
		return false;
	for (const struct view_entry *o = e; o < v->entry + v->n; o++)
		if (o->there && o->mount_id == id && strcmp(o->path, e->path) == 0)
			return true;
	return false;
}

int
view_repair(struct slot_view *v, size_t *ret_lost, struct koda_error *err)
{
	size_t repaired = 0, lost = 0;
	struct mount_pass p;
	int r;

	if (mount_pass_init(&p, v, err) < 0)
		return -1;
	p.again = true;
	for (size_t i = 0; i < v->n; i++) {
		p.todo[i] = v->entry[i].there && !is_mounted(v, &v->entry[i]);
		/* An entry inside one that is mounted again is mounted again with it. If it was not
		 * mounted before, it is not missed. */
		if (p.cover[i] >= 0 && p.todo[p.cover[i]])
			p.todo[i] = true;
		p.expected[i] = p.todo[i] && v->entry[i].there;
	}
	for (size_t i = 0; i < v->n; i++)
		if (p.todo[i] && own_mounts_keep_former(v, v->entry[i].mount_id) < 0) {
			mount_pass_done(&p, v->n);
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		}
	r = mount_pass_run(v, &p, err);
	for (size_t i = 0; i < v->n; i++) {
		repaired += p.expected[i] && v->entry[i].there;
		v->entry[i].late = v->entry[i].late ||
		    (p.todo[i] && v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE &&
			!v->entry[i].outside && !v->entry[i].uncovered);
		/* A place that a mirror never shows is not expected to appear. */
		lost += p.expected[i] && !v->entry[i].there && !v->entry[i].masked;
	}
	mount_pass_done(&p, v->n);
	if (r < 0)
		return -1;
	*ret_lost = lost;
	return (int)repaired;
}

size_t
view_uncover(struct slot_view *v)
{
	size_t n = 0;

	for (size_t i = v->n; i > 0; i--) {
		struct view_entry *e = &v->entry[i - 1];

		if (!e->late || !e->there)
			continue;
		own_mounts_unmount(e->mount_id, e->path);
		e->there = false;
		e->uncovered = true;
		n++;
		/* Holes are mounted inside what hides, and go with it. */
		for (size_t k = i; k < v->n; k++)
			if (view_entry_is_hole(&v->entry[k]) &&
			    view_entry_is_below(v->entry[k].path, e->path))
				v->entry[k].there = false;
	}
	return n;
}

int
view_add_linked(struct slot_view *v, const char *path, size_t *ret)
{
	struct view_entry *e, *unused = NULL;
	size_t n = 0;
	char *copy;

	for (size_t i = 0; i < v->n; i++) {
		e = &v->entry[i];
		/* It, or a directory above it, is already hidden or to be hidden. */
		if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE && path_is_inside(path, e->path))
			return 0;
		n += e->linked;
		if (e->linked && !e->there && !e->late && unused == NULL)
			unused = e;
	}
	if (n >= VIEW_LINKED_MAX && unused == NULL) {
		errno = E2BIG;
		return -1;
	}
	copy = strdup(path);
	if (copy == NULL)
		return -1;
	if (n < VIEW_LINKED_MAX) {
		e = reallocarray(v->entry, v->n + 2, sizeof(*e));
		if (e == NULL) {
			free(copy);
			return -1;
		}
		v->entry = e;
		unused = &e[v->n++];
		*unused = (struct view_entry){ .path = NULL };
	}
	free(unused->path);
	*unused = (struct view_entry){ .kind = KODA__MOUNT_KIND__MOUNT_KIND_HIDE,
		.path = copy,
		.linked = true,
		.mount_id = -1 };
	*ret = (size_t)(unused - v->entry);
	return 1;
}

void
view_changed(struct slot_view *v, int fd)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].mirror != NULL && v->entry[i].there)
			mirror_changed(v->entry[i].mirror, fd);
}

void
view_catch_up(struct slot_view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].mirror != NULL && v->entry[i].there)
			mirror_catch_up(v->entry[i].mirror);
}
