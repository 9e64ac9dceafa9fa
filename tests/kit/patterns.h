/* SPDX-License-Identifier: Apache-2.0 */
/* Random search patterns and texts: few letters, so that they match often, and many special
 * characters. */
#ifndef KODA_TESTS_KIT_PATTERNS_H
#define KODA_TESTS_KIT_PATTERNS_H

#include "tests/kit/proof.h"

#define PATTERN_SIZE 256

/* Which other engine has to understand the pattern, too. */
enum dialect {
	DIALECT_PCRE2,
	/* Without constructs about the whole text: some engines see each line as part of a
	 * larger text. */
	DIALECT_PCRE2_TAME,
	DIALECT_COMMON, /* means the same to ripgrep's own engine */
};

struct pattern_text {
	struct rng *rng;
	enum dialect dialect;
	unsigned depth;
	char text[PATTERN_SIZE];
	size_t len;
};

#define pick_from(rng, table) (table)[rng_below(rng, N_ELEMENTS(table))]

static proof_unused void
pattern_add(struct pattern_text *p, const char *text)
{
	size_t n = strlen(text);

	if (p->len + n < sizeof(p->text)) {
		memcpy(p->text + p->len, text, n + 1);
		p->len += n;
	}
}

static proof_unused void
pattern_atom(struct pattern_text *p)
{
	static const char *const literals[] = { "a", "b", "k", "s", "A", "B", "K", "S", "_", "1",
		"ab", "bk", "as", "a_b", "xyz", "-", " ", "\\.", "\\t", "\\x61", "\\x{6b}", "\\(",
		"#", ",", "\xc3\xa9", "\xc3\x89", "\xc5\xbf", "\xe2\x84\xaa", "\\x{17f}" };
	static const char *const common[] = { ".", "\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "[ab]",
		"[^a]", "[^\\sb]", "[a-k_]", "[\\sk]", "[\\w-]", "[^ks]", "[^]a]", "[^-a]", "[a-]",
		"\\pL", "\\P{L}", "[\\d.]", "[^\\w ]" };
	static const char *const assertions[] = { "^", "$", "\\b" };
	static const char *const tame[] = { "\\h", "\\H", "\\v", "\\V", "\\N", "[\\S\\d]",
		"[\\s\\S]", "[[:alpha:]]", "[^[:alpha:]]", "[[:space:]]", "[\\h,]", "[]k-]",
		"\\Qa.\\E", "(?=a)", "(?!a)", "(?<=b)", "(?<!\\s)", "(?<![^a])", "(?=\\W)",
		"(?!\\s)", "\\B", "\\B", "[\\x00-\\x40]", "[a\\-k]", "[\\W_]", "\\p{Lu}",
		"\\p{Xan}", "\\1", "\\012?", "\\e?", "[\\v-]", "[[:punct:]]", "[[:^digit:]]",
		"[\\x{e9}-\\x{180}]" };
	static const char *const wild[] = { "\\K", "\\R", "\\X", "\\A", "\\z", "\\Z", "\\G",
		"(*SKIP)", "(*COMMIT)", "(*ACCEPT)", "(?#x)", "(?R)?", "(?1)?", "[[:<:]]", "(?C)",
		"\\C", "(*FAIL)", "\\g{-1}", "\\k<n>", "(?(1)a|b)", "(?x: a b #c\n)", "{,2}",
		"\\cJ?", "\\08" };
	unsigned what = rng_below(p->rng, 100);

	if (what < 55)
		pattern_add(p, pick_from(p->rng, literals));
	else if (what < 80)
		pattern_add(p, pick_from(p->rng, common));
	else if (what < 88)
		pattern_add(p, pick_from(p->rng, assertions));
	else if (what < 97 && p->dialect != DIALECT_COMMON)
		pattern_add(p, pick_from(p->rng, tame));
	else if (p->dialect == DIALECT_PCRE2)
		pattern_add(p, pick_from(p->rng, wild));
	else
		pattern_add(p, "a");
}

static proof_unused void pattern_branches(struct pattern_text *p);

static proof_unused void
pattern_item(struct pattern_text *p)
{
	static const char *const openings[] = { "(", "(?:", "(?i:", "(?s:", "(?-i:", "(?i)(",
		"(?:(?i)", "(?P<n>" };
	static const char *const more[] = { "(?>", "(?=", "(?!", "(?<n>", "(?|", "(?<!", "(?<=" };
	static const char *const times[] = { "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}", "*?",
		"+?", "??" };
	static const char *const possessive[] = { "*+", "++", "?+" };
	unsigned what = rng_below(p->rng, 100);

	if (what < 20 && p->depth < 3) {
		p->depth++;
		if (what < 5 && p->dialect != DIALECT_COMMON)
			pattern_add(p, pick_from(p->rng, more));
		else
			pattern_add(p, pick_from(p->rng, openings));
		pattern_branches(p);
		pattern_add(p, ")");
		p->depth--;
	} else {
		pattern_atom(p);
	}
	what = rng_below(p->rng, 100);
	if (what < 25)
		pattern_add(p, pick_from(p->rng, times));
	else if (what < 28 && p->dialect != DIALECT_COMMON)
		pattern_add(p, pick_from(p->rng, possessive));
}

static proof_unused void
pattern_branches(struct pattern_text *p)
{
	unsigned n = rng_below(p->rng, 5) == 0 ? 1 + rng_below(p->rng, 3) : 1;

	for (unsigned i = 0; i < n; i++) {
		unsigned items = 1 + rng_below(p->rng, p->depth > 0 ? 3 : 5);

		if (i > 0)
			pattern_add(p, "|");
		while (items-- > 0)
			pattern_item(p);
	}
}

static proof_unused void
pattern_random(struct pattern_text *p, struct rng *rng, enum dialect dialect)
{
	*p = (struct pattern_text){ .rng = rng, .dialect = dialect };
	pattern_branches(p);
}

/* Fills text and returns its length. With `valid` it is UTF-8 throughout. */
static proof_unused size_t
text_random(struct rng *rng, char *text, size_t size, bool valid)
{
	static const char *const parts[] = { "a", "b", "k", "s", "A", "B", "K", "S", "_", "1", "ab",
		"bk", "xyz", "a_b", "as", " ", "  ", "\t", "-", ".", ",", "(", "]", "{,2}", "#" };
	static const char *const lines[] = { "\n", "\n", "\n", "\r\n", "\n\n" };
	static const char *const beyond[] = { "\xc3\xa9", "\xc3\x89", "\xc5\xbf", "\xe2\x84\xaa",
		"\xe2\x80\xa8", "\xc2\x85", "\xc2\xa0", "\xf0\x9f\x98\x80" };
	static const char *const broken[] = { "\xff", "\x80", "\xe2\x82", "\xc3", "\xf0\x9f",
		"\xed\xa0\x80", "\xc0\x80" };
	bool ascii = rng_below(rng, 3) == 0;
	size_t len = 0,
	       want = rng_below(rng, 8) == 0 ? rng_below(rng, 8) : rng_below(rng, (unsigned)size);

	while (len < want) {
		unsigned what = rng_below(rng, 100);
		const char *part = what < 12        ? pick_from(rng, lines)
		    : what < 20 && !ascii           ? pick_from(rng, beyond)
		    : what < 24 && !ascii && !valid ? pick_from(rng, broken)
						    : pick_from(rng, parts);
		size_t n = strlen(part);

		if (len + n > size)
			break;
		memcpy(text + len, part, n);
		len += n;
	}
	return len;
}

#endif
