/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/scan_state.h"

/* ---- basics ---- */

int
scan_grow(void *array, size_t n, size_t *size, size_t each)
{
	void **p = array;
	size_t more = *size == 0 ? 16 : *size * 2;
	void *grown;

	if (n < *size)
		return 0;
	grown = realloc(*p, more * each);
	if (grown == NULL)
		return -1;
	*p = grown;
	*size = more;
	return 0;
}

int
scan_no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
}

void
stamp_of(const struct stat *st, struct stamp *ret)
{
	*ret = (struct stamp){ .dev = st->st_dev,
		.ino = st->st_ino,
		.mode = st->st_mode,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec };
}

bool
same_stamp(enum what what, const struct stamp *a, const struct stamp *b)
{
	if (a->dev != b->dev || a->ino != b->ino)
		return false;
	/* The host keeps only that it is neither a file, a directory nor a link. */
	if (what != WHAT_STRANGE && (a->mode & S_IFMT) != (b->mode & S_IFMT))
		return false;
	/* The content of a git directory changes with every commit. */
	return what == WHAT_PIN ||
	    (a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns);
}

const char *
scan_rule(enum what what)
{
	switch (what) {
	case WHAT_KODA:
		return access_rule_name(ACCESS_RULE_KODA_PLACE);
	case WHAT_RULE:
		return access_rule_name(ACCESS_RULE_DENY_WRITE);
	case WHAT_NAME:
	case WHAT_LED:
		return access_rule_name(ACCESS_RULE_DENY_NAME);
	case WHAT_TOLD:
		return "told";
	case WHAT_PIN:
	case WHAT_CONFIG:
	case WHAT_HOOKS:
	case WHAT_STRANGE:
	case WHAT_INDEX:
	case WHAT_REF:
	case WHAT_LIST:
	case WHAT_REMOTES:
	case WHAT_GITFILE:
	case WHAT_COMMONDIR:
	case WHAT_ALTERNATES:
	case WHAT_REBASE:
	case WHAT_TARGET:
		break;
	}
	return access_rule_name(ACCESS_RULE_GIT_CONFIG);
}

struct quarantine *
scan_quarantine(struct scan *sc)
{
	return &sc->q;
}

const struct resolver *
scan_resolver(const struct scan *sc)
{
	return sc->res;
}

const struct access_subject *
scan_who(const struct scan *sc)
{
	return sc->who;
}

bool
scan_is_gentle(const struct scan *sc)
{
	return sc->phase == PHASE_GENTLE;
}

static bool
is_cached(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_caches; i++) {
		if (path_is_inside(path, sc->cache[i]) && strcmp(path, sc->cache[i]) != 0)
			return true;
	}
	return false;
}

bool
scan_covers(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(path, sc->root[i].path))
			return true;
	}
	return false;
}

bool
scan_keeps(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_inner; i++) {
		if (path_is_inside(path, sc->inner[i]))
			return false;
	}
	return scan_covers(sc, path);
}

/* Inside a root, but not a root itself. */
static bool
scan_holds(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (strcmp(path, sc->root[i].path) == 0)
			return false;
	}
	return scan_covers(sc, path);
}

bool
has_name(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool
has_git_shape(int dir_fd)
{
	return access_is_git_dir(has_name(dir_fd, "HEAD"), has_name(dir_fd, "objects"),
	    has_name(dir_fd, "refs"), has_name(dir_fd, "commondir"), has_name(dir_fd, "worktrees"));
}

bool
scan_is_git_dir(const struct scan *sc, const char *path)
{
	cleanup_close int fd = resolve_canonical_dir(sc->res, path, strlen(path));

	return fd >= 0 && has_git_shape(fd);
}

/* ---- known places ---- */

static uint32_t *
bucket_of(struct scan *sc, const char *path)
{
	uint32_t h = 2166136261u;

	for (; *path != '\0'; path++)
		h = (h ^ (unsigned char)*path) * 16777619u;
	return &sc->bucket[(h ^ h >> 16) % N_ELEMENTS(sc->bucket)];
}

struct known *
known_at(struct scan *sc, const char *path)
{
	for (uint32_t i = *bucket_of(sc, path); i != 0; i = sc->known[i - 1].next) {
		if (strcmp(sc->known[i - 1].path, path) == 0)
			return &sc->known[i - 1];
	}
	return NULL;
}

void
forget_known(struct scan *sc, struct known *k)
{
	uint32_t *p = bucket_of(sc, k->path), self = (uint32_t)(k - sc->known) + 1;

	while (*p != self)
		p = &sc->known[*p - 1].next;
	*p = k->next;
	if (!k->sealed)
		sc->unsealed--;
	free(k->path);
	*k = (struct known){ 0 };
}

struct known *
remember(struct scan *sc, enum what what, const char *path, const struct stamp *stamp, bool sealed)
{
	struct known *k = known_at(sc, path);
	size_t size = sc->known_size;

	if (k != NULL)
		forget_known(sc, k);
	for (uint32_t i = sc->n_known; k == NULL && i > 0 && i + 64 > sc->n_known; i--) {
		if (sc->known[i - 1].path == NULL)
			k = &sc->known[i - 1];
	}
	if (k == NULL &&
	    (sc->n_known >= SCAN_PLACES_MAX ||
		scan_grow(&sc->known, sc->n_known, &size, sizeof(*k)) < 0)) {
		sc->cut = true;
		return NULL;
	}
	sc->known_size = (uint32_t)size;
	if (k == NULL)
		k = &sc->known[sc->n_known++];
	*k =
	    (struct known){ .path = strdup(path), .stamp = *stamp, .what = what, .sealed = sealed };
	if (k->path == NULL) {
		sc->cut = true;
		return NULL;
	}
	k->next = *bucket_of(sc, path);
	*bucket_of(sc, path) = (uint32_t)(k - sc->known) + 1;
	if (!sealed)
		sc->unsealed++;
	return k;
}

bool
known_is_there(const struct scan *sc, const struct known *k)
{
	size_t n = (size_t)(strrchr(k->path, '/') - k->path);
	cleanup_close int fd = resolve_canonical_dir(sc->res, k->path, n);
	struct stat st;

	return fd >= 0 && fstatat(fd, k->path + n + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == k->stamp.dev && st.st_ino == k->stamp.ino;
}

/* A rebase is not a place to mount: it goes on, or ends. */
bool
is_told(enum what what)
{
	return what != WHAT_REBASE && what != WHAT_TOLD && what != WHAT_LIST;
}

void
tell_place(struct scan *sc, struct known *k)
{
	if (k == NULL || !is_told(k->what))
		return;
	k->tell = true;
	if (!sc->places_left || (uint32_t)(k - sc->known) < sc->next_place)
		sc->next_place = 0;
	sc->places_left = true;
}

/* ---- guards ---- */

static int
add_cached(struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_cached; i++) {
		if (strcmp(sc->cached[i], path) == 0)
			return 0;
	}
	if (scan_grow(&sc->cached, sc->n_cached, &sc->cached_size, sizeof(*sc->cached)) < 0)
		return -1;
	sc->cached[sc->n_cached] = strdup(path);
	return sc->cached[sc->n_cached++] == NULL ? -1 : 0;
}

int
add_guard(struct scan *sc, const char *path, enum what what)
{
	for (size_t i = 0; i < sc->n_guards; i++) {
		if (strcmp(sc->guard[i].path, path) == 0)
			return 0;
	}
	if (!scan_holds(sc, path))
		return what == WHAT_RULE && !scan_covers(sc, path) && is_cached(sc, path)
		    ? add_cached(sc, path)
		    : 0;
	if (scan_grow(&sc->guard, sc->n_guards, &sc->guards_size, sizeof(*sc->guard)) < 0)
		return -1;
	sc->guard[sc->n_guards] = (struct guard){ strdup(path), what };
	if (sc->guard[sc->n_guards].path == NULL)
		return -1;
	sc->n_guards++;
	sc->guards_round++;
	return 0;
}

/* Returns the guard that has `name` as a component directly below `dir`; *ret_last: it is the last
 * component. */
const struct guard *
guard_at(const struct scan *sc, const char *dir, size_t dir_len, const char *name, bool *ret_last)
{
	const size_t k = strlen(name);
	const struct guard *found = NULL;

	for (size_t i = 0; i < sc->n_guards; i++) {
		const char *path = sc->guard[i].path;

		if (strncmp(path, dir, dir_len) != 0 || path[dir_len] != '/' ||
		    strncmp(path + dir_len + 1, name, k) != 0)
			continue;
		if (path[dir_len + 1 + k] == '\0') {
			*ret_last = true;
			return &sc->guard[i];
		}
		if (path[dir_len + 1 + k] == '/') {
			*ret_last = false;
			found = &sc->guard[i];
		}
	}
	return found;
}

bool
has_guards(struct scan *sc, uint32_t idx, const char *path)
{
	struct node *n = &sc->node[idx];

	if (n->guards_round != sc->guards_round) {
		n->guards = false;
		for (size_t i = 0; i < sc->n_guards && !n->guards; i++)
			n->guards = path_is_inside(sc->guard[i].path, path);
		n->guards_round = sc->guards_round;
	}
	return n->guards;
}

void
scan_add_target(struct scan *sc, enum what what, const char *path, bool link)
{
	struct stamp stamp;
	struct stat st;
	size_t n = (size_t)(strrchr(path, '/') - path);
	cleanup_close int fd = -1;

	/* A directory that contains a root cannot be closed to commands. */
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(sc->root[i].path, path))
			return;
	}
	if (!scan_holds(sc, path) || known_at(sc, path) != NULL)
		return;
	if (add_guard(sc, path, what) < 0)
		sc->cut = true;
	if (sc->phase == PHASE_RESUME)
		return;
	fd = resolve_canonical_dir(sc->res, path, n);
	if (fd < 0 || fstatat(fd, path + n + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	stamp_of(&st, &stamp);
	/* A link cannot be a mount point: a command that replaces it has planted something. */
	tell_place(sc, remember(sc, what, path, &stamp, !link));
}
