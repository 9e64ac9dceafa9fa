/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed.h"
#include "worker/scan/scan_entries.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_results.h"

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
		return sc->phase == PHASE_LEARN;
	stamp_of(&st, &stamp);
	if (sc->phase == PHASE_LEARN) {
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
	if (sc->phase == PHASE_LEARN || !sc->git || !n->in_git || !is_in_refs(sc, idx))
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
		/* A process that cannot list the directory cannot search it, but a process that
		 * knows a name in it can use that name. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return -1;
		if (errno == EACCES && sc->phase != PHASE_LEARN && sc->watched && sc->started)
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
	return entries_read(sc, idx, fd, path, len, true);
}

int
walk_rest(struct scan *sc)
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

int
walk_all(struct scan *sc)
{
	sc->round++;
	sc->names = 0;
	sc->partial = false;
	for (size_t i = 0; i < sc->n_roots; i++) {
		if (take_step(sc, NONE, (uint8_t)i, "", true) < 0)
			return -1;
	}
	if (walk_rest(sc) < 0)
		return -1;
	/* A node that the walk did not meet is gone. Without watches, nodes are useless
	 * afterwards. */
	for (uint32_t i = 0; i < sc->n_nodes; i++) {
		struct node *n = &sc->node[i];

		if (n->name != NULL && (n->round != sc->round || !sc->watched))
			drop_node(sc, i);
	}
	sc->due.walk = !sc->watched;
	return 0;
}

int
walk_one(struct scan *sc, uint32_t idx)
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
	return entries_read(sc, idx, fd, path, len, false);
}
