/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/command/environment.h"
#include "host/sandbox/bwrap.h"
#include "host/sandbox/worktree.h"
#include "shared/base/cleanup.h"

/* ---- words ---- */

static void
free_strings(char **v)
{
	for (size_t i = 0; v != NULL && v[i] != NULL; i++)
		free(v[i]);
	free(v);
}

static char **
copy_strings(const char *const *v)
{
	size_t n = 0;
	char **copy;

	while (v != NULL && v[n] != NULL)
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy != NULL && i < n; i++) {
		copy[i] = strdup(v[i]);
		if (copy[i] == NULL) {
			free_strings(copy);
			return NULL;
		}
	}
	return copy;
}

static size_t
strings_size(char *const *v)
{
	size_t size = 0;

	for (; v != NULL && *v != NULL; v++)
		size += strlen(*v) + 8; /* its frame */
	return size;
}

static bool
writable(void *data, const char *path)
{
	const struct sandbox *sb = data;

	return view_has(&sb->view, path);
}

static size_t
fill_spare(const struct sandbox *sb, struct environment_spare *ret)
{
	size_t n = 0;

	for (size_t i = 0; sb->view.spare != NULL && i < sb->caches.n_missing; i++)
		ret[n++] = (struct environment_spare){ sb->caches.missing[i]->variable,
			sb->caches.missing[i]->spare };
	return n;
}

static int
fill_strings(struct koda_command *c, const struct koda_command_options *o, struct koda_error *err)
{
	const char *const shell[] = { "sh", "-c", o->shell, NULL };
	const struct koda_session *ses = c->of->slot->ses;
	cleanup(environment_done) struct environment env = { 0 };
	struct environment_spare spare[CACHES_SPARE_MAX];
	size_t n_spare = fill_spare(c->of->sandbox, spare);
	const struct environment_input in = { .host = (const char *const *)environ,
		.extra = o->env,
		.argv = o->shell == NULL ? o->argv : NULL,
		.shell = o->shell,
		.root = ses->root,
		.uid = (unsigned)getuid(),
		.egress_port = EGRESS_PORT,
		.spare = spare,
		.n_spare = n_spare,
		.spare_dir = c->of->sandbox->view.spare,
		.git_across = c->of->sandbox->drafted && worktree_is_below(ses->root),
		.connect_helper = egress_connect_path(ses),
		.ca_file = egress_certificates(&c->of->sandbox->egress) != NULL
		    ? BWRAP_CERTIFICATES "/" EGRESS_CERTIFICATES_NAME
		    : koda_policy_get(c->of->slot->policy)->ca_bundle,
		.writable = writable,
		.data = c->of->sandbox };

	if ((o->shell == NULL) == (o->argv == NULL))
		return err_set(err, KODA_INVALID, 0,
		    "give a command as argv or as shell text: one of the two");
	if (o->shell == NULL && o->argv[0] == NULL)
		return err_set(err, KODA_INVALID, 0, "the command is empty");
	c->argv = copy_strings(o->shell != NULL ? shell : o->argv);
	c->added = o->env == NULL ? NULL : copy_strings(o->env);
	c->cwd = strdup(o->cwd != NULL ? o->cwd : ses->root);
	c->name = strdup(o->shell != NULL ? o->shell : o->argv[0]);
	if (c->argv == NULL || (o->env != NULL && c->added == NULL) || c->cwd == NULL ||
	    c->name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "command");
	if (c->cwd[0] != '/')
		return err_set(err, KODA_INVALID, 0, "the working directory '%s' is not absolute",
		    c->cwd);
	if (environment_make(&in, &env, err) < 0)
		return -1;
	c->env = env.v;
	env.v = NULL;
	env.n = 0;
	if (strings_size(c->argv) + strings_size(c->env) > COMMAND_ARGS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "arguments and environment have more than %u bytes", COMMAND_ARGS_MAX);
	return 0;
}

/* ---- descriptors ---- */

void
command_close_fds(struct koda_command *c)
{
	for (int i = 0; i < 3; i++) {
		close_at(&c->fd[i]);
		c->fd[i] = -1;
	}
}

static int
fill_fd(struct koda_command *c, int i, int given, struct command_output *out,
    struct koda_error *err)
{
	if (given > 0)
		c->fd[i] = fcntl(given, F_DUPFD_CLOEXEC, 3);
	else if (out == NULL)
		c->fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	else
		return capture_open(&out->capture, c->max_output, &c->fd[i], err);
	if (c->fd[i] < 0)
		return err_set(err, given > 0 && errno == EBADF ? KODA_INVALID : KODA_INTERNAL,
		    errno, "the command's descriptor %d", i);
	return 0;
}

/* ---- the whole ---- */

void
command_request_done(struct koda_command *c)
{
	command_close_fds(c);
	free_strings(c->argv);
	free_strings(c->env);
	free_strings(c->added);
	free(c->cwd);
	free(c->name);
}

int
command_fill(struct koda_command *c, const struct koda_command_options *o, struct koda_error *err)
{
	const struct policy *p = koda_policy_get(c->of->slot->policy);
	const struct policy_limit *wall = &p->limit[KODA_WALL_TIME_SECS];
	const struct policy_limit *output = &p->limit[KODA_MAX_OUTPUT_BYTES];
	/* The wall time limits commands that the caller waits for; a server in the background runs
	 * until its session ends. */
	const bool lasting = o->interactive || o->background;
	uint64_t ms = o->timeout_ms;

	if (!lasting && wall->set)
		ms = command_least(ms,
		    wall->value < COMMAND_WALL_MAX_MS / 1000 ? wall->value * 1000
							     : COMMAND_WALL_MAX_MS);
	c->untimed = lasting && ms == 0;
	c->timeout_ms = (unsigned)(lasting ? ms : command_least(ms, COMMAND_WALL_MAX_MS));
	c->max_output = o->max_output;
	if (output->set)
		c->max_output = command_least(c->max_output, output->value);
	if (c->max_output == 0)
		c->max_output = 2u << 20;
	c->background = o->background;
	c->tty = o->tty;
	if (o->tty && o->stdin_fd <= 0)
		return err_set(err, KODA_INVALID, 0, "tty needs a terminal as standard input");
	if (o->interactive && !o->tty)
		return err_set(err, KODA_INVALID, 0, "interactive needs tty");
	if (fill_strings(c, o, err) < 0 || fill_fd(c, 0, o->stdin_fd, NULL, err) < 0 ||
	    fill_fd(c, 1, o->stdout_fd, &c->out, err) < 0 ||
	    fill_fd(c, 2, o->stderr_fd, &c->err, err) < 0)
		return -1;
	return 0;
}
