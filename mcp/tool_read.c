/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/connection_slot.h"
#include "mcp/content.h"
#include "mcp/record.h"
#include "mcp/remember.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"

#define LINES_DEFAULT 2000
#define BYTES_DEFAULT (64u << 10)
/* More at once only fills a model's context; it can read on from there. */
#define READ_BYTES_MAX (256u << 10)
/* What models accept; as base64 it is about what may be held for a client. */
#define IMAGE_BYTES_MAX (3u << 20)
#define LIST_DEFAULT    1000

/* ---- read_file ---- */

static bool
by_bytes(const struct tool_call *call)
{
	const char *unit = tool_string(call, "unit");

	return unit != NULL && strcmp(unit, "bytes") == 0;
}

static json_t *
begin_read(const struct koda_result *result, const char *encoding)
{
	char digest[TEXT_DIGEST_SIZE];
	json_t *ret = json_object();

	text_digest(digest, result->digest);
	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "encoding", json_string_nocheck(encoding));
	json_object_set_new_nocheck(ret, "size", json_integer((json_int_t)result->size));
	json_object_set_new_nocheck(ret, "digest", json_string_nocheck(digest));
	return ret;
}

/* Ends the call with content, shown as it is and followed by a note if there is more. */
static void
end_read(struct tool_call *call, json_t *ret, json_t *content, uint64_t offset, uint64_t count,
    bool more)
{
	json_t *shown = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
	const uint64_t next = offset + count;
	char note[96];

	json_object_set_new_nocheck(ret, "content", content);
	json_object_set_new_nocheck(ret, "offset", json_integer((json_int_t)offset));
	json_object_set_new_nocheck(ret, "count", json_integer((json_int_t)count));
	json_object_set_new_nocheck(ret, "more", json_boolean(more));
	if (more) {
		json_object_set_new_nocheck(ret, "next_offset", json_integer((json_int_t)next));
		snprintf(note, sizeof(note), "(there is more: continue with offset %llu)",
		    (unsigned long long)next);
		json_array_append_new(shown, json_pack("{s:s, s:s}", "type", "text", "text", note));
	}
	tool_done_content(call, ret, shown);
}

static void
tell_bytes(struct tool_call *call, const struct koda_result *result)
{
	uint64_t offset = tool_number(call, "offset", 0),
		 limit = tool_number(call, "limit", BYTES_DEFAULT);
	struct text t = { 0 };
	struct koda_error err;
	json_t *content;
	size_t len;
	bool text;

	limit = limit < READ_BYTES_MAX ? limit : READ_BYTES_MAX;
	if (content_read(result, offset, (size_t)limit, &t, &err) < 0) {
		text_done(&t);
		tool_failed(call, &err, NULL);
		return;
	}
	len = t.len;
	/* U+0000 is valid JSON, but many readers cut the text there or reject it. */
	text = len == 0 || memchr(t.p, '\0', len) == NULL;
	content = text ? json_stringn(len > 0 ? t.p : "", len) : NULL; /* NULL: it is not UTF-8 */
	text = content != NULL;
	if (!text)
		content = text_json_base64(t.p, len);
	text_done(&t);
	end_read(call, begin_read(result, text ? "utf-8" : "base64"), content, offset, len,
	    offset + len < result->size);
}

static void
number_lines(struct text *to, const struct text *from, uint64_t line)
{
	const char *p = from->p, *end = from->len > 0 ? p + from->len : p;

	for (; p < end; line++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *next = newline != NULL ? newline + 1 : end;

		text_printf(to, "%6llu\t", (unsigned long long)line);
		text_add(to, p, (size_t)(next - p));
		p = next;
	}
}

static void
tell_lines(struct tool_call *call, const struct koda_result *result)
{
	uint64_t first = tool_number(call, "offset", 1);
	struct content_lines lines = { 0 };
	struct text numbered = { 0 };
	struct koda_error err;
	json_t *content;
	bool lossless;

	first = first > 0 ? first : 1;
	if (content_lines(result, first, tool_number(call, "limit", LINES_DEFAULT), READ_BYTES_MAX,
		&lines, &err) < 0) {
		text_done(&lines.text);
		tool_failed(call, &err, NULL);
		return;
	}
	if (lines.has_nul || lines.cut) {
		text_done(&lines.text);
		if (lines.has_nul)
			tool_fail(call, KODA_INVALID,
			    "it is not text: use unit \"bytes\", which returns base64");
		else
			tool_fail(call, KODA_TOO_LARGE,
			    "line %llu has more than %u bytes: read it with unit \"bytes\"",
			    (unsigned long long)first, READ_BYTES_MAX);
		return;
	}
	if (tool_bool(call, "numbered")) {
		number_lines(&numbered, &lines.text, first);
		text_done(&lines.text);
		lines.text = numbered;
	}
	content = json_stringn(lines.text.len > 0 ? lines.text.p : "", lines.text.len);
	lossless = content != NULL;
	if (!lossless)
		content = text_json_bytes(lines.text.p, lines.text.len);
	text_done(&lines.text);
	end_read(call, begin_read(result, lossless ? "utf-8" : "utf-8-lossy"), content, first,
	    lines.n, lines.more);
}

static void
tell_image(struct tool_call *call, const struct koda_result *result, const char *type)
{
	struct text t = { 0 };
	struct koda_error err;
	json_t *ret;

	if (result->size > IMAGE_BYTES_MAX) {
		tool_fail(call, KODA_TOO_LARGE,
		    "the image has %llu bytes, and at most %u can be shown",
		    (unsigned long long)result->size, IMAGE_BYTES_MAX);
		return;
	}
	if (content_read(result, 0, (size_t)result->size, &t, &err) < 0) {
		text_done(&t);
		tool_failed(call, &err, NULL);
		return;
	}
	ret = begin_read(result, "image");
	json_object_set_new_nocheck(ret, "mime_type", json_string_nocheck(type));
	tool_done_content(call, ret,
	    json_pack("[{s:s, s:o, s:s}]", "type", "image", "data", text_json_base64(t.p, t.len),
		"mimeType", type));
	text_done(&t);
}

static void
on_read(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct text head = { 0 };
	struct koda_error why;
	const char *image = NULL;

	if (err != NULL) {
		/* A missing file has no content to compare with any more. */
		remember_forget(call->conn->remembered, err->path);
		tool_failed(call, err,
		    err->code == KODA_IO && err->errnum == EISDIR ? "Use list_directory." : NULL);
		return;
	}
	record_result(call, result);
	remember_seen(call->conn->remembered, tool_string(call, "path"), result->path,
	    result->digest);
	if (by_bytes(call)) {
		tell_bytes(call, result);
		return;
	}
	if (content_read(result, 0, 16, &head, &why) == 0 && head.len > 0)
		image = content_image_type(head.p, head.len);
	text_done(&head);
	if (image != NULL)
		tell_image(call, result, image);
	else
		tell_lines(call, result);
}

void
tool_read_file(struct tool_call *call)
{
	/* Reads all of it: large content comes as a descriptor, so that costs nothing. */
	const struct koda_op op = {
		.kind = KODA_OP_READ,
		.flags = KODA_DIGEST,
		.path = tool_string(call, "path"),
	};

	if (tool_check_paths(call, (const char *const[]){ "path", NULL }))
		tool_submit(call, &op, on_read);
}

/* ---- list_directory ---- */

/* Adds one entry in both forms. types has one value for each type, which all entries share. */
static void
add_entry(json_t *entries, struct text *t, const struct koda_entry *e, bool sizes,
    json_t *const *types)
{
	const char *mark = e->type == KODA_FILE_DIRECTORY ? "/\n"
	    : e->type == KODA_FILE_SYMLINK                ? "@\n"
							  : "\n";
	json_t *entry = json_object();

	json_object_set_new_nocheck(entry, "name", text_json_string(e->name));
	json_object_set_nocheck(entry, "type", types[e->type]);
	text_show_string(t, e->name);
	if (sizes && e->type == KODA_FILE_REGULAR) {
		json_object_set_new_nocheck(entry, "size", json_integer((json_int_t)e->size));
		text_printf(t, "\t%llu", (unsigned long long)e->size);
	}
	text_add(t, mark, strlen(mark));
	json_array_append_new(entries, entry);
}

static void
on_list(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	const bool sizes = tool_bool(call, "sizes");
	json_t *ret, *entries, *types[KODA_FILE_OTHER + 1];
	uint64_t from, limit, i;
	struct text t = { 0 };

	if (err != NULL) {
		tool_failed(call, err, NULL);
		return;
	}
	record_result(call, result);
	from = tool_number(call, "offset", 0);
	limit = tool_number(call, "limit", LIST_DEFAULT);
	entries = json_array();
	for (size_t k = 0; k <= KODA_FILE_OTHER; k++)
		types[k] = json_string_nocheck(text_file_type((enum koda_file_type)k));
	for (i = from; i < result->n_entries && i - from < limit; i++)
		add_entry(entries, &t, &result->entries[i], sizes, types);
	for (size_t k = 0; k <= KODA_FILE_OTHER; k++)
		json_decref(types[k]);
	if (i < result->n_entries)
		text_printf(&t, "(there is more: continue with offset %llu)\n",
		    (unsigned long long)i);
	if (result->hidden > 0)
		text_printf(&t, "(%llu more hidden by the policy)\n",
		    (unsigned long long)result->hidden);
	ret = json_object();
	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "entries", entries);
	json_object_set_new_nocheck(ret, "total", json_integer((json_int_t)result->n_entries));
	json_object_set_new_nocheck(ret, "hidden", json_integer((json_int_t)result->hidden));
	json_object_set_new_nocheck(ret, "more", json_boolean(i < result->n_entries));
	tool_done(call, ret, &t);
}

void
tool_list_directory(struct tool_call *call)
{
	const char *path = tool_string(call, "path");
	const struct koda_op op = {
		.kind = KODA_OP_LIST,
		.path = path != NULL ? path : ".",
		.flags = tool_bool(call, "sizes") ? 0 : KODA_NAMES_ONLY,
	};

	if (tool_check_paths(call, (const char *const[]){ "path", NULL }))
		tool_submit(call, &op, on_list);
}

/* ---- explain_access ---- */

static enum koda_access
wanted_access(const struct tool_call *call)
{
	const char *access = tool_string(call, "access");

	return access != NULL && strcmp(access, "write") == 0 ? KODA_WRITE_ACCESS
							      : KODA_READ_ACCESS;
}

static void
tell_verdict(struct text *t, bool allowed, bool asks, const char *rule, const char *reason)
{
	text_printf(t, "%s: ", asks ? "the user is asked first" : allowed ? "allowed" : "refused");
	text_show_string(t, reason);
	text_printf(t, " (rule: ");
	text_show_string(t, rule);
	text_printf(t, ")");
}

static json_t *
begin_verdict(bool allowed, const char *rule, const char *reason)
{
	json_t *ret = json_object();

	json_object_set_new_nocheck(ret, "allowed", json_boolean(allowed));
	json_object_set_new_nocheck(ret, "rule", text_json_string(rule));
	json_object_set_new_nocheck(ret, "reason", text_json_string(reason));
	return ret;
}

static void
on_explain(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct text t = { 0 };
	struct koda_error why;
	json_t *ret, *links;
	const char *rule;
	struct koda_slot *slot;
	bool allowed, asks;

	if (err != NULL) {
		tool_failed(call, err, NULL);
		return;
	}
	slot = connection_slot(call->conn, &why);
	asks = result->allowed && call->conn->mode == KODA_SAFE &&
	    wanted_access(call) == KODA_WRITE_ACCESS;
	ret = begin_verdict(result->allowed, result->rule, result->reason);
	links = json_array();
	for (size_t i = 0; i < result->n_hops; i++)
		json_array_append_new(links, text_json_string(result->hops[i]));
	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "access",
	    json_string_nocheck(wanted_access(call) == KODA_WRITE_ACCESS ? "write" : "read"));
	json_object_set_new_nocheck(ret, "asks", json_boolean(asks));
	json_object_set_new_nocheck(ret, "links", links);
	tell_verdict(&t, result->allowed, asks, result->rule, result->reason);
	if (slot != NULL &&
	    koda_slot_explain_command(slot, wanted_access(call), result->path, &allowed, &rule,
		&why) == 0) {
		json_object_set_new_nocheck(ret, "command",
		    json_pack("{s:b, s:o}", "allowed", (int)allowed, "rule",
			text_json_string(rule)));
		text_printf(&t, "; by commands: %s", allowed ? "allowed" : "refused");
	}
	tool_done(call, ret, &t);
}

static void
explain_host(struct tool_call *call, const char *host)
{
	struct koda_host_verdict v;
	struct text t = { 0 };
	struct koda_error err;
	json_t *ret;

	if (koda_explain_host(koda_session_policy(call->conn->ses), call->conn->mode, host, &v,
		&err) < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	if (v.asks && !call->conn->asks_hosts) {
		v.asks = false;
		snprintf(v.reason, sizeof(v.reason),
		    "%s:%u is refused: no rule of the policy names this host with this port, and this "
		    "session does not ask for other hosts (rule %s, mode safe)",
		    v.host, v.port, v.rule);
	}
	ret = begin_verdict(v.allowed, v.rule, v.reason);
	json_object_set_new_nocheck(ret, "asks", json_boolean(v.asks));
	json_object_set_new_nocheck(ret, "host", text_json_string(v.host));
	json_object_set_new_nocheck(ret, "port", json_integer(v.port));
	/* The sentence has the verdict and the rule. */
	text_show_string(&t, v.reason);
	tool_done(call, ret, &t);
}

void
tool_explain_access(struct tool_call *call)
{
	const char *path = tool_string(call, "path"), *host = tool_string(call, "host");
	const struct koda_op op = {
		.kind = KODA_OP_EXPLAIN,
		.path = path,
		.access = wanted_access(call),
	};

	if (!tool_check_paths(call, (const char *const[]){ "path", "host", NULL }))
		return;
	if ((path == NULL) == (host == NULL))
		tool_fail(call, KODA_INVALID, "give either path or host");
	else if (host != NULL)
		explain_host(call, host);
	else
		tool_submit(call, &op, on_explain);
}
