/* SPDX-License-Identifier: Apache-2.0 */
/* open(2) of each kind of place with each set of flags; and names with each flag of rename. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/posix/ops.h"

struct flags {
	const char *name;
	int flags;
};

static const struct flags flags[] = {
	{ "O_RDONLY", O_RDONLY },
	{ "O_WRONLY", O_WRONLY },
	{ "O_RDWR", O_RDWR },
	{ "O_TRUNC", O_WRONLY | O_TRUNC },
	{ "O_APPEND", O_WRONLY | O_APPEND },
	{ "O_CREAT", O_WRONLY | O_CREAT },
	{ "O_EXCL", O_WRONLY | O_CREAT | O_EXCL },
	{ "O_DIRECTORY", O_RDONLY | O_DIRECTORY },
	{ "O_NOFOLLOW", O_RDWR | O_NOFOLLOW },
	{ "O_PATH", O_PATH },
	{ "O_NOATIME", O_RDONLY | O_NOATIME },
	{ "O_TMPFILE", O_RDWR | O_TMPFILE },
	{ "O_DIRECT", O_RDONLY | O_DIRECT },
	{ "O_SYNC", O_WRONLY | O_SYNC },
};
static const char *const places[] = { "f", "new", "h1", "l", "no", "dl", "e", "fifo", "d/x", "f/x",
	"new/x" };

#define N_FLAGS  (sizeof(flags) / sizeof(flags[0]))
#define N_PLACES (sizeof(places) / sizeof(places[0]))

static void
run_open(int n)
{
	const char *place = places[(size_t)n / N_FLAGS];
	const int how = flags[(size_t)n % N_FLAGS].flags;
	int fd = open(place, how | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;

	say("%s", er(fd));
	if (fd >= 0 && (how & O_ACCMODE) != O_RDONLY && (how & O_PATH) == 0)
		say("write %s", er(write(fd, "new", 3)));
	if (fd >= 0 && fstat(fd, &st) == 0)
		say("%o %s", (unsigned)st.st_mode, S_ISREG(st.st_mode) ? "" : "-");
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		say("%lld", (long long)st.st_size);
	close(fd);
	say_what(place);
}

void
add_open_ops(void)
{
	char name[64];

	for (size_t i = 0; i < N_FLAGS * N_PLACES; i++) {
		snprintf(name, sizeof(name), "open/%s/%s", places[i / N_FLAGS],
		    flags[i % N_FLAGS].name);
		add_op(&(struct op){ .name = name, .run_of = run_open, .n = (int)i });
	}
}

/* ---- rename ---- */

/* Each becomes what its name says, in the operation's directory; it uses what nothing else does. */
static void
none(const char *name)
{
}

static void
lower_file(const char *name)
{
	/* prepared */
}

static void
upper_file(const char *name)
{
	put(name, "upper\n");
}

static void
changed_file(const char *name)
{
	append(name, "+\n");
}

static void
upper_directory(const char *name)
{
	char path[64];

	must(mkdir(name, 0755));
	snprintf(path, sizeof(path), "%s/z", name);
	put(path, "z\n");
}

static void
upper_empty(const char *name)
{
	must(mkdir(name, 0755));
}

static void
merged_directory(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/z", name);
	put(path, "z\n");
}

static void
upper_link(const char *name)
{
	must(symlink("f", name));
}

static void
gone_file(const char *name)
{
	must(unlink(name));
}

static void
gone_directory(const char *name)
{
	must(rmdir(name));
}

static const struct side {
	const char *kind, *from, *to;
	void (*make)(const char *name);
} sides[] = {
	{ "lower-file", "f", "g", lower_file },
	{ "changed-file", "h1", "big", changed_file },
	{ "upper-file", "u1", "u2", upper_file },
	{ "lower-directory", "d", "n", lower_file },
	{ "merged-directory", "d", "n", merged_directory },
	{ "upper-directory", "u1", "u2", upper_directory },
	{ "lower-link", "l", "dl", lower_file },
	{ "upper-link", "u1", "u2", upper_link },
	{ "lower-fifo", "fifo", NULL, lower_file },
	{ "nothing", "u1", "u2", none },
	{ "lower-empty", NULL, "e", lower_file },
	{ "upper-empty", NULL, "u2", upper_empty },
	{ "deleted-file", NULL, "exe", gone_file },
	{ "deleted-directory", NULL, "e", gone_directory },
};
static const struct flags rename_flags[] = { { "rename", 0 }, { "noreplace", RENAME_NOREPLACE },
	{ "exchange", RENAME_EXCHANGE } };

#define N_SIDES (sizeof(sides) / sizeof(sides[0]))
#define N_HOW   (sizeof(rename_flags) / sizeof(rename_flags[0]))

static void
run_rename(int n)
{
	const struct flags *how = &rename_flags[(size_t)n % N_HOW];
	const struct side *from = &sides[(size_t)n / N_HOW / N_SIDES];
	const struct side *to = &sides[(size_t)n / N_HOW % N_SIDES];

	from->make(from->from);
	to->make(to->to);
	say("%s", er(renameat2(AT_FDCWD, from->from, AT_FDCWD, to->to, (unsigned)how->flags)));
	say_what(from->from);
	say_what(to->to);
}

void
add_rename_ops(void)
{
	char name[128];

	for (size_t i = 0; i < N_SIDES * N_SIDES * N_HOW; i++) {
		const struct side *from = &sides[i / N_HOW / N_SIDES];
		const struct side *to = &sides[i / N_HOW % N_SIDES];

		if (from->from == NULL || to->to == NULL)
			continue;
		snprintf(name, sizeof(name), "%s/%s/%s", rename_flags[i % N_HOW].name, from->kind,
		    to->kind);
		add_op(&(struct op){ .name = name, .run_of = run_rename, .n = (int)i });
	}
}
