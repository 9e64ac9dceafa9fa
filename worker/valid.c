/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "worker/session.h"

/*
 * message_check() checks types and enums; this checks values, once, before any operation sees
 * them. Mistakes that a user can make (an empty path, one that is too long) are left to the
 * operation, which can report them to the user.
 */

static int
broken(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_PROTOCOL, 0, "%s is invalid", what);
}

/* The kernel would stop at a NUL, and act on another path than the judged one. */
static bool
is_path(ProtobufCBinaryData path)
{
	return memchr(path.data == NULL ? (const uint8_t *)"" : path.data, '\0', path.len) == NULL;
}

static bool
is_guard(const Koda__Guard *guard)
{
	return guard == NULL ||
	    ((!guard->has_digest || guard->digest.len == KODA_DIGEST_BYTES) &&
		(!guard->has_path || (guard->path.len > 0 && is_path(guard->path))));
}

/* A canonical path, as a worker reported it earlier. */
static bool
is_canonical(ProtobufCBinaryData path)
{
	return path_is_canonical(path.data, path.len);
}

static bool
are_canonical(const ProtobufCBinaryData *path, size_t n)
{
	while (n > 0 && is_canonical(path[n - 1]))
		n--;
	return n == 0;
}

/* A name in a directory. */
static bool
is_name(ProtobufCBinaryData name)
{
	return name.len > 0 && name.len <= NAME_LEN_MAX && is_path(name) &&
	    memchr(name.data, '/', name.len) == NULL &&
	    !(name.data[0] == '.' && (name.len == 1 || (name.len == 2 && name.data[1] == '.')));
}

static bool
are_layers(const Koda__Seal *m)
{
	for (size_t i = 0; i < m->n_draft_layer; i++)
		if (!is_canonical(m->draft_layer[i]->path) || !is_name(m->draft_layer[i]->name))
			return false;
	return m->n_draft_layer <= DRAFT_LAYERS_MAX &&
	    (m->n_draft_layer > 0) == (m->has_draft && m->draft);
}

static int
valid_seal(const Koda__Seal *m, struct koda_error *err)
{
	if (m->policy.len > POLICY_PACKED_MAX)
		return broken(err, "seal.policy");
	if (!is_canonical(m->root))
		return broken(err, "seal.root");
	if (m->home.len > 0 && !is_canonical(m->home))
		return broken(err, "seal.home");
	if (m->token.len != TOKEN_BYTES)
		return broken(err, "seal.token");
	if (m->has_state && m->state.len > 0 && !is_canonical(m->state))
		return broken(err, "seal.state");
	if (m->n_commands_write > SCAN_ROOTS_MAX ||
	    !are_canonical(m->commands_write, m->n_commands_write))
		return broken(err, "seal.commands_write");
	if (!are_layers(m))
		return broken(err, "seal.draft_layer");
	return 0;
}

static int
valid_write(const Koda__Write *m, struct koda_error *err)
{
	const bool by_fd = m->has_descriptor && m->descriptor;

	if (!is_path(m->path))
		return broken(err, "write.path");
	if ((bool)m->has_content == by_fd)
		return broken(err, "write.content");
	return is_guard(m->guard) ? 0 : broken(err, "write.guard");
}

static int
valid_rename(const Koda__Rename *m, struct koda_error *err)
{
	if (!is_path(m->from) || !is_path(m->to))
		return broken(err, "rename.from or to");
	if (m->has_guard_to && (m->guard_to.len == 0 || !is_path(m->guard_to)))
		return broken(err, "rename.guard_to");
	return is_guard(m->guard) ? 0 : broken(err, "rename.guard");
}

static int
valid_list(const Koda__List *m, struct koda_error *err)
{
	if (!is_path(m->path))
		return broken(err, "list.path");
	if (m->has_after && !is_path(m->after))
		return broken(err, "list.after");
	return 0;
}

static int
valid_recover(const Koda__Recover *m, struct koda_error *err)
{
	const Koda__Prepared *p = m->prepared;

	if (m->request == 0)
		return broken(err, "recover.request");
	if (m->token.len != TOKEN_BYTES)
		return broken(err, "recover.token");
	if (!is_path(m->path))
		return broken(err, "recover.path");
	if (p == NULL)
		return m->has_committed && m->committed ? broken(err, "recover.committed") : 0;
	if (!is_canonical(p->place) || p->place.len == 1)
		return broken(err, "recover.prepared.place");
	if (p->has_to != (m->kind == KODA__KIND__KIND_RENAME))
		return broken(err, "recover.prepared.to");
	if (p->has_to && (!is_canonical(p->to) || p->to.len == 1))
		return broken(err, "recover.prepared.to");
	return 0;
}

static int
valid_scan(const Koda__Scan *m, struct koda_error *err)
{
	if (m->n_below > SCAN_ROOTS_MAX || !are_canonical(m->below, m->n_below))
		return broken(err, "scan.below");
	for (size_t i = 0; i < m->n_known; i++) {
		if (!is_canonical(m->known[i]->path))
			return broken(err, "scan.known");
	}
	if (m->has_next && m->next &&
	    (m->n_below > 0 || m->n_known > 0 || m->has_resumed || m->has_more))
		return broken(err, "scan.next");
	return 0;
}

static bool
is_swap_name(ProtobufCBinaryData name)
{
	size_t i = 0;

	while (i < name.len &&
	    ((name.data[i] >= 'a' && name.data[i] <= 'z') ||
		(name.data[i] >= '0' && name.data[i] <= '9') || name.data[i] == '-'))
		i++;
	return i == name.len && i > 0 && i <= SWAP_NAME_MAX;
}

static int
valid_swap(const Koda__Swap *m, struct koda_error *err)
{
	if (m->n_item == 0 || m->n_item > SWAP_ITEMS_MAX)
		return broken(err, "swap.item");
	for (size_t i = 0; i < m->n_item; i++) {
		const Koda__SwapItem *item = m->item[i];

		if (!is_swap_name(item->name))
			return broken(err, "swap.item.name");
		if (!is_canonical(item->place) || item->place.len == 1)
			return broken(err, "swap.item.place");
		if (item->has_mode && (item->here == NULL || item->held != NULL))
			return broken(err, "swap.item.mode");
		if ((item->has_mode && item->mode > 07777) ||
		    (item->has_mode_here && (!item->has_mode || item->mode_here > 07777)) ||
		    (item->has_directory && item->directory > 07777))
			return broken(err, "swap.item: permissions");
		if (item->has_directory && (item->has_mode || item->held != NULL))
			return broken(err, "swap.item.directory");
		if (item->has_from &&
		    (!is_canonical(item->from) || item->from.len == 1 || item->has_mode ||
			item->has_directory || item->has_layer || item->here != NULL ||
			item->held == NULL))
			return broken(err, "swap.item.from");
		if (item->here == NULL && item->held == NULL && !item->has_directory)
			return broken(err, "swap.item: nothing to do");
	}
	return 0;
}

static int
valid_merge(const Koda__Merge *m, struct koda_error *err)
{
	if (!is_canonical(m->place) || m->place.len == 1)
		return broken(err, "merge.place");
	if (m->n_past > MERGE_BASES_MAX)
		return broken(err, "merge.past");
	for (size_t i = 0; i < m->n_past; i++)
		if (!is_swap_name(m->past[i]->name) || !m->past[i]->held->has_ctime_ns)
			return broken(err, "merge.past");
	return 0;
}

static bool
are_strings(const ProtobufCBinaryData *v, size_t n)
{
	while (n > 0 && is_path(v[n - 1]))
		n--;
	return n == 0;
}

/* At most one bit is set. */
static bool
is_one(uint64_t flags)
{
	return (flags & (flags - 1)) == 0;
}

static int
valid_search(const Koda__Search *m, struct koda_error *err)
{
	const uint64_t instead_of_lines = KODA_SEARCH_COUNT | KODA_SEARCH_COUNT_MATCHES |
	    KODA_SEARCH_FILES | KODA_SEARCH_FILES_WITHOUT;

	if ((m->flags & ~SEARCH_FLAGS) != 0 || !is_one(m->flags & instead_of_lines))
		return broken(err, "search.flags");
	if (m->n_path > SEARCH_PATHS_MAX || !are_strings(m->path, m->n_path))
		return broken(err, "search.path");
	if (m->n_glob > SEARCH_GLOBS_MAX || !are_strings(m->glob, m->n_glob))
		return broken(err, "search.glob");
	if (m->n_type > SEARCH_TYPES_MAX || !are_strings(m->type, m->n_type) ||
	    m->n_type_not > SEARCH_TYPES_MAX || !are_strings(m->type_not, m->n_type_not))
		return broken(err, "search.type");
	if (m->n_pattern > SEARCH_PATTERNS_MAX || !are_strings(m->pattern, m->n_pattern) ||
	    (m->n_pattern > 0) != (m->kind == KODA__SEARCH_KIND__SEARCH_GREP))
		return broken(err, "search.pattern");
	if (m->before > SEARCH_CONTEXT_MAX || m->after > SEARCH_CONTEXT_MAX)
		return broken(err, "search.before or after");
	if (m->limit == 0 || m->max_columns == 0 || m->max_columns > SEARCH_COLUMNS_MAX)
		return broken(err, "search.limit or max_columns");
	return 0;
}

static int
path_only(ProtobufCBinaryData path, const Koda__Guard *guard, struct koda_error *err)
{
	if (!is_path(path))
		return broken(err, "path");
	return is_guard(guard) ? 0 : broken(err, "guard");
}

int
valid_request(const Koda__Request *req, struct koda_error *err)
{
	if (req->id == 0)
		return broken(err, "id");
	switch (req->op_case) {
	case KODA__REQUEST__OP_SEAL:
		return valid_seal(req->seal, err);
	case KODA__REQUEST__OP_PING:
	case KODA__REQUEST__OP_SHUTDOWN:
	case KODA__REQUEST__OP_RECORD:
		return 0;
	case KODA__REQUEST__OP_READ:
		return path_only(req->read->path, NULL, err);
	case KODA__REQUEST__OP_WRITE:
		return valid_write(req->write, err);
	case KODA__REQUEST__OP_EDIT:
		return path_only(req->edit->path, req->edit->guard, err);
	case KODA__REQUEST__OP_STAT:
		return path_only(req->stat->path, NULL, err);
	case KODA__REQUEST__OP_LIST:
		return valid_list(req->list, err);
	case KODA__REQUEST__OP_MKDIR:
		return path_only(req->mkdir->path, req->mkdir->guard, err);
	case KODA__REQUEST__OP_REMOVE:
		return path_only(req->remove->path, req->remove->guard, err);
	case KODA__REQUEST__OP_RENAME:
		return valid_rename(req->rename, err);
	case KODA__REQUEST__OP_EXPLAIN:
		return path_only(req->explain->path, NULL, err);
	case KODA__REQUEST__OP_RECOVER:
		return valid_recover(req->recover, err);
	case KODA__REQUEST__OP_SCAN:
		return valid_scan(req->scan, err);
	case KODA__REQUEST__OP_COMPARE:
		return req->compare->has_command &&
			(req->compare->command.len > COMMAND_TOLD_MAX ||
			    memchr(req->compare->command.data, '\0', req->compare->command.len) !=
				NULL)
		    ? broken(err, "compare.command")
		    : 0;
	case KODA__REQUEST__OP_GUARDED:
		return 0; /* `from` may be beyond the last place: then the reply is empty */
	case KODA__REQUEST__OP_SEARCH:
		return valid_search(req->search, err);
	case KODA__REQUEST__OP_CHANGES:
		return !req->changes->has_after ||
			(is_canonical(req->changes->after) && req->changes->has_after_kind)
		    ? 0
		    : broken(err, "changes.after");
	case KODA__REQUEST__OP_READ_DRAFT:
		return is_canonical(req->read_draft->path) ? 0 : broken(err, "read_draft.path");
	case KODA__REQUEST__OP_SWAP:
		return valid_swap(req->swap, err);
	case KODA__REQUEST__OP_MERGE:
		return valid_merge(req->merge, err);
	case KODA__REQUEST__OP__NOT_SET:
	case _KODA__REQUEST__OP__CASE_IS_INT_SIZE:
		break;
	}
	return broken(err, "the request's operation");
}
