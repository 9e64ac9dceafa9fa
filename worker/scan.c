#include "worker/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/cleanup.h"
#include "shared/protocol.h"
#include "worker/plant.h"
#include "worker/target.h"

/* What can give a directory a name, an entry or, by its permissions, a reader that it did not have. */
#define WATCH                                                                                      \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_ONLYDIR |            \
	    IN_EXCL_UNLINK)
/* Where something known is, also what changes its content. */
#define WATCH_CONTENT (WATCH | IN_CLOSE_WRITE)
/* Numbers of watches are never used twice before they are used up; the table of them starts again here. */
#define WATCHES_MAX (1 << 20)
/* A command in the background may go on making events while they are looked at. */
#define ROUNDS_MAX 4
/* Who swaps things while they are judged is met so often for one name. */
#define TRIES 8

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
		int fd;
		dev_t dev;
	} root[SCAN_ROOTS_MAX];
	size_t n_roots;
	bool learning, full, cut, watched, verify, started, git;
	bool resuming; /* only what was said to be known is */
	bool partial;  /* there is something that no walk has come to */
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

/* ---- small things ---- */

/* Room for one more. */
static int
grow(void *array, size_t n, size_t *size, size_t each)
{
	void **p = array;
	size_t more = *size == 0 ? 16 : *size * 2;
	void *grown;

	if (n < *size)
		return 0;
	grown = realloc(*p, more * each);
	if (grown == NULL)
		return -1;
	*p = grown;
	*size = more;
	return 0;
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
}

static void
stamp_of(const struct stat *st, struct stamp *ret)
{
	*ret = (struct stamp){ .dev = st->st_dev,
		.ino = st->st_ino,
		.mode = st->st_mode,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec };
}

static bool
same_stamp(enum what what, const struct stamp *a, const struct stamp *b)
{
	if (a->dev != b->dev || a->ino != b->ino || (a->mode & S_IFMT) != (b->mode & S_IFMT))
		return false;
	/* What is in a git directory changes with every commit. */
	return what == WHAT_PIN ||
	    (a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns);
}

const char *
scan_rule(enum what what)
{
	switch (what) {
	case WHAT_KODA:
		return access_rule_name(ACCESS_RULE_KODA_PLACE);
	case WHAT_RULE:
		return access_rule_name(ACCESS_RULE_DENY_WRITE);
	case WHAT_PIN:
	case WHAT_CONFIG:
	case WHAT_HOOKS:
	case WHAT_GITFILE:
	case WHAT_COMMONDIR:
	case WHAT_ALTERNATES:
	case WHAT_REBASE:
	case WHAT_TARGET:
		break;
	}
	return access_rule_name(ACCESS_RULE_GIT_CONFIG);
}

struct quarantine *
scan_quarantine(struct scan *sc)
{
	return &sc->q;
}

const struct resolver *
scan_resolver(const struct scan *sc)
{
	return sc->res;
}

const struct access_subject *
scan_who(const struct scan *sc)
{
	return sc->who;
}

bool
scan_watched(const struct scan *sc)
{
	return sc->watched;
}

bool
scan_covers(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(path, sc->root[i].path))
			return true;
	}
	return false;
}

/* In one of the directories, and none of them itself. */
static bool
scan_holds(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (strcmp(path, sc->root[i].path) == 0)
			return false;
	}
	return scan_covers(sc, path);
}

static bool
has_name(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool
scan_is_git_dir(const struct scan *sc, const char *path)
{
	cleanup_close int fd = resolve_canonical_dir(sc->res, path, strlen(path));

	return fd >= 0 &&
	    access_is_git_dir(has_name(fd, "HEAD"), has_name(fd, "objects"), has_name(fd, "refs"),
		has_name(fd, "commondir"));
}

/* ---- what is told ---- */

void
scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail)
{
	struct scan_change *c;

	if (sc->n_changes >= SCAN_CHANGES_MAX ||
	    grow(&sc->change, sc->n_changes, &sc->changes_size, sizeof(*sc->change)) < 0) {
		sc->cut = true;
		return;
	}
	c = &sc->change[sc->n_changes];
	*c = (struct scan_change){ .kind = kind, .rule = scan_rule(what), .path = strdup(path) };
	if (c->path == NULL) {
		sc->cut = true;
		return;
	}
	if (detail != NULL)
		c->detail = strdup(detail);
	if (kept != NULL)
		memcpy(c->quarantined, kept->name, sizeof(c->quarantined));
	sc->n_changes++;
}

static void
forget_changes(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_changes; i++) {
		free(sc->change[i].path);
		free(sc->change[i].detail);
	}
	free(sc->change);
	sc->change = NULL;
	sc->n_changes = sc->changes_size = sc->next_change = 0;
}

bool
scan_cut(const struct scan *sc)
{
	return sc->cut || sc->partial;
}

const struct scan_change *
scan_next_change(struct scan *sc)
{
	return sc->next_change < sc->n_changes ? &sc->change[sc->next_change++] : NULL;
}

void
scan_put_back_change(struct scan *sc)
{
	sc->next_change--;
}

const struct known *
scan_next_place(struct scan *sc)
{
	if (!sc->places_left)
		return NULL;
	while (sc->next_place < sc->n_known) {
		struct known *k = &sc->known[sc->next_place++];

		if (k->path != NULL && k->tell) {
			k->tell = false;
			return k;
		}
	}
	sc->places_left = false;
	sc->next_place = 0;
	return NULL;
}

void
scan_put_back_place(struct scan *sc, const struct known *place)
{
	sc->next_place = (uint32_t)(place - sc->known);
	sc->known[sc->next_place].tell = true;
	sc->places_left = true;
}

bool
scan_has_more(const struct scan *sc)
{
	return sc->next_change < sc->n_changes || sc->places_left;
}

/* ---- what is known ---- */

static uint32_t *
bucket_of(struct scan *sc, const char *path)
{
	uint32_t h = 2166136261u;

	for (; *path != '\0'; path++)
		h = (h ^ (unsigned char)*path) * 16777619u;
	return &sc->bucket[(h ^ h >> 16) % N_ELEMENTS(sc->bucket)];
}

static struct known *
known_at(struct scan *sc, const char *path)
{
	for (uint32_t i = *bucket_of(sc, path); i != 0; i = sc->known[i - 1].next) {
		if (strcmp(sc->known[i - 1].path, path) == 0)
			return &sc->known[i - 1];
	}
	return NULL;
}

static void
forget(struct scan *sc, struct known *k)
{
	uint32_t *p = bucket_of(sc, k->path), self = (uint32_t)(k - sc->known) + 1;

	while (*p != self)
		p = &sc->known[*p - 1].next;
	*p = k->next;
	if (!k->sealed)
		sc->unsealed--;
	free(k->path);
	*k = (struct known){ 0 };
}

static struct known *
remember(struct scan *sc, enum what what, const char *path, const struct stamp *stamp, bool sealed)
{
	struct known *k = known_at(sc, path);
	size_t size = sc->known_size;

	if (k != NULL)
		forget(sc, k);
	for (uint32_t i = sc->n_known; k == NULL && i > 0 && i + 64 > sc->n_known; i--) {
		if (sc->known[i - 1].path == NULL)
			k = &sc->known[i - 1];
	}
	if (k == NULL &&
	    (sc->n_known >= SCAN_PLACES_MAX ||
		grow(&sc->known, sc->n_known, &size, sizeof(*k)) < 0)) {
		sc->cut = true;
		return NULL;
	}
	sc->known_size = (uint32_t)size;
	if (k == NULL)
		k = &sc->known[sc->n_known++];
	*k =
	    (struct known){ .path = strdup(path), .stamp = *stamp, .what = what, .sealed = sealed };
	if (k->path == NULL) {
		sc->cut = true;
		return NULL;
	}
	k->next = *bucket_of(sc, path);
	*bucket_of(sc, path) = (uint32_t)(k - sc->known) + 1;
	if (!sealed)
		sc->unsealed++;
	return k;
}

/* A rebase is no place that could be mounted: it goes on, or ends. */
static bool
is_told(enum what what)
{
	return what != WHAT_REBASE;
}

static void
tell_place(struct scan *sc, struct known *k)
{
	if (k == NULL || !is_told(k->what))
		return;
	k->tell = true;
	if (!sc->places_left || (uint32_t)(k - sc->known) < sc->next_place)
		sc->next_place = 0;
	sc->places_left = true;
}

/* ---- guards ---- */

static int
add_guard(struct scan *sc, const char *path, bool rule)
{
	for (size_t i = 0; i < sc->n_guards; i++) {
		if (strcmp(sc->guard[i].path, path) == 0)
			return 0;
	}
	if (!scan_holds(sc, path))
		return 0;
	if (grow(&sc->guard, sc->n_guards, &sc->guards_size, sizeof(*sc->guard)) < 0)
		return -1;
	sc->guard[sc->n_guards] = (struct guard){ strdup(path), rule };
	if (sc->guard[sc->n_guards].path == NULL)
		return -1;
	sc->n_guards++;
	sc->guards_round++;
	return 0;
}

/* The guard that has that name in that directory as a component; *ret_last: as its last. */
static const struct guard *
guard_at(const struct scan *sc, const char *dir, size_t dir_len, const char *name, bool *ret_last)
{
	const size_t k = strlen(name);
	const struct guard *found = NULL;

	for (size_t i = 0; i < sc->n_guards; i++) {
		const char *path = sc->guard[i].path;

		if (strncmp(path, dir, dir_len) != 0 || path[dir_len] != '/' ||
		    strncmp(path + dir_len + 1, name, k) != 0)
			continue;
		if (path[dir_len + 1 + k] == '\0') {
			*ret_last = true;
			return &sc->guard[i];
		}
		if (path[dir_len + 1 + k] == '/') {
			*ret_last = false;
			found = &sc->guard[i];
		}
	}
	return found;
}

static bool
has_guards(struct scan *sc, uint32_t idx, const char *path)
{
	struct node *n = &sc->node[idx];

	if (n->guards_round != sc->guards_round) {
		n->guards = false;
		for (size_t i = 0; i < sc->n_guards && !n->guards; i++)
			n->guards = path_is_inside(sc->guard[i].path, path);
		n->guards_round = sc->guards_round;
	}
	return n->guards;
}

void
scan_add_target(struct scan *sc, const char *path, bool link)
{
	struct stamp stamp;
	struct stat st;
	char dir[PATH_LEN_MAX + 1];
	size_t n = (size_t)(strrchr(path, '/') - path);
	cleanup_close int fd = -1;

	/* A directory in which everything is cannot be closed to commands. */
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(sc->root[i].path, path))
			return;
	}
	if (!scan_holds(sc, path) || known_at(sc, path) != NULL)
		return;
	if (add_guard(sc, path, false) < 0)
		sc->cut = true;
	if (sc->resuming)
		return;
	memcpy(dir, path, n);
	dir[n] = '\0';
	fd = resolve_canonical_dir(sc->res, dir, n);
	if (fd < 0 || fstatat(fd, path + n + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	stamp_of(&st, &stamp);
	/* A link can be no mount point: a command that puts another in its place has planted it. */
	tell_place(sc, remember(sc, WHAT_TARGET, path, &stamp, !link));
}

/* ---- directories ---- */

static void
release_node(struct scan *sc, uint32_t idx)
{
	while (idx != NONE && sc->node[idx].name == NULL && sc->node[idx].children == 0) {
		uint32_t parent = sc->node[idx].parent;

		sc->node[idx].children = NONE; /* in the list */
		sc->node[idx].parent = sc->free_node;
		sc->free_node = idx;
		if (parent != NONE)
			sc->node[parent].children--;
		idx = parent;
	}
}

static void
drop_node(struct scan *sc, uint32_t idx)
{
	struct node *n = &sc->node[idx];

	if (n->name == NULL)
		return;
	if (n->wd >= 0) {
		sc->by_wd[n->wd] = 0;
		if (sc->ifd >= 0)
			inotify_rm_watch(sc->ifd, n->wd);
		n->wd = -1;
	}
	free(n->name);
	n->name = NULL;
	release_node(sc, idx);
}

static uint32_t
add_node(struct scan *sc, uint32_t parent, uint8_t root, const char *name)
{
	uint32_t idx = sc->free_node;
	size_t size = sc->nodes_size;
	char *copy = strdup(name);

	if (copy != NULL && idx == NONE && sc->n_nodes < NONE - 1 &&
	    grow(&sc->node, sc->n_nodes, &size, sizeof(*sc->node)) == 0)
		idx = sc->n_nodes++;
	else if (copy != NULL && idx != NONE)
		sc->free_node = sc->node[idx].parent;
	sc->nodes_size = (uint32_t)size;
	if (idx == NONE || copy == NULL) {
		free(copy);
		return NONE;
	}
	sc->node[idx] = (struct node){ .parent = parent,
		.wd = -1,
		.name = copy,
		.root = root,
		.depth = parent == NONE ? 0 : (uint16_t)(sc->node[parent].depth + 1) };
	if (parent != NONE)
		sc->node[parent].children++;
	return idx;
}

/* Its canonical path as far as is known, with `name` behind it (may be NULL). 0: it is gone, or too long. */
static size_t
node_path(const struct scan *sc, uint32_t idx, const char *name, char ret[PATH_LEN_MAX + 1])
{
	const char *part[SCAN_DEPTH_MAX + 2];
	size_t n = 0, len = 0;

	if (name != NULL)
		part[n++] = name;
	for (;; idx = sc->node[idx].parent) {
		if (sc->node[idx].name == NULL || n > SCAN_DEPTH_MAX + 1)
			return 0;
		if (sc->node[idx].parent == NONE)
			break;
		part[n++] = sc->node[idx].name;
	}
	len = strlen(sc->root[sc->node[idx].root].path);
	memcpy(ret, sc->root[sc->node[idx].root].path, len);
	while (n > 0) {
		size_t k = strlen(part[--n]);

		if (len + 1 + k > PATH_LEN_MAX)
			return 0;
		ret[len++] = '/';
		memcpy(ret + len, part[n], k);
		len += k;
	}
	ret[len] = '\0';
	return len;
}

/* For reading, beneath its root, through no link. -1 with errno. */
static int
open_below(const struct scan *sc, uint8_t root, char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	char *rel = path + strlen(sc->root[root].path);
	int fd = sc->root[root].fd, last = -1;

	if (*rel == '\0')
		return openat(fd, ".", (int)how.flags);
	rel++;
	if (!sc->res->no_openat2)
		return (int)syscall(SYS_openat2, fd, rel, &how, sizeof(how));
	for (;;) {
		char *slash = strchr(rel, '/');
		int step;

		if (slash != NULL)
			*slash = '\0';
		step = openat(last >= 0 ? last : fd, rel,
		    slash != NULL ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : (int)how.flags);
		close_at(&last);
		last = step;
		if (slash != NULL)
			*slash = '/';
		if (slash == NULL || step < 0)
			return step;
		rel = slash + 1;
	}
}

static int add_step(struct scan *sc, uint32_t parent, const char *name, bool again);

/* Everything is forgotten that was watched, and all of it is looked at from now on. */
static void
stop_watching(struct scan *sc)
{
	close_at(&sc->ifd);
	sc->ifd = -1;
	sc->watched = false;
	sc->full = true;
	for (uint32_t i = 0; i < sc->n_nodes; i++)
		sc->node[i].wd = -1;
	free(sc->by_wd);
	sc->by_wd = NULL;
	sc->wds = 0;
}

static void
start_watching(struct scan *sc)
{
	sc->ifd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	sc->watched = sc->ifd >= 0;
}

/* The directory behind fd. Returns its number, -1 when nothing is watched any more. */
static int
watch(struct scan *sc, int fd, bool content)
{
	char name[16];
	int wd;

	if (!sc->watched)
		return -1;
	/* The working directory is /proc/self/fd: this is the directory itself, whatever its name is by now. */
	snprintf(name, sizeof(name), "%d", fd);
	wd = inotify_add_watch(sc->ifd, name, content ? WATCH_CONTENT : WATCH);
	if (wd < 0 || wd >= WATCHES_MAX) {
		stop_watching(sc);
		return -1;
	}
	if ((size_t)wd >= sc->wds) {
		size_t size = sc->wds == 0 ? 256 : sc->wds;
		uint32_t *grown;

		while (size <= (size_t)wd)
			size *= 2;
		grown = realloc(sc->by_wd, size * sizeof(*grown));
		if (grown == NULL) {
			stop_watching(sc);
			return -1;
		}
		memset(grown + sc->wds, 0, (size - sc->wds) * sizeof(*grown));
		sc->by_wd = grown;
		sc->wds = size;
	}
	return wd;
}

/* ---- judging what was found ---- */

/* A rebase is its list and what it merges with, not the directory that has them. */
static void
stamp_rebase(int dir_fd, const char *name, struct stamp *stamp)
{
	char path[NAME_LEN_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/git-rebase-todo", name);
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		mode_t mode = stamp->mode;

		stamp_of(&st, stamp);
		stamp->mode = mode;
	}
	snprintf(path, sizeof(path), "%s/strategy", name);
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		stamp->ctime_ns += (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
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

/* Whether what is there now can be looked into further. */
enum seen {
	SEEN_OPEN,   /* nothing special any more, or never: look into it */
	SEEN_CLOSED, /* a place of its own: commands cannot change what is in it, or it is gone */
};

static enum seen
seen_at(enum what what, const struct stamp *stamp)
{
	return what != WHAT_PIN && what != WHAT_REBASE && S_ISDIR(stamp->mode) ? SEEN_CLOSED
									       : SEEN_OPEN;
}

static void
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
			forget(sc, k);
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
static enum seen
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
			tell_place(sc, remember(sc, what, path, &stamp, !S_ISLNK(p.st.st_mode)));
		return seen_at(what, &stamp);
	}
	if (k != NULL && same_stamp(what, &k->stamp, &stamp) && (k->sealed || what == WHAT_PIN))
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
		forget(sc, moved);
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return seen_at(what, &stamp);
	}
	if (what == WHAT_PIN) {
		tell_place(sc, remember(sc, what, path, &stamp, true));
		return SEEN_OPEN;
	}
	return judge(sc, &p, k);
}

/* ---- looking at a directory ---- */

/* An entry that may matter, as soon as it is known what the directory is. */
struct candidate {
	struct candidate *next;
	enum access_name means;
	const struct guard *guard;
	bool last, directory;
	char name[];
};

static void
candidates_done(struct candidate **list)
{
	while (*list != NULL) {
		struct candidate *c = *list;

		*list = c->next;
		free(c);
	}
}

static bool
is_directory(int dir_fd, const struct dirent64 *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* What a name is in this directory, or -1: nothing. */
static int
what_in(const struct scan *sc, const struct candidate *c, bool git, bool koda, bool info)
{
	if (c->guard != NULL && (c->last || !c->directory))
		return c->guard->rule ? WHAT_RULE : WHAT_TARGET;
	if (c->means == ACCESS_NAME_KODA)
		return c->directory ? WHAT_PIN : WHAT_KODA;
	if (c->means == ACCESS_NAME_STEERING)
		return koda ? WHAT_KODA : -1;
	if (!sc->git)
		return -1;
	if (c->means == ACCESS_NAME_GIT)
		return c->directory ? WHAT_PIN : WHAT_GITFILE;
	if (c->means == ACCESS_NAME_ALTERNATES)
		return info ? WHAT_ALTERNATES : -1;
	if (!git)
		return -1;
	if (c->means == ACCESS_NAME_CONFIG)
		return WHAT_CONFIG;
	if (c->means == ACCESS_NAME_HOOKS)
		return WHAT_HOOKS;
	if (c->means == ACCESS_NAME_COMMONDIR)
		return WHAT_COMMONDIR;
	if (c->means == ACCESS_NAME_REBASE)
		return WHAT_REBASE;
	return -1;
}

/* One entry: a step, a candidate, or nothing to us. */
static int
take_entry(struct scan *sc, int fd, const struct dirent64 *e, const char *path, size_t len,
    uint32_t idx, bool descend, struct candidate **ret)
{
	const enum access_name means = access_name_of(e->d_name);
	const bool directory = is_directory(fd, e);
	const struct guard *guard = NULL;
	struct candidate *c;
	bool last = false;
	size_t k;

	if (sc->node[idx].guards)
		guard = guard_at(sc, path, len, e->d_name, &last);
	if (means == ACCESS_NAME_OTHER && guard == NULL)
		return directory && descend ? add_step(sc, idx, e->d_name, true) : 0;
	k = strlen(e->d_name) + 1;
	c = malloc(sizeof(*c) + k);
	if (c == NULL)
		return -1;
	*c = (struct candidate){ *ret, means, guard, last, directory };
	memcpy(c->name, e->d_name, k);
	*ret = c;
	return 0;
}

/* Without a DIR: it would be two system calls and an allocation more for each of thousands. */
static int
read_directory(struct scan *sc, int fd, const char *path, size_t len, uint32_t idx, bool descend,
    struct candidate **ret)
{
	static _Alignas(struct dirent64) char buf[32 << 10];

	has_guards(sc, idx, path);
	for (;;) {
		ssize_t n = getdents64(fd, buf, sizeof(buf));

		/* What was read is used; a directory that was removed meanwhile has nothing in it. */
		if (n < 0 && errno != ENOENT)
			sc->partial = true;
		if (n <= 0)
			return 0;
		for (char *p = buf; p < buf + n;) {
			const struct dirent64 *e = (const struct dirent64 *)(void *)p;

			p += e->d_reclen;
			if (e->d_name[0] == '.' &&
			    (e->d_name[1] == '\0' || (e->d_name[1] == '.' && e->d_name[2] == '\0')))
				continue;
			if (++sc->names > SCAN_NAMES_MAX) {
				sc->partial = true;
				return 0;
			}
			if (take_entry(sc, fd, e, path, len, idx, descend, ret) < 0)
				return -1;
		}
	}
}

/* Is the directory two levels up one of git's, and this its objects/info? */
static bool
is_git_info(const struct scan *sc, uint32_t idx)
{
	uint32_t objects = sc->node[idx].parent;

	if (objects == NONE || strcmp(sc->node[idx].name, "info") != 0 ||
	    access_name_of(sc->node[objects].name) != ACCESS_NAME_OBJECTS)
		return false;
	return sc->node[objects].parent != NONE && sc->node[sc->node[objects].parent].git;
}

static int
use_candidates(struct scan *sc, uint32_t idx, int dir_fd, char *path, size_t len, bool descend,
    const struct candidate *list)
{
	const char *own = strrchr(path, '/') + 1;
	bool head = false, objects = false, refs = false, commondir = false;
	const bool koda = access_name_of(own) == ACCESS_NAME_KODA;
	const bool named = access_name_of(own) == ACCESS_NAME_GIT;
	bool shape, git, content = false;

	for (const struct candidate *c = list; c != NULL; c = c->next) {
		head |= c->means == ACCESS_NAME_HEAD;
		objects |= c->means == ACCESS_NAME_OBJECTS;
		refs |= c->means == ACCESS_NAME_REFS;
		commondir |= c->means == ACCESS_NAME_COMMONDIR;
	}
	shape = access_is_git_dir(head, objects, refs, commondir);
	git = sc->git && (named || shape);
	if (git && !sc->node[idx].git && len > 0) {
		/* Its alternates are two levels down, and may have been there before it was one. */
		if (!descend && has_name(dir_fd, "objects/info") &&
		    add_step(sc, idx, "objects", true) < 0)
			return -1;
	}
	sc->node[idx].git = git;
	/* A repository without a name of its own (bare, a submodule's); the root itself stays what it is. */
	if (git && !named && sc->node[idx].parent != NONE)
		found(sc, WHAT_PIN, dir_fd, path, ".");
	for (const struct candidate *c = list; c != NULL; c = c->next) {
		int what = what_in(sc, c, git, koda, is_git_info(sc, idx));
		enum seen seen = SEEN_OPEN;
		size_t k = strlen(c->name);

		if (what >= 0 && len + 1 + k <= PATH_LEN_MAX) {
			path[len] = '/';
			memcpy(path + len + 1, c->name, k + 1);
			seen = found(sc, (enum what)what, dir_fd, path, c->name);
			path[len] = '\0';
			content = true;
		} else if (what >= 0) {
			sc->partial = true;
		}
		if (c->directory && seen == SEEN_OPEN && descend &&
		    add_step(sc, idx, c->name, true) < 0)
			return -1;
	}
	if ((git || content) && !sc->node[idx].content && sc->node[idx].wd >= 0) {
		sc->node[idx].content = true;
		watch(sc, dir_fd, true);
	}
	return 0;
}

static int
look(struct scan *sc, uint32_t idx, int fd, char *path, size_t len, bool descend)
{
	cleanup(candidates_done) struct candidate *list = NULL;

	if (read_directory(sc, fd, path, len, idx, descend, &list) < 0)
		return -1;
	return use_candidates(sc, idx, fd, path, len, descend, list);
}

/* ---- walking ---- */

static int
add_step(struct scan *sc, uint32_t parent, const char *name, bool again)
{
	char *copy;

	if (grow(&sc->step, sc->n_steps, &sc->steps_size, sizeof(*sc->step)) < 0)
		return -1;
	copy = strdup(name);
	if (copy == NULL)
		return -1;
	sc->step[sc->n_steps++] = (struct step){ parent, again, copy };
	return 0;
}

/* What the kernel shows of itself there is no project's. */
static bool
is_kernels(int fd)
{
	static const unsigned long types[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC,
		DEVPTS_SUPER_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < N_ELEMENTS(types); i++) {
		if ((unsigned long)fs.f_type == types[i])
			return true;
	}
	return false;
}

/* The node for the directory behind fd, which is `name` in parent: the one that is watched already, under whatever
 * name, or a new one. */
static uint32_t
node_for(struct scan *sc, uint32_t parent, uint8_t root, const char *name, int fd,
    const struct stat *st, bool *ret_new)
{
	const int wd = watch(sc, fd, false);
	uint32_t idx = wd >= 0 && sc->by_wd[wd] != 0 ? sc->by_wd[wd] - 1 : NONE;
	struct node *n;

	*ret_new = idx == NONE;
	if (idx == NONE) {
		idx = add_node(sc, parent, root, name);
		if (idx == NONE)
			return NONE;
		if (wd >= 0)
			sc->by_wd[wd] = idx + 1;
	}
	n = &sc->node[idx];
	if (!*ret_new && (n->parent != parent || strcmp(n->name, name) != 0)) {
		char *copy = strdup(name);
		uint32_t was = n->parent;

		if (copy == NULL)
			return NONE;
		free(n->name);
		n->name = copy;
		n->parent = parent;
		n->guards_round = 0;
		if (parent != NONE) {
			sc->node[parent].children++;
			n->depth = (uint16_t)(sc->node[parent].depth + 1);
		}
		if (was != NONE) {
			sc->node[was].children--;
			release_node(sc, was);
		}
		*ret_new = true;
	}
	/* Watching it anew has made the watch the narrow one. */
	if (n->content && wd >= 0)
		watch(sc, fd, true);
	n->wd = wd;
	n->dev = st->st_dev;
	n->ino = st->st_ino;
	n->round = sc->round;
	return idx;
}

/* One directory of the way; parent NONE: the root itself. */
static int
take_step(struct scan *sc, uint32_t parent, uint8_t root, const char *name, bool again)
{
	char path[PATH_LEN_MAX + 1];
	cleanup_close int fd = -1;
	struct stat st;
	bool is_new;
	uint32_t idx;
	size_t len;

	if (parent == NONE) {
		len = strlen(sc->root[root].path);
		memcpy(path, sc->root[root].path, len + 1);
	} else {
		if (sc->node[parent].name == NULL)
			return 0;
		len = node_path(sc, parent, name, path);
		if (len == 0 || sc->node[parent].depth >= SCAN_DEPTH_MAX) {
			sc->partial = true;
			return 0;
		}
		root = sc->node[parent].root;
	}
	fd = open_below(sc, root, path);
	if (fd < 0) {
		/* Who may not list it cannot find what is in it; whoever knows a name there can. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return -1;
		if (errno == EACCES && !sc->learning && sc->watched && sc->started)
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, WHAT_PIN, path, NULL,
			    "it cannot be listed");
		return 0;
	}
	if (fstat(fd, &st) < 0 ||
	    (st.st_dev != (parent == NONE ? st.st_dev : sc->node[parent].dev) && is_kernels(fd)))
		return 0;
	/* What is in it is kept, not planted; the view keeps commands out of it. */
	if (st.st_dev == sc->quarantine_dev && st.st_ino == sc->quarantine_ino)
		return 0;
	idx = node_for(sc, parent, root, name, fd, &st, &is_new);
	if (idx == NONE)
		return -1;
	if (!is_new && !again)
		return 0;
	return look(sc, idx, fd, path, len, true);
}

static int
walk(struct scan *sc)
{
	while (sc->n_steps > 0) {
		struct step s = sc->step[--sc->n_steps];
		int r = take_step(sc, s.parent, 0, s.name, s.again);

		free(s.name);
		if (r < 0)
			return -1;
		if (sc->names > SCAN_NAMES_MAX)
			break;
	}
	while (sc->n_steps > 0)
		free(sc->step[--sc->n_steps].name);
	return 0;
}

static int
walk_all(struct scan *sc)
{
	sc->round++;
	sc->names = 0;
	sc->partial = false;
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (take_step(sc, NONE, (uint8_t)i, "", true) < 0)
			return -1;
	}
	if (walk(sc) < 0)
		return -1;
	/* What was not met is gone; without watches no node is of any use later. */
	for (uint32_t i = 0; i < sc->n_nodes; i++) {
		struct node *n = &sc->node[i];

		if (n->name != NULL && (n->round != sc->round || !sc->watched))
			drop_node(sc, i);
	}
	sc->full = !sc->watched;
	return 0;
}

/* ---- events ---- */

static int
mark_dirty(struct scan *sc, uint32_t idx)
{
	if (sc->node[idx].dirty)
		return 0;
	if (grow(&sc->dirty, sc->n_dirty, &sc->dirty_size, sizeof(*sc->dirty)) < 0)
		return -1;
	sc->node[idx].dirty = true;
	sc->dirty[sc->n_dirty++] = idx;
	return 0;
}

static int
take_event(struct scan *sc, const struct inotify_event *ev)
{
	const bool dir = (ev->mask & IN_ISDIR) != 0;
	char path[PATH_LEN_MAX + 1];
	enum access_name means;
	uint32_t idx, up;
	bool last = false;
	size_t len;

	if ((ev->mask & IN_Q_OVERFLOW) != 0) {
		sc->full = true;
		return 0;
	}
	if (ev->wd < 0 || (size_t)ev->wd >= sc->wds || sc->by_wd[ev->wd] == 0)
		return 0;
	idx = sc->by_wd[ev->wd] - 1;
	if ((ev->mask & (IN_IGNORED | IN_UNMOUNT)) != 0) {
		sc->by_wd[ev->wd] = 0;
		sc->node[idx].wd = -1;
		drop_node(sc, idx);
		/* Another root at the same path is another root; this one has nothing in it any more. */
		return 0;
	}
	if (ev->len == 0)
		return 0;
	if (dir && (ev->mask & (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)) != 0 &&
	    add_step(sc, idx, ev->name, (ev->mask & (IN_CREATE | IN_MOVED_TO)) != 0) < 0)
		return -1;
	if (dir && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->verify = true;
	means = access_name_of(ev->name);
	if (sc->node[idx].content && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->verify = true;
	up = sc->node[idx].parent;
	if (means != ACCESS_NAME_OTHER) {
		if (mark_dirty(sc, idx) < 0)
			return -1;
		return 0;
	}
	/* The list of a rebase lies one level below what judges it. */
	if (up != NONE && access_name_of(sc->node[idx].name) == ACCESS_NAME_REBASE)
		return mark_dirty(sc, up);
	if (sc->n_guards == 0 ||
	    (sc->node[idx].guards_round == sc->guards_round && !sc->node[idx].guards))
		return 0;
	len = node_path(sc, idx, NULL, path);
	if (len > 0 && has_guards(sc, idx, path) &&
	    guard_at(sc, path, len, ev->name, &last) != NULL)
		return mark_dirty(sc, idx);
	return 0;
}

/* All that has happened up to now. 1 when there was something, 0, or -1. */
static int
take_events(struct scan *sc)
{
	_Alignas(struct inotify_event) char buf[32 << 10];
	int any = 0;

	for (;;) {
		ssize_t n = read(sc->ifd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return any;
		if (n <= 0) {
			stop_watching(sc);
			return 1;
		}
		any = 1;
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(void *)p;

			if (!sc->full && take_event(sc, ev) < 0)
				return -1;
			/* Nodes that go away go away in any case. */
			if (sc->full && (ev->mask & IN_IGNORED) != 0 && take_event(sc, ev) < 0)
				return -1;
			p += sizeof(*ev) + ev->len;
		}
	}
}

/* A directory in which something happened, itself. */
static int
look_again(struct scan *sc, uint32_t idx)
{
	char path[PATH_LEN_MAX + 1];
	cleanup_close int fd = -1;
	struct stat st;
	size_t len;

	if (sc->node[idx].name == NULL)
		return 0;
	len = node_path(sc, idx, NULL, path);
	if (len == 0)
		return 0;
	fd = open_below(sc, sc->node[idx].root, path);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -1 : 0;
	if (fstat(fd, &st) < 0 || st.st_dev != sc->node[idx].dev || st.st_ino != sc->node[idx].ino)
		return 0; /* it was moved; where it is now it has another event */
	return look(sc, idx, fd, path, len, false);
}

/* What may still be changed by commands is judged whether or not there was an event: one that had it open needs none
 * to write. */
static int
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
			forget(sc, &sc->known[i]);
	}
	return 0;
}

static void
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
		forget(sc, k);
	}
}

/* ---- from outside ---- */

struct scan *
scan_new(const struct resolver *res, const struct access_subject *who, struct quarantine q)
{
	struct scan *sc = calloc(1, sizeof(*sc));
	struct stat st;

	if (sc == NULL)
		return NULL;
	sc->res = res;
	sc->who = who;
	sc->q = q;
	sc->ifd = -1;
	sc->free_node = NONE;
	sc->guards_round = 1;
	sc->full = true;
	sc->git = !who->policy->flag[KODA_ALLOW_GIT_CONFIG];
	if (q.fd >= 0 && fstat(q.fd, &st) == 0) {
		sc->quarantine_dev = st.st_dev;
		sc->quarantine_ino = st.st_ino;
	}
	return sc;
}

void
scan_free(struct scan *sc)
{
	if (sc == NULL)
		return;
	close_at(&sc->ifd);
	forget_changes(sc);
	for (size_t i = 0; i < sc->n_roots; i++) {
		free(sc->root[i].path);
		close_at(&sc->root[i].fd);
	}
	for (uint32_t i = 0; i < sc->n_nodes; i++)
		free(sc->node[i].name);
	for (size_t i = 0; i < sc->n_steps; i++)
		free(sc->step[i].name);
	for (size_t i = 0; i < sc->n_guards; i++)
		free(sc->guard[i].path);
	for (uint32_t i = 0; i < sc->n_known; i++)
		free(sc->known[i].path);
	free(sc->node);
	free(sc->by_wd);
	free(sc->dirty);
	free(sc->step);
	free(sc->guard);
	free(sc->known);
	free(sc);
}

int
scan_add_root(struct scan *sc, const char *path, struct koda_error *err)
{
	cleanup_close int fd = -1;
	struct stat st;

	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(path, sc->root[i].path))
			return 0;
	}
	/* The top of everything has no project in it that a policy could mean. */
	if (strcmp(path, "/") == 0)
		return 0;
	fd = resolve_canonical_dir(sc->res, path, strlen(path));
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == EMFILE || errno == ENFILE ? no_memory(err) : 0;
	if (sc->n_roots == SCAN_ROOTS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "too many directories to scan");
	sc->root[sc->n_roots].path = strdup(path);
	if (sc->root[sc->n_roots].path == NULL)
		return no_memory(err);
	sc->root[sc->n_roots].dev = st.st_dev;
	sc->root[sc->n_roots++].fd = take_fd(&fd);
	return 0;
}

static enum what
what_of(const Koda__Place *place)
{
	const char *text = (const char *)place->path.data;
	size_t n = place->path.len, k = 0;
	char name[NAME_LEN_MAX + 1];

	if (place->kind == KODA__PLACE_KIND__PLACE_GIT_DIR)
		return WHAT_PIN;
	if (place->kind == KODA__PLACE_KIND__PLACE_RULE)
		return WHAT_RULE;
	while (k < n && text[n - 1 - k] != '/')
		k++;
	memcpy(name, text + n - k, k);
	name[k] = '\0';
	switch (access_name_of(name)) {
	case ACCESS_NAME_GIT:
		return WHAT_GITFILE;
	case ACCESS_NAME_COMMONDIR:
		return WHAT_COMMONDIR;
	case ACCESS_NAME_CONFIG:
		return WHAT_CONFIG;
	case ACCESS_NAME_HOOKS:
		return WHAT_HOOKS;
	case ACCESS_NAME_ALTERNATES:
		return WHAT_ALTERNATES;
	case ACCESS_NAME_KODA:
	case ACCESS_NAME_STEERING:
		return WHAT_KODA;
	case ACCESS_NAME_OTHER:
	case ACCESS_NAME_HEAD:
	case ACCESS_NAME_OBJECTS:
	case ACCESS_NAME_REFS:
	case ACCESS_NAME_CONFIG_LOCK:
	case ACCESS_NAME_REBASE:
	case ACCESS_NAME_GITDIR:
		break;
	}
	return WHAT_TARGET;
}

int
scan_add_known(struct scan *sc, const Koda__Place *place, struct koda_error *err)
{
	static const mode_t types[] = { [KODA__FILE_TYPE__FILE_REGULAR] = S_IFREG,
		[KODA__FILE_TYPE__FILE_DIRECTORY] = S_IFDIR,
		[KODA__FILE_TYPE__FILE_SYMLINK] = S_IFLNK,
		[KODA__FILE_TYPE__FILE_OTHER] = S_IFIFO };
	const struct stamp stamp = { .dev = place->dev,
		.ino = place->ino,
		.mode = types[place->type],
		.size = place->size,
		.mtime_ns = place->mtime_ns,
		.ctime_ns = place->ctime_ns };
	cleanup_free char *path = strndup((const char *)place->path.data, place->path.len);
	const enum what what = what_of(place);
	struct known *k;

	if (path == NULL)
		return no_memory(err);
	k = remember(sc, what, path, &stamp, place->type != KODA__FILE_TYPE__FILE_SYMLINK);
	if (k == NULL)
		return no_memory(err);
	if (what == WHAT_TARGET && add_guard(sc, path, false) < 0)
		return no_memory(err);
	return 0;
}

static int
add_rules(struct scan *sc, struct koda_error *err)
{
	const struct policy_list *list = &sc->who->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];

	for (size_t i = 0; i < list->n; i++) {
		if (add_guard(sc, list->v[i], true) < 0)
			return no_memory(err);
	}
	return 0;
}

static void
find_all_targets(struct scan *sc)
{
	for (uint32_t i = 0, n = sc->n_known; i < n && sc->git; i++) {
		cleanup_free char *path =
		    sc->known[i].path != NULL ? strdup(sc->known[i].path) : NULL;

		if (path != NULL)
			look_for_targets(sc, sc->known[i].what, path);
	}
}

int
scan_learn(struct scan *sc, struct koda_error *err)
{
	if (add_rules(sc, err) < 0)
		return -1;
	start_watching(sc);
	sc->learning = true;
	if (walk_all(sc) < 0)
		return no_memory(err);
	find_all_targets(sc);
	sc->learning = false;
	sc->started = true;
	return 0;
}

void
scan_resume(struct scan *sc)
{
	struct koda_error dropped;

	if (add_rules(sc, &dropped) < 0)
		sc->partial = true;
	start_watching(sc);
	sc->resuming = true;
	find_all_targets(sc);
	sc->resuming = false;
	sc->full = true;
}

/* What was told, and is not told again: nobody but who is outside changes it from now on. */
static void
seal(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known && sc->unsealed > 0; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || k->sealed || k->left || k->tell || S_ISLNK(k->stamp.mode) ||
		    !is_told(k->what))
			continue;
		k->sealed = true;
		sc->unsealed--;
	}
}

static void
forget_steps(struct scan *sc)
{
	while (sc->n_steps > 0)
		free(sc->step[--sc->n_steps].name);
	while (sc->n_dirty > 0)
		sc->node[sc->dirty[--sc->n_dirty]].dirty = false;
}

int
scan_compare(struct scan *sc, bool mounted, struct koda_error *err)
{
	int r = 0;

	forget_changes(sc);
	sc->cut = false;
	if (!sc->watched && sc->full && sc->ifd < 0) {
		/* There may be watches again; there was a reason, so not each time a whole new set. */
		if (sc->by_wd == NULL && sc->wds == 0 && (sc->round & 15) == 15)
			start_watching(sc);
	}
	if (sc->unsealed > 0 && judge_unsealed(sc) < 0)
		return no_memory(err);
	if (mounted)
		seal(sc);
	for (unsigned i = 0; i < ROUNDS_MAX; i++) {
		bool walked = false;

		r = sc->watched ? take_events(sc) : 0;
		if (r < 0)
			return no_memory(err);
		sc->names = 0;
		/* Watches may give out in the middle of a walk: then what was not reached is looked at at once. */
		while (sc->full && (!walked || sc->watched)) {
			forget_steps(sc);
			sc->verify = walked = true;
			if (walk_all(sc) < 0)
				return no_memory(err);
		}
		while (sc->n_dirty > 0) {
			uint32_t idx = sc->dirty[--sc->n_dirty];

			sc->node[idx].dirty = false;
			if (look_again(sc, idx) < 0)
				return no_memory(err);
		}
		if (walk(sc) < 0)
			return no_memory(err);
		if (sc->full && !walked)
			continue;
		if (sc->verify)
			verify_known(sc);
		sc->started = true;
		if (!sc->watched || (r == 0 && !walked))
			break;
	}
	return 0;
}
