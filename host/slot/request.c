/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/request.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

void
packed_done(struct packed *p)
{
	free(p->data);
	*p = (struct packed){ NULL, 0 };
}

bool
request_is_mutation(enum koda_op_kind kind)
{
	switch (kind) {
	case KODA_OP_WRITE:
	case KODA_OP_EDIT:
	case KODA_OP_MKDIR:
	case KODA_OP_REMOVE:
	case KODA_OP_RENAME:
		return true;
	case KODA_OP_PING:
	case KODA_OP_READ:
	case KODA_OP_STAT:
	case KODA_OP_LIST:
	case KODA_OP_EXPLAIN:
	case KODA_OP_RUN:
	case KODA_OP_CONNECT:
		break;
	}
	return false;
}

static int
check_path(const char *what, const char *path, struct koda_error *err)
{
	if (path == NULL)
		return err_set(err, KODA_INVALID, 0, "%s is missing", what);
	return path_check((const uint8_t *)path, strlen(path), err);
}

int
request_check(const struct koda_op *op, struct koda_error *err)
{
	switch (op->kind) {
	case KODA_OP_PING:
		return 0;
	case KODA_OP_EDIT:
		if (op->n_edits == 0 || op->edits == NULL)
			return err_set(err, KODA_INVALID, 0, "edit: no replacement given");
		if (op->n_edits > REPLACEMENTS_MAX)
			return err_set(err, KODA_TOO_LARGE, 0,
			    "%zu replacements in one edit: the limit is %d", op->n_edits,
			    REPLACEMENTS_MAX);
		break;
	case KODA_OP_WRITE:
		if (op->data == NULL && op->len > 0 && op->fd <= 0)
			return err_set(err, KODA_INVALID, 0, "write: no content given");
		break;
	case KODA_OP_RENAME:
		if (check_path("the destination", op->to, err) < 0)
			return -1;
		break;
	case KODA_OP_EXPLAIN:
		if (op->access != KODA_READ_ACCESS && op->access != KODA_WRITE_ACCESS)
			return err_set(err, KODA_INVALID, 0,
			    "explain: the access must be read or write");
		break;
	case KODA_OP_READ:
	case KODA_OP_STAT:
	case KODA_OP_LIST:
	case KODA_OP_MKDIR:
	case KODA_OP_REMOVE:
		break;
	case KODA_OP_RUN: /* koda_command_start() */
	case KODA_OP_CONNECT:
	default:
		return err_set(err, KODA_INVALID, 0, "no such operation: %d", (int)op->kind);
	}
	return check_path("the path", op->path, err);
}

static ProtobufCBinaryData
bin(const void *data, size_t len)
{
	return (ProtobufCBinaryData){ .len = len, .data = (uint8_t *)data };
}

static ProtobufCBinaryData
bin_str(const char *s)
{
	return bin(s, strlen(s));
}

static int
pack(const Koda__Request *req, struct packed *ret, struct koda_error *err)
{
	size_t len = koda__request__get_packed_size(req);
	uint8_t *data;

	if (len > FRAME_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the request has %zu bytes and the limit is %u: write the whole file "
		    "instead",
		    len, FRAME_MAX);
	data = malloc(len);
	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	koda__request__pack(req, data);
	*ret = (struct packed){ data, len };
	return 0;
}

/* All messages that one request may need, so that packing allocates only the result. */
struct request_parts {
	Koda__Request req;
	Koda__Guard guard;
	union {
		Koda__Ping ping;
		Koda__Read read;
		Koda__Write write;
		Koda__Edit edit;
		Koda__Stat stat;
		Koda__List list;
		Koda__Mkdir mkdir;
		Koda__Remove remove;
		Koda__Rename rename;
		Koda__Explain explain;
	} u;
};

static Koda__Guard *
guard_of(struct request_parts *parts, const struct koda_op *op)
{
	if (op->if_digest == NULL && !op->if_absent)
		return NULL;
	koda__guard__init(&parts->guard);
	if (op->if_digest != NULL) {
		parts->guard.has_digest = true;
		parts->guard.digest = bin(op->if_digest, KODA_DIGEST_BYTES);
	}
	parts->guard.has_absent = parts->guard.absent = op->if_absent;
	return &parts->guard;
}

#define SET(message, field, value)                                                                 \
	do {                                                                                       \
		(message)->field = (value);                                                        \
		(message)->has_##field = (message)->field;                                         \
	} while (0)

static int
build_edit(Koda__Edit *m, const struct koda_op *op, struct arena *arena, struct koda_error *err)
{
	Koda__Replacement *r = arena_alloc(arena, op->n_edits * sizeof(*r));

	m->replacement = arena_alloc(arena, op->n_edits * sizeof(*m->replacement));
	if (r == NULL || m->replacement == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	for (size_t i = 0; i < op->n_edits; i++) {
		koda__replacement__init(&r[i]);
		r[i].old = bin(op->edits[i].old_text, op->edits[i].old_len);
		r[i].new_ = bin(op->edits[i].new_text, op->edits[i].new_len);
		SET(&r[i], all, op->edits[i].all);
		m->replacement[i] = &r[i];
	}
	m->n_replacement = op->n_edits;
	return 0;
}

#define BEGIN(lower, UPPER)                                                                        \
	koda__##lower##__init(&p->u.lower);                                                        \
	p->req.op_case = KODA__REQUEST__OP_##UPPER;                                                \
	p->req.lower = &p->u.lower

static void
build_query(struct request_parts *p, const struct koda_op *op)
{
	ProtobufCBinaryData path = op->path == NULL ? bin(NULL, 0) : bin_str(op->path);
	bool digest = (op->flags & KODA_DIGEST) != 0;

	switch (op->kind) {
	case KODA_OP_PING:
		BEGIN(ping, PING);
		break;
	case KODA_OP_READ:
		BEGIN(read, READ);
		p->u.read.path = path;
		SET(&p->u.read, offset, op->offset);
		SET(&p->u.read, max, op->max);
		SET(&p->u.read, digest, digest);
		break;
	case KODA_OP_STAT:
		BEGIN(stat, STAT);
		p->u.stat.path = path;
		SET(&p->u.stat, digest, digest);
		break;
	case KODA_OP_LIST:
		BEGIN(list, LIST);
		p->u.list.path = path;
		SET(&p->u.list, names_only, (op->flags & KODA_NAMES_ONLY) != 0);
		break;
	case KODA_OP_EXPLAIN:
		BEGIN(explain, EXPLAIN);
		p->u.explain.path = path;
		p->u.explain.access = op->access == KODA_WRITE_ACCESS ? KODA__ACCESS__ACCESS_WRITE
								      : KODA__ACCESS__ACCESS_READ;
		break;
	case KODA_OP_WRITE: /* build_change() */
	case KODA_OP_EDIT:
	case KODA_OP_MKDIR:
	case KODA_OP_REMOVE:
	case KODA_OP_RENAME:
	case KODA_OP_RUN: /* is not a request */
	case KODA_OP_CONNECT:
		break;
	}
}

static int
build_change(struct request_parts *p, const struct koda_op *op, bool descriptor, bool dry,
    struct arena *arena, struct koda_error *err)
{
	ProtobufCBinaryData path = op->path == NULL ? bin(NULL, 0) : bin_str(op->path);
	bool durable = (op->flags & KODA_DURABLE) != 0, digest = (op->flags & KODA_DIGEST) != 0;

	switch ((int)op->kind) {
	case KODA_OP_WRITE:
		BEGIN(write, WRITE);
		p->u.write.path = path;
		if (!descriptor) {
			p->u.write.has_content = true;
			p->u.write.content = bin(op->data, op->len);
		}
		SET(&p->u.write, descriptor, descriptor);
		p->u.write.guard = guard_of(p, op);
		SET(&p->u.write, durable, durable);
		SET(&p->u.write, digest, digest);
		SET(&p->u.write, dry_run, dry);
		break;
	case KODA_OP_EDIT:
		BEGIN(edit, EDIT);
		p->u.edit.path = path;
		if (build_edit(&p->u.edit, op, arena, err) < 0)
			return -1;
		p->u.edit.guard = guard_of(p, op);
		SET(&p->u.edit, durable, durable);
		SET(&p->u.edit, dry_run, dry);
		break;
	case KODA_OP_MKDIR:
		BEGIN(mkdir, MKDIR);
		p->u.mkdir.path = path;
		SET(&p->u.mkdir, parents, (op->flags & KODA_PARENTS) != 0);
		p->u.mkdir.guard = guard_of(p, op);
		SET(&p->u.mkdir, durable, durable);
		SET(&p->u.mkdir, dry_run, dry);
		break;
	case KODA_OP_REMOVE:
		BEGIN(remove, REMOVE);
		p->u.remove.path = path;
		SET(&p->u.remove, recursive, (op->flags & KODA_RECURSIVE) != 0);
		p->u.remove.guard = guard_of(p, op);
		SET(&p->u.remove, durable, durable);
		SET(&p->u.remove, dry_run, dry);
		break;
	case KODA_OP_RENAME:
		BEGIN(rename, RENAME);
		p->u.rename.from = path;
		p->u.rename.to = bin_str(op->to);
		SET(&p->u.rename, overwrite, (op->flags & KODA_OVERWRITE) != 0);
		p->u.rename.guard = guard_of(p, op);
		SET(&p->u.rename, durable, durable);
		SET(&p->u.rename, dry_run, dry);
		break;
	}
	return 0;
}
#undef BEGIN

int
request_pack(const struct koda_op *op, uint64_t id, bool descriptor, bool dry_run,
    struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	struct request_parts parts;
	bool dry = dry_run || (op->flags & KODA_DRY_RUN) != 0;

	arena_init(&arena);
	koda__request__init(&parts.req);
	parts.req.id = id;
	if (!request_is_mutation(op->kind))
		build_query(&parts, op);
	else if (build_change(&parts, op, descriptor, dry, &arena, err) < 0)
		return -1;
	return pack(&parts.req, ret, err);
}

Koda__Request *
request_unpack(const struct packed *request, struct arena *arena)
{
	return (Koda__Request *)message_unpack(&koda__request__descriptor, request->data,
	    request->len, arena, NULL);
}

/* Clears dry_run and returns the address of the guard. Returns false for a request that is not a
 * mutation: only mutations have them. */
static bool
act_on(Koda__Request *req, Koda__Guard ***ret_guard)
{
#define ACT(UPPER, lower)                                                                          \
	case KODA__REQUEST__OP_##UPPER:                                                            \
		req->lower->has_dry_run = req->lower->dry_run = false;                             \
		*ret_guard = &req->lower->guard;                                                   \
		return true

	switch ((int)req->op_case) {
		ACT(WRITE, write);
		ACT(EDIT, edit);
		ACT(MKDIR, mkdir);
		ACT(REMOVE, remove);
		ACT(RENAME, rename);
	default:
		return false;
	}
#undef ACT
}

static int
bind_to_preview(Koda__Request *req, Koda__Guard *fresh, const struct koda_result *seen)
{
	Koda__Guard **guard;

	if (!act_on(req, &guard))
		return -1;
	if (*guard == NULL) {
		koda__guard__init(fresh);
		*guard = fresh;
	}
	(*guard)->has_path = true;
	(*guard)->path = bin_str(seen->path);
	if (seen->type != KODA_FILE_NONE) {
		(*guard)->has_type = true;
		(*guard)->type = (Koda__FileType)seen->type;
	}
	if (seen->has_digest_before) {
		(*guard)->has_digest = true;
		(*guard)->digest = bin(seen->digest_before, KODA_DIGEST_BYTES);
	} else if (seen->type == KODA_FILE_NONE) {
		(*guard)->has_absent = (*guard)->absent = true;
	}
	if (req->op_case == KODA__REQUEST__OP_RENAME && seen->to != NULL) {
		req->rename->has_guard_to = true;
		req->rename->guard_to = bin_str(seen->to);
	}
	return 0;
}

int
request_again(const struct packed *request, enum request_change change, uint64_t id,
    const struct koda_result *so_far, struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Request *req;
	Koda__Guard guard;

	arena_init(&arena);
	req = request_unpack(request, &arena);
	if (req == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	req->id = id;
	if (change == REQUEST_ACT) {
		if (bind_to_preview(req, &guard, so_far) < 0)
			return err_set(err, KODA_INTERNAL, 0, "there is no preview to approve");
	} else if (req->op_case == KODA__REQUEST__OP_LIST && so_far->n_entries > 0) {
		req->list->has_after = true;
		req->list->after = bin_str(so_far->entries[so_far->n_entries - 1].name);
	} else if (req->op_case == KODA__REQUEST__OP_READ) {
		req->read->has_offset = true;
		req->read->offset += so_far->len;
		if (req->read->has_max && req->read->max < so_far->len)
			return err_set(err, KODA_PROTOCOL, 0,
			    "the worker's reply: more content than was requested");
		if (req->read->has_max)
			req->read->max -= so_far->len;
	}
	return pack(req, ret, err);
}

static ProtobufCBinaryData
path_of(const Koda__Request *req, Koda__Kind *ret_kind, protobuf_c_boolean *ret_recursive)
{
	*ret_recursive = false;
	switch ((int)req->op_case) {
	case KODA__REQUEST__OP_WRITE:
		*ret_kind = KODA__KIND__KIND_WRITE;
		return req->write->path;
	case KODA__REQUEST__OP_EDIT:
		*ret_kind = KODA__KIND__KIND_EDIT;
		return req->edit->path;
	case KODA__REQUEST__OP_MKDIR:
		*ret_kind = KODA__KIND__KIND_MKDIR;
		return req->mkdir->path;
	case KODA__REQUEST__OP_REMOVE:
		*ret_kind = KODA__KIND__KIND_REMOVE;
		*ret_recursive = req->remove->recursive;
		return req->remove->path;
	default:
		*ret_kind = KODA__KIND__KIND_RENAME;
		return req->rename->from;
	}
}

int
request_recover(const struct packed *request, uint64_t id, const struct wreck *wreck,
    struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Request outer = KODA__REQUEST__INIT, *req;
	Koda__Recover m = KODA__RECOVER__INIT;
	Koda__Reply *prepared;

	arena_init(&arena);
	req = request_unpack(request, &arena);
	if (req == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	m.request = wreck->request;
	m.token = bin(wreck->token, TOKEN_BYTES);
	m.path = path_of(req, &m.kind, &m.recursive);
	m.has_recursive = m.recursive;
	if (wreck->prepared->len > 0) {
		prepared = (Koda__Reply *)message_unpack(&koda__reply__descriptor,
		    wreck->prepared->data, wreck->prepared->len, &arena, err);
		if (prepared == NULL)
			return -1;
		m.prepared = prepared->prepared;
	}
	m.has_committed = m.committed = wreck->committed;
	m.verdict = (Koda__Verdict *)wreck->verdict;
	outer.id = id;
	outer.op_case = KODA__REQUEST__OP_RECOVER;
	outer.recover = &m;
	return pack(&outer, ret, err);
}
