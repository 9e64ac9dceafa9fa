/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of several slots talk to servers while their proxies are killed: no host is reached
 * that no rule names, no byte of one connection turns up in another, connections after a death are
 * served, those of the other policies do not break, and nothing is left behind. And: thousands of
 * clients that send a byte a second do not slow down the others. KODA_CHAOS_OPS: three times the
 * number of kills, at most 1000 of them. KODA_SOAK_SECONDS: minimum duration. KODA_CHAOS_SEED: the
 * random seed.
 *
 * The clients are this program too, run as a command of the slot: see client().
 */
#include "tests/kit/leaks.h"
#include "tests/kit/proxied_crowd.h"

/* ---- what the host reported ---- */

struct seen {
	char own[32]; /* host:port that the slot may reach */
	unsigned own_port, denied, allowed, wrong;
};

static int
see_violation(void *data, const struct koda_violation *v)
{
	struct seen *seen = data;

	if (v->kind == KODA_VIOLATION_NETWORK_OUTBOUND) {
		seen->denied++;
		seen->wrong += strcmp(v->target, seen->own) == 0 || !v->certain;
	}
	return 0;
}

static int
see_connection(void *data, const struct koda_connection *c)
{
	struct seen *seen = data;

	if (c->outcome == KODA_CONNECTION_ALLOWED) {
		seen->allowed++;
		seen->wrong += c->port != seen->own_port;
	}
	if (c->outcome == KODA_CONNECTION_DENIED)
		seen->wrong += c->port == seen->own_port;
	return 0;
}

static void
check_seen(const struct chaos *c, unsigned i)
{
	struct seen seen = { .own_port = c->servers.port[server_of[i]] };

	snprintf(seen.own, sizeof(seen.own), "127.0.0.1:%u", seen.own_port);
	assert_int_equal(koda_slot_violations(c->slot[i], see_violation, &seen), 0);
	assert_int_equal(koda_slot_connections(c->slot[i], see_connection, &seen), 0);
	assert_int_equal(seen.wrong, 0);
	assert_true(seen.denied > 0);
	assert_true(seen.allowed > 0);
}

static bool
has_children(void)
{
	char path[64], c;
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", getpid(), getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return read(fd, &c, 1) > 0;
}

/* Everything ends; the servers have no clients left. */
static void
chaos_close(struct chaos *c, unsigned fds)
{
	volatile struct counts *counts = c->servers.counts;

	fixture_end(&c->f);
	for (uint64_t end = clock_ms() + PATIENCE_MS; counts->open > 0 && clock_ms() < end;)
		blink();
	assert_int_equal(counts->open, 0);
	assert_int_equal(counts->intruders, 0);
	assert_int_equal(counts->mixed, 0);
	assert_int_equal(counts->accepted[SERVERS - 1], 0);
	servers_stop(&c->servers);
	assert_false(has_children());
	assert_int_equal(count_entries("/proc/self/fd"), fds);
}

static void
deaths(void **state)
{
	const unsigned soak = number("KODA_SOAK_SECONDS", 0) / 2;
	const unsigned ops = number("KODA_CHAOS_OPS", 600);
	const unsigned kills = ops < 3000 ? ops / 3 : 1000;
	const uint64_t until = clock_ms() + 1000 * (uint64_t)soak;
	const unsigned fds = count_entries("/proc/self/fd");
	unsigned cut = 0;
	struct chaos c;

	seed = number("KODA_CHAOS_SEED", 1);
	chaos_open(&c);
	for (round_of(&c, 50); c.kills < kills || clock_ms() < until; round_of(&c, 50)) {
		/* A slot is replaced by another, while the proxy of both serves a third. */
		koda_slot_release(c.slot[1]);
		c.slot[1] = acquire(&c, server_of[1]);
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		print_message("# slot %u: %u whole, %u cut, %u denied\n", i, c.whole[i], c.cut[i],
		    c.denied[i]);
		assert_true(c.whole[i] > 0);
		assert_true(c.denied[i] > 0);
		check_seen(&c, i);
		cut += c.cut[i];
	}
	print_message("# %u kills\n", c.kills);
	/* A chaos test without any kills proves nothing. */
	assert_true(cut > 0);
	assert_int_equal(c.cut[SLOTS - 1], 0);
	chaos_close(&c, fds);
}

/* ---- slow ones ---- */

#define SLOW  4000 /* of the 4096 that a slot may have, in connections and in descriptors */
#define FAT   14000
#define QUICK 100

/* slow N PORT: opens N connections. Every second one first sends almost all that a head may
 * have; most send a byte of a head each second, the others nothing. A client that is refused for
 * taking too long comes again. */
static int
slow(char **argv)
{
	static int fd[SLOW];
	static size_t sent[SLOW];
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	static char much[FAT];
	char head[128], answer[1024];
	unsigned n = (unsigned)atoi(argv[0]), late = 0;

	snprintf(head, sizeof(head), "CONNECT 127.0.0.1:%s HTTP/1.1\r\nX-Slow: %080d\r\n", argv[1],
	    0);
	snprintf(much, sizeof(much), "%sX-Fat: ", head);
	memset(much + strlen(much), 'x', sizeof(much) - strlen(much));
	for (unsigned i = 0; i < n; i++)
		fd[i] = -1;
	for (bool first = true;; first = false) {
		for (unsigned i = 0; i < n; i++) {
			ssize_t r =
			    fd[i] < 0 ? 0 : recv(fd[i], answer, sizeof(answer), MSG_DONTWAIT);

			if (fd[i] >= 0 && r < 0 && errno == EAGAIN) {
				if (i % 4 != 0)
					send(fd[i], head + sent[i]++, 1,
					    MSG_NOSIGNAL | MSG_DONTWAIT);
				continue;
			}
			if (r > 0 && memcmp(answer, "HTTP/1.1 408", 12) != 0)
				give_up("an answer that is not 408");
			late += r > 0;
			if (fd[i] >= 0)
				close(fd[i]);
			fd[i] = client_connect(EGRESS_PORT);
			sent[i] = 0;
			if (i % 2 == 1 && !send_whole(fd[i], much, sizeof(much)))
				give_up("cut");
		}
		if (first) {
			printf("ready\n");
			fflush(stdout);
		}
		if (poll(&input, 1, 1000) != 0)
			break;
	}
	printf("%u late\n", late);
	return 0;
}

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* quick SLOT PORT: prints the median duration of a short conversation, in microseconds. */
static int
quick(char **argv)
{
	uint64_t took[QUICK];

	for (unsigned i = 0; i < QUICK; i++) {
		struct hello h = { .slot = (uint32_t)atoi(argv[0]), .up = 100, .down = 4096 };
		struct timespec from, to;
		int fd;

		seed = mix(seed + i + 1);
		clock_gettime(CLOCK_MONOTONIC, &from);
		fd = client_connect(EGRESS_PORT);
		if (tunnel_http(fd, (unsigned)atoi(argv[1])) != TALK_WHOLE ||
		    talk(fd, &h) != TALK_WHOLE)
			give_up("not served");
		close(fd);
		clock_gettime(CLOCK_MONOTONIC, &to);
		took[i] = (uint64_t)((to.tv_sec - from.tv_sec) * 1000000 +
		    (to.tv_nsec - from.tv_nsec) / 1000);
	}
	qsort(took, QUICK, sizeof(took[0]), compare);
	printf("%llu\n", (unsigned long long)took[QUICK / 2]);
	return 0;
}

static unsigned
median(const struct chaos *c, unsigned slot)
{
	char program[PATH_MAX], slot_text[16], port[16];
	const char *const argv[] = { program, "quick", slot_text, port, NULL };
	cleanup_free char *text = NULL;
	struct koda_command *command;
	int input;

	snprintf(program, sizeof(program), "%s", at(&c->f, PROGRAM));
	snprintf(slot_text, sizeof(slot_text), "%u", slot);
	snprintf(port, sizeof(port), "%u", c->servers.port[server_of[slot]]);
	command = start(c->slot[slot], argv, &input);
	text = finish(command, input);
	return (unsigned)atoi(text);
}

/* Returns the resident memory of a process in KiB, without that of files; /proc/PID/statm is
 * readable for any process. */
static long
memory_of(int pid)
{
	unsigned long size, resident, shared;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu %lu", &size, &resident, &shared), 3);
	fclose(f);
	return (long)(resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Waits until the command has printed that. */
static void
wait_output(struct chaos *c, const struct koda_command *command, const char *text)
{
	struct koda_output out, err;

	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; turn(c)) {
		koda_command_output(command, &out, &err);
		if (out.head_len > 0 && memmem(out.head, out.head_len, text, strlen(text)) != NULL)
			return;
	}
	fail_msg("'%s' does not come: %.*s", text, (int)err.head_len, err.head);
}

static void
slow_ones(void **state)
{
	const unsigned fds = count_entries("/proc/self/fd");
	char program[PATH_MAX], many[16], port[16];
	const char *const argv[] = { program, "slow", many, port, NULL };
	cleanup_free char *text = NULL;
	struct koda_command *command;
	unsigned before, meanwhile, late;
	int proxy[PROXIES_MAX], input;
	long memory;
	struct chaos c;

	chaos_open(&c);
	before = median(&c, 1);
	assert_int_equal(proxies(proxy), 1);
	memory = memory_of(proxy[0]);
	snprintf(program, sizeof(program), "%s", at(&c.f, PROGRAM));
	snprintf(many, sizeof(many), "%d", SLOW);
	snprintf(port, sizeof(port), "%u", c.servers.port[0]);
	command = start(c.slot[0], argv, &input);
	wait_output(&c, command, "ready");
	meanwhile = median(&c, 1);
	for (uint64_t end = clock_ms() + 12000; clock_ms() < end;)
		turn(&c); /* the time limit for a head */
	memory = memory_of(proxy[0]) - memory;
	meanwhile = (meanwhile + median(&c, 1)) / 2;
	text = finish(command, input);
	print_message("# %u us, meanwhile %u us; %ld KiB for %d; %s", before, meanwhile, memory,
	    SLOW, strstr(text, "\n") + 1);
	assert_int_equal(sscanf(text, "ready\n%u late", &late), 1);
	assert_true(late >= SLOW / 2);
	/* As fast as before, except for the processor time that the slow clients' bytes cost. */
	assert_true(meanwhile < 10 * before + 5000);
	assert_true(SANITIZED || memory < SLOW * 20);
	chaos_close(&c, fds);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaths),
		cmocka_unit_test(slow_ones),
	};

	if (argc == 5 + SERVERS && strcmp(argv[1], "client") == 0)
		return client(argv + 2);
	if (argc == 4 && strcmp(argv[1], "slow") == 0)
		return slow(argv + 2);
	if (argc == 4 && strcmp(argv[1], "quick") == 0)
		return quick(argv + 2);
	return cmocka_run_group_tests_name("killed_proxies", tests, NULL, NULL);
}
