/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of file operations. The rows compare with plain C that does the same work (floor.h).
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/memory.h"
#include "shared/base/cleanup.h"
#include "worker/files/resolve.h"

#define SMALL     4096u
#define EDIT_SIZE (16u << 10)
#define READ_SIZE (64u << 10)
#define BULK      (256u << 20)
#define BULK_STEP (1u << 20) /* size of the buffer that BULK is read with */
#define DEEP      64         /* calls under way at the same time */
#define DEEP_OPS  256        /* writes per sample */
#define MANY      100

#define DIRS_12 "a/b/c/d/e/f/g/h/i/j/k/file"
#define LINKS_8 "l8"
#define FROM    "the quick brown fox"
#define TO      "the quick green fox"

static struct {
	const char *root, *helpers;
	struct floor_peer peer;
	struct koda_session *ses, *cold, *many, *kept;
	struct koda_slot *slot, *fresh, *one_of_many, *keeping;
	struct koda_slot *live[MANY];
	uint8_t *bulk; /* BULK bytes to write; also the buffer of reads */
	int bulk_fd;   /* the same bytes in a memfd that cannot change any more */
	bool edited[2];
	unsigned deep_begun, deep_done, deep_failed;
	struct resolver res;
	struct place place;
} w = { .bulk_fd = -1 };

static int
do_op(struct koda_slot *slot, const struct koda_op *op, const char *what)
{
	struct koda_result result;
	struct koda_error e;

	if (koda_call(slot, op, &result, &e) < 0)
		return complain_error(what, &e);
	koda_result_done(&result);
	return 0;
}

/* ---- the rows ---- */

static int
ping_ours(void *data)
{
	const struct koda_op op = { .kind = KODA_OP_PING };

	return do_op(w.slot, &op, "ping");
}

static int
ping_floor(void *data)
{
	return floor_ping(&w.peer);
}

static int
write_small(struct koda_slot *slot, const char *name)
{
	const struct koda_op op = { .kind = KODA_OP_WRITE,
		.path = name,
		.data = w.bulk,
		.len = SMALL };

	return do_op(slot, &op, "write");
}

static int
write_ours(void *data)
{
	return write_small(w.slot, "ours");
}

static int
write_floor(void *data)
{
	return floor_ping(&w.peer) < 0 ? -1 : floor_write("floor", w.bulk, SMALL);
}

static void
deep_done(void *data, const struct koda_result *result, const struct koda_error *e)
{
	w.deep_done++;
	if (e != NULL && w.deep_failed++ == 0)
		complain_error("write", e);
}

static int
deep_ours(void *data)
{
	struct koda_error e;

	w.deep_begun = w.deep_done = w.deep_failed = 0;
	while (w.deep_done < DEEP_OPS) {
		while (w.deep_begun < DEEP_OPS && w.deep_begun - w.deep_done < DEEP) {
			char name[32];
			const struct koda_op op = { .kind = KODA_OP_WRITE,
				.path = name,
				.data = w.bulk,
				.len = SMALL };

			snprintf(name, sizeof(name), "deep/ours-%u", w.deep_begun % DEEP);
			if (koda_call_async(w.slot, &op, deep_done, NULL, &e) < 0)
				return complain_error("write", &e);
			w.deep_begun++;
		}
		if (koda_session_dispatch(w.ses, -1, &e) < 0)
			return complain_error("dispatch", &e);
	}
	return w.deep_failed > 0 ? -1 : 0;
}

static int
deep_floor(void *data)
{
	for (unsigned i = 0; i < DEEP_OPS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "deep/floor-%u", i % DEEP);
		if (floor_write(name, w.bulk, SMALL) < 0)
			return -1;
	}
	return 0;
}

static int
edit_ours(void *data)
{
	bool back = w.edited[0];
	const struct koda_edit edit = { .old_text = back ? TO : FROM,
		.old_len = strlen(FROM),
		.new_text = back ? FROM : TO,
		.new_len = strlen(TO) };
	const struct koda_op op = { .kind = KODA_OP_EDIT,
		.flags = KODA_DIGEST,
		.path = "edit-ours",
		.edits = &edit,
		.n_edits = 1 };

	w.edited[0] = !back;
	return do_op(w.slot, &op, "edit");
}

static int
edit_floor(void *data)
{
	bool back = w.edited[1];

	w.edited[1] = !back;
	return floor_ping(&w.peer) < 0
	    ? -1
	    : floor_edit("edit-floor", back ? TO : FROM, back ? FROM : TO);
}

static int
read_ours(void *data)
{
	const struct koda_op op = { .kind = KODA_OP_READ, .path = "read" };
	struct koda_result result;
	struct koda_error e;
	int r;

	if (koda_call(w.slot, &op, &result, &e) < 0)
		return complain_error("read", &e);
	r = result.len == READ_SIZE ? 0 : -1;
	koda_result_done(&result);
	return r;
}

static int
read_floor(void *data)
{
	return floor_ping(&w.peer) < 0 || floor_read("read", w.bulk, READ_SIZE) != READ_SIZE ? -1
											     : 0;
}

static int
bulk_read_ours(void *data)
{
	const struct koda_op op = { .kind = KODA_OP_READ, .path = "bulk-read" };
	struct koda_result result;
	struct koda_error e;
	off_t at = 0;
	ssize_t n;

	if (koda_call(w.slot, &op, &result, &e) < 0)
		return complain_error("read", &e);
	while ((n = pread(result.fd, w.bulk, BULK_STEP, at)) > 0)
		at += n;
	koda_result_done(&result);
	return n == 0 && at == BULK ? 0 : -1;
}

static int
bulk_read_floor(void *data)
{
	return floor_read_bulk("bulk-read", w.bulk, BULK_STEP) == BULK ? 0 : -1;
}

static int
bulk_write_ours(void *data)
{
	const struct koda_op op = { .kind = KODA_OP_WRITE, .path = "bulk-ours", .fd = w.bulk_fd };

	return do_op(w.slot, &op, "write");
}

static int
bulk_write_floor(void *data)
{
	return floor_write("bulk-floor", w.bulk, BULK);
}

static int
resolve_ours(void *data)
{
	struct koda_error e;

	if (resolve(&w.res, (const uint8_t *)DIRS_12, strlen(DIRS_12), 0, &w.place, &e) < 0)
		return complain_error("resolve", &e);
	place_done(&w.place);
	return 0;
}

static int
resolve_floor(void *data)
{
	return floor_resolve(w.res.root_fd, DIRS_12);
}

static int
links_ours(void *data)
{
	struct koda_error e;

	if (resolve(&w.res, (const uint8_t *)LINKS_8, strlen(LINKS_8), 0, &w.place, &e) < 0)
		return complain_error("resolve", &e);
	place_done(&w.place);
	return 0;
}

/* The pool of this session keeps one idle slot, and that slot has another policy. So each acquire
 * starts a new worker, and each release ends it. */
static int
spawn_ours(void *data)
{
	struct koda_error e;

	w.fresh = koda_slot_acquire(w.cold, NULL, &e);
	return w.fresh == NULL ? complain_error("acquire", &e) : 0;
}

static int
spawn_after(void *data)
{
	struct koda_error e;

	koda_slot_release(w.fresh);
	return koda_session_dispatch(w.cold, 0, &e) < 0 ? complain_error("dispatch", &e) : 0;
}

static int
spawn_floor(void *data)
{
	return floor_spawn("/bin/true");
}

static int
warm_ours(void *data)
{
	struct koda_error e;
	struct koda_slot *slot = koda_slot_acquire(w.ses, NULL, &e);

	if (slot == NULL)
		return complain_error("acquire", &e);
	koda_slot_release(slot);
	return 0;
}

static int
many_ours(void *data)
{
	return write_small(w.one_of_many, "ours");
}

static int
kept_ours(void *data)
{
	return write_small(w.keeping, "ours");
}

static int
many_floor(void *data)
{
	return write_small(w.slot, "ours");
}

/* clang-format off */
static const struct row rows[] = {
	{ "ping",           "us",    1e-3, { ping_ours,       ping_floor,       .batch = 64, .repeat = 1 }, 1.2, 4, 0 },
	{ "write_4k",       "us",    1e-3, { write_ours,      write_floor,      .batch = 16, .repeat = 1 }, 1.25, 4, 0 },
	{ "history_cost",   "us",    1e-3, { kept_ours,       many_floor,       .batch = 16, .repeat = 1 }, 1.15, 4, 0 },
	{ "write_4k_deep64", "ops/s", 1,   { deep_ours,       deep_floor,       .batch = 1, .repeat = 1,
	                                     .amount = DEEP_OPS }, 0.85, 4, 0 },
	{ "edit_16k",       "us",    1e-3, { edit_ours,       edit_floor,       .batch = 16, .repeat = 1 }, 1.3, 4, 0 },
	{ "read_64k",       "us",    1e-3, { read_ours,       read_floor,       .batch = 32, .repeat = 1 }, 1.5, 4, 0 },
	{ "read_256m",      "MB/s",  1e-6, { bulk_read_ours,  bulk_read_floor,  .batch = 1, .repeat = 1,
	                                     .amount = BULK }, 0.9, 3, 0 },
	{ "write_256m",     "MB/s",  1e-6, { bulk_write_ours, bulk_write_floor, .batch = 1, .repeat = 1,
	                                     .amount = BULK }, 0.9, 3, 0 },
	{ "resolve_deep",   "us",    1e-3, { resolve_ours,    resolve_floor,    .batch = 16, .repeat = 32 }, 1.5, 4, 0 },
	{ "resolve_links",  "us",    1e-3, { links_ours,      NULL,             .batch = 16, .repeat = 32 }, 0, 4, 0 },
	{ "spawn_ready",    "us",    1e-3, { spawn_ours,      spawn_floor,      spawn_after, .batch = 4, .repeat = 1 }, 1.2, 4, 0 },
	{ "acquire_warm",   "us",    1e-3, { warm_ours,       ping_floor,       .batch = 64, .repeat = 1 }, 1.3, 4, 0 },
	{ "slots_100",      "us",    1e-3, { many_ours,       many_floor,       .batch = 16, .repeat = 1 }, 1.2, 4, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
make_files(const struct setting *set)
{
	char path[] = DIRS_12, link[16], to[16], home[PATH_MAX];
	char *text;

	w.root = set->root;
	w.helpers = set->helpers;
	/* The history is then on the file system of the project, and is not the user's own. */
	snprintf(home, sizeof(home), "%s/home", set->root);
	if (mkdir(home, 0755) < 0 || setenv("HOME", home, 1) < 0 || unsetenv("XDG_STATE_HOME") < 0)
		err(1, "%s", home);
	w.bulk = mmap(NULL, BULK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w.bulk == MAP_FAILED)
		err(1, "%u bytes", BULK);
	for (size_t i = 0; i < BULK; i++)
		w.bulk[i] = (uint8_t)(i * 2654435761u >> 13);
	put_file("read", w.bulk, READ_SIZE);
	put_file("bulk-read", w.bulk, BULK);

	text = malloc(EDIT_SIZE);
	if (text == NULL)
		err(1, "%u bytes", EDIT_SIZE);
	for (size_t i = 0; i < EDIT_SIZE; i++)
		text[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 23);
	memcpy(text + EDIT_SIZE * 3 / 4, FROM, strlen(FROM));
	put_file("edit-ours", text, EDIT_SIZE);
	put_file("edit-floor", text, EDIT_SIZE);
	free(text);

	if (mkdir("deep", 0700) < 0)
		err(1, "deep");
	for (char *p = path; (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		if (mkdir(path, 0700) < 0)
			err(1, "%s", path);
	}
	put_file(DIRS_12, "", 0);
	put_file("l0", "", 0);
	for (int i = 1; i <= 8; i++) {
		snprintf(link, sizeof(link), "l%d", i);
		snprintf(to, sizeof(to), "l%d", i - 1);
		if (symlink(to, link) < 0)
			err(1, "%s", link);
	}

	w.bulk_fd = memfd_create("bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	for (size_t at = 0; at < BULK;) {
		ssize_t n = write(w.bulk_fd, w.bulk + at, BULK - at);

		if (n < 0)
			err(1, "memfd");
		at += (size_t)n;
	}
	if (fcntl(w.bulk_fd, F_ADD_SEALS,
		F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		err(1, "memfd");

	w.res = (struct resolver){ .root = w.root,
		.depth = RESOLVE_HOPS_MAX,
		.root_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
		.proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC) };
	if (w.res.root_fd < 0 || w.res.proc_fd < 0)
		err(1, "descriptors");
}

static struct koda_session *
open_session(unsigned max_idle, bool history)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;
	struct koda_error e;

	options.root = w.root;
	options.mode = KODA_AUTO;
	options.helper_dir = w.helpers;
	options.max_idle = max_idle;
	/* Rows that write hundreds of megabytes would fill the history. */
	options.no_history = !history;
	ses = koda_session_open(&options, &e);
	if (ses == NULL)
		errx(1, "session: %s", e.message);
	return ses;
}

static struct koda_slot *
acquire(struct koda_session *ses, const struct koda_policy *policy)
{
	struct koda_error e;
	struct koda_slot *slot = koda_slot_acquire(ses, policy, &e);

	if (slot == NULL)
		errx(1, "slot: %s", e.message);
	return slot;
}

static int
start_processes(void)
{
	struct koda_policy *other;
	struct koda_error e;

	if (floor_peer_start(&w.peer) < 0)
		return -1;
	w.ses = open_session(0, false);
	w.slot = acquire(w.ses, NULL);
	koda_slot_release(acquire(w.ses, NULL));

	w.kept = open_session(0, true);
	w.keeping = acquire(w.kept, NULL);

	w.cold = open_session(1, false);
	other = koda_policy_new();
	if (other == NULL || koda_policy_add(other, KODA_DENY_READ, "/nowhere", &e) < 0 ||
	    koda_policy_freeze(other, &e) < 0)
		errx(1, "policy: %s", other == NULL ? "no memory" : e.message);
	koda_slot_release(acquire(w.cold, other));
	koda_policy_free(other);

	w.many = open_session(0, false);
	for (int i = 0; i < MANY; i++)
		w.live[i] = acquire(w.many, NULL);
	w.one_of_many = w.live[MANY / 2];
	return 0;
}

static void
stop_processes(void)
{
	koda_session_close(w.ses);
	koda_session_close(w.kept);
	koda_session_close(w.cold);
	koda_session_close(w.many);
	floor_peer_stop(&w.peer);
}

/* ---- memory ---- */

#define PRIVATE_REACH 150.0
#define PSS_REACH     (0.15 * 1e6 / 1024)

static size_t
measure_memory(struct value *ret)
{
	double private[MANY], pss[MANY];
	bool has_private = true, has_pss = true;

	for (int i = 0; i < MANY; i++) {
		struct memory m = MEMORY_EMPTY;

		memory_add(&m, koda_slot_pid(w.live[i]));
		private[i] = m.private;
		pss[i] = m.pss;
		has_private = has_private && m.has_private;
		has_pss = has_pss && m.has_pss;
	}
	ret[0] = (struct value){ "worker_private", "KiB", figure_of(private, MANY, false),
		has_private, PRIVATE_REACH };
	ret[1] = (struct value){ "worker_pss_100", "KiB", figure_of(pss, MANY, false), has_pss,
		PSS_REACH };
	return 2;
}

const struct group file_group = { "files", rows, N_ELEMENTS(rows), make_files, start_processes,
	stop_processes, measure_memory, NULL };
