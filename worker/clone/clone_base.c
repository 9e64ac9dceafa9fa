/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clone/clone_base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/clone/clone.h"

#define NEW_NAME CLONE_BASE ".new"

struct clone_entry
clone_entry_of(const struct stat *st)
{
	return (struct clone_entry){
		.type = S_ISDIR(st->st_mode) ? 'd'
		    : S_ISREG(st->st_mode)   ? 'f'
		    : S_ISLNK(st->st_mode)   ? 'l'
					     : 'o',
		.ino = st->st_ino,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
	};
}

bool
clone_entry_same(const struct clone_entry *a, const struct clone_entry *b)
{
	return a->type == b->type && a->ino == b->ino && a->ctime_ns == b->ctime_ns;
}

/* ---- writing ---- */

struct writing {
	FILE *f;
	char path[CLONE_PATH_MAX + 1];
	int64_t newest_ns;
};

static int
write_directory(struct writing *w, int fd, size_t len)
{
	char **names = clone_names(fd);
	int status = names == NULL ? clone_fail("read the directory", w->path, errno) : 0;

	for (size_t i = 0; status == 0 && names[i] != NULL; i++) {
		const size_t at = len + (len > 0), k = strlen(names[i]);
		struct clone_entry e;
		struct stat st;
		int below;

		if (len > 0)
			w->path[len] = '/';
		memcpy(w->path + at, names[i], k + 1); /* clone_make() made no longer one */
		if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
			status = clone_fail("look at the copy of", w->path, errno);
			break;
		}
		e = clone_entry_of(&st);
		if (e.ctime_ns > w->newest_ns)
			w->newest_ns = e.ctime_ns;
		fprintf(w->f, "%c %" PRIu64 " %" PRId64 " %s", e.type, e.ino, e.ctime_ns, w->path);
		fputc('\0', w->f);
		if (e.type != 'd')
			continue;
		below = openat(fd, names[i], CLONE_OPEN_DIR);
		if (below >= 0)
			status = write_directory(w, below, at + k);
		/* The project's directory cannot be read, and so neither can its copy, which is
		 * empty. */
		close_at(&below);
	}
	w->path[len] = '\0';
	clone_names_free(names);
	return status;
}

/* What is changed from now on must not get a time that an entry has. */
static void
wait_for_tick(int64_t newest_ns)
{
	struct timespec now;

	for (;;) {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec > newest_ns)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

int
clone_base_write(int into)
{
	cleanup_close int tree = openat(into, CLONE_TREE, CLONE_OPEN_DIR);
	int fd =
	    openat(into, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct writing w = { .f = fd < 0 ? NULL : fdopen(fd, "w") };
	int status;
	bool bad;

	if (tree < 0 || w.f == NULL)
		return clone_fail("write", CLONE_BASE, errno);
	status = write_directory(&w, tree, 0);
	bad = ferror(w.f) != 0 || fflush(w.f) != 0 || fsync(fd) < 0;
	if (fclose(w.f) != 0 || bad || renameat(into, NEW_NAME, into, CLONE_BASE) < 0)
		return clone_fail("write", CLONE_BASE, errno);
	wait_for_tick(w.newest_ns);
	return status;
}

/* ---- reading ---- */

static uint64_t
hash_of(const char *path, size_t len)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)path[i]) * 1099511628211u;
	return h;
}

struct clone_entry *
clone_base_find(const struct clone_base *b, const char *path, size_t len)
{
	for (size_t i = hash_of(path, len);; i++) {
		const uint32_t at = b->slot[i & (b->n_slots - 1)];

		if (at == 0)
			return NULL;
		if (strncmp(b->v[at - 1].path, path, len) == 0 && b->v[at - 1].path[len] == '\0')
			return &b->v[at - 1];
	}
}

void
clone_base_done(struct clone_base *b)
{
	free(b->text);
	free(b->v);
	free(b->slot);
	*b = (struct clone_base){ 0 };
}

static char *
read_text(int into, size_t *ret_len)
{
	cleanup_close int fd = openat(into, CLONE_BASE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char *text = NULL;
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || (text = malloc((size_t)st.st_size + 1)) == NULL)
		return NULL;
	while (n < (size_t)st.st_size) {
		ssize_t got = read(fd, text + n, (size_t)st.st_size - n);

		if (got <= 0 && (got == 0 || errno != EINTR))
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	*ret_len = n;
	return text;
}

/* Returns false if the line has not its form. */
static bool
take_entry(char *line, struct clone_entry *ret)
{
	char *end;

	*ret = (struct clone_entry){ .type = line[0] };
	if (strchr("dflo", line[0]) == NULL || line[0] == '\0' || line[1] != ' ')
		return false;
	ret->ino = strtoull(line + 2, &end, 10);
	if (*end != ' ')
		return false;
	ret->ctime_ns = strtoll(end + 1, &end, 10);
	ret->path = end + 1;
	return *end == ' ' && end[1] != '\0';
}

int
clone_base_read(int into, struct clone_base *ret)
{
	size_t len = 0, n = 0;

	*ret = (struct clone_base){ .text = read_text(into, &len), .n_slots = 16 };
	if (ret->text == NULL)
		return clone_fail("read", CLONE_BASE, errno);
	for (size_t i = 0; i < len; i++)
		n += ret->text[i] == '\0';
	while (ret->n_slots < 2 * n)
		ret->n_slots *= 2;
	ret->v = calloc(n + 1, sizeof(*ret->v));
	ret->slot = calloc(ret->n_slots, sizeof(*ret->slot));
	if (ret->v == NULL || ret->slot == NULL || n >= UINT32_MAX)
		return clone_fail("read", CLONE_BASE, ENOMEM);
	for (char *line = ret->text; line < ret->text + len; line += strlen(line) + 1) {
		struct clone_entry *e = &ret->v[ret->n];
		size_t i;

		if (ret->n == n || !take_entry(line, e))
			return clone_fail("this is not what was written:", CLONE_BASE, 0);
		i = hash_of(e->path, strlen(e->path));
		while (ret->slot[i & (ret->n_slots - 1)] != 0)
			i++;
		ret->slot[i & (ret->n_slots - 1)] = (uint32_t)++ret->n;
		/* take_entry() leaves the line as it is, so that this finds the next one. */
		line = (char *)(uintptr_t)e->path;
	}
	return 0;
}
