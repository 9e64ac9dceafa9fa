/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_judge.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "worker/scan/deep.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/led.h"
#include "worker/scan/linked.h"
#include "worker/scan/plant_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_results.h"
#include "worker/scan/target.h"

/* How often to try again if a process replaces a name while it is judged. */
#define TRIES 8
/* A program that writes an index in place has finished after this time. */
#define UNCLEAR_NS INT64_C(1000000000)

/* Reported changes per comparison. A user does not review more file by file. */
#define TOLD_MAX 64

/* ---- judging what was found ---- */

/* A rebase is compared by its todo list and merge options, not by the directory that holds them. */
static void
stamp_rebase(int dir_fd, const char *name, struct stamp *stamp)
{
	static const char *const also[] = { "strategy", "opts", "author-script", "update-refs",
		"strategy_opts", "apply-opt" };
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

/* Finds a known place that has moved here together with a directory around it. */
static struct known *
moved_here(struct scan *sc, enum what what, const struct stamp *stamp)
{
	for (uint32_t i = 0; i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path != NULL && k->what == what && k->sealed && !k->guarded &&
		    what != WHAT_PIN && same_stamp(what, &k->stamp, stamp))
			return k;
	}
	return NULL;
}

/* Returns true if a place that commands can change, because nothing is mounted there, is unchanged.
 * Adding or removing a hard link changes a file's ctime, and package managers link their files, so
 * for packages the content decides. */
static bool
is_same(const struct plant *p, const struct known *k, const struct stamp *stamp)
{
	struct stamp now = *stamp;
	uint64_t content;

	if (same_stamp(WHAT_NAME, &k->stamp, stamp) &&
	    k->deep == deep_of(p->dir_fd, p->name, &p->st, NULL))
		return true;
	if (k->content == 0)
		return false;
	if (S_ISREG(now.mode))
		now.ctime_ns = k->stamp.ctime_ns;
	if (!same_stamp(WHAT_NAME, &k->stamp, &now))
		return false;
	deep_of(p->dir_fd, p->name, &p->st, &content);
	return k->content == content;
}

/* The same for a package, which package managers move around: it is unchanged, and still where
 * packages are. */
static struct known *
moved_package(struct scan *sc, const struct plant *p, const struct stamp *stamp)
{
	if (!is_vendored(sc, p->path))
		return NULL;
	for (uint32_t i = 0; i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path != NULL && k->what == WHAT_NAME && k->guarded &&
		    k->stamp.ino == stamp->ino && is_vendored(sc, k->path) &&
		    !known_is_there(sc, k) && is_same(p, k, stamp))
			return k;
	}
	return NULL;
}

static enum seen
seen_at(enum what what, const struct stamp *stamp)
{
	return what != WHAT_PIN && what != WHAT_REBASE && S_ISDIR(stamp->mode) ? SEEN_CLOSED
									       : SEEN_OPEN;
}

/* Adds what that place names or leads to. */
static void
look_for_targets(struct scan *sc, enum what what, const char *path)
{
	/* The project's own configuration is also named by a rule: the rule decides how it is
	 * protected, but it is read as configuration. */
	const bool config = what == WHAT_CONFIG ||
	    (what == WHAT_RULE && access_name_of(strrchr(path, '/') + 1) == ACCESS_NAME_CONFIG);

	/* Links inside packages are the package manager's; nothing there is mounted either. */
	if (what != WHAT_NAME || !is_vendored(sc, path))
		led_find(sc, what, path, &sc->led_left);
	if (!sc->git)
		return;
	if (config || what == WHAT_GITFILE || what == WHAT_PIN)
		target_find(sc, path, what == WHAT_GITFILE);
}

void
find_all_targets(struct scan *sc)
{
	/* The loop also covers places that it adds: they may lead further. */
	for (uint32_t i = 0; i < sc->n_known; i++) {
		cleanup_free char *path =
		    sc->known[i].path != NULL ? strdup(sc->known[i].path) : NULL;

		if (path != NULL)
			look_for_targets(sc, sc->known[i].what, path);
	}
}

static enum seen
judge(struct scan *sc, struct plant *p, struct known *k)
{
	enum plant_end end = PLANT_AGAIN;
	const size_t told = sc->n_changes;
	struct stamp stamp;

	stamp_of(&p->st, &stamp);
	/* Reported once, and still the same. */
	if (k != NULL && k->left && same_stamp(p->what, &k->stamp, &stamp))
		return seen_at(p->what, &stamp);
	/* A second name made before the mount could later be used to write to the file. */
	p->ours = k != NULL && k->ours && k->stamp.dev == stamp.dev && k->stamp.ino == stamp.ino &&
	    p->st.st_nlink == 1;
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
		    "another process keeps changing it");
		end = PLANT_LEFT;
	}
	stamp_of(&p->st, &stamp);
	/* Only a new or replaced place has to be mounted (again). */
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
		k->late = true;
	}
	return seen_at(p->what, &stamp);
}

/* Returns true if no command can change it from now on. The todo list of a rebase is written in
 * place, which causes no event in its directory; a link cannot be a mount point. A strange entry in
 * a git directory needs no mount: it is never changed, only replaced. */
static bool
is_sealed_from_start(enum what what, mode_t mode)
{
	return what == WHAT_STRANGE || (!S_ISLNK(mode) && what != WHAT_REBASE);
}

/* Commands cannot change what the host has mounted. Other places are looked into, so that events
 * report changes inside them. */
static enum seen
seen_named(const struct known *k, const struct stamp *stamp)
{
	return k != NULL && k->sealed && !k->guarded ? seen_at(WHAT_NAME, stamp) : SEEN_OPEN;
}

/*
 * Copies a file that a command has made if it has a second name, unless git may be at work. What
 * package managers installed is compared by its content instead. Returns 0, 1 if it still has (or
 * may have) another name, or -1 if it cannot be read completely or cannot be copied.
 */
static int
make_alone(struct scan *sc, struct plant *p)
{
	int linked;

	/* Files of the first scan are handled together, in linked_find_all(). */
	if (sc->phase == PHASE_LEARN || is_vendored(sc, p->path))
		return 0;
	linked = linked_any(p->dir_fd, p->name);
	if (linked == 0 || sc->phase == PHASE_GENTLE)
		return linked != 0;
	return linked < 0 || linked_own(sc, p) < 0 ? -1 : 0;
}

/* Accepts a place found by its name: makes it known, with its own inode. `made`: the directory,
 * just made by a command, with which it came, or NONE. */
static enum seen
keep_named(struct scan *sc, struct plant *p, uint32_t made)
{
	const int linked = make_alone(sc, p);
	struct known *was = known_at(sc, p->path);
	const bool vendored = is_vendored(sc, p->path);
	const bool guarded = was != NULL ? was->guarded : vendored || !take_mounts(sc, p->path);
	const bool first = was == NULL || was->came != sc->era;
	struct stamp stamp;
	struct known *k;

	if (linked < 0)
		return judge(sc, p, was);
	stamp_of(&p->st, &stamp);
	k = remember(sc, WHAT_NAME, p->path, &stamp,
	    guarded || (sc->phase == PHASE_LEARN && !S_ISLNK(p->st.st_mode)));
	tell_place(sc, k);
	if (k == NULL)
		return SEEN_CLOSED;
	k->guarded = guarded;
	k->linked = linked > 0;
	/* A place that has only moved did not come with a directory. */
	k->came = sc->phase == PHASE_LEARN || (made == NONE && first) ? 0 : sc->era;
	if (guarded || sc->phase != PHASE_LEARN)
		k->deep = deep_of(p->dir_fd, p->name, &p->st, vendored ? &k->content : NULL);
	if (sc->phase != PHASE_LEARN && first && made != NONE)
		note_came(sc, made, p->path);
	return seen_named(k, &stamp);
}

static bool
is_as_it_was(const struct plant *p, struct known *k, const struct stamp *stamp)
{
	/* An earlier worker knew this place, but passed on no checksum of its content. */
	if (k->deep == 0)
		k->deep = deep_of(p->dir_fd, p->name, &p->st, NULL);
	if (!is_same(p, k, stamp))
		return false;
	k->stamp = *stamp;
	return true;
}

static enum seen
found_named(struct scan *sc, struct plant *p, struct known *k, uint32_t made)
{
	struct stamp stamp;
	enum seen seen;

	stamp_of(&p->st, &stamp);
	if (sc->phase == PHASE_LEARN)
		return k != NULL ? seen_named(k, &stamp) : keep_named(sc, p, NONE);
	if (k != NULL && k->sealed && !k->guarded) {
		if (!same_stamp(WHAT_NAME, &k->stamp, &stamp)) {
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, WHAT_NAME, p->path, NULL,
			    NULL);
			k->stamp = stamp;
			tell_place(sc, k);
			look_for_targets(sc, WHAT_NAME, p->path);
		}
		return seen_named(k, &stamp);
	}
	if (k != NULL && !k->left && is_as_it_was(p, k, &stamp)) {
		/* It was last judged while git may have been at work. */
		if (k->linked && !k->sealed && sc->phase != PHASE_GENTLE)
			return keep_named(sc, p, made);
		return seen_named(k, &stamp);
	}
	if (made != NONE || (k != NULL && k->came == sc->era))
		return keep_named(sc, p, made);
	if (k == NULL) {
		struct known *moved = moved_package(sc, p, &stamp);

		if (moved != NULL) {
			forget_known(sc, moved);
			return keep_named(sc, p, NONE);
		}
		moved = moved_here(sc, WHAT_NAME, &stamp);

		if (moved != NULL && !known_is_there(sc, moved)) {
			forget_known(sc, moved);
			k = remember(sc, WHAT_NAME, p->path, &stamp, true);
			tell_place(sc, k);
			return seen_named(k, &stamp);
		}
	}
	seen = judge(sc, p, k);
	return seen;
}

/*
 * Files that git follows change all the time, so the scan forgets the harmless ones. Reading an
 * index takes a while: the frequent looks read it only if its stamp changed. The final comparison
 * always reads it, because a command that has the file mapped can change it without changing its
 * times.
 */
static enum seen
found_followed(struct scan *sc, struct plant *p, struct known *k)
{
	const bool other = k != NULL && k->what != p->what;
	enum plant_end end = PLANT_AGAIN;
	int64_t since;
	struct stamp stamp;

	stamp_of(&p->st, &stamp);
	/* The scan knows this path as a place of another kind: that entry stays. */
	if (other)
		k = NULL;
	if (sc->phase == PHASE_LEARN) {
		if (k == NULL && !other && p->what == WHAT_LIST)
			remember(sc, p->what, p->path, &stamp, !followed_depends(p->name));
		return SEEN_OPEN;
	}
	if (k != NULL && same_stamp(p->what, &k->stamp, &stamp) &&
	    (k->left || (p->what == WHAT_LIST && k->sealed) ||
		(p->what == WHAT_INDEX && sc->phase == PHASE_GENTLE && k->unclear_ns == 0)))
		return SEEN_OPEN;
	since = k != NULL ? k->unclear_ns : 0;
	for (unsigned i = 0; i < TRIES && end == PLANT_AGAIN; i++) {
		if (i > 0 && fstatat(p->dir_fd, p->name, &p->st, AT_SYMLINK_NOFOLLOW) < 0)
			end = PLANT_GONE;
		else
			end = plant_judge(sc, p);
	}
	if (end == PLANT_AGAIN)
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    "another process keeps changing it");
	if (end == PLANT_KEPT && p->unclear) {
		if (since == 0)
			since = monotonic_ns();
		else if (monotonic_ns() - since > UNCLEAR_NS)
			end = plant_take_away(sc, p,
			    "it is not a valid index; `git reset` writes a new one");
	}
	if (other || end == PLANT_GONE ||
	    (end == PLANT_KEPT && p->what != WHAT_INDEX && !followed_depends(p->name))) {
		if (k != NULL)
			forget_known(sc, k);
		return SEEN_OPEN;
	}
	stamp_of(&p->st, &stamp);
	if (k == NULL)
		k = remember(sc, p->what, p->path, &stamp, !followed_depends(p->name));
	if (k != NULL) {
		k->stamp = stamp;
		k->left = end != PLANT_KEPT;
		k->unclear_ns = end == PLANT_KEPT && p->unclear ? since : 0;
	}
	return SEEN_OPEN;
}

/* A change that is only reported. */
static enum seen
found_told(struct scan *sc, const char *path, const struct stat *st, struct known *k, uint32_t made)
{
	struct stamp stamp;

	stamp_of(st, &stamp);
	if (k != NULL && same_stamp(WHAT_TOLD, &k->stamp, &stamp))
		return SEEN_OPEN;
	/* Files that this worker finds at its start are known, and those in a clone or a package
	 * are part of it. */
	if (sc->started && made == NONE && !is_vendored(sc, path)) {
		if (++sc->n_told <= TOLD_MAX)
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_TOLD, WHAT_TOLD, path, NULL, NULL);
		else
			sc->cut = true;
	}
	k = remember(sc, WHAT_TOLD, path, &stamp, true);
	if (k != NULL)
		k->guarded = true;
	return SEEN_OPEN;
}

enum seen
found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name)
{
	return found_in(sc, what, dir_fd, path, name, NONE);
}

/* Judges something whose name matters, in the directory behind dir_fd. */
enum seen
found_in(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name,
    uint32_t made)
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
	/* Even if a rule allows the name, the content has to be judged. */
	if (followed_is(what))
		return found_followed(sc, &p, k);
	/* A target of a rule or of a configuration may be a hook as well. The stricter kind
	 * counts. */
	if (k != NULL && k->what > what)
		p.what = what = k->what;
	if (what == WHAT_TOLD)
		return found_told(sc, path, &p.st, k, made);
	if (what == WHAT_NAME)
		return found_named(sc, &p, k, made);
	if (sc->phase == PHASE_LEARN) {
		if (k == NULL)
			tell_place(sc,
			    remember(sc, what, path, &stamp,
				is_sealed_from_start(what, p.st.st_mode)));
		return seen_at(what, &stamp);
	}
	if (k != NULL && same_stamp(what, &k->stamp, &stamp) &&
	    (k->sealed || what == WHAT_PIN || (what == WHAT_REBASE && !k->late)))
		return seen_at(what, &stamp);
	/* A link from before the first command. It cannot be a mount point. */
	if (k != NULL && !k->late && S_ISLNK(p.st.st_mode) && same_stamp(what, &k->stamp, &stamp))
		return SEEN_CLOSED;
	if (k != NULL && k->sealed && what != WHAT_PIN && what != WHAT_REBASE &&
	    what != WHAT_STRANGE) {
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, what, path, NULL, NULL);
		k->stamp = stamp;
		tell_place(sc, k);
		look_for_targets(sc, what, path);
		return seen_at(what, &stamp);
	}
	moved = k == NULL ? moved_here(sc, what, &stamp) : NULL;
	if (moved != NULL && !known_is_there(sc, moved)) {
		forget_known(sc, moved);
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return seen_at(what, &stamp);
	}
	if (what == WHAT_PIN) {
		sc->due.git = true;
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return SEEN_OPEN;
	}
	return judge(sc, &p, k);
}
