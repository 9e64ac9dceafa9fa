/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes of a user, an agent or a disk, through the whole library: each error says what it is
 * about, changes nothing and leaves nothing behind, and the slot works as before. Input that only a
 * broken host can send (frames that are cut, too long, garbage or out of order) is in
 * worker_wire_test.c.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "include/koda/sandbox.h"
#include "tests/kit/proof_session.h"

#define SETUP_MAX 6
#define SPARSE    (UINT64_C(3) << 30)

/* Operations, as bits of a set. */
#define R  (1u << KODA_OP_READ)
#define W  (1u << KODA_OP_WRITE)
#define E  (1u << KODA_OP_EDIT)
#define S  (1u << KODA_OP_STAT)
#define L  (1u << KODA_OP_LIST)
#define M  (1u << KODA_OP_MKDIR)
#define D  (1u << KODA_OP_REMOVE)
#define N  (1u << KODA_OP_RENAME) /* from there */
#define TO (1u << 30)             /* a rename to there */
#define X  (1u << KODA_OP_EXPLAIN)

struct input {
	const char *name;
	unsigned ops;
	const char *path;
	enum koda_code code;
	int errnum;
	const char *says[3]; /* parts of the message */
	/* "d path", "f path" (mark), "e path", "l target path", "p path", "s path", "m mode
	 * path", "z path" (sparse) */
	const char *setup[SETUP_MAX];
	const char *rule;
};

static char base[PATH_MAX], root[PATH_MAX];
static char long_path[4200], long_name[300];

#define CHAIN "41-links"

/* clang-format off */
static const struct input inputs[] = {
	{ "empty path", R|W|E|S|L|M|D|N|TO|X, "", KODA_INVALID, 0, .says = { "empty" } },
	{ "path of 4096 bytes", R|W|E|S|L|M|D|N|TO|X, long_path, KODA_INVALID, 0, .says = { "4096 bytes", "4095" } },
	{ "name of 256 bytes", R|W|E|S|L|M|D|N|TO|X, long_name, KODA_INVALID, 0, .says = { "256 bytes", "255" } },
	{ "'..' above the root", R|W|E|S|L|M|D|N|TO|X, "../x", KODA_INVALID, 0, .says = { "above the root" } },
	{ "'..' above the root, later", R|W|E|S|L|M|D|N|TO|X, "dir/../../x", KODA_INVALID, 0, .says = { "above the root" } },
	{ "'..' behind a missing directory", R|W|E|S|L|M|D|N|TO|X, "nothing/../file", KODA_INVALID, 0,
		.says = { "missing directory", "nothing" } },
	{ "'..' behind a file", R|W|E|S|L|M|D|N|TO|X, "file/../file", KODA_IO, ENOTDIR, .says = { "file", "Not a directory" } },
	{ "slash behind a file", R|S|L|D|N|X, "file/", KODA_IO, ENOTDIR, .says = { "file", "Not a directory" } },
	{ "slash behind a file, written", W|E, "file/", KODA_INVALID, 0, .says = { "'/'", "directory" } },
	{ "slash behind nothing, written", W|E, "new/", KODA_INVALID, 0, .says = { "'/'", "directory" } },
	{ "slash behind nothing", R, "new/", KODA_IO, ENOENT, .says = { "new", "No such file" } },
	{ "nothing there", R|E|S|L|D|N, "new", KODA_IO, ENOENT, .says = { "new", "No such file" } },
	{ "nothing there, and nothing above it", R|E|S|L|D|N|TO, "no/such/file", KODA_IO, ENOENT,
		.says = { "no/such/file", "No such file" } },
	{ "no parent for a directory", M, "no/such/dir", KODA_IO, ENOENT, .says = { "no/such/dir" } },
	{ "41 links in a row", R|W|E|L|X, CHAIN "-0", KODA_POLICY_DENIED, 0, .says = { "links", CHAIN }, { NULL }, "link_depth" },
	{ "41 links in a row, on the way", R|W|E|S|L|M|D|N|TO|X, CHAIN "-0/x", KODA_POLICY_DENIED, 0,
		.says = { "links", CHAIN }, { NULL }, "link_depth" },
	{ "a cycle of links", R|W|E|L|X, "a", KODA_POLICY_DENIED, 0, .says = { "links" }, { "l b a", "l a b" }, "link_depth" },
	{ "a cycle of links, on the way", R|W|E|S|L|M|D|N|TO|X, "a/x", KODA_POLICY_DENIED, 0, .says = { "links" },
		{ "l b a", "l a b" }, "link_depth" },
	{ "a link to itself", R|W|E|L|X, "a", KODA_POLICY_DENIED, 0, .says = { "links", "a" }, { "l a a" }, "link_depth" },
	{ "a dangling link", R|E|L, "gone", KODA_IO, ENOENT, .says = { "nowhere", "No such file" }, { "l nowhere gone" } },
	{ "a dangling link on the way", R|E|S|L|D|N|TO, "gone/x", KODA_IO, ENOENT, .says = { "nowhere/x" },
		{ "l nowhere gone" } },
	{ "/proc/self/root", R|W|E|S|L|M|D|N|TO, "/proc/self/root/etc/passwd", KODA_POLICY_DENIED, 0, .says = { "/proc" } },
	{ "/proc/self/fd/0", R|W|E|L, "/proc/self/fd/0", KODA_POLICY_DENIED, 0, .says = { "/proc" } },
	{ "/dev/fd/0", R|W|E|L, "/dev/fd/0", KODA_POLICY_DENIED, 0, .says = { "/proc" } },
	{ "/proc/self/environ", R|W|E|S|D|N|TO, "/proc/self/environ", KODA_POLICY_DENIED, 0, .says = { "/proc" } },
	{ "a FIFO", R|W|E, "fifo", KODA_IO, 0, .says = { "fifo", "is a FIFO" }, { "p fifo" } },
	{ "a FIFO, moved or removed", D|N, "fifo", KODA_IO, 0, .says = { "fifo", "is a FIFO" }, { "p fifo" } },
	{ "a FIFO behind a link", R|W|E, "l", KODA_IO, 0, .says = { "fifo", "is a FIFO" }, { "p fifo", "l fifo l" } },
	{ "a FIFO for a directory", R|W|E|S|L|M|D|N|TO, "fifo/x", KODA_IO, ENOTDIR, .says = { "fifo" }, { "p fifo" } },
	{ "a socket", R|W|E|D|N, "sock", KODA_IO, 0, .says = { "sock", "is a socket" }, { "s sock" } },
	{ "a device", R, "/dev/null", KODA_IO, 0, .says = { "/dev/null", "is a device" } },
	{ "a device, changed", W|E|D|N|TO, "/dev/null", KODA_POLICY_DENIED, 0, .says = { "/dev/null", "allow_write" }, { NULL },
		"allow_write" },
	{ "a directory for a file", R|W|E, "dir", KODA_IO, EISDIR, .says = { "dir", "Is a directory" } },
	{ "the root for a file", R, ".", KODA_IO, EISDIR, .says = { "Is a directory" } },
	{ "a file for a directory", L, "file", KODA_IO, ENOTDIR, .says = { "file", "Not a directory" } },
	{ "a file on the way", R|W|E|S|L|M|D|N|TO|X, "file/x", KODA_IO, ENOTDIR, .says = { "file", "Not a directory" } },
	{ "mkdir where a file is", M, "file", KODA_CONFLICT, EEXIST, .says = { "file", "File exists" } },
	{ "mkdir where a directory is", M, "dir", KODA_CONFLICT, EEXIST, .says = { "dir", "File exists" } },
	{ "rename to where a file is", TO, "other", KODA_CONFLICT, EEXIST, .says = { "other", "File exists" }, { "e other" } },
	{ "remove a directory that is not empty", D, "dir", KODA_IO, ENOTEMPTY, .says = { "dir", "not empty" }, { "f dir/f" } },
	{ "no permission on the file", R|W|E, "mine", KODA_IO, EACCES, .says = { "mine", "Permission denied" },
		{ "f mine", "m 000 mine" } },
	{ "no permission to write the file", W|E, "mine", KODA_IO, EACCES, .says = { "mine", "Permission denied" },
		{ "f mine", "m 444 mine" } },
	{ "no permission to write the directory", W|E|D, "dir/f", KODA_IO, EACCES, .says = { "dir/f", "Permission denied" },
		{ "f dir/f", "m 555 dir" } },
	{ "no permission to take something from the directory", N, "dir/f", KODA_IO, EACCES, .says = { "Permission denied" },
		{ "f dir/f", "m 555 dir" } },
	{ "no permission to make anything in the directory", W|M|TO, "dir/new", KODA_IO, EACCES,
		.says = { "dir/new", "Permission denied" }, { "m 555 dir" } },
	{ "no permission to look into the directory", R|W|E|S|M|D|N|TO, "dir/f", KODA_IO, EACCES,
		.says = { "dir/f", "Permission denied" }, { "f dir/f", "m 000 dir" } },
	{ "no permission to list the directory", L, "dir", KODA_IO, EACCES, .says = { "dir", "Permission denied" },
		{ "f dir/f", "m 000 dir" } },
	{ "bytes that are not UTF-8, in an error", R|E|S|L|D|N, "no\xff\x1b[31m", KODA_IO, ENOENT,
		.says = { "no\\xff\\x1b[31m", "No such file" } },
	{ "an edit of an empty file", E, "empty", KODA_CONFLICT, 0, .says = { "empty", "0 times" }, { "e empty" } },
	{ "an edit of 3 GB", E, "sparse", KODA_TOO_LARGE, 0, .says = { "sparse" }, { "z sparse" } },
};
/* clang-format on */

/* ---- a world ---- */

static const char *
in_root(const char *path)
{
	return proof_path("%s/%s", root, path);
}

static void
setup_one(const char *line)
{
	const char *what = line + 2, *space = strrchr(what, ' ');
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	cleanup_close int fd = -1;
	char first[PATH_MAX];

	snprintf(first, sizeof(first), "%.*s", space != NULL ? (int)(space - what) : 0, what);
	switch (line[0]) {
	case 'd':
		proof_mkdir(in_root(what));
		break;
	case 'f':
		proof_put(in_root(what), "mark\n");
		break;
	case 'e':
		proof_put(in_root(what), "");
		break;
	case 'l':
		assert_int_equal(symlink(first, in_root(space + 1)), 0);
		break;
	case 'p':
		assert_int_equal(mkfifo(in_root(what), 0666), 0);
		break;
	case 's':
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_root(what));
		assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
		break;
	case 'm':
		assert_int_equal(chmod(in_root(space + 1), (mode_t)strtoul(first, NULL, 8)), 0);
		break;
	case 'z':
		fd = open(in_root(what), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)SPARSE), 0);
		assert_int_equal(pwrite(fd, "mark", 4, (off_t)SPARSE - 4), 4);
		break;
	default:
		fail_msg("setup: %s", line);
	}
}

static void
world_make(const char *const *setup)
{
	proof_mkdtemp(base);
	snprintf(root, sizeof(root), "%s", proof_path("%s/root", base));
	proof_mkdir(root);
	setup_one("d dir");
	setup_one("f file");
	for (size_t i = 0; setup != NULL && i < SETUP_MAX && setup[i] != NULL; i++)
		setup_one(setup[i]);
	for (unsigned i = 0; i < 41; i++)
		assert_int_equal(symlink(i == 40 ? "dir" : proof_path(CHAIN "-%u", i + 1),
				     in_root(proof_path(CHAIN "-%u", i))),
		    0);
}

struct host {
	struct koda_session *ses;
	struct koda_slot *slot;
	int pid;
};

static struct host
host_start(void)
{
	struct host h = { .ses = proof_session(root, KODA_AUTO, NULL, NULL) };

	h.slot = proof_slot(h.ses);
	h.pid = koda_slot_pid(h.slot);
	return h;
}

/* The slot and its worker work as before. */
static void
host_still_works(const struct host *h)
{
	struct koda_result res;
	struct koda_error err;
	struct koda_stats stats;

	if (koda_fs_write(h->slot, "afterwards", "it works\n", 9, &res, &err) < 0)
		fail_msg("afterwards: %s", err.message);
	koda_result_done(&res);
	assert_true(proof_holds(in_root("afterwards"), "it works\n"));
	assert_int_equal(koda_slot_pid(h->slot), h->pid);
	koda_session_stats(h->ses, &stats);
	assert_int_equal(stats.respawns, 0);
}

static void
host_end(const struct host *h)
{
	koda_slot_release(h->slot);
	koda_session_close(h->ses);
	assert_int_equal(proof_temps(base), 0);
	proof_rmtree(base);
}

/* ---- the table ---- */

static struct koda_op
op_of(unsigned bit, const char *path)
{
	static const struct koda_edit edit = { "mark", 4, "new", 3, false };
	struct koda_op op = { .path = path, .access = KODA_WRITE_ACCESS };

	if (bit == TO) {
		op.kind = KODA_OP_RENAME;
		op.path = "file";
		op.to = path;
		return op;
	}
	op.kind = (enum koda_op_kind)__builtin_ctz(bit);
	op.to = op.kind == KODA_OP_RENAME ? "moved" : NULL;
	op.data = "new\n";
	op.len = 4;
	op.edits = &edit;
	op.n_edits = 1;
	return op;
}

static void
check_error(const struct input *in, unsigned bit, const struct koda_error *err)
{
	if (err->code != in->code || err->errnum != in->errnum)
		fail_msg("operation %u: %s, errno %d: %s", bit, koda_code_name(err->code),
		    err->errnum, err->message);
	for (size_t i = 0; i < N_ELEMENTS(in->says) && in->says[i] != NULL; i++) {
		if (strstr(err->message, in->says[i]) == NULL)
			fail_msg("operation %u: '%s' does not say '%s'", bit, err->message,
			    in->says[i]);
	}
	if (in->rule != NULL)
		assert_string_equal(err->rule, in->rule);
	/* The message is one line of printable text. */
	for (const char *p = err->message; *p != '\0'; p++)
		assert_true((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f);
}

static void
check_input(void **state)
{
	const struct input *in = *state;
	struct host h;
	uint64_t before;

	world_make(in->setup);
	before = proof_sum(base);
	h = host_start();
	for (unsigned bit = 1; bit != 0; bit <<= 1) {
		struct koda_op op;
		struct koda_result res;
		struct koda_error err = { 0 };

		if ((in->ops & bit) == 0)
			continue;
		op = op_of(bit, in->path);
		if (koda_call(h.slot, &op, &res, &err) == 0)
			fail_msg("operation %u was done", bit);
		check_error(in, bit, &err);
		if (proof_sum(base) != before)
			fail_msg("operation %u changed something", bit);
		op.flags = KODA_DRY_RUN;
		if ((bit & (W | E | M | D | N | TO)) != 0 &&
		    koda_call(h.slot, &op, &res, &err) == 0) {
			/* Only the operation itself can find these out. */
			if (err.errnum != EACCES && err.errnum != ENOSPC)
				fail_msg("operation %u can be done, says a dry run", bit);
			koda_result_done(&res);
		}
	}
	assert_int_equal(proof_temps(base), 0);
	host_still_works(&h);
	host_end(&h);
}

/* ---- edits ---- */

static const struct edit_input {
	const char *name, *text, *old, *new;
	enum koda_code code;
	const char *says;
} edits[] = {
	{ "edit: old is empty", "mark\n", "", "new", KODA_INVALID, "empty" },
	{ "edit: old is absent", "mark\n", "other", "new", KODA_CONFLICT, "0 times" },
	{ "edit: old is ambiguous", "mark mark mark\n", "mark", "new", KODA_CONFLICT, "3 times" },
	{ "edit: old and new are the same", "mark\n", "mark", "mark", KODA_INVALID, "equal" },
	{ "edit: old is longer than the file", "ma", "mark", "new", KODA_CONFLICT, "0 times" },
};

static void
check_edit(void **state)
{
	const struct edit_input *in = *state;
	const struct koda_edit edit = { in->old, strlen(in->old), in->new, strlen(in->new), false };
	const struct koda_edit pair[] = { { in->text, strlen(in->text), "x", 1, false }, edit };
	struct koda_result res;
	struct koda_error err;
	struct host h;
	uint64_t before;

	world_make(NULL);
	proof_put(in_root("text"), in->text);
	before = proof_sum(base);
	h = host_start();
	assert_int_equal(koda_fs_edit(h.slot, "text", &edit, 1, &res, &err), -1);
	assert_int_equal(err.code, in->code);
	if (strstr(err.message, in->says) == NULL)
		fail_msg("'%s' does not say '%s'", err.message, in->says);
	/* A valid replacement before it does not help: all or nothing. */
	assert_int_equal(koda_fs_edit(h.slot, "text", pair, 2, &res, &err), -1);
	/* No replacements. */
	assert_int_equal(koda_fs_edit(h.slot, "text", NULL, 0, &res, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_true(proof_sum(base) == before);
	host_still_works(&h);
	host_end(&h);
}

/* ---- odd but valid ---- */

static void
test_trailing_slash_of_directories(void **state)
{
	struct koda_op op = { .kind = KODA_OP_LIST, .path = "dir//" };
	struct koda_result res;
	struct koda_error err;
	struct host h;

	world_make(NULL);
	h = host_start();
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_string_equal(res.path, in_root("dir"));
	koda_result_done(&res);
	op.kind = KODA_OP_MKDIR;
	op.path = "made/";
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	koda_result_done(&res);
	assert_true(proof_exists(in_root("made")));
	host_end(&h);
}

static void
test_ten_links_are_fine(void **state)
{
	struct koda_op op = { .kind = KODA_OP_LIST, .path = CHAIN "-31" };
	struct koda_result res;
	struct koda_error err;
	struct host h;

	world_make(NULL);
	h = host_start();
	/* This mode allows ten links, and no more. */
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_string_equal(res.path, in_root("dir"));
	koda_result_done(&res);
	op.path = CHAIN "-30";
	assert_int_equal(koda_call(h.slot, &op, &res, &err), -1);
	assert_string_equal(err.rule, "link_depth");
	host_end(&h);
}

static void
test_dangling_link_written(void **state)
{
	static const char *const setup[SETUP_MAX] = { "l dir/new l" };
	struct koda_result res;
	struct koda_error err;
	struct host h;
	struct stat st;

	world_make(setup);
	h = host_start();
	assert_int_equal(koda_fs_write(h.slot, "l", "by a link\n", 10, &res, &err), 0);
	assert_string_equal(res.path, in_root("dir/new"));
	assert_true(res.created);
	koda_result_done(&res);
	assert_true(proof_holds(in_root("dir/new"), "by a link\n"));
	assert_int_equal(lstat(in_root("l"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	host_end(&h);
}

static void
relink(const char *target)
{
	unlink(in_root("l"));
	assert_int_equal(symlink(target, in_root("l")), 0);
}

static void
test_link_changes_between_calls(void **state)
{
	static const char *const setup[SETUP_MAX] = { "l file l", "f dir/other" };
	const char *outside;
	struct koda_result res;
	struct koda_error err;
	struct host h;

	world_make(setup);
	outside = proof_path("%s/outside", base);
	proof_put(outside, "outside\n");
	proof_put(in_root("dir/other"), "other\n");
	h = host_start();
	assert_int_equal(koda_fs_read(h.slot, "l", &res, &err), 0);
	assert_memory_equal(res.data, "mark\n", 5);
	koda_result_done(&res);
	relink("dir/other");
	assert_int_equal(koda_fs_read(h.slot, "l", &res, &err), 0);
	assert_memory_equal(res.data, "other\n", 6);
	koda_result_done(&res);
	assert_int_equal(koda_fs_write(h.slot, "l", "new\n", 4, &res, &err), 0);
	assert_string_equal(res.path, in_root("dir/other"));
	koda_result_done(&res);
	relink("../outside");
	assert_int_equal(koda_fs_write(h.slot, "l", "evil\n", 5, &res, &err), -1);
	assert_int_equal(err.code, KODA_POLICY_DENIED);
	relink("file");
	assert_int_equal(koda_fs_write(h.slot, "l", "again\n", 6, &res, &err), 0);
	koda_result_done(&res);
	assert_true(proof_holds(in_root("dir/other"), "new\n"));
	assert_true(proof_holds(in_root("file"), "again\n"));
	assert_true(proof_holds(proof_path("%s/outside", base), "outside\n"));
	host_still_works(&h);
	host_end(&h);
}

static void
test_not_utf8(void **state)
{
	static const char name[] = "dir/\xff\xfe \n\x01\xc0\xaf";
	static const char data[] = "\xff\0\xfe\n\x80";
	const struct koda_edit edit = { "\0\xfe", 2, "\xfd", 1, false };
	struct koda_op op = { .kind = KODA_OP_LIST, .path = "dir" };
	struct koda_result res;
	struct koda_error err;
	struct host h;

	world_make(NULL);
	h = host_start();
	assert_int_equal(koda_fs_write(h.slot, name, data, sizeof(data) - 1, &res, &err), 0);
	assert_string_equal(res.path, in_root(name));
	koda_result_done(&res);
	assert_int_equal(koda_fs_read(h.slot, name, &res, &err), 0);
	assert_int_equal(res.len, sizeof(data) - 1);
	assert_memory_equal(res.data, data, sizeof(data) - 1);
	koda_result_done(&res);
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.n_entries, 1);
	assert_string_equal(res.entries[0].name, name + 4);
	koda_result_done(&res);
	assert_int_equal(koda_fs_edit(h.slot, name, &edit, 1, &res, &err), 0);
	koda_result_done(&res);
	assert_true(proof_holds(in_root(name), "\xff\xfd\n\x80"));
	host_still_works(&h);
	host_end(&h);
}

static void
test_empty_file(void **state)
{
	struct koda_op op = { .kind = KODA_OP_READ, .path = "empty", .flags = KODA_DIGEST };
	struct koda_result res;
	struct koda_error err;
	struct host h;

	world_make(NULL);
	h = host_start();
	assert_int_equal(koda_fs_write(h.slot, "empty", "", 0, &res, &err), 0);
	assert_true(res.created && res.size == 0);
	koda_result_done(&res);
	assert_true(proof_holds(in_root("empty"), ""));
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.len, 0);
	assert_int_equal(res.size, 0);
	assert_true(res.has_digest);
	koda_result_done(&res);
	op.offset = 7;
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.len, 0);
	koda_result_done(&res);
	host_still_works(&h);
	host_end(&h);
}

static void
test_sparse_file(void **state)
{
	static const char *const setup[SETUP_MAX] = { "z sparse" };
	struct koda_op op = { .kind = KODA_OP_READ, .path = "sparse" };
	struct koda_result res;
	struct koda_error err;
	struct host h;
	char tail[8] = "";

	world_make(setup);
	h = host_start();
	/* The whole file comes as a read-only descriptor. */
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_true(res.size == SPARSE && res.fd >= 0 && res.data == NULL);
	assert_int_equal(pread(res.fd, tail, sizeof(tail), (off_t)SPARSE - 4), 4);
	assert_memory_equal(tail, "mark", 4);
	assert_int_equal(fcntl(res.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	koda_result_done(&res);
	/* A window contains only its own bytes. */
	op.offset = SPARSE - 4;
	op.max = 100;
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.len, 4);
	assert_memory_equal(res.data, "mark", 4);
	koda_result_done(&res);
	op.offset = 1u << 30;
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.len, 100);
	koda_result_done(&res);
	op.offset = SPARSE + 1;
	assert_int_equal(koda_call(h.slot, &op, &res, &err), 0);
	assert_int_equal(res.len, 0);
	koda_result_done(&res);
	host_still_works(&h);
	host_end(&h);
}

static void
test_too_large_for_policy(void **state)
{
	struct koda_error err;
	struct koda_result res;
	struct koda_policy *p;
	struct koda_op op = { .kind = KODA_OP_WRITE, .path = "file" };
	const struct koda_edit edit = { "mark", 4, "longer than that", 16, false };
	struct host h;
	uint64_t before;

	world_make(NULL);
	p = koda_policy_for_agent(KODA_AUTO, root, &err);
	assert_non_null(p);
	assert_int_equal(koda_policy_set_limit(p, KODA_MAX_FILE_BYTES, 10, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	before = proof_sum(base);
	h.ses = proof_session(root, KODA_AUTO, p, NULL);
	h.slot = proof_slot(h.ses);
	h.pid = koda_slot_pid(h.slot);
	op.data = "eleven byte";
	op.len = 11;
	assert_int_equal(koda_call(h.slot, &op, &res, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_int_equal(koda_fs_edit(h.slot, "file", &edit, 1, &res, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_true(proof_sum(base) == before);
	host_still_works(&h);
	koda_policy_free(p);
	host_end(&h);
}

/* ---- disks: in their own namespaces, and therefore in their own process ---- */

static char *said; /* by the process; shared memory */

#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			snprintf(said, 1024, "line %d: %s (%d %d %s; errno %d)", __LINE__,         \
			    #condition, (int)err.code, err.errnum, err.message, errno);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void
put_proc(const char *path, const char *fmt, unsigned id)
{
	char text[64];
	int fd = open(path, O_WRONLY | O_CLOEXEC), n;
	struct koda_error err = { 0 };

	n = snprintf(text, sizeof(text), "%u %u 1", id, id);
	if (fmt != NULL)
		n = snprintf(text, sizeof(text), "%s", fmt);
	expect(fd >= 0 && write(fd, text, (size_t)n) == n);
	close(fd);
}

/* Lets the process mount; its mounts are invisible outside. User and group IDs stay the same. */
static void
own_namespaces(void)
{
	struct koda_error err = { 0 };
	unsigned uid = geteuid(), gid = getegid();

	expect(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
	put_proc("/proc/self/setgroups", "deny", 0);
	put_proc("/proc/self/uid_map", NULL, uid);
	put_proc("/proc/self/gid_map", NULL, gid);
	expect(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static void
in_own_process(void (*run)(void))
{
	int status;
	pid_t pid;

	world_make(NULL);
	said = mmap(NULL, 1024, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(said != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("status %d: %s", status, said);
	munmap(said, 1024);
	proof_rmtree(base);
}

static void
full_disk(void)
{
	static char large[20000];
	const struct koda_edit edit = { "keep", 4, large, sizeof(large), false };
	struct koda_error err = { 0 };
	struct koda_result res;
	struct host h;

	own_namespaces();
	expect(mount("tmpfs", root, "tmpfs", 0, "size=64k") == 0);
	proof_put(in_root("file"), "keep\n");
	memset(large, 'x', sizeof(large));
	h = host_start();
	/* Fill the disk until a write fails. */
	for (unsigned i = 0;; i++) {
		const char *name = proof_path("fill%u", i);

		if (koda_fs_write(h.slot, name, large, sizeof(large), &res, &err) < 0) {
			expect(err.code == KODA_IO && err.errnum == ENOSPC);
			expect(strstr(err.message, name) != NULL &&
			    strstr(err.message, "No space") != NULL);
			expect(!proof_exists(in_root(name)));
			expect(i > 0 && i < 4);
			break;
		}
		koda_result_done(&res);
	}
	expect(koda_fs_write(h.slot, "file", large, sizeof(large), &res, &err) == -1);
	expect(
	    err.code == KODA_IO && err.errnum == ENOSPC && strstr(err.message, "/file'") != NULL);
	expect(koda_fs_edit(h.slot, "file", &edit, 1, &res, &err) == -1);
	expect(err.code == KODA_IO && err.errnum == ENOSPC);
	expect(koda_fs_write(h.slot, "a/b/c", large, sizeof(large), &res, &err) == -1);
	expect(err.code == KODA_IO && err.errnum == ENOSPC && !proof_exists(in_root("a")));
	expect(proof_holds(in_root("file"), "keep\n") && proof_temps(root) == 0);
	/* After a file is removed, the same worker can write again. */
	expect(unlink(in_root("fill0")) == 0);
	expect(koda_fs_write(h.slot, "file", large, sizeof(large), &res, &err) == 0);
	koda_result_done(&res);
	expect(koda_slot_pid(h.slot) == h.pid && proof_temps(root) == 0);
	koda_slot_release(h.slot);
	koda_session_close(h.ses);
}

static void
test_full_disk(void **state)
{
	in_own_process(full_disk);
}

static void
read_only(void)
{
	static const unsigned changes[] = { W, E, D, N, TO, M };
	struct koda_error err = { 0 };
	struct koda_result res;
	struct host h;
	uint64_t before;

	own_namespaces();
	expect(mount("tmpfs", root, "tmpfs", 0, "size=64k") == 0);
	proof_put(in_root("file"), "mark\n");
	proof_put(in_root("there"), "mark\n");
	expect(mount(NULL, root, NULL, MS_REMOUNT | MS_RDONLY, "size=64k") == 0);
	before = proof_sum(root);
	h = host_start();
	for (size_t i = 0; i < N_ELEMENTS(changes); i++) {
		const bool new = changes[i] == TO || changes[i] == M;
		struct koda_op op = op_of(changes[i], new ? "new" : "there");

		expect(koda_call(h.slot, &op, &res, &err) == -1);
		expect(err.code == KODA_IO && err.errnum == EROFS);
		expect(strstr(err.message, "Read-only") != NULL);
		expect(strstr(err.message,
			   new                   ? "/new'"
			       : changes[i] == N ? "/moved'"
						 : "/there'") != NULL);
	}
	expect(koda_fs_read(h.slot, "file", &res, &err) == 0);
	koda_result_done(&res);
	expect(proof_sum(root) == before && koda_slot_pid(h.slot) == h.pid);
	/* After a writable remount, the same worker can write again. */
	expect(mount(NULL, root, NULL, MS_REMOUNT, "size=64k") == 0);
	expect(koda_fs_write(h.slot, "file", "new\n", 4, &res, &err) == 0);
	koda_result_done(&res);
	koda_slot_release(h.slot);
	koda_session_close(h.ses);
}

static void
test_read_only(void **state)
{
	in_own_process(read_only);
}

int
main(void)
{
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(test_trailing_slash_of_directories),
		cmocka_unit_test(test_ten_links_are_fine),
		cmocka_unit_test(test_dangling_link_written),
		cmocka_unit_test(test_link_changes_between_calls),
		cmocka_unit_test(test_not_utf8),
		cmocka_unit_test(test_empty_file),
		cmocka_unit_test(test_sparse_file),
		cmocka_unit_test(test_too_large_for_policy),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_read_only),
	};
	struct CMUnitTest tests[N_ELEMENTS(inputs) + N_ELEMENTS(edits) + N_ELEMENTS(more)];
	size_t n = 0;

	memset(long_path, 'p', 4096);
	for (size_t i = 100; i < 4096; i += 100)
		long_path[i] = '/';
	memset(long_name, 'n', 256);
	for (size_t i = 0; i < N_ELEMENTS(inputs); i++)
		tests[n++] = (struct CMUnitTest){ inputs[i].name, check_input, NULL, NULL,
			(void *)(uintptr_t)&inputs[i] };
	for (size_t i = 0; i < N_ELEMENTS(edits); i++)
		tests[n++] = (struct CMUnitTest){ edits[i].name, check_edit, NULL, NULL,
			(void *)(uintptr_t)&edits[i] };
	memcpy(tests + n, more, sizeof(more));
	return cmocka_run_group_tests_name("bad_input", tests, NULL, NULL);
}
