/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/files/resolve against a model that is slow and obviously right: a tree in memory, where
 * '..' is a pointer to the parent, and a list of the remaining steps. Over random trees with links
 * that are really on the disk, each random path must have the same outcome in both, and the kernel
 * must resolve the same path to the same file.
 */
#include "tests/kit/proof.h"

#include "worker/files/resolve.h"

#define NODES_MAX  48
#define TOKENS_MAX 1024 /* forty links of a few steps each */
#define TREES      60
#define PATHS      400

/* ---- the model ---- */

enum node_type {
	DIRECTORY,
	REGULAR,
	LINK,
};

struct node {
	enum node_type type;
	char name[PATH_MAX];
	char target[PATH_MAX];
	struct node *parent; /* the parent of "/" is itself */
};

struct tree {
	struct node node[NODES_MAX + 32];
	size_t n;
	struct node *slash, *base, *root, *out;
};

static struct node *
tree_add(struct tree *t, struct node *parent, enum node_type type, const char *name)
{
	struct node *n = &t->node[t->n++];

	assert_true(t->n <= N_ELEMENTS(t->node));
	n->type = type;
	n->parent = parent != NULL ? parent : n;
	n->target[0] = '\0';
	snprintf(n->name, sizeof(n->name), "%s", name);
	return n;
}

static struct node *
tree_find(struct tree *t, const struct node *parent, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		struct node *n = &t->node[i];

		if (n->parent == parent && n != t->slash && strcmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

static void
tree_path(const struct tree *t, const struct node *n, char *ret, size_t size)
{
	char above[PATH_MAX];

	if (n == t->slash) {
		snprintf(ret, size, "/");
		return;
	}
	if (n->parent == t->slash) {
		above[0] = '\0';
	} else {
		tree_path(t, n->parent, above, sizeof(above));
	}
	assert_true((size_t)snprintf(ret, size, "%s/%s", above, n->name) < size);
}

enum verdict {
	FOUND,
	ABSENT,
	NOT_A_DIRECTORY,
	TOO_MANY_LINKS,
	UP_BEHIND_MISSING,
	ABOVE_ROOT,
};

static const char *const verdict_names[] = { "found", "absent", "not a directory", "too many links",
	"'..' behind missing", "above the root" };

struct answer {
	enum verdict verdict;
	char path[2 * PATH_MAX];
	enum node_type type;
	bool wants_dir;
	size_t n_hops;
	char hop[64][PATH_MAX];
	char parent[PATH_MAX]; /* deepest existing directory on the way to the name */
};

/* One remaining step: a name, ".", "..", or "/" for the slash at a path's end. */
struct token {
	char name[64];
	bool asked; /* from the path itself, not from a link */
};

struct todo {
	struct token token[TOKENS_MAX];
	size_t n;
};

static void
todo_add(struct todo *list, const char *text, bool asked)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len;) {
		size_t k = strcspn(text + i, "/");

		if (k > 0) {
			struct token *t = &list->token[list->n++];

			assert_true(list->n < TOKENS_MAX && k < sizeof(t->name));
			memcpy(t->name, text + i, k);
			t->name[k] = '\0';
			t->asked = asked;
		}
		i += k;
		while (i < len && text[i] == '/')
			i++;
	}
	if (list->n > 0 && len > 1 && text[len - 1] == '/') {
		struct token *t = &list->token[list->n++];

		snprintf(t->name, sizeof(t->name), "/");
		t->asked = asked;
	}
}

static bool
nothing_but_slashes(const struct todo *list, size_t from)
{
	for (size_t i = from; i < list->n; i++) {
		if (strcmp(list->token[i].name, "/") != 0)
			return false;
	}
	return true;
}

static void
model(struct tree *t, const char *path, unsigned flags, unsigned depth, struct answer *a)
{
	static struct todo list, next;
	struct node *at = path[0] == '/' ? t->slash : t->root, *found;
	const bool relative = path[0] != '/';
	char below[PATH_MAX] = "";

	memset(a, 0, offsetof(struct answer, hop));
	list.n = 0;
	todo_add(&list, path, true);
	for (size_t i = 0; i < list.n; i++) {
		const struct token *k = &list.token[i];
		const bool last = nothing_but_slashes(&list, i + 1);

		if (strcmp(k->name, "/") == 0 || strcmp(k->name, ".") == 0) {
			a->wants_dir = true;
			continue;
		}
		if (strcmp(k->name, "..") == 0) {
			a->wants_dir = true;
			if (below[0] != '\0') {
				a->verdict = UP_BEHIND_MISSING;
				return;
			}
			if (relative && k->asked && at == t->root) {
				a->verdict = ABOVE_ROOT;
				return;
			}
			at = at->parent;
			continue;
		}
		a->wants_dir = false;
		if (below[0] != '\0') {
			strcat(below, "/");
			strcat(below, k->name);
			continue;
		}
		if (at->type != DIRECTORY) {
			a->verdict = NOT_A_DIRECTORY;
			return;
		}
		found = tree_find(t, at, k->name);
		if (found == NULL) {
			snprintf(below, sizeof(below), "/%s", k->name);
			continue;
		}
		if (found->type == LINK && !(last && (flags & RESOLVE_LINK_ITSELF) != 0)) {
			if (a->n_hops >= depth) {
				a->verdict = TOO_MANY_LINKS;
				return;
			}
			tree_path(t, found, a->hop[a->n_hops++], PATH_MAX);
			if (found->target[0] == '/')
				at = t->slash;
			next.n = 0;
			todo_add(&next, found->target, false);
			/* A slash at the end of the link's target that is now within the path no
			 * longer counts as one at the end, but is not lost either. */
			memcpy(next.token + next.n, list.token + i + 1,
			    (list.n - i - 1) * sizeof(list.token[0]));
			next.n += list.n - i - 1;
			memcpy(list.token, next.token, next.n * sizeof(next.token[0]));
			list.n = next.n;
			i = (size_t)-1;
			continue;
		}
		if (!last && found->type != DIRECTORY) {
			a->verdict = NOT_A_DIRECTORY;
			return;
		}
		at = found;
	}
	if (below[0] != '\0') {
		tree_path(t, at, a->parent, sizeof(a->parent));
		snprintf(a->path, sizeof(a->path), "%s%s", at == t->slash ? "" : a->parent, below);
		a->verdict = ABSENT;
		return;
	}
	if (a->wants_dir && at->type != DIRECTORY) {
		a->verdict = NOT_A_DIRECTORY;
		return;
	}
	tree_path(t, at, a->path, sizeof(a->path));
	tree_path(t, at->parent, a->parent, sizeof(a->parent));
	a->type = at->type;
	a->verdict = FOUND;
}

/* ---- random trees and paths ---- */

/* Few names, so that they collide; odd enough that no directory above the test's own has them. */
static const char *const names[] = { "qa", "qb", "qc", "qd", "q..", "...", "q\xff\n" };

static const char *
any_name(struct rng *r)
{
	return names[rng_below(r, N_ELEMENTS(names))];
}

static void
any_steps(struct rng *r, char *buf, size_t size, bool mostly_down)
{
	unsigned n = 1 + rng_below(r, 5);

	for (unsigned i = 0; i < n; i++) {
		unsigned x = rng_below(r, 12);
		const char *step = x < 1 ? "." : x < (mostly_down ? 3u : 5u) ? ".." : any_name(r);
		size_t len = strlen(buf);

		snprintf(buf + len, size - len, "%s%s", step,
		    i + 1 < n                  ? (rng_below(r, 10) == 0 ? "//" : "/")
			: rng_below(r, 8) == 0 ? "/"
					       : "");
	}
}

static void
any_path(struct tree *t, struct rng *r, char *buf, size_t size, bool mostly_down)
{
	unsigned x = rng_below(r, 10);
	char from[PATH_MAX];

	buf[0] = '\0';
	if (x < 3) {
		/* Absolute: starts at the directory that holds inside and outside, or at one of
		 * the two. */
		tree_path(t, x == 0 ? t->base : x == 1 ? t->root : t->out, from, sizeof(from));
		assert_true((size_t)snprintf(buf, size, "%s/", from) < size);
	}
	any_steps(r, buf + strlen(buf), size - strlen(buf), mostly_down);
}

static void
tree_grow(struct tree *t, struct rng *r, const char *base)
{
	char path[PATH_MAX], *p = path, *name;

	t->n = 0;
	t->slash = tree_add(t, NULL, DIRECTORY, "");
	t->base = t->slash;
	snprintf(path, sizeof(path), "%s", base);
	while ((name = strtok_r(p, "/", &p)) != NULL)
		t->base = tree_add(t, t->base, DIRECTORY, name);
	t->root = tree_add(t, t->base, DIRECTORY, "root");
	t->out = tree_add(t, t->base, DIRECTORY, "out");
	for (unsigned i = 0; i < NODES_MAX; i++) {
		size_t first = (size_t)(t->root - t->node);
		struct node *parent = &t->node[first + rng_below(r, (unsigned)(t->n - first))], *n;
		const char *new_name = any_name(r);
		unsigned x = rng_below(r, 10);

		if (parent->type != DIRECTORY || tree_find(t, parent, new_name) != NULL)
			continue;
		n = tree_add(t, parent, x < 4 ? DIRECTORY : x < 6 ? REGULAR : LINK, new_name);
		if (n->type == LINK)
			any_path(t, r, n->target, sizeof(n->target), false);
	}
}

static void
tree_make(struct tree *t)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < t->n; i++) {
		const struct node *n = &t->node[i];

		if (n < t->root)
			continue;
		tree_path(t, n, path, sizeof(path));
		if (n->type == DIRECTORY)
			assert_int_equal(mkdir(path, 0755), 0);
		else if (n->type == REGULAR)
			proof_put(path, "x");
		else
			assert_int_equal(symlink(n->target, path), 0);
	}
}

/* ---- comparison ---- */

struct variant {
	const char *label;
	unsigned flags;
	bool no_openat2;
};

static const struct variant variants[] = {
	{ "openat2", 0, false },
	{ "openat2, parent", RESOLVE_PARENT, false },
	{ "openat2, link itself", RESOLVE_LINK_ITSELF, false },
	{ "openat2, link itself, parent", RESOLVE_LINK_ITSELF | RESOLVE_PARENT, false },
	{ "walk", 0, true },
	{ "walk, parent", RESOLVE_PARENT, true },
	{ "walk, link itself", RESOLVE_LINK_ITSELF, true },
	{ "walk, link itself, parent", RESOLVE_LINK_ITSELF | RESOLVE_PARENT, true },
};

static enum verdict
verdict_of(int r, const struct place *pl, const struct koda_error *err)
{
	if (r == 0)
		return pl->target_fd >= 0 ? FOUND : ABSENT;
	if (err->code == KODA_IO && err->errnum == ENOTDIR)
		return NOT_A_DIRECTORY;
	if (err->code == KODA_POLICY_DENIED && strcmp(err->rule, "link_depth") == 0)
		return TOO_MANY_LINKS;
	if (err->code == KODA_INVALID && strstr(err->message, "missing") != NULL)
		return UP_BEHIND_MISSING;
	if (err->code == KODA_INVALID && strstr(err->message, "above") != NULL)
		return ABOVE_ROOT;
	fail_msg("neither of the outcomes that can be: %d %s", (int)err->code, err->message);
	return FOUND;
}

static void
fd_path(int fd, char *ret)
{
	char name[64];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, ret, PATH_MAX - 1);
	assert_true(n > 0);
	ret[n] = '\0';
}

static void
check_place(const struct answer *a, const struct place *pl, const struct variant *v)
{
	static const mode_t
	    modes[] = { [DIRECTORY] = S_IFDIR, [REGULAR] = S_IFREG, [LINK] = S_IFLNK };
	char now[PATH_MAX];

	assert_string_equal(pl->path, a->path);
	assert_int_equal(pl->wants_dir, a->wants_dir);
	assert_int_equal(pl->n_hops, a->n_hops);
	for (size_t i = 0; i < a->n_hops; i++)
		assert_string_equal(pl->hop[i], a->hop[i]);
	if (a->verdict == FOUND) {
		assert_int_equal(pl->st.st_mode & S_IFMT, modes[a->type]);
		fd_path(pl->target_fd, now);
		assert_string_equal(now, a->path);
	}
	if ((v->flags & RESOLVE_PARENT) != 0) {
		char joined[2 * PATH_MAX];

		assert_true(pl->parent_fd >= 0);
		fd_path(pl->parent_fd, now);
		assert_string_equal(now, a->parent);
		if (strcmp(a->path, "/") != 0) {
			snprintf(joined, sizeof(joined), "%s/%s", strcmp(now, "/") == 0 ? "" : now,
			    pl->name);
			assert_string_equal(joined, a->path);
		}
		if (a->verdict == FOUND)
			assert_int_equal(pl->missing[0], '\0');
	}
}

/* The kernel, without the sandbox's limits: it must find what the resolver finds. */
static void
check_kernel(const struct answer *a, const struct place *pl, int root_fd, const char *path,
    const struct variant *v)
{
	const bool slash = path[strlen(path) - 1] == '/';
	cleanup_close int fd = -1;
	struct stat st;

	/* For a path with a slash at its end the kernel follows the link that the resolver was
	 * told to leave. */
	if ((v->flags & RESOLVE_LINK_ITSELF) != 0 && slash)
		return;
	fd = openat(root_fd, path,
	    O_PATH | O_CLOEXEC | ((v->flags & RESOLVE_LINK_ITSELF) != 0 ? O_NOFOLLOW : 0));
	if (a->verdict == FOUND) {
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_ino, pl->st.st_ino);
		assert_int_equal(st.st_dev, pl->st.st_dev);
	} else if (a->verdict == ABSENT || a->verdict == NOT_A_DIRECTORY) {
		assert_true(fd < 0);
	}
}

static uint64_t seed;

static void
check_variant(void **state)
{
	const struct variant *v = *state;
	static struct tree tree;
	static struct answer want;
	struct rng rng = { seed };
	uint64_t tally[N_ELEMENTS(verdict_names)] = { 0 };
	const uint64_t trees = proof_number("KODA_PROPERTY_TREES", TREES);

	for (uint64_t i = 0; i < trees; i++) {
		char base[PATH_MAX], root[PATH_MAX], path[PATH_MAX];
		cleanup_close int root_fd = -1, proc_fd = -1;
		struct resolver r = { .no_openat2 = v->no_openat2 };

		proof_mkdtemp(base);
		tree_grow(&tree, &rng, base);
		tree_make(&tree);
		tree_path(&tree, tree.root, root, sizeof(root));
		root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(root_fd >= 0 && proc_fd >= 0);
		r.root = root;
		r.root_fd = root_fd;
		r.proc_fd = proc_fd;
		for (unsigned k = 0; k < PATHS; k++) {
			cleanup(place_done) struct place pl;
			struct koda_error err = { 0 };
			enum verdict got;
			int ret;

			place_init(&pl);
			r.depth = rng_below(&rng, 4) == 0 ? rng_below(&rng, 4) : 40;
			any_path(&tree, &rng, path, sizeof(path), true);
			model(&tree, path, v->flags, r.depth, &want);
			ret = resolve(&r, (const uint8_t *)path, strlen(path), v->flags, &pl, &err);
			got = verdict_of(ret, &pl, &err);
			tally[want.verdict]++;
			if (got != want.verdict || (ret == 0 && strcmp(pl.path, want.path) != 0))
				fail_msg(
				    "'%s' below '%s', depth %u: %s '%s', but the model says %s '%s'",
				    path, root, r.depth, verdict_names[got], pl.path,
				    verdict_names[want.verdict], want.path);
			if (ret < 0) {
				assert_int_equal(pl.target_fd, -1);
				assert_int_equal(pl.parent_fd, -1);
			} else {
				check_place(&want, &pl, v);
			}
			check_kernel(&want, &pl, root_fd, path, v);
		}
		proof_rmtree(base);
	}
	/* A generator that never produces an outcome proves nothing about it. */
	for (size_t i = 0; i < N_ELEMENTS(tally); i++) {
		if (tally[i] * 500 < trees * PATHS)
			fail_msg("only %llu of %llu paths: %s", (unsigned long long)tally[i],
			    (unsigned long long)(trees * PATHS), verdict_names[i]);
	}
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(variants)];

	seed = proof_seed();
	for (size_t i = 0; i < N_ELEMENTS(variants); i++)
		tests[i] = (struct CMUnitTest){ variants[i].label, check_variant, NULL, NULL,
			(void *)(uintptr_t)&variants[i] };
	return cmocka_run_group_tests_name("resolve_property", tests, NULL, NULL);
}
