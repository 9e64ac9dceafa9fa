/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft_try ROOT SCRIPT [RULE...]: runs the script in a new draft slot, and prints its output. The
 * draft stays. Exits with the script's status, or with 99 after printing why there is no draft.
 * Each RULE is one more directory that commands may write. MODE=safe: in that mode, approved.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/koda/sandbox.h"

#define NO_DRAFT 99

static const char *const helpers[][2] = {
	{ KODA_TEST_HELPER_DIR "/koda-fs-worker", "koda-fs-worker" },
	{ KODA_TEST_SEARCH, "koda-fs-search" },
	{ KODA_TEST_STAGE2, "koda-sandbox-stage2" },
	{ KODA_TEST_PROXY, "koda-egress-proxy" },
	{ KODA_TEST_CONNECT, "koda-egress-connect" },
};

static int
give_up(const char *what, const struct koda_error *err)
{
	fprintf(stderr, "%s: %s: %s\n", what, koda_code_name(err->code), err->message);
	return NO_DRAFT;
}

static int
link_helpers(char *dir)
{
	char path[4096];

	if (mkdtemp(dir) == NULL)
		return -1;
	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, helpers[i][1]);
		if (symlink(helpers[i][0], path) < 0)
			return -1;
	}
	return 0;
}

static void
unlink_helpers(const char *dir)
{
	char path[4096];

	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, helpers[i][1]);
		unlink(path);
	}
	rmdir(dir);
}

static int
run(struct koda_session *ses, const char *script)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	const struct koda_command_options command = { .shell = script,
		.approved = true,
		.stdout_fd = STDOUT_FILENO,
		.stderr_fd = STDERR_FILENO };
	struct koda_command_result result;
	struct koda_error err;
	struct koda_slot *slot = koda_slot_open(ses, &o, &err);
	int status;

	if (slot == NULL)
		return give_up("draft", &err);
	if (koda_run(slot, &command, &result, &err) < 0)
		return give_up("run", &err);
	status = result.status;
	for (size_t i = 0; i < result.n_violations; i++)
		fprintf(stderr, "%s: %s: %s\n", koda_violation_kind_name(result.violations[i].kind),
		    result.violations[i].target, result.violations[i].detail);
	koda_command_result_done(&result);
	koda_slot_release(slot);
	return status;
}

static enum koda_mode
mode(void)
{
	const char *name = getenv("MODE");

	return name != NULL && strcmp(name, "safe") == 0 ? KODA_SAFE : KODA_AUTO;
}

static struct koda_policy *
make_policy(const char *root, char *const *rules, int n)
{
	struct koda_error err;
	struct koda_policy *p = koda_policy_for_agent(mode(), root, &err);

	for (int i = 0; p != NULL && i < n; i++)
		if (koda_policy_add(p, KODA_ALLOW_WRITE, rules[i], &err) < 0)
			give_up("rule", &err);
	if (p != NULL)
		koda_policy_freeze(p, &err);
	return p;
}

int
main(int argc, char **argv)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	char dir[] = "/tmp/koda-draft-try-XXXXXX";
	struct koda_session *ses;
	struct koda_policy *policy;
	struct koda_error err;
	int status;

	if (argc < 3 || link_helpers(dir) < 0) {
		fprintf(stderr, "usage: draft_try ROOT SCRIPT [RULE...]\n");
		return 2;
	}
	policy = make_policy(argv[1], argv + 3, argc - 3);
	options.root = argv[1];
	options.mode = mode();
	options.helper_dir = dir;
	options.commands = true;
	options.policy = policy;
	ses = koda_session_open(&options, &err);
	status = ses == NULL ? give_up("session", &err) : run(ses, argv[2]);
	koda_session_close(ses);
	koda_policy_free(policy);
	unlink_helpers(dir);
	return status;
}
