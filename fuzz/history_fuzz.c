/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host reads of the history, which a disk or another program may have damaged: any bytes as
 * `about`, or as `items`. What is taken from them is valid, a part of a record is cut off, and what is
 * written after that is read again.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "host/draft/history_file.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static char base[256];
static int dir = -1;

static void
remove_base(void)
{
	unlinkat(dir, "about", 0);
	unlinkat(dir, "items", 0);
	rmdir(base);
}

static void
make_base(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof(base), "%s/history.XXXXXX",
	    tmp != NULL && strlen(tmp) < 200 ? tmp : "/tmp");
	must(mkdtemp(base) != NULL);
	dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(dir >= 0);
	atexit(remove_base);
}

static void
put(const char *name, const uint8_t *data, size_t size)
{
	cleanup_close int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
}

static struct history
closed(void)
{
	struct history h = HISTORY_CLOSED;

	strcpy(h.id, "fuzz");
	h.fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	must(h.fd >= 0);
	return h;
}

/* A whole entry without items. */
static void
put_empty(void)
{
	struct history h = closed();
	struct koda_error err;
	char root[] = "/p", draft[] = "abc";

	unlinkat(dir, "about", 0);
	unlinkat(dir, "items", 0);
	h.root = root;
	h.draft = draft;
	must(history_file_make(&h, &err) == 0);
	h.root = h.draft = NULL;
	history_close(&h);
}

static void
must_make_sense(const struct history *h)
{
	must(h->root != NULL && h->draft != NULL);
	for (size_t i = 0; i < h->n_items; i++) {
		const struct history_item *item = &h->item[i];

		must(item->name[0] != '\0' && strlen(item->name) <= SWAP_NAME_MAX);
		must(strpbrk(item->name, "/.") == NULL);
		must(path_is_canonical((const uint8_t *)item->place, strlen(item->place)));
		must(item->place[1] != '\0');
		must(item->state <= ITEM_NOT_DONE);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct history h;
	struct koda_error err = { 0 };
	size_t n;

	if (dir < 0)
		make_base();
	if (size == 0)
		return 0;
	put_empty();
	put((data[0] & 1) != 0 ? "about" : "items", data + 1, size - 1);
	h = closed();
	if (history_file_read(&h, &err) < 0) {
		must(err.code != KODA_OK);
		history_close(&h);
		return 0;
	}
	must_make_sense(&h);
	n = h.n_items;
	must(history_finish(&h, &err) == 0);
	history_close(&h);
	h = closed();
	must(history_file_read(&h, &err) == 0 && h.n_items == n && !h.unfinished);
	must_make_sense(&h);
	history_close(&h);
	return 0;
}
