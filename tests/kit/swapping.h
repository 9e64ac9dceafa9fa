/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real koda-fs-worker over raw frames, sealed with a draft and an entry of the history, without a
 * host and without an overlay: the test itself puts into the layer what commands would have left.
 */
#ifndef KODA_TESTS_KIT_SWAPPING_H
#define KODA_TESTS_KIT_SWAPPING_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "tests/kit/skip.h"

#define UNUSED __attribute__((unused))

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

/* ---- the scene ---- */

struct scene {
	char base[128], state[128]; /* the same, unless across */
	char root[160], layer[160], old[160], history[160], draft[160];
};
static struct scene scene;

static UNUSED int
scene_sh(const char *script)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0) {
		setenv("ROOT", scene.root, 1);
		setenv("LAYER", scene.layer, 1);
		setenv("OLD", scene.old, 1);
		setenv("BASE", scene.base, 1);
		if (chdir(scene.root) == 0)
			execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		must(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static UNUSED void
sh(const char *script)
{
	int r = scene_sh(script);

	if (r != 0)
		fail_msg("exit %d: %s", r, script);
}

static UNUSED void
make_temp_dir(char ret[128], const char *in)
{
	cleanup_free char *real = NULL;
	char path[96];

	snprintf(path, sizeof(path), "%s/swap.XXXXXX", in);
	must(mkdtemp(path) != NULL);
	real = realpath(path, NULL);
	must(real != NULL);
	snprintf(ret, 128, "%s", real);
}

/* Where a directory on another file system than TMPDIR can be made, or NULL. */
static UNUSED const char *
other_file_system(void)
{
	const char *tmp = getenv("TMPDIR");
	struct stat a, b;

	return stat(tmp != NULL ? tmp : "/tmp", &a) == 0 && stat("/dev/shm", &b) == 0 &&
		a.st_dev != b.st_dev && access("/dev/shm", W_OK) == 0
	    ? "/dev/shm"
	    : NULL;
}

static UNUSED void
scene_make(bool across)
{
	const char *tmp = getenv("TMPDIR");

	make_temp_dir(scene.base, tmp != NULL ? tmp : "/tmp");
	snprintf(scene.state, sizeof(scene.state), "%s", scene.base);
	if (across)
		make_temp_dir(scene.state, other_file_system());
	snprintf(scene.root, sizeof(scene.root), "%s/root", scene.base);
	snprintf(scene.draft, sizeof(scene.draft), "%s/draft", scene.state);
	snprintf(scene.layer, sizeof(scene.layer), "%s/draft/0/u", scene.state);
	snprintf(scene.history, sizeof(scene.history), "%s/history", scene.state);
	snprintf(scene.old, sizeof(scene.old), "%s/history/old", scene.state);
	must(mkdir(scene.root, 0755) == 0);
	umask(022);
	sh("mkdir -p \"$LAYER\" \"$OLD\"");
}

static UNUSED void
scene_remove(void)
{
	char line[600];

	snprintf(line, sizeof(line), "chmod -R u+rwX '%s' '%s'; cd / && rm -rf '%s' '%s'",
	    scene.base, scene.state, scene.base, scene.state);
	sh(line);
}

static UNUSED const char *
in(const char *dir, const char *name)
{
	static char buf[8][PATH_MAX];
	static unsigned i;
	char *p = buf[i++ % 8];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}
#define R(name) in(scene.root, (name))
#define L(name) in(scene.layer, (name))
#define O(name) in(scene.old, (name))

static UNUSED bool
exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static UNUSED void
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

/* ---- what a tree is, bit for bit ---- */

static UNUSED void
tell_attributes(FILE *to, const char *path)
{
	char names[1024], value[1024];
	ssize_t n = llistxattr(path, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		ssize_t len = lgetxattr(path, names + i, value, sizeof(value));

		fprintf(to, " %s=%.*s", names + i, (int)(len > 0 ? len : 0), value);
	}
}

static UNUSED void
tell_content(FILE *to, const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t sum = 1469598103934665603u;
	unsigned char buf[4096];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ buf[i]) * 1099511628211u;
	fprintf(to, " %016llx", (unsigned long long)sum);
}

static UNUSED void
tell_tree(FILE *to, const char *path, const char *shown)
{
	struct dirent **list;
	int n = scandir(path, &list, NULL, alphasort);

	must(n >= 0);
	for (int i = 0; i < n; i++) {
		char at[PATH_MAX], as[PATH_MAX], target[PATH_MAX];
		struct stat st;
		ssize_t len;

		snprintf(at, sizeof(at), "%s/%s", path, list[i]->d_name);
		snprintf(as, sizeof(as), "%s/%s", shown, list[i]->d_name);
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
			must(lstat(at, &st) == 0);
			fprintf(to, "%s %o", as, st.st_mode);
			tell_attributes(to, at);
			if (S_ISREG(st.st_mode)) {
				tell_content(to, at);
				fprintf(to, " %lld.%09ld", (long long)st.st_mtim.tv_sec,
				    st.st_mtim.tv_nsec);
			} else if (S_ISLNK(st.st_mode)) {
				len = readlink(at, target, sizeof(target) - 1);
				fprintf(to, " -> %.*s %lld.%09ld", (int)len, target,
				    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
			}
			fputc('\n', to);
			if (S_ISDIR(st.st_mode))
				tell_tree(to, at, as);
		}
		free(list[i]);
	}
	free(list);
}

/* Returns a description of the project; the caller frees it. Times of directories, which change with
 * what is in them, are not in it. */
static UNUSED char *
tree_of(const char *path)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	must(to != NULL);
	tell_tree(to, path, "");
	fclose(to);
	return text;
}

/* ---- a worker ---- */

struct worker {
	pid_t pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t id;
	const Koda__Reply *reply;
};

struct how {
	const char *program; /* of tests/variants; NULL: the worker itself */
	Koda__Mode mode;
	const char *allow_write; /* below the root; NULL: the root */
	const char *deny_read;
};
static const struct how plain UNUSED = { 0 };

static UNUSED ProtobufCBinaryData
bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

/* Returns the next reply, or NULL at the end of the stream. */
static UNUSED const Koda__Reply *
next_reply(struct worker *w)
{
	struct koda_error err = { 0 };
	const uint8_t *data;
	size_t len;
	int r;

	while ((r = frame_next(&w->fs, &data, &len, &err)) == 0)
		if (frame_fill(&w->fs, true, &err) < 0)
			return NULL;
	must(r == 1);
	w->reply = (const Koda__Reply *)message_unpack(&koda__reply__descriptor, data, len,
	    &w->arena, &err);
	if (w->reply == NULL)
		fail_msg("%s", err.message);
	return w->reply;
}

static UNUSED void
send_request(struct worker *w, Koda__Request *req, const int *fds, size_t n_fds)
{
	struct koda_error err = { 0 };
	ssize_t queued;

	arena_reset(&w->arena);
	req->id = w->id++;
	queued = message_queue(&w->fs, &req->base, &err);
	if (queued >= 0 && n_fds > 0)
		queued = frame_flush_with_fds(&w->fs, (size_t)queued, fds, n_fds, 10000, &err);
	if (queued < 0 || (frame_pending(&w->fs) > 0 && frame_flush(&w->fs, true, &err) != 1))
		fail_msg("%s", err.message);
}

static UNUSED void
must_be_answered(struct worker *w)
{
	if (next_reply(w) == NULL)
		fail_msg("the worker ended instead of answering");
	if (w->reply->result_case == KODA__REPLY__RESULT_ERROR)
		fail_msg("error %d: %.*s", w->reply->error->code, (int)w->reply->error->message.len,
		    (const char *)w->reply->error->message.data);
}

static UNUSED void
worker_seal(struct worker *w, const struct how *how)
{
	static const uint8_t token[TOKEN_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Seal msg = KODA__SEAL__INIT;
	Koda__DraftLayer layer = KODA__DRAFT_LAYER__INIT, *layers = &layer;
	struct policy policy;
	struct koda_error err;
	struct stat st;
	cleanup_free uint8_t *packed = NULL;
	size_t len;
	int fds[2];

	policy_init(&policy);
	must(policy_list_add(&policy.list[KODA_ALLOW_WRITE],
		 how->allow_write != NULL ? R(how->allow_write) : scene.root, NULL) == 0);
	must(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], ".vscode", NULL) == 0);
	if (how->deny_read != NULL)
		must(policy_list_add(&policy.list[KODA_DENY_READ], R(how->deny_read), NULL) == 0);
	must(policy_pack(&policy, &packed, &len, &err) == 0);
	policy_done(&policy);
	must(stat(scene.root, &st) == 0);
	msg.protocol = KODA_PROTOCOL_VERSION;
	msg.policy = (ProtobufCBinaryData){ len, packed };
	msg.mode = how->mode != 0 ? how->mode : KODA__MODE__MODE_AUTO;
	msg.root = bytes(scene.root);
	msg.root_dev = layer.dev = st.st_dev;
	msg.root_ino = layer.ino = st.st_ino;
	msg.home = bytes("/nonexistent-home");
	msg.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	layer.path = bytes(scene.root);
	layer.name = bytes("0");
	msg.has_draft = msg.draft = msg.has_history = msg.history = true;
	msg.draft_layer = &layers;
	msg.n_draft_layer = 1;
	fds[0] = open(scene.draft, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fds[1] = open(scene.history, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(fds[0] >= 0 && fds[1] >= 0);
	req.op_case = KODA__REQUEST__OP_SEAL;
	req.seal = &msg;
	send_request(w, &req, fds, 2);
	close(fds[0]);
	close(fds[1]);
	must_be_answered(w);
	assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_READY);
}

static UNUSED void
worker_start(struct worker *w, const struct how *how)
{
	char program[PATH_MAX];
	int sv[2];

	snprintf(program, sizeof(program), "%s",
	    how->program == NULL ? KODA_TEST_HELPER_DIR "/koda-fs-worker" : how->program);
	*w = (struct worker){ .id = 1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	w->pid = fork();
	must(w->pid >= 0);
	if (w->pid == 0) {
		if (sv[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(sv[1], 3);
		execl(program, "koda-fs-worker", (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	frame_init(&w->fs, sv[0]);
	arena_init(&w->arena);
	worker_seal(w, how);
}

static UNUSED void
worker_end(struct worker *w)
{
	int status = 0;

	frame_done(&w->fs);
	arena_done(&w->arena);
	if (w->pid > 0)
		while (waitpid(w->pid, &status, 0) < 0)
			must(errno == EINTR);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the worker ended with status 0x%x", status);
}

/* ---- items ---- */

#define ITEMS_MAX SWAP_ITEMS_MAX

struct batch {
	Koda__SwapItem item[ITEMS_MAX];
	Koda__Identity here[ITEMS_MAX], held[ITEMS_MAX];
	char name[ITEMS_MAX][SWAP_NAME_MAX + 1], place[ITEMS_MAX][512];
	size_t n;
};

/* What became of an item, kept beyond the next request. */
struct told {
	Koda__SwapOutcome outcome;
	bool has_here, has_held;
	Koda__DraftSide here, held;
	char rule[64], reason[512];
	uint32_t errnum;
};

static UNUSED Koda__FileType
type_of(mode_t mode)
{
	return S_ISREG(mode) ? KODA__FILE_TYPE__FILE_REGULAR
	    : S_ISDIR(mode)  ? KODA__FILE_TYPE__FILE_DIRECTORY
	    : S_ISLNK(mode)  ? KODA__FILE_TYPE__FILE_SYMLINK
			     : KODA__FILE_TYPE__FILE_OTHER;
}

static UNUSED Koda__Identity *
identify(Koda__Identity *ret, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return NULL;
	koda__identity__init(ret);
	ret->type = type_of(st.st_mode);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->has_ctime_ns = true;
	ret->ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
	return ret;
}

static UNUSED Koda__SwapItem *
batch_add(struct batch *b, const char *place)
{
	Koda__SwapItem *item = &b->item[b->n];

	must(b->n < ITEMS_MAX);
	koda__swap_item__init(item);
	snprintf(b->name[b->n], sizeof(b->name[0]), "i%zu", b->n);
	snprintf(b->place[b->n], sizeof(b->place[0]), "%s", place[0] == '/' ? place : R(place));
	item->name = bytes(b->name[b->n]);
	item->place = bytes(b->place[b->n]);
	item->has_layer = true;
	b->n++;
	return item;
}

/* The layer's version comes to the place, whatever is there now. */
static UNUSED Koda__SwapItem *
add_bring(struct batch *b, const char *place)
{
	size_t i = b->n;
	Koda__SwapItem *item = batch_add(b, place);

	item->here = identify(&b->here[i], R(place));
	item->held = identify(&b->held[i], L(place));
	must(item->held != NULL);
	return item;
}

static UNUSED Koda__SwapItem *
add_take(struct batch *b, const char *place)
{
	size_t i = b->n;
	Koda__SwapItem *item = batch_add(b, place);

	item->here = identify(&b->here[i], R(place));
	must(item->here != NULL);
	return item;
}

static UNUSED Koda__SwapItem *
add_mkdir(struct batch *b, const char *place, mode_t mode)
{
	Koda__SwapItem *item = batch_add(b, place);

	item->has_directory = true;
	item->directory = mode;
	return item;
}

static UNUSED Koda__SwapItem *
add_mode(struct batch *b, const char *place, mode_t mode)
{
	Koda__SwapItem *item = add_take(b, place);

	item->has_mode = true;
	item->mode = mode;
	return item;
}

static UNUSED void
identity_of_side(Koda__Identity *ret, const Koda__DraftSide *side)
{
	koda__identity__init(ret);
	ret->type = side->type;
	ret->dev = side->dev;
	ret->ino = side->ino;
	ret->has_ctime_ns = true;
	ret->ctime_ns = side->ctime_ns;
}

/* Adds the items that take back what the items of `done` did, in the opposite order; or, given those,
 * do it again. */
static UNUSED void
add_back(struct batch *b, const struct batch *done, const struct told *told)
{
	for (size_t i = done->n; i-- > 0;) {
		const Koda__SwapItem *was = &done->item[i];
		Koda__SwapItem *item = batch_add(b, done->place[i]);
		size_t k = b->n - 1;

		item->has_layer = false;
		memcpy(b->name[k], done->name[i], sizeof(b->name[k]));
		item->name = bytes(b->name[k]);
		if (told[i].has_here) {
			identity_of_side(&b->here[k], &told[i].here);
			item->here = &b->here[k];
		}
		if (was->has_mode) {
			item->has_mode = true;
			item->mode = told[i].held.mode;
		} else if (was->has_directory) {
			item->has_directory = true;
			item->directory = was->directory;
		} else if (told[i].has_held) {
			identity_of_side(&b->held[k], &told[i].held);
			item->held = &b->held[k];
		}
	}
}

static UNUSED void
copy_text(char *ret, size_t size, bool has, ProtobufCBinaryData b)
{
	snprintf(ret, size, "%.*s", has ? (int)b.len : 0, has ? (const char *)b.data : "");
}

static UNUSED void
send_batch(struct worker *w, struct batch *b)
{
	static Koda__SwapItem *items[ITEMS_MAX];
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Swap msg = KODA__SWAP__INIT;

	for (size_t i = 0; i < b->n; i++)
		items[i] = &b->item[i];
	msg.item = items;
	msg.n_item = b->n;
	req.op_case = KODA__REQUEST__OP_SWAP;
	req.swap = &msg;
	send_request(w, &req, NULL, 0);
}

static UNUSED void
take_results(struct worker *w, const struct batch *b, struct told *ret)
{
	assert_int_equal(w->reply->result_case, KODA__REPLY__RESULT_SWAP);
	assert_int_equal(w->reply->swap->n_result, b->n);
	for (size_t i = 0; i < b->n; i++) {
		const Koda__SwapResult *r = w->reply->swap->result[i];

		ret[i] = (struct told){ .outcome = r->outcome, .errnum = r->errnum };
		ret[i].has_here = r->here != NULL;
		ret[i].has_held = r->held != NULL;
		if (r->here != NULL)
			ret[i].here = *r->here;
		if (r->held != NULL)
			ret[i].held = *r->held;
		copy_text(ret[i].rule, sizeof(ret[i].rule), r->has_rule, r->rule);
		copy_text(ret[i].reason, sizeof(ret[i].reason), r->has_reason, r->reason);
	}
}

static UNUSED void
swap(struct worker *w, struct batch *b, struct told *ret)
{
	send_batch(w, b);
	must_be_answered(w);
	take_results(w, b, ret);
}

static UNUSED void
assert_outcome(const struct told *told, Koda__SwapOutcome want)
{
	if (told->outcome != want)
		fail_msg("outcome %d instead of %d: %s (errno %u)", told->outcome, want,
		    told->reason, told->errnum);
}

static UNUSED void
assert_all(const struct batch *b, const struct told *told, Koda__SwapOutcome want)
{
	for (size_t i = 0; i < b->n; i++) {
		if (told[i].outcome != want)
			fail_msg("%s: outcome %d instead of %d: %s (errno %u)", b->place[i],
			    told[i].outcome, want, told[i].reason, told[i].errnum);
	}
}

/* No temporary name in the project. */
static UNUSED void
assert_no_temps(void)
{
	cleanup_free char *tree = tree_of(scene.root);

	if (strstr(tree, "/" TEMP_PREFIX) != NULL)
		fail_msg("a temporary name is left:\n%s", tree);
}

#endif
