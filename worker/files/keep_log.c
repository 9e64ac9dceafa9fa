/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/keep_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/base/io.h"

#define LOG_NAME_SIZE (2 * TOKEN_BYTES + sizeof(HISTORY_LOG_SUFFIX))
/* Two paths, and the target of a link for each side. */
#define RECORD_MAX (4 * (PATH_LEN_MAX + 1) + 1024)

void
keep_name(char ret[SWAP_NAME_MAX + 1], const uint8_t token[TOKEN_BYTES], uint64_t request,
    unsigned part)
{
	char hex[2 * TOKEN_BYTES + 1];
	int n;

	hex_put(hex, token, TOKEN_BYTES);
	n = snprintf(ret, SWAP_NAME_MAX + 1, "%s-%llu", hex, (unsigned long long)request);
	if (part > 0)
		snprintf(ret + n, (size_t)(SWAP_NAME_MAX + 1 - n), "-%u", part);
}

static int
log_open(struct session *ses)
{
	char hex[2 * TOKEN_BYTES + 1], name[LOG_NAME_SIZE];

	if (ses->keep.log_fd >= 0)
		return 0;
	hex_put(hex, ses->token, TOKEN_BYTES);
	snprintf(name, sizeof(name), "%s" HISTORY_LOG_SUFFIX, hex);
	ses->keep.log_fd = openat(ses->old_fd, name,
	    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	return ses->keep.log_fd < 0 ? -1 : 0;
}

static int
log_append(struct session *ses, Koda__HistoryRecord *record)
{
	static uint8_t packed[RECORD_MAX];
	struct keep_state *keep = &ses->keep;
	struct timespec now;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	record->has_at_ns = true;
	record->at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	n = message_put_frame(&record->base, packed, sizeof(packed));
	errno = EMSGSIZE;
	if (n > 0 && log_open(ses) == 0 && write_all(keep->log_fd, packed, n) == 0) {
		keep->log_len += n;
		keep->bytes += n;
		return 0;
	}
	/* A part of a record may be there: nothing may follow it. */
	keep->off = n > 0;
	return -1;
}

int
keep_log_item(struct session *ses, Koda__HistoryItem *item)
{
	Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;

	record.what_case = KODA__HISTORY_RECORD__WHAT_ITEM;
	record.item = item;
	return log_append(ses, &record);
}

int
keep_log_not_done(struct session *ses, const char *name)
{
	Koda__HistoryRecord record = KODA__HISTORY_RECORD__INIT;
	Koda__HistoryDone done = KODA__HISTORY_DONE__INIT;

	done.name = bytes_of(name, strlen(name));
	done.outcome = KODA__SWAP_OUTCOME__SWAP_FAILED;
	record.what_case = KODA__HISTORY_RECORD__WHAT_DONE;
	record.done = &done;
	return log_append(ses, &record);
}
