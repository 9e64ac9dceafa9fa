/* What the files that make up a scan share; scan.h is for everybody else. */
#ifndef KODA_WORKER_SCAN_SCAN_STATE_H
#define KODA_WORKER_SCAN_SCAN_STATE_H

#include <dirent.h>

#include "shared/rules/names.h"
#include "shared/wire/protocol.h"
#include "worker/scan/scan.h"

#define NONE UINT32_MAX

/* A directory that is watched. */
struct node {
	uint32_t parent; /* NONE: a root */
	uint32_t round;  /* when it was met last */
	uint32_t children;
	int32_t wd; /* -1: none */
	dev_t dev;
	ino_t ino;
	char *name; /* NULL: it is gone */
	uint16_t depth;
	uint8_t root;
	bool dirty, content, guards;
	bool fresh;    /* something happened since what git follows in it was read */
	bool git;      /* it is a git directory */
	bool in_git;   /* it lies in one */
	bool vendored; /* it is, or is in, a directory that a package manager fills */
	bool inside;   /* it is, or is in, a place of WHAT_NAME that is not mounted */
	uint32_t born; /* the era in which it appeared; 0: it was there before any command */
	uint32_t guards_round; /* of the guards that `guards` is about */
};

/* A name that is to be looked at: a directory, probably. */
struct step {
	uint32_t parent;
	bool again; /* it may be watched already, and is looked at all the same */
	char *name;
};

/* Nothing may be at that path, as long as nothing is known to be. */
struct guard {
	char *path;
	enum what what;
};

/* Digests of paths. */
struct path_set {
	uint64_t *slot; /* 0: free */
	size_t n, size;
};

/* What came with a directory that a command made. */
struct came {
	char *path;
	uint32_t n;
	const char *rule[4]; /* the first few; the policy's */
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
	/* In these commands write too, but only the rules' paths are looked at, one by one. */
	char *cache[SCAN_ROOTS_MAX];
	size_t n_caches;
	/* Those that lie in what is looked through: what commands see there need not be what the host sees. */
	char *inner[SCAN_ROOTS_MAX];
	size_t n_inner;
	char **cached; /* the rules' paths in them */
	size_t n_cached, cached_size;
	bool learning; /* what is there is known */
	bool full;     /* everything has to be walked, events or not */
	bool cut;      /* there was more to tell, or to know, than there is room for */
	bool watched, started;
	bool verify; /* something went away: are the known places where they were? */
	bool git;    /* what is git's matters */
	bool gentle; /* commands run: what is harmless is left as it is */
	struct live *live;
	struct hides *hides;
	bool git_touched; /* something happened in a git directory */
	bool resuming;    /* only what was said to be known is */
	bool partial;     /* there is something that no walk has come to */
	bool vast;        /* there was before any command ran */
	dev_t quarantine_dev;
	ino_t quarantine_ino;

	int ifd;
	int watch_errno; /* why nothing is watched */
	struct node *node;
	uint32_t n_nodes, nodes_size, free_node; /* free_node: the first of a list by parent */
	uint32_t *by_wd;                         /* node plus one */
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
	uint32_t bucket[4096]; /* plus one */
	uint32_t unsealed;     /* how many may still be changed by commands */

	/* deny_write_names: scan_names.c */
	struct names_index *by_name;
	struct policy_list rules; /* the policy's, and from n_denied on those that are told */
	size_t n_denied;
	size_t n_told; /* changes that were told, or were too many to be, in this comparison */
	uint32_t era;  /* the directories of this one were made by commands that may still run */
	struct path_set made, gone; /* in this era; gone: what was there before it */
	bool unsure;                /* one of the two is not complete */
	uint32_t moved_to;          /* in this era */
	struct came *came;
	size_t n_came, came_size;
	uint32_t mounts;   /* that the host makes for names and what they lead to, at most */
	char *last_dir;    /* whose mounts are counted */
	unsigned led_left; /* targets of links that may still be added (led.h) */

	struct scan_change *change;
	size_t n_changes, changes_size, next_change;
	uint32_t next_place;
	bool places_left;
	uint32_t
	    next_again; /* known places that are looked at without an event, in turn (linked.h) */
};

/* Whether what is there now can be looked into further. */
enum seen {
	SEEN_OPEN,   /* nothing special any more, or never: look into it */
	SEEN_CLOSED, /* a place of its own: commands cannot change what is in it, or it is gone */
};

/* Is it one of the files that git follows (followed.h)? */
static inline bool
is_followed(enum what what)
{
	return what == WHAT_INDEX || what == WHAT_REF || what == WHAT_LIST;
}

/* ---- scan_known.c: what is known, what is told, where nothing may be ---- */

/* Room for one more. -1: no memory. */
int scan_grow(void *array, size_t n, size_t *size, size_t each);
void stamp_of(const struct stat *st, struct stamp *ret);
bool same_stamp(enum what what, const struct stamp *a, const struct stamp *b);
bool has_name(int dir_fd, const char *name);
/* Has the directory the entries by which git takes it for a git directory? */
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

/* ---- scan_node.c: the directories that are watched ---- */

void release_node(struct scan *sc, uint32_t idx);
void drop_node(struct scan *sc, uint32_t idx);
uint32_t add_node(struct scan *sc, uint32_t parent, uint8_t root, const char *name);
size_t node_path(const struct scan *sc, uint32_t idx, const char *name, char ret[PATH_LEN_MAX + 1]);
int open_below(const struct scan *sc, uint8_t root, char *path);
int open_listed(const struct scan *sc, uint8_t root, char *path);
void make_roots_listable(const struct scan *sc);
bool make_listable(const struct scan *sc, const char *path, size_t from);
void stop_watching(struct scan *sc);
void start_watching(struct scan *sc);
int watch_directory(struct scan *sc, int fd, bool content);

/* ---- scan.c ---- */

/* What all that is known names, or leads to. */
void find_all_targets(struct scan *sc);

/* ---- scan_judge.c: what becomes of what was found ---- */

void look_for_targets(struct scan *sc, enum what what, const char *path);
enum seen found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name);
/* The same in a directory that a command made together with it: in which one, or NONE; WHAT_NAME alone asks. */
enum seen found_in(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name,
    uint32_t made);
int judge_unsealed(struct scan *sc);
void verify_known(struct scan *sc);
int judge_cached(struct scan *sc);

/* ---- scan_names.c: deny_write_names, and which directories are new ---- */

bool scan_names_begin(struct scan *sc);
void scan_names_done(struct scan *sc);
/* The index of all names. */
int scan_names_ready(struct scan *sc);
/* A rule of names that the entry of that directory is, or, as a link or a file that leads on, is on the way to. */
struct names_found named_in(const struct scan *sc, int fd, const struct dirent64 *e,
    const char *path, size_t len, uint32_t idx);
/* Did a package manager put it there? Then the host does not mount it, and it is only compared. */
bool is_vendored(const struct scan *sc, const char *path);
/* Is there room for a mount on that path, and on the directories above it? Counts it. */
bool take_mounts(struct scan *sc, const char *path);
/* Something of that name was made in the directory, was moved there (perhaps in the place of another), went away. */
void note_made(struct scan *sc, uint32_t idx, const char *name);
void note_moved_to(struct scan *sc, uint32_t idx, const char *name);
void note_gone(struct scan *sc, uint32_t idx, const char *name);
/* The outermost directory that was made in this era and holds the one that is `up` levels above idx; NONE: that one was
 * there before, or took the place of one that was. */
uint32_t made_with(struct scan *sc, uint32_t idx, size_t up);
/* A place that stays because it came with the directory `made`. */
void note_came(struct scan *sc, uint32_t made, const char *path);
void tell_came(struct scan *sc);
enum seen found_told(struct scan *sc, const char *path, const struct stat *st, struct known *k,
    uint32_t made);
void end_era(struct scan *sc);
/* What is in the directory `name`, all the way down; never 0. content: in the file, or the files of the directory; never 0, NULL
 * if nobody asks. */
uint64_t deep_of(int dir_fd, const char *name, const struct stat *st, uint64_t *content);

#endif
