/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A koda-egress-proxy without its host: the real program, with this test at the other end of its
 * wire, in the test's own namespaces, where names resolve to loopback and ports 80 and 443 are
 * free. A policy names its destinations by address: 127.0.0.1:PORT.
 */
#ifndef KODA_TESTS_KIT_PROXY_H
#define KODA_TESTS_KIT_PROXY_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/proxy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "shared/wire/spawn.h"

#define UNUSED __attribute__((unused))
/* Longer than anything here takes; a test that waits this long has failed. */
#define PATIENCE_MS 20000

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #x, strerror(errno));        \
	} while (0)

/* ---- namespaces ---- */

static UNUSED void
rig_write(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		_exit(1);
	}
}

/* A minimal root file system may lack the file: then there is nothing to mount on. */
static UNUSED void
rig_have(const char *name)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], text[2 * PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/etc.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	snprintf(text, sizeof(text), "%s/%s", mkdtemp(dir) == NULL ? "" : dir, name);
	close(open(text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
	snprintf(text, sizeof(text), "lowerdir=%s:/etc", dir);
	if (mount("etc", "/etc", "overlay", MS_RDONLY, text) < 0)
		perror("overlay on /etc");
}

static UNUSED void
rig_cover(const char *path, const char *text)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/cover.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	close(mkstemp(name));
	rig_write(name, text);
	if (access(path, F_OK) < 0)
		rig_have(strrchr(path, '/') + 1);
	if (mount(name, path, NULL, MS_BIND, NULL) < 0) {
		fprintf(stderr, "mount on %s: %s\n", path, strerror(errno));
		_exit(1);
	}
	unlink(name);
}

/* Call it in main() before anything else. hosts is the content of /etc/hosts. */
static UNUSED void
rig_enter(const char *hosts)
{
	const unsigned uid = getuid(), gid = getgid();
	struct ifreq lo = { .ifr_name = "lo" };
	char map[64];
	int fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) < 0) {
		perror("unshare");
		_exit(1);
	}
	rig_write("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	rig_write("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	rig_write("/proc/self/gid_map", map);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &lo) < 0 ||
	    (lo.ifr_flags |= IFF_UP, ioctl(fd, SIOCSIFFLAGS, &lo)) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		perror("namespaces");
		_exit(1);
	}
	close(fd);
	rig_cover("/etc/hosts", hosts);
	/* No server listens there, so lookups fail at once. */
	rig_cover("/etc/resolv.conf", "nameserver 127.0.0.1\n");
}

/* ---- the proxy ---- */

struct rig_options {
	const char *program;                        /* NULL: the real one */
	const char *const *allowed, *const *denied; /* NULL at the end */
	bool any_domain, ask, intercept;
	enum koda_mode mode; /* 0: Auto */
	const char *https_proxy, *http_proxy, *all_proxy, *no_proxy, *ca_bundle;
	const char *grant_host;
	unsigned grant_port;
	/* Send buffer of its socket to the host; 0: the default. */
	int send_buffer;
	/* It is expected not to start: rig->failed has the reason. */
	bool refuse;
};

struct rig_connection {
	uint64_t id, slot, up, down, duration_us;
	int kind, outcome;
	bool open;
	char host[256], rule[64], detail[512];
	unsigned port;
};

struct rig_ask {
	uint64_t question, slot;
	char host[256];
	unsigned port;
	bool withdrawn;
};

#define RIG_REPORTS_MAX 4096

struct rig {
	struct frame_stream fs;
	struct arena arena;
	struct child child;
	bool deaf; /* the test no longer reads its reports */
	uint64_t next_slot, next_sync, synced;
	unsigned landlock_abi;
	char failed[512], *ca;
	struct rig_connection *got; /* in order of arrival */
	size_t n_got, taken;
	struct rig_ask ask[64];
	size_t n_asks, asks_taken;
	uint64_t want_id;
	char want_domain[256];
};

static UNUSED uint64_t
rig_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static UNUSED void
rig_text(char *buf, size_t size, ProtobufCBinaryData b)
{
	must(b.len < size && (b.len == 0 || memchr(b.data, '\0', b.len) == NULL));
	if (b.len > 0)
		memcpy(buf, b.data, b.len);
	buf[b.len] = '\0';
}

static UNUSED void
rig_take_connection(struct rig *r, const Koda__EgressConnection *c)
{
	struct rig_connection *e;

	must(r->n_got < RIG_REPORTS_MAX);
	/* The host treats any other combination as a lie, and drops the proxy for it. */
	must(c->outcome == KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID ||
	    (c->host.len > 0 && c->port > 0));
	e = &r->got[r->n_got++];
	*e = (struct rig_connection){ .id = c->id,
		.slot = c->slot,
		.up = c->up,
		.down = c->down,
		.duration_us = c->duration_us,
		.kind = (int)c->kind,
		.outcome = (int)c->outcome,
		.open = c->open,
		.port = c->port };
	rig_text(e->host, sizeof(e->host), c->host);
	rig_text(e->rule, sizeof(e->rule), c->rule);
	rig_text(e->detail, sizeof(e->detail), c->detail);
}

static UNUSED void
rig_take(struct rig *r, const uint8_t *frame, size_t len)
{
	struct koda_error err = { 0 };
	const Koda__EgressReport *rep;

	arena_reset(&r->arena);
	rep = (const Koda__EgressReport *)message_unpack(&koda__egress_report__descriptor, frame,
	    len, &r->arena, &err);
	if (rep == NULL)
		fail_msg("report: %s", err.message);
	if (rep->ready != NULL && rep->report_case == KODA__EGRESS_REPORT__REPORT_READY) {
		must(rep->ready->protocol == KODA_PROTOCOL_VERSION && rep->ready->seccomp);
		r->landlock_abi = rep->ready->landlock_abi;
		if (rep->ready->has_ca_certificate)
			r->ca = strndup((const char *)rep->ready->ca_certificate.data,
			    rep->ready->ca_certificate.len);
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_FAILED) {
		rig_text(r->failed, sizeof(r->failed), rep->failed->why);
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_CONNECTION) {
		rig_take_connection(r, rep->connection);
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_ASK) {
		struct rig_ask *a = &r->ask[r->n_asks++];

		must(r->n_asks < N_ELEMENTS(r->ask));
		*a = (struct rig_ask){ .question = rep->ask->question,
			.slot = rep->ask->slot,
			.port = rep->ask->port };
		rig_text(a->host, sizeof(a->host), rep->ask->host);
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_WITHDRAW) {
		for (size_t i = 0; i < r->n_asks; i++)
			if (r->ask[i].question == rep->withdraw->question)
				r->ask[i].withdrawn = true;
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_WANT_SOCKET) {
		r->want_id = rep->want_socket->id;
		rig_text(r->want_domain, sizeof(r->want_domain), rep->want_socket->domain);
	} else if (rep->report_case == KODA__EGRESS_REPORT__REPORT_SYNCED) {
		r->synced = rep->synced->number;
	} else {
		fail_msg("a report that is none");
	}
}

/* Handles what has arrived; waits for more until `until`. */
static UNUSED void
rig_turn(struct rig *r, uint64_t until)
{
	struct pollfd pfd = { .fd = r->fs.fd, .events = POLLIN };
	struct koda_error err = { 0 };
	const uint8_t *frame;
	size_t len;
	uint64_t now = rig_ms();
	int got;

	if (now > until)
		fail_msg("the proxy does not say what it should");
	must(poll(&pfd, 1, (int)(until - now)) >= 0);
	if (pfd.revents != 0 && frame_fill(&r->fs, false, &err) < 0)
		fail_msg("the proxy is gone: %s", err.message);
	while ((got = frame_next(&r->fs, &frame, &len, &err)) > 0)
		rig_take(r, frame, len);
	if (got < 0)
		fail_msg("the proxy: %s", err.message);
}

static UNUSED void
rig_send(struct rig *r, Koda__EgressOrder *o, int fd)
{
	struct koda_error err = { 0 };
	ssize_t len = message_queue(&r->fs, &o->base, &err);

	if (len < 0 ||
	    (fd >= 0 ? frame_flush_with_fd(&r->fs, (size_t)len, fd, PATIENCE_MS, &err)
		     : frame_flush(&r->fs, true, &err)) < 0)
		fail_msg("order: %s", err.message);
}

/* Waits until every report that the proxy has made so far, also about the open connections of
 * that slot, has arrived; 0: of no slot. */
static UNUSED void
rig_sync_slot(struct rig *r, uint64_t slot)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSync sync = KODA__EGRESS_SYNC__INIT;
	uint64_t until = rig_ms() + PATIENCE_MS;

	sync.number = ++r->next_sync;
	sync.has_slot = slot != 0;
	sync.slot = slot;
	o.order_case = KODA__EGRESS_ORDER__ORDER_SYNC;
	o.sync = &sync;
	rig_send(r, &o, -1);
	while (r->synced != r->next_sync)
		rig_turn(r, until);
}

static UNUSED void
rig_sync(struct rig *r)
{
	rig_sync_slot(r, 0);
}

static UNUSED ProtobufCBinaryData
rig_bytes(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static UNUSED void
rig_rules(struct policy_list *list, const char *const *rules)
{
	struct koda_error err;

	for (; rules != NULL && *rules != NULL; rules++)
		if (policy_list_add(list, *rules, &err) < 0)
			fail_msg("%s: %s", *rules, err.message);
}

static UNUSED void
rig_start(struct rig *r, const struct rig_options *opt)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressStart start = KODA__EGRESS_START__INIT;
	Koda__EgressUpstream up = KODA__EGRESS_UPSTREAM__INIT;
	Koda__EgressGrant grant = KODA__EGRESS_GRANT__INIT, *grants[] = { &grant };
	uint64_t until = rig_ms() + PATIENCE_MS;
	struct koda_error err = { 0 };
	struct policy policy;
	uint8_t *packed = NULL;
	size_t len = 0;

	policy_init(&policy);
	rig_rules(&policy.list[KODA_ALLOWED_DOMAINS], opt->allowed);
	rig_rules(&policy.list[KODA_DENIED_DOMAINS], opt->denied);
	policy.flag[KODA_ANY_DOMAIN] = opt->any_domain;
	if (opt->ca_bundle != NULL)
		policy.ca_bundle = strdup(opt->ca_bundle);
	if (policy_check(&policy, &err) < 0 || policy_pack(&policy, &packed, &len, &err) < 0)
		fail_msg("policy: %s", err.message);
	policy_done(&policy);
#define set_variable(name)                                                                         \
	if (opt->name != NULL) {                                                                   \
		up.has_##name = true;                                                              \
		up.name = rig_bytes(opt->name);                                                    \
	}
	set_variable(https_proxy) set_variable(http_proxy) set_variable(all_proxy)
	    set_variable(no_proxy)
#undef set_variable
		start.protocol = KODA_PROTOCOL_VERSION;
	start.policy = (ProtobufCBinaryData){ len, packed };
	start.mode = opt->mode == 0 ? KODA__MODE__MODE_AUTO : (Koda__Mode)opt->mode;
	start.upstream = &up;
	start.ask = opt->ask;
	start.intercept = opt->intercept;
	if (opt->grant_host != NULL) {
		grant.host = rig_bytes(opt->grant_host);
		grant.port = opt->grant_port;
		start.grant = grants;
		start.n_grant = 1;
	}
	o.order_case = KODA__EGRESS_ORDER__ORDER_START;
	o.start = &start;
	rig_send(r, &o, -1);
	free(packed);
	r->landlock_abi = UINT_MAX;
	while (r->landlock_abi == UINT_MAX && r->failed[0] == '\0')
		rig_turn(r, until);
	if (!opt->refuse && r->failed[0] != '\0')
		fail_msg("the proxy does not start: %s", r->failed);
}

static UNUSED void
rig_spawn_buffered(struct rig *r, const char *program, int send_buffer)
{
	struct koda_error err = { 0 };
	int pair[2];

	*r = (struct rig){ .child = { .pidfd = -1 }, .next_slot = 1 };
	arena_init(&r->arena);
	r->got = calloc(RIG_REPORTS_MAX, sizeof(*r->got));
	must(r->got != NULL);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(send_buffer == 0 ||
	    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(int)) == 0);
	if (spawn_program(program, (char *[]){ (char[]){ "koda-egress-proxy" }, NULL }, &pair[1], 1,
		STDERR_FILENO, &r->child, &err) < 0)
		fail_msg("%s: %s", program, err.message);
	close(pair[1]);
	frame_init(&r->fs, pair[0]);
}

/* Spawns it, and sends nothing yet. */
static UNUSED void
rig_spawn(struct rig *r, const char *program)
{
	rig_spawn_buffered(r, program, 0);
}

static UNUSED void
rig_up(struct rig *r, const struct rig_options *opt)
{
	rig_spawn_buffered(r, opt->program == NULL ? KODA_TEST_PROXY : opt->program,
	    opt->send_buffer);
	rig_start(r, opt);
}

/* Waits until it is gone, and returns how it ended, for assert_string_equal(). */
static UNUSED const char *
rig_gone(struct rig *r)
{
	static char buf[64];

	must(child_gone(&r->child, PATIENCE_MS));
	return child_end(&r->child, buf, sizeof(buf));
}

/* Closes the host's end, and requires the proxy to end as it should. */
static UNUSED void
rig_down(struct rig *r)
{
	if (r->fs.fd >= 0)
		frame_done(&r->fs);
	rig_gone(r);
	if (r->failed[0] == '\0' && !r->deaf) {
		assert_int_equal(r->child.code, CLD_EXITED);
		assert_int_equal(r->child.status, 0);
	}
	close(r->child.pidfd);
	arena_done(&r->arena);
	free(r->got);
	free(r->ca);
}

/* ---- slots ---- */

/* Opens a slot and returns its number; *ret_port is the port for its clients. */
static UNUSED uint64_t
rig_serve_asking(struct rig *r, Koda__EgressConsentFor consent_for, unsigned *ret_port)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressServe serve = KODA__EGRESS_SERVE__INIT;
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 &&
	    listen(fd, 4096) == 0);
	must(getsockname(fd, (struct sockaddr *)&sin, &len) == 0);
	*ret_port = ntohs(sin.sin_port);
	serve.slot = r->next_slot++;
	serve.consent_for = consent_for;
	o.order_case = KODA__EGRESS_ORDER__ORDER_SERVE;
	o.serve = &serve;
	rig_send(r, &o, fd);
	return serve.slot;
}

static UNUSED uint64_t
rig_serve(struct rig *r, unsigned *ret_port)
{
	return rig_serve_asking(r, KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_UNNAMED, ret_port);
}

static UNUSED void
rig_drop(struct rig *r, uint64_t slot)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressDrop drop = KODA__EGRESS_DROP__INIT;

	drop.slot = slot;
	o.order_case = KODA__EGRESS_ORDER__ORDER_DROP;
	o.drop = &drop;
	rig_send(r, &o, -1);
}

/* ---- what it reports ---- */

/* Returns the next connection, which may still be open; valid until rig_down(). */
static UNUSED const struct rig_connection *
rig_next(struct rig *r)
{
	uint64_t until = rig_ms() + PATIENCE_MS;

	while (r->taken == r->n_got)
		rig_turn(r, until);
	return &r->got[r->taken++];
}

/* Returns the next connection that has ended. */
static UNUSED const struct rig_connection *
rig_next_end(struct rig *r)
{
	const struct rig_connection *c;

	while ((c = rig_next(r))->open)
		;
	return c;
}

/* Waits for the end of that connection, even if others end first: the proxy does not know of a
 * close at once. */
static UNUSED const struct rig_connection *
rig_end_of(struct rig *r, uint64_t id)
{
	const struct rig_connection *c;

	while ((c = rig_next_end(r))->id != id)
		;
	return c;
}

static UNUSED struct rig_ask *
rig_next_ask(struct rig *r)
{
	uint64_t until = rig_ms() + PATIENCE_MS;

	while (r->asks_taken == r->n_asks)
		rig_turn(r, until);
	return &r->ask[r->asks_taken++];
}

static UNUSED void
rig_answer(struct rig *r, const struct rig_ask *a, Koda__EgressConsent consent)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressAnswer answer = KODA__EGRESS_ANSWER__INIT;

	answer.question = a->question;
	answer.consent = consent;
	o.order_case = KODA__EGRESS_ORDER__ORDER_ANSWER;
	o.answer = &answer;
	rig_send(r, &o, -1);
}

/* Handles only what is already in the socket. For a proxy that is stopped. */
static UNUSED void
rig_take_all(struct rig *r)
{
	struct pollfd pfd = { .fd = r->fs.fd, .events = POLLIN };

	while (poll(&pfd, 1, 0) == 1)
		rig_turn(r, rig_ms() + PATIENCE_MS);
}

/* ---- clients and servers ---- */

static UNUSED void
rig_patience(int fd)
{
	const struct timeval tv = { .tv_sec = PATIENCE_MS / 1000 };

	must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0);
}

static UNUSED int
rig_client(unsigned port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0);
	rig_patience(fd);
	must(connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	return fd;
}

/* Starts a server on that address; *port 0: any port. */
static UNUSED int
rig_listen(const char *address, unsigned *port)
{
	static const int on = 1;
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)*port) };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	must(bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(fd, 4096) == 0);
	must(getsockname(fd, (struct sockaddr *)&sin, &len) == 0);
	*port = ntohs(sin.sin_port);
	return fd;
}

static UNUSED int
rig_accept(int listening)
{
	struct pollfd pfd = { .fd = listening, .events = POLLIN };
	int fd;

	must(poll(&pfd, 1, PATIENCE_MS) == 1);
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	must(fd >= 0);
	rig_patience(fd);
	return fd;
}

static UNUSED void
rig_say_bytes(int fd, const void *bytes, size_t n)
{
	must(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static UNUSED void
rig_say(int fd, const char *text)
{
	rig_say_bytes(fd, text, strlen(text));
}

/* Reads exactly n bytes, or fails the test. */
static UNUSED void
rig_hear_bytes(int fd, void *buf, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = recv(fd, (char *)buf + got, n - got, 0);

		if (r <= 0)
			fail_msg("%zu of %zu bytes, then %s", got, n,
			    r == 0 ? "the end" : strerror(errno));
		got += (size_t)r;
	}
}

/* Reads until the end; a reset counts as an end. The buffer is static. */
static UNUSED const char *
rig_hear_all(int fd)
{
	static char buf[1 << 16];
	size_t n = 0;
	ssize_t r;

	while (n < sizeof(buf) - 1 && (r = recv(fd, buf + n, sizeof(buf) - 1 - n, 0)) != 0) {
		if (r < 0 && errno == ECONNRESET)
			break;
		must(r > 0);
		n += (size_t)r;
	}
	buf[n] = '\0';
	return buf;
}

/* Reads a head up to its empty line, and not further. The buffer is static. */
static UNUSED const char *
rig_hear_head(int fd)
{
	static char buf[1 << 15];
	size_t n = 0;

	while (n < 4 || memcmp(buf + n - 4, "\r\n\r\n", 4) != 0) {
		must(n < sizeof(buf) - 1);
		rig_hear_bytes(fd, buf + n++, 1);
	}
	buf[n] = '\0';
	return buf;
}

/* Reports whether nothing has arrived, not even the end. Call it after a later event has been
 * observed elsewhere. */
static UNUSED bool
rig_is_silent(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

#define RIG_OPENED "HTTP/1.1 200 Connection established\r\n\r\n"

/* Returns a client whose CONNECT was accepted. */
static UNUSED int
rig_tunnel(unsigned port, const char *target)
{
	char text[1024];
	int fd = rig_client(port);

	snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
	rig_say(fd, text);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	return fd;
}

#endif
