/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_search.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/call.h"
#include "mcp/connection_slot.h"
#include "mcp/memory.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"

/* Each is a process that reads as fast as it can. Below the library's limit for one slot. */
#define SEARCHES_AT_ONCE 4
/* Including those in the queue: the answers owed for them stay below CONNECTION_HOLD_BYTES, so
 * that a cancellation is always read. */
#define SEARCHES_MAX 64
/* What a model reads at once; it can narrow its search. */
#define SEARCH_TEXT_MAX (64u << 10)
/* Columns of a line: longer lines are generated code or data. */
#define SEARCH_COLUMNS 500
#define LINES_DEFAULT  250
#define NAMES_DEFAULT  1000
#define DEPTH_DEFAULT  3
/* Maximum sentences about problems; the number of problems shows that there are more. */
#define TROUBLES_TOLD 20

struct search {
	enum koda_search_kind kind;
	bool has_context;
	struct koda_search *handle; /* NULL: it is waiting for its turn */
	struct text text, troubles;
	json_t *list;  /* what was found */
	json_t *file;  /* the member of list whose lines are arriving; NULL: none */
	char *path;    /* path of file below the place */
	uint64_t line; /* the last line reported of file */
	json_t *trouble_list;
};

static void
free_search(void *state)
{
	struct search *s = state;

	koda_search_free(s->handle);
	text_done(&s->text);
	text_done(&s->troubles);
	json_decref(s->list);
	json_decref(s->trouble_list);
	free(s->path);
	free(s);
}

/* ---- results as they arrive ---- */

/* Adds the path as the other tools accept it: the place that the caller named, and the rest
 * below it. */
static void
add_path(struct text *t, const struct tool_call *call, const char *below)
{
	const char *place = tool_string(call, "path");
	size_t len = place != NULL && strcmp(place, ".") != 0 ? strlen(place) : 0;

	while (len > 1 && place[len - 1] == '/')
		len--;
	if (len > 0)
		text_add(t, place, len);
	if (len > 0 && place[len - 1] != '/' && below[0] != '\0')
		text_add(t, "/", 1);
	text_add(t, below, strlen(below));
	if (t->len == 0)
		text_add(t, ".", 1);
}

static json_t *
path_json(const struct tool_call *call, const char *below)
{
	struct text t = { 0 };

	add_path(&t, call, below);
	return text_json(&t);
}

static void
show_path(struct text *t, const struct tool_call *call, const char *below)
{
	struct text path = { 0 };

	add_path(&path, call, below);
	text_show(t, path.p, path.len, false);
	text_done(&path);
}

static void
add_number(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new_nocheck(object, key, json_integer((json_int_t)value));
}

static json_t *
begin_file(struct tool_call *call, struct search *s, const char *path)
{
	json_t *file = json_object();

	json_object_set_new_nocheck(file, "path", path_json(call, path));
	json_array_append_new(s->list, file);
	return file;
}

static void
take_line(struct tool_call *call, struct search *s, const struct koda_found *f)
{
	const bool match = f->kind == KODA_FOUND_MATCH;
	json_t *line = json_object();

	if (s->file == NULL || strcmp(s->path, f->path) != 0) {
		s->file = begin_file(call, s, f->path);
		json_object_set_new_nocheck(s->file, "lines", json_array());
		free(s->path);
		s->path = memory_string(f->path);
		text_printf(&s->text, "%s", s->text.len > 0 ? "\n" : "");
		show_path(&s->text, call, f->path);
		text_printf(&s->text, "\n");
	} else if (f->line > s->line + 1 && s->has_context) {
		text_printf(&s->text, "--\n");
	}
	s->line = f->line;
	text_printf(&s->text, "%llu%c%s", (unsigned long long)f->line, match ? ':' : '-',
	    f->cut_before > 0 ? "[...]" : "");
	text_add(&s->text, f->text, f->len);
	text_printf(&s->text, "%s\n", f->cut_after > 0 ? "[...]" : "");
	add_number(line, "line", f->line);
	json_object_set_new_nocheck(line, "text", text_json_bytes(f->text, f->len));
	if (!match)
		json_object_set_new_nocheck(line, "context", json_true());
	if (f->cut_before + f->cut_after > 0)
		json_object_set_new_nocheck(line, "cut", json_true());
	json_array_append_new(json_object_get(s->file, "lines"), line);
}

static void
take_file(struct tool_call *call, struct search *s, const struct koda_found *f)
{
	json_t *file;

	s->file = NULL;
	show_path(&s->text, call, f->path);
	if (s->kind == KODA_SEARCH_GLOB) {
		text_printf(&s->text, "\n");
		json_array_append_new(s->list, path_json(call, f->path));
		return;
	}
	file = begin_file(call, s, f->path);
	if (f->kind == KODA_FOUND_COUNT) {
		text_printf(&s->text, ":%llu\n", (unsigned long long)f->count);
		add_number(file, "count", f->count);
	} else if (f->kind == KODA_FOUND_BINARY) {
		text_printf(&s->text, ": binary file matches\n");
		json_object_set_new_nocheck(file, "binary", json_true());
	} else {
		text_printf(&s->text, "\n");
	}
}

static void
take_entry(struct tool_call *call, struct search *s, const struct koda_found *f)
{
	const char *slash = strrchr(f->path, '/');
	const bool dir = f->type == KODA_FILE_DIRECTORY;
	json_t *entry;

	/* In a tree limited by a glob, skip a directory that has no matching files. */
	if (dir && f->files == 0 && f->depth > 0 && tool_string(call, "glob") != NULL)
		return;
	entry = json_object();
	text_printf(&s->text, "%*s", (int)(2 * f->depth), "");
	if (f->depth == 0)
		show_path(&s->text, call, f->path);
	else
		text_show_string(&s->text, slash != NULL ? slash + 1 : f->path);
	text_printf(&s->text, "%s\t%llu",
	    dir                                ? "/"
		: f->type == KODA_FILE_SYMLINK ? "@"
					       : "",
	    (unsigned long long)f->size);
	if (dir)
		text_printf(&s->text, " in %llu file%s", (unsigned long long)f->files,
		    f->files == 1 ? "" : "s");
	text_printf(&s->text, "\n");
	json_object_set_new_nocheck(entry, "path", path_json(call, f->path));
	json_object_set_new_nocheck(entry, "type", json_string_nocheck(text_file_type(f->type)));
	add_number(entry, "size", f->size);
	if (dir)
		add_number(entry, "files", f->files);
	json_array_append_new(s->list, entry);
}

static void
take_trouble(struct tool_call *call, struct search *s, const struct koda_found *f)
{
	json_t *one;

	if (json_array_size(s->trouble_list) == TROUBLES_TOLD)
		return;
	one = json_object();
	json_object_set_new_nocheck(one, "path", path_json(call, f->path));
	json_object_set_new_nocheck(one, "reason", text_json_string(f->reason));
	json_array_append_new(s->trouble_list, one);
	text_printf(&s->troubles, "(could not be read: ");
	show_path(&s->troubles, call, f->path);
	text_printf(&s->troubles, ": ");
	text_show_string(&s->troubles, f->reason);
	text_printf(&s->troubles, ")\n");
}

static int
on_found(void *data, const struct koda_found *f)
{
	struct tool_call *call = data;
	struct search *s = call->state;

	switch (f->kind) {
	case KODA_FOUND_MATCH:
	case KODA_FOUND_CONTEXT:
		take_line(call, s, f);
		break;
	case KODA_FOUND_FILE:
	case KODA_FOUND_COUNT:
	case KODA_FOUND_BINARY:
		take_file(call, s, f);
		break;
	case KODA_FOUND_ENTRY:
		take_entry(call, s, f);
		break;
	case KODA_FOUND_TROUBLE:
		take_trouble(call, s, f);
		break;
	}
	return s->text.len > SEARCH_TEXT_MAX;
}

/* ---- the end ---- */

static void
print_rest(struct search *s, const struct koda_search_result *r)
{
	struct text *t = &s->text;
	const uint64_t told = json_array_size(s->trouble_list);

	if (t->len == 0)
		text_printf(t, "nothing found in %llu file%s%s\n", (unsigned long long)r->files,
		    r->files == 1 ? "" : "s",
		    s->kind == KODA_SEARCH_GLOB
			? " (hidden and ignored files were left out: set hidden or ignored to include them)"
			: "");
	if (r->more)
		text_printf(t, "(there is more: narrow the search, or raise limit)\n");
	if (r->hidden > 0)
		text_printf(t, "(%llu hidden by the policy)\n", (unsigned long long)r->hidden);
	text_add(t, s->troubles.p, s->troubles.len);
	if (r->troubles > told)
		text_printf(t, "(%llu more could not be read)\n",
		    (unsigned long long)(r->troubles - told));
	if (r->recovered)
		text_printf(t, "(the search process died; another one continued)\n");
}

static void
answer(struct tool_call *call, const struct koda_search_result *r)
{
	static const char *const names[] = {
		[KODA_SEARCH_GLOB] = "files",
		[KODA_SEARCH_GREP] = "matches",
		[KODA_SEARCH_TREE] = "entries",
	};
	struct search *s = call->state;
	json_t *ret = json_object();
	struct text t;

	print_rest(s, r);
	json_object_set_nocheck(ret, names[s->kind], s->list);
	add_number(ret, "found", r->found);
	json_object_set_new_nocheck(ret, "more", json_boolean(r->more));
	add_number(ret, "hidden", r->hidden);
	if (json_array_size(s->trouble_list) > 0)
		json_object_set_nocheck(ret, "troubles", s->trouble_list);
	t = s->text;
	s->text = (struct text){ 0 };
	tool_done(call, ret, &t);
}

static void start_next(struct connection *conn);

static void
on_done(void *data, struct koda_search *handle)
{
	struct tool_call *call = data;
	struct connection *conn = call->conn;
	struct search *s = call->state;
	struct koda_search_result result;
	struct koda_error err;
	int r = koda_search_result(handle, &result, &err);

	koda_search_free(handle);
	s->handle = NULL;
	if (r < 0)
		tool_failed(call, &err, NULL);
	else
		answer(call, &result);
	start_next(conn);
}

static void
on_cancel(struct tool_call *call)
{
	struct connection *conn = call->conn;

	/* This frees the call's state, and the search with it. */
	call_answer(call, json_null());
	start_next(conn);
}

/* ---- the beginning ---- */

static bool
is(const struct tool_call *call, const char *key, const char *value)
{
	const char *s = tool_string(call, key);

	return s != NULL && strcmp(s, value) == 0;
}

static unsigned
flags_of(const struct tool_call *call, enum koda_search_kind kind)
{
	static const struct {
		const char *key;
		unsigned flag;
	} rows[] = {
		{ "hidden", KODA_SEARCH_HIDDEN },
		{ "ignored", KODA_SEARCH_NO_IGNORE },
		{ "newest", KODA_SEARCH_NEWEST },
		{ "fixed", KODA_SEARCH_FIXED },
		{ "word", KODA_SEARCH_WORD },
		{ "multiline", KODA_SEARCH_MULTILINE },
	};
	/* "**" should match what a person means by it, which is not all of .git. */
	unsigned flags = KODA_SEARCH_GLOBS_NARROW;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		flags |= tool_bool(call, rows[i].key) ? rows[i].flag : 0;
	if (tool_bool(call, "case_insensitive"))
		flags |= kind == KODA_SEARCH_GREP ? KODA_SEARCH_IGNORE_CASE
						  : KODA_SEARCH_GLOB_IGNORE_CASE;
	if (is(call, "output_mode", "files_with_matches"))
		flags |= KODA_SEARCH_FILES;
	else if (is(call, "output_mode", "count"))
		flags |= KODA_SEARCH_COUNT;
	return flags;
}

static void
start(struct tool_call *call)
{
	struct search *s = call->state;
	const char *path = tool_string(call, "path"), *pattern = tool_string(call, "pattern"),
		   *glob = s->kind == KODA_SEARCH_GLOB ? pattern : tool_string(call, "glob"),
		   *type = tool_string(call, "type");
	const bool lines = s->kind == KODA_SEARCH_GREP &&
	    (tool_string(call, "output_mode") == NULL || is(call, "output_mode", "content"));
	const uint64_t context = tool_number(call, "context", 0);
	const struct koda_search_options options = {
		.kind = s->kind,
		.flags = flags_of(call, s->kind),
		.paths = &path,
		.n_paths = path != NULL && strcmp(path, ".") != 0,
		.globs = &glob,
		.n_globs = glob != NULL,
		.types = &type,
		.n_types = type != NULL,
		.patterns = &pattern,
		.n_patterns = s->kind == KODA_SEARCH_GREP,
		.before = lines ? (unsigned)tool_number(call, "before", context) : 0,
		.after = lines ? (unsigned)tool_number(call, "after", context) : 0,
		.limit = tool_number(call, "limit", lines ? LINES_DEFAULT : NAMES_DEFAULT),
		.max_columns = SEARCH_COLUMNS,
		.max_depth = s->kind == KODA_SEARCH_TREE
		    ? (unsigned)tool_number(call, "depth", DEPTH_DEFAULT)
		    : 0,
	};
	struct koda_error err;
	struct koda_slot *slot = connection_slot(call->conn, &err);

	s->handle =
	    slot == NULL ? NULL : koda_search_start(slot, &options, on_found, on_done, call, &err);
	if (s->handle == NULL)
		tool_failed(call, &err, NULL);
}

/* Starts the searches whose turn it is. The oldest call is the last in the list. */
static void
start_next(struct connection *conn)
{
	for (;;) {
		struct tool_call *waits = NULL;
		size_t n = 0;

		for (struct tool_call *c = conn->calls; c != NULL; c = c->next) {
			const struct search *s = c->free_state == free_search ? c->state : NULL;

			n += s != NULL && s->handle != NULL;
			waits = s != NULL && s->handle == NULL ? c : waits;
		}
		if (waits == NULL || n >= SEARCHES_AT_ONCE || conn->broken)
			return;
		start(waits);
	}
}

static size_t
count(const struct connection *conn)
{
	size_t n = 0;

	for (const struct tool_call *c = conn->calls; c != NULL; c = c->next)
		n += c->free_state == free_search;
	return n;
}

static void
search(struct tool_call *call, enum koda_search_kind kind)
{
	static const char *const texts[] = { "pattern", "path", "glob", "type", NULL };
	struct search *s;

	if (!tool_check_paths(call, texts))
		return;
	if (count(call->conn) == SEARCHES_MAX) {
		tool_fail(call, KODA_INTERNAL, "%d searches are under way: wait for one of them",
		    SEARCHES_MAX);
		return;
	}
	s = memory_zero(sizeof(*s));
	s->kind = kind;
	s->list = json_array();
	s->trouble_list = json_array();
	call->state = s;
	call->free_state = free_search;
	call->cancel = on_cancel;
	start_next(call->conn);
}

void
tool_glob(struct tool_call *call)
{
	search(call, KODA_SEARCH_GLOB);
}

void
tool_grep(struct tool_call *call)
{
	search(call, KODA_SEARCH_GREP);
}

void
tool_tree(struct tool_call *call)
{
	search(call, KODA_SEARCH_TREE);
}
