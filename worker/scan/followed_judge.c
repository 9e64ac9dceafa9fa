/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/followed_judge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitindex.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/worktree.h"

/* git writes no longer path into a ref. */
#define REF_MAX (2 * PATH_LEN_MAX)
/* Enough for the MERGE_RR of a merge with a thousand conflicts, or the pathspecs of a bisect. */
#define LIST_MAX (1u << 20)
#define SHOWN    200

bool
followed_is(enum what what)
{
	return what == WHAT_INDEX || what == WHAT_REF || what == WHAT_LIST;
}

bool
followed_depends(const char *name)
{
	return strcasecmp(name, FOLLOWED_MERGE_RR) == 0;
}

/*
 * Reads the file that p names. Returns false, with the verdict in *ret_end, if the file is gone or
 * was replaced. Otherwise *ret is its text, owned by the caller, or NULL with errno if it is too
 * large or cannot be read.
 */
static bool
read_it(const struct plant *p, size_t max, char **ret, size_t *ret_len, enum plant_end *ret_end)
{
	struct stat st;

	*ret = plant_read(p->dir_fd, p->name, max, &st, ret_len);
	if (*ret == NULL && (errno == ENOENT || errno == EINVAL)) {
		*ret_end = PLANT_GONE;
		return false;
	}
	if (*ret != NULL && !plant_same_inode(&st, &p->st)) {
		*ret_end = PLANT_AGAIN;
		return false;
	}
	return true;
}

/* The first entry that git must not follow. */
struct bad_entry {
	bool bad;
	char path[SHOWN];
};

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	struct bad_entry *r = data;

	/* An entry without a path refers to an entry of the shared index, which is judged on its
	 * own. */
	if (r->bad || e->len == 0 || gitstate_is_path(e->path))
		return;
	r->bad = true;
	snprintf(r->path, sizeof(r->path), "%s", e->path);
}

static enum plant_end
judge_index(struct scan *sc, struct plant *p)
{
	struct bad_entry r = { 0 };
	char why[SHOWN + 128] = "it is not a valid index; `git reset` writes a new one";
	cleanup_free char *text = NULL;
	enum plant_end end;
	size_t len;
	bool whole;

	if (!read_it(p, GITINDEX_BYTES_MAX, &text, &len, &end))
		return end;
	whole = text != NULL && gitindex_parse((const uint8_t *)text, len, on_entry, &r, NULL) == 0;
	/* Some programs write an index in several steps, so an unreadable one stays for a moment
	 * while commands run. */
	p->unclear = !whole && scan_is_gentle(sc) && (text != NULL || errno != EFBIG);
	if (p->unclear || (whole && !r.bad))
		return PLANT_KEPT;
	if (r.bad)
		snprintf(why, sizeof(why),
		    "its entry '%s' lies outside the worktree or in a git directory; `git reset` writes a new index",
		    r.path);
	return plant_take_away(sc, p, why);
}

static enum plant_end
judge_ref(struct scan *sc, struct plant *p)
{
	static const char head[] = "ref:";
	cleanup_close int fd =
	    openat(p->dir_fd, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char begin[sizeof(head) - 1];
	cleanup_free char *text = NULL;
	enum plant_end end;
	size_t len;

	if (fd < 0 && errno == ENOENT)
		return PLANT_GONE;
	/* Nearly every ref is the name of an object. */
	if (fd >= 0 &&
	    (pread(fd, begin, sizeof(begin), 0) != sizeof(begin) ||
		memcmp(begin, head, sizeof(begin)) != 0))
		return PLANT_KEPT;
	if (!read_it(p, REF_MAX, &text, &len, &end))
		return end;
	if (text != NULL && gitstate_is_ref(text, len))
		return PLANT_KEPT;
	return plant_take_away(sc, p,
	    "it is a symbolic ref that leads out of refs, and git would write to that file");
}

/* Returns true if a component of this path of the worktree is a symbolic link: git would write
 * through it. */
static bool
has_link(int worktree, const char *path)
{
	cleanup_close int fd = -1;

	for (;;) {
		char name[NAME_LEN_MAX + 1];
		const size_t n = strcspn(path, "/");
		const int at = fd >= 0 ? fd : worktree;
		struct stat st;
		int next;

		if (n > NAME_LEN_MAX)
			return true;
		memcpy(name, path, n);
		name[n] = '\0';
		if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno != ENOENT;
		if (!S_ISDIR(st.st_mode) || path[n] == '\0')
			return !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode);
		next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return errno != ENOENT;
		close_at(&fd);
		fd = next;
		path += n + 1;
	}
}

/* Returns true if a path in a well-formed MERGE_RR goes through a symbolic link, or if the worktree
 * is unknown. */
static bool
leads_through_link(struct scan *sc, const struct plant *p, const char *text, size_t len)
{
	char dir[PATH_LEN_MAX + 1];
	cleanup_free char *worktree = NULL;
	cleanup_close int fd = -1;

	if (len == 0)
		return false;
	plant_dir_of(p->path, dir);
	worktree = worktree_of(sc, p->dir_fd, dir);
	fd = worktree == NULL
	    ? -1
	    : resolve_canonical_dir(scan_resolver(sc), worktree, strlen(worktree));
	for (const char *at = text; fd >= 0 && at < text + len; at += strlen(at) + 1) {
		if (has_link(fd, strchr(at, '\t') + 1))
			return true;
	}
	return fd < 0;
}

/* Returns true if the `.git` file at that path, where commands cannot write, already leads to the git
 * directory: then the host has made this worktree, and `git worktree repair` leaves it as it is. All
 * of the host that commands cannot write is mounted read-only here; their private places are not. */
static bool
leads_back(struct scan *sc, const char *path, const char *git_dir)
{
	const char *name = strrchr(path, '/');
	cleanup_free char *worktree = NULL, *back = NULL;
	cleanup_close int fd = -1;
	struct statvfs fs;

	if (path[0] != '/' || name == path || strcmp(name, "/.git") != 0)
		return false;
	worktree = strndup(path, (size_t)(name - path));
	fd = worktree == NULL
	    ? -1
	    : resolve_canonical_dir(scan_resolver(sc), worktree, strlen(worktree));
	if (fd < 0 || fstatvfs(fd, &fs) < 0 || (fs.f_flag & ST_RDONLY) == 0)
		return false;
	back = worktree_git_dir(sc, fd, worktree);
	return back != NULL && strcmp(back, git_dir) == 0;
}

/* Returns true if this `gitdir` file names a place where `git worktree repair` may write a file: one
 * where commands may write, or one that it would not change. */
static bool
is_good_worktree(struct scan *sc, const struct plant *p, char *text)
{
	char dir[PATH_LEN_MAX + 1], repository[PATH_LEN_MAX + 1];
	cleanup(place_done) struct place at;

	place_init(&at);
	plant_dir_of(p->path, dir);
	text[strcspn(text, "\r\n")] = '\0';
	return !gitdir_of_worktree(dir, repository) || text[0] == '\0' ||
	    plant_leads_below(sc, dir, text, &at) || leads_back(sc, text, dir);
}

static enum plant_end
judge_list(struct scan *sc, struct plant *p)
{
	cleanup_free char *text = NULL;
	enum plant_end end;
	bool good = false;
	size_t len;

	if (!read_it(p, LIST_MAX, &text, &len, &end))
		return end;
	if (text != NULL && strcasecmp(p->name, FOLLOWED_GITDIR) == 0)
		good = is_good_worktree(sc, p, text);
	else if (text != NULL)
		good = gitstate_list_of(p->name)(text, len) &&
		    (strcasecmp(p->name, FOLLOWED_MERGE_RR) != 0 ||
			!leads_through_link(sc, p, text, len));
	if (good)
		return PLANT_KEPT;
	return plant_take_away(sc, p,
	    "git would read or write files outside the worktree, or run a part of the text");
}

enum plant_end
followed_judge(struct scan *sc, struct plant *p)
{
	if (!S_ISREG(p->st.st_mode))
		return PLANT_GONE;
	return p->what == WHAT_INDEX ? judge_index(sc, p)
	    : p->what == WHAT_REF    ? judge_ref(sc, p)
				     : judge_list(sc, p);
}
