/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/draft/history_file.h"
#include "host/draft/history_size.h"
#include "host/machine/state.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define OLD "old"

/* ---- making and opening one ---- */

static int
fill_new(struct history *h, const char *root, const char *draft, struct koda_error *err)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	h->begun_ns = h->changed_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	h->root = strdup(root);
	h->draft = strdup(draft == NULL ? "" : draft);
	if (h->root == NULL || h->draft == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "history");
	if (mkdirat(h->fd, OLD, 0700) < 0)
		return err_set(err, KODA_IO, errno, "make an entry of the history");
	return history_file_make(h, err);
}

int
history_make(const char *state, const char *root, const char *draft, struct history *ret,
    struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_history, state, root, true);

	*ret = HISTORY_CLOSED;
	if (all < 0)
		return err_set(err, KODA_IO, errno, "make the history's directory in '%s'", state);
	ret->fd = named_make(&named_history, all, ret->id, err);
	if (ret->fd < 0)
		return -1;
	if (fill_new(ret, root, draft, err) == 0) {
		if (named_appear(&named_history, all, ret->id, err) == 0)
			return 0;
	} else {
		named_give_up(all, ret->id);
	}
	history_close(ret);
	return -1;
}

static int
open_one(int all, const char *id, enum named_lock how, struct history *ret, struct koda_error *err)
{
	*ret = HISTORY_CLOSED;
	ret->fd = named_open(&named_history, all, id, how, err);
	if (ret->fd < 0)
		return -1;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->in_use = how == NAMED_UNLOCKED;
	if (history_file_read(ret, err) == 0)
		return 0;
	history_close(ret);
	return -1;
}

int
history_read_again(struct history *h, struct koda_error *err)
{
	struct history fresh = HISTORY_CLOSED;

	memcpy(fresh.id, h->id, sizeof(fresh.id));
	fresh.fd = h->fd;
	if (history_file_read(&fresh, err) < 0) {
		fresh.fd = -1;
		history_close(&fresh);
		return -1;
	}
	h->fd = -1;
	history_close(h);
	*h = fresh;
	return 0;
}

static int
no_entry(const char *root, const char *id, struct koda_error *err)
{
	return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO, errno == ENOENT ? 0 : errno,
	    "there is no entry '%.40s' in the history of '%.300s'", id, root);
}

int
history_open(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);

	*ret = HISTORY_CLOSED;
	if (all < 0)
		return no_entry(root, id, err);
	return open_one(all, id, NAMED_WAIT, ret, err);
}

int
history_open_at_once(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);

	*ret = HISTORY_CLOSED;
	return all < 0 ? -1 : open_one(all, id, NAMED_AT_ONCE, ret, err);
}

int
history_look(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);

	*ret = HISTORY_CLOSED;
	if (all < 0)
		return no_entry(root, id, err);
	return open_one(all, id, NAMED_AT_ONCE, ret, NULL) == 0
	    ? 0
	    : open_one(all, id, NAMED_UNLOCKED, ret, err);
}

int
history_directory(const char *state, const char *root, const char *id)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);
	struct koda_error dropped;

	return all < 0 ? -1 : named_open(&named_history, all, id, NAMED_UNLOCKED, &dropped);
}

int
history_remove(const char *state, struct history *h, struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_history, state, h->root, false);

	if (all < 0)
		return err_set(err, KODA_IO, errno, "remove entry '%s'", h->id);
	if (named_remove(&named_history, all, h->id, err) < 0)
		return -1;
	history_close(h);
	return 0;
}

/* ---- all of them ---- */

struct entries_found {
	const char *draft; /* those of this one; NULL: all */
	struct history *v;
	size_t n;
};

static void
found_done(struct entries_found *f)
{
	while (f->n > 0)
		history_close(&f->v[--f->n]);
	free(f->v);
}

static int
by_age(const void *a, const void *b)
{
	const struct history *x = a, *y = b;

	if (x->begun_ns != y->begun_ns)
		return x->begun_ns < y->begun_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Reads what the entry is of; one that is damaged, or was removed meanwhile, is left out. */
static int
on_name(void *data, int all, const char *id)
{
	struct entries_found *f = data;
	struct history *grown = reallocarray(f->v, f->n + 1, sizeof(*grown)), *one;

	if (grown == NULL)
		return -1;
	f->v = grown;
	one = &f->v[f->n];
	*one = HISTORY_CLOSED;
	one->fd = named_open(&named_history, all, id, NAMED_UNLOCKED, NULL);
	if (one->fd < 0 || history_file_read_about(one, NULL) < 0 ||
	    (f->draft != NULL && strcmp(one->draft, f->draft) != 0)) {
		history_close(one);
		return 0;
	}
	snprintf(one->id, sizeof(one->id), "%s", id);
	close_at(&one->fd);
	one->fd = -1;
	f->n++;
	return 0;
}

/* Only one entry is in memory at a time: each can be of a million changes. */
static int
show_one(const struct history *found, const char *state, history_each_fn *fn, void *data)
{
	cleanup_close int all = named_open_all(&named_history, state, found->root, false);
	struct history h;
	int r;

	if (all < 0 ||
	    (open_one(all, found->id, NAMED_AT_ONCE, &h, NULL) < 0 &&
		open_one(all, found->id, NAMED_UNLOCKED, &h, NULL) < 0))
		return 0;
	h.bytes = history_size(h.fd, !h.in_use);
	/* A lock until the end would stop others. */
	close_at(&h.items);
	close_at(&h.fd);
	h.fd = h.items = -1;
	r = fn(data, &h);
	history_close(&h);
	return r;
}

static int
on_root(void *data, int all)
{
	return named_list(&named_history, all, on_name, data, NULL);
}

static int
list(const char *state, const char *root, const char *draft, history_each_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_close int all =
	    root == NULL ? -1 : named_open_all(&named_history, state, root, false);
	cleanup(found_done) struct entries_found f = { .draft = draft };
	int r = 0;

	if (root == NULL)
		r = named_roots(&named_history, state, on_root, &f, err);
	else if (all >= 0)
		r = named_list(&named_history, all, on_name, &f, err);
	else if (errno != ENOENT)
		return err_set(err, KODA_IO, errno, "open the history in '%s'", state);
	if (r < 0)
		return -1;
	if (f.n > 1)
		qsort(f.v, f.n, sizeof(*f.v), by_age);
	for (size_t i = 0; r == 0 && i < f.n; i++)
		r = show_one(&f.v[i], state, fn, data);
	return r;
}

int
history_list(const char *state, const char *root, history_each_fn *fn, void *data,
    struct koda_error *err)
{
	return list(state, root, NULL, fn, data, err);
}

int
history_of_draft(const char *state, const char *root, const char *draft, history_each_fn *fn,
    void *data, struct koda_error *err)
{
	return list(state, root, draft, fn, data, err);
}

/* ---- what a killed host began ---- */

static int
find_begun(void *data, const struct history *h)
{
	bool turning = false, pending = false;

	if (!h->unfinished || h->in_use)
		return 0;
	for (size_t i = 0; i < h->n_items; i++) {
		turning |= h->item[i].turning;
		pending |= h->item[i].state == ITEM_PENDING;
	}
	/* Without either, everything was done, but perhaps not written to disk. */
	if (turning && !pending)
		return 0;
	snprintf(data, NAMED_ID_MAX + 1, "%s", h->id);
	return 1;
}

int
history_begun(const char *state, const char *root, const char *draft, char ret[NAMED_ID_MAX + 1],
    struct koda_error *err)
{
	return list(state, root, draft, find_begun, ret, err);
}
