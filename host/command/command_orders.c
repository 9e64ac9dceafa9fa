/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command_orders.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "host/command/command_request.h"
#include "host/machine/machine.h"
#include "host/sandbox/sandbox_control.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"

static ProtobufCBinaryData *
texts_of(char *const *v, size_t *ret_n)
{
	ProtobufCBinaryData *list;
	size_t n = 0;

	while (v[n] != NULL)
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (size_t i = 0; list != NULL && i < n; i++)
		list[i] = message_text(v[i]);
	*ret_n = n;
	return list;
}

/*
 * The memory limit holds for all processes of the slot together. A limit tighter than the default
 * also holds for each process, so that a single one is refused memory instead of being killed. The
 * default does not: programs that reserve much more than they use (AddressSanitizer's shadow, some
 * language runtimes) could not run at all.
 */
static bool
is_of_the_slot(enum koda_limit limit, uint64_t value)
{
	return limit == KODA_MAX_RSS_BYTES && value >= machine_memory_default();
}

static size_t
fill_limits(const struct policy *p, Koda__ResourceLimit *limits)
{
	static const struct {
		enum koda_limit limit;
		uint32_t resource;
		uint64_t grace;
	} rows[] = {
		{ KODA_CPU_TIME_SECS, RLIMIT_CPU, CPU_GRACE_SECS },
		{ KODA_MAX_RSS_BYTES, RLIMIT_DATA, 0 },
		{ KODA_MAX_OPEN_FDS, RLIMIT_NOFILE, 0 },
		{ KODA_MAX_PROCESSES, RLIMIT_NPROC, 0 },
		{ KODA_MAX_FILE_BYTES, RLIMIT_FSIZE, 0 },
	};
	size_t n = 0;

	koda__resource_limit__init(&limits[n]);
	limits[n].soft = limits[n].hard = LOCKDOWN_CORE_LIMIT;
	limits[n++].resource = RLIMIT_CORE;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		const struct policy_limit *limit = &p->limit[rows[i].limit];

		if (!limit->set || is_of_the_slot(rows[i].limit, limit->value))
			continue;
		koda__resource_limit__init(&limits[n]);
		limits[n].resource = rows[i].resource;
		limits[n].soft = limit->value;
		limits[n].hard = limit->value + rows[i].grace;
		n++;
	}
	return n;
}

int
command_send_exec(struct koda_command *c, struct koda_error *err)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Exec exec = KODA__EXEC__INIT;
	Koda__ResourceLimit limits[8], *list[8];
	cleanup_free ProtobufCBinaryData *argv = texts_of(c->argv, &exec.n_argv);
	cleanup_free ProtobufCBinaryData *env = texts_of(c->env, &exec.n_env);
	int r;

	if (argv == NULL || env == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "command");
	exec.argv = argv;
	exec.env = env;
	exec.cwd = message_text(c->cwd);
	exec.n_limit = fill_limits(koda_policy_get(c->of->slot->policy), limits);
	for (size_t i = 0; i < exec.n_limit; i++)
		list[i] = &limits[i];
	exec.limit = list;
	exec.has_tty = exec.tty = c->tty;
	exec.has_background = exec.background = c->background;
	order.order_case = KODA__ORDER__ORDER_EXEC;
	order.exec = &exec;
	r = sandbox_send(c->of->sandbox, &order, c->fd, 3, err);
	if (r < 0)
		return -1;
	c->id = order.id;
	command_close_fds(c); /* the command has them now; end of file means that it closed them */
	return 0;
}

void
command_send_signal(struct koda_command *c, int signo, bool all)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__Signal msg = KODA__SIGNAL__INIT;

	msg.command = c->id;
	msg.signo = (uint32_t)signo;
	msg.has_all = msg.all = all;
	order.order_case = KODA__ORDER__ORDER_SIGNAL;
	order.signal = &msg;
	sandbox_send(c->of->sandbox, &order, NULL, 0, NULL);
}

void
command_send_end(struct koda_command *c)
{
	Koda__Order order = KODA__ORDER__INIT;
	Koda__End msg = KODA__END__INIT;

	msg.command = c->id;
	order.order_case = KODA__ORDER__ORDER_END;
	order.end = &msg;
	sandbox_send(c->of->sandbox, &order, NULL, 0, NULL);
}
