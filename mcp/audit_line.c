/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/audit_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "mcp/digest.h"
#include "show/visible.h"

#define SUM_BYTES (KODA_DIGEST_BYTES / 2)
/* ,"prev":"64 digits" and then ,"sum":"32 digits"} */
#define PREV_LEN  (sizeof(",\"prev\":\"\"") - 1 + 2 * KODA_DIGEST_BYTES)
#define SUM_LEN   (sizeof(",\"sum\":\"\"}") - 1 + 2 * SUM_BYTES)
#define TIME_SIZE sizeof("2000-01-01T00:00:00.000Z")

/* The largest integer that every JSON reader represents exactly. */
#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)

static const char *const kind_names[] = {
	[AUDIT_START] = "start",
	[AUDIT_INTENT] = "intent",
	[AUDIT_OUTCOME] = "outcome",
	[AUDIT_END] = "end",
	[AUDIT_EVENT] = "event",
};
#define N_KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

/* ---- building ---- */

struct line_out {
	char *p;
	size_t n;
};

static void __attribute__((format(printf, 2, 3))) put(struct line_out *out, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out->p + out->n, AUDIT_LINE_MAX - out->n, fmt, ap);
	va_end(ap);
	assert(n >= 0 && (size_t)n < AUDIT_LINE_MAX - out->n);
	out->n += (size_t)n;
}

static void
put_digest(struct line_out *out, const char *name, const uint8_t *digest)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(digest, KODA_DIGEST_BYTES, hex);
	put(out, ",\"%s\":\"%s\"", name, hex);
}

static void
put_escaped(struct line_out *out, const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '"' || c == '\\')
			put(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			put(out, "\\u%04x", c);
		else
			out->p[out->n++] = (char)c;
	}
}

static void
put_text(struct line_out *out, const char *name, const char *text, size_t max)
{
	char shown[VISIBLE_LOSSY_SIZE(AUDIT_COMMAND_MAX)];
	size_t len, n;

	if (text == NULL)
		return;
	len = strlen(text);
	n = visible_lossy(text, len, max, shown);
	put(out, ",\"%s\":\"", name);
	put_escaped(out, shown, n);
	put(out, "\"");
	if (n != len || memcmp(text, shown, len) != 0) {
		uint8_t digest[KODA_DIGEST_BYTES];
		char digest_name[32];

		digest_bytes(text, len, digest);
		snprintf(digest_name, sizeof(digest_name), "%s_digest", name);
		put(out, ",\"%s_bytes\":%zu", name, len);
		put_digest(out, digest_name, digest);
	}
}

static void
put_time(struct line_out *out, int64_t time_ms)
{
	time_t seconds = (time_t)(time_ms / 1000);
	struct tm tm = { .tm_mday = 1 };

	gmtime_r(&seconds, &tm);
	put(out, ",\"time\":\"%04u-%02u-%02uT%02u:%02u:%02u.%03uZ\"",
	    (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
	    (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
	    (unsigned)tm.tm_sec % 100, (unsigned)(time_ms % 1000));
}

size_t
audit_line_build(const struct audit_entry *entry, const uint8_t prev[KODA_DIGEST_BYTES], char *ret)
{
	const struct audit_action *action = &entry->action;
	struct line_out out = { .p = ret };
	uint8_t sum[KODA_DIGEST_BYTES];
	char hex[2 * SUM_BYTES + 1];

	put(&out, "{\"seq\":%" PRIu64, entry->seq);
	put_time(&out, entry->time_ms);
	put(&out, ",\"kind\":\"%s\"", kind_names[entry->kind]);
	if (entry->torn)
		put(&out, ",\"torn\":true");
	if (entry->lost > 0)
		put(&out, ",\"lost\":%" PRIu64, entry->lost);
	if (entry->of != 0)
		put(&out, ",\"of\":%" PRIu64, entry->of);
	put_text(&out, "session", action->session, AUDIT_NAME_MAX);
	put_text(&out, "tool", action->tool, AUDIT_NAME_MAX);
	put_text(&out, "path", action->path, AUDIT_PATH_MAX);
	put_text(&out, "to", action->to, AUDIT_PATH_MAX);
	put_text(&out, "command", action->command, AUDIT_COMMAND_MAX);
	put_text(&out, "verdict", action->verdict, AUDIT_NAME_MAX);
	put_text(&out, "rule", action->rule, AUDIT_NAME_MAX);
	put_text(&out, "approved", action->approved, AUDIT_NAME_MAX);
	put_text(&out, "detail", action->detail, AUDIT_DETAIL_MAX);
	if (action->before != NULL)
		put_digest(&out, "before", action->before);
	if (action->after != NULL)
		put_digest(&out, "after", action->after);
	if (action->status != NULL)
		put(&out, ",\"status\":%d", *action->status);
	if (entry->kind == AUDIT_OUTCOME || action->duration_us != 0)
		put(&out, ",\"duration_us\":%" PRIu64,
		    action->duration_us < NUMBER_MAX ? action->duration_us : NUMBER_MAX);
	put_digest(&out, "prev", prev);
	digest_bytes(out.p, out.n, sum);
	digest_hex(sum, SUM_BYTES, hex);
	put(&out, ",\"sum\":\"%s\"}\n", hex);
	return out.n;
}

/* ---- checking ---- */

/* Removes the text from the front of the remaining input. */
static bool
skip(const char **p, size_t *left, const char *text)
{
	size_t n = strlen(text);

	if (*left < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	*left -= n;
	return true;
}

/* Checks the members before anything that jansson could read in two ways: seq and kind. */
static bool
check_front(const char *line, size_t len, struct audit_checked *ret)
{
	const char *p = line;
	uint64_t seq = 0;

	if (!skip(&p, &len, "{\"seq\":") || len == 0 || *p == '0')
		return false;
	for (; len > 0 && *p >= '0' && *p <= '9' && seq <= NUMBER_MAX / 10; p++, len--)
		seq = seq * 10 + (uint64_t)(*p - '0');
	if (seq == 0 || !skip(&p, &len, ",\"time\":\"") || len < TIME_SIZE - 1)
		return false;
	p += TIME_SIZE - 1;
	len -= TIME_SIZE - 1;
	if (!skip(&p, &len, "\",\"kind\":\""))
		return false;
	ret->seq = seq;
	for (size_t i = 0; i < N_KINDS; i++) {
		const char *at = p;
		size_t left = len;

		if (skip(&at, &left, kind_names[i]) && skip(&at, &left, "\",")) {
			ret->kind = (enum audit_kind)i;
			return true;
		}
	}
	return false;
}

static bool
check_sum(const char *line, size_t len, struct audit_checked *ret)
{
	const char *p = line + len - SUM_LEN - PREV_LEN;
	uint8_t sum[KODA_DIGEST_BYTES], told[SUM_BYTES];
	size_t left = PREV_LEN;

	if (!skip(&p, &left, ",\"prev\":\"") || !digest_parse(p, ret->prev, sizeof(ret->prev)))
		return false;
	p = line + len - SUM_LEN - 1;
	left = SUM_LEN + 1;
	if (!skip(&p, &left, "\",\"sum\":\"") || !digest_parse(p, told, sizeof(told)) ||
	    memcmp(p + 2 * sizeof(told), "\"}", 2) != 0)
		return false;
	digest_bytes(line, len - SUM_LEN, sum);
	return memcmp(sum, told, sizeof(told)) == 0;
}

/* Checks the rest, which people and their programs read: it has to be JSON that all of them read
 * alike. */
static bool
check_members(const char *line, size_t len, struct audit_checked *ret)
{
	json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *of = json_object_get(object, "of"), *lost = json_object_get(object, "lost");
	bool good = json_is_object(object) && (of == NULL || json_integer_value(of) > 0) &&
	    (lost == NULL || json_integer_value(lost) > 0);

	ret->of = good ? (uint64_t)json_integer_value(of) : 0;
	ret->lost = good ? (uint64_t)json_integer_value(lost) : 0;
	ret->torn = json_is_true(json_object_get(object, "torn"));
	json_decref(object);
	if (ret->kind == AUDIT_OUTCOME ? ret->of == 0 : ret->of != 0 && ret->kind != AUDIT_EVENT)
		return false;
	return good && ret->of < ret->seq;
}

bool
audit_line_check(const char *line, size_t len, struct audit_checked *ret, const char **ret_why)
{
	*ret = (struct audit_checked){ 0 };
	*ret_why = "is not a line of an audit log";
	if (len < SUM_LEN + PREV_LEN || len >= AUDIT_LINE_MAX || !check_front(line, len, ret))
		return false;
	*ret_why = "was changed: its sum does not match";
	if (!check_sum(line, len, ret))
		return false;
	*ret_why = "was not written by this program";
	return check_members(line, len, ret);
}

/* ---- the chain ---- */

void
audit_fold_whole(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len)
{
	struct digest_piece pieces[] = { { text, len }, { "\n", 1 } };

	digest_pieces(pieces, 2, head);
}

void
audit_fold_torn(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len)
{
	struct digest_piece pieces[] = { { head, KODA_DIGEST_BYTES }, { text, len }, { "\n", 1 } };
	uint8_t folded[KODA_DIGEST_BYTES];

	digest_pieces(pieces, 3, folded);
	memcpy(head, folded, sizeof(folded));
}

static int __attribute__((format(printf, 3, 4)))
broken(struct audit_chain *chain, uint64_t line, const char *fmt, ...)
{
	va_list ap;

	chain->broken_line = line;
	va_start(ap, fmt);
	vsnprintf(chain->why, sizeof(chain->why), fmt, ap);
	va_end(ap);
	return -1;
}

/* Checks that a whole line follows the lines before it. */
static int
follow(struct audit_chain *chain, const struct audit_checked *line)
{
	uint64_t at = chain->lines;

	if (chain->torn_line != 0 && !line->torn)
		return broken(chain, chain->torn_line, "%s", chain->torn_why);
	if (chain->torn_line == 0 && line->torn)
		return broken(chain, at, "reports a torn line before it, but there is none");
	if (line->seq != chain->seq + 1)
		return broken(chain, at,
		    "has the number %" PRIu64 " where %" PRIu64
		    " is expected: lines were removed, inserted or moved",
		    line->seq, chain->seq + 1);
	if (memcmp(line->prev, chain->head, sizeof(chain->head)) != 0)
		return broken(chain, at,
		    "does not continue the line before it, which was changed or replaced");
	if (chain->starts == 0 && line->kind != AUDIT_START)
		return broken(chain, at, "is the first line, but not a start");
	return 0;
}

int
audit_chain_add(struct audit_chain *chain, const char *line, size_t len)
{
	struct audit_checked checked;
	const char *why;

	chain->lines++;
	if (!audit_line_check(line, len, &checked, &why)) {
		if (chain->torn_line == 0) {
			chain->torn_line = chain->lines;
			chain->torn_why = why;
		}
		audit_fold_torn(chain->head, line, len);
		return 0;
	}
	if (follow(chain, &checked) < 0)
		return -1;
	if (chain->torn_line != 0)
		chain->torn += chain->lines - chain->torn_line;
	chain->torn_line = 0;
	chain->seq = checked.seq;
	chain->starts += checked.kind == AUDIT_START;
	chain->intents += checked.kind == AUDIT_INTENT;
	chain->outcomes += checked.kind == AUDIT_OUTCOME;
	chain->events += checked.kind == AUDIT_EVENT;
	chain->lost += checked.lost;
	audit_fold_whole(chain->head, line, len);
	return 0;
}

int
audit_chain_end(struct audit_chain *chain, bool unfinished)
{
	if (unfinished)
		return broken(chain, chain->lines,
		    "is incomplete: the server died or the disk was full while it was written, or it was cut");
	if (chain->torn_line != 0)
		return broken(chain, chain->torn_line, "%s", chain->torn_why);
	if (chain->lines == 0)
		return broken(chain, 0, "the file is empty");
	return 0;
}
