/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/worktree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/files/resolve.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/plant.h"
#include "worker/scan/scan_known.h"

/* Longest path in a file of a git directory. */
#define POINTER_MAX (2 * PATH_LEN_MAX)

/* Returns the canonical form of a path found in a git directory, owned by the caller, or NULL if no
 * directory is there. */
static char *
directory_at(struct scan *sc, const char *dir, const char *to)
{
	cleanup(place_done) struct place at;
	char text[2 * PATH_LEN_MAX + 2];
	struct koda_error err;

	place_init(&at);
	snprintf(text, sizeof(text), "%s%s%s", to[0] == '/' ? "" : dir, to[0] == '/' ? "" : "/",
	    to);
	if (resolve(scan_resolver(sc), (const uint8_t *)text, strlen(text), 0, &at, &err) < 0 ||
	    at.target_fd < 0 || !S_ISDIR(at.st.st_mode))
		return NULL;
	return strdup(at.path);
}

/* Sets *ret, owned by the caller, if that configuration has core.worktree. */
static void
worktree_of_config(struct scan *sc, int dir_fd, const char *dir, const char *name, char **ret)
{
	struct gitconfig c;
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir_fd, name, GITCONFIG_BYTES_MAX, &st, &len);

	if (text == NULL || gitconfig_parse(text, len, &c) < 0)
		return;
	for (size_t i = 0; i < c.n; i++) {
		const struct gitconfig_var *v = &c.var[i];

		if (strcmp(v->section, "core") != 0 || v->subsection != NULL ||
		    strcmp(v->key, "worktree") != 0 || v->value == NULL)
			continue;
		free(*ret);
		*ret = directory_at(sc, dir, v->value);
	}
	gitconfig_done(&c);
}

char *
worktree_of(struct scan *sc, int dir_fd, const char *dir)
{
	const char *name = strrchr(dir, '/') + 1;
	cleanup_free char *text = NULL;
	char *found = NULL;
	struct stat st;
	size_t len;

	worktree_of_config(sc, dir_fd, dir, "config", &found);
	worktree_of_config(sc, dir_fd, dir, "config.worktree", &found);
	if (found != NULL)
		return found;
	if (access_name_of(name) == ACCESS_NAME_GIT)
		return strndup(dir, name - dir > 1 ? (size_t)(name - dir) - 1 : 1);
	/* A linked worktree: the directory of its .git file. */
	text = plant_read(dir_fd, "gitdir", POINTER_MAX, &st, &len);
	if (text == NULL)
		return NULL;
	text[strcspn(text, "\r\n")] = '\0';
	if (strrchr(text, '/') == NULL || strrchr(text, '/') == text)
		return NULL;
	*strrchr(text, '/') = '\0';
	return directory_at(sc, dir, text);
}

char *
worktree_git_dir(struct scan *sc, int dir_fd, const char *dir)
{
	struct stat st;
	size_t len, start, n;
	cleanup_free char *text = plant_read(dir_fd, ".git", POINTER_MAX, &st, &len);

	if (text == NULL || !gitdir_of_gitfile(text, len, &start, &n))
		return NULL;
	text[start + n] = '\0';
	return directory_at(sc, dir, text + start);
}
