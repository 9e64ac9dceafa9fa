/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/walk against the programs whose rules it follows, over random trees that are really on
 * the disk: what git lists of a work tree (ignore rules of every form that git reads), and what
 * ripgrep lists, with random options, globs and types (only with rules that git and ripgrep read
 * alike). Many trees share one directory, so that one process of the peer handles them all.
 */
#include "tests/kit/proof.h"

#include "search/walk.h"
#include "search/walk_rules.h"
#include "shared/base/filetypes.h"

/* The whole test takes a few seconds on a file system that creates a thousand files in one of
 * them. KODA_WALK_TREES. */
#define TREES 30
/* They list many files, whatever the excludes files say. */
#define MANY_TREES 500
#define PER_BATCH  30
#define LISTS_MAX  (1u << 20)

static const char *const plain_names[] = { "a", "b", "c", "ab", "a.c", "b.h", "c.py", ".a", ".b.c",
	"x.y.z", "A", "B.C", "ba" };
static const char *const hostile_names[] = { "a", "b", "ab", "a.c", ".a", ".b.c", "x.y.z", "a*",
	"[a]", "a\\b", "#a", "!a", "a ", " a", "a\nb", "\xff", "\xc3\xa9", "-", "a]", "{a,b}" };

struct world {
	struct rng r;
	char root[PATH_MAX], home[PATH_MAX];
	bool hostile, rgignores;
	char global[1024];
};

/* ---- lists of paths ---- */

struct list {
	char *text;
	size_t len;
	const char **path;
	size_t n;
};

static void
list_add(struct list *l, const char *path, size_t len)
{
	assert_true(l->len + len + 1 <= LISTS_MAX);
	memcpy(l->text + l->len, path, len);
	l->text[l->len + len] = '\0';
	l->len += len + 1;
}

static void
list_done(struct list *l)
{
	free(l->text);
	free(l->path);
	*l = (struct list){ .text = NULL };
}

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
list_split(struct list *l, bool sort)
{
	l->path = calloc(l->len + 1, sizeof(*l->path));
	assert_non_null(l->path);
	for (size_t i = 0; i < l->len; i += strlen(l->text + i) + 1)
		l->path[l->n++] = l->text + i;
	if (sort)
		qsort(l->path, l->n, sizeof(*l->path), by_bytes);
}

/* ---- the peers ---- */

static void
run_peer(const struct world *w, const char *cwd, const char *const *argv, struct list *ret)
{
	int pipe_fds[2], status;
	pid_t pid;
	ssize_t n;

	*ret = (struct list){ .text = malloc(LISTS_MAX) };
	assert_non_null(ret->text);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("HOME", w->home, 1);
		setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
		unsetenv("XDG_CONFIG_HOME");
		unsetenv("RIPGREP_CONFIG_PATH");
		if (chdir(cwd) == 0 && dup2(pipe_fds[1], STDOUT_FILENO) == STDOUT_FILENO)
			execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pipe_fds[1]);
	while ((n = read(pipe_fds[0], ret->text + ret->len, LISTS_MAX - ret->len)) > 0)
		ret->len += (size_t)n;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* ripgrep exits with 1 if it found nothing. */
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		fail_msg("%s failed: %x", argv[0], (unsigned)status);
	assert_true(ret->len < LISTS_MAX);
	list_split(ret, true);
}

/* ---- the walk ---- */

struct told {
	struct list list;
	/* Also report what is neither a file nor a directory. */
	bool links;
	unsigned depth;
};

static bool
all_readable(void *data, const char *path, bool is_dir)
{
	return true;
}

static int
on_enter(void *data, const struct walk_entry *e)
{
	struct told *t = data;

	assert_int_equal(t->depth++, e->depth);
	return 0;
}

static int
on_leave(void *data, const struct walk_entry *e)
{
	struct told *t = data;

	assert_int_equal(--t->depth, e->depth);
	return 0;
}

static int
on_file(void *data, const struct walk_entry *e)
{
	struct told *t = data;

	assert_int_equal(e->depth, t->depth);
	assert_int_equal(strlen(e->path), e->len);
	assert_int_equal(faccessat(e->dir_fd, e->name, F_OK, AT_SYMLINK_NOFOLLOW), 0);
	/* git does not list its own directory. */
	if (t->links && strncmp(e->path, ".git/", 5) == 0)
		return 0;
	if (e->type == DT_REG || t->links)
		list_add(&t->list, e->path, e->len);
	return 0;
}

static void
on_trouble(void *data, const struct walk_entry *e, int errnum)
{
	fail_msg("'%s': %s", e->path, strerror(errnum));
}

static void
run_walk(const struct walk_rules_options *o, const struct walk_place *place, bool links,
    struct list *ret)
{
	struct told t = { .list = { .text = malloc(LISTS_MAX) }, .links = links };
	const struct walk_hooks hooks = { .data = &t,
		.readable = all_readable,
		.enter = on_enter,
		.leave = on_leave,
		.file = on_file,
		.trouble = on_trouble };
	struct walk_counts counts = { 0 };
	struct koda_error err = { 0 };
	struct walk_rules *rules = walk_rules_new(o, &err);

	if (rules == NULL)
		fail_msg("%s", err.message);
	assert_non_null(t.list.text);
	assert_int_equal(walk(rules, place, &hooks, &counts, &err), 0);
	assert_int_equal(t.depth, 0);
	assert_int_equal(counts.hidden, 0);
	walk_rules_free(rules);
	list_split(&t.list, false);
	for (size_t i = 1; i < t.list.n; i++)
		assert_true(strcmp(t.list.path[i - 1], t.list.path[i]) < 0);
	*ret = t.list;
}

/* Prints all ignore files on the way to a path, to help find the cause of a failure. */
static void
show_rules(const char *root, const char *path)
{
	static const char *const names[] = { ".gitignore", ".ignore", ".rgignore",
		".git/info/exclude" };

	for (size_t i = 0; path[i] != '\0'; i++) {
		if (i > 0 && path[i] != '/')
			continue;
		for (size_t k = 0; k < N_ELEMENTS(names); k++) {
			const char *file = proof_path("%s/%.*s/%s", root, (int)i, path, names[k]);
			cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
			char text[2048] = "";

			if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
				fprintf(stderr, "# %.*s/%s:\n%s\n", (int)i, path, names[k], text);
		}
	}
}

static size_t
compare(const char *root, const struct list *got, const struct list *want, const char *what)
{
	for (size_t i = 0; i < got->n || i < want->n; i++) {
		int r = i == got->n ? 1 : i == want->n ? -1 : strcmp(got->path[i], want->path[i]);

		if (r != 0) {
			const char *path = r < 0 ? got->path[i] : want->path[i];

			show_rules(root, path);
			fail_msg("%s: '%s' is told by %s", what, path,
			    r < 0 ? "us alone" : "the peer alone");
		}
	}
	return got->n;
}

/* ---- rules ---- */

static const char *
random_name(struct world *w)
{
	return w->hostile ? hostile_names[rng_below(&w->r, N_ELEMENTS(hostile_names))]
			  : plain_names[rng_below(&w->r, N_ELEMENTS(plain_names))];
}

/* Writes only rules that git and ripgrep read alike. */
static void
plain_component(struct world *w, char *ret, size_t size)
{
	static const char *const globs[] = { "*", "*.c", "*.h", "a*", "?", "[ab]", "[a-c]*", "*.*",
		"*b", ".*", "?.*", "*a*", "*.y.z", "a\\b" };

	if (rng_below(&w->r, 2) == 0) {
		snprintf(ret, size, "%s", random_name(w));
	} else {
		snprintf(ret, size, "%s", globs[rng_below(&w->r, N_ELEMENTS(globs))]);
	}
}

static void
hostile_component(struct world *w, char *ret, size_t size)
{
	static const char *const pieces[] = { "a", "b", "*", "**", "?", "[ab]", "[!a]", "[^b]",
		"[a-b]", "[]a]", "[a-]", "\\a", "\\*", "\\", "[", "[[:alpha:]]", "[[:foo:]]", " ",
		"\\ ", "]", "#", "!", "{a,b}", "***", "[b-a]", ".", ".c", "[b/a]", "\\/", "\xff",
		"\r", "[\\]a]" };
	const unsigned n = 1 + rng_below(&w->r, 3);

	if (rng_below(&w->r, 3) == 0) {
		plain_component(w, ret, size);
		return;
	}
	ret[0] = '\0';
	for (unsigned i = 0; i < n; i++)
		strcat(ret, pieces[rng_below(&w->r, N_ELEMENTS(pieces))]);
}

static void
random_rule(struct world *w, char ret[256])
{
	const unsigned components = 1 + (rng_below(&w->r, 3) == 0 ? 1 + rng_below(&w->r, 2) : 0);
	char one[64];

	ret[0] = '\0';
	strcat(ret, rng_below(&w->r, 4) == 0 ? "!" : "");
	strcat(ret, rng_below(&w->r, 6) == 0 ? "/" : "");
	for (unsigned i = 0; i < components; i++) {
		strcat(ret, i > 0 ? "/" : "");
		if (components > 1 && rng_below(&w->r, 3) == 0) {
			strcat(ret, "**");
			continue;
		}
		if (w->hostile) {
			hostile_component(w, one, sizeof(one));
		} else {
			plain_component(w, one, sizeof(one));
		}
		strcat(ret, one);
	}
	strcat(ret, rng_below(&w->r, 5) == 0 ? "/" : "");
}

static void
random_rules(struct world *w, char *ret, size_t size)
{
	const unsigned n = 1 + rng_below(&w->r, 5);
	size_t len = 0;

	if (w->hostile && rng_below(&w->r, 20) == 0)
		len += (size_t)snprintf(ret, size, "\xef\xbb\xbf");
	for (unsigned i = 0; i < n; i++) {
		char rule[256];
		const char *end = "\n";

		random_rule(w, rule);
		if (rng_below(&w->r, 10) == 0)
			snprintf(rule, sizeof(rule), "# nothing");
		if (w->hostile && rng_below(&w->r, 5) == 0)
			end = rng_below(&w->r, 2) == 0 ? "  \n" : "\r\n";
		/* The last line may lack its newline. */
		if (i + 1 == n && rng_below(&w->r, 4) == 0)
			end = "";
		len += (size_t)snprintf(ret + len, size - len, "%s%s", rule, end);
		assert_true(len < size);
	}
}

/* ---- trees ---- */

static void
put_rules(struct world *w, const char *dir, const char *name)
{
	char rules[2048];

	random_rules(w, rules, sizeof(rules));
	proof_put(proof_path("%s/%s", dir, name), rules);
}

static void
make_repository(struct world *w, const char *dir)
{
	if (mkdir(proof_path("%s/.git", dir), 0755) < 0)
		return;
	assert_int_equal(mkdir(proof_path("%s/.git/info", dir), 0755), 0);
	if (rng_below(&w->r, 2) == 0)
		put_rules(w, dir, ".git/info/exclude");
}

static void
make_tree(struct world *w, const char *dir, unsigned depth)
{
	const unsigned n = 2 + rng_below(&w->r, 5);
	char path[PATH_MAX];

	for (unsigned i = 0; i < n; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", dir, random_name(w));
		if (lstat(path, &st) == 0)
			continue;
		if (depth > 0 && rng_below(&w->r, 2) == 0) {
			assert_int_equal(mkdir(path, 0755), 0);
			make_tree(w, path, depth - 1);
		} else if (rng_below(&w->r, 12) == 0) {
			assert_int_equal(symlink(".", path), 0);
		} else {
			proof_put(path, "");
		}
	}
	if (rng_below(&w->r, depth == 3 ? 2 : 4) == 0)
		put_rules(w, dir, ".gitignore");
	if (w->hostile)
		return;
	if (rng_below(&w->r, 6) == 0)
		put_rules(w, dir, ".ignore");
	if (w->rgignores && rng_below(&w->r, 8) == 0)
		put_rules(w, dir, ".rgignore");
	if (rng_below(&w->r, 8) == 0)
		make_repository(w, dir);
}

static void
make_batch(struct world *w)
{
	proof_mkdtemp(w->home);
	snprintf(w->root, sizeof(w->root), "%s", proof_path("%s/root", w->home));
	assert_int_equal(mkdir(w->root, 0755), 0);
	/* Rules with a slash in these files start at the top of the work tree for git and the
	 * walk, but at the start directory for ripgrep. */
	do {
		random_rules(w, w->global, sizeof(w->global));
	} while (!w->hostile && strchr(w->global, '/') != NULL);
	assert_int_equal(mkdir(proof_path("%s/.config", w->home), 0755), 0);
	assert_int_equal(mkdir(proof_path("%s/.config/git", w->home), 0755), 0);
	proof_put(proof_path("%s/.config/git/ignore", w->home), w->global);
	for (unsigned i = 0; i < PER_BATCH; i++) {
		char tree[PATH_MAX];

		snprintf(tree, sizeof(tree), "%s", proof_path("%s/t%u", w->root, i));
		assert_int_equal(mkdir(tree, 0755), 0);
		make_tree(w, tree, 3);
	}
}

/* ---- git ---- */

static size_t
one_batch_of_git(struct world *w)
{
	static const char *const init[] = { "git", "init", "-q", "--template=", NULL };
	static const char *const ls[] = { "git", "ls-files", "-co", "--exclude-standard", "-z",
		NULL };
	const struct walk_rules_options o = { .flags = KODA_SEARCH_HIDDEN,
		.global = w->global,
		.global_len = strlen(w->global) };
	cleanup(list_done) struct list nothing = { .text = NULL }, want = { .text = NULL },
				       got = { .text = NULL };
	struct walk_place place = { .path = w->root };
	size_t n;

	run_peer(w, w->root, init, &nothing);
	if (rng_below(&w->r, 2) == 0) {
		assert_int_equal(mkdir(proof_path("%s/.git/info", w->root), 0755), 0);
		put_rules(w, w->root, ".git/info/exclude");
	}
	run_peer(w, w->root, ls, &want);
	place.fd = open(w->root, O_PATH | O_CLOEXEC);
	run_walk(&o, &place, true, &got);
	close(place.fd);
	n = compare(w->root, &got, &want, "git");
	return n;
}

static void
test_git(void **state)
{
	const uint64_t trees = proof_number("KODA_WALK_TREES", TREES);
	struct world w = { .r = { proof_seed() }, .hostile = true };
	size_t n = 0;

	for (uint64_t done = 0; done < trees; done += PER_BATCH) {
		make_batch(&w);
		n += one_batch_of_git(&w);
		proof_rmtree(w.home);
	}
	fprintf(stderr, "# %lu trees, %zu files told\n", (unsigned long)trees, n);
	/* With only a few trees one excludes file may leave nothing. */
	assert_true(trees < MANY_TREES || n > trees);
}

/* ---- ripgrep ---- */

#define ARGS_MAX 48

struct asked {
	struct walk_rules_options options;
	const char *glob[4], *type[2], *type_not[2];
	char text[4][320];
	const char *argv[ARGS_MAX];
	size_t n;
};

static void
arg(struct asked *a, const char *word)
{
	assert_true(a->n + 1 < ARGS_MAX);
	a->argv[a->n++] = word;
	a->argv[a->n] = NULL;
}

static void
random_flags(struct world *w, struct asked *a)
{
	static const struct {
		unsigned flags;
		const char *word;
	} flags[] = {
		{ KODA_SEARCH_HIDDEN, "--hidden" },
		{ KODA_SEARCH_NO_DOT_IGNORE, "--no-ignore-dot" },
		{ KODA_SEARCH_NO_EXCLUDE, "--no-ignore-exclude" },
		{ KODA_SEARCH_NO_GLOBAL, "--no-ignore-global" },
		{ KODA_SEARCH_NO_GITIGNORE | KODA_SEARCH_NO_EXCLUDE | KODA_SEARCH_NO_GLOBAL,
		    "--no-ignore-vcs" },
		{ KODA_SEARCH_NO_PARENTS, "--no-ignore-parent" },
		{ KODA_SEARCH_NO_REQUIRE_GIT, "--no-require-git" },
	};

	for (size_t i = 0; i < N_ELEMENTS(flags); i++) {
		if (rng_below(&w->r, 4) != 0)
			continue;
		/* ripgrep still reads .rgignore then, whatever other options say. */
		if (flags[i].flags == KODA_SEARCH_NO_DOT_IGNORE && w->rgignores)
			continue;
		a->options.flags |= flags[i].flags;
		arg(a, flags[i].word);
	}
	if (rng_below(&w->r, 6) == 0) {
		static const char *const depths[] = { "1", "2", "3" };

		a->options.max_depth = 1 + rng_below(&w->r, 3);
		arg(a, "--max-depth");
		arg(a, depths[a->options.max_depth - 1]);
	}
}

/* ripgrep reads a negated class, nested braces and an empty alternative differently, or refuses
 * them. */
static void
random_glob(struct world *w, char ret[320])
{
	static const char *const braces[] = { "*.{c,h}", "{a,b}*", "!*.{c,py}", "**/{a,b,c}/*",
		"/t{1,2}*/**", "{a/b,c}", "[ab].{c,h}" };

	if (rng_below(&w->r, 4) == 0) {
		snprintf(ret, 320, "%s", braces[rng_below(&w->r, N_ELEMENTS(braces))]);
	} else {
		random_rule(w, ret);
	}
}

static void
random_selection(struct world *w, struct asked *a)
{
	static const char *const types[] = { "c", "py", "h", "cpp", "sh" };
	const bool ignore_case = rng_below(&w->r, 4) == 0;

	a->options.globs = a->glob;
	a->options.types = a->type;
	a->options.types_not = a->type_not;
	a->options.flags |= ignore_case ? KODA_SEARCH_GLOB_IGNORE_CASE : 0;
	for (unsigned i = rng_below(&w->r, 2) == 0 ? rng_below(&w->r, 4) : 0; i > 0; i--) {
		char *text = a->text[a->options.n_globs];

		random_glob(w, text);
		a->glob[a->options.n_globs++] = text;
		arg(a, ignore_case ? "--iglob" : "--glob");
		arg(a, text);
	}
	if (rng_below(&w->r, 5) == 0) {
		a->type[a->options.n_types++] = types[rng_below(&w->r, N_ELEMENTS(types))];
		arg(a, "-t");
		arg(a, a->type[0]);
	}
	if (rng_below(&w->r, 8) == 0) {
		a->type_not[a->options.n_types_not++] = types[rng_below(&w->r, N_ELEMENTS(types))];
		arg(a, "-T");
		arg(a, a->type_not[0]);
	}
}

static char *
text_of(const char *dir, const char *name, size_t *ret_len)
{
	cleanup_close int fd = open(proof_path("%s/%s", dir, name), O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	ssize_t n;

	if (fd < 0)
		return NULL;
	text = malloc(4096);
	assert_non_null(text);
	n = read(fd, text, 4096);
	if (n < 0) {
		free(text);
		return NULL;
	}
	*ret_len = (size_t)n;
	return text;
}

/* Adds all directories above the path, with their ignore files, to the place. */
static void
find_parents(const char *path, struct walk_place *place, struct walk_parent parents[64])
{
	for (const char *s = path; (s = strchr(s, '/')) != NULL; s++) {
		struct walk_parent *p = &parents[place->n_parents++];
		const size_t len = s == path ? 1 : (size_t)(s - path);

		assert_true(place->n_parents <= 64);
		*p = (struct walk_parent){ .path = strndup(path, len) };
		p->gitignore = text_of(p->path, ".gitignore", &p->gitignore_len);
		p->ignore = text_of(p->path, ".ignore", &p->ignore_len);
		p->rgignore = text_of(p->path, ".rgignore", &p->rgignore_len);
		p->exclude = text_of(p->path, ".git/info/exclude", &p->exclude_len);
		p->is_worktree = access(proof_path("%s/.git", p->path), F_OK) == 0;
		place->in_repository |= p->is_worktree;
	}
	place->parents = parents;
}

static void
free_parents(struct walk_parent *parents, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((char *)(uintptr_t)parents[i].path);
		free((char *)(uintptr_t)parents[i].gitignore);
		free((char *)(uintptr_t)parents[i].ignore);
		free((char *)(uintptr_t)parents[i].rgignore);
		free((char *)(uintptr_t)parents[i].exclude);
	}
}

static size_t
one_search(struct world *w, const char *root)
{
	struct asked a = { .n = 0 };
	cleanup(list_done) struct list want = { .text = NULL }, got = { .text = NULL };
	struct walk_place place = { .path = root };
	struct walk_parent parents[64];
	char what[1024] = "";

	a.options.global = w->global;
	a.options.global_len = strlen(w->global);
	arg(&a, "rg");
	arg(&a, "--no-config");
	arg(&a, "-j1");
	arg(&a, "--files");
	arg(&a, "--null");
	random_flags(w, &a);
	random_selection(w, &a);
	for (size_t i = 0; i < a.n; i++)
		snprintf(what + strlen(what), sizeof(what) - strlen(what), "%s ", a.argv[i]);
	run_peer(w, root, a.argv, &want);
	find_parents(root, &place, parents);
	place.fd = open(root, O_PATH | O_CLOEXEC);
	run_walk(&a.options, &place, false, &got);
	close(place.fd);
	free_parents(parents, place.n_parents);
	return compare(root, &got, &want, what);
}

/* Chooses the directory above all trees, or one within them. */
static void
choose_root(struct world *w, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s", w->root);
	for (unsigned depth = rng_below(&w->r, 4); depth > 0; depth--) {
		const size_t len = strlen(ret);
		struct stat st;

		snprintf(ret + len, PATH_MAX - len, "/%s",
		    strcmp(ret, w->root) == 0 ? "t0" : random_name(w));
		if (lstat(ret, &st) < 0 || !S_ISDIR(st.st_mode))
			ret[len] = '\0';
	}
}

static void
test_ripgrep(void **state)
{
	const uint64_t trees = proof_number("KODA_WALK_TREES", TREES);
	struct world w = { .r = { proof_seed() } };
	size_t n = 0, searches = 0;
	char root[PATH_MAX];

	for (uint64_t done = 0; done < trees; done += PER_BATCH) {
		w.rgignores = rng_below(&w.r, 2) == 0;
		make_batch(&w);
		if (rng_below(&w.r, 3) == 0)
			make_repository(&w, w.root);
		for (unsigned i = 0; i < PER_BATCH; i++, searches++) {
			choose_root(&w, root);
			n += one_search(&w, root);
		}
		proof_rmtree(w.home);
	}
	fprintf(stderr, "# %lu trees, %zu searches, %zu files told\n", (unsigned long)trees,
	    searches, n);
	/* With only a few trees one excludes file may leave nothing. */
	assert_true(trees < MANY_TREES || n > trees);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_git),
		cmocka_unit_test(test_ripgrep),
	};

	return cmocka_run_group_tests_name("walk_property", tests, NULL, NULL);
}
