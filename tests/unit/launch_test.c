/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/commands.c, reap.c: stage2 has ordered a command; how long it waits before it checks
 * whether the command runs. No process serves the template's socket, so the command never starts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "stage2/commands.h"
#include "stage2/reap.h"
#include "stage2/template.h"

/* stage2/main.c has these. Nothing is reported here. */
void
stage2_signals(struct stage2 *s)
{
	fail_msg("signals");
}

void
stage2_report(struct stage2 *s, const Koda__Report *report)
{
	fail_msg("a report");
}

void
stage2_failed(struct stage2 *s, uint64_t id, Koda__FailedStep step, int errnum, const char *what)
{
	fail_msg("'%s' failed", what);
}

void
stage2_event(struct stage2 *s, Koda__EventKind kind, const char *target, uint64_t stopped_us,
    uint64_t ended)
{
	fail_msg("an event of '%s'", target);
}

static void
order(struct stage2 *s, uint64_t id)
{
	ProtobufCBinaryData argv[] = { { 4, (uint8_t *)(uintptr_t) "true" } };
	Koda__Exec exec = KODA__EXEC__INIT;
	const int fds[3] = { 0, 1, 2 };

	exec.n_argv = 1;
	exec.argv = argv;
	exec.cwd = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t) "/" };
	commands_exec(s, id, &exec, fds);
}

/* The waits get longer, up to a limit, and begin again with the next command. */
static void
waits_double(void **state)
{
	static const int want[] = { 5, 10, 20, 40, 50, 50, 50 };
	int pair[2];
	struct template template = { 0 };
	struct stage2 s = { .template = &template };

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	template.fd = pair[0];
	s.commands = commands_new(NULL);
	assert_non_null(s.commands);
	assert_int_equal(reap_timeout(s.commands), -1);
	for (uint64_t id = 1; id <= 2; id++) {
		order(&s, id);
		for (size_t i = 0; i < N_ELEMENTS(want); i++)
			assert_int_equal(reap_timeout(s.commands), want[i]);
	}
	free(s.commands);
	close(pair[0]);
	close(pair[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(waits_double) };

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
