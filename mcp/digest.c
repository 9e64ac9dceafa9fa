/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/digest.h"

#include <sodium.h>

void
digest_pieces(const struct digest_piece *pieces, size_t n, uint8_t ret[KODA_DIGEST_BYTES])
{
	crypto_generichash_state state;

	/* The calls can fail only for invalid lengths, which are constants here. */
	crypto_generichash_init(&state, NULL, 0, KODA_DIGEST_BYTES);
	for (size_t i = 0; i < n; i++)
		crypto_generichash_update(&state, pieces[i].data, pieces[i].len);
	crypto_generichash_final(&state, ret, KODA_DIGEST_BYTES);
}

void
digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES])
{
	struct digest_piece piece = { data, len };

	digest_pieces(&piece, 1, ret);
}

void
digest_hex(const uint8_t *data, size_t len, char *ret)
{
	sodium_bin2hex(ret, 2 * len + 1, data, len);
}

/* Lower case only, unlike hex_digit(): in the audit log and in names of ours each value has one
 * spelling. */
static int
value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
digest_parse(const char *text, uint8_t *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = value(text[2 * i]), low = high < 0 ? -1 : value(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool
digest_same_secret(const void *a, const void *b, size_t len)
{
	return sodium_memcmp(a, b, len) == 0;
}
