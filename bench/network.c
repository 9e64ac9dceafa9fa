/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of network access: connections and bytes through koda-egress-proxy. The rows compare
 * with the same directly over loopback, with a minimal proxy (relay_*), and in proxy_group with
 * other proxies. In inside_* and proxy_bulk the client is a command in a slot, so that the figures
 * include its sandbox. In all other rows client, proxy and server are outside, as they are with the
 * other proxies.
 */
#include <err.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/memory.h"
#include "bench/proxies.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

#define IDLE_TUNNELS 1000
#define IDLE_SECONDS 2
#define BULK         (1ul << 30)
#define BULK_BRIEF   (64ul << 20)
#define CPU_RUNS     3
#define PROXY_NAME   "koda-egress" /* its process name begins with this */

static struct {
	const char *root, *helpers, *peers;
	char tree[PATH_MAX], load[PATH_MAX];
	bool brief;
	struct standing server, relay, ours, tinyproxy, squid;
	struct koda_session *ses;
	struct koda_slot *slot;
	double measured;
} w;

/* ---- the rows ---- */

/* What a client does in one step. The figure of the step is the first number that the client
 * prints, divided by the amount if by_byte. */
struct task {
	const char *verb, *clients;
	size_t n, n_brief;
	bool by_byte;
};

static const struct task conn = { "conn", NULL, 400, 100, false },
			 rate_16 = { "rate", "16", 4000, 1000, false },
			 rate_64 = { "rate", "64", 4000, 1000, false },
			 bulk = { "bulk", NULL, BULK, BULK_BRIEF, true };

struct words {
	char server[16], proxy[16], n[24];
	const char *argv[7];
};

static size_t
amount(const struct task *t)
{
	return w.brief ? t->n_brief : t->n;
}

static const char *const *
words(const struct task *t, const char *program, unsigned proxy, struct words *ret)
{
	snprintf(ret->server, sizeof(ret->server), "%u", w.server.port);
	snprintf(ret->proxy, sizeof(ret->proxy), "%u", proxy);
	snprintf(ret->n, sizeof(ret->n), "%zu", amount(t));
	ret->argv[0] = program;
	ret->argv[1] = t->verb;
	ret->argv[2] = ret->server;
	ret->argv[3] = ret->proxy;
	ret->argv[4] = ret->n;
	ret->argv[5] = t->clients;
	ret->argv[6] = NULL;
	return ret->argv;
}

static int
take_figure(const struct task *t, const char *text)
{
	w.measured = strtod(text, NULL);
	if (t->by_byte)
		w.measured /= (double)amount(t);
	return w.measured > 0 ? 0 : -1;
}

static int
outside(const struct task *t, unsigned proxy)
{
	struct words wd;
	char out[64];

	if (floor_capture(words(t, KODA_BENCH_LOAD, proxy, &wd), NULL, out, sizeof(out)) < 0)
		return -1;
	return take_figure(t, out);
}

static int
directly(void *data)
{
	return outside(data, 0);
}

static int
relayed(void *data)
{
	return outside(data, w.relay.port);
}

static int
ours(void *data)
{
	return outside(data, w.ours.port);
}

static int
tinyproxy(void *data)
{
	return outside(data, w.tinyproxy.port);
}

static int
squid(void *data)
{
	return outside(data, w.squid.port);
}

static int
inside(void *data)
{
	struct words wd;
	const struct koda_command_options o = { .argv = words(data, w.load, EGRESS_PORT, &wd) };
	struct koda_command_result result;
	struct koda_error e;
	char out[64];
	int status;

	if (koda_run(w.slot, &o, &result, &e) < 0)
		return complain_error("run", &e);
	status = result.status;
	snprintf(out, sizeof(out), "%.*s", (int)result.out.head_len, result.out.head);
	if (status != 0)
		fprintf(stderr, "the client ended with %d: %.*s\n", status,
		    (int)result.err.head_len, result.err.head);
	koda_command_result_done(&result);
	return status == 0 ? take_figure(data, out) : -1;
}

#define TASK(t) .data = (void *)(uintptr_t) & (t), .batch = 1, .repeat = 1, .measured = &w.measured

/* Goals for a client in a slot: three times what another sandbox's bridge reaches on the machine
 * where the goals were set. */
#define INSIDE_RATE 6000
#define INSIDE_BULK 1140

/* clang-format off */
static const struct row rows[] = {
	{ "proxy_conn",     "us",   1e-3, { ours,   directly, TASK(conn) }, 2.0, 4, 0 },
	{ "proxy_rate_16",  "1/s",  1,    { ours,   directly, TASK(rate_16), .amount = 1 }, 0, 4, 0 },
	{ "proxy_rate_64",  "1/s",  1,    { ours,   directly, TASK(rate_64), .amount = 1 }, 0, 4, 0 },
	{ "relay_conn",     "us",   1e-3, { ours,   relayed,  TASK(conn) }, 0, 4, 0 },
	{ "relay_rate_16",  "1/s",  1,    { ours,   relayed,  TASK(rate_16), .amount = 1 }, 0, 4, 0 },
	{ "proxy_bulk",     "MB/s", 1e-6, { inside, directly, TASK(bulk), .amount = 1 }, 0.5, 3, 0 },
	{ "inside_conn",    "us",   1e-3, { inside, directly, TASK(conn) }, 0, 4, 0 },
	{ "inside_rate_16", "1/s",  1,    { inside, directly, TASK(rate_16), .amount = 1 }, 0, 4, INSIDE_RATE },
	{ "inside_bulk",    "MB/s", 1e-6, { inside, NULL,     TASK(bulk), .amount = 1 }, 0, 3, INSIDE_BULK },
};

static const struct row peer_rows[] = {
	{ "tinyproxy_conn",    "us",   1e-3, { ours, tinyproxy, TASK(conn) }, 0, 4, 0 },
	{ "tinyproxy_rate_16", "1/s",  1,    { ours, tinyproxy, TASK(rate_16), .amount = 1 }, 2.0, 4, 0 },
	{ "tinyproxy_rate_64", "1/s",  1,    { ours, tinyproxy, TASK(rate_64), .amount = 1 }, 2.0, 4, 0 },
	{ "tinyproxy_bulk",    "MB/s", 1e-6, { ours, tinyproxy, TASK(bulk), .amount = 1 }, 1.4, 3, 0 },
	{ "squid_conn",        "us",   1e-3, { ours, squid,     TASK(conn) }, 0, 4, 0 },
	{ "squid_rate_16",     "1/s",  1,    { ours, squid,     TASK(rate_16), .amount = 1 }, 2.0, 4, 0 },
	{ "squid_rate_64",     "1/s",  1,    { ours, squid,     TASK(rate_64), .amount = 1 }, 2.0, 4, 0 },
	{ "squid_bulk",        "MB/s", 1e-6, { ours, squid,     TASK(bulk), .amount = 1 }, 1.4, 3, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
make_all(const struct setting *set)
{
	char home[PATH_MAX];

	w.root = set->root;
	w.helpers = set->helpers;
	w.peers = set->peers;
	w.brief = set->brief;
	snprintf(w.tree, sizeof(w.tree), "%s/tree", set->root);
	snprintf(w.load, sizeof(w.load), "%s/load", w.tree);
	snprintf(home, sizeof(home), "%s/home", set->root);
	if (mkdir(w.tree, 0755) < 0 || mkdir(home, 0755) < 0 || setenv("HOME", home, 1) < 0 ||
	    unsetenv("XDG_STATE_HOME") < 0 || unsetenv("XDG_CONFIG_HOME") < 0)
		err(1, "%s", w.tree);
	copy_program(KODA_BENCH_LOAD, w.load);
}

static struct koda_policy *
make_policy(struct koda_error *e)
{
	struct koda_policy *policy = koda_policy_for_agent(KODA_AUTO, w.tree, e);
	char rule[32];

	snprintf(rule, sizeof(rule), "127.0.0.1:%u", w.server.port);
	if (policy != NULL && koda_policy_add(policy, KODA_ALLOWED_DOMAINS, rule, e) == 0 &&
	    koda_policy_freeze(policy, e) == 0)
		return policy;
	koda_policy_free(policy);
	return NULL;
}

static int
open_slot(void)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_error e;
	struct koda_policy *policy = make_policy(&e);

	if (policy == NULL)
		return complain_error("policy", &e);
	options.root = w.tree;
	options.mode = KODA_AUTO;
	options.policy = policy;
	options.helper_dir = w.helpers;
	options.commands = true;
	w.ses = koda_session_open(&options, &e);
	w.slot = w.ses == NULL ? NULL : koda_slot_acquire(w.ses, NULL, &e);
	koda_policy_free(policy);
	return w.slot == NULL ? complain_error("slot", &e) : 0;
}

static void
stop(void)
{
	koda_session_close(w.ses);
	w.ses = NULL;
	standing_stop(&w.ours);
	standing_stop(&w.relay);
	standing_stop(&w.tinyproxy);
	standing_stop(&w.squid);
	standing_stop(&w.server);
}

static int
start_both(void)
{
	w.server = w.relay = w.ours = (struct standing)STANDING_EMPTY;
	w.tinyproxy = w.squid = w.server;
	if (server_start(KODA_BENCH_LOAD, &w.server) == 0 &&
	    egress_start(w.helpers, w.server.port, &w.ours) == 0)
		return 0;
	stop();
	return -1;
}

static int
start(void)
{
	if (start_both() < 0)
		return -1;
	if (relay_start(KODA_BENCH_LOAD, w.server.port, &w.relay) == 0 && open_slot() == 0)
		return 0;
	stop();
	return -1;
}

/* ---- processor time and memory ---- */

/* Return the processor time of a process in clock ticks, or -1 if there is no such process. */
static long
ticks_of(int pid)
{
	unsigned long user, system;
	char path[64];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	n = fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
	    &system);
	fclose(f);
	return n == 2 ? (long)(user + system) : -1;
}

/* Measure the processor time, in seconds per GiB, of the proxy that the slot's connections use. */
static struct value
measure_cpu(void)
{
	struct value ret = { .name = "proxy_bulk_cpu", .unit = "s/GiB", .reach = 0.45 };
	double samples[CPU_RUNS];
	int pid = 0;

	for (size_t i = 0; i <= CPU_RUNS; i++) {
		long before = ticks_of(pid);

		if (inside((void *)(uintptr_t)&bulk) < 0)
			return ret;
		if (i > 0)
			samples[i - 1] = (double)(ticks_of(pid) - before) /
			    (double)sysconf(_SC_CLK_TCK) * (double)(1ul << 30) /
			    (double)amount(&bulk);
		/* The first run starts the proxy, so only the later ones are measured. */
		pid = memory_child(PROXY_NAME, w.ours.pid);
		if (pid == 0)
			return ret;
	}
	ret.figure = figure_of(samples, CPU_RUNS, false);
	ret.has = true;
	return ret;
}

/* Return the memory of our proxy in KiB: the proportional figure if this user may read it, else the
 * private one. The difference of two figures is the same for both kinds. */
static double
memory_now(void)
{
	struct memory m = MEMORY_EMPTY;

	memory_add(&m, w.ours.pid);
	return m.has_pss ? m.pss : m.private;
}

static size_t
measure_idle(struct value ret[2])
{
	static const struct task idle = { "idle", NULL, IDLE_TUNNELS, IDLE_TUNNELS, false };
	struct standing tunnels;
	double before, memory, ticks;
	struct words wd;
	char line[16];
	long since;

	ret[0] = (struct value){ .name = "proxy_idle_1000", .unit = "KiB", .reach = 24 };
	ret[1] = (struct value){ .name = "proxy_idle_cpu", .unit = "ticks", .reach = 0 };
	/* The first connection allocates memory that later ones use again, so make one before
	 * measuring. */
	if (ours((void *)(uintptr_t)&conn) < 0)
		return 2;
	before = memory_now();
	if (line_start(words(&idle, KODA_BENCH_LOAD, w.ours.port, &wd), &tunnels, line,
		sizeof(line)) < 0)
		return 2;
	memory = (memory_now() - before) / IDLE_TUNNELS;
	since = ticks_of(w.ours.pid);
	sleep(IDLE_SECONDS);
	ticks = (double)(ticks_of(w.ours.pid) - since);
	standing_stop(&tunnels);
	ret[0].figure = (struct figure){ memory, memory };
	ret[1].figure = (struct figure){ ticks, ticks };
	ret[0].has = ret[1].has = true;
	return 2;
}

static size_t
measure(struct value *ret)
{
	size_t n = measure_idle(ret);

	ret[n] = measure_cpu();
	return n + 1;
}

const struct group network_group = { "network", rows, N_ELEMENTS(rows), make_all, start, stop,
	measure, NULL };

/* ---- other proxies ---- */

static bool
has_peer(const char *program)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", w.peers, program);
	return access(path, X_OK) == 0;
}

static int
start_proxies(void)
{
	if (start_both() < 0)
		return -1;
	/* A proxy that does not start prints why, and missing() leaves its rows out. */
	if (has_peer("tinyproxy/usr/bin/tinyproxy"))
		tinyproxy_start(w.peers, w.root, &w.tinyproxy);
	if (has_peer("squid/usr/sbin/squid"))
		squid_start(w.peers, w.root, &w.squid);
	return 0;
}

static const char *
missing(const struct row *row)
{
	const struct standing *s = row->race.floor == squid ? &w.squid : &w.tinyproxy;

	return s->pid > 0 ? NULL : "not here, or it does not work here";
}

const struct group proxy_group = { "proxies", peer_rows, N_ELEMENTS(peer_rows), make_all,
	start_proxies, stop, NULL, missing };
