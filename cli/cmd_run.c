/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run and shell: runs a command in the kernel sandbox as if it were run here: it has our input and
 * output, its status becomes ours, signals reach it, and refusals are reported after its standard
 * error.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/decide.h"
#include "cli/draft_find.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/plain.h"
#include "cli/run_clone.h"
#include "cli/run_report.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "cli/terminal.h"

/* How often to check whether we are in the terminal's foreground again, while we are not. */
#define BACKGROUND_MS 200

struct run {
	const struct cli *cli;
	char *root; /* canonical */
	char *cwd;  /* the root, or below it */
	const char *const *argv;
	const char *shell; /* instead of argv */
	bool interactive;  /* a person's shell */
	bool drafting;     /* its changes are held back */
	bool judged;       /* then applied as far as the policy allows */
	bool by_mode;      /* because safe mode does so: without a draft if there can be none */
	char *draft;       /* the draft to go on with; NULL: a new one. Then the one it worked in */
	json_t *report;    /* with --json */
	struct ask ask;
	struct koda_session *session;
	struct koda_slot *slot;
	struct run_clone clone;       /* it works there */
	struct koda_session *project; /* then: the session of the project */
	struct streams streams;
	struct koda_command *command;
	int signals;           /* descriptor to read them from, or -1 */
	unsigned asked_to_end; /* number of signals so far that usually end a program */
	bool ending;
};

static bool
has(const struct run *run, enum opt opt)
{
	return args_has(&run->cli->args, opt);
}

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	const struct run *run = data;

	if (kind == KODA_EVENT_DEGRADED || kind == KODA_EVENT_LEFT)
		output_note("warning", text);
	else if (has(run, OPT_VERBOSE))
		output_note(NULL, text);
}

/* Makes our terminal raw while we own it and the command has one, and keeps their sizes equal. */
static void
adapt_terminal(struct run *run)
{
	struct streams *s = &run->streams;

	if (s->tty && isatty(STDIN_FILENO))
		terminal_raw(STDIN_FILENO);
	if (s->master >= 0 && s->terminal >= 0)
		terminal_copy_size(s->terminal, s->master);
}

static void
on_question(void *data, const struct koda_question *question)
{
	struct run *run = data;
	const bool raw = terminal_is_raw(); /* a question may also come while the command runs */

	terminal_restore();
	signals_suspend(run->signals);
	ask_user(&run->ask, question);
	signals_resume(run->signals);
	if (raw)
		adapt_terminal(run);
}

/* ---- exit status when nothing was run ---- */

enum run_stage {
	STAGE_OPEN, /* the session: the root, the policy, what this machine can do */
	STAGE_SLOT, /* the sandbox */
	STAGE_COMMAND,
};

static int
status_of(enum run_stage stage, const struct koda_error *err)
{
	switch (err->code) {
	case KODA_POLICY_DENIED:
	case KODA_NOT_APPROVED:
		return EXIT_REFUSED;
	case KODA_UNSUPPORTED:
		return EXIT_SETUP;
	case KODA_WORKER:
	case KODA_PROTOCOL:
	case KODA_TIMEOUT:
		return stage == STAGE_SLOT ? EXIT_SETUP : EXIT_HOST;
	case KODA_IO:
		/* The errno of executing it. */
		if (stage == STAGE_COMMAND)
			return err->errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
		return EXIT_HOST;
	case KODA_OK:
	case KODA_INVALID:
	case KODA_CONFLICT:
	case KODA_TOO_LARGE:
	case KODA_UNKNOWN:
	case KODA_INTERNAL:
		return EXIT_HOST;
	}
	return EXIT_HOST;
}

static int
tell(const struct run *run, enum run_stage stage, struct koda_error *err)
{
	const char *remedy = NULL;

	if (err->code == KODA_NOT_APPROVED && run->ask.nobody) {
		snprintf(err->message, sizeof(err->message),
		    "the command was not run: safe mode asks on the terminal before each command, and there is no terminal");
		remedy = has(run, OPT_NO_SANDBOX) ? "run it in a terminal"
						  : "run it in a terminal, or with --mode auto";
	} else if (err->code == KODA_UNKNOWN) {
		remedy = "check what it has done before you run it again";
	}
	output_error(run->cli, err, remedy);
	return status_of(stage, err);
}

static int
tell_errno(const struct run *run, const char *what)
{
	struct koda_error err = { .code = KODA_INTERNAL, .errnum = errno };

	snprintf(err.message, sizeof(err.message), "%s: %s", what, strerror(errno));
	return tell(run, STAGE_COMMAND, &err);
}

/* ---- where ---- */

/* Chooses the current directory if it is the root or below it, else the root. */
static void
choose_cwd(struct run *run)
{
	char *cwd = getcwd(NULL, 0);

	if (cwd != NULL && cwd[0] == '/' && job_below(cwd, run->root) != NULL) {
		run->cwd = cwd;
		return;
	}
	free(cwd);
	run->cwd = output_copy(run->root);
}

static int
find_place(struct run *run)
{
	struct draft_found found = { 0 };
	int status = run->draft == NULL ? job_find_root(run->cli, &run->root)
					: draft_find(run->cli, run->draft, &found);

	/* A status of 1 would look like the command's. */
	if (status != EXIT_DONE)
		return EXIT_HOST;
	if (run->draft != NULL) {
		run->root = found.root;
		free(run->draft);
		run->draft = output_copy(found.id);
	}
	choose_cwd(run);
	return EXIT_DONE;
}

/* ---- without a sandbox ---- */

static const char *
first_word(const char *shell, char *buf, size_t size)
{
	snprintf(buf, size, "%.*s", (int)strcspn(shell, " \t\n;|&"), shell);
	return buf;
}

static int
run_plain(struct run *run)
{
	const char *const by_shell[] = { "/bin/sh", "-c", run->shell, NULL };
	const char *const *argv = run->shell != NULL ? by_shell : run->argv;
	const struct args *args = &run->cli->args;
	struct koda_question question = { .kind = KODA_OP_RUN,
		.mode = args->mode,
		.argv = argv,
		.cwd = run->cwd };
	struct plain_limits limits;
	struct koda_error err;
	char tool[256];

	/* Auto asks no user, and without the sandbox nothing would enforce what Plan promises. */
	if (args->mode != KODA_SAFE) {
		err = (struct koda_error){ .code = KODA_POLICY_DENIED };
		snprintf(err.message, sizeof(err.message),
		    "%s mode runs nothing without the sandbox: --no-sandbox is for debugging in safe mode",
		    args->mode == KODA_AUTO ? "auto" : "plan");
		return tell(run, STAGE_COMMAND, &err);
	}
	output_note("warning",
	    "NO SANDBOX: this command can read, change and reach everything that you can");
	if (!isatty(STDIN_FILENO) && !ask_yes(&run->ask, &question)) {
		err = (struct koda_error){ .code = KODA_NOT_APPROVED };
		snprintf(err.message, sizeof(err.message), "the command was not approved");
		return tell(run, STAGE_COMMAND, &err);
	}
	if (plain_limits_get(args->mode, run->root, &limits, &err) < 0)
		return tell(run, STAGE_COMMAND, &err);
	/* As in the sandbox: the mode's time limit does not apply to a person's shell. */
	if (run->interactive)
		limits.wall_ms = args->timeout_ms;
	else if (args->timeout_ms > 0 && (limits.wall_ms == 0 || args->timeout_ms < limits.wall_ms))
		limits.wall_ms = args->timeout_ms;
	return plain_run(run->cli, argv,
	    run->shell != NULL ? first_word(run->shell, tool, sizeof(tool)) : argv[0], run->cwd,
	    &limits);
}

/* ---- in the sandbox ---- */

/*
 * May the file that a standard descriptor was redirected from or to be passed as it is? Yes if the
 * command may write it anyway, or if it has no name, as bash makes one for a here-document.
 */
static bool
may_pass_file(void *data, int fd)
{
	struct run *run = data;
	struct koda_op op = { .kind = KODA_OP_EXPLAIN, .access = KODA_WRITE_ACCESS };
	struct koda_result result = { 0 };
	struct koda_error err;
	struct stat here, there;
	char link[64], path[KODA_PATH_SHOWN_MAX];
	bool allowed;
	ssize_t n;

	if (fstat(fd, &here) < 0)
		return false;
	if (here.st_nlink == 0)
		return true;
	/* It is the project's file, not the draft's: even read-only, its mode could be changed. */
	if (run->drafting)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	if (path[0] != '/' || lstat(path, &there) < 0 || there.st_dev != here.st_dev ||
	    there.st_ino != here.st_ino)
		return false;
	op.path = path;
	allowed = koda_call(run->slot, &op, &result, &err) == 0 && result.allowed &&
	    strcmp(result.path, path) == 0;
	koda_result_done(&result);
	return allowed;
}

static void
tell_enforcement(const struct run *run)
{
	struct koda_enforcement enforcement = { 0 };
	char text[160];

	koda_slot_enforcement(run->slot, &enforcement);
	snprintf(text, sizeof(text),
	    "worker %d is ready: Landlock ABI %u, seccomp %s, runs inside the sandbox: %s",
	    koda_slot_pid(run->slot), enforcement.landlock_abi, enforcement.seccomp ? "yes" : "no",
	    enforcement.mount_view ? "yes" : "no");
	output_note(NULL, text);
}

/* There is no draft, for this reason, or the user has asked for a clone: the command works in one. On
 * failure *err is the reason that there is neither. */
static void
open_clone(struct run *run, const struct koda_session_options *options, struct koda_error *err)
{
	const bool asked = has(run, OPT_CLONE);
	const struct koda_error why = *err;
	char text[2 * KODA_MESSAGE_MAX];

	if (run_clone_open(&run->clone, run->session, options, run->cwd, asked, err) < 0) {
		if (err->code == KODA_TOO_LARGE && !asked)
			snprintf(err->message, sizeof(err->message),
			    "there can be no draft (%.300s), and the project is too large to clone for a single command: --clone does it all the same",
			    why.message);
		else if (!asked && err->code != KODA_TIMEOUT)
			*err = why;
		return;
	}
	snprintf(text, sizeof(text),
	    "%s%s%sthe command works in a clone of the project, and its changes are a draft when it ends",
	    asked ? "" : "there can be no draft here (", asked ? "" : why.message,
	    asked ? "" : "): ");
	if (!asked || has(run, OPT_VERBOSE))
		output_note(NULL, text);
	run->project = run->session;
	run->session = run->clone.session;
	run->slot = run->clone.slot;
}

static int
open_slot(struct run *run)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_slot_options where = {
		.workspace = run->drafting ? KODA_WORKSPACE_DRAFT : KODA_WORKSPACE_DIRECT,
		.draft = run->draft,
	};
	struct koda_error err = { 0 };

	/* The refusal of a host then says that there is no user to ask. */
	run->ask.nobody = run->drafting && !ask_possible();

	options.root = run->root;
	options.mode = run->cli->args.mode;
	options.approve = run->ask.nobody ? NULL : on_question;
	options.event = on_event;
	options.data = run;
	options.commands = true;
	run->session = koda_session_open(&options, &err);
	if (run->session == NULL)
		return tell(run, STAGE_OPEN, &err);
	if (!has(run, OPT_CLONE))
		run->slot = koda_slot_open(run->session, &where, &err);
	if (run->slot == NULL && run->drafting && run->draft == NULL && !run->by_mode &&
	    (has(run, OPT_CLONE) || err.code == KODA_UNSUPPORTED || err.code == KODA_IO))
		open_clone(run, &options, &err);
	if (run->slot == NULL && run->by_mode &&
	    (err.code == KODA_UNSUPPORTED || err.code == KODA_IO)) {
		output_note(run->interactive ? "warning: the shell works without a draft"
					     : "warning: the command runs without a draft",
		    err.message);
		run->drafting = false;
		where.workspace = KODA_WORKSPACE_DIRECT;
		run->slot = koda_slot_open(run->session, &where, &err);
	}
	if (run->slot == NULL)
		return tell(run, STAGE_SLOT, &err);
	if (has(run, OPT_VERBOSE))
		tell_enforcement(run);
	return EXIT_DONE;
}

static enum streams_tty
wanted_tty(const struct run *run)
{
	if (has(run, OPT_TTY))
		return STREAMS_TTY_ALWAYS;
	return has(run, OPT_NO_TTY) ? STREAMS_TTY_NEVER : STREAMS_TTY_FITTING;
}

static int
start(struct run *run)
{
	const struct args *args = &run->cli->args;
	struct streams *s = &run->streams;
	struct koda_command_options options = { 0 };
	struct koda_error err = { 0 };

	/* In a shell a person sees which program was refused what. */
	if (streams_open(s, wanted_tty(run), has(run, OPT_JSON), !run->interactive, may_pass_file,
		run) < 0)
		return tell_errno(run, "cannot make pipes and terminals");
	options.argv = run->argv;
	options.shell = run->shell;
	options.cwd = run->clone.cwd != NULL ? run->clone.cwd : run->cwd;
	options.stdin_fd = s->give[0];
	options.stdout_fd = s->capture ? 0 : s->give[1];
	options.stderr_fd = s->capture ? 0 : s->give[2];
	options.tty = s->tty;
	options.interactive = run->interactive && s->tty;
	options.timeout_ms = args->timeout_ms;
	/* A user who typed the command wants it. */
	options.approved = isatty(STDIN_FILENO);
	run->command = koda_command_start(run->slot, &options, NULL, NULL, &err);
	streams_given(s);
	return run->command != NULL ? EXIT_DONE : tell(run, STAGE_COMMAND, &err);
}

static void
end(struct run *run)
{
	if (!run->ending)
		koda_command_end(run->command);
	run->ending = true;
}

static void
pass_on(struct run *run, int signo)
{
	struct koda_error err;

	/* The error is ignored: without a process any more, there is nothing to signal. */
	koda_command_signal(run->command, signo, &err);
}

static void
on_signal(struct run *run, int signo)
{
	switch (signo) {
	case SIGWINCH:
		adapt_terminal(run);
		/* With a controlling terminal of its own, the terminal has signalled it. */
		if (run->streams.master >= 0 && !run->streams.tty)
			pass_on(run, SIGWINCH);
		break;
	case SIGTSTP:
		/*
		 * The command's process groups are orphaned, so SIGTSTP does not stop them. With a
		 * terminal of its own it decides itself what is stopped: only we go to the
		 * background.
		 */
		if (!run->streams.tty)
			pass_on(run, SIGSTOP);
		terminal_restore();
		raise(SIGSTOP);
		break;
	case SIGCONT:
		if (!run->streams.tty)
			pass_on(run, SIGCONT);
		adapt_terminal(run);
		break;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
		/* The first signal is only passed on; the second one ends all processes. */
		if (run->asked_to_end++ == 0)
			pass_on(run, signo);
		else
			end(run);
		break;
	default:
		pass_on(run, signo);
		break;
	}
}

/* Waits until the command is over and everything that it printed has been copied. */
static int
attend(struct run *run)
{
	struct streams *s = &run->streams;
	struct koda_error err = { 0 };
	bool over = false;

	adapt_terminal(run);
	for (;;) {
		struct pollfd fds[2 + STREAMS_POLL_MAX] = {
			{ .fd = koda_session_fd(run->session), .events = POLLIN },
			{ .fd = run->signals, .events = POLLIN },
		};
		size_t n = 2;
		int r, signo;

		r = over ? 1 : koda_command_wait(run->command, 0, &err);
		if (r < 0)
			return tell(run, STAGE_COMMAND, &err);
		over = r > 0;
		streams_carry(s, over);
		/* If the reader is gone: a pipe is closed; a pseudo-terminal can only hang up. */
		if (s->lost != 0 && s->master >= 0 && !over)
			end(run);
		if (over && streams_drained(s))
			return EXIT_DONE;
		if (over)
			fds[0].fd = -1;
		n += streams_poll(s, over, fds + n);
		poll(fds, n, streams_waits(s) ? BACKGROUND_MS : -1);
		while ((signo = signals_next(run->signals)) != 0) {
			if (!over)
				on_signal(run, signo);
			else if (signo == SIGINT || signo == SIGTERM || signo == SIGHUP)
				return 128 + signo; /* the reader of our output does not read */
		}
	}
}

/* Adds what is found in output that was not captured, then reports all violations of the slot. */
static void
report_violations(const struct run *run)
{
	const struct heard *heard = &run->streams.heard;
	const char *name = run->shell != NULL ? run->shell : run->argv[0];

	koda_slot_scan_output(run->slot, name, run->cwd, heard->head, heard->head_len, NULL, NULL);
	koda_slot_scan_output(run->slot, name, run->cwd, heard->tail, heard->tail_len, NULL, NULL);
	run_report_violations(run->slot);
}

static int
finish(struct run *run)
{
	const struct run_subject subject = { run->cli, run->root, run->argv, run->shell, run->cwd };
	struct koda_command_result result = { 0 };
	struct koda_error err = { 0 };
	int status;

	if (koda_command_result(run->command, &result, &err) < 0)
		return tell(run, STAGE_COMMAND, &err);
	status = result.hit == KODA_HIT_WALL_TIME ? EXIT_TIMED_OUT : result.status;
	if (!has(run, OPT_JSON)) {
		report_violations(run);
		if (status != 0)
			run_report_failures(run->slot);
		run_report_limit(&result);
		if (run->streams.lost != 0 && run->streams.lost != EPIPE) {
			errno = run->streams.lost;
			output_lost();
		}
	}
	if (has(run, OPT_VERBOSE))
		run_report_times(&result);
	if (has(run, OPT_JSON))
		run->report = run_report_json(&subject, run->slot, &result);
	koda_command_result_done(&result);
	return status;
}

/* Releases the slot; if it worked in a draft, the user decides on its changes. Prints the report. */
static int
conclude(struct run *run, int status)
{
	struct koda_error err = { 0 };

	if (run->drafting && run->slot != NULL && run->draft == NULL && run->project == NULL)
		run->draft = output_copy(koda_slot_draft(run->slot));
	koda_slot_release(run->slot);
	if (run->project != NULL) {
		run->session = run->project;
		if (run_clone_end(&run->clone, &run->draft, &err) < 0) {
			output_error(run->cli, &err,
			    "'koda-sandbox drafts' lists the clone, which stays");
			run->draft = output_copy("");
			status = EXIT_HOST;
		}
	}
	if (run->drafting && run->slot != NULL && run->draft[0] != '\0') {
		const struct decision d = { .cli = run->cli,
			.session = run->session,
			.id = run->draft,
			.root = run->root,
			.cwd = run->cwd,
			.judged = run->judged,
			.signals = run->signals };

		if (run->report != NULL)
			json_object_set_new(run->report, "draft", decide_json(&d));
		else
			decide(&d);
	}
	if (run->report != NULL && output_json(run->report) != EXIT_DONE)
		return EXIT_HOST;
	return status;
}

static int
run_in_sandbox(struct run *run)
{
	int status = open_slot(run);

	if (status == EXIT_DONE && has(run, OPT_VERBOSE)) {
		const struct run_subject subject = { run->cli, run->root, run->argv, run->shell,
			run->cwd };

		run_report_environment(&subject);
	}
	/*
	 * Before the command can print anything: a signal in response is for the command, not us.
	 */
	if (status == EXIT_DONE && (run->signals = signals_open()) < 0)
		status = tell_errno(run, "signals");
	if (status == EXIT_DONE)
		status = start(run);
	if (status == EXIT_DONE)
		status = attend(run);
	terminal_restore();
	if (status == EXIT_DONE)
		status = finish(run);
	/* Signals are still read by us: closing takes a moment, and should not be interrupted. */
	koda_command_free(run->command);
	streams_done(&run->streams);
	status = conclude(run, status);
	koda_session_close(run->session);
	signals_close(&run->signals);
	return status;
}

static int
run_it(struct run *run)
{
	int status;

	run->signals = -1;
	run->judged = has(run, OPT_JUDGED);
	run->by_mode = run->draft == NULL && !has(run, OPT_DRAFT) && !has(run, OPT_CLONE) &&
	    !has(run, OPT_NO_DRAFT) && !has(run, OPT_NO_SANDBOX) &&
	    run->cli->args.mode == KODA_SAFE;
	run->drafting = run->draft != NULL || has(run, OPT_DRAFT) || has(run, OPT_CLONE) ||
	    run->judged || run->by_mode;
	streams_init(&run->streams);
	status = find_place(run);
	if (status == EXIT_DONE) {
		run->ask.about.command = run->shell != NULL ? run->shell : run->argv[0];
		status = has(run, OPT_NO_SANDBOX) ? run_plain(run) : run_in_sandbox(run);
	}
	free(run->root);
	free(run->cwd);
	free(run->draft);
	return status;
}

static int
check_options(const struct cli *cli, bool drafting)
{
	const struct args *args = &cli->args;

	if (args_has(args, OPT_TTY) && args_has(args, OPT_NO_TTY))
		return output_usage(cli, "--tty cannot be combined with --no-tty");
	if (args_has(args, OPT_DRAFT) && args_has(args, OPT_NO_DRAFT))
		return output_usage(cli, "--draft cannot be combined with --no-draft");
	if (args_has(args, OPT_CLONE) && args_has(args, OPT_NO_DRAFT))
		return output_usage(cli, "--clone cannot be combined with --no-draft");
	if (args_has(args, OPT_JUDGED) &&
	    args->given & (OPT_BIT(OPT_DRAFT) | OPT_BIT(OPT_NO_DRAFT)))
		return output_usage(cli,
		    "--judged cannot be combined with --draft or --no-draft: it applies the draft when the command ends");
	if (args_has(args, OPT_JUDGED) && args->mode != KODA_AUTO)
		return output_usage(cli,
		    "--judged applies changes without asking: it is for --mode auto");
	if (args_has(args, OPT_JSON) && args_has(args, OPT_TTY))
		return output_usage(cli,
		    "--json cannot be combined with --tty: it captures the output");
	if (args_has(args, OPT_JSON) && args_has(args, OPT_NO_SANDBOX))
		return output_usage(cli,
		    "--json cannot be combined with --no-sandbox: it reports what the sandbox saw");
	if (args_has(args, OPT_TTY) && args_has(args, OPT_NO_SANDBOX))
		return output_usage(cli,
		    "--tty cannot be combined with --no-sandbox, which runs the command on your own terminal");
	if (drafting && args_has(args, OPT_NO_SANDBOX))
		return output_usage(cli,
		    "%s cannot be combined with --no-sandbox: the sandbox holds the changes back",
		    args_has(args, OPT_JUDGED) ? "--judged" : "--draft");
	if (drafting && args->mode == KODA_PLAN)
		return output_usage(cli,
		    "a command in plan mode changes nothing, so there is no draft of it: use --mode safe or auto");
	return EXIT_DONE;
}

static bool
wants_draft(const struct cli *cli)
{
	return args_has(&cli->args, OPT_DRAFT) || args_has(&cli->args, OPT_JUDGED) ||
	    args_has(&cli->args, OPT_CLONE);
}

/* Runs the command that -c or the words give. draft: the draft to go on with, or NULL. */
static int
run_words(const struct cli *cli, const char *name, char **words, const char *draft)
{
	struct run run = { .cli = cli };
	int status = check_options(cli, draft != NULL || wants_draft(cli));

	if (status != EXIT_DONE)
		return status;
	if (args_has(&cli->args, OPT_COMMAND) && words[0] != NULL)
		return output_usage(cli,
		    "give either a command line with -c or the command '%s', not both", words[0]);
	if (!args_has(&cli->args, OPT_COMMAND) && words[0] == NULL)
		return output_usage(cli, "%s -c 'COMMAND LINE' or -- COMMAND [ARGUMENT]...", name);
	if (args_has(&cli->args, OPT_COMMAND))
		run.shell = cli->args.command;
	else
		run.argv = (const char *const *)words;
	if (draft != NULL)
		run.draft = output_copy(draft);
	return run_it(&run);
}

int
cmd_run(const struct cli *cli)
{
	return run_words(cli, "run needs", cli->words, NULL);
}

int
cmd_draft_run(const struct cli *cli)
{
	if (cli->words[0] == NULL)
		return output_usage(cli, "draft run needs the ID of a draft, and a command");
	return run_words(cli, "draft run needs, after the ID,", cli->words + 1, cli->words[0]);
}

/* Returns $SHELL if the system lists it as a shell: it could be anything. */
static const char *
find_shell(void)
{
	const char *shell = getenv("SHELL"), *ret = "/bin/sh", *one;

	if (shell == NULL)
		return ret;
	setusershell();
	while ((one = getusershell()) != NULL) {
		if (strcmp(one, shell) == 0)
			ret = shell;
	}
	endusershell();
	return ret;
}

static int
run_shell(const struct cli *cli, const char *draft)
{
	const char *const argv[] = { find_shell(), NULL };
	struct run run = { .cli = cli, .argv = argv, .interactive = true };
	int status = check_options(cli, draft != NULL || wants_draft(cli));

	if (status != EXIT_DONE)
		return status;
	if (args_has(&cli->args, OPT_JSON))
		return output_usage(cli, "shell cannot be combined with --json: it is interactive");
	if (draft != NULL)
		run.draft = output_copy(draft);
	return run_it(&run);
}

int
cmd_shell(const struct cli *cli)
{
	return run_shell(cli, NULL);
}

int
cmd_draft_shell(const struct cli *cli)
{
	return run_shell(cli, cli->words[0]);
}
