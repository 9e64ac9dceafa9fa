/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a tree: this thread walks it and makes directories and links, the others copy files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "worker/clone/clone.h"
#include "worker/clone/clone_base.h"

#define COPIERS     2   /* the kernel's work on metadata gains nothing from more */
#define QUEUED_MAX  256 /* each may keep a directory open: two descriptors */
#define PROGRESS_MS 100

/* A directory and its copy. It stays open until everything in it is copied; then it gets its mode and
 * its time. */
struct pair {
	struct pair *above;
	int from, to;
	atomic_uint users;
	struct stat st;
};

struct queued {
	struct pair *pair;
	char *name;
};

struct making {
	const struct clone_limits *limits;
	const char *const *leave_out;
	char path[CLONE_PATH_MAX + 1]; /* of the name that is looked at, below the top */
	unsigned depth;
	int top;     /* the copy */
	void *links; /* files with several names that were copied: a tree of struct linked */
	uint64_t n, left_out, printed_ms;
	atomic_ullong written;
	atomic_int status; /* of the first failure */

	pthread_mutex_t lock;
	pthread_cond_t more, room;
	struct queued queue[QUEUED_MAX];
	size_t first, n_queued;
	bool over; /* nothing more is put into the queue */
};

struct linked {
	dev_t dev;
	ino_t ino;
	char *path; /* of its first name, below the top */
};

/* ---- directories ---- */

static void
pair_let_go(struct pair *p)
{
	while (p != NULL && atomic_fetch_sub(&p->users, 1) == 1) {
		struct pair *above = p->above;

		fchmod(p->to, p->st.st_mode & 01777);
		futimens(p->to, (const struct timespec[]){ p->st.st_atim, p->st.st_mtim });
		close(p->from);
		close(p->to);
		free(p);
		p = above;
	}
}

/* Takes over both descriptors. */
static struct pair *
pair_new(struct pair *above, int from, int to)
{
	struct pair *p = calloc(1, sizeof(*p));

	if (p == NULL || fstat(from, &p->st) < 0) {
		free(p);
		close(from);
		close(to);
		return NULL;
	}
	p->from = from;
	p->to = to;
	p->above = above;
	atomic_init(&p->users, 1);
	if (above != NULL)
		atomic_fetch_add(&above->users, 1);
	return p;
}

/* ---- files ---- */

static void
fail(struct making *m, int status)
{
	int none = 0;

	atomic_compare_exchange_strong(&m->status, &none, status);
}

static void
copy_one(struct making *m, const struct pair *p, const char *name)
{
	const uint64_t before = atomic_load(&m->written);
	struct clone_copied c;

	if (before > m->limits->bytes) {
		fail(m, CLONE_STATUS_TOO_LARGE);
		return;
	}
	if (clone_copy(p->from, name, p->to, name, m->limits->bytes - before, &c) == 0) {
		atomic_fetch_add(&m->written, c.written);
		return;
	}
	if (errno == EFBIG)
		fail(m, CLONE_STATUS_TOO_LARGE);
	else
		fail(m, clone_fail("copy", name, errno));
}

static void *
copier(void *data)
{
	struct making *m = data;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		struct queued q;

		while (m->n_queued == 0 && !m->over)
			pthread_cond_wait(&m->more, &m->lock);
		if (m->n_queued == 0)
			break;
		q = m->queue[m->first];
		m->first = (m->first + 1) % QUEUED_MAX;
		m->n_queued--;
		pthread_cond_signal(&m->room);
		pthread_mutex_unlock(&m->lock);
		if (atomic_load(&m->status) == 0)
			copy_one(m, q.pair, q.name);
		free(q.name);
		pair_let_go(q.pair);
		pthread_mutex_lock(&m->lock);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

static void
put_progress(struct making *m)
{
	const uint64_t now = monotonic_ms();

	if (now < m->printed_ms + PROGRESS_MS)
		return;
	m->printed_ms = now;
	printf("at %" PRIu64 " %" PRIu64 "\n", m->n, (uint64_t)atomic_load(&m->written));
	fflush(stdout);
}

static int
enqueue(struct making *m, struct pair *p, const char *name)
{
	char *copy = strdup(name);

	if (copy == NULL)
		return clone_fail("copy", name, ENOMEM);
	atomic_fetch_add(&p->users, 1);
	pthread_mutex_lock(&m->lock);
	while (m->n_queued == QUEUED_MAX) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += PROGRESS_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&m->room, &m->lock, &until);
		put_progress(m);
	}
	m->queue[(m->first + m->n_queued++) % QUEUED_MAX] = (struct queued){ p, copy };
	pthread_cond_signal(&m->more);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

/* ---- files with several names ---- */

static int
by_inode(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

static void
free_linked(void *l)
{
	free(((struct linked *)l)->path);
	free(l);
}

/* Copies the first name of a file at once, so that the next ones can be links to the copy. */
static int
copy_linked(struct making *m, const struct pair *p, const char *name, const struct statx *st)
{
	struct linked key = { makedev(st->stx_dev_major, st->stx_dev_minor), st->stx_ino, NULL };
	struct linked *const *found = tfind(&key, &m->links, by_inode);
	struct linked *fresh;

	if (found != NULL && linkat(m->top, (*found)->path, p->to, name, 0) == 0)
		return 0;
	copy_one(m, p, name);
	if (found != NULL || atomic_load(&m->status) != 0 ||
	    faccessat(p->to, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return atomic_load(&m->status);
	fresh = malloc(sizeof(*fresh));
	if (fresh == NULL)
		return clone_fail("copy", m->path, ENOMEM);
	*fresh = key;
	fresh->path = strdup(m->path);
	if (fresh->path != NULL && tsearch(fresh, &m->links, by_inode) != NULL)
		return 0;
	free_linked(fresh);
	return clone_fail("copy", m->path, ENOMEM);
}

/* ---- the walk ---- */

static int walk(struct making *m, struct pair *p, size_t len);

static bool
is_left_out(const struct making *m)
{
	for (size_t i = 0; m->leave_out[i] != NULL; i++)
		if (strcmp(m->leave_out[i], m->path) == 0)
			return true;
	return false;
}

static int
make_directory(struct making *m, struct pair *p, const char *name, size_t len)
{
	int from, to, status;
	struct pair *below;

	if (m->depth == CLONE_DEPTH_MAX) {
		m->left_out++;
		return 0;
	}
	from = openat(p->from, name, CLONE_OPEN_DIR);
	if (from < 0) {
		m->left_out++;
		return errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == ELOOP
		    ? 0
		    : clone_fail("open", m->path, errno);
	}
	to = mkdirat(p->to, name, 0700) < 0 ? -1 : openat(p->to, name, CLONE_OPEN_DIR);
	if (to < 0) {
		status = clone_fail("make", m->path, errno);
		close(from);
		return status;
	}
	below = pair_new(p, from, to);
	if (below == NULL)
		return clone_fail("open", m->path, ENOMEM);
	m->depth++;
	status = walk(m, below, len);
	m->depth--;
	pair_let_go(below);
	return status;
}

static int
take_name(struct making *m, struct pair *p, const char *name, size_t len)
{
	struct statx st;

	if (statx(p->from, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) < 0)
		return errno == ENOENT ? 0 : clone_fail("look at", m->path, errno);
	/* What is mounted there is not a part of the project, or hides what must not be read. */
	if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
		m->left_out++;
		return 0;
	}
	if (++m->n > m->limits->files)
		return CLONE_STATUS_TOO_LARGE;
	switch (st.stx_mode & S_IFMT) {
	case S_IFDIR:
		return make_directory(m, p, name, len);
	case S_IFREG:
		return st.stx_nlink > 1 ? copy_linked(m, p, name, &st) : enqueue(m, p, name);
	case S_IFLNK:
		if (clone_copy_link(p->from, name, p->to, name) == 0 || errno == ENOENT)
			return 0;
		/* The sandbox makes links for commands, and refuses some. */
		if (errno != EPERM && errno != EACCES)
			return clone_fail("copy the link", m->path, errno);
		m->left_out++;
		return 0;
	default:
		m->left_out++;
		return 0;
	}
}

static int
walk(struct making *m, struct pair *p, size_t len)
{
	char **names = clone_names(p->from);
	int status = names == NULL ? clone_fail("read the directory", m->path, errno) : 0;

	for (size_t i = 0; status == 0 && names[i] != NULL; i++) {
		const size_t k = strlen(names[i]), at = len + (len > 0);

		if (at + k > CLONE_PATH_MAX) {
			m->left_out++;
			continue;
		}
		if (len > 0)
			m->path[len] = '/';
		memcpy(m->path + at, names[i], k + 1);
		if (is_left_out(m))
			m->left_out++;
		else
			status = take_name(m, p, names[i], at + k);
		if (status == 0)
			status = atomic_load(&m->status);
		put_progress(m);
	}
	m->path[len] = '\0';
	clone_names_free(names);
	return status;
}

/* ---- all of it ---- */

static int
copy_tree(struct making *m, const char *from, int into)
{
	pthread_t thread[COPIERS];
	size_t n = 0;
	int in = open(from, CLONE_OPEN_DIR);
	int to =
	    mkdirat(into, CLONE_TREE, 0700) < 0 ? -1 : openat(into, CLONE_TREE, CLONE_OPEN_DIR);
	struct pair *top = NULL;
	int status = in < 0 || to < 0 ? clone_fail("open", from, errno) : 0;

	if (status != 0) {
		close_at(&in);
		close_at(&to);
		return status;
	}
	m->top = dup(to);
	top = pair_new(NULL, in, to);
	while (top != NULL && n < COPIERS && pthread_create(&thread[n], NULL, copier, m) == 0)
		n++;
	status = top == NULL || m->top < 0 || n == 0 ? clone_fail("begin with", from, EAGAIN)
						     : walk(m, top, 0);
	fail(m, status);
	pthread_mutex_lock(&m->lock);
	m->over = true;
	pthread_cond_broadcast(&m->more);
	pthread_mutex_unlock(&m->lock);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	pair_let_go(top);
	close_at(&m->top);
	tdestroy(m->links, free_linked);
	return atomic_load(&m->status);
}

int
clone_make(const char *from, int into, const struct clone_limits *limits,
    const char *const *leave_out)
{
	struct making m = { .limits = limits, .leave_out = leave_out };
	int status;

	pthread_mutex_init(&m.lock, NULL);
	pthread_cond_init(&m.more, NULL);
	pthread_cond_init(&m.room, NULL);
	status = copy_tree(&m, from, into);
	if (status == 0)
		status = clone_base_write(into);
	if (status == CLONE_STATUS_TOO_LARGE)
		fprintf(stderr,
		    "there are more than %" PRIu64 " files, or more than %" PRIu64
		    " bytes to copy\n",
		    limits->files, limits->bytes);
	if (status == 0)
		printf("done %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", m.n,
		    (uint64_t)atomic_load(&m.written), m.left_out);
	return status;
}
