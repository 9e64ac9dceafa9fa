/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/attributes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "worker/draft/fit.h"

#define PATH_SIZE (16 + NAME_LEN_MAX + 1) /* a descriptor's number, a slash, a name */
#define LIST_SIZE 1024
/* The kernel's XATTR_LIST_MAX and XATTR_SIZE_MAX. */
#define LARGE (64u << 10)

struct attributes {
	char path[PATH_SIZE];
	char first[LIST_SIZE], *large;
	const char *names;
	ssize_t n;
};

static void
attributes_done(struct attributes *a)
{
	free(a->large);
}

static int
attributes_read(struct attributes *a, int dir, const char *name)
{
	*a = (struct attributes){ .names = a->first };
	snprintf(a->path, sizeof(a->path), "%d/%s", dir, name);
	a->n = llistxattr(a->path, a->first, sizeof(a->first));
	if (a->n < 0 && errno == ERANGE) {
		a->names = a->large = malloc(LARGE);
		a->n = a->large == NULL ? -1 : llistxattr(a->path, a->large, LARGE);
	}
	if (a->n < 0 && errno == EOPNOTSUPP)
		a->n = 0;
	return a->n < 0 ? -1 : 0;
}

static bool
comes_along(const char *name)
{
	return (strncmp(name, "user.", 5) == 0 && !fit_is_mark(name)) ||
	    strcmp(name, "system.posix_acl_access") == 0;
}

static size_t
count(const struct attributes *a)
{
	size_t n = 0;

	for (const char *at = a->names; at < a->names + a->n; at += strlen(at) + 1)
		n += comes_along(at);
	return n;
}

static bool
same_value(const struct attributes *a, const struct attributes *b, const char *name, char *value)
{
	const ssize_t n = getxattr(a->path, name, value, LARGE);

	return n >= 0 && getxattr(b->path, name, value + LARGE, LARGE) == n &&
	    memcmp(value, value + LARGE, (size_t)n) == 0;
}

bool
attributes_are_same(int dir, const char *name, int other_dir, const char *other)
{
	cleanup(attributes_done) struct attributes a = { 0 }, b = { 0 };
	cleanup_free char *value = NULL;
	size_t n;

	if (attributes_read(&a, dir, name) < 0 || attributes_read(&b, other_dir, other) < 0)
		return false;
	n = count(&a);
	if (n != count(&b))
		return false;
	if (n == 0)
		return true;
	value = malloc((size_t)2 * LARGE);
	if (value == NULL)
		return false;
	for (const char *at = a.names; at < a.names + a.n; at += strlen(at) + 1)
		if (comes_along(at) && !same_value(&a, &b, at, value))
			return false;
	return true;
}
