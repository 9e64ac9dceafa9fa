/* What the files that make up a scan share; scan.h is for everybody else. */
#ifndef KODA_WORKER_SCAN_STATE_H
#define KODA_WORKER_SCAN_STATE_H

#include "shared/protocol.h"
#include "worker/scan.h"

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
	bool dirty, content, git, guards;
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
	bool rule;
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
	char **cached; /* the rules' paths in them */
	size_t n_cached, cached_size;
	bool learning; /* what is there is known */
	bool full;     /* everything has to be walked, events or not */
	bool cut;      /* there was more to tell, or to know, than there is room for */
	bool watched, started;
	bool verify;   /* something went away: are the known places where they were? */
	bool git;      /* what is git's matters */
	bool resuming; /* only what was said to be known is */
	bool partial;  /* there is something that no walk has come to */
	bool vast;     /* there was before any command ran */
	dev_t quarantine_dev;
	ino_t quarantine_ino;

	int ifd;
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

	struct scan_change *change;
	size_t n_changes, changes_size, next_change;
	uint32_t next_place;
	bool places_left;
};

/* Whether what is there now can be looked into further. */
enum seen {
	SEEN_OPEN,   /* nothing special any more, or never: look into it */
	SEEN_CLOSED, /* a place of its own: commands cannot change what is in it, or it is gone */
};

/* ---- scan_known.c: what is known, what is told, where nothing may be ---- */

/* Room for one more. -1: no memory. */
int scan_grow(void *array, size_t n, size_t *size, size_t each);
void stamp_of(const struct stat *st, struct stamp *ret);
bool same_stamp(enum what what, const struct stamp *a, const struct stamp *b);
bool has_name(int dir_fd, const char *name);
void forget_changes(struct scan *sc);
struct known *known_at(struct scan *sc, const char *path);
void forget_known(struct scan *sc, struct known *k);
struct known *remember(struct scan *sc, enum what what, const char *path, const struct stamp *stamp,
    bool sealed);
bool is_told(enum what what);
void tell_place(struct scan *sc, struct known *k);
int add_guard(struct scan *sc, const char *path, bool rule);
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

/* ---- scan_judge.c: what becomes of what was found ---- */

void look_for_targets(struct scan *sc, enum what what, const char *path);
enum seen found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name);
int judge_unsealed(struct scan *sc);
void verify_known(struct scan *sc);
int judge_cached(struct scan *sc);

#endif
