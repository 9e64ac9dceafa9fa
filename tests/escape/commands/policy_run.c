/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy-run ROOT (VERB WORD)... -- COMMAND...: runs the command in a sandbox with additional
 * rules that the library offers an embedder and the command line does not. Ends with the command's
 * status.
 *
 *	mode MODE                    must come first; default Auto
 *	deny-read PATH, hole PATH, limit NAME=VALUE
 *	allow-domain PATTERN, deny-domain PATTERN, any-domain yes|no, local-binding yes|no
 *	ca-bundle PATH, socket DOMAIN=PATH
 *	intercept yes                the proxy terminates TLS
 *	answer no|once|session       to every question for a host
 *	connections yes              print them when the command has ended
 *	draft ID|new                 in a draft
 *	background FILE              run in the background; once FILE exists, close everything
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

static const struct {
	const char *verb;
	enum koda_list list;
} lists[] = {
	{ "deny-read", KODA_DENY_READ },
	{ "hole", KODA_ALLOW_READ_WITHIN_DENY },
	{ "allow-domain", KODA_ALLOWED_DOMAINS },
	{ "deny-domain", KODA_DENIED_DOMAINS },
};

static const struct {
	const char *verb;
	enum koda_flag flag;
} flags[] = {
	{ "any-domain", KODA_ANY_DOMAIN },
	{ "local-binding", KODA_ALLOW_LOCAL_BINDING },
};

static struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
static enum koda_scope answer;
static bool tells;
/* Run in the background until that file exists. */
static const char *until;

static struct koda_slot_options where;

/* Handles a verb that is not a rule of the policy. */
static bool
set_option(const char *verb, const char *what)
{
	const bool yes = strcmp(what, "yes") == 0;

	if (strcmp(verb, "intercept") == 0)
		options.intercept = yes;
	else if (strcmp(verb, "connections") == 0)
		tells = yes;
	else if (strcmp(verb, "background") == 0)
		until = what;
	else if (strcmp(verb, "draft") == 0)
		where = (struct koda_slot_options){ .workspace = KODA_WORKSPACE_DRAFT,
			.draft = strcmp(what, "new") == 0 ? NULL : what };
	else if (strcmp(verb, "answer") == 0)
		answer = strcmp(what, "session") == 0 ? KODA_SCOPE_SESSION
		    : strcmp(what, "once") == 0       ? KODA_SCOPE_ONCE
						      : KODA_SCOPE_NO;
	else
		return false;
	return true;
}

static void
add_socket(struct koda_policy *policy, char *what)
{
	struct koda_error err = { .message = "socket DOMAIN=PATH" };
	char *path = strchr(what, '=');

	if (path == NULL)
		fail(&err);
	*path++ = '\0';
	if (koda_policy_add_mitm_socket(policy, what, path, &err) < 0)
		fail(&err);
}

static void
add_rule(struct koda_policy *policy, const char *verb, char *what)
{
	struct koda_error err = { .message = "no such rule" };

	if (set_option(verb, what))
		return;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(verb, lists[i].verb) != 0)
			continue;
		if (koda_policy_add(policy, lists[i].list, what, &err) < 0)
			fail(&err);
		return;
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (strcmp(verb, flags[i].verb) != 0)
			continue;
		if (koda_policy_set_flag(policy, flags[i].flag, strcmp(what, "yes") == 0, &err) < 0)
			fail(&err);
		return;
	}
	if (strcmp(verb, "limit") == 0)
		add_limit(policy, what);
	else if (strcmp(verb, "socket") == 0)
		add_socket(policy, what);
	else if (strcmp(verb, "ca-bundle") != 0 || koda_policy_set_mitm(policy, what, &err) < 0)
		fail(&err);
}

static void
approve(void *data, const struct koda_question *question)
{
	if (question->kind != KODA_OP_CONNECT) {
		koda_approval_answer(question->approval, true);
		return;
	}
	fprintf(stderr, "asked for %s:%u\n", question->host, question->port);
	koda_approval_answer_scope(question->approval, answer);
}

static int
tell(void *data, const struct koda_connection *c)
{
	fprintf(stderr, "%s %s:%u %s %s up %llu down %llu%s\n", c->protocol, c->host, c->port,
	    koda_connection_outcome_name(c->outcome), c->rule, (unsigned long long)c->up,
	    (unsigned long long)c->down, c->open ? " open" : "");
	return 0;
}

/* The embedder leaves while the command runs. */
static void
run_in_background(struct koda_session *session, struct koda_slot *slot,
    struct koda_command_options *how)
{
	struct koda_command *c;
	struct koda_error err;

	how->background = true;
	c = koda_command_start(slot, how, NULL, NULL, &err);
	if (c == NULL)
		fail(&err);
	while (access(until, F_OK) != 0)
		koda_session_dispatch(session, 10, &err);
	koda_slot_release(slot);
	koda_command_free(c);
}

static enum koda_mode
mode_of(const char *name)
{
	struct koda_error err = { .message = "no such mode" };

	if (strcmp(name, "plan") == 0)
		return KODA_PLAN;
	if (strcmp(name, "safe") == 0)
		return KODA_SAFE;
	if (strcmp(name, "auto") != 0)
		fail(&err);
	return KODA_AUTO;
}

int
main(int argc, char **argv)
{
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

	options.mode = KODA_AUTO;
	options.approve = approve;
	if (argc > 4 && strcmp(argv[2], "mode") == 0) {
		options.mode = mode_of(argv[3]);
		i = 4;
	}
	if (argc < 4 || (policy = koda_policy_for_agent(options.mode, argv[1], &err)) == NULL)
		fail(&err);
	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2)
		add_rule(policy, argv[i], argv[i + 1]);
	if (koda_policy_freeze(policy, &err) < 0)
		fail(&err);
	options.root = argv[1];
	options.policy = policy;
	options.commands = true;
	if ((session = koda_session_open(&options, &err)) == NULL ||
	    (slot = koda_slot_open(session, &where, &err)) == NULL)
		fail(&err);
	command.argv = (const char *const *)argv + i + 1;
	if (until != NULL) {
		run_in_background(session, slot, &command);
		koda_session_close(session);
		koda_policy_free(policy);
		return 0;
	}
	if (koda_run(slot, &command, &result, &err) < 0)
		fail(&err);
	status = result.status;
	if ((told = koda_violations_render(result.violations, result.n_violations)) != NULL)
		fprintf(stderr, "%s\n", told);
	free(told);
	for (size_t k = 0; k < result.n_violations; k++)
		if (result.violations[k].detail[0] != '\0')
			fprintf(stderr, "%s\n", result.violations[k].detail);
	if (tells)
		koda_slot_connections(slot, tell, NULL);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	koda_session_close(session);
	koda_policy_free(policy);
	return status;
}
