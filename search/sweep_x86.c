/* SPDX-License-Identifier: Apache-2.0 */
/* See sweep.h. SSE2 is in every processor of this architecture; AVX2 is detected at run time. */
#include "search/sweep.h"

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

static bool
has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

/* For the rest that is shorter than a register. */
static size_t
find_slowly(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data)
{
	for (size_t i = 0; i < n; i++) {
		const char *p = text + i;

		if (((uint8_t)p[pair->at[0]] | pair->fold[0]) == pair->byte[0] &&
		    ((uint8_t)p[pair->at[1]] | pair->fold[1]) == pair->byte[1] && is(data, p))
			return i;
	}
	return n;
}

/* Returns the first of the positions in mask, counted from p, at which `is` agrees, or NULL. */
static const char *
first_of(uint32_t mask, const char *p, sweep_is_fn *is, const void *data)
{
	for (; mask != 0; mask &= mask - 1) {
		const char *candidate = p + __builtin_ctz(mask);

		if (is(data, candidate))
			return candidate;
	}
	return NULL;
}

struct pair_16 {
	__m128i byte[2], fold[2];
};

static uint32_t
pair_mask_16(const char *p, const struct sweep_pair *pair, const struct pair_16 *w)
{
	__m128i a = _mm_loadu_si128((const __m128i_u *)(p + pair->at[0]));
	__m128i b = _mm_loadu_si128((const __m128i_u *)(p + pair->at[1]));

	a = _mm_cmpeq_epi8(_mm_or_si128(a, w->fold[0]), w->byte[0]);
	b = _mm_cmpeq_epi8(_mm_or_si128(b, w->fold[1]), w->byte[1]);
	return (uint32_t)_mm_movemask_epi8(_mm_and_si128(a, b));
}

static size_t
find_16(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data)
{
	struct pair_16 w;
	size_t i = 0;

	for (int k = 0; k < 2; k++) {
		w.byte[k] = _mm_set1_epi8((char)pair->byte[k]);
		w.fold[k] = _mm_set1_epi8((char)pair->fold[k]);
	}
	for (; n - i >= 16; i += 16) {
		const char *p = first_of(pair_mask_16(text + i, pair, &w), text + i, is, data);

		if (p != NULL)
			return (size_t)(p - text);
	}
	return i + find_slowly(text + i, n - i, pair, is, data);
}

struct pair_32 {
	__m256i byte[2], fold[2];
};

AVX2 static inline __m256i
pair_32(const char *p, const struct sweep_pair *pair, const struct pair_32 *w)
{
	__m256i a = _mm256_loadu_si256((const __m256i_u *)(p + pair->at[0]));
	__m256i b = _mm256_loadu_si256((const __m256i_u *)(p + pair->at[1]));

	a = _mm256_cmpeq_epi8(_mm256_or_si256(a, w->fold[0]), w->byte[0]);
	b = _mm256_cmpeq_epi8(_mm256_or_si256(b, w->fold[1]), w->byte[1]);
	return _mm256_and_si256(a, b);
}

AVX2 static size_t
find_32(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data)
{
	struct pair_32 w;
	const char *p;
	size_t i = 0;

	for (int k = 0; k < 2; k++) {
		w.byte[k] = _mm256_set1_epi8((char)pair->byte[k]);
		w.fold[k] = _mm256_set1_epi8((char)pair->fold[k]);
	}
	/* Two at a time: usually neither matches, and that takes one test. */
	for (; n - i >= 64; i += 64) {
		__m256i a = pair_32(text + i, pair, &w), b = pair_32(text + i + 32, pair, &w);

		if (_mm256_testz_si256(_mm256_or_si256(a, b), _mm256_set1_epi8(-1)))
			continue;
		p = first_of((uint32_t)_mm256_movemask_epi8(a), text + i, is, data);
		if (p == NULL)
			p = first_of((uint32_t)_mm256_movemask_epi8(b), text + i + 32, is, data);
		if (p != NULL)
			return (size_t)(p - text);
	}
	return i + find_16(text + i, n - i, pair, is, data);
}

size_t
sweep_find(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data)
{
	return has_avx2() ? find_32(text, n, pair, is, data) : find_16(text, n, pair, is, data);
}

static size_t
count_slowly(const char *text, size_t len, char byte)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == byte;
	return n;
}

static size_t
count_16(const char *text, size_t len, char byte)
{
	const __m128i wanted = _mm_set1_epi8(byte), zero = _mm_setzero_si128();
	size_t i = 0, n = 0;

	while (len - i >= 16) {
		__m128i each = zero;

		/* A lane can count to 255 before it has to be added up. */
		for (int k = 0; k < 255 && len - i >= 16; k++, i += 16) {
			__m128i v = _mm_loadu_si128((const __m128i_u *)(text + i));

			each = _mm_sub_epi8(each, _mm_cmpeq_epi8(v, wanted));
		}
		each = _mm_sad_epu8(each, zero);
		n += (size_t)_mm_cvtsi128_si64(each) +
		    (size_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(each, each));
	}
	return n + count_slowly(text + i, len - i, byte);
}

AVX2 static size_t
count_32(const char *text, size_t len, char byte)
{
	const __m256i wanted = _mm256_set1_epi8(byte), zero = _mm256_setzero_si256();
	size_t i = 0, n = 0;

	while (len - i >= 32) {
		__m256i each = zero, sums;

		for (int k = 0; k < 255 && len - i >= 32; k++, i += 32) {
			__m256i v = _mm256_loadu_si256((const __m256i_u *)(text + i));

			each = _mm256_sub_epi8(each, _mm256_cmpeq_epi8(v, wanted));
		}
		sums = _mm256_sad_epu8(each, zero);
		n += (size_t)_mm256_extract_epi64(sums, 0) + (size_t)_mm256_extract_epi64(sums, 1) +
		    (size_t)_mm256_extract_epi64(sums, 2) + (size_t)_mm256_extract_epi64(sums, 3);
	}
	return n + count_slowly(text + i, len - i, byte);
}

size_t
sweep_count(const char *text, size_t len, char byte)
{
	return has_avx2() ? count_32(text, len, byte) : count_16(text, len, byte);
}

size_t
sweep_ascii(const char *text, size_t len)
{
	size_t i = 0;

	for (; len - i >= 16; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i_u *)(text + i));
		uint32_t mask = (uint32_t)_mm_movemask_epi8(v);

		if (mask != 0)
			return i + (size_t)__builtin_ctz(mask);
	}
	while (i < len && ((uint8_t)text[i] & 0x80) == 0)
		i++;
	return i;
}

static struct sweep_seen
look_slowly(const char *text, size_t len, struct sweep_seen seen)
{
	for (size_t i = 0; i < len; i++) {
		seen.nul |= text[i] == 0;
		seen.high |= ((uint8_t)text[i] & 0x80) != 0;
	}
	return seen;
}

/* The smallest of all bytes is 0 if any byte is. */
static struct sweep_seen
look_16(const char *text, size_t len, struct sweep_seen seen)
{
	__m128i all = _mm_setzero_si128(), least = _mm_set1_epi8(-1);
	size_t i = 0;

	for (; len - i >= 16; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i_u *)(text + i));

		all = _mm_or_si128(all, v);
		least = _mm_min_epu8(least, v);
	}
	seen.high |= _mm_movemask_epi8(all) != 0;
	seen.nul |= _mm_movemask_epi8(_mm_cmpeq_epi8(least, _mm_setzero_si128())) != 0;
	return look_slowly(text + i, len - i, seen);
}

AVX2 static struct sweep_seen
look_32(const char *text, size_t len, struct sweep_seen seen)
{
	__m256i all = _mm256_setzero_si256(), least = _mm256_set1_epi8(-1);
	size_t i = 0;

	for (; len - i >= 64; i += 64) {
		__m256i a = _mm256_loadu_si256((const __m256i_u *)(text + i));
		__m256i b = _mm256_loadu_si256((const __m256i_u *)(text + i + 32));

		all = _mm256_or_si256(all, _mm256_or_si256(a, b));
		least = _mm256_min_epu8(least, _mm256_min_epu8(a, b));
	}
	seen.high |= _mm256_movemask_epi8(all) != 0;
	seen.nul |= _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256())) != 0;
	return look_16(text + i, len - i, seen);
}

struct sweep_seen
sweep_look(const char *text, size_t len)
{
	const struct sweep_seen none = { false, false };

	return has_avx2() ? look_32(text, len, none) : look_16(text, len, none);
}
