/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/resources.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/call.h"
#include "mcp/connection_slot.h"
#include "mcp/content.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/uri.h"

/* A resource is sent in one piece; read_file continues where this ends. */
#define RESOURCE_BYTES_MAX (1u << 20)
#define PAGE               100
/* Maximum directories listed for one page, so that a page over a tree of empty directories ends
 * too. */
#define LISTS_MAX 1000
#define DEPTH_MAX 64
/* Maximum bytes of a directory's path below the root. */
#define DIR_MAX 4096
/* Room for every cursor that a list can give: a name below such a directory, each byte escaped. */
#define CURSOR_SIZE (sizeof("file:///") + 3 * (DIR_MAX + NAME_MAX))

#define OWED_READ ((4u << 20) / 3)
#define OWED_LIST (64u << 10)

static void
refuse(struct tool_call *call, const struct koda_error *err)
{
	json_t *data = json_object();

	record_failed(call, err);
	json_object_set_new_nocheck(data, "code", json_string_nocheck(koda_code_name(err->code)));
	if (err->rule[0] != '\0')
		json_object_set_new_nocheck(data, "rule", text_json_string(err->rule));
	if (err->code == KODA_INVALID || err->code == KODA_TOO_LARGE) {
		call_refuse(call, RPC_INVALID_PARAMS, err->message, data);
	} else if (err->code == KODA_POLICY_DENIED || err->code == KODA_IO) {
		/* A refused file is reported like a missing one: a client can do as much with
		 * either. With rounds, neither has an error code of its own. */
		call_refuse(call,
		    call->conn->version->rounds ? RPC_INVALID_PARAMS : RPC_NO_RESOURCE,
		    err->message, data);
	} else {
		call_refuse(call, RPC_INTERNAL, err->message, data);
	}
}

static void
submit(struct tool_call *call, const struct koda_op *op, koda_done_fn *done)
{
	struct koda_error err;
	struct koda_slot *slot = connection_slot(call->conn, &err);

	if (slot == NULL || koda_call_async(slot, op, done, call, &err) < 0)
		refuse(call, &err);
}

/* ---- read ---- */

static void
on_read(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct koda_error why = { .code = KODA_TOO_LARGE };
	struct text t = { 0 };
	json_t *content, *text = NULL;
	const char *image;

	if (err == NULL && result->size > RESOURCE_BYTES_MAX) {
		snprintf(why.message, sizeof(why.message),
		    "the file has %llu bytes, and a resource at most %u: use read_file",
		    (unsigned long long)result->size, RESOURCE_BYTES_MAX);
		err = &why;
	}
	if (err == NULL && content_read(result, 0, RESOURCE_BYTES_MAX, &t, &why) < 0)
		err = &why;
	if (err != NULL) {
		text_done(&t);
		refuse(call, err);
		return;
	}
	record_result(call, result);
	record_allowed(call);
	content = json_object();
	json_object_set_nocheck(content, "uri", (json_t *)call->state);
	if (t.len == 0 || memchr(t.p, '\0', t.len) == NULL)
		text = json_stringn(t.len > 0 ? t.p : "", t.len); /* NULL: it is not UTF-8 */
	image = content_image_type(t.p, t.len);
	json_object_set_new_nocheck(content, "mimeType",
	    json_string_nocheck(image != NULL ? image
		    : text != NULL            ? "text/plain"
					      : "application/octet-stream"));
	if (text != NULL)
		json_object_set_new_nocheck(content, "text", text);
	else
		json_object_set_new_nocheck(content, "blob", text_json_base64(t.p, t.len));
	text_done(&t);
	call_answer(call, json_pack("{s:[o]}", "contents", content));
}

static void
free_uri(void *state)
{
	json_decref(state);
}

const char *
resources_read(struct connection *conn, struct batch *batch, const struct rpc *rpc)
{
	json_t *uri = json_object_get(rpc->params, "uri");
	struct koda_op op = { .kind = KODA_OP_READ };
	struct koda_error err;
	struct tool_call *call;
	char *path;

	if (!json_is_string(uri) || strlen(json_string_value(uri)) != json_string_length(uri))
		return "uri is not a string";
	path = uri_to_path(json_string_value(uri));
	if (path == NULL)
		return "uri is not of the form file:///...";
	call = call_new(conn, batch, rpc->id, rpc->params, OWED_READ);
	call->state = json_incref(uri);
	call->free_state = free_uri;
	op.path = path;
	op.flags = record_is_kept(conn->hub->record) ? KODA_DIGEST : 0;
	if (record_begin(call, "resources/read", path, &err) < 0)
		refuse(call, &err);
	else
		submit(call, &op, on_read);
	free(path);
	return NULL;
}

/* ---- list ---- */

/*
 * One page of a walk over the tree, in byte order, with a directory at the position of its name.
 * The cursor is the path that the page before ended with, so nothing is kept between pages, and
 * changes between them do no harm. Names that begin with a dot are left out: they are seldom meant,
 * and resources/read accepts them anyway.
 */
struct resource_walk {
	json_t *found;
	char *dir;   /* below the root; "": the root */
	char *after; /* continue after this path; "": from the beginning */
	unsigned lists, depth;
	/* Listings on the way down, so that going back up does not list again. */
	struct listing {
		char *dir;
		char **names;
		enum koda_file_type *types;
		uint64_t *sizes;
		size_t n, next;
	} stack[DEPTH_MAX];
};

static void
free_listing(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
	free(l->types);
	free(l->sizes);
	free(l->dir);
	*l = (struct listing){ 0 };
}

static void
free_walk(void *state)
{
	struct resource_walk *walk = state;

	while (walk->depth > 0)
		free_listing(&walk->stack[--walk->depth]);
	json_decref(walk->found);
	free(walk->dir);
	free(walk->after);
	free(walk);
}

static char *
join(const char *dir, const char *name)
{
	struct text t = { 0 };

	text_add(&t, dir, strlen(dir));
	if (dir[0] != '\0')
		text_add(&t, "/", 1);
	text_add(&t, name, strlen(name) + 1);
	return t.p;
}

/* Returns the cursor for a path: a URI, since a path may have any bytes. */
static char *
cursor_of(const char *path)
{
	struct text t = { 0 };
	char *ret;

	text_add(&t, "/", 1);
	text_add(&t, path, strlen(path) + 1);
	ret = uri_of_path(t.p);
	text_done(&t);
	return ret;
}

static char *
path_of(const char *cursor)
{
	char *path = uri_to_path(cursor);

	if (path != NULL)
		memmove(path, path + 1, strlen(path));
	return path;
}

static json_t *
describe(const struct connection *conn, const char *path, uint64_t size)
{
	struct text whole = { 0 };
	char *uri;
	json_t *ret = json_object();

	if (strcmp(conn->root, "/") != 0)
		text_add(&whole, conn->root, strlen(conn->root));
	text_add(&whole, "/", 1);
	text_add(&whole, path, strlen(path) + 1);
	uri = uri_of_path(whole.p);
	text_done(&whole);
	json_object_set_new_nocheck(ret, "uri", json_string_nocheck(uri));
	json_object_set_new_nocheck(ret, "name", text_json_string(path));
	json_object_set_new_nocheck(ret, "size", json_integer((json_int_t)size));
	free(uri);
	return ret;
}

static void
end_page(struct tool_call *call, const char *last)
{
	struct resource_walk *walk = call->state;
	json_t *result = json_object();

	record_allowed(call);
	json_object_set_nocheck(result, "resources", walk->found);
	if (last != NULL) {
		char *cursor = cursor_of(last);

		json_object_set_new_nocheck(result, "nextCursor", json_string_nocheck(cursor));
		free(cursor);
	}
	call_answer(call, result);
}

/* Compares two paths in the order of the walk, which compares names level by level. Returns 0 or
 * less if a walk that ended with `after` has already been at path. */
static int
compare_levels(const char *path, const char *after)
{
	for (;;) {
		size_t n = strcspn(path, "/"), m = strcspn(after, "/");
		int r = memcmp(path, after, n < m ? n : m);

		if (r == 0 && n != m)
			r = n < m ? -1 : 1;
		if (r != 0)
			return r;
		if (path[n] == '\0' || after[m] == '\0')
			return (path[n] != '\0') - (after[m] != '\0');
		path += n + 1;
		after += m + 1;
	}
}

static void walk_on(struct tool_call *call);

static void
on_listing(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct resource_walk *walk = call->state;
	struct listing *l = &walk->stack[walk->depth];

	if (err != NULL && walk->depth == 0 && walk->lists == 1) {
		refuse(call, err);
		return;
	}
	/* A directory that is gone, or may not be read, has nothing to list. */
	if (err == NULL) {
		l->dir = memory_string(walk->dir);
		l->names = memory_zero(result->n_entries * sizeof(*l->names));
		l->types = memory_zero(result->n_entries * sizeof(*l->types));
		l->sizes = memory_zero(result->n_entries * sizeof(*l->sizes));
		for (size_t i = 0; i < result->n_entries; i++) {
			const struct koda_entry *e = &result->entries[i];

			if (e->name[0] == '.' ||
			    (e->type != KODA_FILE_REGULAR && e->type != KODA_FILE_DIRECTORY))
				continue;
			l->names[l->n] = memory_string(e->name);
			l->types[l->n] = e->type;
			l->sizes[l->n++] = e->size;
		}
		walk->depth++;
	}
	walk_on(call);
}

/* Returns whether the directory at path can hold anything that comes after `after`. */
static bool
leads_on(const char *path, const char *after)
{
	size_t n = strlen(path);

	return compare_levels(path, after) > 0 ||
	    (strncmp(path, after, n) == 0 && (after[n] == '/' || after[n] == '\0'));
}

static void
walk_on(struct tool_call *call)
{
	struct resource_walk *walk = call->state;

	while (walk->depth > 0 && !call->mute) {
		struct listing *l = &walk->stack[walk->depth - 1];
		struct koda_op op = { .kind = KODA_OP_LIST };
		enum koda_file_type type;
		uint64_t size;
		char *path;

		if (l->next == l->n) {
			free_listing(l);
			walk->depth--;
			continue;
		}
		path = join(l->dir, l->names[l->next]);
		type = l->types[l->next];
		size = l->sizes[l->next++];
		if (type == KODA_FILE_DIRECTORY && leads_on(path, walk->after) &&
		    walk->depth < DEPTH_MAX && strlen(path) < DIR_MAX) {
			if (walk->lists++ == LISTS_MAX) {
				end_page(call, path);
				free(path);
				return;
			}
			free(walk->dir);
			walk->dir = path;
			op.path = path;
			submit(call, &op, on_listing);
			return;
		}
		if (type == KODA_FILE_REGULAR && compare_levels(path, walk->after) > 0) {
			json_array_append_new(walk->found, describe(call->conn, path, size));
			if (json_array_size(walk->found) == PAGE) {
				end_page(call, path);
				free(path);
				return;
			}
		}
		free(path);
	}
	end_page(call, NULL);
}

const char *
resources_list(struct connection *conn, struct batch *batch, const struct rpc *rpc)
{
	const json_t *cursor = json_object_get(rpc->params, "cursor");
	const struct koda_op op = { .kind = KODA_OP_LIST, .path = "." };
	struct koda_error err;
	struct resource_walk *walk;
	struct tool_call *call;
	char *after = NULL;

	if (cursor != NULL) {
		if (json_is_string(cursor) && json_string_length(cursor) < CURSOR_SIZE)
			after = path_of(json_string_value(cursor));
		if (after == NULL)
			return "cursor is not one that a list returned";
	}
	walk = memory_zero(sizeof(*walk));
	walk->found = json_array();
	walk->dir = memory_string("");
	walk->after = after != NULL ? after : memory_string("");
	walk->lists = 1;
	call = call_new(conn, batch, rpc->id, rpc->params, OWED_LIST);
	call->state = walk;
	call->free_state = free_walk;
	if (record_begin(call, "resources/list", conn->root, &err) < 0)
		refuse(call, &err);
	else
		submit(call, &op, on_listing);
	return NULL;
}

json_t *
resources_templates(struct connection *conn)
{
	char *uri = uri_of_path(conn->root);
	struct text t = { 0 };
	json_t *ret;

	text_printf(&t, "%s%s{+path}", uri, uri[strlen(uri) - 1] == '/' ? "" : "/");
	free(uri);
	ret = json_pack("{s:[{s:o, s:s, s:s}]}", "resourceTemplates", "uriTemplate", text_json(&t),
	    "name", "file", "description", "A file of the project, by its path below the root.");
	return ret;
}
