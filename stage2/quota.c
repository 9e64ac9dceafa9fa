/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/commands.h"
#include "stage2/companions.h"
#include "stage2/pace.h"
#include "stage2/strangers.h"
#include "stage2/usage.h"

/* No other command is ended until the last one is gone or this time has passed: by then it is
 * gone with all its memory, even on a busy machine. */
#define ENDED_NS UINT64_C(3000000000)

/* More than a policy allows. The memory of further processes is not shared out. */
#define EXACT_PROCESSES_MAX 4096
/* The result of one exact measurement, in memory that the measuring process shares with stage2. */
struct exact {
	bool done;
	uint64_t cost; /* ns of processor time */
	struct usage used;
	size_t n;
	struct exact_process {
		pid_t pid;
		uint64_t bytes;
	} process[EXACT_PROCESSES_MAX];
};

/* How often to measure. A job with many short processes has some that end during each
 * measurement, but seldom so much memory in them every time. */
#define EXACT_LOOKS 4
/* An exact measurement takes hundredths of a second. One that commands delay for this long is
 * abandoned. */
#define EXACT_NS UINT64_C(10000000000)

struct quota {
	struct pace pace;
	struct meter meter;
	struct procs procs;
	bool at_work;      /* a command ran at the last look */
	uint64_t next;     /* ns: the next look */
	uint64_t ended_at; /* ns, or 0 */
	/* The current or the last measurement. */
	struct pace_look look;
	struct usage bound;
	uint64_t began; /* ns */
	struct pace_cost cost;
	/* ns: the next check of what is certainly used, during an exact measurement. */
	uint64_t sure_next;
	/* ns: no exact measurement begins before this time. */
	uint64_t exact_next;
	bool exact_begun;
	struct exact *exact;
};

struct quota *
quota_new(const struct stage2 *s, const Koda__Boot *boot, struct koda_error *err)
{
	cleanup_free struct quota *q = calloc(1, sizeof(*q));
	char *places[METER_PLACES_MAX] = { NULL };
	size_t n = 0;
	int r = -1;

	err_clear(err);
	if (!boot->has_memory_max && !boot->has_tasks_max)
		return NULL;
	while (n < boot->n_private_dir && n < METER_PLACES_MAX &&
	    (places[n] = strndup((const char *)boot->private_dir[n].data,
		 boot->private_dir[n].len)) != NULL)
		n++;
	if (q == NULL || n < boot->n_private_dir)
		err_set(err, KODA_INTERNAL, ENOMEM, "limits of the slot");
	else
		r = meter_init(&q->meter, s->proc_fd, (const char *const *)places, n, err);
	for (size_t i = 0; i < n; i++)
		free(places[i]);
	if (r < 0)
		return NULL;
	q->exact = mmap(NULL, sizeof(*q->exact), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (q->exact == MAP_FAILED) {
		err_set(err, KODA_INTERNAL, errno, "memory for measurements");
		meter_done(&q->meter);
		return NULL;
	}
	q->pace.bytes_max = boot->has_memory_max ? boot->memory_max : 0;
	q->pace.tasks_max = boot->has_tasks_max ? boot->tasks_max : 0;
	return take_ptr(&q);
}

int
quota_timeout(struct quota *q, const struct command_table *c)
{
	uint64_t now;

	if (q == NULL)
		return -1;
	if (!commands_any(c)) {
		q->at_work = q->exact_begun = false;
		pace_rest(&q->pace, q->bound.kept);
		return -1;
	}
	now = monotonic_ns();
	if (!q->at_work) {
		q->at_work = true;
		q->next = now + pace_next(&q->pace);
	}
	return now >= q->next ? 0 : (int)((q->next - now) / NS_PER_MS + 1);
}

/* Our own processes need no limit. Those that a command started do, wherever they are in the
 * process tree. */
static bool
is_counted(void *data, const struct proc *p)
{
	const struct stage2 *s = data;

	return p->pid != 1 && !(p->parent == 1 && strangers_is_ours(s, p->pid));
}

static bool
is_over(const struct quota *q, const struct usage *u)
{
	return (q->pace.bytes_max != 0 && u->bytes > q->pace.bytes_max) ||
	    (q->pace.tasks_max != 0 && u->tasks > q->pace.tasks_max);
}

/* Returns true if it is over the limit by more than could move between processes during the
 * measurement. */
static bool
is_far_over(const struct quota *q, uint64_t bytes)
{
	return q->pace.bytes_max != 0 && bytes / 5 * 4 > q->pace.bytes_max;
}

/*
 * Returns true if the slot is over its limit no matter what its processes have in common. On a busy
 * machine the exact measurement waits for a processor among processes that go on taking memory;
 * this check does not. What moves from one process to another meanwhile counts twice here as well,
 * so a small excess is measured again. `fresh`: the processes were read just now. If true, *ret and
 * the `resident` of each process are what is certainly used.
 */
static bool
is_surely_over(struct stage2 *s, bool fresh, struct usage *ret)
{
	struct quota *q = s->quota;
	struct meter_machine machine;

	for (int look = 0; look < 2; look++) {
		if (meter_machine(&q->meter, &machine) < 0)
			return false;
		if (!(fresh && look == 0) && procs_read(s->proc_fd, &q->procs) < 0)
			return false;
		usage_least(&q->meter, &machine, &q->procs, q->pace.bytes_max, is_counted, s, ret);
		if (ret->bytes <= q->pace.bytes_max)
			return false;
		if (is_far_over(q, ret->bytes))
			break;
	}
	for (size_t i = 0; i < q->procs.n; i++)
		q->procs.v[i].resident = q->procs.v[i].least;
	return true;
}

/*
 * The exact measurement. It runs in a separate process, because it reads what commands have made
 * large or slow, and nothing that protects the host's files may wait for that. What moves from one
 * process to another meanwhile counts twice, and so does what a process had that ends meanwhile, so
 * a small excess is measured again.
 */
static _Noreturn void
measure_exactly(struct stage2 *s, const struct meter_machine *machine)
{
	struct quota *q = s->quota;
	struct exact *exact = q->exact;

	/* Where the scheduler shares out processors by session, this one then does not wait behind
	 * all processes of a command. */
	setsid();
	companions_set_meter(&s->companions, getpid());
	for (int look = 0; look < EXACT_LOOKS; look++) {
		/* The first time, use the processes that the cheap measurement has just read. */
		if (look > 0 && procs_read(s->proc_fd, &q->procs) < 0)
			_exit(1);
		usage_exact(&q->meter, machine, &q->procs, q->pace.bytes_max, is_counted, s,
		    &exact->used);
		if (!is_over(q, &exact->used) || is_far_over(q, exact->used.sure))
			break;
	}
	for (size_t i = 0; i < q->procs.n && i < EXACT_PROCESSES_MAX; i++)
		exact->process[exact->n++] =
		    (struct exact_process){ q->procs.v[i].pid, q->procs.v[i].resident };
	exact->cost = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	exact->done = true;
	_exit(0);
}

/* Start the exact measurement. Returns 0, or -1 if that is not possible. */
static int
begin_exactly(struct stage2 *s, const struct meter_machine *machine)
{
	pid_t pid;

	if (companions_is_metering(&s->companions))
		return -1; /* the last one could not be ended, and may still write */
	s->quota->exact->done = false;
	s->quota->exact->n = 0;
	pid = fork();
	if (pid == 0)
		measure_exactly(s, machine);
	if (pid < 0)
		return -1;
	companions_set_meter(&s->companions, pid);
	return 0;
}

/* Set `resident` of each process to its share, as far as it is known; others keep all that they
 * have. */
static void
take_shares(struct quota *q)
{
	size_t k = 0;

	/* Both are sorted by process number. */
	for (size_t i = 0; i < q->procs.n; i++) {
		struct proc *p = &q->procs.v[i];

		while (k < q->exact->n && q->exact->process[k].pid < p->pid)
			k++;
		if (k < q->exact->n && q->exact->process[k].pid == p->pid)
			p->resident = q->exact->process[k].bytes;
	}
}

static void
end_largest(struct stage2 *s, const struct usage *u)
{
	struct quota *q = s->quota;
	const bool memory = q->pace.bytes_max != 0 && u->bytes > q->pace.bytes_max;
	const struct commands_limit limit = {
		.limit = memory ? KODA__SLOT_LIMIT__SLOT_LIMIT_MEMORY
				: KODA__SLOT_LIMIT__SLOT_LIMIT_TASKS,
		.used = memory ? u->bytes : u->tasks,
		.kept = u->kept,
	};

	/* A process forked since they were read loses its reaper, and is found then. */
	if (commands_end_largest(s, &q->procs, &limit))
		q->ended_at = monotonic_ns();
}

static void
take_result(struct stage2 *s, const struct usage *used, uint64_t now)
{
	struct quota *q = s->quota;

	pace_measured(&q->pace, used->bytes, used->tasks, &q->look, now, &q->cost);
	if (is_over(q, used))
		end_largest(s, used);
	q->next = now + pace_next(&q->pace);
}

/* Check during the exact measurement whether the slot is over its limit, because commands take
 * memory meanwhile. */
static bool
is_over_meanwhile(struct stage2 *s, uint64_t now, bool fresh, struct usage *ret)
{
	struct quota *q = s->quota;
	uint64_t cost;
	bool over;

	if (now < q->sure_next)
		return false;
	cost = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	over = is_surely_over(s, fresh, ret);
	cost = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cost;
	q->cost.whole += cost;
	q->sure_next = monotonic_ns() + cost * PACE_ALARM_SHARE;
	return over;
}

/* Handle an exact measurement. While it runs, only check whether the slot is certainly over its
 * limit. If it has died or takes too long, the upper bound counts. */
static void
look_at_exact(struct stage2 *s, uint64_t now)
{
	struct quota *q = s->quota;
	struct usage used;
	bool over = false;

	if (companions_is_metering(&s->companions) && now < q->began + EXACT_NS) {
		over = is_over_meanwhile(s, now, false, &used);
		if (!over) {
			q->next = now + PACE_LOOK_MIN_NS;
			return;
		}
	}
	q->exact_begun = false;
	companions_end_meter(&s->companions);
	if (q->exact->done)
		q->cost.whole += q->exact->cost;
	q->exact_next = now + q->cost.whole * PACE_ALARM_SHARE;
	if (!over && q->exact->done) {
		take_shares(q);
		used = q->exact->used;
	} else if (!over) {
		used = q->bound;
	}
	take_result(s, &used, now);
}

static void
measure_slot(struct stage2 *s, uint64_t now)
{
	struct quota *q = s->quota;
	struct meter_machine machine;
	struct usage least;
	uint64_t begun;
	bool decided;

	/* It is still measuring the commands before these. */
	if (companions_is_metering(&s->companions) && now < q->began + EXACT_NS) {
		q->next = now + PACE_LOOK_MIN_NS;
		return;
	}
	if (meter_machine(&q->meter, &machine) < 0)
		return;
	q->look = (struct pace_look){ machine.taken, machine.last_pid };
	if (!pace_is_due(&q->pace, &q->look, now))
		return;
	q->began = now;
	begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (procs_read(s->proc_fd, &q->procs) < 0)
		return;
	usage_bound(&q->meter, &machine, &q->procs, is_counted, s, &q->bound);
	q->cost.whole = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun;
	/* The bound is never too low, and counts tasks exactly. */
	decided = q->pace.bytes_max == 0 || q->bound.bytes <= q->pace.bytes_max;
	q->sure_next = 0;
	if (!decided && (is_over_meanwhile(s, now, true, &least) || is_over(q, &least))) {
		q->bound = least;
		decided = true;
	}
	q->cost.first = q->cost.whole;
	now = monotonic_ns();
	if (!decided && now < q->exact_next) {
		const uint64_t wait = q->cost.first * PACE_ALARM_SHARE;

		q->next = now + (wait > PACE_LOOK_MIN_NS ? wait : PACE_LOOK_MIN_NS);
	} else if (!decided && begin_exactly(s, &machine) == 0) {
		q->exact_begun = true;
		q->next = now + PACE_LOOK_MIN_NS;
	} else {
		take_result(s, &q->bound, now);
	}
}

void
quota_look(struct stage2 *s)
{
	struct quota *q = s->quota;
	uint64_t now;

	if (q == NULL || !q->at_work || !commands_any(s->commands))
		return;
	now = monotonic_ns();
	/* Its end is reported by SIGCHLD, which does not wait for q->next. */
	if (q->exact_begun) {
		look_at_exact(s, now);
		return;
	}
	if (now < q->next)
		return;
	q->next = now + pace_next(&q->pace);
	if (q->ended_at != 0 && now < q->ended_at + ENDED_NS && commands_are_ending(s->commands))
		return;
	q->ended_at = 0;
	measure_slot(s, now);
}
