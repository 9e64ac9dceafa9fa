/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "shared/base/cleanup.h"

/* Not an id, so it is not taken for an entry. */
#define LIVE ".live"
/* Sessions of one root that run, or were killed. */
#define LIVE_MAX 1024
/* How often another session may remove the directory before the mark is in it. */
#define SET_TRIES 8

static int
open_live(int all)
{
	return openat(all, LIVE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void
history_live_set(const char *state, const struct history *h)
{
	cleanup_close int all = named_open_all(&named_history, state, h->root, false);

	for (int i = 0; all >= 0 && i < SET_TRIES; i++) {
		cleanup_close int live = -1, mark = -1;

		if (mkdirat(all, LIVE, 0700) < 0 && errno != EEXIST)
			return;
		live = open_live(all);
		mark = live < 0
		    ? -1
		    : openat(live, h->id, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (mark >= 0 || errno != ENOENT)
			return;
	}
}

void
history_live_clear(const char *state, const char *root, const char *id)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);
	cleanup_close int live = all < 0 ? -1 : open_live(all);

	if (live < 0)
		return;
	unlinkat(live, id, 0);
	unlinkat(all, LIVE, AT_REMOVEDIR); /* the last one */
}

void
history_live_visit(const char *state, const char *root, history_live_fn *fn, void *data)
{
	cleanup_close int all = named_open_all(&named_history, state, root, false);
	cleanup_close int live = all < 0 ? -1 : open_live(all);
	cleanup(closedir_at) DIR *d = live < 0 ? NULL : cache_read_dir(live);
	cleanup_free char(*id)[NAMED_ID_MAX + 1] = NULL;
	const struct dirent *e;
	size_t n = 0;

	/* Names first: fn may remove them. */
	id = d == NULL ? NULL : calloc(LIVE_MAX, sizeof(*id));
	while (id != NULL && n < LIVE_MAX && (e = readdir(d)) != NULL)
		if (named_id_valid(e->d_name))
			snprintf(id[n++], sizeof(*id), "%s", e->d_name);
	for (size_t i = 0; i < n; i++)
		fn(data, id[i]);
}
