/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/cache_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/machine/state.h"
#include "host/sandbox/bwrap.h"
#include "shared/base/cleanup.h"

bool
cache_boot_any(const struct sandbox *sb)
{
	return sb->view.n_caches > 0 || sb->view.spare != NULL;
}

/* Make the missing mount points of caches in directories that commands write, where commands
 * could make them. */
static int
make_points(struct sandbox *sb, struct koda_error *err)
{
	cleanup_free const char **path = calloc(sb->view.n_caches + 1, sizeof(*path));
	size_t n = 0;

	if (path == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
	for (size_t i = 0; i < sb->view.n_caches; i++) {
		bool own = false;

		for (size_t k = 0; k < sb->view.n_writable && !own; k++)
			own = strcmp(sb->view.cache[i], sb->view.writable[k]) == 0;
		if (!own)
			path[n++] = sb->view.cache[i];
	}
	return cache_points_make(sb->ses->home, path, n, &sb->points, err);
}

int
cache_boot_open(struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->ses;
	struct koda_error why;

	cache_boot_close(sb, true);
	sb->no_layers[0] = '\0';
	if (!cache_boot_any(sb))
		return 0;
	if (make_points(sb, err) < 0)
		return -1;
	if (cache_store_open(ses->root, ses->home, &sb->layers, &why) < 0)
		snprintf(sb->no_layers, sizeof(sb->no_layers), "%s", why.message);
	return 0;
}

void
cache_boot_close(struct sandbox *sb, bool clean)
{
	cache_store_close(&sb->layers);
	cache_points_done(&sb->points, clean);
}

int
cache_boot_fds(const struct sandbox *sb, struct cache_fds *ret, int first, int *fds, size_t *n_fds,
    struct koda_error *err)
{
	*ret = (struct cache_fds){ -1, -1 };
	if (!cache_boot_any(sb))
		return 0;
	fds[*n_fds] = state_open_directory(sb->ses->home, err);
	if (fds[*n_fds] < 0)
		return -1;
	ret->caches = first + (int)(*n_fds)++;
	if (sb->layers.path == NULL)
		return 0;
	fds[*n_fds] = fcntl(sb->layers.fd, F_DUPFD_CLOEXEC, 3);
	if (fds[*n_fds] < 0)
		return err_set(err, KODA_INTERNAL, errno, "layers of caches");
	ret->layers = first + (int)(*n_fds)++;
	return 0;
}

void
cache_boot_done(struct cache_boot *b)
{
	free(b->place);
	free(b->list);
	free(b->keep);
}

static const struct cache *
find_cache(const struct sandbox *sb, const char *path)
{
	const struct cache *c = sb->caches.v;

	while (strcmp(c->path, path) != 0)
		c++;
	return c;
}

int
cache_boot_fill(const struct sandbox *sb, struct cache_boot *ret, struct koda_error *err)
{
	const struct policy_list *fixed =
	    &koda_policy_get(sb->policy)->list[KODA_DENY_WRITE_WITHIN_ALLOW];
	size_t n = sb->view.n_caches;

	koda__overlay__init(&ret->message);
	ret->place = calloc(n + 1, sizeof(*ret->place));
	ret->list = calloc(n + 1, sizeof(*ret->list));
	ret->keep = calloc(fixed->n + 1, sizeof(*ret->keep));
	if (ret->place == NULL || ret->list == NULL || ret->keep == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
	ret->message.lower = message_text(BWRAP_CACHES);
	ret->message.has_reason = ret->message.has_layers = ret->message.has_upper = false;
	if (sb->layers.path != NULL) {
		ret->message.has_layers = ret->message.has_upper = true;
		ret->message.layers = message_text(BWRAP_LAYERS);
		ret->message.upper = message_text(sb->layers.upper.name);
		for (size_t i = 0; i < sb->layers.n_under; i++)
			ret->under[i] = message_text(sb->layers.under[i].name);
		ret->message.under = ret->under;
		ret->message.n_under = sb->layers.n_under;
	} else {
		ret->message.has_reason = true;
		ret->message.reason = message_text(sb->no_layers);
	}
	for (size_t i = 0, k = 0; i < n; i++) {
		const char *path = sb->view.cache[i];
		const struct cache *c = find_cache(sb, path);
		Koda__OverlayPlace *p = &ret->place[i];

		koda__overlay_place__init(p);
		p->name = message_text(c->name);
		p->path = message_text(path);
		p->has_own = p->own = c->elsewhere;
		p->keep = ret->keep + k;
		/* A rule is in one cache at most, because no cache is inside another. */
		for (size_t f = 0; f < fixed->n; f++)
			if (path_is_inside(fixed->v[f], path) && strcmp(fixed->v[f], path) != 0)
				p->keep[p->n_keep++] = message_text(fixed->v[f]);
		k += p->n_keep;
		ret->list[i] = p;
	}
	if (sb->view.spare != NULL) {
		koda__overlay_place__init(&ret->place[n]);
		ret->place[n].name = message_text(CACHES_SPARE_NAME);
		ret->place[n].path = message_text(sb->view.spare);
		ret->place[n].has_make = ret->place[n].make = true;
		ret->list[n] = &ret->place[n];
		n++;
	}
	ret->message.place = ret->list;
	ret->message.n_place = n;
	return 0;
}

void
cache_boot_told(struct sandbox *sb, const Koda__Booted *booted)
{
	struct koda_session *ses = sb->ses;

	if (sb->caches.root != NULL && !ses->said_root_cache &&
	    view_writes(&sb->view, sb->caches.root, NULL)) {
		ses->said_root_cache = true;
		session_event(ses, KODA_EVENT_DEGRADED,
		    "commands may write '%.300s' itself, which is a cache of this user's tools: "
		    "tools on the host will use what commands put there",
		    sb->caches.root);
	}
	if (booted->n_empty_cache == 0 || ses->said_caches)
		return;
	ses->said_caches = true;
	session_event(ses, KODA_EVENT_DEGRADED,
	    "commands see empty directories instead of the caches of this user's tools (%zu of "
	    "%zu), and what they write there is lost with the sandbox: %.*s",
	    booted->n_empty_cache, sb->view.n_caches + (sb->view.spare != NULL),
	    (int)booted->empty_cache[0]->why.len, (const char *)booted->empty_cache[0]->why.data);
}
