/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/*
 * Resolves the longest part of the path that exists into base. Returns the rest, without a leading
 * slash.
 */
static const char *
split_path(const char *path, char base[PATH_MAX])
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	memcpy(part, path, len + 1);
	while (realpath(part, base) == NULL) {
		while (len > 0 && part[--len] != '/')
			;
		part[len > 0 ? len : 1] = '\0';
		if (len == 0) {
			strcpy(base, "/");
			break;
		}
	}
	path += len;
	return path + strspn(path, "/");
}

static bool
goes_up(const char *rest)
{
	for (const char *p = rest; *p != '\0'; p += strcspn(p, "/"), p += strspn(p, "/")) {
		size_t len = strcspn(p, "/");

		if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return true;
	}
	return false;
}

bool
follow_path(const char *path, char ret[PATH_MAX])
{
	char now[PATH_MAX], base[PATH_MAX], link[PATH_MAX], to[PATH_MAX];

	if (path[0] != '/' || (size_t)snprintf(now, sizeof(now), "%s", path) >= sizeof(now))
		return false;
	for (int i = 0; i < FOLLOW_LINKS_MAX; i++) {
		const char *rest = split_path(now, base), *top = strcmp(base, "/") == 0 ? "" : base;
		size_t first = strcspn(rest, "/");
		ssize_t n;

		/* The kernel does not go up through a directory that does not exist either. */
		if (goes_up(rest) ||
		    (size_t)snprintf(link, sizeof(link), "%s/%.*s", top, (int)first, rest) >=
			sizeof(link))
			return false;
		/* What is missing may be the target of a link. */
		n = first == 0 ? -1 : readlink(link, to, sizeof(to) - 1);
		if (n <= 0) {
			if ((size_t)snprintf(ret, PATH_MAX, first == 0 ? "%s" : "%s/%s",
				first == 0 ? base : top, rest) >= PATH_MAX)
				return false;
			return strcmp(ret, path) != 0;
		}
		to[n] = '\0';
		if ((size_t)snprintf(now, sizeof(now), "%s%s%s%s", to[0] == '/' ? "" : top,
			to[0] == '/' ? "" : "/", to, rest + first) >= sizeof(now))
			return false;
	}
	return false;
}
