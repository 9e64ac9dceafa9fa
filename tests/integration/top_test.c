/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `koda-sandbox top`: all servers of the user, once, as JSON, and live on a terminal, which is
 * restored afterwards. A client that connects and does not read costs a server nothing.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

#include <jansson.h>

#include "mcp/runtime.h"
#include "mcp/status.h"
#include "tests/kit/mcp_host.h"

#define ENTER "\033[?1049h"
#define LEAVE "\033[?1049l"

/* ---- once ---- */

/* Return all that `top` prints; the caller frees it. */
static char *
top(const char *option, int want)
{
	struct process p = process_start((const char *[]){ PROGRAM, "top", option, NULL });
	char *text = calloc(1, 1 << 20);
	size_t n = 0;
	ssize_t r;

	assert_non_null(text);
	close(p.in);
	p.in = -1;
	while ((r = read(p.out, text + n, (1 << 20) - 1 - n)) > 0)
		n += (size_t)r;
	assert_int_equal(process_wait(&p), want);
	return text;
}

static json_t *
top_json(void)
{
	cleanup_free char *text = top("--json", 0);
	json_t *object = json_loads(text, 0, NULL);

	if (object == NULL)
		fail_msg("it prints '%s'", text);
	assert_true(json_is_true(json_object_get(object, "ok")));
	return object;
}

static void
test_nothing(void **state)
{
	cleanup_free char *text = top(NULL, 0);
	json_t *object = top_json();

	assert_string_equal(text, "no server is running\n");
	assert_int_equal(json_array_size(json_object_get(object, "servers")), 0);
	json_decref(object);
	/* `top` leaves nothing behind. */
	assert_false(proof_exists(proof_path("%s/koda-sandbox", dir)));
}

static void
test_two_servers(void **state)
{
	struct process hosts[2] = { start_host(NULL), start_host(NULL) };
	cleanup_free char *text = top("--once", 0);
	json_t *object = top_json();
	const json_t *servers = json_object_get(object, "servers");

	assert_int_equal(json_array_size(servers), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *server = json_array_get(servers, i),
			     *session = json_array_get(json_object_get(server, "sessions"), 0),
			     *worker = json_array_get(json_object_get(server, "workers"), 0),
			     *tool = json_array_get(json_object_get(server, "tools"), 0);
		pid_t pid = (pid_t)json_integer_value(json_object_get(server, "pid"));

		assert_true(pid == hosts[0].pid || pid == hosts[1].pid);
		assert_string_equal(json_string_value(json_object_get(session, "name")), "main");
		/* Not UTF-8, but the output is still JSON. */
		assert_string_equal(json_string_value(json_object_get(session, "root")),
		    "/p\033]0;x\007\xef\xbf\xbd");
		assert_true(json_integer_value(json_object_get(worker, "rss_kib")) > 100);
		assert_int_equal(json_integer_value(json_object_get(tool, "p50_us")), 111);
	}
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "/p\\x1b]0;x\\x07"));
	assert_non_null(strstr(text, "make all"));
	assert_non_null(strstr(text, "denied"));
	json_decref(object);
	assert_int_equal(process_finish(&hosts[0]), 0);
	assert_int_equal(process_finish(&hosts[1]), 0);
}

/* A killed server is not listed; a stopped one is, and does not delay the others. */
static void
test_dead_and_silent(void **state)
{
	struct process lives = start_host(NULL), dead = start_host(NULL),
		       stopped = start_host(NULL);
	json_t *object;
	const json_t *servers;

	kill(dead.pid, SIGKILL);
	close(dead.in);
	assert_int_equal(process_wait(&dead), 128 + SIGKILL);
	kill(stopped.pid, SIGSTOP);
	object = top_json();
	servers = json_object_get(object, "servers");
	assert_int_equal(json_array_size(servers), 2);
	assert_true(json_is_true(json_object_get(json_array_get(servers, 0), "silent")));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(servers, 1), "pid")),
	    lives.pid);
	json_decref(object);
	kill(stopped.pid, SIGCONT);
	assert_int_equal(process_finish(&stopped), 0);
	assert_int_equal(process_finish(&lives), 0);
}

/* ---- clients that do not read ---- */

static void
test_never_reads(void **state)
{
	char name[17];
	struct process host = start_host(name);
	int fds[STATUS_CLIENTS_MAX + 4], at;
	struct koda_error err;
	json_t *object;

	assert_string_equal(process_ask(&host, "big"), "big");
	at = runtime_find(&err);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++) {
		fds[i] = runtime_connect(at, name, RUNTIME_STATUS, SOCK_STREAM);
		assert_true(fds[i] >= 0);
		assert_string_equal(process_ask(&host, "ping"), "pong");
	}
	/* Clients that have no room are turned away at once. */
	for (size_t i = STATUS_CLIENTS_MAX; i < N_ELEMENTS(fds); i++) {
		char c;

		assert_true(process_readable(fds[i], PATIENCE_MS));
		assert_int_equal(recv(fds[i], &c, 1, 0), 0);
	}
	/* The others are turned away when their time is over: then there is room again. */
	for (size_t i = 0; i < STATUS_CLIENTS_MAX; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLRDHUP };

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	}
	object = top_json();
	assert_int_equal(json_integer_value(
			     json_object_get(json_array_get(json_object_get(object, "servers"), 0),
				 "left_out")),
	    3);
	json_decref(object);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++)
		close(fds[i]);
	close(at);
	assert_int_equal(process_finish(&host), 0);
}

/* ---- live ---- */

struct live {
	pid_t pid;
	int master;
	struct termios before;
	char seen[1 << 20];
	size_t n;
};

static void
start_live(struct live *live, unsigned short columns)
{
	struct winsize size = { .ws_row = 20, .ws_col = columns };
	int slave;

	memset(live, 0, sizeof(*live));
	live->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(live->master >= 0);
	assert_int_equal(grantpt(live->master), 0);
	assert_int_equal(unlockpt(live->master), 0);
	slave = ioctl(live->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	ioctl(slave, TIOCSWINSZ, &size);
	tcgetattr(slave, &live->before);
	live->pid = fork();
	assert_true(live->pid >= 0);
	if (live->pid == 0) {
		setsid();
		signal(SIGHUP, SIG_DFL); /* the caller of the tests may ignore it */
		ioctl(slave, TIOCSCTTY, 0);
		dup2(slave, 0);
		dup2(slave, 1);
		dup2(slave, 2);
		setenv("TERM", "xterm", 1);
		execl(PROGRAM, PROGRAM, "top", "--interval", "0.1", NULL);
		_exit(99);
	}
	close(slave);
}

/* Read until the terminal has shown `text` after offset `from`. */
static void
until(struct live *live, size_t from, const char *text)
{
	while (strstr(live->seen + from, text) == NULL) {
		ssize_t n;

		if (!process_readable(live->master, PATIENCE_MS))
			fail_msg("'%s' is not shown", text);
		n = read(live->master, live->seen + live->n, sizeof(live->seen) - 1 - live->n);
		if (n <= 0)
			fail_msg("it ended without '%s'", text);
		live->n += (size_t)n;
	}
}

static void
ends(struct live *live, int want)
{
	struct termios after;
	int status;

	until(live, 0, LEAVE);
	assert_int_equal(waitpid(live->pid, &status, 0), live->pid);
	assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), want);
	assert_int_equal(tcgetattr(live->master, &after), 0);
	assert_int_equal(after.c_lflag, live->before.c_lflag);
	/* Nothing is drawn on the user's own screen after `top` has left its own. */
	assert_null(strstr(strstr(live->seen, LEAVE), "server"));
	close(live->master);
}

enum how {
	BY_KEY,
	BY_SIGNAL,
};

static const struct {
	const char *label;
	enum how how;
	int what; /* the key, or the signal */
	int status;
} endings[] = {
	{ "ended by q", BY_KEY, 'q', 0 },
	{ "ended by Ctrl-C", BY_KEY, '\003', 0 },
	{ "ended by SIGTERM", BY_SIGNAL, SIGTERM, 128 + SIGTERM },
	{ "ended by SIGHUP", BY_SIGNAL, SIGHUP, 128 + SIGHUP },
	{ "ended by a signal that nobody reads", BY_SIGNAL, SIGALRM, 128 + SIGALRM },
};

static void
check_ending(void **state)
{
	size_t i = (uintptr_t)*state;
	struct process host = start_host(NULL);
	struct live *live = malloc(sizeof(*live));
	char key = (char)endings[i].what;

	assert_non_null(live);
	start_live(live, 100);
	until(live, 0, ENTER);
	until(live, 0, "make all");
	if (endings[i].how == BY_KEY)
		assert_int_equal(write(live->master, &key, 1), 1);
	else
		kill(live->pid, endings[i].what);
	ends(live, endings[i].status);
	free(live);
	assert_int_equal(process_finish(&host), 0);
}

static void
test_live(void **state)
{
	struct winsize size = { .ws_row = 20, .ws_col = 24 };
	struct process host = start_host(NULL);
	struct live *live = malloc(sizeof(*live));
	char want[32];
	size_t at;

	assert_non_null(live);
	start_live(live, 100);
	snprintf(want, sizeof(want), "server %d", (int)host.pid);
	until(live, 0, want);
	until(live, 0, "/p\\x1b]0;x\\x07");
	assert_null(strstr(live->seen, "\033]0"));
	/* `top` asks again: one more call each time. */
	at = live->n;
	until(live, at, "read_file");
	/* A narrow window: what does not fit is not drawn. */
	assert_int_equal(ioctl(live->master, TIOCSWINSZ, &size), 0);
	until(live, live->n, "\033[H");
	at = live->n;
	until(live, at, "\033[J");
	at = live->n;
	until(live, at, "\033[J");
	at = live->n;
	until(live, at, "\033[J");
	assert_null(strstr(live->seen + at, "/p\\x1b"));
	/* The server ends, and `top` stays. */
	assert_int_equal(process_finish(&host), 0);
	until(live, live->n, "no server is running");
	assert_int_equal(write(live->master, "q", 1), 1);
	ends(live, 0);
	free(live);
}

/* Stopped and continued: in between, the terminal shows the user's own screen. */
static void
test_stopped(void **state)
{
	struct process host = start_host(NULL);
	struct live *live = malloc(sizeof(*live));
	int status;
	size_t at;

	assert_non_null(live);
	start_live(live, 100);
	until(live, 0, "make all");
	assert_int_equal(write(live->master, "\032", 1), 1);
	until(live, 0, LEAVE);
	assert_int_equal(waitpid(live->pid, &status, WUNTRACED), live->pid);
	assert_true(WIFSTOPPED(status));
	at = live->n;
	kill(live->pid, SIGCONT);
	until(live, at, ENTER);
	until(live, at, "make all");
	memset(live->seen, ' ', at);
	assert_int_equal(write(live->master, "q", 1), 1);
	ends(live, 0);
	free(live);
	assert_int_equal(process_finish(&host), 0);
}

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, test_##name, mcp_set_up, mcp_tear_down, NULL                                \
	}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		CASE(nothing),
		CASE(two_servers),
		CASE(dead_and_silent),
		CASE(never_reads),
		CASE(live),
		CASE(stopped),
	};
	struct CMUnitTest tests[N_ELEMENTS(others) + N_ELEMENTS(endings)];
	size_t n = N_ELEMENTS(others);

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < N_ELEMENTS(endings); i++)
		tests[n++] = (struct CMUnitTest){ endings[i].label, check_ending, mcp_set_up,
			mcp_tear_down, (void *)i };
	return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
