#include "worker/draft/draft_git.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/draft_shape.h"
#include "worker/scan/followed.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/gitindex.h"
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

bool
draft_git_is_inside(struct draft_walk *w)
{
	for (size_t i = w->n_levels; i > 0; i--)
		if (is_git_dir(w, &w->level[i - 1]))
			return true;
	return false;
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

	if (what < 0 || w->ses->policy.flag[KODA_ALLOW_GIT_CONFIG] ||
	    (!l->below_refs && !is_git_dir(w, l)))
		return NULL;
	return what == WHAT_INDEX ? judge_index(l->upper, name)
	    : what == WHAT_REF    ? judge_ref(l->upper, name)
				  : judge_list(l->upper, name);
}
