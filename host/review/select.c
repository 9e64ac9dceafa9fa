/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/select.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"

static bool
is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/* Returns the absolute path without "." parts and doubled slashes; NULL without memory, or if it
 * leads above the root. */
static char *
make_absolute(const char *root, const char *path)
{
	const size_t size = strlen(root) + strlen(path) + 2;
	char *ret = malloc(size);
	size_t len;

	if (ret == NULL)
		return NULL;
	len = path[0] == '/'
	    ? 0
	    : (size_t)snprintf(ret, size, "%s", strcmp(root, "/") == 0 ? "" : root);
	while (*path != '\0') {
		const size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (len > 0 && ret[len - 1] != '/')
				len--;
			len -= len > 0;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			ret[len++] = '/';
			memcpy(ret + len, path, n);
			len += n;
		}
		path += n;
		path += *path == '/';
	}
	if (len == 0)
		ret[len++] = '/';
	ret[len] = '\0';
	return ret;
}

int
selection_take(struct selection *s, const char *root, const char *const *paths, size_t n,
    struct koda_error *err)
{
	*s = (struct selection){ .root = root };
	s->v = calloc(n + 1, sizeof(*s->v));
	if (s->v == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "selection");
	for (size_t i = 0; i < n; i++) {
		struct selected *one = &s->v[s->n];

		if (paths[i] == NULL || paths[i][0] == '\0') {
			selection_done(s);
			return err_set(err, KODA_INVALID, 0, "a selected path is empty");
		}
		one->glob = is_glob(paths[i]);
		one->text = one->glob ? strdup(paths[i]) : make_absolute(root, paths[i]);
		if (one->text == NULL) {
			selection_done(s);
			return err_set(err, KODA_INTERNAL, ENOMEM, "selection");
		}
		s->n++;
	}
	return 0;
}

void
selection_done(struct selection *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].text);
	free(s->v);
	*s = (struct selection){ 0 };
}

/* A glob without a slash names any file of that name, as in .gitignore; one with a slash a path
 * relative to the root, or an absolute one. */
static bool
matches(const struct selection *s, const struct selected *one, const char *path)
{
	const char *relative = path, *name = strrchr(path, '/');
	const size_t len = strlen(s->root);

	if (!one->glob)
		return path_is_inside(path, one->text);
	if (strchr(one->text, '/') == NULL)
		return fnmatch(one->text, name == NULL ? path : name + 1, 0) == 0;
	if (one->text[0] != '/' && path_is_inside(path, s->root))
		relative = path + len + (path[len] == '/');
	return fnmatch(one->text, relative, 0) == 0;
}

bool
selection_has(struct selection *s, const char *path)
{
	bool found = s->n == 0;

	for (size_t i = 0; i < s->n; i++) {
		if (!matches(s, &s->v[i], path))
			continue;
		s->v[i].used = true;
		found = true;
	}
	return found;
}

const char *
selection_unused(const struct selection *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->v[i].used)
			return s->v[i].text;
	return NULL;
}
