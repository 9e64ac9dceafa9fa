/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_clone.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/signals.h"

/* What a command may cost that did not ask for a clone: a few seconds. */
#define UNASKED_FILES 100000
#define UNASKED_BYTES ((uint64_t)1 << 30)

struct progress {
	bool terminal;
	int signals;
};

static int
on_progress(void *data, uint64_t files, uint64_t bytes)
{
	const struct progress *p = data;
	int signo;

	if (p->terminal)
		fprintf(stderr, "\rcloning: %" PRIu64 " files, %" PRIu64 " MiB copied\033[K", files,
		    bytes >> 20);
	while (p->signals >= 0 && (signo = signals_next(p->signals)) != 0)
		if (signo == SIGINT || signo == SIGTERM || signo == SIGHUP)
			return 1;
	return 0;
}

static struct koda_copy *
make_clone(struct koda_session *project, bool asked, struct koda_error *err)
{
	struct progress p = { isatty(STDERR_FILENO) == 1, signals_open() };
	const struct koda_copy_options options = {
		.kind = KODA_WORKSPACE_CLONE,
		.agent = "command",
		.max_files = asked ? 0 : UNASKED_FILES,
		.max_bytes = asked ? 0 : UNASKED_BYTES,
		.progress = on_progress,
		.data = &p,
	};
	struct koda_copy *copy = koda_copy_open(project, &options, err);

	if (p.terminal)
		fputs("\r\033[K", stderr);
	signals_close(&p.signals);
	return copy;
}

/* The directory of the clone for one of the project. */
static char *
move_path(const struct run_clone *c, const char *root, const char *path)
{
	const char *below = path + (strcmp(root, "/") == 0 ? 0 : strlen(root));
	char *ret;

	if (asprintf(&ret, "%s%s", koda_copy_root(c->copy), below) < 0)
		output_no_memory();
	return ret;
}

static void
drop(struct run_clone *c)
{
	struct koda_released released;
	struct koda_error dropped;

	koda_session_close(c->session);
	if (c->copy != NULL)
		koda_copy_release(c->copy, KODA_RELEASE_DISCARD, &released, &dropped);
	koda_copy_close(c->copy);
	free(c->cwd);
	*c = (struct run_clone){ 0 };
}

int
run_clone_open(struct run_clone *ret, struct koda_session *project,
    const struct koda_session_options *like, const char *cwd, bool asked, struct koda_error *err)
{
	struct koda_session_options options = *like;
	struct koda_policy *policy = NULL;

	*ret = (struct run_clone){ .copy = make_clone(project, asked, err) };
	if (ret->copy == NULL)
		return -1;
	policy = koda_copy_policy(ret->copy, koda_session_policy(project), err);
	if (policy != NULL) {
		options.root = koda_copy_root(ret->copy);
		options.policy = policy;
		options.narrowed = true;
		ret->session = koda_session_open(&options, err);
	}
	koda_policy_free(policy);
	if (ret->session != NULL)
		ret->slot = koda_slot_acquire(ret->session, NULL, err);
	if (ret->slot == NULL) {
		drop(ret);
		return -1;
	}
	ret->cwd = move_path(ret, like->root, cwd);
	return 0;
}

int
run_clone_end(struct run_clone *c, char **ret, struct koda_error *err)
{
	struct koda_released released = { 0 };
	int r;

	koda_session_close(c->session);
	r = koda_copy_release(c->copy, KODA_RELEASE_CLEAN, &released, err);
	if (r == 0)
		*ret = output_copy(released.draft);
	koda_copy_close(c->copy);
	free(c->cwd);
	*c = (struct run_clone){ 0 };
	return r;
}
