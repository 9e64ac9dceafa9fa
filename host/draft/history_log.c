/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/wire/message.h"

/* Some millions of changes. */
#define LOG_BYTES_MAX (UINT64_C(1) << 30)
#define LOGS_MAX      100000
#define LOG_NAME_LEN  (2 * TOKEN_BYTES + sizeof(HISTORY_LOG_SUFFIX) - 1)

/* A record, before the records of all logs are put in order. */
struct log_record {
	int64_t at_ns;
	size_t log, number;
	struct history_item item; /* place NULL: it says that the one of that name did not happen */
	struct draft_side was;    /* what was at the place, if what is held is a copy */
};

struct log_records {
	struct log_record *v;
	size_t n, size;
};

static void
records_done(struct log_records *r)
{
	for (size_t i = 0; i < r->n; i++) {
		history_item_done(&r->v[i].item);
		side_done(&r->v[i].was);
	}
	free(r->v);
}

/* ---- one item ---- */

static bool
is_name(const ProtobufCBinaryData *name)
{
	if (name->len == 0 || name->len > SWAP_NAME_MAX)
		return false;
	for (size_t i = 0; i < name->len; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyz0123456789-", name->data[i]) == NULL ||
		    name->data[i] == '\0')
			return false;
	return true;
}

static char *
text_of(const ProtobufCBinaryData *b)
{
	return memchr(b->data == NULL ? (const uint8_t *)"" : b->data, '\0', b->len) == NULL
	    ? strndup(b->data == NULL ? "" : (const char *)b->data, b->len)
	    : NULL;
}

int
history_item_take(struct history_item *item, const Koda__HistoryItem *msg, struct koda_error *err)
{
	const Koda__SwapItem *swap = msg->item;
	const bool renamed = msg->kind == KODA__DRAFT_KIND__DRAFT_RENAMED;

	if (!is_name(&swap->name) || !path_is_canonical(swap->place.data, swap->place.len) ||
	    swap->place.len == 1 || msg->has_to != renamed ||
	    (renamed && (!path_is_canonical(msg->to.data, msg->to.len) || msg->to.len == 1)))
		return err_set(err, KODA_IO, 0, "a damaged change");
	memcpy(item->name, swap->name.data, swap->name.len);
	item->place = text_of(&swap->place);
	item->layer = swap->layer;
	item->take = swap->has_take && swap->take;
	item->kind = msg->kind;
	item->to = renamed ? text_of(&msg->to) : NULL;
	item->unkept = msg->has_unkept ? text_of(&msg->unkept) : NULL;
	if (item->place == NULL || (renamed && item->to == NULL))
		return err_set(err, KODA_INTERNAL, ENOMEM, "history");
	return side_take(&item->before, msg->before, err) < 0 ||
		side_take(&item->after, msg->after, err) < 0
	    ? -1
	    : 0;
}

/* ---- one log, which an untrusted worker wrote ---- */

/* Do the sides fit the kind? */
static bool
sides_fit(const Koda__HistoryItem *m)
{
	const bool before = m->before != NULL, after = m->after != NULL;

	switch (m->kind) {
	case KODA__DRAFT_KIND__DRAFT_CREATED:
		return !before && after;
	case KODA__DRAFT_KIND__DRAFT_DELETED:
		return before && !after;
	case KODA__DRAFT_KIND__DRAFT_CHANGED:
	case KODA__DRAFT_KIND__DRAFT_RENAMED:
		return before && after;
	case KODA__DRAFT_KIND__DRAFT_MODE:
	case _KODA__DRAFT_KIND_IS_INT_SIZE:
		break;
	}
	return false;
}

/* Until it is taken back, what the change made is at the place, and what it took away is held. */
static int
begin_sides(struct history_item *item, const Koda__HistoryItem *m, struct koda_error *err)
{
	item->state = ITEM_DONE;
	if (item->to != NULL)
		return side_take(&item->held, m->after, err);
	return side_take(&item->here, m->after, err) < 0 ||
		side_take(&item->held, m->before, err) < 0
	    ? -1
	    : 0;
}

static struct log_record *
add_record(struct log_records *r, struct koda_error *err)
{
	if (r->n == r->size) {
		const size_t more = r->size == 0 ? 64 : 2 * r->size;
		struct log_record *grown = reallocarray(r->v, more, sizeof(*grown));

		if (grown == NULL) {
			err_set(err, KODA_INTERNAL, ENOMEM, "history");
			return NULL;
		}
		r->v = grown;
		r->size = more;
	}
	r->v[r->n] = (struct log_record){ 0 };
	return &r->v[r->n++];
}

/* Returns 0, 1 if the record is not one of a log, or -1 with *err set. */
static int
take_record(struct log_records *all, const Koda__HistoryRecord *m, size_t log, int64_t *newest,
    struct koda_error *err)
{
	struct log_record *r;
	int got;

	if (m->what_case == KODA__HISTORY_RECORD__WHAT_ITEM
		? !sides_fit(m->item)
		: m->what_case != KODA__HISTORY_RECORD__WHAT_DONE || !is_name(&m->done->name))
		return 1;
	if (all->n >= HISTORY_ITEMS_MAX)
		return 1;
	r = add_record(all, err);
	if (r == NULL)
		return -1;
	/* In one log, the order is that of the file. */
	if (m->has_at_ns && m->at_ns > *newest)
		*newest = m->at_ns;
	r->at_ns = *newest;
	r->log = log;
	r->number = all->n;
	if (m->what_case == KODA__HISTORY_RECORD__WHAT_DONE) {
		memcpy(r->item.name, m->done->name.data, m->done->name.len);
		return 0;
	}
	got = history_item_take(&r->item, m->item, err);
	if (got == 0)
		got = begin_sides(&r->item, m->item, err);
	if (got == 0 && m->item->was != NULL)
		got = side_take(&r->was, m->item->was, err);
	if (got == 0)
		return 0;
	history_item_done(&r->item);
	all->n--;
	return err->code == KODA_IO ? 1 : -1;
}

static int
read_log(struct log_records *all, int fd, size_t log, struct koda_error *err)
{
	cleanup_free uint8_t *data = NULL;
	cleanup(arena_done) struct arena arena;
	struct stat st;
	size_t at = 0, len = 0;
	int64_t newest = 0;
	ssize_t n;
	int r = 0;

	arena_init(&arena);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > LOG_BYTES_MAX)
		return 0;
	data = malloc((size_t)st.st_size + 1);
	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "history");
	while (len < (size_t)st.st_size && (n = read(fd, data + len, (size_t)st.st_size - len)) > 0)
		len += (size_t)n;
	/* What follows a record that is cut off, or damaged, is left out. */
	while (r == 0 && len - at >= FRAME_HEADER) {
		const size_t size = frame_get_length(data + at);
		const Koda__HistoryRecord *m;

		if (size > len - at - FRAME_HEADER)
			break;
		m = (const Koda__HistoryRecord *)message_unpack(&koda__history_record__descriptor,
		    data + at + FRAME_HEADER, size, &arena, NULL);
		r = m == NULL ? 1 : take_record(all, m, log, &newest, err);
		arena_reset(&arena);
		at += FRAME_HEADER + size;
	}
	return r < 0 ? -1 : 0;
}

/* ---- all of them ---- */

static bool
is_log(const char *name)
{
	return strlen(name) == LOG_NAME_LEN &&
	    strcmp(name + 2 * TOKEN_BYTES, HISTORY_LOG_SUFFIX) == 0;
}

static int
read_logs(struct log_records *all, int entry, struct koda_error *err)
{
	cleanup_close int old =
	    openat(entry, "old", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = old < 0 ? NULL : cache_read_dir(old);
	const struct dirent *e;

	if (d == NULL)
		return err_set(err, KODA_IO, errno, "read an entry of the history");
	for (size_t i = 0; i < LOGS_MAX && (e = readdir(d)) != NULL;) {
		cleanup_close int fd = -1;

		if (!is_log(e->d_name))
			continue;
		fd = openat(old, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && read_log(all, fd, i++, err) < 0)
			return -1;
	}
	return 0;
}

bool
history_log_is_any(const struct history *h)
{
	cleanup_close int old =
	    openat(h->fd, "old", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = old < 0 ? NULL : cache_read_dir(old);
	const struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		if (is_log(e->d_name))
			return true;
	return false;
}

static int
by_time(const void *a, const void *b)
{
	const struct log_record *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->log != y->log)
		return x->log < y->log ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Is that a part of the change with this name? */
static bool
is_part(const char *part, const char *name)
{
	const size_t len = strlen(name);

	return strncmp(part, name, len) == 0 && (part[len] == '\0' || part[len] == '-');
}

static int
use_record(struct history *h, struct log_record *r, struct koda_error *err)
{
	struct history_item *item;
	size_t i = h->n_items;

	if (r->item.place == NULL) {
		/* Most recent first, where it is found at once. */
		for (; i > 0; i--) {
			if (!is_part(h->item[i - 1].name, r->item.name))
				continue;
			for (; i > 0 && is_part(h->item[i - 1].name, r->item.name); i--)
				h->item[i - 1].state = ITEM_NOT_DONE;
			break;
		}
		return 0;
	}
	/* Another attempt of the same request: the one before did not happen. */
	if (i > 0 && strcmp(h->item[i - 1].name, r->item.name) == 0) {
		history_item_done(&h->item[i - 1]);
		item = &h->item[--i];
	} else {
		item = history_add(h, err);
	}
	if (item == NULL)
		return -1;
	*item = r->item;
	r->item = (struct history_item){ 0 };
	item->at_ns = r->at_ns;
	if (h->changed_ns < r->at_ns)
		h->changed_ns = r->at_ns;
	history_copied(h, i, &r->was, &item->held);
	return 0;
}

int
history_log_read(struct history *h, struct koda_error *err)
{
	cleanup(records_done) struct log_records all = { 0 };

	if (read_logs(&all, h->fd, err) < 0)
		return -1;
	if (all.n > 1)
		qsort(all.v, all.n, sizeof(*all.v), by_time);
	for (size_t i = 0; i < all.n; i++)
		if (use_record(h, &all.v[i], err) < 0)
			return -1;
	return 0;
}
