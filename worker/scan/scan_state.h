/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the files of a scan share. Data only. */
#ifndef KODA_WORKER_SCAN_SCAN_STATE_H
#define KODA_WORKER_SCAN_SCAN_STATE_H

#include "shared/rules/access.h"
#include "shared/rules/names.h"
#include "shared/wire/protocol.h"
#include "worker/files/resolve.h"
#include "worker/scan/path_set.h"
#include "worker/scan/scan_found.h"

#define NONE UINT32_MAX

/* A directory that the scan knows and, if it can, watches. */
struct node {
	uint32_t parent; /* NONE: this is a root */
	/* The round in which a walk last met it. */
	uint32_t round;
	uint32_t children;
	int32_t wd; /* -1: none */
	dev_t dev;
	ino_t ino;
	char *name; /* NULL: the directory is gone */
	uint16_t depth;
	uint8_t root;
	bool dirty, content, guards;
	/* Something happened since the files that git follows in it were read. */
	bool fresh;
	bool git;    /* it is a git directory */
	bool in_git; /* it is inside a git directory */
	/* It is, or is inside, a directory that a package manager fills. */
	bool vendored;
	/* It is, or is inside, a place of WHAT_NAME that is not mounted. */
	bool inside;
	/* The era in which it appeared; 0 if it existed before any command. */
	uint32_t born;
	uint32_t guards_round; /* the guards_round for which `guards` is valid */
};

/* A name that the walk has yet to visit, probably a directory. */
struct step {
	uint32_t parent;
	bool again; /* read it even if it is already watched */
	char *name;
};

/* A path at which nothing may appear, unless a known place is there. */
struct guard {
	char *path;
	enum what what;
};

/* A summary of the places that came with a directory that a command made. */
struct came {
	char *path;
	uint32_t n;
	const char *rule[4]; /* the first few; owned by the policy */
};

/* What the scan is doing. This decides what it does with the places that it finds. */
enum scan_phase {
	/* Take away what does harm, and make the rest a file that no process holds open. */
	PHASE_JUDGE,
	/* Commands run: take away what does harm, and leave the rest as it is. */
	PHASE_GENTLE,
	/* Before the first command: whatever exists becomes known. */
	PHASE_LEARN,
	/* The places that an earlier worker knew are known; no other place becomes known. */
	PHASE_RESUME,
};

struct scan {
	const struct resolver *res;
	const struct access_subject *who;
	struct quarantine q;
	struct {
		char *path;
		int fd; /* O_PATH */
	} root[SCAN_ROOTS_MAX];
	size_t n_roots;
	/* Commands write in these too, but only the paths that rules name are scanned, one by
	 * one. */
	char *cache[SCAN_ROOTS_MAX];
	size_t n_caches;
	/* Caches inside a scanned root: commands may see other content there than the host does. */
	char *inner[SCAN_ROOTS_MAX];
	size_t n_inner;
	char **cached; /* paths of rules inside the caches */
	size_t n_cached, cached_size;
	enum scan_phase phase;
	/* What the next comparison does besides what events ask for. */
	struct {
		bool walk;   /* walk everything */
		bool verify; /* something was removed: check that known places are still there */
		bool git;    /* something happened in a git directory: judge what it follows */
	} due;
	/* There was more to report, or to know, than there is room for. */
	bool cut;
	bool watched, started;
	bool git; /* the policy protects git's files */
	struct live *live;
	struct hides *hides;
	bool partial; /* some directory was not reached by a walk */
	/* `partial` was already set before any command ran. */
	bool vast;
	dev_t quarantine_dev;
	ino_t quarantine_ino;

	int ifd;
	int watch_errno; /* why nothing is watched */
	struct node *node;
	uint32_t n_nodes, nodes_size, free_node; /* head of a list linked by `parent` */
	uint32_t *by_wd;                         /* index of the node plus one */
	size_t wds;
	uint32_t *dirty;
	size_t n_dirty, dirty_size;
	struct step *step;
	size_t n_steps, steps_size;
	uint32_t round, guards_round;
	uint64_t names;

	struct guard *guard;
	size_t n_guards, guards_size;
	struct known *known;
	uint32_t n_known, known_size;
	uint32_t bucket[4096]; /* index plus one */
	uint32_t unsealed;     /* how many places commands may still change */

	/* deny_write_names: scan_names.c */
	struct names_index *by_name;
	/* The policy's rules and, from n_denied on, names of which changes are reported. */
	struct policy_list rules;
	size_t n_denied;
	/* Changes in this comparison that were reported, or were too many to be. */
	size_t n_told;
	/* Directories born in this era were made by commands that may still run. */
	uint32_t era;
	/* Paths that appeared in this era, and paths that went away and had existed before it. */
	struct path_set made, gone;
	/* One of the two sets is incomplete. */
	bool unsure;
	uint32_t moved_to; /* directories moved in this era */
	struct came *came;
	size_t n_came, came_size;
	/* Upper bound of mounts that the host makes for names and what they lead to. */
	uint32_t mounts;
	char *last_dir; /* the directory whose mounts are already counted */
	/* Targets of links that may still be added (led.h). */
	unsigned led_left;

	struct scan_change *change;
	size_t n_changes, changes_size, next_change;
	uint32_t next_place;
	bool places_left;
	/* The next known place to check without an event, in turn (linked.h). */
	uint32_t next_again;
};

#endif
