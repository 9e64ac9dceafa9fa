/* SPDX-License-Identifier: Apache-2.0 */
/* top: shows what the user's servers are doing, once or until a key ends it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/top_view.h"
#include "mcp/status_read.h"

#define INTERVAL_MS     1000
#define INTERVAL_MIN_MS 100 /* no person reads faster, and each update costs every server time */

static json_t *
look(struct koda_error *err)
{
	*err = (struct koda_error){ 0 };
	return status_read_all(err);
}

/* ---- once ---- */

static int
print_once(const struct cli *cli)
{
	struct top_size size = { .end = "\n", .colour = output_colour(STDOUT_FILENO) };
	struct koda_error err;
	json_t *servers = look(&err), *object;

	if (servers == NULL)
		return output_error(cli, &err, NULL);
	if (args_has(&cli->args, OPT_JSON)) {
		object = output_object();
		json_object_set_new(object, "servers", servers);
		return output_json(object);
	}
	top_view(stdout, servers, &size);
	json_decref(servers);
	return output_done(EXIT_DONE);
}

/* ---- live ---- */

static void
fit(struct top_size *size)
{
	struct winsize window;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) < 0 || window.ws_col == 0 ||
	    window.ws_row == 0)
		window = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	size->columns = window.ws_col;
	size->rows = window.ws_row;
}

/* Draws in one write, over the previous text, so that nothing flickers. */
static int
draw(const json_t *servers)
{
	struct top_size size = { .end = "\033[K\r\n", .colour = output_colour(STDOUT_FILENO) };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r;

	if (f == NULL)
		output_no_memory();
	fit(&size);
	fputs("\033[H", f);
	top_view(f, servers, &size);
	fputs("\033[J", f);
	if (fclose(f) != 0)
		output_no_memory();
	r = output_bytes(text, len);
	free(text);
	return r;
}

static void
take_screen(void)
{
	if (isatty(STDIN_FILENO))
		terminal_keys(STDIN_FILENO);
	terminal_screen(STDOUT_FILENO);
}

/* Handles signals and keys. Returns 0 to go on, -1 to end, or the signal to end by. */
static int
heed(int signals, const struct pollfd *keys)
{
	char typed[64];
	ssize_t n = keys->revents != 0 ? read(keys->fd, typed, sizeof(typed)) : -1;
	int signo;

	if (n > 0 &&
	    (memchr(typed, 'q', (size_t)n) != NULL || memchr(typed, 'Q', (size_t)n) != NULL))
		return -1;
	/* The terminal is gone. */
	if (n == 0 || (keys->revents & (POLLHUP | POLLERR)) != 0)
		return -1;
	while ((signo = signals_next(signals)) != 0) {
		if (signo == SIGINT)
			return -1;
		if (signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT)
			return signo;
		if (signo == SIGTSTP) {
			terminal_restore();
			raise(SIGSTOP);
		}
		/* SIGCONT: a program that had the terminal meanwhile has left its own settings. */
		if (signo == SIGTSTP || signo == SIGCONT)
			take_screen();
	}
	return 0;
}

static int
watch(const struct cli *cli, int signals, unsigned interval_ms, struct koda_error *err)
{
	bool keys = isatty(STDIN_FILENO);
	int asked = 0;

	while (asked == 0) {
		struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
			{ .fd = keys ? STDIN_FILENO : -1, .events = POLLIN } };
		json_t *servers = look(err);
		int r;

		if (servers == NULL)
			return EXIT_FAILED;
		r = draw(servers);
		json_decref(servers);
		if (r < 0) {
			snprintf(err->message, sizeof(err->message), "write standard output: %s",
			    strerror(errno));
			err->code = KODA_IO;
			return EXIT_FAILED;
		}
		if (poll(fds, 2, (int)interval_ms) > 0)
			asked = heed(signals, &fds[1]);
	}
	return asked < 0 ? EXIT_DONE : 128 + asked;
}

static int
live(const struct cli *cli)
{
	unsigned interval_ms =
	    args_has(&cli->args, OPT_INTERVAL) ? cli->args.interval_ms : INTERVAL_MS;
	struct koda_error err = { 0 };
	int signals = signals_open(), status;

	if (signals < 0) {
		err.code = KODA_INTERNAL;
		snprintf(err.message, sizeof(err.message), "set up signals: %s", strerror(errno));
		return output_error(cli, &err, NULL);
	}
	take_screen();
	status = watch(cli, signals, interval_ms < INTERVAL_MIN_MS ? INTERVAL_MIN_MS : interval_ms,
	    &err);
	terminal_restore();
	signals_close(&signals);
	return err.code != KODA_OK ? output_error(cli, &err, NULL) : status;
}

int
cmd_top(const struct cli *cli)
{
	struct koda_error err;
	json_t *servers;
	bool any;

	if (args_has(&cli->args, OPT_ONCE) || args_has(&cli->args, OPT_JSON) ||
	    !isatty(STDOUT_FILENO))
		return print_once(cli);
	servers = look(&err);
	any = json_array_size(servers) > 0;
	json_decref(servers);
	return any ? live(cli) : print_once(cli);
}
