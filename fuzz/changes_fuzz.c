/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's list of a draft's changes is untrusted: any bytes as Reply. What the host takes from it is
 * valid, and none of it points into the frame.
 */
#include "fuzz/fuzz.h"
#include "host/review/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"

static void
must_be_side(const struct draft_side *s)
{
	if (s->type == 0)
		return;
	must(s->mode <= 07777);
	must((s->target != NULL) == (s->type == KODA__FILE_TYPE__FILE_SYMLINK));
	must(s->target == NULL || strlen(s->target) <= PATH_LEN_MAX);
}

static void
must_be_change(const struct reviewed *c)
{
	struct change_shown shown;

	must(path_is_canonical((const uint8_t *)c->path, strlen(c->path)));
	must(path_is_inside(c->path, "/p"));
	must((c->rule == NULL) == (c->reason == NULL));
	must(c->rule == NULL || strlen(c->rule) > 0);
	must_be_side(&c->before);
	must_be_side(&c->after);
	must((c->kind == KODA__DRAFT_KIND__DRAFT_DELETED) == (c->after.type == 0));
	must(c->kind == KODA__DRAFT_KIND__DRAFT_CREATED || c->before.type != 0);
	change_show(c, &shown);
	must(shown.change.path == c->path);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char root[] = "/p";
	static struct draft draft = { .fd = -1, .n_dirs = 1, .dir = { { .path = root } } };
	struct koda_error err = { 0 };
	struct arena arena;
	const Koda__Reply *reply;
	uint8_t *copy = malloc(size + 1);

	must(copy != NULL);
	memcpy(copy, data, size);
	arena_init(&arena);
	reply =
	    (const Koda__Reply *)message_unpack(&koda__reply__descriptor, copy, size, &arena, &err);
	if (reply != NULL && reply->result_case == KODA__REPLY__RESULT_CHANGES)
		for (size_t i = 0; i < reply->changes->n_entry; i++) {
			struct reviewed c = { 0 };
			const int r = change_take(&draft, 0, reply->changes->entry[i], &c, &err);

			must(r == 0 || (r == -1 && err.code != KODA_OK));
			if (r == 0)
				must_be_change(&c);
			change_done(&c);
		}
	arena_done(&arena);
	free(copy);
	return 0;
}
