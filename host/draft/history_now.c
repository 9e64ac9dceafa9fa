/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_now.h"

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

#define NOW_NAME_LEN (2 * TOKEN_BYTES + sizeof(HISTORY_NOW_SUFFIX) - 1)
/* Workers of one session. */
#define NOWS_MAX 10000

static bool
is_now(const char *name)
{
	return strlen(name) == NOW_NAME_LEN &&
	    strcmp(name + 2 * TOKEN_BYTES, HISTORY_NOW_SUFFIX) == 0;
}

struct now_names {
	int old; /* the directory */
	char (*name)[NOW_NAME_LEN + 1];
	size_t n;
};

static void
names_done(struct now_names *names)
{
	close_at(&names->old);
	free(names->name);
}

/* At most max of them: fn may remove files. */
static void
read_names(const struct history *h, size_t max, struct now_names *ret)
{
	cleanup(closedir_at) DIR *d = NULL;
	const struct dirent *e;
	struct stat st;

	*ret = (struct now_names){ .old = openat(h->fd, "old",
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
	d = ret->old < 0 ? NULL : cache_read_dir(ret->old);
	while (d != NULL && ret->n < max && (e = readdir(d)) != NULL) {
		char(*grown)[NOW_NAME_LEN + 1];

		if (!is_now(e->d_name) ||
		    fstatat(ret->old, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		grown = reallocarray(ret->name, ret->n + 1, sizeof(*grown));
		if (grown == NULL)
			return;
		ret->name = grown;
		memcpy(ret->name[ret->n++], e->d_name, NOW_NAME_LEN + 1);
	}
}

bool
history_now_is_any(const struct history *h)
{
	cleanup(names_done) struct now_names names;

	read_names(h, 1, &names);
	return names.n > 0;
}

void
history_now_drop(const struct history *h)
{
	cleanup(names_done) struct now_names names;

	read_names(h, NOWS_MAX, &names);
	for (size_t i = 0; i < names.n; i++)
		unlinkat(names.old, names.name[i], 0);
}

/* Returns the message, in the arena, or NULL. */
static Koda__Recover *
read_now(int old, const char *name, struct arena *arena)
{
	cleanup_close int fd = openat(old, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_free uint8_t *data = NULL;
	char token[2 * TOKEN_BYTES + 1];
	Koda__Recover *m;
	struct stat st;
	size_t len;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < FRAME_HEADER ||
	    (uint64_t)st.st_size > FRAME_MAX)
		return NULL;
	data = malloc((size_t)st.st_size);
	if (data == NULL || read(fd, data, (size_t)st.st_size) != st.st_size)
		return NULL;
	len = frame_get_length(data);
	if (len == 0 || len > (size_t)st.st_size - FRAME_HEADER)
		return NULL;
	m = (Koda__Recover *)message_unpack(&koda__recover__descriptor, data + FRAME_HEADER, len,
	    arena, NULL);
	if (m == NULL || m->token.len != TOKEN_BYTES || !m->has_orphaned || !m->orphaned ||
	    m->verdict != NULL)
		return NULL;
	hex_put(token, m->token.data, TOKEN_BYTES);
	return strncmp(token, name, 2 * TOKEN_BYTES) == 0 ? m : NULL;
}

void
history_now_visit(const struct history *h, history_now_fn *fn, void *data)
{
	cleanup(names_done) struct now_names names;
	cleanup(arena_done) struct arena arena;

	arena_init(&arena);
	read_names(h, NOWS_MAX, &names);
	for (size_t i = 0; i < names.n; i++) {
		Koda__Recover *m = read_now(names.old, names.name[i], &arena);

		if (m == NULL || !fn(data, m))
			unlinkat(names.old, names.name[i], 0);
		arena_reset(&arena);
	}
}
