/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/audit_line.c: the format of a line; and any changed bit, and any line removed, inserted or
 * moved, is found.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "mcp/audit_line.h"
#include "mcp/digest.h"
#include "shared/base/cleanup.h"

/* 2026-01-02T03:04:05.678Z */
#define WHEN INT64_C(1767323045678)

static const uint8_t zeros[KODA_DIGEST_BYTES];
static char line[AUDIT_LINE_MAX];

/* ---- one line ---- */

#define ZEROS64 "0000000000000000000000000000000000000000000000000000000000000000"

static const struct {
	const char *label;
	struct audit_entry entry;
	const char *want; /* up to its "prev" */
} lines[] = {
	/* clang-format off */
	{ "start", { .seq = 1, .kind = AUDIT_START, .action = { .session = "main" } },
	    "{\"seq\":1,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"start\",\"session\":\"main\"" },
	{ "intent", { .seq = 2, .kind = AUDIT_INTENT, .action = { .tool = "run_command", .command = "make \"all\"\n" } },
	    "{\"seq\":2,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"intent\",\"tool\":\"run_command\","
	    "\"command\":\"make \\\"all\\\"\\u000a\"" },
	{ "outcome", { .seq = 3, .of = 2, .kind = AUDIT_OUTCOME, .action = { .verdict = "allowed", .rule = "fs.allow_write",
	    .before = zeros, .after = zeros, .duration_us = 17 } },
	    "{\"seq\":3,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"outcome\",\"of\":2,\"verdict\":\"allowed\","
	    "\"rule\":\"fs.allow_write\",\"before\":\"" ZEROS64 "\",\"after\":\"" ZEROS64 "\",\"duration_us\":17" },
	{ "outcome of a command that was asked for", { .seq = 3, .of = 2, .kind = AUDIT_OUTCOME, .action = { .verdict = "allowed",
	    .approved = "session", .status = &(int){ 137 }, .duration_us = 17 } },
	    "{\"seq\":3,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"outcome\",\"of\":2,\"verdict\":\"allowed\","
	    "\"approved\":\"session\",\"status\":137,\"duration_us\":17" },
	{ "event", { .seq = 3, .kind = AUDIT_EVENT, .action = { .tool = "connect", .to = "example.com:443", .verdict = "denied",
	    .rule = "any_domain", .detail = "no \"rule\"" } },
	    "{\"seq\":3,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"event\",\"tool\":\"connect\",\"to\":\"example.com:443\","
	    "\"verdict\":\"denied\",\"rule\":\"any_domain\",\"detail\":\"no \\\"rule\\\"\"" },
	{ "event of an action that has ended", { .seq = 5, .of = 2, .kind = AUDIT_EVENT, .action = { .tool = "run_command",
	    .verdict = "ended", .status = &(int){ 0 } } },
	    "{\"seq\":5,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"event\",\"of\":2,\"tool\":\"run_command\","
	    "\"verdict\":\"ended\",\"status\":0" },
	{ "torn, and something lost", { .seq = 9, .kind = AUDIT_END, .torn = true, .lost = 4 },
	    "{\"seq\":9,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"end\",\"torn\":true,\"lost\":4" },
	{ "a move", { .seq = 2, .kind = AUDIT_INTENT, .action = { .path = "/p/gr\xc3\xbc\xc3\x9f", .to = "/p/b\\c\x7f" } },
	    "{\"seq\":2,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"intent\",\"path\":\"/p/gr\xc3\xbc\xc3\x9f\","
	    "\"to\":\"/p/b\\\\c\\u007f\"" },
	{ "no UTF-8", { .seq = 2, .kind = AUDIT_INTENT, .action = { .path = "/p/\xff" } },
	    "{\"seq\":2,\"time\":\"2026-01-02T03:04:05.678Z\",\"kind\":\"intent\",\"path\":\"/p/\xef\xbf\xbd\",\"path_bytes\":4,"
	    "\"path_digest\":\"" },
	/* clang-format on */
};

static void
check_line(void **state)
{
	size_t i = (uintptr_t)*state, n;
	struct audit_entry entry = lines[i].entry;
	struct audit_checked checked;
	const char *why;
	json_t *object;

	entry.time_ms = WHEN;
	n = audit_line_build(&entry, zeros, line);
	assert_int_equal(line[n - 1], '\n');
	line[n - 1] = '\0';
	assert_memory_equal(line, lines[i].want, strlen(lines[i].want));
	assert_memory_equal(line + n - 1 - 116, ",\"prev\":\"" ZEROS64 "\",\"sum\":\"", 82);
	object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(object);
	json_decref(object);
	assert_true(audit_line_check(line, n - 1, &checked, &why));
	assert_int_equal(checked.seq, entry.seq);
	assert_int_equal(checked.kind, entry.kind);
	assert_int_equal(checked.of, entry.of);
	assert_int_equal(checked.lost, entry.lost);
	assert_int_equal(checked.torn, entry.torn);
	assert_memory_equal(checked.prev, zeros, sizeof(zeros));
}

/* A text that was cut, or is not text, is recorded with its length and digest. */
static void
test_cut_text(void **state)
{
	static char command[AUDIT_COMMAND_MAX + 10];
	struct audit_entry entry = { .seq = 2, .time_ms = WHEN, .kind = AUDIT_INTENT };
	uint8_t digest[KODA_DIGEST_BYTES];
	char hex[DIGEST_HEX_SIZE];
	json_t *object;
	size_t n;

	memset(command, 'x', sizeof(command) - 1);
	entry.action.command = command;
	n = audit_line_build(&entry, zeros, line);
	object = json_loadb(line, n, 0, NULL);
	assert_int_equal(json_string_length(json_object_get(object, "command")), AUDIT_COMMAND_MAX);
	assert_int_equal(json_integer_value(json_object_get(object, "command_bytes")),
	    sizeof(command) - 1);
	digest_bytes(command, sizeof(command) - 1, digest);
	digest_hex(digest, sizeof(digest), hex);
	assert_string_equal(json_string_value(json_object_get(object, "command_digest")), hex);
	json_decref(object);
}

/* Each text at its maximum length, of bytes that are escaped with six characters. */
static void
test_longest_line(void **state)
{
	static char text[3 * AUDIT_COMMAND_MAX];
	struct audit_checked checked;
	struct audit_entry entry = { .seq = UINT64_C(1) << 50,
		.time_ms = WHEN,
		.kind = AUDIT_OUTCOME,
		.of = 1,
		.lost = UINT32_MAX,
		.torn = true };
	const char *why;
	size_t n;

	memset(text, 1, sizeof(text) - 1);
	entry.action = (struct audit_action){
		.session = text,
		.tool = text,
		.path = text,
		.to = text,
		.command = text,
		.verdict = text,
		.rule = text,
		.approved = text,
		.detail = text,
		.before = zeros,
		.after = zeros,
		.status = &(int){ INT_MIN },
		.duration_us = UINT64_MAX,
	};
	n = audit_line_build(&entry, zeros, line);
	assert_true(n < AUDIT_LINE_MAX);
	assert_true(audit_line_check(line, n - 1, &checked, &why));
	memset(text, 0xff, sizeof(text) - 1);
	n = audit_line_build(&entry, zeros, line);
	assert_true(audit_line_check(line, n - 1, &checked, &why));
}

/* An outcome refers to another line, an event may, and the other kinds do not. */
static void
test_of(void **state)
{
	for (enum audit_kind kind = AUDIT_START; kind <= AUDIT_EVENT; kind++) {
		for (uint64_t of = 0; of <= 2; of++) {
			const struct audit_entry entry = { .seq = 2,
				.time_ms = WHEN,
				.kind = kind,
				.of = of };
			/* 2 refers to the line itself */
			const bool good = of < 2 && (kind != AUDIT_OUTCOME || of != 0) &&
			    (kind == AUDIT_OUTCOME || kind == AUDIT_EVENT || of == 0);
			size_t n = audit_line_build(&entry, zeros, line);
			struct audit_checked checked;
			const char *why;

			assert_int_equal(audit_line_check(line, n - 1, &checked, &why), good);
		}
	}
}

/* ---- a log ---- */

#define LINES 7

struct text {
	char bytes[LINES * 600];
	size_t n;
	size_t at[LINES + 1]; /* start of each line, then the end of the last */
	uint8_t head[KODA_DIGEST_BYTES];
};

static void
make_log(struct text *text)
{
	static const enum audit_kind kinds[LINES] = { AUDIT_START, AUDIT_INTENT, AUDIT_OUTCOME,
		AUDIT_EVENT, AUDIT_INTENT, AUDIT_OUTCOME, AUDIT_END };

	memset(text, 0, sizeof(*text));
	for (size_t i = 0; i < LINES; i++) {
		struct audit_entry entry = { .seq = i + 1,
			.time_ms = WHEN + (int64_t)i,
			.kind = kinds[i],
			.of = kinds[i] == AUDIT_OUTCOME ? i : 0,
			.action = { .tool = "write_file", .path = "/p/a" } };
		size_t n = audit_line_build(&entry, text->head, line);

		text->at[i] = text->n;
		memcpy(text->bytes + text->n, line, n);
		text->n += n;
		digest_bytes(line, n, text->head);
	}
	text->at[LINES] = text->n;
}

/* Like audit_verify(). Returns whether the log is intact; *ret_known: `head` is among its lines. */
static bool
holds(const char *bytes, size_t n, const uint8_t *head, struct audit_chain *ret, bool *ret_known)
{
	size_t at = 0;
	bool whole = true;

	*ret = (struct audit_chain){ 0 };
	*ret_known = false;
	while (at < n) {
		const char *end = memchr(bytes + at, '\n', n - at);
		size_t len = end != NULL ? (size_t)(end - bytes) - at : n - at;

		if (audit_chain_add(ret, bytes + at, len) < 0)
			return false;
		whole = end != NULL;
		if (memcmp(ret->head, head, KODA_DIGEST_BYTES) == 0)
			*ret_known = true;
		at += len + 1;
	}
	return audit_chain_end(ret, !whole) == 0;
}

static void
test_untouched(void **state)
{
	struct audit_chain chain;
	struct text text;
	bool known;

	make_log(&text);
	assert_true(holds(text.bytes, text.n, text.head, &chain, &known));
	assert_true(known);
	assert_int_equal(chain.lines, LINES);
	assert_int_equal(chain.starts, 1);
	assert_int_equal(chain.intents, 2);
	assert_int_equal(chain.outcomes, 2);
	assert_int_equal(chain.events, 1);
	assert_int_equal(chain.torn, 0);
}

static void
test_each_bit(void **state)
{
	struct text text;

	make_log(&text);
	for (size_t bit = 0; bit < 8 * text.n; bit++) {
		struct audit_chain chain;
		bool known;
		uint64_t at = 1;

		text.bytes[bit / 8] ^= (char)(1 << bit % 8);
		if (holds(text.bytes, text.n, text.head, &chain, &known))
			fail_msg("bit %zu is not found", bit);
		while (at < LINES && bit / 8 >= text.at[at])
			at++;
		assert_int_equal(chain.broken_line, at);
		text.bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
}

static void
test_line_taken_out(void **state)
{
	struct text text, less;
	struct audit_chain chain;
	bool known;

	make_log(&text);
	for (size_t i = 0; i < LINES; i++) {
		size_t len = text.at[i + 1] - text.at[i];
		bool last = i == LINES - 1;

		less = text;
		memmove(less.bytes + less.at[i], less.bytes + less.at[i + 1],
		    less.n - less.at[i + 1]);
		less.n -= len;
		/* Only the head shows that the last line is missing. */
		assert_int_equal(holds(less.bytes, less.n, text.head, &chain, &known), last);
		assert_false(known);
	}
}

static void
test_line_put_in(void **state)
{
	struct text text, more;
	struct audit_chain chain;
	bool known;

	make_log(&text);
	for (size_t from = 0; from < LINES; from++) {
		for (size_t to = 0; to <= LINES; to++) {
			size_t len = text.at[from + 1] - text.at[from];

			more = text;
			memmove(more.bytes + text.at[to] + len, more.bytes + text.at[to],
			    text.n - text.at[to]);
			memcpy(more.bytes + text.at[to], text.bytes + text.at[from], len);
			assert_false(holds(more.bytes, text.n + len, text.head, &chain, &known));
		}
	}
}

static void
test_lines_swapped(void **state)
{
	struct text text, other;
	struct audit_chain chain;
	bool known;

	make_log(&text);
	for (size_t i = 0; i + 1 < LINES; i++) {
		size_t first = text.at[i + 1] - text.at[i],
		       second = text.at[i + 2] - text.at[i + 1];

		other = text;
		memcpy(other.bytes + text.at[i], text.bytes + text.at[i + 1], second);
		memcpy(other.bytes + text.at[i] + second, text.bytes + text.at[i], first);
		assert_false(holds(other.bytes, other.n, text.head, &chain, &known));
	}
}

/* Cut anywhere: a cut between lines leaves a valid log, and only the head shows it. */
static void
test_truncated(void **state)
{
	struct audit_chain chain;
	struct text text;
	bool known;

	make_log(&text);
	for (size_t n = 0; n < text.n; n++) {
		bool between = false;

		for (size_t i = 1; i < LINES; i++)
			between = between || n == text.at[i];
		assert_int_equal(holds(text.bytes, n, text.head, &chain, &known), between);
		assert_false(between && known);
	}
}

/* A crash cut the last line, at each place; the next line continues from the torn one. */
static void
test_torn(void **state)
{
	struct text text;

	make_log(&text);
	for (size_t cut = text.at[LINES - 1] + 1; cut < text.n - 1; cut++) {
		struct text again = text;
		struct audit_chain chain;
		struct audit_entry entry = { .seq = LINES, .time_ms = WHEN, .torn = true };
		uint8_t head[KODA_DIGEST_BYTES];
		bool known;
		size_t n;

		audit_fold_whole(head, text.bytes + text.at[LINES - 2],
		    text.at[LINES - 1] - text.at[LINES - 2] - 1);
		audit_fold_torn(head, text.bytes + text.at[LINES - 1], cut - text.at[LINES - 1]);
		n = audit_line_build(&entry, head, line);
		again.bytes[cut] = '\n';
		memcpy(again.bytes + cut + 1, line, n);
		n += cut + 1;
		assert_true(holds(again.bytes, n, text.head, &chain, &known));
		assert_int_equal(chain.torn, 1);
		/* The chain covers the torn line as well. */
		again.bytes[text.at[LINES - 1]] ^= 1;
		assert_false(holds(again.bytes, n, text.head, &chain, &known));
	}
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(test_cut_text),
		cmocka_unit_test(test_longest_line),
		cmocka_unit_test(test_of),
		cmocka_unit_test(test_untouched),
		cmocka_unit_test(test_each_bit),
		cmocka_unit_test(test_line_taken_out),
		cmocka_unit_test(test_line_put_in),
		cmocka_unit_test(test_lines_swapped),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_torn),
	};
	struct CMUnitTest tests[N_ELEMENTS(lines) + N_ELEMENTS(others)];

	for (size_t i = 0; i < N_ELEMENTS(lines); i++)
		tests[i] = (struct CMUnitTest){ lines[i].label, check_line, NULL, NULL, (void *)i };
	memcpy(tests + N_ELEMENTS(lines), others, sizeof(others));
	return cmocka_run_group_tests_name("audit_line", tests, NULL, NULL);
}
