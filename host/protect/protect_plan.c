/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/protect_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/protect/protect_scan.h"
#include "host/sandbox/sandbox_input.h"
#include "host/sandbox/sandbox_orders.h"
#include "shared/base/cleanup.h"

static int
plan(struct protect *p, struct koda_error *err)
{
	const struct koda_session *ses = p->slot->ses;
	cleanup_free struct view_place *places = calloc(p->places.n + 1, sizeof(*places));
	cleanup_free char **paths = calloc(p->places.n + 1, sizeof(*paths));
	struct view_input in = sandbox_view_input(p->sb);
	struct view view = { 0 };
	int r = places == NULL || paths == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "plan") : 0;

	in.git_dir = p->sb->root_is_git_dir ? ses->root : p->sb->git_dir;
	in.places = places;
	for (size_t i = 0; r == 0 && i < p->places.n; i++) {
		const Koda__Place *from = p->places.place[i];

		/* Nothing can be mounted on a link. Mounts would get in the way where packages are
		 * unpacked, and are not needed on an entry that may only disappear. The comparison
		 * guards all of these. */
		if (from->type == KODA__FILE_TYPE__FILE_SYMLINK ||
		    from->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY ||
		    from->kind == KODA__PLACE_KIND__PLACE_GUARDED)
			continue;
		paths[i] = strndup((const char *)from->path.data, from->path.len);
		if (paths[i] == NULL)
			r = err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		places[in.n_places++] = (struct view_place){
			.kind = from->kind == KODA__PLACE_KIND__PLACE_GIT_DIR ? VIEW_PLACE_GIT_DIR
			    : from->kind == KODA__PLACE_KIND__PLACE_RULE      ? VIEW_PLACE_RULE
			    : from->kind == KODA__PLACE_KIND__PLACE_NAME      ? VIEW_PLACE_NAME
									 : VIEW_PLACE_PROTECTED,
			.path = paths[i],
			.dev = (dev_t)from->dev,
			.ino = (ino_t)from->ino,
			.directory = from->type == KODA__FILE_TYPE__FILE_DIRECTORY,
		};
	}
	if (r == 0)
		r = view_plan(&in, &view, err);
	for (size_t i = 0; paths != NULL && i < p->places.n; i++)
		free(paths[i]);
	if (r < 0)
		return -1;
	view_done(&p->sb->view);
	p->sb->view = view;
	return 0;
}

/*
 * A mount over a repository that a command is making breaks that command. A mount over a directory
 * does not stop a command that has the directory open, or as its working directory, nor a process
 * that receives it from there; and the worker could no longer take away what they plant in it. So
 * the comparison guards these places until no command runs and everything was compared.
 */
static bool
in_use(const struct protect *p)
{
	return p->running || p->client->any_in_use(p->data);
}

int
protect_mount(struct protect *p, struct koda_error *err)
{
	if (p->mounted_boot == p->sb->boots && (!p->plan_old || in_use(p)))
		return 0;
	if (plan(p, err) < 0 || sandbox_mount(p->sb, err) < 0)
		return -1;
	p->plan_old = false;
	p->mounted_boot = p->sb->boots;
	p->mounted_news = true;
	for (size_t i = 0; i < p->places.n; i++) {
		if (!p->places.sure[i])
			journal_add(&p->journal, p->places.place[i]);
		p->places.sure[i] = true;
	}
	return 0;
}

int
protect_restore(struct protect *p, struct koda_error *err)
{
	if (!protect_is_watching(p) && protect_scan(p, err) < 0)
		return -1;
	return protect_mount(p, err);
}
