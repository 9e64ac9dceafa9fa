/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/usage.h"

#include <linux/kcmp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* How many processes that may share its memory a process is compared with. */
#define SAME_TRIES 8

/* Returns how much of the machine's shared memory is ours: what other programs do not hold. We
 * had none when it was read first. */
static uint64_t
shared_since(struct meter *m, const struct meter_machine *machine, uint64_t ours)
{
	const uint64_t others = machine->shmem > ours ? machine->shmem - ours : 0;

	if (others < m->shmem_base)
		m->shmem_base = others;
	return machine->shmem > m->shmem_base ? machine->shmem - m->shmem_base : 0;
}

static uint64_t
greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void
usage_bound(struct meter *m, const struct meter_machine *machine, struct procs *p,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	*ret = (struct usage){ .kept = meter_places(m) };
	growth_note(&m->growth, p, machine->swapped);
	for (size_t i = 0; i < p->n; i++) {
		ret->tasks += (uint64_t)p->v[i].threads;
		if (counts(data, &p->v[i]))
			ret->bytes += meter_resident(m, &p->v[i]);
	}
	ret->bytes += machine->swapped + greater(ret->kept, shared_since(m, machine, ret->kept));
}

/* Sort processes with the same stack side by side, the largest of them first. */
static int
by_stack(const void *a, const void *b)
{
	const struct proc *p = *(struct proc *const *)a, *q = *(struct proc *const *)b;

	if (p->stack != q->stack)
		return (p->stack > q->stack) - (p->stack < q->stack);
	return (p->least < q->least) - (p->least > q->least);
}

/* Returns true if both may have the same address space: they have, or it cannot be told. */
static bool
may_be_one(const struct proc *p, const struct proc *q)
{
	return syscall(SYS_kcmp, p->pid, q->pid, KCMP_VM, 0, 0) <= 0;
}

/* Returns the bytes that the process has taken since it was first seen, or 0 if it may have the
 * same address space as one of the n before it. */
static uint64_t
taken_by(const struct proc *p, struct proc *const *before, size_t n)
{
	if (p->least <= p->first)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (before[i]->least > 0 && may_be_one(before[i], p))
			return 0;
	return p->least - p->first;
}

/*
 * Set the `least` of processes with the same stack, of which the first is the largest: either only
 * the first counts, or what each of them has taken. What is small is left out, so few are compared
 * with each other before they are together above the limit.
 */
static uint64_t
least_of_group(struct proc **v, size_t n, uint64_t small, uint64_t limit)
{
	const uint64_t largest = v[0]->least;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t bytes = sum > limit * 2 ? 0 : taken_by(v[i], v, i);

		v[i]->least = bytes < small ? 0 : bytes;
		sum += v[i]->least;
	}
	if (sum >= largest)
		return sum;
	for (size_t i = 0; i < n; i++)
		v[i]->least = i == 0 ? largest : 0;
	return largest;
}

void
usage_least(struct meter *m, const struct meter_machine *machine, struct procs *p, uint64_t limit,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	const uint64_t small = limit / USAGE_SMALL_SHARE;
	cleanup_free struct proc **v = calloc(p->n + 1, sizeof(struct proc *));
	size_t n = 0;

	*ret = (struct usage){ .kept = meter_places(m) };
	ret->bytes = ret->kept;
	growth_note(&m->growth, p, machine->swapped);
	for (size_t i = 0; i < p->n; i++) {
		ret->tasks += (uint64_t)p->v[i].threads;
		p->v[i].least = 0;
		/* A process whose first thread is gone shows no memory, and may be large. */
		if (v == NULL || !counts(data, &p->v[i]) ||
		    (p->v[i].resident < small && p->v[i].resident > 0))
			continue;
		p->v[i].least = meter_anonymous(m, &p->v[i]);
		v[n++] = &p->v[i];
	}
	if (n > 0)
		qsort(v, n, sizeof(struct proc *), by_stack);
	for (size_t i = 0, end = 0; i < n; i = end) {
		while (end < n && v[end]->stack == v[i]->stack)
			end++;
		ret->bytes += least_of_group(v + i, end - i, small, limit);
	}
}

/* Returns true if one of the measured processes has the same address space: a process made with
 * CLONE_VM (vfork) that has not called execve yet. */
static bool
is_measured(struct proc *const *measured, size_t n, const struct proc *p)
{
	int tries = 0;

	for (size_t i = n; i > 0 && tries < SAME_TRIES; i--) {
		const struct proc *other = measured[i - 1];

		if (other->vsize != p->vsize || other->vsize == 0)
			continue;
		tries++;
		if (syscall(SYS_kcmp, other->pid, p->pid, KCMP_VM, 0, 0) == 0)
			return true;
	}
	return false;
}

/* Returns true if the process is gone. If its number was assigned to another process, it counts
 * as existing. A process that ends frees its memory before it is a zombie, and a large process
 * takes some time for that. */
static bool
is_gone(const struct meter *m, const struct proc *p)
{
	struct proc now;

	return !procs_one(m->proc_fd, p->pid, &now) || (now.threads <= 1 && now.resident == 0);
}

/* Returns what the measured processes have that still exist. *ret_shares: one of them may have
 * shared memory whose size is not visible. */
static uint64_t
sum_of_those_there(const struct meter *m, struct proc *const *measured, size_t n, bool *ret_shares)
{
	uint64_t sum = 0;

	*ret_shares = false;
	for (size_t i = 0; i < n; i++)
		if (!is_gone(m, measured[i])) {
			sum += measured[i]->resident;
			*ret_shares = *ret_shares || measured[i]->shares;
		}
	return sum;
}

/* Sort the largest first. */
static int
by_resident(const void *a, const void *b)
{
	const struct proc *p = *(struct proc *const *)a, *q = *(struct proc *const *)b;

	return (p->resident < q->resident) - (p->resident > q->resident);
}

/* Returns the processes that count, the largest first, in an array that the caller owns; NULL
 * without memory. */
static struct proc **
sort_processes(const struct meter *m, struct procs *p, usage_counts_fn *counts, void *data,
    struct usage *ret, uint64_t *ret_sum, size_t *ret_n)
{
	struct proc **v = calloc(p->n + 1, sizeof(struct proc *));

	*ret_n = 0;
	for (size_t i = 0; v != NULL && i < p->n; i++) {
		ret->tasks += (uint64_t)p->v[i].threads;
		if (!counts(data, &p->v[i])) {
			p->v[i].resident = 0;
			continue;
		}
		p->v[i].resident = meter_resident(m, &p->v[i]);
		*ret_sum += p->v[i].resident;
		v[(*ret_n)++] = &p->v[i];
	}
	if (v != NULL)
		qsort(v, *ret_n, sizeof(struct proc *), by_resident);
	return v;
}

void
usage_exact(struct meter *m, const struct meter_machine *machine, struct procs *p, uint64_t limit,
    usage_counts_fn *counts, void *data, struct usage *ret)
{
	uint64_t own = 0, rest = 0, there, known, segments, since;
	bool shares = false, there_shares = false;
	size_t n = 0, measured = 0;
	struct proc **v;

	*ret = (struct usage){ .kept = meter_places(m) };
	meter_begin(m);
	since = shared_since(m, machine, ret->kept);
	v = sort_processes(m, p, counts, data, ret, &rest, &n);
	/* The rest does not matter if the slot is over its limit without it, or below the limit
	 * with all of it. */
	for (; v != NULL && measured < n; measured++) {
		struct proc *one = v[measured];
		uint64_t most = rest + machine->swapped + greater(ret->kept, since);

		if (own + ret->kept + meter_objects(m) > limit + limit / 4 || own + most <= limit)
			break;
		rest -= one->resident;
		one->shares = false;
		one->resident = is_measured(v, measured, one) ? 0 : meter_process(m, one);
		own += one->resident;
		shares = shares || one->shares;
	}
	there = sum_of_those_there(m, v, measured, &there_shares);
	free(v);
	segments = meter_segments(m);
	known = meter_objects(m) + segments + ret->kept;
	since = greater(known, shared_since(m, machine, known));
	/* Memory of an object that is mapped and was released by madvise, or that is unmapped in
	 * part, belongs to no process. */
	ret->bytes = own + rest + (shares || segments > 0 ? since : known);
	ret->sure = there + (there_shares || segments > 0 ? since : known);
}
