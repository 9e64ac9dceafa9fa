/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/repo_place.h"

#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "worker/draft/repo.h"

/* The git directory that a place is in. */
struct repo_at {
	size_t len; /* of its path */
	const char *below;
};

/* Has the directory path[0..len) that name, or is it the place itself, which comes there? */
static bool
has(const struct swap *w, struct shape *layer, size_t len, const char *name)
{
	struct shape none = { .res = w->res, .path = w->path, .fd = -1 };

	return strcmp(w->path + len + 1, name) == 0 ||
	    shape_has(layer != NULL ? layer : &none, w->path, len, name);
}

static bool
is_git_dir(const struct swap *w, struct shape *layer, size_t len)
{
	static const char dot[] = "/.git";

	if (len >= sizeof(dot) - 1 &&
	    memcmp(w->path + len - (sizeof(dot) - 1), dot, sizeof(dot) - 1) == 0)
		return true;
	return has(w, layer, len, "HEAD") && has(w, layer, len, "objects") &&
	    has(w, layer, len, "refs");
}

/* All that is protected in a repository is directly in it, or in a directory there. */
static bool
find_repo(const struct swap *w, struct shape *layer, struct repo_at *ret)
{
	size_t len = strlen(w->path);

	for (unsigned up = 0; up < 2; up++) {
		while (len > 0 && w->path[len - 1] != '/')
			len--;
		if (len <= 1)
			return false;
		len--;
		if (!is_git_dir(w, layer, len))
			continue;
		*ret = (struct repo_at){ len, w->path + len + 1 };
		return true;
	}
	return false;
}

/* A command did not make the rest of it, or it is harmless as well. */
static bool
is_harmless(const struct swap *w, struct shape *layer, const struct repo_at *at)
{
	cleanup_close int project = resolve_canonical_dir(w->res, w->path, at->len), draft = -1;

	if (project >= 0 && !repo_is_harmless(project))
		return false;
	if (layer == NULL)
		return true;
	draft = shape_open(layer, w->path, at->len);
	return draft < 0 || repo_is_harmless(draft);
}

bool
repo_place_allows(const struct swap *w, struct shape *layer)
{
	struct repo_at at;

	switch (w->kind) {
	case SWAP_BRING:
		return w->item->here == NULL && w->source.there && find_repo(w, layer, &at) &&
		    repo_may_have(at.below, w->source.dir, w->source.name, w->source.st.st_mode) &&
		    is_harmless(w, layer, &at);
	case SWAP_MKDIR:
		return find_repo(w, layer, &at) &&
		    repo_may_have(at.below, w->place.dir, w->place.name, S_IFDIR) &&
		    is_harmless(w, layer, &at);
	case SWAP_TAKE:
		return layer == NULL && w->place.there && find_repo(w, layer, &at) &&
		    repo_may_have(at.below, w->place.dir, w->place.name, w->place.st.st_mode);
	case SWAP_RMDIR:
		/* Only an empty one is removed. */
		return layer == NULL;
	case SWAP_MODE:
	case SWAP_SHIFT:
		return false;
	}
	return false;
}
