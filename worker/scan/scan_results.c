/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_results.h"

#include <stdlib.h>
#include <string.h>

#include "worker/scan/scan_known.h"
#include "worker/scan/scan_state.h"

void
scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail)
{
	struct scan_change *c;

	if (sc->n_changes >= SCAN_CHANGES_MAX ||
	    scan_grow(&sc->change, sc->n_changes, &sc->changes_size, sizeof(*sc->change)) < 0) {
		sc->cut = true;
		return;
	}
	c = &sc->change[sc->n_changes];
	*c = (struct scan_change){ .kind = kind, .rule = scan_rule(what), .path = strdup(path) };
	if (c->path == NULL) {
		sc->cut = true;
		return;
	}
	if (detail != NULL)
		c->detail = strdup(detail);
	if (kept != NULL)
		memcpy(c->quarantined, kept->name, sizeof(c->quarantined));
	sc->n_changes++;
}

void
forget_changes(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_changes; i++) {
		free(sc->change[i].path);
		free(sc->change[i].detail);
	}
	free(sc->change);
	sc->change = NULL;
	sc->n_changes = sc->changes_size = sc->next_change = 0;
}

bool
scan_watched(const struct scan *sc)
{
	return sc->watched;
}

int
scan_watch_errno(const struct scan *sc)
{
	return sc->watched ? 0 : sc->watch_errno;
}

bool
scan_cut(const struct scan *sc)
{
	return sc->cut || sc->partial;
}

const struct scan_change *
scan_next_change(struct scan *sc)
{
	return sc->next_change < sc->n_changes ? &sc->change[sc->next_change++] : NULL;
}

void
scan_put_back_change(struct scan *sc)
{
	sc->next_change--;
}

const struct known *
scan_next_place(struct scan *sc)
{
	if (!sc->places_left)
		return NULL;
	while (sc->next_place < sc->n_known) {
		struct known *k = &sc->known[sc->next_place++];

		if (k->path != NULL && k->tell) {
			k->tell = false;
			return k;
		}
	}
	sc->places_left = false;
	sc->next_place = 0;
	return NULL;
}

void
scan_put_back_place(struct scan *sc, const struct known *place)
{
	sc->next_place = (uint32_t)(place - sc->known);
	sc->known[sc->next_place].tell = true;
	sc->places_left = true;
}

bool
scan_has_more(const struct scan *sc)
{
	return sc->next_change < sc->n_changes || sc->places_left;
}
