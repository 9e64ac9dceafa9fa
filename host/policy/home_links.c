/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy/home_links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* Links and missing names on the way to one place. */
#define STEPS_MAX 40

/* Returns true if the existing part of a path contains no link. One system call, where realpath()
 * takes one for each component. */
static bool
is_plain(const char *path, bool *ret_there)
{
	cleanup_close int fd = open_plain(AT_FDCWD, path, O_PATH);

	*ret_there = fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
	return fd >= 0 || !*ret_there;
}

/* Returns the target of a path, which need not exist, for the caller to free. NULL if it leads
 * nowhere, or without memory. */
static char *
led_to(const char *path, unsigned steps)
{
	cleanup_free char *next = NULL, *dir = NULL;
	char text[PATH_MAX], *found = realpath(path, NULL);
	const char *name;
	ssize_t n;

	if (found != NULL || errno != ENOENT || steps == 0)
		return found;
	name = strrchr(path, '/') + 1;
	n = readlink(path, text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = '\0';
		if (asprintf(&next, "%.*s%s", text[0] == '/' ? 0 : (int)(name - path), path, text) <
		    0)
			next = NULL;
		return next != NULL ? led_to(next, steps - 1) : NULL;
	}
	if (name - path < 2 || name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return NULL;
	next = strndup(path, (size_t)(name - path) - 1);
	dir = next != NULL ? led_to(next, steps - 1) : NULL;
	if (dir == NULL || asprintf(&found, "%s/%s", dir, name) < 0)
		return NULL;
	return found;
}

static int
add_one(struct policy_list *list, const char *link, const char *root, struct koda_error *err)
{
	cleanup_free char *led = led_to(link, STEPS_MAX);

	if (led == NULL || !path_is_inside(led, root) || strcmp(led, root) == 0 ||
	    policy_path_check(led, NULL) < 0)
		return 0;
	return policy_list_add(list, led, err);
}

static int
add_below(struct policy_list *list, const char *dir, const char *root, unsigned depth,
    unsigned *left, struct koda_error *err)
{
	cleanup(closedir_at) DIR *d = opendir(dir);
	const struct dirent *e;

	while (d != NULL && *left > 0 && (e = readdir(d)) != NULL) {
		cleanup_free char *path = NULL;
		unsigned char type = e->d_type;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		--*left;
		if (type != DT_LNK && type != DT_DIR && type != DT_UNKNOWN)
			continue;
		if (asprintf(&path, "%s/%s", dir, e->d_name) < 0) {
			path = NULL;
			return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		}
		if (type == DT_UNKNOWN && lstat(path, &st) == 0)
			type = IFTODT(st.st_mode);
		if ((type == DT_LNK && add_one(list, path, root, err) < 0) ||
		    (type == DT_DIR && depth > 0 &&
			add_below(list, path, root, depth - 1, left, err) < 0))
			return -1;
	}
	return 0;
}

int
home_links_add(struct policy_list *list, const char *place, bool below, const char *root,
    struct koda_error *err)
{
	unsigned left = HOME_LINKS_MAX;
	bool there;

	/* A place without links is protected by its own row. */
	if (!is_plain(place, &there) && add_one(list, place, root, err) < 0)
		return -1;
	return below && there ? add_below(list, place, root, HOME_LINKS_DEPTH, &left, err) : 0;
}
