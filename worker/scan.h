/*
 * What stands in the directories in which commands may write that a tool on the host would run or obey: found once,
 * watched, and compared after each command. Walks on descriptors, follows no link, ignores nothing.
 *
 * A place that was found at first (or that an earlier worker found) is known: the host mounts it read-only, so whoever
 * changes it is outside, and it is only told. Everything else of that kind that is found later was planted: plant.c
 * makes it harmless. Until the host says that it has mounted what was told, what is left of a plant is judged
 * again each time.
 *
 * Directories are watched (inotify), so that a comparison looks only where something happened. Where the kernel has no
 * watches left, or dropped events, everything is walked again.
 */
#ifndef KODA_WORKER_SCAN_H
#define KODA_WORKER_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/worker.pb-c.h"
#include "shared/access.h"
#include "worker/quarantine.h"
#include "worker/resolve.h"

#ifndef SCAN_NAMES_MAX
/* One walk looks at no more names, and no deeper: a second and a half of time, and what a path can hold. */
#define SCAN_NAMES_MAX 1000000
#endif
#define SCAN_DEPTH_MAX 200
/* Changes that wait to be told; what comes then is made harmless all the same and only counted. */
#define SCAN_CHANGES_MAX 10000
/* Places that are known; more cannot be mounted either. */
#define SCAN_PLACES_MAX 50000

/* What it is that was found: how it is judged, and by which rule. */
enum what {
	WHAT_PIN, /* a git directory, .koda: not harmful itself */
	WHAT_CONFIG,
	WHAT_HOOKS,
	WHAT_GITFILE, /* .git that is no directory */
	WHAT_COMMONDIR,
	WHAT_ALTERNATES,
	WHAT_REBASE,
	WHAT_KODA,
	WHAT_TARGET, /* what a configuration that was there names, or a link on the way to it */
	WHAT_RULE,
};

struct stamp {
	dev_t dev;
	ino_t ino;
	mode_t mode;
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
};

struct known {
	char *path; /* NULL: a free slot */
	struct stamp stamp;
	enum what what;
	bool sealed; /* mounted: commands cannot have changed it */
	bool ours;   /* made by us: nobody held it open before */
	bool left;   /* planted, told, and still there */
	bool tell;
	uint32_t next; /* of the same bucket, plus one */
};

struct scan;

struct scan *scan_new(const struct resolver *res, const struct access_subject *who,
    struct quarantine q);
void scan_free(struct scan *sc);

/* A directory to look through: canonical. What is not there is left out. */
int scan_add_root(struct scan *sc, const char *path, struct koda_error *err);
/* A directory that is not looked through, whatever is in it: only at what rules name there. Roots are added first. */
int scan_add_cache(struct scan *sc, const char *path, struct koda_error *err);
/* What an earlier worker found. */
int scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err);

/* Look through all of it, for the first time: what is there is known. */
int scan_learn(struct scan *sc, struct koda_error *err);
/* Nothing but what was added is known: the next comparison looks through all of it. */
void scan_resume(struct scan *sc);
/* Judge what is new or changed since the last time. mounted: what was told is mounted by now, so it is judged one last
 * time. */
int scan_compare(struct scan *sc, bool mounted, struct koda_error *err);

/* ---- what there is to tell ---- */

struct scan_change {
	Koda__ChangeKind kind;
	const char *rule; /* static */
	char *path, *detail;
	char quarantined[QUARANTINE_NAME_SIZE];
};

bool scan_watched(const struct scan *sc);
/* Is there something that was not looked at, or not told? */
bool scan_cut(const struct scan *sc);
/* The next that was not taken yet, NULL if there is none; the scan's, until the next comparison. */
const struct scan_change *scan_next_change(struct scan *sc);
const struct known *scan_next_place(struct scan *sc);
/* Not that one: it does not fit into this answer. */
void scan_put_back_change(struct scan *sc);
void scan_put_back_place(struct scan *sc, const struct known *place);
bool scan_has_more(const struct scan *sc);

/* ---- for plant.c and target.c ---- */

struct quarantine *scan_quarantine(struct scan *sc);
const struct resolver *scan_resolver(const struct scan *sc);
const struct access_subject *scan_who(const struct scan *sc);
/* Is that canonical path looked through? */
bool scan_covers(const struct scan *sc, const char *path);
/* Has the directory at that canonical path the shape of a git directory? */
bool scan_is_git_dir(const struct scan *sc, const char *path);
void scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail);
/* A configuration that was there names it: known if it is there, guarded if not. */
void scan_add_target(struct scan *sc, const char *path, bool link);
const char *scan_rule(enum what what);

#endif
