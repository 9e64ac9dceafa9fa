/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real koda-fs-worker, driven over raw frames: what docs/PROTOCOL.md promises about its side of
 * the socket, one case per test. No code of the host is linked in between.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

static const uint8_t token[TOKEN_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 0xab };
#define TEMP_OF_TOKEN ".koda-01020304050607ab-"

/* ---- a directory for each test ---- */

struct world {
	char base[PATH_MAX / 4], root[PATH_MAX / 4 + 16], out[PATH_MAX / 4 + 16];
};
static struct world world;

static const char *
in(const char *dir, const char *name)
{
	static char buf[8][PATH_MAX];
	static unsigned i;
	char *p = buf[i++ % 8];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}

#define R(name) in(world.root, (name))
#define O(name) in(world.out, (name))

static void
put_file(const char *path, const void *data, size_t len)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0);
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		must(n > 0);
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

static void
put_text(const char *path, const char *text)
{
	put_file(path, text, strlen(text));
}

static void
assert_text(const char *path, const char *text)
{
	char buf[4096];
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	n = read(fd, buf, sizeof(buf) - 1);
	must(n >= 0);
	buf[n < 0 ? 0 : n] = '\0';
	assert_string_equal(buf, text);
}

static bool
exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* Return the number of names in a directory, and store whether one of them is a temporary one. */
static unsigned
names_in(const char *dir, bool *ret_temp)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	must(d != NULL);
	*ret_temp = false;
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		*ret_temp |= strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;
	}
	closedir(d);
	return n;
}

static void
assert_no_temp(const char *dir)
{
	bool temp;

	names_in(dir, &temp);
	assert_false(temp);
}

static void
remove_all(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	struct stat st;

	chmod(path, 0700);
	if (d == NULL)
		d = opendir(path);
	while (d != NULL && (e = readdir(d)) != NULL) {
		const char *p;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		p = in(path, e->d_name);
		if (lstat(p, &st) == 0 && S_ISDIR(st.st_mode)) {
			char *copy = strdup(p);

			remove_all(copy);
			free(copy);
		} else {
			unlink(p);
		}
	}
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

static int
world_make(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX / 8];
	char *real = NULL;

	snprintf(path, sizeof(path), "%s/wire.XXXXXX", tmp != NULL ? tmp : "/tmp");
	must(mkdtemp(path) != NULL);
	real = realpath(path, NULL);
	must(real != NULL);
	snprintf(world.base, sizeof(world.base), "%s", real);
	free(real);
	snprintf(world.root, sizeof(world.root), "%s/root", world.base);
	snprintf(world.out, sizeof(world.out), "%s/out", world.base);
	must(mkdir(world.root, 0755) == 0 && mkdir(world.out, 0755) == 0);
	umask(022);
	return 0;
}

static int
world_remove(void **state)
{
	remove_all(world.base);
	return 0;
}

/* ---- a worker ---- */

struct worker {
	pid_t pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t id;
	bool prepared, committed, verdict; /* seen before the last final reply */
	uint8_t *milestone[3];             /* packed Prepared, Committed, Verdict */
	size_t milestone_len[3];
	int fd; /* of the last reply */
	const Koda__Reply *reply;
};

struct setup {
	const char *program; /* NULL: the worker itself */
	bool search;         /* run koda-fs-search instead */
	Koda__Mode mode;
	const char *deny_read, *deny_write;
	bool no_write;
	uint64_t max_file;
	uint32_t protocol;
	bool wrong_ino;
};

static void
worker_start(struct worker *w, const char *program)
{
	int sv[2];

	*w = (struct worker){ .id = 1, .fd = -1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	w->pid = fork();
	must(w->pid >= 0);
	if (w->pid == 0) {
		if (sv[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(sv[1], 3);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	frame_init(&w->fs, sv[0]);
	arena_init(&w->arena);
}

static int
worker_status(struct worker *w)
{
	int status;

	while (waitpid(w->pid, &status, 0) < 0)
		must(errno == EINTR);
	w->pid = 0;
	return status;
}

static void
assert_exits(struct worker *w, int code)
{
	int status = worker_status(w);

	if (WIFSIGNALED(status))
		fail_msg("killed by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

static void
worker_end(struct worker *w)
{
	for (size_t i = 0; i < 3; i++)
		free(w->milestone[i]);
	close_at(&w->fd);
	frame_done(&w->fs);
	arena_done(&w->arena);
	if (w->pid > 0) {
		int status = worker_status(w);

		/* A worker that breaks its own filter must not pass for one that ended. */
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			fail_msg("the worker was killed by signal %d", WTERMSIG(status));
	}
}

static void
send_request(struct worker *w, Koda__Request *req)
{
	struct koda_error err = { 0 };

	if (req->id == 0)
		req->id = w->id++;
	if (message_queue(&w->fs, &req->base, &err) < 0 || frame_flush(&w->fs, true, &err) != 1)
		fail_msg("%s", err.message);
}

/* Return the next reply of any kind, or NULL at the end of the stream. */
static const Koda__Reply *
next_reply(struct worker *w)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	size_t len;
	int r;

	while ((r = frame_next(&w->fs, &data, &len, &err)) == 0)
		if (frame_fill(&w->fs, true, &err) < 0)
			return NULL;
	if (r < 0)
		fail_msg("%s", err.message);
	w->reply = (const Koda__Reply *)message_unpack(&koda__reply__descriptor, data, len,
	    &w->arena, &err);
	if (w->reply == NULL)
		fail_msg("%s", err.message);
	return w->reply;
}

static void
keep_milestone(struct worker *w, unsigned i, const ProtobufCMessage *msg)
{
	free(w->milestone[i]);
	w->milestone_len[i] = protobuf_c_message_get_packed_size(msg);
	w->milestone[i] = malloc(w->milestone_len[i] + 1);
	must(w->milestone[i] != NULL);
	protobuf_c_message_pack(msg, w->milestone[i]);
}

/* Return the final reply to `id`, and keep what came before it in `w`. NULL at the end of the
 * stream. */
static const Koda__Reply *
final_reply(struct worker *w, uint64_t id)
{
	const Koda__Reply *rep;

	w->prepared = w->committed = w->verdict = false;
	while ((rep = next_reply(w)) != NULL) {
		assert_int_equal(rep->id, id);
		if (rep->result_case == KODA__REPLY__RESULT_PREPARED) {
			w->prepared = true;
			keep_milestone(w, 0, &rep->prepared->base);
		} else if (rep->result_case == KODA__REPLY__RESULT_COMMITTED) {
			assert_true(w->prepared);
			w->committed = true;
		} else if (rep->result_case == KODA__REPLY__RESULT_VERDICT) {
			w->verdict = true;
			keep_milestone(w, 2, &rep->verdict->base);
		} else {
			break;
		}
	}
	close_at(&w->fd);
	w->fd = -1;
	if (rep != NULL && rep->result_case == KODA__REPLY__RESULT_READ && rep->read->descriptor) {
		w->fd = frame_take_fd(&w->fs);
		assert_true(w->fd >= 0);
	}
	assert_int_equal(frame_fds_waiting(&w->fs), 0);
	return rep;
}

static const Koda__Reply *
call(struct worker *w, Koda__Request *req)
{
	const Koda__Reply *rep;

	arena_reset(&w->arena);
	send_request(w, req);
	rep = final_reply(w, req->id);
	if (rep == NULL)
		fail_msg("the worker ended instead of answering");
	return rep;
}

static ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static void
add(struct policy *p, enum koda_list list, const char *rule)
{
	must(policy_list_add(&p->list[list], rule, NULL) == 0);
}

/* Fill in the first request. The caller frees *packed. */
static void
make_seal(const struct setup *setup, Koda__Request *req, Koda__Seal *seal, uint8_t **packed)
{
	struct policy policy;
	struct koda_error err = { 0 };
	struct stat st;
	size_t len;

	policy_init(&policy);
	if (!setup->no_write)
		add(&policy, KODA_ALLOW_WRITE, world.root);
	else
		policy.list[KODA_ALLOW_WRITE].present = true;
	if (setup->deny_read != NULL)
		add(&policy, KODA_DENY_READ, setup->deny_read);
	if (setup->deny_write != NULL)
		add(&policy, KODA_DENY_WRITE_WITHIN_ALLOW, setup->deny_write);
	policy.limit[KODA_MAX_FILE_BYTES].set = setup->max_file > 0;
	policy.limit[KODA_MAX_FILE_BYTES].value = setup->max_file;
	if (policy_pack(&policy, packed, &len, &err) < 0)
		fail_msg("%s", err.message);
	policy_done(&policy);
	must(stat(world.root, &st) == 0);

	koda__seal__init(seal);
	koda__request__init(req);
	seal->protocol = setup->protocol != 0 ? setup->protocol : KODA_PROTOCOL_VERSION;
	seal->policy = (ProtobufCBinaryData){ len, *packed };
	seal->mode = setup->mode != 0 ? setup->mode : KODA__MODE__MODE_AUTO;
	seal->root = bytes(world.root);
	seal->root_dev = st.st_dev;
	seal->root_ino = st.st_ino + (setup->wrong_ino ? 1 : 0);
	seal->home = bytes("/nonexistent-home");
	seal->token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	req->op_case = KODA__REQUEST__OP_SEAL;
	req->seal = seal;
}

static const char *
program(const char *variant)
{
	return variant == NULL ? KODA_TEST_HELPER_DIR "/koda-fs-worker"
			       : in(KODA_TEST_VARIANT_DIR, variant);
}

/* Start a worker and seal it. */
static void
worker_open(struct worker *w, const struct setup *setup)
{
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;
	const Koda__Reply *rep;

	worker_start(w, setup->search ? KODA_TEST_SEARCH : program(setup->program));
	make_seal(setup, &req, &seal, &packed);
	rep = call(w, &req);
	if (rep->result_case == KODA__REPLY__RESULT_ERROR)
		fail_msg("seal: %.*s", (int)rep->error->message.len,
		    (const char *)rep->error->message.data);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_READY);
}

static const struct setup plain = { 0 };

#define REQUEST(w, case_, field, Type, type)                                                       \
	Koda__Request req = KODA__REQUEST__INIT;                                                   \
	Koda__##Type msg;                                                                          \
	koda__##type##__init(&msg);                                                                \
	req.op_case = KODA__REQUEST__OP_##case_;                                                   \
	req.field = &msg

static void
assert_error(const Koda__Reply *rep, Koda__ErrorCode code)
{
	if (rep->result_case != KODA__REPLY__RESULT_ERROR)
		fail_msg("answered with %d and not with an error", rep->result_case);
	if (rep->error->code != code)
		fail_msg("error %d instead of %d: %.*s", rep->error->code, code,
		    (int)rep->error->message.len, (const char *)rep->error->message.data);
}

static void
assert_errnum(const Koda__Reply *rep, int errnum)
{
	assert_error(rep, KODA__ERROR_CODE__IO);
	assert_int_equal(rep->error->errnum, errnum);
}

static void
assert_rule(const Koda__Reply *rep, const char *rule)
{
	assert_error(rep, KODA__ERROR_CODE__POLICY_DENIED);
	assert_true(rep->error->has_rule);
	if (rep->error->rule.len != strlen(rule) ||
	    memcmp(rep->error->rule.data, rule, strlen(rule)) != 0)
		fail_msg("rule %.*s instead of %s", (int)rep->error->rule.len,
		    (const char *)rep->error->rule.data, rule);
}

static const Koda__Outcome *
outcome_of(const Koda__Reply *rep)
{
	if (rep->result_case == KODA__REPLY__RESULT_ERROR)
		fail_msg("error %d: %.*s", rep->error->code, (int)rep->error->message.len,
		    (const char *)rep->error->message.data);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_OUTCOME);
	return rep->outcome;
}

static void
assert_bytes(ProtobufCBinaryData got, const char *want)
{
	if (got.len != strlen(want) || memcmp(got.data, want, got.len) != 0)
		fail_msg("'%.*s' instead of '%s'", (int)got.len, (const char *)got.data, want);
}

static const Koda__Reply *
do_write(struct worker *w, const char *path, const char *text)
{
	REQUEST(w, WRITE, write, Write, write);

	msg.path = bytes(path);
	msg.has_content = true;
	msg.content = bytes(text);
	return call(w, &req);
}

static const Koda__Reply *
do_read(struct worker *w, const char *path)
{
	REQUEST(w, READ, read, Read, read);

	msg.path = bytes(path);
	return call(w, &req);
}

static const Koda__Reply *
do_edit(struct worker *w, const char *path, const char *old, const char *new, bool all, bool dry)
{
	Koda__Replacement one = KODA__REPLACEMENT__INIT, *list[] = { &one };
	REQUEST(w, EDIT, edit, Edit, edit);

	one.old = bytes(old);
	one.new_ = bytes(new);
	one.has_all = one.all = all;
	msg.path = bytes(path);
	msg.n_replacement = 1;
	msg.replacement = list;
	msg.has_dry_run = msg.dry_run = dry;
	return call(w, &req);
}

static const Koda__Reply *
do_stat(struct worker *w, const char *path)
{
	REQUEST(w, STAT, stat, Stat, stat);

	msg.path = bytes(path);
	return call(w, &req);
}

static const Koda__Reply *
do_mkdir(struct worker *w, const char *path, bool parents)
{
	REQUEST(w, MKDIR, mkdir, Mkdir, mkdir);

	msg.path = bytes(path);
	msg.has_parents = msg.parents = parents;
	return call(w, &req);
}

static const Koda__Reply *
do_remove(struct worker *w, const char *path, bool recursive)
{
	REQUEST(w, REMOVE, remove, Remove, remove);

	msg.path = bytes(path);
	msg.has_recursive = msg.recursive = recursive;
	return call(w, &req);
}

static const Koda__Reply *
do_rename(struct worker *w, const char *from, const char *to, bool overwrite)
{
	REQUEST(w, RENAME, rename, Rename, rename);

	msg.from = bytes(from);
	msg.to = bytes(to);
	msg.has_overwrite = msg.overwrite = overwrite;
	return call(w, &req);
}

static const Koda__Reply *
do_list(struct worker *w, const char *path, const char *after)
{
	REQUEST(w, LIST, list, List, list);

	msg.path = bytes(path);
	msg.has_after = after != NULL;
	if (after != NULL)
		msg.after = bytes(after);
	return call(w, &req);
}

static const Koda__Reply *
do_ping(struct worker *w)
{
	REQUEST(w, PING, ping, Ping, ping);

	return call(w, &req);
}

/* ---- order ---- */

static void
test_seal(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;
	uint8_t digest[KODA_DIGEST_BYTES];
	const Koda__Reply *rep;

	worker_start(&w, program(NULL));
	make_seal(&plain, &req, &seal, &packed);
	rep = call(&w, &req);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_READY);
	assert_int_equal(rep->ready->protocol, KODA_PROTOCOL_VERSION);
	policy_digest(packed, seal.policy.len, digest);
	assert_int_equal(rep->ready->policy_digest.len, sizeof(digest));
	assert_memory_equal(rep->ready->policy_digest.data, digest, sizeof(digest));
	assert_true(rep->ready->enforcement->seccomp);
	assert_false(rep->ready->enforcement->mount_view);
}

static void
test_ping_before_seal(void **state)
{
	cleanup(worker_end) struct worker w;

	worker_start(&w, program(NULL));
	assert_error(do_ping(&w), KODA__ERROR_CODE__PROTOCOL);
	assert_null(next_reply(&w));
	assert_exits(&w, 1);
}

static void
test_seal_twice(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;

	worker_open(&w, &plain);
	make_seal(&plain, &req, &seal, &packed);
	assert_error(call(&w, &req), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
}

static void
test_other_protocol(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;
	const struct setup setup = { .protocol = KODA_PROTOCOL_VERSION + 1 };

	worker_start(&w, program(NULL));
	make_seal(&setup, &req, &seal, &packed);
	assert_error(call(&w, &req), KODA__ERROR_CODE__UNSUPPORTED);
	assert_exits(&w, 1);
}

static void
test_other_root(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;
	const struct setup setup = { .wrong_ino = true };

	worker_start(&w, program(NULL));
	make_seal(&setup, &req, &seal, &packed);
	assert_error(call(&w, &req), KODA__ERROR_CODE__INVALID);
	assert_exits(&w, 1);
}

static void
test_root_is_link(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Seal seal;
	cleanup_free uint8_t *packed = NULL;
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "%s/link", world.base);
	must(symlink(world.root, link) == 0);
	worker_start(&w, program(NULL));
	make_seal(&plain, &req, &seal, &packed);
	seal.root = bytes(link);
	assert_error(call(&w, &req), KODA__ERROR_CODE__INVALID);
	assert_exits(&w, 1);
}

static void
test_pipelined(void **state)
{
	enum { N = 200 };
	cleanup(worker_end) struct worker w;
	struct koda_error err = { 0 };
	uint64_t first;

	worker_open(&w, &plain);
	first = w.id;
	for (unsigned i = 0; i < N; i++) {
		REQUEST(&w, PING, ping, Ping, ping);

		req.id = w.id++;
		must(message_queue(&w.fs, &req.base, &err) > 0);
	}
	must(frame_flush(&w.fs, true, &err) == 1);
	for (unsigned i = 0; i < N; i++) {
		const Koda__Reply *rep = next_reply(&w);

		assert_non_null(rep);
		assert_int_equal(rep->id, first + i);
		assert_int_equal(rep->result_case, KODA__REPLY__RESULT_PONG);
	}
}

static void
test_shutdown(void **state)
{
	cleanup(worker_end) struct worker w;
	REQUEST(&w, SHUTDOWN, shutdown, Shutdown, shutdown);

	worker_open(&w, &plain);
	assert_int_equal(call(&w, &req)->result_case, KODA__REPLY__RESULT_DONE);
	assert_null(next_reply(&w));
	assert_exits(&w, 0);
}

static void
test_end_of_stream(void **state)
{
	cleanup(worker_end) struct worker w;

	worker_open(&w, &plain);
	must(shutdown(w.fs.fd, SHUT_WR) == 0);
	assert_null(next_reply(&w));
	assert_exits(&w, 0);
}

static void
test_end_within_frame(void **state)
{
	cleanup(worker_end) struct worker w;

	worker_open(&w, &plain);
	must(send(w.fs.fd, "\0\0\0\x10half", 8, MSG_NOSIGNAL) == 8);
	must(shutdown(w.fs.fd, SHUT_WR) == 0);
	while (next_reply(&w) != NULL)
		;
	assert_exits(&w, 1);
}

/* Raw bytes that a correct host never sends: after each the worker reports the reason and exits. */
/* clang-format off */
static const struct {
	const char *label, *data;
	size_t len;
} broken[] = {
	{ "length zero",                 "\0\0\0\0",                             4 },
	{ "length above the limit",      "\0\x10\0\x01",                         4 },
	{ "length of 4 GiB",             "\xff\xff\xff\xff",                     4 },
	{ "not protobuf",                "\0\0\0\x03\xff\xff\xff",               7 },
	{ "unknown operation",           "\0\0\0\x05\x08\x09\xfa\x01\0",         9 },
	{ "no operation",                "\0\0\0\x02\x08\x09",                   6 },
	{ "id zero",                     "\0\0\0\x04\x08\0\x1a\0",               8 },
	{ "no id",                       "\0\0\0\x02\x1a\0",                     6 },
	{ "id twice",                    "\0\0\0\x06\x08\x09\x08\x09\x1a\0",     10 },
	{ "two operations",              "\0\0\0\x06\x08\x09\x1a\0\x22\0",       10 },
	{ "unknown field in ping",       "\0\0\0\x06\x08\x09\x1a\x02\x08\x01",   10 },
	{ "read without a path",         "\0\0\0\x04\x08\x09\x2a\0",             8 },
	{ "NUL in a path",               "\0\0\0\x09\x08\x09\x2a\x05\x0a\x03" "a\0b", 13 },
	{ "write with no content",       "\0\0\0\x07\x08\x09\x32\x03\x0a\x01" "a",    11 },
	{ "explain of no access",        "\0\0\0\x09\x08\x09\x6a\x05\x0a\x01" "a\x10\x09", 13 },
};
/* clang-format on */

static void
test_broken(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;

	world_make(NULL);
	worker_open(&w, &plain);
	must(send(w.fs.fd, broken[i].data, broken[i].len, MSG_NOSIGNAL) == (ssize_t)broken[i].len);
	rep = next_reply(&w);
	assert_non_null(rep);
	assert_error(rep, KODA__ERROR_CODE__PROTOCOL);
	assert_null(next_reply(&w));
	assert_exits(&w, 1);
	world_remove(NULL);
}

static void
send_with_fd(struct worker *w, Koda__Request *req, int fd)
{
	struct koda_error err = { 0 };
	ssize_t n;

	if (req->id == 0)
		req->id = w->id++;
	n = message_queue(&w->fs, &req->base, &err);
	must(n > 0);
	if (frame_flush_with_fd(&w->fs, (size_t)n, fd, -1, &err) < 0)
		fail_msg("%s", err.message);
}

static void
test_unexpected_descriptor(void **state)
{
	cleanup(worker_end) struct worker w;
	REQUEST(&w, PING, ping, Ping, ping);
	const Koda__Reply *rep;

	worker_open(&w, &plain);
	send_with_fd(&w, &req, 0);
	rep = next_reply(&w);
	if (rep != NULL && rep->result_case == KODA__REPLY__RESULT_PONG)
		rep = next_reply(&w);
	assert_non_null(rep);
	assert_error(rep, KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
}

/* ---- the record ---- */

static int
make_record(off_t size, int seals)
{
	int fd = memfd_create("record", MFD_ALLOW_SEALING);

	must(fd >= 0 && ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static void
test_record(void **state)
{
	cleanup(worker_end) struct worker w;
	cleanup_close int fd = make_record(RECORD_BYTES, F_SEAL_GROW | F_SEAL_SHRINK);
	struct record *record = mmap(NULL, RECORD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUEST(&w, RECORD, record, Record, record);
	Koda__Reply *left;
	size_t len;

	must(record != MAP_FAILED);
	worker_open(&w, &plain);
	send_with_fd(&w, &req, fd);
	assert_int_equal(final_reply(&w, req.id)->result_case, KODA__REPLY__RESULT_DONE);
	/* Replies before the final one are in the record, and not on the socket. */
	assert_int_equal(do_mkdir(&w, "fresh", false)->result_case, KODA__REPLY__RESULT_OUTCOME);
	assert_false(w.prepared);
	assert_true(record->used > 4);
	len = (size_t)record->frames[2] << 8 | record->frames[3];
	assert_true(record->used > len + 4); /* and the final reply, until it is sent */
	left = koda__reply__unpack(NULL, len, record->frames + 4);
	assert_non_null(left);
	assert_int_equal(left->result_case, KODA__REPLY__RESULT_PREPARED);
	koda__reply__free_unpacked(left, NULL);
	/* The next change starts the record again. */
	assert_int_equal(do_remove(&w, "fresh", false)->result_case, KODA__REPLY__RESULT_OUTCOME);
	assert_false(w.committed);
	left = koda__reply__unpack(NULL, (size_t)record->frames[2] << 8 | record->frames[3],
	    record->frames + 4);
	assert_non_null(left);
	assert_true(left->prepared->place.len > 6);
	assert_memory_equal(left->prepared->place.data + left->prepared->place.len - 6, "/fresh",
	    6);
	koda__reply__free_unpacked(left, NULL);
	/* A worker takes one record in its life. */
	req.id = 0;
	send_with_fd(&w, &req, fd);
	assert_error(next_reply(&w), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
	munmap(record, RECORD_BYTES);
}

static void
test_no_record(void **state)
{
	static const struct {
		off_t size;
		int seals;
	} odd[] = {
		{ RECORD_BYTES, F_SEAL_GROW },
		{ RECORD_BYTES, F_SEAL_SHRINK },
		{ 4096, F_SEAL_GROW | F_SEAL_SHRINK },
	};

	for (size_t i = 0; i < N_ELEMENTS(odd); i++) {
		cleanup(worker_end) struct worker w;
		cleanup_close int fd = make_record(odd[i].size, odd[i].seals);
		REQUEST(&w, RECORD, record, Record, record);

		worker_open(&w, &plain);
		send_with_fd(&w, &req, fd);
		assert_error(next_reply(&w), KODA__ERROR_CODE__PROTOCOL);
		assert_exits(&w, 1);
	}
}

static void
test_missing_descriptor(void **state)
{
	cleanup(worker_end) struct worker w;
	REQUEST(&w, WRITE, write, Write, write);

	worker_open(&w, &plain);
	msg.path = bytes("a");
	msg.has_descriptor = msg.descriptor = true;
	assert_error(call(&w, &req), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
}

/* A process forked from the host keeps the other end open, so the worker never sees an end of
 * stream. It must end all the same. */
static void
test_host_gone(void **state)
{
	int sv[2], up[2], status;
	pid_t host, worker;
	struct pollfd pfd;
	char c;

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	must(pipe(up) == 0);
	host = fork();
	must(host >= 0);
	if (host == 0) {
		worker = fork();
		if (worker == 0) {
			dup2(sv[1], 3);
			/* The worker holds the pipe open until it ends. */
			fcntl(up[1], F_DUPFD, 2);
			dup2(up[1], 2);
			execl(program(NULL), program(NULL), (char *)NULL);
			_exit(127);
		}
		_exit(worker > 0 ? 0 : 1);
	}
	close(up[1]);
	close(sv[1]);
	must(waitpid(host, &status, 0) == host && status == 0);
	pfd = (struct pollfd){ .fd = up[0], .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	assert_int_equal(read(up[0], &c, 1), 0);
	close(up[0]);
	close(sv[0]);
}

/* ---- write ---- */

static void
test_write_creates(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Outcome *out;
	struct stat st;
	bool temp;

	worker_open(&w, &plain);
	out = outcome_of(do_write(&w, "a.txt", "hello"));
	assert_true(out->created);
	assert_int_equal(out->size, 5);
	assert_false(out->has_size_before);
	assert_false(out->has_type);
	assert_bytes(out->path, R("a.txt"));
	assert_true(w.prepared);
	assert_text(R("a.txt"), "hello");
	must(stat(R("a.txt"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(names_in(world.root, &temp), 1);
}

static void
test_write_prepared(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Prepared *p;
	struct stat st;

	worker_open(&w, &plain);
	outcome_of(do_write(&w, "a", "1"));
	p = koda__prepared__unpack(NULL, w.milestone_len[0], w.milestone[0]);
	assert_non_null(p);
	must(stat(R("a"), &st) == 0);
	assert_int_equal(p->dev, st.st_dev);
	assert_int_equal(p->ino, st.st_ino);
	assert_bytes(p->place, R("a"));
	assert_bytes(p->temp, TEMP_OF_TOKEN "2");
	assert_int_equal(p->outcome->size, 1);
	koda__prepared__free_unpacked(p, NULL);
}

static void
test_write_replaces(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Outcome *out;
	struct stat before, after;
	char value[8] = "";

	put_text(R("a"), "old text");
	must(chmod(R("a"), 0751) == 0);
	must(setxattr(R("a"), "user.koda", "kept", 4, 0) == 0 || errno == EOPNOTSUPP);
	must(link(R("a"), R("other")) == 0);
	must(stat(R("a"), &before) == 0);
	worker_open(&w, &plain);
	out = outcome_of(do_write(&w, R("a"), "new"));
	assert_false(out->created);
	assert_int_equal(out->size_before, 8);
	assert_int_equal(out->type, KODA__FILE_TYPE__FILE_REGULAR);
	assert_text(R("a"), "new");
	/* The file was replaced, not written to: its other name keeps the old content. */
	assert_text(R("other"), "old text");
	must(stat(R("a"), &after) == 0);
	assert_int_equal(after.st_mode & 07777, 0751);
	assert_int_not_equal(after.st_ino, before.st_ino);
	if (getxattr(R("other"), "user.koda", value, sizeof(value)) == 4) {
		memset(value, 0, sizeof(value));
		assert_int_equal(getxattr(R("a"), "user.koda", value, sizeof(value)), 4);
		assert_string_equal(value, "kept");
	}
}

static void
test_write_missing_directories(void **state)
{
	cleanup(worker_end) struct worker w;
	struct stat st;

	worker_open(&w, &plain);
	outcome_of(do_write(&w, "d/e/f/a", "deep"));
	assert_text(R("d/e/f/a"), "deep");
	must(stat(R("d/e"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	must(stat(R("d/e/f/a"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_no_temp(world.root);
}

static void
test_write_by_descriptor(void **state)
{
	enum { SIZE = 5 << 20 };
	cleanup(worker_end) struct worker w;
	cleanup_close int fd = memfd_create("content", MFD_ALLOW_SEALING);
	cleanup_close int result = -1;
	REQUEST(&w, WRITE, write, Write, write);
	uint8_t *data = malloc(SIZE + 3), *got = malloc(SIZE + 3);
	const Koda__Outcome *out;
	uint8_t digest[KODA_DIGEST_BYTES];

	must(data != NULL && got != NULL && fd >= 0);
	for (size_t i = 0; i < SIZE + 3; i++)
		data[i] = (uint8_t)(i * 7 + i / 4096);
	must(write(fd, data, SIZE + 3) == SIZE + 3);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	worker_open(&w, &plain);
	msg.path = bytes("big");
	msg.has_descriptor = msg.descriptor = true;
	msg.has_digest = msg.digest = true;
	send_with_fd(&w, &req, fd);
	out = outcome_of(final_reply(&w, req.id));
	assert_int_equal(out->size, SIZE + 3);
	crypto_generichash(digest, sizeof(digest), data, SIZE + 3, NULL, 0);
	assert_memory_equal(out->digest.data, digest, sizeof(digest));
	result = open(R("big"), O_RDONLY);
	must(result >= 0 && read(result, got, SIZE + 3) == SIZE + 3);
	assert_memory_equal(got, data, SIZE + 3);
	free(data);
	free(got);
}

static void
test_write_unsealed_descriptor(void **state)
{
	cleanup(worker_end) struct worker w;
	cleanup_close int fd = memfd_create("content", MFD_ALLOW_SEALING);
	REQUEST(&w, WRITE, write, Write, write);

	must(fd >= 0 && write(fd, "x", 1) == 1);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	worker_open(&w, &plain);
	msg.path = bytes("a");
	msg.has_descriptor = msg.descriptor = true;
	send_with_fd(&w, &req, fd);
	assert_error(final_reply(&w, req.id), KODA__ERROR_CODE__INVALID);
	assert_false(exists(R("a")));
	assert_int_equal(do_ping(&w)->result_case, KODA__REPLY__RESULT_PONG);
}

static void
test_write_through_link(void **state)
{
	cleanup(worker_end) struct worker w;

	must(mkdir(R("d"), 0755) == 0 && symlink("d/real", R("l")) == 0);
	put_text(R("d/real"), "old");
	worker_open(&w, &plain);
	assert_bytes(outcome_of(do_write(&w, "l", "new"))->path, R("d/real"));
	assert_text(R("d/real"), "new");
	must(symlink("d/gone", R("dangling")) == 0);
	outcome_of(do_write(&w, "dangling", "made"));
	assert_text(R("d/gone"), "made");
}

static void
test_write_outside(void **state)
{
	cleanup(worker_end) struct worker w;
	bool temp;

	must(symlink(world.out, R("l")) == 0 && symlink(O("new"), R("m")) == 0);
	worker_open(&w, &plain);
	assert_rule(do_write(&w, O("x"), "no"), "allow_write");
	assert_rule(do_write(&w, "l/x", "no"), "allow_write");
	assert_rule(do_write(&w, "m", "no"), "allow_write");
	assert_rule(do_write(&w, "l/d/e/x", "no"), "allow_write");
	assert_error(do_write(&w, "../out/x", "no"), KODA__ERROR_CODE__INVALID);
	assert_int_equal(names_in(world.out, &temp), 0);
}

static void
test_write_refused_kinds(void **state)
{
	cleanup(worker_end) struct worker w;
	struct stat st;

	must(mkdir(R("d"), 0755) == 0 && mkfifo(R("fifo"), 0644) == 0);
	put_text(R("ro"), "keep");
	put_text(R("f"), "file");
	must(chmod(R("ro"), 0444) == 0);
	worker_open(&w, &plain);
	assert_errnum(do_write(&w, "d", "x"), EISDIR);
	assert_errnum(do_write(&w, ".", "x"), EISDIR);
	assert_errnum(do_write(&w, "fifo", "x"), 0);
	assert_errnum(do_write(&w, "f/x", "x"), ENOTDIR);
	assert_error(do_write(&w, "d/new/", "x"), KODA__ERROR_CODE__INVALID);
	assert_error(do_write(&w, "", "x"), KODA__ERROR_CODE__INVALID);
	if (geteuid() != 0)
		assert_errnum(do_write(&w, "ro", "x"), EACCES);
	must(lstat(R("fifo"), &st) == 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_no_temp(world.root);
}

static void
test_write_too_large(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct setup setup = { .max_file = 4 };

	put_text(R("a"), "old");
	worker_open(&w, &setup);
	assert_error(do_write(&w, "a", "12345"), KODA__ERROR_CODE__TOO_LARGE);
	assert_text(R("a"), "old");
	outcome_of(do_write(&w, "a", "1234"));
	assert_text(R("a"), "1234");
}

static void
test_write_guards(void **state)
{
	cleanup(worker_end) struct worker w;
	uint8_t digest[KODA_DIGEST_BYTES];
	Koda__Guard guard = KODA__GUARD__INIT;
	REQUEST(&w, WRITE, write, Write, write);

	put_text(R("a"), "old");
	worker_open(&w, &plain);
	crypto_generichash(digest, sizeof(digest), (const uint8_t *)"old", 3, NULL, 0);
	msg.path = bytes("a");
	msg.has_content = true;
	msg.content = bytes("one");
	msg.guard = &guard;

	guard.has_absent = guard.absent = true;
	assert_error(call(&w, &req), KODA__ERROR_CODE__CONFLICT);
	assert_text(R("a"), "old");

	guard.has_absent = false;
	guard.has_digest = true;
	guard.digest = (ProtobufCBinaryData){ sizeof(digest), digest };
	guard.has_path = true;
	guard.path = bytes(O("a"));
	req.id = 0;
	assert_error(call(&w, &req), KODA__ERROR_CODE__CONFLICT);
	guard.path = bytes(R("a"));
	req.id = 0;
	outcome_of(call(&w, &req));
	assert_text(R("a"), "one");

	/* The same digest again: the content has changed since. */
	req.id = 0;
	assert_error(call(&w, &req), KODA__ERROR_CODE__CONFLICT);
	/* A missing file has no such digest either. */
	msg.path = bytes("b");
	guard.has_path = false;
	req.id = 0;
	assert_error(call(&w, &req), KODA__ERROR_CODE__CONFLICT);
	assert_false(exists(R("b")));
	guard.has_digest = false;
	guard.has_absent = guard.absent = true;
	req.id = 0;
	outcome_of(call(&w, &req));
	assert_text(R("b"), "one");
	assert_no_temp(world.root);
}

static void
test_dry_runs(void **state)
{
	cleanup(worker_end) struct worker w;
	bool temp;
	const Koda__Outcome *out;

	put_text(R("a"), "one\ntwo\n");
	must(mkdir(R("d"), 0755) == 0);
	put_text(R("d/x"), "x");
	worker_open(&w, &plain);
	{
		REQUEST(&w, WRITE, write, Write, write);

		msg.path = bytes("new/deep");
		msg.has_content = true;
		msg.content = bytes("text");
		msg.has_dry_run = msg.dry_run = true;
		out = outcome_of(call(&w, &req));
		assert_true(out->created);
		assert_int_equal(out->size, 4);
		assert_false(w.prepared);
	}
	out = outcome_of(do_edit(&w, "a", "two", "2", false, true));
	assert_int_equal(out->n_line, 1);
	assert_int_equal(out->line[0], 2);
	assert_int_equal(out->size, 6);
	{
		REQUEST(&w, REMOVE, remove, Remove, remove);

		msg.path = bytes("d");
		msg.has_recursive = msg.recursive = true;
		msg.has_dry_run = msg.dry_run = true;
		assert_int_equal(outcome_of(call(&w, &req))->entries, 2);
	}
	{
		REQUEST(&w, MKDIR, mkdir, Mkdir, mkdir);

		msg.path = bytes("m");
		msg.has_dry_run = msg.dry_run = true;
		assert_true(outcome_of(call(&w, &req))->created);
	}
	{
		REQUEST(&w, RENAME, rename, Rename, rename);

		msg.from = bytes("a");
		msg.to = bytes("b");
		msg.has_dry_run = msg.dry_run = true;
		assert_bytes(outcome_of(call(&w, &req))->to, R("b"));
	}
	assert_int_equal(names_in(world.root, &temp), 2);
	assert_text(R("a"), "one\ntwo\n");
	assert_text(R("d/x"), "x");
}

/* This is what a full disk looks like to a worker: the kernel takes only a part of the data. */
static void
test_write_fails_halfway(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct rlimit limit = { 4096, 4096 };
	char *text = malloc((32 << 10) + 1);

	must(text != NULL);
	memset(text, 'x', 32 << 10);
	text[32 << 10] = '\0';
	put_text(R("a"), "old");
	worker_open(&w, &plain);
	must(prlimit(w.pid, RLIMIT_FSIZE, &limit, NULL) == 0);
	assert_errnum(do_write(&w, "a", text), EFBIG);
	assert_text(R("a"), "old");
	assert_errnum(do_write(&w, "d/e/new", text), EFBIG);
	assert_false(exists(R("d")));
	assert_no_temp(world.root);
	assert_int_equal(do_ping(&w)->result_case, KODA__REPLY__RESULT_PONG);
	free(text);
}

/* ---- edit ---- */

static void
test_edit(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Outcome *out;
	uint8_t before[KODA_DIGEST_BYTES], after[KODA_DIGEST_BYTES];

	put_text(R("a"), "one two one");
	must(chmod(R("a"), 0600) == 0);
	worker_open(&w, &plain);
	crypto_generichash(before, sizeof(before), (const uint8_t *)"one two one", 11, NULL, 0);
	crypto_generichash(after, sizeof(after), (const uint8_t *)"one 2 one", 9, NULL, 0);
	out = outcome_of(do_edit(&w, "a", "two", "2", false, false));
	assert_true(w.prepared);
	assert_int_equal(out->replacements, 1);
	assert_int_equal(out->size_before, 11);
	assert_int_equal(out->size, 9);
	assert_memory_equal(out->digest_before.data, before, sizeof(before));
	assert_memory_equal(out->digest.data, after, sizeof(after));
	assert_int_equal(out->n_line, 0);
	assert_text(R("a"), "one 2 one");
	assert_int_equal(outcome_of(do_edit(&w, "a", "one", "1", true, false))->replacements, 2);
	assert_text(R("a"), "1 2 1");
	outcome_of(do_edit(&w, "a", "1 2 1", "", false, false));
	assert_text(R("a"), "");
	assert_no_temp(world.root);
}

static void
test_edit_in_order(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Replacement a = KODA__REPLACEMENT__INIT, b = KODA__REPLACEMENT__INIT,
			  *list[] = { &a, &b };
	REQUEST(&w, EDIT, edit, Edit, edit);

	put_text(R("a"), "x\ny\nz\n");
	worker_open(&w, &plain);
	a.old = bytes("y");
	a.new_ = bytes("p\nq");
	b.old = bytes("q");
	b.new_ = bytes("r");
	msg.path = bytes("a");
	msg.n_replacement = 2;
	msg.replacement = list;
	msg.has_dry_run = msg.dry_run = true;
	outcome_of(call(&w, &req));
	assert_int_equal(w.reply->outcome->n_line, 2);
	assert_int_equal(w.reply->outcome->line[0], 2);
	assert_int_equal(w.reply->outcome->line[1], 3);
	msg.dry_run = false;
	req.id = 0;
	outcome_of(call(&w, &req));
	assert_text(R("a"), "x\np\nr\nz\n");
	/* The second replacement does not apply, so the first is not made either. */
	a.old = bytes("x");
	a.new_ = bytes("X");
	b.old = bytes("gone");
	req.id = 0;
	assert_error(call(&w, &req), KODA__ERROR_CODE__CONFLICT);
	assert_text(R("a"), "x\np\nr\nz\n");
}

static void
test_edit_refused(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;

	put_text(R("a"), "aaa b b");
	must(mkdir(R("d"), 0755) == 0);
	worker_open(&w, &plain);
	rep = do_edit(&w, "a", "x", "y", false, false);
	assert_error(rep, KODA__ERROR_CODE__CONFLICT);
	assert_non_null(memmem(rep->error->message.data, rep->error->message.len, "0 times", 7));
	rep = do_edit(&w, "a", "b", "y", false, false);
	assert_error(rep, KODA__ERROR_CODE__CONFLICT);
	assert_non_null(memmem(rep->error->message.data, rep->error->message.len, "2 times", 7));
	/* Two matches that overlap count as two. */
	assert_error(do_edit(&w, "a", "aa", "y", false, false), KODA__ERROR_CODE__CONFLICT);
	assert_error(do_edit(&w, "a", "", "y", false, false), KODA__ERROR_CODE__INVALID);
	assert_error(do_edit(&w, "a", "b", "b", true, false), KODA__ERROR_CODE__INVALID);
	assert_errnum(do_edit(&w, "gone", "b", "c", true, false), ENOENT);
	assert_errnum(do_edit(&w, "d", "b", "c", true, false), EISDIR);
	assert_rule(do_edit(&w, O("x"), "b", "c", true, false), "allow_write");
	assert_text(R("a"), "aaa b b");
}

/* Two workers edit one file at once: no edit is lost, whichever comes first. */
static void
test_edit_by_two(void **state)
{
	enum { EACH = 100 };
	struct worker w[2];
	uint64_t last[2];
	char text[4 * 2 * EACH + 16] = "";

	for (unsigned i = 0; i < 2 * EACH; i++)
		sprintf(text + strlen(text), "%03u,", i);
	put_text(R("a"), text);
	for (unsigned k = 0; k < 2; k++)
		worker_open(&w[k], &plain);
	for (unsigned i = 0; i < EACH; i++)
		for (unsigned k = 0; k < 2; k++) {
			Koda__Replacement one = KODA__REPLACEMENT__INIT, *list[] = { &one };
			char old[8], new[8];
			REQUEST(&w[k], EDIT, edit, Edit, edit);

			sprintf(old, "%03u,", 2 * i + k);
			sprintf(new, "x%02u,", i % 100);
			one.old = bytes(old);
			one.new_ = bytes(new);
			msg.path = bytes("a");
			msg.n_replacement = 1;
			msg.replacement = list;
			send_request(&w[k], &req);
			last[k] = req.id;
		}
	for (unsigned k = 0; k < 2; k++) {
		for (uint64_t id = last[k] - EACH + 1; id <= last[k]; id++) {
			const Koda__Reply *rep = final_reply(&w[k], id);

			assert_non_null(rep);
			outcome_of(rep);
		}
		worker_end(&w[k]);
	}
	text[0] = '\0';
	for (unsigned i = 0; i < EACH; i++)
		sprintf(text + strlen(text), "x%02u,x%02u,", i % 100, i % 100);
	assert_text(R("a"), text);
}

/* ---- read, stat, list, explain ---- */

static void
test_read(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;
	REQUEST(&w, READ, read, Read, read);
	uint8_t digest[KODA_DIGEST_BYTES];

	put_text(R("a"), "0123456789");
	put_text(R("empty"), "");
	must(symlink("a", R("l")) == 0);
	worker_open(&w, &plain);
	rep = do_read(&w, "l");
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_READ);
	assert_bytes(rep->read->path, R("a"));
	assert_bytes(rep->read->content, "0123456789");
	assert_int_equal(rep->read->size, 10);
	msg.path = bytes("a");
	msg.has_offset = msg.has_max = msg.has_digest = msg.digest = true;
	msg.offset = 3;
	msg.max = 4;
	rep = call(&w, &req);
	assert_bytes(rep->read->content, "3456");
	assert_int_equal(rep->read->size, 10);
	crypto_generichash(digest, sizeof(digest), (const uint8_t *)"0123456789", 10, NULL, 0);
	assert_memory_equal(rep->read->digest.data, digest, sizeof(digest));
	msg.offset = 100;
	req.id = 0;
	rep = call(&w, &req);
	assert_int_equal(rep->read->content.len, 0);
	assert_int_equal(rep->read->size, 10);
	rep = do_read(&w, "empty");
	assert_true(rep->read->has_content);
	assert_int_equal(rep->read->content.len, 0);
	assert_int_equal(rep->read->size, 0);
}

static void
test_read_large(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;
	uint8_t *data = malloc(INLINE_MAX + 1), *got = malloc(INLINE_MAX + 1);

	must(data != NULL && got != NULL);
	for (size_t i = 0; i < INLINE_MAX + 1; i++)
		data[i] = (uint8_t)(i * 31 + i / 256);
	put_file(R("inline"), data, INLINE_MAX);
	put_file(R("fd"), data, INLINE_MAX + 1);
	worker_open(&w, &plain);
	rep = do_read(&w, "inline");
	assert_true(rep->read->has_content);
	assert_int_equal(rep->read->content.len, INLINE_MAX);
	assert_memory_equal(rep->read->content.data, data, INLINE_MAX);
	rep = do_read(&w, "fd");
	assert_false(rep->read->has_content);
	assert_true(rep->read->descriptor);
	assert_int_equal(rep->read->size, INLINE_MAX + 1);
	assert_int_equal(fcntl(w.fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
	assert_int_equal(pread(w.fd, got, INLINE_MAX + 1, 0), INLINE_MAX + 1);
	assert_memory_equal(got, data, INLINE_MAX + 1);
	/* The worker goes on after it has sent a descriptor. */
	assert_int_equal(do_ping(&w)->result_case, KODA__REPLY__RESULT_PONG);
	free(data);
	free(got);
}

static void
test_read_refused(void **state)
{
	cleanup(worker_end) struct worker w;
	struct setup setup = { .deny_read = O("secret") };
	char *secret = strdup(O("secret"));

	setup.deny_read = secret;
	must(mkdir(O("secret"), 0755) == 0 && mkfifo(R("fifo"), 0644) == 0);
	put_text(O("secret/key"), "key");
	put_text(O("open"), "open");
	must(symlink(O("secret"), R("l")) == 0);
	must(mknod(R("sock"), S_IFSOCK | 0600, 0) == 0);
	worker_open(&w, &setup);
	assert_bytes(do_read(&w, O("open"))->read->content, "open");
	assert_rule(do_read(&w, O("secret/key")), "deny_read");
	assert_rule(do_read(&w, "l/key"), "deny_read");
	/* Whether a hidden file exists, and its type, is secret too. */
	assert_rule(do_read(&w, O("secret/gone")), "deny_read");
	assert_rule(do_read(&w, "l/key/x"), "deny_read");
	assert_rule(do_stat(&w, O("secret/key")), "deny_read");
	assert_rule(do_list(&w, "l", NULL), "deny_read");
	assert_errnum(do_read(&w, "fifo"), 0);
	assert_errnum(do_read(&w, "sock"), 0);
	assert_errnum(do_read(&w, "/dev/zero"), 0);
	assert_errnum(do_read(&w, "."), EISDIR);
	assert_errnum(do_read(&w, "gone"), ENOENT);
	assert_error(do_read(&w, "/dev/fd/3"), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_read(&w, "/proc/self/root/etc/passwd"), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_read(&w, "/proc/1/environ"), KODA__ERROR_CODE__POLICY_DENIED);
	free(secret);
}

static void
test_stat(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;
	struct stat st;
	REQUEST(&w, STAT, stat, Stat, stat);

	put_text(R("a"), "text");
	must(chmod(R("a"), 0640) == 0 && symlink("a", R("l")) == 0);
	must(stat(R("a"), &st) == 0);
	worker_open(&w, &plain);
	msg.path = bytes("a");
	msg.has_digest = msg.digest = true;
	rep = call(&w, &req);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_STAT);
	assert_int_equal(rep->stat->type, KODA__FILE_TYPE__FILE_REGULAR);
	assert_int_equal(rep->stat->size, 4);
	assert_int_equal(rep->stat->mode, 0640);
	assert_int_equal(rep->stat->links, 1);
	assert_int_equal(rep->stat->mtime_ns,
	    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	assert_true(rep->stat->has_digest);
	msg.path = bytes("l");
	req.id = 0;
	rep = call(&w, &req);
	assert_int_equal(rep->stat->type, KODA__FILE_TYPE__FILE_SYMLINK);
	assert_bytes(rep->stat->target, "a");
	assert_bytes(rep->stat->path, R("l"));
	assert_false(rep->stat->has_digest);
	assert_errnum(do_stat(&w, "gone"), ENOENT);
}

static void
test_list(void **state)
{
	cleanup(worker_end) struct worker w;
	char *secret = strdup(R("secret"));
	const struct setup setup = { .deny_read = secret };
	const Koda__Reply *rep;

	put_text(R("b"), "four");
	put_text(R("B"), "");
	put_text(R("a\xff"), "");
	put_text(R("secret"), "x");
	must(mkdir(R("dir"), 0755) == 0 && symlink("b", R("l")) == 0 && mkfifo(R("p"), 0600) == 0);
	worker_open(&w, &setup);
	rep = do_list(&w, ".", NULL);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_LIST);
	assert_int_equal(rep->list->n_entry, 6);
	assert_int_equal(rep->list->hidden, 1);
	assert_false(rep->list->more);
	assert_bytes(rep->list->entry[0]->name, "B");
	assert_bytes(rep->list->entry[1]->name, "a\xff");
	assert_bytes(rep->list->entry[2]->name, "b");
	assert_int_equal(rep->list->entry[2]->size, 4);
	assert_int_equal(rep->list->entry[2]->type, KODA__FILE_TYPE__FILE_REGULAR);
	assert_int_equal(rep->list->entry[3]->type, KODA__FILE_TYPE__FILE_DIRECTORY);
	assert_int_equal(rep->list->entry[3]->size, 0);
	assert_int_equal(rep->list->entry[4]->type, KODA__FILE_TYPE__FILE_SYMLINK);
	assert_int_equal(rep->list->entry[5]->type, KODA__FILE_TYPE__FILE_OTHER);
	rep = do_list(&w, ".", "b");
	assert_int_equal(rep->list->n_entry, 3);
	assert_errnum(do_list(&w, "b", NULL), ENOTDIR);
	free(secret);
}

static void
test_list_pages(void **state)
{
	enum { N = 3000 };
	cleanup(worker_end) struct worker w;
	char after[NAME_MAX + 1] = "", name[NAME_MAX + 1];
	unsigned seen = 0, pages = 0;
	const Koda__Reply *rep;

	for (unsigned i = 0; i < N; i++) {
		memset(name, 'n', 250);
		sprintf(name + 240, "%06u", i);
		put_text(R(name), "");
	}
	worker_open(&w, &plain);
	do {
		rep = do_list(&w, "", NULL);
		assert_error(rep, KODA__ERROR_CODE__INVALID);
		rep = do_list(&w, ".", pages == 0 ? NULL : after);
		assert_int_equal(rep->result_case, KODA__REPLY__RESULT_LIST);
		for (size_t i = 0; i < rep->list->n_entry; i++) {
			ProtobufCBinaryData n = rep->list->entry[i]->name;

			snprintf(name, sizeof(name), "%.*s", (int)n.len, (const char *)n.data);
			assert_true(strcmp(after, name) < 0);
			strcpy(after, name);
			seen++;
		}
		pages++;
	} while (rep->list->more && pages < 10);
	assert_int_equal(seen, N);
	assert_true(pages > 1);
}

static void
test_explain(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;
	REQUEST(&w, EXPLAIN, explain, Explain, explain);

	must(symlink(world.out, R("l")) == 0);
	worker_open(&w, &plain);
	msg.path = bytes("l/x");
	msg.access = KODA__ACCESS__ACCESS_WRITE;
	rep = call(&w, &req);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_EXPLAINED);
	assert_false(rep->explained->allowed);
	assert_bytes(rep->explained->path, O("x"));
	assert_bytes(rep->explained->rule, "allow_write");
	assert_true(rep->explained->reason.len > 0);
	assert_int_equal(rep->explained->n_hop, 1);
	assert_bytes(rep->explained->hop[0], R("l"));
	msg.path = bytes("new/file");
	req.id = 0;
	assert_true(call(&w, &req)->explained->allowed);
	msg.access = KODA__ACCESS__ACCESS_READ;
	msg.path = bytes("l/x");
	req.id = 0;
	assert_true(call(&w, &req)->explained->allowed);
}

/* ---- mkdir, remove, rename ---- */

static void
test_mkdir(void **state)
{
	cleanup(worker_end) struct worker w;
	struct stat st;

	put_text(R("f"), "");
	must(symlink("d", R("l")) == 0);
	worker_open(&w, &plain);
	assert_true(outcome_of(do_mkdir(&w, "d/", false))->created);
	assert_true(w.prepared);
	must(stat(R("d"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_error(do_mkdir(&w, "d", false), KODA__ERROR_CODE__CONFLICT);
	assert_false(outcome_of(do_mkdir(&w, "d", true))->created);
	assert_error(do_mkdir(&w, "f", true), KODA__ERROR_CODE__CONFLICT);
	assert_error(do_mkdir(&w, "l", true), KODA__ERROR_CODE__CONFLICT);
	assert_errnum(do_mkdir(&w, "x/y/z", false), ENOENT);
	assert_true(outcome_of(do_mkdir(&w, "x/y/z", true))->created);
	must(stat(R("x/y/z"), &st) == 0 && S_ISDIR(st.st_mode));
	assert_rule(do_mkdir(&w, O("d"), false), "allow_write");
	assert_no_temp(world.root);
}

static void
test_remove(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Outcome *out;

	put_text(R("f"), "text");
	put_text(O("keep"), "keep");
	must(
	    mkdir(R("d"), 0755) == 0 && mkdir(R("d/e"), 0755) == 0 && mkdir(R("empty"), 0755) == 0);
	put_text(R("d/e/x"), "x");
	must(symlink(world.out, R("d/e/l")) == 0 && symlink(world.out, R("l")) == 0);
	must(mkfifo(R("p"), 0600) == 0);
	worker_open(&w, &plain);
	out = outcome_of(do_remove(&w, "f", false));
	assert_true(w.prepared && w.committed);
	assert_int_equal(out->entries, 1);
	assert_int_equal(out->size_before, 4);
	assert_false(exists(R("f")));
	assert_errnum(do_remove(&w, "f", false), ENOENT);
	outcome_of(do_remove(&w, "l", true));
	assert_false(exists(R("l")));
	assert_errnum(do_remove(&w, "d", false), ENOTEMPTY);
	assert_errnum(do_remove(&w, "p", false), 0);
	outcome_of(do_remove(&w, "empty", false));
	assert_false(exists(R("empty")));
	out = outcome_of(do_remove(&w, "d", true));
	assert_int_equal(out->entries, 4);
	assert_int_equal(out->type, KODA__FILE_TYPE__FILE_DIRECTORY);
	assert_false(exists(R("d")));
	assert_text(O("keep"), "keep");
	assert_error(do_remove(&w, ".", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_remove(&w, world.base, true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_rule(do_remove(&w, O("keep"), false), "allow_write");
	assert_no_temp(world.root);
}

static void
test_protected_below(void **state)
{
	cleanup(worker_end) struct worker w;
	char *denied = strdup(R("r/sub/no"));
	const struct setup setup = { .deny_write = denied };

	must(mkdir(R("g"), 0755) == 0 && mkdir(R("g/.git"), 0755) == 0);
	must(mkdir(R("k"), 0755) == 0 && mkdir(R("k/.koda"), 0755) == 0 &&
	    mkdir(R("k/.koda/agents"), 0755) == 0);
	must(mkdir(R("bare"), 0755) == 0 && mkdir(R("bare/objects"), 0755) == 0 &&
	    mkdir(R("bare/refs"), 0755) == 0);
	put_text(R("bare/HEAD"), "ref: refs/heads/x\n");
	must(mkdir(R("w"), 0755) == 0 && rename(R("bare"), R("w/bare")) == 0);
	must(mkdir(R("r"), 0755) == 0 && mkdir(R("r/sub"), 0755) == 0);
	put_text(R("r/sub/no"), "x");
	worker_open(&w, &setup);
	assert_error(do_remove(&w, "g", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_rename(&w, "g", "h", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_remove(&w, "k", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_rename(&w, "w", "v", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_remove(&w, "w", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_remove(&w, "r", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_rename(&w, "r", "s", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_true(exists(R("g/.git")) && exists(R("k/.koda/agents")) && exists(R("w/bare/HEAD")));
	assert_text(R("r/sub/no"), "x");
	free(denied);
}

/* A removal that could be done only in part is not begun. */
static void
test_remove_unwritable(void **state)
{
	cleanup(worker_end) struct worker w;

	must(mkdir(R("d"), 0755) == 0 && mkdir(R("d/ro"), 0755) == 0);
	put_text(R("d/a"), "a");
	put_text(R("d/ro/b"), "b");
	must(chmod(R("d/ro"), 0555) == 0);
	worker_open(&w, &plain);
	if (geteuid() == 0)
		return; /* root writes to any directory */
	assert_errnum(do_remove(&w, "d", true), EACCES);
	assert_false(w.prepared);
	assert_text(R("d/a"), "a");
	assert_text(R("d/ro/b"), "b");
}

static void
test_rename(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Outcome *out;

	put_text(R("a"), "a");
	put_text(R("b"), "b");
	must(mkdir(R("d"), 0755) == 0 && mkdir(R("d/e"), 0755) == 0 && mkdir(R("t"), 0755) == 0);
	must(symlink("a", R("l")) == 0);
	worker_open(&w, &plain);
	assert_error(do_rename(&w, "a", "b", false), KODA__ERROR_CODE__CONFLICT);
	assert_text(R("b"), "b");
	out = outcome_of(do_rename(&w, "a", "t/c", false));
	assert_true(w.prepared);
	assert_bytes(out->path, R("a"));
	assert_bytes(out->to, R("t/c"));
	assert_text(R("t/c"), "a");
	assert_false(exists(R("a")));
	outcome_of(do_rename(&w, "t/c", "b", true));
	assert_text(R("b"), "a");
	outcome_of(do_rename(&w, "d", "t/moved", false));
	assert_true(exists(R("t/moved/e")));
	outcome_of(do_rename(&w, "l", "m", false));
	assert_true(exists(R("m")));
	assert_errnum(do_rename(&w, "gone", "x", false), ENOENT);
	assert_errnum(do_rename(&w, "b", "no/such/x", false), ENOENT);
	assert_errnum(do_rename(&w, "b", "new/", false), ENOTDIR);
	assert_errnum(do_rename(&w, "t", "t/moved/in", false), EINVAL);
	assert_rule(do_rename(&w, "b", O("x"), false), "allow_write");
	assert_error(do_rename(&w, ".", "x", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_text(R("b"), "a");
}

static void
test_plan_changes_nothing(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct setup setup = { .mode = KODA__MODE__MODE_PLAN, .no_write = true };
	bool temp;

	put_text(R("a"), "a");
	worker_open(&w, &setup);
	assert_bytes(do_read(&w, "a")->read->content, "a");
	assert_error(do_write(&w, "a", "b"), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_edit(&w, "a", "a", "b", false, false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_mkdir(&w, "d", true), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_remove(&w, "a", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_error(do_rename(&w, "a", "b", false), KODA__ERROR_CODE__POLICY_DENIED);
	assert_int_equal(names_in(world.root, &temp), 1);
	assert_text(R("a"), "a");
}

static void
test_durable(void **state)
{
	cleanup(worker_end) struct worker w;

	worker_open(&w, &plain);
	{
		REQUEST(&w, WRITE, write, Write, write);

		msg.path = bytes("d/e/f");
		msg.has_content = true;
		msg.content = bytes("text");
		msg.has_durable = msg.durable = true;
		outcome_of(call(&w, &req));
	}
	assert_text(R("d/e/f"), "text");
	{
		REQUEST(&w, RENAME, rename, Rename, rename);

		msg.from = bytes("d/e/f");
		msg.to = bytes("g");
		msg.has_durable = msg.durable = true;
		outcome_of(call(&w, &req));
	}
	{
		REQUEST(&w, REMOVE, remove, Remove, remove);

		msg.path = bytes("d");
		msg.has_recursive = msg.recursive = msg.has_durable = msg.durable = true;
		outcome_of(call(&w, &req));
	}
	assert_text(R("g"), "text");
	assert_false(exists(R("d")));
}

/* ---- death and recovery ---- */

enum step {
	STEP_NONE,
	STEP_WRITE,
	STEP_WRITE_DEEP,
	STEP_EDIT,
	STEP_MKDIR,
	STEP_REMOVE,
	STEP_REMOVE_TREE,
	STEP_REMOVE_DIR,
	STEP_RENAME
};

static const struct {
	const char *label;
	unsigned stop; /* the pause point at which the worker is killed */
	enum step step;
	Koda__Happened want;
} deaths[] = {
	{ "write, empty temporary file", 1, STEP_WRITE, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "write, before Prepared", 2, STEP_WRITE, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "write, Prepared", 3, STEP_WRITE, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "write, renamed", 4, STEP_WRITE, KODA__HAPPENED__HAPPENED },
	{ "deep write, empty directory", 1, STEP_WRITE_DEEP, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "deep write, before Prepared", 2, STEP_WRITE_DEEP, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "deep write, Prepared", 3, STEP_WRITE_DEEP, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "deep write, renamed", 4, STEP_WRITE_DEEP, KODA__HAPPENED__HAPPENED },
	{ "edit, Prepared", 3, STEP_EDIT, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "edit, renamed", 4, STEP_EDIT, KODA__HAPPENED__HAPPENED },
	{ "mkdir, before Prepared", 2, STEP_MKDIR, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "mkdir, Prepared", 3, STEP_MKDIR, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "mkdir, renamed", 4, STEP_MKDIR, KODA__HAPPENED__HAPPENED },
	{ "remove, Prepared", 3, STEP_REMOVE, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "remove, renamed", 4, STEP_REMOVE, KODA__HAPPENED__HAPPENED },
	{ "remove, Committed", 5, STEP_REMOVE, KODA__HAPPENED__HAPPENED },
	{ "remove a tree, Prepared", 3, STEP_REMOVE_TREE, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "remove a tree, renamed", 4, STEP_REMOVE_TREE, KODA__HAPPENED__HAPPENED },
	{ "remove a tree, Committed", 5, STEP_REMOVE_TREE, KODA__HAPPENED__HAPPENED },
	{ "remove an empty directory, renamed", 4, STEP_REMOVE_DIR, KODA__HAPPENED__HAPPENED },
	{ "rename, Prepared", 3, STEP_RENAME, KODA__HAPPENED__DID_NOT_HAPPEN },
	{ "rename, renamed", 4, STEP_RENAME, KODA__HAPPENED__HAPPENED },
};

static const struct {
	Koda__Kind kind;
	const char *path, *made, *gone; /* what is there when it happened, and what is not */
} steps[] = {
	[STEP_WRITE] = { KODA__KIND__KIND_WRITE, "a", NULL, NULL },
	[STEP_WRITE_DEEP] = { KODA__KIND__KIND_WRITE, "new/deep/file", "new/deep/file", NULL },
	[STEP_EDIT] = { KODA__KIND__KIND_EDIT, "a", NULL, NULL },
	[STEP_MKDIR] = { KODA__KIND__KIND_MKDIR, "made", "made", NULL },
	[STEP_REMOVE] = { KODA__KIND__KIND_REMOVE, "a", NULL, "a" },
	[STEP_REMOVE_TREE] = { KODA__KIND__KIND_REMOVE, "tree", NULL, "tree" },
	[STEP_REMOVE_DIR] = { KODA__KIND__KIND_REMOVE, "empty", NULL, "empty" },
	[STEP_RENAME] = { KODA__KIND__KIND_RENAME, "a", "b", "a" },
};

/* Send the step's request to a worker that stops on the way, and kill the worker there. */
static uint64_t
die_in_step(struct worker *w, enum step step)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Write wr = KODA__WRITE__INIT;
	Koda__Edit ed = KODA__EDIT__INIT;
	Koda__Mkdir mk = KODA__MKDIR__INIT;
	Koda__Remove rm = KODA__REMOVE__INIT;
	Koda__Rename mv = KODA__RENAME__INIT;
	Koda__Replacement one = KODA__REPLACEMENT__INIT, *list[] = { &one };
	int status;

	switch (step) {
	case STEP_NONE:
		fail();
		break;
	case STEP_WRITE:
	case STEP_WRITE_DEEP:
		req.op_case = KODA__REQUEST__OP_WRITE;
		req.write = &wr;
		wr.path = bytes(steps[step].path);
		wr.has_content = true;
		wr.content = bytes("new");
		break;
	case STEP_EDIT:
		req.op_case = KODA__REQUEST__OP_EDIT;
		req.edit = &ed;
		ed.path = bytes(steps[step].path);
		one.old = bytes("old");
		one.new_ = bytes("new");
		ed.n_replacement = 1;
		ed.replacement = list;
		break;
	case STEP_MKDIR:
		req.op_case = KODA__REQUEST__OP_MKDIR;
		req.mkdir = &mk;
		mk.path = bytes(steps[step].path);
		break;
	case STEP_REMOVE:
	case STEP_REMOVE_TREE:
	case STEP_REMOVE_DIR:
		req.op_case = KODA__REQUEST__OP_REMOVE;
		req.remove = &rm;
		rm.path = bytes(steps[step].path);
		rm.has_recursive = rm.recursive = step == STEP_REMOVE_TREE;
		break;
	case STEP_RENAME:
		req.op_case = KODA__REQUEST__OP_RENAME;
		req.rename = &mv;
		mv.from = bytes(steps[step].path);
		mv.to = bytes("b");
		break;
	}
	send_request(w, &req);
	must(waitpid(w->pid, &status, WUNTRACED) == w->pid);
	if (!WIFSTOPPED(status))
		fail_msg("the worker did not stop but ended with %#x", status);
	must(kill(w->pid, SIGKILL) == 0);
	assert_null(final_reply(w, req.id));
	return req.id;
}

static void
fill_recover(const struct worker *dead, uint64_t id, enum step step, Koda__Recover *msg)
{
	koda__recover__init(msg);
	msg->request = id;
	msg->token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	msg->path = bytes(steps[step].path);
	msg->kind = steps[step].kind;
	msg->has_recursive = msg->recursive = step == STEP_REMOVE_TREE;
	if (dead->prepared) {
		msg->prepared =
		    koda__prepared__unpack(NULL, dead->milestone_len[0], dead->milestone[0]);
		assert_non_null(msg->prepared);
	}
	msg->has_committed = msg->committed = dead->committed;
}

static void
make_things(void)
{
	put_text(R("a"), "old");
	must(mkdir(R("tree"), 0755) == 0 && mkdir(R("tree/sub"), 0755) == 0);
	must(mkdir(R("empty"), 0755) == 0);
	put_text(R("tree/sub/x"), "x");
}

static void
assert_state(enum step step, bool happened)
{
	if (steps[step].made != NULL)
		assert_int_equal(exists(R(steps[step].made)), happened);
	if (steps[step].gone != NULL)
		assert_int_equal(exists(R(steps[step].gone)), !happened);
	if (step == STEP_WRITE || step == STEP_EDIT)
		assert_text(R("a"), happened ? "new" : "old");
	if (step == STEP_REMOVE_TREE && !happened)
		assert_text(R("tree/sub/x"), "x");
	assert_no_temp(world.root);
}

static void
test_death(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(worker_end) struct worker dead, w;
	char variant[32];
	const struct setup stopping = { .program = variant };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Recover msg;
	const Koda__Reply *rep;
	uint64_t id;

	snprintf(variant, sizeof(variant), "koda-fs-worker-stop%u", deaths[i].stop);
	world_make(NULL);
	make_things();
	worker_open(&dead, &stopping);
	id = die_in_step(&dead, deaths[i].step);
	assert_int_equal(dead.prepared, deaths[i].stop >= 3);
	assert_int_equal(dead.committed, deaths[i].stop >= 5);
	fill_recover(&dead, id, deaths[i].step, &msg);
	req.op_case = KODA__REQUEST__OP_RECOVER;
	req.recover = &msg;

	/* The first successor dies between verdict and clean-up, the second finishes. */
	{
		cleanup(worker_end) struct worker first;
		const struct setup stop6 = { .program = "koda-fs-worker-stop6" };
		int status;

		worker_open(&first, &stop6);
		send_request(&first, &req);
		must(waitpid(first.pid, &status, WUNTRACED) == first.pid);
		assert_true(WIFSTOPPED(status));
		must(kill(first.pid, SIGKILL) == 0);
		assert_null(final_reply(&first, req.id));
		assert_true(first.verdict);
		msg.verdict =
		    koda__verdict__unpack(NULL, first.milestone_len[2], first.milestone[2]);
		assert_int_equal(msg.verdict->happened, deaths[i].want);
	}
	worker_open(&w, &plain);
	req.id = 0;
	rep = call(&w, &req);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_RECOVERED);
	assert_int_equal(rep->recovered->happened, deaths[i].want);
	assert_false(w.verdict);
	assert_state(deaths[i].step, deaths[i].want == KODA__HAPPENED__HAPPENED);
	koda__verdict__free_unpacked(msg.verdict, NULL);
	if (msg.prepared != NULL)
		koda__prepared__free_unpacked(msg.prepared, NULL);
	world_remove(NULL);
}

static void
test_recover_says_verdict_first(void **state)
{
	cleanup(worker_end) struct worker dead, w;
	const struct setup stopping = { .program = "koda-fs-worker-stop3" };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Recover msg;
	ProtobufCBinaryData temp_name;
	const Koda__Reply *rep;

	make_things();
	worker_open(&dead, &stopping);
	fill_recover(&dead, die_in_step(&dead, STEP_EDIT), STEP_EDIT, &msg);
	req.op_case = KODA__REQUEST__OP_RECOVER;
	req.recover = &msg;

	/* Another process has replaced the file, and the temporary one is gone: the worker
	 * cannot tell. */
	unlink(R("x"));
	put_text(R("b"), "third");
	must(rename(R("b"), R("a")) == 0);
	{
		char temp[PATH_MAX];

		snprintf(temp, sizeof(temp), "%s/%.*s", world.root, (int)msg.prepared->temp.len,
		    (const char *)msg.prepared->temp.data);
		must(unlink(temp) == 0);
	}
	worker_open(&w, &plain);
	rep = call(&w, &req);
	assert_true(w.verdict);
	assert_int_equal(rep->recovered->happened, KODA__HAPPENED__CANNOT_TELL);
	assert_true(rep->recovered->has_digest_now);
	assert_text(R("a"), "third");

	/* The worker must not remove a temporary name that the request never had. */
	put_text(R("precious"), "mine");
	temp_name = msg.prepared->temp;
	msg.prepared->temp = bytes("precious");
	req.id = 0;
	assert_error(call(&w, &req), KODA__ERROR_CODE__PROTOCOL);
	msg.prepared->temp = temp_name;
	koda__prepared__free_unpacked(msg.prepared, NULL);
	assert_text(R("precious"), "mine");
	assert_exits(&w, 1);
}

/* A directory that had to be empty got an entry after it lost its name: recovery puts it back. */
static void
test_recover_puts_back(void **state)
{
	cleanup(worker_end) struct worker dead, w;
	const struct setup stopping = { .program = "koda-fs-worker-stop4" };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Recover msg;
	char temp[PATH_MAX];

	make_things();
	worker_open(&dead, &stopping);
	fill_recover(&dead, die_in_step(&dead, STEP_REMOVE_DIR), STEP_REMOVE_DIR, &msg);
	snprintf(temp, sizeof(temp), "%s/%.*s/late", world.root, (int)msg.prepared->temp.len,
	    (const char *)msg.prepared->temp.data);
	put_text(temp, "late");
	req.op_case = KODA__REQUEST__OP_RECOVER;
	req.recover = &msg;
	worker_open(&w, &plain);
	assert_int_equal(call(&w, &req)->recovered->happened, KODA__HAPPENED__DID_NOT_HAPPEN);
	assert_text(R("empty/late"), "late");
	assert_no_temp(world.root);
	koda__prepared__free_unpacked(msg.prepared, NULL);
}

/* While a worker stops at its steps, a reader sees the old file or the new one. */
static void
test_nobody_sees_half(void **state)
{
	cleanup(worker_end) struct worker w;
	char variant[32];
	const struct setup stopping = { .program = variant };
	REQUEST(&w, WRITE, write, Write, write);

	for (unsigned stop = 1; stop <= 4; stop++) {
		int status;

		put_text(R("a"), "old");
		snprintf(variant, sizeof(variant), "koda-fs-worker-stop%u", stop);
		worker_open(&w, &stopping);
		msg.path = bytes("a");
		msg.has_content = true;
		msg.content = bytes("new");
		req.id = 0;
		send_request(&w, &req);
		must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
		assert_text(R("a"), stop < 4 ? "old" : "new");
		must(kill(w.pid, SIGCONT) == 0);
		outcome_of(final_reply(&w, req.id));
		assert_text(R("a"), "new");
		assert_no_temp(world.root);
		if (stop < 4)
			worker_end(&w);
	}
}

/* The directory is moved away between check and change: nothing is written there. */
static void
test_directory_moved_away(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct setup stopping = { .program = "koda-fs-worker-stop3" };
	REQUEST(&w, WRITE, write, Write, write);
	int status;
	bool temp;

	must(mkdir(R("d"), 0755) == 0);
	worker_open(&w, &stopping);
	msg.path = bytes("d/a");
	msg.has_content = true;
	msg.content = bytes("new");
	send_request(&w, &req);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	must(rename(R("d"), O("d")) == 0);
	must(kill(w.pid, SIGCONT) == 0);
	assert_error(final_reply(&w, req.id), KODA__ERROR_CODE__CONFLICT);
	assert_false(exists(O("d/a")));
	names_in(O("d"), &temp);
}

/* Another process changes the file between the edit's read and its rename: the edit is not
 * applied to content that it did not see, and the other change is not lost. */
static void
test_edit_changed_meanwhile(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct setup stopping = { .program = "koda-fs-worker-stop3" };
	Koda__Replacement one = KODA__REPLACEMENT__INIT, *list[] = { &one };
	REQUEST(&w, EDIT, edit, Edit, edit);
	int status;

	put_text(R("a"), "old");
	worker_open(&w, &stopping);
	one.old = bytes("old");
	one.new_ = bytes("new");
	msg.path = bytes("a");
	msg.n_replacement = 1;
	msg.replacement = list;
	send_request(&w, &req);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	put_text(R("a"), "his");
	must(kill(w.pid, SIGCONT) == 0);
	assert_error(final_reply(&w, req.id), KODA__ERROR_CODE__CONFLICT);
	assert_text(R("a"), "his");
	assert_no_temp(world.root);
}

/* Another process makes the missing directory while the worker builds it: the worker's file goes
 * into the existing one. */
static void
test_somebody_was_faster(void **state)
{
	cleanup(worker_end) struct worker w;
	const struct setup stopping = { .program = "koda-fs-worker-stop3" };
	REQUEST(&w, WRITE, write, Write, write);
	int status;

	worker_open(&w, &stopping);
	msg.path = bytes("d/a");
	msg.has_content = true;
	msg.content = bytes("mine");
	send_request(&w, &req);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	must(mkdir(R("d"), 0755) == 0);
	put_text(R("d/b"), "his");
	must(kill(w.pid, SIGCONT) == 0);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	must(kill(w.pid, SIGCONT) == 0);
	outcome_of(final_reply(&w, req.id));
	assert_text(R("d/a"), "mine");
	assert_text(R("d/b"), "his");
	assert_no_temp(world.root);
}

/* The worker starts again, and dies before it is Prepared again: it took back the first Prepared
 * before it removed its traces. */
static void
test_died_after_somebody_was_faster(void **state)
{
	cleanup(worker_end) struct worker w, next;
	const struct setup stopping = { .program = "koda-fs-worker-stop2" };
	Koda__Request again = KODA__REQUEST__INIT;
	Koda__Recover recover;
	Koda__Verdict *verdict;
	REQUEST(&w, WRITE, write, Write, write);
	int status;

	worker_open(&w, &stopping);
	msg.path = bytes("d/a");
	msg.has_content = true;
	msg.content = bytes("mine");
	send_request(&w, &req);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	must(mkdir(R("d"), 0755) == 0);
	must(kill(w.pid, SIGCONT) == 0);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	must(kill(w.pid, SIGKILL) == 0);
	assert_null(final_reply(&w, req.id));
	assert_true(w.prepared && w.verdict);
	verdict = koda__verdict__unpack(NULL, w.milestone_len[2], w.milestone[2]);
	assert_non_null(verdict);
	assert_int_equal(verdict->happened, KODA__HAPPENED__DID_NOT_HAPPEN);
	koda__verdict__free_unpacked(verdict, NULL);

	koda__recover__init(&recover);
	recover.request = req.id;
	recover.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	recover.path = msg.path;
	recover.kind = KODA__KIND__KIND_WRITE;
	again.op_case = KODA__REQUEST__OP_RECOVER;
	again.recover = &recover;
	worker_open(&next, &plain);
	assert_int_equal(call(&next, &again)->recovered->happened, KODA__HAPPENED__DID_NOT_HAPPEN);
	assert_no_temp(world.root);
	assert_int_equal(access(R("d/a"), F_OK), -1);
}

/* A request that was never prepared is cleaned up as far as its path still leads anywhere. */
static void
test_recover_of_a_path_that_leads_nowhere(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Recover msg;

	must(symlink("loop", R("loop")) == 0);
	koda__recover__init(&msg);
	msg.request = 7;
	msg.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	msg.path = bytes("loop/x");
	msg.kind = KODA__KIND__KIND_WRITE;
	req.op_case = KODA__REQUEST__OP_RECOVER;
	req.recover = &msg;
	worker_open(&w, &plain);
	assert_int_equal(call(&w, &req)->recovered->happened, KODA__HAPPENED__DID_NOT_HAPPEN);
	req.id = 0;
	msg.path = bytes("");
	assert_int_equal(call(&w, &req)->recovered->happened, KODA__HAPPENED__DID_NOT_HAPPEN);
}

/* ---- koda-fs-search ---- */

static const struct setup a_search = { .search = true };

static ProtobufCBinaryData search_text[1];

static void
make_search(Koda__Request *req, Koda__Search *msg)
{
	koda__request__init(req);
	koda__search__init(msg);
	search_text[0] = bytes("needle");
	msg->kind = KODA__SEARCH_KIND__SEARCH_GREP;
	msg->pattern = search_text;
	msg->n_pattern = 1;
	msg->limit = 10;
	msg->max_columns = 100;
	req->op_case = KODA__REQUEST__OP_SEARCH;
	req->search = msg;
}

/* koda-fs-search replies Found and Searched, and then exits: one search per process. */
static void
test_search(void **state)
{
	cleanup(worker_end) struct worker w;
	const Koda__Reply *rep;
	Koda__Request req;
	Koda__Search msg;

	put_text(R("f"), "hay\nneedle\n");
	worker_open(&w, &a_search);
	make_search(&req, &msg);
	rep = call(&w, &req);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_FOUND);
	assert_int_equal(rep->found->n_item, 1);
	assert_bytes(rep->found->item[0]->path, "f");
	assert_bytes(rep->found->item[0]->text, "needle");
	assert_int_equal(rep->found->item[0]->line, 2);
	rep = next_reply(&w);
	assert_non_null(rep);
	assert_int_equal(rep->id, req.id);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_SEARCHED);
	assert_int_equal(rep->searched->found, 1);
	assert_null(next_reply(&w));
	assert_exits(&w, 0);
}

/* Each program refuses the requests of the other. */
static void
test_search_of_a_worker(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Search msg;

	worker_open(&w, &plain);
	make_search(&req, &msg);
	assert_error(call(&w, &req), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
}

static void
test_write_by_a_search(void **state)
{
	cleanup(worker_end) struct worker w;

	worker_open(&w, &a_search);
	assert_error(do_write(&w, "new", "text"), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
	assert_int_equal(access(R("new"), F_OK), -1);
}

static void
many_paths(Koda__Search *msg)
{
	static ProtobufCBinaryData v[SEARCH_PATHS_MAX + 1];

	for (size_t i = 0; i < N_ELEMENTS(v); i++)
		v[i] = bytes("f");
	msg->path = v;
	msg->n_path = N_ELEMENTS(v);
}

#define LIE(name, ...)                                                                             \
	static void name(Koda__Search *msg)                                                        \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
LIE(no_limit, msg->limit = 0)
LIE(no_columns, msg->max_columns = 0)
LIE(wide_columns, msg->max_columns = SEARCH_COLUMNS_MAX + 1)
LIE(no_pattern, msg->n_pattern = 0)
LIE(pattern_of_a_glob, msg->kind = KODA__SEARCH_KIND__SEARCH_GLOB)
LIE(nul_in_pattern, search_text[0].data = (uint8_t *)(uintptr_t) "nee\0le")
LIE(nul_in_path, search_text[0].data = (uint8_t *)(uintptr_t) "nee\0le"; msg->path = search_text;
    msg->n_path = 1)
LIE(unknown_flag, msg->flags = UINT64_C(1) << 40)
LIE(two_answers, msg->flags = KODA_SEARCH_COUNT | KODA_SEARCH_FILES)
LIE(much_context, msg->before = SEARCH_CONTEXT_MAX + 1)

static const struct {
	const char *label;
	void (*lie)(Koda__Search *msg);
} nonsense[] = {
	{ "a search without a limit", no_limit },
	{ "a search without columns", no_columns },
	{ "a search of over-long lines", wide_columns },
	{ "a search for nothing", no_pattern },
	{ "a glob with a pattern", pattern_of_a_glob },
	{ "a search with a NUL in its pattern", nul_in_pattern },
	{ "a search with a NUL in its path", nul_in_path },
	{ "a search in too many places", many_paths },
	{ "a search with a flag that is none", unknown_flag },
	{ "a search with two kinds of answer", two_answers },
	{ "a search with too much context", much_context },
};

static void
test_nonsense(void **state)
{
	cleanup(worker_end) struct worker w;
	Koda__Request req;
	Koda__Search msg;

	world_make(NULL);
	worker_open(&w, &a_search);
	make_search(&req, &msg);
	nonsense[(uintptr_t)*state].lie(&msg);
	assert_error(call(&w, &req), KODA__ERROR_CODE__PROTOCOL);
	assert_exits(&w, 1);
	world_remove(NULL);
}

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, test_##name, world_make, world_remove, NULL                                 \
	}

int
main(void)
{
	static const struct CMUnitTest cases[] = {
		CASE(seal),
		CASE(ping_before_seal),
		CASE(seal_twice),
		CASE(other_protocol),
		CASE(other_root),
		CASE(root_is_link),
		CASE(pipelined),
		CASE(shutdown),
		CASE(end_of_stream),
		CASE(end_within_frame),
		CASE(unexpected_descriptor),
		CASE(missing_descriptor),
		CASE(record),
		CASE(no_record),
		CASE(host_gone),
		CASE(write_creates),
		CASE(write_prepared),
		CASE(write_replaces),
		CASE(write_missing_directories),
		CASE(write_by_descriptor),
		CASE(write_unsealed_descriptor),
		CASE(write_through_link),
		CASE(write_outside),
		CASE(write_refused_kinds),
		CASE(write_too_large),
		CASE(write_guards),
		CASE(dry_runs),
		CASE(write_fails_halfway),
		CASE(edit),
		CASE(edit_in_order),
		CASE(edit_refused),
		CASE(edit_by_two),
		CASE(read),
		CASE(read_large),
		CASE(read_refused),
		CASE(stat),
		CASE(list),
		CASE(list_pages),
		CASE(explain),
		CASE(mkdir),
		CASE(remove),
		CASE(protected_below),
		CASE(remove_unwritable),
		CASE(rename),
		CASE(plan_changes_nothing),
		CASE(durable),
		CASE(recover_says_verdict_first),
		CASE(recover_puts_back),
		CASE(nobody_sees_half),
		CASE(directory_moved_away),
		CASE(edit_changed_meanwhile),
		CASE(somebody_was_faster),
		CASE(died_after_somebody_was_faster),
		CASE(recover_of_a_path_that_leads_nowhere),
		CASE(search),
		CASE(search_of_a_worker),
		CASE(write_by_a_search),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(broken) + N_ELEMENTS(deaths) +
	    N_ELEMENTS(nonsense)];
	struct CMUnitTest *more =
	    tests + N_ELEMENTS(cases) + N_ELEMENTS(broken) + N_ELEMENTS(deaths);

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = cases[i];
	for (size_t i = 0; i < N_ELEMENTS(broken); i++)
		tests[N_ELEMENTS(cases) + i] = (struct CMUnitTest){ broken[i].label, test_broken,
			NULL, NULL, (void *)(uintptr_t)i };
	for (size_t i = 0; i < N_ELEMENTS(deaths); i++)
		tests[N_ELEMENTS(cases) + N_ELEMENTS(broken) + i] =
		    (struct CMUnitTest){ deaths[i].label, test_death, NULL, NULL,
			    (void *)(uintptr_t)i };
	for (size_t i = 0; i < N_ELEMENTS(nonsense); i++)
		more[i] = (struct CMUnitTest){ nonsense[i].label, test_nonsense, NULL, NULL,
			(void *)(uintptr_t)i };
	return cmocka_run_group_tests_name("worker_wire", tests, NULL, NULL);
}
