/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_todo.h"

#include <stdlib.h>
#include <string.h>

#include "worker/scan/scan_known.h"

int
todo_step(struct scan *sc, uint32_t parent, const char *name, bool again)
{
	char *copy;

	if (scan_grow(&sc->step, sc->n_steps, &sc->steps_size, sizeof(*sc->step)) < 0)
		return -1;
	copy = strdup(name);
	if (copy == NULL)
		return -1;
	sc->step[sc->n_steps++] = (struct step){ parent, again, copy };
	return 0;
}

int
todo_dirty(struct scan *sc, uint32_t idx)
{
	sc->node[idx].fresh = true;
	if (sc->node[idx].dirty)
		return 0;
	if (scan_grow(&sc->dirty, sc->n_dirty, &sc->dirty_size, sizeof(*sc->dirty)) < 0)
		return -1;
	sc->node[idx].dirty = true;
	sc->dirty[sc->n_dirty++] = idx;
	return 0;
}

void
todo_forget(struct scan *sc)
{
	while (sc->n_steps > 0)
		free(sc->step[--sc->n_steps].name);
	while (sc->n_dirty > 0)
		sc->node[sc->dirty[--sc->n_dirty]].dirty = false;
}
