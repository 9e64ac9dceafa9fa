/* SPDX-License-Identifier: Apache-2.0 */
/* What a scan finds and reports: kinds of places, known places, changes. Data only. */
#ifndef KODA_WORKER_SCAN_SCAN_FOUND_H
#define KODA_WORKER_SCAN_SCAN_FOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/worker.pb-c.h"
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
	/* Files that can lead git out of its directory (followed_judge.h). */
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
	/* Checksums of its content if it is not mounted (deep.h). `deep` covers the times of
	 * a directory's entries; `content` covers the file contents of packages. */
	uint64_t deep, content;
	/* It, or a file in it, had another name when it was last checked (linked.h). */
	bool linked;
	bool live; /* a git directory that live.c knows */
	/* When an index was first found to be unreadable; 0 if it is readable. */
	int64_t unclear_ns;
	uint32_t next; /* next in the same bucket, plus one */
};

struct scan_change {
	Koda__ChangeKind kind;
	const char *rule; /* static */
	char *path, *detail;
	char quarantined[QUARANTINE_NAME_SIZE];
};

#endif
