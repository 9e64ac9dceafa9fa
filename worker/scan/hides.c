#include "worker/scan/hides.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "worker/scan/gitindex.h"
#include "worker/scan/plant.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_results.h"
#include "worker/scan/scan_state.h"

/* People write these patterns by hand. A larger file is not read. */
#define TEXT_MAX (1u << 20)
/* Enough for the refs of a large project, in one file. */
#define PACKED_MAX (32u << 20)
/* Repositories to remember. Nothing is reported about any further ones. */
#define HIDES_REPOS_MAX 4096

/* What is hidden: the number of things, and a checksum of them that does not depend on their
 * order. */
struct sum {
	uint64_t n, names;
	/* Something is there, but cannot be read. */
	bool unread;
};

enum kind { LINES, INDEX, NAMED, REPLACE, PACKED };

static const struct row {
	const char *name; /* path in the git directory */
	enum kind kind;
	const char *tells; /* text after the number */
	bool usual;        /* not reported in a new repository: a clone may be asked to do this */
} rows[] = {
	{ "index", INDEX,
	    "files marked skip-worktree or assume-unchanged in the index, which git does not "
	    "check: `git ls-files -v` shows them",
	    false },
	{ "index", NAMED,
	    "protected files whose content in the index changed: `git diff --cached` shows them, "
	    "`git checkout` and `git stash` write them",
	    true },
	{ "info/exclude", LINES, "patterns of files to ignore: `git status --ignored` shows them",
	    false },
	{ "info/attributes", LINES,
	    "patterns that say how files are compared: `git diff --text --no-textconv` shows them whole",
	    false },
	{ "info/sparse-checkout", LINES,
	    "patterns that limit what is checked out: `git ls-files -v` shows what is not", true },
	{ "info/grafts", LINES,
	    "commits with replaced parents: `GIT_GRAFT_FILE=/dev/null git log` shows them", false },
	{ "shallow", LINES,
	    "commits whose parents are left out: `git fetch --unshallow` brings them", true },
	{ "refs/replace", REPLACE,
	    "replaced objects: `git replace` lists them, `git --no-replace-objects` ignores them",
	    false },
	{ "packed-refs", PACKED,
	    "replaced objects: `git replace` lists them, `git --no-replace-objects` ignores them",
	    false },
};

struct hiding_repo {
	char *dir;
	struct {
		struct stamp stamp;
		struct sum sum;
	} row[N_ELEMENTS(rows)];
};

struct hides {
	struct hiding_repo *repo;
	size_t n, size;
};

struct hides *
hides_new(void)
{
	return calloc(1, sizeof(struct hides));
}

void
hides_free(struct hides *h)
{
	for (size_t i = 0; h != NULL && i < h->n; i++)
		free(h->repo[i].dir);
	if (h != NULL)
		free(h->repo);
	free(h);
}

/* ---- checksums ---- */

static void
add(struct sum *s, const char *text, size_t len)
{
	uint64_t x = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		x = (x ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	s->n++;
	s->names += x ^ x >> 29;
}

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	if (e->hidden)
		add(data, e->path, e->len);
}

struct named {
	const struct scan *sc;
	struct sum *sum;
};

static bool
may_be_named(const struct scan *sc, const char *path)
{
	char name[NAME_LEN_MAX + 1];

	for (size_t n; *path != '\0'; path += n + (path[n] == '/' ? 1 : 0)) {
		n = strcspn(path, "/");
		if (n > NAME_LEN_MAX)
			continue;
		memcpy(name, path, n);
		name[n] = '\0';
		if (names_index_may(sc->by_name, name))
			return true;
	}
	return false;
}

/* Adds an entry that a checkout would write where commands may not. */
static void
on_named(void *data, const struct gitindex_entry *e)
{
	const struct named *n = data;
	char text[1 + PATH_LEN_MAX + GITINDEX_OBJECT_MAX + 1];
	int len;

	if (!may_be_named(n->sc, e->path))
		return;
	len = snprintf(text, PATH_LEN_MAX + 2, "/%s", e->path);
	if (len > PATH_LEN_MAX ||
	    names_rule_of(&n->sc->who->policy->list[KODA_DENY_WRITE_NAMES], text) == NULL)
		return;
	memcpy(text + len + 1, e->object, e->object_len);
	add(n->sum, text, (size_t)len + 1 + e->object_len);
}

static void
sum_index(int dir_fd, gitindex_fn *fn, void *data, struct sum *s)
{
	struct gitindex_base base = { 0 };
	char name[sizeof("sharedindex.") + 64] = "sharedindex.";
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir_fd, "index", GITINDEX_BYTES_MAX, &st, &len);
	cleanup_free char *shared = NULL;

	if (text == NULL && errno == ENOENT)
		return;
	if (text == NULL || gitindex_parse((const uint8_t *)text, len, fn, data, &base) < 0) {
		s->unread = true;
		return;
	}
	if (base.len == 0)
		return;
	hex_put(name + strlen(name), base.name, base.len);
	shared = plant_read(dir_fd, name, GITINDEX_BYTES_MAX, &st, &len);
	if (shared == NULL || gitindex_parse((const uint8_t *)shared, len, fn, data, NULL) < 0)
		s->unread = true;
}

/* Adds the lines that have an effect; of packed-refs, only those of refs/replace. */
static void
sum_lines(int dir_fd, const struct row *row, struct sum *s)
{
	const bool packed = row->kind == PACKED;
	struct stat st;
	size_t len;
	cleanup_free char *text =
	    plant_read(dir_fd, row->name, packed ? PACKED_MAX : TEXT_MAX, &st, &len);
	const char *p = text, *end;

	if (text == NULL) {
		if (errno != ENOENT && errno != ENOTDIR)
			s->unread = true;
		return;
	}
	for (; p < text + len; p = end + 1) {
		size_t n;

		end = memchr(p, '\n', (size_t)(text + len - p));
		if (end == NULL)
			end = text + len;
		n = (size_t)(end - p);
		while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
			n--;
		if (n == 0 || p[0] == '#')
			continue;
		if (!packed || memmem(p, n, " refs/replace/", strlen(" refs/replace/")) != NULL)
			add(s, p, n);
	}
}

static void
sum_names(int dir_fd, const char *name, struct sum *s)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		close_at(&fd);
		return;
	}
	while (s->n < SCAN_CHANGES_MAX && (e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			add(s, e->d_name, strlen(e->d_name));
	}
}

static void
sum_of(const struct scan *sc, int dir_fd, const struct row *row, struct sum *s)
{
	struct named named = { sc, s };

	switch (row->kind) {
	case INDEX:
		sum_index(dir_fd, on_entry, s, s);
		return;
	case NAMED:
		sum_index(dir_fd, on_named, &named, s);
		return;
	case REPLACE:
		sum_names(dir_fd, row->name, s);
		return;
	case LINES:
	case PACKED:
		sum_lines(dir_fd, row, s);
		return;
	}
}

/* ---- comparing ---- */

static struct hiding_repo *
repo_at(struct hides *h, const char *dir)
{
	struct hiding_repo r = { 0 };

	for (size_t i = 0; i < h->n; i++) {
		if (strcmp(h->repo[i].dir, dir) == 0)
			return &h->repo[i];
	}
	if (h->n == HIDES_REPOS_MAX || scan_grow(&h->repo, h->n, &h->size, sizeof(r)) < 0)
		return NULL;
	r.dir = strdup(dir);
	if (r.dir == NULL)
		return NULL;
	h->repo[h->n] = r;
	return &h->repo[h->n++];
}

static void
tell(struct scan *sc, const char *dir, const struct row *row, const struct sum *s)
{
	char path[PATH_LEN_MAX + 32], detail[256];
	const size_t before = sc->n_changes;

	snprintf(path, sizeof(path), "%s/%s", dir, row->name);
	if (s->unread)
		snprintf(detail, sizeof(detail),
		    "git may not show every change: '%s' cannot be read here; a new clone does "
		    "not have it",
		    row->name);
	else
		snprintf(detail, sizeof(detail), "git may not show every change: %llu %s",
		    (unsigned long long)s->n, row->tells);
	if (strlen(path) > PATH_LEN_MAX)
		return;
	scan_tell(sc, KODA__CHANGE_KIND__CHANGE_HIDES, WHAT_PIN, path, NULL, detail);
	if (sc->n_changes > before)
		sc->change[before].rule = "git_hides";
}

static bool
is_news(const struct row *row, const struct sum *was, const struct sum *now, bool is_new)
{
	if ((now->n == 0 && !now->unread) || (is_new && row->usual))
		return false;
	return now->n != was->n || now->names != was->names || now->unread != was->unread;
}

static void
take(struct scan *sc, struct hides *h, const char *dir, bool told)
{
	const size_t known = h->n;
	struct hiding_repo *r = repo_at(h, dir);
	const bool is_new = h->n > known;
	cleanup_close int fd = r == NULL ? -1 : resolve_canonical_dir(sc->res, dir, strlen(dir));

	for (size_t i = 0; fd >= 0 && i < N_ELEMENTS(rows); i++) {
		struct stamp stamp = { 0 };
		struct sum sum = { 0 };
		struct stat st;

		if (fstatat(fd, rows[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			stamp_of(&st, &stamp);
		if (same_stamp(WHAT_CONFIG, &stamp, &r->row[i].stamp))
			continue;
		sum_of(sc, fd, &rows[i], &sum);
		if (told && is_news(&rows[i], &r->row[i].sum, &sum, is_new))
			tell(sc, dir, &rows[i], &sum);
		r->row[i].stamp = stamp;
		r->row[i].sum = sum;
	}
}

void
hides_learn(struct scan *sc, struct hides *h, const char *git_dir)
{
	take(sc, h, git_dir, false);
}

void
hides_compare(struct scan *sc, struct hides *h, const char *git_dir)
{
	take(sc, h, git_dir, true);
}
