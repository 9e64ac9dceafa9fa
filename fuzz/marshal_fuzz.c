/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's reply is untrusted: any bytes as Reply, taken for the answer to every kind of call.
 * What the embedder then gets is valid, and none of it points into the frame.
 */
#include <fcntl.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "host/slot/reply.h"

static void
must_be_text(const char *s, bool absolute)
{
	if (s != NULL)
		must(strlen(s) < (1u << 20) && (!absolute || s[0] == '/'));
}

static void
must_make_sense(enum koda_op_kind kind, const struct koda_result *r)
{
	must_be_text(r->path, true);
	must_be_text(r->to, true);
	must_be_text(r->target, false);
	must_be_text(r->rule, false);
	must_be_text(r->reason, false);
	must((r->path != NULL) == (kind != KODA_OP_PING));
	must((unsigned)r->type <= KODA_FILE_OTHER);
	for (size_t i = 0; i < r->n_hops; i++)
		must_be_text(r->hops[i], true);
	for (size_t i = 0; i < r->n_entries; i++) {
		must(r->entries[i].name[0] != '\0' && strchr(r->entries[i].name, '/') == NULL);
		must(i == 0 || strcmp(r->entries[i - 1].name, r->entries[i].name) < 0);
	}
	if (r->data != NULL) {
		static volatile uint8_t sink;

		/* Read all of it: a sanitizer reports memory that is not valid. */
		for (size_t i = 0; i < r->len; i++)
			sink = (uint8_t)(sink + r->data[i]);
	}
}

static void
as_answer_to(enum koda_op_kind kind, const uint8_t *data, size_t size, bool with_fd)
{
	struct koda_result result = { .fd = -1 };
	struct koda_error err = { 0 };
	struct arena arena;
	Koda__Reply *reply;
	uint8_t *copy = malloc(size + 1);
	int r;

	must(copy != NULL);
	memcpy(copy, data, size);
	arena_init(&arena);
	reply = (Koda__Reply *)message_unpack(&koda__reply__descriptor, copy, size, &arena, &err);
	if (reply != NULL && reply->result_case == KODA__REPLY__RESULT_PREPARED &&
	    request_is_mutation(kind)) {
		if (reply_check_prepared(kind, reply->prepared, &err) == 0) {
			struct packed packed = { copy, size };

			must(memchr(reply->prepared->place.data, '\0',
				 reply->prepared->place.len) == NULL);
			r = reply_of_prepared(&packed, kind, &result, &err);
			if (r == 0)
				must_make_sense(kind, &result);
		}
	} else if (reply != NULL) {
		r = reply_take(kind, reply, with_fd ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1,
		    &arena, &result, &err);
		must(r >= -1 && r <= 1);
		if (r < 0)
			must(err.code != KODA_OK && strlen(err.message) < sizeof(err.message));
		/* Freed before the result is checked, so that a sanitizer sees a pointer into
		 * it. */
		arena_done(&arena);
		arena_init(&arena);
		memset(copy, 0xee, size);
		if (r >= 0)
			must_make_sense(kind, &result);
	}
	koda_result_done(&result);
	arena_done(&arena);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > FRAME_MAX)
		return 0;
	for (int kind = KODA_OP_PING; kind <= KODA_OP_EXPLAIN; kind++) {
		as_answer_to((enum koda_op_kind)kind, data, size, false);
		as_answer_to((enum koda_op_kind)kind, data, size, true);
	}
	return 0;
}
