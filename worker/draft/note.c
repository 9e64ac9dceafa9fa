/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/note.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/wire/protocol.h"

/* The item's name has no dot, so nothing that is held can have such a name. */
#define NOTE_NAME_SIZE (SWAP_NAME_MAX + 8)
#define NOTE_SIZE      (NOTE_NUMBERS * 21)

static void
note_name(char ret[NOTE_NAME_SIZE], const char *name, const char *kind)
{
	snprintf(ret, NOTE_NAME_SIZE, "%.*s.%s", SWAP_NAME_MAX, name, kind);
}

int
note_put(int old, const char *name, const char *kind, const uint64_t number[NOTE_NUMBERS])
{
	char at[NOTE_NAME_SIZE], text[NOTE_SIZE + 1];

	note_name(at, name, kind);
	snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 " %" PRIu64, number[0], number[1],
	    number[2]);
	if (unlinkat(old, at, 0) < 0 && errno != ENOENT)
		return -1;
	return symlinkat(text, old, at);
}

int
note_get(int old, const char *name, const char *kind, uint64_t ret[NOTE_NUMBERS])
{
	char at[NOTE_NAME_SIZE], text[NOTE_SIZE + 1];
	const char *at_text;
	ssize_t n;

	note_name(at, name, kind);
	n = readlinkat(old, at, text, sizeof(text) - 1);
	if (n < 0)
		return errno == ENOENT ? 1 : -1;
	text[n] = '\0';
	at_text = text;
	for (size_t i = 0; i < NOTE_NUMBERS; i++) {
		char *end;

		errno = 0;
		ret[i] = strtoull(at_text, &end, 10);
		if (errno != 0 || end == at_text || *end != (i + 1 < NOTE_NUMBERS ? ' ' : '\0')) {
			errno = EINVAL;
			return -1;
		}
		at_text = end + 1;
	}
	return 0;
}

int
note_drop(int old, const char *name, const char *kind)
{
	char at[NOTE_NAME_SIZE];

	note_name(at, name, kind);
	return unlinkat(old, at, 0) == 0 || errno == ENOENT ? 0 : -1;
}
