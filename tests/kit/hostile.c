/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compromised or broken worker: it speaks the wire protocol, and misbehaves as the file
 * "behaviour" next to it says. It answers pings, so that the host hands out a slot before the
 * misbehaviour starts.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"
#include "tests/kit/behaviour.h"

static struct frame_stream fs;
static struct koda_error err;
static struct record *record;

static ProtobufCBinaryData
text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static void
send_reply(const Koda__Reply *rep)
{
	if (message_queue(&fs, &rep->base, &err) < 0 || frame_flush(&fs, true, &err) < 0)
		_exit(0);
}

static void
send_raw(const void *data, size_t len)
{
	if (send(fs.fd, data, len, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void
send_with_fds(const void *data, size_t len, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	if (sendmsg(fs.fd, &msg, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void
send_reply_with_fds(const Koda__Reply *rep, const int *fds, size_t n)
{
	uint8_t buf[4096];
	size_t len = koda__reply__pack(rep, buf + 4);

	buf[0] = buf[1] = 0;
	buf[2] = (uint8_t)(len >> 8);
	buf[3] = (uint8_t)len;
	send_with_fds(buf, len + 4, fds, n);
}

static void __attribute__((noreturn)) hang(void)
{
	for (;;)
		pause();
}

static void
on_seal(const Koda__Request *req)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Ready ready = KODA__READY__INIT;
	Koda__Enforcement enforcement = KODA__ENFORCEMENT__INIT;
	Koda__Error error = KODA__ERROR__INIT;
	uint8_t digest[KODA_DIGEST_BYTES];

	if (is("die-at-start"))
		_exit(7);
	if (is("silent-start"))
		hang();
	if (is("garbage-start"))
		send_raw("\0\0\0\3abc", 7);
	policy_digest(req->seal->policy.data, req->seal->policy.len, digest);
	digest[0] ^= is("other-policy");
	enforcement.landlock_abi = is("weak") ? 1 : lockdown_landlock_abi();
	enforcement.seccomp = !is("no-seccomp");
	ready.protocol = KODA_PROTOCOL_VERSION + is("other-version");
	ready.policy_digest =
	    (ProtobufCBinaryData){ is("short-digest") ? 31 : sizeof(digest), digest };
	ready.enforcement = &enforcement;
	rep.id = req->id + is("wrong-first-id");
	rep.result_case = KODA__REPLY__RESULT_READY;
	rep.ready = &ready;
	if (is("refuse-seal")) {
		error.code = KODA__ERROR_CODE__UNSUPPORTED;
		error.message = text("no\x1b[2Jthank you");
		rep.result_case = KODA__REPLY__RESULT_ERROR;
		rep.error = &error;
	}
	send_reply(&rep);
	if (is("ready-twice"))
		send_reply(&rep);
}

static void
send_read(uint64_t id, const char *path, int fd, uint64_t size)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__ReadReply read = KODA__READ_REPLY__INIT;

	rep.id = id;
	rep.result_case = KODA__REPLY__RESULT_READ;
	rep.read = &read;
	read.path = text(path);
	read.size = size;
	read.has_descriptor = read.descriptor = true;
	if (fd >= 0)
		send_reply_with_fds(&rep, &fd, 1);
	else
		send_reply(&rep);
}

static int
odd_descriptor(void)
{
	int pair[2];

	if (is("fd-pipe"))
		return pipe(pair) == 0 ? pair[0] : -1;
	if (is("fd-directory"))
		return open("/", O_RDONLY | O_DIRECTORY);
	if (is("fd-writable"))
		return open("/tmp", O_RDWR | O_TMPFILE, 0600);
	if (is("fd-path"))
		return open("/etc/passwd", O_PATH);
	if (is("fd-proc"))
		return open("/proc/self/maps", O_RDONLY);
	if (is("fd-device"))
		return open("/dev/zero", O_RDONLY);
	if (is("fd-socket"))
		return socket(AF_UNIX, SOCK_STREAM, 0);
	return -1;
}

/* Sends page after page of a directory that never ends; every byte is well-formed. */
static void
send_page(uint64_t id)
{
	static unsigned long long n;
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__ListReply list = KODA__LIST_REPLY__INIT;
	Koda__Entry entry = KODA__ENTRY__INIT, *entries[] = { &entry };
	char name[32];

	if (is("list-then-lie") && n > 0)
		strcpy(behaviour, "list-slash");
	snprintf(name, sizeof(name), "%020llu", n++);
	rep.id = id;
	rep.result_case = KODA__REPLY__RESULT_LIST;
	rep.list = &list;
	list.path = text("/x");
	list.has_more = list.more = true;
	if (!is("list-empty-page")) {
		entry.name = text(is("list-slash") ? "a/b" : name);
		entry.type = KODA__FILE_TYPE__FILE_REGULAR;
		list.n_entry = 1;
		list.entry = entries;
	}
	send_reply(&rep);
}

static void
send_content(uint64_t id, bool more)
{
	static uint8_t content[1000];
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__ReadReply read = KODA__READ_REPLY__INIT;

	rep.id = id;
	rep.result_case = KODA__REPLY__RESULT_READ;
	rep.read = &read;
	read.path = text(is("relative-path") ? "etc" : "/etc");
	if (is("nul-in-path"))
		read.path = (ProtobufCBinaryData){ 4, (uint8_t *)(uintptr_t) "/a\0b" };
	read.size = 1u << 30;
	read.has_content = true;
	read.content = (ProtobufCBinaryData){ sizeof(content), content };
	read.has_more = read.more = more;
	if (is("half-true")) {
		read.has_digest = true;
		read.digest = text("too short");
	}
	send_reply(&rep);
}

/* Sends well-formed search results for as long as the host takes them. */
static void
send_found(uint64_t id)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Found found = KODA__FOUND__INIT;
	Koda__FoundItem item = KODA__FOUND_ITEM__INIT, *items[] = { &item };
	Koda__Searched searched = KODA__SEARCHED__INIT;
	bool once = is("found-and-die") || is("found-miscounted") || is("found-with-descriptor") ||
	    is("found-elsewhere");

	item.kind =
	    is("found-trouble") ? KODA__FOUND_KIND__FOUND_TROUBLE : KODA__FOUND_KIND__FOUND_FILE;
	item.has_place = item.has_path = true;
	item.path = text(is("found-elsewhere") ? "../a" : "a");
	item.has_text = is("found-trouble");
	item.text = text("\x1b[2J");
	rep.id = id;
	rep.result_case = KODA__REPLY__RESULT_FOUND;
	rep.found = &found;
	if (!is("found-nothing")) {
		found.item = items;
		found.n_item = 1;
	}
	if (is("found-with-descriptor"))
		send_reply_with_fds(&rep, &fs.fd, 1);
	else
		send_reply(&rep);
	if (!once)
		for (;;)
			send_reply(&rep);
	if (is("found-and-die"))
		_exit(0);
	rep.result_case = KODA__REPLY__RESULT_SEARCHED;
	rep.searched = &searched;
	searched.found = 2;
	send_reply(&rep);
}

static void
send_prepared(uint64_t id)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Prepared prepared = KODA__PREPARED__INIT;
	Koda__Outcome outcome = KODA__OUTCOME__INIT;

	rep.id = id;
	rep.result_case = KODA__REPLY__RESULT_PREPARED;
	rep.prepared = &prepared;
	outcome.path = text("/a");
	prepared.place = text("/a");
	prepared.has_temp = true;
	prepared.temp = text(is("prepared-slash") ? "../b" : "b");
	prepared.outcome = &outcome;
	send_reply(&rep);
}

static void
misbehave(const Koda__Request *req)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Committed committed = KODA__COMMITTED__INIT;
	Koda__Verdict verdict = KODA__VERDICT__INIT;
	Koda__Pong pong = KODA__PONG__INIT;
	Koda__Outcome outcome = KODA__OUTCOME__INIT;
	Koda__Error error = KODA__ERROR__INIT;
	int ten[10];

	rep.id = req->id;
	if (is("die"))
		_exit(0);
	if (is("crash"))
		abort();
	if (is("silent"))
		hang();
	/* The socket is closed, but the process lives on. */
	if (is("stays")) {
		close(fs.fd);
		hang();
	}
	if (is("stopped"))
		kill(getpid(), SIGSTOP);
	if (is("wrong-id") || is("wrong-kind")) {
		rep.id += is("wrong-id") ? 1000 : 0;
		rep.result_case = KODA__REPLY__RESULT_PONG;
		rep.pong = &pong;
		send_reply(&rep);
	} else if (is("empty-reply")) {
		send_reply(&rep);
	} else if (is("garbage")) {
		send_raw("\0\0\0\10\xff\xff\xff\xff\xff\xff\xff\xff", 12);
	} else if (is("unknown-field")) {
		send_raw("\0\0\0\5\x08\x01\xf8\x01\x01", 9);
	} else if (is("over-long")) {
		send_raw("\xff\xff\xff\xff....", 8);
	} else if (is("zero-length")) {
		send_raw("\0\0\0\0", 4);
	} else if (is("half-frame")) {
		send_raw("\0\0\1\0half", 8);
		_exit(0);
	} else if (is("half-frame-silent")) {
		send_raw("\0\0\1\0half", 8);
		hang();
	} else if (is("stray-descriptor")) {
		rep.result_case = KODA__REPLY__RESULT_PONG;
		rep.pong = &pong;
		send_reply_with_fds(&rep, &fs.fd, 1);
	} else if (is("ten-descriptors")) {
		for (int i = 0; i < 10; i++)
			ten[i] = fs.fd;
		rep.result_case = KODA__REPLY__RESULT_PONG;
		rep.pong = &pong;
		send_reply_with_fds(&rep, ten, 10);
	} else if (is("prepared") || is("prepared-slash")) {
		send_prepared(req->id);
		hang();
	} else if (is("prepared-for-ever")) {
		for (;;)
			send_prepared(req->id);
	} else if (is("prepared-and-die")) {
		send_prepared(req->id);
		_exit(0);
	} else if (is("committed")) {
		rep.result_case = KODA__REPLY__RESULT_COMMITTED;
		rep.committed = &committed;
		send_reply(&rep);
		hang();
	} else if (is("verdict")) {
		rep.result_case = KODA__REPLY__RESULT_VERDICT;
		rep.verdict = &verdict;
		verdict.happened = KODA__HAPPENED__HAPPENED;
		send_reply(&rep);
		hang();
	} else if (is("outcome-to")) {
		rep.result_case = KODA__REPLY__RESULT_OUTCOME;
		rep.outcome = &outcome;
		outcome.path = text("/a");
		outcome.has_to = true;
		outcome.to = text("/b");
		send_reply(&rep);
	} else if (is("bare-preview")) {
		rep.result_case = KODA__REPLY__RESULT_OUTCOME;
		rep.outcome = &outcome;
		outcome.path = text("/a");
		outcome.has_type = true;
		outcome.type = KODA__FILE_TYPE__FILE_REGULAR;
		send_reply(&rep);
	} else if (is("not-understood")) {
		rep.id = 0;
		rep.result_case = KODA__REPLY__RESULT_ERROR;
		rep.error = &error;
		error.code = KODA__ERROR_CODE__PROTOCOL;
		error.message = text("what?");
		send_reply(&rep);
		_exit(1);
	} else if (is("escape-codes")) {
		rep.result_case = KODA__REPLY__RESULT_ERROR;
		rep.error = &error;
		error.code = KODA__ERROR_CODE__IO;
		error.message = text("\x1b[2J\xc2\x9b"
				     "1m\xe2\x80\xae");
		error.has_path = true;
		error.path = text("/a\nb");
		send_reply(&rep);
	} else if (strncmp(behaviour, "list-", 5) == 0) {
		send_page(req->id);
	} else if (strncmp(behaviour, "found-", 6) == 0) {
		send_found(req->id);
	} else if (is("more-for-ever") || is("too-much") || is("relative-path") ||
	    is("nul-in-path") || is("half-true")) {
		send_content(req->id, is("more-for-ever"));
	} else if (is("fd-absent")) {
		send_read(req->id, "/etc/passwd", -1, 1);
	} else if (is("fd-size")) {
		send_read(req->id, "/etc/passwd", open("/etc/passwd", O_RDONLY), 1u << 20);
	} else if (strncmp(behaviour, "fd-", 3) == 0) {
		send_read(req->id, "/etc/passwd", odd_descriptor(), 0);
	} else {
		_exit(4); /* an unknown behaviour must not look like a known one */
	}
}

/* Writes a bad record, as a lying worker may leave it for the host to read after its death. */
static void
misuse_record(const Koda__Request *req)
{
	static const uint8_t answer[] = { 0, 0, 0, 4, 0x08, 0x01, 0x1a, 0x00 };

	if (record == NULL)
		return;
	if (is("record-garbage")) {
		memset(record->frames, 0xff, 64);
		record->used = 64;
	} else if (is("record-no-size")) {
		record->used = UINT64_MAX;
	} else if (is("record-torn")) {
		record->frames[3] = 200;
		record->used = 100;
	} else if (is("record-zero")) {
		record->used = sizeof(record->frames);
	} else if (is("record-answer")) {
		memcpy(record->frames, answer, sizeof(answer));
		record->used = sizeof(answer);
	} else if (is("record-prepared-slash")) {
		Koda__Reply rep = KODA__REPLY__INIT;
		Koda__Prepared prepared = KODA__PREPARED__INIT;
		Koda__Outcome outcome = KODA__OUTCOME__INIT;
		size_t len;

		rep.id = req->id;
		rep.result_case = KODA__REPLY__RESULT_PREPARED;
		rep.prepared = &prepared;
		outcome.path = prepared.place = text("/a");
		prepared.has_temp = true;
		prepared.temp = text("../b");
		prepared.outcome = &outcome;
		len = koda__reply__pack(&rep, record->frames + 4);
		record->frames[3] = (uint8_t)len;
		record->used = len + 4;
	}
}

static void
take_record(const Koda__Request *req)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Done done = KODA__DONE__INIT;
	int fd = frame_take_fd(&fs);
	void *p = mmap(NULL, RECORD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	Koda__Pong pong = KODA__PONG__INIT;

	if (p == MAP_FAILED)
		_exit(6);
	record = p;
	close(fd);
	rep.id = req->id;
	rep.result_case = KODA__REPLY__RESULT_DONE;
	rep.done = &done;
	if (is("record-refused")) {
		rep.result_case = KODA__REPLY__RESULT_PONG;
		rep.pong = &pong;
	}
	send_reply(&rep);
}

static void
serve(const Koda__Request *req)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Pong pong = KODA__PONG__INIT;

	switch ((int)req->op_case) {
	case KODA__REQUEST__OP_SEAL:
		on_seal(req);
		break;
	case KODA__REQUEST__OP_PING:
		if (is("silent-ping"))
			hang();
		if (is("die-at-ping"))
			_exit(0);
		rep.id = req->id;
		rep.result_case = KODA__REPLY__RESULT_PONG;
		rep.pong = &pong;
		send_reply(&rep);
		break;
	case KODA__REQUEST__OP_RECORD:
		take_record(req);
		break;
	default:
		if (strncmp(behaviour, "record-", 7) == 0) {
			misuse_record(req);
			_exit(0);
		}
		misbehave(req);
	}
}

int
main(void)
{
	struct arena arena;
	const uint8_t *frame;
	size_t len;
	int fd;

	read_behaviour();
	arena_init(&arena);
	frame_init(&fs, 3);
	for (;;) {
		while (frame_next(&fs, &frame, &len, &err) > 0) {
			const Koda__Request *req =
			    (const Koda__Request *)message_unpack(&koda__request__descriptor, frame,
				len, &arena, &err);

			if (req == NULL)
				return 5;
			serve(req);
			arena_reset(&arena);
		}
		while ((fd = frame_take_fd(&fs)) >= 0)
			close(fd);
		if (frame_fill(&fs, true, &err) < 0)
			return 0;
	}
}
