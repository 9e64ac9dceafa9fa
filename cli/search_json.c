/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search_json.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/show.h"
#include "shared/base/utf8.h"
#include "show/visible.h"

static void
set_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void
set_path(json_t *object, const char *const *operands, size_t n_operands,
    const struct koda_found *found)
{
	struct search_name name = search_name(operands, n_operands, found);
	size_t size = strlen(name.operand) + strlen(name.slash) + strlen(name.below) + 1;
	char *path = output_alloc(size);

	snprintf(path, size, "%s%s%s", name.operand, name.slash, name.below);
	show_json_path(object, "path", path);
	free(path);
}

static void
set_text(json_t *object, const struct koda_found *found)
{
	if (utf8_is_valid(found->text, found->len))
		json_object_set_new(object, "text", json_stringn_nocheck(found->text, found->len));
	else
		json_object_set_new(object, "bytes", show_json_base64(found->text, found->len));
	if (found->cut_before > 0)
		set_number(object, "cut_before", found->cut_before);
	if (found->cut_after > 0)
		set_number(object, "cut_after", found->cut_after);
}

static void
set_spans(json_t *object, const struct koda_found *found)
{
	json_t *spans = json_array();

	for (size_t i = 0; i < found->n_spans; i++) {
		json_t *span = json_array();

		json_array_append_new(span, json_integer((json_int_t)found->spans[i].start));
		json_array_append_new(span, json_integer((json_int_t)found->spans[i].end));
		json_array_append_new(spans, span);
	}
	json_object_set_new(object, "spans", spans);
}

static void
set_entry(json_t *object, const struct koda_found *found)
{
	json_object_set_new(object, "entry", json_string(show_type(found->type)));
	set_number(object, "depth", found->depth);
	set_number(object, "size", found->size);
	if (found->type == KODA_FILE_DIRECTORY)
		set_number(object, "files", found->files);
}

static const char *
kind_name(enum koda_found_kind kind)
{
	switch (kind) {
	case KODA_FOUND_FILE:
		return "file";
	case KODA_FOUND_MATCH:
		return "match";
	case KODA_FOUND_CONTEXT:
		return "context";
	case KODA_FOUND_COUNT:
		return "count";
	case KODA_FOUND_BINARY:
		return "binary";
	case KODA_FOUND_ENTRY:
		return "entry";
	case KODA_FOUND_TROUBLE:
		return "trouble";
	}
	return "";
}

json_t *
search_json_found(const char *const *operands, size_t n_operands, const struct koda_found *found)
{
	json_t *object = json_object();

	json_object_set_new(object, "type", json_string(kind_name(found->kind)));
	set_path(object, operands, n_operands, found);
	switch (found->kind) {
	case KODA_FOUND_FILE:
		if (found->mtime_ns != 0)
			json_object_set_new(object, "mtime_ns", json_integer(found->mtime_ns));
		break;
	case KODA_FOUND_MATCH:
	case KODA_FOUND_CONTEXT:
		set_number(object, "line", found->line);
		set_number(object, "offset", found->offset);
		set_text(object, found);
		if (found->kind == KODA_FOUND_MATCH)
			set_spans(object, found);
		break;
	case KODA_FOUND_COUNT:
		set_number(object, "count", found->count);
		break;
	case KODA_FOUND_BINARY:
		set_number(object, "offset", found->offset);
		break;
	case KODA_FOUND_ENTRY:
		set_entry(object, found);
		break;
	case KODA_FOUND_TROUBLE:
		json_object_set_new(object, "reason",
		    show_json_lossy(found->reason, strlen(found->reason)));
		break;
	}
	return object;
}

json_t *
search_json_result(const struct koda_search_result *result)
{
	json_t *object = output_object();

	json_object_set_new(object, "type", json_string("summary"));
	json_object_set_new(object, "more", json_boolean(result->more));
	set_number(object, "found", result->found);
	set_number(object, "matches", result->matches);
	set_number(object, "files", result->files);
	set_number(object, "files_matched", result->files_matched);
	set_number(object, "bytes", result->bytes);
	set_number(object, "hidden", result->hidden);
	set_number(object, "binary", result->binary);
	set_number(object, "troubles", result->troubles);
	json_object_set_new(object, "recovered", json_boolean(result->recovered));
	return object;
}
