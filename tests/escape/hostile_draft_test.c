/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command fills its draft with what costs most to look at, to apply and to take back: very many names,
 * of the longest kind, very deep, a huge file without content, a file with very many names, and what is
 * never applied. Time and memory of the host and of its worker stay bounded, the project gets what was
 * asked for, and nothing else. Tests host/review, worker/draft.
 */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "tests/kit/drafting.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/tree_state.h"

/* KODA_HOSTILE_NAMES: how many names. */
#define NAMES     (SANITIZED ? 2000 : 20000)
#define DIRS      20
#define NAME_SIZE 255
#define DEEP      150
#define LINKS     10000
/* A command may not make larger ones than its limit, which is more than anybody can copy. */
#define HUGE_SIZE (INT64_C(1) << 40)
#define HUGE_MIN  (INT64_C(1) << 30)
/* For each name: its path, what is listed of it, and a message for it. */
#define HOST_KIB_FOR_NAME   2
#define WORKER_KIB_FOR_NAME 1
/* Without names, with all that a sanitizer needs. */
#define HOST_KIB   (SANITIZED ? 400 << 10 : 24 << 10)
#define WORKER_KIB (SANITIZED ? 400 << 10 : 16 << 10)
/* Far longer than any step takes: not bounded is what takes hours. */
#define STEP_MS 300000

static const char *self;

static unsigned
n_names(void)
{
	const char *text = getenv("KODA_HOSTILE_NAMES");

	return text == NULL ? NAMES : (unsigned)strtoul(text, NULL, 10);
}

/* ---- in the draft ---- */

static void
long_name(char ret[NAME_SIZE + 1], unsigned i)
{
	memset(ret, 'n', NAME_SIZE);
	ret[NAME_SIZE] = '\0';
	ret[snprintf(ret, NAME_SIZE, "%u-\xff\x1b[31m", i)] = 'n';
}

static void
fill_names(unsigned n)
{
	char dir[32], path[NAME_SIZE + 40], name[NAME_SIZE + 1];

	for (unsigned i = 0; i < DIRS; i++) {
		snprintf(dir, sizeof(dir), "many%u", i);
		assert_int_equal(mkdir(dir, 0755), 0);
	}
	for (unsigned i = 0; i < n; i++) {
		long_name(name, i);
		snprintf(path, sizeof(path), "many%u/%s", i % DIRS, name);
		put_file(path, "x", 1);
	}
}

static void
fill_deep(void)
{
	char path[4096] = "";

	for (unsigned i = 0; i < DEEP; i++) {
		strcat(path, i == 0 ? "deep" : "/deep");
		assert_int_equal(mkdir(path, 0755), 0);
	}
	strcat(path, "/end");
	put_file(path, "x", 1);
}

static void
fill_links(void)
{
	char path[32];

	put_file("linked", "one file\n", 9);
	for (unsigned i = 0; i < LINKS; i++) {
		snprintf(path, sizeof(path), "link%u", i);
		assert_int_equal(link("linked", path), 0);
	}
}

static void
fill_special(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	close(fd);
	assert_int_equal(mkfifo("fifo", 0666), 0);
	put_file("setuid", "#!/bin/sh\n", 10);
	assert_int_equal(chmod("setuid", 04755), 0);
	put_file("setgid", "#!/bin/sh\n", 10);
	assert_int_equal(chmod("setgid", 02755), 0);
	put_file("sticky", "x", 1);
	assert_int_equal(chmod("sticky", 01644), 0);
	/* A command cannot make devices, nor marks of the overlay or of the system. */
	assert_int_equal(mknod("device", S_IFCHR | 0666, makedev(1, 3)), -1);
	put_file("marked", "x", 1);
	setxattr("marked", "user.overlay.opaque", "y", 1, 0);
	setxattr("marked", "user.overlay.redirect", "/etc", 4, 0);
	assert_int_equal(setxattr("marked", "trusted.overlay.opaque", "y", 1, 0), -1);
	setxattr("marked", "security.capability", "\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20,
	    0);
}

/* What a command may make at most (RLIMIT_FSIZE). */
static off_t
huge_size(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	return limit.rlim_cur < (rlim_t)HUGE_SIZE ? (off_t)limit.rlim_cur : HUGE_SIZE;
}

static void
fill_huge(void)
{
	const int fd = open("huge", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	const int grown = open("old", O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0 && ftruncate(fd, huge_size()) == 0);
	assert_true(grown >= 0 && ftruncate(grown, huge_size()) == 0);
	close(fd);
	close(grown);
	for (unsigned i = 0; i < 300; i++) {
		char path[32];

		snprintf(path, sizeof(path), "huge%u", i);
		assert_int_equal(link("huge", path), 0);
	}
}

/* ---- a draft ---- */

struct hostile {
	struct fixture f;
	struct koda_draft *draft;
	char undo[KODA_HISTORY_ID_SIZE], id[64];
	char *was;
	size_t n[6]; /* outcomes */
	size_t listed;
	char refused[1024]; /* the names that are, and why */
	long worker_kib;    /* at most */
};

static long
peak_kib(int pid)
{
	char path[64], line[256];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

/* Of this process's children the worker of the review is the only one. */
static void
see_worker(struct hostile *h)
{
	char path[64], text[256];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (char *save, *p = strtok_r(text, " ", &save); p != NULL;
	     p = strtok_r(NULL, " ", &save)) {
		const long kib = peak_kib(atoi(p));

		h->worker_kib = kib > h->worker_kib ? kib : h->worker_kib;
	}
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct hostile *h = data;

	if (h->listed++ % 1000 == 0)
		see_worker(h);
	if (c->rule != NULL && strlen(h->refused) + strlen(c->path) < sizeof(h->refused) - 80)
		sprintf(h->refused + strlen(h->refused), "%s %s\n", c->path + strlen(h->f.root) + 1,
		    c->rule);
	return 0;
}

static int
on_applied(void *data, const struct koda_applied *one)
{
	struct hostile *h = data;

	if (h->n[one->outcome]++ % 1000 == 0)
		see_worker(h);
	return 0;
}

static void
begin(struct hostile *h, const char *what)
{
	char number[16];
	const char *const argv[] = { self, "fill", h->f.root, what, number, NULL };
	const struct koda_command_options c = { .argv = argv };
	struct koda_command_result result;
	struct koda_slot *slot;
	struct koda_error err;

	*h = (struct hostile){ 0 };
	snprintf(number, sizeof(number), "%u", n_names());
	fixture_prepare(&h->f, KODA_AUTO);
	h->f.options.commands = true;
	put_text(&h->f, "old", "old\n");
	h->was = tree_state(h->f.root, TREE_MODES | TREE_MTIMES | TREE_LINKS);
	fixture_open(&h->f);
	slot = draft_open_slot(&h->f, NULL);
	snprintf(h->id, sizeof(h->id), "%s", koda_slot_draft(slot));
	if (koda_run(slot, &c, &result, &err) < 0)
		fail_msg("%s", err.message);
	if (result.status != 0)
		fail_msg("status %d: %.*s", result.status, (int)result.err.head_len,
		    result.err.head);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	h->draft = koda_draft_open(h->f.ses, h->id, &err);
	if (h->draft == NULL)
		fail_msg("open: %s", err.message);
}

static void
list(struct hostile *h)
{
	struct koda_error err;
	bool cut = true;

	if (koda_draft_changes(h->draft, on_change, h, &cut, &err) != 0)
		fail_msg("list: %s", err.message);
	assert_false(cut);
}

static void
apply(struct hostile *h)
{
	struct koda_error err;

	if (koda_draft_apply(h->draft, NULL, on_applied, h, h->undo, &err) != 0)
		fail_msg("apply: %s", err.message);
}

static void
undo(struct hostile *h)
{
	cleanup_free char *is = NULL;
	struct koda_error err;

	memset(h->n, 0, sizeof(h->n));
	if (koda_history_undo(h->f.ses, h->undo, NULL, on_applied, h, &err) != 0)
		fail_msg("undo: %s", err.message);
	is = tree_state(h->f.root, TREE_MODES | TREE_MTIMES | TREE_LINKS);
	if (tree_difference(h->was, is) != NULL)
		fail_msg("undone: %s", tree_difference(h->was, is));
}

static void
end(struct hostile *h)
{
	struct koda_error err;

	assert_int_equal(count_temps(&h->f), 0);
	koda_draft_discard(h->draft, NULL, 0, &err);
	koda_draft_close(h->draft);
	free(h->was);
	fixture_end(&h->f);
}

/* ---- cases ---- */

static void
stays_below(uint64_t begun_ms, const char *step)
{
	const uint64_t ms = clock_ms() - begun_ms;

	print_message("# %s: %llu ms\n", step, (unsigned long long)ms);
	if (ms > STEP_MS)
		fail_msg("%s took %llu ms", step, (unsigned long long)ms);
}

static void
many_names(void **state)
{
	const size_t n = n_names() + DIRS;
	struct hostile h;
	uint64_t begun;
	long host_kib;

	begin(&h, "names");
	begun = clock_ms();
	list(&h);
	stays_below(begun, "list");
	assert_int_equal(h.listed, n);
	begun = clock_ms();
	apply(&h);
	stays_below(begun, "apply");
	assert_int_equal(h.n[KODA_APPLIED], n);
	begun = clock_ms();
	undo(&h);
	stays_below(begun, "undo");
	assert_int_equal(h.n[KODA_APPLIED], n);
	host_kib = peak_kib(getpid());
	print_message("# %zu names: host %ld KiB, worker %ld KiB\n", n, host_kib, h.worker_kib);
	assert_true(h.worker_kib > 0);
	assert_true(host_kib < HOST_KIB + (long)n * HOST_KIB_FOR_NAME);
	assert_true(h.worker_kib < WORKER_KIB + (long)n * WORKER_KIB_FOR_NAME);
	end(&h);
}

static void
deep_names(void **state)
{
	struct hostile h;

	begin(&h, "deep");
	list(&h);
	assert_int_equal(h.listed, DEEP + 1);
	apply(&h);
	assert_int_equal(h.n[KODA_APPLIED], DEEP + 1);
	undo(&h);
	end(&h);
}

/* All names are there with the content, in however many files. */
static void
many_links(void **state)
{
	struct hostile h;
	uint64_t begun;
	char name[32];

	begin(&h, "links");
	begun = clock_ms();
	apply(&h);
	stays_below(begun, "apply");
	assert_int_equal(h.n[KODA_APPLIED], LINKS + 1);
	for (unsigned i = 0; i < LINKS; i += 997) {
		snprintf(name, sizeof(name), "link%u", i);
		assert_string_equal(get_text(&h.f, name), "one file\n");
	}
	begun = clock_ms();
	undo(&h);
	stays_below(begun, "undo");
	end(&h);
}

/* Its size takes neither time nor room, also where it has to be copied. */
static void
huge_files(void **state)
{
	struct hostile h;
	struct stat st;
	uint64_t begun;

	begin(&h, "huge");
	begun = clock_ms();
	list(&h);
	apply(&h);
	stays_below(begun, "list and apply");
	assert_int_equal(h.n[KODA_APPLIED], 302);
	assert_int_equal(stat(at(&h.f, "huge299"), &st), 0);
	assert_true(st.st_size >= HUGE_MIN);
	assert_true(st.st_blocks < 1024);
	assert_int_equal(stat(at(&h.f, "old"), &st), 0);
	assert_true(st.st_size >= HUGE_MIN);
	assert_true(st.st_blocks < 1024);
	undo(&h);
	assert_string_equal(get_text(&h.f, "old"), "old\n");
	end(&h);
}

static void
never_applied(void **state)
{
	char value[64];
	struct hostile h;
	struct stat st;

	begin(&h, "special");
	list(&h);
	assert_string_equal(h.refused,
	    "fifo special_file\nsetgid set_id\nsetuid set_id\nsocket special_file\n");
	apply(&h);
	assert_int_equal(h.n[KODA_APPLY_REFUSED], 4);
	assert_int_equal(h.n[KODA_APPLIED], 2);
	assert_false(exists(&h.f, "fifo") || exists(&h.f, "socket") || exists(&h.f, "setuid") ||
	    exists(&h.f, "setgid"));
	assert_true(stat(at(&h.f, "sticky"), &st) == 0 && (st.st_mode & 07777) == 01644);
	assert_int_equal(listxattr(at(&h.f, "marked"), value, sizeof(value)), 0);
	undo(&h);
	end(&h);
}

static int
fill(const char *dir, const char *what, unsigned n)
{
	umask(022);
	if (chdir(dir) < 0)
		return 2;
	if (strcmp(what, "names") == 0)
		fill_names(n);
	else if (strcmp(what, "deep") == 0)
		fill_deep();
	else if (strcmp(what, "links") == 0)
		fill_links();
	else if (strcmp(what, "huge") == 0)
		fill_huge();
	else
		fill_special();
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_names),
		cmocka_unit_test(deep_names),
		cmocka_unit_test(many_links),
		cmocka_unit_test(huge_files),
		cmocka_unit_test(never_applied),
	};
	static char path[PATH_MAX];

	if (argc == 5 && strcmp(argv[1], "fill") == 0)
		return fill(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	self = path;
	return cmocka_run_group_tests_name("hostile_draft", tests, NULL, NULL);
}
