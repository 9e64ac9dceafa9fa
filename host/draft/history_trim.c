/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_trim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/draft/history_file.h"
#include "host/draft/history_size.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

#define NS_PER_S INT64_C(1000000000)
/* After a host was killed, what it kept is not in the total. */
#define COUNT_AGAIN_S 3600
#define TOTAL         ".total"
#define TOTAL_TEXT    64 /* bytes: two numbers */

static int64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- what there is ---- */

struct trim_one {
	char id[NAMED_ID_MAX + 1];
	char *root;
	int64_t changed_ns;
	uint64_t bytes;
	bool own;
};

struct trim_list {
	const struct history_own *own;
	struct trim_one *v;
	size_t n;
	uint64_t bytes;
};

static void
list_done(struct trim_list *l)
{
	while (l->n > 0)
		free(l->v[--l->n].root);
	free(l->v);
}

static int64_t
mtime_of(int entry, const char *name)
{
	struct stat st;

	if (fstatat(entry, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
}

/* A worker may have written to `old`, and given it any time. */
static int64_t
changed_ns(int entry)
{
	const int64_t a = mtime_of(entry, "items"), b = mtime_of(entry, "old"), now = now_ns();
	const int64_t newest = a > b ? a : b;

	return newest < now ? newest : now;
}

/* One that is damaged is left out. */
static int
on_name(void *data, int all, const char *id)
{
	struct trim_list *l = data;
	struct trim_one *grown = reallocarray(l->v, l->n + 1, sizeof(*grown)), *one;
	cleanup(history_close) struct history h = HISTORY_CLOSED;
	const bool own = l->own->id != NULL && strcmp(l->own->id, id) == 0;

	if (grown == NULL)
		return -1;
	l->v = grown;
	h.fd = named_open(&named_history, all, id, NAMED_UNLOCKED, NULL);
	if (h.fd < 0 || history_file_read_about(&h, NULL) < 0)
		return 0;
	one = &l->v[l->n];
	*one = (struct trim_one){ .changed_ns = changed_ns(h.fd), .own = own };
	one->bytes = own ? l->own->bytes : history_size(h.fd, flock(h.fd, LOCK_EX | LOCK_NB) == 0);
	snprintf(one->id, sizeof(one->id), "%s", id);
	one->root = h.root;
	h.root = NULL;
	l->bytes += one->bytes;
	l->n++;
	return 0;
}

static int
on_root(void *data, int all)
{
	return named_list(&named_history, all, on_name, data, NULL);
}

static int
by_age(const void *a, const void *b)
{
	const struct trim_one *x = a, *y = b;

	if (x->changed_ns != y->changed_ns)
		return x->changed_ns < y->changed_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* ---- trimming ---- */

static bool
remove_one(const char *state, const struct trim_one *one)
{
	cleanup_close int all = named_open_all(&named_history, state, one->root, false);
	cleanup_close int fd =
	    all < 0 ? -1 : named_open(&named_history, all, one->id, NAMED_AT_ONCE, NULL);

	return fd >= 0 && named_remove(&named_history, all, one->id, NULL) == 0;
}

int
history_trim(const char *state, const struct history_bound *bound, const struct history_own *own,
    struct history_trimmed *ret)
{
	const int64_t oldest = now_ns() - (int64_t)bound->days * 24 * 3600 * NS_PER_S;
	cleanup(list_done) struct trim_list l = { .own = own };

	*ret = (struct history_trimmed){ 0 };
	if (named_roots(&named_history, state, on_root, &l, NULL) != 0)
		return -1;
	if (l.n > 1)
		qsort(l.v, l.n, sizeof(*l.v), by_age);
	for (size_t i = 0; i < l.n; i++) {
		const struct trim_one *one = &l.v[i];
		const bool many = l.n - ret->entries > HISTORY_ENTRIES_MAX;

		if ((l.bytes <= bound->bytes && one->changed_ns >= oldest && !many) || one->own ||
		    !remove_one(state, one))
			continue;
		l.bytes -= one->bytes;
		ret->entries++;
		ret->bytes += one->bytes;
	}
	ret->left = l.bytes;
	return 0;
}

/* ---- the total ---- */

struct total {
	uint64_t bytes;
	int64_t counted_s;
};

static int
open_total(const char *state, bool make)
{
	cleanup_free char *path = NULL;
	cleanup_close int fd = -1;

	if (asprintf(&path, "%s/%s/" TOTAL, state, named_history.folder) < 0) {
		path = NULL;
		return -1;
	}
	fd = open(path, O_RDWR | (make ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? take_fd(&fd) : -1;
}

/* Returns false if it is missing or damaged. */
static bool
read_total(int fd, struct total *ret)
{
	char text[TOTAL_TEXT + 1], *end;
	ssize_t n = pread(fd, text, TOTAL_TEXT, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	ret->bytes = strtoull(text, &end, 10);
	if (*end != ' ')
		return false;
	ret->counted_s = strtoll(end, &end, 10);
	return *end == '\n';
}

/* Always of the same length, so that one write replaces all of it. */
static int
write_total(int fd, const struct total *t)
{
	char text[TOTAL_TEXT];
	int n =
	    snprintf(text, sizeof(text), "%20" PRIu64 " %20" PRId64 "\n", t->bytes, t->counted_s);

	return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -1;
}

int
history_grown(const char *state, uint64_t bytes, const struct history_bound *bound,
    const struct history_own *own, struct history_trimmed *ret)
{
	const int64_t now_s = now_ns() / NS_PER_S;
	cleanup_close int fd = open_total(state, bytes > 0);
	struct total t;
	bool known;

	*ret = (struct history_trimmed){ 0 };
	/* There is no history, or another host is counting it. */
	if (fd < 0)
		return 0;
	known = read_total(fd, &t) && t.counted_s <= now_s && now_s - t.counted_s < COUNT_AGAIN_S;
	if (known)
		t.bytes = t.bytes > UINT64_MAX - bytes ? UINT64_MAX : t.bytes + bytes;
	if (!known || t.bytes > bound->bytes) {
		if (history_trim(state, bound, own, ret) < 0)
			return -1;
		t = (struct total){ ret->left, now_s };
	} else if (bytes == 0) {
		return 0;
	}
	ret->left = t.bytes;
	return write_total(fd, &t);
}
