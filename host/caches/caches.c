/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/caches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_place.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/*
 * Several of these directories (~/.gradle, ~/.sbt, ~/.stack) contain, beside the cache, state of
 * the tool that it writes at each build. Package managers' directories of installed programs
 * (~/.local/share/pnpm, ~/.bun/bin) are not listed, only their caches.
 */
/* clang-format off */
const struct cache_row cache_rows[] = {
	{ ".cache",                   "XDG_CACHE_HOME", "", "cache", { NULL } },
	{ ".npm",                     "npm_config_cache", "", "npm", { NULL } },
	/* Its fixed paths are in host/policy/defaults. */
	{ ".cargo",                   "CARGO_HOME", "", "cargo", { NULL } },
	{ ".m2/repository",           NULL, NULL, NULL, { NULL } },
	{ ".gradle",                  "GRADLE_USER_HOME", "", NULL, { "init.d", "init.gradle", "init.gradle.kts", "gradle.properties" } },
	{ "go/pkg/mod",               "GOMODCACHE", "", "go-mod", { NULL } },
	{ "go/pkg/mod",               "GOPATH", "pkg/mod", NULL, { NULL } },
	{ "go/pkg/sumdb",             "GOPATH", "pkg/sumdb", NULL, { NULL } },
	{ ".local/share/pnpm/store",  NULL, NULL, NULL, { NULL } },
	{ ".pnpm-store",              NULL, NULL, NULL, { NULL } },
	{ ".yarn/berry/cache",        NULL, NULL, NULL, { NULL } },
	{ ".yarn/berry/metadata",     NULL, NULL, NULL, { NULL } },
	{ ".yarn/cache",              NULL, NULL, NULL, { NULL } },
	{ ".bun/install/cache",       NULL, NULL, NULL, { NULL } },
	{ ".deno",                    NULL, NULL, NULL, { "bin" } },
	{ ".node-gyp",                NULL, NULL, NULL, { NULL } },
	{ ".nuget/packages",          NULL, NULL, NULL, { NULL } },
	{ ".local/share/NuGet",       NULL, NULL, NULL, { NULL } },
	{ ".gem",                     NULL, NULL, NULL, { "credentials", "bin" } },
	{ ".local/share/gem",         NULL, NULL, NULL, { "credentials" } },
	{ ".bundle/cache",            NULL, NULL, NULL, { NULL } },
	{ ".ivy2/cache",              NULL, NULL, NULL, { NULL } },
	{ ".ivy2/local",              NULL, NULL, NULL, { NULL } },
	{ ".sbt",                     NULL, NULL, NULL, { "0.13/plugins", "1.0/plugins", "1.0/global.sbt", "repositories", "credentials" } },
	{ ".stack",                   NULL, NULL, NULL, { "config.yaml", "hooks", "programs" } },
	{ ".cabal/packages",          NULL, NULL, NULL, { NULL } },
	{ ".cabal/store",             NULL, NULL, NULL, { NULL } },
	{ ".local/state/cabal",       NULL, NULL, NULL, { NULL } },
	{ ".composer/cache",          NULL, NULL, NULL, { NULL } },
	{ ".hex",                     NULL, NULL, NULL, { "hex.config" } },
	{ ".mix",                     NULL, NULL, NULL, { "archives", "elixir", "escripts" } },
	{ ".julia/packages",          NULL, NULL, NULL, { NULL } },
	{ ".julia/artifacts",         NULL, NULL, NULL, { NULL } },
	{ ".julia/compiled",          NULL, NULL, NULL, { NULL } },
	{ ".julia/registries",        NULL, NULL, NULL, { NULL } },
	{ ".pub-cache",               NULL, NULL, NULL, { "bin", "credentials.json" } },
	{ ".opam/download-cache",     NULL, NULL, NULL, { NULL } },
	{ ".conan/data",              NULL, NULL, NULL, { NULL } },
	{ ".conan2/p",                NULL, NULL, NULL, { NULL } },
	{ ".ccache",                  "CCACHE_DIR", "", NULL, { "ccache.conf" } },
	/* Where users have moved them. Most of the usual places are in ~/.cache. */
	{ ".npm",                     "NPM_CONFIG_CACHE", "", NULL, { NULL } },
	{ ".node-gyp",                "npm_config_devdir", "", NULL, { NULL } },
	{ ".local/share/pnpm/store",  "npm_config_store_dir", "", NULL, { NULL } },
	{ ".local/share/pnpm/store",  "PNPM_HOME", "store", NULL, { NULL } },
	{ ".yarn/cache",              "YARN_CACHE_FOLDER", "", NULL, { NULL } },
	{ ".yarn/berry/cache",        "YARN_GLOBAL_FOLDER", "cache", NULL, { NULL } },
	{ ".yarn/berry/metadata",     "YARN_GLOBAL_FOLDER", "metadata", NULL, { NULL } },
	{ ".bun/install/cache",       "BUN_INSTALL_CACHE_DIR", "", NULL, { NULL } },
	{ ".bun/install/cache",       "BUN_INSTALL", "install/cache", NULL, { NULL } },
	{ ".cache/deno",              "DENO_DIR", "", NULL, { NULL } },
	{ ".cache/pip",               "PIP_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/uv",                "UV_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/pypoetry",          "POETRY_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/pipenv",            "PIPENV_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/pycache",           "PYTHONPYCACHEPREFIX", "", NULL, { NULL } },
	{ ".cache/pre-commit",        "PRE_COMMIT_HOME", "", NULL, { NULL } },
	{ ".cache/huggingface",       "HF_HOME", "", NULL, { NULL } },
	{ ".cache/go-build",          "GOCACHE", "", NULL, { NULL } },
	{ ".cache/sccache",           "SCCACHE_DIR", "", NULL, { NULL } },
	{ ".cache/zig",               "ZIG_GLOBAL_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/coursier",          "COURSIER_CACHE", "", NULL, { NULL } },
	{ ".cache/electron",          "ELECTRON_CACHE", "", NULL, { NULL } },
	{ ".cache/ms-playwright",     "PLAYWRIGHT_BROWSERS_PATH", "", NULL, { NULL } },
	{ ".cache/puppeteer",         "PUPPETEER_CACHE_DIR", "", NULL, { NULL } },
	{ ".cache/Cypress",           "CYPRESS_CACHE_FOLDER", "", NULL, { NULL } },
	{ ".nuget/packages",          "NUGET_PACKAGES", "", NULL, { NULL } },
	{ ".bundle/cache",            "BUNDLE_USER_CACHE", "", NULL, { NULL } },
	{ ".composer/cache",          "COMPOSER_CACHE_DIR", "", NULL, { NULL } },
	{ ".composer/cache",          "COMPOSER_HOME", "cache", NULL, { NULL } },
	{ ".stack",                   "STACK_ROOT", "", NULL, { NULL } },
	{ ".cabal/packages",          "CABAL_DIR", "packages", NULL, { NULL } },
	{ ".cabal/store",             "CABAL_DIR", "store", NULL, { NULL } },
	{ ".hex",                     "HEX_HOME", "", NULL, { NULL } },
	{ ".mix",                     "MIX_HOME", "", NULL, { NULL } },
	{ ".julia/packages",          "JULIA_DEPOT_PATH", "packages", NULL, { NULL } },
	{ ".julia/artifacts",         "JULIA_DEPOT_PATH", "artifacts", NULL, { NULL } },
	{ ".julia/compiled",          "JULIA_DEPOT_PATH", "compiled", NULL, { NULL } },
	{ ".julia/registries",        "JULIA_DEPOT_PATH", "registries", NULL, { NULL } },
	{ ".pub-cache",               "PUB_CACHE", "", NULL, { NULL } },
	{ ".opam/download-cache",     "OPAMROOT", "download-cache", NULL, { NULL } },
	{ ".conan/data",              "CONAN_USER_HOME", ".conan/data", NULL, { NULL } },
	{ ".conan2/p",                "CONAN_HOME", "p", NULL, { NULL } },
	{ "",                         NULL, NULL, NULL, { NULL } },
};
/* clang-format on */

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
}

bool
caches_hold(const char *name)
{
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++) {
		size_t len = strlen(row->path);

		if (strncmp(name, row->path, len) == 0 && name[len] == '/')
			return true;
	}
	return false;
}

static const char *
below(const char *dir)
{
	return strcmp(dir, "/") == 0 ? "" : dir;
}

int
caches_fixed(const char *home, struct policy_list *list, struct koda_error *err)
{
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++) {
		for (size_t i = 0; i < N_ELEMENTS(row->fixed) && row->fixed[i] != NULL; i++) {
			cleanup_free char *path = NULL;

			if (asprintf(&path, "%s/%s/%s", below(home), row->path, row->fixed[i]) <
			    0) {
				path = NULL;
				return no_memory(err);
			}
			if (policy_list_add(list, path, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* ---- existing caches ---- */

/* A link in its place is refused, because it could lead anywhere. */
static bool
is_own_directory(const char *path, const char *home)
{
	cleanup_free char *real = NULL;
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return false;
	real = realpath(path, NULL);
	return real != NULL && path_is_inside(real, home) && strcmp(real, home) != 0 &&
	    strcmp(real, path) == 0;
}

static char *
name_of(const char *home, const char *path, bool elsewhere)
{
	cleanup_free char *name = NULL;
	char *ret;

	if (!elsewhere)
		return strdup(path + strlen(below(home)) + 1);
	name = state_quarantine_name(path);
	return name == NULL || asprintf(&ret, CACHES_ELSEWHERE_NAME "/%s", name) < 0 ? NULL : ret;
}

static int
push(struct caches *c, const char *home, const char *path, struct koda_error *err)
{
	struct cache *more = reallocarray(c->v, c->n + 1, sizeof(*more));
	bool elsewhere = !path_is_inside(path, home) || strcmp(path, home) == 0;

	if (more == NULL)
		return no_memory(err);
	c->v = more;
	more[c->n] = (struct cache){ name_of(home, path, elsewhere), strdup(path), elsewhere };
	c->n++;
	return more[c->n - 1].name == NULL || more[c->n - 1].path == NULL ? no_memory(err) : 0;
}

static int
add(struct caches *c, const char *home, const struct policy_list *writable, const char *path,
    struct koda_error *err)
{
	bool own = is_own_directory(path, home);
	struct cache_place place;
	struct stat st;

	if (!own && writable->n == 0)
		return 0;
	if (own)
		snprintf(place.path, sizeof(place.path), "%s", path);
	else if (cache_place_find(path, home, writable, &place) < 0)
		return 0;
	if (cache_place_is_within(place.path, writable)) {
		/* Anything that is not a directory now stays as it is: caches_strange(). */
		if (lstat(place.path, &st) < 0 ? errno != ENOENT : !S_ISDIR(st.st_mode))
			return 0;
		return push(c, home, place.path, err);
	}
	for (size_t i = 0; i < writable->n; i++) {
		if (!path_is_inside(writable->v[i], place.path))
			continue;
		if (c->root == NULL && strcmp(writable->v[i], place.path) == 0 &&
		    (c->root = strdup(place.path)) == NULL)
			return no_memory(err);
		return 0;
	}
	return own ? push(c, home, path, err) : 0;
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct cache *)a)->path, ((const struct cache *)b)->path);
}

/* Drop duplicates, and caches inside another one. A containing directory sorts before its
 * contents. */
static void
outermost(struct caches *c)
{
	size_t kept = 0;

	if (c->n > 1)
		qsort(c->v, c->n, sizeof(*c->v), by_path);
	for (size_t i = 0; i < c->n; i++) {
		bool inside = false;

		for (size_t k = 0; k < kept && !inside; k++)
			inside = path_is_inside(c->v[i].path, c->v[k].path);
		if (!inside) {
			c->v[kept++] = c->v[i];
			continue;
		}
		free(c->v[i].name);
		free(c->v[i].path);
	}
	c->n = kept;
}

/* Returns the path from the row's variable, which the caller owns; or NULL, with errno ENOMEM if
 * there is no memory, else 0. A variable that names a directory around the cache may be a list:
 * its first entry counts. */
static char *
moved_to(const struct cache_row *row)
{
	const char *moved = row->variable != NULL ? getenv(row->variable) : NULL;
	size_t len = moved == NULL ? 0 : strlen(moved);
	char *path;

	errno = 0;
	if (len == 0 || moved[0] != '/')
		return NULL;
	if (row->behind[0] != '\0')
		len = strcspn(moved, ":");
	while (len > 1 && moved[len - 1] == '/')
		len--;
	if (asprintf(&path, "%.*s%s%s", (int)len, moved, row->behind[0] != '\0' ? "/" : "",
		row->behind) < 0)
		return NULL;
	return path;
}

/* Returns true if an earlier row has the same path. */
static bool
is_again(const struct cache_row *row)
{
	for (const struct cache_row *r = cache_rows; r < row; r++)
		if (strcmp(r->path, row->path) == 0)
			return true;
	return false;
}

/* Call fn for the places that the rows name, until one call fails. */
typedef int place_fn(void *data, const char *path, struct koda_error *err);

static int
each_place(const char *home, place_fn *fn, void *data, struct koda_error *err)
{
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++) {
		cleanup_free char *usual = NULL, *moved = moved_to(row);

		if (moved == NULL && errno == ENOMEM)
			return no_memory(err);
		if (asprintf(&usual, "%s/%s", below(home), row->path) < 0) {
			usual = NULL;
			return no_memory(err);
		}
		if ((!is_again(row) && fn(data, usual, err) < 0) ||
		    (moved != NULL && fn(data, moved, err) < 0))
			return -1;
	}
	return 0;
}

struct finding {
	struct caches *c;
	const char *home;
	const struct policy_list *writable;
};

static int
find_one(void *data, const char *path, struct koda_error *err)
{
	const struct finding *f = data;

	return add(f->c, f->home, f->writable, path, err);
}

struct strange {
	const char *home;
	const struct policy_list *root;
	struct policy_list *list;
};

static int
strange_one(void *data, const char *path, struct koda_error *err)
{
	const struct strange *s = data;
	struct cache_place place;
	struct stat st;
	int r = cache_place_find(path, s->home, s->root, &place);

	if (place.way[0] != '\0')
		return policy_list_add(s->list, place.way, err);
	if (r == 0 && cache_place_is_within(place.path, s->root) && lstat(place.path, &st) == 0 &&
	    !S_ISDIR(st.st_mode))
		return policy_list_add(s->list, place.path, err);
	return 0;
}

int
caches_strange(const char *home, const char *root, struct policy_list *list, struct koda_error *err)
{
	char *roots[] = { (char *)(uintptr_t)root };
	const struct policy_list within = { .v = roots, .n = 1 };
	struct strange s = { home, &within, list };

	return home[0] == '/' ? each_place(home, strange_one, &s, err) : 0;
}

/* Returns true if the user has moved the row's cache, with any variable. */
static bool
is_moved(const struct cache_row *which)
{
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++)
		if (strcmp(row->path, which->path) == 0 && row->variable != NULL &&
		    getenv(row->variable) != NULL)
			return true;
	return false;
}

/* Note the row if its cache does not exist and has a spare. If something else than a directory
 * of this user is in its place, it is left out: the tool should not miss what that leads to. */
static int
add_missing(struct caches *c, const char *home, const struct policy_list *writable,
    const struct cache_row *row, struct koda_error *err)
{
	cleanup_free char *path = NULL;
	struct stat st;

	if (row->spare == NULL || is_moved(row) || strcmp(home, "/") == 0 ||
	    c->n_missing == CACHES_SPARE_MAX || lstat(home, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (asprintf(&path, "%s/%s", home, row->path) < 0) {
		path = NULL;
		return no_memory(err);
	}
	if (lstat(path, &st) < 0 && errno == ENOENT && !cache_place_is_within(path, writable))
		c->missing[c->n_missing++] = row;
	return 0;
}

int
caches_find(const char *home, const struct policy_list *writable, struct caches *ret,
    struct koda_error *err)
{
	struct finding f = { ret, home, writable };
	int r;

	*ret = (struct caches){ 0 };
	if (home[0] != '/')
		return 0;
	r = each_place(home, find_one, &f, err);
	for (const struct cache_row *row = cache_rows; r == 0 && row->path[0] != '\0'; row++)
		r = add_missing(ret, home, writable, row, err);
	outermost(ret);
	if (r < 0)
		caches_done(ret);
	return r;
}

void
caches_done(struct caches *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].name);
		free(c->v[i].path);
	}
	free(c->v);
	free(c->root);
	*c = (struct caches){ 0 };
}
