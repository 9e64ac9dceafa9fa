/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/bwrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

const char *const bwrap_private[] = { "/dev/shm", "/run", "/tmp", "/var/tmp", NULL };

struct argument {
	const char *word[4], *comment;
};

/*
 * No --die-with-parent: its signal is sent when the *thread* that started bwrap ends, which a
 * thread of the embedder may do at any time. stage2 watches the host itself.
 *
 * No --new-session: the host starts bwrap in a session of its own (shared/wire/spawn), without a
 * controlling terminal, and stage2 gives each command another one; a setsid() here would add a
 * session that has no use.
 */
/* clang-format off */
static const struct argument namespaces[] = {
	{ { "--unshare-user" },       "its own users: capabilities in here have no effect outside" },
	{ { "--unshare-pid" },        "no process of the host can be seen, signalled or traced" },
	{ { "--unshare-net" },        "no network, and no abstract socket of the host" },
	{ { "--unshare-ipc" },        "no shared memory, semaphore or queue of the host" },
	{ { "--unshare-uts" },        "its own host name" },
	{ { "--unshare-cgroup-try" }, "no path of the host's cgroups" },
	{ { "--disable-userns" },     "no user namespace inside this one" },
	{ { "--as-pid-1" },           "stage2 is its init and adopts orphans" },
	/* As root, bwrap would keep all of them, and each program it starts could get them back. */
	{ { "--cap-drop", "ALL" },            "drop all capabilities except" },
	{ { "--cap-add", "CAP_SYS_ADMIN" },   "stage2 mounts the view; commands do not have it" },
	{ { "--cap-add", "CAP_SYS_PTRACE" },  "stage2 checks connections; commands do not have it" },
	{ { "--cap-add", "CAP_DAC_OVERRIDE" }, "stage2 mounts overlays, and gives it up; commands do not have it" },
	{ { "--clearenv" },                   "nothing of the host's environment" },
};

static const struct argument base[] = {
	{ { "--ro-bind", "/", "/" }, "the host's file system, read-only" },
	{ { "--dev", "/dev" },       "null, zero, full, random, urandom, tty, its own pts" },
	{ { "--proc", "/proc" },     "its own processes only" },
};

/* In the order of bwrap_private; directories for all users have the same mode as on the host. */
static const struct argument private[] = {
	{ { "--perms", "1777", "--tmpfs", "/dev/shm" }, "private: without the host's shared memory" },
	{ { "--perms", "0755", "--tmpfs", "/run" },     "private: without the sockets of the host's services" },
	{ { "--perms", "1777", "--tmpfs", "/tmp" },     "private: without the host's sockets and files" },
	{ { "--perms", "1777", "--tmpfs", "/var/tmp" }, "private: without the host's files" },
};
/* clang-format on */

static int
add(struct bwrap_arguments *a, const char *word, const char *comment, struct koda_error *err)
{
	char **v, **c;

	v = realloc(a->v, (a->n + 2) * sizeof(*v));
	if (v != NULL)
		a->v = v;
	c = realloc(a->comment, (a->n + 2) * sizeof(*c));
	if (c != NULL)
		a->comment = c;
	if (v == NULL || c == NULL)
		goto no_memory;
	v[a->n] = strdup(word);
	c[a->n] = strdup(comment);
	a->n++; /* count both, so that bwrap_arguments_done() frees the one that was copied */
	v[a->n] = c[a->n] = NULL;
	if (v[a->n - 1] == NULL || c[a->n - 1] == NULL)
		goto no_memory;
	return 0;
no_memory:
	return err_set(err, KODA_INTERNAL, ENOMEM, "arguments of bwrap");
}

static int
add_argument(struct bwrap_arguments *a, const struct argument *one, struct koda_error *err)
{
	for (size_t i = 0; i < N_ELEMENTS(one->word) && one->word[i] != NULL; i++) {
		if (add(a, one->word[i], i == 0 ? one->comment : "", err) < 0)
			return -1;
	}
	return 0;
}

static int
add_all(struct bwrap_arguments *a, const struct argument *all, size_t n, struct koda_error *err)
{
	for (size_t i = 0; i < n; i++) {
		if (add_argument(a, &all[i], err) < 0)
			return -1;
	}
	return 0;
}

/* A place of the host, visible at the same path. */
struct bind {
	const char *path;
	int fd;
	bool writable, drafted;
};

/* A directory sorts before its contents, because its path is a prefix of theirs. */
static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct bind *)a)->path, ((const struct bind *)b)->path);
}

static int
add_bind(struct bwrap_arguments *a, const struct bind *bind, struct koda_error *err)
{
	char number[16];

	if (bind->path == NULL || bind->path[0] != '/')
		return err_set(err, KODA_INVALID, 0, "a place of the view is not an absolute path");
	if (!bind->writable)
		return add_argument(a,
		    &(struct argument){ { "--ro-bind", bind->path, bind->path },
			"visible, although the directory around it is private" },
		    err);
	if (bind->drafted) {
		snprintf(number, sizeof(number), "%d", bind->fd);
		return add_argument(a,
		    &(struct argument){ { bind->fd < 0 ? "--ro-bind" : "--ro-bind-fd",
					    bind->fd < 0 ? bind->path : number, bind->path },
			"read-only: a draft covers it, and takes what commands change" },
		    err);
	}
	if (bind->fd < 0)
		return add_argument(a,
		    &(struct argument){ { "--bind", bind->path, bind->path },
			"writable: by the policy, or as a cache" },
		    err);
	snprintf(number, sizeof(number), "%d", bind->fd);
	return add_argument(a,
	    &(struct argument){ { "--bind-fd", number, bind->path },
		"writable: by the policy, or as a cache; by descriptor, as the host found it" },
	    err);
}

/* Is path in a private file system, and not in a writable directory? */
static bool
is_covered(const struct bwrap_input *in, const char *path)
{
	bool covered = false;

	for (size_t i = 0; bwrap_private[i] != NULL; i++)
		covered = covered || path_is_inside(path, bwrap_private[i]);
	for (size_t i = 0; i < in->n_writable; i++)
		covered = covered && !path_is_inside(path, in->writable[i].path);
	return covered;
}

static int
add_binds(struct bwrap_arguments *a, const struct bwrap_input *in, struct koda_error *err)
{
	cleanup_free struct bind *bind = calloc(in->n_writable + in->n_shown + 1, sizeof(*bind));
	size_t n = 0;

	if (bind == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "arguments of bwrap");
	for (size_t i = 0; i < in->n_writable; i++)
		bind[n++] = (struct bind){ in->writable[i].path, in->writable[i].fd, true,
			in->writable[i].drafted };
	for (size_t i = 0; i < in->n_shown; i++)
		bind[n++] = (struct bind){ in->shown[i], -1, false, false };
	for (size_t i = 0; i < n; i++) {
		if (bind[i].path == NULL)
			return err_set(err, KODA_INVALID, 0, "a place of the view has no path");
	}
	qsort(bind, n, sizeof(*bind), by_path);
	for (size_t i = 0; i < n; i++) {
		if ((bind[i].writable || is_covered(in, bind[i].path)) &&
		    add_bind(a, &bind[i], err) < 0)
			return -1;
	}
	return 0;
}

static int
add_caches(struct bwrap_arguments *a, const struct bwrap_input *in, struct koda_error *err)
{
	char number[16];

	if (in->caches == NULL)
		return 0;
	snprintf(number, sizeof(number), "%d", in->caches_fd);
	if (add_argument(a,
		&(struct argument){ { in->caches_fd < 0 ? "--ro-bind" : "--ro-bind-fd",
					in->caches_fd < 0 ? in->caches : number, BWRAP_CACHES },
		    "the host's caches, below the layers; commands do not see them here" },
		err) < 0)
		return -1;
	if (in->layers == NULL)
		return 0;
	snprintf(number, sizeof(number), "%d", in->layers_fd);
	return add_argument(a,
	    &(struct argument){ { in->layers_fd < 0 ? "--bind" : "--bind-fd",
				    in->layers_fd < 0 ? in->layers : number, BWRAP_LAYERS },
		"what this project's commands wrote to caches; they do not see it here" },
	    err);
}

static int
add_draft(struct bwrap_arguments *a, const struct bwrap_input *in, struct koda_error *err)
{
	char number[16];

	if (in->draft == NULL)
		return 0;
	snprintf(number, sizeof(number), "%d", in->draft_fd);
	return add_argument(a,
	    &(struct argument){ { in->draft_fd < 0 ? "--bind" : "--bind-fd",
				    in->draft_fd < 0 ? in->draft : number, BWRAP_DRAFT },
		"the draft: what commands change; they do not see it there" },
	    err);
}

static int
add_run(struct bwrap_arguments *a, const struct bwrap_input *in, struct koda_error *err)
{
	char runtime[64];

	snprintf(runtime, sizeof(runtime), "/run/user/%u", in->uid);
	if (add_argument(a,
		&(struct argument){ { "--perms", "0700", "--dir", runtime },
		    "XDG_RUNTIME_DIR, with nothing of the host in it" },
		err) < 0)
		return -1;
	if (add_caches(a, in, err) < 0 || add_draft(a, in, err) < 0)
		return -1;
	if (in->certificates == NULL)
		return 0;
	return add_argument(a,
	    &(struct argument){ { "--ro-bind", in->certificates, BWRAP_CERTIFICATES },
		"the certificates that commands trust while the session intercepts TLS" },
	    err);
}

int
bwrap_arguments(const struct bwrap_input *in, struct bwrap_arguments *ret, struct koda_error *err)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	char program[32];

	snprintf(program, sizeof(program), "/proc/self/fd/%d", in->stage2_fd);
	if (add_all(&a, namespaces, N_ELEMENTS(namespaces), err) < 0 ||
	    add_all(&a, base, N_ELEMENTS(base), err) < 0 ||
	    add_all(&a, private, N_ELEMENTS(private), err) < 0 || add_run(&a, in, err) < 0 ||
	    add_binds(&a, in, err) < 0 ||
	    add_argument(&a, &(struct argument){ { "--chdir", "/" }, "" }, err) < 0)
		return -1;
	a.n_options = a.n;
	if (add_argument(&a,
		&(struct argument){ { "--", program },
		    "stage2, from a descriptor: its file need not be in the view" },
		err) < 0)
		return -1;
	*ret = a;
	a = (struct bwrap_arguments){ 0 };
	return 0;
}

int
bwrap_trial_arguments(const char *launch, const char *bwrap, int program_fd,
    struct bwrap_arguments *ret, struct koda_error *err)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments a = { 0 };
	char program[32];

	snprintf(program, sizeof(program), "/proc/self/fd/%d", program_fd);
	if (add_argument(&a, &(struct argument){ { launch, bwrap }, "" }, err) < 0 ||
	    add_all(&a, namespaces, N_ELEMENTS(namespaces), err) < 0 ||
	    add_all(&a, base, N_ELEMENTS(base), err) < 0 ||
	    add_argument(&a, &(struct argument){ { "--", program, "--try-kept" }, "" }, err) < 0)
		return -1;
	*ret = a;
	a = (struct bwrap_arguments){ 0 };
	return 0;
}

void
bwrap_arguments_done(struct bwrap_arguments *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->v[i]);
		free(a->comment[i]);
	}
	free(a->v);
	free(a->comment);
	*a = (struct bwrap_arguments){ 0 };
}
