/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/confined.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/policy/policy_api.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/confine/rights.h"

#define SAID_SHOWN 300 /* of what a failed script printed */
#define LINE_SIZE  128
#define LINE_MS    100

struct confined {
	struct koda_session *ses;
	struct koda_slot *slot;
};

static void
free_policy(struct koda_policy **policy)
{
	koda_policy_free(*policy);
}

/* What the session's commands must not read, these must not read either. */
static int
add_secrets(struct koda_policy *p, const struct koda_session *of, struct koda_error *err)
{
	static const enum koda_list lists[] = { KODA_DENY_READ, KODA_ALLOW_READ_WITHIN_DENY };
	const struct policy *from = koda_policy_get(of->policy);

	for (size_t i = 0; i < N_ELEMENTS(lists); i++)
		for (size_t k = 0; k < from->list[lists[i]].n; k++)
			if (koda_policy_add(p, lists[i], from->list[lists[i]].v[k], err) < 0)
				return -1;
	return 0;
}

/* A worktree has pointers in the git directory that look like another repository's, so the built-in
 * rule on configuration does not apply: the places by which git runs programs are named. */
static int
add_protected(struct koda_policy *p, const char *common, struct koda_error *err)
{
	static const char *const names[] = { "config", "config.worktree", "hooks", "info",
		"modules", "HEAD", "index", "commondir", "objects/info" };

	if (koda_policy_set_flag(p, KODA_ALLOW_GIT_CONFIG, true, err) < 0)
		return -1;
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		cleanup_free char *path = NULL;

		if (asprintf(&path, "%s/%s", common, names[i]) < 0) {
			path = NULL;
			return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		}
		if (koda_policy_add(p, KODA_DENY_WRITE_WITHIN_ALLOW, path, err) < 0)
			return -1;
	}
	return 0;
}

/* common, tree: what may be written, or NULL. */
static struct koda_policy *
make_policy(const struct koda_session *of, const char *common, const char *tree,
    struct koda_error *err)
{
	cleanup(free_policy) struct koda_policy *p = koda_policy_new();

	if (p == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		return NULL;
	}
	if ((common != NULL && koda_policy_add(p, KODA_ALLOW_WRITE, common, err) < 0) ||
	    (tree != NULL && koda_policy_add(p, KODA_ALLOW_WRITE, tree, err) < 0) ||
	    add_secrets(p, of, err) < 0 || (common != NULL && add_protected(p, common, err) < 0) ||
	    koda_policy_freeze(p, err) < 0)
		return NULL;
	return take_ptr(&p);
}

/* Its commands are the host's own, and the user is not asked about them. Where Auto does not start, a
 * session in another mode can still make copies. */
static enum koda_mode
mode_for(const struct koda_session *of)
{
	return of->mode != KODA_AUTO &&
		rights_lost(CONFINED_COMMANDS, lockdown_landlock_abi()) != NULL
	    ? KODA_SAFE
	    : KODA_AUTO;
}

static struct confined *
open_in(const struct koda_session *of, const char *root, struct koda_policy *taken,
    struct koda_error *err)
{
	cleanup(free_policy) struct koda_policy *policy = taken;
	struct koda_session_options o = KODA_SESSION_OPTIONS_INIT;
	cleanup_free char *helpers = strdup(of->worker_path);
	struct confined *c = calloc(1, sizeof(*c));

	if (c == NULL || helpers == NULL) {
		free(c);
		err_set(err, KODA_INTERNAL, ENOMEM, "copy");
		return NULL;
	}
	if (policy == NULL) {
		free(c);
		return NULL;
	}
	*strrchr(helpers, '/') = '\0';
	o.root = root;
	o.mode = mode_for(of);
	o.policy = policy;
	o.helper_dir = helpers;
	o.commands = true;
	o.narrowed = true;
	o.wait = of->wait;
	o.data = of->data;
	c->ses = koda_session_open(&o, err);
	if (c->ses != NULL)
		c->ses->own_commands = true;
	c->slot = c->ses == NULL ? NULL : koda_slot_acquire(c->ses, NULL, err);
	if (c->slot != NULL)
		return c;
	confined_free(c);
	return NULL;
}

struct confined *
confined_new(const struct koda_session *of, const char *common, const char *tree,
    struct koda_error *err)
{
	return open_in(of, common, make_policy(of, common, tree, err), err);
}

struct confined *
confined_for_clone(const struct koda_session *of, const char *into, struct koda_error *err)
{
	return open_in(of, of->root, make_policy(of, NULL, into, err), err);
}

void
confined_free(struct confined *c)
{
	if (c == NULL)
		return;
	koda_session_close(c->ses);
	free(c);
}

/* Takes over r. what: the name of the program, for errors. */
static int
take_result(struct koda_command_result *r, const char *what, char **ret, struct koda_error *err)
{
	int status = r->status;

	if (r->signal != 0 || r->out.left_out > 0)
		status = err_set(err, KODA_IO, 0, "%s was ended by signal %d", what, r->signal);
	else if (status != 0)
		err_set(err, KODA_IO, 0, "%s: %.*s", what,
		    (int)(r->err.head_len < SAID_SHOWN ? r->err.head_len : SAID_SHOWN),
		    r->err.head);
	if (status >= 0)
		*ret = strndup(r->out.head, r->out.head_len + r->out.tail_len);
	koda_command_result_done(r);
	return status >= 0 && *ret == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "copy") : status;
}

/* Passes on the last whole line of what the program has printed. */
static bool
pass_line(struct koda_command *command, confined_line_fn *line, void *data)
{
	struct koda_output out, err;
	char text[LINE_SIZE];
	const char *from;
	size_t len;

	koda_command_output(command, &out, &err);
	from = out.tail_len > 0 ? out.tail : out.head;
	len = out.tail_len > 0 ? out.tail_len : out.head_len;
	while (len > 0 && from[len - 1] != '\n')
		len--;
	if (len == 0)
		return line(data, "");
	len--;
	for (const char *at = from + len; at > from && len > 0; at--)
		if (at[-1] == '\n') {
			len -= (size_t)(at - from);
			from = at;
			break;
		}
	snprintf(text, sizeof(text), "%.*s", (int)(len < LINE_SIZE ? len : LINE_SIZE - 1), from);
	return line(data, text);
}

/* Meanwhile the embedder may serve others, or give up. */
static bool
goes_on(const struct confined *c, struct koda_command *command, confined_line_fn *line, void *data)
{
	if (c->ses->wait != NULL && c->ses->wait(c->ses->data, NULL, 0, 0) < 0)
		return false;
	return line == NULL || pass_line(command, line, data);
}

static int
run(struct confined *c, const struct koda_command_options *o, const char *what,
    confined_line_fn *line, void *data, char **ret, struct koda_error *err)
{
	struct koda_command *command = koda_command_start(c->slot, o, NULL, NULL, err);
	struct koda_command_result r;
	bool stopped = false;
	int over = command == NULL ? -1 : 0;

	*ret = NULL;
	while (over == 0) {
		over = koda_command_wait(command, LINE_MS, err);
		if (over == 0 && !stopped && !goes_on(c, command, line, data)) {
			stopped = true;
			koda_command_end(command);
		}
	}
	if (over > 0 && koda_command_result(command, &r, err) < 0)
		over = -1;
	koda_command_free(command);
	if (over < 0)
		return -1;
	over = take_result(&r, what, ret, err);
	return stopped ? err_set(err, KODA_TIMEOUT, 0, "%s was cancelled", what) : over;
}

int
confined_run(struct confined *c, const char *script, const char *const *variables, int input,
    char **ret, struct koda_error *err)
{
	const struct koda_command_options o = { .shell = script,
		.env = variables,
		.stdin_fd = input,
		.background = true,
		.approved = true };

	return run(c, &o, "git", NULL, NULL, ret, err);
}

int
confined_run_program(struct confined *c, const char *const *argv, int input, confined_line_fn *line,
    void *data, char **ret, struct koda_error *err)
{
	const struct koda_command_options o = { .argv = argv,
		.stdin_fd = input,
		.background = true,
		.approved = true };

	return run(c, &o, "clone", line, data, ret, err);
}
