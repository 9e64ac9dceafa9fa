/*
 * sandbox_bench [--short] [--json FILE] [--dir DIR] [--only NAME]: what the sandbox costs, beside what
 * plain C costs (floor.h) in the same run. Fails on nothing but on what does not work.
 *
 * The ratios that count are taken with everything on one processor: a wake-up across processors
 * costs several times one on the same, and which it is is up to the scheduler. The same with
 * processes where the kernel puts them stands beside it as "free".
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <koda/sandbox.h>

#include "bench/floor.h"
#include "bench/measure.h"
#include "shared/cleanup.h"
#include "worker/resolve.h"

#define SMALL     4096u
#define EDIT_SIZE (16u << 10)
#define READ_SIZE (64u << 10)
#define BULK      (256u << 20)
#define BULK_STEP (1u << 20) /* read with a buffer of that size */
#define DEEP      64         /* outstanding */
#define DEEP_OPS  256        /* writes that make one sample */
#define MANY      100

#define DIRS_12 "a/b/c/d/e/f/g/h/i/j/k/file"
#define LINKS_8 "l8"
#define FROM    "the quick brown fox"
#define TO      "the quick green fox"

static struct {
	const char *root;
	struct floor_peer peer;
	struct koda_session *ses, *cold, *many;
	struct koda_slot *slot, *fresh, *one_of_many;
	struct koda_slot *live[MANY];
	uint8_t *bulk; /* BULK bytes, also where a read goes */
	int bulk_fd;   /* the same, as a sealed memfd */
	bool edited[2];
	unsigned deep_begun, deep_done, deep_failed;
	struct resolver res;
	struct place place;
} w = { .bulk_fd = -1 };

static int
complain(const char *what, const struct koda_error *e)
{
	fprintf(stderr, "%s: %s: %s\n", what, koda_code_name(e->code), e->message);
	return -1;
}

static int
do_op(struct koda_slot *slot, const struct koda_op *op, const char *what)
{
	struct koda_result result;
	struct koda_error e;

	if (koda_call(slot, op, &result, &e) < 0)
		return complain(what, &e);
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
		complain("write", e);
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
				return complain("write", &e);
			w.deep_begun++;
		}
		if (koda_session_dispatch(w.ses, -1, &e) < 0)
			return complain("dispatch", &e);
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
		return complain("read", &e);
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
		return complain("read", &e);
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
		return complain("resolve", &e);
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
		return complain("resolve", &e);
	place_done(&w.place);
	return 0;
}

/* The pool of this session is full with a slot of another policy: each slot is a new worker, and is
 * not kept. */
static int
spawn_ours(void *data)
{
	struct koda_error e;

	w.fresh = koda_slot_acquire(w.cold, NULL, &e);
	return w.fresh == NULL ? complain("acquire", &e) : 0;
}

static int
spawn_after(void *data)
{
	struct koda_error e;

	koda_slot_release(w.fresh);
	return koda_session_dispatch(w.cold, 0, &e) < 0 ? complain("dispatch", &e) : 0;
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
		return complain("acquire", &e);
	koda_slot_release(slot);
	return 0;
}

static int
many_ours(void *data)
{
	return write_small(w.one_of_many, "ours");
}

static int
many_floor(void *data)
{
	return write_small(w.slot, "ours");
}

/* clang-format off */
static const struct row {
	const char *name, *unit;
	double scale; /* from ns, or from units a second */
	struct race race;
	double reach; /* of the ratio; 0: reported only */
	unsigned min; /* batches, however long they take */
} rows[] = {
	{ "ping",           "us",    1e-3, { ping_ours,       ping_floor,       .batch = 64, .repeat = 1 }, 1.2, 4 },
	{ "write_4k",       "us",    1e-3, { write_ours,      write_floor,      .batch = 16, .repeat = 1 }, 1.25, 4 },
	{ "write_4k_deep64", "ops/s", 1,   { deep_ours,       deep_floor,       .batch = 1, .repeat = 1,
	                                     .amount = DEEP_OPS }, 0.85, 4 },
	{ "edit_16k",       "us",    1e-3, { edit_ours,       edit_floor,       .batch = 16, .repeat = 1 }, 1.3, 4 },
	{ "read_64k",       "us",    1e-3, { read_ours,       read_floor,       .batch = 32, .repeat = 1 }, 1.5, 4 },
	{ "read_256m",      "MB/s",  1e-6, { bulk_read_ours,  bulk_read_floor,  .batch = 1, .repeat = 1,
	                                     .amount = BULK }, 0.9, 3 },
	{ "write_256m",     "MB/s",  1e-6, { bulk_write_ours, bulk_write_floor, .batch = 1, .repeat = 1,
	                                     .amount = BULK }, 0.9, 3 },
	{ "resolve_deep",   "us",    1e-3, { resolve_ours,    resolve_floor,    .batch = 16, .repeat = 32 }, 1.5, 4 },
	{ "resolve_links",  "us",    1e-3, { links_ours,      NULL,             .batch = 16, .repeat = 32 }, 0, 4 },
	{ "spawn_ready",    "us",    1e-3, { spawn_ours,      spawn_floor,      spawn_after, .batch = 4, .repeat = 1 }, 1.2, 4 },
	{ "acquire_warm",   "us",    1e-3, { warm_ours,       ping_floor,       .batch = 64, .repeat = 1 }, 1.3, 4 },
	{ "slots_100",      "us",    1e-3, { many_ours,       many_floor,       .batch = 16, .repeat = 1 }, 1.2, 4 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
put_file(const char *name, const void *data, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (size_t at = 0; fd >= 0 && at < len;) {
		ssize_t n = write(fd, (const char *)data + at, len - at);

		if (n < 0)
			err(1, "%s", name);
		at += (size_t)n;
	}
	if (fd < 0 || close(fd) < 0)
		err(1, "%s", name);
}

static void
make_files(void)
{
	char path[] = DIRS_12, link[16], to[16];
	char *text;

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
open_session(unsigned max_idle)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;
	struct koda_error e;

	options.root = w.root;
	options.mode = KODA_AUTO;
	options.helper_dir = KODA_BENCH_HELPER_DIR;
	options.max_idle = max_idle;
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

/* All that lives in processes, which stay on the processor where they are started. */
static void
start_processes(void)
{
	struct koda_policy *other;
	struct koda_error e;

	if (floor_peer_start(&w.peer) < 0)
		exit(1);
	w.ses = open_session(0);
	w.slot = acquire(w.ses, NULL);
	koda_slot_release(acquire(w.ses, NULL));

	w.cold = open_session(1);
	other = koda_policy_new();
	if (other == NULL || koda_policy_add(other, KODA_DENY_READ, "/nowhere", &e) < 0 ||
	    koda_policy_freeze(other, &e) < 0)
		errx(1, "policy: %s", other == NULL ? "no memory" : e.message);
	koda_slot_release(acquire(w.cold, other));
	koda_policy_free(other);

	w.many = open_session(0);
	for (int i = 0; i < MANY; i++)
		w.live[i] = acquire(w.many, NULL);
	w.one_of_many = w.live[MANY / 2];
}

static void
stop_processes(void)
{
	koda_session_close(w.ses);
	koda_session_close(w.cold);
	koda_session_close(w.many);
	floor_peer_stop(&w.peer);
}

/* ---- memory ---- */

/* KiB of one process. Its smaps are root's, because no worker is dumpable. */
static int
memory_of(int pid, double *ret_private, double *ret_pss)
{
	char path[64], line[256];
	unsigned long kib;
	FILE *f;

	*ret_private = *ret_pss = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "Pss: %lu", &kib) == 1)
			*ret_pss = (double)kib;
		if (sscanf(line, "Private_Clean: %lu", &kib) == 1 ||
		    sscanf(line, "Private_Dirty: %lu", &kib) == 1)
			*ret_private += (double)kib;
	}
	fclose(f);
	return 0;
}

/* An ordinary user sees the anonymous pages only: resident less what is mapped from files. */
static int
anonymous_of(int pid, double *ret)
{
	unsigned long size, resident, shared;
	char path[64];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	n = fscanf(f, "%lu %lu %lu", &size, &resident, &shared);
	fclose(f);
	if (n != 3)
		return -1;
	*ret = (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) / 1024;
	return 0;
}

struct memory {
	struct figure private, pss;
	bool has_private, has_pss;
};

static struct memory
measure_memory(void)
{
	double private[MANY], pss[MANY];
	struct memory m = { .has_private = true, .has_pss = true };

	for (int i = 0; i < MANY; i++) {
		int pid = koda_slot_pid(w.live[i]);

		if (memory_of(pid, &private[i], &pss[i]) == 0)
			continue;
		m.has_pss = false;
		if (anonymous_of(pid, &private[i]) < 0)
			m.has_private = false;
	}
	if (m.has_private)
		m.private = figure_of(private, MANY, false);
	if (m.has_pss)
		m.pss = figure_of(pss, MANY, false);
	return m;
}

/* ---- telling ---- */

struct result {
	bool ran[2]; /* pinned, free */
	struct outcome outcome[2];
};

static double
ratio(const struct outcome *o)
{
	return o->ours.p50 / o->floor.p50;
}

static const char *
file_system(void)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{ 0xef53, "ext4" },
		{ 0x01021994, "tmpfs" },
		{ 0x794c7630, "overlayfs" },
		{ 0x9123683e, "btrfs" },
		{ 0x58465342, "xfs" },
	};
	static char other[32];
	struct statfs fs;

	if (statfs(".", &fs) < 0)
		err(1, "statfs");
	for (size_t i = 0; i < N_ELEMENTS(known); i++)
		if ((unsigned long)fs.f_type == known[i].magic)
			return known[i].name;
	snprintf(other, sizeof(other), "0x%lx", (unsigned long)fs.f_type);
	return other;
}

static void
print_side(const struct outcome *o, const struct row *row)
{
	printf("%10.1f %10.1f", o->ours.p50 * row->scale, o->ours.p99 * row->scale);
	if (row->race.floor != NULL)
		printf(" %10.1f %10.1f %6.2f", o->floor.p50 * row->scale, o->floor.p99 * row->scale,
		    ratio(o));
	else
		printf(" %10s %10s %6s", "-", "-", "-");
}

static void
print_row(const struct row *row, const struct result *r)
{
	bool rate = row->race.amount > 0;
	const char *verdict = "";
	char reach[16] = "-";

	if (!r->ran[0]) {
		printf("%-16s FAILED\n", row->name);
		return;
	}
	if (row->reach > 0) {
		double is = ratio(&r->outcome[0]);

		snprintf(reach, sizeof(reach), "%s %.2f", rate ? ">=" : "<=", row->reach);
		if (rate ? is < row->reach : is > row->reach)
			verdict = " *";
	}
	printf("%-16s %-6s", row->name, row->unit);
	print_side(&r->outcome[0], row);
	printf(" %8s", reach);
	if (r->ran[1] && row->race.floor != NULL)
		printf(" %10.1f %10.1f %6.2f", r->outcome[1].ours.p50 * row->scale,
		    r->outcome[1].floor.p50 * row->scale, ratio(&r->outcome[1]));
	else if (r->ran[1])
		printf(" %10.1f %10s %6s", r->outcome[1].ours.p50 * row->scale, "-", "-");
	printf("%s\n", verdict);
	fflush(stdout);
}

static void
json_sides(FILE *f, const struct row *row, const struct outcome *o)
{
	fprintf(f, "\"ours\": {\"p50\": %.3f, \"p99\": %.3f}, ", o->ours.p50 * row->scale,
	    o->ours.p99 * row->scale);
	if (row->race.floor != NULL)
		fprintf(f, "\"floor\": {\"p50\": %.3f, \"p99\": %.3f}, \"ratio\": %.3f",
		    o->floor.p50 * row->scale, o->floor.p99 * row->scale, ratio(o));
	else
		fprintf(f, "\"floor\": null, \"ratio\": null");
}

static void
json_row(FILE *f, const struct row *row, const struct result *r)
{
	fprintf(f, "  {\"name\": \"%s\", \"unit\": \"%s\", ", row->name, row->unit);
	json_sides(f, row, &r->outcome[0]);
	if (row->reach > 0)
		fprintf(f, ", \"reach\": {\"ratio\": {\"%s\": %.2f}}",
		    row->race.amount > 0 ? "at_least" : "at_most", row->reach);
	else
		fprintf(f, ", \"reach\": null");
	fprintf(f, ", \"samples\": %zu, \"file_system\": \"%s\", \"free\": ", r->outcome[0].n,
	    file_system());
	if (r->ran[1]) {
		fprintf(f, "{");
		json_sides(f, row, &r->outcome[1]);
		fprintf(f, "}");
	} else {
		fprintf(f, "null");
	}
	fprintf(f, "}");
}

/* A value without a floor: what is to be reached is the value. */
static void
json_memory(FILE *f, const char *name, struct figure figure, bool has, double reach)
{
	fprintf(f, "  {\"name\": \"%s\", \"unit\": \"KiB\", \"ours\": ", name);
	if (has)
		fprintf(f, "{\"p50\": %.1f, \"p99\": %.1f}", figure.p50, figure.p99);
	else
		fprintf(f, "null");
	fprintf(f,
	    ", \"floor\": null, \"ratio\": null, \"reach\": {\"ours\": {\"at_most\": %.1f}}}",
	    reach);
}

#define PRIVATE_REACH 150.0
#define PSS_REACH     (0.15 * 1e6 / 1024)

static void
print_memory(const char *name, struct figure figure, bool has, double reach)
{
	char value[16];

	if (!has) {
		printf("%-16s not to be seen by this user\n", name);
		return;
	}
	snprintf(value, sizeof(value), "<= %.0f", reach);
	printf("%-16s %-6s%10.1f %10.1f %10s %10s %6s %8s%s\n", name, "KiB", figure.p50, figure.p99,
	    "-", "-", "-", value, figure.p50 > reach ? " *" : "");
}

static void
write_json(FILE *f, const struct result *results, const struct memory *m, const char *only)
{
	const char *comma = "";

	fprintf(f, "[\n");
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		if (!results[i].ran[0])
			continue;
		fprintf(f, "%s", comma);
		json_row(f, &rows[i], &results[i]);
		comma = ",\n";
	}
	if (only == NULL) {
		fprintf(f, "%s", comma);
		json_memory(f, "worker_private", m->private, m->has_private, PRIVATE_REACH);
		fprintf(f, ",\n");
		json_memory(f, "worker_pss_100", m->pss, m->has_pss, PSS_REACH);
	}
	fprintf(f, "\n]\n");
	if (fclose(f) != 0)
		err(1, "json");
}

/* ---- running ---- */

static bool
run_all(bool pinned, bool brief, const char *only, struct result *results, struct memory *m)
{
	double seconds = pinned ? (brief ? 0.6 : 5) : (brief ? 0.2 : 2);
	bool ok = true;

	if (pin(pinned) < 0)
		err(1, "processor affinity");
	start_processes();
	if (pinned)
		*m = measure_memory();
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		if (only != NULL && strcmp(only, rows[i].name) != 0)
			continue;
		if (race_run(&rows[i].race, seconds, brief ? 2 : rows[i].min,
			&results[i].outcome[!pinned]) == 0)
			results[i].ran[!pinned] = true;
		else
			ok = false;
	}
	stop_processes();
	return ok;
}

static void
make_root(const char *dir)
{
	static char real[PATH_MAX];
	char template[PATH_MAX];

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		err(1, "%s", dir);
	snprintf(template, sizeof(template), "%s/bench.XXXXXX", dir);
	if (mkdtemp(template) == NULL || realpath(template, real) == NULL || chdir(real) < 0)
		err(1, "%s", template);
	w.root = real;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "short", no_argument, NULL, 's' },
		{ "json", required_argument, NULL, 'j' },
		{ "dir", required_argument, NULL, 'd' },
		{ "only", required_argument, NULL, 'o' },
		{ NULL, 0, NULL, 0 },
	};
	const char *dir = KODA_BENCH_DIR, *only = NULL;
	static struct result results[N_ELEMENTS(rows)];
	struct memory m = { 0 };
	FILE *json = NULL;
	double load[1];
	bool brief = false, ok;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			brief = true;
			break;
		case 'j':
			json = fopen(optarg, "we");
			if (json == NULL)
				err(1, "%s", optarg);
			break;
		case 'd':
			dir = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		default:
			return 2;
		}
	}
	make_root(dir);
	make_files();
	if (getloadavg(load, N_ELEMENTS(load)) < 1)
		load[0] = -1;
	/* A busy machine costs ours, which is two processes, more than the floor, which mostly is one. */
	printf("files on %s; load average %.1f; '*': not what is to be reached\n", file_system(),
	    load[0]);
	printf("%-16s %-6s%10s %10s %10s %10s %6s %8s %10s %10s %6s\n", "", "", "ours p50", "p99",
	    "floor p50", "p99", "ratio", "reach", "free: ours", "floor", "ratio");
	ok = run_all(true, brief, only, results, &m);
	ok = run_all(false, brief, only, results, &m) && ok;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++)
		if (only == NULL || strcmp(only, rows[i].name) == 0)
			print_row(&rows[i], &results[i]);
	if (only == NULL) {
		print_memory("worker_private", m.private, m.has_private, PRIVATE_REACH);
		print_memory("worker_pss_100", m.pss, m.has_pss, PSS_REACH);
	}
	if (json != NULL)
		write_json(json, results, &m, only);
	if (chdir("/") < 0 || nftw(w.root, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
		warn("%s", w.root);
	return ok ? 0 : 1;
}
