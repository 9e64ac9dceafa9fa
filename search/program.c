/* SPDX-License-Identifier: Apache-2.0 */
#include "search/program.h"

#include <stdlib.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "search/syntax.h"
#include "shared/base/cleanup.h"

/*
 * PCRE2's own default: a hundredth of a second with the JIT, a tenth with the interpreter, and
 * more backtracking than any line of text needs. Counted from zero for each position where a
 * match could begin.
 */
#define MATCH_LIMIT 10000000
/* For the interpreter, used where there is no JIT: a frame is some hundred bytes. In KiB. */
#define DEPTH_LIMIT    100000
#define HEAP_LIMIT_KIB 4096
/* The JIT's stack starts at a size that is always available and grows to what a search has
 * memory for, twice; an iteration of a group takes some 16 bytes of it. */
#define JIT_STACK_START (32u << 10)
#define JIT_STACK_MAX   (4u << 20)

struct program {
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
	uint32_t options;
	bool jit;
};

static void
context_free_at(pcre2_compile_context **context)
{
	pcre2_compile_context_free(*context);
}

static void
program_free_at(struct program **program)
{
	program_free(*program);
}

static int
compile_error(int code, size_t offset, struct koda_error *err)
{
	char text[160];

	pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
	switch (code) {
	case PCRE2_ERROR_HEAP_FAILED:
		return err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
	case PCRE2_ERROR_PATTERN_TOO_LARGE:
	case PCRE2_ERROR_PATTERN_STRING_TOO_LONG:
	case PCRE2_ERROR_PATTERN_TOO_COMPLICATED:
	case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP:
	case PCRE2_ERROR_LOOKBEHIND_TOO_COMPLICATED:
		return err_set(err, KODA_TOO_LARGE, 0, "%s (at byte %zu)", text, offset);
	default:
		return err_set(err, KODA_INVALID, 0, "%s (at byte %zu)", text, offset);
	}
}

static int
compile(struct program *p, const char *text, size_t len, enum program_text kind, unsigned flags,
    size_t skipped, struct koda_error *err)
{
	cleanup(context_free_at) pcre2_compile_context *context =
	    pcre2_compile_context_create(NULL);
	/* \C would match half a character. */
	uint32_t options = PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
	size_t offset;
	int code;

	if (context == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
	/* Set these whatever defaults the library was built with. */
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
	pcre2_set_parens_nest_limit(context, SYNTAX_NEST_MAX);
	if (kind != PROGRAM_ASCII)
		options |= PCRE2_UTF | PCRE2_UCP;
	if (kind == PROGRAM_BROKEN)
		options |= PCRE2_MATCH_INVALID_UTF;
	if ((flags & PROGRAM_IGNORE_CASE) != 0)
		options |= PCRE2_CASELESS;
	if ((flags & PROGRAM_DOTALL) != 0)
		options |= PCRE2_DOTALL;
	if ((flags & PROGRAM_LINES) != 0)
		options |= PCRE2_ALT_CIRCUMFLEX;
	if ((flags & PROGRAM_SAME_NAMES) != 0)
		options |= PCRE2_DUPNAMES;
	p->code = pcre2_compile((PCRE2_SPTR)text, len, options, &code, &offset, context);
	return p->code != NULL ? 0 : compile_error(code, offset + skipped, err);
}

static int
get_ready(struct program *p, enum program_text kind, struct koda_error *err)
{
	p->match = pcre2_match_data_create(1, NULL);
	p->context = pcre2_match_context_create(NULL);
	if (p->match == NULL || p->context == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
	pcre2_set_match_limit(p->context, MATCH_LIMIT);
	pcre2_set_depth_limit(p->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
	p->options = kind == PROGRAM_BROKEN ? 0 : PCRE2_NO_UTF_CHECK;
	/*
	 * If executable memory is forbidden, or the pattern is too large for the JIT, the
	 * interpreter does the same, slower. In text that is not UTF-8 the JIT reads bytes
	 * beyond the end (10.42: \b after an unfinished character).
	 */
	if (kind == PROGRAM_BROKEN || pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) != 0)
		return 0;
	p->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
	if (p->stack == NULL)
		return err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
	pcre2_jit_stack_assign(p->context, NULL, p->stack);
	p->jit = true;
	return 0;
}

struct program *
program_new(const char *text, size_t len, enum program_text kind, unsigned flags, size_t skipped,
    struct koda_error *err)
{
	cleanup(program_free_at) struct program *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
		return NULL;
	}
	if (compile(p, text, len, kind, flags, skipped, err) < 0)
		return NULL;
	if ((flags & PROGRAM_CHECK) == 0 && get_ready(p, kind, err) < 0)
		return NULL;
	return take_ptr(&p);
}

void
program_free(struct program *p)
{
	if (p == NULL)
		return;
	pcre2_jit_stack_free(p->stack);
	pcre2_match_context_free(p->context);
	pcre2_match_data_free(p->match);
	pcre2_code_free(p->code);
	free(p);
}

bool
program_refers_back(const struct program *p)
{
	uint32_t highest = 0;

	pcre2_pattern_info(p->code, PCRE2_INFO_BACKREFMAX, &highest);
	return highest > 0;
}

static int
one_is_enough(pcre2_callout_enumerate_block *block, void *data)
{
	return 1;
}

bool
program_calls_out(const struct program *p)
{
	return pcre2_callout_enumerate(p->code, one_is_enough, NULL) != 0;
}

static int
match_error(int code, struct koda_error *err)
{
	char text[160];

	switch (code) {
	case PCRE2_ERROR_MATCHLIMIT:
	case PCRE2_ERROR_DEPTHLIMIT:
	case PCRE2_ERROR_HEAPLIMIT:
	case PCRE2_ERROR_JIT_STACKLIMIT:
	case PCRE2_ERROR_RECURSELOOP:
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the pattern takes too many steps on one line: it can match the same text in too many ways (nested repeats like '(a+)+')");
	default:
		pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
		return err_set(err, KODA_INTERNAL, 0, "match: %s", text);
	}
}

int
program_match(struct program *p, const char *text, size_t len, size_t from, size_t *ret_start,
    size_t *ret_end, struct koda_error *err)
{
	const size_t *found;
	int r;

	r = (p->jit ? pcre2_jit_match : pcre2_match)(p->code, (PCRE2_SPTR)text, len, from,
	    p->options, p->match, p->context);
	if (r == PCRE2_ERROR_NOMATCH)
		return 0;
	if (r < 0)
		return match_error(r, err);
	found = pcre2_get_ovector_pointer(p->match);
	/* \K may set the start after the end. */
	*ret_start = found[0] < found[1] ? found[0] : found[1];
	*ret_end = found[1];
	return 1;
}
