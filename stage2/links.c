/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/links.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/caller.h"
#include "stage2/link_make.h"
#include "stage2/refusals.h"
#include "stage2/view.h"

/*
 * How long the end of a command waits for one request of a dead caller. A local file system needs a
 * thousandth of it.
 */
#define LINKS_PATIENCE_MS 1000

struct writable {
	char *path;
	uint64_t dev, ino;
};

struct links {
	struct links_shared *shared;
	pid_t pid;
	/*
	 * A pipe: the process that it wakes runs on the processor of the waker, which is about to
	 * sleep. With an eventfd the kernel looks for another processor, which on a busy machine
	 * takes many times as long.
	 */
	int wake[2];
	int listener, refused_fd, helper_refused_fd;
	/* The end of `over` commands waits until `until` requests are made; 0: none waits. */
	unsigned over;
	uint64_t until;
	/* Value of `made` when last seen, and the time (ms) when it last changed. */
	uint64_t made, since;
	struct writable *writable;
	size_t n_writable;
	struct refusals refused;
};

/* ---- the process ---- */

/* It may look into callers, and has no other right. */
static int
confine_maker(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	data[0].effective = data[0].permitted = 1u << CAP_SYS_PTRACE;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, data) < 0)
		return -1;
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static _Noreturn void
become_maker(const struct links *l)
{
	int fds[] = { l->listener, l->wake[0], l->helper_refused_fd };
	sigset_t all;

	/* Only pid 1 has a reason to signal it, with SIGKILL, which cannot be blocked. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "koda-links");
	/* First copy all of them above the target numbers, so that none overwrites another. */
	for (size_t i = 0; i < N_ELEMENTS(fds); i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, LINK_FDS_END);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++)
		if (fds[i] < 0 || dup3(fds[i], LINK_LISTENER_FD + (int)i, O_CLOEXEC) < 0)
			_exit(1);
	if (syscall(SYS_close_range, LINK_FDS_END, ~0u, 0) < 0 || chdir("/") < 0 ||
	    confine_maker() < 0)
		_exit(1);
	link_make_serve(l->shared);
}

static int
start_maker(struct links *l, struct koda_error *err)
{
	l->pid = fork();
	if (l->pid == 0)
		become_maker(l);
	return l->pid > 0 ? 0
			  : err_set(err, KODA_INTERNAL, errno, "fork the process that makes links");
}

pid_t
links_pid(const struct links *l)
{
	return l == NULL ? -1 : l->pid;
}

void
links_died(struct stage2 *s)
{
	struct links *l = s->links;
	struct links_shared *shared = l->shared;
	uint64_t asked = atomic_load(&shared->asked);
	struct koda_error err;

	/* The first of them may already have been answered. */
	for (uint64_t n = atomic_load(&shared->answered); n != asked; n++)
		caller_answer(l->listener, shared->request[n % LINKS_QUEUE_MAX].id, -EIO);
	atomic_store(&shared->made, asked);
	atomic_store(&shared->answered, asked);
	if (start_maker(l, &err) < 0) {
		fprintf(stderr, "koda-sandbox-stage2: %s\n", err.message);
		_exit(1);
	}
}

/* ---- the table ---- */

static int
take_writable(struct links *l, const Koda__Boot *b)
{
	l->writable = calloc(b->n_writable + 1, sizeof(*l->writable));
	if (l->writable == NULL)
		return -1;
	for (size_t i = 0; i < b->n_writable && l->n_writable < LINKS_WRITABLE_MAX; i++) {
		char *path = strndup((const char *)b->writable[i].data, b->writable[i].len);
		struct stat st;

		if (path == NULL)
			return -1;
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
			free(path);
			continue;
		}
		l->writable[l->n_writable++] =
		    (struct writable){ path, (uint64_t)st.st_dev, (uint64_t)st.st_ino };
	}
	return 0;
}

static bool
is_inside(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static void
add_directory(struct links_shared *shared, uint64_t dev, uint64_t ino, bool plain)
{
	shared->dir[shared->n_dirs++] = (struct link_dir){ dev, ino, plain };
}

/* Keeps one entry for each directory, which is plain if any of its entries is. */
static void
sort_directories(struct links_shared *shared)
{
	size_t kept = 0;

	qsort(shared->dir, shared->n_dirs, sizeof(shared->dir[0]), link_dir_order);
	for (size_t i = 0; i < shared->n_dirs; i++) {
		struct link_dir *last = kept > 0 ? &shared->dir[kept - 1] : NULL;

		if (last != NULL && link_dir_order(last, &shared->dir[i]) == 0)
			last->plain = last->plain || shared->dir[i].plain;
		else
			shared->dir[kept++] = shared->dir[i];
	}
	shared->n_dirs = kept;
}

void
links_plan(struct links *l, const struct slot_view *v)
{
	struct links_shared *shared = l->shared;

	atomic_fetch_add(&shared->generation, 1);
	shared->n_dirs = 0;
	for (size_t i = 0; v != NULL && i < v->n && i < STAGE2_MOUNTS_MAX; i++) {
		const struct view_entry *e = &v->entry[i];

		/* Also a directory that a process outside has just moved: it may come back. */
		if (e->plain && e->directory && e->mounted_ino != 0)
			add_directory(shared, e->mounted_dev, e->mounted_ino, true);
	}
	for (size_t i = 0; i < l->n_writable; i++) {
		const struct writable *w = &l->writable[i];
		bool plain = false;

		/* The search upwards ends at a writable directory. */
		for (size_t k = 0; v != NULL && k < v->n && !plain; k++)
			plain = v->entry[k].plain && is_inside(w->path, v->entry[k].path);
		add_directory(shared, w->dev, w->ino, plain);
	}
	sort_directories(shared);
	atomic_fetch_add(&shared->generation, 1);
}

/* ---- pid 1's side ---- */

struct links *
links_new(int listener, const Koda__Boot *b, struct koda_error *err)
{
	struct links *l = calloc(1, sizeof(*l));
	int pair[2] = { -1, -1 };

	if (l == NULL || take_writable(l, b) < 0) {
		err_set(err, KODA_INTERNAL, ENOMEM, "links");
		return NULL;
	}
	l->listener = listener;
	l->refused.kind = KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED;
	l->shared = mmap(NULL, sizeof(*l->shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->shared == MAP_FAILED || pipe2(l->wake, O_CLOEXEC) < 0 ||
	    fcntl(l->wake[1], F_SETFL, O_NONBLOCK) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_set(err, KODA_INTERNAL, errno, "links");
		return NULL;
	}
	l->refused_fd = pair[0];
	l->helper_refused_fd = pair[1];
	links_plan(l, NULL);
	return start_maker(l, err) < 0 ? NULL : l;
}

bool
links_ask(struct links *l, const struct seccomp_notif *req)
{
	struct links_shared *shared = l->shared;
	uint64_t asked = atomic_load(&shared->asked);

	if (asked - atomic_load(&shared->answered) >= LINKS_QUEUE_MAX)
		return false;
	shared->request[asked % LINKS_QUEUE_MAX] = *req;
	atomic_store(&shared->asked, asked + 1);
	/* A full pipe wakes it as well. */
	return write(l->wake[1], "", 1) == 1 || errno == EAGAIN;
}

int
links_fd(const struct links *l)
{
	return l->refused_fd;
}

void
links_refused(struct stage2 *s)
{
	struct links *l = s->links;
	char path[2 * PATH_MAX + 1];
	ssize_t n;

	while ((n = recv(l->refused_fd, path, sizeof(path) - 1, MSG_DONTWAIT)) > 0) {
		path[n] = '\0';
		refusals_tell(s, &l->refused, path);
	}
}

bool
links_are_made(struct links *l, unsigned over)
{
	uint64_t made = atomic_load(&l->shared->made);

	if (l->over != over) {
		l->over = over;
		l->until = atomic_load(&l->shared->asked);
		l->since = monotonic_ms();
	}
	if (made >= l->until) {
		l->over = 0;
		return true;
	}
	if (l->made != made) {
		l->made = made;
		l->since = monotonic_ms();
	} else if (monotonic_ms() - l->since > LINKS_PATIENCE_MS) {
		kill(l->pid, SIGKILL);
	}
	return false;
}

void
links_tell_untold(struct stage2 *s)
{
	struct links *l = s->links;

	if (l == NULL)
		return;
	links_refused(s);
	l->refused.untold += atomic_exchange(&l->shared->untold, 0);
	refusals_tell_untold(s, &l->refused);
}
