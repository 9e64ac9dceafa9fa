/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_place.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel does */

bool
cache_place_is_within(const char *path, const struct policy_list *writable)
{
	for (size_t i = 0; i < writable->n; i++)
		if (path_is_inside(path, writable->v[i]) && strcmp(path, writable->v[i]) != 0)
			return true;
	return false;
}

struct way {
	/* What is still to be followed, without a slash at its beginning. */
	char rest[2 * PATH_LEN_MAX + 2];
	unsigned links;
};

/* Move the first name of the rest to the end of path. Returns 1; 0 if there is none; -1 if the
 * path gets too long. */
static int
take_name(struct way *w, char *path)
{
	char *name = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(name, "/"), at = strlen(path);

	if (len == 0)
		return 0;
	if (len == 2 && memcmp(name, "..", 2) == 0) {
		char *slash = strrchr(path, '/');

		if (slash != NULL)
			*slash = '\0';
	} else if (len != 1 || name[0] != '.') {
		if (at + 1 + len > PATH_LEN_MAX)
			return -1;
		path[at] = '/';
		memcpy(path + at + 1, name, len);
		path[at + 1 + len] = '\0';
	}
	memmove(w->rest, name + len, strlen(name + len) + 1);
	return 1;
}

/* Follow the link at path: put its target before the rest, and set path to the directory that
 * the target starts from. Returns 0, or -1. */
static int
follow(struct way *w, char *path)
{
	char text[PATH_LEN_MAX + 1];
	ssize_t len = readlink(path, text, sizeof(text));
	size_t rest = strlen(w->rest);

	if (len <= 0 || (size_t)len == sizeof(text) || ++w->links > LINKS_MAX ||
	    (size_t)len + 1 + rest >= sizeof(w->rest))
		return -1;
	memmove(w->rest + len + 1, w->rest, rest + 1);
	memcpy(w->rest, text, (size_t)len);
	w->rest[len] = '/';
	*strrchr(path, '/') = '\0';
	if (text[0] == '/')
		path[0] = '\0';
	return 0;
}

static void
in_the_way(struct cache_place *p, const struct policy_list *writable)
{
	if (p->way[0] == '\0' && cache_place_is_within(p->path, writable))
		memcpy(p->way, p->path, strlen(p->path) + 1);
}

int
cache_place_find(const char *path, const char *known, const struct policy_list *writable,
    struct cache_place *ret)
{
	struct way w = { .links = 0 };
	size_t len = strcmp(known, "/") != 0 && path_is_inside(path, known) ? strlen(known) : 0;
	size_t missing = 0; /* the length up to the first missing name; 0: none is missing */
	struct stat st;
	int r;

	ret->path[0] = ret->way[0] = '\0';
	if (path[0] != '/' || strlen(path) > PATH_LEN_MAX)
		return -1;
	memcpy(ret->path, path, len);
	ret->path[len] = '\0';
	memcpy(w.rest, path + len, strlen(path + len) + 1);
	while ((r = take_name(&w, ret->path)) > 0) {
		/* Nothing exists below a name that does not exist. */
		len = strlen(ret->path);
		if (missing > 0 && len > missing)
			continue;
		missing = 0;
		if (len == 0)
			continue;
		if (lstat(ret->path, &st) < 0) {
			if (errno != ENOENT) {
				*strrchr(ret->path, '/') = '\0';
				in_the_way(ret, writable);
				return -1;
			}
			missing = len;
			continue;
		}
		if (!S_ISLNK(st.st_mode))
			continue;
		in_the_way(ret, writable);
		if (follow(&w, ret->path) < 0)
			return -1;
	}
	if (r == 0 && ret->path[0] == '\0')
		memcpy(ret->path, "/", 2);
	return r;
}
