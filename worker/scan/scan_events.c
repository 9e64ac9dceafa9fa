/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_events.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_todo.h"

static int
take_event(struct scan *sc, const struct inotify_event *ev)
{
	const bool dir = (ev->mask & IN_ISDIR) != 0;
	char path[PATH_LEN_MAX + 1];
	enum access_name means;
	uint32_t idx, up;
	bool last = false;
	size_t len;

	if ((ev->mask & IN_Q_OVERFLOW) != 0) {
		sc->due.walk = sc->unsure = true;
		return 0;
	}
	if (ev->wd < 0 || (size_t)ev->wd >= sc->wds || sc->by_wd[ev->wd] == 0)
		return 0;
	idx = sc->by_wd[ev->wd] - 1;
	if ((ev->mask & (IN_IGNORED | IN_UNMOUNT)) != 0) {
		sc->by_wd[ev->wd] = 0;
		sc->node[idx].wd = -1;
		drop_node(sc, idx);
		/* If a root is replaced at its path, the new directory is a different one; this one
		 * is empty now. */
		return 0;
	}
	if (ev->len == 0)
		return 0;
	/* An entry that existed only for a moment may have been anything: a link, or a file where
	 * a directory is now. */
	if ((ev->mask & IN_CREATE) != 0)
		note_made(sc, idx, ev->name);
	if (dir && (ev->mask & IN_MOVED_TO) != 0)
		note_moved_to(sc, idx, ev->name);
	if ((ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		note_gone(sc, idx, ev->name);
	if (dir && (ev->mask & (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)) != 0 &&
	    todo_step(sc, idx, ev->name, (ev->mask & (IN_CREATE | IN_MOVED_TO)) != 0) < 0)
		return -1;
	if (dir && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->due.verify = true;
	means = access_name_of(ev->name);
	sc->due.git |= sc->node[idx].git || sc->node[idx].in_git;
	if (sc->node[idx].content && (ev->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		sc->due.verify = true;
	up = sc->node[idx].parent;
	if (sc->node[idx].inside) {
		uint32_t place = idx;

		while (place != NONE && sc->node[place].inside)
			place = sc->node[place].parent;
		if (place != NONE && todo_dirty(sc, place) < 0)
			return -1;
	}
	if (means != ACCESS_NAME_OTHER || names_index_may(sc->by_name, ev->name)) {
		if (todo_dirty(sc, idx) < 0)
			return -1;
		return 0;
	}
	/* Each entry of a git directory must be a file or a directory, and no file may lead git out
	 * of it. */
	if ((sc->node[idx].git || sc->node[idx].in_git) && !dir &&
	    (ev->mask & (IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY)) != 0 &&
	    todo_dirty(sc, idx) < 0)
		return -1;
	/* The todo list of a rebase is one level below the directory that is judged for it. */
	if (up != NONE && access_name_of(sc->node[idx].name) == ACCESS_NAME_REBASE)
		return todo_dirty(sc, up);
	if (sc->n_guards == 0 ||
	    (sc->node[idx].guards_round == sc->guards_round && !sc->node[idx].guards))
		return 0;
	len = node_path(sc, idx, NULL, path);
	if (len > 0 && has_guards(sc, idx, path) &&
	    guard_at(sc, path, len, ev->name, &last) != NULL)
		return todo_dirty(sc, idx);
	return 0;
}

int
events_take(struct scan *sc)
{
	_Alignas(struct inotify_event) char buf[32 << 10];
	int any = 0;

	for (;;) {
		ssize_t n = read(sc->ifd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return any;
		if (n <= 0) {
			stop_watching(sc);
			return 1;
		}
		any = 1;
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(void *)p;

			if (!sc->due.walk && take_event(sc, ev) < 0)
				return -1;
			/* Removed nodes must be dropped in any case. */
			if (sc->due.walk && (ev->mask & IN_IGNORED) != 0 && take_event(sc, ev) < 0)
				return -1;
			p += sizeof(*ev) + ev->len;
		}
	}
}
