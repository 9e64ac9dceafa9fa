/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/slot/reply.c, request.c: replies of a worker that lies, one lie each; and the requests that
 * are built again.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/slot/reply.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"
#include "tests/kit/cases.h"

#define TEXT(s)                                                                                    \
	{                                                                                          \
		sizeof(s) - 1, (uint8_t *)(uintptr_t)(s)                                           \
	}

static uint8_t digest32[33] = "0123456789abcdef0123456789abcdef";
static uint8_t page[PAGE_MAX + 2];

/* ---- replies without a descriptor ---- */

struct lie {
	const char *label;
	enum koda_op_kind kind;
	void (*build)(Koda__Reply *rep);
	const char *says; /* NULL: no lie */
};

static Koda__ReadReply read_reply;
static Koda__Outcome outcome;
static Koda__StatReply stat_reply;
static Koda__ListReply list_reply;
static Koda__Entry entries[3], *entry_at[3] = { &entries[0], &entries[1], &entries[2] };
static Koda__Explained explained;
static Koda__Pong pong;
static Koda__Error error;
static ProtobufCBinaryData hop;
static char over_long[PATH_LEN_MAX + 2], long_name[NAME_LEN_MAX + 3];

static void
a_read(Koda__Reply *rep)
{
	koda__read_reply__init(&read_reply);
	read_reply.path = (ProtobufCBinaryData)TEXT("/a");
	read_reply.size = 3;
	read_reply.has_content = true;
	read_reply.content = (ProtobufCBinaryData)TEXT("abc");
	rep->result_case = KODA__REPLY__RESULT_READ;
	rep->read = &read_reply;
}

static void
an_outcome(Koda__Reply *rep)
{
	koda__outcome__init(&outcome);
	outcome.path = (ProtobufCBinaryData)TEXT("/a");
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &outcome;
}

static void
a_stat(Koda__Reply *rep)
{
	koda__stat_reply__init(&stat_reply);
	stat_reply.path = (ProtobufCBinaryData)TEXT("/a");
	stat_reply.type = KODA__FILE_TYPE__FILE_SYMLINK;
	rep->result_case = KODA__REPLY__RESULT_STAT;
	rep->stat = &stat_reply;
}

static void
a_list(Koda__Reply *rep)
{
	koda__list_reply__init(&list_reply);
	list_reply.path = (ProtobufCBinaryData)TEXT("/a");
	for (int i = 0; i < 3; i++) {
		koda__entry__init(&entries[i]);
		entries[i].name = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t) & "xyz"[i] };
		entries[i].type = KODA__FILE_TYPE__FILE_REGULAR;
	}
	list_reply.n_entry = 3;
	list_reply.entry = entry_at;
	rep->result_case = KODA__REPLY__RESULT_LIST;
	rep->list = &list_reply;
}

static void
an_explanation(Koda__Reply *rep)
{
	koda__explained__init(&explained);
	explained.path = (ProtobufCBinaryData)TEXT("/a");
	explained.rule = (ProtobufCBinaryData)TEXT("default");
	explained.reason = (ProtobufCBinaryData)TEXT("because");
	hop = (ProtobufCBinaryData)TEXT("/link");
	explained.n_hop = 1;
	explained.hop = &hop;
	rep->result_case = KODA__REPLY__RESULT_EXPLAINED;
	rep->explained = &explained;
}

static void
a_pong(Koda__Reply *rep)
{
	koda__pong__init(&pong);
	rep->result_case = KODA__REPLY__RESULT_PONG;
	rep->pong = &pong;
}

static void
an_error(Koda__Reply *rep)
{
	koda__error__init(&error);
	error.code = KODA__ERROR_CODE__PROTOCOL;
	error.message = (ProtobufCBinaryData)TEXT("what?");
	rep->result_case = KODA__REPLY__RESULT_ERROR;
	rep->error = &error;
}

#define LIE(name, base, ...)                                                                       \
	static void name(Koda__Reply *rep)                                                         \
	{                                                                                          \
		base(rep);                                                                         \
		__VA_ARGS__;                                                                       \
	}
LIE(read_relative, a_read, read_reply.path = (ProtobufCBinaryData)TEXT("a"))
LIE(read_empty_path, a_read, read_reply.path = (ProtobufCBinaryData)TEXT(""))
LIE(read_nul, a_read, read_reply.path = (ProtobufCBinaryData)TEXT("/a\0b"))
LIE(read_over_long, a_read, read_reply.path = (ProtobufCBinaryData)TEXT(over_long))
LIE(read_long_name, a_read, read_reply.path = (ProtobufCBinaryData)TEXT(long_name))
LIE(read_nothing, a_read, read_reply.has_content = false)
LIE(read_page_too_long, a_read, read_reply.content = (ProtobufCBinaryData)TEXT(page))
LIE(read_more_of_nothing, a_read, read_reply.has_more = read_reply.more = true;
    read_reply.content.len = 0)
LIE(read_short_digest, a_read, read_reply.has_digest = true;
    read_reply.digest = (ProtobufCBinaryData){ 31, digest32 })
LIE(read_long_digest, a_read, read_reply.has_digest = true;
    read_reply.digest = (ProtobufCBinaryData){ 33, digest32 })
LIE(read_absent_descriptor, a_read, read_reply.has_content = false;
    read_reply.has_descriptor = read_reply.descriptor = true)
LIE(read_both, a_read, read_reply.has_descriptor = read_reply.descriptor = true)
LIE(outcome_relative, an_outcome, outcome.path = (ProtobufCBinaryData)TEXT("a"))
LIE(outcome_to, an_outcome, outcome.has_to = true; outcome.to = (ProtobufCBinaryData)TEXT("/b"))
LIE(outcome_to_relative, an_outcome, outcome.has_to = true;
    outcome.to = (ProtobufCBinaryData)TEXT("b"))
LIE(outcome_digest, an_outcome, outcome.has_digest = true;
    outcome.digest = (ProtobufCBinaryData){ 31, digest32 })
LIE(outcome_digest_before, an_outcome, outcome.has_digest_before = true;
    outcome.digest_before = (ProtobufCBinaryData){ 0, NULL })
static uint64_t many_lines[REPLACEMENTS_MAX + 1];
LIE(outcome_lines, an_outcome, outcome.n_line = REPLACEMENTS_MAX + 1; outcome.line = many_lines)
LIE(stat_target_nul, a_stat, stat_reply.has_target = true;
    stat_reply.target = (ProtobufCBinaryData)TEXT("a\0b"))
LIE(stat_empty_target, a_stat, stat_reply.has_target = true;
    stat_reply.target = (ProtobufCBinaryData){ 0 })
LIE(list_slash, a_list, entries[1].name = (ProtobufCBinaryData)TEXT("y/"))
LIE(list_nul, a_list, entries[1].name = (ProtobufCBinaryData)TEXT("y\0"))
LIE(list_empty_name, a_list, entries[0].name = (ProtobufCBinaryData)TEXT(""))
LIE(list_dot, a_list, entries[0].name = (ProtobufCBinaryData)TEXT("."))
LIE(list_dotdot, a_list, entries[0].name = (ProtobufCBinaryData)TEXT(".."))
LIE(list_long_name, a_list, entries[2].name = (ProtobufCBinaryData)TEXT(long_name))
LIE(list_disorder, a_list, entries[0].name = (ProtobufCBinaryData)TEXT("z"))
LIE(list_twice, a_list, entries[1].name = (ProtobufCBinaryData)TEXT("x"))
LIE(list_more_of_nothing, a_list, list_reply.n_entry = 0;
    list_reply.has_more = list_reply.more = true)
LIE(list_nothing, a_list, list_reply.n_entry = 0)
LIE(explained_rule, an_explanation, explained.rule = (ProtobufCBinaryData)TEXT("a\0"))
LIE(explained_reason, an_explanation, explained.reason = (ProtobufCBinaryData)TEXT("\0"))
LIE(explained_hop, an_explanation, hop = (ProtobufCBinaryData)TEXT("link"))

static const struct lie lies[] = {
	{ "read", KODA_OP_READ, a_read, NULL },
	{ "write", KODA_OP_WRITE, an_outcome, NULL },
	{ "rename", KODA_OP_RENAME, outcome_to, NULL },
	{ "stat", KODA_OP_STAT, a_stat, NULL },
	{ "stat of a link to nothing", KODA_OP_STAT, stat_empty_target, NULL },
	{ "list", KODA_OP_LIST, a_list, NULL },
	{ "list of nothing", KODA_OP_LIST, list_nothing, NULL },
	{ "explain", KODA_OP_EXPLAIN, an_explanation, NULL },
	{ "ping", KODA_OP_PING, a_pong, NULL },

	{ "read: relative path", KODA_OP_READ, read_relative, "path" },
	{ "read: empty path", KODA_OP_READ, read_empty_path, "path" },
	{ "read: NUL in the path", KODA_OP_READ, read_nul, "path" },
	{ "read: over-long path", KODA_OP_READ, read_over_long, "path" },
	{ "read: over-long name", KODA_OP_READ, read_long_name, "path" },
	{ "read: neither content nor descriptor", KODA_OP_READ, read_nothing, "missing" },
	{ "read: more than a page", KODA_OP_READ, read_page_too_long, "too long" },
	{ "read: more, but nothing now", KODA_OP_READ, read_more_of_nothing, "empty page" },
	{ "read: digest of 31 bytes", KODA_OP_READ, read_short_digest, "digest" },
	{ "read: digest of 33 bytes", KODA_OP_READ, read_long_digest, "digest" },
	{ "read: a descriptor that did not come", KODA_OP_READ, read_absent_descriptor,
	    "is missing" },
	{ "read: content and descriptor", KODA_OP_READ, read_both, "twice" },
	{ "write: relative path", KODA_OP_WRITE, outcome_relative, "path" },
	{ "write: a destination", KODA_OP_WRITE, outcome_to, "destination" },
	{ "rename: no destination", KODA_OP_RENAME, an_outcome, "destination" },
	{ "rename: relative destination", KODA_OP_RENAME, outcome_to_relative, "path" },
	{ "edit: digest", KODA_OP_EDIT, outcome_digest, "digest" },
	{ "edit: digest before", KODA_OP_EDIT, outcome_digest_before, "digest" },
	{ "edit: too many lines", KODA_OP_EDIT, outcome_lines, "lines" },
	{ "stat: NUL in the target", KODA_OP_STAT, stat_target_nul, "NUL" },
	{ "list: a slash in a name", KODA_OP_LIST, list_slash, "name" },
	{ "list: a NUL in a name", KODA_OP_LIST, list_nul, "name" },
	{ "list: an empty name", KODA_OP_LIST, list_empty_name, "name" },
	{ "list: .", KODA_OP_LIST, list_dot, "name" },
	{ "list: ..", KODA_OP_LIST, list_dotdot, "name" },
	{ "list: an over-long name", KODA_OP_LIST, list_long_name, "name" },
	{ "list: out of order", KODA_OP_LIST, list_disorder, "order" },
	{ "list: a name twice", KODA_OP_LIST, list_twice, "order" },
	{ "list: more, but nothing now", KODA_OP_LIST, list_more_of_nothing, "empty page" },
	{ "explain: NUL in the rule", KODA_OP_EXPLAIN, explained_rule, "NUL" },
	{ "explain: NUL in the reason", KODA_OP_EXPLAIN, explained_reason, "NUL" },
	{ "explain: a relative hop", KODA_OP_EXPLAIN, explained_hop, "path" },
	{ "it does not understand us", KODA_OP_READ, an_error, "could not read" },
	{ "stat for read", KODA_OP_READ, a_stat, "wrong type" },
	{ "pong for write", KODA_OP_WRITE, a_pong, "wrong type" },
	{ "outcome for ping", KODA_OP_PING, an_outcome, "wrong type" },
	{ "list for explain", KODA_OP_EXPLAIN, a_list, "wrong type" },
};

static void
check_lie(void **state)
{
	const struct lie *lie = &lies[(uintptr_t)*state];
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_result result = { .fd = -1 };
	struct koda_error err = { 0 };
	int r;

	memset(over_long, 'x', sizeof(over_long) - 1);
	for (size_t i = 0; i < sizeof(over_long); i += 100)
		over_long[i] = '/';
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[0] = '/';
	if (lie->kind == KODA_OP_LIST)
		long_name[0] = 'z';
	lie->build(&rep);
	r = reply_take(lie->kind, &rep, -1, NULL, &result, &err);
	if (lie->says == NULL) {
		if (r != 0)
			fail_msg("%s", err.message);
	} else {
		assert_int_equal(r, -1);
		assert_int_equal(err.code, KODA_PROTOCOL);
		if (strstr(err.message, lie->says) == NULL)
			fail_msg("'%s' says nothing of '%s'", err.message, lie->says);
	}
	koda_result_done(&result);
	assert_null(result.priv);
}

/* ---- descriptors ---- */

static int
a_pipe(void)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	close(fds[1]);
	return fds[0];
}

static int
a_directory(void)
{
	return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int
a_file(int flags)
{
	char path[] = "/tmp/koda-marshal.XXXXXX";
	int fd = mkstemp(path), again;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "abc", 3), 3);
	again = open(path, flags | O_CLOEXEC);
	unlink(path);
	close(fd);
	return again;
}

static int
for_reading(void)
{
	return a_file(O_RDONLY);
}

static int
for_both(void)
{
	return a_file(O_RDWR);
}

static int
for_writing(void)
{
	return a_file(O_WRONLY);
}

static int
path_only(void)
{
	return a_file(O_PATH);
}

static int
on_proc(void)
{
	return open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
}

static int
a_device(void)
{
	return open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int
a_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* On no mount that any process can see. */
static int
a_memfd(void)
{
	int fd = memfd_create("x", MFD_CLOEXEC), again;
	char path[64];

	assert_int_equal(write(fd, "abc", 3), 3);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return again;
}

static const struct {
	const char *label;
	int (*open)(void);
	uint64_t size;
	enum koda_code want;
} descriptors[] = {
	{ "a file for reading", for_reading, 3, KODA_OK },
	{ "one of another size", for_reading, 4, KODA_CONFLICT },
	{ "a file for reading and writing", for_both, 3, KODA_PROTOCOL },
	{ "a file for writing", for_writing, 3, KODA_PROTOCOL },
	{ "a path", path_only, 3, KODA_PROTOCOL },
	{ "a file on proc", on_proc, 0, KODA_PROTOCOL },
	{ "a pipe", a_pipe, 0, KODA_PROTOCOL },
	{ "a directory", a_directory, 4096, KODA_PROTOCOL },
	{ "a device", a_device, 0, KODA_PROTOCOL },
	{ "a socket", a_socket, 0, KODA_PROTOCOL },
	{ "a memfd", a_memfd, 3, KODA_PROTOCOL },
};

static void
check_descriptor(void **state)
{
	size_t i = (uintptr_t)*state;
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_result result = { .fd = -1 };
	struct koda_error err = { 0 };
	int fd = descriptors[i].open(), r;

	assert_true(fd >= 0);
	read_absent_descriptor(&rep);
	read_reply.size = descriptors[i].size;
	r = reply_take(KODA_OP_READ, &rep, fd, NULL, &result, &err);
	assert_int_equal(r, descriptors[i].want == KODA_OK ? 0 : -1);
	assert_int_equal(err.code, descriptors[i].want);
	assert_int_equal(result.fd, r == 0 ? fd : -1);
	koda_result_done(&result);
	/* Accepted or not, it is closed now. */
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* A descriptor that comes with a reply that needs none is closed as well. */
static void
needless_descriptor(void **state)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_result result = { .fd = -1 };
	struct koda_error err;
	int fd = for_reading();

	a_read(&rep);
	assert_int_equal(reply_take(KODA_OP_READ, &rep, fd, NULL, &result, &err), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(result.fd, -1);
	koda_result_done(&result);
}

/* ---- pages ---- */

static void
list_pages(void **state)
{
	struct koda_result result = { .fd = -1 };
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_error err;
	char name[16];

	a_list(&rep);
	list_reply.n_entry = 1;
	list_reply.has_more = list_reply.more = true;
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "%08d", i);
		entries[0].name = (ProtobufCBinaryData){ 8, (uint8_t *)name };
		assert_int_equal(reply_take(KODA_OP_LIST, &rep, -1, NULL, &result, &err), 1);
	}
	/* The next page must begin after the last one. */
	assert_int_equal(reply_take(KODA_OP_LIST, &rep, -1, NULL, &result, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	assert_int_equal(result.n_entries, 5000);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(atoi(result.entries[i].name), i);
	koda_result_done(&result);
}

static void
read_pages(void **state)
{
	struct koda_result result = { .fd = -1 };
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_error err;

	a_read(&rep);
	read_reply.has_more = read_reply.more = true;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(reply_take(KODA_OP_READ, &rep, -1, NULL, &result, &err), 1);
	read_reply.more = false;
	assert_int_equal(reply_take(KODA_OP_READ, &rep, -1, NULL, &result, &err), 0);
	assert_int_equal(result.len, 30003);
	for (size_t i = 0; i < result.len; i++)
		assert_int_equal(result.data[i], "abc"[i % 3]);
	/* A descriptor between pages is refused. */
	read_absent_descriptor(&rep);
	assert_int_equal(reply_take(KODA_OP_READ, &rep, for_reading(), NULL, &result, &err), -1);
	koda_result_done(&result);
}

/* ---- texts ---- */

static void
error_texts(void **state)
{
	struct koda_result result = { .fd = -1 };
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_error err;
	char big[4096];

	an_error(&rep);
	error.code = KODA__ERROR_CODE__POLICY_DENIED;
	error.message = (ProtobufCBinaryData)TEXT("a\x1b[31m\r\n\0b\xff");
	error.has_path = error.has_rule = true;
	error.path = (ProtobufCBinaryData)TEXT("/a\nb");
	error.rule = (ProtobufCBinaryData)TEXT("allow\x07write");
	error.has_errnum = true;
	error.errnum = 13;
	assert_int_equal(reply_take(KODA_OP_WRITE, &rep, -1, NULL, &result, &err), -1);
	assert_int_equal(err.code, KODA_POLICY_DENIED);
	assert_int_equal(err.errnum, 13);
	assert_string_equal(err.message, "a\\x1b[31m\\x0d\\x0a\\x00b\\xff");
	assert_string_equal(err.path, "/a\\x0ab");
	assert_string_equal(err.rule, "allow\\x07write");

	memset(big, 'x', sizeof(big));
	error.message = error.path = error.rule =
	    (ProtobufCBinaryData){ sizeof(big), (uint8_t *)big };
	assert_int_equal(reply_take(KODA_OP_WRITE, &rep, -1, NULL, &result, &err), -1);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_int_equal(strlen(err.path), sizeof(err.path) - 1);
	assert_int_equal(strlen(err.rule), sizeof(err.rule) - 1);
	error.message = error.path = error.rule = (ProtobufCBinaryData){ 0, NULL };
	assert_int_equal(reply_take(KODA_OP_WRITE, &rep, -1, NULL, &result, &err), -1);
	assert_string_equal(err.message, "");
}

/* ---- requests that are built again ---- */

static Koda__Request *
again(const struct koda_op *op, enum request_change change, const struct koda_result *seen,
    struct arena *arena)
{
	struct packed first, second;
	struct koda_error err;
	Koda__Request *req;

	assert_int_equal(request_check(op, &err), 0);
	assert_int_equal(request_pack(op, 5, false, true, &first, &err), 0);
	assert_int_equal(request_again(&first, change, 6, seen, &second, &err), 0);
	req = request_unpack(&second, arena);
	assert_non_null(req);
	assert_int_equal(req->id, 6);
	packed_done(&first);
	packed_done(&second);
	assert_null(second.data);
	return req;
}

static void
act_is_bound(void **state)
{
	struct koda_op op = { .kind = KODA_OP_WRITE,
		.path = "a",
		.data = "x",
		.len = 1,
		.flags = KODA_DURABLE };
	struct koda_result seen = { .path = "/p/a",
		.type = KODA_FILE_REGULAR,
		.has_digest_before = true };
	const Koda__Guard *guard;
	struct arena arena;
	Koda__Request *req;

	memset(seen.digest_before, 7, sizeof(seen.digest_before));
	arena_init(&arena);
	req = again(&op, REQUEST_ACT, &seen, &arena);
	assert_int_equal(req->op_case, KODA__REQUEST__OP_WRITE);
	assert_false(req->write->has_dry_run && req->write->dry_run);
	assert_true(req->write->durable);
	guard = req->write->guard;
	assert_non_null(guard);
	assert_true(
	    guard->has_path && guard->path.len == 4 && memcmp(guard->path.data, "/p/a", 4) == 0);
	assert_true(guard->has_digest && guard->digest.len == KODA_DIGEST_BYTES);
	assert_memory_equal(guard->digest.data, seen.digest_before, KODA_DIGEST_BYTES);
	assert_false(guard->has_absent && guard->absent);

	/* If there was no file, it has to be absent still. */
	seen.type = KODA_FILE_NONE;
	seen.has_digest_before = false;
	op.kind = KODA_OP_MKDIR;
	req = again(&op, REQUEST_ACT, &seen, &arena);
	assert_true(req->mkdir->guard->has_absent && req->mkdir->guard->absent);
	assert_false(req->mkdir->guard->has_digest);

	seen.type = KODA_FILE_DIRECTORY;
	seen.to = "/p/b";
	op.kind = KODA_OP_RENAME;
	op.to = "b";
	req = again(&op, REQUEST_ACT, &seen, &arena);
	assert_true(req->rename->has_guard_to && req->rename->guard_to.len == 4);
	assert_false(req->rename->guard->has_absent || req->rename->guard->has_digest);
	assert_false(req->rename->has_dry_run && req->rename->dry_run);
	arena_done(&arena);
}

static void
next_pages(void **state)
{
	const struct koda_entry names[] = { { "a", KODA_FILE_REGULAR, 0 },
		{ "b", KODA_FILE_REGULAR, 0 } };
	struct koda_result seen = { .entries = names, .n_entries = 2, .len = 30 };
	struct koda_op op = { .kind = KODA_OP_LIST, .path = "d" };
	struct arena arena;
	Koda__Request *req;

	arena_init(&arena);
	req = again(&op, REQUEST_NEXT_PAGE, &seen, &arena);
	assert_true(
	    req->list->has_after && req->list->after.len == 1 && req->list->after.data[0] == 'b');
	op = (struct koda_op){ .kind = KODA_OP_READ, .path = "d", .offset = 100, .max = 50 };
	req = again(&op, REQUEST_NEXT_PAGE, &seen, &arena);
	assert_int_equal(req->read->offset, 130);
	assert_int_equal(req->read->max, 20);
	arena_done(&arena);
}

static void
previews(void **state)
{
	struct koda_result seen = { .type = KODA_FILE_REGULAR };
	struct koda_error err;

	assert_int_equal(reply_check_preview(KODA_OP_WRITE, &seen, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	seen.has_digest_before = true;
	assert_int_equal(reply_check_preview(KODA_OP_WRITE, &seen, &err), 0);
	seen = (struct koda_result){ .type = KODA_FILE_NONE };
	assert_int_equal(reply_check_preview(KODA_OP_WRITE, &seen, &err), 0);
}

/* ---- Prepared and Recover ---- */

static void
prepared(void **state)
{
	Koda__Prepared p = KODA__PREPARED__INIT;
	Koda__Reply rep = KODA__REPLY__INIT;
	struct koda_error err;

	an_outcome(&rep);
	p.outcome = &outcome;
	p.place = (ProtobufCBinaryData)TEXT("/a");
	p.has_temp = true;
	p.temp = (ProtobufCBinaryData)TEXT(".koda-x");
	assert_int_equal(reply_check_prepared(KODA_OP_WRITE, &p, &err), 0);
#define REFUSED(kind) assert_int_equal(reply_check_prepared(kind, &p, &err), -1)
	REFUSED(KODA_OP_RENAME);
	p.temp = (ProtobufCBinaryData)TEXT("../x");
	REFUSED(KODA_OP_WRITE);
	p.temp = (ProtobufCBinaryData)TEXT("..");
	REFUSED(KODA_OP_WRITE);
	p.temp = (ProtobufCBinaryData)TEXT(".koda-x");
	p.place = (ProtobufCBinaryData)TEXT("a");
	REFUSED(KODA_OP_WRITE);
	p.place = (ProtobufCBinaryData)TEXT("/a");
	p.has_to = true;
	p.to = (ProtobufCBinaryData)TEXT("/b");
	REFUSED(KODA_OP_WRITE);
	p.has_temp = false;
	outcome_to(&rep);
	assert_int_equal(reply_check_prepared(KODA_OP_RENAME, &p, &err), 0);
	p.to = (ProtobufCBinaryData)TEXT("b");
	REFUSED(KODA_OP_RENAME);
	p.to = (ProtobufCBinaryData)TEXT("/b");
	an_outcome(&rep); /* the planned outcome has no destination */
	REFUSED(KODA_OP_RENAME);
	p.has_to = false;
	REFUSED(KODA_OP_REMOVE); /* without a temporary name */
}

static void
recover(void **state)
{
	static const uint8_t token[TOKEN_BYTES] = "12345678";
	const struct koda_op op = { .kind = KODA_OP_REMOVE, .path = "d", .flags = KODA_RECURSIVE };
	Koda__Verdict verdict = KODA__VERDICT__INIT;
	Koda__Prepared p = KODA__PREPARED__INIT;
	Koda__Reply rep = KODA__REPLY__INIT, wire = KODA__REPLY__INIT;
	struct packed request, said = { NULL, 0 }, ret;
	struct wreck wreck = { .request = 5, .token = token, .prepared = &said };
	struct koda_error err;
	struct arena arena;
	Koda__Request *req;

	arena_init(&arena);
	assert_int_equal(request_pack(&op, 5, false, false, &request, &err), 0);
	assert_int_equal(request_recover(&request, 9, &wreck, &ret, &err), 0);
	req = request_unpack(&ret, &arena);
	assert_non_null(req);
	assert_int_equal(req->id, 9);
	assert_int_equal(req->recover->request, 5);
	assert_int_equal(req->recover->kind, KODA__KIND__KIND_REMOVE);
	assert_true(req->recover->recursive);
	assert_null(req->recover->prepared);
	assert_memory_equal(req->recover->token.data, token, TOKEN_BYTES);
	packed_done(&ret);

	an_outcome(&rep);
	p.outcome = &outcome;
	p.place = (ProtobufCBinaryData)TEXT("/p/d");
	p.has_temp = true;
	p.temp = (ProtobufCBinaryData)TEXT("x");
	p.dev = 3;
	p.ino = 4;
	wire.id = 5;
	wire.result_case = KODA__REPLY__RESULT_PREPARED;
	wire.prepared = &p;
	said.len = koda__reply__get_packed_size(&wire);
	said.data = malloc(said.len);
	koda__reply__pack(&wire, said.data);
	verdict.happened = KODA__HAPPENED__HAPPENED;
	wreck.committed = true;
	wreck.verdict = &verdict;
	assert_int_equal(request_recover(&request, 10, &wreck, &ret, &err), 0);
	arena_reset(&arena);
	req = request_unpack(&ret, &arena);
	assert_non_null(req);
	assert_int_equal(req->recover->prepared->ino, 4);
	assert_true(req->recover->committed);
	assert_int_equal(req->recover->verdict->happened, KODA__HAPPENED__HAPPENED);
	packed_done(&ret);
	packed_done(&said);
	packed_done(&request);
	arena_done(&arena);
}

static void
too_large_for_a_frame(void **state)
{
	static char text[FRAME_MAX];
	const struct koda_edit edit = { text, sizeof(text), "x", 1, false };
	const struct koda_op op = { .kind = KODA_OP_EDIT,
		.path = "a",
		.edits = &edit,
		.n_edits = 1 };
	struct koda_error err;
	struct packed ret;

	assert_int_equal(request_pack(&op, 1, false, false, &ret, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(lies) + N_ELEMENTS(descriptors) + 16];
	size_t n = 0;

	CASES(lies, check_lie);
	CASES(descriptors, check_descriptor);
#define ADD(fn) tests[n++] = (struct CMUnitTest){ #fn, fn, NULL, NULL, NULL }
	ADD(needless_descriptor);
	ADD(list_pages);
	ADD(read_pages);
	ADD(error_texts);
	ADD(act_is_bound);
	ADD(next_pages);
	ADD(previews);
	ADD(prepared);
	ADD(recover);
	ADD(too_large_for_a_frame);
	return _cmocka_run_group_tests("marshal", tests, n, NULL, NULL);
}
