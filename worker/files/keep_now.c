/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/keep_now.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "worker/files/keep.h"

#define NOW_NAME_SIZE (2 * TOKEN_BYTES + sizeof(HISTORY_NOW_SUFFIX))
/* The path, and two of Prepared and of its Outcome each. */
#define NOW_MAX (5 * (PATH_LEN_MAX + 1) + 1024)

static void
now_name(char ret[NOW_NAME_SIZE], const uint8_t token[TOKEN_BYTES])
{
	char hex[2 * TOKEN_BYTES + 1];

	hex_put(hex, token, TOKEN_BYTES);
	snprintf(ret, NOW_NAME_SIZE, "%s" HISTORY_NOW_SUFFIX, hex);
}

static int
now_open(struct session *ses)
{
	char name[NOW_NAME_SIZE];

	if (ses->keep.now_fd >= 0)
		return 0;
	now_name(name, ses->token);
	ses->keep.now_fd =
	    openat(ses->old_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return ses->keep.now_fd < 0 ? -1 : 0;
}

/* The length comes first, so what an earlier, longer one has left behind this one is not read. */
static void
now_put(struct session *ses, Koda__Recover *m)
{
	static uint8_t packed[NOW_MAX];
	size_t n;

	m->request = ses->id;
	m->token = bytes_of(ses->token, TOKEN_BYTES);
	m->has_orphaned = m->orphaned = true;
	n = message_put_frame(&m->base, packed, sizeof(packed));
	if (n > 0 && now_open(ses) == 0 && pwrite(ses->keep.now_fd, packed, n, 0) == (ssize_t)n)
		ses->keep.now = ses->id;
}

void
keep_now_change(struct session *ses, Koda__Kind kind, const struct place *at)
{
	Koda__Recover m = KODA__RECOVER__INIT;

	/* Another attempt of the same request has the same temporary name. */
	if (!keep_is_on(ses) || ses->keep.now == ses->id)
		return;
	m.kind = kind;
	m.path = bytes_of(at->path, strlen(at->path));
	now_put(ses, &m);
}

static void
prepared_put(struct session *ses, Koda__Recover *m, const Koda__Prepared *prepared)
{
	if (!keep_is_on(ses))
		return;
	m->path = prepared->place;
	m->prepared = (Koda__Prepared *)prepared;
	now_put(ses, m);
}

void
keep_now_remove(struct session *ses, const Koda__Prepared *prepared, bool recursive, bool committed)
{
	Koda__Recover m = KODA__RECOVER__INIT;

	m.kind = KODA__KIND__KIND_REMOVE;
	m.has_recursive = m.recursive = recursive;
	m.has_committed = m.committed = committed;
	prepared_put(ses, &m, prepared);
}

void
keep_now_rename(struct session *ses, const Koda__Prepared *prepared)
{
	Koda__Recover m = KODA__RECOVER__INIT;

	m.kind = KODA__KIND__KIND_RENAME;
	prepared_put(ses, &m, prepared);
}

void
keep_now_forget(const struct session *ses, const uint8_t token[TOKEN_BYTES])
{
	char name[NOW_NAME_SIZE];

	if (ses->old_fd < 0)
		return;
	now_name(name, token);
	unlinkat(ses->old_fd, name, 0);
}

void
keep_now_end(struct session *ses)
{
	if (ses->keep.now_fd >= 0)
		keep_now_forget(ses, ses->token);
}
