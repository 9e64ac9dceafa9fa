/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compromised or broken proxy: it speaks the wire protocol to the host, and misbehaves as the
 * file "behaviour" next to it says. It never serves clients, though that is what the host starts
 * it for.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/proxy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "tests/kit/behaviour.h"

static struct frame_stream fs;
static struct arena arena;
static struct koda_error err;

static void __attribute__((noreturn)) hang(void)
{
	for (;;)
		pause();
}

static const Koda__EgressOrder *
next_order(void)
{
	const uint8_t *frame;
	size_t len;
	int r;

	while ((r = frame_next(&fs, &frame, &len, &err)) == 0)
		if (frame_fill(&fs, true, &err) < 0)
			_exit(0);
	arena_reset(&arena);
	if (r < 0)
		_exit(5);
	return (const Koda__EgressOrder *)message_unpack(&koda__egress_order__descriptor, frame,
	    len, &arena, &err);
}

static void
queue_report(const Koda__EgressReport *r)
{
	if (message_queue(&fs, &r->base, &err) < 0)
		_exit(8);
}

static void
send_report(const Koda__EgressReport *r)
{
	queue_report(r);
	if (frame_flush(&fs, true, &err) < 0)
		_exit(0);
}

static void
send_raw(const void *data, size_t len)
{
	if (send(fs.fd, data, len, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void
on_start(const Koda__EgressStart *start)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressReady ready = KODA__EGRESS_READY__INIT;
	Koda__EgressFailed failed = KODA__EGRESS_FAILED__INIT;
	Koda__EgressSynced synced = KODA__EGRESS_SYNCED__INIT;
	uint8_t digest[KODA_DIGEST_BYTES];

	policy_digest(start->policy.data, start->policy.len, digest);
	digest[0] ^= is("other-policy");
	ready.protocol = KODA_PROTOCOL_VERSION + is("other-version");
	ready.policy_digest =
	    (ProtobufCBinaryData){ is("short-digest") ? 31 : sizeof(digest), digest };
	ready.landlock_abi = is("no-landlock") ? 0 : lockdown_landlock_abi();
	ready.seccomp = !is("no-seccomp");
	ready.has_ca_certificate = is("odd-certificate");
	ready.ca_certificate = message_text("-----BEGIN CERTIFICATE-----\nno\n");
	r.report_case = KODA__EGRESS_REPORT__REPORT_READY;
	r.ready = &ready;
	if (is("die-at-start"))
		_exit(7);
	if (is("garbage-start"))
		send_raw("\0\0\0\3abc", 7);
	if (is("report-first")) {
		r.report_case = KODA__EGRESS_REPORT__REPORT_SYNCED;
		r.synced = &synced;
	}
	if (is("cannot")) {
		failed.why = message_text("it is\x1b[2J too late");
		r.report_case = KODA__EGRESS_REPORT__REPORT_FAILED;
		r.failed = &failed;
	}
	send_report(&r);
	if (is("cannot"))
		_exit(1);
	if (is("ready-twice"))
		send_report(&r);
}

static void
send_connection(uint64_t slot)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressConnection c = KODA__EGRESS_CONNECTION__INIT;
	static char line[2048];

	r.report_case = KODA__EGRESS_REPORT__REPORT_CONNECTION;
	r.connection = &c;
	c.id = 1;
	c.slot = is("slot-unknown") ? slot + 1 : is("slot-zero") ? 0 : slot;
	c.kind = KODA__EGRESS_KIND__EGRESS_KIND_CONNECT;
	c.outcome = KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED;
	c.host = message_text("a.example");
	c.port = is("port-zero") ? 0 : is("port-large") ? 65536 : 443;
	c.rule = message_text("r");
	c.detail = message_text("d");
	if (is("kind"))
		c.kind = (Koda__EgressKind)9;
	if (is("outcome"))
		c.outcome = (Koda__EgressOutcome)0;
	if (is("denied-and-open"))
		c.open = true;
	if (is("host-upper"))
		c.host = message_text("A.example");
	if (is("host-empty"))
		c.host = message_text("");
	if (is("host-escape"))
		c.host = message_text("a\x1b[2J");
	if (is("host-nul"))
		c.host = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t) "a\0b" };
	if (is("host-octal"))
		c.host = message_text("0177.0.0.1");
	memset(line, 'x', sizeof(line) - 1);
	if (is("host-long"))
		c.host = message_text(line);
	if (is("rule-long"))
		c.rule = message_text(line);
	if (is("detail-long"))
		c.detail = message_text(line);
	if (is("detail-nul"))
		c.detail = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t) "a\0b" };
	if (is("escape-codes")) {
		c.rule = message_text("\x1b[2J");
		c.detail = message_text("\xc2\x9b"
					"1m\xe2\x80\xae");
	}
	send_report(&r);
}

static void
send_ask(uint64_t slot)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressAsk ask = KODA__EGRESS_ASK__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_ASK;
	r.ask = &ask;
	ask.question = is("ask-zero") ? 0 : 5;
	ask.slot = slot;
	ask.kind = KODA__EGRESS_KIND__EGRESS_KIND_CONNECT;
	ask.host = message_text(is("ask-address") ? "127.0.0.1" : "a.example");
	ask.port = is("ask-port") ? 0 : 443;
	/* Both questions go out together, before the host can have answered either. */
	queue_report(&r);
	if (is("ask-twice"))
		ask.host = message_text("b.example");
	if (is("ask-same"))
		ask.question++;
	send_report(&r);
}

static void
send_other(void)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressWantSocket want = KODA__EGRESS_WANT_SOCKET__INIT;
	Koda__EgressSynced synced = KODA__EGRESS_SYNCED__INIT;

	if (is("want-socket")) {
		want.id = 1;
		want.domain = message_text("a.example");
		r.report_case = KODA__EGRESS_REPORT__REPORT_WANT_SOCKET;
		r.want_socket = &want;
	} else if (is("synced")) {
		synced.number = 1;
		r.report_case = KODA__EGRESS_REPORT__REPORT_SYNCED;
		r.synced = &synced;
	}
	send_report(&r);
}

static void
send_descriptor(void)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressWithdraw withdraw = KODA__EGRESS_WITHDRAW__INIT;
	uint8_t buf[64] = { 0 };
	struct iovec iov = { buf, 0 };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = 0;

	withdraw.question = 1;
	r.report_case = KODA__EGRESS_REPORT__REPORT_WITHDRAW;
	r.withdraw = &withdraw;
	buf[3] = (uint8_t)koda__egress_report__pack(&r, buf + 4);
	iov.iov_len = 4u + buf[3];
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(fs.fd, &msg, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void
misbehave(uint64_t slot)
{
	if (is("die"))
		_exit(9);
	else if (is("crash"))
		abort();
	else if (is("silent"))
		return;
	else if (is("quit")) {
		close(fs.fd);
		hang();
	} else if (is("garbage"))
		send_raw("\0\0\0\10\xff\xff\xff\xff\xff\xff\xff\xff", 12);
	else if (is("over-long"))
		send_raw("\xff\xff\xff\xff....", 8);
	else if (is("zero-length"))
		send_raw("\0\0\0\0", 4);
	else if (is("half-frame")) {
		send_raw("\0\0\1\0half", 8);
		_exit(0);
	} else if (is("stray-descriptor"))
		send_descriptor();
	else if (is("flood"))
		for (;;)
			send_connection(slot);
	else if (strncmp(behaviour, "ask", 3) == 0)
		send_ask(slot);
	else if (is("want-socket") || is("synced"))
		send_other();
	else
		send_connection(slot);
}

int
main(void)
{
	read_behaviour();
	if (is("silent-start"))
		hang();
	frame_init(&fs, 3);
	arena_init(&arena);
	for (;;) {
		const Koda__EgressOrder *order = next_order();

		if (order == NULL)
			_exit(6);
		if (order->order_case == KODA__EGRESS_ORDER__ORDER_START) {
			on_start(order->start);
		} else if (order->order_case == KODA__EGRESS_ORDER__ORDER_SERVE) {
			close(frame_take_fd(&fs));
			misbehave(order->serve->slot);
		}
	}
}
