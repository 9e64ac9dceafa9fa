/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_hides.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "worker/draft/draft_git.h"
#include "worker/scan/hidden.h"

static bool
is_about(const struct hidden_row *row, const char *below)
{
	const size_t len = strlen(row->name);

	if (row->kind != HIDDEN_REPLACE)
		return strcasecmp(row->name, below) == 0;
	return strncasecmp(row->name, below, len) == 0 && below[len] == '/';
}

static void
count(struct draft_walk *w, const struct hidden_row *row, int dir, int other, struct hidden *ret)
{
	const struct hidden_names names = {
		&w->ses->policy.list[KODA_DENY_WRITE_NAMES],
		w->names,
	};

	hidden_count(row, &names, dir, other, w->name.name, ret);
}

static void
add_note(struct draft_change *c, const struct hidden_row *row, const struct hidden *now)
{
	const size_t len = strlen(c->note);
	char text[HIDDEN_TEXT_SIZE];

	hidden_say(row, now, text);
	snprintf(c->note + len, sizeof(c->note) - len, "%s%s", len > 0 ? "; " : "", text);
}

static void
note_row(struct draft_walk *w, const struct hidden_row *row, bool is_new, struct draft_change *c)
{
	const struct draft_level *l = draft_walk_top(w);
	struct hidden was = { 0 }, now = { 0 };

	if (row->kind == HIDDEN_REPLACE) {
		/* Each file is an object that git shows as another one. */
		now.n = 1;
	} else {
		if (w->name.in_project)
			count(w, row, l->lower, -1, &was);
		count(w, row, l->upper, l->lower, &now);
	}
	if (hidden_is_news(row, &was, &now, is_new))
		add_note(c, row, &now);
}

int
draft_hides(struct draft_walk *w, struct draft_change *c, struct koda_error *err)
{
	static const struct hidden_row patterns = { ".gitignore", HIDDEN_LINES,
		"patterns of files to ignore: `git status --ignored` shows them", false };
	const struct draft_level *git = NULL;
	const char *below;

	if (strcasecmp(w->name.name, patterns.name) == 0) {
		note_row(w, &patterns, false, c);
		return 0;
	}
	below = draft_git_below(w, &git);
	for (size_t i = 0; below != NULL && i < HIDDEN_ROWS; i++) {
		if (!is_about(&hidden_rows[i], below))
			continue;
		if (w->names == NULL && hidden_rows[i].kind == HIDDEN_NAMED)
			w->names = names_index_new(&w->ses->policy.list[KODA_DENY_WRITE_NAMES]);
		if (w->names == NULL && hidden_rows[i].kind == HIDDEN_NAMED)
			return err_set(err, KODA_INTERNAL, ENOMEM, "list a draft");
		note_row(w, &hidden_rows[i], !git->in_project, c);
	}
	return 0;
}
