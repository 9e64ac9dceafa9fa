/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/glob against a model that is slow and obviously right: whether the rest of the glob
 * matches the rest of the path, for every pair of positions, kept in a table. Random globs and
 * paths over few letters, so that many match. Braces are tested against a shell's definition of
 * them: each alternative substituted, one after the other.
 */
#include "tests/kit/proof.h"

#include "search/braces.h"
#include "search/glob.h"

#define PAIRS    200000
#define TEXT_MAX 24

/* ---- the model ---- */

struct model {
	const char *glob, *path;
	unsigned flags;
	signed char known[TEXT_MAX * 2 + 2][TEXT_MAX * 2 + 2];
};

static bool model_matches(struct model *m, size_t g, size_t p);

static char
folded(const struct model *m, char c)
{
	return (m->flags & GLOB_IGNORE_CASE) != 0 && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a')
									  : c;
}

/* With only plain text before it, git takes "**" for what it means after a slash. */
static bool
only_text_before(const char *glob, size_t g)
{
	return strcspn(glob, "*?[\\") >= g;
}

/* Matches c against the class at glob[g], just after '['; *ret_end is the position after its
 * ']', or 0 if it has none. */
static bool
in_class(const struct model *m, size_t g, char c, size_t *ret_end)
{
	const char *s = m->glob;
	const bool negated = s[g] == '!' || s[g] == '^';
	bool found = false;
	size_t i = g + (negated ? 1 : 0);

	*ret_end = 0;
	for (size_t first = i; s[i] != '\0' && (s[i] != ']' || i == first);) {
		char from, to;

		if (s[i] == '\\')
			i++;
		if (s[i] == '\0')
			return false;
		from = to = s[i++];
		if (s[i] == '-' && s[i + 1] != '\0' && s[i + 1] != ']') {
			i++;
			if (s[i] == '\\')
				i++;
			if (s[i] == '\0')
				return false;
			to = s[i++];
			/* A '-' after a range begins no other range, except with itself. */
			if (s[i] == '-' && s[i + 1] != ']' && s[i + 1] != '\0') {
				found |= folded(m, c) == '-';
				i++;
			}
		}
		for (int x = from; x <= to; x++)
			found |= folded(m, (char)x) == folded(m, c);
		found |= folded(m, from) == folded(m, c);
	}
	if (s[i] != ']')
		return false;
	*ret_end = i + 1;
	return found != negated && c != '/';
}

/* Returns whether the glob from g on matches after any slash from p on. */
static bool
behind_some_slash(struct model *m, size_t g, size_t p)
{
	for (; m->path[p] != '\0'; p++) {
		if (m->path[p] == '/' && model_matches(m, g, p + 1))
			return true;
	}
	return false;
}

static bool
model_stars(struct model *m, size_t g, size_t p)
{
	const char *s = m->glob;
	const size_t n = strspn(s + g, "*"), next = g + n;
	const bool alone =
	    g == 0 || s[g - 1] == '/' || ((m->flags & GLOB_GIT) != 0 && only_text_before(s, g));

	if (n >= 2 && alone && (m->flags & GLOB_NAME) == 0) {
		if (s[next] == '\0')
			return true;
		if (s[next] == '/')
			return model_matches(m, next + 1, p) || behind_some_slash(m, next + 1, p);
		if (s[next] == '\\' && s[next + 1] == '/')
			return behind_some_slash(m, next + 2, p);
	}
	for (;; p++) {
		if (model_matches(m, next, p))
			return true;
		if (m->path[p] == '\0' || m->path[p] == '/')
			return false;
	}
}

static bool
model_matches_anew(struct model *m, size_t g, size_t p)
{
	const char c = m->path[p];
	size_t end;

	switch (m->glob[g]) {
	case '\0':
		return c == '\0';
	case '*':
		return model_stars(m, g, p);
	case '?':
		return c != '\0' && c != '/' && model_matches(m, g + 1, p + 1);
	case '[':
		return c != '\0' && in_class(m, g + 1, c, &end) && model_matches(m, end, p + 1);
	case '\\':
		g++;
		if (m->glob[g] == '\0')
			return false;
		/* fallthrough */
	default:
		return c != '\0' && folded(m, c) == folded(m, m->glob[g]) &&
		    model_matches(m, g + 1, p + 1);
	}
}

static bool
model_matches(struct model *m, size_t g, size_t p)
{
	signed char *known = &m->known[g][p];

	if (*known < 0)
		*known = (signed char)model_matches_anew(m, g, p);
	return *known != 0;
}

static bool
model_match(const char *glob, unsigned flags, const char *path)
{
	struct model m = { .glob = glob, .flags = flags, .path = path };

	if ((flags & GLOB_NAME) != 0 && strrchr(path, '/') != NULL)
		m.path = strrchr(path, '/') + 1;
	memset(m.known, -1, sizeof(m.known));
	return model_matches(&m, 0, 0);
}

/* ---- random globs and paths ---- */

static const char *const pieces[] = { "a", "b", "A", "ab", ".", "*", "*", "**", "**/", "/**/",
	"/**", "?", "/", "/", "[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "[a-]", "\\a", "\\*", "\\/",
	"*.a", "a*b*", "***", "-", "]", "[", "\\", "[b-a]", "[a-b-c]" };

static void
random_glob(struct rng *r, char ret[TEXT_MAX * 2 + 1])
{
	const unsigned n = 1 + rng_below(r, 7);

	ret[0] = '\0';
	for (unsigned i = 0; i < n && strlen(ret) < TEXT_MAX; i++)
		strcat(ret, pieces[rng_below(r, N_ELEMENTS(pieces))]);
}

static void
random_path(struct rng *r, char ret[TEXT_MAX * 2 + 1])
{
	static const char letters[] = "aaabbA.-]*[\\c";
	const unsigned components = 1 + rng_below(r, 4);
	size_t n = 0;

	for (unsigned i = 0; i < components; i++) {
		const unsigned len = 1 + rng_below(r, 4);

		if (i > 0)
			ret[n++] = '/';
		for (unsigned k = 0; k < len; k++)
			ret[n++] = letters[rng_below(r, sizeof(letters) - 1)];
	}
	ret[n] = '\0';
}

/* Makes a path that the glob may well match: the glob with its special characters replaced. */
static void
path_like(struct rng *r, const char *glob, char ret[TEXT_MAX * 2 + 1])
{
	size_t n = 0;

	for (const char *s = glob; *s != '\0' && n < TEXT_MAX; s++) {
		if (*s == '*') {
			for (unsigned k = rng_below(r, 3); k > 0; k--)
				ret[n++] = "ab/"[rng_below(r, 3)];
		} else if (*s == '[' && strchr(s, ']') != NULL) {
			ret[n++] = "ab-"[rng_below(r, 3)];
			s = strchr(s, ']');
		} else if (*s != '\\') {
			ret[n++] = *s == '?' ? 'b' : *s;
		}
	}
	ret[n] = '\0';
	if (n == 0 || ret[0] == '/' || ret[n - 1] == '/' || strstr(ret, "//") != NULL)
		random_path(r, ret);
}

static size_t
name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static void
one_glob(struct rng *r, unsigned long *matched, unsigned long *refused)
{
	char glob[TEXT_MAX * 2 + 1], path[TEXT_MAX * 2 + 1];
	struct glob g = GLOB_EMPTY;
	const char *why;
	unsigned flags = 0;

	random_glob(r, glob);
	flags |= strchr(glob, '/') == NULL && rng_below(r, 2) == 0 ? GLOB_NAME : 0;
	flags |= rng_below(r, 4) == 0 ? GLOB_IGNORE_CASE : 0;
	flags |= rng_below(r, 2) == 0 ? GLOB_GIT : 0;
	why = glob_compile(glob, strlen(glob), flags, &g);
	*refused += why != NULL;
	for (unsigned i = 0; i < 10; i++) {
		bool want, got;

		if (i % 2 == 0) {
			random_path(r, path);
		} else {
			path_like(r, glob, path);
		}
		/* Git cannot use what is refused either, except for a range that ends too soon:
		 * git takes that for its first character. */
		if (why != NULL && strstr(why, "range") != NULL)
			continue;
		want = model_match(glob, flags, path);
		got = why == NULL && glob_match(&g, path, strlen(path), name_of(path));
		*matched += want;
		if (got != want)
			fail_msg("'%s' (flags %x) and '%s': %d, the model says %d", glob, flags,
			    path, got, want);
	}
	if (why == NULL)
		glob_done(&g);
}

static void
test_model(void **state)
{
	const uint64_t n = proof_number("KODA_GLOB_PAIRS", PAIRS);
	struct rng r = { proof_seed() };
	unsigned long matched = 0, refused = 0;

	for (uint64_t i = 0; i < n / 10; i++)
		one_glob(&r, &matched, &refused);
	fprintf(stderr, "# %lu of %lu pairs match, %lu globs refused\n", matched, (unsigned long)n,
	    refused);
	assert_true(matched > n / 50 && matched < n - n / 50);
	assert_true(refused > 0 && refused < n / 20);
}

/* ---- braces ---- */

struct alternatives {
	char text[4096];
};

static const char *
append(void *data, const char *glob, size_t len)
{
	struct alternatives *a = data;
	const size_t n = strlen(a->text);

	assert_true(n + len + 2 < sizeof(a->text));
	memcpy(a->text + n, glob, len);
	memcpy(a->text + n + len, " ", 2);
	return NULL;
}

/* Generates a glob with braces, and its expansion at the same time. */
static void
random_braces(struct rng *r, unsigned depth, char *glob, char words[64][64], size_t *n_words)
{
	static const char *const texts[] = { "a", "b", "\\{", "[{,]", "*", "x/" };
	const unsigned parts = 1 + rng_below(r, 2);

	glob[0] = '\0';
	words[0][0] = '\0';
	*n_words = 1;
	for (unsigned i = 0; i < parts; i++) {
		char inner[3][512], inner_words[3][64][64], before[64][64];
		size_t n_inner[3], n = 0;
		const unsigned alternatives = 1 + rng_below(r, 2);
		const size_t n_before = *n_words;

		if (depth == 0 || rng_below(r, 2) == 0) {
			const char *t = texts[rng_below(r, N_ELEMENTS(texts))];

			strcat(glob, t);
			for (size_t w = 0; w < n_before; w++)
				strcat(words[w], t);
			continue;
		}
		for (unsigned k = 0; k < alternatives; k++)
			random_braces(r, depth - 1, inner[k], inner_words[k], &n_inner[k]);
		strcat(glob, "{");
		for (unsigned k = 0; k < alternatives; k++) {
			strcat(glob, k > 0 ? "," : "");
			strcat(glob, inner[k]);
		}
		strcat(glob, "}");
		memcpy(before, words, sizeof(before));
		for (size_t w = 0; w < n_before; w++) {
			for (unsigned k = 0; k < alternatives; k++) {
				for (size_t x = 0; x < n_inner[k]; x++) {
					assert_true(n < 64);
					snprintf(words[n++], 64, "%.40s%.23s", before[w],
					    inner_words[k][x]);
				}
			}
		}
		*n_words = n;
	}
}

static void
test_braces(void **state)
{
	struct rng r = { proof_seed() };

	for (unsigned i = 0; i < 5000; i++) {
		struct alternatives got = { "" }, want = { "" };
		char glob[2048], words[64][64];
		size_t n;

		random_braces(&r, 2, glob, words, &n);
		for (size_t w = 0; w < n; w++)
			append(&want, words[w], strlen(words[w]));
		assert_null(braces_expand(glob, strlen(glob), append, &got));
		if (strcmp(got.text, want.text) != 0)
			fail_msg("'%s' became '%s', not '%s'", glob, got.text, want.text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_braces),
	};

	return cmocka_run_group_tests_name("glob_property", tests, NULL, NULL);
}
