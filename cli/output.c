/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/show.h"

#define PROGRAM OUTPUT_PROGRAM

void
output_init(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		/*
		 * Opened in the wrong direction: reading a closed standard input must fail, not
		 * look empty, and no descriptor of ours may become the standard output of a
		 * command.
		 */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
			_exit(EXIT_HOST);
	}
	json_set_alloc_funcs(output_alloc, free);
}

bool
output_colour(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no_color != NULL && no_color[0] != '\0')
		return false;
	return term != NULL && strcmp(term, "dumb") != 0 && isatty(fd);
}

static void
say(const char *colour, const char *kind, const char *text)
{
	bool coloured = output_colour(STDERR_FILENO);

	fputs(coloured ? colour : "", stderr);
	fputs(PROGRAM ": ", stderr);
	fputs(coloured ? "\033[0m" : "", stderr);
	if (kind != NULL)
		fprintf(stderr, "%s: ", kind);
	show_string(stderr, text);
	fputc('\n', stderr);
}

void
output_note(const char *kind, const char *text)
{
	say("\033[33m", kind, text);
}

static int
status_of(enum koda_code code)
{
	switch (code) {
	case KODA_OK:
		return EXIT_DONE;
	case KODA_INVALID:
	case KODA_IO:
	case KODA_TOO_LARGE:
		return EXIT_FAILED;
	case KODA_POLICY_DENIED:
	case KODA_NOT_APPROVED:
		return EXIT_REFUSED;
	case KODA_CONFLICT:
		return EXIT_CONFLICT;
	case KODA_UNKNOWN:
	case KODA_TIMEOUT:
	case KODA_WORKER:
	case KODA_PROTOCOL:
	case KODA_UNSUPPORTED:
	case KODA_INTERNAL:
		return EXIT_HOST;
	}
	return EXIT_HOST;
}

static const char *
usual_remedy(const struct cli *cli, const struct koda_error *err)
{
	const struct subcommand *command = cli->command;

	switch (err->code) {
	case KODA_CONFLICT:
		return command != NULL ? command->conflict_remedy : NULL;
	case KODA_UNKNOWN:
		return "check the file before you try again";
	case KODA_UNSUPPORTED:
		return "'koda-sandbox doctor' shows what is missing";
	case KODA_IO:
		if (command == NULL)
			return NULL;
		if (err->errnum == ENOTEMPTY && command->opts & OPT_BIT(OPT_RECURSIVE))
			return "--recursive removes a directory and everything below it";
		if (err->errnum == ENOENT && command->opts & OPT_BIT(OPT_PARENTS))
			return "--parents makes the missing directories";
		if (err->errnum == EISDIR && command == &commands[COMMAND_READ])
			return "'koda-sandbox fs list' shows a directory";
		return NULL;
	case KODA_OK:
	case KODA_INVALID:
	case KODA_POLICY_DENIED:
	case KODA_NOT_APPROVED:
	case KODA_TOO_LARGE:
	case KODA_TIMEOUT:
	case KODA_WORKER:
	case KODA_PROTOCOL:
	case KODA_INTERNAL:
		return NULL;
	}
	return NULL;
}

/* Prints a sentence for a person, and an object for a program. */
static void
tell(const struct cli *cli, const char *code, const struct koda_error *err, const char *remedy)
{
	json_t *object, *error;

	say("\033[31m", NULL, err->message);
	if (remedy != NULL)
		fprintf(stderr, "  try: %s\n", remedy);
	if (!args_has(&cli->args, OPT_JSON))
		return;

	error = json_object();
	json_object_set_new(error, "code", json_string(code));
	json_object_set_new(error, "message", show_json_lossy(err->message, strlen(err->message)));
	if (err->path[0] != '\0')
		show_json_path(error, "path", err->path);
	if (err->rule[0] != '\0')
		json_object_set_new(error, "rule", show_json_lossy(err->rule, strlen(err->rule)));
	if (err->errnum != 0) {
		const char *name = strerrorname_np(err->errnum);

		json_object_set_new(error, "errno", json_integer(err->errnum));
		if (name != NULL)
			json_object_set_new(error, "errno_name", json_string(name));
	}
	if (remedy != NULL)
		json_object_set_new(error, "remedy", json_string(remedy));
	object = json_object();
	json_object_set_new(object, "ok", json_false());
	json_object_set_new(object, "error", error);
	output_json(object);
}

int
output_error(const struct cli *cli, const struct koda_error *err, const char *remedy)
{
	tell(cli, koda_code_name(err->code), err, remedy != NULL ? remedy : usual_remedy(cli, err));
	return status_of(err->code);
}

int
output_usage(const struct cli *cli, const char *fmt, ...)
{
	const struct subcommand *command = cli->command;
	struct koda_error err = { .code = KODA_INVALID };
	char remedy[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.message, sizeof(err.message), fmt, ap);
	va_end(ap);
	snprintf(remedy, sizeof(remedy), "'" PROGRAM "%s%s%s%s --help'",
	    cli->group != NULL ? " " : "", cli->group != NULL ? cli->group : "",
	    command != NULL ? " " : "", command != NULL ? command->name : "");
	tell(cli, "usage", &err, remedy);
	return EXIT_USAGE;
}

json_t *
output_object(void)
{
	json_t *object = json_object();

	json_object_set_new(object, "ok", json_true());
	return object;
}

int
output_json(json_t *object)
{
	/* On a terminal nothing untrusted may arrive unescaped, not in JSON either. */
	size_t flags = isatty(STDOUT_FILENO) ? JSON_INDENT(2) | JSON_ENSURE_ASCII : JSON_COMPACT;

	json_dumpf(object, stdout, flags);
	json_decref(object);
	putchar('\n');
	return output_done(EXIT_DONE);
}

int
output_bytes(const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, p, len);

		if (n >= 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			/* Another process made our standard output non-blocking. */
			struct pollfd pfd = { .fd = STDOUT_FILENO, .events = POLLOUT };

			poll(&pfd, 1, -1);
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

bool
output_is_whole(void)
{
	if (fflush(stdout) != 0)
		return false;
	if (!ferror(stdout))
		return true;
	/* It failed some time ago, and errno has been overwritten since: make it fail again. */
	(void)!write(STDOUT_FILENO, "\n", 1);
	return false;
}

int
output_lost(void)
{
	/* SIGPIPE ends the process before this, unless the parent process made us ignore it. */
	if (errno != EPIPE)
		fprintf(stderr, PROGRAM ": write standard output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

int
output_done(int status)
{
	if (output_is_whole())
		return status;
	output_lost();
	return status != EXIT_DONE ? status : EXIT_FAILED;
}

bool
output_wants_summary(const struct cli *cli)
{
	return isatty(STDOUT_FILENO) || args_has(&cli->args, OPT_VERBOSE);
}
