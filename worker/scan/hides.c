/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/hides.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/hidden.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_results.h"
#include "worker/scan/scan_state.h"

/* Repositories to remember. Nothing is reported about any further ones. */
#define HIDES_REPOS_MAX 4096

struct hiding_repo {
	char *dir;
	struct {
		struct stamp stamp;
		struct hidden sum;
	} row[HIDDEN_ROWS];
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
tell(struct scan *sc, const char *dir, const struct hidden_row *row, const struct hidden *s)
{
	char path[PATH_LEN_MAX + 32], detail[HIDDEN_TEXT_SIZE];
	const size_t before = sc->n_changes;

	snprintf(path, sizeof(path), "%s/%s", dir, row->name);
	hidden_say(row, s, detail);
	if (strlen(path) > PATH_LEN_MAX)
		return;
	scan_tell(sc, KODA__CHANGE_KIND__CHANGE_HIDES, WHAT_PIN, path, NULL, detail);
	if (sc->n_changes > before)
		sc->change[before].rule = "git_hides";
}

static void
take(struct scan *sc, struct hides *h, const char *dir, bool told)
{
	const size_t known = h->n;
	struct hiding_repo *r = repo_at(h, dir);
	const bool is_new = h->n > known;
	const struct hidden_names names = { &sc->who->policy->list[KODA_DENY_WRITE_NAMES],
		sc->by_name };
	cleanup_close int fd = r == NULL ? -1 : resolve_canonical_dir(sc->res, dir, strlen(dir));

	for (size_t i = 0; fd >= 0 && i < HIDDEN_ROWS; i++) {
		struct stamp stamp = { 0 };
		struct hidden sum = { 0 };
		struct stat st;

		if (fstatat(fd, hidden_rows[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			stamp_of(&st, &stamp);
		if (same_stamp(WHAT_CONFIG, &stamp, &r->row[i].stamp))
			continue;
		hidden_count(&hidden_rows[i], &names, fd, -1, hidden_rows[i].name, &sum);
		if (told && hidden_is_news(&hidden_rows[i], &r->row[i].sum, &sum, is_new))
			tell(sc, dir, &hidden_rows[i], &sum);
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
