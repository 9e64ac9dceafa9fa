/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/strangers.h"
#include "stage2/view.h"

static DIR *
open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (dir == NULL)
		close_at(&fd);
	return dir;
}

static bool
is_replaced(const struct replacements *all, uint64_t dev, uint64_t ino, bool writes)
{
	for (size_t i = 0; i < all->n; i++)
		for (int k = 0; k < 2; k++)
			if (all->v[i].content && (writes || all->v[i].hidden) && ino != 0 &&
			    all->v[i].ino[k] == ino && all->v[i].dev[k] == dev)
				return true;
	return false;
}

/* Does that path lie in a replaced directory, on a mount that we did not put there or into it? */
static bool
is_around(const struct slot_view *v, const struct replacements *all, const char *path,
    uint64_t mount, bool writes)
{
	for (size_t i = 0; i < all->n; i++) {
		const char *dir = v->entry[all->v[i].entry].path;
		bool ours = false;

		if (!all->v[i].content || !(writes || all->v[i].hidden) || !all->v[i].directory ||
		    !path_is_inside(path, dir))
			continue;
		for (size_t k = 0; k < v->n && !ours; k++)
			ours = v->entry[k].there && (uint64_t)v->entry[k].mount_id == mount &&
			    path_is_inside(v->entry[k].path, dir);
		if (!ours)
			return true;
	}
	return false;
}

/*
 * Stores in *ret the file system that a link of proc refers to, and how it is mounted there.
 * Returns 0, or -1 with errno.
 */
static int
mount_of(int dir, const char *name, struct statvfs *ret)
{
	cleanup_close int fd = openat(dir, name, O_PATH | O_CLOEXEC);

	return fd < 0 ? -1 : fstatvfs(fd, ret);
}

/*
 * Do descriptors wait in this socket? It is not visible which ones they are, and any process that
 * holds the socket can receive them. (Linux 5.6; before that they are not visible at all.)
 */
static bool
carries_descriptors(int dir, const char *name)
{
	static const char field[] = "scm_fds:";
	char path[64], *line = NULL;
	bool some = false;
	size_t size = 0;
	FILE *info;
	int fd;

	snprintf(path, sizeof(path), "../fdinfo/%.16s", name);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	info = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (info == NULL) {
		close_at(&fd);
		return false;
	}
	/*
	 * Read to the end: locks come before that line, and a process may have made any number of
	 * them.
	 */
	while (!some && getline(&line, &size, info) > 0)
		some = strncmp(line, field, sizeof(field) - 1) == 0 &&
		    strtoul(line + sizeof(field) - 1, NULL, 10) > 0;
	free(line);
	fclose(info);
	return some;
}

/*
 * Is this descriptor (or working directory) a way around our mount to change what is protected now?
 * name is its link in proc; `says`: the link's mode shows how it was opened.
 */
static bool
is_way_around(const struct slot_view *v, const struct replacements *all, int dir, const char *name,
    bool says)
{
	char path[PATH_LEN_MAX + 1];
	bool writes = true; /* a directory lets what is in it be written */
	struct statvfs fs;
	struct statx st;
	struct stat link;
	ssize_t n;

	if (statx(dir, name, AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return false;
	/*
	 * It does not matter how it was opened: a file on a mount that is not read-only can be
	 * opened again for writing, through its link in proc.
	 */
	if (S_ISREG(st.stx_mode) && says && fstatat(dir, name, &link, AT_SYMLINK_NOFOLLOW) == 0)
		writes = (link.st_mode & S_IWUSR) != 0 || mount_of(dir, name, &fs) < 0 ||
		    (fs.f_flag & ST_RDONLY) == 0;
	else if (!S_ISDIR(st.stx_mode))
		return S_ISSOCK(st.stx_mode) && says && carries_descriptors(dir, name);
	if (S_ISREG(st.stx_mode) &&
	    is_replaced(all, makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino, writes))
		return true;
	n = readlinkat(dir, name, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return is_around(v, all, path, st.stx_mnt_id, writes);
}

static bool
holds_descriptor(const struct slot_view *v, const struct replacements *all, int proc,
    const char *fds)
{
	cleanup(closedir_at) DIR *dir = open_dir(proc, fds);
	const struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (d->d_name[0] != '.' && is_way_around(v, all, dirfd(dir), d->d_name, true))
			return true;
	return false;
}

/*
 * Is there a mapping that is shared, or of a hidden file? It is not visible whether the file was
 * open for writing, so it is assumed.
 */
static bool
holds_mapping(const struct replacements *all, int proc, const char *name)
{
	char *line = NULL;
	size_t size = 0;
	bool holds = false;
	FILE *maps;
	int fd;

	fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	maps = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (maps == NULL) {
		close_at(&fd);
		return false;
	}
	while (!holds && getline(&line, &size, maps) > 0) {
		unsigned long maj, min;
		uint64_t ino;
		char *at = strchr(line, ' ');

		/* from-to perms offset maj:min ino path */
		bool shared;

		if (at == NULL || strlen(at) < sizeof(" rwxs "))
			continue;
		shared = at[4] == 's';
		strtoull(at + 5, &at, 16);
		maj = strtoul(at, &at, 16);
		min = *at == ':' ? strtoul(at + 1, &at, 16) : 0;
		ino = strtoull(at, NULL, 10);
		for (size_t i = 0; i < all->n && !holds; i++)
			for (int k = 0; k < 2; k++)
				/*
				 * For an unnamed device (btrfs, overlayfs) the numbers here are
				 * different.
				 */
				if (all->v[i].content && (shared || all->v[i].hidden) && ino != 0 &&
				    all->v[i].ino[k] == ino &&
				    (all->v[i].dev[k] == makedev((unsigned)maj, (unsigned)min) ||
					maj == 0))
					holds = true;
	}
	free(line);
	fclose(maps);
	return holds;
}

static bool
is_dead(char state)
{
	return strchr("ZXx", state) != NULL;
}

static bool
holds_replaced(const struct slot_view *v, const struct replacements *all, int proc,
    const struct proc *p)
{
	cleanup(closedir_at) DIR *tasks = NULL;
	const struct dirent *d;
	char name[64], pid[16];

	snprintf(pid, sizeof(pid), "%d", p->pid);
	snprintf(name, sizeof(name), "%d/fd", p->pid);
	if (holds_descriptor(v, all, proc, name))
		return true;
	snprintf(name, sizeof(name), "%d/maps", p->pid);
	if (holds_mapping(all, proc, name))
		return true;
	snprintf(name, sizeof(name), "%d/cwd", p->pid);
	if (is_way_around(v, all, proc, name, false))
		return true;
	/* Threads may have descriptors and working directories of their own. */
	snprintf(name, sizeof(name), "%d/task", p->pid);
	tasks = open_dir(proc, name);
	while (tasks != NULL && (d = readdir(tasks)) != NULL) {
		long tid = strtol(d->d_name, NULL, 10);

		if (tid <= 0 || tid == p->pid)
			continue;
		/* A first thread that has ended shows no mappings. */
		snprintf(name, sizeof(name), "%s/task/%ld/maps", pid, tid);
		if (is_dead(p->state) && holds_mapping(all, proc, name))
			return true;
		if (syscall(SYS_kcmp, p->pid, tid, KCMP_FILES, 0, 0) != 0) {
			snprintf(name, sizeof(name), "%s/task/%ld/fd", pid, tid);
			if (holds_descriptor(v, all, proc, name))
				return true;
		}
		if (syscall(SYS_kcmp, p->pid, tid, KCMP_FS, 0, 0) != 0) {
			snprintf(name, sizeof(name), "%s/task/%ld/cwd", pid, tid);
			if (is_way_around(v, all, proc, name, false))
				return true;
		}
	}
	return false;
}

uint64_t
holders_end(const struct stage2 *s, const struct replacements *all, const struct procs *who)
{
	uint64_t ended = 0;

	for (size_t i = 0; i < who->n; i++) {
		const struct proc *p = &who->v[i];

		/* The state of the first thread does not apply to the others. */
		if (p->pid == 1 || (p->parent == 1 && strangers_is_ours(s, p->pid)) ||
		    (is_dead(p->state) && p->threads <= 1) ||
		    !holds_replaced(s->view, all, s->proc_fd, p))
			continue;
		if (kill(p->pid, SIGKILL) == 0)
			ended++;
	}
	return ended;
}
