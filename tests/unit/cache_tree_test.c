/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/caches/cache_tree.c: layers that commands wrote: merged, measured and removed. A second
 * reader of layers, written for this test alone, checks that merging keeps what is visible:
 * slowly, by name, and from the top.
 */
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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/caches/cache_tree.h"
#include "shared/base/cleanup.h"

#define LAYERS       3 /* newer, older, and what lies below both */
#define TREES        16
#define NAMES        4
#define DEPTH        4
#define KILLS        5
#define DEEP         600
#define OPAQUE       "user.overlay.opaque"
#define NAME_LONGEST 255

static char base[PATH_MAX];

static int
set_up(void **state)
{
	snprintf(base, sizeof(base), "%s/cache-tree.XXXXXX", getenv("TMPDIR"));
	return mkdtemp(base) == NULL ? -1 : 0;
}

static int
tear_down(void **state)
{
	char line[PATH_MAX + 64];

	snprintf(line, sizeof(line), "chmod -R u+rwx '%s' && rm -rf '%s'", base, base);
	return system(line) == 0 ? 0 : -1; /* NOLINT(cert-env33-c): a directory of our own */
}

static int
open_base(const char *name)
{
	char path[2 * PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void
make_base(const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static size_t
count(int dir)
{
	DIR *d = fdopendir(dup(dir));
	size_t n = 0;

	assert_non_null(d);
	rewinddir(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2;
}

/* ---- what layers show ---- */

static bool
is_opaque(const char *path)
{
	char value;

	return lgetxattr(path, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* Prints one line for each name visible below `rel`, with the layers from top to bottom. */
static void
show(FILE *to, char layer[LAYERS][PATH_MAX], const bool *in, const char *rel)
{
	struct dirent **names = NULL;
	char path[2 * PATH_MAX], child[PATH_MAX], seen[64][8];
	size_t n_seen = 0;

	for (int l = 0; l < LAYERS; l++) {
		int n;

		if (!in[l])
			continue;
		snprintf(path, sizeof(path), "%s/%s", layer[l], rel);
		n = scandir(path, &names, NULL, alphasort);
		for (int i = 0; i < n; i++) {
			const char *name = names[i]->d_name;
			bool known = name[0] == '.';

			for (size_t k = 0; k < n_seen; k++)
				known = known || strcmp(seen[k], name) == 0;
			if (!known)
				snprintf(seen[n_seen++], sizeof(seen[0]), "%s", name);
			free(names[i]);
		}
		free(names);
		names = NULL;
	}
	qsort(seen, n_seen, sizeof(seen[0]), (int (*)(const void *, const void *))strcmp);
	for (size_t k = 0; k < n_seen; k++) {
		bool below[LAYERS] = { false }, any = false, stop = false;
		struct stat st, top = { 0 };
		char text[64] = "";

		snprintf(child, sizeof(child), "%s/%s", rel, seen[k]);
		for (int l = 0; l < LAYERS && !stop; l++) {
			snprintf(path, sizeof(path), "%s/%s", layer[l], child);
			if (!in[l] || lstat(path, &st) < 0)
				continue;
			if (!any) {
				ssize_t got = S_ISLNK(st.st_mode)
				    ? readlink(path, text, sizeof(text) - 1)
				    : 0;
				int fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY) : -1;

				if (fd >= 0) {
					got = read(fd, text, sizeof(text) - 1);
					close(fd);
				}
				text[got > 0 ? got : 0] = '\0';
				top = st;
				any = true;
			}
			if (!S_ISDIR(st.st_mode)) {
				stop = true;
			} else if (S_ISDIR(top.st_mode)) {
				below[l] = true;
				stop = is_opaque(path);
			}
		}
		if (!any || (S_ISCHR(top.st_mode) && top.st_rdev == 0))
			continue;
		fprintf(to, "%s %o %s\n", child, top.st_mode, text);
		if (S_ISDIR(top.st_mode))
			show(to, layer, below, child);
	}
}

static char *
seen_in(char layer[LAYERS][PATH_MAX])
{
	static const bool all[LAYERS] = { true, true, true };
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	show(to, layer, all, ".");
	assert_int_equal(fclose(to), 0);
	return text;
}

/* ---- random layers ---- */

static void
grow(const char *dir, unsigned *seed, int depth, bool lowest)
{
	static const char *const names[NAMES] = { "a", "b", "c", "d" };
	static const mode_t modes[] = { 0755, 0700, 0555, 0711 };

	for (int i = 0; i < NAMES; i++) {
		char path[2 * PATH_MAX], text[32];
		int fd;

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		snprintf(text, sizeof(text), "%u", *seed);
		switch (rand_r(seed) % (depth > 0 ? 7 : 4)) {
		case 0:
			break;
		case 1:
			fd = open(path, O_WRONLY | O_CREAT, 0600 | (rand_r(seed) & 0177));
			assert_true(fd >= 0);
			assert_int_equal(write(fd, text, strlen(text)), strlen(text));
			close(fd);
			break;
		case 2:
			assert_int_equal(symlink("../../../outside", path), 0);
			break;
		case 3:
			if (!lowest)
				assert_int_equal(mknod(path, S_IFCHR, makedev(0, 0)), 0);
			break;
		default:
			assert_int_equal(mkdir(path, 0700), 0);
			grow(path, seed, depth - 1, lowest);
			if (!lowest && rand_r(seed) % 4 == 0)
				assert_int_equal(setxattr(path, OPAQUE, "y", 1, 0), 0);
			assert_int_equal(chmod(path, modes[rand_r(seed) % 4]), 0);
		}
	}
}

static void
make_layers(unsigned number, char layer[LAYERS][PATH_MAX], int *ret_newer, int *ret_older,
    int *ret_trash)
{
	char name[32];
	unsigned seed = number;

	for (int l = 0; l < LAYERS; l++) {
		snprintf(name, sizeof(name), "%u-%d", number, l);
		make_base(name);
		snprintf(layer[l], PATH_MAX, "%.3000s/%s", base, name);
		grow(layer[l], &seed, DEPTH, l == LAYERS - 1);
	}
	snprintf(name, sizeof(name), "%u-trash", number);
	make_base(name);
	*ret_trash = open_base(name);
	*ret_newer = open(layer[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_older = open(layer[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(*ret_newer >= 0 && *ret_older >= 0);
}

static void
merged_layers_show_the_same(void **state)
{
	for (unsigned t = 1; t <= TREES; t++) {
		cleanup_close int newer = -1, older = -1, trash = -1;
		cleanup_free char *before = NULL, *after = NULL;
		char layer[LAYERS][PATH_MAX];

		make_layers(t, layer, &newer, &older, &trash);
		before = seen_in(layer);
		assert_int_equal(cache_tree_merge(newer, older, trash, CACHE_NO_DEADLINE), 1);
		assert_int_equal(count(newer), 0);
		after = seen_in(layer);
		assert_string_equal(before, after);
		assert_int_equal(cache_tree_empty(trash, CACHE_NO_DEADLINE), 1);
		assert_int_equal(count(trash), 0);
	}
}

/* Removes the modes of directories: a directory of the newer layer gets its mode back only when
 * all of it is merged. */
static char *
without_modes(char *text)
{
	char *to = text;

	for (char *p = text; *p != '\0'; p++) {
		if (*p == ' ' && p[1] == '4')
			p += strcspn(p + 1, " ");
		else
			*to++ = *p;
	}
	*to = '\0';
	return text;
}

static void
killed_at_any_step_they_show_the_same(void **state)
{
	for (unsigned t = TREES + 1; t <= TREES + KILLS; t++) {
		cleanup_close int newer = -1, older = -1, trash = -1;
		cleanup_free char *before = NULL;
		char layer[LAYERS][PATH_MAX];
		unsigned seed = t;

		make_layers(t, layer, &newer, &older, &trash);
		before = without_modes(seen_in(layer));
		for (int i = 0; i < KILLS; i++) {
			const struct timespec soon = { 0, rand_r(&seed) % 400000 };
			cleanup_free char *after = NULL;
			pid_t pid = fork();
			int status;

			assert_true(pid >= 0);
			if (pid == 0)
				_exit(cache_tree_merge(newer, older, trash, CACHE_NO_DEADLINE));
			nanosleep(&soon, NULL);
			kill(pid, SIGKILL);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 1);
			after = without_modes(seen_in(layer));
			assert_string_equal(before, after);
		}
	}
}

/* A name that is a link in one layer and a directory in the other is not followed. */
static void
links_are_not_followed(void **state)
{
	cleanup_close int newer = -1, older = -1, trash = -1, outside = -1;
	struct cache_size size;

	make_base("newer");
	make_base("older");
	make_base("trash");
	make_base("outside");
	make_base("outside/kept");
	newer = open_base("newer");
	older = open_base("older");
	trash = open_base("trash");
	outside = open_base("outside");
	assert_int_equal(mkdirat(newer, "x", 0755), 0);
	assert_int_equal(mkdirat(newer, "x/kept", 0755), 0);
	assert_int_equal(symlinkat("../outside", older, "x"), 0);
	assert_int_equal(symlinkat("../outside", newer, "y"), 0);
	assert_int_equal(mkdirat(older, "y", 0755), 0);
	assert_int_equal(mkdirat(older, "y/kept", 0755), 0);
	assert_int_equal(cache_tree_measure(newer, &size), 0);
	assert_int_equal(size.entries, 3);
	assert_int_equal(cache_tree_merge(newer, older, trash, CACHE_NO_DEADLINE), 1);
	assert_int_equal(symlinkat("../outside", trash, "z"), 0);
	assert_int_equal(cache_tree_empty(trash, CACHE_NO_DEADLINE), 1);
	assert_int_equal(count(outside), 1);
	assert_int_equal(faccessat(older, "x/kept", F_OK, 0), 0);
}

/* Deeper than any stack of descriptors, with names of the maximum length, and with directories
 * that may not be read. */
static void
deep_trees_are_removed(void **state)
{
	cleanup_close int trash = -1, at = -1;
	struct cache_size size;
	char name[NAME_LONGEST + 1];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	make_base("deep");
	trash = open_base("deep");
	at = open_base("deep");
	for (int i = 0; i < DEEP; i++) {
		int next;

		assert_int_equal(mkdirat(at, name, 0700), 0);
		assert_int_equal(mkdirat(at, "beside", 0), 0);
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		if (i % 100 == 50)
			assert_int_equal(fchmod(at, 0), 0);
		close(at);
		at = next;
	}
	assert_int_equal(cache_tree_measure(trash, &size), 0);
	assert_true(size.beyond);
	/* In pieces: each call removes some of it. */
	for (int i = 0, r = 0; r == 0; i++) {
		assert_true(i < 2 * DEEP);
		r = cache_tree_empty(trash, i < 3 ? 1 : CACHE_NO_DEADLINE);
		assert_true(r >= 0);
	}
	assert_int_equal(count(trash), 0);
}

/* The first directory that is too deep to be measured, whatever an earlier call has failed with. */
static void
as_deep_as_can_be_measured(void **state)
{
	static const int reasons[] = { 0, ENOENT };
	cleanup_close int top = -1, at = -1;
	struct cache_size size;

	make_base("measured");
	top = open_base("measured");
	at = open_base("measured");
	for (unsigned depth = 1; depth <= CACHE_DEPTH_MAX + 1; depth++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
		for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
			errno = reasons[i];
			assert_int_equal(cache_tree_measure(top, &size), 0);
			assert_int_equal(size.beyond, depth >= CACHE_DEPTH_MAX);
			assert_int_equal(size.entries,
			    depth < CACHE_DEPTH_MAX ? depth : CACHE_DEPTH_MAX);
		}
	}
}

/* Below the depth that can be merged, the newer layer's directory replaces the older one. */
static void
deep_trees_are_merged_as_one_thing(void **state)
{
	cleanup_close int trash = -1, newer = -1, older = -1;

	make_base("trash2");
	make_base("newer2");
	make_base("older2");
	trash = open_base("trash2");
	newer = open_base("newer2");
	older = open_base("older2");
	for (int side = 0; side < 2; side++) {
		cleanup_close int at = dup(side == 0 ? newer : older);

		for (int i = 0; i < 3 * CACHE_DEPTH_MAX; i++) {
			int next;

			assert_int_equal(mkdirat(at, "d", 0700), 0);
			assert_int_equal(mkdirat(at, side == 0 ? "new" : "old", 0700), 0);
			next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			close(at);
			at = next;
		}
	}
	assert_int_equal(cache_tree_merge(newer, older, trash, CACHE_NO_DEADLINE), 1);
	assert_int_equal(faccessat(older, "d/d/old", F_OK, 0), 0);
	assert_int_equal(faccessat(older, "d/d/new", F_OK, 0), 0);
	assert_int_equal(cache_tree_empty(older, CACHE_NO_DEADLINE), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged_layers_show_the_same),
		cmocka_unit_test(killed_at_any_step_they_show_the_same),
		cmocka_unit_test(links_are_not_followed),
		cmocka_unit_test(deep_trees_are_removed),
		cmocka_unit_test(as_deep_as_can_be_measured),
		cmocka_unit_test(deep_trees_are_merged_as_one_thing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
