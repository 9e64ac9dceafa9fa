/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/pace.h"

static uint64_t
at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void
pace_measured(struct pace *p, uint64_t bytes, uint64_t tasks, const struct pace_look *look,
    uint64_t ended, const struct pace_cost *cost)
{
	p->measured = true;
	p->bytes = bytes;
	p->tasks = tasks;
	p->then = *look;
	p->at = ended;
	p->cost = *cost;
}

void
pace_rest(struct pace *p, uint64_t kept)
{
	p->measured = false;
	p->bytes = kept;
	p->tasks = 0;
}

/* Returns true if half of what was left may be used up. */
static bool
is_alarming(const struct pace *p, const struct pace_look *look)
{
	if (p->bytes_max != 0 &&
	    minus(look->taken, p->then.taken) >= minus(p->bytes_max, p->bytes) / 2)
		return true;
	/* A lower number than before has wrapped around: how many were assigned is not known. */
	return p->tasks_max != 0 && look->forks != p->then.forks &&
	    (look->forks < p->then.forks ||
		look->forks - p->then.forks >= minus(p->tasks_max, p->tasks) / 2);
}

static bool
is_near(const struct pace *p)
{
	return p->bytes_max != 0 && p->bytes >= p->bytes_max / 2;
}

bool
pace_is_due(const struct pace *p, const struct pace_look *look, uint64_t now)
{
	const uint64_t age = minus(now, p->at);

	if (!p->measured)
		return true;
	if (is_alarming(p, look))
		return age >= p->cost.first * PACE_ALARM_SHARE;
	return age >= at_most(p->cost.whole * (is_near(p) ? PACE_NEAR_SHARE : PACE_CALM_SHARE),
			  PACE_CALM_MAX_NS);
}

uint64_t
pace_next(const struct pace *p)
{
	uint64_t next = PACE_LOOK_MAX_NS;

	if (p->bytes_max != 0)
		next = at_most(next, minus(p->bytes_max, p->bytes) / 2 / PACE_BYTES_PER_NS);
	if (p->tasks_max != 0)
		next = at_most(next, PACE_LOOK_TASKS_NS);
	return next < PACE_LOOK_MIN_NS ? PACE_LOOK_MIN_NS : next;
}
