/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_git.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/draft_shape.h"
#include "worker/scan/followed.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/gitindex.h"
#include "worker/scan/gitpacks.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/plant.h"

/* As long as a file may be that a scan reads: worker/scan/followed_judge.c. */
#define REF_MAX  (2 * PATH_LEN_MAX)
#define LIST_MAX (1u << 20)

/* Is the level a git directory, by its name or with what the draft makes in it? */
static bool
is_git_dir(struct draft_walk *w, struct draft_level *l)
{
	const char *slash;
	char name[NAME_LEN_MAX + 1];

	w->path[l->len] = '\0';
	slash = strrchr(w->path, '/');
	snprintf(name, sizeof(name), "%s", slash == NULL ? "" : slash + 1);
	w->path[l->len] = '/';
	return access_name_of(name) == ACCESS_NAME_GIT || draft_shape_is_git_dir(w, l);
}

bool
draft_git_is_below_refs(struct draft_walk *w, const char *name)
{
	struct draft_level *l = draft_walk_top(w);

	return l->below_refs || (access_name_of(name) == ACCESS_NAME_REFS && is_git_dir(w, l));
}

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	bool *bad = data;

	*bad |= e->len > 0 && !gitstate_is_path(e->path);
}

static const char *
judge_index(int dir, const char *name)
{
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir, name, GITINDEX_BYTES_MAX, &st, &len);
	bool bad = false;

	if (text == NULL || gitindex_parse((const uint8_t *)text, len, on_entry, &bad, NULL) < 0)
		return "it is not a valid index";
	return bad ? "it has an entry that lies outside the worktree or in a git directory" : NULL;
}

/* Nearly every ref is the name of an object. */
static bool
begins_as_link(int dir, const char *name)
{
	static const char head[] = "ref:";
	cleanup_close int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char begin[sizeof(head) - 1];

	return fd < 0 ||
	    (pread(fd, begin, sizeof(begin), 0) == sizeof(begin) &&
		memcmp(begin, head, sizeof(begin)) == 0);
}

static const char *
judge_ref(int dir, const char *name)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;

	if (!begins_as_link(dir, name))
		return NULL;
	text = plant_read(dir, name, REF_MAX, &st, &len);
	if (text != NULL && gitstate_is_ref(text, len))
		return NULL;
	return "it is a symbolic ref that leads out of refs, and git would write to that file";
}

/* ---- lists of packs ---- */

static ssize_t
read_at(int fd, void *buf, size_t size, uint64_t at)
{
	size_t got = 0;

	while (got < size) {
		const ssize_t n = pread(fd, (uint8_t *)buf + got, size - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

/* The list can be large, so only what it names is read. */
static const char *
judge_packs(int dir, const char *name)
{
	static const char invalid[] = "it is not a valid list of packs";
	cleanup_close int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	uint8_t head[GITPACKS_HEAD_MAX];
	cleanup_free char *names = NULL;
	uint64_t at = 0, len = 0;
	uint32_t n = 0;
	ssize_t got = fd < 0 ? -1 : read_at(fd, head, sizeof(head), 0);

	if (got < 0 || gitpacks_find(head, (size_t)got, &at, &len, &n) < 0)
		return invalid;
	if (len > GITPACKS_NAMES_MAX || at > INT64_MAX - len)
		return "it names too many packs to be checked";
	names = malloc((size_t)len + 1);
	if (names == NULL || read_at(fd, names, (size_t)len, at) != (ssize_t)len)
		return invalid;
	return gitpacks_are_plain(names, (size_t)len, n)
	    ? NULL
	    : "it names packs in another directory, which git would read and remove";
}

static bool
is_list_of_packs(struct draft_walk *w)
{
	static const char list[] = "objects/pack/multi-pack-index", more[] = ".d/";
	const char *below = draft_git_below(w, NULL);

	if (below == NULL || strncasecmp(below, list, sizeof(list) - 1) != 0)
		return false;
	below += sizeof(list) - 1;
	if (strncasecmp(below, more, sizeof(more) - 1) != 0)
		return below[0] == '\0';
	/* The chain holds hashes only. */
	return strcasecmp(below + sizeof(more) - 1, "multi-pack-index-chain") != 0;
}

/* ---- where a name is ---- */

/* Returns what draft_level has as `git`. */
static size_t
find_git(struct draft_walk *w)
{
	for (size_t i = 0; i < w->n_levels; i++) {
		struct draft_level *l = &w->level[i];

		if (l->git_known)
			continue;
		l->git = is_git_dir(w, l) ? i + 1 : i > 0 ? w->level[i - 1].git : 0;
		l->git_known = true;
	}
	return draft_walk_top(w)->git;
}

const char *
draft_git_below(struct draft_walk *w, const struct draft_level **ret)
{
	const size_t git = find_git(w);

	if (git == 0)
		return NULL;
	if (ret != NULL)
		*ret = &w->level[git - 1];
	return w->path + w->level[git - 1].len + 1;
}

bool
draft_git_is_inside(struct draft_walk *w)
{
	return find_git(w) > 0;
}

static const char *
judge_list(int dir, const char *name)
{
	gitstate_fn *const is_good = gitstate_list_of(name);
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir, name, LIST_MAX, &st, &len);

	/* git writes the files that it names, and it may go through links, also through those that the
	 * same draft makes. */
	if (text != NULL && len > 0 && strcasecmp(name, FOLLOWED_MERGE_RR) == 0)
		return "git writes the files that it names, through links as well";
	if (text != NULL && is_good != NULL && is_good(text, len))
		return NULL;
	return "git would read or write files outside the worktree, or run a part of the text";
}

const char *
draft_git_refuses(struct draft_walk *w)
{
	struct draft_level *l = draft_walk_top(w);
	const char *name = w->name.name;
	const int what = followed_what(name, l->below_refs);

	if (!w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] && is_list_of_packs(w))
		return judge_packs(l->upper, name);
	if (what < 0 || w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] ||
	    (!l->below_refs && !is_git_dir(w, l)))
		return NULL;
	return what == WHAT_INDEX ? judge_index(l->upper, name)
	    : what == WHAT_REF    ? judge_ref(l->upper, name)
				  : judge_list(l->upper, name);
}
