/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How children connect to a server: with a token, once. Also invalid tokens, descriptors and
 * directories.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "mcp/endpoint.h"
#include "mcp/runtime.h"
#include "tests/kit/mcp_host.h"

/* Checks that a child's client talks to the program started for it. */
static void
converse(const struct process *child, const char *number)
{
	char want[64];

	snprintf(want, sizeof(want), "%s:hello", number);
	assert_string_equal(process_ask(child, "hello"), want);
}

static void
open_child(const struct process *host, unsigned number, char ret[ENDPOINT_TOKEN_SIZE])
{
	char line[32];

	snprintf(line, sizeof(line), "open %u", number);
	snprintf(ret, ENDPOINT_TOKEN_SIZE, "%s", process_ask(host, line));
	assert_int_equal(strlen(ret), ENDPOINT_TOKEN_LEN);
}

/* Returns the number of names in the runtime directory, -1 if there is no directory. */
static int
entries(void)
{
	DIR *d = opendir(proof_path("%s/koda-sandbox", dir));
	const struct dirent *e;
	int n = 0;

	if (d == NULL)
		return -1;
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* ---- the normal case ---- */

static void
test_a_child(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL), child;
	struct stat st;

	assert_int_equal(stat(proof_path("%s/koda-sandbox", dir), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	open_child(&host, 7, token);
	child = start_child(token);
	converse(&child, "7");
	/* The client has closed its end: a clean exit. */
	assert_int_equal(process_finish(&child), 0);
	assert_string_equal(process_ask(&host, "refusals"), "0");
	assert_int_equal(process_finish(&host), 0);
	assert_int_equal(entries(), -1);
}

static void
test_two_servers(void **state)
{
	char token[2][ENDPOINT_TOKEN_SIZE], name[2][17];
	struct process host[2], child[2];

	for (size_t i = 0; i < 2; i++) {
		host[i] = start_host(name[i]);
		open_child(&host[i], (unsigned)i, token[i]);
		assert_memory_equal(token[i], name[i], 16);
	}
	assert_string_not_equal(name[0], name[1]);
	for (size_t i = 0; i < 2; i++) {
		child[i] = start_child(token[i]);
		converse(&child[i], i == 0 ? "0" : "1");
	}
	assert_int_equal(entries(), 6);
	assert_int_equal(process_finish(&host[0]), 0);
	/* The client of the server that has gone reports it; the other one goes on. */
	assert_string_equal(process_line(child[0].err), "the server ended without an answer");
	assert_int_equal(process_finish(&child[0]), 125);
	converse(&child[1], "1");
	assert_int_equal(entries(), 3);
	assert_int_equal(process_finish(&child[1]), 0);
	assert_int_equal(process_finish(&host[1]), 0);
	assert_int_equal(entries(), -1);
}

static void
test_ended_by_the_server(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL), child;

	open_child(&host, 7, token);
	child = start_child(token);
	converse(&child, "7");
	process_say(&host, "end 7 5 the parent has closed it");
	assert_string_equal(process_line(child.err), "the parent has closed it");
	assert_int_equal(process_finish(&child), 5);
	assert_int_equal(process_finish(&host), 0);
}

static void
test_child_killed(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL), child;

	open_child(&host, 7, token);
	child = start_child(token);
	converse(&child, "7");
	kill(child.pid, SIGKILL);
	assert_string_equal(process_line(host.out), "gone 7");
	assert_int_equal(process_wait(&child), 128 + SIGKILL);
	close(child.in);
	assert_int_equal(process_finish(&host), 0);
}

/* A killed server leaves its files; the next server that starts removes them, and no others. */
static void
test_server_killed(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE], other[ENDPOINT_TOKEN_SIZE];
	struct process lives = start_host(NULL), host = start_host(NULL), next, child;

	open_child(&lives, 1, other);
	open_child(&host, 7, token);
	kill(host.pid, SIGKILL);
	assert_int_equal(process_wait(&host), 128 + SIGKILL);
	close(host.in);
	assert_int_equal(entries(), 6);
	child = start_child(token);
	assert_non_null(strstr(process_line(child.err), "the server that made this token"));
	assert_int_equal(process_finish(&child), 125);
	next = start_host(NULL);
	assert_int_equal(entries(), 6);
	child = start_child(token);
	assert_string_equal(process_line(child.err), "the server that made this token has ended");
	assert_int_equal(process_finish(&child), 125);
	child = start_child(other);
	converse(&child, "1");
	assert_int_equal(process_finish(&child), 0);
	assert_int_equal(process_finish(&next), 0);
	assert_int_equal(process_finish(&lives), 0);
	assert_int_equal(entries(), -1);
}

/* Many servers start and end at once: none removes a directory or a lock that another one uses. */
static void
test_coming_and_going(void **state)
{
	for (int round = 0; round < 5; round++) {
		struct process hosts[12];

		for (size_t i = 0; i < N_ELEMENTS(hosts); i++)
			hosts[i] = process_start((const char *[]){ MCP_HOST, NULL });
		for (size_t i = 0; i < N_ELEMENTS(hosts); i += 2) {
			assert_memory_equal(process_line(hosts[i].out), "ready ", 6);
			assert_int_equal(process_finish(&hosts[i]), 0);
		}
		for (size_t i = 1; i < N_ELEMENTS(hosts); i += 2) {
			assert_memory_equal(process_line(hosts[i].out), "ready ", 6);
			assert_string_equal(process_ask(&hosts[i], "ping"), "pong");
			assert_int_equal(process_finish(&hosts[i]), 0);
		}
		assert_int_equal(entries(), -1);
	}
}

/* ---- invalid tokens ---- */

static void
refused_child(const struct process *host, const char *token, int status, const char *says)
{
	struct process child = start_child(token);
	const char *line = process_line(child.err);

	if (strstr(line, says) == NULL)
		fail_msg("it says '%s'", line);
	assert_int_equal(process_finish(&child), status);
	if (host != NULL)
		assert_string_equal(process_ask(host, "ping"), "pong");
}

static void
test_used_twice(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL), child;

	open_child(&host, 7, token);
	child = start_child(token);
	converse(&child, "7");
	refused_child(&host, token, 3, "can be used once");
	converse(&child, "7");
	assert_int_equal(process_finish(&child), 0);
	refused_child(&host, token, 3, "can be used once");
	assert_string_equal(process_ask(&host, "refusals"), "2");
	assert_int_equal(process_finish(&host), 0);
}

static void
test_wrong_tokens(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE], other[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL), child;

	open_child(&host, 7, token);
	strcpy(other, token);
	other[ENDPOINT_TOKEN_LEN - 1] = token[ENDPOINT_TOKEN_LEN - 1] == 'A' ? 'E' : 'A';
	refused_child(&host, other, 3, "can be used once");
	strcpy(other, token);
	other[0] = token[0] == '0' ? '1' : '0';
	refused_child(&host, other, 125, "the server that made this token has ended");
	refused_child(&host, "", 125, "not the token of a child");
	refused_child(&host, "../../../../tmp/aa.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 125,
	    "not the token of a child");
	assert_string_equal(process_ask(&host, "refusals"), "1");
	/* The correct token still works. */
	child = start_child(token);
	converse(&child, "7");
	assert_int_equal(process_finish(&child), 0);
	assert_int_equal(process_finish(&host), 0);
	refused_child(NULL, token, 125, "no server is running");
}

static void
test_revoked(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct process host = start_host(NULL);

	open_child(&host, 7, token);
	assert_string_equal(process_ask(&host, "revoke 7"), "revoked");
	refused_child(&host, token, 3, "while the parent keeps the child open");
	assert_int_equal(process_finish(&host), 0);
}

/* ---- invalid clients ---- */

static int
connect_raw(const char *name)
{
	struct koda_error err;
	int at = runtime_find(&err), fd;

	assert_true(at >= 0);
	fd = runtime_connect(at, name, RUNTIME_CHILD, SOCK_SEQPACKET);
	assert_true(fd >= 0);
	close(at);
	return fd;
}

static void
send_raw(int fd, const void *text, size_t len, const int *fds, size_t n)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(200 * sizeof(int))];
	} control = { 0 };
	struct iovec bytes = { (void *)(uintptr_t)text, len };
	struct msghdr msg = { .msg_iov = &bytes, .msg_iovlen = 1 };

	if (n > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

static size_t
open_descriptors(pid_t pid)
{
	DIR *d = opendir(proof_path("/proc/%d/fd", (int)pid));
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

enum sent {
	PIPES,     /* correct */
	BACKWARDS, /* the read end and the write end are swapped */
	PATHS,     /* O_PATH */
};

static const struct {
	const char *label;
	size_t n; /* descriptors */
	enum sent sent;
	const char *front; /* before the token; NULL: the correct text */
	bool no_token;
	size_t behind; /* extra bytes */
} hostile[] = {
	/* clang-format off */
	{ "no descriptors", 0, PIPES, NULL, false, 0 },
	{ "one descriptor", 1, PIPES, NULL, false, 0 },
	{ "three descriptors", 3, PIPES, NULL, false, 0 },
	{ "four descriptors", 4, PIPES, NULL, false, 0 },
	{ "two hundred descriptors", 200, PIPES, NULL, false, 0 },
	{ "descriptors the wrong way round", 2, BACKWARDS, NULL, false, 0 },
	{ "descriptors that are for nothing", 2, PATHS, NULL, false, 0 },
	{ "another version", 2, PIPES, "koda-child 2 ", false, 0 },
	{ "garbage", 2, PIPES, "GET / HTTP/1", true, 0 },
	{ "garbage as long as a hello", 0, PIPES, "", true, ENDPOINT_TOKEN_LEN + 13 },
	{ "a token too long", 2, PIPES, NULL, false, 1 },
	{ "a token much too long", 2, PIPES, NULL, false, 60000 },
	{ "nothing", 0, PIPES, "", true, 1 },
	/* clang-format on */
};

static void
check_hostile(void **state)
{
	size_t i = (uintptr_t)*state, before, len;
	const char *front = hostile[i].front != NULL ? hostile[i].front : "koda-child 1 ";
	char token[ENDPOINT_TOKEN_SIZE], name[17], packet[512], *text = calloc(1, 65536);
	struct process host = start_host(name), child;
	int in[2], out[2], fds[200], fd;
	ssize_t r;

	open_child(&host, 7, token);
	before = open_descriptors(host.pid);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	for (size_t k = 0; k < N_ELEMENTS(fds); k++)
		fds[k] = hostile[i].sent == BACKWARDS ? (k == 0 ? out[1] : in[0])
						      : (k == 0 ? in[0] : out[1]);
	fd = connect_raw(name);
	if (hostile[i].sent == PATHS)
		fds[0] = fds[1] = open("/dev/null", O_PATH | O_CLOEXEC);
	len = (size_t)sprintf(text, "%s%s", front, hostile[i].no_token ? "" : token);
	send_raw(fd, text, len + hostile[i].behind, fds, hostile[i].n);
	/* The client gets an error and is not let in. */
	assert_true(process_readable(fd, PATIENCE_MS));
	r = recv(fd, packet, sizeof(packet), 0);
	assert_true(r > 1 && packet[0] == 3);
	assert_int_equal(recv(fd, packet, sizeof(packet), 0), 0);
	close(fd);
	assert_string_equal(process_ask(&host, "refusals"), "1");
	assert_int_equal(open_descriptors(host.pid), before);
	/* The token still works. */
	child = start_child(token);
	converse(&child, "7");
	assert_int_equal(process_finish(&child), 0);
	assert_int_equal(process_finish(&host), 0);
	if (hostile[i].sent == PATHS)
		close(fds[0]);
	for (size_t k = 0; k < 2; k++) {
		close(in[k]);
		close(out[k]);
	}
	free(text);
}

/*
 * The maximum of silent connections, for the maximum time; the server works meanwhile, and then
 * there is room again.
 */
static void
test_silent(void **state)
{
	char token[ENDPOINT_TOKEN_SIZE], name[17], c;
	struct process host = start_host(name), child;
	int fds[ENDPOINT_PENDING_MAX], gone = connect_raw(name), more;

	close(gone);
	assert_string_equal(process_ask(&host, "ping"), "pong");
	open_child(&host, 7, token);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++) {
		fds[i] = connect_raw(name);
		assert_string_equal(process_ask(&host, "ping"), "pong");
	}
	more = connect_raw(name);
	assert_true(process_readable(more, ENDPOINT_HELLO_SECONDS * 1000));
	assert_int_equal(recv(more, &c, 1, 0), 1);
	close(more);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++) {
		assert_true(process_readable(fds[i], PATIENCE_MS));
		assert_int_equal(recv(fds[i], &c, 1, 0), 1);
		assert_int_equal(c, 3);
		close(fds[i]);
	}
	child = start_child(token);
	converse(&child, "7");
	assert_int_equal(process_finish(&child), 0);
	assert_int_equal(process_finish(&host), 0);
}

/* ---- invalid directories ---- */

static void
test_long_path(void **state)
{
	char path[PATH_MAX], token[ENDPOINT_TOKEN_SIZE];
	struct process host, child;

	snprintf(path, sizeof(path), "%s", dir);
	for (int i = 0; i < 3; i++) {
		size_t n = strlen(path);

		snprintf(path + n, sizeof(path) - n,
		    "/a-directory-with-quite-a-long-name-indeed-%d", i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_true(strlen(path) > sizeof(((struct sockaddr_un *)NULL)->sun_path));
	setenv("XDG_RUNTIME_DIR", path, 1);
	host = start_host(NULL);
	assert_true(proof_exists(proof_path("%s/koda-sandbox", path)));
	open_child(&host, 7, token);
	child = start_child(token);
	converse(&child, "7");
	assert_int_equal(process_finish(&child), 0);
	assert_int_equal(process_finish(&host), 0);
	assert_false(proof_exists(proof_path("%s/koda-sandbox", path)));
}

static void
xdg_link(const char *path)
{
	proof_mkdir(proof_path("%s/real", dir));
	assert_int_equal(symlink("real", path), 0);
}

static void
xdg_below_link(const char *path)
{
	proof_mkdir(proof_path("%s/real", dir));
	proof_mkdir(proof_path("%s/real/it", dir));
	assert_int_equal(symlink("real", proof_path("%s/link", dir)), 0);
}

static void
xdg_everybodys(const char *path)
{
	proof_mkdir(path);
	assert_int_equal(chmod(path, 0777), 0);
}

static void
xdg_none(const char *path)
{
}

static void
xdg_file(const char *path)
{
	proof_put(path, "");
}

static void
own_link(const char *path)
{
	proof_mkdir(path);
	assert_int_equal(mkdir(proof_path("%s/real", dir), 0700), 0);
	assert_int_equal(symlink("../real", proof_path("%s/koda-sandbox", path)), 0);
}

static void
own_everybodys(const char *path)
{
	proof_mkdir(path);
	proof_mkdir(proof_path("%s/koda-sandbox", path));
	assert_int_equal(chmod(proof_path("%s/koda-sandbox", path), 0777), 0);
}

static void
own_file(const char *path)
{
	proof_mkdir(path);
	proof_put(proof_path("%s/koda-sandbox", path), "");
}

static const struct {
	const char *label;
	void (*make)(const char *path);
	const char *xdg;  /* below DIR, or as given */
	const char *says; /* NULL: the server works, from the directory below /tmp */
} places[] = {
	/* clang-format off */
	{ "the runtime directory is a link", xdg_link, "it", NULL },
	{ "the runtime directory is below a link", xdg_below_link, "link/it", NULL },
	{ "everybody may write it", xdg_everybodys, "it", NULL },
	{ "it is not there", xdg_none, "it", NULL },
	{ "it is a file", xdg_file, "it", NULL },
	{ "it is somebody else's", xdg_none, "/", NULL },
	{ "it is relative", xdg_none, "", NULL },
	{ "ours in it is a link", own_link, "it", "the runtime directory 'koda-sandbox': " },
	{ "everybody may write ours", own_everybodys, "it", "other users own or may use" },
	{ "ours is a file", own_file, "it", "the runtime directory 'koda-sandbox': " },
	/* clang-format on */
};

static void
check_place(void **state)
{
	size_t i = (uintptr_t)*state;
	char token[ENDPOINT_TOKEN_SIZE], name[17];
	struct process host, child;
	uint64_t before;

	places[i].make(proof_path("%s/it", dir));
	setenv("XDG_RUNTIME_DIR",
	    places[i].xdg[0] == '/'        ? places[i].xdg
		: places[i].xdg[0] == '\0' ? "run/user"
					   : proof_path("%s/%s", dir, places[i].xdg),
	    1);
	before = proof_sum(dir);
	if (places[i].says != NULL) {
		const char *line;

		host = process_start((const char *[]){ MCP_HOST, NULL });
		line = process_line(host.out);
		if (strstr(line, places[i].says) == NULL)
			fail_msg("it says '%s'", line);
		assert_int_equal(process_finish(&host), 1);
		refused_child(NULL, "0123456789abcdef.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		    125, places[i].says);
	} else {
		host = start_host(name);
		assert_true(proof_exists(
		    proof_path("/tmp/koda-sandbox-%u/%s.lock", (unsigned)geteuid(), name)));
		open_child(&host, 7, token);
		child = start_child(token);
		converse(&child, "7");
		assert_int_equal(process_finish(&child), 0);
		assert_int_equal(process_finish(&host), 0);
		assert_false(proof_exists(
		    proof_path("/tmp/koda-sandbox-%u/%s.lock", (unsigned)geteuid(), name)));
	}
	assert_int_equal(proof_sum(dir), before);
}

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, test_##name, mcp_set_up, mcp_tear_down, NULL                                \
	}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		CASE(a_child),
		CASE(two_servers),
		CASE(ended_by_the_server),
		CASE(child_killed),
		CASE(server_killed),
		CASE(coming_and_going),
		CASE(used_twice),
		CASE(wrong_tokens),
		CASE(revoked),
		CASE(silent),
		CASE(long_path),
	};
	struct CMUnitTest tests[N_ELEMENTS(others) + N_ELEMENTS(hostile) + N_ELEMENTS(places)];
	size_t n = N_ELEMENTS(others);

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < N_ELEMENTS(hostile); i++)
		tests[n++] = (struct CMUnitTest){ hostile[i].label, check_hostile, mcp_set_up,
			mcp_tear_down, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(places); i++)
		tests[n++] = (struct CMUnitTest){ places[i].label, check_place, mcp_set_up,
			mcp_tear_down, (void *)i };
	return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
