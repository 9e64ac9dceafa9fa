/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/drafts.c, tests/posix: in a draft, file operations do what they do in a direct slot. The
 * table below has each difference, and why it is there.
 */
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "tests/kit/hosting.h"

#define OPS        KODA_TEST_BUILD_DIR "/tests/posix/posix-ops"
#define OPS_MIN    200
#define OUTPUT_MAX (4 << 20)

#define MOVED                                                                                      \
	"a directory of the project cannot be renamed: overlayfs would need an attribute that "    \
	"only a privileged mount may use (redirect_dir)"
#define LINKED                                                                                     \
	"a file that is changed is copied, and its other names in the project keep the old one: "  \
	"what becomes of them is decided when the draft is applied (index=off)"
#define PROTECTED "a draft protects nothing: what the policy refuses is refused when it is applied"

/* An operation whose name matches differs, and prints this. "*" stands for anything. */
static const struct difference {
	const char *name, *direct, *draft, *why;
} differences[] = {
	{ "rename/lower-directory/*-directory", "*", "EXDEV dir *", MOVED },
	{ "rename/lower-directory/*-empty", "ok none dir", "EXDEV dir dir", MOVED },
	{ "rename/lower-directory/deleted-file", "ok none dir", "EXDEV dir none", MOVED },
	{ "rename/lower-directory/nothing", "ok none dir", "EXDEV dir none", MOVED },
	{ "rename/merged-directory/*-directory", "*", "EXDEV dir *", MOVED },
	{ "rename/merged-directory/*-empty", "ok none dir", "EXDEV dir dir", MOVED },
	{ "rename/merged-directory/deleted-file", "ok none dir", "EXDEV dir none", MOVED },
	{ "rename/merged-directory/nothing", "ok none dir", "EXDEV dir none", MOVED },
	{ "noreplace/lower-directory/deleted-*", "ok none dir", "EXDEV dir none", MOVED },
	{ "noreplace/lower-directory/nothing", "ok none dir", "EXDEV dir none", MOVED },
	{ "noreplace/merged-directory/deleted-*", "ok none dir", "EXDEV dir none", MOVED },
	{ "noreplace/merged-directory/nothing", "ok none dir", "EXDEV dir none", MOVED },
	{ "exchange/lower-directory/[lcu]*", "ok * dir", "EXDEV dir *", MOVED },
	{ "exchange/lower-directory/merged-directory", "ok dir dir", "EXDEV dir dir", MOVED },
	{ "exchange/merged-directory/[lcu]*", "ok * dir", "EXDEV dir *", MOVED },
	{ "exchange/merged-directory/merged-directory", "ok dir dir", "EXDEV dir dir", MOVED },
	{ "exchange/*-[fl]i[lnf]*/lower-directory", "ok dir *", "EXDEV * dir", MOVED },
	{ "exchange/*-[fl]i[lnf]*/merged-directory", "ok dir *", "EXDEV * dir", MOVED },
	{ "exchange/*-[fl]i[lnf]*/lower-empty", "ok dir *", "EXDEV * dir", MOVED },
	{ "exchange/upper-directory/lower-directory", "ok dir dir", "EXDEV dir dir", MOVED },
	{ "exchange/upper-directory/merged-directory", "ok dir dir", "EXDEV dir dir", MOVED },
	{ "exchange/upper-directory/lower-empty", "ok dir dir", "EXDEV dir dir", MOVED },
	{ "tool/git/mv of a directory", "0 a$other$*",
	    "0 fatal: * Invalid cross-device link$a$dir$", MOVED },
	{ "tool/python/os.replace of a directory", "0 ok$e$", "0 Invalid cross-device link$d$",
	    MOVED },
	{ "tool/packages/rename away", "0 ok$.a-old$", "0 Invalid cross-device link$a$", MOVED },
	{ "link/existing/write", "file:linked$+$ file:linked$+$", "file:linked$+$ file:linked$",
	    LINKED },
	{ "link/existing/write, count", "h1:2 h2:2", "h1:1 h2:2", LINKED },
	{ "link/existing/write, same inode", "same", "different", LINKED },
	{ "link/existing/unlink, count", "ok h2:1", "ok h2:2", LINKED },
	{ "link/existing/chmod", "ok 100600", "ok 100644", LINKED },
	{ "link/existing/rename", "ok file:linked$", "ok none", LINKED },
	{ "link/lower file, same inode", "same", "different",
	    "the old name keeps the number that it has in the project, a new link has that of the "
	    "copy" },
	{ "link/lower file, rename", "ok file:content$", "ESTALE file:content$",
	    "the same: the kernel does not see that both names are one file" },
	{ "tool/git/clone with hard links", "0 second$first$*", "2 fatal: hardlink different *",
	    "the same: git compares the numbers; --no-hardlinks works" },
	{ "mmap/before the first write", "NEWtent", "content",
	    "a map that is older than the first write shows the project's file" },
	{ "unlink/open file, reading, count", "0", "1",
	    "a descriptor that is open for reading is the project's file, which still exists" },
	{ "size/sparse changed", "8388608 sparse", "65536 full",
	    "a file is copied without its holes where blocks cannot be shared" },
	{ "nlink/merged directory", "4", "1",
	    "1 says that subdirectories are not counted, as on btrfs" },
	{ "stat/birth time kept", "same", "different", "it is the time of the copy" },
	{ "fs/type", "*", "794c7630", "it is an overlay" },
	{ "inode/version", "ok", "ENOTTY", "overlayfs passes on only the flags of files" },
	{ "tool/rm/repository", "0 kept$", "1 ", PROTECTED },
};

/* They differ or not, depending on the file system below the draft. */
static const char *const sometimes[] = { "size/sparse changed", "fs/type", "inode/version" };
/* The table is right for ext4. On others: xfs says EEXIST for a directory that is not empty, btrfs
 * does not count links of directories, and only a draft has sockets on it, tmpfs seals files. */
static const char *const elsewhere[] = { "rename/upper-directory/*", "nlink/*", "socket/*",
	"poll" };

static bool on_ext4;

static bool
may_be_equal(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(sometimes); i++)
		if (strcmp(sometimes[i], name) == 0)
			return true;
	for (size_t i = 0; !on_ext4 && i < N_ELEMENTS(elsewhere); i++)
		if (fnmatch(elsewhere[i], name, 0) == 0)
			return true;
	return false;
}

static void
find_file_system(const char *dir)
{
	struct statfs fs;

	assert_int_equal(statfs(dir, &fs), 0);
	on_ext4 = (unsigned long)fs.f_type == EXT4_SUPER_MAGIC;
}

static void
on_host(const char *program, const char *dir)
{
	char command[2 * PATH_MAX];

	snprintf(command, sizeof(command), "%s '%s'", program, dir);
	assert_int_equal(system(command), 0);
}

static char *
run_ops(struct koda_slot *slot, const char *dir)
{
	const char *const argv[] = { OPS, "run", dir, NULL };
	const struct koda_command_options o = { .argv = argv, .max_output = OUTPUT_MAX };
	struct koda_command_result r;
	struct koda_error err;
	char *text;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s", err.message);
	if (r.status != 0)
		fail_msg("status %d: %.*s\n%.*s", r.status, (int)r.err.head_len, r.err.head,
		    (int)(r.out.head_len < 400 ? r.out.head_len : 400),
		    r.out.head + (r.out.head_len < 400 ? 0 : r.out.head_len - 400));
	assert_int_equal(r.out.total, r.out.head_len + r.out.tail_len);
	assert_true(asprintf(&text, "%.*s%.*s", (int)r.out.head_len, r.out.head,
			(int)r.out.tail_len, r.out.tail) >= 0);
	koda_command_result_done(&r);
	return text;
}

/* Counts the rows of an operation that differs like that. */
static bool
is_expected(const char *name, const char *direct, const char *draft, unsigned *used)
{
	for (size_t i = 0; i < N_ELEMENTS(differences); i++) {
		const struct difference *d = &differences[i];

		if (fnmatch(d->name, name, 0) == 0 && fnmatch(d->direct, direct, 0) == 0 &&
		    fnmatch(d->draft, draft, 0) == 0) {
			used[i]++;
			return true;
		}
	}
	return false;
}

static bool
has_row(const char *name)
{
	for (size_t i = 0; i < N_ELEMENTS(differences); i++)
		if (fnmatch(differences[i].name, name, 0) == 0)
			return true;
	return false;
}

/* Splits "name = result". */
static char *
split(char *line)
{
	char *at = line == NULL ? NULL : strstr(line, " = ");

	assert_non_null(at);
	*at = '\0';
	return at + 3;
}

/* Returns the number of lines. */
static size_t
compare(char *direct, char *draft, unsigned *used, unsigned *ret_wrong)
{
	char *a, *b, *save_a = NULL, *save_b = NULL;
	size_t n = 0;

	for (a = strtok_r(direct, "\n", &save_a), b = strtok_r(draft, "\n", &save_b);
	     a != NULL || b != NULL;
	     a = strtok_r(NULL, "\n", &save_a), b = strtok_r(NULL, "\n", &save_b), n++) {
		const char *x = split(a), *y = split(b);

		assert_string_equal(a, b);
		if (strstr(x, "FAILED") != NULL || strstr(x, "signal") != NULL) {
			print_error("%s: not a result: %s\n", a, x);
			++*ret_wrong;
		} else if (strcmp(x, y) != 0 && !is_expected(a, x, y, used) &&
		    (on_ext4 || !may_be_equal(a))) {
			print_error("%s\n\tdirect %s\n\tdraft  %s\n", a, x, y);
			++*ret_wrong;
		} else if (strcmp(x, y) == 0 && has_row(a) && !may_be_equal(a)) {
			print_error("%s does not differ any more: %s\n", a, x);
			++*ret_wrong;
		}
	}
	return n;
}

static void
as_in_a_direct_slot(void **state)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	cleanup_free char *direct = NULL, *draft = NULL;
	unsigned used[N_ELEMENTS(differences)] = { 0 }, wrong = 0;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	find_file_system(f.root);
	assert_int_equal(mkdir(at(&f, "direct"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "draft"), 0755), 0);
	on_host(OPS " prepare", at(&f, "direct"));
	on_host(OPS " prepare", at(&f, "draft"));
	fixture_open(&f);
	slot = fixture_acquire(&f);
	direct = run_ops(slot, at(&f, "direct"));
	koda_slot_release(slot);
	slot = koda_slot_open(f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	draft = run_ops(slot, at(&f, "draft"));
	assert_true(compare(direct, draft, used, &wrong) >= OPS_MIN);
	for (size_t i = 0; i < N_ELEMENTS(differences); i++) {
		if (used[i] > 0 || may_be_equal(differences[i].name))
			continue;
		print_error("no operation differs as in the row '%s'\n", differences[i].name);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	on_host("chmod -R u+rwX", f.root);
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_in_a_direct_slot),
	};

	return cmocka_run_group_tests_name("draft_posix", tests, NULL, NULL);
}
