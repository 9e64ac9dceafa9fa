/* SPDX-License-Identifier: Apache-2.0 */
#include "host/search/marshal_search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/filetypes.h"
#include "shared/wire/protocol.h"

_Static_assert((int)KODA_SEARCH_TREE == KODA__SEARCH_KIND__SEARCH_TREE, "kinds cross by number");
_Static_assert((int)KODA_FOUND_TROUBLE == KODA__FOUND_KIND__FOUND_TROUBLE, "so do these");
_Static_assert(KODA_SEARCH_COLUMNS <= SEARCH_COLUMNS_MAX, "the default is allowed");

#define INSTEAD_OF_LINES                                                                           \
	(KODA_SEARCH_COUNT | KODA_SEARCH_COUNT_MATCHES | KODA_SEARCH_FILES |                       \
	    KODA_SEARCH_FILES_WITHOUT)

/* Deeper than any tree that a walk enters. */
#define DEPTH_MAX 4096

/* ---- the request ---- */

static int
too_many(struct koda_error *err, size_t n, const char *what, unsigned max)
{
	return err_set(err, KODA_TOO_LARGE, 0, "%zu %s in one search: the limit is %u", n, what,
	    max);
}

static int
check_strings(const char *const *v, size_t n, const char *what, unsigned max,
    struct koda_error *err)
{
	if (n > max)
		return too_many(err, n, what, max);
	for (size_t i = 0; i < n; i++)
		if (v == NULL || v[i] == NULL)
			return err_set(err, KODA_INVALID, 0, "one of the %s is NULL", what);
	return 0;
}

static int
check_types(const char *const *v, size_t n, struct koda_error *err)
{
	char shown[64];

	if (check_strings(v, n, "types", SEARCH_TYPES_MAX, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (filetype_find(v[i]) != NULL || strcmp(v[i], "all") == 0)
			continue;
		bytes_show(shown, sizeof(shown), v[i], strlen(v[i]));
		return err_set(err, KODA_INVALID, 0, "there is no file type '%s'", shown);
	}
	return 0;
}

static int
check(const struct koda_search_options *o, struct koda_error *err)
{
	const unsigned instead = o->flags & INSTEAD_OF_LINES;

	if (o->kind != KODA_SEARCH_GLOB && o->kind != KODA_SEARCH_GREP &&
	    o->kind != KODA_SEARCH_TREE)
		return err_set(err, KODA_INVALID, 0, "no such kind of search: %d", (int)o->kind);
	if ((o->flags & ~SEARCH_FLAGS) != 0)
		return err_set(err, KODA_INVALID, 0, "unknown search flag");
	if ((instead & (instead - 1)) != 0)
		return err_set(err, KODA_INVALID, 0,
		    "only one of counts, files with a match and files without a match can be "
		    "asked for");
	if (o->n_paths > SEARCH_PATHS_MAX)
		return too_many(err, o->n_paths, "paths", SEARCH_PATHS_MAX);
	for (size_t i = 0; i < o->n_paths; i++) {
		if (o->paths == NULL || o->paths[i] == NULL)
			return err_set(err, KODA_INVALID, 0, "one of the paths is NULL");
		if (path_check((const uint8_t *)o->paths[i], strlen(o->paths[i]), err) < 0)
			return -1;
	}
	if (check_strings(o->globs, o->n_globs, "globs", SEARCH_GLOBS_MAX, err) < 0 ||
	    check_types(o->types, o->n_types, err) < 0 ||
	    check_types(o->types_not, o->n_types_not, err) < 0 ||
	    check_strings(o->patterns, o->n_patterns, "patterns", SEARCH_PATTERNS_MAX, err) < 0)
		return -1;
	if (o->kind == KODA_SEARCH_GREP && o->n_patterns == 0)
		return err_set(err, KODA_INVALID, 0, "a search for content needs a pattern");
	if (o->kind != KODA_SEARCH_GREP && o->n_patterns > 0)
		return err_set(err, KODA_INVALID, 0, "only a search for content takes patterns");
	if (o->before > SEARCH_CONTEXT_MAX || o->after > SEARCH_CONTEXT_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "more lines of context than %u",
		    SEARCH_CONTEXT_MAX);
	if (o->max_columns > SEARCH_COLUMNS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "max_columns is more than %u bytes",
		    SEARCH_COLUMNS_MAX);
	return 0;
}

static ProtobufCBinaryData *
texts(struct arena *arena, const char *const *v, size_t n)
{
	ProtobufCBinaryData *ret = arena_alloc(arena, (n + 1) * sizeof(*ret));

	for (size_t i = 0; ret != NULL && i < n; i++)
		ret[i] = message_text(v[i]);
	return ret;
}

int
marshal_search(const struct koda_search_options *o, uint64_t id, struct packed *ret,
    struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Search m = KODA__SEARCH__INIT;
	size_t len;

	arena_init(&arena);
	if (check(o, err) < 0)
		return -1;
	m.kind = (Koda__SearchKind)o->kind;
	m.flags = o->flags;
	m.n_path = o->n_paths;
	m.n_glob = o->n_globs;
	m.n_type = o->n_types;
	m.n_type_not = o->n_types_not;
	m.n_pattern = o->n_patterns;
	m.path = texts(&arena, o->paths, o->n_paths);
	m.glob = texts(&arena, o->globs, o->n_globs);
	m.type = texts(&arena, o->types, o->n_types);
	m.type_not = texts(&arena, o->types_not, o->n_types_not);
	m.pattern = texts(&arena, o->patterns, o->n_patterns);
	if (m.path == NULL || m.glob == NULL || m.type == NULL || m.type_not == NULL ||
	    m.pattern == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	m.before = o->before;
	m.after = o->after;
	m.max_per_file = o->max_per_file;
	m.limit = o->limit != 0 ? o->limit : KODA_SEARCH_LIMIT;
	m.max_columns = o->max_columns != 0 ? o->max_columns : KODA_SEARCH_COLUMNS;
	m.max_depth = o->max_depth;
	req.id = id;
	req.op_case = KODA__REQUEST__OP_SEARCH;
	req.search = &m;
	len = koda__request__get_packed_size(&req);
	if (len > FRAME_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the search request has %zu bytes and the limit is %u", len, FRAME_MAX);
	ret->data = malloc(len);
	if (ret->data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	ret->len = koda__request__pack(&req, ret->data);
	return 0;
}

/* ---- the answers ---- */

void
marshal_found_init(struct marshal_found *m, const struct koda_search_options *o)
{
	memset(m, 0, sizeof(*m));
	m->kind = o->kind;
	m->flags = o->flags;
	m->limit = o->limit != 0 ? o->limit : KODA_SEARCH_LIMIT;
	m->max_columns = o->max_columns != 0 ? o->max_columns : KODA_SEARCH_COLUMNS;
	m->around = o->before + o->after;
	m->n_places = o->n_paths > 0 ? o->n_paths : 1;
}

void
marshal_found_done(struct marshal_found *m)
{
	free(m->spans);
	m->spans = NULL;
}

void
marshal_found_again(struct marshal_found *m)
{
	m->found = m->context = m->troubles = 0;
}

void
marshal_found_page(struct marshal_found *m)
{
	m->has_path = false;
}

static int
broken(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_PROTOCOL, 0, "the search reported %s", what);
}

/* Is path below a place: names separated by slashes, none of them "." or ".."? */
static bool
is_below(ProtobufCBinaryData path)
{
	const uint8_t *p = path.data, *end;

	if (path.len == 0)
		return true;
	if (path.len > PATH_LEN_MAX || memchr(p, '\0', path.len) != NULL)
		return false;
	for (end = p + path.len; p <= end;) {
		const uint8_t *slash = memchr(p, '/', (size_t)(end - p));
		size_t k = (size_t)((slash == NULL ? end : slash) - p);

		if (k == 0 || k > NAME_LEN_MAX || (k == 1 && p[0] == '.') ||
		    (k == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += k + 1;
	}
	return true;
}

static int
take_place(struct marshal_found *m, const Koda__FoundItem *item, struct koda_error *err)
{
	if (item->has_place != item->has_path)
		return broken(err, "a path without a place, or a place without a path");
	if (!item->has_path)
		return m->has_path ? 0 : broken(err, "a result without a path");
	if (item->place >= m->n_places)
		return broken(err, "an unknown place");
	if (!is_below(item->path))
		return broken(err, "an invalid path");
	if (item->path.len > 0)
		memcpy(m->path, item->path.data, item->path.len);
	m->path[item->path.len] = '\0';
	m->path_len = item->path.len;
	m->place = item->place;
	m->has_path = true;
	return 0;
}

/* Counts one more item, so that a process that lies cannot go on for ever. */
static int
count(struct marshal_found *m, enum koda_found_kind kind, struct koda_error *err)
{
	if (kind == KODA_FOUND_TROUBLE)
		return ++m->troubles > SEARCH_TROUBLES_MAX ? broken(err, "too many problems") : 0;
	/* Context comes before its match too, so matches may lag behind by one. */
	if (kind == KODA_FOUND_CONTEXT)
		return ++m->context > (m->found + 1) * m->around
		    ? broken(err, "more context than was requested")
		    : 0;
	return ++m->found > m->limit ? broken(err, "more results than were requested") : 0;
}

/* Can this search find items of that kind? */
static bool
is_expected(const struct marshal_found *m, Koda__FoundKind kind)
{
	const bool grep = m->kind == KODA_SEARCH_GREP, lines = (m->flags & INSTEAD_OF_LINES) == 0;

	switch (kind) {
	case KODA__FOUND_KIND__FOUND_FILE:
		return m->kind == KODA_SEARCH_GLOB ||
		    (grep && (m->flags & (KODA_SEARCH_FILES | KODA_SEARCH_FILES_WITHOUT)) != 0);
	case KODA__FOUND_KIND__FOUND_MATCH:
	case KODA__FOUND_KIND__FOUND_CONTEXT:
	case KODA__FOUND_KIND__FOUND_BINARY:
		return grep && lines;
	case KODA__FOUND_KIND__FOUND_COUNT:
		return grep && (m->flags & (KODA_SEARCH_COUNT | KODA_SEARCH_COUNT_MATCHES)) != 0;
	case KODA__FOUND_KIND__FOUND_ENTRY:
		return m->kind == KODA_SEARCH_TREE;
	case KODA__FOUND_KIND__FOUND_TROUBLE:
		return true;
	case _KODA__FOUND_KIND_IS_INT_SIZE:
		break;
	}
	return false;
}

static int
take_spans(struct marshal_found *m, const Koda__FoundItem *item, struct koda_found *ret,
    struct koda_error *err)
{
	const size_t n = item->n_span / 2;
	size_t end = 0;

	if (item->n_span % 2 != 0)
		return broken(err, "an incomplete span");
	if (n > m->spans_size) {
		struct koda_span *spans = realloc(m->spans, n * sizeof(*spans));

		if (spans == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "search");
		m->spans = spans;
		m->spans_size = n;
	}
	for (size_t i = 0; i < n; i++) {
		struct koda_span *span = &m->spans[i];

		*span = (struct koda_span){ item->span[2 * i], item->span[2 * i + 1] };
		if (span->start < end || span->end < span->start || span->end > ret->len)
			return broken(err, "a span outside its line");
		end = span->end;
	}
	ret->spans = m->spans;
	ret->n_spans = n;
	return 0;
}

static int
take_line(struct marshal_found *m, const Koda__FoundItem *item, struct koda_found *ret,
    struct koda_error *err)
{
	if (!item->has_line || item->line == 0 || !item->has_offset || !item->has_text)
		return broken(err, "a line without its number, offset or text");
	if (item->text.len > m->max_columns ||
	    (item->text.len > 0 && memchr(item->text.data, '\n', item->text.len) != NULL))
		return broken(err, "an invalid line");
	ret->line = item->line;
	ret->text = item->text.len > 0 ? (const char *)item->text.data : "";
	ret->len = item->text.len;
	ret->cut_before = item->has_cut_before ? item->cut_before : 0;
	ret->cut_after = item->has_cut_after ? item->cut_after : 0;
	if (ret->kind == KODA_FOUND_CONTEXT)
		return item->n_span == 0 ? 0 : broken(err, "a match in a line of context");
	return take_spans(m, item, ret, err);
}

static int
take_entry(const Koda__FoundItem *item, struct koda_found *ret, struct koda_error *err)
{
	if (!item->has_type || !item->has_size || !item->has_depth || item->depth > DEPTH_MAX ||
	    item->has_files != (item->type == KODA__FILE_TYPE__FILE_DIRECTORY))
		return broken(err, "an incomplete entry");
	ret->size = item->size;
	ret->files = item->files;
	ret->depth = item->depth;
	return 0;
}

int
marshal_found_item(struct marshal_found *m, const Koda__FoundItem *item, struct koda_found *ret,
    struct koda_error *err)
{
	*ret = (struct koda_found){ .kind = (enum koda_found_kind)item->kind };
	if (!is_expected(m, item->kind))
		return broken(err, "a kind of result that was not requested");
	if (take_place(m, item, err) < 0)
		return -1;
	ret->place = m->place;
	ret->path = m->path;
	ret->offset = item->has_offset ? item->offset : 0;
	ret->type = item->has_type ? (enum koda_file_type)item->type : KODA_FILE_NONE;
	ret->mtime_ns = item->has_mtime_ns ? item->mtime_ns : 0;
	if (count(m, ret->kind, err) < 0)
		return -1;
	switch (ret->kind) {
	case KODA_FOUND_MATCH:
	case KODA_FOUND_CONTEXT:
		return take_line(m, item, ret, err);
	case KODA_FOUND_COUNT:
		ret->count = item->has_count ? item->count : 0;
		return ret->count > 0 ? 0 : broken(err, "a count of 0");
	case KODA_FOUND_ENTRY:
		return take_entry(item, ret, err);
	case KODA_FOUND_TROUBLE:
		if (!item->has_text)
			return broken(err, "a problem without a reason");
		/* The text goes to terminals and models: bytes that could steer those are made
		 * visible here. */
		bytes_show(m->reason, sizeof(m->reason), item->text.data, item->text.len);
		ret->reason = m->reason;
		return 0;
	case KODA_FOUND_FILE:
	case KODA_FOUND_BINARY:
		break;
	}
	return 0;
}

int
marshal_searched(const struct marshal_found *m, const Koda__Searched *msg,
    struct koda_search_result *ret, struct koda_error *err)
{
	if (msg->found != m->found || msg->troubles < m->troubles)
		return broken(err, "a wrong number of results");
	*ret = (struct koda_search_result){
		.more = msg->more,
		.found = msg->found,
		.matches = msg->matches,
		.files = msg->files,
		.files_matched = msg->files_matched,
		.bytes = msg->bytes,
		.hidden = msg->hidden,
		.binary = msg->binary,
		.troubles = msg->troubles,
	};
	return 0;
}
