#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/cleanup.h"
#include "worker/plant.h"
#include "worker/scan_state.h"
#include "worker/target.h"

/* Who swaps things while they are judged is met so often for one name. */
#define TRIES 8

/* ---- judging what was found ---- */

/* A rebase is its list and what it merges with, not the directory that has them. */
static void
stamp_rebase(int dir_fd, const char *name, struct stamp *stamp)
{
	static const char *const also[] = { "strategy", "opts" };
	char path[NAME_LEN_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/git-rebase-todo", name);
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		mode_t mode = stamp->mode;

		stamp_of(&st, stamp);
		stamp->mode = mode;
	}
	for (size_t i = 0; i < N_ELEMENTS(also); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, also[i]);
		if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			stamp->ctime_ns +=
			    (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
	}
}

/* A known place that is somewhere else now, because what it is in was moved. */
static struct known *
moved_here(struct scan *sc, enum what what, const struct stamp *stamp)
{
	for (uint32_t i = 0; i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path != NULL && k->what == what && k->sealed && what != WHAT_PIN &&
		    same_stamp(what, &k->stamp, stamp))
			return k;
	}
	return NULL;
}

/* Is it still where it was known? */
static bool
is_there(const struct scan *sc, const struct known *k)
{
	size_t n = (size_t)(strrchr(k->path, '/') - k->path);
	cleanup_close int fd = resolve_canonical_dir(sc->res, k->path, n);
	struct stat st;

	return fd >= 0 && fstatat(fd, k->path + n + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == k->stamp.dev && st.st_ino == k->stamp.ino;
}

static enum seen
seen_at(enum what what, const struct stamp *stamp)
{
	return what != WHAT_PIN && what != WHAT_REBASE && S_ISDIR(stamp->mode) ? SEEN_CLOSED
									       : SEEN_OPEN;
}

void
look_for_targets(struct scan *sc, enum what what, const char *path)
{
	/* The project's own configuration is a rule's: by the rule it is protected, by its name it is read. */
	const bool config = what == WHAT_CONFIG ||
	    (what == WHAT_RULE && access_name_of(strrchr(path, '/') + 1) == ACCESS_NAME_CONFIG);

	if (config || what == WHAT_GITFILE || what == WHAT_PIN)
		target_find(sc, path, what == WHAT_GITFILE);
}

static enum seen
judge(struct scan *sc, struct plant *p, struct known *k)
{
	enum plant_end end = PLANT_AGAIN;
	const size_t told = sc->n_changes;
	struct stamp stamp;

	stamp_of(&p->st, &stamp);
	/* Told once, and still the same. */
	if (k != NULL && k->left && same_stamp(p->what, &k->stamp, &stamp))
		return seen_at(p->what, &stamp);
	p->ours = k != NULL && k->ours && k->stamp.dev == stamp.dev && k->stamp.ino == stamp.ino;
	for (unsigned i = 0; i < TRIES && end == PLANT_AGAIN; i++) {
		if (i > 0 && fstatat(p->dir_fd, p->name, &p->st, AT_SYMLINK_NOFOLLOW) < 0) {
			end = PLANT_GONE;
			break;
		}
		if (i > 0)
			p->ours = false;
		end = plant_judge(sc, p);
	}
	if (end == PLANT_GONE) {
		if (k != NULL)
			forget_known(sc, k);
		return SEEN_CLOSED;
	}
	if (end == PLANT_AGAIN) {
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    "it changes all the time");
		end = PLANT_LEFT;
	}
	stamp_of(&p->st, &stamp);
	/* Only what is new, or another, has to be mounted (again). */
	if (k == NULL || k->stamp.ino != stamp.ino || k->stamp.dev != stamp.dev || k->left ||
	    sc->n_changes > told) {
		k = remember(sc, p->what, p->path, &stamp, false);
		tell_place(sc, k);
	} else {
		k->stamp = stamp;
	}
	if (k != NULL) {
		k->ours = p->ours;
		k->left = end == PLANT_LEFT;
	}
	return seen_at(p->what, &stamp);
}

/* Something with a name that matters, in the directory behind dir_fd. */
enum seen
found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name)
{
	struct plant p = { .what = what, .dir_fd = dir_fd, .name = name, .path = path };
	struct stamp stamp;
	struct known *k, *moved;

	if (fstatat(dir_fd, name, &p.st, AT_SYMLINK_NOFOLLOW) < 0)
		return SEEN_CLOSED;
	stamp_of(&p.st, &stamp);
	if (what == WHAT_REBASE)
		stamp_rebase(dir_fd, name, &stamp);
	k = known_at(sc, path);
	/* A rule or what configuration names may be a hook as well: the stricter counts. */
	if (k != NULL && k->what > what)
		p.what = what = k->what;
	if (sc->learning) {
		if (k == NULL)
			/* The list of a rebase is written in place, of which no watch tells. */
			tell_place(sc,
			    remember(sc, what, path, &stamp,
				!S_ISLNK(p.st.st_mode) && what != WHAT_REBASE));
		return seen_at(what, &stamp);
	}
	if (k != NULL && same_stamp(what, &k->stamp, &stamp) &&
	    (k->sealed || what == WHAT_PIN || what == WHAT_REBASE))
		return seen_at(what, &stamp);
	/* A link that was there: it can be no mount point. */
	if (k != NULL && S_ISLNK(p.st.st_mode) && same_stamp(what, &k->stamp, &stamp))
		return SEEN_CLOSED;
	if (k != NULL && k->sealed && what != WHAT_PIN && what != WHAT_REBASE) {
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, what, path, NULL, NULL);
		k->stamp = stamp;
		tell_place(sc, k);
		look_for_targets(sc, what, path);
		return seen_at(what, &stamp);
	}
	moved = k == NULL ? moved_here(sc, what, &stamp) : NULL;
	if (moved != NULL && !is_there(sc, moved)) {
		forget_known(sc, moved);
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return seen_at(what, &stamp);
	}
	if (what == WHAT_PIN) {
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return SEEN_OPEN;
	}
	return judge(sc, &p, k);
}

/* What may still be changed by commands is judged whether or not there was an event: one that had it open needs none
 * to write. */
int
judge_unsealed(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known && sc->unsealed > 0; i++) {
		const struct known *k = &sc->known[i];
		cleanup_free char *path = NULL;
		cleanup_close int held = -1, fd = -1;
		const char *name;

		if (k->path == NULL || k->sealed)
			continue;
		path = strdup(k->path);
		if (path == NULL)
			return -1;
		name = strrchr(path, '/') + 1;
		held = resolve_canonical_dir(sc->res, path, (size_t)(name - path) - 1);
		fd = held < 0 ? -1
			      : openat(held, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && has_name(fd, name))
			found(sc, k->what, fd, path, name);
		else if (fd >= 0 || errno == ENOENT || errno == ENOTDIR)
			forget_known(sc, &sc->known[i]);
	}
	return 0;
}

/* The directory of a rule's path, open for reading; kept for the next one, which is often in the same. */
struct held {
	char dir[PATH_LEN_MAX + 1];
	int fd; /* -1 with why */
	int why;
	size_t cache_len; /* of the cache that it is in */
};

static int
hold(const struct scan *sc, struct held *h, const char *path, size_t len)
{
	cleanup_close int fd = -1;

	if (strlen(h->dir) == len && memcmp(h->dir, path, len) == 0)
		return h->fd;
	close_at(&h->fd);
	memcpy(h->dir, path, len);
	h->dir[len] = '\0';
	for (int i = 0; i < 2; i++) {
		close_at(&fd);
		fd = resolve_canonical_dir(sc->res, path, len);
		h->fd =
		    fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		h->why = errno;
		if (h->fd >= 0 || h->why != EACCES || sc->learning ||
		    !make_listable(sc, h->dir, h->cache_len))
			break;
	}
	return h->fd;
}

static void
held_done(struct held *h)
{
	close_at(&h->fd);
}

static int
judge_cached_path(struct scan *sc, struct held *h, const char *path)
{
	char part[PATH_LEN_MAX + 1];
	const char *end = strrchr(path, '/');
	int fd = hold(sc, h, path, (size_t)(end - path));

	if (fd >= 0 && has_name(fd, end + 1)) {
		found(sc, WHAT_RULE, fd, path, end + 1);
		return 0;
	}
	if (known_at(sc, path) != NULL)
		sc->verify = true;
	if (fd >= 0 || h->why == ENOENT)
		return 0;
	if (h->why == EMFILE || h->why == ENFILE || h->why == ENOMEM)
		return -1;
	if (h->why == EACCES && !sc->learning)
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, WHAT_RULE, path, NULL,
		    "it cannot be looked at");
	/* The first thing on the way that is no directory could lead to anything. */
	snprintf(part, sizeof(part), "%s", path);
	for (end = path + h->cache_len; (end = strchr(end + 1, '/')) != NULL;) {
		struct stat st;
		char *name;

		part[end - path] = '\0';
		name = strrchr(part, '/') + 1;
		fd = hold(sc, h, part, (size_t)(name - part) - 1);
		if (fd < 0)
			break;
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
			found(sc, WHAT_RULE, fd, part, name);
			break;
		}
		part[end - path] = '/';
	}
	return 0;
}

/* Caches are not looked through: what is in them is much, and theirs. Only what a rule names is looked at. */
int
judge_cached(struct scan *sc)
{
	cleanup(held_done) struct held h = { .fd = -1 };

	for (size_t i = 0; i < sc->n_cached; i++) {
		const char *path = sc->cached[i];

		h.cache_len = 0;
		for (size_t k = 0; k < sc->n_caches && h.cache_len == 0; k++)
			h.cache_len = path_is_inside(path, sc->cache[k]) ? strlen(sc->cache[k]) : 0;
		if (judge_cached_path(sc, &h, path) < 0)
			return -1;
	}
	return 0;
}

void
verify_known(struct scan *sc)
{
	sc->verify = false;
	for (uint32_t i = 0; i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || !k->sealed || k->what == WHAT_REBASE || is_there(sc, k))
			continue;
		/* A git directory may go with what it is in: the places in it say so. */
		if (k->what != WHAT_PIN)
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, k->what, k->path, NULL,
			    "it is gone");
		forget_known(sc, k);
	}
}
