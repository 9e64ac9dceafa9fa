/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/tree_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define LIST_ROOM 4096

struct state_line {
	char *path;
	struct stat st;
	int64_t first; /* the index of the first name of the same file */
};

struct state {
	struct state_line *v;
	size_t n, room;
};

static bool
is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void
add(struct state *s, char *path, const struct stat *st)
{
	if (s->n == s->room) {
		s->room = s->room == 0 ? 64 : 2 * s->room;
		s->v = reallocarray(s->v, s->room, sizeof(*s->v));
		if (s->v == NULL)
			abort();
	}
	s->v[s->n++] = (struct state_line){ path, *st, -1 };
}

/* dir is consumed. */
static void
collect(struct state *s, int dir, const char *below)
{
	cleanup(closedir_at) DIR *d = fdopendir(dir);
	struct dirent *e;

	if (d == NULL)
		abort();
	while ((e = readdir(d)) != NULL) {
		struct stat st;
		char *path;
		int fd;

		if (is_dots(e->d_name))
			continue;
		if (asprintf(&path, "%s%s%s", below, below[0] == '\0' ? "" : "/", e->d_name) < 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		add(s, path, &st);
		if (!S_ISDIR(st.st_mode))
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			collect(s, fd, path);
	}
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct state_line *)a)->path, ((const struct state_line *)b)->path);
}

static void
find_links(struct state *s)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < i && s->v[i].first < 0; k++)
			if (S_ISREG(s->v[i].st.st_mode) && s->v[i].st.st_ino == s->v[k].st.st_ino &&
			    s->v[i].st.st_dev == s->v[k].st.st_dev)
				s->v[i].first = (int64_t)k;
}

/* ---- printing ---- */

static void
put_text(FILE *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c > '~')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static void
put_content(FILE *out, int dir, const char *path)
{
	cleanup_close int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	uint8_t buf[65536];
	ssize_t n;

	if (fd < 0) {
		fputs(" unreadable", out);
		return;
	}
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ buf[i]) * UINT64_C(0x100000001b3);
	fprintf(out, " %016llx", (unsigned long long)sum);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
put_attributes(FILE *out, int dir, const char *path)
{
	char list[LIST_ROOM], value[LIST_ROOM], name[PATH_MAX + 64];
	const char *v[64];
	size_t n_v = 0;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d/%s", dir, path);
	n = llistxattr(name, list, sizeof(list));
	for (ssize_t i = 0; i < n && n_v < 64; i += (ssize_t)strlen(list + i) + 1)
		v[n_v++] = list + i;
	qsort(v, n_v, sizeof(v[0]), by_name);
	for (size_t i = 0; i < n_v; i++) {
		n = lgetxattr(name, v[i], value, sizeof(value));
		fprintf(out, " %s=", v[i]);
		put_text(out, value, n < 0 ? 0 : (size_t)n);
		if (n < 0)
			fputs("?", out);
	}
}

static void
put_line(FILE *out, const struct state *s, size_t i, int dir, unsigned parts)
{
	const struct state_line *l = &s->v[i];
	const bool is_file = S_ISREG(l->st.st_mode), is_link = S_ISLNK(l->st.st_mode);

	put_text(out, l->path, strlen(l->path));
	fprintf(out, " %o", (parts & TREE_MODES) != 0 ? l->st.st_mode : l->st.st_mode & S_IFMT);
	if (is_file || is_link)
		fprintf(out, " %lld", (long long)l->st.st_size);
	if (is_file)
		put_content(out, dir, l->path);
	if (is_link) {
		char target[PATH_MAX];
		const ssize_t n = readlinkat(dir, l->path, target, sizeof(target));

		fputs(" -> ", out);
		put_text(out, target, n < 0 ? 0 : (size_t)n);
	} else {
		put_attributes(out, dir, l->path);
	}
	if ((parts & TREE_MTIMES) != 0 && is_file)
		fprintf(out, " at %lld.%09ld", (long long)l->st.st_mtim.tv_sec,
		    l->st.st_mtim.tv_nsec);
	if ((parts & TREE_LINKS) != 0 && l->first >= 0) {
		fputs(" = ", out);
		put_text(out, s->v[l->first].path, strlen(s->v[l->first].path));
	}
	if ((parts & TREE_INODES) != 0 && (is_file || is_link))
		fprintf(out, " inode %llu links %lu", (unsigned long long)l->st.st_ino,
		    (unsigned long)l->st.st_nlink);
	putc('\n', out);
}

static int
state_read(const char *dir, struct state *s)
{
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*s = (struct state){ 0 };
	if (fd < 0)
		abort();
	collect(s, fcntl(fd, F_DUPFD_CLOEXEC, 3), "");
	qsort(s->v, s->n, sizeof(*s->v), by_path);
	find_links(s);
	return fd;
}

static void
state_done(struct state *s)
{
	while (s->n > 0)
		free(s->v[--s->n].path);
	free(s->v);
}

char *
tree_state(const char *dir, unsigned parts)
{
	cleanup(state_done) struct state s;
	cleanup_close int fd = state_read(dir, &s);
	char *ret = NULL;
	size_t len;
	FILE *out = open_memstream(&ret, &len);

	if (out == NULL)
		abort();
	for (size_t i = 0; i < s.n; i++)
		put_line(out, &s, i, fd, parts);
	if (fclose(out) != 0)
		abort();
	return ret;
}

const char *
tree_difference(const char *want, const char *is)
{
	static char text[4 * PATH_MAX];

	while (*want != '\0' || *is != '\0') {
		const size_t a = strcspn(want, "\n"), b = strcspn(is, "\n");

		if (a != b || memcmp(want, is, a) != 0) {
			snprintf(text, sizeof(text), "'%.*s', not '%.*s'", (int)b, is, (int)a,
			    want);
			return text;
		}
		want += a + (want[a] == '\n');
		is += b + (is[b] == '\n');
	}
	return NULL;
}

/* ---- removing ---- */

static void
clear(int dir)
{
	cleanup(closedir_at) DIR *d = fdopendir(dir);
	struct dirent *e;

	if (d == NULL)
		abort();
	while ((e = readdir(d)) != NULL) {
		int fd;

		if (is_dots(e->d_name) || unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		if (fchmodat(dirfd(d), e->d_name, 0700, 0) < 0)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			clear(fd);
		unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
}

void
tree_clear(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		clear(fd);
}
