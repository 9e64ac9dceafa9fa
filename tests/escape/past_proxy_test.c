/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways past the egress proxy, and ways to turn the host against itself: commands that replace
 * places of the policy, callbacks that end what they are called for, forks, shortages, and how far
 * an answer of the user reaches.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/kit/hosting.h"
#include "tests/kit/leaks.h"

#define CONNECT KODA_TEST_CONNECT " "

/* ---- services of the host: each answers with its name ---- */

struct service {
	pid_t pid;
	unsigned port;
};

static void
service_start(struct service *s, const char *path, const char *name)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(path != NULL ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (path != NULL) {
		assert_true(strlen(path) < sizeof(sun.sun_path));
		strcpy(sun.sun_path, path);
		assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	} else {
		assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
		s->port = ntohs(in.sin_port);
	}
	assert_int_equal(listen(fd, 64), 0);
	fflush(NULL);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			int client = accept(fd, NULL, NULL);

			if (client < 0 || send(client, name, strlen(name), MSG_NOSIGNAL) < 0)
				_exit(1);
			close(client);
		}
	}
	close(fd);
}

static void
service_stop(struct service *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
}

/* ---- sessions ---- */

static char said[16][KODA_MESSAGE_MAX];
static size_t n_said;

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind != KODA_EVENT_SPAWN)
		snprintf(said[n_said++ % N_ELEMENTS(said)], KODA_MESSAGE_MAX, "%s", text);
}

static void
open_with(struct fixture *f, struct koda_policy *p)
{
	struct koda_error err;

	n_said = 0;
	memset(said, 0, sizeof(said));
	if (p != NULL && koda_policy_freeze(p, &err) < 0)
		fail_msg("%s", err.message);
	f->options.commands = true;
	f->options.event = on_event;
	f->options.policy = p;
	fixture_open(f);
	koda_policy_free(p);
	f->slot = fixture_acquire(f);
}

static struct koda_policy *
policy_with(const struct fixture *f, const char *rule)
{
	struct koda_error err;
	struct koda_policy *p = koda_policy_for_agent(f->options.mode, f->root, &err);

	if (p == NULL || (rule != NULL && koda_policy_add(p, KODA_ALLOWED_DOMAINS, rule, &err) < 0))
		fail_msg("%s", err.message);
	return p;
}

/* Returns the first 16 KiB of what the command prints, standard error last, and stores the
 * status. The buffer is static. */
static const char *
output_of(struct koda_slot *slot, const char *shell, int *ret_status)
{
	static char text[65536];
	const struct koda_command_options o = { .shell = shell, .approved = true };
	struct koda_command_result r;
	struct koda_error err;
	size_t n;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	n = (size_t)snprintf(text, sizeof(text), "%.*s", (int)r.out.head_len,
	    r.out.head_len == 0 ? "" : (const char *)r.out.head);
	if (n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, "%.*s", (int)r.err.head_len,
		    r.err.head_len == 0 ? "" : (const char *)r.err.head);
	if (ret_status != NULL)
		*ret_status = r.status;
	koda_command_result_done(&r);
	return text;
}

static void
expect(struct koda_slot *slot, const char *shell, const char *want)
{
	const char *got = output_of(slot, shell, NULL);

	if (strcmp(got, want) != 0)
		fail_msg("%s: '%s'", shell, got);
}

static const char *
connect_to(const char *host, unsigned port)
{
	static char text[PATH_MAX];

	snprintf(text, sizeof(text), CONNECT "%s %u </dev/null", host, port);
	return text;
}

/* ---- places that the policy names, and commands may change ---- */

/* The host connects to these sockets for the proxy: it must not follow a name that a command has
 * redirected. */
static void
socket_becomes_a_link(void **state)
{
	static const char *const tricks[] = {
		"rm below/app.sock && ln -s ../../service.sock below/app.sock",
		"mv below gone && mkdir -p x && ln -s ../linked below",
		"rm -rf below && mkdir below && ln -s \"$PWD/../service.sock\" below/app.sock",
	};

	for (size_t i = 0; i < N_ELEMENTS(tricks); i++) {
		char app[PATH_MAX], other[PATH_MAX], linked[PATH_MAX];
		struct service ours, theirs, third;
		struct koda_policy *p;
		struct koda_error err;
		struct fixture f;
		const char *text;
		int status;

		fixture_prepare(&f, KODA_AUTO);
		assert_int_equal(mkdir(at(&f, "below"), 0755), 0);
		snprintf(app, sizeof(app), "%s/below/app.sock", f.root);
		snprintf(other, sizeof(other), "%s/service.sock", f.dir);
		snprintf(linked, sizeof(linked), "%s/linked", f.dir);
		assert_int_equal(mkdir(linked, 0755), 0);
		snprintf(linked, sizeof(linked), "%s/linked/app.sock", f.dir);
		service_start(&ours, app, "the policy's");
		service_start(&theirs, other, "another's");
		service_start(&third, linked, "another's");
		p = policy_with(&f, "mapped.example:4242");
		assert_int_equal(koda_policy_set_mitm(p, "/etc/passwd", &err), 0);
		assert_int_equal(koda_policy_add_mitm_socket(p, "mapped.example", app, &err), 0);
		open_with(&f, p);
		expect(f.slot, connect_to("mapped.example", 4242), "the policy's");
		output_of(f.slot, tricks[i], &status);
		assert_int_equal(status, 0);
		text = output_of(f.slot, connect_to("mapped.example", 4242), &status);
		assert_int_equal(status, 1);
		assert_null(strstr(text, "another's"));
		fixture_end(&f);
		service_stop(&ours);
		service_stop(&theirs);
		service_stop(&third);
	}
}

/* A link that the user made keeps the target that it had when the policy was made. */
static void
socket_behind_a_link(void **state)
{
	char path[PATH_MAX], link[PATH_MAX];
	struct service ours;
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/real.sock", f.dir);
	snprintf(link, sizeof(link), "%s/link.sock", f.dir);
	assert_int_equal(symlink(path, link), 0);
	service_start(&ours, path, "the policy's");
	p = policy_with(&f, "mapped.example:4242");
	assert_int_equal(koda_policy_set_mitm(p, "/etc/passwd", &err), 0);
	assert_int_equal(koda_policy_add_mitm_socket(p, "mapped.example", link, &err), 0);
	open_with(&f, p);
	expect(f.slot, connect_to("mapped.example", 4242), "the policy's");
	fixture_end(&f);
	service_stop(&ours);
}

/* The host copies the bundle to where commands read it: it must copy no other file, wherever the
 * name leads by then. */
static void
bundle_becomes_a_link(void **state)
{
	static const char *const tricks[] = {
		"ln -sf ../secret ca.pem",
		"ln -sf \"$PWD/../secret\" ca.pem",
	};

	for (size_t i = 0; i < N_ELEMENTS(tricks); i++) {
		struct koda_policy *p, *child;
		struct koda_slot *later;
		struct koda_error err;
		struct fixture f;
		char shell[3 * PATH_MAX];

		fixture_prepare(&f, KODA_AUTO);
		/* Client certificates are often kept like this, with the key in the same file. */
		snprintf(shell, sizeof(shell),
		    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
		    "-subj /CN=t -out '%s/ca.pem' -keyout '%s/key' 2>/dev/null && "
		    "cat '%s/ca.pem' '%s/key' >'%s/secret'",
		    f.root, f.dir, f.root, f.dir, f.dir);
		assert_int_equal(system(shell), 0);
		p = policy_with(&f, NULL);
		assert_int_equal(koda_policy_set_mitm(p, at(&f, "ca.pem"), &err), 0);
		f.options.intercept = true;
		open_with(&f, p);
		expect(f.slot, "grep -c \"PRIVATE KEY\" $SSL_CERT_FILE", "0\n");
		output_of(f.slot, tricks[i], NULL);
		/* Another policy has another proxy: the host reads the bundle again. */
		child = koda_policy_new();
		assert_int_equal(koda_policy_add(child, KODA_DENIED_DOMAINS, "evil.example", &err),
		    0);
		assert_int_equal(koda_policy_freeze(child, &err), 0);
		later = koda_slot_acquire(f.ses, child, &err);
		koda_policy_free(child);
		if (later != NULL)
			expect(later, "grep -c \"PRIVATE KEY\" $SSL_CERT_FILE", "0\n");
		fixture_end(&f);
	}
}

static void
key_in_the_bundle(void **state)
{
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;
	char shell[3 * PATH_MAX], path[PATH_MAX];

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/client.pem", f.dir);
	snprintf(shell, sizeof(shell),
	    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
	    "-subj /CN=t -out '%s' -keyout '%s/key' 2>/dev/null && cat '%s/key' >>'%s'",
	    path, f.dir, f.dir, path);
	assert_int_equal(system(shell), 0);
	p = policy_with(&f, NULL);
	assert_int_equal(koda_policy_set_mitm(p, path, &err), 0);
	f.options.intercept = true;
	open_with(&f, p);
	expect(f.slot, "grep -c \"PRIVATE KEY\" $SSL_CERT_FILE", "0\n");
	expect(f.slot, "head -c 27 $SSL_CERT_FILE", "-----BEGIN CERTIFICATE-----");
	fixture_end(&f);
}

/* ---- callbacks that end what they are called for ---- */

static struct fixture *looked_at;
static bool closes;
static size_t n_looks;

static int
end_it(void)
{
	n_looks++;
	if (closes)
		koda_session_close(looked_at->ses);
	else
		koda_slot_release(looked_at->slot);
	return 0;
}

static int
end_at_connection(void *data, const struct koda_connection *c)
{
	end_it();
	return strcmp(c->host, "evil.example") != 0;
}

static int
end_at_violation(void *data, const struct koda_violation *v)
{
	end_it();
	return strcmp(v->target, "evil.example:80") != 0;
}

static void
ended_while_looked_at(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct fixture f;

		fixture_prepare(&f, KODA_AUTO);
		open_with(&f, NULL);
		output_of(f.slot,
		    "for i in 1 2 3; do curl -s -o /dev/null http://evil.example/; done", NULL);
		looked_at = &f;
		closes = i % 2 == 1;
		n_looks = 0;
		if (i < 2)
			assert_int_equal(koda_slot_connections(f.slot, end_at_connection, NULL), 0);
		else
			assert_int_equal(koda_slot_violations(f.slot, end_at_violation, NULL), 0);
		assert_int_equal(n_looks, 3);
		if (closes)
			f.ses = NULL;
		fixture_end(&f);
	}
}

/* ---- what an answer covers ---- */

static size_t n_asked;
static enum koda_scope answer;
static void (*then)(void); /* before the callback returns */

static void
on_question(void *data, const struct koda_question *q)
{
	n_asked++;
	koda_approval_answer_scope(q->approval, answer);
	if (then != NULL)
		then();
}

static void
open_asking(struct fixture *f, const struct service *s)
{
	char rule[32];

	fixture_prepare(f, KODA_SAFE);
	f->options.approve = on_question;
	n_asked = 0;
	answer = KODA_SCOPE_SESSION;
	then = NULL;
	looked_at = f;
	snprintf(rule, sizeof(rule), "127.0.0.1:%u", s->port);
	open_with(f, policy_with(f, rule));
}

/* An agent in Plan, below one that asks: it has no network, and the user is not asked for one. */
static void
who_may_do_nothing_is_not_asked_for(void **state)
{
	struct koda_policy *plan, *quiet;
	struct koda_slot *planning, *asking;
	struct service s;
	struct koda_error err;
	struct fixture f;
	int status;

	service_start(&s, NULL, "reached");
	open_asking(&f, &s);
	plan = koda_policy_for_agent(KODA_PLAN, f.root, &err);
	quiet = koda_policy_new();
	assert_int_equal(koda_policy_set_trust(quiet, KODA_TRUST_AUTO, &err), 0);
	assert_int_equal(koda_policy_freeze(plan, &err), 0);
	assert_int_equal(koda_policy_freeze(quiet, &err), 0);
	planning = koda_slot_acquire(f.ses, plan, &err);
	asking = koda_slot_acquire(f.ses, quiet, &err);
	assert_non_null(planning);
	assert_non_null(asking);
	for (int i = 0; i < 2; i++) {
		output_of(planning, connect_to("localhost", s.port), &status);
		assert_int_equal(status, 1);
		assert_int_equal(n_asked, i);
		expect(asking, connect_to("localhost", s.port), "reached");
		assert_int_equal(n_asked, 1);
	}
	koda_policy_free(plan);
	koda_policy_free(quiet);
	fixture_end(&f);
	service_stop(&s);
}

static void
close_session(void)
{
	koda_session_close(looked_at->ses);
}

static void
release_slot(void)
{
	koda_slot_release(looked_at->slot);
}

static void
look_at_connections(void)
{
	koda_slot_connections(looked_at->slot, end_at_connection, NULL);
}

/* The session or the slot ends while its command waits for the user's answer. */
static void
ended_while_asked(void **state)
{
	static void (*const thens[])(void) = { close_session, release_slot, look_at_connections };

	for (size_t i = 0; i < 2 * N_ELEMENTS(thens); i++) {
		struct koda_command_options o = { .approved = true };
		struct koda_command *c;
		struct koda_error err;
		struct service s;
		struct fixture f;

		service_start(&s, NULL, "reached");
		open_asking(&f, &s);
		answer = i % 2 == 0 ? KODA_SCOPE_SESSION : KODA_SCOPE_NO;
		then = thens[i / 2];
		closes = then == look_at_connections;
		output_of(f.slot, "curl -s -o /dev/null http://198.51.100.1/", NULL);
		o.shell = connect_to("localhost", s.port);
		c = koda_command_start(f.slot, &o, NULL, NULL, &err);
		assert_non_null(c);
		for (uint64_t end = clock_ms() + PATIENCE_MS; n_asked == 0 && clock_ms() < end;)
			assert_true(koda_session_dispatch(f.ses, 200, &err) >= 0);
		assert_int_equal(n_asked, 1);
		koda_command_free(c);
		if (then != release_slot)
			f.ses = NULL;
		fixture_end(&f);
		service_stop(&s);
	}
}

/* ---- shortages, secrets ---- */

static int
first_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* Descriptors run out at each step of a proxy's start: it starts once there are enough again. */
static void
no_descriptor_is_left(void **state)
{
	struct rlimit whole, few;
	struct koda_policy *p;
	struct koda_error err;
	struct service s;
	struct fixture f;
	char path[PATH_MAX];

	fixture_prepare(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/s", f.dir);
	service_start(&s, path, "the policy's");
	p = policy_with(&f, "mapped.example:4242");
	assert_int_equal(koda_policy_set_mitm(p, "/etc/passwd", &err), 0);
	assert_int_equal(koda_policy_add_mitm_socket(p, "mapped.example", path, &err), 0);
	open_with(&f, p);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
	for (int more = 0; more < 24; more++) {
		const struct koda_command_options o = { .shell = connect_to("mapped.example", 4242),
			.approved = true };
		/* The command starts while there are enough, so that the shortage hits the
		 * proxy. */
		struct koda_command *c = koda_command_start(f.slot, &o, NULL, NULL, &err);
		struct koda_command_result r;

		assert_non_null(c);
		few = whole;
		few.rlim_cur = (rlim_t)first_free() + (rlim_t)more;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		for (int turn = 0; turn < 3; turn++)
			assert_true(koda_session_dispatch(f.ses, 20, &err) >= 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
		assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
		assert_int_equal(koda_command_result(c, &r, &err), 0);
		koda_command_result_done(&r);
		koda_command_free(c);
		expect(f.slot, connect_to("mapped.example", 4242), "the policy's");
		if (more % 2 == 0) { /* the next one without a proxy again */
			koda_slot_release(f.slot);
			f.slot = fixture_acquire(&f);
		}
	}
	fixture_end(&f);
	service_stop(&s);
}

static int
tells_no_secret(void *data, const struct koda_connection *c)
{
	return strstr(c->detail, "hunter2") != NULL || strstr(c->rule, "hunter2") != NULL;
}

static int
violates_no_secret(void *data, const struct koda_violation *v)
{
	return strstr(v->detail, "hunter2") != NULL || strstr(v->target, "hunter2") != NULL;
}

/* The credentials for the user's own upstream proxy never leak: not into text, nor to where a
 * command could look. */
static void
credentials_stay_with_the_proxy(void **state)
{
	static const char *const looks[] = { "env", "cat /proc/[0-9]*/environ",
		"cat /proc/[0-9]*/cmdline", "curl -sSv http://some.github.com/ 2>&1",
		"curl -sSvk https://github.com/ 2>&1", (CONNECT "github.com 443 </dev/null 2>&1"),
		"cat /proc/self/mountinfo" };
	struct service gone;
	char value[128];
	struct fixture f;

	service_start(&gone, NULL, "HTTP/1.1 407 no\r\n\r\n");
	snprintf(value, sizeof(value), "http://user:hunter2@127.0.0.1:%u", gone.port);
	fixture_prepare(&f, KODA_AUTO);
	setenv("HTTPS_PROXY", value, 1);
	setenv("http_proxy", value, 1);
	open_with(&f, NULL);
	for (size_t i = 0; i < N_ELEMENTS(looks); i++) {
		const char *text = output_of(f.slot, looks[i], NULL);

		assert_null(strstr(text, "hunter2"));
		assert_null(strstr(text, "dXNlcjpodW50ZXIy")); /* encoded for Basic */
	}
	assert_int_equal(koda_slot_connections(f.slot, tells_no_secret, NULL), 0);
	assert_int_equal(koda_slot_violations(f.slot, violates_no_secret, NULL), 0);
	unsetenv("HTTPS_PROXY");
	unsetenv("http_proxy");
	for (size_t i = 0; i < N_ELEMENTS(said); i++)
		assert_null(strstr(said[i], "hunter2"));
	fixture_end(&f);
	service_stop(&gone);
}

/* ---- the host is gone ---- */

/* Counts the children of this process. */
static size_t
children(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		char path[300], text[512], *p;
		cleanup_close int fd = -1;
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 ||
		    (len = read(fd, text, sizeof(text) - 1)) <= 0)
			continue;
		text[len] = '\0';
		p = strrchr(text, ')');
		n += p != NULL && atoi(p + 4) == getpid();
	}
	closedir(dir);
	return n;
}

/* An embedder forks without an exec, so that its child has the host's end of each socket. Then
 * it is killed. */
static void __attribute__((noreturn)) be_killed(struct fixture *f, int tell)
{
	pid_t pid;

	f->options.intercept = true;
	open_with(f, NULL);
	output_of(f->slot, "curl -s -o /dev/null http://evil.example/", NULL);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(PATIENCE_MS / 1000 + 10); /* bounds its life, whatever happens to the test */
		for (;;)
			pause();
	}
	if (write(tell, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	raise(SIGKILL);
	_exit(1);
}

static void
host_is_killed_and_its_fork_lives(void **state)
{
	pid_t host, forked = -1, gone;
	struct fixture f;
	int fds[2];

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	fixture_prepare(&f, KODA_AUTO);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fflush(NULL);
	host = fork();
	if (host == 0)
		be_killed(&f, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &forked, sizeof(forked)), sizeof(forked));
	close(fds[0]);
	assert_int_equal(waitpid(host, NULL, 0), host);
	/* All of its processes are now children of the test, and end, except for the fork. */
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end;) {
		while ((gone = waitpid(-1, NULL, WNOHANG)) > 0)
			assert_int_not_equal(gone, forked);
		if (children() == 1)
			break;
		blink();
	}
	assert_int_equal(children(), 1);
	kill(forked, SIGKILL);
	assert_int_equal(waitpid(forked, NULL, 0), forked);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	/* Files outlive a killed host: the next host removes them, and its own at its end. */
	assert_int_equal(count_certificates(), 1);
	f.options.intercept = true;
	open_with(&f, NULL);
	assert_int_equal(count_certificates(), 1);
	koda_session_close(f.ses);
	assert_int_equal(count_certificates(), 0);
	f.ses = NULL;
	fixture_end(&f);
}

int
main(void)
{
	static const char *const foreign[] = { "HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
		"http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy" };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(socket_becomes_a_link),
		cmocka_unit_test(socket_behind_a_link),
		cmocka_unit_test(bundle_becomes_a_link),
		cmocka_unit_test(key_in_the_bundle),
		cmocka_unit_test(ended_while_looked_at),
		cmocka_unit_test(who_may_do_nothing_is_not_asked_for),
		cmocka_unit_test(ended_while_asked),
		cmocka_unit_test(no_descriptor_is_left),
		cmocka_unit_test(credentials_stay_with_the_proxy),
		cmocka_unit_test(host_is_killed_and_its_fork_lives),
	};

	for (size_t i = 0; i < N_ELEMENTS(foreign); i++)
		unsetenv(foreign[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
