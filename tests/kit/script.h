/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a conversation as scripts: what one sends, and what the other must see, to the
 * byte. It waits only for what must arrive. Used together with tests/kit/proxy.h.
 */
#ifndef KODA_TESTS_KIT_SCRIPT_H
#define KODA_TESTS_KIT_SCRIPT_H

#include "tests/kit/proof.h"
#include "tests/kit/proxy.h"
#include "tests/kit/sanitized.h"

static proof_unused int
origin_listen(unsigned port)
{
	int fd = rig_listen("127.0.0.1", &port);

	must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

static proof_unused bool
comes(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static proof_unused int
origin_accept(int listener)
{
	int fd;

	if (!comes(listener, PATIENCE_MS))
		fail_msg("nobody connects to the origin");
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Requires that nothing of a refused client has arrived here. */
static proof_unused void
nobody_came(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	char bytes[4096];
	ssize_t n;

	if (fd < 0)
		return;
	n = recv(fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
	bytes[n > 0 ? n : 0] = '\0';
	close(fd);
	fail_msg("the origin was connected to, and saw '%s'", bytes);
}

static proof_unused void
says_bytes(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r <= 0)
			fail_msg("send: %s", strerror(errno));
		p += r;
		n -= (size_t)r;
	}
}

static proof_unused void
says(int fd, const char *text)
{
	says_bytes(fd, text, strlen(text));
}

/* Reads exactly n bytes, or what comes before the end. */
static proof_unused size_t
hears(int fd, char *buf, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r;

		if (!comes(fd, PATIENCE_MS))
			break;
		r = recv(fd, buf + have, n - have, 0);
		if (r <= 0)
			break;
		have += (size_t)r;
	}
	return have;
}

/* Requires the next bytes to be these. */
static proof_unused void
sees(int fd, const char *who, const char *want)
{
	size_t n = strlen(want), have;
	char *got = calloc(1, n + 1);

	assert_non_null(got);
	have = hears(fd, got, n);
	if (have != n || memcmp(got, want, n) != 0)
		fail_msg("the %s saw '%s' and not '%s'", who, got, want);
	free(got);
}

/* Reads a head with its terminator, and not a byte more. */
static proof_unused void
sees_head(int fd, char *buf, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && (n < 4 || memcmp(buf + n - 4, "\r\n\r\n", 4) != 0)) {
		if (hears(fd, buf + n, 1) != 1) {
			buf[n] = '\0';
			fail_msg("the head ends with '%s'", buf);
		}
		n++;
	}
	buf[n] = '\0';
}

/* Requires an orderly end next. */
static proof_unused void
sees_end(int fd, const char *who)
{
	char c;
	ssize_t r;

	if (!comes(fd, PATIENCE_MS))
		fail_msg("the %s's connection goes on", who);
	r = recv(fd, &c, 1, 0);
	if (r != 0)
		fail_msg("the %s saw %s and not the end", who, r > 0 ? "more" : strerror(errno));
}

/* Reads until the connection breaks, and requires a reset, not an orderly end. */
static proof_unused void
sees_reset(int fd, const char *who)
{
	char buf[65536];
	ssize_t r;

	do {
		if (!comes(fd, PATIENCE_MS))
			fail_msg("the %s's connection goes on", who);
		r = recv(fd, buf, sizeof(buf), 0);
	} while (r > 0);
	if (r == 0)
		fail_msg("the %s saw an end, as if that were all", who);
	assert_int_equal(errno, ECONNRESET);
}

/* Returns the program's resident memory; 0 under a sanitizer, which keeps freed memory. */
static proof_unused uint64_t
resident(const struct rig *r)
{
	unsigned long pages = 0;
	FILE *f = fopen(proof_path("/proc/%d/statm", (int)r->child.pid), "re");

	must(f != NULL && fscanf(f, "%*u %lu", &pages) == 1);
	fclose(f);
	return SANITIZED ? 0 : (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
