#include "host/protect/protect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "host/protect/change.h"
#include "host/protect/neighbours.h"
#include "host/protect/protect_compare.h"
#include "host/protect/protect_scan.h"
#include "shared/base/cleanup.h"

struct protect *
protect_new(void)
{
	struct protect *p = calloc(1, sizeof(*p));

	if (p != NULL)
		p->journal = (struct journal)JOURNAL_NONE;
	return p;
}

static void
free_waiters(struct waiter *w)
{
	while (w != NULL) {
		struct waiter *next = w->next;

		free(w);
		w = next;
	}
}

void
protect_free(struct protect *p)
{
	if (p == NULL)
		return;
	journal_end(&p->journal, p->begun == p->seen);
	place_set_done(&p->places);
	free_waiters(p->now);
	free_waiters(p->next);
	free(p->blame);
	free(p);
}

void
protect_abandon(struct protect *p)
{
	journal_end(&p->journal, false);
}

/* ---- the plan ---- */

void
protect_note(struct sandbox *sb, enum koda_violation_kind kind, const char *target,
    const char *rule, const char *detail)
{
	change_record(&sb->violations, sb->protect->blame, kind, target, rule, detail);
}

void
protect_note_cut(struct sandbox *sb)
{
	if (sb->protect->said_cut)
		return;
	sb->protect->said_cut = true;
	protect_note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_covered",
	    "there are too many files, or links in protected places, to look at all of them: what "
	    "commands plant may "
	    "not be found");
}

static int
plan(struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->slot->ses;
	struct protect *p = sb->protect;
	cleanup_free struct view_place *places = calloc(p->places.n + 1, sizeof(*places));
	cleanup_free char **paths = calloc(p->places.n + 1, sizeof(*paths));
	struct view_input in = sandbox_view_input(sb);
	struct view view = { 0 };
	int r = places == NULL || paths == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "plan") : 0;

	in.git_dir = sb->root_is_git_dir ? ses->root : sb->git_dir;
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
	view_done(&sb->view);
	sb->view = view;
	return 0;
}

/*
 * A mount over a repository that a command is making breaks that command. A mount over a directory
 * does not stop a command that has the directory open, or as its working directory, nor a process
 * that receives it from there; and the worker could no longer take away what they plant in it. So
 * the comparison guards these places until no command runs and everything was compared.
 */
static bool
in_use(const struct sandbox *sb)
{
	if (sb->protect->running)
		return true;
	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next)
		if (c->state == COMMAND_RUNNING || c->state == COMMAND_COMPARING)
			return true;
	return false;
}

/*
 * Places that commands of a running neighbour session have just planted did not exist before, so
 * the worker must not know them. Only a new worker can be given a list of known places: start one,
 * which then takes away the planted ones.
 */
static int
forget_planted(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	cleanup_free bool *planted = calloc(p->places.n + 1, sizeof(*planted));

	if (planted == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	if (neighbours_planted(&sb->state, p->places.place, p->places.n, planted) == 0)
		return 0;
	place_set_forget(&p->places, planted);
	slot_renew(sb->slot);
	if (protect_scan(sb, err) < 0)
		return -1;
	return 1;
}

int
protect_prepare(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int planted = 0;

	if (!protect_is_watching(sb)) {
		const bool first = !p->scanned;

		if (protect_scan(sb, err) < 0)
			return -1;
		if (first && (planted = forget_planted(sb, err)) < 0)
			return -1;
	}
	if (planted > 0) {
		free(p->blame);
		p->blame = strdup("a command of another session");
		p->how = PROTECT_WHOLLY;
		if (protect_compare_now(sb, err) < 0)
			return -1;
	}
	if (p->mounted_boot == sb->boots && (!p->plan_old || in_use(sb)))
		return 0;
	if (plan(sb, err) < 0 || sandbox_mount(sb, err) < 0)
		return -1;
	p->plan_old = false;
	p->mounted_boot = sb->boots;
	p->mounted_news = true;
	for (size_t i = 0; i < p->places.n; i++) {
		if (!p->places.sure[i])
			journal_add(&p->journal, p->places.place[i]);
		p->places.sure[i] = true;
	}
	return 0;
}

/* ---- the journal ---- */

/* Writes down which places are known, and by what rules they were found. If that fails, the user is
 * warned once. */
static void
begin_journal(struct sandbox *sb)
{
	struct protect *p = sb->protect;
	struct koda_session *ses = sb->slot->ses;
	const size_t n = sb->view.n_writable;
	cleanup_free const char **dir = calloc(n + 1, sizeof(*dir)),
				**cache = calloc(n + 1, sizeof(*cache));
	cleanup_free Koda__Place **place = calloc(p->places.n + 1, sizeof(Koda__Place *));
	struct journal_input in = { .root = ses->root,
		.policy = koda_policy_get(sb->slot->policy),
		.dir = dir,
		.cache = cache,
		.place = place };
	struct koda_error err = { 0 };
	int fd;

	/* With an incomplete scan, files that existed before would later be taken for planted
	 * ones. */
	if (p->said_cut || p->too_many || sb->state.fd < 0)
		return;
	if (dir == NULL || cache == NULL || place == NULL)
		return;
	for (size_t i = 0; i < n; i++) {
		/* Writes there do not reach the host. */
		if (view_is_cached(&sb->view, sb->view.writable[i]))
			continue;
		if (protect_is_cache(sb, sb->view.writable[i]))
			cache[in.n_caches++] = sb->view.writable[i];
		else
			dir[in.n_dirs++] = sb->view.writable[i];
	}
	for (size_t i = 0; i < p->places.n; i++)
		if (p->places.sure[i])
			place[in.n_places++] = p->places.place[i];
	fd = in.n_dirs + in.n_caches > 0 ? state_journal(&sb->state, true) : -1;
	if (in.n_dirs + in.n_caches == 0 ||
	    (fd >= 0 && journal_begin(&p->journal, fd, &in, &err) == 0))
		return;
	if (fd < 0)
		err_set(&err, KODA_IO, errno, "write below '%s'", ses->state);
	if (!ses->said_state)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "%s: if this program is killed, the next one will not know what its commands planted",
		    err.message);
	ses->said_state = true;
}

void
protect_command_begins(struct sandbox *sb)
{
	struct protect *p = sb->protect;

	if (!p->journaled)
		begin_journal(sb);
	p->journaled = true;
	/* The init of the slot's processes: the kernel reports its end only after all of them are
	 * gone. bwrap, the fallback, waits for it. */
	if (p->journal_boot != sb->boots)
		journal_process(&p->journal, sb->init_fd >= 0 ? sb->init_pid : sb->bwrap.pid);
	p->journal_boot = sb->boots;
	p->begun++;
}

bool
protect_had_commands(const struct sandbox *sb)
{
	return sb->protect->begun > 0;
}
