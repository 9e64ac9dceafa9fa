/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/digest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <sodium.h>

#include "shared/base/cleanup.h"

/* Large enough that reading costs little compared with hashing, small enough to stay in the
 * cache. */
#define PIECE (128u << 10)

/* Finding the fast implementation for this processor takes longer than this program's part of
 * starting a session, so it is done only when something is hashed. */
static void
need_sodium(void)
{
	static bool done;

	if (!done)
		done = sodium_init() >= 0;
}

void
digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES])
{
	need_sodium();
	crypto_generichash(ret, KODA_DIGEST_BYTES, data, len, NULL, 0);
}

int
digest_file(int fd, uint8_t ret[KODA_DIGEST_BYTES])
{
	cleanup_free uint8_t *piece = malloc(PIECE);
	crypto_generichash_state state;
	off_t at = 0;

	if (piece == NULL) {
		errno = ENOMEM;
		return -1;
	}
	need_sodium();
	crypto_generichash_init(&state, NULL, 0, KODA_DIGEST_BYTES);
	for (;;) {
		ssize_t n = pread(fd, piece, PIECE, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		crypto_generichash_update(&state, piece, (size_t)n);
		at += n;
	}
	crypto_generichash_final(&state, ret, KODA_DIGEST_BYTES);
	return 0;
}
