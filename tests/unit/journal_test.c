/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/protect/journal.c: the journal of a session on disk: written, read, damaged, cut; and
 * which host is live and which is dead.
 */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/protect/journal.h"
#include "host/protect/journal_visit.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "tests/kit/proof.h"
#include "tests/kit/sanitized.h"

static char base[PATH_MAX];

static int
set_up(void **state)
{
	proof_mkdtemp(base);
	return 0;
}

static int
tear_down(void **state)
{
	proof_rmtree(base);
	return 0;
}

static int
open_base(void)
{
	int fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static Koda__Place
place_at(char *path, uint64_t ino)
{
	Koda__Place p = KODA__PLACE__INIT;

	p.kind = KODA__PLACE_KIND__PLACE_RULE;
	p.type = KODA__FILE_TYPE__FILE_REGULAR;
	p.path = (ProtobufCBinaryData){ strlen(path), (uint8_t *)path };
	p.ino = ino;
	return p;
}

/* The journal of the base directory itself, which exists, with one known place and one that came
 * later. */
static void
begin_with(struct journal *j, const char *name)
{
	char known[PATH_MAX + 16], came[PATH_MAX + 16];
	struct policy policy;
	const char *dir = base;
	Koda__Place first, second, *list[1] = { &first };
	struct journal_input in = { .root = base,
		.policy = &policy,
		.dir = &dir,
		.n_dirs = 1,
		.place = list,
		.n_places = 1 };
	struct koda_error err;

	snprintf(known, sizeof(known), "%s/known", base);
	snprintf(came, sizeof(came), "%s/came", base);
	first = place_at(known, 7);
	second = place_at(came, 8);
	policy_init(&policy);
	assert_int_equal(policy_list_add(&policy.list[KODA_DENY_WRITE_WITHIN_ALLOW], known, NULL),
	    0);
	assert_int_equal(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], name, NULL), 0);
	if (journal_begin(j, open_base(), &in, &err) < 0)
		fail_msg("%s", err.message);
	journal_add(j, &second);
	policy_done(&policy);
}

static void
begin(struct journal *j)
{
	begin_with(j, ".vscode");
}

static struct {
	unsigned wanted, finished, all, live, damaged;
	size_t n_place, n_more, n_rule, n_name;
} seen;

static void
note(const struct journal_found *f)
{
	seen.n_place = f->journal != NULL ? f->journal->n_place : 0;
	seen.n_rule = f->journal != NULL ? f->journal->n_rule : 0;
	seen.n_name = f->journal != NULL ? f->journal->n_name : 0;
	seen.n_more = f->n_more;
}

static bool
wanted(void *data, const struct journal_found *f)
{
	seen.wanted++;
	seen.damaged += f->journal == NULL;
	note(f);
	return data != NULL;
}

static int
finish(void *data, const struct journal_found *f, struct koda_error *err)
{
	seen.finished++;
	return f->journal != NULL;
}

static int
wait_for(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	return poll(fds, n, timeout_ms);
}

static void
on_any(void *data, const struct journal_found *f)
{
	seen.all++;
	seen.live += f->live;
	note(f);
}

static void
visit(bool want)
{
	const struct journal_visitor by = { wanted, finish, wait_for, want ? &seen : NULL };
	cleanup_close int fd = open_base();
	struct koda_error err;
	bool left;

	memset(&seen, 0, sizeof(seen));
	if (journal_visit(fd, &by, &left, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(left);
	journal_visit_all(fd, NULL, on_any, NULL);
}

static void
alive_and_dead(void **state)
{
	struct journal j;

	begin(&j);
	visit(true);
	assert_int_equal(seen.wanted, 0);
	assert_int_equal(seen.live, 1);
	assert_int_equal(seen.n_more, 1);
	journal_end(&j, false);
	visit(false);
	assert_int_equal(seen.wanted, 1);
	assert_int_equal(seen.finished, 0);
	assert_int_equal(seen.all, 1);
	assert_int_equal(seen.live, 0);
	assert_int_equal(seen.n_place, 1);
	assert_int_equal(seen.n_more, 1);
	assert_int_equal(seen.n_rule, 1);
	assert_int_equal(seen.n_name, 1);
	visit(true);
	assert_int_equal(seen.finished, 1);
	visit(true);
	assert_int_equal(seen.wanted, 0);
	/* A session that was compared leaves no journal. */
	begin(&j);
	journal_end(&j, true);
	visit(true);
	assert_int_equal(seen.wanted + seen.all, 0);
}

/* A name that no policy can have: the journal is damaged even if its sum is right. */
static void
no_name(void **state)
{
	static const char *const names[] = { "/etc", "", "a//b", "*" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		struct journal j;

		begin_with(&j, names[i]);
		journal_end(&j, false);
		visit(true);
		assert_int_equal(seen.damaged, 1);
		proof_rmtree(base);
		assert_int_equal(mkdir(base, 0700), 0);
	}
}

/* A place that was added later is validated like those that were there: what comes after one that
 * is not a path does not count. */
static void
no_path(void **state)
{
	static const char *const paths[] = { "relative", "", "../x" };

	for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
		Koda__Place place, good;
		char path[16], good_path[PATH_MAX + 16];
		struct journal j;

		snprintf(path, sizeof(path), "%s", paths[i]);
		snprintf(good_path, sizeof(good_path), "%s/good", base);
		place = place_at(path, 9);
		good = place_at(good_path, 10);
		begin(&j);
		/* As the journal of the caches, which takes places of any path. */
		free(j.file[0].dir);
		j.file[0].dir = NULL;
		journal_add(&j, &place);
		journal_add(&j, &good);
		journal_end(&j, false);
		visit(true);
		assert_int_equal(seen.finished, 1);
		assert_int_equal(seen.n_place, 1);
		assert_int_equal(seen.n_more, 1);
	}
}

/* Reads the only file in the directory. Returns its length. */
static size_t
content(char path[PATH_MAX * 2], uint8_t *buf, size_t size)
{
	FILE *f;
	size_t n;
	char line[NAME_MAX + 2], command[PATH_MAX + 16];

	snprintf(command, sizeof(command), "ls '%s'", base);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	pclose(f);
	line[strcspn(line, "\n")] = '\0';
	snprintf(path, PATH_MAX * 2, "%s/%s", base, line);
	f = fopen(path, "r");
	assert_non_null(f);
	n = fread(buf, 1, size, f);
	fclose(f);
	return n;
}

static void
put(const char *path, const uint8_t *buf, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(buf, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* A changed bit is found; after the sum it may cost what was added later, and nothing else. */
static void
each_bit(void **state)
{
	char path[PATH_MAX * 2];
	uint8_t buf[65536];
	struct journal j;
	unsigned damaged = 0;
	size_t n, summed;

	begin(&j);
	journal_end(&j, false);
	n = content(path, buf, sizeof(buf));
	/* Magic, length and content of the journal, and their sum. */
	summed = 7 + 4 + (size_t)(buf[9] << 8 | buf[10]) + 16;
	for (size_t i = 0; i < 8 * n; i++) {
		buf[i / 8] ^= (uint8_t)(1u << i % 8);
		put(path, buf, n);
		buf[i / 8] ^= (uint8_t)(1u << i % 8);
		visit(false);
		assert_int_equal(seen.wanted, 1);
		assert_true(seen.damaged == 1 || (seen.n_place == 1 && seen.n_rule == 1));
		assert_true(seen.n_more <= 1);
		damaged += seen.damaged;
		/* Damage is found from the first bit on, up to the sum's last, and not after it. */
		assert_int_equal(seen.damaged, i < 8 * summed);
	}
	assert_int_equal(damaged, 8 * summed);
	assert_true(damaged > 8 * 100 && damaged < 8 * n);
}

static void
each_length(void **state)
{
	char path[PATH_MAX * 2];
	uint8_t buf[65536];
	struct journal j;
	size_t n;

	begin(&j);
	journal_end(&j, false);
	n = content(path, buf, sizeof(buf));
	for (size_t i = 0; i <= n; i++) {
		put(path, buf, i);
		visit(false);
		assert_int_equal(seen.wanted, 1);
		assert_true(seen.damaged == 1 || (seen.n_place == 1 && seen.n_rule == 1));
		assert_int_equal(seen.n_more, i == n);
	}
	assert_int_equal(seen.damaged, 0);
}

/* A link, a FIFO, a directory, a file with another kind of name: damaged or skipped, never
 * waited for. */
static void
odd_files(void **state)
{
	char path[PATH_MAX * 2];
	static const char *const names[] = { "link", "fifo", "dir", ".new-x", "a.finishing" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, names[i]);
		if (i == 0)
			assert_int_equal(symlink("/etc/passwd", path), 0);
		else if (i == 1)
			assert_int_equal(mkfifo(path, 0600), 0);
		else if (i == 2)
			assert_int_equal(mkdir(path, 0700), 0);
		else
			put(path, (const uint8_t *)"x", 1);
	}
	visit(false);
	assert_int_equal(seen.wanted, seen.damaged);
}

static bool child_was_gone;
static pid_t child;

static int
finish_after_child(void *data, const struct journal_found *f, struct koda_error *err)
{
	siginfo_t how = { 0 };

	assert_int_equal(waitid(P_PID, (id_t)child, &how, WEXITED | WNOHANG | WNOWAIT), 0);
	child_was_gone = how.si_pid == child;
	note(f);
	return 1;
}

/* A disk that takes a part of one record: the process that comes after it is read all the same, and
 * is waited for. */
static void
process_after_torn(void **state)
{
	const struct journal_visitor by = { wanted, finish_after_child, wait_for, &seen };
	cleanup_close int dir = open_base();
	char path[PATH_MAX + 16];
	Koda__Place place;
	struct koda_error err;
	struct rlimit old, cut;
	struct journal j;
	struct stat st;
	bool left;

	snprintf(path, sizeof(path), "%s/more", base);
	place = place_at(path, 9);
	begin(&j);
	assert_int_equal(fstat(j.file[0].fd, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	cut = old;
	cut.rlim_cur = (rlim_t)st.st_size + 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &cut), 0);
	journal_add(&j, &place);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_true(j.failed);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		journal_end(&j, false); /* not the parent's lock any longer */
		usleep(300000);
		_exit(0);
	}
	journal_process(&j, child);
	journal_add(&j, &place);
	journal_end(&j, false);
	child_was_gone = false;
	/* The child closes its copies of the lock first of all, and then lives for a while. */
	for (memset(&seen, 0, sizeof(seen)); seen.wanted == 0;) {
		assert_int_equal(journal_visit(dir, &by, &left, &err), 0);
		assert_false(left);
	}
	assert_true(child_was_gone);
	assert_int_equal(seen.n_place, 1);
	assert_int_equal(seen.n_more, 1);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

#define MANY_PLACES 20000

static size_t
address_space(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Valgrind, like AddressSanitizer, cannot work without memory of its own. */
static bool
can_be_short(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return !SANITIZED && (preload == NULL || strstr(preload, "vgpreload") == NULL);
}

/* What cannot be read for lack of memory is not damaged. */
static void
short_of_memory(void **state)
{
	const struct journal_visitor by = { wanted, finish, wait_for, NULL };
	cleanup_free Koda__Place *place = calloc(MANY_PLACES, sizeof(*place));
	cleanup_free Koda__Place **list = calloc(MANY_PLACES, sizeof(Koda__Place *));
	cleanup_close int dir = open_base();
	char path[PATH_MAX + 16];
	const char *directory = base;
	struct policy policy;
	struct journal_input in = { .root = base,
		.policy = &policy,
		.dir = &directory,
		.n_dirs = 1,
		.place = list,
		.n_places = MANY_PLACES };
	unsigned n_short = 0;
	struct koda_error err;
	struct rlimit old;
	struct journal j;
	bool left;

	assert_true(place != NULL && list != NULL);
	snprintf(path, sizeof(path), "%s/place", base);
	for (size_t i = 0; i < MANY_PLACES; i++) {
		place[i] = place_at(path, i);
		list[i] = &place[i];
	}
	policy_init(&policy);
	assert_int_equal(journal_begin(&j, open_base(), &in, &err), 0);
	policy_done(&policy);
	journal_end(&j, false);
	/* The freed memory goes back to the kernel. */
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	malloc_trim(0);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	memset(&seen, 0, sizeof(seen));
	for (size_t more = 0; seen.wanted == 0; more += 256 << 10) {
		struct rlimit tight = { address_space() + more, old.rlim_max };
		int r;

		if (can_be_short())
			assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
		r = journal_visit(dir, &by, &left, &err);
		assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
		if (r < 0)
			assert_int_equal(err.errnum, ENOMEM);
		n_short += r < 0;
	}
	/* Both the file and what it contains were too large. */
	assert_true(!can_be_short() || n_short > 4);
	assert_int_equal(seen.damaged, 0);
	assert_int_equal(seen.n_place, MANY_PLACES);
}

static void
names_of_roots(void **state)
{
	struct journal j;

	begin(&j);
	assert_true(journal_is_of(j.file[0].name, base));
	assert_true(journal_is_of(j.file[0].name, proof_path("%.*s/a/b", PATH_MAX - 64, base)));
	assert_false(journal_is_of(j.file[0].name, proof_path("%.*sx", PATH_MAX - 64, base)));
	assert_false(journal_is_of(j.file[0].name, "/elsewhere"));
	assert_false(journal_is_of("", "/"));
	journal_end(&j, true);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, t, set_up, tear_down, NULL                                                     \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alive_and_dead),
		TEST(no_name),
		TEST(no_path),
		TEST(each_bit),
		TEST(each_length),
		TEST(odd_files),
		TEST(short_of_memory),
		TEST(names_of_roots),
		TEST(process_after_torn),
	};
	const int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	/* Without it, as under valgrind, a visitor does not wait for processes. */
	if (pidfd < 0)
		puts("# process_after_torn: skipped: no pidfd_open");
	close(pidfd);
	return _cmocka_run_group_tests("journal", tests, N_ELEMENTS(tests) - (pidfd < 0), NULL,
	    NULL);
}
