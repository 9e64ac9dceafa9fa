/*
 * Finds files and directories that a tool on the host would run or obey, in the directories in
 * which commands may write. The scan finds them once, watches them, and compares them after each
 * command. It works on descriptors, follows no link and ignores no file.
 *
 * A place that the first scan (or an earlier worker) found is known: the host mounts it read-only,
 * so only a process outside the sandbox can change it, and such a change is only reported. A place
 * that appears later was planted: plant.c makes it harmless. Until the host confirms that it has
 * mounted the reported places, what is left of a plant is judged again each time.
 *
 * The scan watches directories (inotify), so that a comparison reads only those in which something
 * happened. If the kernel has no watches left, or dropped events, the scan walks everything again.
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
/* Limits of one walk. So many names take a second and a half, and a path can be no deeper. */
#define SCAN_NAMES_MAX 1000000
#endif
#define SCAN_DEPTH_MAX 200
/* Changes that wait to be reported. Beyond that, plants are still made harmless, but the reply only
 * says that something is missing. */
#define SCAN_CHANGES_MAX 10000
/* Known places. The host could not mount more. */
#define SCAN_PLACES_MAX 50000

/* The kind of a found place: decides how it is judged, and by which rule. */
enum what {
	/* A git directory or .koda: not harmful itself. */
	WHAT_PIN,
	/* A file that may be changed, but changes are reported. */
	WHAT_TOLD,
	/* In a git directory, neither a regular file nor a directory: git follows a link, and waits
	 * for a FIFO. */
	WHAT_STRANGE,
	/* Files that can lead git out of its directory (followed.h). */
	WHAT_INDEX,
	WHAT_REF,
	WHAT_LIST,
	WHAT_CONFIG,
	WHAT_HOOKS,
	WHAT_REMOTES,
	WHAT_GITFILE, /* .git that is not a directory */
	WHAT_COMMONDIR,
	WHAT_ALTERNATES,
	WHAT_REBASE,
	WHAT_KODA,
	WHAT_NAME, /* named by a rule of deny_write_names */
	/* What such a place leads to, or a link on the way to it. */
	WHAT_LED,
	/* What an existing configuration names, or a link on the way to it. */
	WHAT_TARGET,
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
	char *path; /* NULL: free slot */
	struct stamp stamp;
	enum what what;
	bool sealed; /* mounted: commands cannot have changed it */
	/* Installed by a package manager: it is not mounted, but judged when something happens in
	 * it. Otherwise it counts as sealed. */
	bool guarded;
	bool ours; /* made by the scan: no process held it open before */
	bool left; /* planted, reported, and still there */
	/* Made or changed by commands: until it is mounted it is judged each time, changed or
	 * not. */
	bool late;
	bool tell;
	/* The era in which a command made it together with its directory; 0 if no command did. */
	uint32_t came;
	/* Checksums of its content if it is not mounted (scan_names.c). `deep` covers the times of
	 * a directory's entries; `content` covers the file contents of packages. */
	uint64_t deep, content;
	/* It, or a file in it, had another name when it was last checked (linked.h). */
	bool linked;
	bool live; /* a git directory that live.c knows */
	/* When an index was first found to be unreadable; 0 if it is readable. */
	int64_t unclear_ns;
	uint32_t next; /* next in the same bucket, plus one */
};

struct scan;

struct scan *scan_new(const struct resolver *res, const struct access_subject *who,
    struct quarantine q);
void scan_free(struct scan *sc);

/* Add a directory to scan, by its canonical path. A directory that does not exist is skipped. */
int scan_add_root(struct scan *sc, const char *path, struct koda_error *err);
/* Add a directory in which only the paths that rules name are scanned. Add roots first. */
int scan_add_cache(struct scan *sc, const char *path, struct koda_error *err);
/* Add a file name whose changes are reported. Call this before the first scan. */
int scan_add_told(struct scan *sc, const char *name, struct koda_error *err);
/* Add a place that an earlier worker found. */
int scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err);

/* Scan everything for the first time: what exists is known. */
int scan_learn(struct scan *sc, struct koda_error *err);
/* Start with only the added places as known. The next comparison scans everything. */
int scan_resume(struct scan *sc, struct koda_error *err);
/* Let the next comparison judge planted things that are still there once more. */
void scan_try_again(struct scan *sc);

/* How much of what is new or changed a comparison judges, and how strictly. */
enum scan_reach {
	/* Only what the host's git would use right now (live.h). */
	SCAN_LOOK,
	/* Everything, while commands run whose use of git must not be disturbed: only what does
	 * harm is taken away. */
	SCAN_GENTLY,
	/* Everything, and what is harmless becomes a file that no process holds open. */
	SCAN_ALL,
	/* The same after the host has mounted the reported places: each of them is judged one last
	 * time. */
	SCAN_ALL_MOUNTED,
};
/* Judge what is new or changed since the last comparison. busy: a command that ran since then still
 * runs, so the directories that it made still count as its own. */
int scan_compare(struct scan *sc, enum scan_reach reach, bool busy, struct koda_error *err);

/* For a session without commands: find only what the policy's own paths lead to, for scan_led(). */
int scan_learn_led(struct scan *sc, struct koda_error *err);
/*
 * Returns the path (owned by the scan) of a place that configuration names, or that a link in a
 * protected place leads to, if it is `path` or above it or, with `below`, beneath it. Stores its
 * rule in *ret. Returns NULL if there is none.
 */
const char *scan_led(const struct scan *sc, const char *path, bool below, enum access_rule *ret);

/* Returns the i-th place that scan_led() knows; NULL after the last. */
const char *scan_guarded(const struct scan *sc, size_t i);

/* ---- results ---- */

struct scan_change {
	Koda__ChangeKind kind;
	const char *rule; /* static */
	char *path, *detail;
	char quarantined[QUARANTINE_NAME_SIZE];
};

bool scan_watched(const struct scan *sc);
/* Returns the errno for which the scan watches nothing; 0 if it watches. */
int scan_watch_errno(const struct scan *sc);
/* Returns true if something was not scanned, or not reported. */
bool scan_cut(const struct scan *sc);
/* Returns the next change that was not taken yet, or NULL. The scan owns it; it is valid until the
 * next comparison. */
const struct scan_change *scan_next_change(struct scan *sc);
const struct known *scan_next_place(struct scan *sc);
/* Undo the last scan_next_change() or scan_next_place(): it does not fit into this reply. */
void scan_put_back_change(struct scan *sc);
void scan_put_back_place(struct scan *sc, const struct known *place);
bool scan_has_more(const struct scan *sc);

/* ---- for plant.c and target.c ---- */

struct quarantine *scan_quarantine(struct scan *sc);
const struct resolver *scan_resolver(const struct scan *sc);
const struct access_subject *scan_who(const struct scan *sc);
/* Returns true if harmless things are to be left as they are. */
bool scan_is_gentle(const struct scan *sc);
/* Returns true if that canonical path is inside a scanned root. */
bool scan_covers(const struct scan *sc, const char *path);
/* Returns true if it is, and not in a cache: a repository may be kept there. */
bool scan_keeps(const struct scan *sc, const char *path);
/* Returns true if the directory at that canonical path has the shape of a git directory. */
bool scan_is_git_dir(const struct scan *sc, const char *path);
void scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail);
/* Add a path that an existing place names or leads to. If it exists it becomes a known place; in
 * any case it is guarded. */
void scan_add_target(struct scan *sc, enum what what, const char *path, bool link);
const char *scan_rule(enum what what);

#endif
