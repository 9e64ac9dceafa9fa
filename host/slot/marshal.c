#include "host/slot/marshal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/protect/reason.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

#define KEEP_COPY_MAX 4096 /* copying less is cheaper than not copying it */
#define LIST_ENTRIES_MAX                                                                           \
	(1u << 20) /* what a worker can make the host hold; ten times the largest seen */
#define READ_PAGED_MAX (256u << 20) /* the same, for content that cannot come as a descriptor */

_Static_assert((int)KODA_INVALID == KODA__ERROR_CODE__INVALID &&
	(int)KODA_INTERNAL == KODA__ERROR_CODE__INTERNAL &&
	(int)KODA_UNKNOWN == KODA__ERROR_CODE__UNKNOWN_OUTCOME,
    "error codes cross the wire by number");
_Static_assert((int)KODA_FILE_OTHER == KODA__FILE_TYPE__FILE_OTHER, "so do file types");

void
packed_done(struct packed *p)
{
	free(p->data);
	*p = (struct packed){ NULL, 0 };
}

bool
marshal_is_mutation(enum koda_op_kind kind)
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
marshal_check(const struct koda_op *op, struct koda_error *err)
{
	switch (op->kind) {
	case KODA_OP_PING:
		return 0;
	case KODA_OP_EDIT:
		if (op->n_edits == 0 || op->edits == NULL)
			return err_set(err, KODA_INVALID, 0, "an edit without a replacement");
		if (op->n_edits > REPLACEMENTS_MAX)
			return err_set(err, KODA_TOO_LARGE, 0,
			    "%zu replacements in one edit: the limit is %d", op->n_edits,
			    REPLACEMENTS_MAX);
		break;
	case KODA_OP_WRITE:
		if (op->data == NULL && op->len > 0 && op->fd <= 0)
			return err_set(err, KODA_INVALID, 0, "a write without content");
		break;
	case KODA_OP_RENAME:
		if (check_path("the destination", op->to, err) < 0)
			return -1;
		break;
	case KODA_OP_EXPLAIN:
		if (op->access != KODA_READ_ACCESS && op->access != KODA_WRITE_ACCESS)
			return err_set(err, KODA_INVALID, 0, "explain: neither read nor write");
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

static void
close_file(FILE **f)
{
	if (*f != NULL)
		fclose(*f);
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
		    "a request of %zu bytes: the limit is %u (write the file instead)", len,
		    FRAME_MAX);
	data = malloc(len);
	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	koda__request__pack(req, data);
	*ret = (struct packed){ data, len };
	return 0;
}

/* All the messages one request may need, so that packing allocates nothing but the result. */
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

static int
build_request(struct request_parts *p, const struct koda_op *op, bool descriptor, bool dry,
    struct arena *arena, struct koda_error *err)
{
	ProtobufCBinaryData path = op->path == NULL ? bin(NULL, 0) : bin_str(op->path);
	bool durable = (op->flags & KODA_DURABLE) != 0, digest = (op->flags & KODA_DIGEST) != 0;

#define BEGIN(lower, UPPER)                                                                        \
	koda__##lower##__init(&p->u.lower);                                                        \
	p->req.op_case = KODA__REQUEST__OP_##UPPER;                                                \
	p->req.lower = &p->u.lower

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
	case KODA_OP_EXPLAIN:
		BEGIN(explain, EXPLAIN);
		p->u.explain.path = path;
		p->u.explain.access = op->access == KODA_WRITE_ACCESS ? KODA__ACCESS__ACCESS_WRITE
								      : KODA__ACCESS__ACCESS_READ;
		break;
	case KODA_OP_RUN: /* is no request */
	case KODA_OP_CONNECT:
		break;
	}
#undef BEGIN
	return 0;
}

int
marshal_request(const struct koda_op *op, uint64_t id, bool descriptor, bool dry_run,
    struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	struct request_parts parts;

	arena_init(&arena);
	koda__request__init(&parts.req);
	parts.req.id = id;
	if (build_request(&parts, op, descriptor, dry_run || (op->flags & KODA_DRY_RUN) != 0,
		&arena, err) < 0)
		return -1;
	return pack(&parts.req, ret, err);
}

Koda__Request *
marshal_unpack_request(const struct packed *request, struct arena *arena)
{
	return (Koda__Request *)message_unpack(&koda__request__descriptor, request->data,
	    request->len, arena, NULL);
}

/* Each mutation names its guard and its dry_run; the rest have neither. */
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
marshal_again(const struct packed *request, enum marshal_change change, uint64_t id,
    const struct koda_result *so_far, struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Request *req;
	Koda__Guard guard;

	arena_init(&arena);
	req = marshal_unpack_request(request, &arena);
	if (req == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	req->id = id;
	if (change == MARSHAL_ACT) {
		if (bind_to_preview(req, &guard, so_far) < 0)
			return err_set(err, KODA_INTERNAL, 0, "nothing to approve");
	} else if (req->op_case == KODA__REQUEST__OP_LIST && so_far->n_entries > 0) {
		req->list->has_after = true;
		req->list->after = bin_str(so_far->entries[so_far->n_entries - 1].name);
	} else if (req->op_case == KODA__REQUEST__OP_READ) {
		req->read->has_offset = true;
		req->read->offset += so_far->len;
		if (req->read->has_max && req->read->max < so_far->len)
			return err_set(err, KODA_PROTOCOL, 0, "the worker's reply: too long");
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
marshal_recover(const struct packed *request, uint64_t id, const struct wreck *wreck,
    struct packed *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Request outer = KODA__REQUEST__INIT, *req;
	Koda__Recover m = KODA__RECOVER__INIT;
	Koda__Reply *prepared;

	arena_init(&arena);
	req = marshal_unpack_request(request, &arena);
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

/* ---- replies ---- */

struct chunk {
	struct chunk *next;
	size_t size;
	void *taken; /* a block of the arena that the reply was unpacked into, or NULL */
	max_align_t data[];
};

static void *
keep(struct koda_result *ret, const void *data, size_t len)
{
	struct chunk *c = malloc(sizeof(*c) + len + 1);

	if (c == NULL)
		return NULL;
	c->next = ret->priv;
	c->size = len;
	c->taken = NULL;
	ret->priv = c;
	if (len > 0 && data != NULL)
		memcpy(c->data, data, len);
	((char *)c->data)[len] = '\0';
	return c->data;
}

/* What keep() returned (or NULL), with room for len bytes. Doubles: a reply may come in any number of
 * pages, and each of them must not cost a copy of all before it. */
static void *
keep_more(struct koda_result *ret, const void *old, size_t len)
{
	struct chunk **at = (struct chunk **)&ret->priv, *c;
	size_t size;

	if (old == NULL)
		return keep(ret, NULL, len);
	while ((void *)(*at)->data != old)
		at = &(*at)->next;
	if (len <= (*at)->size)
		return (*at)->data;
	size = (*at)->size < len / 2 ? len : (*at)->size * 2;
	if (size < len)
		size = len;
	c = realloc(*at, sizeof(*c) + size + 1);
	if (c == NULL)
		return NULL;
	c->size = size;
	*at = c;
	return c->data;
}

void
koda_result_done(struct koda_result *result)
{
	struct chunk *c = result->priv;

	if (result->priv != NULL && result->fd >= 0)
		close(result->fd);
	while (c != NULL) {
		struct chunk *next = c->next;

		free(c->taken);
		free(c);
		c = next;
	}
	memset(result, 0, sizeof(*result));
	result->fd = -1;
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "result");
}

static int
broken(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_PROTOCOL, 0, "the worker's reply: %s", what);
}

static int
keep_path(struct koda_result *ret, const ProtobufCBinaryData *b, const char **ret_path,
    struct koda_error *err)
{
	if (path_check(b->data, b->len, NULL) < 0 || b->data[0] != '/')
		return broken(err, "a path that is none");
	*ret_path = keep(ret, b->data, b->len);
	return *ret_path == NULL ? no_memory(err) : 0;
}

static int
keep_text(struct koda_result *ret, const ProtobufCBinaryData *b, const char **ret_text,
    struct koda_error *err)
{
	char *s;

	if (memchr(b->data == NULL ? (uint8_t *)"" : b->data, '\0', b->len) != NULL)
		return broken(err, "a NUL in a text");
	s = keep(ret, b->data, b->len);
	*ret_text = s;
	return s == NULL ? no_memory(err) : 0;
}

static int
keep_digest(protobuf_c_boolean has, const ProtobufCBinaryData *b, bool *ret_has,
    uint8_t ret[KODA_DIGEST_BYTES], struct koda_error *err)
{
	*ret_has = has;
	if (!has)
		return 0;
	if (b->len != KODA_DIGEST_BYTES)
		return broken(err, "a digest of another length");
	memcpy(ret, b->data, KODA_DIGEST_BYTES);
	return 0;
}

static int
take_error(const Koda__Error *e, struct koda_error *err)
{
	struct koda_error out = { .code = (enum koda_code)e->code,
		.errnum = e->has_errnum ? (int)e->errnum : 0 };

	if (e->code == KODA__ERROR_CODE__PROTOCOL)
		return broken(err, "it does not understand us");
	/* They go to terminals and models: what could steer those is made visible here. */
	bytes_show(out.message, sizeof(out.message), e->message.data, e->message.len);
	if (e->has_path)
		bytes_show(out.path, sizeof(out.path), e->path.data, e->path.len);
	if (e->has_rule)
		bytes_show(out.rule, sizeof(out.rule), e->rule.data, e->rule.len);
	if (out.code == KODA_POLICY_DENIED)
		reason_append(out.rule, out.path, out.message, sizeof(out.message));
	if (err != NULL)
		*err = out;
	return -1;
}

static bool
is_type_of_others(const char *type)
{
	return strncmp(type, "fuse", 4) == 0 || strncmp(type, "virtiofs ", 9) == 0 ||
	    strncmp(type, "proc ", 5) == 0;
}

/*
 * What no mount of ours has, a slot's sandbox made for itself, or the file system gives its files devices of their own
 * (btrfs, overlayfs). It is none of a program's: those a sandbox has from us, and whoever is in it can make no mount. So
 * asking it waits for nobody. What stands in no directory was not found by a path (a memfd).
 */
static bool
is_made_by_kernel(int fd, const struct statx *st)
{
	struct statfs fs;

	return (st->stx_mask & STATX_NLINK) != 0 && st->stx_nlink > 0 && fstatfs(fd, &fs) == 0 &&
	    ((unsigned long)fs.f_type == TMPFS_MAGIC ||
		(unsigned long)fs.f_type == OVERLAYFS_SUPER_MAGIC ||
		(unsigned long)fs.f_type == BTRFS_SUPER_MAGIC);
}

/*
 * Is the file one that somebody's program serves (FUSE), or of proc? Read from the table of mounts: to ask the file system
 * itself would be to wait for that program. The mounts of a worker that lives in a sandbox are not in our table, but they
 * are of the same devices.
 */
static bool
is_served_by_others(int fd, const struct statx *st)
{
	cleanup(close_file) FILE *f = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	bool known = false, others = false;
	char device[32];
	size_t size = 0;

	snprintf(device, sizeof(device), " %u:%u ", st->stx_dev_major, st->stx_dev_minor);
	while (f != NULL && getline(&line, &size, f) > 0) {
		const char *type = strstr(line, " - ");
		char *parent = strchr(line, ' ');

		if (type == NULL || parent == NULL)
			continue;
		if (strtoull(line, NULL, 10) == st->stx_mnt_id)
			return is_type_of_others(type + 3);
		/* ID, parent's ID, device. */
		parent = strchr(parent + 1, ' ');
		if (parent == NULL || strncmp(parent, device, strlen(device)) != 0)
			continue;
		known = true;
		others = others || is_type_of_others(type + 3);
	}
	if (f == NULL || others)
		return true;
	return !known && !is_made_by_kernel(fd, st);
}

/*
 * A descriptor from a worker that may have been taken over: only a regular file, for reading, that the
 * kernel itself serves (a FUSE file system could be the worker's accomplice and stall us for ever, a
 * file of proc could be a window into a process) and of the size that was said. Nothing here waits for
 * a file system that could make us.
 */
static int
check_descriptor(int fd, uint64_t size, struct koda_error *err)
{
	struct statx st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 ||
	    statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		STATX_TYPE | STATX_SIZE | STATX_NLINK | STATX_MNT_ID, &st) < 0 ||
	    (st.stx_mask & STATX_MNT_ID) == 0)
		return broken(err, "a descriptor that cannot be looked at");
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH) != 0)
		return broken(err, "a descriptor that is not for reading alone");
	if (!S_ISREG(st.stx_mode))
		return broken(err, "a descriptor of something else than a file");
	if (is_served_by_others(fd, &st))
		return broken(err, "a descriptor on FUSE or proc");
	if (st.stx_size != size)
		return err_set(err, KODA_CONFLICT, 0, "the file changed while it was opened");
	return 0;
}

/* All the content in one piece: its block of the arena becomes the result's. 0, or -1 when it has none. */
static int
keep_content(struct koda_result *ret, struct arena *arena, ProtobufCBinaryData content)
{
	uint8_t *none = keep(ret, NULL, 0);

	if (none == NULL || arena == NULL)
		return -1;
	((struct chunk *)ret->priv)->taken = arena_take(arena, content.data);
	if (((struct chunk *)ret->priv)->taken == NULL)
		return -1;
	ret->data = content.data;
	ret->len = content.len;
	return 0;
}

static int
take_read(const Koda__ReadReply *m, int *fd, struct arena *arena, struct koda_result *ret,
    struct koda_error *err)
{
	size_t old = ret->len;
	uint8_t *data;

	if ((ret->path == NULL && keep_path(ret, &m->path, &ret->path, err) < 0) ||
	    keep_digest(m->has_digest, &m->digest, &ret->has_digest, ret->digest, err) < 0)
		return -1;
	ret->type = KODA_FILE_REGULAR;
	ret->size = m->size;
	if (m->has_descriptor && m->descriptor) {
		if (m->has_content || old > 0)
			return broken(err, "content twice");
		if (*fd < 0)
			return broken(err, "a descriptor that did not come");
		if (check_descriptor(*fd, m->size, err) < 0)
			return -1;
		ret->fd = take_fd(fd);
		return 0;
	}
	if (!m->has_content || m->content.len > PAGE_MAX)
		return broken(err, "content that is missing or too long");
	if (old + m->content.len > READ_PAGED_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "a file on FUSE of more than %u bytes: read it in parts", READ_PAGED_MAX);
	if (old == 0 && !(m->has_more && m->more) && m->content.len > KEEP_COPY_MAX &&
	    keep_content(ret, arena, m->content) == 0)
		return 0;
	data = keep_more(ret, ret->data, old + m->content.len);
	if (data == NULL)
		return no_memory(err);
	if (m->content.len > 0)
		memcpy(data + old, m->content.data, m->content.len);
	ret->data = data;
	ret->len = old + m->content.len;
	if (m->has_more && m->more && m->content.len == 0)
		return broken(err, "more, but nothing now");
	return m->has_more && m->more;
}

static int
take_outcome(enum koda_op_kind kind, const Koda__Outcome *m, struct koda_result *ret,
    struct koda_error *err)
{
	uint64_t *lines;

	if ((kind == KODA_OP_RENAME) != m->has_to)
		return broken(err, "a destination where none belongs, or none");
	if (keep_path(ret, &m->path, &ret->path, err) < 0 ||
	    (m->has_to && keep_path(ret, &m->to, &ret->to, err) < 0) ||
	    keep_digest(m->has_digest, &m->digest, &ret->has_digest, ret->digest, err) < 0 ||
	    keep_digest(m->has_digest_before, &m->digest_before, &ret->has_digest_before,
		ret->digest_before, err) < 0)
		return -1;
	if (m->n_line > REPLACEMENTS_MAX)
		return broken(err, "too many lines");
	if (m->n_line > 0) {
		lines = keep(ret, m->line, m->n_line * sizeof(*lines));
		if (lines == NULL)
			return no_memory(err);
		ret->lines = lines;
		ret->n_lines = m->n_line;
	}
	ret->created = m->has_created && m->created;
	ret->size = m->has_size ? m->size : 0;
	ret->size_before = m->has_size_before ? m->size_before : 0;
	ret->replacements = m->has_replacements ? m->replacements : 0;
	ret->type = m->has_type ? (enum koda_file_type)m->type : KODA_FILE_NONE;
	ret->removed = m->has_entries ? m->entries : 0;
	return 0;
}

static int
take_stat(const Koda__StatReply *m, struct koda_result *ret, struct koda_error *err)
{
	if (keep_path(ret, &m->path, &ret->path, err) < 0 ||
	    (m->has_target && keep_text(ret, &m->target, &ret->target, err) < 0) ||
	    keep_digest(m->has_digest, &m->digest, &ret->has_digest, ret->digest, err) < 0)
		return -1;
	ret->type = (enum koda_file_type)m->type;
	ret->size = m->size;
	ret->mode = m->mode;
	ret->mtime_ns = m->mtime_ns;
	ret->links = m->links;
	return 0;
}

static bool
is_name(const ProtobufCBinaryData *b)
{
	return b->len > 0 && b->len <= NAME_LEN_MAX && memchr(b->data, '\0', b->len) == NULL &&
	    memchr(b->data, '/', b->len) == NULL &&
	    (b->len > 2 || memcmp(b->data, "..", b->len) != 0);
}

static int
take_list(const Koda__ListReply *m, struct koda_result *ret, struct koda_error *err)
{
	size_t n = ret->n_entries + m->n_entry;
	struct koda_entry *entries;

	if (ret->path == NULL && keep_path(ret, &m->path, &ret->path, err) < 0)
		return -1;
	if (m->has_more && m->more && m->n_entry == 0)
		return broken(err, "more, but nothing now");
	if (n > LIST_ENTRIES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "more than %u entries", LIST_ENTRIES_MAX);
	entries = keep_more(ret, ret->entries, n * sizeof(*entries));
	if (entries == NULL)
		return no_memory(err);
	ret->entries = entries; /* the old ones may be gone */
	for (size_t i = 0; i < m->n_entry; i++) {
		const Koda__Entry *e = m->entry[i];
		struct koda_entry *to = &entries[ret->n_entries + i];

		if (!is_name(&e->name))
			return broken(err, "a name that is none");
		to->name = keep(ret, e->name.data, e->name.len);
		if (to->name == NULL)
			return no_memory(err);
		to->type = (enum koda_file_type)e->type;
		to->size = e->size;
		if (ret->n_entries + i > 0 && strcmp(to[-1].name, to->name) >= 0)
			return broken(err, "names out of order");
	}
	ret->type = KODA_FILE_DIRECTORY;
	ret->n_entries = n;
	ret->hidden = m->has_hidden ? m->hidden : 0;
	return m->has_more && m->more;
}

static int
take_explained(const Koda__Explained *m, struct koda_result *ret, struct koda_error *err)
{
	char reason[KODA_MESSAGE_MAX];
	const char **hops;

	if (keep_path(ret, &m->path, &ret->path, err) < 0 ||
	    keep_text(ret, &m->rule, &ret->rule, err) < 0 ||
	    keep_text(ret, &m->reason, &ret->reason, err) < 0)
		return -1;
	if (!m->allowed && m->reason.len < sizeof(reason)) {
		ProtobufCBinaryData text = { 0, (uint8_t *)reason };

		strcpy(reason, ret->reason);
		reason_append(ret->rule, ret->path, reason, sizeof(reason));
		text.len = strlen(reason);
		if (keep_text(ret, &text, &ret->reason, err) < 0)
			return -1;
	}
	hops = keep(ret, NULL, m->n_hop * sizeof(*hops));
	if (hops == NULL)
		return no_memory(err);
	for (size_t i = 0; i < m->n_hop; i++)
		if (keep_path(ret, &m->hop[i], &hops[i], err) < 0)
			return -1;
	ret->allowed = m->allowed;
	ret->hops = hops;
	ret->n_hops = m->n_hop;
	return 0;
}

static Koda__Reply__ResultCase
expected(enum koda_op_kind kind)
{
	switch (kind) {
	case KODA_OP_PING:
		return KODA__REPLY__RESULT_PONG;
	case KODA_OP_READ:
		return KODA__REPLY__RESULT_READ;
	case KODA_OP_STAT:
		return KODA__REPLY__RESULT_STAT;
	case KODA_OP_LIST:
		return KODA__REPLY__RESULT_LIST;
	case KODA_OP_EXPLAIN:
		return KODA__REPLY__RESULT_EXPLAINED;
	case KODA_OP_WRITE:
	case KODA_OP_EDIT:
	case KODA_OP_MKDIR:
	case KODA_OP_REMOVE:
	case KODA_OP_RENAME:
	case KODA_OP_RUN:
	case KODA_OP_CONNECT:
		break;
	}
	return KODA__REPLY__RESULT_OUTCOME;
}

int
marshal_result(enum koda_op_kind kind, const Koda__Reply *reply, int fd_, struct arena *arena,
    struct koda_result *ret, struct koda_error *err)
{
	cleanup_close int fd = fd_;

	if (reply->result_case == KODA__REPLY__RESULT_ERROR)
		return take_error(reply->error, err);
	if (reply->result_case != expected(kind))
		return broken(err, "of another kind than the request");
	switch (kind) {
	case KODA_OP_PING:
		return 0;
	case KODA_OP_READ:
		return take_read(reply->read, &fd, arena, ret, err);
	case KODA_OP_STAT:
		return take_stat(reply->stat, ret, err);
	case KODA_OP_LIST:
		return take_list(reply->list, ret, err);
	case KODA_OP_EXPLAIN:
		return take_explained(reply->explained, ret, err);
	case KODA_OP_WRITE:
	case KODA_OP_EDIT:
	case KODA_OP_MKDIR:
	case KODA_OP_REMOVE:
	case KODA_OP_RENAME:
	case KODA_OP_RUN:
	case KODA_OP_CONNECT:
		break;
	}
	return take_outcome(kind, reply->outcome, ret, err);
}

int
marshal_check_preview(enum koda_op_kind kind, const struct koda_result *seen,
    struct koda_error *err)
{
	if (kind != KODA_OP_MKDIR && seen->type == KODA_FILE_REGULAR && !seen->has_digest_before)
		return broken(err, "a preview that does not say what it is of");
	return 0;
}

int
marshal_check_prepared(enum koda_op_kind kind, const Koda__Prepared *p, struct koda_error *err)
{
	bool rename = kind == KODA_OP_RENAME;
	struct koda_result would = { .fd = -1 };
	int r;

	if (path_check(p->place.data, p->place.len, NULL) < 0 || p->place.data[0] != '/' ||
	    (p->has_temp && !is_name(&p->temp)) || p->has_temp == rename || p->has_to != rename ||
	    (p->has_to && (path_check(p->to.data, p->to.len, NULL) < 0 || p->to.data[0] != '/')))
		return broken(err, "a Prepared that makes no sense");
	/* Now, while the worker can still be called to account: later it is the only witness. */
	if (p->outcome->n_line > 0)
		return broken(err, "lines in a Prepared");
	r = take_outcome(kind, p->outcome, &would, err);
	koda_result_done(&would);
	return r;
}

int
marshal_prepared_result(const struct packed *prepared, enum koda_op_kind kind,
    struct koda_result *ret, struct koda_error *err)
{
	cleanup(arena_done) struct arena arena;
	Koda__Reply *reply;

	arena_init(&arena);
	reply = (Koda__Reply *)message_unpack(&koda__reply__descriptor, prepared->data,
	    prepared->len, &arena, err);
	if (reply == NULL)
		return -1;
	return take_outcome(kind, reply->prepared->outcome, ret, err);
}
