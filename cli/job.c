/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/show.h"
#include "show/diff.h"

int
job_find_root(const struct cli *cli, char **ret)
{
	struct koda_error err = { .code = KODA_IO };

	*ret = realpath(cli->args.root, NULL);
	if (*ret != NULL)
		return EXIT_DONE;
	err.errnum = errno;
	snprintf(err.path, sizeof(err.path), "%s", cli->args.root);
	snprintf(err.message, sizeof(err.message), "open the root '%.400s': %s", cli->args.root,
	    strerror(errno));
	return output_error(cli, &err, NULL);
}

const char *
job_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return path + 1;
	if (strncmp(path, dir, len) != 0)
		return NULL;
	if (path[len] == '\0')
		return path + len;
	return path[len] == '/' ? path + len + 1 : NULL;
}

static char *
join(const char *dir, const char *name)
{
	size_t size = strlen(dir) + strlen(name) + 2;
	char *ret = output_alloc(size);

	snprintf(ret, size, "%s%s%s", dir, dir[0] == '\0' || strcmp(dir, "/") == 0 ? "" : "/",
	    name);
	return ret;
}

/*
 * The user's path is relative to the current directory, the worker's is relative to the root. Below
 * the root it stays relative, so that the worker refuses to climb out of it by '..'. The text is
 * only joined here, never resolved.
 */
int
job_place(const struct job *job, const char *word, char **ret)
{
	const char *inside;

	if (word[0] == '/' || word[0] == '\0') {
		*ret = join("", word);
		return EXIT_DONE;
	}
	if (job->cwd == NULL) {
		struct koda_error err = { .code = KODA_IO, .errnum = ENOENT };

		snprintf(err.message, sizeof(err.message),
		    "'%.300s' is relative to the current directory, which no longer exists", word);
		return output_error(job->cli, &err, "use an absolute path");
	}
	inside = job_below(job->cwd, job->root);
	*ret = join(inside != NULL ? inside : job->cwd, word);
	return EXIT_DONE;
}

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	const struct job *job = data;

	/* A loss of enforcement is always reported; the rest only with --verbose. */
	if (kind == KODA_EVENT_DEGRADED || kind == KODA_EVENT_LEFT)
		output_note("warning", text);
	else if (args_has(&job->cli->args, OPT_VERBOSE))
		output_note(NULL, text);
}

static void
on_question(void *data, const struct koda_question *question)
{
	struct job *job = data;

	job->ask.about.may_replace = (job->op.flags & KODA_OVERWRITE) != 0;
	ask_user(&job->ask, question);
}

static unsigned
flags_of(const struct args *args)
{
	static const struct {
		enum opt opt;
		unsigned flag;
	} flags[] = {
		{ OPT_DIGEST, KODA_DIGEST },
		{ OPT_DURABLE, KODA_DURABLE },
		{ OPT_PARENTS, KODA_PARENTS },
		{ OPT_RECURSIVE, KODA_RECURSIVE },
		{ OPT_OVERWRITE, KODA_OVERWRITE },
		{ OPT_DRY_RUN, KODA_DRY_RUN },
	};
	unsigned ret = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (args_has(args, flags[i].opt))
			ret |= flags[i].flag;
	}
	return ret;
}

static int
fill_op(struct job *job, enum koda_op_kind kind)
{
	const struct args *args = &job->cli->args;
	/* Only fs list works without a path. */
	const char *word = job->cli->words[0] != NULL ? job->cli->words[0] : ".";
	int status = job_place(job, word, &job->path);

	if (status == EXIT_DONE && kind == KODA_OP_RENAME)
		status = job_place(job, job->cli->words[1], &job->to);
	if (status != EXIT_DONE)
		return status;
	job->op.kind = kind;
	job->op.flags = flags_of(args);
	job->op.path = job->path;
	job->op.to = job->to;
	job->op.offset = args->offset;
	job->op.max = args->max;
	job->op.edits = args->edits;
	job->op.n_edits = args->n_edits;
	job->op.if_digest = args_has(args, OPT_IF_DIGEST) ? args->if_digest : NULL;
	job->op.if_absent = args_has(args, OPT_IF_ABSENT);
	return EXIT_DONE;
}

static struct koda_session *
open_session(struct job *job, struct koda_error *err)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;

	options.root = job->root;
	options.mode = job->cli->args.mode;
	options.approve = on_question;
	options.event = on_event;
	options.data = job;
	options.commands = job->commands;
	ses = koda_session_open(&options, err);
	if (ses != NULL || err->code != KODA_UNSUPPORTED || !job->commands)
		return ses;
	/* The answer for file operations does not depend on the kernel sandbox. */
	output_note("warning", err->message);
	job->commands = false;
	return open_session(job, err);
}

int
job_find(struct job *job, const struct cli *cli)
{
	int status;

	*job = (struct job){ .cli = cli, .result.fd = -1 };
	status = job_find_root(cli, &job->root);
	if (status != EXIT_DONE)
		return status;
	job->cwd = getcwd(NULL, 0);
	if (job->cwd != NULL && job->cwd[0] != '/') { /* "(unreachable)": outside our mounts */
		free(job->cwd);
		job->cwd = NULL;
	}
	return EXIT_DONE;
}

int
job_open(struct job *job)
{
	struct koda_error err = { 0 };

	job->session = open_session(job, &err);
	return job->session != NULL ? EXIT_DONE : output_error(job->cli, &err, NULL);
}

int
job_begin(struct job *job, const struct cli *cli, enum koda_op_kind kind)
{
	int status = job_find(job, cli);

	job->commands = kind == KODA_OP_EXPLAIN;
	if (status == EXIT_DONE)
		status = fill_op(job, kind);
	return status == EXIT_DONE ? job_open(job) : status;
}

/* The library's message is right, but only we know what the user can do about it. */
static int
tell_error(const struct job *job, struct koda_error *err)
{
	if (err->code != KODA_NOT_APPROVED || !job->ask.nobody)
		return output_error(job->cli, err, NULL);
	snprintf(err->message, sizeof(err->message),
	    "'%.400s' was not changed: safe mode asks on the terminal before each change, and there is no terminal",
	    err->path[0] != '\0' ? err->path : job->path);
	return output_error(job->cli, err, "run it in a terminal, or with --mode auto");
}

static void
tell_enforcement(const struct job *job)
{
	struct koda_enforcement enforcement = { 0 };
	char text[128];

	if (!args_has(&job->cli->args, OPT_VERBOSE))
		return;
	koda_slot_enforcement(job->slot, &enforcement);
	snprintf(text, sizeof(text), "worker %d is ready: Landlock ABI %u, seccomp %s",
	    koda_slot_pid(job->slot), enforcement.landlock_abi, enforcement.seccomp ? "yes" : "no");
	output_note(NULL, text);
}

int
job_acquire(struct job *job)
{
	struct koda_error err = { 0 };

	job->slot = koda_slot_acquire(job->session, NULL, &err);
	if (job->slot == NULL && err.code == KODA_UNSUPPORTED && job->commands) {
		output_note("warning", err.message);
		koda_session_close(job->session);
		job->commands = false;
		job->session = open_session(job, &err);
		if (job->session != NULL)
			job->slot = koda_slot_acquire(job->session, NULL, &err);
	}
	if (job->slot == NULL)
		return output_error(job->cli, &err, NULL);
	tell_enforcement(job);
	return EXIT_DONE;
}

int
job_run(struct job *job)
{
	struct koda_error err = { 0 };
	int status = job_acquire(job);

	if (status != EXIT_DONE)
		return status;
	if (koda_call(job->slot, &job->op, &job->result, &err) < 0)
		return tell_error(job, &err);
	return EXIT_DONE;
}

void
job_end(struct job *job)
{
	koda_result_done(&job->result);
	if (job->slot != NULL)
		koda_slot_release(job->slot);
	if (job->session != NULL)
		koda_session_close(job->session);
	free(job->path);
	free(job->to);
	free(job->cwd);
	free(job->root);
}

const char *
job_shown(const struct job *job, const char *path)
{
	const char *inside = job->cwd != NULL ? job_below(path, job->cwd) : NULL;

	return inside != NULL && inside[0] != '\0' ? inside : path;
}

static int
tell_mutation_json(const struct job *job)
{
	const struct koda_result *result = &job->result;
	json_t *object = output_object();
	char digest[SHOW_DIGEST_SIZE];

	show_json_path(object, "path", result->path);
	if (result->to != NULL)
		show_json_path(object, "to", result->to);
	if (args_has(&job->cli->args, OPT_DRY_RUN))
		json_object_set_new(object, "dry_run", json_true());
	json_object_set_new(object, "created", json_boolean(result->created));
	json_object_set_new(object, "type_before", json_string(show_type(result->type)));
	json_object_set_new(object, "size_before", json_integer((json_int_t)result->size_before));
	json_object_set_new(object, "size", json_integer((json_int_t)result->size));
	if (result->has_digest_before) {
		show_digest(digest, result->digest_before);
		json_object_set_new(object, "digest_before", json_string(digest));
	}
	if (result->has_digest) {
		show_digest(digest, result->digest);
		json_object_set_new(object, "digest", json_string(digest));
	}
	if (job->op.kind == KODA_OP_EDIT)
		json_object_set_new(object, "replacements",
		    json_integer((json_int_t)result->replacements));
	if (result->n_lines > 0) {
		json_t *lines = json_array();

		for (size_t i = 0; i < result->n_lines; i++)
			json_array_append_new(lines, json_integer((json_int_t)result->lines[i]));
		json_object_set_new(object, "lines", lines);
	}
	json_object_set_new(object, "recovered", json_boolean(result->recovered));
	return output_json(object);
}

int
job_tell_mutation(const struct job *job, const char *done, const char *would)
{
	const struct koda_result *result = &job->result;
	bool dry_run = args_has(&job->cli->args, OPT_DRY_RUN);
	char digest[SHOW_DIGEST_SIZE];

	if (args_has(&job->cli->args, OPT_JSON))
		return tell_mutation_json(job);
	/* A dry run has no other result than its text. */
	if (dry_run || output_wants_summary(job->cli)) {
		fputs(dry_run ? would : done, stdout);
		putchar(' ');
		show_string(stdout, job_shown(job, result->path));
		if (result->to != NULL) {
			fputs(" to ", stdout);
			show_string(stdout, job_shown(job, result->to));
		}
		if (job->op.kind == KODA_OP_EDIT)
			printf(" (%llu replacement%s)", (unsigned long long)result->replacements,
			    result->replacements == 1 ? "" : "s");
		if (result->recovered)
			fputs(" (once, although a worker died)", stdout);
		putchar('\n');
	}
	if (dry_run && job->op.kind == KODA_OP_EDIT) {
		struct page page = { .f = stdout,
			.medium.style =
			    output_colour(STDOUT_FILENO) ? PAGE_COLOUR : PAGE_TERMINAL };

		diff_edits(&page, job->op.edits, job->op.n_edits, result->lines, result->n_lines);
		if (page.failed)
			output_no_memory();
	}
	if (args_has(&job->cli->args, OPT_DIGEST) && result->has_digest) {
		show_digest(digest, result->digest);
		puts(digest);
	}
	return output_done(EXIT_DONE);
}
