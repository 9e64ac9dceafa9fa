/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "worker/say.h"
#include "worker/session.h"

/* Directories that come as descriptors: the quarantine, a draft, the history's entry. */
#define OWN_DIRS 3

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SHADOW 1 /* AddressSanitizer's shadow memory: terabytes of data to the kernel */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_SHADOW 1
#endif
#endif

static char *
text_of(ProtobufCBinaryData bytes)
{
	char *text = malloc(bytes.len + 1);

	if (text == NULL)
		return NULL;
	if (bytes.len > 0)
		memcpy(text, bytes.data, bytes.len);
	text[bytes.len] = '\0';
	return text;
}

/* Never follows a link: either the root is the directory that the host meant, or the Seal fails. */
static int
open_root(struct session *ses, const Koda__Seal *seal, struct koda_error *err)
{
	struct resolver *res = &ses->res;
	cleanup_close int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), probe = -1;
	struct statfs fs;
	struct stat st;

	if (slash < 0)
		return err_set(err, KODA_IO, errno, "open '/'");
	probe = open_plain(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
	/* A seccomp filter cannot inspect openat2's arguments, so a role that changes nothing
	 * may not call it. */
	res->no_openat2 = !ses->role->changes || (probe < 0 && (errno == ENOSYS || errno == EPERM));
	res->root = "/";
	res->root_fd = slash;
	res->root_fd = resolve_canonical_dir(res, ses->root, strlen(ses->root));
	res->root = ses->root;
	if (res->root_fd < 0 || fstat(res->root_fd, &st) < 0)
		return say(err, errno == ELOOP || errno == ENOTDIR ? KODA_INVALID : KODA_IO, errno,
		    "open the root", ses->root);
	res->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (res->proc_fd < 0 || fstatfs(res->proc_fd, &fs) < 0 ||
	    (unsigned long)fs.f_type != PROC_SUPER_MAGIC || fchdir(res->proc_fd) < 0)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "/proc is not mounted: the path of a file cannot be found");
	if (st.st_dev != seal->root_dev || st.st_ino != seal->root_ino)
		return say(err, KODA_INVALID, 0,
		    "another directory took the place of the root:", ses->root);
	if (resolve_verify(res, res->root_fd, ses->root, strlen(ses->root), err) < 0) {
		err->code = KODA_INVALID;
		return -1;
	}
	return 0;
}

/*
 * Opens the directories in which Landlock allows this process to change anything. A rule that names
 * a file stands for its directory, because a file is replaced by a new one beside it; the policy
 * still decides about the name. A path that does not exist cannot be named to Landlock, and so
 * cannot be made unless a directory above it is writable. *ret is the caller's.
 */
static int
open_writable(struct session *ses, const Koda__Seal *seal, int **ret, size_t *ret_n,
    struct koda_error *err)
{
	const struct policy_list *list = &ses->policy.list[KODA_ALLOW_WRITE];
	cleanup_free int *fds = calloc(list->n + seal->n_commands_write + OWN_DIRS, sizeof(*fds));
	/* If no file operation may write, the kernel enforces that too. */
	const bool none = !ses->role->changes || ses->who.mode == KODA_PLAN ||
	    ses->policy.trust == KODA_TRUST_FORBID;
	const int own[] = { ses->quarantine_fd, ses->draft_fd, ses->old_fd };
	size_t n = 0;

	if (fds == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "writable directories");
	for (size_t i = 0; i < list->n && !none; i++) {
		const char *path = list->v[i];
		size_t len = strlen(path);
		bool covered = false;
		int fd;

		for (size_t k = 0; k < list->n && !covered; k++)
			covered = k != i && path_is_inside(path, list->v[k]) &&
			    (strcmp(path, list->v[k]) != 0 || k < i);
		fd = resolve_canonical_dir(&ses->res, path, len);
		if (fd < 0 && errno == ENOTDIR) {
			while (len > 0 && path[len - 1] != '/')
				len--;
			fd = resolve_canonical_dir(&ses->res, path, len > 1 ? len - 1 : 0);
		}
		/* All of them are open at once, so skip those inside another one. */
		if (fd >= 0 && covered) {
			close(fd);
			continue;
		}
		if (fd >= 0)
			fds[n++] = fd;
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return say(err, KODA_INTERNAL, errno, "open", path);
	}
	/* What commands plant has to be removed also where no file operation may write. */
	for (size_t i = 0; i < seal->n_commands_write; i++) {
		int fd = resolve_canonical_dir(&ses->res,
		    (const char *)seal->commands_write[i].data, seal->commands_write[i].len);

		if (fd >= 0)
			fds[n++] = fd;
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return err_set(err, KODA_INTERNAL, errno, "open a writable directory");
	}
	for (size_t i = 0; i < N_ELEMENTS(own); i++) {
		if (own[i] < 0)
			continue;
		fds[n] = fcntl(own[i], F_DUPFD_CLOEXEC, 3);
		if (fds[n++] < 0)
			return err_set(err, KODA_INTERNAL, errno, "open a directory of koda");
	}
	*ret = take_ptr(&fds);
	*ret_n = n;
	return 0;
}

static int
confine(struct session *ses, const Koda__Seal *seal, Koda__Enforcement *ret, struct koda_error *err)
{
	const struct lockdown_limit limits[] = {
		{ RLIMIT_NOFILE, ses->role->fds_max },
#ifndef WITH_SHADOW
		{ RLIMIT_DATA, ses->role->data_max },
#endif
		{ RLIMIT_FSIZE, ses->max_file_bytes },
	};
	cleanup_free int *writable = NULL;
	size_t n = 0;
	unsigned abi = 0;
	int r;

	if (open_writable(ses, seal, &writable, &n, err) < 0)
		return -1;
	r = lockdown_process(err);
	if (r == 0)
		r = lockdown_unguard(err);
	if (r == 0)
		r = lockdown_landlock_allowing(ses->role->changes ? 0 : LOCKDOWN_TRUNCATE, writable,
		    n, lockdown_landlock_abi(), &abi, err);
	while (n > 0)
		close(writable[--n]);
	if (r == 0)
		r = lockdown_limits(limits, N_ELEMENTS(limits), err);
	if (r == 0 && ses->role->changes)
		r = lockdown_no_truncation(abi, err);
	ses->res.no_openat2 = ses->res.no_openat2 || r > 0;
	ses->no_moves = lockdown_refuses_moves(abi);
	if (r >= 0)
		r = lockdown_seccomp(ses->filter, ses->n_filter, err);
	ret->landlock_abi = abi;
	ret->seccomp = r == 0;
	ret->mount_view = false;
	return r;
}

/* Takes a directory that came with the Seal. Returns -1 with *err set. */
static int
take_directory(struct session *ses, const char *what, struct koda_error *err)
{
	cleanup_close int fd = session_take_fd(ses, err);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, KODA_PROTOCOL, 0, "the %s is not a directory", what);
	return take_fd(&fd);
}

static int
open_below(int dir, const char *name, const char *what, struct koda_error *err)
{
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_set(err, KODA_IO, errno, "open the %s", what) : fd;
}

static int
take_layers(struct session *ses, const Koda__Seal *seal, struct koda_error *err)
{
	ses->draft_made_ns = seal->has_draft_made_ns ? seal->draft_made_ns : 0;
	ses->draft_mounted_ns = seal->has_draft_mounted_ns ? seal->draft_mounted_ns : 0;
	ses->layer = calloc(seal->n_draft_layer + 1, sizeof(*ses->layer));
	if (ses->layer == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "seal");
	for (size_t i = 0; i < seal->n_draft_layer; i++) {
		const Koda__DraftLayer *m = seal->draft_layer[i];
		struct draft_layer *layer = &ses->layer[ses->n_layers++];
		char name[NAME_LEN_MAX + 1];
		cleanup_close int dir = -1;

		snprintf(name, sizeof(name), "%.*s", (int)m->name.len, (const char *)m->name.data);
		*layer = (struct draft_layer){ text_of(m->path), m->dev, m->ino, -1 };
		if (layer->path == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "seal");
		dir = open_below(ses->draft_fd, name, "draft's layer", err);
		if (dir < 0)
			return -1;
		layer->fd = open_below(dir, "u", "draft's changes", err);
		if (layer->fd < 0)
			return -1;
	}
	return 0;
}

/* Takes the directories that came with the Seal, in their order. */
static int
take_directories(struct session *ses, const Koda__Seal *seal, struct koda_error *err)
{
	cleanup_close int history = -1;

	if (seal->has_quarantine && seal->quarantine &&
	    (ses->quarantine_fd = take_directory(ses, "quarantine", err)) < 0)
		return -1;
	if (seal->has_draft && seal->draft &&
	    ((ses->draft_fd = take_directory(ses, "draft", err)) < 0 ||
		take_layers(ses, seal, err) < 0))
		return -1;
	if (!seal->has_history || !seal->history)
		return 0;
	history = take_directory(ses, "history", err);
	if (history < 0)
		return -1;
	ses->old_fd = open_below(history, "old", "history", err);
	return ses->old_fd < 0 ? -1 : 0;
}

int
op_seal(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Seal *seal = req->seal;
	struct {
		Koda__Ready ready;
		Koda__Enforcement enforcement;
		uint8_t digest[KODA_DIGEST_BYTES];
	} *ret = session_alloc(ses, sizeof(*ret), err);

	if (ret == NULL)
		return -1;
	koda__ready__init(&ret->ready);
	koda__enforcement__init(&ret->enforcement);
	if (seal->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "the worker speaks protocol %u and the host %u: they were not installed together",
		    KODA_PROTOCOL_VERSION, seal->protocol);
	if (policy_unpack(seal->policy.data, seal->policy.len, &ses->policy, err) < 0)
		return -1;
	ses->root = text_of(seal->root);
	ses->home = text_of(seal->home);
	ses->caches = calloc(seal->n_commands_write + 1, sizeof(*ses->caches));
	for (size_t i = 0; ses->caches != NULL && i < seal->n_commands_write; i++) {
		ses->caches[i] = text_of(seal->commands_write[i]);
		if (ses->caches[i] == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "seal");
	}
	ses->state = seal->has_state ? text_of(seal->state) : NULL;
	if (ses->root == NULL || ses->home == NULL || ses->caches == NULL ||
	    (seal->has_state && ses->state == NULL))
		return err_set(err, KODA_INTERNAL, ENOMEM, "seal");
	memcpy(ses->token, seal->token.data, sizeof(ses->token));
	ses->who = (struct access_subject){ &ses->policy, (enum koda_mode)seal->mode, ses->home,
		ses->state };
	ses->res.depth = policy_effective_depth(&ses->policy);
	if (ses->policy.limit[KODA_MAX_FILE_BYTES].set)
		ses->max_file_bytes = ses->policy.limit[KODA_MAX_FILE_BYTES].value;
	if (open_root(ses, seal, err) < 0)
		return -1;
	if (take_directories(ses, seal, err) < 0)
		return -1;
	policy_digest(seal->policy.data, seal->policy.len, ret->digest);
	if (confine(ses, seal, &ret->enforcement, err) < 0)
		return -1;
	ses->sealed = true;
	ret->ready.protocol = KODA_PROTOCOL_VERSION;
	ret->ready.policy_digest = bytes_of(ret->digest, sizeof(ret->digest));
	ret->ready.enforcement = &ret->enforcement;
	rep->result_case = KODA__REPLY__RESULT_READY;
	rep->ready = &ret->ready;
	return 0;
}
