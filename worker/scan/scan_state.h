/* Internal state that the files of the scan share. Other code uses scan.h. */
#ifndef KODA_WORKER_SCAN_SCAN_STATE_H
#define KODA_WORKER_SCAN_SCAN_STATE_H

#include <dirent.h>

#include "shared/rules/names.h"
#include "shared/wire/protocol.h"
#include "worker/scan/scan.h"

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

/* A hash set of path digests. */
struct path_set {
	uint64_t *slot; /* 0: free */
	size_t n, size;
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

/* Whether the scan should look inside what it found. */
enum seen {
	/* Nothing special, or not any more: look inside. */
	SEEN_OPEN,
	/* Commands cannot change what is inside, or it is gone. */
	SEEN_CLOSED,
};

/* Returns true for the kinds of files that git follows (followed.h). */
static inline bool
is_followed(enum what what)
{
	return what == WHAT_INDEX || what == WHAT_REF || what == WHAT_LIST;
}

/* ---- scan_known.c: known places, results, guards ---- */

/* Set *err to KODA_INTERNAL. Returns -1. */
int scan_no_memory(struct koda_error *err);
/* Make room for one more element. Returns 0, or -1 without memory. */
int scan_grow(void *array, size_t n, size_t *size, size_t each);
void stamp_of(const struct stat *st, struct stamp *ret);
bool same_stamp(enum what what, const struct stamp *a, const struct stamp *b);
bool has_name(int dir_fd, const char *name);
/* Returns true if the directory has the entries by which git recognizes a git directory. */
bool has_git_shape(int dir_fd);
void forget_changes(struct scan *sc);
struct known *known_at(struct scan *sc, const char *path);
void forget_known(struct scan *sc, struct known *k);
struct known *remember(struct scan *sc, enum what what, const char *path, const struct stamp *stamp,
    bool sealed);
bool is_told(enum what what);
void tell_place(struct scan *sc, struct known *k);
int add_guard(struct scan *sc, const char *path, enum what what);
const struct guard *guard_at(const struct scan *sc, const char *dir, size_t dir_len,
    const char *name, bool *ret_last);
bool has_guards(struct scan *sc, uint32_t idx, const char *path);

/* ---- scan_node.c: watched directories ---- */

void release_node(struct scan *sc, uint32_t idx);
void drop_node(struct scan *sc, uint32_t idx);
uint32_t add_node(struct scan *sc, uint32_t parent, uint8_t root, const char *name);
size_t node_path(const struct scan *sc, uint32_t idx, const char *name, char ret[PATH_LEN_MAX + 1]);
/* Returns true below the refs of a git directory that contains this one. A command can give a
 * directory there the shape of a git directory. */
bool is_in_refs(const struct scan *sc, uint32_t idx);
int open_below(const struct scan *sc, uint8_t root, char *path);
int open_listed(const struct scan *sc, uint8_t root, char *path);
void make_roots_listable(const struct scan *sc);
bool make_listable(const struct scan *sc, const char *path, size_t from);
void stop_watching(struct scan *sc);
void start_watching(struct scan *sc);
int watch_directory(struct scan *sc, int fd, bool content);

/* ---- scan_compare.c ---- */

/* Add what every known place names or leads to. */
void find_all_targets(struct scan *sc);

/* ---- scan_judge.c: what happens to a place that was found ---- */

void look_for_targets(struct scan *sc, enum what what, const char *path);
enum seen found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name);
/* Like found(), for a place that came with a directory that a command made: `made` is that
 * directory, or NONE. Only WHAT_NAME and WHAT_TOLD use it. */
enum seen found_in(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name,
    uint32_t made);
int judge_unsealed(struct scan *sc);
void verify_known(struct scan *sc);
int judge_cached(struct scan *sc);

/* ---- scan_names.c: deny_write_names, and which directories are new ---- */

bool scan_names_begin(struct scan *sc);
void scan_names_done(struct scan *sc);
/* Build the index of all names. */
int scan_names_ready(struct scan *sc);
/* Returns the rule of names that the entry of that directory matches or, if the entry is a link or
 * a file that leads on, is on the way to. */
struct names_found named_in(const struct scan *sc, int fd, const struct dirent64 *e,
    const char *path, size_t len, uint32_t idx);
/* Returns true if a package manager put it there. The host does not mount such a place; it is only
 * compared. */
bool is_vendored(const struct scan *sc, const char *path);
/* Returns true, and counts them, if there is room for mounts on that path and on the directories
 * above it. */
bool take_mounts(struct scan *sc, const char *path);
/* Record that an entry of that name was made in the directory, was moved there (perhaps over
 * another), or went away. */
void note_made(struct scan *sc, uint32_t idx, const char *name);
void note_moved_to(struct scan *sc, uint32_t idx, const char *name);
void note_gone(struct scan *sc, uint32_t idx, const char *name);
/* Returns the outermost directory that was made in this era and contains the one `up` levels above
 * idx. NONE: the directory at that level existed before, or replaced one that did. */
uint32_t made_with(struct scan *sc, uint32_t idx, size_t up);
/* Record a place that stays because it came with the directory `made`. */
void note_came(struct scan *sc, uint32_t made, const char *path);
void tell_came(struct scan *sc);
enum seen found_told(struct scan *sc, const char *path, const struct stat *st, struct known *k,
    uint32_t made);
void end_era(struct scan *sc);
/* Returns a checksum of the metadata of everything in the directory `name`, never 0. Stores in
 * *content a checksum of the contents of the file, or of the directory's files, never 0; content
 * may be NULL. */
uint64_t deep_of(int dir_fd, const char *name, const struct stat *st, uint64_t *content);

#endif
