/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/draft/history_log.h"
#include "host/draft/history_size.h"
#include "host/draft/named.h"
#include "proto/history.pb-c.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "shared/wire/message.h"

#define ABOUT     "about"
#define ITEMS     "items"
#define ABOUT_MAX (PATH_LEN_MAX + 256)
/* Names of items in one record: it fits into a frame. */
#define TURN_MAX 8192
/* Enough for every item with its result and some turns. */
#define ITEMS_BYTES_MAX (UINT64_C(4) << 30)
/* What of the file is in memory while it is read. Records are written by the thousand, but none is as
 * long as a frame may be. */
#define WINDOW (FRAME_HEADER + FRAME_MAX)

static int
is_damaged(const struct history *h, struct koda_error *err)
{
	return err_set(err, KODA_IO, 0, "entry '%s' of the history is damaged", h->id);
}

/* ---- writing ---- */

int
history_file_make(struct history *h, struct koda_error *err)
{
	Koda__HistoryAbout about = KODA__HISTORY_ABOUT__INIT;
	uint8_t packed[ABOUT_MAX];
	cleanup_close int fd = -1;
	size_t len;

	about.version = HISTORY_VERSION;
	about.root = message_text(h->root);
	about.begun_ns = h->begun_ns;
	about.has_draft = h->draft[0] != '\0';
	about.draft = message_text(h->draft);
	if (koda__history_about__get_packed_size(&about) > sizeof(packed))
		return err_set(err, KODA_TOO_LARGE, 0, "the root's path");
	len = koda__history_about__pack(&about, packed);
	fd = openat(h->fd, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, packed, len) < 0 || (!history_is_of_files(h) && fsync(fd) < 0))
		return err_set(err, KODA_IO, errno, "write an entry of the history");
	h->items = openat(h->fd, ITEMS,
	    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	return h->items < 0 ? err_set(err, KODA_IO, errno, "write an entry of the history") : 0;
}

/* Records that are written together. */
struct record_batch {
	uint8_t *data;
	size_t len, size;
};

static void
batch_done(struct record_batch *b)
{
	free(b->data);
}

static int
batch_add(struct record_batch *b, const Koda__HistoryRecord *record, struct koda_error *err)
{
	const size_t need = koda__history_record__get_packed_size(record) + FRAME_HEADER;
	size_t n;

	if (b->size - b->len < need) {
		const size_t more =
		    b->size * 2 > b->len + need ? b->size * 2 : b->len + need + 4096;
		uint8_t *grown = realloc(b->data, more);

		if (grown == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "history");
		b->data = grown;
		b->size = more;
	}
	n = message_put_frame(&record->base, b->data + b->len, b->size - b->len);
	if (n == 0 || n > WINDOW)
		return err_set(err, KODA_INTERNAL, 0, "a record of the history is too large");
	b->len += n;
	return 0;
}

static int
batch_write(const struct history *h, const struct record_batch *b, bool sync,
    struct koda_error *err)
{
	if (write_all(h->items, b->data, b->len) < 0 || (sync && fdatasync(h->items) < 0))
		return err_set(err, KODA_IO, errno, "write down what is changed");
	return 0;
}

static int
add_item(struct record_batch *b, const struct history_item *item, struct koda_error *err)
{
	Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;
	Koda__HistoryItem msg = KODA__HISTORY_ITEM__INIT;
	Koda__SwapItem swap = KODA__SWAP_ITEM__INIT;
	Koda__DraftSide before, after;

	swap.name = message_text(item->name);
	swap.place = message_text(item->place);
	swap.has_layer = true;
	swap.layer = item->layer;
	swap.has_take = swap.take = item->take;
	msg.item = &swap;
	msg.kind = item->kind;
	msg.before = side_put(&item->before, &before);
	msg.after = side_put(&item->after, &after);
	record.what_case = KODA__HISTORY_RECORD__WHAT_ITEM;
	record.item = &msg;
	return batch_add(b, &record, err);
}

int
history_write(struct history *h, struct koda_error *err)
{
	cleanup(batch_done) struct record_batch b = { 0 };

	for (size_t i = h->n_written; i < h->n_items; i++)
		if (add_item(&b, &h->item[i], err) < 0)
			return -1;
	history_size_forget(h->fd);
	if (batch_write(h, &b, true, err) < 0)
		return -1;
	h->n_written = h->n_items;
	h->unfinished = true;
	return 0;
}

int
history_turn(struct history *h, bool undone, struct koda_error *err)
{
	cleanup_free ProtobufCBinaryData *name = calloc(TURN_MAX, sizeof(*name));
	cleanup(batch_done) struct record_batch b = { 0 };
	Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;
	Koda__HistoryTurn msg = KODA__HISTORY_TURN__INIT;

	if (name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "history");
	msg.undone = undone;
	msg.name = name;
	record.what_case = KODA__HISTORY_RECORD__WHAT_TURN;
	record.turn = &msg;
	for (size_t i = 0; i < h->n_items; i++) {
		if (h->item[i].turning)
			name[msg.n_name++] = message_text(h->item[i].name);
		if (msg.n_name < TURN_MAX && i + 1 < h->n_items)
			continue;
		if (msg.n_name > 0 && batch_add(&b, &record, err) < 0)
			return -1;
		msg.n_name = 0;
	}
	h->turn_undone = undone;
	h->unfinished = true;
	history_size_forget(h->fd);
	return batch_write(h, &b, true, err);
}

static Koda__SwapOutcome
outcome_of(const struct history_item *item)
{
	return item->state == ITEM_NOT_DONE ? KODA__SWAP_OUTCOME__SWAP_FAILED
					    : KODA__SWAP_OUTCOME__SWAP_DONE;
}

int
history_results(struct history *h, struct history_item *const *item, size_t n,
    struct koda_error *err)
{
	cleanup(batch_done) struct record_batch b = { 0 };

	for (size_t i = 0; i < n; i++) {
		Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;
		Koda__HistoryDone msg = KODA__HISTORY_DONE__INIT;
		Koda__DraftSide here, held;

		msg.name = message_text(item[i]->name);
		msg.outcome = outcome_of(item[i]);
		msg.has_undone = true;
		msg.undone = item[i]->state == ITEM_UNDONE;
		/* A rename holds nothing: what it moved is at the place. */
		msg.here = side_put(item[i]->to != NULL ? &item[i]->held : &item[i]->here, &here);
		msg.held = item[i]->to != NULL ? NULL : side_put(&item[i]->held, &held);
		record.what_case = KODA__HISTORY_RECORD__WHAT_DONE;
		record.done = &msg;
		if (batch_add(&b, &record, err) < 0)
			return -1;
		item[i]->turning = false;
	}
	return batch_write(h, &b, false, err);
}

int
history_finish(struct history *h, struct koda_error *err)
{
	cleanup(batch_done) struct record_batch b = { 0 };
	Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;

	record.what_case = KODA__HISTORY_RECORD__WHAT_FINISHED;
	record.finished = true;
	if (batch_add(&b, &record, err) < 0 || batch_write(h, &b, false, err) < 0)
		return -1;
	for (size_t i = 0; i < h->n_items; i++) {
		h->item[i].turning = false;
		if (h->item[i].state == ITEM_PENDING)
			h->item[i].state = ITEM_NOT_DONE;
	}
	h->unfinished = false;
	return 0;
}

/* ---- reading ---- */

struct history_reading {
	struct history *history;
	uint8_t *window;
	size_t len;  /* in the window */
	size_t text; /* bytes of names so far */
	size_t from; /* where the next name is probably */
};

static char *
text_of(const ProtobufCBinaryData *b)
{
	return memchr(b->data == NULL ? (const uint8_t *)"" : b->data, '\0', b->len) == NULL
	    ? strndup(b->data == NULL ? "" : (const char *)b->data, b->len)
	    : NULL;
}

static int
read_about(struct history *h, struct arena *arena, struct koda_error *err)
{
	cleanup_close int fd = openat(h->fd, ABOUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const Koda__HistoryAbout *about;
	uint8_t data[ABOUT_MAX];
	ssize_t n = fd < 0 ? -1 : read_whole(fd, data, sizeof(data));

	if (n < 0)
		return err_set(err, KODA_IO, errno, "read entry '%s' of the history", h->id);
	about = (const Koda__HistoryAbout *)message_unpack(&koda__history_about__descriptor, data,
	    (size_t)n, arena, err);
	if (about == NULL)
		return is_damaged(h, err);
	if (about->version != HISTORY_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "entry '%s' was made by another version of koda-sandbox", h->id);
	h->begun_ns = h->changed_ns = about->begun_ns;
	h->root = text_of(&about->root);
	h->draft = about->has_draft ? text_of(&about->draft) : strdup("");
	return h->root != NULL && h->draft != NULL ? 0 : is_damaged(h, err);
}

/* Returns the item's number if that is its name, as in an applied draft. */
static size_t
number_of(const ProtobufCBinaryData *name)
{
	size_t n = 0;

	for (size_t i = 0; i < name->len && n < HISTORY_ITEMS_MAX; i++) {
		if (name->data[i] < '0' || name->data[i] > '9')
			return SIZE_MAX;
		n = n * 10 + (size_t)(name->data[i] - '0');
	}
	return n;
}

static bool
is_called(const struct history_item *item, const ProtobufCBinaryData *name)
{
	return strlen(item->name) == name->len && memcmp(item->name, name->data, name->len) == 0;
}

/* Other names come in the order of the items, mostly. */
static struct history_item *
find(struct history *h, const ProtobufCBinaryData *name, size_t *from)
{
	const size_t n = number_of(name);

	if (n < h->n_items && is_called(&h->item[n], name))
		return &h->item[n];
	for (size_t k = 0; k < h->n_items; k++) {
		struct history_item *item = &h->item[(*from + k) % h->n_items];

		if (is_called(item, name)) {
			*from = (*from + k + 1) % h->n_items;
			return item;
		}
	}
	return NULL;
}

static size_t
length(const char *text)
{
	return text == NULL ? 0 : strlen(text);
}

static size_t
text_of_item(const struct history_item *item)
{
	return length(item->place) + length(item->before.target) + length(item->after.target) +
	    length(item->here.target) + length(item->held.target);
}

static int
take_item(struct history_reading *r, const Koda__HistoryItem *msg, struct koda_error *err)
{
	struct history *h = r->history;
	struct history_item *item = history_add(h, err);

	if (item == NULL)
		return -1;
	if (history_item_take(item, msg, err) < 0)
		return err->code == KODA_IO ? is_damaged(h, err) : -1;
	h->unfinished = true;
	r->text += text_of_item(item);
	return 0;
}

static int
take_done(struct history_reading *r, const Koda__HistoryDone *msg, struct koda_error *err)
{
	struct history_item *item = find(r->history, &msg->name, &r->from);
	const bool done = msg->outcome == KODA__SWAP_OUTCOME__SWAP_DONE;

	if (item == NULL)
		return is_damaged(r->history, err);
	item->turning = false;
	item->turned |= item->state != ITEM_PENDING;
	/* A turn that could not be made leaves the item as it was. */
	if (done)
		item->state = msg->has_undone && msg->undone ? ITEM_UNDONE : ITEM_DONE;
	else if (item->state == ITEM_PENDING)
		item->state = ITEM_NOT_DONE;
	if (!done)
		return 0;
	r->text -= text_of_item(item);
	if (history_settle(r->history, item, item->state == ITEM_UNDONE, msg->here, msg->held,
		err) < 0)
		return -1;
	r->text += text_of_item(item);
	return 0;
}

static int
take_turn(struct history_reading *r, const Koda__HistoryTurn *msg, struct koda_error *err)
{
	struct history *h = r->history;

	for (size_t i = 0; i < msg->n_name; i++) {
		struct history_item *item = find(h, &msg->name[i], &r->from);

		if (item == NULL)
			return is_damaged(h, err);
		item->turning = true;
	}
	h->turn_undone = msg->undone;
	h->unfinished = true;
	return 0;
}

static int
take_record(struct history_reading *r, const Koda__HistoryRecord *record, struct koda_error *err)
{
	struct history *h = r->history;

	switch (record->what_case) {
	case KODA__HISTORY_RECORD__WHAT_ITEM:
		return take_item(r, record->item, err);
	case KODA__HISTORY_RECORD__WHAT_DONE:
		return take_done(r, record->done, err);
	case KODA__HISTORY_RECORD__WHAT_TURN:
		return take_turn(r, record->turn, err);
	case KODA__HISTORY_RECORD__WHAT_FINISHED:
		for (size_t i = 0; i < h->n_items; i++) {
			h->item[i].turning = false;
			if (h->item[i].state == ITEM_PENDING)
				h->item[i].state = ITEM_NOT_DONE;
		}
		h->unfinished = false;
		return 0;
	case KODA__HISTORY_RECORD__WHAT__NOT_SET:
	case _KODA__HISTORY_RECORD__WHAT__CASE_IS_INT_SIZE:
		break;
	}
	return is_damaged(h, err);
}

/* Takes the whole records in the window. Returns how many bytes they are, or -1 with *err set. */
static ssize_t
take_records(struct history_reading *r, struct arena *arena, struct koda_error *err)
{
	size_t at = 0;

	while (r->len - at >= FRAME_HEADER) {
		const size_t n = frame_get_length(r->window + at);
		const Koda__HistoryRecord *record;

		if (n > FRAME_MAX)
			return is_damaged(r->history, err);
		if (n > r->len - at - FRAME_HEADER)
			break;
		record =
		    (const Koda__HistoryRecord *)message_unpack(&koda__history_record__descriptor,
			r->window + at + FRAME_HEADER, n, arena, NULL);
		if (record == NULL)
			return is_damaged(r->history, err);
		if (take_record(r, record, err) < 0)
			return -1;
		if (r->text > HISTORY_TEXT_MAX)
			return err_set(err, KODA_TOO_LARGE, 0,
			    "the names in entry '%s' of the history are more than %zu MiB",
			    r->history->id, HISTORY_TEXT_MAX >> 20);
		arena_reset(arena);
		at += FRAME_HEADER + n;
	}
	return (ssize_t)at;
}

/* Returns how many bytes of the file, which has `size`, are whole records; -1 with *err set. */
static int64_t
read_records(struct history_reading *r, int64_t size, struct arena *arena, struct koda_error *err)
{
	int64_t whole = 0, got = 0;

	while (got < size) {
		const size_t room = WINDOW - r->len;
		const int64_t left = size - got;
		const ssize_t n = read_whole(r->history->items, r->window + r->len,
		    left < (int64_t)room ? (size_t)left : room);
		ssize_t taken;

		if (n <= 0)
			return err_set(err, KODA_IO, n < 0 ? errno : 0,
			    "read entry '%s' of the history", r->history->id);
		r->len += (size_t)n;
		got += n;
		taken = take_records(r, arena, err);
		if (taken < 0)
			return -1;
		r->len -= (size_t)taken;
		memmove(r->window, r->window + taken, r->len);
		whole += taken;
	}
	return whole;
}

static int
read_items(struct history *h, struct arena *arena, struct koda_error *err)
{
	cleanup_free uint8_t *window = malloc(WINDOW);
	struct history_reading r = { .history = h, .window = window };
	struct stat st;
	int64_t whole, written;

	if (window == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "history");
	h->items = openat(h->fd, ITEMS,
	    (h->in_use ? O_RDONLY : O_RDWR) | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (h->items < 0 || fstat(h->items, &st) < 0)
		return err_set(err, KODA_IO, errno, "read entry '%s' of the history%s", h->id,
		    named_ask(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > ITEMS_BYTES_MAX)
		return is_damaged(h, err);
	written = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	if (h->changed_ns < written)
		h->changed_ns = written; /* else a log is newer */
	/* Those of file operations are known already. */
	for (size_t i = 0; i < h->n_items; i++)
		r.text += text_of_item(&h->item[i]);
	whole = read_records(&r, st.st_size, arena, err);
	if (whole < 0)
		return -1;
	/* A host was killed while it wrote the rest; nothing had been done for it yet, or it would
	 * have been synced. */
	if (!h->in_use && whole < st.st_size && ftruncate(h->items, whole) < 0)
		return err_set(err, KODA_IO, errno, "mend entry '%s' of the history", h->id);
	h->n_written = h->n_items;
	return 0;
}

int
history_file_read_about(struct history *h, struct koda_error *err)
{
	struct arena arena;
	int r;

	arena_init(&arena);
	r = read_about(h, &arena, err);
	arena_done(&arena);
	return r;
}

int
history_file_read(struct history *h, struct koda_error *err)
{
	struct arena arena;
	int r;

	arena_init(&arena);
	r = read_about(h, &arena, err);
	arena_reset(&arena);
	if (r == 0 && history_is_of_files(h))
		r = history_log_read(h, err);
	if (r == 0)
		r = read_items(h, &arena, err);
	arena_done(&arena);
	return r;
}
