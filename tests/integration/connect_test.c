/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of commands: sockets of the slot work as outside a sandbox, sockets of the host
 * cannot be reached. Listeners on the host check this by counting connections.
 */
#include "tests/kit/connect_guest.h"

/* ---- outside ---- */

#define SWAP_TRIES         "5000"
#define SWAP_OUTSIDE       4000 /* the default maximum of a backlog */
#define SWAP_OUTSIDE_TRIES "4000"

static struct guest guest;
static int host_listener = -1; /* at "host" in the project */

static int
up(void **state)
{
	guest_up(&guest);
	/* Bind by relative name: the absolute path may be too long for an address. */
	must(chdir(guest.root) == 0);
	/* Connections are not accepted during the tests, so the backlog must hold all of them. */
	host_listener = listen_unix(SOCK_STREAM, "host", SWAP_OUTSIDE);
	must(host_listener >= 0);
	must(symlink("host", "to_host") == 0 && symlink("o5", "to_o5") == 0);
	return 0;
}

static int
down(void **state)
{
	must(chdir("/") == 0);
	close(host_listener);
	guest_down(&guest);
	return 0;
}

/* Accepts all pending connections and returns their number. */
static int
came(int listener)
{
	struct pollfd pfd = { .fd = listener, .events = POLLIN };
	int n = 0, fd;

	while (poll(&pfd, 1, 0) == 1 && (fd = accept(listener, NULL, NULL)) >= 0) {
		close(fd);
		n++;
	}
	return n;
}

/* clang-format off */
static const struct {
	const char *label, *arg[6];
	int want, outside; /* the errno inside, and the one without a sandbox; -1: not tried */
} cases[] = {
	{ "own socket, relative path",     { "own", "stream", "o1", "o1" }, 0, 0 },
	{ "own socket, through a dot path", { "own", "stream", "o2", "./../project/o2" }, 0, 0 },
	{ "own socket, seqpacket",         { "own", "seqpacket", "o3", "o3" }, 0, 0 },
	{ "own socket, abstract",          { "own", "stream", "@koda-connect-test", "@koda-connect-test" }, 0, 0 },
	{ "own socket in the private /tmp", { "own", "stream", "/tmp/o4", "/tmp/o4" }, 0, -1 },
	{ "own socket, through a link",    { "own", "stream", "o5", "to_o5" }, 0, 0 },
	{ "no such socket",                { "connect", "stream", "missing" }, ENOENT, ENOENT },
	{ "a file that is no socket",      { "connect", "stream", "guest" }, ECONNREFUSED, ECONNREFUSED },
	{ "own socket left over in /tmp",  { "stale", "/tmp/stale" }, ECONNREFUSED, -1 },
	{ "loopback, IPv4",                { "tcp", "4", "blocking" }, 0, 0 },
	{ "loopback, IPv6",                { "tcp", "6", "blocking" }, 0, -1 },
	{ "loopback, IPv4, without waiting", { "tcp", "4", "later" }, 0, 0 },
	{ "loopback, IPv6, without waiting", { "tcp", "6", "later" }, 0, -1 },
	{ "a port where nobody listens",   { "refused-port" }, ECONNREFUSED, ECONNREFUSED },
	{ "arguments that make no sense",  { "nonsense" }, 0, 0 },
	{ "a full backlog",                { "backlog" }, 0, 0 },
	{ "interrupted while it waits",    { "interrupted", "" }, EINTR, EINTR },
	{ "interrupted and begun again",   { "interrupted", "restart" }, 0, 0 },
	{ "more than may wait",            { "crowd" }, 0, -1 },
	{ "a datagram socket",             { "socket", "datagram" }, 1, 0 },
	{ "the host's socket",             { "connect", "stream", "host" }, EPERM, 0 },
	{ "the host's socket, through a link", { "connect", "stream", "to_host" }, EPERM, 0 },
	{ "the host's socket, of another type", { "connect", "seqpacket", "host" }, EPERM, EPROTOTYPE },
};
/* clang-format on */

/* Runs the same outside the sandbox, in its own process: this shows that the test can fail. */
static int
outside(const char *const *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(be_guest((char **)(uintptr_t)arg));
	must(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
inside(const char *const *arg)
{
	const char *argv[8] = { "" };

	for (size_t i = 0; arg[i] != NULL; i++)
		argv[i + 1] = arg[i];
	return guest_run(&guest, argv);
}

static void
remove_sockets(void)
{
	static const char *const name[] = { "o1", "o2", "o3", "o5", "backlog", "crowd", "beside",
		"own", "link", "next" };

	for (size_t i = 0; i < N_ELEMENTS(name); i++)
		unlink(name[i]);
}

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	bool at_host = strstr(cases[i].label, "the host's") != NULL;

	remove_sockets();
	came(host_listener);
	if (cases[i].outside >= 0) {
		assert_int_equal(outside(cases[i].arg), cases[i].outside);
		if (at_host && cases[i].outside == 0)
			assert_int_equal(came(host_listener), 1);
		remove_sockets();
	}
	guest_forget_events(&guest);
	assert_int_equal(inside(cases[i].arg), cases[i].want);
	assert_int_equal(came(host_listener), 0);
	if (at_host)
		guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED,
		    guest_path(&guest, "host"));
}

static void
full_path(void **state)
{
	char host[PATH_MAX];

	/* There is nothing to try if the project's path does not fit into an address. */
	snprintf(host, sizeof(host), "%s/host", guest.root);
	if (strlen(host) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		skip_because("the project's path does not fit into a socket address");
	unlink("full");
	assert_int_equal(inside((const char *[]){ "own", "stream", "full",
			     guest_path(&guest, "full"), NULL }),
	    0);
	assert_int_equal(outside((const char *[]){ "connect", "stream", host, NULL }), 0);
	assert_int_equal(came(host_listener), 1);
	assert_int_equal(inside((const char *[]){ "connect", "stream", host, NULL }), EPERM);
	assert_int_equal(came(host_listener), 0);
}

/* A command can connect to a socket of another command. */
static void
from_another_command(void **state)
{
	static const char script[] =
	    "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/served'); s.listen(); "
	    "print('up', flush=True); s.accept()";
	int out[2];
	uint64_t server;
	char c;

	if (access("/usr/bin/python3", X_OK) != 0)
		skip_because("there is no /usr/bin/python3");
	must(pipe2(out, O_CLOEXEC) == 0);
	server = guest_start(&guest, -1, out[1], false,
	    (const char *[]){ "/usr/bin/python3", "-c", script, NULL });
	close(out[1]);
	must(read(out[0], &c, 1) == 1);
	close(out[0]);
	assert_int_equal(inside((const char *[]){ "connect", "stream", "/tmp/served", NULL }), 0);
	assert_int_equal(guest_wait(&guest, server).code, 0);
}

static void
made_later(void **state)
{
	int listener;

	unlink("later");
	listener = listen_unix(SOCK_STREAM, "later", 4);
	must(listener >= 0);
	assert_int_equal(outside((const char *[]){ "connect", "stream", "later", NULL }), 0);
	assert_int_equal(came(listener), 1);
	guest_forget_events(&guest);
	assert_int_equal(inside((const char *[]){ "connect", "stream", "later", NULL }), EPERM);
	assert_int_equal(came(listener), 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED,
	    guest_path(&guest, "later"));
	/* A socket of the slot with the same name may be reached. */
	close(listener);
	unlink("later");
	assert_int_equal(inside((const char *[]){ "own", "stream", "later", "later", NULL }), 0);
}

static void
abstract(void **state)
{
	char name[64];
	int listener;

	snprintf(name, sizeof(name), "@koda-host-%d", (int)getpid());
	listener = listen_unix(SOCK_STREAM, name, 4);
	must(listener >= 0);
	assert_int_equal(outside((const char *[]){ "connect", "stream", name, NULL }), 0);
	assert_int_equal(came(listener), 1);
	assert_int_equal(inside((const char *[]){ "connect", "stream", name, NULL }), ECONNREFUSED);
	assert_int_equal(came(listener), 0);
	close(listener);
}

static void
inherited_socket(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
	struct guest_exit e;
	char port[16];
	pid_t pid;

	must(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 4) == 0 &&
	    getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(at.sin_port));
	/* The socket is connected, like the standard input of a service, and then reconnected. */
	must(connect(client, (struct sockaddr *)&at, sizeof(at)) == 0);
	assert_int_equal(came(listener), 1);
	pid = fork();
	if (pid == 0) {
		dup2(client, 0);
		_exit(do_inherited((char *[]){ port }));
	}
	must(waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
	assert_int_equal(came(listener), 1);
	guest_forget_events(&guest);
	e = guest_wait(&guest,
	    guest_start(&guest, client, -1, false,
		(const char *[]){ "", "inherited", port, NULL }));
	assert_int_equal(e.code, EPERM);
	assert_int_equal(came(listener), 0);
	guest_event(&guest, KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED, "a socket of the host");
	close(client);
	close(listener);
}

static void
swapped(void **state)
{
	const char *how = *state;
	const char *arg[] = { "swap", how, SWAP_TRIES, NULL };

	remove_sockets();
	came(host_listener);
	/* Without the guard, connections reach the host's socket. */
	assert_int_equal(outside((const char *[]){ "swap", how, SWAP_OUTSIDE_TRIES, NULL }), 0);
	assert_true(came(host_listener) > 0);
	remove_sockets();
	assert_int_equal(inside(arg), 0);
	assert_int_equal(came(host_listener), 0);
}

static void
latency(void **state)
{
	assert_int_equal(outside((const char *[]){ "latency", NULL }), 0);
	assert_int_equal(inside((const char *[]){ "latency", NULL }), 0);
}

static void
runtime(void **state)
{
	static const char *const program[][4] = {
		{ "/usr/bin/python3", "-c",
		    "import asyncio\n"
		    "async def main():\n"
		    "    s = await asyncio.start_unix_server(lambda r, w: w.close(), '/tmp/a.sock')\n"
		    "    r, w = await asyncio.open_unix_connection('/tmp/a.sock')\n"
		    "    assert await r.read() == b''\n"
		    "    t = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)\n"
		    "    r, w = await asyncio.open_connection(*t.sockets[0].getsockname())\n"
		    "    assert await r.read() == b''\n"
		    "asyncio.run(main())\n" },
		{ "/usr/bin/python3", "-c",
		    "from multiprocessing.managers import SyncManager\n"
		    "m = SyncManager(); m.start(); d = m.dict(); d[1] = 2; assert d[1] == 2\n"
		    "m.shutdown()\n" },
		{ "/usr/bin/node", "-e",
		    "const net = require('net');"
		    "const s = net.createServer(c => c.end('x')).listen('/tmp/n.sock', () =>"
		    "  net.connect('/tmp/n.sock').on('data', () => {"
		    "    const t = net.createServer(c => c.end('y')).listen(0, '127.0.0.1', () =>"
		    "      net.connect(t.address().port, '127.0.0.1').on('data', () => process.exit(0)))"
		    "  }).on('error', () => process.exit(1)))" },
	};
	size_t i = (uintptr_t)*state;

	if (access(program[i][0], X_OK) != 0)
		skip_because("python3 or node is not installed in /usr/bin");
	assert_int_equal(guest_run(&guest, program[i]), 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(full_path),
		cmocka_unit_test(from_another_command),
		cmocka_unit_test(made_later),
		cmocka_unit_test(abstract),
		cmocka_unit_test(inherited_socket),
		cmocka_unit_test(latency),
		{ "swapped address and descriptor", swapped, NULL, NULL,
		    (void *)(uintptr_t) "address" },
		{ "swapped link", swapped, NULL, NULL, (void *)(uintptr_t) "link" },
		{ "python asyncio", runtime, NULL, NULL, (void *)0 },
		{ "python multiprocessing", runtime, NULL, NULL, (void *)1 },
		{ "node", runtime, NULL, NULL, (void *)2 },
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(others)];

	if (argc > 2 && strcmp(argv[1], GUEST) == 0)
		return be_guest(argv + 2);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	memcpy(tests + N_ELEMENTS(cases), others, sizeof(others));
	return cmocka_run_group_tests_name("connect", tests, up, down);
}
