/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's edge: a request that message_check and valid_request accept goes to an operation, so
 * it must have a row, an id, and paths that the kernel would not cut short. */
#include "fuzz/fuzz.h"
#include "worker/session.h"

static void
must_be_path(ProtobufCBinaryData b)
{
	must(b.len == 0 || memchr(b.data, '\0', b.len) == NULL);
}

static void
must_be_guard(const Koda__Guard *g)
{
	if (g == NULL)
		return;
	must(!g->has_digest || g->digest.len == KODA_DIGEST_BYTES);
	if (g->has_path)
		must_be_path(g->path);
}

static void
must_make_sense(const Koda__Request *req)
{
	const struct op *op = role_op(&role_files, req->op_case);

	must(req->id != 0 && op != NULL && op->run != NULL && op->name != NULL);
	switch ((int)req->op_case) {
	case KODA__REQUEST__OP_SEAL:
		must(req->seal->token.len == TOKEN_BYTES && req->seal->root.len > 0 &&
		    req->seal->root.data[0] == '/');
		must_be_path(req->seal->root);
		must_be_path(req->seal->home);
		break;
	case KODA__REQUEST__OP_READ:
		must_be_path(req->read->path);
		break;
	case KODA__REQUEST__OP_WRITE:
		must_be_path(req->write->path);
		must_be_guard(req->write->guard);
		must((bool)req->write->has_content !=
		    (req->write->has_descriptor && req->write->descriptor));
		break;
	case KODA__REQUEST__OP_EDIT:
		must_be_path(req->edit->path);
		must_be_guard(req->edit->guard);
		break;
	case KODA__REQUEST__OP_STAT:
		must_be_path(req->stat->path);
		break;
	case KODA__REQUEST__OP_LIST:
		must_be_path(req->list->path);
		if (req->list->has_after)
			must_be_path(req->list->after);
		break;
	case KODA__REQUEST__OP_MKDIR:
		must_be_path(req->mkdir->path);
		must_be_guard(req->mkdir->guard);
		break;
	case KODA__REQUEST__OP_REMOVE:
		must_be_path(req->remove->path);
		must_be_guard(req->remove->guard);
		break;
	case KODA__REQUEST__OP_RENAME:
		must_be_path(req->rename->from);
		must_be_path(req->rename->to);
		must_be_guard(req->rename->guard);
		if (req->rename->has_guard_to)
			must_be_path(req->rename->guard_to);
		break;
	case KODA__REQUEST__OP_EXPLAIN:
		must_be_path(req->explain->path);
		break;
	case KODA__REQUEST__OP_RECOVER:
		must(req->recover->token.len == TOKEN_BYTES && req->recover->request != 0);
		must_be_path(req->recover->path);
		if (req->recover->prepared != NULL) {
			must(req->recover->prepared->place.len > 1 &&
			    req->recover->prepared->place.data[0] == '/');
			must_be_path(req->recover->prepared->place);
		}
		break;
	case KODA__REQUEST__OP_SCAN:
		must(req->scan->n_below <= SCAN_ROOTS_MAX);
		for (size_t i = 0; i < req->scan->n_below; i++) {
			must(req->scan->below[i].len > 0 && req->scan->below[i].data[0] == '/');
			must_be_path(req->scan->below[i]);
		}
		for (size_t i = 0; i < req->scan->n_known; i++) {
			must(req->scan->known[i]->path.len > 0);
			must_be_path(req->scan->known[i]->path);
		}
		break;
	default:
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct koda_error err;
	const Koda__Request *req;

	if (size > FRAME_MAX)
		return 0;
	arena_init(&arena);
	req = (const Koda__Request *)message_unpack(&koda__request__descriptor, data, size, &arena,
	    &err);
	if (req != NULL) {
		int r = valid_request(req, &err);

		must(r == 0 || (r == -1 && err.code == KODA_PROTOCOL));
		if (r == 0)
			must_make_sense(req);
	}
	arena_done(&arena);
	return 0;
}
