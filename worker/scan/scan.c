#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/hides.h"
#include "worker/scan/led.h"
#include "worker/scan/linked.h"
#include "worker/scan/live.h"
#include "worker/scan/scan_state.h"

/* A command in the background may keep causing events while they are processed. */
#define ROUNDS_MAX 4
/* ---- reading a directory ---- */

static int
add_step(struct scan *sc, uint32_t parent, const char *name, bool again)
{
	char *copy;

	if (scan_grow(&sc->step, sc->n_steps, &sc->steps_size, sizeof(*sc->step)) < 0)
		return -1;
	copy = strdup(name);
	if (copy == NULL)
		return -1;
	sc->step[sc->n_steps++] = (struct step){ parent, again, copy };
	return 0;
}

/* An entry that may matter once the kind of its directory is known. */
struct candidate {
	struct candidate *next;
	enum access_name means;
	const struct guard *guard;
	struct names_found named;
	bool last, directory;
	bool strange; /* neither a directory nor a regular file */
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

/* DT_REG if the entry is gone. */
static unsigned char
type_of(int dir_fd, const struct dirent64 *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	return fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? IFTODT(st.st_mode)
									 : DT_REG;
}

/* Returns the kind that the name alone gives an entry in this directory, or -1 if none. */
static int
what_by_name(const struct scan *sc, const struct candidate *c, bool git, bool koda, bool info)
{
	/* Every policy has rules for the project's own .git/config and .git/hooks. They are judged
	 * by their content, so that a `git init` leaves a working repository. */
	const bool gits = sc->git && git && c->last &&
	    (c->means == ACCESS_NAME_CONFIG || c->means == ACCESS_NAME_HOOKS);

	if (c->guard != NULL && !gits && (c->last || !c->directory))
		return (int)c->guard->what;
	if (c->named.rule != NULL && c->named.at < sc->n_denied)
		return WHAT_NAME;
	if (c->named.rule != NULL && !c->directory)
		return WHAT_TOLD;
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
	if (c->means == ACCESS_NAME_REMOTES)
		return WHAT_REMOTES;
	if (c->means == ACCESS_NAME_COMMONDIR)
		return WHAT_COMMONDIR;
	if (c->means == ACCESS_NAME_REBASE)
		return WHAT_REBASE;
	return -1;
}

/* Returns true below the refs of a git directory that contains this one. A command can give a
 * directory there the shape of a git directory. */
static bool
is_in_refs(const struct scan *sc, uint32_t idx)
{
	for (uint32_t up; (up = sc->node[idx].parent) != NONE; idx = up) {
		if (sc->node[up].git && access_name_of(sc->node[idx].name) == ACCESS_NAME_REFS)
			return true;
	}
	return false;
}

/* Returns the kind of an entry in this directory, or -1 if none. */
static int
what_in(const struct scan *sc, const struct candidate *c, uint32_t idx, int dir_fd, bool koda,
    bool info)
{
	const struct node *n = &sc->node[idx];
	const int what = what_by_name(sc, c, n->git, koda, info);

	/* A place of deny_write_names may come with a new directory. A link in a git directory may
	 * not, whatever its name. */
	if ((what >= 0 && what != WHAT_NAME && what != WHAT_TOLD) || !c->strange || !sc->git ||
	    (!n->git && !n->in_git))
		return what;
	/* git itself writes a ref as a link there, if it is configured to. */
	if ((n->git ? c->means == ACCESS_NAME_HEAD : is_in_refs(sc, idx)) &&
	    gitdir_is_ref_link(dir_fd, c->name))
		return -1;
	return WHAT_STRANGE;
}

/* Turns one entry into a step, a candidate, or nothing. */
static int
take_entry(struct scan *sc, int fd, const struct dirent64 *e, const char *path, size_t len,
    uint32_t idx, bool descend, struct candidate **ret)
{
	const enum access_name means = access_name_of(e->d_name);
	const unsigned char type = type_of(fd, e);
	const bool directory = type == DT_DIR;
	/* This matters only in a git directory, which may show only by its shape, when all names
	 * are known. */
	const bool strange = sc->git && !directory && type != DT_REG;
	const struct names_found named = named_in(sc, fd, e, path, len, idx);
	const struct guard *guard = NULL;
	struct candidate *c;
	bool last = false;
	size_t k;

	if (sc->node[idx].guards)
		guard = guard_at(sc, path, len, e->d_name, &last);
	if (means == ACCESS_NAME_OTHER && guard == NULL && named.rule == NULL && !strange)
		return directory && descend ? add_step(sc, idx, e->d_name, true) : 0;
	k = strlen(e->d_name) + 1;
	c = malloc(sizeof(*c) + k);
	if (c == NULL)
		return -1;
	*c = (struct candidate){ *ret, means, guard, named, last, directory, strange };
	memcpy(c->name, e->d_name, k);
	*ret = c;
	return 0;
}

/* Uses getdents64: a DIR would cost two more system calls and an allocation for each of
 * thousands. */
static int
read_directory(struct scan *sc, int fd, const char *path, size_t len, uint32_t idx, bool descend,
    struct candidate **ret)
{
	static _Alignas(struct dirent64) char buf[32 << 10];

	has_guards(sc, idx, path);
	for (;;) {
		ssize_t n = getdents64(fd, buf, sizeof(buf));

		/* What was read is used. A directory that was removed meanwhile is empty. */
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

/* Returns true for the objects/info of a git directory. */
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
	bool head = false, objects = false, refs = false, commondir = false, worktrees = false;
	const bool koda = access_name_of(own) == ACCESS_NAME_KODA;
	const bool named = access_name_of(own) == ACCESS_NAME_GIT;
	const bool refs_dir = sc->git && sc->node[idx].in_git && is_in_refs(sc, idx);
	bool shape, git, content = false;

	for (const struct candidate *c = list; c != NULL; c = c->next) {
		head |= c->means == ACCESS_NAME_HEAD;
		objects |= c->means == ACCESS_NAME_OBJECTS;
		refs |= c->means == ACCESS_NAME_REFS;
		commondir |= c->means == ACCESS_NAME_COMMONDIR;
		worktrees |= c->means == ACCESS_NAME_WORKTREES;
	}
	shape = access_is_git_dir(head, objects, refs, commondir, worktrees);
	git = sc->git && (named || shape);
	/* The directory has just become a git directory: its older entries must be judged again as
	 * part of one. */
	if (git && !sc->node[idx].git && !descend && sc->node[idx].parent == NONE)
		sc->full = true;
	else if (git && !sc->node[idx].git && !descend &&
	    add_step(sc, sc->node[idx].parent, own, true) < 0)
		return -1;
	sc->node[idx].git = git;
	/* A git directory that is not named .git (bare, or a submodule's). A root itself stays what
	 * it is. */
	if (git && !named && sc->node[idx].parent != NONE)
		found(sc, WHAT_PIN, dir_fd, path, ".");
	for (const struct candidate *c = list; c != NULL; c = c->next) {
		int what = what_in(sc, c, idx, dir_fd, koda, is_git_info(sc, idx));
		enum seen seen = SEEN_OPEN;
		size_t k = strlen(c->name);

		if (what >= 0 && len + 1 + k <= PATH_LEN_MAX) {
			path[len] = '/';
			memcpy(path + len + 1, c->name, k + 1);
			seen = found_in(sc, (enum what)what, dir_fd, path, c->name,
			    what == WHAT_NAME || what == WHAT_TOLD
				? made_with(sc, idx, c->named.parts - 1)
				: NONE);
			path[len] = '\0';
			content = true;
		} else if (what >= 0) {
			sc->partial = true;
		}
		if (c->directory && seen == SEEN_OPEN && descend &&
		    add_step(sc, idx, c->name, true) < 0)
			return -1;
	}
	if (git && sc->learning)
		followed_learn(sc, dir_fd, path);
	else if (git)
		followed_look(sc, dir_fd, path, len, false);
	if (refs_dir && !sc->learning)
		followed_look(sc, dir_fd, path, len, true);
	/* Files in info/ and refs/ may be written in place. */
	content |= refs_dir || (sc->node[idx].in_git && strcmp(own, "info") == 0);
	if ((git || content || sc->node[idx].inside) && !sc->node[idx].content &&
	    sc->node[idx].wd >= 0) {
		sc->node[idx].content = true;
		watch_directory(sc, dir_fd, true);
	}
	return 0;
}

static int
look(struct scan *sc, uint32_t idx, int fd, char *path, size_t len, bool descend)
{
	cleanup(candidates_done) struct candidate *list = NULL;
	struct node *n = &sc->node[idx];
	const uint32_t up = n->parent;
	const struct known *k = up != NONE ? known_at(sc, path) : NULL;

	n->inside = (up != NONE && sc->node[up].inside) ||
	    (k != NULL && k->what == WHAT_NAME && (!k->sealed || k->guarded));

	n->in_git = n->parent != NONE && (sc->node[n->parent].git || sc->node[n->parent].in_git);
	if (read_directory(sc, fd, path, len, idx, descend, &list) < 0)
		return -1;
	return use_candidates(sc, idx, fd, path, len, descend, list);
}

/* ---- walking ---- */

/* The kernel's own file systems belong to no project. */
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

/* Returns the node for the directory behind fd, which is `name` in parent: the one that is already
 * watched, under whatever name, or a new one. */
static uint32_t
node_for(struct scan *sc, uint32_t parent, uint8_t root, const char *name, int fd,
    const struct stat *st, bool *ret_new)
{
	const int wd = watch_directory(sc, fd, false);
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
		n->vendored =
		    names_is_vendor(name) || (parent != NONE && sc->node[parent].vendored);
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
	/* Adding the watch again has reset it to the smaller set of events. */
	if (n->content && wd >= 0)
		watch_directory(sc, fd, true);
	n->wd = wd;
	n->dev = st->st_dev;
	n->ino = st->st_ino;
	n->round = sc->round;
	return idx;
}

/* Returns true if the directory could not be listed before any command ran, and is unchanged: the
 * user keeps it so. */
static bool
is_users_own(struct scan *sc, uint32_t parent, char *path, const char *name)
{
	char *slash = strrchr(path, '/');
	cleanup_close int up = -1;
	struct known *k;
	struct stamp stamp;
	struct stat st;

	*slash = '\0';
	up = open_below(sc, sc->node[parent].root, path);
	*slash = '/';
	if (up < 0 || fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return sc->learning;
	stamp_of(&st, &stamp);
	if (sc->learning) {
		k = remember(sc, WHAT_PIN, path, &stamp, true);
		tell_place(sc, k);
		return true;
	}
	k = known_at(sc, path);
	return k != NULL && same_stamp(WHAT_PIN, &k->stamp, &stamp) &&
	    k->stamp.ctime_ns == stamp.ctime_ns;
}

/* No walk reaches what is in that directory. git reads refs at any depth, so it must not exist
 * below refs. */
static void
too_far(struct scan *sc, uint32_t idx)
{
	const struct node *n = &sc->node[idx];
	char path[PATH_LEN_MAX + 1];
	cleanup_close int fd = -1;
	size_t len;

	sc->partial = true;
	if (sc->learning || !sc->git || !n->in_git || !is_in_refs(sc, idx))
		return;
	len = node_path(sc, n->parent, NULL, path);
	fd = len > 0 ? open_listed(sc, n->root, path) : -1;
	if (fd >= 0 && node_path(sc, idx, NULL, path) > 0)
		followed_take_far(sc, fd, path, n->name);
}

/* Takes one step of a walk. parent NONE: the root itself. */
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
			too_far(sc, parent);
			return 0;
		}
		root = sc->node[parent].root;
	}
	fd = open_below(sc, root, path);
	if (fd < 0 && errno == EACCES) {
		if (parent != NONE && is_users_own(sc, parent, path, name))
			return 0;
		fd = open_listed(sc, root, path);
	}
	if (fd < 0) {
		/* A process that cannot list the directory cannot search it, but one that knows a
		 * name there can use it. */
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
	/* The quarantine: its content is kept on purpose, and the view keeps commands out of it. */
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
	/* A node that the walk did not meet is gone. Without watches, nodes are useless
	 * afterwards. */
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
	sc->node[idx].fresh = true;
	if (sc->node[idx].dirty)
		return 0;
	if (scan_grow(&sc->dirty, sc->n_dirty, &sc->dirty_size, sizeof(*sc->dirty)) < 0)
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
		sc->full = sc->unsure = true;
		return 0;
	}
	if (ev->wd < 0 || (size_t)ev->wd >= sc->wds || sc->by_wd[ev->wd] == 0)
		return 0;
	idx = sc->by_wd[ev->wd] - 1;
	if ((ev->mask & (IN_IGNORED | IN_UNMOUNT)) != 0) {
		sc->by_wd[ev->wd] = 0;
		sc->node[idx].wd = -1;
		drop_node(sc, idx);
		/* If a root is replaced at its path, the new directory is a different one; this one
		 * is empty now. */
		return 0;
	}
	if (ev->len == 0)
		return 0;
	/* What was here for a moment may have been anything: a link, or a file where there is a
	 * directory now. */
	if ((ev->mask & IN_CREATE) != 0)
		note_made(sc, idx, ev->name);
	if (dir && (ev->mask & IN_MOVED_TO) != 0)
		note_moved_to(sc, idx, ev->name);
	if ((ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		note_gone(sc, idx, ev->name);
	if (dir && (ev->mask & (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)) != 0 &&
	    add_step(sc, idx, ev->name, (ev->mask & (IN_CREATE | IN_MOVED_TO)) != 0) < 0)
		return -1;
	if (dir && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->verify = true;
	means = access_name_of(ev->name);
	sc->git_touched |= sc->node[idx].git || sc->node[idx].in_git;
	if (sc->node[idx].content && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->verify = true;
	up = sc->node[idx].parent;
	if (sc->node[idx].inside) {
		uint32_t place = idx;

		while (place != NONE && sc->node[place].inside)
			place = sc->node[place].parent;
		if (place != NONE && mark_dirty(sc, place) < 0)
			return -1;
	}
	if (means != ACCESS_NAME_OTHER || names_index_may(sc->by_name, ev->name)) {
		if (mark_dirty(sc, idx) < 0)
			return -1;
		return 0;
	}
	/* Each entry of a git directory must be a file or a directory, and no file may lead git out
	 * of it. */
	if ((sc->node[idx].git || sc->node[idx].in_git) && !dir &&
	    (ev->mask & (IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY)) != 0 &&
	    mark_dirty(sc, idx) < 0)
		return -1;
	/* The todo list of a rebase is one level below the directory that is judged for it. */
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

/* Processes all pending events. Returns 1 if there were any, 0, or -1 without memory. */
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
			/* Removed nodes must be dropped in any case. */
			if (sc->full && (ev->mask & IN_IGNORED) != 0 && take_event(sc, ev) < 0)
				return -1;
			p += sizeof(*ev) + ev->len;
		}
	}
}

/* Reads one directory in which something happened, but not those below it. */
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
	fd = open_listed(sc, sc->node[idx].root, path);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -1 : 0;
	if (fstat(fd, &st) < 0 || st.st_dev != sc->node[idx].dev || st.st_ino != sc->node[idx].ino)
		return 0; /* it was moved: its new place has its own event */
	return look(sc, idx, fd, path, len, false);
}

/* ---- the interface ---- */

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
}

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
	sc->led_left = LED_TARGETS_MAX;
	sc->full = true;
	sc->git = !who->policy->flag[KODA_ALLOW_GIT_CONFIG];
	sc->live = live_new();
	sc->hides = hides_new();
	if (sc->live == NULL || sc->hides == NULL || !scan_names_begin(sc)) {
		live_free(sc->live);
		hides_free(sc->hides);
		free(sc);
		return NULL;
	}
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
	live_free(sc->live);
	hides_free(sc->hides);
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
	for (size_t i = 0; i < sc->n_caches; i++)
		free(sc->cache[i]);
	for (size_t i = 0; i < sc->n_inner; i++)
		free(sc->inner[i]);
	for (size_t i = 0; i < sc->n_cached; i++)
		free(sc->cached[i]);
	for (uint32_t i = 0; i < sc->n_known; i++)
		free(sc->known[i].path);
	scan_names_done(sc);
	free(sc->q.command);
	free(sc->node);
	free(sc->by_wd);
	free(sc->dirty);
	free(sc->step);
	free(sc->guard);
	free(sc->cached);
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
	/* No policy means "/" as a project. */
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
	sc->root[sc->n_roots++].fd = take_fd(&fd);
	return 0;
}

int
scan_add_cache(struct scan *sc, const char *path, struct koda_error *err)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (strcmp(path, sc->root[i].path) == 0)
			return 0;
	}
	if (scan_covers(sc, path)) {
		if (sc->n_inner == SCAN_ROOTS_MAX)
			return err_set(err, KODA_TOO_LARGE, 0, "too many caches to scan");
		sc->inner[sc->n_inner] = strdup(path);
		return sc->inner[sc->n_inner++] == NULL ? no_memory(err) : 0;
	}
	for (size_t i = 0; i < sc->n_caches; i++) {
		if (strcmp(path, sc->cache[i]) == 0)
			return 0;
	}
	if (sc->n_caches == SCAN_ROOTS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "too many directories to scan");
	sc->cache[sc->n_caches] = strdup(path);
	return sc->cache[sc->n_caches++] == NULL ? no_memory(err) : 0;
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
	if (place->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY)
		return WHAT_STRANGE;
	if (place->kind == KODA__PLACE_KIND__PLACE_NAME ||
	    place->kind == KODA__PLACE_KIND__PLACE_GUARDED)
		return WHAT_NAME;
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
	case ACCESS_NAME_REMOTES:
		return WHAT_REMOTES;
	case ACCESS_NAME_ALTERNATES:
		return WHAT_ALTERNATES;
	case ACCESS_NAME_KODA:
	case ACCESS_NAME_STEERING:
		return WHAT_KODA;
	case ACCESS_NAME_OTHER:
	case ACCESS_NAME_HEAD:
	case ACCESS_NAME_OBJECTS:
	case ACCESS_NAME_REFS:
	case ACCESS_NAME_WORKTREES:
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
	const bool guarded = place->kind == KODA__PLACE_KIND__PLACE_GUARDED;
	enum what what = what_of(place);
	struct known *k;

	if (path == NULL)
		return no_memory(err);
	if (what == WHAT_NAME &&
	    names_rule_at(&sc->who->policy->list[KODA_DENY_WRITE_NAMES], path) == NULL)
		what = WHAT_LED;
	k = remember(sc, what, path, &stamp,
	    guarded || what == WHAT_STRANGE || place->type != KODA__FILE_TYPE__FILE_SYMLINK);
	if (k == NULL)
		return no_memory(err);
	k->guarded = guarded;
	if (what == WHAT_NAME || what == WHAT_LED)
		take_mounts(sc, path);
	if ((what == WHAT_TARGET || what == WHAT_LED) && add_guard(sc, path, what) < 0)
		return no_memory(err);
	return 0;
}

static int
add_rules(struct scan *sc, struct koda_error *err)
{
	const struct policy_list *list = &sc->who->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];

	for (size_t i = 0; i < list->n; i++) {
		if (add_guard(sc, list->v[i], WHAT_RULE) < 0)
			return no_memory(err);
	}
	return 0;
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

/* Adds repositories that are the user's, or are mounted now; untold: also those that were not
 * reported yet. */
static void
add_live(struct scan *sc, bool untold)
{
	for (uint32_t i = 0; sc->git && i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || k->what != WHAT_PIN || k->live || (k->tell && !untold) ||
		    access_name_of(strrchr(k->path, '/') + 1) == ACCESS_NAME_KODA)
			continue;
		k->live = true;
		live_add(sc, sc->live, k->path);
		if (untold)
			hides_learn(sc, sc->hides, k->path);
	}
}

/* Compares what repositories, old and new, hide from the user. */
static void
compare_hidden(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known; i++) {
		const struct known *k = &sc->known[i];

		if (k->path != NULL && k->what == WHAT_PIN &&
		    access_name_of(strrchr(k->path, '/') + 1) != ACCESS_NAME_KODA)
			hides_compare(sc, sc->hides, k->path);
	}
	sc->git_touched = false;
}

/* Everything known at this point existed before any command ran. */
static void
start_live(struct scan *sc)
{
	add_live(sc, true);
	for (size_t i = 0; sc->git && i < sc->n_roots; i++)
		live_add_above(sc, sc->live, sc->root[i].path);
}

int
scan_learn(struct scan *sc, struct koda_error *err)
{
	if (add_rules(sc, err) < 0)
		return -1;
	if (scan_names_ready(sc) < 0)
		return no_memory(err);
	start_watching(sc);
	sc->learning = true;
	if (walk_all(sc) < 0 || judge_cached(sc) < 0)
		return no_memory(err);
	find_all_targets(sc);
	linked_find_all(sc);
	start_live(sc);
	sc->vast = sc->partial;
	sc->learning = false;
	sc->started = true;
	return 0;
}

int
scan_resume(struct scan *sc, struct koda_error *err)
{
	struct koda_error dropped;

	if (scan_names_ready(sc) < 0)
		return no_memory(err);
	if (add_rules(sc, &dropped) < 0)
		sc->partial = true;
	start_watching(sc);
	sc->resuming = true;
	find_all_targets(sc);
	start_live(sc);
	sc->resuming = false;
	sc->full = true;
	return 0;
}

void
scan_try_again(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known; i++)
		if (sc->known[i].path != NULL)
			sc->known[i].left = false;
}

/* Seals the places that were reported and are not about to be reported again: only a process
 * outside the sandbox can change them from now on. */
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

/* A file can be written through a second name elsewhere in its git directory, without an event in
 * its own. */
static int
mark_refs(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_nodes; i++) {
		const struct node *n = &sc->node[i];

		if (n->name != NULL && (n->git || (n->in_git && is_in_refs(sc, i))) &&
		    mark_dirty(sc, i) < 0)
			return -1;
	}
	return 0;
}

int
scan_compare(struct scan *sc, bool mounted, bool busy, struct koda_error *err)
{
	int r = 0;

	forget_changes(sc);
	sc->cut = false;
	sc->n_told = 0;
	if (!sc->watched && sc->full && sc->ifd < 0) {
		/* Watches may be available again. There was a reason that they were not, so a whole
		 * new set is not tried each time. */
		if (sc->by_wd == NULL && sc->wds == 0 && (sc->round & 15) == 15)
			start_watching(sc);
	}
	make_roots_listable(sc);
	/* A directory that no walk reached has no watch and causes no events. If the first walk was
	 * already incomplete, it is unknown what was there before. */
	if (sc->partial && !sc->vast)
		sc->full = true;
	if (sc->unsealed > 0 && judge_unsealed(sc) < 0)
		return no_memory(err);
	if (mounted) {
		seal(sc);
		add_live(sc, false);
	}
	if (judge_cached(sc) < 0)
		return no_memory(err);
	for (unsigned i = 0; i < ROUNDS_MAX; i++) {
		bool walked = false;

		r = sc->watched ? take_events(sc) : 0;
		if (r < 0 || (i == 0 && sc->git && sc->git_touched && mark_refs(sc) < 0))
			return no_memory(err);
		sc->names = 0;
		/* Watches may run out in the middle of a walk: then what was not reached is scanned
		 * at once. */
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
	if (!sc->gentle && linked_look_again(sc) < 0)
		return no_memory(err);
	if (sc->git && !sc->gentle && (sc->git_touched || !sc->watched))
		compare_hidden(sc);
	tell_came(sc);
	if (!busy)
		end_era(sc);
	return 0;
}

int
scan_compare_gently(struct scan *sc, bool busy, struct koda_error *err)
{
	int r;

	sc->gentle = true;
	r = scan_compare(sc, false, busy, err);
	sc->gentle = false;
	return r;
}

/* In directories with events, judges only the files that git follows. Everything else waits for the
 * next comparison. */
static int
look_at_followed(struct scan *sc)
{
	if (sc->watched && take_events(sc) < 0)
		return -1;
	for (size_t i = 0; i < sc->n_dirty; i++) {
		const uint32_t idx = sc->dirty[i];
		struct node *n = &sc->node[idx];
		char path[PATH_LEN_MAX + 1];
		cleanup_close int fd = -1;
		bool refs;
		size_t len;

		if (n->name == NULL || !n->fresh)
			continue;
		refs = n->in_git && is_in_refs(sc, idx);
		/* A user's shell may be in a directory that existed before: git there obeys the
		 * repository that it becomes. */
		if (!n->git && !refs && n->born == sc->era)
			continue;
		n->fresh = false;
		len = node_path(sc, idx, NULL, path);
		fd = len > 0 ? open_listed(sc, n->root, path) : -1;
		if (fd >= 0 && n->git)
			followed_look(sc, fd, path, len, false);
		if (fd >= 0 && refs)
			followed_look(sc, fd, path, len, true);
		if (fd >= 0 && n->born != sc->era)
			live_came(sc, sc->live, path, fd);
	}
	return 0;
}

/* Returns true if there are directories below the refs of a git directory that no walk has
 * visited. */
static bool
has_new_refs(const struct scan *sc)
{
	for (size_t i = 0; i < sc->n_steps; i++) {
		const uint32_t up = sc->step[i].parent;

		if (up == NONE || sc->node[up].name == NULL)
			continue;
		if (sc->node[up].git && access_name_of(sc->step[i].name) == ACCESS_NAME_REFS)
			return true;
		if (sc->node[up].in_git && is_in_refs(sc, up))
			return true;
	}
	return false;
}

int
scan_look(struct scan *sc, bool busy, struct koda_error *err)
{
	int r;

	forget_changes(sc);
	sc->cut = false;
	if (!sc->git)
		return 0;
	sc->gentle = true;
	r = look_at_followed(sc);
	sc->gentle = false;
	if (r < 0)
		return no_memory(err);
	if (live_look(sc, sc->live) == 0 && !has_new_refs(sc))
		return 0;
	return scan_compare_gently(sc, busy, err);
}
