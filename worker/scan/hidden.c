/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/hidden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "shared/wire/protocol.h"
#include "worker/scan/gitindex.h"
#include "worker/scan/plant.h"

/* People write these patterns by hand. A larger file is not read. */
#define TEXT_MAX (1u << 20)
/* Enough for the refs of a large project, in one file. */
#define PACKED_MAX (32u << 20)
/* Names below refs/replace that are counted. */
#define REPLACED_MAX 10000

const struct hidden_row hidden_rows[HIDDEN_ROWS] = {
	{ "index", HIDDEN_INDEX,
	    "files marked skip-worktree or assume-unchanged in the index, which git does not "
	    "check: `git ls-files -v` shows them",
	    false },
	{ "index", HIDDEN_NAMED,
	    "protected files whose content in the index changed: `git diff --cached` shows them, "
	    "`git checkout` and `git stash` write them",
	    true },
	{ "info/exclude", HIDDEN_LINES,
	    "patterns of files to ignore: `git status --ignored` shows them", false },
	{ "info/attributes", HIDDEN_LINES,
	    "patterns that say how files are compared: `git diff --text --no-textconv` shows them whole",
	    false },
	{ "info/sparse-checkout", HIDDEN_LINES,
	    "patterns that limit what is checked out: `git ls-files -v` shows what is not", true },
	{ "info/grafts", HIDDEN_LINES,
	    "commits with replaced parents: `GIT_GRAFT_FILE=/dev/null git log` shows them", false },
	{ "shallow", HIDDEN_LINES,
	    "commits whose parents are left out: `git fetch --unshallow` brings them", true },
	{ "refs/replace", HIDDEN_REPLACE,
	    "replaced objects: `git replace` lists them, `git --no-replace-objects` ignores them",
	    false },
	{ "packed-refs", HIDDEN_PACKED,
	    "replaced objects: `git replace` lists them, `git --no-replace-objects` ignores them",
	    false },
};

static void
add(struct hidden *s, const char *text, size_t len)
{
	uint64_t x = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		x = (x ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	s->n++;
	s->names += x ^ x >> 29;
}

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	if (e->hidden)
		add(data, e->path, e->len);
}

struct named {
	const struct hidden_names *names;
	struct hidden *sum;
};

static bool
may_be_named(const struct hidden_names *names, const char *path)
{
	char name[NAME_LEN_MAX + 1];

	if (names->index == NULL)
		return true;
	for (size_t n; *path != '\0'; path += n + (path[n] == '/' ? 1 : 0)) {
		n = strcspn(path, "/");
		if (n > NAME_LEN_MAX)
			continue;
		memcpy(name, path, n);
		name[n] = '\0';
		if (names_index_may(names->index, name))
			return true;
	}
	return false;
}

/* Adds an entry that a checkout would write where commands may not. */
static void
on_named(void *data, const struct gitindex_entry *e)
{
	const struct named *n = data;
	char text[1 + PATH_LEN_MAX + GITINDEX_OBJECT_MAX + 1];
	int len;

	if (!may_be_named(n->names, e->path))
		return;
	len = snprintf(text, PATH_LEN_MAX + 2, "/%s", e->path);
	if (len > PATH_LEN_MAX || names_rule_of(n->names->rules, text) == NULL)
		return;
	memcpy(text + len + 1, e->object, e->object_len);
	add(n->sum, text, (size_t)len + 1 + e->object_len);
}

struct index_files {
	int dir_fd, other_fd;
	const char *name;
};

static char *
read_shared(const struct index_files *f, const struct gitindex_base *base, size_t *ret_len)
{
	char name[sizeof("sharedindex.") + 64] = "sharedindex.";
	struct stat st;
	char *text;

	hex_put(name + strlen(name), base->name, base->len);
	text = plant_read(f->dir_fd, name, GITINDEX_BYTES_MAX, &st, ret_len);
	return text == NULL && f->other_fd >= 0
	    ? plant_read(f->other_fd, name, GITINDEX_BYTES_MAX, &st, ret_len)
	    : text;
}

static void
sum_index(const struct index_files *f, gitindex_fn *fn, void *data, struct hidden *s)
{
	struct gitindex_base base = { 0 };
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(f->dir_fd, f->name, GITINDEX_BYTES_MAX, &st, &len);
	cleanup_free char *shared = NULL;

	if (text == NULL && errno == ENOENT)
		return;
	if (text == NULL || gitindex_parse((const uint8_t *)text, len, fn, data, &base) < 0) {
		s->unread = true;
		return;
	}
	if (base.len == 0)
		return;
	shared = read_shared(f, &base, &len);
	if (shared == NULL || gitindex_parse((const uint8_t *)shared, len, fn, data, NULL) < 0)
		s->unread = true;
}

/* Adds the lines that have an effect; of packed-refs, only those of refs/replace. */
static void
sum_lines(int dir_fd, const char *name, bool packed, struct hidden *s)
{
	struct stat st;
	size_t len;
	cleanup_free char *text =
	    plant_read(dir_fd, name, packed ? PACKED_MAX : TEXT_MAX, &st, &len);
	const char *p = text, *end;

	if (text == NULL) {
		if (errno != ENOENT && errno != ENOTDIR)
			s->unread = true;
		return;
	}
	for (; p < text + len; p = end + 1) {
		size_t n;

		end = memchr(p, '\n', (size_t)(text + len - p));
		if (end == NULL)
			end = text + len;
		n = (size_t)(end - p);
		while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
			n--;
		if (n == 0 || p[0] == '#')
			continue;
		if (!packed || memmem(p, n, " refs/replace/", strlen(" refs/replace/")) != NULL)
			add(s, p, n);
	}
}

static void
sum_names(int dir_fd, const char *name, struct hidden *s)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		close_at(&fd);
		return;
	}
	while (s->n < REPLACED_MAX && (e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			add(s, e->d_name, strlen(e->d_name));
	}
}

void
hidden_count(const struct hidden_row *row, const struct hidden_names *names, int dir_fd,
    int other_fd, const char *name, struct hidden *ret)
{
	const struct index_files files = { dir_fd, other_fd, name };
	struct named named = { names, ret };

	*ret = (struct hidden){ 0 };
	switch (row->kind) {
	case HIDDEN_INDEX:
		sum_index(&files, on_entry, ret, ret);
		return;
	case HIDDEN_NAMED:
		sum_index(&files, on_named, &named, ret);
		return;
	case HIDDEN_REPLACE:
		sum_names(dir_fd, name, ret);
		return;
	case HIDDEN_LINES:
	case HIDDEN_PACKED:
		sum_lines(dir_fd, name, row->kind == HIDDEN_PACKED, ret);
		return;
	}
}

bool
hidden_is_news(const struct hidden_row *row, const struct hidden *was, const struct hidden *now,
    bool is_new)
{
	if ((now->n == 0 && !now->unread) || (is_new && row->usual))
		return false;
	return now->n != was->n || now->names != was->names || now->unread != was->unread;
}

void
hidden_say(const struct hidden_row *row, const struct hidden *now, char ret[HIDDEN_TEXT_SIZE])
{
	if (now->unread)
		snprintf(ret, HIDDEN_TEXT_SIZE,
		    "git may not show every change: '%s' cannot be read here; a new clone does "
		    "not have it",
		    row->name);
	else
		snprintf(ret, HIDDEN_TEXT_SIZE, "git may not show every change: %llu %s",
		    (unsigned long long)now->n, row->tells);
}
