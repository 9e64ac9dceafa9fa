/*
 * policy-run ROOT (deny-read PATH | hole PATH | limit NAME=VALUE)... -- COMMAND...: the command in the sandbox of Auto
 * with rules added, which an embedder may do and the command line cannot. Ends as the command does.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/koda/sandbox.h"

#define EXIT_HOST 125

static const struct {
	const char *name;
	enum koda_limit limit;
} limits[] = {
	{ "cpu_time_secs", KODA_CPU_TIME_SECS },
	{ "max_rss_bytes", KODA_MAX_RSS_BYTES },
	{ "max_processes", KODA_MAX_PROCESSES },
};

static void
fail(const struct koda_error *err)
{
	fprintf(stderr, "policy-run: %s\n", err->message);
	exit(EXIT_HOST);
}

static void
add_limit(struct koda_policy *policy, const char *text)
{
	struct koda_error err = { .message = "no such limit" };
	size_t len = strcspn(text, "=");

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (strlen(limits[i].name) == len && memcmp(limits[i].name, text, len) == 0 &&
		    text[len] == '=' &&
		    koda_policy_set_limit(policy, limits[i].limit,
			strtoull(text + len + 1, NULL, 10), &err) == 0)
			return;
	}
	fail(&err);
}

static void
add_rule(struct koda_policy *policy, const char *verb, const char *what)
{
	struct koda_error err = { .message = "no such rule" };

	if (strcmp(verb, "limit") == 0)
		add_limit(policy, what);
	else if (strcmp(verb, "deny-read") == 0
		? koda_policy_add(policy, KODA_DENY_READ, what, &err) < 0
		: strcmp(verb, "hole") != 0 ||
		    koda_policy_add(policy, KODA_ALLOW_READ_WITHIN_DENY, what, &err) < 0)
		fail(&err);
}

int
main(int argc, char **argv)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_command_options command = { .stdout_fd = STDOUT_FILENO,
		.stderr_fd = STDERR_FILENO,
		.approved = true };
	struct koda_command_result result;
	struct koda_policy *policy;
	struct koda_session *session;
	struct koda_slot *slot = NULL;
	struct koda_error err = { .message = "what policy?" };
	char *told;
	int i = 2, status;

	if (argc < 4 || (policy = koda_policy_for_agent(KODA_AUTO, argv[1], &err)) == NULL)
		fail(&err);
	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2)
		add_rule(policy, argv[i], argv[i + 1]);
	if (koda_policy_freeze(policy, &err) < 0)
		fail(&err);
	options.root = argv[1];
	options.mode = KODA_AUTO;
	options.policy = policy;
	options.commands = true;
	if ((session = koda_session_open(&options, &err)) == NULL ||
	    (slot = koda_slot_acquire(session, NULL, &err)) == NULL)
		fail(&err);
	command.argv = (const char *const *)argv + i + 1;
	if (koda_run(slot, &command, &result, &err) < 0)
		fail(&err);
	status = result.status;
	if ((told = koda_violations_render(result.violations, result.n_violations)) != NULL)
		fprintf(stderr, "%s\n", told);
	free(told);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	koda_session_close(session);
	koda_policy_free(policy);
	return status;
}
