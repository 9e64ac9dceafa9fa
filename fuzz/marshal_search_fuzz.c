/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply of a search process is untrusted: any bytes as Reply, taken for the answer to every
 * kind of search. What the embedder gets is valid, within the bounds of the request, and readable
 * memory.
 */
#include "fuzz/fuzz.h"
#include "host/search/marshal_search.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

#define LIMIT   3
#define COLUMNS 16
#define PLACES  2

static const char *const paths[PLACES] = { "a", "b" };

static void
must_all_be_there(const char *text, size_t len)
{
	static volatile uint8_t sink;

	for (size_t i = 0; i < len; i++)
		sink = (uint8_t)(sink + (uint8_t)text[i]);
}

static void
must_be_below(const char *path)
{
	must(path[0] != '/' && strlen(path) <= PATH_LEN_MAX);
	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		must(n > 0 && !(n == 1 && path[0] == '.') &&
		    !(n == 2 && memcmp(path, "..", 2) == 0));
		must(path[n] == '\0' || path[n + 1] != '\0');
		path += n + (path[n] != '\0');
	}
}

static void
must_make_sense(const struct koda_found *f)
{
	size_t end = 0;

	must(f->place < PLACES);
	must_be_below(f->path);
	must((unsigned)f->type <= KODA_FILE_OTHER);
	must(f->len <= COLUMNS && (f->text != NULL || f->len == 0));
	must_all_be_there(f->text, f->len);
	for (size_t i = 0; i < f->n_spans; i++) {
		must(end <= f->spans[i].start && f->spans[i].start <= f->spans[i].end);
		end = f->spans[i].end;
	}
	must(end <= f->len);
	must((f->reason != NULL) == (f->kind == KODA_FOUND_TROUBLE));
	for (const char *p = f->reason; p != NULL && *p != '\0'; p++)
		must((unsigned char)*p >= 0x20);
}

static void
as_answer_to(const struct koda_search_options *asked, const Koda__Reply *reply)
{
	size_t told = 0, context = 0, troubles = 0;
	struct koda_search_result result;
	struct koda_error err = { 0 };
	struct marshal_found m;
	struct koda_found f;

	marshal_found_init(&m, asked);
	if (reply->result_case == KODA__REPLY__RESULT_SEARCHED &&
	    marshal_searched(&m, reply->searched, &result, &err) == 0)
		must(result.found == 0);
	if (reply->result_case == KODA__REPLY__RESULT_FOUND) {
		marshal_found_page(&m);
		for (size_t i = 0; i < reply->found->n_item; i++) {
			if (marshal_found_item(&m, reply->found->item[i], &f, &err) < 0) {
				must(err.code == KODA_PROTOCOL);
				break;
			}
			must_make_sense(&f);
			context += f.kind == KODA_FOUND_CONTEXT;
			troubles += f.kind == KODA_FOUND_TROUBLE;
			told += f.kind != KODA_FOUND_CONTEXT && f.kind != KODA_FOUND_TROUBLE;
		}
		must(told <= LIMIT && troubles <= SEARCH_TROUBLES_MAX);
		must(context <= (told + 1) * (asked->before + asked->after));
	}
	marshal_found_done(&m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		enum koda_search_kind kind;
		unsigned flags;
	} kinds[] = {
		{ KODA_SEARCH_GLOB, 0 },
		{ KODA_SEARCH_GREP, 0 },
		{ KODA_SEARCH_GREP, KODA_SEARCH_COUNT },
		{ KODA_SEARCH_GREP, KODA_SEARCH_FILES },
		{ KODA_SEARCH_TREE, 0 },
	};
	struct koda_error err = { 0 };
	struct arena arena;
	Koda__Reply *reply;

	arena_init(&arena);
	reply = (Koda__Reply *)message_unpack(&koda__reply__descriptor, data, size, &arena, &err);
	for (size_t i = 0; reply != NULL && i < N_ELEMENTS(kinds); i++) {
		const struct koda_search_options asked = { .kind = kinds[i].kind,
			.flags = kinds[i].flags,
			.paths = paths,
			.n_paths = PLACES,
			.before = 1,
			.after = 1,
			.limit = LIMIT,
			.max_columns = COLUMNS };

		as_answer_to(&asked, reply);
	}
	arena_done(&arena);
	return 0;
}
