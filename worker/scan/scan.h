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
#ifndef KODA_WORKER_SCAN_SCAN_H
#define KODA_WORKER_SCAN_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/worker.pb-c.h"
#include "shared/rules/access.h"
#include "worker/files/resolve.h"
#include "worker/scan/quarantine.h"

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
	WHAT_PIN,  /* a git directory, .koda: not harmful itself */
	WHAT_TOLD, /* a file that may be changed, but a change is told */
	/* In a git directory, neither a regular file nor a directory: git follows a link, and waits for a FIFO. */
	WHAT_STRANGE,
	/* Files that can lead git out of its directory (followed.h). */
	WHAT_INDEX,
	WHAT_REF,
	WHAT_LIST,
	WHAT_CONFIG,
	WHAT_HOOKS,
	WHAT_REMOTES,
	WHAT_GITFILE, /* .git that is no directory */
	WHAT_COMMONDIR,
	WHAT_ALTERNATES,
	WHAT_REBASE,
	WHAT_KODA,
	WHAT_NAME,   /* a rule of deny_write_names names it */
	WHAT_LED,    /* what such a place leads to, or a link on the way to it */
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
	/* It came with packages: it is not mounted, and judged where something happened. Counts as sealed otherwise. */
	bool guarded;
	bool ours; /* made by us: nobody held it open before */
	bool left; /* planted, told, and still there */
	/* It came with commands, or changed: as long as it is not mounted it is judged each time, as it is or not. */
	bool late;
	bool tell;
	uint32_t
	    came; /* the era in which a command made it together with its directory; 0: none did */
	/* What is in it, where it is not mounted (scan_names.c): by the times, of a directory, and by the contents, of what came
	 * with packages. */
	uint64_t deep, content;
	bool linked; /* it, or a file in it, had another name when it was looked at (linked.h) */
	bool live;   /* a git directory that live.c knows */
	int64_t unclear_ns; /* when an index was first found that has no reading; 0: it has one */
	uint32_t next;      /* of the same bucket, plus one */
};

struct scan;

struct scan *scan_new(const struct resolver *res, const struct access_subject *who,
    struct quarantine q);
void scan_free(struct scan *sc);

/* A directory to look through: canonical. What is not there is left out. */
int scan_add_root(struct scan *sc, const char *path, struct koda_error *err);
/* A directory that is not looked through, whatever is in it: only at what rules name there. Roots are added first. */
int scan_add_cache(struct scan *sc, const char *path, struct koda_error *err);
/* A name of a file of which a change is told. Before anything is looked through. */
int scan_add_told(struct scan *sc, const char *name, struct koda_error *err);
/* What an earlier worker found. */
int scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err);

/* Look through all of it, for the first time: what is there is known. */
int scan_learn(struct scan *sc, struct koda_error *err);
/* Nothing but what was added is known: the next comparison looks through all of it. */
int scan_resume(struct scan *sc, struct koda_error *err);
/* What was planted and is still there is judged once more. */
void scan_try_again(struct scan *sc);
/* Judge what is new or changed since the last time. mounted: what was told is mounted by now, so it is judged one last
 * time. busy: a command that ran since the last time still runs, so the directories that it made are still its own. */
int scan_compare(struct scan *sc, bool mounted, bool busy, struct koda_error *err);
/* The same while commands run that git's own work is not to be taken from: only what does harm is taken away. */
int scan_compare_gently(struct scan *sc, bool busy, struct koda_error *err);
/* Only what the host's git would use right now (live.h). */
int scan_look(struct scan *sc, bool busy, struct koda_error *err);

/* Of the policy's own paths alone, what they lead to: for scan_led() in a session that has no commands. */
int scan_learn_led(struct scan *sc, struct koda_error *err);
/*
 * What configuration names, or a link in a protected place leads to, at that path or above it; with `below`, also beneath
 * it. NULL: nothing; otherwise its path, the scan's, with the rule in *ret.
 */
const char *scan_led(const struct scan *sc, const char *path, bool below, enum access_rule *ret);

/* Returns the i-th place that scan_led() knows; NULL after the last. */
const char *scan_guarded(const struct scan *sc, size_t i);

/* ---- what there is to tell ---- */

struct scan_change {
	Koda__ChangeKind kind;
	const char *rule; /* static */
	char *path, *detail;
	char quarantined[QUARANTINE_NAME_SIZE];
};

bool scan_watched(const struct scan *sc);
/* Why not; 0 if it is. */
int scan_watch_errno(const struct scan *sc);
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
/* Is what is harmless to be left as it is? */
bool scan_is_gentle(const struct scan *sc);
/* Is that canonical path looked through? */
bool scan_covers(const struct scan *sc, const char *path);
/* Is it, and in no cache: may a repository be kept there? */
bool scan_keeps(const struct scan *sc, const char *path);
/* Has the directory at that canonical path the shape of a git directory? */
bool scan_is_git_dir(const struct scan *sc, const char *path);
void scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail);
/* Something that was there names it or leads to it: known if it is there, guarded if not. */
void scan_add_target(struct scan *sc, enum what what, const char *path, bool link);
const char *scan_rule(enum what what);

#endif
