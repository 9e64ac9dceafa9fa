/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/policy/reason.h"
#include "host/slot/received_fd.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

#define KEEP_COPY_MAX 4096 /* copying less is cheaper than not copying it */
/* How many entries a worker can make the host hold; ten times the largest directory seen. */
#define LIST_ENTRIES_MAX (1u << 20)
/* The same in bytes, for content that cannot come as a descriptor. */
#define READ_PAGED_MAX (256u << 20)

_Static_assert((int)KODA_INVALID == KODA__ERROR_CODE__INVALID &&
	(int)KODA_INTERNAL == KODA__ERROR_CODE__INTERNAL &&
	(int)KODA_UNKNOWN == KODA__ERROR_CODE__UNKNOWN_OUTCOME,
    "error codes cross the wire by number");
_Static_assert((int)KODA_FILE_OTHER == KODA__FILE_TYPE__FILE_OTHER, "so do file types");

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

/* Extends `old`, a block that keep() returned (or NULL), to len bytes. Doubles the size: a reply
 * may come in any number of pages, and each of them must not cost a copy of all before it. */
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
		return broken(err, "an invalid path");
	*ret_path = keep(ret, b->data, b->len);
	return *ret_path == NULL ? no_memory(err) : 0;
}

static int
keep_text(struct koda_result *ret, const ProtobufCBinaryData *b, const char **ret_text,
    struct koda_error *err)
{
	char *s;

	if (memchr(b->data == NULL ? (uint8_t *)"" : b->data, '\0', b->len) != NULL)
		return broken(err, "a NUL byte in a text");
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
		return broken(err, "a digest of the wrong length");
	memcpy(ret, b->data, KODA_DIGEST_BYTES);
	return 0;
}

static int
take_error(const Koda__Error *e, struct koda_error *err)
{
	struct koda_error out = { .code = (enum koda_code)e->code,
		.errnum = e->has_errnum ? (int)e->errnum : 0 };

	if (e->code == KODA__ERROR_CODE__PROTOCOL)
		return broken(err, "it could not read the request");
	/* Messages go to terminals and models: bytes that could steer those are made visible
	 * here. */
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

/* For content in one piece: its block of the arena becomes the result's. Returns 0, or -1 if the
 * arena does not hold it as a block of its own. */
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
			return broken(err, "content twice, inline and by descriptor");
		if (*fd < 0)
			return broken(err, "an announced descriptor is missing");
		if (received_fd_check(*fd, m->size, err) < 0)
			return -1;
		ret->fd = take_fd(fd);
		return 0;
	}
	if (!m->has_content || m->content.len > PAGE_MAX)
		return broken(err, "its content is missing or too long");
	if (old + m->content.len > READ_PAGED_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the file is on FUSE and has more than %u bytes: read it in parts",
		    READ_PAGED_MAX);
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
		return broken(err, "an empty page that is not the last");
	return m->has_more && m->more;
}

int
reply_of_bytes(const char *path, const void *data, size_t len, uint64_t size,
    struct koda_result *ret, struct koda_error *err)
{
	ret->path = keep(ret, path, strlen(path));
	ret->data = keep(ret, data, len);
	ret->len = len;
	ret->size = size;
	ret->type = KODA_FILE_REGULAR;
	return ret->path != NULL && ret->data != NULL ? 0 : no_memory(err);
}

static int
take_outcome(enum koda_op_kind kind, const Koda__Outcome *m, struct koda_result *ret,
    struct koda_error *err)
{
	uint64_t *lines;

	if ((kind == KODA_OP_RENAME) != m->has_to)
		return broken(err, "a missing or unexpected destination");
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
		return broken(err, "an empty page that is not the last");
	if (n > LIST_ENTRIES_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "the directory has more than %u entries",
		    LIST_ENTRIES_MAX);
	entries = keep_more(ret, ret->entries, n * sizeof(*entries));
	if (entries == NULL)
		return no_memory(err);
	ret->entries = entries; /* the old array may be freed */
	for (size_t i = 0; i < m->n_entry; i++) {
		const Koda__Entry *e = m->entry[i];
		struct koda_entry *to = &entries[ret->n_entries + i];

		if (!is_name(&e->name))
			return broken(err, "an invalid file name");
		to->name = keep(ret, e->name.data, e->name.len);
		if (to->name == NULL)
			return no_memory(err);
		to->type = (enum koda_file_type)e->type;
		to->size = e->size;
		if (ret->n_entries + i > 0 && strcmp(to[-1].name, to->name) >= 0)
			return broken(err, "file names out of order");
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
reply_take(enum koda_op_kind kind, const Koda__Reply *reply, int fd_, struct arena *arena,
    struct koda_result *ret, struct koda_error *err)
{
	cleanup_close int fd = fd_;

	if (reply->result_case == KODA__REPLY__RESULT_ERROR)
		return take_error(reply->error, err);
	if (reply->result_case != expected(kind))
		return broken(err, "wrong type for this request");
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
reply_check_preview(enum koda_op_kind kind, const struct koda_result *seen, struct koda_error *err)
{
	if (kind != KODA_OP_MKDIR && seen->type == KODA_FILE_REGULAR && !seen->has_digest_before)
		return broken(err, "a preview without the file's digest");
	return 0;
}

int
reply_check_prepared(enum koda_op_kind kind, const Koda__Prepared *p, struct koda_error *err)
{
	bool rename = kind == KODA_OP_RENAME;
	struct koda_result would = { .fd = -1 };
	int r;

	if (path_check(p->place.data, p->place.len, NULL) < 0 || p->place.data[0] != '/' ||
	    (p->has_temp && !is_name(&p->temp)) || p->has_temp == rename || p->has_to != rename ||
	    (p->has_to && (path_check(p->to.data, p->to.len, NULL) < 0 || p->to.data[0] != '/')))
		return broken(err, "an invalid Prepared");
	/* Checked now, while the worker can still be blamed: after its death this Prepared is the
	 * only record. */
	if (p->outcome->n_line > 0)
		return broken(err, "a Prepared with line numbers");
	r = take_outcome(kind, p->outcome, &would, err);
	koda_result_done(&would);
	return r;
}

int
reply_of_prepared(const struct packed *prepared, enum koda_op_kind kind, struct koda_result *ret,
    struct koda_error *err)
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
