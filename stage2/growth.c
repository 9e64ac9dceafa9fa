/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/growth.h"

#include <stdlib.h>

/* A process whose first thread has ended shows no memory. */
static uint64_t
first_bytes(const struct proc *p, uint64_t swapped)
{
	return p->resident == 0 && p->threads > 1 ? GROWTH_UNKNOWN : p->resident + swapped;
}

void
growth_note(struct growth *g, struct procs *p, uint64_t swapped)
{
	struct growth_first *now = calloc(p->n + 1, sizeof(*now));
	size_t k = 0;

	/* Both are sorted by process number. */
	for (size_t i = 0; i < p->n; i++) {
		struct proc *one = &p->v[i];

		while (k < g->n && g->v[k].pid < one->pid)
			k++;
		if (now == NULL)
			one->first = GROWTH_UNKNOWN;
		else if (k < g->n && g->v[k].pid == one->pid && g->v[k].start == one->start)
			one->first = g->v[k].bytes;
		else
			one->first = first_bytes(one, swapped);
		if (now != NULL)
			now[i] = (struct growth_first){ one->pid, one->start, one->first };
	}
	free(g->v);
	*g = (struct growth){ now, now == NULL ? 0 : p->n };
}

void
growth_done(struct growth *g)
{
	free(g->v);
	*g = (struct growth){ NULL, 0 };
}
