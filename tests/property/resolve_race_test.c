/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process turns directories into links and back, and moves them about, as fast as it can,
 * while the worker reads, writes, edits, makes, removes and renames below them. Nothing outside
 * ever changes, and no file that may not be read is ever read. A tool that checks a path and then
 * opens it loses the same race at once, which proves that the race is real.
 *
 * KODA_RACE_OPS: how many operations in all. KODA_SOAK_SECONDS: for how long in all instead.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "include/koda/sandbox.h"
#include "tests/kit/proof_session.h"

#define OPS         20000
#define OUTSTANDING 96
#define SLOTS       2
#define NAIVE_SECS  30

#define CANARY  "CANARY: nobody writes here, and what is kept is not read\n"
#define DENIED  "DENIED: inside of the root, and not to be read\n"
#define GUARDED "GUARDED: to be read by everybody, to be written by nobody\n"

/* Links that replace directories: their targets, relative to the root. */
static const char *const leads_to[] = { "../kept", "../open", "secret", "guarded", "x1",
	"../root/x0/..", "../kept/d" };

struct world {
	char base[PATH_MAX], root[PATH_MAX];
	uint64_t kept, open, secret, guarded; /* hashes of the initial state */
};

static const char *
at(const struct world *w, const char *name)
{
	return proof_path("%s/%s", w->base, name);
}

/*
 *	kept/            outside; neither readable nor writable
 *	open/            outside; readable, not writable
 *	root/secret/     inside, deny_read
 *	root/guarded/    inside, deny_write_within_allow
 *	root/x0 ...      directories, each turned into a link and back
 *	root/m, root/n   directories that are moved, also out of the root
 *	away/            what is not in the root at the moment
 */
static void
world_make(struct world *w)
{
	static const char *const dirs[] = { "kept", "kept/d", "kept/d/e", "open", "open/d",
		"open/d/e", "away", "root", "root/secret", "root/secret/d", "root/guarded",
		"root/guarded/d", "root/m", "root/m/d", "root/plain" };
	static const struct {
		const char *dir, *text;
	} kinds[] = { { "kept", CANARY }, { "open", GUARDED }, { "root/secret", DENIED },
		{ "root/guarded", GUARDED } };

	proof_mkdtemp(w->base);
	snprintf(w->root, sizeof(w->root), "%s", at(w, "root"));
	for (size_t i = 0; i < N_ELEMENTS(dirs); i++)
		proof_mkdir(at(w, dirs[i]));
	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		proof_put(at(w, proof_path("%s/f", kinds[i].dir)), kinds[i].text);
		proof_put(at(w, proof_path("%s/g", kinds[i].dir)), kinds[i].text);
		proof_put(at(w, proof_path("%s/d/f", kinds[i].dir)), kinds[i].text);
	}
	proof_put(at(w, "root/plain/f"), "plain\n");
	for (size_t i = 0; i < N_ELEMENTS(leads_to); i++) {
		proof_mkdir(at(w, proof_path("root/x%zu", i)));
		proof_mkdir(at(w, proof_path("root/x%zu/d", i)));
		proof_put(at(w, proof_path("root/x%zu/f", i)), "inside\n");
		assert_int_equal(symlink(leads_to[i], at(w, proof_path("away/x%zu", i))), 0);
	}
	w->kept = proof_sum(at(w, "kept"));
	w->open = proof_sum(at(w, "open"));
	w->secret = proof_sum(at(w, "root/secret"));
	w->guarded = proof_sum(at(w, "root/guarded"));
}

static bool
world_is_whole(const struct world *w)
{
	return w->kept == proof_sum(at(w, "kept")) && w->open == proof_sum(at(w, "open")) &&
	    w->secret == proof_sum(at(w, "root/secret")) &&
	    w->guarded == proof_sum(at(w, "root/guarded"));
}

/* ---- the attacker ---- */

struct attacker {
	pid_t pid;
	volatile uint64_t *turns;
};

/* Exchanges a directory with its link. Puts back what the worker has removed. */
static bool
turn_about(struct rng *r, int root, int away)
{
	unsigned i = rng_below(r, N_ELEMENTS(leads_to));
	char name[8];

	snprintf(name, sizeof(name), "x%u", i);
	if (syscall(SYS_renameat2, root, name, away, name, 2 /* RENAME_EXCHANGE */) == 0)
		return true;
	mkdirat(root, name, 0755);
	if (faccessat(away, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
		if (symlinkat(leads_to[i], away, name) < 0)
			mkdirat(away, name, 0755);
	}
	return false;
}

/* Replaces a file with a link to one outside, or in a denied or guarded place. */
static bool
swap_file(struct rng *r, int root)
{
	static const char *const targets[] = { "../../kept/f", "../../open/f", "../secret/f",
		"../guarded/f" };
	char link[32];

	unlinkat(root, "plain/.link", 0);
	snprintf(link, sizeof(link), "plain/%c", "fgh"[rng_below(r, 3)]);
	if (symlinkat(targets[rng_below(r, N_ELEMENTS(targets))], root, "plain/.link") < 0)
		return false;
	if (rng_below(r, 2) == 0) {
		int fd =
		    openat(root, link, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

		if (fd >= 0)
			close(fd);
	}
	return renameat(root, "plain/.link", root, link) == 0 &&
	    (rng_below(r, 2) == 0 || unlinkat(root, link, 0) == 0);
}

static bool
move_about(struct rng *r, int root, int away)
{
	/* Not below a directory that may be a link just now: the attacker must not be its own
	 * victim. */
	static const char *const places[] = { "m", "n", "plain/m" };
	const char *from = places[rng_below(r, N_ELEMENTS(places))];
	const char *to = places[rng_below(r, N_ELEMENTS(places))];
	int from_dir = rng_below(r, 3) == 0 ? away : root,
	    to_dir = rng_below(r, 3) == 0 ? away : root;

	return syscall(SYS_renameat2, from_dir, from, to_dir, to, 1 /* RENAME_NOREPLACE */) == 0;
}

static void
attacker_start(struct attacker *a, const struct world *w, uint64_t seed)
{
	struct rng r = { seed };
	int root = open(w->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int away = open(at(w, "away"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid_t parent = getpid();

	assert_true(root >= 0 && away >= 0);
	a->turns = mmap(NULL, sizeof(*a->turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	    -1, 0);
	assert_true(a->turns != MAP_FAILED);
	a->pid = fork();
	assert_true(a->pid >= 0);
	if (a->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent) {
			unsigned x = rng_below(&r, 10);
			bool done = x < 6 ? turn_about(&r, root, away)
			    : x < 8       ? swap_file(&r, root)
					  : move_about(&r, root, away);

			if (done)
				__atomic_add_fetch(a->turns, 1, __ATOMIC_RELAXED);
		}
		_exit(0);
	}
	close(root);
	close(away);
}

static uint64_t
attacker_stop(struct attacker *a)
{
	uint64_t turns;

	kill(a->pid, SIGKILL);
	assert_int_equal(waitpid(a->pid, NULL, 0), a->pid);
	turns = *a->turns;
	munmap((void *)(uintptr_t)a->turns, sizeof(*a->turns));
	return turns;
}

static uint64_t seed;

/* ---- a tool that checks and then opens ---- */

/* Reports whether the path is below the root and not in a denied place, checked as carefully as
 * a path can be. */
static bool
naive_check(const struct world *w, const char *path, bool to_write)
{
	char real[PATH_MAX];
	size_t n = strlen(w->root);

	if (realpath(path, real) == NULL)
		return false;
	if (strncmp(real, w->root, n) != 0 || real[n] != '/')
		return false;
	if (strncmp(real + n, "/secret", 7) == 0)
		return false;
	return !to_write || strncmp(real + n, "/guarded", 8) != 0;
}

static const char *
naive_path(const struct world *w, struct rng *r)
{
	if (rng_below(r, 3) == 0)
		return proof_path("%s/plain/%c", w->root, "fgh"[rng_below(r, 3)]);
	return proof_path("%s/x%u/%s", w->root, rng_below(r, N_ELEMENTS(leads_to)),
	    rng_below(r, 2) == 0 ? "f" : "d/f");
}

static void
naive_write_loses(void **state)
{
	struct world w;
	struct attacker a;
	struct rng r = { seed + 1 };
	const double until = proof_seconds() + NAIVE_SECS;
	uint64_t tries = 0;
	bool lost = false;

	world_make(&w);
	attacker_start(&a, &w, seed);
	while (!lost && proof_seconds() < until) {
		const char *path = naive_path(&w, &r);
		cleanup_close int fd = -1;

		tries++;
		if (naive_check(&w, path, true))
			fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		if (fd >= 0)
			lost = write(fd, "agent\n", 6) == 6 && !world_is_whole(&w);
	}
	attacker_stop(&a);
	fprintf(stderr, "# checked, then opened: lost after %llu tries\n",
	    (unsigned long long)tries);
	assert_true(lost);
	proof_rmtree(w.base);
}

static void
naive_read_loses(void **state)
{
	struct world w;
	struct attacker a;
	struct rng r = { seed + 1 };
	const double until = proof_seconds() + NAIVE_SECS;
	bool lost = false;

	world_make(&w);
	attacker_start(&a, &w, seed);
	while (!lost && proof_seconds() < until) {
		const char *path = naive_path(&w, &r);
		cleanup_close int fd = -1;
		char buf[128] = "";

		if (naive_check(&w, path, false))
			fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0)
			lost = strcmp(buf, CANARY) == 0 || strcmp(buf, DENIED) == 0;
	}
	attacker_stop(&a);
	assert_true(lost);
	proof_rmtree(w.base);
}

/* ---- the worker ---- */

struct run {
	struct world w;
	struct rng rng;
	struct koda_slot *slot[SLOTS];
	uint64_t sent, answered;
	unsigned outstanding;
	uint64_t done[KODA_OP_EXPLAIN + 1], refused, failed[KODA_INTERNAL + 1];
	/* The first violation; "" if there was none. */
	char broken[KODA_MESSAGE_MAX + 128];
};

struct shot {
	struct run *run;
	enum koda_op_kind kind;
	char path[64], to[64];
};

static void
must_not(struct run *run, const struct shot *shot, const char *what)
{
	if (run->broken[0] == '\0')
		snprintf(run->broken, sizeof(run->broken), "operation %d on '%s' ('%s'): %s",
		    (int)shot->kind, shot->path, shot->to, what);
}

static bool
tells_secret(const void *data, size_t len)
{
	return memmem(data, len, "CANARY", 6) != NULL || memmem(data, len, "DENIED", 6) != NULL;
}

static void
shot_done(void *data, const struct koda_result *res, const struct koda_error *err)
{
	cleanup_free struct shot *shot = data;
	struct run *run = shot->run;

	run->outstanding--;
	run->answered++;
	if (err != NULL) {
		run->failed[err->code]++;
		run->refused += err->code == KODA_POLICY_DENIED;
		/* Another process's file was in the way when the worker tried to put something
		 * back: the outcome is unknown. */
		if (err->code == KODA_UNKNOWN && run->failed[KODA_UNKNOWN] == 1)
			fprintf(stderr, "# the first of the unknown: %s\n", err->message);
		if (tells_secret(err->message, strlen(err->message)))
			must_not(run, shot, "an error tells content");
		if (err->code != KODA_POLICY_DENIED && err->code != KODA_IO &&
		    err->code != KODA_CONFLICT && err->code != KODA_INVALID &&
		    err->code != KODA_UNKNOWN)
			must_not(run, shot, err->message);
		return;
	}
	run->done[shot->kind]++;
	if (res->data != NULL && tells_secret(res->data, res->len))
		must_not(run, shot, "read what may not be read");
	/* Only files that may not be read have that size. */
	if (shot->kind == KODA_OP_STAT && res->type == KODA_FILE_REGULAR &&
	    (res->size == sizeof(CANARY) - 1 || res->size == sizeof(DENIED) - 1))
		must_not(run, shot, "looked at what may not be read");
	if (shot->kind == KODA_OP_EDIT &&
	    (res->size_before == sizeof(CANARY) - 1 || res->size_before == sizeof(DENIED) - 1))
		must_not(run, shot, "edited what may not be read");
}

static void
any_place(struct rng *r, char ret[64], bool file)
{
	static const char *const in_dir[] = { "f", "d/f", "g", "new", "d/new", "p/q/new", "d/../f",
		"m/f" };
	static const char *const dirs[] = { "d", "newdir", "p/q", "d/e", "", "m" };
	unsigned x = rng_below(r, 12);
	char dir[32];

	if (x < 8)
		snprintf(dir, sizeof(dir), "x%u", rng_below(r, N_ELEMENTS(leads_to)));
	else if (x < 10)
		snprintf(dir, sizeof(dir), "plain");
	else
		snprintf(dir, sizeof(dir), "%s", x == 10 ? "m" : "n");
	snprintf(ret, 64, "%s/%s", dir,
	    file ? in_dir[rng_below(r, N_ELEMENTS(in_dir))] : dirs[rng_below(r, N_ELEMENTS(dirs))]);
	if (x == 8)
		snprintf(ret, 64, "plain/%c", "fgh"[rng_below(r, 3)]);
}

static void
shoot(struct run *run)
{
	static const enum koda_op_kind kinds[] = { KODA_OP_READ, KODA_OP_READ, KODA_OP_READ,
		KODA_OP_WRITE, KODA_OP_WRITE, KODA_OP_WRITE, KODA_OP_EDIT, KODA_OP_EDIT,
		KODA_OP_MKDIR, KODA_OP_REMOVE, KODA_OP_RENAME, KODA_OP_STAT, KODA_OP_LIST };
	struct rng *r = &run->rng;
	struct shot *shot = calloc(1, sizeof(*shot));
	const bool up = rng_below(r, 2) == 0;
	struct koda_edit edit = { up ? "e" : "E", 1, up ? "E" : "e", 1, true };
	struct koda_op op = { .kind = kinds[rng_below(r, N_ELEMENTS(kinds))] };
	struct koda_error err;

	assert_non_null(shot);
	shot->run = run;
	shot->kind = op.kind;
	any_place(r, shot->path,
	    op.kind != KODA_OP_MKDIR && op.kind != KODA_OP_LIST && rng_below(r, 8) != 0);
	any_place(r, shot->to, rng_below(r, 2) == 0);
	op.path = shot->path;
	op.flags = rng_below(r, 2) == 0 ? KODA_DIGEST | KODA_PARENTS | KODA_OVERWRITE : 0;
	if (op.kind == KODA_OP_RENAME) {
		op.to = shot->to;
	} else if (op.kind == KODA_OP_WRITE) {
		op.data = "inside, by an agent\n";
		op.len = 20;
	} else if (op.kind == KODA_OP_EDIT) {
		op.edits = &edit;
		op.n_edits = 1;
	} else if (op.kind == KODA_OP_REMOVE && rng_below(r, 4) == 0) {
		op.flags |= KODA_RECURSIVE;
	}
	if (koda_call_async(run->slot[rng_below(r, SLOTS)], &op, shot_done, shot, &err) < 0)
		fail_msg("call: %s", err.message);
	run->sent++;
	run->outstanding++;
}

/* Writes the files again, so that some operation is always possible: the attacker itself only
 * exchanges. */
static void
refill(struct run *run)
{
	struct koda_error err;

	for (size_t i = 0; i < N_ELEMENTS(leads_to); i++) {
		static const char *const names[] = { "f", "d/f" };

		for (size_t k = 0; k < N_ELEMENTS(names); k++) {
			struct koda_result res;

			if (koda_fs_write(run->slot[0], proof_path("x%zu/%s", i, names[k]),
				"inside again\n", 13, &res, &err) == 0)
				koda_result_done(&res);
		}
	}
}

static struct koda_policy *
race_policy(const struct world *w)
{
	struct koda_error err;
	struct koda_policy *p = koda_policy_for_agent(KODA_AUTO, w->root, &err);

	assert_non_null(p);
	assert_int_equal(koda_policy_add(p, KODA_DENY_READ, at(w, "kept"), &err), 0);
	assert_int_equal(koda_policy_add(p, KODA_DENY_READ, at(w, "root/secret"), &err), 0);
	assert_int_equal(koda_policy_add(p, KODA_DENY_WRITE_WITHIN_ALLOW, at(w, "root/guarded"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	return p;
}

static void
race(enum koda_mode mode)
{
	struct run run = { .rng = { seed + 2 } };
	const double soak = (double)proof_number("KODA_SOAK_SECONDS", 0) / 2;
	const uint64_t ops = soak > 0 ? UINT64_MAX : proof_number("KODA_RACE_OPS", OPS) / 2;
	const double until = proof_seconds() + (soak > 0 ? soak : 1e9);
	struct koda_session *ses;
	struct koda_policy *policy;
	struct koda_stats stats;
	struct koda_error err;
	struct attacker a;
	uint64_t turns;

	world_make(&run.w);
	policy = race_policy(&run.w);
	attacker_start(&a, &run.w, seed);
	ses = proof_session(run.w.root, mode, policy, NULL);
	for (size_t i = 0; i < SLOTS; i++)
		run.slot[i] = proof_slot(ses);
	while (run.sent < ops && proof_seconds() < until && run.broken[0] == '\0') {
		while (run.outstanding < OUTSTANDING && run.sent < ops)
			shoot(&run);
		assert_true(koda_session_dispatch(ses, -1, &err) >= 0);
		if (run.sent % 512 == 0)
			refill(&run);
		if (run.sent % 8192 == 0 && !world_is_whole(&run.w))
			snprintf(run.broken, sizeof(run.broken), "what is kept changed");
	}
	while (run.outstanding > 0)
		assert_true(koda_session_dispatch(ses, -1, &err) >= 0);
	turns = attacker_stop(&a);
	koda_session_stats(ses, &stats);
	for (size_t i = 0; i < SLOTS; i++)
		koda_slot_release(run.slot[i]);
	koda_session_close(ses);
	koda_policy_free(policy);

	fprintf(stderr,
	    "# %llu operations, %llu turns; read %llu write %llu edit %llu stat %llu list %llu "
	    "mkdir %llu remove %llu rename %llu; refused %llu io %llu conflict %llu unknown %llu\n",
	    (unsigned long long)run.answered, (unsigned long long)turns,
	    (unsigned long long)run.done[KODA_OP_READ], (unsigned long long)run.done[KODA_OP_WRITE],
	    (unsigned long long)run.done[KODA_OP_EDIT], (unsigned long long)run.done[KODA_OP_STAT],
	    (unsigned long long)run.done[KODA_OP_LIST], (unsigned long long)run.done[KODA_OP_MKDIR],
	    (unsigned long long)run.done[KODA_OP_REMOVE],
	    (unsigned long long)run.done[KODA_OP_RENAME], (unsigned long long)run.refused,
	    (unsigned long long)run.failed[KODA_IO], (unsigned long long)run.failed[KODA_CONFLICT],
	    (unsigned long long)run.failed[KODA_UNKNOWN]);
	if (run.broken[0] != '\0')
		fail_msg("%s", run.broken);
	assert_true(world_is_whole(&run.w));
	assert_int_equal(run.answered, run.sent);
	/* No worker died, and there was a race: operations succeeded, operations were refused,
	 * and directories moved. */
	assert_int_equal(stats.respawns, 0);
	assert_true(turns > run.sent / 20);
	assert_true(run.failed[KODA_UNKNOWN] <= 10 + run.sent / 500);
	assert_true(run.refused > run.sent / 50);
	for (int kind = KODA_OP_READ; kind <= KODA_OP_RENAME; kind++) {
		if (run.done[kind] * 1000 < run.sent)
			fail_msg("operation %d was hardly ever done: nothing is shown about it",
			    kind);
	}
	proof_rmtree(run.w.base);
}

static void
worker_wins(void **state)
{
	race(KODA_AUTO);
}

/*
 * On a kernel without Landlock, Safe still starts: the worker's own checks have to be enough. From
 * here on this process and its children run as on such a kernel.
 */
static void
worker_wins_without_landlock(void **state)
{
	/* clang-format off */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct sock_fprog filter = { .len = N_ELEMENTS(code), .filter = code };

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
	assert_int_equal(syscall(SYS_landlock_create_ruleset, NULL, 0, 1), -1);
	assert_int_equal(errno, ENOSYS);
	race(KODA_SAFE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(naive_write_loses), cmocka_unit_test(naive_read_loses),
		cmocka_unit_test(worker_wins),
		cmocka_unit_test(worker_wins_without_landlock), /* last: the filter stays */
	};

	seed = proof_seed();
	return cmocka_run_group_tests_name("resolve_race", tests, NULL, NULL);
}
