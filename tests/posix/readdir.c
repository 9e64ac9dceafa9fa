/* SPDX-License-Identifier: Apache-2.0 */
/* Reading directories. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/posix/ops.h"

#define MANY 500

static void
prepare_many(void)
{
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "file-%03d", i);
		put(name, "");
	}
}

static int
count(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (dir == NULL)
		must(-1);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static void
delete_while_reading(void)
{
	DIR *dir = opendir(".");
	struct dirent *e;
	int n = 0;

	while ((e = readdir(dir)) != NULL)
		if (e->d_name[0] == 'f')
			n += unlink(e->d_name) == 0;
	closedir(dir);
	say("%d %d", n, count("."));
}

static void
rename_while_reading(void)
{
	DIR *dir = opendir(".");
	struct dirent *e;
	char name[300];
	int n = 0;

	while ((e = readdir(dir)) != NULL) {
		if (e->d_name[0] != 'f')
			continue;
		snprintf(name, sizeof(name), "moved-%s", e->d_name);
		n += rename(e->d_name, name) == 0;
	}
	closedir(dir);
	say("%d %d", n, count("."));
}

static void
create_after_reading(void)
{
	DIR *dir = opendir(".");
	int before = 0, after = 0;

	while (readdir(dir) != NULL)
		before++;
	put("file-new", "");
	must(unlink("file-000"));
	must(unlink("file-001"));
	rewinddir(dir);
	while (readdir(dir) != NULL)
		after++;
	closedir(dir);
	say("%d %d", before, after);
}

static void
seek_in_directory(void)
{
	char name[300] = "";
	DIR *dir = opendir(".");
	struct dirent *e;
	long at;

	put("file-new", "");
	for (int i = 0; i < 20; i++)
		(void)readdir(dir);
	at = telldir(dir);
	e = readdir(dir);
	snprintf(name, sizeof(name), "%s", e == NULL ? "" : e->d_name);
	for (int i = 0; i < 20; i++)
		(void)readdir(dir);
	seekdir(dir, at);
	e = readdir(dir);
	say("%s", e != NULL && strcmp(e->d_name, name) == 0 ? "same" : "different");
	closedir(dir);
}

static void
types(void)
{
	static const char *const names[] = { "f", "d", "l", "fifo", "h1", "new", "newdir",
		"newlink", "e", "exe", "gone" };
	DIR *dir;
	struct dirent *e;

	put("new", "");
	must(mkdir("newdir", 0755));
	must(symlink("f", "newlink"));
	append("f", "+");
	must(unlink("exe"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		dir = opendir(".");
		while ((e = readdir(dir)) != NULL && strcmp(e->d_name, names[i]) != 0)
			;
		if (e == NULL)
			say("%s:none", names[i]);
		else
			say("%s:%d", names[i], e->d_type);
		closedir(dir);
	}
}

/* Compares d_ino with st_ino. */
static void
check_d_ino(const char *path)
{
	int wrong = 0, n = 0, at = must(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *dir = opendir(path);
	struct dirent *e;
	struct stat st;

	while ((e = readdir(dir)) != NULL) {
		n++;
		if (fstatat(at, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != e->d_ino)
			wrong++;
	}
	closedir(dir);
	say("%d of %d", wrong, n);
}

static void
d_ino_lower(void)
{
	check_d_ino("n");
}

static void
d_ino_merged(void)
{
	put("n/new", "");
	append("n/x", "+");
	must(mkdir("n/newdir", 0755));
	check_d_ino("n");
}

static void
d_ino_upper(void)
{
	must(mkdir("u", 0755));
	put("u/a", "");
	must(mkdir("u/b", 0755));
	check_d_ino("u");
}

static const struct op ops[] = {
	OP("readdir/delete", delete_while_reading, prepare_many),
	OP("readdir/rename", rename_while_reading, prepare_many),
	OP("readdir/rewind", create_after_reading, prepare_many),
	OP("readdir/seek", seek_in_directory, prepare_many),
	OP("readdir/d_type", types, NULL),
	OP("readdir/d_ino lower", d_ino_lower, NULL),
	OP("readdir/d_ino merged", d_ino_merged, NULL),
	OP("readdir/d_ino upper", d_ino_upper, NULL),
};

void
add_readdir_ops(void)
{
	ADD_ALL(ops);
}
